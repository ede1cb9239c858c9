"""What tells tuberculosis from other lung disease in 1074 blood metabolites, alone and together?

Mass-spectrometry profiles of 175 patients in The Gambia (Weiner et al. 2018, Nature Communications 9:5208), 48 of them
with active tuberculosis. Hundreds of metabolites shift with the disease and with each other: pairs are only reported
for what those main effects leave unexplained.

To learn: hundreds of main effects, and no pair beyond them; "no interaction" is an answer too.
"""

import os
import sys
from pathlib import Path

import numpy as np

from randsel import InteractionScan, plots

here = Path(__file__).resolve().parents[2] / "shared" / "data"
path = Path(os.environ.get("RANDSEL_DATA", here)) / "tb_gambia_ord.npz"
if not path.exists():
    print(f"{path.name} is not here; set RANDSEL_DATA to the folder that holds it.")
    sys.exit(0)
data = np.load(path, allow_pickle=False)
names = data["feature_names"] if "feature_names" in data else np.arange(data["X"].shape[1]).astype(str)
y = data["class_names"][data["y"]]

scan = InteractionScan().fit(data["X"].astype(float), y)
print(f"{scan.n_features_} of {len(names)} metabolites selected at q ≤ 0.05.")
print("First of the ranking:")
for j in scan.order_[:6]:
    print(f"  {names[j]}: q = {scan.qvalues_[j]:.1e}, main effect p = {scan.main_pvalues_[j]:.1e}")
best = scan.pairs_[0]
print(f"Best pair: {names[best['i']]} and {names[best['j']]}, corrected p = {best['p_corrected']:.2f}")
print("Pairs of corrected p ≤ 0.05:", int(np.sum(scan.pairs_["p_corrected"] <= 0.05)))
permuted = InteractionScan().fit(data["X"].astype(float), np.random.default_rng(0).permutation(y))
print(f"With permuted labels {permuted.n_features_} are selected.")
plots.interaction_heatmap(scan, names=names).figure.savefig(Path("tuberculosis.png"), dpi=90)
