"""Fits that are interrupted and go on: the same to the last bit, from the same data and settings only."""

import json
import time

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn import config_context
from sklearn.base import clone

from randsel import InteractionScan, RandSel, datasets
from randsel._numerics.fingerprint import fingerprint
from randsel._utils import files as run_folder
from randsel._utils.files import FinishedParts, Stages
from randsel.analysis._model import Settings
from randsel.analysis._pipeline import analyse
from randsel.cli._main import main
from randsel.culling._path import path_sizes
from randsel.culling._storage import path_to_arrays
from randsel.interactions import _evidence as evidence
from randsel.interactions import _pair_scan as pair_scan
from randsel.tables._read import Table
from randsel.targets import Samples
from randsel.targets._kinds import CLASSES


class CutError(Exception):
    """What ends a fit here."""


@pytest.fixture
def every_stage(monkeypatch):
    """Keep every stage, however little time has passed."""
    monkeypatch.setattr(run_folder, "MIN_SECONDS", 0.0)
    monkeypatch.setattr(run_folder, "MIN_MULTIPLE", 0.0)


@pytest.fixture
def cut(monkeypatch, every_stage):
    """Run something until a number of stages is kept."""

    def run(function, stages):
        real, kept = Stages.save, []

        def save(self, number, arrays):
            real(self, number, arrays)
            kept.extend([number] if self.name else [])
            if len(kept) == stages:
                raise CutError

        with monkeypatch.context() as patch:
            patch.setattr(Stages, "save", save)
            with pytest.raises(CutError):
                function()

    return run


@pytest.fixture
def counted(monkeypatch):
    """Return the list of the numbers of all stages that are offered to a checkpoint from here on."""
    numbers, real = [], Stages.save

    def save(self, number, arrays):
        if self.parts.folder is not None:  # without a folder, nothing is saved
            numbers.append(number)
        real(self, number, arrays)

    monkeypatch.setattr(Stages, "save", save)
    return numbers


def same_paths(one, other):
    """Whether two fits have the same path, bit for bit."""
    a, b = path_to_arrays(one.path_), path_to_arrays(other.path_)
    return all(np.asarray(a[name]).tobytes() == np.asarray(b[name]).tobytes() for name in a)


def xor(dtype=np.float64, rows=100, columns=600):
    X, y, _ = datasets.make_xor(rows, columns, random_state=1)
    return X.astype(dtype), y


def wide():
    """So many rows, as `sketched` has it, and so many more columns, that sums are sketched, in single precision."""
    X = np.random.default_rng(0).standard_normal((100, 3000)).astype(np.float32)
    return X, (X[:, 0] * X[:, 1] > 0).astype(int)


VARIANTS = {
    "default": (xor, {}),
    "single precision": (lambda: xor(np.float32), {}),
    "sketched sums": (wide, {}),
    "fixing": (xor, {"fix_top": 0.1, "fix_after": 2}),
    "features to keep": (xor, {"always_keep": [7, 3]}),
    "total": (xor, {"criterion": "total", "gamma": 0.001}),
    "calibrated": (lambda: xor(columns=60), {"criterion": "calibrated", "scale": True}),
    "regression": (xor, {"target": "regression"}),
    "bootstrap": (lambda: xor(columns=40), {"estimator": "bootstrap", "n_bootstraps": 64, "random_state": 3}),
    "ranks": (lambda: xor(columns=60), {"kernel": "rank"}),
}


@pytest.fixture
def sketched(monkeypatch):
    monkeypatch.setattr("randsel.contribution._sample.SINGLE_ROWS", 100)
    monkeypatch.setattr("randsel.contribution._sample.SKETCH_ROWS", 100)


@pytest.mark.parametrize(
    ("variant", "after"), [("default", 1), ("default", 9), *((name, 3) for name in VARIANTS), ("sketched sums", 9)]
)
@pytest.mark.filterwarnings("ignore:.*features were in none of")
def test_a_path_resumes_with_the_same_result(variant, after, tmp_path, cut, counted, sketched):
    make, options = VARIANTS[variant]
    X, y = make()
    whole = RandSel(2, **options, checkpoint=tmp_path / "whole").fit(X, y)
    every = list(counted)
    assert same_paths(RandSel(2, **options).fit(X, y), whole)
    selector = RandSel(2, **options, checkpoint=tmp_path / "kept")
    cut(lambda: selector.fit(X, y), after)
    with np.load(tmp_path / "kept" / "parts" / f"rounds-{after:06d}.npz") as kept:
        # Later, the error of a sketch of fewer features could matter.
        assert ("sketch_probes" in kept) == (variant == "sketched sums" and after == 3)
    counted.clear()
    assert same_paths(clone(selector).fit(X, y), whole)
    assert counted == every[after:]  # rounds before are not computed again


@pytest.mark.parametrize("after", [1, 4, 12])
def test_a_table_read_in_blocks_resumes(after, tmp_path, cut, monkeypatch):
    X, y = xor(np.float32)
    np.save(tmp_path / "X.npy", X)
    table = np.load(tmp_path / "X.npy", mmap_mode="r")
    monkeypatch.setattr("randsel.selectors._features.memory_for_columns", lambda *_: int(0.3 * X.nbytes))
    weights = np.random.default_rng(0).random(len(X))
    selector = RandSel(5, max_memory="1MB")
    whole = clone(selector).fit(table, y, weights)
    selector.set_params(checkpoint=str(tmp_path / "kept"))
    cut(lambda: selector.fit(table, y, weights), after)
    assert same_paths(clone(selector).fit(table, y, weights), whole)


@pytest.mark.parametrize("max_rows", [2000, 60])
def test_a_path_with_groups_and_batches_resumes(max_rows, tmp_path, cut, monkeypatch):
    monkeypatch.setattr("randsel.contribution._closed_form.MAX_ROWS", max_rows)
    X, y = xor(columns=60)
    weights = np.linspace(0.0, 2.0, len(X))
    labels = {"groups": np.arange(len(X)) // 3, "batch": np.arange(len(X)) % 2}
    selector = RandSel(random_state=0, checkpoint=tmp_path / "kept")
    cut(lambda: selector.fit(X, y, weights, **labels), 4)
    resumed, whole = clone(selector).fit(X, y, weights, **labels), RandSel(random_state=0).fit(X, y, weights, **labels)
    assert same_paths(resumed, whole)
    assert resumed.permutation_pvalue_ == whole.permutation_pvalue_
    assert resumed.stands_out_ == whole.stands_out_
    assert np.array_equal(resumed.support_, whole.support_)


def test_blocks_of_rows_resume_with_the_stored_seed(tmp_path, cut, monkeypatch):
    monkeypatch.setattr("randsel.contribution._closed_form.MAX_ROWS", 60)
    X, y = xor(columns=80)
    selector = RandSel(5, checkpoint=tmp_path / "kept")
    cut(lambda: selector.fit(X, y), 4)
    seed = json.loads((tmp_path / "kept" / "run.json").read_text())["seed"]
    for _ in range(2):
        again = clone(selector).fit(X, y)
        assert json.loads((tmp_path / "kept" / "run.json").read_text())["seed"] == seed
    fresh = RandSel(5, checkpoint=tmp_path / "fresh")
    monkeypatch.setattr("randsel.selectors._randsel.seed_of", lambda _: seed)
    assert same_paths(again, fresh.fit(X, y))


@pytest.mark.parametrize("host_features", [0, 30, 2048])
@pytest.mark.parametrize("variant", ["default", "single precision", "sketched sums", "fixing"])
def test_tensors_resume(variant, host_features, tmp_path, cut, sketched, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr("randsel.contribution._closed_form.HOST_FEATURES", host_features)
    make, options = VARIANTS[variant]
    X, y = make()
    with config_context(array_api_dispatch=True):
        tensor = torch.as_tensor(X)
        whole = RandSel(2, **options).fit(tensor, y)
        selector = RandSel(2, **options, checkpoint=tmp_path / "kept")
        cut(lambda: selector.fit(tensor, y), 1 if variant == "sketched sums" else 3)
        assert same_paths(clone(selector).fit(tensor, y), whole)
    assert fingerprint(tensor) != fingerprint(tensor + 1.0)


# ---------------------------------------------------------------- the scan


def same_scans(one, other):
    names = [name for name in vars(other) if name.endswith("_")]
    assert len(names) > 15
    return all(np.asarray(getattr(one, name)).tobytes() == np.asarray(getattr(other, name)).tobytes() for name in names)


@pytest.mark.slow
@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("after", [1, 3, 8])
def test_a_scan_resumes_with_the_same_result(order, after, tmp_path, cut, counted, monkeypatch):
    monkeypatch.setattr(pair_scan, "BLOCK", 8)
    X, y, _ = datasets.make_xor(120, 30, random_state=0)
    X[:, 20:] = np.round(X[:, 20:])  # another kind of feature, with statistics of its own
    whole = InteractionScan(order=order, n_pairs=20).fit(X, y)
    assert not counted
    InteractionScan(order=order, n_pairs=20, checkpoint=tmp_path / "whole").fit(X, y)
    every = list(counted)
    assert len(every) > 8 - 5 * (order == 2)
    scan = InteractionScan(order=order, n_pairs=20, checkpoint=tmp_path / "kept")
    cut(lambda: scan.fit(X, y), min(after, len(every) - 1))
    counted.clear()
    shown = []
    again = clone(scan).set_params(verbose=lambda done, total: shown.append((done, total))).fit(X, y)
    assert same_scans(again, whole)
    assert counted == every[min(after, len(every) - 1) :]
    assert shown[-1][0] == shown[-1][1]


def test_tests_of_single_features_resume(tmp_path, cut, counted, monkeypatch):
    X, y, _ = datasets.make_xor(80, 40, random_state=0)
    monkeypatch.setattr(evidence, "BLOCK_BYTES", 4 * 6 * 80 * 5)
    how = {"nominal": np.zeros(40, dtype=bool), "n_jobs": None}
    samples = Samples(X, y, None, None, None, "samples")
    whole = evidence.main_effects(samples, CLASSES, **how)
    how["checkpoint"] = tmp_path / "kept"
    cut(lambda: evidence.main_effects(samples, CLASSES, **how), 3)
    counted.clear()
    np.testing.assert_array_equal(evidence.main_effects(samples, CLASSES, **how), whole)
    assert counted[0] > 15


# ---------------------------------------------------------------- a selection


@pytest.mark.slow
@pytest.mark.parametrize("after", [4, 16])
@pytest.mark.parametrize("pairs", ["all", "none"])
def test_a_selection_resumes_within_its_culling_and_its_tests(after, pairs, tmp_path, cut, counted, monkeypatch):
    monkeypatch.setattr(pair_scan, "BLOCK", 8)
    monkeypatch.setattr(evidence, "BLOCK_BYTES", 4 * 6 * 120 * 5)
    X, y, _ = datasets.make_xor(120, 60, random_state=0)
    table = Table(X, y, tuple(f"g{j}" for j in range(60)))
    settings = Settings(halves=0, folds=0, pairs=pairs)
    whole = analyse(table, settings)
    assert not counted
    (tmp_path / "whole").mkdir()
    analyse(table, settings, parts=FinishedParts(tmp_path / "whole" / "parts"))
    every = list(counted)
    rounds = len(path_sizes(60)) - 1
    assert after < rounds or rounds + 1 < after < len(every)
    parts = FinishedParts(tmp_path / "parts")
    cut(lambda: analyse(table, settings, parts=parts), after)
    so_far = "path" if after < rounds else "tests"
    assert [path.name for path in parts.folder.glob("*-so-far")] == [f"{so_far}-so-far"]
    counted.clear()
    shown = []
    again = analyse(table, settings, parts=parts, progress=lambda *state: shown.append(state))
    assert repr((again.features, again.pairs)) == repr((whole.features, whole.pairs))
    assert counted == every[after:]  # nothing is done twice
    assert not list(parts.folder.glob("*-so-far"))
    if after < rounds:
        culling = [done for what, done, _ in shown if what == "culling"]
        assert culling == sorted(culling)
        assert culling[-1] == sum(path_sizes(60))


@pytest.mark.slow
def test_the_command_interactions_resumes(tmp_path, cut, counted, monkeypatch):
    monkeypatch.setattr(pair_scan, "BLOCK", 8)
    X, y, _ = datasets.make_xor(60, 40, random_state=0)
    np.savez(tmp_path / "table.npz", X=X, y=y)

    def command(out):
        words = ["--debug", "interactions", str(tmp_path / "table.npz"), "--out", str(tmp_path / out)]
        return CliRunner().invoke(main, words, catch_exceptions=False)

    assert command("whole").exit_code == 0
    every = list(counted)
    cut(lambda: command("cut"), 3)
    assert (tmp_path / "cut" / "so-far").exists()
    counted.clear()
    assert command("cut").exit_code == 0
    assert counted == every[3:]
    files = {path.name: path.read_bytes() for path in (tmp_path / "whole").iterdir()}
    assert set(files) == {"features.csv", "pairs.csv", "heatmap.png", "pairs.png", "report.html"}
    # the report names its folder in the command that repeats it
    folders = [str(tmp_path / name).encode() for name in ("whole", "cut")]
    files["report.html"] = files["report.html"].replace(*folders)
    assert {path.name: path.read_bytes() for path in (tmp_path / "cut").iterdir()} == files


# ---------------------------------------------------------------- whose it is


def test_a_folder_of_another_fit_is_refused_with_a_reason(tmp_path):
    X, y = xor(columns=20)
    folder = tmp_path / "kept"
    RandSel(2, checkpoint=folder).fit(X, y)
    before = (folder / "run.json").read_bytes()
    other = X.copy()
    other[3, 4] += 1e-9
    with pytest.raises(ValueError, match=r"holds a run on other data; give another folder \(checkpoint\)"):
        RandSel(2, checkpoint=folder).fit(other, y)
    with pytest.raises(ValueError, match="on other data"):
        RandSel(2, checkpoint=folder).fit(X, 1 - y)
    with pytest.raises(ValueError, match="on other data"):
        RandSel(2, checkpoint=folder).fit(X, y, np.linspace(1, 2, len(y)))
    with pytest.raises(ValueError, match="on other data"):
        RandSel(2, checkpoint=folder).fit(X, y, groups=np.arange(len(y)) // 2)
    with pytest.raises(ValueError, match=r"with other settings \(ridge: auto, now 1.0\)"):
        RandSel(2, ridge=1.0, checkpoint=folder).fit(X, y)
    with pytest.raises(ValueError, match=r"with other settings \(scale: rank, now True\)"):
        RandSel(2, scale=True, checkpoint=folder).fit(X, y)
    with pytest.raises(ValueError, match=r"with other settings \(drop: 0.25, now 0.5\)"):
        RandSel(2, drop=0.5, checkpoint=folder).fit(X, y)
    with pytest.raises(ValueError, match=r"with other settings \(criterion: combined, now total\)"):
        RandSel(2, criterion="total", checkpoint=folder).fit(X, y)
    with pytest.raises(ValueError, match=r"with other settings \(random state: None, now "):
        RandSel(2, random_state=3, checkpoint=folder).fit(X, y)
    with pytest.raises(ValueError, match=r"with another estimator \(RandSel, now InteractionScan\)"):
        InteractionScan(checkpoint=folder).fit(X, y)
    assert (folder / "run.json").read_bytes() == before
    (folder / "run.json").write_text(before.decode().replace('"version": "', '"version": "9.'))
    with pytest.raises(ValueError, match="with another version"):
        RandSel(2, checkpoint=folder).fit(X, y)
    (folder / "run.json").write_bytes(before[:40])
    with pytest.raises(ValueError, match="is damaged; give another folder"):
        RandSel(2, checkpoint=folder).fit(X, y)
    with pytest.raises(ValueError, match="is a file"):
        RandSel(2, checkpoint=folder / "run.json").fit(X, y)
    with run_folder.lock_folder(folder), pytest.raises(ValueError, match="another run is working in"):
        RandSel(2, checkpoint=folder).fit(X, y)


def test_a_finished_fit_is_read_again_with_another_number_of_features(tmp_path, every_stage, counted):
    X, y = xor(columns=60)
    rounds = []
    fitted = RandSel(2, checkpoint=tmp_path / "kept", verbose=rounds.append).fit(X, y)
    assert len(rounds) == len(fitted.path_.rounds) == len(counted) + 1
    rounds.clear()
    again = RandSel(7, checkpoint=tmp_path / "kept", verbose=rounds.append, n_jobs=2).fit(X, y)
    assert same_paths(fitted, again)
    assert again.n_features_ == 7
    assert len(rounds) == 1  # the last one


def test_a_path_that_a_callback_ends_is_not_taken_for_a_whole_one(tmp_path, every_stage):
    pytest.importorskip("sklearn.callback")
    X, y = xor(columns=60)

    class End:
        setup = teardown = on_fit_task_begin = lambda *_, **__: None

        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            return context.task_name == "round" and len(fitted_estimator.path_.rounds) == 4

    cut_short = RandSel(2, checkpoint=tmp_path / "kept").set_callbacks(End()).fit(X, y)
    assert len(cut_short.path_.rounds) == 4
    assert same_paths(RandSel(2, checkpoint=tmp_path / "kept").fit(X, y), RandSel(2).fit(X, y))


def test_what_is_quick_writes_no_stage(tmp_path, monkeypatch):
    X, y = xor(columns=30)
    RandSel(2, checkpoint=tmp_path / "kept").fit(X, y)
    assert not list((tmp_path / "kept" / "parts").iterdir())
    clock = iter(np.arange(0.0, 1e6, 3.0))  # three seconds pass whenever somebody looks
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    stages = Stages(FinishedParts(tmp_path), "x")
    for number in range(1, 13):
        stages.save(number, lambda number=number: {"number": number})
    # at 6 s and, as writing took three, not for the next minute
    assert [path.name for path in tmp_path.glob("*.npz")] == ["x-000002.npz"]
    assert stages.load_latest()["number"] == 2


# ---------------------------------------------------------------- damage


def test_a_damaged_stage_is_said_and_done_again(tmp_path, cut, counted):
    X, y = xor(columns=200)
    whole = RandSel(2).fit(X, y)
    selector = RandSel(2, checkpoint=tmp_path / "kept")
    cut(lambda: selector.fit(X, y), 8)
    files = sorted((tmp_path / "kept" / "parts").glob("*.npz"))
    assert [path.name for path in files] == ["rounds-000007.npz", "rounds-000008.npz"]
    files[1].write_bytes(files[1].read_bytes()[:-100])
    counted.clear()
    with pytest.warns(
        UserWarning, match=r"rounds-000008.npz is damaged; the computation resumes from the stage before it"
    ):
        assert same_paths(clone(selector).fit(X, y), whole)
    assert counted[0] == 8
    for path in (tmp_path / "kept" / "parts").glob("*.npz"):
        path.write_bytes(b"")
    counted.clear()
    with pytest.warns(UserWarning, match="is damaged"):
        assert same_paths(clone(selector).fit(X, y), whole)
    assert counted[0] == 1


@pytest.mark.parametrize("compressed", [True, False])
def test_a_part_that_lost_its_end_or_a_bit_is_seen_or_reads_as_it_was(tmp_path, compressed):
    parts = FinishedParts(tmp_path)
    arrays = {"numbers": np.linspace(0.0, 1.0, 40), "words": np.array(["a", "bc"])}
    parts.save("x", arrays, compressed=compressed)
    path = tmp_path / "x.npz"
    content = path.read_bytes()
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        assert parts.load("x") is None
    seen = 0
    for at in range(len(content)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 16]) + content[at + 1 :])
        found = parts.load("x")
        seen += found is None
        if found is not None:  # dates and the like
            assert set(found) == set(arrays)
            assert all(np.array_equal(found[name], arrays[name]) for name in arrays)
    assert seen > len(content) / 2


def test_what_a_hash_sees():
    X = np.arange(12.0).reshape(3, 4)
    assert fingerprint(X) == fingerprint(X.copy())
    changed = [X.astype(np.float32), X.reshape(4, 3), X[::-1], np.where(X == 5.0, 5.5, X)]
    assert len({fingerprint(X), *map(fingerprint, changed)}) == 5
    assert fingerprint(X, None) != fingerprint(X)
    assert fingerprint(np.array(["a", "b"], dtype=object)) != fingerprint(np.array(["a", "c"], dtype=object))


def test_a_hash_of_blocks_is_that_of_the_whole(tmp_path, monkeypatch):
    X = np.random.default_rng(0).standard_normal((50, 30))
    for name, table in (("c", X), ("f", np.asfortranarray(X))):
        expected = fingerprint(table)
        np.save(tmp_path / f"{name}.npy", table)
        monkeypatch.setattr("randsel._numerics.fingerprint.BLOCK_BYTES", 7 * 30 * 8)
        assert fingerprint(table) == expected
        assert fingerprint(np.load(tmp_path / f"{name}.npy", mmap_mode="r")) == expected
        monkeypatch.undo()
