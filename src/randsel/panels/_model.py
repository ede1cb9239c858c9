"""Models on the scores of a panel: ridge regression with a linear or a Gaussian kernel, Cox model, and calibration."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from randsel._numerics.kernels import bandwidth, centre_kernel, squared_distances
from randsel._utils.jobs import generator, one_blas_thread
from randsel._utils.typing import Array
from randsel.targets import SURVIVAL, OutcomeKind, cox_coefficients, partial_log_likelihood

#: Penalties of the ridge regression, in units of the mean eigenvalue of the kernel.
RIDGES = (0.03, 0.3, 3.0, 30.0)
#: Penalties of the Cox model on the squared coefficients, per event.
COX_RIDGES = (0.003, 0.03, 0.3, 3.0)
#: Penalties of models that cannot be cross-validated, because a class has a single sample or group.
DEFAULT_RIDGE, DEFAULT_COX_RIDGE = 3.0, 0.3
MAX_FOLDS = 5
MAX_SAMPLES = 500  # number of training samples that a model is fitted to; the Gaussian kernel stores each of them
KERNELS = ("linear", "gaussian", "cox")


@dataclass(frozen=True)
class Model:
    """A fitted model; its outputs are one column per class, predicted numbers, or log relative risks.

    Attributes
    ----------
    kernel
        One of `KERNELS`.
    coefficients
        One column per output: with the Gaussian kernel one row per sample, otherwise one row per feature.
    intercept
        One number per output.
    gamma, samples
        With the Gaussian kernel `exp(-gamma ‖z - z'‖²)`: its bandwidth, and the scores of the training samples.
    """

    kernel: str
    coefficients: Array
    intercept: Array
    gamma: float = 0.0
    samples: Array | None = None

    def outputs(self, Z: Array) -> Array:
        """Return the outputs for rows of scores."""
        if self.samples is None:
            return np.asarray(Z @ self.coefficients + self.intercept)
        return np.asarray(np.exp(-self.gamma * squared_distances(Z, self.samples)) @ self.coefficients + self.intercept)


def fit_model(Z: Array, y: Array, kind: OutcomeKind, groups: Array | None) -> Model:
    """Fit the model that predicts held-out samples best: kernel and penalty are chosen by cross-validation.

    The Gaussian kernel is chosen only if its squared error is smaller by more than one standard error.
    """
    if len(Z) > MAX_SAMPLES:
        rows = np.sort(generator(0, 1).choice(len(Z), MAX_SAMPLES, replace=False))
        Z, y, groups = Z[rows], y[rows], None if groups is None else groups[rows]
    with one_blas_thread():  # matrices are small, and results must not depend on the number of threads
        return _fit_best(Z, y, kind, list(_split(y, kind, groups)))


def _fit_best(Z: Array, y: Array, kind: OutcomeKind, folds: list[tuple[Array, Array]]) -> Model:
    if kind is SURVIVAL:
        return _fit_cox(Z, y, folds)
    Y = encode_outcome(y, kind)
    if not folds:
        return _RidgePath.fit(Z, Y, "linear").model(DEFAULT_RIDGE)
    errors = {kernel: _ridge_errors(Z, Y, kernel, folds) for kernel in ("linear", "gaussian")}
    best = {kernel: int(np.argmin(error.mean(axis=1))) for kernel, error in errors.items()}
    gains = errors["linear"][best["linear"]] - errors["gaussian"][best["gaussian"]]
    kernel = "gaussian" if gains.mean() > gains.std(ddof=1) / np.sqrt(len(gains)) else "linear"
    return _RidgePath.fit(Z, Y, kernel).model(RIDGES[best[kernel]])


def encode_outcome(y: Array, kind: OutcomeKind) -> Array:
    """Return the columns that a ridge regression predicts: indicators of the classes, or the numbers."""
    return (y[:, None] == np.unique(y)).astype(np.float64) if kind.has_classes else y.astype(np.float64)[:, None]


def _split(y: Array, kind: OutcomeKind, groups: Array | None) -> Iterator[tuple[Array, Array]]:
    n_folds = min(int(kind.units_per_stratum(y, groups).min()), MAX_FOLDS)
    for train, test in kind.splits(y, groups, n_folds, 0) if n_folds > 1 else ():
        if len(test) and len(np.unique(y[train])) > 1:
            yield train, test


# ---------------------------------------------------------------- ridge regression


@dataclass(frozen=True)
class _RidgePath:
    """Ridge regression for all penalties: the eigenvectors of the centred kernel, and the outcome in their basis."""

    Z: Array
    kernel: str
    gamma: float
    eigenvalues: Array
    eigenvectors: Array
    projections: Array
    means: Array

    @classmethod
    def fit(cls, Z: Array, Y: Array, kernel: str) -> "_RidgePath":
        """Decompose the kernel of the rows of Z."""
        gamma = 0.0
        if kernel == "linear":  # all other eigenvalues are zero, and predictions do not depend on their eigenvectors
            eigenvectors, roots, _ = np.linalg.svd(Z - Z.mean(axis=0), full_matrices=False)
            eigenvalues = roots**2
        else:
            distances = squared_distances(Z)
            gamma = bandwidth("median", distances)
            eigenvalues, eigenvectors = np.linalg.eigh(centre_kernel(np.exp(-gamma * distances)))
        projections = eigenvectors.T @ (Y - Y.mean(axis=0))
        return cls(Z, kernel, gamma, np.maximum(eigenvalues, 0.0), eigenvectors, projections, Y.mean(axis=0))

    def model(self, ridge: float) -> Model:
        """Return `f(z) = ȳ + Σ_i α_i (k(z, z_i) - mean_j k(z_j, z_i))` with `α = (HKH + λτI)⁻¹ (Y - Ȳ)`.

        λ is `ridge`, and τ the mean eigenvalue of the centred kernel HKH.
        """
        penalty = max(ridge * float(self.eigenvalues.sum()) / len(self.Z), 1e-12)
        duals = self.eigenvectors @ (self.projections / (self.eigenvalues + penalty)[:, None])
        if self.kernel == "linear":
            model = Model("linear", (self.Z - self.Z.mean(axis=0)).T @ duals, np.zeros(len(self.means)))
        else:
            model = Model("gaussian", duals, np.zeros(len(self.means)), self.gamma, self.Z)
        intercept = self.means - model.outputs(self.Z).mean(axis=0)
        return Model(model.kernel, model.coefficients, intercept, model.gamma, model.samples)


def _ridge_errors(Z: Array, Y: Array, kernel: str, folds: list[tuple[Array, Array]]) -> Array:
    """Return the squared error of each held-out sample (columns) for each penalty (rows)."""
    errors = []
    for train, test in folds:
        path = _RidgePath.fit(Z[train], Y[train], kernel)
        outputs = [path.model(ridge).outputs(Z[test]) for ridge in RIDGES]
        errors.append([((output - Y[test]) ** 2).sum(axis=1) for output in outputs])
    return np.concatenate([np.array(error) for error in errors], axis=1)


# ---------------------------------------------------------------- Cox model


def _fit_cox(Z: Array, y: Array, folds: list[tuple[Array, Array]]) -> Model:
    """Fit a Cox model with the penalty of the best cross-validated partial likelihood."""
    ridge = DEFAULT_COX_RIDGE
    if folds:
        likelihoods = [sum(_likelihood_of_held_out(Z, y, r, train) for train, _ in folds) for r in COX_RIDGES]
        ridge = COX_RIDGES[int(np.argmax(likelihoods))]
    coefficients = _cox(Z, y, ridge)[:, None]
    return Model("cox", coefficients, -(Z @ coefficients).mean(axis=0))


def _cox(Z: Array, y: Array, ridge: float) -> Array:
    coefficients = cox_coefficients(y["time"], y["event"], Z, ridge)
    return np.zeros(Z.shape[1]) if coefficients is None else coefficients


def _likelihood_of_held_out(Z: Array, y: Array, ridge: float, train: Array) -> float:
    """Return what held-out samples add to the log partial likelihood (Verweij and van Houwelingen 1993)."""
    risks = Z @ _cox(Z[train], y[train], ridge)
    of_all = partial_log_likelihood(y["time"], y["event"], risks)
    return of_all - partial_log_likelihood(y["time"][train], y["event"][train], risks[train])


# ---------------------------------------------------------------- probabilities


@dataclass(frozen=True)
class Calibration:
    """Probabilities of the classes: `softmax(slope · outputs + offsets)`.

    This is Platt's calibration, with one slope for all classes. `nested` says whether the samples that it was fitted to
    were held out of the selection of features as well.
    """

    slope: float
    offsets: Array
    nested: bool

    def probabilities(self, outputs: Array) -> Array:
        """Return one column per class."""
        return np.asarray(softmax(self.slope * outputs + self.offsets, axis=1))


def fit_calibration(outputs: Array, codes: Array, nested: bool) -> Calibration:
    """Fit slope and offsets to the outputs and the class codes of held-out samples.

    As in Platt's method, a sample of a class of n members counts as that class with weight (n + 1)/(n + K), and as
    each of the K - 1 others with weight 1/(n + K). Perfectly separated classes therefore have probabilities below one.
    The slope is not negative.
    """
    n_samples, n_classes = outputs.shape
    sizes = np.bincount(codes, minlength=n_classes)[codes]
    weights = np.eye(n_classes)[codes] * sizes[:, None] + 1.0
    weights /= weights.sum(axis=1, keepdims=True)

    def loss(parameters: Array) -> tuple[float, Array]:
        logits = parameters[0] * outputs + parameters[1:]
        residuals = softmax(logits, axis=1) - weights
        value = -(weights * log_softmax(logits, axis=1)).sum() / n_samples
        return value, np.concatenate([[(residuals * outputs).sum()], residuals.sum(axis=0)]) / n_samples

    start = np.concatenate([[1.0], np.zeros(n_classes)])
    bounds = [(0.0, None), *[(None, None)] * n_classes]
    options = {"maxiter": 1000, "ftol": 1e-14, "gtol": 1e-9}
    fitted = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    return Calibration(float(fitted[0]), np.asarray(fitted[1:] - fitted[1:].mean()), nested)
