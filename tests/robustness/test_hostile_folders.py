"""Result folders that somebody tampered with, and specifications: refused in a sentence, or computed again and said."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from randsel._utils import files
from randsel._utils.files import FinishedParts, write_atomically
from randsel.cli._main import main
from randsel.experiments import _cells, _run
from randsel.experiments._specification import Spec, load_table
from randsel.report import _storage as results


def invoke(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    X = np.random.default_rng(0).standard_normal((40, 5))
    y = np.where(X[:, 0] > 0, "case", "control")
    file = tmp_path_factory.mktemp("data") / "table.csv"
    rows = [",".join([*map(repr, x), label]) for x, label in zip(X.tolist(), y, strict=True)]
    file.write_text("\n".join(["a,b,c,d,e,status", *rows]) + "\n")
    return file


@pytest.fixture(scope="module")
def finished(table):
    assert select(table, table.parent / "out").exit_code == 0
    return table.parent / "out"


@pytest.fixture
def out(finished, tmp_path):
    return Path(shutil.copytree(finished, tmp_path / "out"))


def select(table, out):
    return invoke("select", table, "--target", "status", "--halves", 2, "--folds", 2, "--out", out)


def refused(result, *words):
    assert result.exit_code == 1, result.output
    assert "Traceback" not in result.output
    assert "This should not happen" not in result.output
    message = result.output[result.output.index("Error: ") :]
    assert all(word in message for word in words), message
    assert len(message) < 600


# ---------------------------------------------------------------- links


@pytest.mark.slow
@pytest.mark.parametrize("name", ["run.json", ".lock", "report.html", "ranking.csv", "parts/path.npz", "parts/new.npz"])
def test_a_link_in_a_result_folder_is_refused_and_what_it_leads_to_stays_as_it_is(table, out, tmp_path, name):
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (out / name).unlink(missing_ok=True)
    (out / name).symlink_to(precious)
    refused(select(table, out), f"{name} is a symbolic link", "remove it, or give another folder")
    refused(invoke("report", out), "is a symbolic link")
    assert precious.read_text() == "precious"


def test_parts_that_are_a_link_are_refused(table, out, tmp_path):
    (out / "parts").rename(tmp_path / "elsewhere")
    (out / "parts").symlink_to(tmp_path / "elsewhere")
    before = sorted(path.stat().st_mtime_ns for path in (tmp_path / "elsewhere").iterdir())
    refused(select(table, out), "parts is a symbolic link")
    refused(invoke("report", out), "parts is a symbolic link")
    with pytest.raises(ValueError, match="parts is a symbolic link"):
        FinishedParts(out / "parts")
    assert sorted(path.stat().st_mtime_ns for path in (tmp_path / "elsewhere").iterdir()) == before


@pytest.mark.slow
def test_the_folder_itself_may_be_a_link(table, out, tmp_path):
    (tmp_path / "link").symlink_to(out)
    assert select(table, tmp_path / "link").exit_code == 0


def test_other_commands_do_not_follow_links_either(table, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("precious")
    written = {"interactions": ("pairs.png",), "compare": ("comparison.png", "runs.csv", "cells/seconds.csv")}
    for command, name in ((command, name) for command, names in written.items() for name in names):
        folder = tmp_path / f"{command}-{Path(name).name}"
        (folder / name).parent.mkdir(parents=True)
        (folder / name).symlink_to(precious)
        refused(invoke(command, table, "--target", "status", "--out", folder), f"{name} is a symbolic link")
    (tmp_path / "figure").mkdir()
    (tmp_path / "figure" / "figure1.png").symlink_to(precious)
    refused(invoke("reproduce", "figure1", "--out", tmp_path / "figure"), "figure1.png is a symbolic link")
    assert precious.read_text() == "precious"


def test_a_link_that_appears_later_is_replaced_or_refused_never_followed(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("precious")
    for name in ("table.md", f"table.{os.getpid()}.partial"):
        (tmp_path / name).symlink_to(precious)
    write_atomically(tmp_path / "table.md", "results")
    assert (tmp_path / "table.md").read_text() == "results"
    assert not (tmp_path / "table.md").is_symlink()
    (tmp_path / "runs.csv").symlink_to(precious)
    with pytest.raises(ValueError, match=r"runs.csv is a symbolic link"):
        files.open_for_append(tmp_path / "runs.csv")
    assert precious.read_text() == "precious"


# ---------------------------------------------------------------- other runs, other users


def test_the_folder_of_another_run_is_refused(table, out, tmp_path):
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    refused(invoke("select", table, "--target", "status", "--halves", 4, "--out", out), "with other settings (halves")
    other = tmp_path / "other.csv"
    other.write_text(table.read_text().replace("control", "well"))
    refused(select(other, out), "holds a run on other data")
    for command, words in (("interactions", "whose files would be lost"), ("compare", "holds a run on other data")):
        refused(invoke(command, table, "--target", "status", "--out", out), words)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_the_folder_of_another_comparison_is_refused(table, tmp_path):
    other, out = tmp_path / "table.csv", tmp_path / "out"
    other.write_text(table.read_text().replace("control", "well"))
    options = ["--target", "status", "--folds", 2, "--reshuffles", 1, "--methods", "Corr. Coeff.", "--out", out]
    assert invoke("compare", table, *options).exit_code == 0
    before = (out / "table.md").read_bytes()
    refused(invoke("compare", other, *options), "holds a run on other data")
    refused(invoke("compare", other.rename(tmp_path / "other.csv"), *options), "holds a run on other data")
    refused(select(table, out), "holds a run")
    refused(invoke("interactions", table, "--target", "status", "--out", out), "whose files would be lost")
    assert (out / "table.md").read_bytes() == before
    assert invoke("compare", table, *options).exit_code == 0


@pytest.mark.parametrize("name", ["run.json", "parts", ".lock"])
def test_the_run_of_another_user_is_refused(table, out, monkeypatch, name):
    for other in {"run.json", "parts", ".lock"} - {name}:
        (out / other).rename(out.parent / other)
    monkeypatch.setattr(os, "geteuid", lambda: (out / name).stat().st_uid + 1)
    refused(select(table, out), f"{name} belongs to another user")


# ---------------------------------------------------------------- run.json


@pytest.mark.parametrize(
    "content",
    [b"[" * 100_000, b'{"a":' * 100_000, b"[]", b"null", b"\xff\xfe", b'{"a": ' + b"1" * 5000 + b"}", b'{"a": 1'],
    ids=["nested lists", "nested tables", "list", "null", "no text", "digits", "cut off"],
)
def test_a_damaged_identity(table, out, content):
    (out / "run.json").write_bytes(content)
    refused(invoke("report", out), "run.json is damaged")
    refused(select(table, out), "run.json is damaged")


def test_an_identity_that_is_too_large_or_no_file(table, out, monkeypatch):
    monkeypatch.setattr(files, "LARGEST_JSON", 100)
    refused(invoke("report", out), "run.json is damaged")
    (out / "run.json").unlink()
    os.mkfifo(out / "run.json")
    refused(invoke("report", out), "no folder of randsel select")


# ---------------------------------------------------------------- parts

WRONG = {
    "other numbers": lambda values: np.full(values.shape, 10**6),
    "text": lambda values: np.full(values.shape, "x"),
    "longer": lambda values: np.resize(values, tuple(2 * n + 1 for n in values.shape) or (2,)),
    "nothing": lambda values: np.zeros(0),
    "another dimension": lambda values: values[None],
}


def tampered(path, key, change):
    with np.load(path, allow_pickle=False) as found:
        arrays = dict(found)
    arrays[key] = change(arrays[key])
    np.savez(path, **arrays)


def keys(path):
    with np.load(path, allow_pickle=False) as found:
        return found.files


@pytest.mark.slow
@pytest.mark.parametrize("wrong", WRONG)
def test_a_report_of_tampered_parts_is_refused(out, monkeypatch, wrong):
    for name in ("draw_panel", "draw_figure"):
        monkeypatch.setattr(f"randsel.report._html.{name}", lambda *_, **__: "<svg/>")
    for path in (out / "parts" / "report.npz", out / "parts" / "path.npz"):
        whole = path.read_bytes()
        for key in keys(path):
            tampered(path, key, WRONG[wrong])
            result = invoke("report", out)
            # numbers that are no places, and text that is shown as it is, may be any
            if result.exit_code:
                refused(result, "damaged", "again")
            else:
                assert wrong in ("other numbers", "text", "longer") or key == "spectrum", key
            path.write_bytes(whole)
    assert invoke("report", out).exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["path", "tests", "half-000", "fold-000"])
def test_tampered_parts_are_computed_again_and_that_is_said(table, out, name):
    path, ranking = out / "parts" / f"{name}.npz", (out / "ranking.csv").read_bytes()
    for key in keys(path)[:3]:
        tampered(path, key, WRONG["another dimension"])
        result = select(table, out)
        assert result.exit_code == 0, result.output
        assert f"{name}.npz was damaged and was computed again" in result.output
        assert (out / "ranking.csv").read_bytes() == ranking


def test_a_part_that_would_fill_the_memory_counts_as_damaged(tmp_path, monkeypatch):
    parts = FinishedParts(tmp_path)
    parts.save("path", {"order": np.zeros(10_000)})
    monkeypatch.setattr(files, "LARGEST_PART", 1000)
    assert parts.load("path") is None
    assert parts.damaged == ["path.npz"]


# ---------------------------------------------------------------- cells and specifications

CELL = {
    "accuracy": 0.5,
    "balanced_accuracy": 0.5,
    "n_features": 2,
    "seconds": 1.0,
    "features": ["a"],
    "curve": {"2": 1.0},
}


@pytest.mark.parametrize(
    "change",
    [
        {"accuracy": "0.5"},
        {"accuracy": 10**400},
        {"accuracy": True},
        {"n_features": float("nan")},
        {"features": "a"},
        {"features": [1]},
        {"curve": {"two": 1.0}},
        {"curve": {"2": None}},
        {"curve": {"3": 1.0}},
        {"recall": []},
    ],
)
def test_a_tampered_cell_is_computed_again(tmp_path, change):
    path, notes, numbers = tmp_path / "cell.json", [], (*_cells.SCORES["classification"], "n_features")

    def read():
        return _run.read_cell(path, notes, numbers, lambda cell: _run.is_complete_result(cell, [2]))

    path.write_text(json.dumps({"result": CELL}))
    assert read() == CELL
    path.write_text(json.dumps({"result": {**CELL, **change}}))
    assert read() is None
    assert notes == ["cell.json was damaged and is computed again."]


SPEC = 'name = "s"\n[[data]]\nname = "d"\n{}\n[[methods]]\nname = "RFE"\n'


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('file = "../secret.csv"', "no file within the folder"),
        ('file = "/etc/passwd"', "no file within the folder"),
        ('file = "link.csv"', "no file within the folder"),
        ('file = "a\\u0000b"', "no file within the folder"),
        ("file = 3", "no file within the folder"),
        ('make = "np"', "no data set is made by 'np'; known are make_"),
        ('make = "__builtins__"', "no data set is made by"),
        ('make = "make_xor"\nharm = 1', "cannot be made or read so"),
    ],
)
def test_a_specification_does_not_reach_out_of_its_folder(tmp_path, line, words):
    folder = tmp_path / "data"
    folder.mkdir()
    (tmp_path / "secret.csv").write_text("y,a\n1,2\n2,1\n1,3\n2,2\n")
    (folder / "link.csv").symlink_to(tmp_path / "secret.csv")
    (folder / "spec.toml").write_text(SPEC.format(line))
    spec = Spec.load(folder / "spec.toml")
    with pytest.raises(ValueError, match=words):
        load_table(spec.data[0], folder)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name = ", "cannot be read as a specification in TOML"),
        ("a = " + "[" * 5000, "cannot be read as a specification in TOML"),
        ("name = 1\ndata = []\nmethods = []", "'name' is not as it must be"),
        ("data = []", "has no entry 'name'"),
        (SPEC.format("").replace('name = "d"', "name = 1"), "'data' is not as it must be"),
        ("folds = 1000000000\n" + SPEC.format(""), "'folds' is not as it must be"),
        ("gammas = [[1]]\n" + SPEC.format(""), "'gammas' is not as it must be"),
        (SPEC.format("params = 1"), "'data' is not as it must be"),
    ],
)
def test_a_damaged_specification_is_refused(tmp_path, text, words):
    (tmp_path / "spec.toml").write_text(text)
    with pytest.raises(ValueError, match=words):
        Spec.load(tmp_path / "spec.toml")


def test_names_of_data_sets_name_no_files_and_do_not_act_on_the_terminal(table, tmp_path):
    file = tmp_path / "\x1b[31m..\\u0007.csv"
    file.write_text(table.read_text().replace("a,b,c", "a,\x1b[2J,c"))
    options = ["--folds", 2, "--reshuffles", 1, "--methods", "Corr. Coeff.", "--out", tmp_path / "out"]
    result = invoke("compare", file, "--target", "status", *options)
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.output
    own = {"table", "ranking", "features", "times", "runs", "comparison", "run", "cells", "seconds", ".lock"}
    assert all(len(path.stem) == 24 or path.stem in own for path in (tmp_path / "out").rglob("*"))
    result = invoke("interactions", file, "--target", "status", "--out", tmp_path / "pairs")
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.output


def test_a_folder_from_elsewhere_is_read_without_computing_or_writing_beside_it(out, tmp_path):
    before = {path.name for path in tmp_path.rglob("*")}
    assert results.load_analysis(out).table.names == ("a", "b", "c", "d", "e")
    assert {path.name for path in tmp_path.rglob("*")} == before
