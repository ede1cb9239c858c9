"""One answer, however it is computed: jobs, backends, Dask, order of columns, type and place of the numbers, streaming.

The tolerances below are those of docs/explanation/reproducibility.md; a test compares the two tables.
"""

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest

from randsel import InteractionScan, RandSel, RandSelCV, datasets
from randsel.analysis._model import Settings
from randsel.analysis._pipeline import analyse
from randsel.distributed import on_cluster
from randsel.tables._read import Table

#: Largest difference of a score, in standard deviations of its null (for the bootstrap: of the largest contribution),
#: and of the logarithm of a p-value relative to it. Zero is to the bit.
TOLERANCES = {
    "n_jobs": 0.0,
    "backend": 0.0,
    "memory map": 0.0,
    "order of columns": 1e-9,
    "Fortran order": 1e-9,
    "data frame": 1e-9,
    "torch tensor": 1e-9,
    "max_memory": 1e-9,
    "Dask array": 1e-4,
    "float32": 1e-3,
}


@cache
def problem(rows=150, columns=40):
    """An XOR of two features and a main effect, in numbers that single precision holds."""
    X, y, _ = datasets.make_xor(rows, columns, random_state=0)
    X = X.astype(np.float32).astype(np.float64)
    X[:, 2] += np.round(y)
    return X.astype(np.float32).astype(np.float64), np.where(y > 0, "case", "control")


# ---------------------------------------------------------------- what is asked: selected, scores, log p


def exact(X, y, **how):
    """Scores of the first round: of later ones a feature at the edge may see one more, or one less."""
    fitted = RandSel(**how).fit(X, y)
    first = fitted.path_.rounds[0]
    order = np.argsort(first.features)
    scores = np.concatenate([first.main[order], first.interaction[order]])
    return fitted.get_support(indices=True), scores, np.zeros(0)


def wide(X, y, **how):
    return exact(X, y, **how)


def calibrated(X, y, **how):
    """Another criterion on z-scores."""
    return exact(X, y, criterion="calibrated", scale=True, **how)


def row_blocks(X, y, **how):
    return exact(X, y, n_features_to_select=3, random_state=0, **how)


def bootstrap(X, y, **how):
    fitted = RandSel(3, estimator="bootstrap", n_bootstraps=128, drop=0.5, random_state=0, **how).fit(X, y)
    values = fitted.contributions_ / np.abs(fitted.contributions_).max()
    return fitted.get_support(indices=True), values, np.zeros(0)


def chosen_by_folds(X, y, **how):
    fitted = RandSelCV(cv=3, gammas=["median"], **how).fit(X, y)
    return fitted.get_support(indices=True), np.array(fitted.cv_results_["mean_score"]), np.zeros(0)


def scan(X, y, **how):
    fitted = InteractionScan(**how).fit(X, y)
    return fitted.get_support(indices=True), np.zeros(0), np.log(fitted.pvalues_)


def analysis(X, y, n_jobs=None):
    table = Table(X, y, tuple(f"g{j}" for j in range(X.shape[1])))
    found = analyse(table, Settings(halves=4, folds=2), n_jobs=n_jobs)
    by_column = sorted(found.features, key=lambda feature: feature.column)
    scores = [(f.main, f.interaction, f.stability) for f in by_column]
    selected = [f.column for f in by_column if f.selected]
    return np.array(selected), np.array(scores).T.ravel(), np.log([f.p for f in by_column])


def streamed(X, y, **how):
    return exact(X, y, **how)


SIZES = {
    wide: (100, 700),
    streamed: (100, 4000),
    row_blocks: (2100, 5),
    chosen_by_folds: (120, 12),
    analysis: (120, 12),
}
EVERYTHING = [exact, wide, calibrated, row_blocks, bootstrap, chosen_by_folds, scan, analysis]


@pytest.fixture(scope="module")
def baseline():
    """Return the answer of one job, on an array of doubles, in the order of C."""
    return cache(lambda method: method(*problem(*SIZES.get(method, ()))))


def differences(found, expected):
    """Largest difference of scores, and of log p-values; an assertion error if other features are selected."""
    np.testing.assert_array_equal(found[0], expected[0])
    scores = np.abs(found[1] - expected[1]).max(initial=0.0)
    return float(scores), float(
        (np.abs(found[2] - expected[2]) / np.maximum(np.abs(expected[2]), 1.0)).max(initial=0.0)
    )


def check(found, expected, name):
    assert max(differences(found, expected)) <= TOLERANCES[name]


# ---------------------------------------------------------------- ways to compute it


@pytest.mark.parametrize("n_jobs", [1, 2, 4])
@pytest.mark.parametrize("method", EVERYTHING)
def test_number_of_jobs(method, n_jobs, baseline):
    how = {"n_jobs": n_jobs}
    check(method(*problem(*SIZES.get(method, ())), **how), baseline(method), "n_jobs")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["threading", "loky", "dask"])
@pytest.mark.parametrize("method", [row_blocks, bootstrap, chosen_by_folds, scan, analysis])
def test_backend(method, backend, baseline, request):
    if backend == "dask":
        pytest.importorskip("distributed", reason="distributed is not installed (extra 'dask')")
        there = on_cluster(request.getfixturevalue("workers").address)
    else:
        there = joblib.parallel_config(backend=backend, n_jobs=2)
    with there:
        check(method(*problem(*SIZES.get(method, ()))), baseline(method), "backend")


def as_memory_map(X, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


def as_tensor(X, folder):
    return pytest.importorskip("torch").from_numpy(X.copy())


FORMS = {
    "memory map": as_memory_map,
    "Fortran order": lambda X, folder: np.asfortranarray(X),
    "data frame": lambda X, folder: pd.DataFrame(X).rename(columns=str),
    "torch tensor": as_tensor,
    "float32": lambda X, folder: X.astype(np.float32),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("method", [exact, wide, calibrated, row_blocks, bootstrap, chosen_by_folds, scan])
def test_form_of_the_numbers(method, form, baseline, tmp_path):
    X, y = problem(*SIZES.get(method, ()))
    y = np.unique(y, return_inverse=True)[1] if form == "torch tensor" else y
    check(method(FORMS[form](X, tmp_path), y), baseline(method), form)


def test_a_frame_of_polars_is_one_of_pandas(baseline):
    X, y = problem()
    check(exact(pl.DataFrame(X, schema=[str(j) for j in range(X.shape[1])]), y), baseline(exact), "data frame")


def test_streaming(baseline, tmp_path):
    X, y = problem(*SIZES[streamed])
    memory = 3_100_000
    assert memory < X.nbytes
    check(streamed(as_memory_map(X, tmp_path), y, max_memory=memory), baseline(streamed), "max_memory")


@pytest.mark.parametrize("blocks", [(-1, 7), (40, -1)], ids=["columns", "rows"])
@pytest.mark.parametrize("method", [exact, wide, calibrated, row_blocks, scan])
def test_chunking(method, blocks, baseline):
    da = pytest.importorskip("dask.array", reason="Dask is not installed (extra 'dask')")
    X, y = problem(*SIZES.get(method, ()))
    check(method(da.from_array(X, chunks=blocks), y), baseline(method), "Dask array")


@pytest.mark.parametrize("method", EVERYTHING)
def test_order_of_columns(method, baseline):
    X, y = problem(*SIZES.get(method, ()))
    order = np.random.default_rng(1).permutation(X.shape[1])
    selected, scores, log_p = method(np.ascontiguousarray(X[:, order]), y)
    back = np.argsort(order)
    if method is not chosen_by_folds:  # whose scores are of numbers of features
        scores = scores.reshape(-1, len(order))[:, back].ravel()
    check(
        (np.sort(order[selected]), scores, log_p[back] if len(log_p) else log_p), baseline(method), "order of columns"
    )


def test_the_page_has_these_tolerances():
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "reproducibility.md").read_text()
    table = re.findall(r"^\| ([a-zA-Z_0-9 ]+) \| ([0-9e-]+) \|", page, re.MULTILINE)
    assert {name: float(value) for name, value in table} == TOLERANCES


@pytest.mark.parametrize("kernels", ["Haswell", "SkylakeX", "Nehalem"])
def test_equal_columns_have_equal_keys_whatever_the_processor(kernels):
    code = (
        "import numpy as np; from randsel._numerics.columns import canonical_order\n"
        "for seed in range(12):\n"
        "    Z = np.repeat(np.random.default_rng(seed).standard_normal(100)[:, None], 33, axis=1)\n"
        "    assert (canonical_order(Z) == np.arange(33)).all()"
    )
    # OpenBLAS takes the kernels of another processor; other libraries take no notice
    environment = {**os.environ, "OPENBLAS_CORETYPE": kernels, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    if done.returncode < 0:
        pytest.skip(f"this processor does not run the kernels for {kernels}")
    assert done.returncode == 0, done.stderr
