"""The target, which is the outcome y as the factor of its centred kernel, and the annotations of the samples."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from randsel._numerics.arrays import as_array_like, astype, clip, dot, frobenius_norm, namespace, on_host, to_numpy
from randsel._numerics.kernels import u_centre
from randsel._numerics.nuisance import Covariates, Nuisance
from randsel._utils.typing import Array
from randsel.targets._kinds import OutcomeKind

#: Batches of this many samples or fewer, on average, are small.
SMALL_BATCH = 10


@dataclass(frozen=True)
class Annotations:
    """Groups, batches and covariates of the samples of weight above zero; each may be None.

    Attributes
    ----------
    groups, batch
        Numbers from 0.
    covariates
        Columns of numbers.
    """

    groups: Array | None = None
    batch: Array | None = None
    covariates: Covariates | None = None

    def rows(self, index: Array) -> "Annotations":
        """Return the annotations of some samples."""
        groups, batch = (None if labels is None else labels[index] for labels in (self.groups, self.batch))
        return Annotations(groups, batch, None if self.covariates is None else self.covariates.rows(index))

    def as_arguments(self) -> dict[str, Any]:
        """Return the annotations as keyword arguments of `fit`."""
        return {"groups": self.groups, "batch": self.batch, "covariates": self.covariates}

    @property
    def are_none(self) -> bool:
        """Whether there are no groups, batches or covariates."""
        return self.groups is None and self.batch is None and self.covariates is None

    @property
    def covariate_columns(self) -> Array | None:
        """The covariates as columns of numbers, for a Cox model."""
        return None if self.covariates is None else self.covariates.values

    @property
    def units(self) -> Array | None:
        """Number of the unit of every sample: its group or, without groups, its small batch; None for neither.

        Subtracting the mean of a small batch makes its samples depend on each other: two samples become mirror images.
        """
        if self.groups is not None or self.batch is None:
            return self.groups
        return self.batch if len(self.batch) <= SMALL_BATCH * len(np.unique(self.batch)) else None

    def nuisance(self, m: int, weights: Array | None) -> Nuisance | None:
        """Return what is projected out of features and outcome of m samples; None if only one mean is subtracted."""
        if self.batch is None and self.covariates is None:
            return None
        nuisance = Nuisance.from_samples(m, weights, self.batch, self.covariates, self.groups)
        nuisance.check_freedom()
        return nuisance

    def arrays(self) -> Iterator[Array | None]:
        """Yield groups, and batches and covariates if there are any, for a fingerprint."""
        yield self.groups
        if self.batch is not None or self.covariates is not None:
            yield self.batch
        if self.covariates is not None:
            yield self.covariates.values


@dataclass(frozen=True)
class Target:
    """Factor Y of the centred kernel `L = Y Yᵀ` of the outcome, weights included."""

    Y: Array  # rows centred by the weighted mean, then multiplied by their weights (which have mean 1)
    weights: Array | None  # None where all are equal
    #: Number of the group of every sample, on the host; None where samples are independent.
    groups: Array | None = None
    #: Number of the unit of every sample, on the host; None where each is a unit. Samples of a unit are left out
    #: together when errors are estimated.
    units: Array | None = None
    #: Columns, on the host, that were projected out of outcome and features; None if only one mean was.
    nuisance: Array | None = None

    @classmethod
    def encode(
        cls,
        y: Array,
        kind: OutcomeKind,
        weights: Array | None = None,
        groups: Array | None = None,
        nuisance: Nuisance | None = None,
        units: Array | None = None,
    ) -> "Target":
        """Return the target of y, which is checked already; `kind` encodes it, and `nuisance` is projected out.

        By default, groups are the units.
        """
        units = groups if units is None else units
        fractions = np.full(len(y), 1.0 / len(y)) if weights is None else weights / weights.sum()
        Y = kind.kernel_factor(y, fractions)
        if nuisance is not None:
            Y = nuisance.remove_from_outcome(Y)
        columns = None if nuisance is None or nuisance.only_centres else nuisance.columns
        if weights is None:
            return cls(Y, None, groups, units, columns)
        weights = fractions * len(Y)
        return cls(Y * weights[:, None], weights, groups, units, columns)

    def on_device_of(self, X: Any) -> "Target":
        """Return the target on the device of X."""
        weights = None if self.weights is None else as_array_like(self.weights, X)
        return replace(self, Y=as_array_like(self.Y, X), weights=weights)

    @cached_property
    def kernel(self) -> Any:
        """`L`."""
        return self.Y @ self.Y.T

    @cached_property
    def diagonal(self) -> Any:
        """The diagonal of `L`."""
        return (self.Y * self.Y).sum(axis=1)

    @cached_property
    def row_sums_less_diagonals(self) -> Any:
        """Sums of the rows of `L`, less twice its diagonal."""
        return self.Y @ self.Y.sum(axis=0) - 2 * self.diagonal

    @cached_property
    def u_centred(self) -> Any:
        """`U(L)` (eq. 4)."""
        return u_centre(self.kernel)

    @cached_property
    def offsets(self) -> Any:
        """`ρ` of `L_pq = U(L)_pq + ρ_p + ρ_q` off the diagonal (eq. 4), from the row sums of L."""
        m, sums = len(self.Y), self.row_sums_less_diagonals + self.diagonal
        return sums / (m - 2) - sums.sum() / (2 * (m - 1) * (m - 2))

    @cached_property
    def _cast(self) -> dict[Any, tuple[Any, Any]]:
        return {}

    def matrices(self, dtype: Any) -> tuple[Any, Any]:
        """Return `L` and `U(L)` in a precision; cached."""
        if dtype not in self._cast:
            self._cast[dtype] = astype(self.kernel, dtype), astype(self.u_centred, dtype)
        return self._cast[dtype]

    @cached_property
    def u_centred_norm(self) -> float:
        """`‖U(L)‖_F`, zero where only rounding is left, as with a class of one member."""
        if not self.lopsided:
            return math.sqrt(self._sizes[0])
        norm = frobenius_norm(self.u_centred)
        return norm if norm > 1e-10 * frobenius_norm(self.kernel) else 0.0

    @cached_property
    def lopsided(self) -> bool:
        """Whether little of `L` is left when U-centred, as with a class of one member or one extreme number."""
        u_centred_square, square, _ = self._sizes
        return u_centred_square < 1e-6 * square

    @property
    def largest(self) -> float:
        """A bound on `|L_pq|` of different samples: the product of the two largest lengths of rows of Y."""
        return self._sizes[2]

    @cached_property
    def _sizes(self) -> tuple[float, float, float]:
        """`‖U(L)‖²`, `‖L‖²` and `largest`, on the host; by row sums off the diagonal (eq. 4), without L."""
        if not on_host(self.Y):
            return Target(to_numpy(self.Y), None)._sizes
        m, diagonal, products = len(self.Y), self.diagonal, self.Y.T @ self.Y
        rows = self.row_sums_less_diagonals + diagonal
        square, diagonal_square, rows_square = (float(np.vdot(v, v)) for v in (products, diagonal, rows))
        second, first = np.sort(diagonal)[-2:].tolist()
        total = float(rows.sum())
        u_centred_square = square - diagonal_square - 2 / (m - 2) * rows_square + total**2 / ((m - 1) * (m - 2))
        return u_centred_square, square, math.sqrt(first * second)

    @cached_property
    def root_weights(self) -> Any:
        """Square roots of the weights."""
        return namespace(self.Y).ones_like(self.Y[:, 0]) if self.weights is None else self.weights**0.5

    @cached_property
    def scaled(self) -> Any:
        """Y divided by the root weights, without its part along them."""
        roots = self.root_weights
        # In a block of rows, Y is centred by the mean of all rows.
        scaled = self.Y / roots[:, None]
        return scaled - roots[:, None] * ((roots @ scaled) / self.sum_of_weights)

    @cached_property
    def sum_of_weights(self) -> Any:
        """`Σ_p w_p`: the number of rows, except in a block of weighted rows."""
        return len(self.Y) if self.weights is None else self.root_weights @ self.root_weights

    @cached_property
    def variance(self) -> Any:
        """Mean square of `scaled`, above zero."""
        return clip((self.scaled * self.scaled).sum() / len(self.Y), 1e-300)

    @cached_property
    def n_pairs(self) -> float:
        """`Σ_{p≠q} w_p w_q`, by which sums over pairs become means."""
        if self.weights is None:
            return float(len(self.Y) * (len(self.Y) - 1))
        return float(self.weights.sum()) ** 2 - float(dot(self.weights, self.weights))

    @cached_property
    def strata(self) -> Array:
        """A number per sample, one per class or increasing with the output, by which row blocks are balanced."""
        strata: Array = to_numpy(self.Y) @ np.arange(1.0, self.Y.shape[1] + 1)
        return strata if self.weights is None else strata / to_numpy(self.weights)

    def rows(self, index: Array) -> "Target":
        """Return the target of some of the rows, centred by the mean of all rows."""
        values = {name: getattr(self, name) for name in ("weights", "groups", "units", "nuisance")}
        rows = {name: None if array is None else array[index] for name, array in values.items()}
        return replace(self, Y=self.Y[index], **rows)
