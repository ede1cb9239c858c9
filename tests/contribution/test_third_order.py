import numpy as np
import pytest
import reference
from score_bounds import error_bounds, record_routes

from randsel._numerics.kernels import GAUSSIAN, median_gamma
from randsel.contribution import _closed_form as cf
from randsel.contribution._nonlinear import MAX_REACH, CubicSeries
from randsel.contribution._sample import Sample
from randsel.targets._kinds import CLASSES
from randsel.targets._target import Target

COLUMNS = {
    "uniform": lambda rng, shape: rng.random(shape),
    "normal": lambda rng, shape: rng.normal(size=shape),
    "heavy tails": lambda rng, shape: rng.standard_t(6, shape),
    "levels": lambda rng, shape: rng.integers(0, 3, shape).astype(float),
}


def make_sample(rng, kind="normal", m=60, n=12, dtype=np.float64):
    X = COLUMNS[kind](rng, (m, n))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return Sample.from_columns(X.astype(dtype), Target.encode(rng.integers(0, 2, m), CLASSES))


def differences(sample):
    """`(x_p - x_q)²`, by feature."""
    return (sample.X[:, None, :].astype(float) - sample.X[None, :, :]).transpose(2, 0, 1) ** 2


def series_of(sample, gamma):
    return CubicSeries.from_sample(sample, gamma, GAUSSIAN.series, np.ones(sample.X.shape[1], dtype=bool))


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("reach", [0.1, 0.5, 1.5])
def test_functions_and_logarithms_are_within_their_bounds(rng, kind, reach):
    sample = make_sample(rng, kind)
    d = differences(sample)
    gamma = reach / d.max()
    series = series_of(sample, gamma)
    u = gamma * d
    cubic = series.a[:, None, None] * u - series.b[:, None, None] * u**3
    error = np.linalg.norm(2 * np.tanh(u / 2) - cubic, axis=(1, 2))
    assert np.all(error <= series.error)
    assert np.all(error >= 0.4 * series.error)  # a bound that says something
    assert np.all(series.error < 0.7 * np.linalg.norm(2 * np.tanh(u / 2) - u + u**3 / 12, axis=(1, 2)))
    log_error = np.linalg.norm(np.log((1 + np.exp(-u)) / 2) + u / 2 - u**2 / 8 + u**4 / 192, axis=(1, 2))
    assert np.all(log_error <= series.log_errors + 1e-13)


def test_sums_equal_the_literal_sums_over_pairs(rng):
    sample, gamma = make_sample(rng), 0.01
    series, u = series_of(sample, gamma), gamma * differences(sample)
    cubic = series.a[:, None, None] * u - series.b[:, None, None] * u**3
    np.testing.assert_allclose(series.sums, cubic.sum(axis=(1, 2)), rtol=1e-10)
    np.testing.assert_allclose(series.squares, (cubic**2).sum(axis=(1, 2)), rtol=1e-10)
    np.testing.assert_allclose(series.row_sums, cubic.sum(axis=2).T, rtol=1e-10)
    matrix = rng.normal(size=(60, 60))
    matrix += matrix.T
    np.fill_diagonal(matrix, 0.0)
    np.testing.assert_allclose(series.pair_with(matrix), (matrix * cubic).sum(axis=(1, 2)), atol=1e-10)
    free = np.arange(12) % 3 > 0
    np.testing.assert_allclose(series.log_terms(free), -(u[free] ** 4).sum(axis=0) / 192, atol=1e-15)


def test_pairing_with_outer_products_equals_the_literal_sums(rng):
    sample, gamma = make_sample(rng, m=25, n=5), 0.02
    series = series_of(sample, gamma)
    left, right = rng.normal(size=(25, 2)), rng.normal(size=(25, 2))
    expected = reference.cubic_forms(sample.X, gamma, series.a, series.b, left, right)
    np.testing.assert_allclose(series.pair_with_outer(left, right), expected, atol=1e-11)


def test_all_orders_of_the_logarithm_of_q(rng):
    sample, gamma = make_sample(rng), 0.01
    u, free = gamma * differences(sample), np.arange(12) % 3 > 0
    expected = (-u / 2 + u**2 / 8 - u**4 / 192)[free].sum(axis=0)
    np.testing.assert_allclose(series_of(sample, gamma).log_terms(free, all_orders=True), expected, atol=1e-13)


def test_the_series_of_some_of_the_features(rng):
    sample = make_sample(rng)
    chosen = np.arange(12) % 2 == 0
    some, alone = series_of(sample, 0.01).take(chosen), CubicSeries.from_sample(sample, 0.01, GAUSSIAN.series, chosen)
    np.testing.assert_array_equal(some.features, chosen)
    np.testing.assert_allclose(some.score_errors, alone.score_errors, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("fixed", [False, True])
def test_the_closed_form_takes_the_third_order_and_stays_within_its_bounds(rng, monkeypatch, kind, dtype, fixed):
    sample = make_sample(rng, kind, m=80, n=24, dtype=dtype)
    sample = Sample.from_columns(sample.X, sample.target, np.arange(24) < 3 if fixed else None)
    gamma = median_gamma(sample.distances)
    expected = cf.closed_form(sample, gamma)
    routes = record_routes(monkeypatch, cf)
    monkeypatch.setattr(cf, "EXPENSIVE", 0)
    result = cf.closed_form(sample, gamma)
    assert routes[-1].cubic is not None
    assert kind == "heavy tails" or routes[-1].cubic.features.sum() > 12
    rounding = 1e-9 if dtype is np.float64 else 2e-3
    total_errors, score_errors = error_bounds(sample, gamma, routes[-1])
    exact = expected.relative * np.exp(expected.log_scale - result.log_scale)
    assert np.all(np.abs(result.relative - exact) <= total_errors + rounding * np.abs(exact).max())
    for name in ("main", "interaction"):
        error = np.abs(getattr(result, name) - getattr(expected, name))
        assert np.all(error <= score_errors + rounding)
    assert score_errors.max() <= 2 * cf.TOLERANCE


def test_features_of_a_large_range_are_not_tried(rng, monkeypatch):
    sample = make_sample(rng)
    monkeypatch.setattr(cf, "EXPENSIVE", 0)
    monkeypatch.setattr(CubicSeries, "from_sample", None)
    cf.closed_form(sample, 2 * MAX_REACH / float(sample.moments.range.min()) ** 2)
