"""Cost model of a fit on a cluster, term by term, with constants that scale.py measures on one core."""

from dataclasses import dataclass, replace
from math import ceil, inf, log2

import numpy as np

from randsel._numerics.columns import memory_for_columns
from randsel.contribution._closed_form import MAX_ROWS
from randsel.culling._path import path_sizes
from randsel.distributed._columns import MEMORY_FRACTION

#: Bytes of a value of the table.
VALUE = 4
#: Rows of a block of rows, and of the blocks of columns that they are taken from.
ROWS, ALL_ROWS = MAX_ROWS // 2, 4000
#: Columns for which a round is measured, with columns in blocks of at most WIDTH and in memory.
#: Above DISTINCT, columns are repeated, and each distinct one is processed once.
FAR, WIDTH, DISTINCT = (1000, 4000, 16_000, 64_000, 1_000_000), 2000, 64_000
NEAR = (2, 8, 32, 64, 128, 256, 1000, 4000, 16_000, 64_000)
#: Columns for which memory is measured.
PEAK = 32_000
#: Fits that the formula is compared with: samples, features, columns per block, features at the end, and whether the
#: client may hold as little as max_memory allows.
CHECKS = (
    (4000, 10_000, 1250, 4000, True),
    (6000, 2000, 500, 200, True),
    (6000, 2000, 500, 200, False),
    (10_000, 4000, 1000, 1500, True),
    (20_000, 1000, 50, 500, True),
    (6000, 2000, 125, 800, True),
)
#: Blocks of rows, and columns, of a round whose tasks are blocks of rows.
BY_ROWS = (6, 4000)
GOAL = 1_000_000
#: Bytes that are sent from one process to another.
LARGE = 128 << 20
#: Largest share of the memory of a machine that a block of columns is planned to take.
BLOCK = 1 / 16
#: What a fit is made of.
TERMS = ("reading", "arithmetic", "tasks", "blocks of rows", "matrices", "results", "client alone", "bytes")


@dataclass(frozen=True)
class Work:
    """Cost of a block of `rows` rows and n columns in a round, when columns stay on the cluster.

    Attributes
    ----------
    n
        Columns.
    passes, sums
        Passes over the blocks of columns; those of them whose results are matrices over pairs of rows, which are added.
    worker, adding, client
        Seconds of one core: of all passes together, of one addition in each of the sums, and of the client.
    sum_bytes, result_bytes, shared_bytes
        Of one block's matrices, all sums together; of what comes back per column, all columns together; and of what
        every worker needs.
    """

    n: int
    passes: int
    sums: int
    worker: float
    adding: float
    client: float
    sum_bytes: float
    result_bytes: float
    shared_bytes: float


@dataclass(frozen=True)
class Constants:
    """What was measured.

    Attributes
    ----------
    rows
        Rows of a block of rows.
    far
        Work by the number of columns, ascending.
    near
        Columns, and seconds of one core for a block of rows in a round when they are in memory; ascending.
    task, worker_task, turn
        Seconds per task of scheduler and client, and of a worker; and per call that waits for its tasks.
    transfer, gather
        Bytes per second between two workers of one machine, and from a worker to the client.
    read, standardise
        Bytes per second and core.
    peak
        Highest memory of a round in memory, as a multiple of the block of rows.
    """

    rows: int
    far: tuple[Work, ...]
    near: tuple[tuple[int, float], ...]
    task: float
    worker_task: float
    turn: float
    transfer: float
    gather: float
    read: float
    standardise: float
    peak: float

    def work(self, n: int) -> Work:
        """Work for n columns, between those measured or proportional beyond; passes are those of the next smaller."""
        below = [work for work in self.far if work.n <= n] or list(self.far[:1])

        def at(name: str) -> float:
            return line(n, [work.n for work in self.far], [getattr(work, name) for work in self.far])

        names = "worker", "adding", "client", "sum_bytes", "result_bytes", "shared_bytes"
        return Work(n, below[-1].passes, below[-1].sums, *map(at, names))

    def per_task(self, cores: int) -> float:
        """Seconds per task: there is one scheduler and one client, but many workers."""
        return self.task + self.worker_task / cores

    def in_memory(self, n: int) -> float:
        """Seconds of one core for a block of rows in a round."""
        return line(n, *map(list, zip(*self.near, strict=True)))


def line(n: float, sizes: list[float], values: list[float]) -> float:
    """Interpolate linearly between sizes; beyond the last size, extrapolate in proportion to n."""
    return float(np.interp(n, sizes, values)) * max(1.0, n / sizes[-1])


@dataclass(frozen=True)
class Cluster:
    """Identical machines and their assumed properties; the network is in bytes per second and machine."""

    machines: int
    cores: int = 32
    memory: float = 256e9
    network: float = 25e9 / 8
    workers_each: int = 1

    @property
    def workers(self) -> int:
        """Processes of workers, on all machines."""
        return self.machines * self.workers_each

    @property
    def apart(self) -> float:
        """Fraction of neighbouring blocks that are on different workers."""
        return 1 - 1 / self.workers

    @property
    def all_cores(self) -> int:
        """Number of cores of all machines."""
        return self.machines * self.cores


@dataclass(frozen=True)
class Task:
    """Samples, features, columns per block, and bytes of columns that the client may hold.

    `n_blocks` are the blocks of rows that are used, `smallest` the features where the path ends.
    """

    m: int
    n: int
    width: int
    room: float
    n_blocks: int
    smallest: int = 2


def plan(task: Task, constants: Constants, cluster: Cluster) -> dict[str, float]:
    """Return the seconds of every term of a fit by the package, and the bytes transferred under `bytes`.

    Terms are added, as if nothing overlapped. What does not fit into the memory of the cluster takes infinitely long.
    """
    table = VALUE * task.m * task.n
    kept = table < MEMORY_FRACTION * cluster.memory * cluster.machines
    terms = dict.fromkeys(TERMS, 0.0)
    terms["reading"], terms["bytes"] = reading(table, constants, cluster, task), table
    for held in rounds(task, kept):
        if VALUE * task.m * held.n <= task.room:  # the client holds all columns
            terms["client alone"] += task.n_blocks * constants.in_memory(held.n)
            continue
        how = one_worker_each if held.one_worker_each(task, constants) else one_after_the_other
        for name, value in how(task, held, constants, cluster).items():
            terms[name] += value
    return terms


@dataclass(frozen=True)
class Held:
    """Blocks of columns in a round: columns that are left, blocks, columns that the largest of them holds.

    `again` are the bytes that are read in every pass over all blocks; zero if the cluster persists them.
    """

    n: int
    blocks: int
    span: float
    again: float

    def one_worker_each(self, task: Task, constants: Constants) -> bool:
        """Whether blocks of rows go to one worker each, the condition of `ClusterColumns.map_row_blocks`."""
        return constants.rows * self.n <= task.m * self.span


def rounds(task: Task, kept: bool) -> list[Held]:
    """Blocks of columns in every round; those that are kept are made narrower, and joined, as in `ClusterColumns`."""
    blocks, span, all_of_them, found = ceil(task.n / task.width), float(min(task.width, task.n)), task.n, []
    for n in path_sizes(task.n, 0.25, task.smallest):
        if kept and 2 * n <= all_of_them:
            joined = max(1, int(span * blocks / n))
            blocks = ceil(blocks / joined)
            span, all_of_them = n / blocks, n
        # a block without remaining columns is not read
        again = 0 if kept else VALUE * task.m * min(task.n, n * task.width)
        found.append(Held(n, min(blocks, n), span, again))
    return found


def one_worker_each(task: Task, held: Held, constants: Constants, cluster: Cluster) -> dict[str, float]:
    """Seconds of a round in which blocks of rows are cut out of all blocks of columns, and go to one worker each.

    That happens twice, for the alignment and for the scores. The bandwidth takes the first block of rows once more.
    """
    c, piece = constants, VALUE * constants.rows * held.n
    busy = _busy(task, held, c, cluster)
    cores = min(cluster.all_cores, max(held.blocks, task.n_blocks))
    # a worker receives data in one thread
    network = min(cluster.network, c.transfer * cluster.workers_each)
    moved, results = 2 * task.n_blocks * piece * cluster.apart, task.n_blocks * 3 * 8 * held.n
    # all of them over all machines, or those that one machine sends or takes in
    sent = moved / held.blocks * ceil(held.blocks / cluster.machines)
    taken = moved / task.n_blocks * ceil(task.n_blocks / cluster.machines)
    terms = _bandwidth(task, held, c, cluster)
    own = {
        "reading": reading(2 * held.again, c, cluster, task),
        "arithmetic": ceil(task.n_blocks / busy) * c.in_memory(held.n) if busy else inf,
        "tasks": 2 * (task.n_blocks * (held.blocks + 1) * c.per_task(cores) + c.turn),
        "blocks of rows": max(sent, taken) / network,
        "results": results / min(cluster.network, c.gather),
        "bytes": 2 * held.again + moved + results,
    }
    return {name: terms.get(name, 0.0) + own.get(name, 0.0) for name in TERMS}


def _busy(task: Task, held: Held, constants: Constants, cluster: Cluster) -> int:
    """Number of cores that each process a block of rows; the blocks need memory in addition to a persisted table.

    A block of rows is in memory twice: as received, in parts, and together with the arrays computed from it.
    """
    there = VALUE * task.m * held.n * (1 if held.again else 2) / cluster.machines
    each = (1 + constants.peak) * VALUE * constants.rows * held.n
    return cluster.machines * max(0, int(min(cluster.cores, (cluster.memory - there) / each)))


def _bandwidth(task: Task, held: Held, constants: Constants, cluster: Cluster) -> dict[str, float]:
    """Seconds of the distances within one block of rows, half of its round; on the client if its memory allows."""
    if VALUE * constants.rows * held.n <= task.room:
        return _at_the_client(0.5, task, held, constants, cluster)
    return _all_workers(0.5, task, held, constants, cluster)


def one_after_the_other(task: Task, held: Held, constants: Constants, cluster: Cluster) -> dict[str, float]:
    """Seconds of a round in which all workers, or the client if it may hold that, work on one block of rows at a time.

    The bandwidth takes the first half of one more block of rows.
    """
    if VALUE * constants.rows * held.n <= task.room:
        return _at_the_client(task.n_blocks + 0.5, task, held, constants, cluster)
    return _all_workers(task.n_blocks + 0.5, task, held, constants, cluster)


def _at_the_client(times: float, task: Task, held: Held, constants: Constants, cluster: Cluster) -> dict[str, float]:
    """Blocks of rows go to the client, once for the alignment and once for the scores."""
    c, piece, blocks = constants, VALUE * constants.rows * held.n, held.blocks
    return {
        "reading": reading(2 * times * held.again, c, cluster, task),
        "client alone": times * c.in_memory(held.n),
        "results": 2 * times * piece / min(cluster.network, c.gather),
        "tasks": 2 * times * (blocks * c.per_task(min(cluster.all_cores, blocks)) + c.turn),
        "bytes": 2 * times * (piece + held.again),
    }


def _all_workers(times: float, task: Task, held: Held, constants: Constants, cluster: Cluster) -> dict[str, float]:
    """All workers process one block of rows at a time; a pass starts after the results of the previous pass arrive."""
    c, work, blocks = constants, constants.work(held.n), held.blocks
    busy = min(cluster.all_cores, blocks)
    moved = work.sum_bytes * (blocks - 1) * cluster.apart + work.shared_bytes * cluster.workers
    # all of them over all machines, or those of one way through the tree over one
    one_way = work.sum_bytes * log2(max(blocks, 2)) * cluster.apart
    adding = work.adding * (blocks - 1) / min(busy, max(blocks / 2, 1))
    tasks = work.passes * blocks + work.sums * (blocks - 1)
    again, back = work.passes * held.again, work.result_bytes + work.sum_bytes
    return {
        "reading": reading(times * again, c, cluster, task),
        "arithmetic": times * work.worker / blocks * ceil(blocks / busy),
        "matrices": times * (adding + max(moved / cluster.machines, one_way) / cluster.network),
        "tasks": times * (tasks * c.per_task(busy) + work.passes * c.turn),
        "results": times * back / min(cluster.network, c.gather),
        "client alone": times * work.client,
        "bytes": times * (moved + back + again),
    }


def usual_room(m: int, width: int) -> int:
    """Bytes that the client holds without `max_memory`: a block of columns, or a matrix over pairs of rows."""
    return max(VALUE * m * width, 8 * min(m, MAX_ROWS) ** 2)


def best_plan(
    task: Task, constants: Constants, cluster: Cluster, *, narrow: bool = False
) -> tuple[int, dict[str, float]]:
    """Columns per block that take least time, and the terms; the client holds what the task says, or less if usual.

    With `narrow`, of blocks so narrow that in the first round all workers work on one block of rows after the other.
    """
    widths = [2**power for power in range(3, 20) if VALUE * task.m * 2**power <= BLOCK * cluster.memory]
    if narrow:
        widths = [width for width in widths if constants.rows * task.n > task.m * width]
    tasks = [replace(task, width=width, room=min(task.room, usual_room(task.m, width))) for width in widths]
    found = {one.width: plan(one, constants, cluster) for one in tasks}
    best = min(found, key=lambda width: seconds(found[width]))
    return best, found[best]


def plan_by_rows(task: Task, constants: Constants, cluster: Cluster) -> dict[str, float]:
    """Seconds of every term if a block of rows were one task, and rows stayed where they are: not in the package.

    Every machine makes its blocks from its own rows; what travels are three numbers per column and machine.
    """
    c, net = constants, min(cluster.network, constants.gather)
    table = VALUE * task.m * task.n
    terms = dict.fromkeys(("reading", "arithmetic", "tasks", "results", "bytes"), 0.0)
    terms["reading"] = reading(table, c, cluster)
    for n in path_sizes(task.n, 0.25, task.smallest):
        # memory of a machine that the table does not take
        left = cluster.memory - table / cluster.machines
        busy = cluster.machines * max(1, min(cluster.cores, int(left / (c.peak * VALUE * c.rows * n))))
        results = 3 * 8 * n
        terms["arithmetic"] += ceil(task.n_blocks / busy) * c.in_memory(n)
        terms["tasks"] += task.n_blocks * c.per_task(busy) + c.turn
        terms["results"] += results * (log2(cluster.machines) + 1) / net
        terms["bytes"] += results * cluster.machines
    terms["bytes"] += table
    return terms


def reading(table: float, constants: Constants, cluster: Cluster, task: Task | None = None) -> float:
    """Seconds to read and standardise a table, limited by the network or by the cores.

    One core reads a block of columns, and as many do as half of the memory holds, twice.
    """
    cores = cluster.all_cores
    if task is not None:
        at_once = int(max(1, min(cluster.cores, cluster.memory / (4 * VALUE * task.m * task.width))))
        cores = min(cluster.machines * at_once, ceil(task.n / task.width))
    read = table / min(constants.read * cores, cluster.network * cluster.machines)
    return read + table / (constants.standardise * cores)


def seconds(terms: dict[str, float]) -> float:
    """Sum of all terms."""
    return sum(value for name, value in terms.items() if name != "bytes")


def largest(terms: dict[str, float]) -> str:
    """Name of the term that takes longest."""
    return max((name for name in terms if name != "bytes"), key=lambda name: terms[name])


def smallest_memory(m, n):
    """The least `max_memory` that is allowed."""
    low, high = 1, 1 << 50
    while low < high:
        middle = (low + high) // 2
        try:
            memory_for_columns(middle, m, n)
            high = middle
        except ValueError:
            low = middle + 1
    return low
