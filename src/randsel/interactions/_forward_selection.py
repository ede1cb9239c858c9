"""All steps of an interaction scan in order: main effects, scan of sets, tests of the best sets, forward selection."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np

from randsel._numerics.rank_functions import RankFunctions, RankFunctionSource
from randsel._utils.files import NO_CHECKPOINT, Checkpoint
from randsel._utils.typing import Array
from randsel.interactions._design import Design
from randsel.interactions._evidence import (
    Evidence,
    Responses,
    approximate_log_p,
    evidence,
    log_number_of_sets,
    residual,
)
from randsel.interactions._pair_scan import scan_pairs, scan_triples

#: Maximum number of features whose main effects are removed from the target before the scan.
MAX_MAIN_EFFECTS = 500
#: Family-wise level at which main effects are removed and forward steps are taken.
LEVEL = 0.05
#: Maximum number of forward steps; candidate sets of each size; sets of each size that a step tests by `evidence`.
MAX_STEPS, MAX_CANDIDATES, TESTED_PER_STEP = 25, 500, 5
#: Number of top-ranked features whose pairs are all tested, for a plot.
TOP = 20


@dataclass(frozen=True)
class ScanResult:
    """Evidence for every feature alone and for the best sets of features, and a ranking of the features."""

    main: Evidence  # for each feature alone
    sets: dict[int, Array]  # by size: the best sets, the smallest p-value first
    evidence: dict[int, Evidence]  # by size: the evidence for these sets
    steps: dict[int, Array]  # by size: forward step that selected a set, 0 if none did
    log_p: Array  # per feature: smallest of its main effect and its best sets, corrected for their number (eq. 20)
    # Per feature: sum of the approximate log p of main effect and best set, in the residual of the forward selection.
    # It ranks features and is not a test.
    residual_log_p: Array
    taken: Array  # features in the order in which forward steps selected them
    order: Array  # features, best first: those in `taken`, then by the smaller of `log_p` and `residual_log_p`
    top_log_p: Array  # of the pairs among the first `TOP` features of `order`; of main effects on the diagonal

    def partners(self) -> tuple[Array, Array]:
        """Return every feature's partner in its best pair, -1 if it is in none, and the log p of that pair."""
        partner, log_p = np.full(len(self.log_p), -1), np.zeros(len(self.log_p))
        if 2 in self.sets:
            features, first = np.unique(self.sets[2].ravel(), return_index=True)
            partner[features] = self.sets[2][:, ::-1].ravel()[first]
            log_p[features] = np.minimum(np.repeat(self.evidence[2].log_p, 2)[first], 0.0)
        return partner, log_p

    def table(self, size: int, n_rows: int, columns: Array) -> Array:
        """Return the best sets of a size as a structured array, with the features named by their `columns`."""
        fields: list[tuple[str, Any]] = [(name, np.intp) for name in "ijk"[:size]]
        fields += [("statistic", float), ("p", float), ("p_corrected", float), ("step", np.intp)]
        if size not in self.sets:
            return np.zeros(0, dtype=fields)
        sets, log_p = np.sort(columns[self.sets[size]], axis=1), np.minimum(self.evidence[size].log_p, 0.0)
        corrected = np.minimum(log_p + log_number_of_sets(len(self.log_p), size), 0.0)
        values = [*sets.T, self.evidence[size].statistic, np.exp(log_p), np.exp(corrected), self.steps[size]]
        table = np.zeros(min(n_rows, len(sets)), dtype=fields)
        for (name, _), column in zip(fields, values, strict=True):
            table[name] = column[:n_rows]
        return table


def scan_interactions(
    functions: RankFunctionSource,
    design: Design,
    n_sets: int,
    order: int = 2,
    progress: Callable[[str, int, int], None] = lambda *_: None,
    checkpoint: Checkpoint = NO_CHECKPOINT,
) -> ScanResult:
    """Test all features and all sets of up to `order` features (1, 2 or 3), and rank the features.

    The functions must be in memory if `order` is 3. Each scan returns `n_sets` pairs or triples. `progress` gets the
    step ("features", "pairs", "triples" or "forward steps"), how many tiles of pairs, first features of triples or
    forward steps are done, and how many there are at most.
    """
    n = len(functions)
    progress("features", 0, 0)
    main = evidence(functions, design, design.responses, np.arange(n)[:, None])
    strong = np.argsort(main.log_p, kind="stable")[:MAX_MAIN_EFFECTS]
    strong = strong[main.log_p[strong] < np.log(LEVEL / n)]
    sets: dict[int, Array] = {}
    tested: dict[int, Evidence] = {}
    # pairs with a feature of strong main effect would show that effect again, so it is removed first
    responses = residual(functions, design, strong[:, None]) if order >= 2 else design.responses
    if order >= 2 and n >= 2:
        pair_scan = partial(scan_pairs, functions, design, n_pairs=n_sets)
        pairs = _scan_responses("pairs", lambda **options: pair_scan(**options)[0], responses, progress, checkpoint)
        sets[2], tested[2] = _sort_by_evidence(functions, design, responses, pairs)
    if order >= 3 and n >= 3:
        significant = sets[2][:MAX_STEPS]
        significant = significant[tested[2].log_p[: len(significant)] < np.log(LEVEL) - log_number_of_sets(n, 2)]
        members = np.union1d(strong, significant.ravel()).astype(int)
        pair_residuals = residual(functions, design, members[:, None], significant)
        triple_scan = partial(scan_triples, cast(RankFunctions, functions), design, n_triples=n_sets)
        triples = _scan_responses("triples", triple_scan, pair_residuals, progress, checkpoint)
        sets[3], tested[3] = _sort_by_evidence(functions, design, pair_residuals, triples)
    best_sets = _smallest_per_feature(n, {size: result.log_p for size, result in tested.items()}, sets)
    # eq. 20: Bonferroni factor `order` for testing sets of every size
    log_p = np.minimum(np.minimum(main.log_p, best_sets) + np.log(order), 0.0)
    report = partial(progress, "forward steps")
    taken, steps, residual_log_p = _select_forward(functions, design, order, sets, report)
    ranking = np.argsort(np.minimum(log_p, residual_log_p), kind="stable")
    ranking = np.concatenate([taken, ranking[~np.isin(ranking, taken)]])
    top = ranking[:TOP]
    top_log_p = np.diag(main.log_p[top])
    i, j = np.triu_indices(len(top), 1)
    top_log_p[i, j] = top_log_p[j, i] = evidence(functions, design, responses, np.stack([top[i], top[j]], axis=1)).log_p
    return ScanResult(main, sets, tested, steps, log_p, residual_log_p, taken, ranking, top_log_p)


def _scan_responses(
    step: str,
    scan: Callable[..., Array],
    responses: Responses,
    progress: Callable[[str, int, int], None],
    checkpoint: Checkpoint,
) -> Array:
    """Return the best sets of the scans of all responses, each with stages of its own in the checkpoint."""

    def report(n_before: int, done: int, total: int) -> None:
        progress(step, n_before * total + done, len(responses) * total)

    best = []
    for k, response in enumerate(responses):
        stages = checkpoint.stages(step if k == 0 else f"{step}-{k + 1}")
        best.append(scan(Y=response.Y, progress=partial(report, k), stages=stages))
    return best[0] if len(best) == 1 else np.unique(np.concatenate(best), axis=0)


def _sort_by_evidence(
    functions: RankFunctionSource, design: Design, responses: Responses, sets: Array
) -> tuple[Array, Evidence]:
    """Test sets, and return them and the evidence for them, the smallest p-value first."""
    result = evidence(functions, design, responses, sets)
    order = np.lexsort((-result.statistic, result.log_p))
    return sets[order], Evidence(result.statistic[order], result.log_p[order])


def _smallest_per_feature(n: int, log_p: dict[int, Array], sets: dict[int, Array]) -> Array:
    """Return, per feature, the smallest log p of the larger sets that contain it, corrected for their number."""
    smallest = np.full(n, np.inf)
    for size, members in sets.items():
        if size > 1:
            # a feature is in a fraction size / n of all sets
            corrected = log_p[size] + log_number_of_sets(n, size) + np.log(size / n)
            for column in members.T:
                np.minimum.at(smallest, column, corrected)
    return smallest


# ---------------------------------------------------------------- forward selection


def _select_forward(
    functions: RankFunctionSource,
    design: Design,
    order: int,
    sets: dict[int, Array],
    progress: Callable[[int, int], None],
) -> tuple[Array, dict[int, Array], Array]:
    """Select the strongest feature or set, remove its effect from the target, and repeat until none is significant.

    Removing strong effects makes weak ones easier to detect. Only sets from the scans are candidates. Return `taken`,
    `steps` and `residual_log_p` of `ScanResult`.
    """
    n = len(functions)
    sets = {1: np.arange(n)[:, None], **sets}
    candidates = {size: rows if size == 1 else rows[:MAX_CANDIDATES] for size, rows in sets.items()}
    steps = {size: np.zeros(len(rows), dtype=int) for size, rows in sets.items()}
    taken: list[int] = []
    responses = design.responses
    for step in range(1, MAX_STEPS + 1):
        progress(step - 1, MAX_STEPS)
        strongest = _strongest_set(functions, design, responses, candidates, steps, order)
        if strongest is None:
            break
        size, row = strongest
        steps[size][row] = step
        # sorted by strength, because the indices of features depend on whether the table is in memory or on a cluster
        members = candidates[size][row]
        members = members[np.argsort(approximate_log_p(functions, design, responses, members[:, None]), kind="stable")]
        taken += [int(j) for j in members if j not in taken]
        taken_sets = [rows[steps[size][: len(rows)] > 0] for size, rows in candidates.items() if size > 1]
        responses = residual(functions, design, np.array(taken)[:, None], *taken_sets)
    log_p = {size: approximate_log_p(functions, design, responses, rows) for size, rows in candidates.items()}
    best_sets = _smallest_per_feature(n, log_p, candidates)
    residual_log_p = np.minimum(log_p[1], 0.0) + np.minimum(best_sets, 0.0) + np.log(order)
    del steps[1]  # a single feature has no row of `ScanResult.steps`
    return np.array(taken, dtype=int), steps, residual_log_p


def _strongest_set(
    functions: RankFunctionSource,
    design: Design,
    responses: Responses,
    candidates: dict[int, Array],
    steps: dict[int, Array],
    order: int,
) -> tuple[int, int] | None:
    """Return size and row of the set with the smallest corrected p-value; None if none is significant."""
    strongest, smallest = None, np.log(LEVEL / order)
    for size, sets in candidates.items():
        remaining = np.flatnonzero(steps[size][: len(sets)] == 0)
        if not len(remaining):
            continue
        approximate = approximate_log_p(functions, design, responses, sets[remaining])
        tested = remaining[np.argsort(approximate, kind="stable")[:TESTED_PER_STEP]]
        log_p = evidence(functions, design, responses, sets[tested]).log_p + log_number_of_sets(len(functions), size)
        k = int(np.argmin(log_p))
        if log_p[k] < smallest:
            strongest, smallest = (size, int(tested[k])), log_p[k]
    return strongest
