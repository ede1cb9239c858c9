"""Tables larger than the memory allowed, and many samples: the same results as in memory."""

import numpy as np
import pytest

from randsel import RandSel, datasets
from randsel._numerics import columns


@pytest.fixture
def limit_memory(monkeypatch):
    """Allow a third of a small table in memory."""

    def allow(X, fraction=0.3):
        monkeypatch.setattr("randsel.selectors._features.memory_for_columns", lambda *_: int(fraction * X.nbytes))

    return allow


@pytest.fixture
def table(tmp_path):
    def write(X):
        np.save(tmp_path / "X.npy", X)
        return np.load(tmp_path / "X.npy", mmap_mode="r")

    return write


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("options", [{}, {"fix_top": 0.1, "fix_after": 2}, {"scale": False}, {"scale": True}])
def test_a_table_read_in_blocks_gives_the_same_path(table, limit_memory, dtype, options):
    X, y, _ = datasets.make_xor(150, 900, random_state=1)
    X = X.astype(dtype)
    X[:, 7] = 3.0
    expected = RandSel(10, **options).fit(X, y)
    limit_memory(X)
    streamed = RandSel(10, max_memory="1MB", **options).fit(table(X), y)
    assert set(streamed.get_support(indices=True)) == set(expected.get_support(indices=True))
    sizes = [len(r.features) for r in expected.path_.rounds]
    assert [len(r.features) for r in streamed.path_.rounds] == sizes
    tolerance = 1e-8 if dtype == np.float64 else 2e-3
    first, reference = streamed.path_.rounds[0], expected.path_.rounds[0]
    for field in ("features", "contributions", "main", "interaction"):
        a, b = getattr(first, field), getattr(reference, field)
        np.testing.assert_allclose(a, b, atol=tolerance * np.abs(b).max())


@pytest.mark.slow
def test_reading_in_blocks_with_weights_and_with_row_blocks(table, limit_memory, rng, monkeypatch):
    X, y, _ = datasets.make_xor(300, 400, random_state=2)
    weights = rng.random(300)
    limit_memory(X)
    expected = RandSel(5).fit(X, y, weights)
    streamed = RandSel(5, max_memory="1MB").fit(table(X), y, weights)
    assert list(streamed.get_support()) == list(expected.get_support())
    monkeypatch.setattr("randsel.contribution._closed_form.MAX_ROWS", 200)
    for fraction in (0.3, 0.05):  # rows of a block fit into memory, or not
        limit_memory(X, fraction)
        expected = RandSel(5, random_state=0).fit(X, y)
        streamed = RandSel(5, random_state=0, max_memory="1MB").fit(table(X), y)
        assert list(streamed.get_support()) == list(expected.get_support())


def test_row_blocks_find_what_all_rows_find(monkeypatch):
    X, y, relevant = datasets.make_xor(900, 30, random_state=3)
    whole = RandSel(2).fit(X, y)
    monkeypatch.setattr("randsel.contribution._closed_form.MAX_ROWS", 300)
    blocks = RandSel(2, random_state=0).fit(X, y)
    assert list(whole.get_support(indices=True)) == list(blocks.get_support(indices=True)) == list(relevant)


def test_options_that_cannot_read_in_blocks_are_refused(limit_memory, rng):
    X, y = rng.normal(size=(40, 300)), np.arange(40) % 2
    limit_memory(X)
    for options in ({"kernel": "rank"}, {"estimator": "bootstrap"}):
        with pytest.raises(ValueError, match="max_memory is too small for X"):
            RandSel(2, max_memory="1MB", **options).fit(X, y)
    with pytest.raises(ValueError, match="Every column of X is constant"):
        RandSel(2, max_memory="1MB").fit(np.ones((40, 300)), y)


@pytest.mark.parametrize(
    ("size", "expected"),
    [(5, 5), ("2GB", 2_000_000_000), ("1.5 GiB", 3 * 2**29), ("500MB", 500_000_000), ("10k", 10_000), ("7", 7)],
)
def test_sizes_are_read_as_bytes(size, expected):
    assert columns.parse_bytes(size) == expected


@pytest.mark.parametrize("size", ["", "GB", "2 apples", "-1GB", "0", "1..2GB"])
def test_what_is_not_a_size_is_refused(rng, size):
    with pytest.raises(ValueError, match="is not a size"):
        RandSel(2, max_memory=size).fit(rng.normal(size=(20, 5)), np.arange(20) % 2)


def test_too_little_memory_is_refused(rng):
    with pytest.raises(
        ValueError, match="too little for 500 samples and 50 features: pairs of samples and results take 40 MB"
    ):
        RandSel(2, max_memory="30MB").fit(rng.normal(size=(500, 50)), np.arange(500) % 2)


def test_changes_in_a_copy_on_write_map_are_kept(tmp_path, rng):
    X, y = rng.normal(size=(100, 30)), np.arange(100) % 2
    np.save(tmp_path / "X.npy", X)
    table = np.load(tmp_path / "X.npy", mmap_mode="c")
    table[:, 5] = 3.0 * y
    fitted = RandSel(1).fit(table, y)
    assert np.array_equal(table[:, 5], 3.0 * y)
    assert list(fitted.get_support(indices=True)) == [5]


def test_a_map_in_the_order_of_its_columns_is_not_copied(tmp_path, limit_memory, rng):
    X, y = np.asfortranarray(rng.normal(size=(60, 400))), np.arange(60) % 2
    np.save(tmp_path / "X.npy", X)
    table = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert table.flags.f_contiguous
    limit_memory(X)
    expected = RandSel(5).fit(X, y)
    assert list(RandSel(5, max_memory="1MB").fit(table, y).get_support()) == list(expected.get_support())
