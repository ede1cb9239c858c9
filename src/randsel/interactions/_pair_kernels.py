"""Triton kernels of the scan of pairs: a program computes the statistics of a tile and keeps only the best pairs.

Nothing is written to memory but each feature's best partner and the pairs above a threshold. A best partner is one
64-bit integer, the bits of the statistic above those of the partner, so that an atomic maximum keeps both. Only
`_fused_tiles` imports this file, and only where Triton is installed.
"""

# mypy: ignore-errors
import triton
import triton.language as tl

#: Programs of this many rows of tiles run together, because they share columns that are still in the cache.
GROUP = 16


@triton.jit
def _position_of_program(n_rows, n_columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr, GROUP: tl.constexpr):
    """Return the number of the row and of the column of tiles of this program."""
    program = tl.program_id(0)
    tiles_down, tiles_across = tl.cdiv(n_rows, ROWS), tl.cdiv(n_columns, COLUMNS)
    per_group = GROUP * tiles_across
    first = program // per_group * GROUP
    height = tl.minimum(tiles_down - first, GROUP)
    return first + program % per_group % height, program % per_group // height


@triton.jit
def _keep_best(statistic, rows, columns, valid, threshold, capacity, best_rows, best_columns, values, pairs, count):
    """Update the best partners by a tile, and append its pairs above the threshold."""
    statistic = tl.where(valid, statistic, -1.0)
    by_row, column_of_row = tl.max(statistic, axis=1, return_indices=True)
    by_column, row_of_column = tl.max(statistic, axis=0, return_indices=True)
    first_column, first_row = tl.min(columns, axis=0), tl.min(rows, axis=0)
    # of equal statistics the smaller partner is kept
    key = (by_row.to(tl.int32, bitcast=True).to(tl.int64) << 32) | (0x7FFFFFFF - (first_column + column_of_row)).to(
        tl.int64
    )
    tl.atomic_max(best_rows + rows, key, mask=by_row >= 0.0)
    key = (by_column.to(tl.int32, bitcast=True).to(tl.int64) << 32) | (0x7FFFFFFF - (first_row + row_of_column)).to(
        tl.int64
    )
    tl.atomic_max(best_columns + columns, key, mask=by_column >= 0.0)
    if tl.max(by_row, axis=0) >= threshold:
        above = statistic >= threshold
        position = tl.atomic_add(count + tl.zeros_like(above.to(tl.int32)), 1, mask=above)
        above = above & (position < capacity)
        tl.store(values + position, statistic, mask=above)
        tl.store(pairs + 2 * position, rows[:, None] + tl.zeros_like(position), mask=above)
        tl.store(pairs + 2 * position + 1, columns[None, :] + tl.zeros_like(position), mask=above)


@triton.jit
def _dot(left, right, m, DEPTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Return the inner products of rows of two arrays of half precision; the pointers are at their first samples."""
    inner = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    depth = tl.arange(0, DEPTH)
    for start in range(0, m, DEPTH):
        inner = tl.dot(
            tl.load(left[:, None] + start + depth[None, :]),
            tl.load(right[None, :] + start + depth[:, None]),
            inner,
        )
    return inner


@triton.jit
def product_tile(
    left,
    right,
    left_squares,
    right_squares,
    products,
    weights,
    stops,
    n_rows,
    n_columns,
    m,
    row_stride,
    column_stride,
    output_stride,
    is_diagonal,
    thresholds,
    capacity,
    best_rows,
    best_columns,
    values,
    pairs,
    counts,
    N_STATISTICS: tl.constexpr,
    N_OUTPUTS: tl.constexpr,
    TIED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    GROUP: tl.constexpr,
):
    """Compute eq. 18 for a tile of pairs from functions in half precision.

    `left` has the functions of the rows times the residual of the target, a block of `output_stride` per column of it.
    Row p of `products` names a function of each feature, and `weights` has its ω_a ω_b; statistic k is the sum of the
    first `stops[k]` products. If TIED, a product is divided by its mean square, which `left_squares` and
    `right_squares` give. `m` is a multiple of DEPTH.
    """
    tile_row, tile_column = _position_of_program(n_rows, n_columns, ROWS, COLUMNS, GROUP)
    if (is_diagonal == 0) | ((tile_column + 1) * COLUMNS > tile_row * ROWS):
        rows, columns = tile_row * ROWS + tl.arange(0, ROWS), tile_column * COLUMNS + tl.arange(0, COLUMNS)
        valid = (rows < n_rows)[:, None] & (columns < n_columns)[None, :]
        valid = valid & ((is_diagonal == 0) | (rows[:, None] < columns[None, :]))
        row_offsets = tl.minimum(rows, n_rows - 1).to(tl.int64) * row_stride
        column_offsets = tl.minimum(columns, n_columns - 1).to(tl.int64) * column_stride
        statistic = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
        start = 0
        for k in tl.static_range(N_STATISTICS):
            stop = tl.load(stops + k)
            for p in range(start, stop):
                a, b = tl.load(products + 2 * p).to(tl.int64), tl.load(products + 2 * p + 1).to(tl.int64)
                weight = tl.load(weights + p)
                if TIED:
                    squares = _dot(
                        left_squares + row_offsets + a * m,
                        right_squares + column_offsets + b * m,
                        m,
                        DEPTH,
                        ROWS,
                        COLUMNS,
                    )
                    squares = weight / tl.maximum(squares, 1e-6 / weight)
                for c in range(N_OUTPUTS):
                    inner = _dot(
                        left + c * output_stride.to(tl.int64) + row_offsets + a * m,
                        right + column_offsets + b * m,
                        m,
                        DEPTH,
                        ROWS,
                        COLUMNS,
                    )
                    statistic += inner * inner * (squares if TIED else weight)
            start = stop
            _keep_best(
                statistic,
                rows,
                columns,
                valid,
                tl.load(thresholds + k),
                capacity,
                best_rows + k * n_rows,
                best_columns + k * n_columns,
                values + k * capacity,
                pairs + 2 * k * capacity,
                counts + k,
            )


@triton.jit
def _count(left, right, start, stop, DEPTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Return counts of samples from `start` to `stop` for two levels each of the features of a tile, times 1.0.

    Rows of the indicators alternate between the two levels of a feature. Counts of (first, first), (first, second),
    (second, first) and (second, second) levels are returned.
    """
    counts = tl.zeros((2 * ROWS, 2 * COLUMNS), dtype=tl.int32)
    depth = tl.arange(0, DEPTH)
    for k in range(start, stop, DEPTH):
        counts = tl.dot(
            tl.load(left[:, None] + k + depth[None, :]),
            tl.load(right[None, :] + k + depth[:, None]),
            counts,
            out_dtype=tl.int32,
        )
    blocks = tl.permute(tl.reshape(counts.to(tl.float32), (ROWS, 2, COLUMNS, 2)), (0, 2, 1, 3))
    with_first, with_second = tl.split(blocks)
    first_first, second_first = tl.split(with_first)
    first_second, second_second = tl.split(with_second)
    return first_first, first_second, second_first, second_second


@triton.jit
def _expand(c11, c12, c21, c22, row_slopes, column_slopes, row_base, column_base, row_sum, column_sum, total):
    """Return the sum over samples of a product of two functions, given by its counts.

    A function has the value `base` at level zero, and base + slope at the other two; `sum` is its sum with ones.
    """
    row_one, row_two = row_slopes
    column_one, column_two = column_slopes
    value = row_one[:, None] * (column_one[None, :] * c11 + column_two[None, :] * c12)
    value += row_two[:, None] * (column_one[None, :] * c21 + column_two[None, :] * c22)
    value += row_base[:, None] * (column_sum - total * column_base)[None, :]
    return value + column_base[None, :] * row_sum[:, None]


@triton.jit
def count_tile(
    left,
    right,
    row_coefficients,
    column_coefficients,
    weights,
    n_rows,
    n_columns,
    m,
    boundary,
    first_outcome,
    second_outcome,
    outcome_sum,
    one_over_m,
    is_diagonal,
    thresholds,
    capacity,
    best_rows,
    best_columns,
    values,
    pairs,
    counts,
    N_ROW_FUNCTIONS: tl.constexpr,
    N_COLUMN_FUNCTIONS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    GROUP: tl.constexpr,
):
    """Compute eq. 18, each product divided by its mean square, for pairs of discrete features from exact counts.

    `left` and `right` are int8 indicators of levels one and two of every feature. Samples of the first class are before
    `boundary`, those of the second class after it, so that two sets of counts cost as much as one. Coefficients of a
    function are its value at level zero, its two slopes and its sum with the outcome, and the same of its square; see
    `LevelTables`.
    """
    tile_row, tile_column = _position_of_program(n_rows, n_columns, ROWS, COLUMNS, GROUP)
    if (is_diagonal == 0) | ((tile_column + 1) * COLUMNS > tile_row * ROWS):
        rows, columns = tile_row * ROWS + tl.arange(0, ROWS), tile_column * COLUMNS + tl.arange(0, COLUMNS)
        valid = (rows < n_rows)[:, None] & (columns < n_columns)[None, :]
        valid = valid & ((is_diagonal == 0) | (rows[:, None] < columns[None, :]))
        indicator_rows = tl.minimum(2 * tile_row * ROWS + tl.arange(0, 2 * ROWS), 2 * n_rows - 1)
        indicator_columns = tl.minimum(2 * tile_column * COLUMNS + tl.arange(0, 2 * COLUMNS), 2 * n_columns - 1)
        row_indicators = left + indicator_rows.to(tl.int64) * m
        column_indicators = right + indicator_columns.to(tl.int64) * m
        a11, a12, a21, a22 = _count(row_indicators, column_indicators, 0, boundary, DEPTH, ROWS, COLUMNS)
        b11, b12, b21, b22 = _count(row_indicators, column_indicators, boundary, m, DEPTH, ROWS, COLUMNS)
        e11, e12 = first_outcome * a11 + second_outcome * b11, first_outcome * a12 + second_outcome * b12
        e21, e22 = first_outcome * a21 + second_outcome * b21, first_outcome * a22 + second_outcome * b22
        a11, a12 = (a11 + b11) * one_over_m, (a12 + b12) * one_over_m
        a21, a22 = (a21 + b21) * one_over_m, (a22 + b22) * one_over_m
        row_index, column_index = tl.minimum(rows, n_rows - 1), tl.minimum(columns, n_columns - 1)
        statistic = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
        for a in tl.static_range(N_ROW_FUNCTIONS):
            r = row_coefficients + 8 * a * n_rows + row_index
            base, one, two, total = (
                tl.load(r),
                tl.load(r + n_rows),
                tl.load(r + 2 * n_rows),
                tl.load(r + 3 * n_rows),
            )
            square_base, square_one, square_two, square_total = (
                tl.load(r + 4 * n_rows),
                tl.load(r + 5 * n_rows),
                tl.load(r + 6 * n_rows),
                tl.load(r + 7 * n_rows),
            )
            for b in tl.static_range(N_COLUMN_FUNCTIONS):
                s = column_coefficients + 8 * b * n_columns + column_index
                weight = tl.load(weights + a * N_COLUMN_FUNCTIONS + b)
                inner = _expand(
                    e11,
                    e12,
                    e21,
                    e22,
                    (one, two),
                    (tl.load(s + n_columns), tl.load(s + 2 * n_columns)),
                    base,
                    tl.load(s),
                    total,
                    tl.load(s + 3 * n_columns),
                    outcome_sum,
                )
                squares = _expand(
                    a11,
                    a12,
                    a21,
                    a22,
                    (square_one, square_two),
                    (tl.load(s + 5 * n_columns), tl.load(s + 6 * n_columns)),
                    square_base,
                    tl.load(s + 4 * n_columns),
                    square_total,
                    tl.load(s + 7 * n_columns),
                    1.0,
                )
                statistic += inner * inner * (weight / tl.maximum(squares, 1e-6 / weight))
        _keep_best(
            statistic,
            rows,
            columns,
            valid,
            tl.load(thresholds),
            capacity,
            best_rows,
            best_columns,
            values,
            pairs,
            counts,
        )
