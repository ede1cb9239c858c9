"""Copy the tables of a finished `randsel reproduce` or `randsel compare` to docs/results, with command and times.

python tools/publish.py FOLDER NAME --command "randsel reproduce table1 --out FOLDER --jobs 2"
"""

import argparse
import csv
import shutil
from pathlib import Path

from randsel._utils.text import as_markdown

ROOT = Path(__file__).parents[1]
PICTURES = {
    "comparison.png": "Accuracy against the number of features",
    "weights.png": "Weights of the kernels along the path, per seed and per class",
}


def rows_of(path):
    return list(csv.DictReader(path.read_text().splitlines())) if path.exists() else []


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("name")
    parser.add_argument("--command", required=True)
    parser.add_argument("--note", default="", help="a sentence on how the runs differ")
    options = parser.parse_args()
    out = ROOT / "docs" / "results"
    heading, _, table = (options.folder / "table.md").read_text().partition("\n\n")
    runs = rows_of(options.folder / "runs.csv")
    times = rows_of(options.folder / "times.csv")
    methods = list(dict.fromkeys(row["method"] for row in times))
    seconds = [
        {
            "data": name,
            **{m: next(r["seconds"] for r in times if (r["data"], r["method"]) == (name, m)) for m in methods},
        }
        for name in dict.fromkeys(row["data"] for row in times)
    ]
    text = [heading, "", f"`{options.command}`", "", table.strip()]
    if runs:
        text += ["", "## Runs", "", as_markdown(runs)]
    text += ["", options.note] if options.note else []
    if seconds:
        text += [
            "",
            "## Seconds per selection",
            "",
            "All samples of an outer fold; on one core, unless said otherwise above.",
            "",
            as_markdown(seconds),
        ]
    for name, said in PICTURES.items():
        if (options.folder / name).exists():
            shutil.copy(options.folder / name, out / f"{options.name}.png")
            text += ["", f"![{said}]({options.name}.png)"]
    (out / f"{options.name}.md").write_text("\n".join(text) + "\n")
    shutil.copy(options.folder / "table.csv", out / f"{options.name}.csv")


if __name__ == "__main__":
    main()
