"""Roles of columns, of the table and of the target file: target, groups, batch and covariates."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from randsel._utils.text import list_first, pluralise
from randsel._utils.typing import Array
from randsel.tables._orientation import unknown_column
from randsel.tables.formats import MISSING, Sheet, check_distinct, has_cells, parse_number

#: Whole numbers above this are not exact in double precision.
_LARGEST_EXACT = 2**53


def assign_roles(
    samples: Sheet,
    requested: dict[str, str | None],
    id_column: str | None,
    labels: Sheet | None,
    notes: list[str],
    *,
    optional: bool,
) -> tuple[dict[str, str], dict[str, Any], dict[str, Path]]:
    """Return role -> name, role -> cells, and role -> file of the roles: columns of the table or of the target file.

    If roles are `optional`, those whose columns are in neither are left out, with a note about an absent outcome, and
    groups may have gaps.
    """
    wanted = _absent_outcome(samples, requested, labels) if optional else None
    if optional:
        requested = _without_absent(samples, requested, labels)
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
        names["target"] = _find_target(samples, labels.path, label_columns, free, requested["target"], optional)
    if wanted is not None and not (is_survival or names["target"]):
        notes.append(f"There is no column {wanted!r}, so there is no outcome to compare predictions with.")
    roles = {role: name for role, name in names.items() if name is not None}
    cells = {role: _get_column(samples, label_columns, name) for role, name in roles.items()}
    if optional and "groups" in cells:
        cells["groups"] = _separate_unknown(cells["groups"])
    files = {
        role: samples.path if labels is None or name not in label_columns else labels.path
        for role, name in roles.items()
    }
    return roles, cells, files


def _known_columns(samples: Sheet, labels: Sheet | None) -> set[str]:
    return {*samples.columns, *samples.named_columns, *(labels.columns if labels is not None else ())}


def _absent_outcome(samples: Sheet, requested: dict[str, str | None], labels: Sheet | None) -> str | None:
    """Return the name of the first column of the outcome that neither the table nor the target file has."""
    names = [requested[role] for role in ("target", "event", "time")]
    known = _known_columns(samples, labels)
    return next((name for name in names if name is not None and name not in known), None)


def _without_absent(samples: Sheet, requested: dict[str, str | None], labels: Sheet | None) -> dict[str, str | None]:
    """Return the requested roles without those whose columns are absent; an outcome needs all of its columns."""
    known = _known_columns(samples, labels)
    if _absent_outcome(samples, requested, labels) is not None:
        requested = {**requested, "target": None, "event": None, "time": None}
    return {role: name for role, name in requested.items() if name is None or name in known}


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
        remedy = "name their column (--id-column)" if has_cells(path) else "store them as an array 'sample_ids'"
        raise ValueError(f"{path} has no ids of samples to match with {file}; {remedy}.")
    known, matching = set(ids), id_column
    if matching not in columns:  # the column with most of the ids, the first of several
        matching = max(columns, key=lambda name: len(known.intersection(columns[name])))
    label_ids = columns[matching]
    remedy = "give each sample an id of its own; if some are of one donor, name the column of donors (--groups)"
    check_distinct(ids, path, "samples", samples.row_place, remedy)
    check_distinct(label_ids, file, f"ids in column {matching!r}", labels.row_place, remedy)
    position = {sample: i for i, sample in enumerate(label_ids)}
    if not position.keys() & known:
        raise ValueError(f"{path} and {file} share no ids of samples; the first are {ids[:3]} and {label_ids[:3]}.")
    notes.append(f"Targets are matched by column {matching!r} of {file.name}.")
    is_text = text_columns(samples)
    without_entry = [name for i, name in enumerate(ids) if name not in position and not is_text[i]]
    without_sample = [name for name in label_ids if name not in known]
    if without_entry:
        verb = pluralise(len(without_entry), "sample has", "samples have")
        notes.append(f"{len(without_entry)} {verb} no entry in {file.name}: {list_first(without_entry, 3)}.")
    if without_sample:
        entries, verb = ("entry", "has") if len(without_sample) == 1 else ("entries", "have")
        unknown = f"{len(without_sample)} {entries} of {file.name} {verb} no sample in {path.name}"
        notes.append(f"{unknown}: {list_first(without_sample, 3)}.")
    others = {name: [*cells, ""] for name, cells in columns.items() if name != matching}
    # the last entry, "", stands for samples that are not in the file
    return {name: [cells[position.get(sample, -1)] for sample in ids] for name, cells in others.items()}


def text_columns(samples: Sheet) -> Array:
    """Return a mask of the supposed samples that hold text and no number, such as gene symbols beside samples."""
    is_text = np.full(len(samples.values), False)
    is_text[list(samples.bad_rows)] = True
    return np.asarray(is_text & np.isnan(samples.values).all(axis=1))


def _find_target(
    samples: Sheet, path: Path, labels: Collection[str], free: list[str], target: str | None, optional: bool
) -> str | None:
    """Return the column of the target file that is the target: the named one, or the only one without another role.

    An optional target may be absent. It may also be in the table, if the target file has only covariates.
    """
    if optional and (len(free) != 1 if target is None else target not in labels):
        return target
    if target is None and len(free) != 1:
        raise ValueError(f"{path} has the columns {free}; say which is the target (--target).")
    name = free[0] if target is None else target
    if name in samples.columns or name in samples.named_columns:
        other = f"in {path}" if name in labels else f"there is a target file without it, {path}"
        remedy = "leave the file out, or drop or rename the column"
        raise ValueError(f"the target {name!r} is in {samples.path} and {other}; {remedy}.")
    if name not in labels:
        raise ValueError(unknown_column(name, list(labels), path))
    return name


def _get_column(samples: Sheet, labels: dict[str, list[str]], name: str) -> Any:
    """Return a column of the table or of the target file."""
    known = [*samples.columns, *samples.named_columns]
    if name in labels and name in known:
        raise ValueError(f"column {name!r} is both in {samples.path} and in the target file; rename one of them.")
    if name not in labels and name not in known:
        raise ValueError(unknown_column(name, [*known, *labels], samples.path))
    cells = labels.get(name, samples.named_columns.get(name))
    return samples.values[:, samples.columns.index(name)] if cells is None else cells


def is_missing(cells: Any) -> Array:
    """Return a mask of the missing entries of a column."""
    if isinstance(cells, list):
        return np.array([cell in MISSING for cell in cells], dtype=bool)
    return np.isnan(cells) if cells.dtype.kind == "f" else np.zeros(len(cells), dtype=bool)


def _separate_unknown(groups: Any) -> list[str]:
    """Return groups as text; a sample whose group is not known gets a group of its own."""
    gaps = is_missing(groups).tolist()
    return [f"unknown group of sample {i}" if gap else str(groups[i]) for i, gap in enumerate(gaps)]


def to_target(cells: Any, rows: Array, where: str) -> Array:
    """Return the entries of some rows as numbers if all of them are numbers, otherwise as text.

    `where` names file and column in error messages.
    """
    if not isinstance(cells, list):
        values: Array = cells[rows]
        values = values.astype(str) if values.dtype.kind in "bO" else values
        return np.char.strip(values) if values.dtype.kind == "U" else values
    texts = [cells[i].strip() for i in rows.tolist()]
    numbers = [None if text.lower() in ("true", "false") else parse_number(text) for text in texts]
    # codes of many digits could become equal as numbers
    if any(number is None or abs(number) >= _LARGEST_EXACT for number in numbers):
        return np.array(texts, dtype=str)
    check_percent_signs(texts, where)
    return np.array(numbers, dtype=np.float64)


def check_percent_signs(texts: Sequence[str], where: str) -> None:
    """Raise ValueError if only some of these numbers, which are not missing, have a percent sign."""
    with_percent = [text.endswith("%") for text in texts if text not in MISSING]
    if any(with_percent) and not all(with_percent):
        raise ValueError(f"{where} has a percent sign in some cells only; write all of them alike.")


def check_target(samples: Sheet, y: Array, name: str, groups: Array | None, path: Path) -> None:
    """Raise ValueError for a target that is too small, constant, or looks like ids or groups; `path` is its file."""
    if len(y) < 4:
        hint = " If features are in rows, say so: --orientation features-in-rows."
        hint = hint if samples.features_in_rows is None else ""
        raise ValueError(f"{samples.path} has {len(y)} samples with a target, and at least 4 are needed.{hint}")
    if y.dtype.names is not None:
        if len(np.unique(y["time"])) == 1:
            raise ValueError(f"{path}: all times in {name!r} are equal, so nobody survived longer than another.")
        return
    levels, counts = np.unique(y, return_counts=True)
    target = f"{path}: the target {name!r}"
    _check_spelling(target, levels, counts)
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


def _check_spelling(target: str, levels: Array, counts: Array) -> None:
    """Raise ValueError for two classes whose names differ only in case or in spaces."""
    if levels.dtype.kind != "U":
        return
    spellings: dict[str, int] = {}
    for i, level in enumerate(levels.tolist()):
        first = spellings.setdefault("".join(level.split()).casefold(), i)
        if first != i:
            samples = f"{counts[first]} {pluralise(int(counts[first]), 'sample', 'samples')}"
            raise ValueError(
                f"{target} has the classes {str(levels[first])!r} ({samples}) and {level!r} "
                f"({counts[i]}), which differ in upper case or spaces only; write them alike."
            )
