"""Null distributions of a sum over class labels whose probabilities depend on covariates.

Permutations make every label as likely in every sample. With covariates that is wrong: if the young are rarely cases,
three young cases are a stronger coincidence than three old ones. So each label has a probability of its own, from a
logistic regression on strata and covariates, and the null distribution is that of independent labels.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from randsel._numerics.nuisance import Nuisance
from randsel._utils.typing import Array
from randsel.interactions._permutation_tails import EQUAL, NEWTON_STEPS, log_tail_at_saddlepoint

#: Penalty of the squared coefficients of covariates: bounds them where covariates separate the classes.
RIDGE = 1.0
#: Least probability of a label and of its absence, where a stratum has only one of the two.
MIN_PROBABILITY = 1e-9


@dataclass(frozen=True)
class LabelProbabilities:
    """Probabilities of one label given strata and covariates.

    Attributes
    ----------
    values
        Probability of the label in every sample.
    basis
        Orthonormal columns (samples, rank) that span strata and covariates, multiplied by the standard deviations of
        the labels.
    """

    values: Array
    basis: Array

    @classmethod
    def from_labels(cls, labels: Array, nuisance: Nuisance) -> "LabelProbabilities":
        """Fit a logistic regression on strata, without penalty, and on covariates, with `RIDGE`."""
        columns = nuisance.columns
        penalty = np.where(np.arange(columns.shape[1]) < nuisance.n_strata, 1e-6, RIDGE)
        coefficients = np.zeros(columns.shape[1])
        for _ in range(NEWTON_STEPS):
            p = expit(columns @ coefficients)
            gradient = columns.T @ (labels - p) - penalty * coefficients
            hessian = (columns.T * (p * (1 - p))) @ columns + np.diag(penalty)
            step = np.linalg.solve(hessian, gradient)
            decrement = np.sqrt(gradient @ step)
            coefficients += step / (1.0 + decrement if decrement > 0.25 else 1.0)
            if decrement < 1e-9:
                break
        p = np.clip(expit(columns @ coefficients), MIN_PROBABILITY, 1.0 - MIN_PROBABILITY)
        return cls(p, np.linalg.qr(columns * np.sqrt(p * (1 - p))[:, None])[0])

    def log_tail(self, a: Array, labels: Array) -> Array:
        """Return the log p-value, for both sides, of the sum of every row of a over the labelled samples.

        The rows are first made orthogonal to strata and covariates, weighted by the variances of the labels: errors of
        the estimated probabilities then cancel to first order (the score test). The tail is the saddlepoint
        approximation for independent labels (Dey et al. 2017). It has no correction for a lattice: what is projected
        out differs from sample to sample, even if the feature has few levels.
        """
        p = self.values
        deviations = np.sqrt(p * (1 - p))
        a = a - ((a * deviations) @ self.basis) @ self.basis.T / deviations
        spread = np.sqrt(np.square(a).mean(axis=1))
        a = a / np.where(spread > 0, spread, 1.0)[:, None]
        observed = a @ (labels - p)
        a, observed = np.where(observed < 0, -1, 1)[:, None] * a, np.abs(observed)
        mean, largest = a @ p, np.where(a > 0, a * (1 - p), -a * p).sum(axis=1)
        log_p_of_largest = np.where(a > EQUAL, np.log(p), np.where(a < -EQUAL, np.log1p(-p), 0.0)).sum(axis=1)
        inner = np.minimum(observed, largest * (1.0 - 1e-4))
        logits = np.log(p / (1 - p))
        t = inner / np.square(a * deviations).sum(axis=1)
        for _ in range(NEWTON_STEPS):
            tilted = expit(logits + t[:, None] * a)
            second = (tilted * (1 - tilted) * a**2).sum(axis=1) + 1e-300
            step = (inner + mean - (tilted * a).sum(axis=1)) / second
            decrement = np.abs(step) * np.sqrt(second)
            t = t + np.where(decrement > 0.25, 1.0 / (1.0 + decrement), 1.0) * step
            if decrement.max(initial=0.0) < 1e-6:
                break
        K = (np.logaddexp(0.0, logits + t[:, None] * a) - np.logaddexp(0.0, logits)).sum(axis=1)
        w = np.sqrt(np.maximum(2.0 * (t * (inner + mean) - K), 1e-12))
        one_sided = log_tail_at_saddlepoint(w, t, second)
        one_sided = np.where(observed > largest - EQUAL, log_p_of_largest, np.maximum(one_sided, log_p_of_largest))
        return np.asarray(np.minimum(one_sided + np.log(2.0), 0.0))
