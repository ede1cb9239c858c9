"""The default decision of `RandSel`: promises that hold for every kind of target and every place of the numbers."""

import json

import numpy as np
import pytest
import sklearn
from sklearn.base import clone

from randsel import RandSel, datasets
from randsel._utils import files
from randsel.contribution import _closed_form

ROWS = 160


@pytest.fixture(scope="module")
def table():
    """Two features that act alone, two that act together, and 26 of noise; values that single precision holds."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(ROWS, 30)).astype(np.float32).astype(np.float64)
    numbers = X[:, 3] + X[:, 11] + 1.5 * X[:, 5] * X[:, 8] + 0.3 * rng.normal(size=ROWS)
    return X, numbers


@pytest.fixture(params=["two classes", "three classes", "numbers", "two outputs"])
def problem(request, table):
    X, numbers = table
    y = {
        "two classes": np.where(numbers > 0, "case", "control"),
        "three classes": np.digitize(numbers, [-0.7, 0.7]),
        "numbers": numbers,
        "two outputs": np.column_stack([X[:, 3] + X[:, 11], X[:, 5] * X[:, 8]]),
    }[request.param]
    return X, y


def assert_same_path(one, other, rtol=1e-9):
    """Assert that two fits agree in selection, order of culling, errors and permutation test."""
    assert np.array_equal(one.support_, other.support_)
    assert [list(r.features) for r in one.path_.rounds] == [list(r.features) for r in other.path_.rounds]
    np.testing.assert_allclose(one.path_.errors, other.path_.errors, rtol=rtol)
    np.testing.assert_allclose(one.path_.standard_errors, other.path_.standard_errors, rtol=1e4 * rtol, atol=1e-12)
    assert one.permutation_pvalue_ == other.permutation_pvalue_
    assert one.stands_out_ == other.stands_out_


# ---------------------------------------------------------------- kinds of targets, weights, fixed features


def test_settings_of_the_default(table):
    X, y = table
    explicit = RandSel(criterion="combined", ridge=3.0, scale="rank", min_features=1).fit(X, y)
    assert_same_path(RandSel().fit(X, y), explicit, rtol=0)
    assert len(explicit.path_.rounds[-1].features) == 1


def test_every_kind_of_target(problem):
    X, y = problem
    fitted = RandSel().fit(X, y)
    assert fitted.support_[[3, 5, 8, 11]].all()
    assert fitted.n_features_ <= 6
    assert fitted.stands_out_
    assert len(fitted.path_.errors) == len(fitted.path_.standard_errors) == len(fitted.path_.rounds)
    assert set(fitted.get_support(indices=True)) == set(fitted.path_.rounds[fitted.path_.best].features)


@pytest.mark.parametrize("seed", range(3))
def test_one_strong_feature_is_selected_alone(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(100, 50))
    y = X[:, 7] + 0.1 * rng.normal(size=100)
    assert list(RandSel().fit(X, y).get_support(indices=True)) == [7]


def test_weight_zero_leaves_samples_out(problem, rng):
    X, y = problem
    weights = rng.integers(0, 3, ROWS).astype(float)
    rows = weights > 0
    spoiled = X.copy()
    spoiled[~rows] = 1e6
    groups, batch = np.arange(ROWS) // 4, np.arange(ROWS) % 2
    weighted = RandSel().fit(spoiled, y, weights, groups=groups, batch=batch)
    expected = RandSel().fit(X[rows], y[rows], weights[rows], groups=groups[rows], batch=batch[rows])
    assert_same_path(weighted, expected)


def test_only_ratios_of_weights_matter_and_equal_weights_are_none(problem, rng):
    X, y = problem
    weights = rng.random(ROWS) + 0.5
    fitted = RandSel().fit(X, y, weights)
    assert fitted.support_[[3, 5, 8, 11]].all()
    assert_same_path(fitted, RandSel().fit(X, y, 7.0 * weights), rtol=1e-8)
    assert_same_path(RandSel().fit(X, y, np.full(ROWS, 3.0)), RandSel().fit(X, y), rtol=0)


def test_samples_of_small_weight_hardly_matter(table):
    """Half of the samples follow another pair of features: weights say which half counts."""
    X, y = table
    y = y.copy()
    y[::2] = 3 * X[::2, 20]
    weights = np.where(np.arange(ROWS) % 2, 1.0, 0.01)
    assert not RandSel(4).fit(X, y, weights).support_[20]
    assert RandSel(4).fit(X, y, 1.01 - weights).support_[20]


def test_fixed_features_stay_to_the_end(problem):
    X, y = problem
    fitted = RandSel(fix_top=0.15, fix_after=2).fit(X, y)
    assert {3, 11} <= set(fitted.fixed_) <= set(fitted.path_.rounds[-1].features)
    assert np.isfinite(fitted.path_.errors).all()


def test_increasing_transforms_change_nothing(problem):
    X, y = problem
    transformed = X.copy()
    transformed[:, ::2] = np.exp(2 * X[:, ::2])
    assert_same_path(RandSel().fit(transformed, y), RandSel().fit(X, y))


# ---------------------------------------------------------------- groups and batches


@pytest.fixture
def donors():
    """Forty donors of four samples: a column tells donors apart, and has nothing to do with other donors."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 4)
    y = rng.normal(size=40)[groups]
    X = rng.normal(size=(160, 20))
    X[:, :10] = rng.normal(size=(40, 10))[groups]
    return X, y, groups


def test_errors_leave_out_whole_groups(donors):
    """Columns that name the donor predict its other samples, but not another donor."""
    X, y, groups = donors
    alone, together = RandSel().fit(X, y), RandSel().fit(X, y, groups=groups)
    assert alone.path_.errors[0] < 0.9 < 1.0 < together.path_.errors[0]
    assert alone.path_.errors.min() < together.path_.errors.min()
    assert alone.stands_out_
    assert not together.stands_out_


def test_names_and_order_of_groups_do_not_matter(problem, rng):
    X, y = problem
    groups = rng.permutation(ROWS) // 4
    names = np.array([f"donor {7 * group % 40}" for group in groups], dtype=object)
    fitted = RandSel().fit(X, y, groups=groups)
    np.testing.assert_allclose(RandSel().fit(X, y, groups=names).path_.errors, fitted.path_.errors, rtol=1e-12)
    rows = rng.permutation(ROWS)
    moved = RandSel().fit(X[rows], y[rows], groups=groups[rows])
    np.testing.assert_allclose(moved.path_.errors, fitted.path_.errors, rtol=1e-7)
    assert np.array_equal(moved.support_, fitted.support_)


def test_groups_of_one_sample_leave_out_single_samples_and_one_group_is_none(problem):
    X, y = problem
    plain = RandSel().fit(X, y)
    np.testing.assert_allclose(RandSel().fit(X, y, groups=np.arange(ROWS)).path_.errors, plain.path_.errors, rtol=1e-8)
    assert_same_path(RandSel().fit(X, y, groups=np.zeros(ROWS)), plain, rtol=0)


def test_one_batch_is_none(table):
    """The only batch is a small one here: without it, no sample is left to predict from."""
    X, y = (values[:10] for values in table)
    with pytest.warns(UserWarning, match="Nothing stands out"):
        plain, batched = RandSel().fit(X, y), RandSel().fit(X, y, batch=np.zeros(10))
    assert_same_path(batched, plain, rtol=0)


def test_batches_restrict_permutations(table):
    """A column that tells batches apart is related to y only because batches differ in y."""
    X, _ = table
    batch = np.arange(ROWS) // 40
    rng = np.random.default_rng(1)
    y = batch + 0.1 * rng.normal(size=ROWS)
    confounded = np.column_stack([batch + 0.3 * rng.normal(size=ROWS), X[:, 12:]])
    assert RandSel().fit(confounded, y).permutation_pvalue_ == 0.01
    assert RandSel().fit(confounded, y, batch=batch).permutation_pvalue_ > 0.04


@pytest.mark.parametrize("name", ["groups", "batch"])
@pytest.mark.parametrize("labels", [np.arange(10), np.full(ROWS, np.nan), np.array([None] * ROWS)])
def test_labels_of_samples_are_checked(table, name, labels):
    with pytest.raises(ValueError, match=f"{name} must hold one entry per sample"):
        RandSel().fit(*table, **{name: labels})


# ---------------------------------------------------------------- row blocks


def test_row_blocks(problem, monkeypatch, rng):
    X, y = problem
    monkeypatch.setattr(_closed_form, "MAX_ROWS", 100)
    fitted = RandSel(random_state=0).fit(X, y)
    assert fitted.support_[[3, 11]].all()
    assert len(fitted.path_.rounds[0].errors) == ROWS
    assert fitted.stands_out_
    order = rng.permutation(30)
    moved = RandSel(random_state=0).fit(X[:, order], y)
    assert set(order[moved.get_support(indices=True)]) == set(fitted.get_support(indices=True))
    weights, groups = np.linspace(0.5, 1.5, ROWS), np.arange(ROWS) // 4
    assert RandSel(random_state=0).fit(X, y, weights, groups=groups).support_[[3, 11]].all()


def test_errors_of_row_blocks_are_in_the_order_of_the_rows(monkeypatch):
    """Every round draws other blocks; errors of rounds are compared sample by sample."""
    monkeypatch.setattr(_closed_form, "MAX_ROWS", 100)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 12))
    y = X[:, 0].copy()
    y[17] += 30.0
    for r in RandSel(random_state=0).fit(X, y).path_.rounds:
        assert r.errors.argmax() == 17


# ---------------------------------------------------------------- places and precisions of the numbers


def test_order_of_columns_and_number_of_jobs(problem, rng, monkeypatch):
    X, y = problem
    order = rng.permutation(30)
    plain, moved = RandSel().fit(X, y), RandSel().fit(X[:, order], y)
    assert np.array_equal(moved.ranking_, plain.ranking_[order])
    assert np.array_equal(moved.path_.errors, plain.path_.errors)
    monkeypatch.setattr(_closed_form, "MAX_ROWS", 100)
    one, two = (RandSel(random_state=0, n_jobs=jobs).fit(X, y) for jobs in (1, 2))
    assert_same_path(one, two, rtol=0)


def test_single_precision_selects_the_same(problem):
    X, y = problem
    single, double = RandSel().fit(X.astype(np.float32), y), RandSel().fit(X, y)
    assert np.array_equal(single.support_, double.support_)
    np.testing.assert_allclose(single.path_.errors, double.path_.errors, rtol=1e-4)
    assert single.permutation_pvalue_ == double.permutation_pvalue_


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_memory_map(problem, dtype, tmp_path, monkeypatch):
    X, y = problem
    X = X.astype(dtype)
    np.save(tmp_path / "X.npy", X)
    monkeypatch.setattr("randsel.selectors._features.memory_for_columns", lambda *_: X.nbytes // 3)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    groups = np.arange(ROWS) // 4
    streamed = RandSel(max_memory="1MB").fit(mapped, y, groups=groups)
    assert_same_path(streamed, RandSel().fit(X, y, groups=groups), rtol=1e-9 if dtype == np.float64 else 1e-4)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_torch_tensors(problem, dtype):
    torch = pytest.importorskip("torch")
    X, y = problem
    if y.dtype.kind == "U":
        y = (y == "case").astype(int)
    weights, groups = np.linspace(0.5, 1.5, ROWS), np.arange(ROWS) // 4
    with sklearn.config_context(array_api_dispatch=True):
        found = RandSel().fit(torch.as_tensor(X.astype(dtype)), torch.as_tensor(y), weights, groups=groups)
    expected = RandSel().fit(X, y, weights, groups=groups)
    assert np.array_equal(found.support_, expected.support_)
    np.testing.assert_allclose(found.path_.errors, expected.path_.errors, rtol=1e-8 if dtype == "float64" else 1e-4)
    assert found.permutation_pvalue_ == expected.permutation_pvalue_


@pytest.mark.parametrize("chunks", [(ROWS, 7), (50, 30)])
@pytest.mark.parametrize("max_rows", [2000, 100])
def test_dask_arrays(problem, chunks, max_rows, monkeypatch):
    da = pytest.importorskip("dask.array", reason="Dask is not installed (extra 'dask')")
    X, y = problem
    monkeypatch.setattr(_closed_form, "MAX_ROWS", max_rows)
    weights, groups = np.linspace(0.0, 1.5, ROWS), np.arange(ROWS) // 4
    found = RandSel(random_state=0).fit(da.from_array(X, chunks=chunks), y, weights, groups=groups)
    assert_same_path(found, RandSel(random_state=0).fit(X, y, weights, groups=groups), rtol=1e-7)


# ---------------------------------------------------------------- checkpoints and callbacks


class StopError(Exception):
    """Ends a fit."""


@pytest.mark.parametrize("options", [{}, {"fix_top": 0.15, "fix_after": 2}, {"kernel": "rank"}])
def test_a_fit_that_was_interrupted_ends_with_the_same_result(table, options, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MIN_SECONDS", 0.0)
    monkeypatch.setattr(files, "MIN_MULTIPLE", 0.0)
    X, y = table
    weights, groups = np.linspace(0.0, 1.5, ROWS), np.arange(ROWS) // 4
    selector = RandSel(checkpoint=tmp_path / "fit", **options)
    seen = []

    def save(real, *arguments):
        seen.append(real(*arguments))
        if len(seen) == 5:
            raise StopError

    real = files.Stages.save
    with monkeypatch.context() as patch:
        patch.setattr(files.Stages, "save", lambda *arguments: save(real, *arguments))
        with pytest.raises(StopError):
            clone(selector).fit(X, y, weights, groups=groups)
    resumed = clone(selector).fit(X, y, weights, groups=groups)
    assert json.loads((tmp_path / "fit" / "run.json").read_text())["parameters"]["criterion"] == "combined"
    assert_same_path(resumed, RandSel(**options).fit(X, y, weights, groups=groups), rtol=0)
    with pytest.raises(ValueError, match="on other data"):
        clone(selector).fit(X, y, weights)


def test_a_callback_sees_the_errors_so_far(table):
    X, y = table
    if not hasattr(RandSel, "set_callbacks"):
        pytest.skip("callbacks came with scikit-learn 1.9")
    seen = []

    class Watch:
        max_propagation_depth = None

        def setup(self, estimator, context):
            pass

        def teardown(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            if context.task_name == "round":
                seen.append(fitted_estimator)
            return len(seen) == 6

    stopped, whole = RandSel().set_callbacks(Watch()).fit(X, y), RandSel().fit(X, y)
    for number, fitted in enumerate(seen, start=1):
        assert np.array_equal(fitted.path_.errors, whole.path_.errors[:number])
        assert fitted.support_.sum() == len(fitted.path_.rounds[fitted.path_.best].features)
    assert len(stopped.path_.rounds) == 6
    assert stopped.permutation_pvalue_ == whole.permutation_pvalue_


def test_rounds_that_verbose_is_called_with(table):
    seen = []
    fitted = RandSel(verbose=seen.append).fit(*table)
    assert [r.errors.mean() for r in seen] == pytest.approx(fitted.path_.errors.tolist())


# ---------------------------------------------------------------- redundant features


@pytest.mark.parametrize("seed", range(2))
def test_copies_of_one_feature_do_not_hide_an_independent_one(seed):
    """Fifty copies of a gene (r = 0.95), one independent gene of equal effect, and noise."""
    rng = np.random.default_rng(seed)
    gene, other = rng.normal(size=(2, 150))
    copies = 0.95 * gene[:, None] + np.sqrt(1 - 0.95**2) * rng.normal(size=(150, 50))
    X = np.column_stack([copies, other, rng.normal(size=(150, 449))])
    y = gene + other + 0.5 * rng.normal(size=150)
    fitted = RandSel().fit(X, y)
    first = fitted.order_[:3]
    assert 50 in first
    assert (first < 50).any()
    assert (fitted.get_support(indices=True) > 50).sum() <= 10


def test_xor_among_many_features_stands_out():
    X, y, relevant = datasets.make_xor(300, 200, random_state=3)
    fitted = RandSel().fit(X, y)
    assert list(fitted.get_support(indices=True)) == list(relevant)
    assert fitted.stands_out_


def test_copies_of_one_feature_do_not_bury_an_independent_one():
    """Fifty copies (r = 0.95) of one gene, an independent gene of equal effect, and 449 columns of noise."""
    n_noise = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        first, second = rng.normal(size=(2, 150))
        copies = 0.95 * first[:, None] + np.sqrt(1 - 0.95**2) * rng.normal(size=(150, 50))
        X = np.column_stack([copies, second, rng.normal(size=(150, 449))])
        y = (first + second + 0.5 * rng.normal(size=150) > 0).astype(int)
        selector = RandSel().fit(X, y)
        assert 50 in selector.order_[:3]
        assert (selector.order_[:3] < 50).any()
        n_noise.append((selector.get_support(indices=True) > 50).sum())
    # Single data sets exceed ten: docs/results/auto.md has the most.
    assert np.mean(n_noise) <= 10


def test_one_strong_feature_alone_is_selected_alone():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 300))
    y = (X[:, 0] + 0.3 * rng.normal(size=150) > 0).astype(int)
    assert RandSel().fit(X, y).get_support(indices=True).tolist() == [0]


@pytest.mark.data
@pytest.mark.parametrize("name", ["colon", "tb_gambia_ord", "riboflavin"])
def test_single_and_double_precision_rank_real_tables_equally(name, benchmark_set):
    data = benchmark_set(name)
    X = data["X"].astype(np.float32)
    single, double = (RandSel().fit(X.astype(dtype), data["y"]) for dtype in (np.float32, np.float64))
    assert single.n_features_ == double.n_features_
    np.testing.assert_array_equal(single.order_[:50], double.order_[:50])


@pytest.mark.data
@pytest.mark.parametrize(("name", "log2"), [("colon", False), ("colon", True), ("riboflavin", False)])
def test_real_signals_stand_out(name, log2, benchmark_set):
    data = benchmark_set(name)
    X = np.log2(data["X"]) if log2 else data["X"]
    assert RandSel(20).fit(X, data["y"]).stands_out_


@pytest.mark.data
def test_latent_infection_does_not_stand_out_between_donors(benchmark_set):
    data = benchmark_set("tb_gse107993_ltbi")
    with pytest.warns(UserWarning, match="Nothing stands out"):
        RandSel(20).fit(data["X"], data["y"], groups=data["groups"])
