"""The command `randsel apply`: predictions, warnings, agreement with the outcome, and user errors."""

import json
import re

import numpy as np
import pytest
from apply_command import SHORT, apply, invoke, read, select, write
from panel_tables import make_table

from randsel import Panel


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Results of select by kind of outcome, made when they are asked for."""
    made = {}

    def results(kind):
        if kind not in made:
            folder = tmp_path_factory.mktemp(kind)
            outcome = ["--event", "dead", "--time", "time"] if kind == "survival" else ["--target", "status"]
            file = write(folder / "train.csv", make_table(kind))
            select(file, *outcome, "--drop-columns", "comment", *SHORT, "--out", folder / "out")
            made[kind] = folder / "out"
        return made[kind]

    return results


def test_classes_with_their_outcome(folders, tmp_path):
    file = write(tmp_path / "new.csv", make_table(seed=1), columns=("b", "c", "a"))
    result, out = apply(folders("classification"), file)
    assert result.exit_code == 0, result.output
    assert "Panel of 2 features for classification" in result.output
    assert "AUC of control 0.9" in result.output
    assert "warning" not in result.output.lower()
    rows = read(out / "predictions.csv")
    assert list(rows[0]) == [
        "sample", "predicted", "probability of case", "probability of control", "observed", "missing features",
    ]  # fmt: skip
    assert [row["sample"] for row in rows] == [f"p{i}" for i in range(80)]
    assert np.mean([row["predicted"] == row["observed"] for row in rows]) > 0.85
    measures = {row["measure"]: float(row["value"]) for row in read(out / "evaluation.csv")}
    assert measures["accuracy"] == np.mean([row["predicted"] == row["observed"] for row in rows])
    assert {"balanced accuracy", "recall of case", "AUC of control", "Brier score"} <= set(measures)
    bins = read(out / "calibration.csv")
    assert sum(int(row["samples"]) for row in bins) == 80
    assert [row["feature"] for row in read(out / "features.csv")] == ["a", "b"]
    page = (out / "report.html").read_text()
    assert "Agreement with the outcome" in page
    assert "<svg" in page
    assert "hash of the training data" in page  # not of the new file
    assert "--paper" in page  # the style of the report


def test_agreement_on_training_samples_proves_nothing(folders, tmp_path):
    result, out = apply(folders("classification"), write(tmp_path / "train.csv", make_table()))
    assert "Compared with the outcome of 80 samples: accuracy" in result.output
    assert "These are the samples of training, so this agreement is too good, and proves nothing." in result.output
    assert "better than guessing" not in result.output + (out / "report.html").read_text()


def test_ids_are_written_as_they_stand_in_the_file(folders, tmp_path):
    file = write(tmp_path / "new.csv", make_table(seed=1))
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], *(f"{i:03d}{line[line.index(',') :]}" for i, line in enumerate(lines[1:]))]))
    _, out = apply(folders("classification"), file)
    assert [row["sample"] for row in read(out / "predictions.csv")] == [f"{i:03d}" for i in range(80)]
    assert json.loads((folders("classification") / "panel.json").read_text())["panel"]["about"]["id_column"] == "id"


def test_python_and_the_command_agree(folders, tmp_path):
    new = make_table(seed=1)
    _, out = apply(folders("classification"), write(tmp_path / "new.csv", new))
    panel = Panel.load(folders("classification"))
    probabilities = panel.predict_proba({name: new.X[:, j] for j, name in enumerate(new.names)})
    written = [float(row["probability of case"]) for row in read(out / "predictions.csv")]
    np.testing.assert_allclose(written, probabilities[:, 0])


@pytest.mark.slow
def test_without_outcome(folders, tmp_path):
    file = write(tmp_path / "new.csv", make_table(seed=1), outcome=False, columns=("a", "b"))
    result, out = apply(folders("classification"), file)
    assert result.exit_code == 0, result.output
    assert "There is no column 'status'" in result.output
    assert "the predictions were not evaluated" in result.output
    assert "The target" not in result.output
    assert "observed" not in read(out / "predictions.csv")[0]
    assert not (out / "evaluation.csv").exists()
    result, _ = apply(folders("classification"), file, "--target", "diagnosis")
    assert result.exit_code == 1
    assert "has no column of that name, or the outcome of all samples is unknown" in result.output


@pytest.mark.slow
def test_numbers(folders, tmp_path):
    result, out = apply(folders("regression"), write(tmp_path / "new.csv", make_table("regression", seed=1)))
    assert result.exit_code == 0, result.output
    assert "R² 0." in result.output
    assert "correlation 0.9" in result.output
    assert {"mean absolute error", "rank correlation"} <= {row["measure"] for row in read(out / "evaluation.csv")}
    assert "observed status" in (out / "report.html").read_text()


@pytest.mark.slow
def test_survival(folders, tmp_path):
    result, out = apply(folders("survival"), write(tmp_path / "new.csv", make_table("survival", seed=1)))
    assert result.exit_code == 0, result.output
    assert "concordance index 0." in result.output
    rows = read(out / "predictions.csv")
    assert {row["risk group"] for row in rows} == {"low", "high"}
    assert {"risk", "time", "event"} <= set(rows[0])
    assert "Survival by predicted risk" in (out / "report.html").read_text()


def test_absent_features(folders, tmp_path):
    file = write(tmp_path / "new.csv", make_table(seed=1), columns=("b", "copy"))
    result, _ = apply(folders("classification"), file)
    assert result.exit_code == 1
    assert "1 of 2 features of the panel are absent: a" in result.output
    assert "allow absent features (--allow-missing)." in result.output
    result, out = apply(folders("classification"), file, "--allow-missing")
    assert result.exit_code == 0, result.output
    assert "Warning: a is absent; copy replaces it" in result.output
    assert "1 of 2 features of the panel has no values" in result.output
    assert {row["missing features"] for row in read(out / "predictions.csv")} == {"1"}
    replaced = next(row for row in read(out / "features.csv") if row["feature"] == "a")
    assert (replaced["stand_in"], replaced["missing"]) == ("copy", "0")
    assert abs(float(replaced["shift"])) < 1
    assert "<bdi>a</bdi> (here <bdi>copy</bdi>)" in (out / "report.html").read_text()


@pytest.mark.slow
def test_other_scales_are_noticed(folders, tmp_path):
    moved = write(tmp_path / "moved.csv", make_table(seed=1), change=lambda X: 3 * X + 100)
    result, _ = apply(folders("classification"), moved)
    assert result.exit_code == 0
    assert (
        "medians of 2 of 2 features differ from the training medians by more than 1 standard deviation" in result.output
    )
    assert "lie outside the training range" in result.output
    assert "--rescale" in result.output
    assert "2 warnings: read them before you use these results." in result.stdout
    result, _ = apply(folders("classification"), moved, "--rescale")
    assert "1 warning: read it before you use these results." in result.stdout
    assert "AUC of control 0.9" in result.output
    assert "lie outside" not in result.output


@pytest.mark.slow
def test_a_logarithm_is_recognised_and_undone(tmp_path):
    def positive(X):
        return np.exp2(X * [1, 0.1, 1, 1, 1] + [8, 3, 8, 8, 8])

    raw = write(tmp_path / "raw.csv", make_table(), change=positive)
    logs = write(tmp_path / "logs.csv", make_table(seed=1), change=lambda X: np.log2(positive(X)))
    options = ["--target", "status", "--drop-columns", "comment", *SHORT]
    for name, log2 in (("plain", []), ("log2", ["--log2"])):
        select(raw, *options, *log2, "--out", tmp_path / name)
    result, _ = apply(tmp_path / "plain", logs)
    assert "look like log2 of the training values; --transform exp2 undoes that" in result.output
    result, _ = apply(tmp_path / "plain", logs, "--transform", "exp2")
    assert "Warning" not in result.output
    assert "AUC of control 0.9" in result.output
    result, _ = apply(tmp_path / "log2", logs)
    assert "--transform none undoes that" in result.output
    result, _ = apply(tmp_path / "log2", logs, "--transform", "none")
    assert "Warning" not in result.output
    result, _ = apply(tmp_path / "plain", raw, "--transform", "exp10")
    assert result.exit_code == 1
    assert "--transform exp10 overflows: the values are not logarithms" in result.output
    result, _ = apply(tmp_path / "plain", raw, "--transform", "log10")
    assert "look like log10 of the training values; --transform exp10" in result.output


@pytest.mark.slow
def test_covariates_are_asked_for(tmp_path):
    table = make_table()
    values = np.column_stack([table.X, np.arange(80) % 9])
    table = table.__class__(values, table.y, (*table.names, "age"))
    file = write(tmp_path / "train.csv", table)
    options = ["--target", "status", "--drop-columns", "comment", "--covariates", "age", *SHORT]
    select(file, *options, "--out", tmp_path / "out")
    result, _ = apply(tmp_path / "out", file)
    assert result.exit_code == 0, result.output
    without = write(tmp_path / "without.csv", table, columns=("a", "b"))
    result, _ = apply(tmp_path / "out", without)
    assert result.exit_code == 1
    assert "the effects of age were removed from the features of the panel, so new samples need" in result.output


@pytest.mark.slow
def test_batches_are_warned_of(tmp_path):
    table = make_table()
    table = table.__class__(np.column_stack([table.X, np.arange(80) % 2]), table.y, (*table.names, "plate"))
    file = write(tmp_path / "train.csv", table)
    options = ["--target", "status", "--drop-columns", "comment", "--batch", "plate", *SHORT]
    select(file, *options, "--out", tmp_path / "out")
    result, _ = apply(tmp_path / "out", file)
    assert "The panel was fitted within batches" in result.output


@pytest.mark.slow
def test_categories_must_be_those_of_training(tmp_path):
    rows = [(f"p{i}", ["case", "control"][i % 2], ["red", "blue", "green"][i % 2 + i // 30], i % 7) for i in range(60)]
    for name, kept in (("train", rows), ("same", rows[::-1]), ("fewer", [r for r in rows if r[2] != "blue"])):
        lines = [",".join(map(str, row)) for row in (("id", "status", "colour", "n"), *kept)]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    options = ["--target", "status", "--categorical", "colour", "--keep", "colour", "--top", 1, *SHORT[:6]]
    select(tmp_path / "train.csv", *options, "--out", tmp_path / "out")
    result, _ = apply(tmp_path / "out", tmp_path / "same.csv")
    assert result.exit_code == 0, result.output
    result, fewer = apply(tmp_path / "out", tmp_path / "fewer.csv")
    assert result.exit_code == 0, result.output
    same = {row["sample"]: row for row in read(apply(tmp_path / "out", tmp_path / "same.csv")[1] / "predictions.csv")}
    for row in read(fewer / "predictions.csv"):
        assert row == same[row["sample"]]
    text = (tmp_path / "fewer.csv").read_text()
    (tmp_path / "other.csv").write_text(text.replace("green", "grün"))
    result, _ = apply(tmp_path / "out", tmp_path / "other.csv")
    assert result.exit_code == 1
    assert "'colour' holds 'grün', which is not one of the categories of training: 'blue', 'green'" in result.output


def test_a_panel_without_values_below_detection_takes_half_of_the_training_minimum(folders, tmp_path):
    results = folders("classification")
    table = make_table()
    smallest = table.X[:, :2].min(axis=0)
    features = json.loads((results / "panel.json").read_text())["panel"]["features"]
    expected = [value / 2 if value > 0 else value for value in smallest]
    assert [feature["below_detection"] for feature in features] == pytest.approx(expected)


def test_notes_on_missing_values_name_no_option_that_apply_does_not_have(folders, tmp_path):
    table = make_table(seed=1)
    X = table.X.copy()
    X[3, 0] = np.nan
    file = write(tmp_path / "new.csv", table.__class__(X, table.y, table.names))
    file.write_text(file.read_text().replace("nan", ""))
    result, _ = apply(folders("classification"), file)
    assert result.exit_code == 0, result.output
    assert "(--missing)" not in result.output
    assert "Missing values of features of the panel are treated as average." in result.output


def test_a_run_is_not_overwritten_and_a_folder_without_panel_is_named(folders, tmp_path):
    file = write(tmp_path / "new.csv", make_table(seed=1))
    result = invoke("apply", folders("classification"), file, "--out", folders("classification"))
    assert result.exit_code == 1
    assert "holds a run of randsel, whose files would be lost" in result.output
    result, _ = apply(tmp_path, file)
    assert result.exit_code == 1
    assert "has no panel.json" in result.output


def test_intervals_allow_for_donors(tmp_path):
    def with_donors(table, n_donors):
        donors = np.arange(len(table.y)) % n_donors
        return table.__class__(np.column_stack([table.X, donors]), table.y, (*table.names, "donor"))

    options = ["--target", "status", "--drop-columns", "comment", *SHORT]
    train = write(tmp_path / "train.csv", with_donors(make_table(), 40))
    select(train, *options, "--groups", "donor", "--out", tmp_path / "out")
    without = ["--target", "status", "--drop-columns", "comment,donor", *SHORT]
    select(train, *without, "--out", tmp_path / "without")
    new = write(tmp_path / "new.csv", with_donors(make_table(seed=1), 16))
    note = "The 80 samples with an outcome belong to 16 groups (--groups), and confidence intervals allow for that."
    widths = {}
    for results, named, is_grouped in (("out", (), True), ("without", ("donor",), True), ("without", (), False)):
        result, out = apply(tmp_path / results, new, *(word for name in named for word in ("--groups", name)))
        assert result.exit_code == 0, result.output
        assert (note in result.output) == is_grouped
        measures = [row for row in read(out / "evaluation.csv") if row["low"]]
        widths[is_grouped] = [float(row["high"]) - float(row["low"]) for row in measures]
    assert len(widths[True]) == 5  # accuracy, balanced accuracy, two recalls, AUC
    assert np.all(np.array(widths[True]) > widths[False])
    new.write_text(new.read_text().replace(",0.0\n", ",\n"))  # 5 samples of donor 0
    assert "belong to 20 groups" in apply(tmp_path / "out", new)[0].output
    for distinct in (with_donors(make_table(seed=1), 80), make_table(seed=1)):
        result, _ = apply(tmp_path / "out", write(tmp_path / "new.csv", distinct))
        assert result.exit_code == 0, result.output
        assert "(--groups)" not in result.output
    few = write(tmp_path / "few.csv", with_donors(make_table(seed=1), 3))
    assert "belong to 3 groups (--groups), too few for confidence intervals." in apply(tmp_path / "out", few)[0].output
    result, _ = apply(tmp_path / "out", new, "--id-column", "donor")
    assert "named twice" not in result.output
    result, _ = apply(tmp_path / "out", new, "--groups", "patient")
    assert result.exit_code == 1
    assert "has no column 'patient' of groups" in result.output


def test_repeated_names_are_handled_as_in_training(tmp_path):
    def repeat(name, table):
        path = write(tmp_path / name, table)
        header, rows = path.read_text().split("\n", 1)
        assert header.endswith("a,b,c,d,copy")
        path.write_text(f"{header.replace('a,b,c,d', 'a,a,c,d')}\n{rows}")
        return path

    options = ["--target", "status", "--drop-columns", "comment", *SHORT[:-1], "a,a.2"]
    select(repeat("train.csv", make_table()), *options, "--duplicates", "rename", "--out", tmp_path / "out")
    new = repeat("new.csv", make_table(seed=1))
    result, out = apply(tmp_path / "out", new)
    assert result.exit_code == 0, result.output
    by_default = read(out / "predictions.csv")
    apply(tmp_path / "out", new, "--duplicates", "rename")
    assert read(out / "predictions.csv") == by_default
    result, _ = apply(tmp_path / "out", new, "--duplicates", "first")
    assert result.exit_code == 1
    assert "1 of 2 features of the panel are absent: a.2" in result.output


@pytest.mark.slow
def test_an_outcome_of_another_kind(folders, tmp_path):
    new = make_table(seed=1)
    other = new.__class__(new.X, np.where(new.y == "case", "ill", "well"), new.names)
    result, _ = apply(folders("classification"), write(tmp_path / "new.csv", other))
    assert result.exit_code == 1
    assert "the outcome holds 'ill', which is not a class of the panel (case, control)" in result.output
    result, _ = apply(folders("regression"), write(tmp_path / "text.csv", other))
    assert "the panel predicts numbers, but the outcome of the new samples is text" in result.output


def test_hostile_names_stay_text(folders, tmp_path):
    file = tmp_path / "<script>alert(1)<\\x1b>.csv"
    file.write_text("id,a,b\n<img src=x onerror=alert(1)>,1,50\n\x1b[2J,2,60\n")
    result, out = apply(folders("classification"), file)
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.output
    page = (out / "report.html").read_text()
    assert "<img" not in page
    assert "<script" not in page
    assert "\x1b" not in page


@pytest.mark.slow
def test_resuming_writes_the_same_panel(folders, tmp_path):
    file = write(tmp_path / "train.csv", make_table())
    words = [file, "--target", "status", "--drop-columns", "comment", *SHORT, "--out", tmp_path / "out"]
    select(*words)
    before = (tmp_path / "out" / "panel.json").read_bytes()
    (tmp_path / "out" / "panel.json").unlink()
    select(*words)
    assert (tmp_path / "out" / "panel.json").read_bytes() == before
    assert json.loads(before)["panel"]["about"]["outcome"] == {"target": "status"}


@pytest.mark.slow
def test_no_panel_of_too_many_features(folders, tmp_path, monkeypatch):
    monkeypatch.setattr("randsel.panels._training.MAX_FEATURES", 1)
    file = write(tmp_path / "train.csv", make_table())
    words = ["--target", "status", "--drop-columns", "comment", *SHORT, "--out", tmp_path / "out"]
    result = select(file, *words)
    assert "No panel.json for randsel apply: a panel has 1 to 1 features, but 2 are selected." in result.output


def test_text_in_a_stand_in_that_is_not_needed_does_no_harm(folders, tmp_path):
    file = write(tmp_path / "new.csv", make_table(seed=1))
    lines = [line.split(",") for line in file.read_text().splitlines()]
    for cells in lines[1:]:
        cells[-1] = "high"
    file.write_text("\n".join(",".join(cells) for cells in lines) + "\n")
    assert lines[0][-1] == "copy"
    result, _ = apply(folders("classification"), file)
    assert result.exit_code == 0, result.output
    result, _ = apply(folders("classification"), file, "--allow-missing")
    assert result.exit_code == 1
    assert "column 'copy' holds 'high'" in result.output


@pytest.mark.parametrize("kind", ["regression", "survival"])
def test_one_sample_is_too_few_to_measure_agreement(kind, folders, tmp_path):
    result, out = apply(folders(kind), write(tmp_path / "new.csv", make_table(kind, seed=1).rows(np.array([0]))))
    assert result.exit_code == 0, result.output
    assert "of 1 new sample: " in result.output
    assert "Note: 1 sample, 2 features" in result.output
    assert "Compared with the outcome of 1 sample: too few to measure agreement." in result.output
    assert "nan" not in result.output.lower()
    assert ">nan<" not in (out / "report.html").read_text()


def test_the_outcome_in_a_target_file_has_the_names_of_training(folders, tmp_path):
    new = make_table("survival", seed=1)
    file = write(tmp_path / "new.csv", new, outcome=False)
    clinic = tmp_path / "clinic.csv"
    rows = [f"p{i},{time!r},{int(event)},x" for i, (event, time) in enumerate(new.y.tolist())]
    clinic.write_text("\n".join(["id,time,dead,site", *reversed(rows)]) + "\n")
    result, out = apply(folders("survival"), file, "--target-file", clinic, "--rescale")
    assert result.exit_code == 0, result.output
    options = f"--target-file {clinic} --out {out} --rescale"
    text = re.sub("<[^>]*>", "", (out / "report.html").read_text())
    assert f"randsel apply {folders('survival')} {file} {options}" in text
    assert "Compared with the outcome of 80 samples: concordance index 0." in result.output
    assert float(read(out / "predictions.csv")[3]["time"]) == new.y["time"][3]


def test_classes_that_are_numbers_are_named_as_classes(folders, tmp_path):
    result, out = apply(folders("three"), write(tmp_path / "new.csv", make_table("three", seed=1)))
    assert result.exit_code == 0, result.output
    assert "Predicted for 80 new samples: class 0: " in result.output
    assert "relative to its threshold (class 0: 0." in result.output
    assert "AUC of class 1 0." in result.output
    assert {"recall of class 2", "AUC of class 2"} <= {row["measure"] for row in read(out / "evaluation.csv")}
    assert {row["predicted"] for row in read(out / "predictions.csv")} == {"0", "1", "2"}


def test_help_says_what_training_decides():
    text = " ".join(invoke("apply", "--help").output.split())
    for option in ("--below-detection [", "--duplicates ["):
        explained = text[text.index(option) :]
        explained = explained[: explained.index(" --", len(option))]
        assert explained.endswith("by default as in training.")
    assert "By default, such cells are an error." in " ".join(invoke("select", "--help").output.split())
