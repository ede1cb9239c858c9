"""Write the colon cancer data as CSV, Parquet and h5ad, run `randsel select` on each, and compare the rankings.

python benchmarks/quality/formats.py [--out build/formats]

Needs the benchmark data in ../shared/data and the packages of the extra `files`.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import polars as pl

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data" / "colon.npz"


def write(folder):
    """Write one table in three formats, features in columns."""
    with np.load(DATA, allow_pickle=False) as found:
        X, names = found["X"].astype(np.float64), found["feature_names"].tolist()
        status = found["class_names"][found["y"]]
    frame = pl.DataFrame({**dict(zip(names, X.T, strict=True)), "status": status})
    frame.write_csv(folder / "colon.csv")
    frame.write_parquet(folder / "colon.parquet")
    with h5py.File(folder / "colon.h5ad", "w") as file:
        file.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
        file["X"] = X
        file["X"].attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
        ids = [f"s{i}" for i in range(len(X))]
        for group, columns in (("obs", {"_index": ids, "status": status.tolist()}), ("var", {"_index": names})):
            made = file.create_group(group)
            made.attrs.update({"encoding-type": "dataframe", "encoding-version": "0.2.0", "_index": "_index"})
            made.attrs["column-order"] = [name for name in columns if name != "_index"]
            for name, values in columns.items():
                made.create_dataset(name, data=values, dtype=h5py.string_dtype())
                made[name].attrs.update({"encoding-type": "string-array", "encoding-version": "0.2.0"})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "formats")
    options = parser.parse_args()
    if not DATA.exists():
        print(f"Nothing to show: {DATA} is not there.")
        return
    shutil.rmtree(options.out, ignore_errors=True)
    options.out.mkdir(parents=True)
    write(options.out)
    rankings = {}
    for kind in ("csv", "parquet", "h5ad"):
        command = [sys.executable, "-m", "randsel", "select", f"colon.{kind}", "--target", "status", "--log2"]
        print("$ randsel", *command[3:], "--out", kind, flush=True)
        done = subprocess.run([*command, "--out", kind], cwd=options.out, check=False, text=True, capture_output=True)
        print(done.stdout if kind == "csv" else f"exit status {done.returncode}\n", flush=True)
        rankings[kind] = (options.out / kind / "ranking.csv").read_bytes()
    same = len(set(rankings.values())) == 1
    print("The three rankings are the same, byte by byte." if same else "The rankings differ.")
    sys.exit(not same)


if __name__ == "__main__":
    main()
