"""The scan of all pairs, and of all triples: statistics by matrix products in tiles, of which the best are kept."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from randsel._parallel import ordered_map
from randsel.interaction import SMOOTH, Problem
from randsel.kernels import Array
from randsel.null_distribution import cumulants, log_tail_of_moments
from randsel.rank_functions import Functions

#: Features per tile of the scan: a tile's products fit the cache, and its matrix products are long enough.
TILE = 512


@dataclass(frozen=True)
class _Block:
    start: int
    stop: int
    count: int
    plain: bool


def scan(
    problem: Problem,
    Y: Array,
    n_pairs: int,
    factor: Array | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Array, Array]:
    """Compute the statistics of every pair, keep the least likely by chance and each feature's best partner.

    Features should be sorted by number and kind of functions, which makes tiles few. `factor` are functions (rows) by
    which all products are multiplied: with those of a third feature the scan is one of triples.

    Returns
    -------
    pairs, log_p
        Rows (i, j) with i < j, the least likely first, and what the scan takes for the log p-value: the best `n_pairs`
        by either statistic are among them.
    """
    blocks = _blocks(problem.functions)
    e = (Y * problem.share[:, None]).T
    if factor is not None:
        e = (factor[:, None, :] * e).reshape(-1, e.shape[1])
    e = e[np.square(e).sum(axis=1) > 0.0].astype(np.float32)
    spread = np.maximum(np.linalg.eigvalsh((Y * problem.share[:, None]).T @ Y / len(Y)), 0.0)
    if factor is not None:
        spread = np.outer(np.square(factor).mean(axis=1), spread).ravel()
    if not len(e):
        return np.zeros((0, 2), dtype=int), np.zeros(0)
    n = problem.n_features
    best_p, partner = np.full(n, np.inf), np.full(n, -1)
    pool_p, pool = np.zeros(0), np.zeros((0, 2), dtype=int)
    for number, block in enumerate(blocks):
        limit = pool_p.max() if len(pool_p) >= 2 * n_pairs else np.inf
        tasks = [(problem, e, spread, block, other, n_pairs, limit) for other in blocks[number:]]
        for ends, log_p, pairs in ordered_map(_tile, tasks, problem.n_jobs):
            for features, at, values in ends:
                better = values < best_p[features]
                best_p[features[better]] = values[better]
                partner[features[better]] = at[better]
            pool_p, pool = np.concatenate([pool_p, log_p]), np.concatenate([pool, pairs])
        # a pair can be there twice, once by each statistic
        kept = np.argsort(pool_p, kind="stable")[: 2 * n_pairs]
        pool_p, pool = pool_p[kept], pool[kept]
        if progress is not None:
            tiles = len(blocks) * (len(blocks) + 1) // 2
            progress(tiles - (len(blocks) - number - 1) * (len(blocks) - number) // 2, tiles)
    own = np.flatnonzero(partner >= 0)
    both = np.sort(np.stack([own, partner[own]], axis=1), axis=1)
    log_p = np.concatenate([pool_p, best_p[own]])
    order = np.argsort(log_p, kind="stable")
    pairs = np.concatenate([pool, both])[order]
    first = np.sort(np.unique(pairs, axis=0, return_index=True)[1])
    return pairs[first], log_p[order][first]


def _blocks(functions: Functions) -> list[_Block]:
    """Find runs of at most `TILE` features of one kind and number of functions; features without any are left out."""
    blocks = []
    edges = np.flatnonzero(np.diff(2 * functions.counts + functions.plain)) + 1
    for run in np.split(np.arange(len(functions.counts)), edges):
        count = int(functions.counts[run[0]]) if len(run) else 0
        if count:
            blocks += [
                _Block(int(part[0]), int(part[-1]) + 1, count, bool(functions.plain[part[0]]))
                for part in np.array_split(run, -(-len(run) // TILE))
            ]
    return blocks


def _tile(
    problem: Problem, e: Array, spread: Array, rows: _Block, columns: _Block, n_pairs: int, limit: float
) -> tuple[list[tuple[Array, Array, Array]], Array, Array]:
    """Best partners of the features of a tile, and log p and places of its best pairs, by either statistic."""
    values, decay = problem.functions.values, problem.decay.astype(np.float32)
    left = values[rows.start : rows.stop, : rows.count] * np.sqrt(decay[: rows.count, None])
    right = values[columns.start : columns.stop, : columns.count] * np.sqrt(decay[: columns.count, None])
    weights = np.outer(problem.decay[: rows.count], problem.decay[: columns.count])
    plain = rows.plain and columns.plain
    ends, log_p, pairs = [], [], []
    for used, statistic in _statistics(left, right, e, problem.share, None if plain else weights.astype(np.float32)):
        if rows.start == columns.start:
            statistic[np.tril_indices(len(statistic))] = -np.inf
        moments = cumulants(np.outer(weights[:used, :used], spread).ravel())
        found = _best_of(statistic, moments, n_pairs, limit)
        for (places, partners, values_), block, other in zip(found[0], (rows, columns), (columns, rows), strict=True):
            ends.append((places + block.start, partners + other.start, values_))
        log_p.append(found[1])
        pairs.append(found[2] + [[rows.start, columns.start]])
    return ends, np.concatenate(log_p), np.concatenate(pairs)


def _best_of(
    statistic: Array, moments: tuple[Array, Array, Array], n_pairs: int, limit: float
) -> tuple[list[tuple[Array, Array, Array]], Array, Array]:
    """Best partner and its log p by row and by column; log p and places of the best pairs, none above the limit."""

    def log_p(q: Array) -> Array:
        return log_tail_of_moments(q.astype(np.float64), *moments)

    ends = []
    for axis in (1, 0):
        at = statistic.argmax(axis=axis)
        top = np.take_along_axis(statistic, np.expand_dims(at, axis), axis).ravel()
        seen = np.flatnonzero(top >= 0.0)
        ends.append((seen, at[seen], log_p(top[seen])))
    flat = statistic.ravel()
    count = min(n_pairs, int((flat >= 0.0).sum()))
    places = np.argpartition(-flat, count - 1)[:count] if 0 < count < len(flat) else np.flatnonzero(flat >= 0.0)
    found = log_p(flat[places])
    kept = found <= limit
    return ends, found[kept], np.stack(np.unravel_index(places[kept], statistic.shape), axis=1)


def _statistics(left: Array, right: Array, e: Array, share: Array, weights: Array | None) -> list[tuple[int, Array]]:
    """Eq. 18 for all pairs of a tile, with the smooth functions only and with all; how many they are comes with them.

    `left` and `right` hold the functions times `√ω`. With `weights`, the `ω_a ω_b`, each product is divided by its own
    mean square: rare levels would blow it up.
    """
    m, most = left.shape[2], max(left.shape[1], right.shape[1])
    statistic = np.zeros((len(left), len(right)), dtype=np.float32)
    inner, squares = np.empty_like(statistic), np.empty_like(statistic)
    made = []
    for used, before in ((min(SMOOTH, most), 0), (most, SMOOTH)):
        for a in range(min(used, left.shape[1])):
            weighted = [left[:, a] * column for column in e]
            scale = np.square(left[:, a]) * np.square(share).astype(np.float32)
            for b in range(before if a < before else 0, min(used, right.shape[1])):
                if weights is not None:
                    np.matmul(scale, np.square(right[:, b]).T, out=squares)
                    np.maximum(squares, 1e-6 * m, out=squares)
                for factor in weighted:
                    np.matmul(factor, right[:, b].T, out=inner)
                    np.multiply(inner, inner, out=inner)
                    if weights is not None:
                        inner /= squares
                        inner *= m * weights[a, b]
                    statistic += inner
        if used > before:
            made.append((used, statistic / m))
    return made


def scan_triples(problem: Problem, Y: Array, n_triples: int) -> Array:
    """Return the triples that the scan takes for least likely by chance; every feature in turn is the first of them."""
    kept, kept_p = np.zeros((0, 3), dtype=int), np.zeros(0)
    few = problem.after(0, problem.n_functions(3))
    for first in range(problem.n_features - 2):
        factor = few.functions.values[first, : few.functions.counts[first]]
        if not len(factor):
            continue
        factor = factor * np.sqrt(few.decay[: len(factor), None])
        pairs, log_p = scan(few.after(first + 1, len(few.decay)), Y, n_triples, factor)
        triples = np.concatenate([np.full((len(pairs), 1), first), pairs + first + 1], axis=1)
        kept, kept_p = np.concatenate([kept, triples]), np.concatenate([kept_p, log_p])
        best = np.argsort(kept_p, kind="stable")[:n_triples]
        kept, kept_p = kept[best], kept_p[best]
    return kept
