import itertools

import numpy as np
import pytest
import reference

from randsel._numerics import alignment
from randsel._numerics.kernels import hollow_centre


@pytest.fixture
def pair(rng):
    X = rng.normal(size=(10, 3))
    Y = np.where(X[:, :1] > 0, 1.0, -1.0)
    return reference.kernel(X, 0.4), Y @ Y.T


def test_alignment_is_the_cosine_of_centred_kernels(pair):
    assert alignment.alignment(*pair) == pytest.approx(reference.alignment(*pair), abs=1e-14)


def test_hsic(pair):
    K, L = pair
    m = len(K)
    H = np.eye(m) - 1 / m
    assert alignment.hsic(K, L) == pytest.approx(np.trace(K @ H @ L @ H) / (m - 1) ** 2)
    assert alignment.unbiased_hsic(K, L) == pytest.approx(reference.unbiased_hsic(K, L), abs=1e-14)


def test_unbiased_alignment_has_mean_zero_for_any_kernel(rng):
    """All 720 permutations of 6 rows: the mean is zero to rounding, that of the biased alignment is not."""
    X = rng.normal(size=(6, 2))
    L = np.outer(*[np.array([1.0, 1, 1, -1, -1, -1])] * 2)
    K = reference.kernel(X, 1.0)
    permuted = [K[np.ix_(p, p)] for p in itertools.permutations(range(6))]
    assert np.mean([alignment.unbiased_alignment(P.copy(), hollow_centre(L)) for P in permuted]) == pytest.approx(
        0, abs=1e-14
    )
    assert np.mean([alignment.alignment(P, L) for P in permuted]) > 0.1


def test_a_constant_kernel_aligns_with_nothing():
    L = np.outer([1.0, -1, 1, -1], [1.0, -1, 1, -1])
    assert alignment.alignment(np.ones((4, 4)), L) == 0.0
    assert alignment.unbiased_alignment(np.ones((4, 4)), hollow_centre(L)) == 0.0


def test_chance_alignment_is_what_selecting_noise_reaches(rng):
    """Best 10 of 400 noise features by main effect: the linear kernel on them aligns as predicted, within a fifth."""
    m, n, k = 150, 400, 10
    y = np.repeat([-1.0, 1.0], m // 2)
    reached = []
    for _ in range(20):
        X = rng.normal(size=(m, n))
        best = np.argsort(-np.abs(y @ X))[:k]
        reached.append(alignment.unbiased_alignment(X[:, best] @ X[:, best].T, hollow_centre(np.outer(y, y))))
    chance = alignment.Chance.of(y[:, None], n, 1 / alignment.null_scale(m)).alignments
    assert chance[k - 1] == pytest.approx(np.mean(reached), rel=0.2)
    assert abs(chance[-1]) < 0.02
