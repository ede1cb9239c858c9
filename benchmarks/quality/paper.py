"""Repeat an experiment of the paper by `randsel reproduce`, and write its page of results.

python benchmarks/quality/paper.py figure1|table1|table2|blackbox [--data FOLDER] [--jobs 2] [--folder FOLDER]
                                   [--page-only] [--note TEXT] [--out docs/results/NAME.md]

Finished cells are kept in build/NAME-HASH, where HASH is that of the sources, so that a run resumes but never uses
cells of other code. --page-only writes the page from a finished folder, as bootstrap_gpu.py leaves it.
"""

import argparse
import csv
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from pages import ROOT, PageRun

from randsel._utils.text import as_markdown

PICTURES = {
    "figure1.png": "Contribution of each feature as others are culled, by the paper's algorithm and by the default",
    "comparison.png": "Accuracy against the number of features",
    "weights.png": "Weights of the kernels along the path, per seed and per class",
}
N_SETS = {
    "figure1": "1 per panel",
    "table1": "1 per problem, with the cells named in the table",
    "table2": "1 file per row, with the cells named in the table",
    "blackbox": "1 per seed",
}


def rows_of(path):
    return list(csv.DictReader(path.read_text().splitlines())) if path.exists() else []


def body(folder):
    """Return the tables of a result folder, its runs and times, as the body of a page."""
    _, _, table = (folder / "table.md").read_text().partition("\n\n")
    parts = [table.strip()]
    if runs := rows_of(folder / "runs.csv"):
        parts += ["## Runs", as_markdown(runs)]
    times = rows_of(folder / "times.csv")
    methods = list(dict.fromkeys(row["method"] for row in times))
    seconds = [
        {"data": name}
        | {m: next(r["seconds"] for r in times if (r["data"], r["method"]) == (name, m)) for m in methods}
        for name in dict.fromkeys(row["data"] for row in times)
    ]
    if seconds:
        parts += ["## Seconds per selection", "All samples of an outer fold, on one core.", as_markdown(seconds)]
    return parts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=N_SETS)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of the .npz files")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--methods", help="only these, separated by commas")
    parser.add_argument("--folder", type=Path, help="folder of the results")
    parser.add_argument("--page-only", action="store_true", help="compute nothing")
    parser.add_argument("--note", default="", help="a sentence on how the runs differ")
    parser.add_argument("--out", type=Path, help="also write the page to this Markdown file")
    options = parser.parse_args()
    page = PageRun(options.name)
    folder = options.folder or ROOT / "build" / f"{options.name}-{page.sources}"
    command = [sys.executable, "-m", "randsel", "reproduce", options.name, "--out", str(folder)]
    command += ["--jobs", str(options.jobs)] if options.name.startswith("table") else []
    command += ["--data", str(options.data)] if options.name == "table2" else []
    command += ["--methods", options.methods] if options.methods else []
    if not options.page_only and (status := subprocess.run(command, check=False).returncode):
        sys.exit(status)
    parts = [*body(folder), *([options.note] if options.note else [])]
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        for name, said in PICTURES.items():
            if (folder / name).exists():
                shutil.copy(folder / name, options.out.with_suffix(".png"))
                parts.append(f"![{said}]({options.name}.png)")
        if (folder / "table.csv").exists():
            shutil.copy(folder / "table.csv", options.out.with_suffix(".csv"))
        # a folder of another name may hold cells of other code
        incomplete = "some methods were left out" if options.methods else ""
        incomplete = incomplete or ("the cells may be of other code" if options.folder else "")
        page.write(options.out, "\n\n".join(parts), N_SETS[options.name], incomplete=incomplete)


if __name__ == "__main__":
    main()
