"""Save the answers of many fits, and check later that they are still the same to the bit.

For changes that must not change any number, such as moving code from file to file::

    python tools/same_answers.py save FOLDER      # before the change
    python tools/same_answers.py compare FOLDER   # after it

`--only TEXT` runs the cases whose name contains the text, `--quick` a few cases of every kind, in some seconds.
`list` prints the names. Both runs must happen on the same machine with the same packages: other versions of numpy or
BLAS, and other processors, round differently.

A case is one fit, or one run of the command line. Its outputs are arrays in a file of its own, NAME.npz. `compare` runs
it again and compares type, shape and bytes of every array; all NaN count as equal. It prints all differences and ends
with status 1 if there are any. A case that raises an error is stored as the type and message of the error. Messages of
errors, warnings and standard error of commands are compared too, but a difference there is only mentioned.

Estimators: all public attributes that end with an underscore, and of a path of culling the arrays of every round.

Commands: standard output, exit status, and every file that they write (pictures too), byte by byte. Left out are
`seconds.csv`, `times.csv` and `runs.csv` of `randsel compare`, which hold times and dates, and no other file. Commands
run in a folder of their own with relative paths, so that no path of this machine gets into `run.json` or `report.html`.

Only public names are used: those of `randsel`, `randsel.tables.read`, and `python -m randsel`.
"""
# Packages that few cases need are imported by these; variables of the environment are set before numpy is imported.
# ruff: noqa: PLC0415

import os

# before numpy and scipy are imported: sums in one order, and tensors of torch in scikit-learn
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ["SCIPY_ARRAY_API"] = "1"

import argparse
import dataclasses
import json
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import sklearn
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ShuffleSplit
from sklearn.pipeline import make_pipeline

import randsel
from randsel import (
    BaHSIC,
    CorrelationFilter,
    FoHSIC,
    InteractionScan,
    KernelRFE,
    LPBoostMKL,
    PathKernels,
    RandSel,
    RandSelCV,
    SparseFiltering,
    StabilitySelection,
    datasets,
    guarantees,
    read_blocks,
    select_adata,
    tables,
)

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
Data = tuple[Any, Any]

#: Fields of a round of culling: arrays, and numbers.
ROUND_ARRAYS = ("features", "contributions", "main", "interaction", "scores", "dropped", "fixed")
ROUND_NUMBERS = ("gamma", "alignment", "chance")
#: Files of commands that hold times, and are never the same.
TIMES = ("seconds.csv", "times.csv", "runs.csv")
#: Names of arrays that start like this are for people; differences are only mentioned.
SAID = "said: "
#: Packages that numbers depend on.
PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "dask", "pandas", "polars")


# ---------------------------------------------------------------- cases


@dataclasses.dataclass(frozen=True)
class Case:
    """What to run.

    Attributes
    ----------
    run
        Returns the outputs; gets an empty folder.
    quick
        Whether it belongs to the few cases of --quick.
    raises
        Whether it ought to end in an error.
    """

    run: Callable[[Path], Any]
    quick: bool = False
    raises: bool = False


CASES: dict[str, Case] = {}


def case(name: str, *, quick: bool = False, raises: bool = False) -> Callable[[Any], Any]:
    """Make a case of a function that gets an empty folder and returns outputs."""

    def added(function: Callable[[Path], Any]) -> Callable[[Path], Any]:
        if name in CASES:
            msg = f"Two cases are called {name!r}."
            raise ValueError(msg)
        CASES[name] = Case(function, quick, raises)
        return function

    return added


def fit(
    name: str,
    estimator: Any,
    data: Callable[[], Data],
    *,
    quick: bool = False,
    raises: bool = False,
    **given: Any,
) -> None:
    """Make a case of a fit; `given` are further arguments of `fit`."""
    case(name, quick=quick, raises=raises)(lambda _: estimator.fit(*data(), **given))


# ---------------------------------------------------------------- outputs to arrays


def flat(value: Any, name: str = "") -> Iterator[tuple[str, Array]]:
    """Take outputs apart into arrays that can be kept without pickling, each with a name.

    Parameters
    ----------
    value : object
        Numbers, text, arrays, estimators, paths of culling, data classes; dicts, lists and tuples of them.
    name : str
        Name of the whole.

    Yields
    ------
    name, array
        The parts.
    """
    if isinstance(value, BaseEstimator):
        for attribute in sorted(dir(value)):
            if attribute.endswith("_") and not attribute.startswith("_") and hasattr(value, attribute):
                yield from flat(getattr(value, attribute), _below(name, attribute))
    elif hasattr(value, "rounds"):
        yield from _flat_path(value, name)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from flat(getattr(value, field.name), _below(name, field.name))
    elif isinstance(value, dict):
        for key in value:
            yield from flat(value[key], _below(name, str(key)))
    elif isinstance(value, list | tuple) and not _is_plain(value):
        yield _below(name, "length"), np.asarray(len(value))
        for number, part in enumerate(value):
            yield from flat(part, _below(name, str(number)))
    else:
        yield name or "value", _array(value)


def _below(name: str, part: str) -> str:
    return f"{name}.{part}" if name else part


def _is_plain(values: Any) -> bool:
    """Whether a list makes an array of numbers, or of texts."""
    return all(isinstance(v, int | float) for v in values) or all(isinstance(v, str) for v in values)


def _flat_path(path: Any, name: str) -> Iterator[tuple[str, Array]]:
    """Return rounds of culling, one behind the other, and how long each is."""
    for field in ROUND_ARRAYS:
        parts = [np.asarray(getattr(r, field)) for r in path.rounds]
        yield _below(name, field), np.concatenate(parts)
        yield _below(name, f"{field}.lengths"), np.array([len(part) for part in parts])
    for field in ROUND_NUMBERS:
        yield _below(name, field), np.array([getattr(r, field) for r in path.rounds])
    yield _below(name, "best"), np.asarray(path.best)
    yield _below(name, "stands_out"), np.asarray(path.stands_out)


def _array(value: Any) -> Array:
    if value is None:
        return np.asarray("None")
    if hasattr(value, "compute"):
        value = value.compute()
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    if isinstance(value, bytes):
        return np.frombuffer(value, dtype=np.uint8)
    array = np.asarray(value)
    if array.dtype.kind not in "OT":
        return array
    if any(not isinstance(v, str | int | float | np.generic | None) for v in array.ravel().tolist()):
        msg = f"Nobody knows how to keep a {type(value).__name__}."
        raise TypeError(msg)
    return array.astype(str)


def outputs(name: str) -> Arrays:
    """Run a case, and return all that is kept of it."""
    with (
        tempfile.TemporaryDirectory(prefix="same-answers-") as folder,
        warnings.catch_warnings(record=True) as seen,
    ):
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        try:
            found = dict(flat(CASES[name].run(Path(folder))))
        except Exception as error:
            found = {"error": np.asarray(type(error).__name__), f"{SAID}message": np.asarray(_without(folder, error))}
        heard = sorted({f"{w.category.__name__}: {_without(folder, w.message)}" for w in seen})
    found[f"{SAID}warnings"] = np.array(heard, dtype=str)
    return found


def _without(folder: str, text: Any) -> str:
    return str(text).replace(folder, "FOLDER")


# ---------------------------------------------------------------- data


def normal(m: int, n: int, seed: int = 0) -> Data:
    """Two classes, by one feature and by a product of two."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, n))
    return X, (X[:, 0] + 1.5 * X[:, 1] * X[:, 2] + 0.5 * rng.standard_normal(m) > 0).astype(int)


def numbers(m: int, n: int, seed: int = 0) -> Data:
    """Return a target of numbers."""
    X, _ = normal(m, n, seed)
    return X, X[:, 0] + X[:, 1] * X[:, 2] + np.random.default_rng(seed + 1).standard_normal(m)


def several(m: int, n: int, seed: int = 0) -> Data:
    """Three outputs."""
    X, y = numbers(m, n, seed)
    return X, np.column_stack([y, X[:, 3] ** 2 + y, np.random.default_rng(seed + 2).standard_normal(m)])


def four_classes(m: int, n: int, seed: int = 0) -> Data:
    """Four classes, as text."""
    X, _ = normal(m, n, seed)
    return X, np.array(["north", "east", "south", "west"])[2 * (X[:, 0] > 0) + (X[:, 1] * X[:, 2] > 0)]


def xor(m: int, n: int, seed: int = 0) -> Data:
    """Two classes, by a product of two."""
    return datasets.make_xor(m, n, noise=0.05, random_state=seed)[:2]


def noise(m: int, n: int) -> Data:
    """Nothing to be found."""
    rng = np.random.default_rng(12)
    return rng.standard_normal((m, n)), rng.integers(0, 2, m)


def heavy(m: int, n: int, seed: int = 0) -> Data:
    """Columns with tails on one side."""
    X, y = normal(m, n, seed)
    return np.exp(1.2 * X), y


def cauchy(m: int, n: int) -> Data:
    """Columns that are little more than an outlier."""
    X, y = normal(m, n, 3)
    X[:, ::2] = np.random.default_rng(4).standard_cauchy(X[:, ::2].shape) + X[:, ::2]
    return X, y


def snps(m: int, n: int, seed: int = 0) -> Data:
    """Return counts of an allele, some of them rare, and two that act together."""
    rng = np.random.default_rng(seed)
    X = rng.binomial(2, rng.uniform(0.02, 0.5, n), (m, n)).astype(float)
    X[:, :2] = rng.binomial(2, 0.4, (m, 2))
    return X, ((X[:, 0] > 0) ^ (X[:, 1] > 0) ^ (rng.random(m) < 0.1)).astype(int)


def odd_columns(m: int, n: int) -> Data:
    """Constant columns, copies, columns of two values, one value that differs from all others."""
    X, y = normal(m, n, 5)
    X[:, 3:6] = [0.0, 7.0, -1e9]
    X[:, 6], X[:, 7], X[:, 8] = X[:, 0], -X[:, 1], 3.0 * X[:, 2] + 5.0
    X[:, 9] = X[:, 9] > 0.3
    X[:, 10] = 0.0
    X[0, 10] = 1.0
    return X, y


def extreme(m: int, n: int) -> Data:
    """Columns of very large and very small numbers."""
    X, y = normal(m, n, 6)
    return X * 10.0 ** np.resize([30, -30, 0, 8, -8], n), y


def shifted(m: int, n: int) -> Data:
    """Columns far from zero."""
    X, y = normal(m, n, 7)
    return X + 1e7 * np.arange(n), y


def mixed(m: int, n: int) -> Data:
    """Return some columns of each kind."""
    X, y = normal(m, n, 8)
    third = n // 3
    X[:, third : 2 * third] = np.exp(2.0 * X[:, third : 2 * third])
    X[:, 2 * third :] = np.random.default_rng(9).binomial(1, 0.03, (m, n - 2 * third))
    return X, y


def far_row(m: int, n: int) -> Data:
    """One sample far from all others."""
    X, y = normal(m, n, 11)
    X[0] += 17.0
    return X, y


def rare(m: int, n: int) -> Data:
    """Columns that are nearly always zero, so that most samples are alike."""
    rng = np.random.default_rng(13)
    return (rng.random((m, n)) < 0.04).astype(float), rng.integers(0, 2, m)


def weights(m: int, zeros: int = 0) -> Array:
    """Weights of samples, some of them zero."""
    found = np.random.default_rng(10).uniform(0.2, 3.0, m)
    found[:zeros] = 0.0
    return found


def as_type(data: Data, dtype: Any) -> Data:
    """Return the data with X in another type."""
    return data[0].astype(dtype), data[1]


def frame(data: Data) -> Data:
    """Return the data with X as a data frame of pandas."""
    import pandas

    return pandas.DataFrame(data[0], columns=[f"g{j}" for j in range(data[0].shape[1])]), data[1]


# ---------------------------------------------------------------- RandSel


def boot(**more: Any) -> RandSel:
    """Return the paper's algorithm with few draws."""
    return RandSel(**{"estimator": "bootstrap", "n_bootstraps": 120, "random_state": 0, **more})


fit("randsel-xor", RandSel(), lambda: xor(300, 100), quick=True)
fit("randsel-total", RandSel(criterion="total"), lambda: xor(200, 60))
fit("randsel-calibrated", RandSel(criterion="calibrated", drop=0.4, min_features=5), lambda: normal(120, 80))
fit("randsel-normal", RandSel(), lambda: normal(150, 300), quick=True)
fit("randsel-noise", RandSel(), lambda: noise(60, 40))
fit("randsel-few-samples", RandSel(), lambda: normal(12, 50))
fit("randsel-two-columns", RandSel(1), lambda: (normal(50, 3)[0][:, 1:], normal(50, 3)[1]))
fit("randsel-one-by-one", RandSel(3, drop=0.01, min_features=1), lambda: normal(80, 40))
fit("randsel-int", RandSel(7), lambda: normal(100, 50))
fit("randsel-share", RandSel(0.3), lambda: normal(100, 50))
fit("randsel-bootstrap", boot(), lambda: xor(80, 30), quick=True)
fit("randsel-bootstrap-jobs", boot(n_jobs=2, subsample=0.5), lambda: xor(80, 20))
fit("randsel-bootstrap-numbers", boot(gamma="2*median", n_features_to_select=4), lambda: numbers(80, 20))
fit("randsel-bootstrap-weights", boot(), lambda: normal(80, 20), sample_weight=weights(80, 7))
fit("randsel-bootstrap-fix", boot(fix_top=0.2, fix_after=2, drop=0.2), lambda: normal(80, 25))
fit("randsel-bootstrap-rank", boot(kernel="rank"), lambda: normal(80, 10))
fit("randsel-bootstrap-few", boot(n_bootstraps=4), lambda: normal(60, 10))
fit("randsel-gamma-number", RandSel(gamma=0.02), lambda: normal(100, 50))
fit("randsel-gamma-large", RandSel(gamma=1.0), lambda: normal(100, 40))
fit("randsel-gamma-multiple", RandSel(gamma="0.5*median"), lambda: xor(150, 60), quick=True)
fit("randsel-gamma-huge", RandSel(gamma="30*median"), lambda: normal(80, 60))
fit("randsel-fix", RandSel(fix_top=0.05, fix_after=3), lambda: normal(150, 120), quick=True)
fit("randsel-fix-many", RandSel(10, fix_top=0.3, fix_after=1, criterion="total"), lambda: heavy(100, 90))
fit("randsel-fix-wide", RandSel(10, fix_top=0.02, fix_after=2), lambda: normal(150, 1200))
fit("randsel-rank", RandSel(kernel="rank"), lambda: datasets.make_passemiers("ring", 200, 30, random_state=0)[:2])
fit("randsel-rank-snps", RandSel(5, kernel="rank"), lambda: snps(150, 40))
fit("randsel-rank-weights", RandSel(kernel="rank"), lambda: heavy(120, 25), sample_weight=weights(120, 11))
fit("randsel-numbers", RandSel(), lambda: numbers(150, 60), quick=True)
fit("randsel-codes-as-numbers", RandSel(target="regression"), lambda: snps(150, 60))
fit("randsel-whole-numbers", RandSel(), lambda: (numbers(120, 30)[0], np.round(3 * numbers(120, 30)[1])))
fit("randsel-text", RandSel(), lambda: four_classes(200, 60), quick=True)
fit("randsel-rare-class", RandSel(), lambda: (noise(150, 60)[0], np.arange(150) < 4))
fit("randsel-class-of-one", RandSel(), lambda: (noise(80, 100)[0], np.arange(80) < 1))
fit("randsel-class-of-one-600", RandSel(), lambda: (noise(600, 700)[0], np.arange(600) < 1))
fit("randsel-several", RandSel(), lambda: several(150, 60))
fit("randsel-several-wide", RandSel(), lambda: several(150, 700))
fit("randsel-weights", RandSel(), lambda: normal(150, 60), sample_weight=weights(150))
fit("randsel-weights-zero", RandSel(), lambda: normal(150, 200), sample_weight=weights(150, 30), quick=True)
fit("randsel-weights-numbers", RandSel(), lambda: numbers(150, 700), sample_weight=weights(150, 3))
fit("randsel-weights-several", RandSel(), lambda: several(100, 50), sample_weight=weights(100, 3))
fit("randsel-float32", RandSel(), lambda: as_type(normal(150, 300), np.float32), quick=True)
fit("randsel-float32-fortran", RandSel(), lambda: (np.asfortranarray(normal(90, 70)[0], np.float32), normal(90, 70)[1]))
fit("randsel-int-columns", RandSel(), lambda: as_type(snps(200, 150), np.int64))
fit("randsel-bool-columns", RandSel(), lambda: (normal(100, 40)[0] > 0.5, normal(100, 40)[1]))
fit(
    "randsel-unscaled",
    RandSel(scale=False),
    lambda: (normal(120, 80)[0] * np.geomspace(0.1, 10, 80), normal(120, 80)[1]),
)
fit("randsel-unscaled-wide", RandSel(scale=False), lambda: normal(520, 1200))
fit("randsel-odd-columns", RandSel(), lambda: odd_columns(150, 60), quick=True)
fit("randsel-odd-columns-asked", RandSel(58), lambda: odd_columns(150, 60))
fit("randsel-copies", RandSel(), lambda: (np.repeat(normal(100, 20)[0], 3, axis=1), normal(100, 20)[1]))
fit("randsel-extreme", RandSel(), lambda: extreme(120, 60))
fit("randsel-extreme-float32", RandSel(), lambda: as_type(extreme(120, 60), np.float32))
fit("randsel-shifted", RandSel(), lambda: shifted(120, 60))
fit("randsel-snps", RandSel(), lambda: snps(300, 500))
fit("randsel-cauchy", RandSel(), lambda: cauchy(150, 200))
fit("randsel-mixed", RandSel(), lambda: mixed(200, 450))
fit("randsel-lognormal-wide", RandSel(), lambda: heavy(200, 2000))
fit("randsel-300x100", RandSel(), lambda: normal(300, 100, 1))
fit("randsel-520x1500", RandSel(), lambda: normal(520, 1500))
fit("randsel-600x3000", RandSel(), lambda: normal(600, 3000))
fit("randsel-600x3000-float32", RandSel(), lambda: as_type(normal(600, 3000, 2), np.float32))
fit("randsel-sketch", RandSel(), lambda: normal(512, 4300))
fit("randsel-mixed-600", RandSel(), lambda: mixed(600, 900))
fit("randsel-cauchy-600", RandSel(), lambda: cauchy(600, 600))
fit("randsel-snps-600", RandSel(), lambda: snps(600, 1500))
fit("randsel-numbers-600", RandSel(), lambda: numbers(600, 1100), sample_weight=weights(600))
fit("randsel-far-row-600", RandSel(gamma="20*median"), lambda: far_row(600, 700))
fit("randsel-rare", RandSel(), lambda: rare(100, 8))
fit("randsel-rare-weights", RandSel(), lambda: rare(100, 8), sample_weight=weights(100))
fit("randsel-shifted-600", RandSel(), lambda: shifted(600, 600))
fit("randsel-20000-columns", RandSel(), lambda: normal(60, 20000))
fit("randsel-row-blocks", RandSel(random_state=0), lambda: normal(2500, 40))
fit("randsel-row-blocks-weights", RandSel(random_state=1), lambda: numbers(2500, 40), sample_weight=weights(2500, 100))
fit("randsel-row-blocks-jobs", RandSel(random_state=2, n_jobs=2, n_bootstraps=2), lambda: normal(3100, 20))
fit("randsel-device-cpu", RandSel(device="cpu"), lambda: normal(100, 120))
fit("randsel-frame", RandSel(), lambda: frame(normal(100, 40)), quick=True)
fit("randsel-jobs", RandSel(n_jobs=2), lambda: normal(100, 100))
fit("randsel-error-constant", RandSel(), lambda: (np.ones((20, 4)), np.arange(20) % 2), raises=True, quick=True)
fit("randsel-error-nan", RandSel(), lambda: (np.full((20, 4), np.nan), np.arange(20) % 2), raises=True)
fit("randsel-error-fix", RandSel(fix_top=0.1), lambda: normal(50, 10), raises=True)
fit("randsel-error-gamma", RandSel(gamma="mean"), lambda: normal(50, 10), raises=True)
fit("randsel-gamma-million", RandSel(gamma=1e6), lambda: normal(50, 10))
fit("randsel-error-underflow", RandSel(gamma=1e30), lambda: normal(50, 10), raises=True)
fit("randsel-error-memory", RandSel(max_memory="1MB"), lambda: normal(150, 3000), raises=True)
fit("randsel-error-calibrated", boot(criterion="calibrated"), lambda: normal(50, 10), raises=True)
fit("randsel-error-one-class", RandSel(), lambda: (normal(50, 10)[0], np.ones(50)), raises=True)


@case("randsel-polars")
def _(_: Path) -> Any:
    import polars

    X, y = four_classes(100, 30)
    return RandSel().fit(polars.DataFrame(X, schema=[f"g{j}" for j in range(30)]), polars.Series(y))


def mapped(folder: Path, data: Data) -> Data:
    """Return the data with X as a memory map."""
    np.save(folder / "X.npy", data[0])
    return np.load(folder / "X.npy", mmap_mode="r"), data[1]


@case("randsel-map", quick=True)
def _(folder: Path) -> Any:
    return RandSel(20, max_memory="6MB").fit(*mapped(folder, normal(150, 4000)))


@case("randsel-map-float32")
def _(folder: Path) -> Any:
    return RandSel(20, max_memory="48MB").fit(*mapped(folder, as_type(normal(520, 4000), np.float32)))


@case("randsel-map-weights")
def _(folder: Path) -> Any:
    return RandSel(20, max_memory="6MB").fit(*mapped(folder, heavy(150, 3000)), sample_weight=weights(150))


@case("randsel-map-rough")
def _(folder: Path) -> Any:
    return RandSel(20, gamma="10*median", max_memory=6_000_000).fit(*mapped(folder, mixed(150, 4000)))


@case("randsel-map-unscaled")
def _(folder: Path) -> Any:
    X, y = mapped(folder, numbers(100, 3000))
    return RandSel(20, max_memory="4MB", scale=False, fix_top=0.01, fix_after=2).fit(X, y)


@case("randsel-map-row-blocks")
def _(folder: Path) -> Any:
    return RandSel(5, drop=0.6, max_memory="645MB", random_state=0).fit(*mapped(folder, normal(2100, 400)))


@case("randsel-verbose", quick=True)
def _(_: Path) -> Any:
    seen: list[Any] = []
    fitted = RandSel(verbose=seen.append).fit(*odd_columns(80, 40))
    return {"fit": fitted, "rounds": [{f: getattr(r, f) for f in (*ROUND_ARRAYS, *ROUND_NUMBERS)} for r in seen]}


@case("randsel-transform")
def _(_: Path) -> Any:
    X, y = frame(normal(90, 30))
    selector = RandSel(5).fit(X, y)
    names = selector.get_feature_names_out()
    few = selector.transform(X)
    return {"names": names, "few": few, "back": selector.inverse_transform(few)}


@case("randsel-pipeline")
def _(_: Path) -> Any:
    X, y = xor(150, 30)
    model = make_pipeline(RandSel(4), LogisticRegression()).fit(X, y)
    return {"values": model.decision_function(X), "selector": model[0]}


class Interrupted(Exception):  # noqa: N818
    """Ends a fit early."""


@contextmanager
def hurried() -> Iterator[None]:
    """Run a clock that is ever faster, so that fits keep every stage in their folder, not one in some seconds."""
    now = 1.0

    def monotonic() -> float:
        nonlocal now
        now *= 30.0
        return now

    with mock.patch.object(time, "monotonic", monotonic):
        yield


def resumed(fits: Callable[[Callable[..., None]], Any], stop: int) -> dict[str, Any]:
    """Interrupt a fit, let it go on from its folder, and fit once more when it is finished.

    Parameters
    ----------
    fits : callable
        Fits with a function for `verbose`.
    stop : int
        How often that function is called before the interruption.
    """
    calls = 0

    def count(*_: Any) -> None:
        nonlocal calls
        calls += 1

    def interrupt(*_: Any) -> None:
        count()
        if calls == stop:
            raise Interrupted

    found: dict[str, Any] = {}
    with hurried():
        try:
            fits(interrupt)
        except Interrupted:
            found["interrupted"] = True
    for name in ("resumed", "again"):
        calls = 0
        found[name] = fits(count)
        found[f"{name} calls"] = calls
    return found


@case("randsel-checkpoint", quick=True)
def _(folder: Path) -> Any:
    data = normal(100, 200)
    return resumed(lambda v: RandSel(checkpoint=folder / "kept", verbose=v).fit(*data), 6)


@case("randsel-checkpoint-wide")
def _(folder: Path) -> Any:
    data = heavy(150, 1500)
    how = {"fix_top": 0.02, "fix_after": 2, "checkpoint": folder / "kept"}
    return resumed(lambda v: RandSel(10, **how, verbose=v).fit(*data, sample_weight=weights(150)), 5)


@case("randsel-checkpoint-map")
def _(folder: Path) -> Any:
    X, y = mapped(folder, normal(150, 4000))
    return resumed(lambda v: RandSel(10, max_memory="6MB", checkpoint=folder / "kept", verbose=v).fit(X, y), 3)


@case("randsel-checkpoint-bootstrap")
def _(folder: Path) -> Any:
    data = normal(60, 20)
    return resumed(lambda v: boot(checkpoint=folder / "kept", verbose=v).fit(*data), 3)


@case("randsel-error-checkpoint", raises=True)
def _(folder: Path) -> Any:
    RandSel(checkpoint=folder / "kept").fit(*normal(40, 10))
    return RandSel(checkpoint=folder / "kept").fit(*normal(40, 10, 1))


# ---------------------------------------------------------------- tensors of torch


def tensors(estimator: Any, data: Data, **given: Any) -> Any:
    """Fit on a tensor of torch, where it is."""
    import torch

    torch.set_num_threads(1)
    with sklearn.config_context(array_api_dispatch=True):
        return estimator.fit(torch.from_numpy(np.ascontiguousarray(data[0])), data[1], **given)


@case("torch-randsel", quick=True)
def _(_: Path) -> Any:
    return tensors(RandSel(), normal(150, 300))


@case("torch-randsel-float32")
def _(_: Path) -> Any:
    return tensors(RandSel(), as_type(normal(520, 1300), np.float32))


@case("torch-randsel-heavy")
def _(_: Path) -> Any:
    return tensors(RandSel(criterion="total", fix_top=0.05, fix_after=2), heavy(150, 400))


@case("torch-randsel-weights")
def _(_: Path) -> Any:
    return tensors(RandSel(5), numbers(150, 200), sample_weight=weights(150, 10))


@case("torch-randsel-bootstrap")
def _(_: Path) -> Any:
    return tensors(boot(), normal(60, 15))


@case("torch-randsel-rank")
def _(_: Path) -> Any:
    return tensors(RandSel(kernel="rank"), normal(100, 15))


@case("torch-randsel-row-blocks")
def _(_: Path) -> Any:
    return tensors(RandSel(random_state=0), normal(2200, 20))


@case("torch-randsel-without-dispatch")
def _(_: Path) -> Any:
    import torch

    X, y = normal(100, 30)
    return RandSel().fit(torch.from_numpy(X), torch.from_numpy(y))


@case("torch-scan")
def _(_: Path) -> Any:
    return tensors(InteractionScan(), xor(150, 60))


# ---------------------------------------------------------------- arrays of Dask


def blocks(estimator: Any, data: Data, chunks: Any, scheduler: str = "threads", **given: Any) -> Any:
    """Fit on an array of Dask."""
    import dask
    import dask.array

    with dask.config.set(scheduler=scheduler, num_workers=2):
        return estimator.fit(dask.array.from_array(data[0], chunks=chunks), data[1], **given)


@case("dask-randsel", quick=True)
def _(_: Path) -> Any:
    return blocks(RandSel(5), normal(120, 400), (120, 100))


@case("dask-randsel-rows")
def _(_: Path) -> Any:
    return blocks(RandSel(5), as_type(heavy(130, 300), np.float32), (50, 70), "synchronous")


@case("dask-randsel-weights")
def _(_: Path) -> Any:
    return blocks(RandSel(5, fix_top=0.02, fix_after=2), numbers(120, 700), (120, 250), sample_weight=weights(120, 9))


@case("dask-randsel-600")
def _(_: Path) -> Any:
    return blocks(RandSel(5), mixed(600, 1200), (600, 500))


@case("dask-randsel-row-blocks")
def _(_: Path) -> Any:
    return blocks(RandSel(5, random_state=0), normal(2300, 30), (1000, 10))


@case("dask-randsel-row-blocks-sent")
def _(_: Path) -> Any:
    return blocks(RandSel(5, drop=0.6, max_memory="645MB", random_state=0), numbers(2100, 400), (2100, 250))


@case("dask-randsel-rough")
def _(_: Path) -> Any:
    return blocks(RandSel(5, gamma="10*median"), mixed(120, 900), (120, 200))


@case("dask-scan", quick=True)
def _(_: Path) -> Any:
    return blocks(InteractionScan(), xor(150, 90), (150, 40))


@case("dask-scan-batch")
def _(_: Path) -> Any:
    return blocks(InteractionScan(order=1), snps(150, 200), (70, 60), batch=np.arange(150) % 3)


@case("dask-error-rank", raises=True)
def _(_: Path) -> Any:
    return blocks(RandSel(kernel="rank"), normal(50, 10), (50, 5))


@case("dask-cluster")
def _(_: Path) -> Any:
    from distributed import Client

    with Client(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None):
        import dask.array

        X, y = normal(120, 500)
        X = dask.array.from_array(X, chunks=(120, 130))
        return {"randsel": RandSel(5).fit(X, y), "scan": InteractionScan().fit(X[:, :150], y)}


@case("dask-checkpoint")
def _(folder: Path) -> Any:
    data = normal(100, 300)
    how = {"n_features_to_select": 5, "checkpoint": folder / "kept"}
    return {name: blocks(RandSel(**how), data, (100, 90), "synchronous") for name in ("first", "again")}


@case("dask-parquet")
def _(folder: Path) -> Any:
    import polars

    X, y = xor(150, 40)
    table = polars.DataFrame(X, schema=[f"g{j}" for j in range(40)]).with_columns(status=polars.Series(y))
    table.write_parquet(folder / "table.parquet")
    found = read_blocks(folder / "table.parquet", "status", columns=15)
    return {"table": found, "randsel": RandSel().fit(found.X, found.y)}


@case("dask-zarr")
def _(folder: Path) -> Any:
    import zarr

    X, y = numbers(100, 40)
    group = zarr.open_group(str(folder / "table.zarr"), mode="w")
    group.create_array("X", data=X, chunks=(30, 10))
    group.create_array("age", data=y)
    found = read_blocks(folder / "table.zarr", "age", columns=20)
    return {"table": found, "randsel": RandSel(4).fit(found.X, found.y)}


# ---------------------------------------------------------------- RandSelCV

fit("cv-classes", RandSelCV(cv=3, gammas=["median", "4*median"]), lambda: xor(100, 20), quick=True)
fit("cv-default", RandSelCV(), lambda: normal(60, 10))
fit("cv-groups", RandSelCV(cv=4), lambda: normal(96, 15), groups=np.arange(96) // 4)
fit("cv-numbers", RandSelCV(cv=3, gammas=[0.1, "median"], scoring="neg_mean_squared_error"), lambda: numbers(80, 12))
fit("cv-numbers-groups", RandSelCV(cv=3), lambda: numbers(60, 10), groups=np.arange(60) % 7)
fit("cv-several", RandSelCV(cv=3, gammas="median"), lambda: several(80, 10))
fit("cv-weights", RandSelCV(cv=3, n_jobs=2), lambda: four_classes(100, 12), sample_weight=weights(100, 8))
fit("cv-model", RandSelCV(LogisticRegression(), selector=RandSel(criterion="total"), cv=3), lambda: normal(80, 12))
fit("cv-bootstrap", RandSelCV(cv=2, selector=boot(n_bootstraps=50), gammas="median"), lambda: normal(50, 8))

fit("cv-reduced", RandSelCV(gammas="median"), lambda: (normal(60, 8)[0], np.arange(60) < 4))
fit("cv-splitter", RandSelCV(cv=ShuffleSplit(3, random_state=0), gammas="median"), lambda: numbers(60, 8))

# ---------------------------------------------------------------- InteractionScan

fit("scan-xor", InteractionScan(), lambda: xor(250, 120), quick=True)
fit("scan-normal", InteractionScan(), lambda: normal(150, 80, 1))
fit("scan-noise", InteractionScan(), lambda: noise(60, 50))
fit("scan-wide", InteractionScan(n_pairs=50), lambda: normal(100, 1100))
fit("scan-numbers", InteractionScan(5), lambda: numbers(200, 60), quick=True)
fit("scan-several", InteractionScan(0.1, alpha=0.01), lambda: several(150, 40))
fit("scan-text", InteractionScan(alpha=0.2), lambda: four_classes(200, 50))
fit("scan-top-and-alpha", InteractionScan(30, alpha=0.1), lambda: xor(150, 40))
fit("scan-functions", InteractionScan(n_functions=3, decay=0.5, n_pairs=20), lambda: normal(150, 40))
fit("scan-too-many-functions", InteractionScan(n_functions=9, n_pairs=5000), lambda: heavy(60, 20))
fit("scan-one", InteractionScan(order=1), lambda: normal(120, 200))
fit("scan-triples", InteractionScan(order=3, n_pairs=100), lambda: normal(120, 15), quick=True)
fit("scan-triples-numbers", InteractionScan(order=3), lambda: numbers(150, 10), batch=np.arange(150) % 2)
fit("scan-batch", InteractionScan(), lambda: normal(160, 50), batch=np.arange(160) % 4, quick=True)
fit("scan-groups", InteractionScan(), lambda: numbers(150, 40), groups=np.array(["a", "b", "c"])[np.arange(150) % 3])
fit("scan-both", InteractionScan(), lambda: xor(180, 40), groups=np.arange(180) % 5, batch=np.arange(180) // 90)
fit("scan-weights", InteractionScan(), lambda: normal(150, 50), sample_weight=weights(150, 20))
fit(
    "scan-weights-batch",
    InteractionScan(),
    lambda: numbers(150, 30),
    sample_weight=weights(150, 20),
    batch=np.arange(150) % 3,
)
fit("scan-snps", InteractionScan(), lambda: snps(250, 150), quick=True)
fit("scan-snps-named", InteractionScan(categorical_features=[0, 1, 5]), lambda: snps(200, 30))
fit("scan-mask", InteractionScan(categorical_features=np.arange(30) < 4), lambda: snps(200, 30))
fit("scan-odd-columns", InteractionScan(), lambda: odd_columns(150, 40))
fit("scan-mixed", InteractionScan(), lambda: mixed(150, 90))
fit("scan-extreme", InteractionScan(), lambda: extreme(120, 40))
fit("scan-float32", InteractionScan(), lambda: as_type(normal(120, 40), np.float32))
fit("scan-int", InteractionScan(), lambda: as_type(snps(120, 40), np.int32))
fit("scan-device-cpu", InteractionScan(device="cpu"), lambda: normal(120, 40))
fit("scan-jobs", InteractionScan(n_jobs=2), lambda: normal(100, 600))
fit("scan-error-triples", InteractionScan(order=3), lambda: normal(300, 1000), raises=True)
fit("scan-error-strata", InteractionScan(), lambda: normal(50, 5), raises=True, batch=normal(50, 5)[1])


@case("scan-categories")
def _(_: Path) -> Any:
    X, y = frame(normal(200, 12))
    X["site"] = np.array(["x", "y", "z", "w"])[np.random.default_rng(0).integers(0, 4, 200)]
    X["site"] = X["site"].astype("category")
    return InteractionScan().fit(X, np.where(X["site"] == "y", 1 - y, y))


@case("scan-names")
def _(_: Path) -> Any:
    return InteractionScan(categorical_features=["g3", "g7"]).fit(*frame(snps(150, 20)))


@case("scan-checkpoint")
def _(folder: Path) -> Any:
    data = normal(60, 1400)
    return resumed(lambda v: InteractionScan(checkpoint=folder / "kept", verbose=v, n_pairs=100).fit(*data), 2)


@case("scan-checkpoint-triples")
def _(folder: Path) -> Any:
    data = xor(80, 12)
    return resumed(lambda v: InteractionScan(order=3, checkpoint=folder / "kept", verbose=v).fit(*data), 1)


# ---------------------------------------------------------------- baselines

fit("bahsic-classes", BaHSIC(3), lambda: xor(100, 20), quick=True)
fit("bahsic-numbers", BaHSIC(drop=None, gamma="2*median"), lambda: numbers(80, 12))
fit("bahsic-several", BaHSIC(0.2, gamma=0.1, scale=False), lambda: several(60, 15))
fit("bahsic-text", BaHSIC(4), lambda: four_classes(90, 20))
fit("bahsic-odd-columns", BaHSIC(5), lambda: odd_columns(80, 20))
fit("fohsic-classes", FoHSIC(3), lambda: normal(100, 20), quick=True)
fit("fohsic-numbers", FoHSIC(add=None, gamma="0.5*median"), lambda: numbers(80, 12))
fit("fohsic-text", FoHSIC(4, add=0.2), lambda: four_classes(90, 20))
fit("fohsic-several", FoHSIC(3, scale=False), lambda: several(60, 15))
fit("rfe-classes", KernelRFE(3), lambda: xor(100, 20), quick=True)
fit("rfe-linear", KernelRFE(3, kernel="linear", C=0.5, drop=None), lambda: normal(80, 15))
fit("rfe-text", KernelRFE(4, absolute=True), lambda: four_classes(90, 20))
fit("rfe-numbers", KernelRFE(0.3, gamma=0.05), lambda: numbers(80, 12))
fit("rfe-several", KernelRFE(3, kernel="linear"), lambda: several(60, 12))
fit("correlation-classes", CorrelationFilter(5), lambda: normal(100, 40), quick=True)
fit("correlation-text", CorrelationFilter(), lambda: four_classes(100, 30))
fit("correlation-numbers", CorrelationFilter(0.2), lambda: numbers(100, 30))
fit("correlation-several", CorrelationFilter(3), lambda: several(100, 30))
fit("correlation-odd-columns", CorrelationFilter(3), lambda: odd_columns(80, 20))
fit("stability-classes", StabilitySelection(n_subsamples=20, random_state=0), lambda: normal(100, 30), quick=True)
fit(
    "stability-pairs",
    StabilitySelection(
        n_features_to_select=4, n_subsamples=15, complementary=True, weakness=1.0, n_lambdas=10, random_state=1
    ),
    lambda: four_classes(100, 20),
)
fit(
    "stability-logistic",
    StabilitySelection(n_subsamples=6, loss="logistic", n_lambdas=5, random_state=2),
    lambda: normal(80, 12),
)
fit(
    "stability-numbers",
    StabilitySelection(n_subsamples=20, lambda_min=0.1, threshold=0.8, n_jobs=2, random_state=3),
    lambda: numbers(100, 30),
)
fit(
    "stability-several",
    StabilitySelection(n_features_to_select=0.2, n_subsamples=10, random_state=4),
    lambda: several(80, 15),
)
fit("stability-noise", StabilitySelection(n_subsamples=10, threshold=1.0, random_state=5), lambda: noise(60, 30))
fit("stability-error", StabilitySelection(loss="logistic"), lambda: numbers(50, 5), raises=True)

# ---------------------------------------------------------------- representations and kernels


@case("filtering", quick=True)
def _(_: Path) -> Any:
    X = np.random.default_rng(0).laplace(size=(120, 8))
    seen: list[tuple[int, float]] = []
    model = SparseFiltering(12, random_state=0, max_iter=60, verbose=lambda *now: seen.append(now)).fit(X)
    values = model.transform(X[:20])
    return {"fit": model, "features": values, "objective": [value for _, value in seen]}


@case("filtering-device-cpu")
def _(_: Path) -> Any:
    X = np.random.default_rng(1).laplace(size=(60, 5)).astype(np.float32)
    model = SparseFiltering(7, random_state=1, max_iter=10, tol=1e-3, device="cpu").fit(X)
    return {"fit": model, "features": model.transform(X), "names": model.get_feature_names_out()}


def classified(model: Any, X: Any, y: Any, new: Any) -> dict[str, Any]:
    """Fit a classifier, and classify other samples."""
    model.fit(X, y)
    found = {"fit": model, "values": model.decision_function(new), "classes": model.predict(new)}
    return {**found, "probabilities": model.predict_proba(new)} if hasattr(model, "predict_proba") else found


@case("mkl", quick=True)
def _(_: Path) -> Any:
    X, y = xor(120, 6)
    kernels = [([0, 1], "median"), ([2, 3], "0.5*median"), (None, 0.2), (np.arange(6) > 3, "median")]
    return classified(LPBoostMKL(kernels, probability=True), X[:90], y[:90], X[90:])


@case("mkl-default")
def _(_: Path) -> Any:
    X, y = normal(80, 5)
    return classified(LPBoostMKL(nu=0.4, tol=1e-2), X[:60], y[:60], X[60:])


@case("mkl-text")
def _(_: Path) -> Any:
    X, y = four_classes(100, 4)
    return classified(LPBoostMKL(nu=0.1, scale=False, max_iter=20, n_jobs=2), X[:80], y[:80], X[80:])


@case("mkl-path", quick=True)
def _(_: Path) -> Any:
    X, y = xor(90, 20)
    steps = PathKernels(RandSel(), max_kernels=5)
    stack = steps.fit(X[:70], y[:70]).transform(X[:70])
    found = classified(LPBoostMKL("precomputed"), stack, y[:70], steps.transform(X[70:]))
    return {"path": steps, "stack": stack, **found}


# ---------------------------------------------------------------- guarantees and data sets


@case("guarantees", quick=True)
def _(_: Path) -> Any:
    counts = {"n_influential": 3, "n_rounds": 12}
    return {
        "plan": [guarantees.plan(eta, 0.05) for eta in (0.05, 0.3, 0.5)],
        "more": guarantees.plan(0.2, 0.01, n_features=1000, **counts),
        "failure": [guarantees.failure_probability(m, 0.2, **counts) for m in (100, 1000, 5000)],
        "failure of draws": guarantees.failure_probability(20000, 0.3, n_bootstraps=9000, n_features=100, share=0.6),
        "samples": [guarantees.samples_needed(0.2, 0.05, bootstrap=b, **counts) for b in (False, True)],
        "bootstraps": guarantees.bootstraps_needed(0.3, 0.05, **counts),
    }


@case("guarantees-error", raises=True)
def _(_: Path) -> Any:
    return guarantees.plan(0.0, 0.05)


@case("data-xor", quick=True)
def _(_: Path) -> Any:
    return [datasets.make_xor(30, 8, noise=p, random_state=0) for p in (0.0, 0.2)]


@case("data-linear")
def _(_: Path) -> Any:
    more = datasets.make_weston_linear(40, 9, n_relevant=6, noise=3.0, noise_is="sd", random_state=1)
    return [datasets.make_weston_linear(40, 10, random_state=0), more]


@case("data-nonlinear")
def _(_: Path) -> Any:
    return [datasets.make_weston_nonlinear(40, 10, n_relevant=n, random_state=n) for n in (2, 5)]


@case("data-passemiers")
def _(_: Path) -> Any:
    kinds = ("xor", "ring", "ring+xor", "ring+xor+sum")
    found = {kind: datasets.make_passemiers(kind, 50, 12, random_state=3) for kind in kinds}
    return {**found, "in order": datasets.make_passemiers("ring", 50, 12, shuffle=False, random_state=4)}


@case("data-black-box")
def _(_: Path) -> Any:
    return datasets.make_black_box(45, 90, 30, left_out=7, random_state=0)


# ---------------------------------------------------------------- files


def rows_of(data: Data, *, gaps: bool = False) -> list[list[str]]:
    """Return a table as text with a header: name, status, donor, plate, and features, perhaps with gaps."""
    X, y = data
    m, n = X.shape
    rows = [["sample", "status", "donor", "plate", *(f"g{j}" for j in range(n))]]
    for i in range(m):
        values = ["" if gaps and i % 7 == 3 and j % 5 == 2 else repr(float(X[i, j])) for j in range(n)]
        rows.append([f"s{i}", str(y[i]), f"d{i // 4}", f"p{i % 3}", *values])
    return rows


def status(data: Data) -> Data:
    """Return the data with two classes as text."""
    return data[0], np.where(data[1] > 0, "case", "control")


def written(file: Path, rows: list[list[str]], separator: str = ",") -> Path:
    """Write a table as text."""
    file.write_text("".join(separator.join(row) + "\n" for row in rows), encoding="utf-8")
    return file


PURPOSES = {"target": "status", "groups": "donor", "batch": "plate"}


@case("read-csv", quick=True)
def _(folder: Path) -> Any:
    return tables.read(written(folder / "table.csv", rows_of(status(normal(40, 10)))), **PURPOSES)


@case("read-tsv")
def _(folder: Path) -> Any:
    file = written(folder / "table.tsv", rows_of(numbers(40, 10)), "\t")
    return tables.read(file, target="status", categorical=["plate"], drop_columns=["donor", "g3"], log2=True)


@case("read-gz")
def _(folder: Path) -> Any:
    import gzip

    text = written(folder / "table.csv", rows_of(status(heavy(40, 10))), ";").read_bytes()
    (folder / "packed.csv.gz").write_bytes(gzip.compress(text))
    return tables.read(folder / "packed.csv.gz", **PURPOSES, classes=["case", "control"], batches=["p0", "p2"])


@case("read-transposed", quick=True)
def _(folder: Path) -> Any:
    rows = [list(column) for column in zip(*rows_of(status(normal(40, 10))), strict=True)]
    return tables.read(written(folder / "table.csv", rows), **PURPOSES)


@case("read-target-file")
def _(folder: Path) -> Any:
    rows = rows_of(status(normal(30, 8)))
    labels = written(folder / "labels.csv", [row[:4] for row in rows[:1] + rows[:3:-1]])
    file = written(folder / "table.csv", [list(c) for c in zip(*(r[:1] + r[4:] for r in rows), strict=True)])
    return tables.read(file, target_file=labels, **PURPOSES)


@case("read-npz")
def _(folder: Path) -> Any:
    X, y = status(as_type(normal(30, 8), np.float32))
    names = np.array([f"g{j}" for j in range(8)])
    np.savez(folder / "table.npz", X=X, y=y, feature_names=names, batch=np.arange(30) % 2, relevant=np.arange(3))
    return tables.read(folder / "table.npz")


@case("read-parquet")
def _(folder: Path) -> Any:
    import polars

    X, y = status(normal(30, 8))
    table = polars.DataFrame(
        {"status": y, "donor": [f"d{i % 9}" for i in range(30)], **{f"g{j}": X[:, j] for j in range(8)}}
    )
    table = table.with_columns(polars.when(polars.col("g1") > 0).then(polars.col("g2")).alias("g2"))
    table.write_parquet(folder / "table.parquet")
    return [
        tables.read(folder / "table.parquet", target="status", groups="donor", missing=missing)
        for missing in ("median", "drop-columns")
    ]


@case("read-mat")
def _(folder: Path) -> Any:
    from scipy.io import savemat

    X, y = normal(30, 8)
    savemat(folder / "table.mat", {"X": X, "y": y})
    return tables.read(folder / "table.mat")


@case("read-h5ad")
def _(folder: Path) -> Any:
    annotated(status(normal(30, 8))).write_h5ad(folder / "table.h5ad")
    return tables.read(folder / "table.h5ad", target="status", batch="plate")


@case("read-plink")
def _(folder: Path) -> Any:
    from bed_reader import to_bed

    X, y = snps(30, 12)
    to_bed(folder / "table.bed", X, properties={"pheno": [str(1 + v) for v in y]})
    return tables.read(folder / "table.bed")


@case("read-geo")
def _(folder: Path) -> Any:
    X, y = status(normal(6, 4))
    lines = [
        ["!Series_title", '"Blood"'],
        ["!Sample_characteristics_ch1", *(f'"illness: {label}"' for label in y)],
        ["!Sample_characteristics_ch1", *(f'"age: {30 + i}"' for i in range(6))],
        ["!series_matrix_table_begin"],
        ['"ID_REF"', *(f'"GSM{i}"' for i in range(6))],
        *([f'"P{j}"', *("null" if i == j == 2 else repr(float(X[i, j])) for i in range(6))] for j in range(4)),
        ["!series_matrix_table_end"],
    ]
    file = written(folder / "series_matrix.txt", lines, "\t")
    wanted = {"case": "ill", "control": "well"}
    return {
        "classes": tables.read(file, target="illness", classes=wanted, missing="drop-columns"),
        "numbers": tables.read(file, target="age", missing="median"),
    }


@case("read-missing", quick=True)
def _(folder: Path) -> Any:
    file = written(folder / "table.csv", rows_of(status(normal(40, 10)), gaps=True))
    return {rule: tables.read(file, **PURPOSES, missing=rule) for rule in ("median", "drop-columns", "keep")}


@case("read-error-missing", raises=True)
def _(folder: Path) -> Any:
    return tables.read(written(folder / "table.csv", rows_of(status(normal(40, 10)), gaps=True)), **PURPOSES)


@case("read-error-name", raises=True)
def _(folder: Path) -> Any:
    return tables.read(written(folder / "table.csv", rows_of(status(normal(40, 10)))), target="state")


# ---------------------------------------------------------------- AnnData


def annotated(data: Data) -> Any:
    """Return the data as an AnnData object."""
    import anndata
    import pandas

    X, y = data
    ids = [f"s{i}" for i in range(len(X))]
    # the type of text that every version of anndata writes
    rows, names = (pandas.Index(texts, dtype=object) for texts in (ids, [f"g{j}" for j in range(X.shape[1])]))
    columns = {"status": y, "plate": [f"p{i % 3}" for i in range(len(X))]}
    obs = pandas.DataFrame(
        {name: pandas.Categorical(pandas.Index(values, dtype=object)) for name, values in columns.items()}, index=rows
    )
    return anndata.AnnData(X, obs=obs, var=pandas.DataFrame(index=names))


@case("adata")
def _(_: Path) -> Any:
    adata = annotated(status(xor(90, 15)))
    select_adata(adata, "status", batch="plate", top=5, halves=4, folds=3)
    return {"var": {name: adata.var[name].to_numpy() for name in adata.var}, "uns": adata.uns["randsel"]}


# ---------------------------------------------------------------- the command line


def command(folder: Path, *words: str) -> dict[str, Any]:
    """Run `randsel` in a folder, and return what it writes to OUT there, what it prints, and its exit status."""
    environment = {name: value for name, value in os.environ.items() if name != "SCIPY_ARRAY_API"}
    # the package of this process, wherever the command runs
    package = str(Path(randsel.__file__).resolve().parents[1])
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [package, environment.get("PYTHONPATH")]))
    environment |= {"PYTHONIOENCODING": "utf-8", "MPLBACKEND": "Agg"}
    done = subprocess.run(
        [sys.executable, "-m", "randsel", *words], cwd=folder, env=environment, capture_output=True, check=False
    )
    out = folder / "out"
    files = {
        path.relative_to(out).as_posix(): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.name not in TIMES
    }
    return {
        "exit status": done.returncode,
        "output": done.stdout,
        f"{SAID}standard error": _without(str(folder), done.stderr.decode("utf-8", "replace")),
        "names of files": list(files),
        "file": files,
    }


@case("command-select")
def _(folder: Path) -> Any:
    written(folder / "table.csv", rows_of(status(xor(90, 12))))
    how = ["--target", "status", "--batch", "plate", "--drop-columns", "donor", "--halves", "6", "--folds", "3"]
    return command(folder, "select", "table.csv", *how, "--top", "4", "--out", "out")


@case("command-select-numbers")
def _(folder: Path) -> Any:
    written(folder / "table.tsv", rows_of(numbers(90, 12), gaps=True), "\t")
    how = ["--target", "status", "--groups", "donor", "--categorical", "plate", "--missing", "median", "--fdr", "0.1"]
    how += ["--jobs", "2"]
    return command(folder, "select", "table.tsv", *how, "--halves", "4", "--folds", "3", "--seed", "5", "--out", "out")


@case("command-select-noise")
def _(folder: Path) -> Any:
    written(folder / "table.csv", rows_of(status(noise(60, 10))))
    how = ["--target", "status", "--drop-columns", "donor,plate", "--pairs", "none", "--halves", "0", "--no-accuracy"]
    selected = command(folder, "select", "table.csv", *how, "--out", "out")
    (folder / "out" / "report.html").unlink()
    return {"select": selected, "report": command(folder, "report", "out")}


@case("command-interactions", quick=True)
def _(folder: Path) -> Any:
    written(folder / "table.csv", rows_of(status(xor(90, 12))))
    how = ["--target", "status", "--batch", "plate", "--drop-columns", "donor", "--order", "3"]
    return command(folder, "interactions", "table.csv", *how, "--out", "out")


@case("command-compare")
def _(folder: Path) -> Any:
    written(folder / "table.csv", rows_of(status(xor(72, 8))))
    how = ["--target", "status", "--groups", "donor", "--drop-columns", "plate", "--folds", "2", "--reshuffles", "1"]
    return command(folder, "compare", "table.csv", *how, "--methods", "randSel, Corr. Coeff., RFE", "--out", "out")


@case("command-error")
def _(folder: Path) -> Any:
    written(folder / "table.csv", rows_of(status(xor(20, 4))))
    return command(folder, "select", "table.csv", "--target", "state", "--out", "out")


@case("command-reproduce")
def _(folder: Path) -> Any:
    return command(folder, "reproduce", "blackbox", "--quick", "--out", "out")


@case("command-reproduce-error")
def _(folder: Path) -> Any:
    return command(folder, "reproduce", "table1", "--methods", "none of them", "--out", "out")


# ---------------------------------------------------------------- save and compare


def difference(before: Array, now: Array) -> str:
    """Say how two arrays differ; nothing if they are the same to the bit, whatever their NaNs are."""
    if before.dtype.kind == now.dtype.kind == "U":
        return _difference_of_text(before, now)
    if before.dtype != now.dtype:
        return f"type {before.dtype}, now {now.dtype}"
    if before.shape != now.shape:
        return f"shape {before.shape}, now {now.shape}"
    if before.tobytes() == now.tobytes():
        return ""
    if before.dtype.names:
        parts = {name: difference(before[name], now[name]) for name in before.dtype.names}
        return "; ".join(f"{name}: {said}" for name, said in parts.items() if said)
    if before.dtype.kind not in "fc":
        return f"{int((before != now).sum())} of {before.size} entries differ, {_largest(before, now)}"
    bits = np.frombuffer(before.tobytes(), np.uint8).reshape(before.size, -1)
    same = (bits == np.frombuffer(now.tobytes(), np.uint8).reshape(bits.shape)).all(axis=1)
    same |= (np.isnan(before) & np.isnan(now)).ravel()
    return "" if same.all() else f"{int((~same).sum())} of {before.size} entries differ, {_largest(before, now)}"


def _largest(before: Array, now: Array) -> str:
    """Largest difference; of numbers of which one alone is NaN, there is none."""
    with np.errstate(all="ignore"):
        apart = np.abs(np.atleast_1d(before).astype(np.float64) - np.atleast_1d(now).astype(np.float64))
    finite = apart[np.isfinite(apart)]
    return f"at most by {finite.max():.3g}" if finite.size else "none of them finite"


def _difference_of_text(before: Array, now: Array) -> str:
    old, new = (np.atleast_1d(values).ravel().tolist() for values in (before, now))
    if before.shape != now.shape:
        return f"{_short(old)}, now {_short(new)}"
    pair = next(((a, b) for a, b in zip(old, new, strict=True) if a != b), None)
    return "" if pair is None else f"{_short(pair[0])}, now {_short(pair[1])}"


def _difference_of_bytes(before: Array, now: Array) -> str:
    """First lines in which a file, or what was printed, differs."""
    old, new = (values.tobytes().decode("utf-8", "replace").splitlines() for values in (before, now))
    pair = next(((a, b) for a, b in zip(old, new, strict=False) if a != b), None)
    return f"{len(old)} lines, now {len(new)}" if pair is None else f"{_short(pair[0])}, now {_short(pair[1])}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 150 else text[:149] + "…"


def differences(before: Arrays, now: Arrays) -> tuple[list[str], list[str]]:
    """Return what differs between outputs, and what differs only in what is said to people."""
    wrong, said = [], []
    for name in sorted({*before, *now}):
        if name not in before or name not in now:
            found = "is new" if name in now else "is gone"
        else:
            found = difference(before[name], now[name])
            if found and before[name].dtype == now[name].dtype == np.uint8 and before[name].ndim == 1:
                found = _difference_of_bytes(before[name], now[name])
        if found and SAID in name:
            said.append(f"{name.replace(SAID, '')} differs: {found}")
        elif found:
            wrong.append(f"{name}: {found}")
    return wrong, said


def about() -> dict[str, str]:
    """Return what numbers depend on besides the code."""
    found = {"machine": f"{platform.machine()} {platform.system()}", "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "none"
    return {**found, "threads": os.environ["OMP_NUM_THREADS"]}


def save(folder: Path, names: list[str]) -> int:
    """Run cases, and keep their outputs."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "about.json").write_text(json.dumps(about(), indent=1) + "\n", encoding="utf-8")
    odd = 0
    for name in names:
        start = time.perf_counter()
        found = outputs(name)
        np.savez_compressed(folder / f"{name}.npz", **found)
        print(f"{name}: {len(found)} arrays, {time.perf_counter() - start:.1f} s", flush=True)
        if ("error" in found) != CASES[name].raises:
            odd += 1
            print(f"  unexpected: {found.get('error', 'no error')} {found.get(f'{SAID}message', '')}")
    print(f"{len(names)} cases saved" + (f", {odd} of them not as they ought to be" if odd else ""))
    return int(odd > 0)


def compare(folder: Path, names: list[str]) -> int:
    """Run cases, and print what differs from what was kept."""
    file = folder / "about.json"
    before = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    for what, now in about().items():
        if before.get(what) != now:
            print(f"Note: {what} was {before.get(what)}, and is {now}; numbers may differ for that.")
    bad = 0
    for name in names:
        kept = folder / f"{name}.npz"
        if not kept.exists():
            bad += 1
            print(f"{name}: was not saved", flush=True)
            continue
        with np.load(kept, allow_pickle=False) as arrays:
            saved = dict(arrays)
        wrong, said = differences(saved, outputs(name))
        bad += bool(wrong)
        for line in wrong:
            print(f"{name}: {line}", flush=True)
        for line in said:
            print(f"{name}: (only said) {line}", flush=True)
    print(f"{bad} of {len(names)} cases differ" if bad else f"{len(names)} cases equal to the bit")
    return int(bad > 0)


def main() -> int:
    """Parse the arguments, and do what they say."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=["save", "compare", "list"])
    parser.add_argument("folder", type=Path, nargs="?", help="where answers are kept")
    parser.add_argument("--only", default="", help="only cases whose name has this text in it")
    parser.add_argument("--quick", action="store_true", help="only a few cases of every kind")
    given = parser.parse_args()
    names = [name for name, case in CASES.items() if given.only in name and (case.quick or not given.quick)]
    if given.what == "list":
        print("\n".join(names))
        return 0
    if given.folder is None or not names:
        parser.error("give a folder" if names else f"no case has {given.only!r} in its name")
    print(f"{len(names)} cases of {Path(randsel.__file__).parent}", flush=True)
    return {"save": save, "compare": compare}[given.what](given.folder, names)


if __name__ == "__main__":
    sys.exit(main())
