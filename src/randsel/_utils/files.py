"""Files that may claim anything: what they say of their size is looked at before memory is taken for it."""

import io
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from randsel._utils.typing import Array

_LAST_CHARACTER = 0x10FFFF
#: Bytes in which an array of an NPZ file says what it is.
_LONGEST_HEADER = 1 << 16
#: What damaged files raise, which the libraries do not gather under one name.
_ZIP_ERRORS = (
    *(zipfile.BadZipFile, EOFError, OSError, SyntaxError, NotImplementedError, RuntimeError, UnicodeError),
    *(struct.error, zlib.error),
)


def check_size(path: Path, size: int, limit: int, verb: str = "would take") -> None:
    """Refuse what is larger than the limit, before memory is taken for it."""
    if size > limit:
        msg = (
            f"{path} {verb} {size / 1e9:.3g} GB, and {limit / 1e9:.3g} GB are allowed; is it damaged? "
            "If you trust it and have the memory, raise the limit: --max-bytes (max_bytes= in Python)."
        )
        raise ValueError(msg)


@contextmanager
def readable(path: Path, what: str, *kinds: type[BaseException]) -> Iterator[None]:
    """Turn what a library says of a damaged file into a sentence."""
    try:
        yield
    except kinds as error:
        msg = f"{path} cannot be read as {what}, it may be cut off or damaged: {error}."
        raise ValueError(msg) from error


def npz_arrays(path: Path, limit: int, wanted: set[str] | None = None) -> tuple[dict[str, Array], list[str]]:
    """Read arrays of an NPZ file, all or those that are wanted, after a look at what they claim; and name all."""
    size = 0
    with warnings.catch_warnings(), readable(path, "NPZ", *_ZIP_ERRORS):
        warnings.simplefilter("ignore")  # about files of old versions of Python
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if wanted is None or member.filename.removesuffix(".npy") in wanted:
                    size += _claimed(archive, member, path)
                    check_size(path, size, limit)
        with np.load(path, allow_pickle=False) as data:
            return {name: data[name] for name in data.files if wanted is None or name in wanted}, data.files


def _claimed(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> int:
    """Return the bytes that an array claims to have, as it will be in memory, before it is read."""
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        msg = f"{path}: array {member.filename!r} is packed in a way that numpy does not use; save it again with numpy."
        raise ValueError(msg)
    with archive.open(member) as file:
        start = io.BytesIO(file.read(_LONGEST_HEADER))
    try:
        version = np.lib.format.read_magic(start)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(start)
    except (ValueError, tokenize.TokenError, RecursionError, MemoryError) as error:
        msg = f"{path}: array {member.filename!r} is damaged: {error}."
        raise ValueError(msg) from error
    if dtype.hasobject:
        msg = (
            f"{path}: array {member.filename!r} holds Python objects, which are not unpickled; save text and numbers "
            "as such."
        )
        raise ValueError(msg)
    if min(shape, default=0) < 0:
        msg = f"{path}: array {member.filename!r} is damaged: its shape is {shape}."
        raise ValueError(msg)
    # whole numbers become double precision
    return bytes_in(shape, dtype.itemsize if dtype == np.float32 else max(dtype.itemsize, 8))


def bytes_in(shape: tuple[int, ...], itemsize: int = 8) -> int:
    """Size of an array in numbers that cannot overflow; no length hides behind one that is zero."""
    size = max(itemsize, 1)
    for length in shape:
        size *= max(int(length), 1)
    return size


def is_text(values: Array) -> bool:
    """Whether an array of text has characters only: others end the process that makes strings of them."""
    if values.dtype.kind != "U" or not values.size or not values.dtype.itemsize:
        return True
    codes = np.ascontiguousarray(values.ravel()).view(np.dtype("u4").newbyteorder(values.dtype.byteorder))
    return int(codes.max()) <= _LAST_CHARACTER
