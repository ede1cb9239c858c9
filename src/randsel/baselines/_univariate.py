"""CorrelationFilter and FTest: features ranked one by one."""

import warnings
from typing import Any, ClassVar

import numpy as np
from sklearn.feature_selection import f_classif, f_regression

from randsel._sklearn.base import Task
from randsel._utils.typing import Array
from randsel.baselines._base import COUNT_AND_TARGET, Baseline, Ranked
from randsel.targets import OutcomeKind, Target


class CorrelationFilter(Baseline):
    """Rank features by their absolute correlation with the target, one by one.

    For classes, this is the correlation ratio η: the root of the fraction of a feature's variance that lies between the
    classes. It ranks features like the F statistic; for two classes it is the absolute correlation with ±1. For several
    outputs, it is the largest absolute correlation with any of them.

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
    >>> from randsel import CorrelationFilter, datasets
    >>> X, y, relevant = datasets.make_weston_linear(200, 20, random_state=0)
    >>> CorrelationFilter(5).fit(X, y).get_support(indices=True)
    array([0, 1, 2, 3, 4])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = COUNT_AND_TARGET

    def __init__(self, n_features_to_select: int | float | None = None, *, target: str = "auto") -> None:
        self.n_features_to_select = n_features_to_select
        self.target = target

    def _rank(self, Z: Array, y: Array, kind: OutcomeKind, n_to_select: int, task: Task) -> Ranked:  # noqa: ARG002
        if not kind.has_classes:
            scores = np.abs(Target.encode(y, kind).Y.T @ Z / len(Z)).max(axis=0)
        else:
            classes, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
            # Columns have mean 0 and variance 1, so η² = Σ_c n_c mean_c² / m.
            sums = np.eye(len(classes))[codes].T @ Z
            scores = np.sqrt((sums * sums / counts[:, None]).sum(axis=0) / len(Z))
        return Ranked(np.argsort(-scores, kind="stable"), n_to_select, {"scores_": scores})


class FTest(Baseline):
    """Rank features by the F statistic of scikit-learn's `f_classif` or `f_regression`, one by one.

    F grows with the correlation ratio or correlation, so the order is that of `CorrelationFilter`. For several
    outputs, F is the largest of any of them.

    Parameters
    ----------
    n_features_to_select, target
        As in `BaHSIC`.

    Attributes
    ----------
    support_, ranking_, order_, n_features_
        As in `RandSel`; constant columns share the last rank.
    scores_ : ndarray of float
        The F statistic; 0 for constant columns.

    Examples
    --------
    >>> from randsel import FTest, datasets
    >>> X, y, relevant = datasets.make_weston_linear(200, 20, random_state=0)
    >>> FTest(5).fit(X, y).get_support(indices=True)
    array([0, 1, 2, 3, 4])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = COUNT_AND_TARGET

    def __init__(self, n_features_to_select: int | float | None = None, *, target: str = "auto") -> None:
        self.n_features_to_select = n_features_to_select
        self.target = target

    def _rank(self, Z: Array, y: Array, kind: OutcomeKind, n_to_select: int, task: Task) -> Ranked:  # noqa: ARG002
        with warnings.catch_warnings():
            # a feature that does not vary within classes has F = ∞
            warnings.simplefilter("ignore")
            if kind.has_classes:
                # Rounding may make a variance that is zero within classes negative, and F with it.
                scores = np.abs(f_classif(Z, y)[0])
            else:
                scores = np.max([f_regression(Z, column)[0] for column in Target.encode(y, kind).Y.T], axis=0)
        return Ranked(np.argsort(-scores, kind="stable"), n_to_select, {"scores_": scores})
