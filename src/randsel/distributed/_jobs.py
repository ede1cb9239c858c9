"""Jobs on a Dask cluster, through joblib's backend for it; nothing here imports Dask unless a cluster is asked for.

joblib sends a task's arguments with every task. What several tasks share is lent to the cluster instead: it goes there
once, as a task of its own, which the scheduler repeats if the worker that held the result is lost.
"""

import asyncio
import logging
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from queue import Empty, Queue
from threading import Thread
from typing import Any

from joblib import parallel_config
from joblib.parallel import get_active_backend

from randsel._utils.optional import optional

#: Seconds to wait for a scheduler to answer, and for a first worker.
PATIENCE = 10.0
#: Packages that must have one version everywhere, for tasks to be understood and numbers to be the same.
ALIKE = ("randsel", "numpy", "scipy", "scikit-learn", "joblib", "dask", "distributed")
#: Of them, what the scheduler needs; it computes nothing.
ALIKE_SCHEDULER = ("dask", "distributed")
#: What is too small to be lent.
PLAIN = (bool, int, float, complex, str, bytes, type(None), type, type(lambda: 0))


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
    >>> from randsel.distributed._jobs import on_cluster
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


# ---------------------------------------------------------------- what tasks share


def client_in_use() -> Any:
    """Return the connection of joblib's current backend to a Dask cluster; None if that is another backend."""
    backend, _ = get_active_backend()
    if type(backend).__name__ != "DaskDistributedBackend":
        return None
    # joblib runs jobs here where there is one thread to run them, and a cluster may be left with one
    threads = type(backend).effective_n_jobs
    backend.effective_n_jobs = lambda n_jobs: max(2, threads(backend, n_jobs))
    return backend.client


def watched(client: Any, results: Callable[[Any], Iterable[Any]]) -> Iterator[Any]:
    """Yield the results of joblib for its current backend, and raise an error if the scheduler is lost meanwhile.

    joblib may wait for ever then: it is called in a thread of its own, which nobody waits for.
    """
    backend, _ = get_active_backend()
    found: Queue[tuple[Any, BaseException | None, bool]] = Queue()

    def collect() -> None:
        try:
            for result in results(backend):
                found.put((result, None, False))
        except BaseException as error:
            found.put((None, error, True))
        else:
            found.put((None, None, True))

    Thread(target=collect, daemon=True).start()
    while True:
        try:
            result, error, last = found.get(timeout=0.5)
        except Empty:
            if client.status == "running":
                continue
            raise ClusterLostError(_lost(client.scheduler.address if client.scheduler else "this address")) from None
        if error is not None:
            raise error
        if last:
            return
        yield result


def lent(client: Any, tasks: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the tasks with a Dask future in place of every argument that more than one of them has."""
    tasks = [tuple(_elsewhere(argument) for argument in task) for task in tasks]
    seen: set[int] = set()
    shared: dict[int, Any] = {}
    for argument in (argument for task in tasks for argument in task if not isinstance(argument, PLAIN)):
        if id(argument) in seen:
            shared[id(argument)] = argument
        seen.add(id(argument))
    futures = {key: _loan(client, thing) for key, thing in shared.items()}
    return [tuple(futures.get(id(argument), argument) for argument in task) for task in tasks]


def _elsewhere(argument: Any) -> Any:
    """Replace what cannot travel by what stands for it elsewhere, if it says so."""
    stand_in = getattr(type(argument), "elsewhere", None)
    return argument if stand_in is None else stand_in(argument)


#: What is on a cluster now: future and client by the place of the thing in memory, for as long as the thing is there.
_LOANS: dict[int, tuple[Any, Any]] = {}


def _loan(client: Any, thing: Any) -> Any:
    """Put a thing on the cluster; what cannot change is put there once for all calls."""
    if not getattr(getattr(thing, "__dataclass_params__", None), "frozen", False):
        return _sent(client, thing)
    future, owner = _LOANS.get(id(thing), (None, None))
    if future is None or owner is not client or future.status not in ("pending", "finished"):
        if future is None:
            weakref.finalize(thing, _LOANS.pop, id(thing), None).atexit = False
        future = _sent(client, thing)
        _LOANS[id(thing)] = future, client
    return future


def _sent(client: Any, thing: Any) -> Any:
    from dask import config  # noqa: PLC0415 (there is a client, so there is Dask)

    # Dask would advise to scatter what is large; scattered things are lost with the worker that holds them
    with config.set({"distributed.admin.large-graph-warning-threshold": "1 PB"}):
        return client.submit(_itself, Parcel(thing), pure=False)


def _itself(thing: Any) -> Any:
    return thing


class Parcel:
    """What is lent, on its way in one piece.

    Dask sends arrays apart from what holds them, and they may arrive at odd addresses, where numpy copies them for
    nearly all that it does with them.
    """

    def __init__(self, content: Any) -> None:
        self.content = content

    def __reduce__(self) -> tuple[Any, ...]:
        from distributed.protocol.pickle import dumps  # noqa: PLC0415 (it is Dask that asks)

        return _delivered, (dumps(self.content),)  # type: ignore[no-untyped-call]


def _delivered(content: bytes) -> Parcel:
    """Read what Dask has delivered as Dask would."""
    from distributed.protocol.pickle import loads  # noqa: PLC0415 (it is Dask that asks)

    return Parcel(loads(content))  # type: ignore[no-untyped-call]


def unpacked(task: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a task with what was lent."""
    return tuple(argument.content if isinstance(argument, Parcel) else argument for argument in task)
