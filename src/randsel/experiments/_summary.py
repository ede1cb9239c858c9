"""Tables of a comparison: scores, how often each feature was selected, and times."""

from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from randsel._utils.files import write_atomically
from randsel._utils.text import DASH, as_csv, as_markdown
from randsel.experiments._run import Outcome
from randsel.experiments._specification import Spec, plan

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


class _Group(NamedTuple):
    """Cells of one method on one data set, the results of the finished ones, and the first columns of a table row."""

    entry: dict[str, Any]
    method: dict[str, Any]
    label: dict[str, str]
    keys: list[str]
    results: list[dict[str, Any]]


def _groups(spec: Spec, outcome: Outcome) -> Iterator[_Group]:
    for entry, method in product(spec.data, spec.methods):
        label = {"data": entry["name"], "method": method.get("label", method["name"])}
        keys = [cell.key for cell in outcome.cells if (cell.data, cell.method) == (entry["name"], method["name"])]
        yield _Group(entry, method, label, keys, [outcome.results[key] for key in keys if key in outcome.results])


def format_spread(values: list[float], digits: int = 1) -> str:
    """Return mean ± standard deviation."""
    return f"{np.mean(values):.{digits}f} ± {np.std(values):.{digits}f}"


def summarise(spec: Spec, outcome: Outcome) -> list[dict[str, str]]:
    """Return one row per data set and method: mean ± standard deviation over the cells, and how many failed."""
    rows = []
    for group in _groups(spec, outcome):
        row = dict(group.label)
        for column, (title, factor, digits) in COLUMNS.items():
            values = [factor * result[column] for result in group.results if column in result]
            row[title] = format_spread(values, digits) if values else DASH
        n_failed = len(group.keys) - len(group.results)
        row["cells"] = f"{len(group.results)}" + (f" ({n_failed} failed)" if n_failed else "")
        row["reduced"] = plan(spec, group.entry, group.method).reduced or DASH
        if spec.paper:
            row["paper"] = spec.paper.get(group.entry["name"], {}).get(group.method["name"], DASH)
        rows.append(row)
    empty = {title for title in rows[0] if all(row[title] == DASH for row in rows)}
    return [{title: value for title, value in row.items() if title not in empty} for row in rows]


def features_selected(spec: Spec, outcome: Outcome) -> list[dict[str, str]]:
    """Return how often each method selected each feature, over the cells."""
    rows = []
    for group in _groups(spec, outcome):
        counts = Counter(feature for result in group.results for feature in result["features"])
        for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            rows.append({**group.label, "feature": name, "selected": f"{count} of {len(group.results)}"})
    return rows


def seconds_per_selection(spec: Spec, outcome: Outcome) -> list[dict[str, str]]:
    """Return the mean time of one selection per data set and method."""
    rows = []
    for group in _groups(spec, outcome):
        known = [outcome.seconds[key] for key in group.keys if key in outcome.seconds and key in outcome.results]
        rows.append({**group.label, "seconds": f"{np.mean(known):.3f}" if known else DASH})
    return rows


def curves(spec: Spec, outcome: Outcome) -> list[dict[str, Any]]:
    """Return the validation score at every number of features per data set and method, over the cells."""
    rows = []
    for group in _groups(spec, outcome):
        if group.results:
            sizes = sorted(map(int, group.results[0]["curve"]))
            values = np.array([[result["curve"][str(size)] for size in sizes] for result in group.results])
            measures = {"r2": "R²", "concordance": "concordance index"}
            measure = next((name for score, name in measures.items() if score in group.results[0]), "accuracy")
            mean, spread = values.mean(axis=0), values.std(axis=0)
            rows.append({**group.label, "measure": measure, "sizes": sizes, "mean": mean, "spread": spread})
    return rows


def write_tables(spec: Spec, outcome: Outcome, out: Path, heading: str) -> str:
    """Write `table.md`, `table.csv` and `features.csv`, which contain no times, and `times.csv`; return the text."""
    rows = summarise(spec, outcome)
    lines = [f"# {spec.name}", "", heading, "", as_markdown(rows)]
    lines += ["", *(f"- {entry['name']}: {entry['note']}" for entry in spec.data if "note" in entry)]
    lines += [f"- {note}" for note in outcome.notes]
    for cell in outcome.cells:
        if cell.key in outcome.errors:
            place = f"{cell.data}, {cell.method}, reshuffle {cell.reshuffle}, fold {cell.fold}"
            lines.append(f"- failed: {place}: {outcome.errors[cell.key]}")
    text = "\n".join(lines).rstrip() + "\n"
    write_atomically(out / "table.md", text)
    write_atomically(out / "table.csv", as_csv(rows))
    write_atomically(out / "features.csv", as_csv(features_selected(spec, outcome)))
    write_atomically(out / "times.csv", as_csv(seconds_per_selection(spec, outcome)))
    return text
