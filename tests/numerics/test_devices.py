"""Torch tensors give the same answers as numpy arrays. Tensors on the processor stand in for those on a device."""

import subprocess
import sys

import numpy as np
import pytest
import sklearn

from randsel import InteractionScan, RandSel, RandSelCV, SparseFiltering, datasets
from randsel._numerics import arrays
from randsel.contribution import _closed_form as closed_form
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
    "options", [{"fix_top": 0.2, "fix_after": 2}, {"kernel": "rank"}, {"scale": False}, {"scale": "normal"}]
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
    # candidates come from half precision, what is reported from the same tests as ever
    both = {(p["i"], p["j"]): p["p"] for p in expected.pairs_[:50]}
    again = {(p["i"], p["j"]): p["p"] for p in found.pairs_[:50]}
    assert len(set(both) & set(again)) >= 45
    assert all(again[pair] == both[pair] for pair in set(both) & set(again))


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
