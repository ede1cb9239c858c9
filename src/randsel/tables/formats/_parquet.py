"""Parquet files, by polars; samples or features in rows."""

from pathlib import Path
from typing import Any

import numpy as np

from randsel._utils.files import check_size, readable
from randsel._utils.text import optional
from randsel.tables.formats._text import ReadOptions, Sheet, check_shape, describe_bad_cell, parse_number


def read_parquet(path: Path, options: ReadOptions) -> Sheet:
    """Read a Parquet file."""
    polars = optional("polars", extra="files", purpose="Reading Parquet")
    with readable(path, "Parquet", polars.exceptions.PolarsError, polars.exceptions.PanicException, OSError):
        lazy = polars.scan_parquet(path)
        columns = lazy.collect_schema().names()
        n_rows = int(lazy.select(polars.len()).collect().item())
        check_shape(path, (n_rows, len(columns)), options.limit)
        frame = lazy.collect()
        if not n_rows or not columns:
            raise ValueError(f"{path} has {len(columns)} columns and {n_rows} rows: there is no table in it.")
        _check_columns(path, frame, options.limit, polars)
        return _to_sheet(path, frame, columns, options.names or frozenset(), polars)


def _check_columns(path: Path, frame: Any, limit: int, polars: Any) -> None:
    """Raise ValueError for nested and binary columns, and for text larger in memory than the limit."""
    size = 0
    for column in frame:
        name, dtype = column.name, column.dtype
        if dtype.is_nested() or dtype in (polars.Object, polars.Binary):
            kinds = "numbers, text, dates and categories"
            raise ValueError(f"{path}: column {name!r} is of type {dtype}; {kinds} can be read.")
        if not dtype.is_numeric():
            # the file may store a long text once for millions of rows
            size += int(column.cast(polars.String).str.len_bytes().cast(polars.Int64).sum() or 0) + len(column) * 8
            check_size(path, size, limit)


def _to_sheet(path: Path, frame: Any, columns: list[str], names: frozenset[str], polars: Any) -> Sheet:
    dtypes = {column.dtype for column in frame if column.dtype.is_numeric() and column.name not in names}
    dtype = np.float32 if dtypes == {polars.Float32} else np.float64
    values = np.full((len(frame), len(columns)), np.nan, dtype=dtype)
    named_columns: dict[str, Any] = {}
    bad_columns: dict[int, str] = {}
    for j, column in enumerate(frame):
        is_number = column.dtype.is_numeric()
        if column.name in names:
            exact = is_number and not column.null_count()
            named_columns[column.name] = column.to_numpy() if exact else _cells(column, polars)
        if is_number or column.dtype == polars.Boolean:
            values[:, j] = column.cast(polars.Float64).fill_null(float("nan")).to_numpy()
            continue
        for i, cell in enumerate(_cells(column, polars)):
            number = parse_number(cell)
            if number is not None:
                values[i, j] = number
            elif j not in bad_columns:
                bad_columns[j] = describe_bad_cell(column.name, f"row {i + 1}", cell)
    first_column = _cells(frame.to_series(0), polars)
    # of several rows with the same name, the last one counts, as in text files
    row_index = {name: i for i, name in enumerate(first_column) if name in names}
    return Sheet(
        path,
        values,
        columns,
        "Parquet",
        first_column=first_column,
        named_columns=named_columns,
        named_rows={name: [_cells(column[i : i + 1], polars)[0] for column in frame] for name, i in row_index.items()},
        bad_columns=bad_columns,
        first_cells=[str(cell) for cell in frame.row(0)],
        features_in_rows=None,
    )


def _cells(column: Any, polars: Any) -> list[str]:
    """Return a column as text, empty where a value is missing."""
    cells: list[str] = column.cast(polars.String).fill_null("").to_list()
    return cells
