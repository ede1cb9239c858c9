"""Hashes of arrays, by which a stored result is matched with its data."""

import hashlib
from typing import Any

import numpy as np

from randsel._numerics.arrays import on_host, remote_table, to_numpy
from randsel._numerics.columns import release_pages

#: Bytes that are hashed at a time.
HASHED = 1 << 24


def fingerprint(*arrays: Any) -> str:
    """Return a hash of types, shapes and values, block by block: nothing is copied as a whole.

    Columns of a table that is not in memory are hashed one by one where they are, so that its blocks do not matter.
    """
    digest = hashlib.sha256()
    for values in arrays:
        if values is None:
            digest.update(b"none;")
            continue
        digest.update(f"{values.dtype} {tuple(values.shape)};".encode())
        if (remote := remote_table(values)) is not None:
            for hashes in remote.hash_blocks():
                digest.update(hashes)
            continue
        if on_host(values) and values.dtype.kind not in "biuf":
            digest.update(repr(values.tolist()).encode())
            continue
        # rows of a table that lies column by column would be scattered
        across = on_host(values) and values.ndim == 2 and values.flags.f_contiguous and not values.flags.c_contiguous
        _digest(digest, values.T if across else values)
    return digest.hexdigest()


def _digest(digest: Any, values: Any) -> None:
    rows = max(1, HASHED // max(int(np.prod(values.shape[1:])) * values.dtype.itemsize, 1))
    for start in range(0, len(values), rows):
        digest.update(np.ascontiguousarray(to_numpy(values[start : start + rows])))
        if on_host(values):
            release_pages(values)
