"""Figures of results, drawn with matplotlib. All functions return a `Figure` and compute no new results.

Imports from `_utils`, `targets` and `culling`.
"""

from randsel.plots._features import feature_panel, interaction_heatmap, pair_panel, pair_panels
from randsel.plots._paths import culling_path, kernel_weights
from randsel.plots._scores import accuracy, comparison
from randsel.plots._style import CLASS_COLOURS, GREY, LOW_TO_HIGH, RED, class_colours
from randsel.plots._survival import split_at_median, survival_panels

__all__ = [
    "CLASS_COLOURS",
    "GREY",
    "LOW_TO_HIGH",
    "RED",
    "accuracy",
    "class_colours",
    "comparison",
    "culling_path",
    "feature_panel",
    "interaction_heatmap",
    "kernel_weights",
    "pair_panel",
    "pair_panels",
    "split_at_median",
    "survival_panels",
]
