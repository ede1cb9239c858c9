"""Literal twins of the kernels of `randsel.interactions._pair_kernels`, with their arguments, in numpy."""

import numpy as np

GROUP = 1


class Kernel:
    """A function that is launched like a kernel of Triton, as one program."""

    def __init__(self, function):
        self.function = function

    def __getitem__(self, grid):
        return self.function


def record(statistic, is_diagonal, k, thresholds, capacity, best_rows, best_columns, values, pairs, counts):
    """Update best partners and append pairs above the threshold, one pair at a time."""
    n_written = 0
    for i, j in np.ndindex(statistic.shape):
        if is_diagonal and i >= j:
            continue
        s = np.float32(statistic[i, j])
        bits = int(s.view(np.int32)) << 32
        best_rows[k, i] = max(int(best_rows[k, i]), bits | (0x7FFFFFFF - j))
        best_columns[k, j] = max(int(best_columns[k, j]), bits | (0x7FFFFFFF - i))
        if s >= thresholds[k]:
            if n_written < capacity:
                values[k, n_written], pairs[k, n_written, 0], pairs[k, n_written, 1] = float(s), i, j
            n_written += 1
    counts[k] = n_written


def _product_tile(sizes, functions, tables, strides, buffers, *, TIED, **constants):
    n_rows, n_columns, _, is_diagonal = sizes
    left, right, left_squares, right_squares = (part.double().numpy() for part in functions)
    products, weights, stops = tables
    statistic, start = np.zeros((n_rows, n_columns)), 0
    for k, stop in enumerate(stops.tolist()):
        for p in range(start, stop):
            a, b = products[p].tolist()
            divisor = 1.0
            if TIED:
                divisor = np.maximum(left_squares[:, a] @ right_squares[:, b].T, 1e-6 / float(weights[p]))
            for output in left:
                statistic += float(weights[p]) * (output[:, a] @ right[:, b].T) ** 2 / divisor
        start = stop
        record(statistic, is_diagonal, k, *buffers)


def _count_tile(
    sizes, indicators, coefficients, weights, outcomes, buffers, *, N_ROW_FUNCTIONS, N_COLUMN_FUNCTIONS, **constants
):
    n_rows, n_columns, m, is_diagonal, boundary = sizes
    *of_classes, outcome_sum, one_over_m = outcomes
    left, right = (levels.numpy().reshape(-1, 2, m).astype(float) for levels in indicators)
    of_row, of_column = (part.double().numpy() for part in coefficients)
    statistic = np.zeros((n_rows, n_columns))
    for i, j in np.ndindex(n_rows, n_columns):
        tables = [left[i, :, part] @ right[j, :, part].T for part in (slice(boundary), slice(boundary, None))]
        with_outcome = of_classes[0] * tables[0] + of_classes[1] * tables[1]
        shares = (tables[0] + tables[1]) * one_over_m
        for a, b in np.ndindex(N_ROW_FUNCTIONS, N_COLUMN_FUNCTIONS):
            r, s = of_row[a, :, i], of_column[b, :, j]
            inner = r[1:3] @ with_outcome @ s[1:3] + r[0] * (s[3] - outcome_sum * s[0]) + s[0] * r[3]
            squares = r[5:7] @ shares @ s[5:7] + r[4] * (s[7] - s[4]) + s[4] * r[7]
            weight = float(weights[a, b])
            statistic[i, j] += weight * inner**2 / max(squares, 1e-6 / weight)
    record(statistic, is_diagonal, 0, *buffers)


product_tile, count_tile = Kernel(_product_tile), Kernel(_count_tile)
