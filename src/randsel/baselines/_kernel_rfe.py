"""KernelRFE: recursive feature elimination with support vector machines."""

from itertools import combinations
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.svm import SVC, SVR

from randsel._numerics.kernels import squared_distances
from randsel._sklearn.base import Interval, StrOptions, Task
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
    kernel_sums,
)
from randsel.targets import OutcomeKind, Target


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

    def _rank(self, Z: Array, y: Array, kind: OutcomeKind, n_to_select: int, task: Task) -> Ranked:
        worth = self._gaussian if self.kernel == "gaussian" else self._linear
        worth_of = task.wrap("round", lambda remaining: worth(Z[:, remaining], y, kind))
        order, values = eliminate(Z.shape[1], self.drop, worth_of)
        return Ranked(order, n_to_select, {"changes_": values})

    def _count_tasks(self, n_columns: int, n_to_select: int) -> int:  # noqa: ARG002
        return count_rounds(n_columns, self.drop)

    def _linear(self, X: Array, y: Array, kind: OutcomeKind) -> Array:
        weights = _dual_coefficients(X @ X.T, y, kind, self.C) @ X
        return np.asarray((weights * weights).sum(axis=0))

    def _gaussian(self, X: Array, y: Array, kind: OutcomeKind) -> Array:
        distances = squared_distances(X)
        gamma = checked_bandwidth(self.gamma, distances)
        kernel = np.exp(-gamma * distances)
        dual = _dual_coefficients(kernel, y, kind, self.C)
        vectors = np.flatnonzero(dual.any(axis=0))
        vector_pairs = np.ix_(vectors, vectors)
        weights = dual[:, vectors].T @ dual[:, vectors]
        np.fill_diagonal(weights, 0.0)  # the diagonal of a Gaussian kernel does not change
        without = kernel_sums(X[vectors], distances[vector_pairs], -1.0, gamma, weights)
        changes: Array = np.vdot(weights, kernel[vector_pairs]) - without
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
