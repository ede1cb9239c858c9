"""What scikit-learn expects of an estimator: validation, the base class of selectors, progress callbacks.

Imports `_utils`, `_numerics` and `targets`; the only folder that uses private names of scikit-learn.
"""
