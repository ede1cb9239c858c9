"""`InteractionScan` with groups and batches: what is compared, power, and false alarms."""

import numpy as np
import pytest
from scipy.stats import ttest_rel

from randsel import InteractionScan

OUTCOMES = {
    "between groups": lambda donors: donors % 2,
    "within groups": lambda donors: np.arange(len(donors)) % 2,
    "mixed": lambda donors: np.where(donors < 10, np.arange(len(donors)) % 2, donors % 2),
}


def donors_with_samples(rng, n_donors=24, n_samples=4, n_features=20, spread=1.0):
    """Return donor numbers, and features that differ between donors more than between samples of one donor."""
    donors = np.repeat(np.arange(n_donors), n_samples)
    X = spread * rng.standard_normal((n_donors, n_features))[donors] + 0.5 * rng.standard_normal(
        (n_donors * n_samples, n_features)
    )
    return donors, X


@pytest.mark.parametrize("comparison", OUTCOMES)
def test_comparison_follows_from_where_the_outcome_varies(rng, comparison):
    donors, X = donors_with_samples(rng)
    y = OUTCOMES[comparison](donors)
    X[:, 3] += 3.0 * y
    scan = InteractionScan(order=1).fit(X, y, groups=np.char.add("donor ", donors.astype(str)))
    assert scan.comparison_ == comparison
    assert scan.get_support(indices=True).tolist() == [3]


def test_one_group_and_groups_of_one_sample_compare_samples(rng):
    X, y = rng.standard_normal((60, 5)), rng.integers(0, 2, 60)
    plain = InteractionScan().fit(X, y)
    for groups in (np.zeros(60), np.arange(60), None):
        scan = InteractionScan().fit(X, y, groups=groups)
        assert scan.comparison_ == "samples"
        assert np.array_equal(scan.pvalues_, plain.pvalues_)


def test_between_groups_equals_a_scan_of_averaged_rows(rng):
    donors = rng.permutation(np.repeat(np.arange(40), rng.integers(1, 5, 40)))
    X = rng.standard_normal((40, 8))[donors] + 0.2 * rng.standard_normal((len(donors), 8))
    y = (np.arange(40) % 2)[donors]
    X[:, 0] += y
    scan = InteractionScan(target="classification").fit(X, y, groups=donors)
    means = np.array([X[donors == donor].mean(axis=0) for donor in range(40)])
    averaged = InteractionScan(target="classification").fit(means, np.arange(40) % 2)
    assert np.allclose(scan.pvalues_, averaged.pvalues_)
    assert np.array_equal(scan.order_, averaged.order_)


def test_nominal_columns_of_a_group_have_their_most_frequent_level(rng):
    donors = np.repeat(np.arange(50), 3)
    level = rng.integers(0, 3, 50)
    kinds = np.where(np.arange(150) % 3 == 0, rng.integers(0, 3, 150), level[donors])
    y = (level == 1)[donors]
    X = np.stack([kinds, rng.standard_normal(150)], axis=1)
    scan = InteractionScan(order=1, categorical_features=[0]).fit(X, y, groups=donors)
    averaged = InteractionScan(order=1, categorical_features=[0]).fit(
        np.stack([level, X[:, 1].reshape(50, 3).mean(axis=1)], axis=1), level == 1
    )
    assert np.allclose(scan.pvalues_, averaged.pvalues_)


def test_paired_donors_are_tested_as_by_the_paired_t_test(rng):
    donors, y = np.repeat(np.arange(30), 2), np.tile([0, 1], 30)
    X = 3.0 * rng.standard_normal((30, 12))[donors] + rng.standard_normal((60, 12))
    X += np.linspace(0.0, 1.5, 12) * y[:, None]
    scan = InteractionScan(order=1).fit(X, y, groups=donors)
    paired = np.array([ttest_rel(x[y == 1], x[y == 0]).pvalue for x in X.T])
    assert paired.min() < 1e-6
    compared = (paired < 0.2) & (paired > 1e-5)  # ranks and values differ further in the tail
    ratios = scan.main_pvalues_[compared] / paired[compared]
    assert ratios.max() < 3.0
    assert ratios.min() > 0.25
    assert scan.main_pvalues_[paired <= 1e-5].max() < 1e-5
    assert InteractionScan(order=1).fit(X, y).main_pvalues_.min() > 1e-4  # without groups, donors hide the effects


def test_one_mixed_donor_of_many_does_not_take_the_power(rng):
    donors, X = donors_with_samples(rng, 51, 3)
    y = donors % 2
    y[-1] = 1 - y[-1]
    X[:, 7] += 2.5 * y
    scan = InteractionScan(order=1).fit(X, y, groups=donors)
    assert scan.comparison_ == "mixed"
    assert scan.get_support(indices=True).tolist() == [7]
    assert scan.main_pvalues_[7] < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("comparison", OUTCOMES)
def test_groups_hold_the_level(comparison):
    """Noise: at most 7 % of 4000 tests below 0.05, and 12 below 0.001 where 4 are expected."""
    p = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        donors, X = donors_with_samples(rng, n_features=100)
        y = OUTCOMES[comparison](rng.permutation(24)[donors])
        p.append(InteractionScan(order=1).fit(X, y, groups=donors).main_pvalues_)
    p = np.concatenate(p)
    assert np.mean(p <= 0.05) <= 0.07
    assert np.sum(p <= 0.001) <= 12


@pytest.mark.slow
@pytest.mark.parametrize("comparison", OUTCOMES)
def test_pairs_within_groups_hold_the_level(comparison):
    """Noise: a feature or pair is selected in at most 6 of 40 data sets, where 2 are expected."""
    selected = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        donors, X = donors_with_samples(rng, n_features=15)
        y = OUTCOMES[comparison](rng.permutation(24)[donors])
        selected += InteractionScan().fit(X, y, groups=donors).support_.any()
    assert selected <= 6


def test_donors_that_span_batches(rng):
    """Donors of the same batches are compared with each other; batches differ in y and in all features."""
    donors, X = donors_with_samples(rng, 40, 4)
    batch = np.where(donors < 20, np.arange(160) % 2, 2 + np.arange(160) % 2)
    y = np.concatenate([np.arange(20) % 4 > 0, np.arange(20) % 4 == 0]).astype(int)[donors]
    X += 4.0 * (donors < 20)[:, None]
    X[:, 5] += 2.5 * y
    scan = InteractionScan(order=1).fit(X, y, groups=donors, batch=batch)
    assert scan.comparison_ == "between groups"
    assert scan.get_support(indices=True).tolist() == [5]


def test_batches_within_groups(rng):
    """Two visits of every donor: y is compared within donor and visit, unless it is constant there."""
    donors, X = donors_with_samples(rng, 20, 8)
    visit = np.arange(160) // 4 % 2
    X += 3.0 * visit[:, None]
    y = np.arange(160) % 2
    X[:, 2] += 1.5 * y
    scan = InteractionScan(order=1).fit(X, y, groups=donors, batch=visit)
    assert scan.comparison_ == "within groups"
    assert scan.get_support(indices=True).tolist() == [2]
    with pytest.warns(UserWarning, match="y is constant in every batch of a group, so batches are ignored"):
        assert InteractionScan(order=1).fit(X, visit, groups=donors, batch=visit).support_.all()


def test_few_groups_are_refused(rng):
    X, groups = rng.standard_normal((60, 4)), np.repeat([0, 1, 2], 20)
    with pytest.raises(ValueError, match="y is the same within each of the 3 groups"):
        InteractionScan().fit(X, groups == 1, groups=groups)
