"""Features: which columns they are, codes of categories, missing and infinite values, logarithms."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from randsel._numerics.columns import column_slices
from randsel._utils.typing import Array
from randsel.tables._orientation import unknown_column
from randsel.tables._target import is_missing
from randsel.tables.formats._text import Sheet, check_distinct

#: Values are raised to this before logarithms are taken.
LOWEST = 1e-3


def features(
    path: Path, samples: Sheet, special: set[str], categorical: tuple[str, ...], drop: Sequence[str], use: Array
) -> tuple[Array, list[str], list[int]]:
    """Return numbers, names, and places of the categorical ones."""
    known = {*samples.columns, *samples.texts}
    for name in (*categorical, *drop):
        if name not in known and not (name in drop and samples.lying and name in (samples.rows or ())):
            raise ValueError(unknown_column(name, [*samples.columns, *samples.texts], path))
    left = special | set(drop)
    at = [j for j, name in enumerate(samples.columns) if name not in left]
    if not samples.lying:
        _check_odd(path, samples, [j for j in at if samples.columns[j] not in categorical])
    X = _part(samples.values, use, at)
    names = [samples.columns[j] for j in at]
    for name in categorical:
        if name in samples.texts:
            codes = _codes(samples.texts[name], use)
            if name not in names:
                X, names = np.column_stack([X, codes]), [*names, name]
            X = X if X.flags.writeable else X.copy()
            X[:, names.index(name)] = codes
    if not names:
        msg = f"{path} has no features: all of its columns have another purpose."
        raise ValueError(msg)
    check_distinct(names, path, "features")
    return X, names, [names.index(name) for name in categorical]


def _part(values: Array, rows: Array, columns: list[int]) -> Array:
    """Take rows and columns with one copy, or with none if that is all of them."""
    every = len(rows) == len(values)
    if every and len(columns) == values.shape[1]:
        return values
    if columns and columns == list(range(columns[0], columns[-1] + 1)):
        part = values[:, columns[0] : columns[-1] + 1]
        return np.ascontiguousarray(part) if every else part[rows]
    return values[:, columns] if every else values[np.ix_(rows, np.array(columns, dtype=int))]


def _check_odd(path: Path, samples: Sheet, columns: list[int]) -> None:
    odd = [j for j in columns if j in samples.odd]
    if odd:
        more = f" So do {len(odd) - 1} other columns hold text." if len(odd) > 1 else ""
        msg = f"{path}: {samples.odd[odd[0]]}{more}"
        raise ValueError(msg)
    for j in columns if samples.start else ():
        if len(samples.start[j]) > 15 and samples.start[j].isdecimal():
            msg = (
                f"{path}: column {samples.columns[j]!r} holds {samples.start[j]}, more digits than a number keeps; are "
                "these ids? Name them (--id-column), or leave them out (--drop-columns)."
            )
            raise ValueError(msg)


def _codes(cells: Any, use: Array) -> Array:
    """Replace names by the numbers of their levels; what is missing stays missing."""
    gone = is_missing(cells)
    names = [str(cells[at]) for at in use.tolist()]
    levels = {
        name: code for code, name in enumerate(sorted({n for n, g in zip(names, gone[use], strict=True) if not g}))
    }
    return np.array([levels.get(name, np.nan) for name in names], dtype=np.float64)


def without_missing(
    path: Path, found: tuple[Array, list[str], list[int]], missing: str, notes: list[str]
) -> tuple[Array, tuple[str, ...], tuple[int, ...]]:
    """Do what was asked for about missing values, and refuse infinite ones."""
    X, names, nominal = found
    infinite, gone = np.isinf(X).sum(axis=0), np.isnan(X).sum(axis=0)
    if infinite.any():
        msg = f"{path}: {_worst(infinite, names)} infinite; replace them by numbers, or use --drop-columns."
        raise ValueError(msg)
    if missing == "error" and gone.any():
        empty = int((gone == len(X)).sum())
        said = f" {empty} of them have no value at all." if empty else ""
        msg = (
            f"{path}: {_worst(gone, names)} missing.{said} Choose --missing median (imputed within folds) or "
            "--missing drop-columns."
        )
        raise ValueError(msg)
    drop = gone > 0 if missing == "drop-columns" else (gone == len(X)) & (missing == "median")
    if gone.any():
        notes.append(f"{int(gone.sum())} values are missing, in {int((gone > 0).sum())} of {len(names)} columns.")
    if missing == "median" and (gone > drop * len(X)).any():
        notes.append("Missing values are replaced by medians of training samples; in categorical columns by a level.")
        X = X if X.flags.writeable else X.copy()
        for j in nominal:
            # a level of its own looks at no other sample, so it lets nothing leak between folds
            X[np.isnan(X[:, j]), j] = np.nanmax(X[:, j], initial=-1.0) + 1.0
    if drop.any():
        why = "missing values" if missing == "drop-columns" else "no value at all"
        notes.append(f"{int(drop.sum())} columns with {why} are left out.")
        if drop.all():
            msg = f"{path}: every column has missing values; choose --missing median instead."
            raise ValueError(msg)
        X, kept = X[:, ~drop], np.flatnonzero(~drop).tolist()
        names, nominal = [names[j] for j in kept], [kept.index(j) for j in nominal if not drop[j]]
    return X, tuple(names), tuple(nominal)


def _worst(counts: Array, names: list[str]) -> str:
    """Name the columns with most, and how many columns there are in all."""
    order = np.argsort(-counts, kind="stable")[: min(3, int((counts > 0).sum()))]
    said = ", ".join(f"{counts[j]} entries of column {names[j]!r}" for j in order.tolist())
    return f"{int(counts.sum())} entries of {int((counts > 0).sum())} columns ({said}) are"


def take_log2(X: Array, nominal: tuple[int, ...], notes: list[str]) -> Array:
    """Take logarithms; a logarithm looks at one value at a time, so it may be taken before the folds."""
    codes = X[:, list(nominal)].copy()
    low = int((X < LOWEST).sum()) - int((codes < LOWEST).sum())
    X = np.maximum(X, LOWEST)
    np.log2(X, out=X)
    X[:, list(nominal)] = codes
    notes.append(f"Logarithms of base 2 were taken; {low} values below {LOWEST} were raised to it first.")
    return X


def note_types(
    X: Array,
    names: tuple[str, ...],
    nominal: tuple[int, ...],
    samples: Sheet,
    special: set[str],
    y: Array,
    target: str,
    notes: list[str],
) -> None:
    """Say what the features and the target are."""
    whole = constant = 0
    for part in column_slices(len(names), max(64, 4_000_000 // len(X))):
        block = X[:, part]
        whole += int((np.isnan(block) | (block == np.floor(block))).all(axis=0).sum())
        constant += int((np.isnan(block) | (block == np.fmax.reduce(block, axis=0, initial=-np.inf))).all(axis=0).sum())
    said = f"{len(X)} samples, {len(names)} features: {len(nominal)} categorical, {whole} of whole numbers only"
    notes.append(f"{said}, {constant} constant; {X.dtype.name}.")
    levels = np.unique(y)
    if y.dtype.kind == "U":
        shown = ", ".join(f"{level} ({int((y == level).sum())})" for level in levels[:5].tolist())
        notes.append(
            f"The target {target!r} is text of {len(levels)} levels: {shown}{', …' if len(levels) > 5 else ''}."
        )
    else:
        notes.append(f"The target {target!r} is numbers, {len(levels)} different ones.")
    unused = [n for n in samples.texts if n not in special and n not in names and n not in samples.columns]
    if unused:
        more = ", …" if len(unused) > 8 else ""
        notes.append(f"Columns that are no features and were not asked for: {', '.join(unused[:8])}{more}.")
