"""Folders of results: files that are there whole or not at all, one run at a time, and parts of a run that are kept."""

import errno
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from randsel._backend import Array

#: File that says what a folder's results are of.
IDENTITY = "run.json"
#: Array of a part that names the others, which a damaged file may have lost.
CONTENTS = "contents"


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that takes its place when it is whole, and is not there otherwise."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            yield file
        partial.replace(path)
    except OSError as error:
        if error.filename is None:  # a disk that is full does not say what was to be written
            error.filename = str(path)
        raise
    finally:
        partial.unlink(missing_ok=True)


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that it is there whole, or not at all."""
    with whole_file(path) as file:
        # half a pair of surrogates, which a name may hold, is no UTF-8
        file.write(content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content)


@contextmanager
def only_run(out: Path) -> Iterator[None]:
    """Hold the folder's lock, which the system takes back when the process ends, however it ends."""
    import fcntl  # noqa: PLC0415 (Unix only; the rest of the package runs without it)

    with (out / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            msg = f"another run is working in {out}; wait for it, or give another folder."
            raise ValueError(msg) from None
        # of runs that were killed while they wrote
        for left in (*out.glob("*.partial"), *out.glob("parts/**/*.partial")):
            if re.search(r"\.\d+\.partial$", left.name):
                left.unlink(missing_ok=True)
        yield


def check_folder(out: Path, option: str = "--out") -> None:
    """Refuse a folder that results cannot be written to, before anything is computed."""
    if out.exists() and not out.is_dir():
        msg = f"{out} is a file; give a folder for the results ({option})."
        raise ValueError(msg)
    there = next(folder for folder in (out, *out.absolute().parents) if folder.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "not writable", str(there))


def claim(out: Path, identity: Mapping[str, Any], same: tuple[str, ...], option: str = "--out") -> None:
    """Write what the folder's results are of, or refuse a folder whose results are of something else.

    Parameters
    ----------
    out : Path
        The folder.
    identity : dict
        What it takes to repeat the run; written to `run.json`.
    same : tuple of str
        Entries in which an earlier run must agree for its parts to be used again.
    option : str, default="--out"
        How the user named the folder.
    """
    path = out / IDENTITY
    if path.exists():
        before = read_identity(out)
        for name in same:
            if before.get(name) != identity[name]:
                what = _difference(name, before.get(name), identity[name])
                msg = f"{out} holds a run {what}; give another folder ({option}), or remove this one."
                raise ValueError(msg)
    elif (out / "parts").exists():
        msg = f"{out} holds parts of a run but no {IDENTITY}; give another folder ({option}), or remove this one."
        raise ValueError(msg)
    write_atomically(path, json.dumps(identity, indent=1) + "\n")


def read_identity(out: Path) -> dict[str, Any]:
    """Read what a folder's results are of."""
    path = out / IDENTITY
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        msg = f"{out} has no {IDENTITY}, so it is no folder of randsel select; check the name."
        raise ValueError(msg) from None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        msg = f"{path} is damaged; give another folder, or remove this one and run again."
        raise ValueError(msg)
    return found


def _difference(name: str, before: Any, now: Any) -> str:
    """Say in which way an earlier run was another one."""
    if name == "data_hash":
        return "on other data"
    if isinstance(before, dict) and isinstance(now, dict):
        key = next(key for key in {**now, **before} if before.get(key) != now.get(key))
        return f"with other settings ({key.replace('_', ' ')}: {before.get(key)}, now {now.get(key)})"
    return f"with another {name.replace('_', ' ')} ({before}, now {now})"


class Parts:
    """Finished parts of a run, each a file of arrays; nothing in them is unpickled.

    Parameters
    ----------
    folder : Path or None
        Where they are kept; None keeps nothing.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.damaged: list[str] = []
        if folder is not None:
            folder.mkdir(exist_ok=True)

    def kept(self, name: str) -> dict[str, Array] | None:
        """Return a part, None if it is not there; a damaged one counts as not there."""
        if self.folder is None or not (path := self.folder / f"{name}.npz").exists():
            return None
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as found:
                arrays = {key: found[key] for key in found.files}
            if set(arrays.pop(CONTENTS).tolist()) == set(arrays):
                return arrays
        except Exception:  # whatever a damaged file does to what reads it; every array has a checksum
            pass
        self.damaged.append(path.name)
        return None

    def keep(self, name: str, arrays: Mapping[str, Any], *, compressed: bool = True) -> None:
        """Keep a part."""
        if self.folder is not None:
            plain: dict[str, Any] = {key: np.asarray(value) for key, value in arrays.items()}
            plain[CONTENTS] = np.array(list(arrays), dtype=str)
            with whole_file(self.folder / f"{name}.npz") as file:
                (np.savez_compressed if compressed else np.savez)(file, **plain)

    def get(self, name: str, compute: Callable[[], Mapping[str, Any]]) -> dict[str, Array]:
        """Return a part, computed and kept if it was not."""
        found = self.kept(name)
        if found is None:
            found = {key: np.asarray(value) for key, value in compute().items()}
            self.keep(name, found)
        return found

    def get_by_stages(self, name: str, compute: Callable[[Path | None], Mapping[str, Any]]) -> dict[str, Array]:
        """Return a part whose computation keeps how far it is in a folder, which is gone when the part is kept."""
        so_far = None if self.folder is None else self.folder / f"{name}-so-far"
        found = self.get(name, lambda: compute(so_far))
        if so_far is not None:
            shutil.rmtree(so_far, ignore_errors=True)
        return found


class ProgressLine:
    """One line on standard error, if that is a terminal: what is being done, how much of it, and the time left."""

    def __init__(self) -> None:
        self.shown = sys.stderr.isatty()
        self.what, self.start, self.first = "", 0.0, 0.0

    def __call__(self, what: str, done: float, total: float) -> None:
        """Show a step."""
        if not self.shown:
            return
        if what != self.what:
            self.what, self.start, self.first = what, time.monotonic(), done
        speed = (done - self.first) / max(time.monotonic() - self.start, 1e-9)
        left = f", {_duration((total - done) / speed)} left" if speed > 0.0 and done < total else ""
        self._write(f"{what}: {100 * done / max(total, 1e-9):.0f} %{left}")

    def end(self) -> None:
        """Remove the line."""
        if self.shown and self.what:
            self._write("")
            self.what = ""

    def _write(self, text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
