"""The benchmarks' own machinery: results kept and found again, PLINK's file format."""

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def measure(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("measure")


def test_finished_results_are_kept_and_failed_ones_tried_again_when_asked_or_allowed_more(measure, tmp_path):
    path, runs = tmp_path / "folder" / "cell.json", []

    def failing():
        runs.append("failed")
        return {"error": measure.TIMED_OUT}

    def working():
        runs.append("worked")
        return {"seconds": 1.0}

    measure.kept(path, failing, limit=10)
    assert measure.kept(path, working, limit=10)["error"] == measure.TIMED_OUT
    assert measure.kept(path, failing, limit=10, again=True)["error"]
    assert measure.kept(path, working, limit=20)["seconds"] == 1.0
    assert measure.kept(path, failing, limit=30, again=True)["seconds"] == 1.0
    assert runs == ["failed", "failed", "worked"]


@pytest.mark.skipif(sys.platform != "linux", reason="limits and memory are read as Linux has them")
def test_what_ends_a_process_is_reported(measure):
    def run(code, limit=60):
        return measure.run([sys.executable, "-c", code], limit=limit, memory=2**32)

    assert run("print('noise'); print('{\"seconds\": 1}')") == {"seconds": 1}
    assert run("raise SystemError('broken')") == {"error": "SystemError: broken"}
    assert run("import os, signal; os.kill(os.getpid(), signal.SIGKILL)") == {"error": "killed by SIGKILL"}
    timed = f"import sys, time; sys.path.insert(0, {str(BENCHMARKS)!r}); import measure; "
    assert run(timed + "measure.measured(lambda: time.sleep(60), 0.2)") == {"error": measure.TIMED_OUT}


@pytest.mark.slow
def test_genotypes_survive_the_way_through_a_bed_file(tmp_path):
    # imported in a process of its own, because the benchmark pins the process that imports it to one core
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "in.npz", G=rng.integers(0, 3, (13, 7)).astype(np.uint8), y=np.arange(13) % 2)
    peers = str(BENCHMARKS / "peers")
    code = (
        f"import sys; sys.path.insert(0, {peers!r}); import numpy as np, plink; from pathlib import Path; "
        f"folder = Path({str(tmp_path)!r}); data = np.load(folder / 'in.npz'); "
        "plink.write_bed(folder / 'snps', data['G'], data['y']); X, y = plink.read_bed(folder / 'snps'); "
        "assert (X == data['G']).all() and (y == data['y']).all()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert (tmp_path / "snps.bed").stat().st_size == 3 + 7 * 4


def test_the_digest_of_the_source_follows_code_in_subfolders_but_not_comments(measure, monkeypatch, tmp_path):
    monkeypatch.setattr(measure, "SOURCE", tmp_path)
    for folder in ("culling", "report"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "_file.py").write_text("x = 1\n")
    everything, culling = measure.source_digest(), measure.source_digest(("culling",))
    (tmp_path / "culling" / "_file.py").write_text('"""Docstring."""\n# comment\nx = 1\n')
    (tmp_path / "report" / "_file.py").write_text("x = 2\n")
    assert measure.source_digest() != everything
    documented = measure.source_digest(("culling",))
    (tmp_path / "culling" / "_file.py").write_text('"""Another."""\nx = 1\n')
    assert measure.source_digest(("culling",)) == documented
    (tmp_path / "culling" / "_file.py").write_text('"""Another."""\nx = 2\n')
    assert measure.source_digest(("culling",)) not in (documented, culling)


def test_code_without_comments_and_docstrings_keeps_all_else(measure):
    text = '"""Doc."""\n\nclass A:\n    """Doc\n    # of two lines."""\n\n    x = "# é"  # why\n    def f(self): ...\n'
    assert measure.code_only(text) == 'class A:\n    x = "# é"\n    def f(self): ...'
