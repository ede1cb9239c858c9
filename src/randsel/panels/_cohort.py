"""Comparison of new values with the training values of a panel: range, shift, and transforms such as a logarithm."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from randsel._utils.text import list_first
from randsel._utils.typing import Array
from randsel.panels._panel import Panel
from randsel.tables import LOWEST

#: Name -> function, name of the inverse, and what the values are called. `--transform` takes the names.
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
SHIFTED = 1.0  # shift of a median, in training standard deviations, that is reported
SIGNIFICANT = 4.0  # standard errors of the new median that a shift must exceed
OUTSIDE = 0.1  # fraction of values outside the training range that is reported
#: A transform is suggested if it brings quantiles closer than `CLOSER` times their distance now, and below `CLOSE`.
FAR, CLOSE, CLOSER = 2.0, 1.0, 0.25
NORMAL_IQR = 1.349  # interquartile range of the standard normal distribution
MANY_ABSENT = 0.25  # fraction of absent features that is reported
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
        Difference of the medians in training standard deviations (estimated by the interquartile range).
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
    """Return transformed values; "log2" is taken by the reader, as are logarithms as in training.

    Logarithms are of values raised to at least `LOWEST`, as in reading. Raises ValueError if a power is too large.
    """
    if name in ("as-training", "none", "log2"):
        return values
    raised = np.maximum(values, LOWEST) if name in ("ln", "log10") else values
    transformed = np.asarray(TRANSFORMS[name][0](raised.astype(np.float64)))
    if np.isinf(transformed).any():
        raise ValueError(f"--transform {name} makes values that are too large; are they logarithms?")
    return transformed


def compare_features(panel: Panel, values: Array) -> tuple[FeatureShift, ...]:
    """Compare the new values of each feature, columns of `values`, with the training values."""
    return tuple(
        _compare(name, points, column)
        for name, points, column in zip(panel.features_, panel.preparation.points, values.T, strict=True)
    )


def _compare(name: str, points: Array, column: Array) -> FeatureShift:
    observed, median = column[~np.isnan(column)], float(np.median(points))
    if not len(observed):
        return FeatureShift(name, median, np.nan, np.nan, np.nan, len(column))
    new_median, spread = float(np.median(observed)), _spread(points)
    shift = (new_median - median) / spread if spread > 0.0 else np.nan
    outside = float(((observed < points[0]) | (observed > points[-1])).mean())
    return FeatureShift(name, median, new_median, shift, outside, len(column) - len(observed))


def _spread(points: Array) -> float:
    low, high = np.quantile(points, (0.25, 0.75))
    return float(high - low) / NORMAL_IQR


def warn_of_shifts(panel: Panel, values: Array, *, rescaled: bool = False, log2_taken: bool = False) -> Iterator[str]:
    """Yield warnings about new values that do not look like training values, with what may help.

    `log2_taken` says that logarithms of the new values were taken because they were taken in training.
    """
    shifts = compare_features(panel, values)
    remedy = (
        ""
        if rescaled
        else " If this is another platform, --rescale takes ranks within the new samples instead of these values."
    )
    transform = find_transform(panel, values)
    if transform is not None:
        _, inverse, words = TRANSFORMS[transform]
        if log2_taken and transform == "log2":  # logarithms were taken twice
            inverse = "none"
        yield f"The new values look like {words} of the training values; --transform {inverse} undoes that."
    elif len(values) >= MIN_SAMPLES:
        n_standard_errors = SIGNIFICANT * 1.25 / np.sqrt(len(values))
        moved = [s for s in shifts if abs(s.shift) > max(SHIFTED, n_standard_errors)]
        if moved:
            moved.sort(key=lambda s: -abs(s.shift))
            named = list_first([f"{s.name} ({s.shift:+.1f})" for s in moved], NAMED)
            yield (
                f"The medians of {len(moved)} of {len(shifts)} features are more than {SHIFTED:g} training standard "
                f"deviation from those of training: {named}.{remedy}"
            )
    outside = [s for s in shifts if s.outside > OUTSIDE]
    if outside and not rescaled:
        outside.sort(key=lambda s: -s.outside)
        named = list_first([f"{s.name} ({s.outside:.0%})" for s in outside], NAMED)
        yield (
            f"New values of {len(outside)} of {len(shifts)} features lie outside the training range and count as its "
            f"end: {named}."
        )
    absent = np.isnan(values).all(axis=0).sum()
    if absent > MANY_ABSENT * len(shifts):
        yield f"{absent} of {len(shifts)} features of the panel have no values; predictions rest on the others."
    empty = [s.name for s in shifts if 0 < s.n_missing < len(values) and s.n_missing > len(values) / 2]
    if empty:
        yield f"More than half of the values are missing in {list_first(empty, NAMED)}; they count as average."


def check_categories(panel: Panel, values: Array) -> None:
    """Raise ValueError if a categorical feature has another number of categories than in training.

    Readers number the categories of a file in the order of their names, so that a missing one changes the others.
    """
    for name, points, column in zip(panel.features_, panel.preparation.points, values.T, strict=True):
        n_before, n_now = len(np.unique(points)), len(np.unique(column[~np.isnan(column)]))
        if name in panel.about["categorical"] and n_now and n_before != n_now:
            raise ValueError(
                f"{name!r} has {n_now} categories here and {n_before} in training, so that their numbers, which follow "
                "the order of their names, do not agree; write the categories as the same numbers in both files."
            )


@np.errstate(all="ignore")
def find_transform(panel: Panel, values: Array) -> str | None:
    """Return the transform of the training values that the new values look like; None if they look like neither."""
    if len(values) < MIN_SAMPLES:
        return None
    before, after = [], []
    for points, column in zip(panel.preparation.points, values.T, strict=True):
        observed = column[~np.isnan(column)]
        if len(observed) >= MIN_SAMPLES and _spread(points) > 0.0 and len(np.unique(points)) > len(LEVELS):
            before.append(np.quantile(points, LEVELS))
            after.append(np.quantile(observed, LEVELS))
    if not before:
        return None
    training, new = np.array(before), np.array(after)
    distance = _distance(training, new)
    candidates = {name: _distance(function(training), new) for name, (function, *_) in TRANSFORMS.items()}
    best = min(candidates, key=lambda name: candidates[name])
    is_better = distance > FAR and candidates[best] < min(CLOSE, CLOSER * distance)
    return best if is_better else None


def _distance(expected: Array, new: Array) -> float:
    """Return the median distance of quantiles, each feature in units of the smaller spread; infinite if not defined."""
    if not np.isfinite(expected).all():
        return np.inf
    spreads = np.minimum(expected[:, 3] - expected[:, 1], new[:, 3] - new[:, 1]) / NORMAL_IQR
    return float(np.median(np.abs(expected - new) / np.maximum(spreads, 1e-12)[:, None]))
