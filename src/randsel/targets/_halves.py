"""Random halves of the samples, and the bound on false selections that features selected on many halves obey."""

import numpy as np

from randsel._utils.typing import Array
from randsel.targets._groups import batches_of_groups, number_rows


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
    if groups is None:
        unit_batches = None if batch is None else number_rows(batch)
        first = np.arange(len(strata))
    else:
        codes = number_rows(groups)
        first = np.unique(codes, return_index=True)[1]
        unit_batches = None if batch is None else batches_of_groups(batch, codes)
    unit_strata = strata[first]
    if unit_batches is not None:
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
