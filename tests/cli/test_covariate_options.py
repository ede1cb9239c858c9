"""`--covariates`: effects of columns of the table or the target file are removed, and the columns are no features."""

import csv
import json
import shlex

import numpy as np
import pytest
from click.testing import CliRunner

from randsel.cli import main
from randsel.tables import read


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("table")
    age = rng.uniform(20.0, 80.0, 100)
    z = (age - 50.0) / 17.3
    X = rng.normal(size=(100, 20)) + np.outer(z, np.arange(20) < 6)
    score = z + 1.5 * X[:, 15] + 0.5 * rng.normal(size=100)
    status = np.where(score > np.median(score), "case", "control")
    with (folder / "table.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "status", "age", "sex", *(f"g{j}" for j in range(20))])
        for i in range(100):
            writer.writerow([f"s{i}", status[i], round(age[i], 1), "fm"[i % 2], *X[i].round(4)])
    return folder / "table.csv"


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_covariates_are_removed_and_are_no_features(table, tmp_path):
    result = run(
        *("select", table, "--target", "status", "--covariates", "age,sex", "--id-column", "id"),
        *("--halves", 4, "--folds", 3, "--out", tmp_path / "out"),
    )
    assert result.exit_code == 0, result.output
    assert "Effects of age, sex are removed from features and target" in result.output
    rows = list(csv.DictReader((tmp_path / "out" / "ranking.csv").read_text().splitlines()))
    assert rows[0]["feature"] == "g15"
    assert len(rows) == 20
    assert sum(float(row["q"]) <= 0.05 for row in rows) <= 2


def test_interactions_with_covariates(table, tmp_path):
    result = run(
        *("interactions", table, "--target", "status", "--covariates", "age,sex", "--id-column", "id"),
        *("--with-covariates", "--out", tmp_path / "out"),
    )
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader((tmp_path / "out" / "covariate-pairs.csv").read_text().splitlines()))
    assert {row["covariate"] for row in rows} == {"age", "sex=m"}
    assert len(rows) == 40


def test_covariates_of_the_target_file_and_their_types(table, tmp_path):
    rows = list(csv.reader(table.read_text().splitlines()))
    with (tmp_path / "samples.csv").open("w", newline="") as file:
        csv.writer(file).writerows([row[0], row[1], row[2], row[3]] for row in rows)
    with (tmp_path / "genes.csv").open("w", newline="") as file:
        csv.writer(file).writerows([row[0], *row[4:]] for row in rows)
    how = {"target_file": tmp_path / "samples.csv", "target": "status", "covariates": ("age", "sex")}
    read_table = read(tmp_path / "genes.csv", **how)
    assert len(read_table.names) == 20
    assert read_table.covariates["age"].dtype == np.float64
    assert read_table.covariates["sex"].tolist()[:2] == ["f", "m"]
    some = read_table.rows(np.array([3, 1]))
    assert some.covariates["age"].tolist() == read_table.covariates["age"][[3, 1]].tolist()
    assert some.fingerprint() != read_table.rows(np.array([1, 3])).fingerprint()


def test_missing_covariates_and_compare_are_refused(table, tmp_path):
    lines = table.read_text().splitlines()
    cells = lines[8].split(",")
    cells[2] = ""
    lines[8] = ",".join(cells)
    (tmp_path / "gap.csv").write_text("\n".join(lines) + "\n")
    result = run("select", tmp_path / "gap.csv", "--target", "status", "--covariates", "age", "--out", tmp_path / "a")
    assert result.exit_code == 1
    assert "one entry of column 'age' is missing, the first of sample 8" in result.output
    result = run("compare", table, "--target", "status", "--covariates", "age", "--out", tmp_path / "b")
    assert result.exit_code == 2
    assert "leave --covariates out" in result.output


def covariate_file(path, cells):
    """Write a table with a covariate named with a comma."""
    rng = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["status", "CRP, mg/l", "g1", "g2"])
        for i, cell in enumerate(cells):
            writer.writerow(["ab"[i % 2], cell, *rng.standard_normal(2).round(3)])
    return path


def test_percentages_and_limits_of_detection_are_numbers(tmp_path):
    percent = covariate_file(tmp_path / "percent.csv", [f"{10 + i}%" for i in range(12)])
    table = read(percent, target="status", covariates=["CRP, mg/l"])
    assert table.covariates["CRP, mg/l"].tolist() == list(range(10, 22))
    limits = covariate_file(tmp_path / "limits.csv", ["<0.5", "<LOD", *(f"{1 + i}" for i in range(10))])
    table = read(limits, target="status", covariates=["CRP, mg/l"], below_detection="half-minimum")
    assert table.covariates["CRP, mg/l"].tolist() == [0.25, 0.25, *range(1, 11)]
    assert table.below_detection == {"CRP, mg/l": 0.25}
    values = {"CRP, mg/l": 0.1}
    table = read(limits, target="status", covariates=[*values], below_detection="half-minimum", detection_values=values)
    assert table.covariates["CRP, mg/l"][:2].tolist() == [0.1, 0.1]


@pytest.mark.parametrize("kind", ["npz", "h5ad"])
def test_the_detection_rule_applies_to_covariates_of_text_in_a_format_of_numbers(tmp_path, kind):
    """Without such a covariate the rule is refused, because numbers have no cells below detection."""
    X, crp = np.random.default_rng(0).standard_normal((12, 2)), ["<0.5", *(str(1.5 + i) for i in range(11))]
    obs = {"status": np.array(list("ab" * 6)), "crp": np.array(crp)}
    path = tmp_path / f"table.{kind}"
    if kind == "npz":
        np.savez(path, X=X, **obs)
    else:
        anndata, pandas = pytest.importorskip("anndata"), pytest.importorskip("pandas")
        anndata.settings.allow_write_nullable_strings = True
        anndata.AnnData(X, obs=pandas.DataFrame(obs, index=[f"s{i}" for i in range(12)])).write_h5ad(path)
    with pytest.raises(ValueError, match="choose --below-detection half-minimum"):
        read(path, target="status", covariates=["crp"])
    table = read(path, target="status", covariates=["crp"], below_detection="half-minimum")
    assert table.covariates["crp"].tolist() == [0.25, *(1.5 + i for i in range(11))]
    (tmp_path / "labels.csv").write_text("id,status\n" + "\n".join(f"s{i},{'ab'[i % 2]}" for i in range(12)) + "\n")
    unused = [
        {"below_detection": "half-minimum"},
        {"below_detection": "half-minimum", "target_file": tmp_path / "labels.csv"},
        {"na": ["9.5"], "covariates": ["crp"], "below_detection": "half-minimum"},
    ]
    for options in unused:
        with pytest.raises(ValueError, match="holds numbers only; leave --na, --below-detection and --skip-rows out"):
            read(path, target="status", **options)


@pytest.mark.parametrize(
    ("cell", "rule", "words"),
    [
        ("<0.5", None, "holds '<0.5' among numbers, and covariates must be known.*--below-detection half-minimum"),
        ("<0.5", "missing", "holds '<0.5' among numbers, and covariates must be known"),
        ("high", None, "holds 'high' among numbers; correct it"),
        ("50%", None, "has a percent sign in some cells only; write all of them alike"),
    ],
)
def test_text_among_numbers_is_no_category(tmp_path, cell, rule, words):
    file = covariate_file(tmp_path / "table.csv", [cell, *(f"{1 + i}" for i in range(11))])
    with pytest.raises(ValueError, match=words):
        read(file, target="status", covariates=["CRP, mg/l"], below_detection=rule)


def test_codes_with_a_word_are_categories(tmp_path):
    file = covariate_file(tmp_path / "table.csv", ["1", "2", "unknown", *"121212121"])
    assert set(read(file, target="status", covariates=["CRP, mg/l"]).covariates["CRP, mg/l"]) == {"1", "2", "unknown"}


def test_a_name_with_a_comma_is_quoted(tmp_path):
    file = covariate_file(tmp_path / "table.csv", range(1, 13))
    words = ["select", file, "--target", "status", "--halves", 0, "--folds", 0, "--top", 1, "--out", tmp_path / "out"]
    result = run(*words, "--covariates", '"CRP, mg/l"')
    assert result.exit_code in (0, 3), result.output
    assert "Effects of CRP, mg/l are removed" in result.output
    command = json.loads((tmp_path / "out" / "run.json").read_text())["command"]
    repeated = run(*shlex.split(command)[1:])
    assert repeated.exit_code == result.exit_code, repeated.output


def test_a_covariate_below_detection_has_two_ways_out(tmp_path):
    path = covariate_file(tmp_path / "limits.csv", ["<0.5", *(f"{1 + i}" for i in range(11))])
    for rule in (None, "missing"):
        with pytest.raises(ValueError, match=r"choose --below-detection half-minimum, or write a number there"):
            read(path, target="status", covariates=["CRP, mg/l"], below_detection=rule)
