"""Measure recall with a tenth of the values missing, and false alarms of the scan on noise with missing values.

python benchmarks/quality/missing.py [--seeds 20] [--tables 200] [--out docs/results/missing.md]
"""

import argparse
import os
import warnings
from pathlib import Path

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

import numpy as np
from joblib import Parallel, delayed
from recovery import PROBLEMS

from randsel import InteractionScan, RandSel, __version__

FRACTION = 0.1
SELECTORS = {
    "RandSel": RandSel,
    "RandSel, calibrated": lambda count: RandSel(count, criterion="calibrated"),
    "InteractionScan": InteractionScan,
}
#: Name -> rates of missing values in the two classes, and fraction of samples in the first of them.
NOISE = {
    "complete": (0.0, 0.0, 0.5),
    "10 % missing": (0.1, 0.1, 0.5),
    "40 % missing": (0.4, 0.4, 0.5),
    "40 % missing in one class, none in the other": (0.4, 0.0, 0.5),
    "40 % missing in one class, 10 % in the other": (0.4, 0.1, 0.5),
    "40 % missing in a class of a fifth of the samples, none in the other": (0.4, 0.0, 0.2),
    "none missing in a class of a fifth of the samples, 40 % in the other": (0.0, 0.4, 0.2),
}
SAMPLES, FEATURES = 150, 60


def recall(make, problem, method, seed):
    """Return the recall of the complete table, with a tenth missing, and of as many rows as have two given values."""
    X, y, relevant = make(random_state=1000 + seed, **problem)
    rng = np.random.default_rng(seed)
    gaps = np.where(rng.random(X.shape) < FRACTION, np.nan, X)
    rows = rng.permutation(len(X))[: round((1 - FRACTION) ** 2 * len(X))]
    with warnings.catch_warnings(action="ignore"):
        fits = [SELECTORS[method](len(relevant)).fit(*table) for table in ((X, y), (gaps, y), (X[rows], y[rows]))]
    return [fit.support_[relevant].mean() for fit in fits]


def false_alarm(rates, seed):
    """Return what is significant at 5 % in a table of noise: anything, a feature alone, a pair."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((SAMPLES, FEATURES))
    X[:, :10] = rng.integers(0, 3, (SAMPLES, 10))
    X[:, 10:15] = np.exp(X[:, 10:15])
    y = (rng.permutation(SAMPLES) < rates[2] * SAMPLES).astype(int)
    X[rng.random(X.shape) < np.where(y == 1, rates[0], rates[1])[:, None]] = np.nan
    with warnings.catch_warnings(action="ignore"):
        scan = InteractionScan().fit(X, y)
    smallest = scan.pvalues_.min() * FEATURES, scan.main_pvalues_.min() * FEATURES, scan.pairs_["p_corrected"].min()
    return [p <= 0.05 for p in smallest]


def mean_and_error(values):
    """Write mean and standard error."""
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.3f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, help="also write the tables to this Markdown file")
    options = parser.parse_args()
    lines = []

    def write(line):
        lines.append(line)
        print(line, flush=True)

    write("| problem | method | complete | 10 % missing | complete, 81 % of the samples | drop |")
    write("|---|---|---|---|---|---|")
    for name, (make, problem) in PROBLEMS.items():
        for method in SELECTORS:
            tasks = (delayed(recall)(make, problem, method, seed) for seed in range(options.seeds))
            runs = np.array(Parallel(n_jobs=options.jobs)(tasks))
            cells = [*map(mean_and_error, runs.T), mean_and_error(runs[:, 0] - runs[:, 1])]
            write(f"| {name} | {method} | {' | '.join(cells)} |")
    write("\n| noise | false alarms | of features alone | of pairs |\n|---|---|---|---|")
    for name, rates in NOISE.items() if options.tables else ():
        alarms = Parallel(n_jobs=options.jobs)(delayed(false_alarm)(rates, seed) for seed in range(options.tables))
        write(f"| {name} | {' | '.join(mean_and_error(column) for column in np.array(alarms, dtype=float).T)} |")
    if options.out:
        note = (
            f"`make bench-missing`, randsel {__version__}, {options.seeds} and {options.tables} data sets. 81 % of the "
            "samples have both values of a pair, so a complete table of 81 % of the samples says as much about it. "
            f"Noise: {SAMPLES} samples, {FEATURES} features, family-wise level 5 %."
        )
        options.out.write_text("# What do missing values cost?\n\n" + note + "\n\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
