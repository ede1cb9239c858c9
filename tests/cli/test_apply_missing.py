"""The command `randsel apply` on files with missing values and values below detection."""

import json

import numpy as np
import pytest
from apply_command import SHORT, apply, read, select, write
from panel_tables import make_table


def test_cells_that_training_read_as_missing_are_missing_here_too(tmp_path):
    def with_gaps(path, *gaps):
        lines = [line.split(",") for line in path.read_text().splitlines()]
        for i, gap in enumerate(gaps, start=1):
            lines[i][lines[0].index("a")] = gap
        path.write_text("\n".join(map(",".join, lines)))
        return path

    train = with_gaps(write(tmp_path / "train.csv", make_table()), "ND", "-999")
    select(train, "--target", "status", "--drop-columns", "comment", "--na", "ND,-999", *SHORT, "--out", tmp_path / "r")
    file = with_gaps(write(tmp_path / "new.csv", make_table(seed=1)), "ND", "-999", "odd")
    result, _ = apply(tmp_path / "r", file)
    assert "holds 'odd' in line 4" in result.output
    result, out = apply(tmp_path / "r", file, "--na", "odd")
    assert "Read as missing (--na): 'odd' in 1 cell, 'ND' in 1 cell, '-999' in 1 cell." in result.output
    assert [row["missing features"] for row in read(out / "predictions.csv")][:4] == ["1", "1", "1", "0"]
    result, _ = apply(tmp_path / "r", file, "--na", "")
    assert "holds 'ND' in line 2" in result.output
    result, _ = apply(tmp_path / "r", with_gaps(file, "ND", "0", "0"), "--transform", "exp2")
    assert "Read as missing (--na): 'ND' in 1 cell." in result.output
    # numbers that training did not have
    result, _ = apply(tmp_path / "r", with_gaps(file, "-99", "-99", "1"))
    assert "Warning: The value -99 occurs 2 times, in 1 feature, far below the other values." in result.output
    # a format of numbers has no such cells
    new = make_table(seed=1)
    np.savez(tmp_path / "new.npz", X=new.X, y=new.y, feature_names=np.array(new.names))
    result, _ = apply(tmp_path / "r", tmp_path / "new.npz")
    assert result.exit_code == 0, result.output


@pytest.fixture(scope="module")
def undetected(tmp_path_factory):
    """Function that writes rows with values of `a` below a limit as <LOD, and the results of select on such a table."""
    folder, rng = tmp_path_factory.mktemp("undetected"), np.random.default_rng(0)

    def write_rows(name, limit, rows, header="id,status,a,b,crp"):
        lines = [f"p{i},{y},{'<LOD' if a < limit else a},{b},{c}" for i, (y, a, b, c) in rows]
        (folder / f"{name}.csv").write_text("\n".join([header, *lines]) + "\n")
        return folder / f"{name}.csv"

    def draw(m):
        signal = rng.standard_normal(m)
        crp = [("<0.5" if value < 0.5 else f"{value:.2f}") for value in rng.exponential(2.0, m)]
        y = np.where(signal + 0.5 * rng.standard_normal(m) > 0, "case", "control")
        values = np.round(np.exp(signal), 3).tolist(), np.round(rng.standard_normal(m), 3).tolist()
        return list(enumerate(zip(y.tolist(), *values, crp, strict=True)))

    file = write_rows("train", 0.5, draw(80))
    options = ["--target", "status", "--covariates", "crp", "--below-detection", "half-minimum", *SHORT]
    select(file, *options, "--out", folder / "out")
    return folder / "out", write_rows, draw


def test_values_below_detection_are_those_of_training(undetected):
    """The cases of the new file are well above its own limit of detection; its half-minimum would be far too high."""
    results, write_rows, draw = undetected
    document = json.loads((results / "panel.json").read_text())["panel"]
    value = document["features"][0]["below_detection"]
    assert 0.24 < value < 0.28
    assert document["covariates"][0]["below_detection"] == 0.25
    rows = draw(40)
    high_limit = write_rows("new", 1.0, rows)
    result, out = apply(results, high_limit, "--below-detection", "half-minimum")
    assert result.exit_code == 0, result.output
    assert "they are replaced by the values from training (--below-detection)" in result.output
    written = high_limit.read_text().replace("<LOD", repr(value)).replace("<0.5", "0.25")
    high_limit.with_name("written.csv").write_text(written)
    _, expected = apply(results, high_limit.with_name("written.csv"))
    assert read(out / "predictions.csv") == read(expected / "predictions.csv")


def test_a_covariate_below_detection_only_in_new_samples_gets_half_of_the_training_minimum(tmp_path):
    """The smallest age of the new file is 40, and that of training 20; a column that is not read is not counted."""
    table = make_table()
    ages = np.random.default_rng(0).permutation(np.linspace(20, 80, len(table.y)))
    train = table.__class__(np.column_stack([table.X, ages]), table.y, (*table.names, "age"))
    options = ["--target", "status", "--drop-columns", "comment", "--covariates", "age", *SHORT]
    select(write(tmp_path / "train.csv", train), *options, "--out", tmp_path / "out")
    rows = zip(range(80), table.X[:, 0].tolist(), table.X[:, 1].tolist(), ages.tolist(), strict=True)
    lines = [f"p{i},{a},{b},{'<LOD,<LOD' if age < 40 else f'{age},1'}" for i, a, b, age in rows]
    text = "\n".join(["id,a,b,age,unread", *lines]) + "\n"
    (tmp_path / "new.csv").write_text(text)
    (tmp_path / "written.csv").write_text(text.replace("<LOD,", "10,"))
    result, out = apply(tmp_path / "out", tmp_path / "new.csv", "--below-detection", "half-minimum")
    assert result.exit_code == 0, result.output
    assert "10 replaces it, the value from training (--below-detection)" in result.output
    assert "are below the limit of detection" not in result.output
    _, expected = apply(tmp_path / "out", tmp_path / "written.csv")
    assert read(out / "predictions.csv") == read(expected / "predictions.csv")


def test_the_rule_for_cells_below_detection_is_that_of_training(undetected, tmp_path):
    results, write_rows, draw = undetected
    assert json.loads((results / "panel.json").read_text())["panel"]["about"]["below_detection"] == "half-minimum"
    file = write_rows("inherited", 1.0, draw(40))
    result, out = apply(results, file)
    assert result.exit_code == 0, result.output
    assert "they are replaced by the values from training (--below-detection)" in result.output
    inherited = (out / "predictions.csv").read_text()
    _, named = apply(results, file, "--below-detection", "half-minimum")
    assert (named / "predictions.csv").read_text() == inherited
    # a format that holds only numbers has no such cells
    table = make_table(m=20)
    columns = {
        "X": np.column_stack([np.exp(table.X[:, :2]), table.X[:, 2]]),
        "feature_names": np.array(["a", "b", "crp"]),
    }
    np.savez(tmp_path / "new.npz", **columns)
    result, _ = apply(results, tmp_path / "new.npz")
    assert "leave --na, --below-detection" not in result.output


def test_another_rule_than_that_of_training_is_refused_or_noted(tmp_path):
    def with_limits(name, seed):
        path = write(tmp_path / name, make_table(seed=seed))
        lines = [line.split(",") for line in path.read_text().splitlines()]
        for i in (1, 2):
            lines[i][lines[0].index("a")] = "<LOD"
        path.write_text("\n".join(map(",".join, lines)))
        return path

    train, new = with_limits("train.csv", 0), with_limits("new.csv", 1)
    for rule in ("missing", "half-minimum"):
        options = ["--target", "status", "--drop-columns", "comment", "--below-detection", rule, *SHORT]
        select(train, *options, "--out", tmp_path / rule)
    result, out = apply(tmp_path / "missing", new)
    assert "they are missing (--below-detection)" in result.output
    assert [row["missing features"] for row in read(out / "predictions.csv")][:3] == ["1", "1", "0"]
    result, _ = apply(tmp_path / "missing", new, "--below-detection", "half-minimum")
    assert result.exit_code == 2
    assert "In training, cells below detection were read as missing" in result.output
    result, out = apply(tmp_path / "half-minimum", new, "--below-detection", "missing")
    assert result.exit_code == 0, result.output
    assert "but in training they were low values" in result.output
    assert "but in training they were low values" in (out / "report.html").read_text()


@pytest.mark.parametrize("rule", [[], ["--below-detection", "half-minimum"]])
def test_values_of_training_are_converted_to_the_scale_of_the_file(undetected, rule):
    """The features of the new file are logarithms, but its covariate is not."""
    results, write_rows, draw = undetected
    value = json.loads((results / "panel.json").read_text())["panel"]["features"][0]["below_detection"]
    rows = [(i, (y, float(np.log2(a)), float(np.log2(max(b, 0.01))), c)) for i, (y, a, b, c) in draw(40)]
    file = write_rows("logs", 0.0, rows)
    result, out = apply(results, file, "--transform", "exp2", *rule)
    assert result.exit_code == 0, result.output
    assert "they are replaced by the values from training (--below-detection)" in result.output
    assert "0.25 replaces it, the value from training" in result.output
    written = file.with_name("written-logs.csv")
    written.write_text(file.read_text().replace("<LOD", repr(float(np.log2(value)))).replace("<0.5", "0.25"))
    _, expected = apply(results, written, "--transform", "exp2")
    assert read(out / "predictions.csv") == read(expected / "predictions.csv")


def test_a_covariate_below_detection_is_replaced_whatever_the_rule_for_features(undetected, tmp_path):
    """Features below detection may be missing, but a covariate must be known: training knows a value for it."""
    results, write_rows, draw = undetected
    file = write_rows("covariate", 0.5, draw(40))
    result, _ = apply(results, file, "--below-detection", "missing")
    assert result.exit_code == 0, result.output
    assert "they are missing (--below-detection)" in result.output
    assert "0.25 replaces it, the value from training" in result.output
    # numbers in NPZ, and the covariate in a target file
    table = make_table(m=12)
    columns = {"X": np.exp(table.X[:, :2]), "feature_names": np.array(["a", "b"])}
    np.savez(tmp_path / "nameless.npz", **columns)
    np.savez(tmp_path / "new.npz", **columns, sample_ids=np.array([f"p{i}" for i in range(12)]))
    lines = [f"p{i},{'<0.5' if i % 3 else 1.5}" for i in range(12)]
    (tmp_path / "clinic.csv").write_text("\n".join(["id,crp", *lines]) + "\n")
    result, _ = apply(results, tmp_path / "nameless.npz", "--target-file", tmp_path / "clinic.csv")
    assert "store them as an array 'sample_ids'." in result.output
    result, _ = apply(results, tmp_path / "new.npz", "--target-file", tmp_path / "clinic.csv")
    assert "0.25 replaces it, the value from training" in result.output
