"""Analysis of one table: selection on all samples, on half-samples (stability) and on training folds (accuracy).

Culling, tests, every half-sample and every fold are stored when they are finished.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from randsel._numerics.arrays import complement
from randsel._sklearn.base import check_annotations
from randsel._utils.files import FinishedParts, check_arrays, check_indices
from randsel._utils.text import collect_warnings
from randsel._utils.typing import Array
from randsel.analysis._cautions import cautions, check_selection, check_weak_effects
from randsel.analysis._effects import describe_effects, measure_effects
from randsel.analysis._model import (
    NO_PAIRS_LEFT,
    Analysis,
    FeatureTests,
    Pair,
    Settings,
    named_target,
)
from randsel.analysis._preparation import (
    average_groups,
    check_columns_to_keep,
    columns_to_keep,
    describe_missing,
    impute_medians,
)
from randsel.analysis._ranking import RankingSource, rank_features
from randsel.analysis._resampling import measure_accuracy, measure_stability
from randsel.analysis._selection import (
    Execution,
    Progress,
    choose_rule,
    cull_table,
    rank_columns,
    run_tests,
    select_features,
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
from randsel.tables import Table
from randsel.targets import (
    SURVIVAL,
    OutcomeKind,
    Target,
    check_outcome,
    describe_guess,
    find_kind,
    is_constant_within,
)

TEST_FIELDS = ("p", "q", "partner", "step")  # stored fields of `FeatureTests`
PAIR_FIELDS = ("i", "j", "statistic", "p", "p_corrected", "step")  # and of its pairs


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
    accuracy, panel_sizes = measure_accuracy(table, kind, settings, len(columns), execution, notes)
    effects = measure_effects(average_groups(table), kind)
    notes += describe_effects(effects, table)
    samples = None if table.ids is None else table.ids.tolist()
    pairs = [] if tests.pairs is None else tests.pairs.tolist()
    target = named_target(about or {})
    source = RankingSource(table, path, tests, effects, stability, columns, rule.is_prefix_of_path, target)
    return Analysis(
        table=replace(imputed, notes=()),
        path=path,
        kind=kind.name,
        features=rank_features(source, _order_features(columns, path, len(table.names))),
        pairs=tuple(Pair(table.names[i], table.names[j], i, j, *scores) for i, j, *scores, _ in pairs),
        stand_ins=_find_stand_ins(units, kind, columns),
        accuracy=accuracy,
        panel_sizes=panel_sizes,
        stability=stability,
        effects=effects,
        rule=rule,
        nothing_stands_out=not path.stands_out,
        warnings=(
            *cautions(imputed, kind, samples=samples),
            *messages,
            *check_selection(units, path, tests, columns, [*settings.keep, *_confirmed_features(about)]),
            *(() if path.stands_out else check_weak_effects(accuracy)),
        ),
        settings=dict(about or {}),
        notes=(*notes, *(f"{name} was damaged and was computed again." for name in execution.parts.damaged)),
    )


def _confirmed_features(about: Mapping[str, Any] | None) -> list[str]:
    """Return the columns that the user has named as features (--features)."""
    return list((about or {}).get("parameters", {}).get("features", ()))


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
    elif not len(tests.pairs) and len(table.names) > 1:
        yield NO_PAIRS_LEFT
    if table.batch is not None and not is_constant_within(table.y, table.batch):
        yield "Differences between batches are removed from features and target; the accuracy is that of all samples."
    if table.covariates:
        names = ", ".join(table.covariates)
        yield f"Effects of {names} are removed from features and target; the accuracy is that of the features alone."


def _order_features(selected: Array, path: CullingPath, n: int) -> Array:
    """Return all n columns: the selected, then the others, both in the order of culling, then constant ones."""
    ranked = rank_columns(selected, path)
    return np.concatenate([ranked, complement(ranked, n)]).astype(int)


def _find_stand_ins(table: Table, kind: OutcomeKind, selected: Array) -> dict[int, list[StandIn]]:
    annotations = check_annotations(table.groups, None, None, None, len(table.y))
    model = SwapModel(Target.encode(table.y, kind, None, annotations.groups))
    return find_stand_ins(table.X, selected, model, nominal=table.nominal)
