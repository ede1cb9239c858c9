"""Write the table of README.md from docs/results/recovery.md, so that no number is copied by hand.

python benchmarks/summary.py
"""

from pathlib import Path

ROOT = Path(__file__).parents[1]
START, END = "<!-- recovery: written by make readme -->", "<!-- end -->"


def table(results: str) -> str:
    """One row per problem, one column per method, recall in the cells."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in results.splitlines() if line[:2] == "| "]
    _, *rows = rows
    methods = list(dict.fromkeys(row[1] for row in rows))
    recall = {(row[0], row[1]): row[3] for row in rows}
    lines = ["| problem | " + " | ".join(methods) + " |", "|---" * (len(methods) + 1) + "|"]
    for problem in dict.fromkeys(row[0] for row in rows):
        lines.append(f"| {problem} | " + " | ".join(recall[problem, method] for method in methods) + " |")
    return "\n".join(lines)


def main() -> None:
    readme = ROOT / "README.md"
    before, _, rest = readme.read_text().partition(START)
    _, _, after = rest.partition(END)
    summary = table((ROOT / "docs" / "results" / "recovery.md").read_text())
    readme.write_text(f"{before}{START}\n{summary}\n{END}{after}")


if __name__ == "__main__":
    main()
