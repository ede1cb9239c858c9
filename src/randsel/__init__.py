"""Non-linear feature selection by kernel-target alignment.

Names are imported when they are first used, so that the command line answers at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from randsel import datasets, guarantees, plots
    from randsel.analysis._anndata import select_adata
    from randsel.baselines._correlation import CorrelationFilter
    from randsel.baselines._hsic import BaHSIC, FoHSIC
    from randsel.baselines._kernel_rfe import KernelRFE
    from randsel.baselines._stability_selection import StabilitySelection
    from randsel.distributed._tables import read_blocks
    from randsel.learning._mkl import LPBoostMKL, PathKernels
    from randsel.learning._sparse_filtering import SparseFiltering
    from randsel.selectors._interaction_scan import InteractionScan
    from randsel.selectors._randsel import RandSel
    from randsel.selectors._randsel_cv import RandSelCV

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
    "BaHSIC": "baselines._hsic",
    "CorrelationFilter": "baselines._correlation",
    "FoHSIC": "baselines._hsic",
    "InteractionScan": "selectors._interaction_scan",
    "KernelRFE": "baselines._kernel_rfe",
    "LPBoostMKL": "learning._mkl",
    "PathKernels": "learning._mkl",
    "RandSel": "selectors._randsel",
    "RandSelCV": "selectors._randsel_cv",
    "SparseFiltering": "learning._sparse_filtering",
    "StabilitySelection": "baselines._stability_selection",
    "read_blocks": "distributed._tables",
    "select_adata": "analysis._anndata",
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
