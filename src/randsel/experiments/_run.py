"""Runs the cells of a comparison: computes those that are not finished, one file each, and reads the others.

A finished cell is a JSON file in the folder `cells`, named by a hash of everything that determines it; a failed cell
leaves no file. Times are in separate files (`cells/seconds.csv`, `runs.csv`), so that the other files are the same for
every run.
"""

import csv
import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import joblib

from randsel._utils.files import (
    check_folder,
    check_or_write_identity,
    lock_folder,
    open_for_append,
    read_json,
    write_atomically,
)
from randsel._utils.jobs import as_finished
from randsel._utils.processes import call_with_limit, end_idle_children
from randsel.culling import path_sizes
from randsel.experiments._cells import SCORES, Cell, build_cells, evaluate
from randsel.experiments._specification import Spec
from randsel.tables import Table
from randsel.targets import CLASSES

CELLS = "cells"  # folder of the files of finished cells
#: Function that is called with "cells", the number of cells done, and the number of all cells.
Progress = Callable[[str, float, float], None]


@dataclass(frozen=True)
class Outcome:
    """All cells of a specification: results and times of the finished ones, errors of the failed ones."""

    cells: tuple[Cell, ...]
    results: dict[str, dict[str, Any]]
    errors: dict[str, str]
    notes: tuple[str, ...]
    seconds: dict[str, float]


def run_comparison(
    spec: Spec,
    tables: dict[str, Table],
    out: Path,
    *,
    n_jobs: int | None = 1,
    timeout: float | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Run the cells that have no file in `out` / "cells" yet, `n_jobs` at a time; the others are read.

    A folder of other data, folds or seed is refused; methods and reshuffles may be added. `n_jobs=None` runs one cell
    at a time, or as many as a Dask cluster has threads (`on_cluster`). With a `timeout` in seconds, cells run in child
    processes, which are killed at the limit.
    """
    check_folder(out)
    out.mkdir(parents=True, exist_ok=True)
    with lock_folder(out):
        cells, notes = build_cells(spec, tables)
        check_or_write_identity(out, _identity(spec, cells), ("version", "data_hash", "parameters"))
        folder = out / CELLS
        folder.mkdir(exist_ok=True)
        results: dict[str, dict[str, Any]] = {}
        for cell in cells:
            is_complete = partial(is_complete_result, sizes=path_sizes(tables[cell.data].X.shape[1]))
            numbers = (*SCORES[cell.params["target"]], "n_features")
            if (result := read_cell(folder / f"{cell.key}.json", notes, numbers, is_complete)) is not None:
                results[cell.key] = result
        pending = [cell for cell in cells if cell.key not in results]
        errors: dict[str, str] = {}
        show, start = progress or (lambda *_: None), time.monotonic()
        show("cells", len(results), len(cells))
        tasks = [(evaluate, cell, tables[cell.data], timeout) for cell in pending]
        # with a time limit, threads are enough, because they only wait for child processes
        prefer = "processes" if timeout is None else "threads"
        try:
            for number, (result, error) in as_finished(_run_cell, tasks, n_jobs, prefer=prefer):
                cell = pending[number]
                if error:
                    errors[cell.key] = error
                else:
                    # written here, because the cell may have been computed on another machine
                    _write_cell(folder, cell, result)
                    results[cell.key] = result
                show("cells", len(results) + len(errors), len(cells))
        finally:
            end_idle_children()
        if pending:
            _log_run(out, spec, len(pending), n_jobs, time.monotonic() - start)
        return Outcome(tuple(cells), results, errors, tuple(notes), _read_seconds(folder))


def _identity(spec: Spec, cells: list[Cell]) -> dict[str, Any]:
    """Return the identity of a comparison: what all cells of a folder must have in common."""
    kinds = {cell.params["target"] for cell in cells}
    task = {} if kinds == {CLASSES.name} else {"task": ", ".join(sorted(kinds))}
    return {
        "version": version("randsel"),
        "comparison": spec.name,
        "data_hash": {cell.data: cell.fingerprint for cell in cells},
        "parameters": {"folds": spec.folds, "seed": spec.seed, **task},
    }


def _run_cell(
    function: Callable[[Cell, Table], dict[str, Any]], cell: Cell, table: Table, timeout: float | None
) -> tuple[dict[str, Any], str]:
    """Return the result of a cell and an empty text, or an empty result and the error message."""
    try:
        if timeout is None:
            return function(cell, table), ""
        result: tuple[dict[str, Any], str] = call_with_limit(timeout, _run_cell, function, cell, table, None)
        return result
    except Exception as error:  # a method may raise anything; the other cells continue
        return {}, f"{type(error).__name__}: {error}"


# ---------------------------------------------------------------- files


def _write_cell(folder: Path, cell: Cell, result: dict[str, Any]) -> None:
    """Write the result of a cell, and its time to a separate file, because times differ from run to run."""
    # the time comes first, so that every finished cell has one; of two times, the later one counts
    with open_for_append(folder / "seconds.csv") as file:
        file.write(f"{cell.key},{result.pop('seconds'):.6f}\n")
    content = {"cell": asdict(cell), "result": result}
    write_atomically(folder / f"{cell.key}.json", json.dumps(content, indent=1, sort_keys=True))


def read_cell(
    path: Path, notes: list[str], numbers: Sequence[str], is_complete: Callable[[dict[str, Any]], bool]
) -> dict[str, Any] | None:
    """Return the result in a cell's file; None if the file is missing or damaged, which is added to `notes`.

    The entries named in `numbers` must be numbers; `is_complete` returns whether the others are valid.
    """
    if not path.is_file():
        return None
    content = None if path.is_symlink() else read_json(path)
    result = content.get("result") if isinstance(content, dict) else None
    if isinstance(result, dict) and all(is_number(result.get(name)) for name in numbers) and is_complete(result):
        return result
    notes.append(f"{path.name} was damaged and is computed again.")
    return None


def is_number(value: Any) -> bool:
    """Return whether an entry of a JSON file is a number of plausible size."""
    return type(value) in (int, float) and abs(value) < 1e12


def is_complete_result(result: dict[str, Any], sizes: Sequence[int] | None = None) -> bool:
    """Return whether the features and the curve (at these sizes) have the form that `evaluate` returns."""
    features, curve = result.get("features"), result.get("curve")
    optional_numbers = all(is_number(result[name]) for name in ("precision", "recall") if name in result)
    if not optional_numbers or not isinstance(features, list) or not isinstance(curve, dict):
        return False
    texts = all(isinstance(name, str) for name in features)
    known = sizes is None or {*curve} == {str(size) for size in sizes}
    return texts and known and all(re.fullmatch("[1-9][0-9]{0,8}", key) and is_number(curve[key]) for key in curve)


def _read_seconds(folder: Path) -> dict[str, float]:
    """Return the time of the selection in every cell whose time is known."""
    path = folder / "seconds.csv"
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    complete = (re.fullmatch(r"([0-9a-f]{24}),(\d+\.\d{6})", line) for line in lines)
    return {match[1]: float(match[2]) for match in complete if match is not None}


def _log_run(out: Path, spec: Spec, computed: int, n_jobs: int | None, seconds: float) -> None:
    """Append a line to `runs.csv`: end, methods, cells, jobs, cores and minutes of this run."""
    with open_for_append(out / "runs.csv") as file:
        log = csv.writer(file, lineterminator="\n")
        if file.tell() == 0:
            log.writerow(["finished", "methods", "cells", "jobs", "cores", "minutes"])
        methods = "; ".join(method["name"] for method in spec.methods)
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
        # a cluster runs one job per core
        jobs, cores = [joblib.effective_n_jobs()] * 2 if n_jobs is None else [n_jobs, joblib.cpu_count()]
        log.writerow([now, methods, computed, jobs, cores, f"{seconds / 60:.1f}"])
