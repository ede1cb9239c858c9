"""What changed in the same donors, before and after?

Twenty donors gave blood before and after a vaccination. Donors differ much more from each other than a donor differs
from day to day, and 4 of 500 genes respond to the vaccine. Given the donor of every sample, `InteractionScan` compares
the samples of each donor with each other.

To learn: name the donor (`groups=donor`). A comparison that ignores donors loses what a paired one finds.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from randsel import InteractionScan

rng = np.random.default_rng(4)
donor = np.repeat(np.arange(20), 2)
after = np.tile([False, True], 20)
genes = 2.0 * rng.standard_normal((20, 500))[donor] + 0.7 * rng.standard_normal((40, 500))
genes[:, :4] += 1.5 * after[:, None]
print("20 donors, before and after; genes 0 to 3 respond.")

ignored = InteractionScan(order=1).fit(genes, after)
paired = InteractionScan(order=1).fit(genes, after, groups=donor)
print(f"Donors ignored: {ignored.n_features_} genes with q ≤ 0.05; smallest p = {ignored.main_pvalues_.min():.1e}")
print(f"Same donors compared ({paired.comparison_}): {paired.get_support(indices=True)} with q ≤ 0.05")

figure = Figure(figsize=(9.0, 3.2), layout="constrained")
lines, *panels = figure.subplots(1, 3)
for number in range(20):
    lines.plot([0, 1], genes[donor == number, 0], "o-", color="#c1121f", markersize=3, linewidth=0.8)
lines.set_xticks([0, 1], ["before", "after"])
lines.set(title="gene 0: one line per donor", ylabel="expression", xlim=(-0.3, 1.3))
for axes, scan, title in zip(panels, (ignored, paired), ("donors ignored", "same donors compared"), strict=True):
    strength = -np.log10(scan.main_pvalues_)
    axes.plot(np.arange(4, 500), strength[4:], ".", color="0.6", label="other genes")
    axes.plot(np.arange(4), strength[:4], "o", color="#c1121f", label="respond")
    axes.set(title=title, xlabel="gene", ylabel="-log10 p", ylim=(0, 7))
panels[0].legend(frameon=False)
figure.savefig(Path("paired.png"), dpi=110)
