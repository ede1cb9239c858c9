"""Compare times relative to reference operations with the ratios stored in benchmarks/speed/ratios.json.

python benchmarks/speed/check.py [--update] [--repeats 5]

Both times of a ratio come from the same run, so that ratios are similar on other machines; smaller is better. The
smallest of several repeats counts. The exit status is 1 if a ratio is more than 30 % above the stored one; --update
stores the measured ratios.
"""

import argparse
import json
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[1]
sys.path[:0] = [str(BENCHMARKS), str(BENCHMARKS / "quality")]
import measure

measure.one_core()

import numpy as np
from speed import bootstrap_against_the_literal_reference, path_against_two_products

from interactions import speed

RATIOS = Path(__file__).with_name("ratios.json")
#: How much larger a ratio may be.
TOLERANCE = 1.3


def against_yardstick(row):
    _, _, yardstick, ours, _ = row
    return ours / yardstick


def pair_scan():
    bare, seconds, *_ = speed(1000, 1024, 4, 1)
    return seconds / bare


CHECKS = {
    "path 202×6247 float32 / two products": lambda: against_yardstick(
        path_against_two_products(202, 6247, np.float32, "normal")
    ),
    "path 300×1000 float64 / two products": lambda: against_yardstick(
        path_against_two_products(300, 1000, np.float64, "normal")
    ),
    "pair scan 1000×1024, 4 functions / bare products": pair_scan,
    "bootstrap 300×100 / literal reference": lambda: against_yardstick(bootstrap_against_the_literal_reference()),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write the ratios instead of comparing")
    parser.add_argument("--repeats", type=int, default=5, help="of which the smallest ratio counts")
    options = parser.parse_args()
    now = {name: float(f"{min(check() for _ in range(options.repeats)):.3g}") for name, check in CHECKS.items()}
    if options.update:
        RATIOS.write_text(json.dumps(now, indent=2, ensure_ascii=False) + "\n")
        print(RATIOS.read_text(), end="")
        return
    before = json.loads(RATIOS.read_text())
    lost = [name for name, ratio in now.items() if ratio > TOLERANCE * before[name]]
    for name, ratio in now.items():
        print(f"{name}: {ratio:g}, was {before[name]:g}{', worse' * (name in lost)}")
    if lost:
        sys.exit(f"More than {TOLERANCE - 1:.0%} lost: {'; '.join(lost)}")


if __name__ == "__main__":
    main()
