"""Benchmarks that take long run through on small sizes, so that they still fit the package when they are needed."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "arguments", "printed"),
    [
        ("quality/fresh.py", "--sets 2 --samples 60 --features 8 --jobs 1", "| numbers: product |"),
        ("speed/cost.py", "--largest-samples 100 --largest-features 50 --sets 1", "## Does the claim hold?"),
        ("speed/sketch.py", "--samples 100 --features 500 --repeats 1", "100×500:"),
        ("scale/sparse_tables.py", "--cells 300 --genes 200 --density 0.1", "| 300 × 200, density "),
        ("scale/wide.py", "--features 60 --sets 1 --only pairs --jobs 1 --records {folder}", "| XOR | 250×60 |"),
    ],
)
def test_a_benchmark_runs_through_on_small_sizes(script, arguments, printed, tmp_path):
    command = [sys.executable, str(BENCHMARKS / script), *arguments.format(folder=tmp_path).split()]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert printed in finished.stdout
