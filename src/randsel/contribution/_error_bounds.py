"""Error bounds: how far a score can move when a feature's function is replaced by a series.

A score is a multiple of the cosine between two matrices, so a bound on the angle by which one of them turns bounds its
error (eq. 11). Bounds are computed from moments of the columns. Equations are numbered as in
docs/explanation/mathematics.md.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from math import comb
from typing import Any, NamedTuple

import numpy as np

from randsel._numerics.arrays import (
    as_array_like,
    as_index,
    clip,
    column_ranges,
    machine_epsilon,
    namespace,
    second_and_fourth_power_sums,
    take_columns,
    to_double,
    to_floats,
    to_numpy,
)
from randsel._numerics.columns import load_columns, map_blocks
from randsel._numerics.kernels import Factor, Series, null_scale
from randsel._utils.typing import Array

#: Columns per block of element-wise work: a few hundred rows of them stay in the second-level cache.
STRIP = 512
#: Number of features above which a round uses the extremes of an earlier round, which still bound its columns.
INHERIT_EXTREMES = 1024
#: Largest number of features for which the expensive bound (12') is computed where the cheap one (12) fails.
MAX_SHARPENED = 1024


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


def root_above_rounding(square: Any, scale: Any, m: int, dtype: Any) -> Any:
    """Return the square root; zero where the square is within the rounding error of a sum of m terms up to `scale`."""
    xp = namespace(square)
    return xp.sqrt(xp.where(square > (8 * m * machine_epsilon(dtype)) * scale, square, 0.0))


# ---------------------------------------------------------------- scores and angles


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


def safe_ratio(above: Any, below: Any) -> Any:
    """Return `above / below`, and 0 where `below` is zero."""
    return namespace(below).where(below > 0, above, 0.0) / clip(below, 1e-300)


# ---------------------------------------------------------------- bounds on the first order


@dataclass(frozen=True)
class FirstOrderBounds:
    """Bounds on the errors of the first-order form `2T = u`, for all features at one bandwidth.

    Attributes
    ----------
    m, gamma
        Number of samples, and bandwidth.
    factor, series
        Factor of the kernel, and the coefficients of its series.
    moments
        Moments of the columns.
    reach
        Largest `u` of each feature, `γ` times its squared range.
    sharpened
        Errors from `sharpen`, where the cheap bound did not suffice.
    """

    m: int
    gamma: float
    factor: Factor
    series: Series
    moments: ColumnMoments
    reach: Any
    sharpened: Any = None

    @classmethod
    def from_moments(
        cls, moments: ColumnMoments, m: int, gamma: float, factor: Factor, series: Series
    ) -> "FirstOrderBounds":
        """Prepare the bounds of all features."""
        with np.errstate(over="ignore"):
            reach = gamma * moments.range * moments.range
        return cls(m, gamma, factor, series, moments, reach)

    @cached_property
    def score_errors(self) -> Any:
        """Bound on the error of a feature's scores when `2T` is replaced by `u` times a constant (eq. 12)."""
        if self.sharpened is not None:
            return self.sharpened
        slope, moments = self.factor.least_slope(self.reach), self.moments
        turn = (1 - slope) / (1 + slope) * safe_ratio(moments.pair_norm, 2 * moments.u_centred_norm)
        return score_error(turn, self.m)

    def all_within(self, tolerance: float) -> bool:
        """Whether (12) is within the tolerance even for a column of the largest range and the largest norm ratio."""
        if self.moments.outlying is not None:
            return False
        largest_reach = np.asarray([self.gamma * self.moments.extremes.largest_range**2])
        slope = self.factor.least_slope(largest_reach)
        turn = (1 - slope) / (1 + slope) * self.moments.extremes.largest_norm_ratio
        return bool(score_error(turn, self.m)[0] <= tolerance)

    def exceeding(self, tolerance: float, *, single: bool) -> Array:
        """Return a mask, on the host, of features beyond the tolerance and, with `single`, of outlying ones."""
        exceeding = self.score_errors > tolerance
        if single and self.moments.outlying is not None:
            exceeding = exceeding | self.moments.outlying
        return to_numpy(exceeding)

    def sharpen(self, X: Any, features: Array) -> "FirstOrderBounds":
        """Return sharper bounds for some features, from moments up to the twelfth instead of the range (eq. 12')."""
        if not 0 < np.count_nonzero(features) <= MAX_SHARPENED:
            return self
        # Columns in units of their range, where γ d becomes reach · d and powers stay in range.
        span, reach = take_columns(self.moments.range, features), take_columns(self.reach, features)
        sums = power_sums(to_double(load_columns(X, features)) / span, 12)
        d2, d4, d6 = (difference_moment(sums, k) for k in (2, 4, 6))
        # Residual of u³ after its regression on u, plus the bound on the fifth order: the numerator of (12').
        residual = clip(d6 - safe_ratio(d4 * d4, d2), 0.0) ** 0.5 / self.series.cubic
        residual = residual + d6**0.5 * reach**2 / self.series.quintic
        best_factor = 1.0 - reach**2 * safe_ratio(d4, d2) / self.series.cubic
        norm = 2 * take_columns(self.moments.u_centred_norm, features) / span**2 * clip(best_factor, 1e-3)
        errors = score_error(reach**2 * safe_ratio(residual, norm), self.m)
        xp, index = namespace(errors), as_index(features, errors)
        sharpened = xp.asarray(self.score_errors, copy=True)
        sharpened[index] = xp.minimum(sharpened[index], errors)
        return replace(self, sharpened=sharpened)

    @cached_property
    def log_errors(self) -> Any:
        """Each feature's term in the bound on the error of `log Q` to second order (eq. 10)."""
        with np.errstate(over="ignore"):
            return self.reach**3 * self.moments.pair_norm * (self.gamma / self.series.log_fourth)

    @property
    def largest_log_error(self) -> float:
        """Bound on the sum of all `log_errors`, from the largest range and norm."""
        extremes = self.moments.extremes
        with np.errstate(over="ignore"):
            reach = np.float64(self.gamma) * extremes.largest_range**2
            coefficient = self.gamma / self.series.log_fourth
            return float(len(self.reach) * reach**3 * extremes.largest_pair_norm * coefficient)

    def log_error(self, features: Array) -> float:
        """Return the sum of `log_errors` over some features."""
        return float(take_columns(self.log_errors, features).sum()) if features.any() else 0.0


# ---------------------------------------------------------------- moments of differences


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
