"""How well predictions agree with a known outcome: measures with confidence intervals, and a calibration table."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm, rankdata, spearmanr

from randsel._utils.text import format_label
from randsel._utils.typing import Array
from randsel.analysis import auc_limits
from randsel.panels._intervals import CONFIDENCE, mean_recall_interval, r2_interval, wilson_interval
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
    """Agreement of predictions with the outcome of `n_samples` samples."""

    n_samples: int
    measures: tuple[Measure, ...]
    calibration: tuple[CalibrationBin, ...] = ()
    confusion: Array | None = None  # rows: observed classes, columns: predicted classes


def evaluate(panel: Panel, outputs: Array, y: Array, groups: Array | None = None) -> Evaluation:
    """Compare outputs of the model with the outcome of the same samples, which must be known for all of them.

    The intervals of balanced accuracy and of R² allow for groups; the others treat samples as independent.
    """
    if panel.classes is not None:
        return _evaluate_classes(panel, outputs, y, groups)
    predicted = outputs[:, 0]
    if panel.is_survival:
        return Evaluation(len(y), tuple(_survival_measures(predicted, y)))
    y = y.astype(np.float64)
    return Evaluation(len(y), tuple(_number_measures(predicted, y, groups)), tuple(_bins(predicted, y, "")))


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
    measures = [Measure("accuracy", *_fraction_with_interval(int((codes == predicted).sum()), len(codes)))]
    sizes = confusion.sum(axis=1)
    present = np.flatnonzero(sizes)
    recalls = confusion[present, present] / sizes[present]
    interval = mean_recall_interval(codes, codes == predicted, groups)
    measures.append(Measure("balanced accuracy", float(recalls.mean()), *interval))
    measures += [
        Measure(f"recall of {names[k]}", *_fraction_with_interval(int(confusion[k, k]), int(sizes[k])))
        for k in present.tolist()
    ]
    positive_classes = [1] if len(labels) == 2 else range(len(labels))
    for k in positive_classes:
        if 0 < sizes[k] < len(codes):
            measures.append(Measure(f"AUC of {names[k]}", *auc_with_interval(probabilities[:, k], codes == k)))
    measures.append(_brier_score(probabilities, codes))
    bins: list[CalibrationBin] = []
    for k in positive_classes:
        bins += _bins(probabilities[:, k], (codes == k).astype(np.float64), labels[k])
    return Evaluation(len(codes), tuple(measures), tuple(bins), confusion)


def _brier_score(probabilities: Array, codes: Array) -> Measure:
    """Return the mean squared error of the probabilities: of one class if there are two, else summed over classes."""
    squares = np.square(probabilities - np.eye(probabilities.shape[1])[codes])
    if probabilities.shape[1] == 2:
        return Measure("Brier score", float(squares[:, 1].mean()))
    return Measure("Brier score, summed over classes", float(squares.sum(axis=1).mean()))


def _fraction_with_interval(count: int, total: int) -> tuple[float, float, float]:
    """Return a fraction with Wilson's confidence interval."""
    low, high = wilson_interval(np.array([count / total]), np.array([total]))
    return count / total, float(low[0]), float(high[0])


def auc_with_interval(scores: Array, positive: Array) -> tuple[float, float, float]:
    """Return the area under the ROC curve with Newcombe's score interval, which also holds for an area of 0 or 1."""
    n_positive, n_negative = float(positive.sum()), float((~positive).sum())
    ranks = rankdata(np.round(scores, DECIMALS))
    area = (ranks[positive].sum() - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative)
    counts = np.array([n_positive]), np.array([n_negative])
    low, high = auc_limits(np.array([area]), *counts, 1.0 - CONFIDENCE)
    return float(area), float(low[0]), float(high[0])


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
        r = float(np.corrcoef(predicted, y)[0, 1])
        half = float(norm.ppf(0.5 + CONFIDENCE / 2)) / np.sqrt(len(y) - 3)
        z = np.arctanh(np.clip(r, -1 + 1e-12, 1 - 1e-12))
        yield Measure("correlation", r, float(np.tanh(z - half)), float(np.tanh(z + half)))
        yield Measure("rank correlation", float(spearmanr(predicted, y).statistic))
        yield Measure("slope of observed on predicted", float(np.polyfit(predicted, y, 1)[0]))
    yield Measure("mean absolute error", float(np.abs(predicted - y).mean()))


def _survival_measures(risks: Array, y: Array) -> Iterator[Measure]:
    yield Measure(SURVIVAL.score_name, *concordance_with_interval(y["time"], y["event"], risks))


def concordance_with_interval(time: Array, event: Array, risks: Array) -> tuple[float, float, float]:
    """Return Harrell's concordance index with a confidence interval; NaN if no pair is comparable.

    With a_i the number of concordant and b_i of comparable pairs of sample i, the index is `C = Σ a_i / Σ b_i` and the
    variance of this U-statistic about `4 Σ (a_i - C b_i)² / (Σ b_i)²`.
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
    half = float(norm.ppf(0.5 + CONFIDENCE / 2) * 2.0 * np.sqrt(((a - index * b) ** 2).sum()) / b.sum())
    return index, max(index - half, 0.0), min(index + half, 1.0)
