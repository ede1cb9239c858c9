"""The outcome y: its kind (classes, numbers or survival), its checks and encodings, and the factor of its kernel.

Imports `_utils` and `_numerics`.
"""

from randsel.targets._groups import (
    MIN_GROUPS,
    Comparison,
    Samples,
    average_rows,
    batches_of_groups,
    bound_false_selections,
    compare_groups,
    is_constant_within,
    number_rows,
    split_halves,
)
from randsel.targets._kinds import (
    CLASSES,
    KINDS,
    NUMBERS,
    SURVIVAL,
    OutcomeKind,
    check_outcome,
    describe_guess,
    find_kind,
    warn_of_guess,
)
from randsel.targets._survival import SurvivalCurve, cox_coefficients, kaplan_meier, partial_log_likelihood
from randsel.targets._target import Annotations, Target

__all__ = [
    "CLASSES",
    "KINDS",
    "MIN_GROUPS",
    "NUMBERS",
    "SURVIVAL",
    "Annotations",
    "Comparison",
    "OutcomeKind",
    "Samples",
    "SurvivalCurve",
    "Target",
    "average_rows",
    "batches_of_groups",
    "bound_false_selections",
    "check_outcome",
    "compare_groups",
    "cox_coefficients",
    "describe_guess",
    "find_kind",
    "is_constant_within",
    "kaplan_meier",
    "number_rows",
    "partial_log_likelihood",
    "split_halves",
    "warn_of_guess",
]
