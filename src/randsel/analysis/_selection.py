"""Selection of features on all samples of a table, on half-samples (stability) and on training folds (accuracy)."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import false_discovery_control, mode

from randsel._sklearn.base import check_strata
from randsel._utils.jobs import as_finished, generator
from randsel._utils.result_folder import FinishedParts, check_arrays, check_indices
from randsel._utils.text import format_label
from randsel._utils.typing import Array
from randsel.analysis._model import Accuracy, FeatureTests, Settings, Stability
from randsel.culling import CullingPath
from randsel.interactions import LEVEL, main_effects
from randsel.selectors import InteractionScan, RandSel
from randsel.tables import Table, imputer
from randsel.targets import OutcomeKind

#: By default, pairs are tested if samples × features² is at most this: about half a minute on one core.
PAIR_BUDGET = 3e10
#: Minimum number of samples, or groups, in a half.
LEAST_HALF = 4
#: Fraction of half-samples from which a feature counts as stable.
THRESHOLD = 0.6

#: Called with the name of a step, the amount done and the total.
Progress = Callable[[str, float, float], None]


@dataclass(frozen=True)
class Execution:
    """Options of a run that do not change its results."""

    #: Finished steps of an earlier run, and where to store those of this one.
    parts: FinishedParts
    show: Progress
    #: Number of half-samples and folds to compute at a time.
    n_jobs: int | None


# ---------------------------------------------------------------- preparation of a table


@contextmanager
def collect_warnings(messages: list[str]) -> Iterator[None]:
    """Append the text of warnings to a list instead of showing them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    messages += [str(warning.message) for warning in caught]


def impute_medians(table: Table, rows: Array | None = None) -> Table:
    """Replace missing values by the medians of `rows`, or of all rows."""
    if not np.isnan(table.X).any():
        return table
    if table.missing == "error":
        raise ValueError(
            "X has missing values; read the table with missing='median' or 'drop-columns', or impute them first."
        )
    step = imputer().fit(table.X if rows is None else table.X[rows])
    return replace(table, X=step.transform(table.X))


def average_groups(table: Table) -> Table:
    """Return one row per group, the mean of its samples, if the target is the same within each group.

    Samples of one donor are not independent evidence on what differs between donors. A table whose target varies
    within groups stays as it is.
    """
    if table.groups is None:
        return table
    groups, first, codes = np.unique(table.groups, return_index=True, return_inverse=True)
    if len(groups) == len(table.y) or not np.array_equal(table.y[first][codes], table.y):
        return table
    if len(groups) < LEAST_HALF:
        raise ValueError(
            f"the target is the same within each of the {len(groups)} groups, and fewer than {LEAST_HALF} groups tell "
            "nothing about it; leave --groups out only if samples of a group are independent."
        )
    membership = np.zeros((len(groups), len(table.y)), dtype=table.X.dtype)
    membership[codes, np.arange(len(codes))] = 1.0
    X = membership @ table.X / membership.sum(axis=1, keepdims=True)
    for j in table.nominal:
        # codes of categories have no mean: take the most frequent one, the smallest on ties
        X[:, j] = [mode(table.X[codes == k, j]).mode for k in range(len(groups))]
    batch = table.batch
    if batch is not None:
        batch = batch[first] if np.array_equal(batch[first][codes], batch) else None
    return replace(table, X=X, y=table.y[first], groups=None, batch=batch, ids=None)


# ---------------------------------------------------------------- selection on all rows of a table


def cull_table(
    table: Table, kind: OutcomeKind, settings: Settings, on_round: Any = 0, checkpoint: Path | None = None
) -> CullingPath:
    """Return the culling path of all rows of a table."""
    selector = RandSel(
        target=kind.name,
        max_memory=settings.memory,
        device=settings.device,
        random_state=settings.seed,
        verbose=on_round,
        checkpoint=checkpoint,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the summary says if nothing stands out
        path: CullingPath = selector.fit(table.X, table.y).path_
    return path


def run_tests(
    table: Table,
    kind: OutcomeKind,
    settings: Settings,
    show: Progress,
    n_jobs: int | None = None,
    checkpoint: Path | None = None,
) -> FeatureTests:
    """Test all features, and all pairs if the settings say so, within groups and batches."""
    m, n = table.X.shape
    strata = find_strata(table)
    nominal = np.zeros(n, dtype=bool)
    nominal[list(table.nominal)] = True
    if settings.pairs == "none" or (settings.pairs == "auto" and m * n**2 > PAIR_BUDGET) or n == 1:
        codes = None if strata is None else check_strata(table.y, None, batch=strata)
        how: dict[str, Any] = {"strata": codes, "n_jobs": n_jobs, "checkpoint": checkpoint}
        p = main_effects(table.X, table.y, kind, nominal=nominal, **how)
        partner = np.full(n, -1)
        return FeatureTests(p, np.asarray(false_discovery_control(p)), partner, partner[:0], None)
    scan = InteractionScan(
        target=kind.name,
        categorical_features=nominal,
        device=settings.device,
        n_jobs=n_jobs,
        checkpoint=checkpoint,
        verbose=lambda done, total: show("testing pairs", done, total),
    ).fit(table.X, table.y, batch=strata)
    return FeatureTests(scan.pvalues_, scan.qvalues_, scan.partner_, scan.taken_, scan.pairs_)


def find_strata(table: Table) -> Array | None:
    """Return the stratum (group and batch) of each sample; tests compare samples within strata.

    Return None, with a warning, if the target is constant within every stratum: tests then compare all samples.
    """
    labels = [np.unique(values, return_inverse=True)[1] for values in (table.groups, table.batch) if values is not None]
    if not labels:
        return None
    strata = np.unique(np.stack(labels), axis=1, return_inverse=True)[1].ravel()
    if all(len(np.unique(table.y[strata == k])) == 1 for k in np.unique(strata)):
        warnings.warn(
            "The target is the same within every batch, so that no comparison within batches is possible: p and q "
            "compare samples across batches, and cannot tell an effect of the target from one of the batch.",
            UserWarning,
            stacklevel=2,
        )
        return None
    return np.asarray(strata)


def select_features(path: CullingPath, tests: FeatureTests | None, settings: Settings, n_features: int) -> Array:
    """Return the selected columns, in the order of culling.

    `fdr` selects features with at most this q-value; `top` limits their number, or that of all features. With neither,
    select the features of the best culling round, if it stands out from noise, and those selected by forward steps of
    the tests; if there are none, those with a q-value of at most `LEVEL`.
    """
    order = path.order
    if settings.fdr is not None:
        if tests is None:
            raise ValueError("a selection by q-value needs tests.")
        order = order[tests.q[order] <= settings.fdr]
    elif settings.top is None:
        mask = np.zeros(n_features, dtype=bool)
        if path.stands_out:
            mask[order[: len(path.rounds[path.best].features)]] = True
        if tests is not None:
            mask[tests.taken] = True
            mask |= (tests.q <= LEVEL) & (not mask.any())
        order = order[mask[order]]
    return order[: settings.top]


# ---------------------------------------------------------------- half-samples


def split_halves(y: Array, groups: Array | None, kind: OutcomeKind, seed: int, number: int) -> tuple[Array, Array]:
    """Return the rows of two random halves that share no sample or group; each has half of every class."""
    unit = np.arange(len(y)) if groups is None else np.unique(groups, return_inverse=True)[1]
    _, first = np.unique(unit, return_index=True)
    classes = kind.strata(y[first])  # a group has the class of its first sample
    rng = generator(seed, 2, number)
    halves: tuple[list[int], list[int]] = [], []
    for k in range(int(classes.max()) + 1):
        members = rng.permutation(np.flatnonzero(classes == k))
        size = len(members) // 2
        halves[0].extend(members[:size].tolist())
        halves[1].extend(members[size : 2 * size].tolist())
    return np.flatnonzero(np.isin(unit, halves[0])), np.flatnonzero(np.isin(unit, halves[1]))


def measure_stability(
    table: Table, kind: OutcomeKind, settings: Settings, n_selected: int, execution: Execution, notes: list[str]
) -> Stability | None:
    """Select `n_selected` features on each of many halves; None, with a note, if there are too few samples."""
    if not settings.halves:
        return None
    halves = split_halves(table.y, table.groups, kind, settings.seed, 0)
    smallest = min(len(average_groups(table.rows(rows)).y) for rows in halves)
    if smallest < LEAST_HALF:
        notes.append(f"No half-samples: a half would have {smallest} samples, fewer than {LEAST_HALF}.")
        return None
    n_features, n_halves = table.X.shape[1], settings.halves + settings.halves % 2
    tasks = [(table, kind, settings, n_selected, number) for number in range(n_halves)]

    def check(arrays: dict[str, Array]) -> None:
        check_arrays(arrays, {"selected": ("iu", "selected")})
        check_indices(arrays["selected"], n_features)

    results = _run_tasks(_select_on_half, tasks, "half", "half-samples", check, execution)
    # sum counts, not fractions, whose rounding could decide which features are stable
    counts = np.zeros(n_features)
    for result in results:
        counts[result["selected"]] += 1.0
    # Meinshausen and Bühlmann (2010): E[false] ≤ q² / ((2π − 1) p), with q the mean number of selected features
    mean_size = float(np.mean([len(result["selected"]) for result in results]))
    n_varying = max(int((np.ptp(table.X, axis=0) != 0.0).sum()), 1)
    bound = mean_size**2 / ((2 * THRESHOLD - 1) * n_varying)
    return Stability(n_halves, THRESHOLD, bound if bound < n_varying else None, counts / n_halves)


def _select_on_half(
    table: Table, kind: OutcomeKind, settings: Settings, n_selected: int, number: int
) -> dict[str, Any]:
    rows = split_halves(table.y, table.groups, kind, settings.seed, number // 2)[number % 2]
    try:
        half = average_groups(impute_medians(table.rows(rows)))
        return {"selected": cull_table(half, kind, settings).order[:n_selected]}
    except ValueError:  # no feature varies on this half
        return {"selected": np.zeros(0, dtype=int)}


def _run_tasks(
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
    table: Table, kind: OutcomeKind, settings: Settings, execution: Execution, notes: list[str]
) -> Accuracy | None:
    """Cross-validate the whole selection; None, with a note, if there are too few samples."""
    if not settings.folds:
        return None
    n_folds = _count_folds(table, kind, settings.folds, notes)
    if n_folds is None:
        return None
    tasks = [(table, kind, settings, train, test) for train, test in split_folds(table, kind, n_folds, settings.seed)]

    def check(arrays: dict[str, Array]) -> None:
        check_arrays(arrays, {"selected": ("f",), "everything": ("f",), "size": ("iu",)})

    results = _run_tasks(_score_fold, tasks, "fold", "folds", check, execution)
    return Accuracy(
        measure=kind.score_name,
        selected=np.array([float(result["selected"]) for result in results]),
        everything=np.array([float(result["everything"]) for result in results]),
        chance=kind.chance_score(table.y),
        sizes=np.array([int(result["size"]) for result in results]),
    )


def _count_folds(table: Table, kind: OutcomeKind, wanted: int, notes: list[str]) -> int | None:
    """Return the wanted number of folds, or fewer if the smallest class has fewer samples or groups."""
    members = kind.units_per_stratum(table.y, table.groups)
    size = int(members.min())
    limit = f"the number of {'samples' if table.groups is None else 'groups'}"
    if kind.has_classes:
        limit += f" of class {format_label(np.unique(table.y)[int(np.argmin(members))])}"
    if size < 2:
        notes.append(
            f"No cross-validation: {limit} is {size}, and every fold needs some to test and some to learn from."
        )
        return None
    if size < wanted:
        notes.append(f"{size} folds instead of {wanted}, {limit}.")
    return min(size, wanted)


def split_folds(table: Table, kind: OutcomeKind, n_folds: int, seed: int) -> list[tuple[Array, Array]]:
    """Return training and test rows of each fold; groups are not split."""
    folds = kind.splits(table.y, table.groups, n_folds, seed)
    # groups may leave a fold without samples, or a training set with a single class
    return [(train, test) for train, test in folds if len(test) and len(np.unique(table.y[train])) > 1]


def _score_fold(table: Table, kind: OutcomeKind, settings: Settings, train: Array, test: Array) -> dict[str, Any]:
    """Select on the training samples, by the same rules as on all samples, and score models on the test samples."""
    imputed = impute_medians(table, train)
    columns = _select_on_fold(average_groups(imputed.rows(train)), kind, settings)
    varying = np.flatnonzero(np.ptp(imputed.X[train], axis=0) > 0.0)
    return {
        "selected": score_svm(imputed, kind, train, test, columns),
        "everything": score_svm(imputed, kind, train, test, varying),
        "size": len(columns),
    }


def _select_on_fold(table: Table, kind: OutcomeKind, settings: Settings) -> Array:
    try:
        path = cull_table(table, kind, settings)
    except ValueError:  # no feature varies
        return np.zeros(0, dtype=int)
    tests = None
    if settings.fdr is not None or settings.top is None:  # otherwise the selection does not depend on tests
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            tests = run_tests(table, kind, settings, lambda *_: None)
    return select_features(path, tests, settings, table.X.shape[1])


def score_svm(table: Table, kind: OutcomeKind, train: Array, test: Array, columns: Array) -> float:
    """Return the test score of a Gaussian support vector machine; the score of guessing if there are no columns."""
    if not len(columns):
        return kind.chance_score(table.y)
    # class weights, because all classes count the same in balanced accuracy
    options = {"class_weight": "balanced"} if kind.has_classes else {}
    predicted = kind.predict_held_out(table.X, table.y, train, test, columns, "median", **options)
    return kind.score(table.y[test], predicted)
