"""Torch tensors give the same answers as numpy arrays. Tensors on the processor stand in for those on a device."""

import subprocess
import sys

import numpy as np
import pytest
import sklearn

from randsel import InteractionScan, RandSel, RandSelCV, SparseFiltering, datasets
from randsel._numerics import arrays
from randsel._numerics.nuisance import Covariates, Nuisance, sums_by
from randsel._numerics.rank_functions import rank_functions
from randsel.contribution import _closed_form as closed_form
from randsel.interactions import _design as design
from randsel.interactions._design import eigenvalues
from randsel.interactions._label_probabilities import LabelProbabilities
from randsel.interactions._permutation_tails import log_tail_of_labels, log_tail_of_signs, permutation_cumulants
from randsel.learning import _sparse_filtering as sparse_filtering

torch = pytest.importorskip("torch")

#: Scores are sums of about a million products; both libraries round them differently.
TOLERANCE = {np.float64: 1e-8, np.float32: 2e-3}


@pytest.fixture
def dispatch(monkeypatch):
    """Switch dispatch on, and numpy's silent conversion of tensors off: those of a GPU have none."""

    def refuse(*_):
        msg = "numpy was given a tensor"
        raise TypeError(msg)

    monkeypatch.setattr(torch.Tensor, "__array__", refuse)
    with sklearn.config_context(array_api_dispatch=True):
        yield


def close(a, b, tolerance):
    np.testing.assert_allclose(a, b, atol=tolerance * np.abs(b).max(), rtol=tolerance)


PROBLEMS = {
    "xor": lambda: datasets.make_xor(120, 60, random_state=1)[:2],
    "wide": lambda: datasets.make_xor(80, 700, random_state=2)[:2],
    "classes": lambda: (np.random.default_rng(0).normal(size=(60, 40)), np.arange(60) % 3),
    "regression": lambda: datasets.make_passemiers("ring", 100, 50, random_state=0)[:2],
    "heavy": lambda: (np.random.default_rng(0).standard_t(2, (90, 300)), np.arange(90) % 2),
}


@pytest.mark.filterwarnings("ignore:Nothing stands out")
@pytest.mark.parametrize("host_features", [0, 30, 2048])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", PROBLEMS)
def test_tensors_give_the_same_path(dispatch, name, dtype, host_features, monkeypatch):
    monkeypatch.setattr(closed_form, "HOST_FEATURES", host_features)
    X, y = PROBLEMS[name]()
    X = X.astype(dtype)
    expected = RandSel(3).fit(X, y)
    found = RandSel(3).fit(torch.asarray(X), torch.asarray(y))
    assert list(found.get_support(indices=True)) == list(expected.get_support(indices=True))
    first, reference = found.path_.rounds[0], expected.path_.rounds[0]
    for field in ("contributions", "main", "interaction"):
        close(getattr(first, field), getattr(reference, field), TOLERANCE[dtype])
    assert first.gamma == pytest.approx(reference.gamma, rel=TOLERANCE[dtype])
    if dtype == np.float64:
        assert list(found.order_) == list(expected.order_)


@pytest.mark.parametrize(
    "options",
    [{"fix_top": 0.2, "fix_after": 2}, {"kernel": "rank"}, {"scale": False}, {"scale": "normal"}, {"scale": True}],
)
def test_options_on_tensors(dispatch, options):
    X, y = PROBLEMS["xor"]()
    expected, found = RandSel(2, **options).fit(X, y), RandSel(2, **options).fit(torch.asarray(X), y)
    assert list(found.order_) == list(expected.order_)


def test_weights_on_tensors(dispatch, rng):
    X, y = PROBLEMS["xor"]()
    weights = rng.random(120)
    expected = RandSel(2).fit(X, y, weights)
    found = RandSel(2).fit(torch.asarray(X), torch.asarray(y), torch.asarray(weights))
    assert list(found.order_) == list(expected.order_)
    close(found.contributions_, expected.contributions_, 1e-8)


def test_bootstrap_on_tensors(dispatch):
    X, y = PROBLEMS["xor"]()
    settings = {"estimator": "bootstrap", "n_bootstraps": 200, "random_state": 0}
    expected, found = RandSel(2, **settings).fit(X, y), RandSel(2, **settings).fit(torch.asarray(X), y)
    close(found.path_.rounds[0].contributions, expected.path_.rounds[0].contributions, 1e-8)
    assert list(found.order_) == list(expected.order_)


def test_row_blocks_and_sketches_on_tensors(dispatch, monkeypatch):
    monkeypatch.setattr("randsel.contribution._closed_form.MAX_ROWS", 100)
    for name, value in (("SINGLE_ROWS", 4), ("SKETCH_ROWS", 4), ("SKETCH_RATIO", 0)):
        monkeypatch.setattr(f"randsel.contribution._sample.{name}", value)
    X, y, _ = datasets.make_xor(300, 800, random_state=3)
    settings = {"random_state": 0, "subsample": 0.5}
    expected, found = RandSel(2, **settings).fit(X, y), RandSel(2, **settings).fit(torch.asarray(X), y)
    # in single precision, so that what falls early may fall in another order
    assert list(found.order_[:50]) == list(expected.order_[:50])
    close(found.path_.rounds[0].scores, expected.path_.rounds[0].scores, 1e-3)


def test_transform_stays_on_the_tensor(dispatch):
    X, y = PROBLEMS["xor"]()
    X = torch.asarray(X)
    chosen = RandSel(2).fit(X, y).transform(X)
    assert isinstance(chosen, torch.Tensor)
    assert chosen.shape == (120, 2)


def test_without_dispatch_a_tensor_of_the_processor_is_an_array():
    X, y = PROBLEMS["xor"]()
    assert isinstance(RandSel(2).fit(torch.asarray(X), y).transform(torch.asarray(X)), np.ndarray)


def test_infinity_in_a_tensor_is_refused(dispatch):
    X, y = PROBLEMS["xor"]()
    X[3, 7] = np.inf
    with pytest.raises(ValueError, match="infinity in column 7"):
        RandSel().fit(torch.asarray(X), y)


@pytest.mark.filterwarnings("ignore:Nothing stands out")
@pytest.mark.parametrize("kernel", ["gaussian", "rank"])
def test_missing_values_in_a_tensor_are_neutral(dispatch, rng, kernel):
    X, y = PROBLEMS["xor"]()
    X[rng.random(X.shape) < 0.1] = np.nan
    expected, found = RandSel(3, kernel=kernel).fit(X, y), RandSel(3, kernel=kernel).fit(torch.asarray(X), y)
    close(found.path_.rounds[0].contributions, expected.path_.rounds[0].contributions, 1e-8)
    assert list(found.order_) == list(expected.order_)
    assert list(found.missing_counts_) == np.isnan(X).sum(axis=0).tolist()


def test_missing_devices_are_refused():
    X, y = PROBLEMS["xor"]()
    with pytest.raises(ValueError, match="'gpu' is not a device"):
        RandSel(device="gpu").fit(X, y)
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="torch sees no CUDA device here"):
            RandSel(device="cuda").fit(X, y)
    assert RandSel(2, device="cpu").fit(X, y).n_features_ == 2


def test_tensors_on_another_device_need_dispatch():
    X = torch.empty((10, 3), device="meta")
    with pytest.raises(ValueError, match="array_api_dispatch=True"):
        RandSel().fit(X, np.arange(10) % 2)


def test_numpy_and_torch_break_ties_alike():
    keys, ties = np.array([1.0, 0.0, 1.0, 0.0, 1.0]), np.array([2.0, 5.0, -1.0, 5.0, 2.0])
    expected = [1, 3, 2, 0, 4]
    assert list(arrays.stable_argsort(keys, ties, 5.0)) == expected
    for largest in (5.0, 1e9):  # small enough for one sort, and not
        assert list(arrays.stable_argsort(torch.asarray(keys), torch.asarray(ties), largest)) == expected


@pytest.mark.parametrize("columns", [5, 70])
@pytest.mark.parametrize("m", [30, 600])
def test_numpy_and_torch_compute_the_same_matrices_of_pairs(rng, m, columns):
    a, b, v = rng.normal(size=(m, columns)), rng.normal(size=(m, columns)), rng.normal(size=m)
    expected = 3 * a @ a.T - 2 * (a @ b.T + b @ a.T)
    for kind in (np.asarray, torch.asarray):
        found = arrays.symmetric_product([(3.0, kind(a), None), (-2.0, kind(a), kind(b))])
        np.testing.assert_allclose(arrays.to_numpy(found), expected, atol=1e-11)
        arrays.add_outer_sum(found, kind(v))
        np.testing.assert_allclose(arrays.to_numpy(found), expected + v[:, None] + v, atol=1e-11)
        np.testing.assert_allclose(
            arrays.to_numpy(arrays.symmetric_product([(2.0, kind(a), None)])), 2 * a @ a.T, atol=1e-11
        )
        np.testing.assert_allclose(arrays.to_numpy(arrays.row_sums(found)), (expected + v[:, None] + v).sum(axis=1))


@pytest.mark.parametrize("kind", ["plain", "snps", "mixed"])
def test_scan_of_tensors_finds_the_same_pairs(dispatch, rng, kind, monkeypatch):
    monkeypatch.setattr("randsel.interactions._pair_scan.DEVICE_BLOCK", 24)
    X = rng.normal(size=(200, 60)) if kind == "plain" else rng.integers(0, 3, (200, 60)).astype(float)
    if kind == "mixed":
        X[:, ::2] = rng.normal(size=(200, 30))
    y = ((X[:, 5] > X[:, 5].mean()) ^ (X[:, 9] > X[:, 9].mean())).astype(int)
    expected, found = InteractionScan(2).fit(X, y), InteractionScan(2).fit(torch.asarray(X), torch.asarray(y))
    assert list(found.get_support(indices=True)) == [5, 9]
    assert found.partner_[5] == 9
    # candidates come from half precision on a GPU; products and their sums are in single precision
    both = {(p["i"], p["j"]): p["p"] for p in expected.pairs_[:50]}
    again = {(p["i"], p["j"]): p["p"] for p in found.pairs_[:50]}
    common = sorted(set(both) & set(again))
    assert len(common) >= 45
    np.testing.assert_allclose([again[pair] for pair in common], [both[pair] for pair in common], rtol=1e-4)


def _with_ties(rng, m=90):
    X = rng.normal(size=(m, 12))
    X[:, 1], X[:, 2], X[:, 3] = rng.integers(0, 3, m), X[:, 2].round(1), X[:, 3] > 0
    X[rng.random(m) < 0.2, 4] = np.nan
    X[:, 5], X[:, 6] = 1.0, rng.permutation(m)
    return X


@pytest.mark.parametrize("kind", ["plain", "weights", "strata", "float32", "integers"])
def test_rank_functions_on_a_device_are_the_same(dispatch, rng, kind):
    X, nominal = _with_ties(rng), np.arange(12) == 1
    X = (
        X.astype(np.float32)
        if kind == "float32"
        else X[:, [1, 6, 3, 1, 6, 1, 1, 1, 1, 1, 1, 6]].astype(int)
        if kind == "integers"
        else X
    )
    weights = rng.random(90) + 0.5 if kind == "weights" else np.ones(90)
    strata = np.arange(90) % 3 if kind == "strata" else None
    expected = rank_functions(X, 5, weights / weights.mean(), nominal, strata)
    found = rank_functions(X, 5, weights / weights.mean(), nominal, strata, device="cpu")
    assert isinstance(found.values, torch.Tensor)
    for name in ("values", "counts", "untied", "incomplete"):
        np.testing.assert_array_equal(arrays.to_numpy(getattr(found, name)), getattr(expected, name))


#: Outcome, arguments of `fit` and of the estimator: every null distribution that tests use.
DESIGNS = {
    "classes": ("two", {}, {}),
    "three classes": ("three", {}, {}),
    "numbers": ("numbers", {}, {}),
    "extreme numbers": ("extreme", {}, {}),
    "two columns": ("columns", {}, {}),
    "triples": ("two", {}, {"order": 3}),
    "batch": ("three", {"batch": np.arange(120) % 4}, {}),
    "batches of two": ("numbers", {"batch": np.arange(120) // 2}, {}),
    "covariates": ("three", {"covariates": np.sin(np.arange(240)).reshape(120, 2)}, {"with_covariates": True}),
    "covariates and batch": ("numbers", {"covariates": np.sin(np.arange(120)), "batch": np.arange(120) % 3}, {}),
    "weights": ("two", {"sample_weight": 1.0 + np.arange(120) % 5}, {}),
    "groups": ("two", {"groups": np.arange(120) // 4}, {}),
    "some groups": ("some", {"groups": np.arange(120) // 4}, {}),
    "missing values": ("three", {}, {"missing": True}),
    "missing values and batch": ("numbers", {"batch": np.arange(120) % 4}, {"missing": True}),
}


@pytest.mark.parametrize("name", DESIGNS)
def test_tests_of_tensors_agree_with_the_host(dispatch, rng, name):
    outcome, arguments, options = DESIGNS[name]
    X, m = rng.normal(size=(120, 14)), 120
    score = X[:, 3] * X[:, 7] + X[:, 11] + 0.3 * rng.normal(size=m)
    y = {
        "two": score > 0,
        "three": np.digitize(score, [-0.5, 0.5]),
        "numbers": score,
        "extreme": np.exp(2.0 * score),
        "columns": np.stack([score, score**2], axis=1),
        "some": np.where(np.arange(m) < 60, np.arange(m) // 4 % 2, score > 0),
    }[outcome]
    options = dict(options)
    if options.pop("missing", False):
        X[rng.random(X.shape) < 0.1] = np.nan
    expected = InteractionScan(4, **options).fit(X, y, **arguments)
    found = InteractionScan(4, **options).fit(torch.asarray(X), y, **arguments)
    for attribute in ("pvalues_", "main_pvalues_", "partner_pvalues_", "top_pvalues_"):
        np.testing.assert_allclose(
            getattr(found, attribute), getattr(expected, attribute), rtol=1e-4, err_msg=attribute
        )
    for table in ("pairs_", "triples_", "covariate_pairs_"):
        if hasattr(expected, table):
            np.testing.assert_allclose(getattr(found, table)["p"], getattr(expected, table)["p"], rtol=1e-4)
    assert list(found.taken_) == list(expected.taken_)
    np.testing.assert_allclose(found.residual_scores_, expected.residual_scores_, atol=1e-3)


@pytest.mark.parametrize("strata", [None, np.arange(60) // 20, np.arange(60) % 3])
def test_tails_of_tensors_agree_with_the_host(dispatch, rng, strata, monkeypatch):
    a = rng.normal(size=(8, 60))
    a[:3] = a[:3].round()  # on a lattice
    labels, e = np.arange(60) % 7 < 3, rng.normal(size=60)
    a[0] = labels  # the largest sum
    nuisance = Nuisance.from_samples(60, None, strata)
    a, on_device = nuisance.remove(a), torch.asarray(nuisance.remove(a))
    close(log_tail_of_labels(on_device, labels, strata), log_tail_of_labels(a, labels, strata), 1e-10)
    close(log_tail_of_signs(on_device * torch.asarray(e)), log_tail_of_signs(a * e), 1e-10)
    for found, cumulant in zip(
        permutation_cumulants(on_device, e, strata), permutation_cumulants(a, e, strata), strict=True
    ):
        close(found, cumulant, 1e-10)
    close(arrays.to_numpy(sums_by(strata, on_device**2)), sums_by(strata, a**2), 1e-12)
    monkeypatch.setattr(design, "MAX_BATCH", 3)
    for size in (2, 5, 40):
        grams = rng.normal(size=(7, size, size))
        grams = grams @ grams.transpose(0, 2, 1)
        close(arrays.to_numpy(eigenvalues(torch.asarray(grams))), np.linalg.eigvalsh(grams), 1e-12)
    covariates = Covariates(rng.normal(size=(60, 1)), ("age",), np.array([True]))
    probabilities = LabelProbabilities.from_labels(labels, Nuisance.from_samples(60, None, strata, covariates))
    close(probabilities.log_tail(on_device, labels), probabilities.log_tail(a, labels), 1e-10)


def test_blocks_are_moved_to_the_device(dispatch, monkeypatch):
    X, y = PROBLEMS["wide"]()
    X = X.astype(np.float32)
    expected = RandSel(5).fit(X, y)
    monkeypatch.setattr("randsel.selectors._features.memory_for_columns", lambda *_: X.nbytes // 3)
    monkeypatch.setattr("randsel.selectors._features.check_device", lambda *_: "cpu")  # torch's
    monkeypatch.setattr(closed_form, "HOST_FEATURES", 0)  # scores stay on the device, in the precision of its blocks
    found = RandSel(5, max_memory="1MB").fit(X, y)
    assert list(found.get_support()) == list(expected.get_support())
    assert found.path_.rounds[0].main.dtype == np.float32


def test_torch_is_imported_only_when_used():
    code = """
import sys
import numpy as np
from randsel import InteractionScan, RandSel
rng = np.random.default_rng(0)
X, y = rng.normal(size=(40, 30)), np.arange(40) % 2
RandSel(2, device="cpu").fit(X, y)
InteractionScan(2).fit(X, y)
sys.exit("torch" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.filterwarnings("ignore:Nothing stands out")
def test_cross_validation_and_gradients_take_tensors_too(dispatch):
    X, y = PROBLEMS["xor"]()
    expected = RandSelCV(cv=3, gammas=["median"]).fit(X, y)
    assert list(RandSelCV(cv=3, gammas=["median"]).fit(torch.asarray(X), y).support_) == list(expected.support_)
    assert RandSel(2).fit(torch.asarray(X).requires_grad_(), y).n_features_ == 2


@pytest.mark.filterwarnings("ignore:Sparse filtering did not converge")
def test_sparse_filtering_has_the_same_objective_on_tensors(rng, monkeypatch):
    X, W = rng.normal(size=(50, 8)), rng.normal(size=(6, 8))
    value, slope = sparse_filtering.objective(W, X)
    found, its_slope = sparse_filtering.objective(W, torch.asarray(X))
    assert found == pytest.approx(value, rel=1e-12)
    assert isinstance(its_slope, np.ndarray)
    close(its_slope, slope, 1e-10)
    expected = SparseFiltering(6, max_iter=5, random_state=0).fit(X)
    # a tensor of the processor in place of the device's
    monkeypatch.setattr(sparse_filtering, "to_device", lambda X, name: torch.asarray(X) if name == "cuda" else X)
    moved = SparseFiltering(6, max_iter=5, device="cuda", random_state=0).fit(X)
    close(moved.components_, expected.components_, 1e-6)
    assert isinstance(moved.transform(X), np.ndarray)


def test_sparse_filtering_refuses_missing_devices(rng):
    X = rng.normal(size=(20, 4))
    with pytest.raises(ValueError, match="'gpu' is not a device"):
        SparseFiltering(3, device="gpu").fit(X)
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="torch sees no CUDA device"):
            SparseFiltering(3, device="cuda").fit(X)
