"""The permutation test: does any feature stand out from noise?"""

import numpy as np
import pytest
from scipy import stats
from sklearn.feature_selection import f_classif

from randsel import RandSel, datasets
from randsel._numerics.nuisance import Nuisance
from randsel._sklearn.annotations import check_covariates
from randsel.contribution import Sample
from randsel.culling import permutation_test
from randsel.culling._path import mixed_units, permuted_rows
from randsel.culling._rounds import fourth_moments
from randsel.targets import KINDS, Target, batches_of_groups, compare_groups


def make_sample(X, y, kind="classification", weights=None, groups=None):
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return Sample.from_columns(X, Target.encode(y, KINDS[kind], weights, groups))


def expected_pvalue(X, target, permuted):
    """Return the p-value by the F statistics, or squared correlations, of the target and its permutations."""
    if target.dtype.kind == "f":
        squared = np.array([[stats.pearsonr(x, z).statistic ** 2 for x in X.T] for z in (target, *permuted)])
    else:
        ratio = np.array([f_classif(X, z)[0] for z in (target, *permuted)]) * (len(np.unique(target)) - 1)
        squared = ratio / (ratio + len(X) - len(np.unique(target)))
    tails = []
    for values in (squared.max(axis=1), squared.mean(axis=1)):
        tails.append([np.mean(values >= value * (1 - 1e-9)) for value in values])
    smaller = np.min(tails, axis=0)
    return np.mean(smaller <= smaller[0])


@pytest.mark.parametrize("effect", [0.0, 0.3, 0.6])
def test_pvalue_is_that_of_f_statistics_and_of_squared_correlations(effect):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 12)), rng.integers(0, 3, 60)
    X[:, 3] += effect * y
    rows = permuted_rows(60, None, None, 99)
    assert permutation_test(make_sample(X, y)) == pytest.approx(expected_pvalue(X, y, y[rows]))
    z = rng.normal(size=60) + effect * X[:, 5]
    assert permutation_test(make_sample(X, z, "regression")) == pytest.approx(expected_pvalue(X, z, z[rows]))


@pytest.mark.parametrize("correlated", [False, True])
def test_false_alarms_are_as_rare_as_the_level(correlated):
    alarms = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(30, 40)) + (3 * rng.normal(size=(30, 1)) if correlated else 0.0)
        alarms += permutation_test(make_sample(X, rng.integers(0, 2, 30))) <= 0.05
    # Binomial(200, 0.05): above 18 with probability 0.01.
    assert alarms <= 18


def test_one_strong_feature_and_many_weak_features_are_both_noticed():
    rng = np.random.default_rng(1)
    y = np.arange(80) % 2
    strong, weak = rng.normal(size=(80, 500)), rng.normal(size=(80, 500))
    strong[:, 0] += 2 * y
    weak += 0.35 * y[:, None]
    assert permutation_test(make_sample(strong, y)) <= 0.02
    assert permutation_test(make_sample(weak, y)) <= 0.02


def test_permutations_stay_within_batches_and_move_whole_groups():
    groups, batch = np.repeat(np.arange(6), 3), np.repeat([0, 0, 0, 1, 1, 1], 3)
    rows = permuted_rows(18, groups, batch, 50)
    assert (batch[rows] == batch).all()
    moved = groups[rows].reshape(50, 6, 3)
    assert (moved == moved[:, :, :1]).all()
    assert (np.sort(moved[:, :, 0], axis=1) == np.arange(6)).all()
    assert len(np.unique(rows, axis=0)) > 20


def test_permutations_within_strata_permute_every_stratum():
    groups = np.repeat(np.arange(5), 4)
    rows = permuted_rows(20, None, groups, 20)
    assert (groups[rows] == groups).all()
    assert (np.sort(rows, axis=1) == np.arange(20)).all()


def test_mixed_groups_exchange_constant_outcomes_and_permute_the_others():
    groups, batch = np.repeat(np.arange(8), 4), np.repeat([0, 0, 1, 1, 0, 0, 1, 1], 4)
    y = np.where(groups < 4, groups % 2, np.arange(32) % 2)
    rows = permuted_rows(32, *mixed_units(y, groups, batch), 50)
    assert (batch[rows] == batch).all()
    constant, varying = groups[rows[:, :16]].reshape(50, 4, 4), groups[rows[:, 16:]]
    assert (constant == constant[:, :, :1]).all()
    assert set(np.unique(constant)) == {0, 1, 2, 3}
    assert (varying == groups[16:]).all()
    assert (np.sort(rows[:, 16:], axis=1) == np.arange(16, 32)).all()
    assert len(np.unique(rows, axis=0)) > 20


def test_pvalue_of_mixed_groups_is_that_of_its_permutations():
    rng, groups = np.random.default_rng(0), np.repeat(np.arange(12), 4)
    y = np.where(groups < 6, np.arange(48) % 2, groups % 2)
    X = rng.normal(size=(12, 8))[groups] + rng.normal(size=(48, 8)) + 0.5 * y[:, None]
    rows = permuted_rows(48, *mixed_units(y, groups, None), 99)
    assert permutation_test(make_sample(X, y, groups=groups)) == pytest.approx(expected_pvalue(X, y, y[rows]))


@pytest.mark.parametrize("varies", [False, True])
def test_a_donor_of_half_of_all_samples_does_not_raise_false_alarms(varies):
    """Of 100 tests at 0.05, more than 11 have probability 0.004."""
    donors, alarms = np.sort(np.concatenate([np.zeros(60, dtype=int), 1 + np.arange(60) % 24])), 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        y = np.where(donors % 2 == varies, rng.integers(0, 2, 25)[donors], np.arange(120) % 2)
        X = rng.normal(size=(25, 50))[donors] + rng.normal(size=(120, 50))
        alarms += permutation_test(make_sample(X, y, groups=donors)) <= 0.05
    assert alarms <= 11


def test_covariates_that_vary_within_mixed_groups_do_not_raise_false_alarms():
    """Of 100 tests at 0.05, more than 11 have probability 0.004. The covariate follows y, and features follow it."""
    donors, alarms = np.repeat(np.arange(40), 4), 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        y = np.where(donors < 4, np.arange(160) % 2, rng.permutation(np.arange(40) % 2)[donors])
        age = rng.normal(size=160) + y
        X = rng.normal(size=(40, 50))[donors] + rng.normal(size=(160, 50)) + 0.7 * age[:, None]
        covariates = check_covariates(age[:, None], 160)
        nuisance = Nuisance.from_samples(160, None, None, covariates)
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        target = Target.encode(y, KINDS["classification"], None, donors, nuisance)
        sample = Sample.from_columns(nuisance.remove(X.T).T, target)
        alarms += permutation_test(sample, None, covariates, y) <= 0.05
    assert alarms <= 11


DESIGNS = {
    "between groups": lambda rng, donors: rng.permutation(np.arange(20) % 2)[donors],
    "within groups": lambda rng, donors: (np.arange(len(donors)) + rng.integers(0, 2, 20)[donors]) % 2,
    "mixed": lambda rng, donors: np.where(donors < 8, np.arange(len(donors)) % 2, donors % 2),
}


@pytest.mark.parametrize("design", DESIGNS)
def test_groups_hold_the_level_and_leave_power_in_every_design(design):
    """Of 100 tests of noise at 0.05, more than 11 have probability 0.004; donors differ in all features."""
    donors, alarms, detected = np.repeat(np.arange(20), 4), 0, 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        y = DESIGNS[design](rng, donors)
        assert compare_groups(y, donors) == design
        X = rng.normal(size=(20, 30))[donors] + 0.5 * rng.normal(size=(80, 30))
        alarms += permutation_test(make_sample(X, y, groups=donors)) <= 0.05
        if seed < 20:
            X[:, 0] += 4.0 * y
            detected += permutation_test(make_sample(X, y, groups=donors)) <= 0.05
    assert alarms <= 11
    assert detected >= 18


@pytest.mark.filterwarnings("ignore:Nothing stands out")
@pytest.mark.parametrize("design", DESIGNS)
def test_randsel_reports_the_pvalue_of_every_design(design):
    """Of 10 data sets of noise, more than 3 have p below 0.05 with probability 0.001; donors differ in all features."""
    donors, alarms = np.repeat(np.arange(20), 4), 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        y = DESIGNS[design](rng, donors)
        X = 2.0 * rng.normal(size=(20, 12))[donors] + 0.5 * rng.normal(size=(80, 12))
        alarms += RandSel(3).fit(X, y, groups=donors).permutation_pvalue_ <= 0.05
    assert alarms <= 3
    X[:, 0] = rng.normal(size=20)[donors] + 4.0 * y + 0.5 * rng.normal(size=80)
    assert RandSel(3).fit(X, y, groups=donors).permutation_pvalue_ <= 0.02


def test_donors_that_span_batches_are_permuted_among_donors_of_the_same_batches():
    donors = np.repeat(np.arange(12), 4)
    batch = np.where(donors < 6, np.arange(48) % 2, 2 + np.arange(48) % 2)  # every donor is in two batches
    strata = batches_of_groups(batch, donors)
    assert strata.tolist() == [strata[0]] * 6 + [strata[6]] * 6
    assert strata[0] != strata[6]
    alarms = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        y = np.concatenate([rng.permutation(6) < 4, rng.permutation(6) < 2])[donors]
        X = rng.normal(size=(12, 20))[donors] + 0.3 * rng.normal(size=(48, 20)) + 2.0 * (donors < 6)[:, None]
        alarms += permutation_test(make_sample(X, y, groups=donors), batch) <= 0.05
    assert alarms <= 11


def test_groups_remove_false_alarms_of_repeated_samples():
    """Ten donors of twelve samples each, classes by donor: donors differ, but not by class."""
    alarms = {True: 0, False: 0}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        donors = np.repeat(np.arange(10), 12)
        X = rng.normal(size=(10, 30))[donors] + 0.3 * rng.normal(size=(120, 30))
        y = rng.permutation(np.arange(10) % 2)[donors]
        for grouped in alarms:
            sample = make_sample(X, y, groups=donors if grouped else None)
            alarms[grouped] += permutation_test(sample) <= 0.05
    assert alarms[False] > 50
    assert alarms[True] <= 8


def test_weights_scale_the_influence_of_samples():
    """Half of the samples follow y and half do not: only weight on the former gives a small p-value."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 10)), np.arange(60) % 2
    X[:30, 0] += 2.0 * y[:30]
    X[30:, 0] -= 2.0 * y[30:]
    first = np.where(np.arange(60) < 30, 1.0, 0.02)
    for weights, small in ((first, True), (np.ones(60), False)):
        centred = X - weights @ X / weights.sum()
        target = Target.encode(y, KINDS["classification"], weights)
        assert (permutation_test(Sample.from_columns(centred, target)) <= 0.05) == small


def test_weights_do_not_make_a_constant_outcome_of_groups_look_variable():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(20), 3)
    y = (np.arange(20) % 2)[groups]
    X = rng.normal(size=(60, 5)) + 3 * y[:, None]
    sample = make_sample(X, y, weights=rng.uniform(0.5, 2.0, 60), groups=groups)
    assert permutation_test(sample) <= 0.02


TABLES_OF_RARE_LEVELS = {
    "two levels": lambda rng: (rng.random((100, 100)) < 0.03).astype(float),
    "genotypes": lambda rng: rng.binomial(2, 0.05, (100, 200)).astype(float),
    "extreme values": lambda rng: rng.standard_cauchy((60, 200)),
}


@pytest.mark.filterwarnings("ignore:Nothing stands out")
@pytest.mark.parametrize("table", TABLES_OF_RARE_LEVELS)
def test_rare_levels_and_extreme_values_do_not_make_noise_stand_out(table):
    """Such rounds of noise align with y far better than rounds of normal noise; the permutation test decides alone."""
    rng = np.random.default_rng(0)
    scale = True if table == "extreme values" else "auto"
    for _ in range(10):
        X = TABLES_OF_RARE_LEVELS[table](rng)
        fitted = RandSel(scale=scale).fit(X, rng.permutation(np.arange(len(X)) % 2))
        assert fitted.stands_out_ == (fitted.permutation_pvalue_ <= 0.02)


def test_an_xor_among_rare_levels_stands_out():
    X, y, relevant = datasets.make_xor(300, 100, random_state=0)
    X[:, 50:] = np.random.default_rng(0).random((300, 50)) < 0.05
    fitted = RandSel().fit(X, y)
    assert fitted.permutation_pvalue_ > 0.02
    assert fitted.stands_out_
    assert fitted.get_support(indices=True).tolist() == list(relevant)


@pytest.mark.parametrize("weights", [None, np.arange(1.0, 41.0)])
def test_fourth_moments(rng, weights):
    X = rng.standard_t(5, (40, 6))
    X -= np.average(X, axis=0, weights=weights)
    sample = Sample.from_columns(X, Target.encode(np.arange(40) % 2, KINDS["classification"], weights))
    expected = np.average(X**4, axis=0, weights=weights) / np.average(X**2, axis=0, weights=weights) ** 2
    assert fourth_moments(sample) == pytest.approx(expected, rel=1e-5)


def test_a_covariate_on_which_the_spread_of_features_and_outcome_depends():
    pvalues = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        covariate = rng.normal(size=100)
        spread = np.exp(covariate / 2)
        X, y = rng.normal(size=(100, 40)) * spread[:, None], rng.normal(size=100) * spread
        pvalues.append(RandSel().fit(X, y, covariates=covariate).permutation_pvalue_)
    for level in (0.05, 0.02):
        assert (np.array(pvalues) <= level).sum() <= stats.binom.ppf(0.999, len(pvalues), level)


def test_a_covariate_of_donors_has_functions_by_their_number():
    donors, covariate = np.arange(60) // 3, np.random.default_rng(0).normal(size=20)
    of_donors, of_samples = (check_covariates(values, 60) for values in (covariate[donors], np.arange(60.0)))
    assert Nuisance.from_samples(60, None, None, of_donors, donors).rank == 1 + 2
    assert Nuisance.from_samples(60, None, None, of_samples, donors).rank == 1 + 6


def test_outcomes_that_vary_in_few_donors_given_a_covariate_of_donors():
    pvalues, donors = [], np.arange(60) // 3
    for seed in range(80):
        rng = np.random.default_rng([seed, 7])
        age = rng.normal(size=20)[donors]
        y = (rng.normal(size=20)[donors] + age > 0) ^ (rng.random(60) < 0.1)
        X = rng.normal(size=(60, 60)) + 2 * rng.normal(size=(20, 60))[donors] + age[:, None]
        pvalues.append(RandSel().fit(X, y, groups=donors, covariates=age).permutation_pvalue_)
    assert (np.array(pvalues) <= 0.1).sum() <= stats.binom.ppf(0.99, len(pvalues), 0.1)
