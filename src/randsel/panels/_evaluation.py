"""How well predictions agree with a known outcome: measures with confidence intervals, and a calibration table."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata, spearmanr

from randsel._utils.text import format_label
from randsel._utils.typing import Array
from randsel.analysis import auc_limits, auc_variance
from randsel.panels._intervals import CONFIDENCE, Z, effective_sizes, mean_recall_interval, r2_interval
from randsel.panels._panel import Panel
from randsel.targets import KINDS, SURVIVAL

MAX_BINS = 5  # of the calibration table
MIN_PER_BIN = 5  # samples
PAIRS_AT_A_TIME = 1 << 22  # pairs of samples that the concordance index compares
DECIMALS = 10  # predictions that agree to so many decimals are ties: rounding errors differ between equal samples


@dataclass(frozen=True)
class Measure:
    """A measure of agreement, with the limits of its 95 % confidence interval (NaN: not known)."""

    name: str
    value: float
    low: float = float("nan")
    high: float = float("nan")


@dataclass(frozen=True)
class CalibrationBin:
    """Samples of similar predictions: their number, the mean prediction, and the mean of what was observed."""

    label: str
    n_samples: int
    predicted: float
    observed: float


@dataclass(frozen=True)
class Evaluation:
    """Agreement of predictions with the outcome of `n_samples` samples; `chance` is the main measure if one guesses."""

    n_samples: int
    measures: tuple[Measure, ...]
    chance: float
    calibration: tuple[CalibrationBin, ...] = ()
    confusion: Array | None = None  # rows: observed classes, columns: predicted classes


def evaluate(panel: Panel, outputs: Array, y: Array, groups: Array | None = None) -> Evaluation:
    """Compare outputs of the model with the outcome of the same samples, which must be known for all of them.

    Intervals allow for groups of samples that are not independent.
    """
    if panel.classes is not None:
        return _evaluate_classes(panel, outputs, y, groups)
    predicted = outputs[:, 0]
    if panel.is_survival:
        concordance = concordance_with_interval(y["time"], y["event"], predicted, groups)
        return Evaluation(len(y), (Measure(SURVIVAL.score_name, *concordance),), SURVIVAL.chance_score(y))
    y = y.astype(np.float64)
    measures, chance = tuple(_number_measures(predicted, y, groups)), KINDS["regression"].chance_score(y)
    return Evaluation(len(y), measures, chance, tuple(_bins(predicted, y, "")))


def known_outcome(panel: Panel, y: Array) -> Array:
    """Return a mask of the samples whose outcome is known; raise ValueError if it is of another kind."""
    if panel.is_survival:
        return np.isfinite(y["time"]) if y.dtype.names else np.zeros(len(y), dtype=bool)
    if panel.classes is None:
        if y.dtype.kind not in "fiub":
            raise ValueError("the panel predicts numbers, but the outcome of the new samples is text; correct it.")
        return np.isfinite(y.astype(np.float64))
    known: Array = y != "" if y.dtype.kind == "U" else np.isfinite(y.astype(np.float64))
    labels = {format_label(label) for label in panel.classes.tolist()}
    others = sorted({format_label(label) for label in y[known].tolist()} - labels)
    if others:
        expected = ", ".join(sorted(labels)[:5])
        raise ValueError(f"the outcome holds {others[0]!r}, which is not a class of the panel ({expected}); rename it.")
    return known


# ---------------------------------------------------------------- classes


def _evaluate_classes(panel: Panel, outputs: Array, y: Array, groups: Array | None) -> Evaluation:
    probabilities, predicted = panel.probabilities(outputs), outputs.argmax(axis=1)
    labels = [format_label(label) for label in panel.classes_.tolist()]
    codes = np.array([labels.index(format_label(label)) for label in y.tolist()])
    names = panel.class_names
    confusion = np.zeros((len(labels), len(labels)), dtype=int)
    np.add.at(confusion, (codes, predicted), 1)
    is_right = codes == predicted
    measures = [Measure("accuracy", *_fraction_with_interval(is_right, groups))]
    sizes = confusion.sum(axis=1)
    present = np.flatnonzero(sizes)
    recalls = confusion[present, present] / sizes[present]
    interval = mean_recall_interval(codes, is_right, groups)
    measures.append(Measure("balanced accuracy", float(recalls.mean()), *interval))
    for k in present.tolist():
        rows = codes == k
        recall = _fraction_with_interval(is_right[rows], None if groups is None else groups[rows])
        measures.append(Measure(f"recall of {names[k]}", *recall))
    positive_classes = [1] if len(labels) == 2 else range(len(labels))
    for k in positive_classes:
        if 0 < sizes[k] < len(codes):
            area = auc_with_interval(probabilities[:, k], codes == k, groups)
            measures.append(Measure(f"AUC of {names[k]}", *area))
    measures.append(_brier_score(probabilities, codes))
    bins: list[CalibrationBin] = []
    for k in positive_classes:
        bins += _bins(probabilities[:, k], (codes == k).astype(np.float64), labels[k])
    return Evaluation(len(codes), tuple(measures), KINDS["classification"].chance_score(y), tuple(bins), confusion)


def _brier_score(probabilities: Array, codes: Array) -> Measure:
    """Return the mean squared error of the probabilities: of one class if there are two, else summed over classes."""
    squares = np.square(probabilities - np.eye(probabilities.shape[1])[codes])
    if probabilities.shape[1] == 2:
        return Measure("Brier score", float(squares[:, 1].mean()))
    return Measure("Brier score, summed over classes", float(squares.sum(axis=1).mean()))


def _fraction_with_interval(is_right: Array, groups: Array | None) -> tuple[float, float, float]:
    """Return a fraction with Wilson's confidence interval."""
    return float(is_right.mean()), *mean_recall_interval(np.zeros(len(is_right)), is_right, groups)


def auc_with_interval(scores: Array, positive: Array, groups: Array | None = None) -> tuple[float, float, float]:
    """Return the area under the ROC curve with Newcombe's score interval, which also holds for an area of 0 or 1.

    The interval allows for groups of samples that are not independent.
    """
    scores = np.round(scores, DECIMALS)

    def area_of(rows: Array) -> float:
        ranks, n_positive = rankdata(scores[rows]), float(positive[rows].sum())
        excess = ranks[positive[rows]].sum() - n_positive * (n_positive + 1) / 2
        return float(np.divide(excess, n_positive * (len(ranks) - n_positive)))

    with np.errstate(invalid="ignore"):
        area = area_of(np.ones(len(scores), dtype=bool))
        sizes = np.array([(~positive).sum(), positive.sum()], dtype=np.float64)
        sizes = effective_sizes(sizes, area_of, float(auc_variance(np.array(area), *sizes)), positive, groups)
    if np.isnan(sizes).any():
        return area, float("nan"), float("nan")
    low, high = auc_limits(np.array([area]), sizes[1:], sizes[:1], 1.0 - CONFIDENCE)
    return area, float(low[0]), float(high[0])


def _bins(predicted: Array, observed: Array, label: str) -> Iterator[CalibrationBin]:
    """Bin samples by their prediction, about equally many in each bin; equal predictions stay in one bin."""
    n_bins = int(np.clip(len(predicted) // MIN_PER_BIN, 1, MAX_BINS))
    numbers = ((rankdata(predicted, method="min") - 1) * n_bins // max(len(predicted), 1)).astype(int)
    for number in np.unique(numbers).tolist():
        rows = numbers == number
        yield CalibrationBin(label, int(rows.sum()), float(predicted[rows].mean()), float(observed[rows].mean()))


# ---------------------------------------------------------------- numbers and survival


def _number_measures(predicted: Array, y: Array, groups: Array | None) -> Iterator[Measure]:
    yield Measure("R²", KINDS["regression"].score(y, predicted), *r2_interval(predicted, y, groups))
    varies = len(y) > 3 and np.ptp(y) > 0.0 and np.ptp(predicted) > 0.0
    if varies:
        yield Measure("correlation", *_correlation_with_interval(predicted, y, groups))
        yield Measure("rank correlation", float(spearmanr(predicted, y).statistic))
        yield Measure("slope of observed on predicted", float(np.polyfit(predicted, y, 1)[0]))
    yield Measure("mean absolute error", float(np.abs(predicted - y).mean()))


def _correlation_with_interval(predicted: Array, y: Array, groups: Array | None) -> tuple[float, float, float]:
    """Return Pearson's correlation with the interval of Fisher's transformation."""

    def transformed(rows: Array) -> float:
        r = np.corrcoef(predicted[rows], y[rows])[0, 1]
        return float(np.arctanh(np.clip(r, -1 + 1e-12, 1 - 1e-12)))

    size = np.array([len(y) - 3.0])
    with np.errstate(divide="ignore", invalid="ignore"):
        z = transformed(np.ones(len(y), dtype=bool))
        half = Z / np.sqrt(effective_sizes(size, transformed, 1.0 / size.item(), np.zeros(len(y)), groups).item())
    return float(np.corrcoef(predicted, y)[0, 1]), float(np.tanh(z - half)), float(np.tanh(z + half))


def concordance_with_interval(
    time: Array, event: Array, risks: Array, groups: Array | None = None
) -> tuple[float, float, float]:
    """Return Harrell's concordance index with a confidence interval; NaN if no pair is comparable, or if all agree.

    With a_i the number of concordant and b_i of comparable pairs of sample i, the index is `C = Σ a_i / Σ b_i` and the
    variance of this U-statistic about `Σ e_i²` with the influence of a sample `e_i = 2 (a_i - C b_i) / Σ b_i`.
    """
    risks = np.round(risks, DECIMALS)
    a, b = np.zeros(len(time)), np.zeros(len(time))
    for rows in np.array_split(np.flatnonzero(event), len(time) * len(time) // PAIRS_AT_A_TIME + 1):
        comparable = (time[rows, None] < time) | ((time[rows, None] == time) & ~event)
        concordant = comparable & (risks[rows, None] > risks)
        halves = comparable & (risks[rows, None] == risks)
        b += np.count_nonzero(comparable, axis=0)
        b[rows] += np.count_nonzero(comparable, axis=1)
        a += np.count_nonzero(concordant, axis=0) + 0.5 * np.count_nonzero(halves, axis=0)
        a[rows] += np.count_nonzero(concordant, axis=1) + 0.5 * np.count_nonzero(halves, axis=1)
    if not b.sum():
        return float("nan"), float("nan"), float("nan")
    index = float(a.sum() / b.sum())
    influence = 2.0 * (a - index * b) / b.sum()
    independent = float(np.square(influence).sum())

    def linearised(rows: Array) -> float:
        return len(rows) * float(influence[rows].mean())

    size = effective_sizes(np.ones(1), linearised, independent, np.zeros(len(time)), groups).item()
    half = Z * (independent / size) ** 0.5 if independent > 0.0 else float("nan")
    return index, float(np.maximum(index - half, 0.0)), float(np.minimum(index + half, 1.0))
