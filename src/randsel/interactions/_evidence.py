"""Evidence for single features, pairs and triples: statistics, p-values, and the residual of the target.

With the rank functions `φ` of the features and the residual `e` of the target, feature i and the pair (i, j) have

    main_i  = Σ_a  ω_a      Σ_c (e_cᵀ φ_ia)²                eq. 17
    pair_ij = Σ_ab ω_a ω_b  Σ_c (e_cᵀ [φ_ia ∘ φ_jb])²       eq. 18

There are two p-values. `evidence` computes the one that is reported: the effects of smaller sets are projected out of
the products, and the tail is that of eq. 19. `approximate_log_p` is cheaper and only ranks sets, in the scan of all
pairs and in forward steps: nothing is projected out, and the tail is matched to three moments. Both test the smooth
functions alone and all functions, and take the smaller p-value.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from os import PathLike
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from randsel._numerics.columns import column_slices
from randsel._numerics.fingerprint import fingerprint
from randsel._numerics.rank_functions import (
    RankFunctions,
    RankFunctionSource,
    centre,
    cumulants,
    log_tail_of_form,
    log_tail_of_moments,
    rank_functions,
)
from randsel._utils.files import Checkpoint, open_checkpoint
from randsel._utils.typing import Array
from randsel.targets import OutcomeKind

#: Memory of the products in one batch of tests, in bytes.
BATCH_BYTES = 1 << 25
#: Memory of the rank functions of one block of columns in `main_effects`, in bytes.
BLOCK_BYTES = 1 << 26
#: Every set is also tested with this many functions per feature only, because most effects are smooth.
SMOOTH = 2
#: A product is left out if projections leave less than this fraction of its mean square.
MIN_MEAN_SQUARE = 0.05
#: Default number of functions per feature (fewer for few samples), and weight of each relative to the previous one.
DEFAULT_FUNCTIONS, DEFAULT_DECAY = 6, 0.9


@dataclass(frozen=True)
class Design:
    """The target, and how features are tested against it."""

    function_weights: Array  # `ω_a`, weight of the a-th function of a feature
    Y: Array  # shape (samples, columns): weighted mean zero in every stratum, mean square one
    sample_weights: Array  # of mean one
    strata: Array | None  # of each sample; under the null hypothesis the target is exchangeable within strata
    n_jobs: int | None = None
    device: str | None = None  # of the scan of pairs, as in `to_device`; None for the host

    def n_functions(self, size: int) -> int:
        """Return the number of functions per feature in tests of sets of this size."""
        available = len(self.function_weights)
        return available if size < 3 else functions_in_triples(self.freedom, available)

    def batch(self, size: int) -> int:
        """Return the number of sets of this size per batch."""
        return int(max(1, BATCH_BYTES // (8 * len(self.Y) * self.n_functions(size) ** size)))

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the target, whose mean is zero in every stratum."""
        return degrees_of_freedom(len(self.Y), self.strata)

    @cached_property
    def min_log_p(self) -> float:
        """Smallest possible log p: minus the log of the number of distinct permutations of the target within strata."""
        strata = np.zeros(len(self.Y), dtype=int) if self.strata is None else self.strata
        values = np.unique(self.Y.round(9), axis=0, return_inverse=True)[1].ravel()
        _, sizes = np.unique(strata, return_counts=True)
        _, ties = np.unique(np.stack([strata, values]), axis=1, return_counts=True)
        return float(gammaln(ties + 1.0).sum() - gammaln(sizes + 1.0).sum())

    def target_spectrum(self, Y: Array) -> Array:
        """Return the eigenvalues of the weighted covariance of the columns of a target."""
        weights = self.sample_weights
        return eigenvalues((Y * weights[:, None]).T @ Y / weights.sum())


def degrees_of_freedom(m: int, strata: Array | None) -> int:
    """Return the degrees of freedom of a target of m samples whose mean is zero in every stratum."""
    return m - (1 if strata is None else int(strata.max()) + 1)


def max_functions(freedom: int) -> int:
    """Return the largest number of functions that leaves four degrees of freedom per product in a test of pairs."""
    return max(int(np.sqrt(freedom / 4)), 1)


def functions_in_triples(freedom: int, n_functions: int) -> int:
    """Return the same number for tests of triples, at most three."""
    return int(np.clip((freedom / 4) ** (1 / 3), 1, min(n_functions, 3)))


# ---------------------------------------------------------------- the p-value that is reported


class Evidence(NamedTuple):
    """Statistics and log p-values of some sets of features."""

    statistic: Array
    log_p: Array


def evidence(functions: RankFunctionSource, design: Design, Y: Array, sets: Array) -> Evidence:
    """Test sets of one, two or three features (rows of `sets`), with the effects of smaller sets projected out.

    The p-value is the larger of two tails of eq. 19: one for exchangeable residuals, and one for residuals of unequal
    variance, which guards against a few extreme samples. It is never below `design.min_log_p`.
    """
    results, batch = np.zeros((2, len(sets))), design.batch(sets.shape[1])
    for rows, result in functions.map_sets(_test_batch, sets, design, Y, batch=batch, n_jobs=design.n_jobs):
        results[:, rows] = result
    return Evidence(*results)


def _test_batch(functions: RankFunctions, sets: Array, design: Design, Y: Array) -> tuple[Array, Array]:
    size = sets.shape[1]
    used = max(min(design.n_functions(size), int(functions.counts[sets].max(initial=1))), 1)
    products, weights = products_of(functions, sets, design.function_weights[:used])
    # single precision is ample for products: sums over a few thousand samples keep five digits
    sample_weights, total = design.sample_weights.astype(np.float32), design.sample_weights.sum()
    if size > 1 or design.strata is not None:
        products = centre(products, sample_weights, design.strata)
    if size > 1:
        products -= _fit_of_smaller_sets(products, functions, sets, used, sample_weights, design.strata)
    # rare levels would inflate a product that is not divided by its own mean square
    mean_squares = np.square(products) @ sample_weights / total
    weights = np.divide(weights, mean_squares, out=np.zeros_like(weights), where=mean_squares > MIN_MEAN_SQUARE)
    products *= np.sqrt(weights, dtype=np.float32)[:, :, None]
    e = Y.astype(np.float32) * sample_weights[:, None]
    squares = np.square((products @ e).astype(np.float64)).sum(axis=2)
    # V Vᵀ of exchangeable residuals, and V diag(e²) Vᵀ of residuals of unequal variance
    exchangeable, *heteroscedastic = (
        ((products * np.square(column)) @ products.transpose(0, 2, 1)).astype(np.float64)
        for column in (sample_weights, *e.T)
    )
    # Y has length √m, spread over its degrees of freedom
    freedom, scale = design.freedom * Y.shape[1], design.freedom / len(Y)
    spectrum = design.target_spectrum(Y)
    log_p = []
    for subset in _smooth_and_all(used, size):
        block = np.ix_(np.arange(len(sets)), subset, subset)
        even = (eigenvalues(exchangeable[block])[:, :, None] * spectrum).reshape(len(sets), -1)
        uneven = np.concatenate([eigenvalues(matrix[block]) for matrix in heteroscedastic], axis=1)
        statistic = squares[:, subset].sum(axis=1) * scale
        log_p.append(np.maximum(*(log_tail_of_form(statistic, weights, freedom) for weights in (even, uneven))))
    # Bonferroni for two tests, unless the features have smooth functions only
    n_tests = np.where(functions.counts[sets].max(axis=1) > SMOOTH, len(log_p), 1)
    return squares.sum(axis=1) / total, np.clip(np.min(log_p, axis=0) + np.log(n_tests), design.min_log_p, 0.0)


def eigenvalues(matrices: Array) -> Array:
    """Return the eigenvalues of positive semi-definite matrices, without rounding errors below zero."""
    return np.maximum(np.linalg.eigvalsh(matrices), 0.0)


def _smooth_and_all(used: int, size: int) -> list[Array]:
    """Return the indices of the products of smooth functions only, and of all products if there are more."""
    digits = np.indices((used,) * size).reshape(size, -1)
    everything = np.arange(used**size)
    return [everything] if used <= SMOOTH else [np.flatnonzero((digits < SMOOTH).all(axis=0)), everything]


def products_of(functions: RankFunctions, sets: Array, function_weights: Array) -> tuple[Array, Array]:
    """Return `φ_ia ∘ φ_jb ∘ …` of every set, shape (sets, products, samples), and their weights `ω_a ω_b …`."""
    used, m = len(function_weights), functions.values.shape[2]
    products = np.ones((len(sets), 1, m), dtype=np.float32)
    weights = np.ones((len(sets), 1))
    for feature in sets.T:
        products = products[:, :, None, :] * functions.values[feature][:, None, :used, :]
        feature_weights = np.where(np.arange(used) < functions.counts[feature][:, None], function_weights, 0.0)
        weights = weights[:, :, None] * feature_weights[:, None, :]
        products, weights = products.reshape(len(sets), -1, m), weights.reshape(len(sets), -1)
    return products, weights


def _fit_of_smaller_sets(
    products: Array, functions: RankFunctions, sets: Array, used: int, sample_weights: Array, strata: Array | None
) -> Array:
    """Return the regression of the products on the products of all proper subsets of every set."""
    size = sets.shape[1]
    subsets = [list(columns) for smaller in range(1, size) for columns in combinations(range(size), smaller)]
    smaller_products = [products_of(functions, sets[:, columns], np.ones(used))[0] for columns in subsets]
    nuisance = centre(np.concatenate(smaller_products, axis=1), sample_weights, strata)
    weighted = nuisance * sample_weights
    gram = (weighted @ nuisance.transpose(0, 2, 1)).astype(np.float64)
    # the ridge is for singular matrices: missing functions are zero, and equal features have equal functions
    gram += 1e-6 * float(sample_weights.sum()) * np.eye(gram.shape[1])
    slopes = np.linalg.solve(gram, (weighted @ products.transpose(0, 2, 1)).astype(np.float64))
    return np.asarray(slopes.transpose(0, 2, 1).astype(np.float32) @ nuisance)


def log_number_of_sets(n: int, size: int) -> float:
    """Return the log of the number of sets of `size` features out of n."""
    return float(np.log([n - k for k in range(size)]).sum() - np.log(np.arange(1, size + 1)).sum())


def main_effects(
    X: Array,
    y: Array,
    kind: OutcomeKind,
    *,
    nominal: Array,
    strata: Array | None,
    n_jobs: int | None,
    checkpoint: PathLike[str] | None = None,
) -> Array:
    """Return the p-value of every feature alone, as `InteractionScan(order=1)` computes it, in blocks of columns.

    All functions at once would take several times the memory of X. `checkpoint` is as in `InteractionScan`.
    """
    m, n = X.shape
    sample_weights = np.ones(m)
    n_functions = min(DEFAULT_FUNCTIONS, max_functions(degrees_of_freedom(m, strata)))
    Y = kind.contrasts(y, sample_weights, strata)
    design = Design(DEFAULT_DECAY ** np.arange(n_functions), Y, sample_weights, strata, n_jobs)
    opening: AbstractContextManager[Checkpoint | None] = nullcontext()
    if checkpoint is not None:
        data_hash = fingerprint(X, y, strata, nominal)
        identity = {"estimator": "main effects", "data_hash": data_hash, "parameters": {"target": kind.name}}
        opening = open_checkpoint(checkpoint, identity)
    pvalues, done = np.ones(n), 0
    with opening as folder:
        stages = None if folder is None else folder.stages("features")
        if stages is not None and (stored := stages.load_latest()) is not None:
            pvalues, done = stored["p"], int(stored["done"])
        for block in column_slices(n, max(1, BLOCK_BYTES // (4 * n_functions * m))):
            if block.stop <= done:
                continue
            functions = rank_functions(X[:, block], n_functions, sample_weights, nominal[block])
            varying = np.flatnonzero(functions.counts)
            result = evidence(functions.take(varying), design, Y, np.arange(len(varying))[:, None])
            pvalues[np.arange(n)[block][varying]] = np.exp(np.minimum(result.log_p, 0.0))
            if stages is not None:
                stages.save(block.stop, partial(dict, p=pvalues, done=block.stop))
    return pvalues


# ---------------------------------------------------------------- the p-value that ranks


def approximate_log_p(functions: RankFunctionSource, design: Design, Y: Array, sets: Array) -> Array:
    """Return an approximate log p-value per set, which ranks sets as the scan of all pairs does.

    The products are divided by their root mean square and nothing is projected out of them. The tail is that of
    `log_tail_of_moments` for independent samples.
    """
    log_p, batch = np.zeros(len(sets)), design.batch(sets.shape[1])
    for rows, result in functions.map_sets(_approximate_batch, sets, design, Y, batch=batch, n_jobs=1):
        log_p[rows] = result
    return log_p


def _approximate_batch(functions: RankFunctions, sets: Array, design: Design, Y: Array) -> Array:
    size = sets.shape[1]
    used, sample_weights = design.n_functions(size), design.sample_weights
    products, weights = products_of(functions, sets, design.function_weights[:used])
    squares = np.square(products) @ np.square(sample_weights)
    sums = np.square(products @ (Y * sample_weights[:, None])).sum(axis=2)
    terms = weights * np.divide(sums, squares, out=np.zeros_like(sums), where=squares > 1e-6 * len(Y))
    spectrum = design.target_spectrum(Y)
    subsets = _smooth_and_all(used, size)
    log_p = np.zeros((len(subsets), len(sets)))
    for row, subset in zip(log_p, subsets, strict=True):
        moments = cumulants((weights[:, subset, None] * spectrum).reshape(len(sets), -1))
        varies = moments[0] > 0.0
        row[varies] = log_tail_of_moments(terms[varies][:, subset].sum(axis=1), *(value[varies] for value in moments))
    return np.asarray(log_p.min(axis=0) + np.log(len(subsets)))


# ---------------------------------------------------------------- the residual of the target


def residual(functions: RankFunctionSource, design: Design, *sets: Array) -> Array:
    """Return the residual of the target from a ridge regression on the functions of features, pairs and triples.

    The columns are rescaled to mean square one; a column that is fitted completely becomes zero. The penalty minimises
    generalised cross-validation, so a fit on more functions than samples removes only what it can predict.
    """
    rows = []
    for members in sets:
        if len(members):
            features, local = np.unique(members, return_inverse=True)
            function_weights = design.function_weights[: design.n_functions(members.shape[1])]
            products, weights = products_of(functions.take(features), local.reshape(members.shape), function_weights)
            products = centre(products, design.sample_weights, design.strata) * np.sqrt(weights)[:, :, None]
            rows.append(products.reshape(-1, products.shape[2]))
    if not rows:
        return design.Y
    root = np.sqrt(design.sample_weights)
    fit = _ridge_fit(np.concatenate(rows).astype(np.float64) * root, design.Y * root[:, None], design.freedom)
    remainder = (design.Y * root[:, None] - fit) / root[:, None]
    remainder = centre(remainder.T, design.sample_weights, design.strata).T
    spread = np.sqrt(design.sample_weights @ (remainder * remainder) / design.sample_weights.sum())
    # even the smallest penalty leaves a little of a column that is fitted completely
    return np.asarray(remainder / np.where(spread > 1e-3, spread, np.inf))


def _ridge_fit(F: Array, Z: Array, freedom: int) -> Array:
    """Return the ridge regression of Z on the rows of F; the penalty minimises generalised cross-validation."""
    m = len(Z)
    # eigenvectors of FᵀF, by way of the smaller of the two Gram matrices
    if len(F) > m:
        values, U = np.linalg.eigh(F.T @ F)
    else:
        values, V = np.linalg.eigh(F @ F.T)
        U = F.T @ (V / np.sqrt(np.maximum(values, 1e-300)))
    nonzero = values > 1e-9 * values[-1]
    values, U = values[nonzero], U[:, nonzero]
    inner = U.T @ Z
    energy, total = np.square(inner).sum(axis=1), np.square(Z).sum()
    best_error, best_shrinkage = np.inf, np.zeros(len(values))
    for penalty in m * np.logspace(-4, 3, 29):
        shrinkage = values / (values + penalty)
        used = shrinkage.sum()
        error = (total - ((2.0 * shrinkage - shrinkage * shrinkage) * energy).sum()) / (1.0 - used / freedom) ** 2
        if used < freedom and error < best_error:
            best_error, best_shrinkage = error, shrinkage
    return np.asarray(U @ (best_shrinkage[:, None] * inner))
