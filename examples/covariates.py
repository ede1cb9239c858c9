"""What if age goes with the disease, and with many features?

Patients are older than controls, and 100 of 300 proteins change with age. Two proteins are related to the disease
itself: cases have more of them than controls of the same age. If age is a covariate, both selectors first remove what
age explains from the disease and from every protein.

To learn: pass what you would adjust for in a regression (age, sex, storage time) as `covariates`. Nothing can be
learned about a protein that age explains completely.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from randsel import InteractionScan, RandSel

rng = np.random.default_rng(1)
age = rng.uniform(20, 80, 200)
decades = (age - 50) / 10
proteins = rng.standard_normal((200, 300))
proteins[:, 100:200] += 0.5 * decades[:, None]
case = 0.8 * decades + 1.5 * proteins[:, :2].sum(axis=1) + rng.logistic(size=200) > 0
print(f"Mean age: {age[case].mean():.0f} years in cases, {age[~case].mean():.0f} in controls. Proteins 0 and 1 matter.")

scans = {}
for title, given in (("age ignored", {}), ("given age", {"covariates": age})):
    scans[title] = scan = InteractionScan(order=1).fit(proteins, case, **given)
    first = RandSel(5).fit(proteins, case, **given).order_[:5]
    print(f"{title}: {scan.n_features_} proteins with q ≤ 0.05, {scan.support_[100:200].sum()} of them follow age.")
    print(f"  RandSel ranks first: {first}")

figure = Figure(figsize=(9.5, 3.2), layout="constrained")
scatter, *panels = figure.subplots(1, 3)
for group, colour, label in ((case, "#c1121f", "cases"), (~case, "#3b7fc4", "controls")):
    scatter.plot(age[group], proteins[group, 100], ".", color=colour, label=label)
scatter.set(title="protein 100 follows age", xlabel="age in years", ylabel="amount")
scatter.legend(frameon=False)
for axes, (title, scan) in zip(panels, scans.items(), strict=True):
    strength = -np.log10(scan.main_pvalues_)
    axes.plot(np.arange(2, 300), strength[2:], ".", color="0.6", label="noise")
    axes.plot(np.arange(100, 200), strength[100:200], ".", color="#e09f3e", label="age")
    axes.plot([0, 1], strength[:2], "o", color="#c1121f", label="disease")
    axes.set(title=title, xlabel="protein", ylabel="-log10 p")
panels[0].legend(frameon=False)
figure.savefig(Path("covariates.png"), dpi=110)
