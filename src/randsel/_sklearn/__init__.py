"""Adapters to scikit-learn: validation of data, the base class of selectors, and progress callbacks.

Imports `_utils`, `_numerics` and `targets`; the only folder that uses private names of scikit-learn.
"""
