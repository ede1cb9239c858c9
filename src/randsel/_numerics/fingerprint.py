"""Hashes of data, by which a stored result is matched with the data that it was computed from."""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from randsel._numerics.arrays import is_sparse, on_host, remote_table, to_numpy
from randsel._numerics.columns import release_pages
from randsel._utils.typing import Array

#: Bytes that are hashed at a time: a memory map is never read as a whole.
BLOCK_BYTES = 1 << 24


def fingerprint(*items: Any, convention: str = "stored") -> str:
    """Return the SHA-256 of arrays (None where there is none), as 64 hexadecimal digits.

    `convention` says how arrays become bytes. Files carry these hashes, so the conventions cannot be merged:

    - "stored", in checkpoints: type, shape and bytes, because a fit resumes on the same bits only. Columns of a table
      that is not in memory are hashed one by one where they are, so that its blocks do not matter.
    - "values", in result folders: numbers as doubles, so that a table has one hash in CSV and in Parquet; or text.
    - "cells", in names of the cells of an experiment: type, shape and bytes in C order, text included.
    """
    digest = hashlib.sha256()
    for item in items:
        for chunk in _CONVENTIONS[convention](item):
            digest.update(chunk)
    return digest.hexdigest()


def _stored_bytes(values: Any) -> Iterator[Any]:
    if values is None:
        yield b"none;"
        return
    yield f"{values.dtype} {tuple(values.shape)};".encode()
    if is_sparse(values):
        for array in (values.data, values.indices, values.indptr):
            yield from _stored_bytes(array)
        return
    if (remote := remote_table(values)) is not None:
        yield from remote.hash_blocks()
    elif on_host(values) and values.dtype.kind not in "biuf":
        yield repr(values.tolist()).encode()
    else:
        # In Fortran order a block of rows would be scattered over the whole table.
        by_column = on_host(values) and values.ndim == 2 and values.flags.f_contiguous and not values.flags.c_contiguous
        yield from _blocks(values.T if by_column else values)


def _blocks(values: Any) -> Iterator[Array]:
    n_rows = max(1, BLOCK_BYTES // max(int(np.prod(values.shape[1:])) * values.dtype.itemsize, 1))
    for start in range(0, len(values), n_rows):
        yield np.ascontiguousarray(to_numpy(values[start : start + n_rows]))
        if on_host(values):
            release_pages(values)


def _value_bytes(item: Any) -> Iterator[bytes]:
    if isinstance(item, str):
        yield item.encode()
    elif item is None:
        yield b";"
    elif item.dtype.names is not None:
        for name in item.dtype.names:
            yield from _value_bytes(item[name])
    elif item.ndim == 2:
        for row in item:
            # Adding 0.0 turns -0.0 into 0.0; all kinds of NaN become one.
            plain = np.ascontiguousarray(row, dtype="<f8") + 0.0
            plain[np.isnan(plain)] = np.nan
            yield plain.tobytes()
    else:
        plain = item.astype(np.float64) + 0.0 if item.dtype.kind in "fiub" else item.astype(str)
        yield repr(plain.tolist()).encode() + b";"


def _cell_bytes(values: Array | None) -> Iterator[bytes]:
    if values is not None:
        yield str((values.dtype.str, values.shape)).encode()
        yield np.ascontiguousarray(values).tobytes()


_CONVENTIONS: dict[str, Callable[[Any], Iterator[Any]]] = {
    "stored": _stored_bytes,
    "values": _value_bytes,
    "cells": _cell_bytes,
}
