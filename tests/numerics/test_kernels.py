import itertools

import numpy as np
import pytest
import reference
from samples import make_sample, standardised
from sklearn.metrics.pairwise import rbf_kernel

from randsel._numerics import kernels
from randsel.contribution._sample import PairSums
from randsel.targets._kinds import CLASSES, KINDS, NUMBERS
from randsel.targets._target import Target


def test_gaussian_kernel_on_a_subset_of_columns(rng):
    X, Z = rng.normal(size=(9, 5)), rng.normal(size=(4, 5))
    columns = np.array([0, 3])
    np.testing.assert_allclose(kernels.gaussian_kernel(X, 0.7), rbf_kernel(X, gamma=0.7), atol=1e-14)
    np.testing.assert_allclose(
        kernels.gaussian_kernel(X, 0.7, columns=columns), reference.kernel(X[:, columns], 0.7), atol=1e-14
    )
    np.testing.assert_allclose(
        kernels.gaussian_kernel(X, 0.7, columns=columns, Z=Z),
        rbf_kernel(X[:, columns], Z[:, columns], gamma=0.7),
        atol=1e-14,
    )


def test_centring(rng):
    K = reference.kernel(rng.normal(size=(8, 3)), 0.5)
    np.testing.assert_allclose(kernels.centre_kernel(K), reference.centred(K), atol=1e-14)
    np.testing.assert_allclose(kernels.u_centre(K), reference.hollow(K), atol=1e-14)
    np.testing.assert_allclose(kernels.u_centre(K).sum(axis=0), 0, atol=1e-13)


def second_order(sums):
    """`Σ_j d²` and the bound on what it lacks, from the terms of log Q."""
    terms, lost = sums.log_terms(1.0, kernels.GAUSSIAN.series)
    return 8 * terms + 4 * kernels.distances_from_gram(sums.products), 8 * lost


@pytest.mark.parametrize("n", [3, 5000])
def test_pair_sums_are_sums_over_features_of_powers_of_differences(rng, n):
    X = rng.normal(size=(6, n))
    d = (X[:, None, :] - X[None, :, :]) ** 2
    sums = PairSums.from_columns(X)
    np.testing.assert_allclose(kernels.distances_from_gram(sums.products), d.sum(axis=2), atol=1e-9)
    terms, lost = sums.log_terms(0.3, kernels.GAUSSIAN.series)
    np.testing.assert_allclose(terms, -0.3 / 2 * d.sum(axis=2) + 0.3**2 / 8 * (d**2).sum(axis=2), atol=1e-8)
    assert lost == 0.0


@pytest.mark.parametrize("tails", [4, 30])
@pytest.mark.parametrize("correlated", [0.0, 0.9])
@pytest.mark.parametrize("n", [20, 700])
def test_sketch_of_squared_differences_is_within_its_bound(rng, n, tails, correlated):
    X = standardised(rng.standard_t(tails, (40, n)) + correlated * 3 * rng.normal(size=(40, 1)))
    exact, _ = second_order(PairSums.from_columns(X))
    known, bound = second_order(PairSums.from_columns(X, sketch=True))
    off = ~np.eye(40, dtype=bool)
    rest = np.linalg.norm((exact - known)[off])
    assert rest <= bound
    assert bound <= 4 * rest
    assert rest < 0.7 * np.linalg.norm((exact - exact[off].mean())[off])
    part = PairSums.from_columns(X, sketch=True).subtract_into(PairSums.from_columns(X[:, : n // 2], sketch=True))
    np.testing.assert_allclose(
        second_order(part)[0], second_order(PairSums.from_columns(X[:, n // 2 :], sketch=True))[0]
    )


@pytest.mark.parametrize("kept", [50, 3])
@pytest.mark.parametrize("sketch_rows", [4, 512])
def test_carried_sums_equal_sums_over_the_remaining_free_features(rng, kept, sketch_rows, monkeypatch):
    for name, value in (("SINGLE_ROWS", sketch_rows), ("SKETCH_ROWS", sketch_rows), ("SKETCH_RATIO", 0)):
        monkeypatch.setattr(f"randsel.contribution._sample.{name}", value)
    sample = make_sample(rng.normal(size=(12, 60)), rng.integers(0, 2, 12))
    before = sample.distances
    assert sample.sums.products.shape == (12, 12)
    keep = np.zeros(60, dtype=bool)
    keep[rng.permutation(60)[:kept]] = True
    fixed = np.zeros(kept, dtype=bool)
    fixed[0] = True
    after = sample.drop_features(np.flatnonzero(keep), np.flatnonzero(~keep), fixed, sample.sums)
    fresh = PairSums.from_columns(after.X[:, ~fixed], sketch=sketch_rows == 4)
    # with sketches, products are in single precision
    digits = 1e-4 if sketch_rows == 4 else 1e-10
    np.testing.assert_allclose(after.sums.products, fresh.products, atol=digits)
    np.testing.assert_allclose(second_order(after.sums)[0], second_order(fresh)[0], atol=100 * digits)
    np.testing.assert_allclose(after.distances, kernels.squared_distances(after.X), atol=digits)
    np.testing.assert_allclose(before, kernels.squared_distances(sample.X), atol=digits)


def test_median_bandwidth(rng):
    X = rng.normal(size=(15, 4))
    distances = kernels.squared_distances(X)
    expected = 1 / np.median([distances[p, q] for p in range(15) for q in range(p)])
    assert kernels.median_gamma(distances) == pytest.approx(expected)


def test_weighted_median_counts_a_pair_as_often_as_its_weights_say(rng):
    X = rng.normal(size=(8, 2))
    repeats = np.array([1, 3, 1, 1, 2, 1, 1, 1])
    repeated = kernels.squared_distances(np.repeat(X, repeats, axis=0))
    values = np.sort(repeated[np.triu_indices(len(repeated), 1)])
    values = values[values > 1e-12]
    middle = np.median(values)
    weighted = kernels.median_gamma(kernels.squared_distances(X), repeats.astype(float))
    assert weighted == pytest.approx(1 / middle)


def test_bandwidth_where_most_rows_are_equal():
    X = np.zeros((10, 1))
    X[0] = 2.0
    assert kernels.median_gamma(kernels.squared_distances(X)) == pytest.approx(0.25)
    assert kernels.median_gamma(np.zeros((10, 10))) == 1.0
    weights = np.arange(1.0, 11.0)
    assert kernels.median_gamma(kernels.squared_distances(X), weights) == pytest.approx(0.25)
    assert kernels.median_gamma(kernels.squared_distances(X), np.ones(10)) == pytest.approx(0.25)


def test_target_kernels(rng):
    binary, classes = rng.permutation([0, 0, 0, 1, 1, 1, 1]), np.array(list("aabbccc"))
    y, Y = rng.normal(size=7), rng.normal(size=(7, 3))
    signs = np.where(binary == 1, 1.0, -1.0)[:, None]
    one_hot = (classes[:, None] == np.unique(classes)).astype(float)
    for values, kind, factor in (
        (binary, "classification", signs),
        (classes, "classification", one_hot),
        (y, "regression", standardised(y)[:, None]),
        (Y, "regression", standardised(Y)),
    ):
        np.testing.assert_allclose(
            Target.encode(values, KINDS[kind]).kernel, reference.centred(factor @ factor.T), atol=1e-13, err_msg=kind
        )


def test_a_constant_output_beside_a_varying_one_counts_for_nothing(rng):
    y = rng.normal(size=7)
    both = np.column_stack([np.full(7, 0.1), y])
    np.testing.assert_allclose(Target.encode(both, NUMBERS).kernel, Target.encode(y, NUMBERS).kernel, atol=1e-14)


def test_pairs_are_counted_by_the_weights_of_the_rows_at_hand():
    weights = np.r_[50.0, np.ones(9)]
    target = Target.encode(np.arange(10) % 2, CLASSES, weights).rows(np.arange(4))
    w = target.weights
    assert target.n_pairs == pytest.approx(sum(w[p] * w[q] for p in range(4) for q in range(4) if p != q))


def test_weighted_target_is_centred_by_the_weighted_mean(rng):
    y, weights = rng.integers(0, 2, 9), rng.random(9) + 0.1
    target = Target.encode(y, CLASSES, weights)
    w = weights / weights.mean()
    signs = np.where(y == 1, 1.0, -1.0)[:, None]
    expected = reference.centred_target(signs, weights) * np.outer(w, w)
    np.testing.assert_allclose(target.kernel, expected, atol=1e-13)
    assert target.n_pairs == pytest.approx(np.outer(w, w).sum() - (w**2).sum())


@pytest.mark.parametrize("size", [4095, 4096, 5001, 40000])
def test_mean_of_neighbours_in_ascending_order(rng, size):
    for values in (
        rng.random(size),
        np.sort(rng.random(size)),
        rng.integers(0, 3, size) / 2,
        np.r_[np.zeros(size // 2), np.ones(size - size // 2)],
    ):
        for place in (size // 2, size // 2 + size // 20):
            assert kernels._mean_of_neighbours(values, place) == np.sort(values)[place - 1 : place + 1].mean()


@pytest.fixture
def pair(rng):
    X = rng.normal(size=(10, 3))
    Y = np.where(X[:, :1] > 0, 1.0, -1.0)
    return reference.kernel(X, 0.4), Y @ Y.T


def test_alignment_is_the_cosine_of_centred_kernels(pair):
    assert kernels.alignment(*pair) == pytest.approx(reference.alignment(*pair), abs=1e-14)


def test_unbiased_hsic_is_the_mean_product_of_u_centred_kernels(pair):
    K, L = pair
    m = len(K)
    product = np.vdot(kernels.u_centre(K), kernels.u_centre(L)) / (m * (m - 3))
    assert product == pytest.approx(reference.unbiased_hsic(K, L), abs=1e-14)


def test_unbiased_alignment_has_mean_zero_for_any_kernel(rng):
    """All 720 permutations of 6 rows: the mean is zero to rounding, that of the biased alignment is not."""
    X = rng.normal(size=(6, 2))
    L = np.outer(*[np.array([1.0, 1, 1, -1, -1, -1])] * 2)
    K = reference.kernel(X, 1.0)
    permuted = [K[np.ix_(p, p)] for p in itertools.permutations(range(6))]
    assert np.mean([kernels.unbiased_alignment(P.copy(), kernels.u_centre(L)) for P in permuted]) == pytest.approx(
        0, abs=1e-14
    )
    assert np.mean([kernels.alignment(P, L) for P in permuted]) > 0.1


def test_a_constant_kernel_aligns_with_nothing():
    L = np.outer([1.0, -1, 1, -1], [1.0, -1, 1, -1])
    assert kernels.alignment(np.ones((4, 4)), L) == 0.0
    assert kernels.unbiased_alignment(np.ones((4, 4)), kernels.u_centre(L)) == 0.0
