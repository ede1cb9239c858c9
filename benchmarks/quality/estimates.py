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


def leading_number(text):
    """Return the number at the start of a cell; None if there is none."""
    try:
        return float(text.split()[0])
    except (ValueError, IndexError):
        return None


def spread(texts):
    """Return "mean (lowest to highest)" of the numbers at the start of cells."""
    values = [value for value in map(leading_number, texts) if value is not None]
    if not values:
        return DASH
    digits = max(len(text.split()[0].partition(".")[2]) for text in texts if leading_number(text) is not None)
    low, high = (number(value, digits) for value in (min(values), max(values)))
    mean = number(sum(values) / len(values), digits)
    return mean if low == high else f"{mean} ({low} to {high})"


def summary_rows(tables, columns=()):
    """Return a row per section: number of rows, spread of some columns over the rows, and goals missed."""
    rows = []
    for title, table in tables.items():
        texts = [text for row in table for text in row.values()]
        marks = {mark: sum(text.endswith(f" {mark}") for text in texts) for mark in (MISSED, UNCERTAIN)}
        summary = {"table": title, "rows": str(len(table)), **{m: str(count) for m, count in marks.items()}}
        rows.append(summary | {column: spread([row.get(column, "") for row in table]) for column in columns})
    return rows


def test_summary(table):
    """Return a row per test with the spread of every column of numbers over the situations."""
    by_test = defaultdict(list)
    for row in table:
        by_test[row.get("test", "")].append(row)
    summary = []
    for test, rows in by_test.items():
        line = {"test": test} if test else {}
        line["situations"] = str(len(rows))
        for column in dict.fromkeys(column for row in rows for column in row):
            if column not in ("situation", "test"):
                line[column] = spread([row.get(column, "") for row in rows])
        summary.append(line)
    return summary


def goal_rows(tables):
    """Return a row per figure that misses a goal."""
    rows = []
    for title, table in tables.items():
        for row in table:
            situation = ", ".join(row[name] for name in ("level", "situation", "test") if name in row)
            for column, text in row.items():
                if text.endswith((f" {MISSED}", f" {UNCERTAIN}")):
                    rows.append({"table": title, "situation": situation, "figure": column, "value": text})
    return rows


def without_marks(tables):
    """Return tables whose marks are in a column of their own."""
    stripped = {}
    for title, table in tables.items():
        stripped[title] = []
        for row in table:
            marked = {
                column: text[-1] for column, text in row.items() if text.endswith((f" {MISSED}", f" {UNCERTAIN}"))
            }
            plain = {column: text[:-2] if column in marked else text for column, text in row.items()}
            stripped[title].append(plain | {"goals": "; ".join(f"{c} {mark}" for c, mark in marked.items())})
    return stripped


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


def goals_section(tables):
    """Return the figures that miss a goal as a section of a page."""
    rows = goal_rows(tables)
    return ["## Goals missed", as_markdown(rows) if rows else "None."]
