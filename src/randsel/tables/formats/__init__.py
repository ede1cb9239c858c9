"""Readers of file formats; each returns a `Sheet`. Imports only `_utils`.

A new format needs a reader in this folder and an entry in `FORMATS`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from randsel._utils.text import optional
from randsel.tables.formats._arrays import read_mat, read_npz
from randsel.tables.formats._excel import read_excel
from randsel.tables.formats._h5ad import read_h5ad
from randsel.tables.formats._id_names import find_id_names, find_names, is_id_name, split_words, to_words
from randsel.tables.formats._numbers import (
    MISSING,
    describe_bad_cell,
    detection_limit,
    has_other_decimals,
    parse_number,
)
from randsel.tables.formats._parquet import read_parquet
from randsel.tables.formats._plink import read_plink
from randsel.tables.formats._sheet import ReadOptions, Sheet, check_distinct
from randsel.tables.formats._text import read_text

__all__ = [
    "FORMATS",
    "MISSING",
    "Format",
    "ReadOptions",
    "Sheet",
    "check_distinct",
    "describe_bad_cell",
    "detection_limit",
    "find_format",
    "find_id_names",
    "find_names",
    "has_cells",
    "has_other_decimals",
    "is_id_name",
    "parse_number",
    "split_words",
    "to_words",
]


@dataclass(frozen=True)
class Format:
    """How files of one format are read."""

    name: str  # in messages
    read: Callable[[Path, ReadOptions], Sheet]
    package: str | None = None  # optional package that the reader needs
    has_cells: bool = False  # whether cells may be text: `na` and `skip_rows` apply, and target files may have it
    sandboxed: bool = False  # read in a separate process, because damaged files can crash the library that parses them

    def import_package(self) -> None:
        """Import the package that the reader needs, or raise ImportError with the extra that installs it."""
        if self.package is not None:
            optional(self.package, extra="files", purpose=f"Reading {self.name}")


#: Suffix -> format. Only text may also be gzipped.
FORMATS = {
    **dict.fromkeys((".csv", ".tsv", ".txt", ".tab"), Format("text", read_text, has_cells=True)),
    **dict.fromkeys(
        (".xlsx", ".xlsm", ".ods"), Format("a workbook", read_excel, "python_calamine", has_cells=True, sandboxed=True)
    ),
    ".parquet": Format("Parquet", read_parquet, "polars", has_cells=True, sandboxed=True),
    ".npz": Format("NPZ", read_npz),
    ".mat": Format("MAT", read_mat, sandboxed=True),
    ".h5ad": Format("h5ad", read_h5ad, "h5py", sandboxed=True),
    ".bed": Format("PLINK", read_plink),
}


def find_format(path: Path) -> Format | None:
    """Return the format that the suffix of a file names, without .gz; None if it is not known."""
    return FORMATS.get((path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower())


def has_cells(path: Path) -> bool:
    """Return whether the cells of a file may be text, by its suffix."""
    file_format = find_format(path)
    return file_format is not None and file_format.has_cells
