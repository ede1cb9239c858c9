"""Measure speed and memory relative to named reference operations of the same run, on one core.

python benchmarks/speed/speed.py [--out docs/results/speed.md]
"""

import argparse
import os
import sys
import time
import tracemalloc
from pathlib import Path

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

import warnings

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "tests" / "support")]
import reference
from pages import PageRun

from randsel import RandSel, datasets
from randsel.contribution._bootstrap import BATCH, Draws, bootstrap, draw_subsets
from randsel.contribution._sample import Sample
from randsel.targets._kinds import CLASSES
from randsel.targets._target import Target

# y is noise on purpose
warnings.filterwarnings("ignore", "Nothing stands out")


def best_of(function, repeats):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def bootstrap_against_the_literal_reference(m=300, n=100, r=3000, s=75):
    """One round of Algorithm 1: the same draws, in literal numpy and in the package."""
    X, y, _ = datasets.make_xor(m, n, random_state=0)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    sample = Sample.from_columns(X, Target.encode(y, CLASSES))
    gamma, draws = 1 / (2 * n), Draws(r, s / m, seed=1)
    batches = range(-(-r // BATCH))
    smaller = [d for b in batches for d in zip(*draw_subsets(sample, n // 2, (0, b), draws), strict=True)]
    larger = [d for b in batches for d in zip(*draw_subsets(sample, n // 2 + 1, (1, b), draws), strict=True)]
    start = time.perf_counter()
    expected = reference.algorithm_1(X, sample.target.Y, gamma, smaller, larger)
    slow = time.perf_counter() - start
    fast = best_of(lambda: bootstrap(sample, gamma, draws), 3)
    error = np.abs(bootstrap(sample, gamma, draws).total / expected - 1).max()
    return (
        f"one bootstrap round, {m}×{n}, {r} draws of {s} rows",
        "literal numpy reference",
        slow,
        fast,
        f"{slow / fast:.1f} times faster, relative difference {error:.1e}",
    )


def path_against_two_products(m, n, dtype, distribution):
    """The whole default path against one X Xᵀ and one W X."""
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(m, n)) if distribution == "normal" else rng.standard_t(5, (m, n))).astype(dtype)
    y, W = rng.integers(0, 2, m), rng.normal(size=(m, m)).astype(dtype)

    def products():
        X @ X.T
        W @ X

    products()
    yardstick = best_of(products, 5)
    selector = RandSel(2)
    path = best_of(lambda: selector.fit(X, y), 5)
    return (
        f"full path, {m}×{n} {np.dtype(dtype).name}, {distribution} columns",
        "one X Xᵀ and one W X",
        yardstick,
        path,
        f"{path / yardstick:.1f} times the yardstick",
    )


def peak_memory(m, n):
    """Peak of the memory that the fit allocates (numpy reports it to tracemalloc), X itself not counted."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((m, n), dtype=np.float32), rng.integers(0, 2, m)
    tracemalloc.start()
    RandSel(2).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    limit = 6 * X.nbytes + 100e6
    return (
        f"Peak memory of the full path, {m}×{n} float32: {(peak + X.nbytes) / 1e6:.0f} MB, X included, "
        f"against {limit / 1e6:.0f} MB (6 times X of {X.nbytes / 1e6:.1f} MB plus 100 MB)."
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="also write the table to this Markdown file")
    out = parser.parse_args().out
    page = PageRun("speed")
    rows = [bootstrap_against_the_literal_reference()]
    for distribution in ("normal", "heavy-tailed"):
        rows.append(path_against_two_products(202, 6247, np.float32, distribution))
    rows.append(path_against_two_products(202, 6247, np.float64, "normal"))
    rows.append(path_against_two_products(300, 100, np.float64, "normal"))
    rows.append(path_against_two_products(300, 1000, np.float64, "normal"))
    lines = ["| what | yardstick | yardstick, s | randsel, s | result |", "|---|---|---|---|---|"]
    lines += [f"| {what} | {yard} | {a:.4f} | {b:.4f} | {result} |" for what, yard, a, b, result in rows]
    lines += ["", peak_memory(202, 6247)]
    text = "\n".join(lines)
    print(text)
    if out:
        page.write(out, f"One core.\n\n{text}", "1 per row")


if __name__ == "__main__":
    main()
