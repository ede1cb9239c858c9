"""Compare culling rules: combinations of main and interaction scores, and the scan, on several problems.

python benchmarks/quality/rules.py [--seeds 10] [--jobs 2] [--out docs/results/rules.md]
"""

import argparse
import os
import sys
from pathlib import Path

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
from joblib import Parallel, delayed
from pages import PageRun
from sklearn import config_context

from randsel import InteractionScan, RandSel, datasets
from randsel.culling._criteria import CRITERIA, Criterion

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


def positive_sum(c):
    return np.maximum(c.main, 0) + np.maximum(c.interaction, 0)


def larger(c):
    return np.maximum(c.main, c.interaction)


RULES = {
    "sum of positive scores (default)": positive_sum,
    "larger score": larger,
}


def culled(rule, X, y, count):
    """Fit a selector whose criterion is the rule, which is registered for the time of the fit."""
    CRITERIA["benchmark"] = Criterion(lambda c: (rule(c), c.main + c.interaction), needs_exact=True)
    try:
        with config_context(skip_parameter_validation=True):
            return RandSel(count, criterion="benchmark").fit(X, y)
    finally:
        del CRITERIA["benchmark"]


def one(make, options, seed):
    X, y, relevant = make(random_state=2000 + seed, **options)
    recalls = [culled(rule, X, y, len(relevant)).support_[relevant].mean() for rule in RULES.values()]
    for selector in (RandSel(len(relevant), kernel="rank"), InteractionScan(len(relevant))):
        recalls.append(selector.fit(X, y).support_[relevant].mean())
    return recalls


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    page = PageRun("rules")
    titles = [*RULES, '`kernel="rank"`', "InteractionScan"]
    lines = [
        (
            "Recall of the k relevant features among the first k, mean over the data sets. All columns but the last "
            "are `RandSel` with another rule or kernel."
        ),
        "",
        "| problem | " + " | ".join(titles) + " |",
        "|---" * (len(titles) + 1) + "|",
    ]
    totals = []
    for name, (make, settings) in PROBLEMS.items():
        values = Parallel(options.jobs)(delayed(one)(make, settings, seed) for seed in range(options.seeds))
        totals.append(np.mean(values, axis=0))
        lines.append(f"| {name} | " + " | ".join(f"{value:.3f}" for value in totals[-1]) + " |")
        print(lines[-1], flush=True)
    lines.append("| mean | " + " | ".join(f"{value:.3f}" for value in np.mean(totals, axis=0)) + " |")
    text = "\n".join(lines) + "\n"
    print(text)
    if options.out:
        page.write(options.out, text, f"{options.seeds} per problem")


if __name__ == "__main__":
    main()
