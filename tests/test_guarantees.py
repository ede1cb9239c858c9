import numpy as np
import pytest
from samples import unnormalised_bootstrap

from randsel import guarantees
from randsel.contribution._bootstrap import Draws
from randsel.contribution._closed_form import exact
from randsel.contribution._sample import Sample
from randsel.targets._target import Target

GAMMA = 1.0


def problem(rng, m, n_noise=1):
    """One informative feature, x = y + noise, among irrelevant ones; labels not centred, as the bounds assume."""
    y = rng.choice([-1.0, 1.0], m)
    X = rng.normal(size=(m, 1 + n_noise))
    X[:, 0] = y + 0.3 * rng.normal(size=m)
    return Sample.from_columns(X - X.mean(axis=0), Target(y[:, None], None))


@pytest.fixture(scope="module")
def eta():
    """The true contribution of the informative feature beside one and beside three irrelevant ones, less 2 %."""
    rng = np.random.default_rng(7)
    return {
        k: 0.98 * np.mean([exact(problem(rng, 1000, k), GAMMA, Draws()).total[0] for _ in range(3)]) for k in (1, 3)
    }


def test_exact_estimate_fails_less_often_than_stated(rng, eta):
    delta = 0.1
    m = guarantees.samples_needed(eta[1], delta)
    failures = [exact(problem(rng, m), GAMMA, Draws()).total[0] <= 0 for _ in range(100)]
    assert np.mean(failures) < delta


def test_bootstrap_estimate_fails_less_often_than_stated(rng, eta):
    delta = 0.2
    plan = guarantees.plan(eta[1], delta)
    assert plan.failure_probability <= delta
    failures = []
    for seed in range(15):
        draws = Draws(plan.n_bootstraps, subsample=8 / plan.n_samples, seed=seed)
        failures.append(unnormalised_bootstrap(problem(rng, plan.n_samples), GAMMA, draws).total[0] <= 0)
    assert np.mean(failures) < delta


def test_the_theorem_culling_removes_only_irrelevant_features(rng, eta):
    """With enough samples every irrelevant feature ranks below the influential one, so no cull can drop it."""
    delta = 0.1
    m = guarantees.samples_needed(eta[3], delta, n_features=4)
    wrong = 0
    for _ in range(10):
        total = exact(problem(rng, m, 3), GAMMA, Draws()).total
        wrong += total[0] <= total[1:].max()
    assert wrong / 10 < delta


@pytest.mark.parametrize("n_features", [None, 50])
def test_numbers_needed_are_minimal(n_features):
    options = {"n_influential": 3, "n_rounds": 12, "n_features": n_features}
    m = guarantees.samples_needed(0.2, 0.05, **options)
    assert guarantees.failure_probability(m, 0.2, **options) <= 0.05
    assert guarantees.failure_probability(m - 2, 0.2, **options) > 0.05
    plan = guarantees.plan(0.2, 0.05, **options)
    fewer = guarantees.failure_probability(plan.n_samples, 0.2, n_bootstraps=plan.n_bootstraps // 2, **options)
    assert plan.failure_probability <= 0.05 < fewer


def test_numbers_needed_are_monotone():
    needed = guarantees.samples_needed
    assert needed(0.1, 0.05) > needed(0.2, 0.05)
    assert needed(0.1, 0.01) > needed(0.1, 0.05)
    assert needed(0.1, 0.05, n_rounds=9) > needed(0.1, 0.05)
    assert needed(0.1, 0.05, n_features=9) > needed(0.1, 0.05, n_influential=9)
    assert guarantees.failure_probability(2, 0.01, n_rounds=2) == 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eta": 0}, "eta=0 must lie"),
        ({"eta": float("nan")}, "eta=nan must lie"),
        ({"eta": 0.51}, "eta=0.51 must lie above 0 and be at most 1/2, because no contribution is larger; take"),
        ({"delta": 1.0}, "delta=1.0 must lie"),
        ({"share": 0.0}, "share=0.0 must lie"),
        ({"n_rounds": 0}, "n_rounds=0 must be at least 1"),
        ({"n_influential": 5, "n_features": 4}, "at least n_influential=5"),
    ],
)
def test_invalid_parameters_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        guarantees.samples_needed(**{"eta": 0.1, "delta": 0.1, **options})


def test_a_contribution_above_one_half_is_impossible():
    for function in (guarantees.plan, guarantees.samples_needed, guarantees.bootstraps_needed):
        with pytest.raises(ValueError, match=r"eta=0\.9 must lie above 0 and be at most 1/2"):
            function(0.9, 0.05)
    with pytest.raises(ValueError, match="at most 1/2"):
        guarantees.failure_probability(100, 0.9)
    assert guarantees.plan(0.5, 0.05).n_samples > 0
