"""Cells of outcomes.py with survival times: errors under censoring, and power beside the Cox score test."""

from functools import partial
from itertools import product

import numpy as np
from cells import OURS, Cell, any_called, value_of
from scipy.stats import chi2

from randsel import InteractionScan, RandSel
from randsel.targets._survival import cox_log_risks

N_FEATURES, N_DRIVEN, N_RELEVANT = 1000, 200, 5
#: Number of samples -> effect of each relevant feature on the log hazard.
EFFECTS = {100: 0.8, 200: 0.6}
SHAPES = {"linear effect": lambda x: x, "U-shaped effect": lambda x: x**2 - 1.0}
COX, COX_GIVEN, UNADJUSTED = "Cox score", "Cox score, adjusted", "not adjusted"
FILES = ("outcomes_survival.py",)


def draw_survival(rng, log_hazard, censored, log_hazard_of_censoring=0.0):
    """Return events and times, with exponential times of the event and of censoring.

    `censored` is the fraction of censored samples where neither hazard depends on the sample.
    """
    n = len(log_hazard)
    event_time = rng.exponential(size=n) * np.exp(-log_hazard)
    censoring_time = rng.exponential((1.0 - censored) / censored, size=n) * np.exp(-log_hazard_of_censoring)
    y = np.zeros(n, dtype=[("event", bool), ("time", float)])
    y["event"], y["time"] = event_time <= censoring_time, np.minimum(event_time, censoring_time)
    return y


def cox_score_pvalues(X, y, z=None):
    """Return the p-values of the score tests of Cox models, one per column of X, given the covariate z if there is one.

    With weights r = exp(βz) of the samples at risk, U = Σ events (x - E[x]) and V = Σ events Var[x] at their times;
    what z explains of x in this metric is removed: V - I_xz² / I_zz. Times are distinct.
    """
    order = np.argsort(-y["time"])  # samples at risk at a time are those before it in this order
    X, event = X[order], y["event"][order]
    z = np.zeros(len(X)) if z is None else z[order]
    risk = np.ones(len(X)) if not z.any() else np.exp(cox_log_risks(y["time"][order], event, z[:, None]))
    total = np.cumsum(risk)

    def mean_at_risk(values):
        return (np.cumsum(values * risk[:, None], axis=0) / total[:, None])[event]

    mean_x, mean_z = mean_at_risk(X), mean_at_risk(z[:, None])
    score = (X[event] - mean_x).sum(axis=0)
    variance = (mean_at_risk(X * X) - mean_x**2).sum(axis=0)
    if z.any():
        covariance = (mean_at_risk(X * z[:, None]) - mean_x * mean_z).sum(axis=0)
        variance = variance - covariance**2 / (mean_at_risk(z[:, None] ** 2) - mean_z**2).sum()
    return chi2.sf(score**2 / variance, 1)


# ---------------------------------------------------------------- errors


def errors_if_independent(rng, n, censored):
    """Return whether any feature is called, where no feature has an effect and censoring is independent."""
    X = rng.normal(size=(n, N_FEATURES))
    y = draw_survival(rng, np.zeros(n), censored)
    return [
        any_called(InteractionScan(order=1).fit(X, y).main_pvalues_),
        any_called(cox_score_pvalues(X, y), COX),
        value_of("events", OURS, y["event"].sum()),
    ]


def errors_given_covariate(rng, n, censored, sign):
    """Return whether any feature is called, where hazard, censoring and 200 features depend on a covariate.

    `sign` is that of the covariate's effect on the hazard of censoring.
    """
    z = rng.normal(size=n)
    X = rng.normal(size=(n, N_FEATURES))
    X[:, :N_DRIVEN] += z[:, None]
    y = draw_survival(rng, 0.7 * z, censored, sign * z)
    scan = InteractionScan(order=1)
    return [
        any_called(scan.fit(X, y, covariates=z).main_pvalues_),
        any_called(scan.fit(X, y).main_pvalues_, UNADJUSTED),
        any_called(cox_score_pvalues(X, y, z), COX_GIVEN),
        value_of("events", OURS, y["event"].sum()),
    ]


# ---------------------------------------------------------------- power


def power_of_features(rng, n, censored, shape):
    """Return the fraction of five relevant features that are called, and recall of the first five."""
    X = rng.normal(size=(n, N_FEATURES))
    relevant = np.arange(N_RELEVANT)
    y = draw_survival(rng, EFFECTS[n] * SHAPES[shape](X[:, relevant]).sum(axis=1), censored)
    pvalues = {OURS: InteractionScan(order=1).fit(X, y).main_pvalues_, COX: cox_score_pvalues(X, y)}
    first = {
        COX: np.argsort(pvalues[COX])[:N_RELEVANT],
        "RandSel(5)": RandSel(N_RELEVANT).fit(X, y).order_[:N_RELEVANT],
    }
    return [
        *(value_of("called", test, (p[relevant] * N_FEATURES <= 0.05).mean()) for test, p in pvalues.items()),
        *(any_called(p[N_RELEVANT:], test, "any other called") for test, p in pvalues.items()),
        *(value_of("recall of 5", test, np.isin(relevant, columns).mean()) for test, columns in first.items()),
    ]


# ---------------------------------------------------------------- list


def survival_cells():
    """Yield all cells of survival times."""
    for n, censored in product((100, 200), (0.3, 0.6, 0.9)):
        arguments, name = {"n": n, "censored": censored}, f"{100 * censored:.0f} % censored"
        yield cell(f"independent/{name}/n {n}", 200, errors_if_independent, **arguments)
        for shape in SHAPES:
            yield cell(f"power/{shape}/{name}/n {n}", 200, power_of_features, shape=shape, **arguments)
        for sign, who in ((1.0, "higher"), (-1.0, "lower")) if censored < 0.9 else ():
            situation = f"{name}, {who} risk earlier"
            yield cell(f"dependent/{situation}/n {n}", 200, errors_given_covariate, sign=sign, **arguments)


def cell(name, n_sets, simulate, **arguments):
    return Cell(f"survival/{name}", n_sets, partial(simulate, **arguments), files=FILES)
