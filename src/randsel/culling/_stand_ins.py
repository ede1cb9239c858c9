"""Unselected features that could stand in for selected ones: how alike they are, and what a swap costs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from randsel._numerics.kernels import bandwidth, squared_distances
from randsel._numerics.standardise import SCALE, standardise_columns
from randsel._utils.jobs import generator
from randsel._utils.typing import Array
from randsel.contribution import RIDGE, fit_ridge
from randsel.targets import Target

#: Defaults: smallest absolute correlation of a stand-in, and maximum number per selected feature.
MIN_CORRELATION, MAX_COUNT = 0.7, 5
MAX_PANEL = 100  # only the first selected features get stand-ins, so that their kernel is quick to compute
MAX_SAMPLES = 500  # errors are computed on at most this many samples: they take the cube of their number
WIDTH = 1024  # columns per block


class StandIn(NamedTuple):
    """A feature that could stand in for a selected one.

    Attributes
    ----------
    column
        Its column in X.
    correlation
        Correlation of its normal scores with those of the selected feature.
    loss
        Increase of the prediction error of left-out samples if it replaces the selected feature, as a fraction of the
        variance of y; negative if the error falls. NaN if y is not known.
    """

    column: int
    correlation: float
    loss: float


@dataclass(frozen=True)
class SwapModel:
    """The ridge regression on the expected kernel of a panel of features; see `RandSel` for the parameters."""

    target: Target
    gamma: float | str = "median"
    scale: bool | str = SCALE

    def losses(self, X: Array, panel: Array, swaps: list[tuple[int, int]]) -> list[float]:
        """Return the increase of the error for each swap of a column of the panel for another column."""
        m = len(X)
        rows = np.sort(generator(0).choice(m, min(m, MAX_SAMPLES), replace=False))
        target = self.target.rows(rows)

        def scores(columns: Any) -> Array:
            standardised = standardise_columns(X[:, columns], self.target.weights, self.scale)[0]
            return np.asarray(standardised[rows], dtype=np.float64)

        Z = scores(panel)
        gamma = bandwidth(self.gamma, squared_distances(Z), target.weights)
        log_expected = sum((_log_factor(z, gamma) for z in Z.T), np.zeros((len(rows), len(rows))))
        error = fit_ridge(log_expected, target, RIDGE)[1].mean()
        position_in_panel = {column: position for position, column in enumerate(panel.tolist())}
        losses = []
        for column, other in swaps:
            replaced = log_expected - _log_factor(Z[:, position_in_panel[column]], gamma)
            replaced += _log_factor(scores([other])[:, 0], gamma)
            losses.append(float(fit_ridge(replaced, target, RIDGE)[1].mean() - error))
        return losses


def _log_factor(z: Array, gamma: float) -> Array:
    """Return the logarithm of a feature's factor `(1 + exp(-γ (z_p - z_q)²))/2` in the expected kernel (eq. 2)."""
    return np.asarray(np.log1p(np.exp(-gamma * (z[:, None] - z[None, :]) ** 2)) - np.log(2.0))


def find_stand_ins(
    X: Array,
    selected: Array,
    model: SwapModel | None,
    *,
    min_correlation: float = MIN_CORRELATION,
    max_count: int = MAX_COUNT,
    nominal: Sequence[int] = (),
) -> dict[int, list[StandIn]]:
    """Return the stand-ins of every selected column that varies, of the first `MAX_PANEL`; the most correlated first.

    Without a model, losses are NaN. Columns of categories (`nominal`) neither have nor are stand-ins, because
    correlations of their codes depend on the order of the codes.
    """
    weights = None if model is None else model.target.weights
    varies = standardise_columns(X[:, selected], weights, "normal")[1]
    panel = np.asarray(selected)[varies][:MAX_PANEL]
    not_candidates = np.union1d(selected, np.asarray(nominal, dtype=int))
    correlations = _correlated_columns(X, panel, not_candidates, weights, min_correlation, max_count)
    correlations |= {column: [] for column in panel.tolist() if column in nominal}
    swaps = [(column, other) for column, others in correlations.items() for other, _ in others]
    losses = [np.nan] * len(swaps) if model is None or not swaps else model.losses(X, panel, swaps)
    loss_of = dict(zip(swaps, losses, strict=True))
    return {
        column: [StandIn(other, correlation, loss_of[column, other]) for other, correlation in others]
        for column, others in correlations.items()
    }


def _correlated_columns(
    X: Array, panel: Array, not_candidates: Array, weights: Array | None, min_correlation: float, max_count: int
) -> dict[int, list[tuple[int, float]]]:
    """Return, for every column of the panel, the most correlated candidates, with correlations.

    Correlations are over the samples in which neither value is missing.
    """
    fractions = np.full(len(X), 1.0 / len(X)) if weights is None else weights / weights.sum()

    def centred_scores(columns: Any) -> tuple[Array, Array, Array]:
        Z, varies = standardise_columns(X[:, columns], weights, "normal")
        Z = np.asarray(Z - fractions @ Z, dtype=np.float64)
        return Z, ~np.isnan(X[:, columns][:, varies]), varies

    panel_scores, panel_observed, _ = centred_scores(panel)
    weighted = panel_scores * fractions[:, None]
    best: dict[int, list[tuple[int, float]]] = {column: [] for column in panel.tolist()}
    for start in range(0, X.shape[1], WIDTH):
        columns = np.setdiff1d(np.arange(start, min(start + WIDTH, X.shape[1])), not_candidates)
        if not len(columns) or not len(panel):
            continue
        Z, observed, varies = centred_scores(columns)
        correlations = weighted.T @ Z
        if not (panel_observed.all() and observed.all()):
            squares = (weighted * panel_scores).T @ observed, panel_observed.T @ (fractions[:, None] * Z * Z)
            correlations /= np.sqrt(np.maximum(squares[0] * squares[1], 1e-12))
        correlations = np.clip(correlations, -1.0, 1.0)
        for column, values in zip(panel.tolist(), correlations, strict=True):
            alike = np.flatnonzero(np.abs(values) >= min_correlation)
            candidates = [*best[column], *zip(columns[varies][alike].tolist(), values[alike].tolist(), strict=True)]
            best[column] = sorted(candidates, key=lambda pair: (-abs(pair[1]), pair[0]))[:max_count]
    return best
