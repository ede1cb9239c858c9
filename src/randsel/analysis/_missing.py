"""Missing values in an analysis: medians if the table asks for them, and notes."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from randsel._numerics.missing import MAX_MISSING, too_many_missing
from randsel._utils.text import list_first
from randsel._utils.typing import Array
from randsel.tables import Table, imputer

NAMED = 5  # maximum number of columns that a note names


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
