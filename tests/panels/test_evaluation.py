"""Measures of agreement between predictions and outcomes are those of literal computations."""

from types import SimpleNamespace

import numpy as np
import pytest
from panel_reference import auc_of_pairs, concordance_and_variance, newcombe_limits
from sklearn.metrics import brier_score_loss

from randsel._numerics.event_times import survival_array
from randsel.panels import _evaluation
from randsel.panels._evaluation import CalibrationBin, Evaluation, Measure
from randsel.panels._results import _compare_with_guessing, _draw_calibration, write_measure
from randsel.plots import CLASS_COLOURS
from randsel.targets import KINDS, SURVIVAL


@pytest.fixture
def rng():
    return np.random.default_rng(0)


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


def test_concordance_and_its_interval(rng, monkeypatch):
    time, event = np.round(rng.exponential(5.0, 50)) + 1.0, rng.random(50) < 0.6
    risks = np.round(rng.standard_normal(50), 1)
    index, low, high = _evaluation.concordance_with_interval(time, event, risks)
    monkeypatch.setattr(_evaluation, "PAIRS_AT_A_TIME", 100)  # many samples are compared in blocks
    assert _evaluation.concordance_with_interval(time, event, risks) == pytest.approx((index, low, high), abs=1e-12)
    expected, variance = concordance_and_variance(time, event, risks)
    assert index == pytest.approx(expected)
    assert index == pytest.approx(SURVIVAL.score(survival_array(event, time), risks))
    assert (high - low) / 2 == pytest.approx(1.959964 * np.sqrt(variance), rel=1e-5)
    assert np.isnan(_evaluation.concordance_with_interval(time[:1], event[:1], risks[:1])[0])
    perfect = _evaluation.concordance_with_interval(np.arange(5.0), np.ones(5, dtype=bool), -np.arange(5.0))
    assert perfect == pytest.approx((1.0, np.nan, np.nan), nan_ok=True)


def test_brier_score_is_the_usual_one_of_two_classes(rng):
    p, codes = rng.random(30), rng.integers(0, 2, 30)
    score = _evaluation._brier_score(np.stack([1.0 - p, p], axis=1), codes)
    assert score.name == "Brier score"
    assert score.value == pytest.approx(brier_score_loss(codes, p))
    probabilities, codes = rng.dirichlet(np.ones(3), 30), rng.integers(0, 3, 30)
    score = _evaluation._brier_score(probabilities, codes)
    assert score.name == "Brier score, summed over classes"
    expected = sum(
        ((q - (k == code)) ** 2) for row, code in zip(probabilities, codes, strict=True) for k, q in enumerate(row)
    )
    assert score.value == pytest.approx(expected / 30)


def test_wilson_interval():
    interval = _evaluation._fraction_with_interval(np.arange(10) < 8, None)
    assert interval == pytest.approx((0.8, 0.4901625, 0.9433178), abs=1e-6)
    assert _evaluation._fraction_with_interval(np.zeros(10, dtype=bool), None)[1] == 0.0


def test_a_calibration_names_its_classes_below_the_lines_and_its_numbers_by_the_target():
    def draw(labels, classes):
        bins = [CalibrationBin(label, 5, 0.1 * k, 0.1 * k) for label in labels for k in range(3)]
        panel = SimpleNamespace(classes=classes, about={"outcome": {"target": "yield"}})
        return _draw_calibration(SimpleNamespace(panel=panel, evaluation=SimpleNamespace(calibration=bins)))

    ten = "abcdefghij"
    few, many, numbers = draw("b", np.array(["a", "b"])), draw(ten, np.array(list(ten))), draw([""], None)
    assert few.axes[0].lines[0].get_color() == CLASS_COLOURS[1]  # that of the class in other figures
    assert [line.get_color() for line in many.axes[0].lines[:10]] == [*CLASS_COLOURS]
    assert few.axes[0].get_legend() is not None
    assert many.axes[0].get_legend() is None
    assert len(many.legends[0].get_texts()) == 10
    assert numbers.axes[0].get_ylabel() == "observed yield"


@pytest.mark.parametrize(
    ("kind", "measure", "chance", "words"),
    [
        ("classification", (0.8, 0.6, 0.9), 0.5, ["better than guessing, whose balanced accuracy is 0.50."]),
        ("classification", (0.4, 0.2, 0.6), 1 / 3, ["may be no better than guessing, whose balanced accuracy is 0.33"]),
        ("classification", (0.8, np.nan, np.nan), 0.5, []),  # too few groups
        ("classification", (1.0, 0.9, 1.0), 1.0, []),  # a single class
        ("regression", (-1.2, -2.0, -0.5), 0.0, ["worse than guessing, whose R² is 0.00: is the outcome measured in"]),
        ("survival", (0.5, 0.4, 0.6), 0.5, ["may be no better than guessing, whose concordance index is 0.50"]),
    ],
)
def test_predictions_are_compared_with_guessing(kind, measure, chance, words):
    name = KINDS[kind].score_name
    measures = (Measure("accuracy", 0.9, 0.8, 1.0), Measure(name, *measure))
    sentences = list(_compare_with_guessing(SimpleNamespace(kind=kind), Evaluation(9, measures, chance)))
    assert len(sentences) == len(words)
    assert all(part in sentence for part, sentence in zip(words, sentences, strict=True))


def test_negative_measures_have_a_minus_sign():
    assert write_measure(Measure("R²", -0.17, -0.88, 0.27)) == "R² −0.17 (95 % confidence interval −0.88 to 0.27)"
