"""Evidence for features, pairs and triples: their statistics, p-values, and what is left of the target without them.

With the functions `φ` of `rank_functions` and the residual `e` of the target, feature i and the pair (i, j) have

    main_i  = Σ_a  ω_a      Σ_c (e_cᵀ φ_ia)²                eq. 17
    pair_ij = Σ_ab ω_a ω_b  Σ_c (e_cᵀ [φ_ia ∘ φ_jb])²       eq. 18

The main effects of both features are projected out of the products, and the p-value is the larger of two tails: that of
exchangeable residuals, and that of residuals of unequal variance, which a few samples cannot make small.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import gammaln

from randsel._numerics.null_tails import log_tail
from randsel._numerics.rank_functions import Functions, centre
from randsel._utils.jobs import ordered_map
from randsel._utils.typing import Array

#: Bytes of products to hold in a batch of tests.
BATCH_BYTES = 1 << 25
#: Smooth functions: sets are tested with these only, too, because most effects are in them.
SMOOTH = 2
#: Mean square that a product must keep when strata and main effects are taken out of it.
LEAST_LEFT = 0.05


@dataclass(frozen=True)
class Problem:
    """Functions of the features, and the target as columns.

    Attributes
    ----------
    functions
        Of every feature; perhaps on a cluster, where sets of features are then tested.
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
    device
        Where the scan of pairs runs, as in `to_device`; None for the host.
    """

    functions: Any
    decay: Array
    Y: Array
    share: Array
    strata: Array | None
    n_jobs: int | None = None
    device: str | None = None

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.functions)

    def n_functions(self, size: int) -> int:
        """Functions per feature that sets of this size are tested with."""
        most: int = self.functions.most
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

    def of_members(self, sets: Array) -> tuple["Problem", Array]:
        """Return a problem whose functions of the members of sets are in memory, and the sets with numbers of it."""
        if isinstance(self.functions, Functions):
            return self, sets
        members, places = np.unique(sets, return_inverse=True)
        return replace(self, functions=self.functions.take(members)), places.reshape(sets.shape)

    def where_held(self, function: Callable[..., Any], Y: Array, sets: Array) -> Iterator[tuple[Array, Any]] | None:
        """Rows of groups of sets, and a function of the problem, Y and these sets, if functions are on a cluster."""
        if isinstance(self.functions, Functions):
            return None
        found: Iterator[tuple[Array, Any]] = self.functions.on_sets(_there, sets, function, self.without_functions, Y)
        return found

    @property
    def without_functions(self) -> "Problem":
        """Return what goes to a worker that makes functions of its own."""
        return replace(self, functions=None, n_jobs=1)

    def after(self, first: int, n_functions: int) -> "Problem":
        """Return the problem of the features from one on, with their first few functions."""
        values, counts, plain = self.functions.values, self.functions.counts, self.functions.plain
        few = Functions(values[first:, :n_functions], np.minimum(counts[first:], n_functions), plain[first:])
        return replace(self, functions=few, decay=self.decay[:n_functions])


def _there(functions: Functions, sets: Array, function: Callable[..., Any], problem: Problem, Y: Array) -> Any:
    return function(replace(problem, functions=functions), Y, sets)


def functions_of_triples(freedom: int, n_functions: int) -> int:
    """Functions per feature in a triple: their products are to be few beside the samples."""
    return int(np.clip((freedom / 4) ** (1 / 3), 1, min(n_functions, 3)))


# ---------------------------------------------------------------- tests with care


@dataclass(frozen=True)
class Evidence:
    """Statistics and log p-values of some sets of features."""

    statistic: Array
    log_p: Array


def evidence(problem: Problem, Y: Array, sets: Array) -> Evidence:
    """Test sets of one, two or three features (rows of `sets`), the effects of smaller sets projected out."""
    groups = problem.where_held(evidence, Y, sets)
    if groups is not None:
        whole = Evidence(np.zeros(len(sets)), np.zeros(len(sets)))
        for rows, found in groups:
            whole.statistic[rows], whole.log_p[rows] = found.statistic, found.log_p
        return whole
    size = sets.shape[1]
    batch = max(1, BATCH_BYTES // (8 * len(Y) * problem.n_functions(size) ** size))
    tasks = [(problem, Y, sets[start : start + batch]) for start in range(0, len(sets), batch)]
    parts = ordered_map(_test_batch, tasks, problem.n_jobs)
    if not parts:
        return Evidence(np.zeros(0), np.zeros(0))
    return Evidence(np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts]))


def _test_batch(problem: Problem, Y: Array, sets: Array) -> tuple[Array, Array]:
    used = min(problem.n_functions(sets.shape[1]), int(problem.functions.counts[sets].max(initial=1)))
    products, weights = products_of(problem, sets, max(used, 1))
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
    for part in parts(max(used, 1), sets.shape[1]):
        block = np.ix_(np.arange(len(sets)), part, part)
        evenly = (np.maximum(np.linalg.eigvalsh(even[block]), 0.0)[:, :, None] * spread).reshape(len(sets), -1)
        unevenly = np.concatenate([np.maximum(np.linalg.eigvalsh(matrix[block]), 0.0) for matrix in uneven], axis=1)
        statistic = squares[:, part].sum(axis=1) * scale
        log_p.append(np.maximum(log_tail(statistic, evenly, freedom), log_tail(statistic, unevenly, freedom)))
    # two looks, unless the features have smooth functions only
    looks = np.where(problem.functions.counts[sets].max(axis=1) > SMOOTH, len(log_p), 1)
    found = np.clip(np.min(log_p, axis=0) + np.log(looks), problem.least_log_p, 0.0)
    return squares.sum(axis=1) / total, found


def parts(used: int, size: int) -> list[Array]:
    """Places of the products of smooth functions only, and of all products, if those are more."""
    digits = np.indices((used,) * size).reshape(size, -1)
    everything = np.arange(used**size)
    return [everything] if used <= SMOOTH else [np.flatnonzero((digits < SMOOTH).all(axis=0)), everything]


def products_of(problem: Problem, sets: Array, used: int) -> tuple[Array, Array]:
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
        products_of(problem, sets[:, list(columns)], used)[0]
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
            held, places = problem.of_members(members)
            products, weights = products_of(held, places, problem.n_functions(members.shape[1]))
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


def log_number(n: int, size: int) -> float:
    """Log of the number of sets of `size` features out of n."""
    return float(np.log([n - k for k in range(size)]).sum() - np.log(np.arange(1, size + 1)).sum())
