from itertools import combinations

import numpy as np
import pytest
import reference

from randsel._numerics.rank_functions import (
    RankFunctions,
    cumulants,
    log_tail_of_form,
    log_tail_of_moments,
    rank_functions,
)
from randsel.interactions import _pair_scan as pair_scan
from randsel.interactions._evidence import Design, evidence, log_number_of_sets, residual
from randsel.interactions._forward_selection import scan_interactions
from randsel.interactions._pair_scan import scan_pairs, scan_triples
from randsel.targets._kinds import KINDS, NUMBERS


def make_problem(X, y, kind="classification", n_functions=3, strata=None, weights=None):
    weights = np.ones(len(X)) if weights is None else weights
    X = np.asarray(X, dtype=float)
    functions = rank_functions(X, n_functions, weights, np.zeros(X.shape[1], dtype=bool))
    return functions, Design(0.9 ** np.arange(n_functions), KINDS[kind].contrasts(y, weights, strata), weights, strata)


TARGETS = {
    "two classes": (lambda rng, m: rng.integers(0, 2, m), "classification"),
    "four classes": (lambda rng, m: rng.integers(0, 4, m), "classification"),
    "numbers": (lambda rng, m: rng.standard_normal(m), "regression"),
    "two outputs": (lambda rng, m: rng.standard_normal((m, 2)), "regression"),
}


@pytest.mark.parametrize("target", TARGETS)
def test_scan_computes_the_statistic_of_every_pair(rng, target, monkeypatch):
    monkeypatch.setattr(pair_scan, "BLOCK", 4)
    X = rng.standard_normal((50, 9))
    make, kind = TARGETS[target]
    functions, design = make_problem(X, make(rng, 50), kind)
    pairs, log_p = scan_pairs(functions, design, design.Y, 36)
    assert len(pairs) == 36
    spread = np.linalg.eigvalsh(design.Y.T @ design.Y / 50)
    decay, expected = design.function_weights, []
    for pair in pairs:
        f, g = functions.values[pair].astype(float)
        expected.append(
            min(
                log_tail_of_moments(
                    reference.pair_statistic(f[:used], g[:used], design.Y, decay),
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
    whole = scan_pairs(functions, design, design.Y, 300)[0]
    monkeypatch.setattr(pair_scan, "BLOCK", 6)
    assert scan_pairs(functions, design, design.Y, 300)[0].tolist() == whole.tolist()
    few = scan_pairs(functions, design, design.Y, 10)[0]
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
    pairs, log_p = scan_pairs(functions, design, design.Y, 300)
    monkeypatch.setattr(pair_scan, "BLOCK", 4)
    chunks = InChunks(functions.values, functions.counts, functions.untied)
    other_pairs, other_log_p = scan_pairs(chunks, design, design.Y, 300)
    assert sorted(map(tuple, other_pairs)) == sorted(map(tuple, pairs))
    assert np.allclose(other_log_p, log_p, rtol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_evidence_for_a_pair_equals_the_reference(rng, target):
    X = rng.standard_normal((80, 3))
    X[:, 1] += X[:, 0]
    make, kind = TARGETS[target]
    functions, design = make_problem(X, make(rng, 80), kind)
    found = evidence(functions, design, design.Y, np.array([[0, 1], [0, 2]]))
    for k, pair in enumerate(([0, 1], [0, 2])):
        freedom, scale = 79 * design.Y.shape[1], 79 / 80
        least = []
        for chosen in ([0, 1, 3, 4], range(9)):
            statistic, even, uneven = reference.pair_evidence(
                *functions.values[pair].astype(float), design.Y, design.function_weights, list(chosen)
            )
            least.append(
                max(log_tail_of_form(np.array([statistic * scale]), w[None], freedom)[0] for w in (even, uneven))
            )
        assert found.statistic[k] == pytest.approx(statistic, rel=1e-4)
        assert found.log_p[k] == pytest.approx(min(min(least) + np.log(2), 0.0), rel=1e-3)


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
        Y = design.Y[rng.permutation(m)]
        hits += evidence(functions, design, Y, np.array([[0, 1]])).log_p[0] <= np.log(0.05)
        mains += evidence(functions, design, Y, np.array([[0]])).log_p[0] <= np.log(0.05)
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
        main.append(evidence(functions, design, design.Y, np.arange(7)[:, None]).log_p)
        pairs.append(evidence(functions, design, design.Y, np.array(list(combinations(range(7), 2)))[:20]).log_p)
    for values in (np.concatenate(main), np.concatenate(pairs)):
        assert np.mean(values <= np.log(0.05)) <= 0.09
        assert values.min() >= design.min_log_p


def test_p_values_are_bounded_by_the_number_of_permutations():
    functions, design = make_problem(np.arange(8.0)[:, None], np.repeat([0, 1], 4), n_functions=1)
    assert design.min_log_p == pytest.approx(-np.log(70))
    assert evidence(functions, design, design.Y, np.array([[0]])).log_p[0] >= -np.log(70)
    strata = np.repeat([0, 1], 4)
    _, numbers = make_problem(np.arange(8.0)[:, None], np.arange(8.0), "regression", 1, strata)
    assert numbers.min_log_p == pytest.approx(-2 * np.log(24))


def test_pairs_are_detected_within_strata_of_two_samples(rng):
    X = rng.standard_normal((200, 4))
    functions, design = make_problem(X, X[:, 0] * X[:, 1], "regression", 3, np.arange(200) // 2)
    assert evidence(functions, design, design.Y, np.array([[0, 1], [2, 3]])).log_p[0] < np.log(1e-6)


def test_residual_of_an_exact_fit_is_zero(rng):
    x = rng.integers(0, 2, 80)
    functions, design = make_problem(np.stack([x, rng.standard_normal(80)], axis=1), x)
    left = residual(functions, design, np.array([[0]]))
    assert np.all(left == 0.0)
    assert evidence(functions, design, left, np.array([[0], [1]])).log_p.tolist() == [0.0, 0.0]
    assert len(scan_pairs(functions, design, left, 5)[0]) == 0


def test_p_value_of_a_pair_does_not_depend_on_its_batch(rng):
    X = np.concatenate([rng.integers(0, 2, (100, 2)), rng.standard_normal((100, 2))], axis=1)
    functions, design = make_problem(X, rng.integers(0, 2, 100))
    alone = evidence(functions, design, design.Y, np.array([[0, 1]])).log_p[0]
    assert evidence(functions, design, design.Y, np.array([[0, 1], [2, 3]])).log_p[0] == pytest.approx(alone, rel=1e-5)


def test_constant_outputs_and_large_offsets(rng):
    y = rng.standard_normal(60)
    weights = np.ones(60)
    alone = NUMBERS.contrasts(y, weights, None)
    assert np.allclose(NUMBERS.contrasts(np.stack([y, np.full(60, 0.1)], axis=1), weights, None), alone)
    assert np.allclose(NUMBERS.contrasts(np.round(y * 64) + 1e15, weights, None)[:, 0], alone[:, 0], atol=0.05)


def test_a_few_samples_do_not_make_a_small_p_value(rng):
    """Three samples share rare levels of two features and the rare class: that must not give a small p-value."""
    m = 200
    X = np.zeros((m, 2))
    X[:8, 0] = 1.0
    X[:3, 1] = X[100:105, 1] = 1.0
    y = np.zeros(m, dtype=int)
    y[:3] = y[150:153] = 1
    functions, design = make_problem(X, y)
    assert evidence(functions, design, design.Y, np.array([[0, 1]])).log_p[0] > np.log(1e-3)


def test_residual_has_no_additive_effect(rng):
    X = rng.standard_normal((200, 6))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.standard_normal(200)
    functions, design = make_problem(X, y, "regression", n_functions=4)
    before = evidence(functions, design, design.Y, np.arange(6)[:, None]).log_p
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
    assert np.corrcoef(left[:, 0], design.Y[:, 0])[0, 1] > 0.5


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
    assert scan_triples(functions, design, design.Y, 5)[0].tolist() == [1, 4, 6]
    found = scan_interactions(functions, design, 20, order=3)
    assert found.sets[3][0].tolist() == [1, 4, 6]
    assert set(found.order[:3]) == {1, 4, 6}
    assert found.log_p[[1, 4, 6]].max() < np.log(1e-3)
    assert found.evidence[2].log_p[0] + log_number_of_sets(8, 2) > np.log(0.01)


def test_number_of_sets():
    assert np.exp(log_number_of_sets(20, 2)) == pytest.approx(190)
    assert np.exp(log_number_of_sets(20, 3)) == pytest.approx(1140)
