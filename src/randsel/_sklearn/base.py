"""The base class of selectors, ranks of features, and tasks that report progress to callbacks.

Since version 1.9, scikit-learn lets users set callbacks on an estimator. That interface is experimental; only this file
uses it. Before 1.9, tasks do nothing. A task that fails is not reported as finished; the decorator of `fit` closes the
callbacks in any case.
"""

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted

from randsel._numerics.arrays import complement, remote_table
from randsel._sklearn.validation import check_remote_table
from randsel._utils.jobs import ordered_map
from randsel._utils.typing import Array

try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Replace the mixin of scikit-learn 1.9 by an empty class."""


__all__ = ["CallbackSupportMixin", "Selector", "Steps", "Task", "fit_task", "rank_columns"]


class Selector(CallbackSupportMixin, SelectorMixin, BaseEstimator):
    """Base class of the selectors: `support_` is the selection; y is required and may have several columns."""

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
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.two_d_labels = True
        return tags


def rank_columns(order: Array, n_columns: int, n_to_select: int) -> tuple[Array, Array]:
    """Return all columns, best first, and their ranks: 1 for the first `n_to_select`, then 2, 3, ….

    Columns that are not in `order` are constant: they come last and share the last rank.
    """
    ascending = np.arange(2 - n_to_select, len(order) + 2 - n_to_select)
    ascending[:n_to_select] = 1
    ranks = np.empty(n_columns, dtype=int)
    ranks[order] = ascending
    if len(order) == n_columns:
        return order, ranks
    constant = complement(order, n_columns)
    ranks[constant] = max(len(order) - n_to_select + 2, 2)
    if n_to_select > len(order):
        warnings.warn(
            f"{n_to_select} features were asked for but only {len(order)} vary; the selection was filled up with "
            "constant columns, which carry no information.",
            UserWarning,
            stacklevel=5,
        )
        ranks[constant[: n_to_select - len(order)]] = 1
    return np.concatenate([order, constant]), ranks


# ---------------------------------------------------------------- progress callbacks


class Task:
    """A part of a fit; `with task:` reports its beginning and its end to the callbacks of the estimator."""

    def __init__(self, estimator: Any, context: Any) -> None:
        self.estimator = estimator
        self.context = context

    def __enter__(self) -> "Task":
        if self.context is not None:
            self.context.call_on_fit_task_begin(estimator=self.estimator)
        return self

    def __exit__(self, error: Any, *_: object) -> None:
        if error is None:
            self.end()

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

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with every call reported as a subtask."""

        def call(*args: Any) -> Any:
            with self.subtask(name):
                return function(*args)

        return call

    def map(
        self, name: str, function: Callable[..., Any], entries: Sequence[tuple[Any, ...]], n_jobs: int | None
    ) -> list[Any]:
        """Return `ordered_map` of the function with every call reported as a subtask."""
        calls = [(self.subtask(name, number=number), function, *entry) for number, entry in enumerate(entries)]
        return ordered_map(_call_within, calls, n_jobs)

    def delegate_to(self, estimator: Any) -> AbstractContextManager[None]:
        """Return a context in which the fit of another estimator is reported as this task."""
        if self.context is None:
            return nullcontext()
        context: AbstractContextManager[None] = self.context.propagate_callback_context(estimator)
        return context

    def picklable_stand_in(self) -> "Task":
        """Return a task without callbacks, for other machines, which cannot call them."""
        return Task(None, None)

    @property
    def has_callbacks(self) -> bool:
        """Whether the estimator has any callback."""
        return bool(getattr(self.estimator, "_skl_callbacks", None))


def _call_within(task: Task, function: Callable[..., Any], *args: Any) -> Any:
    with task:
        return function(*args)


class Fit(Task):
    """The task of a whole fit; at its end the estimator is fitted."""

    def __exit__(self, error: Any, *_: object) -> None:
        if error is None:
            self.end({})


def fit_task(estimator: Any, n_subtasks: int, *, in_order: bool = True) -> Fit:
    """Return the task of a whole fit, with at most `n_subtasks` subtasks, which run in order or in parallel.

    Enter it after the data are checked, and set the attributes of the estimator within it.
    """
    if not hasattr(estimator, "set_callbacks"):
        return Fit(estimator, None)
    context = estimator._init_callback_context(max_subtasks=n_subtasks, sequential_subtasks=in_order)
    return Fit(estimator, context)


class Steps:
    """Consecutive subtasks of a task, each divided into blocks, for code that cannot use `with`."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.name = ""
        self.step: Task | None = None
        self.block: Task | None = None

    def begin(self, name: str, n_blocks: int = 0, block: str = "block") -> None:
        """Begin the next step and its first block, if it has any; do nothing while a step is open."""
        if self.step is None:
            self.name, self.block_name = name, block
            self.n_done, self.n_blocks = 0, n_blocks
            self.step = self.task.subtask(name, n_blocks).__enter__()
            self._begin_block()

    def block_done(self) -> None:
        """End a block, and begin the next one if any is left."""
        if self.block is not None:
            self.block.end()
            self.n_done += 1
            self._begin_block()

    def _begin_block(self) -> None:
        self.block = None
        if self.step is not None and self.n_done < self.n_blocks:
            self.block = self.step.subtask(self.block_name).__enter__()

    def end(self, attributes: Any = None) -> bool:
        """End the open step and its open block, if any; return whether a callback asks to stop."""
        if self.block is not None:
            self.block.end()
            self.block = None
        step, self.step = self.step, None
        return step is not None and step.end(attributes)
