"""Stores the data of a report in a results folder, and restores an `Analysis` from it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from randsel._numerics.arrays import is_structured
from randsel._numerics.event_times import survival_array
from randsel._utils.files import (
    FinishedParts,
    check_arrays,
    check_indices,
    read_identity,
)
from randsel._utils.text import format_label, make_visible
from randsel._utils.typing import Array
from randsel.analysis import (
    RULES,
    SCORE_COLUMNS,
    Accuracy,
    Analysis,
    Effects,
    HeldOut,
    Pair,
    PanelSizes,
    Rule,
    Stability,
    effect_measure,
    list_features,
    named_target,
)
from randsel.culling import CullingPath, StandIn, restore_path
from randsel.report._figures import columns_to_draw
from randsel.tables import Table
from randsel.targets import KINDS, SURVIVAL, check_outcome

#: Kinds and lengths of the stored arrays of a report, see `check_arrays`.
REPORT_SHAPES: dict[str, tuple[Any, ...]] = {
    "names": ("U", "features"),
    "order": ("iu", "features"),
    "scores": ("f", "features", len(SCORE_COLUMNS)),
    "partners": ("U", "features"),
    "steps": ("iu", "features"),
    "signs": ("iu", "features"),
    "extremes": ("iu", "features"),
    "centres": ("f", "features", "classes"),
    "centre": ("U",),
    "log2": ("U",),
    "selected": ("b", "features"),
    "y": ("biufU", "samples"),
    "event?": ("b", "samples"),
    "high_risk?": ("f", "samples"),
    "columns": ("iu", "drawn"),
    "values": ("biuf", "samples", "drawn"),
    "pair_columns": ("iu", "pairs", 2),
    "pair_scores": ("f", "pairs", 3),
    "stand_in_columns": ("iu", "stand-ins", 2),
    "stand_in_scores": ("f", "stand-ins", 2),
    "nothing_stands_out": ("b",),
    "rule": ("U",),
    "rule_limits": ("f", 2),
    "always_kept": ("iu", "always kept"),
    "kind": ("U",),
    "warnings": ("U", "warnings"),
    "notes": ("U", "notes"),
    "folds?": ("f", 3, "folds"),
    "chance?": ("f",),
    "held_out?": ("f", 3, "samples"),
    "sizes?": ("iu", "sizes"),
    "curve?": ("f", "folds", "sizes"),
    "stability?": ("f", 3),
}


def store_analysis(analysis: Analysis, parts: FinishedParts) -> None:
    """Store the data of the report; of the table, only the columns that are drawn."""
    features, pairs = analysis.features, analysis.pairs
    swaps = [(column, *stand_in) for column, others in analysis.stand_ins.items() for stand_in in others]
    columns, effects = columns_to_draw(analysis), analysis.effects
    arrays: dict[str, Any] = {
        "columns": columns,
        "values": analysis.table.X[:, columns],
        **_store_outcome(analysis.table.y),
        "names": np.array(analysis.table.names, dtype=str),
        "order": [feature.column for feature in features],
        "scores": [[getattr(feature, column.field) for column in SCORE_COLUMNS] for feature in features],
        "partners": np.array([feature.partner or "" for feature in features], dtype=str),
        "steps": [feature.step for feature in features],
        "selected": np.array([feature.selected for feature in features]),
        "signs": effects.sign,
        "extremes": effects.extreme,
        "centres": effects.centres,
        "centre": effects.centre,
        "log2": effects.log2,
        "pair_columns": np.array([[p.first_column, p.second_column] for p in pairs], dtype=int).reshape(-1, 2),
        "pair_scores": np.array([[p.statistic, p.p, p.corrected_p] for p in pairs]).reshape(-1, 3),
        "stand_in_columns": np.array([swap[:2] for swap in swaps], dtype=int).reshape(-1, 2),
        "stand_in_scores": np.array([swap[2:] for swap in swaps], dtype=float).reshape(-1, 2),
        "nothing_stands_out": analysis.nothing_stands_out,
        "rule": analysis.rule.name,
        "rule_limits": [np.nan if limit is None else limit for limit in (analysis.rule.top, analysis.rule.fdr)],
        "always_kept": np.array(analysis.rule.always_kept, dtype=int),
        "kind": analysis.kind,
        "warnings": np.array(analysis.warnings, dtype=str),
        "notes": np.array(analysis.notes, dtype=str),
    }
    if (accuracy := analysis.accuracy) is not None:
        arrays |= {"folds": [accuracy.selected, accuracy.everything, accuracy.sizes], "chance": accuracy.chance}
        arrays |= {} if accuracy.high_risk is None else {"high_risk": accuracy.high_risk}
        if (held_out := accuracy.held_out) is not None:
            arrays["held_out"] = [held_out.fold, held_out.predicted, held_out.score]
    if (curve := analysis.panel_sizes) is not None:
        arrays |= {"sizes": curve.sizes, "curve": curve.scores}
    if (stability := analysis.stability) is not None:
        bound = np.nan if stability.expected_false is None else stability.expected_false
        arrays["stability"] = [stability.n_halves, stability.threshold, bound]
    parts.save("report", arrays)


def _store_outcome(y: Array) -> dict[str, Array]:
    """Return the target as plain arrays: for survival the times, and the events separately."""
    return {"y": y["time"], "event": y["event"]} if is_structured(y) else {"y": y}


def _restore_outcome(arrays: Mapping[str, Array], kind: str) -> Array:
    """Return the target of `_store_outcome`; raise ValueError if it does not match the stored kind."""
    if ("event" in arrays) != (kind == SURVIVAL.name) or (kind == SURVIVAL.name and arrays["y"].dtype.kind != "f"):
        raise ValueError("the target does not match its kind")
    if kind != SURVIVAL.name:
        return arrays["y"]
    y = survival_array(arrays["event"], arrays["y"])
    check_outcome(y)
    SURVIVAL.check(y)
    return y


def load_analysis(out: str | Path) -> Analysis:
    """Read an analysis from a folder of `randsel select`; columns that no figure shows were not stored and are zero."""
    out = Path(out)
    settings = read_identity(out)
    command = make_visible(str(settings.get("command", "randsel select")))
    parts = FinishedParts(out / "parts") if (out / "parts").is_dir() else FinishedParts()
    arrays, path = parts.load("report"), parts.load("path")
    if arrays is None or path is None:
        raise ValueError(f"{out} holds a run that is not finished, or whose parts are damaged; run it again: {command}")
    try:
        check_arrays(arrays, REPORT_SHAPES)
        return _restore_analysis(arrays, restore_path(path, len(arrays["names"])), settings)
    except (KeyError, IndexError, TypeError, ValueError, MemoryError) as error:
        raise ValueError(
            f"{out} holds parts that are damaged ({error}); remove the folder and run again: {command}"
        ) from error


def _restore_analysis(arrays: Mapping[str, Array], path: CullingPath, settings: Mapping[str, Any]) -> Analysis:
    names, kind = tuple(arrays["names"].tolist()), str(arrays["kind"])
    for indices in ("columns", "order", "pair_columns", "stand_in_columns", "always_kept"):
        check_indices(arrays[indices], len(names))
    if len(np.unique(arrays["order"])) < len(names) or kind not in KINDS:
        raise ValueError("the ranking or the kind of the target is not valid")
    # column-major, so that only the filled columns take memory
    X = np.zeros((len(arrays["y"]), len(names)), order="F")
    X[:, arrays["columns"]] = arrays["values"]
    fields = {column.field: arrays["scores"][:, k].tolist() for k, column in enumerate(SCORE_COLUMNS)}
    # a missing name is stored as an empty string
    fields["partner"] = [partner or None for partner in arrays["partners"].tolist()]
    fields["step"], fields["selected"] = arrays["steps"].tolist(), arrays["selected"].tolist()
    y = _restore_outcome(arrays, kind)
    effects = _restore_effects(arrays, fields, y, kind)
    fields["direction"] = [effects.direction(j, named_target(settings)) or None for j in arrays["order"].tolist()]
    pairs = tuple(
        Pair(names[i], names[j], i, j, *scores)
        for (i, j), scores in zip(arrays["pair_columns"].tolist(), arrays["pair_scores"].tolist(), strict=True)
    )
    stand_ins: dict[int, list[StandIn]] = {}
    for (column, other), scores in zip(arrays["stand_in_columns"].tolist(), arrays["stand_in_scores"], strict=True):
        stand_ins.setdefault(column, []).append(StandIn(other, *scores.tolist()))
    accuracy, stability = None, None
    if "folds" in arrays:
        selected, everything, sizes = arrays["folds"]
        scores = selected, everything, float(arrays["chance"]), sizes.astype(int)
        held_out = _restore_held_out(arrays["held_out"]) if "held_out" in arrays else None
        accuracy = Accuracy(KINDS[kind].score_name, *scores, arrays.get("high_risk"), held_out=held_out)
    if "stability" in arrays:
        n_halves, threshold, bound = arrays["stability"].tolist()
        frequencies = np.zeros(len(names))
        frequencies[arrays["order"]] = fields["stability"]
        stability = Stability(int(n_halves), threshold, None if np.isnan(bound) else bound, frequencies)
    return Analysis(
        table=Table(X, y, names),
        path=path,
        kind=kind,
        features=list_features(names, arrays["order"].tolist(), fields),
        pairs=pairs,
        stand_ins=stand_ins,
        accuracy=accuracy,
        panel_sizes=_restore_panel_sizes(arrays),
        stability=stability,
        effects=effects,
        rule=_restore_rule(arrays),
        nothing_stands_out=bool(arrays["nothing_stands_out"]),
        warnings=tuple(arrays["warnings"].tolist()),
        settings=settings,
        notes=tuple(arrays["notes"].tolist()),
    )


def _restore_effects(arrays: Mapping[str, Array], fields: Mapping[str, Any], y: Array, kind: str) -> Effects:
    """Return the effects, whose estimates and limits are stored with the features, in the order of the ranking."""
    has_classes = KINDS[kind].has_classes
    classes = tuple(format_label(label) for label in np.unique(y)) if has_classes else ()
    if arrays["centres"].shape[1] != len(classes) or str(arrays["centre"]) not in ("mean", "median"):
        raise ValueError("the effects do not match the classes")
    check_indices(arrays["extremes"], max(len(classes), 1), least=-1)
    check_indices(arrays["signs"] + 1, 3)
    by_column: dict[str, Any] = {}
    for name, field in (("estimate", "effect"), ("low", "effect_low"), ("high", "effect_high")):
        by_column[name] = np.zeros(len(arrays["order"]))
        by_column[name][arrays["order"]] = fields[field]
    by_column |= {"sign": arrays["signs"], "extreme": arrays["extremes"], "centres": arrays["centres"]}
    by_column |= {"centre": str(arrays["centre"]), "log2": str(arrays["log2"])}
    return Effects(effect_measure(KINDS[kind]), classes=classes, **by_column)


def _restore_held_out(values: Array) -> HeldOut:
    fold, predicted, score = values
    if not np.isfinite(fold).all():
        raise ValueError("the folds of predictions are not numbered")
    return HeldOut(fold.astype(int), predicted, score)


def _restore_panel_sizes(arrays: Mapping[str, Array]) -> PanelSizes | None:
    if "sizes" not in arrays or "curve" not in arrays:
        return None
    if not len(arrays["sizes"]) or not np.isfinite(arrays["curve"]).any():
        raise ValueError("the sizes of panels have no scores")
    return PanelSizes(arrays["sizes"], arrays["curve"], int(arrays["selected"].sum()))


def _restore_rule(arrays: Mapping[str, Array]) -> Rule:
    name, (top, fdr) = str(arrays["rule"]), arrays["rule_limits"].tolist()
    if name not in RULES or np.isinf([top, fdr]).any() or (name in ("tests", "fdr") and np.isnan(fdr)):
        raise ValueError("the rule of selection is not known")
    limits = None if np.isnan(top) else int(top), None if np.isnan(fdr) else fdr
    return Rule(name, *limits, tuple(arrays["always_kept"].tolist()))
