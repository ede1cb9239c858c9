"""Kinds of outcome: folds."""

import numpy as np
import pytest

from randsel.targets._kinds import CLASSES, NUMBERS


def check_partition(folds, n):
    assert np.array_equal(np.sort(np.concatenate([test for _, test in folds])), np.arange(n))
    for train, test in folds:
        assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(n))


@pytest.mark.parametrize("n", [4, 37, 100, 250])
def test_every_fold_of_numbers_spans_the_outcome(n):
    y = np.sort(np.random.default_rng(n).standard_cauchy(n))
    n_splits = min(5, n // 2)
    for seed in range(20):
        folds = NUMBERS.splits(y, None, n_splits, seed)
        check_partition(folds, n)
        sizes = [len(test) for _, test in folds]
        assert max(sizes) - min(sizes) <= 1
        n_bins = min(10, n // n_splits)
        for _, test in folds:
            in_bin = np.bincount(test * n_bins // n, minlength=n_bins)
            assert in_bin.min() >= 1
            assert in_bin.max() - in_bin.min() <= 2


def test_folds_of_numbers_follow_from_the_seed():
    y = np.random.default_rng(0).normal(size=60)

    def rows_tested(seed):
        return [test.tolist() for _, test in NUMBERS.splits(y, None, 4, seed)]

    assert rows_tested(0) == rows_tested(0)
    assert rows_tested(0) != rows_tested(1)
    # neighbours in the table are not neighbours in a fold
    assert any(np.ptp(test) > 40 for test in rows_tested(0))


def test_groups_of_numbers_are_whole_and_spread_over_the_outcome():
    rng = np.random.default_rng(0)
    groups = np.repeat([f"donor {k}" for k in range(24)], rng.integers(1, 6, 24))
    y = np.unique(groups, return_inverse=True)[1] + 0.01 * rng.normal(size=len(groups))
    for seed in range(10):
        folds = NUMBERS.splits(y, groups, 4, seed)
        check_partition(folds, len(y))
        for train, test in folds:
            assert not set(groups[train]) & set(groups[test])
            assert len(set(groups[test])) == 6
            # six bins of four groups: one of each in every fold
            assert set(np.round(y[test]).astype(int) // 4) == set(range(6))


def test_several_columns_and_huge_numbers_are_split():
    rng = np.random.default_rng(0)
    check_partition(NUMBERS.splits(rng.normal(size=(30, 2)), None, 5, 0), 30)
    check_partition(NUMBERS.splits(1.7e308 * rng.uniform(-1, 1, 30), np.arange(30) // 3, 5, 0), 30)
    check_partition(NUMBERS.splits(np.arange(30) % 2 == 0, None, 5, 0), 30)


@pytest.mark.parametrize("groups", [None, np.arange(60) // 2])
def test_folds_of_sorted_classes_hold_every_class(groups):
    y = np.repeat(["a", "b", "c"], 20)
    for seed in range(5):
        folds = CLASSES.splits(y, groups, 5, seed)
        check_partition(folds, 60)
        for train, test in folds:
            assert set(y[test]) == set("abc")
            assert groups is None or not set(groups[train]) & set(groups[test])
