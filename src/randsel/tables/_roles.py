"""Roles of rows and columns: which are samples, and which columns are ids, target, groups, batch and features."""

import difflib
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from randsel._utils.text import list_first
from randsel._utils.typing import Array
from randsel.tables.formats import MISSING, Sheet, check_distinct, parse_number

#: Maximum number of names that a misspelt one is compared with.
_MAX_COMPARED = 100_000
#: Whole numbers above this are not exact in double precision.
_LARGEST_EXACT = 2**53


def _unknown_column(name: str, known: Sequence[str], path: Path) -> str:
    """Return the error message about a column that does not exist, with similar names."""
    similar = " or ".join(map(repr, difflib.get_close_matches(name, known[:_MAX_COMPARED], n=3, cutoff=0.5)))
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
) -> Sheet:
    """Return the sheet with samples in rows, and with their names if it has any; `labels` is the target file."""
    known = [*sheet.columns, *sheet.named_columns, *(labels.columns if labels is not None else ())]
    if id_column is not None and id_column not in known:
        raise ValueError(_unknown_column(id_column, known, sheet.path))
    features_in_rows, reason = orientation == "features-in-rows", "as asked for"
    if sheet.features_in_rows is not None:
        if orientation != "auto" and features_in_rows != sheet.features_in_rows:
            raise ValueError(f"{sheet.path}: this format has a fixed orientation; leave --orientation out.")
        if sheet.features_in_rows:
            notes.append("Features are in rows, as always in this format.")
            return _transpose(sheet, None)
        notes.append("Samples are in rows.")
        ids = sheet.named_columns.get(id_column or "")
        return sheet if ids is None else replace(sheet, row_names=[str(name) for name in ids])
    if orientation == "auto":
        if only:
            features_in_rows, reason = _find_orientation_of_features(sheet, id_column, only)
        else:
            features_in_rows, reason = _find_orientation(sheet, target, id_column, labels)
    notes.append(f"{'Features' if features_in_rows else 'Samples'} are in rows: {reason}.")
    return _transpose(sheet, id_column) if features_in_rows else _with_row_names(sheet, id_column, labels, notes)


def _find_orientation_of_features(sheet: Sheet, id_column: str | None, only: Sequence[str]) -> tuple[bool, str]:
    """Return whether features are in rows, and the reason: where the names of most of them were found."""
    in_header = len(set(only).intersection(sheet.columns))
    in_rows = len(set(only).intersection(sheet.named_columns.get(id_column or "", sheet.first_column or [])))
    if not in_header and not in_rows:
        raise ValueError(
            f"{sheet.path} has none of the {len(only)} features that are looked for, such as {only[0]!r}; its first "
            f"columns are {list(sheet.columns[:5])}. Check that names are written in the same way."
        )
    places = f"the names of {max(in_header, in_rows)} of {len(only)} features are in the"
    return in_rows > in_header, f"{places} {'rows' if in_rows > in_header else 'header'}"


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
            message = _unknown_column(str(target), [*sheet.columns, *(sheet.first_column or [])], sheet.path)
            remedy = "If samples are in columns, give the target in a file of its own (--target-file)."
            raise ValueError(f"{message} {remedy}")
        return is_row, f"the target {target!r} is a {'row' if is_row else 'column'}"
    header, row_ids = sheet.columns[1:], sheet.named_columns.get(id_column or "", sheet.first_column)
    if len(labels.columns) == 1:
        count = len(labels.values)
        in_rows, in_header = count == len(sheet.values), count == len(header)
        entries = f"the {count} entries of the target file"
        fit, match = f"{entries} fit", f"{entries} are as many as the"
    else:
        in_rows, in_header = _share_ids(labels, row_ids), _share_ids(labels, header)
        fit, match = "ids of the target file are", "ids of the target file are in the"
    if in_rows == in_header:
        both = "both in the header and in the rows" if in_rows else "neither in the header nor in the rows"
        raise ValueError(f"{sheet.path}: {fit} {both}, so the orientation is ambiguous. {remedy}")
    return in_header, f"{match} {'header' if in_header else 'rows'}"


def _share_ids(labels: Sheet, ids: Sequence[str] | None) -> bool:
    """Return whether a column of the target file contains most of the ids, or consists mostly of ids."""
    known = set(ids or ())
    # a few shared entries prove nothing: a column of zeros and ones shares numbers with many others
    enough = min(len(ids or ()), len(labels.values)) / 2
    return any(len(known.intersection(cells)) > enough for cells in labels.named_columns.values())


def _transpose(sheet: Sheet, id_column: str | None) -> Sheet:
    """Return the transpose of a sheet that has features in rows."""
    # rows that were requested by name become named columns
    rows = [i for i, name in enumerate(sheet.first_column or []) if name not in sheet.named_rows]
    cells = sheet.named_columns.get(id_column or "", sheet.first_column or [])
    names = [cells[i] for i in rows]
    check_distinct(names, sheet.path, "features")
    samples = [j for j, name in enumerate(sheet.columns) if j > 0 and name != id_column]
    values = np.ascontiguousarray(sheet.values[np.ix_(rows, samples)].T)
    ids = [sheet.columns[j] for j in samples]
    named = {name: [cells[j] for j in samples] for name, cells in sheet.named_rows.items()}
    bad = {i: sheet.bad_columns[j] for i, j in enumerate(samples) if j in sheet.bad_columns}
    return Sheet(
        sheet.path, values, names, sheet.description, ids, named_columns=named, bad_rows=bad, features_in_rows=True
    )


def _with_row_names(sheet: Sheet, id_column: str | None, labels: Sheet | None, notes: list[str]) -> Sheet:
    """Add the names of the samples to a sheet that has them in rows, if a column can serve as names."""
    if id_column is not None and id_column in sheet.named_columns:
        return replace(sheet, row_names=sheet.named_columns[id_column])
    name, cells = sheet.columns[0], sheet.first_column or []
    is_unique_text = 0 in sheet.bad_columns and len(set(cells)) == len(cells)
    has_labels = labels is not None and len(labels.columns) > 1 and _share_ids(labels, cells)
    if name and (name in sheet.named_columns or not (is_unique_text or has_labels)):
        return sheet
    notes.append(f"The first column, {repr(name) if name else 'which has no name'}, is taken for the names of samples.")
    return replace(sheet, row_names=cells, roles={"ids": name})


# ---------------------------------------------------------------- target, groups and batch


def assign_roles(
    samples: Sheet, requested: dict[str, str | None], id_column: str | None, labels: Sheet | None, notes: list[str]
) -> tuple[dict[str, str], dict[str, Any]]:
    """Return role -> name, and role -> cells, of the roles: columns of the table or of the target file."""
    label_columns: dict[str, list[str]] = {}
    names = {role: name or samples.roles.get(role) for role, name in requested.items()}
    is_survival = requested.get("event") is not None
    if is_survival:  # a target that the format itself names is then not used
        del names["target"]
    if labels is not None:
        label_columns = _match_labels(samples, labels, id_column, notes)
    if labels is not None and not is_survival:
        others = [name for role, name in requested.items() if role != "target"]
        free = [name for name in label_columns if name not in others]
        names["target"] = _find_target(samples, labels.path, label_columns, free, requested["target"])
    roles = {role: name for role, name in names.items() if name is not None}
    return roles, {role: _get_column(samples, label_columns, name) for role, name in roles.items()}


def drop_absent_outcome(
    samples: Sheet, requested: dict[str, str | None], labels: Sheet | None, notes: list[str]
) -> dict[str, str | None]:
    """Return the requested roles without an outcome that neither the table nor the target file has, with a note."""
    known = {*samples.columns, *samples.named_columns, *(labels.columns if labels is not None else ())}
    absent = [name for role in ("target", "event", "time") if (name := requested[role]) and name not in known]
    if not absent:
        return requested
    notes.append(f"There is no column {absent[0]!r}, so there is no outcome to compare predictions with.")
    return {**requested, "target": None, "event": None, "time": None}


def _match_labels(samples: Sheet, labels: Sheet, id_column: str | None, notes: list[str]) -> dict[str, list[str]]:
    """Return the columns of the target file in the order of the samples; "" where a sample is not in the file."""
    path, file, columns, ids = samples.path, labels.path, labels.named_columns, samples.row_names
    n_entries, n_samples = len(labels.values), len(samples.values)
    if len(labels.columns) == 1:
        if n_entries != n_samples:
            raise ValueError(
                f"{file} has one column, so no ids, and {n_entries} entries for {n_samples} samples; add a column of "
                "ids to match them."
            )
        notes.append(f"{file.name} has no ids: its {n_entries} entries are taken in the order of the samples.")
        return columns
    if ids is None:
        raise ValueError(f"{path} has no ids of samples to match with {file}; name their column (--id-column).")
    known, matching = set(ids), id_column
    if matching not in columns:  # the column with most of the ids, the first of several
        matching = max(columns, key=lambda name: len(known.intersection(columns[name])))
    label_ids = columns[matching]
    check_distinct(ids, path, "samples")
    check_distinct(label_ids, file, f"ids in column {matching!r}")
    position = {sample: i for i, sample in enumerate(label_ids)}
    if not position.keys() & known:
        raise ValueError(f"{path} and {file} share no ids of samples; the first are {ids[:3]} and {label_ids[:3]}.")
    notes.append(f"Targets are matched by column {matching!r} of {file.name}.")
    for problem, unmatched in {
        f"samples have no entry in {file.name}, left out": [name for name in ids if name not in position],
        f"entries of {file.name} have no sample in {path.name}": [name for name in label_ids if name not in known],
    }.items():
        if unmatched:
            notes.append(f"{len(unmatched)} {problem}: {list_first(unmatched, 3)}.")
    others = {name: [*cells, ""] for name, cells in columns.items() if name != matching}
    # the last entry, "", stands for samples that are not in the file
    return {name: [cells[position.get(sample, -1)] for sample in ids] for name, cells in others.items()}


def _find_target(samples: Sheet, path: Path, labels: Collection[str], free: list[str], target: str | None) -> str:
    """Return the column of the target file that is the target: the named one, or the only one without another role."""
    if target is None and len(free) != 1:
        raise ValueError(f"{path} has the columns {free}; say which is the target (--target).")
    name = free[0] if target is None else target
    if name in samples.columns or name in samples.named_columns:
        other = f"in {path}" if name in labels else f"there is a target file without it, {path}"
        remedy = "leave the file out, or drop or rename the column"
        raise ValueError(f"the target {name!r} is in {samples.path} and {other}; {remedy}.")
    if name not in labels:
        raise ValueError(_unknown_column(name, list(labels), path))
    return name


def _get_column(samples: Sheet, labels: dict[str, list[str]], name: str) -> Any:
    """Return a column of the table or of the target file."""
    known = [*samples.columns, *samples.named_columns]
    if name in labels and name in known:
        raise ValueError(f"column {name!r} is both in {samples.path} and in the target file; rename one of them.")
    if name not in labels and name not in known:
        raise ValueError(_unknown_column(name, [*known, *labels], samples.path))
    cells = labels.get(name, samples.named_columns.get(name))
    return samples.values[:, samples.columns.index(name)] if cells is None else cells


def is_missing(cells: Any) -> Array:
    """Return a mask of the missing entries of a column."""
    if isinstance(cells, list):
        return np.array([cell in MISSING for cell in cells], dtype=bool)
    return np.isnan(cells) if cells.dtype.kind == "f" else np.zeros(len(cells), dtype=bool)


def to_target(cells: Any, rows: Array) -> Array:
    """Return the entries of some rows as numbers if all of them are numbers, otherwise as text."""
    if not isinstance(cells, list):
        values: Array = cells[rows]
        return values.astype(str) if values.dtype.kind in "bO" else values
    texts = [cells[i] for i in rows.tolist()]
    numbers = [None if text.lower() in ("true", "false") else parse_number(text) for text in texts]
    # codes of many digits could become equal as numbers
    if any(number is None or abs(number) >= _LARGEST_EXACT for number in numbers):
        return np.array(texts, dtype=str)
    return np.array(numbers, dtype=np.float64)


def check_target(samples: Sheet, y: Array, name: str, groups: Array | None) -> None:
    """Raise ValueError for a target that is too small, constant, or looks like ids or groups."""
    path = samples.path
    if len(y) < 4:
        hint = " If features are in rows, say so: --orientation features-in-rows."
        hint = hint if samples.features_in_rows is None else ""
        raise ValueError(f"{path} has {len(y)} samples with a target, and at least 4 are needed.{hint}")
    if y.dtype.names is not None:
        if len(np.unique(y["time"])) == 1:
            raise ValueError(f"{path}: all times in {name!r} are equal, so nobody survived longer than another.")
        return
    levels = np.unique(y)
    target = f"{path}: the target {name!r}"
    if len(levels) == 1:
        raise ValueError(f"{target} is {levels[0]} in all {len(y)} samples, so nothing can be told apart.")
    if y.dtype.kind == "U" and len(levels) > len(y) / 2:
        raise ValueError(
            f"{target} is text of {len(levels)} levels in {len(y)} samples, such as {str(levels[0])!r}; is it a column "
            "of ids (--id-column)? Name a column of classes or of numbers."
        )
    pairs = set() if groups is None else set(zip(y.tolist(), groups.tolist(), strict=True))
    if groups is not None and len(np.unique(groups)) == len(levels) == len(pairs):
        remedy = "name the column of donors or sites"
        raise ValueError(f"{path}: the groups are the classes of the target {name!r}; {remedy}.")


# ---------------------------------------------------------------- features


def select_features(
    samples: Sheet,
    other_roles: set[str],
    categorical: Sequence[str],
    dropped: Sequence[str],
    rows: Array,
    only: Sequence[str] = (),
) -> tuple[Array, list[str], list[int]]:
    """Return values and names of the columns without another role, and the indices of the categorical ones."""
    known = dict.fromkeys([*samples.columns, *samples.named_columns])
    for name in (*categorical, *dropped):
        is_dropped_sample = name in dropped and samples.features_in_rows and name in (samples.row_names or ())
        if name not in known and not is_dropped_sample:
            raise ValueError(_unknown_column(name, list(known), samples.path))
    excluded = other_roles | set(dropped)
    wanted = set(only or samples.columns)
    indices = [j for j, name in enumerate(samples.columns) if name in wanted and name not in excluded]
    if not samples.features_in_rows:
        _check_numbers(samples, [j for j in indices if samples.columns[j] not in categorical])
    X = _take(samples.values, rows, indices)
    names = [samples.columns[j] for j in indices]
    for name in categorical:
        if name in samples.named_columns:
            codes = _encode_levels(samples.named_columns[name], rows)
            if name not in names:
                X, names = np.column_stack([X, codes]), [*names, name]
            X = X if X.flags.writeable else X.copy()
            X[:, names.index(name)] = codes
    if not names:
        raise ValueError(f"{samples.path} has no features: all of its columns have another purpose.")
    check_distinct(names, samples.path, "features")
    return X, names, [names.index(name) for name in categorical]


def _check_numbers(samples: Sheet, columns: list[int]) -> None:
    """Raise ValueError for features with text, or with numbers of so many digits that they must be ids."""
    bad = [j for j in columns if j in samples.bad_columns]
    if bad:
        more = f" So do {len(bad) - 1} other columns hold text." if len(bad) > 1 else ""
        raise ValueError(f"{samples.path}: {samples.bad_columns[bad[0]]}{more}")
    for j in columns if samples.first_cells else ():
        cell = samples.first_cells[j]
        if len(cell) > 15 and cell.isdecimal():
            raise ValueError(
                f"{samples.path}: column {samples.columns[j]!r} holds {cell}, more digits than a number keeps; are "
                "these ids? Name them (--id-column), or leave them out (--drop-columns)."
            )


def _take(values: Array, rows: Array, columns: list[int]) -> Array:
    """Return rows and columns of a matrix with one copy, or with none if these are all."""
    all_rows = len(rows) == len(values)
    if all_rows and len(columns) == values.shape[1]:
        return values
    if columns and columns == list(range(columns[0], columns[-1] + 1)):
        block = values[:, columns[0] : columns[-1] + 1]
        return np.ascontiguousarray(block) if all_rows else block[rows]
    return values[:, columns] if all_rows else values[np.ix_(rows, np.array(columns, dtype=int))]


def _encode_levels(cells: Any, rows: Array) -> Array:
    """Return the codes of categorical entries, which number the levels in sorted order; NaN if missing."""
    names = [str(cells[i]) for i in rows.tolist()]
    levels = sorted({name for name, missing in zip(names, is_missing(cells)[rows], strict=True) if not missing})
    codes = {name: code for code, name in enumerate(levels)}
    return np.array([codes.get(name, np.nan) for name in names], dtype=np.float64)
