"""Null distributions of a sum over permuted outcomes: cumulants, tails of labels and of signs, arrangements of classes.

`a` holds one product of rank functions per row, with sum zero in every stratum, on the host or on a device. Cumulants
and tails have one number per row and are on the host. `codes` are the strata of samples as whole numbers from zero.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import expit, gammaln, log_ndtr

from randsel._numerics.arrays import as_array_like, as_index, clip, namespace, on_host, to_double, to_numpy
from randsel._numerics.nuisance import centre, sums_by
from randsel._numerics.rank_functions import log_tail_of_form
from randsel._utils.typing import Array

#: Newton steps of the search for the saddlepoint.
NEWTON_STEPS = 60
#: Values of a product, of mean square one, that differ by less are equal up to rounding.
EQUAL = 1e-4
#: Log p-values that differ by less are equal up to rounding in single precision.
EQUAL_LOG_P = 1e-3
#: The largest possible sum has an infinite saddlepoint, which is therefore computed at this fraction of it at most.
BELOW_LARGEST = 1.0 - 1e-4


def permutation_cumulants(a: Any, e: Array, strata: Array | None) -> tuple[Array, Array]:
    """Return the variance and the fourth cumulant of `Σ_i a_i e_π(i)` over permutations π within strata.

    The rows of a have sum zero in every stratum. The fourth moment is a sum over the ways in which four indices agree
    (eq. 19b); cumulants of strata add up.
    """
    e = centre(e, np.ones(len(e)), strata)
    a_squares, e_squares = a * a, np.square(e)
    # sums of second and fourth powers in every stratum, and falling factorials of its size
    a2, a4 = to_numpy(sums_by(strata, a_squares)), to_numpy(sums_by(strata, a_squares * a_squares))
    e2, e4 = sums_by(strata, e_squares), sums_by(strata, np.square(e_squares))
    m = np.array([len(e)]) if strata is None else np.bincount(strata)
    m1, m2, m3 = (m * np.maximum(m - 1, 1), np.maximum(m - 2, 1), np.maximum(m - 3, 1))
    fourth = a4 * e4 / m + 4 * a4 * e4 / m1 + 3 * (a2**2 - a4) * (e2**2 - e4) / m1
    fourth += 6 * (2 * a4 - a2**2) * (2 * e4 - e2**2) / (m1 * m2)
    fourth += (3 * a2**2 - 6 * a4) * (3 * e2**2 - 6 * e4) / (m1 * m2 * m3)
    variance = a2 * e2 / np.maximum(m - 1, 1)
    return variance.sum(axis=1), (fourth - 3 * variance**2).sum(axis=1)


def log_tail_of_labels(a: Any, labels: Array, strata: Array | None) -> Array:
    """Return the two-sided log p-value of the sum of every row of a over the labelled samples, if labels are permuted.

    Given the numbers of labels in all strata, the sum has the distribution of independent labels of probability
    `1/(1 + exp(-s_h - t a_i))` in stratum h, for any s and t. The double saddlepoint approximation chooses s and t such
    that the numbers of labels and the sum have the observed values as means (Booth and Butler 1990). It is accurate to
    a few per cent, also for few labels and in the far tail. If a feature has few levels, its sums lie on a lattice, and
    half the spacing is subtracted (the second continuity correction of Daniels 1987).
    """
    codes = np.zeros(len(labels), dtype=int) if strata is None else strata
    sizes, n_labels = np.bincount(codes), np.bincount(codes, weights=labels)
    # where all samples or none are labelled, permutations change nothing
    can_vary = (n_labels > 0) & (n_labels < sizes)
    samples = can_vary[codes]
    codes, labels = np.unique(codes[samples], return_inverse=True)[1], labels[samples]
    sizes, n_labels = sizes[can_vary], n_labels[can_vary]
    xp = namespace(a)
    a = scale_rows(a[:, as_index(np.flatnonzero(samples), a)])
    observed = a @ as_array_like(labels.astype(np.float64), a)
    a, observed = xp.where((observed < 0)[:, None], -a, a), abs(observed)
    # the labels are not needed any more: sort samples by stratum, and then by a, the largest first
    indices = (as_index(np.flatnonzero(codes == stratum), a) for stratum in range(len(sizes)))
    values_of_strata = (xp.take(a, index, axis=1) for index in indices)
    a = xp.concat([xp.sort(values, axis=1, descending=True, stable=False) for values in values_of_strata], axis=1)
    codes = np.sort(codes)
    gaps = a[:, :-1] - a[:, 1:]
    is_gap = (gaps > EQUAL) & as_array_like(np.diff(codes) == 0, a)
    spacing = xp.min(xp.where(is_gap, gaps, xp.full_like(gaps, np.inf)), axis=1)
    largest, log_p_of_largest = _largest_sum(a, codes, sizes, n_labels)
    interior = xp.minimum(clip(observed - spacing / 2.0, 0.0), largest * BELOW_LARGEST)
    log_tail = _log_tail_by_double_saddlepoint(a, codes, sizes, n_labels, interior, spacing)
    return two_sided_log_p(log_tail, log_p_of_largest, to_numpy(observed > largest - EQUAL))


def _largest_sum(a: Any, codes: Array, sizes: Array, n_labels: Array) -> tuple[Any, Array]:
    """Return the largest sum that labels can have and the log of its probability; a is sorted within strata."""
    starts = np.cumsum(sizes) - sizes
    is_largest = as_array_like((np.arange(len(codes)) - starts[codes] < n_labels[codes]).astype(np.float64), a)
    last = a[:, as_index(((starts + n_labels).astype(int) - 1)[codes], a)]
    is_tied = to_double(abs(a - last) < EQUAL)
    n_tied, n_tied_labels = (to_numpy(sums_by(codes, tied)) for tied in (is_tied, is_tied * is_largest))
    log_p = _log_binomial(n_tied, n_tied_labels).sum(axis=1) - _log_binomial(sizes, n_labels).sum()
    return (a * is_largest).sum(axis=1), log_p


def _log_binomial(n: Array, k: Array) -> Array:
    """Return the log of the number of subsets of k out of n."""
    return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0))


def _log_tail_by_double_saddlepoint(
    a: Any, codes: Array, sizes: Array, n_labels: Array, observed: Any, spacing: Any
) -> Array:
    """Return the log of the upper tail of the sums at `observed`, half a spacing below a possible sum."""
    xp, tilted = namespace(a), _TiltedLabels(a, codes, sizes, n_labels)
    fractions = n_labels / sizes
    s0 = xp.tile(as_array_like(np.log(fractions / (1 - fractions)), a), (len(a), 1))
    counts, deviations = as_array_like(n_labels, a), tilted.deviations
    t, s = observed / (a * a).sum(axis=1), s0
    for _ in range(NEWTON_STEPS):
        p, variance = tilted.probabilities(s, t)
        # Newton step: the Hessian is diagonal in s, which is therefore eliminated
        h_ss, h_st, h_tt = (sums_by(codes, variance * factor) for factor in (1.0, deviations, deviations**2))
        g_s, g_t = counts - sums_by(codes, p), observed - (p * a).sum(axis=1)
        schur = clip((h_tt - h_st**2 / h_ss).sum(axis=1), 1e-300)
        step_t = (g_t - (h_st * g_s / h_ss).sum(axis=1)) / schur
        step_s = (g_s - h_st * step_t[:, None]) / h_ss
        decrement = xp.sqrt(clip(g_t * step_t + (g_s * step_s).sum(axis=1), 0.0))
        damping = newton_damping(decrement)
        t, s = t + damping * step_t, s + damping[:, None] * step_s
        if bool((decrement < 1e-6).all()):
            break
    untilted = xp.zeros_like(t)
    null_variance = tilted.probabilities(s0, untilted)[1]
    exponent = (tilted.cumulant_functions(s0, untilted) - tilted.cumulant_functions(s, t)).sum(axis=1) + t * observed
    log_curvature = xp.log(h_ss / sums_by(codes, null_variance)).sum(axis=1) + xp.log(schur)
    exponent, t, log_curvature, spacing = map(to_numpy, (exponent, t, log_curvature, spacing))
    return log_tail_at_saddlepoint(exponent, t, np.exp(log_curvature), spacing)


class _TiltedLabels:
    """Probabilities of labels that are tilted by t times the values of a, which are sorted within strata.

    In a stratum with several labelled and several unlabelled samples, labels are taken to be independent, of
    probability `1/(1 + exp(-s - t a_i))`. If only one sample of a stratum is labelled, it is sample i with a
    probability proportional to `exp(t a_i)`. If only one is unlabelled, the probability is proportional to
    `exp(-t a_i)`. Both are exact and need no s. They matter for pairs and for matched controls, where many strata have
    one label each.
    """

    def __init__(self, a: Any, codes: Array, sizes: Array, n_labels: Array) -> None:
        # per stratum: 1 if a single sample is labelled, -1 if a single one is unlabelled, 0 otherwise
        signs = np.select([n_labels == 1, n_labels == sizes - 1], [1.0, -1.0], 0.0)
        last = np.cumsum(sizes).astype(int) - 1
        likeliest = np.where(signs > 0, last + 1 - sizes, last).astype(int)
        self.a, self.codes, self.stratum = a, codes, as_index(codes, a)
        self.n_labels, self.signs = as_array_like(n_labels, a), as_array_like(signs, a)
        self.has_single, self.is_single = bool(signs.any()), as_array_like(signs != 0.0, a)
        #: Value of the likeliest single sample of every stratum, 0 for other strata; and deviations from these values.
        self.centres = a[:, as_index(likeliest, a)] * abs(self.signs)
        self.deviations = a - self.centres[:, self.stratum]

    def probabilities(self, s: Any, t: Any) -> tuple[Any, Any]:
        """Return the probability that each sample is labelled, and its weight in the second derivatives."""
        xp = namespace(self.a)
        p = logistic(s[:, self.stratum] + t[:, None] * self.a)
        variance = p * (1.0 - p) + 1e-300
        if self.has_single:
            weights, sums = self._weights_of_single(t)
            p_single, in_single = weights / sums[:, self.stratum], self.is_single[self.stratum]
            p = xp.where(in_single, xp.where(self.signs[self.stratum] > 0.0, p_single, 1.0 - p_single), p)
            variance = xp.where(in_single, p_single, variance)
        return p, variance

    def cumulant_functions(self, s: Any, t: Any) -> Any:
        """Return the cumulant generating function of every stratum, less s times the number of its labels."""
        xp = namespace(self.a)
        logits = s[:, self.stratum] + t[:, None] * self.a
        functions = sums_by(self.codes, xp.logaddexp(xp.zeros_like(logits), logits)) - s * self.n_labels
        if self.has_single:
            of_single = xp.log(self._weights_of_single(t)[1]) + t[:, None] * self.signs * self.centres
            functions = xp.where(self.is_single, of_single, functions)
        return functions

    def _weights_of_single(self, t: Any) -> tuple[Any, Any]:
        """Return `exp(±t a_i)`, relative to that of the likeliest sample of the stratum, and the sums by stratum."""
        weights = namespace(self.a).exp(t[:, None] * self.deviations * self.signs[self.stratum])
        return weights, sums_by(self.codes, weights)


def logistic(x: Any) -> Any:
    """Return `1/(1 + exp(-x))`."""
    return expit(x) if on_host(x) else x.sigmoid()


def scale_rows(a: Any) -> Any:
    """Return the rows divided by their root mean squares; rows of zeros stay zero."""
    xp = namespace(a)
    spread = xp.sqrt((a * a).mean(axis=1))
    return a / xp.where(spread > 0, spread, xp.ones_like(spread))[:, None]


def newton_damping(decrement: Any) -> Any:
    """Return the factors of Newton steps: one if the Newton decrement is small, and less far from the minimum."""
    xp = namespace(decrement)
    return xp.where(decrement > 0.25, 1.0 / (1.0 + decrement), xp.ones_like(decrement))


def log_tail_at_saddlepoint(exponent: Array, t: Array, curvature: Array, spacing: Array | None = None) -> Array:
    """Return the log of an upper tail by the formula of Barndorff-Nielsen.

    `exponent` is `t x - K(t)` for the sum x and its saddlepoint t, and `curvature` the second derivative of K there. If
    sums lie on a lattice of this `spacing`, `2 sinh(t spacing / 2) / spacing` replaces t (Daniels 1987).
    """
    t = t if spacing is None else 2.0 * np.sinh(t * spacing / 2.0) / spacing
    v, w = np.maximum(t * np.sqrt(curvature), 1e-300), np.sqrt(np.maximum(2.0 * exponent, 1e-12))
    # the formula is singular at the mean
    return np.asarray(np.where(w < 0.1, log_ndtr(-w), log_ndtr(-(w + np.log(v / w) / w))))


def two_sided_log_p(log_tail: Array, log_p_of_largest: Array, is_largest: Array) -> Array:
    """Return the log p-values that belong to one-sided tails; none is below that of the largest sum."""
    one_sided = np.where(is_largest, log_p_of_largest, np.maximum(log_tail, log_p_of_largest))
    return np.asarray(np.minimum(one_sided + np.log(2.0), 0.0))


def cluster_factors(clusters: Array) -> Array:
    """Return the factors by which sums over clusters are multiplied before their signs change.

    A cluster with a fraction h of the samples pulls the mean of a column towards itself. Its sum is one of deviations
    from that mean: for independent samples, its variance is 1 - h times that of deviations from the true mean. This
    hardly matters for clusters of similar sizes, so only the excess of h over twice its mean is corrected for.
    """
    fractions = np.bincount(clusters) / len(clusters)
    return np.asarray((1.0 - np.maximum(fractions - 2.0 / len(fractions), 0.0)) ** -0.5)


def log_tail_of_terms(terms: Any, freedom: int, totals: Any = None) -> Array:
    """Return the log tail of the squared sum of every row of terms, relative to the sum of their squares (eq. 19).

    `totals` are the observed sums; by default, those of the terms.
    """
    sums = to_numpy(terms.sum(axis=1) if totals is None else totals)
    return log_tail_of_form(np.square(sums), to_numpy((terms * terms).sum(axis=1))[:, None], freedom)


def log_tail_of_signs(terms: Any, totals: Any = None) -> Array:
    """Return the two-sided log p-value of the sum of every row of terms, if their signs change at random.

    `totals` are the observed sums; by default, those of the terms. For terms ±d_k, the sum has the cumulant generating
    function `Σ_k log cosh(t d_k)`. The saddlepoint approximation has the continuity correction of `log_tail_of_labels`,
    because terms of one size have sums on a lattice.
    """
    xp = namespace(terms)
    largest_term = xp.max(abs(terms), axis=1)
    scale = xp.where(largest_term > 0, largest_term, xp.ones_like(largest_term))
    d = abs(terms) / scale[:, None]
    varies = d > EQUAL
    d = xp.where(varies, d, xp.zeros_like(d))
    observed, largest = abs(terms.sum(axis=1) if totals is None else totals) / scale, d.sum(axis=1)
    log_p_of_largest = -np.log(2.0) * to_numpy(varies.sum(axis=1))
    spacing = 2.0 * xp.min(xp.where(varies, d, xp.ones_like(d)), axis=1)
    interior = xp.minimum(clip(observed - spacing / 2.0, 0.0), largest * BELOW_LARGEST)
    d_squares = d * d
    curvature = clip(d_squares.sum(axis=1), 1e-300)
    t = interior / curvature
    for _ in range(NEWTON_STEPS):
        tangents = xp.tanh(t[:, None] * d)
        curvature = clip((d_squares * (1.0 - tangents * tangents)).sum(axis=1), 1e-300)
        step = (interior - (d * tangents).sum(axis=1)) / curvature
        t = t + step
        if bool((abs(step * xp.sqrt(curvature)) < 1e-9).all()):
            break
    K = (t[:, None] * d + xp.log1p(xp.exp(-2.0 * t[:, None] * d)) - np.log(2.0)).sum(axis=1)
    log_tail = log_tail_at_saddlepoint(*map(to_numpy, (t * interior - K, t, curvature, spacing)))
    return two_sided_log_p(log_tail, log_p_of_largest, to_numpy(observed > largest - EQUAL))


def log_p_of_arrangement(a: Array, strata: Array) -> Array:
    """Return the log probability of one arrangement of the values of every row of a within strata.

    No p-value is smaller. Features of rare levels have few arrangements in small strata.
    """
    order = np.lexsort((a, np.broadcast_to(strata, a.shape)), axis=1)
    ordered, codes = np.take_along_axis(a, order, axis=1), np.sort(strata)
    is_new = (np.diff(ordered, axis=1) > EQUAL) | (np.diff(codes) > 0)
    runs = np.cumsum(np.pad(is_new, ((0, 0), (1, 0)), constant_values=True))
    _, first, lengths = np.unique(runs, return_index=True, return_counts=True)
    log_tied = np.bincount(first // a.shape[1], weights=gammaln(lengths + 1.0), minlength=len(a))
    return np.asarray(log_tied - gammaln(np.bincount(strata) + 1.0).sum())


def arrangements_of_classes(sizes: tuple[int, ...]) -> Array:
    """Return all arrangements of classes of these sizes as rows: the ranks of the first class, then of the next."""
    return np.array(list(_arrange(tuple(range(sum(sizes))), sizes)))


def _arrange(ranks: tuple[int, ...], sizes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield every division of ranks among classes."""
    if len(sizes) == 1:
        yield ranks
        return
    for chosen in combinations(ranks, sizes[0]):
        for others in _arrange(tuple(sorted(set(ranks).difference(chosen))), sizes[1:]):
            yield chosen + others


def log_fraction_at_most(ascending: Array, log_p: Array) -> Array:
    """Return, for each log p-value, the log of the fraction of `ascending` that is at most as large, up to rounding."""
    counts = np.searchsorted(ascending, log_p + EQUAL_LOG_P, side="right")
    return np.asarray(np.log(np.maximum(counts, 1) / len(ascending)))
