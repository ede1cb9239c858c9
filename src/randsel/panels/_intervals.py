"""Confidence intervals of measures of agreement that allow for groups of samples, such as those of one donor."""

from collections.abc import Callable

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from randsel._utils.typing import Array

CONFIDENCE = 0.95
Z = float(norm.ppf(0.5 + CONFIDENCE / 2))
LEAST_UNITS = 4  # samples or groups, of a jackknife


def wilson_interval(fraction: Array, total: Array, z: float = Z) -> tuple[Array, Array]:
    """Return the limits of Wilson's score interval of fractions of `total` samples, which need not be whole numbers."""
    centre, scale = fraction + z**2 / (2 * total), 1.0 + z**2 / total
    half = z * np.sqrt(fraction * (1.0 - fraction) / total + z**2 / (4 * total**2))
    return np.maximum((centre - half) / scale, 0.0), np.minimum((centre + half) / scale, 1.0)


def mean_recall_interval(codes: Array, is_right: Array, groups: Array | None = None) -> tuple[float, float]:
    """Return the limits of the mean of the recalls of classes by the stratified Wilson interval (Yan and Su 2010).

    The limits are means of Wilson limits of the recalls, whose quantile is reduced such that the variance of the mean
    is that of independent classes. Groups reduce the number of samples of each class to an effective number: the number
    of samples divided by the ratio of the variance of the mean recall, by a jackknife over groups, to that of
    independent samples.
    """
    classes = np.unique(codes)
    sizes = np.array([(codes == k).sum() for k in classes], dtype=np.float64)
    recalls = np.array([is_right[codes == k].mean() for k in classes])
    if groups is not None and len(np.unique(groups)) < len(codes):
        if len(np.unique(groups)) < LEAST_UNITS:
            return float("nan"), float("nan")
        sizes = _effective_sizes(codes, is_right, groups, sizes, recalls)
    # Shrunk towards 1/2: without an error, the variance of a recall is not zero.
    shrunk = (recalls * sizes + 1.0) / (sizes + 2.0)
    errors = np.sqrt(shrunk * (1.0 - shrunk) / sizes)
    low, high = wilson_interval(recalls, sizes, Z * float(np.sqrt(np.square(errors).sum()) / errors.sum()))
    return float(low.mean()), float(high.mean())


def _effective_sizes(codes: Array, is_right: Array, groups: Array, sizes: Array, recalls: Array) -> Array:
    """Return the numbers of independent samples of every class that would make the mean recall as precise as it is."""

    def mean_recall(rows: Array) -> float:
        return float(np.mean([is_right[rows & (codes == k)].mean() for k in np.unique(codes[rows])]))

    variance, n_groups = _jackknife_variance(mean_recall, groups)
    independent = float((recalls * (1.0 - recalls) / sizes).sum()) / len(sizes) ** 2
    # Without a single error or a single hit, nothing is known about the variance: every group counts once.
    groups_each = np.array([len(np.unique(groups[codes == k])) for k in np.unique(codes)], dtype=np.float64)
    effective = sizes / max(variance / independent, 1.0) if independent > 0.0 else groups_each
    few = float(Z / student.ppf(0.5 + CONFIDENCE / 2, n_groups - 1)) ** 2
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


def _jackknife_variance(statistic: Callable[[Array], float], units: Array) -> tuple[float, int]:
    """Return the jackknife variance of a statistic of a mask of rows, and the number of units, left out one by one."""
    labels = np.unique(units)
    values = np.array([statistic(units != label) for label in labels])
    return float((len(labels) - 1) / len(labels) * np.square(values - values.mean()).sum()), len(labels)
