"""Analysis of one table: selection on all samples, on half-samples (stability) and on training folds (accuracy).

Culling, tests, every half-sample and every fold are stored when they are finished.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import false_discovery_control

from randsel._numerics.arrays import complement
from randsel._numerics.missing import columns_vary
from randsel._sklearn.annotations import Annotations
from randsel._utils.files import FinishedParts, check_arrays, check_indices
from randsel._utils.jobs import as_finished, generator
from randsel._utils.text import collect_warnings, format_label, warn
from randsel._utils.typing import Array
from randsel.analysis._cautions import cautions, check_selection
from randsel.analysis._model import (
    Accuracy,
    Analysis,
    Feature,
    FeatureTests,
    Pair,
    Rule,
    Settings,
    Stability,
    list_features,
)
from randsel.analysis._predictions import predict_by_svm, score_predictions, score_svm, split_by_risk
from randsel.analysis._preparation import (
    LEAST_HALF,
    average_groups,
    check_columns_to_keep,
    columns_to_keep,
    describe_missing,
    impute_medians,
    nominal_mask,
    varying_columns,
)
from randsel.culling import (
    CullingPath,
    Round,
    StandIn,
    SwapModel,
    find_stand_ins,
    path_sizes,
    path_to_arrays,
    restore_path,
)
from randsel.interactions import LEVEL, main_effects
from randsel.selectors import InteractionScan, RandSel
from randsel.tables import Table
from randsel.targets import (
    SURVIVAL,
    OutcomeKind,
    Samples,
    Target,
    bound_false_selections,
    check_outcome,
    describe_guess,
    find_kind,
    split_halves,
)

#: By default, pairs are tested if samples × features² is at most this: about half a minute on one core.
PAIR_BUDGET = 3e10
THRESHOLD = 0.6  # fraction of half-samples from which a feature counts as stable
#: Stored results of a fold, see `check_arrays`.
FOLD_SHAPES = {"selected": ("f",), "everything": ("f",), "columns": ("iu", "selected"), "risks?": ("f", "held out")}
Progress = Callable[[str, float, float], None]  # called with the name of a step, the amount done and the total
TEST_FIELDS = ("p", "q", "partner", "step")  # stored fields of `FeatureTests`
PAIR_FIELDS = ("i", "j", "statistic", "p", "p_corrected", "step")  # and of its pairs


@dataclass(frozen=True)
class Execution:
    """Options of a run that do not change its results."""

    parts: FinishedParts = field(default_factory=FinishedParts)  # finished steps, of an earlier run and this one
    show: Progress = lambda *_: None
    n_jobs: int | None = None  # number of half-samples and folds to compute at a time


def analyse(
    table: Table,
    settings: Settings,
    *,
    about: Mapping[str, Any] | None = None,
    parts: FinishedParts | None = None,
    progress: Progress | None = None,
    n_jobs: int | None = None,
) -> Analysis:
    """Select features from a table, and measure how far to trust the selection.

    Missing values are neutral unless `table.missing` is "median". `about` becomes the `settings` of the result: what is
    needed to repeat it. `parts` holds finished steps of an earlier run and stores those of this one. `progress` is
    called with the name of a step, the amount done and the total. `n_jobs` is the number of half-samples and folds
    computed at a time; results do not depend on it.
    """
    execution = Execution(parts or FinishedParts(), progress or (lambda *_: None), n_jobs)
    kind = find_kind(table.y, settings.task)
    table = replace(table, y=check_outcome(table.y)) if kind is SURVIVAL else table  # fields of any names
    notes = list(table.notes)
    if (guess := describe_guess(table.y, settings.task)) and guess not in notes:
        notes.append(guess)
    imputed = impute_medians(table)
    units = average_groups(imputed)
    notes += describe_missing(table, units)
    if len(units.y) < len(table.y):
        notes.append(
            f"The target is the same within every group, so the {len(table.y)} samples are averaged to {len(units.y)} "
            "groups for ranking, tests and half-samples; the accuracy is that of samples, their groups never split."
        )
    check_columns_to_keep(units, settings)
    path = _cull_or_restore(units, kind, settings, execution)
    tests, messages = _test_or_restore(units, kind, settings, execution)
    notes += _describe_tests(units, tests)
    rule = choose_rule(path, tests, settings, columns_to_keep(table, settings))
    columns = select_features(rule, path, tests)
    stability = measure_stability(table, kind, settings, rule, execution, notes)
    accuracy = measure_accuracy(table, kind, settings, execution, notes)
    samples = None if table.ids is None else table.ids.tolist()
    pairs = [] if tests.pairs is None else tests.pairs.tolist()
    return Analysis(
        table=replace(imputed, notes=()),
        path=path,
        kind=kind.name,
        features=_rank_features(table, path, tests, rule, columns, stability),
        pairs=tuple(Pair(table.names[i], table.names[j], i, j, *scores) for i, j, *scores, _ in pairs),
        stand_ins=_find_stand_ins(units, kind, columns),
        accuracy=accuracy,
        stability=stability,
        rule=rule,
        nothing_stands_out=not path.stands_out,
        warnings=(*cautions(imputed, kind, samples=samples), *messages, *check_selection(units, path, tests, columns)),
        settings=dict(about or {}),
        notes=(*notes, *(f"{name} was damaged and was computed again." for name in execution.parts.damaged)),
    )


def _cull_or_restore(table: Table, kind: OutcomeKind, settings: Settings, execution: Execution) -> CullingPath:
    n_features = len(table.names)
    total = sum(path_sizes(n_features))

    def on_round(r: Round) -> None:
        remaining = sum(path_sizes(len(r.features))) - len(r.features)
        execution.show("culling", total - remaining, total)

    def compute(checkpoint: Path | None) -> dict[str, Any]:
        return path_to_arrays(cull_table(table, kind, settings, on_round, checkpoint))

    return execution.parts.load_or_compute("path", compute, lambda arrays: restore_path(arrays, n_features))


def _test_or_restore(
    table: Table, kind: OutcomeKind, settings: Settings, execution: Execution
) -> tuple[FeatureTests, list[str]]:
    """Return the tests, and the text of warnings that they raised."""

    def compute(checkpoint: Path | None) -> dict[str, Any]:
        with collect_warnings() as messages:
            tests = run_tests(table, kind, settings, execution, checkpoint)
        pairs = {} if tests.pairs is None else {f"pairs_{name}": tests.pairs[name] for name in PAIR_FIELDS}
        # a note names columns that are left out because values are missing
        remarks = np.array([text for text in messages if "values are missing" not in text], dtype=str)
        return {name: getattr(tests, name) for name in TEST_FIELDS} | pairs | {"remarks": remarks}

    arrays = execution.parts.load_or_compute("tests", compute, lambda arrays: _check_tests(arrays, len(table.names)))
    pairs = None
    if "pairs_i" in arrays:
        columns = {name: arrays[f"pairs_{name}"] for name in PAIR_FIELDS}
        pairs = np.rec.fromarrays(list(columns.values()), dtype=[(name, c.dtype) for name, c in columns.items()])
    return FeatureTests(**{name: arrays[name] for name in TEST_FIELDS}, pairs=pairs), arrays["remarks"].tolist()


def _check_tests(arrays: dict[str, Array], n_features: int) -> dict[str, Array]:
    """Return the arrays of tests; raise ValueError unless they belong to `n_features` features."""
    shapes = {name: ("f" if name in ("p", "q") else "iu", n_features) for name in TEST_FIELDS}
    pairs = {f"pairs_{name}?": ("iu" if name in ("i", "j", "step") else "f", "pairs") for name in PAIR_FIELDS}
    check_arrays(arrays, {**shapes, **pairs, "remarks": ("U", "remarks")})
    check_indices(arrays["partner"], n_features, least=-1)
    for name in ("pairs_i", "pairs_j"):
        check_indices(arrays.get(name, np.zeros(0, dtype=int)), n_features)
    return arrays


def _describe_tests(table: Table, tests: FeatureTests) -> Iterator[str]:
    if tests.pairs is None:
        alone = f"p and q are of the {len(table.names)} features alone"
        yield f"Pairs of features were not tested: {alone}. --pairs all tests them."
    if table.batch is not None and not _is_constant_within(table.y, table.batch):
        yield "Differences between batches are removed from features and target; the accuracy is that of all samples."
    if table.covariates:
        names = ", ".join(table.covariates)
        yield f"Effects of {names} are removed from features and target; the accuracy is that of the features alone."


def _rank_features(
    table: Table,
    path: CullingPath,
    tests: FeatureTests,
    rule: Rule,
    selected: Array,
    stability: Stability | None,
) -> tuple[Feature, ...]:
    """Return all features: the selected, then the others, both in the order of culling, then constant features."""
    n, names = len(table.names), table.names
    n_shared = len(selected) if rule.is_prefix_of_path else 0
    not_selected = path.order[~np.isin(path.order, selected)]
    order = np.concatenate([selected, not_selected, complement(path.order, n)]).astype(int)
    fields = {
        "contribution": path.last_values("contributions", n, n_shared),
        "main": path.last_values("main", n, n_shared),
        "interaction": path.last_values("interaction", n, n_shared),
        "partner": np.array([names[j] if j >= 0 else None for j in tests.partner], dtype=object),
        "p": tests.p,
        "q": tests.q,
        "step": tests.step,
        "stability": np.full(n, np.nan) if stability is None else stability.frequencies,
        "selected": np.isin(np.arange(n), selected),
        "missing": np.isnan(table.X).sum(axis=0),
    }
    return list_features(names, order.tolist(), {name: values[order].tolist() for name, values in fields.items()})


def _find_stand_ins(table: Table, kind: OutcomeKind, selected: Array) -> dict[int, list[StandIn]]:
    groups = None if table.groups is None else np.unique(table.groups, return_inverse=True)[1]
    return find_stand_ins(table.X, selected, SwapModel(Target.encode(table.y, kind, None, groups)))


# ---------------------------------------------------------------- selection on all rows of a table


def cull_table(
    table: Table, kind: OutcomeKind, settings: Settings, on_round: Any = 0, checkpoint: Path | None = None
) -> CullingPath:
    """Return the culling path of all rows of a table."""
    options: dict[str, Any] = {"max_memory": settings.memory, "random_state": settings.seed}
    options["always_keep"] = varying_columns(table.X, columns_to_keep(table, settings)) or None
    selector = RandSel(target=kind.name, device=settings.device, verbose=on_round, checkpoint=checkpoint, **options)
    # If the target is constant within batches, tests compare samples of different batches, and so do permutations.
    batch = None if table.batch is None or _is_constant_within(table.y, table.batch) else table.batch
    with collect_warnings():  # the summary says if nothing stands out
        known = {"groups": table.groups, "batch": batch, "covariates": table.covariates or None}
        path: CullingPath = selector.fit(table.X, table.y, **known).path_
    return path


def run_tests(
    table: Table, kind: OutcomeKind, settings: Settings, execution: Execution, checkpoint: Path | None = None
) -> FeatureTests:
    """Test all features, and all pairs if the settings say so; groups, batches, covariates as in `InteractionScan`."""
    m, n = table.X.shape
    nominal, batch = nominal_mask(table), table.batch
    if batch is not None and _is_constant_within(table.y, batch):
        warn(
            "The target is the same within every batch, so that no comparison within batches is possible: p and q "
            "compare samples across batches, and cannot tell an effect of the target from one of the batch.",
            stacklevel=2,
        )
        batch = None
    how: dict[str, Any] = {"n_jobs": execution.n_jobs, "checkpoint": checkpoint}
    if settings.pairs == "none" or (settings.pairs == "auto" and m * n**2 > PAIR_BUDGET) or n == 1:
        known = Annotations.check(table.groups, batch, table.covariates or None, None, m)
        y, kind = kind.to_numbers(table.y, None, known.batch, known.covariate_columns)
        samples = Samples.from_groups(table.X, y, None, known.groups, known.batch, nominal, known.covariates)
        p = main_effects(samples, kind, nominal=nominal, **how)
        return FeatureTests(p, np.asarray(false_discovery_control(p)), np.full(n, -1), np.zeros(n, dtype=int), None)
    how |= {"device": settings.device, "verbose": partial(execution.show, "testing pairs")}
    scan = InteractionScan(target=kind.name, categorical_features=nominal, **how)
    scan.fit(table.X, table.y, groups=table.groups, batch=batch, covariates=table.covariates or None)
    return FeatureTests.from_scan(scan)


def _is_constant_within(y: Array, labels: Array) -> bool:
    return all(len(np.unique(y[labels == label])) == 1 for label in np.unique(labels))


def choose_rule(
    path: CullingPath, tests: FeatureTests | None, settings: Settings, always_kept: tuple[int, ...] = ()
) -> Rule:
    """Return the rule of selection: that of the settings, or else the first that has something to select.

    Without `top` and `fdr`: the best round, if the features stand out from noise; otherwise significant features, if
    there are any. `tests` may be None where the rule does not depend on them.
    """
    if settings.fdr is not None:
        return Rule("fdr", settings.top, settings.fdr, always_kept)
    if settings.top is not None:
        return Rule("top", settings.top, None, always_kept)
    if path.stands_out:
        return Rule("path", always_kept=always_kept)
    significant = tests is not None and (tests.q <= LEVEL).any()
    return Rule("tests", None, LEVEL, always_kept) if significant else Rule("nothing", always_kept=always_kept)


def select_features(rule: Rule, path: CullingPath, tests: FeatureTests | None) -> Array:
    """Return the columns that a rule selects, in the order of culling, which starts with the features to keep."""
    by_request = np.array(rule.always_kept, dtype=int)
    if rule.name == "nothing":
        return by_request
    # On a half-sample or a fold, a feature to keep may be constant and not in the order.
    order = np.concatenate([by_request, path.order[~np.isin(path.order, by_request)]])
    if rule.name == "path":
        return order[: max(len(path.best_round.features), len(by_request))]
    if rule.fdr is not None:
        if tests is None:
            raise ValueError("a selection by q-value needs tests.")
        order = order[(tests.q[order] <= rule.fdr) | np.isin(order, by_request)]
    return order[: rule.top]


# ---------------------------------------------------------------- half-samples


def draw_halves(y: Array, groups: Array | None, kind: OutcomeKind, seed: int, number: int) -> tuple[Array, Array]:
    """Return the rows of two random halves that share no sample or group; each has half of every class."""
    one, other = split_halves(kind.strata(y), groups, None, generator(seed, 2, number))
    return np.sort(one), np.sort(other)


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
    tasks = [(table, kind, settings, rule, number) for number in range(n_halves)]

    def check(arrays: dict[str, Array]) -> None:
        check_arrays(arrays, {"selected": ("iu", "selected")})
        check_indices(arrays["selected"], n_features)

    results = _run_tasks(_select_on_half, tasks, "half", "half-samples", check, execution)
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
        tests = None if rule.fdr is None else _test_quietly(half, kind, settings)
    except ValueError:  # no feature varies on this half
        return {"selected": np.zeros(0, dtype=int)}
    return {"selected": select_features(rule, path, tests)}


def _test_quietly(table: Table, kind: OutcomeKind, settings: Settings) -> FeatureTests:
    """Run the tests without the warnings that those on all samples give."""
    with collect_warnings():
        return run_tests(table, kind, settings, Execution())


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
    """Cross-validate the whole selection; None, with a note, if there are too few samples.

    There are fewer folds than wanted if the smallest class has fewer samples or groups.
    """
    if not settings.folds:
        return None
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
        return None
    if size < settings.folds:
        notes.append(f"{size} folds instead of {settings.folds}, {limit}.")
    folds = split_folds(table, kind, min(size, settings.folds), settings.seed)
    tasks = [(table, kind, settings, train, test) for train, test in folds]

    def check(arrays: dict[str, Array]) -> None:
        check_arrays(arrays, FOLD_SHAPES)
        check_indices(arrays["columns"], len(table.names))

    results = _run_tasks(_score_fold, tasks, "fold", "folds", check, execution)
    selected, everything = (
        np.array([result[name].item() for result in results]) for name in ("selected", "everything")
    )
    sizes = np.array([len(result["columns"]) for result in results])
    high_risk = split_by_risk(results, [test for _, test in folds], len(table.y)) if kind is SURVIVAL else None
    scores = selected, everything, kind.chance_score(table.y), sizes
    selections = tuple((*fold, result["columns"]) for fold, result in zip(folds, results, strict=True))
    return Accuracy(kind.score_name, *scores, high_risk, selections)


def split_folds(table: Table, kind: OutcomeKind, n_folds: int, seed: int) -> list[tuple[Array, Array]]:
    """Return training and test rows of each fold; groups are not split."""
    folds = kind.splits(table.y, table.groups, n_folds, seed)
    # groups may leave a fold without samples, or a training set with a single class
    return [(train, test) for train, test in folds if len(test) and len(np.unique(table.y[train])) > 1]


def _score_fold(table: Table, kind: OutcomeKind, settings: Settings, train: Array, test: Array) -> dict[str, Any]:
    """Select on the training samples, by the same rules as on all samples, and score models on the test samples."""
    imputed = impute_medians(table, train)
    columns = _select_on_fold(average_groups(imputed.rows(train)), kind, settings)
    varying = np.flatnonzero(columns_vary(imputed.X[train]))
    predicted = predict_by_svm(imputed, kind, train, test, columns)
    return {
        "selected": score_predictions(table, kind, test, predicted),
        "everything": score_svm(imputed, kind, train, test, varying),
        "columns": columns,
        **({"risks": predicted} if kind is SURVIVAL and predicted is not None else {}),
    }


def _select_on_fold(table: Table, kind: OutcomeKind, settings: Settings) -> Array:
    try:
        path = cull_table(table, kind, settings)
    except ValueError:  # no feature varies
        return np.zeros(0, dtype=int)
    # the selection depends on tests with --fdr, and where neither --top is given nor culling stands out
    needs_tests = settings.fdr is not None or (settings.top is None and not path.stands_out)
    tests = _test_quietly(table, kind, settings) if needs_tests else None
    return select_features(choose_rule(path, tests, settings, columns_to_keep(table, settings)), path, tests)
