"""Figures of an analysis: which features and pairs are drawn, and how each figure gets its data."""

from collections.abc import Callable, Sequence
from functools import partial
from textwrap import fill
from typing import Any

import numpy as np

from randsel._utils import text
from randsel._utils.typing import Array
from randsel.analysis import Analysis, Feature, HeldOut, Pair, named_target
from randsel.interactions import LEVEL
from randsel.plots import (
    FEW_AT_RISK,
    confusion_matrix,
    culling_path,
    feature_heatmap,
    figure_of,
    new_figure,
    panel_sizes,
    predicted_values,
    roc_curve,
    survival_panels,
    volcano,
)
from randsel.targets import SURVIVAL

#: Maximum numbers: of features drawn one by one, of rows of the heat map, of pairs drawn, of features with curves.
DRAWN, ROWS, DRAWN_PAIRS, CURVES = 12, 30, 6, 5


def target_name(analysis: Analysis) -> str:
    """Return the name of the target column; "target" if the settings do not say."""
    return text.make_visible(named_target(analysis.settings))


def time_name(analysis: Analysis) -> str:
    """Return the name of the column of survival times; "time" if the settings do not say."""
    parameters = analysis.settings.get("parameters") or {}
    return text.make_visible(str(parameters.get("time") or "time"))


def selected_features(analysis: Analysis, count: int) -> Sequence[Feature]:
    """Return the first selected features."""
    return [feature for feature in analysis.features if feature.selected][:count]


def significant_pairs(analysis: Analysis) -> Sequence[Pair]:
    """Return the pairs that hold after correction for the number of all pairs."""
    return [pair for pair in analysis.pairs if pair.corrected_p <= LEVEL]


def columns_to_draw(analysis: Analysis) -> Array:
    """Return the columns of the table whose values figures show, ascending; a stored analysis has only these."""
    features = [feature.column for feature in selected_features(analysis, max(DRAWN, ROWS))]
    pairs = [(pair.first_column, pair.second_column) for pair in significant_pairs(analysis)[:DRAWN_PAIRS]]
    return np.unique([*features, *(column for pair in pairs for column in pair)]).astype(int)


# ---------------------------------------------------------------- figures on axes


def draw_heatmap(analysis: Analysis, *, ax: Any, legend: bool = False) -> Any:
    """Draw the selected features in all samples, ordered by target; survival by its martingale residuals."""
    columns = np.array([feature.column for feature in selected_features(analysis, ROWS)], dtype=int)
    values, names = analysis.table.X[:, columns], [text.make_visible(analysis.table.names[j]) for j in columns]
    y = analysis.outcome.to_numbers(analysis.table.y)[0]
    labels = [text.make_visible(label) for label in analysis.effects.classes] if legend else ()
    axes = feature_heatmap(values, y, names=names, categories=analysis.outcome.has_classes, labels=labels, ax=ax)
    by = "events less those expected" if analysis.outcome is SURVIVAL else target_name(analysis)
    axes.set_xlabel(fill(f"{len(y)} samples, ordered by {by}", 40), parse_math=False, fontsize="small")
    return axes


def signed_effects(analysis: Analysis) -> tuple[Array, str]:
    """Return an effect of every feature whose sign is its direction, and its name.

    Differences of values that are not logarithms depend on the units of the features, and are not comparable.
    """
    effects = analysis.effects
    if effects.difference_name is not None and effects.log2:
        classes = f": {text.make_visible(effects.classes[1])} less {text.make_visible(effects.classes[0])}"
        return effects.difference, effects.difference_name + classes
    if effects.measure == "hazard ratio":
        return np.log2(effects.estimate), "log2 hazard ratio per standard deviation"
    if effects.measure == "correlation":
        return effects.estimate, f"rank correlation with {target_name(analysis)}"
    meaning = "AUC − 0.5 of one class; negative if lower in it"
    if len(effects.classes) == 2:
        meaning = f"AUC − 0.5; positive if higher in {text.make_visible(effects.classes[1])}"
    return effects.sign * (effects.estimate - effects.neutral), meaning


def _limit_of_q(analysis: Analysis) -> float | None:
    """Return the p-value up to which the procedure of Benjamini and Hochberg passes features; None if none passes."""
    n_passing = sum(feature.q <= LEVEL for feature in analysis.features)
    return LEVEL * n_passing / len(analysis.features) if n_passing else None


def draw_volcano(analysis: Analysis, *, ax: Any) -> Any:
    """Draw effects against p-values; selected features are red and named."""
    effects, label = signed_effects(analysis)
    pvalues = np.full(len(effects), np.nan)
    for feature in analysis.features:
        pvalues[feature.column] = feature.p
    names = [text.make_visible(name) for name in analysis.table.names]
    selected = np.array([feature.column for feature in analysis.features if feature.selected], dtype=int)
    options: dict[str, Any] = {"label": label, "limit": _limit_of_q(analysis), "selected": selected}
    return volcano(effects, pvalues, names=names, ax=ax, **options)


def draw_panel_sizes(analysis: Analysis, *, ax: Any) -> Any:
    """Draw the cross-validated score against the number of features."""
    curve, accuracy = analysis.panel_sizes, analysis.accuracy
    if curve is None or accuracy is None:
        raise ValueError("an analysis without cross-validation has no scores to draw.")
    marks = {"selected": curve.selected} if curve.selected else {}
    marks["fewest within one standard error of the best in cross-validation"] = curve.one_se
    lines: dict[str, Any] = {"chance": accuracy.chance, "everything": float(np.mean(accuracy.everything))}
    return panel_sizes(curve.sizes, curve.scores, marks=marks, measure=accuracy.measure, **lines, ax=ax)


def _draw_roc_curve(held_out: HeldOut, analysis: Analysis, *, ax: Any) -> Any:
    """Draw the ROC curves of the held-out samples, by fold."""
    positive = text.make_visible(analysis.effects.classes[1])
    return roc_curve(analysis.table.y, held_out.score, folds=held_out.fold, positive=positive, ax=ax)


def _draw_confusions(held_out: HeldOut, analysis: Analysis, *, ax: Any) -> Any:
    """Draw how many held-out samples of each class were predicted as which class."""
    codes = np.unique(analysis.table.y, return_inverse=True)[1]
    labels = [text.make_visible(label) for label in analysis.effects.classes]
    return confusion_matrix(codes, held_out.predicted, labels=labels, ax=ax)


def _draw_predicted_values(held_out: HeldOut, analysis: Analysis, *, ax: Any) -> Any:
    """Draw predicted against true numbers of the held-out samples."""
    return predicted_values(analysis.table.y, held_out.predicted, target=target_name(analysis), ax=ax)


def prediction_figures(analysis: Analysis) -> dict[str, Callable[..., Any]]:
    """Return description -> function of the figures of the held-out predictions; survival has curves instead."""
    held_out = None if analysis.accuracy is None else analysis.accuracy.held_out
    if held_out is None or not np.isfinite(held_out.predicted).any() or analysis.outcome is SURVIVAL:
        return {}
    if not analysis.outcome.has_classes:
        return {"Predicted against true values of held-out samples": partial(_draw_predicted_values, held_out)}
    figures: dict[str, Callable[..., Any]] = {}
    if len(analysis.effects.classes) == 2:
        figures["ROC curves of held-out samples"] = partial(_draw_roc_curve, held_out)
    return {**figures, "Predicted and true classes of held-out samples": partial(_draw_confusions, held_out)}


# ---------------------------------------------------------------- figures in files


def _path_figure(analysis: Analysis) -> Any:
    names = [text.make_visible(name) for name in analysis.table.names]
    return figure_of(culling_path(analysis.path, highlight=columns_to_highlight(analysis), names=names))


def columns_to_highlight(analysis: Analysis) -> Array:
    """Return the columns of the selected features that take part in the culling path, best first."""
    entered = set(analysis.path.rounds[0].features.tolist())
    return np.array([f.column for f in analysis.features if f.selected and f.column in entered], dtype=int)


def _survival_figure(analysis: Analysis) -> Any:
    if analysis.outcome is not SURVIVAL:
        return None
    curves = {text.make_visible(f.name): analysis.table.X[:, f.column] for f in selected_features(analysis, CURVES)}
    curves |= predicted_risk_groups(analysis)
    if not curves:
        return None
    figure = figure_of(survival_panels(analysis.table.y, curves, time=time_name(analysis)))
    figure.supxlabel(f"Dotted: fewer than {FEW_AT_RISK} samples at risk.", fontsize="small")
    return figure


def predicted_risk_groups(analysis: Analysis) -> dict[str, Any]:
    """Return title -> whether the predicted risk of held-out samples is high; nothing if it is not known."""
    high_risk = None if analysis.accuracy is None else analysis.accuracy.high_risk
    if high_risk is None or not np.isfinite(high_risk).any():
        return {}
    # folds that select nothing predict nothing
    n_known = int(np.isfinite(high_risk).sum())
    samples = "" if n_known == len(high_risk) else f" ({n_known} of {len(high_risk)})"
    return {f"predicted risk, held out{samples}": high_risk}


def heatmap_height(n_rows: int) -> float:
    """Return the height of a heat map of so many rows, in inches."""
    return 0.9 + 0.17 * n_rows


def _heatmap_figure(analysis: Analysis) -> Any:
    if not (n_rows := len(selected_features(analysis, ROWS))):
        return None
    return _on_new_figure(partial(draw_heatmap, legend=True), analysis, 8.0, 0.6 + 1.4 * heatmap_height(n_rows))


def _volcano_figure(analysis: Analysis) -> Any:
    return _on_new_figure(draw_volcano, analysis, 7.0, 5.0)


def _panel_size_figure(analysis: Analysis) -> Any:
    return None if analysis.panel_sizes is None else _on_new_figure(draw_panel_sizes, analysis, 7.0, 4.0)


def _predictions_figure(analysis: Analysis) -> Any:
    if not (drawings := prediction_figures(analysis)):
        return None
    figure = new_figure(4.4 * len(drawings), 4.0)
    for axes, draw in zip(figure.subplots(1, len(drawings), squeeze=False)[0], drawings.values(), strict=True):
        draw(analysis, ax=axes)
    return figure


def _on_new_figure(draw: Callable[..., Any], analysis: Analysis, width: float, height: float) -> Any:
    figure = new_figure(width, height)
    draw(analysis, ax=figure.subplots())
    return figure


#: Pictures in files of their own: name of the file -> function that draws it, or returns None if there is nothing.
FIGURES: dict[str, Callable[[Analysis], Any]] = {
    "path": _path_figure,
    "heatmap": _heatmap_figure,
    "volcano": _volcano_figure,
    "panel-size": _panel_size_figure,
    "predictions": _predictions_figure,
    "survival": _survival_figure,
}
