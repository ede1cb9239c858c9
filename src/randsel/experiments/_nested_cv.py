"""Nested cross-validation of selectors: specification → cells → one file per cell → tables.

A cell is one outer fold of one reshuffle of one data set with one method. The inner loop picks bandwidth and number of
features by the validation accuracy of a Gaussian support vector machine with C = 1, the fewer features on ties; the
outer fold tests. A finished cell is a JSON file named by a hash of all that determines it; a failed one leaves none.
Times are in files of their own (`seconds.csv`, `runs.csv`): all others are the same whenever they are made.
"""

import csv
import ctypes
import difflib
import hashlib
import json
import re
import signal
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.metrics import accuracy_score, balanced_accuracy_score

from randsel import datasets
from randsel._numerics.columns import find_nonfinite
from randsel._utils.jobs import as_finished
from randsel._utils.result_folder import (
    LARGEST_JSON,
    check_folder,
    claim,
    only_run,
    open_here,
    read_json,
    write_atomically,
)
from randsel._utils.text import shorten_errors
from randsel._utils.typing import Array
from randsel.baselines import _baselines as baselines
from randsel.baselines import _stability_selection as stability
from randsel.culling._path import path_sizes
from randsel.selectors import _randsel as selector
from randsel.tables._read import LOWEST, Table, imputer, read
from randsel.targets._kinds import CLASSES

#: Methods by name: class and parameters. `gamma` is set where the class has it.
METHODS: dict[str, tuple[Any, dict[str, Any]]] = {
    "randSel": (selector.RandSel, {}),
    "randSel (total)": (selector.RandSel, {"criterion": "total"}),
    "randSel (bootstrap)": (selector.RandSel, {"estimator": "bootstrap"}),
    "BaHSIC": (baselines.BaHSIC, {}),
    "FoHSIC": (baselines.FoHSIC, {"n_features_to_select": 1.0}),
    "Corr. Coeff.": (baselines.CorrelationFilter, {}),
    "Stab. Sel.": (stability.StabilitySelection, {}),
    "RFE": (baselines.KernelRFE, {}),
}


#: Numbers of a cell's result.
NUMBERS = ("accuracy", "balanced_accuracy", "n_features")
#: Seconds after which a thread that should have given up is told so again.
AGAIN = 0.5


@dataclass(frozen=True)
class Spec:
    """What to compare: data sets, methods, bandwidths, folds."""

    name: str
    data: tuple[dict[str, Any], ...]
    methods: tuple[dict[str, Any], ...]
    gammas: tuple[float | str, ...] = ("0.25*median", "median", "4*median")
    folds: int = 10
    reshuffles: int = 3
    seed: int = 0
    paper: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> "Spec":
        """Read a TOML file; an unknown entry or method is an error that names it."""
        found = _toml(path)
        unknown = set(found) - set(cls.__dataclass_fields__)
        if unknown:
            msg = f"{path}: unknown entry {min(unknown)!r}; known are {', '.join(cls.__dataclass_fields__)}."
            raise ValueError(msg)
        missing = [name for name in ("name", "data", "methods") if name not in found]
        if missing:
            msg = f"{path} has no entry {missing[0]!r}; name, data and methods are needed."
            raise ValueError(msg)
        with shorten_errors():
            _check_kinds(path, found)
            found.update({name: tuple(found[name]) for name in ("data", "methods", "gammas") if name in found})
            return cls(**found)

    def only(self, names: list[str]) -> "Spec":
        """Restrict to some methods, in the order of the specification; all if none are named."""
        here = [method["name"] for method in self.methods]
        for name in names:
            _check_method(name)
            if name not in here:
                msg = f"{self.name} does not run {name!r}, but {', '.join(here)}."
                raise ValueError(msg)
        return replace(self, methods=tuple(m for m in self.methods if not names or m["name"] in names))

    def __post_init__(self) -> None:
        names = [method["name"] for method in self.methods]
        if len(set(names)) < len(names):
            msg = f"a method is named twice in {', '.join(names)}."
            raise ValueError(msg)
        for name in names:
            _check_method(name)


def _toml(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > LARGEST_JSON:
            msg = "it is too large"
            raise ValueError(msg)
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        msg = f"{path} cannot be read as a specification in TOML: {error}."
        raise ValueError(msg) from None


def _check_kinds(path: Path, found: dict[str, Any]) -> None:
    """Refuse entries of a specification that are of another kind than they must be."""
    fits = {
        "name": isinstance(found["name"], str),
        "data": _named_tables(found["data"], "params", "reduced"),
        "methods": _named_tables(found["methods"], "params"),
        "gammas": isinstance(found.get("gammas", []), list)
        and all(type(gamma) in (int, float, str) for gamma in found.get("gammas", [])),
        "paper": isinstance(found.get("paper", {}), dict)
        and all(isinstance(row, dict) for row in found.get("paper", {}).values()),
        **{
            name: type(found.get(name, least)) is int and least <= found.get(name, least) <= 10**6
            for name, least in (("folds", 2), ("reshuffles", 1), ("seed", 0))
        },
    }
    wrong = next((name for name, fit in fits.items() if not fit), None)
    if wrong is not None:
        msg = f"{path}: {wrong!r} is not as it must be: {str(found.get(wrong))[:80]!r}; see docs/experiments.md."
        raise ValueError(msg)


def _named_tables(entries: Any, *inner: str) -> bool:
    """Whether an entry is a list of tables, each with a name and with tables of these names, if it has them."""
    return isinstance(entries, list) and all(
        isinstance(entry, dict)
        and isinstance(entry.get("name"), str)
        and all(isinstance(entry.get(name, {}), dict) for name in inner)
        for entry in entries
    )


def _check_method(name: str) -> None:
    if name not in METHODS:
        near = difflib.get_close_matches(name, METHODS, n=1, cutoff=0.0)
        msg = f"unknown method {name!r}, did you mean {near[0]!r}? Known are {', '.join(METHODS)}."
        raise ValueError(msg)


@dataclass(frozen=True)
class Cell:
    """One outer fold, and all that determines its result."""

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
        text = json.dumps([version("randsel"), asdict(self)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:24]


# ---------------------------------------------------------------- data


def load_table(entry: dict[str, Any], folder: Path) -> Table:
    """Make or read the data set of a specification: `make` names a function of `datasets`, `file` one in the folder."""
    own = ("name", "log2", "params", "reduced", "note")
    options = {name: value for name, value in entry.items() if name not in own}
    made, file = options.pop("make", None), options.pop("file", None)
    try:
        if made is not None:
            X, y, relevant = _maker(made, entry["name"])(**options)
            table = Table(X, y, tuple(map(str, range(X.shape[1]))), relevant=relevant)
        else:
            table = read(_within(folder, file, entry["name"]), **{"missing": "keep", **options})
    except TypeError as error:
        msg = f"{entry['name']}: the data set cannot be made or read so: {error}."
        raise ValueError(msg) from error
    # a logarithm looks at one value at a time, so that taking it before the folds lets nothing leak
    return replace(table, X=np.log2(np.maximum(table.X, LOWEST))) if entry.get("log2") else table


def _maker(made: Any, name: str) -> Callable[..., tuple[Array, Array, Array]]:
    known = [other for other in dir(datasets) if other.startswith("make_")]
    if made not in known:
        msg = f"{name}: no data set is made by {made!r}; known are {', '.join(known)}."
        raise ValueError(msg)
    found: Callable[..., tuple[Array, Array, Array]] = getattr(datasets, made)
    return found


def _within(folder: Path, file: Any, name: str) -> Path:
    """Return a file of the folder; a specification must not reach for others."""
    if not isinstance(file, str) or "\0" in file or not (folder / file).resolve().is_relative_to(folder.resolve()):
        msg = f"{name}: {file!r} is no file within the folder of the data; name one (file), or a function (make)."
        raise ValueError(msg)
    return folder / file


def fingerprint(table: Table) -> str:
    """Return a hash of the values that a result depends on."""
    digest = hashlib.sha256()
    for values in (table.X, table.y, table.groups, table.relevant, np.array(table.names, dtype=str)):
        if values is not None:
            digest.update(str((values.dtype.str, values.shape)).encode())
            digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()[:24]


def number_of_folds(table: Table, wanted: int) -> int:
    """Return as many folds as asked for, or as the smallest class (in samples, or in groups) allows; at least two."""
    classes = np.unique(table.y)
    members: list[int] = CLASSES.units_per_stratum(table.y, table.groups).tolist()
    if min(members) < 2 and table.y.dtype.kind == "f" and len(classes) > len(table.y) / 4:
        msg = f"the comparison needs classes, and the target has {len(classes)} different numbers; name another column."
        raise ValueError(msg)
    if min(members) < 2:
        what = "samples" if table.groups is None else "groups"
        msg = f"class {classes[int(np.argmin(members))]} is left with {min(members)} {what}; nested folds need three."
        raise ValueError(msg)
    return max(2, min(wanted, *members))


def _check_finite(table: Table, name: str) -> None:
    nonfinite = find_nonfinite(table.X, allow_nan=table.missing == "median")
    if nonfinite is not None:
        first, others = table.names[nonfinite.column], nonfinite.n_columns - 1
        msg = f"{name}: column {first!r} and {others} others have missing values; impute or drop them first."
        raise ValueError(msg)


# ---------------------------------------------------------------- one cell


def evaluate(cell: Cell, table: Table) -> dict[str, Any]:
    """Run one cell."""
    seed = cell.seed + 1000 * cell.reshuffle
    train, test = CLASSES.splits(table.y, table.groups, number_of_folds(table, cell.folds), seed)[cell.fold]
    part = table.rows(train)
    sizes = path_sizes(table.X.shape[1], 0.25, 2)
    scores = np.zeros((len(cell.gammas), len(sizes)))
    inner = CLASSES.splits(part.y, part.groups, number_of_folds(part, cell.folds), seed + 1)
    for fit, held in inner:
        X = _filled(part.X, fit)
        for g, order in enumerate(_rankings(cell, X[fit], part.y[fit], cell.gammas)):
            for k, size in enumerate(sizes):
                predicted = CLASSES.predict_held_out(X, part.y, fit, held, order[:size], cell.gammas[g])
                scores[g, k] += accuracy_score(part.y[held], predicted) / len(inner)
    g, k = min(np.argwhere(scores >= scores.max() - 1e-12).tolist(), key=lambda at: (sizes[at[1]], at[0]))
    X = _filled(table.X, train)
    start = time.perf_counter()
    (order,) = _rankings(cell, X[train], part.y, cell.gammas[g : g + 1])
    seconds = time.perf_counter() - start
    chosen = order[: sizes[k]]
    predicted = CLASSES.predict_held_out(X, table.y, train, test, chosen, cell.gammas[g])
    return {
        "accuracy": accuracy_score(table.y[test], predicted),
        "balanced_accuracy": balanced_accuracy_score(table.y[test], predicted),
        "n_features": len(chosen),
        **_precision_and_recall(chosen, table.relevant),
        "gamma": cell.gammas[g],
        "features": [table.names[j] for j in chosen.tolist()],
        "curve": {str(size): float(scores[:, at].max()) for at, size in enumerate(sizes)},
        "seconds": seconds,
    }


def _filled(X: Array, train: Array) -> Array:
    """Replace missing values by the medians of the training samples."""
    if not np.isnan(X).any():
        return X
    filled: Array = imputer().fit(X[train]).transform(X)
    return filled


def _rankings(cell: Cell, X: Array, y: Array, gammas: tuple[float | str, ...]) -> list[Array]:
    """Columns, best first, for each bandwidth; a method without bandwidth ranks once for all."""
    kind, params = METHODS[cell.method][0], dict(cell.params)
    known = kind().get_params()
    if "random_state" in known:
        params["random_state"] = cell.seed
    if "gamma" not in known:
        return [_best_first(kind(**params), X, y)] * len(gammas)
    return [_best_first(kind(**params, gamma=gamma), X, y) for gamma in gammas]


def _best_first(method: Any, X: Array, y: Array) -> Array:
    order: Array = method.fit(X, y).order_
    return order


def _precision_and_recall(chosen: Array, relevant: Array | None) -> dict[str, float]:
    if relevant is None:
        return {}
    hits = len(np.intersect1d(chosen, relevant))
    return {"precision": hits / len(chosen), "recall": hits / len(relevant)}


# ---------------------------------------------------------------- all cells


@dataclass(frozen=True)
class Outcome:
    """All cells of a specification: results and times of the finished ones, errors of the failed ones."""

    cells: tuple[Cell, ...]
    results: dict[str, dict[str, Any]]
    errors: dict[str, str]
    notes: tuple[str, ...]
    seconds: dict[str, float]


def run(
    spec: Spec,
    tables: dict[str, Table],
    out: Path,
    *,
    n_jobs: int | None = 1,
    timeout: float | None = None,
    progress: Callable[[str, float, float], None] | None = None,
) -> Outcome:
    """Run the cells that have no file in `out` yet; the others are read.

    Parameters
    ----------
    spec : Spec
        What to compare.
    tables : dict of str to Table
        The data sets by name.
    out : Path
        Folder of the results; another run must not be working in it. That of other data, folds or seed is refused;
        methods and reshuffles may be added.
    n_jobs : int, default=1
        Cells at a time. None leaves it to joblib: one, or as many as a Dask cluster has threads (`on_cluster`).
    timeout : float, default=None
        Seconds after which a cell is given up.
    progress : callable, default=None
        Called with "cells", the number of cells done, and of all.

    Returns
    -------
    Outcome
        Results, errors, times, and notes on what was reduced or redone.
    """
    check_folder(out)
    out.mkdir(parents=True, exist_ok=True)
    with only_run(out):
        cells, notes = _cells(spec, tables)
        claim(out, _identity(spec, cells), ("version", "data_hash", "parameters"))
        results: dict[str, dict[str, Any]] = {}
        for cell in cells:
            sizes = path_sizes(tables[cell.data].X.shape[1], 0.25, 2)
            found = read_cell(out / f"{cell.key}.json", notes, NUMBERS, partial(whole_cell, sizes=sizes))
            if found is not None:
                results[cell.key] = found
        pending = [cell for cell in cells if cell.key not in results]
        errors: dict[str, str] = {}
        show, start = progress or (lambda *_: None), time.monotonic()
        show("cells", len(results), len(cells))
        tasks = [(cell, tables[cell.data], timeout) for cell in pending]
        for number, (result, error) in as_finished(_one, tasks, n_jobs, prefer="processes"):
            cell = pending[number]
            if error:
                errors[cell.key] = error
            else:
                # not where it was computed, which may be another machine
                _write_cell(out, cell, result)
                results[cell.key] = result
            show("cells", len(results) + len(errors), len(cells))
        if pending:
            _log_run(out, spec, len(pending), n_jobs, time.monotonic() - start)
        return Outcome(tuple(cells), results, errors, tuple(notes), _seconds(out))


@dataclass(frozen=True)
class Plan:
    """How one method is run on one data set, and in words what that is less than the specification asks for."""

    params: dict[str, Any]
    gammas: tuple[float | str, ...]
    reshuffles: int
    reduced: str


def plan(spec: Spec, entry: dict[str, Any], method: dict[str, Any]) -> Plan:
    """Put together what the specification says of all, of the method, of the data set, and what it takes back.

    `params` of a data set is a table by method. `reduced` holds what the data set gets less of, `reshuffles`, `gammas`
    or a parameter, for every method, or in a table of a method's name for that method.
    """
    name = method["name"]
    defaults = {"n_features_to_select": 1, "target": CLASSES.name, **METHODS[name][1]}
    full = {**defaults, **method.get("params", {}), **entry.get("params", {}).get(name, {})}
    full.update(reshuffles=spec.reshuffles, gammas=tuple(spec.gammas))
    taken_back = entry.get("reduced", {})
    less = {key: value for key, value in taken_back.items() if key not in METHODS} | taken_back.get(name, {})
    less = {key: tuple(value) if key == "gammas" else value for key, value in less.items()}
    unknown = set(less) - set(full)
    if unknown:
        msg = f"{entry['name']}: nothing called {min(unknown)!r} can be reduced; there are {', '.join(full)}."
        raise ValueError(msg)
    words = [f"{_words(less[key])} {key.removeprefix('n_')} of {_words(full[key])}" for key in less]
    final = {**full, **less}
    return Plan(params=final, gammas=final.pop("gammas"), reshuffles=final.pop("reshuffles"), reduced="; ".join(words))


def _words(value: Any) -> str:
    return str(len(value)) if isinstance(value, tuple) else f"{value}"


def _log_run(out: Path, spec: Spec, computed: int, n_jobs: int | None, seconds: float) -> None:
    """Append a line to the folder's `runs.csv`: when, what, on how many cores, how long."""
    with open_here(out / "runs.csv") as file:
        log = csv.writer(file, lineterminator="\n")
        if file.tell() == 0:
            log.writerow(["finished", "methods", "cells", "jobs", "cores", "minutes"])
        methods = "; ".join(method["name"] for method in spec.methods)
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
        # on a cluster, as many jobs as it has cores
        jobs, cores = [joblib.effective_n_jobs()] * 2 if n_jobs is None else [n_jobs, joblib.cpu_count()]
        log.writerow([now, methods, computed, jobs, cores, f"{seconds / 60:.1f}"])


def _cells(spec: Spec, tables: dict[str, Table]) -> tuple[list[Cell], list[str]]:
    cells, notes = [], []
    for entry in spec.data:
        table = tables[entry["name"]]
        _check_finite(table, entry["name"])
        n_splits = number_of_folds(table, spec.folds)
        number_of_folds(table.rows(CLASSES.splits(table.y, table.groups, n_splits, spec.seed)[0][0]), spec.folds)
        if n_splits < spec.folds:
            notes.append(f"{entry['name']}: {n_splits} folds instead of {spec.folds}, the size of the smallest class.")
        mark = fingerprint(table)
        for method in spec.methods:
            how = plan(spec, entry, method)
            label = (entry["name"], method["name"])
            cells += [
                Cell(*label, how.params, how.gammas, spec.folds, reshuffle, fold, spec.seed, mark)
                for reshuffle in range(how.reshuffles)
                for fold in range(n_splits)
            ]
    return cells, notes


def _identity(spec: Spec, cells: list[Cell]) -> dict[str, Any]:
    """Return what the cells of a folder must share, so that its tables are of one comparison."""
    return {
        "version": version("randsel"),
        "comparison": spec.name,
        "data_hash": {cell.data: cell.fingerprint for cell in cells},
        "parameters": {"folds": spec.folds, "seed": spec.seed},
    }


def _one(cell: Cell, table: Table, timeout: float | None) -> tuple[dict[str, Any], str]:
    try:
        with _deadline(timeout):
            return evaluate(cell, table), ""
    except Exception as error:  # whatever a method does in one cell, the others go on
        return {}, f"{type(error).__name__}: {error}"


def _write_cell(out: Path, cell: Cell, result: dict[str, Any]) -> None:
    """Write the result of a cell, and how long it took into a file of such times, which differ from run to run."""
    # before the cell, so that a finished one has its time; a second time of one is a later one
    with open_here(out / "seconds.csv") as file:
        file.write(f"{cell.key},{result.pop('seconds'):.6f}\n")
    content = {"cell": asdict(cell), "result": result}
    write_atomically(out / f"{cell.key}.json", json.dumps(content, indent=1, sort_keys=True))


@contextmanager
def _deadline(seconds: float | None) -> Iterator[None]:
    """Raise TimeoutError in this thread after some seconds."""
    if seconds is None:
        yield
        return
    # signals arrive in the first thread of a process, and wake it; workers of a cluster compute in another one
    alarm = _signalled if threading.current_thread() is threading.main_thread() else _interrupted
    with alarm(seconds, f"gave up after {seconds:g} s"):
        yield


@contextmanager
def _signalled(seconds: float, msg: str) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TimeoutError(msg)

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _interrupted(seconds: float, msg: str) -> Iterator[None]:
    """Have another thread ask CPython to raise an error in this one, at the next step of Python that it makes.

    It asks again, because an error that comes while an object is thrown away is ignored by Python.
    """
    error = type("TimeoutError", (TimeoutError,), {"__str__": lambda _: msg})
    thread, raise_in = ctypes.c_ulong(threading.get_ident()), ctypes.pythonapi.PyThreadState_SetAsyncExc
    # locks themselves: what Python builds upon them an error in its midst would leave locked
    gate, at_work = threading.Lock(), threading.Lock()
    gate.acquire()
    at_work.acquire()

    def stop() -> None:
        pause = seconds
        while not gate.acquire(timeout=pause):
            raise_in(thread, ctypes.py_object(error))
            pause = AGAIN
        at_work.release()

    threading.Thread(target=stop, daemon=True).start()
    try:
        yield
    finally:
        ended = False
        while not ended:
            with suppress(TimeoutError):
                if gate.locked() and at_work.locked():
                    gate.release()
                while at_work.locked():
                    time.sleep(0.001)
                raise_in(thread, None)  # too late for an error that was asked for and has not come
                ended = True


def read_cell(
    path: Path, notes: list[str], numbers: Sequence[str], fits: Callable[[dict[str, Any]], bool] = lambda _: True
) -> dict[str, Any] | None:
    """Return the result in a cell's file, or None where there is none, or a damaged one, which is noted.

    Parameters
    ----------
    path : Path
        The file.
    notes : list of str
        Gets a sentence.
    numbers : sequence of str
        What must be there, and be a number.
    fits : callable, default=lambda _: True
        Whether the rest is as it must be.

    Returns
    -------
    dict or None
        The result.
    """
    if not path.is_file():
        return None
    found = None if path.is_symlink() else read_json(path)
    result = found.get("result") if isinstance(found, dict) else None
    if not isinstance(result, dict) or not all(is_number(result.get(name)) for name in numbers) or not fits(result):
        notes.append(f"{path.name} was damaged and is computed again.")
        return None
    return result


def is_number(value: Any) -> bool:
    """Whether an entry of a JSON file is a number that a result may be."""
    return type(value) in (int, float) and abs(value) < 1e12


def whole_cell(result: dict[str, Any], sizes: Sequence[int] | None = None) -> bool:
    """Whether features and curve of a cell's result are as `evaluate` returns them, for these sizes of the curve."""
    features, curve = result.get("features"), result.get("curve")
    shares = all(is_number(result[name]) for name in ("precision", "recall") if name in result)
    if not shares or not isinstance(features, list) or not isinstance(curve, dict):
        return False
    texts = all(isinstance(name, str) for name in features)
    known = sizes is None or {*curve} == {str(size) for size in sizes}
    return texts and known and all(re.fullmatch("[1-9][0-9]{0,8}", key) and is_number(curve[key]) for key in curve)


def _seconds(out: Path) -> dict[str, float]:
    """Return how long the selection of every cell took, as far as that is known."""
    path = out / "seconds.csv"
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    whole = (re.fullmatch(r"([0-9a-f]{24}),(\d+\.\d{6})", line) for line in lines)
    return {match[1]: float(match[2]) for match in whole if match is not None}
