"""Processes below a process, and waiting for them to end."""

import time

import psutil

#: Seconds to wait for what should happen at once, on a machine that has much else to do.
PATIENCE = 60.0


def wait_until(condition):
    """Wait until a function returns something true, and return that."""
    end = time.monotonic() + PATIENCE
    while not (result := condition()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return result


def descendants(pid=None, command=""):
    """Return the processes below one, all generations, with a text in their command line.

    Zombies, which their parents have not yet waited for, and joblib's trackers of shared memory do not count.
    """
    return {
        process
        for process in psutil.Process(pid).children(recursive=True)
        if (line := command_line(process)) and command in line and "resource_tracker" not in line
    }


def command_line(process):
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def is_gone(process):
    """Whether a process has ended; a zombie has."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
