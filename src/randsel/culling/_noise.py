"""A permutation test of the correlations of all features with y.

Features that act only together are invisible to it; `CullingPath.stands_out` has a second rule for them.

The test takes one pass over the columns, a small part of the time of a culling path. It asks whether the features are
related to y more closely than to permutations of y: the best of them (largest squared correlation), or all of them on
average (mean squared correlation). Permutations of y keep the correlations among the features as they are.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from randsel._numerics.arrays import as_array_like, astype, clip, namespace, to_numpy
from randsel._numerics.columns import map_blocks
from randsel._utils.jobs import generator
from randsel._utils.typing import Array
from randsel.contribution import Sample

#: Permutations of y: the p-value is at least 0.01, and the test costs less than a tenth of a path.
N_PERMUTATIONS = 99
#: Columns per block.
WIDTH = 1024


@dataclass(frozen=True)
class PermutationTest:
    """Result of the test that no feature is related to y.

    Attributes
    ----------
    pvalue
        P-value of the test.
    squared_correlations
        Of every feature with y.
    rank, n_samples
        Number of independent columns of the encoded y, and number of samples.
    """

    pvalue: float
    squared_correlations: Array
    rank: int
    n_samples: int


def permutation_test(sample: Sample, batch: Array | None = None) -> PermutationTest:
    """Test whether any feature is related to y. Always draws the same permutations.

    Permutations stay within batches. With groups, they exchange the outcomes of whole groups if these are constant
    within groups, and permute within groups otherwise.
    """
    target = sample.target
    outcomes = to_numpy(target.Y)
    weights = np.ones(len(outcomes)) if target.weights is None else to_numpy(target.weights)
    outcomes = outcomes / weights[:, None]
    permuted = permuted_rows(outcomes, target.groups, batch, N_PERMUTATIONS)
    if target.weights is None and target.groups is None:  # then a permutation of a basis is a basis
        basis = _orthonormal(outcomes, weights)
        bases = [basis, *(basis[rows] for rows in permuted)]
    else:
        bases = [_orthonormal(outcomes[rows], weights) for rows in (np.arange(len(outcomes)), *permuted)]
    rank = min(basis.shape[1] for basis in bases)
    if rank == 0:
        return PermutationTest(1.0, np.zeros(sample.X.shape[1]), 1, len(outcomes))
    X, roots = sample.columns_in_product_dtype, weights**0.5
    directions = np.concatenate([basis[:, :rank] for basis in bases], axis=1) * roots[:, None]
    shared = (as_array_like(values, target.Y) for values in (directions, weights))
    blocks = list(map_blocks(X, WIDTH, _squared_correlations_of_block, *shared, rank))
    largest = np.max([block[0] for block in blocks], axis=0)
    sums = np.sum([block[1] for block in blocks], axis=0)
    squared = np.concatenate([block[2] for block in blocks])
    return PermutationTest(_smallest_pvalue(largest, sums), squared.astype(float), rank, len(outcomes))


def permuted_rows(outcomes: Array, groups: Array | None, batch: Array | None, count: int) -> Array:
    """Return, for each of `count` permutations, the row whose outcome every row receives."""
    m, rng = len(outcomes), generator(0)
    strata = np.zeros(m, dtype=int) if batch is None else batch
    if groups is None:
        units, first = np.arange(m), np.arange(m)
    else:
        _, first, units = np.unique(groups, return_index=True, return_inverse=True)
        if not np.allclose(outcomes, outcomes[first][units]):  # the outcome varies within groups
            strata = np.unique(np.stack([strata, groups]), axis=1, return_inverse=True)[1].ravel()
            units, first = np.arange(m), np.arange(m)
    unit_strata = strata[first]
    members = np.argsort(unit_strata, kind="stable")
    receives = np.empty((count, len(first)), dtype=int)
    for permutation in receives:
        # Sorted by stratum and then by random keys: a random permutation within every stratum.
        permutation[members] = np.lexsort((rng.random(len(first)), unit_strata))
    return np.asarray(first[receives][:, units])


def _orthonormal(outcomes: Array, weights: Array) -> Array:
    """Return an orthonormal basis of the columns, centred under the weights and scaled by their roots."""
    scaled = (outcomes - weights @ outcomes / weights.sum()) * weights[:, None] ** 0.5
    vectors, values, _ = np.linalg.svd(scaled, full_matrices=False)
    return np.asarray(vectors[:, values > 1e-8 * max(values[0], 1e-300)])


def _squared_correlations_of_block(block: Any, directions: Any, weights: Any, rank: int) -> tuple[Array, Array, Array]:
    """Return, for y and its permutations, the largest squared correlation and their sum; and those of y itself."""
    xp = namespace(block)
    directions, weights = astype(directions, block.dtype), astype(weights, block.dtype)
    squared = block.T @ directions
    squared *= squared
    if rank > 1:
        squared = xp.reshape(squared, (block.shape[1], -1, rank)).sum(axis=2)
    squared /= clip(weights @ (block * block), 1e-30, None)[:, None]
    largest, sums, squared_of_y = xp.max(squared, axis=0), squared.sum(axis=0), clip(squared[:, 0], 0.0, 1.0)
    return to_numpy(largest), to_numpy(sums), to_numpy(squared_of_y)


def _smallest_pvalue(*statistics: Array) -> float:
    """Return the permutation p-value of the smallest p-value of several statistics, each of y and its permutations.

    Every permutation takes the role of y in turn, which corrects for the choice of the statistic.
    """
    tails = [(values[None, :] >= values[:, None] * (1 - 1e-9)).mean(axis=1) for values in statistics]
    smallest = np.min(tails, axis=0)
    return float((smallest <= smallest[0]).mean())
