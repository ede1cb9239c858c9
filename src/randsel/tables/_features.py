"""Finds the features of a table, which are the columns without another role.

Handles text, identifiers, repeated names, and values below the limit of detection.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from randsel._utils.text import list_first, pluralise
from randsel._utils.typing import Array
from randsel.tables._identifiers import (
    check_survival_pair,
    check_text_event,
    check_text_ids,
    find_identifiers,
    find_sample_names,
)
from randsel.tables._orientation import unknown_column
from randsel.tables._roles import is_missing
from randsel.tables.formats import Sheet, check_distinct, has_other_decimals

#: Columns of text are left out if they are a smaller fraction of all columns; more are an error, because features may
#: be among them.
_MAX_TEXT_FRACTION = 0.1


# ---------------------------------------------------------------- values below the limit of detection


def half_minimum(values: Any) -> float:
    """Return half of the smallest value; the smallest value if it is not positive, NaN if there is none."""
    smallest = float(np.fmin.reduce(np.asarray(values, dtype=np.float64)))
    return smallest / 2 if smallest > 0 else smallest


def fill_below_detection(
    samples: Sheet,
    rule: str | None,
    detection_values: Mapping[str, float] | None,
    only: Sequence[str],
    notes: list[str],
) -> dict[int, float]:
    """Replace cells such as <LOD in place, and return column -> value that replaces them.

    The value is that of `detection_values`, or else half of the smallest number or limit of the feature. With the rule
    "missing", cells stay missing. If `only` some columns are wanted, the others stay as they are.
    """
    cells = [cell for cell in samples.below_detection if not only or samples.columns[cell[1]] in only]
    if rule is None or not cells:
        return {}
    values = dict[int, float]()
    if rule == "half-minimum":
        limits: dict[int, list[float]] = {}
        for _, j, limit in cells:
            limits.setdefault(j, []).append(limit)
        for j, of_column in limits.items():
            name, half_of_minimum = samples.columns[j], half_minimum([*samples.values[:, j], *of_column])
            values[j] = half_of_minimum if detection_values is None else detection_values.get(name, half_of_minimum)
        for i, j, _ in cells:
            samples.values[i, j] = values[j]
    result = "missing"
    if rule == "half-minimum" and detection_values is None:
        result = "half of the smallest value of their feature"
    elif rule == "half-minimum":
        result = "replaced by the values from training"
    n_cells = pluralise(len(cells), "1 value is", f"{len(cells)} values are")
    they_are = pluralise(len(cells), "it is", "they are")
    notes.append(f"{n_cells} below the limit of detection; {they_are} {result} (--below-detection).")
    return values


# ---------------------------------------------------------------- repeated names


def resolve_duplicates(samples: Sheet, rule: str, only: Sequence[str], notes: list[str]) -> Sheet:
    """Return the sheet with distinct names of columns; raise ValueError for repeated ones unless a rule is chosen.

    If only some names are wanted (`only`), others may be repeated. The rule "rename" renames all copies, because a
    wanted name may be that of a renamed copy.
    """
    names = samples.columns
    if len(set(names)) == len(names):
        return samples
    indices: dict[str, list[int]] = {}
    for j, name in enumerate(names):
        indices.setdefault(name, []).append(j)
    wanted = set(names) if not only or rule == "rename" else set(only)
    repeated = {name: copies for name, copies in indices.items() if len(copies) > 1 and name in wanted}
    if not repeated:
        return samples
    if rule == "error":
        plural = "features" if samples.features_in_rows is not None else "columns"
        remedy = "give each a name of its own, or choose --duplicates rename, mean or first"
        columns = [j for j, name in enumerate(names) if name in repeated]
        locations = [samples.column_place(j) for j in columns]
        check_distinct([names[j] for j in columns], samples.path, plural, locations.__getitem__, remedy)
    n_repeated = f"{len(repeated)} {pluralise(len(repeated), 'name is', 'names are')} repeated, such as"
    example = next(iter(repeated))
    if rule == "rename":
        new_names = _rename(names)
        second = new_names[repeated[example][1]]
        notes.append(f"{n_repeated} {example!r}; the second one is called {second!r} (--duplicates rename).")
        return replace(samples, columns=new_names)
    bad = [j for copies in repeated.values() for j in copies if j in samples.bad_columns]
    if rule == "mean" and bad:
        raise ValueError(f"{samples.path}: {samples.describe_text(bad[0])}")
    values = samples.values if samples.values.flags.writeable else samples.values.copy()
    if rule == "mean":
        for copies in repeated.values():
            block = values[:, copies]
            n_present = (~np.isnan(block)).sum(axis=1)
            values[:, copies[0]] = np.where(n_present, np.nansum(block, axis=1) / np.maximum(n_present, 1), np.nan)
    action = "columns with the same name are averaged" if rule == "mean" else "the first column of each name is kept"
    notes.append(f"{n_repeated} {example!r}; {action} (--duplicates {rule}).")
    return _keep_columns(replace(samples, values=values), sorted(copies[0] for copies in indices.values()))


def fill_and_resolve(
    samples: Sheet,
    duplicates: str,
    below_detection: str | None,
    detection_values: Mapping[str, float] | None,
    only: Sequence[str],
    notes: list[str],
) -> tuple[Sheet, dict[str, float]]:
    """Return the sheet with distinct names and without cells below detection, and name -> value that replaces these."""
    if duplicates == "rename":  # values for cells below detection go by the new names
        samples = resolve_duplicates(samples, duplicates, only, notes)
    filled = fill_below_detection(samples, below_detection, detection_values, only, notes)
    # of columns with the same name, the first stays
    replacements = {samples.columns[j]: value for j, value in reversed(filled.items())}
    return resolve_duplicates(samples, duplicates, only, notes), replacements


def _rename(names: list[str]) -> list[str]:
    """Return distinct names: the second A is called A.2, or A.3 if A.2 exists, and so on."""
    taken, times, new_names = set(names), dict[str, int](), []
    for name in names:
        times[name] = times.get(name, 0) + 1
        new = name
        while times[name] > 1 and new in taken:
            new = f"{name}.{times[name]}"
            times[name] += new in taken
        taken.add(new)
        new_names.append(new)
    return new_names


def _keep_columns(samples: Sheet, columns: list[int]) -> Sheet:
    new_index = {j: k for k, j in enumerate(columns)}
    return replace(
        samples,
        values=np.ascontiguousarray(samples.values[:, columns]),
        columns=[samples.columns[j] for j in columns],
        bad_columns={new_index[j]: place for j, place in samples.bad_columns.items() if j in new_index},
        first_cells=[samples.first_cells[j] for j in columns] if samples.first_cells else [],
        column_lines=[samples.column_lines[j] for j in columns] if samples.column_lines else [],
    )


# ---------------------------------------------------------------- features


@dataclass(frozen=True)
class FeatureChoice:
    """Roles of columns that the user named, and the target."""

    other_roles: set[str]
    categorical: Sequence[str]
    dropped: Sequence[str]
    features: Sequence[str]
    only: Sequence[str]
    target: str
    y: Array
    groups_are_named: bool
    levels: Mapping[str, Sequence[str]] | None  # of categorical features, in the order of their codes; None: sorted


def select_features(
    samples: Sheet, choice: FeatureChoice, rows: Array, notes: list[str]
) -> tuple[Array, list[str], dict[str, tuple[str, ...]], int | None]:
    """Return values and names of the features, levels of the categorical ones, and the column with the sample ids.

    Columns of text and of identifiers are left out with a note.
    """
    known = dict.fromkeys([*samples.columns, *samples.named_columns])
    for name in (*choice.categorical, *choice.dropped, *choice.features):
        is_dropped_sample = name in choice.dropped and samples.features_in_rows and name in (samples.row_names or ())
        if name not in known and not is_dropped_sample and name not in choice.only:
            raise ValueError(unknown_column(name, list(known), samples.path))
    excluded = choice.other_roles | set(choice.dropped)
    wanted = set(choice.only or samples.columns)
    indices = [j for j, name in enumerate(samples.columns) if name in wanted and name not in excluded]
    if not samples.features_in_rows:
        numeric = _leave_out_text(samples, indices, choice, notes)
        text, indices = sorted(set(indices).difference(numeric)), numeric
        check_text_event(samples, text, choice.target, choice.y)
    named_by_user = {*choice.categorical, *choice.features, *choice.only}
    uncertain = [j for j in indices if samples.columns[j] not in named_by_user]
    if choice.y.dtype.names is None:
        check_survival_pair(samples, uncertain, choice.target, choice.y, choice.features)
    identifiers = find_identifiers(samples, uncertain, choice.groups_are_named)
    notes.extend(identifiers.notes.values())
    indices = [j for j in indices if j not in identifiers.notes]
    if not indices and identifiers.notes:
        raise ValueError(f"{samples.path} has no features. {next(iter(identifiers.notes.values()))}")
    column = find_sample_names(samples, wanted) if choice.only else identifiers.names_samples
    if choice.only and column is not None and samples.row_names is None:
        notes.append(f"Column {samples.columns[column]!r} is taken for the names of samples.")
    X, names, levels = _encode_categorical(samples, indices, choice, rows)
    if not names:
        raise ValueError(f"{samples.path} has no features: all of its columns have another role.")
    return X, names, levels, column if samples.row_names is None else None


def _encode_categorical(
    samples: Sheet, indices: list[int], choice: FeatureChoice, rows: Array
) -> tuple[Array, list[str], dict[str, tuple[str, ...]]]:
    """Return values and names of some columns, and the levels whose codes the categorical ones hold.

    Levels are empty if the format of the file does not name them.
    """
    X = _take(samples.values, rows, indices)
    names, levels = [samples.columns[j] for j in indices], dict[str, tuple[str, ...]]()
    for name in choice.categorical:
        if name in names:
            levels[name] = ()
        if name in samples.named_columns:
            cells = samples.named_columns[name]
            present = {str(cells[i]) for i in rows[~is_missing(cells)[rows]].tolist()}
            levels[name] = tuple((choice.levels or {}).get(name) or sorted(present))
            if unknown := sorted(present - {*levels[name]}):
                raise ValueError(
                    f"{samples.path}: {name!r} holds {list_first([repr(level) for level in unknown], 3)}, which is not "
                    f"one of the categories of training: {list_first([repr(level) for level in levels[name]], 6)}. "
                    "Write them in the same way."
                )
            codes = _encode_levels(cells, rows, levels[name])
            if name not in names:
                X, names = np.column_stack([X, codes]), [*names, name]
            X = X if X.flags.writeable else X.copy()
            X[:, names.index(name)] = codes
    return X, names, levels


def _leave_out_text(samples: Sheet, columns: list[int], choice: FeatureChoice, notes: list[str]) -> list[int]:
    """Return the columns of numbers; raise ValueError for text among numbers, and if many columns are text."""
    numeric = [j for j in columns if samples.columns[j] not in choice.categorical]
    bad = [j for j in numeric if j in samples.bad_columns]
    may_be_text = [j for j in bad if not has_other_decimals(samples.bad_columns[j][1])]
    text = [
        j for j in may_be_text if np.isnan(samples.values[:, j]).all() and samples.columns[j] not in choice.features
    ]
    mixed = [j for j in bad if j not in text]
    if mixed or choice.only or len(text) >= _MAX_TEXT_FRACTION * len(columns):
        first = next(iter(mixed or text), None)
        if first is not None:
            others = pluralise(len(bad) - 1, "1 other column holds", f"{len(bad) - 1} other columns hold")
            other_cells = dict.fromkeys(samples.bad_columns[j][1] for j in mixed)
            other_cells.pop(samples.bad_columns[first][1], None)
            listed = list_first([repr(cell) for cell in other_cells], 5)
            more = f" {others} text, too{', such as ' * bool(listed)}{listed}." if len(bad) > 1 else ""
            described = samples.describe_text(first, is_needed=bool(choice.only))
            raise ValueError(f"{samples.path}: {described}{more}")
    if text and not choice.groups_are_named:
        check_text_ids(samples, text)
    if text:
        listed = list_first([repr(samples.columns[j]) for j in text], 5)
        kind = pluralise(len(text), "1 column of text is", f"{len(text)} columns of text are")
        notes.append(
            f"{kind} left out: {listed}. To use one, name it: --covariates removes its effect, --categorical makes it "
            "a feature, --groups keeps samples together."
        )
        ids = (
            samples.columns[j]
            for j in text
            if len(set(samples.id_columns.get(samples.columns[j], []))) == len(samples.values)
        )
        notes += [f"Every sample has a name of its own in {name!r}: --id-column {name!r} uses them." for name in ids]
    for j in numeric if samples.first_cells else ():
        cell = samples.first_cells[j]
        if len(cell) > 15 and cell.isdecimal():
            raise ValueError(
                f"{samples.path}: column {samples.columns[j]!r} holds {cell}, more digits than a number keeps. "
                "If these are ids, name the column (--id-column), or leave it out (--drop-columns)."
            )
    return [j for j in columns if j not in set(text)]


def _take(values: Array, rows: Array, columns: list[int]) -> Array:
    """Return rows and columns of a matrix with one copy, or with none if these are all."""
    all_rows = len(rows) == len(values)
    if all_rows and len(columns) == values.shape[1]:
        return values
    if columns and columns == list(range(columns[0], columns[-1] + 1)):
        block = values[:, columns[0] : columns[-1] + 1]
        return np.ascontiguousarray(block) if all_rows else block[rows]
    return values[:, columns] if all_rows else values[np.ix_(rows, np.array(columns, dtype=int))]


def _encode_levels(cells: Any, rows: Array, levels: Sequence[str]) -> Array:
    """Return the codes of categorical entries, which number the levels; NaN if missing."""
    codes = {name: code for code, name in enumerate(levels)}
    return np.array([codes.get(str(cells[i]), np.nan) for i in rows.tolist()], dtype=np.float64)
