"""Missing values of a table: rules for them, notes about them, and imputation by medians."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from randsel._utils.text import list_first, pluralise
from randsel._utils.typing import Array

if TYPE_CHECKING:
    from sklearn.impute import SimpleImputer


def imputer() -> "SimpleImputer":
    """Return a pipeline step that replaces NaN by the median of the column in the rows that it is fitted on.

    Examples
    --------
    >>> import numpy as np
    >>> from randsel import tables
    >>> tables.imputer().fit_transform([[1.0, np.nan], [3.0, 5.0], [2.0, 7.0]])
    array([[1., 6.],
           [3., 5.],
           [2., 7.]])
    """
    from sklearn.impute import SimpleImputer  # noqa: PLC0415 (takes a second, not needed to read a file)

    return SimpleImputer(strategy="median", keep_empty_features=True)


def handle_missing(
    path: Path,
    X: Array,
    names: list[str],
    nominal: list[int],
    missing: str,
    notes: list[str],
    *,
    name_option: bool = True,
) -> tuple[Array, tuple[str, ...], tuple[int, ...]]:
    """Apply the rule for missing values; raise ValueError for infinite ones.

    `name_option`: whether a note may name the option --missing, which `randsel apply` does not have.
    """
    n_infinite, n_missing = np.isinf(X).sum(axis=0), np.isnan(X).sum(axis=0)
    if n_infinite.any():
        problem = f"{_most_affected(n_infinite, names)} infinite; replace them by numbers"
        raise ValueError(f"{path}: {problem}, or use --drop-columns.")
    is_empty = n_missing == len(X)
    if missing == "error" and n_missing.any():
        empty = f" {int(is_empty.sum())} of them have no value at all." if is_empty.any() else ""
        raise ValueError(
            f"{path}: {_most_affected(n_missing, names)} missing.{empty} Choose --missing neutral, median (imputed "
            "within folds) or drop-columns."
        )
    dropped = n_missing > 0 if missing == "drop-columns" else is_empty
    if n_missing.any():
        n_columns = int((n_missing > 0).sum())
        n_values = pluralise(int(n_missing.sum()), "1 value is", f"{int(n_missing.sum())} values are")
        total = pluralise(len(names), "1 column", f"{len(names)} columns")
        notes.append(f"{n_values} missing, in {n_columns} of {total}.")
    if (n_missing[~dropped] > 0).any():
        if missing == "median":
            X = _replace_missing_levels(X, nominal)
            notes.append(
                "Missing values are replaced by medians of training samples; in categorical columns by a level."
            )
        elif name_option:
            notes.append("Missing values are neutral: they count as the mean of their column (--missing).")
    if dropped.any():
        reason = "missing values" if missing == "drop-columns" else "no value at all"
        dropped_names = [names[j] for j in np.flatnonzero(dropped).tolist()]
        columns = pluralise(len(dropped_names), "1 column", f"{len(dropped_names)} columns")
        verb = pluralise(len(dropped_names), "is", "are")
        notes.append(f"{columns} with {reason} {verb} left out: {list_first(dropped_names, 8)}.")
        if dropped.all():
            hint = "choose --missing neutral instead" if missing == "drop-columns" else "check how the table was read"
            raise ValueError(f"{path}: every column has {reason}; {hint}.")
        remaining = np.flatnonzero(~dropped).tolist()
        X, names = X[:, ~dropped], [names[j] for j in remaining]
        nominal = [remaining.index(j) for j in nominal if not dropped[j]]
    return X, tuple(names), tuple(nominal)


def _replace_missing_levels(X: Array, nominal: list[int]) -> Array:
    """Make missing values of nominal columns a level of their own.

    It depends on no other sample, so nothing leaks between folds.
    """
    X = X if X.flags.writeable else X.copy()
    for j in nominal:
        X[np.isnan(X[:, j]), j] = np.nanmax(X[:, j], initial=-1.0) + 1.0
    return X


def add_indicators(path: Path, X: Array, names: tuple[str, ...], notes: list[str]) -> tuple[Array, tuple[str, ...]]:
    """Append a column of 0 and 1 for each column with missing values: 1 where the value is missing."""
    columns = np.flatnonzero(np.isnan(X).any(axis=0))
    if not len(columns):
        return X, names
    indicator_names = [f"{names[j]} missing" for j in columns.tolist()]
    if repeated := sorted({*names} & {*indicator_names}):
        raise ValueError(f"{path}: a column is named {repeated[0]!r}, as an indicator would be; rename it.")
    added = pluralise(
        len(columns),
        "1 column that says where values are missing is",
        f"{len(columns)} columns that say where values are missing are",
    )
    notes.append(f"{added} added (--missing indicator).")
    return np.concatenate([X, np.isnan(X[:, columns])], axis=1, dtype=X.dtype), (*names, *indicator_names)


def _most_affected(counts: Array, names: list[str]) -> str:
    """Describe the columns with the highest counts, with the total number of columns and entries."""
    n_columns = int((counts > 0).sum())
    order = np.argsort(-counts, kind="stable")[: min(3, n_columns)]
    shown = ", ".join(
        f"{counts[j]} {pluralise(counts[j], 'entry', 'entries')} of column {names[j]!r}" for j in order.tolist()
    )
    n_entries = int(counts.sum())
    if n_columns == 1:
        return f"{shown} {pluralise(n_entries, 'is', 'are')}"
    return f"{n_entries} entries of {n_columns} columns ({shown}) are"
