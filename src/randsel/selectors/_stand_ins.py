"""The method `stand_ins` of selectors that cull."""

from typing import Any

from sklearn.utils.validation import check_consistent_length, check_is_fitted

from randsel._numerics.arrays import remote_table
from randsel._sklearn.base import check_annotations, check_table
from randsel.culling import MAX_COUNT, MIN_CORRELATION, StandIn, SwapModel, find_stand_ins
from randsel.targets import Target, check_outcome, find_kind


class StandInsMixin:
    """Adds `stand_ins` to a selector with the parameters and attributes of `RandSel`."""

    order_: Any
    support_: Any
    target: Any
    gamma: Any
    _scale: Any

    def stand_ins(
        self,
        X: Any,
        y: Any = None,
        *,
        groups: Any = None,
        min_correlation: float = MIN_CORRELATION,
        max_count: int = MAX_COUNT,
    ) -> dict[int, list[StandIn]]:
        """Find unselected features that could stand in for selected ones, such as those that cannot be measured.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            The data of `fit`, in memory; the estimator does not keep them.
        y : array of shape (n_samples,) or (n_samples, n_outputs), default=None
            The outcome of `fit`. Without it, losses are NaN.
        groups : array of shape (n_samples,), default=None
            Samples of a group are left out together.
        min_correlation : float in (0, 1], default=0.7
            Smallest absolute correlation of a stand-in.
        max_count : int, default=5
            Maximum number of stand-ins of a feature.

        Returns
        -------
        dict of int to list of StandIn
            For each of the first 100 selected columns that vary, best first: its stand-ins, the most correlated first.
            Each has `column`, `correlation` (of normal scores) and `loss`: the increase of the error of left-out
            samples if it replaces the feature, as a fraction of the variance of y. The error is that of the ridge
            regression of `CullingPath.errors` on these features, on at most 500 samples that all count the same, with
            one bandwidth for all swaps. Losses compare stand-ins; they are not estimates of accuracy.

        Examples
        --------
        >>> import numpy as np
        >>> from randsel import RandSel
        >>> rng = np.random.default_rng(0)
        >>> X = rng.standard_normal((100, 20))
        >>> X[:, 7] = -X[:, 3] + 0.3 * rng.standard_normal(100)
        >>> y = X[:, 3] > 0
        >>> selector = RandSel(1).fit(X, y)
        >>> [(s.column, round(s.correlation, 2), s.loss > 0) for s in selector.stand_ins(X, y)[3]]
        [(7, -0.95, True)]
        """
        check_is_fitted(self)
        if not 0.0 < min_correlation <= 1.0 or max_count < 1:
            raise ValueError(
                f"min_correlation={min_correlation} must be above 0 and at most 1, max_count={max_count} at least 1."
            )
        if remote_table(X) is not None:
            raise ValueError("stand_ins needs X in memory; pass X.compute(), or a part of its columns.")
        X = check_table(self, X, reset=False, allow_nan=True, accept_sparse=True)
        model = None
        if y is not None:
            y = check_outcome(y, self.target)
            check_consistent_length(X, y)
            annotations = check_annotations(groups, None, None, None, len(y))
            target = Target.encode(y, find_kind(y, self.target), None, annotations.groups)
            model = SwapModel(target, self.gamma, scale=self._scale())
        selected = self.order_[self.support_[self.order_]]
        return find_stand_ins(X, selected, model, min_correlation=min_correlation, max_count=max_count)
