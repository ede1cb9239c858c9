"""Measure time and memory in separate processes on one core, for peers.py, mkl.py, plink.py, growth.py and check.py."""

import ast
import ctypes
import faulthandler
import hashlib
import io
import json
import os
import resource
import signal
import subprocess
import sys
import time
import tokenize
from functools import cache
from pathlib import Path

THREADS = ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMEXPR", "NUMBA", "VECLIB_MAXIMUM")
ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "randsel"
TIMED_OUT = "timed out"


def one_core():
    """Keep this process, and those that it will start, on one core and one thread; call it before importing numpy."""
    os.environ.update({f"{name}_NUM_THREADS": "1" for name in THREADS}, POLARS_MAX_THREADS="1", LOKY_MAX_CPU_COUNT="1")
    # the last core, because interrupts mostly go to the first
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def end_with_parent():
    """Die when the parent does: a fit that outlives a killed benchmark would disturb the next one."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def run(command, *, limit, memory):
    """Run a command that prints a JSON object as its last line; return that object, or {"error": why not}.

    `limit` are the seconds that its fit may take (see `measured`), and `memory` the bytes of address space that it may
    have. What it does before the fit may take ten minutes.
    """
    command = [str(part) for part in command]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=limit + 600,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (memory, memory)),
        )
    except subprocess.TimeoutExpired:
        return {"error": TIMED_OUT}
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    if "Timeout (" in done.stderr:
        return {"error": TIMED_OUT}
    if done.returncode < 0:
        return {"error": f"killed by {signal.Signals(-done.returncode).name}"}
    return {"error": (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]}


def measured(fit, limit, *, enough=2.0, most=5):
    """Call `fit` and return what it does, the seconds of the fastest call, and the megabytes that the first one added.

    It is called until `enough` seconds are spent, `most` times at most. Memory is the highest resident set during the
    call less the resident set before. A call that passes the limit ends the process, whatever it is doing.
    """
    faulthandler.dump_traceback_later(limit, exit=True)
    # sets the high-water mark back to what is resident now
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    seconds, megabytes, result = [], None, None
    while not seconds or (sum(seconds) < enough and len(seconds) < most):
        start = time.perf_counter()
        result = fit()
        seconds.append(time.perf_counter() - start)
        megabytes = resident("VmHWM") - before if megabytes is None else megabytes
    faulthandler.cancel_dump_traceback_later()
    return result, min(seconds), megabytes


def versions(python):
    """Versions of all that is installed in an environment; nothing if there is none."""
    code = (
        "import json; from importlib.metadata import distributions as d; "
        "print(json.dumps({x.name.lower().replace('_', '-'): x.version for x in d()}))"
    )
    try:
        return json.loads(subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout)
    except FileNotFoundError:
        sys.exit(f"{python} is not there; a target of the Makefile sets it up, or name one with --python.")


def resident(field):
    """Megabytes of a field of the process: VmRSS now, VmHWM at most."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024 / 1e6


def most_memory():
    """Bytes that a process may take: four fifths of what the machine has."""
    return int(0.8 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def source_digest(folders=("",)):
    """Short hash of the package's code without comments and docstrings; the version does not change with every edit.

    `folders` limits it to some subpackages and modules.
    """
    paths = [SOURCE / name for name in folders]
    files = (file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path]))
    return digest_of(files, SOURCE)


def digest_of(paths, root):
    """Short hash of the contents of files below `root`; of Python files without comments and docstrings."""
    digest = hashlib.sha256()
    for path in sorted(set(paths)):
        text = path.read_text()
        text = code_only(text) if path.suffix == ".py" else text
        digest.update(f"{path.relative_to(root)}\n{text}\n".encode())
    return digest.hexdigest()[:12]


@cache
def code_only(text):
    """Python code without comments, docstrings and blank lines, alike for all versions of Python.

    The text is cut, not parsed and printed again, because versions of Python print the same code differently.
    """
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines[node.lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and lines[token.start[0] - 1]:
            lines[token.start[0] - 1] = lines[token.start[0] - 1][: token.start[1]]
    return "\n".join(line.rstrip() for line in lines if line.strip())


def commit():
    """RANDSEL_COMMIT if it is set; otherwise the commit of the working tree, with a plus sign if files have changed."""
    if named := os.environ.get("RANDSEL_COMMIT"):
        return named
    try:
        git = [
            subprocess.run(["git", *arguments], cwd=SOURCE, capture_output=True, text=True, check=True).stdout.strip()
            for arguments in (("rev-parse", "--short=12", "HEAD"), ("status", "--porcelain", "--", ".."))
        ]
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return git[0] + "+" * bool(git[1])


def processor():
    """Name of the processor and number of cores of this machine."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else 'unknown processor'}, {os.cpu_count()} cores"


def crossover(times):
    """Return the smallest size from which on the device is faster at all larger sizes; None if there is none.

    `times` has size -> seconds on the host and on the device.
    """
    slower = [size for size, (host, device) in times.items() if device >= host]
    faster = [size for size in times if size > max(slower, default=0)]
    return min(faster, default=None)


def key_of(what):
    """Short name of what was run, as JSON: other settings or versions are another cell."""
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:12]


def kept(path, compute, *, again=False, limit=None, memory=None):
    """What an earlier run found, or `compute()`, written to `path`.

    A time-out or crash is a result too; it is tried again if asked for, or if more time or memory is allowed now.
    """
    if path.exists():
        record = json.loads(path.read_text())
        more = (limit or 0) > record["limit"] or (memory or 0) > record["memory"]
        if not (record.get("error") and (again or more)):
            return record
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {**compute(), "limit": limit or 0, "memory": memory or 0}
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(record, indent=1))
    partial.replace(path)
    return record
