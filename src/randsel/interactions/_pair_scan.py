"""Scan of all pairs and triples: matrix products compute statistics tile by tile, and only the best sets are kept.

A tile holds the pairs of two blocks of features. The scan ranks pairs by `log_tail_of_moments` of eq. 18, with smooth
functions only and with all functions; the pairs that it returns are then tested by `evidence`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import combinations_with_replacement, product
from typing import Any, cast

import numpy as np

from randsel._numerics.arrays import (
    add_square,
    as_array_like,
    clip,
    device_of,
    multiply_by_transpose,
    namespace,
    to_device,
    to_numpy,
    top_k,
)
from randsel._numerics.rank_functions import RankFunctions, RankFunctionSource, cumulants, log_tail_of_moments
from randsel._utils.files import NO_CHECKPOINT, Stages
from randsel._utils.typing import Array
from randsel.interactions._design import SMOOTH, Design
from randsel.interactions._fused_tiles import BestOfTile, FusedTiles, can_fuse
from randsel.interactions._level_tables import LevelTables

#: Features per block. On the host, the products of a tile fit into the cache. On a device, large tiles keep the
#: overhead of launching operations small. A fused kernel keeps no tile in memory, so its blocks are larger still.
BLOCK, DEVICE_BLOCK, FUSED_BLOCK = 512, 8192, 65536
#: In a tile of noise, about this many times the wanted number of pairs exceed the first threshold of a fused kernel.
EXPECTED = 4.0
#: Stages that save nothing.
NO_STAGES = NO_CHECKPOINT.stages("")

#: Sums `Σλ, Σλ², Σλ³` of the null weights of a statistic; only statistics with equal moments can be compared.
Moments = tuple[float, float, float]
#: Moments, features, their best partners, and the statistics of these pairs.
BestPartners = tuple[Moments, Array, Array, Array]
#: Result of a tile: best partners by each statistic; log p and features of the best pairs.
TileResult = tuple[list[BestPartners], Array, Array]


def scan_pairs(
    functions: RankFunctionSource,
    design: Design,
    Y: Array,
    n_pairs: int,
    factor: Array | None = None,
    progress: Callable[[int, int], None] = lambda *_: None,
    stages: Stages = NO_STAGES,
    max_log_p: float = np.inf,
) -> tuple[Array, Array]:
    """Compute the statistics of all pairs (eq. 18); return the best pairs, and every feature's best partner.

    Returns rows (i, j) with i < j and their approximate log p-values, the smallest first. The best `n_pairs` by either
    statistic are among them, unless their log p exceeds `max_log_p`. Best partners are returned in any case.

    Y is the target or its residual. `factor`, of shape (functions, samples), multiplies all products; with the
    functions of a third feature this is a scan of triples. `progress` gets the number of tiles done and in total, also
    before the first tile. `stages` is the checkpoint, saved after every row of tiles. Features that are sorted by kind
    make fewer tiles.
    """
    e, spectrum = (Y * design.sample_weights[:, None]).T, design.spectrum(Y)
    if factor is not None:
        e = (factor[:, None, :] * e).reshape(-1, e.shape[1])
        spectrum = np.outer(np.square(factor).mean(axis=1), spectrum).ravel()
    e = e[np.square(e).sum(axis=1) > 0.0].astype(np.float32)
    if not len(e):
        return np.zeros((0, 2), dtype=int), np.zeros(0)
    done, best = 0, _BestPairs(len(functions), n_pairs)
    if (stored := stages.load_latest()) is not None:
        done = best.restore(stored)
    scan = _Scan.prepare(functions, design, e, spectrum, n_pairs)
    blocks = functions.blocks(scan.block_size)
    n_jobs = design.n_jobs if design.device is None else 1
    tiles_in_rows = range(len(blocks), 0, -1)  # every row has one tile less than the previous one
    progress(sum(tiles_in_rows[:done]), sum(tiles_in_rows))
    for row in range(done, len(blocks)):
        pairs = [(blocks[row], block) for block in blocks[row:]]
        limit = min(best.max_log_p, max_log_p)
        for features, result in functions.map_block_pairs(_scan_tile, pairs, scan, limit, n_jobs=n_jobs):
            best.add(result, features)
        stages.save(row + 1, partial(best.to_arrays, row + 1))
        progress(sum(tiles_in_rows[: row + 1]), sum(tiles_in_rows))
    return best.pairs()


def scan_triples(
    functions: RankFunctions,
    design: Design,
    Y: Array,
    n_triples: int,
    progress: Callable[[int, int], None] = lambda *_: None,
    stages: Stages = NO_STAGES,
) -> Array:
    """Return the best triples, rows (i, j, k) with i < j < k, by one scan of pairs for every first feature.

    `progress` gets the number of first features done and in total; `stages` is the checkpoint, saved after each.
    """
    stored = stages.load_latest() or {"kept": np.zeros((0, 3), dtype=int), "kept_p": np.zeros(0), "firsts": np.array(0)}
    best, best_log_p = stored["kept"], stored["kept_p"]
    n_functions = design.n_functions(3)
    functions = functions.first(n_functions)
    design = replace(design, function_weights=design.function_weights[:n_functions])
    n_firsts = len(functions) - 2
    for first in range(int(stored["firsts"]), n_firsts):
        progress(first, n_firsts)
        factor = to_numpy(functions.values[first, : functions.counts[first]])
        if not len(factor):
            continue
        factor = factor * np.sqrt(design.function_weights[: len(factor), None])
        limit = best_log_p[-1] if len(best) == n_triples else np.inf
        others = functions.take(slice(first + 1, None))
        pairs, log_p = scan_pairs(others, design, Y, n_triples, factor, max_log_p=limit)
        pairs, log_p = pairs[log_p < limit], log_p[log_p < limit]
        triples = np.concatenate([np.full((len(pairs), 1), first), pairs + first + 1], axis=1)
        best, best_log_p = np.concatenate([best, triples]), np.concatenate([best_log_p, log_p])
        order = np.argsort(best_log_p, kind="stable")[:n_triples]
        best, best_log_p = best[order], best_log_p[order]
        stages.save(first + 1, partial(dict, kept=best, kept_p=best_log_p, firsts=first + 1))
    progress(n_firsts, n_firsts)
    return best


@dataclass(frozen=True)
class _Scan:
    """Data that all tiles of a scan share."""

    design: Design
    e: Array  # shape (columns, samples): weighted residuals of the target, times the factor of a scan of triples
    spectrum: Array  # eigenvalues of their covariance
    n_pairs: int  # maximum number that a tile returns by each statistic
    device_values: Any = None  # functions on a device, in half precision, which is enough to rank pairs
    fused: FusedTiles | None = None  # functions for the fused kernels, if these compute the tiles
    levels: LevelTables | None = None  # levels of discrete features, whose pairs are counted on the host

    @classmethod
    def prepare(cls, functions: RankFunctionSource, design: Design, e: Array, spectrum: Array, n_pairs: int) -> "_Scan":
        """Prepare the functions for the way in which tiles are computed on this device."""
        scan = cls(design, e, spectrum, n_pairs)
        if not isinstance(functions, RankFunctions):  # columns on a cluster
            return scan
        if design.device is None:
            levels = LevelTables.from_functions(functions.values, functions.counts, e, design.sample_weights)
            return replace(scan, levels=levels if levels is not None and levels.is_exact_in_single_precision else None)
        values = to_device(functions.values, design.device)
        if can_fuse(values.device.type):
            return replace(scan, fused=FusedTiles.from_values(values, functions.counts, e, design.sample_weights))
        return replace(scan, device_values=values.half() if values.device.type == "cuda" else values)

    @property
    def block_size(self) -> int:
        """Maximum number of features per block."""
        if self.fused is not None:
            return FUSED_BLOCK
        return BLOCK if self.device_values is None else DEVICE_BLOCK

    def moments(self, weights: Array) -> Moments:
        """Return the moments of the statistic of functions with these weights `ω_a ω_b`."""
        sums = cumulants(np.outer(weights, self.spectrum).ravel())
        return float(sums[0]), float(sums[1]), float(sums[2])


class _BestPairs:
    """The best pairs of n features so far, and every feature's best partner by each statistic."""

    def __init__(self, n: int, n_pairs: int) -> None:
        self.n, self.n_candidates = n, 2 * n_pairs  # each statistic may contribute the same pair
        # largest statistic and partner per feature; statistics of different moments cannot be compared
        self.partners: dict[Moments, tuple[Array, Array]] = {}
        self.log_p, self.candidates = np.zeros(0), np.zeros((0, 2), dtype=int)

    def add(self, result: TileResult, features: Array) -> None:
        """Add the result of a tile; `features` maps its indices to features."""
        best_partners, log_p, pairs = result
        for moments, local_members, local_partners, statistics in best_partners:
            empty = np.full(self.n, -1.0, dtype=np.float32), np.full(self.n, -1)
            best_statistic, best_partner = self.partners.setdefault(moments, empty)
            members, partners = features[local_members], features[local_partners]
            better = statistics > best_statistic[members]
            best_statistic[members[better]] = statistics[better]
            best_partner[members[better]] = partners[better]
        log_p = np.concatenate([self.log_p, log_p])
        order = np.argsort(log_p, kind="stable")[: self.n_candidates]
        self.log_p, self.candidates = log_p[order], np.concatenate([self.candidates, features[pairs]])[order]

    @property
    def max_log_p(self) -> float:
        """Log p above which a new pair cannot be among the best."""
        return float(self.log_p[-1]) if len(self.log_p) == self.n_candidates else np.inf

    def best_partners(self) -> Iterator[BestPartners]:
        """Yield the best partners in the form in which a tile returns them."""
        for moments, (statistic, partner) in self.partners.items():
            members = np.flatnonzero(partner >= 0)
            yield moments, members, partner[members], statistic[members]

    def pairs(self) -> tuple[Array, Array]:
        """Return the best pairs and every feature with its best partner, and their log p, the smallest first."""
        partner_log_p, partner = np.full(self.n, np.inf), np.full(self.n, -1)
        for moments, members, partners, statistics in self.best_partners():
            log_p = log_tail_of_moments(statistics.astype(np.float64), *moments)
            better = log_p < partner_log_p[members]
            partner_log_p[members[better]], partner[members[better]] = log_p[better], partners[better]
        paired = np.flatnonzero(partner >= 0)
        with_partner = np.sort(np.stack([paired, partner[paired]], axis=1), axis=1)
        log_p = np.concatenate([self.log_p, partner_log_p[paired]])
        order = np.argsort(log_p, kind="stable")
        pairs = np.concatenate([self.candidates, with_partner])[order]
        first = np.sort(np.unique(pairs @ np.array([self.n, 1]), return_index=True)[1])
        return pairs[first], log_p[order][first]

    def to_arrays(self, rows: int) -> dict[str, Any]:
        """Return the state after some rows of tiles as arrays, for a checkpoint."""
        statistics, partners = zip(*self.partners.values(), strict=True)
        by_statistic = {"moments": list(self.partners), "largest": statistics, "partner": partners}
        return {"rows": rows, "pool_p": self.log_p, "pool": self.candidates, **by_statistic}

    def restore(self, arrays: Mapping[str, Array]) -> int:
        """Restore the state that `to_arrays` returned, and return the number of rows done."""
        moments = [(first, second, third) for first, second, third in arrays["moments"].tolist()]
        self.partners = dict(zip(moments, zip(arrays["largest"], arrays["partner"], strict=True), strict=True))
        self.log_p, self.candidates = arrays["pool_p"], arrays["pool"]
        return int(arrays["rows"])


# ---------------------------------------------------------------- tiles


def _scan_tile(functions: RankFunctions, first: range, second: range, scan: _Scan, max_log_p: float) -> TileResult:
    """Scan the pairs of two blocks, or of one block with itself; leave out pairs with log p above `max_log_p`."""
    kinds = {block: functions.take(slice(block.start, block.stop)).kinds for block in (first, second)}
    if all(len(block) <= scan.block_size and np.ptp(kinds[block]) == 0 for block in kinds):
        return _scan_uniform_tile(functions, first, second, scan, max_log_p)
    # blocks that are large or of mixed kinds: sort both by kind, and cut them into smaller tiles
    best = _BestPairs(len(functions), scan.n_pairs)
    order = np.concatenate([block.start + np.argsort(kinds[block], kind="stable") for block in kinds])
    functions, n_first = functions.take(order), len(first)
    row_blocks = functions.take(slice(None, n_first)).blocks(BLOCK)
    column_blocks = [
        range(n_first + block.start, n_first + block.stop)
        for block in functions.take(slice(n_first, None)).blocks(BLOCK)
    ]
    # there are no columns if a block is scanned with itself
    for rows, columns in list(product(row_blocks, column_blocks)) or combinations_with_replacement(row_blocks, 2):
        best.add(_scan_uniform_tile(functions, rows, columns, scan, min(max_log_p, best.max_log_p)), order)
    return list(best.best_partners()), best.log_p, np.sort(best.candidates, axis=1)


def _scan_uniform_tile(
    functions: RankFunctions, rows: range, columns: range, scan: _Scan, max_log_p: float
) -> TileResult:
    """Scan a tile whose blocks each have features of one kind."""
    weights = np.outer(*(scan.design.function_weights[: functions.counts[b.start]] for b in (rows, columns)))
    tied = not (functions.untied[rows.start] and functions.untied[columns.start])
    if scan.fused is not None:
        tile = _run_fused_kernel(rows, columns, scan, weights, tied, max_log_p)
    else:
        tile = _compute_tile(functions, rows, columns, scan, weights, tied, max_log_p)
    best_partners, log_p, pairs = [], [], []
    for moments, best in tile:
        for (largest, partners), block, other in ((best.by_row, rows, columns), (best.by_column, columns, rows)):
            members = np.flatnonzero(largest >= 0.0)  # the others have no partner
            best_partners.append((moments, members + block.start, partners[members] + other.start, largest[members]))
        tile_log_p = log_tail_of_moments(best.statistics.astype(np.float64), *moments)
        small = tile_log_p <= max_log_p
        log_p.append(tile_log_p[small])
        pairs.append(best.pairs[small] + np.array([rows.start, columns.start]))
    return best_partners, np.concatenate(log_p), np.concatenate(pairs)


def _run_fused_kernel(
    rows: range, columns: range, scan: _Scan, weights: Array, tied: bool, max_log_p: float
) -> list[tuple[Moments, BestOfTile]]:
    """Return the best pairs of a tile by each statistic, from a fused kernel, which keeps pairs above a threshold.

    The first threshold is that of `max_log_p`, or a higher one that `EXPECTED` times the wanted number of pairs would
    exceed in noise. It is lowered until there are enough pairs.
    """
    n_functions = max(weights.shape)
    moments = [scan.moments(weights[:used, :used]) for used in (SMOOTH, n_functions)[int(n_functions <= SMOOTH) :]]
    n_in_tile = len(rows) * (len(rows) - 1) // 2 if rows == columns else len(rows) * len(columns)
    log_p = min(max_log_p, np.log(EXPECTED * scan.n_pairs / max(n_in_tile, 1)), 0.0)
    while True:
        thresholds = [_statistic_of_log_p(log_p, statistic_moments) for statistic_moments in moments]
        tile = cast(FusedTiles, scan.fused).best_pairs(rows, columns, weights, tied, scan.n_pairs, thresholds)
        if log_p >= min(max_log_p, 0.0) or all(len(best.pairs) >= min(scan.n_pairs, n_in_tile) for best in tile):
            return list(zip(moments, tile, strict=True))
        log_p = min(log_p + np.log(64.0), max_log_p, 0.0)


def _compute_tile(
    functions: RankFunctions, rows: range, columns: range, scan: _Scan, weights: Array, tied: bool, max_log_p: float
) -> list[tuple[Moments, BestOfTile]]:
    """Return the best pairs of a tile by each statistic, from the statistics of all pairs."""
    tile = []
    for used, statistic in _statistics_of_tile(functions, rows, columns, scan, weights, tied):
        moments, xp = scan.moments(weights[:used, :used]), namespace(statistic)
        if rows == columns:  # -∞ on and below the diagonal, so that each pair counts once
            statistic[as_array_like(np.tri(len(rows), dtype=bool), statistic)] = -np.inf
        by_row, by_column = (
            (to_numpy(xp.max(statistic, axis=axis)), to_numpy(xp.argmax(statistic, axis=axis))) for axis in (1, 0)
        )
        threshold = _statistic_of_log_p(max_log_p, moments)
        positions, statistics = top_k(xp.reshape(statistic, (-1,)), scan.n_pairs, threshold)
        pairs = np.stack(np.unravel_index(positions, tuple(statistic.shape)), axis=1)
        tile.append((moments, BestOfTile(by_row, by_column, statistics, pairs)))
    return tile


def _statistics_of_tile(
    functions: RankFunctions, rows: range, columns: range, scan: _Scan, weights: Array, tied: bool
) -> list[tuple[int, Any]]:
    """Return the number of functions used and the statistics of all pairs, for each statistic of a tile."""
    levels, blocks = scan.levels, (rows, columns)
    # counting takes four matrix products, which pays off for two functions each: eight products otherwise
    if levels is not None and weights.size == 4 and all(levels.discrete[b.start : b.stop].all() for b in blocks):
        return [(2, levels.statistics(rows, columns, weights))]
    values = functions.values if scan.device_values is None else scan.device_values
    left, right = (
        values[block.start : block.stop, :used]
        * as_array_like(np.sqrt(scan.design.function_weights[:used, None]), values, precise=False)
        for block, used in zip(blocks, weights.shape, strict=True)
    )
    e, sample_weights = (as_array_like(array, values, precise=False) for array in (scan.e, scan.design.sample_weights))
    return _sum_statistics(left, right, e, sample_weights, weights if tied else None)


def _sum_statistics(left: Any, right: Any, e: Any, sample_weights: Any, weights: Array | None) -> list[tuple[int, Any]]:
    """Return eq. 18 for all pairs of a tile: (functions used, statistics) for smooth functions only and for all.

    `left` and `right` hold the functions times `√ω`. With `weights`, the `ω_a ω_b`, each product is divided by its own
    root mean square, because rare levels would inflate it. Without ties, the mean square is one.
    """
    xp = namespace(left)
    m, n_functions = left.shape[2], max(left.shape[1], right.shape[1])
    statistic = xp.zeros((left.shape[0], right.shape[0]), dtype=xp.float32, device=device_of(left))
    root = 1.0 / m**0.5
    statistics = []
    # products of two smooth functions first; then all others are added to their sum
    for used, n_added in ((min(SMOOTH, n_functions), 0), (n_functions, SMOOTH)):
        for a in range(min(used, left.shape[1])):
            # divided by √m and m first, because half precision would overflow
            factors = [left[:, a] * (column * root) for column in e]
            squares = None if weights is None else left[:, a] ** 2 * (sample_weights**2 / m)
            for b in range(n_added if a < n_added else 0, min(used, right.shape[1])):
                if weights is not None:
                    mean_squares = clip(multiply_by_transpose(squares, right[:, b] ** 2), 1e-6, None)
                    root_mean_squares = xp.sqrt(mean_squares * (1.0 / float(weights[a, b])))
                for factor in factors:
                    inner = multiply_by_transpose(factor, right[:, b])
                    if weights is not None:
                        inner /= root_mean_squares
                    add_square(statistic, inner)
        if used > n_added:
            statistics.append((used, xp.asarray(statistic, copy=True)))
    return statistics


@lru_cache(maxsize=256)
def _statistic_of_log_p(log_p: float, moments: Moments) -> float:
    """Return a statistic just below the one that has this log p, by repeated grid search; zero if log p is infinite."""
    low, high = 0.0, 1e9
    for _ in range(6 if np.isfinite(log_p) else 0):
        grid = low + (high - low) * np.linspace(0.0, 1.0, 65) ** 2
        below = int((log_tail_of_moments(grid, *moments) > log_p).sum())
        low, high = float(grid[max(below - 1, 0)]), float(grid[min(below, 64)])
    return low * (1.0 - 1e-6)
