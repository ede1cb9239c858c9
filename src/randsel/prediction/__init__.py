"""The model of a panel: from values of some features to predictions.

`_scores` turns values into normal scores by the training distribution, `_ridge` and `_model` fit the model, and
`_columns` does both for some columns of a table. `_calibration` turns outputs into probabilities. The nested
accuracy of `randsel select`, its curve of panel sizes and the saved panel all use this model.
"""

from randsel.prediction._calibration import Calibration, fit_calibration
from randsel.prediction._columns import ColumnModel, batch_to_remove, predict_from_outputs
from randsel.prediction._model import KERNELS, MAX_SAMPLES, fit_model
from randsel.prediction._ridge import Model
from randsel.prediction._scores import MAX_POINTS, Covariate, Preparation, score_columns, take_points

__all__ = [
    "KERNELS",
    "MAX_POINTS",
    "MAX_SAMPLES",
    "Calibration",
    "ColumnModel",
    "Covariate",
    "Model",
    "Preparation",
    "batch_to_remove",
    "fit_calibration",
    "fit_model",
    "predict_from_outputs",
    "score_columns",
    "take_points",
]
