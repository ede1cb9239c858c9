"""The benchmark on real tables: folds, rankings and cells, on small simulated tables."""

import csv
import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def real(modules):
    return modules("real")


@pytest.fixture
def folder(tmp_path):
    """Two small tables under names of the benchmark: classes (with zeros, on the log scale) and numbers."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 110))
    y = (X[:, 3] + 0.3 * rng.normal(size=60) > 0).astype(np.int64)
    data = tmp_path / "data"
    data.mkdir()
    counts = np.where(X > -1.5, 2.0**X, 0.0).astype(np.float32)
    np.savez_compressed(data / "colon.npz", X=counts, y=y)
    np.savez_compressed(data / "riboflavin.npz", X=X.astype(np.float32), y=X[:, 5].astype(np.float32))
    return data


def run(folder, *arguments):
    command = [sys.executable, str(BENCHMARKS / "quality" / "real.py"), "--data", str(folder), "--jobs", "1"]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.slow
def test_it_writes_a_page_and_resumes_from_its_cells(folder, tmp_path):
    cells, page = tmp_path / "cells", tmp_path / "real.md"
    arguments = ("--sets", "colon,riboflavin", "--methods", "f-test,randsel-total-z-scores", "--cells", str(cells))
    first = run(folder, *arguments, "--repetitions", "1", "--out", str(page))
    assert "20 to be computed" in first.stderr, first.stderr
    text = page.read_text()
    assert "`make bench-real`, commit " in text
    assert "Sources: not recorded, some sets or methods were left out." in text
    assert "## Classification, all sets (1)" in text
    rows = list(csv.DictReader(page.with_suffix(".csv").read_text().splitlines()))
    tables = {row["table"] for row in rows if row["method"] == "F-test"}
    assert tables >= {"Classification, open sets: used to choose the default (1)", "Regression, riboflavin (open)"}
    (written,) = cells.glob("*.jsonl")
    complete = written.read_text()
    # a run that was killed while it wrote a line: that cell alone is computed again
    written.write_text(complete[:-30])
    second = run(folder, *arguments, "--repetitions", "1", "--out", str(page))
    assert "20 cells, 1 to be computed" in second.stderr
    assert body(page.read_text()) == body(text)
    shown = run(folder, *arguments, "--repetitions", "1", "--page-only")
    assert body(f"\n\n\n\n{shown.stdout}") == body(text)


def body(page):
    """Lines of a page after title and header, without seconds."""
    return [
        line.rpartition("|")[0].rpartition("|")[0] if "RandSel" in line or "F-test" in line else line
        for line in page.splitlines()[4:]
    ]


@pytest.mark.slow
def test_cells_of_another_source_are_computed_again(folder, tmp_path):
    arguments = ("--sets", "colon", "--methods", "f-test,randsel-total-z-scores", "--repetitions", "1")
    run(folder, *arguments, "--cells", str(tmp_path))
    (written,) = tmp_path.glob("*.jsonl")
    lines = [json.loads(line) for line in written.read_text().splitlines()]
    sources = {line["method"]: line["source"] for line in lines[1:]}
    written.write_text(written.read_text().replace(sources["RandSel total, z-scores"], "older"))
    shown = run(folder, *arguments, "--cells", str(tmp_path), "--page-only")
    assert "| RandSel total, z-scores | 1 |" not in shown.stdout
    older = run(folder, *arguments, "--cells", str(tmp_path), "--page-only", "--any-source")
    assert "| RandSel total, z-scores | 1 |" in older.stdout
    assert "5 to be computed" in run(folder, *arguments, "--cells", str(tmp_path)).stderr


@pytest.mark.slow
def test_a_method_that_takes_too_long_is_left_out_on_that_set(folder, tmp_path):
    arguments = ("--sets", "colon", "--methods", "f-test,random-forest", "--repetitions", "1", "--cells", str(tmp_path))
    slow = run(folder, *arguments, "--limit", "0.05")
    assert "| random forest | colon | 0 | a fit of more than 0.05 s |" in slow.stdout
    assert "10 cells, 4 to be computed" in run(folder, *arguments, "--limit", "0.05").stderr
    longer = run(folder, *arguments, "--limit", "60")
    assert "10 cells, 5 to be computed" in longer.stderr
    assert "more than" not in longer.stdout.partition("## Left out")[2]


def test_a_missing_folder_is_one_message(tmp_path):
    missing = run(tmp_path / "nowhere", "--sets", "colon")
    assert missing.returncode == 1
    assert missing.stderr.count("\n") == 1
    assert "does not hold colon; name the folder of the data with --data" in missing.stderr


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_folds_are_shuffled_stratified_and_keep_groups_together(real, kind, grouped):
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(40), 3) if grouped else None
    y = np.repeat(np.arange(40) % 4, 3) if kind == "classification" else rng.normal(size=120)
    folds = real.split(y, groups, kind, 0)
    assert sorted(np.concatenate([test for _, test in folds])) == list(range(120))
    for train, test in folds:
        assert not set(train) & set(test)
        if grouped:
            assert not set(groups[train]) & set(groups[test])
        if kind == "classification":
            assert list(np.bincount(y[test])) == [6, 6, 6, 6]
    again, other = real.split(y, groups, kind, 0), real.split(y, groups, kind, 1)
    assert all((a[1] == b[1]).all() for a, b in zip(folds, again, strict=True))
    assert any(list(a[1]) != list(b[1]) for a, b in zip(folds, other, strict=True))


@pytest.mark.slow
def test_every_method_ranks_the_columns_that_matter_first(real):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(90, 25))
    for kind, y in (("classification", np.digitize(X[:, 7], [-0.5, 0.5])), ("regression", X[:, 7])):
        for name, method in real.methods_by_name([{"drop": 0.1}]).items():
            order, size = method.rank(X, y, None, kind, 0)
            assert sorted(order) == list(range(25)), name
            assert size is None or 0 <= size <= 25
            assert order[0] == 7 or name in ("all features", "random features"), (name, kind)


def test_scores_are_those_of_all_predictions_of_a_repetition(real):
    rng = np.random.default_rng(3)
    truths = [rng.integers(0, 3, 20) for _ in range(5)]
    predicted = [rng.integers(0, 3, 20) for _ in range(5)]
    correct = [np.bincount(t[t == p], minlength=3) for t, p in zip(truths, predicted, strict=True)]
    page = importlib.import_module("real_page")
    score = page.score_of([np.bincount(t, minlength=3) for t in truths], correct, "classification")
    assert score == pytest.approx(balanced_accuracy_score(np.concatenate(truths), np.concatenate(predicted)))
    numbers = [rng.normal(size=9) for _ in range(5)]
    doubled = [2.0 * values + 1.0 for values in numbers]
    assert page.score_of(numbers, doubled, "regression") == pytest.approx(1.0)
    assert page.score_of(numbers, [np.ones(9)] * 5, "regression") == 0.0


def test_ranks_and_errors_skip_what_is_missing(real):
    page = importlib.import_module("real_page")
    values = np.array([[0.9, 0.8, 0.7], [0.5, np.nan, 0.6]])
    assert list(page.mean_ranks(values)) == [1.5, 2.0, 2.0]
    errors = page.error_over_sets(values)
    assert errors[0] == pytest.approx(np.std([0.1, -0.05], ddof=1) / np.sqrt(2))
    assert np.isnan(errors[1])
