"""`Sheet`, which every reader returns, the options of readers, and checks that readers share."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from randsel._utils.files import check_size
from randsel._utils.text import pluralise
from randsel._utils.typing import Array
from randsel.tables.formats._numbers import describe_bad_cell

#: Memory that the name of a row or column takes while a file is read, in bytes.
NAME_BYTES = 200


@dataclass(frozen=True)
class ReadOptions:
    """Options of a reader."""

    limit: int  # largest size of the table in memory, and of unpacked text, in bytes
    names: frozenset[str] | None = frozenset()  # columns and rows wanted as text; None: all columns
    layer: str | None = None  # of an h5ad file; None is X
    sheet: str | None = None  # of a workbook; None is the first
    skip_rows: int | None = None  # lines above the header; None: detected
    na: tuple[str, ...] = ()  # cells that stand for a missing value, besides `MISSING`
    below_detection: bool = False  # whether cells such as <LOD are collected, instead of being refused
    only: frozenset[str] = frozenset()  # features that are wanted, other columns may hold anything; empty: all
    id_column: str | None = None  # column with names of samples, or of features if these are in rows
    likely_ids: str | None = None  # column whose text is kept as names of samples, if it exists


@dataclass(frozen=True)
class Sheet:
    """Contents of a file, before rows and columns are known to be samples, features or target."""

    path: Path
    values: Array  # rows × columns of numbers; NaN where a cell is missing or not a number
    columns: list[str]  # names
    description: str  # of the format, for the notes
    row_names: list[str] | None = None  # if the format stores them
    first_column: list[str] | None = None  # as text, if its cells may be names of rows
    named_columns: dict[str, Any] = field(default_factory=dict)  # requested by name, or stored apart from `values`
    named_rows: dict[str, list[str]] = field(default_factory=dict)  # requested by name
    id_columns: dict[str, list[str]] = field(default_factory=dict)  # text of columns that may hold names of samples
    bad_columns: dict[int, tuple[str, str]] = field(default_factory=dict)  # index -> place and first cell with text
    bad_rows: dict[int, tuple[str, str]] = field(default_factory=dict)  # the same for the rows of a transposed sheet
    text_rows: dict[int, dict[int, str]] = field(default_factory=dict)  # row without any number -> column -> cell
    below_detection: list[tuple[int, int, float]] = field(default_factory=list)  # row, column, limit if stated or NaN
    first_cells: list[str] = field(default_factory=list)  # first row as text
    lines: list[int] = field(default_factory=list)  # where the rows are in the file; empty: 1, 2, ...
    line_word: str = "row"  # what `lines` counts
    column_lines: list[int] = field(default_factory=list)  # of a transposed sheet: where its columns are in the file
    features_in_rows: bool | None = False  # None if the format does not determine the orientation
    roles: dict[str, str] = field(default_factory=dict)  # target, groups, ... -> column, unless the user names another
    notes: tuple[str, ...] = ()  # remarks of the reader, for the user

    def row_place(self, i: int) -> str:
        """Return where a row is in the file, such as "line 3"."""
        return f"{self.line_word} {self.lines[i] if self.lines else i + 1}"

    def column_place(self, j: int) -> str:
        """Return where a column is in the file: its number, or its line if features were in rows."""
        return f"{self.line_word} {self.column_lines[j]}" if self.column_lines else f"column {j + 1}"

    def describe_text(self, j: int, *, is_needed: bool = False) -> str:
        """Return the error message about a column with text; `is_needed` if it cannot be left out."""
        is_text = bool(np.isnan(self.values[:, j]).all())
        return describe_bad_cell(self.columns[j], *self.bad_columns[j], is_text=is_text, is_needed=is_needed)


def check_distinct(
    names: list[str],
    path: Path,
    plural: str,
    locate: Callable[[int], str] = "entry {}".format,
    remedy: str = "give each a name of its own",
) -> None:
    """Raise ValueError if two names are equal.

    `plural` is the word for what is named, such as "columns"; `locate` describes where a name is in the file.
    """
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        first, second = [i for i, name in enumerate(names) if name == repeated[0]][:2]
        n_others = len(repeated) - 1
        others = pluralise(n_others, "1 other name is", f"{n_others} other names are")
        more = f" ({others} repeated, too)" if n_others else ""
        raise ValueError(
            f"{path} has several {plural} called {repeated[0]!r}, the first in {locate(first)} and {locate(second)}"
            f"{more}; {remedy}."
        )


def check_shape(path: Path, shape: tuple[int, ...], limit: int, itemsize: int = 8) -> None:
    """Raise ValueError if a table of this shape, including the names of rows and columns, is larger than the limit."""
    rows, columns = shape
    check_size(path, rows * columns * itemsize + (rows + columns) * NAME_BYTES, limit)


def to_float_matrix(values: Array) -> Array:
    """Return values in C order as float64, or as float32 if they are float32."""
    return np.ascontiguousarray(values, dtype=np.float32 if values.dtype == np.float32 else np.float64)


def to_text(values: Iterable[Any]) -> list[str]:
    """Return entries as text; bytes that are not UTF-8 are shown with backslashes."""
    return [value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value) for value in values]
