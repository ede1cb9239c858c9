import numpy as np
import pytest
import reference
from samples import make_sample, standardised, unnormalised_bootstrap

from randsel.contribution._bootstrap import BATCH, Draws, alignments, bootstrap, draw_subsets
from randsel.contribution._closed_form import exact
from randsel.contribution._sample import Sample
from randsel.targets._kinds import CLASSES, NUMBERS
from randsel.targets._target import Target


def list_draws(sample, size, kind, draws):
    """Return every draw of one kind as (columns, rows)."""
    pairs = []
    for batch in range(-(-draws.n_bootstraps // BATCH)):
        columns, rows = draw_subsets(sample, size, (kind, batch), draws)
        pairs += list(zip(columns, rows, strict=True))
    return pairs


@pytest.mark.parametrize("kind", ["binary", "multi-class", "regression"])
def test_bootstrap_agrees_with_the_paper_draw_for_draw(rng, kind):
    X = standardised(rng.normal(size=(40, 11)))
    y = {"binary": np.arange(40) % 2, "multi-class": np.arange(40) % 3, "regression": rng.normal(size=40)}[kind]
    sample = Sample.from_columns(X, Target.encode(y, NUMBERS if kind == "regression" else CLASSES))
    draws = Draws(n_bootstraps=70, subsample=0.3, seed=5)
    smaller, larger = list_draws(sample, 5, 0, draws), list_draws(sample, 6, 1, draws)
    assert len(smaller) == len(larger) == 70
    assert {len(rows) for _, rows in smaller} == {12}
    for columns, rows in smaller + larger:
        assert len(set(columns)) == len(columns)
        assert len(set(rows)) == len(rows)
        value, _ = alignments(sample, 0.1, columns[None], rows[None])
        assert value[0] == pytest.approx(reference.draw_value(X, sample.target.Y, 0.1, columns, rows), rel=1e-10)
    expected = reference.algorithm_1(X, sample.target.Y, 0.1, smaller, larger)
    np.testing.assert_allclose(bootstrap(sample, 0.1, draws).total, expected, rtol=1e-6, atol=1e-14)


def test_fixed_features_are_in_every_draw(rng):
    fixed = np.array([False, False, True, False, False])
    sample = make_sample(rng.normal(size=(20, 5)), np.arange(20) % 2, fixed=fixed)
    free = np.flatnonzero(~fixed)
    columns, rows = draw_subsets(sample, 2, (0, 0), Draws(n_bootstraps=4))
    values, _ = alignments(sample, 0.2, columns, rows)
    for value, drawn_columns, drawn_rows in zip(values, columns, rows, strict=True):
        with_fixed = np.append(free[drawn_columns], 2)
        expected = reference.draw_value(sample.X, sample.target.Y, 0.2, with_fixed, drawn_rows)
        assert value == pytest.approx(expected)
    result = bootstrap(sample, 0.2, Draws(n_bootstraps=40))
    assert np.isfinite(result.total).all()


def test_unnormalised_bootstrap_converges_to_the_definition(rng):
    """60 independent repetitions; their mean is within 6 standard errors of the limit.

    For each of 6 features the chance of a miss is that of |t| > 6 with 59 degrees of freedom, 1e-7: 1e-6 in all.
    """
    X = standardised(rng.normal(size=(12, 6)))
    y = np.where(X[:, 0] * X[:, 1] > 0, 1, 0)
    sample = Sample.from_columns(X, Target.encode(y, CLASSES))
    limit = reference.fixed_size_contributions(X, sample.target.kernel, 0.3)
    draws = [Draws(n_bootstraps=200, subsample=0.5, seed=seed) for seed in range(60)]
    values = np.array([unnormalised_bootstrap(sample, 0.3, d).total for d in draws])
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    assert np.all(np.abs(values.mean(axis=0) - limit) < 6 * error)
    assert error.max() < 0.1 * np.abs(limit).max()


def test_closed_form_is_the_limit_of_random_subsets(rng):
    """40 000 subsets, each feature in with probability ½; 6 standard errors, normal tail 2e-9 per feature."""
    X = standardised(rng.normal(size=(10, 5)))
    sample = Sample.from_columns(X, Target.encode(np.arange(10) % 2, CLASSES))
    off = sample.target.kernel * ~np.eye(10, dtype=bool) / 90
    z = np.exp(-0.3 * (X[:, None, :] - X[None, :, :]) ** 2)
    inside = rng.random((40_000, 5)) < 0.5
    logs = np.log(z).reshape(100, 5)
    values = np.exp(inside @ logs.T) @ off.ravel()
    total = exact(sample, 0.3, Draws()).total
    for j in range(5):
        a, b = values[inside[:, j]], values[~inside[:, j]]
        error = np.sqrt(a.var() / len(a) + b.var() / len(b))
        assert abs(a.mean() - b.mean() - total[j]) < 6 * error


def test_rows_are_drawn_by_their_weights(rng):
    weights = np.r_[np.full(20, 1.0), np.full(20, 4.0)]
    sample = make_sample(rng.normal(size=(40, 4)), np.arange(40) % 2, weights=weights)
    rows = np.concatenate([draw_subsets(sample, 2, (0, batch), Draws(320, 0.1))[1].ravel() for batch in range(10)])
    assert np.mean(rows >= 20) == pytest.approx(0.8, abs=0.05)


def test_a_feature_in_no_draw_is_neutral_and_a_warning_names_the_remedy(rng):
    sample = make_sample(rng.normal(size=(16, 40)), np.arange(16) % 2)
    with pytest.warns(UserWarning, match="raise n_bootstraps"):
        result = bootstrap(sample, 0.05, Draws(n_bootstraps=2))
    columns, _ = draw_subsets(sample, 21, (1, 0), Draws(n_bootstraps=2))
    uncovered = np.setdiff1d(np.arange(40), columns)
    assert len(uncovered)
    assert np.isfinite(result.total).all()


def test_bootstrap_refuses_a_bandwidth_whose_kernel_is_the_identity(rng):
    sample = make_sample(rng.normal(size=(12, 4)), np.arange(12) % 2)
    with pytest.raises(ValueError, match="use gamma='median'"):
        bootstrap(sample, 1e30, Draws(n_bootstraps=8))


def test_a_single_feature_has_finite_contributions(rng):
    sample = make_sample(rng.normal(size=(12, 1)), np.arange(12) % 2)
    assert np.isfinite(bootstrap(sample, 0.5, Draws(n_bootstraps=8)).total).all()
    assert np.isfinite(exact(sample, 0.5, Draws()).interaction).all()
