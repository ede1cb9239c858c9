"""Missing values are neutral: scores and rank functions against their definition, for every kind of table."""

import numpy as np
import pytest
import reference

from randsel._numerics.column_sources import MappedColumns, Scaling
from randsel._numerics.missing import count_nonfinite, impute_means
from randsel._numerics.rank_functions import rank_functions
from randsel._numerics.standardise import RankScorer, standardise, standardise_columns
from randsel.targets import average_rows

SCALES = {"rank": "rank", "normal": "normal", "z": True, "centred": False}
scales = pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
weighted = pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])


@pytest.fixture
def table(rng):
    """Columns without ties, with ties, of few levels, around a large mean; 20 of 30 have missing values."""
    X = rng.normal(size=(61, 30))
    X[:, 10:20] = X[:, 10:20].round(1)
    X[:, 20:25] = rng.integers(0, 3, size=(61, 5))
    X[:, 25:] += 1e6
    X[(rng.random(X.shape) < 0.3) & (np.arange(30) % 3 > 0)] = np.nan
    return X


def weights_of(rng, is_weighted):
    return rng.random(61) + 0.1 if is_weighted else None


@weighted
@pytest.mark.parametrize("scale", ["rank", "normal"])
def test_rank_scores_follow_their_definition(table, rng, scale, weighted):
    weights = weights_of(rng, weighted)
    expected = reference.neutral_rank_scores(table, weights, scale)
    np.testing.assert_allclose(standardise(table, weights, scale)[0], expected, atol=1e-12)


@weighted
def test_z_scores_and_centred_values_follow_their_definition(table, rng, weighted):
    weights = weights_of(rng, weighted)
    expected = reference.neutral_z_scores(table, weights)
    np.testing.assert_allclose(standardise(table, weights, True)[0], expected, atol=1e-8)
    centred = standardise(table, weights, False)[0]
    slopes = (centred * expected).sum(axis=0) / (expected**2).sum(axis=0)
    np.testing.assert_allclose(centred, expected * slopes, atol=1e-8)


@scales
def test_a_missing_value_is_zero(table, scale):
    assert (standardise(table, None, scale)[0][np.isnan(table)] == 0.0).all()


@scales
@weighted
def test_complete_columns_keep_their_bits(table, rng, scale, weighted):
    weights, complete = weights_of(rng, weighted), ~np.isnan(table).any(axis=0)
    filled = np.where(np.isnan(table), 3.0 + rng.random(table.shape), table)
    with_gaps, without = (standardise(X, weights, scale)[0] for X in (table, filled))
    assert np.array_equal(with_gaps[:, complete], without[:, complete])


@scales
def test_a_table_without_gaps_keeps_its_bits_beside_one_column_of_gaps(rng, scale):
    X = rng.normal(size=(40, 2))
    expected = standardise(X, None, scale)[0]
    X[3, 1] = np.nan
    assert np.array_equal(standardise(X, None, scale)[0][:, 0], expected[:, 0])


@scales
def test_integer_weights_are_repetitions_of_rows(table, rng, scale):
    counts = rng.integers(1, 5, size=61)
    from_weights = np.repeat(standardise(table, counts.astype(float), scale)[0], counts, axis=0)
    repeated = standardise(np.repeat(table, counts, axis=0), None, scale)[0]
    np.testing.assert_allclose(from_weights - from_weights[0], repeated - repeated[0], atol=1e-8)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@scales
@weighted
def test_tensors_have_the_scores_of_arrays(table, rng, scale, weighted, dtype):
    torch = pytest.importorskip("torch")
    X, weights = table[:, :25].astype(dtype), weights_of(rng, weighted)
    expected = standardise(X, weights, scale)[0]
    tolerance = 1e-12 if dtype == np.float64 else 2e-6
    np.testing.assert_allclose(standardise(torch.asarray(X), weights, scale)[0].numpy(), expected, atol=tolerance)


@scales
def test_order_of_columns_and_blocks_of_a_memory_map_change_no_bit(table, rng, scale, tmp_path):
    Z, order = standardise(table, None, scale)[0], rng.permutation(30)
    permuted = np.ascontiguousarray(table[:, order])
    assert np.array_equal(standardise(permuted, None, scale)[0], Z[:, order])
    np.save(tmp_path / "X.npy", table)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    stream = MappedColumns.from_table(mapped, Scaling(None, scale), max_bytes=8 * 61 * 24, device=None)
    assert np.array_equal(stream.load(np.ones(30, dtype=bool)), Z)


@scales
def test_empty_constant_and_incomplete_columns_do_not_vary(table, scale):
    table[:, 1], table[:40, 2], table[1:, 4] = np.nan, np.nan, np.nan
    table[:, 5] = np.where(np.isnan(table[:, 5]), np.nan, 7.0)
    assert np.flatnonzero(~standardise_columns(table, None, scale, 0.5)[1]).tolist() == [1, 2, 4, 5]
    assert np.flatnonzero(~standardise_columns(table, None, scale, 1.0)[1]).tolist() == [1, 4, 5]


def test_new_rows_get_scores_by_the_training_rows(table, rng):
    scorer = RankScorer.from_samples(table)
    np.testing.assert_allclose(scorer.apply(table), reference.neutral_rank_scores(table), atol=1e-12)
    rows = np.full((1, 30), np.nan)
    assert not scorer.apply(rows).any()
    table[:, 3] = np.nan
    assert np.isfinite(RankScorer.from_samples(table).apply(rng.normal(size=(4, 30)))).all()


def test_rank_functions_follow_their_definition(table):
    functions = rank_functions(table, 5, np.ones(61), np.zeros(30, dtype=bool))
    for j in range(20):  # levels of the other columns may be pooled
        expected = reference.neutral_rank_functions(table[:, j], 5)
        np.testing.assert_allclose(functions.values[j], expected, atol=1e-5)
    assert not functions.values.transpose(0, 2, 1)[np.isnan(table).T].any()
    assert functions.untied[:10].tolist() == [not np.isnan(x).any() for x in table.T[:10]]


@pytest.mark.parametrize("nominal", [False, True])
@pytest.mark.parametrize("with_strata", [False, True])
def test_rank_functions_are_orthonormal_over_the_observed_samples(table, rng, nominal, with_strata):
    weights, strata = rng.random(61) + 0.5, rng.integers(0, 4, 61) if with_strata else None
    weights /= weights.mean()
    functions = rank_functions(table, 4, weights, np.full(30, nominal), strata)
    for x, values, count in zip(table.T, functions.values, functions.counts, strict=True):
        observed, f = ~np.isnan(x), values[:count]
        assert not f[:, ~observed].any()
        gram = (f * weights) @ f.T / weights[observed].sum()
        np.testing.assert_allclose(gram, np.eye(len(f)), atol=1e-4)
        np.testing.assert_allclose(f @ weights, 0.0, atol=1e-3)


def test_columns_with_too_many_missing_values_have_no_functions(table):
    table[:, 1], table[:40, 2] = np.nan, np.nan
    shared = 3, np.ones(61), np.zeros(30, dtype=bool), None
    assert np.flatnonzero(rank_functions(table, *shared, 0.5).counts == 0).tolist() == [1, 2]
    assert np.flatnonzero(rank_functions(table, *shared).counts == 0).tolist() == [1]


def test_means_of_groups_are_those_of_observed_values():
    X = np.array([[1.0, 2.0, np.nan], [3.0, np.nan, np.nan], [5.0, 6.0, 2.0], [7.0, 4.0, 2.0]])
    means = average_rows(X, np.array([0, 0, 1, 1]), np.array([False, False, True]))
    np.testing.assert_array_equal(means, [[2.0, 2.0, np.nan], [6.0, 5.0, 2.0]])


def test_values_are_counted_in_rows_of_a_map(table, tmp_path):
    table[3, 0] = -np.inf
    np.save(tmp_path / "X.npy", table)
    for X in (table, np.load(tmp_path / "X.npy", mmap_mode="r")):
        n_missing, n_infinite = count_nonfinite(X)
        assert n_missing.tolist() == np.isnan(table).sum(axis=0).tolist()
        assert n_infinite.tolist() == [1] + [0] * 29


def test_means_are_those_of_training_rows(table):
    table[:30, 1] = np.nan
    train = np.arange(30)
    imputed = impute_means(table, train)
    missing = np.isnan(table[:, 28])
    np.testing.assert_allclose(imputed[missing, 28], np.nanmean(table[train, 28]), rtol=1e-15)
    assert (imputed[:30, 1] == 0.0).all()
    assert impute_means(imputed) is imputed
