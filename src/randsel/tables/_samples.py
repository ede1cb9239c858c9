"""Which samples of a table are read: those with a target, or, for new samples, all of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from randsel._numerics.event_times import survival_array
from randsel._utils.text import list_first, pluralise
from randsel._utils.typing import Array
from randsel.tables._roles import is_missing, text_columns, to_target
from randsel.tables._survival_columns import is_missing_survival, read_survival_columns
from randsel.tables.formats import Sheet, describe_bad_cell


def choose_by_target(
    samples: Sheet,
    roles: dict[str, str],
    cells: dict[str, Any],
    files: dict[str, Path],
    dropped: Sequence[str],
    notes: list[str],
    classes: Sequence[Any] | dict[str, str] | None = None,
) -> tuple[Array, Array]:
    """Return target and row indices of the samples that have a target and are of the wanted classes.

    `files` has the file of every role, for errors.
    """
    is_survival = "event" in roles
    without_target = (
        is_missing_survival(files["time"], roles, cells, samples.row_names)
        if is_survival
        else is_missing(cells["target"])
    )
    is_text = text_columns(samples) & without_target
    notes += _describe_text_columns(samples, is_text)
    if count := int((without_target & ~is_text).sum()):
        verbs = pluralise(count, "sample has no target and is", "samples have no target and are")
        notes.append(f"{count} {verbs} left out.")
    is_dropped = np.isin(np.array(samples.row_names), list(dropped)) if samples.features_in_rows else False
    rows = np.flatnonzero(~(without_target | is_dropped))
    _check_rows(samples, rows)
    if is_survival:
        if classes is not None:
            raise ValueError(f"{samples.path}: survival has no classes to choose; leave them out.")
        return read_survival_columns(files, roles, cells, samples.row_names, rows, notes), rows
    y = labels = to_target(cells["target"], rows, f"{files['target']}: the target {roles['target']!r}")
    if classes is None:
        return y, rows
    wanted = list(classes)
    if isinstance(classes, dict):
        patterns = [(pattern.lower(), label) for pattern, label in classes.items()]
        texts = [str(text).lower() for text in y.tolist()]
        matches = [next((label for pattern, label in patterns if pattern in text), "") for text in texts]
        labels, wanted = np.array(matches, dtype=str), sorted(set(classes.values()))
    keep = np.isin(labels, wanted)
    if len(np.unique(labels[keep])) < 2:
        problem = f"fewer than two of the classes {wanted} were found"
        raise ValueError(f"{samples.path}: {problem}; samples say {np.unique(y)[:8].tolist()}.")
    if not keep.all():
        notes.append(f"{int((~keep).sum())} samples of other classes are left out.")
    return labels[keep], rows[keep]


def _check_rows(samples: Sheet, rows: Array) -> None:
    """Raise ValueError for the first sample that holds text, in a table that had samples in columns."""
    bad = next((i for i in rows.tolist() if i in samples.bad_rows), None)
    if bad is not None:
        name = "" if samples.row_names is None else samples.row_names[bad]
        raise ValueError(f"{samples.path}: {describe_bad_cell(name, *samples.bad_rows[bad])}")


def _find_text_columns(samples: Sheet, only: Sequence[str], notes: list[str]) -> Array:
    """Return a mask of the supposed samples that are columns of text in the file, such as gene symbols.

    In a file with features in rows, such a column holds text, and no number of any wanted feature (`only`).
    """
    wanted = [j for j, name in enumerate(samples.columns) if name in {*only}]
    is_text_column = np.full(len(samples.values), False)
    is_text_column[list(samples.bad_rows)] = True
    is_text_column &= np.isnan(samples.values[:, wanted]).all(axis=1)
    notes += _describe_text_columns(samples, is_text_column)
    return is_text_column


def _describe_text_columns(samples: Sheet, is_text_column: Array) -> list[str]:
    row_names = zip(samples.row_names or [], is_text_column.tolist(), strict=False)
    names = [repr(name) for name, is_text in row_names if is_text]
    columns_are = pluralise(len(names), "1 column of text is", f"{len(names)} columns of text are")
    return [f"{columns_are} not taken for samples: {list_first(names, 5)}."] if names else []


def read_optional_outcome(
    samples: Sheet,
    roles: dict[str, str],
    cells: dict[str, Any],
    files: dict[str, Path],
    dropped: Sequence[str],
    notes: list[str],
    only: Sequence[str],
) -> tuple[Array, Array]:
    """Return the outcome of new samples, NaN or "" where it is unknown, and their rows.

    Dropped samples are left out. `only` are the features that are wanted; `files` has the file of every role.
    """
    is_left_out = np.full(len(samples.values), False)
    if samples.features_in_rows:
        is_left_out = np.isin(np.array(samples.row_names), list(dropped)) | _find_text_columns(samples, only, notes)
    rows = np.flatnonzero(~is_left_out)
    if samples.features_in_rows and samples.row_names:
        listed = list_first([repr(samples.row_names[i]) for i in rows.tolist()], 3)
        notes.append(f"The columns {listed} are the {len(rows)} samples; --drop-columns leaves out other columns.")
    _check_rows(samples, rows)
    if "event" in roles:
        columns = roles, cells, samples.row_names
        unknown = is_missing_survival(files["time"], *columns)[rows]
        y = survival_array(np.zeros(len(rows), dtype=bool), np.full(len(rows), np.nan))
        if not unknown.all():
            y[~unknown] = read_survival_columns(files, *columns, rows[~unknown], notes)
    elif "target" in roles:
        unknown = is_missing(cells["target"])[rows]
        y = to_target(cells["target"], rows, f"{files['target']}: the target {roles['target']!r}")
        if unknown.any():
            y[unknown] = "" if y.dtype.kind == "U" else np.nan
    else:
        return np.full(len(rows), np.nan), rows
    if unknown.any():
        names = [samples.row_names[i] for i in rows[unknown].tolist()] if samples.row_names else []
        named = f": {list_first(names, 3)}" if names else ""
        verbs = pluralise(int(unknown.sum()), "has no outcome and is", "have no outcome and are")
        notes.append(f"{unknown.sum()} of {len(rows)} samples {verbs} predicted but not evaluated{named}.")
    return y, rows
