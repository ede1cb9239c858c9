"""Colours, sizes and empty figures that all figures share."""

from textwrap import wrap
from typing import Any

import numpy as np

from randsel._utils.text import optional, shorten
from randsel._utils.typing import Array

GREY, RED = "0.6", "#c1121f"
ON_PALE = "#111111"  # text on a pale ground, which stays pale in dark mode
FEW_LEVELS = 12  # features of at most this many distinct values are drawn as discrete
LONG_NAME = 28  # characters of a name on a line of a figure
NARROW = 4.5  # width in inches up to which figures have shorter lines of text
NAME_LINES = 3  # maximum number of lines of a name
MANY = 500  # above this number, lines or samples are drawn as pixels, because vector files would become large
#: Colours of classes, with a contrast of at least 3 to a light and to a dark background.
CLASS_COLOURS = (
    *("#3b7fc4", "#d2691e", "#37985a", "#b452a8", "#8f7d1e"),
    *("#a0664f", "#d9559a", "#7a828c", "#7470d6", "#1c97a3"),
)
LOW_TO_HIGH = ("#2f78bd", "#8c8c8c", "#d9702b")  # colours from low to high values, for a light and a dark background


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure, which opens no window and belongs to no session of pyplot.

    Parameters
    ----------
    width, height : float
        Size, inches.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; `figure.subplots()` adds axes to pass to a function with an argument `ax`.

    Examples
    --------
    >>> from randsel import plots
    >>> figure = plots.new_figure(5.0, 3.0)
    >>> axes = plots.accuracy({"selected": [0.8, 0.9]}, chance=0.5, ax=figure.subplots())
    >>> axes.figure is figure
    True
    """
    matplotlib_figure = optional("matplotlib.figure", extra="plot", purpose="Drawing")
    return matplotlib_figure.Figure(figsize=(width, height), layout="constrained")


def figure_of(axes: Any) -> Any:
    """Return the figure of axes, or of an array of axes.

    Parameters
    ----------
    axes : matplotlib.axes.Axes or ndarray of matplotlib.axes.Axes
        What a function of `randsel.plots` returned.

    Returns
    -------
    matplotlib.figure.Figure
        The figure, to be saved or changed.

    Examples
    --------
    >>> from randsel import RandSel, datasets, plots
    >>> X, y, relevant = datasets.make_xor(200, 30, random_state=0)
    >>> panels = plots.culling_path(RandSel().fit(X, y))
    >>> len(plots.figure_of(panels).axes)
    3
    """
    return np.ravel(axes)[0].figure


def prepare_axes(ax: Any, size: tuple[float, float]) -> Any:
    """Return the axes to draw on: `ax`, or those of a new pyplot figure of a size in inches if it is None."""
    if ax is None:
        pyplot = optional("matplotlib.pyplot", extra="plot", purpose="Drawing")
        _, ax = pyplot.subplots(figsize=size, layout="constrained")
    ax.spines[["top", "right"]].set_visible(False)
    ax.locator_params(nbins=4)
    return ax


def write_name(name: Any, width: int = LONG_NAME, lines: int = NAME_LINES) -> str:
    """Break a name into at most `lines` lines of `width` characters; an ellipsis stands for the rest."""
    return "\n".join(wrap(shorten(str(name), width * lines), width, break_on_hyphens=False)[:lines]) or str(name)


def is_narrow(axes: Any) -> bool:
    """Return whether the figure of axes is drawn for a phone, or as a small picture."""
    return bool(axes.figure.get_figwidth() <= NARROW)


def find_names(names: Any, *sources: Any) -> Any:
    """Return `names`; if they are None, those of the first data frame or fitted estimator that has some; else None."""
    for source in sources:
        if names is None:
            names = getattr(source, "feature_names_in_", getattr(source, "columns", None))
    return names


def to_columns(selection: Any) -> Array:
    """Return the columns of a mask or of an array of columns, or those that a fitted selector selected."""
    if hasattr(selection, "get_support"):
        return np.asarray(selection.get_support(indices=True))
    selection = np.asarray(selection)
    return np.flatnonzero(selection) if selection.dtype == bool else selection


def are_classes(y: Array) -> bool:
    """Return whether a target is drawn as classes: text, or at most ten distinct values."""
    return len(np.unique(y)) <= 10 or y.dtype.kind not in "fiub"


def low_to_high() -> Any:
    """Return `LOW_TO_HIGH` as a colour map."""
    colors = optional("matplotlib.colors", extra="plot", purpose="Drawing")
    return colors.LinearSegmentedColormap.from_list("low to high", LOW_TO_HIGH)


def jitter(values: Array, seed: int) -> Array:
    """Spread the samples of a discrete feature around its levels; a continuous one stays as it is."""
    levels = np.unique(values)
    if len(levels) < 2 or len(levels) > FEW_LEVELS:
        return values
    noise = np.random.default_rng(int(seed)).uniform(-1.0, 1.0, len(values))
    return np.asarray(values + 0.15 * np.diff(levels).min() * noise)


def class_colours(codes: Any) -> Any:
    """Return the colour of each class; after ten classes, colours repeat."""
    return np.array(CLASS_COLOURS)[np.asarray(codes) % len(CLASS_COLOURS)]


def spread_labels(positions: Array, spacing: float, low: float, high: float) -> Array:
    """Move ascending positions of labels apart by at least `spacing`, as little as needed and within the limits."""
    positions = np.asarray(positions, dtype=float)
    spacing = min(spacing, (high - low) / max(len(positions) - 1, 1))
    steps = spacing * np.arange(len(positions))
    # forward pass from below, then backward pass from above
    moved = np.maximum.accumulate(np.maximum(positions, low) - steps) + steps
    excess = np.minimum.accumulate((np.minimum(moved, high) - steps)[::-1])[::-1] + steps
    return np.asarray(np.maximum(excess, low + steps))
