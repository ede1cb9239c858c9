"""Compare a Dask cluster on one machine with joblib's own processes, and measure how its time depends on workers.

python benchmarks/scale/cluster.py [--out docs/results/dask.md] [--repeats 3] [--features 20000]
"""

import argparse
import io
import os
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
from randsel import RandSel, StabilitySelection, datasets
from randsel.distributed import on_cluster

#: Name of the runs on workers that return freed memory at once, as Dask starts them.
DEFAULT_MEMORY = "Dask, default memory settings"
#: Largest acceptable ratio of the time of Dask to that of joblib.
WANTED = 1.30
#: Draws of the bootstrap, a third of the default of `RandSel`.
DRAWS = 1024
#: Half-samples, as many as `randsel select` draws by default.
HALVES = 50
#: Environment in which workers keep freed memory, up to the largest blocks for which glibc allows it. If only one of
#: the two is set, the other stays at its default, and every array of 128 kB takes fresh memory.
KEEP = {"MALLOC_TRIM_THRESHOLD_": 1 << 30, "MALLOC_MMAP_THRESHOLD_": 1 << 25}
#: Blocks of columns of the Dask array.
BLOCKS = 4


class Jobs:
    """The two kinds of jobs, on one table."""

    def __init__(self, features):
        X, self.y, _ = datasets.make_xor(500, features, random_state=0)
        self.X = X.astype(np.float32)

    def bootstraps(self):
        """Return the contributions by Algorithm 1."""
        # a tenth of the features is left after every round, so that nearly all the time goes to the whole table
        rounds = {"n_bootstraps": DRAWS, "drop": 0.9, "random_state": 0}
        return RandSel(2, estimator="bootstrap", **rounds).fit(self.X, self.y).contributions_

    def half_samples(self):
        """Return how often each feature is among the first 20 of a half-sample."""
        stability = StabilitySelection(RandSel(20), n_subsamples=HALVES, random_state=0)
        return stability.fit(self.X, self.y).probabilities_


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


def versus(jobs, repeats):
    """Return the fastest of some runs of each; runs alternate, so that other load on the machine affects both."""
    best, answers = {}, {}
    for _ in range(repeats):
        for name, there in (("joblib", processes(2)), ("Dask", cluster(2)), (DEFAULT_MEMORY, cluster(2, {}))):
            with there:
                for job in (jobs.bootstraps, jobs.half_samples):
                    taken, answers[name, job.__name__] = seconds(job)
                    key = name, job.__name__
                    best[key] = np.minimum(best.get(key, np.inf), taken)
    for (_, kind), answer in answers.items():
        np.testing.assert_array_equal(answer, answers["joblib", kind])
    return best


def scaling(jobs, repeats):
    """Seconds of bootstraps and of half-samples, by number of workers."""
    rows = []
    for workers in (1, 2, 3, 4):
        with cluster(workers):
            fastest = (min(seconds(job)[0][0] for _ in range(repeats)) for job in (jobs.bootstraps, jobs.half_samples))
            rows.append((workers, *fastest))
    return rows


def arrays(jobs, repeats):
    """Seconds of a path in memory, and by number of workers on a Dask array that the workers hold."""
    X, y = jobs.X, jobs.y
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
    samples, features = jobs.X.shape
    best, rows, (here, on_arrays) = versus(jobs, repeats), scaling(jobs, repeats), arrays(jobs, repeats)
    cores = len(os.sched_getaffinity(0))
    prices = [float(best["Dask", kind][0] / best["joblib", kind][0]) for kind in ("bootstraps", "half_samples")]
    price = f"{max(prices):.2f}"
    out.write(f"""\
**Dask's price: {price}.** On two processes each, Dask takes {min(prices):.2f} to {price} times as long as joblib.

{samples}×{features} numbers in single precision; {cores} cores. If the load is above {cores}, other programs ran as
well, and ratios of clock times are not reliable: Dask's processes wait for each other more often than joblib's. Seconds
of cores are those of client and workers together. Fastest of {repeats} run(s). Workers have imported everything before,
and keep the memory that they free ([how](../howto/large_tables.md#dask-arrays)), except in the rows with Dask's default
memory settings.

## Dask compared with joblib, two processes each

Both give the same answer to the bit, which is checked in this run. Goal: at most {WANTED:.2f}.

| jobs | joblib (loky), s | Dask, s | Dask / joblib | joblib, s of cores | Dask, s of cores | Dask / joblib |
|---|---|---|---|---|---|---|
""")
    words = {
        "bootstraps": f"bootstrap: 2×{DRAWS} draws a round",
        "half_samples": f"{HALVES} half-samples, their first 20 features",
    }
    for kind, name in words.items():
        for which, of_whom in (("Dask", name), (DEFAULT_MEMORY, f"{name}, default memory settings of Dask")):
            one, other = best["joblib", kind], best[which, kind]
            cells = [f"{one[k]:.2f} | {other[k]:.2f} | {other[k] / one[k]:.2f}" for k in (0, 1)]
            out.write(f"| {of_whom} | {' | '.join(cells)} |\n")
    out.write(f"""
## One to four workers on {cores} cores

| workers | bootstraps, s | speed-up | half-samples, s | speed-up |
|---|---|---|---|---|
""")
    _, first, first_half = rows[0]
    for workers, taken, halves in rows:
        out.write(f"| {workers} | {taken:.2f} | {first / taken:.2f} | {halves:.2f} | {first_half / halves:.2f} |\n")
    out.write(f"""
All workers run on the same {cores} cores, so more than {cores} of them gain nothing. What the tasks of a round share is
sent once, to the scheduler and from there to the workers.
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
A round waits twice for all blocks: for their sums over pairs of samples, and for their scores. When the features that
are left take no more memory than one block, they are sent to the client, which does the last rounds alone.
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
