"""Preparation of a table for analysis: medians for missing values, averages of groups, features to keep."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from randsel._numerics.missing import MAX_MISSING, columns_vary, too_many_missing
from randsel._sklearn.annotations import find_distinct_columns
from randsel._utils.text import list_first
from randsel._utils.typing import Array
from randsel.analysis._model import Settings
from randsel.tables import Table, imputer
from randsel.targets import average_rows, batches_of_groups

NAMED = 5  # maximum number of columns that a note names
LEAST_HALF = 4  # minimum number of samples, or groups, in a half


# ---------------------------------------------------------------- features to keep


def check_columns_to_keep(table: Table, settings: Settings) -> None:
    """Raise ValueError if a feature to keep is unknown, does not vary, or if `top` is smaller than their number."""
    columns = columns_to_keep(table, settings)
    varying = varying_columns(table.X, columns)
    if len(varying) < len(columns):
        name = next(table.names[column] for column in columns if column not in varying)
        raise ValueError(
            f"keep names {name!r}, which is constant or has too many missing values: features cannot add to it; leave "
            "it out of keep."
        )
    if settings.top is not None and settings.top < len(columns):
        raise ValueError(
            f"top={settings.top} selects fewer features than the {len(columns)} to keep; raise top, or keep fewer."
        )


def columns_to_keep(table: Table, settings: Settings) -> tuple[int, ...]:
    """Return the columns of the features that the settings name."""
    return tuple(find_distinct_columns(settings.keep, "keep", len(table.names), np.array(table.names)))


def varying_columns(X: Array, columns: tuple[int, ...]) -> list[int]:
    """Return those of the columns that vary and have enough values; in few samples, a rare marker may be constant."""
    values = X[:, list(columns)]
    left_out = too_many_missing(np.isnan(values).sum(axis=0), len(X), MAX_MISSING)
    return [column for column, usable in zip(columns, columns_vary(values) & ~left_out, strict=True) if usable]


# ---------------------------------------------------------------- missing values


def impute_medians(table: Table, rows: Array | None = None) -> Table:
    """Replace missing values by the medians of `rows`, or of all rows, if the table asks for it."""
    if table.missing != "median" or not np.isnan(table.X).any():
        return table
    return replace(table, X=imputer().fit(table.X if rows is None else table.X[rows]).transform(table.X))


def describe_missing(table: Table, units: Table) -> Iterator[str]:
    """Describe how missing values are treated; `units` are the rows that are ranked and tested."""
    if not np.isnan(table.X).any():
        return
    if table.missing == "median":
        yield "Ranking and tests take the medians of all samples; half-samples and folds those of their own."
    left_out = np.flatnonzero(too_many_missing(np.isnan(units.X).sum(axis=0), len(units.X), MAX_MISSING))
    if len(left_out):
        columns = f"{len(left_out)} columns are" if len(left_out) > 1 else "1 column is"
        names = list_first([table.names[j] for j in left_out.tolist()], NAMED)
        yield f"{columns} not ranked or tested, because more than half of the values are missing: {names}."


# ---------------------------------------------------------------- groups


def average_groups(table: Table) -> Table:
    """Return one row per group, the mean of its samples, if the target is the same within each group."""
    # samples of one donor are not independent evidence on what differs between donors
    if table.groups is None:
        return table
    groups, first, codes = np.unique(table.groups, return_index=True, return_inverse=True)
    if len(groups) == len(table.y) or not np.array_equal(table.y[first][codes], table.y):
        return table
    if len(groups) < LEAST_HALF:
        raise ValueError(
            f"the target is the same within each of the {len(groups)} groups, and fewer than {LEAST_HALF} groups tell "
            "nothing about it; leave the groups out only if samples of a group are independent."
        )
    X = average_rows(table.X, codes, nominal_mask(table))
    batch = None if table.batch is None else batches_of_groups(table.batch, codes)
    covariates = {name: _average_covariate(values, codes) for name, values in table.covariates.items()}
    return replace(table, X=X, y=table.y[first], groups=None, batch=batch, covariates=covariates, ids=None)


def _average_covariate(values: Array, groups: Array) -> Array:
    """Return the mean of a covariate in every group; the first entry of text."""
    if values.dtype.kind in "fiub":
        return average_rows(values.astype(np.float64)[:, None], groups, np.zeros(1, dtype=bool))[:, 0]
    return np.asarray(values[np.unique(groups, return_index=True)[1]])


def nominal_mask(table: Table) -> Array:
    """Return a mask of the nominal features."""
    return np.isin(np.arange(len(table.names)), table.nominal)
