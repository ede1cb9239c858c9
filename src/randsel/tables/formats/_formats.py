"""One small reader per format that is no plain text: file to `Sheet`. Nothing is unpickled; sizes are checked first."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from randsel._utils.files import bytes_in, check_size, is_text, npz_arrays, readable
from randsel._utils.optional import optional
from randsel._utils.typing import Array
from randsel.tables.formats._text import (
    NAME_BYTES,
    Grid,
    Sheet,
    check_distinct,
    check_shape,
    complaint,
    number,
    records,
    split,
)

#: Arrays that are known by their names, in NPZ and MAT files.
ROLES = ("groups", "batch", "relevant")
NAMES = ("feature_names", "names")
IDS = ("sample_ids", "ids")
#: Arrays that are named in a message.
_LISTED = 20
#: Types of the three parts of a sparse matrix.
_SPARSE = ("biuf", "iu", "iu")
_HDF5_ERRORS = (OSError, KeyError, RuntimeError, TypeError, IndexError, AttributeError, UnicodeError)


def numbered(values: Array) -> Array:
    """Row by row, in single precision if the values have it, in double precision otherwise."""
    return np.ascontiguousarray(values, dtype=np.float32 if values.dtype == np.float32 else np.float64)


def _text(values: Any) -> list[str]:
    return [value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value) for value in values]


# ---------------------------------------------------------------- arrays by name: NPZ


def read_npz(path: Path, *, keep: set[str], limit: int) -> Sheet:
    """Read arrays X (samples in rows) and y, and perhaps feature_names, sample_ids, groups, batch, relevant."""
    found, there = npz_arrays(path, limit, {"X", "y", *ROLES, *NAMES, *IDS} | keep)
    return of_arrays(path, found, there, "NPZ", limit)


def of_arrays(path: Path, found: dict[str, Array], there: list[str], kind: str, limit: int) -> Sheet:
    """Make a sheet of X and what is named after its purpose."""
    more = ", …" if len(there) > _LISTED else ""
    X = found.pop("X", None)
    if X is None:
        msg = f"{path} has no array 'X'; it holds {', '.join(there[:_LISTED]) or 'nothing'}{more}."
        raise ValueError(msg)
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        msg = f"{path}: X must be a matrix of numbers, and is {X.ndim}-dimensional of type {X.dtype}."
        raise ValueError(msg)
    check_shape(path, X.shape, limit, X.itemsize)
    found = {name: _flat(path, name, values) for name, values in found.items()}
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
    kind = f"{kind}, arrays {', '.join(there[:_LISTED])}{more}"
    return Sheet(numbered(X), _text(names), kind, ids, texts=found, roles=roles)


def _flat(path: Path, name: str, values: Array) -> Array:
    """Drop a second dimension of one, and refuse what is neither numbers nor text."""
    if values.dtype.kind == "S":
        values = np.array(_text(values.ravel()), dtype=str).reshape(values.shape)
    places = name != "relevant" or (values.dtype.kind in "iu" and values.ndim < 3)
    if values.dtype.kind not in "biufU" or not places or not is_text(values):
        msg = f"{path}: array {name!r} of type {values.dtype} is neither numbers nor text; save it again as such."
        raise ValueError(msg)
    return values.ravel() if values.ndim == 2 and 1 in values.shape else values


# ---------------------------------------------------------------- Parquet


def read_parquet(path: Path, *, keep: set[str], limit: int) -> Sheet:
    """Read a Parquet file: a column per column, samples or features in rows."""
    polars = optional("polars", extra="files", purpose="Reading Parquet")
    with readable(path, "Parquet", polars.exceptions.PolarsError, polars.exceptions.PanicException, OSError):
        lazy = polars.scan_parquet(path)
        names = lazy.collect_schema().names()
        rows = int(lazy.select(polars.len()).collect().item())
        check_shape(path, (rows, len(names)), limit)
        frame = lazy.collect()
        if not rows or not names:
            msg = f"{path} has {len(names)} columns and {rows} rows: there is no table in it."
            raise ValueError(msg)
        _check_columns(path, frame, limit, polars)
        return _parquet_sheet(frame, names, keep, polars)


def _check_columns(path: Path, frame: Any, limit: int, polars: Any) -> None:
    """Refuse lists and the like; and text that is kept once in the file, for many rows that have it."""
    size = 0
    for column in frame:
        kind = column.dtype
        if kind.is_nested() or kind in (polars.Object, polars.Binary):
            msg = f"{path}: column {column.name!r} is of type {kind}; numbers, text, dates and categories can be read."
            raise ValueError(msg)
        if not kind.is_numeric():
            size += int(column.cast(polars.String).str.len_bytes().cast(polars.Int64).sum() or 0) + len(column) * 8
            check_size(path, size, limit)


def _parquet_sheet(frame: Any, names: list[str], keep: set[str], polars: Any) -> Sheet:
    rows = len(frame)
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
    # of rows of one name the last, as in text
    places = {name: i for i, name in enumerate(first) if name in keep}
    across = {name: [_cells(column[i : i + 1], polars)[0] for column in frame] for name, i in places.items()}
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
        found = H5(path, h5py, limit)
        for name in ("obs", "var", *(["X"] if layer is None else [])):
            if name not in file:
                msg = f"{path} is not AnnData: it has no {name!r}, but {', '.join(file)}."
                raise ValueError(msg)
        place = "X"
        if layer is not None:
            layers = list(found.item(file, "layers")) if "layers" in file else []
            if layer not in layers:
                msg = f"{path} has no layer {layer!r}; it has {', '.join(map(repr, layers)) or 'none'}."
                raise ValueError(msg)
            place = f"layers/{layer}"
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

    def item(self, parent: Any, name: str) -> Any:
        """Return a group or a dataset of the file itself: no link on the way to it is followed."""
        for part in filter(None, name.split("/")):
            if not isinstance(parent, self.h5py.Group) or part not in parent:
                msg = f"{self.path}: {name!r} is not there; write the file again with anndata."
                raise ValueError(msg)
            if not isinstance(parent.get(part, getlink=True), self.h5py.HardLink):
                msg = f"{self.path}: {name!r} is not inside the file, but a link; write the file again with anndata."
                raise ValueError(msg)
            parent = parent[part]
        return parent

    def array(self, parent: Any, name: str) -> Array:
        """Read a dataset that lies in the file itself and fits."""
        dataset = self.item(parent, name)
        if not isinstance(dataset, self.h5py.Dataset) or dataset.external or dataset.is_virtual or not dataset.ndim:
            msg = f"{self.path}: {name!r} is not an array inside the file; write the file again with anndata."
            raise ValueError(msg)
        check_size(self.path, bytes_in(dataset.shape, max(dataset.dtype.itemsize, 8)), self.limit)
        values: Array = dataset[()]
        return values

    def frame(self, file: Any, name: str, *, index_only: bool = False) -> tuple[list[str], dict[str, Any]]:
        """Read the index and the columns of obs or var."""
        group = self.item(file, name)
        if not isinstance(group, self.h5py.Group):
            msg = f"{self.path} was written by anndata before 0.7; read and write it again with a newer one."
            raise ValueError(msg)
        index = _text(self.column(group, str(group.attrs.get("_index", "_index"))))
        wanted = [] if index_only else [str(column) for column in group.attrs.get("column-order", [])]
        columns = {column: self.column(group, column) for column in dict.fromkeys(wanted) if column in group}
        for column, cells in columns.items():
            if len(cells) != len(index):
                msg = f"{self.path}: column {column!r} of {name} has {len(cells)} entries for {len(index)} rows."
                raise ValueError(msg)
        return index, columns

    def column(self, group: Any, name: str) -> Any:
        """Read a column: numbers, text, categories, or values with a mask of what is missing."""
        item = self.item(group, name)
        if not isinstance(item, self.h5py.Group):
            values = self.array(group, name)
            if values.ndim != 1 or values.dtype.kind not in "biufOSU":
                msg = f"{self.path}: {name!r} is no column of numbers or text; write it as such."
                raise ValueError(msg)
            # anndata 0.7 keeps categories apart, and points to them
            reference = item.attrs.get("categories")
            if reference is not None:
                return _levels(values, self.column(self.item(group, "__categories"), name))
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
        item = self.item(file, place)
        if isinstance(item, self.h5py.Dataset):
            values = self.array(file, place)
            if values.ndim != 2 or values.dtype.kind not in "biuf":
                msg = f"{self.path}: {place} is no matrix of numbers, but {values.ndim}-dimensional of {values.dtype}."
                raise ValueError(msg)
            return numbered(values), "dense"
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
        if any(part.ndim != 1 or part.dtype.kind not in kinds for part, kinds in zip(parts, _SPARSE, strict=True)):
            msg = f"{self.path}: the parts of {place} are no rows of numbers; write the file again with anndata."
            raise ValueError(msg)
        with readable(self.path, "a sparse matrix", ValueError):
            made = (sparse.csr_matrix if kind.startswith("csr") else sparse.csc_matrix)(parts, shape=shape)
            made.check_format(full_check=True)
        return numbered(made.toarray(order="C")), kind[:3].upper()


def _levels(codes: Array, levels: Any) -> list[str]:
    # code -1 is missing, and is also the place of the last entry
    names = [*_text(levels), ""]
    if codes.ndim != 1 or codes.dtype.kind not in "iu" or not all(-1 <= code < len(levels) for code in codes.tolist()):
        msg = "codes of categories are not those of its categories"
        raise IndexError(msg)
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
        found = list[tuple[int, list[str]]]()
        for line, text in lines:
            check_size(path, (len(found) + 1) * 2 * NAME_BYTES, limit)
            found.append((line, text.split(maxsplit=6)))
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
                _describe(described, cells[0].removeprefix("!Sample_"), cells[1:], path, limit)
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


def _describe(described: dict[str, list[str]], key: str, cells: list[str], path: Path, limit: int) -> None:
    """Put a line about samples under its key, or under the names that its cells have: `illness: latent`."""
    for at, cell in enumerate(cells):
        name, colon, value = cell.partition(":")
        if not key.startswith("characteristics") or not colon:
            name, value = key, cell
        row = described.setdefault(name.strip(), [])
        # as many names as samples would take the square of them
        check_size(path, 8 * len(described) * len(cells), limit)
        row.extend([""] * (len(cells) - len(row)))
        row[at] = value.strip()
