"""What follows from the expected kernel Q of a round: a ridge regression of the target, and matrices to pair with.

A round of culling may estimate contributions to what the features left do not explain yet: the residual of the ridge
regression. Equations are numbered as in docs/explanation/mathematics.md.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs

from randsel._numerics.arrays import (
    add_outer_sum,
    add_to_diagonal,
    as_array_like,
    astype,
    clip,
    columnwise_dot,
    device_of,
    dot,
    namespace,
    on_host,
    set_diagonal,
    to_double,
    to_floats,
    to_numpy,
)
from randsel._numerics.kernels import bandwidth, distances_from_gram, u_centre_with_offsets
from randsel._utils.typing import Array
from randsel.contribution._sample import Sample
from randsel.targets import Target

#: Penalty λ of the regression whose errors compare rounds, and by default of the residual, if there is one. Its unit is
#: the mean eigenvalue of the centred kernel.
RIDGE = 3.0
#: Penalty of a regression that predicts the mean.
RIDGE_OF_MEAN = 1e8
#: The regression predicts left-out samples if its errors are smaller than those of the mean by more than this many
#: standard errors of the difference.
MIN_STANDARD_ERRORS = 2.0
#: Columns of nuisance variables count as dependent below this singular value, relative to the largest.
MIN_SINGULAR = 1e-6
#: A direction counts as explained by nuisance variables if they leave less than this fraction of its variance.
MIN_LEFT = 1e-6


# ---------------------------------------------------------------- ridge regression


@dataclass(frozen=True)
class Weighting:
    """How a round weighs the target.

    Attributes
    ----------
    ridge
        Penalty λ of the ridge regression to whose residual contributions refer; infinite for the target itself. None:
        `RIDGE` if that regression predicts left-out samples, and otherwise infinite.
    residual
        Whether contributions are to that residual; otherwise to the target itself, whatever `ridge` is.
    explain_fixed
        Whether the regression has a second kernel, on the fixed features alone. In the expected kernel they weigh
        little among many features, and the residual would still contain most of what they explain.
    """

    ridge: float | None = RIDGE
    residual: bool = False
    explain_fixed: bool = False

    def apply(self, log_expected: Any, sample: Sample) -> "RoundTarget":
        """Return the target that contributions refer to, with the errors of left-out samples."""
        target = sample.target
        second_kernel = _kernel_of_fixed(sample) if self.explain_fixed and sample.fixed.any() else None
        kernel = _project_kernel(log_expected, target, second_kernel)
        duals, errors = _regress(kernel, target, RIDGE)
        ridge = self.ridge if self.residual else np.inf
        if ridge is None:
            ridge = RIDGE if _predicts(errors, _regress(kernel, target, RIDGE_OF_MEAN)[1]) else np.inf
        if ridge == np.inf:
            return RoundTarget(target, errors, ridge)
        if ridge != RIDGE:
            duals, _ = _regress(kernel, target, ridge)
        return RoundTarget(replace(target, Y=duals), errors, ridge)


@dataclass(frozen=True)
class RoundTarget:
    """The target that contributions of a round refer to, and what the ridge regression says about it.

    Attributes
    ----------
    target
        The target, or the duals of a ridge regression in its place.
    errors
        Squared error of every sample when it is left out of the regression with the penalty `RIDGE`, as a fraction of
        the variance of y.
    ridge
        Penalty of the regression that gave the duals; infinite for the target itself, which the duals approach as the
        penalty grows.
    """

    target: Target
    errors: Any
    ridge: float


#: The target itself, as in the paper.
PLAIN = Weighting()


def _kernel_of_fixed(sample: Sample) -> Any:
    """Return the kernel on the fixed features, with the median bandwidth of their distances."""
    gamma = bandwidth("median", distances_from_gram(sample.fixed_products), sample.target.weights)
    return namespace(sample.target.Y).exp(to_double(sample.log_fixed_kernel(gamma)))


def fit_ridge(log_expected: Any, target: Target, ridge: float, second_kernel: Any = None) -> tuple[Any, Any]:
    """Return the duals `α = (HQH + λτI)⁻¹ Y`, and squared errors of left-out samples divided by the variance of y.

    A second kernel is added with the weight that gives both the same mean eigenvalue.
    """
    return _regress(_project_kernel(log_expected, target, second_kernel), target, ridge)


def _predicts(errors: Any, errors_of_mean: Any) -> bool:
    """Return whether errors of left-out samples are clearly smaller than those of predicting the mean.

    If not, the regression fits mostly noise, and its residual would hide weak effects and effects of features that act
    only together. Samples of a unit count as independent, which makes the standard error too small.
    """
    gain = to_numpy(errors_of_mean - errors)
    return bool(gain.mean() > MIN_STANDARD_ERRORS * gain.std(ddof=1) / np.sqrt(len(gain)))


def _project_kernel(log_expected: Any, target: Target, second_kernel: Any) -> Any:
    """Return the kernel projected on the complement of √w, in the metric of the weights w: `HDQDH` (eq. 14)."""
    xp = namespace(log_expected)
    # Before the bounds are checked, a series may be far off: the kernel is at most one.
    kernel = xp.exp(clip(to_double(log_expected), None, 0.0))
    set_diagonal(kernel, 1.0)
    if second_kernel is not None:
        # The mean eigenvalue of a centred kernel with ones on the diagonal is one less the mean of all entries. In a
        # block of rows the second kernel may be constant, and then explains nothing.
        kernel += second_kernel * ((1.0 - kernel.mean()) / clip(1.0 - second_kernel.mean(), 1e-6))
    roots, weight = target.root_weights, target.sum_of_weights
    if target.weights is not None:
        kernel *= roots[:, None]
        kernel *= roots[None, :]
    # P K P = K - √w bᵀ - b √wᵀ with b = K √w / Σw - √w (√wᵀ K √w) / 2(Σw)².
    means = kernel @ roots / weight
    offsets = means - roots * ((roots @ means) / (2 * weight))
    if target.weights is None:
        add_outer_sum(kernel, -offsets)
    else:
        kernel -= roots[:, None] * offsets[None, :]
        kernel -= offsets[:, None] * roots[None, :]
    return kernel


def _regress(kernel: Any, target: Target, ridge: float) -> tuple[Any, Any]:
    """Return the duals and the squared errors of left-out samples of a ridge regression on a projected kernel.

    A sample is left out with all samples of its unit, and the intercept is fitted without it: with `C` the inverse
    less its part along √w, the error of unit g is `C_gg⁻¹ α_g` (eq. 15). So are the coefficients of nuisance variables.
    """
    xp, m = namespace(kernel), len(target.Y)
    roots, weight = target.root_weights, target.sum_of_weights
    # A constant kernel has trace zero, and explains nothing with any penalty.
    penalty = clip(xp.linalg.diagonal(kernel).sum() * (ridge / m), 1e-12)
    penalised = kernel + 0.0  # a copy: the kernel is used for other penalties
    add_to_diagonal(penalised, penalty)
    # A series that is too inexact gives a kernel with negative eigenvalues. The bounds reject it later.
    root = _inverse_root(penalised, penalty)
    duals = root.T @ (root @ target.scaled)
    if target.nuisance is not None:
        squares = _errors_with_nuisance(to_numpy(root), target, target.nuisance, float(penalty))
        squares = as_array_like(squares, kernel)
    elif target.units is None:
        errors = duals / (columnwise_dot(root, root) - roots**2 / (weight * penalty))[:, None]
        squares = (errors * errors).sum(axis=1)
    else:
        intercept = roots / (weight * penalty) ** 0.5
        squares = _errors_of_units(to_numpy(root), to_numpy(intercept), to_numpy(duals), target.units)
        squares = as_array_like(squares, kernel)
    return duals * roots[:, None], squares / target.variance


def _inverse_root(matrix: Any, least_eigenvalue: Any) -> Any:
    """Return `R` with `Rᵀ R` the inverse of a symmetric matrix: the inverse Cholesky factor if it is positive definite.

    Otherwise its eigenvalues are raised to at least `least_eigenvalue`.
    """
    xp = namespace(matrix)
    if not on_host(matrix):
        factor, status = xp.linalg.cholesky_ex(matrix)
        if not int(status):  # waits for the device
            identity = xp.eye(len(matrix), dtype=matrix.dtype, device=device_of(matrix))
            return xp.linalg.solve_triangular(factor, identity, upper=False)
    else:
        factorise, invert = get_lapack_funcs(("potrf", "trtri"), (matrix,))
        # The transpose of a symmetric matrix is the same matrix in the memory order of LAPACK.
        factor, status = factorise(matrix.T, lower=True)
        if not status:
            return invert(factor, lower=True, overwrite_c=True)[0]
    values, vectors = xp.linalg.eigh(matrix)
    return (vectors / clip(values, least_eigenvalue) ** 0.5).T


def _errors_of_units(root: Array, intercept: Array, duals: Array, units: Array) -> Array:
    """Return the squared errors of samples when their whole unit is left out; `C = Rᵀ R - intercept interceptᵀ`."""
    squares = np.empty(len(duals))
    order = np.argsort(units, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(units[order])) + 1):
        left_out = root[:, rows].T @ root[:, rows] - np.outer(intercept[rows], intercept[rows])
        errors = np.linalg.solve(left_out, duals[rows])
        squares[rows] = (errors * errors).sum(axis=1)
    return squares


def _errors_with_nuisance(root: Array, target: Target, nuisance: Array, penalty: float) -> Array:
    """Return the squared errors of samples if the coefficients of nuisance variables are fitted without their unit.

    Nuisance variables were removed with coefficients from all samples, which makes residuals depend on each other:
    those of two samples of a batch are mirror images. A coefficient of a sample's own, or nearly, would make its error
    large, so an error is multiplied by the root of the fraction of variance that nuisance variables leave (eq. 15').
    """
    roots = to_numpy(target.root_weights)[:, None]
    columns, values, _ = np.linalg.svd(nuisance * roots, full_matrices=False)
    columns = columns[:, values > MIN_SINGULAR * values[0]]
    basis = np.linalg.qr(root @ columns)[0]
    root = root - basis @ (basis.T @ root)
    duals = root.T @ (root @ to_numpy(target.scaled))
    m, constant = len(root), roots[:, 0] / np.linalg.norm(roots)
    if target.units is None:
        inverse = np.square(root).sum(axis=0)
        free = inverse * penalty > MIN_LEFT  # the others are explained by a coefficient of their own
        left = np.maximum(1.0 - np.square(columns).sum(axis=1) + constant**2, 0.0)
        squares = np.where(free, np.square(duals).sum(axis=1) * left / np.where(free, inverse, 1.0) ** 2, 0.0)
        return np.asarray(squares * ((m - columns.shape[1] + 1) / max(int(free.sum()), 1)))
    squares, n_free = np.zeros(m), 0
    order = np.argsort(target.units, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(target.units[order])) + 1):
        inverse, directions = np.linalg.eigh(root[:, rows].T @ root[:, rows])
        free = inverse * penalty > MIN_LEFT
        inverse, directions = inverse[free], directions[:, free]
        errors = directions @ ((directions.T @ duals[rows]) / inverse[:, None])
        left = np.eye(len(rows)) - columns[rows] @ columns[rows].T + np.outer(constant[rows], constant[rows])
        variances, axes = np.linalg.eigh(left)
        errors = axes @ (np.sqrt(np.maximum(variances, 0.0))[:, None] * (axes.T @ errors))
        squares[rows], n_free = (errors * errors).sum(axis=1), n_free + int(free.sum())
    return np.asarray(squares * ((m - columns.shape[1] + 1) / max(n_free, 1)))


# ---------------------------------------------------------------- matrices to pair with the function of a feature


@dataclass(frozen=True)
class PairingMatrices:
    """Matrices over pairs of samples that are paired with the function of every feature (eq. 3 and 6).

    Off the diagonal `Q = U(Q) + ρ_p + ρ_q` and `L∘U(Q) = interaction + a_p + a_q` (eq. 4), so that `L∘Q` is the
    interaction matrix and a matrix of low rank.

    Attributes
    ----------
    target
        The target, weighed for this round.
    interaction, interaction_norm
        `U(L∘U(Q))`, and its norm: zero where it is only rounding.
    rho, offsets
        `ρ` and `a`.
    total_rows, total_sum
        Row sums of `L∘Q`, and their sum.
    """

    target: Target
    interaction: Any
    interaction_norm: float
    rho: Any
    offsets: Any
    total_rows: Any
    total_sum: float

    @classmethod
    def from_log_expected(cls, sample: Sample, target: Target, log_expected: Any) -> tuple["PairingMatrices", float]:
        """Return the matrices of `Q / max Q`, and `log max Q`.

        Overwrites `log_expected`; where features are fixed, it then holds `log Q - log max Q`.
        """
        set_diagonal(log_expected, -np.inf)
        peak = log_expected.max()
        log_expected -= peak
        xp = namespace(log_expected)
        # U(Q - 1) = U(Q), and Q - 1 keeps the digits of a kernel close to one. log Q stays for `_total_if_fixed`.
        expected = xp.expm1(log_expected, out=None if sample.fixed.any() else log_expected)
        u_centred, rho = u_centre_with_offsets(expected, overwrite=True)
        largest_rho = abs(rho).max()
        u_centred *= target.matrices(log_expected.dtype)[0]
        interaction, offsets = u_centre_with_offsets(u_centred, overwrite=True)
        rho, offsets = to_double(rho) + 0.5, to_double(offsets)  # ρ of Q is that of Q - 1 plus ½
        total_rows = _row_sums_of_total(target, rho, offsets)
        scalars = peak, largest_rho, dot(interaction, interaction), total_rows.sum()
        scale, largest_rho, square, total_sum = to_floats(*scalars)
        # If Q is constant, U(Q) is zero and only rounding is left.
        rounding = 2e-5 * largest_rho if interaction.dtype == xp.float32 else 1e-12
        norm = square**0.5 if square**0.5 > rounding * target.u_centred_norm else 0.0
        return cls(target, interaction, norm, rho, offsets, total_rows, total_sum), scale

    @cached_property
    def total(self) -> Any:
        """`L∘Q`, with a zero diagonal."""
        xp, Y = namespace(self.rho), self.target.Y
        ones, rho_Y = xp.ones_like(self.rho)[:, None], self.rho[:, None] * Y
        # L∘Q = A + (a_p + a_q) + L∘(ρ_p + ρ_q) off the diagonal; the brackets in one product of low rank.
        left = xp.concat([self.offsets[:, None], ones, rho_Y, Y], axis=1)
        right = xp.concat([ones, self.offsets[:, None], Y, rho_Y], axis=1)
        total = astype(left, self.interaction.dtype) @ astype(right, self.interaction.dtype).T
        total += self.interaction
        set_diagonal(total, 0.0)
        return total

    def null_mean(self, feature_norm: Any, mean_contrast: Any) -> Any:
        """Return the mean of `⟨A, T_i⟩` under the null, which is not zero because Q contains feature i (eq. 8')."""
        m = len(self.rho)
        return feature_norm**2 / (1 + mean_contrast) * (self.total_sum / (2 * m * (m - 3)))


def _row_sums_of_total(target: Target, rho: Any, offsets: Any) -> Any:
    """Return the row sums of `L∘Q`, without computing that matrix: rows of the interaction matrix sum to zero."""
    by_target = rho * target.row_sums_less_diagonals + target.Y @ (target.Y.T @ rho)
    return (len(rho) - 2) * offsets + offsets.sum() + by_target
