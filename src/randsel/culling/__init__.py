"""Culling: the criteria that rank features, the rounds, the resulting path, its storage, and a test of noise.

Imports `_utils`, `_numerics`, `targets` and `contribution`.
"""

from randsel.culling._path import (
    DROP,
    MIN_FEATURES,
    N_PERMUTATIONS,
    NOISE_LEVEL,
    CullingPath,
    Round,
    path_sizes,
    permutation_test,
)
from randsel.culling._rank_functions import merge_functions
from randsel.culling._rounds import CRITERIA, CullingState, FinishedRound, Observer, Rules, cull
from randsel.culling._stand_ins import MAX_COUNT, MIN_CORRELATION, StandIn, SwapModel, find_stand_ins
from randsel.culling._storage import path_to_arrays, restore_path, restore_state, save_state

__all__ = [
    "CRITERIA",
    "DROP",
    "MAX_COUNT",
    "MIN_CORRELATION",
    "MIN_FEATURES",
    "NOISE_LEVEL",
    "N_PERMUTATIONS",
    "CullingPath",
    "CullingState",
    "FinishedRound",
    "Observer",
    "Round",
    "Rules",
    "StandIn",
    "SwapModel",
    "cull",
    "find_stand_ins",
    "merge_functions",
    "path_sizes",
    "path_to_arrays",
    "permutation_test",
    "restore_path",
    "restore_state",
    "save_state",
]
