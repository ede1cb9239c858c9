"""Kernels on features: their factors, distances, bandwidth, centring, and the alignment of two kernels.

Equations are numbered as in docs/explanation/mathematics.md.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from operator import neg
from typing import Any, NamedTuple

import numpy as np

from randsel._numerics.arrays import (
    add_outer_sum,
    clip,
    dot,
    frobenius_norm,
    machine_epsilon,
    namespace,
    on_host,
    row_sums,
    rowwise_dot,
    set_diagonal,
    symmetric_product,
    to_double,
    to_floats,
    to_numpy,
)
from randsel._numerics.columns import sum_blocks
from randsel._utils.typing import Array

#: Columns per matrix product: bounds scratch memory, and lets products in single precision be summed in double.
BLOCK = 8192
#: Error message for a kernel that is zero between all different samples.
UNDERFLOW = (
    "gamma={:g} is so large that the kernel is zero between all different samples, which leaves nothing to compare; "
    "use gamma='median' or a smaller number."
)


# ---------------------------------------------------------------- the factor of one feature


class Series(NamedTuple):
    """Coefficients of the series of a factor, by their denominators, and bounds on what follows them.

    `2T = u - u³/cubic + u⁵/quintic - …`, where the terms after the fifth order are at most `septic u⁷`, and
    `log((1 + z)/2) = -u/2 + u²/log_second - u⁴/log_fourth + …`, where those after the fourth are at most
    `u⁶/log_sixth`. Each series alternates: its error after any of these terms is at most the next one.
    """

    cubic: float
    quintic: float
    septic: float
    log_second: float
    log_fourth: float
    log_sixth: float


@dataclass(frozen=True)
class Factor:
    """The factor z of one feature in a product kernel, as a function of `u = γ (x_p - x_q)²` (eq. 1).

    The closed form needs z only through the contrast `T = (1 - z)/(1 + z)`: a feature's factor in Q is
    `(1 + z)/2 = 1/(1 + T)` (eq. 2), and its contribution pairs `L∘Q` with `2T` (eq. 3).
    """

    contrast: Callable[[Any], Any]  # `v -> T` with `v = u/2`, in place
    log_factor: Callable[[Any], Any]  # `u -> log z`
    series: Series | None = None  # for first-order and third-order routes; None: all features go element by element

    def least_slope(self, u: Any) -> Any:
        """Return `2T/u`, in [0, 1]: between 0 and u, `2T` is at least this times its argument (eq. 12)."""
        xp = namespace(u)
        u = clip(u, None, 1e6)
        small = u < 1e-4  # there 2T/u would divide rounding errors
        safe = xp.where(small, 1.0, u)
        near_zero = 1.0 if self.series is None else 1.0 - u * u / self.series.cubic
        return xp.where(small, near_zero, 2 * self.contrast(safe / 2) / safe)


def _tanh(v: Any) -> Any:
    return namespace(v).tanh(v, out=v)


#: `z = exp(-u)`, for which `T = tanh(u/2)`.
GAUSSIAN = Factor(_tanh, neg, Series(12, 120, 17 / 20160, 8, 192, 2880))
#: Value of `RandSel(kernel=...)` -> factor of a column; for "rank", factor of each function of its ranks.
FACTORS = {"gaussian": GAUSSIAN, "rank": GAUSSIAN}


def sum_log_factors(X: Any, gamma: float, factor: Factor) -> Any:
    """Return `log κ = Σ_j log z_j` over the columns of X, for all pairs of rows, element by element."""
    return sum_blocks(X, BLOCK, _sum_log_factors_of_block, gamma, factor)


def _sum_log_factors_of_block(block: Any, gamma: float, factor: Factor) -> Any:
    logs = (factor.log_factor(gamma * (x[:, None] - x[None, :]) ** 2) for x in to_double(block).T)
    return sum(logs, 0.0)


# ---------------------------------------------------------------- distances


def squared_distances(X: Any, Z: Any = None) -> Any:
    """Return `‖x_p - z_q‖²` for all rows of X and Z (X itself by default), never negative."""
    if Z is None:
        return distances_from_gram(gram(X))
    xp = namespace(X)
    norms_x, norms_z = (xp.sum(to_double(rows) ** 2, axis=1) for rows in (X, Z))
    return _clip_negatives(norms_x[:, None] + norms_z - 2.0 * to_double(X @ Z.T))


def distances_from_gram(products: Any) -> Any:
    """Return the squared distances that a Gram matrix implies, never negative."""
    xp = namespace(products)
    norms = xp.asarray(xp.linalg.diagonal(products), copy=True)
    distances = products * -2.0
    add_outer_sum(distances, norms)
    set_diagonal(distances, 0.0)
    return _clip_negatives(distances)


def sum_squared_differences(X: Any) -> Any:
    """Return `Σ_j d²`, with `d² = x_p⁴ - 4 x_p³ x_q + 6 x_p² x_q² - 4 x_p x_q³ + x_q⁴`: two Gram matrices."""
    square = X * X
    d2 = symmetric_product([(6.0, square, None), (-4.0, square * X, X)])
    add_outer_sum(d2, rowwise_dot(square, square))
    return d2


def _clip_negatives(distances: Any) -> Any:
    # Rounding makes distances between nearly equal rows negative.
    if on_host(distances):
        return np.maximum(distances, 0.0, out=distances)
    return clip(distances, 0.0)


def gaussian_kernel(X: Array, gamma: float, *, columns: Array | None = None, Z: Array | None = None) -> Array:
    """Return `κ_S(p, q) = exp(-γ Σ_{j∈S} (x_pj - z_qj)²)` with S = `columns` (all of them by default)."""
    if columns is not None:
        X, Z = X[:, columns], None if Z is None else Z[:, columns]
    return np.asarray(np.exp(-gamma * squared_distances(X, Z)))


def gram(X: Any) -> Any:
    """Return `X Xᵀ` in double precision, whatever the precision of the block products."""
    if not X.shape[1]:
        return np.zeros((X.shape[0], X.shape[0]))
    return sum_blocks(X, BLOCK, _gram_of_block)


def _gram_of_block(block: Any) -> Any:
    return to_double(block @ block.T)


# ---------------------------------------------------------------- bandwidth


def median_gamma(distances: Any, weights: Any = None) -> float:
    """Return one over the median squared distance between different rows, of positive ones if that median is zero.

    With `weights` w the pair (p, q) counts w_p w_q times.
    """
    weighted = weights is not None
    median = _weighted_median(*map(to_numpy, (distances, weights))) if weighted else _median_of_pairs(distances)
    return 1.0 / median if median > 0.0 else 1.0


def _median_of_pairs(distances: Any) -> float:
    """Return the median off the diagonal. Sorted, the m zeros of the diagonal come first, then every pair twice."""
    values, m = distances.reshape(-1), len(distances)
    median = _mean_of_neighbours(values, m + (len(values) - m) // 2) if m > 1 else 0.0
    if median <= 0.0:
        values = values[values > 0.0]
        median = _mean_of_neighbours(values, len(values) // 2) if len(values) else 0.0
    return median


def _mean_of_neighbours(values: Any, rank: int) -> float:
    """Return the mean of the values of rank `rank` and `rank - 1` in ascending order.

    A sample of many values brackets the rank, and only values in the bracket are partitioned: 2 ms instead of 13 ms for
    all pairs of 1000 rows, which is a tenth of the time of a path over 12 000 columns.
    """
    if not on_host(values):
        values = namespace(values).sort(values)
        return 0.5 * sum(to_floats(values[rank - 1], values[rank]))
    if len(values) >= 8192:
        step = max(5, len(values) // 32000) | 1
        while math.gcd(step, math.isqrt(len(values))) > 1:  # or the sample would come from few columns of the matrix
            step += 2
        sample = values[::step]
        # The rank of a quantile in a sample has a standard deviation of at most half the root of its size.
        bracket = len(sample) * rank // len(values) + np.array([-1, 1]) * int(3 * len(sample) ** 0.5)
        low, high = np.partition(sample, bracket)[bracket]
        near = values >= low
        n_below = len(values) - int(np.count_nonzero(near))
        near &= values <= high
        inside = np.compress(near, values)
        if 1 <= rank - n_below < len(inside):  # otherwise the rank is outside the bracket
            values, rank = inside, rank - n_below
    values = np.partition(values, (rank - 1, rank))
    return 0.5 * (float(values[rank - 1]) + float(values[rank]))


def _weighted_median(distances: Array, weights: Array) -> float:
    """Return the median off the diagonal where the pair (p, q) counts w_p w_q times; of positive ones if it is zero."""
    pairs = np.triu_indices(len(weights), 1)
    values, counts = distances[pairs], weights[pairs[0]] * weights[pairs[1]]
    median = 0.0
    while values.size and median <= 0.0:
        order = np.argsort(values, kind="stable")
        cumulated = np.cumsum(counts[order])
        # The two values in the middle, which are one unless the weights split in equal halves.
        sides = [np.searchsorted(cumulated, 0.5 * cumulated[-1], side=side) for side in ("left", "right")]
        median = float(values[order[np.minimum(sides, order.size - 1)]].mean())
        positive = values > 0.0
        values, counts = values[positive], counts[positive]
    return median


_MULTIPLE = re.compile(r"(?:(?P<factor>[0-9.eE+-]+)\s*\*\s*)?median")


def median_factor(gamma: str) -> float:
    """Return the factor in "median", "0.5*median" and the like; ValueError for anything else."""
    match = _MULTIPLE.fullmatch(gamma.strip())
    try:
        factor = float(match["factor"] or 1.0) if match else -1.0
    except ValueError:
        factor = -1.0
    if not 0.0 < factor < np.inf:
        raise ValueError(
            f"gamma={gamma!r} is neither a positive number nor 'median' nor a multiple such as '0.5*median'."
        )
    return factor


def bandwidth(gamma: float | str, distances: Array, weights: Array | None = None) -> float:
    """Return gamma as a number: "median" is one over the median squared distance, "0.5*median" half of that."""
    if isinstance(gamma, str):
        return median_factor(gamma) * median_gamma(distances, weights)
    return float(gamma)


# ---------------------------------------------------------------- centring


def centre_kernel(kernel: Array) -> Array:
    """Return `H K H` with `H = I - 11ᵀ/m`."""
    rows = kernel.mean(axis=1)
    return np.asarray(kernel - rows[:, None] - kernel.mean(axis=0) + rows.mean())


def u_centre_with_offsets(kernel: Any, *, overwrite: bool = False) -> tuple[Any, Any]:
    """Return U(K) and ρ of `K_pq = U(K)_pq + ρ_p + ρ_q` off the diagonal (eq. 4).

    U(K) has a zero diagonal and zero row sums. With `overwrite` it takes the memory of the kernel.
    """
    xp, m = namespace(kernel), kernel.shape[0]
    u_centred = kernel if overwrite else xp.asarray(kernel, copy=True)
    set_diagonal(u_centred, 0.0)
    sums = row_sums(u_centred)
    rho = sums / (m - 2) - sums.sum() / (2 * (m - 1) * (m - 2))
    add_outer_sum(u_centred, -rho)
    set_diagonal(u_centred, 0.0)
    return u_centred, rho


def u_centre(kernel: Any) -> Any:
    """Return U(K), the nearest symmetric matrix with a zero diagonal and zero row sums (eq. 4)."""
    return u_centre_with_offsets(kernel)[0]


# ---------------------------------------------------------------- alignment of two kernels


def alignment(kernel: Array, target: Array) -> float:
    """Return the centred kernel-target alignment, in [-1, 1]; 0 where a centred kernel vanishes.

    The paper prints sums of absolute entries in its denominator. They stand for Frobenius norms, which are used here.
    """
    a, b = centre_kernel(kernel), centre_kernel(target)
    product = frobenius_norm(a) * frobenius_norm(b)
    return float(dot(a, b)) / product if product > 0.0 else 0.0


def unbiased_alignment(kernel: Any, u_centred_target: Any, target_norm: float | None = None) -> float:
    """Return the alignment of U-centred kernels: its mean is 0 for an unrelated target and any kernel.

    The target is U-centred already; `target_norm` is its norm, if known. The kernel, which is overwritten, need not be:
    its product with a U-centred matrix is the same, and the norm of U(K) follows from the row sums of K.
    """
    m = kernel.shape[0]
    # Subtracting a constant does not change U(K). The mean of a few rows keeps the digits of a nearly constant kernel.
    kernel -= kernel[:: max(1, m // 32)].mean()
    set_diagonal(kernel, 0.0)
    sums = to_double(row_sums(kernel))
    square, product, square_of_sums, total_sum = to_floats(
        dot(kernel, kernel), dot(kernel, u_centred_target), dot(sums, sums), sums.sum()
    )
    target_norm = frobenius_norm(u_centred_target) if target_norm is None else target_norm
    # ‖U(K)‖² from (4); of a constant kernel only rounding is left.
    centred_square = square - 2 / (m - 2) * square_of_sums + total_sum**2 / ((m - 1) * (m - 2))
    if centred_square <= 64 * machine_epsilon(kernel.dtype) * square or target_norm == 0.0:
        return 0.0
    return product / (float(np.sqrt(centred_square)) * target_norm)


def null_scale(m: int) -> float:
    """Return one over the standard deviation of the unbiased alignment when the m rows are permuted (eq. 8)."""
    return float(np.sqrt(m * (m - 3) / 2))
