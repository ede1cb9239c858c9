"""Figures of features and pairs of features against the target."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from randsel._utils.text import format_label
from randsel._utils.typing import Array
from randsel.plots._style import (
    CLASS_COLOURS,
    FEW_LEVELS,
    GREY,
    MANY,
    RED,
    are_classes,
    class_colours,
    find_names,
    jitter,
    low_to_high,
    new_figure,
    prepare_axes,
    to_columns,
    write_name,
)

LONGEST_LEVEL = 4  # maximum number of characters of values that are drawn as bars; longer labels would overlap
FEW_BARS = 6  # features of at most this many distinct values, such as genotypes, are drawn as bars
NAMED_POINTS = 10  # maximum number of points of a volcano plot that are named
NAME_SPACING, POINT_SPACING = 1.5, 0.6  # minimum vertical distance of a name from another name, or a point, in lines


def pair_panels(X: Any, y: Any, scan: Any, *, names: Any = None, count: int = 6, categories: bool | None = None) -> Any:
    """Draw the best pairs of a fitted `InteractionScan`: samples by their two features, coloured by the target.

    Parameters
    ----------
    X, y : arrays or data frame and array
        The data of the scan; of several outputs the first is shown.
    scan : InteractionScan
        Fitted.
    names : sequence of str, default=None
        Names of the columns; None: those of the data frame or those that the scan was fitted with.
    count : int
        Number of pairs to draw; those selected by forward steps come first.
    categories : bool, default=None
        Whether y are classes; None decides by the number of distinct values.

    Returns
    -------
    ndarray of matplotlib.axes.Axes
        One panel per pair. Two features of few levels give bars: the counts of the classes in each combination. Other
        discrete features are jittered, so that samples do not hide each other.

    Examples
    --------
    >>> from randsel import InteractionScan, datasets, plots
    >>> X, y, relevant = datasets.make_xor(200, 5, random_state=0)
    >>> panels = plots.pair_panels(X, y, InteractionScan().fit(X, y), names=["a", "b", "c", "d", "e"], count=1)
    >>> panels[0].get_xlabel(), panels[0].get_ylabel()
    ('a', 'b')
    """
    if not hasattr(scan, "pairs_"):
        raise TypeError(f"scan must be a fitted InteractionScan, not {type(scan).__name__}: pair_panels(X, y, scan).")
    names = find_names(names, X, scan)
    X, y = np.asarray(X), np.asarray(y)
    y = y[:, 0] if y.ndim == 2 else y
    pairs = scan.pairs_[np.argsort(scan.pairs_["step"] == 0, kind="stable")][:count]
    columns = max(1, min(3, len(pairs)))
    rows = max(1, -(-len(pairs) // columns))
    figure = new_figure(3.4 * columns + 0.8, 3.2 * rows)
    axes = figure.subplots(rows, columns, squeeze=False)
    levels = np.unique(y)
    categories = are_classes(y) if categories is None else categories
    drawn = None
    for ax, pair in zip(axes.ravel(), pairs, strict=False):
        labels = tuple(str(j if names is None else names[j]) for j in (pair["i"], pair["j"]))
        drawn = _draw_pair(ax, X[:, pair["i"]], X[:, pair["j"]], y, categories, labels)
        ax.set_title(f"corrected p = {pair['p_corrected']:.2g}", fontsize="small", loc="left")
    for ax in axes.ravel()[len(pairs) :]:
        ax.set_axis_off()
    if categories and len(pairs):
        dots = [axes[0, 0].plot([], [], "o", color=colour)[0] for colour in class_colours(np.arange(len(levels)))]
        labels = tuple(write_name(format_label(level)) for level in levels)
        for text in figure.legend(dots, labels, loc="outside right upper", frameon=False).get_texts():
            text.set_parse_math(False)
    elif drawn is not None:
        figure.colorbar(drawn, ax=axes, label="target", shrink=0.7)
    return axes.ravel()[: len(pairs)]


def pair_panel(
    first: Any, second: Any, y: Any, *, labels: Sequence[str] = (), categories: bool = True, ax: Any = None
) -> Any:
    """Draw samples by two features, coloured by the target: one panel of `pair_panels`, without a legend.

    Parameters
    ----------
    first, second, y : arrays or series
        Values of the two features, and the target. Samples of missing values are left out.
    labels : sequence of str
        Names of the axes; by default those of the series.
    categories : bool
        Whether y are classes; numbers get the colours of `LOW_TO_HIGH`.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None: a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The panel.

    Examples
    --------
    >>> from randsel import datasets, plots
    >>> X, y, relevant = datasets.make_xor(200, 5, random_state=0)
    >>> axes = plots.pair_panel(X[:, 0], X[:, 1], y, labels=("a", "b"))
    >>> axes.get_xlabel()
    'a'
    """
    axes = prepare_axes(ax, (3.4, 3.0))
    labels = tuple(labels) or (_name_of(first), _name_of(second))
    _draw_pair(axes, first, second, np.asarray(y), categories, labels)
    return axes


def _draw_pair(axes: Any, first: Any, second: Any, y: Array, categories: bool, labels: Sequence[str]) -> Any:
    """Draw samples by two features; return the collection for a colour bar, if there is one."""
    codes = np.unique(y, return_inverse=True)[1]
    first, second = (np.asarray(values, dtype=float) for values in (first, second))
    observed = ~(np.isnan(first) | np.isnan(second))
    first, second, y, codes = first[observed], second[observed], y[observed], codes[observed]
    axes.set_xlabel(write_name(labels[0]), parse_math=False)
    axes.set_ylabel(write_name(labels[1]), parse_math=False)
    axes.spines[["top", "right"]].set_visible(False)
    if categories and _has_few_levels(first) and _has_few_levels(second):
        _draw_cells(axes, first, second, codes)
        return None
    u, v = (jitter(values, seed) for seed, values in enumerate((first, second)))
    style: dict[str, Any] = {"c": y, "cmap": low_to_high()}
    if categories:
        # in random order: otherwise the class drawn last would hide the others
        shuffled = np.random.default_rng(0).permutation(len(y))
        style = {"c": class_colours(codes[shuffled]), "alpha": 0.8}
        u, v = u[shuffled], v[shuffled]
    drawn = axes.scatter(u, v, s=8, linewidths=0, rasterized=len(y) > MANY, **style)
    for axis, values in ((axes.xaxis, first), (axes.yaxis, second)):
        if len(np.unique(values)) <= FEW_LEVELS:
            axis.set_ticks(np.unique(values))
    return drawn


def _has_few_levels(values: Array) -> bool:
    return 2 <= len(np.unique(values)) <= FEW_BARS


def _draw_cells(axes: Any, first: Array, second: Array, codes: Array) -> None:
    """Draw the counts of every class as bars, for each combination of the levels of two features."""
    levels = np.unique(first), np.unique(second)
    n_classes = int(codes.max()) + 1
    width = 0.8 / n_classes
    counts = np.zeros((len(levels[0]), len(levels[1]), n_classes))
    np.add.at(counts, (np.searchsorted(levels[0], first), np.searchsorted(levels[1], second), codes), 1)
    for (i, j, code), count in np.ndenumerate(counts):
        left = i - 0.4 + code * width
        axes.bar(left, 0.8 * count / counts.max(), 0.92 * width, j - 0.4, align="edge", color=str(class_colours(code)))
    for i, j in np.ndindex(*counts.shape[:2]):
        axes.plot([i - 0.42, i + 0.42], [j - 0.4, j - 0.4], color=GREY, linewidth=0.6)
    axes.set_xticks(range(len(levels[0])), [f"{level:g}" for level in levels[0]])
    axes.set_yticks(range(len(levels[1])), [f"{level:g}" for level in levels[1]])
    axes.tick_params(length=0)
    axes.set(xlim=(-0.55, len(levels[0]) - 0.45), ylim=(-0.5, len(levels[1]) - 0.45))


def feature_panel(
    values: Any,
    y: Any,
    *,
    categories: bool = True,
    labels: Sequence[str] | None = None,
    target: str | None = None,
    ax: Any = None,
) -> Any:
    """Draw one feature against the target.

    A feature of at most six levels, such as a genotype, gives bars: the share of every class that has the level. Other
    features give a strip of samples per class with its median and quartiles, or a scatter plot if the target is a
    number.

    Parameters
    ----------
    values, y : arrays or series
        Values of the feature, and the target. Samples of missing values are left out. The name of a series is written
        at its axis.
    categories : bool
        Whether y are classes.
    labels : sequence of str, default=None
        Labels of the classes, in ascending order; None: the classes; an empty sequence: numbers from 1.
    target : str, default=None
        Name of a target of numbers, for its axis; None: that of the series, or "target".
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None: a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The panel.

    Examples
    --------
    >>> from randsel import datasets, plots
    >>> X, y, relevant = datasets.make_xor(200, 5, random_state=0)
    >>> axes = plots.feature_panel(X[:, 0], y, labels=("no", "yes"))
    >>> [label.get_text() for label in axes.get_xticklabels()]
    ['no', 'yes']
    """
    axes = prepare_axes(ax, (3.4, 2.7))
    name, target = write_name(_name_of(values)), write_name(_name_of(y) if target is None else target)
    values, y = np.asarray(values, dtype=float), np.asarray(y)
    classes, codes = np.unique(y, return_inverse=True)
    observed = ~np.isnan(values)
    values, y, codes = values[observed], y[observed], codes[observed]
    is_levels = _has_few_levels(values)
    if categories and is_levels and all(len(f"{level:g}") <= LONGEST_LEVEL for level in np.unique(values)):
        _draw_bars(axes, values, codes, len(classes))
        axes.set_xlabel(name, parse_math=False)
        return axes
    (axes.set_ylabel if categories else axes.set_xlabel)(name, parse_math=False)
    if not categories:
        axes.set_ylabel(target or "target", parse_math=False)
    if not categories and not is_levels:
        axes.plot(jitter(values, 0), y, **_DOTS, color=CLASS_COLOURS[0], rasterized=len(y) > MANY)
        return axes
    if categories:
        strips = [(values[codes == code], str(class_colours(code))) for code in range(len(classes))]
        labels = [format_label(label) for label in classes] if labels is None else labels
        names = [write_name(label, 14) for label in labels] or [str(code + 1) for code in range(len(classes))]
    else:
        strips = [(y[values == level], CLASS_COLOURS[0]) for level in np.unique(values)]
        names = [f"{level:g}" for level in np.unique(values)]
    for position, (members, colour) in enumerate(strips):
        _draw_strip(axes, position, members, colour, rasterized=len(y) > MANY)
    axes.set_xticks(range(len(strips)), names, parse_math=False)
    axes.set_xlim(-0.5, len(strips) - 0.5)
    axes.tick_params(axis="x", length=0)
    return axes


def _name_of(values: Any) -> str:
    """Return the name of a series; nothing for one without a name, and for an array."""
    name = getattr(values, "name", None)
    return "" if name is None else str(name)


_DOTS = {"linestyle": "", "marker": "o", "markersize": 2.8, "markeredgewidth": 0, "alpha": 0.65}


def _draw_strip(axes: Any, position: int, members: Array, colour: str, *, rasterized: bool) -> None:
    """Draw the samples of a class as dots side by side, with their median and quartiles."""
    if not len(members):
        return
    x = position + np.random.default_rng(position).uniform(-0.22, 0.22, len(members))
    low, middle, high = np.quantile(members, [0.25, 0.5, 0.75])
    axes.plot(x, members, **_DOTS, color=colour, rasterized=rasterized, clip_on=False)
    axes.plot([position, position], [low, high], color="black", linewidth=1.0, solid_capstyle="butt")
    axes.plot([position - 0.3, position + 0.3], [middle, middle], color="black", linewidth=1.6, solid_capstyle="butt")


def _draw_bars(axes: Any, values: Array, codes: Array, n_classes: int) -> None:
    """Draw the share of every class that has each level of a feature."""
    levels = np.unique(values)
    width = 0.8 / n_classes
    for code in range(n_classes):
        members = values[codes == code]
        shares = [np.mean(members == level) if len(members) else 0.0 for level in levels]
        bar_positions = np.arange(len(levels)) + (code - (n_classes - 1) / 2) * width
        axes.bar(bar_positions, shares, 0.92 * width, color=str(class_colours(code)))
    axes.set_xticks(range(len(levels)), [f"{level:g}" for level in levels])
    axes.tick_params(axis="x", length=0)
    axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
    axes.set_ylabel("share of the class")


def volcano(
    effects: Any,
    pvalues: Any,
    *,
    selected: Any = (),
    names: Any = None,
    label: str = "effect",
    limit: float | None = None,
    ax: Any = None,
) -> Any:
    """Draw the effect of every feature against its p-value; selected features are red and named.

    Parameters
    ----------
    effects, pvalues : arrays or series
        One value per feature, effects with their sign. Features without an effect or a p-value are left out.
    selected : fitted selector or array of int or bool
        Columns, best first, or a mask of columns, to draw in red. The first ten are named.
    names : sequence of str, default=None
        Names of the features; None: the index of a series, or else their numbers.
    label, limit : str and float
        Name of the axis of the effects, and the p-value to draw a line at.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None: a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The panel.

    Examples
    --------
    >>> from randsel import plots
    >>> axes = plots.volcano([0.1, -2.0, 0.3], [0.5, 1e-9, 0.2], selected=[1], names=["a", "b", "c"])
    >>> [text.get_text() for text in axes.texts]
    ['b']
    """
    axes = prepare_axes(ax, (5.5, 4.0))
    names = getattr(effects, "index", None) if names is None else names
    effects = np.asarray(effects, dtype=float)
    strength = -np.log10(np.maximum(np.asarray(pvalues, dtype=float), 1e-300))
    columns = to_columns(selected).astype(int)
    known = np.isfinite(effects) & np.isfinite(strength)
    others = known & ~np.isin(np.arange(len(effects)), columns)
    axes.axvline(0.0, color="black", linewidth=0.6, zorder=0)
    if limit is not None:
        axes.axhline(-np.log10(limit), color=GREY, linewidth=0.8, linestyle="--", zorder=0)
    style = {"linewidths": 0, "alpha": 0.7}
    axes.scatter(effects[others], strength[others], s=8, color=GREY, rasterized=others.sum() > MANY, **style)
    columns = columns[known[columns]]
    axes.scatter(effects[columns], strength[columns], s=18, color=RED, zorder=3, **style)
    axes.margins(x=0.3, y=0.08)
    _name_points(axes, effects, strength, columns, names)
    axes.set_xlabel(label, parse_math=False)
    axes.set_ylabel("-log10 p")
    return axes


def _name_points(axes: Any, x: Array, y: Array, columns: Array, names: Any) -> None:
    """Write names beside points: on the left if x is negative, otherwise on the right.

    The other side is used if a name does not fit on the usual one and has more room there, or if it would cover another
    name or the point of another of `columns`. A name that would do so on both sides is left out. A name that would
    leave the axes is shortened.
    """
    box, (left, right), (bottom, top) = axes.get_window_extent(), axes.get_xlim(), axes.get_ylim()
    points_x, points_y = box.width * (x - left) / (right - left), box.height * (y - bottom) / (top - bottom)
    gap = axes.figure.dpi * 7 / 72  # between point and name, in pixels
    written: list[tuple[float, float, float]] = []  # height, left and right end of a name, in pixels
    for column in columns[:NAMED_POINTS].tolist():
        full_name = str(column) if names is None else write_name(names[column], 40, 1)
        length, line = _text_size(axes, full_name)
        position, height = points_x[column], points_y[column]
        rooms = {True: position - gap, False: box.width - position - gap}  # on the left, on the right
        others = columns[columns != column]
        # the usual side first, unless the name has to be shortened there
        for is_left in sorted((x[column] < 0.0, x[column] >= 0.0), key=lambda side: -min(length, rooms[side])):
            shown = min(length, rooms[is_left])
            start = position - gap - shown if is_left else position + gap
            near = np.abs(points_y[others] - height) < POINT_SPACING * line
            # the name would seem to belong to a point under it or just beyond it
            reach = shown + 2 * gap
            distance = (position - points_x[others]) if is_left else (points_x[others] - position)
            hits_point = (near & (distance >= 0.0) & (distance < reach)).any()
            hits_name = any(
                abs(height - h) < NAME_SPACING * line and start < b and a < start + shown for h, a, b in written
            )
            if hits_point or hits_name:
                continue
            written.append((height, start, start + shown))
            fraction = min(rooms[is_left] / length, 1.0)
            name = full_name if fraction == 1.0 else write_name(full_name, max(int(len(full_name) * fraction), 4), 1)
            where = {"xytext": (-5 if is_left else 5, 0), "ha": "right" if is_left else "left", "va": "center"}
            background = {"facecolor": "white", "alpha": 0.6, "edgecolor": "none", "pad": 0.3}
            style = {"textcoords": "offset points", "fontsize": "small", "color": RED, "bbox": background}
            axes.annotate(name, (x[column], y[column]), **where, **style).set_parse_math(False)
            break


def _text_size(axes: Any, name: str) -> tuple[float, float]:
    """Return the width and the height of a name in pixels."""
    text = axes.text(0.0, 0.0, name, fontsize="small", parse_math=False)
    extent = text.get_window_extent()
    text.remove()
    return float(extent.width), float(extent.height)
