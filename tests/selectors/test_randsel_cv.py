import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, KFold, LeaveOneGroupOut, StratifiedKFold
from sklearn.svm import SVC

from randsel import RandSel, RandSelCV, datasets


@pytest.fixture(scope="module")
def xor():
    return datasets.make_xor(150, 20, random_state=1)


def test_chooses_the_two_features_of_xor(xor):
    X, y, relevant = xor
    selector = RandSelCV(cv=5).fit(X, y)
    assert list(selector.get_support(indices=True)) == list(relevant)
    assert selector.n_features_ == 2
    assert selector.best_score_ > 0.85
    assert len(selector.cv_results_["gamma"]) == 3 * len(set(selector.cv_results_["n_features"]))
    assert selector.transform(X).shape == (150, 2)


def test_the_smaller_model_wins_ties(rng):
    """One feature separates the classes: every size scores 1."""
    X = rng.normal(size=(60, 6))
    y = np.arange(60) % 2
    X[:, 3] = 10 * y + 0.1 * X[:, 3]
    selector = RandSelCV(LogisticRegression(), cv=3, gammas=["median"], selector=RandSel(min_features=1)).fit(X, y)
    assert set(selector.cv_results_["mean_score"]) == {1.0}
    assert list(selector.get_support(indices=True)) == [3]


def test_does_not_depend_on_the_number_of_jobs(xor):
    X, y, _ = xor
    selector = RandSel(estimator="bootstrap", n_bootstraps=64, random_state=0)
    one, two = (RandSelCV(cv=3, gammas=["median"], selector=selector, n_jobs=j).fit(X, y) for j in (1, 2))
    assert one.cv_results_ == two.cv_results_
    assert np.array_equal(one.contributions_, two.contributions_)


def test_scores_are_those_of_the_folds_by_hand(xor):
    X, y, _ = xor
    model = LogisticRegression()
    selector = RandSelCV(model, cv=StratifiedKFold(3), gammas=[0.01]).fit(X, y)
    by_hand = []
    for train, test in StratifiedKFold(3).split(X, y):
        columns = RandSel(9, gamma=0.01).fit(X[train], y[train]).get_support(indices=True)
        by_hand.append(LogisticRegression().fit(X[train][:, columns], y[train]).score(X[test][:, columns], y[test]))
    at = selector.cv_results_["n_features"].index(9)
    assert selector.cv_results_["mean_score"][at] == pytest.approx(np.mean(by_hand))
    assert selector.gamma_ == 0.01


def linear_table(rng, n=90):
    X = rng.normal(size=(n, 6))
    return X, 3.0 * X[:, 0] + rng.normal(size=n)


def best_scores(X, y, seeds=(0, 1, 2), **options):
    options = {"selector": RandSel(drop=0.5), "cv": 5, "gammas": ["median"], **options}
    return [RandSelCV(random_state=seed, **options).fit(X, y).best_score_ for seed in seeds]


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_the_order_of_the_rows_does_not_matter_but_for_chance(rng, kind):
    X, y = linear_table(rng)
    y = y if kind == "numbers" else np.array(["low", "middle", "top"])[np.digitize(y, [-1.0, 1.0])]
    order = np.argsort(y, kind="stable")
    ordered, shuffled = best_scores(X[order], y[order]), best_scores(X, y)
    assert np.mean(ordered) > 0.6
    assert np.mean(ordered) == pytest.approx(np.mean(shuffled), abs=0.05)


def test_the_answer_depends_on_the_seed_alone(rng):
    X, y = linear_table(rng, 40)
    options = {"selector": RandSel(drop=0.5), "gammas": ["median"]}
    first = RandSelCV(cv=5, **options).fit(X, y)
    assert RandSelCV(cv=5, n_jobs=2, **options).fit(X, y).cv_results_ == first.cv_results_
    assert RandSelCV(cv=5, random_state=1, **options).fit(X, y).cv_results_ != first.cv_results_
    assert RandSelCV(cv=None, **options).fit(X, y).cv_results_ == first.cv_results_


def test_folds_of_a_splitter_are_those_of_the_splitter(rng):
    X, y = linear_table(rng)
    one, two = (RandSelCV(cv=KFold(5), gammas=["median"], random_state=seed).fit(X, y) for seed in (0, 1))
    assert one.cv_results_ == two.cv_results_
    order = np.argsort(y)
    # Sorted by the outcome and not shuffled, every fold is predicted from other values than its own.
    assert RandSelCV(cv=KFold(5), gammas=["median"]).fit(X[order], y[order]).best_score_ < 0.0


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_groups_stay_together(xor, monkeypatch, kind):
    X, y, _ = xor
    y = y if kind == "classes" else X[:, 0] + 0.1 * X[:, 1]
    groups = np.arange(150) // 10
    fitted_rows, original = [], RandSel.fit

    def fit(self, X, y, sample_weight=None, **known):
        fitted_rows.append(X)
        return original(self, X, y, sample_weight, **known)

    monkeypatch.setattr(RandSel, "fit", fit)
    RandSelCV(cv=3, gammas=["median"]).fit(X, y, groups=groups)
    assert len(fitted_rows) == 4
    for rows in fitted_rows[:-1]:
        is_training = (X[:, None, 0] == rows[None, :, 0]).any(axis=1)
        assert not set(groups[is_training]) & set(groups[~is_training])
        assert 0 < is_training.sum() < 150


def test_regression_and_several_outputs(rng):
    X = rng.normal(size=(80, 10))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=80)
    assert RandSelCV(cv=3, gammas=["median"]).fit(X, y).support_[0]
    Y = np.column_stack([X[:, 0], X[:, 1] ** 2])
    assert RandSelCV(cv=3, gammas=["median"]).fit(X, Y).support_[:2].all()


def test_groups_reach_the_selector(xor, monkeypatch):
    X, y, _ = xor
    groups = np.array([f"donor {number}" for number in np.arange(150) // 5])
    weights = np.ones(150)
    weights[:10] = 0.0
    folds = list(GroupKFold(3).split(X, y, groups))
    seen, original = [], RandSel.fit

    def fit(self, X, y, sample_weight=None, **known):
        seen.append((X, known.get("groups")))
        return original(self, X, y, sample_weight, **known)

    monkeypatch.setattr(RandSel, "fit", fit)
    selector = RandSelCV(LogisticRegression(), cv=folds, gammas=["median"]).fit(X, y, weights, groups=groups)
    expected = RandSel(selector.n_features_).fit(X, y, weights, groups=groups)
    assert np.array_equal(selector.path_.errors, expected.path_.errors)
    assert selector.permutation_pvalue_ == expected.permutation_pvalue_
    assert not np.array_equal(expected.path_.errors, RandSel().fit(X, y, weights).path_.errors)
    training = [train[weights[train] > 0.0] for train, _ in folds]
    for train, (rows, codes) in zip([*training, np.arange(150)], seen, strict=False):
        assert np.array_equal(rows, X[train])
        assert np.array_equal(
            np.unique(codes, return_inverse=True)[1], np.unique(groups[train], return_inverse=True)[1]
        )
    # Folds of one group each: within one group, samples are left out one by one.
    halves = np.arange(150) // 75
    assert RandSelCV(cv=LeaveOneGroupOut(), gammas=["median"]).fit(X, y, groups=halves).support_[:2].all()


def test_warns_once_of_noise(rng):
    X, y = rng.normal(size=(60, 8)), np.arange(60) % 2
    with pytest.warns(UserWarning, match="Nothing stands out") as caught:
        selector = RandSelCV(cv=3).fit(X, y)
    assert len(caught) == 1
    assert not selector.stands_out_


@pytest.mark.parametrize("model", [LogisticRegression(), None])
def test_weights_reach_the_model(xor, model, monkeypatch):
    X, y, _ = xor
    seen = []
    kind = SVC if model is None else LogisticRegression
    original = kind.fit

    def fit(self, X, y, sample_weight=None):
        seen.append(sample_weight)
        return original(self, X, y, sample_weight)

    monkeypatch.setattr(kind, "fit", fit)
    weights = np.linspace(1.0, 2.0, len(X))
    RandSelCV(model, cv=3, gammas=["median"]).fit(X, y, sample_weight=weights)
    assert all(w is not None and w.max() > w.min() for w in seen)


def test_weights_reach_the_selector(xor):
    X, y, _ = xor
    weights = np.ones(len(X))
    weights[::5] = 0.0
    spoiled = np.where(weights > 0, y, -y)
    selector = RandSelCV(LogisticRegression(), cv=3, gammas=["median"]).fit(X, spoiled, sample_weight=weights)
    kept = weights > 0
    expected = RandSel(selector.n_features_).fit(X[kept], y[kept])
    assert np.array_equal(selector.contributions_, expected.contributions_)


def test_folds_are_reduced_aloud(rng):
    X, y = rng.normal(size=(30, 4)), np.r_[np.zeros(26), np.ones(4)]
    with pytest.warns(UserWarning, match="cv=10 was reduced to 4 folds"):
        RandSelCV(gammas=["median"]).fit(X, y)


@pytest.mark.parametrize(("gammas", "message"), [([], "gammas is empty"), ([-1.0], "entry -1.0"), (["x"], "'x'")])
def test_senseless_bandwidths(xor, gammas, message):
    with pytest.raises(ValueError, match=message):
        RandSelCV(gammas=gammas).fit(*xor[:2])


def test_says_what_it_chose(xor, capsys):
    RandSelCV(cv=3, gammas="median", verbose=1).fit(*xor[:2])
    assert "[RandSelCV] gamma median, 2 features" in capsys.readouterr().err


@pytest.mark.parametrize("m", [7, 12, 19])
def test_folds_of_few_numbers_hold_two_samples_each(rng, m):
    """R² of a single sample is not defined."""
    X = rng.normal(size=(m, 4))
    with pytest.warns(UserWarning, match=f"reduced to {min(m // 2, 9)} folds, because there are only {m} samples"):
        fitted = RandSelCV(cv=10).fit(X, X[:, 0] + 0.1 * rng.normal(size=m))
    assert np.isfinite(fitted.best_score_)
