"""Measure recall, errors and power with covariates, batches, survival times, missing values and known markers.

python benchmarks/quality/outcomes.py [--only TEXT] [--sets N] [--quick] [--jobs 2] [--seconds S] [--data FOLDER]
                                      [--cells FOLDER] [--again] [--list] [--page-only] [--any-source]
                                      [--out docs/results/outcomes.md]

`--only survival --sets 20` simulates the cells whose name contains the text, on 20 data sets each. Finished blocks of
data sets are appended to a file in the folder of cells. They are computed again only if the simulation, or the answers
of the package (`answers.py`), have changed. Files of other machines may be copied there. Simulated cells need only what
the package itself needs. Cells of real data ("real/...") need the environment build/outcomes, which `make
bench-outcomes` sets up.
"""

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from outcomes_covariates import covariate_cells
from outcomes_page import write_page, write_tables
from outcomes_real import real_cells
from outcomes_survival import survival_cells
from outcomes_tables import table_cells
from simulation import Benchmark, main

#: Data sets of cells whose figures are so close to a goal that fewer do not decide.
MORE_SETS = {
    "covariates/error/linear/numbers": 800,
    "missing/recall/linear Weston, 300×100, 5 relevant": 400,
    "missing/recall/linear Weston, 300×100, 5 relevant, fewer samples": 400,
    "missing/recall/linear Weston, 300×100, 6 relevant": 400,
    "missing/recall/linear Weston, 300×100, 6 relevant, fewer samples": 400,
}


def all_cells(folder):
    """Return cells by name; `folder` holds the real tables."""
    cells = (*covariate_cells(), *survival_cells(), *table_cells(), *real_cells(folder))
    return {cell.name: replace(cell, n_sets=MORE_SETS.get(cell.name, cell.n_sets)) for cell in cells}


BENCHMARK = Benchmark(
    page="outcomes",
    description=__doc__,
    files=("cells.py",),
    all_cells=all_cells,
    write_tables=write_tables,
    write_page=write_page,
)

if __name__ == "__main__":
    main(BENCHMARK)
