"""What callbacks, `verbose` and Ctrl-C see of a fit, and that nothing of it changes the answer."""

import pickle
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from itertools import pairwise
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from randsel import (
    BaHSIC,
    CorrelationFilter,
    FoHSIC,
    ForestImportance,
    FTest,
    InteractionScan,
    KernelRFE,
    LPBoostMKL,
    PathKernels,
    RandSel,
    RandSelCV,
    SmallestSet,
    SparseFiltering,
    StabilitySelection,
    datasets,
)
from randsel._sklearn.base import CallbackSupportMixin, Steps, fit_task
from randsel._utils.jobs import ordered_map
from randsel.culling._path import path_sizes

pytestmark = [
    pytest.mark.filterwarnings("ignore:Nothing stands out"),
    pytest.mark.filterwarnings("ignore:No feature reaches the probability"),
    pytest.mark.filterwarnings("ignore:Sparse filtering did not converge"),
    pytest.mark.filterwarnings("ignore:LPBoost did not converge"),
    # joblib, if an error of a callback ends its tasks early
    pytest.mark.filterwarnings("ignore:.*tasks have been successfully executed"),
]

with_callbacks = pytest.mark.skipif(
    not hasattr(CallbackSupportMixin, "set_callbacks"), reason="callbacks came with scikit-learn 1.9"
)

ESTIMATORS = {
    "RandSel": RandSel(),
    "rank": RandSel(kernel="rank"),
    "fixing": RandSel(fix_top=0.3, fix_after=2),
    "bootstrap": RandSel(estimator="bootstrap", n_bootstraps=70, random_state=0, n_jobs=2),
    "RandSelCV": RandSelCV(cv=3, gammas=["median", "4*median"], n_jobs=2),
    "InteractionScan": InteractionScan(2, order=3),
    "SmallestSet": SmallestSet(),
    "StabilitySelection": StabilitySelection(n_subsamples=5, complementary=True, random_state=0, n_jobs=2),
    "halves of a selector": StabilitySelection(RandSel(3), n_subsamples=3, random_state=0, n_jobs=2),
    "BaHSIC": BaHSIC(3),
    "FoHSIC": FoHSIC(3),
    "KernelRFE": KernelRFE(3),
    "CorrelationFilter": CorrelationFilter(3),
    "FTest": FTest(3),
    "ForestImportance": ForestImportance(3, n_estimators=5, random_state=0),
    "SparseFiltering": SparseFiltering(4, max_iter=6, random_state=0),
    "LPBoostMKL": LPBoostMKL(max_iter=5, probability=True, n_jobs=2),
    "PathKernels": PathKernels(max_kernels=3),
}
WITHOUT_PARTS = ("CorrelationFilter", "FTest", "ForestImportance")


@pytest.fixture(scope="module")
def data():
    X, y, _ = datasets.make_xor(80, 12, random_state=0)
    return X, y


class Recorder:
    """Keeps what it is called with; `stop` tells from a context whether to stop there."""

    max_propagation_depth = None

    def __init__(self, stop=lambda context: False):
        self.stop = stop
        self.events = []
        self.fitted = []
        self.lock = threading.Lock()

    def _keep(self, what, context):
        with self.lock:
            self.events.append((what, context))

    def setup(self, estimator, context):
        self._keep("setup", context)

    def teardown(self, estimator, context):
        self._keep("teardown", context)

    def on_fit_task_begin(self, estimator, context):
        self._keep("begin", context)

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self._keep("end", context)
        if fitted_estimator is not None:
            self.fitted.append(fitted_estimator)
        return self.stop(context)

    def contexts(self, what):
        return [context for kind, context in self.events if kind == what]

    def names(self, what="end"):
        return [context.task_name for context in self.contexts(what)]


def answer(fitted):
    """All that a fit has set, but for objects that do not compare."""
    parameters = fitted.get_params(deep=False)
    kinds = np.ndarray | int | float
    return {name: v for name, v in vars(fitted).items() if isinstance(v, kinds) and name not in parameters}


def assert_same_answer(one, other):
    one, other = answer(one), answer(other)
    assert one.keys() == other.keys()
    assert len(one) > 1
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


# ---------------------------------------------------------------- what callbacks see


@with_callbacks
@pytest.mark.parametrize("name", ESTIMATORS)
def test_tasks_of_every_estimator_are_told_in_order_and_change_nothing(data, name):
    recorder, plain = Recorder(), clone(ESTIMATORS[name]).fit(*data)
    watched = clone(ESTIMATORS[name]).set_callbacks(recorder).fit(*data)
    assert_same_answer(watched, plain)
    events = recorder.events
    assert [kind for kind, _ in events][:2] == ["setup", "begin"]
    assert [kind for kind, _ in events][-2:] == ["end", "teardown"]
    root = events[0][1]
    at = {(kind, id(context)): place for place, (kind, context) in enumerate(events)}
    for context in root:
        assert at["begin", id(context)] < at["end", id(context)]
        children = list(context._children_map.values())
        assert context.max_subtasks is not None
        assert len(children) <= context.max_subtasks
        for child in children:
            assert at["begin", id(context)] < at["begin", id(child)]
            assert at["end", id(child)] < at["end", id(context)]
        if context.sequential_subtasks:
            for before, after in pairwise(children):
                assert at["end", id(before)] < at["begin", id(after)]
    tasks = len(list(root))
    assert len(recorder.contexts("begin")) == len(recorder.contexts("end")) == tasks
    assert len(recorder.contexts("setup")) == len(recorder.contexts("teardown")) == 1


@with_callbacks
def test_rounds_of_a_path_are_tasks_and_come_with_a_fitted_estimator(data):
    recorder = Recorder()
    fitted = RandSel(3).set_callbacks(recorder).fit(*data)
    sizes = path_sizes(12)
    root = recorder.contexts("setup")[0]
    assert (root.task_name, root.max_subtasks) == ("fit", len(sizes))
    assert recorder.names() == ["round"] * len(sizes) + ["fit"]
    assert [context.task_id for context in recorder.contexts("end")][:-1] == list(range(len(sizes)))
    for number, so_far in enumerate(recorder.fitted[:-1]):
        assert [len(r.features) for r in so_far.path_.rounds] == sizes[: number + 1]
        np.testing.assert_array_equal(so_far.path_.rounds[number].scores, fitted.path_.rounds[number].scores)
        assert not len(so_far.path_.rounds[-1].dropped)
        assert so_far.transform(data[0]).shape == (80, 3)
        assert sorted(so_far.order_) == list(range(12))
    np.testing.assert_array_equal(recorder.fitted[-2].ranking_, fitted.ranking_)


@with_callbacks
@pytest.mark.parametrize("kernel", ["gaussian", "rank"])
def test_a_callback_can_end_the_path(data, kernel):
    recorder = Recorder(stop=lambda context: context.task_name == "round" and context.task_id == 2)
    fitted = RandSel(3, kernel=kernel, fix_top=0.2, fix_after=2).set_callbacks(recorder).fit(*data)
    whole = RandSel(3, kernel=kernel, fix_top=0.2, fix_after=2).fit(*data)
    assert recorder.names("begin") == ["fit"] + ["round"] * 3
    if kernel == "gaussian":  # of functions, rounds in which no feature falls are no rounds of the path
        assert len(fitted.path_.rounds) == 3
        np.testing.assert_array_equal(fitted.path_.rounds[1].dropped, whole.path_.rounds[1].dropped)
    assert not len(fitted.path_.rounds[-1].dropped)
    assert sorted(fitted.order_) == list(range(12))
    assert fitted.support_.sum() == 3


@with_callbacks
def test_blocks_of_rows_and_batches_of_draws_are_tasks_of_a_round(monkeypatch, data):
    recorder = Recorder()
    clone(ESTIMATORS["bootstrap"]).set_callbacks(recorder).fit(*data)
    blocks = [len(r._children_map) for r in recorder.contexts("end") if r.task_name == "round"]
    assert blocks == [2 * 3] * len(path_sizes(12))  # 70 draws in batches of 32, twice
    monkeypatch.setattr("randsel.contribution._closed_form.MAX_ROWS", 40)
    recorder, again = Recorder(), RandSel(3, random_state=0)
    watched = clone(again).set_callbacks(recorder).fit(*data)
    assert {r.max_subtasks for r in recorder.contexts("end") if r.task_name == "round"} == {4}
    assert recorder.names().count("block") == 4 * len(watched.path_.rounds)
    assert_same_answer(watched, again.fit(*data))


@with_callbacks
def test_folds_and_the_last_fit_are_tasks_in_which_rounds_are_nested(data):
    recorder = Recorder()
    clone(ESTIMATORS["RandSelCV"]).set_callbacks(recorder).fit(*data)
    root = recorder.contexts("setup")[0]
    fits = [context for context in recorder.contexts("begin") if context.parent is root]
    assert sorted(context.task_id for context in fits) == list(range(7))  # two bandwidths, three folds, and once more
    assert [context.source_task_name for context in fits].count("fold") == 6
    assert fits[-1].source_task_name == "refit"
    assert {context.estimator_name for context in fits} == {"RandSel"}
    rounds = len(path_sizes(12))
    assert [len(context._children_map) for context in fits] == [rounds] * 7


@with_callbacks
def test_callbacks_of_the_outer_estimator_alone_see_only_its_tasks(data):
    recorder = Recorder()
    recorder.max_propagation_depth = 0
    clone(ESTIMATORS["RandSelCV"]).set_callbacks(recorder).fit(*data)
    assert sorted(recorder.names()) == ["fit"] + ["fold"] * 6 + ["refit"]


@with_callbacks
def test_parts_of_a_scan(monkeypatch, data):
    monkeypatch.setattr("randsel.interactions._pair_scan.BLOCK", 4)
    recorder = Recorder()
    InteractionScan(2, order=3).set_callbacks(recorder).fit(*data)
    root = recorder.contexts("setup")[0]
    parts = {context.task_name: context for context in root._children_map.values()}
    assert list(parts) == ["features", "pairs", "triples", "forward steps"]
    assert root.max_subtasks == 4
    assert recorder.names().count("tile") == parts["pairs"].max_subtasks == 6  # three blocks of features, each with all
    assert recorder.names().count("first feature") == 10
    assert 1 <= recorder.names().count("forward step") <= parts["forward steps"].max_subtasks
    recorder = Recorder()
    InteractionScan(order=1).set_callbacks(recorder).fit(*data)
    assert recorder.names()[0] == "features"
    assert "pairs" not in recorder.names()


@with_callbacks
def test_halves_classes_and_linear_programs(data):
    recorder = Recorder()
    clone(ESTIMATORS["StabilitySelection"]).set_callbacks(recorder).fit(*data)
    assert recorder.names().count("half") == 6  # rounded up to pairs
    recorder, y = Recorder(), np.arange(80) % 3
    fitted = LPBoostMKL(max_iter=4).set_callbacks(recorder).fit(data[0], y)
    assert recorder.names().count("class") == 3
    assert recorder.names().count("linear program") == fitted.n_iter_.sum()
    recorder = Recorder()
    clone(ESTIMATORS["PathKernels"]).set_callbacks(recorder).fit(*data)
    assert recorder.contexts("begin")[1].source_task_name == "selection"
    assert recorder.names().count("round") == len(path_sizes(12))


@with_callbacks
@pytest.mark.parametrize("n_selected", [1, 3, 11, 12])
@pytest.mark.parametrize("share", [None, 0.1, 0.4])
def test_rounds_of_the_baselines_are_counted_beforehand(data, n_selected, share):
    for estimator in (BaHSIC(n_selected, drop=share), FoHSIC(n_selected, add=share), KernelRFE(n_selected, drop=share)):
        recorder = Recorder()
        estimator.set_callbacks(recorder).fit(*data)
        assert recorder.names().count("round") == recorder.contexts("setup")[0].max_subtasks


@with_callbacks
def test_iterations_of_sparse_filtering(data):
    recorder = Recorder()
    fitted = SparseFiltering(4, max_iter=6, random_state=0).set_callbacks(recorder).fit(data[0])
    assert recorder.names() == ["iteration"] * fitted.n_iter_ + ["fit"]
    np.testing.assert_allclose(recorder.fitted[-2].transform(data[0]), fitted.transform(data[0]))
    assert not np.allclose(recorder.fitted[0].components_, fitted.components_)
    recorder = Recorder(stop=lambda context: context.task_id == 1)
    stopped = SparseFiltering(4, max_iter=60, tol=0.0, random_state=0).set_callbacks(recorder).fit(data[0])
    assert stopped.n_iter_ == 2
    assert not stopped.converged_
    converged = SparseFiltering(4, max_iter=500, tol=1e-2, random_state=0).set_callbacks(Recorder()).fit(data[0])
    assert converged.n_iter_ < 500


@with_callbacks
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name not in WITHOUT_PARTS])
def test_callbacks_are_torn_down_whatever_happens(data, name, error):
    class Fails(Recorder):
        def on_fit_task_end(self, estimator, context):
            super().on_fit_task_end(estimator, context)
            raise error

    recorder, estimator = Fails(), clone(ESTIMATORS[name])
    with pytest.raises(error):
        estimator.set_callbacks(recorder).fit(*data)
    assert recorder.events[-1][0] == "teardown"
    assert "fit" not in [context.task_name for context in recorder.contexts("end") if context.parent is None]
    assert not hasattr(estimator, "_callback_fit_ctx")
    estimator.set_callbacks()
    if hasattr(estimator, "transform"):
        with pytest.raises(NotFittedError):
            estimator.transform(data[0])
    assert_same_answer(estimator.fit(*data), clone(ESTIMATORS[name]).fit(*data))


@with_callbacks
def test_a_pipeline_and_a_search_pass_callbacks_on(data):
    recorder = Recorder()
    model = make_pipeline(RandSel(3), LPBoostMKL(max_iter=3)).set_callbacks(recorder).fit(*data)
    assert recorder.names().count("round") == len(path_sizes(12))
    assert recorder.names().count("linear program") == model[-1].n_iter_.sum()
    assert recorder.contexts("setup")[0].estimator_name == "Pipeline"
    recorder = Recorder()
    grid = {"randsel__n_features_to_select": [2, 3]}
    search = GridSearchCV(make_pipeline(RandSel(), LPBoostMKL(max_iter=3)), grid, cv=3).set_callbacks(recorder)
    search.fit(*data)
    assert recorder.names().count("round") == 7 * len(path_sizes(12))
    depth = 0
    context = next(context for context in recorder.contexts("end") if context.task_name == "round")
    while context.parent is not None:
        context, depth = context.parent, depth + 1
    assert context.estimator_name == "GridSearchCV"
    assert depth == 4  # search, candidate and fold, pipeline's step, round


@with_callbacks
@pytest.mark.parametrize("name", ESTIMATORS)
def test_progress_bar_reaches_the_end(data, name, capsys):
    pytest.importorskip("rich", reason="scikit-learn's progress bar needs rich")
    from sklearn.callback import ProgressBar  # noqa: PLC0415 (not before scikit-learn 1.9)

    estimator = clone(ESTIMATORS[name]).set_callbacks(ProgressBar(max_propagation_depth=None)).fit(*data)
    shown = [line for line in capsys.readouterr().out.splitlines() if "%" in line]
    assert f"{type(estimator).__name__} - fit" in shown[0]
    assert all("100%" in line for line in shown)


@with_callbacks
def test_progress_bars_of_folds_in_other_processes(data, capsys):
    pytest.importorskip("rich", reason="scikit-learn's progress bar needs rich")
    from sklearn.callback import ProgressBar  # noqa: PLC0415 (not before scikit-learn 1.9)

    with joblib.parallel_config("loky", n_jobs=2):
        fitted = RandSelCV(cv=2, gammas=["median"]).set_callbacks(ProgressBar()).fit(*data)
    shown = capsys.readouterr().out
    assert len(re.findall("RandSelCV - fold . RandSel - fit #[01] .*100%", shown)) == 2
    assert_same_answer(fitted, RandSelCV(cv=2, gammas=["median"]).fit(*data))


@with_callbacks
@pytest.mark.parametrize("name", ESTIMATORS)
def test_callbacks_are_no_parameters_and_do_not_stay_in_the_way(data, name):
    pytest.importorskip("rich", reason="scikit-learn's progress bar needs rich")
    from sklearn.callback import ProgressBar  # noqa: PLC0415 (not before scikit-learn 1.9)

    estimator = clone(ESTIMATORS[name])
    before = estimator.get_params(deep=False)
    watched = estimator.set_callbacks(ProgressBar())
    assert watched is estimator
    assert estimator.get_params(deep=False) == before
    copy = pickle.loads(pickle.dumps(estimator.fit(*data)))
    assert_same_answer(copy, estimator)
    assert "_parent_callback_ctx" not in vars(copy)
    assert clone(estimator)._skl_callbacks == estimator._skl_callbacks


@pytest.mark.slow
@with_callbacks
def test_the_page_on_progress_names_the_tasks_and_its_examples_run(data, capsys):
    pytest.importorskip("rich", reason="scikit-learn's progress bar needs rich")
    page = (Path(__file__).parents[2] / "docs" / "howto" / "long_runs.md").read_text()
    X, y, _ = datasets.make_xor(80, 24, random_state=0)
    scope = {"X": X, "y": y, "RandSel": RandSel, "RandSelCV": RandSelCV, "make_pipeline": make_pipeline, "SVC": SVC}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The estimator SVC does not support callbacks")
        exec("".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)), scope)
    assert scope["keep"].so_far.path_.rounds[-1].alignment > 0
    for name, estimator in ESTIMATORS.items():
        recorder = Recorder()
        clone(estimator).set_callbacks(recorder).fit(*data)
        kind = type(estimator).__name__
        rows = [line for line in page.splitlines() if line.startswith("|") and f"`{kind}`" in line.split("|")[1]]
        told = set(recorder.names("begin")) | {context.source_task_name for context in recorder.contexts("begin")}
        named = set(re.findall("`([a-z ]+)`", rows[0])) if rows else set()
        assert told - {"fit", None} <= named, name
    assert set(re.findall(r"`(test_\w+)`", page)) <= set(globals())


# ---------------------------------------------------------------- without callbacks


def test_tasks_do_nothing_for_an_estimator_that_takes_no_callbacks():
    class Plain:
        pass

    plain = Plain()
    with fit_task(plain, 3) as task, task.delegate_to(plain):
        steps = Steps(task)
        steps.begin("round", 2)
        steps.block_done()
        assert steps.n_done == 1
        assert not steps.end(lambda: 1 / 0)
        assert not task.has_callbacks
        assert task.map("half", max, [(1, 2), (4, 3)], None) == [2, 4]
        assert task.wrap("round", max)(5, 6) == 6
    assert not vars(plain)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ordered_map_tells_what_is_done(n_jobs):
    seen = []
    found = ordered_map(lambda number: number**2, [(k,) for k in range(9)], n_jobs, lambda: seen.append(len(seen)))
    assert found == [k**2 for k in range(9)]
    assert seen == list(range(9))


def test_verbose_functions_get_what_they_always_got(data):
    rounds, tiles, iterations = [], [], []
    fitted = RandSel(verbose=rounds.append).fit(*data)
    assert [len(r.features) for r in rounds] == [len(r.features) for r in fitted.path_.rounds]
    np.testing.assert_array_equal(rounds[0].dropped, fitted.path_.rounds[0].dropped)
    InteractionScan(2, order=3, verbose=lambda *step: tiles.append(step)).fit(*data)
    assert tiles == [(1, 1)]
    fitted = SparseFiltering(4, max_iter=6, random_state=0, verbose=lambda *step: iterations.append(step)).fit(data[0])
    assert [number for number, _ in iterations] == list(range(1, fitted.n_iter_ + 1))


# ---------------------------------------------------------------- Ctrl-C


def test_an_interrupted_fit_keeps_the_rounds_that_a_function_got_and_is_not_fitted(data):
    rounds = []

    def keep(r):
        rounds.append(r)
        if len(rounds) == 3:
            raise KeyboardInterrupt

    selector = RandSel(verbose=keep)
    with pytest.raises(KeyboardInterrupt):
        selector.fit(*data)
    assert [len(r.features) for r in rounds] == path_sizes(12)[:3]
    with pytest.raises(NotFittedError):
        selector.transform(data[0])
    assert_same_answer(selector.set_params(verbose=0).fit(*data), RandSel().fit(*data))


INTERRUPTED_FIT = """
import os
import numpy as np
from randsel import *
X = np.random.default_rng(0).standard_normal((400, 300))
y = np.arange(400) % 2
print("fitting", flush=True)
try:
    {}.fit(X, y)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    # threads that libraries left running may abort a proper end of the interpreter, now and then
    os._exit(7)
"""
LONG = {
    "path": "RandSel(estimator='bootstrap', n_bootstraps=10**6, n_jobs=2)",
    "folds": "RandSelCV(cv=10, gammas=[0.001 * k for k in range(1, 10**4)], n_jobs=2)",
    "halves": "StabilitySelection(n_subsamples=10**5, n_jobs=2)",
    "iterations": "SparseFiltering(300, max_iter=10**6, tol=0.0)",
}


def interrupt(process):
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=120)
    return process.returncode, output, errors


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
@pytest.mark.parametrize("name", LONG)
def test_ctrl_c_ends_a_long_fit(name):
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED_FIT.format(LONG[name])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "fitting\n"
    time.sleep(2.0)
    code, output, errors = interrupt(process)
    assert code == 7, errors
    assert output == "interrupted\n"


@pytest.fixture
def table(tmp_path):
    X, y, _ = datasets.make_xor(50, 20, random_state=0)
    path = tmp_path / "table.csv"
    rows = [",".join(map(str, [*row, label])) for row, label in zip(X.tolist(), y.tolist(), strict=True)]
    path.write_text("\n".join([",".join([*(f"x{j}" for j in range(20)), "status"]), *rows]) + "\n")
    return path


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_ends_a_comparison_which_then_resumes(table, tmp_path, jobs):
    out = tmp_path / "results"
    options = ["--target", "status", "--out", str(out), "--folds", "2", "--reshuffles", "3", "--jobs", jobs]
    command = [sys.executable, "-m", "randsel", "compare", str(table), *options, "--methods", "RFE, randSel"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not list(out.glob("cells/[0-9a-f]*.json")) and process.poll() is None:
        time.sleep(0.02)
    code, _, errors = interrupt(process)
    kept = {path.name: path.stat().st_mtime_ns for path in out.glob("cells/[0-9a-f]*.json")}
    assert code == 130
    assert "Interrupted. What is finished is kept: run the same command again to go on." in errors
    assert "Traceback" not in errors
    assert 0 < len(kept) < 12
    subprocess.run(command, check=True, capture_output=True)
    assert not list(out.rglob("*.partial"))
    assert len(list(out.glob("cells/[0-9a-f]*.json"))) == 12
    assert {name: (out / "cells" / name).stat().st_mtime_ns for name in kept} == kept
    assert (out / "table.md").exists()
