"""Measure size and power of the p-values of features, pairs and selections, compared with tests that suit the data.

python benchmarks/quality/errors.py [--only TEXT] [--sets N] [--quick] [--jobs 2] [--seconds S] [--data FOLDER]
                                    [--cells FOLDER] [--again] [--list] [--page-only] [--out docs/results/errors.md]

`--only size/classes --sets 50` measures the cells whose name contains the text, on 50 data sets each, and prints the
table; `--only` may be repeated, and "n 30/" does not match "n 300". Finished blocks of data sets are appended to a file
in the folder of cells. They are not computed again unless the package or the simulation has changed.
"""

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

import argparse
import ast
import platform
import sys
import time
import warnings
import zlib
from functools import cache, partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import measure
import numpy as np
import scipy
from errors_page import write_page, write_tables
from errors_power import power_cells
from errors_size import size_cells
from pool import run_tasks, time_limit
from records import Records

from randsel import __version__

ROOT = Path(__file__).parents[2]
#: Data sets per task; a task is what is stored at once.
BLOCK = 10
#: Seconds that a block may take.
LIMIT = 600.0
#: Files whose code decides the result of a cell.
SIMULATION = ("errors_cells.py", "errors_data.py", "errors_tests.py", "errors_size.py", "errors_power.py")
#: Cells that `--quick` leaves out, because they take longer than a minute on few data sets.
LONG = ("1000 SNPs",)


@cache
def source():
    """Short name of the code of the package and of the simulation, without comments and docstrings."""
    folder = Path(__file__).parent
    return measure.key_of(
        [measure.source_digest(), *(ast.dump(ast.parse((folder / f).read_text())) for f in SIMULATION)]
    )


def all_cells(folder):
    """Return cells by name; `folder` holds the real tables."""
    return {cell.name: cell for cell in (*size_cells(folder), *power_cells())}


def simulate_block(task, cells):
    """Simulate ten data sets of a cell; a tally is [measure, test, weights, totals], with one entry per data set."""
    name, block = task
    start, by_test = time.process_time(), {}
    with time_limit(LIMIT), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(block * BLOCK, (block + 1) * BLOCK):
            for tally in cells[name].simulate(np.random.default_rng([zlib.crc32(name.encode()), seed])):
                weights, totals = by_test.setdefault((tally.measure, tally.test), ([], []))
                weights.append(tally.weight)
                totals.append(round(tally.total, 6))
    return {
        "tallies": [[*key, *sums] for key, sums in by_test.items()],
        "seconds": round(time.process_time() - start, 3),
    }


# ---------------------------------------------------------------- store


class Blocks:
    """Finished blocks of data sets of the present package and simulation."""

    def __init__(self, folder):
        self.records, self.by_task, self.runs = Records(folder), {}, []
        for record, run in self.records:
            if record["source"] == source():
                self._add((record["cell"], record["block"]), record, run)

    def _add(self, task, record, run):
        self.by_task[task] = record
        if run not in self.runs:
            self.runs.append(run)

    def append(self, task, result, run):
        """Store the result of a task at once."""
        record = {"cell": task[0], "block": task[1], "source": source(), **result}
        self.records.append(record, run)
        self._add(task, record, run)

    def forget_failed(self):
        """Forget blocks that failed, so that they run again."""
        self.by_task = {task: record for task, record in self.by_task.items() if "error" not in record}


def run_missing(tasks, blocks, cells, options):
    """Simulate the blocks that are not stored; stop handing them out after `--seconds`."""
    if options.again:
        blocks.forget_failed()
    failed = {task[0] for task, record in blocks.by_task.items() if "error" in record}
    missing = [task for task in tasks if task not in blocks.by_task]
    print(f"{len(tasks)} blocks of {BLOCK} data sets, {len(missing)} to be simulated", file=sys.stderr, flush=True)
    start = reported = time.perf_counter()
    about = {
        "commit": options.commit or measure.commit(),
        "date": time.strftime("%Y-%m-%d"),
        "processor": measure.processor(),
        "versions": {
            "Python": platform.python_version(),
            "randsel": __version__,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
        },
    }

    def waiting():
        for task in missing:
            if options.seconds and time.perf_counter() - start > options.seconds:
                return
            if task[0] not in failed:
                yield task

    for count, (task, result) in enumerate(
        run_tasks(waiting(), partial(simulate_block, cells=cells), options.jobs), start=1
    ):
        if "error" in result:
            failed.add(task[0])
            print(f"{task[0]}: {result['error']}", file=sys.stderr, flush=True)
        blocks.append(task, result, about)
        if time.perf_counter() - reported > 10.0:
            reported = time.perf_counter()
            print(f"{count} of {len(missing)} after {reported - start:.0f} s", file=sys.stderr, flush=True)


# ---------------------------------------------------------------- command line


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="only cells whose name contains this; repeatable")
    parser.add_argument("--sets", type=int, help="data sets per cell, rounded up to tens; default: those of each cell")
    parser.add_argument("--quick", action="store_true", help="a fifth of the data sets, without the longest cells")
    parser.add_argument("--list", action="store_true", help="print the names of the cells and stop")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes, one thread each")
    parser.add_argument("--seconds", type=float, help="start no new block after this time")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of the real tables")
    parser.add_argument("--cells", type=Path, default=ROOT / "build" / "bench-errors", help="folder of finished blocks")
    parser.add_argument("--again", action="store_true", help="run again what failed")
    parser.add_argument("--commit", help="name of the commit, where git is not available")
    parser.add_argument("--page-only", action="store_true", help="compute nothing")
    parser.add_argument("--out", type=Path, help="also write the page to this Markdown file")
    return parser.parse_args()


def tasks_of(cells, options):
    """Return the blocks of all cells: the first block of every cell, then the second, so all cells grow together."""
    blocks = {}
    for cell in cells.values():
        n_sets = options.sets or (-(-cell.n_sets // 5) if options.quick else cell.n_sets)
        blocks[cell.name] = 0 if cell.missing else -(-n_sets // BLOCK)
    rounds = max(blocks.values(), default=0)
    return [(name, block) for block in range(rounds) for name in cells if block < blocks[name]]


def main():
    options = parse_options()
    cells = {
        name: cell for name, cell in all_cells(options.data).items() if all(text in f"{name}/" for text in options.only)
    }
    if options.quick:
        cells = {name: cell for name, cell in cells.items() if not any(text in name for text in LONG)}
    if options.list or not cells:
        print("\n".join(cells) or f"No name of a cell contains {' and '.join(options.only)}; --list prints all names.")
        return
    blocks = Blocks(options.cells)
    tasks = tasks_of(cells, options)
    if not options.page_only:
        run_missing(tasks, blocks, cells, options)
    finished = [blocks.by_task[task] for task in tasks if task in blocks.by_task]
    print(write_tables(cells.values(), finished))
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(write_page(cells.values(), finished, blocks.runs))


if __name__ == "__main__":
    main()
