"""Direction and size of the effect of every feature alone, with 95 % confidence limits.

- Classes: the area under the ROC curve (AUC), with the limits of Newcombe (2006, method 5), which invert a score test
  and are valid even if the classes do not overlap.
- Numbers: Spearman's rank correlation, with Fisher's transform and the variance of Bonett and Wright (2000).
- Survival: the hazard ratio per standard deviation in a Cox model of this feature alone, with Wald limits.

All columns of a block are computed at a time. Missing values are left out.

Samples of one group, such as a donor, are not independent. If the target varies within groups, the variance is that of
a jackknife that leaves out groups, and quantiles are those of Student's t. Otherwise, groups have been averaged.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from randsel._numerics.columns import column_slices
from randsel._numerics.missing import columns_vary
from randsel._utils.text import format_label
from randsel._utils.typing import Array
from randsel.analysis._model import Effects
from randsel.analysis._preparation import nominal_mask
from randsel.tables import Table
from randsel.targets import SURVIVAL, OutcomeKind, compare_groups

CONFIDENCE = 0.95
BLOCK = 1 << 20  # number of values per block of columns
BISECTIONS = 50  # of an interval of length 1: about the resolution of double precision
NEWTON_STEPS = 30
#: Penalty on the squared coefficient of a Cox model, per event: keeps it finite if a feature separates the events.
RIDGE = 1e-4
#: Values are taken for logarithms of base 2 if there are at least `MANY` columns, if values lie within `RANGE`, if the
#: means of columns have a median of at least `LEAST_MEAN` and a standard deviation of at least `LEAST_SPREAD`, as
#: intensities of genes do, and if the median of the absolute skewness of columns is at most `MOST_SKEWED`.
MANY, RANGE, LEAST_MEAN, LEAST_SPREAD, MOST_SKEWED = 50, (-15.0, 30.0), 1.0, 0.5, 1.5
#: Number of groups that a jackknife leaves out one by one; of more, several are left out together. With fewer than
#: `LEAST_GROUPS`, it is not used.
MOST_BLOCKS, LEAST_GROUPS = 20, 4
MOST = 1.0 - 1e-9  # largest absolute rank correlation whose transform is taken
FLOOR = 0.1  # smallest ratio of the variance with groups to that of independent samples: below 1 in pairs of samples
FEW_VALUES = 3  # classes are compared by means if no feature has more values than this, as with genotypes


class Sizes(NamedTuple):
    """Effects of some columns, see `Effects`."""

    estimate: Array
    low: Array
    high: Array
    sign: Array
    extreme: Array


def measure_effects(table: Table, kind: OutcomeKind) -> Effects:
    """Return the effect of every feature of a table alone; NaN for constant columns and codes of categories."""
    m, n = table.X.shape
    unknown = ~columns_vary(table.X) | nominal_mask(table)
    classes, codes = np.unique(table.y, return_inverse=True) if kind.has_classes else ((), None)
    log2 = "given" if table.log2 else "detected" if _look_like_logs(table.X[:, ~unknown]) else ""
    centre = "mean" if log2 or _has_few_values(table.X) else "median"
    groups = table.groups if _has_dependent_samples(table) else None
    blocks, centres = [], []
    for columns in column_slices(n, max(1, BLOCK // m)):
        # a row per feature, so that sorting reads memory in order
        x = np.array(table.X[:, columns].T, dtype=np.float64, order="C")
        x[unknown[columns]] = np.nan
        if codes is not None:
            blocks.append(class_effects(x, codes, groups))
            centres.append(class_centres(x, codes, centre))
        elif kind is SURVIVAL:
            blocks.append(hazard_ratios(x, table.y["time"], table.y["event"], groups))
        else:
            blocks.append(rank_correlations(x, np.asarray(table.y, dtype=np.float64), groups))
    sizes = Sizes(*(np.concatenate(arrays) for arrays in zip(*blocks, strict=True)))
    return Effects(
        effect_measure(kind),
        **sizes._asdict(),
        classes=tuple(format_label(label) for label in classes),
        centre=centre,
        centres=np.concatenate(centres) if centres else np.zeros((n, 0)),
        log2=log2,
    )


def effect_measure(kind: OutcomeKind) -> str:
    """Return the measure of effects on a kind of outcome."""
    return "AUC" if kind.has_classes else "hazard ratio" if kind is SURVIVAL else "correlation"


def describe_effects(effects: Effects, table: Table) -> Iterator[str]:
    """Describe what effects refer to: logarithms, values as they are in the file, samples as if independent."""
    if effects.log2 == "detected" and effects.difference_name is not None:
        yield (
            "The values look like logarithms of base 2, so differences between classes are called log2 fold changes."
        )
    if table.batch is not None or table.covariates:
        yield (
            f"Directions and effects ({effects.measure}) are those of the values in the file: effects of batches and "
            "covariates are removed for ranking and tests only."
        )
    if table.groups is None or compare_groups(table.y, table.groups) == "between groups":
        return
    if _has_dependent_samples(table):
        yield (
            f"Confidence limits of effects ({effects.measure}) allow for groups: they are those of a jackknife that "
            "leaves out groups."
        )
    elif len(np.unique(table.groups)) < LEAST_GROUPS:
        yield (
            f"Confidence limits of effects ({effects.measure}) treat the samples of a group as independent, because "
            f"fewer than {LEAST_GROUPS} groups do not show how much they vary; p- and q-values do not."
        )


def _has_dependent_samples(table: Table) -> bool:
    """Return whether samples share groups, and there are enough groups for a jackknife."""
    n_groups = 0 if table.groups is None else len(np.unique(table.groups))
    return LEAST_GROUPS <= n_groups < len(table.y)


def jackknife(statistic: Callable[[Array], Array], groups: Array) -> tuple[Array, int]:
    """Return the jackknife variance of statistics of a mask of samples, and its degrees of freedom.

    Groups are left out one by one, or several together.
    """
    numbers = np.unique(groups, return_inverse=True)[1] % MOST_BLOCKS
    n_blocks = int(numbers.max()) + 1
    values = np.stack([statistic(numbers != number) for number in range(n_blocks)])
    variance = (n_blocks - 1) / n_blocks * np.square(values - values.mean(axis=0)).sum(axis=0)
    return np.asarray(variance), n_blocks - 1


def _look_like_logs(X: Array) -> bool:
    """Return whether values look like logarithms of base 2 of intensities or counts."""
    if X.shape[1] < MANY:
        return False
    X = X[:, :: max(1, X.shape[1] // 2000)].astype(np.float64)
    if np.nanmin(X) < RANGE[0] or np.nanmax(X) > RANGE[1] or (np.isnan(X) | (np.floor(X) == X)).all():
        return False
    means = np.nanmean(X, axis=0)
    deviations = X - means
    skewness = np.nanmean(deviations**3, axis=0) / np.maximum(np.nanmean(deviations**2, axis=0), 1e-300) ** 1.5
    has_levels = np.median(means) >= LEAST_MEAN and np.std(means) >= LEAST_SPREAD
    return bool(has_levels and np.median(np.abs(skewness)) <= MOST_SKEWED)


def _has_few_values(X: Array) -> bool:
    """Return whether every feature has few values, all of them whole numbers, as genotypes do."""
    if np.nanmax(X) - np.nanmin(X) >= FEW_VALUES:
        return False
    return bool((np.isnan(X) | (np.floor(X) == X)).all())


def rank_rows(x: Array) -> Array:
    """Return the ranks of the values of every row, ties by their mean; NaN where values are missing."""
    order = np.argsort(x, axis=1)  # missing values last
    values = np.take_along_axis(x, order, axis=1)
    is_new = np.ones(x.shape, dtype=bool)
    is_new[:, 1:] = values[:, 1:] != values[:, :-1]
    positions = np.broadcast_to(np.arange(1.0, x.shape[1] + 1), x.shape)
    ranks = positions
    if not is_new.all():
        first = np.maximum.accumulate(np.where(is_new, positions, 0.0), axis=1)
        is_last = np.ones(x.shape, dtype=bool)
        is_last[:, :-1] = is_new[:, 1:]
        last = np.minimum.accumulate(np.where(is_last, positions, np.inf)[:, ::-1], axis=1)[:, ::-1]
        ranks = (first + last) / 2.0
    out = np.empty(x.shape)
    np.put_along_axis(out, order, ranks, axis=1)
    out[np.isnan(x)] = np.nan
    return out


# ---------------------------------------------------------------- classes


def class_effects(x: Array, codes: Array, groups: Array | None = None) -> Sizes:
    """Return the AUC of two classes, or of the class that differs most from the others; a row of x per feature."""
    n_classes = int(codes.max()) + 1
    areas, counts = _class_areas(x, np.eye(n_classes)[codes])
    others = counts.sum(axis=1, keepdims=True) - counts
    distances = np.abs(np.nan_to_num(areas, nan=0.5) - 0.5)
    rows = np.arange(len(x))
    extreme = np.full(len(x), 1) if n_classes == 2 else np.argmax(distances, axis=1)
    area, m, n = areas[rows, extreme], counts[rows, extreme], others[rows, extreme]
    sign = np.nan_to_num(np.sign(area - 0.5)).astype(int)
    if n_classes == 2:
        extreme = (sign > 0).astype(int)
    # Bonferroni correction for the choice of one of several classes
    level = (1.0 - CONFIDENCE) / (1 if n_classes == 2 else n_classes)
    if groups is not None:
        compared = np.full(len(x), 1) if n_classes == 2 else extreme
        m, n = _effective_sizes(x, codes, groups, compared, Counted(area, m, n), level)
    area = np.maximum(area, 1.0 - area)
    return Sizes(area, *auc_limits(area, m, n, level), sign, np.where(sign == 0, -1, extreme))


class Counted(NamedTuple):
    """AUC of features, and numbers of samples of the class and of the others."""

    area: Array
    m: Array
    n: Array


def _class_areas(x: Array, member: Array) -> tuple[Array, Array]:
    """Return the AUC of every class against the others, and the number of its samples; a row per feature."""
    counts = (~np.isnan(x)).astype(np.float64) @ member
    others = counts.sum(axis=1, keepdims=True) - counts
    with np.errstate(all="ignore"):
        rank_sums = np.nan_to_num(rank_rows(x)) @ member
        return (rank_sums - counts * (counts + 1.0) / 2.0) / (counts * others), counts


def _effective_sizes(
    x: Array, codes: Array, groups: Array, compared: Array, counted: Counted, level: float
) -> tuple[Array, Array]:
    """Return how many independent samples of the compared class, and of the others, make the AUC as precise as it is.

    An AUC of 0 or 1 says nothing about its variance, nor does a class of one group: then every group counts once.
    """
    rows, member = np.arange(len(x)), np.eye(int(codes.max()) + 1)[codes]
    variance, freedom = jackknife(lambda kept: _class_areas(x[:, kept], member[kept])[0][rows, compared], groups)
    independent = auc_variance(*counted)
    is_estimated = (independent > 0.0) & np.isfinite(variance)
    few = (norm.isf(level / 2.0) / student.isf(level / 2.0, freedom)) ** 2
    numbers = np.unique(groups, return_inverse=True)[1]
    is_known, sizes = ~np.isnan(x), []
    for is_other, size in enumerate((counted.m, counted.n)):
        n_groups = np.zeros(len(x))
        for number in range(int(numbers.max()) + 1):
            inside = numbers == number
            is_counted = (codes[inside] == compared[:, None]) != bool(is_other)
            n_groups += (is_counted & is_known[:, inside]).any(axis=1)
        with np.errstate(all="ignore"):
            sizes.append(few * np.where(is_estimated, size / np.maximum(variance / independent, FLOOR), n_groups))
    return sizes[0], sizes[1]


def auc_variance(area: Array, m: Array, n: Array) -> Array:
    """Return the variance of an AUC of m and n samples.

    That of an area θ is θ(1 - θ) [1 + N (1 - θ)/(2 - θ) + N θ/(1 + θ)] / (mn) with N = (m + n)/2 - 1.
    """
    size = (m + n) / 2.0 - 1.0
    shape = 1.0 + size * ((1.0 - area) / (2.0 - area) + area / (1.0 + area))
    return np.asarray(area * (1.0 - area) * shape / (m * n))


def auc_limits(area: Array, m: Array, n: Array, level: float) -> tuple[Array, Array]:
    """Return the confidence limits of an AUC of m and n samples: where a score test has the p-value `level`."""
    z = float(norm.isf(level / 2.0))

    def is_within(theta: Array) -> Array:
        return np.asarray((area - theta) ** 2 <= z * z * auc_variance(theta, m, n))

    with np.errstate(all="ignore"):
        limits = []
        for outside in (0.0, 1.0):
            inner, outer = area.copy(), np.full(area.shape, outside)
            for _ in range(BISECTIONS):
                middle = (inner + outer) / 2.0
                within = is_within(middle)
                inner, outer = np.where(within, middle, inner), np.where(within, outer, middle)
            limits.append(np.where(np.isnan(area), np.nan, inner))
    return limits[0], limits[1]


def class_centres(x: Array, codes: Array, centre: str) -> Array:
    """Return the mean or the median of the observed values of every class: a row per feature."""
    centres = np.full((len(x), int(codes.max()) + 1), np.nan)
    function = np.nanmean if centre == "mean" else np.nanmedian
    for code in range(centres.shape[1]):
        values = x[:, codes == code]
        known = ~np.isnan(values).all(axis=1)
        centres[known, code] = function(values[known], axis=1)
    return centres


# ---------------------------------------------------------------- numbers


def rank_correlations(x: Array, y: Array, groups: Array | None = None) -> Sizes:
    """Return Spearman's correlation of every row of x with y."""
    r, counts = _rank_correlations(x, y)
    with np.errstate(all="ignore"):
        variance = (1.0 + r * r / 2.0) / (counts - 3.0)
        quantile = norm.isf((1.0 - CONFIDENCE) / 2.0)
        if groups is not None:
            clustered, freedom = jackknife(
                lambda kept: np.arctanh(_rank_correlations(x[:, kept], y[kept])[0].clip(-MOST, MOST)), groups
            )
            variance = np.maximum(clustered, FLOOR * variance)
            quantile = student.isf((1.0 - CONFIDENCE) / 2.0, freedom)
        half_width = quantile * np.sqrt(variance)
        half_width[counts < 4] = np.nan
        low, high = (np.tanh(np.arctanh(r) + side * half_width) for side in (-1.0, 1.0))
    return Sizes(r, low, high, np.nan_to_num(np.sign(r)).astype(int), np.full(len(x), -1))


def _rank_correlations(x: Array, y: Array) -> tuple[Array, Array]:
    """Return Spearman's correlation of every row of x with y, and the number of its values."""
    is_present = ~np.isnan(x)
    counts = is_present.sum(axis=1)
    a = rank_rows(x)
    b = np.broadcast_to(rank_rows(y[None, :]), x.shape)
    if not is_present.all():
        b = rank_rows(np.where(is_present, y, np.nan))
    with np.errstate(all="ignore"):
        middle = (counts[:, None] + 1.0) / 2.0
        a, b = np.nan_to_num(a - middle), np.nan_to_num(b - middle)
        return np.clip((a * b).sum(axis=1) / np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1)), -1.0, 1.0), counts


# ---------------------------------------------------------------- survival


def hazard_ratios(x: Array, time: Array, event: Array, groups: Array | None = None) -> Sizes:
    """Return the hazard ratio per standard deviation of every row of x: Breslow's likelihood, Newton steps."""
    beta, information = _log_hazard_ratios(x, time, event)
    with np.errstate(all="ignore"):
        variance, quantile = 1.0 / information, norm.isf((1.0 - CONFIDENCE) / 2.0)
        if groups is not None:
            clustered, freedom = jackknife(
                lambda kept: _log_hazard_ratios(x[:, kept], time[kept], event[kept])[0], groups
            )
            variance = np.maximum(clustered, FLOOR * variance)
            quantile = student.isf((1.0 - CONFIDENCE) / 2.0, freedom)
        half_width = quantile * np.sqrt(variance)
        low, high = (np.exp(beta + side * half_width) for side in (-1.0, 1.0))
        return Sizes(np.exp(beta), low, high, np.nan_to_num(np.sign(beta)).astype(int), np.full(len(x), -1))


def _log_hazard_ratios(x: Array, time: Array, event: Array) -> tuple[Array, Array]:
    """Return the coefficient of every row of x, standardised, in a Cox model of it alone, and its information."""
    order = np.argsort(-time, kind="stable")  # latest first: sums over samples at risk are cumulative sums
    x, time, event = x[:, order], time[order], event[order]
    last_of_time = np.append(np.flatnonzero(time[1:] != time[:-1]), len(time) - 1)
    ends = last_of_time[np.searchsorted(last_of_time, np.arange(len(time)))][event]
    weights = (~np.isnan(x)).astype(np.float64)
    with np.errstate(all="ignore"):
        totals = weights.sum(axis=1, keepdims=True)
        z = np.nan_to_num(x - np.nansum(x, axis=1, keepdims=True) / totals)
        z /= np.sqrt((z * z).sum(axis=1, keepdims=True) / totals)
    is_known = np.isfinite(z).all(axis=1)
    beta, information = np.full(len(x), np.nan), np.full(len(x), np.nan)
    if is_known.any():
        beta[is_known], information[is_known] = _fit_cox(z[is_known], weights[is_known], event, ends)
    return beta, information


def _fit_cox(z: Array, weights: Array, event: Array, ends: Array) -> tuple[Array, Array]:
    """Return coefficient and information of one Cox model per row of z; samples are sorted, latest time first.

    `ends` has, for every event, the position of the last sample at risk.
    """
    deaths = weights[:, event]
    penalty = RIDGE * np.maximum(deaths.sum(axis=1), 1e-300)
    event_sums = (deaths * z[:, event]).sum(axis=1)
    beta, information = np.zeros(len(z)), np.zeros(len(z))
    active = np.arange(len(z))
    for _ in range(NEWTON_STEPS):
        risk = beta[active, None] * z[active]
        risk = weights[active] * np.exp(risk - risk.max(axis=1, keepdims=True))
        at_risk = np.maximum(np.cumsum(risk, axis=1)[:, ends], 1e-300)
        risk *= z[active]
        means = np.cumsum(risk, axis=1)[:, ends] / at_risk
        risk *= z[active]
        squares = np.cumsum(risk, axis=1)[:, ends] / at_risk
        d = deaths[active]
        gradient = event_sums[active] - (d * means).sum(axis=1) - penalty[active] * beta[active]
        information[active] = (d * (squares - means**2)).sum(axis=1) + penalty[active]
        step = np.clip(gradient / information[active], -1.0, 1.0)  # a long step may overshoot
        beta[active] += step
        active = active[np.abs(step) > 1e-9]
        if not len(active):
            break
    return beta, information
