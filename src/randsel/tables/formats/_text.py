"""Text files: encoding, separator, decimal commas; parsed block by block, so the text is never in memory as a whole."""

import csv
import gzip
import io
import re
import zlib
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from randsel._utils.files import check_size
from randsel._utils.optional import optional
from randsel._utils.typing import Array
from randsel.tables.formats._sheet import (
    TRUTH_VALUES,
    ReadOptions,
    Sheet,
    check_distinct,
    check_shape,
    describe_bad_cell,
    parse_number,
)

#: Maximum length of a line, in characters; a longer one is damaged or malicious.
LONGEST_LINE = 1 << 26
#: Maximum number of lines that a cell in quotes may span.
MOST_LINES = 100_000
#: Characters that are converted to numbers at a time.
_BLOCK = 1 << 22
_SEPARATORS = {"\t": "tabs", ",": "commas", ";": "semicolons", " ": "spaces"}
#: First bytes of a file -> encoding of its text; first bytes of another format -> advice.
_BYTE_ORDER_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}
_OTHER_FORMATS = {
    b"PK\x03\x04": "a zip archive or an Excel workbook; export the sheet as CSV",
    b"PAR1": "a Parquet file; name it .parquet",
    b"\x89HDF": "an HDF5 file; name it .h5ad if it is AnnData",
    b"MATLAB": "a MATLAB file; name it .mat",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; export the sheet as CSV",
}


def read_text(path: Path, options: ReadOptions) -> Sheet:
    """Read a table with a header from a text file, plain or gzipped."""
    notes: list[str] = []
    with open_records(path, options.limit, notes) as records:
        start = list(islice(records, 2))
        if not start:
            raise ValueError(f"{path} is empty: it has no line with anything in it.")
        separator = _find_separator([text for _, text in start])
        check_shape(path, (1, start[0][1].count(separator) + 1), options.limit)
        header = [name.strip() for name in split_record(start[0][1], separator)]
        if len(start) < 2:
            raise ValueError(f"{path} has a header of {len(header)} columns, but it has no rows.")
        first_cells = [cell.strip() for cell in split_record(start[1][1], separator)]
        if len(first_cells) == len(header) + 1:
            header = ["", *header]
            notes.append("The header has a name less than the rows have entries, so the first are names of rows.")
        check_distinct(header, path, "columns")
        names = frozenset(header) if options.names is None else options.names
        grid = CellGrid(path, header, separator, names, options.limit)
        grid.fill(chain(start[1:], records))
    if grid.decimal_comma:
        notes.append("Decimals are written with commas: 1,5 was read as 1.5.")
    if grid.truth_columns:
        notes.append(f"{len(grid.truth_columns)} columns hold True and False, read as 1 and 0.")
    return grid.to_sheet(f"text, {len(header)} columns separated by {_SEPARATORS[separator]}", notes, first_cells)


# ---------------------------------------------------------------- lines


@contextmanager
def open_records(path: Path, limit: int, notes: list[str]) -> Iterator[Iterator[tuple[int, str]]]:
    """Open a text file as pairs of line number and record; a damaged file raises ValueError."""
    try:
        with path.open("rb") as file:
            gzipped = file.read(2) == b"\x1f\x8b"
        if not gzipped and path.suffix == ".gz":
            raise ValueError(
                f"{path} is named .gz but is not compressed, it may be cut off or damaged; rename it if it is text."
            )
        encoding = _find_encoding(path, gzipped, limit)
        if not encoding.startswith("utf-8"):
            known = {"cp1252": "Windows-1252, as it is not valid UTF-8"}
            notes.append(f"The text was read as {known.get(encoding, encoding.upper())}.")
        with _open_text(path, gzipped, encoding, limit) as text:
            yield _records(text, path)
    except UnicodeDecodeError:
        msg = f"{path} is not text in UTF-8, nor in Windows-1252; save it as CSV UTF-8."
    except (csv.Error, EOFError, gzip.BadGzipFile, zlib.error) as error:
        msg = f"{path} cannot be read as a table, it may be cut off or damaged: {error}."
    else:
        return
    raise ValueError(msg)


class _LimitedFile(io.RawIOBase):
    """A file that raises ValueError after `limit` bytes, so that a small archive cannot fill the memory."""

    def __init__(self, file: Any, path: Path, limit: int) -> None:
        super().__init__()
        self._file, self._path, self._limit, self._n_read = file, path, limit, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count: int = self._file.readinto(buffer)
        self._n_read += count
        check_size(self._path, self._n_read, self._limit, "unpacks to more than")
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def _open_bytes(path: Path, gzipped: bool) -> Any:
    return gzip.open(path, "rb") if gzipped else path.open("rb")


def _open_text(path: Path, gzipped: bool, encoding: str, limit: int) -> io.TextIOWrapper:
    limited = _LimitedFile(_open_bytes(path, gzipped), path, limit)
    return io.TextIOWrapper(io.BufferedReader(limited, 1 << 20), encoding=encoding)


def _find_encoding(path: Path, gzipped: bool, limit: int) -> str:
    """Return the encoding of the byte order mark; without one UTF-8 if the whole text is valid, else Windows-1252."""
    with _open_bytes(path, gzipped) as file:
        head: bytes = file.read(1 << 16)
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if head.startswith(mark):
            return encoding
    other = next((advice for mark, advice in _OTHER_FORMATS.items() if head.startswith(mark)), None)
    if other or b"\0" in head:
        other = other or "binary, or text in UTF-16 without a mark; save it as CSV UTF-8"
        raise ValueError(f"{path} is not a text file: it is {other}.")
    try:
        with _open_text(path, gzipped, "utf-8", limit) as text:
            while text.read(_BLOCK):
                pass
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def _records(file: io.TextIOWrapper, path: Path) -> Iterator[tuple[int, str]]:
    """Yield records that are not blank; a cell in quotes may span several lines."""
    line_number = 0
    while line := file.readline(LONGEST_LINE):
        line_number += 1
        start, lines, length, in_quotes = line_number, [line], len(line), line.count('"') % 2
        while in_quotes and length < LONGEST_LINE:
            line = file.readline(LONGEST_LINE)
            if not line or len(lines) > MOST_LINES:
                limit = f", not within {MOST_LINES} lines," if line else ""
                raise ValueError(
                    f"{path}: the quotation mark in line {start}{limit} is never closed; remove it or double it."
                )
            lines.append(line)
            line_number, length, in_quotes = line_number + 1, length + len(line), (in_quotes + line.count('"')) % 2
        if length >= LONGEST_LINE:
            raise ValueError(
                f"{path}: line {start} has more than {LONGEST_LINE} characters; is it a table, and are quotes closed?"
            )
        record = "".join(lines)
        if record.strip():
            yield start, record.rstrip("\n")


def _find_separator(start: list[str]) -> str:
    """Return tab if the header has one, else the more frequent of semicolon and comma, else space if both rows fit."""
    header = re.sub(r'"[^"]*"', "", start[0])
    if "\t" in header:
        return "\t"
    if ";" in header or "," in header:
        return ";" if header.count(";") > header.count(",") else ","
    widths = [len(split_record(text, " ")) for text in start]
    return " " if len(widths) == 2 and widths[0] > 1 and widths[1] - widths[0] in (0, 1) else ","


def split_record(record: str, separator: str) -> list[str]:
    """Return the cells of a record."""
    if '"' in record:
        return next(csv.reader([record.strip(" ")], delimiter=separator, skipinitialspace=True))
    return record.split() if separator == " " else record.split(separator)


# ---------------------------------------------------------------- cells


class CellGrid:
    """Parser of records: collects numbers, the cells of columns and rows in `names`, and messages about other text."""

    def __init__(self, path: Path, header: list[str], separator: str, names: frozenset[str], limit: int) -> None:
        self.path, self.header, self.separator, self.names, self.limit = path, header, separator, names, limit
        self.decimal_comma = False
        #: Columns with True or False: first line, number of such cells.
        self.truth_columns: dict[int, list[int]] = {}
        self._text_columns = {j: list[str]() for j, name in enumerate(header) if j == 0 or name in names}
        self._named_rows: dict[str, list[str]] = {}
        self._bad_columns: dict[int, str] = {}
        self._numbers, self._line_numbers = array("d"), list[int]()
        try:
            self._polars: Any = optional("polars", extra="files", purpose="Reading wide tables fast")
        except ImportError:
            self._polars = None

    def fill(self, records: Iterable[tuple[int, str]]) -> None:
        """Parse all records."""
        for count, (line_numbers, texts) in enumerate(_blocks(records)):
            if count == 0 and self.separator == ";":
                pattern = re.compile(r"(^|;)[ \t]*-?\d*,\d+[ \t]*(;|$)", re.MULTILINE)
                self.decimal_comma = any(map(pattern.search, texts))
            self._add_block(line_numbers, texts)

    def to_sheet(self, description: str, notes: Iterable[str], first_cells: Iterable[str] = ()) -> Sheet:
        """Return what was parsed; the first column both as numbers and as text."""
        values = np.frombuffer(self._numbers, dtype=np.float64).reshape(-1, len(self.header))
        for i, cell in enumerate(self._text_columns[0]):
            value = parse_number(cell, decimal_comma=self.decimal_comma)
            values[i, 0] = np.nan if value is None else value
            if value is None and 0 not in self._bad_columns:
                self._bad_columns[0] = describe_bad_cell(self.header[0], f"line {self._line_numbers[i]}", cell)
        for j, (line, count) in self.truth_columns.items():
            # True, False and 3 in one column are not truth values
            if count < np.count_nonzero(~np.isnan(values[:, j])):
                message = describe_bad_cell(self.header[j], f"line {line}", "True or False beside numbers")
                self._bad_columns.setdefault(j, message)
        text_columns = {self.header[j]: cells for j, cells in self._text_columns.items()}
        return Sheet(
            self.path,
            values,
            self.header,
            description,
            first_column=self._text_columns[0],
            named_columns={n: self._with_points(cells) for n, cells in text_columns.items() if n in self.names},
            named_rows={name: self._with_points(cells) for name, cells in self._named_rows.items()},
            bad_columns=self._bad_columns,
            first_cells=list(first_cells),
            features_in_rows=None,
            notes=tuple(notes),
        )

    def _with_points(self, cells: list[str]) -> list[str]:
        """Replace decimal commas by points in cells kept as text, because they may be a numeric target."""
        if not self.decimal_comma:
            return cells
        return [cell.replace(",", ".") if re.fullmatch(r"[-+]?\d*,\d+", cell) else cell for cell in cells]

    def _add_block(self, line_numbers: list[int], texts: list[str]) -> None:
        width = len(self.header)
        cells = self._split(line_numbers, texts)
        for j, column in self._text_columns.items():
            column.extend(cell.strip() for cell in cells[j::width])
        row_names = self._text_columns[0][-len(texts) :]
        named_rows = {i: name for i, name in enumerate(row_names) if name in self.names}
        for i, name in named_rows.items():
            self._named_rows[name] = [cell.strip() for cell in cells[i * width : (i + 1) * width]]
        values, unparsed = self._to_floats(cells)
        for position in unparsed:
            i, j = divmod(position, width)
            if j not in self._text_columns and i not in named_rows:
                values[position] = self._parse_cell(cells[position], j, line_numbers[i])
        self._line_numbers.extend(line_numbers)
        self._numbers.frombytes(values.tobytes())
        check_size(self.path, 8 * len(self._numbers), self.limit)

    def _split(self, line_numbers: list[int], texts: list[str]) -> Any:
        """Return the cells of all records in one list, or in one Series of polars."""
        if self.separator != " ":
            # refuse a line with too many separators before it is split into millions of cells
            plain = [(line, text) for line, text in zip(line_numbers, texts, strict=True) if '"' not in text]
            counts = [text.count(self.separator) + 1 for _, text in plain]
            self._check_widths([line for line, _ in plain], counts)
            if self._polars is not None and len(plain) == len(texts):
                return self._polars.Series(texts).str.split(self.separator).explode()
        rows = [split_record(text, self.separator) for text in texts]
        self._check_widths(line_numbers, [len(cells) for cells in rows])
        cells = list(chain.from_iterable(rows))
        return cells if self._polars is None else self._polars.Series(cells, dtype=self._polars.String)

    def _check_widths(self, line_numbers: list[int], widths: list[int]) -> None:
        for line, width in zip(line_numbers, widths, strict=True):
            if width != len(self.header):
                raise ValueError(
                    f"{self.path} cannot be read as a table: the header has {len(self.header)} columns, and line "
                    f"{line} has {width} entries; look for a missing cell, or for a separator inside one that needs "
                    "quotes."
                )

    def _parse_cell(self, cell: str, j: int, line: int) -> float:
        """Parse a cell that the fast conversion could not; return NaN and store a message if it is not a number."""
        value = parse_number(cell, decimal_comma=self.decimal_comma)
        if value is None:
            if j not in self._bad_columns:
                self._bad_columns[j] = describe_bad_cell(self.header[j], f"line {line}", cell.strip())
            return float("nan")
        if cell.strip().lower() in TRUTH_VALUES:
            self.truth_columns.setdefault(j, [line, 0])[1] += 1
        return value

    def _to_floats(self, cells: Any) -> tuple[Array, list[int]]:
        """Return numbers, and the positions of cells that need `_parse_cell`."""
        if self._polars is None:
            return self._to_floats_without_polars(cells)
        if self.decimal_comma:
            cells = cells.str.replace(".", "?", literal=True).str.replace(",", ".", literal=True)
        numbers = cells.cast(self._polars.Float64, strict=False)
        return numbers.fill_null(float("nan")).to_numpy().copy(), numbers.is_null().arg_true().to_list()

    def _to_floats_without_polars(self, all_cells: list[str]) -> tuple[Array, list[int]]:
        width, unparsed = len(self.header), list[int]()
        values = np.full(len(all_cells), np.nan)
        for start in range(0, len(all_cells), width):
            cells = all_cells[start : start + width]
            for j in self._text_columns:
                cells[j] = "nan"
            try:
                # a whole row at once, unless float() would accept what `parse_number` does not
                if self.decimal_comma or any("_" in cell for cell in cells):
                    raise ValueError
                values[start : start + width] = list(map(float, cells))
            except ValueError:
                for j, cell in enumerate(cells):
                    value = None if self.decimal_comma else parse_number(cell)
                    if value is None or cell.strip().lower() in TRUTH_VALUES:
                        unparsed.append(start + j)
                    else:
                        values[start + j] = value
        return values, unparsed


def _blocks(records: Iterable[tuple[int, str]]) -> Iterator[tuple[list[int], list[str]]]:
    """Yield line numbers and texts of records, about `_BLOCK` characters at a time."""
    line_numbers, texts, size = list[int](), list[str](), 0
    for line, text in records:
        line_numbers.append(line)
        texts.append(text)
        size += len(text)
        if size > _BLOCK:
            yield line_numbers, texts
            line_numbers, texts, size = [], [], 0
    if texts:
        yield line_numbers, texts
