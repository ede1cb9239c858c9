"""How fast is it on my size?

Measure a few small sizes on your own machine, and extrapolate. From some hundred samples and thousands of features on,
time grows like samples² × features for `RandSel` (above 2000 samples, in proportion to the samples) and like
samples × features² for `InteractionScan`.

To learn: wide tables are cheap for `RandSel`; for `InteractionScan` twice the features are four times the time.
"""

import time
import warnings
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from randsel import InteractionScan, RandSel

warnings.simplefilter("ignore", UserWarning)  # that nothing stands out of noise
MINE = (200, 50_000)  # samples and features: put yours here


def seconds(method, m, n):
    """Return the seconds of a fit on noise."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((m, n), dtype=np.float32), rng.random(m) < 0.5
    start = time.process_time()  # what others do on the machine does not count; with several threads, their sum
    method.fit(X, y)
    return time.process_time() - start


figure = Figure(figsize=(6, 3.4), layout="constrained")
axes = figure.subplots()
cases = ((RandSel(20), [4000, 8000, 16_000], 1, "#c1121f"), (InteractionScan(20), [1000, 2000, 4000], 2, "#3b7fc4"))
for method, sizes, power, colour in cases:
    name = type(method).__name__
    seconds(method, 100, 100)  # the first fit imports
    taken = [seconds(method, MINE[0], n) for n in sizes]
    expected = taken[-1] * (MINE[1] / sizes[-1]) ** power
    print(f"measured: {name}, {MINE[0]}×{sizes[-1]}: {taken[-1]:.2f} s; expected for {MINE[1]}: {expected:.1f} s")
    axes.plot(sizes, taken, "o-", color=colour, label=f"{name}, measured")
    axes.plot([sizes[-1], MINE[1]], [taken[-1], expected], ":", color=colour, label=f"extrapolated, power {power}")
axes.set(xscale="log", yscale="log", xlabel=f"features, at {MINE[0]} samples", ylabel="seconds")
axes.legend(frameon=False, fontsize="small")
figure.savefig(Path("how_fast.png"), dpi=110)
