"""Stability over half-samples and accuracy in nested cross-validation, of what is chosen on each part of a table."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from randsel._utils.jobs import as_finished, generator
from randsel._utils.result_folder import Parts, check_arrays, check_places
from randsel._utils.text import format_label
from randsel._utils.typing import Array
from randsel.analysis._decisions import (
    LEAST_HALF,
    Progress,
    Settings,
    chosen,
    culled,
    filled,
    findings,
    units,
)
from randsel.analysis._model import Accuracy, Stability
from randsel.tables._read import Table
from randsel.targets._kinds import OutcomeKind

#: Share of half-samples from which a feature counts as stable.
THRESHOLD = 0.6


def halves(y: Array, groups: Array | None, kind: OutcomeKind, seed: int, number: int) -> tuple[Array, Array]:
    """Return two halves that share no sample, and no group; of every class, if y has classes.

    Groups go to a half as a whole, and count for the class of their first sample.
    """
    of = np.arange(len(y)) if groups is None else np.unique(groups, return_inverse=True)[1]
    _, first = np.unique(of, return_index=True)
    labels = kind.strata(y[first])
    rng = generator(seed, 2, number)
    sides: tuple[list[int], list[int]] = [], []
    for k in range(int(labels.max()) + 1):
        members = rng.permutation(np.flatnonzero(labels == k))
        half = len(members) // 2
        sides[0].extend(members[:half].tolist())
        sides[1].extend(members[half : 2 * half].tolist())
    return np.flatnonzero(np.isin(of, sides[0])), np.flatnonzero(np.isin(of, sides[1]))


def _half(table: Table, kind: OutcomeKind, settings: Settings, wanted: int, number: int) -> dict[str, Any]:
    """Select as many features on a half of the samples as on all."""
    rows = halves(table.y, table.groups, kind, settings.seed, number // 2)[number % 2]
    try:
        part = units(filled(table.rows(rows)))
        return {"selected": culled(part, kind, settings).order[:wanted]}
    except ValueError:  # nothing varies on this half: nothing is selected
        return {"selected": np.zeros(0, dtype=int)}


def stability_of(
    table: Table,
    kind: OutcomeKind,
    settings: Settings,
    wanted: int,
    parts: Parts,
    show: Progress,
    n_jobs: int | None,
    notes: list[str],
) -> Stability | None:
    """Select on complementary halves, as many features as on all samples; None if there are too few samples."""
    if not settings.halves:
        return None
    sizes = [len(units(table.rows(rows)).y) for rows in halves(table.y, table.groups, kind, settings.seed, 0)]
    if min(sizes) < LEAST_HALF:
        notes.append(f"No half-samples: a half would have {min(sizes)} samples, fewer than {LEAST_HALF}.")
        return None
    count = settings.halves + settings.halves % 2
    tasks = [(table, kind, settings, wanted, number) for number in range(count)]

    def check(kept: dict[str, Array]) -> None:
        check_arrays(kept, {"selected": ("iu", "selected")})
        check_places(kept["selected"], table.X.shape[1])

    found = _each(_half, tasks, "half", "half-samples", check, parts, show, n_jobs)
    frequencies = np.zeros(table.X.shape[1])
    for one in found:
        frequencies[one["selected"]] += 1.0 / count
    mean = float(np.mean([len(one["selected"]) for one in found]))
    vary = max(int((np.ptp(table.X, axis=0) != 0.0).sum()), 1)
    bound = mean**2 / ((2 * THRESHOLD - 1) * vary)
    # rounding of sums must not decide who is stable
    frequencies = np.round(frequencies * count) / count
    return Stability(count, THRESHOLD, bound if bound < vary else None, frequencies)


def _each(
    function: Callable[..., dict[str, Any]],
    tasks: list[tuple[Any, ...]],
    name: str,
    what: str,
    check: Callable[[dict[str, Array]], None],
    parts: Parts,
    show: Progress,
    n_jobs: int | None,
) -> list[dict[str, Array]]:
    """Call a function on every task that is not kept, some at a time, and keep what it returns."""
    found = {at: kept for at in range(len(tasks)) if (kept := parts.kept(f"{name}-{at:03d}", check)) is not None}
    show(what, len(found), len(tasks))
    pending = [at for at in range(len(tasks)) if at not in found]
    for number, result in as_finished(function, [tasks[at] for at in pending], n_jobs):
        at = pending[number]
        parts.keep(f"{name}-{at:03d}", result)
        found[at] = {key: np.asarray(value) for key, value in result.items()}
        show(what, len(found), len(tasks))
    return [found[at] for at in range(len(tasks))]


def accuracy_of(
    table: Table,
    kind: OutcomeKind,
    settings: Settings,
    parts: Parts,
    show: Progress,
    n_jobs: int | None,
    notes: list[str],
) -> Accuracy | None:
    """Cross-validate the whole selection; None where there are too few samples."""
    if not settings.folds:
        return None
    count = _number_of_folds(table, kind, settings.folds, notes)
    if count is None:
        return None
    tasks = [(table, kind, settings, rows) for rows in _splits(table, kind, count, settings.seed)]

    def check(kept: dict[str, Array]) -> None:
        check_arrays(kept, {"selected": ("f",), "everything": ("f",), "size": ("iu",)})

    found = _each(_fold, tasks, "fold", "folds", check, parts, show, n_jobs)
    return Accuracy(
        measure=kind.score_name,
        selected=np.array([float(one["selected"]) for one in found]),
        everything=np.array([float(one["everything"]) for one in found]),
        chance=kind.chance_score(table.y),
        sizes=np.array([int(one["size"]) for one in found]),
    )


def _number_of_folds(table: Table, kind: OutcomeKind, wanted: int, notes: list[str]) -> int | None:
    """Return as many folds as asked for, or as the smallest class allows, in samples or in groups."""
    members = kind.units_per_stratum(table.y, table.groups)
    size = int(members.min())
    what = "samples" if table.groups is None else "groups"
    of = f"the number of {what}"
    if kind.has_classes:
        of += f" of class {format_label(np.unique(table.y)[int(np.argmin(members))])}"
    if size < 2:
        notes.append(f"No cross-validation: {of} is {size}, and every fold needs some to test and some to learn from.")
        return None
    if size < wanted:
        notes.append(f"{size} folds instead of {wanted}, {of}.")
    return min(size, wanted)


def _splits(table: Table, kind: OutcomeKind, count: int, seed: int) -> list[tuple[Array, Array]]:
    found = kind.splits(table.y, table.groups, count, seed)
    # groups may leave a fold without samples, or a training set without one of the classes
    return [(train, test) for train, test in found if len(test) and len(np.unique(table.y[train])) > 1]


def _fold(table: Table, kind: OutcomeKind, settings: Settings, rows: tuple[Array, Array]) -> dict[str, Any]:
    """Select on training samples by the same rules as on all, fit a model to those, test it on the others."""
    train, test = rows
    whole = filled(table, train)
    columns = _chosen_on(units(whole.rows(train)), kind, settings)
    every = np.flatnonzero(np.ptp(whole.X[train], axis=0) > 0.0)
    return {
        "selected": _score(whole, kind, train, test, columns),
        "everything": _score(whole, kind, train, test, every),
        "size": len(columns),
    }


def _chosen_on(table: Table, kind: OutcomeKind, settings: Settings) -> Array:
    """Select on some of the samples; without tests where they do not matter."""
    try:
        path = culled(table, kind, settings)
    except ValueError:  # nothing varies
        return np.zeros(0, dtype=int)
    tests = None
    if settings.fdr is not None or settings.top is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            tests = findings(table, kind, settings, lambda *_: None)
    return chosen(path, tests, settings, table.X.shape[1])


def _score(table: Table, kind: OutcomeKind, train: Array, test: Array, columns: Array) -> float:
    """Test a Gaussian support vector machine; without features it can only guess."""
    if not len(columns):
        return kind.chance_score(table.y)
    # weights, because every class counts as much as another in balanced accuracy
    options = {"class_weight": "balanced"} if kind.has_classes else {}
    predicted = kind.predict_held_out(table.X, table.y, train, test, columns, "median", **options)
    return kind.score(table.y[test], predicted)
