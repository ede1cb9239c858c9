"""What a path gains on one core by sketching the second-order term instead of computing it.

python benchmarks/speed/sketch.py [--samples 1000] [--features 100000] [--repeats 3]
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import measure

measure.one_core()

import numpy as np

from randsel import RandSel
from randsel.contribution import _sample


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--features", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.standard_normal((options.samples, options.features), dtype=np.float32)
    y = (X[:, 5] + X[:, 9] + rng.normal(size=options.samples) > 0).astype(int)
    ratios = {"sketched": _sample.SKETCH_RATIO, "computed": np.inf}
    seconds = {name: [] for name in ratios}
    for _ in range(options.repeats + 1):
        for name, ratio in ratios.items():
            _sample.SKETCH_RATIO = ratio
            start = time.perf_counter()
            RandSel(2).fit(X, y)
            seconds[name].append(time.perf_counter() - start)
    # the first fit of each warms up
    sketched, computed = (statistics.median(times[1:]) for times in seconds.values())
    print(f"{options.samples}×{options.features}: {sketched:.2f} s sketched, {computed:.2f} s computed, ", end="")
    print(f"{computed / sketched - 1:+.0%} without the sketch")


if __name__ == "__main__":
    main()
