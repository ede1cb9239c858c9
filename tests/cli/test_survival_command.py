"""Survival on the command line: how events and times are read, what is written, and what is refused."""

import csv
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from randsel._numerics.event_times import survival_array
from randsel._utils.files import FinishedParts
from randsel.analysis import Settings, analyse, cautions
from randsel.cli._main import main
from randsel.report import contents, load_analysis, render
from randsel.tables import Table, read

OPTIONS = ["--event", "status", "--time", "days"]


def invoke(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def simulate(m=120, n=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n)).round(3)
    time, end = rng.exponential(100 * np.exp(-X[:, 0] - X[:, 1])), rng.exponential(200, m)
    return X, survival_array(time < end, np.minimum(time, end).round(2) + 0.1)


def write(path, X, events, times, separator=","):
    names = [f"g{j}" for j in range(X.shape[1])]
    rows = [["days", *names, "status"], *([t, *x, e] for t, x, e in zip(times, X.tolist(), events, strict=True))]
    path.write_text("\n".join(separator.join(map(str, row)) for row in rows) + "\n")
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("survival")
    X, y = simulate()
    file = write(folder / "table.csv", X, np.where(y["event"], "dead", "alive"), y["time"])
    run = invoke("select", file, *OPTIONS, "--halves", 4, "--folds", 3, "--out", folder / "out")
    return file, folder / "out", run


def test_a_selection_by_survival(finished):
    _, out, run = finished
    assert run.exit_code == 0, run.output
    n_events = int(simulate()[1]["event"].sum())
    assert f"Note: 'dead' in 'status' counts as the event: {n_events} of 120 samples had it." in run.output
    assert f"The table has 120 samples: {n_events} had the event, the others were censored." in run.output
    assert "concordance index 0.7" in run.output
    assert "hazard ratio  " in run.output
    assert "hazard_ratio" not in run.output
    assert "hazard_ratio" in (out / "ranking.csv").read_text()
    assert {path.name for path in out.iterdir()} >= {"survival.png", "path.png", "report.html", "ranking.csv"}
    rows = list(csv.DictReader((out / "ranking.csv").read_text().splitlines()))
    assert {row["feature"] for row in rows if row["selected"] == "yes"} >= {"g0", "g1"}
    assert {row["feature"] for row in rows} == {f"g{j}" for j in range(8)}
    command = json.loads((out / "run.json").read_text())["command"]
    assert "--event status --time days" in command


@pytest.mark.slow
def test_the_report_shows_curves_and_is_written_again(finished):
    _, out, _ = finished
    page = (out / "report.html").read_text()
    assert "Survival by predicted risk" in page
    assert "Kaplan-Meier curves of the samples above the median" in page
    assert "fewer events than expected" in page
    assert ">days, and samples at risk</text>" in page
    assert ">fraction without event</text>" in page
    assert page.count("Curves are dotted where fewer than 5 samples are at risk") == 2
    (out / "report.html").unlink()
    assert invoke("report", out).exit_code == 0
    assert (out / "report.html").read_text() == page
    analysis = load_analysis(out)
    assert np.isin(analysis.accuracy.high_risk, (0.0, 1.0)).all()
    assert abs(analysis.accuracy.high_risk.mean() - 0.5) < 0.02
    high = analysis.accuracy.high_risk > 0
    assert analysis.table.y["time"][high].mean() < analysis.table.y["time"][~high].mean()
    assert contents(analysis)["target"]["events"] == analysis.table.y["event"].sum()


def test_the_report_says_if_folds_predict_nothing(finished):
    _, out, _ = finished
    analysis = load_analysis(out)
    held_out = analysis.accuracy.held_out
    held_out = replace(held_out, predicted=np.where(np.arange(120) < 40, np.nan, held_out.predicted))
    page = render(contents(replace(analysis, accuracy=replace(analysis.accuracy, held_out=held_out))))
    assert "Only 80 of 120 samples are shown, because folds in which nothing was selected predict nothing." in page
    assert "samples are shown" not in (out / "report.html").read_text()


def test_interactions_and_comparisons_take_survival(finished, tmp_path):
    file, _, _ = finished
    run = invoke("interactions", file, *OPTIONS, "--out", tmp_path / "scan")
    assert run.exit_code == 0, run.output
    rows = list(csv.DictReader((tmp_path / "scan" / "features.csv").read_text().splitlines()))
    assert {row["feature"] for row in rows if row["selected"] == "yes"} == {"g0", "g1"}
    assert "No pair holds after correction" in (tmp_path / "scan" / "report.html").read_text(encoding="utf-8")
    how = ["--folds", 2, "--reshuffles", 1, "--methods", "randSel,F-test,RFE"]
    run = invoke("compare", file, *OPTIONS, *how, "--out", tmp_path / "comparison")
    assert run.exit_code == 0, run.output
    rows = list(csv.DictReader((tmp_path / "comparison" / "table.csv").read_text().splitlines()))
    assert all(float(row["concordance_mean"]) > 0.65 for row in rows)
    few = write(
        tmp_path / "few.csv", *[values[:20] for values in (simulate()[0], np.arange(20) < 3, simulate()[1]["time"])]
    )
    run = invoke("compare", few, *OPTIONS, *how, "--out", tmp_path / "few")
    assert "fewer than four samples with an event; nested folds need eight" in run.output


def test_events_and_times_may_be_in_the_target_file(tmp_path):
    X, y = simulate(30)
    names = [f"s{i}" for i in range(30)]
    lines = ["gene," + ",".join(names), *(f"g{j}," + ",".join(map(str, X[:, j])) for j in range(8))]
    (tmp_path / "genes.csv").write_text("\n".join(lines) + "\n")
    rows = [f"{name},{int(e)},{t},x" for name, e, t in zip(names, y["event"], y["time"], strict=True)]
    (tmp_path / "samples.csv").write_text("\n".join(["id,OS,OS.time,site", *rows[::-1]]) + "\n")
    table = read(tmp_path / "genes.csv", target_file=tmp_path / "samples.csv", event="OS", time="OS.time")
    np.testing.assert_array_equal(table.y["event"], y["event"])
    np.testing.assert_array_equal(table.y["time"], y["time"])
    np.testing.assert_array_equal(table.X, X)
    np.savez(tmp_path / "arrays.npz", X=X, event=y["event"], time=y["time"], y=np.arange(30))
    table = read(tmp_path / "arrays.npz", event="event", time="time")
    assert np.array_equal(table.y, y)
    assert table.X.shape == (30, 8)
    assert len({table.fingerprint(), Table(X, y[::-1], table.names).fingerprint()}) == 2


@pytest.mark.parametrize(
    ("event", "censored"),
    [("1", "0"), ("1.0", "0.0"), ("TRUE", "false"), ("yes", "No"), ("Dead", "Alive"), ("1:DECEASED", "0:LIVING")],
)
def test_spellings_of_events(tmp_path, event, censored):
    X, y = simulate(30)
    table = read(
        write(tmp_path / "t.csv", X, np.where(y["event"], event, censored), y["time"]), event="status", time="days"
    )
    np.testing.assert_array_equal(table.y["event"], y["event"])
    assert f"'{event}' in 'status' counts as the event: {int(y['event'].sum())} of 30 samples had it." in table.notes


def test_a_name_that_may_mean_the_opposite_is_noted(tmp_path):
    X, y = simulate(30)
    file = write(tmp_path / "t.csv", X, y["event"].astype(int), y["time"])
    file.write_text(file.read_text().replace("status", "censored"))
    notes = read(file, event="censored", time="days").notes
    assert any(note.endswith("If it means that the sample was censored, exchange the values.") for note in notes)


REFUSED = {
    "codes 1 and 2": (lambda e, t: (e + 1, t), OPTIONS, "holds '2', and it is not certain what counts as the event"),
    "other words": (lambda e, t: (np.where(e, "a", "b"), t), OPTIONS, "write 0 (censored) and 1 (event)"),
    "two events": (
        lambda e, t: (np.where(e, np.where(t > 50, "dead", "relapsed"), "alive"), t),
        OPTIONS,
        "holds 'alive', 'dead', 'relapsed', and it is not certain",
    ),
    "all censored": (
        lambda e, t: (0 * e, t),
        OPTIONS,
        "all are '0', which means censored. If this value marks the event, write 1 instead.",
    ),
    "negative": (lambda e, t: (e, np.where(np.arange(30) == 3, -2, t)), OPTIONS, "the first (-2) of sample 4; correct"),
    "zero": (lambda e, t: (e, np.where(np.arange(30) == 3, 0, t)), OPTIONS, "must be above zero, but 1 is not"),
    "infinite": (lambda e, t: (e, np.where(np.arange(30) == 3, np.inf, t)), OPTIONS, "must be above zero"),
    "text": (lambda e, t: (e, np.where(np.arange(30) == 3, "late", t)), OPTIONS, "holds 'late', which is not a time"),
    "no time": (
        lambda e, t: (e, np.where(np.arange(30) == 3, "", t)),
        OPTIONS,
        "sample 4 has an event in 'status' but no time in 'days'; fill it in",
    ),
    "no event": (
        lambda e, t: (np.where(np.arange(30) == 3, "", e), t),
        OPTIONS,
        "a time in 'days' but nothing in 'status'",
    ),
    "equal times": (lambda e, t: (e, 0 * t + 5), OPTIONS, "all times in 'days' are equal"),
    "half": (lambda e, t: (e, t), ["--event", "status"], "--event names one; name the other (--time)"),
    "other half": (lambda e, t: (e, t), ["--time", "days"], "--time names one; name the other (--event)"),
    "both": (lambda e, t: (e, t), [*OPTIONS, "--target", "g0"], "leave --target out, or --event and --time"),
    "unknown": (lambda e, t: (e, t), ["--event", "statos", "--time", "days"], "did you mean 'status'?"),
    "regression": (lambda e, t: (e, t), [*OPTIONS, "--task", "regression"], "does not fit events and times"),
    "survival": (lambda e, t: (e, t), ["--target", "days", "--task", "survival"], "needs events and times (--event"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_a_short_message(tmp_path, name):
    X, y = simulate(30)
    y["event"][3] = True
    change, options, message = REFUSED[name]
    file = write(tmp_path / "t.csv", X, *change(y["event"].astype(int), y["time"]))
    run = invoke("select", file, *options, "--out", tmp_path / "out")
    assert run.exit_code == 1
    assert message in run.output
    assert len(run.output.splitlines()[-1]) < 400


def test_samples_without_event_and_time_are_left_out(tmp_path):
    X, y = simulate(30)
    gap = np.arange(30) == 7
    events, times = np.where(gap, "", y["event"].astype(int)), np.where(gap, "NA", y["time"])
    table = read(write(tmp_path / "t.csv", X, events, times), event="status", time="days")
    assert len(table.y) == 29
    assert "1 sample has no target and is left out." in table.notes
    with pytest.raises(ValueError, match="survival has no classes to choose"):
        read(tmp_path / "t.csv", event="status", time="days", classes=["1"])
    few = write(tmp_path / "few.csv", X[:3], y["event"][:3].astype(int) * 0 + 1, y["time"][:3])
    with pytest.raises(ValueError, match="3 samples with a target, and at least 4 are needed"):
        read(few, event="status", time="days")


def test_groups_batches_and_few_events():
    X, y = simulate(60)
    names = tuple(f"g{j}" for j in range(8))
    repeated = Table(np.repeat(X, 2, axis=0), np.repeat(y, 2), names, groups=np.repeat(np.arange(60), 2))
    analysis = analyse(repeated, Settings(halves=2, folds=2, pairs="none"))
    assert any("averaged to 60 groups" in note for note in analysis.notes)
    assert {feature.name for feature in analysis.features[:2]} == {"g0", "g1"}
    batch = np.arange(60) % 3
    analysis = analyse(Table(X, y, names, batch=batch), Settings(halves=0, folds=2))
    assert min(analysis.features[0].q, analysis.features[1].q) < 0.01
    late = survival_array(y["event"], np.where(batch == 0, y["time"], 50.0 * y["time"]))
    sentences = cautions(Table(X, late, names, batch=batch), "survival")
    assert any(
        sentence.startswith("The batch is confounded with the target (correlation ratio") for sentence in sentences
    )
    rare = survival_array(np.arange(60) < 5, y["time"])
    assert cautions(Table(X, rare, names), "survival")[0].startswith("Only 5 of 60 samples have the event")
    one = survival_array(np.arange(60) == 5, y["time"])
    assert cautions(Table(X, one, names), "survival")[0].startswith("Only 1 of 60 samples has the event")
    analysis = analyse(Table(X, survival_array(np.arange(60) < 3, y["time"]), names), Settings(halves=0, folds=5))
    assert any(
        note.startswith("No cross-validation: half the number of samples with an event is 1") for note in analysis.notes
    )


def test_bool_and_number_columns_of_parquet(tmp_path):
    polars = pytest.importorskip("polars")
    X, y = simulate(30)
    columns = {f"g{j}": X[:, j] for j in range(8)} | {"dead": y["event"], "days": y["time"].astype(np.float32)}
    polars.DataFrame(columns).write_parquet(tmp_path / "t.parquet")
    table = read(tmp_path / "t.parquet", event="dead", time="days")
    np.testing.assert_array_equal(table.y["event"], y["event"])
    np.testing.assert_allclose(table.y["time"], y["time"], rtol=1e-6)


@pytest.mark.parametrize("change", ["no events", "no times", "negative", "censored"])
def test_a_folder_whose_outcome_was_changed_is_refused(finished, tmp_path, change):
    _, out, _ = finished
    shutil.copytree(out, tmp_path / "out")
    parts = FinishedParts(tmp_path / "out" / "parts")
    arrays = parts.load("report")
    if change == "no events":
        del arrays["event"]
    elif change == "no times":
        arrays["y"] = arrays["y"].astype(str)
    elif change == "negative":
        arrays["y"] = -arrays["y"]
    else:
        arrays["event"] = arrays["event"] & False
    parts.save("report", arrays)
    with pytest.raises(ValueError, match="holds parts that are damaged"):
        load_analysis(tmp_path / "out")
