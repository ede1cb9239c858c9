"""Results of an experiment to tables: accuracies, what was selected how often, times."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from randsel._utils.files import write_atomically
from randsel._utils.text import as_csv, as_markdown
from randsel.experiments._run import Outcome
from randsel.experiments._specification import Spec, plan

COLUMNS = {
    "accuracy": ("accuracy, %", 100.0),
    "balanced_accuracy": ("balanced, %", 100.0),
    "n_features": ("features", 1.0),
    "precision": ("precision, %", 100.0),
    "recall": ("recall, %", 100.0),
}


def summarise(spec: Spec, outcome: Outcome) -> list[dict[str, str]]:
    """One row per data set and method: mean ± standard deviation over the cells, and how many failed."""
    rows = []
    for entry, method, found in _groups(spec, outcome):
        row = {"data": entry["name"], "method": method.get("label", method["name"])}
        for column, (title, factor) in COLUMNS.items():
            values = [factor * r[column] for r in found if column in r]
            row[title] = f"{np.mean(values):.1f} ± {np.std(values):.1f}" if values else "–"
        expected = sum((c.data, c.method) == (entry["name"], method["name"]) for c in outcome.cells)
        row["cells"] = f"{len(found)}" + (f" ({expected - len(found)} failed)" if len(found) < expected else "")
        row["reduced"] = plan(spec, entry, method).reduced or "–"
        if spec.paper:
            row["paper"] = spec.paper.get(entry["name"], {}).get(method["name"], "–")
        rows.append(row)
    empty = {title for title in rows[0] if all(row[title] == "–" for row in rows)}
    return [{title: value for title, value in row.items() if title not in empty} for row in rows]


def features_selected(spec: Spec, outcome: Outcome) -> list[dict[str, str]]:
    """How often each method selected each feature, over the cells."""
    rows = []
    for entry, method, found in _groups(spec, outcome):
        counts = Counter(feature for result in found for feature in result["features"])
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        label = {"data": entry["name"], "method": method.get("label", method["name"])}
        rows += [{**label, "feature": name, "selected": f"{count} of {len(found)}"} for name, count in ranked]
    return rows


def seconds_per_selection(spec: Spec, outcome: Outcome) -> list[dict[str, str]]:
    """One row per data set and method: mean time of one selection, which no table of results may depend on."""
    return [
        {
            "data": entry["name"],
            "method": method.get("label", method["name"]),
            "seconds": f"{np.mean(known):.3f}" if (known := _times(entry, method, outcome)) else "–",
        }
        for entry, method, _ in _groups(spec, outcome)
    ]


def _times(entry: dict[str, Any], method: dict[str, Any], outcome: Outcome) -> list[float]:
    here = [c.key for c in outcome.cells if (c.data, c.method) == (entry["name"], method["name"])]
    return [outcome.seconds[key] for key in here if key in outcome.seconds and key in outcome.results]


def curves(spec: Spec, outcome: Outcome) -> list[dict[str, Any]]:
    """Per data set and method: validation accuracy at every number of features over the cells."""
    rows = []
    for entry, method, found in _groups(spec, outcome):
        if found:
            sizes = sorted(map(int, found[0]["curve"]))
            values = np.array([[r["curve"][str(size)] for size in sizes] for r in found])
            row = {"data": entry["name"], "method": method.get("label", method["name"]), "sizes": sizes}
            rows.append({**row, "mean": values.mean(axis=0), "spread": values.std(axis=0)})
    return rows


def _groups(spec: Spec, outcome: Outcome) -> Iterator[tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]]:
    """Results of the finished cells of every data set and method."""
    for entry in spec.data:
        for method in spec.methods:
            cells = [c for c in outcome.cells if (c.data, c.method) == (entry["name"], method["name"])]
            yield entry, method, [outcome.results[c.key] for c in cells if c.key in outcome.results]


def write_tables(spec: Spec, outcome: Outcome, out: Path, heading: str) -> str:
    """Write `table.md`, `table.csv`, `features.csv`, which depend on the results alone, and `times.csv`."""
    rows = summarise(spec, outcome)
    lines = [f"# {spec.name}", "", heading, "", as_markdown(rows)]
    lines += ["", *(f"- {entry['name']}: {entry['note']}" for entry in spec.data if "note" in entry)]
    lines += [f"- {note}" for note in outcome.notes]
    lines += [
        f"- failed: {cell.data}, {cell.method}, reshuffle {cell.reshuffle}, fold {cell.fold}: "
        + outcome.errors[cell.key]
        for cell in outcome.cells
        if cell.key in outcome.errors
    ]
    text = "\n".join(lines).rstrip() + "\n"
    write_atomically(out / "table.md", text)
    write_atomically(out / "table.csv", as_csv(rows))
    write_atomically(out / "features.csv", as_csv(features_selected(spec, outcome)))
    write_atomically(out / "times.csv", as_csv(seconds_per_selection(spec, outcome)))
    return text
