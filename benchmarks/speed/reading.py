"""Compare time and memory of reading a wide CSV file on one core with pandas and numpy; measure a selection from one.

python benchmarks/speed/reading.py [--out docs/results/reading.md] [--samples 200] [--features 50000]

Every reader runs in a separate process. Memory is the peak resident set during the call minus that before it; in the
last row, it is the peak of the whole process that reads a table of 300 samples and runs `RandSel` on it.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import measure

measure.one_core()

import numpy as np
from pages import PageRun

from randsel import RandSel
from randsel._utils.text import as_markdown
from randsel.tables import _read as tables
from randsel.tables.formats import _cells


def with_polars(path, _):
    return lambda: tables.read(path, target="status").X


def without_polars(path, _):
    def absent(module, **_):
        raise ImportError(module)

    _cells.optional = absent
    return lambda: tables.read(path, target="status").X


def with_pandas(path, _):
    import pandas as pd  # noqa: PLC0415 (its memory must not count for the others)

    def read():
        return pd.read_csv(path).iloc[:, 1:-1].to_numpy()

    return read


def with_numpy(path, features):
    return lambda: np.loadtxt(path, delimiter=",", skiprows=1, usecols=range(1, features + 1))


READERS = {
    "randsel.tables.read, with polars": with_polars,
    "randsel.tables.read, without": without_polars,
    "pandas.read_csv and to_numpy": with_pandas,
    "numpy.loadtxt": with_numpy,
}


def write(path, samples, features, shifted=0):
    """Write names of samples, normal numbers of six decimals, and a status; the first columns are higher in cases."""
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        file.write(",".join(["sample", *(f"g{j}" for j in range(features)), "status"]) + "\n")
        for i in range(samples):
            values = rng.standard_normal(features)
            values[:shifted] += i % 2
            numbers = ",".join(f"{value:.6f}" for value in values.tolist())
            file.write(f"s{i},{numbers},{'case' if i % 2 else 'control'}\n")


def one(name, path, features):
    """Run one reader, or reading and selecting, in this process."""
    if name == "select":
        table = tables.read(path, target="status")
        RandSel(20).fit(table.X, table.y)
        return {"megabytes": measure.resident("VmHWM"), "table": table.X.nbytes / 1e6}
    read = READERS[name](path, features)
    before = measure.resident("VmRSS")
    X, seconds, megabytes = measure.measured(read, 600)
    return {"seconds": seconds, "megabytes": megabytes, "before": before, "sum": float(X.sum())}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="also write the table to this Markdown file")
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--features", type=int, default=50_000)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        measure.end_with_parent()
        print(json.dumps(one(options.one, options.file, options.features)))
        return
    page = PageRun("reading")
    command = [sys.executable, __file__, "--features", options.features]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "wide.csv"
        write(path, options.samples, options.features)
        megabytes = path.stat().st_size / 1e6
        found = {}
        for name in READERS:
            more = [*command, "--one", name, "--file", path]
            found[name] = measure.run(more, limit=600, memory=measure.most_memory())
            print(name, found[name], flush=True)
        write(path, 300, options.features)
        whole = measure.run([*command, "--one", "select", "--file", path], limit=600, memory=measure.most_memory())
    rows = [
        {"reader": name, "seconds": f"{f['seconds']:.1f}", "memory added, MB": f"{f['megabytes']:.0f}"}
        if "error" not in f
        else {"reader": name, "seconds": f["error"], "memory added, MB": ""}
        for name, f in found.items()
    ]
    sums = {round(f["sum"], 3) for f in found.values() if "error" not in f}
    text = (
        f"One core, a process per reader: a CSV file of {options.samples} samples × "
        f"{options.features} features, {megabytes:.0f} MB of text, "
        f"{options.samples * options.features * 8 / 1e6:.0f} MB as numbers. "
        f"{'All readers find the same numbers.' if len(sums) == 1 else f'The sums of the numbers differ: {sums}.'}\n\n"
        + as_markdown(rows)
        + f"\n\nReading a CSV file of 300×{options.features} ({whole['table']:.0f} MB as numbers) and "
        "`RandSel(20).fit`: the "
        f"whole process takes {whole['megabytes']:.0f} MB at most.\n"
    )
    print(text)
    if options.out:
        page.write(options.out, text, "1")


if __name__ == "__main__":
    main()
