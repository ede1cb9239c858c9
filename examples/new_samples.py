"""Does my panel hold in a second cohort?

A panel is selected from half of the breast cancer table of scikit-learn, saved, and applied to the other half: as it
is, on another scale, and without one of its features. The commands for files are `randsel select` and `randsel apply`.

To learn: read the warnings before the predictions; a scale that has moved spoils any panel.
"""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

from randsel import Panel, plots
from randsel.analysis import Settings, analyse
from randsel.panels import auc_with_interval, fit_panel, write_panel
from randsel.tables import Table

data = load_breast_cancer()
frame, labels = pd.DataFrame(data.data, columns=data.feature_names), data.target_names[data.target]
rows = np.random.default_rng(0).permutation(len(frame))
first, second = rows[:284], rows[284:]

table = Table(frame.to_numpy()[first], labels[first], tuple(frame.columns))
analysis = analyse(table, Settings(top=5, halves=0, pairs="none"))
write_panel(fit_panel(analysis), Path("panel.json"))
panel = Panel.load("panel.json")
print("Panel:", ", ".join(panel.features_))

cohort, outcome = frame.iloc[second], labels[second]
moved = np.log2(cohort + 1e-3)
without = cohort.drop(columns=panel.features_[0])
for name, samples, options in (
    ("as it is", cohort, {}),
    ("logarithms", moved, {}),
    ("logarithms, ranks within the cohort", moved, {"rescale": True}),
    (f"without {panel.features_[0]!r}", without, {"allow_missing": True}),
):
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("once")
        accuracy = np.mean(panel.predict(samples, **options) == outcome)
        probabilities = panel.predict_proba(samples, **options)[:, 1]
    area, low, high = auc_with_interval(probabilities, outcome == panel.classes_[1])
    print(f"{name}: accuracy {accuracy:.2f}, AUC {area:.2f} ({low:.2f} to {high:.2f})")
    for note in notes:
        print("  Warning:", note.message)

axes = plots.roc_curve(outcome, panel.predict_proba(cohort)[:, 1], positive=str(panel.classes_[1]))
axes.figure.savefig(Path("new_samples.png"), dpi=110)
