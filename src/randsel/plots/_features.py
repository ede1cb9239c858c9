"""Figures of features and pairs of features against the target."""

from typing import Any

import numpy as np

from randsel._utils.text import optional, shorten
from randsel._utils.typing import Array
from randsel.plots._style import (
    CLASS_COLOURS,
    FEW_LEVELS,
    LONG_NAME,
    LOW_TO_HIGH,
    MANY,
    class_colours,
    jitter,
    new_figure,
    one_panel,
)


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
    figure = new_figure(1.2 + 0.42 * (len(scan.top_) + 3), 0.8 + 0.42 * (len(scan.top_) + 1))
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
    figure = new_figure(3.4 * columns + 0.8, 3.2 * rows)
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
        Values of the two features, and the target. Samples of missing values are left out.
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
    figure, axes = one_panel(size)
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
        Values of the feature, and the target. Samples of missing values are left out.
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
    figure, axes = one_panel(size)
    style = {"linestyle": "", "marker": "o", "markersize": 2.8, "markeredgewidth": 0, "alpha": 0.65}
    values = np.asarray(values, dtype=float)
    classes, codes = np.unique(y, return_inverse=True)
    observed = ~np.isnan(values)
    values, y, codes = values[observed], y[observed], codes[observed]
    if not categories:
        axes.plot(jitter(values, 0), y, **style, color=CLASS_COLOURS[0], rasterized=len(y) > MANY)
        axes.set_ylabel("target")
        return figure
    offset = np.random.default_rng(0).uniform(-0.22, 0.22, len(y))
    for code in range(len(classes)):
        x, members = code + offset[codes == code], values[codes == code]
        if not len(members):
            continue
        low, middle, high = np.quantile(members, [0.25, 0.5, 0.75])
        colour = str(class_colours(code))
        axes.plot(x, members, **style, color=colour, rasterized=len(y) > MANY, clip_on=False)
        axes.plot([code, code], [low, high], color="black", linewidth=1.0, solid_capstyle="butt")
        axes.plot([code - 0.3, code + 0.3], [middle, middle], color="black", linewidth=1.6, solid_capstyle="butt")
    axes.set_xticks(range(len(classes)), labels or range(1, len(classes) + 1), parse_math=False)
    axes.set_xlim(-0.5, len(classes) - 0.5)
    axes.tick_params(axis="x", length=0)
    return figure


def _draw_pair(axes: Any, first: Array, second: Array, y: Array, categories: bool, **style: Any) -> Any:
    """Scatter samples by two features; return the collection, for a colour bar."""
    codes = np.unique(y, return_inverse=True)[1]
    first, second = (np.asarray(values, dtype=float) for values in (first, second))
    observed = ~(np.isnan(first) | np.isnan(second))
    first, second, y, codes = first[observed], second[observed], y[observed], codes[observed]
    u, v = (jitter(values, seed) for seed, values in enumerate((first, second)))
    if categories:
        # in random order: otherwise the class drawn last would hide the others
        shuffled = np.random.default_rng(0).permutation(len(y))
        style = {"c": class_colours(codes[shuffled]), "alpha": 0.8, "s": style["s"]}
        u, v = u[shuffled], v[shuffled]
    else:
        style["c"] = np.asarray(y, dtype=float)
    drawn = axes.scatter(u, v, linewidths=0, rasterized=len(y) > MANY, **style)
    for axis, values in ((axes.xaxis, first), (axes.yaxis, second)):
        if len(np.unique(values)) <= FEW_LEVELS:
            axis.set_ticks(np.unique(values))
    axes.spines[["top", "right"]].set_visible(False)
    return drawn


def _write_name(column: int, scan: Any, names: Any) -> str:
    names = getattr(scan, "feature_names_in_", None) if names is None else names
    return str(column) if names is None else shorten(str(names[column]), LONG_NAME)
