"""Workbooks (.xlsx, .xlsm and .ods), by python-calamine; samples or features in rows."""

import datetime
import zipfile
from pathlib import Path
from typing import Any

from randsel._utils.files import check_size, readable
from randsel._utils.text import list_first, optional
from randsel.tables.formats._cells import CellGrid
from randsel.tables.formats._extent import (
    MAX_FOOTNOTES,
    ROWS_AHEAD,
    describe_empty_rows,
    describe_left_out,
    drop_empty_columns,
    find_header,
    is_footnote,
    name_unnamed,
)
from randsel.tables.formats._sheet import ReadOptions, Sheet, check_shape

#: Number of cells that are converted to numbers at a time.
_CELLS = 1 << 20


def read_excel(path: Path, options: ReadOptions) -> Sheet:
    """Read one sheet of a workbook."""
    calamine = optional("python_calamine", extra="files", purpose="Reading workbooks")
    with path.open("rb") as file:
        head = file.read(8)
    if not head:
        raise ValueError(f"{path} is empty.")
    if head.startswith(b"\xd0\xcf\x11\xe0"):
        raise ValueError(f"{path} is an old or an encrypted workbook; save it as .xlsx without a password.")
    with readable(path, "a workbook", zipfile.BadZipFile, calamine.CalamineError, OSError):
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        check_size(path, size, options.limit, "unpacks to more than")
        workbook = calamine.CalamineWorkbook.from_path(path)
        names, notes = workbook.sheet_names, []
        if options.sheet is not None and options.sheet not in names:
            raise ValueError(f"{path} has no sheet {options.sheet!r}; it has {list_first([*map(repr, names)], 8)}.")
        name = names[0] if options.sheet is None and names else options.sheet
        sheet = workbook.get_sheet_by_name(name)
        check_shape(path, (sheet.total_height, sheet.total_width), options.limit)
        if len(names) > 1 and options.sheet is None:
            others = list_first([repr(other) for other in names[1:]], 5)
            notes.append(f"The first sheet, {name!r}, was read; the others are {others} (--sheet).")
        rows = _read_rows(sheet, options.skip_rows or 0)
        return _to_sheet(path, options, rows, f"workbook, sheet {name!r}", notes)


def _read_rows(sheet: Any, n_skipped: int) -> list[tuple[int, list[str]]]:
    """Return the rows that are not empty, as text, with their numbers in the workbook."""
    rows = enumerate(sheet.to_python(skip_empty_area=False)[n_skipped:], start=n_skipped + 1)
    as_text = ((number, [_to_text(cell) for cell in row]) for number, row in rows)
    return [(number, cells) for number, cells in as_text if any(cells)]


def _to_text(cell: Any) -> str:
    """Return a cell as text; whole numbers without a decimal point, because they may be ids."""
    if isinstance(cell, str):
        return cell.strip()
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() and abs(cell) < 1e15 else repr(cell)
    if isinstance(cell, datetime.datetime) and cell.time() == datetime.time():
        return cell.date().isoformat()
    return str(cell)


def _to_sheet(
    path: Path, options: ReadOptions, rows: list[tuple[int, list[str]]], description: str, notes: list[str]
) -> Sheet:
    """Find header and footnotes, and parse the rows between them."""
    if not rows:
        raise ValueError(f"{path} is empty: the {description.removeprefix('workbook, ')} has no cell with content.")
    footnotes: list[tuple[int, list[str]]] = []
    while len(rows) > 2 and len(footnotes) < MAX_FOOTNOTES and is_footnote(rows[-1][1]) and not any(rows[-1][1][1:]):
        footnotes.insert(0, rows.pop())
    detects_header = options.skip_rows is None
    index = (find_header([cells for _, cells in rows[:ROWS_AHEAD]]) or 0) if detects_header else 0
    if index:
        notes.append(describe_left_out([(i, " ".join(cells)) for i, cells in rows[:index]], "above", "row"))
    (header_number, names), *rows = rows[index:]
    header, unnamed = name_unnamed(names)
    if not rows:
        raise ValueError(f"{path} has a header of {len(header)} columns, but it has no rows.")
    if n_empty := rows[-1][0] - header_number - len(rows):
        notes.append(describe_empty_rows(n_empty))
    grid = CellGrid(path, header, options, "row")
    grid.check_requested_once()
    n_rows = max(1, _CELLS // len(header))
    for block in (rows[i : i + n_rows] for i in range(0, len(rows), n_rows)):
        grid.add_rows([number for number, _ in block], [cells for _, cells in block])
    if footnotes:
        notes.append(describe_left_out([(i, cells[0]) for i, cells in footnotes], "below", "row"))
    return drop_empty_columns(grid.to_sheet(description, notes, rows[0][1]), unnamed)
