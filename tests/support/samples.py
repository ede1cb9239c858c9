"""Samples as the mathematics takes them, made from plain arrays."""

from unittest import mock

import numpy as np

from randsel.contribution import _bootstrap
from randsel.contribution._bootstrap import bootstrap
from randsel.contribution._sample import Sample
from randsel.targets._kinds import KINDS
from randsel.targets._target import Target


def standardised(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


def make_sample(X, y, kind="classification", weights=None, fixed=None):
    return Sample.from_columns(standardised(np.asarray(X, dtype=float)), Target.encode(y, KINDS[kind], weights), fixed)


def unnormalised_bootstrap(sample, gamma, draws):
    """Algorithm 1 where a draw's value is the mean of `L∘K` over pairs of different rows (the paper's definition 2)."""
    with mock.patch.object(_bootstrap, "alignments", unnormalised_alignments):
        return bootstrap(sample, gamma, draws)


def unnormalised_alignments(sample, gamma, columns, rows):
    """Stand in for `alignments`: the mean of `L∘K` of each draw, without fixed features or weights."""
    X, Y, s = sample.X[rows[:, :, None], columns[:, None, :]], sample.target.Y[rows], rows.shape[1]
    K = np.exp(-gamma * ((X[:, :, None, :] - X[:, None, :, :]) ** 2).sum(axis=3)) * (1 - np.eye(s))
    return (Y * (K @ Y)).sum(axis=(1, 2)) / (s * (s - 1)), True
