"""Triton kernels of the scan of pairs: a program computes the statistics of a tile and keeps only the best pairs.

A program writes each feature's best partner, and the pairs above a threshold. A best partner is a 64-bit integer: the
upper bits hold the statistic and the lower bits the partner, so an atomic maximum updates both. Only `_fused_tiles`
imports this file, and only if Triton is installed; `FusedTiles` there describes the arguments.
"""

# mypy: ignore-errors
import triton
import triton.language as tl

#: Programs run through this many rows of tiles column by column, so that features of the columns stay in the cache.
GROUP = 16


@triton.jit
def _place_tile(n_rows, n_columns, is_diagonal, ROWS: tl.constexpr, COLUMNS: tl.constexpr, GROUP: tl.constexpr):
    """Return the rows and columns of this program's tile, and a mask of the pairs that count.

    If rows and columns are the same features (`is_diagonal`), only pairs above the diagonal count.
    """
    program = tl.program_id(0)
    tiles_down, tiles_across = tl.cdiv(n_rows, ROWS), tl.cdiv(n_columns, COLUMNS)
    per_group = GROUP * tiles_across
    first = program // per_group * GROUP
    height = tl.minimum(tiles_down - first, GROUP)
    rows = (first + program % per_group % height) * ROWS + tl.arange(0, ROWS)
    columns = program % per_group // height * COLUMNS + tl.arange(0, COLUMNS)
    valid = (rows < n_rows)[:, None] & (columns < n_columns)[None, :]
    return rows, columns, valid & ((is_diagonal == 0) | (rows[:, None] < columns[None, :]))


@triton.jit
def _pack(statistic, partner):
    """Return 64-bit keys of statistics and partners; of equal statistics, the smaller partner has the larger key."""
    return (statistic.to(tl.int32, bitcast=True).to(tl.int64) << 32) | (0x7FFFFFFF - partner).to(tl.int64)


@triton.jit
def _keep_best(statistic, rows, columns, valid, k, n_rows, n_columns, buffers):
    """Update the best partners by statistic k of a tile, and append its pairs that reach the threshold.

    `buffers` are those of `_Buffers.arguments`.
    """
    thresholds, capacity, best_rows, best_columns, values, pairs, counts = buffers
    statistic = tl.where(valid, statistic, -1.0)
    largest_of_row, column_of_row = tl.max(statistic, axis=1, return_indices=True)
    largest_of_column, row_of_column = tl.max(statistic, axis=0, return_indices=True)
    keys = _pack(largest_of_row, tl.min(columns, axis=0) + column_of_row)
    tl.atomic_max(best_rows + k * n_rows + rows, keys, mask=largest_of_row >= 0.0)
    keys = _pack(largest_of_column, tl.min(rows, axis=0) + row_of_column)
    tl.atomic_max(best_columns + k * n_columns + columns, keys, mask=largest_of_column >= 0.0)
    threshold = tl.load(thresholds + k)
    if tl.max(largest_of_row, axis=0) >= threshold:
        above = statistic >= threshold
        position = tl.atomic_add(counts + k + tl.zeros_like(above.to(tl.int32)), 1, mask=above)
        above = above & (position < capacity)
        position += k * capacity
        tl.store(values + position, statistic, mask=above)
        tl.store(pairs + 2 * position, rows[:, None] + tl.zeros_like(position), mask=above)
        tl.store(pairs + 2 * position + 1, columns[None, :] + tl.zeros_like(position), mask=above)


@triton.jit
def _multiply(left, right, inner, start, stop, DEPTH: tl.constexpr):
    """Add to `inner` the inner products of two blocks over the samples from `start` to `stop`.

    `left` and `right` point to the first sample of each row of their blocks.
    """
    depth = tl.arange(0, DEPTH)
    for sample in range(start, stop, DEPTH):
        rows = tl.load(left[:, None] + sample + depth[None, :])
        columns = tl.load(right[None, :] + sample + depth[:, None])
        inner = tl.dot(rows, columns, inner, out_dtype=inner.dtype)
    return inner


@triton.jit
def product_tile(
    sizes, functions, tables, strides, buffers, N_STATISTICS: tl.constexpr, N_OUTPUTS: tl.constexpr, TIED: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr
):  # fmt: skip
    """Compute eq. 18 for a tile of pairs from functions in half precision."""
    left, right, left_squares, right_squares = functions
    products, weights, stops = tables
    n_rows, n_columns, m, is_diagonal = sizes
    row_stride, column_stride, output_stride = strides
    rows, columns, valid = _place_tile(n_rows, n_columns, is_diagonal, ROWS, COLUMNS, GROUP)
    if (is_diagonal == 0) | (tl.max(columns, axis=0) > tl.min(rows, axis=0)):
        row_offsets = tl.minimum(rows, n_rows - 1).to(tl.int64) * row_stride
        column_offsets = tl.minimum(columns, n_columns - 1).to(tl.int64) * column_stride
        statistic = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
        start = 0
        for k in tl.static_range(N_STATISTICS):
            stop = tl.load(stops + k)
            for p in range(start, stop):
                row_starts = row_offsets + tl.load(products + 2 * p).to(tl.int64) * m
                column_starts = column_offsets + tl.load(products + 2 * p + 1).to(tl.int64) * m
                weight = tl.load(weights + p)
                scale = weight
                if TIED:
                    mean_square = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
                    square_rows, square_columns = left_squares + row_starts, right_squares + column_starts
                    mean_square = _multiply(square_rows, square_columns, mean_square, 0, m, DEPTH)
                    scale = weight / tl.maximum(mean_square, 1e-6 / weight)
                for c in range(N_OUTPUTS):
                    of_output = left + tl.cast(c, tl.int64) * output_stride + row_starts
                    inner = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
                    inner = _multiply(of_output, right + column_starts, inner, 0, m, DEPTH)
                    statistic += inner * inner * scale
            start = stop
            _keep_best(statistic, rows, columns, valid, k, n_rows, n_columns, buffers)


@triton.jit
def _split_levels(counts, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Return one matrix of counts for each pair of levels: (1, 1), (1, 2), (2, 1) and (2, 2)."""
    blocks = tl.permute(tl.reshape(counts, (ROWS, 2, COLUMNS, 2)), (0, 2, 1, 3))
    with_first, with_second = tl.split(blocks)
    first_first, second_first = tl.split(with_first)
    first_second, second_second = tl.split(with_second)
    return first_first, first_second, second_first, second_second


@triton.jit
def _load_function(coefficients, n, index):
    """Load a function of features: value at level 0, differences of levels 1 and 2 from it, sum over samples."""
    pointers = coefficients + index
    return tl.load(pointers), tl.load(pointers + n), tl.load(pointers + 2 * n), tl.load(pointers + 3 * n)


@triton.jit
def _weigh_counts(counts, first_weight, second_weight):
    """Return the weighted sum of the counts of both classes; the upper 16 bits are the count of the first class."""
    return first_weight * (counts >> 16).to(tl.float32) + second_weight * (counts & 0xFFFF).to(tl.float32)


@triton.jit
def _sum_products(counts, first_weight, second_weight, of_row, of_column, total):
    """Return the weighted sum over samples of the product of two functions, from counts of levels 1 and 2 (eq. 18a).

    The samples of a class have one weight. `total` is the sum of the weights of all samples.
    """
    c11, c12, c21, c22 = counts
    row_base, row_one, row_two, row_sum = of_row
    column_base, column_one, column_two, column_sum = of_column
    w11, w12 = _weigh_counts(c11, first_weight, second_weight), _weigh_counts(c12, first_weight, second_weight)
    w21, w22 = _weigh_counts(c21, first_weight, second_weight), _weigh_counts(c22, first_weight, second_weight)
    value = row_one[:, None] * (column_one[None, :] * w11 + column_two[None, :] * w12)
    value += row_two[:, None] * (column_one[None, :] * w21 + column_two[None, :] * w22)
    value += row_base[:, None] * (column_sum - total * column_base)[None, :]
    return value + column_base[None, :] * row_sum[:, None]


@triton.jit
def count_tile(
    sizes, indicators, coefficients, weights, outcomes, buffers, N_ROW_FUNCTIONS: tl.constexpr,
    N_COLUMN_FUNCTIONS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
    GROUP: tl.constexpr
):  # fmt: skip
    """Compute eq. 18, each product divided by its mean square, for pairs of discrete features from exact counts.

    Samples of the first class are before `boundary`, those of the second class after it. The counts of both classes
    share one integer (upper and lower 16 bits), so that two tables need as many registers as one.
    """
    left, right = indicators
    row_coefficients, column_coefficients = coefficients
    n_rows, n_columns, m, is_diagonal, boundary = sizes
    first_outcome, second_outcome, outcome_sum, one_over_m = outcomes
    rows, columns, valid = _place_tile(n_rows, n_columns, is_diagonal, ROWS, COLUMNS, GROUP)
    if (is_diagonal == 0) | (tl.max(columns, axis=0) > tl.min(rows, axis=0)):
        indicator_rows = tl.minimum(2 * tl.min(rows, axis=0) + tl.arange(0, 2 * ROWS), 2 * n_rows - 1)
        indicator_columns = tl.minimum(2 * tl.min(columns, axis=0) + tl.arange(0, 2 * COLUMNS), 2 * n_columns - 1)
        row_starts, column_starts = left + indicator_rows.to(tl.int64) * m, right + indicator_columns.to(tl.int64) * m
        counts = tl.zeros((2 * ROWS, 2 * COLUMNS), dtype=tl.int32)
        counts = _multiply(row_starts, column_starts, counts, 0, boundary, DEPTH) << 16
        counts = _multiply(row_starts, column_starts, counts, boundary, m, DEPTH)
        level_counts = _split_levels(counts, ROWS, COLUMNS)
        row_index, column_index = tl.minimum(rows, n_rows - 1), tl.minimum(columns, n_columns - 1)
        statistic = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
        for a in tl.static_range(N_ROW_FUNCTIONS):
            of_row = _load_function(row_coefficients + 8 * a * n_rows, n_rows, row_index)
            square_of_row = _load_function(row_coefficients + (8 * a + 4) * n_rows, n_rows, row_index)
            for b in tl.static_range(N_COLUMN_FUNCTIONS):
                of_column = _load_function(column_coefficients + 8 * b * n_columns, n_columns, column_index)
                square_of_column = _load_function(
                    column_coefficients + (8 * b + 4) * n_columns, n_columns, column_index
                )
                weight = tl.load(weights + a * N_COLUMN_FUNCTIONS + b)
                inner = _sum_products(level_counts, first_outcome, second_outcome, of_row, of_column, outcome_sum)
                mean_square = _sum_products(level_counts, one_over_m, one_over_m, square_of_row, square_of_column, 1.0)
                statistic += inner * inner * (weight / tl.maximum(mean_square, 1e-6 / weight))
        _keep_best(statistic, rows, columns, valid, 0, n_rows, n_columns, buffers)
