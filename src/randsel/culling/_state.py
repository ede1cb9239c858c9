"""State of an unfinished culling path, as arrays for a checkpoint."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from randsel._numerics.arrays import as_index, to_numpy
from randsel._utils.typing import Array
from randsel.contribution._sample import Sample
from randsel.culling import _sample_state as sample_state
from randsel.culling._path import Chance, Round, _skewness, _stacked, _unstacked


@dataclass(frozen=True)
class State:
    """All that the next round starts from.

    Attributes
    ----------
    sample
        What is left, and its sums.
    rounds
        Those before.
    columns
        Places of the features left among all.
    streak
        Rounds in a row that each of them was among the top.
    key_when_fixed
        Scores of those that are fixed.
    skewness
        Of the first round, as in `CullingPath`.
    """

    sample: Sample
    rounds: tuple[Round, ...]
    columns: Any
    streak: Array
    key_when_fixed: dict[int, float]
    skewness: tuple[float, float] | None

    def to_arrays(self) -> dict[str, Any]:
        """Return the state as arrays to keep in a file."""
        return {
            **sample_state.to_arrays(self.sample),
            **_stacked(tuple(r.hosted() for r in self.rounds)),
            "columns": to_numpy(self.columns),
            "streak": self.streak,
            "fixed_columns": np.array(list(self.key_when_fixed), dtype=int),
            "fixed_keys": np.array(list(self.key_when_fixed.values())),
            "skewness": [] if self.skewness is None else self.skewness,
        }

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Array], whole: Sample, chance: Chance) -> "State":
        """Return the state that `to_arrays` took apart, from the sample that culling began with."""
        columns = as_index(arrays["columns"], whole.target.Y)
        # the path puts together what fell in all rounds, where it fell
        rounds = (replace(r, dropped=as_index(r.dropped, columns)) for r in _unstacked(arrays, chance))
        fixed = zip(arrays["fixed_columns"].tolist(), arrays["fixed_keys"].tolist(), strict=True)
        sample = sample_state.of_arrays(arrays, whole, arrays["columns"])
        return cls(sample, tuple(rounds), columns, arrays["streak"], dict(fixed), _skewness(arrays))
