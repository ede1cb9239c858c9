import numpy as np
import pytest
from scipy.stats import beta, chi2, norm

from randsel._numerics.rank_functions import cumulants, log_tail_of_form, log_tail_of_moments, log_tail_of_score


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


def test_moments_and_scores():
    q = np.array([3.0, 10.0, 30.0])
    assert np.allclose(log_tail_of_moments(q, *cumulants(np.ones((3, 5)))), chi2.logsf(q, 5))
    s = np.array([-1.0, 0.0, 2.0, 6.0])
    assert np.allclose(log_tail_of_score(s, 0.0), norm.logsf(s), atol=1e-3)
    assert np.allclose(log_tail_of_score(s, np.sqrt(8.0)), chi2.logsf(np.maximum(1 + s * np.sqrt(2), 0), 1))
