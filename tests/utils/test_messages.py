"""Warnings that are collected in one thread are shown in another."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from randsel import RandSel
from randsel._utils.text import collect_warnings, warn


def test_collected_warnings_are_not_shown():
    with warnings.catch_warnings(action="error"), collect_warnings() as messages:
        warn("first", stacklevel=1)
        with collect_warnings() as inner:
            warn("second", stacklevel=1)
        warn("third", stacklevel=1)
    assert messages == ["first", "third"]
    assert inner == ["second"]
    with pytest.warns(UserWarning, match="shown") as shown:
        warn("shown", stacklevel=1)
    assert shown[0].filename == __file__


def test_threads_collect_their_own():
    rng = np.random.default_rng(0)
    tables = [(rng.normal(size=(20, 30)), rng.integers(0, 2, 20)) for _ in range(40)]

    def fit_quietly(table):
        with collect_warnings() as messages:
            selector = RandSel(2).fit(*table)
        return selector.stands_out_, messages

    with warnings.catch_warnings(action="error"), ThreadPoolExecutor(4) as threads:
        results = list(threads.map(fit_quietly, tables))
    assert sum(stands_out for stands_out, _ in results) < 10
    for stands_out, messages in results:
        assert [message.startswith("Nothing stands out") for message in messages] == [] if stands_out else [True]
