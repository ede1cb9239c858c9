"""Probabilities of classes, calibrated by outputs of a model for held-out samples."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from randsel._utils.typing import Array


@dataclass(frozen=True)
class Calibration:
    """Probabilities of the classes: `softmax(slope · outputs + offsets)`.

    This is Platt's calibration, with one slope for all classes. `nested` says whether the samples that it was fitted to
    were held out of the selection of features as well. Probabilities depend on the frequencies of the classes; outputs,
    which decide on the predicted class, do not.
    """

    slope: float
    offsets: Array
    nested: bool

    @property
    def thresholds(self) -> Array:
        """Probabilities of the classes for equal outputs.

        The predicted class has the largest ratio of probability to threshold. Of two classes, it is the one whose
        probability is above its threshold.
        """
        return np.asarray(softmax(self.offsets))

    def probabilities(self, outputs: Array) -> Array:
        """Return one column per class."""
        return np.asarray(softmax(self.slope * outputs + self.offsets, axis=1))


def fit_calibration(outputs: Array, codes: Array, nested: bool) -> Calibration:
    """Fit slope and offsets to the outputs and the class codes of held-out samples.

    As in Platt's method, a sample of a class of n members counts as that class with weight (n + 1)/(n + K), and as
    each of the K - 1 others with weight 1/(n + K). Perfectly separated classes therefore have probabilities below one.
    The slope is not negative.
    """
    n_samples, n_classes = outputs.shape
    sizes = np.bincount(codes, minlength=n_classes)[codes]
    weights = np.eye(n_classes)[codes] * sizes[:, None] + 1.0
    weights /= weights.sum(axis=1, keepdims=True)

    def loss(parameters: Array) -> tuple[float, Array]:
        logits = parameters[0] * outputs + parameters[1:]
        residuals = softmax(logits, axis=1) - weights
        value = -(weights * log_softmax(logits, axis=1)).sum() / n_samples
        return value, np.concatenate([[(residuals * outputs).sum()], residuals.sum(axis=0)]) / n_samples

    start = np.concatenate([[1.0], np.zeros(n_classes)])
    bounds = [(0.0, None), *[(None, None)] * n_classes]
    options = {"maxiter": 1000, "ftol": 1e-14, "gtol": 1e-9}
    fitted = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    return Calibration(float(fitted[0]), np.asarray(fitted[1:] - fitted[1:].mean()), nested)
