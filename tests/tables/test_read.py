"""`read` as a whole: columns, notes, missing values, choice of samples, fingerprint, and errors of users."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from table_files import PLAIN, has_note

from randsel import RandSel
from randsel.tables import _read as tables
from randsel.tables import imputer


def test_csv(file, engine):
    table = tables.read(file(PLAIN), target="status", groups="donor")
    assert table.names == ("a", "b")
    np.testing.assert_array_equal(table.X, [[1, 2.5], [3, -400], [5, 6], [7, 0]])
    assert table.y.tolist() == ["sick", "well", "well", "sick"]
    assert table.groups.tolist() == ["d1", "d2", "d1", "d2"]
    assert table.ids.tolist() == ["r1", "r2", "r3", "r4"]
    part = table.rows(np.array([2, 0]))
    assert part.groups.tolist() == ["d1", "d1"]
    assert part.ids.tolist() == ["r3", "r1"]


def test_the_notes_say_what_was_found(file):
    table = tables.read(file(PLAIN), target="status", groups="donor")
    assert table.notes == (
        "table.csv: text, 5 columns separated by commas.",
        "Samples are in rows: the target 'status' is a column.",
        "The first column, which has no name, is taken for the names of samples.",
        "4 samples, 2 features: 0 categorical, 1 of whole numbers only, 0 constant; float64.",
        "The target 'status' is text of 2 levels: sick (2), well (2).",
    )


# ---------------------------------------------------------------- missing values

GAPS = "a,b,c,k,y\n1,NA,2,u,p\n2,,,v,q\n3,5,1,,p\n4,7,3,u,q\n6,9,4,v,\n"


def test_missing_values_are_counted(file, engine):
    words = r"5 entries of 3 columns \(2 entries of column 'b', 1 .* 'c', 1 .* 'k'\) are missing.*drop-columns"
    with pytest.raises(ValueError, match=words.replace("5 entries", "4 entries")):
        tables.read(file(GAPS), target="y", categorical=["k"], missing="error")


def test_missing_values_are_neutral_or_dropped(file, engine):
    table = tables.read(file(GAPS), target="y", categorical=["k"])
    assert np.isnan(table.X).sum() == 4
    assert has_note(table, "1 sample has no target and is left out.")
    assert has_note(table, "4 values are missing, in 3 of 4 columns.")
    assert has_note(table, "Missing values are neutral: they count as the mean of their column (--missing).")
    assert table.missing == "neutral"
    table = tables.read(file(GAPS), target="y", categorical=["k"], missing="drop-columns")
    assert table.names == ("a",)
    assert table.nominal == ()
    assert has_note(table, "3 columns with missing values are left out: b, c, k.")
    table = tables.read(file(GAPS), target="y", categorical=["k"], missing="median")
    assert table.missing == "median"
    assert np.isnan(table.X).sum() == 3
    assert table.X[:, 3].tolist() == [0, 1, 2, 0]  # what is missing is a level of its own


@pytest.mark.parametrize("log2", [False, True])
def test_indicators_say_where_values_are_missing(file, log2):
    table = tables.read(file(GAPS), target="y", categorical=["k"], missing="indicator", log2=log2)
    assert table.names == ("a", "b", "c", "k", "b missing", "c missing", "k missing")
    assert table.X[:, 4:].T.tolist() == [[1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]
    assert table.nominal == (3,)
    assert np.isnan(table.X).sum() == 4
    assert has_note(table, "3 columns that say where values are missing are added (--missing indicator).")
    assert tables.read(file("a,y\n1,p\n2,q\n3,p\n4,q\n"), target="y", missing="indicator").names == ("a",)
    text = "a,a missing,y\n,1,p\n2,2,q\n3,3,p\n4,4,q\n"
    with pytest.raises(ValueError, match="a column is named 'a missing', as an indicator would be; rename it"):
        tables.read(file(text), target="y", missing="indicator")


def test_columns_without_any_value(file):
    text = "a,b,y\n1,,p\n2,NA,q\n3,,p\n4,,q\n"
    with pytest.raises(ValueError, match=r"4 entries of column 'b'.* 1 of them have no value at all"):
        tables.read(file(text), target="y", missing="error")
    for missing in ("neutral", "indicator", "median"):
        table = tables.read(file(text), target="y", missing=missing)
        assert table.names == ("a",)
        assert has_note(table, "1 column with no value at all is left out: b.")
    with pytest.raises(ValueError, match="every column has missing values; choose --missing neutral"):
        tables.read(file("a,y\n,p\n2,q\n3,p\n4,q\n"), target="y", missing="drop-columns")
    with pytest.raises(ValueError, match="every column has no value at all; check how the table was read"):
        tables.read(file("a,y\n,p\n,q\n,p\n,q\n"), target="y")


def test_the_imputer_uses_training_rows_only(rng):
    X = rng.standard_normal((40, 5))
    X[::7, 2] = np.nan
    y = (X[:, 0] > 0).astype(int)
    fitted = make_pipeline(imputer(), RandSel(1)).fit(X[:30], y[:30])
    assert fitted[0].statistics_[2] == np.nanmedian(X[:30, 2])
    assert fitted.transform(X[30:]).shape == (10, 1)


def test_logarithms(file):
    table = tables.read(file("a,k,y\n8,1,p\n0,2,q\n-1,1,p\n2,2,q\n"), target="y", categorical=["k"], log2=True)
    np.testing.assert_allclose(table.X[:, 0], [3, np.log2(1e-3), np.log2(1e-3), 1])
    assert table.X[:, 1].tolist() == [0, 1, 0, 1]
    assert has_note(table, "2 values below 0.001")


def test_classes_are_chosen_by_label_or_by_text(file):
    text = "a,y\n1,Latent TB\n2,control\n3,other\n4,latent\n5,Control (BCG)\n6,other\n"
    table = tables.read(file(text), target="y", classes={"latent": "L", "control": "C"})
    assert table.y.tolist() == ["L", "C", "L", "C"]
    assert has_note(table, "2 samples of other classes are left out.")
    table = tables.read(file(text.replace("control", "x").replace("latent", "x")), target="y", classes=["x", "other"])
    assert table.X[:, 0].tolist() == [2, 3, 4, 6]
    with pytest.raises(ValueError, match="fewer than two of the classes"):
        tables.read(file(text), target="y", classes=["latent"])


def test_fingerprint(file):
    table = tables.read(file(PLAIN), target="status", groups="donor")
    same = tables.read(file(PLAIN.replace(",", "\t"), "table.tsv"), target="status", groups="donor")
    assert table.fingerprint() == same.fingerprint()
    assert len(table.fingerprint()) == 64
    half = tables.replace(table, X=table.X.astype(np.float32))
    assert half.fingerprint() == table.fingerprint()
    X = table.X.copy()
    X[3, 1] = -0.0
    assert tables.replace(table, X=X).fingerprint() == table.fingerprint()
    others = [
        {"X": table.X + 1e-9},
        {"names": ("a", "c")},
        {"y": np.roll(table.y, 1)},
        {"groups": None},
        {"groups": None, "batch": table.groups},
    ]
    marks = {tables.replace(table, **change).fingerprint() for change in others}
    assert len(marks | {table.fingerprint()}) == 6


# ---------------------------------------------------------------- what users get wrong

IDS = "name,a\n" + "".join(f"n{i},{i}\n" for i in range(40))


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a,status\n1,x\n", {"target": "statsu"}, "has no column 'statsu'; did you mean 'status'"),
        ("a,b\n1,x\n", {"target": "zzzz"}, "its first columns are .*give the target in a file of its own"),
        ("a,Y\n1,x\n", {"target": "y"}, "has no column 'y'; did you mean 'Y'"),
        (PLAIN, {"target": "status", "groups": "doner"}, "no column 'doner'; did you mean 'donor'"),
        (PLAIN, {"target": "status", "drop_columns": ["dono"]}, "no column 'dono'; did you mean 'donor'"),
        (PLAIN, {"target": "status", "id_column": "dono"}, "no column 'dono'; did you mean 'donor'"),
        (PLAIN, {}, "no target is named; name its column .--target. or its file"),
        ("a,b,y\n1,2,x\n1,high,x\n1,low,x\n1,2,z\n", {}, "column 'b' holds 'high' in line 3, not a number; correct it"),
        ("a,b,c,y\n1,u,u,x\n1,u,u,x\n1,1,1,x\n1,2,1,z\n", {}, "column 'b' holds .* 1 other column holds text, too."),
        ("a,b,y\nA/A,AG,x\nA/B,GG,x\nA/A,AA,z\nA/B,GG,z\n", {}, "holds 'A/A' in line 2, .* it looks like a genotype"),
        ("a,b,c,y\n-,ND,1,x\n1,1,n.d,x\n1,1,1,x\n1,2,1,z\n", {}, "hold text, too, such as 'ND', 'n.d'"),
        ("a,y\nu,1\nu,2\n1,3\n1,4\n", {}, "column 'a' holds 'u' in line 2, not a number"),
        ('a,b,y\n1,"1,5",x\n1,1,x\n1,1,z\n1,1,z\n', {}, "looks like a decimal comma: write a decimal point"),
        ("a,b,y\n1,2020-03-01,x\n1,1,x\n1,1,z\n1,1,z\n", {}, "'2020-03-01' in line 2.* it looks like a date"),
        ("a,b,y\n1,3.12.99,x\n1,1,x\n1,1,z\n1,1,z\n", {}, "it looks like a date"),
        ("a,b,y\n1,1_000,x\n1,1,x\n1,1,z\n1,1,z\n", {}, "holds '1_000' in line 2, not a number"),
        ("a,y\n1,x\n2\n", {}, "header has 2 columns, and line 3 has 1 entries; look for a missing cell"),
        ("a,y\n", {}, "it has no rows"),
        ("", {}, "is empty"),
        ("\n \n", {}, "is empty"),
        ("a,a,b,b,y\n1,2,3,4,x\n", {}, "several columns called 'a', .* .1 other name is repeated, too"),
        ('a,y\n1,"x\n2,z\n', {}, "the quotation mark in line 2 is never closed"),
        ("a,y\n1,x\n2,z\n", {}, "has 2 samples with a target, and at least 4 are needed. If features are in rows"),
        ("a,y\n1,x\n2,x\n3,x\n4,x\n", {}, "the target 'y' is x in all 4 samples"),
        (IDS, {"target": "name"}, "text of 40 levels in 40 samples, such as 'n0'; is it a column of ids"),
        ("a,g,y\n1,u,0\n2,u,0\n3,v,1\n4,v,1\n", {"groups": "g"}, "the groups are the classes of the target 'y'"),
        (
            "a,age,y\n1,20,0\n2,30,0\n3,40,1\n4,50,1\n",
            {"covariates": ["agee"], "drop_columns": ["age"]},
            r"did you mean 'age'\?$",
        ),
        ("a,g,y\n1,u,0\n2,u,0\n3,,1\n4,v,1\n", {"groups": "g"}, "one entry of column 'g' is missing, .* sample 3"),
        (PLAIN, {"target": "status", "groups": "status"}, "'status' is named twice, for two purposes"),
        ("a,b,y\n1,inf,0\n2,1,0\n3,-inf,1\n4,1,1\n", {}, r": 2 entries of column 'b' are infinite; replace"),
        ("a,y\n1,0\n2,0\n3,1\n4,1\n", {"drop_columns": ["a"]}, "has no features"),
        ("a,y\n1,0\n2,0\n3,1\n4,1\n", {"layer": "counts"}, "layers are parts of h5ad"),
        ("a,y\n1,0\n2,0\n3,1\n4,1\n", {"missing": "mean"}, "missing='mean' is none of 'neutral', 'indicator'"),
        ("a,y\n1,0\n2,0\n3,1\n4,1\n", {"orientation": "rows"}, "orientation='rows' is none of"),
        ("a,y\n1,0\n2,0\n3,1\n4,1\n", {"max_bytes": "much"}, "max_bytes='much' is not a size"),
        ("a,y\n1,0\n2,0\n3,1\n4,1\n", {"max_bytes": 8}, "unpacks to more than .* raise the limit: --max-bytes"),
        ("a,y\n1,0\n2,0\n3,1\n4,1\n", {"batches": [0]}, "its batches cannot be chosen"),
    ],
)
def test_errors_in_a_table_are_reported(file, engine, text, options, message):
    given = {} if message.startswith("no target") else {"target": "y"}
    with pytest.raises(ValueError, match=message):
        tables.read(file(text), **(given | options))


def test_missing_files_are_reported(file, tmp_path):
    file(PLAIN, "expression.csv")
    with pytest.raises(ValueError, match=r"does not exist; did you mean 'expression.csv'\?"):
        tables.read(tmp_path / "expresion.csv", target="y")
    with pytest.raises(ValueError, match="does not exist; check the name"):
        tables.read(tmp_path / "no" / "x.csv", target="y")
    with pytest.raises(ValueError, match="is a folder; name the file in it"):
        tables.read(tmp_path, target="y")
