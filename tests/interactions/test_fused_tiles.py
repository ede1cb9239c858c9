"""The scan by fused kernels agrees with the plain scan.

Where Triton is not installed, literal twins replace the kernels. `make test-kernels` runs the kernels themselves, by
Triton's interpreter on the processor.
"""

from importlib.util import find_spec

import numpy as np
import pair_kernels_reference
import pytest

from randsel._numerics.nuisance import Nuisance
from randsel._numerics.rank_functions import rank_functions
from randsel.interactions import _fused_tiles, _level_tables, _pair_scan
from randsel.interactions._design import Design, Response

torch = pytest.importorskip("torch")
HAS_TRITON = find_spec("triton") is not None


@pytest.fixture(autouse=True, scope="module")
def kernels():
    with pytest.MonkeyPatch.context() as patch:
        if not HAS_TRITON:
            patch.setattr(_fused_tiles, "_kernels", lambda: pair_kernels_reference)
            patch.setattr(_pair_scan, "can_fuse", lambda _: True)
        elif not torch.cuda.is_available():
            patch.setenv("TRITON_INTERPRET", "1")  # read when Triton is imported
        yield


DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def columns(rng, kind, m, n):
    if kind == "continuous":
        return rng.standard_normal((m, n))
    if kind == "snps":
        return rng.binomial(2, rng.uniform(0.1, 0.5, n), (m, n)).astype(float)
    if kind == "binary":
        return rng.integers(0, 2, (m, n)).astype(float)
    if kind == "counts":
        return rng.poisson(2.0, (m, n)).astype(float)
    return np.concatenate([columns(rng, one, m, n // 3) for one in ("continuous", "snps", "counts")], axis=1)


def outcome(rng, kind, m):
    Y = {"classes": rng.integers(0, 2, (m, 1)), "numbers": rng.standard_normal((m, 1))}.get(kind)
    Y = rng.standard_normal((m, 2)) if Y is None else Y.astype(float)
    return (Y - Y.mean(axis=0)) / Y.std(axis=0)


def scan(X, Y, n_functions, n_pairs, device, weights=None):
    m, n = X.shape
    nuisance = Nuisance.from_samples(m, weights, None)
    functions = rank_functions(X, n_functions, nuisance.weights, np.zeros(n, dtype=bool))
    design = Design(0.9 ** np.arange(n_functions), (Response(Y),), nuisance, device=device)
    return _pair_scan.scan_pairs(functions, design, Y, n_pairs)


@pytest.mark.parametrize("target", ["classes", "numbers", "two columns"])
@pytest.mark.parametrize(
    ("kind", "n_functions"), [("continuous", 3), ("snps", 2), ("binary", 2), ("counts", 4), ("mixed", 3)]
)
def test_fused_kernels_find_the_pairs_of_the_plain_scan(kind, n_functions, target):
    rng = np.random.default_rng(len(kind + target))
    X, Y = columns(rng, kind, 150, 30), outcome(rng, target, 150)
    expected, expected_log_p = scan(X, Y, n_functions, 40, None)
    pairs, log_p = scan(X, Y, n_functions, 40, DEVICE)
    found = dict(zip(map(tuple, pairs.tolist()), log_p.tolist(), strict=True))
    known = dict(zip(map(tuple, expected.tolist()), expected_log_p.tolist(), strict=True))
    assert tuple(pairs[0]) == tuple(expected[0])
    both = found.keys() & known.keys()
    assert len(both) >= 0.97 * len(known)
    for pair in both:
        assert found[pair] == pytest.approx(known[pair], rel=0.01, abs=0.01)


def test_weights_of_samples_are_those_of_the_plain_scan():
    rng = np.random.default_rng(3)
    X, Y, weights = columns(rng, "snps", 120, 12), outcome(rng, "numbers", 120), rng.uniform(0.5, 2.0, 120)
    expected, expected_log_p = scan(X, Y, 2, 20, None, weights)
    pairs, log_p = scan(X, Y, 2, 20, DEVICE, weights)
    assert (pairs[0] == expected[0]).all()
    assert log_p[:10] == pytest.approx(expected_log_p[:10], rel=0.02)


def test_counts_are_used_for_snps_and_two_classes_and_are_exact():
    rng = np.random.default_rng(1)
    X, Y = columns(rng, "snps", 150, 9), outcome(rng, "classes", 150)
    functions = rank_functions(X, 6, np.ones(150), np.zeros(9, dtype=bool))
    values = torch.as_tensor(functions.values, device=DEVICE)
    fused = _fused_tiles.FusedTiles.from_values(values, functions.counts, Y.T, np.ones(150))
    assert fused.levels is not None
    assert fused.levels.tables.discrete.all()
    weights = np.outer([1.0, 0.9], [1.0, 0.9])
    (best,) = fused.best_pairs(range(9), range(9), weights, True, 36, [0.0])
    assert len(best.pairs) == 36
    for (i, j), statistic in zip(best.pairs, best.statistics, strict=True):
        literal = 0.0
        for a in range(2):
            for b in range(2):
                product = functions.values[i, a].astype(float) * functions.values[j, b]
                if product.any():  # a feature may have one function only
                    literal += weights[a, b] * (Y[:, 0] @ product) ** 2 / 150 / np.mean(product**2)
        assert statistic == pytest.approx(literal, rel=1e-3, abs=1e-4)


def test_a_tile_with_more_pairs_than_fit_raises_its_threshold(monkeypatch):
    monkeypatch.setattr(_fused_tiles, "CAPACITY", 32)
    rng = np.random.default_rng(2)
    X, Y = columns(rng, "continuous", 100, 24), outcome(rng, "numbers", 100)
    expected, _ = scan(X, Y, 2, 8, None)
    pairs, _ = scan(X, Y, 2, 8, DEVICE)
    assert {tuple(pair) for pair in expected[:8]} == {tuple(pair) for pair in pairs[:8]}


def test_a_tile_with_too_few_pairs_lowers_its_threshold(monkeypatch):
    monkeypatch.setattr(_pair_scan, "EXPECTED", 1e-6)
    rng = np.random.default_rng(4)
    X, Y = columns(rng, "continuous", 100, 24), outcome(rng, "numbers", 100)
    expected, _ = scan(X, Y, 2, 8, None)
    pairs, _ = scan(X, Y, 2, 8, DEVICE)
    assert {tuple(pair) for pair in expected[:8]} == {tuple(pair) for pair in pairs[:8]}


def test_a_feature_of_more_than_three_levels_is_not_counted():
    functions = torch.tensor([[[-1.0, 0.0, 0.0, 1.0]], [[-1.0, 0.0, 0.5, 1.0]], [[-1.0, -1.0, 1.0, 1.0]]])
    masks, of_levels, is_discrete = _level_tables._find_levels(functions)
    assert is_discrete.tolist() == [True, False, True]
    assert of_levels[:, 0, 0].tolist() == [-1.0, 0.0, 1.0]
    assert [mask[2].tolist() for mask in masks] == [[True, True, False, False], [False] * 4, [False, False, True, True]]


def test_kernels_run_where_triton_is_installed(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert _fused_tiles.can_fuse("cuda") == HAS_TRITON
    assert not _fused_tiles.can_fuse("cpu")
