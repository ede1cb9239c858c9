"""Figures of the culling path, and of the weights of its kernels."""

from itertools import pairwise
from typing import Any

import numpy as np

from randsel._utils.text import format_power_of_ten, optional, shorten
from randsel._utils.typing import Array
from randsel.culling import CullingPath
from randsel.plots._style import GREY, LONG_NAME, MANY, RED, find_names, new_figure, spread_labels, to_columns

NAMED = 10  # highlighted features that are named: more names would overlap


def culling_path(
    path: Any,
    *,
    highlight: Array | None = None,
    names: Any = None,
    title: str | None = "",
    label: str | None = None,
    size: tuple[float, float] = (8.0, 6.5),
) -> Any:
    r"""Draw the contribution of each feature in each round (figure 1 of the paper); alignment and error of each round.

    The error (see `CullingPath.errors`) chooses a number of features. It is not an estimate of accuracy.

    Parameters
    ----------
    path : CullingPath, RandSel or RandSelCV
        `RandSel.path_`, or a fitted selector, whose column names are then used.
    highlight : array of int or bool, default=None
        Columns, best first, or a mask of columns, to draw in red; None: those that the selector selected, or those of
        the best round. The first ten are named.
    names, title, label : sequence of str, str and str
        Names of the columns, title of the figure (None for no title), and legend entry of the highlighted features.
    size : tuple of float
        Width and height, inches.

    Returns
    -------
    ndarray of matplotlib.axes.Axes
        Two or three panels. Contributions are on a scale that is linear around zero and logarithmic above.

    Examples
    --------
    >>> from randsel import RandSel, datasets, plots
    >>> X, y, relevant = datasets.make_xor(200, 30, random_state=0)
    >>> panels = plots.culling_path(RandSel().fit(X, y), highlight=relevant)
    >>> [axes.get_ylabel() for axes in panels]
    ['contribution', 'alignment', 'optimistic\nerror']
    """
    figure = new_figure(*size)
    names = find_names(names, path)
    highlighted = _find_highlighted(path, highlight)
    path = getattr(path, "path_", path)
    n_panels = 2 if path.errors is None else 3
    panels = figure.subplots(n_panels, 1, sharex=True, height_ratios=[3, 1, 1][:n_panels])
    _draw_contributions(panels[0], path, highlighted, names)
    if len(highlighted):
        n = len(highlighted)
        label = label or (f"{n} selected" if n <= NAMED else f"{n} selected, the first {NAMED} named")
        panels[0].plot([], [], color=RED, label=label)
    panels[0].plot([], [], color=GREY, label="all other features" if len(highlighted) else "all features")
    panels[0].set_ylabel("contribution")
    panels[0].set_title("Contribution of each feature as others are culled" if title == "" else title or "", loc="left")
    rounds = np.arange(len(path.rounds))
    panels[1].plot(rounds, [r.alignment for r in path.rounds], color="black", marker=".", label="features left")
    noise = {"color": GREY, "linestyle": "--", "label": "independent noise, approximate"}
    panels[1].plot(rounds, [r.chance for r in path.rounds], **noise)
    panels[1].set_ylabel("alignment")
    if path.errors is not None:
        _draw_errors(panels[2], path)
    _label_rounds(panels[-1], path, size[0])
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].legend(frameon=False, fontsize="small", loc="upper left")
    for axes in panels[1:]:
        axes.axvline(path.best, color=RED, linewidth=0.8, linestyle=":", zorder=0)
        axes.locator_params(axis="y", nbins=3)
        # above the panel, where no curve and no line crosses it
        legend = {"frameon": False, "fontsize": "small", "borderaxespad": 0.0, "ncols": 2}
        axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), **legend)
    return panels


def _find_highlighted(path: Any, highlight: Array | None) -> Array:
    """Return the columns to highlight; by default those selected, in the order of the ranking."""
    if highlight is not None:
        return to_columns(highlight)
    if (support := getattr(path, "support_", None)) is not None:
        order = getattr(path, "order_", np.arange(len(support)))
        return np.asarray(order[support[order]])
    return np.asarray(path.best_round.features)


def _label_rounds(axes: Any, path: CullingPath, width: float) -> None:
    """Label rounds by their number of features: the first, the chosen (in red), the last, and others between them.

    Labels that would touch are written to the left of the earlier tick and to the right of the later one.
    """
    last, space = len(path.rounds) - 1, max(1, -(-len(path.rounds) // int(2.0 * width)))
    ticks = sorted({0, path.best, last})
    for number in range(last, -1, -space):
        if all(abs(number - other) >= space for other in ticks):
            ticks.append(number)
    ticks.sort()
    axes.set_xticks(ticks, [str(len(path.rounds[number].features)) for number in ticks])
    labels = axes.get_xticklabels()
    for left, right in pairwise(range(len(ticks))):
        if ticks[right] - ticks[left] < space:
            labels[left].set_horizontalalignment("right")
            labels[right].set_horizontalalignment("left")
    labels[ticks.index(path.best)].set(color=RED, fontweight="bold")
    axes.set_xlabel("features left in the round")


def _draw_errors(axes: Any, path: CullingPath) -> None:
    """Draw errors with standard errors, the limit (the least error plus its standard error), and the best round."""
    errors, spread = np.asarray(path.errors), np.asarray(path.standard_errors)
    axes.fill_between(range(len(errors)), errors - spread, errors + spread, color=GREY, alpha=0.35, linewidth=0)
    limit = {"color": GREY, "linewidth": 0.8, "linestyle": "--"}
    axes.axhline(errors.min() + spread[errors.argmin()], label="least error + one standard error", **limit)
    axes.plot(errors, color="black", marker=".")
    label = f"fewest below it: {len(path.best_round.features)}"  # not "selected": others or none may be
    axes.plot(path.best, errors[path.best], "o", color=RED, label=label)
    axes.set(ylabel="optimistic\nerror", ylim=(min(0.0, float((errors - spread).min())), None))


def _draw_contributions(axes: Any, path: CullingPath, highlighted: Array, names: Any) -> None:
    """Draw one line per feature over its rounds; the highlighted ones last, so that they are on top."""
    collections = optional("matplotlib.collections", extra="plot", purpose="Drawing")
    lines: dict[int, list[tuple[int, float]]] = {}
    for number, r in enumerate(path.rounds):
        for feature, value in zip(r.features.tolist(), r.contributions.tolist(), strict=True):
            lines.setdefault(feature, []).append((number, value))
    red = [feature for feature in highlighted.tolist() if feature in lines]
    grey = [points for feature, points in lines.items() if feature not in set(red)]
    axes.axhline(0.0, color="black", linewidth=0.6, zorder=0)
    style = {"colors": GREY, "linewidths": 0.8, "alpha": 0.7, "rasterized": len(grey) > MANY}
    axes.add_collection(collections.LineCollection(grey, **style))
    for feature in red:
        axes.plot(*zip(*lines[feature], strict=True), color=RED, linewidth=1.8 if len(red) <= NAMED else 1.0)
    # linear below the largest contribution of the first round, which is small because many features share it
    first = max(abs(value) for value in path.rounds[0].contributions)
    if first > 0.0:
        axes.set_yscale("symlog", linthresh=10.0 ** np.round(np.log10(first)), linscale=0.8)
        axes.yaxis.set_minor_locator(optional("matplotlib.ticker", extra="plot", purpose="Drawing").NullLocator())
        axes.yaxis.set_major_formatter(lambda value, _: _format_power(value))
    axes.autoscale_view()
    axes.margins(x=0.02)
    _name_lines(axes, {feature: lines[feature][-1] for feature in red[:NAMED]}, names)


def _format_power(value: float) -> str:
    """Write a tick of a scale of powers of ten as plain text, which any font has."""
    if value == 0.0:
        return "0"
    return ("−" if value < 0.0 else "") + format_power_of_ten(round(np.log10(abs(value))))


def _name_lines(axes: Any, ends: dict[int, tuple[int, float]], names: Any) -> None:
    """Write names in a column to the right of the panel, each joined to the end of its line."""
    axes.margins(y=0.05)
    order = sorted(ends, key=lambda feature: ends[feature][1])
    to_fraction = axes.transData + axes.transAxes.inverted()
    heights = [float(to_fraction.transform(ends[feature])[1]) for feature in order]
    # height of a line of text, if the panel fills half of the figure
    spacing = 0.4 / axes.figure.get_figheight()
    for feature, height in zip(order, spread_labels(np.array(heights), spacing, 0.02, 0.98), strict=True):
        label = str(feature) if names is None else shorten(str(names[feature]), LONG_NAME)
        line = {"arrowstyle": "-", "color": RED, "linewidth": 0.5, "linestyle": ":", "shrinkA": 0.0, "shrinkB": 0.0}
        where = {"xytext": (1.02, height), "textcoords": "axes fraction", "va": "center", "ha": "left"}
        style = {"color": RED, "fontsize": "small", "arrowprops": line | {"relpos": (0.0, 0.5)}}
        axes.annotate(label, ends[feature], **where, **style, annotation_clip=False).set_parse_math(False)


def kernel_weights(sizes: Array, weights: Array, *, classes: Any = None, title: str = "") -> Any:
    """Draw the weights that LPBoost gave to the kernels of a culling path.

    Parameters
    ----------
    sizes : array of int, of shape (n_kernels,)
        Number of features in the round of each kernel.
    weights : array of shape (n_runs, n_problems, n_kernels)
        `LPBoostMKL.kernel_weights_` of one or several runs.
    classes, title : sequence and str
        Names of the problems, each one class against all others, and title of the figure.

    Returns
    -------
    ndarray of matplotlib.axes.Axes
        Two panels. Above, the mean over classes: a grey line per run, their mean in red. Below, each class: the mean
        over runs.

    Examples
    --------
    >>> import numpy as np
    >>> from randsel import plots
    >>> panels = plots.kernel_weights(np.array([20, 10, 5]), np.full((2, 1, 3), 1 / 3), classes=["case"])
    >>> panels[0].get_ylabel()
    'weight'
    """
    figure = new_figure(8, 6)
    top, bottom = panels = figure.subplots(2, 1, sharex=True, height_ratios=[1, 1.2])
    kernels, runs = np.arange(len(sizes)), weights.mean(axis=1)
    top.plot(kernels, runs.T, color=GREY, linewidth=0.8)
    top.plot(kernels, runs.mean(axis=0), color=RED, marker=".", label="mean")
    top.plot([], [], color=GREY, linewidth=0.8, label="one run each, mean over classes")
    top.axhline(1.0 / len(sizes), color="black", linewidth=0.6, linestyle=":", label="equal weights")
    top.legend(frameon=False, fontsize="small")
    top.set(ylabel="weight", ylim=(0.0, None))
    top.set_title(title or "Weights of the kernels along the path", loc="left")
    top.spines[["top", "right"]].set_visible(False)
    image = bottom.imshow(weights.mean(axis=0), aspect="auto", cmap="magma_r", vmin=0.0)
    names = np.arange(weights.shape[1]) if classes is None else classes
    bottom.set_yticks(range(weights.shape[1]), [str(name) for name in names], parse_math=False)
    bottom.set_xticks(kernels, [str(size) for size in sizes])
    bottom.set(xlabel="features left in the kernel's round", ylabel="class")
    figure.colorbar(image, ax=bottom, label="weight, mean over runs", shrink=0.9)
    return panels
