"""Write a report of simulated data and take screenshots of it in a headless Chromium, for the docs.

python tools/screenshots.py [--out docs/images] [--keep report.html]
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from browser import Browser, chromium
from fitted import analysis_of
from PIL import Image

from randsel import datasets
from randsel.report import _html as report
from randsel.tables._read import Table

#: Name, width of the window, dark, heading to start at, height.
PICTURES = [
    ("report-wide", 1200, False, "", 1500),
    ("report-dark", 1000, True, "#heatmap", 1900),
    ("report-phone", 390, False, "", 1700),
]


def table():
    """Simulate 400 samples of 300 features, six of which matter, in two runs of which one has more of the cases."""
    X, y, relevant = datasets.make_passemiers("ring+xor+sum", 400, 300, random_state=1)
    rng = np.random.default_rng(1)
    run = np.where(rng.random(len(y)) < 0.3 + 0.4 * y, "run 2", "run 1")
    names = tuple(f"gene {j + 1}" for j in range(X.shape[1]))
    return Table(X, np.where(y == 1, "case", "control"), names, batch=run, relevant=relevant)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    parser.add_argument("--keep", type=Path, help="write the report here too")
    options = parser.parse_args()
    if chromium() is None:
        sys.exit("Pictures need the program Chromium (Debian package chromium).")
    data = table()
    analysis = analysis_of(data, "classification", data="cohort.csv", halves=50)
    print("matter:  ", ", ".join(data.names[j] for j in data.relevant))
    print("selected:", ", ".join(feature.name for feature in analysis.features if feature.selected))
    html = report.render(report.contents(analysis))
    if options.keep:
        options.keep.write_text(html, encoding="utf-8")
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        path = Path(folder) / "report.html"
        path.write_text(html, encoding="utf-8")
        for name, width, dark, start, height in PICTURES:
            browser.load(path, width=width, dark=dark)
            top = browser.js(f"document.querySelector('{start}').getBoundingClientRect().top - 40") if start else 0
            file = options.out / f"{name}.png"
            browser.picture(file, clip={"y": top, "width": width, "height": height})
            # few colours do for text and dots
            Image.open(file).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(file, optimize=True)
            print(f"{file.name}: {file.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
