"""Where a table begins and ends in a file: titles above it, footnotes below it, columns without name and content."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from randsel._utils.text import pluralise, shorten
from randsel.tables.formats._numbers import MISSING, parse_number
from randsel.tables.formats._sheet import Sheet

#: Number of rows that are looked at to find the header.
ROWS_AHEAD = 30
#: Maximum number of footnotes, and maximum length of one.
MAX_FOOTNOTES, LONGEST_FOOTNOTE = 100, 2000
_FOOTNOTE_MARKS = ("*", "#", "†", "‡", "§")


def find_header(rows: Sequence[Sequence[str]]) -> int | None:
    """Return the index of the header: the first row that is as wide as those below and mostly filled; None if unsure.

    Rows above it must be titles, which fill less than half of its cells, or are words.
    """
    filled = [sum(bool(cell.strip()) for cell in row) for row in rows]
    last = len(rows)
    while last > 2 and is_footnote(rows[last - 1]):
        last -= 1
    for k in range(last - 1):
        width, widths = len(rows[k]), {len(row) for row in rows[k + 1 : last]}
        is_table = len(widths) == 1 and min(widths) - width in (0, 1)
        has_titles_only = all(
            count < max(2, width / 2) or (count < width and is_footnote(row))
            for count, row in zip(filled[:k], rows, strict=False)
        )
        is_title = filled[k] == 1 and bool(rows[k][0].strip())
        if width > 1 and is_table and has_titles_only and 2 * filled[k] >= width and not is_title:
            return k
    return None


def is_footnote(cells: Sequence[str]) -> bool:
    """Return whether a row below a table is a remark: words in the first cell, and no number anywhere."""
    first = cells[0].strip() if cells else ""
    if not (" " in first or first.startswith(_FOOTNOTE_MARKS)) or len(first) > LONGEST_FOOTNOTE:
        return False
    return all(not cell.strip() or parse_number(cell) is None for cell in cells)


def split_footnotes(
    rows: Iterator[tuple[int, Any]], is_remark: Callable[[Any], bool], footnotes: list[tuple[int, Any]]
) -> Iterator[tuple[int, Any]]:
    """Yield rows with their line numbers; those at the end that are remarks are added to `footnotes` instead."""
    pending: list[tuple[int, Any]] = []
    for row in rows:
        if len(pending) < MAX_FOOTNOTES and is_remark(row[1]):
            pending.append(row)
            continue
        yield from pending  # a remark above other rows is not at the end
        pending.clear()
        yield row
    footnotes.extend(pending)


def describe_left_out(lines: list[tuple[int, str]], where: str, line_word: str) -> str:
    """Return the note about lines above or below the table."""
    first, last, text = lines[0][0], lines[-1][0], shorten(" ".join(lines[0][1].split()), 60)
    span = (
        f"{line_word.capitalize()} {first} is" if first == last else f"{line_word.capitalize()}s {first} to {last} are"
    )
    return f"{span} left out, {where} the table: {text!r}."


def describe_empty_rows(n_empty: int) -> str:
    """Return the note about rows whose cells are all empty."""
    return f"{pluralise(n_empty, '1 row without any content is', f'{n_empty} rows without any content are')} left out."


def name_unnamed(header: list[str]) -> tuple[list[str], frozenset[str]]:
    """Return a header in which every column but the first has a name, and the names that were added."""
    names = [name or (f"column {j + 1}" if j else "") for j, name in enumerate(header)]
    return names, frozenset(name for name, before in zip(names, header, strict=True) if not before and name)


def drop_empty_columns(sheet: Sheet, unnamed: frozenset[str]) -> Sheet:
    """Leave out columns that have neither name nor content; a note says which unnamed columns remain."""
    if not unnamed:
        return sheet
    empty = {j for j, name in enumerate(sheet.columns) if name in unnamed and _is_empty(sheet, j)}
    others = [repr(name) for j, name in enumerate(sheet.columns) if name in unnamed and j not in empty]
    notes = list(sheet.notes)
    if empty:
        n_empty = "1 column without name and content is", f"{len(empty)} columns without name and content are"
        notes.append(f"{pluralise(len(empty), *n_empty)} left out.")
    if others:
        called = f"1 column has no name; it is called {others[0]}."
        if len(others) > 1:
            called = f"{len(others)} columns have no name; the first is called {others[0]}."
        notes.append(called)
    remaining = [j for j in range(len(sheet.columns)) if j not in empty]
    new_index = {j: k for k, j in enumerate(remaining)}
    dropped_names = {sheet.columns[j] for j in empty}
    return replace(
        sheet,
        values=np.ascontiguousarray(sheet.values[:, remaining]) if empty else sheet.values,
        columns=[sheet.columns[j] for j in remaining],
        named_columns={name: cells for name, cells in sheet.named_columns.items() if name not in dropped_names},
        named_rows={name: [cells[j] for j in remaining] for name, cells in sheet.named_rows.items()},
        bad_columns={new_index[j]: place for j, place in sheet.bad_columns.items()},
        text_rows={i: {new_index[j]: cell for j, cell in cells.items()} for i, cells in sheet.text_rows.items()},
        below_detection=[(i, new_index[j], limit) for i, j, limit in sheet.below_detection],
        first_cells=[sheet.first_cells[j] for j in remaining],
        notes=tuple(notes),
    )


def _is_empty(sheet: Sheet, j: int) -> bool:
    cells = sheet.named_columns.get(sheet.columns[j])
    if cells is not None:
        return all(cell in MISSING for cell in cells)
    has_text = j in sheet.bad_columns or any(j in row for row in sheet.text_rows.values())
    is_limit = any(column == j for _, column, _ in sheet.below_detection)
    return not has_text and not is_limit and bool(np.isnan(sheet.values[:, j]).all())
