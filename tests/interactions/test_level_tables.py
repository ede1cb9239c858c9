"""Counted pairs of discrete features have the statistics of multiplied functions."""

import numpy as np
import pytest

from randsel._numerics.rank_functions import rank_functions
from randsel.interactions._level_tables import LevelTables


@pytest.fixture
def snps(rng):
    X = rng.binomial(2, rng.uniform(0.2, 0.5, 12), (160, 12)).astype(float)
    y = (rng.random(160) < 0.3).astype(float)
    return rank_functions(X, 6, np.ones(160), np.zeros(12, dtype=bool)), (y - y.mean()) / y.std()


def test_counted_statistics_are_those_of_products(snps):
    functions, e = snps
    tables = LevelTables.from_functions(functions.values, functions.counts, e[None], np.ones(160))
    assert tables.discrete.all()
    assert tables.is_exact_in_single_precision
    weights = np.outer([1.0, 0.9], [1.0, 0.9])
    statistics = tables.statistics(range(5), range(5, 12), weights)
    for i, j in np.ndindex(5, 7):
        literal = 0.0
        for a, b in np.ndindex(2, 2):
            product = functions.values[i, a].astype(float) * functions.values[5 + j, b]
            if product.any():
                literal += weights[a, b] * (e @ product) ** 2 / 160 / np.mean(product**2)
        assert statistics[i, j] == pytest.approx(literal, rel=1e-3, abs=1e-4)


def test_pairs_are_not_counted_for_numbers_weights_or_many_levels(snps, rng):
    functions, e = snps
    assert (
        LevelTables.from_functions(functions.values, functions.counts, rng.normal(size=(1, 160)), np.ones(160)) is None
    )
    assert LevelTables.from_functions(functions.values, functions.counts, e[None], rng.uniform(1, 2, 160)) is None
    continuous = rank_functions(rng.normal(size=(160, 3)), 6, np.ones(160), np.zeros(3, dtype=bool))
    assert LevelTables.from_functions(continuous.values, continuous.counts, e[None], np.ones(160)) is None
    both = functions.join(continuous)
    tables = LevelTables.from_functions(both.values, both.counts, e[None], np.ones(160))
    assert tables.discrete.tolist() == [True] * 12 + [False] * 3


def test_many_samples_are_not_counted_in_single_precision(snps):
    functions, _ = snps
    e = np.repeat([-1.0, 1.0], 5120)
    values = np.tile(functions.values, (1, 1, 64))
    tables = LevelTables.from_functions(values, functions.counts, e[None], np.ones(10240))
    assert not tables.is_exact_in_single_precision
