"""Rows of arrays and tables of any type, and what is passed on to `fit` of another estimator."""

from typing import Any

import numpy as np
from sklearn.utils.validation import has_fit_parameter, validate_data


def record_columns(estimator: Any, X: Any) -> None:
    """Set `n_features_in_` and `feature_names_in_` of an estimator that leaves all other checks of X to another one."""
    validate_data(estimator, X=X, skip_check_array=True)


def take_rows(values: Any, rows: Any) -> Any:
    """Return some rows of an array, data frame or sparse matrix; None for None."""
    if values is None:
        return None
    if hasattr(values, "iloc"):
        return values.iloc[rows]
    if hasattr(values, "tocsr"):  # some sparse formats cannot be indexed
        return values.tocsr()[rows]
    return values[rows] if hasattr(values, "shape") else np.asarray(values)[rows]


def accepted_metadata(estimator: Any, metadata: dict[str, Any], required: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return what of the metadata is not None and is a parameter of `fit` of the estimator.

    Raises ValueError if it does not accept what is `required`: dropping it silently would change the result.
    """
    given = {name: values for name, values in metadata.items() if values is not None}
    refused = [name for name in given if not has_fit_parameter(estimator, name)]
    for name in refused:
        if name in required:
            raise ValueError(
                f"{name} was passed, but fit of {type(estimator).__name__} does not take it; leave it out, or use a "
                "selector that does."
            )
    return {name: values for name, values in given.items() if name not in refused}
