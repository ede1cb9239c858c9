import numpy as np
import pytest
import reference
from scipy.stats import beta, chi2, norm, t

from randsel._numerics.rank_functions import (
    combine_log_p,
    cumulants,
    log_tail_of_form,
    log_tail_of_kurtosis,
    log_tail_of_moments,
)


@pytest.mark.parametrize(("k", "d"), [(1, 50), (3, 50), (16, 200), (36, 150)])
def test_equal_weights_have_a_beta_distribution(k, d):
    q = np.array([0.3, 0.8, 1.0, 1.5, 3.0, 5.0]) * k
    q = np.append(q[q < 0.9 * d], 0.95 * d)
    exact = beta.logsf(q / d, k / 2, (d - k) / 2)
    assert np.allclose(log_tail_of_form(q, np.ones((len(q), k)), d), exact, atol=0.1)
    assert np.allclose(log_tail_of_form(3 * q, 3 * np.ones((len(q), k)), d), exact, atol=0.1)


def test_many_dimensions_have_chi_squared_tails():
    q = np.array([5.0, 20.0, 80.0])
    assert np.allclose(log_tail_of_form(q, np.ones((3, 4)), 1e9), chi2.logsf(q, 4), atol=0.05)


def test_unequal_weights_against_simulation(rng):
    weights = np.outer(0.9 ** np.arange(4), 0.8 ** np.arange(4)).ravel()
    d = 60
    z = rng.standard_normal((200_000, d))
    z *= np.sqrt(d / np.square(z).sum(axis=1))[:, None]
    forms = np.square(z[:, :16]) @ weights
    for tail in (0.5, 0.1, 0.01, 0.001):
        q = np.quantile(forms, 1 - tail)
        # five standard errors of the simulation, and a twentieth for the approximation
        tolerance = 5 / np.sqrt(200_000 * tail) + 0.06
        assert abs(log_tail_of_form(np.array([q]), weights[None], d)[0] - np.log(tail)) < tolerance


def test_constant_forms_and_forms_at_their_maximum():
    assert log_tail_of_form(np.array([0.0, 3.0]), np.array([[1.0, 1.0], [0.0, 0.0]]), 20.0).tolist() == [0.0, 0.0]
    at_most = log_tail_of_form(np.array([20.0, 25.0]), np.array([[1.0, 0.5], [1.0, 0.5]]), 20.0)
    assert np.all(np.isfinite(at_most))
    assert np.all(at_most < -100)


def test_far_tails_do_not_underflow():
    far = log_tail_of_moments(np.array([2000.0, 3000.0]), *cumulants(np.ones((2, 10))))
    assert np.allclose(far, [-1000 + 4 * np.log(1000) - np.log(24), -1500 + 4 * np.log(1500) - np.log(24)], atol=0.05)
    single = log_tail_of_form(np.array([3000.0, 3500.0]), np.ones((2, 1)), 4000.0)
    assert np.all(np.isfinite(single))
    assert single[1] < single[0] < -2000


def test_tail_is_finite_with_more_weights_than_dimensions():
    assert np.all(np.isfinite(log_tail_of_form(np.array([1.0, 5.0]), np.ones((2, 8)), 2.0)))


def test_moments_of_chi_squared_variables():
    q = np.array([3.0, 10.0, 30.0])
    assert np.allclose(log_tail_of_moments(q, *cumulants(np.ones((3, 5)))), chi2.logsf(q, 5))


def test_symmetric_tails_of_a_kurtosis():
    """Uniform, normal and Student's distribution, of variance one, and a coordinate on a sphere."""
    z = np.array([0.2, 0.5, 1.0, 1.5, 1.7])
    assert np.allclose(log_tail_of_kurtosis(z**2, -1.2), np.log(1 - z / np.sqrt(3)), atol=1e-6)
    z = np.array([0.2, 1.0, 3.0, 8.0, 30.0])
    assert np.allclose(log_tail_of_kurtosis(z**2, 0.0), np.log(2) + norm.logsf(z), rtol=1e-6)
    for freedom in (5.0, 12.0):
        tail = np.log(2) + t.logsf(z * np.sqrt(freedom / (freedom - 2)), freedom)
        assert np.allclose(log_tail_of_kurtosis(z**2, 6 / (freedom - 4)), tail, rtol=1e-6)
    for d in (3.0, 20.0):  # a coordinate z of a sphere of radius √d has z²/d of a beta distribution
        q = np.array([0.1, 0.5, 0.9]) * d
        assert np.allclose(log_tail_of_kurtosis(q, -6 / (d + 2)), beta.logsf(q / d, 0.5, (d - 1) / 2), rtol=1e-5)


def test_tails_of_a_kurtosis_are_finite_beyond_the_largest_value_and_continuous_at_zero():
    assert log_tail_of_kurtosis(1.0, -2.0) == pytest.approx(0.0, abs=1e-6)  # two values, +1 and -1
    beyond = log_tail_of_kurtosis(np.array([3.0, 10.0, 1e6]), np.array([-1.2, -1.0, -0.01]))
    assert np.all(np.isfinite(beyond))
    assert np.all(beyond < -10)
    around = log_tail_of_kurtosis(np.full(3, 9.0), np.array([-1e-5, 0.0, 1e-5]))
    assert np.allclose(around, around[1], atol=1e-4)


def test_combination_equals_the_plain_formula(rng):
    p, shares = rng.random((3, 50)) ** 3, np.array([0.7, 0.15, 0.15])
    expected = [np.log(reference.cauchy_combination(column, shares)) for column in p.T]
    assert np.allclose(combine_log_p(np.log(p), shares), expected, rtol=1e-6)


def test_equal_p_values_combine_to_the_same_and_extreme_ones_to_the_weighted_mean_of_their_inverses():
    log_p = np.array([np.log(0.9), np.log(0.3), -5.0, -19.9, -20.1, -50.0, -1000.0])
    assert np.allclose(combine_log_p(np.tile(log_p, (3, 1)), np.array([0.7, 0.15, 0.15])), log_p, rtol=1e-5)
    mixed = combine_log_p(np.array([[-800.0], [-2.0], [0.0]]), np.array([0.7, 0.15, 0.15]))
    assert mixed[0] == pytest.approx(-800.0 - np.log(0.7))
    # a p-value of 1 does not hide a small one
    assert combine_log_p(np.array([[0.0], [-12.0]]), np.array([0.7, 0.3]))[0] == pytest.approx(
        -12 - np.log(0.3), abs=0.01
    )
    near = combine_log_p(np.array([[-19.99, -20.01], [-3.0, -3.0]]), np.array([0.5, 0.5]))
    assert near[0] - near[1] == pytest.approx(0.02, abs=1e-3)


def test_combined_p_values_of_dependent_tests_are_valid(rng):
    """The mean and the maximum of correlated scores: 1000 of 20000 below 0.05, with a standard error of 31."""
    z = rng.standard_normal((20_000, 3)) + 1.5 * rng.standard_normal((20_000, 1))
    p = combine_log_p(norm.logsf(z / np.sqrt(1 + 1.5**2)).T, np.array([0.7, 0.15, 0.15]))
    assert np.sum(p <= np.log(0.05)) <= 1150
