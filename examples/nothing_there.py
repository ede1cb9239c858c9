"""What if nothing is there?

A ranking always has a first place, also when all 1000 features are noise. `RandSel` compares the target with 99
permutations of it, and warns if the features are related to both about as closely. `InteractionScan` selects nothing.
At its level of 0.05, it may select something in about two of 40 such tables.

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
print(f"permutation_pvalue_ is {selector.permutation_pvalue_:.2f}, stands_out_ is {selector.stands_out_}.")
print(f"InteractionScan selects {InteractionScan().fit(X, y).n_features_}.")
selected = [InteractionScan().fit(rng.standard_normal((100, 200)), y).n_features_ for _ in range(40)]
print(f"In 40 other tables of noise it selects something in {np.count_nonzero(selected)}.")
panels = plots.culling_path(selector, highlight=np.array([], dtype=int), title="A culling path of nothing but noise")
plots.figure_of(panels).savefig(Path("nothing_there.png"), dpi=100)
