"""The analysis behind `randsel select`, on tables with a known answer."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from panel_reference import ridge_predictions
from scipy.stats import norm
from sklearn.metrics import balanced_accuracy_score

from randsel import InteractionScan, RandSel, datasets
from randsel._utils.files import FinishedParts
from randsel.analysis import _pipeline, _preparation, _resampling, _selection
from randsel.analysis._cautions import check_selection
from randsel.analysis._model import FeatureTests, Rule, Settings
from randsel.analysis._pipeline import analyse
from randsel.culling._path import CullingPath
from randsel.culling._storage import path_to_arrays, restore_path
from randsel.interactions._evidence import main_effects
from randsel.prediction import _model
from randsel.prediction._ridge import RidgePath
from randsel.tables._read import Table
from randsel.targets import Samples
from randsel.targets._kinds import CLASSES, NUMBERS

QUICK = {"halves": 4, "folds": 2}


def table(X, y, **more):
    return Table(X, y, tuple(f"g{j}" for j in range(X.shape[1])), **more)


def xor(rows=200, columns=30, seed=0):
    X, y, _ = datasets.make_xor(rows, columns, random_state=seed)
    return table(X, np.where(y > 0, "case", "control"))


def names(analysis):
    return [feature.name for feature in analysis.features if feature.selected]


@pytest.fixture(scope="module")
def analysis():
    return analyse(xor(), Settings(**QUICK))


def test_interacting_features_are_selected_with_partner_and_stability(analysis):
    assert sorted(names(analysis)) == ["g0", "g1"]
    first, second = analysis.features[:2]
    assert {first.partner, second.partner} == {"g0", "g1"}
    assert max(first.q, second.q) < 1e-6
    assert first.stability == second.stability == 1.0
    assert analysis.accuracy.selected.min() > 0.75
    assert analysis.accuracy.chance == 0.5
    assert not analysis.nothing_stands_out


@pytest.mark.slow
def test_features_to_keep_are_selected_by_every_rule_and_in_every_half_and_fold(monkeypatch):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((120, 20))
    X[:, 3] = np.arange(120) == 7  # constant in every second half-sample
    data = table(X, np.where(X[:, 0] + X[:, 1] + 0.5 * rng.standard_normal(120) > 0, "case", "control"))
    selections = []
    select = _selection.select_features
    for module in (_pipeline, _resampling):
        monkeypatch.setattr(module, "select_features", lambda *how: selections.append(select(*how)) or selections[-1])
    for how in ({}, {"top": 4}, {"fdr": 0.1}, {"top": 2, "fdr": 0.1}):
        selections.clear()
        found = analyse(data, Settings(**QUICK, keep=["g3", "g0"], **how))
        assert names(found)[:2] == ["g3", "g0"]
        assert found.rule.always_kept == (3, 0)
        assert len(selections) == 1 + 4 + 2
        assert all(set(columns[:2]) == {3, 0} for columns in selections)
        assert np.isnan(found.stability.frequencies[[3, 0]]).all()
    with pytest.raises(ValueError, match="keep names 'g2', which is constant"):
        analyse(replace(data, X=np.where(np.arange(20) == 2, 1.0, X)), Settings(keep=["g2"]))


def test_features_are_ranked_in_the_order_of_culling(analysis):
    data = xor()
    selector = RandSel(target="classification").fit(data.X, data.y)
    assert [feature.column for feature in analysis.features] == selector.order_.tolist()
    assert [feature.rank for feature in analysis.features] == list(range(1, 31))
    contributions = {feature.column: feature.contribution for feature in analysis.features}
    np.testing.assert_array_equal([contributions[j] for j in range(30)], selector.contributions_)


def test_a_path_read_from_a_file_is_the_same(tmp_path):
    data = xor()
    path = RandSel().fit(data.X, data.y).path_
    parts = FinishedParts(tmp_path / "parts")
    parts.save("path", path_to_arrays(path))
    again = restore_path(parts.load("path"), 30)
    assert len(again.rounds) == len(path.rounds)
    for a, b in zip(path.rounds, again.rounds, strict=True):
        for name in ("features", "contributions", "main", "interaction", "scores", "dropped", "fixed"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
        assert (a.gamma, a.alignment, a.chance) == (b.gamma, b.alignment, b.chance)
    np.testing.assert_array_equal(path.order, again.order)
    assert (path.best, path.stands_out) == (again.best, again.stands_out)
    np.testing.assert_array_equal(path.last_values("main", 30), again.last_values("main", 30))


def test_main_effects_in_blocks_are_those_of_the_scan(rng, monkeypatch):
    X = np.column_stack([rng.standard_normal((80, 11)), np.ones(80), rng.integers(0, 3, 80)])
    y = (X[:, 4] + 0.5 * rng.standard_normal(80) > 0).astype(int)
    nominal = np.zeros(13, dtype=bool)
    nominal[12] = True
    monkeypatch.setattr("randsel.interactions._evidence.BLOCK_BYTES", 4 * 6 * 80 * 3)
    p = main_effects(Samples(X, y, None, None, None, "samples"), CLASSES, nominal=nominal, n_jobs=None)
    scan = InteractionScan(order=1, categorical_features=nominal).fit(X, y)
    np.testing.assert_allclose(p, scan.pvalues_, rtol=1e-6)
    assert p[11] == 1.0
    assert p[4] < 1e-6


def test_pairs_above_the_budget_are_not_tested_and_a_note_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(_selection, "PAIR_BUDGET", 1e5)
    few = analyse(xor(), Settings(halves=0, folds=0))
    assert not few.pairs
    assert any("Pairs of features were not tested" in note for note in few.notes)
    assert all(feature.partner is None for feature in few.features)
    every = analyse(xor(), Settings(halves=0, folds=0, pairs="all"))
    assert len(every.pairs) == 435
    assert not any("not tested" in note for note in every.notes)


@pytest.mark.parametrize(
    ("how", "count"), [({"top": 5}, 5), ({"fdr": 0.05}, 2), ({"top": 1, "fdr": 0.05}, 1), ({"top": 7, "fdr": 0.05}, 2)]
)
def test_top_and_fdr(how, count):
    analysis = analyse(xor(), Settings(halves=0, folds=0, **how))
    assert len(names(analysis)) == count
    assert {feature.name for feature in analysis.features[:2]} == {"g0", "g1"}
    assert [feature.selected for feature in analysis.features] == [True] * count + [False] * (30 - count)


def no_signal_by_culling(monkeypatch):
    """Let no culling path stand out."""
    monkeypatch.setattr(CullingPath, "stands_out", property(lambda _: False))


def test_one_rule_makes_the_selection(monkeypatch, rng):
    noise = table(rng.standard_normal((60, 20)), rng.permutation(60) % 2)
    quick = {"halves": 0, "folds": 0}
    assert analyse(xor(), Settings(**quick)).rule == Rule("path")
    assert analyse(noise, Settings(**quick)).rule == Rule("nothing")
    assert analyse(noise, Settings(**quick, top=3)).rule == Rule("top", top=3)
    assert analyse(noise, Settings(**quick, top=3, fdr=0.2)).rule == Rule("fdr", top=3, fdr=0.2)
    no_signal_by_culling(monkeypatch)
    assert analyse(xor(), Settings(**quick)).rule == Rule("tests", fdr=0.05)


def test_without_options_the_selection_is_that_of_auto_or_else_that_of_the_tests(monkeypatch):
    X, y, _ = datasets.make_weston_linear(200, 30, random_state=0)
    data = table(X, y)
    selector = RandSel().fit(X, y)
    by_path = analyse(data, Settings(halves=0, folds=0))
    assert {f.column for f in by_path.features if f.selected} == set(selector.get_support(indices=True).tolist())
    no_signal_by_culling(monkeypatch)
    by_tests = analyse(data, Settings(halves=0, folds=0))
    assert {f.column for f in by_tests.features if f.selected} == {f.column for f in by_tests.features if f.q <= 0.05}


def test_scores_of_selected_features_are_those_of_the_round_they_share(rng):
    """In later rounds the partner of a feature is culled, and its interaction score falls."""
    X = rng.standard_normal((600, 20))
    data = table(X, np.sign(X[:, 0] + X[:, 1] * X[:, 2]).astype(int))
    analysis = analyse(data, Settings(halves=0, folds=0, top=3))
    assert names(analysis) == [f"g{j}" for j in analysis.path.order[:3]]
    (shared,) = (r for r in analysis.path.rounds if len(r.features) == 3)
    for feature in analysis.features[:3]:
        position = shared.features.tolist().index(feature.column)
        assert feature.contribution == shared.contributions[position]
        assert feature.main == shared.main[position]
        assert feature.interaction == shared.interaction[position]
    last = analysis.path.last_values("interaction", 20)
    assert any(feature.interaction != last[feature.column] for feature in analysis.features[:3])


def test_stand_ins_of_selected_features_are_named_with_correlation_and_loss(rng):
    X = rng.standard_normal((80, 12))
    X[:, 9] = X[:, 2] + 0.2 * rng.standard_normal(80)
    data = table(X, np.where(X[:, 2] > 0, "case", "control"))
    analysis = analyse(data, Settings(halves=0, folds=0, top=1))
    (first,) = (feature for feature in analysis.features if feature.selected)
    other = {2: 9, 9: 2}[first.column]
    ((column, correlation, loss),) = RandSel(1).fit(X, data.y).stand_ins(X, data.y)[first.column]
    assert column == other
    assert analysis.stand_ins == {first.column: [(other, correlation, loss)]}
    assert analysis.describe_stand_ins(first.column) == f"g{other} (r {correlation:.2f}, loss {loss:.3f})"
    assert analysis.describe_stand_ins(analysis.features[1].column) == ""


def test_a_partner_is_named_only_if_the_pair_is_significant(rng):
    X = rng.standard_normal((250, 15))
    y = np.where(X[:, 0] + 0.3 * rng.standard_normal(250) + 1.5 * ((X[:, 3] > 0) ^ (X[:, 4] > 0)) > 0.75, "a", "b")
    analysis = analyse(table(X, y), Settings(halves=0, folds=0))
    significant = {(p.first, p.second) for p in analysis.pairs if p.corrected_p <= 0.05}
    assert ("g3", "g4") in significant
    by_name = {feature.name: feature for feature in analysis.features}
    assert by_name["g0"].p < 1e-6
    assert by_name["g3"].partner == "g4"
    for feature in analysis.features:
        if feature.partner is not None:
            assert tuple(sorted((feature.name, feature.partner), key=lambda name: int(name[1:]))) in significant
    assert sum(feature.partner is not None for feature in analysis.features) < 8


def test_noise_gives_an_empty_selection():
    rng = np.random.default_rng(1)
    data = table(rng.standard_normal((60, 20)), rng.permutation(60) % 2)
    for how in ({}, {"fdr": 0.001}):
        analysis = analyse(data, Settings(halves=2, folds=3, **how))
        assert analysis.nothing_stands_out
        assert not analysis.has_findings
        assert not names(analysis)
        # a model without features guesses
        np.testing.assert_array_equal(analysis.accuracy.selected, [0.5] * 3)
        np.testing.assert_array_equal(analysis.accuracy.sizes, [0] * 3)
    first = analyse(data, Settings(halves=0, folds=0, top=4))
    assert len(names(first)) == 4
    assert not first.has_findings


def test_nothing_selected_means_no_half_samples(rng):
    data = table(rng.standard_normal((60, 20)), rng.permutation(60) % 2)
    analysis = analyse(data, Settings(halves=4, folds=0))
    assert analysis.stability is None
    assert any("nothing was selected, so there is no selection to repeat" in note for note in analysis.notes)


# ---------------------------------------------------------------- halves


@pytest.mark.parametrize("grouped", [False, True])
def test_halves_share_no_sample_and_no_group_and_have_every_class(grouped):
    y = np.repeat(["a", "b"], [30, 14])
    groups = np.arange(44) // 2 if grouped else None
    seen = set()
    for number in range(5):
        one, other = _resampling.draw_halves(y, groups, CLASSES, 3, number)
        assert not set(one) & set(other)
        assert abs(len(one) - len(other)) <= 2
        if grouped:
            assert not set(groups[one]) & set(groups[other])
        for rows in (one, other):
            assert {label: int((y[rows] == label).sum()) for label in "ab"}["b"] in (6, 7, 8)
        seen.add(tuple(one))
    assert len(seen) == 5


def test_frequencies_and_bound_are_those_of_the_halves():
    data = xor(120, 20)
    stability = analyse(data, Settings(halves=6, folds=0, top=3, seed=5)).stability
    counts = np.zeros(20)
    for number in range(3):
        for rows in _resampling.draw_halves(data.y, None, CLASSES, 5, number):
            counts[RandSel(3).fit(data.X[rows], data.y[rows]).support_] += 1
    np.testing.assert_allclose(stability.frequencies, counts / 6)
    assert stability.n_halves == 6
    assert stability.n_stable == 2
    assert stability.expected_false is None  # 3² / ((2·0.6 − 1)·20) = 2.25, more than half of the stable features
    data = xor(400, 60)
    stability = analyse(data, Settings(halves=6, folds=0, top=3, seed=5)).stability
    assert stability.expected_false == pytest.approx(3**2 / ((2 * stability.threshold - 1) * 60))


@pytest.mark.parametrize("how", [{}, {"fdr": 0.1}, {"fdr": 0.2, "top": 1}])
def test_halves_repeat_the_rule_of_the_selection(how):
    """With culling, every half chooses its own number of features; with --fdr, features are tested on every half."""
    data = xor(200, 12)
    stability = analyse(data, Settings(halves=4, folds=0, **how)).stability
    counts = np.zeros(12)
    for number in range(2):
        for rows in _resampling.draw_halves(data.y, None, CLASSES, 0, number):
            selector = RandSel().fit(data.X[rows], data.y[rows])
            order = selector.order_[: selector.n_features_]
            if how:
                q = InteractionScan().fit(data.X[rows], data.y[rows]).qvalues_
                order = selector.order_[q[selector.order_] <= how["fdr"]][: how.get("top")]
            counts[order] += 1
    assert counts.any()
    np.testing.assert_allclose(stability.frequencies, counts / 4)


def test_forward_steps_are_those_of_the_scan(rng):
    X = rng.standard_normal((300, 12))
    y = 2.0 * X[:, 4] + 2.0 * np.sign(X[:, 1] * X[:, 7]) + X[:, 9] + 0.5 * rng.standard_normal(300)
    data = table(X, y)
    steps = {f.column: f.step for f in analyse(data, Settings(halves=0, folds=0)).features if f.step}
    scan = InteractionScan().fit(X, y)
    assert sorted(steps) == sorted(scan.taken_) == [1, 4, 7, 9]
    (pair,) = (row for row in scan.pairs_ if row["step"])
    assert steps[1] == steps[7] == pair["step"]
    assert sorted({*steps.values()}) == [1, 2, 3]
    alone = analyse(data, Settings(halves=0, folds=0, pairs="none"))
    assert not any(f.step for f in alone.features)


def test_the_answer_does_not_depend_on_the_number_of_jobs(analysis):
    again = analyse(xor(), Settings(**QUICK), n_jobs=2)
    assert again.features == analysis.features
    np.testing.assert_array_equal(again.accuracy.selected, analysis.accuracy.selected)


def test_too_few_samples_for_halves_are_noted(rng):
    X = rng.standard_normal((7, 5))
    analysis = analyse(table(X, np.array(list("aaaabbb"))), Settings(halves=10, folds=5))
    assert analysis.stability is None
    assert any("No half-samples: a half would have 3 samples" in note for note in analysis.notes)
    assert any("3 folds instead of 5, the number of samples of class b." in note for note in analysis.notes)
    assert len(analysis.accuracy.selected) == 3


# ---------------------------------------------------------------- folds


def literal_scores(values, training):
    """Normal scores of one feature by midranks among its training values, which have no ties, scaled as in training."""

    def quantile(x):
        below, equal = sum(t < x for t in training), sum(t == x for t in training)
        return norm.ppf(np.clip((below + equal / 2) / len(training), 0.5 / len(training), 1 - 0.5 / len(training)))

    reference = np.array([quantile(t) for t in training])
    return (np.array([quantile(x) for x in values]) - reference.mean()) / reference.std()


def test_accuracy_equals_that_of_selection_and_balanced_ridge_regression_on_training_samples():
    """The model is the literal one, with the kernel and one of the penalties that the panel chooses from."""
    data = xor(120, 20)
    accuracy = analyse(data, Settings(halves=0, folds=3, top=2, seed=1)).accuracy
    splits = _resampling.split_folds(data, CLASSES, 3, 1)
    expected = []
    for train, test in splits:
        columns = RandSel(2).fit(data.X[train], data.y[train]).get_support(indices=True)
        Z = np.column_stack([literal_scores(data.X[:, j], data.X[train, j]) for j in columns])
        classes, counts = np.unique(data.y[train], return_counts=True)
        weights = np.array([len(train) / 2 / counts[list(classes).index(label)] for label in data.y[train]])
        Y = np.array([[label == c for c in classes] for label in data.y[train]], dtype=float)
        # the outcome is an interaction, which needs the Gaussian kernel
        path = RidgePath.fit(Z[train], Y, weights, "gaussian")
        predictions = [
            ridge_predictions(Z[train], Y, Z[test], path.penalty(r), weights, path.gamma) for r in _model.RIDGES
        ]
        expected.append([balanced_accuracy_score(data.y[test], classes[p.argmax(axis=1)]) for p in predictions])
    for score, of_penalties in zip(accuracy.selected, expected, strict=True):
        assert any(score == pytest.approx(other) for other in of_penalties)
    np.testing.assert_array_equal(accuracy.sizes, [2, 2, 2])


def test_selection_outside_the_folds_would_look_better(rng):
    """On noise, accuracy with selection inside the folds stays at chance; outside it would not."""
    data = table(rng.standard_normal((60, 500)), rng.permutation(60) % 2)
    accuracy = analyse(data, Settings(halves=0, folds=5, top=5)).accuracy
    best = RandSel(5).fit(data.X, data.y).get_support(indices=True)
    folds = _resampling.split_folds(data, CLASSES, 5, 0)
    outputs = [_resampling.predict_outputs(data, CLASSES, train, test, best) for train, test in folds]
    outside = [
        _resampling.score_outputs(data, CLASSES, test, of_fold)
        for (_, test), of_fold in zip(folds, outputs, strict=True)
    ]
    assert abs(accuracy.selected.mean() - 0.5) < 0.15
    assert np.mean(outside) > 0.7


def test_a_class_of_one_sample_has_no_cross_validation(rng):
    y = np.array(["a"] * 20 + ["b"] * 19 + ["c"])
    analysis = analyse(table(rng.standard_normal((40, 6)), y), Settings(halves=0))
    assert analysis.accuracy is None
    assert any("the number of samples of class c is 1" in note for note in analysis.notes)


def test_numbers_as_target(rng):
    X = rng.standard_normal((120, 15))
    analysis = analyse(table(X, 3.0 * X[:, 2] + 0.1 * rng.standard_normal(120)), Settings(halves=4, folds=3))
    assert analysis.kind == "regression"
    assert analysis.features[0].name == "g2"
    assert analysis.accuracy.measure == "R²"
    assert analysis.accuracy.chance == 0.0
    assert analysis.accuracy.selected.min() > 0.5


# ---------------------------------------------------------------- groups, batches, missing values


def donors(rng, effect=0.0, n_donors=12):
    """Return eight samples of each donor, half of the donors in each class; samples of a donor differ little."""
    donor = np.repeat(np.arange(n_donors), 8)
    y = np.where(donor % 2 == 0, "case", "control")
    X = rng.standard_normal((n_donors, 40))[donor] + 0.1 * rng.standard_normal((8 * n_donors, 40))
    X[:, 0] += effect * (y == "case")
    return table(X, y, groups=donor)


def test_samples_are_averaged_if_the_target_is_constant_within_donors(rng):
    noise = donors(rng)
    grouped = analyse(noise, Settings(halves=4, folds=3))
    assert any("96 samples are averaged to 12 groups" in note for note in grouped.notes)
    assert min(feature.q for feature in grouped.features) > 0.05
    # samples treated as independent make donors look like effects
    alone = analyse(replace(noise, groups=None), Settings(halves=0, folds=0))
    assert sum(feature.q <= 0.05 for feature in alone.features) > 5
    # enough donors that normal scores, which know ranks only, place new donors
    strong = analyse(donors(rng, effect=30.0, n_donors=36), Settings(halves=4, folds=3, top=2))
    assert strong.features[0].name == "g0"
    assert strong.accuracy.selected.mean() > 0.8


def test_folds_keep_groups_together(rng):
    data = donors(rng)
    for train, test in _resampling.split_folds(data, CLASSES, 3, 0):
        assert not set(data.groups[train]) & set(data.groups[test])


def test_means_of_groups_and_levels_of_categories():
    X = np.array([[1.0, 2.0], [3.0, 2.0], [5.0, 1.0], [0.0, 4.0], [1.0, 4.0], [1.0, 0.0], [2.0, 0.0], [7.0, 5.0]])
    groups = np.array(["a", "a", "a", "b", "b", "c", "c", "d"])
    y = np.array([1, 1, 1, 0, 0, 1, 1, 0])
    averaged = _preparation.average_groups(table(X, y, groups=groups, nominal=(1,), batch=np.array(list("uuuvvuuv"))))
    np.testing.assert_allclose(averaged.X, [[3.0, 2.0], [0.5, 4.0], [1.5, 0.0], [7.0, 5.0]])
    assert averaged.y.tolist() == [1, 0, 1, 0]
    assert averaged.batch[0] == averaged.batch[2] != averaged.batch[1] == averaged.batch[3]
    varies = table(X, np.arange(8) % 2, groups=groups)
    assert _preparation.average_groups(varies) is varies
    with pytest.raises(ValueError, match="fewer than 4 groups tell nothing"):
        _preparation.average_groups(table(X, (groups == "a").astype(int), groups=np.where(groups == "a", "a", "b")))


def test_tests_compare_within_batches():
    rng = np.random.default_rng(3)
    batch = np.repeat([0, 1], 60)
    y = (rng.random(120) < np.where(batch, 0.8, 0.2)).astype(int)
    X = rng.standard_normal((120, 10))
    X[:, 3] += 3.0 * batch
    without = analyse(table(X, y), Settings(halves=0, folds=0))
    assert "g3" in names(without)
    analysis = analyse(table(X, y, batch=batch), Settings(halves=0, folds=0))
    by_name = {feature.name: feature for feature in analysis.features}
    assert by_name["g3"].p > 0.05
    assert analysis.features[0].name != "g3"
    assert analysis.nothing_stands_out
    assert not names(analysis)
    assert any("between batches are removed" in note for note in analysis.notes)
    assert any("confounded" in warning for warning in analysis.warnings)


def test_culling_permutes_within_groups_and_batches(monkeypatch, rng):
    fitted = []
    real = RandSel.fit

    def spy(self, X, y, **more):
        fitted.append(more)
        return real(self, X, y, **more)

    monkeypatch.setattr(RandSel, "fit", spy)
    X, y = rng.standard_normal((60, 8)), rng.permutation(60) % 2
    groups, batch = np.arange(60) // 6, np.arange(60) // 30
    analyse(table(X, y, groups=groups, batch=batch), Settings(halves=0, folds=0))
    np.testing.assert_array_equal(fitted[0]["groups"], groups)
    np.testing.assert_array_equal(fitted[0]["batch"], batch)


def test_culling_that_stands_out_while_no_feature_does_gives_a_warning(rng):
    data = xor()
    path = RandSel().fit(data.X, data.y).path_
    tests = FeatureTests(np.full(30, 0.4), np.full(30, 0.9), np.full(30, -1), np.zeros(30, dtype=int), None)
    (warning,) = check_selection(replace(data, groups=np.arange(200) // 2), path, tests, path.order[:2])
    assert "no feature is significant when compared within or between groups" in warning
    assert not list(check_selection(data, path, tests, path.order[:2]))


@pytest.mark.parametrize("n_pairs", [0, 1, 15])
def test_tests_of_halves_and_folds_have_the_p_values_of_all_pairs(rng, monkeypatch, n_pairs):
    X = rng.standard_normal((300, 40))
    signal = sum((X[:, 2 * k] * X[:, 2 * k + 1] for k in range(n_pairs)), np.zeros(300))
    data = table(X, (signal + rng.standard_normal(300) > 0).astype(int))
    sizes, scan = [], _selection.InteractionScan
    monkeypatch.setattr(_selection, "InteractionScan", lambda **how: sizes.append(how["n_pairs"]) or scan(**how))
    few = _selection.run_tests_quietly(data, CLASSES, Settings())
    expected = _selection.run_tests(data, CLASSES, Settings(), _selection.Execution())
    np.testing.assert_array_equal(few.p, expected.p)
    assert sizes == [80, None]


def test_a_feature_that_determines_the_target_leaves_no_pairs_to_test(rng):
    X = rng.standard_normal((20, 12))
    tests = _selection.run_tests_quietly(table(X, X[:, 0]), NUMBERS, Settings())
    assert len(tests.pairs) == 0
    assert tests.q[0] < 1e-9


def test_many_significant_pairs_are_all_tested(rng, monkeypatch):
    """Every pair of 14 features interacts, more than the few pairs that are tested at first."""
    X = rng.standard_normal((500, 14))
    data = table(X, X.sum(axis=1) ** 2 + 0.1 * rng.standard_normal(500))
    sizes, scan = [], _selection.InteractionScan
    monkeypatch.setattr(_selection, "InteractionScan", lambda **how: sizes.append(how["n_pairs"]) or scan(**how))
    _selection.run_tests_quietly(data, NUMBERS, Settings())
    assert sizes == [28, None]


def test_a_selected_clinical_column_raises_a_warning(rng):
    X, y = rng.standard_normal((60, 30)), np.repeat(["case", "control"], 30)
    X[:, 3] += 3.0 * (y == "case")
    names = tuple("Age, years" if j == 3 else f"g{j}" for j in range(30))
    table, settings = Table(X, y, names), {"halves": 0, "folds": 0, "top": 1, "pairs": "none"}
    (warning,) = analyse(table, Settings(**settings)).warnings
    assert warning.startswith("A selected feature looks like a property of samples, not a measurement: Age, years.")
    assert "--covariates '\"Age, years\"'" in warning
    # not if the user has confirmed it, if it is not selected, or if most columns are clinical
    assert not analyse(table, Settings(**settings), about={"parameters": {"features": ["Age, years"]}}).warnings
    assert not analyse(table, Settings(**settings, keep=("Age, years",))).warnings
    unselected = (*names[:3], "g3", "Age, years", *names[5:])
    assert not analyse(replace(table, names=unselected), Settings(**settings)).warnings
    clinical = tuple(f"weight {j}" for j in range(30))
    assert not analyse(replace(table, names=clinical), Settings(**settings)).warnings


def test_a_batch_equal_to_the_target_gives_a_warning(rng):
    y = np.repeat([0, 1], 30)
    analysis = analyse(table(rng.standard_normal((60, 8)), y, batch=y), Settings(halves=0, folds=0))
    assert any("no comparison within batches is possible" in warning for warning in analysis.warnings)


def test_medians_are_those_of_training_samples(monkeypatch):
    data = xor(80, 10)
    X = data.X.copy()
    X[::7, 3] = np.nan
    data = replace(data, X=X, missing="median")
    fitted, real = [], _preparation.imputer

    def spy():
        step = real()
        original = step.fit
        step.fit = lambda values: (fitted.append(len(values)), original(values))[1]
        return step

    monkeypatch.setattr(_preparation, "imputer", spy)
    analysis = analyse(data, Settings(halves=2, folds=2))
    assert sorted(fitted) == [39, 39, 40, 40, 80]  # halves of equal classes, folds, all
    assert any("take the medians of all samples" in note for note in analysis.notes)


def with_gaps(rng, rows=160, columns=12):
    data = xor(rows, columns)
    X = data.X.copy()
    X[:, 5] = X[:, 0] + 0.1 * rng.standard_normal(rows)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[: rows // 2 + 10, 7] = np.nan
    return replace(data, X=X)


NOT_RANKED = "1 column is not ranked or tested, because more than half of the values are missing: g7."


@pytest.mark.parametrize("pairs", ["all", "none"])
def test_missing_values_are_neutral(rng, pairs):
    data = with_gaps(rng)
    analysis = analyse(data, Settings(halves=2, folds=2, top=2, pairs=pairs))
    assert analysis.features[-1].name == "g7"
    counts = np.isnan(data.X).sum(axis=0)
    assert [feature.missing for feature in analysis.features] == [counts[f.column] for f in analysis.features]
    assert NOT_RANKED in analysis.notes
    assert not any("missing" in warning for warning in analysis.warnings)
    assert {feature.column for feature in analysis.features[:3]} == {0, 1, 5}
    assert [feature.p for feature in analysis.features if feature.column == 7] == [1.0]
    assert analysis.accuracy.selected.mean() > 0.5
    assert np.isfinite([feature.p for feature in analysis.features]).all()


def test_means_of_groups_skip_missing_values(rng):
    data = with_gaps(rng)
    twice = data.rows(np.repeat(np.arange(160), 2))
    X = twice.X.copy()
    X[::2][rng.random((160, 12)) < 0.5] = np.nan  # the other sample of the group has the value
    settings = Settings(halves=0, folds=0, top=2)
    grouped = analyse(replace(twice, X=X, groups=np.repeat(np.arange(160), 2)), settings)
    plain = analyse(data, settings)
    assert [f.column for f in grouped.features] == [f.column for f in plain.features]
    np.testing.assert_allclose([f.p for f in grouped.features], [f.p for f in plain.features], rtol=1e-6)
    assert NOT_RANKED in grouped.notes


@pytest.mark.parametrize("bad", [{"top": 0}, {"fdr": 2.0}, {"halves": 1}, {"folds": 1}])
def test_invalid_settings_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        Settings(**bad)


def test_a_significant_pair_that_is_not_selected_gives_a_warning(rng):
    X = rng.standard_normal((300, 12))
    y = np.where((X[:, 0] > 0) ^ (X[:, 1] > 0), 1.0, -1.0) + 4.0 * X[:, 5]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        analysis = analyse(table(X, y), Settings(top=1, halves=0, folds=0))
    assert names(analysis) == ["g5"]
    assert any("A pair stands out" in warning and "g0 with g1" in warning for warning in analysis.warnings)
