"""One cell of nested cross-validation: folds, choice and test, and that nothing leaks."""

from dataclasses import replace

import numpy as np
import pytest
from comparisons import small_spec, tables_of

from randsel import KernelRFE
from randsel._utils.choices import METHODS
from randsel.experiments import _cells, _run
from randsel.tables._read import Table
from randsel.targets._kinds import CLASSES, NUMBERS, Classes


def grouped_table(rng):
    X, y = rng.normal(size=(48, 6)), np.repeat([0, 1], 24)
    X[:, 0] += y
    return Table(X, y, tuple("abcdef"), np.arange(48) // 2)


def test_a_cell_is_what_it_says_by_hand():
    """One outer fold: split, prediction, accuracy, precision and recall from the features it names."""
    spec = small_spec()
    (table,) = tables_of(spec).values()
    cell = next(c for c in _cells.build_cells(spec, {"xor": table})[0] if c.method == "Corr. Coeff.")
    result = _cells.evaluate(cell, table)
    train, test = CLASSES.splits(table.y, None, 3, 0)[0]
    assert not set(train) & set(test)
    assert result["n_features"] == len(result["features"])
    predicted = CLASSES.predict_held_out(
        table.X, table.y, train, test, np.array(list(map(int, result["features"]))), result["gamma"]
    )
    assert result["accuracy"] == np.mean(predicted == table.y[test])
    hits = len({"0", "1"} & set(result["features"]))
    assert result["recall"] == hits / 2
    assert result["precision"] == hits / result["n_features"]


def test_the_curve_is_of_the_score_that_ranks_methods(rng):
    """Classes of unequal size, whose accuracy and balanced accuracy differ."""
    X, y = rng.normal(size=(60, 4)), (np.arange(60) % 4 == 0).astype(int)
    X[:, 0] += 1.5 * y
    spec = small_spec(data=({"name": "xor"},), methods=({"name": "Corr. Coeff."},))
    cell = replace(_cells.build_cells(spec, {"xor": Table(X, y, tuple("abcd"))})[0][0], gammas=("median",))
    train = CLASSES.splits(y, None, 3, 0)[0][0]
    inner, recalls = CLASSES.splits(y[train], None, 3, 1), []
    for fit, held in inner:
        (order,) = _cells._rankings(cell, X[train][fit], y[train][fit], ("median",))
        predicted = CLASSES.predict_held_out(X[train], y[train], fit, held, order[:1], "median")
        recalls.append(np.mean([np.mean(predicted[y[train][held] == label] == label) for label in (0, 1)]))
    assert _cells.evaluate(cell, Table(X, y, tuple("abcd")))["curve"]["1"] == pytest.approx(np.mean(recalls))


def test_nothing_of_the_test_samples_reaches_the_choice(rng):
    table = grouped_table(rng)
    spec = small_spec(data=({"name": "xor"},), methods=({"name": "Corr. Coeff."},))
    cell = _cells.build_cells(spec, {"xor": table})[0][0]
    _, test = CLASSES.splits(table.y, table.groups, 3, 0)[0]
    X = table.X.copy()
    X[test] = 1e3 * rng.normal(size=X[test].shape)
    here, there = _cells.evaluate(cell, table), _cells.evaluate(cell, replace(table, X=X))
    for name in ("features", "gamma", "curve"):
        assert here[name] == there[name]


def test_inner_folds_rank_on_their_own_samples_and_keep_groups(rng, monkeypatch):
    table = grouped_table(rng)
    spec = small_spec(data=({"name": "xor"},), methods=({"name": "Corr. Coeff."},))
    cell = _cells.build_cells(spec, {"xor": table})[0][0]
    ranked, split = [], []
    rankings, splits = _cells._rankings, CLASSES.splits
    monkeypatch.setattr(_cells, "_rankings", lambda c, X, y, g: ranked.append(len(X)) or rankings(c, X, y, g))
    monkeypatch.setattr(Classes, "splits", lambda self, y, groups, *a: split.append(groups) or splits(y, groups, *a))
    _cells.evaluate(cell, table)
    train = len(table.X) - len(splits(table.y, table.groups, 3, 0)[0][1])
    assert ranked[-1] == train
    assert all(rows < train for rows in ranked[:-1])
    assert all(groups is not None for groups in split)


def test_a_prediction_depends_on_no_other_test_sample(rng):
    table = grouped_table(rng)
    train, test = CLASSES.splits(table.y, table.groups, 3, 0)[0]
    columns = np.arange(6)
    alone = [
        CLASSES.predict_held_out(table.X, table.y, train, test[[at]], columns, "median")[0] for at in range(len(test))
    ]
    X = table.X.copy()
    X[test[1:]] *= 100.0
    assert CLASSES.predict_held_out(X, table.y, train, test, columns, "median")[0] == alone[0]
    assert list(CLASSES.predict_held_out(table.X, table.y, train, test, columns, "median")) == alone


def test_what_determines_a_cell_names_it():
    spec = small_spec()
    (table,) = tables_of(spec).values()
    cell = _cells.build_cells(spec, {"xor": table})[0][0]
    changed = [
        replace(cell, seed=1),
        replace(cell, fold=1),
        replace(cell, params={"drop": 0.5}),
        replace(cell, fingerprint=_cells.hash_table(replace(table, X=table.X + 1e-9))),
        replace(cell, fingerprint=_cells.hash_table(replace(table, names=tuple("stuvwxyz")))),
    ]
    assert len({cell.key, *(other.key for other in changed)}) == 6


def test_groups_stay_together_and_small_classes_reduce_the_folds(rng):
    X, y = rng.normal(size=(24, 5)), np.repeat([0, 1], 12)
    groups = np.arange(24) // 3
    table = Table(X, y, tuple("abcde"), groups)
    assert _cells.number_of_folds(table, CLASSES, 10) == 4
    for train, test in CLASSES.splits(y, groups, 4, 0):
        assert not set(groups[train]) & set(groups[test])
    cells, notes = _cells.build_cells(small_spec(data=({"name": "xor"},), folds=10), {"xor": table})
    assert "4 folds instead of 10" in notes[0]
    assert len(cells) == 2 * 2 * 4
    for members in (1, 2):
        few = Table(X[: 12 + members], y[: 12 + members], tuple("abcde"))
        with pytest.raises(ValueError, match="class 1 is left with 1 samples; nested folds need three"):
            _cells.build_cells(small_spec(), {"xor": few})


def numeric_table(rng, n=40):
    X = rng.normal(size=(n, 6))
    return Table(X, 10.0 * X[:, 0] + rng.normal(size=n), tuple("abcdef"), relevant=np.array([0]))


def test_a_cell_of_numbers_by_hand(rng):
    table = numeric_table(rng)
    spec = small_spec(data=({"name": "xor"},), methods=({"name": "F-test"},))
    cell = _cells.build_cells(spec, {"xor": table})[0][0]
    result = _cells.evaluate(cell, table)
    train, test = NUMBERS.splits(table.y, None, 3, 0)[0]
    columns = np.array(["abcdef".index(name) for name in result["features"]])
    assert 0 in columns
    predicted = NUMBERS.predict_held_out(table.X, table.y, train, test, columns, result["gamma"])
    residuals = np.sum((table.y[test] - predicted) ** 2)
    assert result["r2"] == pytest.approx(1 - residuals / np.sum((table.y[test] - table.y[test].mean()) ** 2))
    assert "accuracy" not in result
    assert result["recall"] == 1.0


@pytest.mark.parametrize("method", METHODS)
def test_every_method_takes_numbers(rng, method):
    table = numeric_table(rng)
    params = {"n_bootstraps": 200} if "bootstrap" in method else {}
    spec = small_spec(data=({"name": "xor"},), methods=({"name": method, "params": params},))
    cell = _cells.build_cells(spec, {"xor": table})[0][0]
    assert cell.params["target"] == "regression"
    assert _cells.evaluate(cell, table)["r2"] > 0.5


def test_a_method_without_bandwidth_ranks_once(rng, monkeypatch):
    table = grouped_table(rng)
    fits, fit = [], KernelRFE.fit
    monkeypatch.setattr(KernelRFE, "fit", lambda self, X, y: fits.append(self.kernel) or fit(self, X, y))
    gammas = ("0.25*median", "median")
    spec = small_spec(data=({"name": "xor"},), methods=({"name": "SVM-RFE"}, {"name": "RFE"}), gammas=gammas)
    for cell in _cells.build_cells(spec, {"xor": table})[0][::6]:
        _cells.evaluate(cell, table)
    assert fits == ["linear"] * 4 + ["gaussian"] * 7


def test_a_cell_of_noise_is_scored_without_a_warning(rng):
    table = Table(rng.normal(size=(40, 6)), np.arange(40) % 2, tuple("abcdef"))
    cell = _cells.build_cells(small_spec(data=({"name": "xor"},)), {"xor": table})[0][0]
    assert cell.method == "randSel"
    assert _cells.evaluate(cell, table)["accuracy"] < 0.8


def test_folds_of_numbers_have_two_samples_to_test(rng):
    table = numeric_table(rng, 11)
    assert _cells.number_of_folds(table, NUMBERS, 10) == 5
    cells, notes = _cells.build_cells(small_spec(data=({"name": "xor"},), folds=10), {"xor": table})
    assert notes == ["xor: 5 folds instead of 10, so that each has two to test."]
    assert all(len(test) >= 2 for _, test in NUMBERS.splits(table.y, None, 5, 0))
    assert np.isfinite(_cells.evaluate(cells[0], table)["r2"])
    donors = replace(table, groups=np.arange(11) // 3)
    with pytest.raises(ValueError, match="a fold is left with 2 groups; nested folds of numbers need eight"):
        _cells.build_cells(small_spec(), {"xor": donors})


def test_numbers_are_refused_as_classes_and_the_task_is_no_parameter(rng):
    with pytest.raises(ValueError, match="40 different numbers, which are not classes; use the task regression"):
        _cells.build_cells(small_spec(task="classification"), {"xor": numeric_table(rng)})
    spec = small_spec(methods=({"name": "RFE", "params": {"target": "regression"}},))
    with pytest.raises(ValueError, match="set the kind of target by `task`, not by a parameter of RFE"):
        _cells.build_cells(spec, tables_of(spec))


def test_medians_are_those_of_training_samples(tmp_path):
    spec = small_spec(methods=({"name": "Corr. Coeff."},), reshuffles=1)
    (table,) = tables_of(spec).values()
    X = table.X.copy()
    X[::5, 3] = np.nan
    neutral = _run.run_comparison(spec, {"xor": replace(table, X=X)}, tmp_path / "neutral")
    assert not neutral.errors
    assert len(neutral.results) == 3
    gaps = replace(table, X=X, missing="median")
    outcome = _run.run_comparison(spec, {"xor": gaps}, tmp_path / "out")
    assert not outcome.errors
    assert len(outcome.results) == 3
    train = np.arange(0, 40)
    filled = _cells._impute(gaps, train)
    assert filled[0, 3] == np.nanmedian(X[:40, 3]) != np.nanmedian(X[:, 3])
    assert filled[45, 3] == filled[0, 3]
    # what is selected in a fold does not change with the samples that are left out of it
    cell = outcome.cells[0]
    held = CLASSES.splits(table.y, None, 3, cell.seed)[cell.fold][1]
    other = X.copy()
    other[np.ix_(held, [3])] += 100.0
    chosen = [_cells.evaluate(cell, replace(gaps, X=values))["features"] for values in (X, other)]
    assert chosen[0] == chosen[1]
    with pytest.raises(ValueError, match="column '3' and 0 others have infinite values"):
        _run.run_comparison(spec, {"xor": replace(gaps, X=np.where(np.isnan(X), np.inf, X))}, tmp_path / "out")
