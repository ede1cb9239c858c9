"""All formats, by the suffix of the file name. A new format needs a file in this folder and an entry here."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from randsel._utils.text import optional
from randsel.tables.formats._geo import read_geo
from randsel.tables.formats._h5ad import read_h5ad
from randsel.tables.formats._mat import read_mat
from randsel.tables.formats._npz import read_npz
from randsel.tables.formats._parquet import read_parquet
from randsel.tables.formats._plink import read_plink
from randsel.tables.formats._text import ReadOptions, Sheet, read_text


@dataclass(frozen=True)
class Format:
    """How files of one format are read."""

    #: Name in messages.
    name: str
    read: Callable[[Path, ReadOptions], Sheet]
    #: Optional package that the reader needs.
    package: str | None = None
    #: Whether to read in a separate process, because damaged files can crash the library that parses them.
    sandboxed: bool = False

    def import_package(self) -> None:
        """Import the package that the reader needs, or raise ImportError with the extra that installs it."""
        if self.package is not None:
            optional(self.package, extra="files", purpose=f"Reading {self.name}")


TEXT = Format("text", read_text)
#: Text whose first line starts with an exclamation mark.
GEO = Format("GEO series matrix", read_geo)
#: Suffix -> format. Only text may also be gzipped.
FORMATS = {
    ".csv": TEXT,
    ".tsv": TEXT,
    ".txt": TEXT,
    ".tab": TEXT,
    ".parquet": Format("Parquet", read_parquet, "polars", sandboxed=True),
    ".npz": Format("NPZ", read_npz),
    ".mat": Format("MAT", read_mat, sandboxed=True),
    ".h5ad": Format("h5ad", read_h5ad, "h5py", sandboxed=True),
    ".bed": Format("PLINK", read_plink),
}
