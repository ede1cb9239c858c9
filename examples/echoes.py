"""Are interactions of correlated features echoes of main effects?

The label depends on one feature only, through its distance from zero. Twenty others follow that feature. The product of
two followers follows its square, so a naive test of pairs finds "interactions" in every data set. If main effects are
removed from the label and from the products, almost none are left.

To learn: a test of pairs must remove main effects.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from randsel import InteractionScan

first, second = np.triu_indices(60, 1)  # all 1770 pairs
naive, ours = [], []
for seed in range(50):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((200, 60))
    X[:, :20] = np.sqrt(0.7) * X[:, [0]] + np.sqrt(0.3) * X[:, :20]
    y = (np.abs(X[:, 0]) + 0.3 * rng.standard_normal(200) > 0.7).astype(int)
    # the naive test: is the product of two features correlated with the label?
    products = X[:, first] * X[:, second]
    p = stats.pearsonr(products, y[:, None], axis=0).pvalue
    naive.append(int(np.sum(len(p) * p <= 0.05)))
    ours.append(int(np.sum(InteractionScan(n_pairs=len(p)).fit(X, y).pairs_["p_corrected"] <= 0.05)))
print("50 data sets without any interaction, pairs of corrected p ≤ 0.05:")
print(f"  naive test: {np.mean(naive):.1f} on average, some in {np.mean(np.array(naive) > 0):.0%} of the data sets")
print(f"  main effects removed: {np.mean(ours):.2f} on average, some in {np.mean(np.array(ours) > 0):.0%}")
figure = Figure(figsize=(6, 3), layout="constrained")
axes = figure.subplots()
axes.hist([naive, ours], bins=15, label=["naive test", "main effects removed"], color=["0.6", "#c1121f"])
axes.set(xlabel="false interactions per data set", ylabel="data sets")
axes.legend(frameon=False)
figure.savefig(Path("echoes.png"), dpi=110)
