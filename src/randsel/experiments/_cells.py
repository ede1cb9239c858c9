"""One cell of nested cross-validation: an outer fold of one reshuffle of a data set, with one method.

The inner loop chooses the bandwidth and the number of features by the validation score of a Gaussian support vector
machine with C = 1; of equal scores, the one with fewer features is chosen. The outer fold tests them. Scores are
accuracies for classes, R² for numbers and the concordance index for survival, within each fold.
"""

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, balanced_accuracy_score, r2_score

from randsel._numerics.fingerprint import fingerprint
from randsel._numerics.missing import count_nonfinite, find_refused
from randsel._utils.text import collect_warnings
from randsel._utils.typing import Array
from randsel.culling import path_sizes
from randsel.experiments._specification import METHODS, Spec, plan
from randsel.tables import Table, imputer
from randsel.targets import KINDS, SURVIVAL, OutcomeKind, describe_guess, find_kind

#: Kind of outcome -> scores of a cell: name and function of y and predictions. The first one chooses in the inner loop.
SCORES: dict[str, dict[str, Callable[[Array, Array], float]]] = {
    "classification": {"accuracy": accuracy_score, "balanced_accuracy": balanced_accuracy_score},
    "regression": {"r2": r2_score},
    "survival": {"concordance": SURVIVAL.score},
}
#: Scores that rank methods, and that are drawn against the number of features -> their names. A result has one of them.
RANKED_BY = {"balanced_accuracy": "balanced accuracy", "r2": "R²", "concordance": "concordance index"}
CURVE = "curve of the score that ranks"  # part of the key: cells of a curve of another score are not read


@dataclass(frozen=True)
class Cell:
    """One outer fold, and everything that determines its result."""

    data: str
    method: str
    params: dict[str, Any]
    gammas: tuple[float | str, ...]
    folds: int
    reshuffle: int
    fold: int
    seed: int
    fingerprint: str

    @property
    def key(self) -> str:
        """Name of the cell's file."""
        return hash_cell(asdict(self), CURVE)


def hash_cell(*content: Any) -> str:
    """Return a hash of the version of the package and of everything that determines a result."""
    text = json.dumps([version("randsel"), *content], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def build_cells(spec: Spec, tables: dict[str, Table]) -> tuple[list[Cell], list[str]]:
    """Return all cells of a specification, and notes on targets of few whole numbers and on reduced folds."""
    cells, notes = [], []
    for entry in spec.data:
        table = tables[entry["name"]]
        _check_finite(table, entry["name"])
        kind = find_kind(table.y, spec.task)
        if guess := describe_guess(table.y, spec.task):
            notes.append(f"{entry['name']}: {guess}")
        n_splits = number_of_folds(table, kind, spec.folds)
        # raises an error if the training samples of an outer fold are too few for inner folds
        number_of_folds(table.rows(kind.splits(table.y, table.groups, n_splits, spec.seed)[0][0]), kind, spec.folds)
        if n_splits < spec.folds:
            limit = "the size of the smallest class" if kind.has_classes else "so that each has two to test"
            limit = "so that each has two events" if kind is SURVIVAL else limit
            notes.append(f"{entry['name']}: {n_splits} folds instead of {spec.folds}, {limit}.")
        data_hash = hash_table(table)
        for method in spec.methods:
            settings = plan(spec, entry, method)
            names, params = (entry["name"], method["name"]), {**settings.params, "target": kind.name}
            cells += [
                Cell(*names, params, settings.gammas, spec.folds, reshuffle, fold, spec.seed, data_hash)
                for reshuffle in range(settings.reshuffles)
                for fold in range(n_splits)
            ]
    return cells, notes


def hash_table(table: Table) -> str:
    """Return a hash of the values that a result depends on."""
    names = np.array(table.names, dtype=str)
    return fingerprint(table.X, table.y, table.groups, table.relevant, names, convention="cells")[:24]


def number_of_folds(table: Table, kind: OutcomeKind, wanted: int) -> int:
    """Return the wanted number of folds, or the largest that is possible if that is smaller.

    Every fold has a sample of each class; two samples of numbers, because R² of one is not defined; or two events of
    survival. With groups, groups count.
    """
    members = kind.units_per_stratum(table.y, table.groups)
    units = "samples" if table.groups is None else "groups"
    if kind is SURVIVAL:
        if members[0] < 2:
            raise ValueError(f"a fold is left with fewer than four {units} with an event; nested folds need eight.")
        return min(wanted, int(members[0]))
    if not kind.has_classes:
        if members[0] < 4:
            raise ValueError(f"a fold is left with {members[0]} {units}; nested folds of numbers need eight.")
        return min(wanted, int(members[0]) // 2)
    if members.min() < 2:
        classes = np.unique(table.y)
        if table.y.dtype.kind == "f" and len(classes) > len(table.y) / 4:
            raise ValueError(
                f"the target has {len(classes)} different numbers, which are not classes; use the task regression, or "
                "name another column."
            )
        raise ValueError(
            f"class {classes[members.argmin()]} is left with {members.min()} {units}; nested folds need three."
        )
    return min(wanted, int(members.min()))


def evaluate(cell: Cell, table: Table) -> dict[str, Any]:
    """Return the result of a cell: scores, selected features, and how they were chosen."""
    kind, seed = KINDS[cell.params["target"]], cell.seed + 1000 * cell.reshuffle
    functions = SCORES[kind.name]
    score, ranked_by = next(iter(functions.values())), next(functions[s] for s in RANKED_BY if s in functions)
    train, test = kind.splits(table.y, table.groups, number_of_folds(table, kind, cell.folds), seed)[cell.fold]
    training = table.rows(train)
    sizes = path_sizes(table.X.shape[1])
    scores, curves = np.zeros((2, len(cell.gammas), len(sizes)))
    inner = kind.splits(training.y, training.groups, number_of_folds(training, kind, cell.folds), seed + 1)
    for fitted, held_out in inner:
        X, y_held_out = _impute(training, fitted), training.y[held_out]
        for g, order in enumerate(_rankings(cell, X[fitted], training.y[fitted], cell.gammas)):
            for k, size in enumerate(sizes):
                predicted = kind.predict_held_out(X, training.y, fitted, held_out, order[:size], cell.gammas[g])
                scores[g, k] += score(y_held_out, predicted) / len(inner)
                curves[g, k] += ranked_by(y_held_out, predicted) / len(inner)
    # the best score; on ties (up to rounding) the fewest features, then the first bandwidth
    g, k = min(np.argwhere(scores >= scores.max() - 1e-12).tolist(), key=lambda index: (sizes[index[1]], index[0]))
    X = _impute(table, train)
    start = time.perf_counter()
    (order,) = _rankings(cell, X[train], training.y, cell.gammas[g : g + 1])
    seconds = time.perf_counter() - start
    selected, relevant = order[: sizes[k]], table.relevant
    n_hits = 0 if relevant is None else len(np.intersect1d(selected, relevant))
    recovery = {} if relevant is None else {"precision": n_hits / len(selected), "recall": n_hits / len(relevant)}
    predicted = kind.predict_held_out(X, table.y, train, test, selected, cell.gammas[g])
    return {
        **{name: function(table.y[test], predicted) for name, function in functions.items()},
        "n_features": len(selected),
        **recovery,
        "gamma": cell.gammas[g],
        "features": [table.names[j] for j in selected.tolist()],
        "curve": {str(size): float(curves[:, k].max()) for k, size in enumerate(sizes)},
        "seconds": seconds,
    }


def _check_finite(table: Table, name: str) -> None:
    infinite = find_refused(*count_nonfinite(table.X), allow_nan=True)
    if infinite is not None:
        first, others = table.names[infinite.column], infinite.n_columns - 1
        raise ValueError(
            f"{name}: column {first!r} and {others} others have infinite values; replace them by numbers first."
        )


def _impute(table: Table, train: Array) -> Array:
    """Return X; missing values are replaced by the medians of the training samples if the table asks for it."""
    if table.missing != "median" or not np.isnan(table.X).any():
        return table.X
    imputed: Array = imputer().fit(table.X[train]).transform(table.X)
    return imputed


def _rankings(cell: Cell, X: Array, y: Array, gammas: tuple[float | str, ...]) -> list[Array]:
    """Return the columns, best first, for each bandwidth; a method without bandwidth ranks only once."""
    selector, params = METHODS[cell.method][0], dict(cell.params)
    known = selector().get_params()
    if "random_state" in known:
        params["random_state"] = cell.seed
    with collect_warnings():  # the held-out samples show whether a selection is of any use
        if "gamma" not in known or params.get("kernel") == "linear":
            return [selector(**params).fit(X, y).order_] * len(gammas)
        return [selector(**params, gamma=gamma).fit(X, y).order_ for gamma in gammas]
