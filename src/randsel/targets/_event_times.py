"""Survival outcomes y as users have them: recognised by type, checked, and turned into one structured array."""

from typing import Any

import numpy as np

from randsel._numerics.arrays import is_structured
from randsel._numerics.event_times import OPPOSITE_WORDS, survival_array
from randsel._utils.text import pluralise, warn
from randsel._utils.typing import Array

#: Words in names of columns. They confirm what the types say, or decide where types cannot.
EVENT_WORDS = ("event", "status", "death", "dead", "died", "deceased", "relapse", "vital", "progress")
TIME_WORDS = ("time", "day", "week", "month", "year", "duration", "follow", "surv", "pfs", "dfs")
HOW_TO_PASS = (
    "pass a structured array of a bool field (whether the event was observed) and a float field (the time), such as "
    "np.array([(True, 5.0), (False, 7.5)], dtype=[('event', bool), ('time', float)])"
)


def read_survival(y: Any, target: str) -> Array | None:
    """Return a structured array or data frame y as an array of `SURVIVAL_DTYPE`, or None if it is no survival outcome.

    With target "survival", every y must be one, arrays included. With "auto", data frames of two columns are if one
    column holds truth values and the other numbers, or if one holds 0 and 1, the other positive numbers, and their
    names agree.
    """
    if is_structured(y):
        return _read_fields(np.asarray(y))
    columns = _two_columns(y)
    if target == "survival":
        if columns is None:
            raise ValueError(f"target='survival' needs events and times; {HOW_TO_PASS}.")
        return _read_columns(*columns)
    if columns is None:
        return None
    names, values = [name for name, _ in columns], [column for _, column in columns]
    kinds = "".join(column.dtype.kind.replace("i", "f").replace("u", "f") for column in values)
    by_name = [_has_word(names[k], EVENT_WORDS) and _has_word(names[1 - k], TIME_WORDS) for k in range(2)]
    if kinds in ("bf", "fb") or (any(by_name) and not set(kinds) <= set("bf")):
        return _read_columns(*columns)
    # Two columns of numbers are two outputs, unless both names and values say that they are events and times.
    has_two_values = [_could_be_events(column) or len(np.unique(column)) == 2 for column in values]
    if kinds != "ff" or has_two_values.count(True) != 1:
        return None
    event = has_two_values.index(True)
    time, are_events = 1 - event, _could_be_events(values[event])
    if not (values[time] > 0).all():
        return None
    if by_name[event] and are_events:
        return _read_columns(*columns)
    levels = " and ".join(f"{value:g}" for value in np.unique(values[event]) if not np.isnan(value))
    recode = "" if are_events else "write 1 for events and 0 for others, and "
    warn(
        f"y has a column of {levels} ({names[event]!r}) and one of positive numbers ({names[time]!r}), which are taken "
        f"for two outputs. If they are events and times, {recode}pass target='survival'; if not, target='regression' "
        "turns this warning off.",
        stacklevel=6,
    )
    return None


def _read_fields(y: Array) -> Array:
    names = y.dtype.names or ()
    kinds = [y.dtype[name].kind for name in names]
    if y.ndim == 1 and len(kinds) == 2 and kinds[0] in "fiu" and kinds[1] == "b":
        raise ValueError(
            f"the fields of y are swapped: {names[0]!r} holds numbers and {names[1]!r} truth values. The event comes "
            f"first: pass y[[{names[1]!r}, {names[0]!r}]]."
        )
    if y.ndim != 1 or len(kinds) != 2 or kinds[0] != "b" or kinds[1] not in "fiu":
        types = ", ".join(f"{name!r} of {y.dtype[name]}" for name in names)
        raise ValueError(f"y is a structured array with the fields {types}; {HOW_TO_PASS}.")
    return survival_array(y[names[0]], y[names[1]].astype(np.float64))


def _two_columns(y: Any) -> tuple[tuple[str, Array], tuple[str, Array]] | None:
    """Return names and values of the two columns of a frame or an array; None if y has another shape."""
    if len(getattr(y, "shape", ())) != 2 or y.shape[1] != 2:
        return None
    if not hasattr(y, "columns"):
        values = np.asarray(y)
        return ("0", values[:, 0]), ("1", values[:, 1])
    columns = [y.iloc[:, j] for j in range(2)] if hasattr(y, "iloc") else [y[name] for name in y.columns]
    first, second = ((str(name), _to_array(column)) for name, column in zip(y.columns, columns, strict=True))
    return first, second


def _to_array(column: Any) -> Array:
    """Return a column of a frame; columns of nullable numbers and truth values without gaps become plain ones."""
    values = np.asarray(column)
    if values.dtype.kind == "O":
        entries = values.tolist()
        if all(isinstance(entry, bool | np.bool_) for entry in entries):
            return values.astype(bool)
        # None, NaN and pandas.NA become NaN, which the checks name by row
        if all(isinstance(entry, int | float) or str(entry) in ("<NA>", "None") for entry in entries):
            return np.array([entry if isinstance(entry, int | float) else np.nan for entry in entries], dtype=float)
    return values


def _read_columns(first: tuple[str, Array], second: tuple[str, Array]) -> Array:
    """Return the outcome of two columns, of which one holds events and the other times."""
    could_be_events = [_could_be_events(values) for _, values in (first, second)]
    if not any(could_be_events):
        raise ValueError(
            f"neither column of y ({first[0]!r}, {second[0]!r}) holds events, which are truth values, or 0 and 1; "
            f"{HOW_TO_PASS}."
        )
    event_first = could_be_events[0]
    if all(could_be_events):
        by_name = [_has_word(first[0], EVENT_WORDS), _has_word(second[0], EVENT_WORDS)]
        by_type = [values.dtype.kind == "b" for _, values in (first, second)]
        telling = next((signs for signs in (by_type, by_name) if signs[0] != signs[1]), None)
        if telling is None:
            raise ValueError(
                f"both columns of y ({first[0]!r}, {second[0]!r}) hold only 0 and 1, so events cannot be told from "
                f"times; {HOW_TO_PASS}."
            )
        event_first = telling[0]
    event, time = (first, second) if event_first else (second, first)
    rows = np.flatnonzero(event[1] != event[1])
    if len(rows):
        raise ValueError(
            f"Input y contains NaN in {len(rows)} of {len(event[1])} samples: row {rows[0]} has no event in column "
            f"{event[0]!r}. Drop those samples first."
        )
    if _has_word(event[0], OPPOSITE_WORDS):
        raise ValueError(
            f"column {event[0]!r} of y may say who did not have the event; name it 'event' if 1 (True) is the event, "
            "and exchange its values if not."
        )
    if _has_word(time[0], EVENT_WORDS) and _has_word(event[0], TIME_WORDS):
        raise ValueError(
            f"the names of the columns of y contradict their values: {event[0]!r} holds events, {time[0]!r} times; "
            "rename or exchange them."
        )
    if time[1].dtype.kind not in "fiu":
        raise ValueError(f"column {time[0]!r} of y must hold times, but is of type {time[1].dtype}; {HOW_TO_PASS}.")
    return survival_array(event[1].astype(bool), time[1].astype(np.float64))


def _could_be_events(values: Array) -> bool:
    """Return whether a column holds truth values, or 0 and 1; some may be missing."""
    is_number = values.dtype.kind in "fiu"
    return values.dtype.kind == "b" or (is_number and bool((np.isin(values, (0, 1)) | np.isnan(values)).all()))


def _has_word(name: str, words: tuple[str, ...]) -> bool:
    return any(word in name.lower() for word in words)


def check_times(y: Array) -> None:
    """Raise ValueError for times that are missing, infinite, negative or zero."""
    event, time = y["event"], y["time"]
    rows = np.flatnonzero(~np.isfinite(time))
    if len(rows):
        problem = "has an event but no time" if event[rows[0]] else "has no time"
        raise ValueError(
            f"Input y contains NaN or infinite times in {len(rows)} of {len(y)} samples; row {rows[0]} {problem}. Drop "
            "those samples first."
        )
    rows = np.flatnonzero(time <= 0.0)
    if len(rows):
        count = f"{len(rows)} {pluralise(len(rows), 'is', 'are')}"
        raise ValueError(
            f"times of y must be above zero, but {count} not, the first in row {rows[0]} ({time[rows[0]]:g}); "
            "correct them. If a time was rounded down to zero, half a unit of time may replace it."
        )
