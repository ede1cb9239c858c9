"""Rank scores of columns, monotone and normal: the definition, every type of table, and selections with them."""

import numpy as np
import pytest
import reference
import sklearn

from randsel import RandSel, datasets
from randsel._numerics.column_sources import MappedColumns, Scaling
from randsel._numerics.standardise import RankScorer, rank_scores_into, standardise


@pytest.fixture
def table(rng):
    """Columns without ties, with some ties, of few levels, and of values that differ in the last bits only."""
    X = rng.normal(size=(57, 40))
    X[:, 10:20] = X[:, 10:20].round(1)
    X[:, 20:30] = rng.integers(0, 3, size=(57, 10))
    X[:, 30] = 1.0 + rng.permutation(57) * np.finfo(float).eps
    X[:, 31] = rng.permutation(57) * 5e-324
    X[:, 32] = np.exp(20 * X[:, 32])
    X[:, 33] = np.where(rng.random(57) < 0.5, -0.0, np.where(rng.random(57) < 0.5, 0.0, -1e-300))
    X[:, 34] = np.arange(57) == 3
    X[:, 35] = np.where(rng.random(57) < 0.5, 1.0, 1.0 + 2**-50 * rng.integers(0, 3, size=57))
    return X


@pytest.fixture(params=["rank", "normal"])
def scale(request):
    return request.param


@pytest.fixture
def scores_of(scale):
    """Function that returns the scores of a table."""
    return lambda X, weights=None: standardise(X, weights, scale)[0]


def test_scores_follow_their_definition(table, scores_of, scale):
    np.testing.assert_allclose(scores_of(table), reference.rank_scores(table, scale), atol=1e-13)


def test_weighted_scores_follow_their_definition(table, rng, scores_of, scale):
    weights = rng.random(57)
    expected = reference.weighted_rank_scores(table, weights, scale)
    np.testing.assert_allclose(scores_of(table, weights), expected, atol=1e-12)


def test_equal_weights_give_the_scores_without_weights(table, scores_of):
    np.testing.assert_allclose(scores_of(table, np.full(57, 0.3)), scores_of(table), atol=1e-12)


def test_integer_weights_are_repetitions_of_rows(table, rng, scores_of):
    counts = rng.integers(1, 5, size=57)
    weighted = np.repeat(scores_of(table, counts.astype(float)), counts, axis=0)
    repeated = scores_of(np.repeat(table, counts, axis=0))
    # Columns are centred by their unweighted mean, which repetitions move; kernels depend on differences only.
    np.testing.assert_allclose(weighted - weighted[0], repeated - repeated[0], atol=1e-12)


def test_tiny_weights_give_finite_scores(rng, scores_of):
    X = np.arange(20.0)[:, None] * [1, -1]
    weights = np.full(20, 1e-30)
    weights[5:15] = rng.random(10) + 0.5
    assert np.isfinite(scores_of(X, weights)).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_spread_is_that_of_z_scores(table, dtype, rng, scores_of):
    X, weights = table[:, :30].astype(dtype), rng.random(57)
    for w in (None, weights):
        Z = scores_of(X, w)
        assert Z.dtype == dtype
        np.testing.assert_allclose(Z.mean(axis=0), 0.0, atol=1e-7)
        mean = np.average(Z, axis=0, weights=w)
        np.testing.assert_allclose(np.average((Z - mean) ** 2, axis=0, weights=w), 1.0, rtol=1e-6)


def test_constant_columns_are_left_out(table, scores_of, scale):
    table[:, 4], table[:, 33] = 7.0, np.where(np.arange(57) % 2, 0.0, -0.0)
    for X in (table, table.astype(np.float32)):
        varies = standardise(X, None, scale)[1]
        assert np.array_equal(varies, X.max(axis=0) > X.min(axis=0))
        assert not varies[[4, 33]].any()
    with pytest.raises(ValueError, match="Every column of X is constant"):
        scores_of(np.ones((5, 3)))


def test_equal_values_in_another_type_have_equal_scores(table, scores_of):
    X = table[:, :30].astype(np.float32)
    assert np.array_equal(scores_of(X), scores_of(X.astype(np.float64)).astype(np.float32))


@pytest.mark.parametrize("weighted", [False, True])
def test_increasing_transforms_and_other_blocks_change_no_bit(table, rng, weighted, monkeypatch, scores_of):
    X, weights = table[:, :30], rng.random(57) if weighted else None
    Z = scores_of(X, weights)
    assert np.array_equal(scores_of(np.exp(X), weights), Z)
    assert np.array_equal(scores_of(X**3 * 1e200, weights), Z)
    order = rng.permutation(30)
    assert np.array_equal(scores_of(X[:, order], weights), Z[:, order])
    assert np.array_equal(scores_of(np.asfortranarray(X), weights), Z)
    assert np.array_equal(np.hstack([scores_of(X[:, [j]], weights) for j in range(30)]), Z)
    monkeypatch.setattr("randsel._numerics.standardise.SCRATCH", 57 * 7)
    assert np.array_equal(scores_of(X, weights), Z)


def test_decreasing_transforms_change_the_sign(table, scores_of):
    X = table[:, :10]
    assert np.array_equal(scores_of(-X), -scores_of(X))


def test_blocks_of_a_memory_map_have_the_scores_of_the_table(table, tmp_path, scores_of, scale):
    np.save(tmp_path / "X.npy", table)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    stream = MappedColumns.from_table(mapped, Scaling(None, scale), max_bytes=8 * 57 * 24, device=None)
    assert np.array_equal(stream.load(np.ones(40, dtype=bool)), scores_of(table))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weighted", [False, True])
def test_tensors_have_the_scores_of_arrays(table, rng, dtype, weighted, scores_of):
    torch = pytest.importorskip("torch")
    X, weights = table[:, :30].astype(dtype), rng.random(57) if weighted else None
    tensor = scores_of(torch.asarray(X), weights)
    assert tensor.dtype == torch.asarray(X).dtype
    np.testing.assert_allclose(tensor.numpy(), scores_of(X, weights), atol=1e-12 if dtype == np.float64 else 1e-6)


def test_one_column_is_written_in_place():
    out = np.full((4, 1), np.nan)
    assert rank_scores_into(out, np.array([[3.0], [1.0], [3.0], [2.0]]), None, None).tolist() == [True]
    assert out[0] == out[2] > out[3] > out[1]


def test_new_rows_get_scores_by_the_training_rows(table, rng, scores_of, scale):
    scorer = RankScorer.from_samples(table, scale)
    expected = scores_of(table)
    np.testing.assert_allclose(scorer.apply(table), expected, atol=1e-12)
    assert np.array_equal(scorer.apply(table[:5]), scorer.apply(table)[:5])
    # Beyond the extremes: the score of the extreme. Between neighbours: the quantile of the rank between theirs.
    np.testing.assert_allclose(scorer.apply(table.min(axis=0)[None] - 1)[0], expected.min(axis=0), atol=1e-12)
    np.testing.assert_allclose(scorer.apply(table.max(axis=0)[None] + 1)[0], expected.max(axis=0), atol=1e-12)
    x = np.sort(table[:, 0])
    spread = reference.RANK_SCORES[scale]((np.arange(57) + 0.5) / 57).std()
    between = scorer.apply(np.tile((x[1:] + x[:-1])[:, None] / 2, 40))[:, 0]
    np.testing.assert_allclose(between, reference.RANK_SCORES[scale](np.arange(1, 57) / 57) / spread, atol=1e-12)


def test_new_rows_of_constant_columns_are_neutral(scale):
    scorer = RankScorer.from_samples(np.full((6, 1), 3.0), scale)
    assert np.array_equal(scorer.apply(np.array([[1.0], [3.0], [9.0]])), np.zeros((3, 1)))


# ---------------------------------------------------------------- selections


@pytest.mark.parametrize("options", [{}, {"kernel": "rank"}, {"criterion": "total"}, {"estimator": "bootstrap"}])
def test_increasing_transforms_do_not_change_the_ranking(options, scale):
    X, y, relevant = datasets.make_xor(150, 40, random_state=1)
    options = {"n_bootstraps": 50, "random_state": 0, **options}
    expected = RandSel(2, scale=scale, **options).fit(X, y)
    transformed = np.where(np.arange(40) % 2, np.exp(3 * X), X**3 - 7)
    selector = RandSel(2, scale=scale, **options).fit(transformed, y)
    assert np.array_equal(selector.order_, expected.order_)
    assert np.array_equal(selector.contributions_, expected.contributions_)
    if "estimator" not in options:
        assert set(expected.get_support(indices=True)) == set(relevant)


def test_the_order_of_columns_does_not_change_the_ranking(rng, scale):
    X, y, _ = datasets.make_xor(120, 60, random_state=2)
    order = rng.permutation(60)
    expected = RandSel(5, scale=scale).fit(X, y)
    shuffled = RandSel(5, scale=scale).fit(X[:, order], y)
    assert np.array_equal(order[shuffled.order_], expected.order_)


def test_integers_and_single_precision_select_the_same(rng, scale):
    X = rng.integers(0, 50, size=(100, 30))
    y = (X[:, 3] + X[:, 7] > 50).astype(int)
    expected = RandSel(2, scale=scale).fit(X.astype(float), y)
    assert np.array_equal(RandSel(2, scale=scale).fit(X, y).order_, expected.order_)
    assert np.array_equal(RandSel(2, scale=scale).fit(X.astype(np.float32), y).support_, expected.support_)


def test_an_outlier_hides_no_feature(rng, scale):
    X = rng.normal(size=(80, 50))
    y = X[:, 4] > 0
    X[0, 4] = 1e9
    assert list(RandSel(1, scale=scale).fit(X, y).get_support(indices=True)) == [4]


def test_weights_and_tensors(rng, scale):
    torch = pytest.importorskip("torch")
    X, y, _ = datasets.make_xor(120, 60, random_state=1)
    weights = rng.random(120)
    expected = RandSel(2, scale=scale).fit(X, y, weights)
    with sklearn.config_context(array_api_dispatch=True):
        selector = RandSel(2, scale=scale).fit(torch.asarray(X), torch.asarray(y), torch.asarray(weights))
    assert np.array_equal(selector.order_, expected.order_)


def test_a_checkpoint_of_another_scale_is_refused(tmp_path, scale):
    X, y, _ = datasets.make_xor(100, 30, random_state=1)
    RandSel(2, scale=scale, checkpoint=tmp_path).fit(X, y)
    with pytest.raises(ValueError, match="scale"):
        RandSel(2, scale=True, checkpoint=tmp_path).fit(X, y)


def test_an_unknown_scale_is_refused(rng):
    with pytest.raises(ValueError, match="'scale' parameter"):
        RandSel(2, scale="ranks").fit(rng.normal(size=(20, 5)), np.arange(20) % 2)
