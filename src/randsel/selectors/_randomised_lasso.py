"""The randomised lasso, which `StabilitySelection` uses by default."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import sklearn
from sklearn.linear_model import LogisticRegression, lasso_path
from sklearn.utils.fixes import parse_version

from randsel._utils.jobs import generator
from randsel._utils.typing import Array
from randsel.targets import OutcomeKind, Target

#: Function of centred X, one column of Y, penalties and weights that returns coefficients (features, penalties).
CoefficientPath = Callable[[Array, Array, Array, Array | None], Array]


@dataclass(frozen=True)
class RandomisedLasso:
    """A lasso whose penalty is divided by a random factor for every feature and half.

    Attributes
    ----------
    Z, Y
        Standardised features, and the columns of the target.
    weights
        Weights of the samples, or None.
    penalties
        Penalties (number, columns of Y), largest first.
    path, weakness
        The lasso or the logistic regression, and the smallest factor.
    """

    Z: Array
    Y: Array
    weights: Array | None
    penalties: Array
    path: CoefficientPath
    weakness: float

    @classmethod
    def from_data(
        cls,
        Z: Array,
        y: Array,
        kind: OutcomeKind,
        weights: Array | None,
        *,
        loss: str,
        n_lambdas: int,
        lambda_min: float,
        weakness: float,
    ) -> "RandomisedLasso":
        """Choose the penalties, which are the same on all halves."""
        if loss == "logistic" and not kind.has_classes:
            raise ValueError("loss='logistic' needs classes, but y holds numbers; use loss='lasso'.")
        Y = Target.encode(y, kind).Y
        if loss == "logistic":
            Y = (Y > 0.0).astype(np.float64)
        # The least penalty at which the lasso selects no feature on all samples.
        residual = Y - np.average(Y, axis=0, weights=weights)
        if weights is not None:
            residual *= (weights / weights.mean())[:, None]
        largest = np.abs(Z.T @ residual).max(axis=0) / len(Z)
        penalties = np.geomspace(1.0, lambda_min, n_lambdas)[:, None] * largest
        path = _lasso_path if loss == "lasso" else _logistic_path
        return cls(Z, Y, weights, penalties, path, weakness)

    def select(self, rows: Array, number: int, seed: int, task: AbstractContextManager[Any]) -> Array:
        """Return a mask (features, penalties) of the features selected for any column of Y on half `number`."""
        # Dividing the penalty of a column by a factor is the same as multiplying the column by it.
        X = self.Z[rows] * generator(seed, 1, number).uniform(self.weakness, 1.0, self.Z.shape[1])
        weights = None if self.weights is None else self.weights[rows] / self.weights[rows].mean()
        X -= np.average(X, axis=0, weights=weights)
        selected = np.zeros((self.Z.shape[1], len(self.penalties)), dtype=bool)
        with task:
            for target, path_penalties in zip(self.Y[rows].T, self.penalties.T, strict=True):
                if target.min() < target.max() and path_penalties[-1] > 0.0:
                    selected |= self.path(X, target, path_penalties, weights) != 0.0
        return selected


def _lasso_path(X: Array, y: Array, penalties: Array, weights: Array | None) -> Array:
    residual = y - np.average(y, weights=weights)
    if weights is not None:
        X, residual = X * np.sqrt(weights)[:, None], residual * np.sqrt(weights)
    return np.asarray(lasso_path(X, residual, alphas=penalties, max_iter=10_000)[1])


def _logistic_path(X: Array, y: Array, penalties: Array, weights: Array | None) -> Array:
    # scikit-learn 1.8 renamed the parameter of the l1 penalty.
    l1 = {"l1_ratio": 1.0} if parse_version(sklearn.__version__) >= parse_version("1.8") else {"penalty": "l1"}
    # liblinear penalises the intercept; this scaling makes the effect small.
    model = LogisticRegression(solver="liblinear", intercept_scaling=10.0, random_state=0, **l1)
    fits = [model.set_params(C=1.0 / (penalty * len(y))).fit(X, y, weights).coef_[0].copy() for penalty in penalties]
    return np.column_stack(fits)
