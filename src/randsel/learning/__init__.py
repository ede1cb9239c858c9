"""Sparse filtering, which learns features, and LPBoost, which combines kernels: the paper's deep representations.

Imports `_utils`, `_numerics`, `_sklearn` and `selectors`.
"""

from randsel.learning._mkl import LPBoostMKL, PathKernels
from randsel.learning._sparse_filtering import SparseFiltering

__all__ = ["LPBoostMKL", "PathKernels", "SparseFiltering"]
