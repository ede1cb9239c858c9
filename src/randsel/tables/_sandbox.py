"""Formats that compiled libraries parse, read in a process apart: a file that crashes one, or never ends, is refused.

HDF5, polars and scipy's reader of MATLAB files are made for files that nobody tampered with. The process apart has
limits on its memory and its time, and hands over a `Sheet`: text as JSON, arrays as NPY; nothing is unpickled.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from randsel._utils.optional import optional
from randsel.tables.formats import _formats as table_formats
from randsel.tables.formats import _mat as table_mat
from randsel.tables.formats._text import Sheet

#: Readers by the names of their formats, and packages of the extra `files` that they need.
READERS: dict[str, Callable[..., Sheet]] = {
    "Parquet": table_formats.read_parquet,
    "h5ad": table_formats.read_h5ad,
    "MAT": table_mat.read_mat,
}
PACKAGES = {"Parquet": "polars", "h5ad": "h5py"}
#: Seconds of computing that a file gets; its bytes, and bytes of the limit on the table, for which it gets another.
#: Twice as long by the clock, as a library may also wait for itself.
SECONDS, BYTES_PER_SECOND, LIMIT_PER_SECOND = 2, 500_000, 200_000_000
#: Memory that the process gets: the limit on the table, as many times, and as much more.
TIMES, MORE_MEMORY = 4, 1 << 29
#: Threads take memory as well, of which the system counts what they never use.
THREADS = {"POLARS_MAX_THREADS": "2", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}


def read_apart(kind: str, path: Path, *, limit: int, **options: Any) -> Sheet:
    """Read a file in a process apart.

    Parameters
    ----------
    kind : {"Parquet", "h5ad", "MAT"}
        Which reader.
    path : Path
        The file.
    limit : int
        Bytes that the table may take.
    **options : dict
        Of the reader: text, None, or sets of text.

    Returns
    -------
    Sheet
        What the reader returned there.
    """
    if kind in PACKAGES:
        optional(PACKAGES[kind], extra="files", purpose=f"Reading {kind}")
    if not sys.executable:  # Python within another program, which could not be started again
        return READERS[kind](path, limit=limit, **options)
    plain = {name: sorted(value) if isinstance(value, set) else value for name, value in options.items()}
    job = json.dumps({"kind": kind, "path": str(path), "limit": limit, "options": plain}).encode()
    # the packages of this process, and nothing that lies beside the data
    around = {**os.environ, **THREADS, "PYTHONPATH": os.pathsep.join(folder for folder in sys.path if folder)}
    command = [sys.executable, "-P", "-m", "randsel.tables._sandbox"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=around
    ) as process:
        try:
            found = _asked(job, process.stdin, process.stdout)
        except (OSError, EOFError, ValueError):
            found = _last_words(path, kind, process.wait())
        except BaseException:
            process.kill()
            raise
    if isinstance(found, str):
        raise ValueError(found)
    return found


def _asked(job: bytes, to: Any, back: Any) -> Sheet | str:
    to.write(job)
    to.close()
    return _received(back)


def _last_words(path: Path, kind: str, status: int) -> str:
    """Say of a process that did not answer why that may be."""
    if -status in (signal.SIGXCPU, signal.SIGALRM, signal.SIGKILL):
        why = "it took more time than a file of its size should"
    else:
        why = f"the library that reads it broke down (status {status}), or needed more memory than --max-bytes allows"
    return f"{path} cannot be read as {kind}: {why}; it may be damaged. Write it again, or as CSV or NPZ."


# ---------------------------------------------------------------- what is handed over


class _Pipe:
    """What numpy does not take for a file, in which it would look for its place."""

    def __init__(self, stream: Any) -> None:
        self.read, self.write = stream.read, stream.write


def _send(answer: Sheet | str, stream: Any) -> None:
    """Write a sheet, or the sentence why there is none: its length, JSON, then arrays."""
    arrays: list[Any] = []
    head: Any = answer
    if isinstance(answer, Sheet):
        head = {field.name: getattr(answer, field.name) for field in fields(Sheet) if field.name != "values"}
        arrays = [answer.values, *(cells for cells in answer.texts.values() if not isinstance(cells, list))]
        # None stands for an array that follows
        head["texts"] = {n: cells if isinstance(cells, list) else None for n, cells in answer.texts.items()}
        head |= {name: list(head[name].items()) for name in ("odd", "odd_rows")}
    text = json.dumps(head).encode()
    stream.write(len(text).to_bytes(8, "little") + text)
    for values in arrays:
        np.lib.format.write_array(_Pipe(stream), values, allow_pickle=False)
    stream.flush()


def _received(stream: Any) -> Sheet | str:
    size = int.from_bytes(_exactly(stream, 8), "little")
    head = json.loads(_exactly(stream, size))
    if isinstance(head, str):
        return head
    head["values"] = np.lib.format.read_array(_Pipe(stream), allow_pickle=False)
    for name, cells in head["texts"].items():
        if cells is None:
            head["texts"][name] = np.lib.format.read_array(_Pipe(stream), allow_pickle=False)
    head |= {name: dict(head[name]) for name in ("odd", "odd_rows")}
    return Sheet(**{**head, "notes": tuple(head["notes"])})


def _exactly(stream: Any, size: int) -> bytes:
    found: bytes = stream.read(size)
    if len(found) < size:
        raise EOFError
    return found


# ---------------------------------------------------------------- the process apart


def main() -> None:
    """Read the file that standard input asks for, and write a sheet to standard output."""
    job = json.loads(sys.stdin.buffer.read())
    kind, path, options = job["kind"], Path(job["path"]), job["options"]
    if "keep" in options:
        options["keep"] = set(options["keep"])
    if kind in PACKAGES:
        optional(PACKAGES[kind], extra="files", purpose=f"Reading {kind}")
    _restrain(path, job["limit"])
    answer: Sheet | str
    try:
        answer = READERS[kind](path, limit=job["limit"], **options)
    except MemoryError:
        answer = f"{path} takes more memory to read than --max-bytes allows; is it damaged?"
    except ValueError as error:
        answer = str(error)
    _send(answer, sys.stdout.buffer)


def _restrain(path: Path, limit: int) -> None:
    """Set limits on what this process may take from here on, where the system has them."""
    try:
        import resource  # noqa: PLC0415 (Unix only)
    except ImportError:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = SECONDS + path.stat().st_size / BYTES_PER_SECOND + limit / LIMIT_PER_SECOND
    # ends the process whatever it is doing, as no function is set to be called
    signal.setitimer(signal.ITIMER_REAL, 2 * seconds)
    limits = {resource.RLIMIT_CPU: int(used.ru_utime + used.ru_stime + seconds) + 1, resource.RLIMIT_CORE: 0}
    sizes = Path("/proc/self/statm")
    if sizes.exists():
        pages = int(sizes.read_text().split()[0])
        limits[resource.RLIMIT_AS] = pages * resource.getpagesize() + TIMES * limit + MORE_MEMORY
    for which, value in limits.items():
        most = resource.getrlimit(which)[1]
        resource.setrlimit(which, (value if most == resource.RLIM_INFINITY else min(value, most), most))


if __name__ == "__main__":
    main()
