"""Settings and results of an analysis as frozen dataclasses, and the columns of its ranking.

To add a number to the ranking, add a field to `Feature` and a line to `VALUE_COLUMNS`, and compute it in
`_pipeline.py`. CSV file, terminal, report, stored arrays and AnnData then contain it.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from randsel._utils import text
from randsel._utils.typing import Array
from randsel.culling import CullingPath, StandIn
from randsel.interactions import LEVEL
from randsel.selectors import InteractionScan
from randsel.tables import Table
from randsel.targets import KINDS, OutcomeKind

LONG_NAME = 28  # maximum number of characters of a name on the terminal


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
class Feature:
    """One feature of the ranking.

    Attributes
    ----------
    name, column, rank
        Its name, its column in the table, and its rank; 1 is the best.
    contribution, main, interaction
        The contribution, and the standard scores of the effect of the feature alone and together with others, in the
        last round that it entered; of features selected by culling, in the last round that all of them entered.
    partner
        The other feature of its best pair, if that pair is significant after correction for the number of all pairs;
        None otherwise.
    p, q
        p-value and q-value of its main effect or its best pair.
    step
        Forward step of `InteractionScan` that selected it: it is significant in the residual of the features of earlier
        steps. 0 if none did, or if pairs were not tested.
    stability
        Fraction of half-samples in which it was selected.
    selected
        Whether it was selected on all samples.
    missing
        Number of samples without a value.
    """

    name: str
    column: int
    rank: int
    contribution: float
    main: float
    interaction: float
    partner: str | None
    p: float
    q: float
    step: int
    stability: float
    selected: bool
    missing: int = 0


@dataclass(frozen=True)
class FeatureColumn:
    """How one field of `Feature` is written and stored."""

    field: str
    type: type  # float (NaN: unknown), str (None: none), int (0: none) or bool
    title: str  # heading in CSV files and on the terminal
    show: Callable[[Any], str] = str  # formats a value for the terminal and the report
    heading: str | None = None  # in the report; None for the title
    scaled: bool = False  # whether the report shows values in units of a common power of ten
    descending: bool = False  # whether the first click on the heading in the report puts the largest value on top

    @property
    def is_text(self) -> bool:
        """Whether the column holds names."""
        return self.type is str

    def to_csv(self, feature: Feature) -> str:
        """Write the value of a feature in full."""
        value = getattr(feature, self.field)
        if self.type is bool:
            return "yes" if value else "no"
        return text.format_exact(value) if self.type is float else str(value or "")

    def to_terminal(self, feature: Feature) -> str:
        """Write the value of a feature for the terminal: short, and without control characters."""
        value = getattr(feature, self.field)
        if self.type is bool:
            return "*" if value else ""
        return text.shorten(text.make_visible(value or text.DASH), LONG_NAME) if self.is_text else self.show(value)

    def to_json(self, feature: Feature) -> Any:
        """Return the value of a feature for JSON: None if there is none, names with invisible characters escaped."""
        value = getattr(feature, self.field)
        if value is None or (self.type is float and not math.isfinite(value)) or (self.type is int and value == 0):
            return None
        return text.make_visible(value) if self.is_text else self.type(value)

    def to_html(self, value: float | None, exponent: int) -> str:
        """Write a number of `to_json` for the report, in units of 10^exponent if the column is scaled."""
        return self.show(value) if not self.scaled or value is None else text.format_fixed(value * 10.0**-exponent, 2)


SELECTED = FeatureColumn("selected", bool, "selected")
RANK = FeatureColumn("rank", int, "rank")
NAME = FeatureColumn("name", str, "feature")
#: Columns besides name, rank and selection, in the order of all outputs.
VALUE_COLUMNS = (
    FeatureColumn(
        "contribution", float, "contribution", partial(text.format_number, digits=2), scaled=True, descending=True
    ),
    FeatureColumn("main", float, "main", text.format_fixed, heading="alone", descending=True),
    FeatureColumn("interaction", float, "interaction", text.format_fixed, heading="together", descending=True),
    FeatureColumn("partner", str, "partner"),
    FeatureColumn("p", float, "p", text.format_p_value),
    FeatureColumn("q", float, "q", text.format_p_value),
    FeatureColumn("step", int, "step", lambda step: str(step or text.DASH)),
    FeatureColumn("stability", float, "stability", text.format_percent, descending=True),
)
#: Column of files, if any value is missing.
MISSING = FeatureColumn("missing", int, "missing")
#: Columns of numbers, which are stored as one matrix.
SCORE_COLUMNS = tuple(column for column in VALUE_COLUMNS if column.type is float)


def list_features(names: Sequence[str], order: Iterable[int], fields: Mapping[str, Any]) -> tuple[Feature, ...]:
    """Return the features of a ranking; `order` (columns) and the other `fields` have one entry per rank."""
    return tuple(
        Feature(name=names[j], column=j, rank=k + 1, **{field: values[k] for field, values in fields.items()})
        for k, j in enumerate(order)
    )


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
class Accuracy:
    """Nested cross-validation.

    Attributes
    ----------
    measure
        "balanced accuracy", "R²" or "concordance index".
    selected, everything
        One value per outer fold: of a model on the features selected in the fold, and of one on all features.
    chance
        Score of guessing.
    sizes
        Number of features selected in each fold.
    high_risk
        With survival, for every sample: 1 if its risk, predicted by the model on the features selected in the fold that
        held it out, is above the median of the fold; 0 if not; NaN if no feature was selected. None for other outcomes.
    selections
        Training rows, test rows and selected columns of each fold; empty in an analysis that was read from a folder.
    """

    measure: str
    selected: Array
    everything: Array
    chance: float
    sizes: Array
    high_risk: Array | None = None
    selections: tuple[tuple[Array, Array, Array], ...] = ()


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
    accuracy, stability
        None where they were not computed.
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
    stability: Stability | None
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
    def outcome(self) -> OutcomeKind:
        """Kind of the target, by the name `kind`."""
        return KINDS[self.kind]

    @property
    def has_findings(self) -> bool:
        """Whether something is selected and stands out; what --top selects need not, and --keep is no finding."""
        if self.rule.name == "top" and self.nothing_stands_out:
            return any(feature.q <= LEVEL for feature in self.features)
        return any(feature.selected and feature.column not in self.rule.always_kept for feature in self.features)
