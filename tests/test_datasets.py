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


def test_weston_nonlinear_classes_have_equal_means():
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
def test_error_messages_list_the_valid_choices(call):
    with pytest.raises(ValueError, match=r"must be|'variance' or an 'sd'"):
        call()


def test_black_box_is_a_linear_map_of_digits_with_most_labels_hidden():
    box = datasets.make_black_box(90, 300, random_state=0)
    assert box.X.shape == (90, 1875)
    assert box.held_out.shape == (300, 1875)
    assert len(box.X) + len(box.held_out) + len(box.unlabelled) == 1797 - 181
    assert np.bincount(box.y).tolist() == [0, *[10] * 9]
    assert np.bincount(box.held_out_y)[1:].min() >= 32
    everything = np.vstack([box.X, box.unlabelled, box.held_out])
    # the map is linear: no more dimensions than pixels that vary
    values = np.linalg.svd(everything[:, :200], compute_uv=False)
    assert values[64] < 1e-9 * values[0]
    assert everything.std(axis=0).max() > 20 * everything.std(axis=0).min()
    # no row is there twice: what is held out was not seen
    assert len(np.unique(np.round(everything[:, :5], 6), axis=0)) == len(everything)


def test_black_box_depends_on_its_seed_and_separates_digits():
    box, again, other = (datasets.make_black_box(180, 600, 300, random_state=seed) for seed in (1, 1, 2))
    assert np.array_equal(box.held_out, again.held_out)
    assert not np.array_equal(box.X, other.X)
    nearest = np.argmin(((box.held_out[:, None] - box.X[None]) ** 2).sum(axis=2), axis=1)
    assert np.mean(box.y[nearest] == box.held_out_y) > 0.8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"left_out": 10}, "must be a digit"),
        ({"n_labelled": 8}, "at least 9 labelled"),
        ({"n_held_out": 0}, "held-out row"),
        ({"n_labelled": 1000, "n_held_out": 900}, "at most 1566 labelled"),
        ({"n_features": 0}, "1 feature are needed"),
    ],
)
def test_black_box_refuses_impossible_sizes(options, message):
    with pytest.raises(ValueError, match=message):
        datasets.make_black_box(**options)
