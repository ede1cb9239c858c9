"""Writes the files of a results folder, and formats verdict and ranking for the terminal."""

import io
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from randsel._utils.files import (
    FinishedParts,
    write_atomically,
    write_figure,
)
from randsel._utils.text import as_csv, format_exact, join_names, make_visible, optional
from randsel.analysis import (
    MISSING,
    NAME,
    RANK,
    SELECTED,
    Analysis,
    PanelSizes,
    Settings,
)
from randsel.report import _html as report
from randsel.report._figures import FIGURES
from randsel.report._sentences import MEANING_OF_Q, describe_details, describe_effect, verdict
from randsel.report._storage import store_analysis
from randsel.tables import Table

#: Entries of run.json that must be equal for a run to reuse the finished steps of an earlier one.
MUST_AGREE = ("version", "data_hash", "parameters")
PRINTED_ROWS = 20  # default number of rows of the ranking to print
MOST_CENTRES = 10  # maximum number of classes whose means or medians are columns of the ranking
TEXT_TITLES = ("feature", "partner", "stand_ins")  # columns of names, which may look like numbers


def describe_run(
    file: Path,
    table: Table,
    reading: Mapping[str, Any],
    settings: Settings,
    out: Path,
    outputs: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return what is needed to repeat a run: version, command, seed, hash of the data, parameters.

    `outputs` are options that say which files to write; they are part of the command, but do not identify a run.
    """
    options = {name: value for name, value in reading.items() if value not in (None, (), False)}
    options = json.loads(json.dumps(options, default=str))  # tuples become lists, paths text
    # the limit on the size of the file does not change the table, and so does not identify a run
    parameters = {name: value for name, value in options.items() if name != "max_bytes"}
    chosen = {name: value for name, value in asdict(settings).items() if value not in (None, ()) and name != "seed"}
    parameters |= json.loads(json.dumps(chosen))
    return {
        "version": version("randsel"),
        "command": _write_command(file, {**options, **(outputs or {})}, settings, out),
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
    defaults: dict[str, Any] = {"orientation": "auto", "missing": "neutral", "max_bytes": "4GB", "duplicates": "error"}
    defaults |= {"figures": ("png",), "xlsx": False}
    defaults |= asdict(Settings())
    for name, value in {**options, **asdict(settings)}.items():
        if value != defaults.get(name) and value is not None:
            option = f"--{name.replace('_', '-')}"
            listed = isinstance(value, list | tuple)
            words += [option] if value is True else [option, join_names(value) if listed else str(value)]
    return shlex.join([*words, "--out", str(out)])


def write_results(
    analysis: Analysis,
    out: Path,
    parts: FinishedParts,
    figures: Sequence[str] = ("png",),
    xlsx: bool = False,
) -> list[str]:
    """Write all files of docs/reference/outputs.md, and store the data of the report.

    `figures` are the formats of the pictures of `FIGURES`; with `xlsx`, the ranking is also written as a workbook.
    Return messages about files that could not be written because an optional package is missing.
    """
    ranking = ranking_rows(analysis)
    write_atomically(out / "ranking.csv", as_csv(ranking))
    pairs = [
        {"feature": pair.first, "partner": pair.second}
        | {name: format_exact(getattr(pair, name)) for name in ("statistic", "p", "corrected_p")}
        for pair in analysis.pairs
    ]
    write_atomically(out / "pairs.csv", as_csv(pairs) or "feature,partner,statistic,p,corrected_p\n")
    # line breaks within a name would split it
    selected = [make_visible(feature.name) for feature in analysis.features if feature.selected]
    write_atomically(out / "selected.txt", "".join(f"{name}\n" for name in selected))
    write_atomically(out / "summary.txt", format_summary(analysis))
    if analysis.panel_sizes is not None:
        write_atomically(out / "panel-size.csv", as_csv(panel_size_rows(analysis.panel_sizes)))
    store_analysis(analysis, parts)
    writers: dict[str, Callable[[Path], None]] = {"report.html": partial(write_report, analysis)}
    for name, draw in FIGURES.items():
        for suffix in figures:
            writers[f"{name}.{suffix}"] = partial(_write_figure, analysis, draw)
    if xlsx:
        writers["ranking.xlsx"] = partial(write_workbook, ranking)
    missing = []
    for name, write_file in writers.items():
        try:
            write_file(out / name)
        except ImportError as error:
            missing.append(f"No {name}: {error}")
    return missing


def ranking_rows(analysis: Analysis) -> list[dict[str, str]]:
    """Return the rows of `ranking.csv`: title -> text of every feature."""
    effects, columns = analysis.effects, [NAME, RANK, SELECTED, *analysis.columns]
    columns += [MISSING] if any(feature.missing for feature in analysis.features) else []
    centres = [f"{effects.centre}_{label}" for label in effects.classes[:MOST_CENTRES]]
    return [
        {column.title: column.to_csv(feature) for column in columns}
        | {title: format_exact(effects.centres[feature.column, k]) for k, title in enumerate(centres)}
        | {"stand_ins": analysis.describe_stand_ins(feature.column)}
        for feature in analysis.features
    ]


def panel_size_rows(curve: PanelSizes) -> list[dict[str, str]]:
    """Return the rows of `panel-size.csv`: score and standard error of every size, and which sizes are marked."""
    marks = {"selected": curve.selected, "best": curve.best, "one_standard_error": curve.one_se}
    return [
        {
            "features": str(size),
            "mean": format_exact(mean),
            "standard_error": format_exact(error),
            **{name: "yes" if size == marked else "no" for name, marked in marks.items()},
            **{f"fold_{k + 1}": format_exact(score) for k, score in enumerate(scores)},
        }
        for size, mean, error, scores in zip(
            curve.sizes.tolist(), curve.means, curve.standard_errors, curve.scores.T, strict=True
        )
    ]


def write_workbook(rows: Sequence[Mapping[str, str]], file: Path) -> None:
    """Write a table as an Excel workbook; names are text cells, so that no gene becomes a date."""
    xlsxwriter = optional("xlsxwriter", extra="xlsx", purpose="Writing a workbook")
    content = io.BytesIO()
    workbook = xlsxwriter.Workbook(content, {"in_memory": True})
    workbook.set_properties({"created": datetime(2000, 1, 1)})
    sheet, bold = workbook.add_worksheet("ranking"), workbook.add_format({"bold": True})
    text = workbook.add_format({"num_format": "@"})
    numeric = {title for title in rows[0] if title not in TEXT_TITLES and _holds_numbers(rows, title)}
    for k, title in enumerate(rows[0]):
        sheet.write_string(0, k, title, bold)
        for number, row in enumerate(rows, start=1):
            if title not in numeric:
                sheet.write_string(number, k, row[title], text)
            elif row[title]:
                sheet.write_number(number, k, float(row[title]))
    sheet.freeze_panes(1, 1)
    sheet.autofilter(0, 0, len(rows), len(rows[0]) - 1)
    workbook.close()
    write_atomically(file, content.getvalue())


def _holds_numbers(rows: Sequence[Mapping[str, str]], title: str) -> bool:
    """Return whether all cells of a column are finite numbers or empty, as a workbook has neither infinity nor NaN."""
    try:
        return all(np.isfinite(float(row[title])) for row in rows if row[title])
    except ValueError:
        return False


def _write_figure(analysis: Analysis, draw: Callable[[Analysis], Any], file: Path) -> None:
    figure = draw(analysis)
    if figure is not None:
        write_figure(file, figure, 150)


def write_report(analysis: Analysis, file: Path) -> None:
    """Write the report."""
    write_atomically(file, report.render(report.contents(analysis)))


def format_verdict(analysis: Analysis) -> str:
    """Write the verdict: a line per question, with its answer."""
    return "\n".join(f"{line.question} {line.text}" for line in verdict(analysis))


def format_summary(analysis: Analysis) -> str:
    """Write verdict, details, warnings and notes as plain text."""
    sections = {
        "Details": describe_details(analysis),
        "Warnings": [make_visible(sentence) for sentence in analysis.warnings],
        "Notes": [make_visible(sentence) for sentence in analysis.notes],
        "Command": [make_visible(str(analysis.settings.get("command", "")))],
    }
    blocks = [format_verdict(analysis)]
    blocks += ["\n".join([f"{title}:", *lines]) for title, lines in sections.items() if any(lines)]
    return "\n\n".join(blocks) + "\n"


def format_ranking(analysis: Analysis, n_rows: int) -> str:
    """Write the first features as a table of aligned columns, a star for those selected; then what columns mean."""
    columns = [column for column in (SELECTED, RANK, NAME, *analysis.columns) if column.in_table and column.on_terminal]
    rows = [["" if column is SELECTED else column.title.replace("_", " ") for column in columns]]
    rows += [[column.to_terminal(feature) for column in columns] for feature in analysis.features[:n_rows]]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    justify = [str.ljust if column.type in (bool, str) else str.rjust for column in columns]
    lines = ("  ".join(f(cell, w) for f, cell, w in zip(justify, row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join([*lines, "", describe_effect(analysis.effects), MEANING_OF_Q])
