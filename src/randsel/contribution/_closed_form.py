"""The contribution in closed form: the limit of infinitely many random subsets, for all features in one pass.

Equations are numbered as in docs/mathematics.md. Features whose functions are nearly linear in the squared differences
go through matrix products; the others, element by element.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from randsel._numerics.arrays import (
    BLAS_ROWS,
    SCRATCH,
    as_index,
    astype,
    clip,
    device_of,
    forms_by_column,
    frobenius_norm,
    inner_product,
    is_single,
    machine_epsilon,
    namespace,
    prepare_quadratic_forms,
    scratch_size,
    take_columns,
    to_numpy,
)
from randsel._numerics.columns import load_columns, map_blocks, select_columns
from randsel._numerics.kernels import UNDERFLOW, distances_of, squared_distances
from randsel._utils.typing import Array
from randsel.contribution._elementwise import Elements, ElementsElsewhere
from randsel.contribution._error_bounds import MANY, Moments, score_error, turn_for
from randsel.contribution._expected_kernel import PairWeights, score
from randsel.contribution._sample import STRIP, PairSums, Sample
from randsel.contribution._third_order import REACH, CubicSeries
from randsel.targets._target import Target

#: Largest error, in standard deviations of the null, that each of two series may cause in a score: a worst case.
TOLERANCE = 0.2
#: Features up to which the series is not used at all: the exact function costs little more.
FEW = 32
#: Features and pairs from which the series to third order is tried for features that the first order is too short for.
DEAR = 1 << 20


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
        rounding = 0.5 * machine_epsilon(sample.pairs) * len(sample.X) * (1.0 - result.log_scale)
        if is_single(sample.pairs) and rounding > 0.5 * allowed:
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
    return DEAR * (scratch_size(sample.target.Y) // SCRATCH)


def check_gamma(gamma: float, sample: Sample) -> None:
    """Refuse a bandwidth that leaves no difference between samples; UNDERFLOW is found later, from the kernel."""
    if gamma * sample.extent[1] ** 2 < 1e-30:
        msg = (
            f"gamma={gamma:g} is so small that the kernel is one between all samples, which leaves nothing to compare; "
            "use gamma='median' or a larger number."
        )
        raise ValueError(msg)


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
            error += float(take_columns(self.cubic.log_errors, free[self.cubic.features]).sum())
        return error

    def misfits(self, moments: Moments) -> tuple[Any, Any]:
        """Bounds on the norm of the error of each function, and on the error of its scores."""
        xp = namespace(moments.second)
        smooth = xp.asarray(self.smooth, device=device_of(moments.second))
        misfit = xp.where(smooth, 1 - moments.slope, 0.0) * moments.pair_norm * moments.gamma
        turned = xp.where(smooth, moments.slope_error, 0.0)
        if self.cubic is not None:
            at = as_index(self.cubic.features, misfit)
            misfit[at], turned[at] = self.cubic.error, self.cubic.score_error
        return misfit, turned


def _evaluate(sample: Sample, gamma: float, moments: Moments, routes: _Routes) -> tuple[Contribution, float]:
    """Contributions, and how large the error of `log Q` may be for the interaction scores to stay in tolerance."""
    m = len(sample.X)
    rough = routes.rough
    elements = Elements.of(sample, gamma, moments, rough) if rough.any() else None
    log_expected, neglected = _log_expected(sample, gamma, routes, elements)
    if elements is not None and rough.all() and elements.least_row_sum() >= m - 1:
        raise ValueError(UNDERFLOW.format(gamma))
    weights, scale = PairWeights.of(sample, log_expected)
    # Q is at most 1 here, so that a small error of log Q bounds that of Q
    largest, limit = sample.target.largest, turn_for(TOLERANCE, m)
    allowed = limit * weights.interaction_norm / largest if largest > 0 else np.inf
    if neglected > 0.5 * allowed:
        sample.sum_squares()
        log_expected, neglected = _log_expected(sample, gamma, routes, elements)
        weights, scale = PairWeights.of(sample, log_expected)
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
        total[i], lengths[i] = own.sum(), frobenius_norm(own)

    def bounds() -> tuple[Any, Any]:
        length, (misfit, turned) = weights.interaction_norm, routes.misfits(moments)
        log_error = routes.log_error(moments, ~sample.fixed) + neglected
        of_total = (
            misfit * frobenius_norm(weights.total) + moments.pair_norm * (largest * gamma * log_error)
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
        merged[:, as_index(features, found)] = found
    return merged


def _log_expected(
    sample: Sample, gamma: float, routes: _Routes, elements: "Elements | ElementsElsewhere | None"
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
        sums, columns = sample.sums, select_columns(sample.narrow, features)
        how: dict[str, Any] = {"sketch": sums.sketch is not None, "step": sums.step}
        return PairSums.of(columns, **how, inside=sample.inside, dtype=sample.pairs)

    of_rough, of_smooth = (float(take_columns(sample.moments[1], features).sum()) for features in (rough, smooth))
    return summed(smooth) if of_rough > 1e6 * of_smooth else sample.sums.less(summed(rough))


def _smooth(sample: Sample, gamma: float, moments: Moments, weights: PairWeights, smooth: Array) -> Any:
    """Totals and scores to first order, `2 tanh(u/2) ≈ u`: one matrix product per block of features (eq. 9)."""
    X = sample.narrow if smooth.all() else select_columns(sample.narrow, smooth)
    Y = sample.target.Y
    xp, m = namespace(Y), len(X)
    loads = sample.target.loads
    inside = sample.inside
    half = prepare_quadratic_forms(weights.interaction, inside)
    rows = astype(xp.concat([Y, weights.rho[:, None] * Y], axis=1).T, inside)
    own = weights.total_rows + 2 * (weights.rest + weights.rho * loads)
    squares = astype(xp.stack([own, loads - 2 * sample.target.hollow[1]]), inside)
    strip = (2 if m < BLAS_ROWS else 4) * STRIP
    parts = list(map_blocks(X, strip, _smooth_forms, half, rows, squares, inside, X.shape[1]))
    total, main, interaction = xp.concat(parts, axis=1)
    hollow = 2 * gamma * take_columns(moments.hollow_norm, smooth)
    interaction *= 2 * gamma
    interaction -= weights.interaction_mean(hollow, take_columns(moments.second, smooth) * (gamma / (m - 1)), m)
    return xp.stack(
        [
            total * (-2 * gamma / sample.target.n_pairs),
            score(2 * gamma * main, sample.target.hollow_norm, hollow, m),
            score(interaction, weights.interaction_norm, hollow, m),
        ]
    )


def _smooth_forms(block: Any, half: Any, rows: Any, squares: Any, inside: Any, n: int) -> Any:
    """Pair the first-order functions of a block, of n columns in all, with `L∘Q`, `U(L)` and `U(L∘U(Q))`."""
    form, linear, (own, lost) = forms_by_column(half, rows, squares, astype(block, inside), n)
    along, tilted = linear[: len(linear) // 2, :], linear[len(linear) // 2 :, :]
    return namespace(form).stack(
        [
            own - form - 2 * (along * tilted).sum(axis=0),
            (along * along).sum(axis=0) - lost,
            form,
        ]
    )


def _to_third_order(sample: Sample, cubic: CubicSeries, weights: PairWeights) -> Any:
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
            score(main, sample.target.hollow_norm, hollow, m),
            score(interaction, weights.interaction_norm, hollow, m),
        ]
    )


def skewness_of(A: Any) -> float:
    """Skewness of `⟨A, B^π⟩` under permutation for B of rank one, the most that it can be (eq. 8'')."""
    length = frobenius_norm(A)
    # A is symmetric, and a product with its own transpose is half the work
    return float(np.sqrt(8.0) * inner_product(A @ A.T, A) / length**3) if length > 0 else 0.0


def _skewness_of_target(target: Target) -> float:
    """`skewness_of` U(L), from the factor of L where that is narrow and U(L) is no small difference."""
    if target.lopsided or 4 * target.Y.shape[1] > len(target.Y):
        return skewness_of(target.hollow[0])
    return float(np.sqrt(8.0)) * target.hollow_cube / target.hollow_norm**3


def _total_if_free(sample: Sample, gamma: float, i: int, log_expected: Any) -> Any:
    """Contribution of a fixed feature, pair by pair: with it against without it, other fixed features in (eq. 3')."""
    xp = namespace(log_expected)
    u = gamma * squared_distances(load_columns(sample.X, np.arange(sample.X.shape[1]) == i))
    without = xp.exp(clip(log_expected + u, None, 700.0))
    return sample.target.kernel * without * xp.expm1(-u) / sample.target.n_pairs
