"""Fit a sparse table of counts that would not fit into memory as a dense array, on one core.

python benchmarks/scale/sparse_tables.py [--out docs/results/sparse.md] [--cells 20000] [--genes 20000] [--density 0.05]

The fit runs in a separate process, whose address space is limited to `--memory` gigabytes; its memory is the peak
resident set during the fit minus that before it.
"""

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import measure

measure.one_core()

import numpy as np
from pages import PageRun
from scipy import sparse

from randsel import RandSel

#: Genes that are expressed more often in cells of the second type.
MARKERS = 50


def make_counts(cells, genes, density, rng):
    """Return counts in compressed rows, and the type of every cell; the first genes are markers of the second type."""
    types = rng.integers(0, 2, cells)
    rows, columns = [], []
    for gene in range(genes):
        rate = density * (1.0 + 2.0 * types) if gene < MARKERS else np.full(cells, density)
        expressed = np.flatnonzero(rng.random(cells, dtype=np.float32) < rate)
        rows.append(expressed.astype(np.int32))
        columns.append(np.full(len(expressed), gene, dtype=np.int32))
    rows, columns = np.concatenate(rows), np.concatenate(columns)
    counts = (1 + rng.poisson(1.0, len(rows))).astype(np.float32)
    return sparse.csr_array((counts, (rows, columns)), shape=(cells, genes)), types


def fit(options):
    """Return the measurements of one fit."""
    X, types = make_counts(options.cells, options.genes, options.density, np.random.default_rng(0))
    size = (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / 1e6
    before, started = measure.resident("VmRSS"), time.process_time()
    selector, seconds, megabytes = measure.measured(
        lambda: RandSel(MARKERS, random_state=0).fit(X, types), options.limit, most=1
    )
    return {
        "what": f"{options.cells} × {options.genes}, density {X.nnz / (options.cells * options.genes):.3f}",
        "size": size,
        "dense": options.cells * options.genes * X.dtype.itemsize / 1e9,
        "seconds": seconds,
        "cpu": time.process_time() - started,
        "megabytes": megabytes,
        "peak": before + megabytes,
        "markers": int(selector.support_[:MARKERS].sum()),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="also write the table to this Markdown file")
    parser.add_argument("--cells", type=int, default=20_000)
    parser.add_argument("--genes", type=int, default=20_000)
    parser.add_argument("--density", type=float, default=0.05)
    parser.add_argument("--memory", type=float, default=4.0, help="gigabytes of address space of the process")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds that a fit may take")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        measure.end_with_parent()
        print(json.dumps(fit(options)))
        return
    table = ["--cells", options.cells, "--genes", options.genes, "--density", options.density]
    command = [sys.executable, __file__, *table, "--limit", options.limit, "--child"]
    page = PageRun("sparse")
    record = measure.run(command, limit=options.limit, memory=int(options.memory * 1e9))
    if "error" in record:
        sys.exit(f"no result within {options.memory:g} GB and {options.limit:g} s: {record['error']}")
    heads = (
        "table",
        "as stored, MB",
        "as a dense array, GB",
        "seconds",
        "processor seconds",
        "memory added, MB",
        "peak, MB",
        "markers",
    )
    numbers = (f"{record[name]:.0f}" for name in ("seconds", "cpu", "megabytes", "peak"))
    cells = (record["what"], f"{record['size']:.0f}", f"{record['dense']:.1f}", *numbers, f"{record['markers']} of 50")
    lines = [f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), cells)]
    print("\n".join(lines))
    if options.out:
        head = (
            "`RandSel(50)` on counts of simulated cells, one core, in a "
            f"process whose address space is limited to {options.memory:g} GB. On a busy machine, seconds exceed "
            "processor seconds.\n\n"
        )
        page.write(options.out, head + "\n".join(lines), "1")


if __name__ == "__main__":
    main()
