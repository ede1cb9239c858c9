"""Non-linear feature selection by kernel-target alignment.

Names are imported on first use, so that the command line starts at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from randsel import datasets, get, guarantees, plots
    from randsel.analysis import select_adata
    from randsel.baselines import (
        BaHSIC,
        CorrelationFilter,
        FoHSIC,
        ForestImportance,
        FTest,
        KernelRFE,
    )
    from randsel.distributed import read_blocks
    from randsel.learning import LPBoostMKL, PathKernels, SparseFiltering
    from randsel.panels import Panel
    from randsel.selectors import InteractionScan, RandSel, RandSelCV, SmallestSet, StabilitySelection

__all__ = [
    "BaHSIC",
    "CorrelationFilter",
    "FTest",
    "FoHSIC",
    "ForestImportance",
    "InteractionScan",
    "KernelRFE",
    "LPBoostMKL",
    "Panel",
    "PathKernels",
    "RandSel",
    "RandSelCV",
    "SmallestSet",
    "SparseFiltering",
    "StabilitySelection",
    "__version__",
    "datasets",
    "get",
    "guarantees",
    "plots",
    "read_blocks",
    "select_adata",
]

__version__ = "0.2.0"

#: Subpackage of every public class and function.
_SUBPACKAGES = {
    "BaHSIC": "baselines",
    "CorrelationFilter": "baselines",
    "FTest": "baselines",
    "FoHSIC": "baselines",
    "ForestImportance": "baselines",
    "InteractionScan": "selectors",
    "KernelRFE": "baselines",
    "LPBoostMKL": "learning",
    "Panel": "panels",
    "PathKernels": "learning",
    "RandSel": "selectors",
    "RandSelCV": "selectors",
    "SmallestSet": "selectors",
    "SparseFiltering": "learning",
    "StabilitySelection": "selectors",
    "read_blocks": "distributed",
    "select_adata": "analysis",
}


def __getattr__(name: str) -> object:
    if name in _SUBPACKAGES:
        globals()[name] = value = getattr(import_module(f"randsel.{_SUBPACKAGES[name]}"), name)
        return value
    if name in __all__:
        return import_module(f"randsel.{name}")
    raise AttributeError(f"module 'randsel' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
