"""Sparse filtering, which learns features, and LPBoost, which combines kernels: the paper's deep representations.

Imports `_utils`, `_numerics`, `_sklearn` and `selectors`.
"""
