import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from sklearn.svm import SVC

from randsel import datasets
from randsel.experiments import _black_box as black_box
from randsel.experiments._black_box import METHODS, BlackBoxSettings, Trial, run_black_box
from randsel.experiments._cells import hash_cell

TINY = BlackBoxSettings(
    n_labelled=54,
    n_held_out=90,
    n_components=24,
    whiten=(False,),
    iterations=(5,),
    bandwidths=(1.0,),
    costs=(1.0, 10.0),
    nus=(0.2, 0.6),
    folds=2,
    seeds=1,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cells")


@pytest.fixture(scope="module")
def results(folder):
    return run_black_box(TINY, folder)


@pytest.mark.slow
def test_every_method_tells_held_out_rows_better_than_chance(results):
    assert list(results) == list(METHODS)
    for found in results.values():
        assert len(found) == 1
        assert 3 / 9 < found[0]["accuracy"] <= 1
    boosted = results["LPBoostMKL, kernels of the path"][0]
    np.testing.assert_allclose(np.sum(boosted["weights"], axis=1), 1)
    assert np.shape(boosted["weights"]) == (9, len(boosted["sizes"]))
    assert boosted["sizes"][0] == 24
    assert boosted["sizes"][-1] == 2
    assert boosted["neighbours"] > boosted["ends"]


@pytest.mark.slow
def test_features_are_the_responses_without_their_sign():
    learned = Trial(0, TINY).learned[0]
    np.testing.assert_allclose(np.abs(learned.signed), learned.features, atol=1e-3)
    assert np.mean(learned.signed < 0) > 0.2


@pytest.mark.slow
def test_finished_cells_are_read_and_damaged_ones_computed_again(results, folder, monkeypatch):
    seen = []

    def method(trial):
        seen.append(trial.seed)
        return {"accuracy": 0.5, "inner": 0.5}

    for name in METHODS:
        monkeypatch.setitem(black_box.METHODS, name, method)
    calls = []
    assert run_black_box(TINY, folder, progress=lambda *state: calls.append(state)) == json.loads(json.dumps(results))
    assert not seen
    assert not calls
    path = folder / "cells" / f"{hash_cell('SVM, best single kernel', 0, asdict(replace(TINY, seeds=0)))}.json"
    whole = path.read_text()
    path.write_text(whole[:50])
    again = run_black_box(replace(TINY, seeds=2), folder, progress=lambda *state: calls.append(state))
    path.write_text(whole)
    assert seen == [0] + 6 * [1]
    assert again["Gaussian SVM, raw input"][0] == results["Gaussian SVM, raw input"][0]
    assert calls[0] == ("cells", 5, 12)
    assert calls[-1] == ("cells", 11, 12)


@pytest.mark.slow
def test_held_out_labels_change_no_choice(results, tmp_path, monkeypatch):
    """With their labels shuffled, held-out rows are told at chance, and all that was chosen stays as it was."""

    def shuffled(*args, **kwargs):
        box = datasets.make_black_box(*args, **kwargs)
        return replace(box, held_out_y=np.random.default_rng(0).permutation(box.held_out_y))

    monkeypatch.setattr(black_box, "make_black_box", shuffled)
    for name, found in run_black_box(TINY, tmp_path).items():
        assert found[0]["chosen"] == results[name][0]["chosen"]
        assert found[0]["inner"] == results[name][0]["inner"]
        assert found[0]["accuracy"] < 0.3


@pytest.mark.slow
def test_features_are_learned_without_held_out_rows(monkeypatch):
    trial = Trial(0, TINY)
    features = trial.learned[0].features

    def other(*args, **kwargs):
        box = datasets.make_black_box(*args, **kwargs)
        return replace(box, held_out=1000.0 * box.held_out)

    monkeypatch.setattr(black_box, "make_black_box", other)
    np.testing.assert_array_equal(Trial(0, TINY).learned[0].features[:54], features[:54])


@pytest.mark.slow
def test_the_average_is_that_of_the_kernels(results):
    trial = Trial(0, TINY)
    split = trial.stacks[1.0][-1]
    found = results["SVM, average of the same kernels"][0]
    model = SVC(C=found["chosen"][2], kernel="precomputed").fit(split.train.mean(axis=0), trial.data.y)
    assert np.mean(model.predict(split.test.mean(axis=0)) == trial.data.held_out_y) == found["accuracy"]


def test_tables(results):
    rows, why = black_box.accuracies(results), black_box.differences(results)
    assert [row["method"] for row in rows] == list(METHODS)
    first = 100 * results["Gaussian SVM, raw input"][0]["accuracy"]
    assert rows[0]["held-out accuracy, %"] == f"{first:.1f} ± 0.0"
    told = {row["what"]: row["mean ± sd over seeds"] for row in why}
    assert told["equal weights, SVM, %"] == rows[4]["held-out accuracy, %"]
    sizes, weights = black_box.weights_along_path(results)
    assert weights.shape == (1, 9, len(sizes))
