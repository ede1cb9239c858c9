"""NPZ files: arrays X and y, and others that are known by their names."""

from pathlib import Path

import numpy as np

from randsel._utils.files import is_text, read_npz_arrays
from randsel._utils.text import list_first
from randsel._utils.typing import Array
from randsel.tables.formats._text import ReadOptions, Sheet, check_shape, to_float_matrix, to_text

#: Names of arrays with a fixed meaning, here and in MATLAB files.
ROLES = {"target": "y", "groups": "groups", "batch": "batch", "relevant": "relevant"}
FEATURE_NAMES = ("feature_names", "names")
SAMPLE_IDS = ("sample_ids", "ids")
KNOWN_ARRAYS = frozenset({"X", *ROLES.values(), *FEATURE_NAMES, *SAMPLE_IDS})


def read_npz(path: Path, options: ReadOptions) -> Sheet:
    """Read arrays X (samples in rows) and y, and feature_names, sample_ids, groups, batch, relevant if present."""
    arrays, stored = read_npz_arrays(path, options.limit, {*KNOWN_ARRAYS, *(options.names or ())})
    return arrays_to_sheet(path, arrays, stored, "NPZ", options.limit)


def arrays_to_sheet(path: Path, arrays: dict[str, Array], stored: list[str], description: str, limit: int) -> Sheet:
    """Build a sheet from X and the arrays named after their role; `stored` names all arrays of the file."""
    listed, X = list_first(stored, 20), arrays.pop("X", None)
    if X is None:
        raise ValueError(f"{path} has no array 'X'; it holds {listed or 'nothing'}.")
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise ValueError(f"{path}: X must be a matrix of numbers, and is {X.ndim}-dimensional of type {X.dtype}.")
    check_shape(path, X.shape, limit, X.itemsize)
    arrays = {name: _to_vector(path, name, values) for name, values in arrays.items()}
    feature_names = next((arrays.pop(name) for name in FEATURE_NAMES if name in arrays), np.arange(X.shape[1]))
    sample_ids = next((arrays.pop(name) for name in SAMPLE_IDS if name in arrays), None)
    for content, values, length in [
        ("feature names", feature_names, X.shape[1]),
        ("samples of 'sample_ids'", sample_ids, len(X)),
        *((f"entries of {name!r}", values, len(X)) for name, values in arrays.items() if name != "relevant"),
    ]:
        if values is not None and (values.ndim != 1 or len(values) != length):
            raise ValueError(f"{path}: X is {X.shape[0]}×{X.shape[1]}, but has {values.size} {content}.")
    row_names = None if sample_ids is None else to_text(sample_ids)
    roles = {role: name for role, name in ROLES.items() if name in arrays}
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
