"""`Sheet`, which every reader returns, and the checks and conversions that readers share."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from randsel._utils.files import check_size
from randsel._utils.typing import Array

#: Cells that stand for a missing value.
MISSING = frozenset({"", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "#N/A", "?"})
TRUTH_VALUES = {"true": 1.0, "false": 0.0}
#: Memory that the name of a row or column takes while a file is read, in bytes.
NAME_BYTES = 200


@dataclass(frozen=True)
class ReadOptions:
    """Options of a reader."""

    #: Largest size of the table in memory, and of unpacked text, in bytes.
    limit: int
    #: Columns and rows whose cells are wanted as text. None: all columns, which only text files support.
    names: frozenset[str] | None = frozenset()
    #: Layer of an h5ad file; None is X.
    layer: str | None = None


@dataclass(frozen=True)
class Sheet:
    """Contents of a file, before rows and columns are known to be samples, features or target."""

    path: Path
    #: Rows × columns of numbers; NaN where a cell is missing or not a number.
    values: Array
    #: Names of the columns.
    columns: list[str]
    #: Description of the format, for the notes.
    description: str
    #: Names of the rows, if the format stores them.
    row_names: list[str] | None = None
    #: Cells of the first column as text, if they may be names of rows.
    first_column: list[str] | None = None
    #: Columns requested by name or stored apart from `values`, one entry per row.
    named_columns: dict[str, Any] = field(default_factory=dict)
    #: Rows requested by name, one entry per column.
    named_rows: dict[str, list[str]] = field(default_factory=dict)
    #: Index of each column with a cell that is not a number -> message about the first such cell.
    bad_columns: dict[int, str] = field(default_factory=dict)
    #: The same for the rows of a transposed sheet.
    bad_rows: dict[int, str] = field(default_factory=dict)
    #: Cells of the first row as text.
    first_cells: list[str] = field(default_factory=list)
    #: None if the format does not determine the orientation.
    features_in_rows: bool | None = False
    #: Role (target, groups, batch, relevant, ids) -> column that has it unless the user names another.
    roles: dict[str, str] = field(default_factory=dict)
    #: Remarks of the reader, for the user.
    notes: tuple[str, ...] = ()


def parse_number(cell: str, *, decimal_comma: bool = False) -> float | None:
    """Return the number in a cell, NaN if the cell is missing, None if it is anything else."""
    text = cell.strip()
    if text in MISSING:
        return float("nan")
    if text.lower() in TRUTH_VALUES:
        return TRUTH_VALUES[text.lower()]
    if decimal_comma:
        text = "?" if "." in text else text.replace(",", ".")
    try:
        # float() would read 1_000 as a thousand
        return float(text.replace("_", "?"))
    except ValueError:
        return None


def describe_bad_cell(column: str, position: str, cell: str) -> str:
    """Return the error message about a cell that is not a number, with a remedy that fits its text."""
    shown = cell if len(cell) < 40 else f"{cell[:36]}..."
    remedy = "leave the column out (--drop-columns), or say that it holds names (--categorical)"
    if re.fullmatch(r"\d{4}-\d\d?-\d\d?([T ].*)?|\d\d?[./]\d\d?[./](\d\d){1,2}( .*)?", cell):
        remedy = "it looks like a date: turn dates into numbers, such as days since the first, or use --drop-columns"
    elif re.fullmatch(r"[-+]?\d{1,3}(,\d{3})+(\.\d+)?|[-+]?\d{1,3}(\.\d{3})+,\d+", cell):
        remedy = "write it without thousands separators and with a decimal point"
    elif re.fullmatch(r"[-+]?\d*,\d+", cell):
        remedy = "it looks like a decimal comma: write points, or separate the columns by semicolons"
    elif re.fullmatch(r"[-+]?\d*\.\d+", cell):
        remedy = "other cells have decimal commas: write all of them alike"
    return f"column {column!r} holds {shown!r} in {position}, not a number; {remedy}."


def check_distinct(names: list[str], path: Path, things: str) -> None:
    """Raise ValueError if two of the `things` (such as "columns") have the same name."""
    if len(set(names)) == len(names):
        return
    repeated = [name for name, times in Counter(names).items() if times > 1]
    more = f", and so are {len(repeated) - 1} other names" if len(repeated) > 1 else ""
    raise ValueError(f"{path} has several {things} called {repeated[0]!r}{more}; give each a name of its own.")


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
