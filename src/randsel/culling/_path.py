"""The culling path: the rounds, and the ranking and best round that follow from them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from randsel._numerics.arrays import on_host, to_numpy
from randsel._utils.text import optional
from randsel._utils.typing import Array
from randsel.culling._noise import Chance

#: Defaults of `RandSel`: fraction of the features culled per round, and number of features at which the path ends.
DROP, MIN_FEATURES = 0.25, 1
#: Largest p-value of the permutation test at which features stand out. Below 0.05, because a selection is also made if
#: single features or pairs are significant.
NOISE_LEVEL = 0.02
#: Null standard deviations by which a round must align better than noise, to stand out. Noise stays below 5.6 in 200
#: tables of 60 to 500 features; the XOR problem reaches 7 to 22 with 150 to 300 samples.
MIN_EXCESS = 6.0
#: Rounds whose standardised features have a larger mean fourth moment are not compared with noise. Normal scores have
#: 3, and a feature with two levels exceeds 4 if fewer than 17 % of the samples have one of them. Kernels on several
#: features with rare levels are not orthogonal: on these, noise exceeds chance by far.
MAX_FOURTH_MOMENT = 4.0
#: Fields of `Round` that are arrays; those of `PER_FEATURE` have one entry per feature.
PER_FEATURE = ("contributions", "main", "interaction", "scores")
ARRAYS = ("features", *PER_FEATURE, "dropped", "fixed")
#: Fields of `Round` that are numbers.
NUMBERS = ("gamma", "alignment", "ridge", "fourth_moment", "size")


@dataclass(frozen=True)
class Round:
    """One round of culling.

    Attributes
    ----------
    features
        Columns of X that entered the round, ascending.
    contributions
        Contribution of each of them to the target, or to a residual (see `ridge`).
    main, interaction
        Standard scores of the two parts of the contribution (NaN from the bootstrap).
    scores
        Scores that the round culled by.
    dropped
        Columns culled in this round, worst first.
    fixed
        Columns fixed at the end of this round.
    gamma, alignment
        Bandwidth of the round, and unbiased alignment of the kernel on all features of the round.
    ridge
        Penalty of the ridge regression whose residual the contributions refer to; infinite for the target itself.
    fourth_moment
        Mean over the features of the round of their fourth moments, each divided by the squared mean square.
    size, by_chance
        Number of features of the round as culling saw them (rank functions, with `kernel="rank"`), and the alignments
        that independent noise reaches.
    errors
        Squared error of every sample when it is left out of a ridge regression on the features of the round, as a
        fraction of the variance of y; with the same penalty in all rounds. Empty from the bootstrap.

    During culling on a device, the arrays stay there; those of `CullingPath.rounds` are numpy arrays.

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
    ridge: float
    fourth_moment: float
    size: int
    by_chance: Chance
    errors: Array = field(default_factory=lambda: np.zeros(0))

    @property
    def chance(self) -> float:
        """Alignment that culling of independent noise would reach with this number of features."""
        return float(self.by_chance.alignments[self.size - 1])

    def to_host(self) -> "Round":
        """Return the round with numpy arrays."""
        arrays = {name: getattr(self, name) for name in (*ARRAYS, "errors")}
        if all(map(on_host, arrays.values())):
            return self
        hosted: dict[str, Any] = {name: to_numpy(array) for name, array in arrays.items()}
        return replace(self, **hosted)

    def relabel(self, columns: Array) -> "Round":
        """Return the round with feature `i` called `columns[i]`."""
        labels = columns[self.features]
        order = np.argsort(labels, kind="stable")
        values = {name: getattr(self, name)[order] for name in PER_FEATURE}
        dropped, fixed = columns[self.dropped], np.sort(columns[self.fixed])
        return replace(self, features=labels[order], dropped=dropped, fixed=fixed, **values)


class RecordedRounds:
    """Rounds as culling recorded them; the first call of `on_host` copies their arrays from the device."""

    def __init__(self, rounds: Sequence[Round]) -> None:
        self.rounds = tuple(rounds)

    def on_host(self) -> tuple[Round, ...]:
        """Return the rounds with numpy arrays, and release those on the device."""
        self.rounds = tuple(r.to_host() for r in self.rounds)
        return self.rounds

    def __getstate__(self) -> dict[str, Any]:
        return {"rounds": self.on_host()}


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

    recorded: RecordedRounds
    """The rounds, their features numbered in the order in which culling saw them."""
    recorded_order: Array
    null_sd: float
    """Standard deviation of a round's alignment when the target is unrelated to the features."""
    columns: Array | None = None
    """Column of X of every recorded feature; None if these are the columns themselves."""
    noise_pvalue: float | None = None
    """P-value of the permutation test that no feature is related to y; None if there was no test."""
    independent: bool = True
    """Whether samples are independent: False if they come in groups or batches."""

    @cached_property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds, with features called by their columns of X."""
        if self.columns is None:
            return self.recorded.on_host()
        return tuple(r.relabel(self.columns) for r in self.recorded.on_host())

    @property
    def order(self) -> Array:
        """All features of the first round, best first: fixed, other survivors by score, dropped ones last first."""
        return self.recorded_order if self.columns is None else np.asarray(self.columns[self.recorded_order])

    @cached_property
    def errors(self) -> Array | None:
        """Mean squared error of left-out samples per round, as a fraction of the variance; None from the bootstrap.

        The features were chosen on the same samples. The errors serve to choose a number of features; they
        underestimate the error on new samples.
        """
        squares = self._squared_errors
        return None if squares is None else squares.mean(axis=1)

    @cached_property
    def standard_errors(self) -> Array | None:
        """Standard error of `errors`, as of a mean over independent samples (too small with groups); or None."""
        squares = self._squared_errors
        return None if squares is None else squares.std(axis=1, ddof=1) / np.sqrt(squares.shape[1])

    @property
    def _squared_errors(self) -> Array | None:
        squares = [to_numpy(r.errors) for r in self.recorded.rounds]
        return np.stack(squares) if len(squares[0]) else None

    @cached_property
    def best(self) -> int:
        """Index of the round that `n_features_to_select="auto"` selects.

        The last round, with the fewest features, whose error is within one standard error of the smallest. From the
        bootstrap, which fits no regression, the last of the rounds whose features align best with the target.
        """
        if self.errors is None or self.standard_errors is None:
            alignments = np.array([r.alignment for r in self.recorded.rounds])
            return int(np.flatnonzero(alignments == alignments.max())[-1])
        smallest = int(np.argmin(self.errors))
        limit = self.errors[smallest] + self.standard_errors[smallest]
        return int(np.flatnonzero(self.errors <= limit + 1e-12)[-1])

    @property
    def best_round(self) -> Round:
        """The recorded round with index `best`, its arrays where culling left them."""
        return self.recorded.rounds[self.best]

    @property
    def passes_permutation_test(self) -> bool:
        """Whether the permutation test says that the features stand out from noise."""
        return self.noise_pvalue is not None and self.noise_pvalue <= NOISE_LEVEL

    @property
    def stands_out(self) -> bool:
        """Whether the features stand out from noise.

        They do if the permutation test says so, or if some round aligns better with y than culled independent noise
        would, by more than `MIN_EXCESS` null standard deviations. The second rule is used for independent samples
        only, and not for rounds of features with rare levels or extreme values (`MAX_FOURTH_MOMENT`).
        """
        if self.passes_permutation_test:
            return True
        return self.independent and any(
            r.alignment - r.chance > MIN_EXCESS * self.null_sd and r.fourth_moment <= MAX_FOURTH_MOMENT
            for r in self.recorded.rounds
        )

    @property
    def fixed(self) -> Array:
        """Columns that were fixed, ascending."""
        fixed = np.concatenate([r.fixed for r in self.recorded.rounds])
        return np.sort(fixed if self.columns is None else self.columns[fixed])

    def last_values(self, name: str, n_features: int, n_selected: int = 0) -> Array:
        """Return per column the value of a field of `Round` in the last round that the column entered; 0 if none.

        The first `n_selected` columns of the order have the values of the last round that they are all in.
        """
        rounds = self.recorded.on_host()
        entered = rounds[0].features
        last = np.zeros(int(entered.max()) + 1)
        for r in rounds:
            last[r.features] = getattr(r, name)
        shared = [r for r in rounds if len(r.features) >= n_selected]
        selected = self.recorded_order[:n_selected]
        if shared and n_selected:
            positions = np.searchsorted(shared[-1].features, selected)
            last[selected] = getattr(shared[-1], name)[positions]
        values = np.zeros(n_features)
        values[entered if self.columns is None else self.columns[entered]] = last[entered]
        return values

    def relabel(self, columns: Array) -> "CullingPath":
        """Return the path with feature `i` called `columns[i]`."""
        return replace(self, columns=columns)

    def merge_functions(self, owner: Array, min_features: int) -> "CullingPath":
        """Return the path of features from a path of rank functions, where function `i` belongs to feature `owner[i]`.

        A feature has the best scores of its functions, and is dropped with the last of them.
        """
        rounds: list[Round] = []
        for r, next_features in zip(self.rounds, [*(later.features for later in self.rounds[1:]), None], strict=True):
            features = np.unique(owner[r.features])
            is_last = next_features is None or len(np.unique(owner[next_features])) < min(min_features, len(features))
            dropped = np.array([], dtype=int) if is_last else np.setdiff1d(features, owner[next_features])
            if is_last or len(dropped):
                rounds.append(_merge_round(r, owner, features, dropped, rounds))
            if is_last:
                break
        # The position of a feature is that of its first function.
        order = owner[self.order]
        order = order[np.sort(np.unique(order, return_index=True)[1])]
        return replace(self, recorded=RecordedRounds(rounds), recorded_order=order, columns=None)

    def to_frame(self) -> Any:
        """Return a pandas data frame with one row per round and feature."""
        pandas = optional("pandas", extra="pandas", purpose="CullingPath.to_frame")
        frames = [
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
                    "ridge": r.ridge,
                }
            )
            for number, r in enumerate(self.rounds)
        ]
        return pandas.concat(frames, ignore_index=True)


def _merge_round(r: Round, owner: Array, features: Array, dropped: Array, earlier: list[Round]) -> Round:
    """Return a round of `features` that drops `dropped`, from a round of functions."""
    index = np.searchsorted(features, owner[r.features])

    def best(values: Array) -> Array:
        maxima = np.full(len(features), -np.inf)
        np.maximum.at(maxima, index, values)
        return maxima

    # A feature is dropped with its last function: keep the last occurrence of each.
    last_first = owner[r.dropped][::-1]
    last_first = last_first[np.sort(np.unique(last_first, return_index=True)[1])]
    already_fixed = np.concatenate([np.array([], dtype=int), *(past.fixed for past in earlier)])
    return replace(
        r,
        features=features,
        contributions=np.bincount(index, weights=r.contributions),
        main=best(r.main),
        interaction=best(r.interaction),
        scores=best(r.scores),
        dropped=last_first[np.isin(last_first, dropped)][::-1],
        fixed=np.setdiff1d(owner[r.fixed], already_fixed),
    )


def number_to_drop(n: int, drop: float, min_features: int) -> int:
    """Return ⌊drop·n⌋, but at least one, and never so many that fewer than `min_features` are left."""
    return max(0, min(max(1, int(np.floor(drop * n))), n - min_features))


def path_sizes(n: int, drop: float = DROP, min_features: int = MIN_FEATURES) -> list[int]:
    """Return the number of features of every round of a path that starts with n features and fixes none."""
    sizes = [n]
    while step := number_to_drop(sizes[-1], drop, min_features):
        sizes.append(sizes[-1] - step)
    return sizes
