"""From values of features to scores: normal scores by the training distribution, less the effects of covariates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from randsel._numerics.missing import missing_mask
from randsel._numerics.standardise import RankScorer, rank_scores_into
from randsel._utils.text import format_label, list_first
from randsel._utils.typing import Array

#: Maximum number of training values that describe the distribution of a feature.
MAX_POINTS = 501
#: Number of columns that are scored at a time, which limits memory.
COLUMNS_AT_A_TIME = 1024


def take_points(X: Array) -> tuple[Array, ...]:
    """Return the observed values of every column in ascending order.

    If there are more than `MAX_POINTS`, these are order statistics at equal distances.
    """
    counts = np.count_nonzero(~np.isnan(X), axis=0).tolist()
    columns = np.sort(X.T, axis=1)  # missing values last
    indices = (np.round(np.linspace(0, count - 1, min(count, MAX_POINTS))).astype(int) for count in counts)
    return tuple(column[index] for column, index in zip(columns, indices, strict=True))


def score_columns(X: Array, points: Sequence[Array]) -> Array:
    """Return the normal scores of columns, each by the distribution that its points describe; 0 where missing."""
    scores = np.empty(X.shape)
    for start in range(0, len(points), COLUMNS_AT_A_TIME):
        block = slice(start, start + COLUMNS_AT_A_TIME)
        padded = np.full((len(points[block]), max(map(len, points[block]))), np.nan)
        for row, values in zip(padded, points[block], strict=True):
            row[: len(values)] = values
        scores[:, block] = RankScorer.from_samples(padded.T, "normal").apply(X[:, block])
    return scores


def _score_training_samples(X: Array, points: Sequence[Array]) -> Array:
    """Return the scores of the samples that the points were taken from."""
    if len(X) > MAX_POINTS:
        return score_columns(X, points)
    scores = np.empty(X.shape)
    rank_scores_into(scores, X, None, missing_mask(X), "normal")  # the same numbers, faster
    return scores


@dataclass(frozen=True)
class Covariate:
    """A variable whose effects are removed from the scores: a number (mean and spread), or text (levels).

    `below_detection` replaces cells of a number that are below detection: the value that training used, or half of the
    smallest training value.
    """

    name: str
    mean: float = 0.0
    spread: float = 1.0
    levels: tuple[str, ...] = ()
    below_detection: float | None = None

    @classmethod
    def from_values(cls, name: str, values: Array) -> "Covariate":
        """Describe a covariate of the training samples."""
        if values.dtype.kind in "fiub":
            return cls(name, float(values.mean()), float(values.std()) or 1.0)
        return cls(name, levels=tuple(np.unique(values.astype(str)).tolist()))

    def design(self, values: Array) -> Array:
        """Return the columns of the regression: a standardised number, or an indicator of each level."""
        if not self.levels:
            try:
                numbers = np.asarray(values, dtype=np.float64)
            except ValueError:
                raise ValueError(
                    f"the covariate {self.name!r} is a number in the panel, but text here; write numbers."
                ) from None
            if not np.isfinite(numbers).all():
                raise ValueError(f"the covariate {self.name!r} is not known for all samples; fill it in.")
            return np.asarray((numbers - self.mean) / self.spread)[:, None]
        texts = np.array([format_label(value) for value in np.asarray(values).tolist()], dtype=str)
        unknown = sorted(set(texts.tolist()) - set(self.levels))
        if unknown:
            known = list_first([repr(level) for level in self.levels], 6)
            raise ValueError(
                f"the covariate {self.name!r} holds {list_first([repr(u) for u in unknown], 3)}, and training samples "
                f"had only {known}; write them in the same way, or leave these samples out."
            )
        return np.asarray(texts[:, None] == np.array(self.levels), dtype=np.float64)


@dataclass(frozen=True)
class Preparation:
    """Fitted transform of values to scores: points of each training column, and regressions on covariates."""

    points: tuple[Array, ...]
    covariates: tuple[Covariate, ...] = ()
    effects: Array | None = None  # one row per column of the design, one column per feature

    @classmethod
    def fit(
        cls, X: Array, covariates: Mapping[str, Array], rows: Array, batch: Array | None
    ) -> tuple["Preparation", Array]:
        """Return the preparation and the scores of training samples, less the means of batches.

        `rows` are the training samples among those that `covariates` describe. The effect of a level without training
        samples is zero.
        """
        points = take_points(X)
        Z = _score_training_samples(X, points)
        described = tuple(Covariate.from_values(name, values) for name, values in covariates.items())
        preparation = cls(points, described)
        if described:
            design = preparation.design(covariates)[rows]
            effects = np.linalg.lstsq(design - design.mean(axis=0), Z, rcond=None)[0]
            preparation = cls(points, described, effects)
            Z = Z - design @ effects
        for label in np.unique(batch) if batch is not None else ():
            Z[batch == label] -= Z[batch == label].mean(axis=0)
        return preparation, Z

    def design(self, covariates: Mapping[str, Array]) -> Array:
        """Return the columns of all covariates; raise ValueError if one is absent."""
        absent = [covariate.name for covariate in self.covariates if covariate.name not in covariates]
        if absent:
            raise ValueError(
                f"the effects of {list_first(absent, 5)} were removed from the features of the panel, so new samples "
                "need these covariates as well; add the columns (randsel apply also reads them from --target-file)."
            )
        return np.concatenate([c.design(np.asarray(covariates[c.name])) for c in self.covariates], axis=1)

    def adjust(self, Z: Array, covariates: Mapping[str, Array]) -> Array:
        """Return the scores less the effects of covariates."""
        return Z if self.effects is None else np.asarray(Z - self.design(covariates) @ self.effects)
