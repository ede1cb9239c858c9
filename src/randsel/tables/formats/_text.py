"""`Sheet`, which every reader returns, what readers share, and the reader of text, plain or of GEO.

Text is parsed block by block, so it is never in memory as a whole.
"""

import codecs
import csv
import gzip
import io
import re
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from randsel._utils.files import check_size, readable
from randsel._utils.text import optional
from randsel._utils.typing import Array

#: Cells that stand for a missing value.
MISSING = frozenset({"", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "#N/A", "?"})
_TRUTH_VALUES = {"true": 1.0, "false": 0.0}
#: Memory that the name of a row or column takes while a file is read, in bytes.
NAME_BYTES = 200
#: Maximum length of a line, in characters; a longer one is damaged or malicious.
LONGEST_LINE = 1 << 26
#: Maximum number of lines that a cell in quotes may span.
MOST_LINES = 100_000
#: Characters that are converted to numbers at a time.
_BLOCK = 1 << 22
_SEPARATORS = {"\t": "tabs", ",": "commas", ";": "semicolons", " ": "spaces"}
#: A number with a decimal comma between semicolons.
_DECIMAL_COMMA = re.compile(r"(^|;)[ \t]*-?\d*,\d+[ \t]*(;|$)", re.MULTILINE)
#: First bytes of a file -> encoding of its text; first bytes of another format -> advice.
_BYTE_ORDER_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}
_OTHER_FORMATS = {
    b"PK\x03\x04": "a zip archive or an Excel workbook; export the sheet as CSV",
    b"PAR1": "a Parquet file; name it .parquet",
    b"\x89HDF": "an HDF5 file; name it .h5ad if it is AnnData",
    b"MATLAB": "a MATLAB file; name it .mat",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; export the sheet as CSV",
}


@dataclass(frozen=True)
class ReadOptions:
    """Options of a reader."""

    limit: int  # largest size of the table in memory, and of unpacked text, in bytes
    names: frozenset[str] | None = frozenset()  # columns and rows wanted as text; None: all columns (text files only)
    layer: str | None = None  # of an h5ad file; None is X


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
    bad_columns: dict[int, str] = field(default_factory=dict)  # index -> message about the first cell with text
    bad_rows: dict[int, str] = field(default_factory=dict)  # the same for the rows of a transposed sheet
    first_cells: list[str] = field(default_factory=list)  # first row as text
    features_in_rows: bool | None = False  # None if the format does not determine the orientation
    roles: dict[str, str] = field(default_factory=dict)  # target, groups, ... -> column, unless the user names another
    notes: tuple[str, ...] = ()  # remarks of the reader, for the user


def parse_number(cell: str, *, decimal_comma: bool = False) -> float | None:
    """Return the number in a cell, NaN if the cell is missing, None if it is anything else."""
    text = cell.strip()
    if text in MISSING:
        return float("nan")
    if text.lower() in _TRUTH_VALUES:
        return _TRUTH_VALUES[text.lower()]
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
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
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


def read_text(path: Path, options: ReadOptions) -> Sheet:
    """Read a table with a header, or a GEO series matrix, from a text file that may be gzipped."""
    notes: list[str] = []
    with open_records(path, options.limit, notes) as records:
        start = list(islice(records, 2))
        if not start:
            raise ValueError(f"{path} is empty: it has no line with anything in it.")
        if start[0][1].startswith("!") and options.names is not None:
            return _read_geo(path, options.limit, chain(start, records), notes)
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


def _read_geo(path: Path, limit: int, records: Iterator[tuple[int, str]], notes: list[str]) -> Sheet:
    """Read a series matrix: probes in rows, below lines about the samples, which become named rows."""
    sample_rows: dict[str, list[str]] = {}
    for _, text in records:
        key, *cells = split_record(text, "\t")
        if key.startswith("!Sample_"):
            _add_sample_line(sample_rows, key.removeprefix("!Sample_"), cells, path, limit)
        elif key == "ID_REF":
            break
    else:
        raise ValueError(f"{path} is not a GEO series matrix: it has no table that starts with ID_REF.")
    check_distinct([key, *cells], path, "columns")
    grid = CellGrid(path, [key, *cells], "\t", frozenset(), limit)
    grid.fill(record for record in records if not record[1].startswith("!"))
    named_rows = {name: ["", *values] for name, values in sample_rows.items() if len(values) == len(cells)}
    return replace(grid.to_sheet("GEO series matrix", notes), named_rows=named_rows, features_in_rows=True)


def _add_sample_line(sample_rows: dict[str, list[str]], key: str, cells: list[str], path: Path, limit: int) -> None:
    """Store cells under the key of their line; characteristics (`illness: latent`) under the name in the cell."""
    for i, cell in enumerate(cells):
        name, colon, value = cell.partition(":")
        if not key.startswith("characteristics") or not colon:
            name, value = key, cell
        row = sample_rows.setdefault(name.strip(), [])
        # if every sample uses another name, memory grows with the square of the number of samples
        check_size(path, 8 * len(sample_rows) * len(cells), limit)
        row.extend([""] * (len(cells) - len(row)))
        row[i] = value.strip()


# ---------------------------------------------------------------- lines


@contextmanager
def open_records(path: Path, limit: int, notes: list[str]) -> Iterator[Iterator[tuple[int, str]]]:
    """Open a text file as pairs of line number and record; a damaged file raises ValueError."""
    try:
        with readable(path, "a table", csv.Error, EOFError, gzip.BadGzipFile, zlib.error):
            with path.open("rb") as file:
                is_gzipped = file.read(2) == b"\x1f\x8b"
            if not is_gzipped and path.suffix == ".gz":
                problem = "is named .gz but is not compressed, it may be cut off or damaged"
                raise ValueError(f"{path} {problem}; rename it if it is text.")
            open_bytes = gzip.open if is_gzipped else Path.open
            encoding = _find_encoding(path, open_bytes, limit)
            if not encoding.startswith("utf-8"):
                known = {"cp1252": "Windows-1252, as it is not valid UTF-8"}
                notes.append(f"The text was read as {known.get(encoding, encoding.upper())}.")
            with io.TextIOWrapper(open_bytes(path, "rb"), encoding) as text:
                yield _records(text, path)
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not text in UTF-8, nor in Windows-1252; save it as CSV UTF-8.") from None


def _find_encoding(path: Path, open_bytes: Callable[..., Any], limit: int) -> str:
    """Return the encoding of the byte order mark; without one UTF-8 if the whole text is valid, else Windows-1252."""
    with open_bytes(path, "rb") as file:
        head: bytes = file.read(1 << 16)
    marked = next((encoding for mark, encoding in _BYTE_ORDER_MARKS.items() if head.startswith(mark)), None)
    other = next((advice for mark, advice in _OTHER_FORMATS.items() if head.startswith(mark)), None)
    if marked is None and (other or b"\0" in head):
        other = other or "binary, or text in UTF-16 without a mark; save it as CSV UTF-8"
        raise ValueError(f"{path} is not a text file: it is {other}.")
    size, encoding, decoder = 0, marked or "utf-8", codecs.getincrementaldecoder("utf-8")()
    with open_bytes(path, "rb") as file:
        for block in chain(iter(lambda: file.read(1 << 20), b""), [b""]):
            size += len(block)
            check_size(path, size, limit, "unpacks to more than")  # a small archive must not fill the memory
            try:
                decoder.decode(block, final=not block)
            except UnicodeDecodeError:
                encoding = marked or "cp1252"
    return encoding


def _records(file: io.TextIOWrapper, path: Path) -> Iterator[tuple[int, str]]:
    """Yield records that are not blank; a cell in quotes may span several lines."""
    lines = enumerate(iter(lambda: file.readline(LONGEST_LINE), ""), start=1)
    for start, first_line in lines:
        record, length, in_quotes = [first_line], len(first_line), first_line.count('"') % 2
        while in_quotes and length < LONGEST_LINE:
            _, line = next(lines, (0, ""))
            if not line or len(record) > MOST_LINES:
                quote = f"the quotation mark in line {start}" + (f", not within {MOST_LINES} lines," if line else "")
                raise ValueError(f"{path}: {quote} is never closed; remove it or double it.")
            record.append(line)
            length, in_quotes = length + len(line), (in_quotes + line.count('"')) % 2
        if length >= LONGEST_LINE:
            problem = f"line {start} has more than {LONGEST_LINE} characters"
            raise ValueError(f"{path}: {problem}; is it a table, and are quotes closed?")
        text = "".join(record)
        if text.strip():
            yield start, text.rstrip("\n")


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
        self._text_columns = {j: list[str]() for j, name in enumerate(header) if name in names}
        self._named_rows: dict[str, list[str]] = {}
        self._bad_columns: dict[int, str] = {}
        self._numbers, self._first_column = array("d"), list[str]()
        try:
            self._polars: Any = optional("polars", extra="files", purpose="Reading wide tables fast")
        except ImportError:
            self._polars = None

    def fill(self, records: Iterable[tuple[int, str]]) -> None:
        """Parse all records, about `_BLOCK` characters at a time."""
        block, size = list[tuple[int, str]](), 0
        for record in records:
            block.append(record)
            size += len(record[1])
            if size > _BLOCK:
                self._add_block(block)
                block, size = [], 0
        if block:
            self._add_block(block)

    def to_sheet(self, description: str, notes: Iterable[str], first_cells: Iterable[str] = ()) -> Sheet:
        """Return what was parsed; the first column both as numbers and as text."""
        values = np.frombuffer(self._numbers, dtype=np.float64).reshape(-1, len(self.header))
        for j, (line, count) in self.truth_columns.items():
            # True, False and 3 in one column are not truth values
            if count < np.count_nonzero(~np.isnan(values[:, j])):
                message = describe_bad_cell(self.header[j], f"line {line}", "True or False beside numbers")
                self._bad_columns.setdefault(j, message)
        return Sheet(
            self.path,
            values,
            self.header,
            description,
            first_column=self._first_column,
            named_columns={self.header[j]: self._with_points(cells) for j, cells in self._text_columns.items()},
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

    def _add_block(self, records: list[tuple[int, str]]) -> None:
        line_numbers, texts = [line for line, _ in records], [text for _, text in records]
        if not self._first_column and self.separator == ";":
            self.decimal_comma = any(map(_DECIMAL_COMMA.search, texts))
        width = len(self.header)
        cells = self._split(line_numbers, texts)
        row_names = [cell.strip() for cell in cells[::width]]
        self._first_column.extend(row_names)
        for j, column in self._text_columns.items():
            column.extend(cell.strip() for cell in cells[j::width])
        named_rows = {i: name for i, name in enumerate(row_names) if name in self.names}
        for i, name in named_rows.items():
            self._named_rows[name] = [cell.strip() for cell in cells[i * width : (i + 1) * width]]
        values, unparsed = self._to_floats(cells)
        for position in unparsed:
            i, j = divmod(position, width)
            if j in self._text_columns:
                continue
            cell = cells[position].strip()
            value = parse_number(cell, decimal_comma=self.decimal_comma)
            values[position] = np.nan if value is None else value
            if i in named_rows and j > 0:  # a target, say, which may be text
                continue
            if value is None and j not in self._bad_columns:
                self._bad_columns[j] = describe_bad_cell(self.header[j], f"line {line_numbers[i]}", cell)
            elif cell.lower() in _TRUTH_VALUES and j > 0:
                self.truth_columns.setdefault(j, [line_numbers[i], 0])[1] += 1
        self._numbers.frombytes(values.tobytes())
        check_size(self.path, 8 * len(self._numbers), self.limit)

    def _split(self, line_numbers: list[int], texts: list[str]) -> Any:
        """Return the cells of all records in one list, or in one Series of polars."""
        if self.separator != " ":
            # refuse a line with too many separators before it is split into millions of cells
            lines = zip(line_numbers, texts, strict=True)
            widths = {line: text.count(self.separator) + 1 for line, text in lines if '"' not in text}
            self._check_widths(widths)
            if self._polars is not None and len(widths) == len(texts):
                return self._polars.Series(texts).str.split(self.separator).explode()
        rows = [split_record(text, self.separator) for text in texts]
        self._check_widths(dict(zip(line_numbers, map(len, rows), strict=True)))
        cells = list(chain.from_iterable(rows))
        return cells if self._polars is None else self._polars.Series(cells, dtype=self._polars.String)

    def _check_widths(self, widths: dict[int, int]) -> None:
        for line, width in widths.items():
            if width != len(self.header):
                raise ValueError(
                    f"{self.path} cannot be read as a table: the header has {len(self.header)} columns, and line "
                    f"{line} has {width} entries; look for a missing cell, or for a separator inside one that needs "
                    "quotes."
                )

    def _to_floats(self, cells: Any) -> tuple[Array, list[int]]:
        """Return numbers, and the positions of cells that need `parse_number`."""
        if self._polars is not None:
            if self.decimal_comma:
                cells = cells.str.replace(".", "?", literal=True).str.replace(",", ".", literal=True)
            numbers = cells.cast(self._polars.Float64, strict=False)
            return numbers.fill_null(float("nan")).to_numpy().copy(), numbers.is_null().arg_true().to_list()
        values, unparsed, width = np.full(len(cells), np.nan), list[int](), len(self.header)
        for start in range(0, len(cells), width):
            unparsed.append(start)  # the first cell, often a name, must not make the whole row slow
            row = cells[start : start + width]
            for j in (0, *self._text_columns):
                row[j] = "nan"
            try:
                # a whole row at once, unless float() would accept what `parse_number` does not
                if self.decimal_comma or any("_" in cell for cell in row):
                    raise ValueError
                values[start : start + width] = list(map(float, row))
            except ValueError:
                unparsed.extend(range(start + 1, start + width))
        return values, unparsed
