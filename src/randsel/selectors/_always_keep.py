"""The parameter `always_keep` of `RandSel`: features that are never culled."""

from typing import Any

import numpy as np

from randsel._sklearn.named_columns import describe_column, find_distinct_columns
from randsel._utils.typing import Array


def columns_to_keep(selector: Any, n_to_select: int | None = None) -> list[int]:
    """Return the columns of X that `always_keep` lists; X is checked already.

    Raises ValueError if they are more than the number of features to select.
    """
    names = getattr(selector, "feature_names_in_", None)
    columns = find_distinct_columns(selector.always_keep, "always_keep", selector.n_features_in_, names)
    if n_to_select is not None and n_to_select < len(columns):
        raise ValueError(
            f"n_features_to_select={selector.n_features_to_select} selects fewer features ({n_to_select}) than "
            f"always_keep lists ({len(columns)}); select at least as many."
        )
    return columns


def positions_to_keep(selector: Any, columns: Array) -> list[int]:
    """Return the positions of the features to keep among those of the kernel, which belong to `columns` of X.

    With rank functions, a column of X has several positions. Raises ValueError if it has none.
    """
    positions: list[int] = []
    for column in columns_to_keep(selector):
        belonging = np.flatnonzero(columns == column)
        if not len(belonging):
            name = describe_column(column, getattr(selector, "feature_names_in_", None))
            rare = " or has no two levels seen often enough" if selector.kernel == "rank" else ""
            raise ValueError(
                f"always_keep lists {name}, which is constant{rare} in these samples: there is nothing to add to it. "
                "Leave it out of always_keep."
            )
        positions += belonging.tolist()
    return positions
