"""The contribution by Algorithm 1 of the paper: thousands of random feature subsets, each on a subsample of rows."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from randsel._numerics.arrays import clip, namespace, on_host, to_double, to_numpy
from randsel._numerics.kernels import UNDERFLOW
from randsel._utils.jobs import generator, ordered_map
from randsel._utils.text import warn
from randsel._utils.typing import Array
from randsel.contribution._expected_kernel import PLAIN, Weighting
from randsel.contribution._sample import Contribution, Sample

#: Draws per generator; fixed, so that the draws do not depend on the number of jobs.
BATCH = 32


@dataclass(frozen=True)
class Draws:
    """Number and seed of the random draws of an estimate, and the jobs that share its work.

    Attributes
    ----------
    n_bootstraps, subsample
        Draws and fraction of rows in Algorithm 1; `exact` uses at most `n_bootstraps` blocks of rows.
    seed, n_jobs
        Seed of the generators, and number of jobs.
    on_block
        Called when a block of rows, or a batch of draws, is done.
    """

    n_bootstraps: int = 3000
    subsample: float = 0.25
    seed: int = 0
    n_jobs: int | None = None
    on_block: Callable[[], None] | None = None

    @property
    def n_batches(self) -> int:
        """Number of batches of draws in one estimate by `bootstrap`."""
        return 2 * -(-self.n_bootstraps // BATCH)


def bootstrap(sample: Sample, gamma: float, draws: Draws, weighting: Weighting = PLAIN) -> Contribution:  # noqa: ARG001
    """Return contributions to the target itself by Algorithm 1, with the Gaussian kernel.

    `n_bootstraps` draws take half of the free features, and as many take one more, each on a subsample of rows. `c_j`
    is the mean alignment of the larger subsets that contain j, less that of the smaller ones that do not. Where there
    is no such subset, the mean over all subsets of the size takes its place.
    """
    sample.check_gamma(gamma)
    n_free = int((~sample.fixed).sum())
    small, large = n_free // 2, min(n_free // 2 + 1, n_free)
    with_sum, with_count, with_mean = _mean_over_draws(sample, gamma, large, 1, draws)
    all_sum, all_count, without_mean = _mean_over_draws(sample, gamma, small, 0, draws)
    # Sums over the draws without a feature: those over all draws less those with it.
    without_sum, without_count = without_mean * draws.n_bootstraps - all_sum, draws.n_bootstraps - all_count
    uncovered = int(((with_count == 0) | (without_count == 0)).sum())
    if uncovered:
        warn(
            f"{uncovered} of {n_free} features were in none of the {draws.n_bootstraps} larger random subsets, or in "
            "all of the smaller ones, and count as neutral; raise n_bootstraps, or use estimator='exact'.",
            stacklevel=2,
        )
    mean_with = np.where(with_count > 0, with_sum / np.maximum(with_count, 1), with_mean)
    mean_without = np.where(without_count > 0, without_sum / np.maximum(without_count, 1), without_mean)
    relative = np.full(len(sample.fixed), with_mean - without_mean)
    relative[~sample.fixed] = mean_with - mean_without
    return Contribution(relative, 0.0)


def _mean_over_draws(sample: Sample, gamma: float, size: int, kind: int, draws: Draws) -> tuple[Array, Array, float]:
    """Return, per free feature, the sum over draws that contain it and their number; and the mean over all draws."""
    # Callbacks cannot be sent to other processes.
    shared = sample, gamma, replace(draws, on_block=None), size
    tasks = [(*shared, (kind, batch)) for batch in range(-(-draws.n_bootstraps // BATCH))]
    sums, counts, total, informative = 0.0, 0, 0.0, False
    for batch_sums, batch_counts, batch_total, any_pair in ordered_map(_batch, tasks, draws.n_jobs, draws.on_block):
        sums, counts, total = sums + batch_sums, counts + batch_counts, total + batch_total
        informative |= any_pair
    if not informative:
        raise ValueError(UNDERFLOW.format(gamma))
    return np.asarray(sums), np.asarray(counts), total / draws.n_bootstraps


def _batch(
    sample: Sample, gamma: float, draws: Draws, size: int, address: tuple[int, int]
) -> tuple[Array, Array, float, bool]:
    """Return what `_mean_over_draws` adds up, for one batch, and whether any of its kernels varied."""
    columns, rows = draw_subsets(sample, size, address, draws)
    values, informative = alignments(sample, gamma, columns, rows)
    membership = np.zeros((len(values), int((~sample.fixed).sum())))
    np.put_along_axis(membership, columns, 1.0, axis=1)
    return values @ membership, membership.sum(axis=0), float(values.sum()), informative


def draw_subsets(sample: Sample, size: int, address: tuple[int, int], draws: Draws) -> tuple[Array, Array]:
    """Return (columns, rows) of one batch of draws: `size` of the free features, and a subsample of the rows.

    `address` is 1 for larger and 0 for smaller subsets, and the number of the batch. Rows are drawn without
    replacement, with probabilities that follow their weights: by the smallest exponential variables divided by the
    weights (Efraimidis and Spirakis).
    """
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
    """Return the positions of the `count` smallest keys of each row, ascending."""
    if count < keys.shape[1]:
        return np.sort(np.argpartition(keys, count, axis=1)[:, :count], axis=1)
    return np.tile(np.arange(keys.shape[1]), (len(keys), 1))


def alignments(sample: Sample, gamma: float, columns: Array, rows: Array) -> tuple[Array, bool]:
    """Return the alignment of each draw, and whether any kernel varied.

    Draw i uses the free features `columns[i]` and the samples `rows[i]`.
    """
    Y = sample.target.Y if sample.target.weights is None else sample.target.Y / sample.target.weights[:, None]
    xp, s = namespace(Y), rows.shape[1]
    kernels = _grams(sample, columns, rows)
    square_lengths = xp.asarray(xp.linalg.diagonal(kernels), copy=True)
    # -‖x_p - x_q‖², which rounding must not make positive.
    kernels *= 2.0
    kernels -= square_lengths[:, :, None]
    kernels -= square_lengths[:, None, :]
    kernels = clip(kernels, None, 0.0)
    # Centring κ - 1 gives the same as centring κ, and keeps the digits of a kernel close to one.
    with np.errstate(over="ignore"):
        kernels *= gamma
    kernels = xp.expm1(kernels)
    diagonal = np.arange(s)
    kernels[:, diagonal, diagonal] = 0.0
    row_sums = kernels.sum(axis=2)
    # All entries of κ - 1 off the diagonal are -1 if the kernel underflows.
    informative = bool(xp.any(row_sums > 1 - s))
    drawn_Y = Y[rows, :]
    drawn_Y = drawn_Y - xp.mean(drawn_Y, axis=1, keepdims=True)
    aligned = (drawn_Y * (kernels @ drawn_Y)).sum(axis=(1, 2))
    squares = (kernels * kernels).sum(axis=(1, 2))
    # ‖H K H‖² = Σ K² - 2/s Σ_p r_p² + (Σ_p r_p)²/s², with the row sums r.
    norm_x = squares - (row_sums * row_sums).sum(axis=1) * (2 / s) + (row_sums.sum(axis=1) / s) ** 2
    norm_y = ((xp.matrix_transpose(drawn_Y) @ drawn_Y) ** 2).sum(axis=(1, 2))
    constant = (norm_x <= 1e-13 * squares) | (norm_y <= 0.0)
    norms = xp.sqrt(xp.where(constant, 1.0, norm_x * norm_y))
    return to_numpy(xp.where(constant, 0.0, aligned / norms)), informative


def _grams(sample: Sample, columns: Array, rows: Array) -> Any:
    """Return the Gram matrix of every draw, fixed features included, in double precision."""
    free, always = np.flatnonzero(~sample.fixed), np.flatnonzero(sample.fixed)
    chosen = np.concatenate([np.tile(always, (len(rows), 1)), free[columns]], axis=1)
    if not on_host(sample.target.Y):
        drawn = to_double(sample.X[rows[:, :, None], chosen[:, None, :]])
        return drawn @ namespace(drawn).matrix_transpose(drawn)
    s = rows.shape[1]
    grams = np.empty((len(rows), s, s))
    # All draws use the same memory: allocating it costs more than the work done in it.
    all_columns = np.empty((s, sample.X.shape[1]), dtype=sample.X.dtype)
    drawn = np.empty((s, chosen.shape[1]), dtype=sample.X.dtype)
    drawn_double = drawn if drawn.dtype == np.float64 else np.empty(drawn.shape)
    for gram, draw_columns, draw_rows in zip(grams, chosen, rows, strict=True):
        # All indices are valid, so clipping changes nothing; mode="raise" would copy the result once more.
        np.take(sample.X, draw_rows, axis=0, out=all_columns, mode="clip")
        np.take(all_columns, draw_columns, axis=1, out=drawn, mode="clip")
        if drawn_double is not drawn:
            drawn_double[:] = drawn
        np.matmul(drawn_double, drawn_double.T, out=gram)
    return grams
