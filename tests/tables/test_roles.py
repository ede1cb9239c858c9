"""Roles of rows and columns: orientation, and the target in a file of its own."""

import numpy as np
import pytest
from table_files import PLAIN, has_note

from randsel.tables import _read as tables

GENES = "gene,s1,s2,s3,s4\ng1,1,2,3,4\ng2,5,6,7,8\ng3,9,10,11,12\n"
SHEET = "sample\tstatus\tdonor\ns4\tsick\td1\ns1\twell\td1\ns2\tsick\td2\ns3\twell\td2\n"


def test_features_in_rows_are_recognised_by_the_ids_of_a_target_file(file, engine):
    table = tables.read(file(GENES), target_file=file(SHEET, "labels.tsv"), target="status", groups="donor")
    assert table.names == ("g1", "g2", "g3")
    np.testing.assert_array_equal(table.X, np.arange(1, 13).reshape(3, 4).T)
    assert table.y.tolist() == ["well", "sick", "well", "sick"]
    assert table.groups.tolist() == ["d1", "d2", "d2", "d1"]
    assert table.ids.tolist() == ["s1", "s2", "s3", "s4"]
    assert has_note(table, "Features are in rows: ids of the target file are in the header.")
    assert has_note(table, "matched by column 'sample' of labels.tsv")


def test_a_target_file_that_does_not_exist(file, tmp_path):
    with pytest.raises(ValueError, match=r"nowhere.csv does not exist; check the name and the folder"):
        tables.read(file(GENES), target_file=tmp_path / "nowhere.csv", target="status")


def test_features_in_rows_are_recognised_by_a_row_of_the_target(file, engine):
    table = tables.read(file(GENES + "status,sick,well,sick,well\n"), target="status", drop_columns=["g2"])
    assert table.names == ("g1", "g3")
    assert table.y.tolist() == ["sick", "well", "sick", "well"]
    assert has_note(table, "Features are in rows: the target 'status' is a row.")


def test_samples_in_rows_with_a_target_file(file, engine):
    rows = "id,a,b\ns1,1,2\ns2,3,4\ns3,5,6\ns4,7,8\ns5,9,10\n"
    table = tables.read(file(rows), target_file=file("id,y\ns2,1\ns1,0\ns4,1\ns3,0\ns9,1\n", "y.csv"))
    np.testing.assert_array_equal(table.X, [[1, 2], [3, 4], [5, 6], [7, 8]])
    assert table.y.tolist() == [0, 1, 0, 1]
    assert has_note(table, "Samples are in rows: ids of the target file are in the rows.")
    assert has_note(table, "1 sample has no entry in y.csv: s5.")
    assert has_note(table, "1 entry of y.csv has no sample in table.csv: s9.")


def test_a_target_file_of_one_column_is_taken_in_order(file):
    table = tables.read(file(GENES), target_file=file("y\n1\n0\n1\n0\n", "y.csv"))
    assert table.y.tolist() == [1, 0, 1, 0]
    assert has_note(table, "the 4 entries of the target file are as many as the header")
    assert has_note(table, "y.csv has no ids: its 4 entries are taken in the order of the samples.")


def test_other_columns_besides_the_samples_are_left_out(file, engine):
    counts = "Geneid,Chr,Length,s1,s2,s3,s4\ng1,chr1,100,1,2,3,4\ng2,chrX,200,5,6,7,8\n"
    table = tables.read(file(counts), target_file=file(SHEET, "labels.tsv"), target="status")
    assert table.ids.tolist() == ["s1", "s2", "s3", "s4"]
    assert has_note(table, "1 sample has no entry in labels.tsv: Length.")
    assert has_note(table, "1 column of text is not taken for samples: 'Chr'.")
    named = tables.read(file(counts + "status,,,a,b,a,b\n"), target="status", drop_columns=["Length"], id_column="Chr")
    assert named.names == ("chr1", "chrX")


@pytest.mark.parametrize(
    ("text", "labels", "options", "message"),
    [
        (GENES, "id,y\nx1,1\nx2,0\n", {}, "neither in the header .'s1', 's2', …. nor in the rows .*--id-column"),
        ("id,a,b\na,1,2\nb,3,4\n", "id,y\na,1\nb,0\n", {}, "both in the header and in the rows"),
        ("a,b,c\n1,2,3\n1,2,3\n", "y\n1\n0\n", {}, "both in the header and in the rows"),
        (GENES, "id,y\ns1,1\ns1,0\ns2,0\n", {}, "several ids in column 'id' called 's1'"),
        (GENES, SHEET, {}, r"has the columns \['status', 'donor'\]; say which is the target"),
        (GENES, SHEET, {"target": "statu"}, "no column 'statu'; did you mean 'status'"),
        (GENES, "y\n1\n0\n", {"orientation": "features-in-rows"}, "has one column, so no ids, and 2 entries for 4"),
        ("a,b\n1,2\n3,4\n", "id,y\n1,0\n7,1\n", {"orientation": "features-in-rows"}, "share no ids of samples"),
        (
            "a,b\n1,2\n1,4\n1,3\n",
            "id,z\ns,0\nt,1\nu,1\n",
            {"orientation": "samples-in-rows"},
            "no ids of samples to match",
        ),
        (PLAIN, "id,status\nr1,0\nr2,1\n", {}, "the target 'status' is in .*table.csv and in .*labels"),
        (PLAIN, "id,y\nr1,0\nr2,1\n", {"target": "status"}, "there is a target file without it"),
        (GENES + "g1,0,0,0,0\n", SHEET, {"target": "status"}, "several features called 'g1'"),
        (GENES + "g4,1,x,3,4\n", SHEET, {"target": "status"}, "column 's2' holds 'x' in line 5"),
    ],
)
def test_errors_in_a_target_file_are_reported(file, text, labels, options, message):
    with pytest.raises(ValueError, match=message):
        tables.read(file(text), target_file=file(labels, "labels.txt"), **options)


def test_a_row_and_a_column_of_one_name(file):
    text = "id,y,b\ny,1,2\nr,3,4\ns,5,6\nt,7,8\n"
    with pytest.raises(ValueError, match=r"both a column and a row called 'y'. Say which"):
        tables.read(file(text), target="y")
    table = tables.read(file(text), target="y", orientation="samples-in-rows")
    assert has_note(table, "Samples are in rows: as asked for.")
    assert table.ids.tolist() == ["y", "r", "s", "t"]


def test_a_percent_sign_in_some_cells_of_the_target_only(file):
    text = "a,y\n1,50%\n2,0.4\n3,30%\n4,0.2\n5,10%\n"
    with pytest.raises(ValueError, match="the target 'y' has a percent sign in some cells only"):
        tables.read(file(text), target="y")
    alike = tables.read(file(text.replace("0.4", "40%").replace("0.2", "20%")), target="y")
    assert alike.y.tolist() == [50.0, 40.0, 30.0, 20.0, 10.0]


def test_numbers_of_the_target_that_may_stand_for_missing_values_are_noted(file, rng):
    X = rng.standard_normal((12, 3)).round(3)
    y = rng.standard_normal(12).round(3) + 20.0
    y[[1, 2]] = -9.0
    text = "\n".join(["a,b,c,y", *(",".join(map(str, row)) for row in np.column_stack([X, y]))]) + "\n"
    table = tables.read(file(text), target="y")
    assert has_note(table, "The number -9 is far from all other values of the target 'y'")
    told = tables.read(file(text), target="y", na=["-9.0"])
    assert not has_note(told, "far from all other values")
    assert len(told.y) == 10


def test_classes_that_may_mean_that_the_class_is_not_known_are_noted(file):
    text = "a,y\n1,case\n2,control\n3,case\n4,control\n5,Unknown\n6,case\n7,control\n"
    table = tables.read(file(text), target="y")
    assert has_note(table, "Unknown is taken for a class of 'y'. If the class of these samples is not known, say so")
    told = tables.read(file(text), target="y", na=["Unknown"])
    assert not has_note(told, "is taken for a class")
    assert len(told.y) == 6
    # two classes, one of which may be called so
    text = text.replace("control", "unknown").replace("Unknown", "unknown")
    assert not has_note(tables.read(file(text), target="y"), "is taken for a class")


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        ("y,age\np,1\nq,\np,2\nq,3\n", {"covariates": ["age"]}, "one entry of column 'age' is missing"),
        ("y,age\np,1\nq,old\np,2\nq,3\n", {"target": "age"}, "the target 'age' is text of 4 levels"),
        ("y,age\n5%,1\n5,1\n2,2\n1,3\n", {"target": "y"}, "the target 'y' has a percent sign in some cells only"),
        ("d,t\n0,1\n1,0\n1,2\n1,3\n", {"event": "d", "time": "t"}, "times in 't' must be above zero"),
        ("d,t\nno,1\nmaybe,1\nyes,2\nyes,3\n", {"event": "d", "time": "t"}, "column 'd' holds 'maybe'"),
        ("d,t\n0,1\n1,\n1,2\n1,3\n", {"event": "d", "time": "t"}, "sample 's1' has an event in 'd' but no time"),
    ],
)
def test_errors_name_the_target_file(tmp_path, labels, options, message):
    (tmp_path / "table.csv").write_text("id,a,b\n" + "".join(f"s{i},{i},{i * i}\n" for i in range(4)))
    lines = [f"{'s' + str(i - 1) if i else 'id'},{line}" for i, line in enumerate(labels.splitlines())]
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    options = {"target": None if "event" in options else "y", **options}
    with pytest.raises(ValueError, match=rf"labels\.csv: .*{message}"):
        tables.read(tmp_path / "table.csv", target_file=tmp_path / "labels.csv", **options)


def test_roles_without_effect_are_noted(tmp_path):
    rows = "".join(f"{'pq'[i % 2]},Basse,1,{i},{i * i}\n" for i in range(6))
    (tmp_path / "table.csv").write_text("y,centre,plate,a,b\n" + rows)
    table = tables.read(
        tmp_path / "table.csv", target="y", covariates=["centre"], batch="plate", below_detection="missing"
    )
    assert "Column 'centre' has one value in all samples (Basse), so it has no effect as a covariate." in table.notes
    assert "Column 'plate' has one value in all samples (1), so it has no effect as a batch." in table.notes
    assert "No cell is below the limit of detection, so --below-detection changes nothing." in table.notes
    with pytest.raises(ValueError, match="--target-sheet is a sheet of --target-file; name that file"):
        tables.read(tmp_path / "table.csv", target="y", target_sheet="samples")
