"""The matrices over pairs of samples that every feature's function is paired with, and the score of such a pairing.

Equations are numbered as in docs/mathematics.md.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from randsel._numerics.arrays import astype, dot, is_single, namespace, set_diagonal, to_double, to_floats
from randsel._numerics.kernels import null_scale, u_centre_with_offsets
from randsel.contribution._error_bounds import ratio
from randsel.contribution._sample import Sample


@dataclass(frozen=True)
class PairWeights:
    """The matrices that every feature's function is paired with, and what they are made of.

    With U(Q) and U(L∘U(Q)) split off, what is left of both is of low rank:
    `Q = U(Q) + ρ 1ᵀ + 1 ρᵀ` and `L∘U(Q) = interaction + rest 1ᵀ + 1 restᵀ` off the diagonal.
    """

    interaction: Any
    interaction_norm: float
    rho: Any
    rest: Any
    Y: Any
    own_rows: Any
    """Sums of the rows of L, less twice its diagonal."""

    @classmethod
    def of(cls, sample: Sample, log_expected: Any) -> tuple["PairWeights", float]:
        """`U(L∘U(Q))` and `L∘Q` from `log Q`, whose maximum is taken off and returned as the scale (eq. 6 and 3).

        Overwrites `log_expected`, with `log Q` less its maximum where features are fixed.
        """
        set_diagonal(log_expected, -np.inf)
        peak = log_expected.max()
        log_expected -= peak
        target = sample.target
        # less one: centring does not see it, and a kernel close to one keeps its digits
        xp = namespace(log_expected)
        # what fixed features would do if they were free is computed from log Q later
        expected = xp.expm1(log_expected, out=None if sample.fixed.any() else log_expected)
        hollow, rho = u_centre_with_offsets(expected, overwrite=True)
        varies = abs(rho).max()
        hollow *= target.matrices(log_expected.dtype)[0]
        interaction, rest = u_centre_with_offsets(hollow, overwrite=True)
        scale, varies, square = to_floats(peak, varies, dot(interaction, interaction))
        # what is left of a product with a constant kernel is rounding
        rounding = 2e-5 * varies if is_single(interaction.dtype) else 1e-12
        length = square**0.5 if square**0.5 > rounding * target.hollow_norm else 0.0
        return cls(interaction, length, to_double(rho) + 0.5, to_double(rest), target.Y, target.own_rows), scale

    @cached_property
    def total(self) -> Any:
        """`L∘Q`, zero on its diagonal."""
        xp = namespace(self.rho)
        ones, tilted = xp.ones_like(self.rho)[:, None], self.rho[:, None] * self.Y
        left = xp.concat([self.rest[:, None], ones, tilted, self.Y], axis=1)
        right = xp.concat([ones, self.rest[:, None], self.Y, tilted], axis=1)
        whole = astype(left, self.interaction.dtype) @ astype(right, self.interaction.dtype).T
        whole += self.interaction
        set_diagonal(whole, 0.0)
        return whole

    @cached_property
    def total_rows(self) -> Any:
        """Sums of the rows of `L∘Q`, without it."""
        along = self.rho * self.own_rows + self.Y @ (self.Y.T @ self.rho)
        return (len(self.rho) - 2) * self.rest + self.rest.sum() + along

    def interaction_mean(self, feature_norm: Any, mean: Any, m: int) -> Any:
        """Mean of `⟨A, T_i⟩` under the null, through the feature's own share in Q (eq. 8'); `mean` is that of tanh."""
        return feature_norm**2 / (1 + mean) * (self.total_rows.sum() / (2 * m * (m - 3)))


def score(form: Any, matrix_norm: float, feature_norm: Any, m: int) -> Any:
    """Divide `⟨A, B⟩` by `‖A‖ ‖B‖` and by its standard deviation under the null (eq. 8); 0 where nothing varies."""
    return ratio(null_scale(m) * form, matrix_norm * feature_norm)
