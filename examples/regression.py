"""What if the target is a number?

Give numbers as y. Here the target depends on five of 500 features, as in Friedman's benchmark: on the product of two
through a sine, on one through a square, and on two in a straight line. Whole numbers of at most four values would be
taken for classes, unless you say `target="regression"`.

To learn: a straight line cannot see an effect that rises on both sides of the middle, such as that of feature 2; the
methods here can. The scan also says which two features act together.
"""

from pathlib import Path

from matplotlib.figure import Figure
from sklearn.datasets import make_friedman1
from sklearn.feature_selection import f_regression

from randsel import InteractionScan, RandSel

X, y = make_friedman1(300, 500, noise=1.0, random_state=0)
selector = RandSel(5).fit(X, y)
scan = InteractionScan().fit(X, y)
linear = f_regression(X, y)[1]
print("Features 0 to 4 matter: 10 sin(π x0 x1) + 20 (x2 - ½)² + 10 x3 + 5 x4 + noise.")
ranks = RandSel(5, kernel="rank").fit(X, y)
print(f'RandSel(5): {selector.order_[:5]}; with kernel="rank": {ranks.order_[:5]}')
print(f"InteractionScan, q ≤ 0.05: {scan.get_support(indices=True)}")
print("p of a straight line through feature 2:", f"{linear[2]:.2f};", f"of the scan: {scan.main_pvalues_[2]:.1e}")
best = scan.pairs_[0]
print(f"Best pair: {best['i']} and {best['j']}, corrected p = {best['p_corrected']:.1e}")
figure = Figure(figsize=(8, 2.6), layout="constrained")
for axes, j in zip(figure.subplots(1, 5, sharey=True), range(5), strict=True):
    axes.plot(X[:, j], y, ".", markersize=3, color="#3b7fc4")
    axes.set(xlabel=f"feature {j}", title=f"p = {scan.main_pvalues_[j]:.0e}")
figure.axes[0].set_ylabel("target")
figure.savefig(Path("regression.png"), dpi=110)
