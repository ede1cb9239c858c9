"""Figures of results, drawn with matplotlib. All functions return a `Figure` and compute no new results."""

from typing import Any

import numpy as np

from randsel._utils.text import optional, shorten
from randsel._utils.typing import Array
from randsel.culling import CullingPath

GREY, RED = "0.6", "#c1121f"
FEW_LEVELS = 12  # features of at most this many distinct values are drawn as discrete
LONG_NAME = 28  # maximum number of characters of a name in a figure
MANY = 500  # above this number, lines or samples are drawn as pixels, because vector files would become large
#: Colours of classes, with a contrast of at least 3 to a light and to a dark background.
CLASS_COLOURS = (
    *("#3b7fc4", "#d2691e", "#37985a", "#b452a8", "#8f7d1e"),
    *("#a0664f", "#d9559a", "#7a828c", "#7470d6", "#1c97a3"),
)
LOW_TO_HIGH = ("#2f78bd", "#8c8c8c", "#d9702b")  # colours from low to high values, for a light and a dark background


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
    figure = _new_figure(*size)
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
    figure = _new_figure(10, 1 + 3 * len(data_sets))
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


def interaction_heatmap(scan: Any, *, names: Any = None, title: str = "") -> Any:
    """Draw the p-values of all pairs among the first features of a fitted `InteractionScan`, and of main effects.

    Parameters
    ----------
    scan : InteractionScan
        Fitted.
    names, title : sequence of str and str
        Names of the columns (None: those that the scan was fitted with), and title of the figure.

    Returns
    -------
    matplotlib.figure.Figure
        Main effects are on the diagonal; the colour is -log10 p, not corrected.

    Examples
    --------
    >>> from randsel import InteractionScan, datasets, plots
    >>> X, y, relevant = datasets.make_xor(200, 5, random_state=0)
    >>> figure = plots.interaction_heatmap(InteractionScan().fit(X, y), names=["a", "b", "c", "d", "e"])
    >>> sorted(label.get_text() for label in figure.axes[0].get_xticklabels())
    ['a', 'b', 'c', 'd', 'e']
    """
    figure = _new_figure(1.2 + 0.42 * (len(scan.top_) + 3), 0.8 + 0.42 * (len(scan.top_) + 1))
    labels = [_write_name(j, scan, names) for j in scan.top_.tolist()]
    axes = figure.subplots()
    strength = -np.log10(np.maximum(scan.top_pvalues_, 1e-300))
    # limit the colour scale, so that one very strong pair does not make all others look pale
    image = axes.imshow(strength, cmap="magma_r", vmin=0.0, vmax=min(float(strength.max()), 20.0))
    # names are text, even if they contain dollar signs
    axes.set_xticks(range(len(labels)), labels, rotation=90, parse_math=False)
    axes.set_yticks(range(len(labels)), labels, parse_math=False)
    axes.set_title(title or "Pairs, and main effects on the diagonal", loc="left", fontsize="medium")
    figure.colorbar(
        image,
        ax=axes,
        label="-log10 p, not corrected",
        shrink=0.8,
        extend="max" if strength.max() > 20.0 else "neither",
    )
    return figure


def pair_panels(X: Any, y: Any, scan: Any, *, names: Any = None, count: int = 6, categories: bool | None = None) -> Any:
    """Draw the best pairs of a fitted `InteractionScan`: samples by their two features, coloured by the target.

    Parameters
    ----------
    X, y : arrays
        The data of the scan; of several outputs the first is shown.
    scan : InteractionScan
        Fitted.
    names : sequence of str, default=None
        Names of the columns; None: those that the scan was fitted with.
    count : int
        Number of pairs to draw; those selected by forward steps come first.
    categories : bool, default=None
        Whether y are classes; None decides by the number of distinct values.

    Returns
    -------
    matplotlib.figure.Figure
        One panel per pair. Discrete features are jittered, so that samples do not hide each other.

    Examples
    --------
    >>> from randsel import InteractionScan, datasets, plots
    >>> X, y, relevant = datasets.make_xor(200, 5, random_state=0)
    >>> figure = plots.pair_panels(X, y, InteractionScan().fit(X, y), names=["a", "b", "c", "d", "e"], count=1)
    >>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()
    ('a', 'b')
    """
    X, y = np.asarray(X), np.asarray(y)
    y = y[:, 0] if y.ndim == 2 else y
    pairs = scan.pairs_[np.argsort(scan.pairs_["step"] == 0, kind="stable")][:count]
    columns = max(1, min(3, len(pairs)))
    rows = max(1, -(-len(pairs) // columns))
    figure = _new_figure(3.4 * columns + 0.8, 3.2 * rows)
    axes = figure.subplots(rows, columns, squeeze=False)
    levels = np.unique(y)
    categories = len(levels) <= 10 or y.dtype.kind not in "fiub" if categories is None else categories
    drawn = None
    for ax, pair in zip(axes.ravel(), pairs, strict=False):
        drawn = _draw_pair(ax, X[:, pair["i"]], X[:, pair["j"]], y, categories, cmap="viridis", s=9)
        ax.set_xlabel(_write_name(pair["i"], scan, names), parse_math=False)
        ax.set_ylabel(_write_name(pair["j"], scan, names), parse_math=False)
        ax.set_title(f"corrected p = {pair['p_corrected']:.2g}", fontsize="small", loc="left")
    for ax in axes.ravel()[len(pairs) :]:
        ax.set_axis_off()
    if categories and len(pairs):
        colours = class_colours(np.arange(len(levels)))
        dots = [axes[0, 0].plot([], [], "o", color=colour)[0] for colour in colours]
        labels = [shorten(str(level), LONG_NAME) for level in levels]
        for text in figure.legend(dots, labels, loc="outside right upper", frameon=False).get_texts():
            text.set_parse_math(False)
    elif drawn is not None:
        figure.colorbar(drawn, ax=axes, label="target", shrink=0.7)
    return figure


def pair_panel(
    first: Array, second: Array, y: Array, *, labels: tuple[str, str], categories: bool, size: tuple[float, float]
) -> Any:
    """Draw samples by two features, coloured by the target: one panel of `pair_panels`, without a legend.

    Parameters
    ----------
    first, second, y : arrays
        Values of the two features, and the target.
    categories : bool
        Whether y are classes; numbers get the colours of `LOW_TO_HIGH`.
    labels, size : tuples
        Names of the axes; width and height, inches.

    Returns
    -------
    matplotlib.figure.Figure
        One panel.

    Examples
    --------
    >>> from randsel import datasets, plots
    >>> X, y, relevant = datasets.make_xor(200, 5, random_state=0)
    >>> figure = plots.pair_panel(X[:, 0], X[:, 1], y, labels=("a", "b"), categories=True, size=(3.0, 3.0))
    >>> figure.axes[0].get_xlabel()
    'a'
    """
    figure, axes = _one_panel(size)
    colors = optional("matplotlib.colors", extra="plot", purpose="Drawing")
    cmap = colors.LinearSegmentedColormap.from_list("low to high", LOW_TO_HIGH)
    _draw_pair(axes, first, second, y, categories, cmap=cmap, s=7)
    axes.set_xlabel(shorten(labels[0], LONG_NAME), parse_math=False)
    axes.set_ylabel(shorten(labels[1], LONG_NAME), parse_math=False)
    return figure


def feature_panel(
    values: Array, y: Array, *, categories: bool, labels: tuple[str, ...] = (), size: tuple[float, float]
) -> Any:
    """Draw one feature against the target: a strip of samples per class with its quartiles, or a scatter plot.

    Parameters
    ----------
    values, y : arrays
        Values of the feature, and the target.
    categories : bool
        Whether y are classes.
    labels : tuple of str
        Labels of the classes, in ascending order; numbers from 1 if left out.
    size : tuple of float
        Width and height, inches.

    Returns
    -------
    matplotlib.figure.Figure
        One panel.

    Examples
    --------
    >>> from randsel import datasets, plots
    >>> X, y, relevant = datasets.make_xor(200, 5, random_state=0)
    >>> figure = plots.feature_panel(X[:, 0], y, categories=True, labels=("no", "yes"), size=(3.0, 3.0))
    >>> [label.get_text() for label in figure.axes[0].get_xticklabels()]
    ['no', 'yes']
    """
    figure, axes = _one_panel(size)
    style = {"linestyle": "", "marker": "o", "markersize": 2.8, "markeredgewidth": 0, "alpha": 0.65}
    values = np.asarray(values, dtype=float)
    if not categories:
        axes.plot(_jitter(values, 0), y, **style, color=CLASS_COLOURS[0], rasterized=len(y) > MANY)
        axes.set_ylabel("target")
        return figure
    classes, codes = np.unique(y, return_inverse=True)
    offset = np.random.default_rng(0).uniform(-0.22, 0.22, len(y))
    for code in range(len(classes)):
        x, members = code + offset[codes == code], values[codes == code]
        low, middle, high = np.quantile(members, [0.25, 0.5, 0.75])
        colour = str(class_colours(code))
        axes.plot(x, members, **style, color=colour, rasterized=len(y) > MANY, clip_on=False)
        axes.plot([code, code], [low, high], color="black", linewidth=1.0, solid_capstyle="butt")
        axes.plot([code - 0.3, code + 0.3], [middle, middle], color="black", linewidth=1.6, solid_capstyle="butt")
    axes.set_xticks(range(len(classes)), labels or range(1, len(classes) + 1), parse_math=False)
    axes.set_xlim(-0.5, len(classes) - 0.5)
    axes.tick_params(axis="x", length=0)
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
    figure, axes = _one_panel(size)
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
    figure = _new_figure(8, 6)
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


def class_colours(codes: Any) -> Any:
    """Return the colour of each class; after ten classes, colours repeat."""
    return np.array(CLASS_COLOURS)[np.asarray(codes) % len(CLASS_COLOURS)]


def _new_figure(width: float, height: float) -> Any:
    matplotlib_figure = optional("matplotlib.figure", extra="plot", purpose="Drawing")
    return matplotlib_figure.Figure(figsize=(width, height), layout="constrained")


def _one_panel(size: tuple[float, float]) -> tuple[Any, Any]:
    figure = _new_figure(*size)
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.locator_params(nbins=4)
    return figure, axes


def _draw_pair(axes: Any, first: Array, second: Array, y: Array, categories: bool, **style: Any) -> Any:
    """Scatter samples by two features; return the collection, for a colour bar."""
    u, v = (_jitter(np.asarray(values, dtype=float), seed) for seed, values in enumerate((first, second)))
    if categories:
        # in random order: otherwise the class drawn last would hide the others
        shuffled = np.random.default_rng(0).permutation(len(y))
        codes = np.unique(y, return_inverse=True)[1][shuffled]
        u, v, style = u[shuffled], v[shuffled], {"c": class_colours(codes), "alpha": 0.8, "s": style["s"]}
    else:
        style["c"] = np.asarray(y, dtype=float)
    drawn = axes.scatter(u, v, linewidths=0, rasterized=len(y) > MANY, **style)
    for axis, values in ((axes.xaxis, first), (axes.yaxis, second)):
        if len(np.unique(values)) <= FEW_LEVELS:
            axis.set_ticks(np.unique(values))
    axes.spines[["top", "right"]].set_visible(False)
    return drawn


def _jitter(values: Array, seed: int) -> Array:
    """Spread the samples of a discrete feature around its levels; a continuous one stays as it is."""
    levels = np.unique(values)
    if len(levels) < 2 or len(levels) > FEW_LEVELS:
        return values
    noise = np.random.default_rng(int(seed)).uniform(-1.0, 1.0, len(values))
    return np.asarray(values + 0.15 * np.diff(levels).min() * noise)


def _write_name(column: int, scan: Any, names: Any) -> str:
    names = getattr(scan, "feature_names_in_", None) if names is None else names
    return str(column) if names is None else shorten(str(names[column]), LONG_NAME)
