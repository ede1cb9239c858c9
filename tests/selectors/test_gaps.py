"""Missing values: selectors find with gaps what they find without, in every mode, and report how many there are."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

from randsel import BaHSIC, InteractionScan, RandSel, RandSelCV, StabilitySelection, datasets
from randsel.selectors._prediction import takes_missing

pytestmark = pytest.mark.filterwarnings("ignore:Nothing stands out")


def with_gaps(X, fraction=0.1, seed=0):
    return np.where(np.random.default_rng(seed).random(X.shape) < fraction, np.nan, X)


@pytest.fixture(scope="module")
def xor():
    X, y, _ = datasets.make_xor(250, 30, random_state=0)
    return with_gaps(X), y


@pytest.mark.parametrize("selector", [RandSel(), RandSelCV(), InteractionScan(), BaHSIC(), StabilitySelection()])
def test_the_tag_says_that_missing_values_are_accepted(selector):
    assert get_tags(selector).input_tags.allow_nan


PROBLEMS = {
    "xor": lambda seed: datasets.make_xor(300, 100, random_state=seed),
    "linear": lambda seed: datasets.make_weston_linear(300, 100, random_state=seed),
    "non-linear": lambda seed: datasets.make_weston_nonlinear(300, 100, random_state=seed),
}


@pytest.mark.slow
@pytest.mark.parametrize("make", PROBLEMS.values(), ids=PROBLEMS)
def test_a_tenth_of_the_values_is_hardly_missed(make):
    recall = []
    for seed in range(5):
        X, y, relevant = make(seed)
        for table in (X, with_gaps(X, seed=seed)):
            selected = RandSel(len(relevant)).fit(table, y).get_support(indices=True)
            recall.append(np.isin(relevant, selected).mean())
    assert np.mean(recall[1::2]) >= np.mean(recall[::2]) - 0.05


MODES = {
    "z-scores": RandSel(2, scale=True),
    "centred": RandSel(2, scale=False),
    "rank functions": RandSel(2, kernel="rank"),
    "calibrated": RandSel(2, criterion="calibrated"),
    "bootstrap": RandSel(2, estimator="bootstrap", n_bootstraps=800, subsample=0.5, random_state=0),
    "pairs": InteractionScan(2),
    "cross-validation": RandSelCV(cv=3, gammas=["median"]),
}


@pytest.mark.parametrize("selector", MODES.values(), ids=MODES)
def test_every_mode_finds_a_pair_with_gaps(xor, selector):
    X, y = xor
    selector.fit(X[:, :10] if getattr(selector, "estimator", None) == "bootstrap" else X, y)
    assert selector.get_support(indices=True).tolist() == [0, 1]
    assert selector.missing_counts_.tolist() == np.isnan(X[:, : len(selector.support_)]).sum(axis=0).tolist()
    assert selector.transform(X[:, : len(selector.support_)]).shape == (250, 2)


@pytest.mark.parametrize("as_frame", [False, True])
@pytest.mark.parametrize("selector", [None, RandSel(2)], ids=["lasso", "RandSel"])
def test_stability_selection_takes_gaps(rng, selector, as_frame):
    X, y = rng.standard_normal((100, 8)), rng.permutation(100) % 2
    X[:, 2] += 2 * y
    X = with_gaps(X)
    table = pd.DataFrame(X).add_prefix("g") if as_frame else X
    stable = StabilitySelection(selector, n_subsamples=10, random_state=0).fit(table, y)
    assert 2 in stable.get_support(indices=True)
    assert stable.missing_counts_.tolist() == np.isnan(X).sum(axis=0).tolist()


def test_row_blocks_above_two_thousand_samples():
    X, y, _ = datasets.make_xor(2200, 12, random_state=0)
    assert RandSel(2, random_state=0).fit(with_gaps(X), y).get_support(indices=True).tolist() == [0, 1]


def test_a_memory_map_in_blocks_gives_the_path_of_the_table(tmp_path):
    X, y, _ = datasets.make_xor(100, 900, random_state=0)
    X = with_gaps(X)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    expected, found = RandSel(5).fit(X, y), RandSel(5, max_memory="2.5MB").fit(mapped, y)
    assert found.get_support(indices=True).tolist() == expected.get_support(indices=True).tolist()
    np.testing.assert_allclose(found.contributions_, expected.contributions_, atol=1e-9)
    assert found.missing_counts_.tolist() == np.isnan(X).sum(axis=0).tolist()


def test_samples_of_weight_zero_are_not_counted(xor):
    X, y = xor
    weights = (np.arange(250) > 20).astype(float)
    found, expected = RandSel(2).fit(X, y, weights), RandSel(2).fit(X[21:], y[21:])
    assert found.missing_counts_.tolist() == expected.missing_counts_.tolist()
    assert found.order_.tolist() == expected.order_.tolist()


def test_a_fit_with_gaps_resumes_from_its_checkpoint(xor, tmp_path):
    X, y = xor
    first = RandSel(2, checkpoint=tmp_path).fit(X, y)
    again = RandSel(2, checkpoint=tmp_path).fit(X, y)
    assert again.order_.tolist() == first.order_.tolist()
    with pytest.raises(ValueError, match=r"max missing: 0\.5, now 0\.2"):
        RandSel(2, checkpoint=tmp_path, max_missing=0.2).fit(X, y)


def test_the_order_of_the_columns_does_not_matter(xor, rng):
    X, y = xor
    order = rng.permutation(30)
    for selector in (RandSel(2), InteractionScan(2)):
        ranks = selector.fit(X, y).ranking_
        assert selector.fit(X[:, order], y).ranking_.tolist() == ranks[order].tolist()


def test_stand_ins_are_compared_on_samples_that_have_both_values(rng):
    X = rng.standard_normal((200, 10))
    X[:, 7] = X[:, 3] + 0.3 * rng.standard_normal(200)
    y = X[:, 3] > 0
    complete = RandSel(1).fit(X, y).stand_ins(X, y)[3][0]
    gaps = with_gaps(X, 0.3)
    selector = RandSel(1).fit(gaps, y)
    (stand_in,) = selector.stand_ins(gaps, y)[selector.get_support(indices=True)[0]]
    assert {stand_in.column, *selector.get_support(indices=True)} == {3, 7}
    assert stand_in.correlation == pytest.approx(complete.correlation, abs=0.05)
    assert np.isfinite(stand_in.loss)


# ---------------------------------------------------------------- models


def test_models_that_do_not_take_gaps_get_means_of_training_samples(xor):
    X, y = xor
    assert not takes_missing(LogisticRegression())
    assert not takes_missing(make_pipeline(SimpleImputer(), LogisticRegression())[1:])
    assert takes_missing(make_pipeline(SimpleImputer(), LogisticRegression()))
    assert takes_missing(HistGradientBoostingClassifier())
    for model in (LogisticRegression(), make_pipeline(SimpleImputer(strategy="median"), LogisticRegression())):
        assert np.isfinite(RandSelCV(model, cv=2, gammas=["median"]).fit(X, y).best_score_)


def test_a_pipeline_with_gaps_is_cross_validated(xor):
    X, y = xor
    frame = pd.DataFrame(X).add_prefix("g")
    scores = cross_validate(make_pipeline(RandSel(2), HistGradientBoostingClassifier()), frame, y, cv=3)["test_score"]
    assert scores.mean() > 0.7


# ---------------------------------------------------------------- tests


def false_alarms(rates, n_tables=40):
    """Number of tables of noise, with gaps at a rate per class, in which something is significant."""
    alarms = 0
    for seed in range(n_tables):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((100, 15)), rng.permutation(100) % 2
        X[:, :5] = rng.integers(0, 3, (100, 5))
        X[rng.random(X.shape) < np.array(rates)[y, None]] = np.nan
        alarms += bool(InteractionScan(max_missing=1.0).fit(X, y).pvalues_.min() * 15 <= 0.05)
    return alarms


@pytest.mark.slow
@pytest.mark.parametrize("rates", [(0.1, 0.1), (0.4, 0.4), (0.4, 0.0)], ids=["10 %", "40 %", "by class"])
def test_false_alarms_are_as_rare_as_without_gaps(rates):
    assert false_alarms(rates) <= 6  # 2 are expected, and more than 6 have a probability of 0.003


def test_groups_are_averaged_over_their_observed_samples(rng):
    X, y = rng.standard_normal((60, 6)), rng.permutation(60) % 2
    X[:, 2] += 2 * y
    twice = np.repeat(X, 2, axis=0)
    twice[::2][rng.random((60, 6)) < 0.4] = np.nan  # the other sample of the group has the value
    scan = InteractionScan(1).fit(twice, np.repeat(y, 2), groups=np.repeat(np.arange(60), 2))
    np.testing.assert_allclose(scan.pvalues_, InteractionScan(1).fit(X, y).pvalues_, rtol=1e-6)
    assert scan.missing_counts_.tolist() == np.isnan(twice).sum(axis=0).tolist()
    batch = np.repeat(np.arange(60) % 3, 2)
    assert InteractionScan(1).fit(twice, np.repeat(y, 2), batch=batch).get_support(indices=True).tolist() == [2]


def test_covariates_and_gaps_go_together(rng):
    age = rng.standard_normal(150)
    X = rng.standard_normal((150, 10)) + age[:, None]
    y = (X[:, 4] - age + 0.5 * age + 0.3 * rng.standard_normal(150) > 0).astype(int)
    X = with_gaps(X, 0.2)
    for selector in (RandSel(1), RandSel(1, kernel="rank"), InteractionScan(1)):
        assert selector.fit(X, y, covariates=age[:, None]).get_support(indices=True).tolist() == [4]


def test_noise_with_more_missing_values_in_one_class_does_not_stand_out():
    n_alarms = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(60, 60)), np.arange(60) % 2
        X[rng.random(X.shape) < np.where(y, 0.4, 0.1)[:, None]] = np.nan
        n_alarms += RandSel().fit(X, y).stands_out_
    assert n_alarms <= 4
