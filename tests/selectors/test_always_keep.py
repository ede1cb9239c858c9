"""`RandSel(always_keep=...)`: features that are in every subset, and what the others add to them."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from randsel import RandSel, RandSelCV

MARKER, COPIES, COMPLEMENTS = 0, [1, 2, 3, 4], [5, 6, 7]


@pytest.fixture(scope="module")
def data():
    """Return a marker with four copies, three features that add to it, and noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 80))
    for column in COPIES:
        X[:, column] = X[:, MARKER] + 0.2 * rng.standard_normal(200)
    y = 2 * X[:, MARKER] + X[:, COMPLEMENTS].sum(axis=1) + 0.5 * rng.standard_normal(200)
    return X, (y > 0).astype(int)


def test_copies_of_a_marker_that_is_kept_rank_below_what_adds_to_it(data):
    alone, beside = RandSel().fit(*data), RandSel(always_keep=[MARKER]).fit(*data)
    assert set(alone.order_[:4]) & set(COPIES)
    assert beside.order_[0] == MARKER
    assert set(beside.order_[1:4]) == set(COMPLEMENTS)
    assert beside.support_[MARKER]
    assert not beside.support_[COPIES].any()
    # In the first round, a copy contributes no more than the best of the noise.
    first = beside.path_.rounds[0].contributions
    assert first[COPIES].max() < first[8:].max() < first[COMPLEMENTS].min()
    assert all(MARKER in r.features for r in beside.path_.rounds)


OPTIONS = {
    "default": {},
    "auto": {"n_features_to_select": "auto"},
    "bootstrap": {"estimator": "bootstrap", "n_bootstraps": 300, "random_state": 0},
    "total": {"criterion": "total"},
    "calibrated": {"criterion": "calibrated"},
    "ranks": {"kernel": "rank"},
    "fixing": {"fix_top": 0.1, "fix_after": 2},
    "a path of some features": {"min_features": 10},
    "z-scores": {"scale": True},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_features_to_keep_are_in_every_round_and_come_first(data, options):
    listed = [40, MARKER, 60]
    fitted = RandSel(**{"n_features_to_select": 5, **options, "always_keep": listed}).fit(*data)
    assert list(fitted.order_[:3]) == listed
    assert fitted.support_[listed].all()
    assert list(fitted.ranking_[listed]) == [1, 1, 1]
    assert all(set(listed) <= set(r.features) for r in fitted.path_.rounds)
    assert sorted(fitted.order_) == list(range(80))
    assert fitted.n_features_ >= 3
    if "n_features_to_select" not in options:
        assert fitted.n_features_ == 5


def test_a_path_may_end_with_nothing_but_what_is_kept(data):
    fitted = RandSel(2, always_keep=[5, 6]).fit(*data)
    assert list(fitted.path_.rounds[-1].features) == [5, 6]
    assert list(fitted.get_support(indices=True)) == [5, 6]
    everything = RandSel(always_keep=range(80)).fit(*data)
    assert everything.support_.all()
    assert len(everything.path_.rounds) == 1


def test_nothing_to_keep_changes_nothing(data):
    plain = RandSel(5).fit(*data)
    for nothing in ([], np.zeros(80, dtype=bool)):
        fitted = RandSel(5, always_keep=nothing).fit(*data)
        assert np.array_equal(fitted.order_, plain.order_)
        assert np.array_equal(fitted.contributions_, plain.contributions_)
    fixing = {"fix_top": 0.1, "fix_after": 2}
    plain, fitted = RandSel(5, **fixing).fit(*data), RandSel(5, always_keep=[], **fixing).fit(*data)
    assert len(plain.fixed_)
    assert np.array_equal(fitted.contributions_, plain.contributions_)


def test_names_indices_and_masks_are_the_same(data):
    X, y = data
    names = [f"gene {j}" for j in range(80)]
    frame = pd.DataFrame(X, columns=names)
    expected = RandSel(6, always_keep=[0, 70]).fit(X, y)
    mask = np.isin(np.arange(80), [0, 70])
    ways = [(X, mask), (X, mask.tolist()), (X, [0, -10]), (X, np.array([0, 70])), (frame, ["gene 0", "gene 70"])]
    for table, always_keep in [*ways, (frame, ["gene 0", 70])]:
        fitted = clone(RandSel(6, always_keep=always_keep)).fit(table, y)
        assert np.array_equal(fitted.order_, expected.order_)


@pytest.mark.parametrize("options", [{}, {"kernel": "rank"}])
def test_the_order_of_the_columns_does_not_matter(data, rng, options):
    X, y = data
    columns = rng.permutation(80)
    expected = RandSel(6, always_keep=[0, 70], **options).fit(X, y)
    listed = [int(np.flatnonzero(columns == column)[0]) for column in (0, 70)]
    fitted = RandSel(6, always_keep=listed, **options).fit(X[:, columns], y)
    assert np.array_equal(columns[fitted.order_], expected.order_)


def test_row_blocks_blocks_of_columns_and_dask_give_the_same(data, tmp_path, monkeypatch):
    X, y = data
    np.save(tmp_path / "X.npy", X)
    selector = RandSel(6, always_keep=[0, 70], random_state=0)
    monkeypatch.setattr("randsel.contribution._closed_form.MAX_ROWS", 150)
    in_memory = clone(selector).fit(X, y)
    assert list(in_memory.order_[:2]) == [0, 70]
    monkeypatch.setattr("randsel.selectors._features.memory_for_columns", lambda *_: int(0.2 * X.nbytes))
    streamed = clone(selector).set_params(max_memory="1MB").fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y)
    remote = clone(selector).set_params(max_memory="1MB").fit(da.from_array(X, chunks=(200, 30)), y)
    for fitted in (streamed, remote):
        assert list(fitted.order_[:6]) == list(in_memory.order_[:6])
        first, expected = fitted.path_.rounds[0].contributions, in_memory.path_.rounds[0].contributions
        np.testing.assert_allclose(first, expected, atol=1e-8 * expected.max())


def test_cross_validation_keeps_them_in_every_fold(data):
    X, y = data
    frame = pd.DataFrame(X, columns=[f"gene {j}" for j in range(80)])
    selector = RandSel(always_keep=["gene 30", "gene 0"])
    fitted = RandSelCV(selector=selector, cv=3, gammas=["median"]).fit(frame, y)
    assert list(fitted.order_[:2]) == [30, 0]
    assert min(fitted.cv_results_["n_features"]) == 2
    assert selector.always_keep == ["gene 30", "gene 0"]


def test_a_checkpoint_of_other_features_is_refused(data, tmp_path):
    RandSel(5, always_keep=[0], checkpoint=tmp_path).fit(*data)
    with pytest.raises(ValueError, match=r"always keep: \[0\], now \[1\]"):
        RandSel(5, always_keep=[1], checkpoint=tmp_path).fit(*data)
    RandSel(4, always_keep=np.arange(80) == 0, checkpoint=tmp_path).fit(*data)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"always_keep": ["a", "a"]}, "always_keep lists 'a' twice; name it once"),
        ({"always_keep": ["a", 0]}, "always_keep lists 'a' twice"),
        ({"always_keep": ["gene"]}, "always_keep names 'gene', which X does not have, did you mean 'genes'?"),
        ({"always_keep": [6]}, "always_keep holds 6, but X has n_features=6"),
        ({"always_keep": [0.5]}, "always_keep holds 0.5"),
        ({"always_keep": [True, False]}, "always_keep is a mask of shape"),
        ({"always_keep": ["flat"]}, "always_keep lists 'flat', which is constant in these samples"),
        (
            {"always_keep": ["rare"], "kernel": "rank"},
            "'rare', which is constant in these samples, has no two levels seen often",
        ),
        ({"always_keep": 3}, "'always_keep' parameter"),
        (
            {"always_keep": ["a", "b"], "n_features_to_select": 1},
            r"selects fewer features \(1\) than always_keep lists \(2\)",
        ),
        ({"always_keep": ["a", "b"], "n_features_to_select": 0.2}, r"=0.2 selects fewer features \(1\)"),
    ],
)
def test_what_cannot_be_kept_is_named(rng, options, message):
    frame = pd.DataFrame(rng.normal(size=(60, 6)), columns=["a", "b", "genes", "flat", "rare", "f"])
    frame["flat"], frame["rare"] = 1.0, np.arange(60) == 3
    with pytest.raises(ValueError, match=message):
        RandSel(**options).fit(frame, np.arange(60) % 2)


def test_names_need_a_data_frame(data):
    with pytest.raises(ValueError, match="always_keep names 'a', which X does not have; X has no column names"):
        RandSel(always_keep=["a"]).fit(*data)
