"""The sample: standardised features and a target, with moments and sums over features that a round needs.

Sums over pairs of samples are carried from round to round: those over dropped features are subtracted. Equations are
numbered as in docs/explanation/mathematics.md.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

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
    is_single,
    machine_epsilon,
    namespace,
    on_host,
    root_above_rounding,
    second_and_fourth_power_sums,
    take_columns,
    to_double,
    to_floats,
    to_numpy,
)
from randsel._numerics.columns import (
    STRIP,
    ColumnSource,
    keep_columns,
    load_columns,
    map_blocks,
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
    sum_squared_differences,
)
from randsel._utils.typing import Array
from randsel.contribution._sketch import Sketch, probe_vectors
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
#: Rows, and features per row, from which Σ d² is sketched: faster on one core for wide tables, not on a GPU
#: (`make bench-sketch` prints by how much).
SKETCH_ROWS, SKETCH_RATIO = 512, 8
#: Number of features above which a round uses the extremes of an earlier round, which still bound its columns.
INHERIT_EXTREMES = 1024


# ---------------------------------------------------------------- moments of columns


class Extremes(NamedTuple):
    """Bounds on moments that hold for every column."""

    least_range: float
    largest_range: float
    largest_norm_ratio: float  #: of `‖d‖ / ‖U(d)‖`, where that is finite
    largest_pair_norm: float  #: of `‖d‖`


@dataclass(frozen=True)
class ColumnMoments:
    """Moments of the columns, in double precision.

    Attributes
    ----------
    values
        One row per moment; the properties name them.
    extremes
        Bounds that hold for all columns; while features are many, those of an earlier round.
    outlying
        Mask of columns dominated by one outlier, `40 ‖U(x xᵀ)‖ < ‖d‖`, for which single precision is not accurate
        enough; None if there are none.
    """

    values: Any
    extremes: Extremes
    outlying: Any

    @classmethod
    def from_columns(cls, X: Any) -> "ColumnMoments":
        """Compute the moments of the columns of an array or a source."""
        blocks = list(map_blocks(X, STRIP, _moments_of_block))
        values = namespace(blocks[0]).concat(blocks, axis=1)
        return cls(values, _extremes(values), _outlying(values))

    @classmethod
    def restore(cls, values: Any, extremes: Extremes, *, any_outlying: bool) -> "ColumnMoments":
        """Return moments that were stored in a file."""
        return cls(values, extremes, _outlying(values) if any_outlying else None)

    @property
    def second(self) -> Any:
        """`Σ_p x_p²`."""
        return self.values[0]

    @property
    def fourth(self) -> Any:
        """`Σ_p x_p⁴`."""
        return self.values[1]

    @property
    def range(self) -> Any:
        """Largest value less the smallest."""
        return self.values[2]

    @property
    def u_centred_norm(self) -> Any:
        """`‖U(x xᵀ)‖` (eq. 9)."""
        return self.values[3]

    @property
    def pair_norm(self) -> Any:
        """`‖d‖`, the norm of the squared differences (eq. 12)."""
        return self.values[4]

    def take(self, index: Any) -> "ColumnMoments":
        """Return the moments of some columns."""
        values = take_columns(self.values, index)
        # Few features: one transfer is faster than operations on a device.
        extremes = self.extremes if values.shape[1] > INHERIT_EXTREMES else _extremes(to_numpy(values))
        # Columns without outliers still have none when some of them are dropped.
        return ColumnMoments(values, extremes, None if self.outlying is None else _outlying(values))


def _moments_of_block(block: Any) -> Any:
    xp, m, (low, high) = namespace(block), len(block), column_ranges(block)
    second, fourth = second_and_fourth_power_sums(block)
    # ‖U(x xᵀ)‖² from (9), and below ‖d‖ from (12).
    square = second**2 * (1 + 1 / ((m - 1) * (m - 2))) - fourth * (m / (m - 2))
    u_centred_norm = root_above_rounding(square, second**2, m, xp.float64)
    pair_norm = (2 * m * fourth + 6 * second**2) ** 0.5
    return xp.stack([second, fourth, to_double(high) - to_double(low), u_centred_norm, pair_norm])


def _extremes(values: Any) -> Extremes:
    xp, (_, _, span, u_centred_norm, pair_norm) = namespace(values), values
    norm_ratio = pair_norm / xp.where(u_centred_norm > 0, 2 * u_centred_norm, np.inf)
    return Extremes(*to_floats(xp.min(span), xp.max(span), xp.max(norm_ratio), xp.max(pair_norm)))


def _outlying(values: Any) -> Any:
    _, _, _, u_centred_norm, pair_norm = values
    outlying = (u_centred_norm > 0) & (40 * u_centred_norm < pair_norm)
    return outlying if bool(namespace(outlying).any(outlying)) else None


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

    def resolves(self, gamma: float) -> bool:
        """Whether the precision of pairs suffices for γ times a distance: single does not if rows lie far from zero."""
        if not self.precision.single_pairs or not self.has_sums:
            return True
        farthest = float(self.xp.linalg.diagonal(self.sums.products).max())  # largest squared distance from zero
        return gamma * farthest * 8 * machine_epsilon(self.precision.pair_dtype) < MAX_EXPONENT_ROUNDING

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
