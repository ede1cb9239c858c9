"""Measure size and power of the p-values of features, pairs and selections, compared with tests that suit the data.

python benchmarks/quality/errors.py [--only TEXT] [--sets N] [--quick] [--jobs 2] [--seconds S] [--data FOLDER]
                                    [--cells FOLDER] [--again] [--list] [--page-only] [--out docs/results/errors.md]

`--only size/classes --sets 50` measures the cells whose name contains the text, on 50 data sets each, and prints the
table; `--only` may be repeated, and "n 30/" does not match "n 300". Finished blocks of data sets are appended to a file
in the folder of cells, one file per run. They are computed again only if the simulation, or the answers of the package
(`answers.py`), have changed. Files of other machines can be copied into the folder: `--page-only --any-source
--out FILE` makes the page of them.
"""

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from errors_page import write_page, write_tables
from errors_power import power_cells
from errors_size import size_cells
from simulation import Benchmark, main


def all_cells(folder):
    """Return cells by name; `folder` holds the real tables."""
    return {cell.name: cell for cell in (*size_cells(folder), *power_cells())}


BENCHMARK = Benchmark(
    page="errors",
    description=__doc__,
    files=("cells.py", "errors_data.py", "errors_tests.py", "errors_size.py", "errors_power.py", "errors_effects.json"),
    all_cells=all_cells,
    write_tables=write_tables,
    write_page=write_page,
    long=("500 SNPs",),  # longer than a minute on few data sets
)

if __name__ == "__main__":
    main(BENCHMARK)
