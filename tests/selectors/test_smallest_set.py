import warnings

import numpy as np
import pandas as pd
import pytest

from randsel import SmallestSet


def three_of(n, rng, m=200):
    X = rng.standard_normal((m, n))
    y = X[:, 0] * X[:, 1] + X[:, 0] - X[:, 2] + rng.standard_normal(m)
    return X, y


def test_selects_the_features_that_act_alone_and_together(rng):
    X, y = three_of(2000, rng)
    selector = SmallestSet().fit(X, y)
    assert sorted(selector.selected_) == [0, 1, 2] == selector.get_support(indices=True).tolist()
    assert selector.n_features_ == 3
    assert (selector.pvalues_[:3] <= 0.05).all()
    assert (selector.pvalues_[3:] > 0.05).all()
    assert selector.steps_["added"].all()
    assert selector.order_[:3].tolist() == selector.selected_.tolist()
    assert sorted(selector.order_) == list(range(2000))
    assert selector.to_frame()["p"].iloc[:3].max() <= 0.05


def test_classes(rng):
    X, y = three_of(500, rng, m=400)
    labels = np.where(y > 0, "case", "control")
    assert SmallestSet().fit(X, labels).get_support(indices=True).tolist() == [0, 1, 2]


def test_survival(rng):
    X = rng.standard_normal((200, 300))
    y = np.zeros(200, dtype=[("event", bool), ("time", float)])
    y["time"], y["event"] = rng.exponential(np.exp(-X[:, 4])), rng.random(200) < 0.8
    assert SmallestSet().fit(X, y).selected_.tolist() == [4]


def test_one_of_a_group_of_copies_is_selected(rng):
    X, y = three_of(500, rng)
    for k in range(3, 18):
        X[:, k] = 0.98 * X[:, k % 3] + np.sqrt(1 - 0.98**2) * rng.standard_normal(200)
    selected = SmallestSet().fit(X, y).selected_
    assert sorted(selected[selected < 18] % 3) == [0, 1, 2]


def test_identical_columns_are_not_both_selected(rng):
    X, y = three_of(50, rng)
    selected = SmallestSet().fit(np.hstack([X, X]), y).selected_
    assert sorted(selected % 50) == [0, 1, 2]


@pytest.mark.filterwarnings("ignore:No features were selected")
def test_noise_is_rarely_selected(rng):
    n_false = 0
    for _ in range(100):
        X = rng.standard_normal((60, 40))
        n_false += SmallestSet(target="regression").fit(X, rng.standard_normal(60)).n_features_ > 0
    assert n_false <= 12  # binomial, 100 at 0.05: 0.04 % chance of more


def test_xor_has_no_first_step(rng):
    X = rng.standard_normal((200, 100))
    selector = SmallestSet().fit(X, (X[:, 0] * X[:, 1] > 0).astype(int))
    assert selector.n_features_ == 0
    assert selector.steps_.shape == (0,)


def test_batch_covariates_and_groups_are_removed(rng):
    X = rng.standard_normal((240, 60))
    batch, age = np.repeat([0, 1, 2], 80), rng.standard_normal(240)
    X[:, 5] += batch
    X[:, 6] += 2 * age
    y = 2 * batch + 2 * age + X[:, 0] + 0.5 * rng.standard_normal(240)
    assert set(SmallestSet().fit(X, y).selected_) >= {5, 6}
    selector = SmallestSet().fit(X, y, batch=batch, covariates=age)
    assert selector.selected_.tolist() == [0]
    donors = np.repeat(np.arange(80), 3)
    per_donor = SmallestSet().fit(X[donors], y[donors], groups=np.repeat(np.arange(80), 3))
    assert per_donor.comparison_ == "between groups"


def test_order_of_columns_names_and_missing_values(rng):
    X, y = three_of(80, rng)
    X[rng.random(X.shape) < 0.02] = np.nan
    X[:, 70] = 1.0
    names = [f"g{j}" for j in range(80)]
    selector = SmallestSet().fit(pd.DataFrame(X, columns=names), y)
    assert sorted(selector.get_feature_names_out()) == ["g0", "g1", "g2"]
    assert selector.ranking_[70] == selector.ranking_.max()
    order = rng.permutation(80)
    again = SmallestSet(n_jobs=2).fit(X[:, order], y)
    assert order[again.selected_].tolist() == selector.selected_.tolist()


def test_a_dask_array_gives_the_same_set(rng):
    da = pytest.importorskip("dask.array", reason="Dask is not installed (extra 'dask')")
    dask = pytest.importorskip("dask")
    X, y = three_of(300, rng)
    with dask.config.set(scheduler="sync"), warnings.catch_warnings():
        selector = SmallestSet().fit(da.from_array(X, chunks=(200, 64)), y)
    assert selector.selected_.tolist() == SmallestSet().fit(X, y).selected_.tolist()
