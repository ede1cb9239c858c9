"""Estimate the cost of a fit on a cluster: measure constants on one core, check the model, plan a 10⁶ × 10⁶ table.

python benchmarks/scale/scale.py [--out docs/results/scale.md] [--again] [--kept]

Measurements are kept in build/scale.json and not repeated. Formulas are in scale_model.py, tables in scale_page.py.
"""

import argparse
import inspect
import json
import logging
import pickle
import sys
import tempfile
import time
import warnings
from dataclasses import asdict, dataclass, field
from math import ceil
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import measure

measure.one_core()

import dask
import dask.array as da
import numpy as np
import polars
import psutil
import scale_model as model
import zarr
from pages import PageRun
from scale_model import ALL_ROWS, BY_ROWS, CHECKS, DISTINCT, FAR, GOAL, LARGE, NEAR, PEAK, ROWS, WIDTH, smallest_memory
from scale_page import page

from distributed import Client, LocalCluster, wait
from randsel import RandSel, datasets, read_blocks
from randsel._numerics.columns import ColumnSource, centre_rows, sum_blocks
from randsel._numerics.rank_functions import rank_functions
from randsel._numerics.standardise import standardise_columns
from randsel.contribution import Weighting, _closed_form
from randsel.contribution._bootstrap import Draws
from randsel.contribution._closed_form import exact
from randsel.contribution._sample import Sample
from randsel.culling import _rounds as culling
from randsel.distributed._columns import _call_on_block, _map_block
from randsel.targets._kinds import CLASSES
from randsel.targets._target import Target

logging.getLogger("distributed").setLevel(logging.ERROR)
ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "scale.json"
#: Settings of Dask for how much free memory a worker keeps.
KEEPING = [f"distributed.nanny.pre-spawn-environ.MALLOC_{name}_THRESHOLD_" for name in ("TRIM", "MMAP")]


#: Weighting of the default criterion, once there is a residual.
WEIGHTING = Weighting(residual=True)


@dataclass
class Notes:
    """Names of passes, and their seconds in this process."""

    passes: list = field(default_factory=list)
    seconds: float = 0.0


@dataclass
class Counted(ColumnSource):
    """Blocks of columns in memory, processed like those of a cluster worker; records the seconds of each pass."""

    held: list
    noted: "Notes"
    rows: object = None
    max_bytes: int = 0
    device: None = None

    @property
    def shape(self):
        """Rows and columns."""
        return len(self.held[0]) if self.rows is None else len(self.rows), sum(block.shape[1] for block in self.held)

    @property
    def dtype(self):
        """Data type of the blocks."""
        return self.held[0].dtype

    def map_blocks(self, width, function, *shared):
        """Record the seconds of all blocks, and the bytes of the results."""
        results, seconds = self._passed(_map_block, width, function, *shared)
        self._note(function, shared, seconds, 0.0, 0, sum(_bytes(result) for result in results))
        return iter([value for result in results for value in result])

    def sum_blocks(self, width, function, *shared):
        """Record the seconds of all blocks, the bytes of one result, and the seconds of adding two results."""
        results, seconds = self._passed(sum_blocks, width, function, *shared)
        start = time.process_time()
        total = results[0]
        for result in results[1:]:
            total = total + result
        self.noted.seconds += time.process_time() - start
        adding = (time.process_time() - start) / max(len(results) - 1, 1)
        self._note(function, shared, seconds, adding, _bytes(total), 0)
        return total

    def _passed(self, function, *arguments):
        start = time.process_time()
        distinct = {id(block): block for block in self.held}
        made = {key: _call_on_block(function, block, None, self.rows, *arguments) for key, block in distinct.items()}
        self.noted.seconds += time.process_time() - start
        seconds = (time.process_time() - start) * len(self.held) / len(distinct)
        return [made[id(block)] for block in self.held], seconds

    def _note(self, function, shared, seconds, adding, sums, results):
        name = getattr(function, "__qualname__", str(function))
        large = sum(argument.nbytes for argument in shared if isinstance(argument, np.ndarray))
        told = {"seconds": seconds, "adding": adding, "sums": sums, "results": results, "shared": large}
        self.noted.passes.append({"name": name, **told})

    def load(self, chosen):
        """Return the columns of a mask or of indices."""
        return centre_rows(np.concatenate(self.held, axis=1)[:, chosen], self.rows)

    def select(self, chosen):
        """Return the columns of a mask or of indices, in one block."""
        return Counted([np.concatenate(self.held, axis=1)[:, chosen]], self.noted, self.rows)

    def take_centred_rows(self, rows):
        """Return some rows."""
        return Counted(self.held, self.noted, rows)


def _bytes(result):
    return len(pickle.dumps(result, protocol=5))


def columns(m, n, seed=0):
    """Columns without any relation to the target, and two classes."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((m, n), dtype=np.float32), rng.integers(0, 2, m)


def one_round(sample, rows):
    """Compute one round on one block of rows: alignment and scores, as `culling.cull` does."""
    gamma = culling._bandwidth(sample.take_rows(rows), "median")
    notes = getattr(sample.X, "noted", Notes())
    notes.passes, notes.seconds, start = [], 0.0, time.process_time()
    culling._alignment(sample.take_rows(rows), gamma)
    _closed_form.closed_form(sample.take_rows(rows), gamma, WEIGHTING)
    return time.process_time() - start - notes.seconds, notes.passes


def spent(work, times=3):
    """Return the smallest CPU seconds of several calls, with child processes, because the machine may be busy."""
    found = []
    for _ in range(times):
        start = _processor_seconds()
        work()
        found.append(_processor_seconds() - start)
    return min(found)


def _processor_seconds():
    here = psutil.Process()
    return sum(sum(process.cpu_times()[:2]) for process in [here, *here.children(recursive=True)])


def far():
    """Measure rounds with columns in blocks, as on a cluster."""
    found = []
    for n in FAR:
        X, y = columns(ALL_ROWS, min(n, DISTINCT))
        held = [np.ascontiguousarray(X[:, start : start + WIDTH]) for start in range(0, X.shape[1], WIDTH)]
        del X
        held = (held * ceil(n / DISTINCT))[: ceil(n / WIDTH)]
        sample = Sample.from_columns(Counted(held, Notes()), Target.encode(y, CLASSES))
        rows = _closed_form.row_blocks(sample.target, Draws())[0]
        client, noted = one_round(sample, rows)

        def told(name, noted=noted):
            return sum(note[name] for note in noted)

        work = model.Work(
            n=n,
            passes=len(noted),
            sums=sum(note["sums"] > 0 for note in noted),
            worker=told("seconds"),
            adding=told("adding"),
            client=client,
            sum_bytes=told("sums"),
            result_bytes=told("results"),
            shared_bytes=told("shared"),
        )
        found.append({"work": asdict(work), "passes": noted})
    return found


def near():
    """Measure rounds with all columns in memory."""
    found = []
    for n in NEAR:
        X, y = columns(ALL_ROWS, n)
        sample = Sample.from_columns(X, Target.encode(y, CLASSES))
        rows = _closed_form.row_blocks(sample.target, Draws())[0]
        found.append((n, min(one_round(sample, rows)[0] for _ in range(1 if n > 1000 else 3))))
    return found


def peak():
    """Measure peak memory of a round in memory, and of a pass on a worker, as multiples of the block of rows."""
    X, y = columns(ALL_ROWS, PEAK)
    sample = Sample.from_columns(X, Target.encode(y, CLASSES))
    rows = _closed_form.row_blocks(sample.target, Draws())[0]
    _, _, whole = measure.measured(lambda: one_round(sample, rows), 600, most=1)
    piece = Sample.from_columns(Counted([X], Notes()), sample.target)
    _, _, block = measure.measured(lambda: one_round(piece, rows), 600, most=1)
    size = model.VALUE * ROWS * PEAK / 1e6
    return {"whole": whole / size, "block": block / size}


def rates():
    """Measure bytes per second of the operations on a block outside the passes."""
    X, y = columns(8 * ROWS, 4000)
    block = np.ascontiguousarray(X)
    rows = _closed_form.row_blocks(Target.encode(y, CLASSES), Draws())[0]
    slicing = spent(lambda: [centre_rows(block, rows) for _ in range(20)]) / 20
    standardising = spent(lambda: standardise_columns(block, None, True))
    functions = spent(lambda: rank_functions(X[:, :400], 4, np.ones(len(X)), np.zeros(400, bool)))
    return {
        "slicing": model.VALUE * len(rows) * block.shape[1] / slicing,
        "standardise": block.nbytes / standardising,
        "functions": len(X) * 400 / functions,
        "files": files(X),
    }


def files(X):
    """Measure bytes per second of reading blocks of columns from files in the cache of the operating system."""
    found = {}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), dask.config.set(scheduler="sync"):
        warnings.simplefilter("ignore")
        paths = {"Zarr": Path(folder) / "x.zarr", "Parquet": Path(folder) / "x.parquet"}
        group = zarr.open_group(str(paths["Zarr"]), mode="w")
        group.create_array("X", data=X, chunks=(len(X), 500))
        polars.DataFrame(X).write_parquet(paths["Parquet"])
        for name, path in paths.items():
            table = read_blocks(path, columns=500)
            seconds = spent(lambda table=table: [block.compute() for block in table.X.to_delayed()[0]])
            found[name] = X.nbytes / seconds
    return found


def scheduler(client):
    """Measure seconds per task and call; bytes per second between workers, to the client, and of rechunking."""
    first, second = client.scheduler_info(n_workers=-1)["workers"]

    def call(count):
        client.compute([dask.delayed(_nothing, pure=False)(number) for number in range(count)], sync=True)

    def seconds(count):
        return np.min([_here_and_elsewhere(lambda: call(count)) for _ in range(2)], axis=0)

    call(100)
    few, many = seconds(100), seconds(1000)
    here, elsewhere = (many - few) / 900
    turn = max(spent(lambda: [call(1) for _ in range(20)], times=1) / 20 - here - elsewhere, 0.0)
    big = client.submit(np.ones, LARGE // 8, workers=first)
    wait(big)
    carried = spent(lambda: client.submit(len, big, workers=second, pure=False).result(), times=1)
    gathered = spent(big.result, times=2)
    X = da.random.default_rng(0).standard_normal((8000, 4000), chunks=(1000, 4000), dtype=np.float32).persist()
    wait(X)
    rechunked = spent(lambda: wait(X.rechunk((8000, 500)).persist()), times=1)
    return {
        "task": here,
        "task of a worker": elsewhere,
        "turn": turn,
        "transfer": LARGE / carried,
        "gather": LARGE / gathered,
        "rechunk": X.nbytes / rechunked,
    }


def _here_and_elsewhere(work):
    """Return CPU seconds of this process (scheduler and client), and of the processes of the workers."""
    start, here = _processor_seconds(), time.process_time()
    work()
    here = time.process_time() - here
    return here, _processor_seconds() - start - here


def _nothing(number):
    return number


def checks(client):
    """Seconds of real fits on two workers."""
    found = []
    for m, n, width, smallest, little in CHECKS:
        X, y = columns(m, n)
        D = da.from_array(X, chunks=(m, width)).persist()
        wait(D)
        options = {"max_memory": smallest_memory(m, n)} if little else {}
        selector = RandSel(smallest, min_features=smallest, random_state=0, **options)
        start = time.perf_counter()
        seconds = spent(lambda selector=selector, D=D, y=y: selector.fit(D, y), times=1)
        found.append((seconds, time.perf_counter() - start))
        client.cancel(D)
    return found


def handed_back():
    """Time one of the checks on workers as Dask starts them, and on workers that keep freed memory for reuse."""
    (m, n, width, smallest, _), found = CHECKS[1], []
    X, y = columns(m, n)
    for settings in ({}, dict.fromkeys(KEEPING, 1 << 30)):
        with (
            dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB", **settings}),
            LocalCluster(n_workers=2, threads_per_worker=1, memory_limit=0, dashboard_address=None) as cluster,
            Client(cluster),
        ):
            D = da.from_array(X, chunks=(m, width)).persist()
            wait(D)
            selector = RandSel(smallest, min_features=smallest, max_memory=smallest_memory(m, n), random_state=0)
            found.append(spent(lambda selector=selector, D=D: selector.fit(D, y), times=1))
    return found


def idle(client):
    """Return CPU seconds per second of scheduler, client and two workers that are idle."""
    wait(client.submit(_nothing, 0))
    start = _processor_seconds()
    time.sleep(30)
    return (_processor_seconds() - start) / 30


def by_rows(client):
    """Time a round whose tasks are blocks of rows, each on the worker that holds the block."""
    n_blocks, n = BY_ROWS
    X, y = columns(n_blocks * ROWS, n)
    parts = [slice(start, start + ROWS) for start in range(0, len(X), ROWS)]
    held = [client.scatter((X[part], y[part])) for part in parts]
    wait(held)
    return spent(lambda: client.gather(client.map(_round_of_rows, held, pure=False)), times=2)


def _round_of_rows(held):
    X, y = held
    sample = Sample.from_columns(X - X.mean(axis=0), Target.encode(y, CLASSES))
    gamma = culling._bandwidth(sample, "median")
    found = _closed_form.closed_form(sample, gamma)
    return culling._alignment(sample, gamma), np.stack([found.relative, found.main, found.interaction])


def fewer_blocks():
    """Scores of an XOR pair by all blocks of rows, and by a quarter of them."""
    X, y, relevant = datasets.make_xor(40_000, 30, random_state=0)
    Z, _ = standardise_columns(X.astype(np.float32), None, True)
    sample = Sample.from_columns(Z, Target.encode(y, CLASSES))
    score = {count: exact(sample, 1 / 60, Draws(n_bootstraps=count)).interaction[relevant].mean() for count in (40, 10)}
    return {str(count): float(value) for count, value in score.items()}


def tall():
    """Fit a million samples, of which 20 blocks are used; return seconds and the megabytes that the fit adds."""
    X, y = columns(GOAL, 8)
    start = time.process_time()
    _, _, megabytes = measure.measured(lambda: RandSel(2, n_bootstraps=20, random_state=0).fit(X, y), 1800, most=1)
    return {"seconds": time.process_time() - start, "megabytes": megabytes, "table": X.nbytes / 1e6}


# memory is measured first, because freed memory that is reused would lower it
MEASURED = {
    "peak": peak,
    "far": far,
    "near": near,
    "rates": rates,
    "fewer": fewer_blocks,
    "tall": tall,
    "handed back": handed_back,
}
ON_CLUSTER = {"scheduler": scheduler, "checks": checks, "by rows": by_rows, "idle": idle}


def measured(again):
    """Return all measurements; those stored by the same code are not repeated."""
    found = {} if again or not KEPT.exists() else json.loads(KEPT.read_text())
    for name, function in MEASURED.items():
        _kept(found, name, function)
    if any(found.get(name, {}).get("key") != _key(function) for name, function in ON_CLUSTER.items()):
        with (
            dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}),
            LocalCluster(n_workers=2, threads_per_worker=1, memory_limit=0, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            for name, function in ON_CLUSTER.items():
                _kept(found, name, function, client)
    return {name: record["found"] for name, record in found.items()}


def _kept(found, name, function, *arguments):
    if found.get(name, {}).get("key") != _key(function):
        found[name] = {"key": _key(function), "found": function(*arguments)}
        print(name, json.dumps(found[name]["found"])[:400], file=sys.stderr, flush=True)
        KEPT.parent.mkdir(exist_ok=True)
        KEPT.write_text(json.dumps(found, indent=1))


def _key(function):
    parts = [inspect.getsource(part) for part in (function, Counted, one_round, spent)]
    return measure.key_of([*parts, CHECKS if function in (checks, handed_back) else None, measure.source_digest()])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="write the page to this Markdown file")
    parser.add_argument("--again", action="store_true", help="measure again")
    parser.add_argument("--kept", action="store_true", help="only print what is kept, though the code changed since")
    options = parser.parse_args()
    run = PageRun("scale")
    if options.kept:
        found = {name: record["found"] for name, record in json.loads(KEPT.read_text()).items()}
    else:
        found = measured(options.again)
    text, ratios = page(found)
    print(text)
    if options.out:
        run.write(options.out, text, "1 per figure", incomplete="measured by other code" * options.kept)
    if not all(0.5 <= ratio <= 2.0 for ratio in ratios):
        sys.exit("The formula is off by more than a factor of two: a term is missing.")


if __name__ == "__main__":
    main()
