"""Rows of text as CSV and Markdown tables."""

import csv
import io


def as_markdown(rows: list[dict[str, str]]) -> str:
    """Rows as a Markdown table."""
    titles = list(rows[0])
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    cells = [[" ".join(row[title].replace("|", "\\|").split()) for title in titles] for row in rows]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in cells])


def as_csv(rows: list[dict[str, str]]) -> str:
    """Rows as a CSV table."""
    if not rows:
        return ""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
