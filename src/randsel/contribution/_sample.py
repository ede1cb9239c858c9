"""Features and target together: what the mathematics works on.

Sums over features of squared differences are additive: they are computed once, and those of the features that fall are
taken off.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from randsel._numerics.arrays import (
    add_outer_sum,
    add_scaled,
    as_index,
    astype,
    coarse_gram,
    coarse_products,
    column_ranges,
    device_of,
    dot,
    inner_product,
    is_single,
    machine_epsilon,
    namespace,
    on_host,
    rowwise_dot,
    second_and_fourth_power_sums,
    symmetric_product,
    take_columns,
    to_device,
    to_double,
    to_floats,
    to_numpy,
)
from randsel._numerics.columns import (
    ColumnSource,
    block_width,
    column_slices,
    keep_columns,
    load_columns,
    map_blocks,
    select_columns,
    sum_blocks,
    take_centred_rows,
)
from randsel._numerics.kernels import BLOCK, distances_of, gram, null_scale
from randsel._utils.jobs import generator
from randsel._utils.typing import Array
from randsel.targets._target import Target

#: Columns per block of element-wise work: block and products stay in the second-level cache for a few hundred rows.
STRIP = 512
#: Features up to which sums are not kept: the closed form goes element by element then.
SO_FEW = 64
#: Largest error of a score, in standard deviations of the null, through single precision of matrices of pairs.
WORST = 0.1
#: Largest error of γ times a distance through single precision.
RESOLUTION = 1e-3
#: Features above which the closed form will need the pair sums, so that distances are taken from them.
WIDE = 512
#: Features above which what bounds all that there were is good enough for those that are left.
INHERITED = 1024
#: Features from which cubes are taken by a step, and up to which fourth moment per second on average.
STEP_FEATURES, STEP_KURTOSIS = 1024, 4.0
#: Random vectors that the size of the second-order term is measured with, and rows from which that is cheaper than it.
PROBES, SKETCH_ROWS = 32, 512
#: Features per row from which the second order is likely to be small enough for that.
SKETCH_RATIO = 8


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
        xp, m = namespace(x), x.shape[0]
        square = x * x
        cube = square * x
        # with a column of ones, sums come along
        ones = xp.concat([z, xp.ones_like(z[:, :1]) / m], axis=1)
        squares, cubes = square.T @ ones, cube.T @ ones
        second = squares[:, -1]
        squares[:, :-1] *= 6.0
        cubes[:, :-1] *= -4.0
        # 6 S Sᵀ - 4 (C Xᵀ + X Cᵀ), S and C the squares and cubes less their means
        by_square, by_x = square @ squares, x @ cubes
        applied = by_square[:, :-1] + by_x[:, :-1] + cube @ (x.T @ (z * -4.0))
        second_sum, third_sum = to_double(by_square[:, -1]), to_double(by_x[:, -1])
        fourth_sum = to_double((square * square).sum(axis=1))
        constant = 6.0 * to_double(second * second).sum()
        return cls(
            rows=fourth_sum + 6.0 * second_sum - 4.0 * third_sum,
            constant=constant,
            diagonal=8.0 * third_sum - 2.0 * fourth_sum - 12.0 * second_sum + constant,
            probes=to_double(applied - applied.mean(axis=0)),
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
class Step:
    """Cubes as a small change of their columns, by which their products with them cost one Gram matrix (eq. 10''').

    Attributes
    ----------
    slope
        `e = x³ - slope x` is what is added.
    size
        How much of it.
    """

    slope: float
    size: float

    def fourth_order(self, X: Any, products: Any) -> tuple[Any, float]:
        """`Σ_j d²` with the Gram matrix of X, and a bound on the norm of what it lacks."""
        lost, rows = [], []

        def terms() -> Iterator[tuple[float, Any, Any]]:
            for at in column_slices(X.shape[1], block_width(X, STRIP)):
                x = X[:, at]
                square = x * x
                yield 6.0, square, None
                rows.append(rowwise_dot(square, square))
                change = square
                change -= self.slope
                change *= x
                lost.append(inner_product(change, change))
                change *= self.size
                change += x
                yield -4.0 / self.size, change, None

        total = symmetric_product(terms())
        add_scaled(total, products, 4.0 / self.size - 8.0 * self.slope)
        add_outer_sum(total, sum(rows[1:], rows[0]))
        return total, 4.0 * self.size * sum(lost)


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
    step, lost
        By which step `d2` was computed, if by any, and a bound on the norm of what it lacks.
    """

    products: Any
    d2: Any
    sketch: Sketch | None
    step: Step | None = None
    lost: float = 0.0

    @classmethod
    def of(
        cls, X: Any, *, sketch: bool = False, step: Step | None = None, inside: Any = None, dtype: Any = None
    ) -> "PairSums":
        """One Gram matrix and a sketch, or three Gram matrices, of products in the type `inside`; kept in `dtype`."""
        sums: PairSums = sum_blocks(X, BLOCK, cls.of_block, X.shape[1], sketch, step, inside)
        return sums.astype(dtype)

    @classmethod
    def of_block(cls, block: Any, n: int, sketch: bool, step: Step | None, inside: Any) -> "PairSums":
        """Return the sums over a block, of n columns in all, not cast."""
        wide = block if inside is None else astype(block, inside)
        products = coarse_gram(wide, n)
        with coarse_products(wide, n):
            if sketch:
                return cls(products, None, sum_blocks(wide, STRIP, Sketch.of, probe_vectors(wide)))
            if step is None:
                return cls(products, _fourth_order(wide), None)
            d2, lost = step.fourth_order(wide, products)
            return cls(products, d2, None, step, lost)

    def astype(self, dtype: Any) -> "PairSums":
        """Return the sums in another precision, double by default."""
        dtype = namespace(self.products).float64 if dtype is None else dtype
        d2 = None if self.d2 is None else astype(self.d2, dtype)
        return replace(self, products=astype(self.products, dtype), d2=d2)

    def __add__(self, other: "PairSums") -> "PairSums":
        return PairSums(
            to_double(self.products) + to_double(other.products),
            None if self.d2 is None else to_double(self.d2) + to_double(other.d2),
            None if self.sketch is None or other.sketch is None else self.sketch + other.sketch,
            self.step,
            self.lost + other.lost,
        )

    def less(self, other: "PairSums") -> "PairSums":
        """Return the difference, in the memory of the other, which is lost: fresh one costs more than to subtract."""
        subtract = namespace(self.products).subtract
        return PairSums(
            subtract(self.products, other.products, out=other.products),
            None if self.d2 is None else subtract(self.d2, other.d2, out=other.d2),
            None if self.sketch is None or other.sketch is None else self.sketch - other.sketch,
            self.step,
            max(self.lost - other.lost, 0.0),
        )

    def log_terms(self, gamma: float) -> tuple[Any, float]:
        """`Σ_j -u_j/2 + u_j²/8` with `u = γ d`, and a bound on the norm of what it lacks (eq. 10)."""
        second_order = gamma * gamma / 8
        slope, rows, lost = (0.0, 0.0, self.lost) if self.sketch is None else self._by(self.sketch)
        # the distances are those of the Gram matrix, and so is most of the rest: one pass for both
        terms = self.products * (gamma + second_order * slope)
        if self.sketch is None:
            add_scaled(terms, self.d2, second_order)
        norms = to_double(namespace(self.products).linalg.diagonal(self.products))
        add_outer_sum(terms, astype(second_order * rows - 0.5 * gamma * norms, terms.dtype))
        return terms, second_order * lost

    def _by(self, sketch: Sketch) -> tuple[float, Any, float]:
        """`Σ_j d²` as a multiple of the products, with numbers of both rows added; and a bound on the norm of the rest.

        It is wrong with probability 1e-5 at most. Cubes of a column go along with the column, so that most of R is a
        multiple of the Gram matrix.
        """
        z = probe_vectors(self.products)
        off = to_double(namespace(self.products).linalg.diagonal(self.products))
        along, z = to_double(self.products @ z), to_double(z)
        along -= off[:, None] * z
        probes = sketch.probes - sketch.diagonal[:, None] * z
        shared, whole = to_floats(dot(probes, along), dot(along, along))
        slope = shared / max(whole, 1e-300)
        left, of_diagonal = probes - slope * along, sketch.diagonal - slope * off
        seen, unseen = to_floats(dot(left, left), dot(of_diagonal, of_diagonal))
        # random vectors of mean zero do not see what the constant vector is mapped to, which is known
        return slope, sketch.rows - 0.5 * sketch.constant, (4.0 * seen / PROBES + unseen / len(z)) ** 0.5


def hollow_norm(second: Any, fourth: Any, m: int) -> Any:
    """`‖U(x xᵀ)‖_F` of columns of mean zero, from their sums of squares and of fourth powers (eq. 9)."""
    square = second**2 * (1 + 1 / ((m - 1) * (m - 2))) - fourth * (m / (m - 2))
    return root(square, second**2, m, "float64")


def pair_norm(second: Any, fourth: Any, m: int) -> Any:
    """`‖d‖_F`, the norm of the squared differences of columns of mean zero."""
    return (2 * m * fourth + 6 * second**2) ** 0.5


def root(square: Any, scale: Any, m: int, dtype: Any) -> Any:
    """Square root, with zero for what is only rounding of sums over m rows of numbers as large as `scale`."""
    xp = namespace(square)
    return xp.sqrt(xp.where(square > (8 * m * machine_epsilon(dtype)) * scale, square, 0.0))


def probe_vectors(beside: Any) -> Any:
    """Random vectors of mean zero, always the same."""
    if on_host(beside):
        return _probe_vectors(beside.shape[0]).astype(beside.dtype)
    return _probe_vectors_on(str(device_of(beside)), beside.shape[0], beside.dtype)


@lru_cache(maxsize=2)
def _probe_vectors_on(device: str, m: int, dtype: Any) -> Any:
    return astype(to_device(_probe_vectors(m), device), dtype)


@lru_cache(maxsize=2)
def _probe_vectors(m: int) -> Array:
    z: Array = generator(0).standard_normal((m, PROBES))
    z -= z.mean(axis=0)
    return z


def _moments_of_block(block: Any) -> Any:
    xp, (low, high) = namespace(block), column_ranges(block)
    span = to_double(high) - to_double(low)
    second, fourth = second_and_fourth_power_sums(block)
    norms = hollow_norm(second, fourth, len(block)), pair_norm(second, fourth, len(block))
    return xp.stack([second, fourth, span, *norms])


def _fourth_order_of_block(block: Any, dtype: Any) -> Any:
    return to_double(_fourth_order(astype(block, dtype)))


def _fourth_order(X: Any) -> Any:
    """`Σ_j d²` with `d² = x_p⁴ - 4 x_p³ x_q + 6 x_p² x_q² - 4 x_p x_q³ + x_q⁴`: two Gram matrices."""
    square = X * X
    total = symmetric_product([(6.0, square, None), (-4.0, square * X, X)])
    add_outer_sum(total, rowwise_dot(square, square))
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
        """Per column, in double precision, one row each: what depends on it alone.

        The sums of squares and of fourth powers, the range, `hollow_norm` and `pair_norm`.
        """
        if self._moments is not None:
            return self._moments
        parts = list(map_blocks(self.X, STRIP, _moments_of_block))
        return namespace(parts[0]).concat(parts, axis=1)

    @cached_property
    def extremes(self) -> tuple[float, float, float, float]:
        """Smallest and largest range of a column, largest `‖d‖ / 2‖U(x xᵀ)‖` where that is finite, largest `‖d‖`.

        While features are many, those of all that there were: bounds on them hold for those that are left.
        """
        xp, (_, _, span, hollow, pairs) = namespace(self.moments), self.moments
        turned = pairs / xp.where(hollow > 0, 2 * hollow, np.inf)
        low, high, most, longest = to_floats(xp.min(span), xp.max(span), xp.max(turned), xp.max(pairs))
        return low, high, most, longest

    @property
    def extent(self) -> tuple[float, float]:
        """Smallest and largest range of a column."""
        return self.extremes[:2]

    @cached_property
    def inside(self) -> Any:
        """Precision of products over many features: single for many samples, whose scores move by a thousandth at most.

        Columns that are not of ordinary size, which only unscaled ones can be, would leave its range, and their squares
        that of half precision.
        """
        xp = namespace(self.moments)
        if self.target.lopsided:  # what is left of its kernel is a small difference
            return xp.float64
        ordinary = self.extent[0] > 1e-3 and self.extent[1] < 250.0
        return xp.float32 if self.X.shape[0] >= SKETCH_ROWS and ordinary else self.X.dtype

    @cached_property
    def narrow(self) -> Any:
        """X in the precision of products where that is single, cast once and kept as features fall; X otherwise."""
        return (
            astype(self.X, self.inside) if is_single(self.inside) and not isinstance(self.X, ColumnSource) else self.X
        )

    @cached_property
    def pairs(self) -> Any:
        """Precision of matrices of pairs: single where products are, as long as scores move by a tenth at most.

        Entries of log Q then have errors of a few units in the last place of one, those of the sums growing eightfold
        until they are computed again, and usually vary by one over the root of the number of features, or more; whether
        they did is seen afterwards.
        """
        xp, (m, n) = namespace(self.moments), self.X.shape
        worst = null_scale(m) * 4 * machine_epsilon(xp.float32) * n**0.5
        return xp.float32 if is_single(self.inside) and worst < WORST and self.outlying is None else xp.float64

    def resolves(self, gamma: float) -> bool:
        """Whether single precision, if used, holds the distances at a bandwidth: not if rows are far from zero."""
        if not is_single(self.pairs) or ("sums" not in self.__dict__ and self._sums is None):
            return True
        return gamma * self._farthest * 8 * machine_epsilon(self.pairs) < RESOLUTION

    @cached_property
    def _farthest(self) -> float:
        """Largest squared distance of a row from zero."""
        return float(namespace(self.moments).linalg.diagonal(self.sums.products).max())

    def in_double(self) -> "Sample":
        """Return the sample to be computed in double precision."""
        precise = Sample(self.X, self.target, self.fixed, self.moments)
        double_precision = namespace(self.moments).float64
        precise.__dict__.update(inside=double_precision, pairs=double_precision, outlying=self.outlying)
        return precise

    @cached_property
    def outlying(self) -> Any:
        """Columns that are little more than one outlier, `40 ‖U(x xᵀ)‖ < ‖d‖`; None if there are none.

        Single precision loses too much of what they are besides.
        """
        hollow, pairs = self.moments[3], self.moments[4]
        outlying = (hollow > 0) & (40 * hollow < pairs)
        return outlying if bool(namespace(outlying).any(outlying)) else None

    @cached_property
    def sums(self) -> PairSums:
        """The pair sums over the free features."""
        if self._sums is not None:
            return self._sums
        m, n = self.X.shape
        sketch = m >= SKETCH_ROWS and n > SKETCH_RATIO * m
        return self._sum(self._free, sketch=sketch, step=None if sketch else self._step)

    @property
    def _step(self) -> Step | None:
        """As small as single precision allows; None where that saves little, or tails are too heavy for its bound."""
        n = self.X.shape[1]
        if n < STEP_FEATURES or not is_single(self.pairs):
            return None
        second, fourth = to_floats(self.moments[0].sum(), self.moments[1].sum())
        return Step(fourth / second, 1.0 / n) if fourth < STEP_KURTOSIS * second else None

    def sum_squares(self) -> None:
        """Compute `Σ_j d²` where only a sketch of it is known; from here on it is updated as features fall."""
        d2 = sum_blocks(self._free, BLOCK, _fourth_order_of_block, self.inside)
        self.__dict__["sums"] = PairSums(self.sums.products, astype(d2, self.pairs), None)

    def _sum(self, X: Any, *, sketch: bool, step: Step | None) -> PairSums:
        return PairSums.of(X, sketch=sketch, step=step, inside=self.inside, dtype=self.pairs)

    @cached_property
    def fixed_products(self) -> Any:
        """`Σ x_p x_q` over the fixed features; zero if there are none."""
        return gram(load_columns(self.X, self.fixed)) if self.fixed.any() else 0.0

    @cached_property
    def distances(self) -> Any:
        """`Σ d` over all features."""
        if "sums" not in self.__dict__ and self._sums is None and self.X.shape[1] <= WIDE:
            quick = is_single(self.pairs) and not isinstance(self.X, ColumnSource)
            products = coarse_gram(self.narrow, self.X.shape[1]) if quick else gram(self.X)
            return distances_of(astype(products, self.pairs))
        products = self.sums.products
        return distances_of(products + astype(self.fixed_products, self.pairs) if self.fixed.any() else products)

    @property
    def _free(self) -> Any:
        return select_columns(self.narrow, ~self.fixed) if self.fixed.any() else self.narrow

    def keep(self, kept: Any, gone: Any, fixed: Array) -> "Sample":
        """Keep the features in the places `kept`, not those in `gone` (both ascending); fix those in the mask `fixed`.

        Sums that were computed are updated by subtraction, and computed afresh once seven eighths of what they
        were computed over is gone: their rounding error has then grown eightfold relative to what is left.
        """
        kept, gone = (as_index(places, self.moments) if on_host(places) else places for places in (kept, gone))
        after = Sample(keep_columns(self.X, kept), self.target, fixed, take_columns(self.moments, kept))
        # what holds for all columns holds for some
        if self.outlying is None:
            after.__dict__["outlying"] = None
        if is_single(self.inside):
            after.__dict__["inside"] = self.inside
        if len(fixed) > INHERITED:
            after.__dict__["extremes"] = self.extremes
        if self.narrow is not self.X:
            after.__dict__["narrow"] = keep_columns(self.narrow, kept)
        left = np.count_nonzero(~fixed)
        if "sums" not in self.__dict__ or left <= SO_FEW:
            return after
        summed_at = self._summed_at or np.count_nonzero(~self.fixed)
        if left < summed_at / 8:
            return after
        if fixed.any() or self.fixed.any():
            no_more = ~self.fixed
            no_more[to_numpy(kept)[~fixed]] = False
            gone = as_index(no_more, self.moments)
        sums = self.sums
        if len(gone):
            fallen = self._sum(select_columns(self.narrow, gone), sketch=sums.sketch is not None, step=sums.step)
            sums = sums.less(fallen)
        after.__dict__.update(_sums=sums.astype(after.pairs), _summed_at=summed_at)
        return after

    def rows(self, index: Array) -> "Sample":
        """Return the sample on some of its rows, its columns centred again."""
        return Sample(take_centred_rows(self.X, index), self.target.rows(index), self.fixed)
