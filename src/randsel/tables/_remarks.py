"""Notes about the contents of a table: shape, target, features that are skewed or unlike the rest, changed names."""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import date, timedelta
from shlex import quote
from typing import Any

import numpy as np

from randsel._numerics.columns import column_slices
from randsel._utils.text import join_names, list_first, pluralise
from randsel._utils.typing import Array
from randsel.tables._identifiers import MIN_FEATURES, find_clinical, find_whole
from randsel.tables.formats import MISSING, find_names, is_id_name

#: Skewness above which a column is strongly skewed; that of an exponential distribution is 2, of a normal one 0.
_SKEWED = 1.0
#: Numbers that often stand for a missing value.
CODES_FOR_MISSING = (-9, -99, -999, -9999, -99999, 99, 999, 9999, 99999)
#: Names of classes that may mean that the class is not known.
_UNKNOWN = ("unknown", "missing", "unclear", "undetermined", "indeterminate", "not known", "not available", "pending")
#: Maximum number of features from which the fraction of skewed ones is estimated.
_MAX_SKEW_COLUMNS = 500
FEW_NUMBERS = 6  # a target of at most this many distinct numbers is described by how often each occurs
_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mrz|mai|okt|dez"
#: Names of genes that a spreadsheet took for a date: 1-Mar (MARCHF1), Sep-02, 2. Sep, 2021-03-01; or for a number.
_DATE_NAME = re.compile(
    rf"\d{{1,2}}[-. ]+(?:{_MONTHS})[a-z]*(?:[-. ]\d{{2,4}})?|(?:{_MONTHS})[-. ]\d{{1,2}}|\d{{4}}-\d\d-\d\d( 00:00:00)?|"
    r"\d{1,2}[/.]\d{1,2}[/.]\d{2,4}|\d\.\d+e\+?\d\d",
    re.IGNORECASE,
)
_DATE_STARTS = tuple(f"\0{start}" for start in (*"0123456789", *_MONTHS.split("|")))
#: Days of dates from 1990 to 2040 as spreadsheets count them, from 1899-12-30.
_DAY_NUMBERS = range(32874, 51502)


def describe_features(
    X: Array, names: Sequence[str], nominal: Collection[int], features: Collection[str], *, log2: bool
) -> list[str]:
    """Return notes about features that are unlike the rest, or skewed, and about names that Excel may have changed."""
    notes = describe_excel_names(names)
    if X.shape[1] < MIN_FEATURES or len(X) < 2:
        return notes
    columns = np.array([j for j in range(X.shape[1]) if j not in set(nominal)], dtype=int)
    unlike = [name for name in _find_unlike(X, names, columns) if name not in set(features)]
    if unlike:
        count = pluralise(len(unlike), "1 feature is", f"{len(unlike)} features are")
        shown = list_first(unlike, 8)
        notes.append(
            f"{count} unlike the others in name, scale or kind: {shown}. Properties of samples are better covariates, "
            f"whose effects are removed (--covariates {quote(join_names(unlike[:3]))}), or left out (--drop-columns)."
        )
    skewed = 0.0 if log2 else _skewed_fraction(X, columns)
    if skewed > 0.5:
        notes.append(
            f"{100 * skewed:.0f} % of the features are strongly skewed, as raw intensities and counts are. randSel "
            "uses the ranks of the values of every feature, so this does no harm, and --log2 changes little."
        )
    return notes


def _find_unlike(X: Array, names: Sequence[str], columns: Array) -> list[str]:
    """Return the names of features that are clinical, then of another kind (whole or not), then of another scale."""
    max_count = max(3, len(columns) // 100)  # more of them are not exceptions
    clinical = columns[find_clinical([names[j] for j in columns.tolist()])].tolist()
    rarer_kind = _find_rarer_kind(X, columns)
    rows = np.unique(np.linspace(0, len(X) - 1, 9).astype(int))
    sizes = np.median(np.abs(np.nan_to_num(X[np.ix_(rows, columns)])), axis=0)
    columns, scales = columns[sizes > 0], np.log10(sizes[sizes > 0])
    distances = np.abs(scales - np.median(scales)) if len(scales) else scales
    far = columns[distances > max(3.0, 10 * float(np.median(distances)))].tolist() if len(scales) else []
    chosen = clinical + (rarer_kind if len(rarer_kind) <= max_count else [])
    return [names[j] for j in dict.fromkeys(chosen + (far if len(far) <= max_count else []))]


def _find_rarer_kind(X: Array, columns: Array) -> list[int]:
    """Return the columns of whole numbers, or the others if these are fewer; constant columns are of neither kind."""
    is_whole = np.isin(columns, find_whole(X, columns))
    whole = [j for j in columns[is_whole].tolist() if len(np.unique(X[:, j])) > 1]
    fractions: list[int] = columns[~is_whole].tolist()
    rarer = min(whole, fractions, key=len)
    return [j for j in rarer if len(np.unique(X[:, j])) > 1]


def _skewed_fraction(X: Array, columns: Array) -> float:
    """Return the fraction of columns that are strongly skewed and have no negative values, from at most 500 columns."""
    block = X[:, columns[:: max(1, len(columns) // _MAX_SKEW_COLUMNS)]].astype(np.float64)
    n_present = np.maximum((~np.isnan(block)).sum(axis=0), 1)
    centred = np.nan_to_num(block - np.nansum(block, axis=0) / n_present)
    variance = (centred**2).sum(axis=0) / n_present
    skewness = (centred**3).sum(axis=0) / n_present / np.where(variance > 0, variance, np.inf) ** 1.5
    is_positive = ~(block < 0).any(axis=0)
    return float(np.mean((skewness > _SKEWED) & is_positive)) if block.shape[1] else 0.0


def describe_excel_names(names: Sequence[str]) -> list[str]:
    """Return a note if names of features look like genes that a spreadsheet turned into dates or numbers."""
    suspects = [names[j] for j in find_names(names, _DATE_STARTS)]
    numbers = [name for name in suspects if name.isdecimal()]
    as_dates = [name for name in suspects if _DATE_NAME.fullmatch(name)]
    # where many names are numbers, they are probes or database ids
    if len(numbers) < max(2, len(names) / 10):
        as_dates += [name for name in numbers if len(name) == 5 and int(name) in _DAY_NUMBERS]
    if not as_dates:
        return []
    number = next((name for name in as_dates if name.isdecimal()), None)
    meaning = ""
    if number is not None:
        day = date(1899, 12, 30) + timedelta(days=int(number))
        meaning = f" ({number} is the number of the day {day.day}-{day:%b})"
    subject = pluralise(len(as_dates), "1 name of a feature looks", f"{len(as_dates)} names of features look")
    note = (
        f"{subject} like genes that Excel changed to dates or numbers: {list_first(as_dates, 5)}{meaning}. Excel turns "
        "MARCHF1 into 1-Mar, and SEPTIN2 into 2-Sep; take the names from the original file."
    )
    return [note]


def describe_contents(X: Array, n_nominal: int, y: Array, target: str, unused: Sequence[str]) -> list[str]:
    """Return notes about the features, the target and the columns without a role."""
    n_whole = n_constant = 0
    for columns in column_slices(X.shape[1], max(64, 4_000_000 // len(X))):
        block, is_nan = X[:, columns], np.isnan(X[:, columns])
        n_whole += int((is_nan | (block == np.floor(block))).all(axis=0).sum())
        n_constant += int((is_nan | (block == np.fmax.reduce(block, axis=0, initial=-np.inf))).all(axis=0).sum())
    kinds = f"{n_nominal} categorical, {n_whole} of whole numbers only, {n_constant} constant"
    samples, features = pluralise(len(X), "sample", "samples"), pluralise(X.shape[1], "feature", "features")
    notes = [f"{len(X)} {samples}, {X.shape[1]} {features}: {kinds}; {X.dtype.name}."]
    notes += _describe_target(y, target) if target else []
    if unused:
        notes.append(f"Columns that are not features and have no role: {list_first(unused, 8)}.")
    return notes


def describe_donors(unused: Mapping[str, Any]) -> list[str]:
    """Return a note if a column without a role has the name of an identifier and repeated values, as donors have."""
    for name, cells in unused.items():
        known = [str(cell) for cell in cells if str(cell) not in MISSING]
        n_levels = len(set(known))
        if is_id_name(name) and 1 < n_levels < len(known):
            note = (
                f"Column {name!r} has {n_levels} values for {len(known)} samples. If samples with the same value "
                f"belong together, as those of one donor do, say so: --groups {quote(name)}."
            )
            return [note]
    return []


def describe_codes(y: Array, target: str) -> list[str]:
    """Return notes about numbers such as -999 that the target holds repeatedly, far from all its other values."""
    if y.ndim != 1 or y.dtype.kind != "f":
        return []
    return [
        f"The number {code} is far from all other values of the target {target!r}: if it stands for a missing value, "
        f'say so, written as in the file (--na="{code}").'
        for code in CODES_FOR_MISSING
        if np.count_nonzero(y == code) > 1 and _is_far(y, code)
    ]


def _is_far(values: Array, code: float) -> bool:
    """Return whether the distance from a code to all other values exceeds the range of these."""
    others = values[(values != code) & ~np.isnan(values)]
    if len(others) < 2:
        return False
    low, high = float(others.min()), float(others.max())
    return high > low and max(low - code, code - high) > high - low


def _describe_target(y: Array, target: str) -> list[str]:
    if y.dtype.names is not None:
        low, middle, high = np.nanquantile(y["time"], [0.0, 0.5, 1.0])
        return [f"Times in {target!r} run from {low:g} to {high:g}, half of them below {middle:g}."]
    known = y[y != ""] if y.dtype.kind == "U" else y[~np.isnan(y)] if y.dtype.kind == "f" else y
    if not len(known):
        return []  # new samples of which no outcome is known
    levels, counts = np.unique(known, return_counts=True)
    if y.dtype.kind == "U":
        shown = [f"{level} ({count})" for level, count in zip(levels.tolist(), counts.tolist(), strict=True)]
        number = f"{len(levels)} {pluralise(len(levels), 'level', 'levels')}"
        notes = [f"The target {target!r} is text of {number}: {list_first(shown, 5)}."]
        unknown = [level for level in levels.tolist() if level.strip().casefold() in _UNKNOWN]
        if unknown and len(levels) > 2:
            notes.append(
                f"{list_first(unknown, 5)} {pluralise(len(unknown), 'is taken for a class', 'are taken for classes')} "
                f"of {target!r}. If the class of these samples is not known, say so (--na {quote(','.join(unknown))})."
            )
        return notes
    shown = [f"{level:g} ({count})" for level, count in zip(levels.tolist(), counts.tolist(), strict=True)]
    listed = f": {', '.join(shown)}" if len(levels) <= FEW_NUMBERS else f", from {levels[0]:g} to {levels[-1]:g}"
    return [f"The target {target!r} has {len(levels)} distinct {pluralise(len(levels), 'number', 'numbers')}{listed}."]
