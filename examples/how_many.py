"""How many features should I keep?

Five of 200 features matter, some more than others. `RandSel()` takes the round of its culling path that agrees best
with the target, without any model; `RandSelCV` asks a model, by cross-validation.

To learn: look at the whole curve before you believe a number. Where it is flat several answers are as good, and the
smallest of them is the easiest to follow up.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from randsel import RandSel, RandSelCV, datasets

X, y, relevant = datasets.make_weston_linear(200, 200, random_state=1)
auto = RandSel().fit(X, y)
chosen = RandSelCV(cv=5, gammas=["median"]).fit(X, y)
print(f"Five features matter: {relevant}.")
print(f"RandSel(), by alignment: {auto.n_features_} features, {auto.get_support(indices=True)}")
print(f"RandSelCV, by a support vector machine: {chosen.n_features_} features, {chosen.get_support(indices=True)}")
sizes, means = (np.array(chosen.cv_results_[name]) for name in ("n_features", "mean_score"))
spread = np.array(chosen.cv_results_["std_score"])
close = sizes[means >= means.max() - 0.01]
print(f"Within a hundredth of the best accuracy: {np.sort(close)} features.")
figure = Figure(figsize=(6.5, 3.4), layout="constrained")
axes = figure.subplots()
axes.errorbar(sizes, means, spread, marker="o", markersize=4, color="0.4", label="accuracy over five folds, ± sd")
axes.axvline(chosen.n_features_, color="#c1121f", label=f"chosen: {chosen.n_features_}")
axes.axvline(len(relevant), color="#c1121f", linestyle=":", label=f"true: {len(relevant)}")
axes.set(xscale="log", xlabel="features kept", ylabel="accuracy")
axes.set_xticks([2, 5, 10, 20, 50, 100, 200], ["2", "5", "10", "20", "50", "100", "200"])
figure.legend(frameon=False, loc="outside upper left", ncols=3)
figure.savefig(Path("how_many.png"), dpi=110)
