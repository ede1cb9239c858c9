"""Files made to do harm: each is refused with an error message, within the limits on memory."""

import base64
import contextlib
import gzip
import io
import random
import struct
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import fuzz_readers
import h5py
import numpy as np
import polars as pl
import pytest
from fuzz_readers import READERS, SANDBOXED, fault

from randsel._utils.text import LONGEST_MESSAGE
from randsel.report import _html as report
from randsel.tables import _read as tables
from randsel.tables import _sandbox
from randsel.tables.formats import ReadOptions

TESTS = Path(__file__).parent


@pytest.fixture(autouse=True)
def pictures(monkeypatch):
    """Bring back how reports draw, which the fuzzer replaces."""
    for name in ("draw_panel", "draw_figure"):
        monkeypatch.setattr(report, name, getattr(report, name))


def refused(path, *words, **options):
    """Read a file, which must be refused with an error message that contains these words."""
    with pytest.raises(ValueError, match=r"\w+ .*[.?]$") as caught:
        tables.read(path, **options)
    message = str(caught.value)
    assert type(caught.value) is ValueError
    assert len(message) <= LONGEST_MESSAGE
    assert all(word in message for word in words), message


# ---------------------------------------------------------------- readers of the fuzzer, without the fuzzer


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_seeds_are_read_or_refused_in_a_sentence(name):
    assert {fault(READERS[name], seed) for seed in READERS[name].seeds()} == {None}


@pytest.mark.parametrize("name", READERS)
def test_some_seed_is_read(name, tmp_path):
    """Otherwise the fuzzer would start from files that are refused at once."""
    for i, seed in enumerate(READERS[name].seeds()):
        (tmp_path / str(i)).mkdir()
        with contextlib.suppress(ValueError):
            assert READERS[name].read(seed, tmp_path / str(i)) is not None
            return
    pytest.fail(f"no seed of {name} is read")


@pytest.mark.parametrize("name", [name for name in READERS if name not in SANDBOXED])
def test_seeds_with_bytes_changed_are_read_or_refused_in_a_sentence(name):
    rng = random.Random(name)
    seeds = list(READERS[name].seeds())
    for _ in range(100):
        data = bytearray(rng.choice(seeds))
        for _ in range(rng.choice([1, 1, 2, 8])):
            data[rng.randrange(len(data))] = rng.choice([0, 0x22, 0x2C, 0x7F, 0xFF, rng.randrange(256)])
        if rng.random() < 0.2:
            del data[rng.randrange(len(data)) :]
        assert fault(READERS[name], bytes(data)) is None, bytes(data)


#: Findings of the fuzzer, shortened -> reader and input.
NPY = b"\x93NUMPY\x01\x00v\x00{'descr': '%s', 'fortran_order': False, 'shape': (%s), }"
FINDINGS = {
    "lines of samples of other lengths: IndexError": (
        "geo",
        b"\n!Sample_characteristics_ch1\ty: a\n!Sample_characteristics_ch1\tx: b\ty: a\n",
    ),
    "nothing but remarks below a header: IndexError": ("text", b"\x00gene,,s1\na remark\nanother one\n"),
    "no features, and a sample without target: IndexError": ("text", b"\x00y,k\nu,1\nv,2\nu,3\nv,4\nu,5\nNA,6\n"),
    "a bracket in the header of an array: TokenError": (
        "npz",
        b"\x03" + (NPY % (b"<U1", b"3,") + b"(").ljust(128) + b"\n",
    ),
    "numbers that are no characters: SystemError": (
        "npz",
        b"\x03" + (NPY % (b"<U1", b"3,")).ljust(127) + b"\n" + b"\xff" * 12,
    ),
    "signalling NaN: RuntimeWarning": (
        "npz",
        b"\x01" + (NPY % (b"<f4", b"5, 3")).ljust(127) + b"\n" + b"\x00\x00\xa0\x7f" * 15,
    ),
    "nothing but missing values: RuntimeWarning": (
        "npz",
        b"\x01" + (NPY % (b"<f4", b"5, 3")).ljust(127) + b"\n" + b"\xff" * 60,
    ),
    "a header as of Python 2: UserWarning": (
        "npz",
        b"\x01" + (NPY % (b"<f4", b"5L, 3")).ljust(127) + b"\n" + bytes(60),
    ),
    "MAT of version 4 that claims 3 × 10^10 cells: 1 GB": (
        "mat",
        bytes.fromhex("0f000000000000000003020001d700000000000000405800000000 00".replace(" ", "")),
    ),
    "a curve at 04 features: KeyError": (
        "cell",
        b'{"result":{"accuracy":9,"balanced_accuracy":1.8,"n_features":2,"features":[""],"curve":{"04":9}}}',
    ),
}


@pytest.mark.parametrize("finding", FINDINGS)
def test_what_the_fuzzer_found(finding):
    name, data = FINDINGS[finding]
    assert fault(READERS[name], data) is None


def test_a_name_in_an_archive_that_is_no_text(tmp_path):
    path = tmp_path / "table.npz"
    np.savez(path, X=np.eye(4), y=np.arange(4))
    whole = path.read_bytes()
    at = whole.rindex(b"y.npy")
    # bit 11 of the flags says that names are UTF-8
    start = whole.rindex(b"PK\x01\x02")
    path.write_bytes(whole[: start + 8] + b"\x00\x08" + whole[start + 10 : at] + b"\xff" + whole[at + 1 :])
    refused(path, "cannot be read as NPZ")


#: Findings of the fuzzer that crash or hang the library, as zlib and base64.
BREAKING = {
    # polars ended the process, or waited for itself
    "parquet": (
        "eNqNVs1vGkcUn/0AU4JSFHlG0FKJi1eOEgXYQoGqkTJ82HEDKRBjF9/WhsU2GCrAJvjSSw89+NBDD1UPOfQUVVVOPeSQQxVVOeXk"
        "Q5VDjjnkr6j63uyw0CQ4Ge3OezPvvd/7zXuziAqvJahOTWqWqJ8SQhR4hziNcDrG6QSnMSWUUXYdvILUS72EqLDrVzTtxzVCA+EU"
        "8QbDIfWgSQnzsx8UeIxNw0cgLEmTGEbmw4gYQQ5vjpDf4A3mqS+8QrzhkGIJjC22ZTxVCLC7RW+VqG/KDocmpS6lR0pIskyX3yCp"
        "faZqrwBHclR2BfxPCjzGA834W8UcURotgSCzocwwr9Arbx1c0T6ZQU4EZI/1jGe6caYjoJ/6S1Sdkj4GlCANvoVCNLd2Ssc99rnH"
        "eOTBxJfp5TdKp33qocSpk253rbaIibO48diLWVfp6lwjVadUFV2W6MIeqpKH1rSc45yyU+PlkvHrEsYd0sPrNPA/Jjp2Qfv+42mh"
        "1Pc1Rxe8M3r3YDgS01Kr2zpq9UaQLsDOFHiM5z4SjrBNmmEQAdpThW5J9YFGv5DqM50mpXruoaZUH3tpXKovl1yE5z4K0JhfDT+5"
        "rQ/6/RENwpVdUfG6rpBSBG0+WCoWcES5K+XEcVM6Uy8CK1F2AAMVS7USKHXBlAIDHgla7i19hRv6dMMBm54VKhuOhM+MF0rkgs+G"
        "PfTTZWL8okbe/VWwJ37KiPFIj1x0r9m58PrTE1l8Vdlr4fPQG1l8E9m/wuc1+Cy6e+znS+jyjy9y0UVivwuvFx9FPvQysL8u0RBh"
        "r7zMb/hALGNPQwFeq32z/eVwb791ZIX+8MZwJPbynPMivDxzAuv7Ve6sxdYdzoc8L2SVDyrpWGws7Bs4XUOfcjvHeb4KZt7AdWnM"
        "xRrGDk5cqPUYYG8K5Fk8r9WnqcVURvzJLCgv1KIjYByhPS7UnDutd+M7287mPZdfbmh9e9fZvF24Fotl9twkvC1CXdA7A7Q7OlJf"
        "r+23qvkG8l13k0i+1YYMcuxO/p1hY1vA8xTWL4X582VcW8IuTE5grXqP5/oI2eC5Dp6vjIu1+fNUNgEkI0gWJN+CoN526lHg6XJh"
        "lCifbqTnKmHXi/ftanytXqs3K/VOt1CtjyfcHYUktnqKl5clziJf16uB+0VeOMX8AtUS9Si4fObr5whs2iHYs3zWNfTKpVA7rCB+"
        "e2E/s2if6ycYvkbXvFw3MLS8IP9YglQGki+UtD29t7l9NKVF/rEb5LSiWBd8chuYBGRR8pKAFXH+oqDcFverw/nNmyR0t9LvWoNh"
        "dPW7yWi/37saPWkNhgf9XtS8kbgRj67uHh90m9G0nY2bu83Pbbtppm07YzYTSTOdseJZy8ymbNu001armTWvhs/gt/GdDxnCb38F"
        "/mL8B9Iykwc="
    ),
    # HDF5 never came back
    "h5ad": (
        "eNrtWc1PE0EUf7PbLnVbbIFqSimhGkUNfgNqokaBUptIBIuGYgJYSjVAoaTloxAjXDQxUUM8Gk8aLkAQPw4mSiCeMBxMjAkxmniA"
        "f8CYGE/izu5smd0UKSdSnF/TTObNmzdvfvOb2e30ns/jzRadIm8ygYoVgi9upX6U2IdnZ8/W+jx+DhJcLu2oQuQAAQgWkAoUeEW6"
        "CdtxnY+2xg9wGkt/MDZJLLAH0kKT83KLnII0AJL6cBxCRtLGk1Jf5+2ActznQJngeSgzQ9mK1GiUsuXNZhcgjseJI9kDyR9Dsr8p"
        "V/bkJScTL84iEnQENh0z9eMWb4XPA8guqnP9SvJ7vq/oo7fCUwkomTFZ33wqQj6xFVK2E8Tmokf6PryXLLzNBnDaoJiPkWZl2XHL"
        "hFHLjuUUpjEL7JjQlvbutnAC8hECyVX+IpIZVgEO6ieDy3aRnmzDg8A8lUKCDFSqSWFHLo6iV+VGkhCoJDiKNYypxN3HSe3ZpXa0"
        "qj0jpbVUsWWtcVhLPPI7FN86NfA0ZBwmFuoba6t8F/FaTAmK7TBpw7aWLK0NhpZbGvXk8fqNagKUhxTSZMJEhbCnDq0fvIOMRqBh"
        "qQSTl/oQFXIwA4Ii1AjZas2fmuZxlzUU3ozJyZYULjEbikb6uroPRWNt4VhqnUvUq8euWiJK99t0mxEXEwV/mtM5+m04lDEUbQvH"
        "x8iqCTuwTQwFe8M3o7H2cPyFegSVbIi18mtFpf9gTXnoDJYQMS7euR9LJ2GF7P5gpC8cn3GSjK3YaOgKxjs/FID2GbgB/BJfduCE"
        "SbhQOBI5wmtG6Az39H4jCS+XHzRtghYTzaHrbu6Wre74dNv0gKSHPBe38Nv6fhE3zJmdDpfD9eQMV7l7yTUHUPzQcMNgaLcqjXbn"
        "iMffIYz29vTAIyiwcqNlhZW3L1TV1shSs1FnOZEUBuaBlh6Zv3oyJ3e52m9Q11+1D2mO3pzkjNT2hC6+ah8gZZbO3q99TibHw4uk"
        "botUealwWIGBgYGBgYGBgYGBgYGB4b8DfaWUpasLurpRV+d1dfxbPNgaWvf21QLIZtLdupJLxDG31hfeZC618Z6dl/Rc6G/01rpM"
        "HXdr/TL9MvXnaKk3XV2o/wDRfEwSPvZvAV3UFf8wr8vFLkABTtEFvVe8FTX11XDFf7VastEEfdZvnGcZwUXT65Nv2SHMwLCl3inQ"
        "SryXfsPQPPJg9W1BdUB/AW+2JS8="
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", BREAKING)
def test_a_file_that_ends_the_process_that_reads_it_is_refused(kind, tmp_path):
    path = tmp_path / f"table.{kind}"
    path.write_bytes(zlib.decompress(base64.b64decode(BREAKING[kind])))
    # later versions of the libraries may well read it, or say what is wrong with it
    with contextlib.suppress(ValueError):
        tables.read(path, target="y", max_bytes=fuzz_readers.LIMIT)


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "broke down (status -11)"),
        ("os.abort()", "broke down (status -6)"),
        ("os._exit(0)", "broke down (status 0)"),
        ("signal.setitimer(signal.ITIMER_REAL, 0.01); time.sleep(60)", "took more time than a file of its size should"),
        ("resource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nwhile True: pass", "took more time"),
        ("bytearray(10**12)", "takes more memory to read than --max-bytes allows"),
        ("raise ValueError('what is wrong with it.')", "what is wrong with it."),
    ],
)
def test_a_crash_or_hang_of_the_library_is_reported(tmp_path, monkeypatch, harm, words):
    """The sandbox gets a harmful reader from a `sitecustomize` module on its path."""
    (tmp_path / "h5py.py").write_text("")
    body = "\n    ".join(["import os, resource, signal, time", *harm.splitlines()])
    (tmp_path / "sitecustomize.py").write_text(
        f"from randsel.tables.formats import FORMATS, Format\ndef read(path, options):\n    {body}\n"
        "FORMATS['.h5ad'] = Format('h5ad', read, 'h5py', sandboxed=True)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "table.h5ad"
    path.write_bytes(b"")
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the words are compared below)
        _sandbox.read_in_sandbox(".h5ad", path, ReadOptions(10**6))
    assert words in str(caught.value)


def test_the_sandbox_imports_nothing_from_the_folder_of_the_data(tmp_path, monkeypatch):
    X, y = np.eye(4), [0, 1, 0, 1]
    pl.DataFrame({**{f"g{j}": X[:, j] for j in range(4)}, "y": y}).write_parquet(tmp_path / "table.parquet")
    for name in ("numpy", "polars", "json", "randsel"):
        (tmp_path / f"{name}.py").write_text("open('harm', 'w')\n")
    monkeypatch.chdir(tmp_path)
    assert tables.read("table.parquet", target="y").y.tolist() == y
    assert not (tmp_path / "harm").exists()


# ---------------------------------------------------------------- text


def test_gzip_that_unpacks_to_more_than_allowed(tmp_path):
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(b"y,a\n" + b"1,2\n" * 3_000_000, mtime=0))
    assert path.stat().st_size < 100_000
    refused(path, "unpacks to more than", target="y", max_bytes="10MB")


def test_names_count_as_memory(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("y," + ",".join(map(str, range(100_000))) + "\n")
    refused(path, "would take 0.0208 GB, and 0.01 GB are allowed", target="y", max_bytes="10MB")
    np.savez(path.with_suffix(".npz"), X=np.zeros((4, 100_000), dtype=np.float32), y=np.arange(4))
    refused(path.with_suffix(".npz"), "would take 0.0216 GB, and 0.01 GB are allowed", max_bytes="10MB")


def test_a_row_of_too_many_cells_is_refused_before_they_are_made(tmp_path, monkeypatch):
    monkeypatch.setattr("randsel.tables.formats._text.split_record", lambda text, _: text.split(",", 10))
    path = tmp_path / "table.csv"
    path.write_text("y,a\n1" + "," * 1_000_000 + "\n")
    refused(path, "line 2 has 1000001 entries", target="y")


def test_a_line_that_is_too_long_or_a_cell_that_does_not_end(tmp_path, monkeypatch):
    path = tmp_path / "table.csv"
    path.write_text('y,a\n"1,2\n' + "\n" * 200_000 + '"\n')
    refused(path, "line 2, not within 100000 lines, is never closed", target="y")
    path.write_text('y;a\n"' + "\n" * 90_000 + '";2,5\n' + "1;2,5\n2;3,5\n" * 5)
    # the search for decimal commas once took minutes here, as it looked for spaces across lines
    assert len(tables.read(path, target="a", orientation="samples-in-rows").y) == 11
    monkeypatch.setattr("randsel.tables.formats._text.LONGEST_LINE", 1000)
    path.write_text("y,a\n1," + "1" * 2000)
    refused(path, "line 2 has more than 1000 characters", target="y")


def test_messages_stay_short_whatever_names_are_like(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(f"{'y' * 100_000},{'y' * 100_000},y\n1,2,3\n")
    refused(path, "give each a name of its own", target="y")
    path.write_text(",".join(f"{'a' * 50_000}{j}" for j in range(5)) + "\n1,2,3,4,5\n")
    refused(path, "has no column 'y'", target="y")


def test_as_many_names_as_samples_in_a_series_matrix(tmp_path):
    path = tmp_path / "table.txt"
    count = 3000
    path.write_text("!Sample_characteristics\t" + "\t".join(f"k{i}: v" for i in range(count)) + "\nID_REF\n")
    refused(path, "GB are allowed", target="k1", max_bytes="10MB")


def test_plink_files_that_do_not_belong_together(tmp_path):
    fam, bim, bed = next(READERS["plink"].seeds()).split(fuzz_readers.BETWEEN)
    for name, content in (("fam", fam), ("bim", bim), ("bed", bed)):
        (tmp_path / f"s.{name}").write_bytes(content)
    assert tables.read(tmp_path / "s.bed").X.shape == (6, 3)
    (tmp_path / "s.fam").write_bytes(fam * 3)
    refused(tmp_path / "s.bed", "should start with 6c 1b 01 and have 18 bytes for 18 samples and 3 variants")
    (tmp_path / "s.fam").write_bytes(fam * 10_000)
    refused(tmp_path / "s.bed", "s.fam would take", max_bytes="10MB")


# ---------------------------------------------------------------- NPZ


def header(shape, kind="<f8"):
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": kind, "fortran_order": False, "shape": shape})
    return head.getvalue()


def write_npz(path, how=zipfile.ZIP_DEFLATED, **members):
    with zipfile.ZipFile(path, "w", how) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_zip_bombs_in_npz(tmp_path):
    path = tmp_path / "table.npz"
    bomb = header((1000, 10_000)) + bytes(80_000_000)
    write_npz(path, **{"X.npy": bomb})
    assert path.stat().st_size < 100_000
    refused(path, "would take 0.08 GB, and 0.01 GB are allowed", max_bytes="10MB")
    # as bytes, which become eight times as many
    write_npz(path, **{"X.npy": header((1000, 2000), "|u1") + bytes(2_000_000)})
    refused(path, "would take 0.016 GB", max_bytes="10MB")
    # each of them fits
    parts = {f"{name}.npy": header((1000, 1000)) + bytes(8_000_000) for name in ("X", "y")}
    refused(write_npz(path, **parts), "would take 0.016 GB", max_bytes="10MB")
    # a header of two gigabytes, which numpy would read before it complains
    write_npz(path, **{"X.npy": b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31) + b" " * 20_000_000})
    refused(path, "'X.npy' is damaged", max_bytes="10MB")
    # no rows, and columns whose names would fill the memory
    refused(write_npz(path, **{"X.npy": header((0, 10**12))}), "would take 8e+03 GB")
    refused(write_npz(path, **{"X.npy": header((-1, 5))}), "its shape is (-1, 5)")
    refused(write_npz(path, zipfile.ZIP_LZMA, **{"X.npy": header((1, 1))}), "packed in a way that numpy does not use")
    nested = b"{'descr':" + b"(" * 3000
    refused(write_npz(path, **{"X.npy": b"\x93NUMPY\x01\x00" + struct.pack("<H", len(nested)) + nested}), "is damaged")


def test_paths_in_npz_are_not_followed(tmp_path):
    path = tmp_path / "in" / "table.npz"
    path.parent.mkdir()
    write_npz(path, **{"../X.npy": header((1, 1)) + bytes(8), "/X.npy": header((1, 1)) + bytes(8)})
    refused(path, "has no array 'X'; it holds ../X, /X")
    assert [other.name for other in tmp_path.rglob("*")] == ["in", "table.npz"]
    X = header((4, 1)) + np.arange(4.0).tobytes()
    for kind in ("<M8[s]", "<c16", "|V8"):
        refused(write_npz(path, **{"X.npy": X, "y.npy": header((4,), kind) + bytes(64)}), "neither numbers nor text")


# ---------------------------------------------------------------- MAT


def element(kind, content):
    return struct.pack("<II", kind, len(content)) + content + bytes(-len(content) % 8)


def matrix(form, shape, name, content):
    sizes = element(5, struct.pack(f"<{len(shape)}i", *shape))
    return element(14, element(6, struct.pack("<II", form, 0)) + sizes + element(1, name) + content)


def write_mat(path, content, *, packed=False):
    if packed:
        content = zlib.compress(content)
        content = struct.pack("<II", 15, len(content)) + content
    path.write_bytes(b"MATLAB 5.0 MAT-file".ljust(124) + b"\0\1IM" + content)
    return path


@pytest.mark.slow
def test_mat_with_absurd_shapes_and_bombs(tmp_path):
    path = tmp_path / "table.mat"
    numbers = element(9, bytes(8))
    refused(write_mat(path, matrix(6, (2**31 - 1, 2**31 - 1), b"X", numbers)), "would take 3.69e+10 GB")
    refused(write_mat(path, matrix(6, (-5, 3), b"X", numbers)), "cut off or damaged")
    bomb = matrix(6, (1, 1), b"X", element(9, bytes(30_000_000)))
    refused(write_mat(path, bomb, packed=True), "unpacks to more than 0.01 GB", max_bytes="10MB")
    cells = matrix(1, (1_000_000, 1), b"names", element(14, b"") * 1_000_000)
    refused(write_mat(path, cells, packed=True), "table.mat", max_bytes="10MB")
    deep = matrix(6, (1, 1), b"", numbers)
    for _ in range(2000):
        deep = matrix(1, (1, 1), b"X", deep)
    refused(write_mat(path, deep), "maximum recursion depth")


# ---------------------------------------------------------------- h5ad


def write_h5ad(path, change):
    fuzz_readers._write_h5ad(path, np.eye(5, 3), "dense")
    with h5py.File(path, "a") as file:
        change(file)
    return path


def replaced(name, value):
    def change(file):
        del file[name]
        file[name] = value

    return change


@pytest.mark.slow
def test_h5ad_that_reaches_for_other_files(tmp_path):
    secret, path = tmp_path / "secret", tmp_path / "table.h5ad"
    secret.write_bytes(b"secret" * 20)
    write_h5ad(tmp_path / "other.h5ad", lambda _: None)

    def stored_outside(file):
        del file["X"]
        file.create_dataset("X", (5, 3), "u1", external=[(str(secret), 0, 15)])

    def virtual(file):
        del file["X"]
        layout = h5py.VirtualLayout((5, 3), "f8")
        layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5ad"), "X", (5, 3))
        file.create_virtual_dataset("X", layout)

    def behind_a_link(file):
        file["obs/away"] = h5py.ExternalLink("other.h5ad", "/")
        file["obs"].attrs["column-order"] = ["y", "away/obs/y"]

    for change, words in [
        (replaced("obs", h5py.ExternalLink("other.h5ad", "/obs")), "'obs' is not inside the file, but a link"),
        (replaced("X", h5py.SoftLink("/obs")), "'X' is not inside the file, but a link"),
        (replaced("obs/y/codes", h5py.ExternalLink("other.h5ad", "/obs/y/codes")), "'codes' is not inside the file"),
        (behind_a_link, "'away/obs/y' is not inside the file, but a link"),
        (stored_outside, "'X' is not an array inside the file"),
        (virtual, "'X' is not an array inside the file"),
    ]:
        refused(write_h5ad(path, change), words, target="y")


@pytest.mark.slow
def test_h5ad_with_absurd_shapes_and_kinds(tmp_path):
    path = tmp_path / "table.h5ad"

    def one_chunk(file):
        del file["X"]
        file.create_dataset("X", (5, 3), "f8", chunks=(10_000, 10_000), maxshape=(None, None), compression="gzip")[
            0
        ] = 1

    def many_names(file):
        del file["obs/cell"]
        file["obs"].create_dataset("cell", (10**9,), h5py.string_dtype(), chunks=(1000,), fillvalue="x" * 1000)

    def of_itself(file):
        del file["obs/y/categories"]
        file["obs/y/categories"] = file["obs/y"]

    for change, words in [
        (one_chunk, ""),
        (many_names, "would take 8 GB"),
        (of_itself, "recursion"),
        (replaced("X", np.zeros(5)), "X is not a matrix of numbers, but a 1-d"),
        (replaced("X", np.zeros((5, 3), dtype="S3")), "X is not a matrix of numbers"),
        (replaced("X", h5py.Empty("f8")), "'X' is not an array"),
        (replaced("obs/y/codes", np.array([0, 1, 5, 0, 1])), "codes of categories"),
        (replaced("obs/y/codes", np.array([0, 1, -2, 0, 1])), "codes of categories"),
        (replaced("obs/y/codes", np.array([0, 1])), "column 'y' of obs has 2 entries for 5 rows"),
        (replaced("obs/cell", np.zeros((5, 2))), "not a column of numbers or text"),
    ]:
        refused(write_h5ad(path, change), words, target="y", max_bytes="10MB")


# ---------------------------------------------------------------- Parquet


def test_parquet_that_claims_rows_or_unpacks_to_more_than_allowed(tmp_path):
    path = tmp_path / "table.parquet"
    few = pl.DataFrame({"y": [1, 2, 1, 2, 1], "a": [1, 2, 3, 4, 5]})
    few.write_parquet(path, compression="uncompressed")
    data = path.read_bytes()
    length = struct.unpack("<I", data[-8:-4])[0]
    # five, where the footer counts rows and values, becomes 2^55
    claims = data[-8 - length : -8].replace(b"\x16\x0a", b"\x16" + b"\xfe" + b"\xff" * 6 + b"\x7f")
    path.write_bytes(data[: -8 - length] + claims + struct.pack("<I", len(claims)) + b"PAR1")
    refused(path, "table.parquet", target="y")
    # a text that is kept once, for all rows
    rows = 20_000
    pl.DataFrame({"y": [1, 2] * (rows // 2), "t": ["z" * 2000] * rows}).write_parquet(path)
    assert path.stat().st_size < 100_000
    refused(path, "would take 0.0402 GB", target="y", categorical=["t"], max_bytes="10MB")
    pl.DataFrame({"y": [1, 2, 1, 2], "t": [[1], [2], [3], [4]]}).write_parquet(path)
    refused(path, "column 't' is of type List(Int64)", target="y")


# ---------------------------------------------------------------- memory, as the system counts it

LIMITED = """
import resource, sys
sys.path.insert(0, {tests!r})
import fuzz_readers
from randsel import tables
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + 300_000_000,) * 2)
try:
    tables.read({path!r}, max_bytes="10MB", **{options!r})
except ValueError as error:
    print("refused:", error)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not say how large a process is")
@pytest.mark.parametrize("name", ["deflated.npz", "header.npz", "commas.csv", "text.csv.gz", "samples.txt"])
def test_what_is_refused_takes_little_memory(tmp_path, name):
    path, options = tmp_path / name, {} if name.endswith(".npz") else {"target": "y"}
    if name == "deflated.npz":
        write_npz(path, **{"X.npy": header((1000, 10**6)) + bytes(400_000_000)})
    elif name == "header.npz":
        write_npz(path, **{"X.npy": b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31) + b" " * 400_000_000})
    elif name == "commas.csv":
        path.write_bytes(b"y,a\n" + b"," * 9_000_000 + b"\n")
    elif name == "text.csv.gz":
        path.write_bytes(gzip.compress(b"y,a\n" + b"1" * 400_000_000, 1, mtime=0))
    else:
        path.write_text("!Sample_characteristics\t" + "\t".join(f"k{i}:" for i in range(40_000)) + "\nID_REF\n")
    code = LIMITED.format(tests=str(TESTS), path=str(path), options=options)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("refused: "), done.stderr[-2000:]
