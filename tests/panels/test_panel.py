"""Panels: predictions of new samples, absent columns, stand-ins, covariates, batches, missing values."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from panel_tables import frame_of, make_panel, make_table

from randsel import Panel
from randsel.analysis import Settings, analyse
from randsel.panels import apply_panel, fit_panel, write_panel
from randsel.panels._results import contents
from randsel.prediction import MAX_POINTS, Covariate, score_columns, take_points


@pytest.mark.parametrize("kind", ["classification", "three", "regression", "survival"])
def test_new_samples_are_predicted(kind):
    panel, new = (
        make_panel(make_table(kind), task="classification" if kind == "three" else "auto"),
        make_table(kind, seed=1),
    )
    score = panel.score(frame_of(new), new.y)
    assert score > {"classification": 0.85, "three": 0.7, "regression": 0.8, "survival": 0.7}[kind]
    assert panel.features_ == ("a", "b")
    if kind in ("classification", "three"):
        probabilities = panel.predict_proba(frame_of(new))
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
        ratios = probabilities / panel.calibration.thresholds
        assert np.array_equal(panel.classes_[ratios.argmax(axis=1)], panel.predict(frame_of(new)))
        log_loss = -np.log(probabilities[np.arange(80), np.searchsorted(panel.classes_, new.y)]).mean()
        assert log_loss < 0.6 * np.log(len(panel.classes_))
    else:
        with pytest.raises(AttributeError, match="no classes"):
            panel.classes_  # noqa: B018
        with pytest.raises(AttributeError, match="no probabilities"):
            panel.predict_proba(frame_of(new))


def test_columns_may_be_in_any_order_and_in_any_container(panel):
    new = make_table(seed=1)
    expected = panel.predict_proba(frame_of(new))
    frame = pd.DataFrame({"x": "text", "b": new.X[:, 1], "a": new.X[:, 0]})
    assert np.array_equal(panel.predict_proba(frame), expected)
    assert np.array_equal(panel.predict_proba(new.X[:, :2]), expected)
    np.testing.assert_allclose(panel.predict_proba(frame.iloc[:1]), expected[:1])
    with pytest.raises(ValueError, match=r"needs the 2 features of the panel as columns"):
        panel.predict(new.X)
    with pytest.raises(ValueError, match="column 'a' holds text"):
        panel.predict({"a": ["x"], "b": [1.0]})
    with pytest.raises(ValueError, match="column 'b' holds infinite values"):
        panel.predict({"a": [1.0], "b": [np.inf]})


def test_absent_features_are_replaced_only_if_that_is_allowed(panel):
    new = make_table(seed=1)
    columns = {"b": new.X[:, 1], "copy": new.X[:, 4]}
    with pytest.raises(
        ValueError, match=r"1 of 2 features of the panel are absent: a. Check their names.*\(allow_missing=True\)"
    ):
        panel.predict(columns)
    with pytest.warns(UserWarning, match=r"a is absent; copy replaces it \(r 0.9"):
        replaced = panel.predict(columns, allow_missing=True)
    assert np.mean(replaced == panel.predict(frame_of(new))) > 0.9
    with pytest.warns(UserWarning, match=r"1 of 2 features is absent without a stand-in, and treated as average"):
        neutral = panel.predict_proba({"b": new.X[:, 1]}, allow_missing=True)
    missing = panel.predict_proba({"a": np.full(80, np.nan), "b": new.X[:, 1]})
    np.testing.assert_allclose(neutral, missing)
    with pytest.raises(ValueError, match="all features of the panel and all stand-ins are absent"):
        panel.predict({"c": new.X[:, 2]}, allow_missing=True)


def test_cells_that_training_read_as_missing_are_missing_in_a_frame_too():
    panel = make_panel(make_table(), about={"parameters": {"na": ["ND", "-999"]}})
    assert panel.about["na"] == ["ND", "-999"]
    columns = frame_of(make_table(seed=1, m=4))
    gap = panel.predict_proba({**columns, "a": [np.nan, np.nan, 0.5, 1.0]})
    assert np.array_equal(panel.predict_proba({**columns, "a": ["ND", "-999", 0.5, 1]}), gap)
    assert np.array_equal(panel.predict_proba({**columns, "a": np.array([-999, np.nan, 0.5, 1])}), gap)
    array = np.column_stack([[-999, np.nan, 0.5, 1], columns["b"]])
    assert np.array_equal(panel.predict_proba(array), gap)


def test_logarithms_of_training_are_taken_of_a_frame_too():
    table, new = make_table(), make_table(seed=1)
    table.X[:, 1], new.X[:, 1] = np.exp2(table.X[:, 1] / 20), np.exp2(new.X[:, 1] / 20)
    table.X[:, 0], new.X[:, 0] = np.exp2(table.X[:, 0]), np.exp2(new.X[:, 0])
    logs = table.__class__(np.log2(np.maximum(table.X, 1e-3)), table.y, table.names, log2=True)
    panel, plain = make_panel(logs), make_panel(table)
    frame = frame_of(new)
    assert panel.about["log2"]
    # ranks do not change when logarithms are taken
    np.testing.assert_allclose(panel.predict_proba(frame), plain.predict_proba(frame), atol=0.02)
    negative = {**frame, "a": -frame["a"]}
    with pytest.warns(UserWarning, match=r"50% of the new values are negative, and have no logarithm"):
        panel.predict(negative)
    with pytest.warns(UserWarning, match=r"have no logarithm, which training took"):
        panel.predict({name: np.log2(np.maximum(values, 1e-3)) for name, values in frame.items()})


def test_ranks_within_the_new_samples_remove_another_scale(panel):
    new = make_table(seed=1)
    other = {"a": np.exp(new.X[:, 0] / 2) + 7, "b": 3 * new.X[:, 1] - 200}
    with pytest.warns(UserWarning, match=r"The medians of 2 of 2 features differ from the training medians"):
        assert panel.score(other, new.y) < 0.7
    assert panel.score(other, new.y, rescale=True) > 0.85
    with pytest.raises(ValueError, match="3 samples are too few to scale features by their own distribution"):
        panel.predict({name: values[:3] for name, values in other.items()}, rescale=True)


def test_a_saved_panel_predicts_the_same(panel, tmp_path):
    new = frame_of(make_table(seed=1))
    write_panel(panel, tmp_path / "panel.json")
    for path in (tmp_path, tmp_path / "panel.json", str(tmp_path)):
        assert np.array_equal(Panel.load(path).predict_proba(new), panel.predict_proba(new))
    before = (tmp_path / "panel.json").read_bytes()
    write_panel(Panel.load(tmp_path), tmp_path / "panel.json")
    assert (tmp_path / "panel.json").read_bytes() == before
    assert "2 features for classification" in panel.describe()
    assert repr(panel).endswith(" a, b>")


@pytest.mark.parametrize("kind", ["regression", "survival", "three"])
def test_panels_of_all_kinds_are_saved(kind, tmp_path):
    panel, new = make_panel(make_table(kind)), frame_of(make_table(kind, seed=1))
    write_panel(panel, tmp_path / "panel.json")
    assert np.array_equal(Panel.load(tmp_path).predict(new), panel.predict(new))


def test_effects_of_covariates_are_removed_from_new_samples(tmp_path):
    rng = np.random.default_rng(3)
    age, sex = rng.uniform(20, 80, 80), np.array(["f", "m"])[rng.integers(2, size=80)]
    table = make_table(covariates={"age": age, "sex": sex})
    shifted = table.X + np.outer(age / 20, [1, 10, 0, 0, 1]) + np.outer(sex == "m", [2, 0, 0, 0, 2])
    panel = make_panel(
        make_table(covariates={"age": age, "sex": sex}).__class__(
            shifted, table.y, table.names, covariates={"age": age, "sex": sex}
        )
    )
    write_panel(panel, tmp_path / "panel.json")
    panel = Panel.load(tmp_path)
    new = make_table(seed=1)
    values = new.X + np.outer(age[::-1] / 20, [1, 10, 0, 0, 1]) + np.outer(sex[::-1] == "m", [2, 0, 0, 0, 2])
    columns = {name: values[:, j] for j, name in enumerate(new.names)}
    assert panel.score({**columns, "age": age[::-1], "sex": sex[::-1]}, new.y) > 0.8
    with pytest.raises(
        ValueError, match=r"the effects of age, sex were removed from the features of the panel, so new samples need"
    ):
        panel.predict(columns)
    with pytest.raises(ValueError, match=r"'sex' holds 'x', and training samples had only 'f', 'm'"):
        panel.predict({**columns, "age": age, "sex": np.full(80, "x")})
    with pytest.raises(ValueError, match="'age' is a number in the panel, but text here"):
        panel.predict({**columns, "age": sex, "sex": sex})
    with pytest.raises(ValueError, match="'age' is not known for all samples"):
        panel.predict({**columns, "age": np.full(80, np.nan), "sex": sex})


def test_levels_that_are_numbers_are_compared_as_text():
    assert Covariate.from_values("plate", np.array(["1", "2"])).design(np.array([2.0, 1.0])).tolist() == [
        [0, 1],
        [1, 0],
    ]


def test_batches_are_removed_from_the_training_samples_and_recorded():
    batch = np.repeat([0, 1], 40)
    table = make_table(batch=batch)
    moved = table.__class__(table.X + 30.0 * batch[:, None], table.y, table.names, batch=batch)
    assert make_panel(moved).about["batch"] is True
    constant = table.__class__(table.X, np.where(batch, "x", "z"), table.names, batch=batch)
    assert make_panel(constant).about["batch"] is False


def test_missing_values_count_as_average_or_as_the_median():
    table = make_table()
    table.X[::7, 0] = np.nan
    new = {"a": np.array([np.nan, 0.5]), "b": np.array([55.0, 55.0])}
    neutral = make_panel(table)
    scores = neutral.prepare(new).scores
    assert scores[0, 0] == 0.0
    assert scores[1, 0] != 0.0
    panel = make_panel(table.__class__(table.X, table.y, table.names, missing="median"))
    assert panel.about["missing"] == "median"
    median = np.nanmedian(table.X[:, 0])
    expected = panel.predict_proba({"a": [median, 0.5], "b": [55.0, 55.0]})
    np.testing.assert_allclose(panel.predict_proba(new), expected)


def test_an_indicator_of_missing_values_is_made_from_its_column():
    table = make_table()
    gone = table.y == "case"
    X = np.column_stack([table.X, gone])
    panel = make_panel(
        table.__class__(X, table.y, (*table.names, "c missing")),
        about={"parameters": {"missing": "indicator"}},
        keep=("c missing",),
        top=1,
    )
    assert panel.columns()[0] == "c"
    assert panel.predict({"c": [np.nan, 1.0]}).tolist() == ["case", "control"]


def test_probabilities_are_calibrated_by_samples_that_the_selection_did_not_see():
    table, settings = make_table(), {"halves": 0, "pairs": "none", "top": 2}
    assert fit_panel(analyse(table, Settings(folds=3, **settings))).calibration.nested
    assert not fit_panel(analyse(table, Settings(folds=0, **settings))).calibration.nested


def test_probabilities_of_noise_are_those_of_the_classes():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((60, 300)), np.repeat(["a", "b"], 30)
    table = make_table().__class__(X, y, tuple(f"g{j}" for j in range(300)))
    panel = fit_panel(analyse(table, Settings(halves=0, folds=5, pairs="none", top=10)))
    probabilities = panel.predict_proba(rng.standard_normal((200, 10)))
    assert np.abs(probabilities - 0.5).max() < 0.35


def test_a_rare_class_is_predicted_above_its_threshold():
    rng = np.random.default_rng(0)
    y = np.repeat(["rare", "usual"], [27, 82])
    X = rng.standard_normal((109, 3)) + np.outer(y == "usual", [0.9, 0.0, 0.0])
    table = make_table().__class__(X, y, ("a", "b", "c"))
    panel = make_panel(table, keep=("a",), top=1)
    probability = panel.predict_proba(X[:, :1])[:, 1]
    threshold = panel.calibration.thresholds[1]
    assert 0.6 < threshold < 0.9
    assert np.array_equal(panel.predict(X[:, :1]) == "usual", probability > threshold)
    assert f"usual is predicted if its probability is above {threshold:.2f}" in panel.describe_decision()
    recalls = [(panel.predict(X[:, :1])[y == label] == label).mean() for label in ("rare", "usual")]
    assert abs(recalls[0] - recalls[1]) < 0.25
    assert probability.mean() == pytest.approx(82 / 109, abs=0.03)


@pytest.mark.parametrize("kind", ["classification", "three", "regression", "survival"])
def test_the_accuracy_that_is_quoted_is_that_of_panels_fitted_to_the_folds(kind):
    table = make_table(kind)
    settings = {"keep": ("a", "b"), "top": 2, "halves": 0, "pairs": "none"}
    settings["task"] = "classification" if kind == "three" else "auto"
    analysis = analyse(table, Settings(folds=3, **settings))
    folds = analysis.outcome.splits(analysis.table.y, None, 3, 0)
    for number, (train, test) in enumerate(folds):
        panel = fit_panel(analyse(table.rows(train), Settings(folds=0, **settings)))
        expected = panel.score(table.X[test, :2], analysis.table.y[test])
        assert analysis.accuracy.selected[number] == pytest.approx(expected)
        curve = analysis.panel_sizes
        assert curve.scores[number, curve.sizes.tolist().index(2)] == pytest.approx(expected)


def test_labels_of_categories_are_encoded_as_in_training():
    rng = np.random.default_rng(0)
    codes, levels = rng.integers(3, size=80), ("blue", "green", "red")
    y = np.where((codes == 2) ^ (rng.random(80) < 0.1), "case", "control")
    X = np.column_stack([codes, rng.standard_normal(80)]).astype(float)
    table = make_table().__class__(X, y, ("colour", "n"), nominal=(0,), levels={"colour": levels})
    panel = make_panel(table, keep=("colour",), top=1)
    assert panel.levels() == {"colour": levels}
    predicted = panel.predict_proba(pd.DataFrame({"colour": ["red", "green", None]}))
    np.testing.assert_allclose(predicted, panel.predict_proba(np.array([[2.0], [1.0], [np.nan]])))
    with pytest.raises(ValueError, match=r"'colour' holds 'pink', which is not one of the categories of training"):
        panel.predict({"colour": ["pink"]})


def test_a_single_sample_of_a_class_gives_the_frequencies():
    table = make_table()
    y = np.array(["rare", *["common"] * 79])
    panel = make_panel(table.__class__(table.X, y, table.names), folds=0)
    np.testing.assert_allclose(panel.calibration.probabilities(np.zeros((1, 2)))[0], [79 / 80, 1 / 80])


def test_no_feature_and_too_many_features_are_refused():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 1100)), np.repeat(["a", "b"], 10)
    table = make_table().__class__(X, y, tuple(f"g{j}" for j in range(1100)))
    analysis = analyse(table, Settings(halves=0, folds=0, pairs="none", top=1100))
    with pytest.raises(ValueError, match="a panel has 1 to 1000 features, but 1100 are selected"):
        fit_panel(analysis)


def test_points_of_many_samples_are_order_statistics():
    values = np.random.default_rng(0).standard_normal(5000)
    points = take_points(values[:, None])[0]
    assert len(points) == MAX_POINTS
    assert points[0] == values.min()
    assert points[-1] == values.max()
    exact, approximate = (score_columns(values[:, None], [p])[:, 0] for p in (np.sort(values), points))
    assert np.abs(exact - approximate)[np.abs(exact) < 2].max() < 0.05


def test_a_panel_of_requested_features_says_that_they_are_no_finding():
    noise = make_table()
    noise = replace(noise, y=np.random.default_rng(5).permutation(noise.y))
    for table, findings in ((make_table(), True), (noise, False)):
        panel = make_panel(table, keep=(), top=2)
        assert panel.about["findings"] is findings
        warnings = apply_panel(panel, make_table(seed=1)).warnings
        assert any("nothing stood out" in warning for warning in warnings) is not findings


def test_a_panel_that_predicts_no_better_than_chance_is_warned_of():
    table, new = make_table(), make_table(seed=1)
    noise = replace(table, y=np.random.default_rng(5).permutation(table.y))
    for training, guesses in ((table, False), (noise, True)):
        panel = make_panel(training)
        assert panel.about["guesses"] is guesses
        warnings = apply_panel(panel, new).warnings
        assert any("not predicted better than chance" in text for text in warnings) is guesses
    flat = replace(panel, calibration=replace(panel.calibration, slope=0.0))
    assert any("so all samples have the same probabilities." in text for text in apply_panel(flat, new).warnings)
    assert np.ptp(flat.predict_proba(frame_of(new)), axis=0).max() == 0.0
    assert make_panel(noise, folds=0).about["guesses"] is False  # not measured


def test_names_of_samples_and_classes_that_look_like_numbers_are_shown_as_they_are():
    table = make_table("three", ids=np.array([f"{k}.1000" for k in range(80)]))
    table = replace(table, y=np.array(["0.2500", "1.2500", "2.2500"])[table.y.astype(int)])
    shown = contents(apply_panel(make_panel(table), table, about={"data": "new.csv"}))["predictions"]
    assert [row["sample"] for row in shown] == [*table.ids]
    assert [row["observed"] for row in shown] == [*table.y]
    assert all(f"probability of {row['predicted']}" in row for row in shown)
