"""`CellGrid`, which turns rows of cells into numbers block by block, so that text is never in memory as a whole."""

import re
from array import array
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from randsel._utils.files import check_size
from randsel._utils.text import optional, pluralise
from randsel._utils.typing import Array
from randsel.tables.formats._id_names import find_id_names
from randsel.tables.formats._numbers import (
    DECIMAL_COMMA,
    MIXED_PERCENT,
    MIXED_TRUTH,
    TRUTH_VALUES,
    CellParser,
    detection_limit,
    parse_number,
)
from randsel.tables.formats._sheet import ReadOptions, Sheet, check_distinct

#: Maximum number of rows of text that are stored; with more, their cells count as errors.
_MAX_TEXT_ROWS = 1000


class CellGrid:
    """Parser of cells: collects numbers, the cells of columns and rows in `names`, and places of other text."""

    def __init__(self, path: Path, header: list[str], options: ReadOptions, line_word: str = "line") -> None:
        self.path, self.header, self.limit, self.line_word = path, header, options.limit, line_word
        self.names = frozenset(header) if options.names is None else options.names
        self.parser = CellParser(options.na, options.below_detection)
        self._text_columns = {j: list[str]() for j, name in enumerate(header) if name in self.names}
        likely = [j for j, name in enumerate(header) if name == options.likely_ids]
        ids = [j for j in {*find_id_names(header), *likely} if j > 0 and j not in self._text_columns]
        self._id_columns = {j: list[str]() for j in ids if header.count(header[j]) == 1}
        self._named_rows: dict[str, list[str]] = {}
        self._bad_columns: dict[int, tuple[str, str]] = {}
        self._text_rows: dict[int, dict[int, str]] = {}
        #: Positions (row × width + column) of cells with True or False, and with a percent sign.
        self._truth_cells, self._percent_cells = array("q"), array("q")
        self._below_detection: list[tuple[int, int, float]] = []
        self._numbers, self._first_column, self._lines = array("d"), list[str](), list[int]()
        id_index = next((j for j in self._text_columns if header[j] == options.id_column), None)
        #: Names of the rows: of the features, if these are in rows.
        self._row_names = self._first_column if id_index is None else self._text_columns[id_index]
        self.only = options.only
        try:
            self.polars: Any = optional("polars", extra="files", purpose="Reading wide tables fast")
        except ImportError:
            self.polars = None

    def check_requested_once(self) -> None:
        """Raise ValueError if a column that is wanted as text occurs twice."""
        indices = [j for j, name in enumerate(self.header) if name in self.names]
        names = [self.header[j] for j in indices]
        check_distinct(names, self.path, "columns", lambda i: f"column {indices[i] + 1}")

    @property
    def is_empty(self) -> bool:
        """Whether no row was added yet."""
        return not self._lines

    def add_rows(self, lines: list[int], rows: Iterable[list[str]]) -> None:
        """Parse rows that are already split into cells."""
        cells = list(chain.from_iterable(rows))
        self.add_cells(lines, cells if self.polars is None else self.polars.Series(cells, dtype=self.polars.String))

    def add_cells(self, lines: list[int], cells: Any) -> None:
        """Parse the cells of some rows, in one list or in one Series of polars; `lines` are numbers of the rows."""
        width, n_before = len(self.header), len(self._lines)
        row_names = [cell.strip() for cell in cells[::width]]
        self._lines.extend(lines)
        self._first_column.extend(row_names)
        for j, column in (*self._text_columns.items(), *self._id_columns.items()):
            column.extend(cell.strip() for cell in cells[j::width])
        named_rows = {i: name for i, name in enumerate(row_names) if name in self.names}
        for i, name in named_rows.items():
            self._named_rows[name] = [cell.strip() for cell in cells[i * width : (i + 1) * width]]
        values, unparsed = self._to_floats(cells)
        bad_cells: dict[int, dict[int, str]] = {}
        for position in unparsed:
            i, j = divmod(position, width)
            if j in self._text_columns:
                continue
            cell = cells[position].strip()
            is_named = i in named_rows and j > 0  # a named row, such as the target, may be text
            value = parse_number(cell, decimal_comma=self.parser.decimal_comma) if is_named else self.parser.parse(cell)
            values[position] = np.nan if value is None else value
            if is_named:
                continue
            if value is None:
                bad_cells.setdefault(i, {})[j] = cell
            elif j > 0:
                self._note_kind(n_before + i, j, cell)
        self._add_bad_cells(n_before, bad_cells, values.reshape(-1, width))
        self._numbers.frombytes(values.tobytes())
        check_size(self.path, 8 * len(self._numbers), self.limit)

    def _note_kind(self, row: int, j: int, cell: str) -> None:
        """Record a cell that needs a note or a check: a truth value, a percentage, a value below detection."""
        if cell.endswith("%"):
            self._percent_cells.append(row * len(self.header) + j)
        elif cell.lower() in TRUTH_VALUES:
            self._truth_cells.append(row * len(self.header) + j)
        elif self.parser.below_detection:
            limit = detection_limit(cell, decimal_comma=self.parser.decimal_comma)
            self._below_detection += [] if limit is None else [(row, j, limit)]

    def _add_bad_cells(self, n_before: int, bad_cells: dict[int, dict[int, str]], values: Array) -> None:
        """Record cells with text, and separately rows without any number, because they may hold units or categories."""
        for i, cells in bad_cells.items():
            is_number = ~np.isnan(values[i])
            is_number[[0, *self._text_columns]] = False
            is_text_row = any(j > 0 for j in cells) and not is_number.any()
            if is_text_row and len(self._text_rows) < _MAX_TEXT_ROWS:
                self._text_rows[n_before + i] = cells
            for j, cell in cells.items():
                if j == 0 or (n_before + i not in self._text_rows and self._is_wanted(n_before + i, j)):
                    self._bad_columns.setdefault(j, (f"{self.line_word} {self._lines[n_before + i]}", cell))

    def _is_wanted(self, row: int, column: int) -> bool:
        """Return whether the column or the row of a cell is a wanted feature; always true if all are wanted."""
        return not self.only or self.header[column] in self.only or self._row_names[row] in self.only

    def to_sheet(self, description: str, notes: list[str], first_cells: Iterable[str] = ()) -> Sheet:
        """Return what was parsed; the first column both as numbers and as text."""
        values = np.frombuffer(self._numbers, dtype=np.float64).reshape(-1, len(self.header))
        self.parser.clear_numbers(values)
        self._check_mixtures(values, self._truth_cells, MIXED_TRUTH)
        self._check_mixtures(values, self._percent_cells, MIXED_PERCENT)
        named_columns = {self.header[j]: self._clean(cells) for j, cells in self._text_columns.items()}
        named_rows = {name: self._clean(cells) for name, cells in self._named_rows.items()}
        id_columns = {self.header[j]: cells for j, cells in {**self._id_columns, 0: self._first_column}.items()}
        return Sheet(
            self.path,
            values,
            self.header,
            description,
            first_column=self._first_column,
            named_columns=named_columns,
            named_rows=named_rows,
            id_columns=id_columns,
            bad_columns=self._bad_columns,
            text_rows=self._text_rows,
            below_detection=self._below_detection,
            first_cells=list(first_cells),
            lines=self._lines,
            line_word=self.line_word,
            features_in_rows=None,
            notes=(*notes, *self._notes()),
        )

    def _notes(self) -> list[str]:
        notes = self.parser.notes()
        if self._truth_cells:
            n_columns = len(np.unique(np.array(self._truth_cells) % len(self.header)))
            columns_hold = pluralise(n_columns, "1 column holds", f"{n_columns} columns hold")
            notes.append(f"{columns_hold} True and False, read as 1 and 0.")
        if self._percent_cells:
            n_cells = len(self._percent_cells)
            cells_have = pluralise(n_cells, "1 cell has", f"{n_cells} cells have")
            notes.append(f"{cells_have} a percent sign: 12% was read as 12.")
        return notes

    def _check_mixtures(self, values: Array, positions: Sequence[int], content: str) -> None:
        """Record columns in which special cells and plain numbers are mixed as columns with text.

        Only cells whose row is mixed as well count: if features are in rows, their rows are of one kind.
        """
        if not positions:
            return
        rows, columns = np.divmod(np.array(positions), len(self.header))
        is_number = ~np.isnan(values)
        is_number[:, 0] = False
        # one cell does not show that a row is a feature
        is_mixed_row = np.bincount(rows, minlength=len(values)) < np.maximum(is_number.sum(axis=1), 2)
        is_mixed_column = np.bincount(columns, minlength=len(self.header)) < is_number.sum(axis=0)
        is_mixed = is_mixed_row[rows] & is_mixed_column[columns]
        for i, j in zip(rows[is_mixed].tolist(), columns[is_mixed].tolist(), strict=True):
            if self._is_wanted(i, j):
                self._bad_columns.setdefault(j, (f"{self.line_word} {self._lines[i]}", content))

    def _clean(self, cells: list[str]) -> list[str]:
        """Return cells kept as text, without missing ones, and with decimal points, because they may be a target."""
        cells = self.parser.clear_missing(cells)
        if not self.parser.decimal_comma:
            return cells
        cells = list(map(self.parser.without_points, cells))
        number = re.compile(f"[<≤= ]*{DECIMAL_COMMA}")  # also a limit of detection
        return [cell.replace(",", ".") if number.fullmatch(cell) else cell for cell in cells]

    def _to_floats(self, cells: Any) -> tuple[Array, list[int]]:
        """Return numbers, and the positions of cells that need `parse_number`."""
        decimal_comma = self.parser.decimal_comma
        if self.polars is not None:
            if decimal_comma:
                cells = cells.str.replace(".", "?", literal=True).str.replace(",", ".", literal=True)
            numbers = cells.cast(self.polars.Float64, strict=False)
            return numbers.fill_null(float("nan")).to_numpy().copy(), numbers.is_null().arg_true().to_list()
        values, unparsed, width = np.full(len(cells), np.nan), list[int](), len(self.header)
        for start in range(0, len(cells), width):
            unparsed.append(start)  # the first cell, often a name, must not make the whole row slow
            row = cells[start : start + width]
            for j in (0, *self._text_columns):
                row[j] = "nan"
            try:
                # a whole row at once, unless float() would accept what `parse_number` does not
                if decimal_comma or any("_" in cell for cell in row):
                    raise ValueError
                values[start : start + width] = list(map(float, row))
            except ValueError:
                unparsed.extend(range(start + 1, start + width))
        return values, unparsed
