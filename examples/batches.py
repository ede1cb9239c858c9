"""What if my classes come from different batches?

Most cases were measured in one laboratory and most controls in another, and a third of the 300 features differ
between the laboratories. Two features are related to the disease. If the batch is named, `InteractionScan` compares
cases only with controls of the same laboratory.

To learn: name the batch, or the selection finds features of the batch.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from randsel import InteractionScan
from randsel.analysis import cautions
from randsel.tables import Table

rng = np.random.default_rng(5)
case = rng.random(240) < 0.5
laboratory = np.where(rng.random(240) < np.where(case, 0.8, 0.2), "north", "south")
X = rng.standard_normal((240, 300))
X[:, 100:200] += 1.2 * (laboratory == "north")[:, None]
X[:, :2] += 1.0 * case[:, None]

table = Table(X, np.where(case, "case", "control"), tuple(f"g{j}" for j in range(300)), batch=laboratory)
print(cautions(table, "classification")[0])
ignored = InteractionScan().fit(X, case)
within = InteractionScan().fit(X, case, batch=laboratory)
print(f"Batch ignored: {ignored.n_features_} selected, {ignored.support_[100:200].sum()} of them for the laboratory.")
print(f"Within batches: selected {within.get_support(indices=True)}; 0 and 1 have to do with the disease.")
figure = Figure(figsize=(7.5, 3.2), layout="constrained")
for axes, scan, title in zip(
    figure.subplots(1, 2, sharey=True), (ignored, within), ("batch ignored", "within batches"), strict=True
):
    strength = -np.log10(scan.pvalues_)
    axes.plot(np.arange(2, 100), strength[2:100], ".", color="0.6", label="noise")
    axes.plot(np.arange(100, 200), strength[100:200], ".", color="#3b7fc4", label="laboratory")
    axes.plot(np.arange(200, 300), strength[200:], ".", color="0.6")
    axes.plot([0, 1], strength[:2], "o", color="#c1121f", label="disease")
    axes.set(title=title, xlabel="feature")
figure.axes[0].set_ylabel("-log10 p")
figure.axes[1].legend(frameon=False)
figure.savefig(Path("batches.png"), dpi=110)
