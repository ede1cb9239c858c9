"""The selection repeated on random halves of the samples (stability) and on training folds (accuracy).

Every half and every fold is stored when it is finished.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from randsel._numerics.missing import columns_vary
from randsel._utils.files import check_arrays, check_indices
from randsel._utils.jobs import as_finished, generator
from randsel._utils.text import format_label
from randsel._utils.typing import Array
from randsel.analysis._model import Accuracy, PanelSizes, Rule, Settings, Stability
from randsel.analysis._predictions import collect_predictions, predict_outputs, score_outputs, split_by_risk
from randsel.analysis._preparation import LEAST_HALF, average_groups, columns_to_keep, impute_medians
from randsel.analysis._selection import (
    Execution,
    choose_rule,
    cull_table,
    rank_columns,
    run_tests_quietly,
    select_features,
)
from randsel.tables import Table
from randsel.targets import SURVIVAL, OutcomeKind, bound_false_selections, split_halves

THRESHOLD = 0.6  # fraction of half-samples from which a feature counts as stable
MANY_ROWS = 2000  # number of samples above which subsets are used, to save time
#: If there are more than `MANY_ROWS` samples: maximum number of samples of a half, and of training samples of a fold
#: that the selection uses, to save time.
MOST_ROWS_OF_HALF, MOST_ROWS_OF_FOLD = 1000, 4000
#: Stored results of a fold, see `check_arrays`; the curve has one entry per size.
FOLD_SHAPES = {
    "selected": ("f",),
    "everything": ("f",),
    "columns": ("iu", "selected"),
    "outputs": ("f", "held out", "outputs"),
}
#: Numbers of features for which models are scored.
SIZES = (1, 2, 3, 5, 10, 20, 50, 100, 200)


# ---------------------------------------------------------------- half-samples


def draw_halves(y: Array, groups: Array | None, kind: OutcomeKind, seed: int, number: int) -> tuple[Array, Array]:
    """Return the rows of two random halves that share no sample or group; each has half of every class.

    Halves of more than `MOST_ROWS_OF_HALF` rows are halved again until they have fewer.
    """
    rng = generator(seed, 2, number)
    one, other = split_halves(kind.strata(y), groups, None, rng)
    if len(y) <= MANY_ROWS:
        return np.sort(one), np.sort(other)
    return thin(one, y, groups, kind, MOST_ROWS_OF_HALF, rng), thin(other, y, groups, kind, MOST_ROWS_OF_HALF, rng)


def thin(rows: Array, y: Array, groups: Array | None, kind: OutcomeKind, most: int, rng: np.random.Generator) -> Array:
    """Halve the rows at random, with half of every class and whole groups, until there are at most `most`."""
    while len(rows) > most:
        half, _ = split_halves(kind.strata(y[rows]), None if groups is None else groups[rows], None, rng)
        if len(half) in (0, len(rows)):  # a single group
            break
        rows = rows[half]
    return np.sort(rows)


def measure_stability(
    table: Table, kind: OutcomeKind, settings: Settings, rule: Rule, execution: Execution, notes: list[str]
) -> Stability | None:
    """Repeat the selection by the same rule on each of many halves; None, with a note, if that is not possible."""
    if not settings.halves:
        return None
    halves = draw_halves(table.y, table.groups, kind, settings.seed, 0)
    smallest = min(len(average_groups(table.rows(rows)).y) for rows in halves)
    if smallest < LEAST_HALF:
        notes.append(f"No half-samples: a half would have {smallest} samples, fewer than {LEAST_HALF}.")
        return None
    if rule.name == "nothing":
        notes.append("No half-samples: nothing was selected, so there is no selection to repeat.")
        return None
    n_features, n_halves = table.X.shape[1], settings.halves + settings.halves % 2
    if len(table.y) > MANY_ROWS:
        notes.append(
            f"With more than {MANY_ROWS} samples, stability is measured on random subsets of {len(halves[0])} samples, "
            "to save time: the selection on all samples is more stable than that."
        )
    tasks = [(table, kind, settings, rule, number) for number in range(n_halves)]

    def check(arrays: dict[str, Array]) -> None:
        check_arrays(arrays, {"selected": ("iu", "selected")})
        check_indices(arrays["selected"], n_features)

    results = run_tasks(_select_on_half, tasks, "half", "half-samples", check, execution)
    # sum counts, not fractions, whose rounding could decide which features are stable
    counts = np.zeros(n_features)
    for result in results:
        counts[result["selected"]] += 1.0
    # features that every half keeps are not counted, and have no stability
    n_kept = len(rule.always_kept)
    counts[list(rule.always_kept)] = np.nan
    mean_size = max(float(np.mean([len(result["selected"]) for result in results])) - n_kept, 0.0)
    n_varying = max(int(columns_vary(table.X).sum()) - n_kept, 1)
    bound = bound_false_selections(mean_size, THRESHOLD, n_varying)
    stability = Stability(n_halves, THRESHOLD, None, counts / n_halves)
    return replace(stability, expected_false=bound) if 2 * bound <= stability.n_stable else stability


def _select_on_half(table: Table, kind: OutcomeKind, settings: Settings, rule: Rule, number: int) -> dict[str, Any]:
    rows = draw_halves(table.y, table.groups, kind, settings.seed, number // 2)[number % 2]
    try:
        half = average_groups(impute_medians(table.rows(rows)))
        path = cull_table(half, kind, settings)
        tests = None if rule.fdr is None else run_tests_quietly(half, kind, settings)
    except ValueError:  # no feature varies on this half
        return {"selected": np.zeros(0, dtype=int)}
    return {"selected": select_features(rule, path, tests)}


def run_tasks(
    function: Callable[..., dict[str, Any]],
    tasks: list[tuple[Any, ...]],
    name: str,
    step: str,
    check: Callable[[dict[str, Array]], None],
    execution: Execution,
) -> list[dict[str, Array]]:
    """Return the results of all tasks; compute and store those that are not stored yet."""
    files = [f"{name}-{number:03d}" for number in range(len(tasks))]
    results = {file: arrays for file in files if (arrays := execution.parts.load(file, check)) is not None}
    execution.show(step, len(results), len(tasks))
    pending = [number for number, file in enumerate(files) if file not in results]
    for k, result in as_finished(function, [tasks[number] for number in pending], execution.n_jobs):
        file = files[pending[k]]
        execution.parts.save(file, result)
        results[file] = {key: np.asarray(value) for key, value in result.items()}
        execution.show(step, len(results), len(tasks))
    return [results[file] for file in files]


# ---------------------------------------------------------------- nested cross-validation


def measure_accuracy(
    table: Table, kind: OutcomeKind, settings: Settings, n_selected: int, execution: Execution, notes: list[str]
) -> tuple[Accuracy | None, PanelSizes | None]:
    """Cross-validate the whole selection, and rankings cut at several sizes; None, with a note, for too few samples.

    There are fewer folds than wanted if the smallest class has fewer samples or groups.
    """
    n_folds = _count_folds(table, kind, settings, notes)
    if not n_folds:
        return None, None
    folds = split_folds(table, kind, n_folds, settings.seed)
    if max(len(train) for train, _ in folds) > MANY_ROWS:
        notes.append(
            f"With more than {MANY_ROWS} samples in a fold, features are selected on at most {MOST_ROWS_OF_FOLD} of "
            "them, to save time."
        )
    sizes = panel_sizes(n_selected, int(columns_vary(table.X).sum()))
    tasks = [(table, kind, settings, sizes, train, test) for train, test in folds]

    def check(arrays: dict[str, Array]) -> None:
        check_arrays(arrays, FOLD_SHAPES | {"curve": ("f", len(sizes))})
        check_indices(arrays["columns"], len(table.names))

    results = run_tasks(_score_fold, tasks, "fold", "folds", check, execution)
    selected, everything = (
        np.array([result[name].item() for result in results]) for name in ("selected", "everything")
    )
    counts = np.array([len(result["columns"]) for result in results])
    held_out = collect_predictions(results, folds, table.y, kind)
    high_risk = split_by_risk(held_out) if kind is SURVIVAL else None
    chance = kind.chance_score(table.y)
    curve = PanelSizes(sizes, np.array([result["curve"] for result in results]), n_selected)
    return Accuracy(kind.score_name, selected, everything, chance, counts, high_risk, held_out), curve


def _count_folds(table: Table, kind: OutcomeKind, settings: Settings, notes: list[str]) -> int:
    """Return the number of folds that the smallest class allows; 0, with a note, if that is less than two."""
    if not settings.folds:
        return 0
    members = kind.units_per_stratum(table.y, table.groups)
    size = int(members.min())
    limit = f"the number of {'samples' if table.groups is None else 'groups'}"
    if kind is SURVIVAL:
        limit = f"half {limit} with an event"
    elif kind.has_classes:
        limit += f" of class {format_label(np.unique(table.y)[int(np.argmin(members))])}"
    if size < 2:
        reason = "and every fold needs some to test and some to learn from"
        notes.append(f"No cross-validation: {limit} is {size}, {reason}.")
        return 0
    if size < settings.folds:
        notes.append(f"{size} folds instead of {settings.folds}, {limit}.")
    return min(size, settings.folds)


def panel_sizes(n_selected: int, n_features: int) -> Array:
    """Return the numbers of features to score: `SIZES` up to the number of features, and that of the selection."""
    return np.unique([*(size for size in SIZES if size <= n_features), max(1, min(n_selected, n_features))])


def split_folds(table: Table, kind: OutcomeKind, n_folds: int, seed: int) -> list[tuple[Array, Array]]:
    """Return training and test rows of each fold; groups are not split."""
    folds = kind.splits(table.y, table.groups, n_folds, seed)
    # groups may leave a fold without samples, or a training set with a single class
    return [(train, test) for train, test in folds if len(test) and len(np.unique(table.y[train])) > 1]


def _score_fold(
    table: Table, kind: OutcomeKind, settings: Settings, sizes: Array, train: Array, test: Array
) -> dict[str, Any]:
    """Select on the training samples, by the same rules as on all samples, and score models on the test samples.

    The selection takes at most `MOST_ROWS_OF_FOLD` training samples, the models all of them.
    """
    imputed = impute_medians(table, train)
    rows = train
    if len(train) > MOST_ROWS_OF_FOLD:
        rows = thin(train, table.y, table.groups, kind, MOST_ROWS_OF_FOLD, generator(settings.seed, 3, int(test[0])))
    columns, ranking = _rank_on_fold(average_groups(imputed.rows(rows)), kind, settings)
    varying = np.flatnonzero(columns_vary(imputed.X[train]))
    known: dict[frozenset[int], Array] = {}  # set of features -> outputs; several scores may be of the same set

    def score(features: Array) -> float:
        key = frozenset(features.tolist())
        if key not in known:
            known[key] = predict_outputs(imputed, kind, train, test, features)
        return score_outputs(table, kind, test, known[key])

    return {
        "selected": score(columns),
        "everything": score(varying),
        "columns": columns,
        # a ranking may end before a size, because more columns are constant on the training samples
        "curve": [score(ranking[:size]) for size in sizes.tolist()],
        "outputs": known[frozenset(columns.tolist())],
    }


def _rank_on_fold(table: Table, kind: OutcomeKind, settings: Settings) -> tuple[Array, Array]:
    """Return the selected columns, and the ranking: the selected, then the others in the order of culling."""
    try:
        path = cull_table(table, kind, settings)
    except ValueError:  # no feature varies
        return np.zeros(0, dtype=int), np.zeros(0, dtype=int)
    # tests are needed with --fdr, and without --top if the features do not stand out from noise
    needs_tests = settings.fdr is not None or (settings.top is None and not path.stands_out)
    tests = run_tests_quietly(table, kind, settings) if needs_tests else None
    rule = choose_rule(path, tests, settings, columns_to_keep(table, settings))
    selected = select_features(rule, path, tests)
    return selected, rank_columns(selected, path)
