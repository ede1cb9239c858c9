"""Kernels on features and on targets, their centring, their bandwidth.

`Sample` is what the mathematics works on: standardised features, the target, and the sums over features of
squared differences, which are additive and so need not be computed again when features fall.
"""

import re
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

#: Columns per matrix product: bounds scratch memory, and lets single precision products be summed in double.
BLOCK = 4096
#: Features above which the closed form will need the pair sums, so that distances are taken from them.
WIDE = 512
#: What to say where a kernel is zero between all different samples.
UNDERFLOW = (
    "gamma={:g} is so large that the kernel is zero between all different samples, which leaves nothing to compare; "
    "use gamma='median' or a smaller number."
)


# ---------------------------------------------------------------- Gaussian kernels on features


def squared_distances(X: Array, Z: Array | None = None) -> Array:
    """`‖x_p - z_q‖²` for all rows of X and Z (X itself by default), never negative."""
    distances: Array
    if Z is None:
        gram = _gram(X, X)
        norms = np.diagonal(gram)
        distances = norms[:, None] + norms[None, :] - 2.0 * gram
        np.fill_diagonal(distances, 0.0)
    else:
        norms_x = np.einsum("ij,ij->i", X, X, dtype=np.float64)
        norms_z = np.einsum("ij,ij->i", Z, Z, dtype=np.float64)
        distances = norms_x[:, None] + norms_z - 2.0 * _gram(X, Z)
    np.maximum(distances, 0.0, out=distances)
    return distances


def gaussian_kernel(X: Array, gamma: float, *, columns: Array | None = None, Z: Array | None = None) -> Array:
    """`κ_S(p, q) = exp(-γ Σ_{j∈S} (x_pj - z_qj)²)` with S = `columns` (all of them by default)."""
    if columns is not None:
        X = X[:, columns]
        Z = None if Z is None else Z[:, columns]
    kernel: Array = np.exp(-gamma * squared_distances(X, Z))
    return kernel


def _gram(X: Array, Z: Array) -> Array:
    """`X Zᵀ` in double precision, whatever the precision of the block products."""
    gram = np.zeros((X.shape[0], Z.shape[0]))
    for start in range(0, X.shape[1], BLOCK):
        block = X[:, start : start + BLOCK]
        gram += block @ (block.T if X is Z else Z[:, start : start + BLOCK].T)
    return gram


@dataclass(frozen=True)
class PairSums:
    """Sums over features of `d = (x_p - x_q)²` and of `d²`, for all pairs of rows."""

    d1: Array
    d2: Array

    @classmethod
    def of(cls, X: Array) -> "PairSums":
        """Three Gram matrices: `d² = x_p⁴ - 4 x_p³ x_q + 6 x_p² x_q² - 4 x_p x_q³ + x_q⁴`."""
        m = X.shape[0]
        gram, gram_22, gram_31 = np.zeros((m, m)), np.zeros((m, m)), np.zeros((m, m))
        for start in range(0, X.shape[1], BLOCK):
            block = X[:, start : start + BLOCK]
            square = block * block
            gram += block @ block.T
            gram_22 += square @ square.T
            square *= block
            gram_31 += square @ block.T
        norms, fourth = np.diagonal(gram), np.diagonal(gram_22)
        d1 = norms[:, None] + norms[None, :] - 2.0 * gram
        d2 = fourth[:, None] + fourth[None, :] + 6.0 * gram_22 - 4.0 * (gram_31 + gram_31.T)
        return cls(d1, d2)

    def __sub__(self, other: "PairSums") -> "PairSums":
        return PairSums(self.d1 - other.d1, self.d2 - other.d2)


def median_gamma(distances: Array, weights: Array | None = None) -> float:
    """`1 / median` of the squared distances between different rows; of the positive ones where that median is zero.

    With `weights` w the pair (p, q) counts w_p w_q times.
    """
    upper = _upper(distances.shape[0])
    values = distances.ravel()[upper]
    counts = None if weights is None else np.outer(weights, weights).ravel()[upper]
    median = _median(values, counts)
    if median <= 0.0:
        positive = values > 0.0
        median = _median(values[positive], None if counts is None else counts[positive])
    return 1.0 / median if median > 0.0 else 1.0


def _median(values: Array, counts: Array | None) -> float:
    if not values.size:
        return 0.0
    if counts is None:
        return float(np.median(values))
    order = np.argsort(values, kind="stable")
    cumulated = np.cumsum(counts[order])
    sides = [np.searchsorted(cumulated, 0.5 * cumulated[-1], side=side) for side in ("left", "right")]
    return float(values[order[np.minimum(sides, order.size - 1)]].mean())


@lru_cache(maxsize=2)
def _upper(m: int) -> Array:
    """Positions of the pairs p < q in a flattened m×m matrix."""
    return np.flatnonzero(np.triu(np.ones((m, m), dtype=bool), 1))


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


def hollow_split(kernel: Array) -> tuple[Array, Array]:
    """Split off the diagonal `K_pq = U_pq + ρ_p + ρ_q`, where U has a zero diagonal and zero row sums (eq. 4)."""
    m = kernel.shape[0]
    hollow: Array = np.array(kernel, dtype=np.float64)
    np.fill_diagonal(hollow, 0.0)
    rows = hollow.sum(axis=1)
    rho = rows / (m - 2) - rows.sum() / (2 * (m - 1) * (m - 2))
    hollow -= rho[:, None]
    hollow -= rho[None, :]
    np.fill_diagonal(hollow, 0.0)
    return hollow, rho


def hollow_centre(kernel: Array) -> Array:
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

    @cached_property
    def kernel(self) -> Array:
        """`L`."""
        kernel: Array = self.Y @ self.Y.T
        return kernel

    @cached_property
    def hollow(self) -> tuple[Array, Array]:
        """`L` split into its U-centred part and the rest."""
        return hollow_split(self.kernel)

    @cached_property
    def hollow_norm(self) -> float:
        """`‖U(L)‖_F`, zero where only rounding is left, as with a class of one member."""
        norm = float(np.linalg.norm(self.hollow[0]))
        return norm if norm > 1e-10 * float(np.linalg.norm(self.kernel)) else 0.0

    @cached_property
    def largest(self) -> float:
        """`max |L_pq|` over different samples."""
        off = np.abs(self.kernel)
        np.fill_diagonal(off, 0.0)
        return float(off.max())

    @cached_property
    def n_pairs(self) -> float:
        """`Σ_{p≠q} w_p w_q`, by which sums over pairs become means."""
        weights = np.ones(len(self.Y)) if self.weights is None else self.weights
        return float(weights.sum() ** 2 - weights @ weights)

    @cached_property
    def strata(self) -> Array:
        """A number per sample by which blocks of rows are made alike: one per class, or growing with the output."""
        strata: Array = self.Y @ np.arange(1.0, self.Y.shape[1] + 1)
        return strata if self.weights is None else strata / self.weights

    def rows(self, index: Array) -> "Target":
        """Return the target on some of the rows, still centred by the mean of all."""
        return replace(self, Y=self.Y[index], weights=None if self.weights is None else self.weights[index])


# ---------------------------------------------------------------- features and target together


@dataclass(frozen=True)
class Sample:
    """Features whose columns have mean zero, the target, and which features are fixed (enter every subset)."""

    X: Array
    target: Target
    fixed: Array
    _moments: Array | None = field(default=None, repr=False)
    _sums: PairSums | None = field(default=None, repr=False)
    _summed_at: int = 0

    @classmethod
    def of(cls, X: Array, target: Target, fixed: Array | None = None) -> "Sample":
        """Return a sample with no feature fixed unless said."""
        return cls(X, target, np.zeros(X.shape[1], dtype=bool) if fixed is None else np.asarray(fixed, dtype=bool))

    @cached_property
    def moments(self) -> Array:
        """Per column the sums of squares and of fourth powers, and the range, in double precision: three rows."""
        if self._moments is not None:
            return self._moments
        moments = np.zeros((3, self.X.shape[1]))
        for start in range(0, self.X.shape[1], BLOCK):
            block = self.X[:, start : start + BLOCK].astype(np.float64)
            moments[2, start : start + BLOCK] = block.max(axis=0) - block.min(axis=0)
            np.square(block, out=block)
            moments[0, start : start + BLOCK] = block.sum(axis=0)
            moments[1, start : start + BLOCK] = np.einsum("ij,ij->j", block, block)
        return moments

    @cached_property
    def sums(self) -> PairSums:
        """The pair sums over the free features."""
        return PairSums.of(self._free) if self._sums is None else self._sums

    @cached_property
    def fixed_distances(self) -> Array:
        """`Σ d` over the fixed features."""
        if not self.fixed.any():
            return np.zeros((len(self.X), len(self.X)))
        return squared_distances(self.X[:, self.fixed])

    @cached_property
    def distances(self) -> Array:
        """`Σ d` over all features."""
        if "sums" not in self.__dict__ and self._sums is None and self.X.shape[1] <= WIDE:
            return squared_distances(self.X)
        distances: Array = np.maximum(self.sums.d1 + self.fixed_distances, 0.0)
        return distances

    @property
    def _free(self) -> Array:
        free: Array = self.X[:, ~self.fixed] if self.fixed.any() else self.X
        return free

    def keep(self, kept: Array, fixed: Array) -> "Sample":
        """Keep the features in the mask `kept`; of the kept ones those in the mask `fixed` are fixed.

        Sums that were computed are updated by subtraction, and computed afresh once seven eighths of what they
        were computed over is gone: their rounding error has then grown eightfold relative to what is left.
        """
        after = Sample(self.X[:, kept], self.target, fixed, self.moments[:, kept])
        if "sums" not in self.__dict__:
            return after
        summed_at = self._summed_at or int((~self.fixed).sum())
        left = int((~fixed).sum())
        if left < summed_at / 8:
            return after
        gone = ~self.fixed
        gone[np.flatnonzero(kept)[~fixed]] = False
        sums = self.sums - PairSums.of(self.X[:, gone]) if gone.any() else self.sums
        return replace(after, _sums=sums, _summed_at=summed_at)

    def rows(self, index: Array) -> "Sample":
        """Return the sample on some of its rows, its columns centred again."""
        X = self.X[index]
        return Sample(X - X.mean(axis=0), self.target.rows(index), self.fixed)
