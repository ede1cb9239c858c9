"""Groups of samples that are not independent, such as those of one donor: what can be compared, and random halves."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from randsel._numerics.missing import missing_mask
from randsel._numerics.nuisance import Covariates, Nuisance
from randsel._utils.text import warn
from randsel._utils.typing import Array

#: How an outcome is compared: between samples; between groups if it is constant in every group; within groups if it
#: varies in every group; by sums over groups ("mixed") if it varies in some.
Comparison = Literal["samples", "between groups", "within groups", "mixed"]


#: Minimum number of groups to compare.
MIN_GROUPS = 4


@dataclass(frozen=True)
class Samples:
    """Samples that tests compare, with their annotations; one row per sample, or per group if groups are compared."""

    X: Any
    y: Array
    weights: Array | None  # None where all are equal
    strata: Array | None  # outcomes are compared within strata only; None for one stratum
    clusters: Array | None  # samples of one cluster are not independent; None where all are
    comparison: Comparison
    covariates: Covariates | None = None  # variables whose effects are removed

    @cached_property
    def nuisance(self) -> Nuisance:
        """What is projected out of features and outcome."""
        return Nuisance.from_samples(len(self.y), self.weights, self.strata, self.covariates, self.clusters)

    @classmethod
    def from_groups(
        cls,
        X: Any,
        y: Array,
        weights: Array | None,
        groups: Array | None,
        batch: Array | None,
        nominal: Array,
        covariates: Covariates | None = None,
    ) -> "Samples":
        """Decide how to compare samples of `groups` and `batch`, both numbers from 0 or None."""
        if groups is None or groups.max() in (0, len(groups) - 1):  # one group of all, or every sample its own
            return cls(X, y, weights, batch, None, "samples", covariates)
        comparison = compare_groups(y, groups)
        if comparison == "mixed":
            return cls(X, y, weights, batch, groups, comparison, covariates)
        if comparison == "within groups":
            strata = groups if batch is None else number_rows(np.stack([groups, batch], axis=1))
            if len(np.unique(np.column_stack([strata, number_rows(y)]), axis=0)) == strata.max() + 1:
                warn(
                    "y is constant in every batch of a group, so batches are ignored and y is compared within groups.",
                    stacklevel=4,
                )
                strata = groups
            return cls(X, y, weights, strata, None, comparison, covariates)
        first = np.unique(groups, return_index=True)[1]
        if len(first) < MIN_GROUPS:
            raise ValueError(
                f"y is the same within each of the {len(first)} groups, and fewer than {MIN_GROUPS} groups tell "
                "nothing about it; leave groups out only if samples of a group are independent."
            )
        weights = None if weights is None else np.bincount(groups, weights=weights)
        batch = None if batch is None else batches_of_groups(batch, groups)
        if covariates is not None:
            means = average_rows(covariates.values, groups, np.zeros(len(covariates.names), dtype=bool))
            covariates = replace(covariates, values=means)
        return cls(average_rows(X, groups, nominal), y[first], weights, batch, None, comparison, covariates)


def number_rows(labels: Array) -> Array:
    """Return numbers from 0 for labels, or for rows of labels."""
    return np.unique(labels, axis=0, return_inverse=True)[1].ravel()


def compare_groups(y: Array, groups: Array) -> Comparison:
    """Return how the outcome y is compared if samples of one group are not independent."""
    values, codes = number_rows(y), number_rows(groups)
    order = np.lexsort((values, codes))
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    first, last = values[order][starts], values[order][np.append(starts[1:], len(order)) - 1]
    varies = first != last
    return "within groups" if varies.all() else "mixed" if varies.any() else "between groups"


def is_constant_within(y: Array, labels: Array) -> bool:
    """Return whether the target is the same for all samples of a label, such as a batch."""
    return all(len(np.unique(y[labels == label])) == 1 for label in np.unique(labels))


def average_rows(X: Array, groups: Array, nominal: Array) -> Array:
    """Return the mean of the rows of every group; of `nominal` columns the most frequent value.

    Missing values (NaN) are left out; a mean is missing if all of its values are.
    """
    _, codes, counts = np.unique(groups, return_inverse=True, return_counts=True)
    membership = np.zeros((len(counts), len(codes)), dtype=np.result_type(X.dtype, np.float32))
    membership[codes, np.arange(len(codes))] = 1.0
    if isinstance(X, np.ndarray) and missing_mask(X) is None:
        means = membership @ X / counts[:, None]
    else:
        n_observed = membership @ (~np.isnan(X)).astype(membership.dtype)
        sums = membership @ np.where(np.isnan(X), X.dtype.type(0.0), X)
        means = np.where(n_observed > 0, sums / np.where(n_observed > 0, n_observed, 1), np.nan)
    for j in np.flatnonzero(nominal):
        column = np.asarray(X[:, j])
        observed = ~np.isnan(column)
        levels, level_codes = np.unique(column[observed], return_inverse=True)
        frequencies = np.zeros((len(counts), len(levels)))
        np.add.at(frequencies, (codes[observed], level_codes), 1.0)
        modes = levels[frequencies.argmax(axis=1)] if len(levels) else np.nan
        means[:, j] = np.where(frequencies.any(axis=1), modes, np.nan)
    return means


def batches_of_groups(batch: Array, groups: Array) -> Array:
    """Return a batch number per group; groups that have samples of the same batches are in one."""
    codes, batch_codes = number_rows(groups), number_rows(batch)
    has_batch = np.zeros((codes.max() + 1, batch_codes.max() + 1), dtype=bool)
    has_batch[codes, batch_codes] = True
    return number_rows(has_batch)


# ---------------------------------------------------------------- random halves of the samples


def draw_halves(strata: Array, rng: np.random.Generator, *, use_leftovers: bool = False) -> tuple[Array, Array]:
    """Return two random halves of the units that share none, each with half of every stratum, rounded down.

    A stratum of an odd number of units leaves one out. With `use_leftovers`, these are divided between the halves, for
    many small strata.
    """
    members = [rng.permutation(np.flatnonzero(strata == k)) for k in range(int(strata.max()) + 1)]
    if use_leftovers:
        members.append(rng.permutation(np.concatenate([units[len(units) // 2 * 2 :] for units in members])))
    one = np.concatenate([units[: len(units) // 2] for units in members])
    other = np.concatenate([units[len(units) // 2 : len(units) // 2 * 2] for units in members])
    return one, other


def split_halves(
    strata: Array, groups: Array | None, batch: Array | None, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Return the rows of two random halves that share no sample or group, in the order in which they were drawn.

    Each has half of every stratum, and with `batch` half of every stratum of a batch. A group belongs to the stratum of
    its first sample.
    """
    codes = np.arange(len(strata)) if groups is None else number_rows(groups)
    unit_strata = strata[np.unique(codes, return_index=True)[1]]
    if batch is not None:
        unit_batches = number_rows(batch) if groups is None else batches_of_groups(batch, codes)
        unit_strata = number_rows(np.stack([unit_strata, unit_batches], axis=1))
    halves = draw_halves(unit_strata, rng, use_leftovers=batch is not None)
    if groups is None:
        return halves
    return np.flatnonzero(np.isin(codes, halves[0])), np.flatnonzero(np.isin(codes, halves[1]))


def bound_false_selections(mean_size: float, threshold: float, n_features: int) -> float:
    """Return the bound on the expected number of irrelevant features that at least `threshold` of the halves select.

    It is `q² / ((2 threshold - 1) n)`, with the mean number q of features that a half selects (Meinshausen and Bühlmann
    2010). It holds if irrelevant features are exchangeable; for complementary pairs without this assumption, for
    features of below-average probability (Shah and Samworth 2013).
    """
    return mean_size**2 / ((2 * threshold - 1) * n_features)
