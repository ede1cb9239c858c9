"""Child processes: start them, call functions in them with a time limit, and kill them with all that they started.

The only module of the package that starts processes. A computation that may take too long runs in a child process,
because a process can be killed at any moment. An exception raised from outside, by a signal or by another thread, could
leave a lock of any library locked for ever.
"""

import atexit
import faulthandler
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import active_children, current_process
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Any, cast

from threadpoolctl import threadpool_limits

#: Seconds that a child process may take to start and import a function; seconds until an idle one is ended.
START_SECONDS, IDLE_SECONDS = 120.0, 10.0
#: Seconds past the time limit after which a child process ends itself, in case its parent could not kill it.
GRACE_SECONDS = 5.0
ONE_BLAS_THREAD = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class ChildEndedError(RuntimeError):
    """A child process ended before it returned the result of a call."""


def start_python(*arguments: str, variables: dict[str, str], show_errors: bool = True) -> subprocess.Popen[bytes]:
    """Start Python with pipes for input and output and a process group of its own, which `kill` ends."""
    # Pass on the import path, but not the current folder, which may contain files of others.
    path = os.pathsep.join(folder for folder in sys.path if folder)
    process = subprocess.Popen(
        [sys.executable, "-P", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None if show_errors else subprocess.DEVNULL,
        env={**os.environ, **variables, "PYTHONPATH": path},
        start_new_session=True,
    )
    _children.add(process)
    return process


_children: set[subprocess.Popen[bytes]] = set()  # processes of `start_python` that `kill` has not ended yet


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process of `start_python` and all processes that it started, and wait until it has ended."""
    _kill_group(process)
    process.wait()
    if process.stdin is not None:
        with suppress(OSError):  # data that was not sent yet is lost
            process.stdin.close()
    _children.discard(process)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is not None:  # its id may belong to another process by now
        return
    if sys.platform == "win32":
        subprocess.run(["taskkill", "/T", "/F", "/PID", str(process.pid)], capture_output=True, check=False)
    else:
        with suppress(ProcessLookupError, PermissionError):  # the latter on macOS, if all have ended
            os.killpg(process.pid, signal.SIGKILL)


def kill_children() -> None:
    """Kill the processes of `start_python` and the worker processes of joblib, without waiting for their end.

    This process must end next. A signal handler may call it: waiting could need a lock that the same thread holds.
    """
    for process in list(_children):
        _kill_group(process)
    for worker in active_children():
        with suppress(OSError):
            os.kill(cast("int", worker.pid), signal.SIGKILL)


@contextmanager
def silence_resource_tracker() -> Iterator[None]:
    """Suppress the warning of joblib's resource tracker when it removes the shared memory of a process that was ended.

    The tracker is another process, which prints to the standard error of this one and inherits its environment.
    """
    previous = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, [previous, "ignore:resource_tracker"]))
    try:
        yield
    finally:
        if previous is None:
            del os.environ["PYTHONWARNINGS"]
        else:
            os.environ["PYTHONWARNINGS"] = previous


def write_message(stream: IO[bytes], message: bytes) -> None:
    """Write a message that `read_message` reads at the other end of a pipe."""
    stream.write(len(message).to_bytes(8, "little"))
    stream.write(message)
    stream.flush()


def read_message(stream: IO[bytes]) -> bytes:
    """Read a message of `write_message`; raise EOFError if the other end was closed before it was complete."""
    header = stream.read(8)
    size = int.from_bytes(header, "little")
    message = stream.read(size) if len(header) == 8 else b""
    if len(header) < 8 or len(message) < size:
        raise EOFError
    return message


# ---------------------------------------------------------------- calls with a time limit


def call_with_limit(seconds: float, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return `function(*arguments)`, computed with one BLAS thread in a child process that is killed at the limit.

    The function is one of a module, which the child process imports; arguments and result are pickled. The limit raises
    TimeoutError; starting a process and importing the function do not count. If the child process ends by itself, for
    lack of memory for instance, ChildEndedError is raised. It is kept for the next call, for `IDLE_SECONDS` at most.
    """
    call = pickle.dumps((seconds, function, arguments))
    child = _idle_child()
    try:
        # an idle process may have been killed at any moment: a fresh one takes its place
        if child is None or not child.starts(call):
            child = _Child()
            if not child.starts(call):
                raise child.ended()
        result = child.result(seconds)
    except BaseException:
        if child is not None:
            child.end()
        raise
    _keep_for_next_call(child)
    return result


class _Child:
    """A child process that runs `serve_calls`, one call at a time."""

    def __init__(self) -> None:
        code = f"from {__name__} import serve_calls; serve_calls()"
        self.process = start_python("-c", code, variables=ONE_BLAS_THREAD)
        self.answers: SimpleQueue[bytes | None] = SimpleQueue()
        self.retirement = threading.Timer(IDLE_SECONDS, _end_if_idle, [self])
        receive = (self.process.stdout, self.answers.put, lambda: self.answers.put(None))
        threading.Thread(target=_receive_messages, args=receive, daemon=True).start()

    def starts(self, call: bytes) -> bool:
        """Send a call, and return whether the process started it; a process that has ended is cleared away."""
        assert self.process.stdin is not None
        try:
            write_message(self.process.stdin, call)
            self._next_answer(START_SECONDS, "a process for the time limit did not start within {:g} s")
        except (OSError, ChildEndedError) as error:
            if isinstance(error, TimeoutError):
                raise
            self.end()
            return False
        return True

    def result(self, seconds: float) -> Any:
        """Return the result of the call that was started; the process cannot be used again after an error."""
        return pickle.loads(self._next_answer(seconds, "gave up after {:g} s"))

    def _next_answer(self, seconds: float, message: str) -> bytes:
        try:
            answer = self.answers.get(timeout=min(seconds, threading.TIMEOUT_MAX))
        except Empty:
            raise TimeoutError(message.format(seconds)) from None
        if answer is None:
            raise self.ended()
        return answer

    def ended(self) -> ChildEndedError:
        """Return the error of a process that ended by itself."""
        return ChildEndedError(f"its process ended with status {self.process.wait()}; was there too little memory?")

    def end(self) -> None:
        """Kill the process with all processes that it started."""
        kill(self.process)


def _receive_messages(stream: IO[bytes], use: Callable[[bytes], None], at_end: Callable[[], None]) -> None:
    """Call `use` with every message of a pipe, and `at_end` when it closes; only this thread uses the stream."""
    with stream, suppress(EOFError, OSError):
        while True:
            use(read_message(stream))
    at_end()


_idle: list[_Child] = []  # child processes that wait for the next call
_idle_lock = threading.Lock()


def _idle_child() -> _Child | None:
    """Take an idle child process that is still running; None if there is none."""
    while True:
        with _idle_lock:
            if not _idle:
                return None
            child = _idle.pop()
        child.retirement.cancel()
        if child.process.poll() is None:
            return child
        child.end()


def _keep_for_next_call(child: _Child) -> None:
    child.retirement = threading.Timer(IDLE_SECONDS, _end_if_idle, [child])
    child.retirement.daemon = True
    with _idle_lock:
        _idle.append(child)
    child.retirement.start()


def _end_if_idle(child: _Child) -> None:
    with _idle_lock:
        if child not in _idle:
            return
        _idle.remove(child)
    child.end()


def end_idle_children() -> None:
    """End all idle child processes."""
    while (child := _idle_child()) is not None:
        child.end()


@atexit.register
def _end_all_children() -> None:
    for process in list(_children):
        kill(process)


# ---------------------------------------------------------------- in the child process


def serve_calls() -> None:
    """Run the calls that arrive on standard input and answer on standard output, until the parent process ends."""
    calls, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    waiting: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_receive_messages, args=(calls, waiting.put, _end_own_group), daemon=True).start()
    with Path(os.devnull).open("r+b") as nothing:
        # A call must not read the messages of later calls, and its output must not mix with the answers.
        os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        while True:
            seconds, function, arguments = pickle.loads(waiting.get())
            write_message(answers, b"started")
            # Ends this process even if C code never releases the interpreter lock.
            limit = min(seconds + GRACE_SECONDS, threading.TIMEOUT_MAX)
            faulthandler.dump_traceback_later(limit, exit=True, file=nothing)
            with threadpool_limits(limits=1, user_api="blas"):
                result = function(*arguments)
            faulthandler.cancel_dump_traceback_later()
            write_message(answers, pickle.dumps(result))


def _end_own_group() -> None:
    """End this process and all that it started, because the parent process has ended."""
    if sys.platform != "win32":
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def is_loky_worker() -> bool:
    """Return whether this is a worker process of joblib's default backend."""
    return current_process().name.startswith("LokyProcess")
