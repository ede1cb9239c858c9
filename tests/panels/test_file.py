"""The file of a panel: damaged, malicious and newer files are refused in a sentence."""

import copy
import json
import os

import numpy as np
import pytest
from panel_tables import make_panel, make_table

from randsel import Panel
from randsel._utils import files
from randsel.panels import _file, write_panel


@pytest.fixture
def document(panel, tmp_path):
    write_panel(panel, tmp_path / "panel.json")
    return json.loads((tmp_path / "panel.json").read_text())


def refused(tmp_path, document, words, *, seal=True):
    """Assert that a changed file is refused in a short sentence; `seal` makes its checksum right."""
    if seal:
        document["checksum"] = _file.checksum(document["panel"])
    (tmp_path / "panel.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match=words) as caught:
        Panel.load(tmp_path)
    assert len(str(caught.value)) < 600


def test_the_file_says_what_it_is(document):
    assert document["format"] == "randsel panel"
    assert document["schema"] == 2
    assert [feature["name"] for feature in document["panel"]["features"]] == ["a", "b"]
    assert document["panel"]["calibration"]["nested"] is True


def test_a_changed_number_is_noticed(document, tmp_path):
    document["panel"]["model"]["intercept"][0] += 1e-9
    refused(tmp_path, document, "is damaged .its checksum is wrong.; run randsel select again", seal=False)


@pytest.mark.parametrize("schema", [3, 0, "2", None, True, [2], {"a": 1}])
def test_another_schema(document, tmp_path, schema):
    document["schema"] = schema
    refused(tmp_path, document, "has the schema .* but this version of randsel reads 2; update randsel")


def test_an_older_schema_is_refused_with_the_remedy(document, tmp_path):
    document["schema"] = 1
    refused(tmp_path, document, "has the schema 1, but this version of randsel reads 2; run randsel select again")


HUGE = 10**400
#: Path into the panel -> values that are refused there.
WRONG = {
    ("kind",): ["other", 3, None, ["classification"], "survival", "regression"],
    ("features",): [[], {}, None, [None], "ab", [{}] * 2000],
    ("features", 0, "name"): [None, 3, ["a"], "b"],
    ("features", 0, "points"): [[], None, [1, "2"], [float("nan")], [float("inf")], [2, 1], [True], [[1]], [HUGE]],
    ("features", 0, "stand_ins"): [None, {}, [None], [{}], [{"name": "c"}] * 50],
    ("features", 0, "stand_ins", 0, "correlation"): [2, "1", None, float("nan")],
    ("features", 0, "indicator_of"): [3, ["c"]],
    ("features", 0, "below_detection"): [None, "1", float("nan"), True],
    ("features", 0, "levels"): ["red", [1], ["red", "red"], {}],
    ("covariates",): [None, {}, [{}], [{"name": "age", "mean": 0, "spread": 1, "levels": []}]],
    ("effects",): [[[1, 2]], "x", 0],
    ("model",): [None, [], {}],
    ("model", "kernel"): ["gaussian2", "cox", None, 3],
    ("model", "coefficients"): [None, [], [[1]], [["a"] * 2] * 2, [[float("nan")] * 2] * 2, [[HUGE] * 2] * 2],
    ("model", "intercept"): [None, [1], [1, 2, 3], ["a", "b"]],
    ("model", "gamma"): [-1, None, "x", float("nan"), True],
    ("classes",): [None, ["case"], ["case", "case"], ["case", 3], {"a": 1}, [None, None]],
    ("calibration",): [None, {}, []],
    ("calibration", "slope"): [-1, None, float("inf"), HUGE],
    ("calibration", "offsets"): [[1], None, ["a", "b"]],
    ("calibration", "thresholds"): [[0.5], None, [0.1, 0.9], ["a", "b"]],
    ("calibration", "nested"): [1, None, "yes"],
    ("about",): [None, [], "x"],
    ("about", "log2"): [1, "yes", None],
    ("about", "missing"): ["drop", 3, None, []],
    ("about", "batch"): [0, None],
    ("about", "outcome"): [None, [], {"target": 3}],
}


@pytest.mark.parametrize(
    ("name", "default", "wrong"), [("groups", None, 3), ("duplicates", "error", "last"), ("guesses", False, 1)]
)
def test_entries_that_older_files_lack_are_checked_and_have_defaults(document, tmp_path, name, default, wrong):
    document["panel"]["about"][name] = wrong
    refused(tmp_path, document, f"'{name}' is not valid")
    del document["panel"]["about"][name]
    document["checksum"] = _file.checksum(document["panel"])
    (tmp_path / "panel.json").write_text(json.dumps(document))
    assert Panel.load(tmp_path).about[name] == default


@pytest.mark.parametrize("path", WRONG, ids=lambda path: "/".join(map(str, path)))
def test_tampered_entries_are_refused(document, tmp_path, path):
    for value in WRONG[path]:
        changed = copy.deepcopy(document)
        entry = changed["panel"]
        for key in path[:-1]:
            entry = entry[key]
        entry[path[-1]] = value
        refused(tmp_path, changed, "is damaged")
        entry.pop(path[-1])
        refused(tmp_path, changed, "is damaged")


def test_a_tampered_gaussian_or_cox_model_is_refused(tmp_path):
    table = make_table()
    together = table.__class__(table.X, np.where(table.X[:, 0] * (table.X[:, 1] - 50) > 0, "u", "v"), table.names)
    write_panel(make_panel(together), tmp_path / "panel.json")
    document = json.loads((tmp_path / "panel.json").read_text())
    assert document["panel"]["model"]["kernel"] == "gaussian"
    for samples in (None, [], [[1.0, 2.0]], [[1.0]] * 80, [[1.0, "x"]] * 80, [[0.0, 0.0]] * 5000):
        changed = copy.deepcopy(document)
        changed["panel"]["model"]["samples"] = samples
        refused(tmp_path, changed, "is damaged")
    write_panel(make_panel(make_table("survival")), tmp_path / "panel.json")
    document = json.loads((tmp_path / "panel.json").read_text())
    document["panel"]["classes"] = ["a", "b"]
    refused(tmp_path, document, "is damaged .'classes' do not fit the kind")


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"null", b"{}", b"[" * 100_000, b'{"format": ' * 50_000, b"\xff\xfe", b'{"format": "randsel panel"'],
    ids=["empty", "list", "null", "nothing", "nested lists", "nested tables", "no text", "cut off"],
)
def test_damaged_files(tmp_path, content):
    (tmp_path / "panel.json").write_bytes(content)
    with pytest.raises(ValueError, match="is not a panel, or it is damaged"):
        Panel.load(tmp_path)


def test_a_deeply_nested_panel_is_refused(tmp_path):
    nested = "[" * 900 + "]" * 900
    (tmp_path / "panel.json").write_text('{"format": "randsel panel", "schema": 2, "panel": ' + nested + "}")
    with pytest.raises(ValueError, match="is damaged"):
        Panel.load(tmp_path)


def test_a_file_that_is_too_large_absent_a_link_or_no_file(document, tmp_path, monkeypatch):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "panel.json").symlink_to(tmp_path / "panel.json")
    with pytest.raises(ValueError, match=r"panel.json is a symbolic link"):
        Panel.load(tmp_path / "other")
    monkeypatch.setattr(files, "LARGEST_JSON", 100)
    with pytest.raises(ValueError, match="is not a panel, or it is damaged"):
        Panel.load(tmp_path)
    (tmp_path / "panel.json").unlink()
    with pytest.raises(ValueError, match=r"has no panel.json: give a result folder of randsel select"):
        Panel.load(tmp_path)
    for path in (tmp_path / "nowhere", tmp_path / "nowhere" / "panel.json"):
        with pytest.raises(ValueError, match=r"nowhere.* does not exist; give a result folder of randsel select"):
            Panel.load(path)
    os.mkfifo(tmp_path / "panel.json")
    (tmp_path / "selected.txt").write_text("")
    with pytest.raises(ValueError, match=r"has no panel.json because nothing was selected there"):
        Panel.load(tmp_path)


def test_names_in_the_file_do_not_act_on_the_terminal(document, tmp_path):
    document["schema"] = "\x1b[2J"
    refused(tmp_path, document, r"\\u001b")
