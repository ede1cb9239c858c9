"""Ridge regression on the expected kernel: residuals, errors of left-out samples, contributions to residuals."""

import numpy as np
import pytest
import reference

from randsel.contribution import Draws, Sample, Weighting, exact
from randsel.contribution._expected_kernel import fit_ridge
from randsel.targets import KINDS, Target


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def make_target(rng, m, kind, *, weighted, grouped=False):
    y = {
        "two classes": lambda: np.arange(m) % 2,
        "four classes": lambda: np.arange(m) % 4,
        "numbers": lambda: rng.normal(size=m),
        "two outputs": lambda: rng.normal(size=(m, 2)),
    }[kind]()
    weights = rng.integers(1, 4, m).astype(float) if weighted else None
    groups = np.arange(m) // 3 if grouped else None
    return Target.encode(y, KINDS["classification" if "classes" in kind else "regression"], weights, groups)


def parts(target):
    """Return weights and the outcome without weights."""
    weights = np.ones(len(target.Y)) if target.weights is None else target.weights
    return weights, target.Y / weights[:, None]


@pytest.mark.parametrize("kind", ["two classes", "four classes", "numbers", "two outputs"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_duals_and_errors_are_those_of_refitted_regressions(rng, kind, weighted, grouped):
    m = 31
    X = rng.normal(size=(m, 4))
    target = make_target(rng, m, kind, weighted=weighted, grouped=grouped)
    weights, outcome = parts(target)
    Q = reference.expected_kernel(X, 0.2)
    penalty = reference.ridge_penalty(Q, 0.7, weights)
    duals, errors = fit_ridge(np.log(Q), target, 0.7)
    expected = np.stack([reference.ridge_objective(Q, y, penalty, weights)[1] for y in outcome.T], axis=1)
    np.testing.assert_allclose(duals, expected, rtol=1e-8, atol=1e-10)
    groups = np.arange(m) if target.groups is None else target.groups
    left_out = reference.left_out_errors(Q, outcome, penalty, weights, groups)
    np.testing.assert_allclose(errors, left_out / (weights @ (outcome**2).sum(axis=1) / m), rtol=1e-7)


@pytest.mark.parametrize("grouped", [False, True])
def test_errors_in_a_block_of_rows_whose_weights_have_another_mean(rng, grouped):
    rows = np.arange(0, 60, 2)
    target = make_target(rng, 60, "two outputs", weighted=True, grouped=grouped).rows(rows)
    weights, outcome = parts(target)
    assert abs(weights.mean() - 1) > 0.02
    Q = reference.expected_kernel(rng.normal(size=(30, 4)), 0.2)
    penalty = reference.ridge_penalty(Q, 0.7, weights)
    duals, errors = fit_ridge(np.log(Q), target, 0.7)
    expected = np.stack([reference.ridge_objective(Q, y, penalty, weights)[1] for y in outcome.T], axis=1)
    np.testing.assert_allclose(duals, expected, rtol=1e-8, atol=1e-10)
    centred = outcome - np.average(outcome, axis=0, weights=weights)
    left_out = reference.left_out_errors(Q, outcome, penalty, weights, rows if target.groups is None else target.groups)
    np.testing.assert_allclose(errors, left_out / (weights @ (centred**2).sum(axis=1) / 30), rtol=1e-7)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_contribution_to_the_residual_is_the_slope_of_the_ridge_objective(rng, weighted):
    """By finite differences: the kernel moves towards subsets with the feature and away from subsets without it."""
    m, gamma, ridge = 25, 0.15, 0.8
    X = rng.normal(size=(m, 3))
    target = make_target(rng, m, "numbers", weighted=weighted)
    weights, outcome = parts(target)
    Q = reference.expected_kernel(X, gamma)
    penalty = reference.ridge_penalty(Q, ridge, weights)
    contributions = exact(Sample.from_columns(X, target), gamma, Draws(), Weighting(ridge, residual=True)).total
    for i, x in enumerate(X.T):
        z = np.exp(-gamma * (x[:, None] - x[None, :]) ** 2)
        without = Q / ((1 + z) / 2)
        direction = without * z - without  # kernel with the feature less the kernel without it; zero on the diagonal
        step = 1e-5
        ahead, behind = (
            reference.ridge_objective(Q + sign * step * direction, outcome[:, 0], penalty, weights)[0]
            for sign in (1, -1)
        )
        slope = (ahead - behind) / (2 * step)
        # The objective falls at penalty times the sum over pairs; the contribution is the mean over pairs.
        assert -slope / (penalty * target.n_pairs) == pytest.approx(contributions[i], rel=1e-5)


@pytest.mark.parametrize("n", [3, 60])
@pytest.mark.parametrize("kind", ["two classes", "four classes", "numbers"])
def test_residual_contributions_equal_their_literal_definition(rng, n, kind):
    m, gamma = 40, 0.5 / n
    X = rng.normal(size=(m, n))
    target = make_target(rng, m, kind, weighted=False)
    Q = reference.expected_kernel(X, gamma)
    penalty = reference.ridge_penalty(Q, 3.0, np.ones(m))
    alpha = np.stack([reference.ridge_objective(Q, y, penalty, np.ones(m))[1] for y in target.Y.T], axis=1)
    pairs = alpha @ alpha.T * Q
    np.fill_diagonal(pairs, 0.0)
    literal = [-(pairs * 2 * np.tanh(gamma * (x[:, None] - x) ** 2 / 2)).sum() / (m * (m - 1)) for x in X.T]
    result = exact(Sample.from_columns(X, target), gamma, Draws(), Weighting(3.0, residual=True))
    np.testing.assert_allclose(result.total, literal, rtol=1e-6, atol=1e-9 * np.abs(literal).max())


@pytest.mark.parametrize("weighted", [False, True])
def test_a_second_kernel_explains_what_the_fixed_features_do(rng, weighted):
    m, gamma = 40, 0.05
    X = rng.normal(size=(m, 6))
    target = make_target(rng, m, "numbers", weighted=weighted)
    weights, outcome = parts(target)
    fixed = np.arange(6) < 2
    sample = Sample.from_columns(X, target, fixed)
    K = reference.kernel_with_fixed(X, fixed, gamma, weights)
    penalty = reference.ridge_penalty(K, 2.0, weights)
    alpha = np.stack([reference.ridge_objective(K, y, penalty, weights)[1] for y in outcome.T], axis=1)
    result = exact(sample, gamma, Draws(), Weighting(2.0, residual=True, explain_fixed=True))
    pairs = alpha @ alpha.T * reference.expected_kernel(X[:, 2:], gamma) * reference.gaussian_kernel(X[:, :2], gamma)
    np.fill_diagonal(pairs, 0.0)
    literal = [-(pairs * 2 * np.tanh(gamma * (x[:, None] - x) ** 2 / 2)).sum() / target.n_pairs for x in X.T[2:]]
    np.testing.assert_allclose(result.total[2:], literal, rtol=1e-6, atol=1e-9 * np.abs(literal).max())
    left_out = reference.left_out_errors(K, outcome, penalty, weights, np.arange(m))
    np.testing.assert_allclose(result.errors, left_out / (weights @ (outcome**2).sum(axis=1) / m), rtol=1e-7)
    plain = exact(sample, gamma, Draws(), Weighting(2.0, residual=True))
    assert result.errors.mean() != pytest.approx(plain.errors.mean(), rel=1e-3)


def test_a_second_kernel_may_be_constant_in_a_block_of_rows(rng):
    target = make_target(rng, 20, "numbers", weighted=False)
    Q = np.log(reference.expected_kernel(rng.normal(size=(20, 3)), 0.2))
    duals, errors = fit_ridge(Q, target, 1.0, np.ones((20, 20)))
    expected, left_out = fit_ridge(Q, target, 1.0)
    np.testing.assert_allclose(duals, expected, rtol=1e-6)
    np.testing.assert_allclose(errors, left_out, rtol=1e-6)


def test_a_constant_kernel_leaves_the_target(rng):
    target = make_target(rng, 20, "numbers", weighted=False)
    duals, errors = fit_ridge(np.zeros((20, 20)), target, 1.0)
    assert np.corrcoef(duals[:, 0], target.Y[:, 0])[0, 1] == pytest.approx(1.0)
    # Each sample is predicted by the mean of the others.
    assert errors.mean() == pytest.approx((20 / 19) ** 2)
