"""One small reader per format that is no plain text: file to `Sheet`. Nothing is unpickled; sizes are checked first."""

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from randsel._backend import Array
from randsel._optional import optional
from randsel.table_text import Grid, Sheet, check_distinct, check_size, complaint, number, records, split

#: Arrays that are known by their names, in NPZ and MAT files.
ROLES = ("groups", "batch", "relevant")
NAMES = ("feature_names", "names")
IDS = ("sample_ids", "ids")
#: What damaged files raise, which the libraries do not gather under one name.
_ZIP_ERRORS = (zipfile.BadZipFile, EOFError, OSError, SyntaxError, NotImplementedError, RuntimeError, zlib.error)
_HDF5_ERRORS = (OSError, KeyError, RuntimeError, TypeError, IndexError, AttributeError, UnicodeError)


def numbered(values: Array) -> Array:
    """Row by row, in single precision if the values have it, in double precision otherwise."""
    return np.ascontiguousarray(values, dtype=np.float32 if values.dtype == np.float32 else np.float64)


def _text(values: Any) -> list[str]:
    return [value.decode() if isinstance(value, bytes) else str(value) for value in values]


@contextmanager
def readable(path: Path, what: str, *kinds: type[BaseException]) -> Iterator[None]:
    """Turn what a library says of a damaged file into a sentence."""
    try:
        yield
    except kinds as error:
        msg = f"{path} cannot be read as {what}, it may be cut off or damaged: {error}."
        raise ValueError(msg) from error


# ---------------------------------------------------------------- arrays by name: NPZ


def read_npz(path: Path, *, keep: set[str], limit: int) -> Sheet:
    """Read arrays X (samples in rows) and y, and perhaps feature_names, sample_ids, groups, batch, relevant."""
    wanted = {"X", "y", *ROLES, *NAMES, *IDS} | keep
    with readable(path, "NPZ", *_ZIP_ERRORS), zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.filename.removesuffix(".npy") in wanted:
                with archive.open(member) as file:
                    _check_npy(file, path, member.filename, limit)
    with readable(path, "NPZ", *_ZIP_ERRORS), np.load(path, allow_pickle=False) as data:
        found = {name: data[name] for name in data.files if name in wanted}
        return of_arrays(path, found, data.files, "NPZ")


def _check_npy(file: Any, path: Path, name: str, limit: int) -> None:
    """Look at what an array claims to be before it is read."""
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
    except ValueError as error:
        msg = f"{path}: array {name!r} is damaged: {error}."
        raise ValueError(msg) from error
    if dtype.hasobject:
        msg = f"{path}: array {name!r} holds Python objects, which are not unpickled; save text and numbers as such."
        raise ValueError(msg)
    check_size(path, bytes_in(shape, dtype.itemsize), limit)


def bytes_in(shape: tuple[int, ...], itemsize: int = 8) -> int:
    """Size of an array in numbers that cannot overflow."""
    size = max(itemsize, 1)
    for length in shape:
        size *= int(length)
    return size


def of_arrays(path: Path, found: dict[str, Array], there: list[str], kind: str) -> Sheet:
    """Make a sheet of X and what is named after its purpose."""
    X = found.pop("X", None)
    if X is None:
        msg = f"{path} has no array 'X'; it holds {', '.join(there) or 'nothing'}."
        raise ValueError(msg)
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        msg = f"{path}: X must be a matrix of numbers, and is {X.ndim}-dimensional of type {X.dtype}."
        raise ValueError(msg)
    found = {name: v.ravel() if v.ndim == 2 and 1 in v.shape else v for name, v in found.items()}
    given = {
        role: next((found.pop(name) for name in names if name in found), None)
        for role, names in (("features", NAMES), ("ids", IDS))
    }
    names = np.arange(X.shape[1]) if given["features"] is None else given["features"]
    for what, values, length in [
        ("feature names", names, X.shape[1]),
        ("samples of 'sample_ids'", given["ids"], len(X)),
        *((f"entries of {n!r}", v, len(X)) for n, v in found.items() if n != "relevant"),
    ]:
        if values is not None and (values.ndim != 1 or len(values) != length):
            msg = f"{path}: X is {X.shape[0]}×{X.shape[1]}, but has {values.size} {what}."
            raise ValueError(msg)
    roles = {role: name for role, name in (("target", "y"), *zip(ROLES, ROLES, strict=True)) if name in found}
    ids = None if given["ids"] is None else _text(given["ids"])
    return Sheet(numbered(X), _text(names), f"{kind}, arrays {', '.join(there)}", ids, texts=found, roles=roles)


# ---------------------------------------------------------------- Parquet


def read_parquet(path: Path, *, keep: set[str], limit: int) -> Sheet:
    """Read a Parquet file: a column per column, samples or features in rows."""
    polars = optional("polars", extra="files", purpose="Reading Parquet")
    with readable(path, "Parquet", polars.exceptions.PolarsError, polars.exceptions.PanicException, OSError):
        lazy = polars.scan_parquet(path)
        names = lazy.collect_schema().names()
        rows = int(lazy.select(polars.len()).collect().item())
        check_size(path, bytes_in((rows, len(names))), limit)
        frame = lazy.collect()
    if not rows or not names:
        msg = f"{path} has {len(names)} columns and {rows} rows: there is no table in it."
        raise ValueError(msg)
    single = [
        column.dtype == polars.Float32 for column in frame if column.dtype.is_numeric() and column.name not in keep
    ]
    values = np.full((rows, len(names)), np.nan, dtype=np.float32 if single and all(single) else np.float64)
    texts: dict[str, Any] = {}
    odd: dict[int, str] = {}
    odd_rows: dict[int, str] = {}
    for j, column in enumerate(frame):
        if column.name in keep:
            texts[column.name] = _column(column, polars)
        if column.dtype.is_numeric() or column.dtype == polars.Boolean:
            values[:, j] = column.cast(polars.Float64).fill_null(float("nan")).to_numpy()
        else:
            for i, cell in _fill(values[:, j], _cells(column, polars)):
                said = complaint(column.name, f"row {i + 1}", cell)
                odd.setdefault(j, said)
                if j and column.name not in keep:
                    odd_rows.setdefault(i, said)
    first = _cells(frame.to_series(0), polars)
    across = {
        first[i]: [_cells(column[i : i + 1], polars)[0] for column in frame] for i in range(rows) if first[i] in keep
    }
    return Sheet(
        values,
        names,
        "Parquet",
        first=first,
        texts=texts,
        across=across,
        odd=odd,
        odd_rows=odd_rows,
        start=[str(cell) for cell in frame.row(0)],
        lying=None,
    )


def _column(column: Any, polars: Any) -> Any:
    """Numbers without gaps as they are; all else as text."""
    return column.to_numpy() if column.dtype.is_numeric() and not column.null_count() else _cells(column, polars)


def _cells(column: Any, polars: Any) -> list[str]:
    cells: list[str] = column.cast(polars.String).fill_null("").to_list()
    return cells


def _fill(values: Array, cells: list[str]) -> Iterator[tuple[int, str]]:
    """Turn text into numbers, and give the cells that are none."""
    for i, cell in enumerate(cells):
        value = number(cell)
        values[i] = np.nan if value is None else value
        if value is None:
            yield i, cell


# ---------------------------------------------------------------- h5ad


def read_h5ad(path: Path, *, layer: str | None, limit: int) -> Sheet:
    """Read X or a layer of an AnnData file, samples in rows, and the columns of obs."""
    h5py = optional("h5py", extra="files", purpose="Reading h5ad")
    with readable(path, "h5ad", *_HDF5_ERRORS), h5py.File(path, "r") as file:
        layers = list(file["layers"]) if "layers" in file else []
        if layer is not None and layer not in layers:
            msg = f"{path} has no layer {layer!r}; it has {', '.join(map(repr, layers)) or 'none'}."
            raise ValueError(msg)
        place = "X" if layer is None else f"layers/{layer}"
        for name in ("obs", "var", place):
            if name not in file:
                msg = f"{path} is not AnnData: it has no {name!r}, but {', '.join(file)}."
                raise ValueError(msg)
        found = H5(path, h5py, limit)
        ids, texts = found.frame(file, "obs")
        names, _ = found.frame(file, "var", index_only=True)
        values, how = found.matrix(file, place)
    if values.shape != (len(ids), len(names)):
        msg = (
            f"{path}: {place} is {values.shape[0]}×{values.shape[1]}, but obs has {len(ids)} rows and var {len(names)}."
        )
        raise ValueError(msg)
    return Sheet(values, names, f"h5ad, {how} {place}", ids, texts=texts)


class H5:
    """Parts of an HDF5 file, each checked before it is read; the encodings are those of anndata 0.7 and later."""

    def __init__(self, path: Path, h5py: Any, limit: int) -> None:
        self.path, self.h5py, self.limit = path, h5py, limit

    def array(self, parent: Any, name: str) -> Array:
        """Read a dataset that lies in the file itself and fits."""
        link, dataset = parent.get(name, getlink=True), parent.get(name)
        outside = isinstance(link, self.h5py.ExternalLink)
        if outside or not isinstance(dataset, self.h5py.Dataset) or dataset.external or dataset.is_virtual:
            msg = f"{self.path}: {name!r} is not an array inside the file; write the file again with anndata."
            raise ValueError(msg)
        check_size(self.path, bytes_in(dataset.shape, max(dataset.dtype.itemsize, 8)), self.limit)
        values: Array = dataset[()]
        return values

    def frame(self, file: Any, name: str, *, index_only: bool = False) -> tuple[list[str], dict[str, Any]]:
        """Read the index and the columns of obs or var."""
        group = file[name]
        if not isinstance(group, self.h5py.Group):
            msg = f"{self.path} was written by anndata before 0.7; read and write it again with a newer one."
            raise ValueError(msg)
        index = _text(self.column(group, str(group.attrs.get("_index", "_index"))))
        wanted = [] if index_only else [str(column) for column in group.attrs.get("column-order", [])]
        columns = {column: self.column(group, column) for column in wanted if column in group}
        return index, columns

    def column(self, group: Any, name: str) -> Any:
        """Read a column: numbers, text, categories, or values with a mask of what is missing."""
        item = group[name]
        if not isinstance(item, self.h5py.Group):
            values = self.array(group, name)
            # anndata 0.7 keeps categories apart, and points to them
            reference = item.attrs.get("categories")
            if reference is not None:
                return _levels(values, self.column(group["__categories"], name))
            return _text(values) if values.dtype.kind in "OSU" else values
        if "codes" in item:
            return _levels(self.array(item, "codes"), self.column(item, "categories"))
        if "values" in item and "mask" in item:
            values, mask = self.array(item, "values"), self.array(item, "mask")
            return ["" if gone else value for value, gone in zip(_text(values), mask, strict=True)]
        msg = f"{self.path}: column {name!r} is of a kind that cannot be read; write it as text, numbers or categories."
        raise ValueError(msg)

    def matrix(self, file: Any, place: str) -> tuple[Array, str]:
        """Read a matrix, dense or sparse, as dense; and say which it was."""
        item = file[place]
        if isinstance(item, self.h5py.Dataset):
            check_size(self.path, bytes_in(item.shape), self.limit)
            return numbered(self.array(file, place)), "dense"
        kind = item.attrs.get("encoding-type", item.attrs.get("h5sparse_format"))
        kind = kind.decode() if isinstance(kind, bytes) else str(kind)
        shape = tuple(int(length) for length in item.attrs.get("shape", item.attrs.get("h5sparse_shape", ())))
        if kind[:3] not in ("csr", "csc") or len(shape) != 2:
            msg = f"{self.path}: {place} is of type {kind!r}; dense, csr and csc matrices can be read."
            raise ValueError(msg)
        check_size(
            self.path, bytes_in(shape), self.limit, f"is sparse; as a dense {shape[0]}×{shape[1]} matrix it takes"
        )
        from scipy import sparse  # noqa: PLC0415 (needed for this format only)

        parts = tuple(self.array(item, name) for name in ("data", "indices", "indptr"))
        with readable(self.path, "a sparse matrix", ValueError):
            made = (sparse.csr_matrix if kind.startswith("csr") else sparse.csc_matrix)(parts, shape=shape)
            made.check_format(full_check=True)
        return numbered(made.toarray(order="C")), kind[:3].upper()


def _levels(codes: Array, levels: Any) -> list[str]:
    # code -1 is missing, and is also the place of the last entry
    names = [*_text(levels), ""]
    return [names[code] for code in codes.tolist()]


# ---------------------------------------------------------------- PLINK


def read_plink(path: Path, *, limit: int) -> Sheet:
    """Read genotypes as counts of the first allele of the .bim file, and the phenotype of the .fam file."""
    bed_reader = optional("bed_reader", extra="files", purpose="Reading PLINK files")
    bed = path.with_suffix(".bed")
    for other in (bed, path.with_suffix(".bim"), path.with_suffix(".fam")):
        if not other.exists():
            msg = f"{other} is not there; a PLINK data set is a .bed, a .bim and a .fam file of one name."
            raise ValueError(msg)
    fam, bim = _fields(path.with_suffix(".fam"), limit), _fields(path.with_suffix(".bim"), limit)
    expected, has = 3 + len(bim) * -(-len(fam) // 4), bed.stat().st_size
    with bed.open("rb") as file:
        magic = file.read(3)
    if magic != b"\x6c\x1b\x01" or has != expected:
        msg = (
            f"{bed} should start with 6c 1b 01 and have {expected} bytes for {len(fam)} samples and {len(bim)} "
            f"variants, and starts with {magic.hex(' ')} and has {has}: it is cut off, or is not of these two files."
        )
        raise ValueError(msg)
    check_size(path, bytes_in((len(fam), len(bim)), 4), limit)
    with bed_reader.open_bed(bed, iid_count=len(fam), sid_count=len(bim), num_threads=1) as file:
        # 0, 1 and 2 are exact in single precision
        values = file.read(dtype="float32", order="C")
    columns = list(zip(*fam, strict=True))
    names, notes = [row[1] for row in bim], ["Genotypes are counts of the first allele of the .bim file."]
    if len(set(names)) < len(names):
        names = [":".join((row[0], row[3], row[4], row[5])) for row in bim]
        notes.append("Names of variants are not unique, so they are called chromosome:position:alleles.")
    ids = list(columns[1]) if len(set(columns[1])) == len(fam) else [f"{row[0]}:{row[1]}" for row in fam]
    texts = {"fid": list(columns[0]), "iid": list(columns[1]), "sex": list(columns[4])}
    texts["phenotype"] = _phenotype(columns[5])
    return Sheet(values, names, "PLINK", ids, texts=texts, roles={"target": "phenotype"}, notes=tuple(notes))


def _fields(path: Path, limit: int) -> list[list[str]]:
    with records(path, limit, []) as lines:
        found = [(line, text.split()) for line, text in lines]
    wrong = next((line for line, cells in found if len(cells) != 6), None)
    if wrong is not None or not found:
        msg = f"{path} must have six columns in every line, and line {wrong or 1} has not."
        raise ValueError(msg)
    return [cells for _, cells in found]


def _phenotype(cells: tuple[str, ...]) -> list[str]:
    """Case (2) and control (1) have 0 for missing; numbers have -9, which is missing in both."""
    gone = {"-9", "0"} if set(cells) <= {"-9", "0", "1", "2"} else {"-9"}
    return ["" if cell in gone else cell for cell in cells]


# ---------------------------------------------------------------- GEO series matrix


def read_geo(path: Path, *, limit: int) -> Sheet:
    """Read a series matrix as GEO offers it: probes in rows; what is said of the samples becomes columns."""
    notes: list[str] = []
    described: dict[str, list[str]] = {}
    with records(path, limit, notes) as lines:
        for _, text in lines:
            cells = split(text, "\t")
            if cells[0].startswith("!Sample_"):
                _describe(described, cells[0].removeprefix("!Sample_"), cells[1:])
            elif cells[0] == "ID_REF":
                check_distinct(cells, path, "columns")
                grid = Grid(path, cells, "\t", set(), limit)
                grid.fill(row for row in lines if not row[1].startswith("!"))
                break
        else:
            msg = f"{path} is not a GEO series matrix: it has no table that starts with ID_REF."
            raise ValueError(msg)
    sheet = grid.sheet("GEO series matrix", tuple(notes))
    across = {name: ["", *cells] for name, cells in described.items() if len(cells) == len(sheet.columns) - 1}
    return replace(sheet, across=across, lying=True)


def _describe(described: dict[str, list[str]], key: str, cells: list[str]) -> None:
    """Put a line about samples under its key, or under the names that its cells have: `illness: latent`."""
    for at, cell in enumerate(cells):
        name, colon, value = cell.partition(":")
        if not key.startswith("characteristics") or not colon:
            name, value = key, cell
        described.setdefault(name.strip(), [""] * len(cells))[at] = value.strip()
