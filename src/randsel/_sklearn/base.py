"""What estimators owe to scikit-learn: a base class for selectors, ranks of features, and tasks for progress callbacks.

From version 1.9 on, users of scikit-learn may set callbacks on an estimator. That interface is experimental, and only
this file knows it. Before 1.9 estimators have no `set_callbacks`, and tasks do nothing. A task that fails is not
reported as finished; the decorator of every `fit` closes the callbacks in any case.
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
        """Stands in for the mixin of scikit-learn 1.9."""


__all__ = ["CallbackSupportMixin", "Selector", "Steps", "Task", "fit_task", "ranking"]


class Selector(CallbackSupportMixin, SelectorMixin, BaseEstimator):
    """What the estimators share: `support_` is the selection; y is required and may have several columns."""

    def _get_support_mask(self) -> Array:
        check_is_fitted(self)
        return np.asarray(self.support_)

    def transform(self, X: Any) -> Any:
        """Return the selected columns of X; those of a Dask array stay one.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            With the columns that were fitted.

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
        # an interrupted fit leaves attributes of the data behind, and no selection
        return hasattr(self, "support_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.two_d_labels = True
        return tags


def ranking(order: Array, n_features: int, wanted: int) -> tuple[Array, Array]:
    """Order all columns, and rank them: 1 for the first `wanted`, then 2, 3, …; those not in `order` are constant.

    Constant columns come last and share the last rank.
    """
    ascending = np.arange(2 - wanted, len(order) + 2 - wanted)
    ascending[:wanted] = 1
    ranks = np.empty(n_features, dtype=int)
    ranks[order] = ascending
    if len(order) == n_features:
        return order, ranks
    constant = complement(order, n_features)
    ranks[constant] = max(len(order) - wanted + 2, 2)
    if wanted > len(order):
        warnings.warn(
            f"{wanted} features were asked for but only {len(order)} vary; the selection was filled up with constant "
            "columns, which carry no information.",
            UserWarning,
            stacklevel=5,
        )
        ranks[constant[: wanted - len(order)]] = 1
    return np.concatenate([order, constant]), ranks


# ---------------------------------------------------------------- progress callbacks


class Task:
    """A part of a fit: `with task:` tells when it begins and ends. Without callbacks that takes microseconds."""

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
        """Tell that the task has ended, and return whether a callback asks to stop.

        `attributes` are those that an estimator fitted so far has, or a function that makes them if a callback wants
        such an estimator; an empty dictionary says that the estimator has them already.
        """
        if self.context is None:
            return False
        return bool(self.context.call_on_fit_task_end(estimator=self.estimator, reconstruction_attributes=attributes))

    def subtask(self, name: str, n_subtasks: int = 0, *, number: int | None = None, in_order: bool = True) -> "Task":
        """Return a part of this task, itself of at most as many parts; those that run side by side need numbers."""
        if self.context is None:
            return self
        context = self.context.subcontext(name, task_id=number, max_subtasks=n_subtasks, sequential_subtasks=in_order)
        return Task(self.estimator, context)

    def every_call(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, every call of which is a part of this task."""

        def call(*args: Any) -> Any:
            with self.subtask(name):
                return function(*args)

        return call

    def every_entry(
        self, name: str, function: Callable[..., Any], entries: Sequence[tuple[Any, ...]], n_jobs: int | None
    ) -> list[Any]:
        """`ordered_map`, every call of which is a part of this task."""
        parts = [(self.subtask(name, number=number), function, *entry) for number, entry in enumerate(entries)]
        return ordered_map(_within, parts, n_jobs)

    def passed_to(self, estimator: Any) -> AbstractContextManager[None]:
        """Make the fit of another estimator this task; callbacks that say so are called for its parts too."""
        if self.context is None:
            return nullcontext()
        passed: AbstractContextManager[None] = self.context.propagate_callback_context(estimator)
        return passed

    def picklable_stand_in(self) -> "Task":
        """Return a task without callbacks, for other machines, from which none can be called."""
        return Task(None, None)

    @property
    def is_watched(self) -> bool:
        """Whether anybody listens to the estimator whose fit this is."""
        return bool(getattr(self.estimator, "_skl_callbacks", None))


def _within(task: Task, function: Callable[..., Any], *args: Any) -> Any:
    with task:
        return function(*args)


class Fit(Task):
    """The task that is the whole fit; at its end the estimator is fitted."""

    def __exit__(self, error: Any, *_: object) -> None:
        if error is None:
            self.end({})


def fit_task(estimator: Any, n_subtasks: int, *, in_order: bool = True) -> Fit:
    """Return the task that is the fit of an estimator, of at most as many parts, one after the other or side by side.

    To be entered once the data are checked; the estimator's attributes are set within it.
    """
    if not hasattr(estimator, "set_callbacks"):
        return Fit(estimator, None)
    context = estimator._init_callback_context(max_subtasks=n_subtasks, sequential_subtasks=in_order)
    return Fit(estimator, context)


class Steps:
    """Parts of a task one after the other, and blocks of each, where beginnings and ends are told from many places."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.name = ""
        self.step: Task | None = None
        self.block: Task | None = None

    def begin(self, name: str, n_blocks: int = 0, block: str = "block") -> None:
        """Begin the next step, and its first block if it has any; nothing happens while a step is open."""
        if self.step is None:
            self.name, self.name_of_blocks = name, block
            self.done, self.n_blocks = 0, n_blocks
            self.step = self.task.subtask(name, n_blocks).__enter__()
            self._begin_block()

    def block_done(self) -> None:
        """End a block, and begin the next one if there is any left."""
        if self.block is not None:
            self.block.end()
            self.done += 1
            self._begin_block()

    def _begin_block(self) -> None:
        self.block = None
        if self.step is not None and self.done < self.n_blocks:
            self.block = self.step.subtask(self.name_of_blocks).__enter__()

    def end(self, attributes: Any = None) -> bool:
        """End the open step, and a block that was not needed; return whether a callback asks to stop."""
        if self.block is not None:
            self.block.end()
            self.block = None
        ended, self.step = self.step, None
        return ended is not None and ended.end(attributes)
