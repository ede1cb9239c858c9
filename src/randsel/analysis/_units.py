"""The units that are compared: samples, or groups of samples that share an outcome."""

from dataclasses import replace

import numpy as np

from randsel._utils.typing import Array
from randsel.tables import Table
from randsel.targets import average_rows, batches_of_groups

LEAST_HALF = 4  # minimum number of samples, or groups, in a half


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
            "nothing about it; leave --groups out only if samples of a group are independent."
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
