"""Target, groups and batch: columns of the table, or of a file of their own that is matched by the ids of samples."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from randsel._utils.typing import Array
from randsel.tables._orientation import unknown_column
from randsel.tables.formats._text import MISSING, Sheet, check_distinct, number

_LARGEST_EXACT = 2**53


def matched(
    path: Path, samples: Sheet, labels: Sheet, file: Path, id_column: str | None, notes: list[str]
) -> dict[str, list[str]]:
    """Return the columns of the target file, in the order of the samples; empty where it has nothing on a sample."""
    if len(labels.columns) == 1:
        (name,), count = labels.columns, len(labels.values)
        if count != len(samples.values):
            msg = (
                f"{file} has one column, so no ids, and {count} entries for {len(samples.values)} samples; "
                "add a column of ids to match them."
            )
            raise ValueError(msg)
        notes.append(f"{file.name} has no ids: its {count} entries are taken in the order of the samples.")
        return {name: labels.texts[name]}
    if samples.rows is None:
        msg = f"{path} has no ids of samples to match with {file}; name their column (--id-column)."
        raise ValueError(msg)
    known = id_column if id_column in labels.texts else _ids_among(labels, samples.rows)
    given = labels.texts[known]
    check_distinct(samples.rows, path, "samples")
    check_distinct(given, file, f"ids in column {known!r}")
    place = {sample: at for at, sample in enumerate(given)}
    if not place.keys() & set(samples.rows):
        msg = f"{path} and {file} share no ids of samples; the first are {samples.rows[:3]} and {given[:3]}."
        raise ValueError(msg)
    notes.append(f"Targets are matched by column {known!r} of {file.name}.")
    _note_unmatched(
        [s for s in samples.rows if s not in place], f"samples have no entry in {file.name}, left out", notes
    )
    here = set(samples.rows)
    _note_unmatched([s for s in given if s not in here], f"entries of {file.name} have no sample in {path.name}", notes)
    return {
        name: [cells[place[sample]] if sample in place else "" for sample in samples.rows]
        for name, cells in labels.texts.items()
        if name != known
    }


def _ids_among(labels: Sheet, ids: list[str]) -> str:
    """Return the column of the target file that has most of the ids, the first of several."""
    known = set(ids)
    return max(labels.columns, key=lambda name: len(known.intersection(labels.texts[name])))


def _note_unmatched(names: list[str], what: str, notes: list[str]) -> None:
    if names:
        more = ", …" if len(names) > 3 else ""
        notes.append(f"{len(names)} {what}: {', '.join(names[:3])}{more}.")


def target_column(
    path: Path,
    samples: Sheet,
    file: Path,
    beside: dict[str, list[str]],
    target: str | None,
    others: Sequence[str | None],
) -> str:
    """Return which column of the target file is the target."""
    free = [name for name in beside if name not in others]
    if target is None and len(free) != 1:
        msg = f"{file} has the columns {free}; say which is the target (--target)."
        raise ValueError(msg)
    name = free[0] if target is None else target
    here = name in samples.columns or name in samples.texts
    if here:
        there = "and in" if name in beside else "and there is a target file without it,"
        msg = f"the target {name!r} is in {path} {there} {file}; leave the file out, or drop or rename the column."
        raise ValueError(msg)
    if name not in beside:
        raise ValueError(unknown_column(name, list(beside), file))
    return name


def column(path: Path, samples: Sheet, beside: dict[str, list[str]], name: str) -> Any:
    """Return a column by name, from the table or from the target file."""
    if name in beside:
        if name in samples.texts or name in samples.columns:
            msg = f"column {name!r} is both in {path} and in the target file; rename one of them."
            raise ValueError(msg)
        return beside[name]
    if name in samples.texts:
        return samples.texts[name]
    if name in samples.columns:
        return samples.values[:, samples.columns.index(name)]
    raise ValueError(unknown_column(name, [*samples.columns, *samples.texts, *beside], path))


def is_missing(cells: Any) -> Array:
    """Say of every entry whether it is missing."""
    if isinstance(cells, list):
        return np.array([cell in MISSING for cell in cells], dtype=bool)
    return np.isnan(cells) if cells.dtype.kind == "f" else np.zeros(len(cells), dtype=bool)


def labelled(cells: Any, use: Array) -> Array:
    """Return the entries in use as numbers if all of them are, as text otherwise."""
    if not isinstance(cells, list):
        found: Array = cells[use]
        return found.astype(str) if found.dtype.kind in "bO" else found
    texts = [cells[at] for at in use.tolist()]
    numbers = [None if text.lower() in ("true", "false") else number(text) for text in texts]
    # codes of many digits would become equal as numbers
    if any(value is None or abs(value) >= _LARGEST_EXACT for value in numbers):
        return np.array(texts, dtype=str)
    return np.array(numbers, dtype=np.float64)


def check_target(path: Path, y: Array, name: str, groups: Array | None, *, loose: bool) -> None:
    """Refuse a target that nothing can be learned from, or that is no target."""
    if len(y) < 4:
        lying = " If features are in rows, say so: --orientation features-in-rows." if loose else ""
        msg = f"{path} has {len(y)} samples with a target, and at least 4 are needed.{lying}"
        raise ValueError(msg)
    levels, codes = np.unique(y, return_inverse=True)
    if len(levels) == 1:
        msg = f"{path}: the target {name!r} is {levels[0]} in all {len(y)} samples, so nothing can be told apart."
        raise ValueError(msg)
    if y.dtype.kind == "U" and len(levels) > len(y) / 2:
        msg = (
            f"{path}: the target {name!r} is text of {len(levels)} levels in {len(y)} samples, such as "
            f"{str(levels[0])!r}; is it a column of ids (--id-column)? Name a column of classes or of numbers."
        )
        raise ValueError(msg)
    if groups is not None:
        members, place = np.unique(groups, return_inverse=True)
        if len(members) == len(levels) == len(set(zip(codes.tolist(), place.tolist(), strict=True))):
            msg = f"{path}: the groups are the classes of the target {name!r}; name the column of donors or sites."
            raise ValueError(msg)
