"""Colours, sizes and empty figures that all figures share."""

from typing import Any

import numpy as np

from randsel._utils.text import optional
from randsel._utils.typing import Array

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


def new_figure(width: float, height: float) -> Any:
    matplotlib_figure = optional("matplotlib.figure", extra="plot", purpose="Drawing")
    return matplotlib_figure.Figure(figsize=(width, height), layout="constrained")


def one_panel(size: tuple[float, float]) -> tuple[Any, Any]:
    figure = new_figure(*size)
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.locator_params(nbins=4)
    return figure, axes


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
