"""The rounds of a culling path, and what is read off them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from randsel._numerics.arrays import on_host, to_numpy
from randsel._numerics.null_tails import log_tail_of_score
from randsel._utils.jobs import generator
from randsel._utils.optional import optional
from randsel._utils.result_folder import check_arrays, check_places
from randsel._utils.typing import Array

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


@dataclass(frozen=True)
class Chance:
    """Alignment reached by the best of independent noise features (docs/mathematics.md, eq. 13).

    Attributes
    ----------
    spectrum
        Eigenvalues of the target kernel, of norm one: they give the null distribution of a feature's main score.
    n
        Number of features to choose from.
    null_sd
        Standard deviation of the alignment under the null.
    n_blocks
        Blocks of rows that a score is a sum over.
    """

    spectrum: Array
    n: int
    null_sd: float
    n_blocks: int = 1

    @classmethod
    def of(cls, Y: Array, n: int, null_sd: float, n_blocks: int = 1) -> "Chance":
        """Take the spectrum from the factor Y of the target kernel."""
        spectrum = np.linalg.eigvalsh(Y.T @ Y)
        return cls(spectrum / np.linalg.norm(spectrum), n, null_sd, n_blocks)

    @cached_property
    def alignments(self) -> Array:
        """By the best k features, for k = 1, …, n."""
        rng = generator(0)
        repeats = max(1, min(20, 20000 // self.n))
        sums = np.zeros(self.n)
        for _ in range(repeats):
            squares = rng.chisquare(self.n_blocks, (self.n, len(self.spectrum)))
            scores = (squares - self.n_blocks) @ self.spectrum / np.sqrt(2 * self.n_blocks)
            sums += np.cumsum(np.sort(scores)[::-1]) / repeats
        signal = sums * self.null_sd
        chance: Array = signal / np.sqrt(np.arange(1, self.n + 1) + signal**2)
        return chance


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


def _number_to_drop(n: int, drop: float, min_features: int) -> int:
    return max(0, min(max(1, int(np.floor(drop * n))), n - min_features))


def path_sizes(n: int, drop: float, min_features: int) -> list[int]:
    """Numbers of features of the rounds of a path that fixes nothing."""
    sizes = [n]
    while _number_to_drop(sizes[-1], drop, min_features):
        sizes.append(sizes[-1] - _number_to_drop(sizes[-1], drop, min_features))
    return sizes


# ---------------------------------------------------------------- a path from a file

#: Upper limit on n_features × n_classes in the simulation of alignments by chance: larger numbers are not ours.
MOST_SIMULATED = 200_000_000
#: Kinds and lengths of the arrays of `CullingPath.to_arrays`, see `check_arrays`.
STORED_SHAPES = {
    "features": ("iu", "features of rounds"),
    **dict.fromkeys(("contributions", "main", "interaction", "scores"), ("f", "features of rounds")),
    "dropped": ("iu", "dropped"),
    "fixed": ("iu", "fixed"),
    **{f"n_{name}": ("iu", "rounds") for name in ("features", "dropped", "fixed")},
    **dict.fromkeys(("gamma", "alignment"), ("f", "rounds")),
    "size": ("iu", "rounds"),
    "spectrum": ("f", "spectrum"),
    "chance": ("f", 3),
    "order": ("iu", "order"),
    "null_sd": ("f",),
    "skewness": ("f", "parts"),
}


def restore_path(arrays: Mapping[str, Array], n_features: int) -> CullingPath:
    """Return the path that `CullingPath.to_arrays` stored.

    Files may be damaged or forged: raises ValueError unless the arrays describe a path of `n_features` columns.
    """
    check_arrays(arrays, STORED_SHAPES)
    check_places(arrays["order"], n_features)
    for name in ("features", "dropped", "fixed"):
        check_places(arrays[name], n_features)
        check_places(arrays[f"n_{name}"], n_features + 1)
        if int(arrays[f"n_{name}"].sum()) != len(arrays[name]):
            msg = f"{name!r} of the rounds are not as many as there are"
            raise ValueError(msg)
    # alignments by chance are simulated for all sizes up to n, and looked up by the size of a round
    n, _, n_blocks = arrays["chance"].tolist()
    if not (
        len(np.unique(arrays["order"])) == len(arrays["order"])
        and len(arrays["skewness"]) in (0, 2)
        and 1 <= n <= n_features
        and n_blocks >= 1
        and n * len(arrays["spectrum"]) <= MOST_SIMULATED
        and len(arrays["gamma"])
        and int(arrays["n_features"].min()) >= 1
    ):
        msg = "the culling path is not one"
        raise ValueError(msg)
    check_places(arrays["size"], int(n) + 1, least=1)
    return CullingPath.of_arrays(arrays)
