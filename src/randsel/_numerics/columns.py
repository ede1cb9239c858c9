"""Columns of the table: standardised, in memory or read block by block, on the host or on a device.

All work is done column by column, so that the values of a column do not depend on its position.
"""

import mmap
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, ClassVar

import numpy as np

from randsel._numerics.arrays import (
    ALIGNED,
    add_scaled,
    as_array_like,
    astype,
    column_ranges,
    device_of,
    device_scratch_size,
    is_single,
    namespace,
    on_host,
    take_columns,
    to_device,
    to_double,
    to_floats,
    to_numpy,
)
from randsel._numerics.missing import fill_with_means, fill_with_values, missing_mask, too_many_missing
from randsel._numerics.normal_scores import normal_scores_into
from randsel._numerics.nuisance import MIN_LEFT, Nuisance
from randsel._utils.jobs import generator
from randsel._utils.typing import Array

#: Columns standardised at a time: a few hundred rows of them stay in cache.
STRIP = 512
#: Rows read from a memory map before its pages are released: the system reads more of each row than requested.
MAPPED_ROWS = 16
#: Range of unscaled values whose fourth powers neither overflow nor underflow in double precision.
UNSCALED_RANGE = (1e-50, 1e50)
ALL_CONSTANT = (
    "Every column of X is constant, or has more missing values than max_missing allows, so there is nothing to select; "
    "check how the table was read."
)


class ColumnSource(ABC):
    """Columns of mean zero that are not one array in memory; functions of this file accept arrays and sources alike."""

    max_bytes: int
    """Bytes for columns in this process; a selection that needs no more is loaded."""
    device: str | None
    """Device that blocks are moved to, as in `to_device`."""
    computes_elsewhere: ClassVar[bool] = False
    """Whether other processes evaluate the functions; this process then runs one job at a time."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""

    @property
    @abstractmethod
    def dtype(self) -> Any:
        """Type of the blocks, on their device."""

    def __len__(self) -> int:
        return self.shape[0]

    @abstractmethod
    def map_blocks(self, width: int, function: Callable[..., Any], *shared: Any) -> Iterator[Any]:
        """Yield `function(block, *shared)` for consecutive blocks of at most about `width` columns."""

    @abstractmethod
    def sum_blocks(self, width: int, function: Callable[..., Any], *shared: Any) -> Any:
        """Return the sum of what `map_blocks` yields."""

    @abstractmethod
    def load(self, chosen: Array) -> Any:
        """Return the columns of a mask or of an index as an array."""

    @abstractmethod
    def select(self, chosen: Array) -> "ColumnSource":
        """Return the columns of a mask or of an index as a source."""

    @abstractmethod
    def take_centred_rows(self, rows: Array) -> Any:
        """Return some rows of all columns, centred again: as an array if memory allows, else as a source."""

    def keep(self, chosen: Array) -> Any:
        """Return the columns of a mask or of an index: as an array if memory allows, else as a source."""
        selected = self.select(chosen)
        n_bytes = selected.shape[0] * selected.shape[1] * (4 if is_single(selected.dtype) else 8)
        return self.load(chosen) if n_bytes <= self.max_bytes else selected

    def map_row_blocks(self, blocks: list[Array], function: Callable[..., Any], *shared: Any) -> list[Any] | None:  # noqa: ARG002
        """Return `function(X[rows], rows, *shared)` for blocks of rows, or None if the caller has to load them."""
        return None


@dataclass(frozen=True)
class MappedColumns(ColumnSource):
    """Columns that are read from a table and standardised whenever they are needed.

    Attributes
    ----------
    table
        The table as the user passed it, often a memory map.
    columns
        Indices of the columns of the table that belong to this source, ascending.
    weights, scale, max_missing, nuisance
        As in `standardise`.
    max_bytes, device
        As in `ColumnSource`.
    rows
        Rows that are left after standardising; None for all.
    """

    table: Array
    columns: Array
    weights: Array | None
    scale: bool | str
    max_bytes: int
    device: str | None = None
    rows: Array | None = None
    max_missing: float = 1.0
    nuisance: Nuisance | None = None

    @classmethod
    def from_table(
        cls,
        table: Array,
        weights: Array | None,
        *,
        scale: bool | str,
        max_bytes: int,
        device: str | None,
        max_missing: float = 1.0,
        nuisance: Nuisance | None = None,
    ) -> "MappedColumns":
        """Return the columns that vary; reads the table once to find them."""
        all_columns = cls(
            table, np.arange(table.shape[1]), weights, scale, max_bytes, None, None, max_missing, nuisance
        )
        varies = [all_columns.standardise(block)[1] for block in all_columns.raw_blocks(STRIP)]
        columns = np.flatnonzero(np.concatenate(varies))
        if not len(columns):
            raise ValueError(ALL_CONSTANT)
        return replace(all_columns, columns=columns, device=device)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return len(self.table) if self.rows is None else len(self.rows), len(self.columns)

    @property
    def dtype(self) -> Any:
        """Type of the blocks, on their device."""
        dtype = self.table.dtype if self.scale else np.float64  # as in `standardise_columns`
        return to_device(np.zeros(0, dtype=dtype), self.device).dtype

    def standardise(self, block: Array) -> tuple[Array, Array]:
        """Standardise a block of the table; return the columns that vary, and a mask of them."""
        return standardise_columns(block, self.weights, self.scale, self.max_missing, self.nuisance)

    def raw_blocks(self, width: int) -> Iterator[Array]:
        """Yield consecutive blocks of at most `width` columns as the table holds them."""
        # An eighth of the memory: blocks are copied when they are standardised.
        width = max(2, min(width, self.max_bytes // (8 * self.table.shape[0] * self.table.itemsize)))
        for piece in column_slices(len(self.columns), width):
            columns = self.columns[piece]
            low, high = int(columns[0]), int(columns[-1]) + 1  # a view, from which columns are picked
            block = np.empty((len(self.table), len(columns)), dtype=self.table.dtype)
            for start in range(0, len(block), MAPPED_ROWS):
                rows = slice(start, start + MAPPED_ROWS)
                mapped = self.table[rows, low:high]
                block[rows] = mapped if high - low == len(columns) else mapped[:, columns - low]
                release_pages(self.table)
            yield block

    def map_blocks(self, width: int, function: Callable[..., Any], *shared: Any) -> Iterator[Any]:
        """Yield `function(block, *shared)` for consecutive standardised blocks."""
        for raw in self.raw_blocks(width):
            block = centre_rows(self.standardise(raw)[0], self.rows)
            yield function(to_device(block, self.device), *shared)

    def sum_blocks(self, width: int, function: Callable[..., Any], *shared: Any) -> Any:
        """Return the sum of what `map_blocks` yields."""
        return reduce(add, self.map_blocks(width, function, *shared))

    def load(self, chosen: Array) -> Any:
        """Return the columns of a mask or of an index as an array."""
        selected = self.select(chosen)
        if not len(selected.columns):
            return to_device(np.zeros((len(self), 0), dtype=self.table.dtype), self.device)
        blocks = list(selected.map_blocks(STRIP, _identity))
        return namespace(blocks[0]).concat(blocks, axis=1)

    def select(self, chosen: Array) -> "MappedColumns":
        """Return the columns of a mask or of an index as a source."""
        return replace(self, columns=self.columns[chosen])

    def take_centred_rows(self, rows: Array) -> Any:
        """Return some rows of all columns, centred again: as an array if memory allows, else as a source."""
        chosen = replace(self, rows=rows if self.rows is None else self.rows[rows])
        return chosen.keep(np.ones(len(self.columns), dtype=bool))


def _identity(block: Any) -> Any:
    return block


# ---------------------------------------------------------------- memory


def memory_for_columns(max_memory: int | str, m: int, n: int) -> int:
    """Return the bytes left for columns when a fit of m rows and n columns may use `max_memory` in all."""
    allowed = parse_bytes(max_memory)
    # Some twenty matrices over pairs of rows, some forty numbers per column, half of them for the path.
    overhead = 160 * min(m, 2000) ** 2 + 320 * n
    # Culling holds about two and a half copies of the columns, and copies in single precision: 3.4 in all.
    left = int((allowed - overhead) / 3.4)
    if left < 64 * 8 * m:
        raise ValueError(
            f"max_memory={max_memory!r} is too little for {m} samples and {n} features: pairs of samples and results "
            f"take {overhead / 1e6:.0f} MB; allow at least {(overhead + 2000 * m) / 1e6:.0f} MB."
        )
    return left


def parse_bytes(size: int | str, name: str = "max_memory") -> int:
    """Return a size such as 2000000000, "2GB", "1.5 GiB" or "500MB" in bytes."""
    if not isinstance(size, str):
        return int(size)
    match = re.fullmatch(r"\s*([0-9.]+)\s*([kKMGT]?)(i?)[bB]?\s*", size)
    try:
        number = float(match[1]) if match else -1.0
    except ValueError:
        number = -1.0
    if match is None or number <= 0.0:
        raise ValueError(f"{name}={size!r} is not a size; write bytes as a number, or '500MB', '2GB', '1.5GiB'.")
    return int(number * (1024 if match[3] else 1000) ** " kMGT".index(match[2].replace("K", "k") or " "))


def release_pages(table: Array) -> None:
    """Release the pages of a memory map, unless copy-on-write: those may hold changes that the file does not."""
    base: Any = table
    shared = False
    while base is not None and not isinstance(base, mmap.mmap):
        shared |= isinstance(base, np.memmap) and base.mode in ("r", "r+", "w+")
        base = getattr(base, "base", None)
    if base is not None and shared and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


# ---------------------------------------------------------------- blocks of arrays and of sources


def column_slices(n: int, width: int) -> Iterator[slice]:
    """Cut n columns into slices of `width`; a last single column joins its neighbour.

    NumPy sums a single column in another order than several columns, which would change the rounding.
    """
    start = 0
    while start < n:
        stop = n if n - start <= width + 1 else start + width
        yield slice(start, stop)
        start = stop


def map_blocks(X: Any, host_width: int, function: Callable[..., Any], *shared: Any) -> Iterator[Any]:
    """Yield `function(block, *shared)` for consecutive blocks of columns; the function must be picklable."""
    if isinstance(X, ColumnSource):
        yield from X.map_blocks(block_width(X, host_width), function, *shared)
        return
    for piece in column_slices(X.shape[1], block_width(X, host_width)):
        yield function(X[:, piece], *shared)


def sum_blocks(X: Any, host_width: int, function: Callable[..., Any], *shared: Any) -> Any:
    """Return the sum of what `map_blocks` yields."""
    if isinstance(X, ColumnSource):
        return X.sum_blocks(block_width(X, host_width), function, *shared)
    return reduce(add, map_blocks(X, host_width, function, *shared))


def block_width(X: Any, host_width: int) -> int:
    """Return the columns per block: `host_width` on the host; on a device, as many as fit in a scratch array."""
    is_source = isinstance(X, ColumnSource)
    if (X.device is None) if is_source else on_host(X):
        return host_width
    available = device_scratch_size(X.device if is_source else str(device_of(X)))
    # Matrix products are far slower on blocks that are not aligned.
    return max(host_width, available // (4 * int(X.shape[0])) // ALIGNED * ALIGNED)


def load_columns(X: Any, mask: Array) -> Any:
    """Return the columns of a mask as an array."""
    return X.load(mask) if isinstance(X, ColumnSource) else take_columns(X, mask)


def keep_columns(X: Any, chosen: Any) -> Any:
    """Return the columns of a mask or of an index: as an array if X is one or memory allows."""
    return X.keep(to_numpy(chosen)) if isinstance(X, ColumnSource) else take_columns(X, chosen)


def select_columns(X: Any, chosen: Any) -> Any:
    """Return the columns of a mask or of an index, as an array or a source like X."""
    return X.select(to_numpy(chosen)) if isinstance(X, ColumnSource) else take_columns(X, chosen)


def take_centred_rows(X: Any, rows: Array) -> Any:
    """Return some rows, their columns centred again."""
    return X.take_centred_rows(rows) if isinstance(X, ColumnSource) else centre_rows(X, rows)


def centre_rows(block: Any, rows: Array | None) -> Any:
    """Return some rows of a block, its columns centred again; the block itself for None."""
    if rows is None:
        return block
    block = block[rows]
    block -= block.mean(axis=0)
    return block


# ---------------------------------------------------------------- standardising


def standardise(
    X: Any, weights: Array | None, scale: bool | str, max_missing: float = 1.0, nuisance: Nuisance | None = None
) -> tuple[Any, Array]:
    """Return the columns that vary, with mean zero and, unless `scale` is False, standard deviation one, and a mask.

    With `scale="normal"` they are normal scores. Standard deviations are weighted. A missing value (NaN) gets the
    weighted mean of the observed values of its column, whose standard deviation is one: 0, if weights are equal.
    Nuisance variables are projected out of the columns. Columns that these explain, and columns in which a larger
    fraction than `max_missing` is missing, count as constant. Raises ValueError if no column varies.
    """
    Z, varies = standardise_columns(X, weights, scale, max_missing, nuisance)
    if not varies.any():
        raise ValueError(ALL_CONSTANT)
    return Z, varies


def standardise_columns(
    X: Any, weights: Array | None, scale: bool | str, max_missing: float = 1.0, nuisance: Nuisance | None = None
) -> tuple[Any, Array]:
    """Return what `standardise` returns, also if no column varies."""
    xp = namespace(X)
    dtype = X.dtype if scale else xp.float64
    Z = xp.empty(X.shape, dtype=dtype, device=device_of(X))
    varies = np.zeros(X.shape[1], dtype=bool)
    row_weights = None if weights is None else as_array_like(weights / weights.sum(), X)
    for piece in column_slices(X.shape[1], block_width(X, STRIP)):
        x, out = X[:, piece], Z[:, piece]
        if scale == "normal":
            varies[piece] = to_numpy(normal_scores_into(out, x, row_weights))
        else:
            varies[piece] = to_numpy(_scale_into(out, x, row_weights) if scale else _centre_into(out, x, row_weights))
        if max_missing < 1.0 and (missing := missing_mask(x)) is not None:
            varies[piece] &= ~too_many_missing(to_numpy(missing.sum(axis=0)), len(x), max_missing)
        if nuisance is not None:
            varies[piece] &= to_numpy(nuisance.remove_from_columns(out, rescale=bool(scale)) > MIN_LEFT)
    return (Z if varies.all() else take_columns(Z, varies)), varies


def _centre_into(out: Any, x: Any, row_weights: Any) -> Any:
    """Write centred columns into `out` and return which of them vary."""
    xp, missing = namespace(x), missing_mask(x)
    if missing is not None:
        x = fill_with_values(x, missing)
    low, high = column_ranges(x)
    varies = high > low
    peaks = to_numpy(to_double(xp.maximum(xp.abs(low), xp.abs(high))))[to_numpy(varies)]
    if peaks.size and not (peaks.max() < UNSCALED_RANGE[1] and peaks.min() > UNSCALED_RANGE[0]):
        raise ValueError(
            f"Columns of X have largest values from {peaks.min():.3g} to {peaks.max():.3g}, too extreme for "
            "scale=False; use scale=True."
        )
    z = to_double(x)
    if missing is not None:
        z = fill_with_means(z, missing, row_weights)[0]
    out[:] = z - xp.mean(z, axis=0)
    if missing is not None and row_weights is None:
        out[missing] = 0.0  # without rounding errors
    return varies


def _scale_into(out: Any, x: Any, row_weights: Any) -> Any:
    """Write centred columns of standard deviation one into `out` and return which of them vary."""
    xp, missing = namespace(x), missing_mask(x)
    if missing is not None:
        x = fill_with_values(x, missing)
    low, high = column_ranges(x)
    varies = high > low
    peak = xp.maximum(xp.abs(low), xp.abs(high))
    # A power of two changes no digit, and keeps squares of 1e30 and 1e-30 in range.
    least, most = to_floats(xp.where(peak > 0, peak, 1.0).min(), peak.max())
    if least < 2.0**-20 or most > 2.0**20:
        exponents = -np.frexp(to_numpy(to_double(peak)))[1]
        x = x * as_array_like(np.exp2(np.clip(exponents, -100, 100)), x, precise=False)
        # In two steps, because the power itself may be out of range.
        x *= as_array_like(np.exp2(exponents - np.clip(exponents, -100, 100)), x, precise=False)
    # Differences of neighbouring numbers are exact, so a small spread around a large value keeps its digits.
    z = x - x[0, :]
    if missing is not None:
        z, observed_weight = fill_with_means(z, missing, row_weights)
    z -= xp.mean(z, axis=0)
    # Differences are no smaller than the last digit of the largest value, so their squares do not vanish.
    if row_weights is None:
        variance = _mean_square(z)
    else:
        variance = _mean(to_double(z) ** 2, row_weights) - _mean(z, row_weights) ** 2
    if missing is not None:
        variance = variance / observed_weight
    # A column that varies by less than the rounding of its own mean counts as constant.
    varies &= variance > 0.0
    deviation = xp.sqrt(xp.where(varies, variance, xp.ones_like(variance)))
    z /= astype(deviation, z.dtype)
    xp.subtract(z, xp.mean(z, axis=0), out=out)  # scaling has rounded, so centre again
    if missing is not None and row_weights is None:
        out[missing] = 0.0  # without rounding errors
    return varies


def _mean_square(z: Any) -> Any:
    """Return the mean of squares over the rows, in double precision."""
    if on_host(z):  # single precision is squared as it is, and summed in double
        return _mean(z * z, None)
    xp = namespace(z)
    return xp.linalg.vector_norm(z, axis=0, dtype=xp.float64) ** 2 / z.shape[0]


def _mean(z: Any, row_weights: Any) -> Any:
    """Return the mean over the rows in double precision, with weights of sum one."""
    xp = namespace(z)
    if row_weights is None:
        if on_host(z) and is_single(z.dtype):
            return xp.sum(z, axis=0, dtype=xp.float64) / z.shape[0]
        return to_double(xp.mean(z, axis=0))
    return xp.sum(z * row_weights[:, None], axis=0)


def rescale_extremes(X: Array) -> Array:
    """Divide columns of extreme size by a power of two, so that sums of squares in other libraries stay in range."""
    peak = np.fmax.reduce(np.abs(X), axis=0, initial=0.0)  # without missing values
    extreme = (peak > 0.0) & ((peak > 1e15) | (peak < 1e-10))
    if not extreme.any():
        return X
    return np.ldexp(X, np.where(extreme, -np.frexp(peak)[1], 0))


def canonical_order(Z: Any) -> Array:
    """Return an order of the columns by their values, so that results do not depend on the order of the table."""
    return to_numpy(namespace(Z).argsort(column_keys(Z), stable=True))


def column_keys(Z: Any) -> Any:
    """Return a number per column that depends on its values alone: their sum with fixed random factors."""
    xp = namespace(Z)
    keys = xp.zeros(Z.shape[1], dtype=xp.float64, device=device_of(Z))
    for factor, row in zip(generator(0).standard_normal(Z.shape[0]).tolist(), Z, strict=True):
        if on_host(Z):
            keys += factor * row  # row by row: BLAS rounds a column differently at another position
        else:
            add_scaled(keys, row, factor)
    return keys
