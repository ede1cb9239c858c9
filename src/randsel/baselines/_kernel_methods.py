"""BaHSIC, FoHSIC and KernelRFE: rounds that add or remove features, scored by a kernel on all features of the round."""

from itertools import combinations
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.svm import SVC, SVR

from randsel._numerics.kernels import UNDERFLOW, bandwidth, squared_distances, u_centre
from randsel._sklearn.base import Interval, StrOptions, Task
from randsel._utils.typing import Array
from randsel.baselines._base import COMMON, FRACTION, Baseline, Ranked, eliminate, fraction_of
from randsel.targets import OutcomeKind, Target

#: Constraint of a bandwidth.
GAMMA = [Interval(Real, 0, None, closed="neither"), str]
#: Elements per scratch array, few enough to stay in cache.
SCRATCH = 1 << 16
#: Largest fraction of the missing features that a round of forward selection adds.
MAX_ADDED = 0.25


def checked_bandwidth(gamma: float | str, distances: Array) -> float:
    """Return the bandwidth; raise ValueError if it makes every entry of the kernel underflow."""
    value = bandwidth(gamma, distances)
    closest = float(distances[np.triu_indices(len(distances), 1)].min())
    if value * closest > 745.0:  # exp(-746) is zero in double precision
        raise ValueError(UNDERFLOW.format(value))
    return value


def kernel_sums(X: Array, distances: Array, sign: float, gamma: float, weights: Array) -> Array:
    """Return `Σ_{p≠q} w_pq exp(-γ (D_pq + sign d_j,pq))` for every column j of X, with `d_j,pq = (x_pj - x_qj)²`.

    D holds squared `distances`. They add up over features, so a sign of -1 removes column j from the kernel and +1 adds
    it, and no column needs a Gram matrix of its own.
    """
    p, q = np.triu_indices(len(X), 1)
    base, w = distances[p, q], 2.0 * weights[p, q]  # every pair counts twice
    columns = np.ascontiguousarray(X.T)
    sums = np.empty(len(columns))
    step = max(1, SCRATCH // max(1, len(p)))
    for start in range(0, len(columns), step):
        block = columns[start : start + step]
        d = block.take(p, axis=1)
        d -= block.take(q, axis=1)
        np.square(d, out=d)
        d *= sign
        d += base
        np.maximum(d, 0.0, out=d)
        d *= -gamma
        np.exp(d, out=d)
        sums[start : start + step] = d @ w
    return sums


def _hsic_weights(y: Array, kind: OutcomeKind) -> Array:
    """Return `U(L) / (m(m-3))`, whose inner product with a kernel is its unbiased HSIC with the target.

    L is the target kernel of Song et al.: ±1/n± for two classes, one-hot columns over n_c for more, standardised
    numbers.
    """
    if not kind.has_classes:
        Y = Target.encode(y, kind).Y
    else:
        classes, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
        Y = np.eye(len(classes))[codes] / counts
        Y = Y[:, 1:] - Y[:, :1] if len(classes) == 2 else Y
    m = len(Y)
    return np.asarray(u_centre(Y @ Y.T) / (m * (m - 3)))


class BaHSIC(Baseline):
    """Backward elimination by the unbiased HSIC of a Gaussian kernel with the target (Song et al. 2012).

    Parameters
    ----------
    n_features_to_select : int, float in (0, 1] or None, default=None
        Number or fraction of the features to select. None: half of them.
    drop : float in (0, 1) or None, default=0.1
        Fraction of the remaining features to remove per round, at least one: those whose removal leaves the highest
        HSIC. None removes one at a time.
    gamma : float or str, default="median"
        Bandwidth, `exp(-gamma ‖x - x'‖²)`: "median" is one over the median squared distance over the features left,
        in each round; "0.5*median" a multiple of it; a number is used as it is.
    target : {"auto", "classification", "regression", "survival"}, default="auto"
        Kind of y. "auto" treats text, and whole numbers of at most 4 distinct values, as classes, events and times as
        survival, and anything else as numbers. It warns about whole numbers that could be codes of 5 to 20 classes.
        Survival becomes martingale residuals of a model without features.
    scale : bool, default=True
        Scale all columns to standard deviation one.

    Attributes
    ----------
    support_, ranking_, order_, n_features_
        As in `RandSel`: rank 1 is selected, 2 was removed last; constant columns share the last rank.
    hsic_ : ndarray of float
        HSIC of the other remaining features in the round that removed the feature; 0 for the last feature.

    Examples
    --------
    >>> from randsel import BaHSIC, datasets
    >>> X, y, relevant = datasets.make_xor(200, 20, random_state=0)
    >>> BaHSIC(2).fit(X, y).get_support(indices=True)
    array([0, 1])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {**COMMON, "drop": FRACTION, "gamma": GAMMA}

    def __init__(
        self,
        n_features_to_select: int | float | None = None,
        *,
        drop: float | None = 0.1,
        gamma: float | str = "median",
        target: str = "auto",
        scale: bool = True,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.drop = drop
        self.gamma = gamma
        self.target = target
        self.scale = scale

    def _rank(self, Z: Array, y: Array, kind: OutcomeKind, n_to_select: int, task: Task) -> Ranked:  # noqa: ARG002
        weights = _hsic_weights(y, kind)

        def worth(remaining: Array) -> Array:
            distances = squared_distances(Z[:, remaining])
            return -kernel_sums(Z[:, remaining], distances, -1.0, checked_bandwidth(self.gamma, distances), weights)

        order, values = eliminate(Z.shape[1], self.drop, task.wrap("round", worth))
        return order, {"hsic_": -values}


class FoHSIC(Baseline):
    """Forward selection by the unbiased HSIC of a Gaussian kernel with the target (Song et al. 2012).

    Stops when enough features are selected; the others are ranked by their HSIC together with the selected ones.

    Parameters
    ----------
    n_features_to_select, target, scale
        As in `BaHSIC`.
    add : float in (0, 1) or None, default=0.1
        Fraction of the candidates to add per round, at least one, and at most a quarter of the features that are still
        missing: a round that added all of them would rank each for its own HSIC. None adds one at a time.
    gamma : float or str, default="median"
        As in `BaHSIC`. In each round, the median is that of the squared distances over the selected features plus
        their mean over the candidates, so that all candidates have the same bandwidth.

    Attributes
    ----------
    support_, ranking_, order_, n_features_
        As in `RandSel`; constant columns share the last rank.
    hsic_ : ndarray of float
        HSIC of the feature together with those selected in earlier rounds, in the round that added it; for features
        that were not selected, together with all selected ones.

    Examples
    --------
    >>> from randsel import FoHSIC, datasets
    >>> X, y, relevant = datasets.make_weston_linear(200, 20, random_state=0)
    >>> FoHSIC(5).fit(X, y).get_support(indices=True)
    array([0, 1, 2, 3, 4])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {**COMMON, "add": FRACTION, "gamma": GAMMA}

    def __init__(
        self,
        n_features_to_select: int | float | None = None,
        *,
        add: float | None = 0.1,
        gamma: float | str = "median",
        target: str = "auto",
        scale: bool = True,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.add = add
        self.gamma = gamma
        self.target = target
        self.scale = scale

    def _rank(self, Z: Array, y: Array, kind: OutcomeKind, n_to_select: int, task: Task) -> Ranked:
        weights, total_distances = _hsic_weights(y, kind), squared_distances(Z)
        selected, candidates, values = np.arange(0), np.arange(Z.shape[1]), np.zeros(Z.shape[1])
        while len(candidates):
            with task.subtask("round"):
                distances = squared_distances(Z[:, selected])
                with_mean_candidate = distances + np.maximum(total_distances - distances, 0.0) / len(candidates)
                gamma = checked_bandwidth(self.gamma, with_mean_candidate)
                values[candidates] = kernel_sums(Z[:, candidates], distances, 1.0, gamma, weights)
            best_first = np.argsort(-values[candidates], kind="stable")
            count = _number_to_add(len(selected), len(candidates), n_to_select, self.add)
            selected = np.concatenate([selected, candidates[best_first[:count]]])
            candidates = np.delete(candidates, best_first[:count])
        return selected, {"hsic_": values}

    def _count_tasks(self, n_columns: int, n_to_select: int) -> int:
        n_selected = rounds = 0
        while n_selected < n_columns:
            n_selected += _number_to_add(n_selected, n_columns - n_selected, n_to_select, self.add)
            rounds += 1
        return rounds


def _number_to_add(n_selected: int, n_candidates: int, n_to_select: int, add: float | None) -> int:
    """Return how many columns a round of forward selection adds: all candidates once enough are selected."""
    missing = n_to_select - n_selected
    return min(fraction_of(add, n_candidates), fraction_of(MAX_ADDED, missing)) if missing > 0 else n_candidates


class KernelRFE(Baseline):
    """Recursive elimination with a support vector machine (Guyon et al. 2002), Gaussian or linear.

    A feature's worth is `W² - W²₍₋ⱼ₎`: the decrease of `W² = Σ α_p α_q K(x_p, x_q)` when the feature is removed from
    the kernel and the signed α are kept. For a linear kernel, that is the square of its weight. With more than two
    classes, W² is the sum over the one-vs-one machines of `SVC`; with several outputs, over one `SVR` per output.

    Parameters
    ----------
    n_features_to_select, target, scale
        As in `BaHSIC`.
    C : float, default=1.0
        Penalty of the machines.
    kernel : {"gaussian", "linear"}, default="gaussian"
        Kernel of the machines.
    drop : float in (0, 1) or None, default=0.1
        Fraction of the remaining features to remove per round, at least one. None removes one at a time.
    gamma : float or str, default="median"
        As in `BaHSIC`; the linear kernel has none.
    absolute : bool, default=False
        Rank by `|W² - W²₍₋ⱼ₎|`, as some later work does, instead of the signed difference of Guyon et al. In a Gaussian
        kernel the difference of a noise feature may be far below zero, and its absolute value large.

    Attributes
    ----------
    support_, ranking_, order_, n_features_
        As in `RandSel`: rank 1 is selected, 2 was removed last; constant columns share the last rank.
    changes_ : ndarray of float
        Worth of the feature in the round that removed it.

    Examples
    --------
    >>> from randsel import KernelRFE, datasets
    >>> X, y, relevant = datasets.make_xor(200, 10, random_state=0)
    >>> KernelRFE(2).fit(X, y).get_support(indices=True)
    array([0, 1])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON,
        "C": [Interval(Real, 0, None, closed="neither")],
        "kernel": [StrOptions({"gaussian", "linear"})],
        "drop": FRACTION,
        "gamma": GAMMA,
        "absolute": ["boolean"],
    }

    def __init__(
        self,
        n_features_to_select: int | float | None = None,
        *,
        C: float = 1.0,
        kernel: str = "gaussian",
        drop: float | None = 0.1,
        gamma: float | str = "median",
        absolute: bool = False,
        target: str = "auto",
        scale: bool = True,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.C = C
        self.kernel = kernel
        self.drop = drop
        self.gamma = gamma
        self.absolute = absolute
        self.target = target
        self.scale = scale

    def _rank(self, Z: Array, y: Array, kind: OutcomeKind, n_to_select: int, task: Task) -> Ranked:  # noqa: ARG002
        changes = self._gaussian_changes if self.kernel == "gaussian" else self._linear_changes
        worth = task.wrap("round", lambda remaining: changes(Z[:, remaining], y, kind))
        order, values = eliminate(Z.shape[1], self.drop, worth)
        return order, {"changes_": values}

    def _linear_changes(self, X: Array, y: Array, kind: OutcomeKind) -> Array:
        weights = _dual_coefficients(X @ X.T, y, kind, self.C) @ X
        return np.asarray((weights * weights).sum(axis=0))

    def _gaussian_changes(self, X: Array, y: Array, kind: OutcomeKind) -> Array:
        distances = squared_distances(X)
        gamma = checked_bandwidth(self.gamma, distances)
        kernel = np.exp(-gamma * distances)
        dual = _dual_coefficients(kernel, y, kind, self.C)
        support = np.flatnonzero(dual.any(axis=0))
        support_pairs = np.ix_(support, support)
        weights = dual[:, support].T @ dual[:, support]
        np.fill_diagonal(weights, 0.0)  # the diagonal of a Gaussian kernel does not change
        without = kernel_sums(X[support], distances[support_pairs], -1.0, gamma, weights)
        changes: Array = np.vdot(weights, kernel[support_pairs]) - without
        return np.abs(changes) if self.absolute else changes


def _dual_coefficients(kernel: Array, y: Array, kind: OutcomeKind, C: float) -> Array:
    """Return the signed dual coefficients of all samples, one row per machine."""
    if not kind.has_classes:
        Y = Target.encode(y, kind).Y
        dual = np.zeros((Y.shape[1], len(Y)))
        for row, column in zip(dual, Y.T, strict=True):
            regressor = SVR(kernel="precomputed", C=C).fit(kernel, column)
            row[regressor.support_] = regressor.dual_coef_[0]
        return dual
    classes, codes = np.unique(y, return_inverse=True)
    classifier = SVC(kernel="precomputed", C=C).fit(kernel, codes)
    dual = np.zeros((len(classes) - 1, len(codes)))
    dual[:, classifier.support_] = classifier.dual_coef_
    # libsvm stores the machine of classes a < b in row b-1 for the samples of a, and in row a for those of b.
    pairs = combinations(range(len(classes)), 2)
    return np.array([np.where(codes == a, dual[b - 1], np.where(codes == b, dual[a], 0.0)) for a, b in pairs])
