"""Rank scores: a value becomes the normal quantile of its rank, or its monotone score. Ties have their mean rank.

The monotone score is the sum of the rank and of its normal quantile. Ranks show joint effects of features better, and
normal quantiles linear effects.
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
    """Return the sums of ranks in (0, 1) and their normal scores, both of variance one (eq. 1')."""
    return 12.0**0.5 * (ranks - 0.5) + normal_scores(ranks)


#: Values of `scale` that replace values by functions of their ranks.
RANK_SCORES = {"rank": monotone_scores, "normal": normal_scores}


@lru_cache(maxsize=8)
def midrank_scores(m: int, scale: str) -> Array:
    """Return the scores of the ranks k/(2m) for k = 1 … 2m - 1, which all midranks are; exactly antisymmetric."""
    lower = RANK_SCORES[scale](np.arange(1, m) / (2 * m))
    return np.concatenate([lower, [0.0], -lower[::-1]])


@lru_cache(maxsize=8)
def untied_scores(m: int, scale: str) -> Array:
    """Return the scores of a column without ties, ascending."""
    scores = midrank_scores(m, scale)[::2]
    return np.asarray(scores / np.sqrt(np.mean(scores**2))) if m > 1 else scores
