"""Survival outcomes as arrays: one structured array of events and times."""

import numpy as np

from randsel._utils.typing import Array

#: Fields of a survival outcome: whether the event was observed, and the time of the event or of censoring.
SURVIVAL_DTYPE = np.dtype([("event", np.bool_), ("time", np.float64)])
#: A column of events whose name has one of these words may use 1 or True for the opposite: no event.
OPPOSITE_WORDS = ("cens", "alive", "living")


def survival_array(event: Array, time: Array) -> Array:
    """Return events and times as one structured array."""
    y = np.empty(len(event), dtype=SURVIVAL_DTYPE)
    y["event"], y["time"] = event, time
    return y
