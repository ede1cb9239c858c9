"""Figures of scores: of methods against the number of features, and of folds."""

from typing import Any

import numpy as np

from randsel._utils.text import optional
from randsel._utils.typing import Array
from randsel.plots._style import GREY, RED, new_figure, one_panel


def comparison(rows: list[dict[str, Any]], *, title: str = "") -> Any:
    """Draw the score of methods against the number of features, with its spread over folds.

    Parameters
    ----------
    rows : list of dict
        One per data set and method, with the keys "data", "method", "sizes", "mean" and "spread", and
        "measure" if the score is not the accuracy.
    title : str
        Title of the figure.

    Returns
    -------
    matplotlib.figure.Figure
        One panel per data set.

    Examples
    --------
    >>> from randsel import plots
    >>> row = {"data": "colon", "method": "randSel", "sizes": [2, 20], "mean": [0.8, 0.9], "spread": [0.1, 0.1]}
    >>> figure = plots.comparison([row])
    >>> figure.axes[0].get_title()
    'colon'
    """
    data_sets = list(dict.fromkeys(row["data"] for row in rows))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    figure = new_figure(10, 1 + 3 * len(data_sets))
    colormaps = optional("matplotlib", extra="plot", purpose="Drawing").colormaps
    colours = dict(zip(methods, colormaps["tab10" if len(methods) <= 10 else "tab20"].colors, strict=False))
    panels = figure.subplots(len(data_sets), 1, squeeze=False)[:, 0]
    for axes, name in zip(panels, data_sets, strict=True):
        curves = [row for row in rows if row["data"] == name]
        for row in curves:
            low, high = np.subtract(row["mean"], row["spread"]), np.add(row["mean"], row["spread"])
            axes.plot(row["sizes"], row["mean"], color=colours[row["method"]], label=row["method"], marker=".")
            axes.fill_between(row["sizes"], low, high, color=colours[row["method"]], alpha=0.12, linewidth=0)
        measure = curves[0].get("measure", "accuracy")
        axes.set(xscale="log", xlabel="features", ylabel=f"validation {measure}", title=name)
        sizes = sorted({size for row in curves for size in row["sizes"]})
        ticks = sizes[:: max(1, len(sizes) // 8)]
        axes.set_xticks(ticks, [str(size) for size in ticks])
        axes.set_xticks([], minor=True)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].legend(frameon=False, fontsize="small")
    if len(data_sets) > 1:
        figure.suptitle(title)
    return figure


def accuracy(
    rows: dict[str, Array], *, chance: float, measure: str, size: tuple[float, float], highlight: str = ""
) -> Any:
    """Draw the score of each fold, their mean, and the score of guessing.

    Parameters
    ----------
    rows : dict of str to array
        Name and scores of each row of dots; the first is on top.
    chance, measure : float and str
        Score of guessing, drawn as a dashed line, and name of the axis.
    size, highlight : tuple of float and str
        Width and height in inches, and the row to draw in red.

    Returns
    -------
    matplotlib.figure.Figure
        One panel.

    Examples
    --------
    >>> from randsel import plots
    >>> folds = {"selected": [0.8, 0.9, 0.85], "all features": [0.6, 0.5, 0.55]}
    >>> figure = plots.accuracy(folds, chance=0.5, measure="balanced accuracy", size=(5.0, 2.0), highlight="selected")
    >>> figure.axes[0].get_xlabel()
    'balanced accuracy'
    """
    figure, axes = one_panel(size)
    axes.axvline(chance, color=GREY, linestyle="--", linewidth=1.0)
    above = {"xytext": (0, 3), "textcoords": "offset points", "ha": "center"}
    axes.annotate("chance", (chance, 1.0), xycoords=("data", "axes fraction"), **above)
    for height, (name, values) in enumerate(rows.items()):
        colour = RED if name == highlight else GREY
        heights = height + np.random.default_rng(0).uniform(-0.12, 0.12, len(values))
        axes.plot(values, heights, "o", markersize=4.0, markeredgewidth=0, alpha=0.75, color=colour)
        axes.plot([np.mean(values)] * 2, [height - 0.3, height + 0.3], color="black", linewidth=1.8)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set(xlabel=measure, ylim=(len(rows) - 0.4, -0.6))
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.margins(x=0.06)
    return figure
