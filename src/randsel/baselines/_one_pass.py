"""CorrelationFilter, FTest and ForestImportance, which rank all features in one pass."""

import warnings
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.feature_selection import f_classif, f_regression

from randsel._sklearn.base import Interval, Task
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
        scores = self._score(Z, y, kind)
        return np.argsort(-scores, kind="stable"), {"scores_": scores}

    def _score(self, Z: Array, y: Array, kind: OutcomeKind) -> Array:
        """Return the score of every column of Z."""
        if not kind.has_classes:
            return np.asarray(np.abs(Target.encode(y, kind).Y.T @ Z / len(Z)).max(axis=0))
        classes, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
        # columns have mean 0 and variance 1, so η² = Σ_c n_c mean_c² / m
        sums = np.eye(len(classes))[codes].T @ Z
        return np.asarray(np.sqrt((sums * sums / counts[:, None]).sum(axis=0) / len(Z)))


class FTest(CorrelationFilter):
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

    def _score(self, Z: Array, y: Array, kind: OutcomeKind) -> Array:
        with warnings.catch_warnings():
            # a feature that does not vary within classes has F = ∞
            warnings.simplefilter("ignore")
            if kind.has_classes:
                # rounding may make a variance that is zero within classes negative, and F with it
                return np.asarray(np.abs(f_classif(Z, y)[0]))
            return np.asarray(np.max([f_regression(Z, column)[0] for column in Target.encode(y, kind).Y.T], axis=0))


class ForestImportance(Baseline):
    """Rank features by their impurity-based importance in a random forest of scikit-learn (Breiman 2001).

    Every split chooses among √n of the n features, for numbers too: scikit-learn's default for these, all features,
    takes about √n times as long.

    Parameters
    ----------
    n_features_to_select, target
        As in `BaHSIC`.
    n_estimators : int, default=500
        Number of trees.
    n_jobs : int, default=None
        Number of jobs (joblib) over the trees. The result does not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of the forest.

    Attributes
    ----------
    support_, ranking_, order_, n_features_
        As in `RandSel`; constant columns share the last rank.
    importances_ : ndarray of float
        Mean decrease of impurity; they sum to one.

    Examples
    --------
    >>> from randsel import ForestImportance, datasets
    >>> X, y, relevant = datasets.make_weston_linear(200, 20, random_state=0)
    >>> ForestImportance(5, random_state=0).fit(X, y).get_support(indices=True)
    array([0, 1, 2, 3, 4])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COUNT_AND_TARGET,
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_features_to_select: int | float | None = None,
        *,
        n_estimators: int = 500,
        target: str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.n_estimators = n_estimators
        self.target = target
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _rank(self, Z: Array, y: Array, kind: OutcomeKind, n_to_select: int, task: Task) -> Ranked:  # noqa: ARG002
        forest = RandomForestClassifier if kind.has_classes else RandomForestRegressor
        Y = y if kind.has_classes else Target.encode(y, kind).Y
        target = Y[:, 0] if Y.shape[1:] == (1,) else Y
        model = forest(self.n_estimators, max_features="sqrt", n_jobs=self.n_jobs, random_state=self.random_state)
        importances = model.fit(Z, target).feature_importances_
        return np.argsort(-importances, kind="stable"), {"importances_": importances}
