"""The contract with scikit-learn: checks of the data of a fit, the base class of selectors, progress callbacks.

The only file that imports private names of scikit-learn. Error messages name the cause and the remedy.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import compress
from numbers import Integral
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.base import _fit_context as fit_context
from sklearn.feature_selection import SelectorMixin
from sklearn.utils._param_validation import HasMethods, Interval, RealNotInt, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from randsel._numerics.arrays import RemoteTable, complement, is_sparse, remote_table, to_numpy
from randsel._numerics.columns import MAX_DENSE, canonical_csc, dense_bytes, has_finite_sum, memory_for_columns
from randsel._numerics.missing import count_nonfinite, find_refused, search_nonfinite
from randsel._sklearn.annotations import check_covariates, check_labels, refuse_repeated_names
from randsel._sklearn.notebook import NotebookMixin
from randsel._utils.jobs import ordered_map
from randsel._utils.text import warn
from randsel._utils.typing import Array
from randsel.targets import CLASSES, KINDS, Annotations, OutcomeKind, check_outcome, find_kind, warn_of_guess

try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Replace the mixin of scikit-learn 1.9 by an empty class."""


#: Names of scikit-learn that other files import from here.
__all__ = ["CallbackSupportMixin", "HasMethods", "Interval", "StrOptions", "fit_context"]
#: Constraints of the parameters `n_features_to_select`, which may also be None or "auto", and `target`.
COUNT_OR_FRACTION = [Interval(Integral, 1, None, closed="left"), Interval(RealNotInt, 0, 1, closed="right")]
TARGET = [StrOptions({"auto", *KINDS})]

# ---------------------------------------------------------------- checks of data and parameters


def check_data(
    estimator: Any, X: Any, y: Any, sample_weight: Any, target: str
) -> tuple[Array, Array, OutcomeKind, Array | None]:
    """Check the data of a fit; return X, y, the kind of y, and the weights, scaled to a maximum of 1.

    Tensors may stay on their device. Missing values are counted in `missing_counts_`. A remote table is not read; its
    values are checked and counted when they are.
    """
    _refuse_masked_values_and_dates(X, "X")
    _refuse_masked_values_and_dates(y, "y")
    if hasattr(X, "columns"):
        refuse_repeated_names(X)
    warn_of_reordered_rows(X, y)
    on_device, remote = _stays_on_device(X), remote_table(X)
    y, sample_weight = _to_memory(y), _to_memory(sample_weight)
    if remote is None:
        X = _check_array(estimator, X.detach() if on_device else X)
    else:
        X = check_remote_table(estimator, remote, reset=True)
    if y is None:
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None.")
    y = check_outcome(y, target)
    rows = np.empty(X.shape[0])
    check_consistent_length(rows, y)
    weights = None if sample_weight is None else _check_weights(sample_weight, rows)
    if remote is None:
        n_missing = _check_finite(estimator, X, allow_nan=True)
        if weights is not None and n_missing.any() and not weights.all():
            n_missing = count_nonfinite(X[weights > 0.0])[0]
        estimator.missing_counts_ = n_missing
    kind = find_kind(y, target)
    weighted_y = y if weights is None else y[weights > 0.0]
    if len(weighted_y) < 4:
        raise ValueError(
            f"n_samples={len(weighted_y)} of weight above zero, but at least 4 are needed: contributions are means "
            "over pairs."
        )
    kind.check(weighted_y)
    warn_of_guess(y, target, "target={}" if hasattr(estimator, "target") else "selector=RandSel(target={})")
    return X, y, kind, weights


def check_annotations(groups: Any, batch: Any, covariates: Any, weights: Array | None, m: int) -> Annotations:
    """Check groups, batches and covariates of m samples; a single group or batch of all samples counts as none."""
    if groups is None and batch is None and covariates is None:
        return Annotations()
    labels = [check_labels(values, name, weights, m) for name, values in (("groups", groups), ("batch", batch))]
    groups, batch = (None if codes is None or codes.min() == codes.max() else codes for codes in labels)
    checked = None if covariates is None else check_covariates(covariates, m)
    if checked is not None and weights is not None:
        checked = checked.rows(weights > 0.0)
    return Annotations(groups, batch, checked)


def _check_weights(sample_weight: Any, rows: Array) -> Array:
    weights: Array = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
    weights = weights / max(weights.max(), np.finfo(np.float64).tiny)
    effective = weights.sum() ** 2 / max(weights @ weights, np.finfo(np.float64).tiny)
    if np.count_nonzero(weights) >= 4 and effective < 2.0:
        raise ValueError(
            f"sample_weight leaves effectively {effective:.3g} samples, one counts for almost all; check it."
        )
    return weights


def _to_memory(values: Any) -> Any:
    """Return a tensor, or an array that is not in memory, as a numpy array, and anything else as it is."""
    remote = remote_table(values)
    return tensor_to_numpy(values) if remote is None else remote.to_numpy()


def _check_array(estimator: Any, X: Any) -> Any:
    dtypes = [X.double().dtype, X.float().dtype] if _stays_on_device(X) else [np.float64, np.float32]
    try:
        # With `max_memory`, X is read in blocks and must not be copied.
        order = "C" if getattr(estimator, "max_memory", None) is None else None
        X = validate_data(estimator, X=X, accept_sparse="csc", dtype=dtypes, order=order, ensure_all_finite=False)
        return _dense_if_small(estimator, X, blocks=getattr(estimator, "_reads_sparse_blocks", False))
    except ValueError as error:
        column = _text_column(X) if "convert string" in str(error) else None
        if column is None:
            raise
        raise ValueError(f"{error}: column {column} of X holds text; encode it as numbers or drop it first.") from error


def _dense_if_small(estimator: Any, X: Any, *, blocks: bool) -> Any:
    """Return a sparse X as an array if it is small, otherwise as CSC if the estimator reads it in `blocks`.

    An X that is not sparse is returned as it is. Raises ValueError if the estimator needs a dense X.
    """
    if not is_sparse(X):
        return X
    max_memory, n_bytes = getattr(estimator, "max_memory", None), dense_bytes(X)
    limit = MAX_DENSE if max_memory is None else memory_for_columns(max_memory, *X.shape)
    if n_bytes <= limit:
        return X.toarray()
    if blocks:
        return canonical_csc(X)
    raise ValueError(
        f"X is sparse and would take {n_bytes / 1e9:.3g} GB as the dense array that {type(estimator).__name__} needs; "
        "select features first, such as RandSel(1000).fit_transform(X, y), or pass X.toarray() if memory allows."
    )


def check_remote_table(estimator: Any, table: RemoteTable, *, reset: bool) -> Any:
    """Check the shape and type of a table that is not in memory, let scikit-learn record them, and return its array."""
    X = table.check()
    # An array of the same shape that takes no memory.
    validate_data(estimator, X=np.broadcast_to(np.float64(0.0), X.shape), reset=reset, ensure_all_finite=False)
    return X


def check_table(estimator: Any, X: Any, *, reset: bool, allow_nan: bool = False, accept_sparse: bool = False) -> Array:
    """Check X without y, and return it as an array in double precision."""
    _refuse_masked_values_and_dates(X, "X")
    accepted: Any = "csc" if accept_sparse else False
    X = validate_data(estimator, X=X, reset=reset, accept_sparse=accepted, dtype=np.float64, ensure_all_finite=False)
    X = _dense_if_small(estimator, X, blocks=False)
    _check_finite(estimator, X, allow_nan=allow_nan)
    return np.asarray(X)


def check_classes(estimator: Any, y: Any, m: int | None = None) -> tuple[Array, Array]:
    """Return the classes, at least two, and the index of each sample's class."""
    if y is None:
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None.")
    y = check_outcome(column_or_1d(y, warn=True))
    if m is not None:
        check_consistent_length(np.empty(m), y)
    check_classification_targets(y)
    CLASSES.check(y)
    classes, codes = np.unique(y, return_inverse=True)
    return classes, codes


def _is_tensor(values: Any) -> bool:
    return type(values).__module__.split(".")[0] == "torch"


def tensor_to_numpy(X: Any) -> Any:
    """Return a tensor as a numpy array, for models of scikit-learn, and anything else as it is."""
    return to_numpy(X) if _is_tensor(X) else X


def _stays_on_device(X: Any) -> bool:
    """Whether X is a tensor that stays on its device, which scikit-learn's configuration decides."""
    if not _is_tensor(X):
        return False
    if get_config()["array_api_dispatch"]:
        return True
    if X.device.type != "cpu":
        raise ValueError(
            f"X is a tensor on {X.device}; call sklearn.set_config(array_api_dispatch=True) to compute there (scipy "
            "needs SCIPY_ARRAY_API=1 in the environment for that), or pass X.cpu()."
        )
    return False


def drop_unweighted_rows(X: Array, y: Array, weights: Array | None) -> tuple[Array, Array, Array | None]:
    """Return X, y and weights without samples of weight zero; the weights are None if the others are equal."""
    if weights is None:
        return X, y, None
    rows = weights > 0.0
    if not rows.all():
        X, y, weights = X[rows], y[rows], weights[rows]
    return X, y, None if np.all(weights == weights[0]) else weights


def categories_to_codes(X: Any) -> tuple[Any, list[int]]:
    """Return a data frame with categories replaced by codes, NaN where missing, and the categorical columns."""
    dtypes = [str(dtype) for dtype in X.dtypes] if hasattr(X, "iloc") and hasattr(X, "columns") else []
    categorical = [j for j, dtype in enumerate(dtypes) if dtype == "category"]
    if categorical:
        X = X.copy()
    for j in categorical:
        codes = X.iloc[:, j].cat.codes.astype(np.float64)
        X.isetitem(j, codes.where(codes >= 0.0))
    return X, categorical


def _refuse_masked_values_and_dates(values: Any, name: str) -> None:
    """Raise ValueError for masked values and dates, which numpy would turn into numbers."""
    if np.ma.is_masked(values):
        raise ValueError(
            f"{name} is a masked array with masked values, which would count as numbers; fill or drop them first."
        )
    dtypes = getattr(values, "dtypes", None)
    dtypes = [getattr(values, "dtype", None)] if dtypes is None or not hasattr(dtypes, "__iter__") else list(dtypes)
    columns = list(getattr(values, "columns", range(len(dtypes))))
    prefixes = ("datetime", "date", "duration")
    is_date = [getattr(dtype, "kind", "") in ("M", "m") or str(dtype).lower().startswith(prefixes) for dtype in dtypes]
    dates = list(compress(columns, is_date))
    if dates:
        raise ValueError(
            f"Unknown label type: {name} holds dates, in column {dates[0]!r}; turn them into numbers or drop them."
        )


def warn_of_reordered_rows(X: Any, y: Any) -> None:
    """Warn if X and y have the same row labels in another order, because rows are matched by position."""
    rows: Any = getattr(X, "index", None)
    outcomes: Any = getattr(y, "index", None)
    if not (hasattr(rows, "equals") and hasattr(outcomes, "equals")) or rows.equals(outcomes):
        return
    if len(rows) == len(outcomes) and rows.isin(outcomes).all() and outcomes.isin(rows).all():
        warn(
            "X and y have the same row labels in another order, and rows are matched by position, not by label; if the "
            "labels are right, pass y.loc[X.index].",
            stacklevel=5,
        )


def _text_column(X: Any) -> str | None:
    """Return the name, or the index, of the first column that does not convert to numbers."""
    names = getattr(X, "columns", None)
    values = np.asarray(X, dtype=object)
    for j in range(values.shape[1] if values.ndim == 2 else 0):
        try:
            values[:, j].astype(np.float64)
        except (ValueError, TypeError):
            return str(j) if names is None else repr(str(names[j]))
    return None


def _check_finite(estimator: Any, X: Any, *, allow_nan: bool) -> Array:
    """Raise ValueError for infinite values, and for NaN unless allowed; return the number of NaN in every column."""
    if has_finite_sum(X):
        return np.zeros(X.shape[1], dtype=int)
    counts = search_nonfinite(X)
    if (refused := find_refused(*counts, allow_nan=allow_nan)) is not None:
        raise ValueError(refused.message(getattr(estimator, "feature_names_in_", None)))
    return counts[0]


def check_number_to_select(count_or_fraction: int | float | str, n_features: int) -> int | None:
    """Return the number of features to select, None for "auto"."""
    if isinstance(count_or_fraction, str):
        return None
    if isinstance(count_or_fraction, (int, np.integer)):
        if count_or_fraction > n_features:
            raise ValueError(
                f"n_features_to_select={count_or_fraction} but X has n_features={n_features}; ask for at most these."
            )
        return int(count_or_fraction)
    return max(1, int(n_features * count_or_fraction + 1e-9))


# ---------------------------------------------------------------- base class of selectors


class Selector(NotebookMixin, CallbackSupportMixin, SelectorMixin, BaseEstimator):
    """Base class of the selectors: `support_` is the selection; y is required and may have several columns.

    X may have missing values, whose number in every column is `missing_counts_`.
    """

    _reads_sparse_blocks = False  # whether a sparse X need not be made dense

    missing_counts_: Array

    def _get_support_mask(self) -> Array:
        check_is_fitted(self)
        return np.asarray(self.support_)

    def transform(self, X: Any) -> Any:
        """Return the selected columns of X; a Dask array stays a Dask array.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Data with the columns of `fit`.

        Returns
        -------
        array or data frame of shape (n_samples, n_selected_features)
            The selected columns.
        """
        table = remote_table(X)
        if table is None:
            return super().transform(X)
        return check_remote_table(self, table, reset=False)[:, self.get_support(indices=True)]

    def __sklearn_is_fitted__(self) -> bool:
        # An interrupted fit has set `n_features_in_`, but no selection.
        return hasattr(self, "support_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.two_d_labels = True
        tags.input_tags.sparse = True
        return tags


def ranking_attributes(order: Array, n_columns: int, n_to_select: int) -> dict[str, Any]:
    """Return the attributes of a selector that selects the first columns of `order`, which has the best ones first.

    Ranks are 1 for the first `n_to_select` columns, then 2, 3, …. Columns that are not in `order` are constant or have
    too many missing values: they come last and share a rank.
    """
    ranks = np.empty(n_columns, dtype=int)
    ranks[order] = np.maximum(np.arange(len(order)) + 2 - n_to_select, 1)
    if len(order) < n_columns:
        constant = complement(order, n_columns)
        ranks[constant] = max(len(order) - n_to_select + 2, 2)
        if n_to_select > len(order):
            warn(
                f"{n_to_select} features were asked for but only {len(order)} vary; the selection was filled up with "
                "columns that are constant or left out, which carry no information.",
                stacklevel=5,
            )
            ranks[constant[: n_to_select - len(order)]] = 1
        order = np.concatenate([order, constant])
    support = ranks == 1
    return {"order_": order, "ranking_": ranks, "support_": support, "n_features_": int(support.sum())}


# ---------------------------------------------------------------- progress callbacks
# Since version 1.9, scikit-learn lets users set callbacks on an estimator. That interface is experimental. Before 1.9,
# tasks do nothing. A task that fails is not reported as finished; the decorator of `fit` closes the callbacks in any
# case.


@dataclass
class Task:
    """A part of a fit; `with task:` reports its beginning and its end to the callbacks of the estimator."""

    estimator: Any
    context: Any
    is_whole_fit: bool = False

    def __enter__(self) -> "Task":
        if self.context is not None:
            self.context.call_on_fit_task_begin(estimator=self.estimator)
        return self

    def __exit__(self, error: Any, *_: object) -> None:
        if error is None:
            self.end({} if self.is_whole_fit else None)

    def end(self, attributes: dict[str, Any] | Callable[[], dict[str, Any]] | None = None) -> bool:
        """Report the end of the task, and return whether a callback asks to stop.

        Callbacks may ask for an estimator that is fitted up to here: a copy with `attributes`, which is a dictionary or
        a function that returns one. If it is empty, the estimator itself is fitted.
        """
        if self.context is None:
            return False
        return bool(self.context.call_on_fit_task_end(estimator=self.estimator, reconstruction_attributes=attributes))

    def subtask(self, name: str, n_subtasks: int = 0, *, number: int | None = None, in_order: bool = True) -> "Task":
        """Return a subtask, which has at most `n_subtasks` itself; subtasks that run in parallel need numbers."""
        if self.context is None:
            return self
        context = self.context.subcontext(name, task_id=number, max_subtasks=n_subtasks, sequential_subtasks=in_order)
        return Task(self.estimator, context)

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call the function as this task."""
        with self:
            return function(*args)

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with every call reported as a subtask."""
        return lambda *args: self.subtask(name).run(function, *args)

    def map(
        self, name: str, function: Callable[..., Any], entries: Sequence[tuple[Any, ...]], n_jobs: int | None
    ) -> list[Any]:
        """Return `ordered_map` of the function with every call reported as a subtask."""
        calls = [(self.subtask(name, number=number), function, *entry) for number, entry in enumerate(entries)]
        return ordered_map(Task.run, calls, n_jobs)

    def delegate_to(self, estimator: Any) -> AbstractContextManager[None]:
        """Return a context in which the fit of another estimator is reported as this task."""
        return nullcontext() if self.context is None else self.context.propagate_callback_context(estimator)

    def picklable_stand_in(self) -> "Task":
        """Return a task without callbacks, for other machines, which cannot call them."""
        return Task(None, None)

    @property
    def has_callbacks(self) -> bool:
        """Whether the estimator has any callback."""
        return bool(getattr(self.estimator, "_skl_callbacks", None))


def fit_task(estimator: Any, n_subtasks: int, *, in_order: bool = True) -> Task:
    """Return the task of a whole fit, with at most `n_subtasks` subtasks, which run in order or in parallel.

    Enter it after the data are checked, and set the attributes of the estimator within it.
    """
    context = None
    if hasattr(estimator, "set_callbacks"):
        context = estimator._init_callback_context(max_subtasks=n_subtasks, sequential_subtasks=in_order)
    return Task(estimator, context, is_whole_fit=True)


class Steps:
    """Consecutive subtasks of a task, each divided into blocks, for code that cannot use `with`."""

    def __init__(self, task: Task) -> None:
        self.task, self.name = task, ""
        self.open: list[Task] = []  # the open step, and its open block

    def begin(self, name: str, n_blocks: int = 0, block: str = "block") -> None:
        """Begin the next step and its first block, if it has any; do nothing while a step is open."""
        if not self.open:
            self.name, self.block_name, self.n_done, self.n_blocks = name, block, 0, n_blocks
            self.open = [self.task.subtask(name, n_blocks).__enter__()]
            self._begin_block()

    def block_done(self) -> None:
        """End a block, and begin the next one if any is left."""
        if len(self.open) == 2:
            self.open.pop().end()
            self.n_done += 1
            self._begin_block()

    def _begin_block(self) -> None:
        if self.n_done < self.n_blocks:
            self.open.append(self.open[0].subtask(self.block_name).__enter__())

    def end(self, attributes: Any = None) -> bool:
        """End the open step and its open block, if any; return whether a callback asks to stop."""
        if len(self.open) == 2:
            self.open.pop().end()
        return bool(self.open) and self.open.pop().end(attributes)
