"""Comparison of new values with the training values of a panel: range, shift, and transforms such as a logarithm."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from randsel._utils.text import list_first, pluralise
from randsel._utils.typing import Array
from randsel.panels._content import PanelContent, PanelFeature
from randsel.prediction import MAX_POINTS
from randsel.tables import LOWEST, MAX_NEGATIVE, Table

#: Name (choice of `--transform`) -> function, name of the inverse, and words for the result in a warning.
TRANSFORMS: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "log2": (np.log2, "exp2", "log2"),
    "ln": (np.log, "exp", "the natural logarithm"),
    "log10": (np.log10, "exp10", "log10"),
    "exp2": (np.exp2, "log2", "2 to the power"),
    "exp": (np.exp, "ln", "e to the power"),
    "exp10": (lambda values: np.power(10.0, values), "log10", "10 to the power"),
}
LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)  # quantiles that are compared
MIN_SAMPLES = 5  # with fewer new samples, quantiles are not compared
MIN_DISTINCT = 0.9  # features with more than this fraction of distinct training values can identify samples
MIN_REPEATED = 0.9  # new samples are those of training if more than this fraction of their values occurs there
#: Assumed upper limit on the probability that a value of a new sample occurs in training by chance, if training values
#: are nearly all distinct.
CHANCE_OF_REPEAT = 0.2
EXPECTED_BY_CHANCE = 0.05  # training samples are reported if fewer than this number are expected by chance
UNLIKELY = 0.01  # equal new values are reported if training samples would have them with less than this probability
SHIFTED = 1.0  # shifts of a median above this, in training standard deviations, are reported
SIGNIFICANT = 4.0  # a reported shift also exceeds this many standard errors of the new median
MEDIAN_ERROR = 1.25  # standard error of the median of n normal values, in standard deviations, times √n
#: Fractions of values outside the training range above this are reported, if chance explains so many in any feature
#: with a probability below `UNLIKELY`, or if a value is farther outside than the range is wide.
OUTSIDE = 0.1
#: A transform is suggested if quantiles are more than `FAR_DISTANCE` standard deviations apart, and if the transform
#: reduces this distance below `CLOSE_DISTANCE` and below `MAX_DISTANCE_RATIO` times its value without the transform.
FAR_DISTANCE, CLOSE_DISTANCE, MAX_DISTANCE_RATIO = 2.0, 1.0, 0.25
NORMAL_IQR = 1.349  # interquartile range of the standard normal distribution
MANY_ABSENT = 0.25  # fractions of absent features above this are reported
ROUNDING = 1e-6  # values that differ by less than this fraction of their size are equal up to rounding
NAMED = 5  # number of features that a warning names


@dataclass(frozen=True)
class FeatureShift:
    """How new values of a feature compare with its training values.

    Attributes
    ----------
    name
        The feature.
    training_median, new_median
        Medians of the observed values; NaN if there are none.
    shift
        Difference of the medians in training standard deviations (estimated by the interquartile range, unless that is
        zero); NaN for categories.
    outside
        Fraction of the new values outside the training range.
    n_missing
        Number of new samples without a value.
    """

    name: str
    training_median: float
    new_median: float
    shift: float
    outside: float
    n_missing: int


@np.errstate(all="ignore")
def transform_values(values: Array, name: str) -> Array:
    """Return transformed values; "none" changes nothing, nor do "log2" and "as-training", which the reader applies.

    Before a logarithm, values below `LOWEST` are set to `LOWEST`, as in the reader. Raises ValueError if a power
    overflows.
    """
    if name in ("as-training", "none", "log2"):
        return values
    arguments = np.maximum(values, LOWEST) if name in ("ln", "log10") else values
    transformed = np.asarray(TRANSFORMS[name][0](arguments.astype(np.float64)))
    if np.isinf(transformed).any():
        raise ValueError(f"--transform {name} overflows: the values are not logarithms; choose another transform.")
    return transformed


@np.errstate(all="ignore")
def undo_transform(value: float, transform: str, *, log2: bool) -> float:
    """Return what a file that needs `transform` holds for a value of the training file.

    `log2`: logarithms of the training values were taken.
    """
    if transform == "as-training":
        return value
    if log2:
        value = float(np.log2(max(value, LOWEST)))
    if transform == "none":
        return value
    inverse = TRANSFORMS[transform][1]
    return float(TRANSFORMS[inverse][0](value if inverse.startswith("exp") else max(value, LOWEST)))


def compare_features(panel: PanelContent, values: Array) -> tuple[FeatureShift, ...]:
    """Compare the new values of each feature (a column of `values`) with its training values."""
    return tuple(
        _compare(feature, points, column)
        for feature, points, column in zip(panel.features, panel.preparation.points, values.T, strict=True)
    )


def _compare(feature: PanelFeature, points: Array, column: Array) -> FeatureShift:
    name = feature.name
    observed, median = column[~np.isnan(column)], float(np.median(points))
    if not len(observed):
        return FeatureShift(name, median, np.nan, np.nan, np.nan, len(column))
    new_median, spread = float(np.median(observed)), _spread(points)
    has_order = feature.levels is None  # codes of categories have none
    shift = (new_median - median) / spread if spread > 0.0 and has_order else np.nan
    outside = float((_distances_outside(observed, points) > 0.0).mean())
    return FeatureShift(name, median, new_median, shift, outside, len(column) - len(observed))


def _distances_outside(observed: Array, points: Array) -> Array:
    """Return how far values lie outside the training range; 0 inside it and, up to rounding, at its ends."""
    distances = np.maximum(points[0] - observed, observed - points[-1])
    return np.where(distances > ROUNDING * np.maximum(np.abs(points[0]), np.abs(points[-1])), distances, 0.0)


def _spread(points: Array) -> float:
    """Return the standard deviation, estimated by the interquartile range unless that is zero."""
    return _interquartile_range(points) / NORMAL_IQR or float(points.std())


def _interquartile_range(points: Array) -> float:
    low, high = np.quantile(points, (0.25, 0.75))
    return float(high - low)


def warn_of_scale(
    panel: PanelContent,
    values: Array,
    *,
    rescaled: bool = False,
    log2_taken: bool = False,
    negative: float = 0.0,
    names_options: bool = True,
) -> Iterator[str]:
    """Yield a warning if new values have another scale than the training values, with the remedy.

    `rescaled`: scores were computed within the new samples. `log2_taken`: logarithms of the new values were taken,
    because they were taken in training. `negative`: fraction of the values that were negative before. `names_options`:
    the remedy is an option of `randsel apply`; otherwise, it is what to do in Python.
    """
    if log2_taken and negative > MAX_NEGATIVE:
        remedy = "--transform none leaves them as they are" if names_options else "pass 2 to the power of the values"
        yield (
            f"{negative:.0%} of the new values are negative, and have no logarithm, which training took: if they are "
            f"logarithms already, {remedy}."
        )
        return
    transform = find_transform(panel, values)
    if transform is not None:
        _, inverse, words = TRANSFORMS[transform]
        if log2_taken and transform == "log2" and names_options:  # logarithms were taken twice
            inverse = "none"
        remedy = f"--transform {inverse} undoes that" if names_options else f"apply {inverse} to them first"
        yield f"The new values look like {words} of the training values; {remedy}."
        return
    shifts = compare_features(panel, values)
    smallest_reported = max(SHIFTED, SIGNIFICANT * MEDIAN_ERROR / np.sqrt(len(values)))
    shifted = [s for s in shifts if abs(s.shift) > smallest_reported]
    if shifted and len(values) >= MIN_SAMPLES:
        shifted.sort(key=lambda s: -abs(s.shift))
        named = list_first([f"{s.name} ({s.shift:+.1f})" for s in shifted], NAMED)
        option = "--rescale" if names_options else "rescale=True"
        remedy = f" If they were measured on another platform, {option} uses ranks within the new samples instead."
        yield (
            f"The medians of {len(shifted)} of {len(shifts)} features differ from the training medians by more "
            f"than {SHIFTED:g} standard deviation: {named}.{'' if rescaled else remedy}"
        )


def warn_of_shifts(
    panel: PanelContent,
    values: Array,
    *,
    rescaled: bool = False,
    log2_taken: bool = False,
    negative: float = 0.0,
    ids: Sequence[str] = (),
) -> Iterator[str]:
    """Yield warnings about new values that differ from the training values, with remedies; see `warn_of_scale`.

    `ids` are the names of the samples.
    """
    yield from _warn_of_training_samples(panel, values, ids)
    yield from warn_of_scale(panel, values, rescaled=rescaled, log2_taken=log2_taken, negative=negative)
    shifts = compare_features(panel, values)
    compared = zip(shifts, panel.preparation.points, values.T, strict=True)
    outside = [shift for shift, points, column in compared if _is_outside(column, points, len(shifts))]
    if outside and not rescaled:
        outside.sort(key=lambda s: -s.outside)
        named = list_first([f"{s.name} ({s.outside:.0%})" for s in outside], NAMED)
        yield (
            f"New values of {len(outside)} of {len(shifts)} features lie outside the training range and are set to its "
            f"nearest end: {named}."
        )
    columns = zip(panel.features_, panel.preparation.points, values.T, strict=True)
    constant = [name for name, points, column in columns if _is_constant(points, column)]
    if constant:
        yield (
            f"All new samples have the same value of {list_first(constant, NAMED)}, which varied in training; is the "
            "column complete, and in the right place?"
        )
    empty = [s.name for s in shifts if 0 < s.n_missing < len(values) and s.n_missing > len(values) / 2]
    if empty:
        yield f"More than half of the values of {list_first(empty, NAMED)} are missing; they are treated as average."


def warn_of_absent(values: Array) -> Iterator[str]:
    """Yield a warning if many features of the panel have no values in the new samples."""
    n_absent, n_features = int(np.isnan(values).all(axis=0).sum()), values.shape[1]
    if n_absent == n_features:
        yield "No feature of the panel has values; predictions depend on stand-ins, if there are any."
    elif n_absent > MANY_ABSENT * n_features:
        yield (
            f"{n_absent} of {n_features} features of the panel {pluralise(n_absent, 'has', 'have')} no values; "
            "predictions depend on the others, and on stand-ins if there are any."
        )


def _is_outside(column: Array, points: Array, n_features: int) -> bool:
    """Return whether new values of a feature lie far outside the training range, or more often than by chance."""
    observed = column[~np.isnan(column)]
    distances = _distances_outside(observed, points)
    n_outside = int((distances > 0).sum())
    if n_outside <= OUTSIDE * len(observed):
        return False
    is_far = bool(distances.max() > points[-1] - points[0])
    return is_far or n_features * chance_of_outside(n_outside, len(observed), len(points)) < UNLIKELY


def chance_of_outside(n_outside: int, n: int, m: int) -> float:
    """Return the probability that at least `n_outside` of n values lie outside the range of m others of the same kind.

    Of the C(n + m, m) equally likely orders, (k + 1) C(n + m - k - 2, m - 2) have k values outside. With ties, values
    outside are rarer.
    """
    if m < 2:
        return 1.0
    k = np.arange(n_outside, n + 1)
    orders = np.log(k + 1.0) + _log_choose(n + m - k - 2, m - 2) - _log_choose(n + m, m)
    return float(np.exp(orders).sum())


def _log_choose(n: Any, k: Any) -> Any:
    return gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)


def are_training_samples(panel: PanelContent, values: Array) -> bool:
    """Return whether nearly all values of new samples are those of training samples; see `_find_repeated`."""
    known, occurs = _find_repeated(panel, values)
    return bool(known.sum() >= MIN_SAMPLES and occurs[known].mean() > MIN_REPEATED)


def _find_repeated(panel: PanelContent, values: Array) -> tuple[Array, Array]:
    """Return masks of the observed values and of those that occur in training, a column per compared feature.

    Only features are compared whose training values are nearly all distinct.
    """
    columns = zip(panel.preparation.points, values.T, strict=True)
    distinct = [(points, column) for points, column in columns if len(np.unique(points)) > MIN_DISTINCT * len(points)]
    if not distinct:
        return np.zeros((len(values), 0), dtype=bool), np.zeros((len(values), 0), dtype=bool)
    known = ~np.isnan(np.column_stack([column for _, column in distinct]))
    return known, np.column_stack([np.isin(column, points) for points, column in distinct])


def _warn_of_training_samples(panel: PanelContent, values: Array, ids: Sequence[str]) -> Iterator[str]:
    """Yield a warning if all new samples, or some of them, are training samples.

    A new sample counts as a training sample if all of its observed values occur in training, and there are so many of
    them that chance does not explain it.
    """
    known, occurs = _find_repeated(panel, values)
    reason = "says nothing about other samples; the accuracy that randsel select measures (--folds) does."
    if are_training_samples(panel, values):
        yield f"The new values are those of training samples: how well these are predicted {reason}"
        return
    is_certain = len(values) * CHANCE_OF_REPEAT ** known.sum(axis=1) < EXPECTED_BY_CHANCE
    repeated = np.flatnonzero(is_certain & (occurs | ~known).all(axis=1))
    if len(repeated):
        named = list_first([ids[i] if len(ids) else f"row {i + 1}" for i in repeated.tolist()], NAMED)
        samples = pluralise(len(repeated), "1 new sample has", f"{len(repeated)} new samples have")
        yield (
            f"{samples} the values of training samples: {named}. How well training samples are predicted {reason} "
            "Leave them out before you compare predictions with the outcome."
        )


def _is_constant(points: Array, column: Array) -> bool:
    """Return whether all new values are equal, although that would be unlikely for as many training samples."""
    observed = column[~np.isnan(column)]
    if len(observed) < MIN_SAMPLES or (observed != observed[0]).any():
        return False
    most_frequent = np.unique(points, return_counts=True)[1].max() / len(points)
    return bool(most_frequent ** len(observed) < UNLIKELY)


def check_categories(panel: PanelContent, table: Table) -> None:
    """Raise ValueError if codes of categories are not those of training.

    The reader encodes named categories by the levels of the panel. Formats without names hold the codes themselves.
    """
    for feature, points in zip(panel.features, panel.preparation.points, strict=True):
        if feature.levels is None or feature.name not in table.names:
            continue
        if table.levels.get(feature.name, ()) != feature.levels:
            raise ValueError(
                f"{feature.name!r} has names of categories in only one of the training file and this file; write both "
                "as text (.csv, .xlsx or .parquet)."
            )
        column = table.X[:, table.names.index(feature.name)]
        unknown = np.setdiff1d(column[~np.isnan(column)], points)
        if not feature.levels and len(points) < MAX_POINTS and len(unknown):
            raise ValueError(
                f"{feature.name!r} holds {unknown[0]:g}, which is not one of the categories of training; write "
                "categories as the same numbers in both files."
            )


@np.errstate(all="ignore")
def find_transform(panel: PanelContent, values: Array) -> str | None:
    """Return the transform of the training values that the new values look like; None if there is none."""
    if len(values) < MIN_SAMPLES:
        return None
    training_quantiles, new_quantiles = [], []
    for feature, points, column in zip(panel.features, panel.preparation.points, values.T, strict=True):
        observed = column[~np.isnan(column)]
        is_number = (
            feature.levels is None and _interquartile_range(points) > 0.0 and len(np.unique(points)) > len(LEVELS)
        )
        if is_number and len(observed) >= MIN_SAMPLES:
            training_quantiles.append(np.quantile(points, LEVELS))
            new_quantiles.append(np.quantile(observed, LEVELS))
    if not training_quantiles:
        return None
    training, new = np.array(training_quantiles), np.array(new_quantiles)
    distance = _distance(training, new)
    candidates = {name: _distance(function(training), new) for name, (function, *_) in TRANSFORMS.items()}
    best = min(candidates, key=lambda name: candidates[name])
    is_better = distance > FAR_DISTANCE and candidates[best] < min(CLOSE_DISTANCE, MAX_DISTANCE_RATIO * distance)
    return best if is_better else None


def _distance(expected: Array, new: Array) -> float:
    """Return the median distance of quantiles, each feature in units of the smaller spread; infinite if not defined."""
    if not np.isfinite(expected).all():
        return np.inf
    spreads = np.minimum(expected[:, 3] - expected[:, 1], new[:, 3] - new[:, 1]) / NORMAL_IQR
    return float(np.median(np.abs(expected - new) / np.maximum(spreads, 1e-12)[:, None]))
