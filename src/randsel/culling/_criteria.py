"""Criteria by which a round of culling ranks features: one `Criterion` per rule, listed in `CRITERIA`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from randsel._numerics.arrays import clip
from randsel.contribution import Contribution, Sample


def keep_target(sample: Sample, gamma: float) -> Sample:  # noqa: ARG001 (the signature of `Criterion.weigh_target`)
    """Return the sample as it is: contributions are to the alignment with the target itself."""
    return sample


@dataclass(frozen=True)
class Criterion:
    """A culling rule: how contributions become scores, and how a round may replace the target.

    Attributes
    ----------
    scores
        Function of the contributions that returns (scores, tie breakers), one of each per feature; larger is better.
    weigh_target
        Function of the sample and bandwidth of a round that returns the sample whose contributions are estimated. It
        may replace the target by a weighted one, for example by the residuals of a model of the other features.
    needs_exact
        Whether `scores` reads the main and interaction scores, which only the exact estimator computes.
    """

    scores: Callable[[Contribution], tuple[Any, Any]]
    weigh_target: Callable[[Sample, float], Sample] = keep_target
    needs_exact: bool = False


def total_scores(contributions: Contribution) -> tuple[Any, Any]:
    """Return the paper's contribution, up to a factor that all features share."""
    return contributions.relative, contributions.relative


def calibrated_scores(contributions: Contribution) -> tuple[Any, Any]:
    """Return the sum of the positive parts of the main and the interaction score; the plain sum breaks ties."""
    main, interaction = contributions.main, contributions.interaction
    return clip(main, 0.0, None) + clip(interaction, 0.0, None), main + interaction


#: Values of `RandSel(criterion=...)`.
CRITERIA = {
    "calibrated": Criterion(calibrated_scores, needs_exact=True),
    "total": Criterion(total_scores),
}
