"""Runs `randsel select` and `randsel apply` on small tables."""

import csv

from click.testing import CliRunner

from randsel.cli._main import main

SHORT = ["--halves", 0, "--folds", 2, "--pairs", "none", "--top", 2, "--keep", "a,b"]


def invoke(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def select(*words):
    """Run select; features that are kept by request are no finding, and then the status is 3."""
    result = invoke("select", *words)
    assert result.exit_code in (0, 3), result.output
    return result


def write(path, table, *, outcome=True, columns=None, change=None):
    """Write a table as CSV, with ids and a column of text; `change` is applied to the values."""
    X = table.X if change is None else change(table.X)
    names = table.names if columns is None else columns
    extra = (
        {"status": table.y} if table.y.dtype.names is None else {"time": table.y["time"], "dead": table.y["event"] * 1}
    )
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "comment", *(extra if outcome else ()), *names])
        for i, x in enumerate(X):
            values = [repr(float(x[table.names.index(name)])) for name in names]
            rows.writerow([f"p{i}", "text", *(str(v[i]) for v in (extra.values() if outcome else ())), *values])
    return path


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def apply(results, file, *options):
    out = file.parent / f"out-{file.stem}"
    return invoke("apply", results, file, *options, "--out", out), out
