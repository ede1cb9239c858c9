"""Parquet files, by polars; samples or features in rows."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from randsel._utils.files import check_size, readable
from randsel._utils.text import optional
from randsel._utils.typing import Array
from randsel.tables.formats._id_names import find_id_names
from randsel.tables.formats._numbers import CellParser, detection_limit
from randsel.tables.formats._sheet import ReadOptions, Sheet, check_shape

#: Name that pandas gives to an index without a name.
_PANDAS_INDEX = "__index_level_0__"


def read_parquet(path: Path, options: ReadOptions) -> Sheet:
    """Read a Parquet file."""
    polars = optional("polars", extra="files", purpose="Reading Parquet")
    with readable(path, "Parquet", polars.exceptions.PolarsError, polars.exceptions.PanicException, OSError):
        lazy = polars.scan_parquet(path)
        columns = lazy.collect_schema().names()
        n_rows = int(lazy.select(polars.len()).collect().item())
        check_shape(path, (n_rows, len(columns)), options.limit)
        if options.skip_rows:
            raise ValueError(f"{path}: Parquet has no lines above its table; leave --skip-rows out.")
        frame = _put_index_first(lazy.collect(), _pandas_index(path, polars))
        if not n_rows or not columns:
            raise ValueError(f"{path} has {len(columns)} columns and {n_rows} rows: there is no table in it.")
        return _to_sheet(path, frame, options, polars)


def _pandas_index(path: Path, polars: Any) -> str | None:
    """Return the column in which pandas stored the names of rows."""
    try:
        described = json.loads(polars.read_parquet_metadata(path).get("pandas", "{}"))
        columns = [name for name in described["index_columns"] if isinstance(name, str)]
    except (ValueError, KeyError, TypeError, AttributeError):
        columns = []
    return columns[0] if columns else _PANDAS_INDEX


def _put_index_first(frame: Any, index: str | None) -> Any:
    """Return a frame whose first column is the index; without a name, if pandas had none for it."""
    if index not in frame.columns:
        return frame
    frame = frame.select([index, *(name for name in frame.columns if name != index)])
    return frame.rename({index: ""}) if index == _PANDAS_INDEX and "" not in frame.columns else frame


def _without_nested(path: Path, frame: Any, options: ReadOptions, names: frozenset[str], polars: Any) -> Any:
    """Leave out nested and binary columns that are not needed; raise ValueError if one is needed."""
    nested = [c for c in frame if c.dtype.is_nested() or c.dtype in (polars.Object, polars.Binary)]
    for column in nested:
        if not options.only or column.name in options.only | names:
            kinds = "numbers, text, dates and categories"
            raise ValueError(f"{path}: column {column.name!r} is of type {column.dtype}; {kinds} can be read.")
    return frame.drop([column.name for column in nested])


def _to_sheet(path: Path, frame: Any, options: ReadOptions, polars: Any) -> Sheet:
    """Convert the columns; raise ValueError for needed ones that are nested or binary, and for too much text."""
    names, text_size = frozenset(frame.columns) if options.names is None else options.names, 0
    frame = _without_nested(path, frame, options, names, polars)
    number_types = {column.dtype for column in frame if column.dtype.is_numeric() and column.name not in names}
    values = np.full(frame.shape, np.nan, dtype=np.float32 if number_types == {polars.Float32} else np.float64)
    named_columns: dict[str, Any] = {}
    text_columns: dict[int, list[str]] = {}
    parser = CellParser(options.na, options.below_detection)
    for j, column in enumerate(frame):
        name, dtype, is_number = column.name, column.dtype, column.dtype.is_numeric()
        if not is_number:
            # the file may store a long text once for millions of rows
            text_size += int(column.cast(polars.String).str.len_bytes().cast(polars.Int64).sum() or 0) + len(column) * 8
            check_size(path, text_size, options.limit)
        if name in names:
            is_exact = is_number and not column.null_count() and options.names is not None
            named_columns[name] = column.to_numpy() if is_exact else parser.clear_missing(_cells(column, polars))
        if is_number or dtype == polars.Boolean:
            values[:, j] = column.cast(polars.Float64).fill_null(float("nan")).to_numpy()
        elif name not in names:
            text_columns[j] = _cells(column, polars)
    first_column = _cells(frame.to_series(0), polars)
    row_names = _cells(frame[options.id_column], polars) if options.id_column in frame.columns else first_column
    is_wanted_row = [not options.only or name in options.only for name in row_names]
    bad_columns, below_detection = _parse_text(text_columns, frame.columns, values, parser, options, is_wanted_row)
    parser.clear_numbers(values)
    # of several rows with the same name, the last one counts, as in text files
    row_index = {name: i for i, name in enumerate(first_column) if name in names}
    id_columns = {frame.columns[j]: text_columns[j] for j in find_id_names(frame.columns) if j in text_columns}
    if options.likely_ids in frame.columns:
        id_columns[options.likely_ids] = _cells(frame[options.likely_ids], polars)
    return Sheet(
        path,
        values,
        frame.columns,
        "Parquet",
        first_column=first_column,
        named_columns=named_columns,
        named_rows={name: [_cells(column[i : i + 1], polars)[0] for column in frame] for name, i in row_index.items()},
        id_columns=id_columns | {frame.columns[0]: first_column},
        bad_columns=bad_columns,
        below_detection=below_detection,
        first_cells=[str(cell) for cell in frame.row(0)],
        features_in_rows=None,
        notes=tuple(parser.notes()),
    )


def _parse_text(
    text_columns: dict[int, list[str]],
    columns: list[str],
    values: Array,
    parser: CellParser,
    options: ReadOptions,
    is_wanted_row: list[bool],
) -> tuple[dict[int, tuple[str, str]], list[tuple[int, int, float]]]:
    """Write the numbers in columns of text to `values`.

    Return place and first cell of every column whose wanted cells hold other text, and the row, column and limit of
    every cell below detection.
    """
    bad_columns: dict[int, tuple[str, str]] = {}
    below_detection: list[tuple[int, int, float]] = []
    for j, cells in text_columns.items():
        numbers = [parser.parse(cell) for cell in cells]
        values[:, j] = np.array(numbers, dtype=np.float64)  # None becomes NaN
        if parser.below_detection:
            limits = ((i, detection_limit(cell)) for i, cell in enumerate(cells))
            below_detection.extend((i, j, limit) for i, limit in limits if limit is not None)
        is_wanted = j == 0 or columns[j] in options.only
        bad_rows = (i for i, number in enumerate(numbers) if number is None and (is_wanted or is_wanted_row[i]))
        i = next(bad_rows, None)
        if i is not None:
            bad_columns[j] = (f"row {i + 1}", cells[i])
    return bad_columns, below_detection


def _cells(column: Any, polars: Any) -> list[str]:
    """Return a column as text, empty where a value is missing."""
    cells: list[str] = column.cast(polars.String).str.strip_chars().fill_null("").to_list()
    return cells
