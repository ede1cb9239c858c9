"""Figures of results, drawn with matplotlib.

Functions that draw one panel take `ax` and return the axes. Functions that draw several panels return an array of
axes. Their figure is new; `figure_of` returns it. All of them take arrays, data frames or fitted selectors. They
compute no new results.

Imports from `_utils`, `targets` and `culling`.
"""

from randsel.plots._features import feature_panel, pair_panel, pair_panels, volcano
from randsel.plots._heatmaps import feature_heatmap, interaction_heatmap
from randsel.plots._paths import culling_path, kernel_weights
from randsel.plots._predictions import confusion_matrix, predicted_values, roc_curve
from randsel.plots._scores import accuracy, comparison, panel_sizes
from randsel.plots._style import CLASS_COLOURS, GREY, LOW_TO_HIGH, ON_PALE, RED, class_colours, figure_of, new_figure
from randsel.plots._survival import FEW_AT_RISK, split_at_median, survival_panels

__all__ = [
    "CLASS_COLOURS",
    "FEW_AT_RISK",
    "GREY",
    "LOW_TO_HIGH",
    "ON_PALE",
    "RED",
    "accuracy",
    "class_colours",
    "comparison",
    "confusion_matrix",
    "culling_path",
    "feature_heatmap",
    "feature_panel",
    "figure_of",
    "interaction_heatmap",
    "kernel_weights",
    "new_figure",
    "pair_panel",
    "pair_panels",
    "panel_sizes",
    "predicted_values",
    "roc_curve",
    "split_at_median",
    "survival_panels",
    "volcano",
]
