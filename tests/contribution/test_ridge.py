"""Ridge regression on the expected kernel: residuals, errors of left-out samples, contributions to residuals."""

import numpy as np
import pytest
import reference
from sklearn.model_selection import StratifiedKFold

from randsel import RandSel
from randsel._numerics.nuisance import Nuisance
from randsel._sklearn.annotations import check_covariates
from randsel.contribution import RIDGE, Draws, Sample, Weighting, _closed_form, _expected_kernel, exact
from randsel.contribution._expected_kernel import _inverse_root, fit_ridge
from randsel.targets import KINDS, Annotations, Target


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
    penalty = reference.ridge_penalty(K, RIDGE, weights)  # of the errors, whatever that of the contributions
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


# ---------------------------------------------------------------- is there a residual?


def literal_decision(Q, outcome, weights, groups):
    """3 if left-out samples are predicted clearly better than by the mean of the others, and otherwise infinite."""
    errors = reference.left_out_errors(Q, outcome, reference.ridge_penalty(Q, 3.0, weights), weights, groups)
    of_mean = np.zeros(len(outcome))
    for group in np.unique(groups):
        out = groups == group
        mean = np.average(outcome[~out], axis=0, weights=weights[~out])
        of_mean[out] = weights[out] * ((outcome[out] - mean) ** 2).sum(axis=1)
    gain = of_mean - errors
    return 3.0 if gain.mean() > 2.0 * gain.std(ddof=1) / np.sqrt(len(gain)) else np.inf


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_there_is_a_residual_if_left_out_samples_are_predicted(rng, weighted, grouped):
    decisions = set()
    for effect in (0.0, 0.3, 0.6, 0.9, 1.2, 2.0, 4.0):
        X = rng.normal(size=(40, 8))
        y = effect * X.sum(axis=1) / np.sqrt(8) + rng.normal(size=40)
        weights = rng.integers(1, 4, 40).astype(float) if weighted else None
        target = Target.encode(y, KINDS["regression"], weights, np.arange(40) // 2 if grouped else None)
        row_weights, outcome = parts(target)
        groups = np.arange(40) if target.groups is None else target.groups
        contribution = exact(Sample.from_columns(X, target), 0.05, Draws(), Weighting(None, residual=True))
        literal = literal_decision(reference.expected_kernel(X, 0.05), outcome, row_weights, groups)
        assert contribution.ridge == literal
        fixed = exact(Sample.from_columns(X, target), 0.05, Draws(), Weighting(literal, residual=True))
        np.testing.assert_array_equal(contribution.relative, fixed.relative)
        decisions.add(literal)
    assert decisions == {3.0, np.inf}


def test_the_first_round_decides_for_all_rounds(rng):
    X = rng.normal(size=(120, 60))
    strong, weak = X[:, :4].sum(axis=1), X[:, 0] + 2.0 * rng.normal(size=120)
    assert {r.ridge for r in RandSel(2).fit(X, strong).path_.rounds} == {3.0}
    assert {r.ridge for r in RandSel(2).fit(X, weak).path_.rounds} == {np.inf}
    assert {r.ridge for r in RandSel(2, ridge=7.0).fit(X, weak).path_.rounds} == {7.0}
    assert {r.ridge for r in RandSel(2, criterion="total").fit(X, strong).path_.rounds} == {np.inf}


@pytest.mark.parametrize("size", [2, 3, 6, 10])
def test_noise_in_small_batches_is_not_predicted(rng, size):
    """After subtraction of the mean of a batch, its other samples would predict one: of two, each mirrors the other."""
    errors = []
    for _ in range(5):
        X, y = rng.normal(size=(120, 200)), rng.normal(size=120)
        errors.append(RandSel().fit(X, y, batch=np.arange(120) // size).path_.errors[0])
    assert np.mean(errors) > 0.97


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_coefficients_of_covariates_and_batches_are_fitted_without_the_samples_left_out(rng, weighted, grouped):
    m = 40
    batch, covariates = np.arange(m) % 2, check_covariates(rng.normal(size=(m, 2)), m)
    weights = rng.uniform(0.5, 2.0, m) if weighted else None
    nuisance = Nuisance.from_samples(m, weights, batch, covariates)
    groups = np.arange(m) // 2 if grouped else None
    target = Target.encode(rng.normal(size=m), KINDS["regression"], weights, groups, nuisance)
    row_weights, outcome = parts(target)
    Q = reference.expected_kernel(rng.normal(size=(m, 4)), 0.2)
    errors = fit_ridge(np.log(Q), target, 0.7)[1]
    penalty = reference.ridge_penalty(Q, 0.7, row_weights)
    units, y = np.arange(m) if groups is None else groups, outcome[:, 0]
    literal = reference.left_out_errors_given(nuisance.columns, Q, y, penalty, row_weights, units)
    np.testing.assert_allclose(errors, literal / (row_weights @ y**2 / m), rtol=1e-6)


def test_noise_given_covariates_is_not_predicted():
    m, donors = 60, np.array([f"donor {k // 3}" for k in range(60)])
    designs = {
        "donors as a covariate": lambda rng: {"covariates": donors},
        "many covariates": lambda rng: {"covariates": rng.normal(size=(m, 20))},
        "small batches and covariates": lambda rng: {"covariates": rng.normal(size=(m, 5)), "batch": np.arange(m) // 3},
        "groups and batches": lambda rng: {"groups": np.arange(m) // 2, "batch": np.arange(m) // 10},
    }
    for name, arguments in designs.items():
        errors = []
        for seed in range(12):
            rng = np.random.default_rng(seed)
            X, y = rng.normal(size=(m, 60)), rng.normal(size=m)
            errors.append(RandSel().fit(X, y, **arguments(rng)).path_.errors[0])
        assert np.mean(errors) > 0.97, name


def test_a_sample_with_a_coefficient_of_its_own_has_no_error(rng):
    batch = np.r_[np.zeros(39, dtype=int), 1]
    target = Target.encode(rng.normal(size=40), KINDS["regression"], None, None, Nuisance.from_samples(40, None, batch))
    errors = fit_ridge(np.log(reference.expected_kernel(rng.normal(size=(40, 4)), 0.2)), target, 3.0)[1]
    assert errors[-1] == 0.0
    assert np.isfinite(errors).all()


def test_samples_left_out_together_are_groups_or_else_small_batches():
    groups, pairs, plates = np.arange(40) // 4, np.arange(40) // 2, np.arange(40) // 20
    assert Annotations().units is None
    assert Annotations(batch=plates).units is None
    np.testing.assert_array_equal(Annotations(batch=pairs).units, pairs)
    np.testing.assert_array_equal(Annotations(groups, pairs).units, groups)


def test_without_a_residual_the_scores_are_calibrated(rng):
    X = rng.normal(size=(120, 60))
    weak = X[:, 0] + 2.0 * rng.normal(size=120)
    assert list(RandSel().fit(X, weak).order_) == list(RandSel(criterion="calibrated").fit(X, weak).order_)
    residual, total = (RandSel(criterion=name).fit(X, weak).order_ for name in ("residual", "total"))
    assert list(residual) == list(total)


def test_the_first_block_of_rows_decides(rng, monkeypatch):
    monkeypatch.setattr(_closed_form, "MAX_ROWS", 80)
    X = rng.normal(size=(160, 30))
    noise = rng.normal(size=160)
    for effect in (0.0, 0.25, 0.5, 2.0):
        y = effect * X[:, :3].sum(axis=1) + noise
        target = Target.encode(y, KINDS["regression"])
        sample, draws, weighting = Sample.from_columns(X, target), Draws(seed=0), Weighting(None, residual=True)
        (first, *_) = _closed_form.row_blocks(target, draws)
        decided = exact(sample.take_rows(first), 0.02, draws, weighting).ridge
        assert exact(sample, 0.02, draws, weighting).ridge == decided


@pytest.mark.slow
def test_weak_effects_of_independent_features_are_found():
    """With penalty 3 throughout, the residual hides them."""
    recall = {"auto": [], 3.0: [], "correlation": []}
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(300, 1000))
        y = 0.3 * X[:, :5].sum(axis=1) + rng.normal(size=300) > 0
        for ridge in ("auto", 3.0):
            recall[ridge].append(np.mean(RandSel(5, ridge=ridge).fit(X, y).order_[:5] < 5))
        correlations = np.abs((X - X.mean(axis=0)).T @ (y - y.mean())) / X.std(axis=0)
        recall["correlation"].append(np.mean(np.argsort(-correlations)[:5] < 5))
    recall = {name: np.mean(values) for name, values in recall.items()}
    assert recall["correlation"] > 0.5
    assert recall["auto"] > 0.8 * recall["correlation"]
    assert recall["auto"] > 1.4 * recall[3.0]


# ---------------------------------------------------------------- kernels with negative eigenvalues


def test_the_inverse_root_of_an_indefinite_matrix_has_raised_eigenvalues(rng):
    vectors = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    root = _inverse_root(vectors @ np.diag([4.0, 2.0, 1.0, 0.5, 0.1, -0.3]) @ vectors.T, 0.2)
    expected = vectors @ np.diag(1 / np.array([4.0, 2.0, 1.0, 0.5, 0.2, 0.2])) @ vectors.T
    np.testing.assert_allclose(root.T @ root, expected, rtol=1e-10, atol=1e-12)


def test_a_kernel_of_a_series_that_is_far_off_gives_finite_duals(rng):
    target = make_target(rng, 30, "numbers", weighted=False)
    log_expected = np.full((30, 30), -4.0)
    log_expected[0, 1] = log_expected[1, 0] = log_expected[0, 2] = log_expected[2, 0] = 7.0
    duals, errors = fit_ridge(log_expected, target, 0.1)
    assert np.isfinite(duals).all()
    assert np.isfinite(errors).all()
    assert errors.min() > 0


@pytest.mark.slow
def test_a_series_that_is_far_off_at_first_is_improved(benchmark_set, monkeypatch):
    """The kernel of the first attempt is indefinite; the selection equals that of the element-wise route."""
    data = benchmark_set("prostate_ge")
    rows = next(StratifiedKFold(shuffle=True, random_state=0).split(data["X"], data["y"]))[0]
    X, y = data["X"][rows], data["y"][rows]
    least_eigenvalues = []

    def watch(matrix, least):
        least_eigenvalues.append(np.linalg.eigvalsh(matrix)[0])
        return _inverse_root(matrix, least)

    monkeypatch.setattr(_expected_kernel, "_inverse_root", watch)
    first = RandSel(5, gamma="16*median").fit(X, y)
    assert min(least_eigenvalues) < 0
    monkeypatch.setattr(_closed_form, "FEW", 10**6)
    assert list(RandSel(5, gamma="16*median").fit(X, y).order_[:50]) == list(first.order_[:50])
