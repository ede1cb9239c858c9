"""The models of a panel agree with literal computations, and the better one is chosen."""

import numpy as np
import pytest
from panel_reference import calibration_loss, penalised_cox_gradient, ridge_predictions

from randsel._numerics.event_times import survival_array
from randsel.prediction import _model, _ridge, _scores, fit_calibration
from randsel.targets import CLASSES, NUMBERS, SURVIVAL, partial_log_likelihood


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def sample(rng):
    """Scores and outcomes of 30 samples, their weights, and new scores."""
    weights = rng.uniform(0.2, 3.0, 30)
    Z, Y, new = rng.standard_normal((30, 4)), rng.standard_normal((30, 2)), rng.standard_normal((7, 4))
    return Z, Y, weights / weights.mean(), new


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", ["linear", "gaussian"])
def test_ridge_regression_is_the_literal_one(sample, kernel, weighted):
    Z, Y, weights, new = sample
    weights = weights if weighted else np.ones(30)
    path = _ridge.RidgePath.fit(Z, Y, weights, kernel)
    gamma = None if kernel == "linear" else path.gamma
    expected = ridge_predictions(Z, Y, new, path.penalty(0.7), weights, gamma)
    np.testing.assert_allclose(path.model(0.7).outputs(new), expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("kernel", ["linear", "gaussian"])
def test_outputs_of_a_sample_do_not_depend_on_the_other_samples(rng, kernel):
    Z, Y, new = rng.standard_normal((60, 20)), rng.standard_normal((60, 2)), rng.standard_normal((150, 20))
    model = _ridge.RidgePath.fit(Z, Y, np.ones(60), kernel).model(0.7)
    outputs = model.outputs(new)
    for rows in (np.arange(150)[::-1], np.array([3]), np.arange(70, 150), rng.permutation(150)[:41]):
        np.testing.assert_array_equal(model.outputs(new[rows]), outputs[rows])


def test_scores_do_not_depend_on_the_columns_at_a_time(rng, monkeypatch):
    X, new = rng.standard_normal((20, 7)), rng.standard_normal((5, 7))
    X[3, 2] = X[4, 2] = new[1, 5] = np.nan
    points = _scores.take_points(X)
    expected = _scores.score_columns(new, points)
    monkeypatch.setattr(_scores, "COLUMNS_AT_A_TIME", 3)
    np.testing.assert_allclose(_scores.score_columns(new, points), expected, rtol=1e-13)
    assert expected[1, 5] == 0.0


def test_the_penalty_is_a_multiple_of_the_mean_eigenvalue(sample):
    Z, Y, weights, _ = sample
    rows = [Z[i] - sum(w * z for w, z in zip(weights, Z, strict=True)) / 30 for i in range(30)]
    mean = sum(w * (row @ row) for w, row in zip(weights, rows, strict=True)) / 30
    assert _ridge.RidgePath.fit(Z, Y, weights, "linear").penalty(0.7) == pytest.approx(0.7 * mean)


def test_more_features_than_samples(rng):
    Z, Y, weights = rng.standard_normal((12, 40)), rng.standard_normal((12, 1)), np.ones(12)
    path = _ridge.RidgePath.fit(Z, Y, weights, "linear")
    expected = ridge_predictions(Z, Y, Z[:3] + 1.0, path.penalty(0.3), weights)
    np.testing.assert_allclose(path.model(0.3).outputs(Z[:3] + 1.0), expected, rtol=1e-8)


@pytest.mark.parametrize("kernel", ["linear", "gaussian"])
def test_held_out_outputs_are_those_of_models_without_the_fold(sample, kernel):
    Z, Y, weights, _ = sample
    path = _ridge.RidgePath.fit(Z, Y, weights, kernel)
    gamma = None if kernel == "linear" else path.gamma
    folds = [(np.delete(np.arange(30), rows), rows) for rows in (np.arange(7), np.array([9, 20, 28]))]
    outputs = path.held_out_outputs(0.7, folds)
    for train, test in folds:
        expected = ridge_predictions(Z[train], Y[train], Z[test], path.penalty(0.7), weights[train], gamma)
        np.testing.assert_allclose(outputs[test], expected, rtol=1e-8, atol=1e-9)
    assert np.isnan(outputs[8]).all()


def test_landmarks_that_are_all_samples_give_the_whole_kernel(sample):
    Z, Y, weights, new = sample
    path = _ridge.RidgePath.fit(Z, Y, weights, "gaussian")
    model = _ridge.fit_landmarks(Z, Y, weights, Z, path.gamma, path.penalty(0.7))
    np.testing.assert_allclose(model.outputs(new), path.model(0.7).outputs(new), atol=1e-5)


def test_classes_weigh_the_same():
    y = np.repeat(["a", "b", "c"], [1, 4, 5])
    weights = _model.weigh_samples(y, CLASSES)
    assert weights.mean() == pytest.approx(1.0)
    assert [weights[y == label].sum() for label in "abc"] == pytest.approx([10 / 3] * 3)


def test_a_rare_class_is_predicted_as_often_as_it_can_be(rng):
    """With unequal classes that overlap, the class of the largest output has about equal recalls."""
    y = np.repeat(["rare", "usual"], [40, 360])
    Z = rng.standard_normal((400, 1)) + 1.2 * (y == "rare")[:, None]
    predicted = np.array(["rare", "usual"])[_model.fit_model(Z, y, CLASSES, None).outputs(Z).argmax(axis=1)]
    recalls = [(predicted[y == label] == label).mean() for label in ("rare", "usual")]
    assert abs(recalls[0] - recalls[1]) < 0.15


def test_an_interaction_needs_the_gaussian_kernel_and_a_line_does_not(rng):
    Z = rng.standard_normal((200, 2))
    assert _model.fit_model(Z, np.where(Z[:, 0] * Z[:, 1] > 0, "a", "b"), CLASSES, None).kernel == "gaussian"
    assert _model.fit_model(Z, Z[:, 0] + rng.standard_normal(200), NUMBERS, None).kernel == "linear"


def test_many_samples_share_landmarks_and_all_of_them_fit_the_model(rng, monkeypatch):
    Z, new = rng.standard_normal((400, 2)), rng.standard_normal((200, 2))
    y, truth = Z[:, 0] * Z[:, 1] + rng.standard_normal(400), new[:, 0] * new[:, 1]
    monkeypatch.setattr(_model, "MAX_SAMPLES", 50)
    model = _model.fit_model(Z, y, NUMBERS, np.arange(400) // 2)
    assert len(model.samples) == 50
    rows = [i for i in range(400) if (Z[i] == model.samples).all(axis=1).any()]
    of_some = _model.fit_model(Z[rows], y[rows], NUMBERS, None)
    errors = [np.mean((m.outputs(new)[:, 0] - truth) ** 2) for m in (model, of_some)]
    assert errors[0] < 0.7 * errors[1]
    assert _model.fit_model(Z, Z[:, 0] + y, NUMBERS, None).coefficients.shape[1] == 1


def test_a_cox_model_of_more_features_than_samples_has_the_penalty_of_all_coefficients(rng):
    Z, event = rng.standard_normal((25, 60)), rng.random(25) < 0.8
    time = rng.exponential(np.exp(-Z[:, 0])) + 0.01
    beta = _model.fit_model(Z, survival_array(event, time), SURVIVAL, None).coefficients[:, 0]
    slopes = [np.abs(penalised_cox_gradient(time, event, Z, beta, r * event.sum())).max() for r in _model.COX_RIDGES]
    assert min(slopes) < 1e-4


def test_a_class_of_one_sample_cannot_be_cross_validated(rng):
    y = np.array(["a"] + ["b"] * 9)
    assert _model.fit_model(rng.standard_normal((10, 2)), y, CLASSES, None).kernel == "linear"


def test_the_cox_model_is_at_the_maximum_of_its_penalised_likelihood(rng):
    Z = rng.standard_normal((60, 3))
    time, event = rng.exponential(np.exp(-Z[:, 0])), rng.random(60) < 0.7
    model = _model.fit_model(Z, survival_array(event, time), SURVIVAL, None)
    beta = model.coefficients[:, 0]
    slopes = [np.abs(penalised_cox_gradient(time, event, Z, beta, r * event.sum())).max() for r in _model.COX_RIDGES]
    assert min(slopes) < 1e-4
    assert beta[0] > 0.3
    assert abs(model.outputs(Z).mean()) < 1e-12


def test_few_events_give_the_default_penalty(rng):
    y = survival_array(np.array([True, True, *[False] * 8]), rng.random(10) + 0.1)
    assert _model.fit_model(rng.standard_normal((10, 2)), y, SURVIVAL, None).kernel == "cox"


@pytest.mark.parametrize("n_classes", [2, 3])
def test_calibration_has_the_smallest_loss(rng, n_classes):
    codes = rng.integers(n_classes, size=90)
    outputs = 0.3 * np.eye(n_classes)[codes] + 0.3 * rng.standard_normal((90, n_classes))
    found = fit_calibration(outputs, codes, nested=True)
    best = calibration_loss(outputs, codes, found.slope, found.offsets)
    for change in 0.05 * rng.standard_normal((50, n_classes + 1)):
        changed = calibration_loss(outputs, codes, found.slope + change[0], found.offsets + change[1:])
        assert changed >= best - 1e-9
    np.testing.assert_allclose(found.probabilities(outputs).sum(axis=1), 1.0)


def test_separated_classes_have_probabilities_below_one_and_noise_those_of_the_classes(rng):
    codes = np.repeat([0, 1], 20)
    found = fit_calibration(np.eye(2)[codes], codes, nested=True)
    np.testing.assert_allclose(found.probabilities(np.eye(2)[codes])[0], [21 / 22, 1 / 22], atol=1e-4)
    reversed_outputs = 1.0 - np.eye(2)[np.repeat([0, 1], [30, 10])]
    found = fit_calibration(reversed_outputs, np.repeat([0, 1], [30, 10]), nested=True)
    assert found.slope == 0.0
    assert 0.7 < found.probabilities(reversed_outputs)[0, 0] < 0.78


def test_the_partial_likelihood_has_the_gradient_of_the_literal_one(rng):
    Z, beta = rng.standard_normal((30, 2)), np.array([0.4, -0.2])
    time, event = np.round(rng.exponential(3.0, 30)) + 1.0, rng.random(30) < 0.6

    def value(change):
        return partial_log_likelihood(time, event, Z @ (beta + change))

    steps = 1e-5 * np.eye(2)
    numeric = [(value(step) - value(-step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(numeric, penalised_cox_gradient(time, event, Z, beta, 0.0), rtol=1e-6)
