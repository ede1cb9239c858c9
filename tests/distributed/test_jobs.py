"""Jobs on a Dask cluster of real processes: the same answer if workers die, a clear error if the scheduler does."""

import json
import os
import socket
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import joblib
import numpy as np
import pytest
import slow_cells
from click.testing import CliRunner
from cluster import cluster
from cluster_tasks import Counted, Frozen, Holder, blas_threads, die_once, is_aligned, product, set_threads, where
from process_tree import descendants, is_gone, wait_until
from threadpoolctl import threadpool_limits

from randsel import InteractionScan, RandSel, RandSelCV, StabilitySelection, datasets
from randsel._utils import jobs as _parallel
from randsel.analysis._model import Settings
from randsel.analysis._pipeline import analyse
from randsel.cli._main import main
from randsel.distributed import ClusterLostError, on_cluster
from randsel.distributed._client import SAME_VERSIONS
from randsel.experiments import _run
from randsel.experiments._specification import Spec
from randsel.tables._read import Table

distributed = pytest.importorskip("distributed", reason="distributed is not installed (extra 'dask')")

SUPPORT = Path(__file__).parents[1] / "support"
X, Y, _ = datasets.make_xor(120, 16, random_state=0)
LONG, LONG_Y, _ = datasets.make_xor(2100, 4, random_state=0)
WIDE = np.hstack([X, np.random.default_rng(0).standard_normal((120, 600))])
TABLE = Table(X, np.where(Y > 0, "case", "control"), tuple(f"g{j}" for j in range(16)))
SPEC = Spec(
    name="small",
    data=({"name": "xor"},),
    methods=({"name": "randSel"}, {"name": "Corr. Coeff."}),
    gammas=("median",),
    folds=3,
    reshuffles=1,
)


@pytest.fixture
def on_workers(workers):
    with on_cluster(workers.address) as client:
        yield client


@pytest.fixture(scope="module")
def short_lived():
    """A cluster in which everything may be killed; later tests use the workers that remain."""
    with cluster(n_workers=4) as started:
        yield started


def bootstrap(**more):
    how = {"n_bootstraps": 96, "drop": 0.5, "random_state": 0, **more}
    fitted = RandSel(2, estimator="bootstrap", **how).fit(X, Y)
    return [fitted.order_, fitted.contributions_]


def row_blocks():
    fitted = RandSel(2, drop=0.5, random_state=0).fit(LONG, LONG_Y)
    return [fitted.order_, fitted.contributions_, fitted.interaction_scores_]


def folds():
    fitted = RandSelCV(cv=3, gammas=["median"]).fit(X, Y)
    return [fitted.order_, fitted.cv_results_["mean_score"], fitted.n_features_]


def bootstrap_in_folds():
    selector = RandSel(estimator="bootstrap", n_bootstraps=40, drop=0.5, random_state=0)
    fitted = RandSelCV(selector=selector, cv=2, gammas=["median"]).fit(X, Y)
    return [fitted.order_, fitted.cv_results_["mean_score"]]


def scan():
    fitted = InteractionScan().fit(WIDE, Y)
    return [fitted.pvalues_, fitted.partner_, fitted.pairs_["p"]]


def stability():
    fitted = StabilitySelection(n_subsamples=8, random_state=0).fit(X, Y)
    return [fitted.order_, fitted.probabilities_]


def half_samples(**more):
    found = analyse(TABLE, Settings(halves=6, folds=2), **more)
    features = [(f.name, f.selected, f.p, f.q, f.contribution, f.stability) for f in found.features]
    return [features, found.accuracy.selected, [asdict(pair) for pair in found.pairs]]


JOBS = [bootstrap, row_blocks, folds, bootstrap_in_folds, scan, stability, half_samples]


@pytest.fixture(scope="module")
def alone():
    """Return the answers of all jobs without any backend."""
    return {job: job() for job in JOBS}


def check_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
def test_a_cluster_gives_the_same_answer_to_the_bit(job, alone, on_workers):
    check_same(job(), alone[job])


@pytest.mark.parametrize("backend", ["threading", "loky"])
@pytest.mark.parametrize("job", JOBS)
def test_other_backends_give_the_same_answer_to_the_bit(job, backend, alone):
    with joblib.parallel_config(backend=backend, n_jobs=2):
        check_same(job(), alone[job])


def test_the_dask_backend_of_joblib_gives_the_same_answer(alone, workers):
    from distributed import Client  # noqa: PLC0415

    with Client(workers.address), joblib.parallel_config(backend="dask"):
        check_same(bootstrap(), alone[bootstrap])


# ---------------------------------------------------------------- how jobs travel


def test_shared_arguments_are_sent_once(on_workers):
    shared, holder = Counted(), Holder(Counted())
    expected = [2.0 * number for number in range(20)]
    assert _parallel.ordered_map(product, [(shared, number) for number in range(20)], None) == expected
    assert shared.sent == 1
    # what cannot change is there for the next call, too
    for _ in range(3):
        assert _parallel.ordered_map(product, [(holder, number) for number in range(20)], None) == expected
    assert holder.held.sent == 1


@pytest.mark.parametrize("columns", [300, 301, 1000, 20_000])
def test_shared_arrays_arrive_aligned(columns, on_workers):
    X = np.ones((50, columns))
    assert all(_parallel.ordered_map(is_aligned, [(X, number) for number in range(8)], None))


def test_workers_that_are_threads_of_this_process():
    with (
        distributed.LocalCluster(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None) as made,
        distributed.Client(made),
        joblib.parallel_config(backend="dask"),
    ):
        shared = Frozen(2.0)
        assert _parallel.ordered_map(product, [(shared, number) for number in range(8)], None) == [
            2.0 * number for number in range(8)
        ]


def test_callbacks_are_not_sent_along(on_workers, alone):
    bar = pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9 has no callbacks").ProgressBar()
    fitted = RandSelCV(cv=3, gammas=["median"]).set_callbacks(bar).fit(X, Y)
    np.testing.assert_array_equal(fitted.order_, alone[folds][0])


def test_nested_jobs_run_within_their_job(on_workers, workers):
    for pid, nested, sequential in _parallel.ordered_map(where, [(k,) for k in range(8)], None):
        assert pid in workers.worker_pids
        assert nested == {pid}
        assert sequential


@pytest.mark.parametrize(("n_jobs", "count"), [(1, 8), (None, 1)])
def test_a_single_job_or_n_jobs_1_runs_in_this_process(n_jobs, count, on_workers):
    found = _parallel.ordered_map(os.getpid, [()] * count, n_jobs)
    assert set(found) == {os.getpid()}


def set_blas_threads(client, count):
    """Set them in the thread that computes: only the thread that set them first may set them again."""
    for worker in client.nthreads():
        client.submit(set_threads, count, workers=[worker], pure=False).result()


def test_a_job_has_one_blas_thread(on_workers):
    set_blas_threads(on_workers, 2)
    try:
        for found in _parallel.ordered_map(blas_threads, [(k,) for k in range(8)], None):
            assert found
            assert set(found) == {1}
        assert all(2 in found for found in on_workers.run(blas_threads).values())
    finally:
        set_blas_threads(on_workers, 1)


def test_blas_threads_are_restored_after_the_last_job():
    before = blas_threads()
    with threadpool_limits(limits=2, user_api="blas"), _parallel._shared_limit:
        with _parallel._shared_limit:
            assert set(blas_threads()) == {1}
        assert set(blas_threads()) == {1}
    assert blas_threads() == before


# ---------------------------------------------------------------- workers that die


LONG_JOBS = """
import sys, joblib
from cluster_tasks import touch_and_sleep
from randsel._utils.jobs import ordered_map
with joblib.parallel_config(backend="loky", n_jobs=2):
    ordered_map(touch_and_sleep, [(sys.argv[1], number, 300.0) for number in range(2)], None)
"""


def test_worker_processes_end_with_the_process_that_started_them(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(SUPPORT), *filter(None, [os.environ.get("PYTHONPATH")])]))
    process = subprocess.Popen([sys.executable, "-c", LONG_JOBS, str(tmp_path)], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: len(list(tmp_path.iterdir())) == 2)
        workers = descendants(process.pid, "LokyProcess")
    finally:
        process.kill()
        process.wait()
    assert len(workers) == 2
    wait_until(lambda: all(is_gone(worker) for worker in workers))


@pytest.mark.slow
def test_jobs_and_data_of_workers_that_were_killed_are_not_lost(short_lived, tmp_path):
    shared = Frozen(0.5)
    with on_cluster(short_lived.address):
        tasks = [(shared, str(tmp_path), number) for number in range(24)]
        assert _parallel.ordered_map(die_once, tasks, None) == [0.5 * number for number in range(24)]
    assert len(short_lived.worker_pids) == 3


@pytest.mark.slow
def test_a_worker_killed_within_a_fit_changes_nothing(short_lived, alone):
    alive = [k for k, worker in enumerate(short_lived.workers) if worker.poll() is None]

    def kill(r):
        if len(r.features) == 16:
            short_lived.kill_worker(alive[0])

    with on_cluster(short_lived.address):
        check_same(bootstrap(verbose=kill), alone[bootstrap])
    assert len(short_lived.worker_pids) == len(alive) - 1


@pytest.mark.slow
def test_a_worker_killed_among_half_samples_changes_nothing(short_lived, alone):
    alive = [k for k, worker in enumerate(short_lived.workers) if worker.poll() is None]

    def kill(what, done, total):
        if what == "half-samples" and done == 1:
            short_lived.kill_worker(alive[0])

    with on_cluster(short_lived.address):
        check_same(half_samples(progress=kill), alone[half_samples])
    assert len(short_lived.worker_pids) == len(alive) - 1


# ---------------------------------------------------------------- cells


def without_times(results):
    return {key: {k: v for k, v in result.items() if k != "seconds"} for key, result in results.items()}


@pytest.mark.slow
def test_cells_are_the_same_and_written_by_the_run(on_workers, tmp_path, monkeypatch):
    here = _run.run_comparison(SPEC, {"xor": TABLE}, tmp_path / "here")
    # workers have another current folder, as on another machine
    monkeypatch.chdir(tmp_path)
    there = _run.run_comparison(SPEC, {"xor": TABLE}, Path("there"), n_jobs=None)
    assert without_times(here.results) == without_times(there.results)
    cells = list((tmp_path / "there" / "cells").glob("*.json"))
    assert len(cells) == 6
    assert (tmp_path / "there" / "runs.csv").read_text().splitlines()[1].split(",")[2:5] == ["6", "4", "4"]
    for path in cells:
        assert (
            json.loads(path.read_text())["cell"]
            == json.loads((tmp_path / "here" / "cells" / path.name).read_text())["cell"]
        )


@pytest.mark.slow
@pytest.mark.parametrize("function", slow_cells.NEVER_ENDING)
def test_a_cell_over_its_limit_is_killed_on_a_worker(function, workers, on_workers, tmp_path, monkeypatch):
    monkeypatch.setattr(_run, "evaluate", function)
    outcome = _run.run_comparison(SPEC, {"xor": TABLE}, tmp_path, n_jobs=None, timeout=6)
    assert outcome.errors == {outcome.cells[0].key: "TimeoutError: gave up after 6 s"}
    assert len(outcome.results) == 5
    assert not any(descendants(worker.pid, "time.sleep(3600)") for worker in workers.workers)


@pytest.mark.slow
def test_processes_for_time_limits_end_when_a_worker_has_no_more_cells(workers, on_workers, tmp_path):
    assert not _run.run_comparison(SPEC, {"xor": TABLE}, tmp_path, n_jobs=None, timeout=60).errors
    wait_until(lambda: not any(descendants(worker.pid, "serve_calls") for worker in workers.workers))


# ---------------------------------------------------------------- the command


SHORT = ["--target", "status", "--halves", "6", "--folds", "2", "--out", "out"]


def invoke(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def written(folder):
    """Write the table, and return its file."""
    folder.mkdir(exist_ok=True)
    rows = [",".join([*map(repr, x), label]) for x, label in zip(X.tolist(), TABLE.y, strict=True)]
    (folder / "table.csv").write_text("\n".join([",".join([*TABLE.names, "status"]), *rows]) + "\n")
    return "table.csv"


def contents(folder):
    found = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in (".lock", "runs.csv"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in found if path.suffix != ".npz"}


@pytest.fixture(scope="module")
def selected(tmp_path_factory):
    """Run `randsel select` on this machine, and return what it wrote."""
    folder = tmp_path_factory.mktemp("alone")
    file, before = written(folder), Path.cwd()
    os.chdir(folder)
    try:
        result = invoke("select", file, *SHORT)
    finally:
        os.chdir(before)
    assert result.exit_code == 0, result.output
    return contents(folder / "out")


@pytest.mark.slow
def test_select_writes_the_same_files_byte_by_byte(workers, selected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = invoke("select", written(tmp_path), *SHORT, "--dask", workers.address)
    assert result.exit_code == 0, result.output
    assert f"jobs run on the cluster at {workers.address}, which has 4 threads" in result.stderr
    assert contents(tmp_path / "out") == selected


@pytest.mark.slow
def test_compare_writes_the_same_table_byte_by_byte(workers, tmp_path, monkeypatch):
    how = ["--target", "status", "--folds", "2", "--reshuffles", "1", "--methods", "randSel, RFE", "--out", "out"]
    found = []
    for folder, where_ in ((tmp_path / "here", []), (tmp_path / "there", ["--dask", workers.address])):
        file = written(folder)
        monkeypatch.chdir(folder)
        result = invoke("compare", file, *how, *where_)
        assert result.exit_code == 0, result.output
        found.append({name: (folder / "out" / name).read_bytes() for name in ("table.csv", "features.csv")})
    assert found[0] == found[1]


@pytest.mark.parametrize("command", ["select", "compare"])
def test_jobs_and_dask_exclude_each_other(command, tmp_path):
    result = invoke(command, "table.csv", "--target", "y", "--out", tmp_path, "--jobs", 2, "--dask", "tcp://here:1")
    assert result.exit_code == 2
    assert "--jobs is for this machine" in result.output


# ---------------------------------------------------------------- schedulers that are not there


def test_a_scheduler_that_does_not_answer(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        with (
            pytest.raises(ConnectionError, match=f"no Dask scheduler answers at {address}"),
            on_cluster(address, patience=1),
        ):
            pass
        free.listen()  # connects, and never says a word
        with pytest.raises(ConnectionError, match="no Dask scheduler answers"), on_cluster(address, patience=1):
            pass


@pytest.mark.parametrize("address", ["smoke://signals:1", "127.0.0.1", "tcp://no-such-machine.invalid:8786", ""])
def test_invalid_addresses(address):
    with pytest.raises(ConnectionError, match="no Dask scheduler answers at"), on_cluster(address, patience=1):
        pass


def test_the_command_reports_a_missing_scheduler(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = invoke("select", written(tmp_path), *SHORT, "--dask", "smoke://signals:1")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: no Dask scheduler answers at smoke://signals:1")
    assert "Traceback" not in result.output


def test_a_cluster_without_workers():
    with (
        cluster(n_workers=0) as empty,
        pytest.raises(ConnectionError, match="has no workers; start some: dask worker"),
        on_cluster(empty.address, patience=0.5),
    ):
        pass


@pytest.mark.parametrize(
    ("who", "package", "version", "said"),
    [
        (
            "client",
            "randsel",
            "0.0.1",
            r"the worker at tcp.* has randsel .*, and this machine 0\.0\.1; install the same",
        ),
        ("workers", "scikit-learn", None, r"the worker at tcp.* has no scikit-learn, and this machine \d"),
        (
            "scheduler",
            "distributed",
            "2021.1.0",
            r"the scheduler at tcp.* has distributed 2021\.1\.0, and this machine",
        ),
    ],
)
def test_a_cluster_of_another_version(who, package, version, said, workers, monkeypatch):
    from distributed import Client  # noqa: PLC0415

    versions = Client.get_versions

    def others(self, **how):
        found = versions(self, **how)
        for about in found[who].values() if who == "workers" else [found[who]]:
            about["packages"][package] = version
        return found

    monkeypatch.setattr(Client, "get_versions", others)
    with pytest.raises(ConnectionError, match=said), on_cluster(workers.address):
        pass


def test_versions_of_all_packages_are_known(on_workers):
    found = on_workers.get_versions(packages=list(SAME_VERSIONS))["client"]["packages"]
    assert all(found[name] for name in SAME_VERSIONS)


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match="part of the extra 'dask'"), on_cluster("tcp://127.0.0.1:1"):
        pass


# ---------------------------------------------------------------- a scheduler that is lost


@pytest.mark.slow
def test_a_lost_scheduler_ends_the_command_which_can_be_resumed(short_lived, selected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = written(tmp_path)
    progress = "randsel._utils.text.ProgressLine.__call__"

    def kill(self, what, done, total):
        if what == "half-samples" and done == 2:
            short_lived.kill_scheduler()

    with monkeypatch.context() as patch:
        patch.setattr(progress, kill)
        result = invoke("select", file, *SHORT, "--dask", short_lived.address)
    assert result.exit_code == 4, result.output
    assert result.stderr.splitlines()[-1] == (
        f"Error: the scheduler at {short_lived.address} was lost; start it and its workers again. "
        "What is finished is kept: run the same command again to go on."
    )
    assert "Traceback" not in result.stderr
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "parts").glob("*.npz")}
    assert 2 <= sum(path.stem.startswith("half-") for path in times) < 6
    assert invoke("select", file, *SHORT).exit_code == 0
    assert all(path.stat().st_mtime_ns == then for path, then in times.items())
    assert contents(tmp_path / "out") == selected


@pytest.mark.slow
def test_cells_are_completed_after_a_lost_scheduler(short_lived, tmp_path):
    if short_lived.scheduler.poll() is not None:
        short_lived.start_scheduler()
    short_lived.start_workers(1)

    def kill(what, done, total):
        if done == 2:
            short_lived.kill_scheduler()

    with pytest.raises(ClusterLostError, match="was lost"), on_cluster(short_lived.address):
        _run.run_comparison(SPEC, {"xor": TABLE}, tmp_path / "cells", n_jobs=None, progress=kill)
    assert 2 <= len(list((tmp_path / "cells" / "cells").glob("*.json"))) < 6
    rest = _run.run_comparison(SPEC, {"xor": TABLE}, tmp_path / "cells")
    assert without_times(rest.results) == without_times(
        _run.run_comparison(SPEC, {"xor": TABLE}, tmp_path / "new").results
    )
