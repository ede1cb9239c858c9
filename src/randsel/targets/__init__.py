"""The outcome y: its kind (classes or numbers), its checks and encodings, and the factor of its kernel.

Imports `_utils` and `_numerics`.
"""

from randsel.targets._groups import (
    MIN_GROUPS,
    Comparison,
    Samples,
    average_rows,
    batches_of_groups,
    compare_groups,
    number_rows,
)
from randsel.targets._kinds import (
    CLASSES,
    KINDS,
    OutcomeKind,
    check_outcome,
    describe_guess,
    find_kind,
    warn_of_guess,
)
from randsel.targets._target import Target

__all__ = [
    "CLASSES",
    "KINDS",
    "MIN_GROUPS",
    "Comparison",
    "OutcomeKind",
    "Samples",
    "Target",
    "average_rows",
    "batches_of_groups",
    "check_outcome",
    "compare_groups",
    "describe_guess",
    "find_kind",
    "number_rows",
    "warn_of_guess",
]
