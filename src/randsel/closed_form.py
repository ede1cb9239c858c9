"""The contribution in closed form: the limit of infinitely many random subsets, for all features in one pass.

Equations are numbered as in docs/mathematics.md. Features whose functions are nearly linear in the squared differences
go through matrix products; the others, element by element.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from randsel._backend import (
    MANY_ROWS,
    SCRATCH,
    Array,
    astype,
    clipped,
    contiguous,
    device_of,
    dot,
    double,
    eps,
    forms_of_columns,
    half_of,
    index_of,
    inner,
    namespace,
    norm,
    scalars,
    scratch,
    set_diagonal,
    single,
    take,
    to_numpy,
)
from randsel.alignment import null_scale
from randsel.columns import Elsewhere, each, gather, keep, part, total
from randsel.cubic_series import REACH, CubicSeries
from randsel.kernels import UNDERFLOW, Target, distances_of, hollow_split, squared_distances
from randsel.sample import STRIP, PairSums, Sample, root
from randsel.series_bounds import MANY, Moments, ratio, score_error, turn_for

#: Largest error, in standard deviations of the null, that each of two series may cause in a score: a worst case.
TOLERANCE = 0.2
#: Features up to which the series is not used at all: the exact function costs little more.
FEW = 32
#: Features and pairs from which the series to third order is tried for features that the first order is too short for.
DEAR = 1 << 20
#: Bytes of `tanh` values kept between the two passes of the element-wise route; beyond, they are computed twice.
KEEP_BYTES = 48 << 20


@dataclass(frozen=True)
class Contribution:
    """Contributions of all features of a sample.

    Attributes
    ----------
    relative, log_scale
        `total = relative · exp(log_scale)`; `relative` ranks features even where the kernel itself underflows.
    main, interaction
        Standard scores of what a feature does alone and together with others; None from the bootstrap.
    bounds
        Largest possible errors of `relative` and of the two scores through the series of the matrix route, computed
        when called.
    skewness
        Of the main and of the interaction score under the null (eq. 8''), computed when called.

    Arrays are where the sample is.
    """

    relative: Any
    log_scale: float
    main: Any = None
    interaction: Any = None
    bounds: Callable[[], tuple[Any, Any]] | None = None
    skewness: tuple[Callable[[], float], Callable[[], float]] | None = None

    @property
    def total(self) -> Any:
        """`c_i`, the paper's contribution."""
        return self.relative * float(np.exp(self.log_scale))

    def sort_keys(self, score: str) -> tuple[Any, Any]:
        """Return what ranks features, and what breaks ties: the positive sum of the parts, or the total."""
        if score == "total" or self.main is None or self.interaction is None:
            return self.relative, self.relative
        return clipped(self.main, 0.0, None) + clipped(self.interaction, 0.0, None), self.main + self.interaction


def closed_form(sample: Sample, gamma: float) -> Contribution:
    """Features whose series is short enough go through matrix products, the rough ones element by element.

    Which are rough follows from the bound on the series, never from hope: first from the bound on each feature's own
    function, then, if the expected kernel could still be off, from the share each has in that.
    """
    if not sample.resolves(gamma):
        return closed_form(sample.in_double(), gamma)
    moments = Moments.of(sample, gamma)
    check_gamma(gamma, sample)
    rough = np.ones(sample.X.shape[1], dtype=bool)
    if len(rough) > max(FEW, _dear(sample) // (4 * len(sample.X) ** 2)):
        rough = np.zeros_like(rough) if moments.surely_smooth(TOLERANCE) else moments.too_steep(TOLERANCE)
        if rough.any():
            moments = moments.sharpened(sample, rough)
            rough = moments.too_steep(TOLERANCE)
    for _ in range(3):
        cubic = _cubic(sample, gamma, moments, rough)
        routes = _Routes(rough if cubic is None else rough & ~cubic.features, cubic)
        if np.count_nonzero(routes.rough) > 0.7 * len(rough):
            routes = _Routes(np.ones_like(rough))
        result, allowed = _evaluate(sample, gamma, moments, routes)
        rounding = 0.5 * eps(sample.pairs) * len(sample.X) * (1.0 - result.log_scale)
        if single(sample.pairs) and rounding > 0.5 * allowed:
            return closed_form(sample.in_double(), gamma)
        few = not rough.any() and moments.most_log_error <= allowed
        if few or routes.rough.all() or routes.log_error(moments, ~sample.fixed) <= allowed:
            return result
        order = np.argsort(to_numpy(moments.reach), kind="stable")
        shares = np.where(sample.fixed, 0.0, to_numpy(moments.log_errors))
        rough[order[np.cumsum(shares[order]) > 0.5 * allowed]] = True
    return _evaluate(sample, gamma, moments, _Routes(np.ones_like(rough)))[0]


def _cubic(sample: Sample, gamma: float, moments: Moments, rough: Array) -> CubicSeries | None:
    """Those of the rough features whose series to third order is good enough, where they are dear pair by pair."""
    m = len(sample.X)
    count = np.count_nonzero(rough)
    if count > MANY or count * m * m < _dear(sample):
        return None
    fit = (moments.reach < REACH) & (moments.hollow_norm > 0)
    tried = rough & to_numpy(fit if moments.outlying is None else fit & ~moments.outlying)
    if not tried.any() or tried.sum() * m * m < _dear(sample):
        return None
    cubic = CubicSeries.of(sample, gamma, tried)
    good = to_numpy(cubic.score_error <= TOLERANCE)
    return cubic.only(good) if good.any() else None


def _dear(sample: Sample) -> int:
    """Features times pairs from which it pays to avoid them: more on a device."""
    return DEAR * (scratch(sample.target.Y) // SCRATCH)


def check_gamma(gamma: float, sample: Sample) -> None:
    """Refuse a bandwidth that leaves no difference between samples; UNDERFLOW is found later, from the kernel."""
    if gamma * sample.extent[1] ** 2 < 1e-30:
        msg = (
            f"gamma={gamma:g} is so small that the kernel is one between all samples, which leaves nothing to compare; "
            "use gamma='median' or a larger number."
        )
        raise ValueError(msg)


@dataclass(frozen=True)
class _Weights:
    """The matrices that every feature's function is paired with, and what they are made of.

    With U(Q) and U(L∘U(Q)) split off, what is left of both is of low rank:
    `Q = U(Q) + ρ 1ᵀ + 1 ρᵀ` and `L∘U(Q) = interaction + rest 1ᵀ + 1 restᵀ` off the diagonal.
    """

    interaction: Any
    interaction_norm: float
    rho: Any
    rest: Any
    Y: Any
    own_rows: Any
    """Sums of the rows of L, less twice its diagonal."""

    @classmethod
    def of(cls, sample: Sample, log_expected: Any) -> tuple["_Weights", float]:
        """`U(L∘U(Q))` and `L∘Q` from `log Q`, whose maximum is taken off and returned as the scale (eq. 6 and 3).

        Overwrites `log_expected`, with `log Q` less its maximum where features are fixed.
        """
        set_diagonal(log_expected, -np.inf)
        peak = log_expected.max()
        log_expected -= peak
        target = sample.target
        # less one: centring does not see it, and a kernel close to one keeps its digits
        xp = namespace(log_expected)
        # what fixed features would do if they were free is computed from log Q later
        expected = xp.expm1(log_expected, out=None if sample.fixed.any() else log_expected)
        hollow, rho = hollow_split(expected, overwrite=True)
        varies = abs(rho).max()
        hollow *= target.matrices(log_expected.dtype)[0]
        interaction, rest = hollow_split(hollow, overwrite=True)
        scale, varies, square = scalars(peak, varies, dot(interaction, interaction))
        # what is left of a product with a constant kernel is rounding
        rounding = 2e-5 * varies if single(interaction.dtype) else 1e-12
        length = square**0.5 if square**0.5 > rounding * target.hollow_norm else 0.0
        return cls(interaction, length, double(rho) + 0.5, double(rest), target.Y, target.own_rows), scale

    @cached_property
    def total(self) -> Any:
        """`L∘Q`, zero on its diagonal."""
        xp = namespace(self.rho)
        ones, tilted = xp.ones_like(self.rho)[:, None], self.rho[:, None] * self.Y
        left = xp.concat([self.rest[:, None], ones, tilted, self.Y], axis=1)
        right = xp.concat([ones, self.rest[:, None], self.Y, tilted], axis=1)
        whole = astype(left, self.interaction.dtype) @ astype(right, self.interaction.dtype).T
        whole += self.interaction
        set_diagonal(whole, 0.0)
        return whole

    @cached_property
    def total_rows(self) -> Any:
        """Sums of the rows of `L∘Q`, without it."""
        along = self.rho * self.own_rows + self.Y @ (self.Y.T @ self.rho)
        return (len(self.rho) - 2) * self.rest + self.rest.sum() + along

    def interaction_mean(self, feature_norm: Any, mean: Any, m: int) -> Any:
        """Mean of `⟨A, T_i⟩` under the null, through the feature's own share in Q (eq. 8'); `mean` is that of tanh."""
        return feature_norm**2 / (1 + mean) * (self.total_rows.sum() / (2 * m * (m - 3)))


@dataclass(frozen=True)
class _Routes:
    """Which features go which way: pair by pair, to third order, and the others to first order."""

    rough: Array
    cubic: CubicSeries | None = None

    @cached_property
    def smooth(self) -> Array:
        """Features to first order."""
        return ~self.rough if self.cubic is None else ~self.rough & ~self.cubic.features

    def log_error(self, moments: Moments, free: Array) -> float:
        """Bound on the norm of the error of `log Q` through the series of the free features."""
        error = moments.log_error(self.smooth & free)
        if self.cubic is not None:
            error += float(take(self.cubic.log_errors, free[self.cubic.features]).sum())
        return error

    def misfits(self, moments: Moments) -> tuple[Any, Any]:
        """Bounds on the norm of the error of each function, and on the error of its scores."""
        xp = namespace(moments.second)
        smooth = xp.asarray(self.smooth, device=device_of(moments.second))
        misfit = xp.where(smooth, 1 - moments.slope, 0.0) * moments.pair_norm * moments.gamma
        turned = xp.where(smooth, moments.slope_error, 0.0)
        if self.cubic is not None:
            at = index_of(self.cubic.features, misfit)
            misfit[at], turned[at] = self.cubic.error, self.cubic.score_error
        return misfit, turned


def _evaluate(sample: Sample, gamma: float, moments: Moments, routes: _Routes) -> tuple[Contribution, float]:
    """Contributions, and how large the error of `log Q` may be for the interaction scores to stay in tolerance."""
    m = len(sample.X)
    rough = routes.rough
    elements = _Elements.of(sample, gamma, moments, rough) if rough.any() else None
    log_expected, neglected = _log_expected(sample, gamma, routes, elements)
    if elements is not None and rough.all() and elements.least_row_sum() >= m - 1:
        raise ValueError(UNDERFLOW.format(gamma))
    weights, scale = _Weights.of(sample, log_expected)
    # Q is at most 1 here, so that a small error of log Q bounds that of Q
    largest, limit = sample.target.largest, turn_for(TOLERANCE, m)
    allowed = limit * weights.interaction_norm / largest if largest > 0 else np.inf
    if neglected > 0.5 * allowed:
        sample.sum_squares()
        log_expected, neglected = _log_expected(sample, gamma, routes, elements)
        weights, scale = _Weights.of(sample, log_expected)
        allowed = limit * weights.interaction_norm / largest if largest > 0 else np.inf

    values = []
    if routes.smooth.any():
        values.append((routes.smooth, _smooth(sample, gamma, moments, weights, routes.smooth)))
    if routes.cubic is not None:
        values.append((routes.cubic.features, _to_third_order(sample, routes.cubic, weights)))
    if elements is not None:
        values.append((rough, elements.products(sample.target, weights)))
    total, main, interaction = _merge(values)
    lengths = {}
    for i in np.flatnonzero(sample.fixed).tolist():
        own = _total_if_free(sample, gamma, i, log_expected)
        total[i], lengths[i] = own.sum(), norm(own)

    def bounds() -> tuple[Any, Any]:
        length, (misfit, turned) = weights.interaction_norm, routes.misfits(moments)
        log_error = routes.log_error(moments, ~sample.fixed) + neglected
        of_total = (
            misfit * norm(weights.total) + moments.pair_norm * (largest * gamma * log_error)
        ) / sample.target.n_pairs
        for i, own in lengths.items():
            of_total[i] = own * log_error
        of_expected = float(score_error(log_error * largest / length, m)) if length > 0 else 0.0
        return of_total, turned + of_expected

    skewness = (lambda: _skewness_of_target(sample.target), lambda: skewness_of(weights.interaction))
    return Contribution(total, scale, main, interaction, bounds, skewness), allowed - neglected


def _merge(parts: list[tuple[Array, Any]]) -> Any:
    """Put the values of the routes in the places of their features."""
    mask, values = parts[0]
    if len(parts) == 1:
        return values
    xp = namespace(values)
    merged = xp.empty((3, len(mask)), dtype=xp.float64, device=device_of(values))
    for features, found in parts:
        merged[:, index_of(features, found)] = found
    return merged


def _log_expected(
    sample: Sample, gamma: float, routes: _Routes, elements: "_Elements | _ElementsElsewhere | None"
) -> tuple[Any, float]:
    """`log Q = Σ_free log((1 + z_j)/2) + Σ_fixed log z_j` (eq. 2), by series for the smooth features.

    Of the second order perhaps only what costs no further matrix product (eq. 10'); how large the rest can be comes
    with it.
    """
    free, neglected, rough, cubic = ~sample.fixed, 0.0, routes.rough, routes.cubic
    terms = []
    if sample.fixed.any():
        terms.append(astype(distances_of(sample.fixed_products) * -gamma, sample.pairs))
    # features of third order alone take no sums of others
    alone = cubic is not None and not (free & routes.smooth).any()
    if (free & ~rough).any() and not alone:
        mixed = bool((free & rough).any())
        sums = _without(sample, free & rough, free & ~rough) if mixed else sample.sums
        to_second_order, neglected = sums.log_terms(gamma)
        terms.append(to_second_order)
    if cubic is not None and free[cubic.features].any():
        terms.append(astype(cubic.log_terms(free[cubic.features], whole=alone), sample.pairs))
    if elements is not None:
        terms.append(elements.log_factors(free[rough], sample.pairs))
    log_expected = terms[0]
    for term in terms[1:]:
        log_expected += term
    return log_expected, neglected


def _without(sample: Sample, rough: Array, smooth: Array) -> PairSums:
    """Sum over the smooth features: all less the rough, or alone where the rough would leave only rounding."""

    def summed(features: Array) -> PairSums:
        sums, columns = sample.sums, part(sample.narrow, features)
        how: dict[str, Any] = {"sketch": sums.sketch is not None, "step": sums.step}
        return PairSums.of(columns, **how, inside=sample.inside, dtype=sample.pairs)

    of_rough, of_smooth = (float(take(sample.moments[1], features).sum()) for features in (rough, smooth))
    return summed(smooth) if of_rough > 1e6 * of_smooth else sample.sums.less(summed(rough))


def _smooth(sample: Sample, gamma: float, moments: Moments, weights: _Weights, smooth: Array) -> Any:
    """Totals and scores to first order, `2 tanh(u/2) ≈ u`: one matrix product per block of features (eq. 9)."""
    X = sample.narrow if smooth.all() else part(sample.narrow, smooth)
    Y = sample.target.Y
    xp, m = namespace(Y), len(X)
    loads = sample.target.loads
    inside = sample.inside
    half = half_of(weights.interaction, inside)
    rows = astype(xp.concat([Y, weights.rho[:, None] * Y], axis=1).T, inside)
    own = weights.total_rows + 2 * (weights.rest + weights.rho * loads)
    squares = astype(xp.stack([own, loads - 2 * sample.target.hollow[1]]), inside)
    strip = (2 if m < MANY_ROWS else 4) * STRIP
    parts = list(each(X, strip, _smooth_forms, half, rows, squares, inside, X.shape[1]))
    total, main, interaction = xp.concat(parts, axis=1)
    hollow = 2 * gamma * take(moments.hollow_norm, smooth)
    interaction *= 2 * gamma
    interaction -= weights.interaction_mean(hollow, take(moments.second, smooth) * (gamma / (m - 1)), m)
    return xp.stack(
        [
            total * (-2 * gamma / sample.target.n_pairs),
            _score(2 * gamma * main, sample.target.hollow_norm, hollow, m),
            _score(interaction, weights.interaction_norm, hollow, m),
        ]
    )


def _smooth_forms(block: Any, half: Any, rows: Any, squares: Any, inside: Any, n: int) -> Any:
    """Pair the first-order functions of a block, of n columns in all, with `L∘Q`, `U(L)` and `U(L∘U(Q))`."""
    form, linear, (own, lost) = forms_of_columns(half, rows, squares, astype(block, inside), n)
    along, tilted = linear[: len(linear) // 2, :], linear[len(linear) // 2 :, :]
    return namespace(form).stack(
        [
            own - form - 2 * (along * tilted).sum(axis=0),
            (along * along).sum(axis=0) - lost,
            form,
        ]
    )


def _to_third_order(sample: Sample, cubic: CubicSeries, weights: _Weights) -> Any:
    """Totals and scores to third order, `2 tanh(u/2) ≈ a u - b u³` (eq. 9').

    One matrix product is enough, because what the matrices have besides the interactions' is of low rank (eq. 9'').
    """
    m, Y = len(sample.X), sample.target.Y
    interaction = -cubic.products(weights.interaction)
    main = 2 * (sample.target.hollow[1] @ cubic.row_sums) - cubic.outer_products(Y, Y)
    tilted = cubic.outer_products(weights.rho[:, None] * Y, Y)
    total = interaction - 2 * (weights.rest @ cubic.row_sums + tilted)
    hollow = cubic.hollow_norm
    interaction = interaction - weights.interaction_mean(hollow, cubic.sums / (2 * m * (m - 1)), m)
    return namespace(hollow).stack(
        [
            total / sample.target.n_pairs,
            _score(main, sample.target.hollow_norm, hollow, m),
            _score(interaction, weights.interaction_norm, hollow, m),
        ]
    )


def _score(form: Any, matrix_norm: float, feature_norm: Any, m: int) -> Any:
    """Divide `⟨A, B⟩` by `‖A‖ ‖B‖` and by its standard deviation under the null (eq. 8); 0 where nothing varies."""
    return ratio(null_scale(m) * form, matrix_norm * feature_norm)


def skewness_of(A: Any) -> float:
    """Skewness of `⟨A, B^π⟩` under permutation for B of rank one, the most that it can be (eq. 8'')."""
    length = norm(A)
    # A is symmetric, and a product with its own transpose is half the work
    return float(np.sqrt(8.0) * inner(A @ A.T, A) / length**3) if length > 0 else 0.0


def _skewness_of_target(target: Target) -> float:
    """`skewness_of` U(L), from the factor of L where that is narrow and U(L) is no small difference."""
    if target.lopsided or 4 * target.Y.shape[1] > len(target.Y):
        return skewness_of(target.hollow[0])
    return float(np.sqrt(8.0)) * target.hollow_cube / target.hollow_norm**3


def _total_if_free(sample: Sample, gamma: float, i: int, log_expected: Any) -> Any:
    """Contribution of a fixed feature, pair by pair: with it against without it, other fixed features in (eq. 3')."""
    xp = namespace(log_expected)
    u = gamma * squared_distances(gather(sample.X, np.arange(sample.X.shape[1]) == i))
    without = xp.exp(clipped(log_expected + u, None, 700.0))
    return sample.target.kernel * without * xp.expm1(-u) / sample.target.n_pairs


class _Elements:
    """`T = tanh(γ d / 2)` of some features, pair by pair: rows of the upper triangle in blocks."""

    def __init__(self, Xt: Any, gamma: float) -> None:
        # squares of differences of these are what tanh is taken of
        self._Xt = Xt * float(np.sqrt(gamma / 2))
        n, m = Xt.shape
        xp, self._starts = namespace(Xt), [0]
        while self._starts[-1] < m:
            start = self._starts[-1]
            self._starts.append(min(m, start + max(1, scratch(Xt) // (n * (m - start)))))
        sizes = [n * (stop - start) * (m - start) for start, stop in pairwise(self._starts)]
        self._keep = sum(sizes) * (4 if single(Xt.dtype) else 8) <= KEEP_BYTES * (scratch(Xt) // SCRATCH)
        # one piece of memory for all blocks: fresh memory costs more than what is done with it
        self._room = xp.empty(sum(sizes) if self._keep else max(sizes), dtype=Xt.dtype, device=device_of(Xt))
        self._kept = 0
        self.row_sums = xp.zeros((n, m), dtype=xp.float64, device=device_of(Xt))
        self.squares = xp.zeros(n, dtype=xp.float64, device=device_of(Xt))

    @classmethod
    def of(cls, sample: Sample, gamma: float, moments: Moments, rough: Array) -> "_Elements | _ElementsElsewhere":
        """Take the features of a mask, in double precision where single would lose too much."""
        xp = namespace(moments.second)
        # where tanh saturates, what varies besides is small against it
        precise = moments.outlying is not None or moments.gamma * moments.extremes[1] ** 2 > 4.0
        precise |= not single(sample.inside) or not moments.ordinary
        X, dtype = keep(sample.X, rough), xp.float64 if precise else xp.float32
        if isinstance(X, Elsewhere):
            return _ElementsElsewhere(X, gamma, dtype)
        return cls.of_block(X, gamma, dtype)

    @classmethod
    def of_block(cls, X: Any, gamma: float, dtype: Any) -> "_Elements":
        """Take all columns of an array."""
        return cls(contiguous(astype(X.T, dtype)), gamma)

    def _blocks(self) -> Iterator[tuple[int, int, Any]]:
        """Rows start to stop against columns from start on; (feature, row, column)."""
        n, m = self._Xt.shape
        xp, at = namespace(self._Xt), 0
        for start, stop in pairwise(self._starts):
            shape = n, stop - start, m - start
            block = xp.reshape(self._room[at : at + n * shape[1] * shape[2]], shape)
            if self._keep:
                at += n * shape[1] * shape[2]
            if at > self._kept or not self._keep:
                xp.subtract(self._Xt[:, start:stop, None], self._Xt[:, None, start:], out=block)
                with np.errstate(over="ignore"):
                    block *= block
                xp.tanh(block, out=block)
                self._kept = at
            yield start, stop, block

    def log_factors(self, free: Array, dtype: Any) -> Any:
        """`Σ_j log((1 + z_j)/2) = - Σ_j log(1 + T_j)` over the free features; gathers the norms on the way."""
        xp, m = namespace(self._Xt), self._Xt.shape[1]
        logs = xp.empty((m, m), dtype=dtype, device=device_of(self._Xt))
        self.row_sums[:] = 0.0
        self.squares[:] = 0.0
        for start, stop, block in self._blocks():
            factors = -_log_product(block if free.all() else block[index_of(free, block)])
            logs[start:stop, start:] = factors
            if stop - start == m:  # all pairs at once, each of them twice
                self.row_sums[:] = block.sum(axis=2)
                self.squares[:] = xp.linalg.vector_norm(xp.reshape(block, (block.shape[0], -1)), axis=1)
                self.squares *= self.squares
                return logs
            logs[stop:, start:stop] = factors[:, stop - start :].T
            own = block[:, :, : stop - start]
            # sums as products: far faster along a short axis
            ones = xp.ones(m - start, dtype=block.dtype, device=device_of(block))
            self.row_sums[:, start:stop] += double(block @ ones)
            self.row_sums[:, stop:] += double(ones[: stop - start] @ block[:, :, stop - start :])
            flat = xp.reshape(block, (block.shape[0], 1, -1))
            self.squares += 2 * double((flat @ xp.matrix_transpose(flat))[:, 0, 0])
            self.squares -= double(xp.linalg.vecdot(own, own).sum(axis=1))
        return logs

    def least_row_sum(self) -> float:
        """Least sum of a row of T, of all features; m - 1 if no sample is near another."""
        return float(self.row_sums.min())

    def products(self, target: Target, weights: _Weights) -> Any:
        """Totals and scores, the full function (eq. 3 and 7)."""
        xp, (n, m) = namespace(self._Xt), self._Xt.shape
        matrices = weights.total, target.matrices(weights.total.dtype)[1], weights.interaction
        forms = xp.zeros((n, 3), dtype=xp.float64, device=device_of(self._Xt))
        for start, stop, block in self._blocks():
            part = astype(xp.stack([matrix[start:stop, start:] for matrix in matrices]), block.dtype)
            if stop - start == m:
                forms = double(xp.reshape(block, (n, -1)) @ xp.reshape(part, (3, -1)).T)
                break
            own = xp.reshape(block[:, :, : stop - start], (n, -1))
            # pairs within the rows are there twice, the others once
            forms -= double(own @ xp.reshape(part[:, :, : stop - start], (3, -1)).T)
            forms += 2 * double(xp.reshape(block, (n, -1)) @ xp.reshape(part, (3, -1)).T)
        total, main, interaction = -2 * forms.T
        row_squares = (self.row_sums * self.row_sums).sum(axis=1)
        sums = self.row_sums.sum(axis=1)
        square = self.squares - row_squares * (2 / (m - 2)) + sums**2 / ((m - 1) * (m - 2))
        hollow = 2 * root(square, self.squares, m, self._Xt.dtype)
        interaction = interaction - weights.interaction_mean(hollow, sums / (m * (m - 1)), m)
        return xp.stack(
            [
                total / target.n_pairs,
                _score(main, target.hollow_norm, hollow, m),
                _score(interaction, weights.interaction_norm, hollow, m),
            ]
        )


class _ElementsElsewhere:
    """`_Elements` of features that do not fit into memory: a block of them at a time, twice."""

    def __init__(self, X: Elsewhere, gamma: float, dtype: Any) -> None:
        self._X, self._how = X, (gamma, dtype)
        self._least = np.inf

    def log_factors(self, free: Array, dtype: Any) -> Any:
        """`- Σ_j log(1 + T_j)` over the free features."""
        found = total(part(self._X, free), STRIP, _Factors.of, *self._how)
        self._least = found.least_row_sum
        return astype(found.log_factors, dtype)

    def least_row_sum(self) -> float:
        """Least sum of a row of T, of the free features."""
        return self._least

    def products(self, target: Target, weights: _Weights) -> Any:
        """Totals and scores."""
        parts = list(each(self._X, STRIP, _rough_products, *self._how, target, weights))
        return namespace(parts[0]).concat(parts, axis=1)


@dataclass(frozen=True)
class _Factors:
    """What some features bring to log Q, and the least row sum of their T."""

    log_factors: Any
    least_row_sum: float

    @classmethod
    def of(cls, block: Any, gamma: float, dtype: Any) -> "_Factors":
        """Compute it from a block of columns."""
        elements = _Elements.of_block(block, gamma, dtype)
        log_factors = elements.log_factors(np.ones(block.shape[1], dtype=bool), namespace(block).float64)
        return cls(log_factors, elements.least_row_sum())

    def __add__(self, other: "_Factors") -> "_Factors":
        return _Factors(self.log_factors + other.log_factors, min(self.least_row_sum, other.least_row_sum))


def _rough_products(block: Any, gamma: float, dtype: Any, target: Target, weights: _Weights) -> Any:
    elements = _Elements.of_block(block, gamma, dtype)
    # for the norms that it gathers
    elements.log_factors(np.ones(block.shape[1], dtype=bool), dtype)
    return elements.products(target, weights)


def _log_product(block: Any) -> Any:
    """`Σ_j log(1 + T_j)`, by products as long as they cannot overflow."""
    xp = namespace(block)
    longest = 100 if single(block.dtype) else 1000
    starts = range(0, block.shape[0], longest)
    logs = [double(xp.log(xp.prod(1 + block[start : start + longest], axis=0))) for start in starts]
    return sum(logs[1:], logs[0]) if logs else xp.zeros(block.shape[1:], dtype=block.dtype, device=device_of(block))
