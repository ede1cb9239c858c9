"""Functions of features to third order: between those that are nearly linear and those taken pair by pair.

`2 tanh(u/2)` is replaced by `a u - b u³`, with `a` and `b` of its own for every feature, and all sums over pairs become
sums of powers and matrix products. Equations are numbered as in docs/mathematics.md.
"""

from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import comb
from typing import Any

import numpy as np

from randsel._numerics.arrays import (
    add_outer_sum,
    astype,
    clip,
    columnwise_dot,
    namespace,
    row_sums,
    rowwise_dot,
    symmetric_product,
    take_columns,
    to_double,
)
from randsel._numerics.columns import load_columns
from randsel._utils.typing import Array
from randsel.contribution._error_bounds import moment_of_differences, power_sums, ratio, score_error
from randsel.contribution._sample import Sample, root

#: Largest `u` of a feature for which the series is tried.
REACH = 1.5
#: Powers of a column that the bounds take.
POWERS = 20


@dataclass(frozen=True)
class CubicSeries:
    """The functions of some features, and how far they can be from the true ones.

    Attributes
    ----------
    features
        Mask of the features.
    z
        Their columns, in units of their range.
    reach
        Largest `u` of each.
    a, b
        Coefficients.
    row_sums, sums, squares
        Sum of the function over the pairs of every row, and over all pairs that of the function and of its square.
    error
        Bound on the norm of the error of the function (eq. 12'').
    log_errors
        Bound on the norm of the error of the logarithm of its factor in Q.
    dtype
        Precision of the matrix products.
    """

    features: Array
    z: Any
    reach: Any
    a: Any
    b: Any
    row_sums: Any
    sums: Any
    squares: Any
    error: Any
    log_errors: Any
    dtype: Any

    @classmethod
    def of(cls, sample: Sample, gamma: float, features: Array) -> "CubicSeries":
        """Expand the functions of the features of a mask."""
        span = take_columns(sample.moments[2], features)
        z, reach = to_double(load_columns(sample.X, features)) / span, gamma * span**2
        sums = power_sums(z, POWERS)
        moments = {k: moment_of_differences(sums, k) for k in (1, 2, 3, 4, 6, 8, 10)}
        # u⁵ by u and u³, in the least squares sense
        determinant = moments[2] * moments[6] - moments[4] ** 2
        determinant = namespace(z).where(determinant > 1e-9 * moments[2] * moments[6], determinant, np.inf)
        by_first = (moments[6] ** 2 - moments[8] * moments[4]) / determinant
        by_third = (moments[2] * moments[8] - moments[4] * moments[6]) / determinant
        left = moments[10] * (1 + 1e-9) - by_first * moments[6] - by_third * moments[8]
        a, b = 1 + reach**4 * by_first / 120, 1 / 12 - reach**2 * by_third / 120
        first, third = a * reach, b * reach**3
        tenth = moments[10] ** 0.5
        return cls(
            features=features,
            z=z,
            reach=reach,
            a=a,
            b=b,
            row_sums=first * _row_sums(z, sums, 1) - third * _row_sums(z, sums, 3),
            sums=first * moments[1] - third * moments[3],
            squares=first**2 * moments[2] - 2 * first * third * moments[4] + third**2 * moments[6],
            error=reach**5 / 120 * clip(left, 0.0) ** 0.5 + reach**7 * tenth * (17 / 20160),
            log_errors=reach**6 * tenth / 2880,
            dtype=sample.inside,
        )

    def only(self, chosen: Array) -> "CubicSeries":
        """Return the functions of some of the features, `chosen` being a mask over them."""
        features = self.features.copy()
        features[features] = chosen
        names = [field.name for field in fields(self) if field.name not in ("features", "dtype")]
        return replace(self, features=features, **{name: take_columns(getattr(self, name), chosen) for name in names})

    @cached_property
    def row_squares(self) -> Any:
        """Sum of the squares of the row sums."""
        return columnwise_dot(self.row_sums, self.row_sums)

    @cached_property
    def hollow_norm(self) -> Any:
        """Norm of the functions, centred."""
        m = self.z.shape[0]
        square = self.squares - self.row_squares * (2 / (m - 2)) + self.sums**2 / ((m - 1) * (m - 2))
        return root(square, self.squares, m, "float64")

    @property
    def score_error(self) -> Any:
        """Bound on the error of the scores through the functions."""
        return score_error(ratio(self.error, self.hollow_norm), self.z.shape[0])

    def log_terms(self, free: Array, *, whole: bool = False) -> Any:
        """`-Σ_j u_j⁴ / 192` over the features of a mask, for all pairs: the next order of log Q (eq. 10'').

        With `whole`, the orders before it too, `Σ_j -u_j/2 + u_j²/8 - u_j⁴/192`: they go into the same products.
        """
        xp = namespace(self.z)
        z, reach = astype(take_columns(self.z, free), self.dtype), take_columns(self.reach, free)
        fourth_order = astype(-(reach**4) / 192, self.dtype)
        squares = z * z
        fourth = squares * squares
        sixth = fourth * squares
        # what z, z², z³ and z⁴ of one sample are multiplied with, of the other; and what is of one sample alone
        others = [sixth * (-8 * fourth_order), fourth * (28 * fourth_order)]
        alone = sixth * fourth_order
        if whole:
            first_order, second_order = astype(-reach / 2, self.dtype), astype(reach**2 / 8, self.dtype)
            others[0] += squares * (-4 * second_order) - first_order
            others[1] += 3 * second_order
            alone += squares * second_order + first_order
        others = [others[0] * z, others[1] * squares, fourth * z * (-56 * fourth_order), fourth * (35 * fourth_order)]
        powers = xp.concat([z, squares, squares * z, fourth], axis=1)
        total = symmetric_product([(1.0, xp.concat(others, axis=1), powers)])
        add_outer_sum(total, rowwise_dot(alone, squares))
        return total

    def products(self, matrix: Any) -> Any:
        """Sum over pairs of a symmetric matrix times each of the functions."""
        xp, n = namespace(self.z), self.z.shape[1]
        z = astype(self.z, self.dtype)
        squares = z * z
        cubes = squares * z
        wide = astype(matrix, self.dtype) @ xp.concat([z, squares, cubes], axis=1)
        first, second, third = wide[:, :n], wide[:, n : 2 * n], wide[:, 2 * n :]
        rows = to_double(row_sums(matrix))
        of_first = 2 * (rows @ to_double(squares) - to_double(columnwise_dot(z, first)))
        of_third = 2 * (rows @ to_double(squares) ** 3) - 12 * to_double(columnwise_dot(squares * cubes, first))
        of_third += 30 * to_double(columnwise_dot(squares * squares, second)) - 20 * to_double(
            columnwise_dot(cubes, third)
        )
        return self.a * self.reach * of_first - self.b * self.reach**3 * of_third

    def outer_products(self, left: Any, right: Any) -> Any:
        """Sum over pairs of `left rightᵀ` times each of the functions, by sums of powers (eq. 9'')."""
        of_left, of_right = (power_sums_with(side, self.z, 6) for side in (left, right))

        def order(k: int) -> Any:
            signs = [(-1) ** i * comb(2 * k, i) for i in range(2 * k + 1)]
            return sum(c * (of_left[i] * of_right[2 * k - i]).sum(axis=0) for i, c in enumerate(signs))

        return self.a * self.reach * order(1) - self.b * self.reach**3 * order(3)


def power_sums_with(columns: Any, z: Any, highest: int) -> list[Any]:
    """Products of some columns with the powers of z, from the power zero on: one row per column."""
    power = namespace(z).ones_like(z)
    sums = [columns.T @ power]
    for _ in range(highest):
        power = power * z
        sums.append(columns.T @ power)
    return sums


def _row_sums(z: Any, sums: Any, k: int) -> Any:
    """`Σ_q (z_p - z_q)^{2k}` for every row p and column."""
    total: Any = 0.0
    for i in range(2 * k + 1):
        # Horner's rule, from the highest power of z_p
        total = total * z + (-1) ** i * comb(2 * k, i) * sums[i]
    return total
