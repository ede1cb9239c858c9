"""Count the features that n_features_to_select="auto" selects, with known relevant features and on pure noise.

python benchmarks/quality/auto.py [--seeds 20] [--out docs/results/auto.md]
"""

import argparse
import os
import warnings
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

from randsel import RandSel, __version__, datasets


def noise(n_samples, n_features, random_state):
    rng = np.random.default_rng(random_state)
    return rng.normal(size=(n_samples, n_features)), rng.integers(0, 2, n_samples), np.arange(0)


PROBLEMS = {
    "XOR, 300×100": (datasets.make_xor, {}),
    "XOR, 300×1000": (datasets.make_xor, {"n_features": 1000}),
    "linear Weston, 300×100": (datasets.make_weston_linear, {}),
    "non-linear Weston, 300×100": (datasets.make_weston_nonlinear, {}),
    "noise, 300×100": (noise, {"n_samples": 300, "n_features": 100}),
    "noise, 300×1000": (noise, {"n_samples": 300, "n_features": 1000}),
    "noise, 60×3000": (noise, {"n_samples": 60, "n_features": 3000}),
}


def one(make, problem, seed):
    X, y, _ = make(random_state=2000 + seed, **problem)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        selector = RandSel().fit(X, y)
    best = selector.path_.rounds[selector.path_.best]
    return len(best.features), best.alignment, best.chance, any("Nothing stands out" in str(w.message) for w in caught)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path, help="also write the table to this Markdown file")
    options = parser.parse_args()
    lines = [
        "| problem | features chosen, median (10 % to 90 %) | alignment | of culled noise, about | warned |",
        "|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    for name, (make, problem) in PROBLEMS.items():
        runs = Parallel(n_jobs=os.cpu_count())(delayed(one)(make, problem, seed) for seed in range(options.seeds))
        size, alignment, chance, warned = map(np.array, zip(*runs, strict=True))
        low, high = np.quantile(size, [0.1, 0.9]).astype(int)
        lines.append(
            f"| {name} | {int(np.median(size))} ({low} to {high}) | {alignment.mean():.3f} | {chance.mean():.3f} | "
            f"{warned.mean():.0%} |"
        )
        print(lines[-1], flush=True)
    if options.out:
        note = f"`make bench-auto`, randsel {__version__}, {options.seeds} data sets each."
        options.out.write_text("\n".join(["# How many features “auto” chooses", "", note, "", *lines, ""]))


if __name__ == "__main__":
    main()
