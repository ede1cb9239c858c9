"""Tables and page of errors.py, from the tallies of its blocks."""

from collections import defaultdict
from typing import NamedTuple

import numpy as np
from errors_cells import LEVELS, OURS, level_name
from errors_tests import N_PERMUTATIONS

#: Largest size at each level, and smallest power relative to the better yardstick.
SIZE_GOALS = {0.05: 0.07, 0.001: 0.002}
RELATIVE_POWER, POWER_RANGE, PRODUCT_POWER = 0.9, (0.5, 0.95), 0.8
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


# ---------------------------------------------------------------- tables


def size_mark(value, goal):
    """Return a mark if the size is above the goal: uncertain within two standard errors."""
    if value.value <= goal:
        return ""
    return f" {MISSED}" if not value.value - 2.0 * value.error <= goal else f" {UNCERTAIN}"


def size_rows(cells, results):
    rows = []
    for cell in cells:
        row = {"situation": short_name(cell), "data sets": n_sets(results, cell)}
        for level in LEVELS:
            value = results.get(cell.name, level_name(level))
            if value is not None:
                digits = 4 if level < 0.01 else 3
                row[level_name(level)] = with_error(value, digits) + size_mark(value, SIZE_GOALS[level])
        rows.append(row)
    return rows


def ratio_to_better(results, cell, measure):
    """Return the better yardstick's power, and ours divided by it; None if no yardstick has any power."""
    powers = {key: e.value for key, e in results.by_key.items() if key[:2] == (cell.name, measure) and key[2] != OURS}
    better = max(powers, key=powers.get, default=None)
    if better is None or not powers[better]:
        return None
    return powers[better], estimate(results.totals[better], results.totals[cell.name, measure, OURS])


def ratio_mark(power, ratio):
    """Return a mark if the ratio is below the goal: uncertain within two standard errors."""
    if not POWER_RANGE[0] <= power <= POWER_RANGE[1] or ratio.value >= RELATIVE_POWER:
        return ""
    return f" {MISSED}" if not ratio.value + 2.0 * ratio.error >= RELATIVE_POWER else f" {UNCERTAIN}"


def power_rows(cells, results, levels):
    """Return a row per cell and level: our power, that of the yardsticks, and the ratio to the better one."""
    rows = []
    for level in levels:
        measure = level_name(level)
        for cell in cells:
            ours = results.get(cell.name, measure)
            if ours is None:
                continue
            row = {"level": f"{level:g}".lstrip("0"), "situation": short_name(cell), "data sets": str(ours.n_sets)}
            effect = results.get(cell.name, f"effect at {level:g}")
            if effect is not None:
                row["effect"] = f"{effect.value:.3g}"
            for test in results.tests(cells, {measure}):
                row[test] = with_error(results.get(cell.name, measure, test))
            better = ratio_to_better(results, cell, measure)
            if better is not None:
                row["ratio"] = with_error(better[1], 2) + ratio_mark(*better)
            rows.append(row)
    return rows


def blind_rows(cells, results):
    """Return rows of power without a ratio, for effects that the yardsticks do not look for."""
    rows = power_rows(cells, results, LEVELS)
    return [{title: text for title, text in row.items() if title != "ratio"} for row in rows]


def product_rows(cells, results):
    """Return rows of power without a ratio, and how often the pair is called after correction for all pairs."""
    rows = blind_rows(cells, results)
    for row, cell in zip(rows, cells, strict=False):
        ours = results.get(cell.name, level_name(LEVELS[0]))
        row[OURS] += f" {MISSED}" if ours.value < PRODUCT_POWER else ""
        row["called after correction"] = with_error(results.get(cell.name, "called"))
    return rows


def measure_rows(cells, results):
    """Return a row per cell and test with one column per measure."""
    rows = []
    for cell in cells:
        measures = list(dict.fromkeys(m for c, m, _ in results.by_key if c == cell.name))
        for test in results.tests([cell], set(measures)):
            row = {"situation": short_name(cell), "test": test, "data sets": n_sets(results, cell)}
            row |= {m: with_error(results.get(cell.name, m, test), 2) for m in measures}
            rows.append(row)
    return rows


# ---------------------------------------------------------------- sections


#: Section -> title.
TITLES = {
    "size/classes": "Size: classes, normal columns",
    "size/numbers": "Size: numbers, normal columns",
    "size/groups": "Size: groups (`groups=`)",
    "size/batches": "Size: batches (`batch=`)",
    "size/columns": "Size: other columns",
    "size/tables": "Size: columns of real tables, simulated outcome",
    "size/pairs": "Size: pairs",
    "size/steps": "Errors of forward steps",
    "size/selection": "Size: permutation p-value of RandSel",
    "power/shift": "Power: shift between classes",
    "power/slope": "Power: numeric outcome",
    "power/groups": "Power: groups (`groups=`)",
    "power/u-shape": "Power: U-shaped effect",
    "power/product": "Power: product of two columns",
    "power/separation": "Perfect separation of two classes: median of log10 p",
    "power/snp pairs": "Pairs of SNPs called (corrected p at most .05)",
}
ROWS = {
    "power/u-shape": blind_rows,
    "power/product": product_rows,
    "power/separation": measure_rows,
    "power/snp pairs": measure_rows,
}


def section_rows(section, cells, results):
    if section in ROWS:
        return ROWS[section](cells, results)
    return size_rows(cells, results) if section.startswith("size") else power_rows(cells, results, LEVELS)


def summary_rows(tables):
    """Return a row per section: the numbers of rows and of goals missed."""
    rows = []
    for title, table in tables.items():
        texts = [text for row in table for text in row.values()]
        marks = {mark: sum(text.endswith(f" {mark}") for text in texts) for mark in (MISSED, UNCERTAIN)}
        rows.append({"table": title, "rows": str(len(table)), **{m: str(count) for m, count in marks.items()}})
    return rows


def write_tables(cells, blocks):
    """Return the tables of all sections as Markdown, and the cells that failed or are missing."""
    results, sections = Results(blocks), defaultdict(list)
    for cell in cells:
        sections["/".join(cell.name.split("/")[:2])].append(cell)
    tables = {}
    for section, title in TITLES.items():
        present = [cell for cell in sections[section] if n_sets(results, cell) != "0"]
        if present:
            tables[title] = section_rows(section, present, results)
    lines = ["## Goals missed", as_markdown(summary_rows(tables))]
    lines += [text for title, rows in tables.items() for text in (f"## {title}", as_markdown(rows))]
    absent = {cell.name: cell.missing for cell in cells if cell.missing} | results.errors
    if absent:
        lines += ["## Left out", as_markdown([{"cell": name, "reason": why} for name, why in absent.items()])]
    return "\n\n".join(lines)


def write_page(cells, blocks, runs):
    """Return the page as Markdown."""
    cells = list(cells)
    dates = sorted({run["date"] for run in runs}) or [DASH]
    opening = OPENING.format(
        commits=", ".join(dict.fromkeys(run["commit"] for run in runs)) or DASH,
        dates=" to ".join(dict.fromkeys([dates[0], dates[-1]])),
        machines="; ".join(dict.fromkeys(run["processor"] for run in runs)) or DASH,
        versions=", ".join(f"{name} {value}" for name, value in (runs[-1]["versions"] if runs else {}).items()),
        missed=MISSED,
        uncertain=UNCERTAIN,
        permutations=N_PERMUTATIONS,
        seconds=round(sum(block.get("seconds", 0.0) for block in blocks)),
    )
    return f"{opening}\n\n{write_tables(cells, blocks)}\n"


OPENING = """\
# How large are the errors of the p-values?

`make bench-errors`, commit {commits}, {dates}; {machines}; {seconds} s on one core; {versions}.

Every figure is a fraction over the p-values of simulated data sets, ± its standard error over data sets, because the
columns of one data set share the outcome. *Data sets* is their number. Features are tested by
`InteractionScan(order=1).main_pvalues_`, pairs by `InteractionScan().pairs_`, selections by
`RandSel(5).permutation_pvalue_`.

**Goals.** Size at most .07 at level .05, and .002 at level .001. Power at least .9 of that of the better yardstick,
where that has a power of .5 to .95; at least .8 for a product for which least squares has .98. {missed} marks a goal
missed by more than two standard errors, {uncertain} one missed by less.

**Size.** A data set has 60 columns that have nothing to do with the outcome. Classes have fixed shares: "classes 10
%" are two classes, the rarer of 10 % of the samples. "lognormal" is exp(1.5 z) of a normal z, "counts" are negative
binomial of mean 2, "5 outliers" are 20 times as large as the other values. SNPs have minor allele frequencies of .05
to .5; correlated blocks have ten columns of correlation .8. Groups have two to five samples and donor effects in
columns and outcome; the outcome is constant within each group, varies within each group, or is constant in every
second group. Three batches differ in the means of the columns and in the class shares or means of the outcome.
Columns of real tables meet an outcome that is drawn at random. Pairs: all p-values of the pairs of 10 columns, and
whether any pair of 100 columns is called at .05 after correction; "beside main effects": two of the columns determine
two thirds of the outcome. Forward steps: the fraction of data sets in which a step selects a column outside the blocks
of the planted columns; 200 columns in blocks of five of correlation .7, of which none or five have an effect.

**Power.** A data set has 100 columns with the same effect, independent given the outcome. For each level, the effect
is set by simulation so that the better yardstick has a power of about .8. *ratio* is the power of randsel divided by
that of the better yardstick. "Permuted ranks" is a test of the covariance of ranks by {permutations} permutations,
whose smallest p-value is .001. Slopes: the outcome is a monotone transform of effect × column + normal noise; the
effect of a lognormal column is on its logarithm. Mixed groups: least squares within groups, correlation of the means
of groups with a constant outcome, and both combined. SNP pairs: 1000 samples; the mean of y is 10 times a product
over one to eight pairs of SNPs, with the factor 2, 4, 8 or 16 where a pair is dominant, recessive or XOR, else 1;
noise of variance 1. *true*: fraction of these pairs that are called; other columns: number of other pairs called per
data set."""
