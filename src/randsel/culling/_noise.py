"""Comparison with noise: a permutation test of the correlations of all features with y, and alignments by chance.

Features that act only together are invisible to the test. For them, `CullingPath.stands_out` compares alignments along
the path with those that noise reaches.

The test takes one pass over the columns, a small part of the time of a culling path. It asks whether the features are
related to y more closely than to permutations of y: the best of them (largest squared correlation), or all of them on
average (mean squared correlation). Permutations of y keep the correlations among the features as they are.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from randsel._numerics.arrays import as_array_like, astype, clip, namespace, to_numpy
from randsel._numerics.columns import map_blocks
from randsel._numerics.nuisance import Covariates, Nuisance
from randsel._utils.jobs import generator
from randsel._utils.typing import Array
from randsel.contribution import Sample
from randsel.targets import average_rows, batches_of_groups, compare_groups, number_rows

#: Permutations of y: the p-value is at least 0.01, and the test costs less than a tenth of a path.
N_PERMUTATIONS = 99
#: Columns per block.
WIDTH = 1024


# ---------------------------------------------------------------- permutation test


def permutation_test(
    sample: Sample,
    batch: Array | None = None,
    covariates: Covariates | None = None,
    y: Array | None = None,
) -> float:
    """Return the p-value of the hypothesis that no feature is related to y. Always draws the same permutations.

    Permutations stay within batches. With groups, they exchange the outcomes of whole groups if the outcome is constant
    in every group, and permute within groups if it varies in every group. If it varies in some groups only, they do
    both: groups of constant outcome exchange it, and it is permuted within the others. With covariates, residuals of y
    are permuted, and covariates are removed from the result (Freedman and Lane 1983); they are already removed from the
    features of the sample. In which groups the outcome is constant is decided by `y`, not by its residuals, which may
    vary in every group; by default, y is the outcome of the sample.
    """
    target = sample.target
    outcomes = to_numpy(target.Y)
    weights = np.ones(len(outcomes)) if target.weights is None else to_numpy(target.weights)
    outcomes, groups = outcomes / weights[:, None], target.groups
    values = outcomes.round(9) if y is None else y
    comparison = "samples" if groups is None else compare_groups(values, groups)
    strata = batch
    if groups is not None and comparison == "within groups":
        strata = groups if batch is None else number_rows(np.stack([groups, batch], axis=1))
    elif groups is not None and comparison == "between groups" and batch is not None:
        strata = batches_of_groups(batch, groups)[number_rows(groups)]
    units, unit_strata = groups if comparison == "between groups" else None, strata
    if groups is not None and comparison == "mixed":
        units, unit_strata = mixed_units(values, groups, batch)
    nuisance = None  # the outcomes are centred already
    if strata is not None or covariates is not None:
        nuisance = Nuisance.from_samples(len(outcomes), weights, strata, covariates)
        outcomes = nuisance.remove(outcomes.T).T
    if units is not None and nuisance is not None:
        outcomes = average_rows(outcomes, units, np.zeros(outcomes.shape[1], dtype=bool))[number_rows(units)]
    rows = permuted_rows(len(outcomes), units, unit_strata, N_PERMUTATIONS)
    permuted = outcomes[np.concatenate([np.arange(len(outcomes))[None], rows])]
    if nuisance is not None:
        permuted = np.stack([nuisance.remove_covariates(Y.T).T for Y in permuted])
    bases = _orthonormal(permuted, weights)
    rank = bases.shape[2]
    if rank == 0:
        return 1.0
    X, roots = sample.columns_in_product_dtype, weights**0.5
    directions = (bases * roots[:, None]).transpose(1, 0, 2).reshape(len(roots), -1)
    shared = (as_array_like(values, target.Y) for values in (directions, weights))
    blocks = list(map_blocks(X, WIDTH, _squared_correlations_of_block, *shared, rank))
    largest = np.max([block[0] for block in blocks], axis=0)
    sums = np.sum([block[1] for block in blocks], axis=0)
    return _smallest_pvalue(largest, sums)


def permuted_rows(m: int, units: Array | None, strata: Array | None, count: int) -> Array:
    """Return, for each of `count` permutations of m rows within strata, the row whose outcome every row receives.

    Rows of one unit have the same outcome and receive the outcome of one other unit.
    """
    rng = generator(0)
    _, first, codes = np.unique(np.arange(m) if units is None else units, return_index=True, return_inverse=True)
    unit_strata = np.zeros(len(first), dtype=int)
    if strata is not None:
        unit_strata = strata if units is None else batches_of_groups(strata, units)
    members = np.argsort(unit_strata, kind="stable")
    receives = np.empty((count, len(first)), dtype=int)
    # Sorted by stratum and then by random keys: a random permutation within every stratum.
    keys = rng.random(receives.shape)
    receives[:, members] = np.lexsort((keys, np.broadcast_to(unit_strata, keys.shape)))
    return np.asarray(first[receives][:, codes])


def mixed_units(outcomes: Array, groups: Array, batch: Array | None) -> tuple[Array, Array]:
    """Return units and strata of permutations if the outcome varies in some groups only.

    A group of constant outcome is one unit; in `permuted_rows`, such groups with samples of the same batches form one
    stratum. In the other groups, every sample is a unit, and the group, or its part in a batch, is the stratum.
    """
    codes, values = number_rows(groups), number_rows(outcomes)
    n_values = np.bincount(np.unique(np.stack([codes, values]), axis=1)[0])
    varies = n_values[codes] > 1
    batch_codes = np.zeros_like(codes) if batch is None else number_rows(batch)
    units = np.where(varies, len(n_values) + np.arange(len(codes)), codes)
    return units, number_rows(np.stack([np.where(varies, codes, -1), batch_codes], axis=1))


def _orthonormal(outcomes: Array, weights: Array) -> Array:
    """Return an orthonormal basis of the columns, centred under the weights and scaled by their roots.

    For a stack of outcomes, return a stack of bases; all have the smallest rank among the outcomes.
    """
    means = (weights @ outcomes / weights.sum())[..., None, :]
    vectors, values, _ = np.linalg.svd((outcomes - means) * weights[:, None] ** 0.5, full_matrices=False)
    ranks = (values > 1e-8 * np.maximum(values[..., :1], 1e-300)).sum(axis=-1)
    return np.asarray(vectors[..., : np.min(ranks)])


def _squared_correlations_of_block(block: Any, directions: Any, weights: Any, rank: int) -> tuple[Array, Array]:
    """Return, for y and its permutations, the largest squared correlation and their sum."""
    xp = namespace(block)
    directions, weights = astype(directions, block.dtype), astype(weights, block.dtype)
    squared = block.T @ directions
    squared *= squared
    if rank > 1:
        squared = xp.reshape(squared, (block.shape[1], -1, rank)).sum(axis=2)
    squared /= clip(weights @ (block * block), 1e-30, None)[:, None]
    return to_numpy(xp.max(squared, axis=0)), to_numpy(squared.sum(axis=0))


def _smallest_pvalue(*statistics: Array) -> float:
    """Return the permutation p-value of the smallest p-value of several statistics, each of y and its permutations.

    Every permutation takes the role of y in turn, which corrects for the choice of the statistic.
    """
    tails = [(values[None, :] >= values[:, None] * (1 - 1e-9)).mean(axis=1) for values in statistics]
    smallest = np.min(tails, axis=0)
    return float((smallest <= smallest[0]).mean())


# ---------------------------------------------------------------- alignments by chance


@dataclass(frozen=True)
class Chance:
    """Alignments that the best of independent noise features reach (docs/explanation/mathematics.md, eq. 13).

    Attributes
    ----------
    spectrum
        Eigenvalues of the target kernel, scaled to norm one; they determine the null distribution of main scores.
    n
        Number of features to choose from.
    null_sd
        Standard deviation of the alignment under the null.
    n_blocks
        Number of blocks of rows that a score sums over.
    """

    spectrum: Array
    n: int
    null_sd: float
    n_blocks: int = 1

    @classmethod
    def from_target(cls, Y: Array, n: int, null_sd: float, n_blocks: int = 1) -> "Chance":
        """Compute the spectrum from the factor Y of the target kernel."""
        spectrum = np.linalg.eigvalsh(Y.T @ Y)
        return cls(spectrum / np.linalg.norm(spectrum), n, null_sd, n_blocks)

    @cached_property
    def alignments(self) -> Array:
        """Alignments of the best k features for k = 1, …, n: means over simulations with a fixed seed."""
        rng = generator(0)
        repeats = max(1, min(20, 20000 // self.n))
        sums = np.zeros(self.n)
        for _ in range(repeats):
            # Null main scores: weighted sums of χ² variables, standardised.
            shape = self.n, len(self.spectrum)
            # The square of a normal variable is drawn faster than χ² of one degree of freedom.
            squares = rng.standard_normal(shape) ** 2 if self.n_blocks == 1 else rng.chisquare(self.n_blocks, shape)
            scores = (squares - self.n_blocks) @ self.spectrum / np.sqrt(2 * self.n_blocks)
            sums += np.cumsum(np.sort(scores)[::-1]) / repeats
        signal = sums * self.null_sd  # a of (13)
        chance: Array = signal / np.sqrt(np.arange(1, self.n + 1) + signal**2)
        return chance


def fourth_moments(sample: Sample) -> Array:
    """Return the weighted mean of the fourth powers of every feature, divided by its squared mean square."""
    weights = as_array_like(np.ones(sample.X.shape[0]), sample.target.Y)
    if sample.target.weights is not None:
        weights = sample.target.weights
    return np.concatenate(list(map_blocks(sample.columns_in_product_dtype, WIDTH, _fourth_moments_of_block, weights)))


def _fourth_moments_of_block(block: Any, weights: Any) -> Array:
    weights = astype(weights, block.dtype)
    squares = block * block
    total = weights.sum()
    mean_squares = clip(weights @ squares / total, 1e-30, None)
    return to_numpy(weights @ (squares * squares) / total / (mean_squares * mean_squares))
