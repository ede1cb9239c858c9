"""How do I put it into a pipeline and cross-validate?

`RandSel` is a step like any other of scikit-learn: selection is repeated inside every fold, on the training samples
only. Shuffled labels show why this matters: if features are selected on all samples first, a cross-validation finds
accuracy where there is none.

To learn: put the selector into the pipeline, never before the cross-validation.
"""

import warnings
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from randsel import RandSel, datasets

warnings.simplefilter("ignore", UserWarning)  # that nothing stands out of shuffled labels, which is true
X, y, relevant = datasets.make_xor(200, 500, random_state=2)
shuffled = np.random.default_rng(0).permutation(y)
model = make_pipeline(StandardScaler(), RandSel(10), SVC())
outcome = {}
for name, labels in (("true labels", y), ("shuffled labels", shuffled)):
    inside = cross_val_score(model, X, labels, cv=5)
    first = RandSel(10).fit_transform(X, labels)  # wrong: has seen the test samples
    outcome[name] = inside, cross_val_score(make_pipeline(StandardScaler(), SVC()), first, labels, cv=5)
    print(f"{name}: {outcome[name][0].mean():.2f} selected inside the folds, {outcome[name][1].mean():.2f} before them")
search = GridSearchCV(model, {"randsel__n_features_to_select": [2, 5, 20]}, cv=5).fit(X, y)
print(f"GridSearchCV takes {search.best_params_['randsel__n_features_to_select']} features.")
figure = Figure(figsize=(6, 3), layout="constrained")
axes = figure.subplots()
for at, (inside, before) in enumerate(outcome.values()):
    for shift, values, colour in ((-0.12, inside, "#3b7fc4"), (0.12, before, "#c1121f")):
        axes.plot(np.full(5, at + shift), values, "o", color=colour, alpha=0.7)
axes.axhline(0.5, color="0.5", linestyle="--", linewidth=1)
axes.set_xticks([0, 1], outcome)
axes.plot([], [], "o", color="#3b7fc4", label="selection inside the folds")
axes.plot([], [], "o", color="#c1121f", label="selection before, on all samples")
axes.set(ylabel="accuracy of each fold", ylim=(0.3, 1.02), xlim=(-0.5, 1.5))
figure.legend(frameon=False, loc="outside upper left", ncols=2)
figure.savefig(Path("pipeline.png"), dpi=110)
