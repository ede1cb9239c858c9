"""Connections to a Dask cluster, and jobs on it.

An argument that several tasks share goes to the cluster once, as a task of its own that returns it; the scheduler
repeats that task if the worker that held the result is lost.
"""

import asyncio
import logging
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from joblib import parallel_config

from randsel._utils.jobs import process_identity, run_single_threaded
from randsel._utils.optional import optional

#: Seconds to wait for a scheduler to answer, and for a first worker.
PATIENCE = 10.0
#: Packages that must have one version everywhere, for tasks to be understood and numbers to be the same.
ALIKE = ("randsel", "numpy", "scipy", "scikit-learn", "joblib", "dask", "distributed")
#: Of them, what the scheduler needs; it computes nothing.
ALIKE_SCHEDULER = ("dask", "distributed")
#: Types of arguments that are too small to be sent once for several tasks.
NEVER_SHARED = (bool, int, float, complex, str, bytes, type(None), type, type(lambda: 0))


class ClusterLostError(ConnectionError):
    """The cluster went away while it was working; what was finished is kept."""


@contextmanager
def on_cluster(address: str, *, patience: float = PATIENCE) -> Iterator[Any]:
    """Run all jobs of the block on a Dask cluster: bootstraps, row blocks, folds, half-samples, tests, cells.

    Every thread of every worker gets jobs, whatever `n_jobs` says; only what asks for `n_jobs=1` stays here.

    Parameters
    ----------
    address : str
        Of the scheduler, such as "tcp://10.0.0.1:8786".
    patience : float, default=10
        Seconds to wait for the scheduler to answer, and for a first worker.

    Yields
    ------
    distributed.Client
        The connection, which is closed at the end.

    Raises
    ------
    ConnectionError
        If nobody answers, there are no workers, or versions differ; `ClusterLostError`, which is one, if the
        scheduler was lost on the way.

    Examples
    --------
    >>> from randsel import RandSel
    >>> from randsel.distributed import on_cluster
    >>> with on_cluster("tcp://10.0.0.1:8786"):  # doctest: +SKIP
    ...     RandSel(estimator="bootstrap", random_state=0).fit(X, y)
    """
    distributed = optional("distributed", extra="dask", purpose="A cluster")
    with _quiet():
        client = _connected(distributed, address, patience)
        try:
            _check_workers(client, address, patience)
            _check_versions(client.get_versions(packages=list(ALIKE)), address)
            with parallel_config(backend="dask", client=client):
                yield client
        except ClusterLostError as error:
            raise ClusterLostError(_lost(address)) from error
        except (distributed.client.FutureCancelledError, distributed.CancelledError) as error:
            raise ClusterLostError(_lost(address)) from error
        except (OSError, TimeoutError, RuntimeError) as error:
            if client.status != "running":
                raise ClusterLostError(_lost(address)) from error
            if isinstance(error, TimeoutError) and not client.nthreads():
                msg = f"all workers of the scheduler at {address} were lost; start some again."
                raise ClusterLostError(msg) from error
            raise
        except distributed.scheduler.KilledWorker as error:
            msg = (
                f"{error.allowed_failures + 1} workers were lost while they worked on the same job; they may have run "
                "out of memory: give workers more, or run fewer on a machine."
            )
            raise ClusterLostError(msg) from error
        finally:
            with suppress(OSError, TimeoutError):  # of a scheduler that cannot say good-bye
                client.close(timeout=2)


def _lost(address: str) -> str:
    return f"the scheduler at {address} was lost; start it and its workers again."


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask from writing about lost connections, which end in a sentence of ours, or in nothing at all."""
    log = logging.getLogger("distributed")
    names = ("distributed.client", "distributed.core", "distributed.comm", "distributed.batched", "distributed.utils")
    logs = [log, *(logging.getLogger(name) for name in names)]
    before = [each.level for each in logs]
    for each in logs:
        each.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for each, level in zip(logs, before, strict=True):
            each.setLevel(level)


def _connected(distributed: Any, address: str, patience: float) -> Any:
    try:
        # in a thread, for there may be a loop in this one
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, _answer(distributed, address, patience)).result()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", distributed.versions.VersionMismatchWarning)  # an error, below
            return distributed.Client(address, timeout=patience, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        msg = (
            f"no Dask scheduler answers at {address} ({type(error).__name__}); look for the address that "
            "'dask scheduler' printed, and whether this machine may connect to it."
        )
        raise ConnectionError(msg) from error


async def _answer(distributed: Any, address: str, patience: float) -> None:
    """Wait for a scheduler to say a word, which the client of Dask would do for ever."""
    how = distributed.security.Security().get_connection_args("client")
    greeting = distributed.comm.connect(address, timeout=patience, **how)
    await (await asyncio.wait_for(greeting, 2 * patience)).close()


def _check_workers(client: Any, address: str, patience: float) -> None:
    try:
        client.wait_for_workers(1, timeout=patience)
    except TimeoutError as error:
        msg = f"the scheduler at {address} has no workers; start some: dask worker {address} --nthreads 1."
        raise ConnectionError(msg) from error


def _check_versions(found: dict[str, Any], address: str) -> None:
    """Refuse a cluster of other versions: tasks may not be understood there, and numbers may differ."""
    here = found["client"]
    others: list[tuple[str, Any, tuple[str, ...]]]
    others = [(f"the scheduler at {address}", found["scheduler"], ALIKE_SCHEDULER)]
    others += [(f"the worker at {name}", about, ALIKE) for name, about in found["workers"].items()]
    for who, about, names in others:
        python, python_here = (".".join(map(str, each["host"]["python"].split(".")[:2])) for each in (about, here))
        versions = [("Python", python, python_here)]
        versions += [(name, about["packages"].get(name), here["packages"].get(name)) for name in names]
        for name, there, wanted in versions:
            if there != wanted:
                has = f"has {name} {there}" if there else f"has no {name}"
                msg = f"{who} {has}, and this machine {wanted}; install the same version on both."
                raise ConnectionError(msg)


# ---------------------------------------------------------------- jobs


@dataclass(frozen=True)
class ClusterJobRunner:
    """Runs tasks on the cluster that joblib's Dask backend is connected to.

    Tasks go to Dask without joblib, which would run them here on a cluster of one thread, scatter arguments that are
    then lost with the worker that holds them, and wait forever if the scheduler is lost.
    """

    backend: Any

    def run(self, function: Callable[..., Any], tasks: list[tuple[Any, ...]], *, in_order: bool) -> Iterator[Any]:
        """Yield `function(*task)` of all tasks: in the order of the tasks, or as soon as each is finished."""
        client, parent = self.backend.client, process_identity()
        self.backend.effective_n_jobs(None)  # waits for a first worker, or raises an error
        with _large_graphs():
            futures = [
                client.submit(run_on_worker, function, parent, *task, pure=False, **self.backend.submit_kwargs)
                for task in share_arguments(client, tasks)
            ]
        waiting: dict[int, Any] = {}
        numbers = {future: number for number, future in enumerate(futures)}
        n_yielded = 0
        # a job that waits for jobs of its own frees its place on the worker
        with self.backend.retrieval_context():
            for future, result in _completed(client, futures):
                if not in_order:
                    yield result
                    continue
                waiting[numbers[future]] = result
                while n_yielded in waiting:
                    yield waiting.pop(n_yielded)
                    n_yielded += 1


def job_runner(backend: Any) -> ClusterJobRunner:
    """Return the runner for joblib's Dask backend."""
    return ClusterJobRunner(backend)


def run_on_worker(function: Callable[..., Any], parent: tuple[int, str], *task: Any) -> Any:
    """Call a function on a worker; jobs of the function run one after the other in the same thread."""
    task = tuple(argument.content if isinstance(argument, PickledPayload) else argument for argument in task)
    with parallel_config(backend="sequential"):
        return run_single_threaded(function, task, parent)


def _completed(client: Any, futures: list[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield futures and their results as they finish; raise an error if one fails or the scheduler is lost."""
    distributed = optional("distributed", extra="dask", purpose="A cluster")
    address = client.scheduler.address if client.scheduler else "this address"
    completed = distributed.as_completed(futures, loop=client.loop, with_results=True)
    while not completed.is_empty():
        while not completed.has_ready():
            if client.status != "running":
                raise ClusterLostError(_lost(address))
            with completed.thread_condition:
                completed.thread_condition.wait(0.1)
        future, result = next(completed)
        if future.cancelled():
            raise ClusterLostError(_lost(address))
        yield future, result


# ---------------------------------------------------------------- arguments that tasks share


def share_arguments(client: Any, tasks: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the tasks with a Dask future in place of every argument that more than one of them has."""
    tasks = [tuple(_stand_in(argument) for argument in task) for task in tasks]
    seen: set[int] = set()
    shared: dict[int, Any] = {}
    for argument in (argument for task in tasks for argument in task if not isinstance(argument, NEVER_SHARED)):
        if id(argument) in seen:
            shared[id(argument)] = argument
        seen.add(id(argument))
    futures = {key: _share_once(client, argument) for key, argument in shared.items()}
    return [tuple(futures.get(id(argument), argument) for argument in task) for task in tasks]


def _stand_in(argument: Any) -> Any:
    """Call `argument.elsewhere()`, if there is one, to get a picklable stand-in."""
    stand_in = getattr(type(argument), "elsewhere", None)
    return argument if stand_in is None else stand_in(argument)


#: `id` of an argument -> its future and the client, for as long as the argument exists.
_SHARED: dict[int, tuple[Any, Any]] = {}


def _share_once(client: Any, argument: Any) -> Any:
    """Return a future of an argument; a frozen dataclass cannot change and is sent once for all calls."""
    if not getattr(getattr(argument, "__dataclass_params__", None), "frozen", False):
        return _send(client, argument)
    future, owner = _SHARED.get(id(argument), (None, None))
    if future is None or owner is not client or future.status not in ("pending", "finished"):
        if future is None:
            weakref.finalize(argument, _SHARED.pop, id(argument), None).atexit = False
        future = _send(client, argument)
        _SHARED[id(argument)] = future, client
    return future


def _send(client: Any, argument: Any) -> Any:
    """Send an argument as a task that returns it, which Dask repeats if the worker with the result is lost."""
    with _large_graphs():
        return client.submit(_return_argument, PickledPayload(argument), pure=False)


def _return_argument(argument: Any) -> Any:
    return argument


@contextmanager
def _large_graphs() -> Iterator[None]:
    """Silence Dask's advice to scatter large arguments: scattered data are lost with the worker that holds them."""
    from dask import config  # noqa: PLC0415 (there is a client, so there is Dask)

    with config.set({"distributed.admin.large-graph-warning-threshold": "1 PB"}):
        yield


class PickledPayload:
    """An argument that is pickled into one piece of bytes.

    Dask sends arrays apart from the object that holds them, and they may arrive at unaligned addresses, where numpy
    copies them in nearly every operation.
    """

    def __init__(self, content: Any) -> None:
        self.content = content

    def __reduce__(self) -> tuple[Any, ...]:
        from distributed.protocol.pickle import dumps  # noqa: PLC0415 (it is Dask that pickles)

        return _unpickle_payload, (dumps(self.content),)  # type: ignore[no-untyped-call]


def _unpickle_payload(content: bytes) -> PickledPayload:
    from distributed.protocol.pickle import loads  # noqa: PLC0415 (it is Dask that unpickles)

    return PickledPayload(loads(content))  # type: ignore[no-untyped-call]
