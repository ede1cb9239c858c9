"""Text tables: what is read, what is said, and what is refused with a sentence."""

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline

from randsel import RandSel
from randsel.tables import _read as tables
from randsel.tables.formats import _text
from randsel.tables.formats._sheet import ReadOptions


@pytest.fixture(params=["polars", "python"])
def engine(request, monkeypatch):
    """Read numbers with polars, and without it."""
    if request.param == "python":
        monkeypatch.setattr(_text, "optional", absent)
    return request.param


def absent(module, *, extra, purpose):
    msg = f"{purpose} needs {module}, which is not installed: pip install {module} (part of the extra '{extra}')."
    raise ImportError(msg)


@pytest.fixture
def file(tmp_path):
    def write(content, name="table.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


PLAIN = ",a,b,status,donor\nr1,1,2.5,sick,d1\nr2,3,-4e2,well,d2\nr3,5,6,well,d1\nr4,7,0,sick,d2\n"


def said(table, words):
    return any(words in note for note in table.notes)


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


def test_tabs_gzip_mark_and_numbers_as_target(file, engine):
    content = gzip.compress(b"\xef\xbb\xbfa\tb\ty\n1\t2\t0.5\n3\t4\t1.5\n5\t6\t2\n7\t8\t2.5\n")
    for name in ("table.tsv.gz", "table.tsv"):  # compressed, whatever it is called
        table = tables.read(file(content, name), target="y")
        assert table.names == ("a", "b")
        assert table.y.tolist() == [0.5, 1.5, 2, 2.5]


@pytest.mark.parametrize("encoding", ["utf-16", "cp1252", "utf-8-sig", "utf-8"])
def test_encodings(file, encoding):
    table = tables.read(file("Größe;y\n1;a\n2;b\n3;a\n4;b\n".encode(encoding)), target="y")
    assert table.names == ("Größe",)
    assert said(table, "Windows-1252") == (encoding == "cp1252")
    assert said(table, "UTF-16") == (encoding == "utf-16")
    assert said(table, "semicolons")


def test_decimal_commas_between_semicolons(file, engine):
    table = tables.read(file("a;b;y\n1,5;2;0,5\n-,25;3;1\n4;5;1,5\n6;7;2\n"), target="y")
    np.testing.assert_array_equal(table.X, [[1.5, 2], [-0.25, 3], [4, 5], [6, 7]])
    assert table.y.tolist() == [0.5, 1, 1.5, 2]
    assert said(table, "1,5 was read as 1.5")
    with pytest.raises(ValueError, match=r"holds '2.5' in line 3, not a number; other cells have decimal commas"):
        tables.read(file("a;b;y\n1;1,5;0\n1;2.5;1\n1;2;0\n1;2;1\n"), target="y")


def test_quotes_spaces_and_names_of_rows_without_a_header(file, engine):
    quoted = '"a,1","y"\n"r""1",1.5,"x, y"\n"r\n2",2,"z"\nr3,3,z\nr4,4,"x, y"\n'
    table = tables.read(file(quoted), target="y")
    assert table.names == ("a,1",)
    assert table.ids.tolist() == ['r"1', "r\n2", "r3", "r4"]
    assert table.y.tolist() == ["x, y", "z", "z", "x, y"]
    assert said(table, "The header has a name less")
    table = tables.read(file("a  b y\n1 2  x\n 3 4 z\n5 6 x\n7 8 z\n", "table.txt"), target="y")
    np.testing.assert_array_equal(table.X, [[1, 2], [3, 4], [5, 6], [7, 8]])


def test_truth_values_are_numbers_and_mixtures_are_not(file, engine):
    table = tables.read(file("t,a,y\nTrue,1,x\nFALSE,2,z\ntrue,3,x\nNA,4,z\n"), target="y", missing="keep")
    np.testing.assert_array_equal(table.X[:, 0], [1, 0, 1, np.nan])
    table = tables.read(file("a,t,y\n1,True,x\n2,FALSE,z\n3,true,x\n4,False,z\n"), target="y")
    np.testing.assert_array_equal(table.X[:, 1], [1, 0, 1, 0])
    assert said(table, "1 columns hold True and False")
    with pytest.raises(ValueError, match="'t' holds 'True or False beside numbers' in line 2"):
        tables.read(file("a,t,y\n1,True,x\n2,3,z\n2,3,x\n2,3,z\n"), target="y")


def test_categorical_dropped_and_id_columns(file, engine):
    text = "kind,a,name,when,y\nred,1,n1,2020-01-01,0\nblue,2,n2,,1\nred,3,n3,x,0\nblue,4,n4,x,1\n"
    table = tables.read(file(text), target="y", categorical=["kind"], drop_columns=["when"], id_column="name")
    assert table.names == ("kind", "a")
    assert table.nominal == (0,)
    np.testing.assert_array_equal(table.X, [[1, 1], [0, 2], [1, 3], [0, 4]])
    assert table.ids.tolist() == ["n1", "n2", "n3", "n4"]


def test_long_integers_stay_apart(file, engine):
    text = "id,a,y\n" + "\n".join(f"9007199254740{n},{n},{n % 2}" for n in range(993, 997))
    table = tables.read(file(text), target="y", id_column="id")
    assert len(set(table.ids.tolist())) == 4
    with pytest.raises(ValueError, match="column 'id' holds 9007199254740993, more digits than a number keeps"):
        tables.read(file(text), target="y")
    text = "a,y\n" + "\n".join(f"{n},900719925474099{2 + n % 2}" for n in range(8))
    assert set(tables.read(file(text), target="y").y.tolist()) == {"9007199254740992", "9007199254740993"}


@given(st.lists(st.one_of(st.floats().map(repr), st.text("0123456789.,eE+-_ naNinfTrue", max_size=6)), min_size=4))
def test_polars_and_python_read_the_same(tmp_path_factory, cells):
    path = tmp_path_factory.mktemp("cells") / "table.tsv"
    path.write_text("n\ta\n" + "".join(f"r\t{cell}\n" for cell in cells))
    found = [_text.read_text(path, ReadOptions(10**6, frozenset({"n"})))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_text, "optional", absent)
        found.append(_text.read_text(path, ReadOptions(10**6, frozenset({"n"}))))
    np.testing.assert_array_equal(found[0].values, found[1].values)
    assert found[0].bad_columns == found[1].bad_columns


def test_blocks_do_not_show(file, engine, monkeypatch, rng):
    X = rng.standard_normal((30, 7))
    rows = "".join(f"{'ab'[i % 2]},{','.join(map(repr, x))}\n" for i, x in enumerate(X.tolist()))
    monkeypatch.setattr(_text, "_BLOCK", 300)
    table = tables.read(file("y,c0,c1,c2,c3,c4,c5,c6\n" + rows), target="y")
    np.testing.assert_array_equal(table.X, X)


# ---------------------------------------------------------------- orientation and target files

GENES = "gene,s1,s2,s3,s4\ng1,1,2,3,4\ng2,5,6,7,8\ng3,9,10,11,12\n"
SHEET = "sample\tstatus\tdonor\ns4\tsick\td1\ns1\twell\td1\ns2\tsick\td2\ns3\twell\td2\n"


def test_features_in_rows_are_recognised_by_the_ids_of_a_target_file(file, engine):
    table = tables.read(file(GENES), target_file=file(SHEET, "labels.tsv"), target="status", groups="donor")
    assert table.names == ("g1", "g2", "g3")
    np.testing.assert_array_equal(table.X, np.arange(1, 13).reshape(3, 4).T)
    assert table.y.tolist() == ["well", "sick", "well", "sick"]
    assert table.groups.tolist() == ["d1", "d2", "d2", "d1"]
    assert table.ids.tolist() == ["s1", "s2", "s3", "s4"]
    assert said(table, "Features are in rows: ids of the target file are in the header.")
    assert said(table, "matched by column 'sample' of labels.tsv")


def test_features_in_rows_are_recognised_by_a_row_of_the_target(file, engine):
    table = tables.read(file(GENES + "status,sick,well,sick,well\n"), target="status", drop_columns=["g2"])
    assert table.names == ("g1", "g3")
    assert table.y.tolist() == ["sick", "well", "sick", "well"]
    assert said(table, "Features are in rows: the target 'status' is a row.")


def test_samples_in_rows_with_a_target_file(file, engine):
    rows = "id,a,b\ns1,1,2\ns2,3,4\ns3,5,6\ns4,7,8\ns5,9,10\n"
    table = tables.read(file(rows), target_file=file("id,y\ns2,1\ns1,0\ns4,1\ns3,0\ns9,1\n", "y.csv"))
    np.testing.assert_array_equal(table.X, [[1, 2], [3, 4], [5, 6], [7, 8]])
    assert table.y.tolist() == [0, 1, 0, 1]
    assert said(table, "Samples are in rows: ids of the target file are in the rows.")
    assert said(table, "1 samples have no entry in y.csv, left out: s5.")
    assert said(table, "1 entries of y.csv have no sample in table.csv: s9.")


def test_a_target_file_of_one_column_is_taken_in_order(file):
    table = tables.read(file(GENES), target_file=file("y\n1\n0\n1\n0\n", "y.csv"))
    assert table.y.tolist() == [1, 0, 1, 0]
    assert said(table, "the 4 entries of the target file are as many as the header")
    assert said(table, "y.csv has no ids: its 4 entries are taken in the order of the samples.")


def test_columns_beside_the_samples_do_not_disturb(file, engine):
    counts = "Geneid,Chr,Length,s1,s2,s3,s4\ng1,chr1,100,1,2,3,4\ng2,chrX,200,5,6,7,8\n"
    table = tables.read(file(counts), target_file=file(SHEET, "labels.tsv"), target="status")
    assert table.ids.tolist() == ["s1", "s2", "s3", "s4"]
    assert said(table, "2 samples have no entry in labels.tsv, left out: Chr, Length.")
    named = tables.read(file(counts + "status,,,a,b,a,b\n"), target="status", drop_columns=["Length"], id_column="Chr")
    assert named.names == ("chr1", "chrX")


@pytest.mark.parametrize(
    ("text", "labels", "options", "message"),
    [
        (GENES, "id,y\nx1,1\nx2,0\n", {}, "neither in the header nor in the rows, .* --orientation samples-in-rows or"),
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
def test_what_is_wrong_with_a_target_file_is_said(file, text, labels, options, message):
    with pytest.raises(ValueError, match=message):
        tables.read(file(text), target_file=file(labels, "labels.txt"), **options)


def test_a_row_and_a_column_of_one_name(file):
    text = "id,y,b\ny,1,2\nr,3,4\ns,5,6\nt,7,8\n"
    with pytest.raises(ValueError, match=r"both a column and a row called 'y'. Say which"):
        tables.read(file(text), target="y")
    table = tables.read(file(text), target="y", orientation="samples-in-rows")
    assert said(table, "Samples are in rows: as asked for.")
    assert table.ids.tolist() == ["y", "r", "s", "t"]


# ---------------------------------------------------------------- missing values

GAPS = "a,b,c,k,y\n1,NA,2,u,p\n2,,,v,q\n3,5,1,,p\n4,7,3,u,q\n6,9,4,v,\n"


def test_missing_values_are_counted(file, engine):
    words = r"5 entries of 3 columns \(2 entries of column 'b', 1 .* 'c', 1 .* 'k'\) are missing.*drop-columns"
    with pytest.raises(ValueError, match=words.replace("5 entries", "4 entries")):
        tables.read(file(GAPS), target="y", categorical=["k"])


def test_missing_values_are_kept_or_dropped(file, engine):
    table = tables.read(file(GAPS), target="y", categorical=["k"], missing="keep")
    assert np.isnan(table.X).sum() == 4
    assert said(table, "1 samples have no target and are left out.")
    assert said(table, "4 values are missing, in 3 of 4 columns.")
    table = tables.read(file(GAPS), target="y", categorical=["k"], missing="drop-columns")
    assert table.names == ("a",)
    assert table.nominal == ()
    assert said(table, "3 columns with missing values are left out.")
    table = tables.read(file(GAPS), target="y", categorical=["k"], missing="median")
    assert table.missing == "median"
    assert np.isnan(table.X).sum() == 3
    assert table.X[:, 3].tolist() == [0, 1, 2, 0]  # what is missing is a level of its own


def test_columns_without_any_value(file):
    text = "a,b,y\n1,,p\n2,NA,q\n3,,p\n4,,q\n"
    with pytest.raises(ValueError, match=r"4 entries of column 'b'.* 1 of them have no value at all"):
        tables.read(file(text), target="y")
    table = tables.read(file(text), target="y", missing="median")
    assert table.names == ("a",)
    assert said(table, "1 columns with no value at all are left out.")
    with pytest.raises(ValueError, match="every column has missing values; choose --missing median"):
        tables.read(file("a,y\n,p\n2,q\n3,p\n4,q\n"), target="y", missing="drop-columns")


def test_the_imputer_is_a_step_that_sees_training_rows_only(rng):
    X = rng.standard_normal((40, 5))
    X[::7, 2] = np.nan
    y = (X[:, 0] > 0).astype(int)
    fitted = make_pipeline(tables.imputer(), RandSel(1)).fit(X[:30], y[:30])
    assert fitted[0].statistics_[2] == np.nanmedian(X[:30, 2])
    assert fitted.transform(X[30:]).shape == (10, 1)


def test_logarithms(file):
    table = tables.read(file("a,k,y\n8,1,p\n0,2,q\n-1,1,p\n2,2,q\n"), target="y", categorical=["k"], log2=True)
    np.testing.assert_allclose(table.X[:, 0], [3, np.log2(1e-3), np.log2(1e-3), 1])
    assert table.X[:, 1].tolist() == [0, 1, 0, 1]
    assert said(table, "2 values below 0.001")


def test_classes_are_chosen_by_label_or_by_text(file):
    text = "a,y\n1,Latent TB\n2,control\n3,other\n4,latent\n5,Control (BCG)\n6,other\n"
    table = tables.read(file(text), target="y", classes={"latent": "L", "control": "C"})
    assert table.y.tolist() == ["L", "C", "L", "C"]
    assert said(table, "2 samples of other classes are left out.")
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
        (PLAIN, {"target": "status", "groups": "doner"}, "no column 'doner'; did you mean 'donor'"),
        (PLAIN, {"target": "status", "drop_columns": ["dono"]}, "no column 'dono'; did you mean 'donor'"),
        (PLAIN, {"target": "status", "id_column": "dono"}, "no column 'dono'; did you mean 'donor'"),
        (PLAIN, {}, "no target is named; name its column .--target. or its file"),
        ("a,b,y\n1,2,x\n1,high,x\n1,low,x\n1,2,z\n", {}, "column 'b' holds 'high' in line 3, not a number; leave"),
        ("a,b,c,y\n1,u,u,x\n1,u,u,x\n1,1,1,x\n1,2,1,z\n", {}, "column 'b' holds .* So do 1 other columns"),
        ("a,y\nu,1\nu,2\n1,3\n1,4\n", {}, "column 'a' holds 'u' in line 2, not a number"),
        ('a,b,y\n1,"1,234",x\n1,1,x\n1,1,z\n1,1,z\n', {}, "'1,234' in line 2.* without thousands separators"),
        ("a\tb\ty\n1\t1,5\tx\n1\t1\tx\n1\t1\tz\n1\t1\tz\n", {}, "looks like a decimal comma: write points"),
        ("a,b,y\n1,2020-03-01,x\n1,1,x\n1,1,z\n1,1,z\n", {}, "'2020-03-01' in line 2.* it looks like a date"),
        ("a,b,y\n1,3.12.99,x\n1,1,x\n1,1,z\n1,1,z\n", {}, "it looks like a date"),
        ("a,b,y\n1,1_000,x\n1,1,x\n1,1,z\n1,1,z\n", {}, "holds '1_000' in line 2, not a number"),
        ("a,y\n1,x\n2\n", {}, "header has 2 columns, and line 3 has 1 entries; look for a missing cell"),
        ("a,y\n", {}, "it has no rows"),
        ("", {}, "is empty"),
        ("\n \n", {}, "is empty"),
        ("a,a,b,b,y\n1,2,3,4,x\n", {}, "several columns called 'a', and so are 1 other"),
        ('a,y\n1,"x\n2,z\n', {}, "the quotation mark in line 2 is never closed"),
        ("a,y\n1,x\n2,z\n", {}, "has 2 samples with a target, and at least 4 are needed. If features are in rows"),
        ("a,y\n1,x\n2,x\n3,x\n4,x\n", {}, "the target 'y' is x in all 4 samples"),
        (IDS, {"target": "name"}, "text of 40 levels in 40 samples, such as 'n0'; is it a column of ids"),
        ("a,g,y\n1,u,0\n2,u,0\n3,v,1\n4,v,1\n", {"groups": "g"}, "the groups are the classes of the target 'y'"),
        ("a,g,y\n1,u,0\n2,u,0\n3,,1\n4,v,1\n", {"groups": "g"}, "1 entries of column 'g' are missing, .* sample 3"),
        (PLAIN, {"target": "status", "groups": "status"}, "'status' is named twice, for two purposes"),
        ("a,b,y\n1,inf,0\n2,1,0\n3,-inf,1\n4,1,1\n", {}, r"2 entries of 1 columns \(2 .* 'b'\) are infinite; replace"),
        ("a,y\n1,0\n2,0\n3,1\n4,1\n", {"drop_columns": ["a"]}, "has no features"),
        ("a,y\n1,0\n2,0\n3,1\n4,1\n", {"layer": "counts"}, "layers are parts of h5ad"),
        ("a,y\n1,0\n2,0\n3,1\n4,1\n", {"missing": "mean"}, "missing='mean' is none of 'error', 'median'"),
        ("a,y\n1,0\n2,0\n3,1\n4,1\n", {"orientation": "rows"}, "orientation='rows' is none of"),
        ("a,y\n1,0\n2,0\n3,1\n4,1\n", {"max_bytes": "much"}, "max_bytes='much' is not a size"),
        ("a,y\n1,0\n2,0\n3,1\n4,1\n", {"max_bytes": 8}, "unpacks to more than .* raise the limit: --max-bytes"),
        ("a,y\n1,0\n2,0\n3,1\n4,1\n", {"batches": [0]}, "its batches cannot be chosen"),
    ],
)
def test_what_is_wrong_with_a_table_is_said(file, engine, text, options, message):
    given = {} if message.startswith("no target") else {"target": "y"}
    with pytest.raises(ValueError, match=message):
        tables.read(file(text), **(given | options))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("table.csv", b"PK\x03\x04\0\0", "is not a text file: it is a zip archive or an Excel workbook; export"),
        ("table.csv", b"a,y\n1,\0\0\0\n", "is not a text file: it is binary"),
        ("table.csv", "a,y\n1,2\n".encode("utf-16-le"), "text in UTF-16 without a mark"),
        ("table.csv", b"a,y\n1,\xe9\n2,\x81\n", "is not text in UTF-8, nor in Windows-1252"),
        ("table.csv.gz", gzip.compress(b"a,y\n" + b"1,2\n" * 5000)[:60], "may be cut off or damaged"),
        ("table.csv.gz", b"a,y\n1,2\n", "is named .gz but is not compressed"),
        ("table.csv.gz", gzip.compress(b"a,y\n" + b"1,2\n" * 50000), "unpacks to more than .* GB are allowed"),
        ("table.xlsx", b"PK", "of no known format; .* .csv, .tsv.* Export the sheet"),
        ("table.npz.gz", b"", "of no known format"),
    ],
)
def test_what_is_no_table_is_named(file, name, content, message):
    with pytest.raises(ValueError, match=message):
        tables.read(file(content, name), target="y", max_bytes=100_000)


def test_numbers_that_are_longer_than_their_text_are_refused(file, engine):
    wide = ",".join(["y", *map(str, range(500))]) + "\n" + ("1" + ",0" * 500 + "\n") * 20
    with pytest.raises(ValueError, match=r"would take .* GB are allowed"):
        tables.read(file(wide), target="y", max_bytes=50_000)


def test_lines_without_end_are_refused(file, monkeypatch):
    monkeypatch.setattr(_text, "LONGEST_LINE", 100)
    with pytest.raises(ValueError, match="line 2 has more than 100 characters"):
        tables.read(file("a,y\n" + "1" * 1000 + "\n"), target="y")


def test_files_that_are_not_there(file, tmp_path):
    file(PLAIN, "expression.csv")
    with pytest.raises(ValueError, match=r"does not exist; did you mean 'expression.csv'\?"):
        tables.read(tmp_path / "expresion.csv", target="y")
    with pytest.raises(ValueError, match="does not exist; check the name"):
        tables.read(tmp_path / "no" / "x.csv", target="y")
    with pytest.raises(ValueError, match="is a folder; name the file in it"):
        tables.read(tmp_path, target="y")
