"""The contribution in closed form: the limit of infinitely many random subsets, for all features in one pass.

Features take one of three routes, chosen by error bounds: their functions to first order, through matrix products; to
third order; or element by element. Each route returns the forms of its features, an array of five rows: the total, the
sums over pairs for the main and the interaction score, the norm of the U-centred function, the mean of the contrast.
Equations are numbered as in docs/mathematics.md.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from randsel._numerics.arrays import (
    BLAS_ROWS,
    SCRATCH,
    as_index,
    astype,
    clip,
    dot,
    forms_by_column,
    frobenius_norm,
    inner_product,
    machine_epsilon,
    namespace,
    prepare_quadratic_forms,
    scratch_size,
    set_diagonal,
    take_columns,
    to_double,
    to_floats,
    to_numpy,
)
from randsel._numerics.columns import ColumnSource, load_columns, map_blocks, select_columns
from randsel._numerics.kernels import UNDERFLOW, null_scale, squared_distances, u_centre_with_offsets
from randsel._utils.jobs import generator, ordered_map
from randsel._utils.typing import Array
from randsel.contribution._bootstrap import Draws
from randsel.contribution._error_bounds import MAX_SHARPENED, STRIP, FirstOrderBounds, largest_turn, safe_ratio
from randsel.contribution._nonlinear import MAX_REACH, CubicSeries, Elements, StreamedElements, elements_of
from randsel.contribution._sample import Contribution, PairSums, Sample
from randsel.targets import Target

#: Rows above which the closed form is averaged over row blocks of at most this size: pairs grow as m².
MAX_ROWS = 2000
#: Largest error, in standard deviations of the null, that each of two series may cause in a score: a worst case.
TOLERANCE = 0.2
#: Features up to which no series is used: the exact function costs little more.
FEW = 32
#: Work (features x pairs) above which the third-order series beats the element-wise route; more on a device.
EXPENSIVE = 1 << 20


# ---------------------------------------------------------------- all rows, or blocks of rows


def exact(sample: Sample, gamma: float, draws: Draws) -> Contribution:
    """Return contributions in the limit of infinitely many subsets, which a feature enters with probability ½."""
    blocks = row_blocks(sample.target, draws)
    if len(blocks) == 1:
        return closed_form(sample, gamma)
    return _average(map_row_blocks(sample, blocks, _closed_form_of_block, gamma, draws, draws.on_block))


def row_blocks(target: Target, draws: Draws) -> list[Array]:
    """Return all rows as one block, or a random partition where the pairs of all rows would be too many.

    Rows are dealt to the blocks in the order of the target, so that each block gets its share of every class.
    """
    m = len(target.Y)
    if m <= MAX_ROWS:
        return [np.arange(m)]
    size = MAX_ROWS // 2
    order = generator(draws.seed).permutation(m)
    order = order[np.argsort(target.strata[order].round(9), kind="stable")]
    n_blocks = round(m / size)
    return [np.sort(order[start::n_blocks]) for start in range(min(n_blocks, draws.n_bootstraps))]


def map_row_blocks(
    sample: Sample,
    blocks: list[Array],
    function: Callable[[Sample, float], Any],
    gamma: float,
    draws: Draws,
    on_done: Callable[[], None] | None = None,
) -> list[Any]:
    """Return `function(sample of the rows, gamma)` for blocks of rows.

    A source of columns with workers of its own gets whole row blocks if they are not too large for one worker;
    otherwise its workers share the columns of one row block after the other.
    """
    n_jobs = draws.n_jobs
    if isinstance(sample.X, ColumnSource):
        shared = sample.target, sample.fixed, sample.factor, function, gamma
        results = sample.X.map_row_blocks(blocks, _call_on_worker, *shared)
        if results is not None:
            if on_done is not None:
                for _ in results:
                    on_done()
            return results
        n_jobs = 1 if sample.X.computes_elsewhere else n_jobs
    tasks = [(sample, rows, function, gamma) for rows in blocks]
    return ordered_map(_call_on_rows, tasks, n_jobs, on_done)


def _call_on_rows(sample: Sample, rows: Array, function: Callable[[Sample, float], Any], gamma: float) -> Any:
    return function(sample.take_rows(rows), gamma)


def _call_on_worker(
    X: Array, rows: Array, target: Target, fixed: Array, factor: Any, function: Any, gamma: float
) -> Any:
    return function(Sample.from_columns(X, target.rows(rows), fixed, factor), gamma)


def _closed_form_of_block(sample: Sample, gamma: float) -> Contribution:
    # Without references to the matrices of the block, which would all stay in memory.
    return replace(closed_form(sample, gamma), skewness=None, sums=None)


def _average(blocks: list[Contribution]) -> Contribution:
    """Average the totals; scores of B independent blocks add up to √B times a standard score."""
    scale = max(block.log_scale for block in blocks)

    def mean_total() -> Any:
        return sum(block.relative * float(np.exp(block.log_scale - scale)) for block in blocks) / len(blocks)

    def combine(name: str) -> Any:
        return sum(getattr(block, name) for block in blocks) / len(blocks) ** 0.5

    # A matrix of rank one has skewness √8, the largest there is; a sum of B independent scores has 1/√B of theirs.
    largest = float(np.sqrt(8.0 / len(blocks)))
    return Contribution(mean_total(), scale, combine("main"), combine("interaction"), lambda: (largest, largest))


# ---------------------------------------------------------------- choice of routes


@dataclass(frozen=True)
class _Routes:
    """Which features go which way: element by element, to third order, and the others to first order."""

    elementwise: Array
    cubic: CubicSeries | None = None

    @cached_property
    def first_order(self) -> Array:
        """Mask of the features to first order."""
        return ~self.elementwise if self.cubic is None else ~self.elementwise & ~self.cubic.features

    def log_error(self, bounds: FirstOrderBounds, free: Array) -> float:
        """Return a bound on the norm of the error of `log Q` through the series of the free features (eq. 10)."""
        error = bounds.log_error(self.first_order & free)
        if self.cubic is not None:
            error += float(take_columns(self.cubic.log_errors, free[self.cubic.features]).sum())
        return error


def closed_form(sample: Sample, gamma: float) -> Contribution:
    """Return the contributions of all features from one expected kernel.

    A feature goes beyond first order when the error bound of its own function exceeds TOLERANCE. If the expected kernel
    could still be off by more than that, so do the features with the largest share in its error bound. Where single
    precision turns out to be too little, all is computed in double precision.
    """
    sample.check_gamma(gamma)
    if not sample.resolves(gamma):
        return replace(closed_form(sample.in_double(), gamma), sums=sample.sums)
    (m, n), precision, series = sample.X.shape, sample.precision, sample.factor.series
    all_elementwise = _Routes(np.ones(n, dtype=bool))
    if series is None:
        return _evaluate(sample, gamma, all_elementwise)[0]
    bounds = FirstOrderBounds.from_moments(sample.moments, m, gamma, sample.factor, series)
    nonlinear = all_elementwise.elementwise.copy()
    if n > max(FEW, _expensive(sample) // (4 * m**2)):
        nonlinear, bounds = _nonlinear_features(sample, bounds)
    sums: PairSums | None = None
    for _ in range(3):
        cubic = _third_order(sample, gamma, bounds, nonlinear)
        routes = _Routes(nonlinear if cubic is None else nonlinear & ~cubic.features, cubic)
        if np.count_nonzero(routes.elementwise) > 0.7 * n:
            routes = all_elementwise
        result, allowed = _evaluate(sample, gamma, routes, sums)
        sums = result.sums
        rounding = 0.5 * machine_epsilon(precision.pair_dtype) * m * (1.0 - result.log_scale)
        if precision.single_pairs and rounding > 0.5 * allowed:
            return replace(closed_form(sample.in_double(), gamma), sums=sums)
        all_linear = not nonlinear.any() and bounds.largest_log_error <= allowed
        if all_linear or routes.elementwise.all() or routes.log_error(bounds, ~sample.fixed) <= allowed:
            return result
        order = np.argsort(to_numpy(bounds.reach), kind="stable")
        errors = np.where(sample.fixed, 0.0, to_numpy(bounds.log_errors))
        nonlinear[order[np.cumsum(errors[order]) > 0.5 * allowed]] = True
    return _evaluate(sample, gamma, all_elementwise, sums)[0]


def _nonlinear_features(sample: Sample, bounds: FirstOrderBounds) -> tuple[Array, FirstOrderBounds]:
    """Return a mask of features whose first-order error exceeds TOLERANCE, and bounds that are as sharp as needed."""
    if bounds.all_within(TOLERANCE):
        return np.zeros(sample.X.shape[1], dtype=bool), bounds
    single = sample.precision.single_products
    nonlinear = bounds.exceeding(TOLERANCE, single=single)
    if nonlinear.any():
        bounds = bounds.sharpen(sample.X, nonlinear)
        nonlinear = bounds.exceeding(TOLERANCE, single=single)
    return nonlinear, bounds


def _third_order(sample: Sample, gamma: float, bounds: FirstOrderBounds, nonlinear: Array) -> CubicSeries | None:
    """Return those of the nonlinear features whose third-order series is good enough, if they are worth it."""
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
    return EXPENSIVE * (scratch_size(sample.target.Y) // SCRATCH)


# ---------------------------------------------------------------- evaluation


def _evaluate(
    sample: Sample, gamma: float, routes: _Routes, sums: PairSums | None = None
) -> tuple[Contribution, float]:
    """Return contributions, and how large the error of `log Q` may be for the interaction scores to stay in tolerance.

    `sums` are the pair sums if they are known; otherwise they are those of the sample, where a route needs them.
    """
    m, target, elementwise = len(sample.X), sample.target, routes.elementwise
    elements = elements_of(sample, gamma, elementwise) if elementwise.any() else None
    log_expected, neglected, sums = _log_expected(sample, gamma, routes, elements, sums)
    if elements is not None and elementwise.all() and elements.least_row_sum() >= m - 1:
        raise ValueError(UNDERFLOW.format(gamma))
    pairing, scale = PairingMatrices.from_log_expected(sample, log_expected)
    allowed = _allowed_log_error(target, pairing, m)
    if neglected > 0.5 * allowed:
        # What the sketch of Σ d² lacks could matter: compute Σ d² itself.
        sums = sample.complete_sums()
        log_expected, neglected, sums = _log_expected(sample, gamma, routes, elements, sums)
        pairing, scale = PairingMatrices.from_log_expected(sample, log_expected)
        allowed = _allowed_log_error(target, pairing, m)

    forms = []
    if routes.first_order.any():
        forms.append((routes.first_order, _first_order_forms(sample, gamma, pairing, routes.first_order)))
    if routes.cubic is not None:
        forms.append((routes.cubic.features, _third_order_forms(target, routes.cubic, pairing)))
    if elements is not None:
        matrices = pairing.total, target.matrices(pairing.interaction.dtype)[1], pairing.interaction
        forms.append((elementwise, elements.forms(matrices, target.n_pairs)))
    total, main, interaction, u_centred_norm, mean_contrast = _merge(sample, forms)
    interaction = interaction - pairing.null_mean(u_centred_norm, mean_contrast)
    for i in np.flatnonzero(sample.fixed).tolist():
        total[i] = _total_if_fixed(sample, gamma, i, log_expected)
    scores = (
        standard_score(main, target.u_centred_norm, u_centred_norm, m),
        standard_score(interaction, pairing.interaction_norm, u_centred_norm, m),
    )
    skewness = lambda: (_skewness_of_target(target), _skewness(pairing.interaction))  # noqa: E731
    return Contribution(total, scale, *scores, skewness, sums), allowed - neglected


def _allowed_log_error(target: Target, pairing: "PairingMatrices", m: int) -> float:
    """Return the norm of an error of `log Q` that moves no score by more than TOLERANCE (eq. 11).

    Q is at most 1, so that a small error of log Q bounds that of Q.
    """
    if target.largest <= 0:
        return np.inf
    return largest_turn(TOLERANCE, m) * pairing.interaction_norm / target.largest


def _log_expected(
    sample: Sample,
    gamma: float,
    routes: _Routes,
    elements: Elements | StreamedElements | None,
    sums: PairSums | None,
) -> tuple[Any, float, PairSums | None]:
    """Return `log Q = Σ_free log((1 + z_j)/2) + Σ_fixed log z_j` (eq. 2), by series where features take one.

    With it come a bound on the norm of what a sketch of the second order lacks (eq. 10'), and the pair sums.
    """
    free, dtype, elementwise, cubic = ~sample.fixed, sample.precision.pair_dtype, routes.elementwise, routes.cubic
    series, neglected, terms = sample.factor.series, 0.0, []
    if sample.fixed.any():
        terms.append(astype(sample.log_fixed_kernel(gamma), dtype))
    # If all features with a series are of third order, its own products give all orders.
    only_cubic = cubic is not None and not (free & routes.first_order).any()
    if series is not None and (free & ~elementwise).any() and not only_cubic:
        sums = sample.sums if sums is None else sums
        mixed = bool((free & elementwise).any())
        smooth = _sums_without(sample, sums, free & elementwise, free & ~elementwise) if mixed else sums
        second_order, neglected = smooth.log_terms(gamma, series)
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
    """Return the sums over the included features: all less the excluded, or afresh where that leaves only rounding."""

    def sums_over(features: Array) -> PairSums:
        columns = select_columns(sample.columns_in_product_dtype, features)
        return PairSums.from_columns(columns, sample.precision, sketch=sums.sketch is not None)

    size_out, size_in = (float(take_columns(sample.moments.fourth, mask).sum()) for mask in (excluded, included))
    return sums_over(included) if size_out > 1e6 * size_in else sums.subtract_into(sums_over(excluded))


def _merge(sample: Sample, forms: list[tuple[Array, Any]]) -> Any:
    """Put the forms of the routes in the places of their features."""
    if len(forms) == 1:
        return forms[0][1]
    xp, device = sample.xp, sample.precision.device
    merged = xp.empty((5, sample.X.shape[1]), dtype=xp.float64, device=device)
    for features, values in forms:
        merged[:, as_index(features, values)] = values
    return merged


def _first_order_forms(sample: Sample, gamma: float, pairing: "PairingMatrices", features: Array) -> Any:
    """Return the forms of features to first order, `2T ≈ u`: one matrix product per block of features (eq. 9)."""
    target, dtype = sample.target, sample.precision.product_dtype
    X = sample.columns_in_product_dtype if features.all() else select_columns(sample.columns_in_product_dtype, features)
    xp, m = namespace(target.Y), len(X)
    half = prepare_quadratic_forms(pairing.interaction, dtype)
    rows = astype(xp.concat([target.Y, pairing.rho[:, None] * target.Y], axis=1).T, dtype)
    diagonal = pairing.total_rows + 2 * (pairing.offsets + pairing.rho * target.diagonal)
    squares = astype(xp.stack([diagonal, target.diagonal - 2 * target.offsets]), dtype)
    width = (2 if m < BLAS_ROWS else 4) * STRIP
    blocks = list(map_blocks(X, width, _first_order_forms_of_block, half, rows, squares, dtype, X.shape[1]))
    total, main, interaction = xp.concat(blocks, axis=1)
    moments = sample.moments
    return xp.stack(
        [
            total * (-2 * gamma / target.n_pairs),
            2 * gamma * main,
            interaction * (2 * gamma),
            2 * gamma * take_columns(moments.u_centred_norm, features),
            take_columns(moments.second, features) * (gamma / (m - 1)),
        ]
    )


def _first_order_forms_of_block(block: Any, half: Any, rows: Any, squares: Any, dtype: Any, n: int) -> Any:
    """Pair the functions of a block, of n columns in all, with `L∘Q`, `U(L)` and `U(L∘U(Q))`."""
    form, linear, (diagonal, lost) = forms_by_column(half, rows, squares, astype(block, dtype), n)
    by_target, by_tilted = linear[: len(linear) // 2, :], linear[len(linear) // 2 :, :]
    total = diagonal - form - 2 * (by_target * by_tilted).sum(axis=0)
    return namespace(form).stack([total, (by_target * by_target).sum(axis=0) - lost, form])


def _third_order_forms(target: Target, cubic: CubicSeries, pairing: "PairingMatrices") -> Any:
    """Return the forms of features to third order (eq. 9').

    One matrix product is enough: what `L∘Q` and `U(L)` have besides the interaction matrix is of low rank (eq. 9'').
    """
    m, Y = len(target.Y), target.Y
    interaction = -cubic.pair_with(pairing.interaction)
    main = 2 * (target.offsets @ cubic.row_sums) - cubic.pair_with_outer(Y, Y)
    tilted = cubic.pair_with_outer(pairing.rho[:, None] * Y, Y)
    total = interaction - 2 * (pairing.offsets @ cubic.row_sums + tilted)
    mean_contrast = cubic.sums / (2 * m * (m - 1))
    rows = [total / target.n_pairs, main, interaction, cubic.u_centred_norm, mean_contrast]
    return namespace(main).stack(rows)


def _total_if_fixed(sample: Sample, gamma: float, i: int, log_expected: Any) -> Any:
    """Return the contribution of a fixed feature: with it against without it, other fixed features in (eq. 3')."""
    xp = namespace(log_expected)
    column = load_columns(sample.X, np.arange(sample.X.shape[1]) == i)
    log_factor = sample.factor.log_factor(gamma * squared_distances(column))
    without = xp.exp(clip(log_expected - log_factor, None, 700.0))
    return (sample.target.kernel * without * xp.expm1(log_factor) / sample.target.n_pairs).sum()


# ---------------------------------------------------------------- pairing matrices and scores


@dataclass(frozen=True)
class PairingMatrices:
    """The matrices over pairs of samples that every feature's function is paired with (eq. 3 and 6).

    Off the diagonal `Q = U(Q) + ρ_p + ρ_q` and `L∘U(Q) = interaction + a_p + a_q` (eq. 4), so that `L∘Q` is the
    interaction matrix and a matrix of low rank.

    Attributes
    ----------
    target
        The target of the sample.
    interaction, interaction_norm
        `U(L∘U(Q))`, and its norm: zero where it is only rounding.
    rho, offsets
        `ρ` and `a`.
    """

    target: Target
    interaction: Any
    interaction_norm: float
    rho: Any
    offsets: Any

    @classmethod
    def from_log_expected(cls, sample: Sample, log_expected: Any) -> tuple["PairingMatrices", float]:
        """Return the matrices of `Q / max Q`, and `log max Q`.

        Overwrites `log_expected`, with `log Q` less its maximum where features are fixed.
        """
        set_diagonal(log_expected, -np.inf)
        peak = log_expected.max()
        log_expected -= peak
        target, xp = sample.target, namespace(log_expected)
        # Q - 1 is centred instead of Q: the result is the same, and a kernel close to one keeps its digits.
        # The contributions of fixed features are computed from log Q later.
        expected = xp.expm1(log_expected, out=None if sample.fixed.any() else log_expected)
        u_centred, rho = u_centre_with_offsets(expected, overwrite=True)
        largest_rho = abs(rho).max()
        u_centred *= target.matrices(log_expected.dtype)[0]
        interaction, offsets = u_centre_with_offsets(u_centred, overwrite=True)
        scale, largest_rho, square = to_floats(peak, largest_rho, dot(interaction, interaction))
        # The product with a constant kernel leaves only rounding.
        rounding = 2e-5 * largest_rho if interaction.dtype == xp.float32 else 1e-12
        length = square**0.5 if square**0.5 > rounding * target.u_centred_norm else 0.0
        return cls(target, interaction, length, to_double(rho) + 0.5, to_double(offsets)), scale

    @cached_property
    def total(self) -> Any:
        """`L∘Q`, with a zero diagonal."""
        xp, Y = namespace(self.rho), self.target.Y
        ones, tilted = xp.ones_like(self.rho)[:, None], self.rho[:, None] * Y
        left = xp.concat([self.offsets[:, None], ones, tilted, Y], axis=1)
        right = xp.concat([ones, self.offsets[:, None], Y, tilted], axis=1)
        total = astype(left, self.interaction.dtype) @ astype(right, self.interaction.dtype).T
        total += self.interaction
        set_diagonal(total, 0.0)
        return total

    @cached_property
    def total_rows(self) -> Any:
        """Row sums of `L∘Q`, without computing it."""
        Y = self.target.Y
        by_target = self.rho * self.target.row_sums_less_diagonals + Y @ (Y.T @ self.rho)
        return (len(self.rho) - 2) * self.offsets + self.offsets.sum() + by_target

    def null_mean(self, feature_norm: Any, mean_contrast: Any) -> Any:
        """Return the mean of `⟨A, T_i⟩` under the null, which is not zero because Q contains feature i (eq. 8')."""
        m = len(self.rho)
        return feature_norm**2 / (1 + mean_contrast) * (self.total_rows.sum() / (2 * m * (m - 3)))


def standard_score(form: Any, matrix_norm: float, feature_norm: Any, m: int) -> Any:
    """Divide `⟨A, B⟩` by `‖A‖ ‖B‖` and by its standard deviation under the null (eq. 8); 0 where nothing varies."""
    return safe_ratio(null_scale(m) * form, matrix_norm * feature_norm)


def _skewness(A: Any) -> float:
    """Return the skewness of `⟨A, B^π⟩` under permutation for B of rank one, the largest there is (eq. 8'')."""
    length = frobenius_norm(A)
    # A is symmetric, and a product with its own transpose is half the work.
    return float(np.sqrt(8.0) * inner_product(A @ A.T, A) / length**3) if length > 0 else 0.0


def _skewness_of_target(target: Target) -> float:
    """`_skewness` of U(L), from the factor of L where that is narrow and U(L) is not a small difference."""
    if target.lopsided or 4 * target.Y.shape[1] > len(target.Y):
        return _skewness(target.u_centred)
    return float(np.sqrt(8.0)) * target.u_centred_cube / target.u_centred_norm**3
