"""The contribution of every feature to the alignment of a random feature subset.

`bootstrap` is Algorithm 1 of the paper: thousands of random subsets and row subsamples. `exact` is the limit of
infinitely many subsets. Both take the same arguments and return the same result.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from randsel._numerics.arrays import clip, device_of, namespace, on_host, to_double, to_numpy
from randsel._numerics.columns import ColumnSource
from randsel._numerics.kernels import UNDERFLOW
from randsel._utils.jobs import generator, ordered_map
from randsel._utils.typing import Array
from randsel.contribution._closed_form import Contribution, check_gamma, closed_form
from randsel.contribution._sample import Sample
from randsel.targets._target import Target

#: Rows above which the closed form is averaged over row blocks of at most this size: pairs grow as m².
MAX_ROWS = 2000
#: Draws that share one generator; fixed, so that the draws do not depend on the number of jobs.
BATCH = 32


@dataclass(frozen=True)
class Draws:
    """What is random: r and s of Algorithm 1, the seed, and the jobs to share the work among."""

    n_bootstraps: int = 3000
    subsample: float = 0.25
    seed: int = 0
    n_jobs: int | None = None
    on_block: Callable[[], None] | None = None
    """Called when a block of rows, or a batch of draws, is done; `blocks_per_round` says how often."""


# ---------------------------------------------------------------- exact


def exact(sample: Sample, gamma: float, draws: Draws) -> Contribution:
    """Contributions in the limit of infinitely many subsets; a feature enters a subset with probability ½."""
    blocks = row_blocks(sample.target, draws)
    if len(blocks) == 1:
        return closed_form(sample, gamma)
    return _average(on_rows(sample, blocks, _block, gamma, draws, draws.on_block))


def on_rows(
    sample: Sample,
    blocks: list[Array],
    function: Callable[[Sample, float], Any],
    gamma: float,
    draws: Draws,
    on_done: Callable[[], None] | None = None,
) -> list[Any]:
    """Results of a function of the samples of blocks of rows, and of a bandwidth.

    A source of columns with workers of its own gets whole row blocks if they are not too large for one worker;
    otherwise its workers share the columns of one row block after the other.
    """
    n_jobs = draws.n_jobs
    if isinstance(sample.X, ColumnSource):
        results = sample.X.map_row_blocks(blocks, _there, sample.target, sample.fixed, function, gamma)
        if results is not None:
            if on_done is not None:
                for _ in results:
                    on_done()
            return results
        n_jobs = 1 if sample.X.computes_elsewhere else n_jobs
    tasks = [(sample, rows, function, gamma) for rows in blocks]
    return ordered_map(_here, tasks, n_jobs, on_done)


def _here(sample: Sample, rows: Array, function: Callable[[Sample, float], Any], gamma: float) -> Any:
    return function(sample.rows(rows), gamma)


def _there(
    X: Array, rows: Array, target: Target, fixed: Array, function: Callable[[Sample, float], Any], gamma: float
) -> Any:
    return function(Sample(X, target.rows(rows), fixed), gamma)


def row_blocks(target: Target, draws: Draws) -> list[Array]:
    """All rows at once, or a random partition into blocks where the pairs of all rows would be too many.

    Rows are dealt to the blocks in order of the target, so that each has its share of every class.
    """
    m = len(target.Y)
    if m <= MAX_ROWS:
        return [np.arange(m)]
    size = MAX_ROWS // 2
    order = generator(draws.seed).permutation(m)
    order = order[np.argsort(target.strata[order].round(9), kind="stable")]
    n_blocks = round(m / size)
    return [np.sort(order[start::n_blocks]) for start in range(min(n_blocks, draws.n_bootstraps))]


def _block(sample: Sample, gamma: float) -> Contribution:
    # what is computed when called would keep the matrices of all blocks alive
    return replace(closed_form(sample, gamma), bounds=None, skewness=None)


def _average(parts: list[Contribution]) -> Contribution:
    """Mean of the totals; scores of independent blocks add up to √B times a standard score."""
    scale = max(part.log_scale for part in parts)

    def mean(name: str) -> Any:
        return sum(getattr(part, name) * float(np.exp(part.log_scale - scale)) for part in parts) / len(parts)

    def combined(name: str) -> Any:
        return sum(getattr(part, name) for part in parts) / len(parts) ** 0.5

    # a matrix of rank one has skewness √8, and a sum of B independent scores 1/√B of theirs
    most = float(np.sqrt(8.0 / len(parts)))
    return Contribution(
        relative=mean("relative"),
        log_scale=scale,
        main=combined("main"),
        interaction=combined("interaction"),
        skewness=(lambda: most, lambda: most),
    )


def blocks_per_round(name: str, target: Target, draws: Draws) -> int:
    """Count the blocks of rows of `exact`, or the batches of draws of `bootstrap`; none if all is one block."""
    if name == "bootstrap":
        return 2 * -(-draws.n_bootstraps // BATCH)
    count = len(row_blocks(target, draws))
    return count if count > 1 else 0


# ---------------------------------------------------------------- bootstrap


def bootstrap(sample: Sample, gamma: float, draws: Draws, *, normalise: bool = True) -> Contribution:
    """Algorithm 1: r draws over half of the free features, r others over one more, each on a subsample of s rows.

    `c_j` is the mean alignment of the larger subsets with j in them, less that of the smaller ones without j. A
    feature that no draw covers gets the value of no evidence, the difference of the two overall means.
    With `normalise=False` a draw's value is the mean of `L∘K` over pairs of different rows (the paper's definition 2)
    instead of the normalised alignment.
    """
    check_gamma(gamma, sample)
    n_free = int((~sample.fixed).sum())
    small, large = n_free // 2, min(n_free // 2 + 1, n_free)
    with_sum, with_count, with_mean = _mean_over_draws(sample, gamma, large, 1, draws, normalise=normalise)
    all_sum, all_count, without_mean = _mean_over_draws(sample, gamma, small, 0, draws, normalise=normalise)
    without_sum, without_count = without_mean * draws.n_bootstraps - all_sum, draws.n_bootstraps - all_count
    uncovered = int(((with_count == 0) | (without_count == 0)).sum())
    if uncovered:
        warnings.warn(
            f"{uncovered} of {n_free} features were in none of the {draws.n_bootstraps} larger random subsets, or in "
            "all of the smaller ones, and count as neutral; raise n_bootstraps, or use estimator='exact'.",
            UserWarning,
            stacklevel=2,
        )
    mean_with = np.where(with_count > 0, with_sum / np.maximum(with_count, 1), with_mean)
    mean_without = np.where(without_count > 0, without_sum / np.maximum(without_count, 1), without_mean)
    relative = np.full(len(sample.fixed), with_mean - without_mean)
    relative[~sample.fixed] = mean_with - mean_without
    return Contribution(relative, 0.0)


def _mean_over_draws(
    sample: Sample, gamma: float, size: int, kind: int, draws: Draws, *, normalise: bool
) -> tuple[Array, Array, float]:
    """Per free feature: sum of the values of the draws that hold it, and their number; and the mean of all values."""
    starts = range(0, draws.n_bootstraps, BATCH)
    problem = sample, gamma, replace(draws, on_block=None), normalise  # what goes to other processes
    tasks = [(*problem, size, (kind, start // BATCH)) for start in starts]
    sums, counts, total, informative = 0.0, 0, 0.0, False
    for batch_sums, batch_counts, batch_total, any_pair in ordered_map(_batch, tasks, draws.n_jobs, draws.on_block):
        sums, counts, total = sums + batch_sums, counts + batch_counts, total + batch_total
        informative |= any_pair
    if not informative:
        raise ValueError(UNDERFLOW.format(gamma))
    return np.asarray(sums), np.asarray(counts), total / draws.n_bootstraps


def _batch(
    sample: Sample, gamma: float, draws: Draws, normalise: bool, size: int, address: tuple[int, int]
) -> tuple[Array, Array, float, bool]:
    columns, rows = draw_subsets(sample, size, address, draws)
    values, informative = alignments(sample, gamma, columns, rows, normalise=normalise)
    held = np.zeros((len(values), int((~sample.fixed).sum())))
    np.put_along_axis(held, columns, 1.0, axis=1)
    return values @ held, held.sum(axis=0), float(values.sum()), informative


def draw_subsets(sample: Sample, size: int, address: tuple[int, int], draws: Draws) -> tuple[Array, Array]:
    """Draw one batch: `size` of the free features per draw, and s rows, by their weights if there are any."""
    kind, batch = address
    count = min(BATCH, draws.n_bootstraps - batch * BATCH)
    m, n_free = len(sample.X), int((~sample.fixed).sum())
    s = int(np.clip(round(draws.subsample * m), 4, m))
    rng = generator(draws.seed, kind, batch)
    columns = _smallest(rng.random((count, n_free)), size)
    keys = rng.random((count, m))
    if sample.target.weights is not None:
        with np.errstate(over="ignore"):
            keys = -np.log1p(-keys) / to_numpy(sample.target.weights)
    return columns, _smallest(keys, s)


def _smallest(keys: Array, count: int) -> Array:
    """Positions of the `count` smallest keys of each row, in ascending order of position."""
    if count < keys.shape[1]:
        keys = np.argpartition(keys, count, axis=1)[:, :count]
        return np.sort(keys, axis=1)
    return np.tile(np.arange(keys.shape[1]), (len(keys), 1))


def alignments(
    sample: Sample, gamma: float, columns: Array, rows: Array, *, normalise: bool = True
) -> tuple[Array, bool]:
    """Values of one draw per row of `columns` (among the free features) and `rows`, and whether any kernel varied."""
    Y = sample.target.Y if sample.target.weights is None else sample.target.Y / sample.target.weights[:, None]
    xp, s = namespace(Y), rows.shape[1]
    kernels = _grams(sample, columns, rows)
    norms = xp.asarray(xp.linalg.diagonal(kernels), copy=True)
    kernels *= 2.0
    kernels -= norms[:, :, None]
    kernels -= norms[:, None, :]
    kernels = clip(kernels, None, 0.0)
    # less one: centring does not see it, and a kernel close to one keeps its digits
    with np.errstate(over="ignore"):
        kernels *= gamma
    kernels = xp.expm1(kernels)
    diagonal = np.arange(s)
    kernels[:, diagonal, diagonal] = 0.0
    row_sums = kernels.sum(axis=2)
    informative = bool(xp.any(row_sums > 1 - s))
    part_Y = Y[rows, :]
    if not normalise:
        kernels += 1.0 - xp.eye(s, dtype=xp.float64, device=device_of(Y))
        return to_numpy((part_Y * (kernels @ part_Y)).sum(axis=(1, 2)) / (s * (s - 1))), informative
    part_Y = part_Y - xp.mean(part_Y, axis=1, keepdims=True)
    aligned = (part_Y * (kernels @ part_Y)).sum(axis=(1, 2))
    squares = (kernels * kernels).sum(axis=(1, 2))
    norm_x = squares - (row_sums * row_sums).sum(axis=1) * (2 / s) + (row_sums.sum(axis=1) / s) ** 2
    norm_y = ((xp.matrix_transpose(part_Y) @ part_Y) ** 2).sum(axis=(1, 2))
    flat = (norm_x <= 1e-13 * squares) | (norm_y <= 0.0)
    lengths = xp.sqrt(xp.where(flat, 1.0, norm_x * norm_y))
    return to_numpy(xp.where(flat, 0.0, aligned / lengths)), informative


def _grams(sample: Sample, columns: Array, rows: Array) -> Any:
    """Gram matrix of the rows and columns of every draw, and of the fixed features, in double precision."""
    free, always = np.flatnonzero(~sample.fixed), np.flatnonzero(sample.fixed)
    chosen = np.concatenate([np.tile(always, (len(rows), 1)), free[columns]], axis=1)
    if not on_host(sample.target.Y):
        parts = to_double(sample.X[rows[:, :, None], chosen[:, None, :]])
        return parts @ namespace(parts).matrix_transpose(parts)
    s = rows.shape[1]
    grams = np.empty((len(rows), s, s))
    # memory for all draws: fresh one costs more than what is done with it
    of_rows, of_both = (np.empty((s, width), dtype=sample.X.dtype) for width in (sample.X.shape[1], chosen.shape[1]))
    part = of_both if of_both.dtype == np.float64 else np.empty(of_both.shape)
    for gram, held, at in zip(grams, chosen, rows, strict=True):
        # "clip", as all places are there: "raise" would copy the result once more
        np.take(sample.X, at, axis=0, out=of_rows, mode="clip")
        np.take(of_rows, held, axis=1, out=of_both, mode="clip")
        if part is not of_both:
            part[:] = of_both
        np.matmul(part, part.T, out=gram)
    return grams
