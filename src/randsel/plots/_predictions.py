"""Figures of predictions of held-out samples."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.metrics import confusion_matrix as count_confusions
from sklearn.metrics import roc_auc_score
from sklearn.metrics import roc_curve as trace_roc_curve

from randsel.plots._style import CLASS_COLOURS, GREY, MANY, ON_PALE, RED, prepare_axes, write_name

GRID = np.linspace(0.0, 1.0, 101)  # false positive rates at which the curves of folds are averaged
MANY_CLASSES = 5  # with more classes, a confusion matrix has small text and names of one line


def roc_curve(y: Any, scores: Any, *, folds: Any = None, positive: str = "", ax: Any = None) -> Any:
    """Draw the ROC curve of predicted scores: one curve for each fold, and their mean.

    Parameters
    ----------
    y : array or series
        The true classes, two of them.
    scores : array or series
        Predicted scores, larger for the second class in ascending order. Samples without a score are left out.
    folds : array of int, default=None
        Fold of every sample. Each fold has its own curve, because scores of different models are not comparable. Folds
        with samples of one class only are left out. None: one fold.
    positive : str
        Name of the second class, for the axes.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None: a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The panel; its legend has the mean area under the curves.

    Examples
    --------
    >>> import numpy as np
    >>> from randsel import plots
    >>> axes = plots.roc_curve(np.array([0, 0, 1, 1]), np.array([0.1, 0.4, 0.35, 0.8]))
    >>> [text.get_text() for text in axes.get_legend().get_texts()]
    ['AUC 0.75']
    """
    axes = prepare_axes(ax, (3.8, 3.6))
    y, scores = np.asarray(y), np.asarray(scores, dtype=float)
    folds = np.zeros(len(y), dtype=int) if folds is None else np.asarray(folds)
    is_positive = y == np.unique(y)[-1]
    curves, areas = [], []
    for fold in np.unique(folds):
        members = (folds == fold) & np.isfinite(scores)
        if len(np.unique(is_positive[members])) == 2:
            false_rate, true_rate, _ = trace_roc_curve(is_positive[members], scores[members])
            curves.append(np.interp(GRID, false_rate, true_rate))
            areas.append(roc_auc_score(is_positive[members], scores[members]))
            axes.plot(false_rate, true_rate, color=GREY, linewidth=0.8, alpha=0.8)
    axes.plot([0.0, 1.0], [0.0, 1.0], color=GREY, linewidth=0.8, linestyle="--")
    if curves:
        name = f"AUC {np.mean(areas):.2f}"
        name = f"mean of {len(areas)} folds, {name} ± {np.std(areas, ddof=1):.2f}" if len(areas) > 1 else name
        axes.plot([0.0, *GRID], [0.0, *np.mean(curves, axis=0)], color=RED, linewidth=1.8, label=name)
        axes.legend(frameon=False, fontsize="small", loc="lower right")
    suffix = f" ({positive})" if positive else ""
    axes.set_xlabel("false positive rate")
    axes.set_ylabel(f"true positive rate{suffix}", parse_math=False)
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    return axes


def confusion_matrix(y: Any, predicted: Any, *, labels: Sequence[str] = (), ax: Any = None) -> Any:
    """Draw how many samples of each class were predicted as which class.

    Parameters
    ----------
    y, predicted : arrays or series
        The true and the predicted classes. Samples whose prediction is missing (NaN) are left out.
    labels : sequence of str
        Labels of the classes, in ascending order; the values themselves if left out.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None: a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        Numbers are counts; the colour is the share of the true class.

    Examples
    --------
    >>> from randsel import plots
    >>> axes = plots.confusion_matrix(["a", "a", "b"], ["a", "b", "b"])
    >>> [text.get_text() for text in axes.texts]
    ['1', '1', '0', '1']
    """
    axes = prepare_axes(ax, (3.6, 3.2))
    y, predicted = np.asarray(y), np.asarray(predicted)
    known = np.isfinite(predicted) if predicted.dtype.kind == "f" else np.full(len(y), True)
    classes = np.unique(y)
    counts = count_confusions(y[known], predicted[known], labels=classes)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    # pale enough for dark numbers
    axes.imshow(shares, cmap="Blues", vmin=0.0, vmax=2.0)
    many = len(classes) > MANY_CLASSES  # there is no room for a second line
    names = [write_name(label, 18, 1) if many else write_name(label, 14) for label in (labels or classes)]
    size = {"fontsize": "x-small"} if many else {}
    for (row, column), count in np.ndenumerate(counts):
        axes.text(column, row, str(count), ha="center", va="center", color=ON_PALE, **size)
    upright = len(names) * max(map(len, names)) <= 30
    axes.set_xticks(range(len(classes)), names, rotation=0 if upright else 90, parse_math=False, **size)
    axes.set_yticks(range(len(classes)), names, parse_math=False, **size)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set(xlabel="predicted", ylabel="true class")
    return axes


def predicted_values(y: Any, predicted: Any, *, target: str = "target", ax: Any = None) -> Any:
    """Draw predicted numbers against the true ones.

    Parameters
    ----------
    y, predicted : arrays or series
        The true and the predicted numbers. Samples whose prediction is missing (NaN) are left out.
    target : str
        Name of the target, for the axes.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None: a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The panel; on the dashed line, predictions are right.

    Examples
    --------
    >>> from randsel import plots
    >>> plots.predicted_values([1.0, 2.0], [1.1, 1.8], target="yield").get_xlabel()
    'yield'
    """
    axes = prepare_axes(ax, (3.8, 3.6))
    y, predicted = np.asarray(y, dtype=float), np.asarray(predicted, dtype=float)
    known = np.isfinite(predicted)
    y, predicted = y[known], predicted[known]
    if len(y):
        ends = min(y.min(), predicted.min()), max(y.max(), predicted.max())
        axes.plot(ends, ends, color=GREY, linewidth=0.8, linestyle="--")
    style = {"linestyle": "", "marker": "o", "markersize": 3.2, "markeredgewidth": 0, "alpha": 0.7}
    axes.plot(y, predicted, color=CLASS_COLOURS[0], rasterized=len(y) > MANY, **style)
    axes.set_xlabel(write_name(target), parse_math=False)
    axes.set_ylabel("predicted")
    return axes
