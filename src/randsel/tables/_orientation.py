"""Which way a table lies: features or samples in rows. Found out by the target, and always said in a note."""

import difflib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from randsel.tables.formats._text import Sheet, check_distinct

#: Names that a misspelt one is compared with.
COMPARED = 100_000


def samples_in_rows(
    path: Path,
    sheet: Sheet,
    orientation: str,
    target: str | None,
    id_column: str | None,
    labels: Sheet | None,
    notes: list[str],
) -> Sheet:
    """Return the sheet with samples in rows, and their names where there are any."""
    known = [*sheet.columns, *sheet.texts, *(labels.columns if labels is not None else ())]
    if id_column is not None and id_column not in known:
        raise ValueError(unknown_column(id_column, known, path))
    if sheet.lying is not None:
        if orientation != "auto" and (orientation == "features-in-rows") != sheet.lying:
            msg = f"{path}: which way this format lies is known; leave --orientation out."
            raise ValueError(msg)
        notes.append("Features are in rows, as always in this format." if sheet.lying else "Samples are in rows.")
        if sheet.lying:
            return _turned(path, sheet, None)
        ids = sheet.texts.get(id_column or "")
        return sheet if ids is None else replace(sheet, rows=[str(name) for name in ids])
    if orientation == "auto":
        lying, why = _lying(path, sheet, target, id_column, labels)
    else:
        lying, why = orientation == "features-in-rows", "as asked for"
    notes.append(f"{'Features' if lying else 'Samples'} are in rows: {why}.")
    return _turned(path, sheet, id_column) if lying else _upright(sheet, id_column, labels, notes)


def _lying(
    path: Path, sheet: Sheet, target: str | None, id_column: str | None, labels: Sheet | None
) -> tuple[bool, str]:
    """Whether features are in rows, and how that shows."""
    header, down = sheet.columns[1:], sheet.texts.get(id_column or "", sheet.first)
    ask = "Say which it is: --orientation samples-in-rows or --orientation features-in-rows."
    if labels is None:
        upright, across = target in sheet.columns, target in sheet.across
        if upright and across:
            msg = f"{path} has both a column and a row called {target!r}. {ask}"
            raise ValueError(msg)
        if not upright and not across:
            raise ValueError(unknown_column(str(target), [*sheet.columns, *(sheet.first or [])], path, loose=True))
        return across, f"the target {target!r} is a {'row' if across else 'column'}"
    if len(labels.columns) == 1:
        count = len(labels.values)
        upright, across = count == len(sheet.values), count == len(header)
        shown = f"the {count} entries of the target file are as many as"
    else:
        upright, across = _share_ids(labels, down), _share_ids(labels, header)
        shown = "ids of the target file are"
    if upright == across:
        both = "both in the header and in the rows" if upright else "neither in the header nor in the rows"
        msg = f"{path}: {shown.replace(' are as many as', ' fit')} {both}, so which way the table lies is open. {ask}"
        raise ValueError(msg)
    return across, f"{shown} {'in the header' if across else 'in the rows'}".replace("many as in the", "many as the")


def _share_ids(labels: Sheet, ids: Sequence[str] | None) -> bool:
    """Whether a column of the target file has most of the ids, or most of its entries are ids."""
    ids = ids or ()
    known, enough = set(ids), min(len(ids), len(labels.values)) / 2
    # a few in common prove nothing: a column of zeros and ones has numbers in common with many
    return any(len(known.intersection(cells)) > enough for cells in labels.texts.values())


def _turned(path: Path, sheet: Sheet, id_column: str | None) -> Sheet:
    """Return a sheet of features in rows with samples in rows."""
    # rows that were asked for by name are columns of their own afterwards
    rows = [i for i, name in enumerate(sheet.first or []) if name not in sheet.across]
    cells = sheet.texts.get(id_column or "", sheet.first or [])
    names = [cells[i] for i in rows]
    check_distinct(names, path, "features")
    at = [j for j, name in enumerate(sheet.columns) if j > 0 and name != id_column]
    return Sheet(
        np.ascontiguousarray(sheet.values[np.ix_(rows, at)].T),
        names,
        sheet.kind,
        rows=[sheet.columns[j] for j in at],
        texts={name: [cells[j] for j in at] for name, cells in sheet.across.items()},
        odd_rows={new: sheet.odd[old] for new, old in enumerate(at) if old in sheet.odd},
        lying=True,
    )


def _upright(sheet: Sheet, id_column: str | None, labels: Sheet | None, notes: list[str]) -> Sheet:
    """Return a sheet of samples in rows with their names, if it has any."""
    first, name = sheet.first or [], sheet.columns[0]
    if id_column is not None and id_column in sheet.texts:
        return replace(sheet, rows=sheet.texts[id_column])
    named = name == "" or (name not in sheet.texts and 0 in sheet.odd and len(set(first)) == len(first))
    if named or (
        labels is not None and len(labels.columns) > 1 and name not in sheet.texts and _share_ids(labels, first)
    ):
        called = repr(name) if name else "which has no name"
        notes.append(f"The first column, {called}, is taken for the names of samples.")
        return replace(sheet, rows=first, roles={"ids": name})
    return sheet


def unknown_column(column: str, known: Sequence[str], path: Path, *, loose: bool = False) -> str:
    """Say that there is no such column, and which are near."""
    near = difflib.get_close_matches(column, known[:COMPARED], n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"its first columns are {list(known[:5])}."
    more = " If samples are in columns, give the target in a file of its own (--target-file)." if loose else ""
    return f"{path} has no column {column!r}; {hint}{more}"
