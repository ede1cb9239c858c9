"""The columns that the mathematics works on: standardised, in memory or read block by block, on the host or a device.

Everything is done column by column, so that a column's values do not depend on its place.
"""

import mmap
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

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
from randsel._utils.jobs import generator
from randsel._utils.typing import Array

#: Columns to standardise at a time: a few hundred rows of them stay in cache.
STRIP = 512
#: Rows to read from a memory map at a time: the system maps far more of a row than is asked for.
MAPPED_ROWS = 16
#: Powers of unscaled values up to the fourth must neither overflow nor vanish in double precision.
UNSCALED_RANGE = (1e-50, 1e50)
ALL_CONSTANT = "Every column of X is constant, so there is nothing to select; check how the table was read."


class ColumnSource(ABC):
    """Columns of mean zero that are no array in memory; work is done on blocks of them."""

    room: int
    """Bytes that columns in memory may take: fewer columns than that are kept there."""
    device: str | None
    """Where blocks go, as in `to_device`."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""

    @property
    @abstractmethod
    def dtype(self) -> Any:
        """Of the blocks, where they go."""

    def __len__(self) -> int:
        return self.shape[0]

    @abstractmethod
    def each(self, width: int, function: Callable[..., Any], *shared: Any) -> Iterator[Any]:
        """Results of a function of blocks of at most about `block_width` columns and of what they share, in order."""

    @abstractmethod
    def total(self, width: int, function: Callable[..., Any], *shared: Any) -> Any:
        """Sum of what `map_blocks` gives."""

    @abstractmethod
    def take(self, chosen: Array) -> Any:
        """Columns of a mask or of places, in memory."""

    @abstractmethod
    def part(self, chosen: Array) -> "ColumnSource":
        """Columns of a mask or of places, left where they are."""

    @abstractmethod
    def of_rows(self, rows: Array) -> Any:
        """Return some rows of all columns, centred again; in memory if there is room."""

    def keep(self, chosen: Array) -> Any:
        """Columns of a mask or of places, in memory if there is room."""
        part = self.part(chosen)
        return self.take(chosen) if part.shape[0] * part.shape[1] * _bytes_of(part.dtype) <= self.room else part


@dataclass(frozen=True)
class MappedColumns(ColumnSource):
    """Columns that are read from a table and standardised whenever they are needed.

    Attributes
    ----------
    table
        The table as it came, often a memory map; its columns in `places` (ascending) are meant.
    places
        Numbers of the columns.
    weights, scale
        As in `standardise`.
    room
        Bytes that columns in memory may take: fewer columns than that are kept there.
    device
        Where blocks go, as in `to_device`.
    rows
        Rows that are left, after standardising; None for all.
    """

    table: Array
    places: Array
    weights: Array | None
    scale: bool
    room: int
    device: str | None = None
    rows: Array | None = None

    @classmethod
    def of(cls, table: Array, weights: Array | None, *, scale: bool, room: int, device: str | None) -> "MappedColumns":
        """Read the table once, to see which columns vary."""
        everything = cls(table, np.arange(table.shape[1]), weights, scale, room)
        varies = [standardise_columns(part, weights, scale)[1] for part in everything.raw(STRIP)]
        places = np.flatnonzero(np.concatenate(varies))
        if not len(places):
            raise ValueError(ALL_CONSTANT)
        return replace(everything, places=places, device=device)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.table) if self.rows is None else len(self.rows), len(self.places)

    @property
    def dtype(self) -> Any:
        """Of the blocks, where they go."""
        dtype = self.table.dtype if self.scale else np.float64
        return to_device(np.zeros(0, dtype=dtype), self.device).dtype

    def raw(self, width: int) -> Iterator[Array]:
        """Blocks of at most `block_width` columns as the table has them, in order."""
        width = max(2, min(width, self.room // (8 * self.table.shape[0] * self.table.itemsize)))
        for at in column_slices(len(self.places), width):
            places = self.places[at]
            low, high = int(places[0]), int(places[-1]) + 1
            block = np.empty((len(self.table), len(places)), dtype=self.table.dtype)
            for start in range(0, len(block), MAPPED_ROWS):
                rows = slice(start, start + MAPPED_ROWS)
                part = self.table[rows, low:high]
                block[rows] = part if high - low == len(places) else part[:, places - low]
                release_pages(self.table)
            yield block

    def each(self, width: int, function: Callable[..., Any], *shared: Any) -> Iterator[Any]:
        """Results of a function of standardised blocks."""
        for part in self.raw(width):
            block = centre_rows(standardise_columns(part, self.weights, self.scale)[0], self.rows)
            yield function(to_device(block, self.device), *shared)

    def total(self, width: int, function: Callable[..., Any], *shared: Any) -> Any:
        """Sum of what `map_blocks` gives."""
        return reduce(add, self.each(width, function, *shared))

    def take(self, chosen: Array) -> Any:
        """Columns of a mask or of places, in memory."""
        part = self.part(chosen)
        if not len(part.places):
            return to_device(np.zeros((len(self), 0), dtype=self.table.dtype), self.device)
        parts = list(part.each(STRIP, _itself))
        return namespace(parts[0]).concat(parts, axis=1)

    def part(self, chosen: Array) -> "MappedColumns":
        """Columns of a mask or of places, left where they are."""
        return replace(self, places=self.places[chosen])

    def of_rows(self, rows: Array) -> Any:
        """Return some rows of all columns, centred again; in memory if there is room."""
        chosen = replace(self, rows=rows if self.rows is None else self.rows[rows])
        return chosen.keep(np.ones(len(self.places), dtype=bool))


def memory_for_columns(max_memory: int | str, m: int, n: int) -> int:
    """Bytes of columns that may be in memory, of those that the whole computation on m rows and n columns may use."""
    allowed = parse_bytes(max_memory)
    # some twenty matrices over pairs of rows, some forty numbers per column, half of them for the path
    other = 160 * min(m, 2000) ** 2 + 320 * n
    # the columns are there about two and a half times while some of them are culled; in single precision, too, beside
    # double
    room = int((allowed - other) / 3.4)
    if room < 64 * 8 * m:
        msg = (
            f"max_memory={max_memory!r} is too little for {m} samples and {n} features: pairs of samples and results "
            f"take {other / 1e6:.0f} MB; allow at least {(other + 2000 * m) / 1e6:.0f} MB."
        )
        raise ValueError(msg)
    return room


def parse_bytes(size: int | str, name: str = "max_memory") -> int:
    """Read a number of bytes: 2000000000, "2GB", "1.5 GiB", "500MB"."""
    if not isinstance(size, str):
        return int(size)
    match = re.fullmatch(r"\s*([0-9.]+)\s*([kKMGT]?)(i?)[bB]?\s*", size)
    try:
        number = float(match[1]) if match else -1.0
    except ValueError:
        number = -1.0
    if match is None or number <= 0.0:
        msg = f"{name}={size!r} is not a size; write bytes as a number, or '500MB', '2GB', '1.5GiB'."
        raise ValueError(msg)
    return int(number * (1024 if match[3] else 1000) ** " kMGT".index(match[2].replace("K", "k") or " "))


def column_slices(n: int, width: int) -> Iterator[slice]:
    """Cut n columns into slices; none of a single one if n is more, as sums over its rows would round otherwise."""
    start = 0
    while start < n:
        stop = n if n - start <= width + 1 else start + width
        yield slice(start, stop)
        start = stop


def map_blocks(X: Any, on_host_width: int, function: Callable[..., Any], *shared: Any) -> Iterator[Any]:
    """Results of a function of blocks of columns and of what they share, in order; the function may travel."""
    if isinstance(X, ColumnSource):
        yield from X.each(block_width(X, on_host_width), function, *shared)
        return
    for at in column_slices(X.shape[1], block_width(X, on_host_width)):
        yield function(X[:, at], *shared)


def sum_blocks(X: Any, on_host_width: int, function: Callable[..., Any], *shared: Any) -> Any:
    """Sum of what `map_blocks` gives, which can be added."""
    if isinstance(X, ColumnSource):
        return X.total(block_width(X, on_host_width), function, *shared)
    return reduce(add, map_blocks(X, on_host_width, function, *shared))


def block_width(X: Any, on_host_width: int) -> int:
    """Columns per block: as said for arrays of the host, as many as keep a device busy otherwise."""
    streamed = isinstance(X, ColumnSource)
    if (X.device is None) if streamed else on_host(X):
        return on_host_width
    room = device_scratch_size(X.device if streamed else str(device_of(X)))
    # matrix products are far slower on columns that start at odd places
    return max(on_host_width, room // (4 * int(X.shape[0])) // ALIGNED * ALIGNED)


def load_columns(X: Any, mask: Array) -> Any:
    """Columns of a mask, in memory."""
    return X.take(mask) if isinstance(X, ColumnSource) else take_columns(X, mask)


def keep_columns(X: Any, chosen: Any) -> Any:
    """Columns of a mask or of places: in memory if X is, or if there is room."""
    return X.keep(to_numpy(chosen)) if isinstance(X, ColumnSource) else take_columns(X, chosen)


def select_columns(X: Any, chosen: Any) -> Any:
    """Columns of a mask or of places, where X is."""
    return X.part(to_numpy(chosen)) if isinstance(X, ColumnSource) else take_columns(X, chosen)


def take_centred_rows(X: Any, rows: Array) -> Any:
    """Return some rows, their columns centred again."""
    return X.of_rows(rows) if isinstance(X, ColumnSource) else centre_rows(X, rows)


def centre_rows(block: Any, rows: Array | None) -> Any:
    """Return some rows of a block, its columns centred again; all as they are for None."""
    if rows is None:
        return block
    block = block[rows]
    block -= block.mean(axis=0)
    return block


def not_finite(name: Any, is_nan: bool, count: int, others: int) -> str:
    """Say which column of X has values that are no numbers, how many, and how many other columns have."""
    what, more = "NaN" if is_nan else "infinity", "" if not others else f" and in {others} other columns"
    return f"Input X contains {what} in column {name} ({count} values){more}; impute them or drop the columns first."


def _itself(block: Any) -> Any:
    return block


def _bytes_of(dtype: Any) -> int:
    return 4 if is_single(dtype) else 8


def release_pages(table: Array) -> None:
    """Give pages of a memory map back to the system; what is read again comes from its cache or the disk.

    Only of maps that share their pages with the file: those of a map opened copy-on-write may hold changes.
    """
    base: Any = table
    shared = False
    while base is not None and not isinstance(base, mmap.mmap):
        shared |= isinstance(base, np.memmap) and base.mode in ("r", "r+", "w+")
        base = getattr(base, "base", None)
    if base is not None and shared and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def standardise(X: Any, weights: Array | None, scale: bool) -> tuple[Any, Array]:
    """Columns of mean zero and, if `scale`, weighted standard deviation one; and which columns vary at all."""
    Z, varies = standardise_columns(X, weights, scale)
    if not varies.any():
        raise ValueError(ALL_CONSTANT)
    return Z, varies


def standardise_columns(X: Any, weights: Array | None, scale: bool) -> tuple[Any, Array]:
    """Standardise some columns of a table, of which none need vary."""
    xp = namespace(X)
    dtype = X.dtype if scale else xp.float64
    Z = xp.empty(X.shape, dtype=dtype, device=device_of(X))
    alive = np.zeros(X.shape[1], dtype=bool)
    share = None if weights is None else as_array_like(weights / weights.sum(), X)
    for at in column_slices(X.shape[1], block_width(X, STRIP)):
        alive[at] = to_numpy(_standardise(X[:, at], share, scale, Z[:, at]))
    return (Z if alive.all() else take_columns(Z, alive)), alive


def _standardise(x: Any, share: Any, scale: bool, out: Any) -> Any:
    """Standardise columns into `out`, and tell which vary."""
    xp = namespace(x)
    low, high = column_ranges(x)
    varies = high > low
    peak = xp.maximum(xp.abs(low), xp.abs(high))
    if not scale:
        z = to_double(x)
        inside = to_numpy(to_double(peak))[to_numpy(varies)]
        if inside.size and not (inside.max() < UNSCALED_RANGE[1] and inside.min() > UNSCALED_RANGE[0]):
            msg = (
                f"Columns of X have largest values from {inside.min():.3g} to {inside.max():.3g}, too extreme for "
                "scale=False; use scale=True."
            )
            raise ValueError(msg)
        out[:] = z - xp.mean(z, axis=0)
        return varies
    # a power of two changes no digit, and keeps squares of 1e30 and 1e-30 in range
    least, most = to_floats(xp.where(peak > 0, peak, 1.0).min(), peak.max())
    if least < 2.0**-20 or most > 2.0**20:
        exponents = -np.frexp(to_numpy(to_double(peak)))[1]
        x = x * as_array_like(np.exp2(np.clip(exponents, -100, 100)), x, precise=False)
        # in two steps: the power itself may be out of range
        x *= as_array_like(np.exp2(exponents - np.clip(exponents, -100, 100)), x, precise=False)
    # differences of neighbouring numbers are exact: a small spread around a large value keeps its digits
    z = x - x[0, :]
    z -= xp.mean(z, axis=0)
    # differences are no smaller than the digits of the largest value, so that their squares do not vanish
    even = share is None
    spread = _mean_square(z) if even else _mean(to_double(z) ** 2, share) - _mean(z, share) ** 2
    # a column that varies by less than the rounding of its own mean
    varies &= spread > 0.0
    spread = xp.sqrt(xp.where(varies, spread, xp.ones_like(spread)))
    z /= astype(spread, z.dtype)
    xp.subtract(z, xp.mean(z, axis=0), out=out)
    return varies


def _mean_square(z: Any) -> Any:
    """Mean of squares over the rows, in double precision."""
    if on_host(z):
        return _mean(z * z, None)
    xp = namespace(z)
    return xp.linalg.vector_norm(z, axis=0, dtype=xp.float64) ** 2 / z.shape[0]


def _mean(z: Any, share: Any) -> Any:
    """Mean over the rows in double precision, weighted by `share`."""
    xp = namespace(z)
    if share is None:
        if on_host(z) and is_single(z.dtype):
            return xp.sum(z, axis=0, dtype=xp.float64) / z.shape[0]
        return to_double(xp.mean(z, axis=0))
    return xp.sum(z * share[:, None], axis=0)


def rescale_extremes(X: Array) -> Array:
    """Columns of extreme size in units of a power of two, so that other people's sums of squares stay in range."""
    peak = np.abs(X).max(axis=0, initial=0.0)
    extreme = (peak > 0.0) & ((peak > 1e15) | (peak < 1e-10))
    if not extreme.any():
        return X
    return np.ldexp(X, np.where(extreme, -np.frexp(peak)[1], 0))


def canonical_order(Z: Any) -> Array:
    """Order the columns by what they hold, not by where they stand: draws and rounding then follow them."""
    return to_numpy(namespace(Z).argsort(column_keys(Z), stable=True))


def column_keys(Z: Any) -> Any:
    """Return a number per column that depends on its values alone.

    Row by row, because a matrix product may round a column differently at another place.
    """
    xp = namespace(Z)
    keys = xp.zeros(Z.shape[1], dtype=xp.float64, device=device_of(Z))
    for factor, row in zip(generator(0).standard_normal(Z.shape[0]).tolist(), Z, strict=True):
        if on_host(Z):
            keys += factor * row  # BLAS would round the last columns differently
        else:
            add_scaled(keys, row, factor)
    return keys
