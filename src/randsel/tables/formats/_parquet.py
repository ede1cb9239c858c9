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
        return _to_sheet(path, frame, options, polars)


def _to_sheet(path: Path, frame: Any, options: ReadOptions, polars: Any) -> Sheet:
    """Convert all columns; raise ValueError for nested and binary ones, and for text larger than the limit."""
    names, text_size = options.names or frozenset(), 0
    number_types = {column.dtype for column in frame if column.dtype.is_numeric() and column.name not in names}
    values = np.full(frame.shape, np.nan, dtype=np.float32 if number_types == {polars.Float32} else np.float64)
    named_columns: dict[str, Any] = {}
    bad_columns: dict[int, str] = {}
    for j, column in enumerate(frame):
        name, dtype, is_number = column.name, column.dtype, column.dtype.is_numeric()
        if dtype.is_nested() or dtype in (polars.Object, polars.Binary):
            kinds = "numbers, text, dates and categories"
            raise ValueError(f"{path}: column {name!r} is of type {dtype}; {kinds} can be read.")
        if not is_number:
            # the file may store a long text once for millions of rows
            text_size += int(column.cast(polars.String).str.len_bytes().cast(polars.Int64).sum() or 0) + len(column) * 8
            check_size(path, text_size, options.limit)
        if name in names:
            is_exact = is_number and not column.null_count()
            named_columns[name] = column.to_numpy() if is_exact else _cells(column, polars)
        if is_number or dtype == polars.Boolean:
            values[:, j] = column.cast(polars.Float64).fill_null(float("nan")).to_numpy()
            continue
        cells = _cells(column, polars)
        numbers = [parse_number(cell) for cell in cells]
        values[:, j] = np.array(numbers, dtype=np.float64)  # None becomes NaN
        if None in numbers:
            i = numbers.index(None)
            bad_columns[j] = describe_bad_cell(name, f"row {i + 1}", cells[i])
    first_column = _cells(frame.to_series(0), polars)
    # of several rows with the same name, the last one counts, as in text files
    row_index = {name: i for i, name in enumerate(first_column) if name in names}
    return Sheet(
        path,
        values,
        frame.columns,
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
