"""Set the effects of errors.py: those for which the better yardstick has a power of about .8.

python benchmarks/quality/errors_effects.py [--jobs 2]

writes errors_effects.json; a few minutes on two cores. Run it after a change of the simulated samples or yardsticks.
"""

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

import argparse
import json
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
from cells import LEVELS
from errors_power import EFFECTS, PRODUCT, power_cells, power_of, product_sample, product_yardstick
from errors_tests import GOAL_TESTS
from pool import run_tasks

#: Power of the better yardstick.
POWER = 0.8
#: Largest effect of the search by bisection, its steps, and the samples of all data sets of a step.
STRONGEST, STEPS, N_SAMPLES = 32.0, 7, 1500


def effect_of_yardsticks(make_sample, yardsticks, level):
    """Return the effect for which the better yardstick has power .8; None if no effect gives half of it."""
    n_sets = max(N_SAMPLES // len(make_sample(np.random.default_rng(0), 0.0).y), 8)

    def best_power(effect):
        below = {}
        for seed in range(n_sets):
            sample = make_sample(np.random.default_rng([seed, 7]), effect)
            for test, pvalues in yardsticks(sample).items():
                if test in GOAL_TESTS:
                    below.setdefault(test, []).append(np.mean(pvalues <= level * (1 + 1e-9)))
        return max(map(np.mean, below.values()))

    low, high = 0.0, STRONGEST
    for _ in range(STEPS):
        middle = np.sqrt(max(low, STRONGEST / 2**11) * high)
        low, high = (low, middle) if best_power(middle) >= POWER else (middle, high)
    return None if best_power(high) < POWER / 2.0 else float(high)


def effect_of_product():
    """Return the effect for which least squares has power .98 at .05."""
    grid = np.arange(0.3, 0.7, 0.02)
    for effect in grid:
        samples = [product_sample(np.random.default_rng([seed, 11]), effect, m=2) for seed in range(2000)]
        if np.mean([product_yardstick(sample)["least squares"] <= LEVELS[0] for sample in samples]) >= 0.98:
            return float(effect)
    return float(grid[-1])


def effect_of(task):
    """Return the effect of a cell at a level, rounded."""
    name, level = task
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name == PRODUCT:
            effect = effect_of_product()
        else:
            arguments = CELLS[name].simulate.keywords
            effect = effect_of_yardsticks(arguments["make_sample"], arguments["yardsticks"], level)
    return {"effect": None if effect is None else float(f"{effect:.4g}")}


CELLS = {cell.name: cell for cell in power_cells() if getattr(cell.simulate, "func", None) is power_of}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes, one thread each")
    tasks = [*((name, level) for name in CELLS for level in LEVELS), (PRODUCT, LEVELS[0])]
    results = dict(run_tasks(tasks, effect_of, parser.parse_args().jobs))
    effects = {}
    for name, level in tasks:
        effects.setdefault(name, {})[f"{level:g}"] = results[name, level]["effect"]
    EFFECTS.write_text(json.dumps(effects, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
