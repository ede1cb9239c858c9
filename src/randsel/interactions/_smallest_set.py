"""The smallest sufficient set: forward and backward selection by tests of one feature given others.

The features of a set are held fixed by projecting their functions, and products of these, out of the outcome and out of
all other features (eq. 24). `evidence` then tests a feature given the set, alone and together with every member (eq.
25). A forward step adds the feature of the smallest p-value; backward steps remove members that the others make
superfluous, such as a copy that was added before the feature itself.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np

from randsel._numerics.nuisance import Nuisance
from randsel._numerics.rank_functions import RankFunctions, RankFunctionSource, combine_log_p
from randsel._utils.typing import Array
from randsel.interactions._design import BATCH_BYTES, SMOOTH, Design, Response, responses_of
from randsel.interactions._evidence import MIN_MEAN_SQUARE, Responses, evidence
from randsel.targets import OutcomeKind

#: Largest total degree of the functions of members and of their products that are projected out.
MAX_DEGREE = 4
#: Degrees of freedom of the outcome per function that is projected out, and per member of the set.
FREEDOM_PER_ROW, FREEDOM_PER_MEMBER = 4, 8
#: Number of candidates that a forward step tests: those whose functions follow the residual most closely.
TESTED = 50
#: Maximum number of forward steps.
MAX_FORWARD_STEPS = 100
#: Share of the test of a feature alone in its p-value; tests with the members of the set share the rest.
SHARE_ALONE = 0.5


@dataclass(frozen=True)
class Step:
    """A feature that was added to the set or removed from it, and its corrected log p-value given the others."""

    feature: int
    added: bool
    log_p: float


@dataclass(frozen=True)
class Candidates:
    """Candidates of a forward step."""

    scores: Array  # per feature: relation to what the set does not explain of the outcome (eq. 26); -1 for members
    tested: Array  # the features of the largest scores
    log_p: Array  # their log p-values given the set, corrected for the number of all features


@dataclass(frozen=True)
class SmallestSet:
    """A set in which every feature is needed, and to which no other feature needs to be added."""

    members: Array  # in the order in which they were added
    log_p: Array  # of each given the other members, corrected for the number of all features
    candidates: Candidates  # the others, given the set
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class ConditionalTests:
    """Tests of features given a set of others."""

    functions: RankFunctionSource  # of all features
    y: Array
    kind: OutcomeKind
    design: Design  # of the tests given no feature

    @property
    def max_members(self) -> int:
        """Maximum number of members."""
        return max(self.design.freedom // FREEDOM_PER_MEMBER, 1)

    def design_given(self, members: list[int]) -> Design:
        """Return the design of tests given the members; without responses if these explain the outcome completely."""
        if not members:
            return replace(self.design, trusts_variances=True)
        rows = member_functions(self._functions_of(members))[: max(self.design.freedom // FREEDOM_PER_ROW, 1)]
        nuisance = self.design.nuisance.extend(rows)
        responses = self._responses_without(nuisance)
        return replace(self.design, nuisance=nuisance, responses=responses, trusts_variances=True)

    def _responses_without(self, nuisance: Nuisance) -> Responses:
        """Return the forms of the outcome without nuisance variables; none if these explain it completely.

        Numbers have two: scores of the ranks of the residual, and the residual of the scores of the ranks. The first is
        better if effects add up in y as it is, the second if y has extreme values that the members do not explain.
        """
        responses = responses_of(self.y, self.kind, nuisance)
        if self.kind.has_classes or not responses:
            return responses
        residual_of_scores = Response(self.kind.contrasts(self.design.responses[0].Y, nuisance))
        return (responses[0], *([residual_of_scores] if residual_of_scores.Y.shape[1] else []))

    def _functions_of(self, members: list[int]) -> list[Array]:
        """Return the functions of every member, as many as it has."""
        if not members:
            return []
        functions = self.functions.take(np.array(members))
        return [f[:count] for f, count in zip(functions.values, functions.counts, strict=True)]

    def log_p_given(self, members: list[int], features: Array, design: Design) -> Array:
        """Return the corrected log p-values of features given the members (eq. 25)."""
        correction = np.log(len(self.functions))
        if not design.responses:
            return np.full(len(features), correction)
        tests = [evidence(self.functions, design, design.responses, features[:, None]).log_p]
        for member in members:
            pairs = np.stack([np.full_like(features, member), features], axis=1)
            tests.append(evidence(self.functions, design, design.responses, pairs).log_p)
        shares = [SHARE_ALONE, *[(1.0 - SHARE_ALONE) / len(members)] * len(members)] if members else [1.0]
        return np.asarray(combine_log_p(np.stack(tests), np.array(shares)) + correction)

    def candidates(self, members: list[int]) -> Candidates:
        """Score all features given the members, and test those of the largest scores."""
        design = self.design_given(members)
        n, m = len(self.functions), design.n_samples
        scores = np.zeros(n)
        if design.responses:
            # a candidate is scored alone and together with the smooth functions of members
            smooth = [f[:SMOOTH] for f in self._functions_of(members)]
            multipliers = np.concatenate([np.ones((1, m), dtype=np.float32), *smooth])
            batch = max(1, BATCH_BYTES // (4 * m * len(design.function_weights)))
            score = partial(self.functions.map_sets, _score_batch, batch=batch, n_jobs=design.n_jobs)
            for rows, values in score(np.arange(n)[:, None], design, multipliers):
                scores[rows] = values
        scores[members] = -1.0
        tested = np.argsort(-scores, kind="stable")[: min(TESTED, n - len(members))]
        return Candidates(scores, tested, self.log_p_given(members, tested, design))

    def members_given_others(self, members: list[int]) -> Array:
        """Return the corrected log p-value of every member given the others."""
        log_p = np.zeros(len(members))
        for k, member in enumerate(members):
            others = [*members[:k], *members[k + 1 :]]
            log_p[k] = self.log_p_given(others, np.array([member]), self.design_given(others))[0]
        return log_p


def find_smallest_set(
    tests: ConditionalTests, alpha: float, report: Callable[..., Callable[..., Candidates]] = lambda step: step
) -> SmallestSet:
    """Add the feature of the smallest p-value given the set, remove members that are not needed, and repeat.

    The search ends if no corrected p-value is at most `alpha`, if the set has as many members as the samples allow, or
    if the set was reached before. `report` wraps the function that runs a forward step.
    """
    members: list[int] = []
    log_p, steps, log_alpha = np.zeros(0), list[Step](), np.log(alpha)
    find_candidates, earlier_sets = report(tests.candidates), set[frozenset[int]]()
    for _ in range(MAX_FORWARD_STEPS):
        candidates = find_candidates(members)
        strongest = int(np.argmin(candidates.log_p)) if len(candidates.tested) else None
        is_final = strongest is None or len(members) >= tests.max_members or frozenset(members) in earlier_sets
        if is_final or candidates.log_p[strongest] > log_alpha:
            break
        earlier_sets.add(frozenset(members))
        steps.append(Step(int(candidates.tested[strongest]), True, float(candidates.log_p[strongest])))
        members = [*members, steps[-1].feature]
        log_p = tests.members_given_others(members)
        while members and log_p.max() > log_alpha:
            weakest = int(np.argmax(log_p))
            steps.append(Step(members[weakest], False, float(log_p[weakest])))
            members = [*members[:weakest], *members[weakest + 1 :]]
            log_p = tests.members_given_others(members)
    return SmallestSet(np.array(members, dtype=int), log_p, candidates, tuple(steps))


def member_functions(functions: list[Array]) -> Array:
    """Return the functions of members, and products of functions of two members, by increasing total degree (eq. 24).

    The signed square of the first function has degree three; tests of heavy tails use it (eq. 16a).
    """
    functions, rows = [f.astype(np.float64) for f in functions], list[Array]()
    for degree in range(1, MAX_DEGREE + 1):
        rows += [f[degree - 1] for f in functions if degree <= len(f)]
        rows += [f[0] * np.abs(f[0]) for f in functions if degree == 3]
        for f, g in combinations(functions, 2):
            rows += [f[a - 1] * g[degree - a - 1] for a in range(1, degree) if a <= len(f) and degree - a <= len(g)]
    return np.array(rows)


def _score_batch(functions: RankFunctions, sets: Array, design: Design, multipliers: Array) -> Array:
    """Return the scores of features: the largest squared partial correlation of a product with the outcome (eq. 26).

    A product is one of all functions of a feature with the first multiplier, or a smooth one with any other multiplier.
    """
    weights, total, nuisance_columns = design.sample_weights, design.sample_weights.sum(), design.nuisance.columns
    values = functions.values[sets[:, 0]]
    scores = np.zeros(len(values))
    for k, multiplier in enumerate(multipliers):
        used = values if k == 0 else values[:, :SMOOTH]
        rows, scaled = used.reshape(-1, used.shape[2]), (weights * multiplier)[:, None]
        squares = np.square(rows) @ (weights * np.square(multiplier)).astype(np.float32)
        residual_squares = (
            squares - np.square(rows @ (nuisance_columns * scaled).astype(np.float32)).sum(axis=1) / total
        )
        varies = residual_squares > MIN_MEAN_SQUARE * total
        for response in design.responses:
            inner = np.square(rows @ (response.Y * scaled).astype(np.float32)).sum(axis=1)
            score = np.divide(inner, residual_squares * total, out=np.zeros_like(inner), where=varies)
            np.maximum(scores, score.reshape(used.shape[:2]).max(axis=1), out=scores)
    return scores
