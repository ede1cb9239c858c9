"""Cells of outcomes.py with missing values, and with features that are always kept."""

from functools import partial
from itertools import product

import numpy as np
import recovery
from cells import OURS, Cell, any_called, value_of
from errors_data import draw_outcome, target_of

from randsel import InteractionScan, RandSel

SHARES = (0.0, 0.1, 0.3)
FILES = ("outcomes_tables.py", "errors_data.py", "recovery.py")


def percent(share):
    return f"{100 * share:.0f} %"


def delete_values(rng, X, share):
    """Return a copy of X of which a fraction of the values, chosen at random, is missing."""
    return np.where(rng.random(X.shape) < share, np.nan, X)


def draw_values(rng, X):
    """Return a copy of X in which every missing value is one of the observed values of its column, at random."""
    filled = X.copy()
    for column in filled.T:
        missing = np.isnan(column)
        column[missing] = rng.choice(column[~missing], missing.sum())
    return filled


def recall_with_missing(rng, problem):
    """Return recall of the relevant features with 0, 10 and 30 % of the values deleted, and what it loses.

    "drawn" is 10 % deleted and filled with random values of the same column, instead of neutral ones.
    """
    make, arguments = recovery.PROBLEMS[problem]
    X, y, relevant = make(random_state=int(rng.integers(2**31)), **arguments)
    tables = {percent(share): delete_values(rng, X, share) for share in SHARES}
    tables[f"{percent(0.1)}, drawn"] = draw_values(rng, tables[percent(0.1)])
    recall = {name: RandSel(len(relevant)).fit(table, y).support_[relevant].mean() for name, table in tables.items()}
    return [
        *(value_of("recall", name, value) for name, value in recall.items()),
        *(value_of("drop", name, recall[percent(0.0)] - value) for name, value in recall.items()),
    ]


def recall_of_fewer_samples(rng, problem, share=0.1):
    """Return recall on the fraction (1 - share)² of complete samples, which have both values of a pair, and on less."""
    make, arguments = recovery.PROBLEMS[problem]
    X, y, relevant = make(random_state=int(rng.integers(2**31)), **arguments)
    tallies = []
    for power in (2, 3):
        rows = slice(round(len(X) * (1.0 - share) ** power))
        recall = RandSel(len(relevant)).fit(X[rows], y[rows]).support_[relevant].mean()
        tallies.append(value_of("recall", f"{rows.stop} complete samples", recall))
    return tallies


def errors_with_missing(rng, outcome, n, share, share_of_others=None):
    """Return whether any of 100 features, and whether any pair of them, is called, where none has an effect.

    `share_of_others` is the fraction missing in samples that are not of class 1.
    """
    X, y = rng.normal(size=(n, 100)), draw_outcome(rng, outcome, n)
    shares = share if share_of_others is None else np.where(y == 1, share, share_of_others)[:, None]
    scan = InteractionScan(target=target_of(outcome)).fit(delete_values(rng, X, shares), y)
    return [
        any_called(scan.main_pvalues_, measure="any feature called"),
        value_of("any pair called", OURS, scan.pairs_["p_corrected"].min(initial=1.0) <= 0.05),
    ]


# ---------------------------------------------------------------- features that are kept


def first_beside_marker(rng, effect, n=150, m=200, n_copies=5, correlation=0.95):
    """Return what ranks first beside a known marker: one of its copies, or a feature with an effect of its own.

    Column 0 is the marker, columns 1 to 5 are its copies, and column 6 is the complementary feature.
    """
    X = rng.normal(size=(n, m))
    copies, complement = np.arange(1, n_copies + 1), n_copies + 1
    X[:, copies] = correlation * X[:, :1] + np.sqrt(1.0 - correlation**2) * X[:, copies]
    y = X[:, 0] + effect * X[:, complement] + rng.normal(size=n)
    rankings = {
        "RandSel(2)": RandSel(2).fit(X, y),
        'RandSel(2, criterion="total")': RandSel(2, criterion="total").fit(X, y),
        "always_keep": RandSel(2, always_keep=[0]).fit(X, y),
        'always_keep, criterion="total"': RandSel(2, always_keep=[0], criterion="total").fit(X, y),
    }
    tallies = []
    for name, selector in rankings.items():
        others = selector.order_[selector.order_ != 0]
        tallies.append(value_of("copy first", name, others[0] in copies))
        tallies.append(value_of("complementary feature first", name, others[0] == complement))
    return tallies


# ---------------------------------------------------------------- list


def table_cells():
    """Yield all cells of missing values and of kept features."""
    for problem in recovery.PROBLEMS:
        yield cell(f"missing/recall/{problem}", 200, recall_with_missing, problem=problem)
        yield cell(f"missing/recall/{problem}, fewer samples", 200, recall_of_fewer_samples, problem=problem)
    for share, outcome, n in product((0.1, 0.4), ("classes 50 %", "normal"), (100, 300)):
        name = f"missing/error/{percent(share)} missing/{outcome}/n {n}"
        yield cell(name, 200, errors_with_missing, outcome=outcome, n=n, share=share)
    for others in (0.0, 0.1):
        name = f"missing/error/40 % missing in one class, {percent(others)} in the other/classes 50 %/n 100"
        yield cell(name, 200, errors_with_missing, outcome="classes 50 %", n=100, share=0.4, share_of_others=others)
    for effect in (0.5, 0.7):
        yield cell(f"fixed/marker/effect {effect:g}", 100, first_beside_marker, effect=effect)


def cell(name, n_sets, simulate, **arguments):
    return Cell(name, n_sets, partial(simulate, **arguments), files=FILES)
