"""Run FOCI of xicorpy, which needs an environment of its own, on one data set.

python benchmarks/quality/smallest_foci.py DATA.npz
"""
# ruff: noqa: PLC0415

import json
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
import measure


def foci_in_environment(X, y, python, limit=600.0):
    """Columns that FOCI selects, computed by another Python; RuntimeError if it fails."""
    with tempfile.NamedTemporaryFile(suffix=".npz") as file:
        np.savez(file, X=X, y=y)
        file.flush()
        found = measure.run([python, __file__, file.name], limit=limit, memory=measure.most_memory())
    if "error" in found:
        raise RuntimeError(found["error"])
    return found["columns"]


def main():
    from xicorpy import select_features_using_foci

    data = np.load(sys.argv[1])
    columns = select_features_using_foci(data["y"].astype(float), data["X"])
    print(json.dumps({"columns": [int(column) for column in columns]}))


if __name__ == "__main__":
    main()
