"""Kernels on features and on targets, their centring, their bandwidth."""

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from randsel._numerics.arrays import (
    Array,
    add_to_both,
    astype,
    clipped,
    double,
    inner,
    like,
    namespace,
    norm,
    on_host,
    row_sums,
    rowwise,
    scalars,
    set_diagonal,
    to_numpy,
)
from randsel._numerics.columns import total

#: Columns per matrix product: bounds scratch memory, and lets single precision products be summed in double.
BLOCK = 8192
#: What to say where a kernel is zero between all different samples.
UNDERFLOW = (
    "gamma={:g} is so large that the kernel is zero between all different samples, which leaves nothing to compare; "
    "use gamma='median' or a smaller number."
)


# ---------------------------------------------------------------- Gaussian kernels on features


def squared_distances(X: Any, Z: Any = None) -> Any:
    """`‖x_p - z_q‖²` for all rows of X and Z (X itself by default), never negative."""
    if Z is None:
        return distances_of(gram(X))
    xp = namespace(X)
    norms_x, norms_z = (xp.sum(double(rows) ** 2, axis=1) for rows in (X, Z))
    return _positive(norms_x[:, None] + norms_z - 2.0 * double(X @ Z.T))


def distances_of(products: Any) -> Any:
    """Squared distances from a Gram matrix, never negative."""
    xp = namespace(products)
    norms = xp.asarray(xp.linalg.diagonal(products), copy=True)
    distances = products * -2.0
    add_to_both(distances, norms)
    set_diagonal(distances, 0.0)
    return _positive(distances)


def _positive(distances: Any) -> Any:
    if on_host(distances):
        return np.maximum(distances, 0.0, out=distances)
    return clipped(distances, 0.0)


def gaussian_kernel(X: Array, gamma: float, *, columns: Array | None = None, Z: Array | None = None) -> Array:
    """`κ_S(p, q) = exp(-γ Σ_{j∈S} (x_pj - z_qj)²)` with S = `columns` (all of them by default)."""
    if columns is not None:
        X = X[:, columns]
        Z = None if Z is None else Z[:, columns]
    kernel: Array = np.exp(-gamma * squared_distances(X, Z))
    return kernel


def gram(X: Any) -> Any:
    """`X Xᵀ` in double precision, whatever the precision of the block products."""
    if not X.shape[1]:
        return np.zeros((X.shape[0], X.shape[0]))
    return total(X, BLOCK, _gram_of_block)


def _gram_of_block(block: Any) -> Any:
    return double(block @ block.T)


def median_gamma(distances: Array, weights: Array | None = None) -> float:
    """`1 / median` of the squared distances between different rows; of the positive ones where that median is zero.

    With `weights` w the pair (p, q) counts w_p w_q times.
    """
    if not on_host(distances):
        if weights is None:
            return _device_median_gamma(distances)
        distances, weights = to_numpy(distances), to_numpy(weights)
    median = _median_of_pairs(distances) if weights is None else _weighted_median(distances, weights)
    return 1.0 / median if median > 0.0 else 1.0


def _device_median_gamma(distances: Any) -> float:
    """`median_gamma` on a device: every pair is there twice, and the zeros of the diagonal come first."""
    xp, m = namespace(distances), distances.shape[0]
    values = xp.sort(xp.reshape(distances, (-1,)))[m:]
    half = values.shape[0] // 2
    low, high = scalars(values[half - 1], values[half])
    if high <= 0.0:
        values = values[values > 0.0]
        half = values.shape[0] // 2
        low, high = scalars(values[half - 1], values[half]) if half else (0.0, 0.0)
    median = 0.5 * (low + high)
    return 1.0 / median if median > 0.0 else 1.0


def _median_of_pairs(distances: Array) -> float:
    """Median off the diagonal: every pair is there twice, and the zeros of the diagonal come first."""
    values, m = distances.reshape(-1), len(distances)
    median = _between(values, m + (len(values) - m) // 2) if m > 1 else 0.0
    if median <= 0.0:
        values = values[values > 0.0]
        median = _between(values, len(values) // 2) if len(values) else 0.0
    return median


def _between(values: Array, place: int) -> float:
    """Mean of the numbers in a place and the one before it in ascending order; of many, by looking only at some."""
    if len(values) >= 8192:
        some = values[:: len(values) // 32000 | 1]
        # places of a quantile of a sample in the sample have a standard deviation of at most half the root of its size
        around = len(some) * place // len(values) + np.array([-1, 1]) * int(3 * len(some) ** 0.5)
        low, high = np.partition(some, around)[around]
        near = values >= low
        below = len(values) - int(np.count_nonzero(near))
        near &= values <= high
        close = np.compress(near, values)
        if 1 <= place - below < len(close):  # otherwise they are elsewhere
            values, place = close, place - below
    values = np.partition(values, (place - 1, place))
    return 0.5 * (float(values[place - 1]) + float(values[place]))


def _weighted_median(distances: Array, weights: Array) -> float:
    """Median off the diagonal where the pair (p, q) counts w_p w_q times; of positive distances if that is zero."""
    values, counts = (_upper(matrix) for matrix in (distances, np.outer(weights, weights)))
    median = 0.0
    while values.size and median <= 0.0:
        order = np.argsort(values, kind="stable")
        cumulated = np.cumsum(counts[order])
        sides = [np.searchsorted(cumulated, 0.5 * cumulated[-1], side=side) for side in ("left", "right")]
        median = float(values[order[np.minimum(sides, order.size - 1)]].mean())
        positive = values > 0.0
        values, counts = values[positive], counts[positive]
    return median


def _upper(matrix: Array) -> Array:
    """Entries above the diagonal, row by row."""
    return np.concatenate([row[i:] for i, row in enumerate(matrix, 1)])


_MULTIPLE = re.compile(r"(?:(?P<factor>[0-9.eE+-]+)\s*\*\s*)?median")


def median_factor(gamma: str) -> float:
    """Return the factor in "median", "0.5*median" and the like; ValueError for anything else."""
    match = _MULTIPLE.fullmatch(gamma.strip())
    try:
        factor = float(match["factor"] or 1.0) if match else -1.0
    except ValueError:
        factor = -1.0
    if not 0.0 < factor < np.inf:
        msg = f"gamma={gamma!r} is neither a positive number nor 'median' nor a multiple such as '0.5*median'."
        raise ValueError(msg)
    return factor


def bandwidth(gamma: float | str, distances: Array, weights: Array | None = None) -> float:
    """Return the number, or the multiple of one over the median distance, that `gamma` stands for."""
    if isinstance(gamma, str):
        return median_factor(gamma) * median_gamma(distances, weights)
    return float(gamma)


# ---------------------------------------------------------------- centring


def centre(kernel: Array) -> Array:
    """`H K H` with `H = I - 11ᵀ/m`."""
    rows = kernel.mean(axis=1)
    columns = kernel.mean(axis=0)
    centred: Array = kernel - rows[:, None] - columns[None, :] + rows.mean()
    return centred


def hollow_split(kernel: Any, *, overwrite: bool = False) -> tuple[Any, Any]:
    """Split off the diagonal `K_pq = U_pq + ρ_p + ρ_q`, where U has a zero diagonal and zero row sums (eq. 4)."""
    xp, m = namespace(kernel), kernel.shape[0]
    hollow = kernel if overwrite else xp.asarray(kernel, copy=True)
    set_diagonal(hollow, 0.0)
    rows = row_sums(hollow)
    rho = rows / (m - 2) - rows.sum() / (2 * (m - 1) * (m - 2))
    add_to_both(hollow, -rho)
    set_diagonal(hollow, 0.0)
    return hollow, rho


def hollow_centre(kernel: Any) -> Any:
    """U-centring: the nearest symmetric matrix with a zero diagonal and zero row sums."""
    return hollow_split(kernel)[0]


# ---------------------------------------------------------------- target kernels


@dataclass(frozen=True)
class Target:
    """A target as the factor of its centred kernel: `L = Y Yᵀ`, weights included.

    Attributes
    ----------
    Y
        Rows centred by the weighted mean, then multiplied by their weights (which have mean 1).
    weights
        The weights, or None where all are equal.
    kind
        "classification" or "regression".
    """

    Y: Array
    weights: Array | None
    kind: str

    @classmethod
    def encode(cls, y: Array, kind: str, weights: Array | None = None) -> "Target":
        """Encode ±1 for two classes, one-hot columns for more, standardised columns for numbers."""
        if kind == "classification":
            classes, codes = np.unique(y, return_inverse=True)
            codes = codes.ravel()
            Y = np.where(codes == 1, 1.0, -1.0)[:, None] if len(classes) == 2 else np.eye(len(classes))[codes]
        else:
            Y = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
            Y = np.where(Y.max(axis=0) > Y.min(axis=0), Y, 0.0)
            Y = np.ldexp(Y, -np.frexp(np.abs(Y).max(axis=0))[1])
        share = np.full(len(Y), 1.0 / len(Y)) if weights is None else weights / weights.sum()
        Y = Y - share @ Y
        if kind == "regression":
            spread = np.sqrt(share @ (Y * Y))
            Y = Y / np.where(spread > 0.0, spread, 1.0)
        if weights is None:
            return cls(Y, None, kind)
        weights = share * len(Y)
        return cls(Y * weights[:, None], weights, kind)

    def beside(self, X: Any) -> "Target":
        """Return the target where X is."""
        weights = None if self.weights is None else like(self.weights, X)
        return replace(self, Y=like(self.Y, X), weights=weights)

    @cached_property
    def kernel(self) -> Any:
        """`L`."""
        return self.Y @ self.Y.T

    @cached_property
    def loads(self) -> Any:
        """The diagonal of `L`."""
        return (self.Y * self.Y).sum(axis=1)

    @cached_property
    def own_rows(self) -> Any:
        """Sums of the rows of `L`, less twice its diagonal."""
        return self.Y @ self.Y.sum(axis=0) - 2 * self.loads

    @cached_property
    def hollow(self) -> tuple[Any, Any]:
        """`L` split into its U-centred part and the rest."""
        return hollow_split(self.kernel)

    @cached_property
    def _cast(self) -> dict[Any, tuple[Any, Any]]:
        return {}

    def matrices(self, dtype: Any) -> tuple[Any, Any]:
        """`L` and its U-centred part in a precision, kept."""
        if dtype not in self._cast:
            self._cast[dtype] = astype(self.kernel, dtype), astype(self.hollow[0], dtype)
        return self._cast[dtype]

    @cached_property
    def hollow_norm(self) -> float:
        """`‖U(L)‖_F`, zero where only rounding is left, as with a class of one member."""
        length = norm(self.hollow[0])
        return length if length > 1e-10 * norm(self.kernel) else 0.0

    @cached_property
    def hollow_cube(self) -> float:
        """`tr U(L)³`, from the factor of L: off the diagonal U(L) is `Y Yᵀ - ρ 1ᵀ - 1 ρᵀ`, a matrix of low rank."""
        xp, rho = namespace(self.Y), self.hollow[1][:, None]
        ones = xp.ones_like(rho)
        left, right = xp.concat([self.Y, rho, ones], axis=1), xp.concat([self.Y, -ones, -rho], axis=1)
        core = right.T @ left
        diagonal, of_square = rowwise(left, right), rowwise(left @ core, right)
        whole = inner(core @ core, core.T)
        return whole - 3 * inner(diagonal, of_square) + 2 * inner(diagonal**2, diagonal)

    @cached_property
    def lopsided(self) -> bool:
        """Whether little of `L` is left when U-centred, as with a class of one member or one extreme number."""
        m, loads, whole = len(self.Y), self.loads, norm(self.Y.T @ self.Y) ** 2
        rows = self.own_rows + loads
        left = whole - inner(loads, loads) - 2 / (m - 2) * inner(rows, rows)
        return left + float(rows.sum()) ** 2 / ((m - 1) * (m - 2)) < 1e-6 * whole

    @cached_property
    def largest(self) -> float:
        """`max |L_pq|` over different samples."""
        off = namespace(self.Y).abs(self.kernel)
        set_diagonal(off, 0.0)
        return float(off.max())

    @cached_property
    def n_pairs(self) -> float:
        """`Σ_{p≠q} w_p w_q`, by which sums over pairs become means."""
        if self.weights is None:
            return float(len(self.Y) * (len(self.Y) - 1))
        return float(self.weights.sum()) ** 2 - inner(self.weights, self.weights)

    @cached_property
    def strata(self) -> Array:
        """A number per sample by which blocks of rows are made alike: one per class, or growing with the output."""
        strata: Array = to_numpy(self.Y) @ np.arange(1.0, self.Y.shape[1] + 1)
        return strata if self.weights is None else strata / to_numpy(self.weights)

    def rows(self, index: Array) -> "Target":
        """Return the target on some of the rows, still centred by the mean of all."""
        return replace(self, Y=self.Y[index], weights=None if self.weights is None else self.weights[index])
