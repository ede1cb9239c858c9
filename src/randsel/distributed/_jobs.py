"""Jobs on a Dask cluster: the runner for joblib's Dask backend.

An argument that several tasks share goes to the cluster once, as a separate task that returns it; the scheduler
repeats that task if the worker that held the result is lost.
"""

import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from joblib import parallel_config

from randsel._utils.jobs import process_identity, run_single_threaded
from randsel._utils.text import optional
from randsel.distributed._client import allow_large_graphs, explain_lost_cluster, identity

#: Types of arguments that are too small to be sent once for several tasks.
NEVER_SHARED = (bool, int, float, complex, str, bytes, type(None), type, type(lambda: 0))


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
    distributed = optional("distributed", extra="dask", purpose="A cluster")
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


def share_arguments(client: Any, tasks: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the tasks with a Dask future in place of every argument that more than one of them has."""
    tasks = [tuple(_make_picklable(argument) for argument in task) for task in tasks]
    arguments = [argument for task in tasks for argument in task if not isinstance(argument, NEVER_SHARED)]
    counts = Counter(map(id, arguments))
    shared = {id(argument): argument for argument in arguments if counts[id(argument)] > 1}
    futures = {key: _share_once(client, argument) for key, argument in shared.items()}
    return [tuple(futures.get(id(argument), argument) for argument in task) for task in tasks]


def _make_picklable(argument: Any) -> Any:
    """Call `argument.picklable_stand_in()` if there is such a method."""
    stand_in = getattr(type(argument), "picklable_stand_in", None)
    return argument if stand_in is None else stand_in(argument)


#: `id` of an argument -> its future and the client, for as long as the argument exists.
_SHARED: dict[int, tuple[Any, Any]] = {}


def _share_once(client: Any, argument: Any) -> Any:
    """Return a future of an argument; a frozen dataclass cannot change, so it is sent once for all calls."""
    is_frozen = getattr(getattr(argument, "__dataclass_params__", None), "frozen", False)
    sent, owner = _SHARED.get(id(argument), (None, None))
    if is_frozen and sent is not None and owner is client and sent.status in ("pending", "finished"):
        return sent
    future = _send(client, argument)
    if is_frozen:
        if sent is None:
            weakref.finalize(argument, _SHARED.pop, id(argument), None).atexit = False
        _SHARED[id(argument)] = future, client
    return future


def _send(client: Any, argument: Any) -> Any:
    """Send an argument as a task that returns it, which Dask repeats if the worker with the result is lost."""
    with allow_large_graphs():
        return client.submit(identity, PickledPayload(argument), pure=False)


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
