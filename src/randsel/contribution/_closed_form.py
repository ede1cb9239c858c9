"""The contribution in closed form: the limit of infinitely many random subsets, for all features in one pass.

One of three routes computes with the function `2T` of each feature (eq. 3): its series to first or to third order,
through matrix products, or element by element. Error bounds, which follow from moments of the columns, choose the
route: they say how far a score can move when a series replaces the function. A route returns the "forms" of its
features, one column each, in five rows: total contribution, sums over pairs for the main and for the interaction score,
norm of the U-centred function, mean of the contrast T. Equations are numbered as in docs/explanation/mathematics.md.
"""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from randsel._numerics.arrays import (
    BLAS_ROWS,
    SCRATCH,
    as_index,
    astype,
    clip,
    forms_by_column,
    is_single,
    machine_epsilon,
    namespace,
    prepare_quadratic_forms,
    safe_ratio,
    scratch_size,
    take_columns,
    to_double,
    to_numpy,
)
from randsel._numerics.columns import STRIP, load_columns, map_blocks, select_columns
from randsel._numerics.kernels import UNDERFLOW, Factor, Series, null_scale, squared_distances
from randsel._utils.jobs import generator
from randsel._utils.typing import Array
from randsel.contribution._bootstrap import Draws
from randsel.contribution._expected_kernel import PLAIN, PairingMatrices, Weighting
from randsel.contribution._nonlinear import (
    MAX_REACH,
    CubicSeries,
    Elements,
    StreamedElements,
    difference_moment,
    elements_of,
    largest_turn,
    power_sums,
    score_error,
)
from randsel.contribution._row_blocks import average_blocks, map_row_blocks
from randsel.contribution._sample import ColumnMoments, Contribution, PairSums, Sample
from randsel.targets import Target

#: Rows above which the closed form is averaged over row blocks of about half this size: pairs grow as m².
MAX_ROWS = 2000
#: Largest error of a score, in null standard deviations, that the series of log Q and that of 2T may each cause.
TOLERANCE = 0.2
#: Largest number of features for which the expensive bound (12') is computed where the cheap one (12) fails.
MAX_SHARPENED = 1024
#: Number of features up to which all take the element-wise route: it costs little more then.
FEW = 32
#: Number of features up to which scores are computed on the host: starting the operations on a device takes longer.
HOST_FEATURES = 2048
#: Work (features × pairs) above which the third-order series beats the element-wise route on the host.
EXPENSIVE = 1 << 20


# ---------------------------------------------------------------- all rows, or blocks of rows


def exact(sample: Sample, gamma: float, draws: Draws, weighting: Weighting = PLAIN) -> Contribution:
    """Return contributions in the limit of infinitely many subsets, which a feature enters with probability ½."""
    blocks = row_blocks(sample.target, draws)
    if len(blocks) == 1:
        return closed_form(sample, gamma, weighting)
    if weighting.residual and weighting.ridge is None:  # as for the bandwidth, the first block decides for all
        weighting = replace(weighting, ridge=closed_form(sample.take_rows(blocks[0]), gamma, weighting).ridge)
    function = partial(_closed_form_of_block, weighting=weighting)
    return average_blocks(
        map_row_blocks(sample, blocks, function, gamma, draws, draws.on_block), np.concatenate(blocks)
    )


def row_blocks(target: Target, draws: Draws) -> list[Array]:
    """Return all rows as one block, or a random partition where the pairs of all rows would be too many.

    Rows are sorted by the target and dealt out in turn, so that classes have equal proportions in all blocks.
    """
    m = len(target.Y)
    if m <= MAX_ROWS:
        return [np.arange(m)]
    size = MAX_ROWS // 2
    order = generator(draws.seed).permutation(m)
    order = order[np.argsort(target.strata[order].round(9), kind="stable")]
    n_blocks = round(m / size)
    return [np.sort(order[start::n_blocks]) for start in range(min(n_blocks, draws.n_bootstraps))]


def _closed_form_of_block(sample: Sample, gamma: float, weighting: Weighting) -> Contribution:
    # Drop the references to matrices of the block, so that those of all blocks are not in memory together.
    return replace(closed_form(sample, gamma, weighting), sums=None)


# ---------------------------------------------------------------- bounds on the first order


@dataclass(frozen=True)
class FirstOrderBounds:
    """Bounds on the errors of the first-order form `2T = u`, for all features at one bandwidth.

    Attributes
    ----------
    m, gamma
        Number of samples, and bandwidth.
    factor, series
        Factor of the kernel, and the coefficients of its series.
    moments
        Moments of the columns.
    reach
        Largest `u` of each feature, `γ` times its squared range.
    sharpened
        Errors from `sharpen`, where the cheap bound did not suffice.
    """

    m: int
    gamma: float
    factor: Factor
    series: Series
    moments: ColumnMoments
    reach: Any
    sharpened: Any = None

    @classmethod
    def from_moments(
        cls, moments: ColumnMoments, m: int, gamma: float, factor: Factor, series: Series
    ) -> "FirstOrderBounds":
        """Prepare the bounds of all features."""
        with np.errstate(over="ignore"):
            reach = gamma * moments.range * moments.range
        return cls(m, gamma, factor, series, moments, reach)

    @cached_property
    def score_errors(self) -> Any:
        """Bound on the error of a feature's scores when `2T` is replaced by `u` times a constant (eq. 12)."""
        if self.sharpened is not None:
            return self.sharpened
        slope, moments = self.factor.least_slope(self.reach), self.moments
        turn = (1 - slope) / (1 + slope) * safe_ratio(moments.pair_norm, 2 * moments.u_centred_norm)
        return score_error(turn, self.m)

    def all_within(self, tolerance: float) -> bool:
        """Whether (12) is within the tolerance even for a column of the largest range and the largest norm ratio."""
        if self.moments.outlying is not None:
            return False
        largest_reach = np.asarray([self.gamma * self.moments.extremes.largest_range**2])
        slope = self.factor.least_slope(largest_reach)
        turn = (1 - slope) / (1 + slope) * self.moments.extremes.largest_norm_ratio
        return bool(score_error(turn, self.m)[0] <= tolerance)

    def exceeding(self, tolerance: float, *, single: bool) -> Array:
        """Return a mask, on the host, of features beyond the tolerance and, with `single`, of outlying ones."""
        exceeding = self.score_errors > tolerance
        if single and self.moments.outlying is not None:
            exceeding = exceeding | self.moments.outlying
        return to_numpy(exceeding)

    def sharpen(self, X: Any, features: Array) -> "FirstOrderBounds":
        """Return sharper bounds for some features, from moments up to the twelfth instead of the range (eq. 12')."""
        if not 0 < np.count_nonzero(features) <= MAX_SHARPENED:
            return self
        # Columns in units of their range, where γ d becomes reach · d and powers stay in range.
        span, reach = take_columns(self.moments.range, features), take_columns(self.reach, features)
        sums = power_sums(to_double(load_columns(X, features)) / span, 12)
        d2, d4, d6 = (difference_moment(sums, k) for k in (2, 4, 6))
        # Residual of u³ after its regression on u, plus the bound on the fifth order: the numerator of (12').
        residual = clip(d6 - safe_ratio(d4 * d4, d2), 0.0) ** 0.5 / self.series.cubic
        residual = residual + d6**0.5 * reach**2 / self.series.quintic
        best_factor = 1.0 - reach**2 * safe_ratio(d4, d2) / self.series.cubic
        norm = 2 * take_columns(self.moments.u_centred_norm, features) / span**2 * clip(best_factor, 1e-3)
        errors = score_error(reach**2 * safe_ratio(residual, norm), self.m)
        xp, index = namespace(errors), as_index(features, errors)
        sharpened = xp.asarray(self.score_errors, copy=True)
        sharpened[index] = xp.minimum(sharpened[index], errors)
        return replace(self, sharpened=sharpened)

    @cached_property
    def log_errors(self) -> Any:
        """Each feature's term in the bound on the error of `log Q` to second order (eq. 10)."""
        with np.errstate(over="ignore"):
            return self.reach**3 * self.moments.pair_norm * (self.gamma / self.series.log_fourth)

    @property
    def largest_log_error(self) -> float:
        """Bound on the sum of all `log_errors`, from the largest range and norm."""
        extremes = self.moments.extremes
        with np.errstate(over="ignore"):
            reach = np.float64(self.gamma) * extremes.largest_range**2
            coefficient = self.gamma / self.series.log_fourth
            return float(len(self.reach) * reach**3 * extremes.largest_pair_norm * coefficient)

    def log_error(self, features: Array) -> float:
        """Return the sum of `log_errors` over some features."""
        return float(take_columns(self.log_errors, features).sum()) if features.any() else 0.0


# ---------------------------------------------------------------- choice of routes


@dataclass(frozen=True)
class _Routes:
    """The route of every feature: element by element, to third order, or otherwise to first order."""

    elementwise: Array
    cubic: CubicSeries | None = None

    @cached_property
    def first_order(self) -> Array:
        """Mask of the features to first order."""
        return ~self.elementwise if self.cubic is None else ~self.elementwise & ~self.cubic.features

    def log_error(self, bounds: FirstOrderBounds, free: Array) -> float:
        """Return a bound on the norm of the error of `log Q` from the series of the free features (eq. 10, 10'')."""
        error = bounds.log_error(self.first_order & free)
        if self.cubic is not None:
            error += float(take_columns(self.cubic.log_errors, free[self.cubic.features]).sum())
        return error


def closed_form(sample: Sample, gamma: float, weighting: Weighting = PLAIN) -> Contribution:
    """Return the contributions of all features from one expected kernel.

    A feature goes beyond first order if the error bound of its own function exceeds TOLERANCE. If the error of the
    expected kernel could still exceed it, so do the features of the largest reach. Where single precision turns out to
    be insufficient, everything is computed again in double precision.
    """
    sample.check_gamma(gamma)
    if not sample.resolves(gamma):
        return replace(closed_form(sample.in_double(), gamma, weighting), sums=sample.sums)
    (m, n), precision, series = sample.X.shape, sample.precision, sample.factor.series
    all_elementwise = _Routes(np.ones(n, dtype=bool))
    if series is None:
        return _evaluate(sample, gamma, weighting, all_elementwise)[0]
    bounds = FirstOrderBounds.from_moments(sample.moments, m, gamma, sample.factor, series)
    nonlinear = all_elementwise.elementwise.copy()  # stays so if there is little work in all
    if n > max(FEW, _expensive(sample) // (4 * m**2)):
        nonlinear, bounds = _nonlinear_features(sample, bounds)
    sums: PairSums | None = None
    for _ in range(3):  # every attempt takes more features beyond first order
        cubic = _third_order(sample, gamma, bounds, nonlinear)
        routes = _Routes(nonlinear if cubic is None else nonlinear & ~cubic.features, cubic)
        if np.count_nonzero(routes.elementwise) > 0.7 * n:  # series of the others would save too little
            routes = all_elementwise
        result, allowed = _evaluate(sample, gamma, weighting, routes, sums)
        sums = result.sums
        # Norm of the rounding errors of log Q, whose entries have about the size of log max Q.
        rounding = 0.5 * machine_epsilon(precision.pair_dtype) * m * (1.0 - result.log_scale)
        if precision.single_pairs and rounding > 0.5 * allowed:
            return replace(closed_form(sample.in_double(), gamma, weighting), sums=sums)
        all_linear = not nonlinear.any() and bounds.largest_log_error <= allowed
        if all_linear or routes.elementwise.all() or routes.log_error(bounds, ~sample.fixed) <= allowed:
            return result
        # Features of the smallest reach stay, as long as their errors add up to half of what is allowed.
        # Features of equal reach, such as rank scores without ties, take one route, whatever the order of columns.
        reach, errors = to_numpy(bounds.reach), np.where(sample.fixed, 0.0, to_numpy(bounds.log_errors))
        order = np.argsort(reach, kind="stable")
        beyond = order[np.cumsum(errors[order]) > 0.5 * allowed]
        nonlinear |= reach >= (1.0 - 1e-5) * reach[beyond].min(initial=np.inf)
    return _evaluate(sample, gamma, weighting, all_elementwise, sums)[0]


def _nonlinear_features(sample: Sample, bounds: FirstOrderBounds) -> tuple[Array, FirstOrderBounds]:
    """Return a mask of features whose first-order error may exceed TOLERANCE, and the bounds, sharpened if needed."""
    if bounds.all_within(TOLERANCE):
        return np.zeros(sample.X.shape[1], dtype=bool), bounds
    single = sample.precision.single_products
    nonlinear = bounds.exceeding(TOLERANCE, single=single)
    if nonlinear.any():
        bounds = bounds.sharpen(sample.X, nonlinear)
        nonlinear = bounds.exceeding(TOLERANCE, single=single)
    return nonlinear, bounds


def _third_order(sample: Sample, gamma: float, bounds: FirstOrderBounds, nonlinear: Array) -> CubicSeries | None:
    """Return the third-order series of nonlinear features where it is accurate; None if it would save no time."""
    n_pairs = len(sample.X) ** 2
    count = np.count_nonzero(nonlinear)
    if count > MAX_SHARPENED or count * n_pairs < _expensive(sample):
        return None
    candidates = (bounds.reach < MAX_REACH) & (sample.moments.u_centred_norm > 0)
    if sample.moments.outlying is not None:
        candidates = candidates & ~sample.moments.outlying
    tried = nonlinear & to_numpy(candidates)
    if not tried.any() or tried.sum() * n_pairs < _expensive(sample):
        return None
    cubic = CubicSeries.from_sample(sample, gamma, bounds.series, tried)
    good = to_numpy(cubic.score_errors <= TOLERANCE)
    return cubic.take(good) if good.any() else None


def _expensive(sample: Sample) -> int:
    """Return EXPENSIVE, scaled on a device by its larger scratch memory where features are in single precision.

    Features in double precision take the same routes on every device, so that they have the same ranking.
    """
    return EXPENSIVE * (scratch_size(sample.target.Y) // SCRATCH if is_single(sample.X.dtype) else 1)


# ---------------------------------------------------------------- evaluation


def _evaluate(
    sample: Sample, gamma: float, weighting: Weighting, routes: _Routes, sums: PairSums | None = None
) -> tuple[Contribution, float]:
    """Return contributions, and the largest error of `log Q` that keeps interaction scores within TOLERANCE.

    `sums` are the pair sums, if known; otherwise those of the sample are computed where a route needs them.
    """
    m, elementwise = len(sample.X), routes.elementwise
    elements = elements_of(sample, gamma, elementwise) if elementwise.any() else None
    log_expected, neglected, sums = _log_expected(sample, gamma, routes, elements, sums)
    round_target = weighting.apply(log_expected, sample)
    pairing, scale = PairingMatrices.from_log_expected(sample, round_target.target, log_expected)
    if elements is not None and elementwise.all() and elements.least_row_sum() >= m - 1:
        raise ValueError(UNDERFLOW.format(gamma))
    allowed = _allowed_log_error(pairing, m)
    if neglected > 0.5 * allowed:
        # The error of the sketch of Σ d² could matter: compute Σ d² itself.
        sums = sample.complete_sums()
        log_expected, neglected, sums = _log_expected(sample, gamma, routes, elements, sums)
        round_target = weighting.apply(log_expected, sample)
        pairing, scale = PairingMatrices.from_log_expected(sample, round_target.target, log_expected)
        allowed = _allowed_log_error(pairing, m)

    target, forms = round_target.target, []
    if routes.first_order.any():
        forms.append((routes.first_order, _first_order_forms(sample, gamma, pairing, routes.first_order)))
    if routes.cubic is not None:
        forms.append((routes.cubic.features, _third_order_forms(routes.cubic, pairing)))
    if elements is not None:
        matrices = pairing.total, target.matrices(pairing.interaction.dtype)[1], pairing.interaction
        forms.append((elementwise, elements.forms(matrices, target.n_pairs)))
    merged = _merge(sample, forms)
    merged = to_numpy(merged) if merged.shape[1] <= HOST_FEATURES else merged
    total, main, interaction, u_centred_norm, mean_contrast = merged
    # The null mean of the interaction score is not zero (eq. 8').
    interaction = interaction - pairing.null_mean(u_centred_norm, mean_contrast)
    for i in np.flatnonzero(sample.fixed).tolist():
        total[i] = float(_total_if_fixed(sample, target, gamma, i, log_expected))
    scores = (
        standard_score(main, target.u_centred_norm, u_centred_norm, m),
        standard_score(interaction, pairing.interaction_norm, u_centred_norm, m),
    )
    return Contribution(total, scale, *scores, sums, round_target.errors, round_target.ridge), allowed - neglected


def _allowed_log_error(pairing: PairingMatrices, m: int) -> float:
    """Return the largest norm of an error of `log Q`, and so of Q ≤ 1, that keeps scores within TOLERANCE (eq. 11)."""
    if pairing.target.largest <= 0:
        return np.inf
    return largest_turn(TOLERANCE, m) * pairing.interaction_norm / pairing.target.largest


def _log_expected(
    sample: Sample,
    gamma: float,
    routes: _Routes,
    elements: Elements | StreamedElements | None,
    sums: PairSums | None,
) -> tuple[Any, float, PairSums | None]:
    """Return `log Q = Σ_free log((1 + z_j)/2) + Σ_fixed log z_j` (eq. 2), by series where features take one.

    Also return a bound on the norm of the error of a sketch of the second order (eq. 10'), and the pair sums.
    """
    free, dtype, elementwise, cubic = ~sample.fixed, sample.precision.pair_dtype, routes.elementwise, routes.cubic
    series, neglected, terms = sample.factor.series, 0.0, []
    if sample.fixed.any():
        terms.append(astype(sample.log_fixed_kernel(gamma), dtype))
    # If no free feature is of first order, the products of the third-order series give all orders.
    only_cubic = cubic is not None and not (free & routes.first_order).any()
    if series is not None and (free & ~elementwise).any() and not only_cubic:
        sums = sample.sums if sums is None else sums
        mixed = bool((free & elementwise).any())
        series_sums = _sums_without(sample, sums, free & elementwise, free & ~elementwise) if mixed else sums
        second_order, neglected = series_sums.log_terms(gamma, series)
        terms.append(second_order)
    if cubic is not None and free[cubic.features].any():
        terms.append(astype(cubic.log_terms(free[cubic.features], all_orders=only_cubic), dtype))
    if elements is not None:
        terms.append(elements.log_factors(free[elementwise], dtype))
    log_expected = terms[0]
    for term in terms[1:]:
        log_expected += term
    return log_expected, neglected, sums


def _sums_without(sample: Sample, sums: PairSums, excluded: Array, included: Array) -> PairSums:
    """Return the sums over the included features: by subtraction, or afresh if that would leave only rounding."""

    def sums_over(features: Array) -> PairSums:
        columns = select_columns(sample.columns_in_product_dtype, features)
        return PairSums.from_columns(columns, sample.precision, sketch=sums.sketch is not None)

    size_out, size_in = (float(take_columns(sample.moments.fourth, mask).sum()) for mask in (excluded, included))
    return sums_over(included) if size_out > 1e6 * size_in else sums.subtract_into(sums_over(excluded))


def _merge(sample: Sample, forms: list[tuple[Array, Any]]) -> Any:
    """Return the forms of all features, from (mask, forms) of every route."""
    if len(forms) == 1:
        return forms[0][1]
    xp, device = sample.xp, sample.precision.device
    merged = xp.empty((5, sample.X.shape[1]), dtype=xp.float64, device=device)
    for features, values in forms:
        merged[:, as_index(features, values)] = values
    return merged


def _first_order_forms(sample: Sample, gamma: float, pairing: PairingMatrices, features: Array) -> Any:
    """Return the forms of features to first order, `2T ≈ u`: one matrix product per block of features (eq. 9)."""
    target, dtype = pairing.target, sample.precision.product_dtype
    X = sample.columns_in_product_dtype if features.all() else select_columns(sample.columns_in_product_dtype, features)
    xp, m = namespace(target.Y), len(X)
    prepared = prepare_quadratic_forms(pairing.interaction, dtype)
    rows = astype(xp.concat([target.Y, pairing.rho[:, None] * target.Y], axis=1).T, dtype)
    # Coefficients of x_p² in `_first_order_forms_of_block`: for L∘Q, and for U(L).
    total_weights = pairing.total_rows + 2 * (pairing.offsets + pairing.rho * target.diagonal)
    square_weights = astype(xp.stack([total_weights, target.diagonal - 2 * target.offsets]), dtype)
    width = (2 if m < BLAS_ROWS else 4) * STRIP
    shared = prepared, rows, square_weights, dtype, X.shape[1]
    blocks = list(map_blocks(X, width, _first_order_forms_of_block, *shared))
    total, main, interaction = xp.concat(blocks, axis=1)
    moments = sample.moments
    # ⟨A, -u⟩ = 2γ xᵀ A x for U-centred A, because u = γ d and U(d) = -2 U(x xᵀ).
    return xp.stack(
        [
            total * (-2 * gamma / target.n_pairs),
            2 * gamma * main,
            interaction * (2 * gamma),
            2 * gamma * take_columns(moments.u_centred_norm, features),
            take_columns(moments.second, features) * (gamma / (m - 1)),
        ]
    )


def _first_order_forms_of_block(block: Any, prepared: Any, rows: Any, square_weights: Any, dtype: Any, n: int) -> Any:
    """Return `½ Σ (L∘Q) d`, `xᵀ U(L) x` and `xᵀ A x` with `A = U(L∘U(Q))` for a block of n columns in all."""
    form, linear, (total_squares, main_squares) = forms_by_column(
        prepared, rows, square_weights, astype(block, dtype), n
    )
    by_target, by_rho_target = linear[: len(linear) // 2, :], linear[len(linear) // 2 :, :]
    # ½ Σ M d = Σ_p r_p x_p² - xᵀ M x with the row sums r of M = L∘Q, which is A and a matrix of low rank (after eq. 9).
    total = total_squares - form - 2 * (by_target * by_rho_target).sum(axis=0)
    return namespace(form).stack([total, (by_target * by_target).sum(axis=0) - main_squares, form])


def _third_order_forms(cubic: CubicSeries, pairing: PairingMatrices) -> Any:
    """Return the forms of features to third order (eq. 9').

    One matrix product is enough: `U(L)`, and `L∘Q` less the interaction matrix, are of low rank (eq. 9'').
    """
    target, m, Y = pairing.target, len(pairing.target.Y), pairing.target.Y
    interaction = -cubic.pair_with(pairing.interaction)
    main = 2 * (target.offsets @ cubic.row_sums) - cubic.pair_with_outer(Y, Y)
    by_rho_target = cubic.pair_with_outer(pairing.rho[:, None] * Y, Y)
    total = interaction - 2 * (pairing.offsets @ cubic.row_sums + by_rho_target)
    mean_contrast = cubic.sums / (2 * m * (m - 1))
    rows = [total / target.n_pairs, main, interaction, cubic.u_centred_norm, mean_contrast]
    return namespace(main).stack(rows)


def _total_if_fixed(sample: Sample, target: Target, gamma: float, i: int, log_expected: Any) -> Any:
    """Return the contribution of fixed feature i: with it less without it, all other fixed features in (eq. 3')."""
    xp = namespace(log_expected)
    column = load_columns(sample.X, np.arange(sample.X.shape[1]) == i)
    log_factor = sample.factor.log_factor(gamma * squared_distances(column))
    without = xp.exp(clip(log_expected - log_factor, None, 700.0))  # Q/z_i, below the overflow of exp
    return (target.kernel * without * xp.expm1(log_factor) / target.n_pairs).sum()


# ---------------------------------------------------------------- scores


def standard_score(form: Any, matrix_norm: float, feature_norm: Any, m: int) -> Any:
    """Return `⟨A, B⟩ / (‖A‖ ‖B‖)` divided by its null standard deviation (eq. 7, 8); 0 where a norm is zero."""
    return safe_ratio(null_scale(m) * form, matrix_norm * feature_norm)
