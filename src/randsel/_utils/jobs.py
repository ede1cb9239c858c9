"""Seeds, and parallel maps whose results depend neither on the number of jobs nor on the backend.

Every random draw has an address (round, kind of draw, number of the batch). Its generator is derived from the seed and
the address alone, so the order in which tasks run does not matter.
"""

import os
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import cache
from importlib import import_module
from threading import Lock, Thread
from typing import Any, Protocol
from uuid import uuid4

import numpy as np
from joblib import Parallel, delayed
from joblib.parallel import get_active_backend
from threadpoolctl import ThreadpoolController

from randsel._utils.processes import is_loky_worker

#: Class name of a joblib backend -> module whose `job_runner(backend)` returns the `JobRunner` to use instead.
RUNNERS = {"DaskDistributedBackend": "randsel.distributed"}
PARENT_POLL = 1.0  # seconds between two checks by a worker process that its parent is alive


class JobRunner(Protocol):
    """Interface of what runs tasks in place of joblib, see `RUNNERS`."""

    def run(self, function: Callable[..., Any], tasks: list[tuple[Any, ...]], *, in_order: bool) -> Iterator[Any]:
        """Yield `function(*task)` for all tasks, in the order of the tasks or as they finish."""


def seed_of(random_state: Any) -> int:
    """Draw one integer from anything scikit-learn accepts as `random_state`."""
    from sklearn.utils import check_random_state  # noqa: PLC0415 (reading a file needs no scikit-learn)

    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def generator(seed: int, *address: int) -> np.random.Generator:
    """Return the random generator that a seed and an address determine."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=address))


def one_blas_thread(when: bool = True) -> AbstractContextManager[Any]:
    """Limit BLAS to one thread if `when` is true: on workers, and for problems too small to gain from threads."""
    limits: AbstractContextManager[Any] = _pools().limit(limits=1 if when else None, user_api="blas")
    return limits


#: The thread pools of the loaded libraries; cached, because finding them takes milliseconds.
_pools = cache(ThreadpoolController)


def ordered_map(
    function: Callable[..., Any],
    tasks: Iterable[tuple[Any, ...]],
    n_jobs: int | None,
    on_done: Callable[[], None] | None = None,
) -> list[Any]:
    """Return `[function(*task) for task in tasks]`, computed by joblib's current backend.

    Each task uses one BLAS thread for any number of jobs, so that threads do not multiply and products round alike.
    `on_done` is called once per task, in order, when the task and all tasks before it are finished.
    """
    results = []
    with one_blas_thread():
        for result in _run(function, list(tasks), n_jobs, "list" if on_done is None else "generator", "threads"):
            results.append(result)
            if on_done is not None:
                on_done()
    return results


def as_finished(
    function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], n_jobs: int | None, prefer: str = "threads"
) -> Iterator[tuple[int, Any]]:
    """Yield (index, `function(*task)`) as tasks finish, with one BLAS thread each; `prefer` is passed to joblib."""
    numbered = [(function, number, *task) for number, task in enumerate(tasks)]
    with one_blas_thread():
        yield from _run(_numbered, numbered, n_jobs, "generator_unordered", prefer)


def _numbered(function: Callable[..., Any], number: int, *task: Any) -> tuple[int, Any]:
    return number, function(*task)


def _run(
    function: Callable[..., Any], tasks: list[tuple[Any, ...]], n_jobs: int | None, return_as: str, prefer: str
) -> Iterable[Any]:
    """Return the results of all tasks, by joblib or by a `JobRunner`; a single job or task runs in this thread."""
    if n_jobs == 1 or len(tasks) == 1:
        return (function(*task) for task in tasks)
    backend, _ = get_active_backend()
    module = RUNNERS.get(type(backend).__name__)
    if module is not None:
        runner: JobRunner = import_module(module).job_runner(backend)
        return runner.run(function, tasks, in_order=return_as != "generator_unordered")
    calls = [delayed(_run_in_worker)(function, task, process_identity()) for task in tasks]
    results: Any = Parallel(n_jobs=n_jobs, prefer=prefer, return_as=return_as)(calls)
    return results if return_as == "list" else _close_quietly(results)


def _close_quietly(results: Generator[Any, None, None]) -> Iterator[Any]:
    """Yield the results; if the caller stops early, such as by an error, omit joblib's warning of cancelled tasks."""
    try:
        for result in results:  # noqa: UP028  # `yield from` would close the results itself
            yield result
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results.close()


def _run_in_worker(function: Callable[..., Any], task: tuple[Any, ...], parent: tuple[int, str]) -> Any:
    """Call the function in a worker; if that is a process of its own, let it end with its parent."""
    if process_identity() != parent:
        exit_with_parent(parent[0])
    return run_single_threaded(function, task, parent)


_PROCESS_NAME = uuid4().hex  # random, because processes on different machines may have the same process id


def process_identity() -> tuple[int, str]:
    """Return an identifier that no other process has, on this machine or another."""
    return os.getpid(), _PROCESS_NAME


@cache
def exit_with_parent(parent_of_task: int) -> None:
    """End this process soon after its parent, which may be killed without a chance to stop its workers.

    A worker of loky is a child of the process that made the task, unless that has ended before this call.
    """
    # otherwise joblib's worker processes would finish their tasks and then wait for more for minutes; no effect on
    # Windows, where a process keeps the id of a parent that has ended
    parent = os.getppid()
    is_orphan = is_loky_worker() and parent != parent_of_task

    def watch() -> None:
        while os.getppid() == parent and not is_orphan:
            time.sleep(PARENT_POLL)
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def run_single_threaded(function: Callable[..., Any], task: tuple[Any, ...], parent: tuple[int, str]) -> Any:
    """Call the function with one BLAS thread; in the process `parent`, that limit is already set."""
    if process_identity() == parent:
        return function(*task)
    with _shared_limit:
        return function(*task)


class _SharedLimit:
    """Context that limits BLAS to one thread until the last thread of this process has left it."""

    def __init__(self) -> None:
        self.lock, self.n_inside, self.limits = Lock(), 0, ExitStack()

    def __enter__(self) -> None:
        with self.lock:
            if not self.n_inside:
                self.limits.enter_context(one_blas_thread())
            self.n_inside += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.n_inside -= 1
            if not self.n_inside:
                self.limits.close()


_shared_limit = _SharedLimit()
