"""Figures of survival: Kaplan-Meier curves of samples of low and of high values."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from randsel._utils.text import optional
from randsel._utils.typing import Array
from randsel.plots._style import LOW_TO_HIGH, new_figure, write_name
from randsel.targets import SurvivalCurve, check_outcome, kaplan_meier

COLUMNS = 3  # maximum number of panels side by side
FEW_AT_RISK = 5  # curves are dotted where fewer samples are at risk
TIME_WIDTH = 24  # maximum number of characters of the label of the time axis
FEW_TICKS = 5  # maximum number of times at which the samples at risk are counted


def survival_panels(
    y: Any,
    values: Mapping[str, Any],
    *,
    labels: tuple[str, str] = ("low", "high"),
    title: str | None = None,
    time: str | None = None,
    size: tuple[float, float] = (3.2, 2.9),
) -> Any:
    """Draw Kaplan-Meier curves of the samples of low and of high values, with the numbers of samples at risk.

    Parameters
    ----------
    y : structured array or data frame
        Events and times, as in `RandSel.fit`.
    values : dict of str to array, or data frame
        Title and values of each panel. Numbers are split at their median, which counts as low; a bool array is True for
        high. Samples of missing values are left out.
    labels, title : tuple of str and str
        Names of the two curves, and title of the figure.
    time : str, default=None
        Label of the time axis. None: the name of the second field if y is a structured array, otherwise "time".
    size : tuple of float
        Width and height of a panel, inches.

    Returns
    -------
    ndarray of matplotlib.axes.Axes
        One panel for each entry of `values`. Small ticks on the curves are censored samples. Curves are dotted where
        fewer than five samples are at risk: there, one event lowers a curve by at least a quarter of its height.

    Examples
    --------
    >>> import numpy as np
    >>> from randsel import plots
    >>> rng = np.random.default_rng(0)
    >>> risk = rng.standard_normal(80)
    >>> y = np.zeros(80, dtype=[("event", bool), ("time", float)])
    >>> y["event"], y["time"] = rng.random(80) < 0.7, rng.exponential(np.exp(-risk))
    >>> panels = plots.survival_panels(y, {"risk": risk})
    >>> panels[0].get_ylabel()
    'fraction without event'
    """
    outcome, values = check_outcome(y, "survival"), dict(values.items())
    time = time or (getattr(getattr(y, "dtype", None), "names", None) or ("event", "time"))[1]
    n_columns = max(1, min(COLUMNS, len(values)))
    n_rows = max(1, -(-len(values) // n_columns))
    figure = new_figure(size[0] * n_columns, size[1] * n_rows)
    panels = figure.subplots(n_rows, n_columns, squeeze=False)
    for axes, (name, scores) in zip(panels.ravel(), values.items(), strict=False):
        _draw_curves(axes, outcome, np.asarray(scores), labels)
        axes.set_xlabel(
            f"{write_name(time, TIME_WIDTH, 1)}, and samples at risk", fontsize="small", labelpad=1, parse_math=False
        )
        if name:
            axes.set_title(write_name(name), loc="left", fontsize="medium", parse_math=False)
    for axes in panels.ravel()[len(values) :]:
        axes.set_axis_off()
    if title:
        figure.suptitle(title)
    return panels.ravel()[: len(values)]


def split_at_median(values: Array) -> Array:
    """Return which values are above the median; at least the median if that is the largest value."""
    if values.dtype.kind == "b":
        return values
    median = np.nanmedian(values)
    is_high: Array = values > median
    return is_high if is_high.any() else values >= median


def _draw_curves(axes: Any, y: Array, values: Array, labels: tuple[str, str]) -> None:
    ticker = optional("matplotlib.ticker", extra="plot", purpose="Drawing")
    known = np.full(len(y), True) if values.dtype.kind == "b" else np.isfinite(values)
    is_high = split_at_median(values[known])
    outcome, last = y[known], float(y["time"].max())
    ticks = [t for t in ticker.MaxNLocator(FEW_TICKS - 1).tick_values(0.0, last) if 0.0 <= t <= last]
    offset = {"textcoords": "offset points", "ha": "center", "va": "top", "fontsize": "small", "annotation_clip": False}
    for row, (name, members) in enumerate(zip(labels, (outcome[~is_high], outcome[is_high]), strict=True)):
        if not len(members):
            continue
        colour, curve = LOW_TO_HIGH[2 * row], kaplan_meier(members["time"], members["event"])
        _draw_curve(axes, curve, colour, name)
        censored = curve.n_censored > 0
        style = {"linestyle": "", "marker": "|", "markersize": 5.0, "color": colour}
        axes.plot(curve.times[censored], curve.survival[censored], **style)
        # numbers at risk are written below the labels of the axis
        for tick in ticks:
            position = {"xy": (tick, 0.0), "xycoords": ("data", "axes fraction"), "xytext": (0, -30 - 10 * row)}
            axes.annotate(str(int((members["time"] >= tick).sum())), color=colour, **position, **offset)
    axes.set_xticks(ticks)
    axes.set(xlim=(0.0, 1.02 * last), ylim=(0.0, 1.05), ylabel="fraction without event")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize="small", loc="best", handlelength=1.2)


def _draw_curve(axes: Any, curve: SurvivalCurve, colour: str, name: str) -> None:
    """Draw a curve, dotted after the last time with at least `FEW_AT_RISK` samples at risk."""
    times, survival = np.concatenate([[0.0], curve.times]), np.concatenate([[1.0], curve.survival])
    n_certain = 1 + int((curve.n_at_risk >= FEW_AT_RISK).sum())
    style: dict[str, Any] = {"where": "post", "color": colour, "linewidth": 1.6}
    axes.step(times[:n_certain], survival[:n_certain], **style, label=name)
    axes.step(times[n_certain - 1 :], survival[n_certain - 1 :], **style, linestyle=(0, (1.0, 1.2)))
