"""The permutation test: does any feature stand out from noise?"""

import numpy as np
import pytest
from scipy import stats
from sklearn.feature_selection import f_classif

from randsel.contribution import Sample
from randsel.culling import permutation_test
from randsel.culling._noise import permuted_rows
from randsel.targets import KINDS, Target


def make_sample(X, y, kind="classification", weights=None, groups=None):
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return Sample.from_columns(X, Target.encode(y, KINDS[kind], weights, groups))


def test_squared_correlations_are_those_of_f_statistics_and_of_pearson():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 30)), rng.integers(0, 3, 60)
    X[:, 3] += y
    squared = permutation_test(make_sample(X, y)).squared_correlations
    np.testing.assert_allclose(squared / (1 - squared) * 57 / 2, f_classif(X, y)[0], rtol=1e-9)
    z = rng.normal(size=60)
    expected = [stats.pearsonr(x, z).statistic ** 2 for x in X.T]
    squared = permutation_test(make_sample(X, z, "regression")).squared_correlations
    np.testing.assert_allclose(squared, expected, rtol=1e-8)


@pytest.mark.parametrize("correlated", [False, True])
def test_false_alarms_are_as_rare_as_the_level(correlated):
    alarms = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(30, 40)) + (3 * rng.normal(size=(30, 1)) if correlated else 0.0)
        alarms += permutation_test(make_sample(X, rng.integers(0, 2, 30))).pvalue <= 0.05
    # Binomial(200, 0.05): above 18 with probability 0.01.
    assert alarms <= 18


def test_one_strong_feature_and_many_weak_features_are_both_noticed():
    rng = np.random.default_rng(1)
    y = np.arange(80) % 2
    strong, weak = rng.normal(size=(80, 500)), rng.normal(size=(80, 500))
    strong[:, 0] += 2 * y
    weak += 0.35 * y[:, None]
    assert permutation_test(make_sample(strong, y)).pvalue <= 0.02
    assert permutation_test(make_sample(weak, y)).pvalue <= 0.02


def test_permutations_stay_within_batches_and_move_whole_groups():
    outcomes = np.repeat([0.0, 1.0, 0.0, 1.0, 1.0, 0.0], 3)[:, None]
    groups, batch = np.repeat(np.arange(6), 3), np.repeat([0, 0, 0, 1, 1, 1], 3)
    rows = permuted_rows(outcomes, groups, batch, 50)
    assert (batch[rows] == batch).all()
    moved = groups[rows].reshape(50, 6, 3)
    assert (moved == moved[:, :, :1]).all()
    assert (np.sort(moved[:, :, 0], axis=1) == np.arange(6)).all()
    assert len(np.unique(rows, axis=0)) > 20


def test_an_outcome_that_varies_within_groups_is_permuted_within_them():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(5), 4)
    rows = permuted_rows(rng.normal(size=(20, 1)), groups, None, 20)
    assert (groups[rows] == groups).all()
    assert (np.sort(rows, axis=1) == np.arange(20)).all()


def test_groups_remove_false_alarms_of_repeated_samples():
    """Ten donors of twelve samples each, classes by donor: donors differ, but not by class."""
    alarms = {True: 0, False: 0}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        donors = np.repeat(np.arange(10), 12)
        X = rng.normal(size=(10, 30))[donors] + 0.3 * rng.normal(size=(120, 30))
        y = rng.permutation(np.arange(10) % 2)[donors]
        for grouped in alarms:
            sample = make_sample(X, y, groups=donors if grouped else None)
            alarms[grouped] += permutation_test(sample).pvalue <= 0.05
    assert alarms[False] > 50
    assert alarms[True] <= 8


def test_weights_that_repeat_samples_leave_the_statistics_of_the_data_unchanged():
    rng = np.random.default_rng(0)
    X, y, weights = rng.normal(size=(40, 10)), np.arange(40) % 2, rng.integers(1, 3, 40).astype(float)
    X = X - weights @ X / weights.sum()
    target = Target.encode(y, KINDS["classification"], weights)
    squared = permutation_test(Sample.from_columns(X, target)).squared_correlations
    repeated = np.repeat(np.arange(40), weights.astype(int))
    statistic, _ = f_classif(X[repeated], y[repeated])
    assert np.argsort(squared).tolist() == np.argsort(statistic).tolist()


def test_weights_do_not_make_a_constant_outcome_of_groups_look_variable():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(20), 3)
    y = (np.arange(20) % 2)[groups]
    X = rng.normal(size=(60, 5)) + 3 * y[:, None]
    sample = make_sample(X, y, weights=rng.uniform(0.5, 2.0, 60), groups=groups)
    assert permutation_test(sample).pvalue <= 0.02
