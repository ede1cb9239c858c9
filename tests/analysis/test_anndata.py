"""Selection from AnnData objects, as scanpy's functions would do it; and from anything that looks like one."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import randsel
from randsel.analysis._model import Settings
from randsel.analysis._pipeline import analyse
from randsel.tables._read import Table

COLUMNS = ("rank", "selected", "contribution", "main", "interaction", "partner", "p", "q", "step", "stability")
SHORT = {"halves": 2, "folds": 2}


@pytest.fixture
def adata():
    anndata, pandas = pytest.importorskip("anndata"), pytest.importorskip("pandas")
    anndata.settings.allow_write_nullable_strings = True
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 8))
    status = np.where((X[:, 0] > 0) ^ (X[:, 1] > 0), "case", "control").astype(object)
    obs = pandas.DataFrame(
        {
            "status": pandas.Categorical(status),
            "age": rng.uniform(20, 80, 150),
            "plate": pandas.Categorical(np.arange(150) % 3),
            "gaps": pandas.Categorical([None, *status[1:]]),
        },
        index=[f"cell{i}" for i in range(150)],
    )
    return anndata.AnnData(X, obs=obs, var=pandas.DataFrame(index=[f"g{j}" for j in range(8)]))


def test_results_are_in_var_in_its_order(adata, tmp_path):
    analysis = randsel.select_adata(adata, "status", batch="plate", **SHORT)
    table = Table(adata.X, np.array(list(adata.obs["status"])), tuple(adata.var_names), batch=np.arange(150) % 3)
    expected = analyse(table, Settings(**SHORT))
    assert expected.features == analysis.features
    for feature in expected.features:
        row = adata.var.iloc[feature.column]
        assert row.name == feature.name
        for name in COLUMNS:
            assert row[f"randsel_{name}"] == (getattr(feature, name) or ("" if name == "partner" else 0))
    assert list(adata.var.query("randsel_selected").index) == ["g0", "g1"]
    assert adata.uns["randsel"]["settings"]["batch"] == "plate"
    assert adata.uns["randsel"]["version"] == randsel.__version__
    adata.write_h5ad(tmp_path / "written.h5ad")


def test_layers_sparse_matrices_and_observations_without_a_label(adata):
    adata.layers["sparse"] = csr_matrix(adata.X)
    adata.layers["nothing"] = np.zeros_like(adata.X) + np.arange(150)[:, None] % 5
    dense = randsel.select_adata(adata, "gaps", halves=2, folds=0)
    assert "1 observations have no 'gaps' and are left out." in dense.notes
    assert len(dense.table.y) == 149
    assert randsel.select_adata(adata, "gaps", layer="sparse", halves=2, folds=0).features == dense.features
    other = randsel.select_adata(adata, "gaps", layer="nothing", halves=2, folds=0)
    assert other.features != dense.features
    numbers = randsel.select_adata(adata, "age", halves=0, folds=0, top=3)
    assert numbers.kind == "regression"
    assert adata.var["randsel_selected"].sum() == 3


def test_survival_and_covariates_are_columns_of_the_observations(adata, tmp_path):
    rng = np.random.default_rng(1)
    days = rng.exponential(size=150) * np.exp(-adata.X[:, 3] - adata.obs["age"].to_numpy() / 20)
    adata.obs["days"], adata.obs["state"] = days, np.where(rng.random(150) < 0.7, "dead", "alive")
    adata.obs.loc["cell7", ["days", "state"]] = [np.nan, None]
    given = {"covariates": ["age", "plate"]}
    analysis = randsel.select_adata(adata, event="state", time="days", **given, halves=0, folds=0, top=1)
    assert analysis.kind == "survival"
    assert len(analysis.table.y) == 149
    assert any("'dead' in 'state' counts as the event" in note for note in analysis.notes)
    assert "1 observations have no 'state' and 'days' and are left out." in analysis.notes
    rows = np.arange(150) != 7
    y = np.zeros(149, dtype=[("event", bool), ("time", float)])
    y["event"], y["time"] = adata.obs["state"][rows] == "dead", days[rows]
    given = {"age": adata.obs["age"].to_numpy()[rows], "plate": np.array(list(map(str, adata.obs["plate"])))[rows]}
    how = Settings(halves=0, folds=0, top=1)
    expected = analyse(Table(adata.X[rows], y, tuple(adata.var_names), covariates=given), how)
    assert list(map(repr, analysis.features)) == list(map(repr, expected.features))  # NaN without half-samples
    assert adata.var["randsel_rank"].idxmin() == "g3"
    assert list(adata.uns["randsel"]["settings"]["covariates"]) == ["age", "plate"]
    adata.write_h5ad(tmp_path / "written.h5ad")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "either a label, or an event and a time"),
        ({"label": "status", "event": "status", "time": "age"}, "either a label, or an event and a time"),
        ({"event": "status"}, "either a label, or an event and a time"),
        ({"event": "gaps", "time": "age"}, "adata.obs: sample 'cell0' has a time in 'age' but nothing in 'gaps'"),
        ({"event": "status", "time": "age"}, "adata.obs: column 'status' holds 'case', 'control', and it is not"),
        ({"event": "plate", "time": "status"}, "adata.obs: column 'plate' holds '2'"),
        ({"label": "status", "covariates": ["gaps"]}, r"1 entries of adata.obs\['gaps'\] are missing"),
        ({"label": "status", "covariates": "status"}, "explain y completely"),
    ],
)
def test_bad_outcomes_and_covariates_are_refused(adata, options, message):
    with pytest.raises(ValueError, match=message):
        randsel.select_adata(adata, **options)


@pytest.mark.parametrize(
    ("label", "options", "message"),
    [
        ("statu", {}, "adata.obs has no column 'statu'; there are 'status'"),
        ("status", {"layer": "raw"}, "no layer 'raw'"),
        ("status", {"groups": "gaps"}, r"1 entries of adata.obs\['gaps'\] are missing"),
        ("status", {"top": 0}, "top=0 selects nothing"),
    ],
)
def test_error_messages_name_the_cause(adata, label, options, message):
    with pytest.raises(ValueError, match=message):
        randsel.select_adata(adata, label, **options)


def test_names_that_occur_twice_and_infinite_values_are_refused(adata):
    adata.X[3, 2] = np.nan
    randsel.select_adata(adata, "status", halves=0, folds=0)
    assert adata.var["randsel_missing"].tolist() == [0, 0, 1, 0, 0, 0, 0, 0]
    adata.X[3, 2] = np.inf
    with pytest.raises(ValueError, match="infinite values"):
        randsel.select_adata(adata, "status")
    adata.var_names = ["a"] * 8
    with pytest.raises(ValueError, match="var_names_make_unique"):
        randsel.select_adata(adata, "status")


def test_anndata_is_not_imported():
    code = "import sys, randsel; randsel.select_adata; print('anndata' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
