from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import reference
from scipy.stats import f_oneway, hypergeom

from randsel._numerics.nuisance import Nuisance
from randsel._numerics.rank_functions import (
    RankFunctions,
    cumulants,
    log_tail_of_form,
    log_tail_of_kurtosis,
    log_tail_of_moments,
    rank_functions,
)
from randsel.interactions import _pair_scan as pair_scan
from randsel.interactions._design import Design, Response, responses_of
from randsel.interactions._evidence import _log_tails_of_forms, evidence, log_number_of_sets, residual
from randsel.interactions._forward_selection import scan_interactions
from randsel.interactions._pair_scan import scan_pairs, scan_triples
from randsel.interactions._permutation_tails import log_tail_of_labels, log_tail_of_signs, permutation_cumulants
from randsel.targets._kinds import KINDS, NUMBERS


def make_problem(X, y, kind="classification", n_functions=3, strata=None, weights=None, clusters=None):
    weights = np.ones(len(X)) if weights is None else weights
    X = np.asarray(X, dtype=float)
    functions = rank_functions(X, n_functions, weights, np.zeros(X.shape[1], dtype=bool), strata)
    nuisance = Nuisance.from_samples(len(X), weights, strata)
    responses = responses_of(np.asarray(y), KINDS[kind], nuisance)
    return functions, Design(0.9 ** np.arange(n_functions), responses, nuisance, clusters)


def evidence_for(functions, design, *sets):
    """Return the evidence for sets of one size in the outcome."""
    return evidence(functions, design, design.responses, np.array(sets))


def permute(design, order):
    """Return the design with the outcome of other samples."""
    responses = [Response(r.Y[order], None if r.labels is None else r.labels[order]) for r in design.responses]
    return replace(design, responses=tuple(responses))


TARGETS = {
    "two classes": (lambda rng, m: rng.integers(0, 2, m), "classification"),
    "four classes": (lambda rng, m: rng.integers(0, 4, m), "classification"),
    "numbers": (lambda rng, m: rng.standard_normal(m), "regression"),
    "heavy numbers": (lambda rng, m: rng.standard_t(2, m), "regression"),
    "two outputs": (lambda rng, m: rng.standard_normal((m, 2)), "regression"),
}


@pytest.mark.parametrize("target", TARGETS)
def test_scan_computes_the_statistic_of_every_pair(rng, target, monkeypatch):
    monkeypatch.setattr(pair_scan, "BLOCK", 4)
    X = rng.standard_normal((50, 9))
    make, kind = TARGETS[target]
    functions, design = make_problem(X, make(rng, 50), kind)
    pairs, log_p = scan_pairs(functions, design, design.responses[0].Y, 36)
    assert len(pairs) == 36
    Y = design.responses[0].Y
    spread = np.linalg.eigvalsh(Y.T @ Y / 50)
    decay, expected = design.function_weights, []
    for pair in pairs:
        f, g = functions.values[pair].astype(float)
        expected.append(
            min(
                log_tail_of_moments(
                    reference.pair_statistic(f[:used], g[:used], Y, decay),
                    *cumulants(np.kron(np.kron(decay[:used], decay[:used]), spread)),
                )
                for used in (2, 3)
            )
        )
    assert np.allclose(log_p, expected, rtol=1e-4)
    assert np.all(np.diff(log_p) >= 0)


def test_best_pairs_do_not_depend_on_tiles(rng, monkeypatch):
    X = rng.standard_normal((60, 25))
    X[:, 20:] = np.round(X[:, 20:])
    functions, design = make_problem(X, rng.integers(0, 2, 60))
    order = np.argsort(functions.counts, kind="stable")
    functions, design = make_problem(X[:, order], rng.integers(0, 2, 60))
    whole = scan_pairs(functions, design, design.responses[0].Y, 300)[0]
    monkeypatch.setattr(pair_scan, "BLOCK", 6)
    assert scan_pairs(functions, design, design.responses[0].Y, 300)[0].tolist() == whole.tolist()
    few = scan_pairs(functions, design, design.responses[0].Y, 10)[0]
    assert few[:10].tolist() == whole[:10].tolist()
    # every feature keeps its best partner
    assert set(few.ravel()) == set(range(25))


def test_scan_of_mixed_blocks_equals_that_of_sorted_features(rng, monkeypatch):
    """A source may choose its blocks: features of several kinds, in any order, more than fit a tile."""

    class InChunks(RankFunctions):
        def blocks(self, size):
            return [range(9), range(9, 14), range(14, 25)]

    X = rng.standard_normal((60, 25))
    X[:, ::3] = np.round(X[:, ::3])
    functions, design = make_problem(X, rng.integers(0, 2, 60))
    pairs, log_p = scan_pairs(functions, design, design.responses[0].Y, 300)
    monkeypatch.setattr(pair_scan, "BLOCK", 4)
    chunks = InChunks(functions.values, functions.counts, functions.untied, functions.incomplete)
    other_pairs, other_log_p = scan_pairs(chunks, design, design.responses[0].Y, 300)
    assert sorted(map(tuple, other_pairs)) == sorted(map(tuple, pairs))
    assert np.allclose(other_log_p, log_p, rtol=1e-5)


def expected_log_p_of_response(f, g, design, response):
    """Return the log p of a pair against one form of the outcome, without strata or weights."""
    V = reference.projected_products(f, g, design.function_weights)
    Y, freedom, first = response.Y, len(response.Y) - 1, []
    for e in (response.Y if response.labels is None else response.labels - response.labels.mean(axis=0)).T:
        statistic = (V[0] @ e) ** 2
        variance, fourth = (values[0] for values in permutation_cumulants(V[:1], e, None))
        log_p = log_tail_of_kurtosis(statistic / variance, fourth / variance**2)
        if np.mean(e**4) > 4 * np.mean(e**2) ** 2:
            signs = log_tail_of_form(np.array([statistic]), np.array([[np.sum(V[0] ** 2 * e**2)]]), freedom)[0]
            log_p = max(log_p, signs)
        if response.labels is not None and log_p < np.log(0.2):
            log_p = log_tail_of_labels(V[:1], (e > 0).astype(float), None)[0]
        first.append(np.exp(log_p))
    p = [reference.cauchy_combination(first, np.full(len(first), 1 / len(first)))]
    for subset in ([0], [0, 1, 3, 4], range(9)):
        statistic, even, uneven = reference.form(V[list(subset)], Y)
        d = freedom * min(len(subset), Y.shape[1])
        tails = [log_tail_of_form(np.array([statistic]), w[None], d)[0] for w in (even, uneven)]
        p.append(np.exp(max(tails)))
    if Y.shape[1] > 1:
        p[0] = reference.cauchy_combination(p[:2], [0.5, 0.5])
    return np.log(reference.cauchy_combination([p[0], *p[2:]], [0.63, 0.135, 0.135]))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("effect", [0.0, 0.7])
def test_evidence_for_a_pair_equals_the_reference(rng, target, effect):
    X = rng.standard_normal((80, 3))
    X[:, 1] += X[:, 0]
    make, kind = TARGETS[target]
    y = make(rng, 80)
    product = X[:, 0] * X[:, 2]
    y = np.where(effect * product > 0.3, 1, y) if kind == "classification" else (y.T + effect * product).T
    functions, design = make_problem(X, y, kind)
    result = evidence_for(functions, design, [0, 1], [0, 2])
    for k, pair in enumerate(([0, 1], [0, 2])):
        f, g = functions.values[pair].astype(float)
        log_p = [expected_log_p_of_response(f, g, design, response) for response in design.responses]
        V = reference.projected_products(f, g, design.function_weights)
        statistic = max(reference.form(V, response.Y)[0] / 80 for response in design.responses)
        assert result.statistic[k] == pytest.approx(statistic, rel=1e-4)
        shares = [1.0] if len(log_p) == 1 else [0.75, 0.25]
        combined = reference.cauchy_combination(np.exp(log_p), shares)
        assert result.log_p[k] == pytest.approx(np.log(combined), rel=2e-3, abs=2e-3)
    assert len(design.responses) == 1 + (target == "heavy numbers")
    assert (result.log_p[1] < np.log(0.01)) == (effect > 0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["continuous", "discrete", "correlated", "skewed target"])
def test_p_values_under_permutation(rng, kind):
    """Among 400 permutations 20 are expected below 0.05; more than 32 have probability 0.004 if p is uniform."""
    m = 120
    X = rng.standard_normal((m, 2))
    if kind == "discrete":
        X = rng.binomial(2, 0.3, (m, 2)).astype(float)
    if kind == "correlated":
        X[:, 1] = X[:, 0] + 0.3 * X[:, 1]
    y = rng.random(m) < (0.1 if kind == "skewed target" else 0.5)
    functions, design = make_problem(X, y, n_functions=4)
    hits, mains = 0, 0
    for _ in range(400):
        permuted = permute(design, rng.permutation(m))
        hits += evidence_for(functions, permuted, [0, 1]).log_p[0] <= np.log(0.05)
        mains += evidence_for(functions, permuted, [0]).log_p[0] <= np.log(0.05)
    assert 1 <= hits <= 32
    assert 1 <= mains <= 32


@pytest.mark.slow
@pytest.mark.parametrize(("m", "size"), [(120, 3), (120, 2), (100, 10), (20, 20), (8, 8), (6, 6)])
def test_p_values_under_permutation_within_strata_and_of_few_samples(rng, m, size):
    """Main effects and pairs of noise: at most 9 % of 600 below 0.05, where chance alone has 5 % ± 0.9 %."""
    strata = np.arange(m) // size
    main, pairs = [], []
    for _ in range(30):
        X, y = rng.standard_normal((m, 7)), rng.standard_normal(m) if m > 8 else rng.permutation(np.arange(m) % 2)
        functions, design = make_problem(X, y, "regression" if m > 8 else "classification", 3 if m > 20 else 1, strata)
        main.append(evidence_for(functions, design, *np.arange(7)[:, None]).log_p)
        pairs.append(evidence_for(functions, design, *list(combinations(range(7), 2))[:20]).log_p)
    for values in (np.concatenate(main), np.concatenate(pairs)):
        assert np.mean(values <= np.log(0.05)) <= 0.09
        assert values.min() >= design.min_log_p


def test_p_values_are_bounded_by_the_number_of_permutations():
    functions, design = make_problem(np.arange(8.0)[:, None], np.repeat([0, 1], 4), n_functions=1)
    assert design.min_log_p == pytest.approx(-np.log(70))
    assert evidence_for(functions, design, [0]).log_p[0] >= -np.log(70)
    strata = np.repeat([0, 1], 4)
    _, numbers = make_problem(np.arange(8.0)[:, None], np.arange(8.0), "regression", 1, strata)
    assert numbers.min_log_p == pytest.approx(-2 * np.log(24))


@pytest.mark.parametrize("size", [2, 4])
def test_pairs_are_detected_within_small_strata(rng, size):
    X = rng.standard_normal((200, 4))
    functions, design = make_problem(X, X[:, 0] * X[:, 1], "regression", 3, np.arange(200) // size)
    assert evidence_for(functions, design, [0, 1], [2, 3]).log_p[0] < np.log(1e-6)


def test_residual_of_an_exact_fit_is_zero(rng):
    x = rng.integers(0, 2, 80)
    functions, design = make_problem(np.stack([x, rng.standard_normal(80)], axis=1), x)
    left = residual(functions, design, np.array([[0]]))
    assert np.all(left[0].Y == 0.0)
    assert np.all(evidence(functions, design, left, np.array([[0], [1]])).log_p >= np.log(0.98))
    assert len(scan_pairs(functions, design, left[0].Y, 5)[0]) == 0


def test_p_value_of_a_pair_does_not_depend_on_its_batch(rng):
    X = np.concatenate([rng.integers(0, 2, (100, 2)), rng.standard_normal((100, 2))], axis=1)
    functions, design = make_problem(X, rng.integers(0, 2, 100))
    alone = evidence_for(functions, design, [0, 1]).log_p[0]
    assert evidence_for(functions, design, [0, 1], [2, 3]).log_p[0] == pytest.approx(alone, rel=1e-5)


def test_constant_outputs_and_large_offsets(rng):
    y = rng.standard_normal(60)
    weights = np.ones(60)
    nuisance = Nuisance.from_samples(60, weights, None)
    alone = NUMBERS.contrasts(y, nuisance)
    assert np.allclose(NUMBERS.contrasts(np.stack([y, np.full(60, 0.1)], axis=1), nuisance), alone)
    assert np.allclose(NUMBERS.contrasts(np.round(y * 64) + 1e15, nuisance)[:, 0], alone[:, 0], atol=0.05)


RARE_OUTCOMES = {
    "rare class": (lambda rng, m: rng.permutation(np.arange(m) < 8), "classification"),
    "zeros and few numbers": (lambda rng, m: np.where(rng.random(m) < 0.05, rng.exponential(size=m), 0), "regression"),
    "extreme numbers": (lambda rng, m: rng.standard_cauchy(m), "regression"),
}


@pytest.mark.slow
@pytest.mark.parametrize("outcome", RARE_OUTCOMES)
def test_a_few_samples_do_not_make_a_small_p_value(rng, outcome):
    """Rare levels meet rare outcomes by chance: 1 of 1000 features and of 1000 pairs may have p below 0.001.

    Of 24 outcomes, 400 features and 380 pairs each: 9.6 and 9.1 tests are expected. Those of one outcome are not
    independent, so that three times as many are allowed.
    """
    m, (make, kind) = 160, RARE_OUTCOMES[outcome]
    main = pairs = 0
    for _ in range(24):
        X = (rng.random((m, 400)) < rng.uniform(0.03, 0.1, 400)).astype(float)
        functions, design = make_problem(X, make(rng, m), kind)
        varying = np.flatnonzero(functions.counts)
        main += np.sum(evidence_for(functions, design, *varying[:, None]).log_p <= np.log(0.001))
        pairs += np.sum(evidence_for(functions, design, *combinations(varying[:28], 2)).log_p <= np.log(0.001))
    assert main <= 29
    assert pairs <= 28


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4, 6])
def test_rare_levels_in_small_strata_do_not_make_a_small_p_value(rng, size):
    """Few arrangements of a rare level are possible in small strata: 4 of 40000 tests below 0.0001 are expected."""
    m, p_small, strata = 96, 0, np.arange(96) // size
    for _ in range(100):
        X = (rng.random((m, 400)) < rng.uniform(0.03, 0.2, 400)).astype(float)
        functions, design = make_problem(X, np.exp(1.5 * rng.standard_normal(m)), "regression", 1, strata)
        varying = np.flatnonzero(functions.counts)
        p_small += np.sum(evidence_for(functions, design, *varying[:, None]).log_p <= np.log(0.0001))
    assert p_small <= 12


def test_residual_has_no_additive_effect(rng):
    X = rng.standard_normal((200, 6))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.standard_normal(200)
    functions, design = make_problem(X, y, "regression", n_functions=4)
    before = evidence_for(functions, design, *np.arange(6)[:, None]).log_p
    after = evidence(functions, design, residual(functions, design, np.array([[0], [1]])), np.arange(6)[:, None]).log_p
    assert np.all(before[:2] < -8)
    assert np.all(after[:2] > -2)
    product = make_problem(X, X[:, 0] * X[:, 1], "regression", n_functions=4)
    left = residual(*product, np.array([[0], [1]]), np.array([[0, 1]]))
    assert evidence(*product, left, np.array([[0, 1]])).log_p[0] > -3


def test_residual_of_more_functions_than_samples_keeps_noise(rng):
    X = rng.standard_normal((60, 100))
    functions, design = make_problem(X, rng.standard_normal(60), "regression")
    left = residual(functions, design, np.arange(100)[:, None])
    assert np.corrcoef(left[0].Y[:, 0], design.responses[0].Y[:, 0])[0, 1] > 0.5


@pytest.mark.slow
def test_pairs_of_correlated_features_do_not_echo_main_effects(rng):
    """The target depends on one feature, which others follow: none of their pairs is reported."""
    echoes = 0
    for _ in range(20):
        cause = rng.standard_normal(200)
        X = np.sqrt(0.8) * cause[:, None] + np.sqrt(0.2) * rng.standard_normal((200, 12))
        X[:, 0] = cause
        y = np.abs(cause) + 0.2 * rng.standard_normal(200) > 0.7
        found = scan_interactions(*make_problem(X, y, n_functions=4), 66)
        echoes += found.evidence[2].log_p[0] + log_number_of_sets(12, 2) < np.log(0.05)
        assert found.order[0] == 0
    assert echoes <= 4


def test_forward_steps_select_weak_features_after_strong_ones(rng):
    X = rng.standard_normal((300, 10))
    y = 3 * np.sign(X[:, 0] * X[:, 1]) + X[:, 2] + 0.6 * rng.standard_normal(300)
    found = scan_interactions(*make_problem(X, y, "regression"), 45)
    assert set(found.order[:2]) == {0, 1}
    assert found.order[2] == 2
    assert found.residual_log_p[2] > np.log(0.01)
    assert found.steps[2][0] == 1
    assert found.partners()[0][:2].tolist() == [1, 0]


def test_scan_of_triples(rng):
    X = rng.standard_normal((250, 8))
    y = np.sign(X[:, 1] * X[:, 4] * X[:, 6])
    functions, design = make_problem(X, y)
    assert scan_triples(functions, design, design.responses[0].Y, 5)[0].tolist() == [1, 4, 6]
    found = scan_interactions(functions, design, 20, order=3)
    assert found.sets[3][0].tolist() == [1, 4, 6]
    assert set(found.order[:3]) == {1, 4, 6}
    assert found.log_p[[1, 4, 6]].max() < np.log(1e-3)
    assert found.evidence[2].log_p[0] + log_number_of_sets(8, 2) > np.log(0.01)


def test_number_of_sets():
    assert np.exp(log_number_of_sets(20, 2)) == pytest.approx(190)
    assert np.exp(log_number_of_sets(20, 3)) == pytest.approx(1140)


@pytest.mark.parametrize("effect", [0.0, 0.4])
def test_evidence_of_a_feature_for_numbers_equals_the_reference(rng, effect):
    """Two scores of the ranks share the first test; then smooth functions, and all functions."""
    x = rng.standard_t(3, 80)
    functions, design = make_problem(x[:, None], effect * x + rng.standard_normal(80), "regression")
    V, e = functions.values[0].astype(float), design.responses[0].Y[:, 0]
    assert len(design.responses) == 1
    first = []
    for a in (V[0], reference.heavy_score(V[0])):
        variance, fourth = (values[0] for values in permutation_cumulants(a[None], e, None))
        first.append(np.exp(log_tail_of_kurtosis((a @ e) ** 2 / variance, fourth / variance**2)))
        permuted = np.array([abs(a @ rng.permutation(e)) for _ in range(2000)])
        share = np.mean(permuted >= abs(a @ e))
        assert first[-1] == pytest.approx(share, rel=0.3, abs=0.004)
    p = [reference.cauchy_combination(first, [0.5, 0.5])]
    weighted = V * np.sqrt(design.function_weights)[:, None]
    for subset in ([0, 1], [0, 1, 2]):
        statistic, even, uneven = reference.form(weighted[subset], e[:, None])
        p.append(np.exp(max(log_tail_of_form(np.array([statistic]), w[None], 79)[0] for w in (even, uneven))))
    expected = np.log(reference.cauchy_combination(p, [0.63, 0.135, 0.135]))
    assert evidence_for(functions, design, [0]).log_p[0] == pytest.approx(expected, rel=1e-3)


def expected_p_of_clusters(a, e, clusters):
    """Return the p-value of one product in clusters: signs of sums change, and values within clusters are permuted."""
    numbers = np.unique(clusters)
    sums = np.array([a[clusters == cluster] @ e[clusters == cluster] for cluster in numbers])
    spherical = log_tail_of_form(np.array([sums.sum() ** 2]), np.array([[np.sum(sums**2)]]), len(sums) - 1)[0]
    p_of_signs = np.exp(max(spherical, log_tail_of_signs(sums[None])[0]))
    if reference.sign_p_value(sums) > 0.005:
        assert p_of_signs == pytest.approx(reference.sign_p_value(sums), rel=0.3)
    varying = [cluster for cluster in numbers if np.ptp(e[clusters == cluster]) > 1e-6]
    if len(varying) < 4:
        return p_of_signs
    within = [(a[clusters == c] - a[clusters == c].mean(), e[clusters == c] - e[clusters == c].mean()) for c in varying]
    statistic = sum(f @ g for f, g in within)
    variance, fourth = np.sum([np.ravel(permutation_cumulants(f[None], g, None)) for f, g in within], axis=0)
    weight = sum(np.sum((f * g) ** 2) for f, g in within)
    freedom = sum(len(g) - 1 for _, g in within)
    signs = log_tail_of_form(np.array([statistic**2]), np.array([[weight]]), freedom)[0]
    tails = [log_tail_of_kurtosis(statistic**2 / variance, fourth / variance**2), signs]
    p_within = float(np.exp(max(tails)))
    shuffle = np.random.default_rng(0).permutation
    permuted = [abs(sum(f @ shuffle(g) for f, g in within)) for _ in range(1000)]
    share = np.mean(np.array(permuted) >= abs(statistic))
    if share > 0.02:
        assert p_within == pytest.approx(share, rel=0.4)
    return reference.cauchy_combination([p_of_signs, p_within], [0.5, 0.5])


@pytest.mark.parametrize("effect", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("n_varying", [12, 6, 3, 1])
def test_sums_over_clusters_replace_samples(rng, effect, n_varying):
    """Samples of a cluster are not independent: the signs of whole clusters change, not those of samples."""
    clusters = np.repeat(np.arange(12), 5)
    x = rng.standard_normal(12)[clusters] + rng.standard_normal(60)
    x = np.where(clusters < n_varying, x, x + effect)
    y = effect * x + rng.standard_normal(12)[clusters] + rng.standard_normal(60)
    first = np.unique(clusters, return_index=True)[1]
    y = np.where(clusters < n_varying, y, y[first][clusters])
    functions, design = make_problem(x[:, None], y, "regression", 1, clusters=clusters)
    a = functions.values[0, 0].astype(float)
    p = [expected_p_of_clusters(a, response.Y[:, 0], clusters) for response in design.responses]
    heavy = expected_p_of_clusters(reference.heavy_score(a), design.responses[0].Y[:, 0], clusters)
    p[0] = reference.cauchy_combination([p[0], heavy], [0.5, 0.5])
    expected = reference.cauchy_combination(p, [1.0] if len(p) == 1 else [0.75, 0.25])
    log_p = evidence_for(functions, design, [0]).log_p[0]
    assert log_p == pytest.approx(max(np.log(expected), design.min_log_p), rel=1e-3)
    assert design.min_log_p == pytest.approx(-11 * np.log(2))
    assert design.freedom == 11


@pytest.mark.parametrize("shift", [0.5, 1.0, 2.0])
def test_form_of_one_product_and_several_classes_is_the_f_test(rng, shift):
    """If scores have a normal distribution, the sum of squares between classes is that of an analysis of variance."""
    y = np.repeat(np.arange(3), [8, 10, 12])
    x = rng.standard_normal(30) + shift * y
    nuisance = Nuisance.from_samples(30, None, None)
    responses = responses_of(y, KINDS["classification"], nuisance)
    design = Design(np.ones(1), responses, nuisance, trusts_variances=True)
    a = (x - x.mean()) / x.std()
    squares = np.square(a @ responses[0].Y)[None, None].sum(axis=2)
    log_tail = _log_tails_of_forms(a[None, None], squares, design, responses[0].Y, [np.array([0])])[0][0]
    assert log_tail == pytest.approx(np.log(f_oneway(x[y == 0], x[y == 1], x[y == 2]).pvalue), abs=0.12)


def test_clusters_enter_the_forms_by_their_sums(rng):
    """Two outputs, one function: the covariance of sums over clusters is the null covariance."""
    clusters = np.repeat(np.arange(15), 4)
    functions, design = make_problem(
        rng.standard_normal((60, 1)), rng.standard_normal((60, 2)), "regression", 1, clusters=clusters
    )
    a, Y = functions.values[0, 0].astype(float), design.responses[0].Y
    sums = np.array([[a[clusters == cluster] @ e[clusters == cluster] for cluster in range(15)] for e in Y.T])
    p = [expected_p_of_clusters(score, e, clusters) for score in (a, reference.heavy_score(a)) for e in Y.T]
    form = np.exp(log_tail_of_form(np.sum((a @ Y) ** 2)[None], np.sum(sums**2, axis=1)[None], 14)[0])
    scores = [reference.cauchy_combination(p[:2], [0.5, 0.5]), reference.cauchy_combination(p[2:], [0.5, 0.5])]
    expected = reference.cauchy_combination([reference.cauchy_combination(scores, [0.5, 0.5]), form], [0.5, 0.5])
    assert np.exp(evidence_for(functions, design, [0]).log_p[0]) == pytest.approx(expected, rel=1e-3)


def test_perfect_separation_of_few_samples(rng):
    """One of all sets of 5 samples out of 100 has the largest sum: p is twice its share, 2.7e-8."""
    X, y = rng.standard_normal((100, 3)), np.arange(100) < 5
    X[:5, 0] += 10.0
    functions, design = make_problem(X, y, n_functions=4)
    log_p = evidence_for(functions, design, [0], [1]).log_p
    assert np.log(2.6e-8) < log_p[0] < np.log(1e-6)
    assert log_p[1] > np.log(0.001)


@pytest.mark.parametrize("n_carriers", [3, 5, 9])
def test_a_rare_value_is_tested_as_by_fisher(n_carriers):
    """All carriers of a rare variant among 1000 samples are cases, of which there are 100."""
    carrier, y = np.arange(1000) < n_carriers, np.arange(1000) < 100
    functions, design = make_problem(carrier[:, None].astype(float), y)
    expected = hypergeom.logpmf(n_carriers, 1000, n_carriers, 100) + np.log(2.0)
    assert evidence_for(functions, design, [0]).log_p[0] == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_p_values_do_not_depend_on_the_other_features_of_a_batch(rng, kind):
    m = 120
    X = np.stack([rng.integers(0, levels, m) for levels in (2, 3, 5)] + [rng.standard_normal(m) for _ in range(3)], 1)
    y = rng.integers(0, 3, m) if kind == "classification" else rng.exponential(size=m)
    functions, design = make_problem(X, y, kind, 4)
    for size in (1, 2, 3):
        sets = list(combinations(range(6), size))
        together = evidence_for(functions, design, *sets)
        for k, members in enumerate(sets):
            alone = evidence_for(functions, design, members)
            assert alone.log_p[0] == pytest.approx(together.log_p[k], rel=1e-4, abs=1e-5)
            assert alone.statistic[0] == pytest.approx(together.statistic[k], rel=1e-4)


def test_forms_of_numbers(rng):
    """Scores of the ranks alone if they correlate with the numbers, both forms if a few numbers are extreme."""
    y = rng.standard_normal(100)
    (scores,) = responses_of(y, NUMBERS, Nuisance.from_samples(len(y), None, None))
    assert np.corrcoef(scores.Y[:, 0], reference.rank_functions(y, 1)[0])[0, 1] == pytest.approx(1.0)
    both = responses_of(np.exp(3 * y), NUMBERS, Nuisance.from_samples(len(y), None, None))
    assert len(both) == 2
    assert np.allclose(both[0].Y, scores.Y)
    assert np.corrcoef(both[1].Y[:, 0], np.exp(3 * y))[0, 1] == pytest.approx(1.0)


def test_effects_on_extremes_and_on_the_bulk_are_both_detected(rng):
    """An effect on a few extreme numbers hides in ranks; one on the others hides in the numbers as they are."""
    X = rng.standard_normal((200, 2))
    extremes = np.where(np.abs(X[:, 0]) > 1.5, 1e3 * X[:, 0], rng.standard_normal(200))
    bulk = 0.5 * X[:, 1] + rng.standard_normal(200)
    bulk[:3] = [4e4, -3e4, 5e4]
    for y, feature in ((extremes, 0), (bulk, 1)):
        assert evidence_for(*make_problem(X, y, "regression"), [feature]).log_p[0] < np.log(1e-3)


def test_variance_of_every_stratum_counts():
    """A noisy stratum and a quiet one: the null variance is that of permutations within strata."""
    rng = np.random.default_rng(3)
    strata = np.repeat([0, 1], [40, 40])
    y = rng.standard_normal(80) * np.where(strata == 0, 0.1, 3.0)
    _, design = make_problem(rng.standard_normal((80, 2)), y, "regression", 2, strata)
    Y = design.responses[-1].Y
    variances = design.variances(Y)
    for stratum in (0, 1):
        here = strata == stratum
        assert np.allclose(variances[here], np.sum(np.square(Y[here]).mean(axis=1)) / 39)
