"""The five methods that the paper compares randSel with, as selectors with the same interface.

A comparison must not share the errors of what it compares. This folder therefore uses the checks of data, targets,
distances and centring, but imports neither contribution nor culling nor selectors.
"""

from randsel.baselines._correlation import CorrelationFilter
from randsel.baselines._hsic import BaHSIC, FoHSIC
from randsel.baselines._kernel_rfe import KernelRFE
from randsel.baselines._stability_selection import StabilitySelection

__all__ = ["BaHSIC", "CorrelationFilter", "FoHSIC", "KernelRFE", "StabilitySelection"]
