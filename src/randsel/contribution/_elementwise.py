"""Functions of features pair by pair, for those that no short series is good enough for.

Equations are numbered as in docs/mathematics.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from randsel._numerics.arrays import (
    SCRATCH,
    as_contiguous,
    as_index,
    astype,
    device_of,
    is_single,
    namespace,
    scratch_size,
    to_double,
)
from randsel._numerics.columns import ColumnSource, keep_columns, map_blocks, select_columns, sum_blocks
from randsel._utils.typing import Array
from randsel.contribution._error_bounds import Moments
from randsel.contribution._expected_kernel import PairWeights, score
from randsel.contribution._sample import STRIP, Sample, root
from randsel.targets._target import Target

#: Bytes of `tanh` values kept between the two passes of the element-wise route; beyond, they are computed twice.
KEEP_BYTES = 48 << 20


class Elements:
    """`T = tanh(γ d / 2)` of some features, pair by pair: rows of the upper triangle in blocks."""

    def __init__(self, Xt: Any, gamma: float) -> None:
        # squares of differences of these are what tanh is taken of
        self._Xt = Xt * float(np.sqrt(gamma / 2))
        n, m = Xt.shape
        xp, self._starts = namespace(Xt), [0]
        while self._starts[-1] < m:
            start = self._starts[-1]
            self._starts.append(min(m, start + max(1, scratch_size(Xt) // (n * (m - start)))))
        sizes = [n * (stop - start) * (m - start) for start, stop in pairwise(self._starts)]
        self._keep = sum(sizes) * (4 if is_single(Xt.dtype) else 8) <= KEEP_BYTES * (scratch_size(Xt) // SCRATCH)
        # one piece of memory for all blocks: fresh memory costs more than what is done with it
        self._room = xp.empty(sum(sizes) if self._keep else max(sizes), dtype=Xt.dtype, device=device_of(Xt))
        self._kept = 0
        self.row_sums = xp.zeros((n, m), dtype=xp.float64, device=device_of(Xt))
        self.squares = xp.zeros(n, dtype=xp.float64, device=device_of(Xt))

    @classmethod
    def of(cls, sample: Sample, gamma: float, moments: Moments, rough: Array) -> "Elements | ElementsElsewhere":
        """Take the features of a mask, in double precision where single would lose too much."""
        xp = namespace(moments.second)
        # where tanh saturates, what varies besides is small against it
        precise = moments.outlying is not None or moments.gamma * moments.extremes[1] ** 2 > 4.0
        precise |= not is_single(sample.inside) or not moments.ordinary
        X, dtype = keep_columns(sample.X, rough), xp.float64 if precise else xp.float32
        if isinstance(X, ColumnSource):
            return ElementsElsewhere(X, gamma, dtype)
        return cls.of_block(X, gamma, dtype)

    @classmethod
    def of_block(cls, X: Any, gamma: float, dtype: Any) -> "Elements":
        """Take all columns of an array."""
        return cls(as_contiguous(astype(X.T, dtype)), gamma)

    def _blocks(self) -> Iterator[tuple[int, int, Any]]:
        """Rows start to stop against columns from start on; (feature, row, column)."""
        n, m = self._Xt.shape
        xp, at = namespace(self._Xt), 0
        for start, stop in pairwise(self._starts):
            shape = n, stop - start, m - start
            block = xp.reshape(self._room[at : at + n * shape[1] * shape[2]], shape)
            if self._keep:
                at += n * shape[1] * shape[2]
            if at > self._kept or not self._keep:
                xp.subtract(self._Xt[:, start:stop, None], self._Xt[:, None, start:], out=block)
                with np.errstate(over="ignore"):
                    block *= block
                xp.tanh(block, out=block)
                self._kept = at
            yield start, stop, block

    def log_factors(self, free: Array, dtype: Any) -> Any:
        """`Σ_j log((1 + z_j)/2) = - Σ_j log(1 + T_j)` over the free features; gathers the norms on the way."""
        xp, m = namespace(self._Xt), self._Xt.shape[1]
        logs = xp.empty((m, m), dtype=dtype, device=device_of(self._Xt))
        self.row_sums[:] = 0.0
        self.squares[:] = 0.0
        for start, stop, block in self._blocks():
            factors = -_log_product(block if free.all() else block[as_index(free, block)])
            logs[start:stop, start:] = factors
            if stop - start == m:  # all pairs at once, each of them twice
                self.row_sums[:] = block.sum(axis=2)
                self.squares[:] = (block * block).sum(axis=(1, 2))
                return logs
            logs[stop:, start:stop] = factors[:, stop - start :].T
            own = block[:, :, : stop - start]
            # sums as products: far faster along a short axis
            ones = xp.ones(m - start, dtype=block.dtype, device=device_of(block))
            self.row_sums[:, start:stop] += to_double(block @ ones)
            self.row_sums[:, stop:] += to_double(ones[: stop - start] @ block[:, :, stop - start :])
            flat = xp.reshape(block, (block.shape[0], 1, -1))
            self.squares += 2 * to_double((flat @ xp.matrix_transpose(flat))[:, 0, 0])
            self.squares -= to_double(xp.linalg.vecdot(own, own).sum(axis=1))
        return logs

    def least_row_sum(self) -> float:
        """Least sum of a row of T, of all features; m - 1 if no sample is near another."""
        return float(self.row_sums.min())

    def products(self, target: Target, weights: PairWeights) -> Any:
        """Totals and scores, the full function (eq. 3 and 7)."""
        xp, (n, m) = namespace(self._Xt), self._Xt.shape
        matrices = weights.total, target.matrices(weights.total.dtype)[1], weights.interaction
        forms = xp.zeros((n, 3), dtype=xp.float64, device=device_of(self._Xt))
        for start, stop, block in self._blocks():
            part = astype(xp.stack([matrix[start:stop, start:] for matrix in matrices]), block.dtype)
            if stop - start == m:
                forms = to_double(xp.reshape(block, (n, -1)) @ xp.reshape(part, (3, -1)).T)
                break
            own = xp.reshape(block[:, :, : stop - start], (n, -1))
            # pairs within the rows are there twice, the others once
            forms -= to_double(own @ xp.reshape(part[:, :, : stop - start], (3, -1)).T)
            forms += 2 * to_double(xp.reshape(block, (n, -1)) @ xp.reshape(part, (3, -1)).T)
        total, main, interaction = -2 * forms.T
        row_squares = (self.row_sums * self.row_sums).sum(axis=1)
        sums = self.row_sums.sum(axis=1)
        square = self.squares - row_squares * (2 / (m - 2)) + sums**2 / ((m - 1) * (m - 2))
        hollow = 2 * root(square, self.squares, m, self._Xt.dtype)
        interaction = interaction - weights.interaction_mean(hollow, sums / (m * (m - 1)), m)
        return xp.stack(
            [
                total / target.n_pairs,
                score(main, target.hollow_norm, hollow, m),
                score(interaction, weights.interaction_norm, hollow, m),
            ]
        )


class ElementsElsewhere:
    """`Elements` of features that do not fit into memory: a block of them at a time, twice."""

    def __init__(self, X: ColumnSource, gamma: float, dtype: Any) -> None:
        self._X, self._how = X, (gamma, dtype)
        self._least = np.inf

    def log_factors(self, free: Array, dtype: Any) -> Any:
        """`- Σ_j log(1 + T_j)` over the free features."""
        found = sum_blocks(select_columns(self._X, free), STRIP, _Factors.of, *self._how)
        self._least = found.least_row_sum
        return astype(found.log_factors, dtype)

    def least_row_sum(self) -> float:
        """Least sum of a row of T, of the free features."""
        return self._least

    def products(self, target: Target, weights: PairWeights) -> Any:
        """Totals and scores."""
        parts = list(map_blocks(self._X, STRIP, _rough_products, *self._how, target, weights))
        return namespace(parts[0]).concat(parts, axis=1)


@dataclass(frozen=True)
class _Factors:
    """What some features bring to log Q, and the least row sum of their T."""

    log_factors: Any
    least_row_sum: float

    @classmethod
    def of(cls, block: Any, gamma: float, dtype: Any) -> "_Factors":
        """Compute it from a block of columns."""
        elements = Elements.of_block(block, gamma, dtype)
        log_factors = elements.log_factors(np.ones(block.shape[1], dtype=bool), namespace(block).float64)
        return cls(log_factors, elements.least_row_sum())

    def __add__(self, other: "_Factors") -> "_Factors":
        return _Factors(self.log_factors + other.log_factors, min(self.least_row_sum, other.least_row_sum))


def _rough_products(block: Any, gamma: float, dtype: Any, target: Target, weights: PairWeights) -> Any:
    elements = Elements.of_block(block, gamma, dtype)
    # for the norms that it gathers
    elements.log_factors(np.ones(block.shape[1], dtype=bool), dtype)
    return elements.products(target, weights)


def _log_product(block: Any) -> Any:
    """`Σ_j log(1 + T_j)`, by products as long as they cannot overflow."""
    xp = namespace(block)
    longest = 100 if is_single(block.dtype) else 1000
    starts = range(0, block.shape[0], longest)
    logs = [to_double(xp.log(xp.prod(1 + block[start : start + longest], axis=0))) for start in starts]
    return sum(logs[1:], logs[0]) if logs else xp.zeros(block.shape[1:], dtype=block.dtype, device=device_of(block))
