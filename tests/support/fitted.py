"""Analyses of small tables for tests and screenshots of reports."""

from dataclasses import replace

from randsel import __version__
from randsel.analysis._model import Settings
from randsel.analysis._pipeline import analyse


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
