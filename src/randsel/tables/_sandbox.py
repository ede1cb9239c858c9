"""Reads files in a separate process, so that a file that crashes or hangs a compiled library is refused.

HDF5, polars and scipy's reader of MATLAB files can crash on files that were tampered with. The process has limits on
memory and time, and returns a `Sheet`: text as JSON, arrays as NPY; nothing is unpickled.
"""

import json
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, cast

import numpy as np

from randsel._utils.processes import kill, read_message, start_python, write_message
from randsel._utils.typing import Array
from randsel.tables.formats import FORMATS, ReadOptions, Sheet

#: Limit on CPU time: 2 s, plus 1 s per 0.5 MB of the file, plus 1 s per 0.2 GB of `max_bytes`.
#: Limit on wall-clock time: twice as long, because a library may wait for its own threads.
SECONDS, BYTES_PER_SECOND, LIMIT_PER_SECOND = 2, 500_000, 200_000_000
#: Limit on memory: 4 times `max_bytes`, plus 512 MiB.
TIMES, MORE_MEMORY = 4, 1 << 29
#: Few threads, because the memory that threads reserve counts even if they never use it.
THREADS = {"POLARS_MAX_THREADS": "2", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}


def read_in_sandbox(suffix: str, path: Path, options: ReadOptions) -> Sheet:
    """Read a file in a separate process, with the reader for this suffix."""
    file_format = FORMATS[suffix]
    file_format.import_package()
    if not sys.executable:  # Python is embedded in another program, and cannot be started
        return file_format.read(path, options)
    names = None if options.names is None else sorted(options.names)
    job = {
        "options": {**asdict(options), "names": names, "only": sorted(options.only)},
        "suffix": suffix,
        "path": str(path),
    }
    process = start_python("-c", f"from {__name__} import main; main()", variables=THREADS, show_errors=False)
    to_process, from_process = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
    with from_process:
        try:
            write_message(to_process, json.dumps(job).encode())
            answer = _receive(from_process)
        except (OSError, EOFError, ValueError):
            answer = _explain_end(path, file_format.name, process.wait())
        finally:
            kill(process)
    if isinstance(answer, str):
        raise ValueError(answer)
    return answer


def _explain_end(path: Path, kind: str, status: int) -> str:
    """Return the error message about a process that ended without an answer."""
    reason = f"its library broke down (status {status}), or needed more memory than --max-bytes allows"
    if -status in [getattr(signal, name, None) for name in ("SIGXCPU", "SIGALRM", "SIGKILL")]:  # not on Windows
        reason = "it took more time than a file of its size should"
    return f"{path} cannot be read as {kind}: {reason}; it may be damaged. Write it again, or as CSV or NPZ."


def _send(answer: Sheet | str, stream: IO[bytes]) -> None:
    """Write a sheet or an error message as JSON, in which null stands for an array, and then the arrays."""
    head: Any = answer
    arrays: list[Array] = []
    if isinstance(answer, Sheet):
        columns = answer.named_columns
        arrays = [answer.values, *(cells for cells in columns.values() if isinstance(cells, np.ndarray))]
        texts = {name: None if isinstance(cells, np.ndarray) else cells for name, cells in columns.items()}
        head = {**vars(answer), "path": str(answer.path), "values": None, "named_columns": texts}
    write_message(stream, json.dumps(head).encode())
    for values in arrays:
        # numpy would ask a file for its position, which a pipe lacks, so it gets the method only
        np.lib.format.write_array(SimpleNamespace(write=stream.write), values, allow_pickle=False)
    stream.flush()


def _receive(stream: IO[bytes]) -> Sheet | str:
    """Read what `_send` wrote."""
    head = json.loads(read_message(stream))
    if isinstance(head, str):
        return head
    for fields, name in ((head, "values"), *((head["named_columns"], name) for name in head["named_columns"])):
        if fields[name] is None:
            fields[name] = np.lib.format.read_array(SimpleNamespace(read=stream.read), allow_pickle=False)
    # keys are text in JSON
    head["bad_columns"] = {int(j): tuple(place) for j, place in head["bad_columns"].items()}
    head["text_rows"] = {int(i): {int(j): cell for j, cell in row.items()} for i, row in head["text_rows"].items()}
    head["below_detection"] = [(i, j, limit) for i, j, limit in head["below_detection"]]
    return Sheet(**{**head, "path": Path(head["path"]), "notes": tuple(head["notes"])})


def main() -> None:
    """Read the file that standard input names, and write its sheet to standard output; runs in the process."""
    job = json.loads(read_message(sys.stdin.buffer))
    path, described = Path(job["path"]), job["options"]
    names = None if described["names"] is None else frozenset(described["names"])
    sets = {"names": names, "only": frozenset(described["only"])}
    options = ReadOptions(**{**described, **sets, "na": tuple(described["na"])})
    file_format = FORMATS[job["suffix"]]
    file_format.import_package()  # before the limits, which are for the file only
    _set_limits(path, options.limit)
    answer: Sheet | str
    try:
        answer = file_format.read(path, options)
    except MemoryError:
        answer = f"{path} takes more memory to read than --max-bytes allows; is it damaged?"
    except ValueError as error:
        answer = str(error)
    _send(answer, sys.stdout.buffer)


def _set_limits(path: Path, limit: int) -> None:
    """Limit the time and memory of this process from here on, where the system supports it."""
    try:
        import resource  # noqa: PLC0415 (Unix only)
    except ImportError:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = SECONDS + path.stat().st_size / BYTES_PER_SECOND + limit / LIMIT_PER_SECOND
    # without a handler the signal ends the process, whatever it is doing
    signal.setitimer(signal.ITIMER_REAL, 2 * seconds)
    limits = {resource.RLIMIT_CPU: int(used.ru_utime + used.ru_stime + seconds) + 1, resource.RLIMIT_CORE: 0}
    sizes = Path("/proc/self/statm")
    if sizes.exists():
        pages = int(sizes.read_text().split()[0])
        limits[resource.RLIMIT_AS] = pages * resource.getpagesize() + TIMES * limit + MORE_MEMORY
    for kind, value in limits.items():
        largest = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (value if largest == resource.RLIM_INFINITY else min(value, largest), largest))
