"""All cells of a comparison: files, resuming, failures, tables, and the commands."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import reference
from click.testing import CliRunner
from comparisons import small_spec, tables_of

from randsel import RandSel, datasets
from randsel._utils.files import lock_folder
from randsel.cli._main import main
from randsel.experiments import _figure, _run, _specification
from randsel.experiments import _summary as summary


@pytest.fixture
def run(tmp_path):
    def go(spec, out=tmp_path / "out", **options):
        return _run.run_comparison(spec, tables_of(spec), out, **options)

    return go


def test_every_cell_once_and_a_table_at_the_end(run, tmp_path):
    spec = small_spec()
    outcome = run(spec)
    assert len(outcome.cells) == len(outcome.results) == 12
    assert not outcome.errors
    assert len(list((tmp_path / "out").glob("cells/[0-9a-f]*.json"))) == 12
    text = summary.write_tables(spec, outcome, tmp_path / "out")
    assert "| xor | randSel |" in text
    assert (tmp_path / "out" / "table.csv").read_text().startswith("data,method,")
    rows = {row["method"]: row for row in summary.summarise(spec, outcome)}
    found = [r for c, r in ((c, outcome.results[c.key]) for c in outcome.cells) if c.method == "randSel"]
    assert rows["randSel"]["accuracy, %"].startswith(f"{100 * np.mean([r['accuracy'] for r in found]):.1f}")


def test_methods_are_ranked_with_standard_errors_and_tables_hold_numbers(run, tmp_path):
    spec = small_spec()
    outcome = run(spec)
    text = summary.write_tables(spec, outcome, tmp_path / "out")
    assert "## Ranking" in text
    ranking = pd.read_csv(tmp_path / "out" / "ranking.csv")
    assert ranking["rank"].tolist() == [1, 2]
    assert ranking["mean"].is_monotonic_decreasing
    assert np.isnan(ranking["behind_best_standard_error"][0])
    scores = {
        method: [outcome.results[c.key]["balanced_accuracy"] for c in outcome.cells if c.method == method]
        for method in ranking["method"]
    }
    best, other = scores.values()
    assert ranking["mean"].tolist() == pytest.approx([np.mean(best), np.mean(other)])
    errors = [reference.corrected_standard_error(values, 3) for values in (best, other)]
    assert ranking["standard_error"].tolist() == pytest.approx(errors)
    behind = np.subtract(best, other)
    assert ranking["behind_best"][1] == pytest.approx(behind.mean())
    assert ranking["behind_best_standard_error"][1] == pytest.approx(reference.corrected_standard_error(behind, 3))
    table = pd.read_csv(tmp_path / "out" / "table.csv")
    assert table.select_dtypes("number").columns[:2].tolist() == ["accuracy_mean", "accuracy_standard_error"]
    assert table.set_index("method")["balanced_accuracy_mean"].to_dict() == pytest.approx(
        {method: np.mean(values) for method, values in scores.items()}
    )
    features = pd.read_csv(tmp_path / "out" / "features.csv")
    assert (features["selected"] <= features["cells"]).all()


@pytest.mark.slow
def test_a_killed_run_goes_on_and_ends_in_the_same_tables(tmp_path):
    code = (
        "import sys; sys.path.insert(0, 'tests/support')\n"
        "from pathlib import Path; from comparisons import *\n"
        "from randsel.experiments._run import run_comparison; from randsel.experiments._summary import write_tables\n"
        "spec = small_spec(reshuffles=6); out = Path(sys.argv[1])\n"
        "write_tables(spec, run_comparison(spec, tables_of(spec), out), out)\n"
    )
    root = Path(__file__).parents[2]
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    subprocess.run([sys.executable, "-c", code, str(whole)], cwd=root, check=True)
    process = subprocess.Popen([sys.executable, "-c", code, str(broken)], cwd=root)
    while len(list(broken.glob("cells/[0-9a-f]*.json"))) < 3 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = {path.name: path.stat().st_mtime_ns for path in broken.glob("cells/[0-9a-f]*.json")}
    assert 3 <= len(before) < 36
    subprocess.run([sys.executable, "-c", code, str(broken)], cwd=root, check=True)
    assert all((broken / "cells" / name).stat().st_mtime_ns == then for name, then in before.items())
    for name in ("table.md", "table.csv"):
        assert (broken / name).read_bytes() == (whole / name).read_bytes()


@pytest.mark.slow
def test_jobs_do_not_change_the_tables(run, tmp_path):
    spec = small_spec()
    one, two = run(spec, tmp_path / "one"), run(spec, tmp_path / "two", n_jobs=2)
    assert summary.summarise(spec, one) == summary.summarise(spec, two)


@pytest.mark.slow
def test_a_damaged_cell_is_done_again(run, tmp_path):
    spec = small_spec()
    first = run(spec)
    path = next((tmp_path / "out").glob("cells/[0-9a-f]*.json"))
    path.write_text(path.read_text()[:40])
    again = run(spec)
    assert any(f"{path.name} was damaged" in note for note in again.notes)
    assert summary.summarise(spec, again) == summary.summarise(spec, first)
    assert json.loads(path.read_text())["result"]


@pytest.mark.slow
def test_a_failed_cell_is_reported_marked_and_tried_again(run, monkeypatch, tmp_path):
    spec = small_spec()
    evaluate = _run.evaluate

    def failing(cell, table):
        if cell.method == "randSel" and cell.fold == 1:
            msg = "out of luck"
            raise ValueError(msg)
        return evaluate(cell, table)

    monkeypatch.setattr(_run, "evaluate", failing)
    outcome = run(spec)
    assert len(outcome.errors) == 2
    text = summary.write_tables(spec, outcome, tmp_path / "out")
    assert "4 (2 failed)" in text
    assert "fold 1: ValueError: out of luck" in text
    monkeypatch.setattr(_run, "evaluate", evaluate)
    assert not run(spec).errors


def test_two_runs_on_one_folder(run, tmp_path):
    (tmp_path / "out").mkdir()
    with lock_folder(tmp_path / "out"), pytest.raises(ValueError, match="another run is working in"):
        run(small_spec())


def test_a_folder_of_another_comparison_is_refused_and_methods_may_be_added(run, tmp_path):
    spec = small_spec(reshuffles=1, methods=({"name": "Corr. Coeff."},))
    run(spec)
    (table,) = tables_of(spec).values()
    with pytest.raises(ValueError, match=r"holds a run on other data; give another folder \(--out\)"):
        _run.run_comparison(spec, {"xor": replace(table, X=table.X + 1e-9)}, tmp_path / "out")
    with pytest.raises(ValueError, match=r"with other settings \(folds: 3, now 2\)"):
        run(replace(spec, folds=2))
    assert len(list((tmp_path / "out").glob("cells/[0-9a-f]*.json"))) == 3
    assert len(run(small_spec(reshuffles=2)).results) == 12
    assert len(list((tmp_path / "out").glob("cells/[0-9a-f]*.json"))) == 12


def test_what_is_reduced_is_done_and_said_beside_the_result(tmp_path):
    reduced = {"reshuffles": 1, "randSel": {"gammas": ["median"], "drop": 0.5}}
    methods = ({"name": "randSel", "params": {"drop": 0.25}}, {"name": "Corr. Coeff."})
    spec = small_spec(gammas=("0.5*median", "median"), methods=methods)
    spec = replace(spec, data=({**spec.data[0], "reduced": reduced},))
    tables = {"xor": _specification.load_table(spec.data[0], tmp_path)}
    outcome = _run.run_comparison(spec, tables, tmp_path)
    rows = {row["method"]: row for row in summary.summarise(spec, outcome)}
    assert rows["randSel"]["reduced"] == "reshuffles 1 instead of 2; gammas 1 instead of 2; drop 0.5 instead of 0.25"
    assert {row["reduced"] for name, row in rows.items() if name != "randSel"} == {"reshuffles 1 instead of 2"}
    assert {cell.reshuffle for cell in outcome.cells} == {0}
    assert {cell.gammas for cell in outcome.cells if cell.method == "randSel"} == {("median",)}
    with pytest.raises(ValueError, match="nothing called 'droop' can be reduced"):
        _specification.plan(spec, {"name": "xor", "reduced": {"randSel": {"droop": 0.5}}}, spec.methods[0])


@pytest.mark.slow
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
    outcome = _run.run_comparison(spec, tables_of(spec), tmp_path / "out", n_jobs=2)
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


def test_reproduce(tmp_path, monkeypatch):
    few = {"estimator": "bootstrap", "criterion": "total", "n_bootstraps": 60, "random_state": 0}
    panels = (_figure.PathSettings("few draws", 60, few), _figure.PathSettings("default", 300))
    monkeypatch.setattr(_figure, "PANELS", panels)
    result = invoke("reproduce", "figure1", "--out", tmp_path / "figure")
    few_draws, default = [
        line.split(" | ") for line in result.output.splitlines() if line.startswith(("| few", "| def"))
    ]
    assert few_draws[1:3] == [
        "`RandSel(2, estimator='bootstrap', criterion='total', n_bootstraps=60, random_state=0)`",
        "60",
    ]
    assert default[1:5] == ["`RandSel(2)`", "300", "200", "x0, x1"]
    X, y, _ = datasets.make_xor(300, 200, random_state=0)
    order = np.argsort(-RandSel(2).fit(X, y).path_.rounds[0].scores).tolist()
    assert default[5] == f"{order.index(0) + 1} and {order.index(1) + 1} |"
    assert (tmp_path / "figure" / "figure1.png").exists()
    assert "needs the folder of the data sets" in invoke("reproduce", "table2", "--out", tmp_path / "t").output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "message"), [(errno.ENOSPC, "no room left to write"), (errno.EROFS, "may not be written or read")]
)
def test_a_full_or_unwritable_folder_is_said_and_what_is_finished_is_kept(
    csv_file, tmp_path, monkeypatch, number, message
):
    written, real = [], _run.write_atomically

    def write(path, text):
        if len(written) == 2:
            raise OSError(number, "no", str(path))
        written.append(path)
        real(path, text)

    options = ["compare", csv_file, "--target", "status", "--out", tmp_path / "out", "--folds", 2, "--reshuffles", 1]
    options = [str(option) for option in [*options, "--methods", "Corr. Coeff.,randSel"]]
    monkeypatch.setattr(_run, "write_atomically", write)
    result = CliRunner().invoke(main, options)
    assert result.exit_code == 1
    assert message in result.output
    assert "Traceback" not in result.output
    assert all(path.exists() for path in written)
    monkeypatch.undo()
    assert CliRunner().invoke(main, options).exit_code == 0
