"""Comparisons of selectors by nested cross-validation, and the paper's tables and black-box pipeline.

`_specification` defines what to compare, `_cells` evaluates one fold of one method, `_run` runs all cells with files,
jobs and time limits, and `_summary` writes tables. May import everything except `cli`.
"""

from randsel.experiments._black_box import (
    QUICK_BLACK_BOX,
    BlackBoxSettings,
    accuracies,
    differences,
    run_black_box,
    weights_along_path,
)
from randsel.experiments._figure import draw_figure1, fit_figure1
from randsel.experiments._run import run_comparison
from randsel.experiments._specification import Spec, load_table
from randsel.experiments._summary import curves, write_tables

__all__ = [
    "QUICK_BLACK_BOX",
    "BlackBoxSettings",
    "Spec",
    "accuracies",
    "curves",
    "differences",
    "draw_figure1",
    "fit_figure1",
    "load_table",
    "run_black_box",
    "run_comparison",
    "weights_along_path",
    "write_tables",
]
