"""Compute the bootstrap rows of a table on a GPU: Algorithm 1 draws as usual, and the GPU evaluates the kernels.

python benchmarks/speed/bootstrap_gpu.py table1|table2 OUT [--data FOLDER] [--jobs 12] [--device cuda] [--limit SECONDS]

With double precision and the same draws, contributions agree with those of `estimator="bootstrap"` up to rounding,
which is checked and printed first. OUT gets the cells' files, named as `randsel reproduce` names them, and runs.csv.
"""

import argparse
import os
import sys
import time
from pathlib import Path

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"
ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "src"))

import numpy as np
import torch

import randsel
from randsel import datasets
from randsel._numerics.kernels import UNDERFLOW
from randsel.contribution import _bootstrap as contribution
from randsel.contribution._sample import Sample
from randsel.experiments import _cells, _run
from randsel.experiments._specification import Spec, load_table
from randsel.targets._kinds import CLASSES
from randsel.targets._target import Target

#: Where kernels are evaluated; set by --device, in every process.
SETTINGS = {"device": "cuda"}
#: Bytes of the samples of draws evaluated at a time.
CHUNK_BYTES = 1 << 29


def alignments(sample, gamma, columns, rows):
    """Values of the draws, as `contribution.alignments` has them, and whether any kernel varied."""
    X = torch.as_tensor(sample.X, dtype=torch.float64, device=SETTINGS["device"])
    Y = torch.as_tensor(sample.target.Y, device=SETTINGS["device"])
    values, informative = [], False
    s = rows.shape[1]
    chunk = max(1, CHUNK_BYTES // (8 * s * max(s, columns.shape[1])))
    for start in range(0, len(rows), chunk):
        at = torch.as_tensor(rows[start : start + chunk], device=SETTINGS["device"])
        which = torch.as_tensor(columns[start : start + chunk], device=SETTINGS["device"])
        part = X[at[:, :, None], which[:, None, :]]
        gram = part @ part.transpose(1, 2)
        norms = gram.diagonal(dim1=1, dim2=2)
        kernels = torch.expm1((2 * gram - norms[:, :, None] - norms[:, None, :]).clamp(max=0) * gamma)
        kernels.diagonal(dim1=1, dim2=2).zero_()
        row_sums = kernels.sum(dim=2)
        informative |= bool((row_sums > 1 - s).any())
        target = Y[at]
        target = target - target.mean(dim=1, keepdim=True)
        inner = (target * (kernels @ target)).sum(dim=(1, 2))
        squares = kernels.square().sum(dim=(1, 2))
        norm_x = squares - 2 / s * row_sums.square().sum(dim=1) + (row_sums.sum(dim=1) / s) ** 2
        norm_y = (target.transpose(1, 2) @ target).square().sum(dim=(1, 2))
        flat = (norm_x <= 1e-13 * squares) | (norm_y <= 0)
        found = inner / (norm_x.clamp(min=0) * norm_y).sqrt()
        values.append(torch.where(flat, 0.0, found).cpu().numpy())
    return np.concatenate(values), informative


def mean_over_draws(sample, gamma, size, kind, draws):
    """Stand in for `contribution._mean_over_draws`: all batches of draws in a few calls of the device."""
    if sample.target.weights is not None or sample.fixed.any():
        msg = "only the plain bootstrap runs here."
        raise ValueError(msg)
    batches = range(-(-draws.n_bootstraps // contribution.BATCH))
    drawn = [contribution.draw_subsets(sample, size, (kind, batch), draws) for batch in batches]
    columns, rows = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
    values, informative = alignments(sample, gamma, columns, rows)
    if not informative:
        raise ValueError(UNDERFLOW.format(gamma))
    n = sample.X.shape[1]
    sums = np.bincount(columns.ravel(), weights=np.repeat(values, columns.shape[1]), minlength=n)
    return sums, np.bincount(columns.ravel(), minlength=n), float(values.mean())


def check():
    """Largest difference from the processor's contributions on one round, in units of their spread."""
    X, y, _ = datasets.make_xor(243, 100, random_state=5)
    sample = Sample.from_columns((X - X.mean(axis=0)) / X.std(axis=0), Target.encode(y, CLASSES))
    draws = contribution.Draws(3000, 0.25, 7)
    there = contribution.bootstrap(sample, 0.01, draws).relative
    contribution._mean_over_draws = mean_over_draws
    here = contribution.bootstrap(sample, 0.01, draws).relative
    return float(np.abs(here - there).max() / there.std())


def cell(arguments):
    at, table, out = arguments
    contribution._mean_over_draws = mean_over_draws
    _cells.version = _run.version = lambda _: randsel.__version__
    torch.set_num_threads(1)
    result, error = _run._run_cell(_cells.evaluate, at, table, None)
    if not error:
        _run._write_cell(out, at, result)
    return error


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=["table1", "table2"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, default=Path())
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--limit", type=float, default=1e9, help="start no cell after so many seconds")
    parser.add_argument("--cells", type=int, default=10**9, help="only so many, to try it")
    options = parser.parse_args()
    SETTINGS["device"] = options.device
    start = time.monotonic()
    print(f"largest difference of contributions from the processor's, in their standard deviations: {check():.1e}")
    _cells.version = _run.version = lambda _: randsel.__version__
    spec = Spec.load(ROOT / "src" / "randsel" / "experiments" / f"{options.table}.toml")
    spec = spec.only(["randSel (bootstrap)"])
    tables = {entry["name"]: load_table(entry, options.data) for entry in spec.data}
    # the widest first, so that no process is left alone with one at the end
    cells = sorted(_cells.build_cells(spec, tables)[0], key=lambda c: -tables[c.data].X.shape[1])[: options.cells]
    options.out.mkdir(parents=True, exist_ok=True)
    todo = [c for c in cells if not (options.out / f"{c.key}.json").exists()]
    done = 0
    with torch.multiprocessing.get_context("fork" if options.device == "cpu" else "spawn").Pool(
        options.jobs, initializer=SETTINGS.update, initargs=({"device": options.device},)
    ) as pool:
        for error in pool.imap_unordered(
            _timed, [(c, tables[c.data], options.out, start + options.limit) for c in todo]
        ):
            done += error == ""
            print(f"{done} of {len(todo)} cells, {time.monotonic() - start:.0f} s {error}", flush=True)
    name = "cpu" if options.device == "cpu" else torch.cuda.get_device_name()
    _run._log_run(options.out, spec, done, options.jobs, time.monotonic() - start)
    print(f"{done} cells on {name} with {options.jobs} processes: {(time.monotonic() - start) / 60:.1f} min")


def _timed(arguments):
    *rest, deadline = arguments
    return cell(rest) if time.monotonic() < deadline else "not started"


if __name__ == "__main__":
    main()
