"""Writes and reads the files of a results folder, and formats the ranking for the terminal."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from itertools import chain
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
    write_atomically,
    write_figure,
)
from randsel._utils.text import as_csv, format_exact, make_visible
from randsel._utils.typing import Array
from randsel.analysis import (
    MISSING,
    NAME,
    RANK,
    RULES,
    SCORE_COLUMNS,
    SELECTED,
    VALUE_COLUMNS,
    Accuracy,
    Analysis,
    Pair,
    Rule,
    Settings,
    Stability,
    list_features,
)
from randsel.culling import CullingPath, StandIn, restore_path
from randsel.plots import culling_path, survival_panels
from randsel.report import _html as report
from randsel.report._sentences import MEANING_OF_Q
from randsel.tables import Table
from randsel.targets import KINDS, SURVIVAL, check_outcome

#: Entries of run.json that must be equal for a run to reuse the finished steps of an earlier one.
MUST_AGREE = ("version", "data_hash", "parameters")
PRINTED_ROWS = 20  # default number of rows of the ranking to print
#: Kinds and lengths of the stored arrays of a report, see `check_arrays`.
REPORT_SHAPES: dict[str, tuple[Any, ...]] = {
    "names": ("U", "features"),
    "order": ("iu", "features"),
    "scores": ("f", "features", len(SCORE_COLUMNS)),
    "partners": ("U", "features"),
    "steps": ("iu", "features"),
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
    "stability?": ("f", 3),
}


def describe_run(file: Path, table: Table, reading: Mapping[str, Any], settings: Settings, out: Path) -> dict[str, Any]:
    """Return what is needed to repeat a run: version, command, seed, hash of the data, parameters."""
    options = {name: value for name, value in reading.items() if value not in (None, (), False)}
    options = json.loads(json.dumps(options, default=str))  # tuples become lists, paths text
    # the limit on the size of the file does not change the table, and so does not identify a run
    parameters = {name: value for name, value in options.items() if name != "max_bytes"}
    chosen = {name: value for name, value in asdict(settings).items() if value not in (None, ()) and name != "seed"}
    parameters |= json.loads(json.dumps(chosen))
    return {
        "version": version("randsel"),
        "command": _write_command(file, options, settings, out),
        "seed": settings.seed,
        "data": file.name,
        "data_hash": table.fingerprint(),
        "samples": len(table.y),
        "features": len(table.names),
        "parameters": {**parameters, "seed": settings.seed},
        "packages": {name: version(name) for name in ("numpy", "scipy", "scikit-learn")},
    }


def _write_command(file: Path, options: Mapping[str, Any], settings: Settings, out: Path) -> str:
    """Write the command line with all options that differ from their defaults."""
    words = ["randsel", "select", str(file)]
    defaults = {"orientation": "auto", "missing": "neutral", "max_bytes": "4GB", **asdict(Settings())}
    for name, value in {**options, **asdict(settings)}.items():
        if value != defaults.get(name) and value is not None:
            option = f"--{name.replace('_', '-')}"
            listed = isinstance(value, list | tuple)
            words += [option] if value is True else [option, ",".join(value) if listed else str(value)]
    return shlex.join([*words, "--out", str(out)])


def write_results(analysis: Analysis, out: Path, parts: FinishedParts) -> list[str]:
    """Write `ranking.csv`, `pairs.csv`, `path.png` and `report.html`, and store the data of the report.

    With survival, also write `survival.png`. Return messages about files that could not be written because an optional
    package is missing.
    """
    columns = [NAME, RANK, SELECTED, *VALUE_COLUMNS]
    columns += [MISSING] if any(feature.missing for feature in analysis.features) else []
    ranking = [
        {column.title: column.to_csv(feature) for column in columns}
        | {"stand_ins": analysis.describe_stand_ins(feature.column)}
        for feature in analysis.features
    ]
    write_atomically(out / "ranking.csv", as_csv(ranking))
    pairs = [
        {"feature": pair.first, "partner": pair.second}
        | {name: format_exact(getattr(pair, name)) for name in ("statistic", "p", "corrected_p")}
        for pair in analysis.pairs
    ]
    write_atomically(out / "pairs.csv", as_csv(pairs) or "feature,partner,statistic,p,corrected_p\n")
    _store_analysis(analysis, parts)
    missing = []
    writers = [(_write_path_figure, "path.png"), (write_report, "report.html")]
    if analysis.outcome is SURVIVAL:
        writers.append((_write_survival_figure, "survival.png"))
    for write_file, name in writers:
        try:
            write_file(analysis, out / name)
        except ImportError as error:
            missing.append(f"No {name}: {error}")
    return missing


def _write_path_figure(analysis: Analysis, file: Path) -> None:
    figure = culling_path(
        analysis.path,
        highlight=np.array(report.columns_to_highlight(analysis)[: report.NAMED], dtype=int),
        names=[make_visible(name) for name in analysis.table.names],
        label="the first selected",
    )
    write_figure(file, figure, 150)


def _write_survival_figure(analysis: Analysis, file: Path) -> None:
    curves = report.first_features(analysis, report.NAMED - 1) | report.predicted_risk_groups(analysis)
    write_figure(file, survival_panels(analysis.table.y, curves), 150)


def write_report(analysis: Analysis, file: Path) -> None:
    """Write the report."""
    write_atomically(file, report.render(report.contents(analysis)))


def _store_analysis(analysis: Analysis, parts: FinishedParts) -> None:
    """Store the data of the report; of the table, only the columns that are drawn."""
    features, pairs = analysis.features, analysis.pairs
    swaps = [(column, *stand_in) for column, others in analysis.stand_ins.items() for stand_in in others]
    drawn = [feature.column for feature in features[: report.DRAWN]]
    drawn_pairs = [(pair.first_column, pair.second_column) for pair in report.pairs_to_draw(analysis)]
    columns = np.unique([*drawn, *chain(*drawn_pairs)])
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
    if (stability := analysis.stability) is not None:
        bound = np.nan if stability.expected_false is None else stability.expected_false
        arrays["stability"] = [stability.n_halves, stability.threshold, bound]
    parts.save("report", arrays)


def _store_outcome(y: Array) -> dict[str, Array]:
    """Return the target as plain arrays: for survival the times, and the events separately."""
    return {"y": y["time"], "event": y["event"]} if is_structured(y) else {"y": y}


def _restore_outcome(arrays: Mapping[str, Array], kind: str) -> Array:
    """Return the target of `_store_outcome`; raise ValueError if it is not of the kind that is stored with it."""
    if ("event" in arrays) != (kind == SURVIVAL.name) or (kind == SURVIVAL.name and arrays["y"].dtype.kind != "f"):
        raise ValueError("the target is not of its kind")
    if kind != SURVIVAL.name:
        return arrays["y"]
    y = survival_array(arrays["event"], arrays["y"])
    check_outcome(y)
    SURVIVAL.check(y)
    return y


def load_analysis(out: Path) -> Analysis:
    """Read an analysis from a folder of `randsel select`; columns that no figure shows were not stored and are zero."""
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
        raise ValueError("features are not in an order, or the kind of the target is not known")
    # column-major, so that only the filled columns take memory
    X = np.zeros((len(arrays["y"]), len(names)), order="F")
    X[:, arrays["columns"]] = arrays["values"]
    fields = {column.field: arrays["scores"][:, k].tolist() for k, column in enumerate(SCORE_COLUMNS)}
    # a missing name is stored as an empty string
    fields["partner"] = [partner or None for partner in arrays["partners"].tolist()]
    fields["step"], fields["selected"] = arrays["steps"].tolist(), arrays["selected"].tolist()
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
        accuracy = Accuracy(KINDS[kind].score_name, *scores, arrays.get("high_risk"))
    if "stability" in arrays:
        n_halves, threshold, bound = arrays["stability"].tolist()
        frequencies = np.zeros(len(names))
        frequencies[arrays["order"]] = fields["stability"]
        stability = Stability(int(n_halves), threshold, None if np.isnan(bound) else bound, frequencies)
    return Analysis(
        table=Table(X, _restore_outcome(arrays, kind), names),
        path=path,
        kind=kind,
        features=list_features(names, arrays["order"].tolist(), fields),
        pairs=pairs,
        stand_ins=stand_ins,
        accuracy=accuracy,
        stability=stability,
        rule=_restore_rule(arrays),
        nothing_stands_out=bool(arrays["nothing_stands_out"]),
        warnings=tuple(arrays["warnings"].tolist()),
        settings=settings,
        notes=tuple(arrays["notes"].tolist()),
    )


def _restore_rule(arrays: Mapping[str, Array]) -> Rule:
    name, (top, fdr) = str(arrays["rule"]), arrays["rule_limits"].tolist()
    if name not in RULES or np.isinf([top, fdr]).any() or (name in ("tests", "fdr") and np.isnan(fdr)):
        raise ValueError("the rule of selection is not known")
    limits = None if np.isnan(top) else int(top), None if np.isnan(fdr) else fdr
    return Rule(name, *limits, tuple(arrays["always_kept"].tolist()))


def format_ranking(analysis: Analysis, n_rows: int) -> str:
    """Write the first features as a table of aligned columns, a star for those selected, and what q means."""
    columns = (SELECTED, RANK, NAME, *VALUE_COLUMNS)
    rows = [["" if column is SELECTED else column.title for column in columns]]
    rows += [[column.to_terminal(feature) for column in columns] for feature in analysis.features[:n_rows]]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    justify = [str.ljust if column.type in (bool, str) else str.rjust for column in columns]
    lines = ("  ".join(f(cell, w) for f, cell, w in zip(justify, row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join([*lines, "", MEANING_OF_Q])
