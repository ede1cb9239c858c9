import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from randsel import datasets
from randsel.cli._main import main
from randsel.experiments import _nested_cv as experiment
from randsel.experiments import _summary as summary
from randsel.experiments._nested_cv import Spec
from randsel.tables._read import Table
from randsel.targets._kinds import CLASSES, Classes


def small_spec(**options):
    defaults = {
        "name": "small",
        "data": ({"name": "xor", "make": "make_xor", "n_samples": 60, "n_features": 8, "random_state": 3},),
        "methods": ({"name": "randSel"}, {"name": "Corr. Coeff."}),
        "gammas": ("median",),
        "folds": 3,
        "reshuffles": 2,
    }
    return Spec(**{**defaults, **options})


def tables_of(spec):
    return {entry["name"]: experiment.load_table(entry, Path()) for entry in spec.data}


@pytest.fixture
def run(tmp_path):
    def go(spec, out=tmp_path / "out", **options):
        return experiment.run(spec, tables_of(spec), out, **options)

    return go


def test_every_cell_once_and_a_table_at_the_end(run, tmp_path):
    spec = small_spec()
    outcome = run(spec)
    assert len(outcome.cells) == len(outcome.results) == 12
    assert not outcome.errors
    assert len(list((tmp_path / "out").glob("[0-9a-f]*.json"))) == 12
    text = summary.write_tables(spec, outcome, tmp_path / "out", "heading")
    assert "| xor | randSel |" in text
    assert (tmp_path / "out" / "table.csv").read_text().startswith("data,method,")
    rows = {row["method"]: row for row in summary.summarise(spec, outcome)}
    found = [r for c, r in ((c, outcome.results[c.key]) for c in outcome.cells) if c.method == "randSel"]
    assert rows["randSel"]["accuracy, %"].startswith(f"{100 * np.mean([r['accuracy'] for r in found]):.1f}")


def test_a_cell_is_what_it_says_by_hand():
    """One outer fold: split, prediction, accuracy, precision and recall from the features it names."""
    spec = small_spec()
    (table,) = tables_of(spec).values()
    cell = next(c for c in experiment._cells(spec, {"xor": table})[0] if c.method == "Corr. Coeff.")
    result = experiment.evaluate(cell, table)
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


def grouped_table(rng):
    X, y = rng.normal(size=(48, 6)), np.repeat([0, 1], 24)
    X[:, 0] += y
    return Table(X, y, tuple("abcdef"), np.arange(48) // 2)


def test_nothing_of_the_test_samples_reaches_the_choice(rng):
    table = grouped_table(rng)
    spec = small_spec(data=({"name": "xor"},), methods=({"name": "Corr. Coeff."},))
    cell = experiment._cells(spec, {"xor": table})[0][0]
    _, test = CLASSES.splits(table.y, table.groups, 3, 0)[0]
    X = table.X.copy()
    X[test] = 1e3 * rng.normal(size=X[test].shape)
    here, there = experiment.evaluate(cell, table), experiment.evaluate(cell, replace(table, X=X))
    for name in ("features", "gamma", "curve"):
        assert here[name] == there[name]


def test_inner_folds_rank_on_their_own_samples_and_keep_groups(rng, monkeypatch):
    table = grouped_table(rng)
    spec = small_spec(data=({"name": "xor"},), methods=({"name": "Corr. Coeff."},))
    cell = experiment._cells(spec, {"xor": table})[0][0]
    ranked, split = [], []
    rankings, splits = experiment._rankings, CLASSES.splits
    monkeypatch.setattr(experiment, "_rankings", lambda c, X, y, g: ranked.append(len(X)) or rankings(c, X, y, g))
    monkeypatch.setattr(Classes, "splits", lambda self, y, groups, *a: split.append(groups) or splits(y, groups, *a))
    experiment.evaluate(cell, table)
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


def test_a_killed_run_goes_on_and_ends_in_the_same_tables(tmp_path):
    code = (
        "import sys; sys.path[:0] = ['tests/support', 'tests/experiments']\n"
        "from pathlib import Path; from test_nested_cv import *\n"
        "spec = small_spec(reshuffles=6); out = Path(sys.argv[1])\n"
        "outcome = experiment.run(spec, tables_of(spec), out)\n"
        "summary.write_tables(spec, outcome, out, 'x')\n"
    )
    root = Path(__file__).parents[2]
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    subprocess.run([sys.executable, "-c", code, str(whole)], cwd=root, check=True)
    process = subprocess.Popen([sys.executable, "-c", code, str(broken)], cwd=root)
    while len(list(broken.glob("[0-9a-f]*.json"))) < 3 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = {path.name: path.stat().st_mtime_ns for path in broken.glob("[0-9a-f]*.json")}
    assert 3 <= len(before) < 36
    subprocess.run([sys.executable, "-c", code, str(broken)], cwd=root, check=True)
    assert all((broken / name).stat().st_mtime_ns == then for name, then in before.items())
    for name in ("table.md", "table.csv"):
        assert (broken / name).read_bytes() == (whole / name).read_bytes()


def test_jobs_do_not_change_the_tables(run, tmp_path):
    spec = small_spec()
    one, two = run(spec, tmp_path / "one"), run(spec, tmp_path / "two", n_jobs=2)
    assert summary.summarise(spec, one) == summary.summarise(spec, two)


def test_a_damaged_cell_is_done_again(run, tmp_path):
    spec = small_spec()
    first = run(spec)
    path = next((tmp_path / "out").glob("[0-9a-f]*.json"))
    path.write_text(path.read_text()[:40])
    again = run(spec)
    assert any(f"{path.name} was damaged" in note for note in again.notes)
    assert summary.summarise(spec, again) == summary.summarise(spec, first)
    assert json.loads(path.read_text())["result"]


def test_a_failed_cell_is_reported_marked_and_tried_again(run, monkeypatch, tmp_path):
    spec = small_spec()
    evaluate = experiment.evaluate

    def failing(cell, table):
        if cell.method == "randSel" and cell.fold == 1:
            msg = "out of luck"
            raise ValueError(msg)
        return evaluate(cell, table)

    monkeypatch.setattr(experiment, "evaluate", failing)
    outcome = run(spec)
    assert len(outcome.errors) == 2
    text = summary.write_tables(spec, outcome, tmp_path / "out", "x")
    assert "4 (2 failed)" in text
    assert "fold 1: ValueError: out of luck" in text
    monkeypatch.setattr(experiment, "evaluate", evaluate)
    assert not run(spec).errors


def test_a_cell_that_takes_too_long_is_given_up(run, monkeypatch):
    evaluate = experiment.evaluate
    monkeypatch.setattr(experiment, "evaluate", lambda c, t: time.sleep(5) if c.method == "randSel" else evaluate(c, t))
    outcome = run(small_spec(reshuffles=1), timeout=0.5)
    assert len(outcome.errors) == 3
    assert "gave up after 0.5 s" in next(iter(outcome.errors.values()))


def test_two_runs_on_one_folder(run, tmp_path):
    (tmp_path / "out").mkdir()
    with (tmp_path / "out" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match="another run is working in"):
            run(small_spec())


def test_a_folder_of_another_comparison_is_refused_and_methods_may_be_added(run, tmp_path):
    spec = small_spec(reshuffles=1, methods=({"name": "Corr. Coeff."},))
    run(spec)
    (table,) = tables_of(spec).values()
    with pytest.raises(ValueError, match=r"holds a run on other data; give another folder \(--out\)"):
        experiment.run(spec, {"xor": replace(table, X=table.X + 1e-9)}, tmp_path / "out")
    with pytest.raises(ValueError, match=r"with other settings \(folds: 3, now 2\)"):
        run(replace(spec, folds=2))
    assert len(list((tmp_path / "out").glob("[0-9a-f]*.json"))) == 3
    assert len(run(small_spec(reshuffles=2)).results) == 12
    assert len(list((tmp_path / "out").glob("[0-9a-f]*.json"))) == 12


def test_what_determines_a_cell_names_it():
    spec = small_spec()
    (table,) = tables_of(spec).values()
    cell = experiment._cells(spec, {"xor": table})[0][0]
    changed = [
        replace(cell, seed=1),
        replace(cell, fold=1),
        replace(cell, params={"drop": 0.5}),
        replace(cell, fingerprint=experiment.fingerprint(replace(table, X=table.X + 1e-9))),
        replace(cell, fingerprint=experiment.fingerprint(replace(table, names=tuple("stuvwxyz")))),
    ]
    assert len({cell.key, *(other.key for other in changed)}) == 6


def test_what_is_reduced_is_done_and_said_beside_the_result(tmp_path):
    reduced = {"reshuffles": 1, "randSel": {"gammas": ["median"], "drop": 0.5}}
    methods = ({"name": "randSel", "params": {"drop": 0.25}}, {"name": "Corr. Coeff."})
    spec = small_spec(gammas=("0.5*median", "median"), methods=methods)
    spec = replace(spec, data=({**spec.data[0], "reduced": reduced},))
    tables = {"xor": experiment.load_table(spec.data[0], tmp_path)}
    outcome = experiment.run(spec, tables, tmp_path)
    rows = {row["method"]: row for row in summary.summarise(spec, outcome)}
    assert rows["randSel"]["reduced"] == "1 reshuffles of 2; 1 gammas of 2; 0.5 drop of 0.25"
    assert {row["reduced"] for name, row in rows.items() if name != "randSel"} == {"1 reshuffles of 2"}
    assert {cell.reshuffle for cell in outcome.cells} == {0}
    assert {cell.gammas for cell in outcome.cells if cell.method == "randSel"} == {("median",)}
    with pytest.raises(ValueError, match="nothing called 'droop' can be reduced"):
        experiment.plan(spec, {"name": "xor", "reduced": {"randSel": {"droop": 0.5}}}, spec.methods[0])


def test_a_specification_restricted_to_some_methods():
    spec = small_spec()
    assert [m["name"] for m in spec.only([spec.methods[-1]["name"]]).methods] == [spec.methods[-1]["name"]]
    assert spec.only([]) == spec
    with pytest.raises(ValueError, match="did you mean 'randSel'"):
        spec.only(["randsell"])
    with pytest.raises(ValueError, match="does not run 'RFE'"):
        spec.only(["RFE"])


def test_groups_stay_together_and_small_classes_reduce_the_folds(rng):
    X, y = rng.normal(size=(24, 5)), np.repeat([0, 1], 12)
    groups = np.arange(24) // 3
    table = Table(X, y, tuple("abcde"), groups)
    assert experiment.number_of_folds(table, 10) == 4
    for train, test in CLASSES.splits(y, groups, 4, 0):
        assert not set(groups[train]) & set(groups[test])
    cells, notes = experiment._cells(small_spec(data=({"name": "xor"},), folds=10), {"xor": table})
    assert "4 folds instead of 10" in notes[0]
    assert len(cells) == 2 * 2 * 4
    for members in (1, 2):
        few = Table(X[: 12 + members], y[: 12 + members], tuple("abcde"))
        with pytest.raises(ValueError, match="class 1 is left with 1 samples; nested folds need three"):
            experiment._cells(small_spec(), {"xor": few})


def test_specifications_that_cannot_be_run(tmp_path):
    with pytest.raises(ValueError, match="a method is named twice"):
        small_spec(methods=({"name": "randSel"}, {"name": "randSel"}))
    with pytest.raises(ValueError, match="unknown method 'randsel', did you mean 'randSel'"):
        small_spec(methods=({"name": "randsel"},))
    path = tmp_path / "spec.toml"
    path.write_text('name = "x"\nfold = 3\n')
    with pytest.raises(ValueError, match="unknown entry 'fold'"):
        Spec.load(path)


@pytest.mark.parametrize("name", ["table1", "table2"])
def test_specifications_of_the_paper_can_be_read(name):
    spec = Spec.load(Path(experiment.__file__).parent / f"{name}.toml")
    assert spec.folds == 10
    assert spec.reshuffles == 3
    assert len(spec.data) >= 3


def test_what_the_paper_says_holds_at_reduced_size(tmp_path):
    """Who solves which problem: precision and recall of the relevant features over three folds."""
    spec = small_spec(
        data=(
            {"name": "xor", "make": "make_xor", "n_samples": 150, "n_features": 30, "random_state": 1},
            {"name": "nonlinear", "make": "make_weston_nonlinear", "n_features": 30, "random_state": 1},
            {"name": "linear", "make": "make_weston_linear", "n_features": 30, "random_state": 1},
        ),
        methods=tuple({"name": n} for n in ("randSel", "BaHSIC", "FoHSIC", "Corr. Coeff.", "Stab. Sel.")),
        reshuffles=1,
    )
    outcome = experiment.run(spec, tables_of(spec), tmp_path / "out", n_jobs=2)
    accuracy = {
        (c.data, c.method): np.mean(
            [outcome.results[d.key]["accuracy"] for d in outcome.cells if (d.data, d.method) == (c.data, c.method)]
        )
        for c in outcome.cells
    }
    for method in ("randSel", "BaHSIC"):
        assert min(accuracy[name, method] for name in ("xor", "nonlinear", "linear")) > 0.85, method
    for method in ("FoHSIC", "Corr. Coeff.", "Stab. Sel."):
        assert accuracy["xor", method] < 0.75, method
    for method in ("Corr. Coeff.", "Stab. Sel."):
        assert accuracy["nonlinear", method] < 0.75, method


# ---------------------------------------------------------------- command line


@pytest.fixture
def csv_file(tmp_path):
    X, y, _ = datasets.make_xor(60, 6, random_state=0)
    path = tmp_path / "table.csv"
    rows = [",".join([*(f"g{j}" for j in range(6)), "status"])]
    rows += [",".join([*map(str, row), "sick" if label > 0 else "well"]) for row, label in zip(X, y, strict=True)]
    path.write_text("\n".join(rows))
    return path


def invoke(*args):
    return CliRunner().invoke(main, list(map(str, args)))


def test_compare(csv_file, tmp_path):
    out = tmp_path / "out"
    options = ["--folds", 3, "--reshuffles", 1, "--methods", "randSel, Corr. Coeff."]
    result = invoke("compare", csv_file, "--target", "status", "--out", out, *options)
    assert result.exit_code == 0, result.output
    assert "| table | randSel |" in result.output
    assert "precision" not in result.output
    assert (out / "table.md").exists()
    assert "table,randSel,g0," in (out / "features.csv").read_text()
    assert (out / "comparison.png").read_bytes().startswith(b"\x89PNG")
    assert "cross-validation, once;" in result.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--target", "statsu"], "did you mean 'status'"),
        (["--target", "status", "--methods", "BaHsic"], "did you mean 'BaHSIC'"),
        (["--target", "status", "--groups", "donor"], "no column 'donor'"),
        (["--target", "status", "--jobs", "0"], "--jobs 0"),
    ],
)
def test_compare_says_what_is_wrong(csv_file, tmp_path, options, message):
    result = invoke("compare", csv_file, "--out", tmp_path / "out", *options)
    assert isinstance(result.exception, SystemExit)
    assert message in result.output


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(csv_file, tmp_path):
    tmp_path.chmod(0o500)
    result = invoke("compare", csv_file, "--target", "status", "--out", tmp_path / "no" / "out")
    assert "may not be written or read" in result.output


def test_reproduce(tmp_path):
    result = invoke("reproduce", "figure1", "--out", tmp_path / "figure")
    assert "Selected: x0, x1" in result.output
    assert (tmp_path / "figure" / "figure1.png").exists()
    assert "needs the folder of the data sets" in invoke("reproduce", "table2", "--out", tmp_path / "t").output


@pytest.mark.parametrize(
    ("number", "message"), [(errno.ENOSPC, "no room left to write"), (errno.EROFS, "may not be written or read")]
)
def test_a_full_or_unwritable_folder_is_said_and_what_is_finished_is_kept(
    csv_file, tmp_path, monkeypatch, number, message
):
    written, real = [], experiment.write_atomically

    def write(path, text):
        if len(written) == 2:
            raise OSError(number, "no", str(path))
        written.append(path)
        real(path, text)

    options = ["compare", csv_file, "--target", "status", "--out", tmp_path / "out", "--folds", 2, "--reshuffles", 1]
    options = [str(option) for option in [*options, "--methods", "Corr. Coeff.,randSel"]]
    monkeypatch.setattr(experiment, "write_atomically", write)
    result = CliRunner().invoke(main, options)
    assert result.exit_code == 1
    assert message in result.output
    assert "Traceback" not in result.output
    assert all(path.exists() for path in written)
    monkeypatch.undo()
    assert CliRunner().invoke(main, options).exit_code == 0


def test_medians_are_those_of_training_samples(run, tmp_path):
    spec = small_spec(methods=({"name": "Corr. Coeff."},), reshuffles=1)
    (table,) = tables_of(spec).values()
    X = table.X.copy()
    X[::5, 3] = np.nan
    with pytest.raises(ValueError, match="column '3' and 0 others have missing values"):
        experiment.run(spec, {"xor": replace(table, X=X)}, tmp_path / "out")
    gaps = replace(table, X=X, missing="median")
    outcome = experiment.run(spec, {"xor": gaps}, tmp_path / "out")
    assert not outcome.errors
    assert len(outcome.results) == 3
    train = np.arange(0, 40)
    filled = experiment._filled(X, train)
    assert filled[0, 3] == np.nanmedian(X[:40, 3]) != np.nanmedian(X[:, 3])
    assert filled[45, 3] == filled[0, 3]
    # what is selected in a fold does not change with the samples that are left out of it
    cell = outcome.cells[0]
    held = CLASSES.splits(table.y, None, 3, cell.seed)[cell.fold][1]
    other = X.copy()
    other[np.ix_(held, [3])] += 100.0
    chosen = [experiment.evaluate(cell, replace(gaps, X=values))["features"] for values in (X, other)]
    assert chosen[0] == chosen[1]
    with pytest.raises(ValueError, match="have missing values"):
        experiment.run(spec, {"xor": replace(gaps, X=np.where(np.isnan(X), np.inf, X))}, tmp_path / "out")
