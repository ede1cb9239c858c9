"""The features of a ranking, and its columns.

To add a number to the ranking, add a field to `Feature` and an entry to `VALUE_COLUMNS`, which computes it. CSV file,
terminal, report, stored arrays and AnnData then contain it.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from randsel._utils import text
from randsel._utils.typing import Array
from randsel.culling import CullingPath
from randsel.tables import Table

LONG_NAME = 28  # maximum number of characters of a name on the terminal


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
    direction, effect, effect_low, effect_high, difference
        The effect of the feature alone, see `Effects`; None and NaN where it is unknown.
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
    direction: str | None = None
    effect: float = math.nan
    effect_low: float = math.nan
    effect_high: float = math.nan
    difference: float = math.nan
    missing: int = 0


def format_effect(effect: float | None, low: float | None, high: float | None, *, space: str = " ") -> str:
    """Write an effect with its confidence limits: 0.91 (0.83 to 0.96); a dash if it is unknown.

    `space` stands between the limits; one without a line break keeps them together.
    """
    if effect is None or math.isnan(effect):
        return text.DASH
    digits = partial(text.format_fixed, digits=2)
    if low is None or math.isnan(low):
        return digits(effect)
    return f"{digits(effect)} ({digits(low)}{space}to{space}{digits(high)})"


@dataclass(frozen=True)
class RankingSource:
    """What the columns of the ranking are computed from.

    Attributes
    ----------
    table, path
        The table, and the path of culling.
    tests, effects, stability
        `FeatureTests`, `Effects`, and `Stability` or None. `_model.py`, which defines two of them, imports this file.
    selected, is_prefix_of_path
        Selected columns, and whether they are the first ones of the path.
    target
        Name of a numeric target, for directions.
    """

    table: Table
    path: CullingPath
    tests: Any
    effects: Any
    stability: Any
    selected: Array
    is_prefix_of_path: bool
    target: str

    @property
    def n_features(self) -> int:
        """Number of columns of the table."""
        return len(self.table.names)

    def last_values(self, name: str) -> Array:
        """Return a field of the rounds, for every column in its last round.

        Selected columns that are the first of the path have the values of the last round with all of them.
        """
        return self.path.last_values(name, self.n_features, len(self.selected) if self.is_prefix_of_path else 0)


@dataclass(frozen=True)
class FeatureColumn:
    """How one field of `Feature` is computed, written and stored."""

    field: str
    type: type  # float (NaN: unknown), str (None: none), int (0: none) or bool
    title: str  # heading in CSV files, and on the terminal with spaces in place of underscores
    values: Callable[[RankingSource], Array] | None = None  # computes it; None for name and rank
    show: Callable[[Any], str] = str  # formats a value for the terminal and the report
    heading: str | None = None  # in the report; None for the title
    scaled: bool = False  # whether the report shows values in units of a common power of ten
    descending: bool = False  # whether the first click on the heading in the report puts the largest value on top
    in_table: bool = True  # whether the report has a column for it; if not, files only
    on_terminal: bool = True  # whether the terminal has a column for it

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
        if self.field == "effect":
            return format_effect(value, feature.effect_low, feature.effect_high)
        if self.type is bool:
            return "*" if value else ""
        return text.shorten(text.make_visible(value or text.DASH), LONG_NAME) if self.is_text else self.show(value)

    def to_json(self, feature: Feature) -> Any:
        """Return the value of a feature for JSON: None if there is none, names with invisible characters escaped."""
        value = getattr(feature, self.field)
        if value is None or (self.type is float and not math.isfinite(value)) or (self.type is int and value == 0):
            return None
        return text.make_visible(value) if self.is_text else self.type(value)

    def to_html(self, row: Mapping[str, Any], exponent: int) -> str:
        """Write the number of a row of `to_json` values for the report, in units of 10^exponent if it is scaled."""
        value = row[self.field]
        if self.field == "effect":
            return format_effect(value, row["effect_low"], row["effect_high"], space="\u00a0")
        return self.show(value) if not self.scaled or value is None else text.format_fixed(value * 10.0**-exponent, 2)


def _directions(source: RankingSource) -> Array:
    names = [source.effects.direction(j, source.target) or None for j in range(source.n_features)]
    return np.array(names, dtype=object)


def _partners(source: RankingSource) -> Array:
    names = source.table.names
    return np.array([names[j] if j >= 0 else None for j in source.tests.partner], dtype=object)


SELECTED = FeatureColumn(
    "selected", bool, "selected", lambda source: np.isin(np.arange(source.n_features), source.selected)
)
RANK = FeatureColumn("rank", int, "rank")
NAME = FeatureColumn("name", str, "feature")
_two_digits = partial(text.format_fixed, digits=2)
#: Columns besides name, rank and selection, in the order of all outputs; `value_columns` gives effects their titles.
VALUE_COLUMNS = (
    FeatureColumn("direction", str, "direction", _directions),
    FeatureColumn("effect", float, "effect", lambda source: source.effects.estimate, _two_digits, descending=True),
    FeatureColumn("effect_low", float, "effect_low", lambda source: source.effects.low, _two_digits, in_table=False),
    FeatureColumn("effect_high", float, "effect_high", lambda source: source.effects.high, _two_digits, in_table=False),
    FeatureColumn(
        "difference",
        float,
        "difference",
        lambda source: source.effects.difference,
        text.format_number,
        descending=True,
    ),
    FeatureColumn("p", float, "p", lambda source: source.tests.p, text.format_p_value),
    FeatureColumn("q", float, "q", lambda source: source.tests.q, text.format_p_value),
    FeatureColumn(
        "stability",
        float,
        "stability",
        lambda source: np.full(source.n_features, np.nan) if source.stability is None else source.stability.frequencies,
        text.format_percent,
        descending=True,
    ),
    FeatureColumn("partner", str, "partner", _partners),
    FeatureColumn(
        "contribution",
        float,
        "contribution",
        lambda source: source.last_values("contributions"),
        partial(text.format_number, digits=2),
        scaled=True,
        descending=True,
        on_terminal=False,
    ),
    FeatureColumn(
        "main",
        float,
        "main",
        lambda source: source.last_values("main"),
        text.format_fixed,
        heading="alone",
        descending=True,
        on_terminal=False,
    ),
    FeatureColumn(
        "interaction",
        float,
        "interaction",
        lambda source: source.last_values("interaction"),
        text.format_fixed,
        heading="together",
        descending=True,
        on_terminal=False,
    ),
    FeatureColumn(
        "step",
        int,
        "step",
        lambda source: source.tests.step,
        lambda step: str(step or text.DASH),
        on_terminal=False,
    ),
)
#: Column of files, if any value is missing.
MISSING = FeatureColumn("missing", int, "missing", lambda source: np.isnan(source.table.X).sum(axis=0))
#: Columns of numbers, which are stored as one matrix.
SCORE_COLUMNS = tuple(column for column in VALUE_COLUMNS if column.type is float)


def value_columns(measure: str, difference: str | None) -> tuple[FeatureColumn, ...]:
    """Return `VALUE_COLUMNS` with the titles of the effects of an outcome, see `Effects`.

    `difference` is None if the outcome has no differences, which leaves that column out.
    """
    title = measure.replace(" ", "_")
    titles = {"effect": title, "effect_low": f"{title}_low", "effect_high": f"{title}_high"}
    headings = {"effect": measure}
    if difference is not None:
        titles["difference"], headings["difference"] = difference.replace(" ", "_"), difference
    return tuple(
        replace(
            column, title=titles.get(column.field, column.title), heading=headings.get(column.field, column.heading)
        )
        for column in VALUE_COLUMNS
        if column.field != "difference" or difference is not None
    )


def rank_features(source: RankingSource, order: Array) -> tuple[Feature, ...]:
    """Return all features of the table in the order of `order`, with the values of all columns of the ranking."""
    columns = SELECTED, *VALUE_COLUMNS, MISSING
    fields = {column.field: column.values(source)[order].tolist() for column in columns if column.values is not None}
    return list_features(source.table.names, order.tolist(), fields)


def list_features(names: Sequence[str], order: Iterable[int], fields: Mapping[str, Any]) -> tuple[Feature, ...]:
    """Return the features of a ranking; `order` (columns) and the other `fields` have one entry per rank."""
    return tuple(
        Feature(name=names[j], column=j, rank=k + 1, **{field: values[k] for field, values in fields.items()})
        for k, j in enumerate(order)
    )
