"""Are interactions of correlated features echoes of main effects?

The label depends on one feature only, through its distance from zero. Twenty others follow that feature. The product of
two followers follows its square, so that a naive test of pairs finds "interactions" in every data set. Taking main
effects out of the label, and out of the products, leaves next to none.

To learn: a test of pairs that does not take main effects out finds interactions wherever features are correlated.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from randsel import InteractionScan
from randsel._numerics.rank_functions import rank_functions
from randsel.interactions._evidence import Design, log_number_of_sets
from randsel.interactions._pair_scan import scan_pairs
from randsel.targets._kinds import CLASSES

naive, ours = [], []
for seed in range(50):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((200, 60))
    X[:, :20] = np.sqrt(0.7) * X[:, [0]] + np.sqrt(0.3) * X[:, :20]
    y = (np.abs(X[:, 0]) + 0.3 * rng.standard_normal(200) > 0.7).astype(int)
    share = np.ones(200)
    functions = rank_functions(X, 6, share, np.zeros(60, dtype=bool))
    design = Design(0.9 ** np.arange(6), CLASSES.contrasts(y, share, None), share, None)
    log_p = scan_pairs(functions, design, design.Y, 1770)[1] + log_number_of_sets(60, 2)
    naive.append(int(np.sum(log_p <= np.log(0.05))))
    ours.append(int(np.sum(InteractionScan(n_pairs=1770).fit(X, y).pairs_["p_corrected"] <= 0.05)))
print("50 data sets without any interaction, pairs of corrected p ≤ 0.05:")
print(f"  naive test: {np.mean(naive):.1f} on average, some in {np.mean(np.array(naive) > 0):.0%} of the data sets")
print(f"  main effects taken out: {np.mean(ours):.2f} on average, some in {np.mean(np.array(ours) > 0):.0%}")
figure = Figure(figsize=(6, 3), layout="constrained")
axes = figure.subplots()
axes.hist([naive, ours], bins=15, label=["naive test", "main effects taken out"], color=["0.6", "#c1121f"])
axes.set(xlabel="false interactions per data set", ylabel="data sets")
axes.legend(frameon=False)
figure.savefig(Path("echoes.png"), dpi=110)
