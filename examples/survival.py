"""What if the outcome is a survival time, and some samples are censored?

Give events and times as y, as in scikit-survival: a structured array of bool and float. Here the hazard depends on
one of 200 features, and on the product of two others. Half of the samples had the event; of the others we only know
that they survived until their last visit.

To learn: do not leave censored samples out. Curves of a feature that was selected on the same samples flatter it;
those of the risk of held-out samples do not.
"""

from pathlib import Path

import numpy as np

from randsel import InteractionScan, RandSel, plots
from randsel.analysis import Settings, analyse
from randsel.tables import Table

rng = np.random.default_rng(0)
X = rng.standard_normal((300, 200))
time = rng.exponential(24.0 * np.exp(-0.8 * X[:, 0] - 0.8 * X[:, 1] * X[:, 2]))
last_visit = rng.uniform(0.0, 48.0, 300)
y = np.zeros(300, dtype=[("event", bool), ("months", float)])
y["event"], y["months"] = time <= last_visit, np.minimum(time, last_visit)
print(f"{y['event'].sum()} of {len(y)} samples had the event. Feature 0 matters, and the product of 1 and 2.")

scan = InteractionScan().fit(X, y)
best = scan.pairs_[0]
print(f"InteractionScan, q ≤ 0.05: {scan.get_support(indices=True)}")
print(f"Best pair: {best['i']} and {best['j']}, corrected p = {best['p_corrected']:.1e}")
print(f"RandSel(3): {RandSel(3).fit(X, y).get_support(indices=True)}")

names = tuple(f"g{j}" for j in range(200))
accuracy = analyse(Table(X, y, names), Settings(halves=0, pairs="none")).accuracy
scores = ", ".join(f"{score:.2f}" for score in accuracy.selected)
print(f"Concordance index of the folds of a nested cross-validation: {scores}; chance is 0.5.")
curves = {"feature 0": X[:, 0], "feature 1, which acts with 2": X[:, 1], "predicted risk, held out": accuracy.high_risk}
plots.figure_of(plots.survival_panels(y, curves)).savefig(Path("survival.png"), dpi=110)
