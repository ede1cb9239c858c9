"""Survival outcomes in a file: the columns of events and of times."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from randsel._numerics.event_times import OPPOSITE_WORDS, survival_array
from randsel._utils.text import list_first, pluralise
from randsel._utils.typing import Array
from randsel.tables._roles import is_missing
from randsel.tables.formats import parse_number

#: Values of a column of events, in lower case: those that count as the event, and those that do not.
EVENTS = frozenset({"1", "true", "yes", "dead", "deceased", "died", "death", "event", "relapsed", "progressed"})
NO_EVENTS = frozenset({"0", "false", "no", "alive", "living", "censored"})


def check_outcome_names(path: Path, target: str | None, event: str | None, time: str | None) -> None:
    """Raise ValueError unless either a target or both columns of survival are named."""
    if (event is None) != (time is None):
        named, other = ("--event", "--time") if time is None else ("--time", "--event")
        raise ValueError(f"{path}: survival needs two columns, and {named} names one; name the other ({other}).")
    if event is not None and target is not None:
        raise ValueError(f"{path}: a target and a survival time are named; leave --target out, or --event and --time.")


def is_missing_survival(
    source: object, names: dict[str, str], cells: dict[str, Any], ids: Sequence[str] | None
) -> Array:
    """Return a mask of the samples without event and time; raise ValueError for samples with one of them.

    `source` is what error messages name, and `ids` are the names of the samples; None if they have none.
    """
    no_event, no_time = is_missing(cells["event"]), is_missing(cells["time"])
    rows = np.flatnonzero(no_event != no_time)
    if len(rows):
        problem = f"an event in {names['event']!r} but no time in {names['time']!r}"
        if no_event[rows[0]]:
            problem = f"a time in {names['time']!r} but nothing in {names['event']!r}"
        others = f", and {len(rows) - 1} other samples lack one of the two" if len(rows) > 1 else ""
        remedy = "fill it in, or leave both empty to leave the sample out"
        raise ValueError(f"{source}: {_sample_name(ids, rows[0])} has {problem}{others}; {remedy}.")
    return no_event


def read_survival_columns(
    sources: Mapping[str, object],
    names: dict[str, str],
    cells: dict[str, Any],
    ids: Sequence[str] | None,
    rows: Array,
    notes: list[str],
) -> Array:
    """Return events and times of some rows, with a note that says which value counts as the event.

    `sources` are what error messages name: the files of the roles "event" and "time".
    """
    event = _read_events(sources["event"], names["event"], [str(cells["event"][i]) for i in rows.tolist()], notes)
    texts = [str(cells["time"][i]) for i in rows.tolist()]
    numbers = [parse_number(text) for text in texts]
    if None in numbers:
        odd = texts[numbers.index(None)]
        raise ValueError(
            f"{sources['time']}: column {names['time']!r} holds {odd!r}, which is not a time; write numbers."
        )
    time = np.array(numbers, dtype=np.float64)
    wrong = np.flatnonzero(~(np.isfinite(time) & (time > 0)))
    if len(wrong):
        count = f"{len(wrong)} {pluralise(len(wrong), 'is', 'are')}"
        raise ValueError(
            f"{sources['time']}: times in {names['time']!r} must be above zero, but {count} not, the first "
            f"({time[wrong[0]]:g}) of {_sample_name(ids, rows[wrong[0]])}; correct them. If a time was rounded "
            "down to zero, half a unit of time may replace it."
        )
    return survival_array(event, time)


def _sample_name(ids: Sequence[str] | None, row: int) -> str:
    return f"sample {row + 1}" if ids is None else f"sample {ids[row]!r}"


def _read_events(source: object, name: str, cells: list[str], notes: list[str]) -> Array:
    spellings = {cell: _normalise(cell) for cell in dict.fromkeys(cells)}
    unknown = [cell for cell, words in spellings.items() if not (words <= EVENTS or words <= NO_EVENTS)]
    known = [{words for words in spellings.values() if words <= values} for values in (EVENTS, NO_EVENTS)]
    if unknown or max(map(len, known)) > 1:
        listed = list_first([repr(cell) for cell in unknown or sorted(spellings)], 4)
        raise ValueError(
            f"{source}: column {name!r} holds {listed}, and it is not certain what counts as the event; write 0 "
            "(censored) and 1 (event), true and false, yes and no, or dead and alive."
        )
    event = np.array([spellings[cell] <= EVENTS for cell in cells], dtype=bool)
    if not event.any():
        raise ValueError(
            f"{source}: no sample has an event in {name!r}; all are {cells[0]!r}, which means censored. If this "
            "value marks the event, write 1 instead."
        )
    value = next(cell for cell, words in spellings.items() if words <= EVENTS)
    note = f"{value!r} in {name!r} counts as the event: {int(event.sum())} of {len(event)} samples had it."
    if any(word in name.lower() for word in OPPOSITE_WORDS) and spellings[value] <= {"1", "true", "yes"}:
        note += " If it means that the sample was censored, exchange the values."
    notes.append(note)
    return event


def _normalise(cell: str) -> frozenset[str]:
    """Return the words of a cell such as "1:DECEASED" in lower case, numbers without a fraction of zero."""
    words = (word.strip().lower() for word in cell.split(":"))
    return frozenset(word.removesuffix(".0") for word in words)
