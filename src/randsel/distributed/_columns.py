"""Columns that the workers of a Dask cluster hold: work is done where they are, and little of it travels.

To the workers go a function and what all blocks share, matrices over pairs of rows at most; back come sums over columns
as one such matrix, or a few numbers per column. Blocks of workers that are lost are computed again by Dask.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from operator import add
from typing import Any, ClassVar

import numpy as np

from randsel._numerics.arrays import take_columns
from randsel._numerics.columns import (
    ALL_CONSTANT,
    ColumnSource,
    NonFinite,
    centre_rows,
    find_nonfinite,
    map_blocks,
    standardise_columns,
    sum_blocks,
)
from randsel._utils.jobs import one_thread_if
from randsel._utils.optional import optional
from randsel._utils.typing import Array
from randsel.distributed._jobs import ClusterLostError

#: Bytes of an argument from which it is sent once for all blocks, not with each.
LARGE = 1 << 14
LOST = "The connection to the Dask scheduler was lost; see whether it is running, connect again, and fit again."
#: Share of the cluster's memory that the table may take to be kept there.
SHARE = 0.25


@dataclass(frozen=True)
class ClusterColumns(ColumnSource):
    """Standardised columns in blocks on a cluster, or with whatever scheduler Dask uses here.

    Attributes
    ----------
    held
        Delayed blocks of columns.
    spans
        How many columns each of them has.
    places
        Which of those are meant, ascending; None for all.
    n_rows, kind
        Rows of the blocks, and their type.
    max_bytes
        Bytes that columns in the memory of this process may take.
    kept
        Whether the cluster keeps the blocks in memory, and makes them narrower as columns fall; otherwise they are made
        again from the table whenever they are needed.
    engine
        Who computes.
    rows
        Rows that are left, after standardising; None for all.
    """

    held: tuple[Any, ...]
    spans: tuple[int, ...]
    places: tuple[Array | None, ...]
    n_rows: int
    kind: Any
    max_bytes: int
    kept: bool
    engine: "Engine"
    rows: Array | None = None
    device: None = None
    computes_elsewhere: ClassVar[bool] = True

    @classmethod
    def of(cls, X: Any, weights: Array | None, *, scale: bool, max_bytes: int | None) -> tuple["ClusterColumns", Array]:
        """Standardise the columns that vary, and tell which those are."""
        X, engine = by_columns(X), Engine.of(X)
        standardised, once = delayed(_standardised, nout=2), delayed_once(weights)
        made = [standardised(chunk, once, scale) for chunk in X.to_delayed()[0]]
        kept = X.nbytes < SHARE * engine.memory()
        held, found = [block for block, _ in made], [about for _, about in made]
        if kept:
            both = engine.keep(held + found)
            held, found = both[: len(held)], both[len(held) :]
        seen = engine.compute(found)
        check_finite([trouble for _, trouble in seen], X.chunks[1])
        varies = np.concatenate([alive for alive, _ in seen])
        if not varies.any():
            raise ValueError(ALL_CONSTANT)
        itemsize = X.dtype.itemsize if scale else 8
        # as much as a worker has of the table, or of pairs of rows, of which there are no more than 2000 at a time
        own = max(max(X.chunks[1]) * len(X) * itemsize, 8 * min(len(X), 2000) ** 2)
        spans = tuple(int(alive.sum()) for alive, _ in seen)
        kind = X.dtype if scale else np.dtype(np.float64)
        max_bytes = own if max_bytes is None else max_bytes
        columns = cls(tuple(held), spans, (None,) * len(held), len(X), kind, max_bytes, kept, engine)
        return columns._filled(), np.flatnonzero(varies)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """How many columns of each block are meant."""
        return tuple(span if at is None else len(at) for span, at in zip(self.spans, self.places, strict=True))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.n_rows if self.rows is None else len(self.rows), sum(self.widths)

    @property
    def dtype(self) -> Any:
        """Of the blocks."""
        return self.kind

    def map_blocks(self, width: int, function: Callable[..., Any], *shared: Any) -> Iterator[Any]:
        """Results of a function of blocks, computed where these are."""
        for results in self.engine.compute(self._tasks(_each_of, width, function, *shared)):
            yield from results

    def sum_blocks(self, width: int, function: Callable[..., Any], *shared: Any) -> Any:
        """Sum of what `map_blocks` gives: neighbours are added on the cluster, then their sums, until one is left."""
        parts = self._tasks(_total_of, width, function, *shared)
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=False)
            parts = [*(delayed(add)(*pair) for pair in pairs), *parts[len(parts) // 2 * 2 :]]
        return self.engine.compute(parts)[0]

    def _tasks(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Call a function of every block, of which columns and rows are meant, and of some arguments."""
        rows, *shared = (delayed_once(argument) for argument in (self.rows, *arguments))
        call = delayed(_on_block)
        return [
            call(function, block, places, rows, *shared) for block, places in zip(self.held, self.places, strict=True)
        ]

    def load(self, chosen: Array) -> Any:
        """Columns of a mask or of places, in the memory of this process."""
        part = self.select(chosen)
        if not part.held:
            return np.zeros(part.shape, dtype=self.kind)
        return np.concatenate(self.engine.compute(part._tasks(_itself)), axis=1)

    def select(self, chosen: Array) -> "ClusterColumns":
        """Columns of a mask or of places (ascending), left where they are."""
        chosen = np.flatnonzero(chosen) if chosen.dtype.kind == "b" else chosen
        ends = np.cumsum(self.widths)
        places = []
        for old, width, end, among in zip(self.places, self.widths, ends, _split(chosen, ends), strict=True):
            at = among - (end - width)
            places.append(old if len(at) == width else at if old is None else old[at])
        return replace(self, places=tuple(places))._filled()

    def keep(self, chosen: Array) -> Any:
        """Columns of a mask or of places, in the memory of this process if there is room."""
        kept = super().keep(chosen)
        return kept._narrowed() if isinstance(kept, ClusterColumns) else kept

    def map_row_blocks(self, blocks: list[Array], function: Callable[..., Any], *shared: Any) -> list[Any] | None:
        """Results of a function of blocks of rows, all columns of which go to one worker, and of what they share.

        None if such a block of rows would be larger than a block of columns: nothing larger goes to one worker.
        """
        largest = max(len(rows) for rows in blocks) * sum(self.widths)
        if self.rows is not None or largest > self.n_rows * max(self.spans):
            return None
        once, cut, call = [delayed_once(argument) for argument in shared], delayed(_on_block), delayed(_on_rows)
        tasks = []
        for rows in blocks:
            given = delayed_once(rows)
            parts = [cut(_itself, block, places, given) for block, places in zip(self.held, self.places, strict=True)]
            tasks.append(call(function, parts, given, *once))
        return self.engine.compute(tasks)

    def take_centred_rows(self, rows: Array) -> Any:
        """Return some rows of all columns, centred again; in the memory of this process if there is room."""
        chosen = replace(self, rows=rows if self.rows is None else self.rows[rows])
        return chosen.keep(np.ones(chosen.shape[1], dtype=bool))

    def _filled(self) -> "ClusterColumns":
        """Leave out blocks of which no column is meant."""
        if all(self.widths):
            return self
        some = [at for at, width in enumerate(self.widths) if width]
        held, spans, places = tuple(map(self.held.__getitem__, some)), self.spans, self.places
        return replace(self, held=held, spans=tuple(spans[at] for at in some), places=tuple(places[at] for at in some))

    def _narrowed(self) -> "ClusterColumns":
        """Let the cluster forget columns once they are half of what it keeps, and join neighbours that became small."""
        if not self.kept or self.rows is not None or 2 * sum(self.widths) > sum(self.spans):
            return self
        groups: list[list[Any]] = []
        spans: list[int] = []
        for block, width in zip(self._tasks(_itself), self.widths, strict=True):
            if spans and spans[-1] + width <= max(self.spans):
                groups[-1].append(block)
                spans[-1] += width
            else:
                groups.append([block])
                spans.append(width)
        joined = [group[0] if len(group) == 1 else delayed(_side_by_side)(group) for group in groups]
        return replace(self, held=tuple(self.engine.keep(joined)), spans=tuple(spans), places=(None,) * len(spans))


def by_columns(X: Any) -> Any:
    """Cut a Dask array into blocks of columns with all rows, no larger than the blocks it has."""
    if len(X.chunks[0]) == 1:
        return X
    largest = max(X.chunks[0]) * max(X.chunks[1])
    return X.rechunk({0: -1, 1: max(1, largest // len(X))})


def of_blocks(X: Any, function: Callable[[Array], Any]) -> list[Any]:
    """Results of a function of blocks of columns of a Dask array, in order."""
    return Engine.of(X).compute([delayed(function)(chunk) for chunk in by_columns(X).to_delayed()[0]])


def check_finite(blocks: list[NonFinite | None], widths: tuple[int, ...]) -> None:
    """Raise ValueError if `find_nonfinite` found something in one of the blocks of a table."""
    bad = [(start, block) for start, block in zip(np.cumsum([0, *widths]).tolist(), blocks, strict=False) if block]
    if bad:
        start, first = bad[0]
        n_columns = sum(block.n_columns for _, block in bad)
        raise ValueError(replace(first, column=start + first.column, n_columns=n_columns).message())


def _split(chosen: Array, ends: Array) -> list[Array]:
    """Cut ascending places where blocks end."""
    return np.split(chosen, np.searchsorted(chosen, ends)[:-1])


# ---------------------------------------------------------------- what workers do


def _standardised(block: Array, weights: Array | None, scale: bool) -> tuple[Array, tuple[Array, NonFinite | None]]:
    """Standardise a block, and return which columns vary and which are not finite."""
    nonfinite = find_nonfinite(block)
    if nonfinite is not None:
        return block[:, :0], (np.zeros(block.shape[1], dtype=bool), nonfinite)
    with one_thread_if(True):
        Z, varies = standardise_columns(np.ascontiguousarray(block), weights, scale)
    return Z, (varies, None)


def _on_block(function: Callable[..., Any], block: Array, places: Array | None, rows: Array | None, *more: Any) -> Any:
    with one_thread_if(True):
        return function(centre_rows(block if places is None else take_columns(block, places), rows), *more)


def _on_rows(function: Callable[..., Any], parts: list[Array], rows: Array, *more: Any) -> Any:
    with one_thread_if(True):
        return function(parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1), rows, *more)


def _each_of(block: Array, width: int, function: Callable[..., Any], *shared: Any) -> list[Any]:
    return list(map_blocks(block, width, function, *shared))


def _total_of(block: Array, width: int, function: Callable[..., Any], *shared: Any) -> Any:
    return sum_blocks(block, width, function, *shared)


def _itself(value: Any) -> Any:
    return value


def _side_by_side(blocks: list[Array]) -> Array:
    return np.concatenate(blocks, axis=1)


# ---------------------------------------------------------------- Dask


def delayed(function: Callable[..., Any], nout: int | None = None) -> Any:
    """Delay a function; every call has a name of its own."""
    # to hash what large arguments hold takes longer than to send them
    return _dask().delayed(function, pure=False, nout=nout)


def delayed_once(argument: Any) -> Any:
    """Have a large argument sent once; a task that returns it can be repeated, where scattered data would be lost."""
    size = getattr(argument, "nbytes", None)
    small = argument is None or callable(argument) or (isinstance(argument, int | float | np.dtype))
    return argument if small or (size is not None and size < LARGE) else delayed(_itself)(argument)


def _dask() -> Any:
    return optional("dask", extra="dask", purpose="an array of Dask")


@dataclass(frozen=True)
class Engine:
    """Who computes delayed values: the client of a cluster, or whatever scheduler Dask uses in this process (None).

    It is asked for once: where a client is lost Dask would go on in this process, which may not hold the table.
    """

    client: Any

    @classmethod
    def of(cls, X: Any) -> "Engine":
        """Return the one that Dask would compute X with."""
        get = optional("dask.base", extra="dask", purpose="an array of Dask").get_scheduler(collections=[X])
        owner = getattr(get, "__self__", None)
        return cls(owner if hasattr(owner, "scheduler_info") else None)

    def compute(self, tasks: list[Any]) -> list[Any]:
        """Return the values."""
        with self._asked():
            return list(_dask().compute(*tasks) if self.client is None else self.client.compute(tasks, sync=True))

    def keep(self, tasks: list[Any]) -> list[Any]:
        """Have values computed and kept where they are."""
        with self._asked():
            return list(_dask().persist(*tasks) if self.client is None else self.client.persist(tasks))

    def memory(self) -> float:
        """Bytes of memory of the workers; of this machine if Dask runs in this process."""
        if self.client is None:
            return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        with self._asked():
            workers = self.client.scheduler_info(n_workers=-1)["workers"]
        # no limit is given as zero
        return float(sum(worker["memory_limit"] or np.inf for worker in workers.values()))

    @contextmanager
    def _asked(self) -> Iterator[None]:
        if self.client is not None and self.client.status != "running":
            raise ClusterLostError(LOST)
        # graphs hold matrices over pairs of rows, so that these survive the workers
        with _dask().config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}), lost_clusters():
            yield


@contextmanager
def lost_clusters() -> Iterator[None]:
    """Say in a sentence that the scheduler, or too many workers, are gone."""
    try:
        yield
    except Exception as error:
        kinds = {kind.__name__ for kind in type(error).__mro__}
        if "KilledWorker" in kinds:
            msg = (
                "Several workers of the Dask cluster died at the same piece of work, most likely for want of memory; "
                "use smaller chunks, or workers with more memory."
            )
            raise ClusterLostError(msg) from error
        if kinds & {"CancelledError", "CommClosedError"}:
            raise ClusterLostError(LOST) from error
        raise
