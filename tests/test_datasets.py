import numpy as np
import pytest

from randsel import datasets


@pytest.mark.parametrize(
    ("make", "options", "k"),
    [
        (datasets.make_xor, {}, 2),
        (datasets.make_weston_linear, {}, 5),
        (datasets.make_weston_linear, {"n_relevant": 6}, 6),
        (datasets.make_weston_nonlinear, {}, 2),
        (datasets.make_weston_nonlinear, {"n_relevant": 5}, 5),
    ],
)
def test_shapes_seeds_and_truth(make, options, k):
    X, y, relevant = make(50, 12, random_state=3, **options)
    assert X.shape == (50, 12)
    assert set(y) == {-1, 1}
    assert list(relevant) == list(range(k))
    again, _, _ = make(50, 12, random_state=3, **options)
    other, _, _ = make(50, 12, random_state=4, **options)
    assert np.array_equal(X, again)
    assert not np.array_equal(X, other)
    with pytest.raises(ValueError, match="n_features=1 must be at least"):
        make(50, 1, **options)


def test_xor_is_a_pure_interaction():
    X, y, _ = datasets.make_xor(20_000, 3, random_state=0)
    assert np.abs(np.corrcoef(X.T, y)[-1, :-1]).max() < 0.03
    assert np.array_equal(y, np.where(X[:, 0] * X[:, 1] > 0, 1, -1))
    _, flipped, _ = datasets.make_xor(20_000, 3, noise=0.2, random_state=0)
    assert np.mean(flipped != y) == pytest.approx(0.2, abs=0.02)


def test_weston_linear_has_the_stated_moments():
    X, y, _ = datasets.make_weston_linear(40_000, 8, n_relevant=6, random_state=0)
    means = (X * y[:, None]).mean(axis=0)
    np.testing.assert_allclose(means[:6], [0.7, 1.4, 2.1, 0.3, 0.6, 0.9], atol=0.05)
    assert X[:, 7].var() == pytest.approx(20, rel=0.05)
    X, _, _ = datasets.make_weston_linear(40_000, 8, noise_is="sd", random_state=0)
    assert X[:, 7].std() == pytest.approx(20, rel=0.05)


def test_weston_nonlinear_has_no_difference_of_means():
    for k in (2, 5):
        X, y, _ = datasets.make_weston_nonlinear(40_000, 6, n_relevant=k, random_state=0)
        assert np.abs(X[y > 0, :k].mean(axis=0) - X[y < 0, :k].mean(axis=0)).max() < 0.15
    assert np.all((X[y > 0, :5] ** 2).mean(axis=0) > 3 * (X[y < 0, :5] ** 2).mean(axis=0))


@pytest.mark.parametrize("kind", datasets.PASSEMIERS)
def test_passemiers_is_balanced_and_follows_its_columns(kind):
    X, y, relevant = datasets.make_passemiers(kind, 4000, 16, random_state=1)
    assert X.min() >= -1
    assert X.max() <= 1
    assert len(relevant) == datasets.PASSEMIERS[kind]
    assert y.mean() == pytest.approx(0.5, abs=0.04)
    straight, same, first = datasets.make_passemiers(kind, 4000, 16, shuffle=False, random_state=1)
    assert np.array_equal(y, same)
    assert {tuple(column) for column in X[:5, relevant].T} == {tuple(column) for column in straight[:5, first].T}


@pytest.mark.parametrize(
    "call",
    [
        lambda: datasets.make_passemiers("sum"),
        lambda: datasets.make_weston_linear(n_relevant=3),
        lambda: datasets.make_weston_nonlinear(n_relevant=3),
        lambda: datasets.make_weston_linear(noise_is="range"),
    ],
)
def test_unknown_choices_name_the_known_ones(call):
    with pytest.raises(ValueError, match=r"must be|'variance' or an 'sd'"):
        call()
