"""Methods that randSel is compared with, as selectors of the same contract; `stability.py` holds the fifth.

A comparison must not share the errors of what it compares: nothing here uses the contribution, its closed form or the
culling of this package, only the checks of data, distances, centring and the bookkeeping of ranks.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.svm import SVC, SVR

from randsel._numerics.columns import canonical_order, standardise
from randsel._numerics.kernels import UNDERFLOW, bandwidth, squared_distances, u_centre
from randsel._sklearn.base import Selector, Task, fit_task, ranking
from randsel._sklearn.validation import (
    Interval,
    RealNotInt,
    StrOptions,
    check_data,
    check_number_to_select,
    fit_context,
)
from randsel._utils.typing import Array
from randsel.targets._kinds import KINDS, OutcomeKind
from randsel.targets._target import Target

__all__ = ["BaHSIC", "CorrelationFilter", "FoHSIC", "KernelRFE"]

#: Elements per scratch array: what stays in cache.
SCRATCH = 1 << 16

#: Constraints of the parameters that all of them have.
_COUNT: dict[str, list[Any]] = {
    "n_features_to_select": [
        Interval(Integral, 1, None, closed="left"),
        Interval(RealNotInt, 0, 1, closed="right"),
        None,
    ],
    "target": [StrOptions({"auto", *KINDS})],
}
COMMON = {**_COUNT, "scale": ["boolean"]}
_GAMMA = [Interval(Real, 0, None, closed="neither"), str]
_FRACTION = [Interval(Real, 0, 1, closed="neither"), None]


@dataclass(frozen=True)
class Ranked:
    """Columns best first, how many of them to select, and values per column by the name of their attribute."""

    order: Array
    wanted: int
    values: dict[str, Array]


class Baseline(Selector):
    """Validates, has the method rank the columns that vary, sets attributes."""

    n_features_to_select: int | float | None
    target: str
    _in_order = True

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> "Baseline":
        """Rank and select features.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Numbers, no missing values.
        y : array of shape (n_samples,) or (n_samples, n_outputs)
            Class labels, numbers, or several columns of numbers.

        Returns
        -------
        estimator
            This estimator, fitted.
        """
        X, y, kind, _ = check_data(self, X, y, None, self.target)
        share = 0.5 if self.n_features_to_select is None else self.n_features_to_select
        wanted = check_number_to_select(share, X.shape[1]) or 1
        Z, varies = standardise(X, None, getattr(self, "scale", True))
        order = canonical_order(Z)
        with fit_task(self, self._number_of_tasks(len(order), wanted), in_order=self._in_order) as task:
            ranked = self._rank(Z[:, order].astype(np.float64), y, kind, wanted, task)
            self._set_attributes(ranked, np.flatnonzero(varies)[order], X.shape[1])
        return self

    @abstractmethod
    def _rank(self, Z: Array, y: Array, kind: OutcomeKind, wanted: int, task: Task) -> Ranked:
        """Rank the columns of Z, which all vary; what takes long tells its progress to the task."""

    def _number_of_tasks(self, n: int, wanted: int) -> int:  # noqa: ARG002
        """Parts of the task."""
        return 0

    def _set_attributes(self, ranked: Ranked, columns: Array, n_features: int) -> None:
        for name, values in ranked.values.items():
            placed = np.zeros(n_features)
            placed[columns] = values
            setattr(self, name, placed)
        self.order_, self.ranking_ = ranking(columns[ranked.order], n_features, ranked.wanted)
        self.support_ = self.ranking_ == 1
        self.n_features_ = int(self.support_.sum())


# ---------------------------------------------------------------- kernels of all columns but one, or one more


def _bandwidth(gamma: float | str, distances: Array) -> float:
    """Return the bandwidth, unless it leaves nothing to compare."""
    value = bandwidth(gamma, distances)
    closest = float(distances[np.triu_indices(len(distances), 1)].min())
    if value * closest > 745.0:
        raise ValueError(UNDERFLOW.format(value))
    return value


def _kernel_sums(X: Array, distances: Array, sign: float, gamma: float, weights: Array) -> Array:
    """`Σ_{p≠q} w_pq exp(-γ (D_pq + sign d_j,pq))` for every column j of X, with `d_j = (x_pj - x_qj)²`.

    Squared distances add up over features, so no column needs a Gram matrix of its own.
    """
    p, q = np.triu_indices(len(X), 1)
    base, w = distances[p, q], 2.0 * weights[p, q]
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


def _share(share: float | None, n: int) -> int:
    """Columns of n to remove or add in a round: this share, at least one."""
    return max(1, int((share or 0.0) * n))


def _rounds(n: int, drop: float | None) -> int:
    """Count the rounds of `_eliminate`."""
    rounds = 0
    while n:
        n, rounds = n - _share(drop, n), rounds + 1
    return rounds


def _eliminate(n: int, drop: float | None, worth: Callable[[Array], Array]) -> tuple[Array, Array]:
    """Drop the columns of least worth among those left, round by round, to the last; best first, worth when dropped."""
    left, values = np.arange(n), np.zeros(n)
    dropped: list[Array] = []
    while len(left):
        values[left] = worth(left)
        worst = np.argsort(values[left], kind="stable")[: _share(drop, len(left))]
        dropped.append(left[worst])
        left = np.delete(left, worst)
    return np.concatenate(dropped)[::-1], values


# ---------------------------------------------------------------- HSIC


def _hsic_weights(y: Array, kind: OutcomeKind) -> Array:
    """`U(L) / (m(m-3))`, whose inner product with a kernel is its unbiased HSIC with the target.

    L as Song et al. have it: ±1/n± for two classes, one-hot columns over n_c for more; standardised numbers.
    """
    if not kind.has_classes:
        Y = Target.encode(y, kind).Y
    else:
        classes, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
        Y = np.eye(len(classes))[codes.ravel()] / counts
        Y = Y[:, 1:] - Y[:, :1] if len(classes) == 2 else Y
    m = len(Y)
    return np.asarray(u_centre(Y @ Y.T) / (m * (m - 3)))


class BaHSIC(Baseline):
    """Backward elimination by the unbiased HSIC of a Gaussian kernel with the target (Song et al. 2012).

    Parameters
    ----------
    n_features_to_select : int, float in (0, 1] or None, default=None
        How many features, which share of them; None is half.
    drop : float in (0, 1) or None, default=0.1
        Fraction of the features left to remove per round, at least one: those without which HSIC is highest. None
        removes one at a time.
    gamma : float or str, default="median"
        Bandwidth, `exp(-gamma ‖x - x'‖²)`: "median" is one over the median squared distance over the features left,
        in each round; "0.5*median" a multiple of it; a number is used as it is.
    target : {"auto", "classification", "regression"}, default="auto"
        Meaning of y. "auto" takes text, and whole numbers of at most 20 values, for classes.
    scale : bool, default=True
        Bring all columns to standard deviation one.

    Attributes
    ----------
    support_, ranking_, order_, n_features_
        As in `RandSel`: rank 1 is selected, 2 was removed last; constant columns share the last rank.
    hsic_ : ndarray of float
        HSIC of the other features left, in the round in which the feature was removed; 0 for the last, which leaves
        nothing.

    Examples
    --------
    >>> from randsel import datasets
    >>> from randsel.baselines._baselines import BaHSIC
    >>> X, y, relevant = datasets.make_xor(200, 20, random_state=0)
    >>> BaHSIC(2).fit(X, y).get_support(indices=True)
    array([0, 1])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {**COMMON, "drop": _FRACTION, "gamma": _GAMMA}

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

    def _rank(self, Z: Array, y: Array, kind: OutcomeKind, wanted: int, task: Task) -> Ranked:
        weights = _hsic_weights(y, kind)

        def worth(left: Array) -> Array:
            distances = squared_distances(Z[:, left])
            return -_kernel_sums(Z[:, left], distances, -1.0, _bandwidth(self.gamma, distances), weights)

        order, values = _eliminate(Z.shape[1], self.drop, task.every_call("round", worth))
        return Ranked(order, wanted, {"hsic_": -values})

    def _number_of_tasks(self, n: int, wanted: int) -> int:  # noqa: ARG002
        return _rounds(n, self.drop)


class FoHSIC(Baseline):
    """Forward selection by the unbiased HSIC of a Gaussian kernel with the target (Song et al. 2012).

    Stops when enough features are selected; the others are ranked by the HSIC each reaches beside the selected ones.

    Parameters
    ----------
    n_features_to_select, target, scale
        As in `BaHSIC`.
    add : float in (0, 1) or None, default=0.1
        Fraction of the features not yet selected to add per round, at least one and no more than are still wanted. If
        few of many are wanted, one round adds them all, each by itself; None adds one at a time.
    gamma : float or str, default="median"
        As in `BaHSIC`, with the median, in each round, of the squared distance over the selected features and one
        more, taken as the mean over the others: one bandwidth for all that compete.

    Attributes
    ----------
    support_, ranking_, order_, n_features_
        As in `RandSel`; constant columns share the last rank.
    hsic_ : ndarray of float
        HSIC of the feature and those selected in earlier rounds, in the round in which it was added; beside all
        selected ones, if it was not.

    Examples
    --------
    >>> from randsel import datasets
    >>> from randsel.baselines._baselines import FoHSIC
    >>> X, y, relevant = datasets.make_weston_linear(200, 20, random_state=0)
    >>> FoHSIC(5).fit(X, y).get_support(indices=True)
    array([0, 1, 2, 3, 4])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {**COMMON, "add": _FRACTION, "gamma": _GAMMA}

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

    def _rank(self, Z: Array, y: Array, kind: OutcomeKind, wanted: int, task: Task) -> Ranked:
        weights, total = _hsic_weights(y, kind), squared_distances(Z)
        chosen, others, values = np.arange(0), np.arange(Z.shape[1]), np.zeros(Z.shape[1])
        while len(others):
            with task.subtask("round"):
                distances = squared_distances(Z[:, chosen])
                one_more = distances + np.maximum(total - distances, 0.0) / len(others)
                gamma = _bandwidth(self.gamma, one_more)
                values[others] = _kernel_sums(Z[:, others], distances, 1.0, gamma, weights)
            best_first = np.argsort(-values[others], kind="stable")
            count = _number_to_add(len(chosen), len(others), wanted, self.add)
            chosen = np.concatenate([chosen, others[best_first[:count]]])
            others = np.delete(others, best_first[:count])
        return Ranked(chosen, wanted, {"hsic_": values})

    def _number_of_tasks(self, n: int, wanted: int) -> int:
        chosen = rounds = 0
        while chosen < n:
            chosen, rounds = chosen + _number_to_add(chosen, n - chosen, wanted, self.add), rounds + 1
        return rounds


def _number_to_add(chosen: int, others: int, wanted: int, add: float | None) -> int:
    """Columns that a round of forward selection adds; all that are left once enough are chosen."""
    missing = wanted - chosen
    return min(_share(add, others), missing) if missing > 0 else others


# ---------------------------------------------------------------- support vector machines


class KernelRFE(Baseline):
    """Recursive elimination with a support vector machine (Guyon et al. 2002), Gaussian or linear.

    A feature's worth is `W² - W²₍₋ⱼ₎`: how much `W² = Σ α_p α_q K(x_p, x_q)` falls when the feature leaves the kernel
    and the (signed) α stay, which for a linear kernel is the square of its weight. With more than two classes W² is
    the sum over the one-vs-one machines of scikit-learn's `SVC`, with several outputs over one `SVR` each.

    Parameters
    ----------
    n_features_to_select, target, scale
        As in `BaHSIC`.
    C : float, default=1.0
        Penalty of the machines.
    kernel : {"gaussian", "linear"}, default="gaussian"
        Kernel of the machines.
    drop : float in (0, 1) or None, default=0.1
        Fraction of the features left to remove per round, at least one; None removes one at a time.
    gamma : float or str, default="median"
        As in `BaHSIC`; the linear kernel has none.
    absolute : bool, default=False
        Rank by `|W² - W²₍₋ⱼ₎|`, as some later work does. Guyon et al. remove the smallest difference, sign and all: in
        a Gaussian kernel that of a noise feature may be far below zero, which the absolute value takes for worth.

    Attributes
    ----------
    support_, ranking_, order_, n_features_
        As in `RandSel`: rank 1 is selected, 2 was removed last; constant columns share the last rank.
    changes_ : ndarray of float
        The feature's worth in the round in which it was removed.

    Examples
    --------
    >>> from randsel import datasets
    >>> from randsel.baselines._baselines import KernelRFE
    >>> X, y, relevant = datasets.make_xor(200, 10, random_state=0)
    >>> KernelRFE(2).fit(X, y).get_support(indices=True)
    array([0, 1])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON,
        "C": [Interval(Real, 0, None, closed="neither")],
        "kernel": [StrOptions({"gaussian", "linear"})],
        "drop": _FRACTION,
        "gamma": _GAMMA,
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

    def _rank(self, Z: Array, y: Array, kind: OutcomeKind, wanted: int, task: Task) -> Ranked:
        worth = self._gaussian if self.kernel == "gaussian" else self._linear
        rounds = task.every_call("round", lambda left: worth(Z[:, left], y, kind))
        order, values = _eliminate(Z.shape[1], self.drop, rounds)
        return Ranked(order, wanted, {"changes_": values})

    def _number_of_tasks(self, n: int, wanted: int) -> int:  # noqa: ARG002
        return _rounds(n, self.drop)

    def _linear(self, X: Array, y: Array, kind: OutcomeKind) -> Array:
        weights = _machines(X @ X.T, y, kind, self.C) @ X
        return np.asarray((weights * weights).sum(axis=0))

    def _gaussian(self, X: Array, y: Array, kind: OutcomeKind) -> Array:
        distances = squared_distances(X)
        gamma = _bandwidth(self.gamma, distances)
        kernel = np.exp(-gamma * distances)
        machines = _machines(kernel, y, kind, self.C)
        vectors = np.flatnonzero(machines.any(axis=0))
        here = np.ix_(vectors, vectors)
        weights = machines[:, vectors].T @ machines[:, vectors]
        np.fill_diagonal(weights, 0.0)  # the diagonal of a Gaussian kernel does not change
        without = _kernel_sums(X[vectors], distances[here], -1.0, gamma, weights)
        changes: Array = np.vdot(weights, kernel[here]) - without
        return np.abs(changes) if self.absolute else changes


def _machines(kernel: Array, y: Array, kind: OutcomeKind, C: float) -> Array:
    """Signed dual coefficients of all samples, one row per machine."""
    if not kind.has_classes:
        Y = Target.encode(y, kind).Y
        machines = np.zeros((Y.shape[1], len(Y)))
        for row, column in zip(machines, Y.T, strict=True):
            regressor = SVR(kernel="precomputed", C=C).fit(kernel, column)
            row[regressor.support_] = regressor.dual_coef_[0]
        return machines
    classes, codes = np.unique(y, return_inverse=True)
    codes = codes.ravel()
    classifier = SVC(kernel="precomputed", C=C).fit(kernel, codes)
    dual = np.zeros((len(classes) - 1, len(codes)))
    dual[:, classifier.support_] = classifier.dual_coef_
    # libsvm keeps machine "a against b" in row b-1 of the samples of a, and in row a of those of b
    pairs = combinations(range(len(classes)), 2)
    return np.array([np.where(codes == a, dual[b - 1], np.where(codes == b, dual[a], 0.0)) for a, b in pairs])


# ---------------------------------------------------------------- one feature at a time


class CorrelationFilter(Baseline):
    """Rank features by their absolute correlation with the target, one by one.

    Classes: the correlation ratio η, the root of the share of a feature's variance that lies between the classes. It
    orders features as the F of an analysis of variance does, and for two classes it is the absolute correlation with
    ±1. Several outputs: the largest absolute correlation with any of them.

    Parameters
    ----------
    n_features_to_select, target
        As in `BaHSIC`.

    Attributes
    ----------
    support_, ranking_, order_, n_features_
        As in `RandSel`; constant columns share the last rank.
    scores_ : ndarray of float
        The absolute correlation or correlation ratio, between 0 and 1.

    Examples
    --------
    >>> from randsel import datasets
    >>> from randsel.baselines._baselines import CorrelationFilter
    >>> X, y, relevant = datasets.make_weston_linear(200, 20, random_state=0)
    >>> CorrelationFilter(5).fit(X, y).get_support(indices=True)
    array([0, 1, 2, 3, 4])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = _COUNT

    def __init__(self, n_features_to_select: int | float | None = None, *, target: str = "auto") -> None:
        self.n_features_to_select = n_features_to_select
        self.target = target

    def _rank(self, Z: Array, y: Array, kind: OutcomeKind, wanted: int, task: Task) -> Ranked:  # noqa: ARG002
        if not kind.has_classes:
            scores = np.abs(Target.encode(y, kind).Y.T @ Z / len(Z)).max(axis=0)
        else:
            classes, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
            sums = np.eye(len(classes))[codes.ravel()].T @ Z
            scores = np.sqrt((sums * sums / counts[:, None]).sum(axis=0) / len(Z))
        return Ranked(np.argsort(-scores, kind="stable"), wanted, {"scores_": scores})
