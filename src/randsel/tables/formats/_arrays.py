"""NPZ files, and MATLAB files of version 4 to 7 by scipy: arrays X and y, and optional arrays recognised by name."""

import mmap
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from randsel._utils.files import bytes_in, check_size, is_text, read_npz_arrays, readable
from randsel._utils.text import list_first
from randsel._utils.typing import Array
from randsel.tables.formats._sheet import ReadOptions, Sheet, check_shape, to_float_matrix, to_text

#: Names of arrays with a fixed meaning.
_ROLES = {"target": "y", "groups": "groups", "batch": "batch", "relevant": "relevant"}
_FEATURE_NAMES = ("feature_names", "names")
_SAMPLE_IDS = ("sample_ids", "ids")
_KNOWN_ARRAYS = frozenset({"X", *_ROLES.values(), *_FEATURE_NAMES, *_SAMPLE_IDS})
#: Classes of variables that can be read, as `whosmat` names them.
_READABLE_CLASSES = (
    *("double", "single", "logical", "char", "cell", "sparse"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)
# Numbers of the MAT-file format: data types of elements, and classes of arrays.
_MATRIX_ELEMENT, _COMPRESSED_ELEMENT = 14, 15
_NUMERIC_ELEMENTS = {1, 2, 3, 4, 5, 6, 7, 9, 12, 13, 16, 17, 18}
_CELL_CLASS, _STRUCT_CLASSES, _SPARSE_CLASS, _LAST_NUMERIC_CLASS = 1, (2, 3), 5, 15


def read_npz(path: Path, options: ReadOptions) -> Sheet:
    """Read arrays X (samples in rows) and y, and feature_names, sample_ids, groups, batch, relevant if present."""
    arrays, stored = read_npz_arrays(path, options.limit, {*_KNOWN_ARRAYS, *(options.names or ())})
    return _to_sheet(path, arrays, stored, "NPZ", options.limit)


def read_mat(path: Path, options: ReadOptions) -> Sheet:
    """Read variables X (samples in rows) and y or Y, and others named as in NPZ files."""
    from scipy.io import loadmat, whosmat  # noqa: PLC0415 (needed for this format only)

    with path.open("rb") as file:
        head = file.read(520)
    if not head:
        raise ValueError(f"{path} is empty.")
    if b"MATLAB 7.3" in head[:128] or b"\x89HDF" in head:
        raise ValueError(f"{path} is a MATLAB 7.3 file; save it again in MATLAB with save(..., '-v7').")
    with readable(path, "a MATLAB file", struct.error, zlib.error, RecursionError):
        _check_tags(path, options.limit)
    # scipy has no exception of its own for damaged files: the first wrong byte may raise anything
    with readable(path, "a MATLAB file", Exception):
        shapes = {name: shape for name, shape, kind in whosmat(str(path)) if kind in _READABLE_CLASSES}
    wanted = [name for name in shapes if name in {*_KNOWN_ARRAYS, "Y", *(options.names or ())}]
    for name in wanted:
        check_size(path, bytes_in(shapes[name]), options.limit)
    with readable(path, "a MATLAB file", Exception):
        stored = loadmat(str(path), variable_names=wanted)
    arrays = {name: _unwrap(path, name, values) for name, values in stored.items() if name in wanted}
    if "Y" in arrays and "y" not in arrays:
        arrays["y"] = arrays.pop("Y")
    return _to_sheet(path, arrays, list(shapes), "a MATLAB file", options.limit)


def _to_sheet(path: Path, arrays: dict[str, Array], stored: list[str], description: str, limit: int) -> Sheet:
    """Build a sheet from X and the arrays named after their role; `stored` names all arrays of the file."""
    listed, X = list_first(stored, 20), arrays.pop("X", None)
    if X is None:
        raise ValueError(f"{path} has no array 'X'; it holds {listed or 'nothing'}.")
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise ValueError(f"{path}: X must be a matrix of numbers, and is {X.ndim}-dimensional of type {X.dtype}.")
    check_shape(path, X.shape, limit, X.itemsize)
    arrays = {name: _to_vector(path, name, values) for name, values in arrays.items()}
    feature_names = next((arrays.pop(name) for name in _FEATURE_NAMES if name in arrays), np.arange(X.shape[1]))
    sample_ids = next((arrays.pop(name) for name in _SAMPLE_IDS if name in arrays), None)
    for content, values, length in [
        ("feature names", feature_names, X.shape[1]),
        ("samples of 'sample_ids'", sample_ids, len(X)),
        *((f"entries of {name!r}", values, len(X)) for name, values in arrays.items() if name != "relevant"),
    ]:
        if values is not None and (values.ndim != 1 or len(values) != length):
            raise ValueError(f"{path}: X is {X.shape[0]}×{X.shape[1]}, but has {values.size} {content}.")
    row_names = None if sample_ids is None else to_text(sample_ids)
    roles = {role: name for role, name in _ROLES.items() if name in arrays}
    values, names, description = to_float_matrix(X), to_text(feature_names), f"{description}, arrays {listed}"
    return Sheet(path, values, names, description, row_names=row_names, named_columns=arrays, roles=roles)


def _to_vector(path: Path, name: str, values: Array) -> Array:
    """Drop a second dimension of length 1; raise ValueError for arrays that are neither numbers nor text."""
    if values.dtype.kind == "S":
        values = np.array(to_text(values.ravel()), dtype=str).reshape(values.shape)
    # `relevant` holds indices of columns
    valid_role = name != "relevant" or (values.dtype.kind in "iu" and values.ndim < 3)
    if values.dtype.kind not in "biufU" or not valid_role or not is_text(values):
        problem = f"array {name!r} of type {values.dtype} is neither numbers nor text"
        raise ValueError(f"{path}: {problem}; save it again as such.")
    return values.ravel() if values.ndim == 2 and 1 in values.shape else values


def _check_tags(path: Path, limit: int) -> None:
    """Check the tags of a file of version 5 to 7, because scipy crashes on data types that it does not know."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        byte_order = {b"IM": "<", b"MI": ">"}.get(data[126:128], "")
        for kind, content in _elements(data, byte_order, 128) if byte_order else ():
            if kind == _COMPRESSED_ELEMENT:
                unpacked = zlib.decompressobj().decompress(content, limit + 1)
                check_size(path, len(unpacked), limit, "unpacks to more than")
                for inner_kind, inner_content in _elements(unpacked, byte_order):
                    _check_matrix(inner_kind, inner_content, byte_order)
            else:
                _check_matrix(kind, content, byte_order)


def _elements(data: Any, byte_order: str, offset: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield data type and content of the elements, which are padded to multiples of eight bytes."""
    while offset < len(data):
        kind, size = struct.unpack_from(f"{byte_order}II", data, offset)
        start, small_size = offset + 8, kind >> 16
        if small_size:
            # up to four bytes are stored in the tag itself
            kind, size, start = kind & 0xFFFF, small_size, offset + 4
        if start + size > len(data) or (small_size and size > 4):
            raise struct.error(f"an element of {size} bytes goes beyond its end")
        yield kind, data[start : start + size]
        offset = start + 4 if small_size else start + size + (0 if kind == _COMPRESSED_ELEMENT else -size % 8)


def _check_matrix(kind: int, content: bytes, byte_order: str) -> None:
    """Raise struct.error unless a matrix has flags, shape, name, and then numbers or, in a cell array, matrices."""
    elements = list(_elements(content, byte_order))
    if not elements:
        return
    kinds = [element_kind for element_kind, _ in elements]
    starts_well = len(kinds) > 2 and kinds[0] == 6 and kinds[1] in (5, 6) and kinds[2] in (1, 2, 16)
    if kind != _MATRIX_ELEMENT or not starts_well or len(elements[0][1]) != 8:
        raise struct.error(f"an element of type {kind} has parts of types {kinds[:3]}")
    flags = struct.unpack_from(f"{byte_order}I", elements[0][1])[0]
    array_class, is_complex = flags & 0xFF, bool(flags & 0x0800)
    shape = struct.unpack(f"{byte_order}{len(elements[1][1]) // 4}i", elements[1][1])
    if array_class > _LAST_NUMERIC_CLASS:
        return
    # a cell array has an element per cell, a sparse matrix has rows, columns and values, others have values
    n_expected = {_CELL_CLASS: bytes_in(shape, 1), _SPARSE_CLASS: 3 + is_complex}.get(array_class, 1 + is_complex)
    if array_class not in _STRUCT_CLASSES and len(elements) - 3 < n_expected:
        raise struct.error(f"a matrix has {len(elements) - 3} parts instead of {n_expected}")
    for inner_kind, inner_content in elements[3:]:
        if array_class in (_CELL_CLASS, *_STRUCT_CLASSES) and inner_kind == _MATRIX_ELEMENT:
            _check_matrix(inner_kind, inner_content, byte_order)
        elif inner_kind not in _NUMERIC_ELEMENTS:
            raise struct.error(f"there are numbers of type {inner_kind}")


def _unwrap(path: Path, name: str, values: Any) -> Array:
    """Return a dense array, of text if it was a cell array, and a vector (MATLAB has only matrices) unless it is X."""
    if hasattr(values, "tocsc"):
        with readable(path, "a sparse matrix", ValueError):
            values.tocsc().check_format(full_check=True)
        values = values.toarray()
    dense: Array = np.array([str(np.squeeze(cell)) for cell in values.ravel()]) if values.dtype == object else values
    if name == "X":
        return dense
    return np.char.strip(dense.ravel()) if dense.dtype.kind == "U" else dense.ravel()
