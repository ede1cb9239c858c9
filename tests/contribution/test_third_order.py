import numpy as np
import pytest
import reference

from randsel._numerics.kernels import median_gamma
from randsel.contribution import _closed_form as cf
from randsel.contribution import _third_order as cubic_series
from randsel.contribution._sample import Sample
from randsel.contribution._third_order import CubicSeries
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
    return Sample.of(X.astype(dtype), Target.encode(rng.integers(0, 2, m), CLASSES))


def differences(sample):
    """`(x_p - x_q)²`, by feature."""
    return (sample.X[:, None, :].astype(float) - sample.X[None, :, :]).transpose(2, 0, 1) ** 2


def series_of(sample, gamma):
    return CubicSeries.of(sample, gamma, np.ones(sample.X.shape[1], dtype=bool))


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


def test_sums_are_those_over_pairs(rng):
    sample, gamma = make_sample(rng), 0.01
    series, u = series_of(sample, gamma), gamma * differences(sample)
    cubic = series.a[:, None, None] * u - series.b[:, None, None] * u**3
    np.testing.assert_allclose(series.sums, cubic.sum(axis=(1, 2)), rtol=1e-10)
    np.testing.assert_allclose(series.squares, (cubic**2).sum(axis=(1, 2)), rtol=1e-10)
    np.testing.assert_allclose(series.row_squares, (cubic.sum(axis=2) ** 2).sum(axis=1), rtol=1e-10)
    matrix = rng.normal(size=(60, 60))
    matrix += matrix.T
    np.fill_diagonal(matrix, 0.0)
    np.testing.assert_allclose(series.products(matrix), (matrix * cubic).sum(axis=(1, 2)), atol=1e-10)
    free = np.arange(12) % 3 > 0
    np.testing.assert_allclose(series.log_terms(free), -(u[free] ** 4).sum(axis=0) / 192, atol=1e-15)


def test_sums_with_products_of_vectors(rng):
    sample, gamma = make_sample(rng, m=25, n=5), 0.02
    series = series_of(sample, gamma)
    left, right = rng.normal(size=(25, 2)), rng.normal(size=(25, 2))
    expected = reference.cubic_forms(sample.X, gamma, series.a, series.b, left, right)
    np.testing.assert_allclose(series.outer_products(left, right), expected, atol=1e-11)


def test_all_orders_of_the_logarithm(rng):
    sample, gamma = make_sample(rng), 0.01
    u, free = gamma * differences(sample), np.arange(12) % 3 > 0
    expected = (-u / 2 + u**2 / 8 - u**4 / 192)[free].sum(axis=0)
    np.testing.assert_allclose(series_of(sample, gamma).log_terms(free, whole=True), expected, atol=1e-13)


def test_some_of_the_features(rng):
    sample = make_sample(rng)
    chosen = np.arange(12) % 2 == 0
    some, alone = series_of(sample, 0.01).only(chosen), CubicSeries.of(sample, 0.01, chosen)
    np.testing.assert_array_equal(some.features, chosen)
    np.testing.assert_allclose(some.score_error, alone.score_error, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("fixed", [False, True])
def test_the_closed_form_takes_it_and_stays_within_the_bounds(rng, monkeypatch, kind, dtype, fixed):
    sample = make_sample(rng, kind, m=80, n=24, dtype=dtype)
    sample = Sample.of(sample.X, sample.target, np.arange(24) < 3 if fixed else None)
    gamma = median_gamma(sample.distances)
    expected = cf.closed_form(sample, gamma)
    taken = []
    original = CubicSeries.products
    monkeypatch.setattr(CubicSeries, "products", lambda self, A: taken.append(self) or original(self, A))
    monkeypatch.setattr(cf, "DEAR", 0)
    found = cf.closed_form(sample, gamma)
    assert taken
    assert kind == "heavy tails" or taken[0].features.sum() > 12
    rounding = 1e-9 if dtype is np.float64 else 2e-3
    of_total, of_scores = found.bounds()
    exact = expected.relative * np.exp(expected.log_scale - found.log_scale)
    assert np.all(np.abs(found.relative - exact) <= of_total + rounding * np.abs(exact).max())
    for name in ("main", "interaction"):
        error = np.abs(getattr(found, name) - getattr(expected, name))
        assert np.all(error <= of_scores + rounding)
    assert of_scores.max() <= 2 * cf.TOLERANCE


def test_a_large_range_is_not_tried(rng, monkeypatch):
    sample = make_sample(rng)
    monkeypatch.setattr(cf, "DEAR", 0)
    monkeypatch.setattr(cubic_series.CubicSeries, "of", None)
    cf.closed_form(sample, 2 * cubic_series.REACH / float(sample.moments[2].min()) ** 2)
