"""Measure how time and memory of `RandSel(2)` grow with features and with samples, on one core.

python benchmarks/scale/growth.py [--largest 1e6] [--limit 1800] [--again] [--out docs/results]

Every point runs in a separate process. Finished points are kept in build/growth and not computed again.
"""

import argparse
import inspect
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import measure

measure.one_core()

import numpy as np
from matplotlib.figure import Figure
from pages import PageRun

from randsel import RandSel
from randsel._utils.text import as_markdown

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "growth"
#: What grows: sizes (samples, features) in steps of half a decade.
GROWTH = {
    "features": [(100, round(10 ** (half / 2))) for half in range(6, 13)],
    "samples": [(round(10 ** (half / 2)), 200) for half in range(4, 11)],
}
#: Exponents are fitted from here on: below, what does not grow still counts.
FITTED_FROM = 10_000


def point(m, n, limit):
    """Seconds and megabytes of one fit on normal columns, float32; run in a process of its own."""
    measure.end_with_parent()
    rng = np.random.default_rng(0)
    RandSel(2).fit(rng.normal(size=(60, 8)), np.arange(60) % 2)
    X, y = rng.standard_normal((m, n), dtype=np.float32), rng.integers(0, 2, m)
    _, seconds, megabytes = measure.measured(lambda: RandSel(2).fit(X, y), limit)
    return {"seconds": seconds, "megabytes": megabytes, "data": X.nbytes / 1e6}


def exponent(sizes, values):
    """Slope of the logarithms over the large sizes, or None if fewer than two are there."""
    large = [(size, value) for size, value in zip(sizes, values, strict=True) if size >= FITTED_FROM and value > 0]
    return np.polyfit(*np.log(np.array(large).T), 1)[0] if len(large) > 1 else None


def draw(found, path):
    figure = Figure(figsize=(10, 4), layout="constrained")
    titles = {"seconds": "time of the fit, s", "megabytes": "memory that the fit adds, MB"}
    for axes, (quantity, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
        for (what, points), (colour, marker) in zip(found.items(), (("#c1121f", "o"), ("#1d3557", "s")), strict=True):
            sizes, values = [size for size, _ in points], [record[quantity] for _, record in points]
            slope = exponent(sizes, values)
            other = "100 samples" if what == "features" else "200 features"
            label = f"{what}, at {other}" + ("" if slope is None else f": exponent {slope:.2f}")
            axes.loglog(sizes, values, marker=marker, color=colour, label=label)
        axes.set(xlabel="features or samples", ylabel=title)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize="small")
    figure.savefig(path, dpi=110)


def report(found, failed):
    lines = [
        (
            "`RandSel(2)` on normal columns without any relation to two "
            "classes, float32, one core, one process per point. Seconds are those of the fit; memory is the highest "
            "resident set during the fit less the resident set before it, which holds libraries and X. Exponents are "
            f"slopes of the logarithms from {FITTED_FROM} on. Above 2000 samples the contributions come from blocks of "
            "rows."
        ),
        "",
        "![Time and memory against features and samples](growth.png)",
        "",
    ]
    for what, points in found.items():
        sizes = [size for size, _ in points]
        lines += [f"## Against {what}, at {'100 samples' if what == 'features' else '200 features'}", ""]
        rows = [
            {
                what: f"{size}",
                "seconds": f"{record['seconds']:.3g}",
                "memory added, MB": f"{record['megabytes']:.0f}",
                "X itself, MB": f"{record['data']:.1f}",
            }
            for size, record in points
        ]
        lines += [as_markdown(rows), ""] if rows else []
        slopes = {
            title: exponent(sizes, [record[quantity] for _, record in points])
            for title, quantity in (("time", "seconds"), ("memory", "megabytes"))
        }
        said = [f"{title} grows with the power {slope:.2f}" for title, slope in slopes.items() if slope is not None]
        lines += [f"From {FITTED_FROM} {what} on, {' and '.join(said)}.", ""] if said else []
    return "\n".join(lines + [f"Not finished, {size}: {error}.\n" for size, error in failed])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=float, default=1e6, help="leave larger sizes out, to try it")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds that a fit may take")
    parser.add_argument("--again", action="store_true", help="run again what timed out or crashed")
    parser.add_argument("--out", type=Path, help="folder to write growth.md and growth.png to")
    parser.add_argument("--point", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.point:
        print(json.dumps(point(*options.point, options.limit)))
        return
    page, memory = PageRun("growth"), measure.most_memory()
    found, failed = {what: [] for what in GROWTH}, []
    for what, shapes in GROWTH.items():
        for m, n in shapes:
            size = n if what == "features" else m
            if size > options.largest:
                continue
            command = [sys.executable, __file__, "--limit", options.limit, "--point", m, n]
            key = measure.key_of([inspect.getsource(point), measure.source_digest(), np.__version__])
            record = measure.kept(
                KEPT / f"{m}x{n}-{key}.json",
                lambda command=command: measure.run(command, limit=options.limit, memory=memory),
                again=options.again,
                limit=options.limit,
                memory=memory,
            )
            if "error" in record:
                failed.append((f"{m}×{n}", record["error"]))
            else:
                found[what].append((size, record))
            said = record.get("error") or f"{record['seconds']:.3g} s, {record['megabytes']:.0f} MB"
            print(f"{m}×{n}: {said}", file=sys.stderr, flush=True)
    text = report(found, failed)
    print(text)
    if options.out:
        page.write(options.out / "growth.md", text, "1 per point")
        draw(found, options.out / "growth.png")


if __name__ == "__main__":
    main()
