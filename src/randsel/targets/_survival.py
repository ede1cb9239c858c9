"""Survival times: cumulative hazard, martingale residuals, Cox model, concordance index, Kaplan-Meier curve.

With the weights w, the events δ and the relative risks r of the samples at risk at the k-th distinct time of a stratum,

    H(t) = Σ_{t_k ≤ t} d_k / R_k,      d_k = Σ_{t_i = t_k} w_i δ_i,      R_k = Σ_{t_i ≥ t_k} w_i r_i
    M_i  = δ_i - r_i H(t_i)

H is the estimate of Nelson and Aalen if all r are one, and that of Breslow if r = exp(βᵀx) is the risk of a Cox model.
M is the martingale residual: the number of events of a sample, minus its expected number of events.
"""

from typing import NamedTuple

import numpy as np

from randsel._utils.typing import Array

#: Penalty on the squared coefficients of standardised covariates, per event: too small to change an estimate that
#: exists, large enough to keep one finite if covariates are collinear or separate the events.
RIDGE = 1e-4
#: The Newton steps have converged if a step promises to raise the log likelihood, per event, by less than this.
TOLERANCE = 1e-12
MAX_STEPS = 100
MAX_HALVINGS = 40
#: Number of pairs of samples that `concordance_index` compares at a time.
PAIRS_AT_A_TIME = 1 << 22


class Stratum(NamedTuple):
    """Samples of one stratum, in ascending order of time."""

    rows: Array  # of the samples
    starts: Array  # position of the first sample of every distinct time
    blocks: Array  # number of the distinct time of every sample

    @classmethod
    def from_times(cls, time: Array, rows: Array) -> "Stratum":
        """Sort some rows by their times."""
        rows = rows[np.argsort(time[rows], kind="stable")]
        is_first = np.diff(time[rows], prepend=-np.inf) > 0.0
        return cls(rows, np.flatnonzero(is_first), np.cumsum(is_first) - 1)

    def sums_at_times(self, values: Array) -> Array:
        """Return the sum of the values (first axis: samples) at every distinct time."""
        return np.add.reduceat(values[self.rows], self.starts, axis=0)

    def sums_at_risk(self, values: Array) -> Array:
        """Return the sum of the values of the samples at risk at every distinct time."""
        return np.cumsum(values[self.rows][::-1], axis=0)[::-1][self.starts]


def _split_strata(time: Array, strata: Array | None) -> list[Stratum]:
    labels = np.zeros(len(time), dtype=int) if strata is None else np.unique(strata, return_inverse=True)[1]
    return [Stratum.from_times(time, np.flatnonzero(labels == k)) for k in range(int(labels.max()) + 1)]


def cumulative_hazard(
    time: Array, event: Array, weights: Array | None = None, strata: Array | None = None, risks: Array | None = None
) -> Array:
    """Return the cumulative hazard of every sample at its own time, within its stratum; `risks` are relative."""
    weights = np.ones(len(time)) if weights is None else np.asarray(weights, dtype=np.float64)
    deaths, at_risk = weights * event, weights if risks is None else weights * risks
    hazard = np.zeros(len(time))
    for stratum in _split_strata(time, strata):
        steps = stratum.sums_at_times(deaths) / stratum.sums_at_risk(at_risk)
        hazard[stratum.rows] = np.cumsum(steps)[stratum.blocks]
    return hazard


def martingale_residuals(
    time: Array,
    event: Array,
    weights: Array | None = None,
    strata: Array | None = None,
    covariates: Array | None = None,
) -> Array:
    """Return the martingale residuals M of the null model, or of a Cox model on the covariates.

    The hazard of every stratum is its own. The weighted sum of the residuals of a stratum is zero.
    """
    if covariates is None or not covariates.shape[1]:
        return np.asarray(event - cumulative_hazard(time, event, weights, strata))
    risks = np.exp(cox_log_risks(time, event, covariates, weights, strata))
    return np.asarray(event - risks * cumulative_hazard(time, event, weights, strata, risks))


# ---------------------------------------------------------------- Cox model


class _Likelihood(NamedTuple):
    """Penalised log partial likelihood of a Cox model, its gradient and its negative Hessian matrix."""

    value: float
    gradient: Array
    information: Array


def cox_log_risks(
    time: Array, event: Array, covariates: Array, weights: Array | None = None, strata: Array | None = None
) -> Array:
    """Return the log relative risks of a Cox model on standardised covariates, with mean zero.

    Raises ValueError if the Newton steps do not converge.
    """
    weights = np.ones(len(time)) if weights is None else np.asarray(weights, dtype=np.float64)
    Z = np.asarray(covariates, dtype=np.float64)
    Z = Z - np.average(Z, axis=0, weights=weights)
    spread = np.sqrt(np.average(Z * Z, axis=0, weights=weights))
    Z = Z / np.where(spread > 0.0, spread, 1.0)
    beta = cox_coefficients(time, event, Z, RIDGE, weights, strata)
    if beta is None:
        raise ValueError(
            "the Cox model of the survival times on the covariates does not converge; look for covariates that "
            "determine the events, or leave some of them out."
        )
    return np.asarray(Z @ beta)


@np.errstate(all="ignore")  # a step that is too long may overflow, and is halved
def cox_coefficients(
    time: Array, event: Array, Z: Array, ridge: float, weights: Array | None = None, strata: Array | None = None
) -> Array | None:
    """Return the coefficients of a Cox model: Breslow's likelihood less `ridge/2 · ‖β‖²` per event, by Newton steps.

    None if the steps do not converge.
    """
    weights = np.ones(len(time)) if weights is None else np.asarray(weights, dtype=np.float64)
    sets, n_events = _split_strata(time, strata), max(float(weights @ event), np.finfo(np.float64).tiny)
    beta = np.zeros(Z.shape[1])
    current = _likelihood(sets, event, Z, weights, beta, ridge * n_events)
    for _ in range(MAX_STEPS):
        step = np.linalg.solve(current.information, current.gradient)
        if step @ current.gradient <= TOLERANCE * n_events:
            return beta
        for _ in range(MAX_HALVINGS):
            proposed = _likelihood(sets, event, Z, weights, beta + step, ridge * n_events)
            if proposed.value > current.value - TOLERANCE * n_events:  # not if it is NaN
                break
            step = step / 2.0
        else:
            return None
        beta, current = beta + step, proposed
    return None


def _likelihood(
    sets: list[Stratum], event: Array, Z: Array, weights: Array, beta: Array, penalty: float
) -> _Likelihood:
    log_risks = Z @ beta
    deaths = weights * event
    value = float(deaths @ log_risks) - 0.5 * penalty * float(beta @ beta)
    gradient = Z.T @ deaths - penalty * beta
    information = penalty * np.eye(len(beta))
    for stratum in sets:
        # Risks relative to the largest one of the stratum cannot overflow.
        largest = log_risks[stratum.rows].max()
        at_risk = weights * np.exp(np.minimum(log_risks - largest, 0.0))
        totals, d = stratum.sums_at_risk(at_risk), stratum.sums_at_times(deaths)
        dies = d > 0.0
        means = stratum.sums_at_risk(at_risk[:, None] * Z)[dies] / totals[dies, None]
        value -= float(d[dies] @ (np.log(totals[dies]) + largest))
        gradient = gradient - means.T @ d[dies]
        # Σ_k d_k E_k[z zᵀ], a sum over the times, is Σ_i w_i r_i H(t_i) z_i z_iᵀ, a sum over the samples.
        hazard = np.cumsum(np.where(dies, d, 0.0) / totals)[stratum.blocks]
        rows = Z[stratum.rows]
        information = information + (rows * (at_risk[stratum.rows] * hazard)[:, None]).T @ rows
        information = information - (means * d[dies, None]).T @ means
    return _Likelihood(value, gradient, information)


def partial_log_likelihood(time: Array, event: Array, log_risks: Array) -> float:
    """Return Breslow's log partial likelihood of given log relative risks."""
    stratum, largest = Stratum.from_times(time, np.arange(len(time))), float(log_risks.max())
    totals, deaths = stratum.sums_at_risk(np.exp(log_risks - largest)), stratum.sums_at_times(event.astype(np.float64))
    return float(event @ log_risks - deaths @ (np.log(totals) + largest))


# ---------------------------------------------------------------- predictions and curves


def concordance_index(time: Array, event: Array, risks: Array) -> float:
    """Return Harrell's concordance index: the fraction of comparable pairs whose predicted risks are in order.

    A pair is comparable if the sample of the earlier time had the event, or, of equal times, one of the two. Equal
    predictions count one half. NaN if no pair is comparable.
    """
    time, event, risks = np.asarray(time), np.asarray(event, dtype=bool), np.asarray(risks, dtype=np.float64)
    first = np.flatnonzero(event)
    in_order = n_pairs = 0.0
    n_rows = max(1, PAIRS_AT_A_TIME // max(len(time), 1))
    for start in range(0, len(first), n_rows):
        rows = first[start : start + n_rows, None]
        comparable = (time[rows] < time) | ((time[rows] == time) & ~event)
        n_pairs += float(comparable.sum())
        in_order += float((comparable & (risks[rows] > risks)).sum())
        in_order += 0.5 * float((comparable & (risks[rows] == risks)).sum())
    return in_order / n_pairs if n_pairs else float("nan")


class SurvivalCurve(NamedTuple):
    """A Kaplan-Meier curve: a step down at every time, to the fraction of samples that survive it."""

    times: Array  # distinct times of events and of censoring, ascending
    survival: Array  # fraction of samples without event up to and including each time
    n_at_risk: Array  # number of samples at risk just before each time
    n_censored: Array  # number of samples censored at each time


def kaplan_meier(time: Array, event: Array) -> SurvivalCurve:
    """Return the Kaplan-Meier estimate of the survival function."""
    time, event = np.asarray(time, dtype=np.float64), np.asarray(event, dtype=bool)
    stratum = Stratum.from_times(time, np.arange(len(time)))
    deaths, censored = (stratum.sums_at_times(mask.astype(np.float64)) for mask in (event, ~event))
    n_at_risk = stratum.sums_at_risk(np.ones(len(time)))
    survival = np.cumprod(1.0 - deaths / n_at_risk)
    return SurvivalCurve(time[stratum.rows][stratum.starts], survival, n_at_risk, censored)
