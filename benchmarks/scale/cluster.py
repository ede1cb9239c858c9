"""Compare a Dask cluster on one machine with joblib's own processes, and measure how jobs scale with its workers.

python benchmarks/scale/cluster.py [--out docs/results/dask.md] [--repeats 3] [--features 20000]
"""

import argparse
import io
import os
import pickle
import sys
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

for name in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{name}_NUM_THREADS"] = "1"

sys.path.insert(0, str(Path(__file__).parents[1]))
import dask
import dask.array as da
import joblib
import numpy as np
import psutil
from pages import PageRun

from distributed import Client, LocalCluster, wait
from randsel import RandSel, datasets
from randsel._utils.jobs import ordered_map
from randsel.analysis._model import Settings
from randsel.analysis._resampling import _select_on_half
from randsel.distributed import _client as cluster_client
from randsel.distributed import on_cluster
from randsel.tables._read import Table
from randsel.targets._kinds import CLASSES

#: Largest acceptable ratio of the time of Dask to that of joblib.
WANTED = 1.30
#: Draws of the bootstrap, a third of what `RandSel` takes unless told otherwise.
DRAWS = 1024
#: Half-samples, what `randsel select` takes unless told otherwise.
HALVES = 50
#: Environment in which workers keep memory that they freed, up to blocks of the largest size that glibc allows for it.
#: One of the two alone would fix the other at its default, and every array of 128 kB would be fresh memory.
KEEP = {"MALLOC_TRIM_THRESHOLD_": 1 << 30, "MALLOC_MMAP_THRESHOLD_": 1 << 25}
#: Blocks of columns of the Dask array.
BLOCKS = 4


class Jobs:
    """The two kinds of jobs, on one table."""

    def __init__(self, features):
        X, y, _ = datasets.make_xor(500, features, random_state=0)
        self.table = Table(X.astype(np.float32), y, tuple(f"g{j}" for j in range(features)))

    def bootstraps(self):
        """Algorithm 1, a few rounds of it."""
        # a tenth of the features is left after every round, so that nearly all the time goes to the whole table
        how = {"n_bootstraps": DRAWS, "drop": 0.9, "random_state": 0}
        return RandSel(2, estimator="bootstrap", **how).fit(self.table.X, self.table.y).contributions_

    def half_samples(self):
        """As `randsel select` does."""
        settings = Settings(halves=HALVES)
        tasks = [(self.table, CLASSES, settings, 20, number) for number in range(HALVES)]
        return [found["selected"] for found in ordered_map(_select_on_half, tasks, None)]


def seconds(function):
    """Seconds of the clock, and of all cores for this process and those that it started; and what was returned."""
    start, spent = time.perf_counter(), cpu_seconds()
    result = function()
    return (time.perf_counter() - start, cpu_seconds() - spent), result


def cpu_seconds():
    this = psutil.Process()
    return sum(times.user + times.system for times in (p.cpu_times() for p in (this, *this.children(recursive=True))))


@contextmanager
def local(workers, environment):
    """Start a cluster of processes of one thread each."""
    how = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": ":0", "memory_limit": 0}
    with (
        dask.config.set({f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in environment.items()}),
        LocalCluster(n_workers=workers, **how) as made,
    ):
        yield made


@contextmanager
def cluster(workers, environment=KEEP):
    """Run the block on a cluster whose workers have already imported what the jobs need."""
    with local(workers, environment) as made, on_cluster(made.scheduler_address):
        small = Jobs(64)
        small.bootstraps()
        small.half_samples()
        yield


@contextmanager
def processes(count):
    """Run the block on joblib's own processes, with the same imports done before."""
    with joblib.parallel_config(backend="loky", n_jobs=count):
        small = Jobs(64)
        small.bootstraps()
        small.half_samples()
        yield


@contextmanager
def bytes_lent():
    """Count what is lent to the cluster, and how large it is."""
    sizes, sent = [], cluster_client._send

    def counted(client, thing):
        sizes.append(len(pickle.dumps(thing, protocol=5)))
        return sent(client, thing)

    cluster_client._send = counted
    try:
        yield sizes
    finally:
        cluster_client._send = sent


def nothing(number):
    return number


def versus(jobs, repeats):
    """Return the fastest of some runs of each; runs alternate, so that other load on the machine affects both."""
    best, answers = {}, {}
    for _ in range(repeats):
        for name, there in (("joblib", processes(2)), ("Dask", cluster(2)), ("Dask as it comes", cluster(2, {}))):
            with there:
                for job in (jobs.bootstraps, jobs.half_samples):
                    taken, answers[name, job.__name__] = seconds(job)
                    key = name, job.__name__
                    best[key] = np.minimum(best.get(key, np.inf), taken)
    for (_, kind), answer in answers.items():
        for one, other in zip(answers["joblib", kind], answer, strict=True):
            np.testing.assert_array_equal(one, other)
    return best


def scaling(jobs, repeats):
    """Seconds by number of workers; megabytes lent; milliseconds of a call, and of a task that does nothing."""
    rows = []
    for workers in (1, 2, 3, 4):
        with cluster(workers):
            with bytes_lent() as sizes:
                bootstraps = seconds(jobs.bootstraps)[0][0]
            lent = sum(sizes) / 1e6
            bootstraps = min([bootstraps] + [seconds(jobs.bootstraps)[0][0] for _ in range(repeats - 1)])
            halves = min(seconds(jobs.half_samples)[0][0] for _ in range(repeats))
            call, many = (
                min(seconds(lambda n=n: ordered_map(nothing, [(k,) for k in range(n)], None))[0][0] for _ in range(3))
                for n in (2, 200)
            )
        rows.append((workers, bootstraps, halves, lent, 1e3 * call, 1e3 * (many - call) / 198))
    return rows


def arrays(jobs, repeats):
    """Seconds of a path in memory, and by number of workers on a Dask array that the workers hold."""
    X, y = jobs.table.X, jobs.table.y
    fit = RandSel(2).fit
    taken = [seconds(lambda: fit(X, y))[0] for _ in range(repeats + 1)]
    here, selected = np.min(taken, axis=0), fit(X, y).get_support()
    rows = []
    for workers in (1, 2, 3, 4):
        with local(workers, KEEP) as made, Client(made) as client, warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # the table is sent with the graph, on purpose
            table = da.from_array(X, chunks=(len(X), -(-X.shape[1] // BLOCKS))).persist()
            wait(table)
            before = client.run(received)
            found = [seconds(lambda table=table: fit(table, y)) for _ in range(repeats + 1)]
            moved = sum(client.run(received).values()) - sum(before.values())
        # in single precision the places of features that hardly differ may
        np.testing.assert_array_equal(found[-1][1].get_support(), selected)
        rows.append((workers, *np.min([times for times, _ in found], axis=0), moved / len(found) / 1e6))
    return here, rows


def received(dask_worker):
    """Bytes that a worker had from others."""
    return sum(entry["total"] for entry in dask_worker.transfer_incoming_log)


def page(jobs, repeats):
    out = io.StringIO()
    samples, features = jobs.table.X.shape
    best, rows, (here, on_arrays) = versus(jobs, repeats), scaling(jobs, repeats), arrays(jobs, repeats)
    cores = len(os.sched_getaffinity(0))
    prices = [float(best["Dask", kind][0] / best["joblib", kind][0]) for kind in ("bootstraps", "half_samples")]
    price = f"{max(prices):.2f}"
    out.write(f"""\
**Dask's price: {price}.** On two processes each, Dask takes {min(prices):.2f} to {price} times as long as joblib.

{samples}×{features} numbers in single precision; {cores} cores. If the load is above {cores}, other programs ran as
well, and ratios of clock times are not reliable: Dask's processes wait for each other more often than joblib's. Seconds
of cores are those of client and workers together. Fastest of {repeats} run(s). Workers are warm, and keep the memory
that they freed, except in the rows "as it comes".

## Dask compared with joblib, two processes each

Both give the same answer to the bit, which is checked in this run. Goal: at most {WANTED:.2f}.

| jobs | joblib (loky), s | Dask, s | Dask / joblib | joblib, s of cores | Dask, s of cores | Dask / joblib |
|---|---|---|---|---|---|---|
""")
    words = {
        "bootstraps": f"bootstrap: 2×{DRAWS} draws a round",
        "half_samples": f"{HALVES} half-samples, culled to 2 features",
    }
    for kind, name in words.items():
        for which, of_whom in (("Dask", name), ("Dask as it comes", f"{name}, Dask as it comes")):
            one, other = best["joblib", kind], best[which, kind]
            cells = [f"{one[k]:.2f} | {other[k]:.2f} | {other[k] / one[k]:.2f}" for k in (0, 1)]
            out.write(f"| {of_whom} | {' | '.join(cells)} |\n")
    out.write(f"""
## One to four workers on {cores} cores

| workers | bootstraps, s | speed-up | half-samples, s | speed-up | lent, MB | a call, ms | a task, ms |
|---|---|---|---|---|---|---|---|
""")
    _, first, first_half, *_ = rows[0]
    for workers, taken, halves, lent, call, task in rows:
        out.write(
            f"| {workers} | {taken:.2f} | {first / taken:.2f} | {halves:.2f} | {first_half / halves:.2f} "
            f"| {lent:.0f} | {call:.0f} | {task:.1f} |\n"
        )
    out.write("""
What limits it: there are no more cores than that, so workers beyond them share, on a busy machine the first ones too.
What tasks share is lent once per round (the table says how much in all); it goes to the scheduler, to one worker, and
from there to the others. Every call of joblib waits in steps of a hundredth of a second, and every task passes through
the scheduler. On machines of their own workers add cores, and what is lent goes over the network once to each.
""")
    out.write(f"""
## Dask arrays

The full path of `RandSel` on the same table as a Dask array in {BLOCKS} blocks of columns that the workers hold.
Compared with the table in memory with one BLAS thread: {here[0]:.2f} s, {here[1]:.2f} s of cores. The two features that
are left are the same, which is checked in this run.

| workers | s | times that in memory | s of cores | times that in memory | between workers, MB |
|---|---|---|---|---|---|
""")
    for workers, clock, cores_, moved in on_arrays:
        out.write(
            f"| {workers} | {clock:.2f} | {clock / here[0]:.2f} | {cores_:.2f} | {cores_ / here[1]:.2f} "
            f"| {moved:.0f} |\n"
        )
    out.write("""
What limits it: a round waits twice for all blocks, for their sums over pairs of rows and for their scores; these sums
travel, and so does the matrix that scores are made with. Columns come to the client once what is left of them is no
larger than a block, and the last rounds are done there.
""")
    return out.getvalue(), {"dask_price": (price, "time of jobs with Dask divided by the time with joblib")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--features", type=int, default=20_000)
    options = parser.parse_args()
    run = PageRun("dask")
    text, figures = page(Jobs(options.features), options.repeats)
    print(text)
    if options.out is not None:
        run.write(options.out, text, "1", figures=figures)


if __name__ == "__main__":
    main()
