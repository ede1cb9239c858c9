"""Ctrl-C and SIGTERM end a command whatever it is doing, with all processes that it started."""

import signal
import subprocess
import sys

import pytest
from process_tree import PATIENCE, descendants, is_gone, wait_until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")

COMMAND = """
import hashlib, os, signal, sys, threading, time
from randsel.cli import main

@main.command()
def wait():
    {body}

{before}
main(["wait"], standalone_mode=False)
{after}
"""
#: Bodies of a command that computes for ever, where an exception would be lost, or raised late.
ENDLESS = {
    "destructor": """
    class Endless:
        def __del__(self):
            print("begun", flush=True)
            time.sleep(1000)
    Endless()
    """,
    "caught": """
    print("begun", flush=True)
    while True:
        try:
            time.sleep(1000)
        except BaseException:
            pass
    """,
    # One call of C code, which releases the interpreter lock as matrix products do.
    "one call": """
    print("begun", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
    """,
    # Worker processes of joblib, one of them idle, and a process such as those that read files.
    "children": """
    from joblib import Parallel, delayed
    from randsel._utils.processes import start_python
    start_python("-c", "import time; time.sleep(1000)", variables={})
    for _ in Parallel(3, return_as="generator_unordered")(delayed(time.sleep)(s) for s in (0, 1000, 1000)):
        print("begun", flush=True)
    """,
}


def start(body, before="", after=""):
    code = COMMAND.format(body=body, before=before, after=after)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", code], **pipes, text=True, start_new_session=True)


SIGNALS = [*((signal.SIGINT, name) for name in ENDLESS), (signal.SIGTERM, "children")]


@pytest.mark.parametrize(("number", "name"), SIGNALS)
def test_a_signal_ends_a_command_with_its_children_where_an_exception_would_be_lost(number, name):
    process = start(ENDLESS[name])
    assert process.stdout.readline() == "begun\n", process.communicate()
    children = descendants(process.pid)
    process.send_signal(number)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + number
    assert said == f"\n{'Interrupted' if number == signal.SIGINT else 'Terminated'}.\n"
    assert len(children) == (4 if name == "children" else 0)
    wait_until(lambda: all(map(is_gone, children)))


def test_a_closed_standard_error_does_not_keep_a_command_running():
    process = start(ENDLESS["caught"])
    assert process.stdout.readline() == "begun\n", process.communicate()
    process.stderr.close()
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 130
    process.stdout.close()


def test_a_signal_that_the_caller_ignores_stays_ignored():
    process = start("os.kill(os.getpid(), signal.SIGINT)", before="signal.signal(signal.SIGINT, signal.SIG_IGN)")
    _, said = process.communicate(timeout=PATIENCE)
    assert (process.returncode, said) == (0, "")


def test_signals_are_as_before_after_a_command():
    before = """
import randsel._utils.processes  # imports a package that sets environment variables

def state():
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    return handlers, signal.pthread_sigmask(signal.SIG_BLOCK, []), threading.active_count(), dict(os.environ)

first = state()
"""
    after = """
assert state() == first
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(1000)
except KeyboardInterrupt:
    print("raised")
"""
    output, said = start("assert state() != first", before, after).communicate(timeout=PATIENCE)
    assert (output, said) == ("raised\n", "")
