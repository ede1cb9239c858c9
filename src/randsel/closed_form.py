"""The contribution in closed form: the limit of infinitely many random subsets, for all features in one pass.

Equations are numbered as in docs/mathematics.md. Features whose functions are nearly linear in the squared differences
go through matrix products; the others, element by element.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from randsel.alignment import null_scale
from randsel.kernels import UNDERFLOW, Array, PairSums, Sample, hollow_split, squared_distances

#: Largest error, in standard deviations of the null, that each of two series may cause in a score: a worst case.
TOLERANCE = 0.2
#: Features up to which the series is not used at all: the exact function costs little more.
FEW = 32
#: Bytes of `tanh` values kept between the two passes of the element-wise route; beyond, they are computed twice.
KEEP_BYTES = 48 << 20
#: Elements per scratch array of the element-wise route: what stays in cache.
SCRATCH = 1 << 18
#: Columns per block of the matrix route: block and product stay in the second-level cache for a few hundred rows.
BLOCK_COLUMNS = 512


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
    skewness
        Of the main and of the interaction score under the null (eq. 8''), computed when called.
    """

    relative: Array
    log_scale: float
    main: Array | None = None
    interaction: Array | None = None
    total_bound: Array | None = None
    score_bound: Array | None = None
    skewness: tuple[Callable[[], float], Callable[[], float]] | None = None

    @property
    def total(self) -> Array:
        """`c_i`, the paper's contribution."""
        total: Array = self.relative * np.exp(self.log_scale)
        return total

    def sort_keys(self, score: str) -> tuple[Array, Array]:
        """Return what ranks features, and what breaks ties: the positive sum of the parts, or the total."""
        if score == "total" or self.main is None or self.interaction is None:
            return self.relative, self.relative
        return np.maximum(self.main, 0.0) + np.maximum(self.interaction, 0.0), self.main + self.interaction


def closed_form(sample: Sample, gamma: float) -> Contribution:
    """Features whose series is short enough go through matrix products, the rough ones element by element.

    Which are rough follows from the bound on the series, never from hope: first from the bound on each feature's own
    function, then, if the expected kernel could still be off, from the share each has in that.
    """
    moments = _Moments.of(sample, gamma)
    check_gamma(gamma, sample)
    rough = (moments.slope_error() > TOLERANCE) | moments.heavy() | (sample.X.shape[1] <= FEW)
    for _ in range(3):
        if rough.mean() > 0.7:
            rough[:] = True
        result, allowed = _evaluate(sample, gamma, moments, rough)
        if rough.all() or moments.log_error(~rough & ~sample.fixed).sum() <= allowed:
            return result
        order = np.argsort(moments.reach, kind="stable")
        rough[order[np.cumsum(moments.log_error(~sample.fixed)[order]) > 0.5 * allowed]] = True
    return _evaluate(sample, gamma, moments, np.ones_like(rough))[0]


def check_gamma(gamma: float, sample: Sample) -> None:
    """Refuse a bandwidth that leaves no difference between samples; UNDERFLOW is found later, from the kernel."""
    if gamma * float(sample.moments[2].max()) ** 2 < 1e-30:
        msg = (
            f"gamma={gamma:g} is so small that the kernel is one between all samples, which leaves nothing to compare; "
            "use gamma='median' or a larger number."
        )
        raise ValueError(msg)


@dataclass(frozen=True)
class _Moments:
    """Per feature: what the first-order form and its error bound need. Columns have mean zero."""

    m: int
    second: Array
    fourth: Array
    reach: Array
    gamma: float
    dtype: Any

    @classmethod
    def of(cls, sample: Sample, gamma: float) -> "_Moments":
        second, fourth, span = sample.moments
        with np.errstate(over="ignore"):
            return cls(len(sample.X), second, fourth, gamma * span * span, gamma, sample.X.dtype)

    def hollow_norm(self) -> Array:
        """`‖U(x xᵀ)‖_F` (eq. 9)."""
        m = self.m
        square = self.second**2 * (1 + 1 / ((m - 1) * (m - 2))) - self.fourth * m / (m - 2)
        return _root(square, self.second**2, m, np.float64)

    def heavy(self) -> Array:
        """Columns that are little more than one outlier, of whose rest single precision would lose too much."""
        norm = self.hollow_norm()
        heavy: Array = (self.dtype != np.float64) & (norm > 0) & (40 * norm < self.pair_norm())
        return heavy

    def pair_norm(self) -> Array:
        """`‖d‖_F`, the norm of a feature's squared differences."""
        norm: Array = np.sqrt(2 * self.m * self.fourth + 6 * self.second**2)
        return norm

    def slope_error(self) -> Array:
        """Bound on the error of a score when `2 tanh(u/2)` is replaced by `u` times a constant (eq. 12)."""
        slope = _tanh_slope(self.reach)
        hollow = self.hollow_norm()
        ratio = np.divide(self.pair_norm(), 2 * hollow, out=np.zeros_like(hollow), where=hollow > 0)
        return _score_error((1 - slope) / (1 + slope) * ratio, self.m)

    def log_error(self, features: Array) -> Array:
        """Bound on each feature's share in the Frobenius norm of the error of `log Q` to second order (eq. 10)."""
        with np.errstate(over="ignore"):
            error: Array = np.where(features, self.reach**3 * self.gamma * self.pair_norm() / 192, 0.0)
        return error


def _score_error(turn: Any, m: int) -> Array:
    """How far a score can move when one of its matrices changes by the fraction `turn` of its norm.

    The angle is then at most arcsin(turn), and the chord between the two directions 2 sin(arcsin(turn)/2).
    """
    turn = np.asarray(turn, dtype=np.float64)
    error: Array = null_scale(m) * np.where(turn < 1, 2 * np.sin(np.arcsin(np.minimum(turn, 1)) / 2), 2.0)
    return error


def _turn_for(error: float, m: int) -> float:
    """Return the largest `turn` whose `_score_error` is at most `error`."""
    return float(np.sin(2 * np.arcsin(min(error / (2 * null_scale(m)), np.sqrt(0.5)))))


def _tanh_slope(u: Array) -> Array:
    """`2 tanh(u/2) / u`, between 0 and 1."""
    u = np.minimum(u, 1e6)
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
    """The matrices that every feature's function is paired with, and what they are made of."""

    interaction: Array
    interaction_norm: float
    total: Array
    total_sum: float
    rho: Array
    rest: Array

    @classmethod
    def of(cls, sample: Sample, log_expected: Array) -> tuple["_Weights", float]:
        """`U(L∘U(Q))` and `L∘Q` from `log Q`, whose maximum is returned as the scale (eq. 6 and 3)."""
        np.fill_diagonal(log_expected, -np.inf)
        scale = float(log_expected.max())
        # less one: centring does not see it, and a kernel close to one keeps its digits
        expected = np.expm1(log_expected - scale)
        hollow, rho = hollow_split(expected)
        expected += 1.0
        rho += 0.5
        hollow *= sample.target.kernel
        interaction, rest = hollow_split(hollow)
        norm = float(np.linalg.norm(interaction))
        # what is left of a product with a constant kernel is rounding
        norm = norm if norm > 1e-12 * sample.target.hollow_norm else 0.0
        total = sample.target.kernel * expected
        return cls(interaction, norm, total, float(total.sum()), rho, rest), scale

    def interaction_mean(self, feature_norm: Array, mean: Array, m: int) -> Array:
        """Mean of `⟨A, T_i⟩` under the null, through the feature's own share in Q (eq. 8'); `mean` is that of tanh."""
        share: Array = self.total_sum * feature_norm**2 / (2 * (1 + mean) * m * (m - 3))
        return share


def _evaluate(sample: Sample, gamma: float, moments: _Moments, rough: Array) -> tuple[Contribution, float]:
    """Contributions, and how large the error of `log Q` may be for the interaction scores to stay in tolerance."""
    m, n = sample.X.shape
    free = ~sample.fixed
    # where tanh saturates, what varies besides is small against it
    precision = np.float64 if (moments.heavy() | (moments.reach > 4.0))[rough].any() else sample.X.dtype
    elements = _Elements(sample.X[:, rough].T.astype(precision, order="C"), gamma) if rough.any() else None
    log_expected = _log_expected(sample, gamma, rough, elements)
    if elements is not None and rough.all() and elements.row_sums.min() >= m - 1:
        raise ValueError(UNDERFLOW.format(gamma))
    weights, scale = _Weights.of(sample, log_expected)

    total, main, interaction = np.zeros(n), np.zeros(n), np.zeros(n)
    if not rough.all():
        total[~rough], main[~rough], interaction[~rough] = _smooth(sample, gamma, moments, weights, ~rough)
    if elements is not None:
        total[rough], main[rough], interaction[rough] = elements.products(sample, weights)
    log_error = float(moments.log_error(~rough & free).sum())
    # Q is at most 1 here, and the error of log Q is one-sided, so that it bounds the error of Q
    largest, norm = sample.target.largest, weights.interaction_norm
    allowed = _turn_for(TOLERANCE, m) * norm / largest if largest > 0 else np.inf
    expected_error = float(_score_error(log_error * largest / norm, m)) if norm > 0 else 0.0
    slope = np.where(rough, 1.0, _tanh_slope(moments.reach))
    misfit = gamma * moments.pair_norm() * float(np.linalg.norm(weights.total)) * (1 - slope)
    total_bound = (misfit + largest * gamma * moments.pair_norm() * log_error) / sample.target.n_pairs
    for i in np.flatnonzero(sample.fixed).tolist():
        own = _total_if_free(sample, gamma, i, log_expected - scale)
        total[i], total_bound[i] = own.sum(), np.linalg.norm(own) * log_error
    score_bound = np.where(rough, 0.0, moments.slope_error()) + expected_error
    skewness = (lambda: skewness_of(sample.target.hollow[0]), lambda: skewness_of(weights.interaction))
    return Contribution(total, scale, main, interaction, total_bound, score_bound, skewness), allowed


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
        form = product.sum(axis=0).astype(np.float64)
        linear = (rows @ x).astype(np.float64)
        along, tilted = linear[: Y.shape[1]], linear[Y.shape[1] :]
        np.multiply(x, x, out=product)
        own, diagonal, lost = (squares @ product).astype(np.float64)
        interaction[at] = form
        main[at] = (along * along).sum(axis=0) - lost
        total[at] = own - (form + 2 * (along * tilted).sum(axis=0) - 2 * diagonal)
    hollow = 2 * gamma * moments.hollow_norm()[smooth]
    interaction *= 2 * gamma
    interaction -= weights.interaction_mean(hollow, gamma * moments.second[smooth] / (m - 1), m)
    return (
        total * (-2 * gamma / sample.target.n_pairs),
        _score(2 * gamma * main, sample.target.hollow_norm, hollow, m),
        _score(interaction, weights.interaction_norm, hollow, m),
    )


def _score(form: Array, matrix_norm: float, feature_norm: Array, m: int) -> Array:
    """Divide `⟨A, B⟩` by `‖A‖ ‖B‖` and by its standard deviation under the null (eq. 8); 0 where nothing varies."""
    norm = matrix_norm * feature_norm
    return np.divide(null_scale(m) * form, norm, out=np.zeros_like(form), where=norm > 0)


def skewness_of(A: Array) -> float:
    """Skewness of `⟨A, B^π⟩` under permutation for B of rank one, the most that it can be (eq. 8'')."""
    norm = float(np.linalg.norm(A))
    return float(np.sqrt(8.0) * np.sum((A @ A) * A) / norm**3) if norm > 0 else 0.0


def _total_if_free(sample: Sample, gamma: float, i: int, log_expected: Array) -> Array:
    """Contribution of a fixed feature, pair by pair: with it against without it, other fixed features in (eq. 3')."""
    u = gamma * squared_distances(sample.X[:, [i]])
    without = np.exp(np.minimum(log_expected + u, 700.0))
    return np.asarray(sample.target.kernel * without * np.expm1(-u)) / sample.target.n_pairs


class _Elements:
    """`T = tanh(γ d / 2)` of some features, pair by pair: rows of the upper triangle in blocks."""

    def __init__(self, Xt: Array, gamma: float) -> None:
        self._Xt = Xt
        self._half = Xt.dtype.type(min(gamma / 2, np.finfo(Xt.dtype).max))
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
                with np.errstate(over="ignore"):
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
            own = block[:, :, : stop - start]
            self.row_sums[:, start:stop] += block @ np.ones(m - start, dtype=block.dtype)
            self.row_sums[:, stop:] += block[:, :, stop - start :].sum(axis=1)
            flat = block.reshape(len(block), 1, -1)
            self.squares += 2 * (flat @ flat.swapaxes(1, 2))[:, 0, 0] - np.einsum("jpq,jpq->j", own, own)
        upper = np.triu(log_factors, 1)
        return upper + upper.T

    def products(self, sample: Sample, weights: _Weights) -> tuple[Array, Array, Array]:
        """Totals and scores, the full function (eq. 3 and 7)."""
        m = len(sample.X)
        matrices = np.stack([weights.total, sample.target.hollow[0], weights.interaction])
        forms = np.zeros((len(self._Xt), 3))
        for start, stop, block in self._blocks():
            part = matrices[:, start:stop, start:].copy()
            part[:, :, stop - start :] *= 2
            forms += block.reshape(len(block), -1) @ part.reshape(3, -1).T.astype(block.dtype)
        total, main, interaction = -2 * forms.T
        row_squares = np.einsum("jp,jp->j", self.row_sums, self.row_sums)
        sums = self.row_sums.sum(axis=1)
        square = self.squares - 2 / (m - 2) * row_squares + sums**2 / ((m - 1) * (m - 2))
        hollow = 2 * _root(square, self.squares, m, self._Xt.dtype)
        interaction -= weights.interaction_mean(hollow, sums / (m * (m - 1)), m)
        return (
            total / sample.target.n_pairs,
            _score(main, sample.target.hollow_norm, hollow, m),
            _score(interaction, weights.interaction_norm, hollow, m),
        )


def _log_product(block: Array) -> Array:
    """`Σ_j log(1 + T_j)`, by products as long as they cannot overflow."""
    longest = 100 if block.dtype == np.float32 else 1000
    total = np.zeros(block.shape[1:])
    for start in range(0, len(block), longest):
        total += np.log(np.multiply.reduce(1 + block[start : start + longest], axis=0))
    return total
