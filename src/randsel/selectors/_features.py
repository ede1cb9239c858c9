"""Turns a table into the features of the kernel: standardised columns, or functions of their ranks."""

import math
from typing import Any

import numpy as np
from scipy.stats import f, rankdata

from randsel._numerics.arrays import (
    as_array_like,
    check_device,
    is_coarse,
    is_sparse,
    on_host,
    remote_table,
    take_columns,
    to_device,
    to_double,
    to_numpy,
)
from randsel._numerics.column_sources import DEFAULT_BYTES, MappedColumns, Scaling, SparseColumns, stored_bytes
from randsel._numerics.columns import ColumnSource, canonical_order, memory_for_columns
from randsel._numerics.missing import missing_per_row
from randsel._numerics.nuisance import MIN_LEFT, Nuisance
from randsel._numerics.rank_functions import rank_functions
from randsel._numerics.standardise import standardise
from randsel._sklearn.annotations import describe_column, find_distinct_columns
from randsel._utils.typing import Array

#: Tables in single precision are converted to double precision if they have at most this many values. Culling amplifies
#: rounding errors: if they decide which of two noise features is dropped, later rounds have other features.
SMALL_TABLE = 1 << 22
#: With kernel="rank", number of functions of its ranks that replace a column.
RANK_FUNCTIONS = 4
#: Missing values count as dependent on the outcome from this p-value on.
DEPENDENT_P = 0.05


def prepare_features(
    selector: Any, X: Any, scale: bool | str, weights: Array | None, nuisance: Nuisance | None = None
) -> tuple[Any, Array]:
    """Return the features of the kernel, columns that vary or functions of their ranks, and the column of each.

    Nuisance variables are projected out of them.
    """
    if selector.kernel != "rank":
        return _standardised(selector, X, scale, weights, nuisance)
    Z, columns = _standardised(selector, X, scale, weights, None)
    missing = np.isnan(to_numpy(X)[:, columns]) if selector.missing_counts_.any() else None
    return _rank_columns(Z, columns, weights, missing, nuisance)


def _standardised(
    selector: Any, X: Any, scale: bool | str, weights: Array | None, nuisance: Nuisance | None
) -> tuple[Any, Array]:
    """Return the columns that vary, standardised, and their indices; on a device or a cluster if X is there.

    In memory, they are sorted by their values, so that results do not depend on the order of the columns of X.
    With coarse products, or a table read in blocks, rounding has larger effects than the order.
    """
    scaling = Scaling(weights, scale, selector.max_missing, nuisance)
    max_bytes = None if selector.max_memory is None else memory_for_columns(selector.max_memory, *X.shape)
    if (remote := remote_table(X)) is not None:
        if selector.kernel == "rank" or selector.estimator != "exact" or selector.device not in (None, "cpu"):
            raise ValueError(
                "A Dask array needs kernel='gaussian', estimator='exact' and no device; for other choices pass an "
                "array in memory, such as X.compute()."
            )
        columns, indices = remote.standardised_columns(scaling, max_bytes)
        selector.missing_counts_ = columns.n_missing
        return columns, indices
    device = check_device(selector.device, X)
    if is_sparse(X):
        _refuse_other_than_exact(selector, "X is sparse and too large for a dense array")
        limit = DEFAULT_BYTES if max_bytes is None else _memory_beside_stored(X, selector.max_memory, max_bytes)
        return SparseColumns.from_matrix(X, scaling, max_bytes=limit, device=device)
    if selector.device == "cpu":
        X = to_numpy(X)
    if max_bytes is not None and on_host(X) and X.size * (X.itemsize if scale else 8) > max_bytes:
        _refuse_other_than_exact(selector, "max_memory is too small for X")
        stream = MappedColumns.from_table(X, scaling, max_bytes=max_bytes, device=device)
        return stream, stream.columns
    size = math.prod(X.shape)
    if size <= SMALL_TABLE and (max_bytes is None or 8 * size <= max_bytes):
        X = to_double(X)
    complete = not selector.missing_counts_.any()
    Z, varies = standardise(to_device(X, device), weights, scale, selector.max_missing, nuisance, complete=complete)
    if is_coarse(Z, Z.shape[1]):
        return Z, np.flatnonzero(varies)
    order = canonical_order(Z)
    return take_columns(Z, order), np.flatnonzero(varies)[order]


def _memory_beside_stored(X: Any, max_memory: int | str, max_bytes: int) -> int:
    """Return the bytes for dense columns beside the standardised values of a sparse X; refuse if there are too few."""
    left, least = max_bytes - stored_bytes(X), 64 * 8 * X.shape[0]
    if left < least:
        raise ValueError(
            f"max_memory={max_memory!r} is too little for X, whose standardised values take "
            f"{stored_bytes(X) / 1e6:.0f} MB although they are sparse; allow more, or leave max_memory out."
        )
    return int(left)


def _refuse_other_than_exact(selector: Any, cause: str) -> None:
    """Raise ValueError if the options of the selector need all columns in memory."""
    if selector.kernel == "rank" or selector.estimator != "exact":
        raise ValueError(f"{cause}, and only kernel='gaussian' with estimator='exact' reads it in blocks.")


def missing_values_follow(selector: Any, X: Any, Y: Array) -> bool:
    """Return whether the number of missing values of a sample depends on the outcome Y, by an F test of its ranks.

    Missing values are not counted in a Dask array, for which the answer is no.
    """
    if not selector.missing_counts_.any() or remote_table(X) is not None:
        return False
    ranks, design = rankdata(missing_per_row(X)), np.column_stack([np.ones(len(Y)), Y])
    fit, _, rank, _ = np.linalg.lstsq(design, ranks, rcond=None)
    total, left = np.square(ranks - ranks.mean()).sum(), np.square(ranks - design @ fit).sum()
    statistic = (total - left) / (rank - 1) / max(left / max(len(Y) - rank, 1), 1e-12)
    return bool(total > 0.0 and f.sf(statistic, rank - 1, max(len(Y) - rank, 1)) <= DEPENDENT_P)


def array_on_device_of(Z: Any) -> Any:
    """Return an array on the device on which blocks of columns are computed with: Z itself, or an empty one."""
    return to_device(np.zeros(0), Z.device) if isinstance(Z, ColumnSource) else Z


def _rank_columns(
    Z: Array, columns: Array, weights: Array | None, missing: Array | None, nuisance: Nuisance | None
) -> tuple[Array, Array]:
    """Return rank functions of all columns, as columns, and for each of them its column of X."""
    sample_weights = np.ones(len(Z)) if weights is None else weights * (len(Z) / weights.sum())
    values = to_numpy(Z) if missing is None else np.where(missing, np.nan, to_numpy(Z))
    functions = rank_functions(values, RANK_FUNCTIONS, sample_weights, np.zeros(Z.shape[1], dtype=bool))
    if not functions.counts.any():
        raise ValueError(
            "No column of X has two levels seen often enough for kernel='rank', which pools rare levels; use "
            "kernel='gaussian'."
        )
    exists = np.arange(RANK_FUNCTIONS) < functions.counts[:, None]
    values = functions.values[exists].T
    values, columns = values - values.mean(axis=0), np.repeat(columns, functions.counts)
    if nuisance is not None:
        varies = nuisance.remove_from_columns(values, rescale=True) > MIN_LEFT
        values, columns = values[:, varies], columns[varies]
    return as_array_like(values, Z, precise=False), columns


def columns_to_keep(selector: Any, n_to_select: int | None = None) -> list[int]:
    """Return the columns of X that `always_keep` lists; X is checked already.

    Raises ValueError if they are more than the number of features to select.
    """
    if selector.always_keep is None:
        return []
    names = getattr(selector, "feature_names_in_", None)
    columns = find_distinct_columns(selector.always_keep, "always_keep", selector.n_features_in_, names)
    if n_to_select is not None and n_to_select < len(columns):
        raise ValueError(
            f"n_features_to_select={selector.n_features_to_select} selects fewer features ({n_to_select}) than "
            f"always_keep lists ({len(columns)}); select at least as many."
        )
    return columns


def positions_to_keep(selector: Any, columns: Array) -> list[int]:
    """Return the positions of the features to keep among those of the kernel, which belong to `columns` of X.

    With rank functions, a column of X has several positions. Raises ValueError if it has none.
    """
    positions: list[int] = []
    for column in columns_to_keep(selector):
        belonging = np.flatnonzero(columns == column)
        if not len(belonging):
            name = describe_column(column, getattr(selector, "feature_names_in_", None))
            rare = " has no two levels seen often enough," if selector.kernel == "rank" else ""
            raise ValueError(
                f"always_keep lists {name}, which is constant in these samples,{rare} has too many missing values, or "
                "is explained by batch and covariates: features cannot add to it. Leave it out of always_keep."
            )
        positions += belonging.tolist()
    return positions
