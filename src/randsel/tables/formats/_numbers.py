"""Numbers in cells: missing values, truth values, percent signs, thousands separators, limits of detection."""

import re
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from randsel._utils.text import pluralise
from randsel._utils.typing import Array

#: Cells that stand for a missing value.
MISSING = frozenset({"", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "#N/A", "?"})
TRUTH_VALUES = {"true": 1.0, "false": 0.0}
#: Shown instead of a cell in the error message about a column with two kinds of cells.
MIXED_TRUTH, MIXED_PERCENT = "True or False among numbers", "a percent sign among plain numbers"
#: Cells that mean "below the limit of detection", in lower case, besides those that start with "<".
_BELOW_DETECTION = frozenset(
    {"lod", "bdl", "bld", "blod", "blq", "bloq", "bql", "lloq", "below lod", "below detection"}
)
#: 1,234 and 12,345.6, but not 0,123, which is a decimal comma.
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?")
#: 1.234,5 where commas are decimal.
_THOUSANDS_BY_POINTS = re.compile(r"[-+]?[1-9]\d{0,2}(\.\d{3})+,\d+")
#: 1.234, which is a thousand in a file that also has cells such as 1.234,5 or 1.234.567.
_POINTS = re.compile(r"[-+]?[1-9]\d{0,2}(\.\d{3})+(,\d+)?")
CERTAIN_POINTS = r"[-+]?[1-9]\d{0,2}(?:\.\d{3})*\.\d{3}(?:,\d+|\.\d{3})"
#: A cell with a decimal comma, and one whose comma cannot separate thousands.
DECIMAL_COMMA = r"[-+]?\d*,\d+"
CERTAIN_DECIMAL_COMMA = r"[-+]?(?:\d*,(?:\d{1,2}|\d{4,})|(?:0\d*|\d{4,})?,\d{3})"


def parse_number(cell: str, *, decimal_comma: bool = False) -> float | None:
    """Return the number in a cell, NaN if the cell is missing, None if it is anything else."""
    text = cell.strip()
    if text in MISSING:
        return float("nan")
    if text.lower() in TRUTH_VALUES:
        return TRUTH_VALUES[text.lower()]
    text = text.removesuffix("%").rstrip() or "?"
    if decimal_comma:
        text = text.replace(".", "" if _THOUSANDS_BY_POINTS.fullmatch(text) else "?").replace(",", ".")
    elif "," in text and _THOUSANDS.fullmatch(text):
        text = text.replace(",", "")
    try:
        # float() would read 1_000 as a thousand
        return float(text.replace("_", "?"))
    except ValueError:
        return None


def detection_limit(cell: str, *, decimal_comma: bool = False) -> float | None:
    """Return the limit that a cell such as <0.5 states, NaN if it states none (<LOD); None for any other cell."""
    if cell.startswith(("<", "≤")):
        limit = parse_number(cell.lstrip("<≤= "), decimal_comma=decimal_comma)
        return float("nan") if limit is None or limit < 0.0 else limit
    return float("nan") if cell.lower() in _BELOW_DETECTION else None


def has_other_decimals(cell: str) -> bool:
    """Return whether a cell that is not a number would be one if decimals were written in the other way."""
    return bool(re.fullmatch(rf"{DECIMAL_COMMA}|[-+]?\d*\.\d+", cell))


def describe_bad_cell(column: str, place: str, cell: str, *, is_text: bool = False, is_needed: bool = False) -> str:
    """Return the error message about a cell that is not a number.

    `is_text`: no cell of its column is a number. `is_needed`: the column cannot be left out.
    """
    shown = cell if len(cell) < 40 else f"{cell[:36]}..."
    quoted = f'"{cell[:20]}"'
    remedy = f"correct it, say that it means missing (--na {quoted}), or leave the column out (--drop-columns)"
    if is_needed:
        remedy = f"correct it, or say that it means missing (--na {quoted})"
    if is_text and is_needed:
        remedy = "no cell of the column is a number, and it is needed; correct it"
    elif is_text:
        remedy = (
            "the column is text: name it as a covariate (--covariates), as categories (--categorical) or as groups of "
            "samples (--groups), or leave it out (--drop-columns)"
        )
        if re.fullmatch(r"[ABCGT.0][/|]?[ABCGT.0]", cell):
            remedy = "it looks like a genotype: write how often one allele occurs (0, 1, 2), or read files of PLINK"
    if cell in (MIXED_TRUTH, MIXED_PERCENT):
        return f"column {column!r} holds {cell} in {place}; write all cells of a column alike."
    if detection_limit(cell) is not None:
        remedy = f"is it below the limit of detection? Choose --below-detection half-minimum, or --na {quoted}"
    elif re.fullmatch(r"\d{4}-\d\d?-\d\d?([T ].*)?|\d\d?[./]\d\d?[./](\d\d){1,2}( .*)?", cell):
        remedy = "it looks like a date: turn dates into numbers, such as days since the first, or use --drop-columns"
    elif re.fullmatch(DECIMAL_COMMA, cell):
        remedy = "it looks like a decimal comma: write a decimal point, or use semicolons between columns"
    elif has_other_decimals(cell):
        remedy = "other cells have decimal commas: replace the point by a comma, or remove it if it separates thousands"
    return f"column {column!r} holds {shown!r} in {place}, not a number; {remedy}."


@dataclass
class CellParser:
    """Parser of cells that are not plain numbers; it counts the cells of each kind, for `notes`."""

    na: tuple[str, ...] = ()
    below_detection: bool = False
    decimal_comma: bool = False
    thousands_by_points: bool = False  # among decimal commas: 1.234 is a thousand
    na_hits: Counter[str] = field(default_factory=Counter)
    n_thousands: int = 0  # cells with thousands separators
    thousands_example: str = ""
    limits: Counter[str] = field(default_factory=Counter)  # cells below the limit of detection

    def parse(self, cell: str) -> float | None:
        """Return the number in a cell, NaN if it is missing or below detection, None if it is anything else."""
        if self.below_detection and detection_limit(cell) is not None:
            self.limits[cell] += 1
            return float("nan")
        if cell in self.na:
            self.na_hits[cell] += 1
            return float("nan")
        value = parse_number(self.without_points(cell), decimal_comma=self.decimal_comma)
        has_separators = "." in cell if self.decimal_comma else "," in cell
        if value is not None and has_separators:
            self.n_thousands += 1
            self.thousands_example = self.thousands_example or cell
        return value

    def without_points(self, cell: str) -> str:
        """Return a cell without points that certainly separate thousands."""
        pattern = _POINTS if self.thousands_by_points else _THOUSANDS_BY_POINTS
        return cell.replace(".", "") if self.decimal_comma and pattern.fullmatch(cell) else cell

    def clear_missing(self, cells: list[str]) -> list[str]:
        """Return cells that are kept as text, empty where `na` says that they are missing."""
        if not self.na:
            return cells
        self.na_hits.update(cell for cell in cells if cell in self.na)
        return ["" if cell in self.na else cell for cell in cells]

    def clear_numbers(self, values: Array) -> None:
        """Set numbers that `na` says are missing, such as -999, to NaN, in place."""
        for token in self.na:
            number = parse_number(token, decimal_comma=self.decimal_comma)
            if number is not None and not np.isnan(number):
                is_missing = values == number
                self.na_hits[token] += int(is_missing.sum())
                values[is_missing] = np.nan

    def notes(self) -> list[str]:
        """Return notes about cells that were read as numbers, as missing or as below detection."""
        notes = []
        if self.decimal_comma:
            notes.append("Decimals are written with commas: 1,5 was read as 1.5.")
        if self.n_thousands:
            example = self.thousands_example
            cells_have = pluralise(self.n_thousands, "1 cell has", f"{self.n_thousands} cells have")
            number = parse_number(self.without_points(example), decimal_comma=self.decimal_comma)
            notes.append(f"{cells_have} thousands separators: {example} was read as {number:.15g}.")
        if self.na:
            counts = ", ".join(f"{token!r} in {_count_cells(self.na_hits[token])}" for token in self.na)
            notes.append(f"Read as missing (--na): {counts}.")
        if self.limits:
            counts = ", ".join(f"{cell!r} in {_count_cells(count)}" for cell, count in self.limits.most_common(5))
            more = f" and {len(self.limits) - 5} others" if len(self.limits) > 5 else ""
            notes.append(f"Below the limit of detection: {counts}{more}.")
        return notes


def _count_cells(count: int) -> str:
    return pluralise(count, "1 cell", f"{count} cells")
