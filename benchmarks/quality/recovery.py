"""Count how often the relevant features are ranked first, by closed form, total contribution and bootstrap, over seeds.

python benchmarks/quality/recovery.py [--seeds 20] [--bootstrap-seeds 20] [--out docs/results/recovery.md]
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
from problems import make_weak_effects

from randsel import FTest, RandSel, datasets

PROBLEMS = {
    "XOR, 300×100": (datasets.make_xor, {}),
    "XOR, 300×200": (datasets.make_xor, {"n_features": 200}),
    "XOR, 300×1000": (datasets.make_xor, {"n_features": 1000}),
    "XOR, 80×200": (datasets.make_xor, {"n_samples": 80, "n_features": 200}),
    "linear Weston, 300×100, 5 relevant": (datasets.make_weston_linear, {}),
    "linear Weston, 300×100, 6 relevant": (datasets.make_weston_linear, {"n_relevant": 6}),
    "non-linear Weston, 300×100, 2 relevant": (datasets.make_weston_nonlinear, {}),
    "non-linear Weston, 300×100, 5 relevant": (datasets.make_weston_nonlinear, {"n_relevant": 5}),
    "five weak effects, 150×1000": (make_weak_effects, {"n_samples": 150, "effect": 0.45}),
    "five weak effects, 300×1000": (make_weak_effects, {"n_samples": 300, "effect": 0.3}),
}
METHODS = {
    "default (closed form, combined)": {},
    "closed form, combined, penalty 3": {"ridge": 3.0},
    "closed form, combined, penalty 100": {"ridge": 100.0},
    "closed form, calibrated": {"criterion": "calibrated", "scale": True, "min_features": 2},
    "closed form, total": {"criterion": "total", "scale": True},
    "bootstrap (3000 draws of m/4, total)": {"estimator": "bootstrap"},
    "F-test": None,
}


def one(make, problem, method, seed):
    """Recall at the number of relevant features, and the number that "auto" chooses (None for the F-test)."""
    X, y, relevant = make(random_state=1000 + seed, **problem)
    if method is None:
        return FTest(len(relevant)).fit(X, y).support_[relevant].mean(), None
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Nothing stands out")
        selector = RandSel(len(relevant), random_state=seed, **method).fit(X, y)
    return selector.support_[relevant].mean(), len(selector.path_.rounds[selector.path_.best].features)


def describe_sizes(sizes):
    if sizes[0] is None:
        return "–"
    low, high = np.quantile(sizes, [0.1, 0.9]).astype(int)
    return f"{int(np.median(sizes))} ({low} to {high})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--bootstrap-seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, help="also write the table to this Markdown file")
    options = parser.parse_args()
    page = PageRun("recovery")
    lines = [
        "| problem | method | seeds | recall at the number relevant | all found | size chosen by auto |",
        "|---|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    for name, (make, problem) in PROBLEMS.items():
        for label, method in METHODS.items():
            seeds = options.bootstrap_seeds if method and "estimator" in method else options.seeds
            if not seeds:
                continue
            runs = Parallel(n_jobs=options.jobs)(delayed(one)(make, problem, method, seed) for seed in range(seeds))
            recall, sizes = map(np.array, zip(*runs, strict=True))
            error = recall.std(ddof=1) / np.sqrt(seeds)
            lines.append(
                f"| {name} | {label} | {seeds} | {recall.mean():.3f} ± {error:.3f} | {np.mean(recall == 1):.0%} | "
                f"{describe_sizes(sizes)} |"
            )
            print(lines[-1], flush=True)
    if options.out:
        note = "Simulated data sets of seeds 1000 on. Recall is that of the k relevant features among the first k."
        page.write(options.out, note + "\n\n" + "\n".join(lines), "their number is in the column seeds")


if __name__ == "__main__":
    main()
