"""An analysis to the files of a folder, and back; and to a table on a terminal."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from randsel import plots
from randsel._utils.result_folder import (
    Parts,
    check_arrays,
    check_places,
    read_identity,
    write_atomically,
    write_figure,
)
from randsel._utils.text import (
    as_csv,
    format_exact,
    format_fixed,
    format_number,
    format_p_value,
    format_percent,
    make_visible,
    shorten,
)
from randsel._utils.typing import Array
from randsel.analysis._decisions import Settings
from randsel.analysis._model import Accuracy, Analysis, Feature, Pair, Stability
from randsel.culling._path import CullingPath, restore_path
from randsel.interactions._forward_selection import LEVEL
from randsel.report import _html as report
from randsel.tables._read import Table
from randsel.targets._kinds import KINDS

#: Entries of run.json in which an earlier run must agree for its parts to be used again.
SAME = ("version", "data_hash", "parameters")
#: Characters of a name in the table of the terminal.
LONG_NAME = 28
#: Features printed if no number is asked for.
PRINTED = 20
#: Arrays that are kept for the report.
REPORT_SHAPES = {
    "names": ("U", "features"),
    "order": ("iu", "features"),
    "partners": ("U", "features"),
    "scores": ("f", "features", 6),
    "selected": ("b", "features"),
    "y": ("biufU", "samples"),
    "columns": ("iu", "drawn"),
    "values": ("biuf", "samples", "drawn"),
    "pair_columns": ("iu", "pairs", 2),
    "pair_scores": ("f", "pairs", 3),
    "nothing_stands_out": ("b",),
    "kind": ("U",),
    "warnings": ("U", "warnings"),
    "notes": ("U", "notes"),
    "folds?": ("f", 3, "folds"),
    "chance?": ("f",),
    "stability?": ("f", 3),
}
#: Parameters that change nothing about how a table is read unless they are given.
_ASIDE = ("max_bytes",)


# ---------------------------------------------------------------- what it takes to repeat it


def identity(file: Path, table: Table, reading: Mapping[str, Any], settings: Settings, out: Path) -> dict[str, Any]:
    """Return what it takes to repeat a run: version, parameters, seed, hash of the data, and the command."""
    given = {name: _plain(value) for name, value in reading.items() if value not in (None, (), False)}
    own = {name: value for name, value in asdict(settings).items() if value is not None and name != "seed"}
    return {
        "version": version("randsel"),
        "command": _command(file, given, settings, out),
        "seed": settings.seed,
        "data": file.name,
        "data_hash": table.fingerprint(),
        "samples": len(table.y),
        "features": len(table.names),
        "parameters": {**{k: v for k, v in given.items() if k not in _ASIDE}, **own, "seed": settings.seed},
        "packages": {name: version(name) for name in ("numpy", "scipy", "scikit-learn")},
    }


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Path) else value


def _command(file: Path, given: Mapping[str, Any], settings: Settings, out: Path) -> str:
    """Write the command with all that differs from its defaults."""
    words = ["randsel", "select", str(file)]
    defaults = {"orientation": "auto", "missing": "error", "max_bytes": "4GB", **asdict(Settings())}
    for name, value in {**given, **asdict(settings)}.items():
        if value != defaults.get(name) and value is not None:
            option = f"--{name.replace('_', '-')}"
            words += [option] if value is True else [option, ",".join(value) if isinstance(value, list) else str(value)]
    return shlex.join([*words, "--out", str(out)])


# ---------------------------------------------------------------- to files


def write(analysis: Analysis, out: Path, parts: Parts) -> list[str]:
    """Write `ranking.csv`, `pairs.csv`, `path.png` and `report.html`, and keep what the report is made of.

    Returns
    -------
    list of str
        Sentences on files that could not be written, for want of an optional package.
    """
    write_atomically(out / "ranking.csv", as_csv([_row(feature) for feature in analysis.features]))
    pairs = [
        {
            "feature": pair.first,
            "partner": pair.second,
            "statistic": format_exact(pair.statistic),
            "p": format_exact(pair.p),
            "corrected_p": format_exact(pair.corrected_p),
        }
        for pair in analysis.pairs
    ]
    write_atomically(out / "pairs.csv", as_csv(pairs) or "feature,partner,statistic,p,corrected_p\n")
    _keep(analysis, parts)
    said = []
    for draw, name in ((_draw_path, "path.png"), (write_report, "report.html")):
        try:
            draw(analysis, out / name)
        except ImportError as error:
            said.append(f"No {name}: {error}")
    return said


def _row(feature: Feature) -> dict[str, str]:
    return {
        "feature": feature.name,
        "rank": str(feature.rank),
        "selected": "yes" if feature.selected else "no",
        "contribution": format_exact(feature.contribution),
        "main": format_exact(feature.main),
        "interaction": format_exact(feature.interaction),
        "partner": feature.partner or "",
        "p": format_exact(feature.p),
        "q": format_exact(feature.q),
        "stability": format_exact(feature.stability),
    }


def _draw_path(analysis: Analysis, file: Path) -> None:
    names = [make_visible(name) for name in analysis.table.names]
    lived = set(analysis.path.rounds[0].features.tolist())
    first = [f.column for f in analysis.features if f.selected and f.column in lived][: report.NAMED]
    figure = plots.culling_path(
        analysis.path, highlight=np.array(first, dtype=int), names=names, label="the first selected"
    )
    write_figure(file, figure, 150)


def write_report(analysis: Analysis, file: Path) -> None:
    """Write the report."""
    html = report.render(report.contents(analysis))
    write_atomically(file, html)


# ---------------------------------------------------------------- kept for the report, and read again


def _keep(analysis: Analysis, parts: Parts) -> None:
    """Keep all that the report is made of: of the table, only the columns that are drawn."""
    drawn = {feature.column for feature in analysis.features[: report.DRAWN]}
    strong = [pair for pair in analysis.pairs if pair.corrected_p <= LEVEL] or analysis.pairs[:2]
    for pair in strong[: report.DRAWN_PAIRS]:
        drawn |= {pair.first_column, pair.second_column}
    columns = np.array(sorted(drawn))
    features, pairs = analysis.features, analysis.pairs
    arrays: dict[str, Any] = {
        "columns": columns,
        "values": analysis.table.X[:, columns],
        "y": analysis.table.y,
        "names": np.array(analysis.table.names, dtype=str),
        "order": [f.column for f in features],
        "scores": [[f.contribution, f.main, f.interaction, f.p, f.q, f.stability] for f in features],
        "partners": np.array([f.partner or "" for f in features], dtype=str),
        "selected": [f.selected for f in features],
        "pair_columns": np.array([[p.first_column, p.second_column] for p in pairs], dtype=int).reshape(-1, 2),
        "pair_scores": np.array([[p.statistic, p.p, p.corrected_p] for p in pairs]).reshape(-1, 3),
        "nothing_stands_out": analysis.nothing_stands_out,
        "kind": analysis.kind,
        "warnings": np.array(analysis.warnings, dtype=str),
        "notes": np.array(analysis.notes, dtype=str),
    }
    if (accuracy := analysis.accuracy) is not None:
        arrays |= {"folds": [accuracy.selected, accuracy.everything, accuracy.sizes], "chance": accuracy.chance}
    if (stability := analysis.stability) is not None:
        bound = np.nan if stability.expected_false is None else stability.expected_false
        arrays["stability"] = [stability.n_halves, stability.threshold, bound]
    parts.keep("report", arrays)


def load(out: Path) -> Analysis:
    """Read an analysis from its folder, without the columns of the table that no figure shows, which are zero.

    Parameters
    ----------
    out : Path
        Folder of `randsel select`.

    Returns
    -------
    Analysis
        What was written there.
    """
    settings = read_identity(out)
    parts = Parts(out / "parts") if (out / "parts").is_dir() else Parts()
    found, path = parts.kept("report"), parts.kept("path")
    if found is None or path is None:
        msg = f"{out} holds a run that is not finished, or whose parts are damaged; run it again: {_again(settings)}"
        raise ValueError(msg)
    try:
        check_arrays(found, REPORT_SHAPES)
        return _analysis(found, restore_path(path, len(found["names"])), settings)
    except (KeyError, IndexError, TypeError, ValueError, MemoryError) as error:
        msg = f"{out} holds parts that are damaged ({error}); remove the folder and run again: {_again(settings)}"
        raise ValueError(msg) from error


def _again(settings: Mapping[str, Any]) -> str:
    return make_visible(str(settings.get("command", "randsel select")))


def _analysis(found: Mapping[str, Array], path: CullingPath, settings: Mapping[str, Any]) -> Analysis:
    names = tuple(found["names"].tolist())
    for places in ("columns", "order", "pair_columns"):
        check_places(found[places], len(names))
    if len(np.unique(found["order"])) < len(names) or str(found["kind"]) not in KINDS:
        msg = "features are not in an order, or the kind of the target is not known"
        raise ValueError(msg)
    # one column after the other, so that memory is taken for those that are filled only
    X = np.zeros((len(found["y"]), len(names)), order="F")
    X[:, found["columns"]] = found["values"]
    features = tuple(
        Feature(names[j], j, rank, contribution, main, interaction, partner or None, p, q, stable, chosen)
        for rank, (j, (contribution, main, interaction, p, q, stable), partner, chosen) in enumerate(
            zip(*(found[name].tolist() for name in ("order", "scores", "partners", "selected")), strict=True), 1
        )
    )
    pairs = tuple(
        Pair(names[i], names[j], i, j, *scores)
        for (i, j), scores in zip(found["pair_columns"].tolist(), found["pair_scores"].tolist(), strict=True)
    )
    kind, accuracy, stability = str(found["kind"]), None, None
    if "folds" in found:
        measure = KINDS[kind].score_name
        selected, everything, sizes = found["folds"]
        accuracy = Accuracy(measure, selected, everything, float(found["chance"]), sizes.astype(int))
    if "stability" in found:
        halves, threshold, bound = found["stability"].tolist()
        frequencies = np.zeros(len(names))
        frequencies[found["order"]] = found["scores"][:, 5]
        stability = Stability(int(halves), threshold, None if np.isnan(bound) else bound, frequencies)
    return Analysis(
        table=Table(X, found["y"], names),
        path=path,
        kind=kind,
        features=features,
        pairs=pairs,
        accuracy=accuracy,
        stability=stability,
        nothing_stands_out=bool(found["nothing_stands_out"]),
        warnings=tuple(found["warnings"].tolist()),
        settings=settings,
        notes=tuple(found["notes"].tolist()),
    )


# ---------------------------------------------------------------- on a terminal


def found_something(analysis: Analysis, fdr: float | None) -> bool:
    """Whether culling stands out from noise, or a test does; with `fdr`, whether a q-value is that low."""
    low = any(feature.q <= (LEVEL if fdr is None else fdr) for feature in analysis.features)
    return low or (fdr is None and not analysis.nothing_stands_out)


def as_text(analysis: Analysis, count: int) -> str:
    """Write the first features as a table in which nothing is hidden and nothing acts on the terminal."""
    columns: dict[str, Callable[[Feature], str]] = {
        "": lambda f: "*" if f.selected else "",
        "rank": lambda f: str(f.rank),
        "feature": lambda f: shorten(make_visible(f.name), LONG_NAME),
        "contribution": lambda f: format_number(f.contribution, 2),
        "main": lambda f: format_fixed(f.main),
        "interaction": lambda f: format_fixed(f.interaction),
        "partner": lambda f: shorten(make_visible(f.partner or "–"), LONG_NAME),
        "p": lambda f: format_p_value(f.p),
        "q": lambda f: format_p_value(f.q),
        "stability": lambda f: format_percent(f.stability),
    }
    rows = [list(columns), *([write(f) for write in columns.values()] for f in analysis.features[:count])]
    return "\n".join(_aligned(rows, left=(0, 2, 6)))


def _aligned(rows: Sequence[Sequence[str]], left: tuple[int, ...]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if at in left else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
