"""The formula of what a fit on a cluster costs, against sums by hand."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

model = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "scale_model.py")))


@pytest.fixture
def constants():
    """A second of a core per thousand columns and block of rows; all else is round, too."""
    far = tuple(
        model.Work(
            n, 5, 2, worker=n / 1000, adding=0.5, client=0.25, sum_bytes=1e6, result_bytes=100 * n, shared_bytes=0
        )
        for n in (1000, 100_000)
    )
    near = ((10, 0.01), (1000, 1.0))
    return model.Constants(1000, far, near, 1e-3, 4e-3, 1e-2, 1e9, 1e9, read=1e9, standardise=1e9, peak=2.0)


def test_the_terms_of_one_round(constants):
    task = model.Task(m=8000, n=8000, width=1000, room=0, n_blocks=8, smallest=8000)
    terms = model.plan(task, constants, model.Cluster(machines=2, cores=2, memory=1e12, network=1e9))
    times, table = 8.5, 4 * 8000 * 8000
    assert terms["reading"] == pytest.approx(table / 2e9 + table / 4e9)
    assert terms["arithmetic"] == pytest.approx(times * 8 / 4)
    assert terms["tasks"] == pytest.approx(times * ((5 * 8 + 2 * 7) * (1e-3 + 4e-3 / 4) + 5e-2))
    assert terms["matrices"] == pytest.approx(times * (0.5 * 7 / 4 + 0.5 * 7e6 / 2e9))
    assert terms["results"] == pytest.approx(times * (8e5 + 1e6) / 1e9)
    assert terms["client alone"] == pytest.approx(times * 0.25)
    assert terms["bytes"] == pytest.approx(table + times * (0.5 * 7e6 + 8e5 + 1e6))


def test_blocks_of_rows_that_the_client_may_hold_are_its_work_alone(constants):
    task = model.Task(m=8000, n=1000, width=100, room=4e6, n_blocks=8, smallest=1000)
    terms = model.plan(task, constants, model.Cluster(100))
    assert terms["client alone"] == pytest.approx(8.5)
    assert terms["arithmetic"] == 0.0
    assert model.largest(terms) == "client alone"
    all_there = model.plan(model.Task(8000, 1000, 100, 32e6, 8, 1000), constants, model.Cluster(100))
    assert all_there["client alone"] == pytest.approx(8.0)
    assert all_there["results"] == all_there["tasks"] == 0.0


def test_a_table_that_is_not_kept_is_read_in_every_pass(constants):
    task = model.Task(m=8000, n=8000, width=1000, room=0, n_blocks=8, smallest=8000)
    small, large = (model.plan(task, constants, model.Cluster(2, 2, memory, 1e9)) for memory in (1e8, 1e12))
    again = 8.5 * 5 * 4 * 8000 * 8000
    assert small["reading"] - large["reading"] == pytest.approx(again / 2e9)
    assert small["bytes"] - large["bytes"] == pytest.approx(again)


def test_rounds_fewer_blocks_of_rows_and_more_machines(constants):
    task = model.Task(100_000, 100_000, 0, 1e6, 100)
    width, terms = model.best_plan(task, constants, model.Cluster(8))
    assert all(
        model.seconds(terms) <= model.seconds(model.plan(model.replace(task, width=other), constants, model.Cluster(8)))
        for other in (width // 2, 2 * width)
    )
    fewer = model.plan(model.Task(100_000, 100_000, width, 1e6, 10), constants, model.Cluster(8))
    assert fewer["arithmetic"] == pytest.approx(terms["arithmetic"] * 10.5 / 100.5)
    by_rows = [model.seconds(model.plan_by_rows(task, constants, model.Cluster(machines))) for machines in (1, 8, 64)]
    assert by_rows[0] > by_rows[1] > by_rows[2]


def test_the_least_memory_is_the_least(constants):
    least = model.smallest_memory(5000, 300)
    model.room_for(least, 5000, 300)
    with pytest.raises(ValueError, match="too little"):
        model.room_for(least - 1, 5000, 300)
