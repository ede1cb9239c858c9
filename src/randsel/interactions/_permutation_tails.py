"""Null distributions of a sum over permuted outcomes: its cumulants, and the tails of labels and of signs.

`a` holds one product of rank functions per row, of sum zero in every stratum.
"""

import numpy as np
from scipy.special import expit, gammaln, log_ndtr

from randsel._numerics.nuisance import centre
from randsel._utils.typing import Array
from randsel.interactions._design import sums_by

#: Newton steps of the search for the saddlepoint.
NEWTON_STEPS = 60
#: Values of a product, of mean square one, that differ by less are equal up to rounding.
EQUAL = 1e-4


def permutation_cumulants(a: Array, e: Array, strata: Array | None) -> tuple[Array, Array]:
    """Return the variance and the fourth cumulant of `Σ_i a_i e_π(i)` over permutations π within strata.

    The rows of a have sum zero in every stratum. The fourth moment is a sum over the ways in which four indices agree
    (eq. 19b); cumulants of strata add up.
    """
    e = centre(e, np.ones(len(e)), strata)
    a_squares, e_squares = np.square(a), np.square(e)
    a2, a4 = sums_by(strata, a_squares), sums_by(strata, np.square(a_squares))
    e2, e4 = sums_by(strata, e_squares), sums_by(strata, np.square(e_squares))
    m = np.array([len(e)]) if strata is None else np.bincount(strata)
    m1, m2, m3 = (m * np.maximum(m - 1, 1), np.maximum(m - 2, 1), np.maximum(m - 3, 1))
    fourth = a4 * e4 / m + 4 * a4 * e4 / m1 + 3 * (a2**2 - a4) * (e2**2 - e4) / m1
    fourth += 6 * (2 * a4 - a2**2) * (2 * e4 - e2**2) / (m1 * m2)
    fourth += (3 * a2**2 - 6 * a4) * (3 * e2**2 - 6 * e4) / (m1 * m2 * m3)
    variance = a2 * e2 / np.maximum(m - 1, 1)
    return variance.sum(axis=1), (fourth - 3 * variance**2).sum(axis=1)


def log_tail_of_labels(a: Array, labels: Array, strata: Array | None) -> Array:
    """Return the log p-value, for both sides, of the sum of a over the labelled samples if labels are permuted.

    Given the numbers of labels in all strata, the sum has the distribution of independent labels of probability
    `1/(1 + exp(-s_h - t a_i))` in stratum h, for any s and t. The double saddlepoint approximation chooses s and t such
    that the numbers of labels and the sum have the observed values as means (Booth and Butler 1990). It is accurate to
    a few per cent, also for few labels and in the far tail. Features of few levels have sums on a lattice, and half its
    spacing is subtracted, the second continuity correction of Daniels (1987).
    """
    codes = np.zeros(len(labels), dtype=int) if strata is None else strata
    sizes, n_labels = np.bincount(codes), np.bincount(codes, weights=labels)
    informative = (n_labels > 0) & (n_labels < sizes)
    samples = informative[codes]
    codes, labels = np.unique(codes[samples], return_inverse=True)[1], labels[samples]
    sizes, n_labels = sizes[informative], n_labels[informative]
    spread = np.sqrt(np.square(a[:, samples]).mean(axis=1))
    a = a[:, samples] / np.where(spread > 0, spread, 1.0)[:, None]
    observed = a @ labels
    a, observed = np.where(observed < 0, -1, 1)[:, None] * a, np.abs(observed)
    # The labels are not needed any more: sort samples by stratum, and then by a, the largest first.
    a = np.take_along_axis(a, np.lexsort((-a, np.broadcast_to(codes, a.shape)), axis=1), axis=1)
    codes = np.sort(codes)
    gaps = np.where(np.diff(codes) == 0, -np.diff(a, axis=1), np.inf)
    spacing = np.where(gaps > EQUAL, gaps, np.inf).min(axis=1)
    largest, log_p_of_largest = _largest_sum(a, codes, sizes, n_labels)
    # The largest sum has no saddlepoint, because its t is infinite.
    inner = np.clip(observed - spacing / 2.0, 0.0, largest * (1.0 - 1e-4))
    one_sided = np.maximum(_log_tail_of_labels(a, codes, sizes, n_labels, inner, spacing), log_p_of_largest)
    one_sided = np.where(observed > largest - EQUAL, log_p_of_largest, one_sided)
    return np.asarray(np.minimum(one_sided + np.log(2.0), 0.0))


def _largest_sum(a: Array, codes: Array, sizes: Array, n_labels: Array) -> tuple[Array, Array]:
    """Return the largest sum that labels can have and the log of its probability; a is sorted within strata."""
    starts = np.cumsum(sizes) - sizes
    is_largest = np.arange(len(codes)) - starts[codes] < n_labels[codes]
    last = a[:, (starts + n_labels).astype(int) - 1]
    is_tied = np.abs(a - last[:, codes]) < EQUAL
    n_tied, n_tied_labels = sums_by(codes, is_tied.astype(float)), sums_by(codes, (is_tied & is_largest).astype(float))
    log_p = _log_binomial(n_tied, n_tied_labels).sum(axis=1) - _log_binomial(sizes, n_labels).sum()
    return (a * is_largest).sum(axis=1), log_p


def _log_binomial(n: Array, k: Array) -> Array:
    """Return the log of the number of subsets of k out of n."""
    return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0))


def _log_tail_of_labels(
    a: Array, codes: Array, sizes: Array, n_labels: Array, observed: Array, spacing: Array
) -> Array:
    """Return the log of the upper tail of the sums at `observed`, half a spacing below a possible sum."""
    share = n_labels / sizes
    s0 = np.log(share / (1 - share))
    t, s = observed / np.square(a).sum(axis=1), np.tile(s0, (len(a), 1))
    for _ in range(NEWTON_STEPS):
        p = expit(s[:, codes] + t[:, None] * a)
        variance = p * (1 - p) + 1e-300
        h_ss, h_st, h_tt = (sums_by(codes, variance * a**power) for power in (0, 1, 2))
        g_s, g_t = n_labels - sums_by(codes, p), observed - (p * a).sum(axis=1)
        schur = h_tt.sum(axis=1) - (h_st**2 / h_ss).sum(axis=1)
        step_t = (g_t - (h_st * g_s / h_ss).sum(axis=1)) / schur
        step_s = (g_s - h_st * step_t[:, None]) / h_ss
        decrement = np.sqrt(np.maximum(g_t * step_t + (g_s * step_s).sum(axis=1), 0.0))
        damping = np.where(decrement > 0.25, 1.0 / (1.0 + decrement), 1.0)
        t, s = t + damping * step_t, s + damping[:, None] * step_s
        if decrement.max(initial=0.0) < 1e-6:
            break
    K = np.logaddexp(0.0, s[:, codes] + t[:, None] * a).sum(axis=1)
    K0 = (sizes * np.logaddexp(0.0, s0)).sum()
    w = np.sqrt(np.maximum(2 * ((K0 - s0 @ n_labels) - (K - s @ n_labels - t * observed)), 1e-12))
    curvature = np.exp(np.log(h_ss / (sizes * share * (1 - share))).sum(axis=1)) * schur
    return log_tail_at_saddlepoint(w, lattice_step(t, spacing), curvature)


def lattice_step(t: Array, spacing: Array) -> Array:
    """Return what replaces the saddlepoint t for sums on a lattice (Daniels 1987)."""
    return np.asarray(2.0 * np.sinh(t * spacing / 2.0) / spacing)


def log_tail_at_saddlepoint(w: Array, t: Array, curvature: Array) -> Array:
    """Return the log of an upper tail by the formula of Barndorff-Nielsen.

    `w` is the root of twice the exponent at the saddlepoint t, and `curvature` the second derivative there.
    """
    v = np.maximum(t * np.sqrt(curvature), 1e-300)
    # The formula is singular at the mean.
    return np.asarray(np.where(w < 0.1, log_ndtr(-w), log_ndtr(-(w + np.log(v / w) / w))))


def log_tail_of_signs(terms: Array) -> Array:
    """Return the log p-value, for both sides, of the sum of every row of terms if their signs change at random.

    The sum has the cumulant generating function `Σ_k log cosh(t d_k)` for terms ±d_k. The saddlepoint approximation has
    the continuity correction of `log_tail_of_labels`, because terms of one size have sums on a lattice.
    """
    size = np.abs(terms).max(axis=1)
    d = np.abs(terms) / np.where(size > 0, size, 1.0)[:, None]
    varies = d > EQUAL
    d = np.where(varies, d, 0.0)
    observed, largest = np.abs(terms.sum(axis=1)) / np.where(size > 0, size, 1.0), d.sum(axis=1)
    log_p_of_largest = -np.log(2.0) * varies.sum(axis=1)
    spacing = 2.0 * np.where(varies, d, 1.0).min(axis=1)
    inner = np.clip(observed - spacing / 2.0, 0.0, largest * (1.0 - 1e-4))
    second = np.maximum(np.square(d).sum(axis=1), 1e-300)
    t = inner / second
    for _ in range(NEWTON_STEPS):
        tangents = np.tanh(t[:, None] * d)
        second = np.maximum((np.square(d) * (1.0 - np.square(tangents))).sum(axis=1), 1e-300)
        step = (inner - (d * tangents).sum(axis=1)) / second
        t = t + step
        if np.abs(step * np.sqrt(second)).max(initial=0.0) < 1e-9:
            break
    K = (t[:, None] * d + np.log1p(np.exp(-2.0 * t[:, None] * d)) - np.log(2.0)).sum(axis=1)
    w = np.sqrt(np.maximum(2.0 * (t * inner - K), 1e-12))
    one_sided = log_tail_at_saddlepoint(w, lattice_step(t, spacing), second)
    one_sided = np.where(observed > largest - EQUAL, log_p_of_largest, np.maximum(one_sided, log_p_of_largest))
    return np.asarray(np.minimum(one_sided + np.log(2.0), 0.0))


def log_p_of_arrangement(a: Array, strata: Array) -> Array:
    """Return the log probability of one arrangement of the values of every row of a within strata.

    No p-value is smaller. Features of rare levels have few arrangements in small strata.
    """
    order = np.lexsort((a, np.broadcast_to(strata, a.shape)), axis=1)
    ordered, codes = np.take_along_axis(a, order, axis=1), np.sort(strata)
    is_new = (np.diff(ordered, axis=1) > EQUAL) | (np.diff(codes) > 0)
    runs = np.cumsum(np.pad(is_new, ((0, 0), (1, 0)), constant_values=True))
    _, first, lengths = np.unique(runs, return_index=True, return_counts=True)
    ties = np.bincount(first // a.shape[1], weights=gammaln(lengths + 1.0), minlength=len(a))
    return np.asarray(ties - gammaln(np.bincount(strata) + 1.0).sum())
