"""Tests of single features, pairs and triples.

`_design` holds the outcome and how samples depend on each other. `_permutation_tails` has null distributions of
permuted outcomes, `_label_probabilities` those of class labels given covariates. `_evidence` tests sets of features
by their rank functions. `_pair_scan` scans all pairs and triples for the best ones; `_level_tables` counts pairs of
discrete features for it, and `_fused_tiles` runs the kernels of `_pair_kernels` on a GPU. `_forward_selection` runs all
steps and ranks the features. `_smallest_set` selects features by tests given those selected before. Imports `_utils`,
`_numerics` and `targets`.
"""

from randsel.interactions._design import (
    DEFAULT_DECAY,
    Design,
    default_functions,
    degrees_of_freedom,
    functions_in_triples,
    max_functions,
    responses_of,
)
from randsel.interactions._evidence import main_effects, pairs_with_covariates
from randsel.interactions._forward_selection import LEVEL, ScanResult, scan_interactions
from randsel.interactions._smallest_set import MAX_FORWARD_STEPS, ConditionalTests, SmallestSet, find_smallest_set

__all__ = [
    "DEFAULT_DECAY",
    "LEVEL",
    "MAX_FORWARD_STEPS",
    "ConditionalTests",
    "Design",
    "ScanResult",
    "SmallestSet",
    "default_functions",
    "degrees_of_freedom",
    "find_smallest_set",
    "functions_in_triples",
    "main_effects",
    "max_functions",
    "pairs_with_covariates",
    "responses_of",
    "scan_interactions",
]
