"""Files as people have them: titles, footnotes, units, missing values of other names, percent signs, repeated names."""

import numpy as np
import polars as pl
import pytest
from table_files import has_note

from randsel.tables import _read as tables

BODY = "id,g1,g2,y\ns1,1.5,2,a\ns2,2.5,3,b\ns3,0.5,5,a\ns4,3.5,4,b\n"
VALUES = [[1.5, 2], [2.5, 3], [0.5, 5], [3.5, 4]]


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        (
            "Table S3. Expression, normalised\n" + BODY,
            ["Line 1 is left out, above the table: 'Table S3. Expression, n"],
        ),
        ("Table S3,,,\n" + BODY, ["Line 1 is left out, above"]),
        ("#1.2\n" + BODY.replace(",", "\t"), ["Line 1 is left out, above the table: '#1.2'.", "separated by tabs"]),
        ("# made by a program, version 2\n# on Monday\n\n" + BODY, ["Lines 1 to 2 are left out, above"]),
        (BODY + "* by mass spectrometry\n", ["Line 6 is left out, below the table: '* by mass spectrometry'."]),
        (BODY + "\nSource: a hospital, in spring\nAll rights reserved,,,\n", ["Lines 7 to 8 are left out, below"]),
        ("A title\n" + BODY + '"Remark, with a comma"\n', ["above the table: 'A title'", "below the table"]),
        (
            BODY.replace("s3", ",,,\ns3") + ',,,\n"",,,""\nSource: a hospital,,,\n',
            ["Line 9 is left out, below", "2 rows without any content are left out."],
        ),
        (BODY.replace("s3", "\ns3") + ",,,\n", ["1 row without any content is left out."]),
        (BODY.replace("\n", ",\n"), ["1 column without name and content is left out."]),
        (BODY.replace("\n", ",,\n"), ["2 columns without name and content are left out."]),
        (
            BODY.replace("\ns", ",\ns", 4).replace("y,\n", "y\n").rstrip("\n") + ",\n",
            ["1 column without name and content"],
        ),
        (BODY.replace("y\n", "y\n,mg/l,mmol,\n"), ["Line 2 is left out: it holds text above numbers, such as 'mg/l'."]),
        (BODY.replace(",", "\t"), ["separated by tabs"]),
        (BODY.replace("s3", ",,,\ns3").replace(",", "\t") + "\t\t\t\r\n", ["2 rows without any content are left out."]),
    ],
)
def test_what_stands_around_a_table_is_left_out(file, engine, text, notes):
    table = tables.read(file(text), target="y")
    np.testing.assert_array_equal(table.X, VALUES)
    assert table.names == ("g1", "g2")
    assert table.y.tolist() == ["a", "b", "a", "b"]
    assert table.ids.tolist() == ["s1", "s2", "s3", "s4"]
    assert all(has_note(table, note) for note in notes), table.notes


def test_the_lines_above_a_gct_table_are_left_out(file, engine):
    rows = ["#1.2", "2\t4", "Name\tDescription\tp1\tp2\tp3\tp4", "g1\tgene\t1\t2\t3\t4", "g2\tgene\t5\t6\t7\t8"]
    labels = file("id,y\np1,a\np2,b\np3,a\np4,b\n", "labels.csv")
    table = tables.read(file("\n".join(rows)), target_file=labels, target="y")
    assert has_note(table, "Lines 1 to 2 are left out, above the table: '#1.2'.")
    assert has_note(table, "1 column of text is not taken for samples: 'Description'.")
    assert not any("has no entry" in note or "has no target" in note for note in table.notes)
    assert (table.names, table.X.tolist()) == (("g1", "g2"), [[1, 5], [2, 6], [3, 7], [4, 8]])


def test_lines_are_skipped_on_request(file):
    text = "one,two,three,four\n1,2,3,4\n" + BODY
    table = tables.read(file(text), target="y", skip_rows=2)
    np.testing.assert_array_equal(table.X, VALUES)
    with pytest.raises(ValueError, match="has no column 'y'"):
        tables.read(file(text), target="y")
    with pytest.raises(ValueError, match=r"is empty: it has no line .* after the 20 lines that --skip-rows leaves out"):
        tables.read(file(text), target="y", skip_rows=20)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BODY + "s5,1", "line 6 has 2 entries; look for a missing cell.* --skip-rows 1"),  # cut off
        (BODY + "s5\n", "line 6 has 1 entries"),
        ("A title\n" + BODY.replace("s2,2.5,3,b\n", "s2,2.5\n"), "cannot be read as a table"),
        (BODY.replace("s2,", "a remark here\ns2,"), "line 3 has 1 entries"),
    ],
)
def test_damage_is_not_taken_for_a_footnote(file, text, message):
    with pytest.raises(ValueError, match=message):
        tables.read(file(text), target="y")


def test_a_sample_of_text_is_not_taken_for_units(file):
    text = BODY.replace("s1,1.5,2,a", "s1,ND,ND,a")
    with pytest.raises(ValueError, match=r"column 'g1' holds 'ND' in line 2, not a number; .*--na .ND."):
        tables.read(file(text), target="y")
    table = tables.read(file(text), target="y", na=["ND"])
    assert np.isnan(table.X[0]).all()


# ---------------------------------------------------------------- cells


def test_missing_values_of_other_names(file, engine):
    text = "id,g1,g2,y\ns1,ND,2,a\ns2,2.5,-,b\ns3,-999,5,a\ns4,3.5,ND,b\n"
    with pytest.raises(ValueError, match=r"column 'g1' holds 'ND' in line 2, not a number; correct it.*--na"):
        tables.read(file(text), target="y")
    text += "s5,1,1,ND\n"
    table = tables.read(file(text), target="y", na=["ND", "-", "-999", "nothing"])
    np.testing.assert_array_equal(table.X, [[np.nan, 2], [2.5, np.nan], [np.nan, 5], [3.5, np.nan]])
    assert has_note(table, "(--na): 'ND' in 3 cells, '-' in 1 cell, '-999' in 1 cell, 'nothing' in 0 cells.")
    assert has_note(table, "1 sample has no target")
    np.savez(path := file("", "x.npz"), X=np.eye(4), y=np.arange(4))
    with pytest.raises(ValueError, match="NPZ holds numbers only; leave --na"):
        tables.read(path, na=["ND"])


def test_values_below_the_limit_of_detection(file, engine):
    text = "id,g1,g2,g3,y\ns1,<LOD,<0.5,1,a\ns2,2.5,3,BLQ,b\ns3,4,< 0.8,0,a\ns4,3.5,4,-1,b\n"
    with pytest.raises(
        ValueError, match=r"holds '<LOD' in line 2.* below the limit of detection. Choose --below-detect"
    ):
        tables.read(file(text), target="y")
    table = tables.read(file(text), target="y", below_detection="half-minimum")
    np.testing.assert_array_equal(table.X, [[1.25, 0.25, 1], [2.5, 3, -1], [4, 0.25, 0], [3.5, 4, -1]])
    assert has_note(table, "Below the limit of detection: '<LOD' in 1 cell, '<0.5' in 1 cell, 'BLQ' in 1 cell")
    assert has_note(table, "4 values are below the limit of detection; they are half of the smallest value")
    table = tables.read(file(text), target="y", below_detection="missing")
    assert np.isnan(table.X).sum() == 4
    rows = "gene,s1,s2,s3,s4\ng1,<LOD,4,2,3\ng2,1,1,<0.1,5\n"
    labels = file("id,y\ns1,a\ns2,b\ns3,a\ns4,b\n", "labels.csv")
    table = tables.read(file(rows), target_file=labels, below_detection="half-minimum")
    np.testing.assert_array_equal(table.X, [[1, 1], [4, 1], [2, 0.05], [3, 5]])
    with pytest.raises(ValueError, match="below_detection='zero' is none of None, 'half-minimum'"):
        tables.read(file(rows), target_file=labels, below_detection="zero")


def test_limits_of_detection_with_decimal_commas(file, engine):
    text = "id;g;crp;y\ns1;<0,5;<0,4;a\ns2;2,5;3,5;b\ns3;4;1,5;a\ns4;3,5;2;b\n"
    table = tables.read(file(text), target="y", covariates=["crp"], below_detection="half-minimum")
    assert table.X[:, 0].tolist() == [0.25, 2.5, 4, 3.5]
    assert table.covariates["crp"].tolist() == [0.2, 3.5, 1.5, 2]


def test_percent_signs(file, engine):
    table = tables.read(file("a,b,y\n12%,1,p\n7.5 %,2,q\n30%,3,p\n1%,4,q\n"), target="y")
    # the first column is text in no row
    assert table.X[:, 0].tolist() == [12, 7.5, 30, 1]
    table = tables.read(file("a,b,y\n1,12%,p\n2,7.5 %,q\n3,,p\n4,1%,q\n"), target="y")
    np.testing.assert_array_equal(table.X[:, 1], [12, 7.5, np.nan, 1])
    assert has_note(table, "3 cells have a percent sign: 12% was read as 12.")
    with pytest.raises(ValueError, match="'b' holds a percent sign among plain numbers in line 2; write all"):
        tables.read(file("a,b,y\n1,12%,p\n2,0.5,q\n3,1,p\n4,1%,q\n"), target="y")
    rows = "gene,s1,s2,s3,s4\nshare,1%,2%,3%,5%\ng,1.5,2.5,1,5\n"
    table = tables.read(file(rows + "y,p,q,p,q\n"), target="y")
    assert table.X[:, 0].tolist() == [1, 2, 3, 5]


def test_separators_of_thousands(file, engine):
    table = tables.read(file('a,b,y\n1,"1,234",p\n2,"12,345.5",q\n3,987,p\n4,1,q\n'), target="y")
    assert table.X[:, 1].tolist() == [1234, 12345.5, 987, 1]
    assert has_note(table, "2 cells have thousands separators: 1,234 was read as 1234.")
    table = tables.read(file("a\tb\ty\n1\t1,234\tp\n2\t12,345\tq\n3\t987\tp\n4\t1\tq\n"), target="y")
    assert table.X[:, 1].tolist() == [1234, 12345, 987, 1]
    table = tables.read(file("a;b;y\n1,5;1.234,5;p\n2;2,5;q\n3;1;p\n4;1;q\n"), target="y")
    assert table.X[:, 1].tolist() == [1234.5, 2.5, 1, 1]
    table = tables.read(file("a\tb\ty\n1,5\t1,234\tp\n2\t0,345\tq\n3\t987\tp\n4\t1\tq\n"), target="y")
    assert table.X[:, 1].tolist() == [1.234, 0.345, 987, 1]
    assert has_note(table, "1,5 was read as 1.5")


@pytest.mark.parametrize("separator", [";", "\t"])
def test_points_between_thousands_among_decimal_commas(file, engine, separator):
    """1.234 is a thousand only in a file that shows it elsewhere; the target is read in the same way."""
    rows = ["a;b;y", "1.234,5;1.234;2.500", "2,5;12.345;1,5", "0,5;999;3", "7;-4.000;4"]
    table = tables.read(file("\n".join(rows).replace(";", separator)), target="y")
    assert table.X.tolist() == [[1234.5, 1234], [2.5, 12345], [0.5, 999], [7, -4000]]
    assert table.y.tolist() == [2500, 1.5, 3, 4]
    assert has_note(table, "4 cells have thousands separators: 1.234,5 was read as 1234.5.")
    with pytest.raises(ValueError, match=r"holds '1\.234' in line 2, not a number; other cells have decimal commas"):
        tables.read(file("\n".join(rows).replace("1.234,5", "1,5").replace(";", separator)), target="y")


def test_a_column_with_other_decimals_is_not_left_out_as_text(file, engine):
    """A column of 1,5 among columns of 1.5 would be left out like a column of comments."""
    columns = [f"g{j}" for j in range(20)]
    rows = [",".join([f"{i}.5"] * 20 + [f'"{i},5"', f"{'ab'[i % 2]}"]) for i in range(1, 7)]
    text = ",".join([*columns, "comma", "y"]) + "\n" + "\n".join(rows) + "\n"
    with pytest.raises(ValueError, match="column 'comma' holds '1,5' in line 2, not a number; it looks like a decimal"):
        tables.read(file(text), target="y")


# ---------------------------------------------------------------- columns


def wide(extra_name, extra_cells, n=6, p=30):
    values = np.random.default_rng(0).standard_normal((n, p)).round(3).tolist()
    rows = [
        ",".join([*map(str, x), cell, "ab"[i % 2]]) for i, (x, cell) in enumerate(zip(values, extra_cells, strict=True))
    ]
    return ",".join([*(f"g{j}" for j in range(p)), extra_name, "y"]) + "\n" + "\n".join(rows) + "\n"


def test_names_of_samples_beside_numbers_of_rows_are_pointed_out(file):
    lines = wide("SampleId", [f"S{i}" for i in range(6)]).splitlines()
    path = file("\n".join(f"{i or ''},{line}" for i, line in enumerate(lines)))
    note = "Every sample has a name of its own in 'SampleId': --id-column 'SampleId' uses them."
    assert has_note(tables.read(path, target="y"), note)
    assert tables.read(path, target="y", id_column="SampleId").ids[0] == "S0"


def test_one_text_column_among_many(file, engine):
    path = file(wide("sex", ["F", "M", "F", "F", "M", "M"]))
    table = tables.read(path, target="y")
    assert "sex" not in table.names
    assert has_note(table, "1 column of text is left out: 'sex'. To use one, name it: --covariates removes its effect")
    assert tables.read(path, target="y", categorical=["sex"]).names[-1] == "sex"
    assert tables.read(path, target="y", covariates=["sex"]).covariates["sex"].tolist()[:2] == ["F", "M"]
    with pytest.raises(ValueError, match="column 'sex' holds 'F' in line 2, not a number; the column is text: name it"):
        tables.read(file(wide("sex", ["F", "M", "F", "F", "M", "M"], p=5)), target="y")
    with pytest.raises(ValueError, match="column 'g' holds 'high' in line 3, not a number; correct it"):
        tables.read(file(wide("g", ["1", "high", "2", "2", "3", "4"])), target="y")


def test_a_row_of_text_among_features_in_rows(file, engine):
    genes = "".join(f"g{i},{i}.5,{i + 1},{i + 2},{i}\n" for i in range(30))
    path = file("gene,s1,s2,s3,s4\ng,1,2,3,5\nsex,F,M,F,M\n" + genes + "y,a,b,a,b\n")
    table = tables.read(path, target="y")
    assert len(table.names) == 31
    assert has_note(table, "1 row of text is left out: 'sex'. To use one, name it: --covariates")
    assert tables.read(path, target="y", covariates=["sex"]).covariates["sex"].tolist() == ["F", "M", "F", "M"]


REPEATED = "A,B,A,A.2,y\n1,2,3,9,p\n2,3,6,8,q\n3,4,,7,p\n4,5,8,6,q\n"


def test_repeated_names_of_columns(file, engine):
    path = file(REPEATED)
    with pytest.raises(
        ValueError, match=r"several columns called 'A', the first in column 1 and column 3.*--duplicates"
    ):
        tables.read(path, target="y")
    table = tables.read(path, target="y", duplicates="rename")
    assert table.names == ("A", "B", "A.3", "A.2")
    assert has_note(table, "1 name is repeated, such as 'A'; the second one is called 'A.3' (--duplicates rename).")
    table = tables.read(path, target="y", duplicates="mean")
    np.testing.assert_array_equal(table.X, [[2, 2, 9], [4, 3, 8], [3, 4, 7], [6, 5, 6]])
    assert has_note(table, "columns with the same name are averaged (--duplicates mean).")
    table = tables.read(path, target="y", duplicates="first")
    np.testing.assert_array_equal(table.X, [[1, 2, 9], [2, 3, 8], [3, 4, 7], [4, 5, 6]])
    with pytest.raises(ValueError, match="several columns called 'y', the first in column 1 and column 3"):
        tables.read(file("y,a,y\n1,2,3\n1,2,3\n"), target="y", duplicates="mean")
    with pytest.raises(ValueError, match="column 'A' holds 'x' in line 3"):
        tables.read(file(REPEATED.replace("2,3,6", "2,3,x")), target="y", duplicates="mean")


def test_repeated_names_of_features_in_rows(file):
    path, labels = (
        file("gene,s1,s2,s3,s4\nA,1,2,3,5\nB,1,1,2,2\nA,3,2,5,7\n"),
        file("id,y\ns1,a\ns2,b\ns3,a\ns4,b\n", "l.csv"),
    )
    with pytest.raises(
        ValueError, match=r"several features called 'A', the first in line 2 and line 4; .*--duplicates"
    ):
        tables.read(path, target_file=labels)
    table = tables.read(path, target_file=labels, duplicates="mean")
    np.testing.assert_array_equal(table.X, [[2, 1], [2, 1], [4, 2], [6, 2]])
    path = file("gene,s1,s2,s2,s4\nA,1,2,3,5\n")
    with pytest.raises(
        ValueError, match=r"several samples called 's2', the first in column 3 and column 4.*\(--groups\)"
    ):
        tables.read(path, target_file=labels, duplicates="mean")


# ---------------------------------------------------------------- ids


@pytest.mark.parametrize(
    ("ids", "label_ids", "note"),
    [
        (["001", "002", "003", "004"], ["1", "2", "3", "4"], "'1' in labels.csv matches '001'"),
        (["S1", "S2", "S3", "S4"], ["s01", "s02", "s03", "s04"], "'s01' in labels.csv matches 'S1'"),
        (["TB.1", "TB.2", "TB.3", "X4"], ["TB-1", "TB-2", "TB-3", "4"], "'TB-1' in labels.csv matches 'TB.1'"),
    ],
)
def test_ids_that_are_spelt_differently(file, ids, label_ids, note):
    labels = file("id,y\n" + "".join(f"{name},{'ab'[i % 2]}\n" for i, name in enumerate(label_ids)), "labels.csv")
    table = tables.read(file("id,g\n" + "".join(f"{name},{i}.5\n" for i, name in enumerate(ids))), target_file=labels)
    assert table.ids.tolist() == ids
    assert table.y.tolist() == ["a", "b", "a", "b"]
    assert has_note(table, f"Ids are spelt differently: {note}.")
    genes = file(",".join(["gene", *ids]) + "\ng,1.5,2.5,3.5,4.5\nh,1,2,3,5\n")
    assert tables.read(genes, target_file=labels).ids.tolist() == ids


def test_repeated_ids(file):
    text = "id,g,y\n" + "".join(f"p{i // 2},{i}.5,{'ab'[i % 2]}\n" for i in range(6))
    table = tables.read(file(text), target="y", id_column="id")
    assert has_note(table, "3 ids are repeated, such as 'p0' in line 2 and line 3.")
    assert has_note(table, "--groups 'id' instead of --id-column")
    with pytest.raises(ValueError, match=r"column 'id' holds 'p0' in line 2, not a number; .*\(--groups\)"):
        tables.read(file(text), target="y")
    with pytest.raises(ValueError, match=r"several samples called 'p0', the first in line 2 and line 3 .*\(--groups\)"):
        tables.read(
            file(text.replace(",y", ",z")), target_file=file("id,y\np0,1\np1,2\np2,1\n", "l.csv"), drop_columns=["z"]
        )


def test_repeated_ids_in_a_column_of_text(file, rng, engine):
    header = ",".join(["dose", "Patient", *(f"g{j}" for j in range(30)), "y"])
    rows = [",".join(map(str, [i / 7, f"p{i // 2}", *rng.random(30), "ab"[i % 2]])) for i in range(8)]
    path = file("\n".join([header, *rows]) + "\n")
    with pytest.raises(ValueError, match=r"column 'Patient' has the name of an identifier, and 4 values for 8 samples"):
        tables.read(path, target="y")
    assert tables.read(path, target="y", groups="Patient").groups.tolist()[:3] == ["p0", "p0", "p1"]
    assert "Patient" not in tables.read(path, target="y", drop_columns=["Patient"]).names
    table = tables.read(file(path.read_text().replace("Patient", "site")), target="y")
    assert has_note(table, "1 column of text is left out: 'site'.")


def test_classes_that_differ_in_case_or_spaces(file, tmp_path):
    text = "g,y\n" + "".join(f"{i}.5,{y}\n" for i, y in enumerate(["case", "Case", "control", "case", "control"]))
    with pytest.raises(
        ValueError, match=r"has the classes 'Case' \(1 sample\) and 'case' \(2\), which differ in upper"
    ):
        tables.read(file(text), target="y")
    np.savez(tmp_path / "x.npz", X=np.eye(4), y=np.array(["a", "a ", "b", "b"]))
    assert tables.read(tmp_path / "x.npz").y.tolist() == ["a", "a", "b", "b"]


def test_the_display_of_a_table(file):
    table = tables.read(file(BODY), target="y", covariates=["g1"])
    assert repr(table) == "<Table of 4 samples and 1 features, with ids, covariates g1>"


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("x.rds", r"write.csv\(readRDS\('x.rds'\), 'x.csv'\)"),
        ("x.RData", r"load\('x.RData'\).*write.csv\(NAME, 'x.csv'\)"),
    ],
)
def test_files_of_r_are_refused_with_the_line_that_converts_them(file, name, line):
    with pytest.raises(ValueError, match=f"is a file of R, which only R reads. Write it as CSV there: {line}"):
        tables.read(file("x", name), target="y")


# ---------------------------------------------------------------- Parquet


@pytest.mark.parametrize("index_name", [None, "sample"])
def test_the_index_of_pandas_is_read_as_ids(tmp_path, index_name):
    name = index_name or "__index_level_0__"
    frame = pl.DataFrame({"g": [1.5, 2.5, 3.5, 0.5], "y": ["a", "b", "a", "b"], name: ["s1", "s2", "s3", "s4"]})
    path = tmp_path / "x.parquet"
    frame.write_parquet(path, metadata={"pandas": '{"index_columns": ["' + name + '"]}'})
    table = tables.read(path, target="y")
    assert table.ids.tolist() == ["s1", "s2", "s3", "s4"]
    assert table.names == ("g",)


def test_cells_of_parquet(tmp_path):
    cells = {"a": ["<LOD", "2", "ND", "4"], "b": [1.5, -9.0, 2.5, 3.5], "y": ["p", "q", "p", "q"]}
    pl.DataFrame(cells).write_parquet(path := tmp_path / "x.parquet")
    table = tables.read(path, target="y", na=["ND", "-9"], below_detection="half-minimum")
    np.testing.assert_array_equal(table.X, [[1, 1.5], [2, np.nan], [np.nan, 2.5], [4, 3.5]])
    assert has_note(table, "'ND' in 1 cell, '-9' in 1 cell")
    pl.DataFrame({"id": ["r1", "r2", "r3", "r4"], "z": [1, 2, 1, 2]}).write_parquet(labels := tmp_path / "l.parquet")
    text = tmp_path / "x.csv"
    text.write_text("id,g\nr1,1.5\nr2,2.5\nr3,2\nr4,1\n")
    assert tables.read(text, target_file=labels).y.tolist() == [1, 2, 1, 2]
    with pytest.raises(ValueError, match="cannot be a target file; write the target as text"):
        tables.read(text, target_file=__file__)
