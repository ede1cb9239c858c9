"""Compare criteria of culling, the rank kernel, and the scan on problems with and without main effects.

python benchmarks/quality/rules.py [--seeds 10] [--jobs 2] [--out docs/results/rules.md]
"""

import argparse
import os
import sys
import warnings
from pathlib import Path

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
from joblib import Parallel, delayed
from pages import PageRun

from randsel import InteractionScan, RandSel, datasets

PROBLEMS = {
    "XOR, 300×100": (datasets.make_xor, {}),
    "XOR, 300×1000": (datasets.make_xor, {"n_features": 1000}),
    "XOR, 300×2000": (datasets.make_xor, {"n_features": 2000}),
    "linear Weston, 5 of 100": (datasets.make_weston_linear, {}),
    "non-linear Weston, 2 of 100": (datasets.make_weston_nonlinear, {}),
    "non-linear Weston, 5 of 100": (datasets.make_weston_nonlinear, {"n_relevant": 5}),
    "ring, 250×256": (datasets.make_passemiers, {"kind": "ring", "n_samples": 250, "n_features": 256}),
    "ring+xor, 500×256": (datasets.make_passemiers, {"kind": "ring+xor", "n_samples": 500, "n_features": 256}),
    "ring+xor+sum, 500×64": (datasets.make_passemiers, {"kind": "ring+xor+sum", "n_samples": 500, "n_features": 64}),
    "ring+xor+sum, 1000×256": (
        datasets.make_passemiers,
        {"kind": "ring+xor+sum", "n_samples": 1000, "n_features": 256},
    ),
}


METHODS = {
    "default": RandSel,
    '`criterion="calibrated"`': lambda count: RandSel(count, criterion="calibrated"),
    '`criterion="total"`': lambda count: RandSel(count, criterion="total"),
    '`kernel="rank"`': lambda count: RandSel(count, kernel="rank"),
    "`InteractionScan`": InteractionScan,
}


def one(make, options, seed):
    """Return the recall of every method on one data set."""
    X, y, relevant = make(random_state=2000 + seed, **options)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Nothing stands out")
        return [make_selector(len(relevant)).fit(X, y).support_[relevant].mean() for make_selector in METHODS.values()]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    page = PageRun("rules")
    lines = [
        "Recall of the k relevant features among the first k: mean over the data sets ± standard error.",
        "",
        "| problem | " + " | ".join(METHODS) + " |",
        "|---" * (len(METHODS) + 1) + "|",
    ]
    totals = []
    for name, (make, settings) in PROBLEMS.items():
        values = Parallel(options.jobs)(delayed(one)(make, settings, seed) for seed in range(options.seeds))
        totals.append(np.mean(values, axis=0))
        errors = np.std(values, axis=0, ddof=1) / np.sqrt(options.seeds)
        cells = [f"{value:.3f} ± {error:.3f}" for value, error in zip(totals[-1], errors, strict=True)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    lines.append("| mean | " + " | ".join(f"{value:.3f}" for value in np.mean(totals, axis=0)) + " |")
    text = "\n".join(lines) + "\n"
    print(text)
    if options.out:
        page.write(options.out, text, f"{options.seeds} per problem")


if __name__ == "__main__":
    main()
