"""Confidence intervals of measures of agreement that allow for groups of samples, such as those of one donor."""

from collections.abc import Callable

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from randsel._utils.typing import Array

CONFIDENCE = 0.95
Z = float(norm.ppf(0.5 + CONFIDENCE / 2))
LEAST_UNITS, MOST_UNITS = 4, 1000  # samples or groups, of a jackknife
Statistic = Callable[[Array], float]  # of a mask of rows


def wilson_interval(fraction: Array, total: Array, z: float = Z) -> tuple[Array, Array]:
    """Return the limits of Wilson's score interval of fractions of `total` samples, which need not be whole numbers."""
    centre, scale = fraction + z**2 / (2 * total), 1.0 + z**2 / total
    half = z * np.sqrt(fraction * (1.0 - fraction) / total + z**2 / (4 * total**2))
    return np.maximum((centre - half) / scale, 0.0), np.minimum((centre + half) / scale, 1.0)


def mean_recall_interval(codes: Array, is_right: Array, groups: Array | None = None) -> tuple[float, float]:
    """Return the limits of the mean of the recalls of classes by the stratified Wilson interval (Yan and Su 2010).

    The limits are means of Wilson limits of the recalls, whose quantile is reduced such that the variance of the mean
    is that of independent classes. With one class, they are those of a fraction. Groups reduce the number of samples of
    each class, see `effective_sizes`.
    """
    classes, sizes = np.unique(codes, return_counts=True)
    recalls = np.array([is_right[codes == k].mean() for k in classes])

    def mean_recall(rows: Array) -> float:
        return float(np.mean([is_right[rows & (codes == k)].mean() for k in np.unique(codes[rows])]))

    independent = float((recalls * (1.0 - recalls) / sizes).sum()) / len(sizes) ** 2
    sizes = effective_sizes(sizes, mean_recall, independent, codes, groups)
    # Shrunk towards 1/2: without an error, the variance of a recall is not zero.
    shrunk = (recalls * sizes + 1.0) / (sizes + 2.0)
    errors = np.sqrt(shrunk * (1.0 - shrunk) / sizes)
    low, high = wilson_interval(recalls, sizes, Z * float(np.sqrt(np.square(errors).sum()) / errors.sum()))
    return float(low.mean()), float(high.mean())


def effective_sizes(
    sizes: Array, statistic: Statistic, independent: float, codes: Array, groups: Array | None
) -> Array:
    """Return how many independent samples of every class would make a statistic as precise as those of groups make it.

    The number of samples of each class is divided by the ratio of the variance of the statistic, by a jackknife over
    groups, to that of independent samples, `independent`; then by the square of the ratio of the quantile of Student's
    t to that of the normal distribution. `codes` has the class of every sample. NaN with too few groups.
    """
    n_groups = len(codes) if groups is None else len(np.unique(groups))
    if groups is None or n_groups == len(codes):
        return sizes
    if n_groups < LEAST_UNITS:
        return np.full(len(sizes), np.nan)
    variance, n_units = _jackknife_variance(statistic, groups)
    # A perfect statistic says nothing about its variance: every group counts once.
    groups_each = np.array([len(np.unique(groups[codes == k])) for k in np.unique(codes)], dtype=np.float64)
    effective = sizes / max(variance / independent, 1.0) if independent > 0.0 else groups_each
    few = float(Z / student.ppf(0.5 + CONFIDENCE / 2, n_units - 1)) ** 2
    return np.asarray(effective * few)


def r2_interval(predicted: Array, y: Array, groups: Array | None = None) -> tuple[float, float]:
    """Return the limits of R²: a jackknife of log(1 - R²), with quantiles of Student's t, over samples or groups."""
    units = np.arange(len(y)) if groups is None else groups

    def log_error(rows: Array) -> float:
        return float(np.log(np.square(y - predicted)[rows].mean()) - np.log(np.var(y[rows])))

    if len(np.unique(units)) < LEAST_UNITS:
        return float("nan"), float("nan")
    with np.errstate(divide="ignore", invalid="ignore"):
        centre = log_error(np.ones(len(y), dtype=bool))
        variance, n_units = _jackknife_variance(log_error, units)
    if not np.isfinite(centre) or not np.isfinite(variance):  # no error, or a constant outcome
        return float("nan"), float("nan")
    half = float(student.ppf(0.5 + CONFIDENCE / 2, n_units - 1)) * variance**0.5
    return float(1.0 - np.exp(centre + half)), float(1.0 - np.exp(centre - half))


def _jackknife_variance(statistic: Statistic, units: Array) -> tuple[float, int]:
    """Return the jackknife variance of a statistic of a mask of rows, and the number of units, left out one by one.

    Of many units, several are left out together.
    """
    numbers = np.unique(units, return_inverse=True)[1] % MOST_UNITS
    n_units = int(numbers.max()) + 1
    values = np.array([statistic(numbers != number) for number in range(n_units)])
    return float((n_units - 1) / n_units * np.square(values - values.mean()).sum()), n_units
