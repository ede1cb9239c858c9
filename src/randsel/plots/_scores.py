"""Figures of scores: of folds, of methods and of panels against the number of features."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from randsel._utils.typing import Array
from randsel.plots._style import CLASS_COLOURS, GREY, RED, is_narrow, new_figure, prepare_axes, write_name

COLUMNS = 4  # maximum number of panels side by side, of a comparison on one data set
#: Entries of the legend of a comparison.
METHOD, ERROR, OTHERS = "method of the panel", "± standard error", "other methods"
LINE = 42  # maximum number of characters on a line of a legend of one column


def comparison(rows: Any, *, title: str = "") -> Any:
    """Draw the score of methods against the number of features, one panel per method, with its standard error.

    Parameters
    ----------
    rows : list of dict, or data frame
        One per data set and method, with the keys "data", "method", "sizes", "mean" and "standard_error", and
        "measure" if the score is not the accuracy.
    title : str
        Title of the figure.

    Returns
    -------
    ndarray of matplotlib.axes.Axes
        One panel per data set and method. The other methods are grey in the background, so that panels can be compared;
        a legend below the panels says so.

    Examples
    --------
    >>> from randsel import plots
    >>> row = {"data": "colon", "method": "randSel", "sizes": [2, 20], "mean": [0.8, 0.9], "standard_error": [0.1, 0.1]}
    >>> panels = plots.comparison([row])
    >>> panels[0].get_title("left")
    'randSel'
    """
    rows = rows.to_dict("records") if hasattr(rows, "to_dict") else rows
    data_sets = list(dict.fromkeys(row["data"] for row in rows))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    # one data set: its methods in a grid; several: a line of panels each
    n_columns = min(COLUMNS, len(methods)) if len(data_sets) == 1 else len(methods)
    lines_each = -(-len(methods) // n_columns)
    figure = new_figure(0.8 + 2.3 * n_columns, 0.7 + 1.9 * lines_each * len(data_sets))
    panels = figure.subplots(
        lines_each * len(data_sets), n_columns, squeeze=False, sharey="all" if len(data_sets) == 1 else "row"
    )
    for axes in panels.ravel():
        axes.set_axis_off()
    for number, name in enumerate(data_sets):
        curves = [row for row in rows if row["data"] == name]
        block = panels[number * lines_each : (number + 1) * lines_each]
        _draw_methods(block.ravel(), curves, methods)
        measure = curves[0].get("measure", "accuracy")
        for axes in block[:, 0]:
            axes.set_ylabel(f"validation {measure}" if len(data_sets) == 1 else f"{name}\n{measure}", fontsize="small")
    for column in panels.T:
        [axes for axes in column if axes.axison][-1].set_xlabel("number of features", fontsize="small")
    drawn = [axes for axes in panels.ravel() if axes.axison]
    _explain_lines(figure, drawn[0], has_others=len(methods) > 1)
    if title:
        figure.suptitle(title, parse_math=False)
    return np.array(drawn)


def _draw_methods(panels: Array, curves: list[dict[str, Any]], methods: list[str]) -> None:
    """Draw the curve of each method on its panel, above the curves of all others."""
    sizes = sorted({size for row in curves for size in row["sizes"]})
    for row in curves:
        axes = panels[methods.index(row["method"])]
        axes.set_axis_on()
        for other in curves:
            axes.plot(other["sizes"], other["mean"], color=GREY, linewidth=0.6, alpha=0.6, label=OTHERS)
        low, high = np.subtract(row["mean"], row["standard_error"]), np.add(row["mean"], row["standard_error"])
        axes.fill_between(row["sizes"], low, high, color=CLASS_COLOURS[0], alpha=0.3, linewidth=0, label=ERROR)
        axes.plot(row["sizes"], row["mean"], color=CLASS_COLOURS[0], linewidth=1.8, label=METHOD)
        axes.set_title(write_name(row["method"]), fontsize="medium", loc="left", parse_math=False)
        axes.set_xscale("log")
        axes.set_xticks(ticks := _few_sizes(sizes, 5), [str(size) for size in ticks], fontsize="small")
        axes.set_xticks([], minor=True)
        axes.tick_params(labelsize="small")
        axes.spines[["top", "right"]].set_visible(False)


def _explain_lines(figure: Any, axes: Any, *, has_others: bool) -> None:
    """Add a legend below the panels, with one entry of each kind of line."""
    handles, labels = axes.get_legend_handles_labels()
    entries = dict(zip(labels, handles, strict=True))
    shown = [label for label in (METHOD, ERROR, OTHERS) if label in entries and (has_others or label != OTHERS)]
    frame = {"frameon": False, "fontsize": "small", "ncols": 1 if is_narrow(axes) else len(shown)}
    figure.legend([entries[label] for label in shown], shown, loc="outside lower center", **frame)


def _few_sizes(sizes: list[int], most: int) -> list[int]:
    """Return about `most` of the ascending sizes, evenly spaced on a logarithmic axis, with the first and the last."""
    wanted = np.geomspace(sizes[0], sizes[-1], most)
    return sorted({min(sizes, key=lambda size: abs(np.log(size / target))) for target in wanted})


def accuracy(rows: Any, *, chance: float, measure: str = "accuracy", highlight: str = "", ax: Any = None) -> Any:
    """Draw the score of each fold, their mean, and the score of guessing.

    Parameters
    ----------
    rows : dict of str to array, or data frame
        Name and scores of each row of dots; the first is on top.
    chance, measure : float and str
        Score of guessing, drawn as a dashed line, and name of the axis.
    highlight : str
        The row to draw in red.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None: a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The panel.

    Examples
    --------
    >>> from randsel import plots
    >>> folds = {"selected": [0.8, 0.9, 0.85], "all features": [0.6, 0.5, 0.55]}
    >>> axes = plots.accuracy(folds, chance=0.5, measure="balanced accuracy", highlight="selected")
    >>> axes.get_xlabel()
    'balanced accuracy'
    """
    axes = prepare_axes(ax, (5.5, 1.8))
    axes.axvline(chance, color=GREY, linestyle="--", linewidth=1.0)
    above = {"xytext": (0, 3), "textcoords": "offset points", "ha": "center"}
    axes.annotate("chance", (chance, 1.0), xycoords=("data", "axes fraction"), **above)
    for height, (name, values) in enumerate(rows.items()):
        colour = RED if name == highlight else GREY
        heights = height + np.random.default_rng(0).uniform(-0.12, 0.12, len(values))
        axes.plot(values, heights, "o", markersize=4.0, markeredgewidth=0, alpha=0.75, color=colour)
        axes.plot([np.mean(values)] * 2, [height - 0.3, height + 0.3], color="black", linewidth=1.8)
    axes.set_yticks(range(len(rows.keys())), list(rows.keys()))
    axes.set(xlabel=measure, ylim=(len(rows.keys()) - 0.4, -0.6))
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.margins(x=0.06)
    return axes


def panel_sizes(
    sizes: Any,
    scores: Any,
    *,
    marks: Mapping[str, int] | None = None,
    chance: float | None = None,
    everything: float | None = None,
    measure: str = "accuracy",
    ax: Any = None,
) -> Any:
    """Draw the cross-validated score of models on the first k features against k, with its standard error.

    Parameters
    ----------
    sizes : array of int
        Numbers of features.
    scores : array of shape (n_folds, n_sizes) or data frame
        Score of every fold; NaN where a fold has none.
    marks : dict of str to int, default=None
        Sizes to mark by a line, and their labels, such as the number selected.
    chance, everything : float, default=None
        Score of guessing, and of a model on all features, drawn as lines.
    measure : str
        Name of the score.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None: a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The panel; numbers of features are on a logarithmic scale.

    Examples
    --------
    >>> from randsel import plots
    >>> axes = plots.panel_sizes([1, 5, 20], [[0.6, 0.8, 0.8], [0.7, 0.9, 0.8]], marks={"selected": 5}, chance=0.5)
    >>> axes.get_xlabel()
    'number of features'
    """
    axes = prepare_axes(ax, (5.5, 3.0))
    sizes, scores = np.asarray(sizes), np.asarray(scores, dtype=float)
    known = np.isfinite(scores).any(axis=0)
    sizes, scores = sizes[known], scores[:, known]
    means, n_folds = np.nanmean(scores, axis=0), np.isfinite(scores).sum(axis=0)
    spread = np.array(
        [np.nanstd(column, ddof=1) if n > 1 else 0.0 for column, n in zip(scores.T, n_folds, strict=True)]
    )
    bars = {"fmt": "o-", "color": "black", "markersize": 3.5, "linewidth": 1.2, "elinewidth": 0.8, "capsize": 2}
    axes.errorbar(sizes, means, yerr=spread / np.sqrt(n_folds), **bars)
    lines = {"chance": (chance, "--"), "all features": (everything, "-.")}
    for name, (value, style) in lines.items():
        if value is not None:
            axes.axhline(value, color=GREY, linewidth=0.9, linestyle=style, label=name)
    colours = iter((RED, CLASS_COLOURS[0], CLASS_COLOURS[2]))
    n_columns, line = (1, LINE) if is_narrow(axes) else (2, 2 * LINE)
    for name, size in (marks or {}).items():
        label = write_name(f"{name}: {size}", line)
        axes.axvline(size, color=next(colours, GREY), linewidth=1.0, linestyle=":", label=label)
    axes.set_xscale("log")
    axes.set_xticks(ticks := _few_sizes(sizes.tolist(), 7), [str(size) for size in ticks])
    axes.set_xticks([], minor=True)
    axes.set(xlabel="number of features", ylabel=measure)
    # above the panel, where no curve and no line crosses it
    legend = {"frameon": False, "fontsize": "small", "borderaxespad": 0.0, "ncols": n_columns, "handlelength": 1.6}
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.02), **legend)
    return axes
