"""The culling path: the rounds, the ranking and best round that follow from them, and their comparison with noise.

The comparison asks in two ways whether the features stand out from noise. A permutation test compares their
correlations with y with those of permutations of y. Features that act only together are invisible to it; for them,
alignments along the path are compared with those that culled noise reaches (`Chance`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from randsel._numerics.arrays import as_array_like, astype, clip, namespace, on_host, to_numpy
from randsel._numerics.columns import map_blocks
from randsel._numerics.nuisance import Covariates, Nuisance
from randsel._utils.jobs import generator
from randsel._utils.text import optional
from randsel._utils.typing import Array
from randsel.contribution import Sample
from randsel.targets import average_rows, batches_of_groups, compare_groups, number_rows

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
#: Permutations of y: the p-value is at least 0.01, and the test costs less than a tenth of a path.
N_PERMUTATIONS = 99
#: Columns per block.
WIDTH = 1024


# ---------------------------------------------------------------- rounds and path


@dataclass(frozen=True)
class Chance:
    """Alignments that the best of independent noise features reach (docs/explanation/mathematics.md, eq. 13).

    Attributes
    ----------
    spectrum
        Eigenvalues of the target kernel, scaled to norm one; they determine the null distribution of main scores.
    n
        Number of features to choose from.
    null_sd
        Standard deviation of the alignment under the null.
    n_blocks
        Number of blocks of rows that a score sums over.
    """

    spectrum: Array
    n: int
    null_sd: float
    n_blocks: int = 1

    @classmethod
    def from_target(cls, Y: Array, n: int, null_sd: float, n_blocks: int = 1) -> "Chance":
        """Compute the spectrum from the factor Y of the target kernel."""
        spectrum = np.linalg.eigvalsh(Y.T @ Y)
        return cls(spectrum / np.linalg.norm(spectrum), n, null_sd, n_blocks)

    @cached_property
    def alignments(self) -> Array:
        """Alignments of the best k features for k = 1, …, n: means over simulations with a fixed seed."""
        rng = generator(0)
        repeats = max(1, min(20, 20000 // self.n))
        sums = np.zeros(self.n)
        for _ in range(repeats):
            # Null main scores: weighted sums of χ² variables, standardised.
            shape = self.n, len(self.spectrum)
            # The square of a normal variable is drawn faster than χ² of one degree of freedom.
            squares = rng.standard_normal(shape) ** 2 if self.n_blocks == 1 else rng.chisquare(self.n_blocks, shape)
            scores = (squares - self.n_blocks) @ self.spectrum / np.sqrt(2 * self.n_blocks)
            sums += np.cumsum(np.sort(scores)[::-1]) / repeats
        signal = sums * self.null_sd  # a of (13)
        chance: Array = signal / np.sqrt(np.arange(1, self.n + 1) + signal**2)
        return chance


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
    """Whether samples are independent: False with groups, batches or covariates, or if missing values depend on y."""

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


def number_to_drop(n: int, drop: float, min_features: int) -> int:
    """Return ⌊drop·n⌋, but at least one, and never so many that fewer than `min_features` are left."""
    return max(0, min(max(1, int(np.floor(drop * n))), n - min_features))


def path_sizes(n: int, drop: float = DROP, min_features: int = MIN_FEATURES) -> list[int]:
    """Return the number of features of every round of a path that starts with n features and fixes none."""
    sizes = [n]
    while step := number_to_drop(sizes[-1], drop, min_features):
        sizes.append(sizes[-1] - step)
    return sizes


# ---------------------------------------------------------------- permutation test


def permutation_test(
    sample: Sample,
    batch: Array | None = None,
    covariates: Covariates | None = None,
    y: Array | None = None,
) -> float:
    """Return the p-value of the hypothesis that no feature is related to y. Always draws the same permutations.

    The statistics are the largest squared correlation with y, for the best feature, and the mean over all features.
    Permutations of y keep the correlations among the features as they are.

    Permutations stay within batches. With groups, they exchange the outcomes of whole groups if the outcome is constant
    in every group, and permute within groups if it varies in every group. If it varies in some groups only, they do
    both: groups of constant outcome exchange it, and it is permuted within the others. With covariates, residuals of y
    are permuted, and covariates are removed from the result (Freedman and Lane 1983); they are already removed from the
    features of the sample. Residuals are divided by their standard deviation given the covariates, and multiplied by
    that of the sample that receives them: where covariates explain the spread of both y and a feature, residuals are
    not exchangeable. In which groups the outcome is constant is decided by `y`, not by its residuals, which may
    vary in every group; by default, y is the outcome of the sample.
    """
    target = sample.target
    outcomes = to_numpy(target.Y)
    weights = np.ones(len(outcomes)) if target.weights is None else to_numpy(target.weights)
    outcomes, groups = outcomes / weights[:, None], target.groups
    values = outcomes.round(9) if y is None else y
    comparison = "samples" if groups is None else compare_groups(values, groups)
    strata = batch
    if groups is not None and comparison == "within groups":
        strata = groups if batch is None else number_rows(np.stack([groups, batch], axis=1))
    elif groups is not None and comparison == "between groups" and batch is not None:
        strata = batches_of_groups(batch, groups)[number_rows(groups)]
    units, unit_strata = groups if comparison == "between groups" else None, strata
    if groups is not None and comparison == "mixed":
        units, unit_strata = mixed_units(values, groups, batch)
    nuisance = None  # the outcomes are centred already
    if strata is not None or covariates is not None:
        nuisance = Nuisance.from_samples(len(outcomes), weights, strata, covariates, groups)
        outcomes = nuisance.remove(outcomes.T).T
    if units is not None and nuisance is not None:
        outcomes = average_rows(outcomes, units, np.zeros(outcomes.shape[1], dtype=bool))[number_rows(units)]
    rows = permuted_rows(len(outcomes), units, unit_strata, N_PERMUTATIONS)
    spread = np.ones((len(outcomes), 1))
    if nuisance is not None and len(nuisance.basis):
        spread = nuisance.fit_variances(np.square(outcomes).mean(axis=1))[:, None] ** 0.5
    permuted = (outcomes / spread)[np.concatenate([np.arange(len(outcomes))[None], rows])] * spread
    if nuisance is not None:
        permuted = np.stack([nuisance.remove_covariates(Y.T).T for Y in permuted])
    bases = _orthonormal(permuted, weights)
    rank = bases.shape[2]
    if rank == 0:
        return 1.0
    X, roots = sample.columns_in_product_dtype, weights**0.5
    directions = (bases * roots[:, None]).transpose(1, 0, 2).reshape(len(roots), -1)
    shared = (as_array_like(values, target.Y) for values in (directions, weights))
    blocks = list(map_blocks(X, WIDTH, _squared_correlations_of_block, *shared, rank))
    largest = np.max([block[0] for block in blocks], axis=0)
    sums = np.sum([block[1] for block in blocks], axis=0)
    return _smallest_pvalue(largest, sums)


def permuted_rows(m: int, units: Array | None, strata: Array | None, count: int) -> Array:
    """Return, for each of `count` permutations of m rows within strata, the row whose outcome every row receives.

    Rows of one unit have the same outcome and receive the outcome of one other unit.
    """
    rng = generator(0)
    _, first, codes = np.unique(np.arange(m) if units is None else units, return_index=True, return_inverse=True)
    unit_strata = np.zeros(len(first), dtype=int)
    if strata is not None:
        unit_strata = strata if units is None else batches_of_groups(strata, units)
    members = np.argsort(unit_strata, kind="stable")
    receives = np.empty((count, len(first)), dtype=int)
    # Sorted by stratum and then by random keys: a random permutation within every stratum.
    keys = rng.random(receives.shape)
    receives[:, members] = np.lexsort((keys, np.broadcast_to(unit_strata, keys.shape)))
    return np.asarray(first[receives][:, codes])


def mixed_units(outcomes: Array, groups: Array, batch: Array | None) -> tuple[Array, Array]:
    """Return units and strata of permutations if the outcome varies in some groups only.

    A group of constant outcome is one unit; in `permuted_rows`, such groups with samples of the same batches form one
    stratum. In the other groups, every sample is a unit, and the group, or its part in a batch, is the stratum.
    """
    codes, values = number_rows(groups), number_rows(outcomes)
    n_values = np.bincount(np.unique(np.stack([codes, values]), axis=1)[0])
    varies = n_values[codes] > 1
    batch_codes = np.zeros_like(codes) if batch is None else number_rows(batch)
    units = np.where(varies, len(n_values) + np.arange(len(codes)), codes)
    return units, number_rows(np.stack([np.where(varies, codes, -1), batch_codes], axis=1))


def _orthonormal(outcomes: Array, weights: Array) -> Array:
    """Return an orthonormal basis of the columns, centred under the weights and scaled by their roots.

    For a stack of outcomes, return a stack of bases; all have the smallest rank among the outcomes.
    """
    means = (weights @ outcomes / weights.sum())[..., None, :]
    vectors, values, _ = np.linalg.svd((outcomes - means) * weights[:, None] ** 0.5, full_matrices=False)
    ranks = (values > 1e-8 * np.maximum(values[..., :1], 1e-300)).sum(axis=-1)
    return np.asarray(vectors[..., : np.min(ranks)])


def _squared_correlations_of_block(block: Any, directions: Any, weights: Any, rank: int) -> tuple[Array, Array]:
    """Return, for y and its permutations, the largest squared correlation and their sum."""
    xp = namespace(block)
    directions, weights = astype(directions, block.dtype), astype(weights, block.dtype)
    squared = block.T @ directions
    squared *= squared
    if rank > 1:
        squared = xp.reshape(squared, (block.shape[1], -1, rank)).sum(axis=2)
    squared /= clip(weights @ (block * block), 1e-30, None)[:, None]
    return to_numpy(xp.max(squared, axis=0)), to_numpy(squared.sum(axis=0))


def _smallest_pvalue(*statistics: Array) -> float:
    """Return the permutation p-value of the smallest p-value of several statistics, each of y and its permutations.

    Every permutation takes the role of y in turn, which corrects for the choice of the statistic.
    """
    tails = [(values[None, :] >= values[:, None] * (1 - 1e-9)).mean(axis=1) for values in statistics]
    smallest = np.min(tails, axis=0)
    return float((smallest <= smallest[0]).mean())
