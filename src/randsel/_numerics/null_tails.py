"""Tails of null distributions: weighted sums of χ² variables, and standard scores with skewness.

All functions return the log of an upper tail, which stays finite where the tail itself underflows.
"""

import numpy as np
from scipy.special import betaln, gammaln, log_ndtr
from scipy.stats import beta, chi2

from randsel._utils.typing import Array

#: Newton steps of the search for the saddlepoint; a step that leaves the bracket is replaced by bisection.
STEPS = 40


def log_tail_of_form(q: Array, weights: Array, freedom: float) -> Array:
    """Return `log P(Σ_k λ_k z_k² > q)` for z uniform on the sphere `Σ_l z_l² = d` in d dimensions (eq. 19).

    This is the null distribution of a quadratic form in a target of fixed length. For d → ∞ the `z_k²` are independent
    χ² variables of one degree of freedom. The saddlepoint approximation is off by a few per cent of the tail, where an
    approximation by moments is off by orders of magnitude.

    Parameters
    ----------
    q : array (forms,)
        Values of the quadratic forms.
    weights : array (forms, weights)
        λ ≥ 0 of each form. The tail of a form whose weights are all zero is 1.
    freedom : float
        d.
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
    for _ in range(STEPS):
        first, second = derivatives(zeta)
        low, high = np.where(first < 0.0, zeta, low), np.where(first < 0.0, high, zeta)
        newton = zeta - first / second
        zeta = np.where((newton > low) & (newton < high), newton, 0.5 * (low + high))
    _, second = derivatives(zeta)
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
    log_tail[single] = _log_beta_tail(q[single] / d, (d - 1.0) / 2.0)
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


def log_tail_of_score(score: Array, skewness: Array | float) -> Array:
    """Return the log tail of a standard score of this skewness: Pearson type III, or normal without skewness."""
    skewness = np.maximum(np.broadcast_to(skewness, np.shape(score)), 1e-4)
    pearson = _log_pearson_tail(score, np.asarray(8.0 / skewness**2))
    return np.asarray(np.where(skewness <= 1e-3, log_ndtr(-score), pearson))


def _log_pearson_tail(score: Array, df: Array) -> Array:
    """Return the log tail of a standardised χ² variable; its leading terms where that underflows."""
    x = np.maximum(df + score * np.sqrt(2.0 * df), 0.0)
    log_tail = np.asarray(chi2.logsf(x, df))
    a, half = df / 2.0, np.maximum(x, 1e-300) / 2.0
    leading_terms = (a - 1.0) * np.log(half) - half - gammaln(a) - np.log1p(-np.minimum((a - 1.0) / half, 0.9))
    return np.where(np.isfinite(log_tail), log_tail, leading_terms)


def _log_beta_tail(x: Array, b: float) -> Array:
    """Return the log tail of the beta distribution with parameters ½ and b; its leading term where that underflows."""
    log_tail = np.asarray(beta.logsf(x, 0.5, b))
    leading_term = b * np.log1p(-x) - 0.5 * np.log(x) - np.log(b) - betaln(0.5, b)
    return np.where(np.isfinite(log_tail), log_tail, leading_term)
