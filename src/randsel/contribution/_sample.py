"""The sample: standardised features and a target, with sums over features that are carried from round to round.

These sums are additive: those over dropped features are subtracted. Equations are in docs/explanation/mathematics.md.
"""

from dataclasses import dataclass, field, fields, replace
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
    device_of,
    dot,
    is_single,
    machine_epsilon,
    namespace,
    on_host,
    rowwise_dot,
    symmetric_product,
    to_device,
    to_double,
    to_floats,
    to_numpy,
)
from randsel._numerics.columns import (
    ColumnSource,
    keep_columns,
    load_columns,
    select_columns,
    sum_blocks,
    take_centred_rows,
)
from randsel._numerics.kernels import (
    BLOCK,
    GAUSSIAN,
    Factor,
    Series,
    distances_from_gram,
    gram,
    null_scale,
    sum_log_factors,
)
from randsel._utils.jobs import generator
from randsel._utils.typing import Array
from randsel.contribution._error_bounds import STRIP, ColumnMoments
from randsel.targets import Target

#: Number of rows from which products over features are in single precision.
SINGLE_ROWS = 512
#: Largest error of a score, in null standard deviations, from single precision in matrices of pairs.
MAX_SCORE_ROUNDING = 0.1
#: Largest error of γ times a distance from single precision.
MAX_EXPONENT_ROUNDING = 1e-3
#: Number of features up to which no sums are carried on: the next round takes the element-wise route.
FEW_FEATURES = 64
#: Number of features above which distances come from the pair sums, which the closed form needs anyway.
MANY_FEATURES = 512
#: Probe vectors of a sketch, and rows and features per row from which Σ d² is sketched: faster on one core for wide
#: tables, not on a GPU (`make bench-sketch` prints by how much).
PROBES, SKETCH_ROWS, SKETCH_RATIO = 32, 512, 8


# ---------------------------------------------------------------- precision


@dataclass(frozen=True)
class Precision:
    """Where a computation runs and how precise it is.

    Attributes
    ----------
    device
        Device of all arrays.
    product_dtype, pair_dtype
        Types of matrix products over many features, and of matrices over pairs of samples.
    n_samples
        Number of rows.
    """

    device: Any
    product_dtype: Any
    pair_dtype: Any
    n_samples: int

    @classmethod
    def choose(cls, X: Any, target: Target, moments: ColumnMoments) -> "Precision":
        """Choose single precision where it moves no score by more than MAX_SCORE_ROUNDING.

        Products need many samples, columns of ordinary size and a target that is not lopsided. Matrices of pairs also
        need columns without outliers, and a `log Q` whose rounding, a few units in the last place after updates, is
        small against its spread, taken as n^-½; `closed_form` checks the actual spread.
        """
        xp, device, (m, n) = namespace(moments.values), device_of(moments.values), X.shape
        if target.lopsided:
            return cls(device, xp.float64, xp.float64, m)
        ordinary = moments.extremes.least_range > 1e-3 and moments.extremes.largest_range < 250.0
        product_dtype = xp.float32 if m >= SINGLE_ROWS and ordinary else X.dtype
        # The error of a score if the entries of log Q are off by 4 ε and spread by n^-½ (eq. 11).
        rounding = null_scale(m) * 4 * machine_epsilon(xp.float32) * n**0.5
        single = is_single(product_dtype) and rounding < MAX_SCORE_ROUNDING and moments.outlying is None
        return cls(device, product_dtype, xp.float32 if single else xp.float64, m)

    @property
    def single_products(self) -> bool:
        """Whether products over features are in single precision."""
        return is_single(self.product_dtype)

    @property
    def score_digits(self) -> float:
        """One over the relative rounding error of scores. Few samples of a table in single precision lose little."""
        if not self.single_products:
            return 1e9
        return 1e4 if self.n_samples >= SINGLE_ROWS else 1e6

    @property
    def single_pairs(self) -> bool:
        """Whether matrices of pairs are in single precision."""
        return is_single(self.pair_dtype)


# ---------------------------------------------------------------- sums over features


@dataclass(frozen=True)
class Sketch:
    """The part of `Σ_j d²` that costs no further Gram matrix: `Σ_j d² = r_p + r_q - constant + R_pq` (eq. 10').

    Attributes
    ----------
    rows, constant
        `r` and the constant.
    diagonal
        Diagonal of R.
    probes
        R times random vectors, from which its norm is estimated without R.
    """

    rows: Any
    constant: Any
    diagonal: Any
    probes: Any

    @classmethod
    def from_block(cls, x: Any, z: Any) -> "Sketch":
        """Compute the sketch of a block of columns with probe vectors z."""
        xp, m = namespace(x), x.shape[0]
        square = x * x
        cube = square * x
        # A last column of 1/m makes the same products give means over the rows.
        vectors = xp.concat([z, xp.ones_like(z[:, :1]) / m], axis=1)
        squares, cubes = square.T @ vectors, cube.T @ vectors
        second = squares[:, -1]  # E[x²]
        squares[:, :-1] *= 6.0
        cubes[:, :-1] *= -4.0
        # R z = 6 S Sᵀ z - 4 (C Xᵀ + X Cᵀ) z. As z has mean zero, centring S and C only centres the result, below.
        by_square, by_x = square @ squares, x @ cubes
        applied = by_square[:, :-1] + by_x[:, :-1] + cube @ (x.T @ (z * -4.0))
        second_sum, third_sum = to_double(by_square[:, -1]), to_double(by_x[:, -1])
        fourth_sum = to_double((square * square).sum(axis=1))
        constant = 6.0 * to_double(second * second).sum()
        # d = 0 for p = q, so that R_pp = constant - 2 r_p.
        return cls(
            rows=fourth_sum + 6.0 * second_sum - 4.0 * third_sum,
            constant=constant,
            diagonal=8.0 * third_sum - 2.0 * fourth_sum - 12.0 * second_sum + constant,
            probes=to_double(applied - applied.mean(axis=0)),
        )

    def add(self, other: "Sketch", sign: float = 1.0) -> "Sketch":
        """Return the sketch of the columns of both, or with sign=-1 of those of `self` without `other`."""
        names = [entry.name for entry in fields(self)]
        return Sketch(*(getattr(self, name) + sign * getattr(other, name) for name in names))

    def __add__(self, other: "Sketch") -> "Sketch":
        return self.add(other)

    def fit_to_gram(self, products: Any) -> tuple[float, Any, float]:
        """Approximate `Σ_j d²` by `slope · products_pq + row_p + row_q`; return slope, row and a bound on the error.

        The cube of a column is nearly a multiple of the column, so most of R is a multiple of the Gram matrix. The
        bound, on the norm of the error, is exceeded with probability 1e-5 at most.
        """
        z = probe_vectors(products)
        gram_diagonal = to_double(namespace(products).linalg.diagonal(products))
        gram_probes, z = to_double(products @ z), to_double(z)
        # Without the diagonals, which belong to no pair of different rows.
        gram_probes -= gram_diagonal[:, None] * z
        probes = self.probes - self.diagonal[:, None] * z
        overlap, gram_square = to_floats(dot(probes, gram_probes), dot(gram_probes, gram_probes))
        slope = overlap / max(gram_square, 1e-300)
        residual, residual_diagonal = probes - slope * gram_probes, self.diagonal - slope * gram_diagonal
        measured, along_ones = to_floats(dot(residual, residual), dot(residual_diagonal, residual_diagonal))
        # Twice the norm that the probe vectors measure; they have mean zero, so add the image of the constant vector.
        bound = (4.0 * measured / PROBES + along_ones / len(z)) ** 0.5
        return slope, self.rows - 0.5 * self.constant, bound


def probe_vectors(other: Any) -> Any:
    """Return fixed random vectors of mean zero, in the type and on the device of another array."""
    if on_host(other):
        return _probe_vectors(other.shape[0]).astype(other.dtype)
    return _probe_vectors_on_device(str(device_of(other)), other.shape[0], other.dtype)


@lru_cache(maxsize=2)
def _probe_vectors_on_device(device: str, m: int, dtype: Any) -> Any:
    return astype(to_device(_probe_vectors(m), device), dtype)


@lru_cache(maxsize=2)
def _probe_vectors(m: int) -> Array:
    z: Array = generator(0).standard_normal((m, PROBES))
    z -= z.mean(axis=0)
    return z


@dataclass(frozen=True)
class PairSums:
    """Sums over features for all pairs of rows, from which `log Q` follows to second order.

    Attributes
    ----------
    products
        `Σ_j x_p x_q`, from which `Σ_j d` follows.
    d2
        `Σ_j d²`, or None where only a sketch of it is known.
    sketch
        None where `d2` is known.
    """

    products: Any
    d2: Any = None
    sketch: Sketch | None = None

    @classmethod
    def from_columns(cls, X: Any, precision: Precision | None = None, *, sketch: bool = False) -> "PairSums":
        """Compute one Gram matrix and a sketch, or three Gram matrices; in double precision by default."""
        product_dtype = X.dtype if precision is None else precision.product_dtype
        sums: PairSums = sum_blocks(X, BLOCK, cls._from_block, X.shape[1], sketch, product_dtype)
        return sums.astype(namespace(sums.products).float64 if precision is None else precision.pair_dtype)

    @classmethod
    def _from_block(cls, block: Any, n: int, sketch: bool, dtype: Any) -> "PairSums":
        """Return the sums over a block of n columns in all."""
        x = astype(block, dtype)
        products = coarse_gram(x, n)
        with coarse_products(x, n):
            if sketch:
                return cls(products, sketch=sum_blocks(x, STRIP, Sketch.from_block, probe_vectors(x)))
            return cls(products, sum_squared_differences(x))

    def astype(self, dtype: Any) -> "PairSums":
        """Return the sums in another precision."""
        d2 = None if self.d2 is None else astype(self.d2, dtype)
        return replace(self, products=astype(self.products, dtype), d2=d2)

    def __add__(self, other: "PairSums") -> "PairSums":
        return PairSums(
            to_double(self.products) + to_double(other.products),
            None if self.d2 is None else to_double(self.d2) + to_double(other.d2),
            None if self.sketch is None or other.sketch is None else self.sketch.add(other.sketch),
        )

    def subtract_into(self, other: "PairSums") -> "PairSums":
        """Return `self - other` in the memory of `other`, which is overwritten: allocating memory costs more."""
        subtract = namespace(self.products).subtract
        return PairSums(
            subtract(self.products, other.products, out=other.products),
            None if self.d2 is None else subtract(self.d2, other.d2, out=other.d2),
            None if self.sketch is None or other.sketch is None else self.sketch.add(other.sketch, -1.0),
        )

    def log_terms(self, gamma: float, series: Series) -> tuple[Any, float]:
        """Return `Σ_j log((1 + z_j)/2)` to second order, and a bound on the norm of the error of a sketch (eq. 10')."""
        second_order = gamma * gamma / series.log_second
        slope, rows, bound = (0.0, 0.0, 0.0) if self.sketch is None else self.sketch.fit_to_gram(self.products)
        # -γ/2 Σ d = γ (x_p·x_q - ½‖x_p‖² - ½‖x_q‖²). A sketch is a multiple of x_p·x_q, too: one pass for both.
        terms = self.products * (gamma + second_order * slope)
        if self.sketch is None:
            add_scaled(terms, self.d2, second_order)
        norms = to_double(namespace(self.products).linalg.diagonal(self.products))
        add_outer_sum(terms, astype(second_order * rows - 0.5 * gamma * norms, terms.dtype))
        return terms, second_order * bound


def sum_squared_differences(X: Any) -> Any:
    """Return `Σ_j d²`, with `d² = x_p⁴ - 4 x_p³ x_q + 6 x_p² x_q² - 4 x_p x_q³ + x_q⁴`: two Gram matrices."""
    square = X * X
    d2 = symmetric_product([(6.0, square, None), (-4.0, square * X, X)])
    add_outer_sum(d2, rowwise_dot(square, square))
    return d2


def _sum_squared_differences_of_block(block: Any, dtype: Any) -> Any:
    return to_double(sum_squared_differences(astype(block, dtype)))


# ---------------------------------------------------------------- sample


@dataclass(frozen=True)
class Sample:
    """Standardised features and a target, with sums and casts carried on from earlier rounds of culling.

    Attributes
    ----------
    X
        Columns of mean zero: an array or a `ColumnSource`.
    target
        The outcome.
    fixed
        Mask of features that are in every subset.
    moments, precision, factor
        Moments of the columns, precision of the computation, and factor of one feature in the kernel.
    carried_sums, n_summed
        Pair sums over the free features, updated from those of an earlier round with `n_summed` features; None and 0
        if they are not computed yet.
    cast
        X in the type of the products, if an earlier round computed it.
    """

    X: Any
    target: Target
    fixed: Array
    moments: ColumnMoments = field(repr=False)
    precision: Precision
    factor: Factor = GAUSSIAN
    carried_sums: PairSums | None = field(default=None, repr=False)
    n_summed: int = 0
    cast: Any = field(default=None, repr=False)

    @classmethod
    def from_columns(cls, X: Any, target: Target, fixed: Array | None = None, factor: Factor = GAUSSIAN) -> "Sample":
        """Return the sample of the first round, with no feature fixed by default."""
        fixed = np.zeros(X.shape[1], dtype=bool) if fixed is None else np.asarray(fixed, dtype=bool)
        moments = ColumnMoments.from_columns(X)
        return cls(X, target, fixed, moments, Precision.choose(X, target, moments), factor)

    def take_rows(self, rows: Array) -> "Sample":
        """Return the sample of some of the rows, with columns centred again."""
        return Sample.from_columns(take_centred_rows(self.X, rows), self.target.rows(rows), self.fixed, self.factor)

    def in_double(self) -> "Sample":
        """Return the sample with double precision, and without sums and casts of lower precision."""
        precision = replace(self.precision, product_dtype=self.xp.float64, pair_dtype=self.xp.float64)
        return replace(self, precision=precision, carried_sums=None, n_summed=0, cast=None)

    @property
    def xp(self) -> Any:
        """Namespace of all arrays."""
        return namespace(self.moments.values)

    @cached_property
    def columns_in_product_dtype(self) -> Any:
        """X in the type of the products where that is single precision, cast once; X itself otherwise."""
        if self.cast is not None:
            return self.cast
        if not self.precision.single_products or isinstance(self.X, ColumnSource):
            return self.X
        return astype(self.X, self.precision.product_dtype)

    @cached_property
    def sums(self) -> PairSums:
        """Pair sums over the free features."""
        if self.carried_sums is not None:
            return self.carried_sums
        m, n = self.X.shape
        return PairSums.from_columns(self._free, self.precision, sketch=m >= SKETCH_ROWS and n > SKETCH_RATIO * m)

    def complete_sums(self) -> PairSums:
        """Return the pair sums with `Σ_j d²` itself instead of a sketch."""
        d2 = sum_blocks(self._free, BLOCK, _sum_squared_differences_of_block, self.precision.product_dtype)
        return PairSums(self.sums.products, astype(d2, self.precision.pair_dtype))

    @property
    def _free(self) -> Any:
        X = self.columns_in_product_dtype
        return select_columns(X, ~self.fixed) if self.fixed.any() else X

    @cached_property
    def fixed_products(self) -> Any:
        """`Σ x_p x_q` over the fixed features; zero if there are none."""
        return gram(load_columns(self.X, self.fixed)) if self.fixed.any() else 0.0

    @property
    def has_sums(self) -> bool:
        """Whether distances are computed from the pair sums: carried on, or needed anyway."""
        return self.carried_sums is not None or self.X.shape[1] > MANY_FEATURES

    @cached_property
    def distances(self) -> Any:
        """`Σ d` over all features."""
        dtype = self.precision.pair_dtype
        if not self.has_sums:
            in_single = self.precision.single_pairs and not isinstance(self.X, ColumnSource)
            products = coarse_gram(self.columns_in_product_dtype, self.X.shape[1]) if in_single else gram(self.X)
            return distances_from_gram(astype(products, dtype))
        products = self.sums.products  # of the free features only
        return distances_from_gram(products + astype(self.fixed_products, dtype) if self.fixed.any() else products)

    def log_kernel(self, gamma: float) -> Any:
        """Return `log κ` of all features together."""
        if self.factor == GAUSSIAN:
            return self.distances * -gamma
        return sum_log_factors(self.X, gamma, self.factor)

    def log_fixed_kernel(self, gamma: float) -> Any:
        """Return `log κ` of the fixed features; there must be at least one."""
        if self.factor == GAUSSIAN:
            return distances_from_gram(self.fixed_products) * -gamma
        return sum_log_factors(select_columns(self.X, self.fixed), gamma, self.factor)

    @cached_property
    def _farthest(self) -> float:
        """Largest squared distance of a row from zero."""
        return float(self.xp.linalg.diagonal(self.sums.products).max())

    def resolves(self, gamma: float) -> bool:
        """Whether the precision of pairs suffices for γ times a distance: single does not if rows lie far from zero."""
        if not self.precision.single_pairs or not self.has_sums:
            return True
        return gamma * self._farthest * 8 * machine_epsilon(self.precision.pair_dtype) < MAX_EXPONENT_ROUNDING

    def check_gamma(self, gamma: float) -> None:
        """Raise ValueError if γ is so small that the kernel is one; too large a γ is noticed in the kernel itself."""
        if gamma * self.moments.extremes.largest_range**2 < 1e-30:
            raise ValueError(
                f"gamma={gamma:g} is so small that the kernel is one between all samples, which leaves nothing to "
                "compare; use gamma='median' or a larger number."
            )

    def drop_features(self, surviving: Any, dropped: Any, fixed: Array, sums: PairSums | None) -> "Sample":
        """Return the sample of the next round.

        `surviving` and `dropped` are ascending indices, and `fixed` is a mask over the surviving features. `sums` are
        the pair sums of this round, if it had any, from which the sums over the dropped features are subtracted.
        """
        values = self.moments.values
        surviving, dropped = (as_index(index, values) if on_host(index) else index for index in (surviving, dropped))
        X, cast = self.columns_in_product_dtype, None
        if X is not self.X:  # a cast was made: the next round need not repeat it
            cast = keep_columns(X, surviving)
        remaining = keep_columns(self.X, surviving)
        moments = self.moments.take(surviving)
        precision = Precision.choose(remaining, self.target, moments)
        next_sample = Sample(remaining, self.target, fixed, moments, precision, self.factor, cast=cast)
        n_free = int(np.count_nonzero(~fixed))
        n_summed = self.n_summed or int(np.count_nonzero(~self.fixed))
        # With an eighth of the summed features left, the relative rounding error is eightfold: compute sums afresh.
        if sums is None or n_free <= FEW_FEATURES or n_free < n_summed / 8:
            return next_sample
        if fixed.any() or self.fixed.any():  # newly fixed features leave the sums, too
            no_longer_free = ~self.fixed
            no_longer_free[to_numpy(surviving)[~fixed]] = False
            dropped = as_index(no_longer_free, values)
        if len(dropped):
            sketch = sums.sketch is not None
            sums = sums.subtract_into(PairSums.from_columns(select_columns(X, dropped), self.precision, sketch=sketch))
        return replace(next_sample, carried_sums=sums.astype(precision.pair_dtype), n_summed=n_summed)


# ---------------------------------------------------------------- result


@dataclass(frozen=True)
class Contribution:
    """Contributions of all features of a sample, on its device.

    Attributes
    ----------
    relative, log_scale
        `total = relative · exp(log_scale)`; `relative` ranks features even where the kernel itself underflows.
    main, interaction, errors
        Standard scores of what a feature does alone and together with others (eq. 7), and the squared error of every
        sample left out of the ridge regression with the penalty `RIDGE` (eq. 15); None from `bootstrap`.
    sums
        The pair sums of the sample, if the estimate needed them; `Sample.drop_features` takes them.
    ridge
        Penalty of the regression whose residual the contributions refer to; infinite for the target itself.
    """

    relative: Any
    log_scale: float
    main: Any = None
    interaction: Any = None
    sums: PairSums | None = None
    errors: Any = None
    ridge: float = np.inf

    @property
    def total(self) -> Any:
        """`c_i`, the paper's contribution (eq. 3)."""
        return self.relative * float(np.exp(self.log_scale))
