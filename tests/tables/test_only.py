"""Reading only some features, such as those of a panel, with or without an outcome."""

import numpy as np
import pytest

from randsel.tables import read

TABLE = "id,sex,b,status,a,c\ns1,f,1,case,10,x\ns2,m,2,,20,y\ns3,f,3,control,30,z\n"


def test_only_some_features_are_read_whatever_else_the_file_holds(tmp_path):
    (tmp_path / "new.csv").write_text(TABLE)
    table = read(tmp_path / "new.csv", only=("a", "b", "absent"))
    assert table.names == ("b", "a")
    assert np.array_equal(table.X, [[1, 10], [2, 20], [3, 30]])
    assert np.isnan(table.y).all()
    assert table.ids.tolist() == ["s1", "s2", "s3"]


def test_samples_without_an_outcome_are_kept(tmp_path):
    (tmp_path / "new.csv").write_text(TABLE)
    table = read(tmp_path / "new.csv", only=("a", "b"), target="status")
    assert table.y.tolist() == ["case", "", "control"]
    assert "1 of 3 samples have no outcome; they are predicted but not evaluated." in table.notes
    (tmp_path / "numbers.csv").write_text("age,a\n1.5,1\nNA,2\n")
    assert np.array_equal(read(tmp_path / "numbers.csv", only=("a",), target="age").y, [1.5, np.nan], equal_nan=True)
    (tmp_path / "survival.csv").write_text("t,dead,a\n5,1,1\n,,2\n7,0,3\n")
    table = read(tmp_path / "survival.csv", only=("a",), event="dead", time="t")
    assert table.y["event"].tolist() == [True, False, False]
    assert np.array_equal(table.y["time"], [5, np.nan, 7], equal_nan=True)


def test_an_absent_outcome_is_said(tmp_path):
    (tmp_path / "new.csv").write_text(TABLE)
    table = read(tmp_path / "new.csv", only=("a",), target="diagnosis")
    assert np.isnan(table.y).all()
    assert "There is no column 'diagnosis', so there is no outcome to compare predictions with." in table.notes


def test_features_in_rows_are_found_by_their_names(tmp_path):
    (tmp_path / "genes.tsv").write_text("gene\ts1\ts2\nb\t1\t2\na\t3\t4\nz\t5\t6\n")
    table = read(tmp_path / "genes.tsv", only=("a", "b"))
    assert table.names == ("b", "a")
    assert np.array_equal(table.X, [[1, 3], [2, 4]])
    assert table.ids.tolist() == ["s1", "s2"]
    (tmp_path / "labels.csv").write_text("sample,status\ns2,case\ns9,control\n")
    table = read(tmp_path / "genes.tsv", only=("a", "b"), target_file=tmp_path / "labels.csv")
    assert table.y.tolist() == ["", "case"]


def test_a_file_without_any_of_the_features(tmp_path):
    (tmp_path / "new.csv").write_text(TABLE)
    with pytest.raises(ValueError, match=r"has none of the 2 requested features, such as 'GBP5'"):
        read(tmp_path / "new.csv", only=("GBP5", "BATF2"))


def test_a_renamed_copy_is_read_although_its_first_copy_is_not_wanted(tmp_path):
    (tmp_path / "new.csv").write_text("a,x,x\n1,2,3\n4,5,6\n")
    table = read(tmp_path / "new.csv", only=("a", "x.2"), duplicates="rename")
    assert table.names == ("a", "x.2")
    assert np.array_equal(table.X, [[1, 3], [4, 6]])
