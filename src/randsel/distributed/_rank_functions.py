"""Functions of columns that the workers of a Dask cluster hold: made where they are needed, from the columns.

A column is smaller than its functions, so that columns travel and functions do not.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from randsel._numerics.columns import NonFinite, find_nonfinite
from randsel._numerics.rank_functions import RankFunctions, RankFunctionSource, rank_functions
from randsel._utils.jobs import one_thread_if
from randsel._utils.typing import Array
from randsel.distributed._columns import Engine, by_columns, check_finite, delayed, delayed_once


@dataclass(frozen=True)
class ClusterFunctions(RankFunctionSource):
    """Functions of the columns of a Dask array that have any, in the order of the columns.

    Attributes
    ----------
    chunks
        Delayed blocks of columns.
    columns, nominal
        Which columns of each block have functions, and which of those are nominal.
    widths
        How many columns each block has in all.
    most
        Functions that a column has at most.
    share
        Weights of the samples, of mean one.
    counts
        As in `RankFunctions`.
    engine
        Who computes.
    """

    chunks: tuple[Any, ...]
    columns: tuple[Array, ...]
    nominal: tuple[Array, ...]
    widths: tuple[int, ...]
    most: int
    share: Array
    counts: Array
    engine: Engine

    @classmethod
    def of(cls, X: Any, most: int, share: Array, nominal: Array) -> tuple["ClusterFunctions", Array]:
        """Look which columns of a Dask array have functions, and tell their numbers."""
        X = by_columns(X)
        engine, blocks, starts = Engine.of(X), X.to_delayed()[0], np.cumsum((0, *X.chunks[1]))
        of_blocks = [nominal[start:end] for start, end in pairwise(starts)]
        share_once = delayed_once(share)
        look = delayed(_look)
        seen = engine.compute(
            [look(block, most, share_once, own) for block, own in zip(blocks, of_blocks, strict=True)]
        )
        check_finite([trouble for _, trouble in seen], X.chunks[1])
        columns = [np.flatnonzero(counts) for counts, _ in seen]
        made = cls(
            chunks=tuple(blocks),
            columns=tuple(columns),
            nominal=tuple(own[at] for own, at in zip(of_blocks, columns, strict=True)),
            widths=X.chunks[1],
            most=most,
            share=share,
            counts=np.concatenate([counts[at] for (counts, _), at in zip(seen, columns, strict=True)]),
            engine=engine,
        )
        return made, np.concatenate([start + at for start, at in zip(starts, columns, strict=False)])

    def __len__(self) -> int:
        return len(self.counts)

    @cached_property
    def ends(self) -> Array:
        """Number of the first feature after each block."""
        return np.cumsum([len(at) for at in self.columns])

    def take(self, features: Array) -> RankFunctions:
        """Return the functions of some features, in memory."""
        used, places = np.unique(features, return_inverse=True)
        (functions,) = self.engine.compute([self._call(_itself, self._parts(used))])
        taken: RankFunctions = functions.take(places)
        return taken

    def map_sets(
        self,
        function: Callable[..., Any],
        sets: Array,
        *shared: Any,
        batch: int,
        n_jobs: int | None = None,  # noqa: ARG002 (the engine decides)
    ) -> Iterator[tuple[Array, Any]]:
        """Apply a function to batches of sets of features; sets whose features are in the same blocks go together."""
        groups = _groups(np.sort(np.searchsorted(self.ends, sets, side="right"), axis=1))
        once = [delayed_once(argument) for argument in shared]
        tasks = []
        for rows in groups:
            used, places = np.unique(sets[rows], return_inverse=True)
            members = places.reshape(sets[rows].shape)
            tasks.append(self._call(_map_sets, self._parts(used), members, batch, function, *once))
        for rows, results in zip(groups, self.engine.compute(tasks), strict=True):
            for of_batch, result in results:
                yield rows[of_batch], result

    def blocks(self, size: int) -> list[range]:  # noqa: ARG002 (the chunks are as they are)
        """Return the blocks of columns of the Dask array that have functions, of whatever size."""
        return [range(start, stop) for start, stop in pairwise([0, *self.ends.tolist()]) if stop > start]

    def map_block_pairs(
        self,
        function: Callable[..., Any],
        pairs: Sequence[tuple[range, range]],
        *shared: Any,
        n_jobs: int | None = None,  # noqa: ARG002 (the engine decides)
    ) -> Iterator[tuple[Array, Any]]:
        """Apply a function to pairs of blocks; a block with itself is sent once."""
        once = [delayed_once(argument) for argument in shared]
        features, tasks = [], []
        for first, second in pairs:
            blocks = list(dict.fromkeys((first, second)))
            held = [self._whole[int(np.searchsorted(self.ends, block.start, side="right"))] for block in blocks]
            features.append(np.concatenate([np.arange(block.start, block.stop) for block in blocks]))
            here = range(len(first)), range(len(features[-1]) - len(second), len(features[-1]))
            tasks.append(self._call(function, held, *here, *once))
        yield from zip(features, self.engine.compute(tasks), strict=True)

    @cached_property
    def _whole(self) -> list[tuple[Any, Array]]:
        """Of every block the columns that have functions, and which of them are nominal."""
        starts = np.concatenate([[0], self.ends])
        return [
            (self._parts(np.arange(*starts[block : block + 2])) or [(None, np.zeros(0, dtype=bool))])[0]
            for block in range(len(self.chunks))
        ]

    def _parts(self, features: Array) -> list[tuple[Any, Array]]:
        """Columns of some features, ascending, and which of them are nominal; only these leave their worker."""
        parts = []
        for number, among in enumerate(np.split(features, np.searchsorted(features, self.ends)[:-1])):
            ours = self.columns[number]
            at = among - (self.ends[number] - len(ours))
            if len(at):
                all_of_it = len(at) == self.widths[number]
                block = self.chunks[number] if all_of_it else delayed(_columns)(self.chunks[number], ours[at])
                parts.append((block, self.nominal[number][at]))
        return parts

    def _call(self, function: Callable[..., Any], parts: list[tuple[Any, Array]], *arguments: Any) -> Any:
        """Delayed result of a function of the functions of some columns, and of some arguments."""
        blocks, nominal = [block for block, _ in parts], np.concatenate([named for _, named in parts])
        return delayed(_with_functions)(function, blocks, self.most, delayed_once(self.share), nominal, *arguments)


def _groups(blocks: Array) -> list[Array]:
    """Rows of every combination of blocks."""
    if not len(blocks):
        return []
    _, which = np.unique(blocks, axis=0, return_inverse=True)
    order = np.argsort(which.ravel(), kind="stable")
    return np.split(order, np.flatnonzero(np.diff(which.ravel()[order])) + 1)


# ---------------------------------------------------------------- what workers do


def _look(block: Array, most: int, share: Array, nominal: Array) -> tuple[Array, NonFinite | None]:
    """How many functions columns have, and the first that is not finite."""
    nonfinite = find_nonfinite(block)
    if nonfinite is not None:
        return np.zeros(block.shape[1], dtype=int), nonfinite
    return rank_functions(block, most, share, nominal).counts, None


def _columns(block: Array, places: Array) -> Array:
    return np.take(block, places, axis=1)


def _with_functions(
    function: Callable[..., Any], blocks: list[Array], most: int, share: Array, nominal: Array, *arguments: Any
) -> Any:
    with one_thread_if(True):
        X = blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)
        return function(rank_functions(X, most, share, nominal), *arguments)


def _map_sets(
    functions: RankFunctions, sets: Array, batch: int, function: Callable[..., Any], *shared: Any
) -> list[tuple[Array, Any]]:
    return list(functions.map_sets(function, sets, *shared, batch=batch, n_jobs=1))


def _itself(functions: RankFunctions) -> RankFunctions:
    return functions
