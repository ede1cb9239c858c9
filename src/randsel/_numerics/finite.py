"""Values of a table that are not finite: infinite ones are refused, missing ones (NaN) are counted."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from randsel._numerics.arrays import is_sparse, namespace, on_host, to_numpy
from randsel._numerics.columns import MAPPED_ROWS, release_pages
from randsel._utils.typing import Array


@dataclass(frozen=True)
class NonFinite:
    """Columns of a table that hold values which a fit refuses.

    Attributes
    ----------
    column, has_nan, count
        Of the first such column: its index, whether NaN is among its refused values, and the number of these.
    n_columns
        Number of such columns.
    """

    column: int
    has_nan: bool
    count: int
    n_columns: int

    def message(self, names: Any = None) -> str:
        """Return the error message; columns are named by `names`, or by their index."""
        name = self.column if names is None else repr(str(names[self.column]))
        value = "NaN" if self.has_nan else "infinity"
        others = "" if self.n_columns == 1 else f" and in {self.n_columns - 1} other columns"
        remedy = "impute them or drop the columns first." if self.has_nan else "replace them by numbers first."
        return f"Input X contains {value} in column {name} ({self.count} values){others}; {remedy}"


def count_nonfinite(X: Any) -> tuple[Array, Array]:
    """Return the number of NaN and of infinite values in every column; a memory map is read row by row.

    X may be sparse, in compressed columns.
    """
    if is_sparse(X):
        columns = np.repeat(np.arange(X.shape[1]), np.diff(X.indptr))
        n_missing, n_infinite = (
            np.bincount(columns[mask], minlength=X.shape[1]) for mask in (np.isnan(X.data), np.isinf(X.data))
        )
        return n_missing, n_infinite
    step = MAPPED_ROWS if on_host(X) else len(X)
    blocks = range(0, len(X), step)
    n_missing, n_infinite = np.zeros((2, X.shape[1]), dtype=int)
    with np.errstate(all="ignore"):
        total = 0.0
        for start in blocks:
            total += float(X[start : start + step].sum())
            release_pages(X)
    # A finite sum has finite terms only. A sum that is not finite may be an overflow, so all values are checked.
    if np.isfinite(total):
        return n_missing, n_infinite
    for start in blocks:
        block = X[start : start + step]
        n_missing += to_numpy(namespace(block).isnan(block).sum(axis=0))
        n_infinite += to_numpy(namespace(block).isinf(block).sum(axis=0))
        release_pages(X)
    return n_missing, n_infinite


def find_refused(n_missing: Array, n_infinite: Array, *, allow_nan: bool) -> NonFinite | None:
    """Return which columns a fit refuses, from the counts of `count_nonfinite`; None if there are none."""
    counts = n_infinite if allow_nan else n_missing + n_infinite
    columns = np.flatnonzero(counts)
    if not len(columns):
        return None
    first = int(columns[0])
    return NonFinite(first, not allow_nan and bool(n_missing[first]), int(counts[first]), len(columns))
