"""Largest possible errors of a closed form through its series, from literal matrices over pairs."""

import numpy as np
import reference

from randsel._numerics.arrays import safe_ratio
from randsel._numerics.kernels import null_scale
from randsel.contribution._closed_form import FirstOrderBounds


def first_order_bounds(sample, gamma):
    """Return the bounds that the closed form starts from."""
    series = sample.factor.series
    return FirstOrderBounds.from_moments(sample.moments, len(sample.X), gamma, sample.factor, series)


def error_bounds(sample, gamma, routes):
    """Return bounds on the errors of `relative` and of both scores, for every feature."""
    m, bounds = len(sample.X), first_order_bounds(sample, gamma)
    bounds = bounds.sharpen(sample.X, bounds.score_errors > 0.2)
    slope = sample.factor.least_slope(bounds.reach)
    function_error = np.where(routes.first_order, 1 - slope, 0.0) * sample.moments.pair_norm * gamma
    score_errors = np.where(routes.first_order, bounds.score_errors, 0.0)
    if routes.cubic is not None:
        function_error[routes.cubic.features] = routes.cubic.error
        score_errors[routes.cubic.features] = routes.cubic.score_errors
    log_error = routes.log_error(bounds, ~sample.fixed)
    L, Q, off = sample.target.kernel, expected_kernel(sample, gamma), ~np.eye(m, dtype=bool)
    largest = np.abs(L[off]).max()
    total_errors = (
        function_error * np.linalg.norm((L * Q)[off]) + sample.moments.pair_norm * largest * gamma * log_error
    )
    for i in np.flatnonzero(sample.fixed):
        z = np.exp(-gamma * (sample.X[:, i, None] - sample.X[None, :, i]) ** 2)
        total_errors[i] = np.linalg.norm((L * Q / z * (z - 1))[off]) * log_error
    A = reference.hollow(L * reference.hollow(Q))
    turn = min(float(safe_ratio(np.asarray(log_error * largest), np.asarray(np.linalg.norm(A)))), 1.0)
    return total_errors / sample.target.n_pairs, score_errors + null_scale(m) * 2 * np.sin(np.arcsin(turn) / 2)


def expected_kernel(sample, gamma):
    """Return Q divided by its largest entry off the diagonal."""
    log_expected = np.zeros((len(sample.X), len(sample.X)))
    for x, fixed in zip(sample.X.T.astype(float), sample.fixed, strict=True):
        u = gamma * (x[:, None] - x[None, :]) ** 2
        log_expected += -u if fixed else np.log((1 + np.exp(-u)) / 2)
    off = ~np.eye(len(log_expected), dtype=bool)
    return np.where(off, np.exp(log_expected - log_expected[off].max()), 0.0)


def record_routes(monkeypatch, module):
    """Return a list that gets the routes of every evaluation from here on."""
    routes, evaluate = [], module._evaluate
    monkeypatch.setattr(module, "_evaluate", lambda *arguments: routes.append(arguments[3]) or evaluate(*arguments))
    return routes
