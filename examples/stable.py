"""Is my selection stable?

Select again on random halves of the samples, and count how often each feature comes back. Two features act together and
two alone; the other 196 are noise.

To learn: eight were asked for, so eight are selected; only the halves tell which of them to follow up.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from randsel import RandSel

rng = np.random.default_rng(3)
X = rng.standard_normal((400, 200))
y = X[:, 0] * X[:, 1] + 0.6 * X[:, 2] + 0.5 * X[:, 3] + 0.5 * rng.standard_normal(400) > 0
chosen = RandSel(8).fit(X, y).get_support(indices=True)

times = np.zeros(200)
for _ in range(15):
    halves = np.array_split(rng.permutation(400), 2)  # complementary pairs: each sample is in one of the two
    for half in halves:
        times[RandSel(8).fit(X[half], y[half]).get_support()] += 1
share = times / 30
print("Features 0 to 3 matter; eight are asked for.")
for j in sorted(chosen, key=lambda j: -share[j]):
    print(f"  feature {j:3d}: selected in {share[j]:.0%} of 30 halves")
print(f"Best of the noise: {share[4:].max():.0%}.")
figure = Figure(figsize=(6.5, 3), layout="constrained")
axes = figure.subplots()
best = np.argsort(-share, kind="stable")[:15]
axes.bar(range(15), share[best], color=["#c1121f" if j < 4 else "0.6" for j in best])
axes.set_xticks(range(15), best, fontsize="small")
axes.set(xlabel="feature (red: it matters)", ylabel="share of halves", ylim=(0, 1))
figure.savefig(Path("stable.png"), dpi=110)
