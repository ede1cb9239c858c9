"""Files: atomic writing, NPZ and JSON files that may be damaged or malicious, and result folders.

The size that a file claims is checked before memory is allocated for it, and nothing is unpickled. A result folder has
a lock, the identity of a run, its finished parts, and checkpoints of a fit.
"""

import errno
import io
import json
import math
import os
import re
import shutil
import stat
import struct
import time
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from randsel._utils.text import optional, warn
from randsel._utils.typing import Array

LARGEST_JSON = 1 << 25  # maximum size of a JSON or TOML file, in bytes
_MAX_CODE_POINT = 0x10FFFF
_LONGEST_HEADER = 1 << 16  # maximum size of the header of an array in an NPZ file, in bytes
#: Errors that reading a damaged NPZ file raises; the libraries have no common class for them.
_ZIP_ERRORS = (
    *(zipfile.BadZipFile, EOFError, OSError, SyntaxError, NotImplementedError, RuntimeError, UnicodeError),
    *(struct.error, zlib.error),
)
IDENTITY = "run.json"  # file that identifies the data and settings of the run in a folder
CONTENTS = "contents"  # array that lists the names of all other arrays of a part, so that a missing one is noticed
LARGEST_PART = 1 << 33  # maximum size of the arrays of a part, in bytes
#: Minimum time between two stages of a checkpoint: in seconds, and as a multiple of the time to write the last one.
MIN_SECONDS, MIN_MULTIPLE = 5.0, 20.0
#: Entries of run.json that must be equal for a fit to resume.
CHECKPOINT_IDENTITY = ("version", "estimator", "data_hash", "parameters")


# ---------------------------------------------------------------- write


@contextmanager
def open_atomically(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing that replaces `path` once it is complete; on an error, `path` stays as it was."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    partial.unlink(missing_ok=True)
    try:
        with partial.open("xb") as file:  # mode "x" does not follow symbolic links
            yield file
        partial.replace(path)
    except OSError as error:
        if error.filename is None:  # the error of a full disk has no file name
            error.filename = str(path)
        raise
    finally:
        partial.unlink(missing_ok=True)


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write text or bytes with `open_atomically`."""
    with open_atomically(path) as file:
        # names may contain a lone surrogate, which UTF-8 cannot encode
        file.write(content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content)


def write_figure(path: Path, figure: Any, dpi: int) -> None:
    """Write a matplotlib figure with `open_atomically`, in the format of the suffix, without the date of writing."""
    matplotlib = optional("matplotlib", extra="plot", purpose="Writing a figure")
    dates = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    style = {"svg.hashsalt": "randsel", "svg.fonttype": "none", "pdf.fonttype": 42}  # text stays text
    ignored = warnings.catch_warnings(action="ignore")  # missing glyphs of a font
    with ignored, matplotlib.rc_context(style), open_atomically(path) as file:
        figure.savefig(file, dpi=dpi, format=path.suffix[1:], metadata=dates.get(path.suffix))


def open_for_append(path: Path) -> IO[str]:
    """Open a text file to append to; refuse a symbolic link, which may point anywhere."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    try:
        return os.fdopen(os.open(path, flags, 0o666), "a", newline="", encoding="utf-8")
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise ValueError(describe_link(path)) from None


def describe_link(path: Path) -> str:
    """Return the error message about a symbolic link in a result folder."""
    reason = "is a symbolic link, and those in result folders are not followed"
    return f"{path} {reason}; remove it, or give another folder."


# ---------------------------------------------------------------- read


def read_json(path: Path) -> Any:
    """Return the content of a JSON file; None if it is damaged, too large, too deeply nested or not a regular file."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_JSON:
            return None
        text = file.read(LARGEST_JSON)
    try:
        return json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError):
        return None


def check_size(path: Path, size: int, limit: int, verb: str = "would take") -> None:
    """Raise ValueError if the content of a file is larger than the limit, before memory is allocated for it."""
    if size > limit:
        raise ValueError(
            f"{path} {verb} {size / 1e9:.3g} GB, and {limit / 1e9:.3g} GB are allowed; is it damaged? "
            "If you trust it and have the memory, raise the limit: --max-bytes (max_bytes= in Python)."
        )


@contextmanager
def readable(path: Path, kind: str, *errors: type[BaseException]) -> Iterator[None]:
    """Turn the errors of a library into a ValueError that names the damaged file and its format."""
    try:
        yield
    except errors as error:
        raise ValueError(f"{path} cannot be read as {kind}, it may be cut off or damaged: {error}.") from error


def read_npz_arrays(path: Path, limit: int, wanted: set[str] | None = None) -> tuple[dict[str, Array], list[str]]:
    """Return the arrays of an NPZ file (all, or those in `wanted`), at most `limit` bytes, and the names of all."""
    size = 0
    # files of old versions of Python give warnings
    with warnings.catch_warnings(action="ignore"), readable(path, "NPZ", *_ZIP_ERRORS):
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if wanted is None or member.filename.removesuffix(".npy") in wanted:
                    size += _claimed_bytes(archive, member, path)
                    check_size(path, size, limit)
        with np.load(path, allow_pickle=False) as data:
            return {name: data[name] for name in data.files if wanted is None or name in wanted}, data.files


def _claimed_bytes(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> int:
    """Return the size in memory of an array according to its header, without reading the array."""
    array = f"{path}: array {member.filename!r}"
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{array} is packed in a way that numpy does not use; save it again with numpy.")
    with archive.open(member) as file:
        start = io.BytesIO(file.read(_LONGEST_HEADER))
    try:
        is_first_version = np.lib.format.read_magic(start) == (1, 0)
        read = np.lib.format.read_array_header_1_0 if is_first_version else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(start)
    except (ValueError, tokenize.TokenError, RecursionError, MemoryError) as error:
        raise ValueError(f"{array} is damaged: {error}.") from error
    if dtype.hasobject:
        raise ValueError(f"{array} holds Python objects, which are not unpickled; save text and numbers as such.")
    if min(shape, default=0) < 0:
        raise ValueError(f"{array} is damaged: its shape is {shape}.")
    # integers are converted to double precision
    return bytes_in(shape, dtype.itemsize if dtype == np.float32 else max(dtype.itemsize, 8))


def bytes_in(shape: tuple[int, ...], itemsize: int = 8) -> int:
    """Return the bytes of an array as a Python integer, which cannot overflow; lengths of 0 count as 1."""
    return max(itemsize, 1) * math.prod(max(int(length), 1) for length in shape)


def is_text(values: Array) -> bool:
    """Return False for a text array with invalid code points, on which numpy crashes; True for all other arrays."""
    if values.dtype.kind != "U" or not values.size or not values.dtype.itemsize:
        return True
    codes = np.ascontiguousarray(values.ravel()).view(np.dtype("u4").newbyteorder(values.dtype.byteorder))
    return int(codes.max()) <= _MAX_CODE_POINT


# ---------------------------------------------------------------- one run at a time


def check_folder(out: Path, option: str = "--out") -> None:
    """Raise an error if results cannot be written to a folder, before anything is computed."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; give a folder for the results ({option}).")
    existing = next(folder for folder in (out, *out.absolute().parents) if folder.exists())
    if not os.access(existing, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "not writable", str(existing))
    if out.is_dir():
        check_links(out)
        _check_owner(out)


def check_links(out: Path) -> None:
    """Raise ValueError if a folder contains symbolic links, which may point anywhere; it may be a link itself."""
    for folder in (out, out / "parts", out / "cells"):
        # a link called parts or cells is found among the entries of `out`
        for path in folder.iterdir() if folder.is_dir() and (folder == out or not folder.is_symlink()) else ():
            if path.is_symlink():
                raise ValueError(describe_link(path))


def _check_owner(out: Path) -> None:
    """Raise ValueError if the results in a folder belong to another user; the folder itself may."""
    for path in (out / IDENTITY, out / "parts", out / ".lock"):
        if hasattr(os, "geteuid") and path.exists() and path.lstat().st_uid != os.geteuid():
            raise ValueError(
                f"{path} belongs to another user, so this is the folder of their run; give another folder (--out)."
            )


@contextmanager
def lock_folder(out: Path) -> Iterator[None]:
    """Hold the lock of a folder; the operating system releases it however the process ends."""
    # Imported here, as it takes a tenth of a second and a fit without checkpoint needs no lock.
    from filelock import FileLock, Timeout  # noqa: PLC0415

    check_links(out)
    lock = FileLock(out / ".lock", blocking=False)
    try:
        lock.acquire()
    except Timeout:
        raise ValueError(f"another run is working in {out}; wait for it, or give another folder.") from None
    try:
        # remove files of runs that were killed while writing
        for partial in (*out.glob("*.partial"), *out.glob("parts/**/*.partial")):
            if re.search(r"\.\d+\.partial$", partial.name):
                partial.unlink(missing_ok=True)
        yield
    finally:
        lock.release()


# ---------------------------------------------------------------- identity of a run


def check_or_write_identity(
    out: Path, identity: Mapping[str, Any], must_agree: tuple[str, ...], option: str = "--out"
) -> None:
    """Write what identifies a run to `run.json`.

    Raise ValueError if an earlier run differs in one of the entries that `must_agree` names.
    """
    path = out / IDENTITY
    if path.exists():
        before = read_identity(out)
        for name in must_agree:
            if before.get(name) != identity[name]:
                difference = _describe_difference(name, before.get(name), identity[name])
                raise ValueError(f"{out} holds a run {difference}; give another folder ({option}), or remove this one.")
    elif (out / "parts").exists():
        raise ValueError(
            f"{out} holds parts of a run but no {IDENTITY}; give another folder ({option}), or remove this one."
        )
    write_atomically(path, json.dumps(identity, indent=1) + "\n")


@contextmanager
def claim_folder(out: Path, identity: Mapping[str, Any], must_agree: tuple[str, ...]) -> Iterator[None]:
    """Call `check_or_write_identity`; if the block raises ValueError, undo that, so that the folder can be used again.

    A folder that had an identity before keeps it, with its finished parts.
    """
    is_new = not (out / IDENTITY).exists()
    check_or_write_identity(out, identity, must_agree)
    try:
        yield
    except ValueError:
        if is_new:
            (out / IDENTITY).unlink(missing_ok=True)
            shutil.rmtree(out / "parts", ignore_errors=True)
        raise


def read_identity(out: Path) -> dict[str, Any]:
    """Return the identity of the run in a folder."""
    path = out / IDENTITY
    if out.is_dir():
        check_links(out)
    if not path.is_file():
        raise ValueError(f"{out} has no {IDENTITY}, so it is no folder of randsel select; check the name.")
    identity = read_json(path)
    if not isinstance(identity, dict):
        raise ValueError(f"{path} is damaged; give another folder, or remove this one and run again.")
    return identity


def _describe_difference(name: str, before: Any, now: Any) -> str:
    """Describe how an earlier run differs from this one."""
    if name in ("data_hash", "data"):
        return "on other data"
    if isinstance(before, dict) and isinstance(now, dict):
        key = next(key for key in {**now, **before} if before.get(key) != now.get(key))
        return f"with other settings ({key.replace('_', ' ')}: {str(before.get(key))[:80]}, now {now.get(key)})"
    return f"with another {name.replace('_', ' ')} ({str(before)[:80]}, now {now})"


# ---------------------------------------------------------------- finished parts of a run

T = TypeVar("T")
#: Kinds and lengths of the arrays of a part, see `check_arrays`; a name that ends in a question mark is optional.
Shapes = Mapping[str, tuple[Any, ...]]


def check_arrays(arrays: Mapping[str, Array], shapes: Shapes) -> None:
    """Raise ValueError unless arrays have the kinds and lengths with which they were written.

    `shapes` maps a name to (allowed `dtype.kind` characters, length of every axis). A length is a number, or a word
    that stands for the same length wherever it occurs.
    """
    lengths: dict[str, int] = {}
    for name, (kinds, *expected) in shapes.items():
        values = arrays.get(name.removesuffix("?"))
        if values is None and name.endswith("?"):
            continue
        if values is None or values.dtype.kind not in kinds or values.ndim != len(expected) or not is_text(values):
            raise ValueError(f"{name.removesuffix('?')!r} is not what was written")
        for length, wanted in zip(values.shape, expected, strict=True):
            if length != (lengths.setdefault(wanted, length) if isinstance(wanted, str) else wanted):
                raise ValueError(f"{name.removesuffix('?')!r} has a length of {length} where others have another")


def check_indices(values: Array, count: int, least: int = 0) -> None:
    """Raise ValueError if an index is outside of the range from `least` to `count` - 1."""
    if values.size and not least <= int(values.min()) <= int(values.max()) < count:
        raise ValueError(f"places are from {int(values.min())} to {int(values.max())}, of {count}")


class FinishedParts:
    """Finished parts of a run, one NPZ file each in `folder`; None saves nothing. Nothing is unpickled."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.damaged: list[str] = []
        if folder is not None:
            if folder.is_symlink():
                raise ValueError(describe_link(folder))
            folder.mkdir(exist_ok=True)

    def load(self, name: str, check: Callable[[dict[str, Array]], object] | None = None) -> dict[str, Array] | None:
        """Return the arrays of a part; None if it is missing or damaged, or if `check` raises an error for it."""
        if self.folder is None or not (path := self.folder / f"{name}.npz").is_file() or path.is_symlink():
            return None
        try:
            arrays, _ = read_npz_arrays(path, LARGEST_PART)
            if set(arrays.pop(CONTENTS).tolist()) != set(arrays):
                raise KeyError(CONTENTS)
            if check is not None:
                check(arrays)
        except Exception:  # a damaged file may raise anything; every array has a checksum
            self.damaged.append(path.name)
            return None
        return arrays

    def save(self, name: str, arrays: Mapping[str, Any], *, compressed: bool = True) -> None:
        """Save a part."""
        if self.folder is not None:
            plain: dict[str, Any] = {key: np.asarray(value) for key, value in arrays.items()}
            plain[CONTENTS] = np.array(list(arrays), dtype=str)
            with open_atomically(self.folder / f"{name}.npz") as file:
                (np.savez_compressed if compressed else np.savez)(file, **plain)

    def load_or_compute(
        self, name: str, compute: Callable[[Path | None], Mapping[str, Any]], make: Callable[[dict[str, Array]], T]
    ) -> T:
        """Return `make(arrays)` of a saved part; if it is missing or damaged, compute and save it first.

        `compute` gets the folder for its checkpoint, which is removed once the part is saved.
        """
        arrays = self.load(name, make)
        checkpoint = None if self.folder is None else self.folder / f"{name}-so-far"
        if arrays is None:
            arrays = {key: np.asarray(value) for key, value in compute(checkpoint).items()}
            self.save(name, arrays)
        if checkpoint is not None:
            shutil.rmtree(checkpoint, ignore_errors=True)
        return make(arrays)


# ---------------------------------------------------------------- checkpoints of a fit


class Stages:
    """Stages of the computation `name`, one file each; the last two are kept in case one is damaged."""

    def __init__(self, parts: FinishedParts, name: str) -> None:
        self.parts, self.name = parts, name
        self.last_saved, self.seconds_to_save = time.monotonic(), 0.0

    def load_latest(self) -> dict[str, Array] | None:
        """Return the latest stage that is not damaged; None if there is none."""
        for path in reversed(self._files()):
            arrays = self.parts.load(path.stem)
            if arrays is not None:
                return arrays
            warn(f"{path} is damaged; the computation resumes from the stage before it.", stacklevel=5)
            path.unlink()
        return None

    def save(self, number: int, arrays: Callable[[], Mapping[str, Any]]) -> None:
        """Save a stage, unless the last is younger than `MIN_SECONDS`, or `MIN_MULTIPLE` times its time to save."""
        now = time.monotonic()
        is_recent = 0.0 <= now - self.last_saved < max(MIN_SECONDS, MIN_MULTIPLE * self.seconds_to_save)
        if self.parts.folder is None or is_recent:
            return
        self.parts.save(f"{self.name}-{number:06d}", arrays(), compressed=False)  # numbers do not compress
        self.last_saved = time.monotonic()
        self.seconds_to_save = self.last_saved - now
        for path in self._files()[:-2]:
            path.unlink()

    def _files(self) -> list[Path]:
        return [] if self.parts.folder is None else sorted(self.parts.folder.glob(f"{self.name}-*.npz"))


@dataclass(frozen=True)
class Checkpoint:
    """A folder in which a fit saves its progress; `seed` is that of the fit or, when resuming, the stored one."""

    parts: FinishedParts
    seed: int

    def stages(self, name: str) -> Stages:
        """Return the stages of one computation of the fit."""
        return Stages(self.parts, name)


#: A checkpoint that saves nothing.
NO_CHECKPOINT = Checkpoint(FinishedParts(), 0)


@contextmanager
def open_checkpoint(folder: Any, identity: Mapping[str, Any], seed: int = 0) -> Iterator[Checkpoint]:
    """Open the checkpoint of a fit; raise ValueError if the folder belongs to another fit.

    The folder is created if it does not exist. `identity` is what must be equal for a fit to resume: `estimator`,
    `data_hash` and `parameters`. `seed` is used by a new fit; a fit that resumes uses the stored seed.
    """
    folder = Path(folder)
    check_folder(folder, "checkpoint")
    folder.mkdir(parents=True, exist_ok=True)
    with lock_folder(folder):
        before = read_identity(folder) if (folder / IDENTITY).exists() else {}
        now = {"version": version("randsel"), **identity, "seed": before.get("seed", seed)}
        # converts numpy numbers and tuples to what reading run.json returns
        now = json.loads(json.dumps(now, default=lambda value: value.item()))
        check_or_write_identity(folder, now, CHECKPOINT_IDENTITY, "checkpoint")
        yield Checkpoint(FinishedParts(folder / "parts"), int(now["seed"]))
