"""How large a quadratic form is by chance: tails of weighted sums of χ² variables, and of skewed scores."""

import numpy as np
from scipy.special import betaln, gammaln, log_ndtr
from scipy.stats import beta, chi2

from randsel._utils.typing import Array

#: Steps of the search for the saddlepoint, which halve the bracket where Newton's do not.
STEPS = 40


def log_tail(q: Array, weights: Array, freedom: float) -> Array:
    """`log P(Σ_k λ_k z_k² > q)` for z uniform on the sphere `Σ_l z_l² = d` in d dimensions (eq. 19).

    One row of weights λ ≥ 0 per q; `freedom` is d. This is the null distribution of a quadratic form in a target of
    fixed length; for d → ∞ the `z_k²` are independent χ² variables of one degree of freedom. The saddlepoint
    approximation is off by a few per cent of the tail, where moments alone are off by orders of magnitude. Forms that
    cannot vary have tail 1.
    """
    largest = weights.max(axis=1)
    alive = (largest > 0.0) & (q > 0.0)
    result = np.zeros(len(q))
    if alive.any():
        freedom = max(freedom, weights.shape[1] + 1.0)
        # at the largest value that the form can have, the tail is that of rounding
        reached = np.minimum(q[alive] / largest[alive], freedom * (1.0 - 1e-12))
        result[alive] = _saddlepoint(reached, weights[alive] / largest[alive, None], freedom)
    return result


def _saddlepoint(q: Array, weights: Array, d: float) -> Array:
    # P(Σ_l a_l z_l² > 0) with a_l = λ_l - q/d and independent normal z; the largest λ is 1
    shift = (q / d)[:, None]
    rest = d - weights.shape[1]
    a = weights - shift
    top = 1.0 - shift[:, 0]
    mean = a.sum(axis=1) - rest * shift[:, 0]

    def derivatives(zeta: Array) -> tuple[Array, Array]:
        inside, outside = a / (1.0 - 2.0 * zeta[:, None] * a), shift[:, 0] / (1.0 + 2.0 * zeta * shift[:, 0])
        first = inside.sum(axis=1) - rest * outside
        return first, 2.0 * (np.square(inside).sum(axis=1) + rest * np.square(outside))

    # K' grows from -∞ to ∞ between the poles
    high = (1.0 - 1e-13) / (2.0 * top)
    low = -(1.0 - 1e-13) / (2.0 * shift[:, 0])
    low, high = np.where(mean < 0.0, 0.0, low), np.where(mean < 0.0, high, 0.0)
    zeta = np.where(mean < 0.0, high * np.maximum(1.0 - 1.0 / np.maximum(q, 1.5), 0.1), 0.5 * low)
    for _ in range(STEPS):
        first, second = derivatives(zeta)
        low, high = np.where(first < 0.0, zeta, low), np.where(first < 0.0, high, zeta)
        step = zeta - first / second
        inside = (step > low) & (step < high)
        zeta = np.where(inside, step, 0.5 * (low + high))
    _, second = derivatives(zeta)
    generating = -0.5 * (np.log1p(-2.0 * zeta[:, None] * a).sum(axis=1) + rest * np.log1p(2.0 * zeta * shift[:, 0]))
    w = np.sign(zeta) * np.sqrt(np.maximum(-2.0 * generating, 0.0))
    v = zeta * np.sqrt(second)
    near = np.abs(w) < 0.1
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = log_ndtr(-(w + np.log(v / w) / w))
    tail = np.where(near, log_tail_of_moments(q, *cumulants(weights)), tail)
    # one weight: z² / d has a beta distribution
    single = (weights > 1e-10).sum(axis=1) == 1
    tail[single] = _log_beta_tail(q[single] / d, (d - 1.0) / 2.0)
    return np.asarray(tail)


def _log_beta_tail(x: Array, b: float) -> Array:
    """Log tail of the beta distribution with parameters ½ and b, also where it underflows."""
    tail = np.asarray(beta.logsf(x, 0.5, b))
    far = b * np.log1p(-x) - 0.5 * np.log(x) - np.log(b) - betaln(0.5, b)
    return np.where(np.isfinite(tail), tail, far)


def _log_chi2_tail(x: Array, df: Array) -> Array:
    """Log tail of the χ² distribution, also where it underflows."""
    tail = np.asarray(chi2.logsf(x, df))
    a, half = df / 2.0, np.maximum(x, 1e-300) / 2.0
    far = (a - 1.0) * np.log(half) - half - gammaln(a) - np.log1p(-np.minimum((a - 1.0) / half, 0.9))
    return np.where(np.isfinite(tail), tail, far)


def cumulants(weights: Array) -> tuple[Array, Array, Array]:
    """`Σλ, Σλ², Σλ³` over the last axis."""
    return weights.sum(axis=-1), np.square(weights).sum(axis=-1), (weights**3).sum(axis=-1)


def log_tail_of_moments(q: Array, first: Array | float, second: Array | float, third: Array | float) -> Array:
    """Log tail of Pearson's type III curve with the mean Σλ, variance 2Σλ² and third cumulant 8Σλ³ of a form."""
    df: Array = np.asarray(second) ** 3 / np.asarray(third) ** 2
    x = df + (q - first) / np.sqrt(2.0 * np.asarray(second)) * np.sqrt(2.0 * df)
    return _log_chi2_tail(np.maximum(x, 0.0), np.asarray(df))


def log_tail_of_score(score: Array, skewness: Array | float) -> Array:
    """Log tail of a standard score with this skewness (Pearson's type III curve; normal where it has none)."""
    skewness = np.maximum(np.broadcast_to(skewness, np.shape(score)), 1e-4)
    df = np.asarray(8.0 / skewness**2)
    straight = skewness <= 1e-3
    curved = _log_chi2_tail(np.maximum(df + score * np.sqrt(2.0 * df), 0.0), df)
    return np.asarray(np.where(straight, log_ndtr(-score), curved))
