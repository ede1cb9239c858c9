"""Accuracy against the number of features, and predictions of held-out samples."""

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score

from randsel import datasets
from randsel.analysis import PanelSizes, _resampling
from randsel.analysis._model import Settings
from randsel.analysis._pipeline import analyse
from randsel.analysis._predictions import predict_outputs, score_outputs
from randsel.analysis._resampling import MANY_ROWS
from randsel.prediction import _model
from randsel.tables import Table
from randsel.targets import KINDS

CLASSES = KINDS["classification"]


def table(X, y, **more):
    return Table(X, y, tuple(f"g{j}" for j in range(X.shape[1])), **more)


@pytest.fixture(scope="module")
def data():
    X, y, _ = datasets.make_xor(160, 12, random_state=0)
    return table(X, np.where(y > 0, "case", "control"))


@pytest.fixture(scope="module")
def analysis(data):
    return analyse(data, Settings(halves=0, folds=3, top=4))


def test_sizes_are_marked():
    scores = np.array([[0.5, 0.8, 0.9, 0.85], [0.7, 0.9, 0.9, 0.8]])
    curve = PanelSizes(np.array([1, 2, 5, 10]), scores, 5)
    np.testing.assert_allclose(curve.means, [0.6, 0.85, 0.9, 0.825])
    np.testing.assert_allclose(curve.standard_errors, np.std(scores, axis=0, ddof=1) / 2**0.5)
    assert (curve.best, curve.one_se) == (5, 5)
    noisier = PanelSizes(curve.sizes, np.array([[0.5, 0.8, 0.84, 0.85], [0.7, 0.9, 0.96, 0.8]]), 5)
    assert (noisier.best, noisier.one_se) == (5, 2)
    single = PanelSizes(curve.sizes, scores[:1], 5)
    assert (single.best, single.one_se) == (5, 5)
    assert np.isnan(single.standard_errors).all()


def test_sizes_end_at_the_number_of_features_and_include_the_selection():
    assert _resampling.panel_sizes(4, 12).tolist() == [1, 2, 3, 4, 5, 10]
    assert _resampling.panel_sizes(0, 2).tolist() == [1, 2]
    assert _resampling.panel_sizes(700, 900).tolist() == [1, 2, 3, 5, 10, 20, 50, 100, 200, 700]


def test_the_curve_scores_rankings_of_training_samples(data, analysis):
    curve = analysis.panel_sizes
    assert curve.sizes.tolist() == [1, 2, 3, 4, 5, 10]
    assert curve.selected == 4
    for k, (train, test) in enumerate(_resampling.split_folds(data, CLASSES, 3, 0)):
        _, ranking = _resampling._rank_on_fold(data.rows(train), CLASSES, Settings(top=4))
        for size, score in zip(curve.sizes, curve.scores[k], strict=True):
            outputs = predict_outputs(data, CLASSES, train, test, ranking[:size])
            predicted = np.array(["case", "control"])[outputs.argmax(axis=1)]
            assert score == pytest.approx(balanced_accuracy_score(data.y[test], predicted))
    # with top=4, the selection of every fold is its first four
    np.testing.assert_allclose(curve.scores[:, 3], analysis.accuracy.selected)
    assert curve.means[1] > curve.means[0] + 0.2  # two features of an XOR, not one


def test_held_out_predictions_give_the_accuracy(data, analysis):
    held_out = analysis.accuracy.held_out
    assert sorted(set(held_out.fold.tolist())) == [0, 1, 2]
    classes, codes = np.unique(data.y, return_inverse=True)
    for k, score in enumerate(analysis.accuracy.selected):
        rows = held_out.fold == k
        assert balanced_accuracy_score(codes[rows], held_out.predicted[rows].astype(int)) == pytest.approx(score)
    np.testing.assert_array_equal(held_out.score > 0.5, held_out.predicted == 1)
    np.testing.assert_array_equal(held_out.outputs[:, 1], held_out.score)
    assert len(classes) == 2


def test_folds_that_select_nothing_predict_nothing(rng):
    data = table(rng.standard_normal((60, 8)), rng.permutation(60) % 2)
    analysis = analyse(data, Settings(halves=0, folds=2, pairs="none"))
    empty = analysis.accuracy.sizes == 0
    assert empty.any()
    for k in np.flatnonzero(empty):
        assert (analysis.accuracy.held_out.fold != k).all()
    assert (analysis.accuracy.held_out.outputs[analysis.accuracy.held_out.fold == -1] == 0.5).all()
    assert np.isfinite(analysis.panel_sizes.scores).all()


def test_several_classes_and_numbers_have_predictions(rng):
    X = rng.standard_normal((90, 5))
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    held_out = analyse(table(X, y), Settings(halves=0, folds=2, top=1, pairs="none")).accuracy.held_out
    assert set(held_out.predicted) <= {0.0, 1.0, 2.0}
    assert np.isnan(held_out.score).all()
    numbers = analyse(table(X, X[:, 0] + 0.1), Settings(halves=0, folds=2, top=1, pairs="none")).accuracy.held_out
    np.testing.assert_array_equal(numbers.score, numbers.predicted)
    assert np.corrcoef(numbers.predicted, X[:, 0])[0, 1] > 0.9


# ---------------------------------------------------------------- many samples


def test_many_samples_are_halved_until_they_are_few(rng):
    y, groups = rng.integers(0, 3, 5000), np.arange(5000) // 4
    one, other = _resampling.draw_halves(y, None, CLASSES, 0, 0)
    assert not np.intersect1d(one, other).size
    for half in (one, other):
        assert 500 <= len(half) <= _resampling.MOST_ROWS_OF_HALF
        np.testing.assert_allclose(np.bincount(y[half]) / len(half), np.bincount(y) / 5000, atol=0.01)
    one, other = _resampling.draw_halves(y, groups, CLASSES, 0, 0)
    assert not np.intersect1d(groups[one], groups[other]).size
    assert all(np.isin(np.flatnonzero(groups == g), one).all() for g in np.unique(groups[one])[:50])
    # a table of few samples is halved once
    assert len(_resampling.draw_halves(y[:MANY_ROWS], None, CLASSES, 0, 0)[0]) == pytest.approx(MANY_ROWS / 2, abs=2)


@pytest.mark.parametrize("kind", ["classification", "classes", "regression", "survival"])
def test_models_of_many_samples_predict_like_those_of_few(rng, monkeypatch, kind):
    m = 1200
    X = rng.standard_normal((m, 3))
    signal = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.standard_normal(m)
    outcomes = {
        "classification": np.where(signal > 0, "case", "control"),
        "classes": np.digitize(signal, [-0.5, 0.5]),
        "regression": 10 * signal + 3,
        "survival": np.array([(True, t) for t in np.exp(-signal)], dtype=[("event", bool), ("time", float)]),
    }
    data = table(X, outcomes[kind])
    kind = KINDS.get(kind, CLASSES)
    train, test = np.arange(0, m, 2), np.arange(1, m, 2)[:500]
    scores = []
    for most in (600, 300):
        monkeypatch.setattr(_model, "MAX_SAMPLES", most)
        outputs = predict_outputs(data, kind, train, test, np.arange(3))
        scores.append(score_outputs(data, kind, test, outputs))
    assert scores[0] > 0.6
    assert scores[1] == pytest.approx(scores[0], abs=0.03)


def test_many_samples_are_noted_and_take_part_in_thinned_selections(rng, monkeypatch):
    monkeypatch.setattr(_resampling, "MANY_ROWS", 100)
    monkeypatch.setattr(_resampling, "MOST_ROWS_OF_HALF", 50)
    monkeypatch.setattr(_resampling, "MOST_ROWS_OF_FOLD", 80)
    X = rng.standard_normal((200, 6))
    sizes = []
    cull = _resampling.cull_table
    monkeypatch.setattr(_resampling, "cull_table", lambda t, *how: sizes.append(len(t.y)) or cull(t, *how))
    analysis = analyse(table(X, (X[:, 0] > 0).astype(int)), Settings(halves=2, folds=2, pairs="none"))
    assert sizes == pytest.approx([50, 50, 50, 50], abs=3)
    assert any("random subsets of 50 samples" in note for note in analysis.notes)
    # both folds have 100 training samples, no more than the limit
    assert not any("samples in a fold" in note for note in analysis.notes)
