"""Blocks of rows: where the pairs of all samples would be too many, contributions are averaged over disjoint blocks."""

from collections.abc import Callable
from typing import Any

import numpy as np

from randsel._numerics.arrays import to_numpy
from randsel._numerics.columns import ColumnSource
from randsel._utils.jobs import ordered_map
from randsel._utils.typing import Array
from randsel.contribution._bootstrap import Draws
from randsel.contribution._sample import Contribution, Sample
from randsel.targets import Target


def map_row_blocks(
    sample: Sample,
    blocks: list[Array],
    function: Callable[[Sample, float], Any],
    gamma: float,
    draws: Draws,
    on_done: Callable[[], None] | None = None,
) -> list[Any]:
    """Return `function(sample of the rows, gamma)` for blocks of rows.

    A column source may evaluate whole row blocks on workers of its own. Otherwise the blocks are jobs of this process;
    one after the other, if the workers of the source share the columns of a block.
    """
    n_jobs = draws.n_jobs
    if isinstance(sample.X, ColumnSource):
        shared = sample.target, sample.fixed, sample.factor, function, gamma
        results = sample.X.map_row_blocks(blocks, _call_on_worker, *shared)
        if results is not None:
            if on_done is not None:
                for _ in results:
                    on_done()
            return results
        n_jobs = 1 if sample.X.computes_elsewhere else n_jobs
    tasks = [(sample, rows, function, gamma) for rows in blocks]
    return ordered_map(_call_on_rows, tasks, n_jobs, on_done)


def _call_on_rows(sample: Sample, rows: Array, function: Callable[[Sample, float], Any], gamma: float) -> Any:
    return function(sample.take_rows(rows), gamma)


def _call_on_worker(
    X: Array, rows: Array, target: Target, fixed: Array, factor: Any, function: Any, gamma: float
) -> Any:
    return function(Sample.from_columns(X, target.rows(rows), fixed, factor), gamma)


def average_blocks(blocks: list[Contribution], rows: Array) -> Contribution:
    """Average the totals; divide the sum of the scores of B independent blocks by √B, which keeps their variance 1.

    Errors are in the order of the rows of X: the blocks of every round are others, and errors are compared by sample.
    """
    scale = max(block.log_scale for block in blocks)

    def mean_total() -> Any:
        return sum(block.relative * float(np.exp(block.log_scale - scale)) for block in blocks) / len(blocks)

    def combine(name: str) -> Any:
        return sum(getattr(block, name) for block in blocks) / len(blocks) ** 0.5

    scores = combine("main"), combine("interaction")
    errors = np.concatenate([to_numpy(block.errors) for block in blocks])[np.argsort(rows)]
    return Contribution(mean_total(), scale, *scores, errors=errors, ridge=blocks[0].ridge)
