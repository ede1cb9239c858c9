"""Cumulants and tails of sums over permuted outcomes, against the enumeration of all permutations."""

from itertools import permutations

import numpy as np
import pytest
import reference
from scipy.special import comb
from scipy.stats import hypergeom

from randsel import InteractionScan
from randsel._numerics.nuisance import Nuisance
from randsel._numerics.rank_functions import rank_functions
from randsel.interactions._design import Design, Response, responses_of
from randsel.interactions._evidence import _null_of_untied, evidence
from randsel.interactions._permutation_tails import (
    arrangements_of_classes,
    cluster_factors,
    log_fraction_at_most,
    log_p_of_arrangement,
    log_tail_of_labels,
    log_tail_of_signs,
    permutation_cumulants,
)
from randsel.targets import KINDS


def centred_within(a, strata):
    """Subtract the mean of every stratum."""
    return a - np.array([a[strata == stratum].mean() for stratum in strata])


STRATA = {"one stratum of 5": [0] * 5, "one of 6": [0] * 6, "two": [0, 0, 0, 1, 1, 1, 1], "pairs": [0, 0, 1, 1, 2, 2]}


@pytest.mark.parametrize("strata", STRATA.values(), ids=STRATA)
def test_cumulants_equal_those_of_all_permutations(rng, strata):
    codes = np.array(strata)
    a = np.array([centred_within(rng.standard_normal(len(codes)) ** 3, codes) for _ in range(3)])
    e = rng.exponential(size=len(codes))
    e = centred_within(e, codes)
    variance, fourth = permutation_cumulants(a, e, None if codes.max() == 0 else codes)
    for k in range(3):
        sums = reference.permutation_sums(a[k], e, codes)
        assert np.mean(sums) == pytest.approx(0.0, abs=1e-12)
        assert variance[k] == pytest.approx(np.mean(sums**2))
        assert fourth[k] == pytest.approx(np.mean(sums**4) - 3 * np.mean(sums**2) ** 2)


COLUMNS = {
    "continuous": lambda rng, m: rng.standard_normal(m),
    "heavy": lambda rng, m: rng.standard_t(4, m),
    "three levels": lambda rng, m: rng.integers(0, 3, m).astype(float),
    "two levels": lambda rng, m: (rng.random(m) < 0.3).astype(float),
}


def tilted_labels(rng, a, strata, n_labels, tilt):
    """Label `n_labels` samples of every stratum, the more often those of large a the larger `tilt` is."""
    labels = np.zeros(len(a))
    keys = rng.gumbel(size=len(a)) + tilt * a / a.std()
    for stratum in np.unique(strata):
        rows = np.flatnonzero(strata == stratum)
        labels[rows[np.argsort(-keys[rows])[:n_labels]]] = 1.0
    return labels


@pytest.mark.parametrize("n_strata", [1, 2])
@pytest.mark.parametrize("column", COLUMNS)
def test_tail_of_labels_equals_the_share_of_label_sets(rng, column, n_strata):
    """Within a factor of 1.3, except for sums between the atoms of the last ten label sets."""
    m, n_labels = 12 + 4 * n_strata, 6 // n_strata
    strata = np.arange(m) % n_strata
    ratios = []
    for tilt in np.linspace(0.0, 3.0, 25):
        a = centred_within(COLUMNS[column](rng, m), strata)
        labels = tilted_labels(rng, a, strata, n_labels, tilt * rng.choice([-1, 1]))
        exact = reference.label_p_value(a, labels, strata)
        tail = np.exp(log_tail_of_labels(a[None], labels, None if n_strata == 1 else strata)[0])
        n_sets = len(reference.label_sums(a, labels, strata))
        ratios.append((tail / exact, exact * n_sets / 2))
    ratios = np.array(ratios)
    many = ratios[:, 1] > 10
    assert many.sum() >= 10
    assert np.all(np.abs(np.log(ratios[many, 0])) < np.log(1.3))
    assert np.all(np.abs(np.log(ratios[~many, 0])) < np.log(2.0))


#: Matched samples: (size of a stratum, number of labels in it) of every stratum.
MATCHED = {
    "pairs": [(2, 1)] * 13,
    "triples": [(3, 1)] * 4 + [(3, 2)] * 4,
    "one of four": [(4, 1)] * 6,
    "three of four": [(4, 3)] * 6,
    "pairs and a batch": [(2, 1)] * 6 + [(9, 4)],
}


@pytest.mark.parametrize("design", MATCHED)
def test_tail_of_labels_of_matched_samples_equals_the_share_of_label_sets(rng, design):
    """Within a factor of 1.3, except for sums between the atoms of the last thirty label sets."""
    sizes, n_labels = np.array(MATCHED[design]).T
    strata, ratios = np.repeat(np.arange(len(sizes)), sizes), []
    labels = np.concatenate([np.arange(size) < k for size, k in MATCHED[design]]).astype(float)
    for shift in np.linspace(0.0, 2.0, 40):
        a = centred_within(rng.standard_normal(len(strata)) + shift * labels, strata)
        exact = reference.label_p_value(a, labels, strata)
        if exact < 0.2:  # the only sums that it is computed for
            tail = np.exp(log_tail_of_labels(a[None], labels, strata)[0])
            ratios.append((tail / exact, exact * np.prod(comb(sizes, n_labels)) / 2))
    ratios = np.array(ratios)
    many = ratios[:, 1] > 30
    assert many.sum() >= 5
    assert np.all(np.abs(np.log(ratios[many, 0])) < np.log(1.3))
    assert np.all(np.abs(np.log(ratios[~many, 0])) < np.log(2.0))


@pytest.mark.parametrize("n_strata", [1, 2])
@pytest.mark.parametrize("column", COLUMNS)
def test_tail_of_the_largest_sum_of_labels_is_exact(rng, column, n_strata):
    m = 16
    strata = np.arange(m) % n_strata
    a = centred_within(COLUMNS[column](rng, m), strata)
    labels = np.zeros(m)
    for stratum in range(n_strata):
        rows = np.flatnonzero(strata == stratum)
        labels[rows[np.argsort(-a[rows])[:3]]] = 1.0
    tail = log_tail_of_labels(a[None], labels, None if n_strata == 1 else strata)[0]
    assert tail == pytest.approx(np.log(reference.label_p_value(a, labels, strata)), rel=1e-6)


@pytest.mark.parametrize(("m", "n_ones", "n_labels"), [(100, 10, 50), (100, 10, 10), (300, 40, 60), (2000, 30, 100)])
def test_tail_of_labels_of_two_levels_is_hypergeometric(m, n_ones, n_labels):
    """The test of one binary feature and two classes is Fisher's, to 6 per cent, in the far tail too."""
    x = np.repeat([1.0, 0.0], [n_ones, m - n_ones])
    for common in range(int(n_ones * n_labels / m) + 1, min(n_ones, n_labels) + 1):
        labels = np.zeros(m)
        labels[:common] = labels[n_ones : n_ones + n_labels - common] = 1.0
        exact = hypergeom.logsf(common - 1, m, n_ones, n_labels) + np.log(2.0)
        if exact < np.log(0.5):  # the only sums that it is computed for
            tail = log_tail_of_labels((x - x.mean())[None], labels, None)[0]
            assert tail == pytest.approx(exact, abs=0.06)


def test_strata_of_one_label_only_do_not_count(rng):
    a, labels = rng.standard_normal(30), (np.arange(30) % 3 == 0).astype(float)
    a -= a.mean()
    alone = log_tail_of_labels(a[None], labels, None)[0]
    more = np.concatenate([a, rng.standard_normal(12)])
    strata = np.repeat([0, 1], [30, 12])
    assert log_tail_of_labels(more[None], np.append(labels, np.ones(12)), strata)[0] == pytest.approx(alone)


@pytest.mark.parametrize("n_terms", [6, 10, 14])
@pytest.mark.parametrize("equal", [True, False])
def test_tail_of_signs_equals_the_share_of_changes_of_signs(rng, n_terms, equal):
    """Equal terms are the sign test, to 2 per cent; the others are within 1.6 of all 2^k changes of signs."""
    limit = np.log(1.02) if equal else np.log(1.6)
    sizes = np.append(np.ones(n_terms) if equal else rng.uniform(0.05, 1.0, n_terms) ** 2, 0.0)
    for n_negative in range(n_terms // 2 + 1):
        terms = sizes * np.where(np.arange(n_terms + 1) < n_negative, -1.0, 1.0)
        tail = log_tail_of_signs(terms[None])[0]
        assert tail == pytest.approx(np.log(reference.sign_p_value(terms[:-1])), abs=limit)
    assert log_tail_of_signs(sizes[None])[0] == pytest.approx((1 - n_terms) * np.log(2))
    assert log_tail_of_signs(np.zeros((1, 3)))[0] == 0.0


def test_tail_of_signs_is_that_of_permutations_in_pairs_of_samples(rng):
    strata = np.repeat(np.arange(6), 2)
    a, e = centred_within(rng.standard_normal(12), strata), centred_within(rng.exponential(size=12), strata)
    sums = reference.permutation_sums(a, e, strata)
    terms = np.array([a[strata == stratum] @ e[strata == stratum] for stratum in range(6)])
    assert reference.sign_p_value(terms) == pytest.approx(np.mean(np.abs(sums) >= abs(a @ e) - 1e-9))


def test_number_of_arrangements_within_strata(rng):
    strata = np.array([1, 0, 0, 1, 0, 1, 1])
    a = np.stack([rng.standard_normal(7), rng.integers(0, 2, 7), np.ones(7)])
    for row, log_p in zip(a, log_p_of_arrangement(a, strata), strict=True):
        arrangements = [set(permutations(row[strata == stratum])) for stratum in (0, 1)]
        assert log_p == pytest.approx(-np.log(len(arrangements[0]) * len(arrangements[1])))


@pytest.mark.parametrize("outcome", ["labels", "numbers", "three classes"])
def test_a_few_groups_of_wide_spread_do_not_make_noise_significant(outcome):
    """Samples are compared within groups of four, which have few permutations; some groups dominate the sums."""
    rng, n_groups, size = np.random.default_rng(0), 6, 4
    groups = np.repeat(np.arange(n_groups), size)
    smallest = []
    for _ in range(30):
        X = rng.standard_normal((n_groups * size, 20)) * np.exp(rng.standard_normal((n_groups, 1)))[groups]
        y = {
            "labels": np.tile([0, 0, 1, 1], n_groups),
            "numbers": rng.standard_normal(n_groups * size),
            "three classes": np.tile([0, 1, 2, 0], n_groups),
        }[outcome]
        scan = InteractionScan().fit(X + 2 * rng.standard_normal((n_groups, 20))[groups], y, groups=groups)
        assert scan.comparison_ == "within groups"
        smallest.append(min(scan.pairs_["p_corrected"].min(), scan.qvalues_.min()))
    smallest = np.array(smallest)
    assert (smallest <= 0.05).sum() <= 4
    assert smallest.min() > 1e-3


@pytest.mark.parametrize("outcome", ["normal", "uniform", "heavy"])
@pytest.mark.parametrize("m", [200, 1000])
def test_a_pair_of_rare_levels_that_one_sample_shares_is_not_significant(rng, m, outcome):
    """The shared sample has the largest outcome, which has a probability of 1/m by chance."""
    y = rng.standard_normal(m)
    y = {"normal": y, "uniform": np.argsort(np.argsort(y)), "heavy": y * abs(y)}[outcome]
    by_rank = np.argsort(-y.astype(float))
    X, rare = np.zeros((m, 2)), rng.permutation(by_rank[1:])[: m // 4]
    X[rare[::2], 0] = X[rare[1::2], 1] = X[by_rank[0]] = 1
    scan = InteractionScan(target="regression").fit(X, y.astype(float))
    assert scan.pairs_["p"].min() > 1 / m


def exact_and_approximate_p(X, y, n_functions):
    """Return the exact p-value of the first column, and the approximation that all arrangements of y are ranked by."""
    nuisance = Nuisance.from_samples(len(y), None, None)
    responses = responses_of(y, KINDS["classification"], nuisance)
    design = Design(0.9 ** np.arange(n_functions), responses, nuisance)
    functions = rank_functions(X, n_functions, nuisance.weights, np.zeros(X.shape[1], dtype=bool))
    sets = np.zeros((1, 1), dtype=int)
    # responses other than those of the design may be residuals, for which arrangements are not enumerated
    copies = tuple(Response(response.Y, response.labels) for response in responses)
    exact, approximate = (evidence(functions, design, forms, sets).log_p[0] for forms in (responses, copies))
    return np.exp(exact), np.exp(approximate)


@pytest.mark.parametrize("classes", [[0] * 5 + [1] * 3, [0] * 2 + [1] * 2 + [2] * 3], ids=["two classes", "three"])
def test_few_arrangements_of_classes_are_enumerated(rng, classes):
    for effect in (0.0, 1.0, 3.0):
        y = rng.permutation(classes)
        X = (rng.standard_normal(len(y)) + effect * y)[:, None]
        expected = reference.arrangement_share(lambda arranged, X=X: exact_and_approximate_p(X, arranged, 2)[1], y)
        assert exact_and_approximate_p(X, y, 2)[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("n_labels", [2, 4])
def test_enumerated_p_value_of_one_function_is_that_of_all_label_sets(rng, n_labels):
    """Scores without ties are symmetric: both tails are equal. The approximation orders the large sums correctly."""
    y = np.arange(12) < n_labels
    for effect in (4.0, 6.0, 8.0):
        X = rng.standard_normal((12, 1)) + effect * y[:, None]
        scores = reference.rank_functions(X[:, 0], 1)[0]
        expected = reference.label_p_value(scores, y.astype(float), np.zeros(12))
        assert expected < 0.15
        assert exact_and_approximate_p(X, y, 1)[0] == pytest.approx(expected, rel=1e-9)


def test_features_with_ties_and_many_arrangements_are_not_enumerated(rng):
    tied = np.repeat(np.arange(4.0), 3)[:, None]
    exact, approximate = exact_and_approximate_p(tied, rng.permutation(12) < 4, 2)
    assert exact == approximate
    exact, approximate = exact_and_approximate_p(rng.standard_normal((40, 1)), rng.permutation(40) < 20, 2)
    assert exact == approximate


@pytest.mark.parametrize("level", [0.05, 0.001])
def test_enumerated_p_values_have_their_size(level):
    """3 of 30 samples are cases. As many of 4060 arrangements are at most a level as possible, or a pair less."""
    shares = np.exp(log_fraction_at_most(null_of_three_cases(), null_of_three_cases()))
    assert level - 2 / 4060 <= np.mean(shares <= level) <= level


def null_of_three_cases():
    """Return the log p-values of a feature for all choices of 3 among 30 samples."""
    return _null_of_untied((27, 3), (1.0, 0.9), trusts_variances=False)


def test_arrangements_of_classes():
    rows = arrangements_of_classes((2, 1, 2))
    assert len(np.unique(rows, axis=0)) == len(rows) == 30
    assert np.array_equal(np.sort(rows, axis=1), np.broadcast_to(np.arange(5), (30, 5)))


def test_a_cluster_of_half_of_all_samples_does_not_make_small_p_values(rng):
    """Of the p-values of 60 tables of ten features, a fraction of 0.05 should be at most 0.05."""
    clusters, shares = np.sort(np.concatenate([np.zeros(60, dtype=int), 1 + np.arange(60) % 24])), []
    for _ in range(60):
        is_case = rng.random(25) < 0.5
        y = np.where(clusters % 2 == 0, is_case[clusters], rng.random(120) < 0.5).astype(int)
        X = rng.standard_normal((25, 10))[clusters] + rng.standard_normal((120, 10))
        nuisance = Nuisance.from_samples(120, None, None)
        design = Design(np.array([1.0, 0.9]), responses_of(y, KINDS["classification"], nuisance), nuisance, clusters)
        functions = rank_functions(X, 2, nuisance.weights, np.zeros(10, dtype=bool))
        log_p = evidence(functions, design, design.responses, np.arange(10)[:, None]).log_p
        shares.append(np.mean(log_p <= np.log(0.05)))
    assert np.mean(shares) <= 0.06


def test_factors_of_clusters():
    assert cluster_factors(np.repeat(np.arange(6), 4)).tolist() == [1.0] * 6
    large = cluster_factors(np.sort(np.concatenate([np.zeros(20, dtype=int), 1 + np.arange(20) % 9])))
    assert large == pytest.approx([(1 - (0.5 - 0.2)) ** -0.5] + [1.0] * 9)
