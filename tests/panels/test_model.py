"""The models of a panel agree with literal computations, and the better one is chosen."""

import numpy as np
import pytest
from panel_reference import (
    auc_of_pairs,
    calibration_loss,
    concordance_and_variance,
    newcombe_limits,
    penalised_cox_gradient,
    ridge_predictions,
)

from randsel._numerics.event_times import survival_array
from randsel.panels import _evaluation, _model
from randsel.targets import CLASSES, NUMBERS, SURVIVAL, partial_log_likelihood


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("kernel", ["linear", "gaussian"])
def test_ridge_regression_is_the_literal_one(rng, kernel):
    Z, Y, new = rng.standard_normal((30, 4)), rng.standard_normal((30, 2)), rng.standard_normal((7, 4))
    model = _model._RidgePath.fit(Z, Y, kernel).model(0.7)
    expected = ridge_predictions(Z, Y, new, 0.7, None if kernel == "linear" else model.gamma)
    np.testing.assert_allclose(model.outputs(new), expected, rtol=1e-9, atol=1e-10)


def test_an_interaction_needs_the_gaussian_kernel_and_a_line_does_not(rng):
    Z = rng.standard_normal((200, 2))
    assert _model.fit_model(Z, np.where(Z[:, 0] * Z[:, 1] > 0, "a", "b"), CLASSES, None).kernel == "gaussian"
    assert _model.fit_model(Z, Z[:, 0] + rng.standard_normal(200), NUMBERS, None).kernel == "linear"


def test_many_samples_are_drawn_from(rng, monkeypatch):
    monkeypatch.setattr(_model, "MAX_SAMPLES", 50)
    Z = rng.standard_normal((200, 2))
    model = _model.fit_model(Z, Z[:, 0] * Z[:, 1], NUMBERS, np.arange(200) // 2)
    assert len(model.samples) == 50


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
    found = _model.fit_calibration(outputs, codes, nested=True)
    best = calibration_loss(outputs, codes, found.slope, found.offsets)
    for change in 0.05 * rng.standard_normal((50, n_classes + 1)):
        changed = calibration_loss(outputs, codes, found.slope + change[0], found.offsets + change[1:])
        assert changed >= best - 1e-9
    np.testing.assert_allclose(found.probabilities(outputs).sum(axis=1), 1.0)


def test_separated_classes_have_probabilities_below_one_and_noise_those_of_the_classes(rng):
    codes = np.repeat([0, 1], 20)
    found = _model.fit_calibration(np.eye(2)[codes], codes, nested=True)
    np.testing.assert_allclose(found.probabilities(np.eye(2)[codes])[0], [21 / 22, 1 / 22], atol=1e-4)
    reversed_outputs = 1.0 - np.eye(2)[np.repeat([0, 1], [30, 10])]
    found = _model.fit_calibration(reversed_outputs, np.repeat([0, 1], [30, 10]), nested=True)
    assert found.slope == 0.0
    assert 0.7 < found.probabilities(reversed_outputs)[0, 0] < 0.78


# ---------------------------------------------------------------- measures


def test_auc_and_its_interval(rng):
    scores, positive = np.round(rng.standard_normal(40), 1), rng.random(40) < 0.4
    area, low, high = _evaluation.auc_with_interval(scores, positive)
    assert area == pytest.approx(auc_of_pairs(scores, positive))
    assert (low, high) == pytest.approx(newcombe_limits(area, positive.sum(), (~positive).sum()), abs=2e-4)
    separated = np.arange(20) >= 10
    area, low, high = _evaluation.auc_with_interval(np.arange(20.0), separated)
    assert area == high == 1.0
    assert 0.7 < low < 0.95
    area, low, high = _evaluation.auc_with_interval(-np.arange(20.0), separated)
    assert area == low == 0.0
    assert 0.05 < high < 0.3


def test_rounding_errors_of_equal_samples_are_ties(rng):
    noise = 1e-15 * rng.standard_normal(20)
    assert _evaluation.auc_with_interval(0.5 + noise, np.arange(20) < 5)[0] == 0.5
    assert _evaluation.concordance_with_interval(np.arange(20.0), np.full(20, True), noise)[0] == 0.5


def test_concordance_and_its_interval(rng):
    time, event = np.round(rng.exponential(5.0, 50)) + 1.0, rng.random(50) < 0.6
    risks = np.round(rng.standard_normal(50), 1)
    index, low, high = _evaluation.concordance_with_interval(time, event, risks)
    expected, variance = concordance_and_variance(time, event, risks)
    assert index == pytest.approx(expected)
    assert index == pytest.approx(SURVIVAL.score(survival_array(event, time), risks))
    assert (high - low) / 2 == pytest.approx(1.959964 * np.sqrt(variance), rel=1e-5)
    assert np.isnan(_evaluation.concordance_with_interval(time[:1], event[:1], risks[:1])[0])


def test_wilson_interval():
    assert _evaluation._fraction_with_interval(8, 10) == pytest.approx((0.8, 0.4901625, 0.9433178), abs=1e-6)
    assert _evaluation._fraction_with_interval(0, 10)[1] == 0.0


def test_the_partial_likelihood_has_the_gradient_of_the_literal_one(rng):
    Z, beta = rng.standard_normal((30, 2)), np.array([0.4, -0.2])
    time, event = np.round(rng.exponential(3.0, 30)) + 1.0, rng.random(30) < 0.6

    def value(change):
        return partial_log_likelihood(time, event, Z @ (beta + change))

    steps = 1e-5 * np.eye(2)
    numeric = [(value(step) - value(-step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(numeric, penalised_cox_gradient(time, event, Z, beta, 0.0), rtol=1e-6)
