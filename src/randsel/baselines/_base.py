"""Shared code of the methods: the base class, backward elimination, and sums over kernels."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from randsel._numerics.columns import canonical_order, standardise
from randsel._numerics.kernels import UNDERFLOW, bandwidth
from randsel._sklearn.base import (
    Interval,
    RealNotInt,
    Selector,
    StrOptions,
    Task,
    check_data,
    check_number_to_select,
    fit_context,
    fit_task,
    rank_columns,
)
from randsel._utils.typing import Array
from randsel.targets import KINDS, OutcomeKind

#: Elements per scratch array, few enough to stay in cache.
SCRATCH = 1 << 16

#: Constraints of parameters that several methods have.
COUNT_AND_TARGET: dict[str, list[Any]] = {
    "n_features_to_select": [
        Interval(Integral, 1, None, closed="left"),
        Interval(RealNotInt, 0, 1, closed="right"),
        None,
    ],
    "target": [StrOptions({"auto", *KINDS})],
}
COMMON = {**COUNT_AND_TARGET, "scale": ["boolean"]}
GAMMA = [Interval(Real, 0, None, closed="neither"), str]
FRACTION = [Interval(Real, 0, 1, closed="neither"), None]


@dataclass(frozen=True)
class Ranked:
    """Result of a method.

    Attributes
    ----------
    order
        Columns, best first.
    n_to_select
        Number of columns to select.
    values
        Name of an attribute of the estimator -> its values, one per column.
    """

    order: Array
    n_to_select: int
    values: dict[str, Array]


class Baseline(Selector):
    """Base class: validates the data, lets the subclass rank the columns that vary, and sets the attributes."""

    n_features_to_select: int | float | None
    target: str
    _in_order = True  # whether subtasks of `_rank` run one after the other

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> "Baseline":
        """Rank and select features.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Numbers, no missing values.
        y : array of shape (n_samples,) or (n_samples, n_outputs)
            Class labels, numbers, or several columns of numbers.

        Returns
        -------
        estimator
            This estimator, fitted.
        """
        X, y, kind, _ = check_data(self, X, y, None, self.target)
        count_or_fraction = 0.5 if self.n_features_to_select is None else self.n_features_to_select
        n_to_select = check_number_to_select(count_or_fraction, X.shape[1]) or 1
        Z, varies = standardise(X, None, getattr(self, "scale", True))
        order = canonical_order(Z)
        with fit_task(self, self._count_tasks(len(order), n_to_select), in_order=self._in_order) as task:
            ranked = self._rank(Z[:, order].astype(np.float64), y, kind, n_to_select, task)
            self._set_attributes(ranked, np.flatnonzero(varies)[order], X.shape[1])
        return self

    @abstractmethod
    def _rank(self, Z: Array, y: Array, kind: OutcomeKind, n_to_select: int, task: Task) -> Ranked:
        """Rank the columns of Z, which all vary; long computations report their progress to the task."""

    def _count_tasks(self, n_columns: int, n_to_select: int) -> int:  # noqa: ARG002 (subclasses use them)
        """Return the number of subtasks that `_rank` reports."""
        return 0

    def _set_attributes(self, ranked: Ranked, columns: Array, n_features: int) -> None:
        for name, values in ranked.values.items():
            by_column = np.zeros(n_features)
            by_column[columns] = values
            setattr(self, name, by_column)
        self.order_, self.ranking_ = rank_columns(columns[ranked.order], n_features, ranked.n_to_select)
        self.support_ = self.ranking_ == 1
        self.n_features_ = int(self.support_.sum())


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


# ---------------------------------------------------------------- kernels


def checked_bandwidth(gamma: float | str, distances: Array) -> float:
    """Return the bandwidth; raise ValueError if it makes every entry of the kernel underflow."""
    value = bandwidth(gamma, distances)
    closest = float(distances[np.triu_indices(len(distances), 1)].min())
    if value * closest > 745.0:  # exp(-746) is zero in double precision
        raise ValueError(UNDERFLOW.format(value))
    return value


def kernel_sums(X: Array, distances: Array, sign: float, gamma: float, weights: Array) -> Array:
    """Return `Σ_{p≠q} w_pq exp(-γ (D_pq + sign d_j,pq))` for every column j of X, with `d_j,pq = (x_pj - x_qj)²`.

    Squared distances add up over features, so no column needs a Gram matrix of its own.
    """
    p, q = np.triu_indices(len(X), 1)
    base, w = distances[p, q], 2.0 * weights[p, q]  # every pair counts twice
    columns = np.ascontiguousarray(X.T)
    sums = np.empty(len(columns))
    step = max(1, SCRATCH // max(1, len(p)))
    for start in range(0, len(columns), step):
        block = columns[start : start + step]
        d = block.take(p, axis=1)
        d -= block.take(q, axis=1)
        np.square(d, out=d)
        d *= sign
        d += base
        np.maximum(d, 0.0, out=d)
        d *= -gamma
        np.exp(d, out=d)
        sums[start : start + step] = d @ w
    return sums
