"""Is my selection stable?

Two features act together and two alone; the other 196 are noise. `StabilitySelection` selects again on random halves of
the samples, and counts how often each feature comes back.

To learn: eight were asked for, so eight are selected; only the halves tell which of them to follow up.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from randsel import RandSel, StabilitySelection

rng = np.random.default_rng(3)
X = rng.standard_normal((400, 200))
y = X[:, 0] * X[:, 1] + 0.6 * X[:, 2] + 0.5 * X[:, 3] + 0.5 * rng.standard_normal(400) > 0
chosen = RandSel(8).fit(X, y).get_support(indices=True)

stability = StabilitySelection(RandSel(8), n_subsamples=30, random_state=0).fit(X, y)
share = stability.probabilities_
print("Features 0 to 3 matter; eight are asked for.")
for j in sorted(chosen, key=lambda j: -share[j]):
    print(f"  feature {j:3d}: selected in {share[j]:.0%} of 30 halves")
print(f"Best of the noise: {share[4:].max():.0%}.")
print(f"Selected in at least 60 % of the halves: {stability.get_support(indices=True)}")
figure = Figure(figsize=(6.5, 3), layout="constrained")
axes = figure.subplots()
best = np.argsort(-share, kind="stable")[:15]
axes.bar(range(15), share[best], color=["#c1121f" if j < 4 else "0.6" for j in best])
axes.set_xticks(range(15), best, fontsize="small")
axes.set(xlabel="feature (red: it matters)", ylabel="share of halves", ylim=(0, 1))
figure.savefig(Path("stable.png"), dpi=110)
