import pickle
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from randsel import RandSel, datasets
from randsel.contribution import _closed_form


@pytest.fixture(scope="module")
def xor():
    return datasets.make_xor(300, 40, random_state=0)


@pytest.fixture(scope="module")
def fitted(xor):
    return RandSel().fit(*xor[:2])


def test_attributes(xor, fitted):
    X, _, relevant = xor
    assert list(fitted.get_support(indices=True)) == list(relevant)
    assert fitted.n_features_ == 2
    assert sorted(fitted.ranking_) == [1, 1, *range(2, 40)]
    assert np.all(fitted.ranking_[fitted.support_] == 1)
    assert list(fitted.ranking_[fitted.order_]) == [1, 1, *range(2, 40)]
    last_culled = fitted.path_.rounds[fitted.path_.best - 1].dropped[-1]
    assert fitted.ranking_[last_culled] == 2
    assert fitted.contributions_[relevant].min() > np.delete(fitted.contributions_, relevant).max()
    assert fitted.interaction_scores_[relevant].min() > 10
    assert np.delete(fitted.interaction_scores_, relevant).max() < 5
    assert np.abs(fitted.main_scores_).max() < 20
    assert fitted.stands_out_
    assert len(fitted.fixed_) == 0
    assert fitted.transform(X).shape == (300, 2)


@pytest.mark.parametrize(("wanted", "count"), [(1, 1), (7, 7), (40, 40), (0.25, 10), (1.0, 40), (0.001, 1)])
def test_exactly_as_many_as_asked_for(xor, wanted, count):
    selector = RandSel(wanted).fit(*xor[:2])
    assert selector.support_.sum() == count
    assert selector.ranking_.max() == 40 - count + 1


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (datasets.make_xor, {}),
        (datasets.make_xor, {"n_features": 200}),
        (datasets.make_weston_linear, {}),
        (datasets.make_weston_nonlinear, {}),
        (datasets.make_weston_nonlinear, {"n_relevant": 5}),
    ],
)
def test_finds_what_is_relevant(make, options):
    for seed in (101, 102):
        X, y, relevant = make(random_state=seed, **options)
        assert RandSel(len(relevant)).fit(X, y).support_[relevant].all()


@pytest.mark.parametrize("seed", range(3))
def test_auto_finds_the_number_on_the_synthetic_problems(seed):
    """The six relevant features of the linear problem are redundant: two or three of them predict as well as all."""
    for make, lowest, highest in (
        (datasets.make_xor, 2, 2),
        (datasets.make_weston_nonlinear, 2, 2),
        (datasets.make_weston_linear, 2, 4),
    ):
        X, y, relevant = make(random_state=seed)
        selected = RandSel().fit(X, y).get_support(indices=True)
        assert lowest <= len(selected) <= highest
        assert set(selected) <= set(relevant)


@pytest.mark.parametrize("wanted", ["auto", 5])
@pytest.mark.parametrize("shape", [(150, 60), (60, 1500)])
def test_says_that_nothing_stands_out_of_noise(shape, wanted):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=shape), rng.permutation(np.arange(shape[0]) % 2)
    with pytest.warns(UserWarning, match="Nothing stands out: .*, and no round aligns with y better than noise would"):
        selector = RandSel(wanted).fit(X, y)
    assert not selector.stands_out_
    assert selector.permutation_pvalue_ > 0.04


def test_auto_says_so_with_weights_and_with_row_blocks_too(rng, monkeypatch):
    X, y = rng.normal(size=(300, 30)), (np.arange(300) % 5 == 0).astype(int)
    with pytest.warns(UserWarning, match="Nothing stands out"):
        RandSel().fit(X, y, sample_weight=np.where(y, 4.0, 1.0))
    monkeypatch.setattr(_closed_form, "MAX_ROWS", 60)
    with pytest.warns(UserWarning, match="Nothing stands out"):
        RandSel(random_state=0).fit(X, y)


@pytest.mark.parametrize("options", [{}, {"estimator": "bootstrap", "n_bootstraps": 200, "random_state": 3}])
def test_ranking_follows_the_columns_wherever_they_are_moved(xor, rng, options):
    X, y, _ = xor
    order = rng.permutation(X.shape[1])
    here, there = RandSel(4, **options).fit(X, y), RandSel(4, **options).fit(X[:, order], y)
    assert np.array_equal(here.ranking_[order], there.ranking_)
    assert np.array_equal(here.contributions_[order], there.contributions_)


@pytest.mark.slow
def test_ranking_does_not_depend_on_the_number_of_jobs(xor, monkeypatch):
    X, y, _ = xor
    options = {"estimator": "bootstrap", "n_bootstraps": 200, "random_state": 3}
    one, two = (RandSel(4, n_jobs=jobs, **options).fit(X, y) for jobs in (1, 2))
    assert np.array_equal(one.contributions_, two.contributions_)
    other = RandSel(4, **{**options, "random_state": 4}).fit(X, y)
    assert not np.array_equal(one.contributions_, other.contributions_)
    monkeypatch.setattr(_closed_form, "MAX_ROWS", 100)
    one, two = (RandSel(4, n_jobs=jobs, random_state=0).fit(X, y) for jobs in (1, 2))
    assert np.array_equal(one.contributions_, two.contributions_)
    assert one.support_[:2].all()


def test_single_and_double_precision_select_the_same():
    for make, options in ((datasets.make_xor, {"n_features": 300}), (datasets.make_weston_linear, {})):
        X, y, relevant = make(random_state=5, **options)
        single = RandSel(len(relevant)).fit(X.astype(np.float32), y)
        assert single.path_.rounds[0].scores.dtype == np.float64
        assert np.array_equal(single.support_, RandSel(len(relevant)).fit(X, y).support_)


def test_rescaled_shifted_and_mirrored_columns_rank_the_same(xor, fitted):
    X, y, _ = xor
    factors = np.where(np.arange(40) % 3, 2.0, -0.5)
    moved = RandSel().fit(X * factors + 3.0, y)
    assert np.array_equal(moved.support_, fitted.support_)
    np.testing.assert_allclose(moved.interaction_scores_[:2], fitted.interaction_scores_[:2], rtol=1e-9)


def test_row_order_does_not_matter(xor, rng, fitted):
    X, y, _ = xor
    rows = rng.permutation(len(X))
    moved = RandSel().fit(X[rows], y[rows])
    np.testing.assert_allclose(moved.main_scores_, fitted.main_scores_, atol=1e-8)


@pytest.mark.slow
def test_bootstrap_and_total(xor):
    X, y, relevant = xor
    bootstrap = RandSel(2, estimator="bootstrap", n_bootstraps=1500, random_state=0).fit(X, y)
    assert bootstrap.support_[relevant].all()
    assert np.isnan(bootstrap.main_scores_).all()
    total = RandSel(2, criterion="total").fit(X, y)
    assert total.support_[relevant].all()
    assert np.array_equal(total.path_.rounds[0].scores.argmax(), total.path_.rounds[0].contributions.argmax())


def test_fixing(xor):
    selector = RandSel(fix_top=0.1, fix_after=2).fit(*xor[:2])
    assert {0, 1} <= set(selector.fixed_)
    assert selector.support_[:2].all()


def test_targets_of_every_kind(rng):
    X = rng.normal(size=(200, 12))
    smooth = X[:, 0] + 0.3 * rng.normal(size=200)
    both = np.column_stack([smooth, X[:, 1] ** 2 + 0.3 * rng.normal(size=200)])
    classes = np.array(["low", "mid", "high"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    counts = np.round(10 * smooth).astype(int)
    for y, expected in ((smooth, {0}), (classes, {0}), (both, {0, 1}), (counts, {0}), (smooth > 0, {0})):
        assert set(RandSel(len(expected)).fit(X, y).get_support(indices=True)) == expected
    assert RandSel(2).fit(X, smooth[:, None]).support_[0]


def test_weights_leave_out_what_weighs_nothing(xor, rng):
    X, y, _ = xor
    wrong = rng.permutation(len(X))[:100]
    spoiled = y.copy()
    spoiled[wrong] *= -1
    weights = np.ones(len(X))
    weights[wrong] = 0.0
    right = np.setdiff1d(np.arange(len(X)), wrong)
    weighted, kept = RandSel().fit(X, spoiled, sample_weight=weights), RandSel().fit(X[right], y[right])
    assert np.array_equal(weighted.contributions_, kept.contributions_)


def test_only_ratios_of_weights_matter(xor, rng):
    X, y, _ = xor
    weights = rng.random(len(X)) + 0.5
    one, ten = (RandSel().fit(X, y, sample_weight=factor * weights) for factor in (1, 10))
    np.testing.assert_allclose(one.contributions_, ten.contributions_, rtol=1e-8)
    assert one.support_[:2].all()
    plain = RandSel().fit(X, y)
    constant = RandSel().fit(X, y, sample_weight=np.full(len(X), 3.0))
    assert np.array_equal(plain.contributions_, constant.contributions_)


def test_data_frames_and_their_names(xor):
    X, y, _ = xor
    names = [f"gene{j}" for j in range(40)]
    frame = pd.DataFrame(X, columns=names)
    from_pandas = RandSel().fit(frame, pd.Series(y)).set_output(transform="pandas")
    assert list(from_pandas.get_feature_names_out()) == ["gene0", "gene1"]
    assert list(from_pandas.transform(frame).columns) == ["gene0", "gene1"]
    from_polars = RandSel().fit(pl.DataFrame(X, schema=names), y).set_output(transform="polars")
    assert list(from_polars.feature_names_in_) == names
    assert from_polars.transform(pl.DataFrame(X, schema=names)).columns == ["gene0", "gene1"]


def test_in_pipelines_and_searches(xor):
    X, y, _ = xor
    pipeline = make_pipeline(RandSel(), SVC())
    search = GridSearchCV(pipeline, {"randsel__n_features_to_select": [2, 20]}, cv=3).fit(X, y)
    assert search.best_params_ == {"randsel__n_features_to_select": 2}
    assert search.best_score_ > 0.85
    again = pickle.loads(pickle.dumps(search))
    assert np.array_equal(again.predict(X), search.predict(X))


def test_weights_are_routed(xor):
    X, y, _ = xor
    weights = np.linspace(0.5, 1.5, len(X))
    with sklearn.config_context(enable_metadata_routing=True):
        selector = RandSel().set_fit_request(sample_weight=True)
        model = LogisticRegression().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(selector, model).fit(X, y, sample_weight=weights)
    expected = RandSel().fit(X, y, sample_weight=weights)
    assert np.array_equal(pipeline[0].contributions_, expected.contributions_)


def test_progress(xor, capsys):
    RandSel(verbose=1).fit(*xor[:2])
    assert "[RandSel] 40 features, alignment" in capsys.readouterr().err
    seen = []
    selector = RandSel(verbose=seen.append).fit(*xor[:2])
    assert [len(r.features) for r in seen] == [len(r.features) for r in selector.path_.rounds]
    assert np.array_equal(seen[0].scores, selector.path_.rounds[0].scores)


def test_madelon(benchmark_set, monkeypatch):
    """Rows are taken in blocks; most of the 20 relevant among 150 features come first."""
    monkeypatch.setattr("randsel.contribution._closed_form.MAX_ROWS", 500)
    data = benchmark_set("madelon")
    columns = np.concatenate([data["relevant"], np.setdiff1d(np.arange(500), data["relevant"])[:130]])
    selector = RandSel(20, random_state=0).fit(data["X"][:2100, columns], data["y"][:2100])
    assert selector.support_[:20].sum() >= 14


def test_friedman(benchmark_set):
    data = benchmark_set("friedman_c0_250_50")
    assert RandSel(5).fit(data["X"], data["y"]).support_[data["relevant"]].sum() >= 4


def test_rank_kernel_sees_a_ring_which_the_calibrated_scores_of_the_gaussian_one_do_not():
    X, y, relevant = datasets.make_passemiers("ring", 250, 64, random_state=0)
    assert RandSel(2, kernel="rank").fit(X, y).support_[relevant].all()
    assert RandSel(2, kernel="rank", criterion="calibrated").fit(X, y).support_[relevant].all()
    assert not RandSel(2, criterion="calibrated", scale=True).fit(X, y).support_[relevant].all()


@pytest.mark.filterwarnings("ignore:Nothing stands out")
@pytest.mark.parametrize(
    "options", [{}, {"fix_top": 0.2, "fix_after": 2}, {"min_features": 5}, {"criterion": "calibrated"}]
)
def test_path_of_the_rank_kernel_is_a_path_of_features(rng, options):
    X, y, _ = datasets.make_xor(150, 30, random_state=1)
    X[:, 5] = 0.0  # constant
    X[:, 6] = rng.integers(0, 3, 150)  # two functions
    seen = []
    fitted = RandSel(kernel="rank", verbose=seen.append, **options).fit(X, y)
    rounds = fitted.path_.rounds
    assert list(rounds[0].features) == [*range(5), *range(6, 30)]
    assert len(seen) == len(rounds)
    for now, later in pairwise(rounds):
        assert set(now.features) - set(now.dropped) == set(later.features)
        assert len(now.dropped)
    assert not len(rounds[-1].dropped)
    assert len(rounds[-1].features) >= options.get("min_features", 1)
    fixed = np.concatenate([r.fixed for r in rounds])
    assert len(np.unique(fixed)) == len(fixed)
    assert sorted(fitted.order_) == list(range(30))
    culled = np.concatenate([r.dropped for r in rounds])
    assert list(fitted.order_[::-1][1 : 1 + len(culled)]) == list(culled)
    assert len(fitted.path_.errors) == len(rounds)
    if not options:
        assert list(fitted.get_support(indices=True)) == [0, 1]


def test_rank_kernel_sees_neither_outliers_nor_monotone_transforms():
    X, y, _ = datasets.make_xor(200, 30, random_state=2)
    plain = RandSel(5, kernel="rank").fit(X, y)
    bent = RandSel(5, kernel="rank").fit(np.sinh(3 * X), y)
    assert list(plain.order_) == list(bent.order_)
    assert np.allclose(plain.contributions_, bent.contributions_)


def test_rank_kernel_needs_levels_seen_often_enough():
    X = np.zeros((40, 2))
    X[0, 0] = X[1, 1] = 1.0
    with pytest.raises(ValueError, match="seen often enough for kernel='rank'"):
        RandSel(1, kernel="rank").fit(X, np.arange(40) % 2)


def test_features_that_differ_between_batches_only_do_not_stand_out():
    rng = np.random.default_rng(0)
    batch = np.repeat([0, 1], 40)
    y = (rng.uniform(size=80) < np.where(batch == 0, 0.2, 0.8)).astype(int)
    X = rng.normal(size=(80, 50)) + 2 * batch[:, None]
    assert RandSel().fit(X, y).stands_out_
    with pytest.warns(UserWarning, match=r"Nothing stands out: .* \(limit 0.02\)\. Do not"):  # rounds are not judged
        assert not RandSel().fit(X, y, batch=batch).stands_out_


def test_auto_takes_the_fewest_features_within_one_standard_error_of_the_smallest_error():
    X, y, _ = datasets.make_weston_linear(120, 60, random_state=1)
    path = RandSel().fit(X, y).path_
    squares = np.stack([r.errors for r in path.rounds])
    smallest = squares[np.argmin(squares.mean(axis=1))]
    limit = smallest.mean() + np.std(smallest, ddof=1) / np.sqrt(len(smallest))
    assert path.best == [k for k, row in enumerate(squares) if row.mean() <= limit][-1]
    np.testing.assert_allclose(path.errors, squares.mean(axis=1))
