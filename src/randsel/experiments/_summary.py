"""Tables of a comparison: ranking of methods, scores, how often each feature was selected, and times."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from randsel._utils.files import write_atomically
from randsel._utils.text import DASH, as_csv, as_markdown, format_exact
from randsel.experiments._cells import RANKED_BY, Cell
from randsel.experiments._run import Outcome
from randsel.experiments._specification import Plan, Spec, plan

#: Entry of a result -> title of its column, factor, and digits after the point.
COLUMNS = {
    "accuracy": ("accuracy, %", 100.0, 1),
    "balanced_accuracy": ("balanced, %", 100.0, 1),
    "r2": ("R²", 1.0, 3),
    "concordance": ("concordance index", 1.0, 3),
    "n_features": ("features", 1.0, 1),
    "precision": ("precision, %", 100.0, 1),
    "recall": ("recall, %", 100.0, 1),
}

#: What the ranking does and does not say.
MEANING_OF_RANKING = (
    "Mean score over the cells, with a standard error that allows for the training samples that cells share. Methods "
    "that are behind the best one by less than two standard errors do not differ clearly on these data."
)


class _Group(NamedTuple):
    """Cells of one method on one data set, the finished ones with their results, and columns of a table row."""

    plan: Plan
    label: dict[str, str]  # the first columns
    paper: dict[str, str]  # the last column, if the specification has results of the paper
    cells: list[Cell]
    finished: list[tuple[Cell, dict[str, Any]]]

    @property
    def results(self) -> list[dict[str, Any]]:
        """Results of the finished cells."""
        return [result for _, result in self.finished]

    @property
    def n_failed(self) -> int:
        """Number of cells that are not finished."""
        return len(self.cells) - len(self.finished)

    @property
    def n_folds(self) -> int:
        """Number of outer folds."""
        return 1 + max((cell.fold for cell in self.cells), default=1)

    def values(self, score: str) -> list[float]:
        """Return a number of the results that have it."""
        return [result[score] for result in self.results if score in result]


def _groups(spec: Spec, outcome: Outcome) -> Iterator[_Group]:
    for entry, method in product(spec.data, spec.methods):
        data, name = entry["name"], method["name"]
        label = {"data": data, "method": method.get("label", name)}
        paper = {"paper": spec.paper.get(data, {}).get(name, DASH)} if spec.paper else {}
        cells = [cell for cell in outcome.cells if (cell.data, cell.method) == (data, name)]
        finished = [(cell, outcome.results[cell.key]) for cell in cells if cell.key in outcome.results]
        yield _Group(plan(spec, entry, method), label, paper, cells, finished)


def _ranking_score(group: _Group) -> str:
    """Return the score of a group with results that ranks methods."""
    return next((name for name in RANKED_BY if name in group.results[0]), "accuracy")


def standard_error(values: Sequence[float], n_folds: int) -> float:
    """Return the standard error of the mean over the cells of a repeated cross-validation; NaN for a single cell.

    Cells share most of their training samples. The correction of Nadeau and Bengio (2003) adds the ratio of test to
    training samples, 1 / (folds - 1), to 1 / cells.
    """
    if len(values) < 2:
        return float("nan")
    return float(np.std(values, ddof=1) * np.sqrt(1.0 / len(values) + 1.0 / (n_folds - 1)))


def rank_methods(spec: Spec, outcome: Outcome) -> list[dict[str, Any]]:
    """Return the methods of every data set, best mean score first, with how far they are behind the best one.

    The difference is taken cell by cell: both methods have the same samples to train and to test.
    """
    rows = []
    for _, same_data in groupby(_groups(spec, outcome), key=lambda group: group.label["data"]):
        groups = [group for group in same_data if group.finished]
        score = _ranking_score(groups[0]) if groups else ""
        scores = [
            (group.label, {(cell.reshuffle, cell.fold): result[score] for cell, result in group.finished})
            for group in groups
        ]
        scores.sort(key=lambda entry: -float(np.mean(list(entry[1].values()))))
        n_folds = 1 + max((fold for _, cells in scores for _, fold in cells), default=1)
        for rank, (label, cells) in enumerate(scores, start=1):
            best = scores[0][1]
            behind = [best[split] - cells[split] for split in cells if split in best]
            values = list(cells.values())
            rows.append(
                {**label, "rank": rank, "measure": RANKED_BY.get(score, score), "mean": float(np.mean(values))}
                | {"standard_error": standard_error(values, n_folds)}
                | {"behind_best": float(np.mean(behind)) if behind else float("nan")}
                | {"behind_best_standard_error": standard_error(behind, n_folds) if rank > 1 else float("nan")}
                | {"cells": len(cells)}
            )
    return rows


def _format_ranking(rows: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Return the ranking as formatted text: mean ± standard error, and the difference from the best method."""

    def show(value: float, error: float) -> str:
        return DASH if np.isnan(value) else f"{value:.3f}" + ("" if np.isnan(error) else f" ± {error:.3f}")

    formatted = []
    for row in rows:
        label = {name: str(row[name]) for name in ("data", "rank", "method", "measure")}
        behind = show(row["behind_best"], row["behind_best_standard_error"]) if row["rank"] > 1 else DASH
        means = {"mean ± se": show(row["mean"], row["standard_error"]), "behind the best ± se": behind}
        formatted.append(label | means)
    return formatted


def scores_in_numbers(spec: Spec, outcome: Outcome) -> list[dict[str, str]]:
    """Return one row per data set and method with means and standard errors as numbers, for a CSV file."""
    rows = []
    for group in _groups(spec, outcome):
        row = dict(group.label)
        for column in COLUMNS:
            values = group.values(column)
            row[f"{column}_mean"] = format_exact(float(np.mean(values))) if values else ""
            row[f"{column}_standard_error"] = format_exact(standard_error(values, group.n_folds))
        row |= {"cells": str(len(group.finished)), "failed": str(group.n_failed)}
        rows.append({**row, "reduced": group.plan.reduced, **group.paper})
    return _drop_empty(rows, "")


def _drop_empty(rows: list[dict[str, str]], empty_value: str) -> list[dict[str, str]]:
    """Return rows without the columns that are empty in all of them."""
    empty = {title for title in rows[0] if all(row[title] == empty_value for row in rows)}
    return [{title: value for title, value in row.items() if title not in empty} for row in rows]


def format_spread(values: list[float], digits: int = 1) -> str:
    """Return mean ± standard deviation."""
    return f"{np.mean(values):.{digits}f} ± {np.std(values):.{digits}f}"


def summarise(spec: Spec, outcome: Outcome) -> list[dict[str, str]]:
    """Return one row per data set and method: mean ± standard deviation over the cells, and how many failed."""
    rows = []
    for group in _groups(spec, outcome):
        row = dict(group.label)
        for column, (title, factor, digits) in COLUMNS.items():
            values = [factor * value for value in group.values(column)]
            row[title] = format_spread(values, digits) if values else DASH
        row["cells"] = f"{len(group.finished)}" + (f" ({group.n_failed} failed)" if group.n_failed else "")
        rows.append({**row, "reduced": group.plan.reduced or DASH, **group.paper})
    return _drop_empty(rows, DASH)


def describe_protocol(spec: Spec, outcome: Outcome) -> str:
    """Return a sentence on the folds and repeats that were run, which may be fewer than specified."""
    repeats = sorted({group.plan.reshuffles for group in _groups(spec, outcome) if group.cells})
    low, high = (repeats[0], repeats[-1]) if repeats else (0, 0)
    times = {(1, 1): "once"}.get((low, high), f"{low} times" if low == high else f"{low} to {high} times")
    text = f"Nested {spec.folds}-fold cross-validation, {times}; mean ± sd over the cells."
    if any("r2" in result for result in outcome.results.values()):
        text += " R² is that of the test samples of a cell."
    return text


def features_selected(spec: Spec, outcome: Outcome) -> list[dict[str, str]]:
    """Return how often each method selected each feature, over the cells."""
    rows = []
    for group in _groups(spec, outcome):
        counts = Counter(feature for result in group.results for feature in result["features"])
        for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            rows.append({**group.label, "feature": name, "selected": str(count), "cells": str(len(group.finished))})
    return rows


def seconds_per_selection(spec: Spec, outcome: Outcome) -> list[dict[str, str]]:
    """Return the mean time of one selection per data set and method."""
    rows = []
    for group in _groups(spec, outcome):
        known = [outcome.seconds[cell.key] for cell, _ in group.finished if cell.key in outcome.seconds]
        rows.append({**group.label, "seconds": f"{np.mean(known):.3f}" if known else ""})
    return rows


def curves(spec: Spec, outcome: Outcome) -> list[dict[str, Any]]:
    """Return the validation score that ranks, at every number of features per data set and method, over the cells."""
    rows = []
    for group in _groups(spec, outcome):
        if group.finished:
            sizes, score = sorted(map(int, group.results[0]["curve"])), _ranking_score(group)
            values = np.array([[result["curve"][str(size)] for size in sizes] for result in group.results])
            errors = [standard_error(column, group.n_folds) for column in values.T]
            scores = {"mean": values.mean(axis=0), "standard_error": np.nan_to_num(errors)}
            rows.append({**group.label, "measure": RANKED_BY.get(score, score), "sizes": sizes, **scores})
    return rows


def write_tables(spec: Spec, outcome: Outcome, out: Path) -> str:
    """Write `table.md`, `table.csv`, `ranking.csv`, `features.csv` (no times in them), `times.csv`; return the text."""
    ranking = rank_methods(spec, outcome)
    lines = [f"# {spec.name}", "", describe_protocol(spec, outcome), "", as_markdown(summarise(spec, outcome))]
    if ranking:
        lines += ["", "## Ranking", "", MEANING_OF_RANKING, "", as_markdown(_format_ranking(ranking))]
    lines += ["", *(f"- {entry['name']}: {entry['note']}" for entry in spec.data if "note" in entry)]
    lines += [f"- {note}" for note in outcome.notes]
    for cell in outcome.cells:
        if cell.key in outcome.errors:
            place = f"{cell.data}, {cell.method}, reshuffle {cell.reshuffle}, fold {cell.fold}"
            lines.append(f"- failed: {place}: {outcome.errors[cell.key]}")
    text = "\n".join(lines).rstrip() + "\n"
    write_atomically(out / "table.md", text)
    write_atomically(out / "table.csv", as_csv(scores_in_numbers(spec, outcome)))
    as_text = [{k: format_exact(v) if isinstance(v, float) else str(v) for k, v in row.items()} for row in ranking]
    write_atomically(out / "ranking.csv", as_csv(as_text))
    write_atomically(out / "features.csv", as_csv(features_selected(spec, outcome)))
    write_atomically(out / "times.csv", as_csv(seconds_per_selection(spec, outcome)))
    return text
