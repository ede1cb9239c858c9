"""Shared code of the methods: the base class, and elimination by rounds."""

from abc import abstractmethod
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from randsel._numerics.columns import canonical_order
from randsel._numerics.missing import impute_means
from randsel._numerics.standardise import standardise
from randsel._sklearn.base import (
    COUNT_OR_FRACTION,
    TARGET,
    Interval,
    Selector,
    Task,
    check_data,
    check_number_to_select,
    fit_context,
    fit_task,
    ranking_attributes,
)
from randsel._utils.typing import Array
from randsel.targets import OutcomeKind

#: Constraints of parameters that several methods have.
COUNT_AND_TARGET: dict[str, list[Any]] = {
    "n_features_to_select": [*COUNT_OR_FRACTION, None],
    "target": TARGET,
}
COMMON = {**COUNT_AND_TARGET, "scale": ["boolean"]}
FRACTION = [Interval(Real, 0, 1, closed="neither"), None]
#: Result of a method: columns, best first; attribute name -> its values, one per column.
Ranked = tuple[Array, dict[str, Array]]


class Baseline(Selector):
    """Base class: validates the data, lets the subclass rank the columns that vary, and sets the attributes."""

    n_features_to_select: int | float | None
    target: str

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> "Baseline":
        """Rank and select features.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Numbers. Missing values (NaN) are replaced by the mean of the column.
        y : array of shape (n_samples,) or (n_samples, n_outputs)
            Class labels, numbers, several columns of numbers, or events and times, as in `RandSel`.

        Returns
        -------
        estimator
            This estimator, fitted.
        """
        X, y, kind, _ = check_data(self, X, y, None, self.target)
        y, kind = kind.to_numbers(y)
        count_or_fraction = 0.5 if self.n_features_to_select is None else self.n_features_to_select
        n_to_select = check_number_to_select(count_or_fraction, X.shape[1]) or 1
        Z, varies = standardise(impute_means(X), None, getattr(self, "scale", True))
        order = canonical_order(Z)
        with fit_task(self, self._count_tasks(len(order), n_to_select)) as task:
            ranked = self._rank(Z[:, order].astype(np.float64), y, kind, n_to_select, task)
            self._set_attributes(*ranked, np.flatnonzero(varies)[order], n_to_select)
        return self

    @abstractmethod
    def _rank(self, Z: Array, y: Array, kind: OutcomeKind, n_to_select: int, task: Task) -> Ranked:
        """Rank the columns of Z, which all vary; long computations report their progress to the task."""

    def _count_tasks(self, n_columns: int, n_to_select: int) -> int:  # noqa: ARG002 (a subclass uses it)
        """Return the number of subtasks that `_rank` reports: the rounds of `eliminate` if the method drops columns."""
        return count_rounds(n_columns, self.drop) if hasattr(self, "drop") else 0

    def _set_attributes(self, order: Array, attributes: dict[str, Array], columns: Array, n_to_select: int) -> None:
        """Set the attributes of all columns, given those of the columns that vary."""
        for name, values in attributes.items():
            by_column = np.zeros(self.n_features_in_)
            by_column[columns] = values
            setattr(self, name, by_column)
        # warns at the line that called `fit`: its stack level counts this method
        self.__dict__.update(ranking_attributes(columns[order], self.n_features_in_, n_to_select))


# ---------------------------------------------------------------- backward elimination


def fraction_of(fraction: float | None, n: int) -> int:
    """Return the number of columns, of n, that a round removes or adds: this fraction, but at least one."""
    return max(1, int((fraction or 0.0) * n))


def count_rounds(n: int, drop: float | None) -> int:
    """Return the number of rounds of `eliminate`."""
    rounds = 0
    while n:
        n, rounds = n - fraction_of(drop, n), rounds + 1
    return rounds


def eliminate(n: int, drop: float | None, worth: Callable[[Array], Array]) -> tuple[Array, Array]:
    """Drop the columns of least worth round by round, until none is left.

    `worth` returns a number for each of the columns that it gets. Returns all columns, best first, and the worth of
    each in the round that dropped it.
    """
    remaining, values = np.arange(n), np.zeros(n)
    dropped: list[Array] = []
    while len(remaining):
        values[remaining] = worth(remaining)
        worst = np.argsort(values[remaining], kind="stable")[: fraction_of(drop, len(remaining))]
        dropped.append(remaining[worst])
        remaining = np.delete(remaining, worst)
    return np.concatenate(dropped)[::-1], values
