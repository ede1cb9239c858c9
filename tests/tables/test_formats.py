"""Formats that are no plain text: each test writes a small file; the same table in every format is the same table."""

import gzip
import io
import sys
import zipfile

import h5py
import numpy as np
import polars as pl
import pytest
from scipy import sparse
from scipy.io import savemat

from randsel._utils import text as _text
from randsel.tables import _read as tables

NAMES = ["g1", "g2", "g3"]
IDS = ["s1", "s2", "s3", "s4", "s5"]
STATUS = ["sick", "well", "sick", "well", "well"]


@pytest.fixture(autouse=True)
def without_sandbox(request, monkeypatch):
    """Read in this process, as a Python that is embedded in another program does; except in the test of all formats."""
    if request.function.__name__ != "test_the_same_table_in_every_format":
        monkeypatch.setattr(sys, "executable", "")


@pytest.fixture
def X(rng):
    X = rng.standard_normal((5, 3))
    X[1, 2] = 0.0
    return X


def text_of(X, separator):
    rows = [["", *NAMES, "status"], *([i, *map(repr, x), s] for i, x, s in zip(IDS, X.tolist(), STATUS, strict=True))]
    return "\n".join(separator.join(row) for row in rows).encode()


def write_h5ad(path, X, *, kind="dense", old=False):
    """Write what the page "On-disk format" of anndata's documentation says of 0.8, or of 0.7 if old."""
    text = h5py.string_dtype()
    with h5py.File(path, "w") as file:
        if kind == "dense":
            file["X"] = X
        else:
            made = (sparse.csr_matrix if kind == "csr" else sparse.csc_matrix)(X)
            group = file.create_group("X")
            group.attrs["h5sparse_format" if old else "encoding-type"] = kind if old else f"{kind}_matrix"
            group.attrs["h5sparse_shape" if old else "shape"] = X.shape
            for part in ("data", "indices", "indptr"):
                group[part] = getattr(made, part)
        file.create_group("layers")["twice"] = 2 * X
        obs, var = file.create_group("obs"), file.create_group("var")
        obs.attrs["_index"], var.attrs["_index"] = "cell", "_index"
        obs.create_dataset("cell", data=IDS, dtype=text)
        var.create_dataset("_index", data=NAMES, dtype=text)
        obs.attrs["column-order"] = ["status", "age", "kept", "note"]
        codes, levels = np.array([0, 1, 0, 1, 1], dtype=np.int8), ["sick", "well"]
        if old:
            levels_there = obs.create_group("__categories").create_dataset("status", data=levels, dtype=text)
            obs["status"] = codes
            obs["status"].attrs["categories"] = levels_there.ref
        else:
            group = obs.create_group("status")
            group.attrs["encoding-type"] = "categorical"
            group["codes"] = codes
            group.create_dataset("categories", data=levels, dtype=text)
        obs["age"] = np.array([30.5, 40.5, 50.5, 60.5, np.nan])
        masked = obs.create_group("kept")
        masked.attrs["encoding-type"] = "nullable-integer"
        masked["values"], masked["mask"] = np.array([0, 1, 0, 1, 1]), np.array([False, False, False, False, True])
        obs.create_dataset("note", data=["a", "b", "c", "d", "e"], dtype=text)


def write(folder, X, name):
    path = folder / name
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text_of(X, "\t"), mtime=0))
    elif name.endswith(".csv"):
        path.write_bytes(text_of(X, ","))
    elif name.endswith(".parquet"):
        columns = {"": IDS, **dict(zip(NAMES, X.T, strict=True)), "status": STATUS}
        pl.DataFrame(columns).write_parquet(path)
    elif name.endswith(".npz"):
        np.savez(path, X=X, feature_names=NAMES, sample_ids=IDS, status=STATUS)
    elif name.endswith(".mat"):
        cells = {"names": np.array(NAMES, dtype=object), "ids": np.array(IDS, dtype=object)}
        savemat(path, {"X": X, "status": np.array(STATUS, dtype=object), **cells})
    else:
        kind = name.partition(".")[0]
        write_h5ad(path, X, kind=kind.removeprefix("old"), old=kind.startswith("old"))
    return path


@pytest.mark.parametrize(
    "name",
    [
        *("table.tsv.gz", "table.parquet", "table.npz", "table.mat", "dense.h5ad", "csr.h5ad", "csc.h5ad"),
        *("oldcsr.h5ad", "oldcsc.h5ad"),
    ],
)
def test_the_same_table_in_every_format(tmp_path, X, name):
    plain = tables.read(write(tmp_path, X, "plain.csv"), target="status")
    table = tables.read(write(tmp_path, X, name), target="status")
    np.testing.assert_array_equal(table.X, X)
    np.testing.assert_array_equal(plain.X, X)
    assert table.X.dtype == plain.X.dtype
    assert table.X.flags.c_contiguous
    assert table.names == plain.names == tuple(NAMES)
    assert table.y.tolist() == plain.y.tolist() == STATUS
    assert table.ids.tolist() == plain.ids.tolist() == IDS
    assert table.fingerprint() == plain.fingerprint()
    assert any("in rows" in note for note in table.notes)


@pytest.mark.parametrize("name", ["table.parquet", "table.npz", "table.mat", "dense.h5ad", "csr.h5ad"])
def test_single_precision_stays_single(tmp_path, X, name):
    table = tables.read(write(tmp_path, X.astype(np.float32), name), target="status")
    assert table.X.dtype == np.float32
    np.testing.assert_array_equal(table.X, X.astype(np.float32))


# ---------------------------------------------------------------- Parquet


def test_parquet_with_features_in_rows_text_and_gaps(tmp_path):
    path = tmp_path / "genes.parquet"
    frame = pl.DataFrame({"gene": ["g1", "g2"], "s1": [1, 2], "s2": [3, None], "s3": [5, 6], "s4": [7, 8]})
    frame.write_parquet(path)
    labels = tmp_path / "labels.csv"
    labels.write_text("id,y\ns1,0\ns2,1\ns3,0\ns4,1\n")
    table = tables.read(path, target_file=labels)
    np.testing.assert_array_equal(table.X, [[1, 2], [3, np.nan], [5, 6], [7, 8]])
    frame = pl.DataFrame({"a": [True, False, True, False], "k": ["u", "v", None, "u"], "y": [1, 2, 1, 2]})
    frame.write_parquet(path)
    with pytest.raises(ValueError, match="column 'k' holds 'u' in row 1, not a number"):
        tables.read(path, target="y")
    table = tables.read(path, target="y", categorical=["k"], missing="median")
    np.testing.assert_array_equal(table.X, [[1, 0], [0, 1], [1, 2], [0, 0]])
    with pytest.raises(ValueError, match=r"would take .* --max-bytes"):
        tables.read(path, target="y", max_bytes=10)
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(ValueError, match="cannot be read as Parquet, it may be cut off"):
        tables.read(path, target="y")


# ---------------------------------------------------------------- NPZ and MAT


def test_npz(tmp_path):
    path = tmp_path / "set.npz"
    X, batch = np.arange(24).reshape(8, 3), np.array([0, 0, 1, 1, 1, 1, 1, 1])
    np.savez(path, X=X, y=np.array([0, 1, 2, 1, 2, 1, 0, 2]), feature_names=list("abc"), batch=batch, relevant=[0])
    table = tables.read(path, classes=[1, 2], batches=[1])
    assert table.X.tolist() == X[[2, 3, 4, 5, 7]].tolist()
    assert table.X.dtype == np.float64
    assert table.y.tolist() == [2, 1, 2, 1, 2]
    assert table.batch.tolist() == [1] * 5
    assert table.relevant.tolist() == [0]
    assert table.names == ("a", "b", "c")
    labels = tmp_path / "y.csv"
    labels.write_text("z\n0\n1\n0\n1\n0\n1\n0\n1\n")
    assert tables.read(path, target_file=labels).y.tolist() == [0, 1] * 4
    assert tables.read(path, target="b").y.tolist() == X[:, 1].tolist()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.eye(4)}, "has no array 'X'; it holds x"),
        ({"X": np.eye(4)}, "no target is named"),
        ({"X": np.zeros(4), "y": np.zeros(4)}, "X must be a matrix of numbers, and is 1-dimensional"),
        ({"X": np.array([["a"]]), "y": np.zeros(1)}, "X must be a matrix of numbers"),
        ({"X": np.eye(4), "y": np.zeros(3)}, "X is 4×4, but has 3 entries of 'y'"),
        ({"X": np.eye(4), "y": np.zeros(4), "feature_names": ["a"]}, "X is 4×4, but has 1 feature names"),
    ],
)
def test_errors_in_arrays_are_reported(tmp_path, arrays, message):
    np.savez(tmp_path / "set.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        tables.read(tmp_path / "set.npz")


def test_npz_that_would_unpickle_or_fill_the_memory(tmp_path):
    path = tmp_path / "set.npz"
    np.savez(path, X=np.array([{"a": 1}], dtype=object), y=np.zeros(1))
    with pytest.raises(ValueError, match=r"array 'X.npy' holds Python objects, which are not unpickled"):
        tables.read(path)
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**9)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", head.getvalue())
    with pytest.raises(ValueError, match=r"would take 8e\+09 GB, and 4 GB are allowed"):
        tables.read(path)
    path.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(ValueError, match="cannot be read as NPZ, it may be cut off"):
        tables.read(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", b"nonsense")
    with pytest.raises(ValueError, match=r"array 'X.npy' is damaged"):
        tables.read(path)


def test_mat_with_sparse_numbers_and_a_capital_target(tmp_path, X):
    path = tmp_path / "set.mat"
    savemat(path, {"X": sparse.csc_matrix(X), "Y": np.array([1, 2, 1, 2, 1])}, do_compression=True)
    table = tables.read(path)
    np.testing.assert_array_equal(table.X, X)
    assert table.y.tolist() == [1, 2, 1, 2, 1]
    with pytest.raises(ValueError, match=r"set.mat unpacks to more than .* GB"):
        tables.read(path, max_bytes=100)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match="cannot be read as a MATLAB file, it may be cut off"):
        tables.read(path)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="is empty"):
        tables.read(path)
    savemat(path, {"X": np.zeros((100, 100)), "y": np.arange(100)})
    with pytest.raises(ValueError, match=r"set.mat would take .* GB"):
        tables.read(path, max_bytes=50_000)
    path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(512) + b"\x89HDF")
    with pytest.raises(ValueError, match=r"MATLAB 7.3 file; save it again in MATLAB with save\(..., '-v7'\)"):
        tables.read(path)


@pytest.mark.parametrize(
    ("at", "byte", "message"),
    [
        (128 + 8 + 9, 0x08, "a matrix has 1 parts instead of 2"),  # said to be complex
        (128 + 8 + 40, 0x0A, "there are numbers of type 10"),
        (128 + 8, 0x05, r"has parts of types \[5, 5, 1\]"),
        (128 + 6, 0x01, "goes beyond its end"),
    ],
)
def test_mat_files_on_which_scipy_would_crash(tmp_path, X, at, byte, message):
    path = tmp_path / "set.mat"
    savemat(path, {"X": X, "y": np.arange(5)})
    data = bytearray(path.read_bytes())
    data[at] = byte
    path.write_bytes(bytes(data))
    with pytest.raises(ValueError, match=f"may be cut off or damaged: .*{message}"):
        tables.read(path)


# ---------------------------------------------------------------- h5ad


def test_h5ad_layers_and_columns(tmp_path, X):
    path = write(tmp_path, X, "csr.h5ad")
    table = tables.read(path, target="status", layer="twice", groups="note")
    np.testing.assert_array_equal(table.X, 2 * X)
    assert "Columns that are not features and have no role: age, kept." in table.notes
    assert table.groups.tolist() == list("abcde")
    ages = tables.read(path, target="age", categorical=["status"])
    assert ages.y.tolist() == [30.5, 40.5, 50.5, 60.5]
    assert ages.names == (*NAMES, "status")
    assert ages.X[:, 3].tolist() == [0, 1, 0, 1]
    assert "1 sample has no target and is left out." in ages.notes
    assert tables.read(path, target="kept").y.tolist() == [0, 1, 0, 1]
    assert tables.read(path, target="g1").names == ("g2", "g3")
    for options, message in [
        ({"target": "statu"}, "did you mean 'status'"),
        ({"target": "status", "layer": "raw"}, "has no layer 'raw'; it has 'twice'"),
        ({"target": "status", "max_bytes": 100}, "is sparse; as a dense 5×3 matrix it takes"),
        ({"target": "status", "orientation": "features-in-rows"}, "this format has a fixed orientation"),
        ({}, "no target is named"),
    ]:
        with pytest.raises(ValueError, match=message):
            tables.read(path, **options)


def test_h5ad_that_is_damaged_or_links_to_other_files(tmp_path, X):
    path = write(tmp_path, X, "csr.h5ad")
    with h5py.File(path, "a") as file:
        file["X"].attrs["shape"] = (10**6, 10**7)
    with pytest.raises(ValueError, match="is sparse; as a dense 1000000×10000000 matrix it takes 8e"):
        tables.read(path, target="status")
    write(tmp_path, X, "dense.h5ad")
    path = write_again(tmp_path, X, lambda file: file.__setitem__("X", h5py.ExternalLink("dense.h5ad", "X")))
    with pytest.raises(ValueError, match="'X' is not inside the file, but a link"):
        tables.read(path, target="status")
    path = write_again(tmp_path, X, lambda file: file.create_dataset("X", (10**7, 10**7), "f8"))
    with pytest.raises(ValueError, match="would take 8e"):
        tables.read(path, target="status")
    path = write_again(tmp_path, X, lambda file: file.__setitem__("X", np.eye(2)))
    with pytest.raises(ValueError, match="X is 2×2, but obs has 5 rows and var 3"):
        tables.read(path, target="status")
    path = write_again(tmp_path, X, lambda file: file.__delitem__("obs"))
    with pytest.raises(ValueError, match="is not AnnData: it has no 'obs'"):
        tables.read(path, target="status")
    path.write_bytes(b"\x89HDF\r\n")
    with pytest.raises(ValueError, match="cannot be read as h5ad"):
        tables.read(path, target="status")


def write_again(folder, X, change):
    path = write(folder, X, "dense.other.h5ad")
    with h5py.File(path, "a") as file:
        del file["X"]
        change(file)
    return path


def test_sparse_h5ad_with_places_outside_is_refused(tmp_path, X):
    path = write(tmp_path, X, "csr.h5ad")
    with h5py.File(path, "a") as file:
        file["X/indices"][0] = 10**6
    with pytest.raises(ValueError, match="cannot be read as a sparse matrix, it may be cut off or damaged"):
        tables.read(path, target="status")


def test_h5ad_as_anndata_writes_it(tmp_path, X):
    anndata, pandas = pytest.importorskip("anndata"), pytest.importorskip("pandas")
    # pandas 3 has text that anndata writes only if allowed to
    anndata.settings.allow_write_nullable_strings = True
    obs = pandas.DataFrame({"status": pandas.Categorical(STATUS), "age": [1, 2, 3, 4, 5]}, index=IDS)
    for values in (X, sparse.csr_matrix(X), sparse.csc_matrix(X)):
        made = anndata.AnnData(values, obs=obs, var=pandas.DataFrame(index=NAMES), layers={"twice": 2 * values})
        made.write_h5ad(tmp_path / "made.h5ad")
        table = tables.read(tmp_path / "made.h5ad", target="status")
        np.testing.assert_array_equal(table.X, X)
        assert table.y.tolist() == STATUS
        assert table.names == tuple(NAMES)
        assert table.ids.tolist() == IDS
        twice = tables.read(tmp_path / "made.h5ad", target="age", layer="twice")
        np.testing.assert_array_equal(twice.X, 2 * X)


# ---------------------------------------------------------------- PLINK

GENOTYPES = np.array([[0, 1, 2], [1, 1, np.nan], [2, 0, 0], [0, 2, 1], [1, 0, 2], [2, 1, 0]])


def write_plink(folder, genotypes, phenotype, names=("rs1", "rs2", "rs3")):
    """Write bytes as PLINK documents them: variants one after the other, four samples a byte, the first lowest."""
    code = {2.0: 0b00, 1.0: 0b10, 0.0: 0b11}  # copies of the first allele; 01 is missing
    data = bytearray(b"\x6c\x1b\x01")
    for column in genotypes.T:
        for start in range(0, len(column), 4):
            byte = 0
            for at, value in enumerate(column[start : start + 4].tolist()):
                byte |= code.get(value, 0b01) << (2 * at)
            data.append(byte)
    (folder / "study.bed").write_bytes(bytes(data))
    fam = [f"F{i} I{i} 0 0 1 {p}\n" for i, p in enumerate(phenotype)]
    (folder / "study.fam").write_text("".join(fam))
    (folder / "study.bim").write_text("".join(f"1\t{name}\t0\t{100 + j}\tA\tG\n" for j, name in enumerate(names)))
    return folder / "study.bed"


def test_plink(tmp_path):
    path = write_plink(tmp_path, GENOTYPES, [1, 2, 1, 2, -9, 2])
    table = tables.read(path)
    np.testing.assert_array_equal(table.X, GENOTYPES[[0, 1, 2, 3, 5]])
    assert table.X.dtype == np.float32
    assert table.y.tolist() == [1, 2, 1, 2, 2]
    assert table.names == ("rs1", "rs2", "rs3")
    assert table.ids.tolist() == ["I0", "I1", "I2", "I3", "I5"]
    labels = tmp_path / "pheno.txt"
    labels.write_text("FID IID dose\n" + "".join(f"F{i} I{i} {i}.5\n" for i in range(6)))
    table = tables.read(path, target_file=labels, target="dose")
    assert table.y.tolist() == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]
    assert any("matched by column 'IID'" in note for note in table.notes)
    path = write_plink(tmp_path, GENOTYPES, [0, 1.5, 2.5, 3, -9, 2], names=("rs1", ".", "."))
    table = tables.read(path)
    assert table.names == ("1:100:A:G", "1:101:A:G", "1:102:A:G")
    assert table.y.tolist() == [0, 1.5, 2.5, 3, 2]


def test_errors_in_plink_files_are_reported(tmp_path):
    path = write_plink(tmp_path, GENOTYPES, [1, 2, 1, 2, 1, 2])
    whole = path.read_bytes()
    with pytest.raises(ValueError, match="GB are allowed"):
        tables.read(path, max_bytes=50)
    path.write_bytes(whole[:-1])
    with pytest.raises(
        ValueError, match="have 9 bytes for 6 samples and 3 variants, and starts with 6c 1b 01 and has 8"
    ):
        tables.read(path)
    path.write_bytes(b"\x6c\x1b\x00" + whole[3:])
    with pytest.raises(ValueError, match="starts with 6c 1b 00"):
        tables.read(path)
    (tmp_path / "study.fam").write_text("F1 I1 0\n")
    with pytest.raises(ValueError, match=r"study.fam must have six columns in every line, and line 1 has not"):
        tables.read(path)
    (tmp_path / "study.fam").unlink()
    with pytest.raises(ValueError, match=r"study.fam is not there; a PLINK data set is"):
        tables.read(path)


# ---------------------------------------------------------------- GEO

GEO = """!Series_title\t"Blood of patients"
!Sample_title\t"s1"\t"s2"\t"s3"\t"s4"\t"s5"
!Sample_characteristics_ch1\t"age: 30"\t"age: 40"\t"age: 50"\t"age: 60"\t"illness: Control"
!Sample_characteristics_ch1\t"illness: Latent"\t"illness: Control (BCG+)"\t"illness: PTB"\t"illness: LATENT"\t"age: 20"
!series_matrix_table_begin
"ID_REF"\t"GSM1"\t"GSM2"\t"GSM3"\t"GSM4"\t"GSM5"
"ILMN_1"\t1.5\t2.5\t3.5\t4.5\t5.5
"ILMN_2"\t1\tnull\t3\t\t4
"ILMN_3"\t-1\t-2\t-3\t-4\t-5
!series_matrix_table_end
"""


@pytest.mark.parametrize("name", ["GSE_series_matrix.txt", "GSE_series_matrix.txt.gz"])
def test_geo_series_matrix(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(GEO.encode(), mtime=0) if name.endswith(".gz") else GEO.encode())
    wanted = {"latent": "LTBI", "control": "healthy"}
    table = tables.read(path, target="illness", classes=wanted, missing="drop-columns")
    assert table.names == ("ILMN_1", "ILMN_3")
    np.testing.assert_array_equal(table.X, [[1.5, -1], [2.5, -2], [4.5, -4], [5.5, -5]])
    assert table.y.tolist() == ["LTBI", "healthy", "LTBI", "healthy"]
    assert table.ids.tolist() == ["GSM1", "GSM2", "GSM4", "GSM5"]
    assert "Features are in rows, as always in this format." in table.notes
    assert tables.read(path, target="age", missing="drop-columns").y.tolist() == [30, 40, 50, 60, 20]
    with pytest.raises(ValueError, match="fewer than two of the classes"):
        tables.read(path, target="illness", classes={"latent": "LTBI"})
    with pytest.raises(ValueError, match="no column 'ilness'; did you mean 'illness'"):
        tables.read(path, target="ilness")
    path.write_bytes(gzip.compress(b"!Series_title\tx\n", mtime=0) if name.endswith(".gz") else b"!Series_title\tx\n")
    with pytest.raises(ValueError, match="not a GEO series matrix"):
        tables.read(path, target="illness")


@pytest.mark.parametrize("name", ["table.parquet", "dense.h5ad", "study.bed"])
def test_a_package_that_is_not_installed_is_named(tmp_path, X, name, monkeypatch):
    path = write_plink(tmp_path, GENOTYPES, [1] * 6) if name == "study.bed" else write(tmp_path, X, name)

    def gone(module):
        raise ImportError(module)

    monkeypatch.setattr(_text, "import_module", gone)
    with pytest.raises(ImportError, match=r"Reading .* needs .* pip install .* \(part of the extra 'files'\)"):
        tables.read(path, target="status")
