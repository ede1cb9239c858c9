"""Ridge regression with a linear or a Gaussian kernel and weighted samples, for all penalties at once."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve

from randsel._numerics.kernels import bandwidth, gaussian_kernel, squared_distances
from randsel._utils.typing import Array

#: Number of samples that a model predicts in one product of matrices.
ROWS_AT_A_TIME = 64


@dataclass(frozen=True)
class Model:
    """A fitted model; its outputs are one column per class, predicted numbers, or log relative risks."""

    kernel: str  # "linear", "gaussian" or "cox"
    #: One column per output: with the Gaussian kernel one row per sample of `samples`, otherwise one row per feature.
    coefficients: Array
    intercept: Array  # one number per output
    gamma: float = 0.0  # bandwidth of the Gaussian kernel `exp(-gamma ‖z - z'‖²)`
    samples: Array | None = None  # scores of training samples, with the Gaussian kernel

    def outputs(self, Z: Array) -> Array:
        """Return the outputs for rows of scores; those of a row do not depend on the other rows."""
        outputs = np.empty((len(Z), self.coefficients.shape[1]))
        for start in range(0, len(Z), ROWS_AT_A_TIME):
            rows = Z[start : start + ROWS_AT_A_TIME]
            # BLAS rounds the same row differently in matrices of different shapes, so all blocks have one shape
            block = np.zeros((ROWS_AT_A_TIME, Z.shape[1]))
            block[: len(rows)] = rows
            features = block if self.samples is None else gaussian_kernel(block, self.gamma, Z=self.samples)
            outputs[start : start + len(rows)] = (features @ self.coefficients)[: len(rows)]
        return outputs + self.intercept


@dataclass(frozen=True)
class RidgePath:
    """Eigendecomposition of the kernel of weighted samples: gives models and held-out outputs for any penalty.

    Kernel and outcome are centred by weighted means and multiplied by the roots of the weights, whose mean is one.
    """

    Z: Array
    Y: Array
    kernel: str
    gamma: float
    roots: Array  # of the weights
    means: Array  # weighted means of the columns of Y
    eigenvalues: Array  # of the kernel, centred and weighted
    eigenvectors: Array
    projections: Array  # of the outcome, centred and weighted, on the eigenvectors

    @classmethod
    def fit(cls, Z: Array, Y: Array, weights: Array, kernel: str) -> "RidgePath":
        """Decompose the kernel of the rows of Z; `weights` are positive and have a mean of one."""
        gamma, roots = 0.0, np.sqrt(weights)
        if kernel == "linear":
            centred = Z - _weighted_means(Z, weights)
            centred *= roots[:, None]
            eigenvalues, eigenvectors = _decompose_products(centred)
            del centred
        else:
            distances = squared_distances(Z)
            gamma = bandwidth("median", distances)
            values = np.exp(-gamma * distances)
            values -= _weighted_means(values, weights)
            values -= _weighted_means(values.T, weights)[:, None]
            eigenvalues, eigenvectors = np.linalg.eigh(values * roots * roots[:, None])
        means = _weighted_means(Y, weights)
        projections = eigenvectors.T @ (roots[:, None] * (Y - means))
        return cls(Z, Y, kernel, gamma, roots, means, np.maximum(eigenvalues, 0.0), eigenvectors, projections)

    def penalty(self, ridge: float) -> float:
        """Return the penalty `λτ`: λ is `ridge`, and τ the mean eigenvalue of the kernel."""
        return max(ridge * float(self.eigenvalues.sum()) / len(self.Z), 1e-12)

    def model(self, ridge: float) -> Model:
        """Return the minimum of `Σ_i w_i (y_i - f(z_i) - b)² + λτ ‖f‖²`; the intercept b is not penalised."""
        scaled = self.eigenvectors @ (self.projections / (self.eigenvalues + self.penalty(ridge))[:, None])
        duals, weights = self.roots[:, None] * scaled, self.roots**2
        if self.kernel == "linear":
            # the same as with centred rows, without a copy of Z
            coefficients = self.Z.T @ duals - np.outer(_weighted_means(self.Z, weights), duals.sum(axis=0))
            return _with_intercept("linear", coefficients, 0.0, None, self.Z, self.means, weights)
        return _with_intercept("gaussian", duals, self.gamma, self.Z, self.Z, self.means, weights)

    def held_out_outputs(self, ridge: float, folds: list[tuple[Array, Array]]) -> Array:
        """Return the outputs for each sample of the model that is fitted without its fold; NaN for samples in no fold.

        Let S map outcomes to fitted values. The errors of a fold t that is left out are `(I - S_tt)⁻¹` times its
        residuals in the fit to all samples. Bandwidth, weights and penalty are those of all samples.
        """
        shrinkage = self.eigenvalues / (self.eigenvalues + self.penalty(ridge))
        shrunk = self.eigenvectors * shrinkage
        residuals = self.roots[:, None] * (self.Y - self.means) - shrunk @ self.projections
        outputs = np.full(self.Y.shape, np.nan)
        for _, test in folds:
            smoother = shrunk[test] @ self.eigenvectors[test].T
            smoother += np.outer(self.roots[test], self.roots[test]) / len(self.Z)  # of the intercept
            errors = solve(np.eye(len(test)) - smoother, residuals[test], assume_a="pos")
            outputs[test] = self.Y[test] - errors / self.roots[test, None]
        return outputs


def fit_landmarks(Z: Array, Y: Array, weights: Array, landmarks: Array, gamma: float, penalty: float) -> Model:
    """Return Gaussian ridge regression whose function is a sum of kernels at the landmarks, fitted to all samples."""
    values = gaussian_kernel(Z, gamma, Z=landmarks)
    values -= _weighted_means(values, weights)
    means = _weighted_means(Y, weights)
    weighted = values * weights[:, None]
    norm = gaussian_kernel(landmarks, gamma, Z=landmarks)
    norm[np.diag_indices(len(norm))] += 1e-8  # landmarks that are close to each other make it singular
    coefficients = solve(weighted.T @ values + penalty * norm, weighted.T @ (Y - means), assume_a="pos")
    return _with_intercept("gaussian", coefficients, gamma, landmarks, Z, means, weights)


def _with_intercept(
    kernel: str, coefficients: Array, gamma: float, samples: Array | None, Z: Array, means: Array, weights: Array
) -> Model:
    """Return the model whose weighted mean output for the rows of Z is `means`."""
    model = Model(kernel, coefficients, np.zeros(len(means)), gamma, samples)
    return replace(model, intercept=means - _weighted_means(model.outputs(Z), weights))


def _weighted_means(values: Array, weights: Array) -> Array:
    return np.asarray(weights @ values / len(weights))


def _decompose_products(Z: Array) -> tuple[Array, Array]:
    """Return eigenvalues and eigenvectors of `Z Zᵀ`; with more rows than columns, without those that must be zero."""
    if len(Z) > Z.shape[1]:
        eigenvectors, singular_values, _ = np.linalg.svd(Z, full_matrices=False)
        return singular_values**2, eigenvectors
    eigenvalues, eigenvectors = np.linalg.eigh(Z @ Z.T)
    return eigenvalues, eigenvectors
