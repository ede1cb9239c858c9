"""The contribution of every feature to the alignment of a random feature subset with the target.

`exact` computes the limit of infinitely many subsets in closed form; `bootstrap` is Algorithm 1 of the paper. Both take
a sample, a bandwidth and draws, and return a `Contribution`. Reading order: `_sample`, `_expected_kernel`,
`_closed_form`, `_error_bounds`, `_nonlinear`. Imports from `_utils`, `_numerics` and `targets` only.
"""

from randsel.contribution._bootstrap import Draws, bootstrap
from randsel.contribution._closed_form import exact, map_row_blocks, row_blocks
from randsel.contribution._error_bounds import ColumnMoments, Extremes
from randsel.contribution._expected_kernel import RIDGE, Weighting, fit_ridge
from randsel.contribution._sample import Contribution, PairSums, Precision, Sample, Sketch

__all__ = [
    "RIDGE",
    "ColumnMoments",
    "Contribution",
    "Draws",
    "Extremes",
    "PairSums",
    "Precision",
    "Sample",
    "Sketch",
    "Weighting",
    "bootstrap",
    "exact",
    "fit_ridge",
    "map_row_blocks",
    "row_blocks",
]
