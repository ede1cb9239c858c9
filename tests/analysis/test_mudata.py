"""Selection from MuData objects, and the helpers that return results."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import randsel


@pytest.fixture
def mdata():
    """An object with the attributes of MuData; the protein modality lacks ten cells."""
    anndata = pytest.importorskip("anndata")
    rng = np.random.default_rng(0)
    cells = [f"cell{i}" for i in range(100)]
    rna = anndata.AnnData(rng.standard_normal((100, 4)), pd.DataFrame(index=cells), pd.DataFrame(index=list("abcd")))
    order = rng.permutation(90)
    protein = anndata.AnnData(
        rng.standard_normal((90, 2)),
        pd.DataFrame(index=[cells[i] for i in order]),
        pd.DataFrame(index=["a", "p"]),
    )
    rna.layers["logs"], protein.layers["logs"] = rna.X * 2, protein.X * 2
    signal = rna.X[:, 1].copy()
    signal[order] += protein.X[:, 1]
    obs = pd.DataFrame({"status": np.where(signal > 0, "case", "control")}, index=cells)
    return SimpleNamespace(obs=obs, obs_names=obs.index, uns={}, mod={"rna": rna, "prot": protein})


def test_modalities_are_ranked_together(mdata):
    analysis = randsel.select_adata(mdata, "status", halves=0, folds=0, top=2)
    assert {feature.name for feature in analysis.features if feature.selected} == {"rna:b", "prot:p"}
    assert mdata.mod["rna"].var["randsel_selected"].tolist() == [False, True, False, False]
    assert mdata.mod["prot"].var["randsel_missing"].tolist() == [10, 10]
    frame = randsel.get.ranking_df(mdata)
    assert frame["rank"].tolist() == [1, 2, 3, 4, 5, 6]
    assert set(frame.query("selected")["modality"]) == {"rna", "prot"}
    assert randsel.get.ranking_df(mdata, selected=True).index.sort_values().tolist() == ["b", "p"]
    assert "randsel" in mdata.uns
    other = randsel.select_adata(mdata, "status", layer="logs", halves=0, folds=0, top=2)
    assert [feature.name for feature in other.features] == [feature.name for feature in analysis.features]
    with pytest.raises(ValueError, match="has no layer 'counts'; there are 'logs'"):
        randsel.select_adata(mdata, "status", layer="counts")


@pytest.mark.filterwarnings("ignore:::mudata")
def test_a_mudata_object_is_ranked(mdata):
    mudata = pytest.importorskip("mudata")
    joint = mudata.MuData(mdata.mod)
    joint.obs["status"] = mdata.obs["status"]
    randsel.select_adata(joint, "status", halves=0, folds=0, top=2)
    assert sorted(randsel.get.ranking_df(joint, selected=True).index) == ["b", "p"]
    assert joint.mod["prot"].var["randsel_missing"].tolist() == [10, 10]


def test_results_of_anndata(mdata):
    rna = mdata.mod["rna"]
    rna.obs["status"] = mdata.obs["status"]
    with pytest.raises(ValueError, match="the object has no results of randsel"):
        randsel.get.ranking_df(rna)
    randsel.select_adata(rna, "status", halves=0, folds=0, top=1)
    assert randsel.get.ranking_df(rna, selected=True).index.tolist() == ["b"]
