"""`read`, which reads a file into a `Table`, with notes about the file."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from randsel._numerics.columns import parse_bytes
from randsel._numerics.fingerprint import fingerprint
from randsel._utils.choices import DETECTION_RULES, DUPLICATE_RULES, MISSING_RULES, ORIENTATIONS
from randsel._utils.text import shorten_errors
from randsel._utils.typing import Array
from randsel.tables._annotations import check_roles, choose_batches, list_roles, read_annotations, to_fields
from randsel.tables._features import FeatureChoice, fill_and_resolve, select_features
from randsel.tables._identifiers import cells_as_names
from randsel.tables._missing import add_indicators, handle_missing
from randsel.tables._orientation import (
    describe_other_spellings,
    match_spelling,
    possible_ids,
    put_samples_in_rows,
    undo_names_of_r,
    write_as_r,
)
from randsel.tables._remarks import describe_codes, describe_contents, describe_donors, describe_features
from randsel.tables._roles import assign_roles
from randsel.tables._samples import choose_by_target, read_optional_outcome
from randsel.tables._sandbox import read_in_sandbox
from randsel.tables.formats import FORMATS, ReadOptions, Sheet, find_format, has_cells

#: Smaller values are raised to this value before logarithms are taken.
LOWEST = 1e-3
#: A larger fraction of negative values suggests that the values are logarithms already.
MAX_NEGATIVE = 0.01


@dataclass(frozen=True, repr=False)
class Table:
    """A data set: samples in rows, features in columns.

    Attributes
    ----------
    X, y
        Features, and the target: text, numbers, or a structured array of events and times.
    names
        Names of the columns of X.
    groups, batch
        Samples that belong together (a donor) or were measured together; None if the file does not say.
    covariates
        Name -> values of variables whose effects are removed, numbers or text.
    relevant
        Columns known to be relevant; None if not known.
    nominal
        Columns whose numbers are codes of categories.
    ids
        Names of the samples; None if the file has none.
    id_column
        Column that the names of the samples were read from; None if it has no name.
    missing
        What NaN in X means: "neutral", or "median" (imputed within folds, see `imputer`).
    log2
        Whether logarithms of base 2 were taken when the file was read.
    negative
        If logarithms were taken, the fraction of the values that were negative before; otherwise 0.
    below_detection
        Name of a feature or covariate -> value that replaced cells below detection, in the scale of the file.
    levels
        Name -> levels of a nominal feature, in the order of their codes; empty if the format does not name them.
    notes
        Sentences about the file and how it was read.

    Examples
    --------
    >>> import numpy as np
    >>> from randsel.tables import Table
    >>> table = Table(X=np.eye(3), y=np.array(["a", "b", "b"]), names=("g0", "g1", "g2"))
    >>> table.rows(np.array([1, 2])).y
    array(['b', 'b'], dtype='<U1')
    """

    X: Array
    y: Array
    names: tuple[str, ...]
    groups: Array | None = None
    batch: Array | None = None
    covariates: dict[str, Array] = field(default_factory=dict)
    relevant: Array | None = None
    nominal: tuple[int, ...] = ()
    ids: Array | None = None
    id_column: str | None = None
    missing: str = "neutral"
    log2: bool = False
    negative: float = 0.0
    below_detection: Mapping[str, float] = field(default_factory=dict)
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Describe the shape and what is known; arrays would fill pages."""
        known = [name for name in ("groups", "batch", "relevant", "ids") if getattr(self, name) is not None]
        known += [f"covariates {', '.join(self.covariates)}"] if self.covariates else []
        n_samples, n_features = self.X.shape
        more = f", with {', '.join(known)}" if known else ""
        return f"<Table of {n_samples} samples and {n_features} features{more}>"

    def rows(self, index: Array) -> "Table":
        """Return the table restricted to some rows."""
        by_row = {name: getattr(self, name) for name in ("X", "y", "groups", "batch", "ids")}
        taken = {name: values[index] for name, values in by_row.items() if values is not None}
        covariates = {name: values[index] for name, values in self.covariates.items()}
        return replace(self, **taken, covariates=covariates)

    def fingerprint(self) -> str:
        """Return a SHA-256 hash of shape, values (independent of their dtype), names, target and annotations."""
        shape = repr((self.X.shape, self.names, self.nominal))
        annotations = (self.groups, self.batch, *self.covariates.values())
        return fingerprint(shape, self.X, self.y, *annotations, convention="values")


@shorten_errors()
@np.errstate(all="ignore")
def read(
    path: str | Path,
    *,
    target: str | None = None,
    target_file: str | Path | None = None,
    event: str | None = None,
    time: str | None = None,
    groups: str | None = None,
    batch: str | None = None,
    covariates: Sequence[str] = (),
    categorical: Sequence[str] = (),
    drop_columns: Sequence[str] = (),
    only: Sequence[str] = (),
    id_column: str | None = None,
    likely_ids: str | None = None,
    features: Sequence[str] = (),
    log2: bool = False,
    layer: str | None = None,
    sheet: str | None = None,
    target_sheet: str | None = None,
    skip_rows: int | None = None,
    na: Sequence[str] = (),
    below_detection: str | None = None,
    detection_values: Mapping[str, float] | None = None,
    levels: Mapping[str, Sequence[str]] | None = None,
    duplicates: str = "error",
    orientation: str = "auto",
    missing: str = "neutral",
    classes: Sequence[Any] | dict[str, str] | None = None,
    batches: Sequence[Any] | None = None,
    max_bytes: int | str = "4GB",
) -> Table:
    r"""Read a table from a file.

    Parameters
    ----------
    path : str or Path
        CSV, TSV or TXT (also gzipped), Excel (.xlsx) or OpenDocument (.ods), Parquet, NPZ, MAT, h5ad, PLINK (the .bed
        file) or a GEO series matrix.
    target : str, default=None
        Column of y (or row, if features are in rows), read as numbers if all of its entries are numbers. In h5ad a
        column of obs. None: y of NPZ and MAT, the phenotype of PLINK, the only column besides the ids of a target file.
    target_file : str or Path, default=None
        Text file, workbook or Parquet file with ids of samples and the target, and optionally groups, batch and
        covariates.
    event, time : str, default=None
        Columns of a survival outcome instead of a target, in the table or the target file: whether the event was
        observed (0 and 1, true and false, yes and no, dead and alive), and the time of the event or of censoring.
    groups, batch : str, default=None
        Columns of groups and of batches; they are not features.
    covariates : sequence of str, default=()
        Columns of variables whose effects are removed from target and features, such as age; they are not features.
    categorical : sequence of str, default=()
        Columns of categories, which may be text; they become codes.
    drop_columns : sequence of str, default=()
        Columns (or rows, if features are in rows) to leave out.
    only : sequence of str, default=()
        Names of the only features to read, such as those of a panel; other columns may hold anything, and names that
        the file does not have are left out. Target and covariates are then optional: samples without a target are
        kept, with y "" or NaN.
    id_column : str, default=None
        Column with the names of samples (of features, if they are in rows).
    likely_ids : str, default=None
        Column that is used for the names of samples if the file has it and its cells differ, such as that of a panel.
    features : sequence of str, default=()
        Columns that are features although they look like identifiers or survival times.
    log2 : bool, default=False
        Take logarithms of all columns that are not categorical; values below 0.001 are raised to 0.001 first.
    layer : str, default=None
        Layer of an h5ad file; None is X.
    sheet, target_sheet : str, default=None
        Sheet of a workbook, and of a workbook that is the target file; None is the first one.
    skip_rows : int, default=None
        Number of lines above the header to leave out. None: titles above a table are detected if that is unambiguous.
    na : sequence of str, default=()
        Cells that stand for missing values, such as "ND" or "-999", besides empty cells, "NA" and others.
    below_detection : {"half-minimum", "missing"}, default=None
        What to do about cells such as "<LOD" or "<0.5": half of the smallest value of their feature in all samples, or
        missing. None raises an error.
    detection_values : dict, default=None
        Name -> value to use instead of half of the smallest value in this file, such as those of a panel.
    levels : dict, default=None
        Name -> levels of a categorical column in the order of their codes, such as those of a panel. Other levels in
        the file raise an error. By default, the levels are sorted.
    duplicates : {"error", "rename", "mean", "first"}, default="error"
        How to handle features with the same name: raise an error, number the names, take the mean, or take the first.
    orientation : {"auto", "samples-in-rows", "features-in-rows"}, default="auto"
        Orientation of text, workbooks and Parquet. "auto" finds the target, or its ids, in the header or in the rows.
    missing : {"neutral", "indicator", "median", "drop-columns", "error"}, default="neutral"
        What to do about missing values. "neutral" and "median" leave NaN in X: selectors take them for the mean of the
        column, or `imputer` replaces them by medians. "indicator" is "neutral", with a column of 0 and 1 for each
        column with missing values, which says where they are. "drop-columns" leaves columns with missing values out,
        "error" refuses them.
    classes : sequence or dict, default=None
        Keep only samples whose target is one of these; or a dict from text to look for in the target to its label.
    batches : sequence, default=None
        Keep only samples whose batch is one of these.
    max_bytes : int or str, default="4GB"
        Largest size of the unpacked text and of the table in memory.

    Returns
    -------
    Table
        All columns without another role are features; the notes describe how the file was read.

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
    path = _check_exists(Path(path))
    _check_choices(orientation=orientation, missing=missing, duplicates=duplicates, below_detection=below_detection)
    requested = list_roles(path, target, event, time, groups, batch, covariates)
    named_columns = _list_named(path, (*requested.values(), id_column, *categorical, *drop_columns), features)
    needed, limit, fills = _names_in_file(only, duplicates), parse_bytes(max_bytes, "max_bytes"), bool(below_detection)
    names = named_columns.union(_names_by_r(named_columns) - needed if only else ())
    options = ReadOptions(limit, names, layer, sheet, skip_rows, tuple(na), fills, needed, id_column, likely_ids)
    samples = _need_target(_read_table(path, options, target_file, covariates), only or target_file or target or event)
    notes = [f"{path.name}: {samples.description}.", *samples.notes]
    samples = undo_names_of_r(samples, only, [*named_columns, *filter(None, [likely_ids])], notes)
    with _naming_other_sheets(notes):
        labels = _read_labels(target_file, samples, id_column, options, target_sheet, notes)
        samples = put_samples_in_rows(samples, orientation, target or time, id_column, labels, notes, only, likely_ids)
        has_limits = bool(samples.below_detection)
        samples, replacements = fill_and_resolve(samples, duplicates, below_detection, detection_values, only, notes)
        roles, cells, files = assign_roles(samples, requested, id_column, labels, notes, optional=bool(only))
        choose = partial(read_optional_outcome, only=only) if only else partial(choose_by_target, classes=classes)
        y, rows = choose(samples, roles, cells, files, drop_columns, notes)
        limits = below_detection, replacements, detection_values
        annotations = read_annotations(files, roles, cells, rows, *limits, notes)
        y, rows, annotations = choose_batches(path, y, rows, annotations, batches)
        outcome, other_roles = roles.get("target") or roles.get("time", ""), _names_with_role(samples, roles, id_column)
        if not only:
            is_unused = below_detection is not None and not (has_limits or replacements)
            notes += [*check_roles(samples, y, outcome, annotations, roles, files), *[_UNUSED_LIMIT] * is_unused]
        chosen = other_roles, categorical, drop_columns, features, only, outcome, y, "groups" in annotations, levels
        table = _build_table(samples, FeatureChoice(*chosen), rows, missing, log2, replacements, notes)
        return replace(table, **to_fields(annotations))


#: Note if `below_detection` is given for a file without such cells.
_UNUSED_LIMIT = "No cell is below the limit of detection, so --below-detection changes nothing."


def _names_in_file(only: Sequence[str], duplicates: str) -> frozenset[str]:
    """Return the names that the wanted columns can have in the file.

    Repeated names are numbered when they are read: the column "a.1" may have the name "a" in the file. R may have
    changed them.
    """
    in_file = {re.sub(r"\.\d+$", "", name) for name in only} if duplicates == "rename" else ()
    names = frozenset(only).union(in_file)
    return names | _names_by_r(names)


def _names_by_r(names: Iterable[str]) -> frozenset[str]:
    """Return the names as R writes them, which may have written the new samples."""
    return frozenset(map(write_as_r, names))


def _names_with_role(samples: Sheet, roles: dict[str, str], id_column: str | None) -> set[str]:
    """Return the names of the columns that have a role other than feature."""
    return {name for name in (*roles.values(), *samples.roles.values(), id_column) if name is not None}


@contextmanager
def _naming_other_sheets(notes: Sequence[str]) -> Iterator[None]:
    """Add the note on other sheets of a workbook to errors, because the table may be in one of them."""
    try:
        yield
    except ValueError as error:
        others = [note for note in notes if note.endswith(("(--sheet).", "(--target-sheet)."))]
        if not others:
            raise
        raise ValueError(" ".join([str(error), *others])) from None


def _build_table(
    samples: Sheet,
    choice: FeatureChoice,
    rows: Array,
    missing: str,
    log2: bool,
    replacements: Mapping[str, float],
    notes: list[str],
) -> Table:
    """Return the table of some rows with features, target and notes, but without groups, batch and covariates."""
    X, columns, levels, ids_index = select_features(samples, choice, rows, notes)
    categories = [columns.index(name) for name in levels]
    X, names, nominal = handle_missing(
        samples.path, X, columns, categories, missing, notes, name_option=not choice.only
    )
    unused = [name for name in samples.named_columns if name not in {*choice.other_roles, *names, *samples.columns}]
    if not choice.only:
        notes += describe_features(X, names, nominal, choice.features, log2=log2)
        notes += describe_codes(choice.y, choice.target)
    notes += describe_other_spellings(samples, choice.only)
    negative = 0.0
    if log2:
        X, negative = _take_log2(X, nominal, notes)
    if missing == "indicator":
        X, names = add_indicators(samples.path, X, names, notes)
    notes += describe_contents(X, len(nominal), choice.y, choice.target, unused)
    if not choice.groups_are_named and not choice.only:
        notes += describe_donors({name: samples.named_columns[name] for name in unused if name not in choice.dropped})
    relevant = samples.named_columns.get("relevant") if "relevant" in samples.roles else None
    id_column = samples.roles.get("ids") if ids_index is None else samples.columns[ids_index]
    row_names = samples.row_names if ids_index is None else cells_as_names(samples, ids_index)
    ids = None if row_names is None else np.array(row_names, dtype=str)[rows]
    fields: dict[str, Any] = {"relevant": relevant, "nominal": nominal, "ids": ids, "log2": log2}
    fields |= {"negative": negative, "id_column": id_column or None}
    fields["below_detection"] = replacements
    fields["levels"] = {names[j]: levels[names[j]] for j in nominal}
    fields["missing"] = "median" if missing == "median" else "neutral"
    return Table(X, choice.y, names, notes=tuple(notes), **fields)


_CHOICES = {
    "orientation": ORIENTATIONS,
    "missing": MISSING_RULES,
    "duplicates": DUPLICATE_RULES,
    "below_detection": (None, *DETECTION_RULES),
}


def _check_choices(**values: str | None) -> None:
    for name, value in values.items():
        if value not in _CHOICES[name]:
            raise ValueError(f"{name}={value!r} is none of {', '.join(map(repr, _CHOICES[name]))}.")


def _list_named(path: Path, names: Iterable[str | None], features: Sequence[str]) -> frozenset[str]:
    """Return the names that are not None; raise ValueError if one is given twice, or is one of the features, too."""
    named = [name for name in names if name is not None]
    purposes = [*named, *features]
    repeated = next((name for name in purposes if purposes.count(name) > 1), None)
    if repeated is not None:
        raise ValueError(f"{path}: column {repeated!r} is named twice, for two purposes; name it once.")
    return frozenset(named)


def _need_target(contents: Sheet, named: Any) -> Sheet:
    """Return the contents of a file; raise ValueError if no target is named, neither by the user nor in the file."""
    if not named and "target" not in contents.roles:
        raise ValueError(
            f"{contents.path}: no target is named; name its column (--target) or its file (--target-file)."
        )
    return contents


def _check_exists(path: Path) -> Path:
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name the file in it.")
    if not path.exists():
        neighbours = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
        similar = difflib.get_close_matches(path.name, neighbours, n=1)
        hint = f"did you mean {similar[0]!r}?" if similar else "check the name and the folder."
        raise ValueError(f"{path} does not exist; {hint}")
    return path


#: R's own files -> the line of R that writes them as CSV.
_R_FILES = {
    ".rds": "write.csv(readRDS({name!r}), {csv!r})",
    **dict.fromkeys((".rdata", ".rda"), "load({name!r}); ls()  # then: write.csv(NAME, {csv!r})"),
}


def _read_table(path: Path, options: ReadOptions, target_file: Any, covariates: Any) -> Sheet:
    """Read the table; if it holds only numbers, `na` is for a target file, and `below_detection` for covariates."""
    if not has_cells(path):
        na = () if target_file else options.na
        options = replace(options, na=na, below_detection=options.below_detection and not covariates)
    return _read_sheet(path, options)


def _read_sheet(path: Path, options: ReadOptions) -> Sheet:
    """Read a file with the reader of its suffix."""
    is_gzipped = path.suffix == ".gz"
    suffix = (path.with_suffix("") if is_gzipped else path).suffix.lower()
    file_format = find_format(path)
    if options.layer is not None and suffix != ".h5ad":
        raise ValueError(f"{path}: layers are parts of h5ad files; leave --layer out.")
    if options.sheet is not None and suffix not in (".xlsx", ".xlsm", ".ods"):
        raise ValueError(f"{path}: only workbooks have sheets; leave --sheet out.")
    if suffix in _R_FILES:
        line = _R_FILES[suffix].format(name=path.name, csv=path.with_suffix(".csv").name)
        raise ValueError(f"{path} is a file of R, which only R reads. Write it as CSV there: {line}")
    if file_format is None or (is_gzipped and file_format.name != "text"):
        hint = " Save the workbook as .xlsx." if suffix in (".xls", ".xlsb") else ""
        known = f"{', '.join(FORMATS)} (text also in .gz)"
        raise ValueError(f"{path} is of no known format; the name must end in one of {known}.{hint}")
    if not file_format.has_cells and (options.na or options.below_detection or options.skip_rows is not None):
        raise ValueError(
            f"{path}: {file_format.name} holds numbers only; leave --na, --below-detection and --skip-rows out."
        )
    return read_in_sandbox(suffix, path, options) if file_format.sandboxed else file_format.read(path, options)


def _read_labels(
    file: str | Path | None,
    table: Sheet,
    id_column: str | None,
    options: ReadOptions,
    sheet: str | None,
    notes: list[str],
) -> Sheet | None:
    """Read a target file, all of its columns as text, with ids spelt as in the table; None if there is no such file.

    `options` are those of the table.
    """
    if file is None and sheet is not None:
        raise ValueError(f"{table.path}: --target-sheet is a sheet of --target-file; name that file, or use --sheet.")
    if file is None:
        return None
    path = _check_exists(Path(file))
    if not has_cells(path):
        raise ValueError(
            f"{path} cannot be a target file; write the target as text (.csv, .tsv), .xlsx, .ods or .parquet."
        )
    if sheet is None and options.sheet is None and path == table.path:
        raise ValueError(f"{path} is the table itself; name the sheet of the target (--target-sheet).")
    labels = _read_sheet(path, ReadOptions(options.limit, None, sheet=sheet, na=options.na))
    notes.extend(f"{path.name}: {note}".replace("(--sheet)", "(--target-sheet)") for note in labels.notes)
    return match_spelling(labels, possible_ids(table, id_column), notes)


# ---------------------------------------------------------------- values


def _take_log2(X: Array, nominal: tuple[int, ...], notes: list[str]) -> tuple[Array, float]:
    """Return logarithms, and the fraction of the values that are negative.

    Each logarithm depends on one value only, so nothing leaks between folds.
    """
    codes = X[:, list(nominal)].copy()
    negative = float((X < 0.0).sum() / max(X.size - codes.size, 1))
    n_raised = int((X < LOWEST).sum()) - int((codes < LOWEST).sum())
    X = np.maximum(X, LOWEST)
    np.log2(X, out=X)
    X[:, list(nominal)] = codes
    notes.append(f"Logarithms of base 2 were taken; {n_raised} values below {LOWEST} were raised to it first.")
    return X, negative
