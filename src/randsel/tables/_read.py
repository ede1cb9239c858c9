"""Files to `Table`: which way they lie, what is the target, what is missing; the formats are in `table_formats.py`."""

import difflib
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from randsel._numerics.columns import parse_bytes
from randsel._utils.typing import Array
from randsel.tables._features import features, note_types, take_log2, without_missing
from randsel.tables._orientation import samples_in_rows
from randsel.tables._sandbox import read_apart
from randsel.tables._target import check_target, column, is_missing, labelled, matched, target_column
from randsel.tables.formats import _formats as table_formats
from randsel.tables.formats._text import Sheet, brief, read_text, records

if TYPE_CHECKING:
    from sklearn.impute import SimpleImputer

ORIENTATIONS = ("auto", "samples-in-rows", "features-in-rows")
MISSING_RULES = ("error", "median", "drop-columns", "keep")
_FORMATS = ".csv, .tsv, .txt (each also .gz), .parquet, .npz, .mat, .h5ad, .bed"


@dataclass(frozen=True)
class Table:
    """A data set: samples in rows, features in columns.

    Attributes
    ----------
    X, y
        Numbers, and the target (text or numbers).
    names
        Names of the columns of X.
    groups, batch
        Samples that belong together (a donor) or were measured together; None if the file does not say.
    relevant
        Columns known to be relevant; None if not known.
    nominal
        Columns whose numbers are codes of named levels.
    ids
        Names of the samples; None if the file has none.
    missing
        What to do about NaN in X: "error", "median" (imputed within folds, see `imputer`), or "keep".
    notes
        Sentences that say what was found in the file, and what was made of it.

    Examples
    --------
    >>> import numpy as np
    >>> from randsel.tables._read import Table
    >>> table = Table(X=np.eye(3), y=np.array(["a", "b", "b"]), names=("g0", "g1", "g2"))
    >>> table.rows(np.array([1, 2])).y
    array(['b', 'b'], dtype='<U1')
    """

    X: Array
    y: Array
    names: tuple[str, ...]
    groups: Array | None = None
    batch: Array | None = None
    relevant: Array | None = None
    nominal: tuple[int, ...] = ()
    ids: Array | None = None
    missing: str = "error"
    notes: tuple[str, ...] = ()

    def rows(self, index: Array) -> "Table":
        """Return the table on some of its rows."""

        def part(values: Array | None) -> Array | None:
            return None if values is None else values[index]

        return replace(
            self,
            X=self.X[index],
            y=self.y[index],
            groups=part(self.groups),
            batch=part(self.batch),
            ids=part(self.ids),
        )

    def fingerprint(self) -> str:
        """Return a SHA-256 of shape, values (whatever their type), names, target, groups and batch."""
        digest = hashlib.sha256(repr((self.X.shape, self.names, self.nominal)).encode())
        for row in self.X:
            # one zero and one NaN, of the several that there are
            plain = np.ascontiguousarray(row, dtype="<f8") + 0.0
            plain[np.isnan(plain)] = np.nan
            digest.update(plain.tobytes())
        for values in (self.y, self.groups, self.batch):
            if values is not None:
                same = values.astype(np.float64) + 0.0 if values.dtype.kind in "fiub" else values.astype(str)
                digest.update(repr(same.tolist()).encode())
            digest.update(b";")
        return digest.hexdigest()


def imputer() -> "SimpleImputer":
    """Return a step for pipelines that replaces NaN by the medians of the columns, of the rows that it is fitted on.

    Examples
    --------
    >>> import numpy as np
    >>> from randsel import tables
    >>> tables.imputer().fit_transform([[1.0, np.nan], [3.0, 5.0], [2.0, 7.0]])
    array([[1., 6.],
           [3., 5.],
           [2., 7.]])
    """
    from sklearn.impute import SimpleImputer  # noqa: PLC0415 (a second, which nobody should wait for who reads a file)

    return SimpleImputer(strategy="median", keep_empty_features=True)


@brief()
@np.errstate(all="ignore")
def read(
    path: str | Path,
    *,
    target: str | None = None,
    target_file: str | Path | None = None,
    groups: str | None = None,
    batch: str | None = None,
    categorical: Sequence[str] = (),
    drop_columns: Sequence[str] = (),
    id_column: str | None = None,
    log2: bool = False,
    layer: str | None = None,
    orientation: str = "auto",
    missing: str = "error",
    classes: Sequence[Any] | dict[str, str] | None = None,
    batches: Sequence[Any] | None = None,
    max_bytes: int | str = "4GB",
) -> Table:
    r"""Read a table from a file.

    Parameters
    ----------
    path : str or Path
        CSV, TSV or TXT (also gzipped), Parquet, NPZ, MAT, h5ad, PLINK (the .bed file) or a GEO series matrix.
    target : str, default=None
        Column of y (or row, if features are in rows); numbers if all of its entries are. In h5ad a column of obs. None
        takes y of NPZ and MAT, the phenotype of PLINK, and the only column beside the ids of a target file.
    target_file : str or Path, default=None
        A text file with ids of samples and the target, and perhaps groups and batch.
    groups, batch : str, default=None
        Columns of groups and of batches, which are then no features.
    categorical : sequence of str, default=()
        Columns of names, such as text; they become codes.
    drop_columns : sequence of str, default=()
        Columns (or rows, if features are in rows) to leave out.
    id_column : str, default=None
        Column of the names of samples (of features, if they are in rows).
    log2 : bool, default=False
        Take logarithms of all that is not categorical; values below 0.001 are raised to it first.
    layer : str, default=None
        Layer of an h5ad file; None is X.
    orientation : {"auto", "samples-in-rows", "features-in-rows"}, default="auto"
        Which way text and Parquet lie. "auto" finds out by where the target or its ids are, and says so in the notes.
    missing : {"error", "median", "drop-columns", "keep"}, default="error"
        "median" and "keep" leave NaN in X, "drop-columns" leaves the columns out.
    classes : sequence or dict, default=None
        Keep only samples whose target is one of these; or a dict of text to look for in the target, and the label it
        means.
    batches : sequence, default=None
        Keep only samples whose batch is one of these.
    max_bytes : int or str, default="4GB"
        What the unpacked text, or the table in memory, may take.

    Returns
    -------
    Table
        All columns without another purpose are features; its notes say what was found.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from randsel import tables
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "small.csv"
    ...     _ = file.write_text("status,g0,g1\ncase,1.5,2\ncase,1,3\ncontrol,2,4\ncontrol,3,1\n")
    ...     table = tables.read(file, target="status")
    >>> table.X.shape, table.names, table.y.tolist()
    ((4, 2), ('g0', 'g1'), ['case', 'case', 'control', 'control'])
    >>> table.notes[0]
    'small.csv: text, 3 columns separated by commas.'
    """
    path = _existing(path)
    _check_choice("orientation", orientation, ORIENTATIONS)
    _check_choice("missing", missing, MISSING_RULES)
    named = [name for name in (target, groups, batch, id_column, *categorical, *drop_columns) if name is not None]
    _check_purposes(path, named)
    limit = parse_bytes(max_bytes, "max_bytes")
    sheet = _sheet(path, set(named), layer, limit)
    labels, file = None, Path(target_file or "")
    if target_file is not None:
        labels = read_text(_existing(target_file), keep=None, limit=limit)
    elif target is None and "target" not in sheet.roles:
        msg = f"{path}: nobody says what the target is; name its column (--target) or its file (--target-file)."
        raise ValueError(msg)
    notes = [f"{path.name}: {sheet.kind}.", *sheet.notes]
    samples = samples_in_rows(path, sheet, orientation, target, id_column, labels, notes)
    del sheet  # which holds all numbers, perhaps once more
    beside: dict[str, list[str]] = {}
    wanted = {"target": target, "groups": groups, "batch": batch}
    if labels is not None:
        beside = matched(path, samples, labels, file, id_column, notes)
        wanted["target"] = target_column(path, samples, file, beside, target, (groups, batch))
    roles = {role: name or samples.roles.get(role) for role, name in wanted.items()}
    cells = {role: column(path, samples, beside, name) for role, name in roles.items() if name is not None}
    use = _rows_in_use(path, samples, cells, drop_columns, notes)
    y, use = _classes(path, labelled(cells["target"], use), use, classes, notes)
    parts = {role: _complete(path, cells[role], use, str(roles[role])) for role in ("groups", "batch") if role in cells}
    if batches is not None:
        keep = _in_batches(path, parts.get("batch"), batches)
        y, use, parts = y[keep], use[keep], {role: values[keep] for role, values in parts.items()}
    check_target(path, y, str(roles["target"]), parts.get("groups"), loose=samples.lying is None)
    special = {name for name in (*roles.values(), *samples.roles.values(), id_column) if name is not None}
    found = features(path, samples, special, tuple(categorical), drop_columns, use)
    X, names, nominal = without_missing(path, found, missing, notes)
    if log2:
        X = take_log2(X, nominal, notes)
    note_types(X, names, nominal, samples, special, y, str(roles["target"]), notes)
    ids = None if samples.rows is None else np.array(samples.rows, dtype=str)[use]
    return Table(
        X,
        y,
        names,
        parts.get("groups"),
        parts.get("batch"),
        samples.texts.get("relevant") if "relevant" in samples.roles else None,
        nominal,
        ids,
        missing if missing in ("median", "keep") else "error",
        tuple(notes),
    )


def _existing(path: str | Path) -> Path:
    path = Path(path)
    if path.is_dir():
        msg = f"{path} is a folder; name the file in it."
        raise ValueError(msg)
    if not path.exists():
        near = difflib.get_close_matches(path.name, _neighbours(path), n=1)
        hint = f"did you mean {near[0]!r}?" if near else "check the name and the folder."
        msg = f"{path} does not exist; {hint}"
        raise ValueError(msg)
    return path


def _neighbours(path: Path) -> list[str]:
    return [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []


def _check_choice(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        msg = f"{name}={value!r} is none of {', '.join(map(repr, known))}."
        raise ValueError(msg)


def _check_purposes(path: Path, given: list[str]) -> None:
    twice = next((name for name in given if given.count(name) > 1), None)
    if twice is not None:
        msg = f"{path}: column {twice!r} is named twice, for two purposes; name it once."
        raise ValueError(msg)


def _sheet(path: Path, keep: set[str], layer: str | None, limit: int) -> Sheet:
    """Choose the reader by the end of the name."""
    suffix = (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()
    if layer is not None and suffix != ".h5ad":
        msg = f"{path}: layers are parts of h5ad files; leave --layer out."
        raise ValueError(msg)
    if suffix in (".csv", ".tsv", ".txt", ".tab"):
        with records(path, limit, []) as lines:
            geo = next(lines, (0, ""))[1].startswith("!")
        return table_formats.read_geo(path, limit=limit) if geo else read_text(path, keep=keep, limit=limit)
    readers: dict[str, Callable[[], Sheet]] = {
        ".npz": lambda: table_formats.read_npz(path, keep=keep, limit=limit),
        ".parquet": lambda: read_apart("Parquet", path, keep=keep, limit=limit),
        ".mat": lambda: read_apart("MAT", path, keep=keep, limit=limit),
        ".h5ad": lambda: read_apart("h5ad", path, layer=layer, limit=limit),
        ".bed": lambda: table_formats.read_plink(path, limit=limit),
    }
    if suffix not in readers or path.suffix == ".gz":
        excel = " Export the sheet of a workbook as CSV." if suffix in (".xls", ".xlsx", ".ods") else ""
        msg = f"{path} is of no known format; the end of the name must be one of {_FORMATS}.{excel}"
        raise ValueError(msg)
    return readers[suffix]()


# ---------------------------------------------------------------- samples


def _rows_in_use(path: Path, samples: Sheet, cells: dict[str, Any], drop: Sequence[str], notes: list[str]) -> Array:
    """Return the samples that have a target and are not dropped."""
    gone = is_missing(cells["target"])
    if gone.any():
        notes.append(f"{int(gone.sum())} samples have no target and are left out.")
    dropped = np.zeros(len(gone), dtype=bool)
    if samples.lying:
        dropped = np.isin(np.array(samples.rows), list(drop))
    use = np.flatnonzero(~gone & ~dropped)
    if samples.lying:
        odd = next((at for at in use.tolist() if at in samples.odd_rows), None)
        if odd is not None:
            msg = f"{path}: {samples.odd_rows[odd]}"
            raise ValueError(msg)
    return use


def _classes(
    path: Path, y: Array, use: Array, classes: Sequence[Any] | dict[str, str] | None, notes: list[str]
) -> tuple[Array, Array]:
    """Keep the samples of some classes, by label, or by text that stands for a label."""
    if classes is None:
        return y, use
    if isinstance(classes, dict):
        found = np.array([_label(str(text), classes) for text in y.tolist()], dtype=str)
        keep, wanted = found != "", sorted(set(classes.values()))
    else:
        found, keep, wanted = y, np.isin(y, list(classes)), list(classes)
    if len(np.unique(found[keep])) < 2:
        seen = np.unique(y)[:8].tolist()
        msg = f"{path}: fewer than two of the classes {wanted} were found; samples say {seen}."
        raise ValueError(msg)
    if not keep.all():
        notes.append(f"{int((~keep).sum())} samples of other classes are left out.")
    return found[keep], use[keep]


def _label(text: str, classes: dict[str, str]) -> str:
    return next((label for wanted, label in classes.items() if wanted.lower() in text.lower()), "")


def _complete(path: Path, cells: Any, use: Array, name: str) -> Array:
    """Return groups or batches, none of which may be missing."""
    gone = np.flatnonzero(is_missing(cells)[use])
    if len(gone):
        msg = (
            f"{path}: {len(gone)} entries of column {name!r} are missing, the first of sample {int(use[gone[0]]) + 1}; "
            "fill them in, or leave the samples out."
        )
        raise ValueError(msg)
    return np.array([cells[at] for at in use.tolist()], dtype=str) if isinstance(cells, list) else cells[use]


def _in_batches(path: Path, batch: Array | None, batches: Sequence[Any]) -> Array:
    if batch is None:
        msg = f"{path} has no array 'batch', so its batches cannot be chosen; name a column (batch=)."
        raise ValueError(msg)
    return np.isin(batch, list(batches))
