import gzip

import numpy as np
import pytest

from randsel.experiments._black_box_files import read_black_box


@pytest.fixture
def file(tmp_path):
    def write(text, name):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


TRAIN = "label,f0,f1\n1.0,0.5,2\n9.0,-1e1,3\n"


def test_files_of_the_black_box_challenge(file, tmp_path):
    train, test = file(TRAIN, "train.csv"), file("f0,f1\r\n1,2\r\n3,4\r\n", "test.csv")
    extra = tmp_path / "extra_unsupervised_data.csv.gz"
    extra.write_bytes(gzip.compress(b"5,6\n7,8\n9,10\n"))
    box = read_black_box(train, test, extra)
    np.testing.assert_array_equal(box.X, [[0.5, 2], [-10, 3]])
    assert box.y.tolist() == [1, 9]
    assert box.y.dtype.kind == "i"
    np.testing.assert_array_equal(box.held_out, [[1, 2], [3, 4]])
    np.testing.assert_array_equal(box.unlabelled, [[5, 6], [7, 8], [9, 10]])
    assert box.held_out_y is None
    np.testing.assert_array_equal(read_black_box(train, test, extra, max_unlabelled=2).unlabelled, [[5, 6], [7, 8]])
    assert read_black_box(train, test).unlabelled.shape == (0, 2)


def test_the_unlabelled_file_may_have_a_header(file):
    train, test = file(TRAIN, "train.csv"), file("1,2\n", "test.csv")
    box = read_black_box(train, test, file("f0,f1\n5,6\n", "extra.csv"))
    np.testing.assert_array_equal(box.unlabelled, [[5, 6]])


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        ("label,f0\n", "f0\n1\n", "train.csv has no rows of numbers"),
        ("label\n1\n", "f0\n1\n", "has one column only"),
        ("f0,f1\n0.5,1\n", "f0\n1\n", "first column must hold classes, but row 1 has 0.5; is it a test file"),
        (TRAIN, "f0,f1\n1,2,3\n", "has 3 columns, but .*train.csv has 2 features"),
        (TRAIN, "f0,f1\n1,2\n3\n", "line 3 has 1 entries, and the first row 2; the file may be cut off"),
        (TRAIN, "f0,f1\n1,2\n3,x\n", "line 3 holds 'x', and"),
        (TRAIN, "f0,f1\n1,\n", "line 2 holds '', and"),
        (TRAIN, "f0,f1\n1,inf\n", "line 2 holds 'inf', and"),
    ],
)
def test_bad_files_of_the_black_box_challenge(file, train, test, message):
    with pytest.raises(ValueError, match=message):
        read_black_box(file(train, "train.csv"), file(test, "test.csv"))


def test_a_black_box_file_that_is_no_text_or_cut_off(file, tmp_path):
    train = file(TRAIN, "train.csv")
    (tmp_path / "test.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="not text in UTF-8"):
        read_black_box(train, tmp_path / "test.csv")
    (tmp_path / "test.csv.gz").write_bytes(gzip.compress(b"1,2\n" * 1000)[:-20])
    with pytest.raises(ValueError, match="cut off or damaged"):
        read_black_box(train, tmp_path / "test.csv.gz")
