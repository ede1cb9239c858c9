"""Criteria by which a round of culling ranks features: one `Criterion` per rule, listed in `CRITERIA`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from randsel._numerics.arrays import clip, median, namespace
from randsel.contribution import Contribution

#: The median absolute deviation of normal values, times this, is their standard deviation.
NORMAL_MAD = 1.4826


@dataclass(frozen=True)
class Criterion:
    """A culling rule: the target that contributions refer to, and how contributions become scores.

    Attributes
    ----------
    scores
        Function of the contributions that returns (scores, tie breakers), one of each per feature; larger is better.
    residual
        Whether contributions are to the residual of a ridge regression on the features left, not to the target itself.
    needs_exact
        Whether only the exact estimator computes what `scores` reads.
    """

    scores: Callable[[Contribution], tuple[Any, Any]]
    residual: bool = False
    needs_exact: bool = False


def total_scores(contributions: Contribution) -> tuple[Any, Any]:
    """Return the paper's contribution, up to a factor that all features share."""
    return contributions.relative, contributions.relative


def calibrated_scores(contributions: Contribution) -> tuple[Any, Any]:
    """Return the sum of the positive parts of the main and the interaction score; the plain sum breaks ties."""
    main, interaction = contributions.main, contributions.interaction
    return clip(main, 0.0, None) + clip(interaction, 0.0, None), main + interaction


def combined_scores(contributions: Contribution) -> tuple[Any, Any]:
    """Return the contribution plus the interaction score, both on the scale of their spread among the features left.

    If there is no residual, because all features together do not predict the target, the scores are the calibrated
    ones. On correlated features the interaction score has neither mean zero nor variance one under the null. Only what
    exceeds the median counts, in units of the spread, which is at least that of independent features.
    """
    total, interaction = contributions.relative, contributions.interaction
    if contributions.ridge == np.inf:
        return calibrated_scores(contributions)
    centre, spread = _centre_and_spread(interaction)
    excess = clip(interaction - clip(centre, 0.0), 0.0) / clip(spread, 1.0)
    centre, spread = _centre_and_spread(total)
    # If all features contribute equally, there is no spread.
    return (total - centre) / namespace(total).where(spread > 0.0, spread, 1.0) + excess, total


def _centre_and_spread(values: Any) -> tuple[Any, Any]:
    """Return the median, and the standard deviation estimated by the median absolute deviation.

    If most of a few values are nearly equal, the estimate is close to zero. The result is at least a tenth of the
    standard deviation.
    """
    xp, centre = namespace(values), median(values)
    deviation = NORMAL_MAD * median(xp.abs(values - centre))
    return centre, xp.maximum(deviation, 0.1 * xp.std(values))


#: Values of `RandSel(criterion=...)`.
CRITERIA = {
    "combined": Criterion(combined_scores, residual=True, needs_exact=True),
    "residual": Criterion(total_scores, residual=True, needs_exact=True),
    "total": Criterion(total_scores),
    "calibrated": Criterion(calibrated_scores, needs_exact=True),
}
