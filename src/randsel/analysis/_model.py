"""Settings and results of an analysis as frozen dataclasses."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from randsel._utils.text import name_class
from randsel._utils.typing import Array
from randsel.analysis._ranking import Feature, FeatureColumn, value_columns
from randsel.culling import CullingPath, StandIn
from randsel.interactions import LEVEL
from randsel.selectors import InteractionScan
from randsel.tables import Table
from randsel.targets import KINDS, OutcomeKind

#: Note if no pair is tested, because nothing is left of the target without the features that stand out alone.
NO_PAIRS_LEFT = "No pair was tested: features that stand out alone explain the target completely."


@dataclass(frozen=True)
class Settings:
    """Settings of an analysis."""

    top: int | None = None  # select at most this many features
    fdr: float | None = None  # select features with at most this q-value
    keep: Sequence[str] = ()  # names of features that are always selected; others are ranked by what they add to them
    task: str = "auto"  # "classification", "regression", "survival" or "auto"
    pairs: str = "auto"  # whether to test pairs: "all", "none", or "auto", which tests them up to `PAIR_BUDGET`
    halves: int = 50  # number of half-samples, rounded up to even; 0 for none
    folds: int = 5  # number of folds of the cross-validation; 0 for none
    seed: int = 0  # of halves and folds
    memory: str | None = None  # `max_memory` of `RandSel`
    device: str | None = None  # `device` of `RandSel`

    def __post_init__(self) -> None:
        if self.top is not None and self.top < 1:
            raise ValueError(f"top={self.top} selects nothing; ask for 1 or more, or leave it out.")
        if self.fdr is not None and not 0.0 < self.fdr < 1.0:
            raise ValueError(
                f"fdr={self.fdr:g} is not a false discovery rate; take a number between 0 and 1, such as 0.1."
            )
        for name in ("halves", "folds"):
            if getattr(self, name) == 1 or getattr(self, name) < 0:
                raise ValueError(f"{name}={getattr(self, name)} is too few; take 2 or more, or 0 to leave them out.")


@dataclass(frozen=True)
class FeatureTests:
    """Results of `InteractionScan`, or of the tests of main effects alone."""

    p: Array
    q: Array
    partner: Array  # column of the partner of each feature, -1 if it is in no significant pair
    step: Array  # forward step that selected each feature, see `Feature`; 0 for all if pairs were not tested
    pairs: Array | None  # as `InteractionScan.pairs_`; None if pairs were not tested

    @classmethod
    def from_scan(cls, scan: InteractionScan) -> "FeatureTests":
        """Take the results of a fitted scan; a partner must be significant after correction for all pairs."""
        n = scan.n_features_in_
        significant = scan.partner_pvalues_ * math.comb(n, 2) <= LEVEL
        # A step selects a pair of `pairs_`, or else the next feature of `taken_`.
        pairs = {row["step"]: {row["i"], row["j"]} for row in scan.pairs_ if row["step"]}
        steps, remaining, step = np.zeros(n, dtype=int), scan.taken_, 0
        while len(remaining):
            step += 1
            entering = np.isin(remaining, list(pairs.get(step, remaining[:1])))
            steps[remaining[entering]] = step
            remaining = remaining[~entering]
        return cls(scan.pvalues_, scan.qvalues_, np.where(significant, scan.partner_, -1), steps, scan.pairs_)


#: Names of rules, see `Rule`.
RULES = ("path", "tests", "top", "fdr", "nothing")


@dataclass(frozen=True)
class Rule:
    """The rule that made a selection.

    Attributes
    ----------
    name
        "path": the features of the best round of culling. "tests": features with a q-value of at most `fdr`, because
        culling does not stand out. "top": the first `top` features of the ranking. "fdr": at most `top` features with a
        q-value of at most `fdr`. "nothing": no feature, because nothing stands out.
    top, fdr
        Maximum number of features, and maximum q-value; None for no limit.
    always_kept
        Columns that are selected in any case, because the user asked for them.
    """

    name: str
    top: int | None = None
    fdr: float | None = None
    always_kept: tuple[int, ...] = ()

    @property
    def is_prefix_of_path(self) -> bool:
        """Whether the selected features are the first ones in the order of culling."""
        return self.name in ("path", "top")


@dataclass(frozen=True)
class Pair:
    """Two features tested together; `corrected_p` accounts for the number of all pairs."""

    first: str
    second: str
    first_column: int
    second_column: int
    statistic: float
    p: float
    corrected_p: float


@dataclass(frozen=True)
class Effects:
    """The effect of every feature alone, on the values as they are: batches and covariates are not removed.

    Arrays have one entry per column of the table; NaN where the effect is unknown, as in columns that are constant or
    hold codes of categories. Missing values are left out.

    Attributes
    ----------
    measure
        "AUC" for classes, "correlation" (Spearman's) for numbers, "hazard ratio" (per standard deviation) for survival.
    estimate, low, high
        The effect and its 95 % confidence limits. The AUC is at least 0.5: the probability that a sample of the class
        that `extreme` and `sign` name has a higher (lower) value than a sample of the others. Of several classes, it is
        that of the class that differs most from the others, and the limits allow for this choice.
    sign
        Two classes: 1 if values are higher in the second class, -1 if in the first. Several classes: 1 if values of the
        class `extreme` are higher than others, -1 if lower. Numbers: sign of the correlation. Survival: 1 if higher
        values go with a higher risk. 0 if there is no direction.
    extreme
        Index of the class that the direction names; -1 if none.
    classes
        Class labels in ascending order; empty for other outcomes.
    centre, centres
        "mean" or "median", and its values: a row per column of the table, an entry per class.
    log2
        "given" if the user asked for logarithms, "detected" if values look like logarithms of base 2, "" if not.
    """

    measure: str
    estimate: Array
    low: Array
    high: Array
    sign: Array
    extreme: Array
    classes: tuple[str, ...]
    centre: str
    centres: Array
    log2: str

    @property
    def neutral(self) -> float:
        """The value of the measure that means no effect."""
        return {"AUC": 0.5, "correlation": 0.0, "hazard ratio": 1.0}[self.measure]

    @property
    def difference(self) -> Array:
        """Of two classes: centre of the second less that of the first; NaN for other outcomes."""
        if len(self.classes) != 2:
            return np.full(len(self.estimate), np.nan)
        return np.asarray(self.centres[:, 1] - self.centres[:, 0])

    @property
    def difference_name(self) -> str | None:
        """Name of the difference: "log2 fold change" if values are logarithms; None if there is none."""
        if len(self.classes) != 2:
            return None
        return "log2 fold change" if self.log2 else "difference"

    def direction(self, column: int, target: str = "target") -> str:
        """Describe the direction of the effect of a column; an empty string if its limits include no effect.

        `target` is the name of a numeric outcome.
        """
        sign = int(self.sign[column])
        if sign == 0 or not (self.low[column] > self.neutral or self.high[column] < self.neutral):  # NaN is neither
            return ""
        if self.measure == "correlation":
            return f"{'rises' if sign > 0 else 'falls'} with {target}"
        if self.measure == "hazard ratio":
            return "higher, more risk" if sign > 0 else "higher, less risk"
        # of two classes, the one with the higher values is named
        higher = sign > 0 or len(self.classes) == 2
        return f"{'higher' if higher else 'lower'} in {name_class(self.classes[int(self.extreme[column])])}"


def named_target(settings: Mapping[str, Any]) -> str:
    """Return the name of the target in the settings of a run; "target" if they do not say."""
    return str((settings.get("parameters") or {}).get("target") or "target")


@dataclass(frozen=True)
class PanelSizes:
    """Accuracy of models on the first features of a ranking, against their number.

    Attributes
    ----------
    sizes
        Numbers of features, ascending.
    scores
        A row per fold: scores of models on the first features of the ranking of the training samples; NaN for more
        features than the fold has.
    selected
        Number of features that the run selected.
    """

    sizes: Array
    scores: Array
    selected: int

    @property
    def means(self) -> Array:
        """Mean score over the folds, for every size."""
        return np.asarray(self.scores.mean(axis=0))

    @property
    def standard_errors(self) -> Array:
        """Standard error of the mean over the folds, for every size; NaN for a single fold."""
        n_folds = len(self.scores)
        if n_folds < 2:
            return np.full(len(self.sizes), np.nan)
        return np.asarray(self.scores.std(axis=0, ddof=1) / math.sqrt(n_folds))

    @property
    def best(self) -> int:
        """The number of features with the highest mean score, the fewest if several have it."""
        return int(self.sizes[np.nanargmax(self.means)])

    @property
    def one_se(self) -> int:
        """The fewest features whose mean score is within one standard error of the highest."""
        k = int(np.nanargmax(self.means))
        enough = self.means >= self.means[k] - np.nan_to_num(self.standard_errors[k])
        return int(self.sizes[np.argmax(enough)])


@dataclass(frozen=True)
class HeldOut:
    """Predictions of held-out samples, by models on features that were selected without them.

    Attributes
    ----------
    fold
        For every sample, number of the fold that held it out; -1 if nothing predicts it.
    predicted
        Index of the predicted class, the predicted number, or the predicted risk; NaN if there is none.
    score
        For two classes, the output for the second class: the larger, the more like that class. For survival, the risk;
        for numbers, the prediction; NaN for several classes. Models of different folds have different scales.
    outputs
        Outputs of the models, a column per class, from which probabilities are calibrated; all equal where a fold
        selected no feature, NaN where its training samples lack a class. None for numbers and survival, and in an
        analysis that was read from a folder.
    """

    fold: Array
    predicted: Array
    score: Array
    outputs: Array | None = None


@dataclass(frozen=True)
class Accuracy:
    """Nested cross-validation.

    Attributes
    ----------
    measure
        "balanced accuracy", "R²" or "concordance index".
    selected, everything
        Score in each outer fold of the model of a panel, on the features selected in the fold and on all features.
    chance
        Score of guessing.
    sizes
        Number of features selected in each fold.
    high_risk
        With survival, for every sample: 1 if its risk, predicted by the model on the features selected in the fold that
        held it out, is above the median of the fold; 0 if not; NaN if no feature was selected. None for other outcomes.
    held_out
        Predictions of the models on the features selected in each fold.
    """

    measure: str
    selected: Array
    everything: Array
    chance: float
    sizes: Array
    high_risk: Array | None = None
    held_out: HeldOut | None = None

    @property
    def is_close_to_chance(self) -> bool:
        """Whether the score on the selected features is that of chance, within the spread of the folds."""
        spread = float(np.std(self.selected, ddof=1)) if len(self.selected) > 1 else 0.0
        return float(np.mean(self.selected)) - spread <= self.chance


@dataclass(frozen=True)
class Stability:
    """Selection repeated on halves of the samples.

    Attributes
    ----------
    n_halves, threshold
        Number of halves, and the fraction of them from which a feature counts as stable.
    expected_false
        Bound on the expected number of stable features that are unrelated to the target, if all features unrelated to
        it are exchangeable; None if it exceeds half of `n_stable`, because most of these could then be noise.
    frequencies
        For each column, the fraction of halves in which it was selected.
    """

    n_halves: int
    threshold: float
    expected_false: float | None
    frequencies: Array

    @property
    def n_stable(self) -> int:
        """Number of features selected in at least the fraction `threshold` of the half-samples."""
        return int((np.asarray(self.frequencies) >= self.threshold).sum())


@dataclass(frozen=True)
class Analysis:
    """All results of a selection from one table.

    Attributes
    ----------
    table, path
        The data, and the rounds of culling.
    kind
        "classification", "regression" or "survival".
    features, pairs
        All features and the pairs that were stored, best first.
    stand_ins
        For columns of selected features, the unselected features that could stand in for them.
    accuracy, panel_sizes, stability
        None where they were not computed.
    effects
        The effect of every feature alone.
    rule
        The rule that made the selection.
    nothing_stands_out
        Whether the features do not stand out from noise, see `CullingPath.stands_out`.
    warnings
        Reasons to doubt the result, from `cautions` and from the selection.
    settings
        What is needed to repeat the analysis: `command`, `version`, `seed`, `data` (name of the file), `data_hash`,
        `parameters` (a mapping), and other entries to show.
    notes
        What the reader of the file detected, and how the analysis dealt with the table.
    """

    table: Table
    path: CullingPath
    kind: str
    features: tuple[Feature, ...]
    pairs: tuple[Pair, ...]
    stand_ins: Mapping[int, Sequence[StandIn]]
    accuracy: Accuracy | None
    panel_sizes: PanelSizes | None
    stability: Stability | None
    effects: Effects
    rule: Rule
    nothing_stands_out: bool
    warnings: tuple[str, ...]
    settings: Mapping[str, Any]
    notes: tuple[str, ...]

    def describe_stand_ins(self, column: int) -> str:
        """Return the stand-ins of a column as text: names with correlation r and loss, separated by semicolons."""
        return "; ".join(
            f"{self.table.names[other]} (r {r:.2f}, loss {loss:.3f})"
            for other, r, loss in self.stand_ins.get(column, ())
        )

    @property
    def columns(self) -> tuple[FeatureColumn, ...]:
        """Columns besides name, rank and selection, with the titles that fit the outcome."""
        return value_columns(self.effects.measure, self.effects.difference_name)

    @property
    def outcome(self) -> OutcomeKind:
        """Kind of the target, by the name `kind`."""
        return KINDS[self.kind]

    @property
    def has_findings(self) -> bool:
        """Whether something is selected and stands out; what --top selects need not, and --keep is no finding."""
        if self.rule.name == "top" and self.nothing_stands_out:
            return any(feature.q <= LEVEL for feature in self.features)
        return any(feature.selected and feature.column not in self.rule.always_kept for feature in self.features)
