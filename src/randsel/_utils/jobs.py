"""Seeds, and maps over jobs that keep the order of the tasks: answers do not depend on the number of cores.

Every random decision has an address (round, kind of draw, number of the batch), and its generator is derived from the
address alone. Workers, backends and their order cannot change which draws are made.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, lru_cache
from importlib import import_module
from threading import Lock, Thread
from typing import Any, Protocol
from uuid import uuid4

import numpy as np
from joblib import Parallel, delayed
from joblib.parallel import get_active_backend
from threadpoolctl import ThreadpoolController

#: Class of a joblib backend -> module whose `job_runner(backend)` returns the `JobRunner` to use in place of joblib.
RUNNERS = {"DaskDistributedBackend": "randsel.distributed"}
#: Seconds between two looks of a worker process at whether its parent is alive.
PARENT_POLL = 1.0


class JobRunner(Protocol):
    """Runs tasks for a joblib backend that needs more than joblib does."""

    def run(self, function: Callable[..., Any], tasks: list[tuple[Any, ...]], *, in_order: bool) -> Iterator[Any]:
        """Yield `function(*task)` of all tasks: in the order of the tasks, or as soon as each is finished."""


def seed_of(random_state: Any) -> int:
    """Draw one integer from anything scikit-learn accepts as `random_state`."""
    from sklearn.utils import check_random_state  # noqa: PLC0415 (reading a file needs no scikit-learn)

    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def generator(seed: int, *address: int) -> np.random.Generator:
    """Return the generator that belongs to an address below `seed`."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=address))


@contextmanager
def one_blas_thread(when: bool = True) -> Iterator[None]:
    """Limit BLAS to one thread, if `when`: on workers, and where a problem is too small for more threads to pay."""
    with _pools().limit(limits=1 if when else None, user_api="blas"):
        yield


@lru_cache(maxsize=1)
def _pools() -> ThreadpoolController:
    """Return the thread pools of the loaded libraries; finding them takes milliseconds."""
    return ThreadpoolController()


def ordered_map(
    function: Callable[..., Any],
    tasks: Iterable[tuple[Any, ...]],
    n_jobs: int | None,
    on_done: Callable[[], None] | None = None,
) -> list[Any]:
    """Return `[function(*task) for task in tasks]`, computed by joblib's current backend.

    Each task has one BLAS thread, whatever the number of jobs: threads do not multiply, and products round alike.
    `on_done` is called for every task, in their order, as soon as it and those before it are finished.
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
    """Yield the number of a task and `function(*task)` as soon as it is finished.

    Each task has one BLAS thread, as in `ordered_map`. `prefer` is joblib's.
    """
    numbered = [(function, number, *task) for number, task in enumerate(tasks)]
    with one_blas_thread():
        yield from _run(_numbered, numbered, n_jobs, "generator_unordered", prefer)


def _numbered(function: Callable[..., Any], number: int, *task: Any) -> tuple[int, Any]:
    return number, function(*task)


def _run(
    function: Callable[..., Any], tasks: list[tuple[Any, ...]], n_jobs: int | None, return_as: str, prefer: str
) -> Iterable[Any]:
    """Return the results of all tasks, by joblib or the runner of its backend; one job, or one task, runs here."""
    if n_jobs == 1 or len(tasks) == 1:
        return (function(*task) for task in tasks)
    backend, _ = get_active_backend()
    module = RUNNERS.get(type(backend).__name__)
    if module is not None:
        runner: JobRunner = import_module(module).job_runner(backend)
        return runner.run(function, tasks, in_order=return_as != "generator_unordered")
    calls = [delayed(_run_in_worker)(function, task, process_identity()) for task in tasks]
    results: Iterable[Any] = Parallel(n_jobs=n_jobs, prefer=prefer, return_as=return_as)(calls)
    return results


def _run_in_worker(function: Callable[..., Any], task: tuple[Any, ...], parent: tuple[int, str]) -> Any:
    """Call the function in a thread of this process, or in a process that ends with its parent."""
    if process_identity() != parent:
        exit_with_parent()
    return run_single_threaded(function, task, parent)


#: Tells processes on several machines apart, whose process numbers may be equal.
_PROCESS_NAME = uuid4().hex


def process_identity() -> tuple[int, str]:
    """Return what tells this process from all others, on this machine and elsewhere."""
    return os.getpid(), _PROCESS_NAME


@cache
def exit_with_parent() -> None:
    """End this process soon after its parent, which may be killed without a chance to stop its workers.

    Without this, worker processes of joblib finish their tasks and then wait for minutes for more. On Windows, where a
    process keeps the number of its parent, nothing is done.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_POLL)
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def run_single_threaded(function: Callable[..., Any], task: tuple[Any, ...], parent: tuple[int, str]) -> Any:
    """Call the function with one BLAS thread; the process that gave the task has set that for itself already."""
    if process_identity() == parent:
        return function(*task)
    with _shared_limit:
        return function(*task)


class _SharedLimit:
    """Keeps BLAS to one thread while any thread of this process is inside; threads of a worker come and go."""

    def __init__(self) -> None:
        self.lock, self.n_inside, self.limits = Lock(), 0, ExitStack()

    def __enter__(self) -> None:
        with self.lock:
            if not self.n_inside:
                self.limits.enter_context(_pools().limit(limits=1, user_api="blas"))
            self.n_inside += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.n_inside -= 1
            if not self.n_inside:
                self.limits.close()


_shared_limit = _SharedLimit()
