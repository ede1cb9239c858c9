"""Rank functions: a few orthonormal functions of the ranks of every column; tails of null distributions of tests.

Main effects and interactions are tested with them. The first function is a monotone score of the ranks, the others are
cosines (eq. 16). Ranks make the tests invariant to monotone transforms and robust to outliers. Tied and discrete
columns get the same functions of their midranks, made orthonormal under the frequencies of their levels: a column of L
levels has at most L-1 functions. Nominal columns have no order; their functions span the indicators of the levels.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from scipy.special import betainc, betaln, gammaincc, gammaln, log_ndtr, logsumexp, stdtr
from scipy.stats import rankdata

from randsel._numerics.arrays import (
    as_array_like,
    as_index,
    device_scratch_size,
    namespace,
    remote_table,
    take_along_rows,
    to_device,
    to_numpy,
)
from randsel._numerics.columns import column_keys, column_slices, monotone_scores
from randsel._numerics.missing import missing_mask, too_many_missing
from randsel._numerics.nuisance import centre
from randsel._utils.jobs import ordered_map
from randsel._utils.typing import Array

#: Columns of at most this many distinct values are discrete: their rare levels are pooled.
MAX_LEVELS = 12
#: A cosine is dropped if the functions before it leave less than this fraction of its variance.
MIN_VARIANCE = 0.05
#: Two levels are merged if one has fewer samples than this.
MIN_LEVEL = 3
#: Tables of functions to remember, by the frequencies of the levels.
MAX_CACHED_TABLES = 4096
#: Fraction of the variance, beyond chance, that strata must explain for their means to be subtracted.
MIN_EXPLAINED = 0.25
#: Columns to transpose at a time.
COLUMNS_PER_BLOCK = 256
#: Newton steps of the search for the saddlepoint; a step that leaves the bracket is replaced by bisection.
NEWTON_STEPS = 40
#: A saddlepoint has converged if the next step is below this, in standard deviations.
CONVERGED = 1e-9
#: Function that a source applies to rank functions, and the results that its maps yield.
Work = Callable[..., Any]
Results = Iterator[tuple[Array, Any]]
#: Pairs of blocks of neighbouring features, or of one block twice.
BlockPairs = Sequence[tuple[range, range]]


class RankFunctionSource(Protocol):
    """Rank functions of the features of a table, wherever its columns are held.

    The scan of interactions needs nothing else of a table. `RankFunctions` holds the functions in memory; a source
    that holds columns on other machines applies the work there, to a `RankFunctions` computed for the call. Both maps
    pass `shared` to every call. `n_jobs` is for sources that have no workers of their own.
    """

    def __len__(self) -> int:
        """Return the number of features."""

    def take(self, features: Array) -> "RankFunctions":
        """Return the functions of some features, in this order, in memory."""

    def map_sets(self, work: Work, sets: Array, *shared: Any, batch: int, n_jobs: int | None = None) -> Results:
        """Apply `work(functions, members, *shared)` to at most `batch` sets of features (rows of `sets`) at a time.

        `members` are these sets with the features numbered as in `functions`, a `RankFunctions`. Yields the rows of
        `sets` in a call and its result.
        """

    def blocks(self, size: int) -> list[range]:
        """Cut the features into blocks of neighbours, of at most `size` where the source is free to choose."""

    def map_block_pairs(self, work: Work, pairs: BlockPairs, *shared: Any, n_jobs: int | None = None) -> Results:
        """Apply `work(functions, first, second, *shared)` to pairs of `blocks`.

        `first` and `second` are the blocks as ranges of `functions`, a `RankFunctions`. Yields the number of every
        feature of `functions` and the result of the call.
        """


@dataclass(frozen=True)
class RankFunctions(RankFunctionSource):
    """Rank functions in memory, on the host or on a device."""

    values: Any  # (features, functions, samples), single precision; over observed samples mean zero, mean square one
    counts: Array  # number of functions of each feature; the other rows of `values` are zero
    #: Mask of complete features without ties: products of functions of two independent ones have mean square 1.
    untied: Array
    incomplete: Array  # mask of features with missing values

    def __len__(self) -> int:
        return len(self.values)

    def join(self, other: "RankFunctions") -> "RankFunctions":
        """Return the functions of the features of both."""
        values = namespace(self.values).concat([self.values, other.values])
        names = ("counts", "untied", "incomplete")
        return RankFunctions(values, *(np.concatenate([getattr(self, name), getattr(other, name)]) for name in names))

    def to_device(self, device: str | None) -> "RankFunctions":
        """Return the functions on a device, as in `to_device`; on the host for None."""
        return replace(self, values=to_numpy(self.values) if device is None else to_device(self.values, device))

    @property
    def kinds(self) -> Array:
        """One integer per feature: equal for features with equal `counts` and equal `untied`."""
        return np.asarray(2 * self.counts + self.untied)

    def take(self, features: Array | slice) -> "RankFunctions":
        """Return the functions of some features."""
        masks = self.untied[features], self.incomplete[features]
        index = features if isinstance(features, slice) else as_index(features, self.values)
        return RankFunctions(self.values[index], self.counts[features], *masks)

    def first(self, n_functions: int) -> "RankFunctions":
        """Return the first few functions of every feature."""
        return replace(self, values=self.values[:, :n_functions], counts=np.minimum(self.counts, n_functions))

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

    def map_block_pairs(self, work: Work, pairs: BlockPairs, *shared: Any, n_jobs: int | None = None) -> Results:
        """Apply work to pairs of blocks; see `RankFunctionSource`."""
        features = np.arange(len(self))
        for result in ordered_map(work, [(self, *pair, *shared) for pair in pairs], n_jobs):
            yield features, result


def rank_functions(
    X: Array,
    n_functions: int,
    sample_weights: Array,
    nominal: Array,
    strata: Array | None = None,
    max_missing: float = 1.0,
    device: str | None = None,
) -> RankFunctions:
    """Compute at most `n_functions` rank functions of every column of X (eq. 16).

    `sample_weights` have mean one, and the values of `nominal` columns are names of levels. With `strata`, a column of
    more than `MAX_LEVELS` values that differs between strata is ranked after its mean in every stratum is subtracted.
    Functions are computed from the observed values and are zero at missing values (NaN). A column in which a larger
    fraction than `max_missing` is missing has no functions. The functions are on `device`, as in
    `to_device`.
    """
    if device is not None:
        return _functions_on_device(X, device, n_functions, sample_weights, nominal, strata, max_missing)
    m, n = X.shape
    unweighted = bool(np.all(sample_weights == 1.0))
    untied_values = _untied_functions(m, n_functions)
    values = np.zeros((n, n_functions, m), dtype=np.float32)
    counts, (untied, incomplete) = np.zeros(n, dtype=int), np.zeros((2, n), dtype=bool)
    # Columns of equal level frequencies, such as SNPs of equal genotype counts, share a table of functions.
    tables: dict[tuple[bool, bytes], Array] = {}
    for start in range(0, n, COLUMNS_PER_BLOCK):
        block = np.ascontiguousarray(np.asarray(X[:, start : start + COLUMNS_PER_BLOCK]).T)
        missing = missing_mask(block)
        for j, x in enumerate(block, start):
            if missing is not None and missing[j - start].any():
                observed, incomplete[j] = ~missing[j - start], True
                if not too_many_missing(m - np.count_nonzero(observed), m, max_missing):
                    functions = _functions_of_observed(x, observed, n_functions, sample_weights, nominal[[j]], strata)
                    counts[j], values[j][:, observed] = functions.counts[0], functions.values[0]
                continue
            codes = _codes_of_small_integers(x)
            if strata is not None and codes is None and not nominal[j] and len(np.unique(x)) > MAX_LEVELS:
                x = _subtract_strata(x.astype(np.float64), sample_weights, strata)  # noqa: PLW2901
            if codes is None:
                order = np.argsort(x, kind="stable")
                increases = np.diff(x[order]) != 0
                if unweighted and increases.all() and not nominal[j]:
                    counts[j], untied[j] = len(untied_values), True
                    values[j, : counts[j], order] = untied_values.T
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
    return RankFunctions(values, counts, untied, incomplete)


def _functions_on_device(
    X: Array, device: str, n_functions: int, sample_weights: Array, nominal: Array, strata: Array | None, limit: float
) -> RankFunctions:
    """Compute `rank_functions` on a device: columns without ties are ranked there, the others on the host."""
    m, n = X.shape
    untied_values = to_device(_untied_functions(m, n_functions).astype(np.float32), device)
    xp, count = namespace(untied_values), len(untied_values)
    values = xp.zeros((n, n_functions, m), dtype=xp.float32, device=untied_values.device)
    counts, (untied, incomplete) = np.zeros(n, dtype=int), np.zeros((2, n), dtype=bool)
    only_ranks_matter = strata is None and bool(np.all(sample_weights == 1.0))
    for block in column_slices(n, max(1, device_scratch_size(device) // m)) if only_ranks_matter else ():
        columns = to_device(X[:, block], device).T.contiguous()
        order = xp.argsort(columns, axis=1)
        ordered = take_along_rows(columns, order)
        untied[block] = to_numpy((ordered[:, 1:] > ordered[:, :-1]).all(axis=1)) & ~nominal[block]
        # the inverse of a permutation is the order of its entries
        values[block, :count] = xp.permute_dims(untied_values[:, xp.argsort(order, axis=1)], (1, 0, 2))
    counts[untied], others = count, np.flatnonzero(~untied)
    if len(others):
        functions = rank_functions(X[:, others], n_functions, sample_weights, nominal[others], strata, limit)
        counts[others], untied[others], incomplete[others] = functions.counts, functions.untied, functions.incomplete
        values[as_index(others, values)] = as_array_like(functions.values, values, precise=False)
    return RankFunctions(values, counts, untied, incomplete)


def _functions_of_observed(
    x: Array, observed: Array, n_functions: int, sample_weights: Array, nominal: Array, strata: Array | None
) -> RankFunctions:
    """Return the functions of the observed values of a column."""
    if strata is not None:  # some strata may have no observed value
        strata = np.unique(strata[observed], return_inverse=True)[1]
    return rank_functions(x[observed, None], n_functions, sample_weights[observed], nominal, strata)


@lru_cache(maxsize=64)
def _untied_functions(m: int, n_functions: int) -> Array:
    """Return the functions (rows) of m ascending values without ties."""
    return _orthonormalise(_raw_functions((np.arange(m) + 0.5) / m, n_functions), np.ones(m))


def rank_function_source(
    X: Any,
    n_functions: int,
    sample_weights: Array,
    nominal: Array,
    strata: Array | None = None,
    max_missing: float = 1.0,
    device: str | None = None,
) -> tuple[RankFunctionSource, Array]:
    """Return a source of the rank functions of the columns that have any, and the indices of these columns.

    In memory, features are sorted by kind and then by value, so that results do not depend on the order of the columns.
    A remote table keeps its order. The functions are on `device`, as in `to_device`.
    """
    if (remote := remote_table(X)) is not None:
        return remote.rank_functions(n_functions, sample_weights, nominal, strata, max_missing)
    functions = rank_functions(X, n_functions, sample_weights, nominal, strata, max_missing, device)
    order = np.lexsort((to_numpy(column_keys(functions.values[:, 0].T)), functions.kinds))
    order = order[functions.kinds[order] > 0]
    return functions.take(order), order


def _subtract_strata(x: Array, sample_weights: Array, strata: Array) -> Array:
    """Subtract the means of strata if these explain enough of the variance of x; otherwise return x.

    Subtraction helps where strata differ, such as donors. Where they do not, it would remove from small strata what two
    features do together.
    """
    within, total = (sample_weights @ np.square(centre(x, sample_weights, labels)) for labels in (strata, None))
    chance = strata.max() / (len(x) - 1)
    explained = 1.0 - within / total if total > 0.0 else 0.0
    return centre(x, sample_weights, strata) if explained > chance + MIN_EXPLAINED * (1.0 - chance) else x


def column_scores(y: Array) -> Array:
    """Return the monotone scores of the midranks of every column."""
    return np.asarray(monotone_scores((rankdata(y, axis=0) - 0.5) / len(y)))


def _raw_functions(ranks: Array, n_functions: int) -> Array:
    """Return the monotone score and `cos(aπr)` for a = 2 … n_functions, before they are made orthonormal (eq. 16)."""
    cosines = np.cos(np.pi * np.arange(2, n_functions + 1)[:, None] * ranks)
    return np.concatenate([monotone_scores(np.clip(ranks, 1e-12, 1.0 - 1e-12))[None], cosines])


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
        mass = np.bincount(pools, weights=mass)
        raw = np.eye(len(mass))[np.argsort(-mass.round(9), kind="stable")[: n_functions + 1]]
    else:
        is_discrete, min_mass = len(mass) <= MAX_LEVELS, float(np.clip(m / 50, 3, 10))
        pools = _pool_rare_neighbours(mass, min_mass) if is_discrete else np.arange(len(mass))
        mass = np.bincount(pools, weights=mass)
        raw = _raw_functions((np.cumsum(mass) - mass / 2) / mass.sum(), n_functions)  # of the midranks
    return _orthonormalise(raw, mass)[:n_functions, pools]


def _pool_rare_neighbours(mass: Array, min_mass: float) -> Array:
    """Merge the rarest level with its rarer neighbour until none is rare; return the pool number of each level.

    The last two levels are merged only if one has fewer than `MIN_LEVEL` samples, because one level cannot be tested.
    """
    pools, pool_mass = np.arange(len(mass)), mass.tolist()
    while len(pool_mass) > 1 and min(pool_mass) < (min_mass if len(pool_mass) > 2 else MIN_LEVEL):
        k = int(np.argmin(pool_mass))
        with_next = k == 0 or (k + 1 < len(pool_mass) and pool_mass[k + 1] < pool_mass[k - 1])
        low = k if with_next else k - 1
        pools[pools > low] -= 1
        pool_mass[low : low + 2] = [pool_mass[low] + pool_mass[low + 1]]
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


# ---------------------------------------------------------------- tails of null distributions
# All functions return the log of an upper tail, which stays finite where the tail itself underflows.


def combine_log_p(log_p: Array, shares: Array) -> Array:
    """Return one log p-value of several tests of a hypothesis (rows of `log_p`), by the Cauchy combination.

    `Σ_k s_k cot(π p_k)`, with shares s of sum one, has a Cauchy distribution if the tests are independent, and its tail
    is nearly the same if they are not (Liu and Xie 2020). Equal p-values combine to the same p-value. Shares of a
    smaller sum give larger p-values.
    """
    log_p = np.clip(log_p, None, np.log(0.99))  # a p-value of 1 would outweigh all others
    shares = np.asarray(shares)[:, None]
    with np.errstate(over="ignore", divide="ignore"):
        statistic = (shares / np.tan(np.pi * np.exp(log_p))).sum(axis=0)
        moderate = np.log(0.5 - np.arctan(statistic) / np.pi)
    return np.asarray(np.where(log_p.min(axis=0) > -20.0, moderate, -logsumexp(np.log(shares) - log_p, axis=0)))


def log_tail_of_kurtosis(q: Array, kurtosis: Array) -> Array:
    """Return `log P(z² > q)` for a symmetric z of variance one and this excess kurtosis.

    z has Pearson's type II distribution for a negative kurtosis, that of a coordinate on a sphere, and Student's
    distribution for a positive one.
    """
    q, kurtosis = np.broadcast_arrays(np.asarray(q, dtype=np.float64), kurtosis)
    freedom = 4.0 + 6.0 / np.maximum(kurtosis, 1e-9)
    with np.errstate(divide="ignore"):
        log_tail = np.log(2.0 * stdtr(freedom, -np.sqrt(q * freedom / (freedom - 2.0))))
    d = np.maximum(-6.0 / np.minimum(kurtosis, -1e-9) - 2.0, 1.0 + 1e-9)
    x, b = np.clip(q / d, 1e-300, 1.0 - 1e-12), (d - 1.0) / 2.0
    return np.where(kurtosis < -1e-6, _log_beta_tail(x, b), np.minimum(log_tail, 0.0))


def _log_beta_tail(x: Array, b: Array) -> Array:
    """Return the log tail of the beta distribution of parameters ½ and b; its leading term where that underflows."""
    leading_term = b * np.log1p(-x) - 0.5 * np.log(x) - np.log(b) - betaln(0.5, b)
    with np.errstate(divide="ignore"):
        log_tail = np.asarray(np.log(betainc(b, 0.5, 1.0 - x)))
    return np.where(np.isfinite(log_tail), log_tail, leading_term)


def log_tail_of_form(q: Array, weights: Array, freedom: float) -> Array:
    """Return `log P(Σ_k λ_k z_k² > q)` for z uniform on the sphere `Σ_l z_l² = d` in d dimensions (eq. 19).

    This is the null distribution of a quadratic form in a target of fixed length. For d → ∞ the `z_k²` are independent
    χ² variables of one degree of freedom. The saddlepoint approximation is off by a few per cent of the tail, where an
    approximation by moments is off by orders of magnitude. `weights` has the λ ≥ 0 of a form in each row, and `freedom`
    is d. The tail of a form whose weights are all zero is 1.
    """
    largest = weights.max(axis=1)
    varies = (largest > 0.0) & (q > 0.0)
    log_tail = np.zeros(len(q))
    if varies.any():
        freedom = max(freedom, weights.shape[1] + 1.0)
        # Just below the largest possible value, where the tail is zero and its log infinite.
        scaled = np.minimum(q[varies] / largest[varies], freedom * (1.0 - 1e-12))
        log_tail[varies] = _saddlepoint(scaled, weights[varies] / largest[varies, None], freedom)
    return log_tail


def _saddlepoint(q: Array, weights: Array, d: float) -> Array:
    """Return the log tail of `log_tail_of_form` by the formula of Lugannani and Rice; the largest weight is 1.

    The tail is `P(Σ_l a_l g_l² > 0)` for `a_l = λ_l - q/d` and independent normal g (eq. 19; Kuonen 1999). The
    cumulant generating function of the sum is `K(ζ) = -½ Σ_l log(1 - 2ζ a_l)`; d - k of the λ_l are zero.
    """
    shift = q / d
    n_zero = d - weights.shape[1]
    a = weights - shift[:, None]

    def derivatives(zeta: Array) -> tuple[Array, Array]:
        """Return K' and K''."""
        terms, zero_term = a / (1.0 - 2.0 * zeta[:, None] * a), shift / (1.0 + 2.0 * zeta * shift)
        first = terms.sum(axis=1) - n_zero * zero_term
        return first, 2.0 * (np.square(terms).sum(axis=1) + n_zero * np.square(zero_term))

    # K' increases from -∞ to ∞ between its poles; K'(0) is the mean, which is negative in the upper tail.
    upper_tail = a.sum(axis=1) - n_zero * shift < 0.0
    high = (1.0 - 1e-13) / (2.0 * (1.0 - shift))
    low = -(1.0 - 1e-13) / (2.0 * shift)
    low, high = np.where(upper_tail, 0.0, low), np.where(upper_tail, high, 0.0)
    zeta = np.where(upper_tail, high * np.maximum(1.0 - 1.0 / np.maximum(q, 1.5), 0.1), 0.5 * low)
    # A form that has converged does not change any more, so that the result does not depend on the other forms.
    moving = np.ones(len(q), dtype=bool)
    for _ in range(NEWTON_STEPS):
        first, second = derivatives(zeta)
        low, high = np.where(first < 0.0, zeta, low), np.where(first < 0.0, high, zeta)
        newton = zeta - first / second
        # the saddlepoint is the minimum of K, so that an error of ζ changes K by its square
        following = np.where((newton >= low) & (newton <= high), newton, 0.5 * (low + high))
        moving &= np.abs(following - zeta) * np.sqrt(second) > CONVERGED
        if not moving.any():
            break
        zeta = np.where(moving, following, zeta)
    second = derivatives(zeta)[1]
    K = -0.5 * (np.log1p(-2.0 * zeta[:, None] * a).sum(axis=1) + n_zero * np.log1p(2.0 * zeta * shift))
    # Lugannani and Rice, in the form of Barndorff-Nielsen: P ≈ Φ(-(w + log(v/w)/w)).
    w = np.sign(zeta) * np.sqrt(np.maximum(-2.0 * K, 0.0))
    v = zeta * np.sqrt(second)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_tail = log_ndtr(-(w + np.log(v / w) / w))
    # The formula is singular at the mean, where moments are accurate.
    log_tail = np.where(np.abs(w) < 0.1, log_tail_of_moments(q, *cumulants(weights)), log_tail)
    # With a single weight, z²/d has a beta distribution.
    single = (weights > 1e-10).sum(axis=1) == 1
    log_tail[single] = _log_beta_tail(q[single] / d, np.asarray((d - 1.0) / 2.0))
    return np.asarray(log_tail)


def cumulants(weights: Array) -> tuple[Array, Array, Array]:
    """Return `Σλ, Σλ², Σλ³` over the last axis: the cumulants of `Σ λ_k z_k²` are these times 1, 2 and 8."""
    return weights.sum(axis=-1), np.square(weights).sum(axis=-1), (weights**3).sum(axis=-1)


def log_tail_of_moments(q: Array, first: Array | float, second: Array | float, third: Array | float) -> Array:
    """Return the log tail at q of the Pearson type III distribution with the moments of `Σ λ_k z_k²`.

    Its mean is Σλ (`first`), its variance 2Σλ² (`second`) and its third cumulant 8Σλ³ (`third`), as of independent
    χ² variables z². It is a χ² distribution of (Σλ²)³/(Σλ³)² degrees of freedom, shifted and scaled.
    """
    first, second, third = np.asarray(first), np.asarray(second), np.asarray(third)
    return _log_pearson_tail((q - first) / np.sqrt(2.0 * second), np.asarray(second**3 / third**2))


def _log_pearson_tail(score: Array, df: Array) -> Array:
    """Return the log tail of a standardised χ² variable; its leading terms where that underflows."""
    x = np.maximum(df + score * np.sqrt(2.0 * df), 0.0)
    a, half = df / 2.0, np.maximum(x, 1e-300) / 2.0
    with np.errstate(divide="ignore"):
        log_tail = np.asarray(np.log(gammaincc(a, half)))
    leading_terms = (a - 1.0) * np.log(half) - half - gammaln(a) - np.log1p(-np.minimum((a - 1.0) / half, 0.9))
    return np.where(np.isfinite(log_tail), log_tail, leading_terms)
