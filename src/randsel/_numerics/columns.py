"""Columns of a table, in memory or elsewhere: the interface of a source, memory, blocks, scores of ranks, and order.

Functions accept arrays, on the host or on a device, and sources alike.
"""

import mmap
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from randsel._numerics.arrays import (
    ALIGNED,
    add_scaled,
    device_of,
    device_scratch_size,
    is_single,
    is_sparse,
    namespace,
    on_host,
    take_columns,
    to_numpy,
)
from randsel._utils.jobs import generator
from randsel._utils.typing import Array

#: Columns per block of element-wise work: a few hundred rows of them stay in the second-level cache.
STRIP = 512
#: Rows read from a memory map before its pages are released: the system reads more of each row than requested.
MAPPED_ROWS = 16
#: Largest size in bytes at which a sparse table is made dense as a whole.
MAX_DENSE = 1 << 28


class ColumnSource(ABC):
    """Columns of mean zero that are not one array in memory; its subclasses are dataclasses."""

    max_bytes: int
    """Bytes for columns in this process; a selection that needs no more is loaded."""
    device: str | None
    """Device that blocks are moved to, as in `to_device`."""
    rows: Array | None
    """Rows that are left after standardising; None for all."""
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

    def sum_blocks(self, width: int, function: Callable[..., Any], *shared: Any) -> Any:
        """Return the sum of what `map_blocks` yields."""
        return reduce(add, self.map_blocks(width, function, *shared))

    @abstractmethod
    def load(self, chosen: Array) -> Any:
        """Return the columns of a mask or of an index as an array."""

    @abstractmethod
    def select(self, chosen: Array) -> "ColumnSource":
        """Return the columns of a mask or of an index as a source."""

    def take_centred_rows(self, rows: Array) -> Any:
        """Return some rows of all columns, centred again: as an array if memory allows, else as a source."""
        of_rows: Any = replace(self, rows=rows if self.rows is None else self.rows[rows])  # type: ignore[type-var]
        return of_rows.keep(np.ones(self.shape[1], dtype=bool))

    def keep(self, chosen: Array) -> Any:
        """Return the columns of a mask or of an index: as an array if memory allows, else as a source."""
        selected = self.select(chosen)
        n_bytes = selected.shape[0] * selected.shape[1] * (4 if is_single(selected.dtype) else 8)
        return self.load(chosen) if n_bytes <= self.max_bytes else selected

    def map_row_blocks(self, blocks: list[Array], function: Callable[..., Any], *shared: Any) -> list[Any] | None:  # noqa: ARG002
        """Return `function(X[rows], rows, *shared)` for blocks of rows, or None if the caller has to load them."""
        return None


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


def dense_bytes(X: Any) -> int:
    """Return the size of a sparse matrix as a dense array."""
    return int(X.shape[0]) * int(X.shape[1]) * int(X.dtype.itemsize)


def canonical_csc(X: Any) -> Any:
    """Return X in compressed columns, with sorted indices and without duplicates; X itself is not changed."""
    columns = sparse.csc_array(X)
    if not columns.has_canonical_format:
        columns = columns.copy()
        columns.sum_duplicates()
    return columns


def release_pages(table: Any) -> None:
    """Release the pages of a memory map; do nothing for other arrays."""
    pages = _pages_of(table)
    if pages is not None and hasattr(mmap, "MADV_DONTNEED"):
        pages.madvise(mmap.MADV_DONTNEED)


def _pages_of(table: Any) -> mmap.mmap | None:
    """Return the pages of a memory map; None for other arrays, and for copy-on-write maps, which may hold changes."""
    base, shared = table, False
    while base is not None and not isinstance(base, mmap.mmap):
        shared |= isinstance(base, np.memmap) and base.mode in ("r", "r+", "w+")
        base = getattr(base, "base", None)
    return base if shared else None


def has_finite_sum(X: Any) -> bool:
    """Return whether the sum of all values is finite; if so, every value is finite.

    If not, some value is NaN or infinite, or the sum overflows. X may be sparse. A memory map is read a few rows at a
    time.
    """
    values = X.data if is_sparse(X) else X
    step = len(values) if _pages_of(values) is None else MAPPED_ROWS
    total = 0.0
    with np.errstate(all="ignore"):
        for start in range(0, len(values), max(step, 1)):
            total += float(values[start : start + step].sum())
            release_pages(values)
    return bool(np.isfinite(total))


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


# ---------------------------------------------------------------- scores of ranks


def normal_scores(ranks: Any) -> Any:
    """Return the normal quantiles of ranks in (0, 1). They show linear effects better than the other scores do."""
    if not on_host(ranks):
        return sys.modules["torch"].special.ndtri(ranks)
    from scipy.special import ndtri  # noqa: PLC0415 (reading a file needs no special functions)

    return ndtri(ranks)


def monotone_scores(ranks: Any) -> Any:
    """Return the sum of centred ranks, scaled to variance one, and normal scores, for ranks in (0, 1) (eq. 1').

    They show joint effects of features better than normal scores do.
    """
    return 12.0**0.5 * (ranks - 0.5) + normal_scores(ranks)


# ---------------------------------------------------------------- an order that depends on values alone


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
