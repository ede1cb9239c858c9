"""Direction and size of effects, against literal computations, scipy and lifelines."""

from dataclasses import replace

import numpy as np
import pytest
import reference
from scipy.stats import mannwhitneyu, norm, spearmanr
from scipy.stats import t as student
from sklearn.metrics import roc_auc_score

from randsel.analysis._effects import auc_limits, auc_variance, describe_effects, measure_effects, rank_rows
from randsel.report._sentences import describe_effect
from randsel.tables import Table
from randsel.targets import KINDS, SURVIVAL

CLASSES, NUMBERS = KINDS["classification"], KINDS["regression"]


def table(X, y, **more):
    return Table(X, y, tuple(f"g{j}" for j in range(X.shape[1])), **more)


def with_gaps(rng, m=60, n=6):
    """Columns with ties, missing values, a constant and an outlier."""
    X = rng.standard_normal((m, n))
    X[:, 1] = np.round(X[:, 1])
    X[::7, 2] = np.nan
    X[:, 3] = 4.0
    X[0, 4] = 1e6
    X[::5, 1] = np.nan
    return X


def test_auc_of_two_classes_is_that_of_all_pairs(rng):
    X = with_gaps(rng)
    y = rng.integers(0, 2, 60)
    X[:, 0] += y
    X[:, 5] -= 2 * y
    labels = np.array(["normal", "tumour"])[y]
    effects = measure_effects(table(X, labels), CLASSES)
    assert effects.measure == "AUC"
    assert effects.classes == ("normal", "tumour")
    for j in (0, 1, 2, 4, 5):
        known = ~np.isnan(X[:, j])
        x, present = X[known, j], y[known]
        area = reference.auc(x, present)
        assert area == pytest.approx(roc_auc_score(present, x))
        statistic = mannwhitneyu(x[present == 1], x[present == 0]).statistic
        assert area == pytest.approx(statistic / ((present == 1).sum() * (present == 0).sum()))
        assert effects.estimate[j] == pytest.approx(max(area, 1 - area))
        assert effects.sign[j] == np.sign(area - 0.5)
        assert effects.extreme[j] == (area > 0.5)
        medians = [np.median(x[present == k]) for k in (0, 1)]
        assert effects.centres[j].tolist() == pytest.approx(medians)
        assert effects.difference[j] == pytest.approx(medians[1] - medians[0])
    assert np.isnan([effects.estimate[3], effects.low[3], effects.high[3]]).all()
    assert effects.direction(0) == "higher in tumour"
    assert effects.direction(5) == "higher in normal"
    assert effects.direction(3) == ""


@pytest.mark.parametrize(("area", "m", "n"), [(0.5, 10, 10), (0.7, 5, 40), (0.93, 30, 12), (1.0, 8, 9)])
def test_limits_of_an_auc_are_where_the_score_test_has_its_level(area, m, n):
    low, high = auc_limits(np.array([area]), np.array([float(m)]), np.array([float(n)]), 0.05)
    z = norm.isf(0.025)
    assert reference.auc_score_test(area, low[0], m, n) == pytest.approx(z, abs=1e-6)
    if area < 1.0:
        assert reference.auc_score_test(area, high[0], m, n) == pytest.approx(-z, abs=1e-6)
    else:
        assert high[0] == 1.0
        assert 0.5 < low[0] < 1.0


@pytest.mark.slow
@pytest.mark.parametrize("shift", [0.0, 1.0, 2.5])
def test_limits_of_an_auc_hold_the_true_value_as_often_as_they_say(rng, shift):
    y = np.repeat([0, 1], [20, 30])
    X = rng.standard_normal((50, 4000)) + shift * y[:, None]
    effects = measure_effects(table(X, y), CLASSES)
    truth = norm.cdf(shift / 2**0.5)
    # folded: an area below 0.5 is that of the other class
    low = np.where(effects.sign > 0, effects.low, 1.0 - effects.high)
    high = np.where(effects.sign > 0, effects.high, 1.0 - effects.low)
    # near 1 the limits are a little too wide, never too narrow
    assert 0.94 < ((low <= truth) & (truth <= high)).mean() < 0.985


def test_several_classes_name_the_class_that_differs_most(rng):
    y = np.array(["a", "b", "c"])[rng.integers(0, 3, 90)]
    X = rng.standard_normal((90, 3))
    X[:, 0] += 3 * (y == "b")
    X[:, 1] -= 3 * (y == "c")
    effects = measure_effects(table(X, y), CLASSES)
    assert [effects.direction(j) for j in range(2)] == ["higher in b", "lower in c"]
    for j, label in ((0, "b"), (1, "c")):
        area = reference.auc(X[:, j], (y == label).astype(int))
        assert effects.estimate[j] == pytest.approx(max(area, 1 - area))
    assert effects.difference_name is None
    assert np.isnan(effects.difference).all()
    two = measure_effects(table(X, np.where(y == "b", "b", "other")), CLASSES)
    assert effects.estimate[0] == pytest.approx(two.estimate[0])
    assert effects.low[0] < two.low[0]  # the limits allow for the choice of the class


def test_classes_that_are_numbers_are_named_as_classes(rng):
    y = rng.integers(0, 2, 60)
    X = rng.standard_normal((60, 2)) + 2.0 * y[:, None]
    assert measure_effects(table(X, y.astype(float)), CLASSES).direction(0) == "higher in class 1"
    assert "median of class 1 minus median of class 0" in describe_effect(measure_effects(table(X, y), CLASSES))
    assert measure_effects(table(X, np.array(["CD4", "CD8"])[y]), CLASSES).direction(0) == "higher in CD8"


def test_numbers_have_rank_correlations(rng):
    X, y = with_gaps(rng), rng.standard_normal(60)
    X[:, 0] += y
    X[:, 5] -= 3 * y
    effects = measure_effects(table(X, y), NUMBERS)
    for j in (0, 1, 2, 4, 5):
        known = ~np.isnan(X[:, j])
        r, n = reference.spearman(X[known, j], y[known]), known.sum()
        assert r == pytest.approx(spearmanr(X[known, j], y[known]).statistic)
        assert effects.estimate[j] == pytest.approx(r)
        error = ((1 + r**2 / 2) / (n - 3)) ** 0.5
        limits = [np.tanh(np.arctanh(r) + side * norm.isf(0.025) * error) for side in (-1, 1)]
        assert [effects.low[j], effects.high[j]] == pytest.approx(limits)
    assert np.isnan(effects.estimate[3])
    assert [effects.direction(j) for j in (0, 3, 5)] == ["rises with target", "", "falls with target"]
    assert effects.direction(5, "age") == "falls with age"


def survival(rng, m=80):
    X = with_gaps(rng, m)
    times = rng.exponential(np.exp(-X[:, 0]))
    censoring = rng.exponential(2.0, m)
    y = np.empty(m, dtype=[("event", bool), ("time", float)])
    y["event"], y["time"] = times <= censoring, np.minimum(times, censoring)
    return X, y


@pytest.mark.filterwarnings("ignore")  # of lifelines
def test_survival_has_hazard_ratios_per_standard_deviation(rng):
    lifelines, pandas = (pytest.importorskip(name) for name in ("lifelines", "pandas"))
    X, y = survival(rng)
    effects = measure_effects(table(X, y), SURVIVAL)
    assert effects.measure == "hazard ratio"
    for j in (0, 1, 2, 5):
        known = ~np.isnan(X[:, j])
        x = (X[known, j] - X[known, j].mean()) / X[known, j].std()
        frame = pandas.DataFrame({"x": x, "time": y["time"][known], "event": y["event"][known]})
        fitted = lifelines.CoxPHFitter().fit(frame, "time", "event").summary
        expected = fitted.loc["x", ["exp(coef)", "exp(coef) lower 95%", "exp(coef) upper 95%"]].tolist()
        assert [effects.estimate[j], effects.low[j], effects.high[j]] == pytest.approx(expected, rel=2e-3)
    assert effects.direction(0) == "higher, more risk"
    assert measure_effects(table(-X, y), SURVIVAL).direction(0) == "higher, less risk"
    assert np.isnan(effects.estimate[3])


def test_hazard_ratios_maximise_the_literal_likelihood_with_tied_times(rng):
    X, y = survival(rng)
    y["time"] = np.ceil(y["time"] * 4)
    effects = measure_effects(table(X[:, [0, 5]], y), SURVIVAL)
    for j, column in enumerate((0, 5)):
        z = (X[:, column] - X[:, column].mean()) / X[:, column].std()
        beta = np.log(effects.estimate[j])

        def likelihood(b, z=z):
            return reference.cox_log_likelihood(np.array([b]), y["time"], y["event"], z[:, None])

        assert likelihood(beta) > max(likelihood(beta + 0.02), likelihood(beta - 0.02))
        curvature = (likelihood(beta + 1e-3) - 2 * likelihood(beta) + likelihood(beta - 1e-3)) / 1e-6
        half_width = norm.isf(0.025) / (-curvature) ** 0.5
        assert np.log(effects.high[j]) - beta == pytest.approx(half_width, rel=1e-2)


def test_a_feature_that_separates_the_events_has_finite_limits():
    y = np.array([(True, t) for t in range(1, 21)], dtype=[("event", bool), ("time", float)])
    effects = measure_effects(table(np.arange(20.0)[:, None], y), SURVIVAL)
    assert np.isfinite([effects.estimate[0], effects.low[0], effects.high[0]]).all()
    assert effects.high[0] < 1.0


def test_effects_do_not_depend_on_blocks_or_the_order_of_columns(rng, monkeypatch):
    X, y = with_gaps(rng), rng.integers(0, 3, 60)
    whole = measure_effects(table(X, y), CLASSES)
    monkeypatch.setattr("randsel.analysis._effects.BLOCK", 130)
    for name in ("estimate", "low", "high", "sign", "extreme", "centres"):
        np.testing.assert_array_equal(getattr(measure_effects(table(X, y), CLASSES), name), getattr(whole, name))
        reverse = measure_effects(table(X[:, ::-1], y), CLASSES)
        np.testing.assert_array_equal(getattr(reverse, name)[::-1], getattr(whole, name))


def test_ranks_of_rows(rng):
    x = rng.integers(0, 5, (3, 12)).astype(float)
    x[1, 4] = np.nan
    for row, ranks in zip(x, rank_rows(x), strict=True):
        known = row[~np.isnan(row)]
        expected = [np.nan if np.isnan(a) else (known < a).sum() + ((known == a).sum() + 1) / 2 for a in row]
        np.testing.assert_array_equal(ranks, expected)


def test_codes_of_categories_have_no_effect(rng):
    X, y = rng.integers(0, 4, (40, 2)).astype(float), rng.integers(0, 2, 40)
    effects = measure_effects(table(X, y, nominal=(1,)), CLASSES)
    assert np.isfinite(effects.estimate[0])
    assert np.isnan(effects.estimate[1])


def test_logarithms_are_known_or_detected_and_compared_by_means(rng):
    y = rng.integers(0, 2, 40)
    logs = rng.uniform(4, 12, 80) + rng.standard_normal((40, 80))
    logs[:, 0] += 2 * y
    for X, more, expected in (
        (logs, {}, "detected"),
        (logs, {"log2": True}, "given"),
        (2**logs, {}, ""),
        (rng.standard_normal((40, 80)), {}, ""),
        (logs[:, :10], {}, ""),
        (rng.integers(0, 3, (40, 80)).astype(float), {}, ""),
    ):
        effects = measure_effects(table(X, y, **more), CLASSES)
        assert effects.log2 == expected
        assert effects.difference_name == ("log2 fold change" if expected else "difference")
    effects = measure_effects(table(logs, y), CLASSES)
    assert effects.centre == "mean"
    assert effects.difference[0] == pytest.approx(logs[y == 1, 0].mean() - logs[y == 0, 0].mean())
    assert "look like logarithms" in next(iter(describe_effects(effects, table(logs, y))))
    assert measure_effects(table(2**logs, y), CLASSES).centre == "median"
    genotypes = rng.integers(0, 3, (40, 5)).astype(float)
    assert measure_effects(table(genotypes, y), CLASSES).centre == "mean"


def test_a_note_says_that_effects_are_not_adjusted(rng):
    data = table(rng.standard_normal((40, 3)), rng.integers(0, 2, 40))
    effects = measure_effects(data, CLASSES)
    assert not list(describe_effects(effects, data))
    (note,) = describe_effects(effects, replace(data, batch=np.arange(40) % 3))
    assert "are those of the values in the file" in note


def test_a_note_says_whether_limits_of_effects_allow_for_groups(rng):
    data = table(rng.standard_normal((40, 3)), np.arange(40) % 2)
    effects = measure_effects(data, CLASSES)
    (note,) = describe_effects(effects, replace(data, groups=np.arange(40) // 4))
    assert "(AUC) allow for groups" in note
    (note,) = describe_effects(effects, replace(data, groups=np.arange(40) // 14))
    assert "(AUC) treat the samples of a group as independent" in note
    assert not list(describe_effects(effects, replace(data, groups=np.arange(40) % 10)))  # averages are compared
    assert not list(describe_effects(effects, replace(data, groups=np.arange(40))))


# ---------------------------------------------------------------- groups within which the target varies


def leave_out_blocks(statistic, groups):
    """Jackknife variance and quantile of a statistic of a mask, with group g in block g modulo 20."""
    values = []
    for block in range(min(20, max(groups) + 1)):
        values.append(statistic(np.array([g % 20 != block for g in groups])))
    n = len(values)
    return (n - 1) / n * sum((v - sum(values) / n) ** 2 for v in values), student.isf(0.025, n - 1)


@pytest.mark.parametrize("n_groups", [12, 30])
def test_limits_are_those_of_a_jackknife_over_groups(rng, n_groups):
    groups = np.arange(90) % n_groups
    X, codes = with_gaps(rng, 90), rng.integers(0, 2, 90)
    X += rng.standard_normal((n_groups, 6))[groups] + 0.5 * codes[:, None]
    effects = measure_effects(table(X, codes, groups=groups), CLASSES)
    numbers = rng.standard_normal(90)
    correlations = measure_effects(table(X, numbers, groups=groups), NUMBERS)
    for j in (0, 2, 5):
        known = ~np.isnan(X[:, j])
        x, y, g = X[known, j], codes[known], groups[known]
        area, m, n = reference.auc(x, y), (y == 1).sum(), (y == 0).sum()
        variance, t = leave_out_blocks(lambda kept, x=x, y=y: reference.auc(x[kept], y[kept]), g)
        ratio = variance / float(auc_variance(np.array(area), m, n)) * (t / norm.isf(0.025)) ** 2
        area = max(area, 1 - area)
        low, high = auc_limits(np.array([area]), np.array([m / ratio]), np.array([n / ratio]), 0.05)
        assert [effects.low[j], effects.high[j]] == pytest.approx([low[0], high[0]])
        r = np.arctanh(reference.spearman(x, numbers[known]))
        variance, t = leave_out_blocks(
            lambda kept, x=x, known=known: np.arctanh(reference.spearman(x[kept], numbers[known][kept])), g
        )
        limits = np.tanh([r - t * variance**0.5, r + t * variance**0.5])
        assert [correlations.low[j], correlations.high[j]] == pytest.approx(limits)


@pytest.mark.parametrize("groups", ["pairs", "repetitions"])
def test_limits_with_groups_hold_the_true_value_as_often_as_they_say(rng, groups):
    """In pairs, independent samples would have wider limits; with repetitions, much narrower ones."""
    numbers = np.repeat(np.arange(20), 2 if groups == "pairs" else 5)
    y = np.arange(40) % 2 if groups == "pairs" else (numbers + (rng.random(100) < 0.1)) % 2
    donors = rng.standard_normal((20, 1500))[numbers]
    X = 0.8 * y[:, None] + 0.8 * donors + 0.6 * rng.standard_normal(donors.shape)
    truth, covered = norm.cdf(0.8 / 2**0.5), []
    for with_groups in (True, False):
        effects = measure_effects(table(X, y, groups=numbers if with_groups else None), CLASSES)
        low = np.where(effects.sign > 0, effects.low, 1.0 - effects.high)
        high = np.where(effects.sign > 0, effects.high, 1.0 - effects.low)
        covered.append(((low <= truth) & (truth <= high)).mean())
    assert 0.93 < covered[0] < 0.98
    assert covered[1] > 0.985 if groups == "pairs" else covered[1] < 0.85


def test_survival_with_groups_and_a_class_of_one_group(rng):
    groups = np.repeat(np.arange(20), 5)
    y = np.empty(100, dtype=[("event", bool), ("time", float)])
    y["event"] = rng.random(100) < 0.7
    y["time"] = np.exp(rng.standard_normal(20)[groups] + 0.5 * rng.standard_normal(100))
    X = rng.standard_normal((20, 300))[groups] + 0.5 * rng.standard_normal((100, 300))
    effects = measure_effects(table(X, y, groups=groups), SURVIVAL)
    assert 0.92 < ((effects.low <= 1.0) & (effects.high >= 1.0)).mean() < 0.98
    codes = np.where(groups == 3, 2, np.arange(100) % 2)  # one donor shows nothing about others
    for shift in (0.0, 9.0):
        effects = measure_effects(table(X + shift * (codes == 2)[:, None], codes, groups=groups), CLASSES)
        rows = effects.extreme == 2
        assert rows.any()
        assert (effects.low[rows] < 0.5).all()
        assert (effects.high[rows] >= effects.estimate[rows]).all()
