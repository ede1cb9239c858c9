"""Figures of the culling path, and of the weights of its kernels."""

from typing import Any

import numpy as np

from randsel._utils.text import optional, shorten
from randsel._utils.typing import Array
from randsel.culling import CullingPath
from randsel.plots._style import GREY, LONG_NAME, MANY, RED, new_figure


def culling_path(
    path: Any,
    *,
    highlight: Array | None = None,
    names: Any = None,
    title: str | None = "",
    label: str = "features of the best round",
    size: tuple[float, float] = (8.0, 6.5),
) -> Any:
    r"""Draw the contribution of each feature in each round (figure 1 of the paper); alignment and error of each round.

    The error (see `CullingPath.errors`) chooses a number of features. It is not an estimate of accuracy.

    Parameters
    ----------
    path : CullingPath or RandSel
        `RandSel.path_`, or a fitted selector, whose column names are then used.
    highlight : array of int or bool, default=None
        Columns, or a mask of columns, to draw in red and to label; None: those of the best round, if at most ten.
    names, title, label : sequence of str, str and str
        Names of the columns, title of the figure (None for no title), and legend entry of the highlighted features.
    size : tuple of float
        Width and height, inches.

    Returns
    -------
    matplotlib.figure.Figure
        Save it with `figure.savefig(...)`.

    Examples
    --------
    >>> from randsel import RandSel, datasets, plots
    >>> X, y, relevant = datasets.make_xor(200, 30, random_state=0)
    >>> figure = plots.culling_path(RandSel().fit(X, y), highlight=relevant)
    >>> [axes.get_ylabel() for axes in figure.axes]
    ['contribution', 'alignment', 'optimistic\nerror']
    """
    figure = new_figure(*size)
    names = getattr(path, "feature_names_in_", None) if names is None else names
    path = getattr(path, "path_", path)
    if highlight is None:
        best = path.rounds[path.best].features
        highlight = best if len(best) <= 10 else best[:0]
    highlight = np.flatnonzero(highlight) if np.asarray(highlight).dtype == bool else np.asarray(highlight)
    n_panels = 2 if path.errors is None else 3
    panels = figure.subplots(n_panels, 1, sharex=True, height_ratios=[3, 1, 1][:n_panels])
    _draw_contributions(panels[0], path, highlight, names)
    if len(highlight):
        panels[0].plot([], [], color=RED, label=label)
    panels[0].plot([], [], color=GREY, label="all other features")
    panels[0].axhline(0.0, color="black", linewidth=0.6, zorder=0)
    panels[0].set_ylabel("contribution")
    panels[0].set_title("Contribution of each feature as others are culled" if title == "" else title or "", loc="left")
    rounds = np.arange(len(path.rounds))
    panels[1].plot(rounds, [r.alignment for r in path.rounds], color="black", marker=".", label="features left")
    panels[1].plot(
        rounds, [r.chance for r in path.rounds], color=GREY, linestyle="--", label="independent noise, about"
    )
    panels[1].set_ylabel("alignment")
    if path.errors is not None:
        _draw_errors(panels[2], path)
    ticks = rounds[:: -max(1, -(-len(rounds) // int(2.0 * size[0])))]  # from the last round backwards
    panels[-1].set_xticks(ticks, [str(len(path.rounds[i].features)) for i in ticks])
    panels[-1].set_xlabel("features left in the round")
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize="small", loc="upper left" if axes is panels[0] else "best")
    for axes in panels[1:]:
        axes.axvline(path.best, color=RED, linewidth=0.8, linestyle=":", zorder=0)
        axes.locator_params(axis="y", nbins=3)
    return figure


def _draw_errors(axes: Any, path: CullingPath) -> None:
    """Draw the errors with their standard errors, the limit (the smallest plus its standard error), and the choice."""
    errors, spread = np.asarray(path.errors), np.asarray(path.standard_errors)
    axes.fill_between(range(len(errors)), errors - spread, errors + spread, color=GREY, alpha=0.35, linewidth=0)
    axes.axhline(errors.min() + spread[errors.argmin()], color=GREY, linewidth=0.8, linestyle="--")
    axes.plot(errors, color="black", marker=".")
    axes.plot(path.best, errors[path.best], "o", color=RED, label=f"{len(path.best_round.features)} chosen")
    axes.set(ylabel="optimistic\nerror", ylim=(min(0.0, float((errors - spread).min())), None))


def _draw_contributions(axes: Any, path: CullingPath, highlight: Array, names: Any) -> None:
    """Draw one line per feature over its rounds; the highlighted ones last, so that they are on top."""
    collections = optional("matplotlib.collections", extra="plot", purpose="Drawing")
    lines: dict[int, list[tuple[int, float]]] = {}
    for number, r in enumerate(path.rounds):
        for feature, value in zip(r.features.tolist(), r.contributions.tolist(), strict=True):
            lines.setdefault(feature, []).append((number, value))
    red = set(highlight.tolist()) & set(lines)
    grey = [points for feature, points in lines.items() if feature not in red]
    axes.add_collection(
        collections.LineCollection(grey, colors=GREY, linewidths=0.8, alpha=0.7, rasterized=len(grey) > MANY)
    )
    highest = max(value for points in lines.values() for _, value in points)
    # height of a line of text, if the axes fill two thirds of the figure
    text_height, lowest_free = 0.25 / axes.figure.get_figheight() * highest, -np.inf
    for feature in sorted(red, key=lambda j: lines[j][-1][1]):
        rounds, values = zip(*lines[feature], strict=True)
        axes.plot(rounds, values, color=RED, linewidth=1.8)
        # labels of lines that end close together are moved apart
        y = max(values[-1], lowest_free)
        lowest_free = y + text_height
        label = str(feature) if names is None else shorten(str(names[feature]), LONG_NAME)
        offset = {"xytext": (4, 0), "textcoords": "offset points", "va": "center"}
        axes.annotate(label, (rounds[-1], y), color=RED, **offset).set_parse_math(False)
    axes.autoscale_view()
    axes.margins(x=0.05)


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
    matplotlib.figure.Figure
        Above, the mean over classes: a grey line per run, their mean in red. Below, each class: the mean over runs.

    Examples
    --------
    >>> import numpy as np
    >>> from randsel import plots
    >>> figure = plots.kernel_weights(np.array([20, 10, 5]), np.full((2, 1, 3), 1 / 3), classes=["case"])
    >>> figure.axes[0].get_ylabel()
    'weight'
    """
    figure = new_figure(8, 6)
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[1, 1.2])
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
    return figure
