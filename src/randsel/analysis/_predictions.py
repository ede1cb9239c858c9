"""Predictions of held-out samples, by which a selection is scored."""

import numpy as np

from randsel._utils.typing import Array
from randsel.tables import Table
from randsel.targets import OutcomeKind


def score_svm(table: Table, kind: OutcomeKind, train: Array, test: Array, columns: Array) -> float:
    """Return the test score of a Gaussian support vector machine; the score of guessing if there are no columns."""
    return score_predictions(table, kind, test, predict_by_svm(table, kind, train, test, columns))


def score_predictions(table: Table, kind: OutcomeKind, test: Array, predicted: Array | None) -> float:
    """Return the score of predictions of test samples; the score of guessing if there are none."""
    return kind.chance_score(table.y) if predicted is None else kind.score(table.y[test], predicted)


def predict_by_svm(table: Table, kind: OutcomeKind, train: Array, test: Array, columns: Array) -> Array | None:
    """Return the predictions of a Gaussian support vector machine for test samples; None if there are no columns."""
    if not len(columns):
        return None
    # class weights, because all classes count the same in balanced accuracy
    options = {"class_weight": "balanced"} if kind.has_classes else {}
    return kind.predict_held_out(table.X, table.y, train, test, columns, "median", **options)


def split_by_risk(results: list[dict[str, Array]], tests: list[Array], n_samples: int) -> Array:
    """Return 1 for held-out samples whose predicted risk is above the median of their fold, 0 for others.

    Samples of folds without predictions get NaN.
    """
    high_risk = np.full(n_samples, np.nan)
    for result, test in zip(results, tests, strict=True):
        # models of different folds have different scales, so each fold is split at its own median
        if len(result.get("risks", ())) == len(test) and np.ptp(result["risks"]) > 0.0:
            high_risk[test] = result["risks"] > np.median(result["risks"])
    return high_risk
