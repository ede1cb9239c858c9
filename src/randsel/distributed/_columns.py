"""Standardised columns that the workers of a Dask cluster hold; functions of blocks are evaluated there.

The workers receive a function and what all blocks share, at most matrices over pairs of rows. They return sums over
columns as one such matrix, or a few numbers per column. Dask computes the blocks of lost workers again.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from operator import add
from typing import Any, ClassVar

import numpy as np

from randsel._numerics.arrays import take_columns
from randsel._numerics.column_sources import Scaling
from randsel._numerics.columns import ColumnSource, centre_rows, map_blocks, sum_blocks
from randsel._numerics.missing import count_nonfinite, find_refused
from randsel._numerics.standardise import ALL_CONSTANT
from randsel._utils.jobs import one_blas_thread
from randsel._utils.typing import Array
from randsel.distributed._client import Executor, delay, delay_argument, identity

#: Fraction of the cluster's memory that the table may take to be kept there.
MEMORY_FRACTION = 0.25


@dataclass(frozen=True)
class ClusterColumns(ColumnSource):
    """Standardised columns in blocks, which Dask computes on a cluster or in this process."""

    blocks: tuple[Any, ...]  # delayed blocks of columns, with all rows
    block_widths: tuple[int, ...]  # number of columns of every block
    #: For every block, the ascending indices of its columns that belong to this source; None for all.
    selected: tuple[Array | None, ...]
    n_rows: int  # of every block
    block_dtype: Any
    max_bytes: int  # memory for columns in this process
    #: Whether the workers keep the blocks in memory, and narrow them as columns are culled; otherwise blocks are
    #: computed from the table whenever they are needed.
    is_persisted: bool
    executor: Executor  # computes the delayed values
    n_missing: Array  # number of missing values of every column of the table, also of those that do not vary
    rows: Array | None = None  # rows that remain, after standardising; None for all
    device: None = None
    computes_elsewhere: ClassVar[bool] = True

    @classmethod
    def from_array(cls, X: Any, scaling: Scaling, max_bytes: int | None) -> tuple["ClusterColumns", Array]:
        """Return the columns of a Dask array that vary, standardised, and their indices."""
        X, executor = rechunk_by_columns(X), Executor.for_array(X)
        standardise, delayed_scaling = delay(_standardise_block, nout=2), delay_argument(scaling)
        results = [standardise(chunk, delayed_scaling) for chunk in X.to_delayed()[0]]
        blocks, summaries = [block for block, _ in results], [summary for _, summary in results]
        is_persisted = X.nbytes < MEMORY_FRACTION * executor.memory()
        if is_persisted:
            tasks = executor.persist([*blocks, *summaries])
            blocks, summaries = tasks[: len(blocks)], tasks[len(blocks) :]
        masks, nonfinite = zip(*executor.compute(summaries), strict=True)
        n_missing = check_finite(nonfinite)
        varies = np.concatenate(masks)
        if not varies.any():
            raise ValueError(ALL_CONSTANT)
        dtype = X.dtype if scaling.scale else np.dtype(np.float64)
        if max_bytes is None:
            # the largest block of the table on a worker, or a matrix of 2000 × 2000 pairs of rows
            max_bytes = max(max(X.chunks[1]) * len(X) * dtype.itemsize, 8 * min(len(X), 2000) ** 2)
        columns = cls(
            blocks=tuple(blocks),
            block_widths=tuple(int(mask.sum()) for mask in masks),
            selected=(None,) * len(blocks),
            n_rows=len(X),
            block_dtype=dtype,
            max_bytes=max_bytes,
            is_persisted=is_persisted,
            executor=executor,
            n_missing=n_missing,
        )
        return columns._without_empty_blocks(), np.flatnonzero(varies)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Number of selected columns of every block."""
        pairs = zip(self.block_widths, self.selected, strict=True)
        return tuple(width if indices is None else len(indices) for width, indices in pairs)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return self.n_rows if self.rows is None else len(self.rows), sum(self.widths)

    @property
    def dtype(self) -> Any:
        """Type of the blocks."""
        return self.block_dtype

    def map_blocks(self, width: int, function: Callable[..., Any], *shared: Any) -> Iterator[Any]:
        """Yield `function(block, *shared)` for consecutive blocks, computed where these are."""
        for results in self.executor.compute(self._delay(_map_block, self.rows, width, function, *shared)):
            yield from results

    def sum_blocks(self, width: int, function: Callable[..., Any], *shared: Any) -> Any:
        """Return the sum of what `map_blocks` yields, added pairwise on the cluster."""
        sums = self._delay(sum_blocks, self.rows, width, function, *shared)
        while len(sums) > 1:
            pairs = zip(sums[::2], sums[1::2], strict=False)
            sums = [*(delay(add)(*pair) for pair in pairs), *sums[len(sums) // 2 * 2 :]]
        return self.executor.compute(sums)[0]

    def _delay(self, function: Callable[..., Any], rows: Array | None, *arguments: Any) -> list[Any]:
        """Return delayed calls `function(block, *arguments)` on some rows of the selected columns of every block."""
        shared = [delay_argument(argument) for argument in (rows, *arguments)]
        blocks = zip(self.blocks, self.selected, strict=True)
        return [delay(_call_on_block)(function, block, indices, *shared) for block, indices in blocks]

    def load(self, chosen: Array) -> Any:
        """Return the columns of a mask or of an index as an array in this process."""
        source = self.select(chosen)
        if not source.blocks:
            return np.zeros(source.shape, dtype=self.dtype)
        # a copy even of a single block, because Dask may keep the original in this process
        return np.concatenate(self.executor.compute(source._delay(identity, self.rows)), axis=1)

    def select(self, chosen: Array) -> "ClusterColumns":
        """Return the columns of a mask or of an ascending index as a source."""
        chosen = np.flatnonzero(chosen) if chosen.dtype.kind == "b" else chosen
        ends = np.cumsum(self.widths)
        selected = []
        chosen_by_block = split_at(chosen, ends)
        for before, width, end, columns in zip(self.selected, self.widths, ends, chosen_by_block, strict=True):
            indices = columns - (end - width)
            selected.append(before if len(indices) == width else indices if before is None else before[indices])
        return replace(self, selected=tuple(selected))._without_empty_blocks()

    def keep(self, chosen: Array) -> Any:
        """Return the columns of a mask or of an index: as an array if memory allows, else as a source."""
        columns = super().keep(chosen)
        return columns._narrow() if isinstance(columns, ClusterColumns) else columns

    def map_row_blocks(self, blocks: list[Array], function: Callable[..., Any], *shared: Any) -> list[Any] | None:
        """Return `function(X[rows], rows, *shared)` for blocks of rows, each of which goes to one worker.

        Return None if such a block would be larger than a block of columns, and too large for one worker.
        """
        largest = max(len(rows) for rows in blocks) * sum(self.widths)
        if self.rows is not None or largest > self.n_rows * max(self.block_widths):
            return None
        arguments = [delay_argument(argument) for argument in shared]
        call = delay(_call_on_rows)
        tasks = [call(function, self._delay(identity, rows), rows, *arguments) for rows in map(delay_argument, blocks)]
        return self.executor.compute(tasks)

    def _without_empty_blocks(self) -> "ClusterColumns":
        if all(self.widths):
            return self
        per_block = self.blocks, self.block_widths, self.selected
        blocks, block_widths, selected = (tuple(compress(values, self.widths)) for values in per_block)
        return replace(self, blocks=blocks, block_widths=block_widths, selected=selected)

    def _narrow(self) -> "ClusterColumns":
        """Drop culled columns from persisted blocks once they are half of all columns, and join small neighbours."""
        if not self.is_persisted or self.rows is not None or 2 * sum(self.widths) > sum(self.block_widths):
            return self
        neighbours: list[list[Any]] = []
        block_widths: list[int] = []
        for block, width in zip(self._delay(identity, None), self.widths, strict=True):
            if block_widths and block_widths[-1] + width <= max(self.block_widths):
                neighbours[-1].append(block)
                block_widths[-1] += width
            else:
                neighbours.append([block])
                block_widths.append(width)
        joined = [blocks[0] if len(blocks) == 1 else delay(join_columns)(blocks) for blocks in neighbours]
        return replace(
            self,
            blocks=tuple(self.executor.persist(joined)),
            block_widths=tuple(block_widths),
            selected=(None,) * len(joined),
        )


def rechunk_by_columns(X: Any) -> Any:
    """Return a Dask array in blocks of columns with all rows, not larger than its present blocks."""
    if len(X.chunks[0]) == 1:
        return X
    largest = max(X.chunks[0]) * max(X.chunks[1])
    return X.rechunk({0: -1, 1: max(1, largest // len(X))})


def check_finite(blocks: Sequence[tuple[Array, Array]]) -> Array:
    """Raise ValueError for infinite values, given `count_nonfinite` of all blocks.

    Return the number of missing values of every column.
    """
    n_missing, n_infinite = np.concatenate(blocks, axis=1)
    if (refused := find_refused(n_missing, n_infinite, allow_nan=True)) is not None:
        raise ValueError(refused.message())
    return np.asarray(n_missing)


def split_at(indices: Array, ends: Array) -> list[Array]:
    """Split ascending column indices by block, given the index after the last column of every block."""
    return np.split(indices, np.searchsorted(indices, ends)[:-1])


# ---------------------------------------------------------------- functions that workers call


def _standardise_block(block: Array, scaling: Scaling) -> tuple[Array, tuple[Array, tuple[Array, Array]]]:
    """Standardise a block, and return which columns vary and how many values are not finite."""
    nonfinite = count_nonfinite(block)
    if nonfinite[1].any():
        return block[:, :0], (np.zeros(block.shape[1], dtype=bool), nonfinite)
    with one_blas_thread():
        Z, varies = scaling.apply(np.ascontiguousarray(block))
    return Z, (varies, nonfinite)


def _call_on_block(
    function: Callable[..., Any], block: Array, indices: Array | None, rows: Array | None, *arguments: Any
) -> Any:
    with one_blas_thread():
        return function(centre_rows(block if indices is None else take_columns(block, indices), rows), *arguments)


def _call_on_rows(function: Callable[..., Any], blocks: list[Array], rows: Array, *arguments: Any) -> Any:
    with one_blas_thread():
        return function(join_columns(blocks), rows, *arguments)


def _map_block(block: Array, width: int, function: Callable[..., Any], *shared: Any) -> list[Any]:
    return list(map_blocks(block, width, function, *shared))


def join_columns(blocks: list[Array]) -> Array:
    """Return blocks side by side; a single one as it is."""
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)
