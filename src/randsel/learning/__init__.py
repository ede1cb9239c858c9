"""The paper's deep representations: sparse filtering learns features, and LPBoost combines kernels.

Imports `_utils`, `_numerics`, `_sklearn` and `selectors`.
"""

from randsel.learning._mkl import LPBoostMKL, PathKernels
from randsel.learning._sparse_filtering import SparseFiltering

__all__ = ["LPBoostMKL", "PathKernels", "SparseFiltering"]
