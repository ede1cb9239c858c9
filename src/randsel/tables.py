"""Files to `Table`: X, y, names, groups. CSV and TSV, NPZ, GEO series matrices; those of the Black Box challenge."""

import csv
import difflib
import gzip
import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from randsel._backend import Array
from randsel.datasets import BlackBox

_MISSING = ("", "NA", "NaN", "nan")


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
    """

    X: Array
    y: Array
    names: tuple[str, ...]
    groups: Array | None = None
    batch: Array | None = None
    relevant: Array | None = None
    nominal: tuple[int, ...] = ()

    def rows(self, index: Array) -> "Table":
        """Return the table on some of its rows."""

        def part(values: Array | None) -> Array | None:
            return None if values is None else values[index]

        return replace(self, X=self.X[index], y=self.y[index], groups=part(self.groups), batch=part(self.batch))


def read_csv(
    path: str | Path,
    target: str,
    *,
    groups: str | None = None,
    batch: str | None = None,
    categorical: tuple[str, ...] = (),
) -> Table:
    """Read a CSV or TSV file (also gzipped) with a header, one sample per row.

    Parameters
    ----------
    path : str or Path
        The file; tabs separate columns if the header has any.
    target : str
        Column of y. Numbers if all of its entries are.
    groups, batch : str, default=None
        Columns of groups and of batches, which are then no features.
    categorical : tuple of str, default=()
        Columns of names, such as text; they become codes.

    Returns
    -------
    Table
        All other columns are features, and must hold numbers; a first column without a name is taken for row names.
    """
    header, numbered = _rows(Path(path))
    rows = [row for _, row in numbered]
    roles = [column for column in (target, groups, batch) if column is not None]
    for column in (*roles, *categorical):
        if column not in header:
            raise ValueError(_unknown_column(column, header, path))
    both = next((column for column in categorical if column in roles), None)
    if both is not None or len(set(roles)) < len(roles):
        msg = f"{path}: column {both or roles[-1]!r} is named twice, for two purposes; name it once."
        raise ValueError(msg)
    twice = next((name for name in header if header.count(name) > 1), None)
    if twice is not None:
        msg = f"{path} has several columns called {twice!r}; give each a name of its own."
        raise ValueError(msg)
    ragged = next(((number, row) for number, row in numbered if len(row) != len(header)), None)
    if not rows or ragged:
        what = f"line {ragged[0]} has {len(ragged[1])} entries" if ragged else "it has no rows"
        msg = f"{path} cannot be read as a table: the header has {len(header)} columns, and {what}."
        raise ValueError(msg)
    special = {header.index(column) for column in roles} | ({0} if header[0] == "" else set())
    features = [j for j in range(len(header)) if j not in special]
    X = np.empty((len(rows), len(features)))
    for at, j in enumerate(features):
        values = [row[j] for row in rows]
        X[:, at] = _codes(values) if header[j] in categorical else _numbers(values, header[j], path)
    missing = np.flatnonzero(~np.isfinite(X).all(axis=0))
    if len(missing):
        count, more = int((~np.isfinite(X[:, missing[0]])).sum()), len(missing) - 1
        others = f", and {more} other columns have some" if more else ""
        name = header[features[missing[0]]]
        msg = f"{path}: {count} entries of column {name!r} are missing or infinite{others}; impute or drop them first."
        raise ValueError(msg)
    for column in roles:
        blank = [n for n, row in numbered if row[header.index(column)].strip() in _MISSING]
        if blank:
            count, first = len(blank), blank[0]
            msg = f"{path}: {count} entries of column {column!r} are missing, the first in line {first}; drop the rows."
            raise ValueError(msg)
    y = _labels([row[header.index(target)] for row in rows])
    labels = [
        None if name is None else np.array([row[header.index(name)].strip() for row in rows])
        for name in (groups, batch)
    ]
    nominal = tuple(at for at, j in enumerate(features) if header[j] in categorical)
    return Table(X, y, tuple(header[j] for j in features), labels[0], labels[1], nominal=nominal)


def _codes(values: list[str]) -> Array:
    """Replace names by the numbers of their levels; what is missing stays missing."""
    names = [value.strip() for value in values]
    levels = {name: code for code, name in enumerate(sorted(set(names) - set(_MISSING)))}
    return np.array([levels.get(name, np.nan) for name in names], dtype=np.float64)


def _rows(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Header, and rows with the numbers of their lines."""
    try:
        with _open(path) as file:
            lines = csv.reader(file, delimiter=_delimiter(file))
            header = [name.strip() for name in next(lines, [])]
            return header, [(number, row) for number, row in enumerate(lines, 2) if row]
    except UnicodeDecodeError:
        msg = f"{path} is not text in UTF-8; save it as CSV UTF-8, and name it .gz if it is compressed."
    except (csv.Error, EOFError, gzip.BadGzipFile) as error:
        msg = f"{path} cannot be read as a table, it may be cut off or damaged: {error}."
    raise ValueError(msg)


def _delimiter(file: io.TextIOBase) -> str:
    header = file.readline()
    file.seek(0)
    return "\t" if "\t" in header else ","


def _open(path: Path) -> io.TextIOBase:
    if path.suffix == ".gz":
        return io.TextIOWrapper(gzip.open(path, "rb"), encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _unknown_column(column: str, header: list[str], path: str | Path) -> str:
    near = difflib.get_close_matches(column, header, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"its first columns are {header[:5]}."
    hint = hint if header else "it is empty."
    return f"{path} has no column {column!r}; {hint}"


def _numbers(values: list[str], name: str, path: str | Path) -> Array:
    try:
        return np.array([np.nan if value.strip() in _MISSING else _number(value) for value in values])
    except ValueError:
        wrong = next(value for value in values if not _is_number(value))
        msg = (
            f"{path}: column {name!r} holds {wrong!r}, not a number; drop the column, or name it in an option that "
            "says what it is."
        )
        raise ValueError(msg) from None


def _number(value: str) -> float:
    # float() would read 1_000 as a thousand
    return float(value.replace("_", "?"))


def _is_number(value: str) -> bool:
    try:
        _number(value)
    except ValueError:
        return value.strip() in _MISSING
    return True


def _labels(values: list[str]) -> Array:
    stripped = [value.strip() for value in values]
    if all(map(_is_number, stripped)):
        return np.array([float(value) for value in stripped])
    return np.array(stripped)


# ---------------------------------------------------------------- NPZ


def read_npz(path: str | Path, *, classes: list[int] | None = None, batches: list[int] | None = None) -> Table:
    """Read an NPZ file with arrays X and y, and perhaps feature_names, groups, batch, relevant.

    Parameters
    ----------
    path : str or Path
        The file; nothing in it is unpickled.
    classes, batches : list of int, default=None
        Keep only samples whose y, or whose batch, is one of these.

    Returns
    -------
    Table
        Samples in the order of the file.
    """
    with np.load(path, allow_pickle=False) as data:
        missing = [name for name in ("X", "y") if name not in data]
        if missing:
            msg = f"{path} has no array {missing[0]!r}; it holds {', '.join(data.files)}."
            raise ValueError(msg)
        found = {name: data[name] for name in data.files}
    X = found["X"]
    names = found.get("feature_names", np.arange(X.shape[1]).astype(str))
    if len(names) != X.shape[1] or len(found["y"]) != len(X):
        msg = (
            f"{path}: X is {X.shape[0]}×{X.shape[1]}, but has {len(names)} feature names and {len(found['y'])} targets."
        )
        raise ValueError(msg)
    table = Table(
        X.astype(np.float32 if X.dtype == np.float32 else np.float64),
        found["y"],
        tuple(names.tolist()),
        found.get("groups"),
        found.get("batch"),
        found.get("relevant"),
    )
    keep = np.ones(len(X), dtype=bool)
    if classes is not None:
        keep &= np.isin(table.y, classes)
    if batches is not None:
        if table.batch is None:
            msg = f"{path} has no array 'batch', so its batches cannot be chosen."
            raise ValueError(msg)
        keep &= np.isin(table.batch, batches)
    return table.rows(np.flatnonzero(keep))


# ---------------------------------------------------------------- GEO series matrix


def read_geo(path: str | Path, classes: dict[str, str], *, characteristic: str | None = None) -> Table:
    """Read a GEO series matrix file (plain or gzipped): probes in rows, samples in columns.

    Parameters
    ----------
    path : str or Path
        The file, as GEO offers it for download.
    classes : dict of str to str
        Text to look for in the characteristics of a sample, and the label it means; samples without any are left out.
    characteristic : str, default=None
        Look only at the characteristic of this name (`illness`, say); None looks at all.

    Returns
    -------
    Table
        Samples in rows. Probes with a missing value are left out, as in the paper.
    """
    described: list[list[str]] = []
    values: list[list[str]] = []
    header: list[str] = []
    for row in _geo_rows(Path(path)):
        if row[0].startswith("!Sample_characteristics") or row[0] in ("!Sample_title", "!Sample_source_name_ch1"):
            described.append(row[1:])
        elif row[0] == "ID_REF":
            header = row[1:]
        elif header and not row[0].startswith("!"):
            values.append(row)
    if not header or not values:
        msg = f"{path} is not a GEO series matrix: it has no table that starts with ID_REF."
        raise ValueError(msg)
    labels = [_geo_label(texts, classes, characteristic) for texts in zip(*described, strict=True)]
    samples = [at for at, label in enumerate(labels) if label]
    if len({labels[at] for at in samples}) < 2:
        seen = sorted({text for texts in described for text in texts})[:8]
        msg = f"{path}: fewer than two of the classes {sorted(set(classes.values()))} were found; samples say {seen}."
        raise ValueError(msg)
    X = np.array([[_geo_number(row[1 + at]) for at in samples] for row in values]).T
    complete = np.isfinite(X).all(axis=0)
    names = tuple(row[0] for row, whole in zip(values, complete, strict=True) if whole)
    return Table(X[:, complete], np.array([labels[at] for at in samples]), names)


def _geo_rows(path: Path) -> Iterator[list[str]]:
    with _open(path) as file:
        for row in csv.reader(file, delimiter="\t"):
            if row:
                yield row


def _geo_label(texts: tuple[str, ...], classes: dict[str, str], characteristic: str | None) -> str:
    for text in texts:
        name, _, value = text.partition(":")
        if characteristic is not None and name.strip().lower() != characteristic.lower():
            continue
        for wanted, label in classes.items():
            if wanted.lower() in (value or text).lower():
                return label
    return ""


def _geo_number(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        return float("nan")


# ---------------------------------------------------------------- the Black Box Learning Challenge


def read_black_box(
    train: str | Path, test: str | Path, unlabelled: str | Path | None = None, *, max_unlabelled: int | None = None
) -> BlackBox:
    """Read the files of the Black Box Learning Challenge of 2013, plain or gzipped.

    Parameters
    ----------
    train : str or Path
        `train.csv`: a header, then rows of a class and its features.
    test : str or Path
        `test.csv`: a header, then rows of features.
    unlabelled : str or Path, default=None
        `extra_unsupervised_data.csv`: rows of features. A first line that holds anything but numbers is taken for a
        header, here as in the other files: programs written for the challenge disagree whether this one has any.
    max_unlabelled : int, default=None
        Rows to read of it, which is by far the largest file.

    Returns
    -------
    BlackBox
        Without `held_out_y`, which the challenge kept to itself.
    """
    labelled = _box(Path(train))
    if labelled.shape[1] < 2:
        msg = f"{train} has one column only; a class and at least one feature are needed."
        raise ValueError(msg)
    y, X = labelled[:, 0], labelled[:, 1:]
    if np.any(y != np.round(y)):
        wrong = int(np.argmax(y != np.round(y)))
        msg = f"{train}: the first column must hold classes, but row {wrong + 1} has {y[wrong]:g}; is it a test file?"
        raise ValueError(msg)
    others = [_box(Path(test))]
    others.append(X[:0] if unlabelled is None else _box(Path(unlabelled), max_unlabelled))
    for path, rows in zip((test, unlabelled), others, strict=True):
        if rows.shape[1] != X.shape[1]:
            msg = f"{path} has {rows.shape[1]} columns, but {train} has {X.shape[1]} features beside the class."
            raise ValueError(msg)
    return BlackBox(X, y.astype(int), others[1], others[0])


def _box(path: Path, most: int | None = None) -> Array:
    """Numbers of a file with or without a header, all of them finite, in rows of the same length."""
    rows: list[Array] = []
    try:
        with _open(path) as file:
            for number, line in enumerate(file, 1):
                if len(rows) == most:
                    break
                entries = line.strip().split(",")
                if entries == [""] or (number == 1 and not all(map(_is_number, entries))):
                    continue
                rows.append(_box_row(entries, number, len(rows[0]) if rows else len(entries), path))
    except UnicodeDecodeError:
        msg = f"{path} is not text in UTF-8; save it as CSV UTF-8, and name it .gz if it is compressed."
        raise ValueError(msg) from None
    except (EOFError, gzip.BadGzipFile) as error:
        msg = f"{path} cannot be read as a table, it may be cut off or damaged: {error}."
        raise ValueError(msg) from None
    if not rows:
        msg = f"{path} has no rows of numbers."
        raise ValueError(msg)
    return np.array(rows)


def _box_row(entries: list[str], number: int, length: int, path: Path) -> Array:
    if len(entries) != length:
        msg = f"{path}: line {number} has {len(entries)} entries, and the first row {length}; the file may be cut off."
        raise ValueError(msg)
    wrong = next((entry for entry in entries if not _is_number(entry) or entry.strip() in _MISSING), None)
    if wrong is not None:
        msg = f"{path}: line {number} holds {wrong!r}, not a number."
        raise ValueError(msg)
    row = np.array(entries, dtype=np.float64)
    if not np.isfinite(row).all():
        msg = f"{path}: line {number} holds infinity; the challenge's files have numbers only."
        raise ValueError(msg)
    return row
