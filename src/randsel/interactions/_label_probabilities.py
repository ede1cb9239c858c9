"""Null distribution of a sum over labelled samples, if the probability of a label depends on covariates.

Permutations give every sample the same probability of a label. With covariates this is wrong: if young people are
rarely cases, three young cases are a stronger coincidence than three old ones. Here, a logistic regression on strata
and covariates gives each sample its probability, and labels are independent under the null hypothesis (eq. 19c).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from randsel._numerics.arrays import as_array_like, namespace, to_numpy
from randsel._numerics.nuisance import Nuisance
from randsel._utils.typing import Array
from randsel.interactions._permutation_tails import (
    BELOW_LARGEST,
    EQUAL,
    NEWTON_STEPS,
    log_tail_at_saddlepoint,
    logistic,
    newton_damping,
    scale_rows,
    two_sided_log_p,
)

#: Ridge penalty on the coefficients of covariates, which keeps them finite where covariates separate the classes.
RIDGE = 1.0
#: Probabilities are at least this, and at most one minus this, also where all samples of a stratum have the label.
MIN_PROBABILITY = 1e-9


@dataclass(frozen=True)
class LabelProbabilities:
    """Probabilities of one label given strata and covariates."""

    values: Array  # probability of the label in every sample
    #: Orthonormal columns (samples, rank) that span strata and covariates, after every sample is multiplied by the
    #: standard deviation of its label.
    basis: Array

    @classmethod
    def from_labels(cls, labels: Array, nuisance: Nuisance) -> "LabelProbabilities":
        """Fit a logistic regression on strata (negligible penalty) and covariates (penalty `RIDGE`)."""
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

    def log_tail(self, a: Any, labels: Array) -> Array:
        """Return the two-sided log p-value of the sum of every row of a over the labelled samples.

        The rows are first made orthogonal to strata and covariates, with the variances of the labels as weights. Errors
        of the estimated probabilities then cancel to first order, as in a score test. The tail is the saddlepoint
        approximation for independent labels (Dey et al. 2017). It has no lattice correction, because after the
        projection sums do not lie on a lattice, even if the feature has few levels.
        """
        xp, basis, p = namespace(a), as_array_like(self.basis, a), as_array_like(self.values, a)
        deviations = xp.sqrt(p * (1 - p))
        a = scale_rows(a - ((a * deviations) @ basis) @ basis.T / deviations)
        observed = a @ as_array_like(labels - self.values, a)
        a, observed = xp.where((observed < 0)[:, None], -a, a), abs(observed)
        # the sum is largest if exactly the samples of positive a are labelled
        mean, largest = a @ p, xp.where(a > 0, a * (1 - p), -a * p).sum(axis=1)
        log_p, log_not_p = (as_array_like(values, a) for values in (np.log(self.values), np.log1p(-self.values)))
        log_factors = xp.where(a > EQUAL, log_p, xp.where(a < -EQUAL, log_not_p, xp.zeros_like(a)))
        log_p_of_largest = to_numpy(log_factors.sum(axis=1))
        interior = xp.minimum(observed, largest * BELOW_LARGEST)
        logits = as_array_like(np.log(self.values / (1 - self.values)), a)
        t, a_squares = interior / xp.square(a * deviations).sum(axis=1), a * a
        for _ in range(NEWTON_STEPS):
            tilted = logistic(logits + t[:, None] * a)
            curvature = (tilted * (1 - tilted) * a_squares).sum(axis=1) + 1e-300
            step = (interior + mean - (tilted * a).sum(axis=1)) / curvature
            decrement = abs(step) * xp.sqrt(curvature)
            t = t + newton_damping(decrement) * step
            if bool((decrement < 1e-6).all()):
                break
        tilted_logits, zero = logits + t[:, None] * a, xp.zeros_like(logits)
        K = (xp.logaddexp(zero, tilted_logits) - xp.logaddexp(zero, logits)).sum(axis=1)
        log_tail = log_tail_at_saddlepoint(*map(to_numpy, (t * (interior + mean) - K, t, curvature)))
        return two_sided_log_p(log_tail, log_p_of_largest, to_numpy(observed > largest - EQUAL))
