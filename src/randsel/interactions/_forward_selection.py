"""All features and sets of features tested, and put in order: main effects, scan, careful tests, forward steps."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from randsel._numerics.null_tails import cumulants, log_tail_of_moments
from randsel._utils.checkpoint import Checkpoint
from randsel._utils.typing import Array
from randsel.interactions._evidence import (
    BATCH_BYTES,
    Evidence,
    Problem,
    evidence,
    log_number,
    parts,
    products_of,
    residual,
)
from randsel.interactions._pair_scan import scan, scan_triples

#: Features whose main effects are taken out of the target before the scan, at most.
MOST_MAIN_EFFECTS = 500
#: Family-wise level at which main effects are taken out, and forward steps are taken.
LEVEL = 0.05
#: Forward steps at most, sets that they look at, and sets tested with care in each.
MOST_STEPS, POOL, CLOSE_LOOK = 25, 500, 5
#: First features whose pairs are all tested, to be drawn.
TOP = 20


@dataclass(frozen=True)
class Discovery:
    """Evidence for every feature alone, for the best sets of features, and an order of the features.

    Attributes
    ----------
    main
        Evidence for each feature alone.
    sets, found
        The best pairs (for each number of features in a set), and the evidence for them; the best first.
    steps
        At which forward step a set was taken in, 0 if never.
    log_p
        Per feature: of its main effect or its best set, corrected for their number.
    log_p_left
        In what the features taken in by forward steps leave unexplained, of main effect and best set together, as the
        scan takes them: a measure to rank by.
    taken
        Features taken in by forward steps, in their order.
    order
        Features, best first: those taken in by forward steps, then by the smaller of the two.
    among_top
        Log p of the pairs among the first `TOP` features of `order`; of their main effects on the diagonal.
    """

    main: Evidence
    sets: dict[int, Array]
    found: dict[int, Evidence]
    steps: dict[int, Array]
    log_p: Array
    log_p_left: Array
    taken: Array
    order: Array
    among_top: Array

    def partners(self) -> tuple[Array, Array]:
        """Per feature, the other one of its best pair, -1 if it is in none, and the log p of that pair."""
        partner, log_p = np.full(len(self.log_p), -1), np.zeros(len(self.log_p))
        if 2 in self.sets:
            features, first = np.unique(self.sets[2].ravel(), return_index=True)
            partner[features] = self.sets[2][:, ::-1].ravel()[first]
            log_p[features] = np.minimum(np.repeat(self.found[2].log_p, 2)[first], 0.0)
        return partner, log_p


def _nobody(part: str, done: int, total: int) -> None:
    """Take no notice of progress."""


def analyse(
    problem: Problem,
    n_pairs: int,
    order: int = 2,
    progress: Callable[[str, int, int], None] = _nobody,
    checkpoint: Checkpoint | None = None,
) -> Discovery:
    """Test all features and all sets of up to `order` of them.

    `progress` gets what is being done ("features", "pairs", "triples", "forward steps"), how many tiles of pairs, first
    features of triples or forward steps are done, and how many there are at most. The scans go on from `checkpoint`.
    """
    checkpoint = checkpoint or Checkpoint()
    n = problem.n_features
    progress("features", 0, 0)
    main = evidence(problem, problem.Y, np.arange(n)[:, None])
    strong = np.argsort(main.log_p, kind="stable")[:MOST_MAIN_EFFECTS]
    strong = strong[main.log_p[strong] < np.log(LEVEL / n)]
    sets: dict[int, Array] = {}
    found: dict[int, Evidence] = {}
    pair_target = residual(problem, strong[:, None]) if order >= 2 else problem.Y
    if order >= 2 and n >= 2:
        stages = checkpoint.stages("pairs")
        candidates, _ = scan(problem, pair_target, n_pairs, progress=partial(progress, "pairs"), stages=stages)
        sets[2], found[2] = _sorted(problem, pair_target, candidates)
    if order >= 3 and n >= 3:
        top = sets[2][:MOST_STEPS]
        top = top[found[2].log_p[: len(top)] < np.log(LEVEL) - log_number(n, 2)]
        Y = residual(problem, np.union1d(strong, top.ravel()).astype(int)[:, None], top)
        triples = scan_triples(problem, Y, n_pairs, partial(progress, "triples"), checkpoint.stages("triples"))
        sets[3], found[3] = _sorted(problem, Y, triples)
    log_p = per_feature(n, order, main.log_p, sets, found)
    taken, steps, left = _forward(problem, order, sets, partial(progress, "forward steps"))
    rest = np.argsort(np.minimum(log_p, left), kind="stable")
    ranked = np.concatenate([taken, rest[~np.isin(rest, taken)]])
    among_top = _among(problem, pair_target, main, ranked[:TOP])
    return Discovery(main, sets, found, steps, log_p, left, taken, ranked, among_top)


def _among(problem: Problem, Y: Array, main: Evidence, features: Array) -> Array:
    table = np.diag(main.log_p[features])
    i, j = np.triu_indices(len(features), 1)
    table[i, j] = table[j, i] = evidence(problem, Y, np.stack([features[i], features[j]], axis=1)).log_p
    return table


def _sorted(problem: Problem, Y: Array, sets: Array) -> tuple[Array, Evidence]:
    found = evidence(problem, Y, sets)
    best = np.lexsort((-found.statistic, found.log_p))
    return sets[best], Evidence(found.statistic[best], found.log_p[best])


def per_feature(n: int, order: int, main: Array, sets: dict[int, Array], found: dict[int, Evidence]) -> Array:
    """Log p of each feature: the least of its main effect and of its best sets, times what was looked at (eq. 20)."""
    together = _least(n, {size: evidence.log_p for size, evidence in found.items()}, sets)
    return np.asarray(np.minimum(np.minimum(main, together) + np.log(order), 0.0))


def _least(n: int, log_p: dict[int, Array], sets: dict[int, Array]) -> Array:
    """Per feature, the least log p of the sets of two and more that it is in, times the number of such sets."""
    least = np.full(n, np.inf)
    for size, members in sets.items():
        if size > 1:
            # a feature is in (size / n) of all sets
            corrected = log_p[size] + log_number(n, size) + np.log(size / n)
            for column in members.T:
                np.minimum.at(least, column, corrected)
    return least


# ---------------------------------------------------------------- forward steps


def _forward(
    problem: Problem, order: int, sets: dict[int, Array], progress: Callable[[int, int], None]
) -> tuple[Array, dict[int, Array], Array]:
    """Take in the strongest feature or set, fit it, look again at what is left, until nothing stands out.

    What a strong feature explains is no longer noise to the weak ones. Only sets that the scan kept are looked at.

    Returns
    -------
    taken, steps, left
        Features in the order taken; step by set; per feature, log p of main effect and best set together at the end.
    """
    n = problem.n_features
    pools = {1: np.arange(n)[:, None], **{size: members[:POOL] for size, members in sets.items()}}
    steps = {size: np.zeros(len(members), dtype=int) for size, members in pools.items()}
    taken: list[int] = []
    Y = problem.Y
    for step in range(1, MOST_STEPS + 1):
        progress(step - 1, MOST_STEPS)
        choice = _strongest(problem, Y, pools, steps, order)
        if choice is None:
            break
        size, place = choice
        steps[size][place] = step
        taken += [int(j) for j in pools[size][place] if j not in taken]
        together = [pool[steps[size] > 0] for size, pool in pools.items() if size > 1]
        Y = residual(problem, np.array(taken)[:, None], *together)
    quick = {size: _quick(problem, Y, members) for size, members in pools.items()}
    at_end = np.minimum(quick[1], 0.0) + np.minimum(_least(n, quick, pools), 0.0) + np.log(order)
    full = {size: np.zeros(len(members), dtype=int) for size, members in sets.items()}
    for size, column in full.items():
        column[: len(steps[size])] = steps[size]
    return np.array(taken, dtype=int), full, at_end


def _strongest(
    problem: Problem, Y: Array, pools: dict[int, Array], steps: dict[int, Array], order: int
) -> tuple[int, int] | None:
    """Size and place of the set that stands out most, None if none does."""
    best, least = None, np.log(LEVEL / order)
    for size, members in pools.items():
        open_ = np.flatnonzero(steps[size] == 0)
        if not len(open_):
            continue
        quick = _quick(problem, Y, members[open_])
        first = open_[np.argsort(quick, kind="stable")[:CLOSE_LOOK]]
        log_p = evidence(problem, Y, members[first]).log_p + log_number(problem.n_features, size)
        k = int(np.argmin(log_p))
        if log_p[k] < least:
            best, least = (size, int(first[k])), log_p[k]
    return best


def _quick(problem: Problem, Y: Array, sets: Array) -> Array:
    """Log p as the scan takes it."""
    if not len(sets):
        return np.zeros(0)
    groups = problem.where_held(_quick, Y, sets)
    if groups is not None:
        log_p = np.zeros(len(sets))
        for rows, found in groups:
            log_p[rows] = found
        return log_p
    size = sets.shape[1]
    batch = max(1, BATCH_BYTES // (8 * len(Y) * problem.n_functions(size) ** size))
    return np.concatenate(
        [_quick_batch(problem, Y, sets[start : start + batch]) for start in range(0, len(sets), batch)]
    )


def _quick_batch(problem: Problem, Y: Array, sets: Array) -> Array:
    products, weights = products_of(problem, sets, problem.n_functions(sets.shape[1]))
    share = problem.share
    squares = np.square(products) @ np.square(share)
    sums = np.square(products @ (Y * share[:, None])).sum(axis=2)
    terms = weights * np.divide(sums, squares, out=np.zeros_like(sums), where=squares > 1e-6 * len(Y))
    spread = np.maximum(np.linalg.eigvalsh((Y * share[:, None]).T @ Y / share.sum()), 0.0)
    looks = parts(problem.n_functions(sets.shape[1]), sets.shape[1])
    log_p = np.zeros((len(looks), len(sets)))
    for row, part in zip(log_p, looks, strict=True):
        moments = cumulants((weights[:, part, None] * spread).reshape(len(sets), -1))
        alive = moments[0] > 0.0
        row[alive] = log_tail_of_moments(terms[alive][:, part].sum(axis=1), *(value[alive] for value in moments))
    return np.asarray(log_p.min(axis=0) + np.log(len(looks)))
