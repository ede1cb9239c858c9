"""BaHSIC and FoHSIC: backward and forward selection by the Hilbert-Schmidt independence criterion."""

from typing import Any, ClassVar

import numpy as np

from randsel._numerics.kernels import squared_distances, u_centre
from randsel._sklearn.base import Task
from randsel._utils.typing import Array
from randsel.baselines._base import (
    COMMON,
    FRACTION,
    GAMMA,
    Baseline,
    Ranked,
    checked_bandwidth,
    count_rounds,
    eliminate,
    fraction_of,
    kernel_sums,
)
from randsel.targets import OutcomeKind, Target

#: Largest fraction of the missing features that a round of forward selection adds.
MAX_ADDED = 0.25


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
    target : {"auto", "classification", "regression"}, default="auto"
        Kind of y. "auto" treats text, and integers with at most 20 distinct values, as classes.
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

    def _rank(self, Z: Array, y: Array, kind: OutcomeKind, n_to_select: int, task: Task) -> Ranked:
        weights = _hsic_weights(y, kind)

        def worth(remaining: Array) -> Array:
            distances = squared_distances(Z[:, remaining])
            return -kernel_sums(Z[:, remaining], distances, -1.0, checked_bandwidth(self.gamma, distances), weights)

        order, values = eliminate(Z.shape[1], self.drop, task.wrap("round", worth))
        return Ranked(order, n_to_select, {"hsic_": -values})

    def _count_tasks(self, n_columns: int, n_to_select: int) -> int:  # noqa: ARG002
        return count_rounds(n_columns, self.drop)


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
        return Ranked(selected, n_to_select, {"hsic_": values})

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
