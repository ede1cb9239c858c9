"""The five methods that the paper compares randSel with, an F test and a random forest, as selectors.

A comparison must not share the errors of what it compares. This folder therefore uses the checks of data, targets,
distances and centring, but imports neither contribution nor culling nor selectors.
"""

from randsel.baselines._kernel_methods import BaHSIC, FoHSIC, KernelRFE
from randsel.baselines._one_pass import CorrelationFilter, ForestImportance, FTest

__all__ = ["BaHSIC", "CorrelationFilter", "FTest", "FoHSIC", "ForestImportance", "KernelRFE"]
