"""Files that somebody made to do harm: each is refused in a sentence, and takes no more memory than it may."""

import base64
import contextlib
import gzip
import io
import json
import os
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
from fuzz_readers import APART, READERS, fault

from randsel import experiment, table_apart, table_black_box, tables
from randsel.table_text import LONGEST_MESSAGE

TESTS = Path(__file__).parent


def refused(path, *words, **options):
    """Read a file, which must be refused in a sentence that has these words."""
    with pytest.raises(ValueError, match=r"\w+ .*[.?]$") as caught:
        tables.read(path, **options)
    said = str(caught.value)
    assert type(caught.value) is ValueError
    assert len(said) <= LONGEST_MESSAGE
    assert all(word in said for word in words), said


# ---------------------------------------------------------------- the fuzzer's readers, without the fuzzer


@pytest.mark.parametrize("name", READERS)
def test_seeds_are_read_or_refused_in_a_sentence(name):
    assert {fault(READERS[name], seed) for seed in READERS[name].seeds()} == {None}


@pytest.mark.parametrize("name", READERS)
def test_some_seed_is_read(name, tmp_path):
    """Otherwise the fuzzer would start from what is refused at the first look."""
    for at, seed in enumerate(READERS[name].seeds()):
        (tmp_path / str(at)).mkdir()
        with contextlib.suppress(ValueError):
            assert READERS[name].read(seed, tmp_path / str(at)) is not None
            return
    pytest.fail(f"no seed of {name} is read")


@pytest.mark.parametrize("name", [name for name in READERS if name not in APART])
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


#: What the fuzzer found, as short as it can be, and what it led to.
NPY = b"\x93NUMPY\x01\x00v\x00{'descr': '%s', 'fortran_order': False, 'shape': (%s), }"
FOUND = {
    "lines of samples of other lengths: IndexError": (
        "geo",
        b"\n!Sample_characteristics_ch1\ty: a\n!Sample_characteristics_ch1\tx: b\ty: a\n",
    ),
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
}


@pytest.mark.parametrize("what", FOUND)
def test_what_the_fuzzer_found(what):
    name, data = FOUND[what]
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


#: Files of which the fuzzer found that they end the process that reads them, packed; the bytes are no format of ours.
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
def test_whatever_a_library_does_to_its_process_this_one_goes_on(tmp_path, monkeypatch, harm, words):
    """The process apart gets a reader that does harm, by a module of this name in the folder of its packages."""
    (tmp_path / "h5py.py").write_text("")
    body = "\n    ".join(["import os, resource, signal, time", *harm.splitlines()])
    (tmp_path / "sitecustomize.py").write_text(
        f"import randsel.table_formats as formats\ndef read(path, **_):\n    {body}\nformats.read_h5ad = read\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "table.h5ad"
    path.write_bytes(b"")
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the words are compared below)
        table_apart.read_apart("h5ad", path, layer=None, limit=10**6)
    assert words in str(caught.value)


def test_a_process_apart_imports_nothing_that_lies_beside_the_data(tmp_path, monkeypatch):
    X, y = np.eye(4), [0, 1, 0, 1]
    pl.DataFrame({**{f"g{j}": X[:, j] for j in range(4)}, "y": y}).write_parquet(tmp_path / "table.parquet")
    for name in ("numpy", "polars", "json", "randsel"):
        (tmp_path / f"{name}.py").write_text("open('harm', 'w')\n")
    monkeypatch.chdir(tmp_path)
    assert tables.read("table.parquet", target="y").y.tolist() == y
    assert not (tmp_path / "harm").exists()
