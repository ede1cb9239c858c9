"""Text files: encodings, separators, quotes, numbers, and errors in the file."""

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from table_files import has_note, package_not_installed

from randsel.tables import _read as tables
from randsel.tables.formats import ReadOptions, _cells, _text


def test_tabs_gzip_mark_and_numbers_as_target(file, engine):
    content = gzip.compress(b"\xef\xbb\xbfa\tb\ty\n1\t2\t0.5\n3\t4\t1.5\n5\t6\t2\n7\t8\t2.5\n", mtime=0)
    for name in ("table.tsv.gz", "table.tsv"):  # compressed, whatever it is called
        table = tables.read(file(content, name), target="y")
        assert table.names == ("a", "b")
        assert table.y.tolist() == [0.5, 1.5, 2, 2.5]


@pytest.mark.parametrize("encoding", ["utf-16", "cp1252", "utf-8-sig", "utf-8"])
def test_encodings(file, encoding):
    table = tables.read(file("Größe;y\n1;a\n2;b\n3;a\n4;b\n".encode(encoding)), target="y")
    assert table.names == ("Größe",)
    assert has_note(table, "Windows-1252") == (encoding == "cp1252")
    assert has_note(table, "UTF-16") == (encoding == "utf-16")
    assert has_note(table, "semicolons")


def test_decimal_commas_between_semicolons(file, engine):
    table = tables.read(file("a;b;y\n1,5;2;0,5\n-,25;3;1\n4;5;1,5\n6;7;2\n"), target="y")
    np.testing.assert_array_equal(table.X, [[1.5, 2], [-0.25, 3], [4, 5], [6, 7]])
    assert table.y.tolist() == [0.5, 1, 1.5, 2]
    assert has_note(table, "1,5 was read as 1.5")
    with pytest.raises(ValueError, match=r"holds '2.5' in line 3, not a number; other cells have decimal commas"):
        tables.read(file("a;b;y\n1;1,5;0\n1;2.5;1\n1;2;0\n1;2;1\n"), target="y")


def test_quotes_spaces_and_names_of_rows_without_a_header(file, engine):
    quoted = '"a,1","y"\n"r""1",1.5,"x, y"\n"r\n2",2,"z"\nr3,3,z\nr4,4,"x, y"\n'
    table = tables.read(file(quoted), target="y")
    assert table.names == ("a,1",)
    assert table.ids.tolist() == ['r"1', "r\n2", "r3", "r4"]
    assert table.y.tolist() == ["x, y", "z", "z", "x, y"]
    assert has_note(table, "The header has one name fewer")
    table = tables.read(file("a  b y\n1 2  x\n 3 4 z\n5 6 x\n7 8 z\n", "table.txt"), target="y")
    np.testing.assert_array_equal(table.X, [[1, 2], [3, 4], [5, 6], [7, 8]])


def test_long_headers_with_separators_in_quotes(file, engine):
    names = [f"gene {j}, {'long name ' * 20}; other name {j}" for j in range(800)]  # beyond the limit of csv
    header = ",".join(f'"{name}"' for name in names)
    body = "".join(",".join(["0.5"] * 799 + [str(i)]) + f",{'ab'[i % 2]}\n" for i in (3, 1, 4, 2))
    for title in ("", "A title\n"):
        table = tables.read(file(f"{title}{header},y\n{body}"), target="y")
        assert table.names == tuple(names)
        assert table.X[:, -1].tolist() == [3, 1, 4, 2]


def test_truth_values_are_numbers_and_mixtures_are_not(file, engine):
    table = tables.read(file("t,a,y\nTrue,1,x\nFALSE,2,z\ntrue,3,x\nNA,4,z\n"), target="y")
    np.testing.assert_array_equal(table.X[:, 0], [1, 0, 1, np.nan])
    table = tables.read(file("a,t,y\n1,True,x\n2,FALSE,z\n3,true,x\n4,False,z\n"), target="y")
    np.testing.assert_array_equal(table.X[:, 1], [1, 0, 1, 0])
    assert has_note(table, "1 column holds True and False")
    with pytest.raises(ValueError, match="'t' holds True or False among numbers in line 2; write all"):
        tables.read(file("a,t,y\n1,True,x\n2,3,z\n2,3,x\n2,3,z\n"), target="y")


def test_categorical_dropped_and_id_columns(file, engine):
    text = "kind,a,name,when,y\nred,1,n1,2020-01-01,0\nblue,2,n2,,1\nred,3,n3,x,0\nblue,4,n4,x,1\n"
    table = tables.read(file(text), target="y", categorical=["kind"], drop_columns=["when"], id_column="name")
    assert table.names == ("kind", "a")
    assert table.nominal == (0,)
    np.testing.assert_array_equal(table.X, [[1, 1], [0, 2], [1, 3], [0, 4]])
    assert table.ids.tolist() == ["n1", "n2", "n3", "n4"]


def test_long_integers_stay_distinct(file, engine):
    text = "id,a,y\n" + "\n".join(f"9007199254740{n},{n},{n % 2}" for n in range(993, 997))
    table = tables.read(file(text), target="y", id_column="id")
    assert len(set(table.ids.tolist())) == 4
    with pytest.raises(ValueError, match="column 'id' holds 9007199254740993, more digits than a number keeps"):
        tables.read(file(text), target="y")
    text = "a,y\n" + "\n".join(f"{n * n % 5},900719925474099{2 + n % 2}" for n in range(8))
    assert set(tables.read(file(text), target="y").y.tolist()) == {"9007199254740992", "9007199254740993"}


@given(st.lists(st.one_of(st.floats().map(repr), st.text("0123456789.,eE+-_ naNinfTrue", max_size=6)), min_size=4))
def test_polars_and_python_read_the_same(tmp_path_factory, cells):
    path = tmp_path_factory.mktemp("cells") / "table.tsv"
    path.write_text("n\ta\n" + "".join(f"r\t{cell}\n" for cell in cells))
    found = [_text.read_text(path, ReadOptions(10**6, frozenset({"n"})))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_cells, "optional", package_not_installed)
        found.append(_text.read_text(path, ReadOptions(10**6, frozenset({"n"}))))
    np.testing.assert_array_equal(found[0].values, found[1].values)
    assert found[0].bad_columns == found[1].bad_columns


def test_the_result_does_not_depend_on_the_block_size(file, engine, monkeypatch, rng):
    X = rng.standard_normal((30, 7))
    rows = "".join(f"{'ab'[i % 2]},{','.join(map(repr, x))}\n" for i, x in enumerate(X.tolist()))
    monkeypatch.setattr(_text, "_BLOCK", 300)
    table = tables.read(file("y,c0,c1,c2,c3,c4,c5,c6\n" + rows), target="y")
    np.testing.assert_array_equal(table.X, X)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("table.csv", b"PK\x03\x04\0\0", "is not a text file: it is a zip archive or an Excel workbook; name it .xlsx"),
        ("table.csv", b"a,y\n1,\0\0\0\n", "is not a text file: it is binary"),
        ("table.csv", "a,y\n1,2\n".encode("utf-16-le"), "text in UTF-16 without a mark"),
        ("table.csv", b"a,y\n1,\xe9\n2,\x81\n", "is not text in UTF-8, nor in Windows-1252"),
        ("table.csv.gz", gzip.compress(b"a,y\n" + b"1,2\n" * 5000, mtime=0)[:60], "may be cut off or damaged"),
        ("table.csv.gz", b"a,y\n1,2\n", "is named .gz but is not compressed"),
        ("table.csv.gz", gzip.compress(b"a,y\n" + b"1,2\n" * 50000, mtime=0), "unpacks to more than .* GB are allowed"),
        ("table.xls", b"x", "of no known format; .* .csv, .tsv.* Save the workbook as .xlsx"),
        ("table.npz.gz", b"", "of no known format"),
    ],
)
def test_files_that_are_not_tables_are_reported(file, name, content, message):
    with pytest.raises(ValueError, match=message):
        tables.read(file(content, name), target="y", max_bytes=100_000)


def test_numbers_that_are_longer_than_their_text_are_refused(file, engine):
    wide = ",".join(["y", *map(str, range(500))]) + "\n" + ("1" + ",0" * 500 + "\n") * 20
    with pytest.raises(ValueError, match=r"would take .* GB are allowed"):
        tables.read(file(wide), target="y", max_bytes=50_000)


def test_lines_that_are_too_long_are_refused(file, monkeypatch):
    monkeypatch.setattr(_text, "LONGEST_LINE", 100)
    with pytest.raises(ValueError, match="line 2 has more than 100 characters"):
        tables.read(file("a,y\n" + "1" * 1000 + "\n"), target="y")
