"""Figure 1 of the paper: contributions along the culling path of an XOR problem with 200 features, by two methods.

The paper does not state the number of samples. With 300 samples, its algorithm rarely finds the pair among 200
features, and the default of this package does. Each method is therefore shown with its own number of samples.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from randsel import plots
from randsel.datasets import make_xor
from randsel.selectors import RandSel


@dataclass(frozen=True)
class PathSettings:
    """A panel of the figure: method, number of samples, and parameters of the selector."""

    method: str
    n_samples: int
    parameters: dict[str, Any] = field(default_factory=dict)


#: Number of features, and the panels.
N_FEATURES = 200
PANELS = (
    PathSettings(
        "the paper's algorithm",
        2000,
        {"estimator": "bootstrap", "criterion": "total", "n_bootstraps": 3000, "subsample": 0.25, "random_state": 0},
    ),
    PathSettings("default of randsel", 300),
)


@dataclass(frozen=True)
class FittedPath:
    """A fitted panel."""

    settings: PathSettings
    selector: RandSel
    relevant: tuple[int, ...]

    def describe(self) -> dict[str, str]:
        """Return method, data and result as text."""
        first = self.selector.path_.rounds[0]
        ranks = [1 + int((first.scores > first.scores[j]).sum()) for j in self.relevant]
        parameters = ", ".join(f"{name}={value!r}" for name, value in self.settings.parameters.items())
        return {
            "method": self.settings.method,
            "parameters": f"`RandSel(2{', ' * bool(parameters)}{parameters})`",
            "samples": str(self.settings.n_samples),
            "features": str(N_FEATURES),
            "selected": ", ".join(f"x{j}" for j in self.selector.get_support(indices=True)),
            "places of x0 and x1 in the first round": " and ".join(map(str, ranks)),
        }


def fit_figure1(
    seed: int = 0, panels: tuple[PathSettings, ...] | None = None, progress: Callable[[str], None] | None = None
) -> list[FittedPath]:
    """Fit the path of every panel, each to its own sample of the XOR of x0 and x1."""
    fitted = []
    for settings in panels or PANELS:
        if progress is not None:
            progress(f"{settings.method}, {settings.n_samples} samples")
        X, y, relevant = make_xor(settings.n_samples, N_FEATURES, random_state=seed)
        fitted.append(FittedPath(settings, RandSel(2, **settings.parameters).fit(X, y), tuple(relevant.tolist())))
    return fitted


def draw_figure1(fitted: list[FittedPath]) -> Any:
    """Draw one panel per fitted path: a line per feature, the relevant ones in red."""
    panels = np.atleast_1d(plots.new_figure(5.5 * len(fitted), 4.0).subplots(1, len(fitted)))
    for axes, path in zip(panels, fitted, strict=True):
        rounds = path.selector.path_.rounds
        values = np.full((len(rounds), N_FEATURES), np.nan)
        for number, r in enumerate(rounds):
            values[number, r.features] = r.contributions
        relevant = list(path.relevant)
        axes.plot(np.delete(values, relevant, axis=1), color=plots.GREY, linewidth=0.6, alpha=0.7)
        axes.plot(values[:, relevant], color=plots.RED, linewidth=1.8)
        # linear up to the largest contribution of the first round, logarithmic above
        axes.set_yscale("symlog", linthresh=float(np.nanmax(np.abs(values[0]))))
        ticks = range(0, len(rounds), 4)
        axes.set_xticks(ticks, [str(len(rounds[number].features)) for number in ticks])
        axes.set(xlabel="features left in the round", ylabel="contribution")
        axes.set_title(f"{path.settings.method}, {path.settings.n_samples} samples", loc="left")
        axes.spines[["top", "right"]].set_visible(False)
    return panels
