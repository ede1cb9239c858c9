"""Small tables, and panels of them."""

import numpy as np

from randsel._numerics.event_times import survival_array
from randsel.analysis import Settings, analyse
from randsel.panels import fit_panel
from randsel.tables import Table

NAMES = ("a", "b", "c", "d", "copy")


def make_table(kind="classification", m=80, seed=0, **fields):
    """Table in which a and b act together on the outcome, and `copy` is nearly a."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, 5)) * [1, 10, 1, 1, 1] + [0, 50, 0, 0, 0]
    X[:, 4] = X[:, 0] + 0.2 * rng.standard_normal(m)
    signal = X[:, 0] + (X[:, 1] - 50) / 10
    if kind == "classification":
        y = np.where(signal + 0.3 * rng.standard_normal(m) > 0, "case", "control")
    elif kind == "three":
        y = np.digitize(signal, [-0.7, 0.7]).astype(float)
    elif kind == "regression":
        y = signal + 0.3 * rng.standard_normal(m)
    else:
        y = survival_array(rng.random(m) < 0.8, rng.exponential(np.exp(-signal)) + 0.01)
    return Table(X, y, NAMES, **fields)


def make_panel(table, about=None, **settings):
    """Panel of the features a and b."""
    settings = {"keep": ("a", "b"), "top": 2, "halves": 0, "folds": 3, "pairs": "none", **settings}
    return fit_panel(analyse(table, Settings(**settings), about=about))


def frame_of(table):
    return {name: table.X[:, j] for j, name in enumerate(table.names)}
