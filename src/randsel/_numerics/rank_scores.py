"""Rank scores: functions of the rank that replace a value. Tied values have their mean rank.

Ranks lie between 0 and 1. The normal score is the normal quantile of the rank. The monotone score is the sum of the
rank, scaled to variance one, and the normal score. Ranks show joint effects of features better than normal scores do,
and normal scores show linear effects better.
"""

import sys
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import ndtri

from randsel._numerics.arrays import on_host
from randsel._utils.typing import Array


def normal_scores(ranks: Any) -> Any:
    """Return the normal quantiles of ranks in (0, 1)."""
    return ndtri(ranks) if on_host(ranks) else sys.modules["torch"].special.ndtri(ranks)


def monotone_scores(ranks: Any) -> Any:
    """Return the sum of centred ranks, scaled to variance one, and normal scores, for ranks in (0, 1) (eq. 1')."""
    return 12.0**0.5 * (ranks - 0.5) + normal_scores(ranks)


#: Values of `scale` that replace values by functions of their ranks.
RANK_SCORES = {"rank": monotone_scores, "normal": normal_scores}


@lru_cache(maxsize=8)
def midrank_scores(m: int, scale: str) -> Array:
    """Return the scores of the ranks k/(2m) for k = 1 … 2m - 1, which include all midranks; exactly antisymmetric."""
    lower = RANK_SCORES[scale](np.arange(1, m) / (2 * m))
    return np.concatenate([lower, [0.0], -lower[::-1]])


@lru_cache(maxsize=8)
def untied_scores(m: int, scale: str) -> Array:
    """Return the standardised scores of a column of m values without ties, ascending."""
    scores = midrank_scores(m, scale)[::2]
    return np.asarray(scores / np.sqrt(np.mean(scores**2))) if m > 1 else scores
