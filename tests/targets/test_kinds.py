"""Kinds of outcome: how they are recognised, and their folds."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from randsel import CorrelationFilter, InteractionScan, RandSel, RandSelCV
from randsel.targets._kinds import CLASSES, NUMBERS, describe_guess, find_kind, warn_of_guess

GRADES = np.arange(60) % 6
OUTCOMES = {
    "text": (np.array(["a", "b", "c"] * 20), CLASSES),
    "digits as text": (GRADES.astype(str), CLASSES),
    "truth values": (np.arange(60) % 2 == 0, CLASSES),
    "two codes": (np.arange(60) % 2, CLASSES),
    "two distant codes": (np.where(np.arange(60) % 2, 100, -1), CLASSES),
    "four codes": (np.arange(60) % 4, CLASSES),
    "four codes as floats": (np.arange(60) % 4 + 1.0, CLASSES),
    "five grades": (np.arange(60) % 5, NUMBERS),
    "six grades as floats": (GRADES.astype(float), NUMBERS),
    "counts": (np.arange(60) ** 2, NUMBERS),
    "two fractions": (np.arange(60) % 2 + 0.5, NUMBERS),
    "huge": (1e300 * np.arange(60.0), NUMBERS),
    "two columns": (np.stack([GRADES, GRADES], axis=1), NUMBERS),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_the_kind_of_an_outcome(name):
    y, kind = OUTCOMES[name]
    assert find_kind(y, "auto") is kind
    if y.ndim == 1:
        assert find_kind(y, "classification") is CLASSES
    if y.dtype.kind in "fiub":
        assert find_kind(y, "regression") is NUMBERS


def test_a_note_says_what_whole_numbers_are_taken_for():
    note = describe_guess(GRADES, "auto")
    assert note.startswith("The target is taken for numbers whose order counts.")
    assert note.endswith("add --task classification.")
    note = describe_guess(GRADES % 3 + 1.0, "auto")
    assert note.startswith("The target is taken for classes without order.")
    assert note.endswith("add --task regression.")
    for y in (GRADES % 2, GRADES + 0.5, GRADES.astype(str), np.arange(60)):
        assert describe_guess(y, "auto") is None
    for task in ("classification", "regression"):
        assert describe_guess(GRADES, task) is None


@pytest.mark.parametrize("y", [GRADES, GRADES + 1, GRADES.astype(float), np.arange(60) % 20], ids=str)
def test_consecutive_whole_numbers_may_be_codes(y):
    with pytest.warns(UserWarning, match="If they are codes of classes, pass target='classification'; if not"):
        warn_of_guess(y, "auto", "target={}")
    warn_of_guess(y, "regression", "target={}")


@pytest.mark.parametrize("y", [GRADES % 4, 2 * GRADES, GRADES + 2, np.arange(60) % 21, GRADES + 0.5], ids=str)
def test_other_outcomes_raise_no_warning(y):
    warn_of_guess(y, "auto", "target={}")


@pytest.mark.parametrize("make", [RandSel, InteractionScan, CorrelationFilter])
def test_estimators_warn_once_where_codes_are_possible(rng, make):
    X = rng.normal(size=(60, 4))
    X[:, 0] += GRADES
    with pytest.warns(UserWarning, match="y holds the whole numbers 0 to 5") as caught:
        guessed = make(1).fit(X, GRADES)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    told = make(1, target="regression").fit(X, GRADES)
    assert np.array_equal(guessed.order_, told.order_)
    assert make(1, target="classification").fit(X, GRADES).support_[0]


def test_the_model_of_a_cross_validation_says_what_the_outcome_is(rng):
    X = rng.normal(size=(60, 4))
    X[:, 0] += GRADES
    for model, kind in ((LogisticRegression(), "classification"), (Ridge(), "regression")):
        for y in (GRADES, GRADES % 3):
            assert RandSelCV(model, cv=2, gammas=["median"]).fit(X, y).selector_.target == kind
    several = np.stack([X[:, 0], X[:, 1]], axis=1)
    assert RandSelCV(Ridge(), cv=2, gammas=["median"]).fit(X, several).selector_.target == "regression"
    assert RandSelCV(Ridge(), cv=2, gammas=["median"]).fit(X, GRADES[:, None].tolist()).selector_.target == "regression"
    with pytest.warns(UserWarning, match=r"pass selector=RandSel\(target='classification'\); if not") as caught:
        assert RandSelCV(cv=2, gammas=["median"]).fit(X, GRADES).selector_.target == "regression"
    assert len(caught) == 1
    selector = RandSel(target="classification")
    assert RandSelCV(selector=selector, cv=2, gammas=["median"]).fit(X, GRADES).best_score_ > 0.3


def test_grades_are_tested_in_their_order():
    """A test of six classes has five degrees of freedom to explain, one of numbers a single one."""
    found = {"auto": 0, "classification": 0}
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(100, 3))
        y = np.clip(np.round(2.5 + 0.5 * X[:, 0] + 1.15 * rng.normal(size=100)), 0, 5)
        for target in found:
            with warnings.catch_warnings(action="ignore"):
                found[target] += InteractionScan(order=1, target=target).fit(X, y).main_pvalues_[0] <= 0.01
    assert found["auto"] >= found["classification"] + 3


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
