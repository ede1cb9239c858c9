"""The readers of files, fed by a coverage-guided fuzzer: `make fuzz`.

Every reader gets bytes that a fuzzer (atheris, in an environment of its own) makes from small valid files. It may
return a table or raise a `ValueError` that names the file. Everything else is a finding: other exceptions, warnings, a
crash, more than five seconds or a gigabyte. Findings are kept as tests in `test_hostile_files.py`, which also runs
every reader on its seeds, and on seeds with bytes changed, without the fuzzer.

HDF5, polars and scipy crash, hang or fill the memory on some tampered files, so `tables.read` runs them in a sandbox.
Here they run in the process of the fuzzer, for speed. An input that ends this process is read again in the sandbox, and
is a finding only if that fails as well.
"""

import argparse
import contextlib
import functools
import gzip
import hashlib
import io
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np
import polars
from scipy import sparse
from scipy.io import savemat

sys.path.append(str(Path(__file__).parents[1] / "support"))
from table_files import open_document, workbook

try:
    import atheris
except ImportError:  # the tests feed the readers without it
    _instrumented = contextlib.nullcontext
else:

    def _instrumented():
        return atheris.instrument_imports(include=["randsel", "h5py", "tomllib"])


with _instrumented():
    import tomllib  # noqa: F401 (to be instrumented)

    import h5py

    from randsel._utils import files
    from randsel.analysis import SCORE_COLUMNS
    from randsel.culling._storage import restore_path
    from randsel.experiments import _cells, _run, _specification
    from randsel.experiments import _summary as summary
    from randsel.report import _html as report
    from randsel.report import _storage as results
    from randsel.report._folder import format_ranking, format_summary
    from randsel.tables import _read as tables
    from randsel.tables.formats import FORMATS

#: Limit on a table in bytes, so small that a correct reader stays below a gigabyte.
LIMIT = 20_000_000
#: Limits on the seconds of one input, and on the megabytes of the whole process.
SECONDS, MEGABYTES = 5, 1024
#: Folder for files: in memory, if the system has such a folder.
_ROOM = "/dev/shm" if Path("/dev/shm").is_dir() else None
#: Separates the files of an input that stands for several files.
BETWEEN = b"\n--8<--\n"


@dataclass(frozen=True)
class Reader:
    """How bytes become files and are read, the inputs to start from, and the longest input."""

    read: Callable[[bytes, Path], object]
    seeds: Callable[[], Iterator[bytes]]
    longest: int = 1 << 14


def _table(data: bytes, path: Path, *options: dict) -> object:
    """Read a table; the first byte of the data chose one of the options."""
    path.write_bytes(data)
    return tables.read(path, max_bytes=LIMIT, **options[0])


# ---------------------------------------------------------------- text

_OPTIONS = (
    {"target": "y", "drop_columns": ["k"], "missing": "median"},
    {"target": "y", "missing": "neutral", "categorical": ["k"]},
    {"target": "y", "missing": "median", "id_column": "id", "groups": "k"},
    {"target": "y", "missing": "drop-columns", "log2": True, "orientation": "features-in-rows"},
    {"target": "y", "na": ["u", "7"], "below_detection": "half-minimum", "duplicates": "mean", "features": ["g1"]},
)
_CSV = b"id,g1,g2,k,y\na,1.5,2,u,x\nb,1,NA,v,z\nc,-2e3,4,u,x\nd,3,1,u,z\ne,0.1,7,v,x\n"


def _text_seeds() -> Iterator[bytes]:
    for option in range(len(_OPTIONS)):
        mark = bytes([option])
        yield mark + _CSV
        yield mark + _CSV.replace(b",", b"\t").replace(b"u", b'"u, v"')
        yield mark + _CSV.replace(b",", b";").replace(b".", b",")
        yield mark + b"gene s1 s2 s3 s4 s5\ng1 1 2 3 4 5\ng2 1 0 1e40 ? -1\nk u u v v u\ny a b a b b\n"
    yield b"\x00" + _CSV.decode().encode("utf-16")
    yield b"\x04" + b"A title, of words\n" + _CSV.replace(b"1.5", b"<LOD").replace(b"NA", b"12%") + b"A remark below\n"
    yield b"\x04" + _CSV.replace(b"g2", b"g1").replace(b"\n", b",\n").replace(b"0.1", b"<0.5")
    yield b"\x01" + b"\xef\xbb\xbf" + _CSV
    yield b"\x01" + _CSV.replace(b"u", b"\xfc")


def _read_text(data: bytes, folder: Path) -> object:
    return _table(data[1:], folder / "table.csv", _OPTIONS[(data[0] if data else 0) % len(_OPTIONS)])


def _gzip_seeds() -> Iterator[bytes]:
    for text in _text_seeds():
        yield text[:1] + gzip.compress(text[1:], mtime=0)
        yield bytes([text[0] + 128]) + text[1:]
    yield b"\x00" + gzip.compress(b"y,a\n" + b"1,2\n" * 5, mtime=0) * 3


def _read_gzip(data: bytes, folder: Path) -> object:
    """Read an archive, or one of these bytes, which checksums would keep from the reader otherwise."""
    if data[:1] >= b"\x80":
        data = data[:1] + gzip.compress(data[1:], 1, mtime=0)
    return _table(data[1:], folder / "table.csv.gz", _OPTIONS[(data[0] if data else 0) % len(_OPTIONS)])


_GEO = b"""!Series_title\t"Blood"
!Sample_title\t"s1"\t"s2"\t"s3"\t"s4"\t"s5"
!Sample_characteristics_ch1\t"age: 30"\t"age: 40"\t"age: 50"\t"age: 60"\t"y: Control"
!Sample_characteristics_ch1\t"y: Latent"\t"y: Control (BCG+)"\t"y: PTB"\t"y: LATENT"\t"age: 20"
"ID_REF"\t"GSM1"\t"GSM2"\t"GSM3"\t"GSM4"\t"GSM5"
"ILMN_1"\t1.5\t2.5\t3.5\t4.5\t5.5
"ILMN_2"\t1\tnull\t3\t\t4
!series_matrix_table_end
"""


def _read_geo(data: bytes, folder: Path) -> object:
    classes = {"latent": "LTBI", "control": "healthy"} if len(data) % 2 else None
    return _table(b"!" + data, folder / "table.txt", {"target": "y", "missing": "drop-columns", "classes": classes})


# ---------------------------------------------------------------- binary formats


def _small() -> tuple[np.ndarray, np.ndarray]:
    return np.arange(15.0).reshape(5, 3) ** 2, np.array([0, 1, 0, 1, 1])


def _bytes(write: Callable[[Path], object], name: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / name)
        return (Path(folder) / name).read_bytes()


def _npz(arrays: dict) -> bytes:
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    return content.getvalue()


def _npy(values: np.ndarray) -> bytes:
    content = io.BytesIO()
    np.lib.format.write_array(content, values, allow_pickle=False)
    return content.getvalue()


def _npz_seeds() -> Iterator[bytes]:
    X, y = _small()
    yield b"\x00" + _npz({"X": X, "y": y, "feature_names": list("abc"), "sample_ids": list("12345"), "batch": y})
    for place in range(1, 5):
        yield bytes([place]) + _npy((X, y, np.array(list("abc")), np.array([0, 2]))[place - 1])
        yield bytes([place]) + _npy(np.asfortranarray(X.astype(np.float32)))


def _read_npz(data: bytes, folder: Path) -> object:
    """Read an archive, or one with a member of these bytes, which checksums would keep from the reader otherwise."""
    X, y = _small()
    place = (data[0] if data else 0) % 5
    if place:
        content = io.BytesIO()
        members = {"X": _npy(X), "y": _npy(y), "feature_names": _npy(np.array(list("abc"))), "relevant": _npy(y[:1])}
        members[list(members)[place - 1]] = data[1:]
        with zipfile.ZipFile(content, "w") as archive:
            for name, member in members.items():
                archive.writestr(f"{name}.npy", member)
        data = b"\0" + content.getvalue()
    return _table(data[1:], folder / "table.npz", {"missing": "neutral"})


def _parquet_seeds() -> Iterator[bytes]:
    X, y = _small()
    frame = polars.DataFrame({"id": list("stuvw"), "a": X[:, 0], "b": [1, None, 3, 4, 5], "y": y, "k": ["u"] * 5})
    for compression in ("uncompressed", "zstd", "gzip", "snappy"):
        yield _bytes(lambda path, how=compression: frame.write_parquet(path, compression=how), "table.parquet")
    kinds = frame.with_columns(
        polars.col("a").cast(polars.Float32),
        polars.col("k").cast(polars.Categorical),
        polars.Series("flag", [True, False, None, True, False]),
    )
    more = polars.Series("day", [1, 2, 3, 4, 5]).cast(polars.Date), polars.Series("list", [[1], [2, 3], [], [4], [5]])
    for frame in (kinds, kinds.with_columns(more[0]), kinds.with_columns(more[1])):
        yield _bytes(lambda path, f=frame: f.write_parquet(path, compression="uncompressed"), "table.parquet")


def _read_parquet(data: bytes, folder: Path) -> object:
    return _table(data, folder / "table.parquet", {"target": "y", "missing": "neutral", "categorical": ["k"]})


def _excel_seeds() -> Iterator[bytes]:
    rows: list[list[object]] = [["id", "a", "b", "share", "flag", "k", "y"]]
    cells = zip("stuvw", [1.5, 1, -2e3, 3, 0.1], [2, "NA", "<LOD", "<0.5", 7], "uvuuv", "xzxzx", strict=True)
    rows += [[name, a, b, f"{i}%", i > 2, k, y] for i, (name, a, b, k, y) in enumerate(cells)]
    rows.append(["a remark below"])
    yield b"\0" + workbook({"one": rows, "two": [["title"], *rows]})
    yield b"\1" + open_document({"one": [row[:3] + row[5:] for row in rows[:-1]]})
    for mode, content, member in (
        (2, workbook({"one": rows}), _SHEET),
        (3, open_document({"one": [row[:3] + row[5:] for row in rows[:-1]]}), "content.xml"),
    ):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            yield bytes([mode]) + archive.read(member)


_SHEET = "xl/worksheets/sheet1.xml"


def _read_excel(data: bytes, folder: Path) -> object:
    """Read a workbook, or one whose sheet is these bytes, which checksums would keep from the reader otherwise."""
    mode, data = (data[0] if data else 0) % 4, data[1:]
    if mode > 1:
        content = io.BytesIO()
        base = workbook({"one": [["a"]]}) if mode == 2 else open_document({"one": [["a"]]})
        with zipfile.ZipFile(io.BytesIO(base)) as archive, zipfile.ZipFile(content, "w") as changed:
            for name in archive.namelist():
                changed.writestr(name, data if name in (_SHEET, "content.xml") else archive.read(name))
        data = content.getvalue()
    options = {"target": "y", "missing": "neutral", "categorical": ["k"], "below_detection": "half-minimum"}
    return _table(data, folder / ("table.ods" if mode % 2 else "table.xlsx"), options)


def _mat_seeds() -> Iterator[bytes]:
    X, y = _small()
    cells = {"names": np.array(list("abc"), dtype=object), "ids": np.array(list("vwxyz"), dtype=object)}
    for values in (X, sparse.csc_matrix(X), X.astype(np.int16)):
        for packed in (False, True):
            arrays = {"X": values, "y": y, **cells}
            yield b"\0" + _bytes(lambda p, a=arrays, c=packed: savemat(p, a, do_compression=c), "table.mat")
    yield b"\0" + _bytes(lambda p: savemat(p, {"X": X, "y": y}, format="4"), "table.mat")
    plain = _bytes(lambda p: savemat(p, {"X": X, "y": y, **cells, "s": {"a": 1}}), "table.mat")
    at = 128
    while at < len(plain):
        size = 8 + struct.unpack_from("<I", plain, at + 4)[0]
        yield b"\1" + plain[at : at + size]
        at += size


def _read_mat(data: bytes, folder: Path) -> object:
    """Read a file, or one whose element is packed, which checksums would keep from the reader otherwise."""
    if data[:1] == b"\1":
        head = b"MATLAB 5.0 MAT-file".ljust(124) + b"\0\1IM"
        packed = zlib.compress(data[1:], 1)
        data = b"\0" + head + struct.pack("<II", 15, len(packed)) + packed
    return _table(data[1:], folder / "table.mat", {"missing": "neutral"})


def _h5ad_seeds() -> Iterator[bytes]:
    X, _ = _small()
    for kind in ("dense", "csr", "chunked"):
        yield _bytes(lambda path, how=kind: _write_h5ad(path, X, how), "table.h5ad")


def _write_h5ad(path: Path, X: np.ndarray, kind: str) -> None:
    with h5py.File(path, "w", libver="latest" if kind == "chunked" else None) as file:
        if kind == "csr":
            made, group = sparse.csr_matrix(X), file.create_group("X")
            group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", X.shape
            for part in ("data", "indices", "indptr"):
                group[part] = getattr(made, part)
        elif kind == "chunked":
            file.create_dataset("X", data=X, chunks=(2, 3), compression="gzip", shuffle=True, fletcher32=True)
        else:
            file["X"] = X
        obs, var = file.create_group("obs"), file.create_group("var")
        obs.attrs["_index"], var.attrs["_index"] = "cell", "_index"
        obs.create_dataset("cell", data=list("vwxyz"), dtype=h5py.string_dtype())
        var["_index"] = np.array([b"a", b"b", b"c"])
        obs.attrs["column-order"] = ["y", "kept"]
        group, masked = obs.create_group("y"), obs.create_group("kept")
        group["codes"], group["categories"] = np.array([0, 1, 0, 1, -1], dtype=np.int8), np.array([b"s", b"t"])
        masked["values"], masked["mask"] = np.arange(5), np.array([False, True, False, False, True])


def _read_h5ad(data: bytes, folder: Path) -> object:
    return _table(data, folder / "table.h5ad", {"target": "y", "missing": "neutral"})


def _plink_seeds() -> Iterator[bytes]:
    fam = b"".join(b"F%d I%d 0 0 1 %d\n" % (i, i, 1 + i % 2) for i in range(6))
    bim = b"".join(b"1\trs%d\t0\t%d\tA\tG\n" % (j, 100 + j) for j in range(3))
    bed = b"\x6c\x1b\x01" + bytes(range(0, 60, 10))
    yield BETWEEN.join([fam, bim, bed])
    yield BETWEEN.join([fam.replace(b" 1\n", b" -9\n"), bim.replace(b"rs2", b"rs1"), bed])


def _read_plink(data: bytes, folder: Path) -> object:
    for name, content in zip(("fam", "bim", "bed"), (data.split(BETWEEN) + [b""] * 3)[:3], strict=True):
        (folder / f"study.{name}").write_bytes(content)
    return tables.read(folder / "study.bed", max_bytes=LIMIT)


# ---------------------------------------------------------------- result folders and experiments


@functools.cache
def _parts() -> dict[str, dict[str, np.ndarray]]:
    """Parts of a small run, as `selection` and `results` keep them."""
    path = {
        **{name: np.arange(5.0) for name in ("contributions", "main", "interaction", "scores")},
        "features": np.array([0, 1, 2, 0, 1]),
        "dropped": np.array([2]),
        "fixed": np.array([], dtype=int),
        "n_features": np.array([3, 2]),
        "n_dropped": np.array([1, 0]),
        "n_fixed": np.array([0, 0]),
        "gamma": np.array([0.5, 1.0]),
        "alignment": np.array([0.1, 0.2]),
        "ridge": np.array([3.0, 3.0]),
        "fourth_moment": np.array([3.0, 3.0]),
        "size": np.array([3, 2]),
        "spectrum": np.array([1.0, 0.5]),
        "chance": np.array([3.0, 0.1, 1.0]),
        "order": np.array([0, 1, 2]),
        "null_sd": np.array(0.1),
        "errors": np.full(12, 0.5),
        "noise": np.array([0.01, 1.0]),
    }
    restore_path(path, 3)
    found = {
        "columns": np.array([0, 2]),
        "values": np.arange(12.0).reshape(6, 2),
        "y": np.array(list("uvuvuv")),
        "names": np.array(["a", "b", "c"]),
        "order": np.array([0, 1, 2]),
        "scores": np.full((3, len(SCORE_COLUMNS)), 0.5),
        "signs": np.array([1, -1, 0]),
        "extremes": np.array([1, 0, -1]),
        "centres": np.arange(6.0).reshape(3, 2),
        "centre": np.array("median"),
        "log2": np.array(""),
        "partners": np.array(["b", "a", ""]),
        "steps": np.array([1, 1, 0]),
        "selected": np.array([True, True, False]),
        "pair_columns": np.array([[0, 1]]),
        "pair_scores": np.array([[9.0, 0.01, 0.03]]),
        "stand_in_columns": np.array([[0, 2]]),
        "stand_in_scores": np.array([[0.9, 0.01]]),
        "nothing_stands_out": np.array(False),
        "rule": np.array("top"),
        "rule_limits": np.array([2.0, np.nan]),
        "always_kept": np.array([0]),
        "kind": np.array("classification"),
        "warnings": np.array(["Be careful."]),
        "notes": np.array(["Six samples."]),
        "folds": np.array([[0.9, 0.8], [0.5, 0.6], [2.0, 3.0]]),
        "chance": np.array(0.5),
        "held_out": np.array([[0.0, 1.0] * 3, [0.0, 1.0] * 3, [-0.5, 0.5] * 3]),
        "sizes": np.array([1, 2, 3]),
        "curve": np.array([[0.6, 0.7, 0.7], [0.7, 0.8, 0.8]]),
        "stability": np.array([50.0, 0.6, np.nan]),
    }
    parts = {"path": path, "report": found}
    return {name: {**kept, files.CONTENTS: np.array(list(kept))} for name, kept in parts.items()}


_IDENTITY = {"version": "0.1.0", "command": "randsel select a.csv", "data": "a.csv", "data_hash": "0", "parameters": {}}


def _folder_seeds() -> Iterator[bytes]:
    yield b"\0" + json.dumps(_IDENTITY).encode()
    for name, kept in _parts().items():
        yield (b"\1" if name == "path" else b"\2") + _npz(kept)
        for at, values in enumerate(kept.values()):
            yield (b"\3" if name == "path" else b"\4") + bytes([at]) + _npy(values)


def _read_folder(data: bytes, folder: Path) -> object:
    """Read a folder in which one file, or one array of one file, is the data."""
    mode, data = (data[0] if data else 0) % 5, data[1:]
    (folder / "parts").mkdir(exist_ok=True)
    (folder / "run.json").write_bytes(json.dumps(_IDENTITY).encode() if mode else data)
    for name, kept in _parts().items():
        content = _npz(kept)
        if mode == (1 if name == "path" else 2):
            content = data
        elif mode == (3 if name == "path" else 4):
            members = {key: _npy(values) for key, values in kept.items()}
            members[list(members)[(data[0] if data else 0) % len(members)]] = data[1:]
            packed = io.BytesIO()
            with zipfile.ZipFile(packed, "w") as archive:
                for key, member in members.items():
                    archive.writestr(f"{key}.npy", member)
            content = packed.getvalue()
        (folder / "parts" / f"{name}.npz").write_bytes(content)
    if not mode:
        files.check_or_write_identity(folder, files.read_identity(folder), ())
    analysis = results.load_analysis(folder)
    assert analysis.has_findings in (True, False)
    # pictures take a second each, and are no part of what is read
    report.draw_panel = report.draw_figure = lambda *_, **__: "<svg/>"
    return format_ranking(analysis, 10), format_summary(analysis), report.contents(analysis)


_CELL = {"accuracy": 0.9, "balanced_accuracy": 0.8, "n_features": 2, "features": ["a", "b"], "gamma": "median"}
_CELL |= {"curve": {"2": 0.8, "3": 0.9}, "precision": 1.0, "recall": 0.5}


def _read_cell(data: bytes, folder: Path) -> object:
    (folder / "cell.json").write_bytes(data)
    notes: list[str] = []
    found = _run.read_cell(
        folder / "cell.json", notes, (*_cells.SCORES["classification"], "n_features"), _run.is_complete_result
    )
    if found is None:
        return notes
    spec = _specification.Spec("all", ({"name": "d"},), ({"name": "RFE"},))
    cell = _cells.Cell("d", "RFE", {}, (), 2, 0, 0, 0, "")
    outcome = _run.Outcome((cell,), {cell.key: found}, {}, (), {cell.key: 0.1})
    return summary.write_tables(spec, outcome, folder), summary.curves(spec, outcome)


_SPEC = """name = "table"
folds = 3
gammas = [0.5, "median"]
[[data]]
name = "small"
make = "make_xor"
n_samples = 8
n_features = 4
random_state = 1
[data.reduced]
reshuffles = 1
[data.params.RFE]
drop = 0.5
[[data]]
name = "file"
file = "table.csv"
target = "y"
drop_columns = ["k"]
[[methods]]
name = "RFE"
[methods.params]
drop = 0.3
[paper.small]
RFE = "1.0"
"""


def _read_spec(data: bytes, folder: Path) -> object:
    (folder / "spec.toml").write_bytes(data)
    (folder / "table.csv").write_bytes(_CSV)
    spec = _specification.Spec.load(folder / "spec.toml").only([])
    for entry in spec.data:
        for method in spec.methods:
            _specification.plan(spec, entry, method)
        # what a specification asks to be made may be as large as it likes
        if "make" not in entry:
            _specification.load_table(entry, folder)
    return spec


READERS = {
    "text": Reader(_read_text, _text_seeds),
    "gzip": Reader(_read_gzip, _gzip_seeds),
    "geo": Reader(_read_geo, lambda: iter([_GEO[1:], _GEO[1:].replace(b'"', b"") + b"\n"])),
    "npz": Reader(_read_npz, _npz_seeds),
    "parquet": Reader(_read_parquet, _parquet_seeds),
    "excel": Reader(_read_excel, _excel_seeds),
    "mat": Reader(_read_mat, _mat_seeds),
    "h5ad": Reader(_read_h5ad, _h5ad_seeds, longest=1 << 16),
    "plink": Reader(_read_plink, _plink_seeds),
    "folder": Reader(_read_folder, _folder_seeds),
    "cell": Reader(_read_cell, lambda: iter([json.dumps({"cell": {}, "result": _CELL}).encode()])),
    "spec": Reader(_read_spec, lambda: iter([_SPEC.encode()])),
}


#: Readers that `tables.read` runs in a sandbox.
SANDBOXED = ("parquet", "excel", "mat", "h5ad")


# ---------------------------------------------------------------- feeding


def fault(reader: Reader, data: bytes) -> str | None:
    """Return what is wrong with how a reader handles some bytes; None if it reads or refuses them as it should."""
    with tempfile.TemporaryDirectory(dir=_ROOM) as name, warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            reader.read(data, Path(name))
        except ValueError as error:
            message = str(error)
            # a subclass comes from a library, whose message does not name the file
            if type(error) is ValueError and " " in message and len(message) < 2000:
                return None
            return _where(error)
        except Exception as error:  # whatever it is
            return _where(error)
    return None


def _where(error: Exception) -> str:
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if "randsel" in frame.filename]
    place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "elsewhere"
    return f"{type(error).__name__} at {place}: {str(error)[:300]}"


def feed(name: str, out: Path, arguments: list[str]) -> None:
    """Feed one reader in this process until the fuzzer ends it; findings that can be survived are written down."""
    reader, seen = READERS[name], set[str]()
    tables.read_in_sandbox = lambda suffix, path, options: FORMATS[suffix].read(path, options)

    def one(data: bytes) -> None:
        problem = fault(reader, data)
        kind = (problem or "").partition(": ")[0]
        if problem is not None and kind not in seen:
            seen.add(kind)
            finding = out / "findings" / f"{name}-{hashlib.sha256(kind.encode()).hexdigest()[:12]}"
            finding.write_bytes(data)
            finding.with_suffix(".txt").write_text(problem + "\n")

    atheris.Setup([sys.argv[0], *arguments], one)
    atheris.Fuzz()


def drive(name: str, out: Path, seconds: float) -> int:
    """Feed a reader for some seconds, again after every crash; return the number of findings."""
    reader, corpus, findings = READERS[name], out / name, out / "findings"
    corpus.mkdir(parents=True, exist_ok=True)
    findings.mkdir(exist_ok=True)
    for old in findings.glob(f"{name}-*"):
        old.unlink()
    for seed in reader.seeds():
        (corpus / hashlib.sha256(seed).hexdigest()[:40]).write_bytes(seed)
    end, ended, executed, survived = time.monotonic() + seconds, 0, 0, 0
    while (left := int(end - time.monotonic())) > 0:
        arguments = [
            f"-max_total_time={left}",
            f"-timeout={SECONDS}",
            f"-rss_limit_mb={MEGABYTES}",
            f"-max_len={reader.longest}",
            f"-artifact_prefix={findings}/{name}-",
            "-print_final_stats=1",
            str(corpus),
        ]
        command = [sys.executable, __file__, "--one", name, "--out", str(out), "--", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        (out / f"{name}.log").write_text(done.stderr[-20_000:])
        executed += _executed(done.stderr)
        if done.returncode == 0:
            break
        ended += 1
        survived += _again(name, out)
    found = sorted(path for path in findings.glob(f"{name}-*") if path.suffix != ".txt")
    print(
        f"{name}: {executed} inputs in {seconds:.0f} s, {len(list(corpus.iterdir()))} kept; the process ended {ended} "
        f"times, of which the sandbox handled {survived}; {len(found)} findings.",
        flush=True,
    )
    for path in found:
        about = path.with_suffix(".txt")
        print(f"  {path}: {about.read_text().strip() if about.exists() else 'ended the process'}", flush=True)
    return len(found)


def _executed(log: str) -> int:
    """Return how many inputs a log of the fuzzer speaks of."""
    return max((int(found) for found in re.findall(r"^#(\d+)", log, re.MULTILINE)), default=0)


def _again(name: str, out: Path) -> int:
    """Read inputs that ended the process again in the sandbox; move those that it handles, and return their number."""
    if name not in SANDBOXED:
        return 0
    gone, start = 0, time.monotonic()
    fault(READERS[name], next(READERS[name].seeds()))
    usual = time.monotonic() - start
    for path in (out / "findings").glob(f"{name}-*-*"):
        start = time.monotonic()
        problem = fault(READERS[name], path.read_bytes())
        if problem is None and time.monotonic() - start < SECONDS + usual:
            path.rename(out / f"survived-{path.name}")
            gone += 1
    return gone


def main() -> None:
    """Feed the readers that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("readers", nargs="*", metavar="READER", help=f"of {', '.join(READERS)}; all if none is named")
    parser.add_argument("--seconds", type=float, default=600.0, help="for each reader")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz-corpus"), help="inputs, kept from run to run")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given, arguments = parser.parse_known_args(sys.argv[1:])
    given.out = given.out.absolute()
    if given.one:
        feed(given.one, given.out, [word for word in [*given.readers, *arguments] if word != "--"])
        return
    found = sum(drive(name, given.out, given.seconds) for name in given.readers or READERS)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
