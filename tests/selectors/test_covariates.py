"""Covariates and batches: what they explain is removed from features and outcome."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_validate
from sklearn.pipeline import make_pipeline
from tests.support import reference

from randsel import InteractionScan, RandSel, RandSelCV
from randsel._numerics.nuisance import Covariates, Nuisance


def make_confounded(seed, m=150, n=1000, n_driven=200, effect=0.7):
    """Outcome and the first features depend on age; the last five act on the outcome given age.

    The sizes are those of docs/results/outcomes.md, whose figures are the source of thresholds below: a threshold is
    three standard errors of as many data sets as the test has from the figure of the page.
    """
    rng = np.random.default_rng(seed)
    age = rng.uniform(20.0, 80.0, m)
    z = (age - 50.0) / 17.3
    X = rng.normal(size=(m, n))
    X[:, :n_driven] += z[:, None]
    relevant = np.arange(n - 5, n)
    return X, z + effect * X[:, relevant].sum(axis=1) + rng.normal(size=m), age, relevant


# ---------------------------------------------------------------- the projection


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("with_strata", [False, True])
def test_the_projection_is_that_of_weighted_least_squares(rng, weighted, with_strata):
    m = 40
    weights = rng.uniform(0.5, 2.0, m) if weighted else None
    strata = rng.integers(0, 3, m) if with_strata else None
    covariates = Covariates(rng.normal(size=(m, 2)), ("a", "b"), np.array([True, False]))
    nuisance = Nuisance.from_samples(m, weights, strata, covariates)
    rows = rng.normal(size=(5, m))
    expected = reference.residuals(rows, weights, strata, covariates.functions())
    assert np.allclose(nuisance.remove(rows), expected)
    columns = rows.T.copy()
    left = nuisance.remove_from_columns(columns, rescale=False)
    assert np.allclose(columns.T, expected)
    mass = np.ones(m) if weights is None else weights
    assert np.allclose(left, (expected**2 @ mass) / (rows**2 @ mass))


def test_repeated_and_constant_covariates_add_nothing(rng):
    values = rng.normal(size=(30, 1))
    twice = Covariates(np.column_stack([values, values, np.ones(30)]), ("a", "b", "c"), np.zeros(3, dtype=bool))
    assert Nuisance.from_samples(30, None, None, twice).rank == 2


# ---------------------------------------------------------------- selection and tests


@pytest.mark.slow
def test_features_that_follow_a_covariate_do_not_lead():
    recalls, follow_age = {"adjusted": [], "not adjusted": []}, {"adjusted": [], "not adjusted": []}
    for seed in range(6):
        X, y, age, relevant = make_confounded(seed)
        for name, given in (("adjusted", {"covariates": age}), ("not adjusted", {})):
            selector = RandSel(5).fit(X, y, **given)
            recalls[name].append(selector.support_[relevant].mean())
            follow_age[name].append(selector.support_[:200].sum() / 5)
            assert selector.stands_out_
    # page: recall .93 and .61, standard deviations of a data set .09 and .18; .04 and .34 follow age, .09 and .13
    assert np.mean(recalls["adjusted"]) >= 0.82
    assert np.mean(recalls["not adjusted"]) <= 0.83
    assert np.mean(follow_age["adjusted"]) <= 0.15
    assert np.mean(follow_age["not adjusted"]) >= 0.18


@pytest.mark.slow
def test_features_that_follow_a_batch_do_not_lead():
    recalls, follow_batch = [], []
    for seed in range(6):
        rng = np.random.default_rng([3, seed])
        batch = rng.choice(3, size=150, p=(0.2, 0.3, 0.5))
        shift = np.array([1.5, -1.5, 0.3])[batch]
        X = rng.normal(size=(150, 1000))
        X[:, :200] += shift[:, None]
        y = shift + 0.7 * X[:, -5:].sum(axis=1) + rng.normal(size=150)
        selector = RandSel(5).fit(X, y, batch=batch)
        recalls.append(selector.support_[-5:].mean())
        follow_batch.append((selector.support_[:200].sum() - RandSel(5).fit(X, y).support_[:200].sum()) / 5)
    # page: recall .92, standard deviation of a data set .13; .02 follow the batch, .30 if not adjusted, .10 of both
    assert np.mean(recalls) >= 0.76
    assert np.mean(follow_batch) <= -0.16


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_pvalues_given_a_covariate_are_those_of_noise_and_of_effects(kind):
    X, y, age, relevant = make_confounded(1)
    if kind == "classes":
        y = (y > np.median(y)).astype(int)
    p = InteractionScan(order=1).fit(X, y, covariates=pd.DataFrame({"age": age})).main_pvalues_
    # Three standard deviations of the fraction among 200 and 795 independent features without an effect given age.
    assert abs((p[:200] < 0.05).mean() - 0.05) <= 0.047
    assert abs((p[200:995] < 0.05).mean() - 0.05) <= 0.024
    # Their partial correlation is .38, which has p = 1e-6; as classes about a third of the information is lost.
    assert np.median(p[relevant]) < (1e-4 if kind == "numbers" else 1e-2)
    # Without age, features that follow it have a correlation of .33.
    assert (InteractionScan(order=1).fit(X, y).main_pvalues_[:200] < 0.05).mean() > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("curve", ["linear", "quadratic", "sigmoid"])
@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_family_wise_error_given_a_covariate(kind, curve):
    alarms = 0
    for seed in range(40):
        rng = np.random.default_rng([7, seed])
        age = rng.normal(size=150)
        driven = {"linear": age, "quadratic": age**2, "sigmoid": np.tanh(2.0 * age)}[curve]
        X = rng.normal(size=(150, 1000))
        X[:, :200] += driven[:, None]
        y = driven + rng.normal(size=150)
        y = y if kind == "numbers" else (y > np.median(y)).astype(int)
        p = InteractionScan(order=1).fit(X, y, covariates=age).main_pvalues_
        alarms += p.min() * 1000 <= 0.05
    assert alarms <= 6  # binomial: 7 of 40 or more have a probability of 0.003 at 0.05


@pytest.mark.parametrize("estimator", ["exact", "bootstrap"])
def test_batches_act_in_the_culling(rng, estimator):
    batch = np.repeat([0, 1], 60)
    X = rng.normal(size=(120, 40))
    X[:, :10] += 3.0 * batch[:, None]
    y = 2.0 * batch + X[:, 20] + rng.normal(size=120)
    how = {"estimator": estimator, "n_bootstraps": 300, "random_state": 0}
    assert np.sum(RandSel(3, **how).fit(X, y).order_[:3] < 10) >= 2
    adjusted = RandSel(3, **how).fit(X, y, batch=batch)
    assert adjusted.order_[0] == 20
    assert not (adjusted.main_scores_[:10] > 3.0).any()


def test_removing_a_covariate_is_fitting_the_residuals(rng):
    """With z-scores of residuals and an indicator as covariate, the fit is that of centred residuals."""
    sex = rng.integers(0, 2, 80).astype(str)
    X = rng.normal(size=(80, 12)) + 2.0 * (sex == "1")[:, None]
    y = X[:, 3] + (sex == "1")
    residual = LinearRegression().fit((sex == "1")[:, None], np.column_stack([X, y]))
    left = np.column_stack([X, y]) - residual.predict((sex == "1")[:, None])
    by_covariate = RandSel(scale=True).fit(X, y, covariates=sex)
    by_hand = RandSel(scale=True).fit(left[:, :-1], left[:, -1])
    assert np.array_equal(by_covariate.order_, by_hand.order_)
    assert np.allclose(by_covariate.contributions_, by_hand.contributions_)


@pytest.mark.slow
def test_rank_kernel_row_blocks_and_weights(rng):
    X, y, age, _ = make_confounded(2, m=200, n=40, n_driven=10, effect=0.0)
    y += X[:, 30]
    assert RandSel(1, kernel="rank").fit(X, y, covariates=age).order_[0] == 30
    assert RandSel(1).fit(X, y, rng.uniform(0.5, 2.0, 200), covariates=age).order_[0] == 30
    tall = np.tile(X, (11, 1)) + 0.1 * rng.normal(size=(2200, 40))
    assert RandSel(1, random_state=0).fit(tall, np.tile(y, 11), covariates=np.tile(age, 11)).order_[0] == 30


def test_covariates_of_groups_and_mixed_types(rng):
    donors = np.repeat(np.arange(30), 3)
    frame = pd.DataFrame({"age": np.repeat(rng.normal(size=30), 3), "sex": np.where(donors % 2, "f", "m")})
    X = rng.normal(size=(90, 20)) + frame["age"].to_numpy()[:, None]
    y = np.repeat(rng.normal(size=30), 3) + 2.0 * frame["age"].to_numpy()
    scan = InteractionScan(order=1).fit(X, y, groups=donors, covariates=frame)
    assert scan.comparison_ == "between groups"
    assert (scan.main_pvalues_ < 0.01).mean() <= 0.1
    by_age_and_sex, by_sex_and_age = (
        RandSel(3).fit(X, y, covariates=frame[list(c)]) for c in (frame, frame.columns[::-1])
    )
    assert by_age_and_sex.order_.tolist() == by_sex_and_age.order_.tolist()


# ---------------------------------------------------------------- routing


def test_metadata_reach_the_selector_through_a_pipeline():
    X, y, age, _ = make_confounded(3, n=300, n_driven=60)
    y = (y > np.median(y)).astype(int)
    batch = np.arange(len(y)) % 3
    with sklearn.config_context(enable_metadata_routing=True):
        selector = RandSel(5).set_fit_request(covariates=True, batch=True)
        pipeline = make_pipeline(selector, LogisticRegression())
        params = {"covariates": age, "batch": batch}
        folds = list(StratifiedKFold(3).split(X, y))
        results = cross_validate(pipeline, X, y, cv=folds, params=params, return_estimator=True)
    for (train, _), fitted in zip(folds, results["estimator"], strict=True):
        direct = RandSel(5).fit(X[train], y[train], covariates=age[train], batch=batch[train])
        assert np.array_equal(fitted[0].order_, direct.order_)
        assert not np.array_equal(fitted[0].order_, RandSel(5).fit(X[train], y[train]).order_)


def test_cross_validation_passes_covariates_on():
    X, y, age, relevant = make_confounded(4, n=150, n_driven=60, effect=1.0)
    selector = RandSelCV(cv=3, gammas=["median"]).fit(X, y, covariates=age, batch=np.arange(len(y)) % 2)
    direct = RandSel(selector.n_features_).fit(X, y, covariates=age, batch=np.arange(len(y)) % 2)
    assert np.array_equal(selector.order_, direct.order_)
    assert np.isin(relevant, selector.order_[:8]).all()


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize("estimator", [RandSel(2), InteractionScan()])
def test_bad_covariates_are_refused(rng, estimator):
    X, y = rng.normal(size=(40, 5)), rng.normal(size=40)
    with pytest.raises(ValueError, match=r"one row per sample \(40\), .* \(39,\); pass one value per row of X"):
        estimator.fit(X, y, covariates=np.ones(39))
    with pytest.raises(ValueError, match="Columns of covariates share the name 'age'; rename them"):
        estimator.fit(X, y, covariates=pd.DataFrame(rng.normal(size=(40, 2)), columns=["age", "age"]))
    gap = pd.array([None if i == 7 else f"site {i % 3}" for i in range(40)], dtype="string")
    with pytest.raises(ValueError, match="'site' is missing in row 7; fill it in, or drop the sample"):
        estimator.fit(X, y, covariates=pd.DataFrame({"site": gap}))
    with pytest.raises(ValueError, match="'age' is missing in row 7"):
        estimator.fit(X, y, covariates=pd.DataFrame({"age": np.where(np.arange(40) == 7, np.nan, 1.0)}))
    with pytest.raises(ValueError, match="40 levels for 40 samples"):
        estimator.fit(X, y, covariates=[f"patient {i}" for i in range(40)])
    with pytest.raises(ValueError, match="explain"):
        estimator.fit(X, y, covariates=y)
    with pytest.raises(ValueError, match="too many for 40 samples"):
        estimator.fit(X, y, covariates=rng.normal(size=(40, 39)))
    with pytest.raises(ValueError, match="one or two dimensions"):
        estimator.fit(X, y, covariates=np.ones((40, 2, 2)))
    for labels in (
        np.where(np.arange(40) == 7, np.nan, 1.0),
        [None if i == 7 else f"donor {i % 5}" for i in range(40)],
        gap,
    ):
        with pytest.raises(
            ValueError, match="groups must hold one entry per sample, but 1 of 40 are missing, the first in row 7"
        ):
            estimator.fit(X, y, groups=labels)


def test_a_covariate_that_equals_a_feature(rng):
    X, y = rng.normal(size=(60, 5)), rng.normal(size=60)
    with pytest.warns(UserWarning, match=r"explain 1 column of X completely \(2\); it is left out"):
        selector = RandSel(2).fit(X, y + X[:, 2], covariates=X[:, 2])
    assert selector.order_[-1] == 2
    assert InteractionScan(order=1).fit(X, y, covariates=X[:, 2]).main_pvalues_[2] > 0.9


def test_batches_of_one_sample_and_batches_that_explain_everything(rng):
    X, y = rng.normal(size=(40, 5)), rng.normal(size=40)
    with pytest.warns(UserWarning, match="constant within 1 of 3 strata of batch"):
        RandSel(2).fit(X, y, batch=np.r_[0, np.repeat([1, 2], [20, 19])])
    with pytest.raises(ValueError, match="constant within every batch"):
        RandSel(2).fit(X, np.arange(40) // 20, batch=np.arange(40) // 20)


# ---------------------------------------------------------------- features together with covariates


def test_a_feature_that_acts_together_with_a_covariate(rng):
    frame = pd.DataFrame({"age": rng.normal(size=200), "sex": np.where(rng.random(200) < 0.5, "f", "m")})
    X = rng.normal(size=(200, 30))
    y = frame["age"] * X[:, 4] + np.where(frame["sex"] == "f", 1.0, -1.0) * X[:, 9] + rng.normal(size=200)
    scan = InteractionScan(order=1, with_covariates=True).fit(X, y, covariates=frame)
    found = {(row["covariate"], row["j"]) for row in scan.covariate_pairs_ if row["p_corrected"] < 0.01}
    assert found == {("age", 4), ("sex=m", 9)}  # one test of two levels, not one per level
    assert len(scan.covariate_pairs_) == 2 * 30
    assert not hasattr(scan.set_params(with_covariates=False).fit(X, y, covariates=frame), "covariate_pairs_")
    with pytest.raises(ValueError, match="needs covariates in fit"):
        InteractionScan(with_covariates=True).fit(X, y)


@pytest.mark.slow
def test_errors_of_pairs_with_a_covariate():
    alarms = 0
    for seed in range(60):
        rng = np.random.default_rng([11, seed])
        age, X = rng.normal(size=100), rng.normal(size=(100, 40))
        y = age**2 + X[:, 0] ** 2 + X[:, 1] + rng.normal(size=100)
        pairs = InteractionScan(order=1, with_covariates=True).fit(X, y, covariates=age).covariate_pairs_
        alarms += pairs["p_corrected"].min() <= 0.05
    assert alarms <= 8  # as above
