"""Non-linear feature selection by kernel-target alignment.

Names are imported when they are first used, so that the command line answers at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from randsel import datasets, guarantees, plots
    from randsel.adata import select_adata
    from randsel.baselines import BaHSIC, CorrelationFilter, FoHSIC, KernelRFE
    from randsel.cluster_tables import read_blocks
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
    "read_blocks",
    "select_adata",
]

__version__ = "0.1.0"

#: File of every name that is no file itself.
_PLACES = {
    "BaHSIC": "baselines",
    "CorrelationFilter": "baselines",
    "FoHSIC": "baselines",
    "InteractionScan": "interaction_scan",
    "KernelRFE": "baselines",
    "LPBoostMKL": "mkl",
    "PathKernels": "mkl",
    "RandSel": "selector",
    "RandSelCV": "selector_cv",
    "SparseFiltering": "sparse_filtering",
    "StabilitySelection": "stability",
    "read_blocks": "cluster_tables",
    "select_adata": "adata",
}


def __getattr__(name: str) -> object:
    if name in _PLACES:
        globals()[name] = value = getattr(import_module(f"randsel.{_PLACES[name]}"), name)
        return value
    if name in __all__:
        return import_module(f"randsel.{name}")
    msg = f"module 'randsel' has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return __all__
