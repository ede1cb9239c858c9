"""Evidence for single features, pairs and triples: statistics, p-values, and the residual of the target.

With the rank functions `φ` of the features and the residual `e` of the target, feature i and the pair (i, j) have

    main_i  = Σ_a  ω_a      Σ_c (e_cᵀ φ_ia)²                eq. 17
    pair_ij = Σ_ab ω_a ω_b  Σ_c (e_cᵀ [φ_ia ∘ φ_jb])²       eq. 18

There are two p-values. `evidence` computes the one that is reported: the effects of smaller sets are projected out of
the products, and tails are those of permutations of e. `approximate_log_p` is cheaper and only ranks sets, in the scan
of all pairs and in forward steps: nothing is projected out, and the tail is matched to three moments. Both combine
three tests: of the first function of each feature, of the smooth functions, and of all functions.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import lru_cache, partial
from itertools import combinations
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from randsel._numerics.arrays import as_array_like, as_index, astype, device_of, namespace, to_double, to_numpy
from randsel._numerics.columns import column_slices
from randsel._numerics.fingerprint import fingerprint
from randsel._numerics.missing import MAX_MISSING
from randsel._numerics.nuisance import Covariates, Nuisance, centre, sums_by
from randsel._numerics.rank_functions import (
    RankFunctions,
    RankFunctionSource,
    combine_log_p,
    cumulants,
    log_tail_of_form,
    log_tail_of_kurtosis,
    log_tail_of_moments,
    rank_functions,
)
from randsel._utils.files import NO_CHECKPOINT, Checkpoint, open_checkpoint
from randsel._utils.typing import Array
from randsel.interactions._design import (
    DEFAULT_DECAY,
    SMOOTH,
    Design,
    Response,
    default_functions,
    degrees_of_freedom,
    eigenvalues,
    has_extremes,
    residual_of_columns,
    responses_of,
)
from randsel.interactions._label_probabilities import LabelProbabilities
from randsel.interactions._permutation_tails import (
    arrangements_of_classes,
    cluster_factors,
    log_fraction_at_most,
    log_p_of_arrangement,
    log_tail_of_labels,
    log_tail_of_signs,
    log_tail_of_terms,
    permutation_cumulants,
)
from randsel.targets import KINDS, MIN_GROUPS, OutcomeKind, Samples

Responses = tuple[Response, ...]
#: Memory of the rank functions of one block of columns in `main_effects`, in bytes.
BLOCK_BYTES = 1 << 26
#: A product is left out if projections leave less than this fraction of its mean square.
MIN_MEAN_SQUARE = 0.05
#: Shares of the three tests in the combined p-value: first function, smooth functions, all functions. Their sum is
#: below one because the tests are dependent: with a sum of one, 0.09 to 0.13 % of p-values under the null were below
#: 0.001.
SHARES = np.array([0.63, 0.135, 0.135])
#: Equal shares of two tests.
#: Equal shares of two tests.
HALVES = np.array([0.5, 0.5])
#: Shares of the forms of the outcome, by their number: scores of ranks, and numbers as they are.
RESPONSE_SHARES = {1: np.array([1.0]), 2: np.array([0.75, 0.25])}
#: Saddlepoint tails of labels, and numbers of arrangements, are computed where the tail by moments is below this.
CANDIDATE_LOG_P = np.log(0.2)
#: Largest negative excess kurtosis of a sum over permutations of e, relative to a sum over random directions of e.
#: Without dominant samples, the ratio is mostly below 2.
MAX_RELATIVE_KURTOSIS = 2.0
#: If a stratum has fewer samples, the tail of random signs limits the p-value as well: a few strata may dominate a sum.
SMALL_STRATUM = 10


# ---------------------------------------------------------------- the p-value that is reported


class Evidence(NamedTuple):
    """Statistics and log p-values of some sets of features."""

    statistic: Array
    log_p: Array


def evidence(functions: RankFunctionSource, design: Design, responses: Responses, sets: Array) -> Evidence:
    """Test sets of one, two or three features (rows of `sets`), with the effects of smaller sets projected out.

    `responses` are those of the design, or residuals of them. The log p-value is never below `design.min_log_p`. For a
    feature without ties, and classes with few arrangements, the p-value is exact: the fraction of arrangements whose
    approximate p-value is at most that of the observed one.
    """
    results, batch = np.zeros((2, len(sets))), design.batch(sets.shape[1])
    n_jobs = design.n_jobs if design.device is None else 1
    null = None
    if sets.shape[1] == 1 and responses is design.responses and design.class_sizes:
        null = _null_of_untied(design.class_sizes, tuple(design.function_weights.tolist()), design.trusts_variances)
    for rows, result in functions.map_sets(_test_batch, sets, design, responses, null, batch=batch, n_jobs=n_jobs):
        results[:, rows] = result
    return Evidence(*results)


@lru_cache(maxsize=8)
def _null_of_untied(class_sizes: tuple[int, ...], function_weights: tuple[float, ...], trusts_variances: bool) -> Array:
    """Return the approximate log p-values of a feature without ties for all arrangements of classes, ascending.

    They are the same for all such features, because the functions depend on ranks only.
    """
    y, arrangements = np.repeat(np.arange(len(class_sizes)), class_sizes), arrangements_of_classes(class_sizes)
    nuisance = Nuisance.from_samples(len(y), None, None)
    responses = responses_of(y, KINDS["classification"], nuisance)
    design = Design(np.array(function_weights), responses, nuisance, trusts_variances=trusts_variances)
    is_nominal, log_p = np.zeros(1, dtype=bool), []
    ranks = rank_functions(np.arange(len(y))[:, None], len(function_weights), nuisance.weights, is_nominal)
    for block in column_slices(len(arrangements), design.batch(1)):
        values = np.moveaxis(ranks.values[0][:, arrangements[block]], 0, 1)
        repeated = ranks.take(np.zeros(len(values), dtype=int))
        functions, features = replace(repeated, values=values), np.arange(len(values))[:, None]
        log_p.append(_test_batch(functions, features, design, responses, None)[1])
    return np.sort(np.concatenate(log_p))


def _test_batch(
    functions: RankFunctions, sets: Array, design: Design, responses: Responses, null: Array | None
) -> tuple[Array, Array]:
    """Return the statistics and log p-values of some sets; `null` is that of `_null_of_untied`, where it applies."""
    size, total = sets.shape[1], design.sample_weights.sum()
    n_functions = max(min(design.n_functions(size), int(functions.counts[sets].max(initial=1))), 1)
    products, weights = products_of(functions, sets, design.function_weights[:n_functions])
    # single precision is ample for products: sums over a few thousand samples keep five digits
    sample_weights = as_array_like(design.sample_weights, products, precise=False)
    if size > 1 or not design.nuisance.only_centres:
        products = design.nuisance.remove(products)
    if size > 1:
        products -= _fit_of_smaller_sets(products, functions, sets, n_functions, design.nuisance)
    # rare levels would inflate a product that is not divided by its own mean square
    mean_squares = to_numpy(namespace(products).square(products) @ sample_weights) / total
    weights = np.divide(weights, mean_squares, out=np.zeros_like(weights), where=mean_squares > MIN_MEAN_SQUARE)
    signed_squares = _signed_squares(products[:, 0], design) if size == 1 else None
    roots = as_array_like(np.sqrt(weights, dtype=np.float32), products, precise=False)
    products *= roots[:, :, None] * sample_weights
    statistic, log_p = np.zeros(len(sets)), []
    has_one_function = functions.counts[sets].max(axis=1) <= 1
    is_incomplete = functions.incomplete[sets].any(axis=1) & (size > 1)
    subsets = _products_of_tests(n_functions, size)
    for response in responses:
        inner = to_numpy(products @ as_array_like(response.Y, products, precise=False))
        squares = np.square(to_double(inner)).sum(axis=2)
        statistic = np.maximum(statistic, squares.sum(axis=1) / total)
        first = _log_p_of_one_product(to_double(products[:, 0]), design, response, is_incomplete)
        if signed_squares is not None and response is responses[0] and response.labels is None:
            second = _log_p_of_one_product(signed_squares, design, response, is_incomplete)
            first = combine_log_p(np.stack([first, second]), HALVES)
        log_p.append(_combine_with_forms(first, products, squares, design, response.Y, subsets, has_one_function))
    combined = np.clip(combine_log_p(np.stack(log_p), RESPONSE_SHARES[len(log_p)]), design.min_log_p, 0.0)
    if null is not None:
        untied = functions.untied[sets[:, 0]]
        combined[untied] = log_fraction_at_most(null, combined[untied])
    return statistic, combined


def _combine_with_forms(
    first: Array, products: Any, squares: Array, design: Design, Y: Array, subsets: list[Array], has_one_function: Array
) -> Array:
    """Return the log p-values of the three tests combined; `first` is that of the first product of every set."""
    if Y.shape[1] == 1 and has_one_function.all():
        return first
    # the form of the first functions is the same test as `first` unless the outcome has several columns
    *of_first, of_smooth, of_all = _log_tails_of_forms(products, squares, design, Y, subsets[int(Y.shape[1] == 1) :])
    if of_first:
        first = combine_log_p(np.stack([first, *of_first]), HALVES)
    return np.where(has_one_function, first, combine_log_p(np.stack([first, of_smooth, of_all]), SHARES))


def _signed_squares(first: Any, design: Design) -> Any:
    """Return the signed squares of the first functions of features, of mean square one, times the weights (eq. 16a).

    They are an additional test for numeric outcomes: one that is linear in a heavy-tailed column depends on the extreme
    values more strongly than on their ranks or normal scores.
    """
    score = design.nuisance.remove(to_double(first * abs(first)))
    xp, sample_weights = namespace(score), as_array_like(design.sample_weights, score)
    spread = xp.sqrt(xp.square(score) @ sample_weights / sample_weights.sum())
    return score / xp.where(spread > 0.0, spread, xp.ones_like(spread))[:, None] * sample_weights


def _products_of_tests(n_functions: int, size: int) -> list[Array]:
    """Return the indices of the products of first functions, of smooth functions, and of all functions."""
    indices = np.indices((n_functions,) * size).reshape(size, -1)
    return [np.flatnonzero((indices < limit).all(axis=0)) for limit in (1, SMOOTH, n_functions)]


def _log_tails_of_forms(products: Any, squares: Array, design: Design, Y: Array, subsets: list[Array]) -> list[Array]:
    """Return the log tails of the sums of `squares` over subsets of the products (eq. 19).

    Each is the larger of two: one for exchangeable residuals, and a guard for residuals of unequal variance, which a
    design that `trusts_variances` omits where no samples are extreme. With clusters, their sums replace samples.
    """
    transpose, unequal_grams, log_tails = namespace(products).matrix_transpose, [], []
    if not design.trusts_variances or design.clusters is not None or any(map(has_extremes, Y.T)):
        terms = [products * column for column in as_array_like(Y.T, products, precise=False)]
        if design.clusters is not None:
            factors = as_array_like(cluster_factors(design.clusters), products, precise=False)
            terms = [sums_by(design.clusters, rows) * factors for rows in terms]
        unequal_grams = [to_double(rows @ transpose(rows)) for rows in terms]
    variances = as_array_like(design.variances(Y), products, precise=False)
    exchangeable_gram = to_double((products * variances) @ transpose(products))
    spectrum = design.spectrum(Y)
    spectrum = spectrum / max(spectrum.mean(), 1e-300)
    for subset in subsets:
        # as the trace of Pillai: no sum exceeds the smaller number of dimensions times the degrees of freedom
        freedom = design.freedom * min(len(subset), Y.shape[1])
        statistic = squares[:, subset].sum(axis=1)
        log_tail = np.full(len(products), -np.inf)
        if unequal_grams:
            weights = np.concatenate([_eigenvalues_of_block(gram, subset) for gram in unequal_grams], axis=1)
            log_tail = log_tail_of_form(statistic, weights * design.variance_factor, freedom)
        if design.clusters is None:
            weights = _eigenvalues_of_block(exchangeable_gram, subset)[:, :, None] * spectrum
            weights = weights.reshape(len(products), -1)
            log_tail = np.maximum(log_tail, log_tail_of_form(statistic, weights, freedom))
        log_tails.append(log_tail)
    if design.with_weighted_outcome is not None:
        moved, outcome = design.move_weights(products), Y * design.sample_weights[:, None]
        tails = _log_tails_of_forms(moved, squares, design.with_weighted_outcome, outcome, subsets)
        log_tails = [np.maximum(*pair) for pair in zip(log_tails, tails, strict=True)]
    return log_tails


def _eigenvalues_of_block(matrices: Any, subset: Array) -> Array:
    """Return the eigenvalues of some rows and columns of every matrix, on the host."""
    if len(subset) < matrices.shape[1]:
        index = as_index(subset, matrices)
        matrices = matrices[:, index][:, :, index]
    return to_numpy(eigenvalues(matrices))


def _log_p_of_one_product(a: Any, design: Design, response: Response, is_incomplete: Array) -> Array:
    """Return the log p-value of one product per set (rows of a), combined over the columns or classes of a response.

    With covariates, labels are not permuted: the probability of a label depends on the covariates (eq. 19c).

    For sets with missing values, the p-value is at least that of random signs of all terms. If values are missing more
    often in one class, the products have unequal variances in the classes, which permutations do not preserve.
    """
    classes = () if response.labels is None or not design.labels_have_saddlepoint else response.labels.T
    outcomes = [design.nuisance.remove(labels.astype(np.float64)) for labels in classes] or list(response.Y.T)
    log_p = [_log_tail_of_sum(a, e, design) for e in outcomes]
    for labels, log_tail in zip(classes, log_p, strict=False):  # without saddlepoint, there are no classes
        rows = np.flatnonzero(log_tail < CANDIDATE_LOG_P)
        candidates = a[as_index(rows, a)]
        if len(design.nuisance.basis):
            probabilities = LabelProbabilities.from_labels(labels, design.nuisance)
            log_tail[rows] = probabilities.log_tail(candidates, labels)
        else:
            log_tail[rows] = log_tail_of_labels(candidates, labels, design.strata)
    rows = np.flatnonzero(is_incomplete)
    if len(rows) and design.clusters is None:
        for log_tail, e in zip(log_p, outcomes, strict=True):
            of_signs = log_tail_of_terms(a[as_index(rows, a)] * as_array_like(e, a), design.freedom)
            log_tail[rows] = np.maximum(log_tail[rows], of_signs)
    return combine_log_p(np.stack(log_p), np.full(len(log_p), 1.0 / len(log_p)))


def _log_tail_of_sum(a: Any, e: Array, design: Design) -> Array:
    """Return the log tail of `(Σ_i a_i e_i)²` over permutations of e within strata, or changes of signs of clusters.

    With weights, it is the larger of two: weights stay with a, or are permuted with e. Two classes whose weights are
    equal within each class have a weighted outcome of two values, which is tested as labels.
    """
    if design.clusters is not None:
        log_tail = _log_tail_of_clusters(a, e, design.clusters)
    else:
        variances = design.variances(e[:, None]) if len(design.nuisance.basis) else None
        log_tail = _log_tail_of_permutations(a, e, design.strata, design.freedom, variances, design.variance_factor)
    other = design.with_weighted_outcome
    if other is None:
        return log_tail
    a, e = design.move_weights(a), e * design.sample_weights
    if other.labels_have_saddlepoint and other.nuisance.only_centres and len(np.unique(e.round(9))) == 2:
        return np.maximum(log_tail, log_tail_of_labels(a, e > 0.0, None))
    return np.maximum(log_tail, _log_tail_of_sum(a, e, other))


def _log_tail_of_permutations(
    a: Any, e: Array, strata: Array | None, freedom: int, variances: Array | None = None, variance_factor: float = 1.0
) -> Array:
    """Return the log tail of `(Σ_i a_i e_i)²`.

    The tail is that of a symmetric distribution with the variance and the kurtosis of the sum over permutations of e
    within strata. If a few samples dominate a, this kurtosis is close to that of e, and the largest sums would exceed
    the support of Pearson's type II, which is therefore widened (`MAX_RELATIVE_KURTOSIS`). If e has extreme values, or
    a stratum is small, the result is the larger of this tail and that of random signs of all terms.

    If no stratum has more than two samples, permutations only change the signs of the sums of strata, and the result is
    the tail of these signs. `variances` of residuals from covariates replace the variance of e.
    """
    if strata is not None and np.bincount(strata).max() <= 2:
        return log_tail_of_signs(sums_by(strata, a * as_array_like(e, a)))
    outcome = as_array_like(e, a)
    statistic, signs_log_tail = np.square(to_numpy(a @ outcome)), None
    if has_extremes(e) or (strata is not None and np.bincount(strata).min() < SMALL_STRATUM):
        terms = a * outcome
        squares = to_numpy((terms * terms).sum(axis=1))[:, None]
        signs_log_tail = log_tail_of_form(statistic, squares * variance_factor, freedom)
    variance, fourth_cumulant = permutation_cumulants(a, e, strata)
    if variances is not None:
        residual_variance = to_numpy((a * a) @ as_array_like(variances, a))
        fourth_cumulant *= np.square(residual_variance / np.where(variance > 0.0, variance, 1.0))
        variance = residual_variance
    varies = variance > 1e-12
    scale = np.where(varies, variance, 1.0)
    kurtosis = np.maximum(fourth_cumulant / scale**2, -6.0 * MAX_RELATIVE_KURTOSIS / (freedom + 2.0))
    log_tail = np.where(varies, log_tail_of_kurtosis(statistic / scale, kurtosis), 0.0)
    if strata is not None:
        rows = np.flatnonzero(log_tail < CANDIDATE_LOG_P)
        log_tail[rows] = np.maximum(log_tail[rows], log_p_of_arrangement(to_numpy(a[as_index(rows, a)]), strata))
    return log_tail if signs_log_tail is None else np.maximum(log_tail, signs_log_tail)


def _log_tail_of_clusters(a: Any, e: Array, clusters: Array) -> Array:
    """Return the log tail of `(Σ_i a_i e_i)²` if the signs of the sums over clusters are random.

    If e varies in enough clusters, this tail is combined with that of permutations within clusters, which does not
    depend on differences between clusters.
    """
    sums = sums_by(clusters, a * as_array_like(e, a))
    totals, terms = sums.sum(axis=1), sums * as_array_like(cluster_factors(clusters), sums)
    # only the tail over signs depends on the number of clusters whose sum is not zero
    log_tail = np.maximum(log_tail_of_terms(terms, clusters.max(), totals), log_tail_of_signs(terms, totals))
    within = centre(e, np.ones(len(e)), clusters)
    varies = sums_by(clusters, np.square(within)) > 1e-9
    if varies.sum() < MIN_GROUPS:
        return log_tail
    samples = np.flatnonzero(varies[clusters])
    strata = np.unique(clusters[samples], return_inverse=True)[1]
    deviations = centre(a[:, as_index(samples, a)], as_array_like(np.ones(len(strata)), a), strata)
    freedom = len(strata) - int(varies.sum())
    within_log_tail = _log_tail_of_permutations(deviations, within[samples], strata, freedom)
    # a few clusters can dominate the sum of a pair; moments of permutations do not capture this in the far tail
    signs_log_tail = log_tail_of_terms(deviations * as_array_like(within[samples], a), freedom)
    return combine_log_p(np.stack([log_tail, np.maximum(within_log_tail, signs_log_tail)]), HALVES)


def products_of(functions: RankFunctions, sets: Array, function_weights: Array) -> tuple[Any, Array]:
    """Return `φ_ia ∘ φ_jb ∘ …` of every set, shape (sets, products, samples), and their weights `ω_a ω_b …`.

    The products are on the device of the functions, the weights on the host.
    """
    n_functions, values = len(function_weights), functions.values
    xp, m = namespace(values), values.shape[2]
    products = xp.ones((len(sets), 1, m), dtype=xp.float32, device=device_of(values))
    weights = np.ones((len(sets), 1))
    for feature in sets.T:
        products = products[:, :, None, :] * values[as_index(feature, values)][:, None, :n_functions, :]
        feature_weights = np.where(np.arange(n_functions) < functions.counts[feature][:, None], function_weights, 0.0)
        weights = weights[:, :, None] * feature_weights[:, None, :]
        products, weights = products.reshape(len(sets), -1, m), weights.reshape(len(sets), -1)
    return products, weights


def _fit_of_smaller_sets(
    products: Any, functions: RankFunctions, sets: Array, n_functions: int, nuisance: Nuisance
) -> Any:
    """Return the regression of the products on the products of all proper subsets of every set."""
    xp, size = namespace(products), sets.shape[1]
    sample_weights = as_array_like(nuisance.weights, products, precise=False)
    subsets = [list(columns) for smaller in range(1, size) for columns in combinations(range(size), smaller)]
    smaller_products = [products_of(functions, sets[:, columns], np.ones(n_functions))[0] for columns in subsets]
    smaller = nuisance.remove(xp.concat(smaller_products, axis=1))
    weighted = smaller * sample_weights
    gram = to_double(weighted @ xp.matrix_transpose(smaller))
    # the ridge is for singular matrices: missing functions are zero, and equal features have equal functions
    ridge = 1e-6 * float(nuisance.weights.astype(np.float32).sum())
    gram += ridge * xp.eye(gram.shape[1], dtype=xp.float64, device=device_of(gram))
    slopes = xp.linalg.solve(gram, to_double(weighted @ xp.matrix_transpose(products)))
    return astype(xp.matrix_transpose(slopes), xp.float32) @ smaller


def log_number_of_sets(n: int, size: int) -> float:
    """Return the log of the number of sets of `size` features out of n."""
    return float(np.log([n - k for k in range(size)]).sum() - np.log(np.arange(1, size + 1)).sum())


def main_effects(
    samples: Samples, kind: OutcomeKind, *, nominal: Array, n_jobs: int | None, checkpoint: PathLike[str] | None = None
) -> Array:
    """Return the p-value of every feature alone, as `InteractionScan(order=1)` computes it, in blocks of columns.

    All functions at once would take several times the memory of X. `checkpoint` is as in `InteractionScan`.
    """
    X, y, nuisance, clusters = samples.X, samples.y, samples.nuisance, samples.clusters
    m, n = X.shape
    n_functions = default_functions(degrees_of_freedom(nuisance, clusters))
    responses = responses_of(y, kind, nuisance)
    design = Design(DEFAULT_DECAY ** np.arange(n_functions), responses, nuisance, clusters, n_jobs)
    opened: AbstractContextManager[Checkpoint] = nullcontext(NO_CHECKPOINT)
    if checkpoint is not None:
        data_hash = fingerprint(X, y, nuisance.strata, nuisance.basis, clusters, nominal)
        identity = {"estimator": "main effects", "data_hash": data_hash, "parameters": {"target": kind.name}}
        opened = open_checkpoint(checkpoint, identity)
    with opened as parts:
        stages = parts.stages("features")
        stored = stages.load_latest() or {"p": np.ones(n), "done": np.array(0)}
        pvalues, done = stored["p"], int(stored["done"])
        for block in column_slices(n, max(1, BLOCK_BYTES // (4 * n_functions * m))):
            if block.stop <= done:
                continue
            samples_and_kinds = nuisance.weights, nominal[block], nuisance.strata
            functions = rank_functions(X[:, block], n_functions, *samples_and_kinds, MAX_MISSING)
            varying = np.flatnonzero(functions.counts)
            result = evidence(functions.take(varying), design, responses, np.arange(len(varying))[:, None])
            pvalues[np.arange(n)[block][varying]] = np.exp(np.minimum(result.log_p, 0.0))
            stages.save(block.stop, partial(dict, p=pvalues, done=block.stop))
    return pvalues


def pairs_with_covariates(functions: RankFunctions, covariates: Covariates, design: Design) -> Array:
    """Return the log p-value of every pair of a covariate (rows) and a feature (columns).

    What both do alone is projected out.
    """
    options = len(design.function_weights), design.sample_weights, ~covariates.numeric, design.strata
    functions_of_covariates = rank_functions(covariates.values, *options, device=design.device)
    shape = len(functions_of_covariates), len(functions)
    pairs = np.indices(shape).reshape(2, -1).T + np.array([0, shape[0]])
    log_p = evidence(functions_of_covariates.join(functions), design, design.responses, pairs).log_p
    return np.minimum(log_p, 0.0).reshape(shape)


# ---------------------------------------------------------------- the p-value that ranks


def approximate_log_p(functions: RankFunctionSource, design: Design, responses: Responses, sets: Array) -> Array:
    """Return an approximate log p-value per set, which ranks sets as the scan of all pairs does.

    The products are divided by their root mean square and nothing is projected out of them. The tail is that of
    `log_tail_of_moments` for independent samples.
    """
    log_p, batch = np.zeros(len(sets)), design.batch(sets.shape[1])
    for rows, result in functions.map_sets(_approximate_batch, sets, design, responses, batch=batch, n_jobs=1):
        log_p[rows] = result
    return log_p


def _approximate_batch(functions: RankFunctions, sets: Array, design: Design, responses: Responses) -> Array:
    size, sample_weights = sets.shape[1], design.sample_weights
    n_functions = design.n_functions(size)
    products, weights = products_of(functions, sets, design.function_weights[:n_functions])
    square_weights = as_array_like(np.square(sample_weights), products, precise=False)
    squares = to_double(to_numpy(namespace(products).square(products) @ square_weights))
    subsets, combined = _products_of_tests(n_functions, size), []
    for response in responses:
        inner = to_numpy(products @ as_array_like(response.Y * sample_weights[:, None], products, precise=False))
        sums = np.square(to_double(inner)).sum(axis=2)
        terms = weights * np.divide(sums, squares, out=np.zeros_like(sums), where=squares > 1e-6 * design.n_samples)
        spectrum = design.spectrum(response.Y)
        log_p = np.zeros((len(subsets), len(sets)))
        for row, subset in zip(log_p, subsets, strict=True):
            moments = cumulants((weights[:, subset, None] * spectrum).reshape(len(sets), -1))
            varies = moments[0] > 0.0
            statistic = terms[varies][:, subset].sum(axis=1)
            row[varies] = log_tail_of_moments(statistic, *(value[varies] for value in moments))
        combined.append(combine_log_p(log_p, SHARES))
    return combine_log_p(np.stack(combined), RESPONSE_SHARES[len(combined)])


# ---------------------------------------------------------------- the residual of the target


def residual(functions: RankFunctionSource, design: Design, *sets: Array) -> Responses:
    """Return the residuals of the outcome from a ridge regression on the functions of features, pairs and triples.

    The columns are rescaled to mean square one; a column that is fitted completely becomes zero. The penalty minimises
    generalised cross-validation, so a fit on more functions than samples removes only what it can predict.
    """
    rows = []
    for members in sets:
        if len(members):
            features, local = np.unique(members, return_inverse=True)
            function_weights = design.function_weights[: design.n_functions(members.shape[1])]
            products, weights = products_of(functions.take(features), local.reshape(members.shape), function_weights)
            products = design.nuisance.remove(to_double(to_numpy(products))) * np.sqrt(weights)[:, :, None]
            rows.append(products.reshape(-1, products.shape[2]))
    if not rows:
        return design.responses
    F = np.concatenate(rows).astype(np.float64)
    return tuple(Response(residual_of_columns(F, design, response.Y)) for response in design.responses)
