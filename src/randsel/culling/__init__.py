"""Rounds of culling: criteria, rounds, the path, and the number of features."""
