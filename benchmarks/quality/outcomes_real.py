"""Cells of outcomes.py with real survival data: concordance of held-out samples."""

import json
import subprocess
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from cells import Cell, value_of
from outcomes_survival import cox_score_pvalues
from sklearn.model_selection import StratifiedKFold

from randsel import RandSel
from randsel.targets._survival import concordance_index

ROOT = Path(__file__).parents[2]
#: Environment of scikit-survival.
ENVIRONMENT = ROOT / "build" / "outcomes"
TABLES = ("surv_aml", "surv_breast")
SIZES = (10, 20, 50)
#: Days that a time of zero counts.
FIRST_DAY = 0.5
N_FOLDS, N_REPETITIONS = 5, 3
FILES = ("outcomes_real.py", "outcomes_survival.py", "outcomes_cox.py")


def load_survival(table, folder):
    """Return features, events and times of a table."""
    with np.load(folder / f"{table}.npz", allow_pickle=False) as arrays:
        X = arrays["X"].astype(np.float64)
        y = np.zeros(len(X), dtype=[("event", bool), ("time", float)])
        y["event"], y["time"] = arrays["event"], np.maximum(arrays["time"], FIRST_DAY)
    return X, y


def selections(X, y):
    """Return the columns that each method selects, by its name."""
    order = RandSel(max(SIZES)).fit(X, y).order_
    varies = np.flatnonzero(np.ptp(X, axis=0) > 0)
    # times are made distinct, as the score test expects; events come first among equal times
    distinct = y.copy()
    distinct["time"] = np.argsort(np.lexsort((~y["event"], y["time"])))
    by_cox = varies[np.argsort(cox_score_pvalues(X[:, varies], distinct))]
    columns = {f"RandSel({size})": order[:size] for size in SIZES}
    columns["RandSel()"] = np.flatnonzero(RandSel().fit(X, y).support_)
    columns |= {f"univariate Cox, {size} features": by_cox[:size] for size in SIZES}
    return columns | {"all features": varies}


def predicted_risks(X, y, X_test, columns):
    """Return the risks of the test samples by name of the selection, and the number of features of the lasso."""
    with tempfile.TemporaryDirectory() as folder:
        split = Path(folder) / "split.npz"
        arrays = {f"columns/{name}": index for name, index in columns.items()}
        np.savez(split, X=X, event=y["event"], time=y["time"], X_test=X_test, **arrays)
        command = [ENVIRONMENT / "bin" / "python", Path(__file__).with_name("outcomes_cox.py"), split]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return json.loads(printed.splitlines()[-1])


def concordance(rng, table, folder):
    """Return the concordance of every method in every fold of one repetition."""
    X, y = load_survival(table, folder)
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=int(rng.integers(2**31)))
    tallies = []
    for train, test in folds.split(X, y["event"]):
        columns = selections(X[train], y[train])
        predicted = predicted_risks(X[train], y[train], X[test], columns)
        n_used = {name: len(index) for name, index in columns.items()} | {"Cox lasso": predicted["n_lasso"]}
        for name, risks in predicted["risks"].items():
            value = concordance_index(y["time"][test], y["event"][test], np.array(risks))
            tallies += [value_of("concordance", name, value), value_of("features", name, n_used[name])]
    return tallies


def real_cells(folder):
    """Yield a cell per table; `folder` holds the tables."""
    for table in TABLES:
        missing = ""
        if not (folder / f"{table}.npz").exists():
            missing = f"the folder of data does not hold {table}.npz"
        elif not any(ENVIRONMENT.glob("lib/*/site-packages/sksurv")):
            missing = "scikit-survival is not installed in build/outcomes"
        simulate = partial(concordance, table=table, folder=folder)
        yield Cell(f"real/concordance/{table}", N_REPETITIONS, simulate, missing, block=1, files=FILES)
