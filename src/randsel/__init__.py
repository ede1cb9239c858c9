"""Non-linear feature selection by kernel-target alignment."""

from randsel import datasets, guarantees, plots
from randsel.baselines import BaHSIC, CorrelationFilter, FoHSIC, KernelRFE
from randsel.interaction_scan import InteractionScan
from randsel.mkl import LPBoostMKL, PathKernels
from randsel.selector import RandSel
from randsel.selector_cv import RandSelCV
from randsel.sparse_filtering import SparseFiltering
from randsel.stability import StabilitySelection

__all__ = [
    "BaHSIC",
    "CorrelationFilter",
    "FoHSIC",
    "InteractionScan",
    "KernelRFE",
    "LPBoostMKL",
    "PathKernels",
    "RandSel",
    "RandSelCV",
    "SparseFiltering",
    "StabilitySelection",
    "__version__",
    "datasets",
    "guarantees",
    "plots",
]

__version__ = "0.1.0"
