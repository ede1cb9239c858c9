"""The outcome y: its kind (classes or numbers), its checks and encodings, and the factor of its kernel.

Imports `_utils` and `_numerics`.
"""

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

__all__ = ["CLASSES", "KINDS", "OutcomeKind", "Target", "check_outcome", "describe_guess", "find_kind", "warn_of_guess"]
