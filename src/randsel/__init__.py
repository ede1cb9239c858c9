"""Non-linear feature selection by kernel-target alignment."""

from randsel import datasets, guarantees
from randsel.selector import RandSel
from randsel.selector_cv import RandSelCV

__all__ = ["RandSel", "RandSelCV", "__version__", "datasets", "guarantees"]

__version__ = "0.1.0"
