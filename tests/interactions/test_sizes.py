"""Sizes of tests on noise, for designs in which p-values could be too small."""

import numpy as np
import pytest
from scipy.stats import binom

from randsel import InteractionScan

N_SAMPLES, N_FEATURES, N_TABLES = 60, 40, 25


def pvalues_of_noise(make_outcome, n_tables=N_TABLES):
    """Return the p-values of all features of tables of noise; `make_outcome` returns y and arguments of `fit`."""
    pvalues = []
    for seed in range(n_tables):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(N_SAMPLES, N_FEATURES))
        y, arguments = make_outcome(rng)
        pvalues.append(InteractionScan(order=1).fit(X, y, **arguments).pvalues_)
    return np.concatenate(pvalues)


def assert_size(pvalues):
    """Fail if more p-values are small than in 999 of 1000 samples of uniform ones."""
    for level in (0.05, 0.001):
        assert (pvalues <= level).sum() <= binom.ppf(0.999, len(pvalues), level)


@pytest.mark.parametrize("sizes", [(54, 6), (45, 15), (42, 12, 6)])
def test_weights_that_balance_classes(sizes):
    def balanced(rng):
        y = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
        return y, {"sample_weight": len(y) / np.bincount(y)[y]}

    assert_size(pvalues_of_noise(balanced))


def test_weights_that_grow_with_a_number():
    def weighted(rng):
        y = rng.normal(size=N_SAMPLES)
        return y, {"sample_weight": np.where(y > 1.5, 20.0, 1.0)}

    assert_size(pvalues_of_noise(weighted))


def test_balanced_classes_keep_the_power_of_labels(rng):
    y = rng.permutation(np.repeat([0, 1], [54, 6]))
    X = rng.normal(size=(N_SAMPLES, 5))
    X[:, 0] += 3.0 * y
    weights = len(y) / np.bincount(y)[y]
    assert InteractionScan(order=1).fit(X, y, sample_weight=weights).pvalues_[0] < 5e-4


@pytest.mark.parametrize("n_covariates", [12, 20])
def test_many_covariates_of_few_samples(n_covariates):
    def with_covariates(rng):
        return rng.permutation(np.arange(N_SAMPLES) % 2), {"covariates": rng.normal(size=(N_SAMPLES, n_covariates))}

    assert_size(pvalues_of_noise(with_covariates))


def test_donors_as_a_covariate():
    donors = np.array([f"donor {k // 3}" for k in range(N_SAMPLES)])

    def with_donors(rng):
        return rng.permutation(np.arange(N_SAMPLES) % 2), {"covariates": donors}

    assert_size(pvalues_of_noise(with_donors))
