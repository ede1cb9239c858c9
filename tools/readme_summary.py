"""Write tables and figures of README.md and docs from docs/results, so that no number is copied by hand.

python tools/readme_summary.py

Tables stand between marks in README.md and docs/explanation/comparison.md. A figure of docs/results/figures.json
stands in any page as `<!-- figure NAME -->value<!-- end -->`; `make figures` lists the names.
"""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
END = "<!-- end -->"
_FIGURE = re.compile(rf"(<!-- figure (\w+) -->).*?({END})", re.DOTALL)


def rows(text: str) -> list[list[str]]:
    """Cells of the rows of the first table of a text, without its head."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("|---"))
    cells = []
    for line in lines[start + 1 :]:
        if not line.startswith("| "):
            break
        cells.append([cell.strip() for cell in line.strip("|").split("|")])
    return cells


#: Methods of real.md that the README shows; other settings of RandSel stay on that page.
SHOWN = ("all features", "HSIC Lasso", "mRMR", "linear SVM-RFE", "kernel RFE", "stability selection", "F-test")
SHOWN += ("random forest", "random features")
#: Recovery problems of real.md that the README shows.
PROBLEMS = ("XOR, 300×100", "XOR, 300×1000", "weak effects, 300×1000")


def section(results: str, heading: str) -> str:
    """Text of a page from a heading on."""
    return results[results.index(f"\n## {heading}") :]


def methods(results: str) -> str:
    """One row per method: accuracy and rank on real tables, recall of features with a known effect, seconds."""
    recovery = section(results, "Recovery of known relevant features")
    titles = next(line for line in recovery.splitlines() if line.startswith("| method |")).split("|")
    positions = [[title.strip() for title in titles].index(problem) - 1 for problem in PROBLEMS]
    recall = {row[0]: [row[position] for position in positions] for row in rows(recovery)}
    lines = [
        f"| method | accuracy, 10 features | 20 features | rank | recall, {' | '.join(PROBLEMS)} | seconds |",
        "|---" * 8 + "|",
    ]
    for name, _, ten, twenty, *_, rank, seconds in rows(section(results, "Classification, all sets")):
        if name in SHOWN or name.startswith("**"):
            label = "**`RandSel()`**" if name.startswith("**") else name
            cells = [ten, twenty, rank, *recall[name.strip("*")], seconds]
            lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def peers(results: str) -> str:
    """One row per method, one column per problem, recall and seconds in the cells."""
    parts = [part.partition("\n") for part in results.split("\n## ")[1:] if "| times RandSel's |" in part]
    problems = [heading for heading, _, _ in parts]
    found = [{row[0]: (row[2], row[4]) for row in rows(rest)} for _, _, rest in parts]
    lines = ["| method | " + " | ".join(problems) + " |", "|---" * (len(problems) + 1) + "|"]
    for method in found[0]:
        cells = [
            f"{recall} in {seconds} s" if recall != "–" else seconds for recall, seconds in (f[method] for f in found)
        ]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def put(page: Path, start: str, text: str) -> None:
    """Replace what stands between two marks of a page."""
    before, _, rest = page.read_text().partition(start)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{start}\n{text}\n{END}{after}")


def put_figures(text: str, figures: dict[str, str]) -> str:
    """Return a text with the value of each figure between its marks; raise KeyError if a figure does not exist."""
    return _FIGURE.sub(lambda mark: f"{mark[1]}{figures[mark[2]]}{mark[3]}", text)


def main() -> None:
    put(ROOT / "README.md", "<!-- methods: written by make readme -->", methods((RESULTS / "real.md").read_text()))
    others = peers((RESULTS / "peers.md").read_text())
    put(ROOT / "docs" / "explanation" / "comparison.md", "<!-- peers: written by make readme -->", others)
    stored = RESULTS / "figures.json"
    figures = {n: entry["value"] for n, entry in json.loads(stored.read_text()).items()} if stored.exists() else {}
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        text = page.read_text()
        if (with_figures := put_figures(text, figures)) != text:
            page.write_text(with_figures)


if __name__ == "__main__":
    main()
