"""Culling: criteria, rounds, the path that they make, and its storage in files.

Imports `_utils`, `_numerics`, `targets` and `contribution`.
"""
