"""Features that a run keeps by request (`Settings.keep`)."""

import numpy as np

from randsel._numerics.missing import MAX_MISSING, columns_vary, too_many_missing
from randsel._sklearn.named_columns import find_distinct_columns
from randsel._utils.typing import Array
from randsel.analysis._model import Settings
from randsel.tables import Table


def check_columns_to_keep(table: Table, settings: Settings) -> tuple[int, ...]:
    """Return the columns to keep, in a table without missing values.

    Raises ValueError if one is unknown or constant, or if `top` is smaller than their number.
    """
    columns = columns_to_keep(table, settings)
    varying = varying_columns(table.X, columns)
    if len(varying) < len(columns):
        name = next(table.names[column] for column in columns if column not in varying)
        raise ValueError(f"keep names {name!r}, which is constant: nothing can be added to it; leave it out of keep.")
    if settings.top is not None and settings.top < len(columns):
        raise ValueError(
            f"top={settings.top} selects fewer features than the {len(columns)} to keep; raise top, or keep fewer."
        )
    return columns


def columns_to_keep(table: Table, settings: Settings) -> tuple[int, ...]:
    """Return the columns of the features that the settings name."""
    return tuple(find_distinct_columns(settings.keep, "keep", len(table.names), np.array(table.names)))


def varying_columns(X: Array, columns: tuple[int, ...]) -> list[int]:
    """Return those of the columns that vary; on a half-sample or a fold, a rare marker may be constant."""
    values = X[:, list(columns)]
    left_out = too_many_missing(np.isnan(values).sum(axis=0), len(X), MAX_MISSING)
    return [column for column, usable in zip(columns, columns_vary(values) & ~left_out, strict=True) if usable]
