"""Cells of errors.py and outcomes.py: each simulates one data set and returns what its tests decided."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

#: Levels of the tests.
LEVELS = (0.05, 0.001)
#: Data sets per block; a block is what is simulated and stored at once.
BLOCK = 10
#: Name of the p-values of this package among those of other tests.
OURS = "randsel"


class Tally(NamedTuple):
    """Sum over the p-values of one data set: `total / weight` is the estimate of the data set."""

    measure: str
    test: str
    weight: float
    total: float


@dataclass(frozen=True)
class Cell:
    """A simulated situation: `simulate(rng)` returns the tallies of one data set."""

    name: str  # "size/classes/...": parts from general to special; the first two are the section
    n_sets: int
    simulate: Callable[[np.random.Generator], list[Tally]]
    missing: str = ""  # reason why it cannot be simulated
    block: int = BLOCK
    files: tuple[str, ...] = ()  # files that decide its result, beside those of all cells
    packages: tuple[str, ...] = ()  # subpackages that decide its result, beside those of the page


def level_name(level):
    return f"p ≤ {level:g}".replace("0.", ".")


def count_below(pvalues, test=OURS, levels=LEVELS):
    """Return how many p-values are at most each level."""
    pvalues = np.atleast_1d(pvalues)
    # a p-value of 50 / 1000 permutations must not fail by rounding
    return [Tally(level_name(x), test, len(pvalues), float((pvalues <= x * (1 + 1e-9)).sum())) for x in levels]


def value_of(measure, test, value):
    """Return the tally of a data set that has one value."""
    return Tally(measure, test, 1.0, float(value))


def any_called(pvalues, test=OURS, measure="any called", level=0.05):
    """Return 1 if the smallest of the p-values is at most the level after correction for their number."""
    return value_of(measure, test, pvalues.min() * len(pvalues) <= level)
