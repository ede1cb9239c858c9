import numpy as np
import pytest
import reference

from randsel._numerics.nuisance import Nuisance
from randsel._numerics.rank_functions import log_tail_of_form, rank_functions
from randsel.interactions import _smallest_set as smallest_set
from randsel.interactions._design import Design, responses_of
from randsel.interactions._evidence import _log_tails_of_forms, evidence
from randsel.interactions._smallest_set import ConditionalTests, find_smallest_set, member_functions
from randsel.targets._kinds import KINDS


def make_tests(X, y, kind="regression", n_functions=4):
    nuisance = Nuisance.from_samples(len(X), None, None)
    functions = rank_functions(X, n_functions, nuisance.weights, np.zeros(X.shape[1], dtype=bool))
    design = Design(0.9 ** np.arange(n_functions), responses_of(y, KINDS[kind], nuisance), nuisance)
    return ConditionalTests(functions, y, KINDS[kind], design)


def literal_functions(X, members, n_functions=4):
    return [reference.rank_functions(X[:, j], n_functions) for j in members]


@pytest.mark.parametrize("members", [[2], [2, 0, 3]])
def test_functions_of_members_are_the_literal_ones(rng, members):
    X = rng.standard_normal((60, 4))
    tests = make_tests(X, X[:, 0])
    rows = member_functions(list(tests.functions.values[members]))
    expected = reference.member_functions(literal_functions(X, members), smallest_set.MAX_DEGREE)
    np.testing.assert_allclose(rows, expected, atol=1e-5)


@pytest.mark.parametrize("members", [[], [1], [1, 4]])
def test_scores_are_the_largest_partial_correlations(rng, members):
    X = rng.standard_normal((120, 6))
    X[:, 5] = X[:, 1] + 0.5 * rng.standard_normal(120)
    y = X[:, 1] + X[:, 1] * X[:, 2] + rng.standard_normal(120)
    tests = make_tests(X, y)
    design = tests.design_given(members)
    functions = literal_functions(X, members)
    fixed = reference.member_functions(functions, smallest_set.MAX_DEGREE)[: 119 // 4]
    expected = [
        max(reference.conditional_score(f, functions, fixed, r.Y[:, 0]) for r in design.responses)
        for f in literal_functions(X, range(6))
    ]
    scores = tests.candidates(members).scores
    others = [j for j in range(6) if j not in members]
    np.testing.assert_allclose(scores[others], np.array(expected)[others], rtol=1e-3)
    assert (scores[members] == -1).all()


def test_numbers_have_two_forms_given_members(rng):
    X = rng.standard_normal((120, 3))
    y = np.exp(2 * X[:, 0]) + rng.standard_normal(120)
    responses = make_tests(X, y).design_given([0]).responses
    fixed = reference.member_functions(literal_functions(X, [0]), smallest_set.MAX_DEGREE)

    def scores(values):
        # a column's first rank function is its score
        return reference.rank_functions(values, 1)[0]

    expected = [scores(reference.residual_of(y, fixed)), scores(y)]
    for response, form in zip(responses, expected, strict=True):
        left = reference.residual_of(form, fixed)
        np.testing.assert_allclose(response.Y[:, 0], left / np.sqrt(np.mean(left**2)), atol=1e-5)


def test_p_value_combines_tests_alone_and_with_every_member(rng):
    X = rng.standard_normal((100, 5))
    tests = make_tests(X, X[:, 0] * X[:, 2] + rng.standard_normal(100))
    design = tests.design_given([0, 1])
    p = [
        np.exp(evidence(tests.functions, design, design.responses, np.array([s])).log_p[0])
        for s in ([2], [0, 2], [1, 2])
    ]
    expected = reference.cauchy_combination(p, [0.5, 0.25, 0.25])
    log_p = tests.log_p_given([0, 1], np.array([2]), design)
    np.testing.assert_allclose(np.exp(log_p), 5 * expected, rtol=1e-6)


@pytest.mark.parametrize("has_extremes", [False, True])
def test_trusted_variances_leave_out_the_guard_unless_there_are_extremes(rng, has_extremes):
    V, Y = rng.standard_normal((3, 90)), rng.uniform(-1, 1, (90, 1)) ** (9 if has_extremes else 1)
    Y = (Y - Y.mean()) / Y.std()
    design = make_tests(V.T, Y[:, 0]).design_given([])
    statistic, even, uneven = reference.form(V, Y)
    tails = [log_tail_of_form(np.array([statistic]), weights[None], 89)[0] for weights in (even, uneven)]
    log_tail = _log_tails_of_forms(V[None].astype(np.float32), np.square(V @ Y).T, design, Y, [np.arange(3)])[0]
    np.testing.assert_allclose(log_tail, max(tails) if has_extremes else tails[0], rtol=1e-3)


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_p_values_given_members_have_their_size(rng, kind):
    X = rng.standard_normal((200, 3000))
    y = X[:, 0] + np.abs(X[:, 1]) + X[:, 0] * X[:, 1] + rng.standard_normal(200) * np.exp(X[:, 0] / 2)
    tests = make_tests(X, (y > 0).astype(int) if kind == "classification" else y, kind)
    p = np.exp(tests.log_p_given([0, 1], np.arange(2, 3000), tests.design_given([0, 1]))) / 3000
    for level in (0.05, 0.01):
        assert (p <= level).mean() < level + 4 * np.sqrt(level / 3000)


def test_a_superfluous_member_is_removed(rng):
    X = rng.standard_normal((300, 20))
    y = X[:, 0] + X[:, 1] + 0.3 * rng.standard_normal(300)
    X[:, 2] = X[:, 0] + X[:, 1] + 0.5 * rng.standard_normal(300)  # the strongest alone
    result = find_smallest_set(make_tests(X, y), 0.05)
    assert (result.steps[0].feature, result.steps[0].added) == (2, True)
    assert (2, False) in [(step.feature, step.added) for step in result.steps]
    assert sorted(result.members) == [0, 1]
    assert (result.log_p <= np.log(0.05)).all()


def test_an_outcome_that_is_explained_completely_ends_the_search(rng):
    X = rng.integers(0, 2, (80, 10)).astype(float)
    result = find_smallest_set(make_tests(X, X[:, 3]), 0.05)
    assert result.members.tolist() == [3]
    assert (result.candidates.log_p > 0).all()


def test_the_set_is_not_larger_than_the_samples_allow(rng):
    X = rng.standard_normal((40, 30))
    tests = make_tests(X, X[:, :20].sum(axis=1))
    assert len(find_smallest_set(tests, 0.999).members) <= tests.max_members == 39 // 8
