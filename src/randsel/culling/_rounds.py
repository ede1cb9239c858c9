"""Rounds of culling (Algorithm 1): estimate contributions and drop the lowest scores, until few features remain.

`CRITERIA` lists the rules by which a round can rank features.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from randsel._numerics.arrays import (
    as_array_like,
    as_index,
    astype,
    clip,
    complement,
    median,
    namespace,
    on_host,
    stable_argsort,
    to_numpy,
    without_gradients,
)
from randsel._numerics.columns import map_blocks
from randsel._numerics.kernels import bandwidth, null_scale, unbiased_alignment
from randsel._utils.typing import Array
from randsel.contribution import (
    Contribution,
    Draws,
    PairSums,
    Sample,
    Weighting,
    map_row_blocks,
    row_blocks,
)
from randsel.culling._path import DROP, MIN_FEATURES, WIDTH, Chance, CullingPath, RecordedRounds, Round, number_to_drop

#: The median absolute deviation of normal values, times this, is their standard deviation.
NORMAL_MAD = 1.4826
#: Function of sample, bandwidth, draws and weighting of the target that returns the contributions of all features.
Estimator = Callable[[Sample, float, Draws, Weighting], Contribution]


# ---------------------------------------------------------------- criteria


@dataclass(frozen=True)
class Criterion:
    """A culling rule: the target that contributions refer to, and how contributions become scores.

    Attributes
    ----------
    scores
        Function of the contributions that returns (scores, tie breakers), one of each per feature; larger is better.
    residual
        Whether contributions are to the residual of a ridge regression on the features left, not to the target itself.
    needs_exact
        Whether only the exact estimator computes what `scores` reads.
    """

    scores: Callable[[Contribution], tuple[Any, Any]]
    residual: bool = False
    needs_exact: bool = False


def total_scores(contributions: Contribution) -> tuple[Any, Any]:
    """Return the paper's contribution, up to a factor that all features share."""
    return contributions.relative, contributions.relative


def calibrated_scores(contributions: Contribution) -> tuple[Any, Any]:
    """Return the sum of the positive parts of the main and the interaction score; the plain sum breaks ties."""
    main, interaction = contributions.main, contributions.interaction
    return clip(main, 0.0, None) + clip(interaction, 0.0, None), main + interaction


def combined_scores(contributions: Contribution) -> tuple[Any, Any]:
    """Return the contribution plus the interaction score, both on the scale of their spread among the features left.

    If there is no residual, because all features together do not predict the target, the scores are the calibrated
    ones. On correlated features the interaction score has neither mean zero nor variance one under the null. Only what
    exceeds the median counts, in units of the spread, which is at least that of independent features.
    """
    total, interaction = contributions.relative, contributions.interaction
    if contributions.ridge == np.inf:
        return calibrated_scores(contributions)
    centre, spread = _centre_and_spread(interaction)
    excess = clip(interaction - clip(centre, 0.0), 0.0) / clip(spread, 1.0)
    centre, spread = _centre_and_spread(total)
    # If all features contribute equally, there is no spread.
    return (total - centre) / namespace(total).where(spread > 0.0, spread, 1.0) + excess, total


def _centre_and_spread(values: Any) -> tuple[Any, Any]:
    """Return the median, and the standard deviation estimated by the median absolute deviation.

    The estimate is close to zero if most values are nearly equal, as may happen with few features. The result is
    therefore at least a tenth of the standard deviation.
    """
    xp, centre = namespace(values), median(values)
    deviation = NORMAL_MAD * median(xp.abs(values - centre))
    return centre, xp.maximum(deviation, 0.1 * xp.std(values))


#: Values of `RandSel(criterion=...)`.
CRITERIA = {
    "combined": Criterion(combined_scores, residual=True, needs_exact=True),
    "residual": Criterion(total_scores, residual=True, needs_exact=True),
    "total": Criterion(total_scores),
    "calibrated": Criterion(calibrated_scores, needs_exact=True),
}


# ---------------------------------------------------------------- state and rules


@dataclass(frozen=True)
class Rules:
    """Parameters of `RandSel` that govern the rounds, and `explain_fixed` of `Weighting`.

    With `ridge=None`, the first round decides for all rounds whether there is a residual. The features of later rounds
    were chosen on the same samples, so regressions on them predict these too well.
    """

    drop: float = DROP
    min_features: int = MIN_FEATURES
    fix_top: float | None = None
    fix_after: int | None = None
    gamma: float | str = "median"
    ridge: float | None = None
    explain_fixed: bool = False


@dataclass(frozen=True)
class CullingState:
    """State from which the next round starts.

    Attributes
    ----------
    sample
        The features left and the target, with sums over the features.
    columns
        Index of each feature left among the features of the first round.
    chance
        Alignments that noise reaches.
    fourth_moments
        Fourth moment of every feature of the first round, divided by its squared mean square; 3 for normal scores.
    streak
        For each feature left, the number of consecutive rounds that it has been among the top.
    rounds
        The rounds so far.
    fixed_scores
        Index of every fixed feature -> its score in the round that fixed it; infinite if it is always kept.
    """

    sample: Sample
    columns: Any
    chance: Chance
    fourth_moments: Array
    streak: Array
    rounds: tuple[Round, ...] = ()
    fixed_scores: dict[int, float] = field(default_factory=dict)

    @classmethod
    def start(cls, sample: Sample, draws: Draws, always_kept: Sequence[int] = ()) -> "CullingState":
        """Return the state before the first round; `always_kept` are the fixed features, in the order of the path."""
        n_features = sample.X.shape[1]
        blocks = row_blocks(sample.target, draws)
        null_sd = float(np.sqrt(sum(null_scale(len(rows)) ** -2 for rows in blocks))) / len(blocks)
        chance = Chance.from_target(to_numpy(sample.target.Y), n_features, null_sd, len(blocks))
        columns = as_index(np.arange(n_features), sample.target.Y)
        streak, infinite = np.zeros(n_features, dtype=int), dict.fromkeys(always_kept, np.inf)
        return cls(sample, columns, chance, fourth_moments(sample), streak, fixed_scores=infinite)

    def drop(self, dropped: Any, surviving: Any, newly_fixed: Array, sums: PairSums | None) -> "CullingState":
        """Return the state without the dropped features; `sums` are the pair sums of this round, if it had any."""
        fixed = np.zeros(len(surviving), dtype=bool)
        if len(newly_fixed) or self.sample.fixed.any():
            is_new = np.isin(np.arange(len(self.columns)), newly_fixed)
            fixed = (self.sample.fixed | is_new)[to_numpy(surviving)]
        sample = self.sample.drop_features(surviving, namespace(dropped).sort(dropped), fixed, sums)
        # Without fixing, all streaks are zero, and `surviving` stays on the device.
        streak = self.streak[to_numpy(surviving)] if self.streak.any() else self.streak[: len(surviving)]
        return replace(self, sample=sample, columns=self.columns[surviving], streak=streak)


@dataclass(frozen=True)
class FinishedRound:
    """Argument of the observers, which culling calls after every round.

    Attributes
    ----------
    round
        The round.
    path
        Function that builds the path as if this round were the last.
    next_state
        State from which the next round starts; None after the last round.
    """

    round: Round
    path: Callable[[], CullingPath]
    next_state: CullingState | None


#: Function that is called after every round, and returns True to end culling with it.
Observer = Callable[[FinishedRound], bool | None]


# ---------------------------------------------------------------- rounds


def cull(
    state: CullingState,
    criterion: Criterion,
    estimator: Estimator,
    rules: Rules,
    draws: Draws,
    observers: Sequence[Observer] = (),
) -> CullingPath:
    """Cull until `min_features` are left, all features left are fixed, or an observer asks to stop; return the path."""
    with without_gradients(state.sample.target.Y):
        while True:
            sample, round_draws = state.sample, replace(draws, seed=draws.seed + len(state.rounds))
            gamma, alignment = _bandwidth_and_alignment(sample, rules.gamma, round_draws)
            ridge = state.rounds[0].ridge if state.rounds else rules.ridge  # the first round decides
            weighting = Weighting(ridge, criterion.residual, rules.explain_fixed)
            contributions = estimator(sample, gamma, round_draws, weighting)
            scores, ties = criterion.scores(contributions)
            if on_host(scores):  # scores of few features are on the host, even if X is on a device
                state = replace(state, columns=to_numpy(state.columns))
            ascending = _argsort_scores(scores, ties, sample)
            dropped = _positions_to_drop(ascending, sample.fixed, rules)
            surviving = complement(dropped, len(ascending))
            streak, newly_fixed = _find_newly_fixed(state.streak, ascending, sample.fixed, surviving, rules)
            finished = _record_round(state, contributions, scores, dropped, newly_fixed, gamma, alignment)
            state = replace(
                state,
                rounds=(*state.rounds, finished),
                streak=streak,
                fixed_scores=state.fixed_scores | _scores_of(scores, newly_fixed, finished.fixed),
            )
            path = partial(_build_path, state.rounds, ascending, state.fixed_scores, state.chance.null_sd)
            sums = contributions.sums
            if sums is None and sample.has_sums and len(row_blocks(sample.target, round_draws)) == 1:
                sums = sample.sums  # computed for the distances
            next_state = state.drop(dropped, surviving, newly_fixed, sums) if len(dropped) else None
            del contributions, sums  # release the matrices over pairs before the next round
            wants_stop = [observe(FinishedRound(finished, path, next_state)) for observe in observers]
            if any(wants_stop) or next_state is None:
                return path()
            state = next_state


def _record_round(
    state: CullingState,
    contributions: Contribution,
    scores: Any,
    dropped: Any,
    newly_fixed: Array,
    gamma: float,
    alignment: float,
) -> Round:
    """Return the round; `dropped` and `newly_fixed` are positions among the features of the round."""

    def stored(values: Any) -> Any:
        # On a device in the precision of the features, to save memory.
        if values is None:
            return np.full(len(state.columns), np.nan)
        return values if on_host(values) else astype(values, state.sample.X.dtype)

    return Round(
        features=state.columns,
        contributions=stored(contributions.total),
        main=stored(contributions.main),
        interaction=stored(contributions.interaction),
        scores=stored(scores),
        dropped=state.columns[dropped],
        fixed=to_numpy(state.columns)[newly_fixed] if len(newly_fixed) else newly_fixed,
        gamma=gamma,
        alignment=alignment,
        ridge=contributions.ridge,
        fourth_moment=float(state.fourth_moments[to_numpy(state.columns)].mean()),
        size=len(state.columns),
        errors=np.zeros(0) if contributions.errors is None else contributions.errors,
        by_chance=state.chance,
    )


def _scores_of(scores: Any, positions: Array, columns: Array) -> dict[int, float]:
    """Return column -> score of the features at some positions."""
    if not len(positions):
        return {}
    return dict(zip(columns.tolist(), to_numpy(scores)[positions].tolist(), strict=True))


def _build_path(
    rounds: tuple[Round, ...], ascending: Any, fixed_scores: dict[int, float], null_sd: float
) -> CullingPath:
    """Return the path that ends with these rounds; `ascending` sorts the features of the last one, worst first."""
    last = rounds[-1]
    rounds = (*rounds[:-1], replace(last, dropped=last.dropped[:0]))
    fixed = sorted(fixed_scores, key=lambda column: -fixed_scores[column])
    best_first = to_numpy(last.features[ascending])[::-1].tolist()
    survivors = np.array([*fixed, *(column for column in best_first if column not in fixed_scores)], dtype=int)
    culled = np.concatenate([to_numpy(r.dropped) for r in rounds])[::-1]
    return CullingPath(RecordedRounds(rounds), np.concatenate([survivors, culled]), null_sd)


def _argsort_scores(scores: Any, ties: Any, sample: Sample) -> Any:
    """Return the positions of the features by ascending score, ties by `ties`, then by position.

    Scores are rounded to the digits that the precision holds, so that equal features tie however sums were rounded.
    """
    xp, digits = namespace(scores), sample.precision.score_digits
    both = xp.stack([scores, ties])
    largest = clip(xp.max(xp.abs(both), axis=1, keepdims=True), 1e-300, 1e300)
    rounded = xp.round(both / largest * digits)
    return stable_argsort(rounded[0], rounded[1], digits)


def _positions_to_drop(ascending: Any, fixed: Array, rules: Rules) -> Any:
    """Return the positions of the features to drop, worst first: `number_to_drop` of them, none of them fixed."""
    candidates = ascending
    if fixed.any():
        positions = to_numpy(ascending)
        candidates = as_index(positions[~fixed[positions]], ascending)
    return candidates[: number_to_drop(len(ascending), rules.drop, rules.min_features)]


def _find_newly_fixed(streak: Array, ascending: Any, fixed: Array, surviving: Any, rules: Rules) -> tuple[Array, Array]:
    """Return the updated streaks, and the positions of surviving features whose streak has reached `fix_after`."""
    if rules.fix_top is None or rules.fix_after is None:
        return streak, np.array([], dtype=int)
    n_top = max(1, int(np.floor(rules.fix_top * len(ascending))))
    top = np.zeros(len(fixed), dtype=bool)
    top[to_numpy(ascending)[len(ascending) - n_top :]] = True
    streak = np.where(top, streak + 1, 0)
    positions = to_numpy(surviving)
    return streak, positions[(streak[positions] >= rules.fix_after) & ~fixed[positions]]


def _bandwidth_and_alignment(sample: Sample, gamma: float | str, draws: Draws) -> tuple[float, float]:
    """Return the bandwidth, with row blocks that of the first, and the mean alignment of all row blocks."""
    blocks = row_blocks(sample.target, draws)
    if len(blocks) == 1:
        value = _bandwidth(sample, gamma)
        if not sample.resolves(value):
            sample = sample.in_double()
            value = _bandwidth(sample, gamma)
        return value, _alignment(sample, value)
    gamma = _bandwidth(sample.take_rows(blocks[0]), gamma)
    values = map_row_blocks(sample, blocks, _alignment, gamma, draws)
    return gamma, float(np.mean(values))


def _bandwidth(sample: Sample, gamma: float | str) -> float:
    return bandwidth(gamma, sample.distances, sample.target.weights) if isinstance(gamma, str) else float(gamma)


def _alignment(sample: Sample, gamma: float) -> float:
    if sample.target.u_centred_norm == 0.0:  # U(L) is only rounding
        return 0.0
    # Only the target is weighted: weighting both kernels would align the weights with themselves.
    kernel = sample.log_kernel(gamma)
    namespace(kernel).exp(kernel, out=kernel)
    return unbiased_alignment(
        kernel, sample.target.matrices(sample.precision.pair_dtype)[1], sample.target.u_centred_norm
    )


def fourth_moments(sample: Sample) -> Array:
    """Return the weighted mean of the fourth powers of every feature, divided by its squared mean square."""
    weights = as_array_like(np.ones(sample.X.shape[0]), sample.target.Y)
    if sample.target.weights is not None:
        weights = sample.target.weights
    return np.concatenate(list(map_blocks(sample.columns_in_product_dtype, WIDTH, _fourth_moments_of_block, weights)))


def _fourth_moments_of_block(block: Any, weights: Any) -> Array:
    weights = astype(weights, block.dtype)
    squares = block * block
    total = weights.sum()
    mean_squares = clip(weights @ squares / total, 1e-30, None)
    return to_numpy(weights @ (squares * squares) / total / (mean_squares * mean_squares))
