"""Every test has a time limit: one that hangs fails with the stacks of all threads, and the others still run."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

HANGING = """
import threading, time

def wait_for_ever():
    threading.Event().wait()

def test_that_hangs():
    threading.Thread(target=wait_for_ever, daemon=True).start()
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()

def test_that_passes():
    pass
"""


@pytest.mark.slow
def test_a_test_that_hangs_fails_with_the_stacks_of_all_threads(tmp_path):
    (tmp_path / "test_hanging.py").write_text(HANGING)
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path)]
    command += ["-o", "faulthandler_timeout=3", "--numprocesses", "1", str(tmp_path)]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 1
    assert "1 failed, 1 passed" in result.stdout
    assert "test_hanging.py::test_that_hangs" in result.stdout
    assert "in test_that_hangs" in result.stderr
    assert "in wait_for_ever" in result.stderr
