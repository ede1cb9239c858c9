"""The formula of what a fit on a cluster costs, against sums by hand."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from randsel import RandSel
from randsel.distributed import _columns as cluster_columns

da = pytest.importorskip("dask.array", reason="Dask is not installed (extra 'dask')")
model = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "scale" / "scale_model.py")))


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


def test_the_terms_of_a_round_for_all_workers(constants):
    task = model.Task(m=8000, n=8000, width=500, room=0, n_blocks=8, smallest=8000)
    terms = model.plan(task, constants, model.Cluster(machines=2, cores=2, memory=1e12, network=1e9))
    times, table = 8.5, 4 * 8000 * 8000
    assert terms["reading"] == pytest.approx(table / 2e9 + table / 4e9)
    assert terms["arithmetic"] == pytest.approx(times * 8 / 4)
    assert terms["tasks"] == pytest.approx(times * ((5 * 16 + 2 * 15) * (1e-3 + 4e-3 / 4) + 5e-2))
    assert terms["matrices"] == pytest.approx(times * (0.5 * 15 / 4 + 0.5 * 15e6 / 2e9))
    assert terms["results"] == pytest.approx(times * (8e5 + 1e6) / 1e9)
    assert terms["client alone"] == pytest.approx(times * 0.25)
    assert terms["blocks of rows"] == 0.0
    assert terms["bytes"] == pytest.approx(table + times * (0.5 * 15e6 + 8e5 + 1e6))


def test_the_terms_of_a_round_whose_blocks_of_rows_go_to_one_worker_each(constants):
    piece, table = 4 * 1000 * 8000, 4 * 8000 * 8000
    task = model.Task(m=8000, n=8000, width=1000, room=piece, n_blocks=8, smallest=8000)
    terms = model.plan(task, constants, model.Cluster(machines=2, cores=2, memory=1e12, network=1e9))
    assert terms["arithmetic"] == pytest.approx(8 / 4 * 8)
    assert terms["tasks"] == pytest.approx(2 * (8 * 9 * 2e-3 + 1e-2) + 8 * 2e-3 + 1e-2)
    # half of it is where it is needed, and two machines take it in
    assert terms["blocks of rows"] == pytest.approx(2 * table / 2 / 2 / 1e9)
    # three numbers per column and block of rows; the bandwidth is for the client
    assert terms["results"] == pytest.approx((8 * 24 * 8000 + piece) / 1e9)
    assert terms["client alone"] == pytest.approx(8 / 2)
    assert terms["matrices"] == 0.0
    assert terms["bytes"] == pytest.approx(table + table + 8 * 24 * 8000 + piece)
    without = model.plan(model.replace(task, room=0), constants, model.Cluster(2, 2, 1e12, 1e9))
    assert without["arithmetic"] == pytest.approx(8 / 4 * 8 + 0.5 * 8 / 4)
    assert without["client alone"] == pytest.approx(0.5 * 0.25)


def test_blocks_of_rows_go_to_as_many_cores_as_have_the_memory(constants):
    piece, table = 4 * 1000 * 8000, 4 * 8000 * 8000
    task = model.Task(m=8000, n=8000, width=1000, room=piece, n_blocks=8, smallest=8000)

    def terms(memory):
        return model.plan(task, constants, model.Cluster(machines=2, cores=2, memory=memory, network=1e9))

    # half of the table on each machine; a block of rows is there in parts, and peaks at twice itself
    one_each = terms(table / 2 + 3 * piece)
    assert one_each["arithmetic"] == pytest.approx(8 / 2 * 8)
    # once at the start, for the alignment, for the scores and for the bandwidth; one core of each machine
    assert one_each["reading"] == pytest.approx(4 * (table / 2e9 + table / 2e9))
    assert model.seconds(terms(table / 2 + 2.9 * piece)) == float("inf")


def test_the_ways_and_blocks_of_rounds_are_those_of_the_package(constants, monkeypatch):
    monkeypatch.setattr("randsel.contribution._closed_form.MAX_ROWS", 200)
    seen, on_rows = [], cluster_columns.ClusterColumns.map_row_blocks

    def watched(columns, *given):
        found = on_rows(columns, *given)
        seen.append((columns.shape[1], len(columns.blocks), found is not None))
        return found

    monkeypatch.setattr(cluster_columns.ClusterColumns, "map_row_blocks", watched)
    # they are joined once; when again, chance has made their widths unequal
    m, n, width, smallest = 1000, 800, 60, 200
    rng, least = np.random.default_rng(0), model.smallest_memory(m, n)
    X, y = rng.standard_normal((m, n), dtype=np.float32), rng.integers(0, 2, m)
    selector = RandSel(smallest, min_features=smallest, max_memory=least, random_state=0)
    selector.fit(da.from_array(X, chunks=(m, width)), y)
    room = model.memory_for_columns(least, m, n)
    task, known = model.Task(m, n, width, room, 10, smallest), model.replace(constants, rows=100)
    expected = [(held.n, held.blocks, held.one_worker_each(task, known)) for held in model.rounds(task, kept=True)]
    assert {way for *_, way in expected} == {False, True}
    assert len({blocks for _, blocks, _ in expected}) == 2
    # for the alignment, and for the scores
    assert seen == [one for one in expected for _ in range(2)]


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
    task = model.Task(m=8000, n=8000, width=500, room=0, n_blocks=8, smallest=8000)
    small, large = (model.plan(task, constants, model.Cluster(2, 2, memory, 1e9)) for memory in (3e8, 1e12))
    again = 8.5 * 5 * 4 * 8000 * 8000
    assert small["reading"] - large["reading"] == pytest.approx(again / 2e9 + again / 4e9)
    assert small["bytes"] - large["bytes"] == pytest.approx(again)


def test_rounds_fewer_blocks_of_rows_and_more_machines(constants):
    task = model.Task(100_000, 100_000, 0, 1e6, 100)
    width, terms = model.best_plan(task, constants, model.Cluster(8))
    assert all(
        model.seconds(terms) <= model.seconds(model.plan(model.replace(task, width=other), constants, model.Cluster(8)))
        for other in (width // 2, 2 * width)
    )
    first = model.replace(task, smallest=task.n)
    narrow, terms = model.best_plan(first, constants, model.Cluster(8), narrow=True)
    assert narrow < 1000
    fewer = model.plan(model.replace(first, width=narrow, n_blocks=10), constants, model.Cluster(8))
    assert fewer["arithmetic"] == pytest.approx(terms["arithmetic"] * 10.5 / 100.5)
    by_rows = [model.seconds(model.plan_by_rows(task, constants, model.Cluster(machines))) for machines in (1, 8, 64)]
    assert by_rows[0] > by_rows[1] > by_rows[2]


def test_the_least_memory_is_the_least(constants):
    least = model.smallest_memory(5000, 300)
    model.memory_for_columns(least, 5000, 300)
    with pytest.raises(ValueError, match="too little"):
        model.memory_for_columns(least - 1, 5000, 300)
