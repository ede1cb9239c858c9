"""The command `randsel select`: files, exit codes, interruptions, and twenty user errors."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from randsel._utils import files
from randsel._utils import text as _text
from randsel._utils.files import FinishedParts
from randsel._utils.text import ProgressLine
from randsel.analysis import _pipeline as selection
from randsel.analysis import _selection
from randsel.analysis._model import Settings
from randsel.analysis._ranking import value_columns
from randsel.cli import _main as cli
from randsel.cli._main import main
from randsel.report import _html as report
from randsel.report import _storage as results
from randsel.tables import _read as tables

SHORT = ["--halves", "4", "--folds", "2"]
FILES = {"ranking.csv", "pairs.csv", "path.png", "report.html", "run.json"}
FILES |= {"panel-size.csv", "selected.txt", "summary.txt"}
FILES |= {"volcano.png", "panel-size.png"}
IF_SELECTED = {"heatmap.png", "predictions.png", "panel.json"}  # only if something is selected


def invoke(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def numbers(rows=80, columns=12, seed=0):
    """Return random columns, and the XOR of the first two as class names."""
    X = np.random.default_rng(seed).standard_normal((rows, columns))
    return X, np.where((X[:, 0] > 0) ^ (X[:, 1] > 0), "case", "control")


def write(path, X, y, *, names=None, separator=",", target="status"):
    names = names or [f"g{j}" for j in range(X.shape[1])]
    rows = [separator.join([*(repr(v) for v in x), str(label)]) for x, label in zip(X.tolist(), y, strict=True)]
    path.write_text("\n".join([separator.join([*names, target]), *rows]) + "\n")
    return path


def read(path):
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("select")
    file = write(folder / "table.csv", *numbers(200, 12))
    return file, folder / "out", invoke("select", file, "--target", "status", *SHORT, "--out", folder / "out")


def test_a_selection_writes_its_files_and_prints_a_table(finished):
    _, out, result = finished
    assert result.exit_code == 0, result.output
    assert {path.name for path in out.iterdir() if not path.name.startswith(".")} == FILES | IF_SELECTED | {"parts"}
    assert (out / "path.png").read_bytes().startswith(b"\x89PNG")
    verdict, details, ranked = result.stdout.split("\n\n")[:3]
    heading, first, second = ranked.splitlines()[:3]
    shown = [column.title for column in value_columns("AUC", "difference") if column.in_table and column.on_terminal]
    assert heading.split() == ["rank", "feature", *shown]
    assert {"direction", "AUC", "difference", "p", "q", "stability", "partner"} <= set(shown)
    assert {first.split()[2], second.split()[2]} == {"g0", "g1"}
    assert first.startswith("*")
    signal, stable, prediction, beware = verdict.splitlines()
    assert signal.startswith("Is there a signal? Yes")
    assert "Of 12 features, 2 were selected" in signal
    assert stable.startswith("Is the selection stable? Yes: on average, a selected feature was selected again in 100")
    assert prediction.startswith("How well does it predict? Better than chance")
    assert "balanced accuracy" in prediction
    assert beware.startswith("What to beware of? No warning was raised.")
    assert "In forward steps, 2 features are significant given those of earlier steps: " in details
    assert "may only be a proxy" in result.stdout
    assert "Note: table.csv: text, 13 columns separated by commas." in result.stderr
    assert "\r" not in result.stderr


def test_the_ranking_is_complete_best_first_and_read_as_it_was(finished):
    file, out, _ = finished
    rows = read(out / "ranking.csv")
    assert next(iter(rows[0])) == "feature"
    assert [row["rank"] for row in rows] == [str(place) for place in range(1, 13)]
    assert sorted(row["feature"] for row in rows) == sorted(f"g{j}" for j in range(12))
    table = tables.read(file, target="status")
    analysis = selection.analyse(table, Settings(halves=4, folds=2))
    for row, feature in zip(rows, analysis.features, strict=True):
        assert row["feature"] == feature.name
        assert row["partner"] == (feature.partner or "")
        assert (row["selected"] == "yes") == feature.selected
        for column in analysis.columns:
            if column.type is float:
                assert float(row[column.title]) == getattr(feature, column.field)
        assert row["step"] == ("1" if feature.name in ("g0", "g1") else "")
        assert row["stand_ins"] == analysis.describe_stand_ins(feature.column)
    pairs = read(out / "pairs.csv")
    assert {pairs[0]["feature"], pairs[0]["partner"]} == {"g0", "g1"}
    assert len(pairs) == 66


@pytest.mark.slow
def test_run_json_holds_the_command_that_repeats_the_run(finished):
    file, out, _ = finished
    about = json.loads((out / "run.json").read_text())
    assert about["data_hash"] == tables.read(file, target="status").fingerprint()
    assert about["parameters"]["target"] == "status"
    assert about["parameters"]["halves"] == 4
    assert about["seed"] == about["parameters"]["seed"] == 0
    again = about["command"].split()[1:]
    assert again == ["select", str(file), "--target", "status", "--halves", "4", "--folds", "2", "--out", str(out)]
    before = {name: (out / name).read_bytes() for name in FILES | IF_SELECTED}
    assert invoke(*again).exit_code == 0
    assert {name: (out / name).read_bytes() for name in FILES | IF_SELECTED} == before


def test_the_verdict_the_names_and_the_panel_sizes_are_files(finished):
    _, out, result = finished
    rows = read(out / "ranking.csv")
    selected = [row["feature"] for row in rows if row["selected"] == "yes"]
    assert (out / "selected.txt").read_text().splitlines() == selected
    assert result.stdout.startswith("\n".join((out / "summary.txt").read_text().splitlines()[:4]))
    assert f"{len(selected)} were selected" in result.stdout
    sizes = read(out / "panel-size.csv")
    assert [row["features"] for row in sizes] == ["1", "2", "3", "5", "10"]
    assert [row["features"] for row in sizes if row["selected"] == "yes"] == [str(len(selected))]
    assert sum(row["best"] == "yes" for row in sizes) == sum(row["one_standard_error"] == "yes" for row in sizes) == 1
    for row in sizes:
        assert float(row["mean"]) == pytest.approx(np.mean([float(row["fold_1"]), float(row["fold_2"])]))


def test_effects_are_in_the_ranking_with_the_means_of_classes(finished):
    _, out, _ = finished
    X, y = numbers(200, 12)
    for row in read(out / "ranking.csv"):
        x = X[:, int(row["feature"][1:])]
        medians = [np.median(x[y == label]) for label in ("case", "control")]
        assert [float(row["median_case"]), float(row["median_control"])] == pytest.approx(medians)
        assert float(row["difference"]) == pytest.approx(medians[1] - medians[0])
        assert float(row["AUC_low"]) < float(row["AUC"]) < float(row["AUC_high"])
        assert bool(row["direction"]) == (float(row["AUC_low"]) > 0.5)


@pytest.mark.slow
def test_figures_and_workbooks_are_written_on_request(finished, tmp_path):
    xlsxwriter = pytest.importorskip("xlsxwriter")
    X, y = numbers(60, 5)
    names = ["1-Mar", "SEPT2", "=1+1", "39873", "g4"]
    file = write(tmp_path / "table.csv", X, y, names=names)
    options = ["--target", "status", "--halves", 0, "--folds", 0, "--top", 2, "--xlsx", "--figures", "svg,pdf"]
    result = invoke("select", file, *options, "--out", tmp_path / "out")
    assert result.exit_code in (0, cli.NOTHING), result.output
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"path.svg", "path.pdf", "ranking.xlsx"} <= written
    assert "path.png" not in written
    assert (tmp_path / "out" / "path.svg").read_text().lstrip().startswith("<?xml")
    assert (tmp_path / "out" / "path.pdf").read_bytes().startswith(b"%PDF")
    assert "--figures svg,pdf --xlsx" in json.loads((tmp_path / "out" / "run.json").read_text())["command"]
    before = {name: (tmp_path / "out" / name).read_bytes() for name in written if name[0] != "." and name != "parts"}
    assert invoke("select", file, *options, "--out", tmp_path / "out").exit_code == result.exit_code
    assert {name: (tmp_path / "out" / name).read_bytes() for name in before} == before
    with zipfile.ZipFile(tmp_path / "out" / "ranking.xlsx") as book:
        strings, sheet = (book.read(f"xl/{name}.xml").decode() for name in ("sharedStrings", "worksheets/sheet1"))
    assert all(f">{name}<" in strings for name in names)  # text, neither dates nor formulas
    assert "<f>" not in sheet
    assert xlsxwriter.__version__


def test_an_unknown_format_of_figures_is_refused(finished, tmp_path):
    result = invoke("select", finished[0], "--target", "status", "--figures", "png,gif", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "gif is not a format of figures; choose from png, svg, pdf" in result.stderr


@pytest.mark.slow
def test_warnings_about_halves_are_not_shown(tmp_path, monkeypatch):
    X, y = numbers(80, 12)
    file = write(tmp_path / "table.csv", X, np.random.default_rng(1).permutation(y))
    collected = []

    @contextmanager
    def spy():
        with _text.collect_warnings() as messages:
            yield messages
        collected.extend(messages)

    monkeypatch.setattr(_selection, "collect_warnings", spy)
    options = ["--target", "status", "--top", 3, "--halves", 12, "--folds", 2, "--pairs", "none", "--jobs", 2]
    # a warning that escaped would be an error in this test
    result = invoke("select", file, *options, "--out", tmp_path / "out")
    assert result.exit_code == cli.NOTHING, result.output
    assert sum("Nothing stands out" in message for message in collected) > 5  # of halves
    assert "UserWarning" not in result.stderr
    assert "Do not read this selection" not in result.output


def test_the_report_is_rebuilt_from_the_folder_without_fitting(finished, monkeypatch):
    _, out, _ = finished
    before = (out / "report.html").read_bytes()
    (out / "report.html").unlink()
    for name in ("cull_table", "run_tests", "impute_medians"):
        monkeypatch.setattr(selection, name, None)
    result = invoke("report", out)
    assert result.exit_code == 0, result.output
    assert (out / "report.html").read_bytes() == before


def test_no_report_from_a_missing_or_damaged_folder(finished, tmp_path):
    _, out, _ = finished
    assert "no folder of randsel select" in invoke("report", tmp_path).output
    (tmp_path / "run.json").write_bytes((out / "run.json").read_bytes())
    assert "not finished" in invoke("report", tmp_path).output
    parts = FinishedParts(tmp_path / "parts")
    parts.save("path", {"order": [1]})
    parts.save("report", {"names": ["a"]})
    result = invoke("report", tmp_path)
    assert result.exit_code == 1
    assert "damaged" in result.output
    (tmp_path / "run.json").write_text("{")
    assert "is damaged" in invoke("report", tmp_path).output


def test_parts_hold_no_objects_and_objects_are_not_unpickled(finished, tmp_path):
    _, out, _ = finished
    for path in (out / "parts").glob("*.npz"):
        with np.load(path, allow_pickle=False) as found:
            assert all(found[name].dtype.kind in "biufU" for name in found.files)
    np.savez(tmp_path / "path.npz", order=np.array([print], dtype=object))
    parts = FinishedParts(tmp_path)
    assert parts.load("path") is None
    assert parts.damaged == ["path.npz"]


# ---------------------------------------------------------------- the same table in three formats


@pytest.mark.slow
def test_csv_parquet_and_h5ad_of_a_table_give_one_ranking(finished, tmp_path):
    polars, anndata, pandas = (pytest.importorskip(name) for name in ("polars", "anndata", "pandas"))
    # pandas 3 has text that anndata writes only if allowed to
    anndata.settings.allow_write_nullable_strings = True
    _, out, _ = finished
    X, y = numbers(200, 12)
    names = [f"g{j}" for j in range(12)]
    columns = {**dict(zip(names, X.T, strict=True)), "status": y}
    polars.DataFrame(columns).write_parquet(tmp_path / "table.parquet")
    index = [f"s{i}" for i in range(200)]
    obs, var = pandas.DataFrame({"status": y}, index=index), pandas.DataFrame(index=names)
    anndata.AnnData(X, obs=obs, var=var).write_h5ad(tmp_path / "table.h5ad")
    for kind in ("parquet", "h5ad"):
        result = invoke("select", tmp_path / f"table.{kind}", "--target", "status", *SHORT, "--out", tmp_path / kind)
        assert result.exit_code == 0, result.output
        for name in ("ranking.csv", "pairs.csv"):
            assert (tmp_path / kind / name).read_bytes() == (out / name).read_bytes()


@pytest.mark.slow
def test_missing_values_are_counted_in_the_ranking(finished, tmp_path):
    X, y = numbers(200, 12)
    X[::9, 0], X[1::4, 3], X[:150, 5] = np.nan, np.nan, np.nan
    file = write(tmp_path / "table.csv", X, y)
    result = invoke("select", file, "--target", "status", *SHORT, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "Note: 223 values are missing, in 3 of 12 columns." in result.stderr
    left_out = "Note: 1 column is not ranked or tested, because more than half of the values are missing: g5."
    assert left_out in result.stderr
    rows = read(tmp_path / "out" / "ranking.csv")
    assert {row["feature"] for row in rows[:2]} == {"g0", "g1"}
    assert {row["feature"]: row["missing"] for row in rows if row["missing"]} == {"g0": "23", "g3": "50", "g5": "150"}
    assert "missing" not in read(finished[1] / "ranking.csv")[0]
    assert invoke("report", tmp_path / "out").exit_code == 0
    how = [file, "--target", "status", "--missing", "indicator", "--top", "2", "--halves", "0", "--folds", "0"]
    assert invoke("select", *how, "--out", tmp_path / "indicators").exit_code in (0, 3)
    names = [row["feature"] for row in read(tmp_path / "indicators" / "ranking.csv")]
    assert {"g0 missing", "g3 missing", "g5 missing"} <= {*names}


# ---------------------------------------------------------------- interruptions


def start(file, folder, *more):
    """Start a process that selects with many half-samples, in a folder of its own."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "randsel", "select", str(file), "--target", "status", "--out", "out"]
    return subprocess.Popen(
        [*command, "--halves", "150", "--folds", "2", *more],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def until(path, process):
    while not path.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_run_resumes_with_identical_results(tmp_path, number):
    file = write(tmp_path / "table.csv", *numbers(120, 40))
    whole = start(file, tmp_path / "whole")
    process = start(file, tmp_path / "cut")
    until(tmp_path / "cut" / "out" / "parts" / "half-003.npz", process)
    process.send_signal(number)
    _, said = process.communicate()
    parts = tmp_path / "cut" / "out" / "parts"
    assert not (tmp_path / "cut" / "out" / "ranking.csv").exists()
    stored = {path.name: path.stat().st_mtime_ns for path in parts.glob("*.npz")}
    assert {"path.npz", "tests.npz", "half-000.npz", "half-003.npz"} <= set(stored)
    assert "fold-000.npz" not in stored
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert "What is finished is kept: run the same command again to go on." in said
        assert "Traceback" not in said
    again = start(file, tmp_path / "cut")
    _, errors = again.communicate()
    assert again.returncode == 0, errors
    assert {name: (parts / name).stat().st_mtime_ns for name in stored} == stored
    whole.communicate()
    for name in ("ranking.csv", "pairs.csv", "run.json", "report.html"):
        assert (tmp_path / "cut" / "out" / name).read_bytes() == (tmp_path / "whole" / "out" / name).read_bytes()


def test_two_runs_do_not_share_a_folder(tmp_path):
    file = write(tmp_path / "table.csv", *numbers())
    with files.lock_folder(tmp_path):
        result = invoke("select", file, "--target", "status", "--out", tmp_path)
    assert result.exit_code == 1
    assert "another run is working in" in result.output


def test_a_damaged_part_is_computed_again_with_a_note(finished, tmp_path):
    file, out, _ = finished
    before = (out / "ranking.csv").read_bytes()
    (out / "parts" / "half-001.npz").write_bytes(b"PK nothing")
    result = invoke("select", file, "--target", "status", *SHORT, "--out", out)
    assert result.exit_code == 0
    assert "half-001.npz was damaged and was computed again" in result.stderr
    assert (out / "ranking.csv").read_bytes() == before


# ---------------------------------------------------------------- user errors


def refused(result, *words, code=1):
    """Check that a command failed with a short message that has these words, without a traceback."""
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit)
    message = result.stderr[result.stderr.index("Error: ") :]
    assert "Traceback" not in result.output
    for word in words:
        assert word in message
    assert len(message) < 600


X, Y = numbers(40, 6)


def text_of(X, y, **more):
    return lambda path: write(path, X, y, **more)


def cells(header, rows, separator=","):
    return lambda path: path.write_text("\n".join(separator.join(row) for row in [header, *rows]) + "\n")


GENES = [[f"g{j}", *map(repr, X[:, j].tolist())] for j in range(6)]
USER_ERRORS = {
    "wrong column": (text_of(X, Y), ["--target", "statu"], 1, ["has no column 'statu'", "did you mean 'status'"]),
    "transposed": (cells(["gene", *(f"s{i}" for i in range(40))], GENES), ["--target", "status"], 1, ["no column"]),
    "text": (
        cells(["a", "b", "status"], [["1.5", "high", "x"], ["2", "1", "y"]] * 5),
        ["--target", "status"],
        1,
        ["column 'b' holds 'high'", "not a number"],
    ),
    "decimal commas": (
        cells(["a", "b", "status"], [['"1,5"', "1", "x"], ['"2,5"', "2", "y"]] * 5),
        ["--target", "status"],
        1,
        ["looks like a decimal comma"],
    ),
    "duplicate names": (
        text_of(X, Y, names=["a", "b", "a", "c", "d", "e"]),
        ["--target", "status"],
        1,
        ["give each a name of its own"],
    ),
    "two samples": (text_of(X[:2], Y[:2]), ["--target", "status"], 1, ["at least 4 are needed"]),
    "forty levels": (
        text_of(X, [f"donor {i}" for i in range(40)]),
        ["--target", "status"],
        1,
        ["text of 40 levels in 40 samples", "is it a column of ids"],
    ),
    "all missing": (
        cells(["a", "b", "status"], [["1", "", "x"], ["2", "NA", "y"], ["3", "", "x"]] * 3),
        ["--target", "status", "--missing", "error"],
        1,
        ["no value at all", "--missing neutral, median"],
    ),
    "top 0": (text_of(X, Y), ["--target", "status", "--top", "0"], 2, ["'--top'", "x>=1"]),
    "keep a stranger": (text_of(X, Y), ["--target", "status", "--keep", "q0"], 1, ["keep names 'q0'", "did you mean"]),
    "keep twice": (text_of(X, Y), ["--target", "status", "--keep", "g0, g0"], 1, ["'g0' twice"]),
    "keep more than top": (
        text_of(X, Y),
        ["--target", "status", "--keep", "g0,g1", "--top", "1"],
        1,
        ["top=1 selects fewer features than the 2 to keep"],
    ),
    "fdr 2": (text_of(X, Y), ["--target", "status", "--fdr", "2"], 2, ["'--fdr'", "0<x<1"]),
    "folds 1": (text_of(X, Y), ["--target", "status", "--folds", "1"], 1, ["folds=1 is too few", "0 to leave"]),
    "no jobs": (text_of(X, Y), ["--target", "status", "--jobs", "0"], 2, ["leaves nobody to work"]),
    "one class": (text_of(X, ["x"] * 40), ["--target", "status"], 1, ["nothing can be told apart"]),
    "constant": (text_of(np.ones((40, 3)), Y), ["--target", "status"], 1, ["constant"]),
    "text as numbers": (text_of(X, Y), ["--target", "status", "--task", "regression"], 1, ["needs numbers"]),
    "no target": (text_of(X, Y), [], 1, ["no target is named"]),
    "memory": (text_of(X, Y), ["--target", "status", "--memory", "lots"], 1, ["lots"]),
    "device": (text_of(X, Y), ["--target", "status", "--device", "abacus"], 1, ["abacus"]),
}


@pytest.mark.parametrize("error", USER_ERRORS)
def test_a_user_error_gives_a_short_message(tmp_path, error):
    make, options, code, words = USER_ERRORS[error]
    make(tmp_path / "table.csv")
    refused(invoke("select", tmp_path / "table.csv", *options, "--out", tmp_path / "out"), *words, code=code)


def test_a_transposed_table_with_a_target_file_is_read(tmp_path):
    USER_ERRORS["transposed"][0](tmp_path / "genes.csv")
    labels = "".join(f"s{i},{label}\n" for i, label in enumerate(Y))
    (tmp_path / "labels.csv").write_text("sample,status\n" + labels)
    options = ["--target-file", tmp_path / "labels.csv", "--halves", 0, "--no-accuracy", "--out", tmp_path / "out"]
    result = invoke("select", tmp_path / "genes.csv", *options)
    assert "Features are in rows" in result.stderr
    assert len(read(tmp_path / "out" / "ranking.csv")) == 6


def test_unknown_formats_missing_files_and_packages(tmp_path, monkeypatch):
    (tmp_path / "table.docx").write_bytes(b"PK")
    refused(invoke("select", tmp_path / "table.docx", "--target", "y", "--out", tmp_path / "out"), "of no known format")
    refused(invoke("select", tmp_path / "none.csv", "--target", "y", "--out", tmp_path / "out"), "does not exist")

    def gone(module):
        raise ImportError(module)

    monkeypatch.setattr(_text, "import_module", gone)
    (tmp_path / "x.h5ad").write_bytes(b"")
    refused(
        invoke("select", tmp_path / "x.h5ad", "--target", "y", "--out", tmp_path / "out"),
        "needs h5py, which is not installed: pip install h5py (part of the extra 'files')",
    )


def test_a_folder_of_another_run_or_a_file_is_refused_with_a_reason(finished, tmp_path):
    file, out, _ = finished
    again = ["select", file, "--target", "status", "--out", out]
    before = (out / "run.json").read_bytes()
    refused(invoke(*again, *SHORT, "--top", 3), "with other settings (top: None, now 3)", "give another folder")
    refused(invoke(*again, *SHORT, "--seed", 3), "with other settings (seed: 0, now 3)")
    other = write(tmp_path / "table.csv", *numbers(200, 12, seed=1))
    refused(invoke("select", other, "--target", "status", *SHORT, "--out", out), "on other data")
    assert (out / "run.json").read_bytes() == before
    refused(invoke("select", file, "--target", "status", "--out", file), "is a file; give a folder")
    about = json.loads(before)
    (tmp_path / "run.json").write_text(json.dumps({**about, "version": "0.0.1"}))
    refused(invoke(*again[:-1], tmp_path, *SHORT), "with another version (0.0.1, now ")
    # the number of jobs changes nothing
    assert invoke(*again, *SHORT, "--jobs", 2).exit_code == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_folder_is_refused_before_the_table_is_read(tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    refused(invoke("select", "none.csv", "--target", "y", "--out", tmp_path / "closed" / "out"), "may not be written")


def test_a_target_with_gaps_and_more_folds_than_samples(tmp_path):
    y = ["", *Y[1:5], "rare", "rare", "rare", *Y[8:]]
    file = write(tmp_path / "table.csv", X, y)
    result = invoke("select", file, "--target", "status", "--folds", 10, "--halves", 0, "--out", tmp_path / "out")
    assert result.exit_code in (0, cli.NOTHING), result.output
    assert "1 sample has no target and is left out" in result.stderr
    assert "3 folds instead of 10, the number of samples of class rare." in result.stderr


def test_exit_status_if_nothing_stands_out(tmp_path):
    rng = np.random.default_rng(0)
    file = write(tmp_path / "noise.csv", rng.standard_normal((60, 8)), rng.permutation(60) % 2)
    result = invoke("select", file, "--target", "status", *SHORT, "--out", tmp_path / "out")
    assert result.exit_code == cli.NOTHING == 3, result.output
    assert "Nothing stands out" in result.stdout
    assert {path.name for path in (tmp_path / "out").iterdir()} >= FILES - {"panel.json"}
    assert not (tmp_path / "out" / "panel.json").exists()  # nothing is selected
    assert {row["selected"] for row in read(tmp_path / "out" / "ranking.csv")} == {"no"}
    top = invoke("select", file, "--target", "status", *SHORT, "--top", 3, "--out", tmp_path / "top")
    assert top.exit_code == cli.NOTHING, top.output
    assert "Nothing stands out" in top.stdout
    assert [row["selected"] for row in read(tmp_path / "top" / "ranking.csv")] == ["yes"] * 3 + ["no"] * 5


@pytest.mark.slow
def test_features_to_keep_are_selected_and_named(tmp_path):
    file = write(tmp_path / "table.csv", *numbers(200, 12))
    out = tmp_path / "out"
    result = invoke("select", file, "--target", "status", *SHORT, "--keep", "g7,g0", "--out", out)
    assert result.exit_code == 0, result.output
    assert "Kept by request (--keep): g7 and g0. The other features were ranked by what they add" in result.stdout
    rows = read(out / "ranking.csv")
    assert [row["feature"] for row in rows[:3]] == ["g7", "g0", "g1"]
    assert [row["selected"] for row in rows[:4]] == ["yes", "yes", "yes", "no"]
    assert [row["stability"] for row in rows[:3]] == ["", "", "1.0"]
    about = json.loads((out / "run.json").read_text())
    assert "--keep g7,g0" in about["command"]
    assert about["parameters"]["keep"] == ["g7", "g0"]
    assert "Kept by request" in (out / "report.html").read_text()
    first = (out / "report.html").read_bytes()
    assert invoke("report", out).exit_code == 0
    assert (out / "report.html").read_bytes() == first
    assert invoke("select", file, "--target", "status", *SHORT, "--keep", "g7,g0", "--out", out).exit_code == 0
    refused(invoke("select", file, "--target", "status", *SHORT, "--out", out), "with other settings", "keep")


@pytest.mark.slow
def test_a_feature_to_keep_is_not_a_finding(tmp_path):
    rng = np.random.default_rng(0)
    file = write(tmp_path / "noise.csv", rng.standard_normal((60, 8)), rng.permutation(60) % 2)
    result = invoke("select", file, "--target", "status", *SHORT, "--keep", "g4", "--out", tmp_path / "out")
    assert result.exit_code == cli.NOTHING, result.output
    assert "Nothing is selected by the data" in result.stdout
    assert [row["feature"] for row in read(tmp_path / "out" / "ranking.csv") if row["selected"] == "yes"] == ["g4"]


def test_debug_shows_the_traceback_at_any_position(tmp_path):
    command = [sys.executable, "-m", "randsel", "select", "none.csv", "--target", "y", "--out", "out"]
    quiet = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    loud = subprocess.run([*command, "--debug"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "Traceback" not in quiet.stderr
    assert "Traceback" in loud.stderr
    assert quiet.returncode == loud.returncode == 1


def test_an_internal_error_is_one_sentence_that_names_debug(tmp_path, monkeypatch):
    file = write(tmp_path / "table.csv", X, Y)

    def broken(*_, **__):
        msg = "list index out of range"
        raise IndexError(msg)

    monkeypatch.setattr("randsel.analysis.analyse", broken)
    result = invoke("select", file, "--target", "status", "--out", tmp_path / "out")
    refused(result, "IndexError: list index out of range. This should not happen: --debug shows where it did.")


# ---------------------------------------------------------------- names, packages, options


def test_names_are_kept_in_files_and_harmless_on_a_terminal(tmp_path):
    names = ["=1+1", "-ATP", "@x", "<img src=x onerror=alert(1)>", "\x1b[31mred\x1b[0m", "a\u202eb"]
    rows = [[*map(repr, x), label] for x, label in zip(X.tolist(), Y, strict=True)]
    cells([*names, "status"], rows)(tmp_path / "table.csv")
    options = ["--target", "status", "--halves", 0, "--folds", 0, "--out", tmp_path / "out"]
    result = invoke("select", tmp_path / "table.csv", *options)
    assert result.exit_code in (0, cli.NOTHING), result.output
    assert sorted(row["feature"] for row in read(tmp_path / "out" / "ranking.csv")) == sorted(names)
    for odd in ("\x1b", "\u202e"):
        assert odd not in result.output
    assert "\\u001b[31mred" in result.stdout
    assert "3 names of features start with =, +, - or @ (the first is =1+1)" in result.stderr
    assert "<img" not in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("package", "lost"), [("jinja2", {"report.html"}), ("matplotlib", {"report.html", "path.png", "volcano.png"})]
)
def test_a_missing_package_costs_only_its_file(tmp_path, monkeypatch, package, lost):
    real = _text.import_module

    def without(module):
        if module.split(".")[0] == package:
            raise ImportError(module)
        return real(module)

    monkeypatch.setattr(_text, "import_module", without)
    file = write(tmp_path / "table.csv", *numbers(200, 12))
    options = ["--target", "status", "--halves", 0, "--folds", 0, "--out", tmp_path / "out"]
    result = invoke("select", file, *options)
    assert result.exit_code == 0, result.output
    assert {path.name for path in (tmp_path / "out").iterdir()} >= FILES - lost - {"panel-size.csv", "panel-size.png"}
    assert not lost & {path.name for path in (tmp_path / "out").iterdir()}
    assert f"needs {package}, which is not installed: pip install {package}" in result.stderr
    refused(invoke("report", tmp_path / "out"), package)


def test_help_names_exit_codes_and_imports_nothing_slow():
    text = invoke("select", "--help").output
    for code in (0, 1, 2, cli.NOTHING, cli.INTERRUPTED, cli.TERMINATED):
        assert f"\n    {code} " in text
    code = "import sys; from randsel.cli import main; main(['select', '--help'], standalone_mode=False);"
    code += "print([m for m in ('numpy', 'scipy', 'sklearn', 'joblib') if m in sys.modules], file=sys.stderr)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stderr.strip() == "[]"


def test_choices_of_the_command_line_are_those_of_the_code():
    text = " ".join(invoke("select", "--help").output.split())
    assert f"at most {_selection.PAIR_BUDGET:.0e}".replace("e+", "e") in text
    defaults = Settings()
    given = {p.name: p.default for p in main.commands["select"].params}
    for name in ("halves", "folds", "seed", "task", "pairs"):
        assert given[name] == getattr(defaults, name)


def test_progress_is_shown_on_a_terminal_only(monkeypatch, capsys):
    line = ProgressLine()
    line("folds", 1, 5)
    line.end()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    line = ProgressLine()
    for done in range(1, 5):
        line("half-samples", done, 5)
    line.end()
    said = capsys.readouterr().err
    assert "half-samples: 80 %" in said
    assert " left" in said
    assert "\n" not in said


@pytest.mark.slow
@pytest.mark.data
def test_a_batch_confounded_with_the_target_is_in_the_report(tmp_path):
    data = Path(__file__).parents[3] / "shared" / "data" / "tb_gse19491_ltbi.npz"
    if not data.exists():
        pytest.skip("the benchmark data set is not beside this checkout")
    result = invoke("select", data, "--halves", 0, "--folds", 0, "--out", tmp_path / "out")
    assert "The batch is confounded with the target" in result.stderr
    assert "The batch is confounded with the target" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    found = report.contents(results.load_analysis(tmp_path / "out"))
    assert any("confounded" in warning for warning in found["warnings"])


def test_a_run_that_was_refused_leaves_the_folder_free(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{'ab'[i % 2]},{','.join(f'{v:.3f}' for v in rng.standard_normal(3))},7" for i in range(20)]
    (tmp_path / "t.csv").write_text("\n".join(["y,g1,g2,g3,same", *lines]) + "\n")
    words = ["select", tmp_path / "t.csv", "--target", "y", "--halves", 0, "--folds", 0, "--top", 1]
    refused = invoke(*words, "--keep", "same", "--out", tmp_path / "out")
    assert refused.exit_code == 1
    assert "keep names 'same', which is constant" in refused.output
    again = invoke(*words, "--keep", "g1", "--out", tmp_path / "out")
    assert again.exit_code in (0, 3), again.output
    other = invoke(*words, "--keep", "same", "--out", tmp_path / "out")
    assert other.exit_code == 1
    assert (tmp_path / "out" / "run.json").exists()
