"""AnnData files (h5ad), by h5py; in the encodings of anndata 0.7 and later."""

from pathlib import Path
from typing import Any

from randsel._utils.files import bytes_in, check_size, readable
from randsel._utils.text import optional
from randsel._utils.typing import Array
from randsel.tables.formats._sheet import ReadOptions, Sheet, to_float_matrix, to_text

#: Arrays of a sparse matrix -> kinds of dtype that they may have.
_SPARSE_KINDS = {"data": "biuf", "indices": "iu", "indptr": "iu"}
_HDF5_ERRORS = (OSError, KeyError, RuntimeError, TypeError, IndexError, AttributeError, UnicodeError)


def read_h5ad(path: Path, options: ReadOptions) -> Sheet:
    """Read X or a layer of an AnnData file, samples in rows, and the columns of obs."""
    h5py, layer = optional("h5py", extra="files", purpose="Reading h5ad"), options.layer
    location = "X" if layer is None else f"layers/{layer}"
    with readable(path, "h5ad", *_HDF5_ERRORS), h5py.File(path, "r") as file:
        reader = _CheckedReader(path, h5py, options.limit)
        for name in ("obs", "var", "X") if layer is None else ("obs", "var"):
            if name not in file:
                raise ValueError(f"{path} is not AnnData: it has no {name!r}, but {', '.join(file)}.")
        layers = list(reader.item(file, "layers")) if layer is not None and "layers" in file else []
        if layer is not None and layer not in layers:
            raise ValueError(f"{path} has no layer {layer!r}; it has {', '.join(map(repr, layers)) or 'none'}.")
        ids, sample_columns = reader.frame(file, "obs")
        names, _ = reader.frame(file, "var", index_only=True)
        values, storage = reader.matrix(file, location)
    n, p = values.shape
    if (n, p) != (len(ids), len(names)):
        raise ValueError(f"{path}: {location} is {n}×{p}, but obs has {len(ids)} rows and var {len(names)}.")
    return Sheet(path, values, names, f"h5ad, {storage} {location}", row_names=ids, named_columns=sample_columns)


class _CheckedReader:
    """Items of an HDF5 file, each checked for size, type and links before it is read."""

    def __init__(self, path: Path, h5py: Any, limit: int) -> None:
        self.path, self.h5py, self.limit = path, h5py, limit

    def error(self, problem: str, remedy: str = "write the file again with anndata") -> ValueError:
        """Return the error about an item of the file."""
        return ValueError(f"{self.path}: {problem}; {remedy}.")

    def item(self, parent: Any, name: str) -> Any:
        """Return a group or dataset inside the file; raise ValueError for a link to another place."""
        for part in filter(None, name.split("/")):
            if not isinstance(parent, self.h5py.Group) or part not in parent:
                raise self.error(f"{name!r} is not there")
            if not isinstance(parent.get(part, getlink=True), self.h5py.HardLink):
                raise self.error(f"{name!r} is not inside the file, but a link")
            parent = parent[part]
        return parent

    def array(self, parent: Any, name: str) -> Array:
        """Read a dataset; raise ValueError unless it is stored in the file itself and within the limit."""
        dataset = self.item(parent, name)
        if not isinstance(dataset, self.h5py.Dataset) or dataset.external or dataset.is_virtual or not dataset.ndim:
            raise self.error(f"{name!r} is not an array inside the file")
        check_size(self.path, bytes_in(dataset.shape, max(dataset.dtype.itemsize, 8)), self.limit)
        values: Array = dataset[()]
        return values

    def frame(self, file: Any, name: str, *, index_only: bool = False) -> tuple[list[str], dict[str, Any]]:
        """Read the index and the columns of obs or var."""
        group, path = self.item(file, name), self.path
        if not isinstance(group, self.h5py.Group):
            raise ValueError(f"{path} was written by anndata before 0.7; read and write it again with a newer one.")
        index = to_text(self.column(group, str(group.attrs.get("_index", "_index"))))
        names = [] if index_only else [str(column) for column in group.attrs.get("column-order", [])]
        columns = {column: self.column(group, column) for column in dict.fromkeys(names) if column in group}
        for key, cells in columns.items():
            if len(cells) != len(index):
                raise ValueError(f"{path}: column {key!r} of {name} has {len(cells)} entries for {len(index)} rows.")
        return index, columns

    def column(self, group: Any, name: str) -> Any:
        """Read a column: numbers, text, categories, or values with a mask of missing ones."""
        item = self.item(group, name)
        if not isinstance(item, self.h5py.Group):
            values = self.array(group, name)
            if values.ndim != 1 or values.dtype.kind not in "biufOSU":
                raise self.error(f"{name!r} is not a column of numbers or text", "write it as such")
            # anndata 0.7 stores categories in a group of their own, and refers to it in an attribute
            if item.attrs.get("categories") is not None:
                return _decode_categories(values, self.column(self.item(group, "__categories"), name))
            return to_text(values) if values.dtype.kind in "OSU" else values
        if "codes" in item:
            return _decode_categories(self.array(item, "codes"), self.column(item, "categories"))
        if "values" in item and "mask" in item:
            values, mask = self.array(item, "values"), self.array(item, "mask")
            return ["" if missing else value for value, missing in zip(to_text(values), mask, strict=True)]
        problem = f"column {name!r} is of a kind that cannot be read"
        raise self.error(problem, "write it as text, numbers or categories")

    def matrix(self, file: Any, location: str) -> tuple[Array, str]:
        """Read a matrix as a dense array; also return how it was stored."""
        item, path = self.item(file, location), self.path
        if isinstance(item, self.h5py.Dataset):
            X = self.array(file, location)
            if X.ndim != 2 or X.dtype.kind not in "biuf":
                raise ValueError(f"{path}: {location} is not a matrix of numbers, but a {X.ndim}-d {X.dtype} array.")
            return to_float_matrix(X), "dense"
        encoding = item.attrs.get("encoding-type", item.attrs.get("h5sparse_format"))
        encoding = encoding.decode() if isinstance(encoding, bytes) else str(encoding)
        shape = tuple(int(length) for length in item.attrs.get("shape", item.attrs.get("h5sparse_shape", ())))
        if encoding[:3] not in ("csr", "csc") or len(shape) != 2:
            raise self.error(f"{location} is of type {encoding!r}", "dense, csr and csc matrices can be read")
        check_size(path, bytes_in(shape), self.limit, f"is sparse; as a dense {shape[0]}×{shape[1]} matrix it takes")
        arrays = {name: self.array(item, name) for name in _SPARSE_KINDS}
        if any(values.ndim != 1 or values.dtype.kind not in _SPARSE_KINDS[name] for name, values in arrays.items()):
            raise self.error(f"the parts of {location} are not vectors of numbers")
        from scipy import sparse  # noqa: PLC0415 (needed for sparse matrices only)

        with readable(path, "a sparse matrix", ValueError):
            matrix_type = sparse.csr_matrix if encoding.startswith("csr") else sparse.csc_matrix
            matrix = matrix_type(tuple(arrays.values()), shape=shape)
            matrix.check_format(full_check=True)
        return to_float_matrix(matrix.toarray(order="C")), encoding[:3].upper()


def _decode_categories(codes: Array, categories: Any) -> list[str]:
    """Return the category of each code, "" for the code -1 of a missing value."""
    is_integer = codes.ndim == 1 and codes.dtype.kind in "iu"
    if not is_integer or not all(-1 <= code < len(categories) for code in codes.tolist()):
        raise IndexError("codes of categories are not those of its categories")
    # the code -1 picks the last entry
    names = [*to_text(categories), ""]
    return [names[code] for code in codes.tolist()]
