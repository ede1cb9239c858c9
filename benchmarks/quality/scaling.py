"""Show why recall on linear Weston differs from the paper: columns scaled or not, noise of variance or deviation 20.

python benchmarks/quality/scaling.py [--seeds 10] [--out docs/results/scaling.md]
"""

import argparse
import os
import sys
from pathlib import Path

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
from pages import PageRun

from randsel import BaHSIC, FoHSIC, KernelRFE, RandSel, datasets
from randsel._utils.text import as_markdown

METHODS = {"randSel": RandSel, "BaHSIC": BaHSIC, "FoHSIC": FoHSIC, "RFE": KernelRFE}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    page, rows = PageRun("scaling"), []
    for noise_is in ("variance", "sd"):
        for scale in (True, False):
            row = {"noise 20 is its": noise_is, "columns scaled": "yes" if scale else "no"}
            for name, method in METHODS.items():
                recalls = []
                for seed in range(options.seeds):
                    X, y, relevant = datasets.make_weston_linear(noise_is=noise_is, random_state=3000 + seed)
                    selector = method(len(relevant), scale=scale, target="classification").fit(X, y)
                    recalls.append(selector.support_[relevant].mean())
                row[name] = f"{np.mean(recalls):.2f}"
            rows.append(row)
    text = (
        "Recall of the five relevant features among the first five of 100, mean over data sets of 300 samples.\n\n"
        + as_markdown(rows)
    )
    print(text)
    if options.out:
        page.write(options.out, text, f"{options.seeds} per row")


if __name__ == "__main__":
    main()
