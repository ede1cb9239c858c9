"""Heat maps: samples by features, and pairs of features."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from randsel._utils.text import format_label, optional
from randsel._utils.typing import Array
from randsel.plots._style import (
    CLASS_COLOURS,
    are_classes,
    class_colours,
    find_names,
    is_narrow,
    low_to_high,
    prepare_axes,
    to_columns,
    write_name,
)

LIMIT = 2.5  # standard deviations at which colours of values end
LONGEST, LONGEST_NARROW = 40, 18  # maximum number of characters of a name beside a row
TAILS = (0.05, 0.95)  # quantiles at which values are limited before the mean and the spread are computed
STRONGEST = 20.0  # -log10 p at which colours of pairs end: one very strong pair must not make all others look pale
DIAGONAL = "0.6"  # colour of the diagonal of a heat map of pairs; its scale has no grey


def feature_heatmap(
    X: Any,
    y: Any,
    *,
    features: Any = None,
    names: Any = None,
    categories: bool | None = None,
    labels: Sequence[str] | None = None,
    ax: Any = None,
) -> Any:
    """Draw the values of features (rows) in all samples (columns), which are ordered by the target.

    Parameters
    ----------
    X, y : arrays or data frame and array
        Samples by features, and the target: classes, or numbers.
    features : fitted selector or array of int or bool, default=None
        The selected features of a selector, columns, or a mask of columns; None: all.
    names : sequence of str, default=None
        Names of the columns of X; None: those of the data frame or of the selector, or else their numbers.
    categories : bool, default=None
        Whether y are classes; None decides by the number of distinct values.
    labels : sequence of str, default=None
        Labels of the classes for the legend, in ascending order; None: the classes; an empty sequence: no legend. More
        classes than `CLASS_COLOURS` have no legend, because their colours repeat.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None: a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        Values are in standard deviations from the mean of their feature, both after limiting extreme values. Missing
        values are blank. The bar above has the colours of the target. Within a class, samples are ordered by the mean
        of the features that rise with it.

    Examples
    --------
    >>> from randsel import RandSel, datasets, plots
    >>> X, y, relevant = datasets.make_xor(200, 5, random_state=0)
    >>> axes = plots.feature_heatmap(X, y, features=relevant, names=["a", "b", "c", "d", "e"])
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['a', 'b']
    """
    names = find_names(names, X, features)
    columns = _find_columns(features, np.shape(X)[1])
    values, y = np.asarray(X, dtype=float)[:, columns], np.asarray(y)
    y = y[:, 0] if y.ndim == 2 else y
    axes = prepare_axes(ax, (7.0, 1.6 + 0.22 * len(columns)))
    if categories is None:
        categories = are_classes(y)
    classes, codes = np.unique(y, return_inverse=True)
    standard = _standardise(values)
    order = _order_samples(standard, codes, categories)
    image = axes.imshow(
        standard[order].T, aspect="auto", cmap="coolwarm", vmin=-LIMIT, vmax=LIMIT, interpolation="nearest"
    )
    axes.set_yticks(range(len(columns)), _write_names(axes, columns, names), parse_math=False, fontsize="small")
    axes.set_xticks([])
    axes.tick_params(axis="y", length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel(f"{len(y)} samples, by target", fontsize="small")
    colours = class_colours(codes[order]) if categories else low_to_high()(codes[order] / max(codes.max(), 1))
    _draw_target_bar(axes, colours, len(columns))
    if categories:
        _explain_colours(axes, [format_label(label) for label in classes] if labels is None else labels)
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.6, aspect=15, pad=0.02, extend="both")
    bar.set_label("standard deviations", fontsize="small")
    bar.outline.set_visible(False)
    return axes


def _write_names(axes: Any, columns: Array, names: Any) -> list[str]:
    """Return the labels of rows, which leave room for the map in a narrow figure."""
    longest = LONGEST_NARROW if is_narrow(axes) else LONGEST
    return [str(j) if names is None else write_name(names[j], longest, 1) for j in columns.tolist()]


def _find_columns(features: Any, n_features: int) -> Array:
    if features is None:
        return np.arange(n_features)
    return to_columns(features)


def _standardise(values: Array) -> Array:
    """Return values in standard deviations from the mean of their column; 0 for constant columns.

    For both, values beyond the quantiles `TAILS` are set to these quantiles. Otherwise a few very large values would
    make all others look alike. If this makes a column constant, its values are used unchanged.
    """
    limited = np.clip(values, *np.nanquantile(values, TAILS, axis=0, method="nearest"))
    limited = np.where(np.nanstd(limited, axis=0) > 0.0, limited, values)
    spread = np.nanstd(limited, axis=0)
    return np.asarray((values - np.nanmean(limited, axis=0)) / np.where(spread > 0.0, spread, 1.0))


def _order_samples(standard: Array, codes: Array, categories: bool) -> Array:
    """Return the order of samples by target; within a class, by the mean of the features, signed by their trend."""
    filled = np.nan_to_num(standard)
    trend = np.sign((codes - codes.mean()) @ filled)
    within = filled @ trend if categories else np.zeros(len(codes))
    return np.lexsort((within, codes))


def _draw_target_bar(axes: Any, colours: Array, n_rows: int) -> None:
    """Draw a bar of the colours of the target above the rows of a heat map."""
    colors = optional("matplotlib.colors", extra="plot", purpose="Drawing")
    height = max(0.6, 0.04 * n_rows)  # in rows
    extent = (-0.5, len(colours) - 0.5, -0.7, -0.7 - height)
    axes.imshow(colors.to_rgba_array(colours)[None], aspect="auto", interpolation="nearest", extent=extent)
    axes.set_ylim(n_rows - 0.5, -0.7 - height)


def _explain_colours(axes: Any, labels: Sequence[str]) -> None:
    """Add a legend of the classes above a heat map; none if colours repeat."""
    if not 0 < len(labels) <= len(CLASS_COLOURS):
        return
    written = [write_name(label) for label in labels]
    dots = [axes.plot([], [], "o", color=colour)[0] for colour in class_colours(np.arange(len(written)))]
    n_columns = max(1, int(10 * axes.figure.get_figwidth()) // (6 + max(map(len, written))))
    frame = {"frameon": False, "fontsize": "small", "borderaxespad": 0.2, "ncols": n_columns, "handlelength": 1.0}
    for text in axes.legend(dots, written, loc="lower left", bbox_to_anchor=(0.0, 1.0), **frame).get_texts():
        text.set_parse_math(False)


def interaction_heatmap(scan: Any, *, names: Any = None, title: str = "", ax: Any = None) -> Any:
    """Draw the p-values of all pairs among the first features of a fitted `InteractionScan`.

    Parameters
    ----------
    scan : InteractionScan
        Fitted.
    names, title : sequence of str and str
        Names of the columns (None: those that the scan was fitted with), and title of the panel.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None: a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The colour is -log10 p, not corrected; a line on the colour bar marks the p-value that holds after correction
        for the number of all pairs. The diagonal is grey.

    Examples
    --------
    >>> from randsel import InteractionScan, datasets, plots
    >>> X, y, relevant = datasets.make_xor(200, 5, random_state=0)
    >>> axes = plots.interaction_heatmap(InteractionScan().fit(X, y), names=["a", "b", "c", "d", "e"])
    >>> sorted(label.get_text() for label in axes.get_xticklabels())
    ['a', 'b', 'c', 'd', 'e']
    """
    names = find_names(names, scan)
    n_shown = len(scan.top_)
    axes = prepare_axes(ax, (2.4 + 0.36 * n_shown, 1.4 + 0.36 * n_shown))
    labels = _write_names(axes, scan.top_, names)
    strength = -np.log10(np.maximum(scan.top_pvalues_, 1e-300))
    # the main effects on the diagonal would dominate the scale
    strength = np.where(np.eye(n_shown, dtype=bool), np.nan, strength)
    strongest = float(np.nanmax(strength, initial=0.0)) if n_shown > 1 else 0.0
    n_pairs = max(1, scan.n_features_in_ * (scan.n_features_in_ - 1) // 2)
    corrected = -np.log10(0.05 / n_pairs)  # strength of p = 0.05 after correction
    limit = min(max(strongest, corrected + 1.0), max(STRONGEST, corrected + 1.0))
    image = axes.imshow(strength, cmap="magma_r", vmin=0.0, vmax=limit)
    # on a dark page, an empty diagonal would look like the strongest pairs
    image.set_cmap(image.get_cmap().with_extremes(bad=DIAGONAL))
    # names are text, even if they contain dollar signs
    axes.set_xticks(range(n_shown), labels, rotation=90, parse_math=False, fontsize="small")
    axes.set_yticks(range(n_shown), labels, parse_math=False, fontsize="small")
    axes.spines[:].set_visible(False)
    axes.set_title(title or "Pairs of the first features", loc="left", fontsize="medium")
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.8, extend="max" if strongest > limit else "neither")
    bar.set_label("-log10 p, not corrected; line: p = 0.05 after correction", fontsize="small")
    bar.ax.axhline(corrected, color="tab:blue", linewidth=2.0)
    return axes
