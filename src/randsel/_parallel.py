"""Seeds and an ordered map: what makes an answer independent of the number of cores.

Every random decision has an address (round, kind of draw, number of the batch), and its generator is
derived from the address alone. Workers, backends and their order cannot change which draws are made.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import ThreadpoolController, threadpool_limits


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
    here = os.getpid()
    run = Parallel(n_jobs=n_jobs, prefer="threads", return_as="list" if on_done is None else "generator")
    results = []
    with _pools().limit(limits=1, user_api="blas"):
        for result in run(delayed(_single_threaded)(function, task, here) for task in tasks):
            results.append(result)
            if on_done is not None:
                on_done()
    return results


def _single_threaded(function: Callable[..., Any], task: tuple[Any, ...], parent: int) -> Any:
    if os.getpid() == parent:
        return function(*task)
    with threadpool_limits(limits=1, user_api="blas"):
        return function(*task)
