"""Run cells of simulated data sets in blocks that are stored when finished, for errors.py and outcomes.py."""

import argparse
import os
import sys
import time
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import measure
import numpy as np
from cells import Cell
from pages import PageRun
from pool import run_tasks, time_limit
from records import Records, write_archive

ROOT = Path(__file__).parents[2]
#: Seconds that a block may take.
LIMIT = 600.0


@dataclass(frozen=True)
class Benchmark:
    """Cells, and the page that is written from their blocks."""

    page: str  # name of the page; finished blocks are in build/bench-PAGE
    description: str
    files: tuple[str, ...]  # files whose code decides the results of all cells
    all_cells: Callable[[Path], dict[str, Cell]]  # cells by name; its argument is the folder of the real tables
    write_tables: Callable  # all tables as text
    write_page: Callable  # the body of the page, and the tables of its CSV file
    long: tuple[str, ...] = ()  # parts of the names of cells that `--quick` leaves out


@cache
def source_of(page, files, packages):
    """Short hash of what decides a cell: answers of the page's groups, and code without comments and docstrings."""
    folder = Path(__file__).parent
    code = [measure.code_only((folder / f).read_text()) for f in files]
    return measure.key_of([*page.answers(), *([measure.source_digest(packages)] if packages else []), *code])


def simulate_block(task, cells):
    """Simulate a block of data sets; a tally is [measure, test, weights, totals], with one entry per data set."""
    name, block = task
    start, by_test, size = time.process_time(), {}, cells[name].block
    with time_limit(LIMIT), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(block * size, (block + 1) * size):
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
    """Finished blocks of data sets, of the present answers and simulation unless `any_source` is set."""

    def __init__(self, folder, sources, *, archive=None, any_source=False):
        self.records, self.sources, self.by_task, self.runs = Records(folder, archive), sources, {}, {}
        for record, run in self.records:
            if record["cell"] in sources and (any_source or record["source"] == sources[record["cell"]]):
                self._add((record["cell"], record["block"]), record, run)

    def _add(self, task, record, run):
        self.by_task[task], self.runs[task] = record, run

    def distinct_runs(self):
        """Return the runs that the blocks come from, the earliest first."""
        runs = {measure.key_of(run): run for run in self.runs.values()}
        return sorted(runs.values(), key=lambda run: run["date"])

    def write_archive(self, path):
        """Write all blocks in the order of cells and blocks."""
        write_archive(path, [(self.by_task[task], self.runs[task]) for task in sorted(self.by_task)])

    def append(self, task, result, run):
        """Store the result of a task at once."""
        record = {"cell": task[0], "block": task[1], "source": self.sources[task[0]], **result}
        self.records.append(record, run)
        self._add(task, record, run)

    def forget_failed(self):
        """Forget blocks that failed, so that they run again."""
        self.by_task = {task: record for task, record in self.by_task.items() if "error" not in record}


def run_missing(tasks, blocks, cells, options, about):
    """Simulate the blocks that are not stored; stop handing them out after `--seconds`."""
    if options.again:
        blocks.forget_failed()
    failed = {task[0] for task, record in blocks.by_task.items() if "error" in record}
    missing = [task for task in tasks if task not in blocks.by_task]
    sizes = " or ".join(map(str, sorted({cell.block for cell in cells.values()})))
    print(f"{len(tasks)} blocks of {sizes} data sets, {len(missing)} to be simulated", file=sys.stderr, flush=True)
    start = reported = time.perf_counter()

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


def parse_options(benchmark):
    parser = argparse.ArgumentParser(
        description=benchmark.description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--only", action="append", default=[], help="only cells whose name contains this; repeatable")
    add("--sets", type=int, help="data sets per cell, rounded up to whole blocks; default: those of each cell")
    add("--quick", action="store_true", help="a fifth of the data sets, without the longest cells")
    add("--list", action="store_true", help="print the names of the cells and stop")
    add("--jobs", type=int, default=os.cpu_count(), help="processes, one thread each")
    add("--seconds", type=float, help="start no new block after this time")
    add("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of the real tables")
    add("--cells", type=Path, default=ROOT / "build" / f"bench-{benchmark.page}", help="folder of finished blocks")
    add("--archive", type=Path, help="also read blocks of this file, and merge all blocks into it at the end")
    add("--again", action="store_true", help="run again what failed")
    add("--page-only", action="store_true", help="compute nothing")
    add("--any-source", action="store_true", help="also use blocks of other versions of the code; the page names them")
    add("--out", type=Path, help="also write the page to this Markdown file")
    return parser.parse_args()


def tasks_of(cells, options):
    """Return the blocks of all cells: the first block of every cell, then the second, so all cells grow together."""
    blocks = {}
    for cell in cells.values():
        n_sets = options.sets or (-(-cell.n_sets // 5) if options.quick else cell.n_sets)
        blocks[cell.name] = 0 if cell.missing else -(-n_sets // cell.block)
    rounds = max(blocks.values(), default=0)
    return [(name, block) for block in range(rounds) for name in cells if block < blocks[name]]


def main(benchmark):
    """Run a benchmark by the options of the command line."""
    options = parse_options(benchmark)
    cells = {
        name: cell
        for name, cell in benchmark.all_cells(options.data).items()
        if all(text in f"{name}/" for text in options.only)
    }
    if options.quick:
        cells = {name: cell for name, cell in cells.items() if not any(text in name for text in benchmark.long)}
    if options.list or not cells:
        print("\n".join(cells) or f"No name of a cell contains {' and '.join(options.only)}; --list prints all names.")
        return
    run = PageRun(benchmark.page)
    sources = {
        name: source_of(run.page, (*benchmark.files, *cell.files), cell.packages) for name, cell in cells.items()
    }
    blocks = Blocks(options.cells, sources, archive=options.archive, any_source=options.any_source)
    tasks = tasks_of(cells, options)
    if not options.page_only:
        run_missing(tasks, blocks, cells, options, run.about)
    if options.archive and not (options.only or options.quick):
        blocks.write_archive(options.archive)
    finished = [blocks.by_task[task] for task in tasks if task in blocks.by_task]
    print(benchmark.write_tables(cells.values(), finished))
    if options.out:
        body, tables = benchmark.write_page(cells.values(), finished)
        n_sets = "their number per row is in the tables"
        incomplete = why_incomplete(tasks, finished, options)
        run.write(options.out, body, n_sets, runs=blocks.distinct_runs(), incomplete=incomplete, tables=tables)


def why_incomplete(tasks, finished, options):
    """Return why a page is not that of all cells and the present code; nothing if it is."""
    if options.any_source:
        return "some data sets are of other versions of the code"
    if options.only or options.sets or options.quick:
        return "some cells or data sets were left out"
    return f"{len(finished)} of {len(tasks)} blocks of data sets are finished" * (len(finished) < len(tasks))
