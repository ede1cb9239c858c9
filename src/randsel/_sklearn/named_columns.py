"""Columns that a parameter lists by name, by index or as a mask."""

import difflib
from typing import Any

import numpy as np

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
