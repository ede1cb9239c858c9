"""Run tasks in processes of one thread each; a fit that passes its time limit ends its process, not the benchmark."""

import signal
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import wait

import measure

#: Exit status of a process that `time_limit` ends.
TIME_LIMIT_STATUS = -signal.SIGALRM


@contextmanager
def time_limit(seconds):
    """End this process if the block takes longer, whatever it is doing."""
    # The default action of the signal ends the process in the kernel. `faulthandler.dump_traceback_later` would first
    # walk the frames of all threads, which crashes now and then while they run.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def run_tasks(tasks, work, jobs):
    """Yield (task, `work(task)`) as tasks finish, in any order; a failed task yields (task, {"error": why}).

    The next task is taken from the iterator when a process is free, so a generator may look at earlier results.
    """
    tasks = iter(tasks)
    idle, busy = [_Worker(work) for _ in range(jobs)], {}
    try:
        while True:
            while idle and (task := next(tasks, None)) is not None:
                worker = idle.pop()
                worker.connection.send(task)
                busy[worker.connection] = worker, task
            if not busy:
                return
            for connection in wait(list(busy)):
                worker, task = busy.pop(connection)
                result = worker.receive()
                idle.append(_Worker(work) if result is None else worker)
                yield task, result or {"error": worker.cause_of_death()}
    finally:
        for worker in [*idle, *(worker for worker, _ in busy.values())]:
            worker.process.kill()
            worker.process.join()


class _Worker:
    """A process that receives tasks and sends results until it is killed."""

    def __init__(self, work):
        context = get_context("fork")
        self.connection, far_end = context.Pipe()
        self.process = context.Process(target=_serve, args=(far_end, work), daemon=True)
        self.process.start()
        # a dead process is noticed by the end of its pipe, which nobody else may hold open
        far_end.close()

    def receive(self):
        """Return the next result; None if the process died."""
        try:
            return self.connection.recv()
        except (EOFError, ConnectionResetError):
            return None

    def cause_of_death(self):
        self.process.join()
        status = self.process.exitcode
        return measure.TIMED_OUT if status == TIME_LIMIT_STATUS else f"the process ended with status {status}"


def _serve(connection, work):
    measure.end_with_parent()
    while True:
        task = connection.recv()
        try:
            result = work(task)
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {error}"}
        connection.send(result)
