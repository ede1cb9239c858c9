"""ForestImportance: features ranked by a random forest."""

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from randsel._sklearn.base import Interval, Task
from randsel._utils.typing import Array
from randsel.baselines._base import COUNT_AND_TARGET, Baseline, Ranked
from randsel.targets import OutcomeKind, Target


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
        return Ranked(np.argsort(-importances, kind="stable"), n_to_select, {"importances_": importances})
