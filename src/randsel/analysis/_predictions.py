"""Predictions of held-out samples by the model of a panel, by which a selection is scored."""

import numpy as np

from randsel._utils.typing import Array
from randsel.analysis._model import HeldOut
from randsel.prediction import ColumnModel, predict_from_outputs
from randsel.tables import Table
from randsel.targets import OutcomeKind


def predict_outputs(table: Table, kind: OutcomeKind, train: Array, test: Array, columns: Array) -> Array:
    """Return the outputs for test samples of the model on some columns; no rows if there are no columns."""
    if not len(columns):
        return np.zeros((0, len(np.unique(table.y)) if kind.has_classes else 1))
    return ColumnModel.fit(table, kind, columns, train).outputs(table, test)


def score_outputs(table: Table, kind: OutcomeKind, test: Array, outputs: Array) -> float:
    """Return the score of the predictions for test samples; the score of guessing if there are no outputs."""
    if not len(outputs):
        return kind.chance_score(table.y)
    classes = np.unique(table.y) if kind.has_classes else None
    return kind.score(table.y[test], predict_from_outputs(outputs, classes))


def collect_predictions(
    results: list[dict[str, Array]], folds: list[tuple[Array, Array]], y: Array, kind: OutcomeKind
) -> HeldOut:
    """Return the predictions of all folds, sample by sample; classes become their numbers."""
    n_outputs = len(np.unique(y)) if kind.has_classes else 1
    fold, predicted, score = np.full(len(y), -1), np.full(len(y), np.nan), np.full(len(y), np.nan)
    calibrating = np.full((len(y), n_outputs), np.nan)
    for number, (result, (train, test)) in enumerate(zip(results, folds, strict=True)):
        outputs = result["outputs"]
        if kind.has_classes and len(np.unique(y[train])) == n_outputs:
            # without features, no class is more likely than its frequency
            calibrating[test] = outputs if len(outputs) else 1.0 / n_outputs
        if len(outputs) == len(test):
            fold[test] = number
            predicted[test] = predict_from_outputs(outputs, np.arange(n_outputs) if kind.has_classes else None)
            if n_outputs <= 2:
                score[test] = outputs[:, -1]
    return HeldOut(fold, predicted, score, calibrating if kind.has_classes else None)


def split_by_risk(held_out: HeldOut) -> Array:
    """Return 1 for held-out samples whose predicted risk is above the median of their fold, 0 for others.

    Samples of folds without predictions get NaN.
    """
    high_risk = np.full(len(held_out.fold), np.nan)
    for number in range(int(held_out.fold.max()) + 1):
        # models of different folds have different scales, so each fold is split at its own median
        rows = held_out.fold == number
        risks = held_out.predicted[rows]
        if len(risks) and np.ptp(risks) > 0.0:
            high_risk[rows] = risks > np.median(risks)
    return high_risk
