"""Test the paper's claim on cost: n_b² N for its algorithm against m² n for BaHSIC and FoHSIC, on one core.

python benchmarks/speed/cost.py [--largest-samples 1600] [--largest-features 800] [--sets 3]
                                [--out docs/results/cost.md]

Seconds are those of the processor, so that other programs count for little.
"""

import argparse
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import measure

measure.one_core()

import numpy as np
from pages import PageRun

from randsel import BaHSIC, FoHSIC, RandSel, datasets
from randsel._utils.text import as_markdown

DRAWS = 3000
SAMPLES, FEATURES = (100, 200, 400, 800, 1600), (50, 100, 200, 400, 800)
#: Samples while features grow, and features while samples grow.
FIXED = {"samples": 100, "features": 200}
BOOTSTRAP = {"estimator": "bootstrap", "criterion": "total", "n_bootstraps": DRAWS, "random_state": 0}
METHODS = {
    "bootstrap, n_b = √m": lambda m: RandSel(2, subsample=m**-0.5, **BOOTSTRAP),
    "bootstrap, n_b = m/4": lambda _: RandSel(2, subsample=0.25, **BOOTSTRAP),
    "BaHSIC": lambda _: BaHSIC(2),
    "FoHSIC": lambda _: FoHSIC(2),
    "default of randsel": lambda _: RandSel(2),
}


def fit(method, m, n, seed):
    """Processor seconds of a fit on an XOR problem, and the fraction of its two features that are selected."""
    X, y, relevant = datasets.make_xor(m, n, random_state=6000 + seed)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        support = METHODS[method](m).fit(X, y).support_
    return time.process_time() - start, float(support[relevant].mean())


def exponent(sizes, seconds):
    """Slope of the logarithms over the last three sizes."""
    return float(np.polyfit(np.log(sizes[-3:]), np.log(seconds[-3:]), 1)[0])


def grow(what, shapes, sizes, sets):
    """Return a row per method: seconds at each size, exponent, and recall at the largest size."""
    rows = []
    for method in METHODS:
        results = [[fit(method, *shape, seed) for seed in range(sets)] for shape in shapes]
        seconds = [float(np.mean([taken for taken, _ in of_shape])) for of_shape in results]
        row = {"method": method} | {f"{size} {what}": f"{s:.3g}" for size, s in zip(sizes, seconds, strict=True)}
        row["exponent"] = f"{exponent(sizes, seconds):.1f}" if len(sizes) > 2 else "–"
        row["recall at the largest"] = f"{np.mean([recall for _, recall in results[-1]]):.2f}"
        rows.append(row)
        print(row, file=sys.stderr, flush=True)
    return rows


BODY = """\
A full selection of two features of an XOR problem, processor seconds on one core, mean over data sets. The paper counts
n_b² N kernel values for a round of its algorithm, against m² n for a round of BaHSIC and FoHSIC, and suggests n_b = √m.
Here N = {draws}; *exponent* is the slope of log seconds against log size over the three largest sizes. *recall* is the
fraction of the two features that were selected: a cheap round is of use only if it finds them. BaHSIC drops a tenth of
the features per round, the bootstrap a quarter, FoHSIC adds two features.

## As samples grow, {features} features

{by_samples}

## As features grow, {samples} samples

{by_features}

## Does the claim hold?

At the largest number of samples, one selection by the bootstrap with n_b = √m takes {root:.2g} times as long as
BaHSIC and {root_forward:.2g} times as long as FoHSIC; with n_b = m/4, {quarter:.2g} and {quarter_forward:.2g} times.
There, recall of the pair is {root_recall} with n_b = √m and {recall} by BaHSIC."""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--largest-samples", type=int, default=SAMPLES[-1])
    parser.add_argument("--largest-features", type=int, default=FEATURES[-1])
    parser.add_argument("--sets", type=int, default=3, help="data sets per size")
    parser.add_argument("--out", type=Path, help="also write the tables to this Markdown file")
    options = parser.parse_args()
    page = PageRun("cost")
    samples = [m for m in SAMPLES if m <= options.largest_samples]
    features = [n for n in FEATURES if n <= options.largest_features]
    by_samples = grow("samples", [(m, FIXED["features"]) for m in samples], samples, options.sets)
    by_features = grow("features", [(FIXED["samples"], n) for n in features], features, options.sets)
    last = {row["method"]: float(row[f"{samples[-1]} samples"]) for row in by_samples}
    recalls = {row["method"]: row["recall at the largest"] for row in by_samples}
    root, quarter = (last[f"bootstrap, n_b = {n_b}"] for n_b in ("√m", "m/4"))
    text = BODY.format(
        draws=DRAWS,
        **FIXED,
        by_samples=as_markdown(by_samples),
        by_features=as_markdown(by_features),
        root=root / last["BaHSIC"],
        root_forward=root / last["FoHSIC"],
        quarter=quarter / last["BaHSIC"],
        quarter_forward=quarter / last["FoHSIC"],
        root_recall=recalls["bootstrap, n_b = √m"],
        recall=recalls["BaHSIC"],
    )
    print(text)
    if options.out:
        smaller = (samples[-1], features[-1]) != (SAMPLES[-1], FEATURES[-1])
        page.write(options.out, text, f"{options.sets} per size", incomplete="large sizes were left out" * smaller)


if __name__ == "__main__":
    main()
