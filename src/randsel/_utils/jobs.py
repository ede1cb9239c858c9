"""Seeds and an ordered map: what makes an answer independent of the number of cores.

Every random decision has an address (round, kind of draw, number of the batch), and its generator is
derived from the address alone. Workers, backends and their order cannot change which draws are made.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import lru_cache
from threading import Lock
from typing import Any
from uuid import uuid4

import numpy as np
from joblib import Parallel, delayed, parallel_config
from threadpoolctl import ThreadpoolController

from randsel.distributed._jobs import client_in_use, lent, unpacked, watched


def seed_of(random_state: Any) -> int:
    """One integer from anything scikit-learn accepts as `random_state`."""
    from sklearn.utils import check_random_state  # noqa: PLC0415 (reading a file needs no scikit-learn)

    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def generator(seed: int, *address: int) -> np.random.Generator:
    """Return the generator that belongs to an address below `seed`."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=address))


@contextmanager
def one_thread_if(small: bool) -> Iterator[None]:
    """Keep BLAS to one thread where a problem is too small for threads to pay."""
    with _pools().limit(limits=1 if small else None, user_api="blas"):
        yield


@lru_cache(maxsize=1)
def _pools() -> ThreadpoolController:
    """Thread pools of the libraries that are loaded; to look for them takes milliseconds."""
    return ThreadpoolController()


def ordered_map(
    function: Callable[..., Any],
    tasks: Iterable[tuple[Any, ...]],
    n_jobs: int | None,
    on_done: Callable[[], None] | None = None,
) -> list[Any]:
    """`[function(*task) for task in tasks]` over joblib's current backend, in the order of the tasks.

    Each task has one BLAS thread, whatever the number of jobs: threads do not multiply, and products round alike.
    `on_done` is called for every task, in their order, as soon as it and those before it are finished.
    """
    results = []
    with _pools().limit(limits=1, user_api="blas"):
        for result in _results(function, list(tasks), n_jobs, "list" if on_done is None else "generator", "threads"):
            results.append(result)
            if on_done is not None:
                on_done()
    return results


def as_finished(
    function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], n_jobs: int | None, prefer: str = "threads"
) -> Iterator[tuple[int, Any]]:
    """Yield the number of a task and `function(*task)` as soon as it is finished, in whatever order that is.

    Each task has one BLAS thread, as in `ordered_map`. `prefer` is joblib's.
    """
    numbered = [(function, number, *task) for number, task in enumerate(tasks)]
    with _pools().limit(limits=1, user_api="blas"):
        yield from _results(_numbered, numbered, n_jobs, "generator_unordered", prefer)


def _numbered(function: Callable[..., Any], number: int, *task: Any) -> tuple[int, Any]:
    return number, function(*task)


def _results(
    function: Callable[..., Any], tasks: list[tuple[Any, ...]], n_jobs: int | None, return_as: str, prefer: str
) -> Iterable[Any]:
    """Results of all tasks from joblib; of a single one, or one at a time, without it: Dask would not heed `n_jobs`."""
    client = client_in_use()
    if n_jobs == 1 or len(tasks) == 1:
        return (function(*task) for task in tasks)
    if client is not None:
        tasks = lent(client, tasks)
    calls = [delayed(_single_threaded)(function, task, _here(), client is not None) for task in tasks]
    if client is not None:
        # all at once: what is large was lent, and the scheduler balances what it knows of
        how = {"return_as": return_as, "pre_dispatch": "all"}
        return watched(client, lambda backend: Parallel(backend=backend, **how)(calls))
    found: Iterable[Any] = Parallel(n_jobs=n_jobs, prefer=prefer, return_as=return_as)(calls)
    return found


#: Tells processes apart on several machines, where numbers of processes may be the same.
_NAME = uuid4().hex


def _here() -> tuple[int, str]:
    return os.getpid(), _NAME


def _single_threaded(
    function: Callable[..., Any], task: tuple[Any, ...], parent: tuple[int, str], on_cluster: bool
) -> Any:
    """Call the function with one BLAS thread, which the process that gave the task has set for itself already."""
    task = unpacked(task)
    if _here() == parent:
        return function(*task)
    with _one_thread, parallel_config(backend="sequential") if on_cluster else nullcontext():
        # a worker of a cluster would otherwise spread the jobs of its job over the cluster again
        return function(*task)


class _OneThread:
    """Keeps BLAS to one thread while any thread of this process is within; threads of a worker come and go."""

    def __init__(self) -> None:
        self.lock, self.within, self.limits = Lock(), 0, ExitStack()

    def __enter__(self) -> None:
        with self.lock:
            if not self.within:
                self.limits.enter_context(_pools().limit(limits=1, user_api="blas"))
            self.within += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.within -= 1
            if not self.within:
                self.limits.close()


_one_thread = _OneThread()
