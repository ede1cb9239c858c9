"""Survival: hazards, residuals, Cox model, concordance and curves, against literal twins and against lifelines."""

import itertools
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import reference
from scipy.optimize import minimize
from sklearn.base import BaseEstimator
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from randsel import BaHSIC, CorrelationFilter, InteractionScan, RandSel, RandSelCV
from randsel._numerics.event_times import survival_array
from randsel._numerics.nuisance import Nuisance
from randsel.targets import SURVIVAL, Target, check_outcome, find_kind
from randsel.targets._kinds import MartingaleSVR
from randsel.targets._survival import (
    concordance_index,
    cox_log_risks,
    cumulative_hazard,
    kaplan_meier,
    martingale_residuals,
)

pytestmark = pytest.mark.filterwarnings("ignore:Nothing stands out")


def simulate(seed=0, m=60, n=10, ties=False, effect=1.0):
    """Return X, y and covariates; the first two features shorten the time."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n))
    time = rng.exponential(np.exp(-effect * X[:, :2].sum(axis=1)))
    end = rng.exponential(1.5, m)
    observed = np.minimum(time, end)
    observed = np.ceil(4 * observed) / 4 if ties else observed
    return X, survival_array(time < end, observed), rng.normal(size=(m, 2))


CASES = list(itertools.product([False, True], [False, True], [False, True]))


@pytest.mark.parametrize(("ties", "weighted", "stratified"), CASES)
def test_residuals_are_those_of_the_definition(ties, weighted, stratified):
    _, y, Z = simulate(1, m=40, ties=ties)
    rng = np.random.default_rng(2)
    weights = rng.uniform(0.2, 2.0, 40) if weighted else None
    strata = rng.integers(0, 3, 40) if stratified else None
    null = martingale_residuals(y["time"], y["event"], weights, strata)
    np.testing.assert_allclose(null, reference.martingale_residuals(y["time"], y["event"], weights, strata), atol=1e-12)
    log_risks = cox_log_risks(y["time"], y["event"], Z, weights, strata)
    expected = reference.martingale_residuals(y["time"], y["event"], weights, strata, np.exp(log_risks))
    residuals = martingale_residuals(y["time"], y["event"], weights, strata, Z)
    np.testing.assert_allclose(residuals, expected, atol=1e-12)
    # the weighted sum of the residuals is zero in every stratum, and at the maximum so is that of their products with Z
    w, s = np.ones(40) if weights is None else weights, np.zeros(40) if strata is None else strata
    for values in (null, residuals):
        assert all(abs((w * values)[s == k].sum()) < 1e-10 for k in np.unique(s))
    assert np.abs(Z.T @ (w * residuals)).max() < 0.01


@pytest.mark.parametrize(("ties", "weighted", "stratified"), CASES)
def test_the_cox_model_maximises_the_likelihood(ties, weighted, stratified):
    X, y, Z = simulate(3, m=40, ties=ties)
    Z[:, 0] += X[:, 0]
    rng = np.random.default_rng(4)
    data = (
        y["time"],
        y["event"],
        Z,
        rng.uniform(0.2, 2.0, 40) if weighted else None,
        rng.integers(0, 2, 40) if stratified else None,
    )
    best = minimize(lambda beta: -reference.cox_log_likelihood(beta, *data), np.zeros(2), tol=1e-10).x
    log_risks = cox_log_risks(*data[:3], *data[3:])
    expected = Z @ best
    np.testing.assert_allclose(np.ptp(log_risks - expected), 0.0, atol=5e-3)


def test_separated_and_collinear_covariates_stay_finite():
    _, y, Z = simulate(5)
    for covariates in (
        np.column_stack([Z, Z[:, 0], np.ones(60)]),
        -y["time"][:, None],
        y["event"][:, None].astype(float),
        1e8 * Z,
        np.argsort(np.argsort(-y["time"]))[:, None] ** 3.0,
    ):
        residuals = martingale_residuals(y["time"], y["event"], None, None, covariates)
        assert np.isfinite(residuals).all()


def test_a_cox_model_that_does_not_converge_says_so(monkeypatch):
    _, y, Z = simulate(5)
    monkeypatch.setattr("randsel.targets._survival.MAX_STEPS", 1)
    with pytest.raises(ValueError, match="does not converge; look for covariates that determine the events"):
        cox_log_risks(y["time"], y["event"], Z)


@pytest.mark.parametrize("ties", [False, True])
def test_concordance_and_curve_are_those_of_the_definition(ties, monkeypatch):
    X, y, _ = simulate(6, m=50, ties=ties)
    for risks in (X[:, 0], np.round(X[:, 0]), np.zeros(50), -X[:, 0]):
        expected = reference.concordance_index(y["time"], y["event"], risks)
        assert concordance_index(y["time"], y["event"], risks) == pytest.approx(expected, abs=1e-12)
        with monkeypatch.context() as patch:
            patch.setattr("randsel.targets._survival.PAIRS_AT_A_TIME", 70)
            assert concordance_index(y["time"], y["event"], risks) == pytest.approx(expected, abs=1e-12)
    curve = kaplan_meier(y["time"], y["event"])
    for moment, survival, n_at_risk in zip(curve.times, curve.survival, curve.n_at_risk, strict=True):
        assert survival == pytest.approx(reference.survival_at(moment, y["time"], y["event"]), abs=1e-12)
        assert n_at_risk == (y["time"] >= moment).sum()
    assert curve.n_censored.sum() == (~y["event"]).sum()
    assert np.isnan(concordance_index(np.arange(3.0), np.zeros(3, dtype=bool), np.zeros(3)))


@pytest.mark.filterwarnings("ignore")  # of lifelines
def test_lifelines_agrees():
    lifelines = pytest.importorskip("lifelines", reason="lifelines is not installed")
    from lifelines.utils import concordance_index as their_index  # noqa: PLC0415

    X, y, Z = simulate(7, m=80)
    _, tied, _ = simulate(7, m=80, ties=True)
    for outcome in (y, tied):
        time, event = outcome["time"], outcome["event"]
        hazard = lifelines.NelsonAalenFitter(nelson_aalen_smoothing=False).fit(time, event).cumulative_hazard_
        ours = cumulative_hazard(time, event)
        np.testing.assert_allclose(ours, hazard.loc[time].to_numpy()[:, 0], atol=1e-10)
        curve, theirs = kaplan_meier(time, event), lifelines.KaplanMeierFitter().fit(time, event)
        np.testing.assert_allclose(
            curve.survival, theirs.survival_function_.loc[curve.times].to_numpy()[:, 0], atol=1e-10
        )
        risks = np.round(X[:, 0], 1)
        assert concordance_index(time, event, risks) == pytest.approx(their_index(time, -risks, event), abs=1e-12)
    strata = np.arange(80) % 3
    frame = pd.DataFrame({"a": Z[:, 0], "b": Z[:, 1], "time": y["time"], "event": y["event"], "s": strata})
    for labels, options in ((None, {}), (strata, {"strata": ["s"]})):
        columns = ["a", "b", "time", "event", *(["s"] if options else [])]
        cox = lifelines.CoxPHFitter().fit(frame[columns], "time", "event", **options)
        log_risks = cox_log_risks(y["time"], y["event"], Z, None, labels)
        beta = np.linalg.lstsq(Z - Z.mean(axis=0), log_risks, rcond=None)[0]
        np.testing.assert_allclose(beta, cox.params_.to_numpy(), atol=3e-4)
        theirs = cox.compute_residuals(frame[columns], "martingale")["martingale"].sort_index().to_numpy()
        ours = martingale_residuals(y["time"], y["event"], None, labels, Z)
        np.testing.assert_allclose(ours, theirs, atol=5e-4)


# ---------------------------------------------------------------- the outcome


def same(first, second):
    return np.array_equal(first["event"], second["event"]) and np.array_equal(first["time"], second["time"])


def test_survival_is_recognised():
    _, y, _ = simulate()
    event, time = y["event"], y["time"]
    other_names = np.array(list(zip(event, time, strict=True)), dtype=[("Status", "?"), ("Survival_in_days", "<f4")])
    assert find_kind(check_outcome(other_names), "auto") is SURVIVAL
    np.testing.assert_allclose(check_outcome(other_names)["time"], time, rtol=1e-6)
    frames = [
        pd.DataFrame({"a": event, "b": time}),
        pd.DataFrame({"b": time, "a": event}),
        pl.DataFrame({"b": time, "a": event}),
        pd.DataFrame({"days": time, "death": event.astype(int)}),
        pd.DataFrame({"status": event.astype(float), "time": time}),
        pd.DataFrame({"a": event, "b": time}).convert_dtypes(),
    ]
    for frame in frames:
        assert same(check_outcome(frame), y)
        assert same(check_outcome(frame, "survival"), y)
    assert same(check_outcome(np.column_stack([time, event]), "survival"), y)
    assert check_outcome(np.column_stack([time, event])).shape == (60, 2)  # two outputs, as ever
    numbers = pd.DataFrame({"a": event.astype(int), "b": time})
    assert same(check_outcome(numbers, "survival"), y)
    with pytest.warns(UserWarning, match="'a'.*'b'.* taken for two outputs. If they are events and times, pass target"):
        assert check_outcome(numbers).shape == (60, 2)
    assert check_outcome(numbers, "regression").shape == (60, 2)
    one_and_two = pd.DataFrame({"status": event + 1, "time": time})
    with pytest.warns(UserWarning, match=r"y has a column of 1 and 2 .'status'.* write 1 for events and 0 for others"):
        assert check_outcome(one_and_two).shape == (60, 2)
    gap = numbers.assign(a=np.where(np.arange(60) == 4, np.nan, event))
    with pytest.warns(UserWarning, match="y has a column of 0 and 1 .'a'"), pytest.raises(ValueError, match="NaN"):
        check_outcome(gap)
    assert check_outcome(pd.DataFrame({"a": time, "b": time})).shape == (60, 2)
    ones = pd.DataFrame({"event": event.astype(int), "time": np.ones(60)})
    assert same(check_outcome(ones, "survival"), survival_array(event, np.ones(60)))


def refused(message, X, y, **options):
    for selector in (
        RandSel(**options),
        InteractionScan(**options),
        RandSelCV(selector=RandSel(**options), cv=2, gammas=["median"]),
    ):
        with pytest.raises(ValueError, match=message):
            selector.fit(X, y)


def changed(y, row, time=None, event=None):
    y = y.copy()
    y["time"][row] = y["time"][row] if time is None else time
    y["event"][row] = y["event"][row] if event is None else event
    return y


def test_bad_survival_outcomes_name_cause_and_remedy():
    X, y, _ = simulate()
    event, time = y["event"], y["time"]
    refused("all 60 samples of y are censored, so there is nothing to explain", X, survival_array(event & False, time))
    refused(r"times of y must be above zero, but 1 is not, the first in row 3 \(-1\)", X, changed(y, 3, -1.0))
    refused(r"must be above zero.*row 5 \(0\); correct them", X, changed(y, 5, 0.0))
    refused("NaN or infinite times in 1 of 60 samples; row 2 has no time", X, changed(y, 2, np.nan, False))
    refused("row 2 has an event but no time. Drop", X, changed(y, 2, np.nan, True))
    refused("NaN or infinite times", X, changed(y, 2, np.inf, True))
    refused("all times of y are equal", X, survival_array(event, np.full(60, 2.0)))
    swapped = np.array(list(zip(time, event, strict=True)), dtype=[("time", float), ("event", bool)])
    refused(
        re.escape("the fields of y are swapped: 'time' holds numbers") + ".*pass y\\[\\['event', 'time'\\]\\]",
        X,
        swapped,
    )
    assert same(check_outcome(swapped[["event", "time"]]), y)
    codes = np.array(list(zip(event, time, strict=True)), dtype=[("event", int), ("time", float)])
    refused("the fields 'event' of int64, 'time' of float64; pass a structured array of a bool field", X, codes)
    three = np.zeros(60, dtype=[("a", bool), ("b", float), ("c", float)])
    refused("fields 'a' of bool, 'b' of float64, 'c'", X, three)
    text = np.zeros(60, dtype=[("a", bool), ("b", "U5")])
    refused("fields 'a' of bool, 'b' of <U5", X, text)
    refused("does not fit events and times; leave it out", X, y, target="regression")
    refused("does not fit events and times", X, y, target="classification")
    refused("target='survival' needs events and times; pass a structured array", X, time, target="survival")
    refused("neither column of y", X, np.column_stack([time, time]), target="survival")
    refused("events cannot be told from times", X, np.column_stack([event, event]) * 1.0, target="survival")
    refused("'Censored' of y may say who did not have the event", X, pd.DataFrame({"Censored": event, "time": time}))
    mixed = pd.DataFrame({"time": event, "status": time})
    refused("names of the columns of y contradict their values: 'time' holds events, 'status' times", X, mixed)
    refused("must hold times, but is of type", X, pd.DataFrame({"a": event, "b": ["x"] * 60}), target="survival")
    words = np.where(event, "dead", "alive")
    refused(r"neither column of y \('time', 'event'\) holds events", X, pd.DataFrame({"time": time, "event": words}))
    text = pd.DataFrame({"event": event, "time": time.astype(str)})
    refused("column 'time' of y must hold times, but is of type object", X, text)
    gap = pd.DataFrame({"time": time, "status": np.where(np.arange(60) == 4, np.nan, event)})
    for frame in (gap, gap.astype({"status": "Int64"})):
        for target in ("auto", "survival"):
            message = "Input y contains NaN in 1 of 60 samples: row 4 has no event in column 'status'. Drop"
            refused(message, X, frame, target=target)
    last = np.arange(60) == np.argmax(time)
    for selector in (RandSel(), InteractionScan()):
        with pytest.raises(ValueError, match="another sample at risk, so nothing can be compared; follow"):
            selector.fit(X, survival_array(last, time))
        with pytest.raises(ValueError, match=r"at risk within its batch, .* leave batch out, or merge batches"):
            selector.fit(X, survival_array(last, time), batch=np.arange(60) % 2)
    for selector in (RandSel(), InteractionScan()):
        with pytest.raises(ValueError, match="at least 4 are needed"):
            selector.fit(X[:3], y[:3])


def test_a_selector_takes_survival_for_its_residuals():
    X, y, _ = simulate(8, m=100)
    weights = np.where(np.arange(100) < 90, 1.0 + np.arange(100) % 3, 0.0)
    batch = np.arange(100) % 4
    used = weights > 0.0
    for options in ({}, {"batch": batch}, {"sample_weight": weights}, {"batch": batch, "sample_weight": weights}):
        rows = used if "sample_weight" in options else np.full(100, True)
        arguments = {name: values[rows] for name, values in options.items()}
        numbers = martingale_residuals(
            y["time"][rows], y["event"][rows], arguments.get("sample_weight"), arguments.get("batch")
        )
        expected = RandSel(target="regression").fit(X[rows], numbers, **arguments)
        fitted = RandSel().fit(X, y, **options)
        np.testing.assert_allclose(fitted.contributions_, expected.contributions_, rtol=1e-8)
        np.testing.assert_array_equal(fitted.order_, expected.order_)
        scan = InteractionScan(order=1).fit(X, y, **options)
        their_scan = InteractionScan(order=1, target="regression").fit(X[rows], numbers, **arguments)
        np.testing.assert_allclose(scan.pvalues_, their_scan.pvalues_, rtol=1e-6)


def test_groups_of_one_outcome_are_compared_as_groups():
    X, y, _ = simulate(9, m=60)
    groups = np.repeat(np.arange(60), 2)
    noise = np.random.default_rng(0).normal(size=(120, 10))
    scan = InteractionScan(order=1).fit(X[groups] + 0.1 * noise, y[groups], groups=groups)
    assert scan.comparison_ == "between groups"
    assert set(np.argsort(scan.pvalues_)[:2]) == {0, 1}
    assert set(RandSel(2).fit(X[groups] + 0.1 * noise, y[groups], groups=groups).get_support(indices=True)) == {0, 1}


def test_time_may_be_measured_in_any_unit():
    X, y, _ = simulate(10)
    later = survival_array(y["event"], np.exp(y["time"]) * 365.0)
    np.testing.assert_array_equal(RandSel().fit(X, y).contributions_, RandSel().fit(X, later).contributions_)


def test_baselines_and_stand_ins_take_survival():
    X, y, _ = simulate(11, m=100)
    for selector in (CorrelationFilter(2), BaHSIC(2)):
        assert set(selector.fit(X, y).get_support(indices=True)) == {0, 1}
    X[:, 7] = X[:, 0] + 0.1 * X[:, 7]
    selector = RandSel(2).fit(X, y)
    first = next(column for column in (0, 7) if selector.support_[column])
    stand_ins = selector.stand_ins(X, y)
    assert set(stand_ins) == set(selector.get_support(indices=True))
    assert np.isfinite([s.loss for s in stand_ins[first]]).all()
    np.testing.assert_allclose(
        Target.encode(y, SURVIVAL).Y[:, 0], Target.encode(*SURVIVAL.to_numbers(y)).Y[:, 0], atol=1e-12
    )
    np.testing.assert_allclose(SURVIVAL.contrasts(y, Nuisance.from_samples(100, None, None)).std(), 1.0)


# ---------------------------------------------------------------- models and folds


class Opposite(BaseEstimator):
    """A model in the style of scikit-survival: structured y, a score of its own."""

    def fit(self, X, y):
        assert y.dtype.names == ("event", "time")
        self.model_ = Ridge().fit(X, -np.log(y["time"]))
        return self

    def predict(self, X):
        return self.model_.predict(X)

    def score(self, X, y):
        return concordance_index(y["time"], y["event"], self.predict(X))


def test_cross_validation_scores_by_concordance():
    X, y, _ = simulate(12, m=120)
    for model in (None, Opposite(), make_pipeline(MartingaleSVR()), Ridge):
        if model is Ridge:
            with pytest.raises(ValueError, match="cannot score survival times"):
                RandSelCV(scoring="r2", cv=2, gammas=["median"]).fit(X, y)
            continue
        selector = RandSelCV(model, cv=3, gammas=["median"]).fit(X, y)
        assert {0, 1} <= set(selector.get_support(indices=True))
        assert selector.best_score_ > 0.65
    weights = np.where(np.arange(120) < 100, 1.0, 0.0)
    assert RandSelCV(cv=3, gammas=["median"]).fit(X, y, weights, groups=np.arange(120) // 2).best_score_ > 0.6
    assert cross_val_score(make_pipeline(RandSel(2), MartingaleSVR()), X, y, cv=3).mean() > 0.6
    assert SURVIVAL.chance_score(y) == SURVIVAL.score(y, np.zeros(120)) == 0.5


def test_folds_have_equal_fractions_of_events():
    X, y, _ = simulate(13, m=90)
    y["event"] = np.arange(90) < 30
    for groups in (None, np.arange(90) // 2):
        folds = SURVIVAL.splits(y, groups, 5, 0)
        assert sorted(np.concatenate([test for _, test in folds])) == list(range(90))
        assert [int(y["event"][test].sum()) for _, test in folds] == [6] * 5
    y["event"] = np.arange(90) > 1  # two censored samples do not limit the number of folds
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(SURVIVAL.splits(y, None, 5, 0)) == 5
    assert SURVIVAL.units_per_stratum(y, None).tolist() == [44]
    y["event"] = np.arange(90) < 7
    with pytest.warns(UserWarning, match="reduced to 3 folds, because there are only 3 pairs of events"):
        RandSelCV(cv=5, gammas=["median"]).fit(X, y)
    y["event"] = np.arange(90) < 3
    with pytest.raises(
        ValueError,
        match=r"y has fewer than four events, too few for both .* of a fold; follow samples longer, or pass splits",
    ):
        RandSelCV(cv=5, gammas=["median"]).fit(X, y)
