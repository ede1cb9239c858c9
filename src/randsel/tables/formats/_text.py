"""Text to numbers: encodings, separators, decimal commas; block by block, so that the text is never held whole."""

import csv
import gzip
import io
import re
import zlib
from array import array
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from randsel._utils.files import check_size
from randsel._utils.optional import optional
from randsel._utils.typing import Array

#: Cells that say that there is no value.
MISSING = frozenset({"", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "#N/A", "?"})
_TRUTH = {"true": 1.0, "false": 0.0}
#: Characters that a line may have; more are a damaged file, or one made to fill the memory.
LONGEST_LINE = 1 << 26
#: Lines that a cell in quotes may go over.
MOST_LINES = 100_000
#: Memory that a name takes, and what is made of it on the way.
NAME_BYTES = 200
#: Characters of a message; names, which may be as long as a line, are what makes it longer.
LONGEST_MESSAGE = 1500
#: Characters that are turned into numbers at a time.
_BLOCK = 1 << 22
_SEPARATORS = {"\t": "tabs", ",": "commas", ";": "semicolons", " ": "spaces"}
_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}
_OTHER_FORMATS = {
    b"PK\x03\x04": "a zip archive or an Excel workbook; export the sheet as CSV",
    b"PAR1": "a Parquet file; name it .parquet",
    b"\x89HDF": "an HDF5 file; name it .h5ad if it is AnnData",
    b"MATLAB": "a MATLAB file; name it .mat",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; export the sheet as CSV",
}


@dataclass(frozen=True)
class Sheet:
    """What a file holds, before it is known what is what.

    Attributes
    ----------
    values
        Rows × columns of numbers; NaN where a cell is missing or is no number.
    columns
        Names of the columns.
    kind
        The format, in words.
    rows
        Names of the rows where the format has them.
    first
        Cells of the first column where it may be names of rows, and may be numbers.
    texts
        Columns that were asked for by name, or that the format keeps apart from the numbers, one entry per row.
    across
        Rows that were asked for by name, one entry per column.
    odd, odd_rows
        Columns, or rows, with a cell that is no number, and a sentence about the first one.
    start
        Cells of the first row of numbers, as written.
    lying
        Whether features are in rows; None if the format leaves that open.
    roles
        What is the target, the groups and the batch if nobody says.
    notes
        What was found on the way.
    """

    values: Array
    columns: list[str]
    kind: str
    rows: list[str] | None = None
    first: list[str] | None = None
    texts: dict[str, Any] = field(default_factory=dict)
    across: dict[str, list[str]] = field(default_factory=dict)
    odd: dict[int, str] = field(default_factory=dict)
    odd_rows: dict[int, str] = field(default_factory=dict)
    start: list[str] = field(default_factory=list)
    lying: bool | None = False
    roles: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def number(cell: str, *, decimal_comma: bool = False) -> float | None:
    """Return the number that a cell holds, NaN if it is missing, None if it is neither."""
    text = cell.strip()
    if text in MISSING:
        return float("nan")
    if text.lower() in _TRUTH:
        return _TRUTH[text.lower()]
    if decimal_comma:
        text = "?" if "." in text else text.replace(",", ".")
    try:
        # float() would read 1_000 as a thousand
        return float(text.replace("_", "?"))
    except ValueError:
        return None


def complaint(name: str, where: str, cell: str) -> str:
    """Say of a cell that it is no number, and what may help."""
    shown = cell if len(cell) < 40 else f"{cell[:36]}..."
    help_ = "leave the column out (--drop-columns), or say that it holds names (--categorical)"
    if re.fullmatch(r"\d{4}-\d\d?-\d\d?([T ].*)?|\d\d?[./]\d\d?[./](\d\d){1,2}( .*)?", cell):
        help_ = "it looks like a date: turn dates into numbers, such as days since the first, or use --drop-columns"
    elif re.fullmatch(r"[-+]?\d{1,3}(,\d{3})+(\.\d+)?|[-+]?\d{1,3}(\.\d{3})+,\d+", cell):
        help_ = "write it without thousands separators and with a decimal point"
    elif re.fullmatch(r"[-+]?\d*,\d+", cell):
        help_ = "it looks like a decimal comma: write points, or separate the columns by semicolons"
    elif re.fullmatch(r"[-+]?\d*\.\d+", cell):
        help_ = "other cells have decimal commas: write all of them alike"
    return f"column {name!r} holds {shown!r} in {where}, not a number; {help_}."


def read_text(path: Path, *, keep: set[str] | None, limit: int) -> Sheet:
    """Read a table with a header.

    Parameters
    ----------
    path : Path
        The file, plain or gzipped.
    keep : set of str or None
        Names of columns and rows whose cells are wanted as text; None wants all columns.
    limit : int
        Bytes that the text, unpacked, may have.

    Returns
    -------
    Sheet
        With its first column both as numbers and as text.
    """
    notes: list[str] = []
    with records(path, limit, notes) as lines:
        start = list(islice(lines, 2))
        if not start:
            msg = f"{path} is empty: it has no line with anything in it."
            raise ValueError(msg)
        separator = _separator([text for _, text in start])
        check_shape(path, (1, start[0][1].count(separator) + 1), limit)
        header = [name.strip() for name in split(start[0][1], separator)]
        if len(start) < 2:
            msg = f"{path} has a header of {len(header)} columns, but it has no rows."
            raise ValueError(msg)
        head = split(start[1][1], separator)
        if len(head) == len(header) + 1:
            header = ["", *header]
            notes.append("The header has a name less than the rows have entries, so the first are names of rows.")
        check_distinct(header, path, "columns")
        grid = Grid(path, header, separator, set(header) if keep is None else keep, limit)
        grid.fill(chain(start[1:], lines))
    notes.extend(grid.remarks())
    kind = f"text, {len(header)} columns separated by {_SEPARATORS[separator]}"
    return replace(grid.sheet(kind, tuple(notes)), start=[cell.strip() for cell in head])


def check_distinct(names: list[str], path: Path, what: str) -> None:
    """Refuse names that are given twice."""
    if len(set(names)) == len(names):
        return
    twice = [name for name, times in Counter(names).items() if times > 1]
    more = f", and so are {len(twice) - 1} other names" if len(twice) > 1 else ""
    msg = f"{path} has several {what} called {twice[0]!r}{more}; give each a name of its own."
    raise ValueError(msg)


# ---------------------------------------------------------------- lines


@contextmanager
def brief() -> Iterator[None]:
    """Leave out the middle of a message that is too long: the cause is at its start, the remedy at its end."""
    try:
        yield
    except ValueError as error:
        said = str(error)
        if len(said) <= LONGEST_MESSAGE:
            raise
        msg = f"{said[: LONGEST_MESSAGE // 2]} … {said[-LONGEST_MESSAGE // 4 :]}"
        raise ValueError(msg) from None


@contextmanager
def records(path: Path, limit: int, notes: list[str]) -> Iterator[Iterator[tuple[int, str]]]:
    """Open a text file as records with the numbers of their lines; what makes it unreadable becomes a sentence."""
    try:
        packed = _starts(path)[:2] == b"\x1f\x8b"
        if not packed and path.suffix == ".gz":
            msg = f"{path} is named .gz but is not compressed, it may be cut off or damaged; rename it if it is text."
            raise ValueError(msg)
        encoding = _encoding(path, packed, limit)
        if not encoding.startswith("utf-8"):
            known = {"cp1252": "Windows-1252, as it is not valid UTF-8"}
            notes.append(f"The text was read as {known.get(encoding, encoding.upper())}.")
        with _open(path, packed, encoding, limit) as file:
            yield _records(file, path)
    except UnicodeDecodeError:
        msg = f"{path} is not text in UTF-8, nor in Windows-1252; save it as CSV UTF-8."
    except (csv.Error, EOFError, gzip.BadGzipFile, zlib.error) as error:
        msg = f"{path} cannot be read as a table, it may be cut off or damaged: {error}."
    else:
        return
    raise ValueError(msg)


def _starts(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(8)


class _Limited(io.RawIOBase):
    """A file that refuses to give more than `limit` bytes, so that a small archive cannot fill the memory."""

    def __init__(self, file: Any, path: Path, limit: int) -> None:
        super().__init__()
        self._file, self._path, self._limit, self._given = file, path, limit, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count: int = self._file.readinto(buffer)
        self._given += count
        if self._given > self._limit:
            check_size(self._path, self._given, self._limit, "unpacks to more than")
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def check_shape(path: Path, shape: tuple[int, ...], limit: int, itemsize: int = 8) -> None:
    """Refuse a table that is larger than the limit, its names counted in."""
    rows, columns = shape
    check_size(path, rows * columns * itemsize + (rows + columns) * NAME_BYTES, limit)


def _open(path: Path, packed: bool, encoding: str, limit: int) -> io.TextIOWrapper:
    raw = gzip.open(path, "rb") if packed else path.open("rb")  # noqa: SIM115 (closed with what is wrapped around it)
    return io.TextIOWrapper(io.BufferedReader(_Limited(raw, path, limit), 1 << 20), encoding=encoding)


def _encoding(path: Path, packed: bool, limit: int) -> str:
    """UTF-16 or UTF-8 by the mark at the start; else UTF-8 if all of it is, else Windows-1252."""
    with gzip.open(path, "rb") if packed else path.open("rb") as file:
        head = file.read(1 << 16)
    for mark, encoding in _MARKS.items():
        if head.startswith(mark):
            return encoding
    if b"\0" in head or head.startswith(tuple(_OTHER_FORMATS)):
        said = next((what for mark, what in _OTHER_FORMATS.items() if head.startswith(mark)), None)
        said = said or "binary, or text in UTF-16 without a mark; save it as CSV UTF-8"
        msg = f"{path} is not a text file: it is {said}."
        raise ValueError(msg)
    try:
        with _open(path, packed, "utf-8", limit) as text:
            while text.read(_BLOCK):
                pass
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def _records(file: io.TextIOWrapper, path: Path) -> Iterator[tuple[int, str]]:
    """Lines that are not blank; a cell in quotes may go over several."""
    here = 0
    while line := file.readline(LONGEST_LINE):
        here += 1
        begun, pieces, length, open_ = here, [line], len(line), line.count('"') % 2
        while open_ and length < LONGEST_LINE:
            more = file.readline(LONGEST_LINE)
            if not more or len(pieces) > MOST_LINES:
                far = f", not within {MOST_LINES} lines," if more else ""
                msg = f"{path}: the quotation mark in line {begun}{far} is never closed; remove it or double it."
                raise ValueError(msg)
            pieces.append(more)
            here, length, open_ = here + 1, length + len(more), (open_ + more.count('"')) % 2
        line = "".join(pieces)
        if length >= LONGEST_LINE:
            msg = f"{path}: line {begun} has more than {LONGEST_LINE} characters; is it a table, and are quotes closed?"
            raise ValueError(msg)
        if line.strip():
            yield begun, line.rstrip("\n")


def _separator(start: list[str]) -> str:
    """Tabs if the header has any; else what it has more of, semicolons or commas; else spaces, if the rows agree."""
    bare = re.sub(r'"[^"]*"', "", start[0])
    if "\t" in bare:
        return "\t"
    if ";" in bare or "," in bare:
        return ";" if bare.count(";") > bare.count(",") else ","
    widths = [len(split(text, " ")) for text in start]
    return " " if len(widths) == 2 and widths[0] > 1 and widths[1] - widths[0] in (0, 1) else ","


def split(record: str, separator: str) -> list[str]:
    """Cut a record into cells."""
    if '"' in record:
        return next(csv.reader([record.strip(" ")], delimiter=separator, skipinitialspace=True))
    return record.split() if separator == " " else record.split(separator)


# ---------------------------------------------------------------- cells


class Grid:
    """Rows of cells as they come, turned into numbers, with what is no number put aside."""

    def __init__(self, path: Path, header: list[str], separator: str, keep: set[str], limit: int) -> None:
        self.path, self.header, self.separator, self.limit = path, header, separator, limit
        self.kept = {j: list[str]() for j, name in enumerate(header) if j == 0 or name in keep}
        self.keep, self.across = keep, dict[str, list[str]]()
        self.odd, self.odd_rows, self.truths = dict[int, str](), dict[int, str](), dict[int, list[int]]()
        self.decimal_comma = False
        self._numbers, self._lines = array("d"), list[int]()
        try:
            self._polars: Any = optional("polars", extra="files", purpose="Reading wide tables fast")
        except ImportError:
            self._polars = None

    def fill(self, lines: Iterator[tuple[int, str]]) -> None:
        """Add all rows."""
        first = True
        for block in _blocks(lines):
            if first and self.separator == ";":
                pattern = re.compile(r"(^|;)[ \t]*-?\d*,\d+[ \t]*(;|$)", re.MULTILINE)
                self.decimal_comma = any(pattern.search(text) for _, text in block)
            first = False
            self._add([line for line, _ in block], [text for _, text in block])

    def sheet(self, kind: str, notes: tuple[str, ...]) -> Sheet:
        """All that was found."""
        values = np.frombuffer(self._numbers, dtype=np.float64).reshape(-1, len(self.header))
        for i, cell in enumerate(self.kept[0]):
            value = number(cell, decimal_comma=self.decimal_comma)
            values[i, 0] = np.nan if value is None else value
            if value is None:
                self.odd.setdefault(0, complaint(self.header[0], f"line {self._lines[i]}", cell))
        for j, (line, count) in self.truths.items():
            # a column of True, False and 3 is no column of truth values
            if count < np.count_nonzero(~np.isnan(values[:, j])):
                self.odd.setdefault(j, complaint(self.header[j], f"line {line}", "True or False beside numbers"))
        texts = {self.header[j]: self._points(cells) for j, cells in self.kept.items() if self.header[j] in self.keep}
        return Sheet(
            values,
            self.header,
            kind,
            first=self.kept[0],
            texts=texts,
            across={name: self._points(cells) for name, cells in self.across.items()},
            odd=self.odd,
            odd_rows=self.odd_rows,
            lying=None,
            notes=notes,
        )

    def _points(self, cells: list[str]) -> list[str]:
        """Write decimals of cells that are kept as text with a point, as a target may be numbers."""
        if not self.decimal_comma:
            return cells
        return [cell.replace(",", ".") if re.fullmatch(r"[-+]?\d*,\d+", cell) else cell for cell in cells]

    def remarks(self) -> Iterator[str]:
        """Say what a user should know."""
        if self.decimal_comma:
            yield "Decimals are written with commas: 1,5 was read as 1.5."
        if self.truths:
            yield f"{len(self.truths)} columns hold True and False, read as 1 and 0."

    def _add(self, lines: list[int], texts: list[str]) -> None:
        width = len(self.header)
        if self.separator != " ":
            # before millions of cells are made of a line that has too many; one in quotes may hold separators
            plain = [(line, text) for line, text in zip(lines, texts, strict=True) if '"' not in text]
            counts = [text.count(self.separator) + 1 for _, text in plain]
            self._check_widths([line for line, _ in plain], np.array(counts, dtype=int))
        if self._polars is not None and self.separator != " " and not any('"' in text for text in texts):
            flat = self._polars.Series(texts).str.split(self.separator).explode()
        else:
            cut = [split(text, self.separator) for text in texts]
            self._check_widths(lines, np.array([len(cells) for cells in cut]))
            flat = [cell for cells in cut for cell in cells]
            flat = flat if self._polars is None else self._polars.Series(flat, dtype=self._polars.String)
        for j, cells in self.kept.items():
            cells.extend(cell.strip() for cell in flat[j::width])
        named = self.kept[0][-len(lines) :]
        rows = [i for i, name in enumerate(named) if name in self.keep]
        for i in rows:
            self.across[named[i]] = [cell.strip() for cell in flat[i * width : (i + 1) * width]]
        values, strange = self._floats(flat, len(lines))
        for place in strange:
            i, j = divmod(place, width)
            if j not in self.kept and i not in rows:
                values[place] = self._strange(flat[place], j, len(self._lines) + i, lines[i])
        self._lines.extend(lines)
        self._numbers.frombytes(values.tobytes())
        check_size(self.path, 8 * len(self._numbers), self.limit)

    def _strange(self, cell: str, j: int, i: int, line: int) -> float:
        value = number(cell, decimal_comma=self.decimal_comma)
        if value is None:
            if j not in self.odd or i not in self.odd_rows:
                said = complaint(self.header[j], f"line {line}", cell.strip())
                self.odd.setdefault(j, said)
                self.odd_rows.setdefault(i, said)
            return float("nan")
        if cell.strip().lower() in _TRUTH:
            self.truths.setdefault(j, [line, 0])[1] += 1
        return value

    def _check_widths(self, lines: list[int], widths: Array) -> None:
        ragged = np.flatnonzero(widths != len(self.header))
        if len(ragged):
            line, has = lines[ragged[0]], widths[ragged[0]]
            msg = (
                f"{self.path} cannot be read as a table: the header has {len(self.header)} columns, and line {line} "
                f"has {has} entries; look for a missing cell, or for a separator inside one that needs quotes."
            )
            raise ValueError(msg)

    def _floats(self, flat: Any, rows: int) -> tuple[Array, list[int]]:
        """Numbers, and the places of the cells that need a closer look."""
        if self._polars is None:
            return self._floats_one_by_one(flat, rows)
        plain = flat
        if self.decimal_comma:
            plain = flat.str.replace(".", "?", literal=True).str.replace(",", ".", literal=True)
        found = plain.cast(self._polars.Float64, strict=False)
        return found.fill_null(float("nan")).to_numpy().copy(), found.is_null().arg_true().to_list()

    def _floats_one_by_one(self, flat: list[str], rows: int) -> tuple[Array, list[int]]:
        width, strange = len(self.header), list[int]()
        values = np.full(len(flat), np.nan)
        for at in range(0, rows * width, width):
            cells = flat[at : at + width]
            for j in self.kept:
                cells[j] = "nan"
            try:
                if self.decimal_comma or any("_" in cell for cell in cells):
                    raise ValueError
                values[at : at + width] = list(map(float, cells))
            except ValueError:
                for j, cell in enumerate(cells):
                    value = None if self.decimal_comma else number(cell)
                    if value is None or cell.strip().lower() in _TRUTH:
                        strange.append(at + j)
                    else:
                        values[at + j] = value
        return values, strange


def _blocks(lines: Iterator[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    block, size = list[tuple[int, str]](), 0
    for line in lines:
        block.append(line)
        size += len(line[1])
        if size > _BLOCK:
            yield block
            block, size = [], 0
    if block:
        yield block
