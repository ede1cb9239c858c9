"""The contribution of every feature to the alignment of a random feature subset with the target.

`exact` computes the limit of infinitely many subsets in closed form; `bootstrap` is Algorithm 1 of the paper. Both take
a sample, a bandwidth and draws, and return a `Contribution`. Reading order: `_sample`, `_expected_kernel`,
`_closed_form`, `_nonlinear`; then `_sketch` for wide tables, and `_row_blocks` for many samples. Imports from `_utils`,
`_numerics` and `targets` only.
"""

from randsel.contribution._bootstrap import Draws, bootstrap
from randsel.contribution._closed_form import exact, row_blocks
from randsel.contribution._expected_kernel import RIDGE, Weighting, fit_ridge
from randsel.contribution._row_blocks import map_row_blocks
from randsel.contribution._sample import ColumnMoments, Contribution, Extremes, PairSums, Precision, Sample
from randsel.contribution._sketch import Sketch

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
