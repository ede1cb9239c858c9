"""Simulated problems that several benchmarks share and `randsel.datasets` does not have."""

import numpy as np


def make_weak_effects(n_samples, n_features=1000, effect=0.3, n_relevant=5, random_state=None):
    """Return X, y and the relevant columns: classes by the sum of a few weak linear effects of independent columns."""
    rng = np.random.default_rng(random_state)
    X = rng.standard_normal((n_samples, n_features))
    relevant = np.arange(n_relevant)
    return X, (effect * X[:, relevant].sum(axis=1) + rng.standard_normal(n_samples) > 0).astype(int), relevant
