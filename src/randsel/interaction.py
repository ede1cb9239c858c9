"""Main effects and interactions of all features, with partners and p-values: statistics, scan, tests, forward steps.

With the functions `φ` of `rank_functions` and the residual `e` of the target, feature i and the pair (i, j) have

    main_i  = Σ_a  ω_a      Σ_c (e_cᵀ φ_ia)²                eq. 17
    pair_ij = Σ_ab ω_a ω_b  Σ_c (e_cᵀ [φ_ia ∘ φ_jb])²       eq. 18

All pairs are scanned by matrix products; only the best are kept, and tested again with care: the main effects of both
features projected out of the products, and the larger of two tails, that of exchangeable residuals and that of
residuals of unequal variance, which a few samples cannot make small.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
from scipy.special import gammaln

from randsel._parallel import ordered_map
from randsel.kernels import Array
from randsel.null_distribution import cumulants, log_tail, log_tail_of_moments
from randsel.rank_functions import Functions, centre

#: Features per tile of the scan: a tile's products fit the cache, and its matrix products are long enough.
TILE = 512
#: Bytes of products to hold in a batch of tests.
BATCH_BYTES = 1 << 25
#: Features whose main effects are taken out of the target before the scan, at most.
MOST_MAIN_EFFECTS = 500
#: Smooth functions: sets are tested with these only, too, because most effects are in them.
SMOOTH = 2
#: Family-wise level at which main effects are taken out, and forward steps are taken.
LEVEL = 0.05
#: Forward steps at most, sets that they look at, and sets tested with care in each.
MOST_STEPS, POOL, CLOSE_LOOK = 25, 500, 5
#: First features whose pairs are all tested, to be drawn.
TOP = 20
#: Mean square that a product must keep when strata and main effects are taken out of it.
LEAST_LEFT = 0.05


@dataclass(frozen=True)
class Problem:
    """Functions of the features, and the target as columns.

    Attributes
    ----------
    functions
        Of every feature.
    decay
        `ω_a`, weight of the a-th function.
    Y
        Shape (samples, columns): weighted mean zero in every stratum, mean square one.
    share
        Weights of the samples, of mean one.
    strata
        Within which the target may be permuted under the null hypothesis, or None.
    n_jobs
        Threads.
    """

    functions: Functions
    decay: Array
    Y: Array
    share: Array
    strata: Array | None
    n_jobs: int | None = None

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.functions.values)

    def n_functions(self, size: int) -> int:
        """Functions per feature that sets of this size are tested with."""
        most = self.functions.values.shape[1]
        return most if size < 3 else functions_of_triples(self.freedom, most)

    @property
    def freedom(self) -> int:
        """Dimensions of a target whose mean is zero in every stratum."""
        return len(self.Y) - (1 if self.strata is None else int(self.strata.max()) + 1)

    @cached_property
    def least_log_p(self) -> float:
        """Log of one over the number of different targets that permutations within strata make: no p is smaller."""
        strata = np.zeros(len(self.Y), dtype=int) if self.strata is None else self.strata
        values = np.unique(self.Y.round(9), axis=0, return_inverse=True)[1].ravel()
        _, sizes = np.unique(strata, return_counts=True)
        _, ties = np.unique(np.stack([strata, values]), axis=1, return_counts=True)
        return float(gammaln(ties + 1.0).sum() - gammaln(sizes + 1.0).sum())

    def after(self, first: int, n_functions: int) -> "Problem":
        """Return the problem of the features from one on, with their first few functions."""
        values, counts, plain = self.functions.values, self.functions.counts, self.functions.plain
        few = Functions(values[first:, :n_functions], np.minimum(counts[first:], n_functions), plain[first:])
        return replace(self, functions=few, decay=self.decay[:n_functions])


def functions_of_triples(freedom: int, n_functions: int) -> int:
    """Functions per feature in a triple: their products are to be few beside the samples."""
    return int(np.clip((freedom / 4) ** (1 / 3), 1, min(n_functions, 3)))


def encode_target(y: Array, kind: str, share: Array, strata: Array | None) -> Array:
    """Encode as columns of mean zero in every stratum: orthonormal contrasts of classes, or standardised numbers."""
    if kind == "classification":
        Y = (y[:, None] == np.unique(y)).astype(np.float64)
    else:
        Y = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        Y = np.ldexp(Y, -np.frexp(np.maximum(np.abs(Y).max(axis=0), np.finfo(float).tiny))[1])
        # what is constant becomes zero exactly, and a small spread around a large value keeps its digits
        first = 0 if strata is None else np.unique(strata, return_index=True)[1][strata]
        Y = Y - Y[first]
    Y = centre(Y.T, share, strata).T
    if kind == "classification":
        values, vectors = np.linalg.eigh((Y * share[:, None]).T @ Y / share.sum())
        kept = values > 1e-10
        return np.asarray(Y @ vectors[:, kept] / np.sqrt(values[kept]))
    spread = np.sqrt(share @ (Y * Y) / share.sum())
    return np.asarray(Y[:, spread > 0.0] / spread[spread > 0.0])


# ---------------------------------------------------------------- tests with care


@dataclass(frozen=True)
class Evidence:
    """Statistics and log p-values of some sets of features."""

    statistic: Array
    log_p: Array


def evidence(problem: Problem, Y: Array, sets: Array) -> Evidence:
    """Test sets of one, two or three features (rows of `sets`), the effects of smaller sets projected out."""
    size = sets.shape[1]
    batch = max(1, BATCH_BYTES // (8 * len(Y) * problem.n_functions(size) ** size))
    tasks = [(problem, Y, sets[start : start + batch]) for start in range(0, len(sets), batch)]
    parts = ordered_map(_test_batch, tasks, problem.n_jobs)
    if not parts:
        return Evidence(np.zeros(0), np.zeros(0))
    return Evidence(np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts]))


def _test_batch(problem: Problem, Y: Array, sets: Array) -> tuple[Array, Array]:
    used = min(problem.n_functions(sets.shape[1]), int(problem.functions.counts[sets].max(initial=1)))
    products, weights = _products(problem, sets, max(used, 1))
    # single precision is ample for products: sums over a few thousand samples keep five digits
    share, total = problem.share.astype(np.float32), problem.share.sum()
    if sets.shape[1] > 1 or problem.strata is not None:
        products = centre(products, share, problem.strata)
    if sets.shape[1] > 1:
        products = _project_out(products, _smaller(problem, sets, max(used, 1)), share)
    left = np.square(products) @ share / total
    weights = np.divide(weights, left, out=np.zeros_like(weights), where=left > LEAST_LEFT)
    products *= np.sqrt(weights, dtype=np.float32)[:, :, None]
    e = Y.astype(np.float32) * share[:, None]
    squares = np.square((products @ e).astype(np.float64)).sum(axis=2)
    spread = np.maximum(np.linalg.eigvalsh((Y * problem.share[:, None]).T @ Y / total), 0.0)
    even, *uneven = (
        ((products * np.square(column)) @ products.transpose(0, 2, 1)).astype(np.float64) for column in (share, *e.T)
    )
    # Y has length √m, spread over its freedom
    freedom, scale = problem.freedom * Y.shape[1], problem.freedom / len(Y)
    log_p = []
    for part in _parts(max(used, 1), sets.shape[1]):
        block = np.ix_(np.arange(len(sets)), part, part)
        evenly = (np.maximum(np.linalg.eigvalsh(even[block]), 0.0)[:, :, None] * spread).reshape(len(sets), -1)
        unevenly = np.concatenate([np.maximum(np.linalg.eigvalsh(matrix[block]), 0.0) for matrix in uneven], axis=1)
        statistic = squares[:, part].sum(axis=1) * scale
        log_p.append(np.maximum(log_tail(statistic, evenly, freedom), log_tail(statistic, unevenly, freedom)))
    # two looks, unless the features have smooth functions only
    looks = np.where(problem.functions.counts[sets].max(axis=1) > SMOOTH, len(log_p), 1)
    found = np.clip(np.min(log_p, axis=0) + np.log(looks), problem.least_log_p, 0.0)
    return squares.sum(axis=1) / total, found


def _parts(used: int, size: int) -> list[Array]:
    """Places of the products of smooth functions only, and of all products, if those are more."""
    digits = np.indices((used,) * size).reshape(size, -1)
    everything = np.arange(used**size)
    return [everything] if used <= SMOOTH else [np.flatnonzero((digits < SMOOTH).all(axis=0)), everything]


def _products(problem: Problem, sets: Array, used: int) -> tuple[Array, Array]:
    """`φ_ia ∘ φ_jb ∘ …` of every set, shape (sets, functions, samples), and their weights `ω_a ω_b …`."""
    values, counts = problem.functions.values, problem.functions.counts
    products = np.ones((len(sets), 1, values.shape[2]), dtype=np.float32)
    weights = np.ones((len(sets), 1))
    for feature in sets.T:
        products = products[:, :, None, :] * values[feature][:, None, :used, :]
        own = np.where(np.arange(used) < counts[feature][:, None], problem.decay[:used], 0.0)
        weights = weights[:, :, None] * own[:, None, :]
        products = products.reshape(len(sets), -1, values.shape[2])
        weights = weights.reshape(len(sets), -1)
    return products, weights


def _smaller(problem: Problem, sets: Array, used: int) -> Array:
    """Functions of all proper subsets of every set."""
    size = sets.shape[1]
    parts = [
        _products(problem, sets[:, list(columns)], used)[0]
        for smaller in range(1, size)
        for columns in combinations(range(size), smaller)
    ]
    return centre(np.concatenate(parts, axis=1), problem.share.astype(np.float32), problem.strata)


def _project_out(products: Array, nuisance: Array, share: Array) -> Array:
    weighted = nuisance * share
    gram = (weighted @ nuisance.transpose(0, 2, 1)).astype(np.float64)
    # functions that a feature does not have are zero, and equal features have equal functions
    gram += 1e-6 * float(share.sum()) * np.eye(gram.shape[1])
    slopes = np.linalg.solve(gram, (weighted @ products.transpose(0, 2, 1)).astype(np.float64))
    products -= slopes.transpose(0, 2, 1).astype(np.float32) @ nuisance
    return products


# ---------------------------------------------------------------- what is left of the target


def residual(problem: Problem, *sets: Array) -> Array:
    """Take an additive fit out of the target: ridge regression on the functions of features, pairs and triples.

    The penalty is that of the smallest generalised cross-validation error, so that a fit on more functions than
    samples leaves what it cannot foretell.
    """
    rows = []
    for members in sets:
        if len(members):
            products, weights = _products(problem, members, problem.n_functions(members.shape[1]))
            products = centre(products, problem.share, problem.strata) * np.sqrt(weights)[:, :, None]
            rows.append(products.reshape(-1, products.shape[2]))
    if not rows:
        return problem.Y
    root = np.sqrt(problem.share)
    F = np.concatenate(rows).astype(np.float64) * root
    Z = problem.Y * root[:, None]
    m = len(Z)
    if len(F) > m:
        values, U = np.linalg.eigh(F.T @ F)
    else:
        values, V = np.linalg.eigh(F @ F.T)
        U = F.T @ (V / np.sqrt(np.maximum(values, 1e-300)))
    kept = values > 1e-9 * values[-1]
    values, U = values[kept], U[:, kept]
    inner = U.T @ Z
    energy, shares = np.square(inner).sum(axis=1), np.square(Z).sum()
    best, shrink = np.inf, np.zeros(len(values))
    free = problem.freedom
    for penalty in m * np.logspace(-4, 3, 29):
        f = values / (values + penalty)
        error = (shares - ((2.0 * f - f * f) * energy).sum()) / (1.0 - f.sum() / free) ** 2
        if f.sum() < free and error < best:
            best, shrink = error, f
    left = (Z - U @ (shrink[:, None] * inner)) / root[:, None]
    left = centre(left.T, problem.share, problem.strata).T
    spread = np.sqrt(problem.share @ (left * left) / problem.share.sum())
    # a column that is fitted to what the least penalty leaves has nothing left to explain
    return np.asarray(left / np.where(spread > 1e-3, spread, np.inf))


# ---------------------------------------------------------------- the scan of all pairs


@dataclass(frozen=True)
class _Block:
    start: int
    stop: int
    count: int
    plain: bool


def scan(
    problem: Problem,
    Y: Array,
    n_pairs: int,
    factor: Array | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Array, Array]:
    """Compute the statistics of every pair, keep the least likely by chance and each feature's best partner.

    Features should be sorted by number and kind of functions, which makes tiles few. `factor` are functions (rows) by
    which all products are multiplied: with those of a third feature the scan is one of triples.

    Returns
    -------
    pairs, log_p
        Rows (i, j) with i < j, the least likely first, and what the scan takes for the log p-value: the best `n_pairs`
        by either statistic are among them.
    """
    blocks = _blocks(problem.functions)
    e = (Y * problem.share[:, None]).T
    if factor is not None:
        e = (factor[:, None, :] * e).reshape(-1, e.shape[1])
    e = e[np.square(e).sum(axis=1) > 0.0].astype(np.float32)
    spread = np.maximum(np.linalg.eigvalsh((Y * problem.share[:, None]).T @ Y / len(Y)), 0.0)
    if factor is not None:
        spread = np.outer(np.square(factor).mean(axis=1), spread).ravel()
    if not len(e):
        return np.zeros((0, 2), dtype=int), np.zeros(0)
    n = problem.n_features
    best_p, partner = np.full(n, np.inf), np.full(n, -1)
    pool_p, pool = np.zeros(0), np.zeros((0, 2), dtype=int)
    for number, block in enumerate(blocks):
        limit = pool_p.max() if len(pool_p) >= 2 * n_pairs else np.inf
        tasks = [(problem, e, spread, block, other, n_pairs, limit) for other in blocks[number:]]
        for ends, log_p, pairs in ordered_map(_tile, tasks, problem.n_jobs):
            for features, at, values in ends:
                better = values < best_p[features]
                best_p[features[better]] = values[better]
                partner[features[better]] = at[better]
            pool_p, pool = np.concatenate([pool_p, log_p]), np.concatenate([pool, pairs])
        # a pair can be there twice, once by each statistic
        kept = np.argsort(pool_p, kind="stable")[: 2 * n_pairs]
        pool_p, pool = pool_p[kept], pool[kept]
        if progress is not None:
            tiles = len(blocks) * (len(blocks) + 1) // 2
            progress(tiles - (len(blocks) - number - 1) * (len(blocks) - number) // 2, tiles)
    own = np.flatnonzero(partner >= 0)
    both = np.sort(np.stack([own, partner[own]], axis=1), axis=1)
    log_p = np.concatenate([pool_p, best_p[own]])
    order = np.argsort(log_p, kind="stable")
    pairs = np.concatenate([pool, both])[order]
    first = np.sort(np.unique(pairs, axis=0, return_index=True)[1])
    return pairs[first], log_p[order][first]


def _blocks(functions: Functions) -> list[_Block]:
    """Find runs of at most `TILE` features of one kind and number of functions; features without any are left out."""
    blocks = []
    edges = np.flatnonzero(np.diff(2 * functions.counts + functions.plain)) + 1
    for run in np.split(np.arange(len(functions.counts)), edges):
        count = int(functions.counts[run[0]]) if len(run) else 0
        if count:
            blocks += [
                _Block(int(part[0]), int(part[-1]) + 1, count, bool(functions.plain[part[0]]))
                for part in np.array_split(run, -(-len(run) // TILE))
            ]
    return blocks


def _tile(
    problem: Problem, e: Array, spread: Array, rows: _Block, columns: _Block, n_pairs: int, limit: float
) -> tuple[list[tuple[Array, Array, Array]], Array, Array]:
    """Best partners of the features of a tile, and log p and places of its best pairs, by either statistic."""
    values, decay = problem.functions.values, problem.decay.astype(np.float32)
    left = values[rows.start : rows.stop, : rows.count] * np.sqrt(decay[: rows.count, None])
    right = values[columns.start : columns.stop, : columns.count] * np.sqrt(decay[: columns.count, None])
    weights = np.outer(problem.decay[: rows.count], problem.decay[: columns.count])
    plain = rows.plain and columns.plain
    ends, log_p, pairs = [], [], []
    for used, statistic in _statistics(left, right, e, problem.share, None if plain else weights.astype(np.float32)):
        if rows.start == columns.start:
            statistic[np.tril_indices(len(statistic))] = -np.inf
        moments = cumulants(np.outer(weights[:used, :used], spread).ravel())
        found = _best_of(statistic, moments, n_pairs, limit)
        for (places, partners, values_), block, other in zip(found[0], (rows, columns), (columns, rows), strict=True):
            ends.append((places + block.start, partners + other.start, values_))
        log_p.append(found[1])
        pairs.append(found[2] + [[rows.start, columns.start]])
    return ends, np.concatenate(log_p), np.concatenate(pairs)


def _best_of(
    statistic: Array, moments: tuple[Array, Array, Array], n_pairs: int, limit: float
) -> tuple[list[tuple[Array, Array, Array]], Array, Array]:
    """Best partner and its log p by row and by column; log p and places of the best pairs, none above the limit."""

    def log_p(q: Array) -> Array:
        return log_tail_of_moments(q.astype(np.float64), *moments)

    ends = []
    for axis in (1, 0):
        at = statistic.argmax(axis=axis)
        top = np.take_along_axis(statistic, np.expand_dims(at, axis), axis).ravel()
        seen = np.flatnonzero(top >= 0.0)
        ends.append((seen, at[seen], log_p(top[seen])))
    flat = statistic.ravel()
    count = min(n_pairs, int((flat >= 0.0).sum()))
    places = np.argpartition(-flat, count - 1)[:count] if 0 < count < len(flat) else np.flatnonzero(flat >= 0.0)
    found = log_p(flat[places])
    kept = found <= limit
    return ends, found[kept], np.stack(np.unravel_index(places[kept], statistic.shape), axis=1)


def _statistics(left: Array, right: Array, e: Array, share: Array, weights: Array | None) -> list[tuple[int, Array]]:
    """Eq. 18 for all pairs of a tile, with the smooth functions only and with all; how many they are comes with them.

    `left` and `right` hold the functions times `√ω`. With `weights`, the `ω_a ω_b`, each product is divided by its own
    mean square: rare levels would blow it up.
    """
    m, most = left.shape[2], max(left.shape[1], right.shape[1])
    statistic = np.zeros((len(left), len(right)), dtype=np.float32)
    inner, squares = np.empty_like(statistic), np.empty_like(statistic)
    made = []
    for used, before in ((min(SMOOTH, most), 0), (most, SMOOTH)):
        for a in range(min(used, left.shape[1])):
            weighted = [left[:, a] * column for column in e]
            scale = np.square(left[:, a]) * np.square(share).astype(np.float32)
            for b in range(before if a < before else 0, min(used, right.shape[1])):
                if weights is not None:
                    np.matmul(scale, np.square(right[:, b]).T, out=squares)
                    np.maximum(squares, 1e-6 * m, out=squares)
                for factor in weighted:
                    np.matmul(factor, right[:, b].T, out=inner)
                    np.multiply(inner, inner, out=inner)
                    if weights is not None:
                        inner /= squares
                        inner *= m * weights[a, b]
                    statistic += inner
        if used > before:
            made.append((used, statistic / m))
    return made


# ---------------------------------------------------------------- all together


@dataclass(frozen=True)
class Analysis:
    """Evidence for every feature alone, for the best sets of features, and an order of the features.

    Attributes
    ----------
    main
        Evidence for each feature alone.
    sets, found
        The best pairs (for each number of features in a set), and the evidence for them; the best first.
    steps
        At which forward step a set was taken in, 0 if never.
    log_p
        Per feature: of its main effect or its best set, corrected for their number.
    log_p_left
        In what the features taken in by forward steps leave unexplained, of main effect and best set together, as the
        scan takes them: a measure to rank by.
    order
        Features, best first: those taken in by forward steps, then by the smaller of the two.
    among_top
        Log p of the pairs among the first `TOP` features of `order`; of their main effects on the diagonal.
    """

    main: Evidence
    sets: dict[int, Array]
    found: dict[int, Evidence]
    steps: dict[int, Array]
    log_p: Array
    log_p_left: Array
    order: Array
    among_top: Array

    def partners(self) -> tuple[Array, Array]:
        """Per feature, the other one of its best pair, -1 if it is in none, and the log p of that pair."""
        partner, log_p = np.full(len(self.log_p), -1), np.zeros(len(self.log_p))
        if 2 in self.sets:
            features, first = np.unique(self.sets[2].ravel(), return_index=True)
            partner[features] = self.sets[2][:, ::-1].ravel()[first]
            log_p[features] = np.minimum(np.repeat(self.found[2].log_p, 2)[first], 0.0)
        return partner, log_p


def analyse(
    problem: Problem, n_pairs: int, order: int = 2, progress: Callable[[int, int], None] | None = None
) -> Analysis:
    """Test all features and all sets of up to `order` of them; `progress` gets tiles done and tiles in all."""
    n = problem.n_features
    main = evidence(problem, problem.Y, np.arange(n)[:, None])
    strong = np.argsort(main.log_p, kind="stable")[:MOST_MAIN_EFFECTS]
    strong = strong[main.log_p[strong] < np.log(LEVEL / n)]
    sets: dict[int, Array] = {}
    found: dict[int, Evidence] = {}
    pair_target = residual(problem, strong[:, None]) if order >= 2 else problem.Y
    if order >= 2 and n >= 2:
        candidates, _ = scan(problem, pair_target, n_pairs, progress=progress)
        sets[2], found[2] = _sorted(problem, pair_target, candidates)
    if order >= 3 and n >= 3:
        top = sets[2][:MOST_STEPS]
        top = top[found[2].log_p[: len(top)] < np.log(LEVEL) - log_number(n, 2)]
        Y = residual(problem, np.union1d(strong, top.ravel()).astype(int)[:, None], top)
        sets[3], found[3] = _sorted(problem, Y, scan_triples(problem, Y, n_pairs))
    log_p = per_feature(n, order, main.log_p, sets, found)
    taken, steps, left = _forward(problem, order, sets)
    rest = np.argsort(np.minimum(log_p, left), kind="stable")
    ranked = np.concatenate([taken, rest[~np.isin(rest, taken)]])
    among_top = _among(problem, pair_target, main, ranked[:TOP])
    return Analysis(main, sets, found, steps, log_p, left, ranked, among_top)


def _among(problem: Problem, Y: Array, main: Evidence, features: Array) -> Array:
    table = np.diag(main.log_p[features])
    i, j = np.triu_indices(len(features), 1)
    table[i, j] = table[j, i] = evidence(problem, Y, np.stack([features[i], features[j]], axis=1)).log_p
    return table


def _sorted(problem: Problem, Y: Array, sets: Array) -> tuple[Array, Evidence]:
    found = evidence(problem, Y, sets)
    best = np.lexsort((-found.statistic, found.log_p))
    return sets[best], Evidence(found.statistic[best], found.log_p[best])


def log_number(n: int, size: int) -> float:
    """Log of the number of sets of `size` features out of n."""
    return float(np.log([n - k for k in range(size)]).sum() - np.log(np.arange(1, size + 1)).sum())


def per_feature(n: int, order: int, main: Array, sets: dict[int, Array], found: dict[int, Evidence]) -> Array:
    """Log p of each feature: the least of its main effect and of its best sets, times what was looked at (eq. 20)."""
    together = _least(n, {size: evidence.log_p for size, evidence in found.items()}, sets)
    return np.asarray(np.minimum(np.minimum(main, together) + np.log(order), 0.0))


def _least(n: int, log_p: dict[int, Array], sets: dict[int, Array]) -> Array:
    """Per feature, the least log p of the sets of two and more that it is in, times the number of such sets."""
    least = np.full(n, np.inf)
    for size, members in sets.items():
        if size > 1:
            # a feature is in (size / n) of all sets
            corrected = log_p[size] + log_number(n, size) + np.log(size / n)
            for column in members.T:
                np.minimum.at(least, column, corrected)
    return least


def scan_triples(problem: Problem, Y: Array, n_triples: int) -> Array:
    """Return the triples that the scan takes for least likely by chance; every feature in turn is the first of them."""
    kept, kept_p = np.zeros((0, 3), dtype=int), np.zeros(0)
    few = problem.after(0, problem.n_functions(3))
    for first in range(problem.n_features - 2):
        factor = few.functions.values[first, : few.functions.counts[first]]
        if not len(factor):
            continue
        factor = factor * np.sqrt(few.decay[: len(factor), None])
        pairs, log_p = scan(few.after(first + 1, len(few.decay)), Y, n_triples, factor)
        triples = np.concatenate([np.full((len(pairs), 1), first), pairs + first + 1], axis=1)
        kept, kept_p = np.concatenate([kept, triples]), np.concatenate([kept_p, log_p])
        best = np.argsort(kept_p, kind="stable")[:n_triples]
        kept, kept_p = kept[best], kept_p[best]
    return kept


# ---------------------------------------------------------------- forward steps


def _forward(problem: Problem, order: int, sets: dict[int, Array]) -> tuple[Array, dict[int, Array], Array]:
    """Take in the strongest feature or set, fit it, look again at what is left, until nothing stands out.

    What a strong feature explains is no longer noise to the weak ones. Only sets that the scan kept are looked at.

    Returns
    -------
    taken, steps, left
        Features in the order taken; step by set; per feature, log p of main effect and best set together at the end.
    """
    n = problem.n_features
    pools = {1: np.arange(n)[:, None], **{size: members[:POOL] for size, members in sets.items()}}
    steps = {size: np.zeros(len(members), dtype=int) for size, members in pools.items()}
    taken: list[int] = []
    Y = problem.Y
    for step in range(1, MOST_STEPS + 1):
        choice = _strongest(problem, Y, pools, steps, order)
        if choice is None:
            break
        size, place = choice
        steps[size][place] = step
        taken += [int(j) for j in pools[size][place] if j not in taken]
        together = [pool[steps[size] > 0] for size, pool in pools.items() if size > 1]
        Y = residual(problem, np.array(taken)[:, None], *together)
    quick = {size: _quick(problem, Y, members) for size, members in pools.items()}
    at_end = np.minimum(quick[1], 0.0) + np.minimum(_least(n, quick, pools), 0.0) + np.log(order)
    full = {size: np.zeros(len(members), dtype=int) for size, members in sets.items()}
    for size, column in full.items():
        column[: len(steps[size])] = steps[size]
    return np.array(taken, dtype=int), full, at_end


def _strongest(
    problem: Problem, Y: Array, pools: dict[int, Array], steps: dict[int, Array], order: int
) -> tuple[int, int] | None:
    """Size and place of the set that stands out most, None if none does."""
    best, least = None, np.log(LEVEL / order)
    for size, members in pools.items():
        open_ = np.flatnonzero(steps[size] == 0)
        if not len(open_):
            continue
        quick = _quick(problem, Y, members[open_])
        first = open_[np.argsort(quick, kind="stable")[:CLOSE_LOOK]]
        log_p = evidence(problem, Y, members[first]).log_p + log_number(problem.n_features, size)
        k = int(np.argmin(log_p))
        if log_p[k] < least:
            best, least = (size, int(first[k])), log_p[k]
    return best


def _quick(problem: Problem, Y: Array, sets: Array) -> Array:
    """Log p as the scan takes it."""
    size = sets.shape[1]
    batch = max(1, BATCH_BYTES // (8 * len(Y) * problem.n_functions(size) ** size))
    parts = [_quick_batch(problem, Y, sets[start : start + batch]) for start in range(0, len(sets), batch)]
    return np.concatenate(parts)


def _quick_batch(problem: Problem, Y: Array, sets: Array) -> Array:
    products, weights = _products(problem, sets, problem.n_functions(sets.shape[1]))
    share = problem.share
    squares = np.square(products) @ np.square(share)
    sums = np.square(products @ (Y * share[:, None])).sum(axis=2)
    terms = weights * np.divide(sums, squares, out=np.zeros_like(sums), where=squares > 1e-6 * len(Y))
    spread = np.maximum(np.linalg.eigvalsh((Y * share[:, None]).T @ Y / share.sum()), 0.0)
    parts = _parts(problem.n_functions(sets.shape[1]), sets.shape[1])
    log_p = np.zeros((len(parts), len(sets)))
    for row, part in zip(log_p, parts, strict=True):
        moments = cumulants((weights[:, part, None] * spread).reshape(len(sets), -1))
        alive = moments[0] > 0.0
        row[alive] = log_tail_of_moments(terms[alive][:, part].sum(axis=1), *(value[alive] for value in moments))
    return np.asarray(log_p.min(axis=0) + np.log(len(parts)))
