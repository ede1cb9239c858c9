"""Connections to a Dask cluster, errors when it is lost, delayed values, and the runner for joblib's Dask backend."""

import asyncio
import logging
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import parallel_config

from randsel._utils.jobs import process_identity, run_single_threaded
from randsel._utils.text import optional

#: Seconds to wait for a scheduler to answer, and for a first worker.
PATIENCE = 10.0
#: Packages that need the same version on all machines, so that tasks can be unpickled and numbers are the same.
SAME_VERSIONS = ("randsel", "numpy", "scipy", "scikit-learn", "joblib", "dask", "distributed")
#: Packages that need the same version on the scheduler, which computes nothing.
SAME_ON_SCHEDULER = ("dask", "distributed")
#: Loggers of Dask that report lost connections.
LOGGERS = ("", ".client", ".core", ".comm", ".batched", ".utils")
#: Size in bytes from which an argument is sent once for all tasks instead of with each task.
LARGE_ARGUMENT = 1 << 14
#: Types of arguments that are too small to be sent once for several tasks.
NEVER_SHARED = (bool, int, float, complex, str, bytes, type(None), type, type(lambda: 0))


class ClusterLostError(ConnectionError):
    """The cluster was lost while it was computing; finished results are kept."""


@contextmanager
def on_cluster(address: str, *, patience: float = PATIENCE) -> Iterator[Any]:
    """Run all jobs of the block on a Dask cluster: bootstraps, row blocks, folds, half-samples, tests, cells.

    Every thread of every worker gets jobs, whatever the value of `n_jobs`; only `n_jobs=1` runs in this process.

    Parameters
    ----------
    address : str
        Address of the scheduler, such as "tcp://10.0.0.1:8786".
    patience : float, default=10
        Seconds to wait for the scheduler to answer, and for a first worker.

    Yields
    ------
    distributed.Client
        The connection, which is closed at the end.

    Raises
    ------
    ConnectionError
        If no scheduler answers, there are no workers, or versions differ. Its subclass `ClusterLostError` is raised if
        the scheduler or all workers are lost during the block.

    Examples
    --------
    >>> from randsel import RandSel
    >>> from randsel.distributed import on_cluster
    >>> with on_cluster("tcp://10.0.0.1:8786"):  # doctest: +SKIP
    ...     RandSel(estimator="bootstrap", random_state=0).fit(X, y)
    """
    distributed = _distributed()  # first, because importing it sets the levels of its loggers
    with _silent_loggers():
        client = _connect(distributed, address, patience)
        try:
            _check_workers(client, address, patience)
            _check_versions(client.get_versions(packages=list(SAME_VERSIONS)), address)
            with explain_lost_cluster(client), parallel_config(backend="dask", client=client):
                yield client
        finally:
            with suppress(OSError, TimeoutError):  # of a scheduler that is lost
                client.close(timeout=2)


@contextmanager
def _silent_loggers() -> Iterator[None]:
    """Keep Dask from logging lost connections, which either raise an error here or do no harm."""
    loggers = [logging.getLogger(f"distributed{name}") for name in LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _connect(distributed: Any, address: str, patience: float) -> Any:
    try:
        # in a thread, because an event loop may be running in this one
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, _wait_for_answer(distributed, address, patience)).result()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", distributed.versions.VersionMismatchWarning)  # `_check_versions` raises
            return distributed.Client(address, timeout=patience, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise ConnectionError(
            f"no Dask scheduler answers at {address} ({type(error).__name__}); look for the address that "
            "'dask scheduler' printed, and whether this machine may connect to it."
        ) from error


async def _wait_for_answer(distributed: Any, address: str, patience: float) -> None:
    """Wait for a scheduler's first message; Dask's client would wait forever for a server that never sends one."""
    security = distributed.security.Security().get_connection_args("client")
    greeting = distributed.comm.connect(address, timeout=patience, **security)
    await (await asyncio.wait_for(greeting, 2 * patience)).close()


def _check_workers(client: Any, address: str, patience: float) -> None:
    try:
        client.wait_for_workers(1, timeout=patience)
    except TimeoutError as error:
        raise ConnectionError(
            f"the scheduler at {address} has no workers; start some: dask worker {address} --nthreads 1."
        ) from error


def _check_versions(versions: dict[str, Any], address: str) -> None:
    """Raise ConnectionError if versions differ: tasks might not be unpickled, and numbers might differ."""
    reports = {f"the worker at {name}": report for name, report in versions["workers"].items()}
    for machine, report in {f"the scheduler at {address}": versions["scheduler"], **reports}.items():
        for name in ("Python", *(SAME_VERSIONS if machine in reports else SAME_ON_SCHEDULER)):
            theirs, ours = _version_of(name, report), _version_of(name, versions["client"])
            if theirs != ours:
                has = f"has {name} {theirs}" if theirs else f"has no {name}"
                raise ConnectionError(f"{machine} {has}, and this machine {ours}; install the same version on both.")


def _version_of(name: str, report: dict[str, Any]) -> str | None:
    if name == "Python":
        return ".".join(report["host"]["python"].split(".")[:2])
    version: str | None = report["packages"].get(name)
    return version


@contextmanager
def explain_lost_cluster(client: Any) -> Iterator[None]:
    """Raise `ClusterLostError` in place of the errors that Dask raises for a lost scheduler or lost workers."""
    distributed = _distributed()
    address = client.scheduler.address if client.scheduler else "this address"
    lost = f"the scheduler at {address} was lost; start it and its workers again."
    if client.status != "running":
        raise ClusterLostError(lost)
    try:
        yield
    except ClusterLostError:
        raise
    except (distributed.CancelledError, distributed.comm.CommClosedError) as error:
        raise ClusterLostError(lost) from error
    except distributed.scheduler.KilledWorker as error:
        raise ClusterLostError(
            f"{error.allowed_failures + 1} workers were lost while they worked on the same job; they may have run out "
            "of memory: give workers more, run fewer on a machine, or use smaller chunks."
        ) from error
    except (OSError, TimeoutError, RuntimeError) as error:
        if client.status != "running":
            raise ClusterLostError(lost) from error
        if isinstance(error, TimeoutError) and not client.nthreads():
            raise ClusterLostError(f"all workers of the scheduler at {address} were lost; start some again.") from error
        raise


# ---------------------------------------------------------------- delayed values


def delay(function: Callable[..., Any], nout: int | None = None) -> Any:
    """Return `dask.delayed(function)`; every call gets a random name, as hashing large arguments takes too long."""
    return _dask().delayed(function, pure=False, nout=nout)


def delay_argument(argument: Any) -> Any:
    """Return a large argument as a delayed value, which is sent once, and again if its worker is lost."""
    size = getattr(argument, "nbytes", None)
    # functions are small; delayed values, which are callable too, must not be delayed again
    is_small = argument is None or callable(argument) or isinstance(argument, int | float | np.dtype)
    is_small = is_small or (size is not None and size < LARGE_ARGUMENT)
    return argument if is_small else delay(identity)(argument)


def identity(value: Any) -> Any:
    """Return the value, as the task that holds it."""
    return value


def allow_large_graphs() -> Any:
    """Silence Dask's advice to scatter large arguments: scattered data are lost with the worker that holds them."""
    return _dask().config.set({"distributed.admin.large-graph-warning-threshold": "1 PB"})


@dataclass(frozen=True)
class Executor:
    """Computes delayed values by the client of a cluster, or without one by Dask's scheduler in this process.

    It is chosen once: after the loss of a client, Dask would continue in this process, which may not hold the table.
    """

    client: Any

    @classmethod
    def for_array(cls, X: Any) -> "Executor":
        """Return the executor that Dask would compute X with."""
        get = optional("dask.base", extra="dask", purpose="A Dask array").get_scheduler(collections=[X])
        owner = getattr(get, "__self__", None)
        return cls(owner if hasattr(owner, "scheduler_info") else None)

    def compute(self, tasks: list[Any]) -> list[Any]:
        """Return the values."""
        with self._connection():
            return list(_dask().compute(*tasks) if self.client is None else self.client.compute(tasks, sync=True))

    def persist(self, tasks: list[Any]) -> list[Any]:
        """Compute values, and return tasks for them that are kept in the memory of the workers."""
        with self._connection():
            return list(_dask().persist(*tasks) if self.client is None else self.client.persist(tasks))

    def memory(self) -> float:
        """Return the bytes of memory of all workers, or of this machine if Dask runs in this process."""
        if self.client is None:
            return float(optional("psutil", extra="dask", purpose="A Dask array").virtual_memory().total)
        with self._connection():
            workers = self.client.scheduler_info(n_workers=-1)["workers"]
        # a worker without a limit reports zero
        return float(sum(worker["memory_limit"] or np.inf for worker in workers.values()))

    @contextmanager
    def _connection(self) -> Iterator[None]:
        with allow_large_graphs(), nullcontext() if self.client is None else explain_lost_cluster(self.client):
            yield


def _dask() -> Any:
    return optional("dask", extra="dask", purpose="A Dask array")


def _distributed() -> Any:
    return optional("distributed", extra="dask", purpose="A cluster")


# ---------------------------------------------------------------- jobs


@dataclass(frozen=True)
class ClusterJobRunner:
    """Runs tasks on the cluster that joblib's Dask backend is connected to.

    Tasks bypass joblib: it would run them in this process if the cluster has a single thread, scatter arguments that
    are lost with the worker that holds them, and wait forever if the scheduler is lost.
    """

    backend: Any

    def run(self, function: Callable[..., Any], tasks: list[tuple[Any, ...]], *, in_order: bool) -> Iterator[Any]:
        """Yield `function(*task)` for all tasks, in the order of the tasks or as they finish."""
        client, parent = self.backend.client, process_identity()
        self.backend.effective_n_jobs(None)  # waits for a first worker, or raises an error
        with allow_large_graphs():
            futures = [
                client.submit(run_on_worker, function, parent, *task, pure=False, **self.backend.submit_kwargs)
                for task in share_arguments(client, tasks)
            ]
        waiting, n_yielded = dict[int, Any](), 0
        numbers = {future: number for number, future in enumerate(futures)}
        # a job that waits for its own jobs frees its thread on the worker
        with self.backend.retrieval_context():
            for future, result in _completed(client, futures):
                if not in_order:
                    yield result
                    continue
                waiting[numbers[future]] = result
                while n_yielded in waiting:
                    yield waiting.pop(n_yielded)
                    n_yielded += 1


def run_on_worker(function: Callable[..., Any], parent: tuple[int, str], *task: Any) -> Any:
    """Call a function on a worker; jobs of the function run one after the other in the same thread."""
    task = tuple(argument.content if isinstance(argument, PickledPayload) else argument for argument in task)
    with parallel_config(backend="sequential"):
        return run_single_threaded(function, task, parent)


def _completed(client: Any, futures: list[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield futures and their results as they finish; raise an error if one fails or the scheduler is lost."""
    distributed = _distributed()
    with explain_lost_cluster(client):
        completed = distributed.as_completed(futures, loop=client.loop, with_results=True)
        while not completed.is_empty():
            while not completed.has_ready():
                if client.status != "running":
                    raise distributed.CancelledError
                with completed.thread_condition:
                    completed.thread_condition.wait(0.1)
            future, result = next(completed)
            if future.cancelled():
                raise distributed.CancelledError
            yield future, result


# ---------------------------------------------------------------- arguments that tasks share
# Such an argument goes to the cluster once, as a separate task that returns it.


def share_arguments(client: Any, tasks: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the tasks with a Dask future in place of every argument that more than one of them has."""
    # an argument that cannot be pickled has a method that returns a stand-in
    tasks = [tuple(getattr(type(a), "picklable_stand_in", identity)(a) for a in task) for task in tasks]
    arguments = [argument for task in tasks for argument in task if not isinstance(argument, NEVER_SHARED)]
    counts = Counter(map(id, arguments))
    shared = {id(argument): argument for argument in arguments if counts[id(argument)] > 1}
    futures = {key: _share_once(client, argument) for key, argument in shared.items()}
    return [tuple(futures.get(id(argument), argument) for argument in task) for task in tasks]


#: `id` of an argument that was sent -> its future and the client, for as long as the argument exists.
_SHARED: dict[int, tuple[Any, Any]] = {}


def _share_once(client: Any, argument: Any) -> Any:
    """Return a future of an argument; a frozen dataclass cannot change, so it is sent once for all calls."""
    is_frozen = getattr(getattr(argument, "__dataclass_params__", None), "frozen", False)
    sent, owner = _SHARED.get(id(argument), (None, None))
    if is_frozen and sent is not None and owner is client and sent.status in ("pending", "finished"):
        return sent
    # a task, unlike scattered data, is repeated if the worker with its result is lost
    with allow_large_graphs():
        future = client.submit(identity, PickledPayload(argument), pure=False)
    if is_frozen:
        if sent is None:
            weakref.finalize(argument, _SHARED.pop, id(argument), None).atexit = False
        _SHARED[id(argument)] = future, client
    return future


@dataclass
class PickledPayload:
    """An argument that is pickled into a single bytes object.

    Dask sends arrays apart from the object that holds them, and they may arrive at unaligned addresses, where numpy
    copies them in nearly every operation.
    """

    content: Any

    def __reduce__(self) -> tuple[Any, ...]:
        from distributed.protocol.pickle import dumps  # noqa: PLC0415 (it is Dask that pickles)

        return _unpickle_payload, (dumps(self.content),)  # type: ignore[no-untyped-call]


def _unpickle_payload(content: bytes) -> PickledPayload:
    from distributed.protocol.pickle import loads  # noqa: PLC0415 (it is Dask that unpickles)

    return PickledPayload(loads(content))  # type: ignore[no-untyped-call]
