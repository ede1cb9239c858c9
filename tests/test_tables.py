import gzip

import numpy as np
import pytest

from randsel import tables


@pytest.fixture
def file(tmp_path):
    def write(text, name="table.csv"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_csv(file):
    path = file(",a,b,status,donor\nr1,1,2.5,sick,d1\nr2,3,-4e2,well,d2\nr3,5,6,well,d1\n")
    table = tables.read_csv(path, "status", groups="donor")
    assert table.names == ("a", "b")
    np.testing.assert_array_equal(table.X, [[1, 2.5], [3, -400], [5, 6]])
    assert table.y.tolist() == ["sick", "well", "well"]
    assert table.groups.tolist() == ["d1", "d2", "d1"]
    part = table.rows(np.array([2, 0]))
    assert part.groups.tolist() == ["d1", "d1"]


def test_tabs_gzip_and_numbers_as_target(tmp_path):
    path = tmp_path / "table.tsv.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbfa\tb\ty\n1\t2\t0.5\n3\t4\t1.5\n"))
    table = tables.read_csv(path, "y")
    assert table.names == ("a", "b")
    assert table.y.tolist() == [0.5, 1.5]


@pytest.mark.parametrize(
    ("text", "target", "message"),
    [
        ("a,status\n1,x\n", "statsu", "has no column 'statsu'; did you mean 'status'"),
        ("a,b\n1,x\n", "zzzz", "its first columns are"),
        ("a,b,y\n1,high,x\n", "y", "column 'b' holds 'high', not a number; drop"),
        ("a,y\n1,x\n2\n", "y", "line 3 has 1 entries"),
        ("a,y\n", "y", "it has no rows"),
        ("", "y", "it is empty"),
        ("a,y\n1,x\n\n2,\n", "y", "1 entries of column 'y' are missing, the first in line 4"),
        ("a,a,y\n1,2,x\n", "y", "several columns called 'a'"),
        ("a,y\n1_000,x\n", "y", "holds '1_000', not a number"),
        ("a,b,c,y\n1,NA,2,x\n1,,,z\n", "y", "2 entries of column 'b' are missing or infinite, and 1 other"),
    ],
)
def test_what_is_wrong_with_a_csv_is_said(file, text, target, message):
    with pytest.raises(ValueError, match=message):
        tables.read_csv(file(text), target)


def test_npz(tmp_path):
    path = tmp_path / "set.npz"
    X = np.arange(12).reshape(4, 3)
    np.savez(path, X=X, y=np.array([0, 1, 2, 1]), feature_names=list("abc"), batch=np.array([0, 0, 1, 1]))
    table = tables.read_npz(path, classes=[1, 2], batches=[1])
    assert table.X.tolist() == [[6, 7, 8], [9, 10, 11]]
    assert table.X.dtype == np.float64
    assert table.names == ("a", "b", "c")
    np.savez(path, X=X, labels=np.zeros(4))
    with pytest.raises(ValueError, match="has no array 'y'; it holds X, labels"):
        tables.read_npz(path)
    np.savez(path, X=X, y=np.zeros(4))
    with pytest.raises(ValueError, match="has no array 'batch'"):
        tables.read_npz(path, batches=[0])


GEO = """!Series_title\t"Blood of patients"
!Sample_title\t"s1"\t"s2"\t"s3"\t"s4"
!Sample_characteristics_ch1\t"age: 30"\t"age: 40"\t"age: 50"\t"age: 60"
!Sample_characteristics_ch1\t"illness: Latent"\t"illness: Control (BCG+)"\t"illness: PTB"\t"illness: LATENT"
!series_matrix_table_begin
"ID_REF"\t"GSM1"\t"GSM2"\t"GSM3"\t"GSM4"
"ILMN_1"\t1.5\t2.5\t3.5\t4.5
"ILMN_2"\t1\tnull\t3\t
"ILMN_3"\t-1\t-2\t-3\t-4
!series_matrix_table_end
"""


def test_geo_series_matrix(file):
    path = file(GEO, "GSE_series_matrix.txt")
    table = tables.read_geo(path, {"latent": "LTBI", "control": "healthy"}, characteristic="illness")
    assert table.names == ("ILMN_1", "ILMN_3")
    np.testing.assert_array_equal(table.X, [[1.5, -1], [2.5, -2], [4.5, -4]])
    assert table.y.tolist() == ["LTBI", "healthy", "LTBI"]
    with pytest.raises(ValueError, match="fewer than two of the classes"):
        tables.read_geo(path, {"latent": "LTBI"})
    with pytest.raises(ValueError, match="not a GEO series matrix"):
        tables.read_geo(file("a,b\n1,2\n", "other.txt"), {"x": "y"})


TRAIN = "label,f0,f1\n1.0,0.5,2\n9.0,-1e1,3\n"


def test_files_of_the_black_box_challenge(file, tmp_path):
    train, test = file(TRAIN, "train.csv"), file("f0,f1\r\n1,2\r\n3,4\r\n", "test.csv")
    extra = tmp_path / "extra_unsupervised_data.csv.gz"
    extra.write_bytes(gzip.compress(b"5,6\n7,8\n9,10\n"))
    box = tables.read_black_box(train, test, extra)
    np.testing.assert_array_equal(box.X, [[0.5, 2], [-10, 3]])
    assert box.y.tolist() == [1, 9]
    assert box.y.dtype.kind == "i"
    np.testing.assert_array_equal(box.held_out, [[1, 2], [3, 4]])
    np.testing.assert_array_equal(box.unlabelled, [[5, 6], [7, 8], [9, 10]])
    assert box.held_out_y is None
    np.testing.assert_array_equal(
        tables.read_black_box(train, test, extra, max_unlabelled=2).unlabelled, [[5, 6], [7, 8]]
    )
    assert tables.read_black_box(train, test).unlabelled.shape == (0, 2)


def test_the_unlabelled_file_may_have_a_header(file):
    train, test = file(TRAIN, "train.csv"), file("1,2\n", "test.csv")
    box = tables.read_black_box(train, test, file("f0,f1\n5,6\n", "extra.csv"))
    np.testing.assert_array_equal(box.unlabelled, [[5, 6]])


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        ("label,f0\n", "f0\n1\n", "train.csv has no rows of numbers"),
        ("label\n1\n", "f0\n1\n", "has one column only"),
        ("f0,f1\n0.5,1\n", "f0\n1\n", "first column must hold classes, but row 1 has 0.5; is it a test file"),
        (TRAIN, "f0,f1\n1,2,3\n", "has 3 columns, but .*train.csv has 2 features"),
        (TRAIN, "f0,f1\n1,2\n3\n", "line 3 has 1 entries, and the first row 2; the file may be cut off"),
        (TRAIN, "f0,f1\n1,2\n3,x\n", "line 3 holds 'x', not a number"),
        (TRAIN, "f0,f1\n1,\n", "line 2 holds '', not a number"),
        (TRAIN, "f0,f1\n1,inf\n", "line 2 holds infinity"),
    ],
)
def test_bad_files_of_the_black_box_challenge(file, train, test, message):
    with pytest.raises(ValueError, match=message):
        tables.read_black_box(file(train, "train.csv"), file(test, "test.csv"))


def test_a_black_box_file_that_is_no_text_or_cut_off(file, tmp_path):
    train = file(TRAIN, "train.csv")
    (tmp_path / "test.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="not text in UTF-8"):
        tables.read_black_box(train, tmp_path / "test.csv")
    (tmp_path / "test.csv.gz").write_bytes(gzip.compress(b"1,2\n" * 1000)[:-20])
    with pytest.raises(ValueError, match="cut off or damaged"):
        tables.read_black_box(train, tmp_path / "test.csv.gz")
