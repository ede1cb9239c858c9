"""What holds for any table: generated shapes, types, degenerate columns, scales, weights, groups.

`make test` draws 200 tables; `make nightly` sets RANDSEL_CASES=2000.
"""

import os
import warnings
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata

from randsel import InteractionScan, RandSel, RandSelCV

CASES = int(os.environ.get("RANDSEL_CASES", "200"))
#: Each test gets its share of the cases.
SHARES = {"selector": 0.6, "scan": 0.3, "cross-validation": 0.1}


def cases(name):
    return settings(
        max_examples=max(1, round(SHARES[name] * CASES)),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )


@dataclass(frozen=True)
class Problem:
    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None
    wanted: int


def column(rng, kind, m, exponent):
    """One column of a kind, in units of a power of ten."""
    values = {
        "normal": rng.normal(size=m),
        "heavy": rng.standard_t(1.5, m),
        "binary": (rng.random(m) < 0.5).astype(float),
        "rare": (np.arange(m) == rng.integers(m)).astype(float),
        "levels": rng.integers(0, 3, m).astype(float),
        "constant": np.full(m, rng.normal()),
        "offset": 1.0 + 1e-6 * rng.normal(size=m),
    }[kind]
    with np.errstate(over="ignore", under="ignore"):
        return values * 10.0**exponent


KINDS = st.sampled_from(["normal", "heavy", "binary", "rare", "levels", "constant", "offset"])


@st.composite
def problems(draw, most_rows=40):
    m, n = draw(st.integers(4, most_rows)), draw(st.integers(2, 24))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from([np.float64, np.float64, np.float32, np.int64]))
    limit = {np.float64: 300, np.float32: 30, np.int64: 0}[dtype]
    kinds = draw(st.lists(KINDS, min_size=n, max_size=n))
    exponents = draw(st.lists(st.sampled_from([-limit, 0, 0, 0, limit]), min_size=n, max_size=n))
    X = np.column_stack([column(rng, kind, m, e) for kind, e in zip(kinds, exponents, strict=True)])
    if draw(st.booleans()):  # some columns twice
        X = np.concatenate([X, X[:, : draw(st.integers(1, n))]], axis=1)
    y = {
        "two": lambda: rng.integers(0, 2, m),
        "three": lambda: rng.integers(0, 3, m).astype(str),
        # scikit-learn's own scores overflow beyond
        "numbers": lambda: rng.normal(size=m) * 10.0 ** rng.integers(-100, 100),
        "of a column": lambda: (X[:, 0] > np.median(X[:, 0])).astype(int),
    }[draw(st.sampled_from(["two", "three", "numbers", "of a column"]))]()
    weights = draw(st.sampled_from([None, "any", "zeros"]))
    weights = None if weights is None else rng.random(m) * (1.0 if weights == "any" else rng.random(m) < 0.7)
    with np.errstate(invalid="ignore", over="ignore"):
        return Problem(X.astype(dtype), y, weights, draw(st.integers(1, X.shape[1])))


def fit(selector, problem, X=None, **others):
    """Fit, or end the case if the documented error says why not: one or two sentences."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            return selector.fit(problem.X if X is None else X, problem.y, problem.weights, **others)
        except ValueError as error:
            refusal = str(error)
    event(f"refused: {refusal[:40]}")
    assert 20 < len(refusal) < 400
    return assume(False)


@pytest.mark.slow
@cases("selector")
@given(problem=problems(), seed=st.integers(0, 1000), gamma=st.sampled_from(["median", "0.1*median", 0.01]))
def test_the_selector_on_any_table(problem, seed, gamma):
    selector = fit(RandSel(problem.wanted, gamma=gamma), problem)
    X = problem.X[problem.weights > 0] if problem.weights is not None else problem.X
    n = X.shape[1]
    assert selector.support_.sum() == problem.wanted
    assert sorted(selector.order_.tolist()) == list(range(n))
    first = selector.path_.rounds[0]
    for values in (first.contributions, first.main, first.interaction, selector.contributions_):
        assert np.isfinite(values).all()
    # constant columns come last
    constant = (X[0] == X).all(axis=0)
    if not constant.all():
        assert selector.ranking_[constant].min(initial=n) >= selector.ranking_[~constant].max(initial=0) or (
            problem.wanted > (~constant).sum()
        )
    # copies tie
    tolerance = (1e-9 if X.dtype != np.float32 else 1e-3) * max(np.abs(first.scores).max(), 1.0)
    for (i, score), (j, other) in combinations(zip(first.features, first.scores, strict=True), 2):
        if np.array_equal(X[:, i], X[:, j]):
            assert score == pytest.approx(other, abs=tolerance)
    # columns in another order: the same columns, by the ranks of what they hold, as columns of equal ranks tie
    order = np.random.default_rng(seed).permutation(n)
    again = fit(RandSel(problem.wanted, gamma=gamma), problem, problem.X[:, order])
    if not constant.any():
        chosen, chosen_again = (
            rankdata(X[:, selector.support_], axis=0),
            rankdata(X[:, order][:, again.support_], axis=0),
        )
        assert sorted(map(tuple, chosen.T)) == sorted(map(tuple, chosen_again.T))


@pytest.mark.slow
@cases("scan")
@given(problem=problems(most_rows=30), seed=st.integers(0, 1000))
def test_the_scan_on_any_table(problem, seed):
    scan = fit(InteractionScan(problem.wanted, n_functions=2), problem)
    assert scan.support_.sum() == problem.wanted
    for p in (scan.pvalues_, scan.qvalues_, scan.main_pvalues_):
        assert np.all((p >= 0.0) & (p <= 1.0))
    order = np.random.default_rng(seed).permutation(problem.X.shape[1])
    again = fit(InteractionScan(problem.wanted, n_functions=2), problem, problem.X[:, order])
    np.testing.assert_allclose(again.pvalues_, scan.pvalues_[order], rtol=1e-5, atol=1e-12)


@pytest.mark.slow
@cases("cross-validation")
@given(problem=problems())
def test_cross_validation_on_any_table(problem):
    groups = np.arange(len(problem.y)) // 2
    found = fit(RandSelCV(cv=2, gammas=("median",)), replace(problem, weights=None), groups=groups)
    assert 1 <= found.support_.sum() <= problem.X.shape[1]
