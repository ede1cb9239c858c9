"""Base class of the selectors, and ranks from an order of features."""

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted

from randsel._numerics.arrays import complement, remote_table
from randsel._sklearn.progress import CallbackSupportMixin
from randsel._sklearn.validation import check_remote_table
from randsel._utils.typing import Array


class Selector(CallbackSupportMixin, SelectorMixin, BaseEstimator):
    """What the estimators share: `support_` is the selection; y is required and may have several columns."""

    def _get_support_mask(self) -> Array:
        check_is_fitted(self)
        return np.asarray(self.support_)

    def transform(self, X: Any) -> Any:
        """Return the selected columns of X; those of a Dask array stay one.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            With the columns that were fitted.

        Returns
        -------
        array or data frame of shape (n_samples, n_selected_features)
            The selected columns.
        """
        table = remote_table(X)
        if table is None:
            return super().transform(X)
        check_remote_table(self, table, reset=False)
        return table.select_columns(self.get_support(indices=True))

    def __sklearn_is_fitted__(self) -> bool:
        # an interrupted fit leaves attributes of the data behind, and no selection
        return hasattr(self, "support_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.two_d_labels = True
        return tags


def ranking(order: Array, n_features: int, wanted: int) -> tuple[Array, Array]:
    """Order all columns, and rank them: 1 for the first `wanted`, then 2, 3, …; those not in `order` are constant.

    Constant columns come last and share the last rank.
    """
    ascending = np.arange(2 - wanted, len(order) + 2 - wanted)
    ascending[:wanted] = 1
    ranks = np.empty(n_features, dtype=int)
    ranks[order] = ascending
    if len(order) == n_features:
        return order, ranks
    constant = complement(order, n_features)
    ranks[constant] = max(len(order) - wanted + 2, 2)
    if wanted > len(order):
        warnings.warn(
            f"{wanted} features were asked for but only {len(order)} vary; the selection was filled up with constant "
            "columns, which carry no information.",
            UserWarning,
            stacklevel=5,
        )
        ranks[constant[: wanted - len(order)]] = 1
    return np.concatenate([order, constant]), ranks
