"""Write the measurements and estimates of scale.py as a page of tables."""

import re
from dataclasses import replace
from math import ceil
from pathlib import Path

import numpy as np
import scale_model as model
from scale_model import BY_ROWS, CHECKS, DISTINCT, GOAL, LARGE, PEAK, ROWS, VALUE, WIDTH, Cluster, Task, smallest_memory

from randsel import guarantees
from randsel._numerics.columns import memory_for_columns
from randsel._utils.text import as_markdown
from randsel.culling._path import path_sizes
from randsel.distributed._columns import MEMORY_FRACTION
from randsel.distributed._tables import BLOCK_BYTES

RESULTS = Path(__file__).parents[2] / "docs" / "results"
#: What a pass is called on the page, and how many multiplications and additions it has per column, in units of s².
PASSES = {
    "_moments_of_block": ("moments", 0),
    "PairSums.of_block": ("Gram matrix", 1),
    "_fourth_order_of_block": ("second order", 3),
    "_smooth_forms": ("quadratic forms", 1),
}
#: Columns of a block in the scan of pairs.
PAIR_WIDTH = 1000


def constants(found):
    """Return the measurements that the formulas use."""
    cluster, rates = found["scheduler"], found["rates"]
    return model.Constants(
        rows=ROWS,
        far=tuple(model.Work(**point["work"]) for point in found["far"]),
        near=tuple((n, seconds) for n, seconds in found["near"]),
        task=cluster["task"],
        worker_task=cluster["task of a worker"],
        turn=cluster["turn"],
        transfer=cluster["transfer"],
        gather=cluster["gather"],
        read=rates["files"]["Zarr"],
        standardise=rates["standardise"],
        peak=found["peak"]["whole"],
    )


def measured_constants(found):
    """Return a table of the measured constants, each with the data that it was measured on."""
    cluster, rates, peak = found["scheduler"], found["rates"], found["peak"]
    files, large = rates["files"], f"{LARGE >> 20} MB"
    block = f"a block of {PEAK} columns, {ROWS} of its rows"
    rows = [
        (
            "reading blocks of columns, Zarr",
            files["Zarr"],
            "B/s",
            "8000×4000, 500 columns a block, from the page cache",
        ),
        ("reading blocks of columns, Parquet", files["Parquet"], "B/s", "the same"),
        ("standardising", rates["standardise"], "B/s", "a block of 8000×4000"),
        ("taking rows out of a block, centring", rates["slicing"], "B/s", f"{ROWS} of 8000 rows, 4000 columns"),
        ("blocks of rows to blocks of columns", cluster["rechunk"], "B/s", "8000×4000, all processes together"),
        ("from one worker to another", cluster["transfer"], "B/s", f"{large} over loopback, both ends together"),
        ("from a worker to the client", cluster["gather"], "B/s", f"{large} over loopback, through the scheduler"),
        ("a task: scheduler and client", cluster["task"], "s", "1000 that do nothing, less 100"),
        ("a task: worker", cluster["task of a worker"], "s", "the same"),
        ("a call that waits for its tasks", cluster["turn"], "s", "one task that does nothing"),
        ("functions of ranks, for pairs", rates["functions"], "values/s", "8000×400, 4 functions"),
        (
            "memory of a round in memory",
            peak["whole"],
            "× the rows used",
            f"{ROWS}×{PEAK}; resident, what is added",
        ),
        ("memory of a worker in a round", peak["block"], "× the rows used", block),
    ]
    return as_markdown([{"what": what, "measured": f"{value:.3g} {unit}", "on": on} for what, value, unit, on in rows])


def passes(found):
    """Seconds of every pass over a block of rows, by columns."""
    return as_markdown([_passes(point["work"], point["passes"]) for point in found["far"]])


def _passes(work, noted):
    said = []
    for name, (title, products) in PASSES.items():
        times = [note["seconds"] for note in noted if note["name"] == name]
        # up to 8 s columns the Gram matrix comes with the second order
        count = products + 3 if name == "PairSums.of_block" and work["n"] <= 8 * ROWS else products
        if times:
            rate = count * ROWS**2 * work["n"] * len(times) / sum(times) / 1e9
            said.append(f"{len(times)} × {title}: {sum(times):.3g}" + (f" ({rate:.0f} GFLOP/s)" if count else ""))
    return {
        "columns": f"{work['n']}",
        "passes, s": "; ".join(said),
        "client, s": f"{work['client']:.3g}",
        "matrices of a block, MB": f"{work['sum_bytes'] / 1e6:.3g}",
        "adding two blocks, s": f"{work['adding']:.2g}",
        "results, MB": f"{work['result_bytes'] / 1e6:.3g}",
    }


def checks(found):
    """Return a table of predicted and measured seconds, and their ratios."""
    rows, ratios = [], []
    known = replace(constants(found), read=np.inf)
    for (m, n, width, smallest, little), (seconds, wall) in zip(CHECKS, found["checks"], strict=True):
        room = memory_for_columns(smallest_memory(m, n), m, n) if little else model.usual_room(m, width)
        task = Task(m, n, width, room, round(m / ROWS), smallest)
        ways = _ways(task, known)
        terms = model.plan(task, known, Cluster(1, 1, np.inf, known.transfer, workers_each=2))
        terms["waiting"] = found["idle"] * wall
        ratios.append(model.seconds(terms) / seconds)
        rows.append(
            {
                "samples × features": f"{m}×{n}",
                "columns a block": f"{width}",
                "to features": f"{smallest}",
                "max_memory": "the least" if little else "none",
                "rounds": ways,
                "predicted, s": f"{model.seconds(terms):.3g}",
                "measured, s": f"{seconds:.3g}",
                "ratio": f"{ratios[-1]:.2f}",
                "without waiting": f"{(model.seconds(terms) - terms['waiting']) / seconds:.2f}",
                "clock, s": f"{wall:.0f}",
                "largest terms": shares(terms),
            }
        )
    return as_markdown(rows), ratios


def _ways(task, known):
    """Return how many rounds take each route."""
    count = {"one worker each": 0, "all workers": 0, "client": 0}
    for held in model.rounds(task, kept=True):
        whole = VALUE * task.m * held.n <= task.room
        there = VALUE * known.rows * held.n > task.room
        each = held.one_worker_each(task, known)
        count["client" if whole else "one worker each" if each else "all workers" if there else "client"] += 1
    return ", ".join(f"{number} {way}" for way, number in count.items() if number)


def by_rows(found):
    """Return predicted and measured seconds of one round of `plan_by_rows`."""
    (n_blocks, n), known = BY_ROWS, constants(found)
    predicted = n_blocks * (known.in_memory(n) + known.per_task(1) + 3 * 8 * n / known.gather) + known.turn
    return f"{n_blocks} of {ROWS}×{n} are predicted to take {predicted:.2g} s, and took {found['by rows']:.2g} s"


def memory():
    """Compare the estimates of `memory_for_columns` with measurements and growth on other pages."""
    large, growth = ((RESULTS / name).read_text() for name in ("large.md", "growth.md"))
    cases = re.findall(r"\| (?:full path|many samples), (\d+)×(\d+) float32[^|]*\| [\d.]+ \| (\d+) \|", large)
    of_features, of_samples = growth.split("## Against samples")
    for text, shape in ((of_features, "100 {}"), (of_samples, "{} 200")):
        size, added = re.findall(r"\| (\d+) \| [\d.]+ \| (\d+) \|", text)[-1]
        cases.append((*shape.format(size).split(), added))
    rows = [
        {
            "samples × features": f"{m}×{n}",
            "reckoned with, MB": f"{reckoned(int(m), int(n)) / 1e6:.0f}",
            "measured, MB": f"{added}",
        }
        for m, n, added in cases
    ]
    powers = re.findall(r"time grows with the power ([\d.]+)", growth)
    return as_markdown(rows), f"{powers[0]} of the features, {powers[1]} of the samples"


def reckoned(m, n):
    """Bytes in addition to X by the rule of `memory_for_columns`, for a float32 table in memory."""
    least = smallest_memory(m, n)
    return least + columns_factor() * (VALUE * m * n - memory_for_columns(least, m, n))


def columns_factor():
    """Number of copies of the columns in memory that `memory_for_columns` assumes."""
    one, two = (memory_for_columns(allowed, 100, 100) for allowed in (10**12, 2 * 10**12))
    return 10**12 / (two - one)


def shares(terms):
    """Return the largest terms, with their fractions of the total."""
    whole = model.seconds(terms)
    sorted_ = sorted(((value / whole, name) for name, value in terms.items() if name != "bytes"), reverse=True)
    return ", ".join(f"{name} {share:.0%}" for share, name in sorted_[:3] if share >= 0.005)


def plans(found):
    """Return plans for a million features: the one of the package, one with narrow blocks of columns, one by rows."""
    known, rows = constants(found), []
    for m in (GOAL, GOAL // 10):
        task = _goal(m)
        for machines in (8, 32, 128):
            cluster, table = Cluster(machines), VALUE * m * GOAL
            all_memory = machines * cluster.memory
            kept = "kept" if table < MEMORY_FRACTION * all_memory else "read again"
            best, terms = model.best_plan(task, known, cluster)
            rows.append(_plan(m, machines, "as it is", kept, f"{best} columns", terms))
            width, terms = model.best_plan(task, known, cluster, narrow=True)
            if width != best:
                rows.append(_plan(m, machines, "as it is, narrow blocks", kept, f"{width} columns", terms))
            if table < 0.75 * all_memory:
                terms = model.plan_by_rows(replace(task, room=0), known, cluster)
                rows.append(_plan(m, machines, "by rows", "kept", f"{ROWS} rows", terms))
    return as_markdown(rows)


def _goal(m):
    """Plan a million features, with the smallest memory of the client that is allowed."""
    return Task(m, GOAL, 0, memory_for_columns(smallest_memory(m, GOAL), m, GOAL), m // ROWS)


def first_round(found):
    """Return core hours and number of all rounds, and tasks and results of the first round, on 128 machines."""
    known = constants(found)
    sizes, n_blocks = path_sizes(GOAL), GOAL // ROWS
    width, terms = model.best_plan(_goal(GOAL), known, Cluster(128))
    tasks = n_blocks * (ceil(GOAL / width) + 1)
    return {
        "hours": n_blocks * sum(known.in_memory(n) for n in sizes) / 3600,
        "n_rounds": len(sizes),
        "wide": width,
        "block": volume(VALUE * GOAL * width),
        "tasks": tasks,
        "of_tasks": duration(terms["tasks"]),
        "come_back": volume(n_blocks * 3 * 8 * GOAL),
    }


def cut(found):
    """Return the time to rechunk a table of a million samples and features, by number of machines."""
    table, said = VALUE * GOAL**2, []
    for cluster in map(Cluster, (8, 32, 128)):
        rate = min(found["scheduler"]["rechunk"] * cluster.all_cores, cluster.network * cluster.machines)
        said.append(f"{duration(table / rate)} on {cluster.machines} machines")
    return ", ".join(said)


def _plan(m, machines, how, kept, block, terms):
    return {
        "samples": f"{m}",
        "machines": f"{machines}",
        "how": how,
        "table": kept,
        "a block": block,
        "time": duration(model.seconds(terms)),
        "travels": volume(terms["bytes"]),
        "largest terms": shares(terms),
    }


def held():
    """Return how much of a Dask array of a million features the client may hold."""
    rows = []
    for m in (GOAL // 100, GOAL // 10, GOAL):
        width = BLOCK_BYTES // (VALUE * m)
        least, usual = smallest_memory(m, GOAL), model.usual_room(m, width)
        room = memory_for_columns(least, m, GOAL)
        rows.append(
            {
                "samples": f"{m}",
                "table": volume(VALUE * m * GOAL),
                f"{ROWS} rows of it": volume(VALUE * ROWS * GOAL),
                "columns of a block of `read_blocks`": f"{width}",
                "held without max_memory": f"{volume(usual)}: {usual // (VALUE * ROWS)} columns",
                "least max_memory": volume(least),
                "held with it": f"{volume(room)}: {room // (VALUE * ROWS)} columns",
            }
        )
    return as_markdown(rows)


def fewer(found):
    """Return the loss from using fewer blocks of rows, and the smallest contributions that the guarantees cover."""
    many, few = found["fewer"]["40"], found["fewer"]["10"]
    said = (
        f"Interaction score of an XOR pair among 30 features, 40000 samples: {many:.1f} by all 40 blocks of rows, "
        f"{few:.1f} by 10 of them (`n_bootstraps=10`): a ratio of {many / few:.2f}, where √(40/10) = 2 is expected."
    )
    n_rounds, rows = len(path_sizes(GOAL)), []
    for m in (GOAL // 100, GOAL // 10, GOAL):
        etas = np.geomspace(1e-3, 1.0, 3001)
        kept = next(
            eta for eta in etas if guarantees.failure_probability(m, eta, n_features=GOAL, n_rounds=n_rounds) <= 0.05
        )
        rows.append({"samples in a round": f"{m}", "least contribution that is kept": f"{kept:.3f}"})
    return said, as_markdown(rows)


def pairs(found):
    """Return the time to scan all pairs, from rates measured for other pages, and those rates."""
    gpu, plink = ((RESULTS / name).read_text() for name in ("gpu.md", "plink.md"))
    continuous, genotypes = (float(rate) * 1e12 for rate in re.findall(r"([\d.]+)·10¹² pairs × samples", gpu))
    core = float(re.search(r"scan alone \| [\d.]+ \| ([\d.e+]+)", plink)[1])
    functions, cluster, rows = found["rates"]["functions"], Cluster(128), []
    for n, m in ((GOAL, GOAL), (GOAL, GOAL // 100), (GOAL // 10, GOAL), (GOAL // 10, GOAL // 10)):
        work, blocks = n * (n - 1) / 2 * m, n / PAIR_WIDTH
        travels = blocks / 2 * n * m * VALUE
        rows.append(
            {
                "features × samples": f"{n} × {m}",
                "H200, genotypes": duration(work / genotypes),
                "H200, 4 functions": duration(work / continuous),
                "functions on it, 2 or 4": f"{volume(4 * n * m)} or {volume(8 * n * m)}",
                "4096 cores, genotypes": duration(work / core / cluster.all_cores),
                "functions of a task": volume(2 * PAIR_WIDTH * 2 * VALUE * m),
                "functions made anew": duration(blocks * n * m / functions / cluster.all_cores),
                "columns that travel": f"{volume(travels)}, {duration(travels / cluster.network / cluster.machines)}",
            }
        )
    return f"{genotypes:.2g} and {continuous:.2g} on the device, {core:.3g} on a core", as_markdown(rows)


def duration(seconds):
    """Years, days, hours, minutes or seconds."""
    for unit, size in (("years", 365.25 * 86400), ("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.2g} s"


def volume(size):
    """Bytes in a unit of their size."""
    for unit, factor in (("EB", 1e18), ("PB", 1e15), ("TB", 1e12), ("GB", 1e9)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size / 1e6:.3g} MB"


PAGE = """\
Seconds are those of the processor on one core, of all processes that take
part, so that others who use the machine count for little. Tables are float32. What it means is on [the page on
scale](../howto/large_tables.md).

## Memory and time on one machine

By the rule that `max_memory` is checked with (`memory_for_columns`: 160 bytes per pair of samples, of 2000 at most, 320
per feature, and {factor:.1f} times the columns in memory), compared with what [large tables](large.md) and
[growth](growth.md) measured:

{memory}

Time of a path grows with the power {powers} ([growth](growth.md)).

## Constants

{constants}

## A round on one block of {rows} rows, columns on the cluster

Blocks of {width} columns, on which the functions that workers call are called; the client's share is the rest of what
`culling` and `closed_form` do. Above {distinct} columns they are there several times, worked on once and counted as
often. Moments and Gram matrix are made twice: for the alignment, and for the scores. Seconds of one core:

{passes}

## A round on one block of {rows} rows in memory

{near}

## The formula, and fits that it is held against

`plan` in `benchmarks/scale/scale_model.py`. Rounds have n, ¾ n, ¾² n, … columns. It goes one of three ways, by the
shapes of blocks as in the package:

- `one worker each`: a block of rows is no larger than the largest block of columns. It is cut out of all of those, and
  goes to one worker, which does all that is to be done with it: twice a round, for the alignment and for the scores. A
  round costs a task for each block of rows and of columns, and one for each block of rows, twice; the blocks of rows
  over all networks, or over the one thread with which a worker takes them in; the seconds of a round in memory for
  each block of rows, on as many cores as have the memory for one; and three numbers per column and block of rows
  that come back. The bandwidth takes half a round of one more block of rows, one of the other two ways.
- `all workers`: blocks of rows are larger, and larger than what the client may hold. They come one after the other,
  and each costs the passes, on one core for each block of columns at most; a task for each block and pass, and for each
  addition; the matrices of all blocks over all networks, or those of one way through the tree of additions over one
  of them, whichever is longer; what comes back for the columns, through the scheduler; and what the client does alone.
- `client`: it may hold all that is left, or a block of rows that would else be for all workers, and works on it alone.

Terms are added as if nothing overlapped.

Two workers, the scheduler and the client share one core here, so that all terms together, for one core, are what a
fit should take. `waiting` is what those processes take of the processor while they only wait, {idle:.3f} s for every
second of the clock, measured without work; on a core that others use too it is much:

{checks}

Predicted is between {low:.2f} and {high:.2f} of what was measured. Constants are mostly the least of several
measurements, fits were run once, while others used the machine, and what processes lose by taking turns on one core is
in no term; how much each of that makes was not measured. Where the ratio is below one, what is planned below takes
longer by as much.

One cause: workers that Dask starts hand memory back to the system as soon as it is freed (`MALLOC_TRIM_THRESHOLD_`),
and have to ask for it again. The second of these fits, once more, took {handed_back:.3g} s on such workers, and then
{keeping:.3g} s on workers that keep it (`MALLOC_TRIM_THRESHOLD_` and `MALLOC_MMAP_THRESHOLD_` of 1 GiB).

A round in which blocks of rows are tasks and stay where they are, as `by rows` below: {by_rows}.

## What the client may hold

Columns that take no more than that are brought to the client and worked on there, by one core; so are blocks of rows,
unless they go to one worker each. Without `max_memory` it is as much as a block of columns, and no less than a matrix
over the pairs of 2000 rows:

{held}

A million samples in memory, 8 columns of them, 20 blocks of rows (`RandSel(2, n_bootstraps=20)`): {tall}.

## A million features

Assumed: machines of 32 cores like the one measured and of 256 GB, one worker each, 25 Gbit/s, storage as fast as their
network. Blocks have the columns that take least time, in no more than a sixteenth of the memory of a machine. `as it
is`: what the package does, with the smallest `max_memory` that is allowed, or none, whichever lets the client hold
less. `narrow blocks`: the same, but of blocks of columns so narrow that in the first round blocks of rows are for all
workers. `by rows` is **not in the package**, a bound of what would be possible: a block of rows is one task, and rows
stay where they are. A table that is `read again` is read in every pass; where blocks of rows go to one worker each
that is three or four times a round, and all of them are then in memory together. As many cores are reckoned with as
have the memory for a block of rows: a worker should have as many threads, which Dask does not see to. Nothing of that
size was run.

{plans}

All {n_rounds} rounds on 10⁶ samples take {hours:.0f} hours of one core. On 128 machines, blocks of {wide} columns
({block}) make {tasks} tasks in the first round, twice, each time as one graph, and {come_back} of results come back
from it, which the client holds together; tasks of all rounds take {of_tasks}. A table of 4 TB that is stored in blocks
of rows is cut into blocks of columns first: {cut}.

## Fewer blocks of rows

{fewer}

Contributions that the bound of `guarantees.failure_probability` keeps at 0.05, with 10⁶ features and all rounds:

{bounds}

## All pairs

From the rates of [GPU](gpu.md) and [PLINK](plink.md), pairs × samples per second: {rates}. Blocks of {pair_width}
columns, on 128 machines as above. On a GPU the functions of all features must be in its memory.

{pairs}
"""


def page(found):
    """The page, and the ratios of predicted and measured seconds."""
    checked, ratios = checks(found)
    said, bounds = fewer(found)
    rates, of_pairs = pairs(found)
    reckoning, powers = memory()
    tall = found["tall"]
    near = [{"columns": f"{n}", "seconds of one core": f"{seconds:.3g}"} for n, seconds in found["near"]]
    text = PAGE.format(
        factor=columns_factor(),
        rows=ROWS,
        width=WIDTH,
        distinct=DISTINCT,
        memory=reckoning,
        powers=powers,
        constants=measured_constants(found),
        passes=passes(found),
        near=as_markdown(near),
        idle=found["idle"],
        checks=checked,
        handed_back=found["handed back"][0],
        keeping=found["handed back"][1],
        low=min(ratios),
        high=max(ratios),
        by_rows=by_rows(found),
        held=held(),
        tall=f"{tall['seconds']:.3g} s, {tall['megabytes']:.0f} MB added to {tall['table']:.0f} MB",
        plans=plans(found),
        **first_round(found),
        cut=cut(found),
        fewer=said,
        bounds=bounds,
        rates=rates,
        pair_width=PAIR_WIDTH,
        pairs=of_pairs,
    )
    return text, ratios
