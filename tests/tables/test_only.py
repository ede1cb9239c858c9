"""Reading only some features, such as those of a panel, with or without an outcome."""

from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from randsel.tables import read
from randsel.tables._orientation import describe_other_spellings

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
    assert "1 of 3 samples has no outcome and is predicted but not evaluated: s2." in table.notes
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


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_odd_cells_of_other_features_in_rows_do_not_matter(tmp_path, suffix):
    text = "gene,symbol,s1,s2\nb,B1,1,2\nz,Z1,n.d.,failed\nunit,,nm,nm\na,A1,3,4\nlength,,7,odd\n"
    (tmp_path / "genes.csv").write_text(text)
    if suffix == "parquet":
        polars = pytest.importorskip("polars")
        polars.read_csv(tmp_path / "genes.csv", infer_schema=False).write_parquet(tmp_path / "genes.parquet")
    table = read(tmp_path / f"genes.{suffix}", only=("a", "b"))
    assert np.array_equal(table.X, [[1, 3], [2, 4]])
    assert table.ids.tolist() == ["s1", "s2"]
    assert "1 column of text is not taken for samples: 'symbol'." in table.notes
    assert "The columns 's1', 's2' are the 2 samples; --drop-columns leaves out other columns." in table.notes
    # the names of features are in another column
    (tmp_path / "ids.csv").write_text("row,gene,s1,s2\n1,b,1,2\n2,z,n.d.,x\n3,a,3,4\n")
    assert np.array_equal(read(tmp_path / "ids.csv", only=("a", "b"), id_column="gene").X, [[1, 3], [2, 4]])
    # an odd cell of a wanted feature does
    (tmp_path / "genes.csv").write_text(text.replace("A1,3", "A1,n.d."))
    with pytest.raises(ValueError, match=r"column 's1' holds 'n.d.' in line 5.*--na"):
        read(tmp_path / "genes.csv", only=("a", "b"))


def test_advice_on_a_needed_column_does_not_leave_it_out(tmp_path):
    (tmp_path / "new.csv").write_text("id,a,b\ns1,1,x\ns2,odd,y\n")
    with pytest.raises(ValueError, match=r"correct it, or say that it means missing \(--na \"odd\"\)\.$"):
        read(tmp_path / "new.csv", only=("a",))
    with pytest.raises(ValueError, match=r"no cell of the column is a number, and it is needed; correct it\.$"):
        read(tmp_path / "new.csv", only=("b",))


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("sample,a\n004,1\n010,2\n", ["004", "010"]),
        ("a,sample_id\n1,004\n2,010\n", ["004", "010"]),
        ("a,sample_id\n1,P-004\n2,P-010\n", ["P-004", "P-010"]),
        ("sample,a\n12345678901234567,1\n12345678901234568,2\n", ["12345678901234567", "12345678901234568"]),
        ("a,sample_id\n1,P-004\n2,\n", None),
    ],
)
def test_ids_stay_as_they_are_written(tmp_path, engine, text, ids):
    (tmp_path / "new.csv").write_text(text)
    table = read(tmp_path / "new.csv", only=("a",))
    read_ids = table.ids
    assert any("is taken for the names of samples" in note for note in table.notes) == (ids is not None)
    assert ids == (None if read_ids is None else read_ids.tolist())


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_ids_are_in_the_column_that_training_had_them_in(tmp_path, suffix):
    def write(text):
        (tmp_path / "new.csv").write_text(text)
        if suffix == "parquet":
            polars = pytest.importorskip("polars")
            polars.read_csv(tmp_path / "new.csv", infer_schema=False).write_parquet(tmp_path / "new.parquet")
        return tmp_path / f"new.{suffix}"

    file = write("a,strain,b\n1,004,x\n2,010,y\n")
    assert read(file, only=("a",)).ids is None
    table = read(file, only=("a",), likely_ids="strain")
    assert table.ids.tolist() == ["004", "010"]
    assert table.id_column == "strain"
    labels = tmp_path / "labels.csv"
    labels.write_text("id,status\n010,case\n004,control\n")
    table = read(file, only=("a",), likely_ids="strain", target_file=labels, target="status")
    assert table.y.tolist() == ["control", "case"]
    assert read(file, only=("a",), likely_ids="absent").ids is None
    assert read(write("a,strain\n1,004\n2,004\n"), only=("a",), likely_ids="strain").ids is None
    assert read(write("s,strain\np1,4\np2,5\n"), only=("strain",), likely_ids="strain").id_column == "s"


def test_a_file_without_any_of_the_features(tmp_path):
    (tmp_path / "new.csv").write_text(TABLE)
    with pytest.raises(ValueError, match=r"has none of the 2 requested features, such as 'GBP5'"):
        read(tmp_path / "new.csv", only=("GBP5", "BATF2"))


def test_features_that_are_spelt_differently_are_named(tmp_path):
    (tmp_path / "new.csv").write_text("GBP5,phenyllactate..PLA.,X12.HETE,not of R\n1,2,3,1\n4,5,6,1\n")
    only = ("GBP5", "phenyllactate (PLA)", "12-HETE", "BATF2")
    table = read(tmp_path / "new.csv", only=only)
    assert table.names == ("GBP5",)
    note = (
        "2 absent features are perhaps spelt differently: the file has 'phenyllactate..PLA.', not 'phenyllactate (PLA)'"
    )
    assert any(note in other for other in table.notes)
    assert any("; 'X12.HETE', not '12-HETE'. Rename" in other for other in table.notes)
    assert any("R keeps names as they are with check.names = FALSE." in other for other in table.notes)
    assert not any("spelt" in note for note in read(tmp_path / "new.csv", only=("GBP5", "BATF2")).notes)
    (note,) = describe_other_spellings(SimpleNamespace(columns=["gbp5"]), ["GBP5"])
    assert "check.names" not in note


@pytest.mark.parametrize("suffix", [".csv", ".xlsx", ".parquet"])
def test_names_that_r_changed_are_matched(tmp_path, suffix):
    """R writes X before a digit and points for other characters than letters; the class of a sample as well."""
    path = tmp_path / f"new{suffix}"
    columns = {"Probe": ["s1", "s2"], "X1007_s_at": [1, 2], "HLA.A": [3, 4], "X.a.": [5, 6], "TB.status": ["p", "q"]}
    write = {".csv": "write_csv", ".xlsx": "write_excel", ".parquet": "write_parquet"}
    getattr(pl.DataFrame(columns), write[suffix])(path)
    only = ("1007_s_at", "HLA-A", "(a)")
    table = read(path, only=only, target="TB status")
    assert (table.names, table.X.tolist()) == (only, [[1, 3, 5], [2, 4, 6]])
    assert table.y.tolist() == ["p", "q"]
    note = f"4 names are matched as R changes names: 'X1007_s_at' in new{suffix} is taken for '1007_s_at'."
    assert any(other.startswith(note) for other in table.notes)


def test_names_that_r_changed_are_matched_in_rows(tmp_path):
    (tmp_path / "new.csv").write_text("gene,S 1,S 2\nX1007_s_at,1,2\nHLA.A,3,4\n")
    table = read(tmp_path / "new.csv", only=("1007_s_at", "HLA-A"))
    assert (table.names, table.X.tolist()) == (("1007_s_at", "HLA-A"), [[1, 3], [2, 4]])
    assert table.ids.tolist() == ["S 1", "S 2"]


@pytest.mark.parametrize(
    ("header", "only"),
    [
        ("id,HLA.A,b", ("HLA-A", "HLA.A")),  # the column has the name of another feature
        ("id,HLA.A,b", ("HLA-A", "HLA A", "b")),  # two features have this name in R
        ("id,HLA.A,HLA.A.1,b", ("HLA-A", "b")),  # two columns had it
        ("id,HLA.A,HLA-B,b", ("HLA-A", "b")),  # R did not write this file
    ],
)
def test_names_are_not_matched_if_they_may_be_those_of_other_features(tmp_path, header, only):
    cells = [str(j) for j in range(header.count(","))]
    (tmp_path / "new.csv").write_text("\n".join([header, ",".join(["s", *cells]), ",".join(["t", *cells])]))
    table = read(tmp_path / "new.csv", only=only)
    assert "HLA-A" not in table.names
    assert not any("as R changes names" in note for note in table.notes)


@pytest.mark.parametrize(
    ("wanted", "columns", "is_alike"),
    [
        ("CD4+", ["CD4-", "b"], False),  # two markers
        ("HLA-A", ["HLA.A", "b"], True),  # as R writes it
        ("β", ["γ", "b"], False),
        ("a", ["A", "b"], True),
    ],
)
def test_names_that_are_nearly_alike_may_be_of_two_features(wanted, columns, is_alike):
    sheet = SimpleNamespace(columns=columns)
    assert bool(describe_other_spellings(sheet, [wanted, "b"])) == is_alike
    assert not describe_other_spellings(sheet, [wanted, *columns])  # a wanted column is not another spelling


def test_a_renamed_copy_is_read_although_its_first_copy_is_not_wanted(tmp_path):
    (tmp_path / "new.csv").write_text("a,x,x\n1,2,3\n4,5,6\n")
    table = read(tmp_path / "new.csv", only=("a", "x.2"), duplicates="rename")
    assert table.names == ("a", "x.2")
    assert np.array_equal(table.X, [[1, 3], [4, 6]])
    (tmp_path / "new.csv").write_text("a,x,x\n1,2,<LOD\n4,<LOD,6\n")
    how = {"duplicates": "rename", "below_detection": "half-minimum", "detection_values": {"x": 0.1, "x.2": 0.2}}
    assert np.array_equal(read(tmp_path / "new.csv", only=("a", "x.2"), **how).X, [[1, 0.2], [4, 6]])
    (tmp_path / "new.csv").write_text("a,x,x\n1,2,3\n4,5,odd\n")
    with pytest.raises(ValueError, match=r"column 'x\.2' holds 'odd' in line 3"):
        read(tmp_path / "new.csv", only=("a", "x.2"), duplicates="rename")


def test_target_and_covariates_of_a_target_file_are_optional(tmp_path):
    (tmp_path / "new.csv").write_text("id,a\ns1,1\ns2,2\ns3,3\n")
    labels = tmp_path / "samples.csv"
    labels.write_text("id,age,site,status\ns3,50,x,case\ns1,60,y,control\n")
    names = {"only": ("a",), "target": "status", "covariates": ("weight",)}
    table = read(tmp_path / "new.csv", target_file=labels, **names)
    assert table.y.tolist() == ["control", "", "case"]
    assert table.covariates == {}
    assert "1 sample has no entry in samples.csv: s2." in table.notes
    # several columns, none of them the outcome
    labels.write_text("id,age,site\ns3,50,x\ns1,60,y\ns2,70,y\n")
    table = read(tmp_path / "new.csv", target_file=labels, only=("a",), target="status", covariates=("age", "site"))
    assert np.isnan(table.y).all()
    assert table.covariates["age"].tolist() == [60, 70, 50]
    assert "There is no column 'status', so there is no outcome to compare predictions with." in table.notes
    # the outcome is in the table, and covariates are in the target file
    (tmp_path / "new.csv").write_text("id,a,status\ns1,1,case\ns2,2,case\ns3,3,control\n")
    table = read(tmp_path / "new.csv", target_file=labels, only=("a",), target="status", covariates=("age",))
    assert table.y.tolist() == ["case", "case", "control"]
    # the only column without a role is the outcome, as without `only`
    labels.write_text("id,dx\ns3,case\ns1,control\ns2,case\n")
    (tmp_path / "new.csv").write_text("id,a\ns1,1\ns2,2\ns3,3\n")
    table = read(tmp_path / "new.csv", target_file=labels, only=("a",), target="status")
    assert table.y.tolist() == ["control", "case", "case"]
    assert not [note for note in table.notes if "no outcome" in note]
