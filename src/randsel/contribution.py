"""The contribution of every feature to the alignment of a random feature subset.

`bootstrap` is Algorithm 1 of the paper: thousands of random subsets and row subsamples. `exact` is the limit of
infinitely many subsets in closed form (docs/mathematics.md, eq. 3), with the two calibrated parts (eq. 7). Both take
the same arguments and return the same result.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from randsel._parallel import generator, ordered_map
from randsel.alignment import null_scale
from randsel.kernels import Array, PairSums, Sample, hollow_split, squared_distances

#: Largest error, in standard deviations of the null, that the series may cause in a score: a worst case, by bound.
TOLERANCE = 0.1
#: Rows above which the closed form is averaged over row blocks of at most this size: pairs grow as m².
MAX_ROWS = 2000
#: Bytes of `tanh` values kept between the two passes of the element-wise route; beyond, they are computed twice.
KEEP_BYTES = 48 << 20
#: Elements per scratch array of the element-wise route: what stays in cache.
SCRATCH = 1 << 17
#: Columns per block of the matrix route: block and product stay in the second-level cache for a few hundred rows.
BLOCK_COLUMNS = 1024
_UNDERFLOW = (
    "gamma={:g} is so large that the kernel is zero between all different samples, which leaves nothing to compare; "
    "use gamma='median' or a smaller number."
)
#: Draws that share one generator; fixed, so that the draws do not depend on the number of jobs.
BATCH = 32


@dataclass(frozen=True)
class Draws:
    """What is random: r and s of Algorithm 1, the seed, and the jobs to share the work among."""

    n_bootstraps: int = 3000
    subsample: float = 0.25
    seed: int = 0
    n_jobs: int | None = None


@dataclass(frozen=True)
class Contribution:
    """Contributions of all features of a sample.

    Attributes
    ----------
    relative, log_scale
        `total = relative · exp(log_scale)`; `relative` ranks features even where the kernel itself underflows.
    main, interaction
        Standard scores of what a feature does alone and together with others; None from the bootstrap.
    total_bound, score_bound
        Largest possible error of `relative` and of the two scores through the series of the matrix route.
    """

    relative: Array
    log_scale: float
    main: Array | None = None
    interaction: Array | None = None
    total_bound: Array | None = None
    score_bound: Array | None = None

    @property
    def total(self) -> Array:
        """`c_i`, the paper's contribution."""
        total: Array = self.relative * np.exp(self.log_scale)
        return total

    def sort_keys(self, score: str) -> tuple[Array, Array]:
        """What features are ranked by, and what breaks ties: the positive sum of the parts, or the total."""
        if score == "total" or self.main is None or self.interaction is None:
            return self.relative, self.relative
        return np.maximum(self.main, 0.0) + np.maximum(self.interaction, 0.0), self.main + self.interaction


# ---------------------------------------------------------------- closed form


def exact(sample: Sample, gamma: float, draws: Draws) -> Contribution:
    """Contributions in the limit of infinitely many subsets; a feature enters a subset with probability ½."""
    blocks = row_blocks(len(sample.X), draws)
    if len(blocks) == 1:
        return _closed_form(sample, gamma)
    parts = ordered_map(_closed_form_rows, [(sample, rows, gamma) for rows in blocks], draws.n_jobs)
    return _average(parts)


def row_blocks(m: int, draws: Draws) -> list[Array]:
    """All rows at once, or a random partition into blocks where the pairs of all rows would be too many."""
    if m <= MAX_ROWS:
        return [np.arange(m)]
    size = int(np.clip(np.ceil(draws.subsample * m), 4, MAX_ROWS))
    order = generator(draws.seed).permutation(m)
    n_blocks = min(draws.n_bootstraps, m // size)
    return [np.sort(rows) for rows in np.array_split(order[: m if n_blocks == m // size else n_blocks * size], n_blocks)]


def _closed_form_rows(sample: Sample, rows: Array, gamma: float) -> Contribution:
    return _closed_form(sample.rows(rows), gamma)


def _average(parts: list[Contribution]) -> Contribution:
    """Mean of the totals; scores of independent blocks add up to √B times a standard score."""
    scale = max(part.log_scale for part in parts)
    relative = np.mean([part.relative * np.exp(part.log_scale - scale) for part in parts], axis=0)
    root = np.sqrt(len(parts))
    return Contribution(
        relative=relative,
        log_scale=scale,
        main=np.sum([part.main for part in parts], axis=0) / root,
        interaction=np.sum([part.interaction for part in parts], axis=0) / root,
        total_bound=np.mean([part.total_bound * np.exp(part.log_scale - scale) for part in parts], axis=0),
        score_bound=np.sum([part.score_bound for part in parts], axis=0) / root,
    )


def _closed_form(sample: Sample, gamma: float) -> Contribution:
    """Features whose series is short enough go through matrix products, the rough ones element by element.

    Which are rough follows from the bound on the series, never from hope: first from the bound on each feature's own
    function, then, if the expected kernel could still be off, from the share each has in that.
    """
    moments = _Moments.of(sample.X, gamma)
    rough = moments.slope_error() > TOLERANCE
    for _ in range(3):
        if rough.mean() > 0.5:
            rough[:] = True
        result, allowed = _evaluate(sample, gamma, moments, rough)
        if rough.all() or moments.log_error(~rough & ~sample.fixed).sum() <= allowed:
            return result
        order = np.argsort(moments.reach, kind="stable")
        rough[order[np.cumsum(moments.log_error(~sample.fixed)[order]) > 0.5 * allowed]] = True
    return _evaluate(sample, gamma, moments, np.ones_like(rough))[0]


@dataclass(frozen=True)
class _Moments:
    """Per feature: what the first-order form and its error bound need. Columns have mean zero."""

    m: int
    second: Array
    fourth: Array
    reach: Array
    dtype: Any

    @classmethod
    def of(cls, X: Array, gamma: float) -> "_Moments":
        square = X * X
        fourth = np.einsum("ij,ij->j", square, square).astype(np.float64)
        span = np.asarray(X.max(axis=0) - X.min(axis=0), dtype=np.float64)
        return cls(len(X), square.sum(axis=0).astype(np.float64), fourth, gamma * span * span, X.dtype)

    def hollow_norm(self) -> Array:
        """`‖U(x xᵀ)‖_F` (eq. 9)."""
        m = self.m
        square = self.second**2 * (1 + 1 / ((m - 1) * (m - 2))) - self.fourth * m / (m - 2)
        return _root(square, self.second**2, m, self.dtype)

    def pair_norm(self) -> Array:
        """`‖d‖_F`, the norm of a feature's squared differences."""
        norm: Array = np.sqrt(2 * self.m * self.fourth + 6 * self.second**2)
        return norm

    def slope_error(self) -> Array:
        """Bound on the error of a score when `2 tanh(u/2)` is replaced by `u` times a constant (eq. 11)."""
        slope = _tanh_slope(self.reach)
        hollow = self.hollow_norm()
        ratio = np.divide(self.pair_norm(), 2 * hollow, out=np.zeros_like(hollow), where=hollow > 0)
        bound: Array = 2 * null_scale(self.m) * (1 - slope) / (1 + slope) * ratio
        return bound

    def log_error(self, features: Array) -> Array:
        """Bound on each feature's share in the error of `log Q` to second order (eq. 10)."""
        error: Array = np.where(features, self.reach**4 / 192, 0.0)
        return error


def _tanh_slope(u: Array) -> Array:
    """`2 tanh(u/2) / u`, between 0 and 1."""
    small = u < 1e-4
    safe = np.where(small, 1.0, u)
    slope: Array = np.where(small, 1.0 - u * u / 12, 2 * np.tanh(safe / 2) / safe)
    return slope


def _root(square: Array, scale: Array, m: int, dtype: Any) -> Array:
    """Square root, with zero for what is only rounding of sums over m rows of numbers as large as `scale`."""
    root: Array = np.sqrt(np.where(square > 8 * m * np.finfo(dtype).eps * scale, square, 0.0))
    return root


@dataclass(frozen=True)
class _Weights:
    """The matrices that every feature's function is paired with, and their norms."""

    interaction: Array
    interaction_norm: float
    main_norm: float
    total: Array
    expected: Array
    rho: Array
    rest: Array

    @classmethod
    def of(cls, sample: Sample, log_expected: Array) -> tuple["_Weights", float]:
        """`U(L∘U(Q))` and `L∘Q` from `log Q`, whose maximum is returned as the scale (eq. 4 and 6)."""
        np.fill_diagonal(log_expected, -np.inf)
        scale = float(log_expected.max())
        expected = np.exp(log_expected - scale)
        hollow, rho = hollow_split(expected)
        hollow *= sample.target.kernel
        interaction, rest = hollow_split(hollow)
        norm = float(np.linalg.norm(interaction))
        # what is left of a product with a constant kernel is rounding
        norm = norm if norm > 1e-12 * float(np.linalg.norm(sample.target.hollow[0])) else 0.0
        main_norm = float(np.linalg.norm(sample.target.hollow[0]))
        return cls(interaction, norm, main_norm, sample.target.kernel * expected, expected, rho, rest), scale


def _evaluate(sample: Sample, gamma: float, moments: _Moments, rough: Array) -> tuple[Contribution, float]:
    """Contributions, and how large the error of `log Q` may be for the interaction scores to stay in tolerance."""
    m, n = sample.X.shape
    free = ~sample.fixed
    elements = _Elements(np.ascontiguousarray(sample.X[:, rough].T), gamma) if rough.any() else None
    log_expected = _log_expected(sample, gamma, rough, elements)
    if elements is not None and rough.all() and elements.row_sums.min() >= m - 1:
        raise ValueError(_UNDERFLOW.format(gamma))
    weights, scale = _Weights.of(sample, log_expected)

    total, main, interaction = np.zeros(n), np.zeros(n), np.zeros(n)
    if not rough.all():
        total[~rough], main[~rough], interaction[~rough] = _smooth(sample, gamma, moments, weights, ~rough)
    if elements is not None:
        total[rough], main[rough], interaction[rough] = elements.products(sample, weights)
    for i in np.flatnonzero(sample.fixed):
        total[i] = _total_if_free(sample, gamma, i, log_expected, scale)

    log_error = float(moments.log_error(~rough & free).sum())
    off = sample.target.kernel - np.diag(np.diagonal(sample.target.kernel))
    leverage = 2 * null_scale(m) * float(np.abs(off).max()) * float(np.linalg.norm(weights.expected))
    allowed = TOLERANCE * weights.interaction_norm / leverage if leverage > 0 else np.inf
    expected_error = np.expm1(log_error) * leverage / weights.interaction_norm if weights.interaction_norm > 0 else 0.0
    slope = np.where(rough, 1.0, _tanh_slope(moments.reach))
    result = Contribution(
        relative=total,
        log_scale=scale,
        main=main,
        interaction=interaction,
        total_bound=gamma
        * moments.pair_norm()
        * float(np.linalg.norm(weights.total))
        / sample.target.n_pairs
        * (1 - slope + np.expm1(log_error)),
        score_bound=np.where(rough, 0.0, moments.slope_error()) + expected_error,
    )
    return result, allowed


def _log_expected(sample: Sample, gamma: float, rough: Array, elements: "_Elements | None") -> Array:
    """`log Q = Σ_free log((1 + z_j)/2) + Σ_fixed log z_j` (eq. 2), by series for the smooth features."""
    m = len(sample.X)
    free = ~sample.fixed
    log_expected = -gamma * sample.fixed_distances
    if (free & ~rough).any():
        sums = sample.sums
        if (free & rough).any():
            sums = sums - PairSums.of(sample.X[:, free & rough])
        log_expected += sums.d1 * (-gamma / 2) + sums.d2 * (gamma * gamma / 8)
    if elements is not None:
        log_expected += elements.log_factors(m, free[rough])
    return log_expected


def _smooth(
    sample: Sample, gamma: float, moments: _Moments, weights: _Weights, smooth: Array
) -> tuple[Array, Array, Array]:
    """Totals and scores to first order, `2 tanh(u/2) ≈ u`: one matrix product per block of features (eq. 9)."""
    X = sample.X if smooth.all() else sample.X[:, smooth]
    Y = sample.target.Y
    m, n = X.shape
    dtype = X.dtype
    matrix = weights.interaction.astype(dtype)
    loads = np.einsum("ij,ij->i", Y, Y)
    rows = np.vstack([Y.T, (weights.rho[:, None] * Y).T]).astype(dtype)
    squares = np.vstack(
        [weights.total.sum(axis=1), weights.rest + weights.rho * loads, loads - 2 * sample.target.hollow[1]]
    ).astype(dtype)
    total, main, interaction = np.zeros(n), np.zeros(n), np.zeros(n)
    for start in range(0, n, BLOCK_COLUMNS):
        at = slice(start, min(start + BLOCK_COLUMNS, n))
        x = X[:, at]
        product = matrix @ x
        product *= x
        form = product.sum(axis=0, dtype=np.float64)
        linear = (rows @ x).astype(np.float64)
        along, tilted = linear[: Y.shape[1]], linear[Y.shape[1] :]
        np.multiply(x, x, out=product)
        own, diagonal, lost = (squares @ product).astype(np.float64)
        interaction[at] = form
        main[at] = (along * along).sum(axis=0) - lost
        total[at] = own - (form + 2 * (along * tilted).sum(axis=0) - 2 * diagonal)
    hollow = moments.hollow_norm()[smooth]
    return (
        total * (-2 * gamma / sample.target.n_pairs),
        _score(main, weights.main_norm, hollow, m),
        _score(interaction, weights.interaction_norm, hollow, m),
    )


def _score(form: Array, matrix_norm: float, feature_norm: Array, m: int) -> Array:
    """`⟨A, B⟩ / (‖A‖ ‖B‖)` in units of its standard deviation under the null; 0 where nothing varies."""
    norm = matrix_norm * feature_norm
    return np.divide(null_scale(m) * form, norm, out=np.zeros_like(form), where=norm > 0)


def _total_if_free(sample: Sample, gamma: float, i: int, log_expected: Array, scale: float) -> float:
    """Contribution of a fixed feature: with it against without it, all other fixed features in (eq. 3')."""
    u = gamma * squared_distances(sample.X[:, [i]])
    without = np.exp(np.minimum(log_expected - scale + u, 700.0))
    return float(np.vdot(sample.target.kernel, without * np.expm1(-u))) / sample.target.n_pairs


class _Elements:
    """`T = tanh(γ d / 2)` of some features, pair by pair: rows of the upper triangle in blocks."""

    def __init__(self, Xt: Array, gamma: float) -> None:
        self._Xt = Xt
        self._half = Xt.dtype.type(gamma / 2) if gamma < np.finfo(Xt.dtype).max else Xt.dtype.type(np.inf)
        n, m = Xt.shape
        self._keep = n * m * m // 2 * Xt.itemsize <= KEEP_BYTES
        self._kept: dict[int, Array] = {}
        self.row_sums = np.zeros((n, m))
        self.squares = np.zeros(n)

    def _blocks(self) -> Iterator[tuple[int, int, Array]]:
        """Rows start to stop against columns from start on; (feature, row, column)."""
        n, m = self._Xt.shape
        start = 0
        while start < m:
            stop = min(m, start + max(1, SCRATCH // (n * (m - start))))
            block = self._kept.get(start)
            if block is None:
                block = self._Xt[:, start:stop, None] - self._Xt[:, None, start:]
                np.square(block, out=block)
                block *= self._half
                np.tanh(block, out=block)
                if self._keep:
                    self._kept[start] = block
            yield start, stop, block
            start = stop

    def log_factors(self, m: int, free: Array) -> Array:
        """`Σ_j log((1 + z_j)/2) = - Σ_j log(1 + T_j)` over the free features; gathers the norms on the way."""
        log_factors = np.zeros((m, m))
        for start, stop, block in self._blocks():
            log_factors[start:stop, start:] = -_log_product(block if free.all() else block[free])
            self.row_sums[:, start:stop] += block.sum(axis=2)
            beyond = block[:, :, stop - start :]
            self.row_sums[:, stop:] += beyond.sum(axis=1)
            self.squares += np.einsum("jpq,jpq->j", block, block) + np.einsum("jpq,jpq->j", beyond, beyond)
        lower = np.tril_indices(m, -1)
        log_factors[lower] = log_factors.T[lower]
        return log_factors

    def products(self, sample: Sample, weights: _Weights) -> tuple[Array, Array, Array]:
        """Totals and scores, the full function (eq. 3 and 7)."""
        m = len(sample.X)
        matrices = np.stack([weights.total, sample.target.hollow[0], weights.interaction])
        forms = np.zeros((len(self._Xt), 3))
        for start, stop, block in self._blocks():
            part = matrices[:, start:stop, start:].copy()
            part[:, :, stop - start :] *= 2
            forms += block.reshape(len(block), -1) @ part.reshape(3, -1).T.astype(block.dtype)
        total, main, interaction = -forms.T
        row_squares = np.einsum("jp,jp->j", self.row_sums, self.row_sums)
        sums = self.row_sums.sum(axis=1)
        square = self.squares - 2 / (m - 2) * row_squares + sums**2 / ((m - 1) * (m - 2))
        hollow = _root(square, self.squares, m, self._Xt.dtype)
        return (
            total * (2 / sample.target.n_pairs),
            _score(main, weights.main_norm, hollow, m),
            _score(interaction, weights.interaction_norm, hollow, m),
        )


def _log_product(block: Array) -> Array:
    """`Σ_j log(1 + T_j)`, by products as long as they cannot overflow."""
    longest = 100 if block.dtype == np.float32 else 1000
    total = np.zeros(block.shape[1:])
    for start in range(0, len(block), longest):
        total += np.log(np.multiply.reduce(1 + block[start : start + longest], axis=0))
    return total


# ---------------------------------------------------------------- bootstrap


def bootstrap(sample: Sample, gamma: float, draws: Draws, *, normalise: bool = True) -> Contribution:
    """Algorithm 1: r draws over half of the free features, r others over one more, each on a subsample of s rows.

    `c_j` is the mean alignment of the larger subsets with j in them, less that of the smaller ones without j. A
    feature that no draw covers gets the value of no evidence, the difference of the two overall means.
    With `normalise=False` a draw's value is the mean of `L∘K` over pairs of different rows (the paper's definition 2)
    instead of the normalised alignment.
    """
    n_free = int((~sample.fixed).sum())
    small, large = n_free // 2, min(n_free // 2 + 1, n_free)
    with_sum, with_count, with_mean = _mean_over_draws(sample, gamma, large, 1, draws, normalise)
    all_sum, all_count, without_mean = _mean_over_draws(sample, gamma, small, 0, draws, normalise)
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
    sample: Sample, gamma: float, size: int, kind: int, draws: Draws, normalise: bool
) -> tuple[Array, Array, float]:
    """Per free feature: sum of the values of the draws that hold it, and their number; and the mean of all values."""
    starts = range(0, draws.n_bootstraps, BATCH)
    tasks = [(sample, gamma, size, (kind, start // BATCH), draws, normalise) for start in starts]
    sums, counts, total, informative = 0.0, 0, 0.0, False
    for batch_sums, batch_counts, batch_total, any_pair in ordered_map(_batch, tasks, draws.n_jobs):
        sums, counts, total = sums + batch_sums, counts + batch_counts, total + batch_total
        informative |= any_pair
    if not informative:
        raise ValueError(_UNDERFLOW.format(gamma))
    return np.asarray(sums), np.asarray(counts), total / draws.n_bootstraps


def _batch(
    sample: Sample, gamma: float, size: int, address: tuple[int, int], draws: Draws, normalise: bool
) -> tuple[Array, Array, float, bool]:
    columns, rows = draw_subsets(sample, size, address, draws)
    values, informative = alignments(sample, gamma, columns, rows, normalise=normalise)
    held = np.zeros((len(values), int((~sample.fixed).sum())))
    np.put_along_axis(held, columns, 1.0, axis=1)
    return values @ held, held.sum(axis=0), float(values.sum()), informative


def draw_subsets(sample: Sample, size: int, address: tuple[int, int], draws: Draws) -> tuple[Array, Array]:
    """Draw one batch: `size` of the free features per draw, and s rows, in proportion to the weights if there are any."""
    kind, batch = address
    count = min(BATCH, draws.n_bootstraps - batch * BATCH)
    m, n_free = len(sample.X), int((~sample.fixed).sum())
    s = int(np.clip(round(draws.subsample * m), 4, m))
    rng = generator(draws.seed, kind, batch)
    columns = _smallest(rng.random((count, n_free)), size)
    keys = rng.random((count, m))
    if sample.target.weights is not None:
        keys = -np.log1p(-keys) / sample.target.weights
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
    free = np.flatnonzero(~sample.fixed)
    always = np.flatnonzero(sample.fixed)
    count, s = rows.shape
    kernels = np.empty((count, s, s))
    for kernel, chosen, at in zip(kernels, columns, rows, strict=True):
        part = sample.X.take(at, axis=0).take(np.concatenate([always, free[chosen]]), axis=1)
        np.matmul(part, part.T, out=kernel, dtype=np.float64, casting="same_kind")
    norms = np.einsum("bii->bi", kernels).copy()
    kernels *= 2.0
    kernels -= norms[:, :, None]
    kernels -= norms[:, None, :]
    np.minimum(kernels, 0.0, out=kernels)
    kernels *= gamma
    np.exp(kernels, out=kernels)
    np.einsum("bii->bi", kernels)[:] = 1.0
    row_sums = kernels.sum(axis=2)
    informative = bool((row_sums > 1.0).any())
    Y = sample.target.Y if sample.target.weights is None else sample.target.Y / sample.target.weights[:, None]
    part_Y = Y[rows]
    if not normalise:
        inner = np.einsum("bic,bic->b", part_Y, kernels @ part_Y) - np.einsum("bic,bic->b", part_Y, part_Y)
        return inner / (s * (s - 1)), informative
    part_Y = part_Y - part_Y.mean(axis=1, keepdims=True)
    inner = np.einsum("bic,bic->b", part_Y, kernels @ part_Y)
    squares = np.einsum("bij,bij->b", kernels, kernels)
    norm_x = squares - 2 / s * np.einsum("bi,bi->b", row_sums, row_sums) + (row_sums.sum(axis=1) / s) ** 2
    norm_y = np.square(np.swapaxes(part_Y, 1, 2) @ part_Y).sum(axis=(1, 2))
    norm = np.sqrt(np.maximum(norm_x, 0.0) * norm_y)
    flat = (norm_x <= 1e-13 * squares) | (norm_y <= 0.0)
    return np.divide(inner, norm, out=np.zeros(count), where=~flat), informative
