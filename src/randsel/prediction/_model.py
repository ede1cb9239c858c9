"""The model of a panel: ridge regression with a linear or a Gaussian kernel, or a Cox model.

Classes are weighted so that each counts the same, and the class with the largest output is predicted.
"""

from collections.abc import Iterator

import numpy as np

from randsel._utils.jobs import generator, one_blas_thread
from randsel._utils.typing import Array
from randsel.prediction._ridge import Model, RidgePath, fit_landmarks
from randsel.targets import SURVIVAL, OutcomeKind, cox_coefficients, partial_log_likelihood

#: Penalties of the ridge regression, in units of the mean eigenvalue of the kernel.
RIDGES = (0.03, 0.3, 3.0, 30.0)
#: Penalties of the Cox model on the squared coefficients, per event.
COX_RIDGES = (0.003, 0.03, 0.3, 3.0)
#: Penalties of models that cannot be cross-validated, because a class has a single sample or group.
DEFAULT_RIDGE, DEFAULT_COX_RIDGE = 3.0, 0.3
MAX_FOLDS = 5
#: Maximum number of training samples on which kernel and penalty are chosen, and that a Gaussian kernel stores.
MAX_SAMPLES = 500
KERNELS = ("linear", "gaussian", "cox")


def fit_model(Z: Array, y: Array, kind: OutcomeKind, groups: Array | None, classes: Array | None = None) -> Model:
    """Fit the model that predicts held-out samples best: kernel and penalty are chosen by cross-validation.

    The Gaussian kernel is chosen only if its squared error is smaller by more than one standard error, computed over
    groups if there are any. With more than `MAX_SAMPLES` samples, these choices are made on a random subset, and the
    model is fitted to all samples. `classes` are the labels of the outputs, by default the distinct values of y.
    """
    # the samples that choose kernel and penalty
    rows = np.arange(len(Z))
    if len(Z) > MAX_SAMPLES:
        rows = np.sort(generator(0, 1).choice(len(Z), MAX_SAMPLES, replace=False))
    units = rows if groups is None else groups[rows]
    folds = list(_split(y[rows], kind, None if groups is None else units))
    with one_blas_thread():  # matrices are small, and results must not depend on the number of threads
        if kind is SURVIVAL:
            return _fit_cox(Z, y, rows, folds)
        return _fit_ridge(Z, encode_outcome(y, kind, classes), weigh_samples(y, kind), rows, units, folds)


def encode_outcome(y: Array, kind: OutcomeKind, classes: Array | None = None) -> Array:
    """Return the columns that a ridge regression predicts: indicators of the classes, or the numbers."""
    if not kind.has_classes:
        return y.astype(np.float64)[:, None]
    return np.asarray(y[:, None] == (np.unique(y) if classes is None else classes), dtype=np.float64)


def weigh_samples(y: Array, kind: OutcomeKind) -> Array:
    """Return weights of mean one whose sum is the same in every class; ones for numbers."""
    if not kind.has_classes:
        return np.ones(len(y))
    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    return np.asarray(len(y) / (len(counts) * counts[codes]))


def _split(y: Array, kind: OutcomeKind, groups: Array | None) -> Iterator[tuple[Array, Array]]:
    """Yield the training and test samples of every fold in which the outcome varies; nothing if one fold is left."""
    n_folds = min(int(kind.units_per_stratum(y, groups).min()), MAX_FOLDS)
    for train, test in kind.splits(y, groups, n_folds, 0) if n_folds > 1 else ():
        if len(test) and len(np.unique(y[train])) > 1:
            yield train, test


# ---------------------------------------------------------------- ridge regression


def _fit_ridge(
    Z: Array, Y: Array, weights: Array, rows: Array, units: Array, folds: list[tuple[Array, Array]]
) -> Model:
    """Fit the better kernel with its best penalty; `units` are the groups of the samples `rows`, or their numbers."""
    if not folds:
        return RidgePath.fit(Z, Y, weights, "linear").model(DEFAULT_RIDGE)
    weights_of_rows = weights[rows] / weights[rows].mean()
    paths = {kernel: RidgePath.fit(Z[rows], Y[rows], weights_of_rows, kernel) for kernel in ("linear", "gaussian")}
    errors = {
        kernel: np.array([_errors(path, ridge, units, folds) for ridge in RIDGES]) for kernel, path in paths.items()
    }
    best = {kernel: int(np.argmin(error.mean(axis=1))) for kernel, error in errors.items()}
    gains = errors["linear"][best["linear"]] - errors["gaussian"][best["gaussian"]]
    kernel = "gaussian" if gains.mean() > gains.std(ddof=1) / np.sqrt(len(gains)) else "linear"
    path, ridge = paths[kernel], RIDGES[best[kernel]]
    if len(rows) == len(Z):
        return path.model(ridge)
    if kernel == "linear":
        return RidgePath.fit(Z, Y, weights, kernel).model(ridge)
    return fit_landmarks(Z, Y, weights, path.Z, path.gamma, path.penalty(ridge))


def _errors(path: RidgePath, ridge: float, units: Array, folds: list[tuple[Array, Array]]) -> Array:
    """Return the sum of weighted squared errors of each held-out unit, a sample or a group."""
    rows = np.concatenate([test for _, test in folds])
    squares = np.square(path.held_out_outputs(ridge, folds)[rows] - path.Y[rows]).sum(axis=1)
    return np.bincount(np.unique(units[rows], return_inverse=True)[1], weights=squares * path.roots[rows] ** 2)


# ---------------------------------------------------------------- Cox model


def _fit_cox(Z: Array, y: Array, rows: Array, folds: list[tuple[Array, Array]]) -> Model:
    """Fit a Cox model with the penalty of the best cross-validated partial likelihood.

    With more features than samples, the fit uses an orthonormal basis of the rows of Z: coefficients lie in their
    span, and the penalty is the same in any such basis.
    """
    basis = np.eye(Z.shape[1])
    if Z.shape[1] > len(Z):
        basis = np.linalg.qr(Z.T)[0]
    scores, ridge = Z @ basis, DEFAULT_COX_RIDGE
    if folds:
        log_likelihoods = [
            sum(_held_out_log_likelihood(scores[rows], y[rows], r, train) for train, _ in folds) for r in COX_RIDGES
        ]
        ridge = COX_RIDGES[int(np.argmax(log_likelihoods))]
    coefficients = basis @ _cox_coefficients(scores, y, ridge)[:, None]
    return Model("cox", coefficients, -(Z @ coefficients).mean(axis=0))


def _cox_coefficients(Z: Array, y: Array, ridge: float) -> Array:
    """Return the coefficients of a Cox model; zeros if they do not converge."""
    coefficients = cox_coefficients(y["time"], y["event"], Z, ridge)
    return np.zeros(Z.shape[1]) if coefficients is None else coefficients


def _held_out_log_likelihood(Z: Array, y: Array, ridge: float, train: Array) -> float:
    """Return what held-out samples add to the log partial likelihood (Verweij and van Houwelingen 1993)."""
    risks = Z @ _cox_coefficients(Z[train], y[train], ridge)
    of_training = partial_log_likelihood(y["time"][train], y["event"][train], risks[train])
    return partial_log_likelihood(y["time"], y["event"], risks) - of_training
