"""Series matrix files of the Gene Expression Omnibus: text with lines about the samples above the table."""

from dataclasses import replace
from pathlib import Path

from randsel._utils.files import check_size
from randsel.tables.formats._text import CellGrid, ReadOptions, Sheet, check_distinct, open_records, split_record


def read_geo(path: Path, options: ReadOptions) -> Sheet:
    """Read a series matrix: probes in rows; the lines about samples become named rows."""
    notes: list[str] = []
    sample_rows: dict[str, list[str]] = {}
    with open_records(path, options.limit, notes) as records:
        for _, text in records:
            cells = split_record(text, "\t")
            if cells[0].startswith("!Sample_"):
                _add_sample_line(sample_rows, cells[0].removeprefix("!Sample_"), cells[1:], path, options.limit)
            elif cells[0] == "ID_REF":
                check_distinct(cells, path, "columns")
                grid = CellGrid(path, cells, "\t", frozenset(), options.limit)
                grid.fill(record for record in records if not record[1].startswith("!"))
                break
        else:
            raise ValueError(f"{path} is not a GEO series matrix: it has no table that starts with ID_REF.")
    sheet = grid.to_sheet("GEO series matrix", notes)
    n_samples = len(sheet.columns) - 1
    named_rows = {name: ["", *cells] for name, cells in sample_rows.items() if len(cells) == n_samples}
    return replace(sheet, named_rows=named_rows, features_in_rows=True)


def _add_sample_line(sample_rows: dict[str, list[str]], key: str, cells: list[str], path: Path, limit: int) -> None:
    """Store cells under the key of their line; characteristics (`illness: latent`) under the name in the cell."""
    for i, cell in enumerate(cells):
        name, colon, value = cell.partition(":")
        if not key.startswith("characteristics") or not colon:
            name, value = key, cell
        row = sample_rows.setdefault(name.strip(), [])
        # if every sample uses another name, memory grows with the square of the number of samples
        check_size(path, 8 * len(sample_rows) * len(cells), limit)
        row.extend([""] * (len(cells) - len(row)))
        row[i] = value.strip()
