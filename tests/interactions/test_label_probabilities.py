"""Tests of class labels given covariates, against the enumeration of all label vectors and by simulation."""

import numpy as np
import pytest
import reference
from scipy.stats import binom

from randsel import InteractionScan
from randsel._numerics.nuisance import Covariates, Nuisance
from randsel.interactions._label_probabilities import LabelProbabilities


def nuisance_of(rng, m, n_strata):
    """One numeric covariate, and strata if there are more than one."""
    covariates = Covariates(rng.standard_normal((m, 1)), ("age",), np.array([True]))
    return Nuisance.from_samples(m, None, None if n_strata == 1 else np.arange(m) % n_strata, covariates)


def labels_by_covariate(rng, nuisance, slope):
    """Labels that are more frequent where the first function of the covariate is large."""
    return (rng.random(len(nuisance.weights)) < 1 / (1 + np.exp(-slope * nuisance.basis[0]))).astype(float)


@pytest.mark.parametrize("n_strata", [1, 3])
@pytest.mark.parametrize("slope", [0.0, 2.0, 50.0])
def test_probabilities_minimise_the_penalised_loss(rng, slope, n_strata):
    """Also where the covariate separates the labels (slope 50)."""
    nuisance = nuisance_of(rng, 90, n_strata)
    labels = labels_by_covariate(rng, nuisance, slope)
    model = LabelProbabilities.from_labels(labels, nuisance)
    free, penalised = nuisance.columns[:, :n_strata], nuisance.columns[:, n_strata:]
    np.testing.assert_allclose(model.values, reference.label_probabilities(labels, free, penalised), atol=1e-4)


COLUMNS = {
    "continuous": lambda rng, m: rng.standard_normal(m),
    "heavy": lambda rng, m: rng.standard_t(3, m),
    "two levels": lambda rng, m: (np.arange(m) < m // 3).astype(float),
}


@pytest.mark.parametrize("column", COLUMNS)
def test_tail_equals_the_probability_of_label_vectors(rng, column):
    """Within a factor of 1.5 down to a tail of one in a thousand; of 2 where one value can dominate the sum."""
    m, ratios = 14, []
    for _ in range(40):
        nuisance = nuisance_of(rng, m, 1)
        x = COLUMNS[column](rng, m)
        z = (x - x.mean()) / x.std()
        labels = (rng.random(m) < 1 / (1 + np.exp(-nuisance.basis[0] - 2.0 * z))).astype(float)
        if 3 <= labels.sum() <= m - 3:
            model = LabelProbabilities.from_labels(labels, nuisance)
            exact = reference.independent_label_p_value(x, labels, model.values, nuisance.columns)
            if exact > 1e-3:
                ratios.append(np.exp(model.log_tail(x[None], labels)[0]) / exact)
    assert len(ratios) > 15
    assert np.abs(np.log(ratios)).max() < np.log(2.0 if column == "heavy" else 1.5)


@pytest.mark.parametrize("n_rare", [3, 6])
def test_rare_values_are_not_called_where_a_covariate_acts_on_the_classes(rng, n_rare):
    """Permutations of labels find p-values below .001 in .004 to .02 of such features."""
    n_tests, n_called, m = 0, 0, 109
    for _ in range(20):
        age = rng.standard_normal(m)
        y = (rng.random(m) < 1 / (1 + np.exp(1.6 - 1.5 * age))).astype(int)
        X = np.zeros((m, 100))
        for column in X.T:
            column[rng.choice(m, n_rare, replace=False)] = 1.0
        p = InteractionScan(order=1).fit(X, y, covariates=age).main_pvalues_
        n_tests, n_called = n_tests + len(p), n_called + int((p < 1e-3).sum())
    assert n_called <= binom.ppf(0.999, n_tests, 0.001)


def test_p_values_hold_where_a_covariate_follows_the_classes_within_small_groups(rng):
    """A regression of labels on the covariate and sixty groups of four would give .075 of the p-values below .05."""
    n_tests, n_called, groups = 0, 0, np.repeat(np.arange(60), 4)
    for _ in range(20):
        y = rng.permuted(np.tile([0, 0, 1, 1], (60, 1)), axis=1).ravel()
        covariate = y / y.std() + rng.normal(size=len(y))
        X = rng.normal(size=(len(y), 100)) + covariate[:, None]
        p = InteractionScan(order=1).fit(X, y, groups=groups, covariates=covariate).main_pvalues_
        n_tests, n_called = n_tests + len(p), n_called + int((p < 0.05).sum())
    assert n_called <= binom.ppf(0.999, n_tests, 0.05)
