"""Tables in blocks: Zarr and Parquet files whose columns the workers read, and Dask arrays as tables of estimators."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from randsel._numerics.arrays import RemoteTable
from randsel._numerics.column_sources import Scaling
from randsel._utils.text import optional
from randsel._utils.typing import Array
from randsel.distributed._client import Executor, delay
from randsel.distributed._columns import ClusterColumns, rechunk_by_columns
from randsel.distributed._rank_functions import ClusterRankFunctions

#: Bytes of a block of columns by default.
BLOCK_BYTES = 1 << 26


@dataclass(frozen=True)
class BlockTable:
    """A table whose features are a Dask array in blocks of columns.

    Attributes
    ----------
    X : dask.array.Array
        Features, to be passed to `RandSel` or `InteractionScan`.
    y : ndarray or None
        The target; None if none was named.
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

    Workers read the blocks when they need them, so all of them must see the path.

    Parameters
    ----------
    path : str or path
        A Zarr array, samples in rows; or a Zarr group with such an array `X`, the target under its name, and optionally
        `names` of the columns. Or a Parquet file of numbers, a column per feature and one for the target; or a folder
        of Parquet files with the same columns, whose rows follow each other in the order of the file names.
    target : str, default=None
        Name of the target; None for features alone.
    columns : int, default=None
        Columns of a block, by default about 64 MB of them; at least a chunk of a Zarr array.

    Returns
    -------
    BlockTable
        The features as a Dask array, the target in memory, and the names of the columns.

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
        raise FileNotFoundError(f"{path} does not exist; check the name, and that the workers see it too.")
    if path.suffix == ".zarr" or (path / "zarr.json").exists() or (path / ".zarray").exists():
        return _open_zarr(path, target, columns)
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files or any(file.suffix not in (".parquet", ".pq") for file in files):
        raise ValueError(
            f"{path} is neither Zarr nor Parquet; read other formats into memory with randsel.tables.read."
        )
    return _open_parquet(files, target, columns)


def _open_zarr(path: Path, target: str | None, columns: int | None) -> BlockTable:
    zarr = optional("zarr", extra="dask", purpose="Reading Zarr")
    dask_array = optional("dask.array", extra="dask", purpose="Reading blocks")
    stored = zarr.open(str(path), mode="r")
    arrays = {"X": stored} if hasattr(stored, "shape") else dict(stored.arrays())
    if "X" not in arrays or arrays["X"].ndim != 2:
        raise ValueError(
            f"{path} is not a Zarr array of two dimensions, nor a group with such an array X: {_name_first(arrays)}."
        )
    if target is not None and target not in arrays:
        raise ValueError(
            f"{path} has no array {target!r} besides X, but {_name_first(set(arrays) - {'X'})}; pass another target."
        )
    X = dask_array.from_zarr(arrays["X"])
    chunk = X.chunks[1][0]
    width = max(columns or _default_width(len(X), X.dtype), chunk)
    X = X.rechunk({0: -1, 1: width // chunk * chunk})
    names = tuple(map(str, arrays["names"][:] if "names" in arrays else range(X.shape[1])))
    y = None if target is None else np.asarray(arrays[target][:])
    n_targets = len(X) if y is None else len(y)
    if (n_targets, len(names)) != X.shape:
        raise ValueError(
            f"{path} has {X.shape[0]} rows and {X.shape[1]} columns, but {n_targets} targets and {len(names)} names."
        )
    return BlockTable(X, y, names)


def _open_parquet(files: list[Path], target: str | None, columns: int | None) -> BlockTable:
    polars = optional("polars", extra="files", purpose="Reading Parquet")
    dask_array = optional("dask.array", extra="dask", purpose="Reading blocks")
    frame = polars.scan_parquet(files)
    schema = frame.collect_schema()
    if target is not None and target not in schema:
        raise ValueError(
            f"{files[0]} has no column {target!r}, but {_name_first(schema.names())}; pass another target."
        )
    names = [name for name in schema.names() if name != target]
    not_numbers = [name for name in names if not (schema[name].is_numeric() or schema[name] == polars.Boolean)]
    if not_numbers:
        first, n_others = not_numbers[0], len(not_numbers) - 1
        others = f", nor do {n_others} others" if n_others else ""
        raise ValueError(
            f"Column {first!r} of {files[0]} does not hold numbers ({schema[first]}){others}; leave them out."
        )
    n_rows = int(frame.select(polars.len()).collect().item())
    if not names or not n_rows:
        raise ValueError(f"{files[0]} has {len(names)} columns of features and {n_rows} rows, so it holds no table.")
    dtype = np.dtype(np.float32 if all(schema[name] == polars.Float32 for name in names) else np.float64)
    width = columns or _default_width(n_rows, dtype)
    read, paths = delay(_read_columns), [str(file.absolute()) for file in files]
    blocks = [names[start : start + width] for start in range(0, len(names), width)]
    arrays = [dask_array.from_delayed(read(paths, dtype, block), (n_rows, len(block)), dtype) for block in blocks]
    y = None if target is None else frame.select(target).collect().to_series().to_numpy()
    return BlockTable(dask_array.concatenate(arrays, axis=1), y, tuple(names))


def _read_columns(files: list[str], dtype: Any, names: list[str]) -> Array:
    """Read some columns; missing values become NaN."""
    polars = optional("polars", extra="files", purpose="Reading Parquet")
    frame = polars.scan_parquet(files).select(polars.col(names).cast(polars.Float64).fill_null(float("nan"))).collect()
    return np.ascontiguousarray(frame.to_numpy(), dtype=dtype)


def _default_width(n_rows: int, dtype: Any) -> int:
    """Return the number of columns of a block of `BLOCK_BYTES`."""
    return int(max(1, BLOCK_BYTES // (dtype.itemsize * max(n_rows, 1))))


def _name_first(names: Iterable[str]) -> str:
    """Join the first five names with commas, followed by the number of the others."""
    names = list(names)
    return ", ".join(names[:5]) + (f" and {len(names) - 5} others" if len(names) > 5 else "") or "none"


# ---------------------------------------------------------------- Dask arrays as tables


@dataclass(frozen=True)
class DaskTable(RemoteTable):
    """Adapter of a Dask array; `check` rejects other Dask collections."""

    collection: Any

    def check(self) -> Any:
        """Return the array in double or single precision; raise an error for data frames, unknown sizes and text."""
        X = self.collection
        if not hasattr(X, "chunks"):
            raise TypeError(
                "X is a Dask data frame; pass X.to_dask_array(lengths=True), whose columns have numbers, not names."
            )
        if any(np.isnan(size) for sizes in X.chunks for size in sizes):
            raise ValueError("X is a Dask array of unknown size; call X.compute_chunk_sizes() first.")
        if X.dtype.kind not in "fiub":
            raise ValueError(f"X is a Dask array of type {X.dtype}; make it one of numbers first.")
        return X if X.dtype in (np.float64, np.float32) else X.astype(np.float64)

    def to_numpy(self) -> Any:
        """Read the table into memory."""
        return self.collection.compute()

    def hash_blocks(self) -> list[bytes]:
        """Return hashes of all columns, computed by the workers that hold them."""
        blocks = rechunk_by_columns(self.collection).to_delayed()[0]
        return Executor.for_array(self.collection).compute([delay(_hash_columns)(block) for block in blocks])

    def standardised_columns(self, scaling: Scaling, max_bytes: int | None) -> tuple[ClusterColumns, Array]:
        """Return the columns that vary, standardised, and their indices."""
        return ClusterColumns.from_array(self.collection, scaling, max_bytes)

    def rank_functions(
        self, n_functions: int, weights: Array, nominal: Array, strata: Array | None = None, max_missing: float = 1.0
    ) -> tuple[ClusterRankFunctions, Array]:
        """Return the rank functions of the columns that have any, and the indices of these columns."""
        return ClusterRankFunctions.from_array(self.collection, n_functions, weights, nominal, strata, max_missing)


def remote_table(X: Any) -> DaskTable | None:
    """Return the adapter of a Dask collection; None for other objects of Dask."""
    return DaskTable(X) if hasattr(X, "to_delayed") else None


def _hash_columns(block: Array) -> bytes:
    """Return the SHA-256 of every column, one after the other."""
    return b"".join(hashlib.sha256(column).digest() for column in np.ascontiguousarray(block.T))
