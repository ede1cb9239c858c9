"""Functions of features to third order: between those that are nearly linear and those taken pair by pair.

`2 tanh(u/2)` is replaced by `a u - b u³`, with `a` and `b` of its own for every feature, and all sums over pairs become
sums of powers and matrix products. Equations are numbered as in docs/mathematics.md.
"""

from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import comb
from typing import Any

import numpy as np

from randsel._backend import Array, astype, clipped, columnwise, double, namespace, take
from randsel.columns import gather
from randsel.sample import Sample, root
from randsel.series_bounds import moment_of_differences, power_sums, ratio, score_error

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
    sums, squares, row_squares
        Sum over pairs of the function and of its square, and sum of the squares of its row sums.
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
    sums: Any
    squares: Any
    row_squares: Any
    error: Any
    log_errors: Any
    dtype: Any

    @classmethod
    def of(cls, sample: Sample, gamma: float, features: Array) -> "CubicSeries":
        """Expand the functions of the features of a mask."""
        span = take(sample.moments[2], features)
        z, reach = double(gather(sample.X, features)) / span, gamma * span**2
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
        rows = first * _row_sums(z, sums, 1) - third * _row_sums(z, sums, 3)
        tenth = moments[10] ** 0.5
        return cls(
            features=features,
            z=z,
            reach=reach,
            a=a,
            b=b,
            sums=first * moments[1] - third * moments[3],
            squares=first**2 * moments[2] - 2 * first * third * moments[4] + third**2 * moments[6],
            row_squares=(rows * rows).sum(axis=0),
            error=reach**5 / 120 * clipped(left, 0.0) ** 0.5 + reach**7 * tenth * (17 / 20160),
            log_errors=reach**6 * tenth / 2880,
            dtype=sample.inside,
        )

    def only(self, chosen: Array) -> "CubicSeries":
        """Return the functions of some of the features, `chosen` being a mask over them."""
        features = self.features.copy()
        features[features] = chosen
        names = [field.name for field in fields(self) if field.name not in ("features", "dtype")]
        return replace(self, features=features, **{name: take(getattr(self, name), chosen) for name in names})

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

    def log_terms(self, free: Array) -> Any:
        """`-Σ_j u_j⁴ / 192` over the features of a mask, for all pairs: the next order of log Q (eq. 10'')."""
        xp = namespace(self.z)
        z = astype(self.z if free.all() else take(self.z, free), self.dtype)
        weight = astype(-(take(self.reach, free) ** 4) / 192, self.dtype)
        squares = z * z
        fourth = squares * squares
        powers = [z, squares, squares * z, fourth]
        others = [fourth * squares * z * (-8 * weight), fourth * squares * (28 * weight)]
        others += [fourth * z * (-56 * weight), fourth * (35 * weight)]
        total = xp.concat(others, axis=1) @ xp.concat(powers, axis=1).T
        total = total + total.T
        eighth = (fourth * fourth) @ weight
        total += eighth[:, None]
        total += eighth[None, :]
        return total

    def products(self, matrix: Any) -> Any:
        """Sum over pairs of a symmetric matrix times each of the functions."""
        xp, n = namespace(self.z), self.z.shape[1]
        z = astype(self.z, self.dtype)
        squares = z * z
        cubes = squares * z
        wide = astype(matrix, self.dtype) @ xp.concat([z, squares, cubes], axis=1)
        first, second, third = wide[:, :n], wide[:, n : 2 * n], wide[:, 2 * n :]
        rows = double(matrix.sum(axis=1))
        of_first = 2 * (rows @ double(squares) - double(columnwise(z, first)))
        of_third = 2 * (rows @ double(squares) ** 3) - 12 * double(columnwise(squares * cubes, first))
        of_third += 30 * double(columnwise(squares * squares, second)) - 20 * double(columnwise(cubes, third))
        return self.a * self.reach * of_first - self.b * self.reach**3 * of_third


def _row_sums(z: Any, sums: Any, k: int) -> Any:
    """`Σ_q (z_p - z_q)^{2k}` for every row p and column."""
    total: Any = 0.0
    for i in range(2 * k + 1):
        # Horner's rule, from the highest power of z_p
        total = total * z + (-1) ** i * comb(2 * k, i) * sums[i]
    return total
