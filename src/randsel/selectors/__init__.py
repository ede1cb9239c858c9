"""The scikit-learn estimators: RandSel, RandSelCV and InteractionScan."""

from randsel.selectors._interaction_scan import InteractionScan
from randsel.selectors._randsel import RandSel
from randsel.selectors._randsel_cv import RandSelCV

__all__ = ["InteractionScan", "RandSel", "RandSelCV"]
