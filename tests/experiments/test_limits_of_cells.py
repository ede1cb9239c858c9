"""A cell over its time limit is killed with all processes that it started, and the other cells are finished."""

import os
import signal
import subprocess
import sys

import numpy as np
import psutil
import pytest
import slow_cells
from comparisons import small_spec, tables_of, without_times
from process_tree import PATIENCE, descendants, is_gone, wait_until
from threadpoolctl import threadpool_info

from randsel import datasets
from randsel._utils import processes
from randsel.experiments import _run

SPEC = small_spec(reshuffles=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "n_jobs"), [*((function, 1) for function in slow_cells.NEVER_ENDING), (slow_cells.start_a_child, 2)]
)
def test_a_cell_over_its_limit_is_killed_and_the_others_are_finished(function, n_jobs, tmp_path, monkeypatch):
    before = descendants()
    monkeypatch.setattr(_run, "evaluate", function)
    outcome = _run.run_comparison(SPEC, tables_of(SPEC), tmp_path, n_jobs=n_jobs, timeout=6)
    assert outcome.errors == {outcome.cells[0].key: "TimeoutError: gave up after 6 s"}
    assert set(outcome.results) == {cell.key for cell in outcome.cells[1:]}
    assert len(outcome.results) == 5
    assert not descendants() - before


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_limit_that_is_not_reached_changes_nothing(n_jobs, tmp_path, monkeypatch, capfd):
    unlimited = _run.run_comparison(SPEC, tables_of(SPEC), tmp_path / "unlimited")
    monkeypatch.setattr(_run, "evaluate", slow_cells.print_and_read)
    limited = _run.run_comparison(SPEC, tables_of(SPEC), tmp_path / "limited", n_jobs=n_jobs, timeout=PATIENCE)
    assert not limited.errors
    assert without_times(limited.results) == without_times(unlimited.results)
    for path in (tmp_path / "unlimited" / "cells").glob("*.json"):
        assert path.read_bytes() == (tmp_path / "limited" / "cells" / path.name).read_bytes()
    assert capfd.readouterr().out == ""


@pytest.mark.slow
def test_a_process_that_ends_by_itself_fails_its_cell_only(tmp_path, monkeypatch):
    monkeypatch.setattr(_run, "evaluate", slow_cells.end_the_process)
    outcome = _run.run_comparison(SPEC, tables_of(SPEC), tmp_path, timeout=PATIENCE)
    assert len(outcome.results) == 5
    (error,) = outcome.errors.values()
    assert error.startswith("ChildEndedError: its process ended with status 3")


def test_a_process_is_kept_for_the_next_call_and_ended_after_a_while(monkeypatch):
    monkeypatch.setattr(processes, "IDLE_SECONDS", 1e6)
    first = processes.call_with_limit(PATIENCE, os.getpid)
    assert processes.call_with_limit(PATIENCE, os.getpid) == first != os.getpid()
    monkeypatch.setattr(processes, "IDLE_SECONDS", 0.01)
    assert processes.call_with_limit(PATIENCE, os.getpid) == first
    wait_until(lambda: not psutil.pid_exists(first))  # not even as a zombie
    wait_until(lambda: not processes._children)


def test_a_process_that_was_killed_while_it_waited_is_replaced():
    first = processes.call_with_limit(PATIENCE, os.getpid)
    psutil.Process(first).kill()
    wait_until(lambda: is_gone(psutil.Process(first)))
    assert processes.call_with_limit(PATIENCE, os.getpid) != first
    processes.end_idle_children()
    assert not processes._children


def test_a_process_that_does_not_start_is_given_up(monkeypatch):
    monkeypatch.setattr(processes, "START_SECONDS", 0.0)
    with pytest.raises(TimeoutError, match="did not start within 0 s"):
        processes.call_with_limit(PATIENCE, os.getpid)
    assert not processes._children


def test_a_call_has_one_blas_thread(monkeypatch):
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name)
    pools = processes.call_with_limit(PATIENCE, threadpool_info)
    processes.end_idle_children()
    assert {pool["num_threads"] for pool in pools if pool["user_api"] == "blas"} <= {1}


WAITING = """
import sys, threading
import slow_cells
from randsel._utils.processes import call_with_limit
arguments = (3.0, getattr(slow_cells, sys.argv[1]), slow_cells.FIRST_CELL, None)
threading.Thread(target=call_with_limit, args=arguments, daemon=True).start()
sys.stdin.read()
"""


@pytest.mark.slow
@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "ended"])
@pytest.mark.parametrize("function", slow_cells.NEVER_ENDING)
def test_a_process_ends_with_its_parent(function, is_killed):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", WAITING, function.__name__]
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, **pipes) as parent:
        assert parent.stderr.readline() == b"begun\n"
        children = descendants(parent.pid)
        if is_killed:
            parent.kill()
        else:
            parent.stdin.close()
        parent.wait(PATIENCE)
    assert children
    wait_until(lambda: all(map(is_gone, children)))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_command_with_a_time_limit_leaves_no_process_when_it_is_ended(number, tmp_path):
    X, y, _ = datasets.make_xor(60, 8, random_state=0)
    np.savez(tmp_path / "table.npz", X=X, y=y)
    words = ["compare", "table.npz", "--out", "out", "--jobs", "2", "--timeout", "1000", "--methods", "randSel,RFE"]
    with subprocess.Popen(
        [sys.executable, "-m", "randsel", *words], cwd=tmp_path, stderr=subprocess.DEVNULL
    ) as process:
        wait_until(lambda: process.poll() is not None or list((tmp_path / "out").glob("cells/[0-9a-f]*.json")))
        children = descendants(process.pid)
        process.send_signal(number)
        process.wait(PATIENCE)
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    assert children
    wait_until(lambda: all(map(is_gone, children)))
