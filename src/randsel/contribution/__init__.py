"""The contribution of every feature to the alignment of a random feature subset with the target.

`exact` is the limit of infinitely many subsets in closed form, `bootstrap` is Algorithm 1 of the paper. Both take a
sample, a bandwidth and draws, and return a `Contribution`. Reading order: `_sample`, `_closed_form`, `_error_bounds`,
`_nonlinear`. Imports from `_utils`, `_numerics` and `targets` only.
"""
