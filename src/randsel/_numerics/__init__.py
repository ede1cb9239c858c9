"""Arrays, columns, kernels, rank functions and null distributions: numerics that know no estimator.

Imports from `_utils` only.
"""
