"""The scikit-learn estimators: RandSel, RandSelCV, InteractionScan, SmallestSet and StabilitySelection."""

from randsel.selectors._interaction_scan import DEFAULT_PAIRS, InteractionScan
from randsel.selectors._randsel import RandSel
from randsel.selectors._randsel_cv import RandSelCV
from randsel.selectors._smallest_set import SmallestSet
from randsel.selectors._stability_selection import StabilitySelection

__all__ = ["DEFAULT_PAIRS", "InteractionScan", "RandSel", "RandSelCV", "SmallestSet", "StabilitySelection"]
