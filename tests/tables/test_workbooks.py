"""Excel and OpenDocument workbooks, as tables and as target files."""

import io
import zipfile
from datetime import date

import numpy as np
import pytest
from table_files import has_note, open_document, workbook

from randsel.tables import _read as tables
from randsel.tables.formats import FORMATS, ReadOptions
from randsel.tables.formats._excel import read_excel

ROWS = [
    ["id", "g1", "g2", "y"],
    ["s1", 1.5, 2, "a"],
    ["s2", 2.5, None, "b"],
    ["s3", 0.5, 5, "a"],
    ["s4", 3.5, 4.25, "b"],
]
VALUES = [[1.5, 2], [2.5, np.nan], [0.5, 5], [3.5, 4.25]]


@pytest.fixture
def without_sandbox(monkeypatch):
    """Read in this process, which is faster."""
    monkeypatch.setattr(tables, "read_in_sandbox", lambda suffix, path, options: FORMATS[suffix].read(path, options))


def test_a_workbook_with_its_target_in_another_sheet(file):
    genes = [["gene", 1, 2, 3, 4], ["A", 1.5, 2.5, 3.5, 0.5], ["B", 1, 2, 3, 5]]
    labels = [["Samples of the study"], ["sample", "status"], ["001", "u"], ["002", "v"], ["003", "u"], ["004", "v"]]
    path = file(workbook({"expression": genes, "samples": labels}), "study.xlsx")
    table = tables.read(path, target_file=path, target_sheet="samples")
    np.testing.assert_array_equal(table.X, [[1.5, 1], [2.5, 2], [3.5, 3], [0.5, 5]])
    assert table.names == ("A", "B")
    assert table.y.tolist() == ["u", "v", "u", "v"]
    assert table.ids.tolist() == ["1", "2", "3", "4"]
    assert has_note(table, "study.xlsx: workbook, sheet 'expression'.")
    assert has_note(table, "The first sheet, 'expression', was read; the others are 'samples' (--sheet).")
    path = file(workbook({"readme": [["note"], ["see expression"]], "expression": genes}), "other.xlsx")
    with pytest.raises(ValueError, match=r"has no column 'status'.* the others are 'expression' \(--sheet\)\.$"):
        tables.read(path, target="status")
    labels = file(workbook({"readme": [["note"], ["see list"]], "list": [["id", "y"], ["1", "u"]]}), "list.xlsx")
    message = r"the 1 entry of the target file fits neither .* the others are 'list' \(--target-sheet\)\.$"
    with pytest.raises(ValueError, match=message):
        tables.read(path, target="status", target_file=labels, sheet="expression")
    assert has_note(table, "study.xlsx: Row 1 is left out, above the table: 'Samples of the study'.")
    assert has_note(table, "Ids are spelt differently: '001' in study.xlsx matches '1'.")


@pytest.mark.parametrize("write", [workbook, open_document])
def test_titles_footnotes_and_sheets(file, without_sandbox, write):
    rows = [[cell if cell is not None else "NA" for cell in row] for row in ROWS]
    content = write({"notes": [["nothing here"]], "data": [["Table S1"], *rows, ["Source: a hospital"]]})
    path = file(content, "x.xlsx" if write is workbook else "x.ods")
    table = tables.read(path, target="y", sheet="data")
    np.testing.assert_array_equal(table.X, VALUES)
    assert table.ids.tolist() == ["s1", "s2", "s3", "s4"]
    assert has_note(table, "Row 1 is left out, above the table: 'Table S1'.")
    assert has_note(table, "Row 7 is left out, below the table: 'Source: a hospital'.")
    with pytest.raises(ValueError, match="has no sheet 'dat'; it has 'notes', 'data'"):
        tables.read(path, target="y", sheet="dat")
    with pytest.raises(ValueError, match="but it has no rows"):
        tables.read(path, target="y")
    with pytest.raises(ValueError, match="only workbooks have sheets"):
        tables.read(file("a,y\n1,2\n"), target="y", sheet="data")


def test_cells_of_a_workbook(file, without_sandbox):
    rows = [
        ["id", date(2021, 3, 1), 39873, "g", "flag", "text", None, "y"],
        [101, 1.5, 2, "<LOD", True, "12%", None, "a"],
        [102, 2.5, 3, 4, False, "7%", None, "b"],
        [103, 0.5, "ND", 2, True, "1%", None, "a"],
        [None, None, None, None, None, None, None, None],
        [104, 3.5, 4, 6, False, "2%", None, "b"],
    ]
    path = file(workbook({"one": rows}), "x.xlsx")
    table = tables.read(path, target="y", id_column="id", na=["ND"], below_detection="half-minimum")
    assert table.names == ("2021-03-01", "39873", "g", "flag", "text")
    expected = [[1.5, 2, 1, 1, 12], [2.5, 3, 4, 0, 7], [0.5, np.nan, 2, 1, 1], [3.5, 4, 6, 0, 2]]
    np.testing.assert_array_equal(table.X, expected)
    assert table.ids.tolist() == ["101", "102", "103", "104"]
    assert has_note(table, "1 row without any content is left out.")
    assert has_note(
        table, "2 names of features look like genes that Excel changed to dates or numbers: 2021-03-01, 39873 (39873 is"
    )
    with pytest.raises(ValueError, match="column 'g' holds '<LOD' in row 2, not a number"):
        tables.read(path, target="y", id_column="id", na=["ND"])
    table = tables.read(path, target="y", id_column="id", skip_rows=0, na=["ND", "<LOD"])
    assert np.isnan(table.X).sum() == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"PK\x03\x04 and no more", "cannot be read as a workbook, it may be cut off or damaged"),
        (
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
            "is an old or an encrypted workbook; save it as .xlsx without a password",
        ),
        (workbook({"one": [[None]]}), "is empty: the sheet 'one' has no cell with content"),
        (workbook({"one": ROWS})[:300], "cannot be read as a workbook"),
        (workbook({"one": [["a" * 3000, "y"], ["b" * 3000, 1]] * 9}), "unpacks to more than"),
    ],
)
def test_workbooks_that_are_not_tables(file, content, message):
    with pytest.raises(ValueError, match=message):
        read_excel(file(content, "x.xlsx"), ReadOptions(20_000))


@pytest.mark.slow
def test_a_document_that_is_cut_off_is_refused(file):
    with zipfile.ZipFile(io.BytesIO(open_document({"one": [["a", "y"], [1, 2]]}))) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["content.xml"] = members["content.xml"].partition(b"</table:table-row>")[0]
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    with pytest.raises(ValueError, match="cannot be read as a workbook"):
        tables.read(file(content.getvalue(), "x.ods"), target="y", max_bytes=10**6)
