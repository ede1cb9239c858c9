"""When a feature's function may stand for its first-order form, and the expected kernel for its series: bounds.

Equations are numbered as in docs/mathematics.md.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from math import comb
from typing import Any

import numpy as np

from randsel._numerics.arrays import (
    as_array_like,
    as_index,
    clip,
    is_single,
    namespace,
    take_columns,
    to_double,
    to_numpy,
)
from randsel._numerics.columns import load_columns
from randsel._numerics.kernels import null_scale
from randsel._utils.typing import Array
from randsel.contribution._sample import Sample

#: Features up to which a dear bound is tried where a cheap one does not hold.
MANY = 1024


@dataclass(frozen=True)
class Moments:
    """Per feature: what the first-order form and its error bound need. Columns have mean zero."""

    m: int
    second: Any
    reach: Any
    hollow_norm: Any
    """`‖U(x xᵀ)‖_F` (eq. 9)."""
    pair_norm: Any
    """`‖d‖_F`, the norm of a feature's squared differences."""
    gamma: float
    dtype: Any
    outlying: Any
    extremes: tuple[float, float, float, float]

    @classmethod
    def of(cls, sample: Sample, gamma: float) -> "Moments":
        """Take the moments of a sample, for one bandwidth."""
        second, _, span, hollow, pairs = sample.moments
        with np.errstate(over="ignore"):
            reach = gamma * span * span
        own = gamma, sample.inside, sample.outlying, sample.extremes
        return cls(len(sample.X), second, reach, hollow, pairs, *own)

    def sharpened(self, sample: Sample, features: Array) -> "Moments":
        """Bound the slope error of some features by their twelfth moments, dearer than their range (eq. 12')."""
        if not 0 < np.count_nonzero(features) <= MANY:
            return self
        # in units of the range, whatever those of the column are
        span, reach = take_columns(sample.moments[2], features), take_columns(self.reach, features)
        sums = power_sums(to_double(load_columns(sample.X, features)) / span, 12)
        d2, d4, d6 = (moment_of_differences(sums, k) for k in (2, 4, 6))
        curve = clip(d6 - ratio(d4 * d4, d2), 0.0) ** 0.5 / 12
        curve = curve + d6**0.5 * reach**2 / 120
        factor = 1.0 - reach**2 * ratio(d4, d2) / 12
        length = 2 * take_columns(self.hollow_norm, features) / span**2 * clip(factor, 1e-3)
        error = score_error(reach**2 * ratio(curve, length), self.m)
        slope_error = namespace(error).asarray(self.slope_error, copy=True)
        at = as_index(features, error)
        slope_error[at] = namespace(error).minimum(slope_error[at], error)
        sharper = replace(self)
        sharper.__dict__.update(self.__dict__, slope_error=slope_error)
        return sharper

    def heavy(self) -> Any:
        """Columns in single precision that are `outlying`."""
        heavy = namespace(self.second).zeros_like(self.second, dtype=namespace(self.second).bool)
        return self.outlying if self.outlying is not None and is_single(self.dtype) else heavy

    def too_steep(self, tolerance: float) -> Array:
        """Mask, on the host, of features that may not stand for their first-order form."""
        steep = self.slope_error > tolerance
        return to_numpy(steep if self.outlying is None else steep | self.heavy())

    def surely_smooth(self, tolerance: float) -> bool:
        """Whether even a column of the largest range and the largest norms could stand for its first-order form."""
        if self.outlying is not None:
            return False
        slope = tanh_slope(np.asarray(self.gamma * self.extremes[1] ** 2))
        return bool(score_error((1 - slope) / (1 + slope) * self.extremes[2], self.m) <= tolerance)

    @property
    def ordinary(self) -> bool:
        """Whether squared differences, times γ, keep their digits in single precision."""
        narrowest, widest = self.extremes[:2]
        in_range = 1e-10 < self.gamma < 1e10 and narrowest > 1e-3 and widest < 1e6
        return in_range and self.gamma * widest**2 > 1e-2

    @cached_property
    def slope(self) -> Any:
        """Least slope of `2 tanh(u/2)` over the feature's range."""
        return tanh_slope(self.reach)

    @cached_property
    def slope_error(self) -> Any:
        """Bound on the error of a score when `2 tanh(u/2)` is replaced by `u` times a constant (eq. 12)."""
        return score_error((1 - self.slope) / (1 + self.slope) * ratio(self.pair_norm, 2 * self.hollow_norm), self.m)

    @cached_property
    def log_errors(self) -> Any:
        """Bound on each feature's share in the Frobenius norm of the error of `log Q` to second order (eq. 10)."""
        with np.errstate(over="ignore"):
            return self.reach**3 * self.pair_norm * (self.gamma / 192)

    @property
    def most_log_error(self) -> float:
        """Bound on the sum of all `log_errors`, from the largest range and norm."""
        with np.errstate(over="ignore"):
            reach = np.float64(self.gamma) * self.extremes[1] ** 2
            return float(len(self.second) * reach**3 * self.extremes[3] * (self.gamma / 192))

    def log_error(self, features: Array) -> float:
        """Sum of `log_errors` over some features."""
        return float(take_columns(self.log_errors, features).sum()) if features.any() else 0.0


def power_sums(x: Any, highest: int) -> Any:
    """Sum the powers of every column, from the power zero on; one row each."""
    xp = namespace(x)
    power = xp.ones_like(x)
    sums = [power.sum(axis=0)]
    for _ in range(highest):
        power = power * x
        sums.append(power.sum(axis=0))
    return xp.stack(sums)


def moment_of_differences(sums: Any, k: int) -> Any:
    """`Σ_pq d^k` of every column, with `d = (x_p - x_q)²`, from sums of powers."""
    xp = namespace(sums)
    signs = as_array_like(np.array([(-1.0) ** i * comb(2 * k, i) for i in range(2 * k + 1)]), sums)
    needed = sums[: 2 * k + 1, :]
    return clip((signs[:, None] * needed * xp.flip(needed, axis=0)).sum(axis=0), 0.0)


def ratio(above: Any, below: Any) -> Any:
    """Quotient, with zero where the lower number is zero."""
    return namespace(below).where(below > 0, above, 0.0) / clip(below, 1e-300)


def score_error(turn: Any, m: int) -> Any:
    """How far a score can move when one of its matrices changes by the fraction `turn` of its norm.

    The angle is then at most arcsin(turn), and the chord between the two directions 2 sin(arcsin(turn)/2).
    """
    if isinstance(turn, float):
        turn = np.asarray(turn)
    xp = namespace(turn)
    return null_scale(m) * xp.where(turn < 1, 2 * xp.sin(xp.asin(clip(turn, None, 1.0)) / 2), 2.0)


def turn_for(error: float, m: int) -> float:
    """Return the largest `turn` whose `score_error` is at most `error`."""
    return float(np.sin(2 * np.arcsin(min(error / (2 * null_scale(m)), np.sqrt(0.5)))))


def tanh_slope(u: Any) -> Any:
    """`2 tanh(u/2) / u`, between 0 and 1."""
    xp = namespace(u)
    u = clip(u, None, 1e6)
    small = u < 1e-4
    safe = xp.where(small, 1.0, u)
    return xp.where(small, 1.0 - u * u / 12, 2 * xp.tanh(safe / 2) / safe)
