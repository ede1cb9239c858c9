"""Sparse tables: the columns, and the fits of selectors, are those of the dense table."""

from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from randsel import FTest, InteractionScan, RandSel, RandSelCV, StabilitySelection
from randsel._numerics.column_sources import Scaling, SparseColumns
from randsel._numerics.columns import canonical_csc
from randsel._numerics.fingerprint import fingerprint
from randsel._numerics.nuisance import Covariates, Nuisance
from randsel._numerics.standardise import standardise

FORMATS = [
    *(sparse.csr_array, sparse.csc_array, sparse.coo_array),
    *(sparse.csr_matrix, sparse.csc_matrix, sparse.coo_matrix),
]


def counts(m=120, n=300, density=0.2, seed=0):
    """Return a table that is mostly zero; columns 3, 4 and 5 are full, constant and zero."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((m, n)) < density, rng.integers(-2, 7, (m, n)), 0).astype(float)
    X[:, 3], X[:, 4], X[:, 5] = rng.normal(size=m), 2.0, 0.0
    y = (X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=m) > 0).astype(int)
    return X, y


@pytest.fixture
def never_dense(monkeypatch):
    """Make every sparse table too large to be made dense, and let blocks of few columns be so."""

    def limit(n_bytes):
        monkeypatch.setattr("randsel._sklearn.base.MAX_DENSE", 0)
        monkeypatch.setattr("randsel.selectors._features.DEFAULT_BYTES", n_bytes)

    return limit


# ---------------------------------------------------------------- columns


@pytest.mark.parametrize("scale", ["rank", "normal", True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weighted", [False, True])
def test_columns_are_those_of_the_dense_table(rng, scale, dtype, weighted):
    X = counts()[0].astype(dtype)
    X[rng.random(X.shape) < 0.02] = np.nan
    X[:90, 7] = np.nan  # left out
    weights = rng.random(120) if weighted else None
    expected, varies = standardise(X, weights, scale, 0.5)
    scaling = Scaling(weights, scale, 0.5)
    source, columns = SparseColumns.from_matrix(canonical_csc(X), scaling, max_bytes=20_000, device=None)
    assert list(columns) == list(np.flatnonzero(varies))
    assert source.shape == expected.shape
    assert source.dtype == expected.dtype
    every = np.ones(len(columns), dtype=bool)
    # Sums over the rows of a block may be rounded differently; rank scores without weights are not sums.
    tolerance = 0.0 if isinstance(scale, str) and not weighted else 50 * np.finfo(expected.dtype).eps
    same = partial(np.testing.assert_allclose, rtol=0.0, atol=tolerance * np.abs(expected).max())
    same(source.load(every), expected)
    same(np.concatenate(list(source.map_blocks(7, np.asarray)), axis=1), expected)
    chosen = rng.permutation(len(columns))[:40]
    same(source.select(chosen).load(np.arange(40)), expected[:, chosen])
    rows = np.sort(rng.choice(120, 50, replace=False))
    some_rows = source.take_centred_rows(rows)
    assert isinstance(some_rows, SparseColumns)  # more than `max_bytes`
    centred = expected[rows] - expected[rows].mean(axis=0)
    same(some_rows.load(every), centred)
    same(source.select(chosen).take_centred_rows(rows), centred[:, chosen])  # an array


@pytest.mark.parametrize("scale", ["rank", False])
def test_nuisance_variables_are_removed_from_blocks(rng, scale):
    X = counts()[0]
    X[:, 8] = np.arange(120) % 3  # the batch
    weights, age = rng.random(120), rng.normal(size=120)
    covariates = Covariates(age[:, None], ("age",), np.array([True]))
    nuisance = Nuisance.from_samples(120, weights, np.arange(120) % 3, covariates)
    expected, varies = standardise(X, weights, scale, 1.0, nuisance)
    scaling = Scaling(weights, scale, nuisance=nuisance)
    source, columns = SparseColumns.from_matrix(canonical_csc(X), scaling, max_bytes=20_000, device=None)
    assert list(columns) == list(np.flatnonzero(varies))
    assert 8 not in columns
    every = np.ones(len(columns), dtype=bool)
    np.testing.assert_allclose(source.load(every), expected, atol=1e-12 * np.abs(expected).max())
    rows = np.arange(0, 120, 2)
    centred = expected[rows] - expected[rows].mean(axis=0)
    loaded = source.take_centred_rows(rows).load(every)
    np.testing.assert_allclose(loaded, centred, atol=1e-12 * np.abs(expected).max())


def test_duplicates_are_added_and_the_table_of_the_user_is_not_changed():
    rows, columns, values = [0, 0, 2, 1], [1, 1, 0, 1], [1.0, 2.0, 3.0, 0.0]
    repeated = sparse.csc_array((np.array([3.0, 1.0, 2.0, 0.0]), np.array([2, 0, 0, 1]), np.array([0, 1, 4])), (3, 2))
    before = repeated.data.copy()
    canonical = canonical_csc(repeated)
    np.testing.assert_array_equal(canonical.toarray(), sparse.coo_array((values, (rows, columns)), (3, 2)).toarray())
    assert canonical.nnz == 3
    np.testing.assert_array_equal(repeated.data, before)


def test_a_table_of_constant_columns_is_refused(never_dense):
    never_dense(1 << 20)
    with pytest.raises(ValueError, match="Every column of X is constant"):
        RandSel(2).fit(sparse.csr_array((40, 5)), np.arange(40) % 2)


# ---------------------------------------------------------------- fits


def same_fit(ours, expected, rtol=1e-9):
    assert list(ours.order_) == list(expected.order_)
    scale = np.abs(expected.contributions_).max()
    np.testing.assert_allclose(ours.contributions_, expected.contributions_, atol=rtol * scale)
    assert ours.permutation_pvalue_ == expected.permutation_pvalue_


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, bool])
def test_a_small_table_gives_the_same_bits(form, dtype):
    X, y = counts(60, 40)
    X = X.astype(dtype)
    expected, fitted = RandSel(4).fit(X, y), RandSel(4).fit(form(X), y)
    np.testing.assert_array_equal(fitted.order_, expected.order_)
    np.testing.assert_array_equal(fitted.contributions_, expected.contributions_)
    assert sparse.issparse(fitted.transform(form(X)))


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("n_bytes", [30_000, 1 << 28])
def test_a_large_table_gives_the_same_fit(never_dense, form, n_bytes):
    X, y = counts()
    expected = RandSel(5).fit(X, y)
    never_dense(n_bytes)
    same_fit(RandSel(5).fit(form(X), y), expected)


OPTIONS = {
    "z-scores": {"scale": True},
    "not scaled": {"scale": False},
    "total": {"criterion": "total"},
    "fixing": {"fix_top": 0.1, "fix_after": 2},
    "features to keep": {"always_keep": [9, 3]},
    "element by element": {"gamma": "8*median"},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_options_give_the_same_fit(never_dense, options):
    X, y = counts()
    expected = RandSel(5, **options).fit(X, y)
    never_dense(30_000)
    same_fit(RandSel(5, **options).fit(sparse.csr_array(X), y), expected)


@pytest.mark.parametrize("kind", ["three classes", "numbers", "outputs"])
def test_outcomes_weights_and_missing_values_give_the_same_fit(never_dense, rng, kind):
    X, _ = counts()
    signal = X[:, 0] + X[:, 1] + 0.3 * rng.normal(size=120)
    y = {"three classes": np.digitize(signal, [-0.5, 1.0]), "numbers": signal, "outputs": np.c_[signal, X[:, 2]]}[kind]
    X[rng.random(X.shape) < 0.02] = np.nan
    weights = rng.integers(0, 3, 120).astype(float)
    expected = RandSel(5).fit(X, y, weights)
    never_dense(30_000)
    fitted = RandSel(5).fit(sparse.csc_array(X), y, weights)
    same_fit(fitted, expected)
    np.testing.assert_array_equal(fitted.missing_counts_, expected.missing_counts_)


def test_batches_and_covariates_give_the_same_fit(never_dense, rng):
    X, y = counts()
    X[:, 8] = np.arange(120) % 3
    known = {"batch": np.arange(120) % 3, "covariates": rng.normal(size=120), "groups": np.arange(120) // 2}
    with pytest.warns(UserWarning, match="explain 1 column of X completely"):
        expected = RandSel(5).fit(X, y, **known)
    never_dense(30_000)
    with pytest.warns(UserWarning, match="explain 1 column of X completely"):
        same_fit(RandSel(5).fit(sparse.csr_array(X), y, **known), expected)


@pytest.mark.slow
@pytest.mark.parametrize("n_bytes", [20_000, 1 << 28])
def test_row_blocks_give_the_same_fit(never_dense, monkeypatch, n_bytes):
    monkeypatch.setattr("randsel.contribution._closed_form.MAX_ROWS", 80)
    X, y = counts(240, 150)
    expected = RandSel(5, random_state=0).fit(X, y)
    never_dense(n_bytes)
    for n_jobs in (None, 2):
        fitted = RandSel(5, random_state=0, n_jobs=n_jobs).fit(sparse.csr_array(X), y)
        assert list(fitted.order_[:20]) == list(expected.order_[:20])
        first, reference = (f.path_.rounds[0].contributions for f in (fitted, expected))
        np.testing.assert_allclose(first, reference, atol=1e-9 * np.abs(reference).max())


def test_max_memory_decides_what_is_made_dense(monkeypatch):
    X, y = counts()
    expected = RandSel(5).fit(X, y)
    used = []
    made = SparseColumns.from_matrix.__func__
    monkeypatch.setattr(
        SparseColumns, "from_matrix", classmethod(lambda cls, *how, **more: used.append(1) or made(cls, *how, **more))
    )
    same_fit(RandSel(5, max_memory="1GB").fit(sparse.csr_array(X), y), expected)
    assert not used
    monkeypatch.setattr("randsel._sklearn.base.memory_for_columns", lambda *_: int(0.9 * X.nbytes))
    monkeypatch.setattr("randsel.selectors._features.memory_for_columns", lambda *_: int(0.9 * X.nbytes))
    same_fit(RandSel(5, max_memory="1MB").fit(sparse.csr_array(X), y), expected)
    assert used
    monkeypatch.setattr("randsel.selectors._features.memory_for_columns", lambda *_: int(0.1 * X.nbytes))
    with pytest.raises(ValueError, match="max_memory='1MB' is too little for X, whose standardised values take 0 MB"):
        RandSel(5, max_memory="1MB").fit(sparse.csr_array(X), y)


def test_a_checkpoint_of_a_sparse_table_resumes(never_dense, tmp_path):
    X, y = counts()
    never_dense(30_000)
    table = sparse.csr_array(X)
    selector = RandSel(5, checkpoint=tmp_path)
    whole = clone(selector).fit(table, y)
    same_fit(clone(selector).fit(table, y), whole)
    table.data[3] += 1.0
    with pytest.raises(ValueError, match="on other data"):
        clone(selector).fit(table, y)
    assert fingerprint(canonical_csc(table)) == fingerprint(canonical_csc(table.tocoo()))


def test_cross_validation_scores_numbers_of_features_that_fit_as_dense_columns(never_dense, monkeypatch):
    X, y = counts(120, 80, seed=1)
    selector = RandSelCV(LogisticRegression(max_iter=1000), cv=3, gammas=["median"])
    expected = clone(selector).fit(X, y)
    monkeypatch.setattr("randsel.selectors._randsel_cv.MAX_DENSE", 120 * 40 * 8)
    never_dense(30_000)
    fitted = clone(selector).fit(sparse.coo_array(X), y)
    sizes = fitted.cv_results_["n_features"]
    assert max(sizes) <= 40 < max(expected.cv_results_["n_features"])
    scores = dict(zip(expected.cv_results_["n_features"], expected.cv_results_["mean_score"], strict=True))
    assert fitted.cv_results_["mean_score"] == pytest.approx([scores[size] for size in sizes])
    assert fitted.support_[:2].all()


@pytest.mark.parametrize(
    "selector", [InteractionScan(3), FTest(3), StabilitySelection(FTest(3), n_subsamples=4, random_state=0)]
)
def test_other_selectors_take_small_sparse_tables(selector):
    X, y = counts(80, 30)
    expected, fitted = clone(selector).fit(X, y), clone(selector).fit(sparse.csr_array(X), y)
    if not isinstance(selector, StabilitySelection):
        np.testing.assert_array_equal(fitted.order_, expected.order_)


def test_a_table_that_must_be_dense_and_is_too_large_is_refused(never_dense):
    X, y = counts(60, 20)
    never_dense(30_000)
    table = sparse.csr_array(X)
    for selector in (InteractionScan(), FTest()):
        with pytest.raises(ValueError, match=f"that {type(selector).__name__} needs; select features first"):
            selector.fit(table, y)
    for options in ({"kernel": "rank"}, {"estimator": "bootstrap"}):
        with pytest.raises(ValueError, match="X is sparse and too large for a dense array, and only kernel='gaussian'"):
            RandSel(**options).fit(table, y)
    table.data[0] = np.inf
    with pytest.raises(ValueError, match="infinity in column"):
        RandSel().fit(table, y)
    fitted = RandSel(2).fit(sparse.csr_array(X), y)
    with pytest.raises(ValueError, match="X is sparse and would take"):
        fitted.stand_ins(sparse.csr_array(X))
