"""Rank functions: a few orthonormal functions of the ranks of every column.

Main effects and interactions are tested with them. A column without ties gets `h_a(r) = √2 cos(aπr)` of its ranks r
(eq. 16), which makes the tests invariant to monotone transforms and robust to outliers. Tied and discrete columns get
the same cosines of their midranks, made orthonormal under the frequencies of their levels: a column of L levels has at
most L-1 functions. Nominal columns have no order; their functions span the indicators of the levels.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from randsel._numerics.arrays import remote_table
from randsel._numerics.columns import column_keys
from randsel._utils.jobs import ordered_map
from randsel._utils.typing import Array

#: Columns of at most this many distinct values are discrete: their rare levels are pooled.
MAX_LEVELS = 12
#: A cosine is dropped if the functions before it leave less than this fraction of its variance.
MIN_VARIANCE = 0.05
#: Tables of functions to remember, by the frequencies of the levels.
MAX_CACHED_TABLES = 4096
#: Columns to transpose at a time.
COLUMNS_PER_BLOCK = 256
#: Function that a source applies to rank functions, and the results that its maps yield.
Work = Callable[..., Any]
Results = Iterator[tuple[Array, Any]]
#: Two blocks of neighbouring features, or one block twice.
BlockPair = tuple[range, range]


class RankFunctionSource(ABC):
    """Rank functions of the features of a table, wherever its columns are held.

    The scan of interactions needs nothing else of a table. `RankFunctions` holds the functions in memory; a source
    that holds columns on other machines applies the work there, to a `RankFunctions` computed for the call. Both maps
    pass `shared` to every call. `n_jobs` is for sources that have no workers of their own.
    """

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of features."""

    @abstractmethod
    def take(self, features: Array) -> "RankFunctions":
        """Return the functions of some features, in this order, in memory."""

    @abstractmethod
    def map_sets(self, work: Work, sets: Array, *shared: Any, batch: int, n_jobs: int | None = None) -> Results:
        """Apply `work(functions, members, *shared)` to at most `batch` sets of features (rows of `sets`) at a time.

        `members` are these sets with the features numbered as in `functions`, a `RankFunctions`. Yields the rows of
        `sets` in a call and its result.
        """

    @abstractmethod
    def blocks(self, size: int) -> list[range]:
        """Cut the features into blocks of neighbours, of at most `size` where the source is free to choose."""

    @abstractmethod
    def map_block_pairs(
        self, work: Work, pairs: Sequence[BlockPair], *shared: Any, n_jobs: int | None = None
    ) -> Results:
        """Apply `work(functions, first, second, *shared)` to pairs of `blocks`.

        `first` and `second` are the blocks as ranges of `functions`, a `RankFunctions`. Yields the number of every
        feature of `functions` and the result of the call.
        """


@dataclass(frozen=True)
class RankFunctions(RankFunctionSource):
    """Rank functions in memory."""

    #: Shape (features, functions, samples), single precision; weighted mean zero, mean square one.
    values: Array
    #: Number of functions of each feature; the other rows of `values` are zero.
    counts: Array
    #: Mask of features without ties. Products of functions of two independent features without ties have mean square 1.
    untied: Array

    def __len__(self) -> int:
        return len(self.values)

    @property
    def kinds(self) -> Array:
        """One integer per feature: equal for features with equal `counts` and equal `untied`."""
        return np.asarray(2 * self.counts + self.untied)

    def take(self, features: Array | slice) -> "RankFunctions":
        """Return the functions of some features."""
        return RankFunctions(self.values[features], self.counts[features], self.untied[features])

    def first(self, n_functions: int) -> "RankFunctions":
        """Return the first few functions of every feature."""
        return RankFunctions(self.values[:, :n_functions], np.minimum(self.counts, n_functions), self.untied)

    def map_sets(self, work: Work, sets: Array, *shared: Any, batch: int, n_jobs: int | None = None) -> Results:
        """Apply work to batches of sets of features; see `RankFunctionSource`."""
        rows = [np.arange(start, min(start + batch, len(sets))) for start in range(0, len(sets), batch)]
        tasks = [(self, sets[batch_rows], *shared) for batch_rows in rows]
        yield from zip(rows, ordered_map(work, tasks, n_jobs), strict=True)

    def blocks(self, size: int) -> list[range]:
        """Cut the features into blocks of one kind and of at most `size`; features without functions are left out."""
        blocks = []
        for run in np.split(np.arange(len(self)), np.flatnonzero(np.diff(self.kinds)) + 1):
            if len(run) and self.counts[run[0]]:
                pieces = np.array_split(run, -(-len(run) // size))
                blocks += [range(int(piece[0]), int(piece[-1]) + 1) for piece in pieces]
        return blocks

    def map_block_pairs(
        self, work: Work, pairs: Sequence[BlockPair], *shared: Any, n_jobs: int | None = None
    ) -> Results:
        """Apply work to pairs of blocks; see `RankFunctionSource`."""
        features = np.arange(len(self))
        for result in ordered_map(work, [(self, *pair, *shared) for pair in pairs], n_jobs):
            yield features, result


def rank_functions(X: Array, n_functions: int, sample_weights: Array, nominal: Array) -> RankFunctions:
    """Compute the rank functions of the columns of X (eq. 16).

    Parameters
    ----------
    X : array (samples, columns)
        No missing values.
    n_functions : int
        Functions per column at most.
    sample_weights : array (samples,)
        Weights of the samples, of mean one.
    nominal : array of bool (columns,)
        Columns whose values are names of levels.

    Returns
    -------
    RankFunctions
        In the order of the columns.
    """
    m, n = X.shape
    unweighted = bool(np.all(sample_weights == 1.0))
    cosines = _cosines((np.arange(m) + 0.5) / m, n_functions)
    values = np.zeros((n, n_functions, m), dtype=np.float32)
    counts, untied = np.zeros(n, dtype=int), np.zeros(n, dtype=bool)
    # Columns of equal level frequencies, such as SNPs of equal genotype counts, share a table of functions.
    tables: dict[tuple[bool, bytes], Array] = {}
    for start in range(0, n, COLUMNS_PER_BLOCK):
        block = np.ascontiguousarray(np.asarray(X[:, start : start + COLUMNS_PER_BLOCK]).T)
        for j, x in enumerate(block, start):
            codes = _codes_of_small_integers(x)
            if codes is None:
                order = np.argsort(x, kind="stable")
                increases = np.diff(x[order]) != 0
                if unweighted and increases.all() and not nominal[j]:
                    values[j][:, order] = cosines
                    counts[j], untied[j] = n_functions, True
                    continue
                codes = np.empty(m, dtype=np.intp)
                codes[order] = np.concatenate([[0], np.cumsum(increases)])
            mass = np.bincount(codes, weights=sample_weights)
            if not mass.all():  # integers that do not occur
                codes, mass = (np.cumsum(mass > 0) - 1)[codes], mass[mass > 0]
            key = bool(nominal[j]), mass.tobytes()
            if key not in tables:
                tables = {} if len(tables) > MAX_CACHED_TABLES else tables
                tables[key] = _functions_of_levels(mass, m, n_functions, nominal=bool(nominal[j]))
            counts[j] = len(tables[key])
            values[j, : counts[j]] = tables[key][:, codes]
    return RankFunctions(values, counts, untied)


def rank_function_source(
    X: Any, n_functions: int, sample_weights: Array, nominal: Array
) -> tuple[RankFunctionSource, Array]:
    """Return a source of the rank functions of the columns that have any, and the indices of these columns.

    In memory, features are sorted by kind and then by value, so that results do not depend on the order of the columns.
    A remote table keeps its order.
    """
    if (remote := remote_table(X)) is not None:
        return remote.rank_functions(n_functions, sample_weights, nominal)
    functions = rank_functions(X, n_functions, sample_weights, nominal)
    order = np.lexsort((column_keys(functions.values[:, 0].T), functions.kinds))
    order = order[functions.kinds[order] > 0]
    return functions.take(order), order


def _cosines(ranks: Array, n_functions: int) -> Array:
    """Return `h_a(r) = √2 cos(aπr)`, one row per a = 1 … n_functions (eq. 16)."""
    return np.asarray(np.sqrt(2.0) * np.cos(np.pi * np.arange(1, n_functions + 1)[:, None] * ranks))


def _codes_of_small_integers(x: Array) -> Array | None:
    """Return a column of small non-negative integers as codes, which need no sorting; None for any other column."""
    low, high = x.min(), x.max()
    # A shorter column may be a permutation of ranks, without ties.
    if not (low >= 0 and high <= MAX_LEVELS and len(x) > MAX_LEVELS + 1):
        return None
    codes = x.astype(np.intp)
    return codes if np.array_equal(codes, x) else None


def _functions_of_levels(mass: Array, m: int, n_functions: int, *, nominal: bool) -> Array:
    """Return the functions (rows) of the levels (columns) of a column of m samples, given the weight of each level."""
    if nominal:
        pools = _pool_infrequent(mass, n_functions + 1)
    elif len(mass) <= MAX_LEVELS:
        pools = _pool_rare_neighbours(mass, min_mass=float(np.clip(m / 50, 3, 10)))
    else:
        pools = np.arange(len(mass))
    mass = np.bincount(pools, weights=mass)
    if nominal:
        raw = np.eye(len(mass))[np.argsort(-mass.round(9), kind="stable")[: n_functions + 1]]
    else:
        midranks = (np.cumsum(mass) - mass / 2) / mass.sum()
        raw = _cosines(midranks, n_functions)
    return _orthonormalise(raw, mass)[:n_functions, pools]


def _pool_rare_neighbours(mass: Array, min_mass: float) -> Array:
    """Merge the rarest level with its rarer neighbour until none is rare; return the pool number of each level."""
    groups = [[level] for level in range(len(mass))]
    group_mass = [float(value) for value in mass]
    while len(groups) > 1 and min(group_mass) < min_mass:
        k = int(np.argmin(group_mass))
        neighbour = k + 1 if k == 0 or (k + 1 < len(groups) and group_mass[k + 1] < group_mass[k - 1]) else k - 1
        low, high = min(k, neighbour), max(k, neighbour)
        groups[low : high + 1] = [groups[low] + groups[high]]
        group_mass[low : high + 1] = [group_mass[low] + group_mass[high]]
    pools = np.empty(len(mass), dtype=int)
    for number, group in enumerate(groups):
        pools[group] = number
    return pools


def _pool_infrequent(mass: Array, n_pools: int) -> Array:
    """Pool all but the most frequent levels, into a last pool of at least three samples; return the pool numbers."""
    order = np.argsort(-mass.round(9), kind="stable")
    pools = np.minimum(np.argsort(order, kind="stable"), n_pools - 1)
    while pools.max() > 0 and mass[pools == pools.max()].sum() < 3.0:
        pools = np.minimum(pools, pools.max() - 1)
    return pools


def _orthonormalise(raw: Array, mass: Array) -> Array:
    """Apply Gram–Schmidt to the rows, weighted by `mass`; drop rows whose remaining variance is below MIN_VARIANCE."""
    total = mass.sum()
    basis: list[Array] = []
    for row in raw:
        f = centre(row, mass, None)
        variance = float(mass @ (f * f))
        for _ in range(2):  # a second pass makes the rows orthogonal up to rounding
            for g in basis:
                f = f - g * (mass @ (f * g) / total)
        variance_left = float(mass @ (f * f))
        if variance_left > MIN_VARIANCE * max(variance, 0.01 * total):
            basis.append(centre(f, mass, None) * np.sqrt(total / variance_left))
    return np.array(basis).reshape(len(basis), raw.shape[1])


def centre(rows: Array, mass: Array, strata: Array | None) -> Array:
    """Subtract the mean over the last axis, the samples, weighted by `mass`; within each stratum if there are any."""
    if strata is None:
        return np.asarray(rows - (rows @ mass / mass.sum())[..., None])
    order = np.argsort(strata, kind="stable")
    starts = np.flatnonzero(np.diff(strata[order], prepend=-1))
    sums = np.add.reduceat((rows * mass)[..., order], starts, axis=-1)
    means = sums / np.add.reduceat(mass[order], starts)
    return np.asarray(rows - means[..., strata])
