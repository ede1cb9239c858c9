"""When computations use single precision, and when they must not."""

import warnings

import numpy as np
import pytest
from samples import standardised

from randsel import RandSel
from randsel._numerics.kernels import median_gamma
from randsel.contribution import _closed_form as cf
from randsel.contribution._sample import Sample
from randsel.targets._kinds import KINDS
from randsel.targets._target import Target


def sample_of(X, y, kind="classification"):
    return Sample.from_columns(standardised(np.asarray(X, dtype=float)), Target.encode(y, KINDS[kind]))


def in_double(sample):
    precise = sample.in_double()
    return cf.closed_form(precise, median_gamma(precise.distances))


def test_ordinary_data_use_single_precision(rng):
    sample = sample_of(rng.normal(size=(600, 800)), rng.integers(0, 2, 600))
    assert sample.precision.single_pairs
    assert sample.resolves(median_gamma(sample.distances))
    found, exact = cf.closed_form(sample, median_gamma(sample.distances)), in_double(sample)
    np.testing.assert_allclose(found.interaction, exact.interaction, atol=2e-3)
    np.testing.assert_allclose(found.main, exact.main, atol=2e-3)


def test_rows_at_equal_distances_use_double_precision(rng):
    X = rng.normal(size=(540, 590))
    X = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[0][:, :539]
    sample = sample_of(X, rng.integers(0, 2, 540))
    found = cf.closed_form(sample, median_gamma(sample.distances))
    np.testing.assert_allclose(found.interaction, in_double(sample).interaction, atol=1e-3)


@pytest.mark.slow
def test_rows_far_from_zero_use_double_precision(rng):
    X = rng.normal(size=(600, 700))
    X[:60] += 1e5
    sample = sample_of(X, rng.integers(0, 2, 600))
    assert not sample.resolves(median_gamma(sample.distances))
    path = RandSel(5, scale=True).fit(X, rng.integers(0, 2, 600)).path_
    precise = sample.in_double()
    assert path.rounds[0].gamma == pytest.approx(median_gamma(precise.distances), rel=1e-6)


def test_an_extreme_number_in_the_target_needs_double_precision(rng):
    X, y = rng.normal(size=(600, 300)), rng.normal(size=600)
    y[3] = 1e7
    sample = sample_of(X, y, "regression")
    assert not sample.precision.single_products
    y[3] = 3.0
    assert sample_of(X, y, "regression").precision.single_products


@pytest.mark.parametrize("shape", [(300, 200), (20, 500)])
def test_a_class_of_one_member_has_no_alignment(rng, shape):
    with pytest.warns(UserWarning, match="Nothing stands out"):
        path = RandSel().fit(rng.normal(size=shape), np.arange(shape[0]) == 0).path_
    assert all(r.alignment == 0.0 for r in path.rounds)


def test_a_huge_unscaled_outlier_causes_no_warning(rng):
    X = rng.normal(size=(400, 60))
    X[:, 0] = 0.0
    X[0, 0] = 1e5
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        RandSel(3, scale=False).fit(X, np.arange(400) % 2)
