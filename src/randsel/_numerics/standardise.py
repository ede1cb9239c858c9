"""Standardised columns: rank scores, z-scores or centred values, without nuisance variables.

All work is done column by column, so that the values of a column do not depend on its position.

Rank scores are functions of the rank that replace a value; tied values have their mean rank. They depend only on the
order of the values, so an increasing transform of a column does not change them, not even in the last bit. A column
converted to another type has the same scores. Like z-scores, rank scores have mean zero and standard deviation one.
"""

import sys
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from randsel._numerics.arrays import (
    SCRATCH,
    as_array_like,
    astype,
    clip,
    column_ranges,
    device_of,
    is_single,
    namespace,
    on_host,
    rowwise_dot,
    take_along_rows,
    take_columns,
    to_double,
    to_floats,
    to_numpy,
)
from randsel._numerics.columns import STRIP, block_width, column_slices, monotone_scores, normal_scores
from randsel._numerics.missing import fill_with_means, fill_with_values, missing_mask, too_many_missing
from randsel._numerics.nuisance import MIN_LEFT, Nuisance
from randsel._utils.typing import Array

#: Default scaling, except for the bootstrap, which uses z-scores; `make bench-real` compares it with others.
SCALE = "rank"
#: Range of unscaled values whose fourth powers neither overflow nor underflow in double precision.
UNSCALED_RANGE = (1e-50, 1e50)
#: Distance of weighted ranks from 0 and 1, where the quantile is infinite.
MIN_RANK = 2.0**-52
ALL_CONSTANT = (
    "Every column of X is constant, or has more missing values than max_missing allows, so there is nothing to select; "
    "check how the table was read."
)


def standardise(
    X: Any,
    weights: Array | None,
    scale: bool | str,
    max_missing: float = 1.0,
    nuisance: Nuisance | None = None,
    *,
    complete: bool = False,
) -> tuple[Any, Array]:
    """Return the columns that vary, with mean zero and, unless `scale` is False, standard deviation one, and a mask.

    With `scale="rank"` or `"normal"` they are rank scores. Standard deviations are weighted. The observed values of
    an incomplete column have standard deviation one, and a missing value (NaN) gets their weighted mean: 0 if weights
    are equal.
    Nuisance variables are projected out of the columns. Columns that these explain, and columns in which a larger
    fraction than `max_missing` is missing, count as constant. Raises ValueError if no column varies. `complete` says
    that no value is missing, so that none is searched for.
    """
    Z, varies = standardise_columns(X, weights, scale, max_missing, nuisance, complete=complete)
    if not varies.any():
        raise ValueError(ALL_CONSTANT)
    return Z, varies


def standardise_columns(
    X: Any,
    weights: Array | None,
    scale: bool | str,
    max_missing: float = 1.0,
    nuisance: Nuisance | None = None,
    *,
    complete: bool = False,
) -> tuple[Any, Array]:
    """Return what `standardise` returns, also if no column varies."""
    xp = namespace(X)
    dtype = X.dtype if scale else xp.float64
    Z = xp.empty(X.shape, dtype=dtype, device=device_of(X))
    varies = np.zeros(X.shape[1], dtype=bool)
    row_weights = None if weights is None else as_array_like(weights / weights.sum(), X)
    for piece in column_slices(X.shape[1], block_width(X, STRIP)):
        x, out = X[:, piece], Z[:, piece]
        missing = None if complete else missing_mask(x)
        write = _scale_into if scale else _centre_into
        if isinstance(scale, str):
            write = partial(rank_scores_into, scale=scale)
        varies[piece] = to_numpy(write(out, x, row_weights, missing))
        if max_missing < 1.0 and missing is not None:
            varies[piece] &= ~too_many_missing(to_numpy(missing.sum(axis=0)), len(x), max_missing)
        if nuisance is not None:
            varies[piece] &= to_numpy(nuisance.remove_from_columns(out, rescale=bool(scale)) > MIN_LEFT)
    return (Z if varies.all() else take_columns(Z, varies)), varies


def _centre_into(out: Any, x: Any, row_weights: Any, missing: Any) -> Any:
    """Write centred columns into `out` and return which of them vary."""
    xp = namespace(x)
    if missing is not None:
        x = fill_with_values(x, missing)
    low, high = column_ranges(x)
    varies = high > low
    peaks = to_numpy(to_double(xp.maximum(xp.abs(low), xp.abs(high))))[to_numpy(varies)]
    if peaks.size and not (peaks.max() < UNSCALED_RANGE[1] and peaks.min() > UNSCALED_RANGE[0]):
        raise ValueError(
            f"Columns of X have largest values from {peaks.min():.3g} to {peaks.max():.3g}, too extreme for "
            "scale=False; use scale=True."
        )
    z = to_double(x)
    if missing is not None:
        z = fill_with_means(z, missing, row_weights)[0]
    out[:] = z - xp.mean(z, axis=0)
    if missing is not None and row_weights is None:
        out[missing] = 0.0  # without rounding errors
    return varies


def _scale_into(out: Any, x: Any, row_weights: Any, missing: Any) -> Any:
    """Write centred columns of standard deviation one into `out` and return which of them vary."""
    xp = namespace(x)
    if missing is not None:
        x = fill_with_values(x, missing)
    low, high = column_ranges(x)
    varies = high > low
    peak = xp.maximum(xp.abs(low), xp.abs(high))
    # A power of two changes no digit, and keeps squares of 1e30 and 1e-30 in range.
    least, most = to_floats(xp.where(peak > 0, peak, 1.0).min(), peak.max())
    if least < 2.0**-20 or most > 2.0**20:
        exponents = -np.frexp(to_numpy(to_double(peak)))[1]
        x = x * as_array_like(np.exp2(np.clip(exponents, -100, 100)), x, precise=False)
        # In two steps, because the power itself may be out of range.
        x *= as_array_like(np.exp2(exponents - np.clip(exponents, -100, 100)), x, precise=False)
    # Differences of neighbouring numbers are exact, so a small spread around a large value keeps its digits.
    z = x - x[0, :]
    if missing is not None:
        z, observed_weight = fill_with_means(z, missing, row_weights)
    z -= xp.mean(z, axis=0)
    # Differences are no smaller than the last digit of the largest value, so their squares do not vanish.
    if row_weights is None:
        variance = _mean_square(z)
    else:
        variance = _mean(to_double(z) ** 2, row_weights) - _mean(z, row_weights) ** 2
    if missing is not None:
        variance = variance / observed_weight
    # A column that varies by less than the rounding of its own mean counts as constant.
    varies &= variance > 0.0
    deviation = xp.sqrt(xp.where(varies, variance, xp.ones_like(variance)))
    z /= astype(deviation, z.dtype)
    xp.subtract(z, xp.mean(z, axis=0), out=out)  # scaling has rounded, so centre again
    if missing is not None and row_weights is None:
        out[missing] = 0.0  # without rounding errors
    return varies


def _mean_square(z: Any) -> Any:
    """Return the mean of squares over the rows, in double precision."""
    if on_host(z):  # single precision is squared as it is, and summed in double
        return _mean(z * z, None)
    xp = namespace(z)
    return xp.linalg.vector_norm(z, axis=0, dtype=xp.float64) ** 2 / z.shape[0]


def _mean(z: Any, row_weights: Any) -> Any:
    """Return the mean over the rows in double precision, with weights of sum one."""
    xp = namespace(z)
    if row_weights is None:
        if on_host(z) and is_single(z.dtype):
            return xp.sum(z, axis=0, dtype=xp.float64) / z.shape[0]
        return to_double(xp.mean(z, axis=0))
    return xp.sum(z * row_weights[:, None], axis=0)


def exponents_of_extremes(X: Array) -> Array:
    """Return the exponents of the powers of two by which to multiply columns of extreme size; 0 for all others.

    With them, sums of squares in other libraries stay in range.
    """
    peak = np.fmax.reduce(np.abs(X), axis=0, initial=0.0)  # without missing values
    extreme = (peak > 0.0) & ((peak > 1e15) | (peak < 1e-10))
    return np.where(extreme, -np.frexp(peak)[1], 0)


def rescale(X: Array, exponents: Array) -> Array:
    """Multiply columns by powers of two, exactly; X itself is returned if all exponents are 0."""
    return np.ldexp(X, exponents) if exponents.any() else X


# ---------------------------------------------------------------- scores of ranks


#: Values of `scale` that replace values by functions of their ranks.
RANK_SCORES = {"rank": monotone_scores, "normal": normal_scores}


@lru_cache(maxsize=8)
def midrank_scores(m: int, scale: str) -> Array:
    """Return the scores of the ranks k/(2m) for k = 1 … 2m - 1, which include all midranks; exactly antisymmetric."""
    lower = RANK_SCORES[scale](np.arange(1, m) / (2 * m))
    return np.concatenate([lower, [0.0], -lower[::-1]])


@lru_cache(maxsize=8)
def untied_scores(m: int, scale: str) -> Array:
    """Return the standardised scores of a column of m values without ties, ascending."""
    scores = midrank_scores(m, scale)[::2]
    return np.asarray(scores / np.sqrt(np.mean(scores**2))) if m > 1 else scores


# ---------------------------------------------------------------- rank scores of columns


def rank_scores_into(out: Any, x: Any, row_weights: Any, missing: Any, scale: str = "normal") -> Any:
    """Write the rank scores of the columns of x into `out` and return which columns vary.

    `row_weights` have sum one. The rank of a value, between 0 and 1, is the weight of smaller values plus half the
    weight of equal values, and the weighted standard deviation of the scores is one. Without weights the rank is
    (midrank - ½)/m.

    `missing` is a mask of the missing values, or None. The observed values of an incomplete column are scored as a
    column of their own, and missing values get their weighted mean: 0 if weights are equal. `scale` is a key of
    `RANK_SCORES`.
    """
    if not on_host(x):
        return _write_scores(out, x, row_weights, missing, scale)
    m, n = x.shape
    width = max(1, SCRATCH // m)  # the columns of a block stay in cache while they are sorted
    pieces = [slice(start, start + width) for start in range(0, n, width)]
    masks = [None if missing is None else missing[:, piece] for piece in pieces]
    blocks = ((out[:, piece], x[:, piece], row_weights, mask) for piece, mask in zip(pieces, masks, strict=True))
    return np.concatenate([_write_scores(*block, scale) for block in blocks])


def _write_scores(out: Any, x: Any, row_weights: Any, missing: Any, scale: str) -> Any:
    """Do what `rank_scores_into` does, for a block of columns."""
    rows = x.T.astype(np.float64, order="C") if on_host(x) else x.T.contiguous()
    if missing is None or not bool(missing.any()):
        scores, varies = _scores_of_rows(rows, row_weights, scale, out.dtype)
        out[:] = scores.T
        return varies
    missing = missing.T
    incomplete = namespace(x).any(missing, axis=1)
    varies = namespace(x).zeros_like(incomplete)
    if not bool(incomplete.all()):
        scores, varies[~incomplete] = _scores_of_rows(rows[~incomplete], row_weights, scale, out.dtype)
        out[:, ~incomplete] = scores.T
    holes = rows[incomplete], missing[incomplete]
    scores, varies[incomplete] = _scores_of_incomplete_rows(*holes, row_weights, scale)
    out[:, incomplete] = astype(scores, out.dtype).T
    return varies


def _scores_of_rows(rows: Any, row_weights: Any, scale: str, dtype: Any) -> tuple[Any, Any]:
    """Return the scores of rows without missing values, and which rows vary."""
    order, tied, values = _sort_rows(rows, weighted=row_weights is not None)
    varies, tied_scores = namespace(rows).ones_like(rows[:, 0], dtype=bool), None
    if tied.shape[0]:
        varies[tied] = values[:, 0] < values[:, -1]
        sorted_weights = None if row_weights is None else row_weights[order]
        tied_scores = astype(_scores_of_sorted_rows(values, sorted_weights, scale), dtype)
    # All columns without ties have the same scores, each in its own order.
    untied = astype(as_array_like(untied_scores(rows.shape[1], scale), rows), dtype)
    return _scatter_rows(order, untied, tied, tied_scores), varies


def _scores_of_incomplete_rows(rows: Any, missing: Any, row_weights: Any, scale: str) -> tuple[Any, Any]:
    """Return the scores of rows with missing values, and which rows vary."""
    xp = namespace(rows)
    # A missing value comes last and has no weight.
    rows = xp.where(missing, xp.full_like(rows, np.inf), rows)
    weights = astype(~missing, xp.float64) * (1.0 if row_weights is None else row_weights)
    order = np.argsort(rows, axis=1, kind="stable") if on_host(rows) else rows.argsort(dim=1, stable=True)
    values, weights = take_along_rows(rows, order), take_along_rows(weights, order)
    totals = weights.sum(axis=1)[:, None]
    weights /= xp.where(totals > 0.0, totals, xp.ones_like(totals))
    scores = _scores_of_sorted_rows(values, weights, scale)
    scores -= rowwise_dot(weights, scores)[:, None]
    sorted_missing = take_along_rows(missing, order)
    scores = xp.where(sorted_missing, xp.zeros_like(scores), scores)
    if row_weights is not None:  # as in complete columns, the mean without weights is zero
        scores -= scores.mean(axis=1)[:, None]
    largest = xp.where(sorted_missing, xp.full_like(values, -np.inf), values)
    return take_along_rows(scores, order.argsort(1)), values[:, 0] < xp.max(largest, axis=1)


def _sort_rows(rows: Any, *, weighted: bool) -> tuple[Any, Any, Any]:
    """Return the order of every row, the indices of the rows with ties, and the sorted values of these rows.

    If weighted, all rows count as tied, and equal values keep their order, which sums of their weights depend on.
    """
    if not on_host(rows):
        values, order = rows.sort(dim=1, stable=weighted)
        has_ties = (values[:, 1:] == values[:, :-1]).any(dim=1)
        tied = (has_ties | weighted).nonzero()[:, 0]
        return order, tied, values[tied]
    # NumPy sorts numbers three times as fast as it finds their order. So the lowest bits of each number are replaced by
    # its position. They are beyond the digits of single precision, and rarely tell numbers of a column apart.
    m = rows.shape[1]
    position_bits = np.int64((1 << (m - 1).bit_length()) - 1)
    order = rows.view(np.int64) & ~position_bits
    order |= np.arange(m)
    order.view(np.float64).sort(axis=1)
    differences = (order[:, 1:] ^ order[:, :-1]).view(np.uint64)
    has_ties = (differences <= np.uint64(position_bits)).any(axis=1)
    order &= position_bits
    tied = np.flatnonzero(has_ties | weighted)
    values = np.take(rows, order[tied] + tied[:, None] * m)
    out_of_order = (values[:, 1:] < values[:, :-1]).any(axis=1)
    for k in np.flatnonzero(out_of_order | (weighted & has_ties[tied])):
        order[tied[k]] = np.argsort(rows[tied[k]], kind="stable")
        values[k] = rows[tied[k], order[tied[k]]]
    return order, tied, values


def _scatter_rows(order: Any, untied: Any, tied: Any, tied_scores: Any) -> Any:
    """Return scores in the order of the columns: `untied` in rows without ties, `tied_scores` in the rows `tied`."""
    if on_host(order):
        scores = np.empty(order.shape, dtype=untied.dtype)
        sorted_rows = [untied] * len(order)
        for row, row_scores in zip(tied, () if tied_scores is None else tied_scores, strict=True):
            sorted_rows[row] = row_scores
        for positions, row, row_scores in zip(order, scores, sorted_rows, strict=True):
            row[positions] = row_scores
        return scores
    sorted_scores = untied.expand(order.shape)
    if tied_scores is not None:
        sorted_scores = sorted_scores.clone()
        sorted_scores[tied] = tied_scores
    return sorted_scores.new_empty(order.shape).scatter_(1, order, sorted_scores)


def _scores_of_sorted_rows(values: Any, sorted_weights: Any, scale: str) -> Any:
    """Return the scores of sorted rows, in double precision; those of constant rows have no meaning."""
    xp = namespace(values)
    n, m = values.shape
    begins = xp.ones_like(values, dtype=xp.bool)
    begins[:, 1:] = values[:, 1:] != values[:, :-1]
    # Runs of equal values, from `first` to before `stop` in the rows laid end to end.
    first = xp.nonzero(xp.reshape(begins, (-1,)))[0]
    stop = xp.concat([first[1:], xp.full_like(first[:1], n * m)])
    if sorted_weights is None:
        # Positions from 0 have the mean (first + stop - 1)/2, so (midrank - ½)/m = (first + stop)/(2m) in each row.
        quantiles = as_array_like(midrank_scores(m, scale), values)[first + stop - 1 - 2 * m * (first // m)]
    else:
        cumulated = xp.reshape(sorted_weights.cumsum(axis=1), (-1,))
        below = xp.where(first % m == 0, 0.0, cumulated[first - 1])
        ranks = clip((below + cumulated[stop - 1]) / 2, MIN_RANK, 1.0 - MIN_RANK)
        quantiles = RANK_SCORES[scale](ranks)
    repeat = np.repeat if on_host(values) else sys.modules["torch"].repeat_interleave
    scores = xp.reshape(repeat(quantiles, stop - first), (n, m))
    scores -= scores.mean(axis=1)[:, None]
    if sorted_weights is None:
        deviation = xp.sqrt(rowwise_dot(scores, scores) / m)
    else:
        centred = scores - rowwise_dot(sorted_weights, scores)[:, None]
        deviation = xp.sqrt(rowwise_dot(sorted_weights * centred, centred))
    scores /= xp.where(deviation > 0.0, deviation, 1.0)[:, None]
    return scores


# ---------------------------------------------------------------- rank scores of new rows


@dataclass(frozen=True)
class RankScorer:
    """Rank scores of new rows, ranked among the training rows.

    The rank of a value between two training values is midway between theirs. Beyond the extremes of the training rows,
    it is the rank of the extreme. Training rows get the scores that `rank_scores_into` writes. Missing values have the
    score 0.

    Attributes
    ----------
    sorted_columns
        The training values of each column (rows), ascending; missing ones last.
    mean, deviation
        Mean and standard deviation of the raw scores of each training column; constant columns have deviation one.
    scale
        Kind of score, a key of `RANK_SCORES`.
    """

    sorted_columns: Array
    mean: Array
    deviation: Array
    scale: str = "normal"

    @classmethod
    def from_samples(cls, X: Array, scale: str = "normal") -> "RankScorer":
        """Return the scorer of training rows."""
        sorted_columns, mean, deviation = np.sort(X.T, axis=1), np.zeros(X.shape[1]), np.ones(X.shape[1])
        quantiles = cls(sorted_columns, mean, deviation, scale).apply(X)
        mean, deviation = quantiles.mean(axis=0), quantiles.std(axis=0)
        varies = np.ptp(sorted_columns, axis=1) > 0
        for j in np.flatnonzero(np.isnan(sorted_columns[:, -1])):
            observed = quantiles[~np.isnan(X[:, j]), j]
            varies[j] = len(observed) > 0 and np.ptp(observed) > 0
            mean[j], deviation[j] = (observed.mean(), observed.std()) if varies[j] else (0.0, 1.0)
        return cls(sorted_columns, mean, np.where(varies, deviation, 1.0), scale)

    def apply(self, X: Array) -> Array:
        """Return the scores of rows."""
        scores = np.empty(X.shape)
        counts = np.count_nonzero(~np.isnan(self.sorted_columns), axis=1)
        for j, (training, count) in enumerate(zip(self.sorted_columns, counts.tolist(), strict=True)):
            column = training[:count] if count else np.zeros(1)
            x = np.clip(X[:, j], column[0], column[-1])
            doubled_ranks = np.searchsorted(column, x, side="left") + np.searchsorted(column, x, side="right")
            quantiles = midrank_scores(len(column), self.scale)
            scores[:, j] = quantiles[np.minimum(doubled_ranks, 2 * len(column) - 1) - 1]
        scores = (scores - self.mean) / self.deviation
        missing = missing_mask(X)
        return scores if missing is None else np.where(missing, 0.0, scores)
