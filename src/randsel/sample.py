"""Features and target together: what the mathematics works on.

Sums over features of squared differences are additive: they are computed once, and those of the features that fall are
taken off.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from randsel._backend import (
    Array,
    astype,
    coarse_gram,
    coarse_products,
    double,
    index_of,
    inner,
    like,
    namespace,
    norm,
    power_sums,
    take,
)
from randsel._parallel import generator
from randsel.columns import Columns, blocks, gather, keep, of_rows, width
from randsel.kernels import BLOCK, Target, distances_of, gram

#: Columns per block of element-wise work: block and products stay in the second-level cache for a few hundred rows.
STRIP = 512
#: Features up to which sums are not kept: the closed form goes element by element then.
SO_FEW = 64
#: Features above which the closed form will need the pair sums, so that distances are taken from them.
WIDE = 512
#: Random vectors that the size of the second-order term is measured with, and rows from which that is cheaper than it.
PROBES, SKETCH_ROWS = 32, 512


@dataclass(frozen=True)
class Sketch:
    """The cheap part of `Σ_j d²`, which is `r_p + r_q - constant + R_pq` (eq. 10').

    Attributes
    ----------
    rows, constant
        `r` and the constant.
    diagonal
        Of R, which no pair of different rows needs.
    probes
        R times random vectors, by which its norm is known without R.
    """

    rows: Any
    constant: Any
    diagonal: Any
    probes: Any

    @classmethod
    def of(cls, x: Any, z: Any) -> "Sketch":
        """Products with a few vectors z only."""
        m = x.shape[0]
        square = x * x
        cube = square * x
        second, third = square.sum(axis=0) / m, cube.sum(axis=0) / m
        fourth_sum, second_sum = double((square * square).sum(axis=1)), double(square @ second)
        third_sum = double(x @ third)
        constant = 6.0 * double(second * second).sum()
        # 6 S Sᵀ - 4 (C Xᵀ + X Cᵀ), S and C the squares and cubes less their means
        applied = 6.0 * (square @ (square.T @ z)) - 4.0 * (cube @ (x.T @ z) + x @ (cube.T @ z))
        return cls(
            rows=fourth_sum + 6.0 * second_sum - 4.0 * third_sum,
            constant=constant,
            diagonal=8.0 * third_sum - 2.0 * fourth_sum - 12.0 * second_sum + constant,
            probes=double(applied - applied.mean(axis=0)),
        )

    def __add__(self, other: "Sketch") -> "Sketch":
        return self._with(other, 1.0)

    def __sub__(self, other: "Sketch") -> "Sketch":
        return self._with(other, -1.0)

    def _with(self, other: "Sketch", sign: float) -> "Sketch":
        return Sketch(
            self.rows + sign * other.rows,
            self.constant + sign * other.constant,
            self.diagonal + sign * other.diagonal,
            self.probes + sign * other.probes,
        )


@dataclass(frozen=True)
class PairSums:
    """Sums over features, for all pairs of rows.

    Attributes
    ----------
    products
        `Σ_j x_p x_q`, from which the sum of the squared differences d follows.
    d2
        `Σ_j d²`, or None where only a sketch of it is known.
    sketch
        None where `d2` is known.
    """

    products: Any
    d2: Any
    sketch: Sketch | None

    @classmethod
    def of(cls, X: Any, *, sketch: bool = False, inside: Any = None) -> "PairSums":
        """One Gram matrix and a sketch, or three Gram matrices, of products in the type `inside`."""
        products, d2, sketched = 0.0, None, None
        for _, block in blocks(X, width(X, BLOCK)):
            wide = block if inside is None else astype(block, inside)
            products = products + double(coarse_gram(wide, X.shape[1]))
            with coarse_products(wide, X.shape[1]):
                if sketch:
                    z = probe_vectors(wide)
                    for _, x in blocks(wide, width(wide, STRIP)):
                        part = Sketch.of(x, z)
                        sketched = part if sketched is None else sketched + part
                else:
                    part = _fourth_order(wide)
                    d2 = part if d2 is None else d2 + part
        return cls(products, d2, sketched)

    def __sub__(self, other: "PairSums") -> "PairSums":
        return PairSums(
            self.products - other.products,
            None if self.d2 is None else self.d2 - other.d2,
            None if self.sketch is None or other.sketch is None else self.sketch - other.sketch,
        )

    def second_order(self) -> tuple[Any, float]:
        """`Σ_j d²` as far as known, and a bound on the norm of the rest, wrong with probability 1e-5 at most.

        Cubes of a column go along with the column, so that most of R is a multiple of the Gram matrix.
        """
        if self.sketch is None:
            return self.d2, 0.0
        sketch, z = self.sketch, double(probe_vectors(self.products))
        off = namespace(self.products).linalg.diagonal(self.products)
        along = self.products @ z - off[:, None] * z
        probes = sketch.probes - sketch.diagonal[:, None] * z
        slope = inner(probes, along) / max(inner(along, along), 1e-300)
        # random vectors of mean zero do not see what the constant vector is mapped to, which is known
        unseen = norm(sketch.diagonal - slope * off) ** 2 / len(z)
        rows = sketch.rows - 0.5 * sketch.constant
        known = self.products * slope
        known += rows[:, None]
        known += rows[None, :]
        return known, (4.0 * norm(probes - slope * along) ** 2 / PROBES + unseen) ** 0.5


def probe_vectors(beside: Any) -> Any:
    """Random vectors of mean zero, always the same."""
    return like(_probe_vectors(beside.shape[0]), beside, precise=False)


@lru_cache(maxsize=2)
def _probe_vectors(m: int) -> Array:
    z: Array = generator(0).standard_normal((m, PROBES))
    z -= z.mean(axis=0)
    return z


def _fourth_order(X: Any) -> Any:
    """`Σ_j d²` with `d² = x_p⁴ - 4 x_p³ x_q + 6 x_p² x_q² - 4 x_p x_q³ + x_q⁴`: two Gram matrices."""
    square = X * X
    even = double(square @ square.T)
    square *= X
    odd = double(square @ X.T)
    fourth = namespace(even).linalg.diagonal(even)
    total = 6.0 * even - 4.0 * (odd + odd.T)
    total += fourth[:, None]
    total += fourth[None, :]
    return total


@dataclass(frozen=True)
class Sample:
    """Features whose columns have mean zero, the target, and which features are fixed (enter every subset)."""

    X: Any
    target: Target
    fixed: Array
    _moments: Any = field(default=None, repr=False)
    _sums: PairSums | None = field(default=None, repr=False)
    _summed_at: int = 0

    @classmethod
    def of(cls, X: Any, target: Target, fixed: Array | None = None) -> "Sample":
        """Return a sample with no feature fixed unless said."""
        return cls(X, target, np.zeros(X.shape[1], dtype=bool) if fixed is None else np.asarray(fixed, dtype=bool))

    @cached_property
    def moments(self) -> Any:
        """Per column the sums of squares and of fourth powers, and the range, in double precision: three rows."""
        if self._moments is not None:
            return self._moments
        parts = []
        for _, block in blocks(self.X, width(self.X, STRIP)):
            xp = namespace(block)
            span = double(xp.max(block, axis=0)) - double(xp.min(block, axis=0))
            parts.append(xp.stack([*power_sums(block), span]))
        return namespace(parts[0]).concat(parts, axis=1)

    @cached_property
    def inside(self) -> Any:
        """Precision of products over many features: single for many samples, whose scores move by a thousandth at most.

        Columns that are not of ordinary size would leave its range.
        """
        xp, span = namespace(self.moments), self.moments[2]
        ordinary = float(xp.min(span)) > 1e-3 and float(xp.max(span)) < 1e6
        return xp.float32 if self.X.shape[0] >= SKETCH_ROWS and ordinary else self.X.dtype

    @cached_property
    def sums(self) -> PairSums:
        """The pair sums over the free features."""
        if self._sums is not None:
            return self._sums
        return PairSums.of(self._free, sketch=self.X.shape[0] >= SKETCH_ROWS, inside=self.inside)

    def sum_squares(self) -> None:
        """Compute `Σ_j d²` where only a sketch of it is known; from here on it is updated as features fall."""
        self.__dict__["sums"] = PairSums.of(self._free, inside=self.inside)

    @cached_property
    def fixed_products(self) -> Any:
        """`Σ x_p x_q` over the fixed features; zero if there are none."""
        return gram(gather(self.X, self.fixed)) if self.fixed.any() else 0.0

    @cached_property
    def distances(self) -> Any:
        """`Σ d` over all features."""
        if "sums" not in self.__dict__ and self._sums is None and self.X.shape[1] <= WIDE:
            return distances_of(gram(self.X))
        return distances_of(self.sums.products + self.fixed_products)

    @property
    def _free(self) -> Any:
        return keep(self.X, ~self.fixed) if self.fixed.any() else self.X

    def keep(self, kept: Array, fixed: Array) -> "Sample":
        """Keep the features in the mask `kept`; of the kept ones those in the mask `fixed` are fixed.

        Sums that were computed are updated by subtraction, and computed afresh once seven eighths of what they
        were computed over is gone: their rounding error has then grown eightfold relative to what is left.
        """
        # numbers of columns, found once and where the columns are
        chosen = index_of(kept, self.moments)
        X = self.X.keep(kept) if isinstance(self.X, Columns) else take(self.X, chosen)
        after = Sample(X, self.target, fixed, take(self.moments, chosen))
        left = int((~fixed).sum())
        if "sums" not in self.__dict__ or left <= SO_FEW:
            return after
        summed_at = self._summed_at or int((~self.fixed).sum())
        if left < summed_at / 8:
            return after
        gone = ~kept
        if fixed.any() or self.fixed.any():
            gone = ~self.fixed
            gone[np.flatnonzero(kept)[~fixed]] = False
        sums = self.sums
        if gone.any():
            sums = sums - PairSums.of(keep(self.X, gone), sketch=sums.sketch is not None, inside=self.inside)
        return replace(after, _sums=sums, _summed_at=summed_at)

    def rows(self, index: Array) -> "Sample":
        """Return the sample on some of its rows, its columns centred again."""
        return Sample(of_rows(self.X, index), self.target.rows(index), self.fixed)
