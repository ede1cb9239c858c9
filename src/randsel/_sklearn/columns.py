"""Columns of X: those that parameters list by name, by index or as a mask, those left out, and sparse X made dense."""

import difflib
from typing import Any

import numpy as np

from randsel._numerics.arrays import is_sparse
from randsel._numerics.columns import memory_for_columns
from randsel._numerics.missing import too_many_missing
from randsel._numerics.sparse_columns import MAX_DENSE, canonical_csc, dense_bytes
from randsel._utils.messages import warn
from randsel._utils.text import list_first
from randsel._utils.typing import Array


def find_columns(entries: Any, parameter: str, n: int, names: Array | None) -> list[int]:
    """Return the indices of the columns that a parameter lists, in its order; a mask lists them ascending.

    `names` are the names of the n columns of X, None if it has none.
    """
    listed, known = np.asarray(entries), [] if names is None else [str(name) for name in names]
    if listed.dtype.kind == "b":
        if listed.shape != (n,):
            raise ValueError(f"{parameter} is a mask of shape {listed.shape}, but X has n_features={n}.")
        return [int(column) for column in np.flatnonzero(listed)]
    # Names and indices may be mixed, which one array would turn into text.
    values = list(entries) if isinstance(entries, list | tuple) else listed.ravel().tolist()
    return [_find_column(value, parameter, n, known) for value in values]


def _find_column(value: Any, parameter: str, n: int, known: list[str]) -> int:
    if isinstance(value, str):
        if value not in known:
            near = difflib.get_close_matches(value, known, n=1, cutoff=0.0)
            hint = f", did you mean {near[0]!r}?" if near else "; X has no column names."
            raise ValueError(f"{parameter} names {value!r}, which X does not have{hint}")
        return known.index(value)
    is_index = isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_) and -n <= value < n
    if not is_index:
        raise ValueError(f"{parameter} holds {value!r}, but X has n_features={n}; give names, indices or a mask.")
    return int(value) % n


def find_distinct_columns(entries: Any, parameter: str, n: int, names: Array | None) -> list[int]:
    """Return what `find_columns` returns, and [] for None; raise ValueError if a column is listed twice."""
    columns = [] if entries is None else find_columns(entries, parameter, n, names)
    twice = [column for k, column in enumerate(columns) if column in columns[:k]]
    if twice:
        raise ValueError(f"{parameter} lists {describe_column(twice[0], names)} twice; name it once.")
    return columns


def describe_column(column: int, names: Array | None) -> str:
    """Return a column as an error message calls it: by its name, or by its index."""
    return f"column {column}" if names is None else repr(str(names[column]))


def nominal_columns(categorical: Any, from_frame: list[int], n: int, names: Array | None) -> Array:
    """Return a mask of the nominal columns: categorical columns of a data frame, or those that `categorical` lists."""
    nominal = np.zeros(n, dtype=bool)
    if isinstance(categorical, str):
        nominal[from_frame] = True
    elif categorical is not None:
        nominal[find_columns(categorical, "categorical_features", n, names)] = True
    return nominal


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


def dense_if_small(estimator: Any, X: Any, *, blocks: bool) -> Any:
    """Return a sparse X as an array if it is small, otherwise as CSC if the estimator reads it in `blocks`.

    An X that is not sparse is returned as it is. Raises ValueError if the estimator needs a dense X.
    """
    if not is_sparse(X):
        return X
    max_memory, n_bytes = getattr(estimator, "max_memory", None), dense_bytes(X)
    limit = MAX_DENSE if max_memory is None else memory_for_columns(max_memory, *X.shape)
    if n_bytes <= limit:
        return X.toarray()
    if blocks:
        return canonical_csc(X)
    raise ValueError(
        f"X is sparse and would take {n_bytes / 1e9:.3g} GB as the dense array that {type(estimator).__name__} needs; "
        "select features first, such as RandSel(1000).fit_transform(X, y), or pass X.toarray() if memory allows."
    )
