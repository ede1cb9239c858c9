"""The outcome y: its kind (classes or numbers), its checks and encodings, and the factor of its kernel.

Imports `_utils` and `_numerics`.
"""
