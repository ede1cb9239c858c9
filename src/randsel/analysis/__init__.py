"""Analyses a table: culling, tests, half-samples, nested cross-validation, and cautions; returns an `Analysis`.

Imports from all folders of the method and from `tables`. Output for users is written by `report`.
"""

from randsel.analysis._anndata import select_adata
from randsel.analysis._cautions import cautions, check_pairs
from randsel.analysis._model import (
    MISSING,
    NAME,
    RANK,
    RULES,
    SCORE_COLUMNS,
    SELECTED,
    VALUE_COLUMNS,
    Accuracy,
    Analysis,
    Feature,
    FeatureTests,
    Pair,
    Rule,
    Settings,
    Stability,
    list_features,
)
from randsel.analysis._pipeline import analyse

__all__ = [
    "MISSING",
    "NAME",
    "RANK",
    "RULES",
    "SCORE_COLUMNS",
    "SELECTED",
    "VALUE_COLUMNS",
    "Accuracy",
    "Analysis",
    "Feature",
    "FeatureTests",
    "Pair",
    "Rule",
    "Settings",
    "Stability",
    "analyse",
    "cautions",
    "check_pairs",
    "list_features",
    "select_adata",
]
