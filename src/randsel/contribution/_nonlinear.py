"""Routes for features whose function `2T` is not nearly linear in `u`: third-order series, or element by element.

Both compute the forms that `_closed_form` describes. A score is a multiple of the cosine between two matrices, so a
bound on the angle by which one of them turns bounds its error (eq. 11). Equations are numbered as in
docs/explanation/mathematics.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from math import comb
from typing import Any

import numpy as np

from randsel._numerics.arrays import (
    SCRATCH,
    add_outer_sum,
    as_array_like,
    as_index,
    astype,
    clip,
    columnwise_dot,
    device_of,
    is_single,
    namespace,
    on_host,
    root_above_rounding,
    row_sums,
    rowwise_dot,
    safe_ratio,
    scratch_size,
    symmetric_product,
    take_columns,
    to_double,
)
from randsel._numerics.columns import (
    STRIP,
    ColumnSource,
    keep_columns,
    load_columns,
    map_blocks,
    select_columns,
    sum_blocks,
)
from randsel._numerics.kernels import Factor, Series, null_scale
from randsel._utils.typing import Array
from randsel.contribution._sample import Sample

#: Features with a larger `u` than this for some pair do not try the third-order series.
MAX_REACH = 1.5
#: Highest power of a column in its error bounds, which need `Σ d¹⁰`.
HIGHEST_POWER = 20
#: Bytes of contrasts that are kept between the two passes of the element-wise route; more are computed twice.
KEEP_BYTES = 48 << 20


# ---------------------------------------------------------------- scores, angles and power sums


def score_error(turn: Any, m: int) -> Any:
    """Return how far a score can move when one of its matrices changes by the fraction `turn` of its norm (eq. 11)."""
    if isinstance(turn, float):
        turn = np.asarray(turn)
    xp = namespace(turn)
    # The matrix turns by at most arcsin(turn); the chord between the two directions is 2 sin(arcsin(turn)/2).
    return null_scale(m) * xp.where(turn < 1, 2 * xp.sin(xp.asin(clip(turn, None, 1.0)) / 2), 2.0)


def largest_turn(error: float, m: int) -> float:
    """Return the largest `turn` whose `score_error` is at most `error`."""
    return float(np.sin(2 * np.arcsin(min(error / (2 * null_scale(m)), np.sqrt(0.5)))))


def power_sums(x: Any, highest: int) -> Any:
    """Return the sums over rows of the powers 0, 1, …, `highest` of every column, one row per power."""
    xp = namespace(x)
    power = xp.ones_like(x)
    sums = [power.sum(axis=0)]
    for _ in range(highest):
        power = power * x
        sums.append(power.sum(axis=0))
    return xp.stack(sums)


def difference_moment(sums: Any, k: int) -> Any:
    """Return `Σ_pq d^k` of every column, with `d = (x_p - x_q)²`, from its power sums (eq. 9'' with v = w = 1)."""
    xp = namespace(sums)
    signs = as_array_like(np.array([(-1.0) ** i * comb(2 * k, i) for i in range(2 * k + 1)]), sums)
    needed = sums[: 2 * k + 1, :]
    return clip((signs[:, None] * needed * xp.flip(needed, axis=0)).sum(axis=0), 0.0)


# ---------------------------------------------------------------- third order


@dataclass(frozen=True)
class CubicSeries:
    """Third-order series of some features, `2T ≈ a u - b u³`: sums over pairs become power sums and products (eq. 9').

    Attributes
    ----------
    features
        Mask of the features.
    z, reach
        Their columns in units of the range, and the largest `u` of each.
    series
        Coefficients of the series of the factor, from which `a` and `b` follow.
    a, b
        Coefficients of each feature.
    row_sums, sums, squares
        Sum of the function over the pairs of every row, over all pairs, and of its square over all pairs.
    error
        Bound on the norm of the error of the function (eq. 12'').
    log_errors
        Bound on the norm of the error of the logarithm of its factor in Q (eq. 10'').
    dtype
        Type of the matrix products.
    """

    features: Array
    z: Any
    reach: Any
    series: Series
    a: Any
    b: Any
    row_sums: Any
    sums: Any
    squares: Any
    error: Any
    log_errors: Any
    dtype: Any

    @classmethod
    def from_sample(cls, sample: Sample, gamma: float, series: Series, features: Array) -> "CubicSeries":
        """Compute the series of the features of a mask, and bounds on its errors."""
        span = take_columns(sample.moments.range, features)
        z, reach = to_double(load_columns(sample.X, features)) / span, gamma * span**2
        sums = power_sums(z, HIGHEST_POWER)
        moments = {k: difference_moment(sums, k) for k in (1, 2, 3, 4, 6, 8, 10)}
        # Fit d⁵ ≈ c₁ d + c₃ d³ over the pairs by least squares; a singular system gives c₁ = c₃ = 0.
        determinant = moments[2] * moments[6] - moments[4] ** 2
        determinant = namespace(z).where(determinant > 1e-9 * moments[2] * moments[6], determinant, np.inf)
        c1 = (moments[6] ** 2 - moments[8] * moments[4]) / determinant
        c3 = (moments[2] * moments[8] - moments[4] * moments[6]) / determinant
        residual = moments[10] * (1 + 1e-9) - c1 * moments[6] - c3 * moments[8]  # sum of squares, safe from rounding
        a, b = 1 + reach**4 * c1 / series.quintic, 1 / series.cubic - reach**2 * c3 / series.quintic
        first, third = a * reach, b * reach**3
        # ‖d⁵‖, which also bounds ‖d⁶‖ and ‖d⁷‖, because d ≤ 1 in units of the range.
        norm_of_fifth = moments[10] ** 0.5
        return cls(
            features=features,
            z=z,
            reach=reach,
            series=series,
            a=a,
            b=b,
            row_sums=first * _row_sums_of_differences(z, sums, 1) - third * _row_sums_of_differences(z, sums, 3),
            sums=first * moments[1] - third * moments[3],
            squares=first**2 * moments[2] - 2 * first * third * moments[4] + third**2 * moments[6],
            error=reach**5 / series.quintic * clip(residual, 0.0) ** 0.5 + reach**7 * norm_of_fifth * series.septic,
            log_errors=reach**6 * norm_of_fifth / series.log_sixth,
            dtype=sample.precision.product_dtype,
        )

    def take(self, chosen: Array) -> "CubicSeries":
        """Return the series of some of the features; `chosen` is a mask over them."""
        features = self.features.copy()
        features[features] = chosen
        names = [field.name for field in fields(self) if field.name not in ("features", "series", "dtype")]
        return replace(self, features=features, **{name: take_columns(getattr(self, name), chosen) for name in names})

    @cached_property
    def u_centred_norm(self) -> Any:
        """Norm of the U-centred functions, from their row sums (eq. 4)."""
        m = self.z.shape[0]
        row_squares = columnwise_dot(self.row_sums, self.row_sums)
        square = self.squares - row_squares * (2 / (m - 2)) + self.sums**2 / ((m - 1) * (m - 2))
        return root_above_rounding(square, self.squares, m, namespace(self.z).float64)

    @property
    def score_errors(self) -> Any:
        """Bound on the error of each feature's scores from the series of its function (eq. 11, 12'')."""
        return score_error(safe_ratio(self.error, self.u_centred_norm), self.z.shape[0])

    def log_terms(self, free: Array, *, all_orders: bool = False) -> Any:
        """Return the fourth order of `log Q`, `-Σ_j u_j⁴ / 192`, over the features of a mask (eq. 10'').

        With `all_orders` also the lower orders, `Σ_j -u_j/2 + u_j²/8 - u_j⁴/192`, in the same products.
        """
        xp = namespace(self.z)
        z, reach = astype(take_columns(self.z, free), self.dtype), take_columns(self.reach, free)
        fourth_order = astype(-(reach**4) / self.series.log_fourth, self.dtype)
        squares = z * z
        fourth = squares * squares
        sixth = fourth * squares
        # (z_p - z_q)⁸ by the binomial theorem: powers z, z², z³ and z⁴ of one sample times cofactors of the other, and
        # a term of either sample alone. Every product is added with its transpose, so 35 is half of C(8, 4).
        cofactors = [sixth * (-8 * fourth_order), fourth * (28 * fourth_order)]
        alone = sixth * fourth_order
        if all_orders:
            first_order = astype(-reach / 2, self.dtype)
            second_order = astype(reach**2 / self.series.log_second, self.dtype)
            cofactors[0] += squares * (-4 * second_order) - first_order
            cofactors[1] += 3 * second_order
            alone += squares * second_order + first_order
        cofactors = [
            cofactors[0] * z,
            cofactors[1] * squares,
            fourth * z * (-56 * fourth_order),
            fourth * (35 * fourth_order),
        ]
        powers = xp.concat([z, squares, squares * z, fourth], axis=1)
        total = symmetric_product([(1.0, xp.concat(cofactors, axis=1), powers)])
        add_outer_sum(total, rowwise_dot(alone, squares))
        return total

    def pair_with(self, matrix: Any) -> Any:
        """Return `Σ_pq M_pq f(p, q)` for a symmetric matrix M and each of the functions f (eq. 9')."""
        xp, n = namespace(self.z), self.z.shape[1]
        z = astype(self.z, self.dtype)
        squares = z * z
        cubes = squares * z
        products = astype(matrix, self.dtype) @ xp.concat([z, squares, cubes], axis=1)
        first, second, third = products[:, :n], products[:, n : 2 * n], products[:, 2 * n :]
        rows = to_double(row_sums(matrix))
        # Σ M d = 2 Σ w z² - 2 zᵀ M z with the row sums w of M; Σ M d³ likewise (eq. 9').
        of_first = 2 * (rows @ to_double(squares) - to_double(columnwise_dot(z, first)))
        of_third = 2 * (rows @ to_double(squares) ** 3) - 12 * to_double(columnwise_dot(squares * cubes, first))
        by_squares, by_cubes = columnwise_dot(squares * squares, second), columnwise_dot(cubes, third)
        of_third += 30 * to_double(by_squares) - 20 * to_double(by_cubes)
        return self.a * self.reach * of_first - self.b * self.reach**3 * of_third

    def pair_with_outer(self, left: Any, right: Any) -> Any:
        """Return `Σ_pq M_pq f(p, q)` for `M = left rightᵀ` and each of the functions f, from power sums (eq. 9'')."""
        of_left, of_right = (_power_sums_with(side, self.z, 6) for side in (left, right))

        def order(k: int) -> Any:
            signs = [(-1) ** i * comb(2 * k, i) for i in range(2 * k + 1)]
            return sum(c * (of_left[i] * of_right[2 * k - i]).sum(axis=0) for i, c in enumerate(signs))

        return self.a * self.reach * order(1) - self.b * self.reach**3 * order(3)


def _power_sums_with(columns: Any, z: Any, highest: int) -> list[Any]:
    """Return the products of some columns with the powers 0, 1, …, `highest` of z: one row per column."""
    power = namespace(z).ones_like(z)
    sums = [columns.T @ power]
    for _ in range(highest):
        power = power * z
        sums.append(columns.T @ power)
    return sums


def _row_sums_of_differences(z: Any, sums: Any, k: int) -> Any:
    """Return `Σ_q (z_p - z_q)^{2k}` for every row p and column, by Horner's rule."""
    total: Any = 0.0
    for i in range(2 * k + 1):
        total = total * z + (-1) ** i * comb(2 * k, i) * sums[i]
    return total


# ---------------------------------------------------------------- element by element


class Elements:
    """The contrasts T of some features for all pairs: the upper triangle, in blocks of rows.

    Attributes
    ----------
    row_sums, squares
        Per feature, the sum of T over the pairs of every row, and of T² over all pairs; set by `log_factors`.
    """

    def __init__(self, Xt: Any, gamma: float, factor: Factor) -> None:
        # Squared differences of these are u/2, the argument of the contrast.
        self._Xt = Xt * float(np.sqrt(gamma / 2))
        self._contrast = factor.contrast
        n, m = Xt.shape
        # Later rows have fewer columns in the upper triangle, so their blocks have more rows.
        xp, self._starts = namespace(Xt), [0]
        while self._starts[-1] < m:
            start = self._starts[-1]
            self._starts.append(min(m, start + max(1, scratch_size(Xt) // (n * (m - start)))))
        sizes = [n * (stop - start) * (m - start) for start, stop in pairwise(self._starts)]
        self._keep = sum(sizes) * (4 if is_single(Xt.dtype) else 8) <= KEEP_BYTES * (scratch_size(Xt) // SCRATCH)
        # All blocks share this memory: allocating it costs more than the work done in it.
        self._memory = xp.empty(sum(sizes) if self._keep else max(sizes), dtype=Xt.dtype, device=device_of(Xt))
        self._n_computed = 0
        self.row_sums = xp.zeros((n, m), dtype=xp.float64, device=device_of(Xt))
        self.squares = xp.zeros(n, dtype=xp.float64, device=device_of(Xt))

    @classmethod
    def from_block(cls, X: Any, gamma: float, factor: Factor, dtype: Any) -> "Elements":
        """Return the contrasts of all columns of an array."""
        columns = astype(X.T, dtype)
        return cls(np.ascontiguousarray(columns) if on_host(columns) else columns.contiguous(), gamma, factor)

    def _blocks(self) -> Iterator[tuple[int, int, Any]]:
        """Yield (start, stop, T) with T of shape (feature, row, column): rows start to stop, columns from start on."""
        n, m = self._Xt.shape
        xp, end = namespace(self._Xt), 0
        for start, stop in pairwise(self._starts):
            shape = n, stop - start, m - start
            block = xp.reshape(self._memory[end : end + n * shape[1] * shape[2]], shape)
            if self._keep:
                end += n * shape[1] * shape[2]
            if end > self._n_computed or not self._keep:  # else in memory since the first pass
                xp.subtract(self._Xt[:, start:stop, None], self._Xt[:, None, start:], out=block)
                with np.errstate(over="ignore"):
                    block *= block
                self._contrast(block)
                self._n_computed = end
            yield start, stop, block

    def log_factors(self, free: Array, dtype: Any) -> Any:
        """Return `Σ_j log((1 + z_j)/2) = -Σ_j log(1 + T_j)` over the free features; sets the sums."""
        xp, m = namespace(self._Xt), self._Xt.shape[1]
        logs = xp.empty((m, m), dtype=dtype, device=device_of(self._Xt))
        self.row_sums[:] = 0.0
        self.squares[:] = 0.0
        for start, stop, block in self._blocks():
            factors = -_log_product(block if free.all() else block[as_index(free, block)])
            logs[start:stop, start:] = factors
            if stop - start == m:  # all pairs at once, each of them twice
                self.row_sums[:] = block.sum(axis=2)
                self.squares[:] = (block * block).sum(axis=(1, 2))
                return logs
            logs[stop:, start:stop] = factors[:, stop - start :].T
            square = block[:, :, : stop - start]
            # Sums as products with ones, which are far faster along a short axis.
            ones = xp.ones(m - start, dtype=block.dtype, device=device_of(block))
            self.row_sums[:, start:stop] += to_double(block @ ones)
            self.row_sums[:, stop:] += to_double(ones[: stop - start] @ block[:, :, stop - start :])
            # The square block on the diagonal holds its pairs twice, the other columns hold theirs once.
            flat = xp.reshape(block, (block.shape[0], 1, -1))
            self.squares += 2 * to_double((flat @ xp.matrix_transpose(flat))[:, 0, 0])
            self.squares -= to_double(xp.linalg.vecdot(square, square).sum(axis=1))
        return logs

    def least_row_sum(self) -> float:
        """Return the least row sum of T over all features: m - 1 if the kernel underflows between all samples."""
        return float(self.row_sums.min())

    def forms(self, matrices: tuple[Any, Any, Any], n_pairs: float) -> Any:
        """Return the forms of all features, with the full function (eq. 3 and 7)."""
        xp, (n, m) = namespace(self._Xt), self._Xt.shape
        products = xp.zeros((n, 3), dtype=xp.float64, device=device_of(self._Xt))
        for start, stop, block in self._blocks():
            entries = astype(xp.stack([matrix[start:stop, start:] for matrix in matrices]), block.dtype)
            if stop - start == m:
                products = to_double(xp.reshape(block, (n, -1)) @ xp.reshape(entries, (3, -1)).T)
                break
            square = xp.reshape(block[:, :, : stop - start], (n, -1))
            # As in `log_factors`: pairs of the square on the diagonal are there twice, the others once.
            products -= to_double(square @ xp.reshape(entries[:, :, : stop - start], (3, -1)).T)
            products += 2 * to_double(xp.reshape(block, (n, -1)) @ xp.reshape(entries, (3, -1)).T)
        total, main, interaction = -2 * products.T
        row_squares = (self.row_sums * self.row_sums).sum(axis=1)
        sums = self.row_sums.sum(axis=1)
        # ‖U(T)‖² from (4), and twice its root for the function 2T.
        square = self.squares - row_squares * (2 / (m - 2)) + sums**2 / ((m - 1) * (m - 2))
        u_centred_norm = 2 * root_above_rounding(square, self.squares, m, self._Xt.dtype)
        return xp.stack([total / n_pairs, main, interaction, u_centred_norm, sums / (m * (m - 1))])


class StreamedElements:
    """`Elements` of features that are not in memory: every method reads them in blocks of columns."""

    def __init__(self, X: ColumnSource, gamma: float, factor: Factor, dtype: Any) -> None:
        self._X, self._settings = X, (gamma, factor, dtype)
        self._least = np.inf

    def log_factors(self, free: Array, dtype: Any) -> Any:
        """Return `-Σ_j log(1 + T_j)` over the free features."""
        logs = sum_blocks(select_columns(self._X, free), STRIP, _LogFactors.from_block, *self._settings)
        self._least = logs.least_row_sum
        return astype(logs.log_factors, dtype)

    def least_row_sum(self) -> float:
        """Return the least row sum of T over the free features."""
        return self._least

    def forms(self, matrices: tuple[Any, Any, Any], n_pairs: float) -> Any:
        """Return the forms of all features."""
        blocks = list(map_blocks(self._X, STRIP, _forms_of_block, *self._settings, matrices, n_pairs))
        return namespace(blocks[0]).concat(blocks, axis=1)


@dataclass(frozen=True)
class _LogFactors:
    """Terms of some features in log Q, and the least row sum of their T."""

    log_factors: Any
    least_row_sum: float

    @classmethod
    def from_block(cls, block: Any, gamma: float, factor: Factor, dtype: Any) -> "_LogFactors":
        elements = Elements.from_block(block, gamma, factor, dtype)
        log_factors = elements.log_factors(np.ones(block.shape[1], dtype=bool), namespace(block).float64)
        return cls(log_factors, elements.least_row_sum())

    def __add__(self, other: "_LogFactors") -> "_LogFactors":
        return _LogFactors(self.log_factors + other.log_factors, min(self.least_row_sum, other.least_row_sum))


def _forms_of_block(
    block: Any, gamma: float, factor: Factor, dtype: Any, matrices: tuple[Any, Any, Any], n_pairs: float
) -> Any:
    elements = Elements.from_block(block, gamma, factor, dtype)
    elements.log_factors(np.ones(block.shape[1], dtype=bool), dtype)  # for the sums that it computes
    return elements.forms(matrices, n_pairs)


def elements_of(sample: Sample, gamma: float, features: Array) -> Elements | StreamedElements:
    """Return the contrasts of the features of a mask, in double precision where single would lose too much."""
    X = keep_columns(sample.X, features)
    extremes, xp = sample.moments.extremes, sample.xp
    # In single precision u must keep its digits, and T must not saturate, or its variation would be lost.
    keeps_digits = 1e-10 < gamma < 1e10 and extremes.least_range > 1e-3 and extremes.largest_range < 1e6
    keeps_digits &= 1e-2 < gamma * extremes.largest_range**2 <= 4.0
    single = sample.precision.single_products and sample.moments.outlying is None and keeps_digits
    dtype = xp.float32 if single else xp.float64
    if isinstance(X, ColumnSource):
        return StreamedElements(X, gamma, sample.factor, dtype)
    return Elements.from_block(X, gamma, sample.factor, dtype)


def _log_product(block: Any) -> Any:
    """Return `Σ_j log(1 + T_j)` by logarithms of products, each of so many factors `1 + T ≤ 2` that none overflows."""
    xp = namespace(block)
    longest = 100 if is_single(block.dtype) else 1000
    starts = range(0, block.shape[0], longest)
    logs = [to_double(xp.log(xp.prod(1 + block[start : start + longest], axis=0))) for start in starts]
    return sum(logs[1:], logs[0]) if logs else xp.zeros(block.shape[1:], dtype=block.dtype, device=device_of(block))
