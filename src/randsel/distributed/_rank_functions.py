"""Rank functions of columns that the workers of a Dask cluster hold.

A column is smaller than its functions, so workers exchange columns and compute functions where they are used.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from randsel._numerics.missing import count_nonfinite
from randsel._numerics.rank_functions import (
    BlockPairs,
    RankFunctions,
    RankFunctionSource,
    Results,
    Work,
    rank_functions,
)
from randsel._utils.jobs import one_blas_thread
from randsel._utils.typing import Array
from randsel.distributed._client import Executor, delay, delay_argument, identity
from randsel.distributed._columns import check_finite, join_columns, rechunk_by_columns, split_at

#: Delayed columns, and a mask of those that are nominal.
Columns = tuple[Any, Array]


@dataclass(frozen=True)
class ClusterRankFunctions(RankFunctionSource):
    """Rank functions of the columns of a Dask array, computed when they are needed.

    Features are the columns that have functions, in the order of the columns.
    """

    chunks: tuple[Any, ...]  # delayed chunks of columns
    columns: tuple[Array, ...]  # for every chunk, the indices of its columns that have functions
    nominal: tuple[Array, ...]  # for every chunk, a mask of these columns that are nominal
    widths: tuple[int, ...]  # number of columns of every chunk
    n_functions: int  # per column at most
    sample_weights: Array  # of mean one
    strata: Array | None  # of each sample
    executor: Executor  # computes the delayed values
    n_missing: Array  # number of missing values of every column of the array

    @classmethod
    def from_array(
        cls,
        X: Any,
        n_functions: int,
        sample_weights: Array,
        nominal: Array,
        strata: Array | None = None,
        max_missing: float = 1.0,
    ) -> tuple["ClusterRankFunctions", Array]:
        """Return the functions of a Dask array, and the indices of the columns that have any."""
        X = rechunk_by_columns(X)
        executor, chunks, starts = Executor.for_array(X), X.to_delayed()[0], np.cumsum((0, *X.chunks[1]))
        nominal_by_chunk = [nominal[start:end] for start, end in pairwise(starts)]
        samples = delay_argument((sample_weights, strata))
        count = delay(_count_functions)
        tasks = [
            count(*chunk, n_functions, samples, max_missing) for chunk in zip(chunks, nominal_by_chunk, strict=True)
        ]
        counts, nonfinite = zip(*executor.compute(tasks), strict=True)
        columns = tuple(np.flatnonzero(count) for count in counts)
        functions = cls(
            chunks=tuple(chunks),
            columns=columns,
            nominal=tuple(mask[indices] for mask, indices in zip(nominal_by_chunk, columns, strict=True)),
            widths=X.chunks[1],
            n_functions=n_functions,
            sample_weights=sample_weights,
            strata=strata,
            executor=executor,
            n_missing=check_finite(nonfinite),
        )
        return functions, np.concatenate([start + indices for start, indices in zip(starts, columns, strict=False)])

    def __len__(self) -> int:
        return int(self.ends[-1])

    @cached_property
    def ends(self) -> Array:
        """For each chunk, the index after its last feature."""
        return np.cumsum([len(indices) for indices in self.columns])

    def take(self, features: Array) -> RankFunctions:
        """Return the functions of some features, in this order, in memory."""
        distinct, order = np.unique(features, return_inverse=True)
        functions: RankFunctions = self.executor.compute([self._delay(identity, self._columns_of(distinct))])[0]
        return functions.take(order)

    def map_sets(self, work: Work, sets: Array, *shared: Any, batch: int, n_jobs: int | None = None) -> Results:  # noqa: ARG002 (the executor decides)
        """Apply work to batches of sets of features; sets whose features are in the same chunks go together."""
        groups = _group_equal_rows(np.sort(np.searchsorted(self.ends, sets, side="right"), axis=1))
        arguments = [delay_argument(argument) for argument in shared]
        tasks = []
        for rows in groups:
            features, positions = np.unique(sets[rows], return_inverse=True)
            sets_in_task = positions.reshape(sets[rows].shape)
            tasks.append(self._delay(_map_sets, self._columns_of(features), sets_in_task, batch, work, *arguments))
        for rows, results in zip(groups, self.executor.compute(tasks), strict=True):
            for rows_of_batch, result in results:
                yield rows[rows_of_batch], result

    def blocks(self, size: int = 0) -> list[range]:  # noqa: ARG002 (the chunks are as they are)
        """Return the range of features of every chunk that has any; `size` is ignored."""
        return [range(start, stop) for start, stop in pairwise([0, *self.ends.tolist()]) if stop > start]

    def map_block_pairs(self, work: Work, pairs: BlockPairs, *shared: Any, n_jobs: int | None = None) -> Results:  # noqa: ARG002 (the executor decides)
        """Apply work to pairs of blocks; a block paired with itself is sent once."""
        arguments = [delay_argument(argument) for argument in shared]
        features, tasks = [], []
        for first, second in pairs:
            blocks = list(dict.fromkeys((first, second)))
            features.append(np.concatenate(blocks))
            ranges_in_task = range(len(first)), range(len(features[-1]) - len(second), len(features[-1]))
            columns = [self._columns_of_block[block] for block in blocks]
            tasks.append(self._delay(work, columns, *ranges_in_task, *arguments))
        yield from zip(features, self.executor.compute(tasks), strict=True)

    @cached_property
    def _columns_of_block(self) -> dict[range, Columns]:
        """Columns of every block; all pairs with a block share one delayed value."""
        return {block: self._columns_of(np.asarray(block))[0] for block in self.blocks()}

    def _columns_of(self, features: Array) -> list[Columns]:
        """Return the columns of ascending features by chunk; other columns do not leave their worker."""
        columns = []
        for k, features_in_chunk in enumerate(split_at(features, self.ends)):
            indices, chunk = features_in_chunk - (self.ends[k] - len(self.columns[k])), self.chunks[k]
            if 0 < len(indices) < self.widths[k]:
                chunk = delay(np.take)(chunk, self.columns[k][indices], axis=1)
            if len(indices):
                columns.append((chunk, self.nominal[k][indices]))
        return columns

    def _delay(self, work: Work, columns: list[Columns], *arguments: Any) -> Any:
        """Return the delayed call `work(functions, *arguments)` on the functions of some columns."""
        chunks, nominal = [chunk for chunk, _ in columns], np.concatenate([mask for _, mask in columns])
        samples = delay_argument((self.sample_weights, self.strata))
        return delay(_call_on_functions)(work, chunks, self.n_functions, samples, nominal, *arguments)


def _group_equal_rows(table: Array) -> list[Array]:
    """Return the indices of the rows of each distinct row."""
    if not len(table):
        return []
    _, labels = np.unique(table, axis=0, return_inverse=True)
    order = np.argsort(labels.ravel(), kind="stable")
    return np.split(order, np.flatnonzero(np.diff(labels.ravel()[order])) + 1)


# ---------------------------------------------------------------- functions that workers call


def _count_functions(
    chunk: Array, nominal: Array, n_functions: int, samples: tuple[Array, Array | None], max_missing: float
) -> tuple[Array, tuple[Array, Array]]:
    """Return the number of functions of every column, and the numbers of values that are not finite."""
    nonfinite = count_nonfinite(chunk)
    if nonfinite[1].any():
        return np.zeros(chunk.shape[1], dtype=int), nonfinite
    sample_weights, strata = samples
    return rank_functions(chunk, n_functions, sample_weights, nominal, strata, max_missing).counts, nonfinite


def _call_on_functions(
    work: Work,
    chunks: list[Array],
    n_functions: int,
    samples: tuple[Array, Array | None],
    nominal: Array,
    *arguments: Any,
) -> Any:
    sample_weights, strata = samples
    with one_blas_thread():
        return work(rank_functions(join_columns(chunks), n_functions, sample_weights, nominal, strata), *arguments)


def _map_sets(functions: RankFunctions, sets: Array, batch: int, work: Work, *shared: Any) -> list[tuple[Array, Any]]:
    return list(functions.map_sets(work, sets, *shared, batch=batch, n_jobs=1))
