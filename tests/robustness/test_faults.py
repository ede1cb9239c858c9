"""What happens if a disk is full, a folder read-only, a process killed: see contributing/traceability.md."""

import itertools
import json
import os
import re
import runpy
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from process_tree import wait_until

from randsel import RandSel, datasets
from randsel._utils import files, text
from randsel._utils.files import FinishedParts
from randsel.analysis import _pipeline as selection
from randsel.cli._main import main
from randsel.experiments import _cells, _run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mounts, limits and signals of Linux")

DOCS = Path(__file__).parents[2] / "docs"
COMMANDS = {
    "select": ["--halves", "40", "--folds", "3"],
    "compare": ["--folds", "2", "--reshuffles", "4", "--methods", "randSel,Corr. Coeff."],
}
RESULTS = {"select": ("ranking.csv", "pairs.csv"), "compare": ("table.md", "table.csv", "features.csv")}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    X, y, _ = datasets.make_xor(80, 10, random_state=0)
    path = tmp_path_factory.mktemp("table") / "table.csv"
    rows = [",".join([*map(repr, x), str(label)]) for x, label in zip(X.tolist(), y, strict=True)]
    path.write_text("\n".join([",".join([*(f"g{j}" for j in range(10)), "status"]), *rows]) + "\n")
    return path


def words(command, table, out, *more):
    return [command, str(table), "--target", "status", "--out", str(out), *COMMANDS[command], *more]


def invoke(command, table, out, *more):
    return CliRunner().invoke(main, words(command, table, out, *more))


@pytest.fixture(scope="module")
def undisturbed(table, tmp_path_factory):
    """What the two commands write if nothing goes wrong."""
    out = tmp_path_factory.mktemp("undisturbed")
    for command in COMMANDS:
        result = invoke(command, table, out / command)
        assert result.exit_code == 0, result.output
    return {command: results_of(command, out / command) for command in COMMANDS}


def results_of(command, out):
    return {name: (out / name).read_bytes() for name in RESULTS[command]}


def refused(result, *sentences):
    """One sentence or two, no traceback, exit status 1."""
    assert result.exit_code == 1, result.output
    assert "Traceback" not in result.output
    message = result.output[result.output.index("Error: ") :]
    assert len(message) < 400
    for sentence in sentences:
        assert sentence in message


def whole(out, *, killed=False):
    """Finished parts or cells; every file of the folder can be read.

    A run that is killed while it writes leaves the unfinished file under another name; the next run removes it.
    """
    assert killed or not list(out.rglob("*.partial"))
    cells = list(out.glob("cells/*.json"))
    assert all(json.loads(path.read_text())["result"] for path in cells)
    names = [path.stem for path in (out / "parts").glob("*.npz")]
    assert all(FinishedParts(out / "parts").load(name) is not None for name in names)
    return {path.name: path.stat().st_mtime_ns for path in (*cells, *(out / "parts").glob("*.npz"))}


@pytest.fixture
def mount(tmp_path):
    """Mount a small disk, in memory, whose size and rights can be changed."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def how(*options):
        return subprocess.run(["mount", *options, str(folder)], capture_output=True, text=True, check=False)

    if (failed := how("-t", "tmpfs", "-o", "size=48k", "tmpfs")).returncode:
        pytest.skip(f"no file system can be mounted here: {failed.stderr.strip()}")

    def change(options):
        assert how("-o", f"remount,{options}").returncode == 0

    yield folder, change
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


# ---------------------------------------------------------------- killed


@pytest.mark.slow
def test_a_job_killed_at_random_moments_ends_as_if_it_had_not_been(tmp_path):
    """What `make kill` does with long jobs and 20 moments."""
    killed = runpy.run_path(str(DOCS.parent / "benchmarks" / "scale" / "killed.py"))
    size = {"samples": 80, "features": 10, "options": ["--halves", "10", "--folds", "2"]}
    found = killed["trial"]("select", size, tmp_path, kills=3, seed=1)
    assert found["killed"] > 0
    assert found["status"][0] == found["status"][1] == 0
    assert found["compared"] >= 8
    assert not found["differing"]
    assert not found["left"]


# ---------------------------------------------------------------- the disk


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_is_said_and_the_run_goes_on_when_there_is_room(command, table, undisturbed, mount):
    folder, change = mount
    out = folder / "out"
    refused(invoke(command, table, out), "no room left to write", "make some and run again, what is finished is kept")
    kept = whole(out, killed=True)
    assert kept
    assert not (out / RESULTS[command][0]).exists()
    change("size=20m")
    result = invoke(command, table, out)
    assert result.exit_code == 0, result.output
    assert results_of(command, out) == undisturbed[command]
    assert kept.items() <= whole(out).items()  # nothing of it was done again


def test_a_full_disk_ends_a_fit_that_goes_on_when_there_is_room(mount, monkeypatch):
    folder, change = mount
    monkeypatch.setattr(files, "MIN_SECONDS", 0.0)
    monkeypatch.setattr(files, "MIN_MULTIPLE", 0.0)
    X, y, _ = datasets.make_xor(60, 300, random_state=0)
    with pytest.raises(OSError, match="No space left on device") as error:
        RandSel(2, checkpoint=folder / "kept").fit(X, y)
    assert "rounds-" in error.value.filename
    assert not list(folder.rglob("*.partial"))
    change("size=20m")
    again = RandSel(2, checkpoint=folder / "kept").fit(X, y)
    assert np.array_equal(again.order_, RandSel(2).fit(X, y).order_)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_read_only_folder_is_said_before_anything_is_computed(command, table, mount):
    folder, change = mount
    change("ro")
    refused(invoke(command, table, folder / "out"), "may not be written or read; give another folder")
    change("rw")
    assert not list(folder.iterdir())


@pytest.mark.slow
def test_a_folder_that_becomes_read_only_is_said_and_the_run_goes_on(table, undisturbed, mount, monkeypatch):
    folder, change = mount
    change("size=20m")
    out, real = folder / "out", selection.measure_stability

    def closing(*args):
        # files that are open for writing keep a disk from becoming read-only, but not a view of its folder
        parts = str(out / "parts")
        subprocess.run(["mount", "--bind", parts, parts], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", parts], check=True)
        return real(*args)

    monkeypatch.setattr(selection, "measure_stability", closing)
    refused(invoke("select", table, out), "may not be written or read; give another folder")
    assert set(whole(out)) == {"path.npz", "tests.npz"}
    monkeypatch.undo()
    subprocess.run(["umount", str(out / "parts")], check=True)
    assert invoke("select", table, out).exit_code == 0
    assert results_of("select", out) == undisturbed["select"]


def test_what_a_killed_run_was_writing_is_removed(table, tmp_path):
    (tmp_path / "out" / "parts").mkdir(parents=True)
    left = tmp_path / "out" / "ranking.csv.123.partial", tmp_path / "out" / "parts" / "half-000.npz.123.partial"
    mine = tmp_path / "out" / "mine.partial"
    for path in (*left, mine):
        path.write_text("half")
    with files.lock_folder(tmp_path / "out"):
        assert not any(path.exists() for path in left)
        assert mine.exists()


# ---------------------------------------------------------------- other runs, clocks


def start(command, table, out, *more):
    run = [sys.executable, "-m", "randsel", *words(command, table, out, *more)]
    return subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def until(process, pattern, out, count=1):
    """Wait until so many files are there."""
    while len(list(out.glob(pattern))) < count:
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)


@contextmanager
def paused(process):
    """Pause a run and its workers; afterwards let them go on, and wait for the end."""
    os.killpg(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGCONT)
        process.communicate()


FINISHED = {"select": "parts/half-*.npz", "compare": "cells/*[0-9a-f].json"}


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_second_run_on_a_folder_is_refused_and_the_first_goes_on(command, table, undisturbed, tmp_path):
    out = tmp_path / "out"
    first = start(command, table, out)
    until(first, ".lock", out)
    until(first, FINISHED[command], out)
    with paused(first):  # it must not end before the second run has looked at the folder
        refused(invoke(command, table, out), "another run is working in", "wait for it, or give another folder")
    assert first.returncode == 0
    assert results_of(command, out) == undisturbed[command]


class Terminal:
    """What is asked whether it is a terminal."""

    class stderr:  # noqa: N801
        isatty = staticmethod(lambda: True)


class Backwards:
    """A clock that is set back again and again."""

    def __init__(self):
        self.turns = itertools.count()

    def __getattr__(self, name):
        return getattr(time, name)

    def monotonic(self):
        return 1e6 - 7.0 * next(self.turns)

    time = perf_counter = monotonic


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_clock_that_is_set_back_changes_nothing(command, table, undisturbed, tmp_path, monkeypatch):
    shown = []
    for module in (files, text, _run, _cells):
        monkeypatch.setattr(module, "time", Backwards())
    monkeypatch.setattr(text.ProgressLine, "_write", lambda _, line: shown.append(line))
    monkeypatch.setattr(text, "sys", Terminal)
    out = tmp_path / "out"
    for _ in range(2):
        assert invoke(command, table, out).exit_code == 0
        assert results_of(command, out) == undisturbed[command]
        for path in out.rglob("*"):  # files of the future, as if written before the clock was set back
            os.utime(path, (4e9, 4e9))
    assert any("100 %" in line or "left" in line for line in shown)
    assert not [line for line in shown if re.search(r"-\d", line)]
    assert "-" not in (out / "times.csv").read_text() if command == "compare" else True


# ---------------------------------------------------------------- signals


def group_is_gone(process):
    """Whether no process is left of those that a command started."""
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return True
    return False


MESSAGES = {
    signal.SIGINT: "Interrupted. What is finished is kept: run the same command again to go on.",
    signal.SIGTERM: "Terminated. What is finished is kept: run the same command again to go on.",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "command", "jobs"),
    [
        (signal.SIGINT, "select", "1"),
        (signal.SIGTERM, "select", "2"),
        (signal.SIGINT, "compare", "2"),
        (signal.SIGTERM, "compare", "1"),
    ],
)
def test_a_signal_ends_a_run_with_a_message_and_it_resumes(number, command, jobs, table, undisturbed, tmp_path):
    out = tmp_path / "out"
    process = start(command, table, out, "--jobs", jobs)
    until(process, FINISHED[command], out, 2)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does: workers get it as well
    else:
        process.send_signal(number)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert said.endswith(f"\n{MESSAGES[number]}\n")
    assert "Traceback" not in said
    assert "Warning" not in said
    wait_until(lambda: group_is_gone(process))
    kept = whole(out, killed=True)
    assert len(kept) >= 2
    assert not (out / RESULTS[command][0]).exists()
    assert invoke(command, table, out).exit_code == 0
    assert kept.items() <= whole(out).items()
    assert results_of(command, out) == undisturbed[command]


@pytest.mark.slow
def test_ctrl_c_ends_a_scan_which_then_resumes(tmp_path):
    X, y, _ = datasets.make_xor(300, 1200, random_state=0)
    np.savez(tmp_path / "table.npz", X=X, y=y)
    words = ["interactions", str(tmp_path / "table.npz"), "--jobs", "2", "--out", str(tmp_path / "out")]
    command = [sys.executable, "-m", "randsel", *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    wait_until(lambda: process.poll() is not None or (tmp_path / "out" / "so-far").exists())
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert said.endswith("\nInterrupted. What is finished is kept: run the same command again to go on.\n")
    assert "Traceback" not in said
    wait_until(lambda: group_is_gone(process))
    assert CliRunner().invoke(main, words).exit_code == 0
    assert (tmp_path / "out" / "pairs.csv").exists()


def workers_of(process):
    """Process ids of joblib's workers."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == process.pid and b"LokyProcess" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:  # it has ended meanwhile
            continue
    return found


@pytest.mark.slow
def test_a_worker_that_is_killed_for_its_memory_is_said_and_the_run_goes_on(table, undisturbed, tmp_path):
    out = tmp_path / "out"
    process = start("compare", table, out, "--jobs", "2")
    until(process, FINISHED["compare"], out, 2)
    # as the system does where memory runs out
    os.kill(workers_of(process)[0], signal.SIGKILL)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "Error: a process of --jobs was killed, which the system does when memory runs out" in said
    assert "take fewer jobs (--jobs 1), and run again: what is finished is kept." in said
    assert "Traceback" not in said
    wait_until(lambda: group_is_gone(process))
    kept = whole(out, killed=True)
    assert len(kept) >= 2
    assert invoke("compare", table, out).exit_code == 0
    assert kept.items() <= whole(out).items()
    assert results_of("compare", out) == undisturbed["compare"]


@pytest.mark.slow
def test_workers_end_soon_after_a_killed_run(table, undisturbed, tmp_path):
    out = tmp_path / "out"
    process = start("compare", table, out, "--jobs", "2")
    until(process, FINISHED["compare"], out, 2)
    assert workers_of(process)
    process.kill()
    process.communicate()
    kept = whole_cells(out)
    result = invoke("compare", table, out)  # perhaps while workers of the other run still finish a step
    assert result.exit_code == 0, result.output
    assert kept <= whole_cells(out)
    assert results_of("compare", out) == undisturbed["compare"]
    wait_until(lambda: group_is_gone(process))


def whole_cells(out):
    """Names of the finished cells, which others may be writing beside."""
    cells = list(out.glob(FINISHED["compare"]))
    assert all(json.loads(path.read_text())["result"] for path in cells)
    return {path.name for path in cells}


@pytest.mark.slow
def test_a_cell_without_enough_memory_fails_alone(table, undisturbed, tmp_path, monkeypatch):
    real = _run.evaluate

    def hungry(cell, data):
        if cell.fold == 1 and cell.reshuffle == 2:
            np.ones(1 << 58)  # more than any machine has
        return real(cell, data)

    monkeypatch.setattr(_run, "evaluate", hungry)
    refused(invoke("compare", table, tmp_path / "out"), "2 of 16 cells failed; run the command again to retry them")
    assert "Unable to allocate" in (tmp_path / "out" / "table.md").read_text()
    monkeypatch.undo()
    assert invoke("compare", table, tmp_path / "out").exit_code == 0
    assert results_of("compare", tmp_path / "out") == undisturbed["compare"]


LITTLE_MEMORY = """
import resource, sys, time
from pathlib import Path
import numpy as np
from randsel import cli
from randsel.analysis import _resampling
real = _resampling._select_on_half
out = Path(sys.argv[sys.argv.index("--out") + 1])

def hungry(*task):
    if task[-1] == 5:
        while not list(out.rglob("half-000.npz")):  # the first half is stored before this one fails
            time.sleep(0.05)
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 2**27, resource.RLIM_INFINITY))
        np.ones(2**30)
    return real(*task)

_resampling._select_on_half = hungry
cli.main(sys.argv[1:])
"""


@pytest.mark.slow
def test_too_little_memory_for_a_half_is_said_and_the_run_goes_on(table, undisturbed, tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-c", LITTLE_MEMORY, *words("select", table, out, "--jobs", "2")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "Error: not enough memory; take fewer jobs (--jobs 1), leave out columns" in result.stderr
    assert "run again: what is finished is kept." in result.stderr
    assert "Traceback" not in result.stderr
    kept = whole(out, killed=True)
    assert {"path.npz", "tests.npz", "half-000.npz"} <= set(kept)
    assert "half-005.npz" not in kept
    assert invoke("select", table, out).exit_code == 0
    assert kept.items() <= whole(out).items()
    assert results_of("select", out) == undisturbed["select"]


# ---------------------------------------------------------------- the page


def test_the_page_on_traceability_names_the_tests_of_faults():
    page = (DOCS / "contributing" / "traceability.md").read_text()
    mine = set(re.findall(r"^def (test_\w+)\(", Path(__file__).read_text(), re.MULTILINE))
    assert mine - set(re.findall(r"`(test_\w+)`", page)) == {"test_the_page_on_traceability_names_the_tests_of_faults"}
