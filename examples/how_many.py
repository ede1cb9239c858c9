"""How many features should I keep?

Five of 200 features matter, some more than others. `RandSel()` takes the fewest features whose prediction error of
left-out samples is within one standard error of the smallest. `RandSelCV` takes the number with which a model of yours
predicts best in a cross-validation.

To learn: look at the whole curve. Where it is flat, several numbers are as good, and the smallest is the easiest to
follow up. A set that predicts as well as any need not hold all features that matter: the others come next in `order_`.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from randsel import RandSel, RandSelCV, datasets

X, y, relevant = datasets.make_weston_linear(200, 200, random_state=1)
auto = RandSel().fit(X, y)
chosen = RandSelCV(cv=5, gammas=["median"]).fit(X, y)
print(f"Five features matter: {relevant}.")
print(f"RandSel(), by prediction error: {auto.n_features_} features, {auto.get_support(indices=True)}")
print(f"RandSelCV, by a support vector machine: {chosen.n_features_} features, {chosen.get_support(indices=True)}")
print(f"The first eight of the path: {auto.order_[:8]}")
figure = Figure(figsize=(8, 3.4), layout="constrained")
left, right = figure.subplots(1, 2)
path = auto.path_
path_sizes = [len(r.features) for r in path.rounds]
left.errorbar(path_sizes, path.errors, path.standard_errors, marker="o", markersize=4, color="0.4")
left.axvline(auto.n_features_, color="#c1121f", label=f"chosen: {auto.n_features_}")
left.set(title="RandSel: optimistic error, to choose a size", ylabel="fraction of the variance")
sizes, means, spread = (np.array(chosen.cv_results_[name]) for name in ("n_features", "mean_score", "std_score"))
right.errorbar(sizes, means, spread, marker="o", markersize=4, color="0.4")
right.axvline(chosen.n_features_, color="#c1121f", label=f"chosen: {chosen.n_features_}")
right.set(title="RandSelCV: accuracy over five folds, ± sd", ylabel="accuracy")
for axes, place in ((left, "upper center"), (right, "lower right")):
    axes.axvline(len(relevant), color="#c1121f", linestyle=":", label=f"true: {len(relevant)}")
    axes.set(xscale="log", xlabel="features kept")
    axes.set_xticks([1, 2, 5, 10, 20, 50, 100, 200], ["1", "2", "5", "10", "20", "50", "100", "200"])
    axes.legend(frameon=False, loc=place)
figure.savefig(Path("how_many.png"), dpi=110)
