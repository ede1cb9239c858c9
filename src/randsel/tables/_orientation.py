"""Orientation of a table: finds the target or its ids, to decide whether samples are in rows.

Also reads the names of samples and the rows of text.
"""

import difflib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from randsel._utils.text import list_first, pluralise, shorten
from randsel.tables.formats import Sheet, check_distinct, is_id_name

#: Maximum number of names that a misspelt one is compared with.
_MAX_COMPARED = 100_000
#: Rows of text are left out if they are a smaller fraction of all rows; more are an error.
_MAX_TEXT_FRACTION = 0.1
LONG = 30  # number of characters of a name that an error message shows
_NAMED_SPELLINGS = 5  # number of features whose other spelling a note gives


def unknown_column(name: str, known: Sequence[str], path: Path) -> str:
    """Return the error message about a column that does not exist, with similar names."""
    folded = {other.casefold(): other for other in reversed(known[:_MAX_COMPARED])}
    matches = difflib.get_close_matches(name.casefold(), folded, n=3, cutoff=0.5)
    similar = " or ".join(repr(folded[match]) for match in matches)
    hint = f"did you mean {similar}?" if similar else f"its first columns are {list(known[:5])}."
    return f"{path} has no column {name!r}; {hint}"


# ---------------------------------------------------------------- samples in rows


def put_samples_in_rows(
    sheet: Sheet,
    orientation: str,
    target: str | None,
    id_column: str | None,
    labels: Sheet | None,
    notes: list[str],
    only: Sequence[str] = (),
    likely_ids: str | None = None,
) -> Sheet:
    """Return the sheet with samples in rows, and with their names if it has any.

    `labels` is the target file. `likely_ids` is used as the column of names if the file has it, its cells differ and it
    is not one of `only`, the features that are wanted.
    """
    known = [*sheet.columns, *sheet.named_columns, *(labels.columns if labels is not None else ())]
    if id_column is not None and id_column not in known:
        raise ValueError(unknown_column(id_column, known, sheet.path))
    sheet = _drop_units(sheet, notes)
    features_in_rows, reason = orientation == "features-in-rows", "as asked for"
    if sheet.features_in_rows is not None:
        if orientation != "auto" and features_in_rows != sheet.features_in_rows:
            raise ValueError(f"{sheet.path}: this format has a fixed orientation; leave --orientation out.")
        if sheet.features_in_rows:
            notes.append("Features are in rows, as always in this format.")
            return _transpose(_drop_text_rows(sheet, None, only, notes), None)
        notes.append("Samples are in rows.")
        ids = sheet.named_columns.get(id_column or "")
        return sheet if ids is None else replace(sheet, row_names=[str(name) for name in ids])
    if orientation == "auto":
        if only:
            features_in_rows, reason = _find_orientation_of_features(sheet, id_column, only)
        else:
            features_in_rows, reason = _find_orientation(sheet, target, id_column, labels)
    notes.append(f"{'Features' if features_in_rows else 'Samples'} are in rows: {reason}.")
    if features_in_rows:
        return _transpose(_drop_text_rows(sheet, id_column, only, notes), id_column)
    likely_ids = None if likely_ids in only else likely_ids
    return _with_row_names(_refuse_text_rows(sheet), id_column, likely_ids, labels, notes)


# ---------------------------------------------------------------- rows of text


def _drop_units(sheet: Sheet, notes: list[str]) -> Sheet:
    """Leave out a first row of text above rows of numbers, which holds units."""
    cells = sheet.text_rows.get(0, {})
    if len(sheet.text_rows) != 1 or not cells:
        return sheet
    with_numbers = [j for j in cells if j > 0 and not np.isnan(sheet.values[:, j]).all()]
    # a sample has an entry in the target, or in another named column, that other rows have too; units do not
    is_sample = any(column[0] and column[0] in column[1:] for column in sheet.named_columns.values())
    if len(with_numbers) < 2 or is_sample:
        return sheet
    example = cells[with_numbers[0]]
    notes.append(f"{sheet.row_place(0).capitalize()} is left out: it holds text above numbers, such as {example!r}.")
    return _drop_rows(sheet, {0})


def _drop_text_rows(sheet: Sheet, id_column: str | None, only: Sequence[str], notes: list[str]) -> Sheet:
    """Leave out rows of text in a sheet with features in rows.

    With `only`, all rows of text that it does not name are left out. Otherwise, rows of text are left out if they are
    few.
    """
    if only:
        names = sheet.named_columns.get(id_column or "", sheet.first_column or [])
        unwanted = {i for i in sheet.text_rows if names[i] not in {*only}}
        return _refuse_text_rows(_drop_rows(sheet, unwanted) if unwanted else sheet)
    if not sheet.text_rows or len(sheet.text_rows) >= max(2, _MAX_TEXT_FRACTION * len(sheet.values)):
        return _refuse_text_rows(sheet)
    names = [repr(sheet.first_column[i]) for i in sheet.text_rows] if sheet.first_column else []
    notes.append(
        f"{len(names)} {pluralise(len(names), 'row of text is', 'rows of text are')} left out: {list_first(names, 5)}. "
        "To use one, name it: --covariates, --categorical, --groups or --batch."
    )
    return _drop_rows(sheet, set(sheet.text_rows))


def _refuse_text_rows(sheet: Sheet) -> Sheet:
    """Record the cells of text rows as cells that are not numbers, which raise an error if their column is used."""
    bad_columns = dict(sheet.bad_columns)
    for i, cells in sheet.text_rows.items():
        for j, cell in cells.items():
            bad_columns.setdefault(j, (sheet.row_place(i), cell))
    return replace(sheet, bad_columns=bad_columns, text_rows={})


def _drop_rows(sheet: Sheet, dropped: set[int]) -> Sheet:
    """Return the sheet without some of its text rows."""
    remaining = [i for i in range(len(sheet.values)) if i not in dropped]
    new_index = {i: k for k, i in enumerate(remaining)}
    return replace(
        sheet,
        values=np.ascontiguousarray(sheet.values[remaining]),
        first_column=[sheet.first_column[i] for i in remaining] if sheet.first_column else sheet.first_column,
        named_columns={name: [cells[i] for i in remaining] for name, cells in sheet.named_columns.items()},
        id_columns={name: [cells[i] for i in remaining] for name, cells in sheet.id_columns.items()},
        text_rows={new_index[i]: cells for i, cells in sheet.text_rows.items() if i in new_index},
        below_detection=[(new_index[i], j, limit) for i, j, limit in sheet.below_detection if i in new_index],
        lines=[sheet.lines[i] for i in remaining],
        first_cells=[],
    )


# ---------------------------------------------------------------- orientation


def _find_orientation_of_features(sheet: Sheet, id_column: str | None, only: Sequence[str]) -> tuple[bool, str]:
    """Return whether features are in rows, and the reason: where the names of most of them were found."""
    in_header = len(set(only).intersection(sheet.columns))
    in_rows = len(set(only).intersection(sheet.named_columns.get(id_column or "", sheet.first_column or [])))
    if not in_header and not in_rows:
        raise ValueError(
            f"{sheet.path} has none of the {len(only)} requested features, such as {only[0]!r}; its first "
            f"columns are {list(sheet.columns[:5])}. Check that names are written in the same way."
        )
    names_found = f"the names of {max(in_header, in_rows)} of {len(only)} features are in the"
    return in_rows > in_header, f"{names_found} {'rows' if in_rows > in_header else 'header'}"


def _find_orientation(
    sheet: Sheet, target: str | None, id_column: str | None, labels: Sheet | None
) -> tuple[bool, str]:
    """Return whether features are in rows, and the reason: where the target, or its ids, were found."""
    remedy = "Say which it is: --orientation samples-in-rows or --orientation features-in-rows."
    if labels is None:
        is_column, is_row = target in sheet.columns, target in sheet.named_rows
        if is_column and is_row:
            raise ValueError(f"{sheet.path} has both a column and a row called {target!r}. {remedy}")
        if not is_column and not is_row:
            message = unknown_column(str(target), [*sheet.columns, *(sheet.first_column or [])], sheet.path)
            remedy = "If samples are in columns, give the target in a file of its own (--target-file)."
            raise ValueError(f"{message} {remedy}")
        return is_row, f"the target {target!r} is a {'row' if is_row else 'column'}"
    row_ids, header = possible_ids(sheet, id_column)
    if len(labels.columns) == 1:
        count = len(labels.values)
        in_rows, in_header = count == len(sheet.values), count == len(header)
        entries = f"the {pluralise(count, '1 entry', f'{count} entries')} of the target file"
        fit = f"{entries} {pluralise(count, 'fits', 'fit')}"
        match = f"{entries} {pluralise(count, 'is', 'are')} as many as the"
    else:
        in_rows, in_header = _share_ids(labels, row_ids), _share_ids(labels, header)
        fit, match = "ids of the target file are", "ids of the target file are in the"
    if in_rows == in_header:
        if not in_rows and len(labels.columns) > 1:
            shown = [list_first([repr(shorten(name, LONG)) for name in ids or ()], 2) for ids in (row_ids, header)]
            column = next((name for name in labels.columns if is_id_name(name)), labels.columns[0])
            entries = list_first([repr(name) for name in labels.named_columns[column]], 2)
            raise ValueError(
                f"{sheet.path}: {fit} neither in the header ({shown[1]}) nor in the rows ({shown[0]}), but are "
                f"{entries}. Write them alike in both files, or name the column of ids of the table (--id-column)."
            )
        both = "both in the header and in the rows" if in_rows else "neither in the header nor in the rows"
        raise ValueError(f"{sheet.path}: {fit} {both}, so the orientation is ambiguous. {remedy}")
    return in_header, f"{match} {'header' if in_header else 'rows'}"


def possible_ids(sheet: Sheet, id_column: str | None) -> tuple[Sequence[str] | None, Sequence[str]]:
    """Return the names of rows and of columns that may be ids of samples."""
    if sheet.row_names is not None:
        return sheet.row_names, []
    return sheet.named_columns.get(id_column or "", sheet.first_column), sheet.columns[1:]


def _share_ids(labels: Sheet, ids: Sequence[str] | None) -> bool:
    """Return whether a column of the target file contains most of the ids, or consists mostly of ids."""
    known = set(ids or ())
    # a few shared entries prove nothing: a column of zeros and ones shares numbers with many others
    enough = min(len(ids or ()), len(labels.values)) / 2
    return any(len(known.intersection(cells)) > enough for cells in labels.named_columns.values())


def describe_other_spellings(sheet: Sheet, only: Sequence[str]) -> list[str]:
    """Return a note if wanted names are absent, and columns have nearly the same names."""
    absent = set(only).difference(sheet.columns)
    if not absent:
        return []
    spelling = {_normalise_name(name): name for name in sheet.columns if name not in set(only)}
    nearest = {name: spelling.get(_normalise_name(name)) for name in only if name in absent}
    similar = [(name, column) for name, column in nearest.items() if column and _may_be_respelt(name, column)]
    if not similar:
        return []
    subject = pluralise(len(similar), "1 absent feature is", f"{len(similar)} absent features are")
    pairs = "; ".join([f"{column!r}, not {name!r}" for name, column in similar[:_NAMED_SPELLINGS]])
    more = "; …" if len(similar) > _NAMED_SPELLINGS else ""
    is_from_r = any(write_as_r(name) == column for name, column in similar)
    by_r = " R keeps names as they are with check.names = FALSE." if is_from_r else ""
    found = f"the file has {pairs}{more}"
    return [f"{subject} perhaps spelt differently: {found}. Rename the columns if they are the same features.{by_r}"]


def write_as_r(name: str) -> str:
    """Return a name as R writes it in a data frame (make.names): 1007_s_at is X1007_s_at, and HLA-A is HLA.A."""
    start = "" if re.match(r"[^\W\d_]|\.(?!\d)", name) else "X"
    return start + re.sub(r"[^\w.]", ".", name)


def undo_names_of_r(sheet: Sheet, only: Sequence[str], others: Sequence[str], notes: list[str]) -> Sheet:
    """Return the sheet with the names that R changed as they are wanted, and a note if there are any.

    `only` are the features that are wanted; without any, nothing is changed. `others` are columns of other roles. Names
    are matched in the header, or in the first column if more features are there, and only if R could have written all
    names there, and if no other name could have become the same.
    """
    if not only:
        return sheet
    header, rows = list(sheet.columns), list(sheet.first_column or [])
    in_header, in_rows = (_match_names_of_r(names, only, others) for names in (header, rows))
    n_header, n_rows = (
        len({*only}.intersection([*names, *matches.values()]))
        for names, matches in ((header, in_header), (rows, in_rows))
    )
    matches = in_header if n_header >= n_rows else in_rows
    if not matches:
        return sheet
    before, after = next(iter(matches.items()))
    subject = pluralise(len(matches), "1 name is", f"{len(matches)} names are")
    notes.append(
        f"{subject} matched as R changes names: {before!r} in {sheet.path.name} is taken for {after!r}. R keeps names "
        "as they are with check.names = FALSE."
    )

    def rename(names: Mapping[str, Any]) -> dict[str, Any]:
        return {matches.get(name, name): cells for name, cells in names.items()}

    if n_header >= n_rows:
        return replace(
            sheet,
            columns=[matches.get(name, name) for name in header],
            named_columns=rename(sheet.named_columns),
            id_columns=rename(sheet.id_columns),
        )
    return replace(sheet, first_column=[matches.get(name, name) for name in rows], named_rows=rename(sheet.named_rows))


def _match_names_of_r(names: Sequence[str], only: Sequence[str], others: Sequence[str]) -> dict[str, str]:
    """Return name -> wanted name that R changes to it; the first name, which may be that of the ids, may be any."""
    present, requested = Counter(names), dict.fromkeys([*only, *others])
    times = Counter(map(write_as_r, requested))
    changed = {write_as_r(name): name for name in requested if name not in present and times[write_as_r(name)] == 1}
    # R numbers names that became the same: a, a.1, ...
    matches = {new: name for new, name in changed.items() if present[new] == 1 and f"{new}.1" not in present}
    return matches if matches and all(write_as_r(name) == name for name in names[1:]) else {}


def _may_be_respelt(name: str, column: str) -> bool:
    """Return whether two names that are alike once normalised may be one feature; CD4+ and CD4- are two."""
    signs = [re.findall(r"[+-]", text) for text in (name, column)]
    return bool(re.search(r"[0-9a-z]", _normalise_name(name))) and not (all(signs) and signs[0] != signs[1])


def _normalise_name(name: str) -> str:
    """Return a name in lower case, without leading zeros, and with points for the characters that R replaces."""
    name = re.sub(r"[^0-9a-zäöüß]+", ".", name.strip().lower())
    name = re.sub(r"^x(?=\d)", "", name)  # R puts an X before a digit
    return re.sub(r"(?<!\d)0+(?=\d)", "", name.removesuffix(".0"))


def match_spelling(labels: Sheet, candidates: Sequence[Sequence[str] | None], notes: list[str]) -> Sheet:
    """Return the target file with ids written as in the table, if only the spelling differs, such as 001 and 1.

    `candidates` are lists of names in the table that may be ids: of rows, or of columns.
    """
    if len(labels.columns) == 1 or any(_share_ids(labels, ids) for ids in candidates):
        return labels
    for ids in candidates:
        spelling = {_normalise_name(name): name for name in ids or ()}
        if len(spelling) < len(ids or ()) or not spelling:
            continue
        for column, cells in labels.named_columns.items():
            normalised = [_normalise_name(cell) for cell in cells]
            matched = [spelling.get(name, cell) for name, cell in zip(normalised, cells, strict=True)]
            renamed = replace(labels, named_columns={**labels.named_columns, column: matched})
            if len(set(normalised)) == len(cells) and _share_ids(renamed, ids):
                before, after = next((a, b) for a, b in zip(cells, matched, strict=True) if a != b)
                notes.append(f"Ids are spelt differently: {before!r} in {labels.path.name} matches {after!r}.")
                return renamed
    return labels


def _transpose(sheet: Sheet, id_column: str | None) -> Sheet:
    """Return the transpose of a sheet that has features in rows."""
    # rows that were requested by name become named columns
    rows = [i for i, name in enumerate(sheet.first_column or []) if name not in sheet.named_rows]
    cells = sheet.named_columns.get(id_column or "", sheet.first_column or [])
    names = [cells[i] for i in rows]
    samples = [j for j, name in enumerate(sheet.columns) if j > 0 and name != id_column]
    values = np.ascontiguousarray(sheet.values[np.ix_(rows, samples)].T)
    ids = [sheet.columns[j] for j in samples]
    remedy = "give each sample a name of its own; if some are of one donor, name the donors (--groups)"
    check_distinct(ids, sheet.path, "samples", lambda i: f"column {samples[i] + 1}", remedy)
    named = {name: [cells[j] for j in samples] for name, cells in sheet.named_rows.items()}
    bad = {i: sheet.bad_columns[j] for i, j in enumerate(samples) if j in sheet.bad_columns}
    new_row, new_column = {j: i for i, j in enumerate(samples)}, {i: j for j, i in enumerate(rows)}
    limits = [(new_row[j], new_column[i], x) for i, j, x in sheet.below_detection if i in new_column and j in new_row]
    return Sheet(
        sheet.path,
        values,
        names,
        sheet.description,
        ids,
        named_columns=named,
        bad_rows=bad,
        below_detection=limits,
        column_lines=[sheet.lines[i] if sheet.lines else i + 1 for i in rows],
        line_word=sheet.line_word,
        features_in_rows=True,
    )


def _with_row_names(
    sheet: Sheet, id_column: str | None, likely_ids: str | None, labels: Sheet | None, notes: list[str]
) -> Sheet:
    """Add the names of the samples to a sheet that has them in rows, if a column can serve as names."""
    if id_column is not None and id_column in sheet.named_columns:
        ids = [str(name) for name in sheet.named_columns[id_column]]
        _note_repeated_ids(sheet, id_column, ids, notes)
        return replace(sheet, row_names=ids, roles={**sheet.roles, "ids": id_column})
    name, cells = sheet.columns[0], sheet.first_column or []
    is_unique_text = 0 in sheet.bad_columns and len(set(cells)) == len(cells)
    has_labels = labels is not None and len(labels.columns) > 1 and _share_ids(labels, cells)
    likely_cells = sheet.id_columns.get(likely_ids or "", [])
    if likely_ids and not has_labels and likely_cells and len(set(likely_cells)) == len(likely_cells):
        notes.append(f"Column {likely_ids!r} is taken for the names of samples, as in training.")
        return replace(sheet, row_names=likely_cells, roles={"ids": likely_ids})
    if name and (name in sheet.named_columns or not (is_unique_text or has_labels)):
        return sheet
    notes.append(f"The first column, {repr(name) if name else 'which has no name'}, is taken for the names of samples.")
    return replace(sheet, row_names=cells, roles={"ids": name})


def _note_repeated_ids(sheet: Sheet, id_column: str, ids: list[str], notes: list[str]) -> None:
    repeated = [name for name, times in Counter(ids).items() if times > 1]
    if repeated:
        first, second = [i for i, name in enumerate(ids) if name == repeated[0]][:2]
        notes.append(
            f"{len(repeated)} ids are repeated, such as {repeated[0]!r} in {sheet.row_place(first)} and "
            f"{sheet.row_place(second)}. If these are samples of one donor, say so: --groups {id_column!r} instead of "
            "--id-column."
        )
