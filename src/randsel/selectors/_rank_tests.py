"""Turns the arguments of `fit` into tests of features by their rank functions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from randsel._numerics.arrays import remote_table
from randsel._numerics.rank_functions import RankFunctionSource, rank_function_source
from randsel._sklearn.annotations import check_strata, nominal_columns, warn_of_incomplete_columns
from randsel._sklearn.base import check_annotations, drop_unweighted_rows
from randsel._utils.typing import Array
from randsel.interactions import Design, degrees_of_freedom, responses_of
from randsel.targets import Annotations, OutcomeKind, Samples

#: What `check_data` returns: X, y, kind of y, weights.
CheckedData = tuple[Any, Array, OutcomeKind, Array | None]


@dataclass(frozen=True)
class TestedData:
    """Checked arguments of `fit`, without samples of weight zero.

    Attributes
    ----------
    X, y, weights
        Table, outcome and weights.
    kind
        Kind of y.
    annotations
        Groups, batches and covariates.
    nominal
        Mask of the columns whose values are names of levels.
    """

    X: Any
    y: Array
    weights: Array | None
    kind: OutcomeKind
    annotations: Annotations
    nominal: Array


@dataclass(frozen=True)
class PreparedTests:
    """Rank functions of the columns that vary, the indices of these columns, the samples, and the design of tests."""

    functions: RankFunctionSource
    columns: Array
    samples: Samples
    design: Design


def check_tested_data(
    selector: Any, checked: CheckedData, categorical: Any, groups: Any, batch: Any, covariates: Any
) -> TestedData:
    """Check the other arguments of `fit`, after `categories_to_codes` and `check_data`; survival becomes numbers."""
    X, y, kind, weights = checked
    names = getattr(selector, "feature_names_in_", None)
    nominal = nominal_columns(selector.categorical_features, categorical, X.shape[1], names)
    annotations = check_annotations(groups, batch, covariates, weights, len(y))
    X, y, weights = drop_unweighted_rows(X, y, weights)
    y, kind = kind.to_numbers(y, weights, annotations.batch, annotations.covariate_columns)
    return TestedData(X, y, weights, kind, annotations, nominal)


def prepare_tests(
    selector: Any, data: TestedData, count_functions: Callable[[int], int], decay: float, device: str | None = None
) -> PreparedTests:
    """Return the tests of a table in memory or a remote one; set `comparison_`.

    `count_functions` returns the number of functions per feature, given the degrees of freedom. `device`
    is as in `Design`.
    """
    annotations = data.annotations
    samples = Samples.from_groups(
        data.X, data.y, data.weights, annotations.groups, annotations.batch, data.nominal, annotations.covariates
    )
    selector.comparison_ = samples.comparison
    nuisance, clusters = samples.nuisance, samples.clusters
    if samples.strata is not None:
        check_strata(samples.y, samples.strata, "groups" if samples.comparison == "within groups" else "batch")
    nuisance.check_freedom()
    n_functions = count_functions(degrees_of_freedom(nuisance, clusters))
    functions, columns = rank_function_source(
        samples.X, n_functions, nuisance.weights, data.nominal, nuisance.strata, selector.max_missing, device
    )
    _check_missing(selector, samples.X, functions)
    responses = responses_of(samples.y, data.kind, nuisance)
    if not responses:
        raise ValueError(
            "Covariates, batch or groups explain y completely, or sample_weight leaves one value of it: nothing is "
            "left for features to explain. Leave some of them out."
        )
    if not len(columns):
        raise ValueError(
            "No column of X has two levels of enough samples, so there is nothing to test; check how the table was "
            "read."
        )
    design = Design(decay ** np.arange(n_functions), responses, nuisance, clusters, selector.n_jobs, device)
    return PreparedTests(functions, columns, samples, design)


def _check_missing(selector: Any, X: Any, functions: Any) -> None:
    """Warn of columns that have too many missing values; set their numbers if the table is remote."""
    if remote_table(X) is not None:
        counts = selector.missing_counts_ = functions.n_missing
    else:  # samples of a group may have been averaged
        counts = np.isnan(X).sum(axis=0) if selector.missing_counts_.any() else selector.missing_counts_
    warn_of_incomplete_columns(selector, counts, len(X))
