"""Analyses a table: culling, tests, half-samples, nested cross-validation, and cautions; returns an `Analysis`.

Imports from all folders of the method and from `tables`. Output for users is written by `report`.
"""

from randsel.analysis._anndata import select_adata
from randsel.analysis._cautions import cautions, check_codes, check_pairs
from randsel.analysis._effects import auc_limits, auc_variance, effect_measure
from randsel.analysis._model import (
    NO_PAIRS_LEFT,
    RULES,
    Accuracy,
    Analysis,
    Effects,
    FeatureTests,
    HeldOut,
    Pair,
    PanelSizes,
    Rule,
    Settings,
    Stability,
    named_target,
)
from randsel.analysis._pipeline import analyse
from randsel.analysis._ranking import (
    MISSING,
    NAME,
    RANK,
    SCORE_COLUMNS,
    SELECTED,
    VALUE_COLUMNS,
    Feature,
    format_effect,
    list_features,
    value_columns,
)

__all__ = [
    "MISSING",
    "NAME",
    "NO_PAIRS_LEFT",
    "RANK",
    "RULES",
    "SCORE_COLUMNS",
    "SELECTED",
    "VALUE_COLUMNS",
    "Accuracy",
    "Analysis",
    "Effects",
    "Feature",
    "FeatureTests",
    "HeldOut",
    "Pair",
    "PanelSizes",
    "Rule",
    "Settings",
    "Stability",
    "analyse",
    "auc_limits",
    "auc_variance",
    "cautions",
    "check_codes",
    "check_pairs",
    "effect_measure",
    "format_effect",
    "list_features",
    "named_target",
    "select_adata",
    "value_columns",
]
