"""Folders of results: files that are there whole or not at all, one run at a time, and parts of a run that are kept."""

import errno
import json
import os
import re
import shutil
import stat
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from randsel._utils.files import is_text, npz_arrays
from randsel._utils.typing import Array

#: File that says what a folder's results are of.
IDENTITY = "run.json"
#: Array of a part that names the others, which a damaged file may have lost.
CONTENTS = "contents"
#: Bytes of a JSON file, and of the arrays of a part: what is larger was not written by us.
LARGEST_JSON, LARGEST_PART = 1 << 25, 1 << 33


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that takes its place when it is whole, and is not there otherwise; no link is followed."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    partial.unlink(missing_ok=True)
    try:
        with partial.open("xb") as file:
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

    check_links(out)
    with open_here(out / ".lock") as lock:
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


def write_figure(path: Path, figure: Any, dpi: int) -> None:
    """Write a figure of matplotlib as PNG, as `write_atomically` writes."""
    with warnings.catch_warnings(), whole_file(path) as file:
        warnings.simplefilter("ignore")  # about glyphs that a font does not have
        figure.savefig(file, dpi=dpi, format="png")


def open_here(path: Path) -> IO[str]:
    """Open a file to add to it; one that is a link, which may lead anywhere, is refused."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    try:
        return os.fdopen(os.open(path, flags, 0o666), "a", newline="", encoding="utf-8")
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise ValueError(_is_link(path)) from None


def check_links(out: Path) -> None:
    """Refuse a folder with symbolic links in it, which would be read or written elsewhere; it may be one itself."""
    for folder in (out, out / "parts"):
        # of parts that are a link themselves, this is found out in the folder that they are in
        for path in folder.iterdir() if folder.is_dir() and (folder == out or not folder.is_symlink()) else ():
            if path.is_symlink():
                raise ValueError(_is_link(path))


def _is_link(path: Path) -> str:
    return (
        f"{path} is a symbolic link, and those in result folders are not followed; remove it, or give another folder."
    )


def read_json(path: Path) -> Any:
    """Read a JSON file of ours; None if it is damaged, or is nothing that we wrote.

    A file that never ends, that would fill the memory, or is nested deeper than Python goes, is damaged as well.
    """
    with path.open("rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_size > LARGEST_JSON:
            return None
        text = file.read(LARGEST_JSON)
    try:
        return json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError):
        return None


def check_folder(out: Path, option: str = "--out") -> None:
    """Refuse a folder that results cannot be written to, before anything is computed."""
    if out.exists() and not out.is_dir():
        msg = f"{out} is a file; give a folder for the results ({option})."
        raise ValueError(msg)
    there = next(folder for folder in (out, *out.absolute().parents) if folder.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "not writable", str(there))
    if out.is_dir():
        check_links(out)
        _check_owner(out)


def _check_owner(out: Path) -> None:
    """Refuse the results of another user; a folder of theirs in which there are none may be shared."""
    for path in (out / IDENTITY, out / "parts", out / ".lock"):
        if hasattr(os, "geteuid") and path.exists() and path.lstat().st_uid != os.geteuid():
            msg = f"{path} belongs to another user, so this is the folder of their run; give another folder (--out)."
            raise ValueError(msg)


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
    if out.is_dir():
        check_links(out)
    if not path.is_file():
        msg = f"{out} has no {IDENTITY}, so it is no folder of randsel select; check the name."
        raise ValueError(msg)
    found = read_json(path)
    if not isinstance(found, dict):
        msg = f"{path} is damaged; give another folder, or remove this one and run again."
        raise ValueError(msg)
    return found


def _difference(name: str, before: Any, now: Any) -> str:
    """Say in which way an earlier run was another one."""
    if name in ("data_hash", "data"):
        return "on other data"
    if isinstance(before, dict) and isinstance(now, dict):
        key = next(key for key in {**now, **before} if before.get(key) != now.get(key))
        return f"with other settings ({key.replace('_', ' ')}: {str(before.get(key))[:80]}, now {now.get(key)})"
    return f"with another {name.replace('_', ' ')} ({str(before)[:80]}, now {now})"


T = TypeVar("T")
#: Arrays of a part: kinds, then lengths, see `check_arrays`; a name with a question mark may be missing.
Shapes = Mapping[str, tuple[Any, ...]]


def check_arrays(found: Mapping[str, Array], shapes: Shapes) -> None:
    """Refuse arrays that are not as they were written.

    Parameters
    ----------
    found : dict of str to array
        The arrays.
    shapes : dict of str to tuple
        For every name the kinds that it may have, as numpy's `dtype.kind`, and its lengths: numbers, or words, of which
        equal ones stand for equal lengths.
    """
    lengths: dict[str, int] = {}
    for name, (kinds, *wanted) in shapes.items():
        values = found.get(name.removesuffix("?"))
        if values is None and name.endswith("?"):
            continue
        if values is None or values.dtype.kind not in kinds or values.ndim != len(wanted) or not is_text(values):
            msg = f"{name.removesuffix('?')!r} is not what was written"
            raise ValueError(msg)
        for length, want in zip(values.shape, wanted, strict=True):
            if length != (lengths.setdefault(want, length) if isinstance(want, str) else want):
                msg = f"{name.removesuffix('?')!r} has a length of {length} where others have another"
                raise ValueError(msg)


def check_places(values: Array, count: int, least: int = 0) -> None:
    """Refuse places that are outside of what they point into."""
    if values.size and not least <= int(values.min()) <= int(values.max()) < count:
        msg = f"places are from {int(values.min())} to {int(values.max())}, of {count}"
        raise ValueError(msg)


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
            if folder.is_symlink():
                raise ValueError(_is_link(folder))
            folder.mkdir(exist_ok=True)

    def kept(self, name: str, check: Callable[[dict[str, Array]], object] | None = None) -> dict[str, Array] | None:
        """Return a part, None if it is not there; a damaged one, which `check` may find out, counts as not there."""
        if self.folder is None or not (path := self.folder / f"{name}.npz").is_file() or path.is_symlink():
            return None
        try:
            found, _ = npz_arrays(path, LARGEST_PART)
            if set(found.pop(CONTENTS).tolist()) != set(found):
                raise KeyError(CONTENTS)
            if check is not None:
                check(found)
        except Exception:  # whatever a damaged file does to what reads it; every array has a checksum
            self.damaged.append(path.name)
            return None
        return found

    def keep(self, name: str, arrays: Mapping[str, Any], *, compressed: bool = True) -> None:
        """Keep a part."""
        if self.folder is not None:
            plain: dict[str, Any] = {key: np.asarray(value) for key, value in arrays.items()}
            plain[CONTENTS] = np.array(list(arrays), dtype=str)
            with whole_file(self.folder / f"{name}.npz") as file:
                (np.savez_compressed if compressed else np.savez)(file, **plain)

    def made(
        self, name: str, compute: Callable[[Path | None], Mapping[str, Any]], make: Callable[[dict[str, Array]], T]
    ) -> T:
        """Return what is made of a part, which is computed and kept if it was not, or if nothing can be made of it.

        The computation may keep how far it is in a folder, which is gone when the part is kept.
        """
        found = self.kept(name, make)
        so_far = None if self.folder is None else self.folder / f"{name}-so-far"
        if found is None:
            found = {key: np.asarray(value) for key, value in compute(so_far).items()}
            self.keep(name, found)
        if so_far is not None:
            shutil.rmtree(so_far, ignore_errors=True)
        return make(found)


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
