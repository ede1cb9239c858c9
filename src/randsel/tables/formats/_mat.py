"""MATLAB files to `Sheet`, by scipy, after a look at the tags: its compiled reader crashes on some damaged files."""

import mmap
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from randsel._utils.files import bytes_in, check_size, readable
from randsel._utils.typing import Array
from randsel.tables.formats._formats import IDS, NAMES, ROLES, of_arrays
from randsel.tables.formats._text import Sheet

#: Types of elements and classes of arrays in MATLAB files.
_MATRIX, _COMPRESSED, _NUMBERS = 14, 15, {1, 2, 3, 4, 5, 6, 7, 9, 12, 13, 16, 17, 18}
_PLAIN_CLASSES = {"double", "single", "logical", "char", "cell", "sparse"} | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}
_CELL, _STRUCTS, _SPARSE, _LAST_NUMBER = 1, (2, 3), 5, 15


class DamagedError(Exception):
    """What the tags of a MATLAB file say cannot be."""


def read_mat(path: Path, *, keep: set[str], limit: int) -> Sheet:
    """Read variables X (samples in rows) and y or Y of a MATLAB file of version 4 to 7."""
    from scipy.io import loadmat, whosmat  # noqa: PLC0415 (needed for this format only)
    from scipy.sparse import issparse  # noqa: PLC0415

    with path.open("rb") as file:
        head = file.read(520)
    if not head:
        msg = f"{path} is empty."
        raise ValueError(msg)
    if b"MATLAB 7.3" in head[:128] or b"\x89HDF" in head:
        msg = f"{path} is a MATLAB 7.3 file; save it again in MATLAB with save(..., '-v7')."
        raise ValueError(msg)
    # scipy has no error of its own for damaged files: it raises what the first wrong byte leads to
    with readable(path, "a MATLAB file", struct.error, DamagedError, zlib.error, RecursionError):
        _check_mat(path, limit)
    with readable(path, "a MATLAB file", Exception):
        there = {name: shape for name, shape, kind in whosmat(str(path)) if kind in _PLAIN_CLASSES}
    wanted = [name for name in there if name in {"X", "y", "Y", *ROLES, *NAMES, *IDS} | keep]
    for name in wanted:
        check_size(path, bytes_in(there[name]), limit)
    with readable(path, "a MATLAB file", Exception):
        found = {n: v for n, v in loadmat(str(path), variable_names=wanted).items() if n in wanted}
    if "Y" in found and "y" not in found:
        found["y"] = found.pop("Y")
    for values in found.values():
        if issparse(values):
            with readable(path, "a sparse matrix", ValueError):
                values.tocsc().check_format(full_check=True)
    arrays = {name: v.toarray() if issparse(v) else _plain(v, name) for name, v in found.items()}
    return of_arrays(path, arrays, list(there), "a MATLAB file", limit)


def _check_mat(path: Path, limit: int) -> None:
    """Look at the tags of a file of version 5 to 7, because scipy's reader crashes on types that it does not know."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        order = {b"IM": "<", b"MI": ">"}.get(data[126:128], "")
        for kind, part in _elements(data, order, 128) if order else ():
            if kind == _COMPRESSED:
                unpacked = zlib.decompressobj().decompress(part, limit + 1)
                check_size(path, len(unpacked), limit, "unpacks to more than")
                for inner, content in _elements(unpacked, order):
                    _check_matrix(inner, content, order)
            else:
                _check_matrix(kind, part, order)


def _elements(data: Any, order: str, at: int = 0) -> Iterator[tuple[int, bytes]]:
    """Cut a part of a MATLAB file into its elements: type and content, padded to multiples of eight bytes."""
    while at < len(data):
        kind, size = struct.unpack_from(f"{order}II", data, at)
        start, small = at + 8, kind >> 16
        if small:
            # up to four bytes fit into the tag itself
            kind, size, start = kind & 0xFFFF, small, at + 4
        if start + size > len(data) or (small and size > 4):
            msg = f"an element of {size} bytes goes beyond its end"
            raise DamagedError(msg)
        yield kind, data[start : start + size]
        at = start + 4 if small else start + size + (0 if kind == _COMPRESSED else -size % 8)


def _check_matrix(kind: int, content: bytes, order: str) -> None:
    """Refuse a matrix whose parts are not flags, shape, name, and numbers or, in cells, matrices."""
    parts = list(_elements(content, order))
    if not parts:
        return
    types = [part for part, _ in parts]
    known = kind == _MATRIX and len(parts) > 2 and types[0] == 6 and types[1] in (5, 6) and types[2] in (1, 2, 16)
    if not known or len(parts[0][1]) != 8:
        msg = f"an element of type {kind} has parts of types {types[:3]}"
        raise DamagedError(msg)
    flags = struct.unpack_from(f"{order}I", parts[0][1])[0]
    form, imaginary = flags & 0xFF, bool(flags & 0x0800)
    # rows, columns and values of a sparse matrix; a cell for every place of its shape; otherwise values
    shape = struct.unpack(f"{order}{len(parts[1][1]) // 4}i", parts[1][1])
    wanted = {_CELL: bytes_in(shape, 1), _SPARSE: 3 + imaginary}.get(form, 1 + imaginary)
    if form <= _LAST_NUMBER and form not in _STRUCTS and len(parts) - 3 < wanted:
        msg = f"a matrix has {len(parts) - 3} parts instead of {wanted}"
        raise DamagedError(msg)
    for part, inside in parts[3:] if form <= _LAST_NUMBER else ():
        if form in (_CELL, *_STRUCTS) and part == _MATRIX:
            _check_matrix(part, inside, order)
        elif part not in _NUMBERS:
            msg = f"there are numbers of type {part}"
            raise DamagedError(msg)


def _plain(values: Array, name: str) -> Array:
    """Drop the second dimension that MATLAB gives to everything, and the boxes around the strings of a cell array."""
    if values.dtype == object:
        values = np.array([str(np.squeeze(cell)) for cell in values.ravel()])
    if name == "X":
        return values
    return np.char.strip(values.ravel()) if values.dtype.kind == "U" else values.ravel()
