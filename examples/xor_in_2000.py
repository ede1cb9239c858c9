"""Can two features be found that say nothing alone, among 2000, from 250 samples?

The label is the XOR of the signs of two features. Neither has a main effect, so filters and linear models cannot see
them, and a random forest finds the pair only by chance. The scan tests all two million pairs.

To learn: features that act only together are in no ranking of single features. A test of pairs finds them.
"""

from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from randsel import InteractionScan, datasets, plots

X, y, relevant = datasets.make_xor(250, 2000, random_state=7)
order = np.random.default_rng(7).permutation(2000)
X, relevant = X[:, order], np.sort(np.argsort(order)[relevant])
print(f"The label depends on features {relevant[0]} and {relevant[1]}.")

forest = RandomForestClassifier(500, random_state=0).fit(X, y)
places = np.argsort(np.argsort(-forest.feature_importances_))[relevant] + 1
print(f"Places of the two in a random forest's importances: {places[0]} and {places[1]} of 2000.")

scan = InteractionScan().fit(X, y)
print(f"Selected at q ≤ 0.05: {scan.get_support(indices=True)}")
i, j = relevant
print(f"Partner of {i}: {scan.partner_[i]}, corrected p of the pair: {scan.pairs_[0]['p_corrected']:.1e}")
print(f"p of their main effects, not corrected: {scan.main_pvalues_[i]:.2f} and {scan.main_pvalues_[j]:.2f}")
print(f"Corrected p of the best other pair: {scan.pairs_[1]['p_corrected']:.2f}")
plots.figure_of(plots.pair_panels(X, y, scan, count=3)).savefig(Path("xor_in_2000.png"), dpi=110)
