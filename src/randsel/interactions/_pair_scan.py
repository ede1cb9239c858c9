"""The scan of all pairs, and of all triples: statistics by matrix products in tiles, of which the best are kept."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from randsel._numerics.arrays import (
    add_square,
    as_array_like,
    clip,
    device_of,
    multiply_by_transpose,
    namespace,
    to_device,
    to_half_on_gpu,
    to_numpy,
    top_k,
)
from randsel._numerics.null_tails import cumulants, log_tail_of_moments
from randsel._numerics.rank_functions import Functions
from randsel._utils.checkpoint import Stages
from randsel._utils.jobs import ordered_map
from randsel._utils.typing import Array
from randsel.interactions._evidence import SMOOTH, Problem

#: Features per tile of the scan: a tile's products fit the cache, and its matrix products are long enough. On a device
#: a tile is large, so that starting its operations takes little beside them.
TILE, DEVICE_TILE = 512, 8192

#: By the moments of a statistic under the null: of every feature, the largest one and the partner that it has it with.
Best = dict[tuple[float, float, float], tuple[Array, Array]]


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
    stages: Stages | None = None,
) -> tuple[Array, Array]:
    """Compute the statistics of every pair, keep the least likely by chance and each feature's best partner.

    Features should be sorted by number and kind of functions, which makes tiles few. `factor` are functions (rows) by
    which all products are multiplied: with those of a third feature the scan is one of triples. `progress` gets tiles
    done and tiles in all, first before any is. What was found is kept in `stages` after every row of tiles, and the
    scan goes on from what is kept there.

    Returns
    -------
    pairs, log_p
        Rows (i, j) with i < j, the least likely first, and what the scan takes for the log p-value: the best `n_pairs`
        by either statistic are among them.
    """
    e = (Y * problem.share[:, None]).T
    if factor is not None:
        e = (factor[:, None, :] * e).reshape(-1, e.shape[1])
    e = e[np.square(e).sum(axis=1) > 0.0].astype(np.float32)
    spread = np.maximum(np.linalg.eigvalsh((Y * problem.share[:, None]).T @ Y / len(Y)), 0.0)
    if factor is not None:
        spread = np.outer(np.square(factor).mean(axis=1), spread).ravel()
    if not len(e):
        return np.zeros((0, 2), dtype=int), np.zeros(0)
    stages = stages or Stages()
    kept = stages.last()
    done, found = (0, _Found(problem.n_features)) if kept is None else (int(kept["rows"]), _Found.of_arrays(kept))
    tiles = _Tiles(problem, e, spread) if isinstance(problem.functions, Functions) else _Far(problem, e, spread)
    of_rows = range(tiles.rows, 0, -1)  # every row has one tile less than the one before
    if progress is not None:
        progress(sum(of_rows[:done]), sum(of_rows))
    for row in range(done, tiles.rows):
        for part in tiles.row(row, n_pairs, found.limit(n_pairs)):
            found.add(*part)
        found.trim(n_pairs)
        stages.reached(row + 1, partial(found.to_arrays, row + 1))
        if progress is not None:
            progress(sum(of_rows[: row + 1]), sum(of_rows))
    return found.pairs()


#: Moments of a statistic under the null, features, their best partners, and the statistics.
End = tuple[tuple[float, float, float], Array, Array, Array]


class _Found:
    """The best pairs of n features so far, and by the moments of a statistic every feature's best partner."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.best: Best = {}
        self.pool_p, self.pool = np.zeros(0), np.zeros((0, 2), dtype=int)

    def add(self, ends: Iterable[End], log_p: Array, pairs: Array) -> None:
        """Take in what a tile has found."""
        for moments, features, at, values in ends:
            none = np.full(self.n, -1.0, dtype=np.float32), np.full(self.n, -1)
            largest_yet, partner = self.best.setdefault(moments, none)
            better = values > largest_yet[features]
            largest_yet[features[better]] = values[better]
            partner[features[better]] = at[better]
        self.pool_p, self.pool = np.concatenate([self.pool_p, log_p]), np.concatenate([self.pool, pairs])

    def trim(self, n_pairs: int) -> None:
        """Forget all but the best pairs; one can be there twice, once by each statistic."""
        kept = np.argsort(self.pool_p, kind="stable")[: 2 * n_pairs]
        self.pool_p, self.pool = self.pool_p[kept], self.pool[kept]

    def limit(self, n_pairs: int) -> float:
        """Log p that a pair must have to be among the best."""
        return float(self.pool_p.max()) if len(self.pool_p) >= 2 * n_pairs else np.inf

    def ends(self) -> Iterator[End]:
        """Best partners in the form in which a tile gives them."""
        for moments, (largest_yet, partner) in self.best.items():
            seen = np.flatnonzero(partner >= 0)
            yield moments, seen, partner[seen], largest_yet[seen]

    def pairs(self) -> tuple[Array, Array]:
        """Pairs and their log p, the least first: the best, and every feature with its best partner."""
        best_p, partner = np.full(self.n, np.inf), np.full(self.n, -1)
        for moments, seen, at, statistic in self.ends():
            log_p = log_tail_of_moments(statistic.astype(np.float64), *moments)
            better = log_p < best_p[seen]
            best_p[seen[better]], partner[seen[better]] = log_p[better], at[better]
        own = np.flatnonzero(partner >= 0)
        partners = np.sort(np.stack([own, partner[own]], axis=1), axis=1)
        log_p = np.concatenate([self.pool_p, best_p[own]])
        order = np.argsort(log_p, kind="stable")
        pairs = np.concatenate([self.pool, partners])[order]
        first = np.sort(np.unique(pairs, axis=0, return_index=True)[1])
        return pairs[first], log_p[order][first]

    def to_arrays(self, rows: int) -> dict[str, Any]:
        """Return what was found in some rows of tiles as arrays to keep in a file."""
        largest_yet, partner = zip(*self.best.values(), strict=True)
        return {
            "rows": rows,
            "pool_p": self.pool_p,
            "pool": self.pool,
            "moments": list(self.best),
            "largest": largest_yet,
            "partner": partner,
        }

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Array]) -> "_Found":
        """Return what `to_arrays` took apart."""
        found = cls(arrays["largest"].shape[1])
        moments = [(first, second, third) for first, second, third in arrays["moments"].tolist()]
        found.best = dict(zip(moments, zip(arrays["largest"], arrays["partner"], strict=True), strict=True))
        found.pool_p, found.pool = arrays["pool_p"], arrays["pool"]
        return found


class _Tiles:
    """All pairs of features whose functions are in memory, in rows of tiles."""

    def __init__(self, problem: Problem, e: Array, spread: Array) -> None:
        self.blocks = _blocks(problem.functions, TILE if problem.device is None else DEVICE_TILE)
        self.rows, self.n_jobs = len(self.blocks), problem.n_jobs if problem.device is None else 1
        self.given = problem, _placed(problem), e, spread

    def row(self, row: int, n_pairs: int, limit: float) -> Iterable[tuple[list[End], Array, Array]]:
        """Return what the tiles of a row find."""
        block = self.blocks[row]
        tasks = [(*self.given, block, other, n_pairs, limit) for other in self.blocks[row:]]
        return ordered_map(_tile, tasks, self.n_jobs)


class _Far:
    """All pairs of features that a cluster holds; a tile is a block of columns with another one."""

    def __init__(self, problem: Problem, e: Array, spread: Array) -> None:
        self.functions, self.given = problem.functions, (problem.without_functions, e, spread)
        self.blocks = [block for block, columns in enumerate(problem.functions.columns) if len(columns)]
        self.rows = len(self.blocks)

    def row(self, row: int, n_pairs: int, limit: float) -> Iterator[tuple[list[End], Array, Array]]:
        """Return what the tiles of a row find."""
        pairs = [(self.blocks[row], other) for other in self.blocks[row:]]
        for features, (ends, log_p, found) in self.functions.on_blocks(_far_tile, pairs, *self.given, n_pairs, limit):
            yield (
                [(moments, features[at], features[to], values) for moments, at, to, values in ends],
                log_p,
                features[found],
            )


def _far_tile(
    functions: Functions, second: int, problem: Problem, e: Array, spread: Array, n_pairs: int, limit: float
) -> tuple[list[End], Array, Array]:
    """Scan the pairs of features of two blocks, the second from a place on, or of one block with itself."""
    # sorted by kind within the blocks, so that tiles are few
    kinds = 2 * functions.counts + functions.plain
    order = np.lexsort((kinds, np.arange(len(kinds)) >= second))
    problem = replace(problem, functions=functions.take(order))
    found = _Found(len(order))
    blocks = _blocks(problem.functions, TILE, second)
    firsts = [block for block in blocks if block.stop <= second]
    others = [block for block in blocks if block.start >= second]
    pairs = [(a, b) for a in firsts for b in others] or list(combinations_with_replacement(blocks, 2))
    for rows, columns in pairs:
        least = min(limit, found.limit(n_pairs))
        found.add(*_tile(problem, None, e, spread, rows, columns, n_pairs, least))
        found.trim(n_pairs)
    ends = [(moments, order[at], order[to], values) for moments, at, to, values in found.ends()]
    return ends, found.pool_p, np.sort(order[found.pool], axis=1)


def _placed(problem: Problem) -> Any:
    """Functions on a device, in half precision, which ranks pairs: tests are on the host. None for a scan there too."""
    return None if problem.device is None else to_half_on_gpu(to_device(problem.functions.values, problem.device))


def _blocks(functions: Functions, tile: int, cut: int = 0) -> list[_Block]:
    """Find runs of at most `tile` features of one kind and number of functions; features without any are left out.

    None goes over `cut`.
    """
    blocks = []
    edges = np.flatnonzero(np.diff(2 * functions.counts + functions.plain)) + 1
    edges = np.union1d(edges, [cut] if 0 < cut < len(functions) else []).astype(int)
    for run in np.split(np.arange(len(functions.counts)), edges):
        count = int(functions.counts[run[0]]) if len(run) else 0
        if count:
            blocks += [
                _Block(int(part[0]), int(part[-1]) + 1, count, bool(functions.plain[part[0]]))
                for part in np.array_split(run, -(-len(run) // tile))
            ]
    return blocks


def _tile(
    problem: Problem, values: Any, e: Array, spread: Array, rows: _Block, columns: _Block, n_pairs: int, limit: float
) -> tuple[list[tuple[tuple[float, float, float], Array, Array, Array]], Array, Array]:
    """Best partners of the features of a tile, and log p and places of its best pairs, by either statistic."""
    values = problem.functions.values if values is None else values
    decay = np.sqrt(problem.decay)
    left = values[rows.start : rows.stop, : rows.count] * as_array_like(
        decay[: rows.count, None], values, precise=False
    )
    right = values[columns.start : columns.stop, : columns.count]
    right = right * as_array_like(decay[: columns.count, None], values, precise=False)
    weights = np.outer(problem.decay[: rows.count], problem.decay[: columns.count])
    plain = rows.plain and columns.plain
    places = as_array_like(e, values, precise=False), as_array_like(problem.share, values, precise=False)
    ends, log_p, pairs = [], [], []
    for used, statistic in _statistics(left, right, *places, None if plain else weights):
        first, second, third = (float(sum_) for sum_ in cumulants(np.outer(weights[:used, :used], spread).ravel()))
        moments = first, second, third
        once = _upper(statistic) if rows.start == columns.start else statistic
        found = _best_of(once, moments, n_pairs, limit)
        for (at, partners, values_), block, other in zip(found[0], (rows, columns), (columns, rows), strict=True):
            ends.append((moments, at + block.start, partners + other.start, values_))
        log_p.append(found[1])
        pairs.append(found[2] + [[rows.start, columns.start]])
    return ends, np.concatenate(log_p), np.concatenate(pairs)


def _upper(statistic: Any) -> Any:
    """Count each pair of a tile on the diagonal once: what is not above it becomes -∞."""
    xp = namespace(statistic)
    below = xp.tril(xp.ones(statistic.shape, dtype=xp.bool, device=device_of(statistic)))
    return xp.where(below, -np.inf, statistic)


def _best_of(
    statistic: Any, moments: tuple[float, float, float], n_pairs: int, limit: float
) -> tuple[list[tuple[Array, Array, Array]], Array, Array]:
    """Best partner and its statistic by row and by column; log p and places of the best pairs, none above the limit."""
    xp = namespace(statistic)
    ends = []
    for axis in (1, 0):
        at, top = to_numpy(xp.argmax(statistic, axis=axis)), to_numpy(xp.max(statistic, axis=axis))
        seen = np.flatnonzero(top >= 0.0)
        ends.append((seen, at[seen], top[seen]))
    places, found = top_k(xp.reshape(statistic, (-1,)), n_pairs, _statistic_at(limit, moments))
    found = log_tail_of_moments(found.astype(np.float64), *moments)
    kept = found <= limit
    return ends, found[kept], np.stack(np.unravel_index(places[kept], tuple(statistic.shape)), axis=1)


@lru_cache(maxsize=256)
def _statistic_at(limit: float, moments: tuple[float, float, float]) -> float:
    """Statistic just below that of a log p: what is smaller need not be looked at; zero for no limit."""
    low, high = 0.0, 1e9
    for _ in range(6 if np.isfinite(limit) else 0):
        grid = low + (high - low) * np.linspace(0.0, 1.0, 65) ** 2
        below = int((log_tail_of_moments(grid, *moments) > limit).sum())
        low, high = float(grid[max(below - 1, 0)]), float(grid[min(below, 64)])
    return low * (1.0 - 1e-6)


def _statistics(left: Any, right: Any, e: Any, share: Any, weights: Array | None) -> list[tuple[int, Any]]:
    """Eq. 18 for all pairs of a tile, with the smooth functions only and with all; how many they are comes with them.

    `left` and `right` hold the functions times `√ω`. With `weights`, the `ω_a ω_b`, each product is divided by its own
    mean square: rare levels would blow it up.
    """
    xp = namespace(left)
    m, most = left.shape[2], max(left.shape[1], right.shape[1])
    statistic = xp.zeros((left.shape[0], right.shape[0]), dtype=xp.float32, device=device_of(left))
    root = 1.0 / m**0.5
    made = []
    for used, before in ((min(SMOOTH, most), 0), (most, SMOOTH)):
        for a in range(min(used, left.shape[1])):
            # divided by √m and m first, which half precision needs
            weighted = [left[:, a] * (column * root) for column in e]
            scale = None if weights is None else left[:, a] ** 2 * (share**2 / m)
            for b in range(before if a < before else 0, min(used, right.shape[1])):
                if weights is not None:
                    squares = multiply_by_transpose(scale, right[:, b] ** 2)
                    squares = xp.sqrt(clip(squares, 1e-6, None) * (1.0 / float(weights[a, b])))
                for factor in weighted:
                    inner = multiply_by_transpose(factor, right[:, b])
                    if weights is not None:
                        inner /= squares
                    add_square(statistic, inner)
        if used > before:
            made.append((used, xp.asarray(statistic, copy=True)))
    return made


def scan_triples(
    problem: Problem,
    Y: Array,
    n_triples: int,
    progress: Callable[[int, int], None] | None = None,
    stages: Stages | None = None,
) -> Array:
    """Return the triples that the scan takes for least likely by chance; every feature in turn is the first of them.

    `progress` gets how many features were the first, and how many there are. What was found with each is kept in
    `stages`, and the scan goes on from what is kept there.
    """
    stages = stages or Stages()
    found = stages.last() or {"kept": np.zeros((0, 3), dtype=int), "kept_p": np.zeros(0), "firsts": np.array(0)}
    kept, kept_p = found["kept"], found["kept_p"]
    few = problem.after(0, problem.n_functions(3))
    for first in range(int(found["firsts"]), problem.n_features - 2):
        if progress is not None:
            progress(first, problem.n_features - 2)
        factor = few.functions.values[first, : few.functions.counts[first]]
        if not len(factor):
            continue
        factor = factor * np.sqrt(few.decay[: len(factor), None])
        pairs, log_p = scan(few.after(first + 1, len(few.decay)), Y, n_triples, factor)
        triples = np.concatenate([np.full((len(pairs), 1), first), pairs + first + 1], axis=1)
        kept, kept_p = np.concatenate([kept, triples]), np.concatenate([kept_p, log_p])
        best = np.argsort(kept_p, kind="stable")[:n_triples]
        kept, kept_p = kept[best], kept_p[best]
        stages.reached(first + 1, partial(dict, kept=kept, kept_p=kept_p, firsts=first + 1))
    if progress is not None:
        progress(problem.n_features - 2, problem.n_features - 2)
    return kept
