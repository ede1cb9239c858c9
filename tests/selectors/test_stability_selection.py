"""`StabilitySelection`: the randomised lasso and any other selector on random halves of the samples."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.feature_selection import RFE, SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from randsel import InteractionScan, RandSel, StabilitySelection, datasets
from randsel._sklearn.base import Task
from randsel._utils.files import FinishedParts
from randsel.selectors import _randomised_lasso as lasso
from randsel.targets._groups import bound_false_selections, draw_halves, split_halves

unstable = pytest.mark.filterwarnings("ignore:No feature reaches the probability")


def targets(X):
    signal = X[:, 0] + np.abs(X[:, 1])
    return {
        "binary": np.where(signal > 0.4, "b", "a"),
        "multi-class": np.digitize(signal, [0.0, 0.9]),
        "regression": signal,
        "outputs": np.column_stack([signal, X[:, 2] ** 2]),
    }


@pytest.fixture(scope="module")
def data():
    X, y, _ = datasets.make_weston_linear(120, 15, random_state=0)
    return X, y


class Recording(BaseEstimator):
    """A selector that records what it is fitted on; selects two columns, one of them at random."""

    seen: list

    def __init__(self, list_of_fits=None):
        self.list_of_fits = list_of_fits

    def fit(self, X, y, sample_weight=None, groups=None, batch=None):
        Recording.seen.append((X, y, sample_weight, groups, batch))
        self.support_ = np.arange(X.shape[1]) % (2 + len(Recording.seen) % 2) == 0
        return self


@pytest.fixture
def recording():
    Recording.seen = []
    return Recording()


# ---------------------------------------------------------------- halves


def test_halves_hold_half_of_every_stratum(rng):
    strata = np.repeat([0, 1, 2], [10, 7, 1])
    one, other = draw_halves(strata, rng)
    assert not set(one) & set(other)
    assert [list(np.bincount(strata[half], minlength=3)) for half in (one, other)] == [[5, 3, 0]] * 2
    one, other = draw_halves(strata, rng, use_leftovers=True)
    assert not set(one) & set(other)
    assert len(one) == len(other) == 9


@pytest.mark.parametrize("grouped", [False, True])
def test_halves_hold_half_of_every_batch_and_whole_groups(rng, grouped):
    groups = np.arange(90) // 3 if grouped else None
    batch = np.arange(90) // 9
    strata = (np.arange(90) // 3) % 2
    one, other = split_halves(strata, groups, batch, rng)
    assert not set(one) & set(other)
    assert len(one) + len(other) >= 90 - 3
    if grouped:
        assert not set(groups[one]) & set(groups[other])
    for half in (one, other):
        assert set(batch[half]) == set(batch)
        assert abs(strata[half].mean() - 0.5) < 0.2


def test_bound_by_hand(monkeypatch, rng):
    assert bound_false_selections(3.0, 0.6, 20) == pytest.approx(3**2 / (0.2 * 20))
    X, y = rng.normal(size=(20, 4)), np.arange(20) % 2
    first, second = np.zeros((4, 2), dtype=bool), np.zeros((4, 2), dtype=bool)
    first[[0, 1], [0, 1]] = second[0] = True
    monkeypatch.setattr(StabilitySelection, "_select_on_halves", lambda *_: [first, second])
    selector = StabilitySelection(threshold=0.75).fit(X, y)
    assert selector.expected_false_bound_ == pytest.approx(1.5**2 / (0.5 * 4))
    np.testing.assert_array_equal(np.sort(selector.probabilities_), [0, 0, 0.5, 1.0])
    assert selector.n_features_ == 1


# ---------------------------------------------------------------- the lasso


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"loss": "logistic"}, {"complementary": True, "n_subsamples": 49}])
def test_the_lasso_finds_a_linear_problem_and_bounds_its_errors(options):
    X, y, relevant = datasets.make_weston_linear(300, 60, random_state=0)
    selector = StabilitySelection(**{"n_subsamples": 50, "random_state": 0, "threshold": 0.7, **options}).fit(X, y)
    assert set(selector.get_support(indices=True)) <= set(relevant)
    assert selector.n_features_ >= 2
    assert clone(selector).set_params(n_features_to_select=4).fit(X, y).support_[relevant].sum() == 4
    np.testing.assert_array_equal(selector.support_, selector.probabilities_ >= 0.7)
    metadata = dict.fromkeys(("sample_weight", "groups", "batch", "covariates"))
    problem = selector._lasso_problem(X, y, metadata)
    with selector._open_checkpoint(problem) as (parts, seed):
        halves = np.array(selector._select_on_halves(problem, seed, parts, Task(selector, None)))
    assert len(halves) == 50
    q = np.mean([len(set(np.nonzero(half)[0])) for half in halves])
    assert selector.expected_false_bound_ == pytest.approx(q**2 / (0.4 * 60), rel=1e-9)


@unstable
@pytest.mark.parametrize("kind", ["binary", "multi-class", "regression", "outputs"])
@pytest.mark.parametrize("complementary", [False, True])
def test_the_lasso_does_not_depend_on_the_number_of_jobs(rng, kind, complementary):
    X = rng.normal(size=(24, 6))
    y, selector = targets(X)[kind], StabilitySelection(n_subsamples=10, complementary=complementary, random_state=0)
    fits = [clone(selector).set_params(n_jobs=n).fit(X, y) for n in (None, 2)]
    np.testing.assert_array_equal(fits[0].probabilities_, fits[1].probabilities_)
    np.testing.assert_array_equal(fits[0].ranking_, fits[1].ranking_)
    other = clone(selector).set_params(random_state=1).fit(X, y)
    assert (other.probabilities_ != fits[0].probabilities_).any()


def test_nothing_stable_is_said_and_the_best_returned(rng):
    X, y = rng.normal(size=(40, 30)), np.arange(40) % 2
    with pytest.warns(UserWarning, match=r"No feature reaches the probability threshold=1") as caught:
        selector = StabilitySelection(n_subsamples=10, threshold=1.0, lambda_min=0.9, random_state=0).fit(X, y)
    assert caught[0].filename == __file__
    assert selector.support_.sum() == 1
    assert selector.probabilities_[selector.support_][0] == selector.probabilities_.max()
    with pytest.raises(ValueError, match="loss='logistic' needs classes"):
        StabilitySelection(loss="logistic").fit(X, X[:, 0])


@pytest.mark.parametrize("path", [lasso._lasso_path, lasso._logistic_path])
def test_a_weight_of_the_lasso_is_a_repetition(rng, path):
    X, weights = rng.normal(size=(40, 5)), rng.integers(1, 4, 40)
    y = (X[:, 0] + 0.5 * rng.normal(size=40) > 0).astype(float)
    X = X - np.average(X, axis=0, weights=weights)
    penalties = np.array([0.1, 0.05])
    relative = weights / weights.mean()
    repeated = path(np.repeat(X, weights, axis=0), np.repeat(y, weights), penalties, None)
    np.testing.assert_allclose(path(X, y, penalties, relative), repeated, atol=2e-3)


# ---------------------------------------------------------------- any selector


def test_halves_of_a_selector_are_complementary_pairs_and_frequencies_those_of_its_fits(data, recording):
    X, y = data
    fitted = StabilitySelection(recording, n_subsamples=5, random_state=0).fit(X, y)
    assert len(Recording.seen) == 6  # rounded up to pairs
    rows = {tuple(row): k for k, row in enumerate(X)}
    halves = [[rows[tuple(row)] for row in half[0]] for half in Recording.seen]
    for one, other in zip(halves[::2], halves[1::2], strict=True):
        assert not set(one) & set(other)
        for half in (one, other):
            assert half == sorted(half)
            assert np.bincount((y[half] > 0).astype(int)).tolist() == (np.bincount((y > 0).astype(int)) // 2).tolist()
    assert halves[0] != halves[2]
    np.testing.assert_allclose(fitted.probabilities_[:4], [1.0, 0.0, 0.5, 0.5])
    q = (np.ceil(15 / 2) + 5) / 2
    assert fitted.expected_false_bound_ == pytest.approx(q**2 / (0.2 * 15))


SELECTORS = {
    "RandSel": RandSel(4),
    "auto": RandSel(),
    "scan": InteractionScan(4, order=1),
    "RFE": RFE(LogisticRegression(), n_features_to_select=4),
    "SelectKBest": SelectKBest(k=4),
}


@pytest.mark.parametrize("selector", SELECTORS.values(), ids=SELECTORS)
def test_any_selector_finds_what_recurs(data, selector):
    X, y = data
    fits = [
        StabilitySelection(selector, n_subsamples=8, random_state=0, n_jobs=n).fit(pd.DataFrame(X).add_prefix("g"), y)
        for n in (None, 2)
    ]
    np.testing.assert_array_equal(fits[0].probabilities_, fits[1].probabilities_)
    assert fits[0].support_[:5].sum() >= 2
    assert not hasattr(selector, "support_")
    assert list(fits[0].get_feature_names_out()) == [f"g{j}" for j in np.flatnonzero(fits[0].support_)]
    exactly = StabilitySelection(selector, n_features_to_select=3, n_subsamples=4, random_state=0).fit(X, y)
    assert exactly.support_.sum() == 3
    assert exactly.transform(X).shape == (len(X), 3)


def test_metadata_is_passed_on_if_the_selector_takes_it(data, recording):
    X, y = data
    groups, batch, weights = np.arange(120) // 2, np.arange(120) % 3, np.linspace(1.0, 2.0, 120)
    selector = StabilitySelection(recording, n_subsamples=2, random_state=0)
    selector.fit(X, y, weights, groups=groups, batch=batch)
    for half, other in (Recording.seen, Recording.seen[::-1]):
        rows = np.flatnonzero(np.isin(X[:, 0], half[0][:, 0]))
        for values, passed in zip((weights, groups, batch), half[2:], strict=True):
            np.testing.assert_array_equal(values[rows], passed)
        assert not set(half[3]) & set(other[3])
    best = StabilitySelection(SelectKBest(k=3), n_subsamples=2, random_state=0)
    best.fit(X, y, groups=groups, batch=batch)
    for name, values in (("sample_weight", weights), ("covariates", X[:, :1])):
        with pytest.raises(ValueError, match=f"{name} was passed, but fit of SelectKBest does not take it"):
            best.fit(X, y, **{name: values})
    with pytest.raises(ValueError, match="covariates were passed, but the randomised lasso does not take them"):
        StabilitySelection(n_subsamples=2).fit(X, y, covariates=X[:, :1])


def test_groups_of_randsel_stay_together_and_batches_are_divided(data):
    X, y = data
    labels = {"groups": np.arange(120) // 2, "batch": np.arange(120) % 3}
    fitted = StabilitySelection(RandSel(4), n_subsamples=4, random_state=0).fit(X, y, **labels)
    assert fitted.support_[:5].sum() >= 2
    age = pd.DataFrame({"age": np.arange(120.0), "sex": np.where(np.arange(120) % 2, "f", "m")})
    adjusted = StabilitySelection(RandSel(4), n_subsamples=4, random_state=0).fit(X, y, covariates=age, **labels)
    assert adjusted.support_[:5].sum() >= 2
    lasso_fit = StabilitySelection(n_subsamples=4, random_state=0).fit(X, y, **labels)
    assert lasso_fit.support_[:5].sum() >= 2


def test_features_to_keep_are_always_selected(data):
    X, y = data
    frame = pd.DataFrame(X).add_prefix("g")
    fitted = StabilitySelection(RandSel(4, always_keep=["g9"]), n_subsamples=4, random_state=0).fit(frame, y)
    assert fitted.probabilities_[9] == 1.0


def test_a_pipeline_cross_validates_and_clones(data):
    model = make_pipeline(StabilitySelection(RandSel(3), n_subsamples=4, random_state=0), LogisticRegression())
    assert clone(model).fit(*data).score(*data) > 0.6
    assert "selector__n_features_to_select" in model[0].get_params()


# ---------------------------------------------------------------- checkpoint


@pytest.mark.parametrize("selector", [None, RandSel(3)])
def test_an_interrupted_fit_resumes(data, tmp_path, monkeypatch, selector):
    X, y = data
    whole = StabilitySelection(selector, n_subsamples=6, random_state=0).fit(X, y)
    stable = StabilitySelection(selector, n_subsamples=6, random_state=0, checkpoint=tmp_path / "halves")
    real, saved = FinishedParts.save, []

    def save(self, name, arrays, **how):
        real(self, name, arrays, **how)
        saved.append(name)
        if len(saved) == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(FinishedParts, "save", save)
        with pytest.raises(KeyboardInterrupt):
            stable.fit(X, y)
        saved.append("resumed")
        stable.set_params(threshold=0.9).fit(X, y)
    assert len(saved) == 7  # three halves were not computed again
    np.testing.assert_array_equal(stable.probabilities_, whole.probabilities_)
    clone(stable).set_params(n_subsamples=8).fit(X, y)
    with pytest.raises(ValueError, match="on other data"):
        clone(stable).fit(X[:, ::-1], y)
    with pytest.raises(ValueError, match="with other settings"):
        clone(stable).set_params(**{"lambda_min": 0.5} if selector is None else {"selector": RandSel(7)}).fit(X, y)


def test_a_selector_with_a_checkpoint_of_its_own_is_refused(data, tmp_path):
    with pytest.raises(ValueError, match="halves would share the checkpoint of the selector"):
        StabilitySelection(RandSel(checkpoint=tmp_path)).fit(*data)


@pytest.mark.parametrize(
    ("options", "arguments", "message"),
    [
        ({"selector": 4}, {}, "'selector' parameter of StabilitySelection must be an object implementing"),
        ({"selector": SelectKBest(k=2)}, {"groups": np.zeros(120)}, "half of the samples cannot be drawn"),
        ({"selector": SelectKBest(k=2)}, {"groups": np.zeros(3)}, "groups must hold one entry per sample"),
        ({"n_features_to_select": 16}, {}, "n_features_to_select=16 but X has n_features=15"),
    ],
)
def test_bad_input_is_named(data, options, arguments, message):
    with pytest.raises(ValueError, match=message):
        StabilitySelection(**options).fit(*data, **arguments)


def test_missing_values_of_nullable_columns_count_like_those_of_an_array(data):
    X, y = data
    X = np.where(X > 1.5, np.nan, X)
    frame = pd.DataFrame(X).add_prefix("f").convert_dtypes(dtype_backend="numpy_nullable")
    of_array, of_frame = (StabilitySelection(RandSel(3), n_subsamples=6, random_state=0).fit(Z, y) for Z in (X, frame))
    assert np.array_equal(of_frame.probabilities_, of_array.probabilities_)
    assert np.array_equal(of_frame.missing_counts_, np.isnan(X).sum(axis=0))
    assert of_frame.expected_false_bound_ == of_array.expected_false_bound_


def test_covariates_may_be_a_mapping(data):
    X, y = data
    age = np.random.default_rng(0).normal(size=len(y))
    site = np.where(np.arange(len(y)) % 3 == 0, "north", "south")
    covariates = {"age": age, "site": site}
    options = {"n_subsamples": 6, "random_state": 0}
    mapping, frame = (
        StabilitySelection(RandSel(3), **options).fit(X, y, covariates=c)
        for c in (covariates, pd.DataFrame(covariates))
    )
    assert np.array_equal(mapping.probabilities_, frame.probabilities_)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: X[:, 0], "Expected 2D array"),
        (lambda X: X[None], "Expected 2D array"),
        (lambda X: X[:0], "Found array with 0 sample"),
        (lambda X: pd.DataFrame(X[:, :2], columns=["a", "a"]), "share the name 'a'"),
    ],
)
def test_tables_of_a_wrong_shape_are_named(data, change, message):
    X, y = data
    with pytest.raises(ValueError, match=message):
        StabilitySelection(RandSel(1)).fit(change(X), y)


@pytest.mark.filterwarnings("ignore:No feature reaches the probability")
def test_rows_in_another_order_are_noticed(data):
    X, y = data
    labels = np.random.default_rng(0).permutation(len(y))
    with pytest.warns(UserWarning, match="same row labels in another order"):
        StabilitySelection(RandSel(1), n_subsamples=2).fit(pd.DataFrame(X).add_prefix("f"), pd.Series(y, index=labels))
