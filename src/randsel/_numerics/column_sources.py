"""Sources of standardised columns that are not one array in memory: tables read in blocks, and sparse matrices."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from randsel._numerics.arrays import namespace, to_device
from randsel._numerics.columns import MAPPED_ROWS, STRIP, ColumnSource, centre_rows, column_slices, release_pages
from randsel._numerics.nuisance import MIN_LEFT, Nuisance
from randsel._numerics.standardise import ALL_CONSTANT, standardise_columns
from randsel._utils.typing import Array

#: Bytes for columns of a sparse table in memory at a time, if `max_memory` does not say how many.
DEFAULT_BYTES = 1 << 29


@dataclass(frozen=True)
class Scaling:
    """How columns are standardised; `standardise` describes the arguments."""

    weights: Array | None
    scale: bool | str
    max_missing: float = 1.0
    nuisance: Nuisance | None = None

    def apply(self, block: Array) -> tuple[Array, Array]:
        """Return the columns of a block that vary, standardised, and a mask of them."""
        return standardise_columns(block, self.weights, self.scale, self.max_missing, self.nuisance)


def _block_width(width: int, max_bytes: int, X: Any) -> int:
    """Return the columns per block: an eighth of the memory, because blocks are copied when they are computed with."""
    return max(2, min(width, max_bytes // (8 * int(X.shape[0]) * int(X.dtype.itemsize))))


# ---------------------------------------------------------------- tables read in blocks


@dataclass(frozen=True)
class MappedColumns(ColumnSource):
    """Columns that are read from a table and standardised whenever they are needed.

    Attributes
    ----------
    table
        The table as the user passed it, often a memory map.
    columns
        Indices of the columns of the table that belong to this source, ascending.
    scaling
        How they are standardised.
    max_bytes, device
        As in `ColumnSource`.
    rows
        Rows that are left after standardising; None for all.
    """

    table: Array
    columns: Array
    scaling: Scaling
    max_bytes: int
    device: str | None = None
    rows: Array | None = None

    @classmethod
    def from_table(cls, table: Array, scaling: Scaling, *, max_bytes: int, device: str | None) -> "MappedColumns":
        """Return the columns that vary; reads the table once to find them."""
        all_columns = cls(table, np.arange(table.shape[1]), scaling, max_bytes)
        varies = [scaling.apply(block)[1] for block in all_columns.raw_blocks(STRIP)]
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
        dtype = self.table.dtype if self.scaling.scale else np.float64  # as in `standardise_columns`
        return to_device(np.zeros(0, dtype=dtype), self.device).dtype

    def raw_blocks(self, width: int) -> Iterator[Array]:
        """Yield consecutive blocks of at most `width` columns as the table holds them."""
        for piece in column_slices(len(self.columns), _block_width(width, self.max_bytes, self.table)):
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
            block = centre_rows(self.scaling.apply(raw)[0], self.rows)
            yield function(to_device(block, self.device), *shared)

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


def _identity(block: Any) -> Any:
    return block


# ---------------------------------------------------------------- sparse matrices
# All zeros of a column have one rank and one value: a standardised column is constant except at the stored values.


def stored_bytes(X: Any) -> int:
    """Return the size of the standardised values of a sparse matrix: values and indices, by columns and by rows."""
    return 2 * int(X.nnz) * (int(X.dtype.itemsize) + int(X.indices.itemsize))


@dataclass(frozen=True)
class Explained:
    """What nuisance variables explain of the columns: `basis @ coefficients`, and factors of what is left of them."""

    basis: Array
    coefficients: Array
    factors: Array

    def remove_from(self, block: Array, rows: Array | None, columns: Array) -> None:
        """Remove it from some rows and columns, in place."""
        basis = self.basis if rows is None else self.basis[rows]
        block -= basis @ self.coefficients[:, columns]
        block *= self.factors[columns]


@dataclass(frozen=True)
class SparseColumns(ColumnSource):
    """Standardised columns of a sparse matrix.

    Attributes
    ----------
    by_column, by_row
        Standardised values at the stored positions, in compressed columns (CSC) and in compressed rows (CSR).
    offsets
        Standardised value of the zeros of every column.
    columns
        Indices of the columns of these matrices that belong to this source.
    max_bytes, device
        As in `ColumnSource`.
    explained
        What nuisance variables explain; None without any.
    rows
        Rows that are left after standardising; None for all.
    """

    by_column: Any
    by_row: Any
    offsets: Array
    columns: Array
    max_bytes: int
    device: str | None = None
    explained: Explained | None = None
    rows: Array | None = None

    @classmethod
    def from_matrix(
        cls, X: Any, scaling: Scaling, *, max_bytes: int, device: str | None
    ) -> tuple["SparseColumns", Array]:
        """Standardise the columns of a canonical CSC matrix; return those that vary, and their indices in X.

        Blocks of columns are made dense for this, and have the same values as those of a dense table.
        """
        nuisance = scaling.nuisance  # removed by `Explained`, because it would fill in the zeros
        scaling = replace(scaling, nuisance=None)
        blocks: list[tuple[Any, Array, Explained | None]] = []
        varies = np.zeros(X.shape[1], dtype=bool)
        for piece in column_slices(X.shape[1], _block_width(STRIP, max_bytes, X)):
            raw = X[:, piece]
            Z, varies[piece] = scaling.apply(raw.toarray())
            explained = None
            if nuisance is not None:
                Z, varying, explained = _explain(Z, nuisance, rescale=bool(scaling.scale))
                of_piece = varies[piece]  # a view
                of_piece[of_piece] = varying
            blocks.append((*_keep_stored(Z, raw[:, np.flatnonzero(varies[piece])]), explained))
        if not varies.any():
            raise ValueError(ALL_CONSTANT)
        matrices, offsets, explanations = zip(*blocks, strict=True)
        by_column = sparse.hstack(matrices, format="csc")
        columns = np.arange(by_column.shape[1])
        source = cls(by_column, by_column.tocsr(), np.concatenate(offsets), columns, max_bytes, device)
        if nuisance is not None:
            source = replace(source, explained=_join_blocks(explanations))
        return source, np.flatnonzero(varies)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return self.by_column.shape[0] if self.rows is None else len(self.rows), len(self.columns)

    @property
    def dtype(self) -> Any:
        """Type of the blocks, on their device."""
        return to_device(np.zeros(0, dtype=self.by_column.dtype), self.device).dtype

    def map_blocks(self, width: int, function: Callable[..., Any], *shared: Any) -> Iterator[Any]:
        """Yield `function(block, *shared)` for consecutive standardised blocks."""
        for piece in column_slices(len(self.columns), _block_width(width, self.max_bytes, self.by_column)):
            yield function(to_device(self._to_dense(self.columns[piece]), self.device), *shared)

    def load(self, chosen: Array) -> Any:
        """Return the columns of a mask or of an index as an array."""
        return to_device(self._to_dense(self.columns[chosen]), self.device)

    def select(self, chosen: Array) -> "SparseColumns":
        """Return the columns of a mask or of an index as a source."""
        return replace(self, columns=self.columns[chosen])

    def _to_dense(self, columns: Array) -> Array:
        """Return some columns as an array, of all rows, or of `rows` and then centred again."""
        if self.rows is None:
            stored = self.by_column[:, columns]
            positions = stored.indices, np.repeat(np.arange(len(columns)), np.diff(stored.indptr))
        else:
            stored = self.by_row[self.rows]
            if len(columns) < stored.shape[1]:
                stored = stored[:, columns]
            positions = np.repeat(np.arange(len(self.rows)), np.diff(stored.indptr)), stored.indices
        block = np.empty((len(self), len(columns)), dtype=self.by_column.dtype)
        block[:] = self.offsets[columns]
        block[positions] = stored.data
        if self.explained is not None:
            self.explained.remove_from(block, self.rows, columns)
        if self.rows is not None:
            block -= block.mean(axis=0)
        return block


def _keep_stored(Z: Array, pattern: Any) -> tuple[Any, Array]:
    """Return the values of dense columns at the stored positions, and the value of the zeros of every column."""
    m, n = Z.shape
    columns = np.repeat(np.arange(n), np.diff(pattern.indptr))
    # The first row that is not stored: the number of stored rows that are the first ones, because they are sorted.
    starts = np.arange(len(pattern.indices)) - pattern.indptr[columns]
    leading = np.bincount(columns[pattern.indices == starts], minlength=n)
    offsets = np.where(leading < m, Z[np.minimum(leading, m - 1), np.arange(n)], 0.0).astype(Z.dtype)
    stored = sparse.csc_array((Z[pattern.indices, columns], pattern.indices, pattern.indptr), shape=(m, n))
    return stored, offsets


def _explain(Z: Array, nuisance: Nuisance, *, rescale: bool) -> tuple[Array, Array, Explained]:
    """Return the columns of which nuisance variables leave enough, a mask of these, and what is explained of them."""
    basis, coefficients = nuisance.explain_columns(Z)
    left = nuisance.remove_from_columns(Z.copy(), rescale=False)
    varying = left > MIN_LEFT
    factors = 1.0 / np.sqrt(left[varying]) if rescale else np.ones(int(varying.sum()))
    return Z[:, varying], varying, Explained(basis, coefficients[:, varying], factors.astype(Z.dtype))


def _join_blocks(explanations: Any) -> Explained:
    """Join what is explained of the columns of consecutive blocks."""
    return Explained(
        explanations[0].basis,
        np.concatenate([explained.coefficients for explained in explanations], axis=1),
        np.concatenate([explained.factors for explained in explanations]),
    )
