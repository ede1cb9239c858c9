"""Analysis of one table: culling, tests, half-samples and nested cross-validation, each stored when it is finished."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from randsel._numerics.arrays import complement
from randsel._utils.result_folder import FinishedParts, check_arrays, check_indices
from randsel._utils.typing import Array
from randsel.analysis._cautions import cautions, check_selection
from randsel.analysis._model import Analysis, Feature, FeatureTests, Pair, Settings, Stability
from randsel.analysis._selection import (
    Execution,
    Progress,
    average_groups,
    collect_warnings,
    cull_table,
    impute_medians,
    measure_accuracy,
    measure_stability,
    run_tests,
    select_features,
)
from randsel.culling import CullingPath, Round, path_sizes, path_to_arrays, restore_path
from randsel.tables import Table
from randsel.targets import OutcomeKind, find_kind

#: Stored fields of a pair.
PAIR_FIELDS = ("i", "j", "statistic", "p", "p_corrected", "step")
#: Kinds and lengths of the stored arrays of tests, see `check_arrays`.
TESTS_SHAPES = {
    "p": ("f", "features"),
    "q": ("f", "features"),
    "partner": ("iu", "features"),
    "taken": ("iu", "taken"),
    **{f"pairs_{name}?": ("iu" if name in ("i", "j", "step") else "f", "pairs") for name in PAIR_FIELDS},
    "remarks": ("U", "remarks"),
}


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

    Missing values are allowed if `table.missing` is "median". `about` becomes the `settings` of the result: what is
    needed to repeat it. `parts` holds finished steps of an earlier run and stores those of this one. `progress` is
    called with the name of a step, the amount done and the total. `n_jobs` is the number of half-samples and folds
    computed at a time; results do not depend on it.
    """
    execution = Execution(parts or FinishedParts(), progress or (lambda *_: None), n_jobs)
    kind = find_kind(table.y, settings.task)
    notes, messages = list(table.notes), list[str]()
    if np.isnan(table.X).any():
        notes.append("Ranking and tests take the medians of all samples; half-samples and folds those of their own.")
    imputed = impute_medians(table)
    units = average_groups(imputed)
    if len(units.y) < len(table.y):
        notes.append(
            f"The target is the same within every group, so the {len(table.y)} samples are averaged to {len(units.y)} "
            "groups for ranking, tests and half-samples; the accuracy is that of samples, their groups never split."
        )
    path = _cull_or_restore(units, kind, settings, execution)
    with collect_warnings(messages):
        tests = _test_or_restore(units, kind, settings, execution)
    notes += _describe_tests(units, tests)
    columns = select_features(path, tests, settings, table.X.shape[1])
    # if nothing is selected, use the size of the best culling round: selections of noise differ between halves
    n_selected = len(columns) or len(path.rounds[path.best].features)
    stability = measure_stability(table, kind, settings, n_selected, execution, notes)
    accuracy = measure_accuracy(table, kind, settings, execution, notes)
    samples = None if table.ids is None else table.ids.tolist()
    return Analysis(
        table=replace(imputed, notes=()),
        path=path,
        kind=kind.name,
        features=_rank_features(table, path, tests, columns, stability),
        pairs=_list_pairs(table, tests),
        accuracy=accuracy,
        stability=stability,
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


def _test_or_restore(table: Table, kind: OutcomeKind, settings: Settings, execution: Execution) -> FeatureTests:
    def compute(checkpoint: Path | None) -> dict[str, Any]:
        messages: list[str] = []
        with collect_warnings(messages):
            tests = run_tests(table, kind, settings, execution.show, execution.n_jobs, checkpoint)
        arrays = {"p": tests.p, "q": tests.q, "partner": tests.partner, "taken": tests.taken}
        pairs = {} if tests.pairs is None else {f"pairs_{name}": tests.pairs[name] for name in PAIR_FIELDS}
        return {**arrays, **pairs, "remarks": np.array(messages, dtype=str)}

    arrays = execution.parts.load_or_compute("tests", compute, lambda arrays: _check_tests(arrays, len(table.names)))
    for message in arrays["remarks"].tolist():
        warnings.warn(message, UserWarning, stacklevel=2)
    pairs = None
    if "pairs_i" in arrays:
        pairs = np.zeros(len(arrays["pairs_i"]), dtype=[(name, arrays[f"pairs_{name}"].dtype) for name in PAIR_FIELDS])
        for name in PAIR_FIELDS:
            pairs[name] = arrays[f"pairs_{name}"]
    return FeatureTests(arrays["p"], arrays["q"], arrays["partner"], arrays["taken"], pairs)


def _check_tests(arrays: dict[str, Array], n_features: int) -> dict[str, Array]:
    """Return the arrays of tests; raise ValueError unless they belong to `n_features` features."""
    check_arrays(arrays, TESTS_SHAPES)
    check_arrays(arrays, {"p": ("f", n_features)})
    check_indices(arrays["partner"], n_features, least=-1)
    for name in ("taken", "pairs_i", "pairs_j"):
        check_indices(arrays.get(name, arrays["taken"]), n_features)
    return arrays


def _describe_tests(table: Table, tests: FeatureTests) -> list[str]:
    sentences = []
    if tests.pairs is None:
        sentences.append(
            f"Pairs of features were not tested: p and q are of the {len(table.names)} features alone. --pairs all "
            "tests them."
        )
    strata = {"groups": table.groups, "batches": table.batch}
    if names := [name for name, values in strata.items() if values is not None]:
        sentences.append(f"p, q and pairs compare within {' and '.join(names)}; contributions and accuracy do not.")
    return sentences


def _rank_features(
    table: Table, path: CullingPath, tests: FeatureTests, selected: Array, stability: Stability | None
) -> tuple[Feature, ...]:
    """Return all features: the selected, then the others, both in the order of culling, then constant features."""
    n = len(table.names)
    not_selected = path.order[~np.isin(path.order, selected)]
    order = np.concatenate([selected, not_selected, complement(path.order, n)]).astype(int)
    values = {name: path.last_values(name, n) for name in ("contributions", "main", "interaction")}
    frequencies = np.full(n, np.nan) if stability is None else stability.frequencies
    return tuple(
        Feature(
            name=table.names[j],
            column=j,
            rank=rank,
            contribution=float(values["contributions"][j]),
            main=float(values["main"][j]),
            interaction=float(values["interaction"][j]),
            partner=table.names[tests.partner[j]] if tests.partner[j] >= 0 else None,
            p=float(tests.p[j]),
            q=float(tests.q[j]),
            stability=float(frequencies[j]),
            selected=rank <= len(selected),
        )
        for rank, j in enumerate(order.tolist(), 1)
    )


def _list_pairs(table: Table, tests: FeatureTests) -> tuple[Pair, ...]:
    rows = [] if tests.pairs is None else tests.pairs.tolist()
    return tuple(
        Pair(table.names[i], table.names[j], i, j, statistic, p, corrected) for i, j, statistic, p, corrected, _ in rows
    )
