"""Write files atomically, and read NPZ and JSON files that may be damaged or malicious.

The size that a file claims is checked before memory is allocated for it, and nothing is unpickled.
"""

import errno
import io
import json
import os
import stat
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from randsel._utils.typing import Array

#: Maximum size of a JSON or TOML file, in bytes.
LARGEST_JSON = 1 << 25
_MAX_CODE_POINT = 0x10FFFF
#: Maximum size of the header of an array in an NPZ file, in bytes.
_LONGEST_HEADER = 1 << 16
#: Errors that reading a damaged NPZ file raises; the libraries have no common class for them.
_ZIP_ERRORS = (
    *(zipfile.BadZipFile, EOFError, OSError, SyntaxError, NotImplementedError, RuntimeError, UnicodeError),
    *(struct.error, zlib.error),
)


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
    """Write a matplotlib figure as a PNG file with `open_atomically`."""
    with warnings.catch_warnings(), open_atomically(path) as file:
        warnings.simplefilter("ignore")  # missing glyphs of a font
        figure.savefig(file, dpi=dpi, format="png")


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
    return (
        f"{path} is a symbolic link, and those in result folders are not followed; remove it, or give another folder."
    )


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
    with warnings.catch_warnings(), readable(path, "NPZ", *_ZIP_ERRORS):
        warnings.simplefilter("ignore")  # files of old versions of Python
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if wanted is None or member.filename.removesuffix(".npy") in wanted:
                    size += _claimed_bytes(archive, member, path)
                    check_size(path, size, limit)
        with np.load(path, allow_pickle=False) as data:
            return {name: data[name] for name in data.files if wanted is None or name in wanted}, data.files


def _claimed_bytes(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> int:
    """Return the size in memory of an array according to its header, without reading the array."""
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(
            f"{path}: array {member.filename!r} is packed in a way that numpy does not use; save it again with numpy."
        )
    with archive.open(member) as file:
        start = io.BytesIO(file.read(_LONGEST_HEADER))
    try:
        version = np.lib.format.read_magic(start)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(start)
    except (ValueError, tokenize.TokenError, RecursionError, MemoryError) as error:
        raise ValueError(f"{path}: array {member.filename!r} is damaged: {error}.") from error
    if dtype.hasobject:
        raise ValueError(
            f"{path}: array {member.filename!r} holds Python objects, which are not unpickled; save text and numbers "
            "as such."
        )
    if min(shape, default=0) < 0:
        raise ValueError(f"{path}: array {member.filename!r} is damaged: its shape is {shape}.")
    # integers are converted to double precision
    return bytes_in(shape, dtype.itemsize if dtype == np.float32 else max(dtype.itemsize, 8))


def bytes_in(shape: tuple[int, ...], itemsize: int = 8) -> int:
    """Return the bytes of an array as a Python integer, which cannot overflow; lengths of 0 count as 1."""
    size = max(itemsize, 1)
    for length in shape:
        size *= max(int(length), 1)
    return size


def is_text(values: Array) -> bool:
    """Return False for a text array with invalid code points, on which numpy crashes; True for all other arrays."""
    if values.dtype.kind != "U" or not values.size or not values.dtype.itemsize:
        return True
    codes = np.ascontiguousarray(values.ravel()).view(np.dtype("u4").newbyteorder(values.dtype.byteorder))
    return int(codes.max()) <= _MAX_CODE_POINT
