"""Analyses of small tables for tests and screenshots of reports."""

from dataclasses import replace

import numpy as np

from randsel import __version__, datasets
from randsel.analysis._model import Settings
from randsel.analysis._pipeline import analyse
from randsel.tables._read import Table


def analysis_of(table, kind, *, data="table.csv", halves=10, folds=5):
    """Return the full analysis of a table, with the settings that `randsel select` would store."""
    about = {
        "command": f"randsel select {data} --target status --out results",
        "version": __version__,
        "seed": 0,
        "data": data,
        "data_hash": table.fingerprint(),
        "parameters": {"task": kind, "halves": halves, "folds": folds},
    }
    analysis = analyse(table, Settings(task=kind, halves=halves, folds=folds), about=about)
    notes = ("CSV, separated by commas.", "The first column was taken for the names of the samples.")
    return replace(analysis, notes=(*notes, *analysis.notes))


HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    '"\' onmouseover=alert(3) x="',
    "größe µ 基因 🧬",
    "abc\u202egnp.exe",
    "x" * 300,
    "=1+1",
    r"$\frac{a}{b$ ^_",
    "{{ 7 * 7 }} {% raw %}",
    "&lt;b&gt;",
    "--> ]]> <!--",
    "tab\t and\nnewline",
    "\x00\x1b[31m",
    "\ud800 half a pair",
)


def hostile_table(kind, rows=120):
    """Return an XOR problem whose names could do harm in a page."""
    X, y, _ = datasets.make_xor(rows, len(HOSTILE), random_state=0)
    labels = {1: "<b>case</b>", -1: "control & co"}
    target = np.array([labels[value] for value in y]) if kind == "classification" else X[:, 0] * X[:, 1]
    return Table(X, target, HOSTILE)
