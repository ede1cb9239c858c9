"""A Dask cluster of real processes on the loopback device, each of which a test can kill.

    with cluster(n_workers=4) as c:
        client = Client(c.address)
        c.kill_worker(0)

Workers have one thread each and can import the modules of this folder. They have no nanny, unless one is asked for, so
that a killed worker stays dead. The fixture `workers` of conftest.py is a cluster for a whole session, in which nothing
may be killed.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

#: Seconds within which processes must have started, on a busy machine.
START_SECONDS = 60.0
#: Seconds after which a scheduler without work ends by itself.
IDLE_SECONDS = 900


@dataclass
class Cluster:
    """A scheduler and its workers; processes by their number, in the order in which they were started."""

    folder: Path
    nanny: bool = False
    address: str = ""
    scheduler: subprocess.Popen | None = None
    workers: list[subprocess.Popen] = field(default_factory=list)

    @property
    def worker_pids(self) -> list[int]:
        """Processes that compute: with a nanny they are its children."""
        pids = [worker.pid for worker in self.workers if worker.poll() is None]
        return [child for pid in pids for child in _computing_children(pid)] if self.nanny else pids

    def start_scheduler(self) -> None:
        file = self.folder / "scheduler.json"
        file.unlink(missing_ok=True)
        # the same port again, so that a scheduler that was killed can come back
        port = self.address.rpartition(":")[2] or "0"
        self.scheduler = self._start(
            "dask_scheduler",
            *("--host", "127.0.0.1", "--port", port, "--no-dashboard", "--dashboard-address", "127.0.0.1:0"),
            *("--scheduler-file", str(file), "--idle-timeout", f"{IDLE_SECONDS}s"),
        )
        self.address = self._wait_for(
            lambda: file.exists() and json.loads(file.read_text() or "{}").get("address"), [self.scheduler]
        )

    def start_workers(self, count: int) -> None:
        """Start some more, and wait for them."""
        here = len(self._known())
        for _ in range(count):
            worker = self._start(
                "dask_worker",
                *(self.address, "--host", "127.0.0.1", "--nthreads", "1", "--no-dashboard", "--memory-limit", "0"),
                *("--nanny" if self.nanny else "--no-nanny", "--death-timeout", "60"),
                *("--local-directory", str(self.folder)),
            )
            self.workers.append(worker)
        self._wait_for(lambda: len(self._known()) >= here + count, self.workers[-count:] if count else [])

    def kill_worker(self, number: int = 0) -> None:
        """Kill a worker without warning (SIGKILL); a nanny starts another one, otherwise numbers of later ones stay."""
        if self.nanny:
            for pid in _computing_children(self.workers[number].pid):
                os.kill(pid, signal.SIGKILL)
        else:
            _kill(self.workers[number])

    def kill_scheduler(self) -> None:
        """Kill the scheduler without warning (SIGKILL), then its workers, which would end and wait to be reaped."""
        _kill(self.scheduler)
        for worker in self.workers:
            _kill(worker)

    def stop(self) -> None:
        """Kill all processes; an orderly shutdown takes seconds."""
        for number in range(len(self.workers)):
            if self.nanny and self.workers[number].poll() is None:
                self.kill_worker(number)
        for process in (*self.workers, self.scheduler):
            if process is not None:
                _kill(process)

    def log(self) -> str:
        """Return what the processes wrote."""
        return "\n".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("*.log")))

    def _start(self, program: str, *options: str) -> subprocess.Popen:
        tests = str(Path(__file__).parent)
        path = os.pathsep.join(filter(None, [tests, os.environ.get("PYTHONPATH")]))
        number = len(list(self.folder.glob("*.log")))
        with (self.folder / f"{number:02d}-{program}.log").open("w") as log:
            return subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.{program}", *options],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": path},
                preexec_fn=_die_with_parent,  # noqa: PLW1509 (nothing is done in between that could hang)
            )

    def _wait_for(self, condition, started):
        """Wait until a condition returns something true, and return that; fail if a started process ends instead."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and all(process.poll() is None for process in started):
            if result := condition():
                return result
            time.sleep(0.05)
        msg = f"the cluster did not start:\n{self.log()}"
        raise RuntimeError(msg)

    def _known(self) -> dict[str, object]:
        """Return the workers that the scheduler knows."""
        from distributed import Client  # noqa: PLC0415 (tests that skip need no Dask)

        with Client(self.address, timeout=START_SECONDS, set_as_default=False) as client:
            return client.scheduler_info(n_workers=-1)["workers"]


def _computing_children(pid: int) -> list[int]:
    """Return the children of a process that compute; resource trackers do not."""
    found = [
        child for thread in Path(f"/proc/{pid}/task").iterdir() for child in (thread / "children").read_text().split()
    ]
    return [int(child) for child in found if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def _die_with_parent() -> None:
    """Have Linux kill this process when its parent ends, however that ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _kill(process: subprocess.Popen) -> None:
    process.kill()
    process.wait(10)


@contextmanager
def cluster(n_workers: int = 4, *, nanny: bool = False):
    """Run a scheduler and workers; skip the test where distributed is not installed."""
    pytest.importorskip("distributed", reason="distributed is not installed (extra 'dask')")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="randsel-cluster-", ignore_cleanup_errors=True)))
        started = Cluster(folder, nanny)
        stack.callback(started.stop)
        started.start_scheduler()
        started.start_workers(n_workers)
        yield started
