"""The baselines against literal twins, scikit-learn, and what the paper says of them."""

import ast
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.feature_selection import RFE, f_classif, f_regression
from sklearn.svm import SVC, SVR
from sklearn.utils.estimator_checks import parametrize_with_checks

from randsel import (
    BaHSIC,
    CorrelationFilter,
    FoHSIC,
    ForestImportance,
    FTest,
    KernelRFE,
    StabilitySelection,
    datasets,
)
from randsel import baselines as methods
from randsel._numerics.columns import canonical_order
from randsel.targets import Target
from randsel.targets._kinds import NUMBERS

STABLE = StabilitySelection(n_subsamples=10, random_state=0)
FOREST = ForestImportance(n_estimators=20, random_state=0)
ALL = [BaHSIC(), FoHSIC(), KernelRFE(), CorrelationFilter(), STABLE, FTest(), FOREST]
every = pytest.mark.parametrize("selector", ALL, ids=lambda selector: type(selector).__name__)
unstable = pytest.mark.filterwarnings("ignore:No feature reaches the probability")


def again(selector, wanted=None, **options):
    """Return a fresh copy that selects `wanted` features."""
    return type(selector)(**{**selector.get_params(), "n_features_to_select": wanted, **options})


def standardised(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


def targets(rng, X):
    signal = X[:, 0] + np.abs(X[:, 1])
    return {
        "binary": np.where(signal > 0.4, "b", "a"),
        "multi-class": np.digitize(signal, [0.0, 0.9]),
        "regression": signal,
        "outputs": np.column_stack([signal, X[:, 2] ** 2]),
    }


KINDS = ["binary", "multi-class", "regression", "outputs"]


@pytest.fixture
def data(rng):
    X = rng.normal(size=(24, 6))
    return X, targets(rng, X)


# ---------------------------------------------------------------- literal twins


def literal_distances(X):
    return ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2)


def literal_gamma(D):
    return 1 / np.median([D[p, q] for p in range(len(D)) for q in range(p)])


def literal_labels(y):
    """±1/n± for two classes, one-hot over n_c for more, standardised numbers."""
    if y.dtype.kind == "f":
        return standardised(y.reshape(len(y), -1))
    classes = sorted(set(y.tolist()))
    onehot = np.array([[float(value == c) / (y == c).sum() for c in classes] for value in y])
    return onehot[:, [1]] - onehot[:, [0]] if len(classes) == 2 else onehot


def literal_hsic(K, L):
    """Song et al., equation 5."""
    m = len(K)
    K, L, one = K - np.diag(np.diag(K)), L - np.diag(np.diag(L)), np.ones(m)
    middle = one @ K @ one * (one @ L @ one) / ((m - 1) * (m - 2)) - 2 / (m - 2) * (one @ K @ L @ one)
    return (np.trace(K @ L) + middle) / (m * (m - 3))


def literal_bahsic(Z, L, drop):
    left, removed, values = list(range(Z.shape[1])), [], {}
    while left:
        gamma = literal_gamma(literal_distances(Z[:, left]))
        for j in left:
            rest = [i for i in left if i != j]
            values[j] = literal_hsic(np.exp(-gamma * literal_distances(Z[:, rest])), L)
        count = max(1, int(drop * len(left)))
        worst = sorted(left, key=lambda j: -values[j])[:count]
        removed += worst
        left = [j for j in left if j not in worst]
    return removed[::-1], values


def literal_fohsic(Z, L, wanted, add):
    chosen, left, values = [], list(range(Z.shape[1])), {}
    while left:
        mean = np.mean([literal_distances(Z[:, [j]]) for j in left], axis=0)
        gamma = literal_gamma(literal_distances(Z[:, chosen]) + mean)
        for j in left:
            values[j] = literal_hsic(np.exp(-gamma * literal_distances(Z[:, [*chosen, j]])), L)
        missing = wanted - len(chosen)
        count = min(max(1, int(add * len(left))), max(1, missing // 4)) if missing > 0 else len(left)
        best = sorted(left, key=lambda j: -values[j])[:count]
        chosen += best
        left = [j for j in left if j not in best]
    return chosen, values


def literal_machines(K, y):
    """Signed α of machines fitted one by one on the samples of two classes, or on one output."""
    if y.dtype.kind == "f":
        fits = [(SVR(kernel="precomputed").fit(K, c), np.arange(len(K))) for c in literal_labels(y).T]
    else:
        classes = sorted(set(y.tolist()))
        both = [np.flatnonzero((y == a) | (y == b)) for a in classes for b in classes if a < b]
        fits = [(SVC(kernel="precomputed").fit(K[np.ix_(rows, rows)], y[rows]), rows) for rows in both]
    for machine, rows in fits:
        alpha = np.zeros(len(K))
        alpha[rows[machine.support_]] = machine.dual_coef_[0]
        yield alpha


def literal_change(Z, y, j):
    """W² - W²₍₋ⱼ₎ with the α of the kernel on all features."""
    D = literal_distances(Z)
    gamma = literal_gamma(D)
    K, without = np.exp(-gamma * D), np.exp(-gamma * literal_distances(np.delete(Z, j, axis=1)))
    return sum(alpha @ K @ alpha - alpha @ without @ alpha for alpha in literal_machines(K, y))


# ---------------------------------------------------------------- against the twins and scikit-learn


def path_order(selector, X, y):
    """Return all features best first, from a full ranking."""
    return list(np.argsort(again(selector, 1).fit(X, y).ranking_, kind="stable"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("drop", [None, 0.4])
def test_bahsic_is_brute_force(data, kind, drop):
    X, y = data[0], data[1][kind]
    Y = literal_labels(y)
    order, values = literal_bahsic(standardised(X), Y @ Y.T, drop or 0.0)
    selector = BaHSIC(1, drop=drop).fit(X, y)
    assert path_order(selector, X, y) == order
    np.testing.assert_allclose(selector.hsic_, [values[j] for j in range(6)], rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("wanted", "add"), [(1, None), (4, None), (6, 0.4), (3, 0.4), (5, 0.9)])
def test_fohsic_is_brute_force(data, kind, wanted, add):
    X, y = data[0], data[1][kind]
    Y = literal_labels(y)
    order, values = literal_fohsic(standardised(X), Y @ Y.T, wanted, add or 0.0)
    selector = FoHSIC(wanted, add=add).fit(X, y)
    assert set(selector.get_support(indices=True)) == set(order[:wanted])
    assert list(np.argsort(selector.ranking_)[wanted:]) == order[wanted:]
    np.testing.assert_allclose(selector.hsic_, [values[j] for j in range(6)], rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("absolute", [False, True])
def test_kernel_rfe_is_brute_force(data, kind, absolute):
    X, y = data[0], data[1][kind]
    Z, left, order = standardised(X), list(range(6)), []
    selector = KernelRFE(1, drop=None, absolute=absolute).fit(X, y)
    while left:
        changes = np.array([literal_change(Z[:, left], y, i) for i in range(len(left))])
        worth = np.abs(changes) if absolute else changes
        worst = int(np.argmin(worth))
        assert selector.changes_[left[worst]] == pytest.approx(worth[worst], rel=0.02, abs=1e-3)
        order.append(left.pop(worst))
    assert path_order(selector, X, y) == order[::-1]


@pytest.mark.parametrize("classes", [2, 4])
def test_linear_kernel_rfe_is_that_of_scikit_learn(rng, classes):
    X = rng.normal(size=(80, 10))
    y = np.digitize(X[:, 0] + X[:, 1] + 0.5 * X[:, 2], np.linspace(-1, 1, classes + 1)[1:-1])
    theirs = RFE(SVC(kernel="linear"), n_features_to_select=1, step=1).fit(standardised(X), y)
    ours = KernelRFE(1, kernel="linear", drop=None).fit(X, y)
    np.testing.assert_array_equal(ours.ranking_, theirs.ranking_)


def test_correlation_filter_is_pearson_and_the_f_of_anova(data):
    X, y = data
    for column in (y["regression"], (y["binary"] == "a").astype(int)):
        expected = [abs(np.corrcoef(x, column)[0, 1]) for x in X.T]
        np.testing.assert_allclose(CorrelationFilter().fit(X, column).scores_, expected, rtol=1e-12)
    eta = CorrelationFilter().fit(X, y["multi-class"]).scores_
    np.testing.assert_allclose(eta**2 / (1 - eta**2) * (24 - 3) / 2, f_classif(X, y["multi-class"])[0], rtol=1e-10)
    each = [CorrelationFilter().fit(X, column).scores_ for column in y["outputs"].T]
    np.testing.assert_allclose(CorrelationFilter().fit(X, y["outputs"]).scores_, np.max(each, axis=0), rtol=1e-12)


@pytest.mark.parametrize("kind", ["binary", "multi-class"])
def test_linear_kernel_rfe_by_a_quarter_is_a_loop_over_machines_of_scikit_learn(rng, kind):
    X = rng.normal(size=(80, 30))
    y = targets(rng, X)[kind]
    left, order = list(range(30)), []
    while left:
        weights = SVC(kernel="linear").fit(standardised(X)[:, left], y).coef_
        worst = [left[i] for i in np.argsort((weights**2).sum(axis=0))[: max(1, len(left) // 4)]]
        order += worst
        left = [j for j in left if j not in worst]
    assert list(KernelRFE(1, kernel="linear", drop=0.25).fit(X, y).order_) == order[::-1]


@pytest.mark.parametrize("kind", KINDS)
def test_f_test_is_that_of_scikit_learn_and_ranks_like_the_correlation(data, kind):
    X, y = data[0], data[1][kind]
    columns = y.reshape(len(y), -1).T
    theirs = [f_classif(X, y)[0]] if "b" in kind or "class" in kind else [f_regression(X, c)[0] for c in columns]
    fitted = FTest(2).fit(X, y)
    np.testing.assert_allclose(fitted.scores_, np.max(theirs, axis=0), rtol=1e-9)
    np.testing.assert_array_equal(fitted.ranking_, CorrelationFilter(2).fit(X, y).ranking_)


def test_a_feature_that_is_the_class_has_the_largest_f(rng):
    X, y = rng.normal(size=(30, 5)), np.arange(30) % 3
    X[:, 3] = 0.1 * y
    assert FTest(1).fit(X, y).support_[3]
    assert FTest(1, target="regression").fit(X, y).support_[3]


@pytest.mark.parametrize("kind", KINDS)
def test_forest_is_that_of_scikit_learn(data, kind):
    X, y = data[0], data[1][kind]
    forest, target, order = RandomForestClassifier, y, canonical_order(standardised(X))
    if y.dtype.kind == "f":
        # rounded in the same way, because nodes of two samples split equally well on many features
        forest, target = RandomForestRegressor, np.squeeze(Target.encode(y, NUMBERS).Y)
    theirs = forest(20, max_features="sqrt", random_state=0).fit(standardised(X)[:, order], target)
    ours = again(FOREST, 2).fit(X, y)
    np.testing.assert_allclose(ours.importances_[order], theirs.feature_importances_, rtol=1e-6)
    np.testing.assert_array_equal(ours.importances_, again(FOREST, 2, n_jobs=2).fit(X, y).importances_)


# ---------------------------------------------------------------- what the paper says of them


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("n", [30, 50])
def test_xor_is_solved_by_bahsic_and_by_none_that_looks_at_one_feature_at_a_time(n, seed):
    X, y, relevant = datasets.make_xor(300, n, random_state=seed)
    assert BaHSIC(2).fit(X, y).support_[relevant].all()
    assert KernelRFE(2).fit(X, y).support_[relevant].all()
    for selector in (FoHSIC(2), FoHSIC(2, add=None), CorrelationFilter(2), FTest(2), again(STABLE, 2)):
        assert not selector.fit(X, y).support_[relevant].all()


@pytest.mark.parametrize("seed", [0, 1])
def test_weston_problems(seed):
    X, y, relevant = datasets.make_weston_linear(300, 50, random_state=seed)
    for selector in (BaHSIC(5), FoHSIC(5), FTest(5), CorrelationFilter(5), again(STABLE, 5, n_subsamples=50)):
        assert selector.fit(X, y).support_[relevant].all()
    for selector in (KernelRFE(5, kernel="linear", drop=0.25), again(FOREST, 5)):
        assert selector.fit(X, y).support_[relevant].sum() >= 4
    X, y, relevant = datasets.make_weston_nonlinear(300, 50, random_state=seed)
    for selector in (BaHSIC(2), FoHSIC(2), FoHSIC(2, add=None), KernelRFE(2)):
        assert selector.fit(X, y).support_[relevant].all()
    for selector in (CorrelationFilter(2), again(STABLE, 2)):
        assert not selector.fit(X, y).support_[relevant].all()


# ---------------------------------------------------------------- the contract


def expected_failures(estimator):
    reason = "Halves are drawn from samples: two copies of a sample may be in different halves."
    kinds = ("dense", "sparse") if isinstance(estimator, type(STABLE)) else ()
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in kinds}


@unstable
@pytest.mark.no_cover  # as in tests/contracts/test_estimator_checks.py
@parametrize_with_checks(ALL, expected_failed_checks=expected_failures)
def test_estimator(estimator, check):
    check(estimator)


@every
@pytest.mark.parametrize("kind", KINDS)
def test_columns_may_come_in_any_order(rng, selector, kind):
    X = rng.normal(size=(40, 25))
    y, order = targets(rng, X)[kind], rng.permutation(25)
    plain, moved = again(selector, 1).fit(X, y), again(selector, 1).fit(X[:, order], y)
    np.testing.assert_array_equal(plain.ranking_[order], moved.ranking_)


@every
@pytest.mark.parametrize(("wanted", "count"), [(1, 1), (5, 5), (12, 12), (0.25, 3), (0.001, 1), (1.0, 12)])
def test_exactly_as_many_as_asked_for(rng, selector, wanted, count):
    X = rng.normal(size=(30, 12))
    fitted = again(selector, wanted).fit(X, X[:, 3])
    assert fitted.support_.sum() == fitted.n_features_ == count
    assert sorted(fitted.ranking_) == [1] * (count - 1) + list(range(1, 12 - count + 2))


@every
def test_half_is_the_default_and_too_many_are_refused(rng, selector):
    X = rng.normal(size=(30, 7))
    if selector is not STABLE:
        assert again(selector).fit(X, X[:, 0]).n_features_ == 3
    with pytest.raises(ValueError, match="n_features_to_select=8 but X has n_features=7"):
        again(selector, 8).fit(X, X[:, 0])


@every
def test_constant_columns_come_last(rng, selector):
    X = rng.normal(size=(30, 6))
    y = (X[:, 0] > 0).astype(int)
    X[:, [1, 4]] = 7.0
    fitted = again(selector, 2).fit(X, y)
    assert fitted.ranking_[1] == fitted.ranking_[4] == fitted.ranking_.max() == 4
    with pytest.warns(UserWarning, match="only 4 vary") as caught:
        assert again(selector, 5).fit(X, y).support_.sum() == 5
    assert caught[0].filename == __file__
    with pytest.raises(ValueError, match="Every column of X is constant"):
        again(selector).fit(np.ones((30, 6)), y)


@every
def test_bad_input_gets_the_sentences_of_randsel(rng, selector):
    X, y = rng.normal(size=(30, 3)), np.arange(30) % 2
    hole = pd.DataFrame(X, columns=list("abc"))
    hole.iloc[4, 2] = np.inf
    for message, bad_X, bad_y in (
        ("infinity in column 'c' \\(1 values\\); replace", hole, y),
        ("one class only", X, np.zeros(30)),
        ("y is None", X, None),
        ("n_samples=3 of weight above zero", X[:3], y[:3]),
    ):
        with pytest.raises(ValueError, match=message):
            again(selector).fit(bad_X, bad_y)
    if selector is not STABLE:
        with pytest.raises(TypeError, match="sample_weight"):
            again(selector).fit(X, y, sample_weight=np.ones(30))


@every
def test_missing_values_become_the_mean(rng, selector):
    X, y = rng.normal(size=(60, 5)), np.arange(60) % 2
    X[:, 2] += 2 * y
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 4] = np.nan
    filled = np.where(np.isnan(X), [*np.nanmean(X[:, :4], axis=0), 0.0], X)
    with_gaps = again(selector, 1).fit(X, y)
    assert with_gaps.order_.tolist() == again(selector, 1).fit(filled, y).order_.tolist()
    assert with_gaps.missing_counts_.tolist() == np.isnan(X).sum(axis=0).tolist()
    assert with_gaps.transform(X).shape == (60, 1)


@pytest.mark.parametrize("selector", ALL[:3], ids=lambda selector: type(selector).__name__)
def test_bandwidths(rng, selector):
    X = rng.normal(size=(40, 8))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    values = {g: vars(again(selector, 3, gamma=g).fit(X, y)) for g in ("median", "1.0 * median", "4*median", 0.1)}
    name = "changes_" if isinstance(selector, KernelRFE) else "hsic_"
    np.testing.assert_array_equal(values["median"][name], values["1.0 * median"][name])
    assert not np.allclose(values["median"][name], values["4*median"][name])
    for wrong in ("mean", "-1*median", "x*median", "2*3*median"):
        with pytest.raises(ValueError, match="is neither a positive number nor 'median'"):
            again(selector, gamma=wrong).fit(X, y)
    with pytest.raises(ValueError, match="use gamma='median' or a smaller number"):
        again(selector, gamma=1e30).fit(X, y)


def test_scale_matters_where_it_is_a_parameter(rng):
    X = rng.normal(size=(40, 6))
    y = (X[:, 0] > 0).astype(int)
    X[:, 5] *= 1e6
    for selector in (BaHSIC(1), FoHSIC(1), KernelRFE(1), again(STABLE, 1)):
        assert selector.fit(X, y).support_[0]
        assert again(selector, 1, scale=False).fit(X, y).support_.sum() == 1


@every
def test_copies_rank_beside_each_other_and_repeated_rows_do_no_harm(rng, selector):
    X = rng.normal(size=(30, 4))
    X = np.column_stack([X, X[:, 0]])[np.arange(60) % 30]
    assert again(selector, 2).fit(X, (X[:, 0] > 0).astype(int)).support_[[0, 4]].any()


def test_machines_without_support_vectors_are_worth_nothing(rng):
    X, quiet = rng.normal(size=(20, 3)), np.zeros(20)
    selector = KernelRFE(1).fit(X, np.column_stack([X[:, 0], quiet]))
    np.testing.assert_allclose(selector.changes_, KernelRFE(1).fit(X, X[:, 0]).changes_, rtol=0.01)


def test_a_comparison_shares_nothing_with_what_it_compares():
    for file in Path(methods.__file__).parent.glob("*.py"):
        imports = {node.module for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom)}
        assert not [
            m for m in imports if m.startswith(("randsel.contribution", "randsel.culling", "randsel.selectors"))
        ]
