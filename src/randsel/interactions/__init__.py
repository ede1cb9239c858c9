"""Tests of features, pairs and triples, in the order of the steps.

`_evidence` tests sets of features by their rank functions, `_pair_scan` scans all pairs and triples for the best ones,
and `_forward_selection` runs all steps and ranks the features. Imports `_utils`, `_numerics` and `targets`.
"""
