"""Rounds of culling: estimate, drop the bottom, perhaps fix the top, until few features remain (Algorithm 1)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from randsel._numerics.arrays import (
    as_index,
    astype,
    clip,
    complement,
    device_of,
    is_single,
    namespace,
    on_host,
    stable_argsort,
    to_numpy,
)
from randsel._numerics.kernels import bandwidth, null_scale, unbiased_alignment
from randsel._utils.result_folder import Stages
from randsel._utils.typing import Array
from randsel.contribution._bootstrap import Draws, on_rows, row_blocks
from randsel.contribution._closed_form import Contribution
from randsel.contribution._sample import Sample
from randsel.culling._criteria import Criterion
from randsel.culling._path import Chance, CullingPath, Round, _number_to_drop
from randsel.culling._state import State

Estimator = Callable[[Sample, float, Draws], Contribution]
#: Gets each round when it is finished, and a function that returns the path as if it ended there; true: it does.
OnRound = Callable[["Round", Callable[[], "CullingPath"]], bool]


@dataclass(frozen=True)
class Rules:
    """How rounds cull and fix; the parameters of the same names of `RandSel`."""

    drop: float = 0.25
    min_features: int = 2
    fix_top: float | None = None
    fix_after: int | None = None
    gamma: float | str = "median"


def cull(
    sample: Sample,
    criterion: Criterion,
    estimator: Estimator,
    rules: Rules,
    draws: Draws,
    on_round: OnRound | None = None,
    stages: Stages | None = None,
) -> CullingPath:
    """Cull until `min_features` are left, until every feature left is fixed, or until `on_round` is true.

    With `stages`, resume after the last saved round; `on_round` gets the rounds that are computed.
    """
    blocks = row_blocks(sample.target, draws)
    null_sd = float(np.sqrt(sum(null_scale(len(rows)) ** -2 for rows in blocks))) / len(blocks)
    by_chance = Chance.of(to_numpy(sample.target.Y), sample.X.shape[1], null_sd, len(blocks))
    stored = None if stages is None else stages.load_latest()
    if stored is None:
        state = State(sample, (), None, np.zeros(sample.X.shape[1], dtype=int), {}, None)
    else:
        state = State.of_arrays(stored, sample, by_chance)
    sample, columns, streak, skewness = state.sample, state.columns, state.streak, state.skewness
    rounds, key_when_fixed = list(state.rounds), state.key_when_fixed
    while True:
        round_draws = replace(draws, seed=draws.seed + len(rounds))
        gamma, alignment = _bandwidth_and_alignment(sample, rules.gamma, round_draws)
        estimate = estimator(criterion.weigh_target(sample, gamma), gamma, round_draws)
        keys, ties = criterion.scores(estimate)
        # rounded to what the precision holds, so that equal features tie whatever the order of a sum was
        digits = 1e4 if is_single(sample.inside) else 1e9
        keys_and_ties = _rounded(keys, ties, digits)
        upwards = stable_argsort(keys_and_ties[0], keys_and_ties[1], digits)
        if columns is None:
            columns = namespace(upwards).arange(len(upwards), device=device_of(upwards))
        dropped = _bottom(upwards, sample.fixed, rules)
        kept = complement(dropped, len(upwards))
        streak, newly_fixed = _fix(streak, upwards, sample.fixed, kept, rules)
        rounds.append(
            Round(
                features=columns,
                contributions=_kept(estimate.total, sample),
                main=_kept(estimate.main, sample),
                interaction=_kept(estimate.interaction, sample),
                scores=_kept(keys, sample),
                dropped=columns[dropped],
                fixed=to_numpy(columns)[newly_fixed] if len(newly_fixed) else newly_fixed,
                gamma=gamma,
                alignment=alignment,
                size=len(columns),
                by_chance=by_chance,
            )
        )
        if len(rounds) == 1 and estimate.skewness is not None:
            main, interaction = (of_scores() for of_scores in estimate.skewness)
            skewness = main, interaction
        if len(newly_fixed):
            scores = to_numpy(keys)[newly_fixed]
            key_when_fixed.update(zip(rounds[-1].fixed.tolist(), scores.tolist(), strict=True))
        so_far = partial(_path, tuple(rounds), upwards, dict(key_when_fixed), null_sd, skewness)
        stop = on_round is not None and on_round(rounds[-1], so_far)
        if stop or not len(dropped):
            return so_far()
        fixed = np.zeros(len(kept), dtype=bool)
        if len(newly_fixed) or sample.fixed.any():
            fixed = (sample.fixed | np.isin(np.arange(len(upwards)), newly_fixed))[to_numpy(kept)]
        sample = sample.keep(kept, namespace(dropped).sort(dropped), fixed)
        columns = columns[kept]
        streak = streak if rules.fix_after is None else streak[to_numpy(kept)]
        state = State(sample, tuple(rounds), columns, streak, dict(key_when_fixed), skewness)
        if stages is not None:
            stages.save(len(rounds), state.to_arrays)


def _path(
    rounds: tuple[Round, ...],
    upwards: Any,
    key_when_fixed: dict[int, float],
    null_sd: float,
    skewness: tuple[float, float] | None,
) -> CullingPath:
    """Return the path that ends with these rounds; `upwards` has the places of the last one's features, worst first."""
    last = rounds[-1]
    rounds = (*rounds[:-1], replace(last, dropped=last.dropped[:0]))
    kept_for_good = sorted(key_when_fixed, key=lambda column: -key_when_fixed[column])
    left = to_numpy(last.features[upwards])[::-1].tolist()
    survivors = np.array([*kept_for_good, *(column for column in left if column not in key_when_fixed)], dtype=int)
    culled = to_numpy(namespace(last.features).concat([r.dropped for r in rounds]))[::-1]
    return CullingPath(rounds, np.concatenate([survivors, culled]), null_sd, skewness)


def _kept(values: Any, sample: Sample) -> Any:
    """Values of a round as they are kept; in the precision of the features where memory is dear, on a device."""
    if values is None:
        return np.full(sample.X.shape[1], np.nan)
    return values if on_host(values) else astype(values, sample.X.dtype)


def _rounded(keys: Any, ties: Any, digits: float) -> Any:
    """Return both as whole numbers, the largest of each of size `digits`."""
    xp = namespace(keys)
    both = xp.stack([keys, ties])
    largest = clip(xp.max(xp.abs(both), axis=1, keepdims=True), 1e-300, 1e300)
    return xp.round(both / largest * digits)


def _bottom(upwards: Any, fixed: Array, rules: Rules) -> Any:
    """Places to drop, worst first: ⌊drop·n⌋ but at least one, no fixed feature, never below `min_features`."""
    free = upwards
    if fixed.any():
        placed = to_numpy(upwards)
        free = as_index(placed[~fixed[placed]], upwards)
    return free[: _number_to_drop(len(upwards), rules.drop, rules.min_features)]


def _fix(streak: Array, upwards: Any, fixed: Array, kept: Any, rules: Rules) -> tuple[Array, Array]:
    """Count rounds in a row among the top, and tell the places of free features that now were there long enough."""
    if rules.fix_top is None or rules.fix_after is None:
        return streak, np.array([], dtype=int)
    top = np.zeros(len(fixed), dtype=bool)
    top[to_numpy(upwards)[len(upwards) - max(1, int(np.floor(rules.fix_top * len(upwards)))) :]] = True
    streak = np.where(top, streak + 1, 0)
    places = to_numpy(kept)
    return streak, places[(streak[places] >= rules.fix_after) & ~fixed[places]]


def _bandwidth_and_alignment(sample: Sample, gamma: float | str, draws: Draws) -> tuple[float, float]:
    blocks = row_blocks(sample.target, draws)
    if len(blocks) == 1:
        found = _bandwidth(sample, gamma)
        if not sample.resolves(found):
            sample = sample.in_double()
            found = _bandwidth(sample, gamma)
        return found, _alignment(sample, found)
    gamma = _bandwidth(sample.rows(blocks[0]), gamma)
    values = on_rows(sample, blocks, _alignment, gamma, draws)
    return gamma, float(np.mean(values))


def _bandwidth(sample: Sample, gamma: float | str) -> float:
    return bandwidth(gamma, sample.distances, sample.target.weights) if isinstance(gamma, str) else float(gamma)


def _alignment(sample: Sample, gamma: float) -> float:
    if sample.target.hollow_norm == 0.0:  # what is left of it is rounding
        return 0.0
    # weights are in the target alone: weighting both sides would align the weights with themselves
    kernel = sample.distances * -gamma
    namespace(kernel).exp(kernel, out=kernel)
    return unbiased_alignment(kernel, sample.target.matrices(sample.pairs)[1], sample.target.hollow_norm)
