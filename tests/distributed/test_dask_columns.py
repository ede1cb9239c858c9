"""Tables in blocks on a Dask cluster: the same answer as in memory, for any blocks, and if workers are killed."""

import time

import numpy as np
import pytest
from cluster import cluster

from randsel import InteractionScan, RandSel, datasets, read_blocks
from randsel.contribution import _nonlinear
from randsel.distributed import ClusterLostError
from randsel.distributed import _columns as cluster_columns

da = pytest.importorskip("dask.array", reason="Dask is not installed (extra 'dask')")
dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")

#: Largest difference of a score from that of the table in memory, in double and in single precision.
TOLERANCE = {"float64": 1e-8, "float32": 2e-3}


@pytest.fixture(autouse=True)
def in_this_process():
    """Compute blocks one after the other in this process, unless a test has a cluster."""
    with dask.config.set(scheduler="sync"):
        yield


@pytest.fixture(scope="module")
def xor():
    X, y, _ = datasets.make_xor(150, 900, random_state=1)
    X[:, 7] = 3.0
    X[:, 450] = X[:, 3]
    return X, y


@pytest.fixture
def little_memory(monkeypatch):
    """Load almost no columns into this process, so that all rounds but the last work on blocks."""
    from_array = cluster_columns.ClusterColumns.from_array

    def small(X, scaling, max_bytes):
        return from_array(X, scaling, 20 * 8 * len(X))

    monkeypatch.setattr(cluster_columns.ClusterColumns, "from_array", small)


def same_path(found, expected, dtype="float64"):
    __tracebackhide__ = True
    assert list(found.get_support(indices=True)) == list(expected.get_support(indices=True))
    sizes = [len(r.features) for r in expected.path_.rounds]
    assert [len(r.features) for r in found.path_.rounds] == sizes
    first, reference = found.path_.rounds[0], expected.path_.rounds[0]
    for field in ("features", "contributions", "main", "interaction"):
        a, b = getattr(first, field), getattr(reference, field)
        np.testing.assert_allclose(a, b, atol=TOLERANCE[dtype] * np.abs(b).max())


CHUNKS = {
    "blocks of columns": (150, 128),
    "unequal blocks": (150, (1, 7, 492, 400)),
    "one block": (150, 900),
    "blocks of rows": (40, 900),
    "both": (50, 200),
}


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_path_does_not_depend_on_blocks(xor, chunks, dtype):
    X, y = xor[0].astype(dtype), xor[1]
    same_path(RandSel(10).fit(da.from_array(X, chunks=chunks), y), RandSel(10).fit(X, y), dtype)


@pytest.mark.usefixtures("little_memory")
def test_normal_scores_of_blocks_of_rows(xor, rng):
    X, y = xor
    weights = rng.integers(0, 3, len(y)).astype(float)
    expected = RandSel(10, scale="normal").fit(X, y, weights)
    same_path(RandSel(10, scale="normal").fit(da.from_array(X, chunks=(40, 900)), y, weights), expected)


OPTIONS = {
    "fixing": {"fix_top": 0.1, "fix_after": 2},
    "not scaled": {"scale": False},
    "z-scores": {"scale": True},
    "calibrated": {"criterion": "calibrated", "scale": True},
    "total": {"criterion": "total"},
    "all features element by element": {"gamma": 1.0},
    "some": {"gamma": "8*median"},
}


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_options_give_the_same_path_as_in_memory(xor, options):
    X, y = xor
    same_path(RandSel(10, **options).fit(da.from_array(X, chunks=(150, 200)), y), RandSel(10, **options).fit(X, y))


@pytest.mark.usefixtures("little_memory")
def test_heavy_tails_take_the_elementwise_route_in_blocks(rng):
    X, y = rng.standard_t(1.5, size=(60, 300)), rng.integers(0, 2, 60)
    X[:, 0] += 2 * y
    same_path(RandSel(5).fit(da.from_array(X, chunks=(60, 50)), y), RandSel(5).fit(X, y))


def test_the_elementwise_route_reads_a_memory_map_in_blocks(rng, monkeypatch, tmp_path):
    X, y = rng.standard_t(1.5, size=(60, 300)), rng.integers(0, 2, 60)
    np.save(tmp_path / "X.npy", X)
    expected = RandSel(5).fit(X, y)
    monkeypatch.setattr("randsel.selectors._features.memory_for_columns", lambda *_: int(0.1 * X.nbytes))
    used = []
    made = _nonlinear.StreamedElements.forms
    monkeypatch.setattr(
        _nonlinear.StreamedElements, "forms", lambda self, *given: used.append(self) or made(self, *given)
    )
    found = RandSel(5, max_memory="1MB").fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y)
    same_path(found, expected)
    assert len(used) > 1


@pytest.mark.usefixtures("little_memory")
def test_weighted_fits_and_rows_of_weight_zero(xor, rng):
    X, y = xor
    weights = rng.integers(0, 3, len(y)).astype(float)
    D, w = da.from_array(X, chunks=(150, 200)), da.from_array(weights)
    same_path(RandSel(5).fit(D, da.from_array(y), w), RandSel(5).fit(X, y, weights))


@pytest.mark.usefixtures("little_memory")
def test_row_blocks_go_to_one_worker_if_small_enough(monkeypatch):
    monkeypatch.setattr("randsel.contribution._closed_form.MAX_ROWS", 200)
    X, y, _ = datasets.make_xor(430, 120, random_state=2)
    expected = RandSel(5, random_state=0).fit(X, y)
    ways = []
    on_rows = cluster_columns.ClusterColumns.map_row_blocks
    monkeypatch.setattr(
        cluster_columns.ClusterColumns, "map_row_blocks", lambda *given: ways.append(on_rows(*given)) or ways[-1]
    )
    # a block of 215 rows is no larger than one of 60 columns, and goes to one worker; beside 30 columns it is larger
    for chunks, at_once in (((100, 120), False), ((430, 30), False), ((430, 60), True), ((430, 120), True)):
        ways.clear()
        found = RandSel(5, random_state=0).fit(da.from_array(X, chunks=chunks), y)
        same_path(found, expected)
        assert (ways[0] is not None) == at_once


def test_the_order_of_columns_does_not_matter(xor, rng):
    X, y = xor[0][:, :400], xor[1]
    order = rng.permutation(400)
    expected = RandSel(4).fit(da.from_array(X, chunks=(150, 100)), y)
    found = RandSel(4).fit(da.from_array(X[:, order], chunks=(150, 64)), y)
    assert set(order[found.get_support(indices=True)]) == set(expected.get_support(indices=True))


def test_integers_and_transform(xor):
    X, y = (xor[0][:, :50] * 10).astype(int), xor[1]
    D = da.from_array(X, chunks=(150, 20))
    selector = RandSel(3).fit(D, y)
    assert list(selector.get_support()) == list(RandSel(3).fit(X, y).get_support())
    chosen = selector.transform(D)
    assert isinstance(chosen, da.Array)
    np.testing.assert_array_equal(chosen.compute(), X[:, selector.get_support()])
    assert isinstance(selector.transform(X), np.ndarray)
    with pytest.raises(ValueError, match="50 features"):
        selector.transform(D[:, :20])


def parquet(path, X, y, parts=1):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(X, [f"gene{j}" for j in range(X.shape[1])]).with_columns(label=polars.Series(y))
    if parts == 1:
        frame.write_parquet(path)
        return path
    path.mkdir()
    for number in range(parts):
        frame[number * len(y) // parts : (number + 1) * len(y) // parts].write_parquet(path / f"{number:02d}.parquet")
    return path


def zarr_group(path, X, y):
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(str(path), mode="w")
    group.create_array("X", data=X, chunks=(50, 64))
    group.create_array("label", data=y)
    group.create_array("names", data=np.array([f"gene{j}" for j in range(X.shape[1])], dtype="<U10"))
    return path


TABLES = {
    "Parquet": lambda folder, X, y: parquet(folder / "x.parquet", X, y),
    "several Parquet files": lambda folder, X, y: parquet(folder / "x", X, y, parts=3),
    "Zarr": lambda folder, X, y: zarr_group(folder / "x.zarr", X, y),
}


@pytest.mark.parametrize("write", TABLES.values(), ids=TABLES)
@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")  # text, of which names are made
def test_tables_in_files_are_read_in_blocks(xor, tmp_path, write):
    X, y = xor
    table = read_blocks(write(tmp_path, X, y), "label", columns=200)
    assert len(table.X.chunks[0]) == 1
    assert 4 < len(table.X.chunks[1]) < 8
    assert table.names[899] == "gene899"
    np.testing.assert_array_equal(table.y, y)
    np.testing.assert_array_equal(table.X.compute(), X)
    same_path(RandSel(10).fit(table.X, table.y), RandSel(10).fit(X, y))


def test_a_zarr_array_without_a_group(xor, tmp_path):
    pytest.importorskip("zarr")
    da.from_array(xor[0], chunks=(150, 200)).to_zarr(str(tmp_path / "X.zarr"))
    table = read_blocks(tmp_path / "X.zarr")
    assert table.y is None
    assert table.X.shape == (150, 900)
    assert table.names[1] == "1"


WRONG = {
    "absent": (lambda f, X, y: f / "no.parquet", "label", "does not exist"),
    "no target": (lambda f, X, y: parquet(f / "x.parquet", X, y), "lable", "has no column 'lable', but gene0"),
    "text": (lambda f, X, y: parquet(f / "x.parquet", X.astype(str), y), "label", "'gene0' .* does not hold numbers"),
    "other": (lambda f, X, y: (f / "x.csv").write_text("a") and f / "x.csv", None, "neither Zarr nor Parquet"),
    "an empty folder": (lambda f, X, y: f, None, "neither Zarr nor Parquet"),
}


@pytest.mark.parametrize(("write", "target", "message"), WRONG.values(), ids=WRONG)
def test_files_that_cannot_be_read_in_blocks(xor, tmp_path, write, target, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        read_blocks(write(tmp_path, xor[0][:, :5], xor[1]), target)


def test_missing_values_in_parquet_are_neutral(xor, tmp_path):
    X, y = xor[0][:, :10].copy(), xor[1]
    X[3, 4] = np.nan
    table = read_blocks(parquet(tmp_path / "x.parquet", X, y), "label", columns=3)
    found = RandSel().fit(table.X, table.y)
    assert found.missing_counts_.tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 0, 0]
    same_path(found, RandSel().fit(X, y))


@pytest.mark.parametrize("scale", ["rank", "normal", True, False])
def test_missing_values_in_blocks_are_neutral(xor, rng, scale, little_memory):
    X, y = xor[0].copy(), xor[1]
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:100, 30] = np.nan
    selectors = []
    for table in (X, da.from_array(X, chunks=(150, 128))):
        with pytest.warns(UserWarning, match="One column is left out, because more than 50 %.*: 30[.]"):
            selectors.append(RandSel(5, scale=scale).fit(table, y))
    same_path(*selectors[::-1])
    assert selectors[1].missing_counts_.tolist() == np.isnan(X).sum(axis=0).tolist()


# ---------------------------------------------------------------- pairs


@pytest.fixture(scope="module")
def mixed():
    """Columns of several kinds: plain, tied, of few levels, constant, nominal; a main effect and a pair."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((160, 120))
    X[:, 20:50] = rng.integers(0, 3, (160, 30))
    X[:, 50:60] = np.round(X[:, 50:60], 1)
    X[:, 60] = 1.0
    X[:, 61] = rng.integers(0, 4, 160)
    y = (X[:, 3] * X[:, 70] + 1.5 * (X[:, 30] == 1) + 0.3 * rng.standard_normal(160) > 0.3).astype(int)
    return X, y


def same_scan(found, expected):
    __tracebackhide__ = True
    assert list(found.get_support(indices=True)) == list(expected.get_support(indices=True))
    for name in ("pvalues_", "main_pvalues_", "qvalues_", "partner_pvalues_"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-4)
    np.testing.assert_array_equal(found.partner_, expected.partner_)
    assert list(found.taken_) == list(expected.taken_)
    first = [(row["i"], row["j"], row["step"]) for row in expected.pairs_[:50]]
    assert [(row["i"], row["j"], row["step"]) for row in found.pairs_[:50]] == first
    np.testing.assert_allclose(found.pairs_["p"][:50], expected.pairs_["p"][:50], rtol=1e-4)


PIECES = {"columns": (160, 25), "unequal": (160, (1, 60, 59)), "one": (160, 120), "rows": (50, 120), "both": (70, 50)}


@pytest.mark.slow
@pytest.mark.parametrize("chunks", PIECES.values(), ids=PIECES)
def test_pairs_do_not_depend_on_blocks(mixed, chunks):
    X, y = mixed
    expected = InteractionScan(categorical_features=[61]).fit(X, y)
    assert {3, 70} <= set(expected.pairs_[0].tolist()[:2]) | set(expected.taken_)
    same_scan(InteractionScan(categorical_features=[61]).fit(da.from_array(X, chunks=chunks), y), expected)


@pytest.mark.slow
def test_pairs_with_weights_strata_numbers_and_no_pairs(mixed, rng):
    X, y = mixed
    D = da.from_array(X, chunks=(160, 40))
    weights, batch = rng.integers(0, 3, 160).astype(float), rng.integers(0, 3, 160)
    same_scan(InteractionScan().fit(D, y, weights), InteractionScan().fit(X, y, weights))
    same_scan(InteractionScan().fit(D, y, batch=batch), InteractionScan().fit(X, y, batch=batch))
    numbers = X[:, 3] * X[:, 70] + 0.1 * rng.standard_normal(160)
    same_scan(InteractionScan().fit(D, numbers), InteractionScan().fit(X, numbers))
    alone, expected = InteractionScan(order=1).fit(D, y), InteractionScan(order=1).fit(X, y)
    np.testing.assert_allclose(alone.pvalues_, expected.pvalues_, rtol=1e-4)


def test_a_scan_in_blocks_resumes_from_a_checkpoint(mixed, tmp_path, monkeypatch):
    monkeypatch.setattr("randsel._utils.files.MIN_SECONDS", 0.0)
    monkeypatch.setattr("randsel._utils.files.MIN_MULTIPLE", 0.0)
    X, y = mixed
    D = da.from_array(X, chunks=(160, 30))
    rows = []

    def stop(done, total):
        rows.append(done)
        if len(rows) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        InteractionScan(checkpoint=tmp_path, verbose=stop).fit(D, y)
    rest = []
    found = InteractionScan(checkpoint=tmp_path, verbose=lambda done, _: rest.append(done)).fit(D, y)
    assert rows == [4, 7]
    assert rest[-2:] == [9, 10]
    assert min(rest) >= 7
    same_scan(found, InteractionScan().fit(X, y))


def test_pairs_with_missing_values(mixed, rng):
    X, y = mixed[0].copy(), mixed[1]
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:100, 90] = np.nan
    batch = rng.integers(0, 3, 160)
    scans = []
    for table in (X, da.from_array(X, chunks=(160, 40))):
        with pytest.warns(UserWarning, match="One column is left out"):
            scans.append(InteractionScan(categorical_features=[61]).fit(table, y, batch=batch))
    same_scan(*scans[::-1])
    assert scans[1].missing_counts_.tolist() == np.isnan(X).sum(axis=0).tolist()


def test_triples_and_infinite_values_are_refused(mixed):
    X, y = mixed
    D = da.from_array(X, chunks=(160, 40))
    with pytest.raises(ValueError, match="order=1 or 2"):
        InteractionScan(order=3).fit(D, y)
    with pytest.raises(ValueError, match="infinity in column 45"):
        InteractionScan().fit(da.where(da.arange(120, chunks=40) == 45, np.inf, D), y)


MISTAKES = {
    "infinite": (lambda X: np.where(np.arange(900) == 505, np.inf, X), {}, "infinity in column 505 .150 values.; repl"),
    "several": (lambda X: np.where(np.arange(900) > 700, np.inf, X), {}, "infinity in column 701 .* and in 198 other"),
    "constant": (np.ones_like, {}, "Every column of X is constant"),
    "text": (lambda X: X.astype(str), {}, "Dask array of type <U"),
    "rank": (np.array, {"kernel": "rank"}, "A Dask array needs kernel='gaussian'"),
    "bootstrap": (np.array, {"estimator": "bootstrap"}, "pass an array in memory"),
    "device": (np.array, {"device": "cuda"}, "no device"),
    "one sample": (lambda X: X[:1], {}, "at least 4|inconsistent"),
}


@pytest.mark.parametrize(("change", "options", "message"), MISTAKES.values(), ids=MISTAKES)
def test_unsuitable_tables_and_options_are_refused(xor, change, options, message):
    X, y = change(xor[0]), xor[1]
    with pytest.raises(ValueError, match=message):
        RandSel(**options).fit(da.from_array(X, chunks=(150, 200)), y[: len(X)])


def test_an_array_of_unknown_size_is_refused(xor):
    X, y = xor
    D = da.from_array(X, chunks=(50, 900))
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        RandSel().fit(D[D[:, 0] > -100], y)


# ---------------------------------------------------------------- on a cluster


@pytest.fixture(scope="module")
def wide():
    X, y, _ = datasets.make_xor(500, 20_000, random_state=0)
    return X, y, RandSel(10).fit(X, y)


@pytest.fixture
def client(workers):
    """Nothing may be killed on this cluster."""
    with distributed.Client(workers.address) as client, dask.config.set(scheduler=client):
        yield client


@pytest.mark.slow
def test_the_full_path_on_four_workers_equals_the_local_one(client, wide):
    X, y, expected = wide
    assert len(client.scheduler_info(n_workers=-1)["workers"]) == 4
    found = RandSel(10).fit(da.from_array(X, chunks=(500, 2500)), y)
    same_path(found, expected)
    assert list(found.order_) == list(expected.order_)


@pytest.mark.slow
def test_pairs_on_four_workers_equal_the_local_ones(client, mixed):
    X, y = mixed
    same_scan(InteractionScan().fit(da.from_array(X, chunks=(160, 25)), y), InteractionScan().fit(X, y))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Sending large graph")  # by this test, to have the table on the cluster
def test_nothing_larger_than_a_block_and_a_matrix_of_pairs_travels(client, wide):
    X, y, _ = wide
    D = da.from_array(X, chunks=(500, 1000)).persist()
    distributed.wait(D)
    began = time.time()
    RandSel(10).fit(D, y)
    block, pairs = 500 * 1000 * 8, 500 * 500 * 8

    def largest(since, dask_worker):
        log = [*dask_worker.transfer_incoming_log, *dask_worker.transfer_outgoing_log]
        return max((size for entry in log if entry["start"] > since for size in entry["keys"].values()), default=0)

    sizes = client.run(largest, began).values()
    # sums over pairs are two matrices and a few vectors
    assert 0 < max(sizes) <= block + 2.2 * pairs


@pytest.mark.slow
def test_workers_killed_in_the_middle_change_nothing(wide):
    X, y, expected = wide
    with cluster(4) as here, distributed.Client(here.address) as client, dask.config.set(scheduler=client):
        seen = []

        def killing(r):
            seen.append(len(r.features))
            if len(seen) in (2, 4, 6):
                here.kill_worker(len(seen) // 2)

        found = RandSel(10, verbose=killing).fit(da.from_array(X, chunks=(500, 1000)), y)
        assert len(client.scheduler_info(n_workers=-1)["workers"]) == 1
    same_path(found, expected)
    assert list(found.order_) == list(expected.order_)


@pytest.mark.slow
def test_a_lost_scheduler_raises_a_clear_error(wide):
    X, y, _ = wide
    with cluster(2) as here, distributed.Client(here.address) as client, dask.config.set(scheduler=client):

        def killing(r):
            here.kill_scheduler()

        with pytest.raises(ClusterLostError, match=r"the scheduler at tcp.* was lost"):
            RandSel(10, verbose=killing).fit(da.from_array(X, chunks=(500, 1000)), y)


@pytest.mark.slow
def test_a_fit_resumes_after_a_lost_scheduler(wide, tmp_path, monkeypatch):
    monkeypatch.setattr("randsel._utils.files.MIN_SECONDS", 0.0)
    monkeypatch.setattr("randsel._utils.files.MIN_MULTIPLE", 0.0)
    X, y, expected = wide
    D = da.from_array(X, chunks=(500, 2500))
    with cluster(2) as here, distributed.Client(here.address) as client, dask.config.set(scheduler=client):
        seen = []

        def killing(r):
            seen.append(len(r.features))
            if len(seen) == 3:
                here.kill_scheduler()

        with pytest.raises(ClusterLostError):
            RandSel(10, checkpoint=tmp_path, verbose=killing).fit(D, y)
    later = []
    # without a cluster, and in other blocks
    found = RandSel(10, checkpoint=tmp_path, verbose=lambda r: later.append(len(r.features))).fit(
        da.from_array(X, chunks=(500, 4000)), y
    )
    # the third round was saved before the fit noticed the loss, so the fourth is next
    assert later[0] == len(expected.path_.rounds[3].features)
    same_path(found, expected)
    assert list(found.order_) == list(expected.order_)
    with pytest.raises(ValueError, match="other data"):
        RandSel(10, checkpoint=tmp_path).fit(D + 1e-9, y)
