"""What if nothing is there?

A ranking always has a first place, also when all 1000 features are noise. `RandSel` compares what it reached with what
culling noise would reach, and warns; `InteractionScan` selects nothing. Over 40 such tables the scan may select
something in about two, by the level of 0.05 that it keeps.

To learn: read the warning before the names.
"""

import warnings
from pathlib import Path

import numpy as np

from randsel import InteractionScan, RandSel, plots

rng = np.random.default_rng(8)
X, y = rng.standard_normal((100, 1000)), rng.permutation(np.repeat(["case", "control"], 50))
with warnings.catch_warnings(record=True) as remarks:
    warnings.simplefilter("always")
    selector = RandSel().fit(X, y)
print(f"RandSel returns {selector.n_features_} features, with a warning:")
print(f"  {remarks[0].message}")
best = selector.path_.rounds[selector.path_.best]
print(f"Alignment {best.alignment:.2f}; culled noise reaches about {best.chance:.2f}.")
print(f"InteractionScan selects {InteractionScan().fit(X, y).n_features_}.")
selected = [InteractionScan().fit(rng.standard_normal((100, 200)), y).n_features_ for _ in range(40)]
print(f"In 40 other tables of noise it selects something in {np.count_nonzero(selected)}.")
figure = plots.culling_path(
    selector, highlight=np.array([], dtype=int), title="Nothing but noise: agreement stays below that of culled noise"
)
figure.savefig(Path("nothing_there.png"), dpi=100)
