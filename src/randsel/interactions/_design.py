"""The design of the tests: the outcome in the forms that features are tested against, strata, clusters and weights."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import gammaln

from randsel._numerics.arrays import as_array_like, clip, namespace, to_numpy
from randsel._numerics.nuisance import Nuisance
from randsel._numerics.rank_functions import column_scores
from randsel._utils.typing import Array
from randsel.targets import OutcomeKind

#: Memory of the products in one batch of tests, in bytes: on the host and on a device.
BATCH_BYTES, DEVICE_BATCH_BYTES = 1 << 25, 1 << 29
#: Maximum size of matrices whose eigenvalues a device computes. Larger ones go to the host: torch would loop over them.
MAX_BATCHED_EIGENVALUES = 32
#: Default number of functions per feature (fewer for few samples), and weight of each relative to the previous one.
DEFAULT_FUNCTIONS, DEFAULT_DECAY = 6, 0.9
#: Number of smooth functions per feature. Every set is also tested with these only, because most effects are smooth.
SMOOTH = 2
#: Numbers are tested as scores of their ranks only, unless a column correlates with its scores by less than this.
MIN_CORRELATION = 0.975
#: Matrices whose eigenvalues are computed in one call: cuSOLVER fails on 67 000 at once.
MAX_BATCH = 1 << 14
#: Outcomes of a larger excess kurtosis have extreme values.
MAX_KURTOSIS = 1.0
#: Maximum number of arrangements of classes that are enumerated.
MAX_ARRANGEMENTS = 20_000
#: Samples per column of strata and covariates from which a regression on them estimates the probability of a label.
#: With fewer samples, its coefficients are biased away from zero, and p-values become too small.
SAMPLES_PER_COEFFICIENT = 10


@dataclass(frozen=True)
class Response:
    """The outcome, or its residual, in one form."""

    Y: Array  # columns that features are tested against: weighted mean zero in every stratum, mean square one
    #: Indicators of classes, each tested against all others. None for numbers and residuals, whose columns are tested.
    labels: Array | None = None


@dataclass(frozen=True)
class Design:
    """The outcome, and how features are tested against it."""

    function_weights: Array  # `ω_a`, weight of the a-th function of a feature
    responses: tuple[Response, ...]  # forms of the outcome; p-values of all forms are combined
    nuisance: Nuisance  # strata, within which the outcome is exchangeable under the null hypothesis, and covariates
    clusters: Array | None = None  # of each sample; samples of one cluster are not independent
    n_jobs: int | None = None
    device: str | None = None  # of rank functions, scan and tests, as in `to_device`; None for the host
    #: Whether the variances of residuals without extreme values are taken to depend on nuisance variables only.
    trusts_variances: bool = False

    @property
    def sample_weights(self) -> Array:
        """Weights of the samples, of mean one."""
        return self.nuisance.weights

    @cached_property
    def with_weighted_outcome(self) -> "Design | None":
        """The design for a sum `Σ (w e) φ` in place of `Σ e (w φ)`, or None if all weights w are equal.

        Permutations of e keep the weights with the features. If weights depend on the outcome, such as those that
        balance classes, they must be permuted with it.
        """
        nuisance = self.nuisance
        if np.all(nuisance.weights == nuisance.weights[0]):
            return None
        even = Nuisance(np.ones_like(nuisance.weights), nuisance.strata, nuisance.basis[:0])
        return replace(self, nuisance=even.extend(nuisance.basis))

    def move_weights(self, products: Any) -> Any:
        """Return weighted products as the design `with_weighted_outcome` has them: without weights, centred anew."""
        even = self.nuisance if self.with_weighted_outcome is None else self.with_weighted_outcome.nuisance
        return even.remove(products / as_array_like(self.sample_weights, products, precise=False))

    @property
    def strata(self) -> Array | None:
        """Stratum of every sample, None for one stratum."""
        return self.nuisance.strata

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.sample_weights)

    def n_functions(self, size: int) -> int:
        """Return the number of functions per feature in tests of sets of this size."""
        available = len(self.function_weights)
        return available if size < 3 else functions_in_triples(self.freedom, available)

    def batch(self, size: int) -> int:
        """Return the number of sets of this size per batch."""
        batch_bytes = BATCH_BYTES if self.device is None else DEVICE_BATCH_BYTES
        return int(max(1, batch_bytes // (8 * self.n_samples * self.n_functions(size) ** size)))

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the outcome without nuisance variables; at most those of the clusters."""
        return degrees_of_freedom(self.nuisance, self.clusters)

    @cached_property
    def min_log_p(self) -> float:
        """Smallest possible log p.

        It is minus the log of the number of different outcomes that permutations within strata, or sign changes of
        clusters, can make.
        """
        if self.clusters is not None:
            return float(-np.log(2.0) * self.clusters.max())
        strata = np.zeros(self.n_samples, dtype=int) if self.strata is None else self.strata
        values = np.unique(self.responses[0].Y.round(9), axis=0, return_inverse=True)[1].ravel()
        _, sizes = np.unique(strata, return_counts=True)
        _, ties = np.unique(np.stack([strata, values]), axis=1, return_counts=True)
        return float(gammaln(ties + 1.0).sum() - gammaln(sizes + 1.0).sum())

    @cached_property
    def labels_have_saddlepoint(self) -> bool:
        """Whether saddlepoint tails of labels apply.

        They assume samples of equal weight that are not in clusters and, with covariates, enough samples for a
        regression on strata and covariates.
        """
        nuisance = self.nuisance
        has_enough = len(nuisance.basis) == 0 or self.n_samples >= SAMPLES_PER_COEFFICIENT * (nuisance.rank - 1)
        return bool(self.clusters is None and np.all(self.sample_weights == 1.0) and has_enough)

    @cached_property
    def class_sizes(self) -> tuple[int, ...]:
        """Sizes of the classes if all their arrangements among the samples are enumerated; empty if not.

        They are enumerated if there are at most `MAX_ARRANGEMENTS` of them and samples are exchangeable: of equal
        weight, without strata, clusters and covariates.
        """
        labels = self.responses[0].labels
        if labels is None or not (self.labels_have_saddlepoint and self.nuisance.only_centres):
            return ()
        if -self.min_log_p > np.log(MAX_ARRANGEMENTS) + 1e-9:
            return ()
        counts = labels.sum(axis=0).astype(int)
        return tuple(map(int, [self.n_samples - counts[0], *counts] if len(counts) == 1 else counts))

    @property
    def variance_factor(self) -> float:
        """Variance of an outcome divided by that of its residual from the covariates."""
        return self.n_samples / (self.n_samples - len(self.nuisance.basis))

    def spectrum(self, Y: Array) -> Array:
        """Return the eigenvalues of the weighted covariance of the columns of an outcome."""
        weights = self.sample_weights
        return np.asarray(eigenvalues((Y * weights[:, None]).T @ Y / weights.sum()))

    def variances(self, Y: Array) -> Array:
        """Return the variance of every sample under the null hypothesis, as a mean over the columns of Y.

        It is the same for all samples of a stratum. With covariates, on which the variance of residuals may depend, it
        is a regression of their squares on the covariates.
        """
        squares = np.square(Y).mean(axis=1)
        if len(self.nuisance.basis):
            fit = self.nuisance.fit_variances(squares)
            return np.asarray(fit * (squares.sum() / fit.sum()) * (len(Y) / (len(Y) - self.nuisance.rank)))
        if self.strata is None:
            return np.full(len(Y), squares.sum() / (len(Y) - 1))
        sizes = np.bincount(self.strata)
        return np.asarray((np.bincount(self.strata, weights=squares) / np.maximum(sizes - 1, 1))[self.strata])


def responses_of(y: Array, kind: OutcomeKind, nuisance: Nuisance) -> tuple[Response, ...]:
    """Return the forms in which an outcome is tested; none if it does not vary beyond nuisance variables.

    Classes are tested as contrasts. Numbers are tested as scores of their ranks, and as they are if that differs much:
    a few extreme numbers hide an effect on the others, and ranks hide an effect on the extremes.
    """
    Y = kind.contrasts(y, nuisance)
    if not Y.shape[1]:
        return ()
    if kind.has_classes:
        labels = y[:, None] == np.unique(y)
        return (Response(Y, labels[:, 1:] if labels.shape[1] == 2 else labels),)
    scores = kind.contrasts(column_scores(Y), nuisance)
    if scores.shape == Y.shape:
        correlations = nuisance.weights @ (scores * Y) / nuisance.weights.sum()
        return (Response(scores),) if correlations.min() > MIN_CORRELATION else (Response(scores), Response(Y))
    return (Response(Y),)


def degrees_of_freedom(nuisance: Nuisance, clusters: Array | None = None) -> int:
    """Return the degrees of freedom of an outcome without nuisance variables."""
    freedom = len(nuisance.weights) - nuisance.rank
    return freedom if clusters is None else min(freedom, int(clusters.max()))


def max_functions(freedom: int) -> int:
    """Return the largest number of functions that leaves four degrees of freedom per product in a test of pairs."""
    return max(int(np.sqrt(freedom / 4)), 1)


def default_functions(freedom: int) -> int:
    """Return the default number of functions per feature."""
    return min(DEFAULT_FUNCTIONS, max_functions(freedom))


def functions_in_triples(freedom: int, n_functions: int) -> int:
    """Return the number of functions in tests of triples, by the same rule as `max_functions`; at most three."""
    return int(np.clip((freedom / 4) ** (1 / 3), 1, min(n_functions, 3)))


def has_extremes(e: Array) -> bool:
    """Whether an outcome has extreme values: a larger excess kurtosis than `MAX_KURTOSIS`."""
    return bool((e**4).mean() > (3.0 + MAX_KURTOSIS) * (e**2).mean() ** 2)


def eigenvalues(matrices: Any) -> Any:
    """Return the eigenvalues of positive semi-definite matrices, without rounding errors below zero."""
    if matrices.shape[-1] > MAX_BATCHED_EIGENVALUES:
        matrices = to_numpy(matrices)
    xp = namespace(matrices)
    if matrices.shape[-1] == 2:  # closed form: the overhead of a LAPACK call exceeds the computation
        mean = (matrices[..., 0, 0] + matrices[..., 1, 1]) / 2.0
        radius = xp.hypot((matrices[..., 0, 0] - matrices[..., 1, 1]) / 2.0, matrices[..., 0, 1])
        return clip(xp.stack([mean - radius, mean + radius], axis=-1), 0.0)
    batches = [matrices[i : i + MAX_BATCH] for i in range(0, max(matrices.shape[0], 1), MAX_BATCH)]
    return clip(xp.concat([xp.linalg.eigvalsh(batch) for batch in batches]), 0.0)


def residual_of_columns(F: Array, design: Design, Y: Array) -> Array:
    """Return the residuals of the columns of Y from a ridge regression on the rows of F.

    They have mean square one; columns that are fitted completely become zero.
    """
    root = np.sqrt(design.sample_weights)
    freedom = degrees_of_freedom(design.nuisance)
    remainder = Y - _ridge_fit(F * root, Y * root[:, None], freedom) / root[:, None]
    remainder = design.nuisance.remove(remainder.T).T
    spread = np.sqrt(design.sample_weights @ (remainder * remainder) / design.sample_weights.sum())
    # even the smallest penalty leaves a little of a column that is fitted completely
    return np.asarray(remainder / np.where(spread > 1e-3, spread, np.inf))


def _ridge_fit(F: Array, Z: Array, freedom: int) -> Array:
    """Return the ridge regression of Z on the rows of F; the penalty minimises generalised cross-validation."""
    m = len(Z)
    # eigenvectors of FᵀF, by way of the smaller of the two Gram matrices
    if len(F) > m:
        values, U = np.linalg.eigh(F.T @ F)
    else:
        values, V = np.linalg.eigh(F @ F.T)
        U = F.T @ (V / np.sqrt(np.maximum(values, 1e-300)))
    nonzero = values > 1e-9 * values[-1]
    values, U = values[nonzero], U[:, nonzero]
    projections = U.T @ Z
    squares, total = np.square(projections).sum(axis=1), np.square(Z).sum()
    best_error, best_shrinkage = np.inf, np.zeros(len(values))
    for penalty in m * np.logspace(-4, 3, 29):
        shrinkage = values / (values + penalty)
        used = shrinkage.sum()  # degrees of freedom of the fit
        error = (total - ((2.0 * shrinkage - shrinkage * shrinkage) * squares).sum()) / (1.0 - used / freedom) ** 2
        if used < freedom and error < best_error:
            best_error, best_shrinkage = error, shrinkage
    return np.asarray(U @ (best_shrinkage[:, None] * projections))
