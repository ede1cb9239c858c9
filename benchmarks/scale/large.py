"""Fit large tables: 100 000 features in memory, a table of four times the memory limit, 100 000 samples, 2350×230 000.

python benchmarks/scale/large.py [--out docs/results/large.md] [--only wide,mapped,long,tall] [--limit 1800]

Every case runs in a separate process, on one core unless it is `tall`. Its memory is the peak resident set during the
fit minus that before it.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import measure

if "--case" in sys.argv and "tall" not in sys.argv:
    measure.one_core()

import numpy as np
from pages import PageRun

from randsel import RandSel, datasets


def wide(limit, m=1000, n=100_000):
    """Full path, float32, against one X Xᵀ and one W X."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m, n), dtype=np.float32)
    y, W = (X[:, 5] + X[:, 9] + rng.normal(size=m) > 0).astype(int), rng.standard_normal((m, m), dtype=np.float32)
    yards = []
    for _ in range(3):
        start = time.perf_counter()
        X @ X.T
        W @ X
        yards.append(time.perf_counter() - start)
    fitted, seconds, megabytes = measure.measured(lambda: RandSel(2).fit(X, y), limit)
    return {
        "what": f"full path, {m}×{n} float32, {X.nbytes / 1e6:.0f} MB",
        "factor": (megabytes + X.nbytes / 1e6) / (X.nbytes / 1e6),
        "seconds": seconds,
        "megabytes": megabytes,
        "said": (
            f"{seconds / min(yards):.1f} times one X Xᵀ and one W X ({min(yards):.2f} s); "
            f"found {fitted.get_support(indices=True).tolist()} of [5, 9]"
        ),
    }


def mapped(limit, m=800, n=300_000, allowed="240MB"):
    """A memory map of four times `max_memory`, against the same table in memory."""
    X, y, relevant = datasets.make_weston_linear(m, 100, random_state=0)
    with tempfile.TemporaryDirectory() as folder:
        table = np.lib.format.open_memmap(Path(folder) / "X.npy", mode="w+", dtype=np.float32, shape=(m, n))
        rng = np.random.default_rng(1)
        for row in range(m):
            table[row] = rng.standard_normal(n, dtype=np.float32)
        table[:, :100] = X
        table.flush()
        del table
        table = np.load(Path(folder) / "X.npy", mmap_mode="r")
        fitted, seconds, megabytes = measure.measured(lambda: RandSel(20, max_memory=allowed).fit(table, y), limit)
        whole = RandSel(20).fit(np.array(table), y)
    same = int((fitted.support_ & whole.support_).sum())
    return {
        "what": f"memory map, {m}×{n} float32, {m * n * 4 / 1e6:.0f} MB, max_memory={allowed!r}",
        "seconds": seconds,
        "megabytes": megabytes,
        "said": (
            f"{same} of 20 features as in memory, {int(fitted.support_[relevant].sum())} of {len(relevant)} relevant"
        ),
    }


def long(limit, m=100_000, n=2000):
    """Many samples: blocks of rows."""
    X, y, relevant = datasets.make_xor(m, n, random_state=0)
    X = X.astype(np.float32)
    fitted, seconds, megabytes = measure.measured(lambda: RandSel(2, random_state=0).fit(X, y), limit)
    return {
        "what": f"many samples, {m}×{n} float32, {X.nbytes / 1e6:.0f} MB",
        "seconds": seconds,
        "megabytes": megabytes,
        "said": f"XOR pair {'found' if fitted.support_[relevant].all() else 'missed'}",
    }


def tall(limit, goal=180.0):
    """The size of the table of https://github.com/EpistasisLab/scikit-rebate/issues/74, on all cores."""
    case = wide(limit, 2350, 230_000)
    del case["factor"]
    case["what"] += f", {len(os.sched_getaffinity(0))} cores"
    case["said"] += f"; goal of {goal:.0f} s {'reached' if case['seconds'] < goal else 'missed'}"
    return case


CASES = {"wide": wide, "mapped": mapped, "long": long, "tall": tall}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="also write the table to this Markdown file")
    parser.add_argument("--only", default=",".join(CASES), help="cases, by commas")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds that a fit may take")
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        measure.end_with_parent()
        rng = np.random.default_rng(0)
        RandSel(2).fit(rng.normal(size=(60, 8)), np.arange(60) % 2)
        print(json.dumps(CASES[options.case](options.limit)))
        return
    page, figures = PageRun("large"), {}
    lines = ["| what | seconds | memory added, MB | result |", "|---|---|---|---|"]
    for name in options.only.split(","):
        command = [sys.executable, __file__, "--limit", options.limit, "--case", name]
        found = measure.run(command, limit=options.limit, memory=measure.most_memory())
        if "error" in found:
            lines.append(f"| {name} | | | {found['error']} |")
        else:
            lines.append(f"| {found['what']} | {found['seconds']:.1f} | {found['megabytes']:.0f} | {found['said']} |")
        if "factor" in found:
            figures["memory_factor"] = (f"{found['factor']:.1f}", f"peak memory as a multiple of X, {found['what']}")
        print(lines[-1], flush=True)
    if options.out:
        body = "One core unless the row says otherwise, one process per case.\n\n" + "\n".join(lines)
        if figures:
            body += (
                f"\n\nMemory factor: the fit of the wide table needs {figures['memory_factor'][0]} times X, X included."
            )
        page.write(options.out, body, "1 per row", figures=figures)


if __name__ == "__main__":
    main()
