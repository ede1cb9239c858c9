"""Predictions of `RandSelCV` by its model on the selected features."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from randsel import RandSelCV, datasets
from randsel._numerics.event_times import survival_array

QUICK = {"cv": 3, "gammas": ["median"]}


@pytest.fixture(scope="module")
def xor():
    return datasets.make_xor(120, 12, random_state=0)[:2]


def test_the_model_predicts_from_the_selected_features(xor):
    X, y = xor
    model = RandSelCV(**QUICK).fit(X[:90], y[:90])
    expected = make_pipeline(StandardScaler(), SVC(C=1.0)).fit(model.transform(X[:90]), y[:90])
    assert np.array_equal(model.predict(X[90:]), expected.predict(model.transform(X[90:])))
    assert np.array_equal(model.decision_function(X[90:]), expected.decision_function(model.transform(X[90:])))
    assert model.score(X[90:], y[90:]) == np.mean(model.predict(X[90:]) == y[90:]) > 0.8
    assert np.array_equal(model.classes_, np.unique(y))
    assert not hasattr(model, "predict_proba")
    assert not is_classifier(model)


def test_probabilities_tags_and_scores_are_those_of_the_model(xor):
    X, y = xor
    cv = RandSelCV(make_pipeline(StandardScaler(), SVC()), scoring="balanced_accuracy", **QUICK).fit(X, y)
    assert cv.score(X, y) == balanced_accuracy_score(y, cv.predict(X))
    linear = np.where(X[:, 3] > 0, "a", "b")
    model = RandSelCV(LogisticRegression(), **QUICK)
    assert is_classifier(model)
    assert not hasattr(RandSelCV(Ridge()), "predict_proba")
    assert model.fit(X, linear).predict_proba(X).shape == (120, 2)
    assert cross_val_score(model, X, linear, cv=3).mean() > 0.8
    assert is_regressor(RandSelCV(Ridge()))


def test_missing_values_are_filled_with_training_means(xor):
    X, y = xor[0].copy(), xor[1]
    model = RandSelCV(**QUICK)
    X[::9, 0] = np.nan
    model.fit(X, y)
    assert set(model.get_support(indices=True)) == {0, 1}
    new = X[:5].copy()
    new[:, 0] = np.nan
    filled = new.copy()
    filled[:, 0] = np.nanmean(X[:, 0])
    assert np.allclose(model.decision_function(new), model.decision_function(filled))


def test_numbers_several_outputs_and_survival(xor):
    X = xor[0]
    signal = 2 * X[:, 2] + X[:, 5]
    assert RandSelCV(**QUICK).fit(X, signal).score(X, signal) > 0.7
    several = np.column_stack([signal, -signal])
    assert RandSelCV(**QUICK).fit(X, several).predict(X).shape == (120, 2)
    y = survival_array(np.ones(120, dtype=bool), np.exp(-signal))
    model = RandSelCV(**QUICK).fit(X, y)
    assert model.score(X, y) > 0.8
    assert np.corrcoef(model.predict(X), signal)[0, 1] > 0.7


def test_frames_sparse_matrices_extreme_columns_and_weights(xor):
    X, y = xor
    frame = pd.DataFrame(X, columns=[f"g{j}" for j in range(12)])
    model = RandSelCV(**QUICK).set_output(transform="pandas").fit(frame, y)
    expected = model.predict(frame)
    assert np.array_equal(RandSelCV(**QUICK).fit(csr_matrix(X), y).predict(csr_matrix(X)), expected)
    scale = np.where(np.arange(12) < 2, 1e200, 1.0)
    assert np.array_equal(RandSelCV(**QUICK).fit(X * scale, y).predict(X * scale), expected)
    weights = np.where(np.arange(120) < 100, 1.0, 0.0)
    weighted = RandSelCV(**QUICK).fit(X, y, sample_weight=weights)
    assert np.array_equal(weighted.predict(X), RandSelCV(**QUICK).fit(X[:100], y[:100]).predict(X))


def test_before_the_fit():
    with pytest.raises(NotFittedError):
        RandSelCV().predict(np.zeros((2, 2)))
    assert not hasattr(RandSelCV(), "decision_function")
