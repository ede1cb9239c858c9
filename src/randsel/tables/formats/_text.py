"""Text files, plain or a GEO series matrix, also gzipped; read line by line."""

import codecs
import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from randsel._utils.files import check_size, readable
from randsel._utils.text import pluralise
from randsel.tables.formats._cells import CellGrid
from randsel.tables.formats._extent import (
    LONGEST_FOOTNOTE,
    ROWS_AHEAD,
    describe_empty_rows,
    describe_left_out,
    drop_empty_columns,
    find_header,
    is_footnote,
    name_unnamed,
    split_footnotes,
)
from randsel.tables.formats._numbers import CERTAIN_DECIMAL_COMMA, CERTAIN_POINTS, DECIMAL_COMMA
from randsel.tables.formats._sheet import ReadOptions, Sheet, check_distinct, check_shape

#: Maximum length of a line, in characters; a longer one is damaged or malicious.
LONGEST_LINE = 1 << 26
#: Maximum number of lines that a cell in quotes may span.
MOST_LINES = 100_000
#: Characters that are converted to numbers at a time.
_BLOCK = 1 << 22
_SEPARATORS = {"\t": "tabs", ",": "commas", ";": "semicolons", " ": "spaces"}
#: Characters that do not count as content of a record. Quotes do: a missing entry of one column may be written as "".
_BLANK = " \t\r\n\f\v;,"
#: Separator -> cell with a decimal comma. With tabs, 1,234 is ambiguous and does not count.
_DECIMAL_COMMAS = {
    ";": re.compile(rf"(^|;)[ \t]*{DECIMAL_COMMA}[ \t]*(;|$)", re.MULTILINE),
    "\t": re.compile(rf"(^|\t) *{CERTAIN_DECIMAL_COMMA} *(\t|$)", re.MULTILINE),
}
#: Separator -> cell in which points separate thousands, among decimal commas.
_POINTS = {
    separator: re.compile(rf"(?:^|{separator}) *{CERTAIN_POINTS} *(?:{separator}|$)", re.MULTILINE)
    for separator in ";\t"
}
#: Maximum number of characters, and of cells, that are looked at to find the header.
_CHARACTERS_AHEAD, _MAX_CELLS_AHEAD = 1 << 24, 5_000_000
#: First bytes of a file -> encoding of its text; first bytes of another format -> advice.
_BYTE_ORDER_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}
_OTHER_FORMATS = {
    b"PK\x03\x04": "a zip archive or an Excel workbook; name it .xlsx if it is one",
    b"PAR1": "a Parquet file; name it .parquet",
    b"\x89HDF": "an HDF5 file; name it .h5ad if it is AnnData",
    b"MATLAB": "a MATLAB file; name it .mat",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; save it as .xlsx",
}


def read_text(path: Path, options: ReadOptions) -> Sheet:
    """Read a table with a header, or a GEO series matrix, from a text file that may be gzipped."""
    notes: list[str] = []
    with open_records(path, options.limit, notes) as records:
        skipped = options.skip_rows or 0
        start = _read_ahead(record for record in records if record[0] > skipped)
        if not start:
            after = f" after the {skipped} lines that --skip-rows leaves out" if skipped else ""
            raise ValueError(f"{path} is empty: it has no line with anything in it{after}.")
        if start[0][1].startswith("!") and options.names is not None:
            return _read_geo(path, options, chain(start, records), notes)
        separator, header_index = _find_table([text for _, text in start], find_titles=options.skip_rows is None)
        if header_index:
            notes.append(describe_left_out(start[:header_index], "above", "line"))
        header_text, start = start[header_index][1], start[header_index + 1 :]
        check_shape(path, (1, header_text.count(separator) + 1), options.limit)
        header = [name.strip() for name in split_record(header_text, separator)]
        if not start:
            raise ValueError(f"{path} has a header of {len(header)} columns, but it has no rows.")
        first_cells = [cell.strip() for cell in split_record(start[0][1], separator)]
        if len(first_cells) == len(header) + 1:
            header = _align_header(header, [text for _, text in start[:5]], separator, notes)
        header, unnamed = name_unnamed(header)
        grid = CellGrid(path, header, options)
        grid.check_requested_once()
        footnotes: list[tuple[int, str]] = []
        is_remark = _remark_finder(separator, len(header))
        _fill(grid, separator, split_footnotes(chain(start, records), is_remark, footnotes))
    if grid.is_empty:
        raise ValueError(f"{path} has a header of {len(header)} columns, but it has no rows, only remarks.")
    if footnotes:
        notes.append(describe_left_out(footnotes, "below", "line"))
    n_columns = pluralise(len(header), "1 column", f"{len(header)} columns")
    description = f"text, {n_columns} separated by {_SEPARATORS[separator]}"
    return drop_empty_columns(grid.to_sheet(description, notes, first_cells), unnamed)


def _read_ahead(records: Iterator[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return the first records, at least two unless the file ends before."""
    start: list[tuple[int, str]] = []
    size = 0
    while len(start) < 2 or (len(start) < ROWS_AHEAD and size < _CHARACTERS_AHEAD):
        record = next(records, None)
        if record is None:
            break
        start.append(record)
        size += len(record[1])
    return start


def _find_table(start: list[str], *, find_titles: bool) -> tuple[str, int]:
    """Return the separator, and the index of the header among the first records."""
    separator = _find_separator(start[:2])
    is_space = separator == " "
    width, *widths = [_count_cells(text, separator) for text in start]
    is_title = not is_space and width > 2 and separator not in start[0].strip(f"{separator} ")
    # a line without separators may be a title, even if no other line has the same separator
    is_title |= width == 1
    is_table = len(set(widths)) == 1 and widths[0] - width in (0, 1) and not is_title
    if is_table or not find_titles or len(start) < 3:
        return separator, 0
    candidates = []
    for candidate in ("\t", ";", ","):
        # a damaged line may have millions of separators
        if sum(text.count(candidate) for text in start) < _MAX_CELLS_AHEAD:
            try:
                rows = [split_record(text, candidate) for text in start]
            except csv.Error:  # with a wrong separator, cells are longer than csv allows
                continue
            index = find_header(rows)
            candidates.extend([] if index is None else [(len(rows[index]), -index, candidate)])
    if not candidates:
        return separator, 0
    _, negative_index, separator = max(candidates)
    return separator, -negative_index


def _count_cells(record: str, separator: str) -> int:
    """Return the number of cells of a record; separators in quotes do not count."""
    if separator == " ":
        return len(record.split())
    return _outside_quotes(record).count(separator) + 1


def _outside_quotes(record: str) -> str:
    return re.sub(r'"[^"]*"', "", record)


def _align_header(header: list[str], texts: list[str], separator: str, notes: list[str]) -> list[str]:
    """Return a header for rows with one more cell: names of rows in front, as R writes them, or an empty last cell."""
    if len(texts) > 1 and header[0] and all(text.rstrip(" ").endswith(separator) for text in texts):
        return [*header, ""]
    notes.append("The header has one name fewer than the rows have entries, so the first entries are names of rows.")
    return ["", *header]


def _remark_finder(separator: str, width: int) -> Callable[[str], bool]:
    """Return a function that says whether a record may be a footnote of a table of this width."""

    def is_remark(text: str) -> bool:
        if len(text) > LONGEST_FOOTNOTE or separator == " " or width < 2:
            return False
        if text.count(separator) + 1 == width and not text.endswith(separator):
            return False
        cells = split_record(text, separator)
        return is_footnote(cells) and (len(cells) < width or sum(bool(cell.strip()) for cell in cells) == 1)

    return is_remark


def _fill(grid: CellGrid, separator: str, records: Iterable[tuple[int, str]]) -> None:
    """Parse all records, about `_BLOCK` characters at a time."""
    block, size = list[tuple[int, str]](), 0
    for record in records:
        block.append(record)
        size += len(record[1])
        if size > _BLOCK:
            _add_block(grid, separator, block)
            block, size = [], 0
    if block:
        _add_block(grid, separator, block)


def _add_block(grid: CellGrid, separator: str, records: list[tuple[int, str]]) -> None:
    """Split records into cells, and parse these."""
    lines, texts = [line for line, _ in records], [text for _, text in records]
    if grid.is_empty and separator in _DECIMAL_COMMAS:
        pattern = _DECIMAL_COMMAS[separator]
        grid.parser.decimal_comma = any("," in text and pattern.search(text) for text in texts)
        by_points = _POINTS[separator]
        grid.parser.thousands_by_points = grid.parser.decimal_comma and any(map(by_points.search, texts))
    if separator != " ":
        # refuse a line with too many separators before it is split into millions of cells
        widths = {line: text.count(separator) + 1 for line, text in records if '"' not in text}
        _check_widths(grid, widths)
        if grid.polars is not None and len(widths) == len(texts):
            grid.add_cells(lines, grid.polars.Series(texts).str.split(separator).explode())
            return
    rows = [split_record(text, separator) for text in texts]
    _check_widths(grid, dict(zip(lines, map(len, rows), strict=True)))
    grid.add_rows(lines, rows)


def _check_widths(grid: CellGrid, widths: dict[int, int]) -> None:
    for line, width in widths.items():
        if width != len(grid.header):
            raise ValueError(
                f"{grid.path} cannot be read as a table: the header has {len(grid.header)} columns, and line {line} "
                f"has {width} entries; look for a missing cell, or for a separator inside one that needs quotes. If "
                "lines stand above the header, leave them out: --skip-rows 1."
            )


def _read_geo(path: Path, options: ReadOptions, records: Iterator[tuple[int, str]], notes: list[str]) -> Sheet:
    """Read a series matrix: probes in rows, below lines about the samples, which become named rows."""
    sample_rows: dict[str, list[str]] = {}
    for _, text in records:
        key, *cells = split_record(text, "\t")
        if key.startswith("!Sample_"):
            _add_sample_line(sample_rows, key.removeprefix("!Sample_"), cells, path, options.limit)
        elif key == "ID_REF":
            break
    else:
        raise ValueError(f"{path} is not a GEO series matrix: it has no table that starts with ID_REF.")
    check_distinct([key, *cells], path, "columns", lambda i: f"column {i + 1}")
    grid = CellGrid(path, [key, *cells], replace(options, names=frozenset()))
    _fill(grid, "\t", (record for record in records if not record[1].startswith("!")))
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
                yield _records(text, path, notes)
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


def _records(file: io.TextIOWrapper, path: Path, notes: list[str]) -> Iterator[tuple[int, str]]:
    """Yield records with a cell that is not empty; a cell in quotes may span several lines.

    Spreadsheets write empty rows as lines of separators; a note counts them.
    """
    n_empty = 0
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
        if text.strip(_BLANK):
            yield start, text.rstrip("\n")
        else:
            n_empty += "\t" in text or not text.isspace()
    if n_empty:
        notes.append(describe_empty_rows(n_empty))


def _find_separator(start: list[str]) -> str:
    """Return tab if the header has one, else the more frequent of semicolon and comma, else space if both rows fit."""
    header = _outside_quotes(start[0])
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
