"""Samples as the mathematics takes them, made from plain arrays."""

import numpy as np

from randsel.contribution._sample import Sample
from randsel.targets._kinds import KINDS
from randsel.targets._target import Target


def standardised(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


def make_sample(X, y, kind="classification", weights=None, fixed=None):
    return Sample.of(standardised(np.asarray(X, dtype=float)), Target.encode(y, KINDS[kind], weights), fixed)
