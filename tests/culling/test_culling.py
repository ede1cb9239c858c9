import numpy as np
import pytest
from samples import make_sample

from randsel._numerics.kernels import median_factor, null_scale, u_centre, unbiased_alignment
from randsel.contribution._bootstrap import Draws
from randsel.contribution._closed_form import exact
from randsel.contribution._sample import Contribution
from randsel.culling._path import Chance, path_sizes
from randsel.culling._rounds import CRITERIA, CullingState, Rules, cull
from randsel.culling._storage import path_to_arrays, restore_path


@pytest.fixture
def sample(rng):
    X = rng.uniform(-1, 1, (300, 20))
    return make_sample(X, (X[:, 0] * X[:, 1] > 0).astype(int))


def culled(sample, criterion, estimator, rules):
    draws = Draws()
    return cull(CullingState.start(sample, draws), CRITERIA[criterion], estimator, rules, draws)


def by_value(sample, gamma, draws, weighting):
    """A contribution that is written in the data: the largest value of the column."""
    return Contribution(sample.X.max(axis=0), 0.0)


def test_drops_the_floor_of_the_fraction_but_at_least_one(sample):
    path = cull(
        CullingState.start(sample, Draws()), CRITERIA["calibrated"], exact, Rules(drop=0.25, min_features=2), Draws()
    )
    assert [len(r.features) for r in path.rounds] == [20, 15, 12, 9, 7, 6, 5, 4, 3, 2]
    assert path_sizes(20) == [20, 15, 12, 9, 7, 6, 5, 4, 3, 2, 1]
    assert path_sizes(5, 0.9, 2) == [5, 2]
    assert path_sizes(1) == [1]
    assert set(path.rounds[-1].features) == {0, 1}
    assert len(path.rounds[-1].dropped) == 0


def test_every_round_drops_the_worst_and_the_order_is_complete(sample):
    path = culled(sample, "total", by_value, Rules())
    assert sorted(path.order) == list(range(20))
    for r in path.rounds[:-1]:
        left = np.setdiff1d(r.features, r.dropped)
        assert r.scores[np.isin(r.features, r.dropped)].max() <= r.scores[np.isin(r.features, left)].min()
    values = sample.X.max(axis=0)
    assert list(path.order) == sorted(range(20), key=lambda j: -values[j])


def test_a_feature_at_the_top_long_enough_is_fixed_and_never_dropped(sample):
    path = cull(
        CullingState.start(sample, Draws()), CRITERIA["calibrated"], exact, Rules(fix_top=0.2, fix_after=3), Draws()
    )
    assert set(path.fixed) >= {0, 1}
    assert len(path.rounds[0].fixed) == len(path.rounds[1].fixed) == 0
    assert set(path.rounds[2].fixed) >= {0, 1}
    assert all({0, 1} <= set(r.features.tolist()) for r in path.rounds)


def test_a_streak_must_be_consecutive(sample):
    turn = iter(range(100))

    def alternating(part, gamma, draws, weighting):
        order = np.arange(part.X.shape[1], dtype=float)
        return Contribution(order if next(turn) % 2 else -order, 0.0)

    path = cull(
        CullingState.start(sample, Draws()),
        CRITERIA["total"],
        alternating,
        Rules(min_features=2, fix_top=0.1, fix_after=2),
        Draws(),
    )
    assert len(path.fixed) == 0


def test_stops_when_all_that_is_left_is_fixed(sample):
    path = cull(
        CullingState.start(sample, Draws()),
        CRITERIA["total"],
        by_value,
        Rules(fix_top=0.5, fix_after=1, drop=0.5),
        Draws(),
    )
    assert len(path.rounds) == 2
    assert len(path.rounds[-1].features) == 10
    assert len(path.fixed) == 10


def test_values_of_the_last_round_lived(sample):
    path = culled(sample, "calibrated", exact, Rules())
    values = path.last_values("contributions", 22)
    first_dropped = path.rounds[0].dropped[0]
    assert values[first_dropped] == path.rounds[0].contributions[first_dropped]
    assert values[0] == path.rounds[-1].contributions[0]
    assert values[20] == values[21] == 0.0


def test_path_as_a_frame(sample):
    path = culled(sample, "calibrated", exact, Rules())
    frame = path.to_frame()
    assert len(frame) == sum(len(r.features) for r in path.rounds)
    assert frame[frame["dropped"]]["feature"].is_unique
    assert frame["round"].max() == len(path.rounds) - 1


def test_multiples_of_the_median():
    assert median_factor("median") == 1.0
    assert median_factor(" 0.5*median ") == 0.5
    assert median_factor("4 * median") == 4.0
    for wrong in ("mean", "median*2", "-1*median", "0*median", "e*median", "inf*median"):
        with pytest.raises(ValueError, match="neither a positive number nor 'median'"):
            median_factor(wrong)


def test_chance_alignment_is_what_selecting_noise_reaches(rng):
    """Best 10 of 400 noise features by main effect: the linear kernel on them aligns as predicted, within a fifth."""
    m, n, k = 150, 400, 10
    y = np.repeat([-1.0, 1.0], m // 2)
    reached = []
    for _ in range(20):
        X = rng.normal(size=(m, n))
        best = np.argsort(-np.abs(y @ X))[:k]
        reached.append(unbiased_alignment(X[:, best] @ X[:, best].T, u_centre(np.outer(y, y))))
    chance = Chance.from_target(y[:, None], n, 1 / null_scale(m)).alignments
    assert chance[k - 1] == pytest.approx(np.mean(reached), rel=0.2)
    assert abs(chance[-1]) < 0.02


def test_residual_approaches_total_as_the_penalty_grows(sample):
    weak = culled(sample, "residual", exact, Rules(ridge=1e8))
    np.testing.assert_array_equal(weak.order, culled(sample, "total", exact, Rules()).order)


def test_combined_scores_put_both_parts_on_the_scale_of_their_spread():
    rng = np.random.default_rng(0)
    total, interaction = rng.normal(size=101), 3.0 + 5.0 * rng.normal(size=101)
    interaction[7] = 90.0
    scores, ties = CRITERIA["combined"].scores(Contribution(total, 0.0, total, interaction, ridge=3.0))

    def spread(values):
        return 1.4826 * np.median(np.abs(values - np.median(values)))

    expected = (total - np.median(total)) / spread(total)
    expected += np.maximum(interaction - np.median(interaction), 0.0) / spread(interaction)
    np.testing.assert_allclose(scores, expected)
    assert int(np.argmax(scores)) == 7
    assert ties is total


def test_combined_scores_of_equal_contributions_are_finite():
    for ridge in (3.0, np.inf):
        scores, _ = CRITERIA["combined"].scores(Contribution(np.zeros(5), 0.0, np.zeros(5), np.zeros(5), ridge=ridge))
        assert np.isfinite(scores).all()


@pytest.mark.parametrize("error", [np.nan, np.inf, -1.0])
def test_a_file_with_impossible_errors_is_refused(sample, error):
    arrays = {name: np.asarray(v) for name, v in path_to_arrays(culled(sample, "combined", exact, Rules())).items()}
    restored = restore_path(arrays, 20)
    assert restored.best == culled(sample, "combined", exact, Rules()).best
    arrays["errors"][3] = error
    with pytest.raises(ValueError, match="do not describe a culling path"):
        restore_path(arrays, 20)
    with pytest.raises(ValueError, match="do not describe a culling path"):
        restore_path(arrays | {"errors": np.zeros(0)}, 20)
