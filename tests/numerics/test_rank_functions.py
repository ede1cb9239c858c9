import numpy as np
import pytest
import reference
from scipy.stats import norm

from randsel._numerics.columns import monotone_scores
from randsel._numerics.nuisance import centre
from randsel._numerics.rank_functions import column_scores, rank_functions


def functions(X, n_functions=4, weights=None, nominal=None):
    X = np.asarray(X, dtype=float)
    weights = np.ones(len(X)) if weights is None else weights
    nominal = np.zeros(X.shape[1], dtype=bool) if nominal is None else np.array(nominal)
    return rank_functions(X, n_functions, weights, nominal)


def gram(basis, column, weights):
    values = basis.values[column, : basis.counts[column]].astype(float)
    return (values * weights) @ values.T / weights.sum()


def test_functions_of_untied_columns_are_a_monotone_score_and_cosines(rng):
    x = rng.standard_normal(37)
    basis = functions(x[:, None], 5)
    assert np.allclose(basis.values[0], reference.rank_functions(x, 5), atol=1e-5)
    assert np.allclose(gram(basis, 0, np.ones(37)), np.eye(5), atol=1e-6)
    assert np.all(np.diff(basis.values[0, 0][np.argsort(x)]) > 0)
    assert basis.untied[0]


def test_monotone_score_adds_ranks_and_normal_scores_of_equal_variance():
    r = (np.arange(10_000) + 0.5) / 10_000
    normal = norm.ppf(r)
    assert np.std(monotone_scores(r) - normal) == pytest.approx(1.0, rel=1e-3)
    assert np.std(normal) == pytest.approx(1.0, rel=1e-3)
    x = np.array([3.0, 1.0, 3.0, 8.0])
    assert np.allclose(column_scores(x[:, None])[:, 0], monotone_scores(np.array([0.5, 0.125, 0.5, 0.875])))


def test_a_column_of_few_levels_has_one_function_less_than_levels(rng):
    X = np.stack([rng.integers(0, levels, 200) for levels in (1, 2, 3, 5, 9)], axis=1)
    basis = functions(X)
    assert basis.counts.tolist() == [0, 1, 2, 4, 4]
    assert not basis.untied.any()
    for column in range(1, 5):
        assert np.allclose(gram(basis, column, np.ones(200)), np.eye(basis.counts[column]), atol=1e-5)
        assert np.allclose(basis.values[column].mean(axis=1), 0.0, atol=1e-6)


def test_functions_of_tied_columns_are_those_of_the_midranks(rng):
    x = np.round(rng.standard_normal(80), 1)
    assert np.allclose(functions(x[:, None], 3).values[0], reference.rank_functions(x, 3), atol=1e-5)


def test_columns_that_differ_between_strata_are_ranked_after_their_means_are_subtracted(rng):
    strata = np.repeat(np.arange(6), 10)
    levels, numbers = rng.integers(0, 3, 60), rng.standard_normal(60)
    shift = rng.standard_normal(6)[strata]
    X = np.stack([numbers, numbers + 3.0 * shift, numbers + 9.0 * shift, levels], axis=1)
    within = rank_functions(X, 3, np.ones(60), np.zeros(4, dtype=bool), strata).values
    centred = numbers - np.array([numbers[strata == stratum].mean() for stratum in strata])
    for column in (1, 2):
        assert np.allclose(within[column], reference.rank_functions(centred, 3), atol=1e-5)
    # a column without differences between strata, and one of few levels, stay as they are
    for column in (0, 3):
        assert np.array_equal(within[column], functions(X, 3).values[column])


def test_functions_follow_their_rows_and_ignore_monotone_transforms(rng):
    X = np.stack([rng.standard_normal(60), np.round(rng.standard_normal(60)), rng.integers(0, 3, 60)], axis=1)
    basis = functions(X).values
    order = rng.permutation(60)
    assert np.allclose(functions(X[order]).values, basis[:, :, order], atol=1e-6)
    assert np.array_equal(functions(np.exp(X)).values, basis)


def test_rare_levels_are_pooled(rng):
    x = rng.integers(0, 2, 400)
    x[7] = 2
    assert functions(x[:, None]).counts[0] == 1
    once = np.zeros(400)
    once[3] = 1.0
    assert functions(once[:, None]).counts[0] == 0
    heavy = np.where(rng.random(400) < 0.05, rng.standard_normal(400), 0.0)
    assert np.abs(functions(heavy[:, None]).values).max() < 12


def test_nominal_levels_have_no_order(rng):
    x = rng.choice(4, 300, p=[0.4, 0.3, 0.2, 0.1])
    renamed = np.array([2, 0, 3, 1])[x]
    basis, other = functions(x[:, None], nominal=[True]), functions(renamed[:, None], nominal=[True])
    assert basis.counts[0] == 3
    assert np.allclose(basis.values, other.values)
    many = functions(rng.integers(0, 50, 300)[:, None], 3, nominal=[True])
    assert many.counts[0] == 3


def test_a_rare_nominal_level_is_pooled(rng):
    x = np.repeat([0, 1, 2], [100, 100, 1])
    basis = functions(x[:, None], nominal=[True])
    assert basis.counts[0] == 1
    assert np.abs(basis.values).max() < 2


@pytest.mark.parametrize("discrete", [True, False])
def test_orthonormal_under_weights(rng, discrete):
    x = rng.integers(0, 3, 90) if discrete else rng.standard_normal(90)
    weights = rng.random(90) + 0.5
    weights /= weights.mean()
    basis = functions(x[:, None], 3, weights)
    values = basis.values[0, : basis.counts[0]].astype(float)
    assert basis.counts[0] >= 2
    assert np.allclose(values @ weights, 0.0, atol=1e-4)
    assert np.allclose(gram(basis, 0, weights), np.eye(len(values)), atol=1e-5)


@pytest.mark.parametrize("n_strata", [1, 3, 45])
def test_centring_within_strata(rng, n_strata):
    rows, mass = rng.standard_normal((2, 3, 90)), rng.random(90) + 0.5
    strata = np.arange(90) % n_strata
    centred = centre(rows, mass, strata)
    for s in range(n_strata):
        here = strata == s
        mean = (rows[..., here] * mass[here]).sum(axis=-1, keepdims=True) / mass[here].sum()
        assert np.allclose(centred[..., here], rows[..., here] - mean)
    assert np.allclose(centre(rows, mass, None), centre(rows, mass, np.zeros(90, dtype=int)))


def test_ranks_of_few_samples_are_not_treated_as_levels(rng):
    X = np.array([rng.permutation(12) for _ in range(4)], dtype=float).T
    whole, half = (functions(A, 2) for A in (X, X + 0.5))
    assert whole.untied.all()
    np.testing.assert_array_equal(whole.values, half.values)
