"""Tasks that tests give to workers; in a file of their own, so that workers need not import the tests."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import joblib
from joblib.parallel import SequentialBackend, get_active_backend
from threadpoolctl import threadpool_info, threadpool_limits


@dataclass(frozen=True)
class Frozen:
    value: float


class Counted:
    """Counts how often it is sent away."""

    def __init__(self):
        self.value, self.sent = 2.0, 0

    def __getstate__(self):
        self.sent += 1
        return {"value": self.value, "sent": 0}


@dataclass(frozen=True)
class Holder:
    held: Counted


def is_aligned(array, _):
    return array.flags.aligned and array.flags.c_contiguous


def product(shared, number):
    return getattr(shared, "held", shared).value * number


def where(_):
    nested = joblib.Parallel(n_jobs=2)(joblib.delayed(os.getpid)() for _ in range(4))
    return os.getpid(), set(nested), isinstance(get_active_backend()[0], SequentialBackend)


def set_threads(count):
    threadpool_limits(limits=count, user_api="blas")


def blas_threads(_=None):
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def die_once(shared, folder, number):
    """Kill the worker in the middle of a job, the first time."""
    mark = Path(folder) / str(number)
    if number == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.02)
    return shared.value * number


def touch_and_sleep(folder, number, seconds):
    """Show by a file that this job has begun, and take some time."""
    (Path(folder) / str(number)).touch()
    time.sleep(seconds)
