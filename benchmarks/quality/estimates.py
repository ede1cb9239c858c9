"""Estimates from the tallies of blocks, and their tables, for the pages of errors.py and outcomes.py."""

from collections import defaultdict
from typing import NamedTuple

import numpy as np
from cells import OURS

#: Marks of a goal that is missed by more than two standard errors, and by less.
MISSED, UNCERTAIN, DASH = "✗", "?", "–"


class Estimate(NamedTuple):
    """A ratio of sums over data sets, with its standard error over data sets."""

    value: float
    error: float
    n_sets: int


def estimate(weights, totals):
    """Return `Σ total / Σ weight` and its standard error over data sets, to first order."""
    weights, totals = np.asarray(weights, dtype=float), np.asarray(totals, dtype=float)
    n, value = len(weights), totals.sum() / weights.sum()
    deviations = (totals - value * weights) / weights.mean()
    return Estimate(float(value), float(deviations.std(ddof=1) / np.sqrt(n)) if n > 1 else np.nan, n)


class Results:
    """Estimates by cell, measure and test."""

    def __init__(self, blocks):
        sums = defaultdict(lambda: ([], []))
        self.errors = {}
        for block in blocks:
            if "error" in block:
                self.errors[block["cell"]] = block["error"]
            for measure, test, weights, totals in block.get("tallies", ()):
                collected = sums[block["cell"], measure, test]
                collected[0].extend(weights)
                collected[1].extend(totals)
        self.totals = {key: totals for key, (_, totals) in sums.items()}
        self.by_key = {key: estimate(*values) for key, values in sums.items()}

    def get(self, cell, measure, test=OURS):
        """Return an estimate; None if it is missing."""
        return self.by_key.get((cell, measure, test))

    def tests(self, cells, measures):
        """Return the tests that any of the cells has, in order."""
        names = {cell.name for cell in cells}
        return list(dict.fromkeys(t for cell, m, t in self.by_key if cell in names and m in measures))


# ---------------------------------------------------------------- text


def number(value, digits=3):
    """Return a number without the zero before its point."""
    text = f"{value:.{digits}f}"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def with_error(value, digits=3):
    if value is None:
        return DASH
    error = "" if np.isnan(value.error) else f" ± {number(value.error, digits)}"
    return number(value.value, digits) + error


def as_markdown(rows):
    """Return a table with the columns of all rows, in the order of their first appearance."""
    titles = list(dict.fromkeys(title for row in rows for title in row))
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    lines += ["| " + " | ".join(row.get(title, DASH) for title in titles) + " |" for row in rows]
    return "\n".join(lines)


def short_name(cell):
    """Return the parts of the name after the section."""
    return ", ".join(cell.name.split("/")[2:])


def n_sets(results, cell):
    return str(max((e.n_sets for key, e in results.by_key.items() if key[0] == cell.name), default=0))


# ---------------------------------------------------------------- rows and sections


def goal_mark(value, goal, *, at_least=False):
    """Return a mark if the goal, a largest or smallest value, is missed: uncertain within two standard errors."""
    excess = goal - value.value if at_least else value.value - goal
    if excess <= 0.0:
        return ""
    return f" {MISSED}" if not excess <= 2.0 * value.error else f" {UNCERTAIN}"


def measure_rows(cells, results, mark=lambda measure, test, value: ""):  # noqa: ARG005
    """Return a row per cell and test with one column per measure; `mark` returns the mark of a value."""
    rows = []
    for cell in cells:
        measures = list(dict.fromkeys(m for c, m, _ in results.by_key if c == cell.name))
        for test in results.tests([cell], set(measures)):
            row = {"situation": short_name(cell), "test": test, "data sets": n_sets(results, cell)}
            for measure in measures:
                value = results.get(cell.name, measure, test)
                row[measure] = with_error(value, 2) + (mark(measure, test, value) if value else "")
            rows.append(row)
    return rows


def summary_rows(tables):
    """Return a row per section: the numbers of rows and of goals missed."""
    rows = []
    for title, table in tables.items():
        texts = [text for row in table for text in row.values()]
        marks = {mark: sum(text.endswith(f" {mark}") for text in texts) for mark in (MISSED, UNCERTAIN)}
        rows.append({"table": title, "rows": str(len(table)), **{m: str(count) for m, count in marks.items()}})
    return rows


def sections_of(cells, results):
    """Return the cells that have results, by the first two parts of their names."""
    sections = defaultdict(list)
    for cell in cells:
        if n_sets(results, cell) != "0":
            sections["/".join(cell.name.split("/")[:2])].append(cell)
    return sections


def left_out(cells, results):
    """Return the table of cells that failed or are missing, with its title; nothing if there are none."""
    absent = {cell.name: cell.missing for cell in cells if cell.missing} | results.errors
    rows = [{"cell": name, "reason": reason} for name, reason in absent.items()]
    return ["## Left out", as_markdown(rows)] if rows else []


def provenance(blocks, runs):
    """Return what a page says about its runs: commits, dates, machines, versions, seconds."""
    dates = sorted({run["date"] for run in runs}) or [DASH]
    return {
        "commits": ", ".join(dict.fromkeys(run["commit"] for run in runs)) or DASH,
        "dates": " to ".join(dict.fromkeys([dates[0], dates[-1]])),
        "machines": "; ".join(dict.fromkeys(run["processor"] for run in runs)) or DASH,
        "versions": ", ".join(f"{name} {value}" for name, value in (runs[-1]["versions"] if runs else {}).items()),
        "seconds": round(sum(block.get("seconds", 0.0) for block in blocks)),
    }
