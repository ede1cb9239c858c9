"""Predictions of held-out samples, by which a selection is scored."""

from typing import NamedTuple

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.preprocessing import StandardScaler

from randsel._numerics.kernels import bandwidth, squared_distances
from randsel._numerics.missing import impute_means
from randsel._utils.jobs import generator
from randsel._utils.typing import Array
from randsel.analysis._model import HeldOut
from randsel.tables import Table
from randsel.targets import OutcomeKind

#: Training samples above which the time of a support vector machine, quadratic in their number, is too long.
MANY_ROWS = 2000
#: Landmarks of the kernel, and penalty. The time is linear in the samples; accuracy may be a few hundredths lower.
N_LANDMARKS, RIDGE = 400, 0.1


class Predictions(NamedTuple):
    """Predictions of test samples, and their scores, see `HeldOut`; both empty if there are no features."""

    predicted: Array
    scores: Array


def score_model(table: Table, kind: OutcomeKind, train: Array, test: Array, columns: Array) -> float:
    """Return the test score of a model on some columns; the score of guessing if there are no columns."""
    return score_predictions(table, kind, test, predict(table, kind, train, test, columns))


def score_predictions(table: Table, kind: OutcomeKind, test: Array, predictions: Predictions) -> float:
    """Return the score of predictions of test samples; the score of guessing if there are none."""
    if not len(predictions.predicted):
        return kind.chance_score(table.y)
    return kind.score(table.y[test], predictions.predicted)


def predict(table: Table, kind: OutcomeKind, train: Array, test: Array, columns: Array) -> Predictions:
    """Return the predictions of a model on some columns for test samples; none if there are no columns.

    The model is a Gaussian support vector machine; for more than `MANY_ROWS` training samples, `predict_by_landmarks`.
    """
    if not len(columns):
        return Predictions(np.zeros(0), np.zeros(0))
    if len(train) > MANY_ROWS:
        return predict_by_landmarks(table, kind, train, test, columns)
    # class weights, because all classes count the same in balanced accuracy
    options = {"class_weight": "balanced"} if kind.has_classes else {}
    return Predictions(*kind.score_held_out(table.X, table.y, train, test, columns, "median", **options))


def predict_by_landmarks(table: Table, kind: OutcomeKind, train: Array, test: Array, columns: Array) -> Predictions:
    """Return the predictions of ridge regression on a Gaussian kernel with landmarks, in time linear in the samples."""
    X = impute_means(np.take(table.X, columns, axis=1), train)
    scaler = StandardScaler().fit(X[train])
    Z = scaler.transform(X[train])
    sampled = generator(0).choice(len(Z), MANY_ROWS, replace=False)
    gamma = bandwidth("median", squared_distances(Z[sampled]))
    kernel_map = Nystroem(gamma=gamma, n_components=N_LANDMARKS, random_state=0).fit(Z)
    fitted, held_out = kernel_map.transform(Z), kernel_map.transform(scaler.transform(X[test]))
    if kind.has_classes:
        model = RidgeClassifier(alpha=RIDGE, class_weight="balanced").fit(fitted, table.y[train])
        decisions = model.decision_function(held_out)
        scores = np.full(len(test), np.nan) if decisions.ndim > 1 else decisions
        return Predictions(np.asarray(model.predict(held_out)), np.asarray(scores))
    numbers = np.asarray(kind.to_numbers(table.y[train])[0], dtype=np.float64)
    mean, spread = numbers.mean(), numbers.std() or 1.0
    predicted = Ridge(alpha=RIDGE).fit(fitted, (numbers - mean) / spread).predict(held_out) * spread + mean
    return Predictions(predicted, predicted)


def collect_predictions(results: list[dict[str, Array]], tests: list[Array], y: Array, kind: OutcomeKind) -> HeldOut:
    """Return the predictions of all folds, sample by sample; classes become their numbers."""
    fold, predicted, scores = np.full(len(y), -1), np.full(len(y), np.nan), np.full(len(y), np.nan)
    for number, (result, test) in enumerate(zip(results, tests, strict=True)):
        if len(result["predicted"]) == len(test):
            fold[test], scores[test] = number, result["scores"]
            labels = result["predicted"]
            predicted[test] = np.searchsorted(np.unique(y), labels) if kind.has_classes else labels
    return HeldOut(fold, predicted, scores)


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
