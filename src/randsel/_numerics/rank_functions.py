"""A few orthonormal functions of the ranks of every column: what main effects and interactions are made of.

A column without ties gets `h_a(r) = √2 cos(aπr)` of its ranks r (eq. 16), so that monotone transforms and outliers do
not show. Tied and discrete columns get the same cosines of their midranks, made orthonormal under their own levels: a
column of L levels has at most L-1 functions. Nominal columns have no order; theirs span the indicators of the levels.
"""

from dataclasses import dataclass

import numpy as np

from randsel._utils.typing import Array

#: Columns of at most this many distinct values are discrete: their rare levels are pooled.
MAX_LEVELS = 12
#: Share of a cosine's variance that the functions before it must leave over for it to be kept.
LEAST_VARIANCE = 0.05
#: Tables of functions by the counts of their levels to remember.
MANY_TABLES = 4096
#: Columns to work on at a time.
COLUMNS = 256


@dataclass(frozen=True)
class Functions:
    """Functions of every column.

    Attributes
    ----------
    values
        Shape (columns, functions, samples), single precision; weighted mean zero, mean square one.
    counts
        How many functions a column has; the others are zero.
    plain
        Columns without ties, whose products with other such columns have mean square one too, unless they depend.
    """

    values: Array
    counts: Array
    plain: Array

    def __len__(self) -> int:
        return len(self.values)

    @property
    def most(self) -> int:
        """Functions that a column has at most."""
        return int(self.values.shape[1])

    def take(self, columns: Array) -> "Functions":
        """Functions of some columns."""
        return Functions(self.values[columns], self.counts[columns], self.plain[columns])


def rank_functions(X: Array, n_functions: int, share: Array, nominal: Array) -> Functions:
    """Functions of the columns of X.

    Parameters
    ----------
    X : array (samples, columns)
        No missing values.
    n_functions : int
        At most this many per column.
    share : array (samples,)
        Weights of the samples, of mean one.
    nominal : array of bool (columns,)
        Columns whose values are names of levels.

    Returns
    -------
    Functions
        In the order of the columns.
    """
    m, n = X.shape
    even = bool(np.all(share == 1.0))
    grid = (np.arange(m) + 0.5) / m
    cosines = np.sqrt(2.0) * np.cos(np.pi * np.arange(1, n_functions + 1)[:, None] * grid)
    values = np.zeros((n, n_functions, m), dtype=np.float32)
    counts, plain = np.zeros(n, dtype=int), np.zeros(n, dtype=bool)
    known: dict[tuple[bool, bytes], Array] = {}
    for start in range(0, n, COLUMNS):
        block = np.ascontiguousarray(np.asarray(X[:, start : start + COLUMNS]).T)
        for at, x in enumerate(block, start):
            codes = _small_codes(x)
            if codes is None:
                order = np.argsort(x, kind="stable")
                new = np.diff(x[order]) != 0
                if even and new.all() and not nominal[at]:
                    values[at][:, order] = cosines
                    counts[at], plain[at] = n_functions, True
                    continue
                codes = np.empty(m, dtype=np.intp)
                codes[order] = np.concatenate([[0], np.cumsum(new)])
            mass = np.bincount(codes, weights=share)
            if not mass.all():  # numbers that no sample has
                codes, mass = (np.cumsum(mass > 0) - 1)[codes], mass[mass > 0]
            # functions of the levels follow from how many samples each has: SNPs of equal counts share them
            key = bool(nominal[at]), mass.tobytes()
            if key not in known:
                known = {} if len(known) > MANY_TABLES else known
                known[key] = _of_levels(mass, m, n_functions, nominal=bool(nominal[at]))
            made = known[key][:, codes]
            values[at, : len(made)] = made
            counts[at] = len(made)
    return Functions(values, counts, plain)


def _small_codes(x: Array) -> Array | None:
    """Small whole numbers as they are, which need no sorting; None for anything else."""
    low, high = x.min(), x.max()
    if not (low >= 0 and high <= MAX_LEVELS and len(x) > MAX_LEVELS + 1):  # so few may be ranks, without ties
        return None
    codes = x.astype(np.intp)
    return codes if np.array_equal(codes, x) else None


def _of_levels(mass: Array, m: int, n_functions: int, *, nominal: bool) -> Array:
    """Functions of the levels of a column of m samples, from the weight of each level."""
    codes = np.arange(len(mass))
    if nominal:
        merged = _most_frequent(mass, n_functions + 1)
    elif len(mass) <= MAX_LEVELS:
        merged = _pool_rare(mass, least=float(np.clip(m / 50, 3, 10)))
    else:
        merged = codes
    codes = merged[codes]
    mass = np.bincount(codes, weights=mass)
    if nominal:
        raw = np.eye(len(mass))[np.argsort(-mass.round(9), kind="stable")[: n_functions + 1]]
    else:
        middle = (np.cumsum(mass) - mass / 2) / mass.sum()
        raw = np.sqrt(2.0) * np.cos(np.pi * np.arange(1, n_functions + 1)[:, None] * middle)
    return _orthonormal(raw, mass)[:n_functions, codes]


def _pool_rare(mass: Array, least: float) -> Array:
    """Pool levels, rare ones with their rarer neighbour, until none is rare; return the number of each level's pool."""
    groups = [[k] for k in range(len(mass))]
    total = [float(value) for value in mass]
    while len(groups) > 1 and min(total) < least:
        k = int(np.argmin(total))
        other = k + 1 if k == 0 or (k + 1 < len(groups) and total[k + 1] < total[k - 1]) else k - 1
        low, high = min(k, other), max(k, other)
        groups[low : high + 1] = [groups[low] + groups[high]]
        total[low : high + 1] = [total[low] + total[high]]
    merged = np.empty(len(mass), dtype=int)
    for number, group in enumerate(groups):
        merged[group] = number
    return merged


def _most_frequent(mass: Array, count: int) -> Array:
    """Keep the most frequent levels; the others, and those of fewer than three samples, join the last of them."""
    order = np.argsort(-mass.round(9), kind="stable")
    merged = np.minimum(np.argsort(order, kind="stable"), count - 1)
    while merged.max() > 0 and mass[merged == merged.max()].sum() < 3.0:
        merged = np.minimum(merged, merged.max() - 1)
    return merged


def _orthonormal(raw: Array, mass: Array) -> Array:
    """Gram–Schmidt on the rows, under the mass of the points; rows that add little are left out."""
    total = mass.sum()
    made: list[Array] = []
    for row in raw:
        f = centre(row, mass, None)
        before = float(mass @ (f * f))
        for _ in range(2):  # twice is enough for orthogonality to rounding
            for g in made:
                f = f - g * (mass @ (f * g) / total)
        left = float(mass @ (f * f))
        if left > LEAST_VARIANCE * max(before, 0.01 * total):
            made.append(centre(f, mass, None) * np.sqrt(total / left))
    return np.array(made).reshape(len(made), raw.shape[1])


def centre(rows: Array, mass: Array, strata: Array | None) -> Array:
    """Subtract the mean under the mass, in every stratum; the last axis is that of the samples."""
    if strata is None:
        return np.asarray(rows - (rows @ mass / mass.sum())[..., None])
    order = np.argsort(strata, kind="stable")
    starts = np.flatnonzero(np.diff(strata[order], prepend=-1))
    sums = np.add.reduceat((rows * mass)[..., order], starts, axis=-1)
    means = sums / np.add.reduceat(mass[order], starts)
    return np.asarray(rows - means[..., strata])
