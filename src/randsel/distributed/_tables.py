"""Tables that no machine holds, in Zarr and Parquet: workers of a Dask cluster read their own blocks of columns."""

import hashlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from randsel._numerics.arrays import RemoteTable
from randsel._utils.optional import optional
from randsel._utils.typing import Array
from randsel.distributed._columns import ClusterColumns, of_blocks
from randsel.distributed._rank_functions import ClusterFunctions

__all__ = ["BlockTable", "DaskTable", "read_blocks", "remote_table"]

#: Bytes of a block of columns, if nothing else is said.
BLOCK_BYTES = 1 << 26


@dataclass(frozen=True)
class BlockTable:
    """A table whose features are in blocks of columns elsewhere.

    Attributes
    ----------
    X : dask.array.Array
        Features; to be passed to `RandSel` or `InteractionScan`.
    y : ndarray or None
        The target; None if it was not asked for.
    names : tuple of str
        Names of the columns of X.

    Examples
    --------
    See `read_blocks`.
    """

    X: Any
    y: Array | None
    names: tuple[str, ...]


def read_blocks(path: Any, target: str | None = None, *, columns: int | None = None) -> BlockTable:
    """Open a table in Zarr or Parquet as a Dask array in blocks of columns, without reading its features.

    Workers read the blocks when they need them, so that all of them must see the path.

    Parameters
    ----------
    path : str or path
        A Zarr array, samples in rows; or a Zarr group of such an array `X`, of the target under its name, and perhaps
        of `names` of columns. Or a Parquet file of numbers, a column per feature and one for the target; or a folder of
        Parquet files with the same columns, whose rows follow each other in the order of the file names.
    target : str, default=None
        Name of the target. None: X alone.
    columns : int, default=None
        Columns of a block; about 64 MB of them by default, of Zarr at least a chunk of the file.

    Returns
    -------
    BlockTable
        The features as a Dask array, the target in memory, and names of columns.

    Examples
    --------
    >>> import tempfile, polars
    >>> from randsel import RandSel, datasets, read_blocks
    >>> X, y, relevant = datasets.make_xor(300, 100, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/xor.parquet"
    ...     polars.DataFrame(X).with_columns(label=y).write_parquet(path)
    ...     table = read_blocks(path, "label")
    ...     selector = RandSel().fit(table.X, table.y)
    >>> [table.names[j] for j in selector.get_support(indices=True)]
    ['column_0', 'column_1']
    """
    path = Path(path)
    if not path.exists():
        msg = f"{path} is not there; check the name, and that the workers see it too."
        raise FileNotFoundError(msg)
    if path.suffix == ".zarr" or (path / "zarr.json").exists() or (path / ".zarray").exists():
        return _of_zarr(path, target, columns)
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files or any(file.suffix not in (".parquet", ".pq") for file in files):
        msg = (
            f"{path} is no Zarr array and no Parquet; tables of other formats are read by one machine (randsel.tables)."
        )
        raise ValueError(msg)
    return _of_parquet(files, target, columns)


def _of_zarr(path: Path, target: str | None, columns: int | None) -> BlockTable:
    zarr = optional("zarr", extra="dask", purpose="Reading Zarr")
    array = optional("dask.array", extra="dask", purpose="Reading blocks")
    opened = zarr.open(str(path), mode="r")
    known = {} if hasattr(opened, "shape") else dict(opened.arrays())
    if known and "X" not in known:
        msg = f"{path} is a Zarr group of {_some(known)} but has no array X."
        raise ValueError(msg)
    if target is not None and target not in known:
        msg = f"{path} has no array {target!r} beside X, but {_some(set(known) - {'X'})}; pass another target."
        raise ValueError(msg)
    stored = known.get("X", opened)
    if getattr(stored, "ndim", 0) != 2:
        msg = f"{path} holds no table: X has {getattr(stored, 'ndim', 0)} dimensions, not two."
        raise ValueError(msg)
    X = array.from_zarr(stored)
    wide = max(columns or _default_width(X), X.chunks[1][0])
    X = X.rechunk({0: -1, 1: wide // X.chunks[1][0] * X.chunks[1][0]})
    names = [str(name) for name in known["names"][:]] if "names" in known else list(map(str, range(X.shape[1])))
    y = None if target is None else np.asarray(known[target][:])
    _check_lengths(path, X.shape, y, names)
    return BlockTable(X, y, tuple(names))


def _of_parquet(files: list[Path], target: str | None, columns: int | None) -> BlockTable:
    polars = optional("polars", extra="files", purpose="Reading Parquet")
    array = optional("dask.array", extra="dask", purpose="Reading blocks")
    delayed = optional("dask", extra="dask", purpose="Reading blocks").delayed
    lazy = polars.scan_parquet(files)
    schema = lazy.collect_schema()
    if target is not None and target not in schema:
        msg = f"{files[0]} has no column {target!r}, but {_some(schema.names())}; pass another target."
        raise ValueError(msg)
    names = [name for name in schema.names() if name != target]
    odd = [name for name in names if not (schema[name].is_numeric() or schema[name] == polars.Boolean)]
    if odd:
        more = f", nor are {len(odd) - 1} others" if len(odd) > 1 else ""
        msg = f"Column {odd[0]!r} of {files[0]} is no column of numbers ({schema[odd[0]]}){more}; leave them out."
        raise ValueError(msg)
    rows = int(lazy.select(polars.len()).collect().item())
    dtype = np.float32 if all(schema[name] == polars.Float32 for name in names) else np.float64
    wide = columns or max(1, BLOCK_BYTES // (np.dtype(dtype).itemsize * max(rows, 1)))
    read = delayed(partial(_read, [str(file.absolute()) for file in files], dtype))
    parts = [
        array.from_delayed(read(names[start : start + wide]), (rows, len(names[start : start + wide])), dtype=dtype)
        for start in range(0, len(names), wide)
    ]
    if not parts or not rows:
        msg = f"{files[0]} has {len(names)} columns of features and {rows} rows: there is no table in it."
        raise ValueError(msg)
    y = None if target is None else lazy.select(target).collect().to_series().to_numpy()
    return BlockTable(array.concatenate(parts, axis=1), y, tuple(names))


def _read(files: list[str], dtype: Any, names: list[str]) -> Array:
    """Read some columns; missing values become NaN, and are refused by whoever needs them."""
    polars = optional("polars", extra="files", purpose="Reading Parquet")
    frame = polars.scan_parquet(files).select(polars.col(names).cast(polars.Float64).fill_null(float("nan"))).collect()
    return np.ascontiguousarray(frame.to_numpy(), dtype=dtype)


def _default_width(X: Any) -> int:
    return int(max(1, BLOCK_BYTES // (X.dtype.itemsize * max(len(X), 1))))


def _some(names: Any) -> str:
    names = [str(name) for name in names]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} others" if len(names) > 5 else "") or "none"


def _check_lengths(path: Path, shape: tuple[int, int], y: Array | None, names: list[str]) -> None:
    if y is not None and len(y) != shape[0]:
        msg = f"{path} has {shape[0]} rows of X, but a target of length {len(y)}."
        raise ValueError(msg)
    if len(names) != shape[1]:
        msg = f"{path} has {shape[1]} columns of X, but {len(names)} names."
        raise ValueError(msg)


# ---------------------------------------------------------------- Dask arrays as tables


@dataclass(frozen=True)
class DaskTable(RemoteTable):
    """Adapter of a Dask array, or of another Dask collection, which `check` refuses as a table."""

    collection: Any

    def check(self) -> Any:
        """Refuse data frames, arrays of unknown size and text; return an array in double or single precision."""
        X = self.collection
        if not hasattr(X, "chunks"):
            msg = (
                "X is a Dask data frame; pass X.to_dask_array(lengths=True), whose columns are known by their numbers."
            )
            raise TypeError(msg)
        if any(np.isnan(size) for sizes in X.chunks for size in sizes):
            msg = "X is a Dask array of unknown size; call X.compute_chunk_sizes() first."
            raise ValueError(msg)
        if X.dtype.kind not in "fiub":
            msg = f"X is a Dask array of type {X.dtype}; make it one of numbers first."
            raise ValueError(msg)
        return X if X.dtype in (np.float64, np.float32) else X.astype(np.float64)

    def to_numpy(self) -> Array:
        """Read the table into memory."""
        values: Array = self.collection.compute()
        return values

    def hash_blocks(self) -> list[bytes]:
        """Return hashes of all columns, computed by the workers that hold them."""
        return of_blocks(self.collection, _hash_columns)

    def select_columns(self, chosen: Array) -> Any:
        """Return some columns as a Dask array."""
        return self.check()[:, chosen]

    def standardised_columns(
        self, weights: Array | None, *, scale: bool, max_bytes: int | None
    ) -> tuple[ClusterColumns, Array]:
        """Return the columns that vary, standardised, and their indices."""
        return ClusterColumns.of(self.collection, weights, scale=scale, max_bytes=max_bytes)

    def rank_functions(self, n_functions: int, weights: Array, nominal: Array) -> tuple[ClusterFunctions, Array]:
        """Return the rank functions of the columns that have any, and the indices of these columns."""
        return ClusterFunctions.of(self.collection, n_functions, weights, nominal)


def remote_table(X: Any) -> DaskTable | None:
    """Return the adapter of a Dask collection; None for other objects of Dask."""
    return DaskTable(X) if hasattr(X, "to_delayed") else None


def _hash_columns(block: Array) -> bytes:
    """Return the SHA-256 of every column, one after the other."""
    return b"".join(hashlib.sha256(column).digest() for column in np.ascontiguousarray(block.T))
