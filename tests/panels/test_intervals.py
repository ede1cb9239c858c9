"""Confidence intervals of measures of agreement: literal computations, and coverage by simulation."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from randsel.panels import _intervals
from randsel.panels._evaluation import (
    _correlation_with_interval,
    _evaluate_classes,
    _number_measures,
    auc_with_interval,
    concordance_with_interval,
)
from randsel.panels._intervals import mean_recall_interval, r2_interval

Z = 1.959963984540054


def test_the_interval_of_one_recall_is_that_of_wilson():
    right = np.arange(10) < 8
    expected = stats.binomtest(8, 10).proportion_ci(method="wilson")
    assert mean_recall_interval(np.zeros(10), right) == pytest.approx((expected.low, expected.high))


def test_the_interval_of_balanced_accuracy_is_the_stratified_one_of_wilson():
    codes, right = np.repeat([0, 1, 2], [20, 10, 5]), np.arange(35) % 5 > 0
    low, high, errors = 0.0, 0.0, []
    for k in range(3):
        hits, n = right[codes == k].sum(), (codes == k).sum()
        p = (hits + 1) / (n + 2)
        errors.append((p * (1 - p) / n) ** 0.5)
    z = Z * sum(error**2 for error in errors) ** 0.5 / sum(errors)
    for k in range(3):
        hits, n = int(right[codes == k].sum()), int((codes == k).sum())
        limits = stats.binomtest(hits, n).proportion_ci(1 - 2 * stats.norm.sf(z), method="wilson")
        low, high = low + limits.low / 3, high + limits.high / 3
    assert mean_recall_interval(codes, right) == pytest.approx((low, high))
    assert mean_recall_interval(codes, np.ones(35, dtype=bool))[1] == pytest.approx(1.0)


def test_the_interval_of_r2_is_a_jackknife_of_its_logarithm():
    rng = np.random.default_rng(0)
    predicted, noise = rng.standard_normal((2, 30))
    y = predicted + noise

    def log_error(p, y):
        return np.log(((y - p) ** 2).mean() / y.var())

    values = [log_error(np.delete(predicted, i), np.delete(y, i)) for i in range(30)]
    half = stats.t.ppf(0.975, 29) * np.sqrt(29 * np.var(values))
    centre = log_error(predicted, y)
    assert r2_interval(predicted, y) == pytest.approx((1 - np.exp(centre + half), 1 - np.exp(centre - half)))
    assert np.isnan(r2_interval(y, y)).all()
    assert np.isnan(r2_interval(predicted, np.ones(30))).all()
    assert np.isnan(r2_interval(predicted[:3], y[:3])).all()


def test_groups_of_copies_count_once():
    """Samples that are copies of each other give about the interval of the samples without their copies."""
    rng = np.random.default_rng(0)
    codes, right = np.arange(60) % 2, rng.random(60) < 0.8
    copied, groups = (codes.repeat(4), right.repeat(4)), np.arange(60).repeat(4)
    single, naive = mean_recall_interval(codes, right), mean_recall_interval(*copied)
    grouped = mean_recall_interval(*copied, groups)
    assert np.diff(grouped)[0] == pytest.approx(np.diff(single)[0], rel=0.1)
    assert np.diff(naive)[0] < 0.6 * np.diff(grouped)[0]
    perfect = mean_recall_interval(copied[0], np.ones(240, dtype=bool), groups)
    assert perfect == pytest.approx(mean_recall_interval(codes, np.ones(60, dtype=bool)), abs=0.01)
    predicted, noise = rng.standard_normal((2, 40))
    copies = predicted.repeat(3), (predicted + noise).repeat(3)
    assert r2_interval(*copies, np.arange(40).repeat(3)) == pytest.approx(r2_interval(predicted, predicted + noise))
    assert np.isnan(mean_recall_interval(*copied, np.arange(240) % 3)).all()


def of_auc(columns, groups):
    return auc_with_interval(columns[0], columns[1] > 0, groups)


def of_correlation(columns, groups):
    return _correlation_with_interval(*columns, groups)


def of_concordance(columns, groups):
    return concordance_with_interval(np.exp(-columns[1]), columns[0] < 1.0, columns[0], groups)


@pytest.mark.parametrize("measure", [of_auc, of_correlation, of_concordance])
def test_copies_count_once_in_every_measure(measure):
    rng = np.random.default_rng(0)
    predicted, noise = rng.standard_normal((2, 60))
    columns, groups = np.array([predicted, predicted + noise]), np.arange(60).repeat(4)
    single, naive = np.diff(measure(columns, None)[1:])[0], np.diff(measure(columns.repeat(4, axis=1), None)[1:])[0]
    value, low, high = measure(columns.repeat(4, axis=1), groups)
    assert low < value < high
    assert high - low == pytest.approx(single, rel=0.15)
    assert naive < 0.6 * (high - low)
    assert measure(columns, np.arange(60)) == measure(columns, None)
    assert np.isnan(measure(columns, np.arange(60) % 3)[1:]).all()


def test_the_limits_of_an_auc_of_one_with_groups_are_those_of_the_groups():
    positive = np.arange(40) >= 20
    grouped = auc_with_interval(positive * 1.0, positive, np.arange(40) // 2)
    assert grouped == pytest.approx(auc_with_interval(positive[::2] * 1.0, positive[::2]), abs=0.03)


def test_an_auc_has_no_limits_if_all_positive_samples_are_of_one_group():
    positive, groups = np.arange(40) >= 20, np.minimum(np.arange(40) // 5, 4)
    assert np.isnan(auc_with_interval(np.arange(40.0) % 30, positive, groups)[1:]).all()


def test_many_units_are_left_out_several_at_a_time(monkeypatch):
    rng = np.random.default_rng(0)
    predicted, noise = rng.standard_normal((2, 400))
    exact = r2_interval(predicted, predicted + noise)
    monkeypatch.setattr(_intervals, "MOST_UNITS", 50)
    in_blocks = r2_interval(predicted, predicted + noise)
    assert in_blocks != exact
    assert in_blocks == pytest.approx(exact, abs=0.04)


def test_balanced_accuracy_and_r2_have_intervals_in_the_evaluation():
    rng = np.random.default_rng(0)
    outputs = rng.standard_normal((40, 2))
    classes = np.array(["a", "b"])
    panel = SimpleNamespace(
        classes_=classes, class_names=["a", "b"], probabilities=lambda scores: np.full(scores.shape, 0.5)
    )
    measures = {m.name: m for m in _evaluate_classes(panel, outputs, classes[np.arange(40) % 2], None).measures}
    balanced = measures["balanced accuracy"]
    assert 0.0 < balanced.low < balanced.value < balanced.high < 1.0
    r2 = next(_number_measures(outputs[:, 0], outputs.sum(axis=1), None))
    assert r2.name == "R²"
    assert r2.low < r2.value < r2.high < 1.0


# ---------------------------------------------------------------- coverage


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "recalls", "per_group"),
    [
        ((10, 10), (0.8, 0.9), 1),
        ((50, 20, 8), (0.9, 0.6, 0.75), 1),
        ((6,) * 10, (0.7,) * 10, 1),
        ((100, 100), (0.6, 0.6), 1),
        ((40, 40), (0.7, 0.8), 4),
        ((100, 100), (0.7, 0.7), 5),
    ],
)
def test_the_interval_of_balanced_accuracy_covers_its_expectation(sizes, recalls, per_group):
    rng = np.random.default_rng(0)
    codes = np.arange(len(sizes)).repeat(sizes)
    groups = None if per_group == 1 else np.arange(len(codes)) // per_group
    covered = naive = 0
    for _ in range(1500):
        p = np.array(recalls)[codes]
        if groups is not None:  # samples of a group are right with a common probability, of correlation 1/2
            p = rng.beta(p[::per_group], 1 - p[::per_group]).repeat(per_group)
        right = rng.random(len(codes)) < p
        low, high = mean_recall_interval(codes, right, groups)
        covered += low <= np.mean(recalls) <= high
        low, high = mean_recall_interval(codes, right)
        naive += low <= np.mean(recalls) <= high
    assert 0.91 < covered / 1500 < 0.985
    assert groups is None or naive / 1500 < 0.85


def draw_scores(rng, m, per_group, shared):
    """Draw predictions and outcomes of which a part is common to the samples of a group: of both, or of the first."""
    common = rng.standard_normal((2, m // per_group)).repeat(per_group, axis=1)
    own = rng.standard_normal((2, m))
    weights = np.array([[0.7], [0.7 if shared == "both" else 0.0]])
    predicted, other = np.sqrt(weights) * common + np.sqrt(1.0 - weights) * own
    return np.array([predicted, 0.6 * predicted + 0.8 * other])


@pytest.mark.slow
@pytest.mark.parametrize("shared", ["both", "first"])
@pytest.mark.parametrize(("m", "per_group"), [(80, 1), (80, 4), (200, 10)])
@pytest.mark.parametrize("measure", [of_auc, of_correlation, of_concordance])
def test_intervals_cover_the_true_value_with_groups(measure, m, per_group, shared):
    rng = np.random.default_rng(0)
    truth = measure(draw_scores(rng, 4000, 1, shared), None)[0]
    groups = np.arange(m) // per_group
    covered = naive = 0
    for _ in range(600):
        columns = draw_scores(rng, m, per_group, shared)
        _, low, high = measure(columns, groups)
        covered += low <= truth <= high
        _, low, high = measure(columns, None)
        naive += low <= truth <= high
    assert covered / 600 > 0.92
    assert per_group == 1 or shared == "first" or naive / 600 < 0.88


@pytest.mark.slow
@pytest.mark.parametrize(("m", "r2", "per_group"), [(20, 0.5, 1), (40, 0.8, 1), (100, 0.2, 1), (80, 0.5, 4)])
def test_the_interval_of_r2_covers_its_value(m, r2, per_group):
    rng = np.random.default_rng(0)
    groups = None if per_group == 1 else np.arange(m) // per_group
    covered = 0
    for _ in range(1500):
        signal, noise = np.sqrt(0.4) * rng.standard_normal((2, m))
        common, common_noise = np.sqrt(0.6) * rng.standard_normal((2, m // per_group)).repeat(per_group, axis=1)
        predicted = signal + common
        y = predicted + np.sqrt(1 / r2 - 1) * (noise + common_noise)
        low, high = r2_interval(predicted, y, groups)
        covered += low <= r2 <= high
    assert 0.92 < covered / 1500 < 0.98
