"""Missing values of the data of a fit: their number, and columns that are left out because of them."""

from typing import Any

import numpy as np

from randsel._numerics.missing import MAX_MISSING, too_many_missing
from randsel._utils.messages import warn
from randsel._utils.text import list_first
from randsel._utils.typing import Array

__all__ = ["MAX_MISSING", "warn_of_incomplete_columns"]


def warn_of_incomplete_columns(selector: Any, counts: Array | None, n_samples: int) -> None:
    """Warn of the columns that are left out because more than `max_missing` of the samples have no value.

    `counts` are the numbers of missing values of all columns; None for those of the selector.
    """
    counts = selector.missing_counts_ if counts is None else counts
    left_out = np.flatnonzero(too_many_missing(counts, n_samples, selector.max_missing) & (counts > 0))
    if not len(left_out):
        return
    names = getattr(selector, "feature_names_in_", None)
    first = list_first([str(j) if names is None else repr(str(names[j])) for j in left_out[:6].tolist()], 5)
    columns = f"{len(left_out)} columns are" if len(left_out) > 1 else "One column is"
    amount = "all" if selector.max_missing >= 1.0 else f"more than {100 * selector.max_missing:g} % of the"
    warn(
        f"{columns} left out, because {amount} values are missing: {first}. A larger max_missing keeps more.",
        stacklevel=4,
    )
