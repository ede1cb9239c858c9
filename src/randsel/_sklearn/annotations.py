"""Checks of the information on samples and columns that estimators take in addition to X and y.

Samples have groups, batches and covariates. Parameters list columns by name, by index or as a mask. The last functions
are for meta-estimators, which pass rows of data and metadata on to other estimators.
"""

import difflib
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import has_fit_parameter, validate_data

from randsel._numerics.arrays import complement, is_sparse, remote_table, to_numpy
from randsel._numerics.missing import too_many_missing
from randsel._numerics.nuisance import Covariates
from randsel._utils.text import list_first, warn
from randsel._utils.typing import Array


def check_labels(labels: Any, name: str, weights: Array | None, m: int) -> Array | None:
    """Return labels of samples, such as groups, as numbers from 0; without samples of weight zero."""
    if labels is None:
        return None
    values = np.asarray(labels)
    if values.shape != (m,):
        raise ValueError(f"{name} must hold one entry per sample ({m}), but its shape is {values.shape}.")
    missing = [
        row
        for row, value in enumerate(values.tolist())
        if _is_missing(value) or (isinstance(value, float) and math.isinf(value))
    ]
    if missing:
        raise ValueError(
            f"{name} must hold one entry per sample, but {len(missing)} of {m} are missing, the first in row "
            f"{missing[0]}; fill them in, or drop these samples."
        )
    codes: Array = np.unique(values.astype(str) if values.dtype.kind == "O" else values, return_inverse=True)[1]
    return codes if weights is None else codes[weights > 0.0]


def _is_missing(value: Any) -> bool:
    """Return whether a value is None, or the NaN of any library."""
    equals_itself = value == value  # noqa: PLR0124 (NaN does not; of pandas.NA, this is no truth value)
    return value is None or not isinstance(equals_itself, bool | np.bool_) or not equals_itself


def check_strata(y: Array, strata: Array, name: str) -> None:
    """Raise ValueError if y is constant within every stratum, and warn if it is within some.

    `name` is the name of the parameter by which the strata were passed.
    """
    is_constant = [len(np.unique(y[strata == s], axis=0)) == 1 for s in np.unique(strata)]
    if all(is_constant):
        raise ValueError(
            f"y is constant within every {name}, so no comparison within them is possible; leave {name} out."
        )
    if any(is_constant):
        warn(
            f"y is constant within {sum(is_constant)} of {len(is_constant)} strata of {name}; their samples tell "
            "nothing.",
            stacklevel=4,
        )


def check_covariates(covariates: Any, m: int) -> Covariates:
    """Return covariates of m samples as columns of numbers; text and categories become indicators of their levels."""
    if isinstance(covariates, Covariates):
        return covariates
    columns = [(name, np.asarray(values)) for name, values in _named_columns(covariates)]
    blocks, names, numeric = [np.zeros((m, 0))], [], []
    for name, column in columns:
        if column.shape != (m,):
            raise ValueError(
                f"covariates must have one row per sample ({m}), but {name!r} has the shape {column.shape}; pass one "
                "value per row of X."
            )
        missing = np.array([_is_missing(value) for value in column.tolist()])
        if missing.any() or (column.dtype.kind == "f" and not np.isfinite(column).all()):
            row = int(np.flatnonzero(missing if missing.any() else ~np.isfinite(column))[0])
            problem = "missing" if missing.any() else "infinite"
            raise ValueError(
                f"covariates are not known for all samples: {name!r} is {problem} in row {row}; fill it in, or drop "
                "the sample."
            )
        numbers = _as_numbers(column)
        if numbers is not None:
            blocks.append(numbers[:, None])
            names.append(name)
            numeric.append(True)
            continue
        levels, codes = np.unique(column.astype(str), return_inverse=True)
        if len(levels) > m / 2:
            raise ValueError(
                f"The covariate {name!r} has {len(levels)} levels for {m} samples, so it would explain most of "
                "y; pass numbers, or broader categories."
            )
        first = 1 if len(levels) == 2 else 0  # the indicators of two levels hold the same information
        blocks.append(np.eye(len(levels))[codes, first:])
        names += [f"{name}={level}" for level in levels[first:]]
        numeric += [False] * len(levels[first:])
    return Covariates(np.concatenate(blocks, axis=1), tuple(names), np.array(numeric, dtype=bool))


def _named_columns(covariates: Any) -> list[tuple[str, Any]]:
    """Return the columns of a data frame, mapping or array of one or two dimensions, with their names."""
    if isinstance(covariates, Mapping):
        return [(str(name), values) for name, values in covariates.items()]
    if hasattr(covariates, "columns"):
        refuse_repeated_names(covariates, "covariates")
        return [(str(name), covariates[name]) for name in covariates.columns]
    values = np.asarray(covariates)
    if values.ndim == 1:
        return [("covariate", values)]
    if values.ndim != 2:
        raise ValueError(f"covariates must have one or two dimensions, not {values.ndim}; pass a column per covariate.")
    return [(f"column {j}", column) for j, column in enumerate(values.T)]


def _as_numbers(column: Array) -> Array | None:
    """Return a column of numbers or truth values as numbers; None for text."""
    if column.dtype.kind in "fiub":
        return column.astype(np.float64)
    if column.dtype.kind == "O" and all(isinstance(value, (int, float, np.number)) for value in column.tolist()):
        return column.astype(np.float64)
    return None


def refuse_repeated_names(frame: Any, name: str = "X") -> None:
    """Raise ValueError if columns of a data frame have the same name: results could not tell them apart."""
    names = list(map(str, getattr(frame, "columns", ())))
    if len(set(names)) < len(names):
        repeated = [column for column, count in Counter(names).items() if count > 1]
        others = f" and {len(repeated) - 1} other names" if len(repeated) > 1 else ""
        raise ValueError(
            f"Columns of {name} share the name {repeated[0]!r}{others}; rename them, or pass {name}.to_numpy()."
        )


# ---------------------------------------------------------------- columns that parameters list, and columns left out


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


def warn_of_incomplete_columns(selector: Any, counts: Array, n_samples: int) -> None:
    """Warn of the columns that are left out because more than `max_missing` of the samples have no value.

    `counts` are the numbers of missing values of all columns.
    """
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


def warn_of_explained_columns(X: Any, names: Any, columns: Array) -> None:
    """Warn of columns that vary, but were left out because batches and covariates explain them."""
    if remote_table(X) is not None:
        return
    left_out = complement(columns, X.shape[1])
    values = X[:, left_out]
    values = values.toarray() if is_sparse(values) else to_numpy(values)
    explained = left_out[np.ptp(values, axis=0) > 0.0]
    if len(explained):
        listed = list_first([str(j) if names is None else repr(str(names[j])) for j in explained.tolist()], 3)
        columns_are = ("1 column", "it is") if len(explained) == 1 else (f"{len(explained)} columns", "they are")
        warn(
            f"Batches and covariates explain {columns_are[0]} of X completely ({listed}); {columns_are[1]} left out.",
            stacklevel=4,
        )


# ---------------------------------------------------------------- meta-estimators


def record_columns(estimator: Any, X: Any) -> None:
    """Set `n_features_in_` and `feature_names_in_` of an estimator that leaves all other checks of X to another one."""
    shape = X.shape if hasattr(X, "shape") else np.shape(X)
    if len(shape) != 2:
        raise ValueError(
            f"Expected 2D array, with a row per sample and a column per feature, but the shape of X is {shape}. "
            "Reshape your data."
        )
    if not shape[0]:
        raise ValueError(f"Found array with 0 sample(s) (shape={shape}); check how the table was read.")
    validate_data(estimator, X=X, skip_check_array=True)


def take_rows(values: Any, rows: Any) -> Any:
    """Return some rows of an array, data frame, sparse matrix or mapping of columns; None for None."""
    if values is None:
        return None
    if isinstance(values, Mapping):
        return {name: take_rows(column, rows) for name, column in values.items()}
    if hasattr(values, "iloc"):
        return values.iloc[rows]
    if hasattr(values, "tocsr"):  # some sparse formats cannot be indexed
        return values.tocsr()[rows]
    return values[rows] if hasattr(values, "shape") else np.asarray(values)[rows]


def accepted_metadata(estimator: Any, metadata: dict[str, Any], required: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the metadata that is not None and that `fit` of the estimator accepts.

    Raises ValueError if it does not accept what is `required`: dropping it silently would change the result.
    """
    accepted = {}
    for name, values in metadata.items():
        if values is None:
            continue
        if has_fit_parameter(estimator, name):
            accepted[name] = values
        elif name in required:
            raise ValueError(
                f"{name} was passed, but fit of {type(estimator).__name__} does not take it; leave it out, or use a "
                "selector that does."
            )
    return accepted
