"""Values that are not finite: missing ones (NaN) are counted and filled in, infinite ones are refused.

A missing value is replaced by the mean of its column, which is 0 on a centred scale. It is neutral: the sample adds
nothing to sums over the column.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from randsel._numerics.arrays import as_array_like, astype, is_sparse, namespace, on_host, to_numpy
from randsel._numerics.columns import MAPPED_ROWS, has_finite_sum, release_pages
from randsel._utils.typing import Array

#: Default of `max_missing`, the largest fraction of missing values of a column that is not left out.
MAX_MISSING = 0.5


def missing_mask(x: Any) -> Any:
    """Return a mask of the NaN of an array, or None if it has none."""
    xp = namespace(x)
    with np.errstate(all="ignore"):
        # Most tables are complete, and a sum is faster than a mask.
        if not bool(xp.isnan(x.sum())):
            return None
    mask = xp.isnan(x)
    return mask if bool(mask.any()) else None


def fill_with_values(x: Any, missing: Any) -> Any:
    """Replace missing values by the first observed value of the column, and by 0 in columns without any."""
    xp = namespace(x)
    first_row = xp.argmax(astype(~missing, xp.int8), axis=0)
    values = x[first_row, as_array_like(np.arange(x.shape[1]), x)]
    return xp.where(missing, xp.where(xp.isnan(values), xp.zeros_like(values), values), x)


def fill_with_means(x: Any, missing: Any, row_weights: Any) -> tuple[Any, Any]:
    """Replace missing values by the mean of the observed values of the column.

    `row_weights` have the sum one; None for equal weights. The values of x at missing places do not matter, but must be
    finite. Also returns the weight of the observed values of every column, 1 for complete columns.
    """
    xp = namespace(x)
    weights = astype(~missing, xp.float64)
    weights = weights / x.shape[0] if row_weights is None else weights * row_weights[:, None]
    observed_weight = weights.sum(axis=0)
    observed_weight = xp.where(xp.any(missing, axis=0), observed_weight, xp.ones_like(observed_weight))
    divisors = xp.where(observed_weight > 0.0, observed_weight, xp.ones_like(observed_weight))
    means = (weights * x).sum(axis=0) / divisors
    return xp.where(missing, astype(means, x.dtype), x), divisors


def impute_means(X: Array, train: Array | None = None) -> Array:
    """Replace missing values by the means of the columns over the training rows (all rows by default).

    A column without any value in these rows becomes zero. X itself is returned if it is complete.
    """
    missing = missing_mask(X)
    if missing is None:
        return X
    rows = X if train is None else X[train]
    observed = ~np.isnan(rows)
    # Sums of differences from an observed value keep the digits of a small spread around a large mean.
    offset = np.where(observed.any(axis=0), rows[observed.argmax(axis=0), np.arange(X.shape[1])], 0.0)
    sums = np.where(observed, rows - offset, 0.0).sum(axis=0, dtype=np.float64)
    means = offset + sums / np.maximum(observed.sum(axis=0), 1)
    return np.where(missing, means.astype(X.dtype), X)


def columns_vary(X: Array) -> Array:
    """Return which columns have two different observed values."""
    return np.asarray(np.fmax.reduce(X, axis=0) > np.fmin.reduce(X, axis=0))


def too_many_missing(counts: Any, m: int, max_missing: float) -> Any:
    """Return which counts of missing values are more than the fraction `max_missing` of m samples, or all of them."""
    return (counts > max_missing * m + 1e-9) | (counts == m)


# ---------------------------------------------------------------- values that are counted or refused


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
    """Return the number of NaN and of infinite values in every column; quick if there are none."""
    if has_finite_sum(X):
        n_missing, n_infinite = np.zeros((2, X.shape[1]), dtype=int)
        return n_missing, n_infinite
    return search_nonfinite(X)


def search_nonfinite(X: Any) -> tuple[Array, Array]:
    """Return the number of NaN and of infinite values in every column; a memory map is read a few rows at a time.

    X may be sparse, in compressed columns.
    """
    if is_sparse(X):
        columns = np.repeat(np.arange(X.shape[1]), np.diff(X.indptr))
        n_missing, n_infinite = (
            np.bincount(columns[mask], minlength=X.shape[1]) for mask in (np.isnan(X.data), np.isinf(X.data))
        )
        return n_missing, n_infinite
    step = MAPPED_ROWS if on_host(X) else len(X)
    n_missing, n_infinite = np.zeros((2, X.shape[1]), dtype=int)
    for start in range(0, len(X), step):
        block = X[start : start + step]
        n_missing += to_numpy(namespace(block).isnan(block).sum(axis=0))
        n_infinite += to_numpy(namespace(block).isinf(block).sum(axis=0))
        release_pages(X)
    return n_missing, n_infinite


def missing_per_row(X: Any) -> Array:
    """Return the number of missing values of every row of an array, or of a sparse matrix in any format."""
    if is_sparse(X):
        entries = X.tocoo()
        return np.bincount(entries.row[np.isnan(entries.data)], minlength=X.shape[0])
    step = MAPPED_ROWS if on_host(X) else len(X)
    blocks = (X[start : start + step] for start in range(0, len(X), step))
    return np.concatenate([to_numpy(namespace(block).isnan(block).sum(axis=1)) for block in blocks])


def find_refused(n_missing: Array, n_infinite: Array, *, allow_nan: bool) -> NonFinite | None:
    """Return which columns a fit refuses, from the counts of `count_nonfinite`; None if there are none."""
    counts = n_infinite if allow_nan else n_missing + n_infinite
    columns = np.flatnonzero(counts)
    if not len(columns):
        return None
    first = int(columns[0])
    return NonFinite(first, not allow_nan and bool(n_missing[first]), int(counts[first]), len(columns))
