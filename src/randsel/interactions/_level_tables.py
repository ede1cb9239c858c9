"""Levels of discrete features, whose counts give the statistics of pairs without products of functions.

If the outcome has two classes, the number of samples of each class at each pair of levels determines all sums in eq. 18
(eq. 18a): products of two functions with the outcome, and the mean squares of these products.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from randsel._numerics.arrays import (
    as_array_like,
    astype,
    device_of,
    multiply_by_transpose,
    namespace,
    on_host,
    to_numpy,
)
from randsel._utils.typing import Array

#: Bytes of functions that `LevelTables.from_functions` processes at a time, on the host and on a device.
CHUNK_BYTES, DEVICE_CHUNK_BYTES = 1 << 24, 1 << 30
#: Integers below this are exact in single precision.
EXACT = 1 << 24


@dataclass(frozen=True)
class LevelTables:
    """Levels of features, and the values of their functions at each level."""

    #: 8-bit integers, shape (features, 2, samples): 1 at samples of the middle level, and of the highest level.
    indicators: Any
    #: Shape (functions, 8, features). The first four are of a function: its value at the lowest level, the differences
    #: of the middle and the highest level from it, and the sum of function times outcome. The others are of its square:
    #: value and differences as before, and its mean.
    coefficients: Any
    in_second: Array  # mask of the samples of the second class
    outcomes: tuple[float, float]  # of the samples of each class, divided by the root of the number of samples
    discrete: Array  # mask of the features that have at most three levels

    @classmethod
    def from_functions(cls, values: Any, counts: Array, e: Array, sample_weights: Array) -> "LevelTables | None":
        """Find the levels of features from their functions `values`; return None if pairs cannot be counted.

        Counting needs an outcome with two values, samples without weights, and features with at most two functions, as
        `counts` says. `e` is the outcome, shape (columns, samples).
        """
        outcome_values = np.unique(e) if len(e) == 1 else np.zeros(0)
        if len(outcome_values) != 2 or np.any(sample_weights != 1.0) or not (counts <= 2).any():
            return None
        values = values[:, :2]
        xp, (n, n_functions, m) = namespace(values), values.shape
        outcome = as_array_like(e[0] / np.sqrt(m), values, precise=False)
        indicators = xp.zeros((n, 2, m), dtype=xp.int8, device=device_of(values))
        coefficients = xp.zeros((n_functions, 8, n), dtype=xp.float32, device=device_of(values))
        discrete = counts <= 2
        step = max(1, (CHUNK_BYTES if on_host(values) else DEVICE_CHUNK_BYTES) // (4 * n_functions * m))
        for start in range(0, n, step):
            block = slice(start, min(start + step, n))
            functions = astype(values[block], xp.float32)
            masks, level_values, is_discrete = _find_levels(functions)
            for level, mask in enumerate(masks[1:]):
                indicators[block, level] = astype(mask, xp.int8)
            discrete[block] &= to_numpy(is_discrete)
            coefficients[:, :4, block] = _coefficients(level_values, functions @ astype(outcome, xp.float32))
            coefficients[:, 4:, block] = _coefficients(level_values**2, xp.mean(functions**2, axis=2))
        low, high = (float(value) / m**0.5 for value in outcome_values)
        return cls(indicators, coefficients, e[0] == outcome_values[1], (low, high), discrete)

    @property
    def outcome_sum(self) -> float:
        """Sum of the outcome over all samples."""
        n_second = int(self.in_second.sum())
        return self.outcomes[0] * (len(self.in_second) - n_second) + self.outcomes[1] * n_second

    @property
    def second_class_unit(self) -> int:
        """Smallest power of two above the number of samples of the first class; see `statistics`."""
        return 1 << int(np.count_nonzero(~self.in_second)).bit_length()

    @property
    def is_exact_in_single_precision(self) -> bool:
        """Whether the combined counts of `statistics` are exact in single precision."""
        return (int(self.in_second.sum()) + 1) * self.second_class_unit <= EXACT

    def statistics(self, rows: range, columns: range, weights: Array) -> Array:
        """Return eq. 18, each product divided by its mean square, for all pairs of two blocks of features.

        One matrix product counts both classes: a sample of the first class counts 1, a sample of the second class
        counts `second_class_unit`. `weights` are the ω_a ω_b of the functions.
        """
        unit, blocks = np.float32(self.second_class_unit), (rows, columns)
        codes = np.where(self.in_second, unit, np.float32(1.0))
        left, right = (self.indicators[b.start : b.stop].swapaxes(0, 1).astype(np.float32, order="C") for b in blocks)
        left *= codes
        outcome_sums, fractions = {}, {}  # of the samples at each pair of levels
        for k, level in np.ndindex(2, 2):
            counts = multiply_by_transpose(left[k], right[level])
            n_second = np.floor(counts * (np.float32(1.0) / unit))
            counts -= unit * n_second
            outcome_sums[k, level] = np.float32(self.outcomes[0]) * counts + np.float32(self.outcomes[1]) * n_second
            counts += n_second
            counts *= np.float32(1.0 / len(codes))
            fractions[k, level] = counts
        of_rows, of_columns = (self.coefficients[..., block.start : block.stop] for block in blocks)
        statistic = np.zeros((len(rows), len(columns)), dtype=np.float32)
        for a, row_weights in enumerate(weights):
            inner_products = _sum_products(outcome_sums, of_rows[a, :4], of_columns[:, :4], self.outcome_sum)
            mean_squares = _sum_products(fractions, of_rows[a, 4:], of_columns[:, 4:], 1.0)
            for inner, mean_square, weight in zip(inner_products, mean_squares, row_weights, strict=False):
                np.maximum(mean_square, np.float32(1e-6 / weight), out=mean_square)
                terms = np.square(inner, out=inner)
                terms /= mean_square
                terms *= np.float32(weight)
                statistic += terms
        return statistic


def _find_levels(functions: Any) -> tuple[list[Any], Any, Any]:
    """Return the levels of features, as the values of their functions show them.

    Returns masks of the samples at the lowest, middle and highest level, by the first function; the values of all
    functions at these levels, shape (3, features, functions), NaN at a level that does not occur; and a mask of the
    features whose functions are constant at each level.
    """
    xp, features = namespace(functions), np.arange(functions.shape[0])
    first = functions[:, 0]
    # index of one sample at each level, per feature
    lowest_sample, highest_sample = xp.argmin(first, axis=1), xp.argmax(first, axis=1)
    lowest, highest = (first == first[features, sample][:, None] for sample in (lowest_sample, highest_sample))
    middle = ~(lowest | highest)
    middle_sample = xp.argmax(astype(middle, xp.int8), axis=1)
    low, mid, high = (functions[features, :, sample] for sample in (lowest_sample, middle_sample, highest_sample))
    values = xp.where(middle[:, None], mid[:, :, None], low[:, :, None])
    values = xp.where(highest[:, None], high[:, :, None], values)
    is_discrete = xp.all(xp.reshape(values == functions, (len(features), -1)), axis=1)
    mid = xp.where(xp.any(middle, axis=1)[:, None], mid, xp.nan)
    return [lowest, middle, highest & ~lowest], xp.stack([low, mid, high]), is_discrete


def _coefficients(level_values: Any, sums: Any) -> Any:
    """Return values at the lowest level, differences of other levels, and sums; shape (functions, 4, features)."""
    xp, (low, mid, high) = namespace(level_values), level_values
    stacked = xp.stack([low, mid - low, high - low, sums])
    return xp.permute_dims(xp.where(xp.isnan(stacked), 0.0, stacked), (2, 0, 1))


def _sum_products(
    tables: dict[tuple[int, int], Array], of_row: Array, of_columns: Array, total: float
) -> Iterator[Array]:
    """Yield the sums over samples of the product of a function of the rows with each function of the columns.

    They follow from the weighted counts of levels, `tables` (eq. 18a). `total` is the sum of the weights of all
    samples.
    """
    sums: dict[int, Array] = {}  # level of the columns -> sum over the levels of the rows
    for (k, level), table in tables.items():
        weighted = of_row[1 + k][:, None] * table
        sums[level] = sums[level] + weighted if level in sums else weighted
    for base, *slopes, column_sum in of_columns:
        # the terms of eq. 18a with values at the lowest level are a matrix of rank two
        rank_two = np.stack([of_row[3], of_row[0]], axis=1) @ np.stack([base, column_sum - np.float32(total) * base])
        for level, table in sums.items():
            rank_two += table * slopes[level]
        yield rank_two
