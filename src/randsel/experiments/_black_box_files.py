"""The files of the Black Box Learning Challenge: rows of numbers, some with a class, with or without a header."""

from array import array
from math import isfinite
from pathlib import Path

import numpy as np

from randsel._utils.files import check_size
from randsel._utils.text import shorten_errors
from randsel._utils.typing import Array
from randsel.datasets import BlackBox
from randsel.tables.formats._sheet import parse_number
from randsel.tables.formats._text import open_records, split_record

#: Bytes at most, of text that is unpacked and of numbers in memory; its files are smaller.
LARGEST = 10_000_000_000
#: Classes are numbered from 1 to 9; what is larger is none, and may not fit into a whole number.
LARGEST_CLASS = 1_000_000


@shorten_errors()
def read_black_box(
    train: str | Path, test: str | Path, unlabelled: str | Path | None = None, *, max_unlabelled: int | None = None
) -> BlackBox:
    """Read the files of the Black Box Learning Challenge of 2013, plain or gzipped.

    Parameters
    ----------
    train : str or Path
        `train.csv`: a header, then rows of a class and its features.
    test : str or Path
        `test.csv`: a header, then rows of features.
    unlabelled : str or Path, default=None
        `extra_unsupervised_data.csv`: rows of features. A first line that holds anything but numbers is taken for a
        header, here as in the other files: programs written for the challenge disagree whether this one has any.
    max_unlabelled : int, default=None
        Rows to read of it, which is by far the largest file.

    Returns
    -------
    BlackBox
        Without `held_out_y`, which the challenge kept to itself.
    """
    labelled = _box(Path(train))
    if labelled.shape[1] < 2:
        msg = f"{train} has one column only; a class and at least one feature are needed."
        raise ValueError(msg)
    y, X = labelled[:, 0], labelled[:, 1:]
    odd = (y != np.round(y)) | (np.abs(y) > LARGEST_CLASS)
    if odd.any():
        wrong = int(np.argmax(odd))
        msg = f"{train}: the first column must hold classes, but row {wrong + 1} has {y[wrong]:g}; is it a test file?"
        raise ValueError(msg)
    others = [_box(Path(test))]
    others.append(X[:0] if unlabelled is None else _box(Path(unlabelled), max_unlabelled))
    for path, rows in zip((test, unlabelled), others, strict=True):
        if rows.shape[1] != X.shape[1]:
            msg = f"{path} has {rows.shape[1]} columns, but {train} has {X.shape[1]} features beside the class."
            raise ValueError(msg)
    return BlackBox(X, y.astype(int), others[1], others[0])


def _box(path: Path, most: int | None = None) -> Array:
    """Numbers of a file with or without a header, all of them finite, in rows of the same length."""
    values, rows, width = array("d"), 0, 0
    with open_records(path, LARGEST, []) as lines:
        for at, line in lines:
            if rows == most:
                break
            entries = split_record(line, ",")
            if at == 1 and any(parse_number(entry) is None for entry in entries):
                continue
            width = width or len(entries)
            values.extend(_row(entries, at, width, path))
            rows += 1
            check_size(path, 8 * len(values), LARGEST)
    if not rows:
        msg = f"{path} has no rows of numbers."
        raise ValueError(msg)
    return np.frombuffer(values, dtype=np.float64).reshape(rows, width)


def _row(entries: list[str], at: int, length: int, path: Path) -> list[float]:
    if len(entries) != length:
        msg = f"{path}: line {at} has {len(entries)} entries, and the first row {length}; the file may be cut off."
        raise ValueError(msg)
    values = [value for entry in entries if (value := parse_number(entry)) is not None and isfinite(value)]
    if len(values) < len(entries):
        wrong = next(entry for entry in entries if (value := parse_number(entry)) is None or not isfinite(value))
        msg = f"{path}: line {at} holds {wrong!r}, and the challenge's files hold finite numbers only."
        raise ValueError(msg)
    return values
