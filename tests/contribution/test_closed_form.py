import itertools
import pickle

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import make_sample, standardised
from score_bounds import error_bounds, first_order_bounds, record_routes

from randsel._numerics.kernels import Factor, median_gamma, null_scale, u_centre
from randsel.contribution import _closed_form as cf
from randsel.contribution import _nonlinear
from randsel.contribution._bootstrap import Draws
from randsel.contribution._nonlinear import difference_moment, power_sums
from randsel.contribution._sample import Sample
from randsel.targets._kinds import CLASSES
from randsel.targets._target import Target


def routes_of(sample, elementwise):
    """Force the routes: features of the mask go element by element, the others through matrix products."""
    return cf._Routes(np.broadcast_to(elementwise, sample.X.shape[1]).copy())


def evaluate(sample, gamma, elementwise):
    return cf._evaluate(sample, gamma, cf.PLAIN, routes_of(sample, elementwise))[0]


TARGETS = {
    "binary": ("classification", lambda rng: rng.permutation(np.arange(12) % 2)),
    "multi-class": ("classification", lambda rng: rng.permutation(np.arange(12) % 3)),
    "continuous": ("regression", lambda rng: rng.normal(size=12)),
    "multi-output": ("regression", lambda rng: rng.normal(size=(12, 2))),
}


@pytest.mark.parametrize("gamma", [0.02, 0.3, 4.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", TARGETS)
def test_equals_enumeration_of_all_subsets(rng, name, weighted, gamma):
    kind, draw = TARGETS[name]
    weights = rng.random(12) + 0.2 if weighted else None
    sample = make_sample(rng.normal(size=(12, 8)), draw(rng), kind, weights)
    w = sample.target.weights
    L = sample.target.kernel if w is None else sample.target.kernel / np.outer(w, w)
    expected = reference.contributions_by_enumeration(sample.X, L, gamma, w)
    result = cf.closed_form(sample, gamma)
    np.testing.assert_allclose(result.total, expected, atol=1e-12)


def test_fixed_features_enter_every_subset(rng):
    fixed = np.array([False, True, False, False, True, False])
    sample = make_sample(rng.normal(size=(10, 6)), np.arange(10) % 2, fixed=fixed)
    expected = reference.contributions_by_enumeration(
        sample.X, sample.target.kernel, 0.4, fixed=tuple(np.flatnonzero(fixed))
    )
    np.testing.assert_allclose(cf.closed_form(sample, 0.4).total, expected, atol=1e-12)


def cauchy_contrast(v):
    v /= 1 + v
    return v


def test_a_factor_without_a_series_takes_the_element_wise_route(rng):
    fixed = np.array([False, True, False, False, False])
    target = Target.encode(np.arange(10) % 2, CLASSES)
    sample = Sample.from_columns(
        standardised(rng.normal(size=(10, 5))), target, fixed, Factor(cauchy_contrast, lambda u: -np.log1p(u))
    )
    expected = reference.contributions_by_enumeration(
        sample.X, target.kernel, 0.4, fixed=(1,), kernel=reference.cauchy_kernel
    )
    np.testing.assert_allclose(cf.closed_form(sample, 0.4).total, expected, atol=1e-12)
    np.testing.assert_allclose(np.exp(sample.log_kernel(0.4)), reference.cauchy_kernel(sample.X, 0.4), atol=1e-12)


@pytest.mark.parametrize("n", [100, 600])
def test_results_do_not_depend_on_what_was_read_before(rng, n):
    X, y = rng.normal(size=(40, n)), rng.integers(0, 2, 40)
    kept, dropped, none_fixed = np.arange(n - 20), np.arange(n - 20, n), np.zeros(n - 20, dtype=bool)

    def two_rounds(*read_before):
        sample = make_sample(X, y)
        for name in read_before:
            getattr(sample, name)
        first = cf.closed_form(sample, 0.5 / n)
        second = sample.drop_features(kept, dropped, none_fixed, first.sums)
        return first.interaction, cf.closed_form(second, 0.5 / n).interaction

    for values, others in zip(two_rounds(), two_rounds("sums", "distances"), strict=True):
        np.testing.assert_array_equal(values, others)


def test_a_sample_can_be_sent_to_other_processes(rng):
    sample = make_sample(rng.normal(size=(20, 7)), np.arange(20) % 2)
    sent = pickle.loads(pickle.dumps(sample))
    np.testing.assert_array_equal(sent.log_kernel(0.2), sample.distances * -0.2)
    np.testing.assert_array_equal(cf.closed_form(sent, 0.2).interaction, cf.closed_form(sample, 0.2).interaction)


def test_scores_equal_their_definition(rng):
    X = rng.normal(size=(20, 7))
    sample = make_sample(X, (X[:, 0] * X[:, 1] > 0).astype(int))
    result = cf.closed_form(sample, 0.2)
    main, interaction = reference.scores(sample.X, sample.target.kernel, 0.2)
    np.testing.assert_allclose(result.main, main, atol=1e-11)
    np.testing.assert_allclose(result.interaction, interaction, atol=1e-11)


def test_null_is_exactly_standard_under_permutation(rng):
    """All 720 permutations of 6 rows, columns of any shape: mean 0 and variance 1 to rounding (eq. 8)."""
    M = rng.exponential(size=(6, 6))
    A = u_centre(M + M.T)
    for x in (rng.normal(size=6), rng.exponential(size=6) ** 3, np.array([0.0, 0, 1, 0, 1, 0])):
        B = u_centre(-2 * np.tanh((x[:, None] - x) ** 2))
        norm = np.linalg.norm(A) * np.linalg.norm(B)
        values = np.array([np.vdot(A, B[np.ix_(p, p)]) / norm for p in itertools.permutations(range(6))])
        values *= null_scale(6)
        assert values.mean() == pytest.approx(0, abs=1e-13)
        assert values.var() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(
    "column",
    [
        lambda rng, shape: rng.normal(size=shape),
        lambda rng, shape: rng.exponential(size=shape) ** 2,
        lambda rng, shape: (rng.random(shape) < 0.2).astype(float),
    ],
    ids=["gaussian", "skewed", "binary"],
)
def test_scores_of_independent_features_have_mean_0_and_variance_1(rng, column):
    """1500 independent features beside an XOR pair. Given the target and Q they are nearly independent of each other.

    Tolerances are five standard errors. The main score of a two-class target is (χ²₁ - 1)/√2, of excess kurtosis 12,
    so the variance of 1500 has standard error √(14/1500).
    """
    n = 1500
    X = column(rng, (120, n))
    signal = rng.normal(size=(120, 2))
    y = (signal[:, 0] * signal[:, 1] > 0).astype(int)
    sample = make_sample(np.hstack([signal, X]), y)
    result = cf.closed_form(sample, median_gamma(sample.distances))
    for scores in (result.main[2:], result.interaction[2:]):
        assert abs(scores.mean()) < 5 / np.sqrt(n)
        assert abs(scores.var() - 1) < 5 * np.sqrt(14 / n)


@pytest.mark.parametrize(("n", "signals"), [(1, 0), (5, 0), (30, 2)])
def test_interaction_scores_have_mean_0_beside_few_features_too(n, signals):
    """A feature is in Q itself; what that adds to the mean is taken off (eq. 8'). 1200 scores, five standard errors."""
    scores = []
    for seed in range(1200 // n):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(60, n + signals))
        y = (X[:, :signals].sum(axis=1) > 0).astype(int) if signals else rng.permutation(np.arange(60) % 2)
        sample = make_sample(X, y)
        scores.extend(cf.closed_form(sample, median_gamma(sample.distances)).interaction[signals:])
    assert abs(np.mean(scores)) < 5 / np.sqrt(len(scores))


def test_bound_on_the_total_of_a_fixed_feature(rng):
    """A far-flung fixed column makes Q without it much larger than Q."""
    X = rng.normal(size=(8, 60))
    X[:, 0] = 20.0 * np.arange(8)
    X -= X.mean(axis=0)
    fixed = np.arange(60) == 0
    sample = Sample.from_columns(X, Target.encode(np.arange(8) % 2, CLASSES), fixed)
    matrix, exact = evaluate(sample, 0.01, False), evaluate(sample, 0.01, True)
    expected = exact.relative[0] * np.exp(exact.log_scale - matrix.log_scale)
    total_errors, _ = error_bounds(sample, 0.01, routes_of(sample, False))
    assert 0 < abs(matrix.relative[0] - expected) <= total_errors[0]


def heavy_tailed_data(rng, m=90, n=300):
    """Heavy tails, one outlier, rare and common binary columns, a column that is almost constant."""
    X = rng.standard_t(3, size=(m, n))
    X[:, 0] = 0.0
    X[7, 0] = 1.0
    X[:, 1] = rng.random(m) < 0.05
    X[:, 2] = rng.random(m) < 0.5
    X[3, 3] = 1e6
    X[:, 4] = 1.0 + 1e-6 * X[:, 4]
    return X, rng.integers(0, 2, m)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("factor", [0.1, 1.0, 5.0])
def test_matrix_route_stays_within_its_bound(rng, factor, dtype):
    X, y = heavy_tailed_data(rng)
    sample = make_sample(X, y)
    sample = Sample.from_columns(sample.X.astype(dtype), sample.target)
    gamma = factor * median_gamma(sample.distances)
    outlying = sample.moments.outlying if dtype is np.float32 else False
    matrix, exact = evaluate(sample, gamma, outlying), evaluate(sample, gamma, True)
    total_errors, score_errors = error_bounds(sample, gamma, routes_of(sample, outlying))
    rounding = 1e-9 if dtype is np.float64 else 1e-2
    expected = exact.relative * np.exp(exact.log_scale - matrix.log_scale)
    assert np.all(np.abs(matrix.relative - expected) <= total_errors + rounding * np.abs(expected))
    for name in ("main", "interaction"):
        error = np.abs(getattr(matrix, name) - getattr(exact, name))
        assert np.all(error <= score_errors + rounding)


def test_bounds_choose_the_routes_and_scores_stay_within_the_tolerance(rng, monkeypatch):
    X, y = heavy_tailed_data(rng, n=2000)
    sample = make_sample(X, y)
    gamma = median_gamma(sample.distances)
    exact, routes = evaluate(sample, gamma, True), record_routes(monkeypatch, cf)
    result = cf.closed_form(sample, gamma)
    share = np.mean(first_order_bounds(sample, gamma).score_errors > cf.TOLERANCE)
    assert 0 < share < 0.5
    assert error_bounds(sample, gamma, routes[-1])[1].max() <= 2 * cf.TOLERANCE
    np.testing.assert_allclose(result.interaction, exact.interaction, atol=0.01)
    np.testing.assert_allclose(result.main, exact.main, atol=0.01)


def test_element_wise_route_does_not_depend_on_the_memory_it_may_keep(rng, monkeypatch):
    sample = make_sample(rng.normal(size=(40, 9)), np.arange(40) % 2)
    kept = cf.closed_form(sample, 0.1)
    monkeypatch.setattr(_nonlinear, "KEEP_BYTES", 0)
    monkeypatch.setattr(_nonlinear, "scratch_size", lambda _: 1000)
    again = cf.closed_form(sample, 0.1)
    np.testing.assert_allclose(again.interaction, kept.interaction, atol=1e-12)
    np.testing.assert_allclose(again.total, kept.total, atol=1e-16)


def test_fixed_size_subsets_differ_by_order_one_over_n(rng):
    """The paper's subsets have ⌊n/2⌋ and ⌊n/2⌋+1 features, the closed form's on average half: O(1/n) apart."""
    errors = []
    for n in (8, 16, 32):
        X = standardised(rng.normal(size=(16, n)))
        y = np.where(X[:, 0] > 0, 1.0, -1.0)
        sample = Sample.from_columns(X, Target.encode(y, CLASSES))
        gamma = median_gamma(sample.distances)
        bernoulli = cf.closed_form(sample, gamma).total
        fixed_size = reference.fixed_size_contributions(X, sample.target.kernel, gamma)
        errors.append(np.abs(bernoulli - fixed_size).max() / np.abs(fixed_size).max())
    assert errors[0] > errors[1] > errors[2]
    assert all(n * error < 3 for n, error in zip((8, 16, 32), errors, strict=True))


def test_ranking_survives_a_kernel_that_underflows(rng):
    """Q is below exp(-745) for all pairs: the contributions themselves are zero, their ranks are not lost."""
    X = rng.normal(size=(30, 6))
    sample = make_sample(np.hstack([X] * 2000), (X[:, 0] > 0).astype(int))
    result = cf.closed_form(sample, 0.9)
    assert np.all(result.total == 0.0)
    assert len(np.unique(result.relative.round(12))) == 6


def test_a_bandwidth_whose_kernel_is_the_identity_is_refused(rng):
    sample = make_sample(rng.normal(size=(10, 3)), np.arange(10) % 2)
    with pytest.raises(ValueError, match="gamma=1e\\+30 is so large"):
        cf.closed_form(sample, 1e30)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 10.0))
def test_an_irrelevant_feature_never_raises_the_expected_alignment(seed, gamma):
    """Proposition 3, exactly: finite distributions, all pairs of outcomes summed."""
    rng = np.random.default_rng(seed)
    x, y, p = rng.normal(size=(7, 2)), rng.choice([-1.0, 1.0], 7), rng.dirichlet(np.ones(7))
    v, w = rng.normal(size=5), rng.dirichlet(np.ones(5))
    K = reference.kernel(x, gamma)
    without = (np.outer(p * y, p * y) * K).sum()
    with_it = 0.0
    for (i, j), (a, b) in itertools.product(
        itertools.product(range(7), repeat=2), itertools.product(range(5), repeat=2)
    ):
        both = K[i, j] * np.exp(-gamma * (v[a] - v[b]) ** 2)
        with_it += p[i] * p[j] * w[a] * w[b] * y[i] * y[j] * both
    assert with_it <= without + 1e-15


@pytest.mark.parametrize("tails", [4, 30])
def test_sharper_bound_on_the_slope_holds_and_is_sharper(rng, tails):
    sample = make_sample(rng.standard_t(tails, (60, 50)), rng.integers(0, 2, 60))
    gamma = median_gamma(sample.distances)
    crude = first_order_bounds(sample, gamma)
    sharp = crude.sharpen(sample.X, np.ones(50, dtype=bool))
    assert np.all(sharp.score_errors <= crude.score_errors)
    assert np.median(sharp.score_errors / crude.score_errors) < 0.6
    for j in range(50):
        u = gamma * (sample.X[:, j, None] - sample.X[None, :, j]) ** 2
        exact, linear = (u_centre(values) for values in (2 * np.tanh(u / 2), u))
        turned = exact / np.linalg.norm(exact) - linear / np.linalg.norm(linear)
        assert null_scale(60) * np.linalg.norm(turned) <= sharp.score_errors[j]


def test_moments_of_differences(rng):
    x = rng.normal(size=(9, 3))
    d = (x[:, None] - x[None]) ** 2
    for k in (2, 4, 6):
        found = difference_moment(power_sums(x, 12), k)
        np.testing.assert_allclose(found, (d**k).sum(axis=(0, 1)), rtol=1e-10)


def test_single_precision_inside_moves_scores_by_a_thousandth_at_most(rng, monkeypatch):
    X = standardised(rng.standard_t(4, (150, 60)) * 10.0 ** rng.uniform(-3, 3, 60))
    sample = make_sample(X, rng.integers(0, 2, 150))
    gamma = median_gamma(sample.distances)
    precise = evaluate(sample, gamma, True)
    for name, value in (("SINGLE_ROWS", 100), ("SKETCH_ROWS", 100), ("SKETCH_RATIO", 0)):
        monkeypatch.setattr(f"randsel.contribution._sample.{name}", value)
    inside = evaluate(Sample.from_columns(sample.X, sample.target), gamma, True)
    assert 0 < np.abs(inside.interaction - precise.interaction).max() < 1e-3
    assert np.abs(inside.main - precise.main).max() < 1e-3


@pytest.mark.parametrize("size", [2.0**-95, 2.0**-30, 1.0, 2.0**60, 2.0**90])
def test_units_of_unscaled_columns_do_not_matter(rng, size, monkeypatch):
    for name, value in (("SINGLE_ROWS", 100), ("SKETCH_ROWS", 100), ("SKETCH_RATIO", 0)):
        monkeypatch.setattr(f"randsel.contribution._sample.{name}", value)
    X = rng.standard_t(4, (120, 60))
    X -= X.mean(axis=0)
    y = rng.integers(0, 2, 120)
    target = Target.encode(y, CLASSES)
    plain, other = Sample.from_columns(X, target), Sample.from_columns(X * size, target)
    gamma = median_gamma(plain.distances)
    crude, sharp = (first_order_bounds(other, gamma / size**2), first_order_bounds(plain, gamma))
    everything = np.ones(60, dtype=bool)
    np.testing.assert_allclose(
        crude.sharpen(other.X, everything).score_errors, sharp.sharpen(plain.X, everything).score_errors, rtol=1e-6
    )
    expected, found = cf.closed_form(plain, gamma), cf.closed_form(other, gamma / size**2)
    np.testing.assert_allclose(found.main, expected.main, atol=2e-3)
    np.testing.assert_allclose(found.interaction, expected.interaction, atol=2e-3)


def test_huge_unscaled_column_does_not_drown_the_others(rng):
    X = rng.normal(size=(40, 60))
    X[:, 0] = 1e10 * (rng.random(40) < 0.1)
    X -= X.mean(axis=0)
    sample = make_sample(rng.normal(size=(40, 60)), rng.integers(0, 2, 40))
    sample = Sample.from_columns(X, sample.target)
    found, exact = cf.closed_form(sample, 1 / 120), evaluate(sample, 1 / 120, True)
    assert np.abs(found.interaction - exact.interaction)[1:].max() < 2 * cf.TOLERANCE


def test_tiny_bandwidth_in_single_precision(rng):
    sample = make_sample(rng.normal(size=(60, 20)), rng.integers(0, 2, 60))
    gamma = 1e-6 * median_gamma(sample.distances)
    single = cf.closed_form(Sample.from_columns(sample.X.astype(np.float32), sample.target), gamma)
    np.testing.assert_allclose(single.interaction, cf.closed_form(sample, gamma).interaction, atol=0.05)


def test_row_blocks_are_a_partition(monkeypatch):
    monkeypatch.setattr(cf, "MAX_ROWS", 40)
    y = np.zeros(103, dtype=int)
    y[:5] = 1
    target = Target.encode(y, CLASSES)
    blocks = cf.row_blocks(target, Draws(subsample=0.25))
    assert sorted(np.concatenate(blocks)) == list(range(103))
    assert max(map(len, blocks)) <= 40
    assert [int(y[rows].sum()) for rows in blocks] == [1, 1, 1, 1, 1]
    assert len(cf.row_blocks(target, Draws(n_bootstraps=2, subsample=0.25))) == 2


def test_row_blocks_average_the_closed_form(rng, monkeypatch):
    X = rng.uniform(-1, 1, (600, 12))
    sample = make_sample(X, (X[:, 0] * X[:, 1] > 0).astype(int))
    whole = cf.exact(sample, 0.05, Draws())
    monkeypatch.setattr(cf, "MAX_ROWS", 500)
    blocks = cf.exact(sample, 0.05, Draws(subsample=0.5, seed=1))
    assert set(np.argsort(-blocks.interaction)[:2]) == set(np.argsort(-whole.interaction)[:2]) == {0, 1}
    assert blocks.total[:2] == pytest.approx(whole.total[:2], rel=0.5)
    again = cf.exact(sample, 0.05, Draws(subsample=0.5, seed=1, n_jobs=2))
    assert np.array_equal(again.total, blocks.total)
