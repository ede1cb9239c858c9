"""Panels: the selected features with a fitted model, saved by `randsel select` and applied to new samples.

`_content` and `_panel` define a panel and its predictions, `_file` reads and writes it. `_training` fits the model of
`prediction` to an `Analysis`. `_cohort` compares new values with training values, `_evaluation` compares predictions
with a known outcome, `_application` does all of it for a table of new samples, and `_results` writes the files of
`randsel apply`. Imports from `prediction`, `analysis` and `report`.
"""

from randsel.panels._application import Application, apply_panel
from randsel.panels._cohort import FeatureShift, compare_features, warn_of_shifts
from randsel.panels._content import FILE, PanelFeature, StandInFeature
from randsel.panels._evaluation import Evaluation, auc_with_interval, evaluate
from randsel.panels._file import write_panel
from randsel.panels._panel import NewSamples, Panel
from randsel.panels._results import summarise_application, write_application
from randsel.panels._training import fit_panel

__all__ = [
    "FILE",
    "Application",
    "Evaluation",
    "FeatureShift",
    "NewSamples",
    "Panel",
    "PanelFeature",
    "StandInFeature",
    "apply_panel",
    "auc_with_interval",
    "compare_features",
    "evaluate",
    "fit_panel",
    "summarise_application",
    "warn_of_shifts",
    "write_application",
    "write_panel",
]
