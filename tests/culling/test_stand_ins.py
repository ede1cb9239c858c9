"""Stand-ins of selected features, compared with a literal computation."""

import numpy as np
import pytest
import reference

from randsel import RandSel, datasets
from randsel.culling import SwapModel, find_stand_ins
from randsel.culling import _stand_ins as module
from randsel.targets import KINDS, Target


def error_of(Z, gamma, Y, ridge, groups):
    """Return the mean squared error of left-out samples, as a fraction of the variance, from literal formulas."""
    weights = np.ones(len(Z))
    K = reference.expected_kernel(Z, gamma)
    penalty = reference.ridge_penalty(K, ridge, weights)
    Y = Y - Y.mean(axis=0)
    return reference.left_out_errors(K, Y, penalty, weights, groups).mean() / (Y**2).sum() * len(Y)


def median_bandwidth(Z):
    pairs = [((Z[p] - Z[q]) ** 2).sum() for p in range(len(Z)) for q in range(p)]
    return 1 / np.median(pairs)


@pytest.fixture
def data(rng):
    X = rng.standard_normal((40, 8))
    X[:, 5] = X[:, 0] + 0.3 * rng.standard_normal(40)
    X[:, 6] = -X[:, 0] + 0.5 * rng.standard_normal(40)
    X[:, 7] = np.exp(X[:, 1] + 0.2 * rng.standard_normal(40))  # outliers do not hide a monotone relation
    return X, X[:, 0] - X[:, 1] + 0.2 * rng.standard_normal(40)


@pytest.mark.parametrize("grouped", [False, True])
def test_correlations_and_losses_are_those_of_the_formulas(data, grouped):
    X, y = data
    codes = np.arange(40) // 4 if grouped else None
    target = Target.encode(y, KINDS["regression"], None, codes)
    stand_ins = find_stand_ins(X, np.array([0, 1]), SwapModel(target))
    assert {column: [s.column for s in others] for column, others in stand_ins.items()} == {0: [5, 6], 1: [7]}
    correlations = np.corrcoef(reference.rank_scores(X, "normal").T)
    Z = reference.rank_scores(X, "rank")
    gamma = median_bandwidth(Z[:, [0, 1]])
    groups = np.arange(40) if codes is None else codes
    error = error_of(Z[:, [0, 1]], gamma, y[:, None], 3.0, groups)
    for column, others in stand_ins.items():
        for other, correlation, loss in others:
            panel = [other if j == column else j for j in (0, 1)]
            assert correlation == pytest.approx(correlations[column, other])
            assert loss == pytest.approx(error_of(Z[:, panel], gamma, y[:, None], 3.0, groups) - error)
    assert stand_ins[0][0].loss > 0


def test_one_group_of_all_samples_is_none(data):
    X, y = data
    selector = RandSel(2).fit(X, y)
    assert selector.stand_ins(X, y, groups=np.zeros(40)) == selector.stand_ins(X, y)


def test_numbers_and_correlations_of_stand_ins_are_limited(data):
    X, y = data
    selector = RandSel(2).fit(X, y)
    assert {0, 1} == set(selector.get_support(indices=True).tolist())
    assert [s.column for s in selector.stand_ins(X, y, max_count=1)[0]] == [5]
    assert [s.column for s in selector.stand_ins(X, y, min_correlation=0.93)[0]] == [5]
    assert list(selector.stand_ins(X, y)) == selector.order_[:2].tolist()
    for how in ({"min_correlation": 0.0}, {"min_correlation": 1.5}, {"max_count": 0}):
        with pytest.raises(ValueError, match=next(iter(how))):
            selector.stand_ins(X, y, **how)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        selector.stand_ins(X, y[:-1])


def test_without_y_losses_are_unknown(data):
    X, y = data
    selector = RandSel(2).fit(X, y)
    with_y, without = selector.stand_ins(X, y), selector.stand_ins(X)
    assert [s[:2] for s in with_y[0]] == [s[:2] for s in without[0]]
    assert all(np.isnan(s.loss) for others in without.values() for s in others)


@pytest.mark.parametrize("scale", ["rank", "normal", True, False])
def test_the_model_has_the_scaling_and_bandwidth_of_the_selector(data, scale):
    X, y = data
    selector = RandSel(2, scale=scale, gamma=0.3).fit(X, y)
    (first, *_) = selector.stand_ins(X, y)[0]
    Z = reference.rank_scores(X, scale) if isinstance(scale, str) else X / X.std(axis=0) if scale else X
    before, after = (error_of(Z[:, panel], 0.3, y[:, None], 3.0, np.arange(40)) for panel in ([0, 1], [5, 1]))
    assert first.loss == pytest.approx(after - before)


def test_constant_columns_blocks_and_long_selections(data, monkeypatch):
    X, y = data
    X = np.column_stack([X[:, :3], np.ones(40), X[:, 3:]])
    target = Target.encode(y, KINDS["regression"])
    whole = find_stand_ins(X, np.array([0, 3, 1]), SwapModel(target))
    assert list(whole) == [0, 1]
    monkeypatch.setattr(module, "WIDTH", 2)
    blocks = find_stand_ins(X, np.array([0, 3, 1]), SwapModel(target))
    for column, others in whole.items():
        assert [s.column for s in blocks[column]] == [s.column for s in others]
        np.testing.assert_allclose(blocks[column], others)
    monkeypatch.setattr(module, "MAX_PANEL", 1)
    assert list(find_stand_ins(X, np.array([0, 3, 1]), SwapModel(target))) == [0]


def test_losses_of_many_samples_are_those_of_some_of_them(monkeypatch):
    X, y, _ = datasets.make_weston_linear(200, 30, random_state=0)
    X[:, 20] = X[:, 0] + 0.5 * X[:, 0].std() * np.random.default_rng(0).standard_normal(200)
    target = Target.encode(y, KINDS["classification"])
    (exact,) = find_stand_ins(X, np.array([0, 1, 2]), SwapModel(target), max_count=1)[0]
    monkeypatch.setattr(module, "MAX_SAMPLES", 120)
    (approximate,) = find_stand_ins(X, np.array([0, 1, 2]), SwapModel(target), max_count=1)[0]
    assert approximate[:2] == exact[:2]
    assert approximate.loss == pytest.approx(exact.loss, abs=0.05)


def test_columns_of_categories_neither_have_nor_are_stand_ins(data):
    X, _ = data
    assert [other for other, *_ in find_stand_ins(X, np.array([0, 1]), None)[0]] == [5, 6]
    stand_ins = find_stand_ins(X, np.array([0, 1]), None, nominal=(1, 5))
    assert [other for other, *_ in stand_ins[0]] == [6]
    assert stand_ins[1] == []
