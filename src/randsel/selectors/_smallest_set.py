"""`SmallestSet`: validates the data, selects features by tests given others, and sets the results as attributes."""

from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from randsel._numerics.arrays import remote_table, to_numpy
from randsel._numerics.missing import MAX_MISSING
from randsel._sklearn.base import (
    TARGET,
    Interval,
    Selector,
    StrOptions,
    categories_to_codes,
    check_data,
    fit_context,
    fit_task,
    ranking_attributes,
)
from randsel._utils.typing import Array
from randsel.interactions import (
    DEFAULT_DECAY,
    LEVEL,
    MAX_FORWARD_STEPS,
    ConditionalTests,
    default_functions,
    find_smallest_set,
)
from randsel.interactions import SmallestSet as SetResult
from randsel.selectors._rank_tests import check_tested_data, prepare_tests


class SmallestSet(Selector):
    """Select a smallest set of features that leaves no other feature anything to add, with an error rate.

    Forward steps add the feature of the smallest p-value given the features selected before, tested alone and together
    with each of them. Backward steps remove features that are not needed given the others, so that one of a group of
    copies remains. The selection ends by itself: a feature must have a p-value of at most `alpha` after correction for
    the number of all features. If no feature is related to y, one is selected with probability of about `alpha`.

    Features enter by their ranks, as in `InteractionScan`. A feature without an effect of its own is found if it acts
    together with one that has such an effect. If no feature has one, as in XOR, nothing is selected:
    `InteractionScan` tests all pairs. The time grows with the number of features, not with its square.

    Parameters
    ----------
    alpha : float in (0, 1), default=0.05
        Largest corrected p-value at which a feature is added or kept.
    categorical_features : "from_dtype", array of names, indices or bool, or None, default="from_dtype"
        Columns whose values are names of levels, without order. "from_dtype": the categorical columns of a data frame.
    max_missing : float in [0, 1], default=0.5
        Columns with a larger fraction of missing values are left out, with a warning, and rank last.
    target : {"auto", "classification", "regression", "survival"}, default="auto"
        Kind of y, as in `InteractionScan`.
    n_jobs : int, default=None
        Number of threads. The result does not depend on it.

    Attributes
    ----------
    selected_ : ndarray of int
        Selected features in the order in which they were added. At most one per eight samples.
    pvalues_ : ndarray of float
        Of selected features: corrected p-value given the other selected ones. Of the 50 other features that follow
        the residual of y most closely: corrected p-value given the selected ones. 1 for all others, which the last step
        did not test.
    scores_ : ndarray of float
        Largest squared partial correlation of a feature, alone or together with a selected one, with y given the
        selected ones; -1 for these. The scores choose the features that are tested; they are not a test.
    steps_ : structured ndarray
        Steps in order: `feature`, `added` (False if it was removed) and `p`, the corrected p-value given the others.
    support_, ranking_, order_ : ndarray
        Mask of the selected features; rank 1 for those and 2, 3, … for the others; all columns, best first: selected
        ones, then the others by `pvalues_` and `scores_`.
    n_features_ : int
        Number of selected features.
    missing_counts_ : ndarray of int
        Number of missing values of every column.
    comparison_ : str
        What the tests compare: "samples", "between groups", "within groups" or "mixed".
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from randsel import SmallestSet
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 1000))
    >>> y = X[:, 0] * X[:, 1] + X[:, 0] - X[:, 2] + rng.normal(size=200)
    >>> X[:, 3] = X[:, 2] + 0.5 * rng.normal(size=200)
    >>> SmallestSet().fit(X, y).get_support(indices=True)
    array([0, 1, 2])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "alpha": [Interval(Real, 0, 1, closed="neither")],
        "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
        "max_missing": [Interval(Real, 0, 1, closed="both")],
        "target": TARGET,
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        alpha: float = LEVEL,
        *,
        categorical_features: Any = "from_dtype",
        max_missing: float = MAX_MISSING,
        target: str = "auto",
        n_jobs: int | None = None,
    ) -> None:
        self.alpha = alpha
        self.categorical_features = categorical_features
        self.max_missing = max_missing
        self.target = target
        self.n_jobs = n_jobs

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        batch: Any = None,
        covariates: Any = None,
    ) -> "SmallestSet":
        """Select features.

        Parameters
        ----------
        X : array, data frame or Dask array of shape (n_samples, n_features)
            Numbers, or categories of a data frame. A missing value (NaN) is neutral.
        y : array of shape (n_samples,) or (n_samples, n_outputs)
            Class labels, numbers, several columns of numbers, or survival, as in `InteractionScan`.
        sample_weight : array of shape (n_samples,), default=None
            Weights of the samples; samples of weight zero are left out.
        groups : array of shape (n_samples,), default=None
            Samples of one group, such as a donor, are not independent. `comparison_` says what is compared.
        batch : array of shape (n_samples,), default=None
            Strata, such as plates or sub-studies. The target is compared within batches only.
        covariates : array or data frame of shape (n_samples,) or (n_samples, n_covariates), default=None
            Variables whose effects are removed from y and from the functions of all features, such as age.

        Returns
        -------
        SmallestSet
            This estimator, fitted.
        """
        X, categorical = categories_to_codes(X)
        checked = check_data(self, X, y, sample_weight, self.target)
        data = check_tested_data(self, checked, categorical, groups, batch, covariates)
        if remote_table(data.X) is None:
            data = replace(data, X=to_numpy(data.X))
        prepared = prepare_tests(self, data, default_functions, DEFAULT_DECAY)
        tests = ConditionalTests(prepared.functions, prepared.samples.y, data.kind, prepared.design)
        with fit_task(self, MAX_FORWARD_STEPS) as task:
            result = find_smallest_set(tests, self.alpha, partial(task.wrap, "forward step"))
            self._set_attributes(result, prepared.columns)
        return self

    def _set_attributes(self, result: SetResult, columns: Array) -> None:
        n_features, candidates = self.n_features_in_, result.candidates
        self.selected_ = columns[result.members]
        self.pvalues_, self.scores_ = np.ones(n_features), np.zeros(n_features)
        self.pvalues_[columns[candidates.tested]] = np.exp(np.minimum(candidates.log_p, 0.0))
        self.pvalues_[self.selected_] = np.exp(np.minimum(result.log_p, 0.0))
        self.scores_[columns] = candidates.scores
        steps = [(columns[step.feature], step.added, np.exp(min(step.log_p, 0.0))) for step in result.steps]
        self.steps_ = np.array(steps, dtype=[("feature", np.intp), ("added", bool), ("p", float)])
        others = columns[np.argsort(-candidates.scores, kind="stable")[: len(columns) - len(result.members)]]
        others = others[np.argsort(self.pvalues_[others], kind="stable")]
        order = np.concatenate([self.selected_, others])
        self.__dict__.update(ranking_attributes(order, n_features, len(self.selected_)))
