"""Scan of pairs on a GPU: one Triton kernel computes a tile and returns only its best pairs.

Pairs of discrete features (at most three levels, two functions) are counted exactly, with 8-bit integers, if the target
has two classes. All other pairs are products of functions in half precision. Without Triton, `_pair_scan` computes
tiles by operations of torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from os import environ
from typing import Any

import numpy as np

from randsel._numerics.arrays import to_numpy
from randsel._utils.typing import Array
from randsel.interactions._design import SMOOTH
from randsel.interactions._level_tables import LevelTables

#: Maximum number of pairs above the threshold that a kernel can write.
CAPACITY = 1 << 20
#: Settings of the two kernels: features of a program (ROWS, COLUMNS), samples per step (DEPTH), and options of the
#: compiler. They were the fastest of those tried on an H200. Samples are padded with zeros to a multiple of DEPTH.
PRODUCT_TILE = {"ROWS": 128, "COLUMNS": 128, "DEPTH": 64, "num_warps": 8, "num_stages": 4}
COUNT_TILE = {"ROWS": 32, "COLUMNS": 64, "DEPTH": 128, "num_warps": 4, "num_stages": 4}
#: Maximum numbers of samples of the first and of the second class, because both counts share a 32-bit integer.
MAX_COUNTS = 32767, 65535


@dataclass(frozen=True)
class BestOfTile:
    """The best pairs of a tile by one statistic; features are numbered within the tile."""

    #: Per feature of the rows: its largest statistic (below zero if in no pair), and the partner in that pair.
    by_row: tuple[Array, Array]
    by_column: tuple[Array, Array]  # the same for each feature of the columns
    statistics: Array  # of the best pairs, the largest first
    pairs: Array  # (row, column) of each of these


def can_fuse(device_type: str) -> bool:
    """Return whether Triton is installed and runs on this type of device: a GPU, or the host with its interpreter."""
    runs = device_type == "cuda" or (device_type == "cpu" and environ.get("TRITON_INTERPRET") == "1")
    return runs and find_spec("triton") is not None


@dataclass(frozen=True)
class FusedTiles:
    """Functions of all features on a device, in the form that the kernels take."""

    values: Any  # half precision, shape (features, functions, samples); samples are padded with zeros
    outcomes: Any  # weighted residuals of the target, divided by the root of the number of samples: (columns, samples)
    squared_weights: Any  # squares of the sample weights, divided by the root of the number of samples
    levels: "_SortedLevels | None"  # indicators for counting; None if pairs cannot be counted
    n_samples: int  # without padding

    @classmethod
    def from_values(cls, values: Any, counts: Array, e: Array, sample_weights: Array) -> "FusedTiles":
        """Prepare functions on a device; `e` holds the weighted residuals of the target, shape (columns, samples)."""
        m = values.shape[2]
        pad = -m % PRODUCT_TILE["DEPTH"]
        outcomes = values.new_tensor(np.pad(e / np.sqrt(m), ((0, 0), (0, pad))))
        squared_weights = values.new_tensor(np.pad(sample_weights**2 / np.sqrt(m), (0, pad)))
        levels = _SortedLevels.from_tables(LevelTables.from_functions(values, counts, e, sample_weights))
        padded = values.new_zeros((*values.shape[:2], m + pad), dtype=_torch().float16)
        padded[..., :m] = values
        return cls(padded, outcomes, squared_weights, levels, m)

    def best_pairs(
        self, rows: range, columns: range, weights: Array, tied: bool, n_pairs: int, thresholds: Sequence[float]
    ) -> list[BestOfTile]:
        """Return the best pairs of two blocks of features by each statistic: of smooth functions, and of all.

        There is one threshold per statistic; a single one means all functions. `weights` are the ω_a ω_b. If `tied`,
        each product is divided by its root mean square. A result has at most `n_pairs` pairs, none of them below the
        threshold.
        """
        members = np.concatenate([np.asarray(rows), np.asarray(columns)])
        count = self.levels is not None and tied and self.levels.tables.discrete[members].all()
        run = self._count_pairs if count else self._multiply_pairs
        buffers = _Buffers.allocate(self.values, len(rows), len(columns), list(thresholds))
        while True:
            run(rows, columns, weights, tied, buffers)
            if not buffers.raise_thresholds(n_pairs):
                return buffers.collect(n_pairs)

    def _multiply_pairs(self, rows: range, columns: range, weights: Array, tied: bool, buffers: "_Buffers") -> None:
        torch = _torch()
        left, right = (self.values[block.start : block.stop] for block in (rows, columns))
        factors = (left[None] * self.outcomes[:, None, None, :]).to(torch.float16)
        products, stops = _products_of_statistics(weights.shape, len(buffers.thresholds))
        squares = right_squares = left  # placeholders: the kernel reads squares only if `tied`
        if tied:
            squares = (left.float().square() * self.squared_weights).to(torch.float16)
            right_squares = (right.float().square() / self.n_samples**0.5).to(torch.float16)
        n_functions, m = left.shape[1:]
        tables = (products, torch.int32), (weights[tuple(products.T)], torch.float32), (stops, torch.int32)
        _launch(
            _kernels().product_tile,
            PRODUCT_TILE,
            (len(rows), len(columns), m, int(rows == columns)),
            (factors, right, squares, right_squares),
            tuple(torch.as_tensor(values, dtype=dtype, device=left.device) for values, dtype in tables),
            (n_functions * m, n_functions * m, factors.stride(0)),
            buffers.arguments(),
            N_STATISTICS=len(stops),
            N_OUTPUTS=len(factors),
            TIED=tied,
        )

    def _count_pairs(self, rows: range, columns: range, weights: Array, tied: bool, buffers: "_Buffers") -> None:  # noqa: ARG002
        torch, levels = _torch(), self.levels
        assert levels is not None
        blocks = (rows, columns)
        _launch(
            _kernels().count_tile,
            COUNT_TILE,
            (len(rows), len(columns), levels.indicators.shape[1], int(rows == columns), levels.boundary),
            tuple(levels.indicators[2 * block.start : 2 * block.stop] for block in blocks),
            tuple(levels.tables.coefficients[..., block.start : block.stop].contiguous() for block in blocks),
            torch.as_tensor(weights, dtype=torch.float32, device=self.values.device).contiguous(),
            (*levels.tables.outcomes, levels.tables.outcome_sum, 1.0 / self.n_samples),
            buffers.arguments(),
            N_ROW_FUNCTIONS=weights.shape[0],
            N_COLUMN_FUNCTIONS=weights.shape[1],
        )


@dataclass(frozen=True)
class _SortedLevels:
    """Indicators of levels with samples sorted by class, each class padded with zeros, shape (2 × features, samples).

    `boundary` is the first sample of the second class.
    """

    tables: LevelTables
    indicators: Any
    boundary: int

    @classmethod
    def from_tables(cls, tables: LevelTables | None) -> "_SortedLevels | None":
        """Sort and pad the indicators; return None without tables, or if a class exceeds its `MAX_COUNTS`."""
        if tables is None or not (np.bincount(tables.in_second) <= MAX_COUNTS).all():
            return None
        torch, depth = _torch(), COUNT_TILE["DEPTH"]
        samples_of_classes = [np.flatnonzero(tables.in_second == value) for value in (False, True)]
        boundary, width = np.cumsum([-(-len(samples) // depth) * depth for samples in samples_of_classes]).tolist()
        n = len(tables.indicators)
        indicators = tables.indicators.new_zeros((n, 2, width))
        for start, samples in zip((0, boundary), samples_of_classes, strict=True):
            index = torch.as_tensor(samples, device=indicators.device)
            for level in range(2):
                indicators[:, level, start : start + len(samples)] = tables.indicators[:, level].index_select(1, index)
        return cls(tables, indicators.view(2 * n, width), boundary)


@dataclass(frozen=True)
class _Buffers:
    """Arrays that a kernel writes, for each statistic: best partners of rows and columns, pairs above the threshold."""

    thresholds: list[float]
    best_rows: Any
    best_columns: Any
    values: Any
    pairs: Any
    counts: Any

    @classmethod
    def allocate(cls, like: Any, n_rows: int, n_columns: int, thresholds: list[float]) -> "_Buffers":
        torch, k = _torch(), len(thresholds)
        shapes = {"best_rows": (k, n_rows), "best_columns": (k, n_columns)}
        best = {name: torch.full(shape, -1, dtype=torch.int64, device=like.device) for name, shape in shapes.items()}
        values = torch.empty((k, CAPACITY), dtype=torch.float32, device=like.device)
        pairs = torch.empty((k, CAPACITY, 2), dtype=torch.int32, device=like.device)
        counts = torch.zeros(k, dtype=torch.int32, device=like.device)
        return cls(thresholds, **best, values=values, pairs=pairs, counts=counts)

    def arguments(self) -> tuple[Any, ...]:
        """Return the arguments of a kernel."""
        self.counts.zero_()
        thresholds = self.values.new_tensor(self.thresholds)
        return thresholds, CAPACITY, self.best_rows, self.best_columns, self.values, self.pairs, self.counts

    def raise_thresholds(self, n_pairs: int) -> bool:
        """Raise the thresholds that more than `CAPACITY` pairs reach; return whether any was raised."""
        raised = False
        for k, count in enumerate(to_numpy(self.counts).tolist()):
            if count > CAPACITY:
                smallest = float(self.values[k].topk(n_pairs).values[-1])
                raised |= smallest > self.thresholds[k]
                self.thresholds[k] = smallest
        return raised

    def collect(self, n_pairs: int) -> list[BestOfTile]:
        """Copy the results to the host."""
        results = []
        for k, count in enumerate(to_numpy(self.counts).tolist()):
            statistics, pairs = self.values[k, :count], self.pairs[k, :count]
            if len(statistics) > n_pairs:
                # keep all pairs that tie with the last one: they are in random order until the sort below
                is_among_best = statistics >= statistics.topk(n_pairs).values[-1]
                statistics, pairs = statistics[is_among_best], pairs[is_among_best]
            statistics, pairs = to_numpy(statistics), to_numpy(pairs).astype(int)
            order = np.lexsort((pairs[:, 1], pairs[:, 0], -statistics))[:n_pairs]
            by_row, by_column = (_unpack(to_numpy(keys[k])) for keys in (self.best_rows, self.best_columns))
            results.append(BestOfTile(by_row, by_column, statistics[order], pairs[order]))
        return results


def _unpack(keys: Array) -> tuple[Array, Array]:
    """Return the statistics and the partners that 64-bit keys hold; see `_pack` of `_pair_kernels`."""
    statistics = (keys >> 32).astype(np.int32).view(np.float32)
    return np.where(keys >= 0, statistics, np.float32(-1.0)), 0x7FFFFFFF - (keys & 0x7FFFFFFF)


def _products_of_statistics(shape: tuple[int, ...], n_statistics: int) -> tuple[Array, Array]:
    """Return the functions (a, b) of every product, and the number of products of each statistic.

    Products of smooth functions come first: the statistic of all functions starts from the one of smooth functions.
    """
    products = np.ascontiguousarray(np.indices(shape).reshape(2, -1).T)
    if n_statistics == 1:
        return products, np.array([len(products)])
    is_smooth = (products < SMOOTH).all(axis=1)
    return np.concatenate([products[is_smooth], products[~is_smooth]]), np.array([is_smooth.sum(), len(products)])


def _launch(kernel: Any, tile: dict[str, int], sizes: tuple[int, ...], *arguments: Any, **constants: Any) -> None:
    """Run a kernel, one program per tile; `sizes` starts with the numbers of rows and columns."""
    n_programs = -(-sizes[0] // tile["ROWS"]) * -(-sizes[1] // tile["COLUMNS"])
    kernel[(n_programs,)](sizes, *arguments, **constants, **tile, GROUP=_kernels().GROUP)


def _kernels() -> Any:
    return import_module("randsel.interactions._pair_kernels")


def _torch() -> Any:
    return import_module("torch")
