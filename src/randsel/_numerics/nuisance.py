"""Nuisance variables: what is removed from features and outcome before they are compared.

Centring is projection on a constant. With batches and covariates, the projection is on their columns as well, in the
metric of the sample weights: `P = I - Z (Zᵀ W Z)⁻¹ Zᵀ W` for `Z = (constant, batches, covariates)`. What is left of a
column has weighted mean zero, in every batch, and no weighted correlation with a covariate.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.stats import rankdata

from randsel._numerics.arrays import as_array_like, as_index, astype, namespace, on_host
from randsel._numerics.columns import monotone_scores
from randsel._utils.typing import Array

#: A column of Z is left out if those before it leave less than this fraction of its mean square.
MIN_INDEPENDENT = 1e-8
#: A column counts as constant if nuisance variables leave less than this fraction of its variance.
MIN_LEFT = 1e-4
#: Least variance of a residual relative to the mean, where it is estimated as a function of covariates.
MIN_RELATIVE_VARIANCE = 0.1
#: Least degrees of freedom that batches and covariates must leave.
MIN_FREEDOM = 3
#: Functions of a numeric covariate: powers of itself and of its monotone scores up to degree three.
COVARIATE_FUNCTIONS = 6
#: Samples per function of a covariate; with fewer samples, a covariate has fewer functions.
SAMPLES_PER_FUNCTION = 10


@dataclass(frozen=True)
class Covariates:
    """Covariates as columns of numbers; a categorical covariate has an indicator per level, or one for two levels.

    Attributes
    ----------
    values
        One column per number or level.
    names
        Names of the columns.
    numeric
        Mask of the columns that are numbers; the others are indicators.
    """

    values: Array
    names: tuple[str, ...]
    numeric: Array

    def rows(self, index: Array) -> "Covariates":
        """Return the covariates of some samples."""
        return replace(self, values=self.values[index])

    def functions(self, groups: Array | None = None) -> Array:
        """Return the columns to project on: smooth functions of numbers, and indicators of levels.

        Tests use ranks, and ranks of a column that depends on a covariate depend on it in a curve. So a number enters
        by powers of itself and of its monotone scores, which are also the scores of features. Few samples allow fewer
        of these functions. Numbers that are constant in every group, such as the age of a donor, count once per group.
        """
        m, n_numeric = len(self.values), int(self.numeric.sum())
        if groups is not None:
            _, first, codes = np.unique(groups, return_index=True, return_inverse=True)
            numbers = self.values[:, self.numeric]
            m = len(first) if np.array_equal(numbers[first][codes], numbers) else m
        count = int(np.clip(m / (SAMPLES_PER_FUNCTION * max(n_numeric, 1)), 1, COVARIATE_FUNCTIONS))
        columns = [_smooth_functions(values)[:count] for values in self.values[:, self.numeric].T]
        return np.column_stack([*(f for functions in columns for f in functions), self.values[:, ~self.numeric]])


def _smooth_functions(values: Array) -> list[Array]:
    """Return the powers 1 to 3 of a standardised column and of its monotone scores, halved to a variance near one."""
    spread, scores = values.std(), monotone_scores((rankdata(values) - 0.5) / len(values)) / 2.0
    z = (values - values.mean()) / (spread if spread > 0.0 else 1.0)
    return [z, scores, z**2, scores**2, z**3, scores**3]


@dataclass(frozen=True)
class Nuisance:
    """Strata and covariates that are projected out.

    Attributes
    ----------
    weights
        Weights of the samples, of mean one.
    strata
        Stratum of every sample, numbered from 0; None for one stratum.
    basis
        Rows that span what covariates add to the means of strata: orthonormal under the weights, mean zero in every
        stratum. No rows without covariates.
    """

    weights: Array
    strata: Array | None
    basis: Array

    @classmethod
    def from_samples(
        cls,
        m: int,
        weights: Array | None,
        strata: Array | None,
        covariates: Covariates | None = None,
        groups: Array | None = None,
    ) -> "Nuisance":
        """Return the projection for m samples, of which those of a group are not independent.

        Weights may be None or of any scale.
        """
        weights = np.ones(m) if weights is None else weights / weights.mean()
        plain = cls(weights, strata, np.zeros((0, m)))
        if covariates is None:
            return plain
        columns = plain.remove(covariates.functions(groups).T)
        return cls(weights, strata, _orthonormal_rows(columns, weights))

    def extend(self, rows: Array) -> "Nuisance":
        """Return the projection that removes these rows as well."""
        return replace(self, basis=_orthonormal_rows(np.concatenate([self.basis, self.remove(rows)]), self.weights))

    @property
    def n_strata(self) -> int:
        """Number of strata."""
        return 1 if self.strata is None else int(self.strata.max()) + 1

    @property
    def rank(self) -> int:
        """Number of columns that are projected out."""
        return self.n_strata + len(self.basis)

    @property
    def only_centres(self) -> bool:
        """Whether only one mean is subtracted."""
        return self.rank == 1

    def check_freedom(self) -> None:
        """Raise ValueError if covariates leave too few degrees of freedom."""
        m = len(self.weights)
        if len(self.basis) and m - self.rank < MIN_FREEDOM:
            raise ValueError(
                f"Batches and covariates have {self.rank} columns, too many for {m} samples; leave some of them out."
            )

    def remove(self, rows: Any) -> Any:
        """Return rows without the means of strata and without covariates; samples are the last axis."""
        weights = as_array_like(self.weights, rows, precise=False)
        return self.remove_covariates(centre(rows, weights, self.strata))

    def remove_covariates(self, rows: Any) -> Any:
        """Return rows without covariates; the means of strata stay."""
        if not len(self.basis):
            return rows
        basis, weights = (as_array_like(values, rows, precise=False) for values in (self.basis, self.weights))
        return rows - ((rows * weights) @ basis.T / weights.sum()) @ basis

    def fit_variances(self, squares: Array) -> Array:
        """Return variances of residuals: the regression of their squares on strata and covariates, above zero."""
        return np.asarray(np.maximum(squares - self.remove(squares), MIN_RELATIVE_VARIANCE * squares.mean()))

    @cached_property
    def columns(self) -> Array:
        """An orthonormal basis, under the weights, of everything that is projected out; samples are rows."""
        indicators = np.ones((1, len(self.weights)))
        if self.strata is not None:
            indicators = (self.strata == np.arange(self.n_strata)[:, None]).astype(np.float64)
        masses = indicators @ self.weights
        return np.concatenate([indicators / np.sqrt(masses / self.weights.sum())[:, None], self.basis]).T

    def explain_columns(self, Z: Any) -> tuple[Any, Any]:
        """Return a basis (samples, rank) and coefficients (rank, columns); `remove` subtracts their product from Z."""
        columns = astype(as_array_like(self.columns, Z), Z.dtype)
        weights = astype(as_array_like(self.weights, Z), Z.dtype)
        return columns, (columns * weights[:, None]).T @ Z / float(self.weights.sum())

    def remove_from_columns(self, Z: Any, *, rescale: bool) -> Any:
        """Remove strata and covariates from the columns of Z, in place; return the fraction of variance left.

        With `rescale`, columns of which enough is left get back the weighted mean square that they had.
        """
        xp = namespace(Z)
        weights = astype(as_array_like(self.weights, Z), Z.dtype)
        before = weights @ (Z * Z)
        basis, coefficients = self.explain_columns(Z)
        Z -= basis @ coefficients
        left = weights @ (Z * Z) / xp.where(before > 0.0, before, xp.ones_like(before))
        if rescale:
            Z /= xp.sqrt(xp.where(left > MIN_LEFT, left, xp.ones_like(left)))
        return left

    def remove_from_outcome(self, Y: Array) -> Array:
        """Remove strata and covariates from an outcome, which keeps its mean square; refuse if nothing is left."""
        left = self.remove(Y.T).T
        before, after = self.weights @ np.square(Y), self.weights @ np.square(left)
        if after.sum() < MIN_INDEPENDENT * before.sum():
            cause, name = "y is constant within every batch", "batch"
            if len(self.basis):
                cause, name = "The covariates explain y completely", "some covariates"
            raise ValueError(f"{cause}, so nothing is left for features to explain; leave {name} out.")
        return np.asarray(left * np.sqrt(before.sum() / after.sum()))


def _orthonormal_rows(rows: Array, weights: Array) -> Array:
    """Apply Gram–Schmidt to the rows in the metric of the weights; drop rows that depend on those before them."""
    total, basis = weights.sum(), np.zeros((0, rows.shape[1]))
    for row in rows:
        square, left = (row * row) @ weights / total, row
        for _ in range(2):  # a second pass makes the rows orthogonal up to rounding
            left = left - ((left * weights) @ basis.T / total) @ basis
        remaining = (left * left) @ weights / total
        if remaining > MIN_INDEPENDENT * max(square, 1e-300) and square > 1e-20:
            basis = np.concatenate([basis, left[None] / np.sqrt(remaining)])
    return basis


def centre(rows: Any, mass: Any, strata: Array | None) -> Any:
    """Subtract the mean over the last axis, the samples, weighted by `mass`; within each stratum if there are any."""
    if strata is None:
        return rows - (rows @ mass / mass.sum())[..., None]
    means = sums_by(strata, rows * mass) / sums_by(strata, mass)
    return rows - means[..., as_index(strata, means)]


def sums_by(labels: Array | None, rows: Any) -> Any:
    """Return the sums of `rows` over the samples (last axis) of every stratum or cluster; of all samples if None."""
    if labels is None or not (on_host(rows) or labels.any()):
        return rows.sum(axis=-1, keepdims=True)
    if not on_host(rows):  # a matrix product, because a device adds scattered terms in random order
        indicators = (labels[:, None] == np.arange(labels.max() + 1)).astype(np.float64)
        return rows @ as_array_like(indicators, rows, precise=False)
    if (np.diff(labels) < 0).any():
        order = np.argsort(labels, kind="stable")
        labels, rows = labels[order], rows[..., order]
    return np.add.reduceat(rows, np.flatnonzero(np.diff(labels, prepend=-1)), axis=-1)
