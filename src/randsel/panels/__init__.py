"""Panels: the selected features with a fitted model, saved by `randsel select` and applied to new samples.

`_content` and `_panel` define a panel and its predictions, `_file` reads and writes it. `_preparation` and `_model` are
fitted by `_training` to an `Analysis`. `_cohort` compares new values with training values, `_evaluation` compares
predictions with a known outcome, and `_results` writes the files of `randsel apply`. Imports from `analysis` and
`report`.
"""

from randsel.panels._cohort import (
    TRANSFORMS,
    FeatureShift,
    check_categories,
    compare_features,
    transform_values,
    warn_of_shifts,
)
from randsel.panels._content import FILE, PanelFeature, StandInFeature
from randsel.panels._evaluation import Evaluation, auc_with_interval, evaluate, known_outcome
from randsel.panels._file import write_panel
from randsel.panels._panel import NewSamples, Panel
from randsel.panels._results import Application, summarise_application, write_application
from randsel.panels._training import fit_panel

__all__ = [
    "FILE",
    "TRANSFORMS",
    "Application",
    "Evaluation",
    "FeatureShift",
    "NewSamples",
    "Panel",
    "PanelFeature",
    "StandInFeature",
    "auc_with_interval",
    "check_categories",
    "compare_features",
    "evaluate",
    "fit_panel",
    "known_outcome",
    "summarise_application",
    "transform_values",
    "warn_of_shifts",
    "write_application",
    "write_panel",
]
