"""Tasks of a fit, told to the callbacks that scikit-learn lets users set on an estimator from version 1.9 on.

The only file that knows that interface, which scikit-learn calls experimental. Before 1.9 estimators have no
`set_callbacks`, and tasks do nothing. A task that ends by an error is not told to have ended; the callbacks are torn
down all the same, by the decorator of every `fit`.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from randsel._parallel import ordered_map

try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in for the mixin of scikit-learn 1.9."""


__all__ = ["CallbackSupportMixin", "Parts", "Steps", "Task", "fit_task"]


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
    """Parts of a task one after the other, where beginning and end are told from different places."""

    def __init__(self, task: Task, name: str) -> None:
        self.task = task
        self.name = name
        self.open: Task | None = None

    def begin(self, n_subtasks: int = 0) -> Task:
        """Begin the next step, unless one is open."""
        if self.open is None:
            self.open = self.task.subtask(self.name, n_subtasks).__enter__()
        return self.open

    def end(self, attributes: Any = None) -> bool:
        """End the open step, if there is one, and return whether a callback asks to stop."""
        ended, self.open = self.open, None
        return ended is not None and ended.end(attributes)


class Parts:
    """Parts of a task, known by their names, and steps of each of them, known by how many are done."""

    def __init__(self, task: Task, names_of_steps: dict[str, str]) -> None:
        self.task = task
        self.names_of_steps = names_of_steps
        self.name: str | None = None
        self.part: Task | None = None

    def report(self, name: str, done: int, total: int) -> None:
        """Tell that so many steps of a part are done; a part begins when it is first named, and ends the one before."""
        if name != self.name:
            self.end()
            self.name, self.part = name, self.task.subtask(name, total).__enter__()
            self.done, self.steps = 0, Steps(self.part, self.names_of_steps.get(name, ""))
        for _ in range(done - self.done):
            self.steps.begin()
            self.steps.end()
        self.done = done
        if done < total:
            self.steps.begin()

    def end(self) -> None:
        """End the part that is open, and a step of it that was not needed."""
        if self.part is not None:
            self.steps.end()
            self.part.end()
            self.part = None
