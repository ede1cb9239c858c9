"""Columns that must not be features: identifiers of samples, and the event or time that belongs to the target."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from randsel._utils.typing import Array
from randsel.tables.formats import MISSING, Sheet, find_id_names, find_names, split_words, to_words

#: Minimum number of rows for which ascending or descending values are evidence of identifiers.
MIN_ROWS = 8
#: Minimum number of features for notes on features that are unlike the rest, and on skewed features.
MIN_FEATURES = 20
#: Columns count as in order by chance if the expected number of such columns is larger.
_MAX_BY_CHANCE = 1e-3


_CLINICAL_WORDS = to_words(
    "age sex gender bmi weight height race ethnicity smoker smoking stage grade batch plate site center centre run"
    " dose treatment year day month week"
)
_EVENT_WORDS = to_words(
    "event death dead died deceased censored censoring censor cens fustat relapse relapsed recurrence progression"
    " progressed mortality metastasis metastases metastasized vital alive survived status"
)
_TIME_NAMES = to_words("time futime survtime followup daystodeath daystoevent timetoevent survival")
_OUTCOME_WORDS = to_words(
    "os pfs dfs rfs efs dss surv survival event death relapse recurrence progression metastasis follow followup fu"
    " overall visit contact"
)
_TIME_WORDS = to_words("time days months years weeks")
_SURVIVAL_PARTS = tuple(_EVENT_WORDS | _TIME_WORDS | _OUTCOME_WORDS)


def find_clinical(names: Sequence[str]) -> list[int]:
    """Return the indices of the names of clinical columns; none if there are so many that they are not exceptions."""
    clinical = [j for j in find_names(names, _CLINICAL_WORDS) if is_clinical(names[j])]
    is_exception = len(names) >= MIN_FEATURES and len(clinical) <= max(10, len(names) // 100)
    return clinical if is_exception else []


def is_clinical(name: str) -> bool:
    """Return whether a name is that of a property of a patient or of the measurement, such as age."""
    words = split_words(name)
    if not words or words[-1] == "at":  # probe sets of microarrays, such as RACE_at
        return False
    return any(word in _CLINICAL_WORDS for word in (words if len(words) <= 2 else words[:1]))


def find_whole(values: Array, columns: Array) -> Array:
    """Return the columns, among these, in which all values are whole numbers or missing."""
    rows = np.unique(np.linspace(0, len(values) - 1, 8).astype(int))
    for some_rows in (rows, np.arange(len(values))):  # most columns are ruled out by a few rows
        block = values[np.ix_(some_rows, columns)]
        columns = columns[((block == np.floor(block)) | np.isnan(block)).all(axis=0)]
    return columns


def _find_ordered(values: Array, columns: Array) -> Array:
    """Return the columns, among these, whose values rise, or fall, from each row to the next."""
    rows = np.unique(np.linspace(0, len(values) - 1, 8).astype(int))
    for some_rows in (rows, np.arange(len(values))):
        steps = np.diff(values[np.ix_(some_rows, columns)], axis=0)
        columns = columns[(steps > 0).all(axis=0) | (steps < 0).all(axis=0)]
    return columns


@dataclass(frozen=True)
class Identifiers:
    """Columns of a table that are identifiers, not features."""

    notes: dict[int, str]  # column -> note about it
    names_samples: int | None = None  # the column whose values can be the names of the samples


def find_identifiers(samples: Sheet, columns: Sequence[int], groups_are_named: bool) -> Identifiers:
    """Return the columns, among these, that hold identifiers; raise ValueError if the user has to decide.

    Formats that store features as a matrix (NPZ, MAT, h5ad, PLINK) are searched by name only.
    """
    values, n = samples.values, len(samples.values)
    if not columns or n < 2:
        return Identifiers({})
    candidates = np.array(columns)
    names = [samples.columns[j] for j in columns]
    by_name = [columns[k] for k in find_id_names(names)]
    is_matrix = samples.features_in_rows is False
    ordered = _find_ordered(values, candidates) if n >= MIN_ROWS and not is_matrix else candidates[:0]
    # if many columns are in order, the data are sorted or a series in time, and these are not identifiers
    ordered = ordered if len(ordered) <= max(2, len(columns) / 10) else ordered[:0]
    first_column = [0] if 0 in candidates and samples.features_in_rows is None and n >= MIN_ROWS else []
    suspects = np.array(sorted({*by_name, *first_column, *ordered.tolist()}), dtype=int)
    whole = set(find_whole(values, suspects).tolist()) if len(suspects) else set()
    notes: dict[int, str] = {}
    for j in suspects.tolist():
        column = values[:, j][~np.isnan(values[:, j])]
        is_distinct = len(np.unique(column)) == len(column) > 1
        steps = np.diff(values[:, j])
        is_even = j in ordered and bool(np.allclose(steps, steps[0], rtol=1e-6, atol=0.0))
        name = samples.columns[j]
        if j in by_name and j in whole and is_distinct:
            notes[j] = _describe(
                name, "holds a different whole number in every row, and its name says that it holds ids"
            )
        elif j in by_name and j in whole and len(np.unique(column)) > 1:
            if not groups_are_named:
                _refuse_repeated_ids(
                    samples, j, len(np.unique(column)), f", or make it a feature (--features {name!r})"
                )
            notes[j] = _describe(name, "has a name that says that it holds ids")
        elif is_even:
            notes[j] = _describe(name, f"changes by {abs(steps[0]):g} from row to row, as numbers of rows do")
        elif j in first_column and j in whole and is_distinct and _is_unlike(values, candidates, j, name):
            notes[j] = _describe(name, "is the first and holds a different whole number in every row, as ids do")
        elif j in ordered and j in whole and not is_clinical(name):
            _check_sorted_numbers(samples, j, len(columns))
    return Identifiers(notes, next(iter(notes), None))


def find_sample_names(samples: Sheet, features: Collection[str]) -> int | None:
    """Return the column whose cells can name the samples if only some features of a table are read; None without one.

    Its cells all differ. Either it has the name of an identifier and holds text or whole numbers, or it is the first
    column and holds whole numbers.
    """
    by_name = find_id_names(samples.columns)
    for j in dict.fromkeys([*by_name, 0] if samples.features_in_rows is None and samples.columns else []):
        column, cells = samples.values[:, j], samples.id_columns.get(samples.columns[j], [])
        is_whole = bool((column == np.floor(column)).all())  # also False if a value is missing
        is_text = j in by_name and bool(cells) and not any(cell in MISSING for cell in cells)
        n_distinct = len(set(cells)) if cells else len(np.unique(column))
        if samples.columns[j] not in features and (is_whole or is_text) and n_distinct == len(column):
            return j
    return None


def cells_as_names(samples: Sheet, column: int) -> list[str]:
    """Return the cells of a column as text, so that leading zeros stay, or its numbers if the text was not kept."""
    cells = samples.id_columns.get(samples.columns[column])
    return cells or [f"{value:.15g}" for value in samples.values[:, column].tolist()]


def _describe(name: str, reason: str) -> str:
    remedy = f"If it is a feature, name it: --features {name!r}."
    return f"Column {name!r} {reason}: it is taken for identifiers and is not used as a feature. {remedy}"


def _is_unlike(values: Array, candidates: Array, j: int, name: str) -> bool:
    """Return whether a column of whole numbers differs from the others, which are mostly not whole."""
    others = candidates[candidates != j][:2000]
    return not is_clinical(name) and 2 * len(find_whole(values, others)) < len(others)


def check_text_ids(samples: Sheet, columns: Sequence[int]) -> None:
    """Raise ValueError if a column of text has the name of an identifier and repeated values."""
    for k in find_id_names([samples.columns[j] for j in columns]):
        cells = [cell for cell in samples.id_columns.get(samples.columns[columns[k]], []) if cell not in MISSING]
        if 1 < len(set(cells)) < len(cells):
            _refuse_repeated_ids(samples, columns[k], len(set(cells)), "")


def _refuse_repeated_ids(samples: Sheet, j: int, n_levels: int, other_remedy: str) -> None:
    """Raise ValueError about ids that are repeated, where the user has not named groups of samples."""
    name = samples.columns[j]
    raise ValueError(
        f"{samples.path}: column {name!r} has the name of an identifier, and {n_levels} values for "
        f"{len(samples.values)} samples. If samples with the same value belong together, say so: "
        f"--groups {name!r}. Otherwise leave it out (--drop-columns {name!r}){other_remedy}."
    )


def _check_sorted_numbers(samples: Sheet, j: int, n_columns: int) -> None:
    """Raise ValueError if whole numbers follow the order of the rows, unless they may do so by chance."""
    if 2 * n_columns / math.factorial(min(len(samples.values), 20)) > _MAX_BY_CHANCE:
        return
    name, steps = samples.columns[j], np.diff(samples.values[:, j])
    direction = "rises" if steps[0] > 0 else "falls"
    raise ValueError(
        f"{samples.path}: column {name!r} {direction} from row to row, as identifiers do. If it holds ids, leave it "
        f"out (--drop-columns {name!r}) or name it (--id-column {name!r}). If it is a measurement by which the table "
        f"was sorted, say so: --features {name!r}."
    )


# ---------------------------------------------------------------- survival


def _is_event_name(name: str) -> bool:
    return any(word in _EVENT_WORDS for word in split_words(name))


def _is_time_name(name: str, event: str = "") -> bool:
    """Return whether a name is that of a time to an outcome, or to the given event if both share a word."""
    words = set(split_words(name))
    is_outcome_time = bool(words & _TIME_WORDS) and bool(words & (_OUTCOME_WORDS | set(split_words(event))))
    return "".join(split_words(name)) in _TIME_NAMES or is_outcome_time


def check_survival_pair(
    samples: Sheet, columns: Sequence[int], target: str, y: Array, features: Collection[str]
) -> None:
    """Raise ValueError if the target and a feature look like event and time of one survival outcome."""
    n_levels = len(np.unique(y))
    for k in find_names([samples.columns[j] for j in columns], _SURVIVAL_PARTS):
        j, name = columns[k], samples.columns[columns[k]]
        # "days to surgery" is a time of the target "surgery", which is not a usual name of an event
        is_shared = bool(set(split_words(name)) & set(split_words(target)))
        if name in features or not (_is_event_name(name) or _is_time_name(name, target)):
            continue
        levels = np.unique(samples.values[:, j][~np.isnan(samples.values[:, j])])
        is_time = _is_time_name(name, target) and len(levels) > 2 and levels[0] >= 0
        is_event = _is_event_name(name) and len(levels) == 2 and not is_time
        if is_time and (_is_event_name(target) or is_shared) and n_levels == 2:
            event, time = target, name
        elif is_event and _is_time_name(target) and n_levels > 2 and y.dtype.kind == "f":
            event, time = name, target
        else:
            continue
        raise ValueError(
            f"{samples.path}: {event!r} and {time!r} look like the event and the time of one survival outcome, so "
            f"{name!r} must not be a feature. {_ask_for_survival(event, time, name)} or say so (--features {name!r})."
        )


def check_text_event(samples: Sheet, columns: Sequence[int], target: str, y: Array) -> None:
    """Raise ValueError if the target looks like a time, and one of these columns of text like its event."""
    if not _is_time_name(target) or y.dtype.kind != "f" or len(np.unique(y)) <= 2:
        return
    events = [samples.columns[j] for j in columns if _is_event_name(samples.columns[j])]
    events = [name for name in events if set(split_words(name)) & set(split_words(target))] or events
    if events:
        others = f" (or {' or '.join(map(repr, events[1:]))})" if len(events) > 1 else ""
        raise ValueError(
            f"{samples.path}: {events[0]!r}{others} and {target!r} look like the event and the time of one survival "
            f"outcome, and times of censored samples are not times of events. "
            f"{_ask_for_survival(events[0], target, events[0])}."
        )


def _ask_for_survival(event: str, time: str, doubtful: str) -> str:
    return (
        f"Analyse both, without --target: --event {event!r} --time {time!r}. If {doubtful!r} is something else, leave "
        f"it out (--drop-columns {doubtful!r})"
    )
