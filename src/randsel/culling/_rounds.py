"""Rounds of culling: estimate, drop the bottom, perhaps fix the top, until few features remain (Algorithm 1)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from randsel._numerics.alignment import Chance, null_scale, unbiased_alignment
from randsel._numerics.arrays import (
    Array,
    ascending,
    astype,
    clipped,
    device_of,
    index_of,
    namespace,
    on_host,
    others,
    single,
    to_numpy,
)
from randsel._numerics.checkpoint import Stages
from randsel._numerics.kernels import bandwidth
from randsel._numerics.null_tails import log_tail_of_score
from randsel._utils.optional import optional
from randsel.contribution._bootstrap import Draws, on_rows, row_blocks
from randsel.contribution._closed_form import Contribution
from randsel.contribution._sample import Sample
from randsel.culling import _sample_state as sample_state

#: Arrays of a round, and the one of them that is as long.
PER_ROUND = {
    "features": "features",
    "contributions": "features",
    "main": "features",
    "interaction": "features",
    "scores": "features",
    "dropped": "dropped",
    "fixed": "fixed",
}

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
    score: str = "calibrated"
    gamma: float | str = "median"


@dataclass(frozen=True)
class Round:
    """One round of culling.

    Attributes
    ----------
    features
        Columns of X that were alive, ascending.
    contributions
        The paper's contribution of each of them.
    main, interaction
        Standard scores of the two parts of the contribution (NaN from the bootstrap).
    scores
        What the round culled by.
    dropped
        Columns culled in this round, worst first.
    fixed
        Columns fixed at the end of this round.
    gamma, alignment
        Bandwidth of the round, and unbiased alignment of the kernel on all features alive.
    size, by_chance
        Number of columns of the kernel, and what noise reaches with as many.

    While features fall on a device, its arrays stay there; those of `CullingPath.rounds` are numpy's.

    Examples
    --------
    >>> from randsel import RandSel, datasets
    >>> X, y, relevant = datasets.make_xor(200, 20, random_state=0)
    >>> first = RandSel().fit(X, y).path_.rounds[0]
    >>> len(first.features), len(first.dropped), first.interaction[:2] > 10
    (20, 5, array([ True,  True]))
    """

    features: Array
    contributions: Array
    main: Array
    interaction: Array
    scores: Array
    dropped: Array
    fixed: Array
    gamma: float
    alignment: float
    size: int
    by_chance: Chance

    @property
    def chance(self) -> float:
        """Alignment that culling independent noise to as many features would reach."""
        return float(self.by_chance.alignments[self.size - 1])

    def hosted(self) -> "Round":
        """Return the round with numpy arrays."""
        names = "features", "contributions", "main", "interaction", "scores", "dropped", "fixed"
        values = {name: getattr(self, name) for name in names}
        if all(map(on_host, values.values())):
            return self
        hosted: dict[str, Any] = {name: to_numpy(value) for name, value in values.items()}
        return replace(self, **hosted)

    def relabel(self, columns: Array) -> "Round":
        """Return the round with feature `i` called `columns[i]`."""
        names = columns[self.features]
        ascending = np.argsort(names, kind="stable")
        values = {name: getattr(self, name)[ascending] for name in ("contributions", "main", "interaction", "scores")}
        dropped, fixed = columns[self.dropped], np.sort(columns[self.fixed])
        return replace(self, features=names[ascending], dropped=dropped, fixed=fixed, **values)


@dataclass(frozen=True)
class CullingPath:
    """The rounds, first to last; the last one drops nothing.

    Examples
    --------
    >>> from randsel import RandSel, datasets
    >>> X, y, relevant = datasets.make_xor(200, 20, random_state=0)
    >>> path = RandSel().fit(X, y).path_
    >>> [len(r.features) for r in path.rounds][:4], path.rounds[path.best].features, path.stands_out
    ([20, 15, 12, 9], array([0, 1]), True)
    """

    computed: tuple[Round, ...]
    """The rounds where they were computed; `rounds` has the names that the caller gave to the features."""
    own_order: Array
    null_sd: float
    """Standard deviation of a round's alignment when the target is unrelated to the features."""
    skewness: tuple[float, float] | None = None
    """Of the main and the interaction scores of the first round under the null."""
    columns: Array | None = None
    """Name of every feature; None: features are called by their place."""

    @property
    def own_rounds(self) -> tuple[Round, ...]:
        """The rounds, their features called by their place; brought from the device when they are first looked at."""
        self.__dict__["computed"] = tuple(r.hosted() for r in self.computed)
        return self.computed

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "computed": self.own_rounds}

    @cached_property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds."""
        if self.columns is None:
            return self.own_rounds
        return tuple(r.relabel(self.columns) for r in self.own_rounds)

    @property
    def order(self) -> Array:
        """All features that entered, best first: fixed ones, other survivors by score, the dropped, last first."""
        order: Array = self.own_order if self.columns is None else self.columns[self.own_order]
        return order

    @cached_property
    def pvalues(self) -> tuple[Array, Array] | None:
        """P-values of the main and the interaction scores of the first round, whose features nothing has selected."""
        if self.skewness is None:
            return None
        first, (main, interaction) = self.rounds[0], self.skewness
        return (
            np.exp(log_tail_of_score(first.main, main)),
            np.exp(log_tail_of_score(first.interaction, interaction)),
        )

    @property
    def best(self) -> int:
        """Index of the round whose features align best with the target; the later one, with fewer, on ties."""
        alignments = np.array([r.alignment for r in self.computed])
        return int(np.flatnonzero(alignments == alignments.max())[-1])

    @property
    def stands_out(self) -> bool:
        """Whether the best round aligns better than culled noise would, or all features together better than chance.

        Better by three standard deviations of an unrelated target. The second comparison is free of selection.
        """
        best, first = self.computed[self.best], self.computed[0]
        return max(best.alignment - best.chance, first.alignment) > 3.0 * self.null_sd

    @property
    def fixed(self) -> Array:
        """Columns that were fixed, ascending."""
        fixed = np.concatenate([r.fixed for r in self.computed])
        return np.sort(fixed if self.columns is None else self.columns[fixed])

    def last_values(self, name: str, n_features: int) -> Array:
        """Per column, the value of a field of `Round` at the last round in which the column lived (0 if in none)."""
        entered = self.own_rounds[0].features
        last = np.zeros(int(entered.max()) + 1)
        for r in self.own_rounds:
            last[r.features] = getattr(r, name)
        values = np.zeros(n_features)
        values[entered if self.columns is None else self.columns[entered]] = last[entered]
        return values

    def relabel(self, columns: Array) -> "CullingPath":
        """Return the path with feature `i` called `columns[i]`."""
        return replace(self, columns=columns)

    def of_owners(self, owner: Array, min_features: int) -> "CullingPath":
        """Return the path of features from a path of their functions, `owner[i]` being the feature of function `i`.

        A feature is as good as the best of its functions, and falls with the last of them. Its p-values are the least
        of its functions', times their number.
        """
        rounds: list[Round] = []
        for r, left in zip(self.rounds, [*(later.features for later in self.rounds[1:]), None], strict=True):
            names = np.unique(owner[r.features])
            last = left is None or len(np.unique(owner[left])) < min(min_features, len(names))
            gone = np.array([], dtype=int) if last else np.setdiff1d(names, owner[left])
            if last or len(gone):
                rounds.append(_of_owners(r, owner, names, gone, rounds))
            if last:
                break
        order = owner[self.order]
        first = np.sort(np.unique(order, return_index=True)[1])
        path = CullingPath(tuple(rounds), order[first], self.null_sd, self.skewness)
        if self.pvalues is not None:
            owners = owner[self.rounds[0].features]
            path.__dict__["pvalues"] = tuple(_least(p, owners) for p in self.pvalues)
        return path

    def to_arrays(self) -> dict[str, Any]:
        """Return the path as arrays to keep in a file, the rounds one behind the other."""
        chance = self.rounds[0].by_chance
        return {
            **_stacked(self.rounds),
            "spectrum": chance.spectrum,
            "chance": [chance.n, chance.null_sd, chance.n_blocks],
            "order": self.order,
            "null_sd": self.null_sd,
            "skewness": [] if self.skewness is None else self.skewness,
        }

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Array]) -> "CullingPath":
        """Return the path that `to_arrays` took apart."""
        n, null_sd, n_blocks = arrays["chance"].tolist()
        chance = Chance(arrays["spectrum"], int(n), null_sd, int(n_blocks))
        return cls(_unstacked(arrays, chance), arrays["order"], float(arrays["null_sd"]), _skewness(arrays))

    def to_frame(self) -> Any:
        """One row per round and feature as a pandas data frame."""
        pandas = optional("pandas", extra="pandas", purpose="CullingPath.to_frame")
        parts = [
            pandas.DataFrame(
                {
                    "round": number,
                    "feature": r.features,
                    "contribution": r.contributions,
                    "main": r.main,
                    "interaction": r.interaction,
                    "score": r.scores,
                    "dropped": np.isin(r.features, r.dropped),
                    "fixed": np.isin(r.features, r.fixed),
                    "gamma": r.gamma,
                    "alignment": r.alignment,
                }
            )
            for number, r in enumerate(self.rounds)
        ]
        return pandas.concat(parts, ignore_index=True)


def _stacked(rounds: tuple[Round, ...]) -> dict[str, Any]:
    """Return rounds as arrays, one behind the other."""
    return {
        **{name: np.concatenate([getattr(r, name) for r in rounds]) for name in PER_ROUND},
        **{f"n_{name}": [len(getattr(r, name)) for r in rounds] for name in ("features", "dropped", "fixed")},
        **{name: [getattr(r, name) for r in rounds] for name in ("gamma", "alignment", "size")},
    }


def _unstacked(arrays: Mapping[str, Array], chance: Chance) -> tuple[Round, ...]:
    """Return the rounds that `_stacked` took apart."""
    pieces = {
        name: np.split(arrays[name], np.cumsum(arrays[f"n_{of}"])[:-1].astype(int)) for name, of in PER_ROUND.items()
    }
    return tuple(
        Round(
            **{name: pieces[name][at] for name in PER_ROUND},
            gamma=float(arrays["gamma"][at]),
            alignment=float(arrays["alignment"][at]),
            size=int(arrays["size"][at]),
            by_chance=chance,
        )
        for at in range(len(arrays["gamma"]))
    )


def _skewness(arrays: Mapping[str, Array]) -> tuple[float, float] | None:
    main_and_interaction = arrays["skewness"].tolist()
    return (main_and_interaction[0], main_and_interaction[1]) if main_and_interaction else None


@dataclass(frozen=True)
class State:
    """All that the next round starts from.

    Attributes
    ----------
    sample
        What is left, and its sums.
    rounds
        Those before.
    columns
        Places of the features left among all.
    streak
        Rounds in a row that each of them was among the top.
    key_when_fixed
        Scores of those that are fixed.
    skewness
        Of the first round, as in `CullingPath`.
    """

    sample: Sample
    rounds: tuple[Round, ...]
    columns: Any
    streak: Array
    key_when_fixed: dict[int, float]
    skewness: tuple[float, float] | None

    def to_arrays(self) -> dict[str, Any]:
        """Return the state as arrays to keep in a file."""
        return {
            **sample_state.to_arrays(self.sample),
            **_stacked(tuple(r.hosted() for r in self.rounds)),
            "columns": to_numpy(self.columns),
            "streak": self.streak,
            "fixed_columns": np.array(list(self.key_when_fixed), dtype=int),
            "fixed_keys": np.array(list(self.key_when_fixed.values())),
            "skewness": [] if self.skewness is None else self.skewness,
        }

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Array], whole: Sample, chance: Chance) -> "State":
        """Return the state that `to_arrays` took apart, from the sample that culling began with."""
        columns = index_of(arrays["columns"], whole.target.Y)
        # the path puts together what fell in all rounds, where it fell
        rounds = (replace(r, dropped=index_of(r.dropped, columns)) for r in _unstacked(arrays, chance))
        fixed = zip(arrays["fixed_columns"].tolist(), arrays["fixed_keys"].tolist(), strict=True)
        sample = sample_state.of_arrays(arrays, whole, arrays["columns"])
        return cls(sample, tuple(rounds), columns, arrays["streak"], dict(fixed), _skewness(arrays))


def cull(
    sample: Sample,
    estimator: Estimator,
    rules: Rules,
    draws: Draws,
    on_round: OnRound | None = None,
    stages: Stages | None = None,
) -> CullingPath:
    """Cull until `min_features` are left, until every feature left is fixed, or until `on_round` is true.

    With `stages`, go on after the last round that is kept there; `on_round` gets those that are computed.
    """
    stages = stages or Stages()
    blocks = row_blocks(sample.target, draws)
    null_sd = float(np.sqrt(sum(null_scale(len(rows)) ** -2 for rows in blocks))) / len(blocks)
    by_chance = Chance.of(to_numpy(sample.target.Y), sample.X.shape[1], null_sd, len(blocks))
    found = stages.last()
    if found is None:
        state = State(sample, (), None, np.zeros(sample.X.shape[1], dtype=int), {}, None)
    else:
        state = State.of_arrays(found, sample, by_chance)
    sample, columns, streak, skewness = state.sample, state.columns, state.streak, state.skewness
    rounds, key_when_fixed = list(state.rounds), state.key_when_fixed
    while True:
        round_draws = replace(draws, seed=draws.seed + len(rounds))
        gamma, alignment = _bandwidth_and_alignment(sample, rules.gamma, round_draws)
        estimate = estimator(sample, gamma, round_draws)
        keys, ties = estimate.sort_keys(rules.score)
        # rounded to what the precision holds, so that equal features tie whatever the order of a sum was
        digits = 1e4 if single(sample.inside) else 1e9
        keys_and_ties = _rounded(keys, ties, digits)
        upwards = ascending(keys_and_ties[0], keys_and_ties[1], digits)
        if columns is None:
            columns = namespace(upwards).arange(len(upwards), device=device_of(upwards))
        dropped = _bottom(upwards, sample.fixed, rules)
        kept = others(dropped, len(upwards))
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
        stages.reached(len(rounds), state.to_arrays)


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


def _of_owners(r: Round, owner: Array, names: Array, gone: Array, before: list[Round]) -> Round:
    at = np.searchsorted(names, owner[r.features])

    def best(values: Array) -> Array:
        largest = np.full(len(names), -np.inf)
        np.maximum.at(largest, at, values)
        return largest

    falls = owner[r.dropped][::-1]
    falls = falls[np.sort(np.unique(falls, return_index=True)[1])]
    known = np.concatenate([np.array([], dtype=int), *(past.fixed for past in before)])
    return replace(
        r,
        features=names,
        contributions=np.bincount(at, weights=r.contributions),
        main=best(r.main),
        interaction=best(r.interaction),
        scores=best(r.scores),
        dropped=falls[np.isin(falls, gone)][::-1],
        fixed=np.setdiff1d(owner[r.fixed], known),
    )


def _least(pvalues: Array, owners: Array) -> Array:
    """Least p-value of every owner, times the number of its functions; owners ascending."""
    _, at, counts = np.unique(owners, return_inverse=True, return_counts=True)
    least = np.ones(len(counts))
    np.minimum.at(least, at, pvalues)
    return np.minimum(least * counts, 1.0)


def _kept(values: Any, sample: Sample) -> Any:
    """Values of a round as they are kept; in the precision of the features where memory is dear, on a device."""
    if values is None:
        return np.full(sample.X.shape[1], np.nan)
    return values if on_host(values) else astype(values, sample.X.dtype)


def _rounded(keys: Any, ties: Any, digits: float) -> Any:
    """Return both as whole numbers, the largest of each of size `digits`."""
    xp = namespace(keys)
    both = xp.stack([keys, ties])
    largest = clipped(xp.max(xp.abs(both), axis=1, keepdims=True), 1e-300, 1e300)
    return xp.round(both / largest * digits)


def _bottom(upwards: Any, fixed: Array, rules: Rules) -> Any:
    """Places to drop, worst first: ⌊drop·n⌋ but at least one, no fixed feature, never below `min_features`."""
    free = upwards
    if fixed.any():
        placed = to_numpy(upwards)
        free = index_of(placed[~fixed[placed]], upwards)
    return free[: _number_to_drop(len(upwards), rules.drop, rules.min_features)]


def _number_to_drop(n: int, drop: float, min_features: int) -> int:
    return max(0, min(max(1, int(np.floor(drop * n))), n - min_features))


def path_sizes(n: int, drop: float, min_features: int) -> list[int]:
    """Numbers of features of the rounds of a path that fixes nothing."""
    sizes = [n]
    while _number_to_drop(sizes[-1], drop, min_features):
        sizes.append(sizes[-1] - _number_to_drop(sizes[-1], drop, min_features))
    return sizes


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
