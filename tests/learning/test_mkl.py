import pickle

import numpy as np
import pytest
import reference
from scipy.optimize import linprog, minimize
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from randsel import LPBoostMKL, PathKernels, RandSel, SparseFiltering, datasets
from randsel.learning import _lpboost as lpboost
from randsel.learning._lpboost import boost


def labels(y):
    return np.where(y == y.max(), 1.0, -1.0)


@pytest.fixture
def xor():
    return datasets.make_xor(80, 8, random_state=0)


@pytest.fixture
def kernels(xor):
    X = xor[0]
    return np.array([rbf_kernel(X[:, at]) for at in ([0, 1], [2, 3], [4, 5, 6, 7])])


def test_margin_equals_the_optimum_of_the_convex_problem(xor, kernels):
    """The dual over all functions of all kernels is to minimise the largest edge over the weights."""
    y, nu, m = labels(xor[1]), 0.3, 80
    found = boost(kernels, y, nu, 1e-7, 2000)
    signed = kernels * np.outer(y, y)

    def variables(v):
        return v[:m], v[m]

    best = minimize(
        lambda v: v[m],
        np.append(found.sample_weights, found.margin),
        jac=lambda _: np.append(np.zeros(m), 1.0),
        method="SLSQP",
        bounds=[*[(0, 1 / (nu * m))] * m, (0, None)],
        constraints=[
            {"type": "eq", "fun": lambda v: v[:m].sum() - 1},
            *[{"type": "ineq", "fun": lambda v, K=K: v[m] ** 2 - v[:m] @ K @ v[:m]} for K in signed],
        ],
        options={"maxiter": 300, "ftol": 1e-12},
    )
    weights, value = variables(best.x)
    assert weights.sum() == pytest.approx(1)
    assert found.margin == pytest.approx(value, abs=1e-6)
    assert found.gap < 1e-6


def test_margin_equals_that_of_the_primal_problem(xor, kernels):
    """With the learners found as columns, the primal linear program has the same value, and the same soft margin."""
    y, nu, m = labels(xor[1]), 0.3, 80
    found = boost(kernels, y, nu, 1e-6, 2000)
    f = np.einsum("ki,kij->kj", found.coefficients, kernels)
    used = found.kernel_weights > 1e-12
    columns = f[used] / found.kernel_weights[used, None]  # one learner per kernel, the mean of its own
    t = len(columns)
    cost = np.concatenate([np.zeros(t), [-1.0], np.full(m, 1 / (nu * m))])
    upper = np.hstack([-(y * columns).T, np.ones((m, 1)), -np.eye(m)])
    primal = linprog(
        cost,
        A_ub=upper,
        b_ub=np.zeros(m),
        A_eq=np.concatenate([np.ones(t), np.zeros(m + 1)])[None],
        b_eq=[1.0],
        bounds=[*[(0, None)] * t, (None, None), *[(0, None)] * m],
    )
    assert -primal.fun == pytest.approx(found.margin, abs=1e-5)


def test_solution_satisfies_the_karush_kuhn_tucker_conditions(xor, kernels):
    y, nu, m = labels(xor[1]), 0.3, 80
    found = boost(kernels, y, nu, 1e-6, 2000)
    u = found.sample_weights
    assert u.sum() == pytest.approx(1)
    assert u.min() >= 0
    assert u.max() <= 1 / (nu * m) + 1e-12
    assert found.kernel_weights.sum() == pytest.approx(1)
    edges = np.sqrt([(y * u) @ K @ (y * u) for K in kernels])
    assert edges.max() <= found.margin + 1e-5
    # only kernels whose edge is the largest carry weight
    assert np.all(found.kernel_weights[edges < found.margin - 1e-3] < 1e-6)
    values = y * np.einsum("ki,kij->j", found.coefficients, kernels)
    # samples strictly between 0 and the bound lie on the margin
    between = (u > 1e-4 / m) & (u < (1 - 1e-4) / (nu * m))
    rho = np.median(values[between])
    assert np.all(values[u <= 1e-9 / m] >= rho - 1e-3)
    assert np.mean(values < rho - 1e-3) <= nu + 1 / m


def test_informative_kernel_gets_the_largest_weight(xor, kernels):
    model = LPBoostMKL("precomputed").fit(kernels, xor[1])
    assert model.kernel_weights_.shape == (1, 3)
    assert model.kernel_weights_[0].argmax() == 0
    assert model.kernel_weights_[0, 0] > 0.6
    assert model.score(kernels, xor[1]) > 0.9
    assert model.gap_[0] <= 1e-3
    assert model.n_iter_[0] > 0


def test_kernels_by_columns_equal_precomputed_ones(xor):
    X, y, _ = xor
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    new = datasets.make_xor(30, 8, random_state=1)[0]
    Z_new = (new - X.mean(axis=0)) / X.std(axis=0)
    named = [([0, 1], 0.5), (np.arange(8) > 5, 1.0), (None, 0.1)]
    model = LPBoostMKL(named).fit(X, y)
    columns = [[0, 1], [6, 7], list(range(8))]
    stack, stack_new = (
        np.array([rbf_kernel(A[:, at], Z[:, at], gamma=g) for at, g in zip(columns, (0.5, 1.0, 0.1), strict=True)])
        for A in (Z, Z_new)
    )
    other = LPBoostMKL("precomputed").fit(stack, y)
    np.testing.assert_allclose(model.decision_function(new), other.decision_function(stack_new), atol=1e-6)
    assert list(model.predict(new)) == list(other.predict(stack_new))


def test_several_classes_and_probabilities():
    X, y = load_digits(n_class=4, return_X_y=True)
    X, y = X[:240], np.array(["zero", "one", "two", "three"])[y[:240]]
    model = LPBoostMKL(probability=True, tol=1e-2).fit(X[:160], y[:160])
    assert model.decision_function(X[160:]).shape == (80, 4)
    assert model.kernel_weights_.shape == (4, 3)
    assert model.score(X[160:], y[160:]) > 0.8
    probabilities = model.predict_proba(X[160:])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert np.mean(model.classes_[probabilities.argmax(axis=1)] == y[160:]) > 0.8
    assert not hasattr(LPBoostMKL(), "predict_proba")


@pytest.mark.filterwarnings("ignore:Sparse filtering did not converge")
def test_pipeline_of_the_paper_is_cross_validated_and_pickled():
    X, y = load_digits(n_class=3, return_X_y=True)
    X, y = X[:150], y[:150]
    model = make_pipeline(
        SparseFiltering(20, max_iter=60, tol=1e-4, random_state=0),
        # z-scores: normal scores of sparse features lower the accuracy
        PathKernels(RandSel(2, criterion="calibrated", scale=True, min_features=2), max_kernels=5),
        LPBoostMKL("precomputed", tol=1e-2),
    )
    assert cross_val_score(model, X, y, cv=3).mean() > 0.85
    model.fit(X[:100], y[:100])
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X[100:]), model.predict(X[100:]))
    specs = model.named_steps["pathkernels"].kernels_
    assert len(specs) == 5
    assert len(specs[0][0]) == 20
    assert len(specs[-1][0]) == 2


def test_path_kernels_use_features_and_bandwidth_of_the_rounds(xor):
    X, y, _ = xor
    fitted = PathKernels(RandSel(2, scale=True)).fit(X, y)
    stack = fitted.transform(X[:5])
    rounds = fitted.selector_.path_.rounds
    assert stack.shape == (len(rounds), 5, 80)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    for kernel, r in zip(stack, rounds, strict=True):
        np.testing.assert_allclose(kernel, rbf_kernel(Z[:5][:, r.features], Z[:, r.features], gamma=r.gamma))


def test_path_kernels_scale_new_samples_as_the_selector_scales_columns(xor):
    X, y, _ = xor
    fitted = PathKernels(RandSel(2, scale="normal")).fit(X, y)
    Z, stack = reference.rank_scores(X), fitted.transform(X[:5])
    for kernel, r in zip(stack, fitted.selector_.path_.rounds, strict=True):
        np.testing.assert_allclose(kernel, rbf_kernel(Z[:5][:, r.features], Z[:, r.features], gamma=r.gamma))
    # The features have no ties, and an increasing transform of training and new samples changes nothing.
    transformed = PathKernels(RandSel(2, scale="normal")).fit(np.exp(X), y)
    np.testing.assert_array_equal(transformed.transform(np.exp(X[:5])), stack)


def test_warning_without_convergence(xor, kernels):
    with pytest.warns(ConvergenceWarning, match="did not converge in 1 linear programs"):
        LPBoostMKL("precomputed", max_iter=1, tol=1e-9).fit(kernels, xor[1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda K: K[:, :, :-1], "not square"),
        (lambda K: K[:, :-1, :-1], "not square over the 80 samples"),
        (lambda K: K[0], r"need the shape \(kernels, samples, samples\)"),
        (lambda K: K[:0], "no kernels"),
        (lambda _: [], "no kernels"),
        (lambda K: [K[0], K[1][:70, :70]], r"Kernel 1 is of shape \(70, 70\) and kernel 0 of shape \(80, 80\)"),
        (lambda K: K + np.triu(np.ones((80, 80)), 1), "not symmetric"),
        (lambda K: K - 2 * np.eye(80), "indefinite: its eigenvalues go from"),
        (lambda K: np.where(np.eye(80) > 0, np.nan, K), "Kernel 0 holds NaN or infinity in 80 places"),
        (lambda K: np.concatenate([K, np.zeros((1, 80, 80))]), "Kernel 3 is zero"),
    ],
)
def test_invalid_kernels_are_refused(xor, kernels, change, message):
    with pytest.raises(ValueError, match=message):
        LPBoostMKL("precomputed").fit(change(kernels), xor[1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nu": 0.0}, r"range \(0.0, 1.0\]"),
        ({"nu": 1.5}, r"range \(0.0, 1.0\]"),
        ({"kernels": []}, "empty list"),
        ({"kernels": [([0, 99], 1.0)]}, "n_features=8"),
        ({"kernels": [([], 1.0)]}, "names columns"),
        ({"kernels": [[0, 1, 2]]}, r"not a pair \(columns, gamma\)"),
        ({"kernels": [(None, "wide")]}, "neither a positive number nor 'median'"),
    ],
)
def test_settings_out_of_range(xor, options, message):
    with pytest.raises(ValueError, match=message):
        LPBoostMKL(**options).fit(*xor[:2])


def test_every_nu_up_to_one_is_feasible(xor, kernels):
    """Weights below 1/(nu·m) can sum to one for every nu in (0, 1]: no value in the range is infeasible."""
    y = labels(xor[1])
    hard, soft = boost(kernels, y, 1e-6, 1e-4, 500), boost(kernels, y, 1.0, 1e-4, 500)
    np.testing.assert_allclose(soft.sample_weights, 1 / 80)
    assert 0 < hard.margin < soft.margin


def test_dropping_unused_learners_does_not_change_the_optimum(xor, monkeypatch):
    """Kernels close to the identity need many learners; without dropping any, the margin is the same."""
    K = np.array([rbf_kernel(xor[0][:, at], gamma=4.0) for at in ([0, 1], [2, 3], [4, 5])])
    y = labels(xor[1])
    found = boost(K, y, 0.05, 1e-6, 1000)
    assert found.n_iter > 2 * lpboost.PATIENCE
    monkeypatch.setattr(lpboost, "PATIENCE", 10_000)
    kept = boost(K, y, 0.05, 1e-6, 1000)
    assert found.converged
    assert found.margin == pytest.approx(kept.margin, abs=2e-6)
    f = np.einsum("ki,kij->j", found.coefficients, K)
    slack = np.maximum(0, np.sort(y * f)[4] - y * f)  # the margin of the primal is at the νm-th smallest value
    assert np.sort(y * f)[4] - slack.sum() / (0.05 * 80) == pytest.approx(found.margin, abs=1e-5)


def test_other_bad_input(xor, kernels):
    X, y, _ = xor
    with pytest.raises(ValueError, match="one class only"):
        LPBoostMKL().fit(X, np.zeros(80))
    model = LPBoostMKL("precomputed").fit(kernels, y)
    with pytest.raises(ValueError, match=r"need the shape \(3, new samples, 80\)"):
        model.predict(kernels[:2])
    with pytest.raises(ValueError, match="to predict hold NaN or infinity in 3 places"):
        model.predict(np.where(np.arange(80) > 0, kernels[:, :1], np.nan))
    X[:, 3] = 1.0
    with pytest.raises(ValueError, match="only constant columns"):
        LPBoostMKL([([3], 1.0)]).fit(X, y)
