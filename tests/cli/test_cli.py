import csv
import gzip
import inspect
import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from randsel import __version__, experiments, plots
from randsel._utils import text as _text
from randsel._utils.choices import DEFAULT_METHODS, METHODS
from randsel.cli._main import _message, main
from randsel.tables import _read as tables


@pytest.fixture
def run():
    return lambda *args: CliRunner().invoke(main, list(args))


def test_demo_names_the_two_features_and_draws_the_path(run, tmp_path):
    out = tmp_path / "path.png"
    result = run("demo", "--out", str(out), "--features", "60", "--seed", "3")
    assert result.exit_code == 0
    assert "Selected: x0, x1" in result.output
    rounds = [line for line in result.output.splitlines() if line[:5].strip().isdigit()]
    assert [int(line[:5]) for line in rounds][:3] == [60, 45, 34]
    assert "none left" in rounds[-1]
    assert out.read_bytes().startswith(b"\x89PNG")


def test_demo_goes_on_without_matplotlib(run, tmp_path, monkeypatch):
    def missing(*args, **kwargs):
        msg = "Drawing needs matplotlib"
        raise ImportError(msg)

    monkeypatch.setattr(plots, "culling_path", missing)
    result = run("demo", "--out", str(tmp_path / "path.png"), "--features", "20")
    assert result.exit_code == 0
    assert "No picture: Drawing needs matplotlib" in result.stderr


def test_demo_with_a_file_that_cannot_be_written(run, tmp_path):
    result = run("demo", "--out", str(tmp_path / "no" / "such" / "path.png"), "--features", "20")
    assert isinstance(result.exception, SystemExit)
    assert "Error: " in result.output
    assert "No such file" in result.output
    assert "one class only" in run("demo", "--samples", "8", "--features", "3", "--seed", "7").output


def test_version_and_module(run):
    assert __version__ in run("--version").output
    found = subprocess.run([sys.executable, "-m", "randsel", "--help"], capture_output=True, text=True, check=True)
    assert "Usage: randsel" in found.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_those_that_click_makes(run, shell):
    result = run("completion", shell)
    assert result.exit_code == 0
    assert "_RANDSEL_COMPLETE" in result.output
    made = CliRunner().invoke(main, [], prog_name="randsel", env={"_RANDSEL_COMPLETE": f"{shell}_source"})
    assert result.output.strip() == made.output.strip()


def test_completion_completes():
    env = {"_RANDSEL_COMPLETE": "bash_complete", "COMP_WORDS": "randsel inter", "COMP_CWORD": "1"}
    assert "interactions" in CliRunner().invoke(main, [], prog_name="randsel", env=env).output


def test_every_command_has_examples_that_parse(run):
    for name, command in main.commands.items():
        shown = run(name, "--help").output
        assert "Examples:\n" in shown, name
        lines = [line.strip() for line in shown.split("Examples:\n")[1].split("\n\n")[0].splitlines()]
        assert lines, name
        for line in lines:
            words = shlex.split(re.sub(r'.*\$\((.*)\)"|(.*) \| source', r"\1\2", line))
            assert words[:2] == ["randsel", name], line
            options = {option for parameter in command.params for option in parameter.opts}
            assert {word for word in words if word.startswith("--")} <= options, line


@pytest.fixture
def epistatic(tmp_path):
    """A table whose target is decided by a kind and a number together, with a sub-study and a donor per row."""
    rng = np.random.default_rng(4)
    X, kind = rng.standard_normal((160, 6)), rng.choice(["red", "green"], 160)
    status = np.where((kind == "green") ^ (X[:, 2] > 0), "case", "control")
    rows = [
        ",".join([s, k, f"s{p % 2}", *map(str, x)]) for p, (s, k, x) in enumerate(zip(status, kind, X, strict=True))
    ]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["status,kind,study," + ",".join(f"g{j}" for j in range(6)), *rows]))
    return path


def read(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def test_interactions_names_features_and_partners(run, epistatic, tmp_path):
    options = ["--target", "status", "--categorical", "kind", "--batch", "study", "--out", str(tmp_path / "out")]
    result = run("interactions", str(epistatic), *options)
    assert result.exit_code == 0, result.output
    assert "160 samples, 7 features; 2 selected." in result.output
    features = read(tmp_path / "out" / "features.csv")
    assert {row["feature"] for row in features[:2]} == {"kind", "g2"}
    assert {row["partner"] for row in features[:2]} == {"kind", "g2"}
    assert [row["selected"] for row in features] == ["yes"] * 2 + ["no"] * 5
    pairs = read(tmp_path / "out" / "pairs.csv")
    assert {pairs[0]["feature"], pairs[0]["partner"]} == {"kind", "g2"}
    assert len(pairs) == 21
    assert float(pairs[0]["corrected_p"]) < 1e-6
    assert [row["rank"] for row in features] == [str(rank) for rank in range(1, 8)]
    assert "One pair holds after correction for all 21 pairs: kind with g2" in result.output
    report = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "One pair holds after correction for all 21 pairs" in report
    assert "<svg" in report
    assert f"{epistatic} --target status --batch study --categorical kind --out" in report
    for name in ("heatmap.png", "pairs.png"):
        assert (tmp_path / "out" / name).read_bytes().startswith(b"\x89PNG")


def test_interactions_of_three_and_remarks(run, epistatic, tmp_path):
    options = ["--target", "status", "--categorical", "kind,study", "--out", str(tmp_path / "out")]
    result = run(
        "interactions", str(epistatic), *options, "--order", "3", "--top", "4", "--fdr", "0.05", "--pairs", "5"
    )
    assert result.exit_code == 0, result.output
    assert "2 features are selected, not 4" in result.output
    rows = read(tmp_path / "out" / "pairs.csv")
    assert len(rows) == 10
    assert all(row["third"] for row in rows[5:])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--target", "statu"], "did you mean 'status'"),
        (["--target", "status"], "column 'kind' holds"),
        (["--target", "status", "--categorical", "kin"], "did you mean 'kind'?"),
    ],
)
def test_interactions_says_what_is_wrong_with_the_table(run, epistatic, tmp_path, options, message):
    result = run("interactions", str(epistatic), *options, "--out", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert message in result.output
    assert not (tmp_path / "out").exists()


def test_names_are_text_and_many_classes_are_classes(run, tmp_path):
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((60, 3)), np.arange(60) % 12
    rows = [",".join([f"$k{label}$", *map(str, x)]) for label, x in zip(y, X, strict=True)]
    (tmp_path / "odd.csv").write_text("\n".join(["y,$x^$,$\\frac$,a|b", *rows]))
    result = run("interactions", str(tmp_path / "odd.csv"), "--target", "y", "--out", str(tmp_path / "out"))
    assert result.exit_code == 3, result.output  # nothing holds
    assert "No report" not in result.output
    assert "a\\|b" in result.output
    assert "No pair holds after correction for all 3 pairs" in result.output
    report = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "No pair holds after correction for all 3 pairs" in report
    assert "<svg" not in report  # no pictures of pairs that do not hold
    assert not (tmp_path / "out" / "pairs.png").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("binary.csv", b"y,a\n1,\0\n", "is not a text file"),
        ("cut.csv.gz", gzip.compress(b"y,a\n" + b"1,2\n" * 5000, mtime=0)[:60], "cut off or damaged"),
        ("plain.csv.gz", b"y,a\n1,2\n", "cut off or damaged"),
        ("long.csv", b"y,a\n0,1\n0,1\n1,1\n1," + b"2" * 200_000, "1 entry of column 'a' is infinite"),
    ],
)
def test_files_that_are_no_tables_are_named(run, tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    result = run("interactions", str(tmp_path / name), "--target", "y", "--out", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert message in result.output
    assert name in result.output


def test_a_column_has_one_purpose(run, epistatic, tmp_path):
    for options in (["--categorical", "status"], ["--groups", "status"]):
        result = run("interactions", str(epistatic), "--target", "status", *options, "--out", str(tmp_path / "out"))
        assert result.exit_code == 1
        assert "'status' is named twice" in result.output


def test_a_table_that_lies_on_its_side_with_gaps(run, tmp_path):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((6, 40))
    status = np.where(X[2] > 0, "case", "control")
    cells = [["" if (i + j) % 11 == 0 else repr(v) for j, v in enumerate(x)] for i, x in enumerate(X.tolist())]
    rows = [["gene", *(f"s{j}" for j in range(40))], *([f"g{i}", *row] for i, row in enumerate(cells))]
    (tmp_path / "genes.tsv").write_text("\n".join("\t".join(row) for row in rows))
    labels = "".join(f"s{j},{label}\n" for j, label in enumerate(status))
    (tmp_path / "labels.csv").write_text("sample,status\n" + labels)
    options = [str(tmp_path / "genes.tsv"), "--target-file", str(tmp_path / "labels.csv")]
    refused = run("interactions", *options, "--missing", "error", "--out", str(tmp_path / "scan"))
    assert refused.exit_code == 1
    assert "Choose --missing neutral, median (imputed within folds) or drop-columns" in refused.output
    result = run("interactions", *options, "--out", str(tmp_path / "neutral"))
    assert result.exit_code == 0, result.output
    assert "Note: Missing values are neutral" in result.stderr
    assert read(tmp_path / "neutral" / "features.csv")[0]["feature"] == "g2"
    result = run("interactions", *options, "--missing", "median", "--out", str(tmp_path / "scan"))
    assert result.exit_code == 0, result.output
    assert "Note: Features are in rows: ids of the target file are in the header." in result.stderr
    assert "Note: there are no folds here, so medians are those of all samples." in result.stderr
    assert read(tmp_path / "scan" / "features.csv")[0]["feature"] == "g2"
    few = ["--methods", "Corr. Coeff.", "--folds", "2", "--reshuffles", "1", "--out", str(tmp_path / "compare")]
    result = run("compare", *options, "--missing", "median", *few)
    assert result.exit_code == 0, result.output
    assert "medians of training samples" in result.stderr
    assert "no folds here" not in result.stderr


def test_every_option_of_reading_is_an_option_of_the_commands():
    of_panels = {"only", "levels", "detection_values", "likely_ids"}
    known = set(inspect.signature(tables.read).parameters) - {"path", "classes", "batches", *of_panels}
    for command in (main.commands[name] for name in ("select", "interactions", "compare")):
        assert known <= {parameter.name for parameter in command.params}


def test_a_package_that_is_not_there_is_a_sentence(run, tmp_path, monkeypatch):
    def gone(module):
        raise ImportError(module)

    monkeypatch.setattr(_text, "import_module", gone)
    (tmp_path / "x.h5ad").write_bytes(b"")
    result = run("interactions", str(tmp_path / "x.h5ad"), "--target", "y", "--out", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert (
        "Error: Reading h5ad needs h5py, which is not installed: pip install h5py (part of the extra 'files')."
        in result.output
    )


@pytest.mark.slow
def test_black_box_writes_tables_and_a_picture(run, tmp_path, monkeypatch):
    sizes = {"n_labelled": 45, "n_held_out": 45, "n_components": 12, "iterations": (3,), "folds": 2, "seeds": 1}
    monkeypatch.setattr(experiments, "QUICK_BLACK_BOX", replace(experiments.QUICK_BLACK_BOX, **sizes))
    result = run("reproduce", "blackbox", "--quick", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "| LPBoostMKL, kernels of the path |" in result.output
    assert "45 labelled rows, 45 held out" in (tmp_path / "table.md").read_text()
    assert len(list(csv.DictReader((tmp_path / "table.csv").read_text().splitlines()))) == 6
    assert (tmp_path / "weights.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["blackbox", "--jobs", "2"], "blackbox runs all it has on one core"),
        (["blackbox", "--methods", "randSel"], "for table1 and table2"),
        (["blackbox", "--data", "."], "--data and --geo are for table2"),
        (["table1", "--quick"], "--quick is for blackbox"),
    ],
)
def test_options_that_another_experiment_has(run, tmp_path, options, message):
    result = run("reproduce", *options, "--out", str(tmp_path))
    assert result.exit_code == 2
    assert message in result.output


def test_pairs_of_a_selection_are_not_overwritten(run, tmp_path):
    (tmp_path / "run.json").write_text("{}")
    (tmp_path / "x.csv").write_text("a,y\n1,2\n")
    result = run("interactions", str(tmp_path / "x.csv"), "--target", "y", "--out", str(tmp_path))
    assert result.exit_code == 1
    assert "holds a run of randsel select" in result.output


def test_a_comparison_of_numbers(run, tmp_path):
    rng = np.random.default_rng(0)
    rows = [",".join(map(str, row)) for row in rng.normal(size=(40, 4)).tolist()]
    (tmp_path / "x.csv").write_text("\n".join(["a,b,c,dose", *rows]))
    options = [str(tmp_path / "x.csv"), "--target", "dose", "--methods", "SVM-RFE, F-test", "--folds", "3"]
    result = run("compare", *options, "--out", str(tmp_path / "out"), "--reshuffles", "1")
    assert result.exit_code == 0, result.output
    assert "| data | method | R² | features | cells |" in result.output
    assert "R² is that of the test samples of a cell" in result.output
    assert (tmp_path / "out" / "comparison.png").exists()
    assert json.loads((tmp_path / "out" / "run.json").read_text())["parameters"]["task"] == "regression"
    refused = run("compare", *options, "--out", str(tmp_path / "classes"), "--task", "classification")
    assert refused.exit_code == 1
    assert "the target has 40 different numbers, which are not classes" in refused.output


def test_methods_that_are_compared_by_default():
    assert set(METHODS) - set(DEFAULT_METHODS) == {"randSel (bootstrap)", "F-test"}


def test_a_large_file_is_announced(run, tmp_path, monkeypatch):
    monkeypatch.setattr("randsel.cli._main.LARGE_FILE", 5)
    (tmp_path / "x.csv").write_text("a,y\n1,2\n")
    result = run("interactions", str(tmp_path / "x.csv"), "--target", "y", "--out", str(tmp_path / "out"))
    assert result.stderr.startswith(f"Reading {tmp_path / 'x.csv'}, 0 MB.")


@pytest.fixture
def grades(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4))
    y = np.clip(np.round(2.5 + 1.5 * X[:, 0] + 0.5 * rng.standard_normal(60)), 0, 5).astype(int)
    rows = [",".join(map(str, [grade, *x])) for grade, x in zip(y, X, strict=True)]
    path = tmp_path / "grades.csv"
    path.write_text("\n".join(["grade,a,b,c,d", *rows]))
    return path


@pytest.mark.parametrize("command", ["select", "interactions", "compare"])
def test_a_note_says_that_grades_are_numbers_and_how_to_overrule_it(run, grades, tmp_path, command):
    options = {
        "select": ["--halves", "2", "--folds", "2"],
        "interactions": [],
        "compare": ["--folds", "2", "--reshuffles", "1", "--methods", "F-test"],
    }[command]
    words = [command, str(grades), "--target", "grade", *options, "--out"]
    note = "The target is taken for numbers whose order counts."
    result = run(*words, str(tmp_path / "numbers"))
    assert result.exit_code == 0, result.output
    assert f"Note: {note}" in result.stderr
    assert result.stderr.count(note) == 1
    file = {"select": "report.html", "compare": "table.md"}.get(command)
    assert file is None or "--task classification" in (tmp_path / "numbers" / file).read_text()
    result = run(*words, str(tmp_path / "classes"), "--task", "classification")
    assert result.exit_code in (0, 1), result.output  # a grade of few samples is too small a class to compare
    assert note not in result.output


def test_messy_files_are_read_with_options(run, tmp_path):
    text = "A title\nrun_id,g,g,sex,y\n" + "".join(
        f"{i},{i % 3},{'ND' if i else '<LOD'},f,{'ab'[i % 2]}\n" for i in range(9)
    )
    (tmp_path / "x.csv").write_text(text)
    options = ["--na", "ND,-", "--below-detection", "missing", "--duplicates", "rename", "--drop-columns", "sex"]
    result = run("interactions", str(tmp_path / "x.csv"), "--target", "y", "--out", str(tmp_path / "out"), *options)
    assert "Line 1 is left out, above the table: 'A title'." in result.output
    assert "Column 'run_id' holds a different whole number in every row" in result.output
    assert "(--na): 'ND' in 8 cells, '-' in 0 cells." in result.output
    assert "the second one is called 'g.2'" in result.output


@pytest.mark.parametrize("command", ["select", "interactions"])
def test_names_of_the_user_are_quoted_as_they_are(run, tmp_path, command):
    """A column may be called like a parameter with its value."""
    (tmp_path / "x.csv").write_text(
        "g,drug=True,y\n" + "".join(f"{i},{i if i else 'odd'},{'ab'[i % 2]}\n" for i in range(9))
    )
    result = run(command, str(tmp_path / "x.csv"), "--target", "y", "--out", str(tmp_path / "out"))
    assert "column 'drug=True' holds 'odd' in line 2" in result.output


def test_covariates_are_needed_to_test_features_together_with_them(run, tmp_path):
    result = run("interactions", str(tmp_path / "x.csv"), "--with-covariates", "--out", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert "--with-covariates needs --covariates." in result.output


def test_a_folder_that_the_system_refuses_is_a_sentence():
    error = FileNotFoundError(2, "No such file or directory", "/proc/x")
    assert (
        _message(error) == "/proc/x cannot be written or read (No such file or directory); give another file or folder."
    )
