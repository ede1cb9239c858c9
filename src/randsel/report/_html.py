"""The HTML report: `contents` collects text, numbers and figures, and `render` lays them out in one file.

`contents` returns strings, numbers, lists and dictionaries only. The file loads nothing from the network, and names
from the data are escaped everywhere.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from randsel._utils import text
from randsel._utils.typing import Array
from randsel.analysis import NAME, RANK, SELECTED, Accuracy, Analysis, Pair, Stability, value_columns
from randsel.interactions import LEVEL
from randsel.plots import accuracy as accuracy_panel
from randsel.plots import class_colours, culling_path, feature_panel, pair_panel, survival_panels
from randsel.report import _figures as figures
from randsel.report._sentences import MEANING_OF_Q, describe_details, describe_rule, verdict
from randsel.report._shared import TEMPLATES, render_page
from randsel.report._svg import draw_figure, draw_panel
from randsel.targets import KINDS, SURVIVAL, OutcomeKind

TABLE, PAIRS = 500, 10  # maximum number of features and pairs listed; the CSV files contain all
STAND_INS = 20  # maximum number of features whose stand-ins are listed
#: Class labels are drawn below strips of samples if they are at most this long and this many.
SHORT_LABEL, FEW_STRIPS = 10, 3
#: What to cite; a test compares it with CITATION.cff.
PAPER = "Athanasakis, Dimitrios; Shawe-Taylor, John; Fernandez-Reyes, Delmiro (2013). Learning Non-Linear Feature Maps."
SOFTWARE = "The randsel developers. randsel: non-linear feature selection by kernel-target alignment."
#: Widths of figures, in inches, for wide and narrow windows.
WIDTHS = {"wide": 6.4, "narrow": 3.7}


# ---------------------------------------------------------------- contents


def contents(analysis: Analysis) -> dict[str, Any]:
    """Return everything that the report shows, as one dictionary.

    Parameters
    ----------
    analysis : Analysis
        The results.

    Returns
    -------
    dict
        Strings, numbers, None, lists and dictionaries; under the keys "figure" and "figures", pictures as SVG.

    Examples
    --------
    >>> from randsel import datasets, report
    >>> from randsel.analysis import Settings, analyse
    >>> from randsel.tables import Table
    >>> X, y, relevant = datasets.make_xor(200, 20, random_state=0)
    >>> analysis = analyse(Table(X, y, tuple(f"g{j}" for j in range(20))), Settings(halves=0, folds=0))
    >>> content = report.contents(analysis)
    >>> content["title"], content["kind"], content["features"]["total"]
    ('Feature selection', 'classification', 20)
    """
    data, run = str(analysis.settings.get("data", "")), _describe_run(analysis.settings)
    return {
        "title": f"Feature selection: {text.make_visible(data)}" if data else "Feature selection",
        "kind": analysis.kind,
        "nothing_stands_out": bool(analysis.nothing_stands_out),
        "rule": describe_rule(analysis.rule),
        "verdict": [line._asdict() for line in verdict(analysis)],
        "details": describe_details(analysis),
        "facts": _list_facts(analysis),
        "warnings": [text.make_visible(sentence) for sentence in analysis.warnings],
        "notes": [text.make_visible(sentence) for sentence in analysis.notes],
        "target": describe_target(analysis.table.y, analysis.outcome, figures.target_name(analysis)),
        "path": _describe_path(analysis),
        "features": _describe_features(analysis),
        "effects": {"measure": analysis.effects.measure, "difference": analysis.effects.difference_name},
        "overview": _draw_overview(analysis),
        "pairs": _describe_pairs(analysis),
        "stand_ins": _describe_stand_ins(analysis),
        "accuracy": None if analysis.accuracy is None else _describe_accuracy(analysis.accuracy),
        "panel_sizes": _describe_panel_sizes(analysis),
        "predictions": _draw_predictions(analysis),
        "shown_samples": _say_what_is_predicted(analysis),
        "survival": _describe_survival(analysis),
        "stability": None if analysis.stability is None else _describe_stability(analysis.stability),
        "settings": _flatten_settings(analysis.settings),
        "repeat": run,
        "cite": cite(run["version"]),
    }


def _list_facts(analysis: Analysis) -> list[dict[str, str]]:
    n_selected = sum(feature.selected for feature in analysis.features)
    counts = dict(zip(("samples", "features", "selected"), (*analysis.table.X.shape, n_selected), strict=True))
    facts = {name: text.format_count(count) for name, count in counts.items()}
    if analysis.accuracy is not None:
        facts[analysis.accuracy.measure] = text.format_mean_and_sd(analysis.accuracy.selected)
    return [{"name": name, "value": value} for name, value in facts.items()]


def cite(version: str | None) -> list[str]:
    """Return what to cite: the paper, and the software in its version."""
    return [PAPER, SOFTWARE if version is None else f"{SOFTWARE} Version {version}."]


def describe_target(y: Array, outcome: OutcomeKind, name: str) -> dict[str, Any]:
    """Return the range of numbers, or the classes in ascending order with the colours that figures give them."""
    if outcome is SURVIVAL:
        return {"name": name, "events": int(y["event"].sum()), "last": float(y["time"].max())}
    if not outcome.has_classes:
        low, middle, high = float(np.min(y)), float(np.median(y)), float(np.max(y))
        return {"name": name, "low": low, "middle": middle, "high": high}
    classes, counts = np.unique(y, return_counts=True)
    labels = [text.make_visible(text.format_label(label)) for label in classes]
    described = [
        {"name": label, "count": int(count), "colour": str(class_colours(code)), "place": code + 1}
        for code, (label, count) in enumerate(zip(labels, counts, strict=True))
    ]
    return {"name": name, "classes": described}


def _describe_features(analysis: Analysis) -> dict[str, Any]:
    listed = analysis.features[:TABLE]
    columns = (SELECTED, RANK, NAME, *analysis.columns)
    return {
        "total": len(analysis.features),
        "exponent": _common_exponent([feature.contribution for feature in listed]),
        "rows": [{column.field: column.to_json(feature) for column in columns} for feature in listed],
        "n_selected": sum(feature.selected for feature in analysis.features),
        "numbered": not _strip_labels(analysis),
        "drawn": _draw_features(analysis),
    }


def _draw_features(analysis: Analysis) -> list[dict[str, Any]]:
    """Draw the first selected features, one by one."""
    outcome, y, name = analysis.outcome, analysis.table.y, figures.target_name(analysis)
    options: dict[str, Any] = {"categories": outcome.has_classes, "labels": _strip_labels(analysis), "target": name}
    drawn, time = [], figures.time_name(analysis)
    for feature in figures.selected_features(analysis, figures.DRAWN):
        name, values = text.make_visible(feature.name), analysis.table.X[:, feature.column]
        if outcome is SURVIVAL:
            about = f"survival of samples of low and of high {name}"
            figure = draw_figure(survival_panels, y, {"": values}, time=time, size=(2.3, 2.2), about=about)
        else:
            figure = draw_panel(feature_panel, values, y, about=f"{name} by target", size=(2.3, 1.8), **options)
        drawn.append({"name": name, "direction": feature.direction, "figure": figure})
    return drawn


def _draw_overview(analysis: Analysis) -> dict[str, Any]:
    """Draw the heat map of the selected features, None if there are none, and the volcano plot."""
    n_rows, heatmap = len(figures.selected_features(analysis, figures.ROWS)), None
    if n_rows:
        height = figures.heatmap_height(n_rows)
        about = "Selected features in all samples, ordered by target"
        heatmap = _draw_both(figures.draw_heatmap, analysis, height, height, about)
    about = "Effect of every feature against its p-value"
    return {
        "heatmap": None if heatmap is None else {"n_rows": n_rows, "figures": heatmap},
        "volcano": {"figures": _draw_both(figures.draw_volcano, analysis, 3.8, 3.4, about)},
    }


def _draw_both(draw: Any, analysis: Analysis, wide: float, narrow: float, about: str) -> dict[str, str]:
    """Draw a figure for wide and for narrow windows, of these heights."""
    sizes = {"wide": (WIDTHS["wide"], wide), "narrow": (WIDTHS["narrow"], narrow)}
    return {width: draw_panel(draw, analysis, about=about, size=size) for width, size in sizes.items()}


def _describe_panel_sizes(analysis: Analysis) -> dict[str, Any] | None:
    curve = analysis.panel_sizes
    if curve is None or analysis.accuracy is None:
        return None
    about = "Score in cross-validation against the number of features"
    return {
        "sizes": curve.sizes.tolist(),
        "means": [_finite_or_none(value) for value in curve.means.tolist()],
        "standard_errors": [_finite_or_none(value) for value in curve.standard_errors.tolist()],
        "selected": curve.selected,
        "best": curve.best,
        "one_se": curve.one_se,
        "figures": _draw_both(figures.draw_panel_sizes, analysis, 2.8, 2.8, about),
    }


def _draw_predictions(analysis: Analysis) -> list[dict[str, str]]:
    drawings = figures.prediction_figures(analysis).items()
    return [
        {"about": about, "figure": draw_panel(draw, analysis, about=about, size=(3.2, 3.0))} for about, draw in drawings
    ]


def _say_what_is_predicted(analysis: Analysis) -> str:
    """Return the sentence that says how many samples have predictions; an empty string if all have."""
    held_out = None if analysis.accuracy is None else analysis.accuracy.held_out
    if held_out is None or (n_shown := int(np.isfinite(held_out.predicted).sum())) == len(held_out.predicted):
        return ""
    count = f"{text.format_count(n_shown)} of {text.format_count(len(held_out.predicted))}"
    return f" Only {count} samples are shown, because folds in which nothing was selected predict nothing."


def _describe_survival(analysis: Analysis) -> dict[str, Any] | None:
    """Return the curves of held-out samples of low and of high predicted risk; None if there are none."""
    risk_groups = figures.predicted_risk_groups(analysis) if analysis.outcome is SURVIVAL else {}
    if not risk_groups:
        return None
    about = "survival of held-out samples of low and of high predicted risk"
    sizes = {"wide": (6.4, 3.2), "narrow": (3.7, 2.8)}
    values = {"": next(iter(risk_groups.values()))}  # the heading of the section is title enough
    options: dict[str, Any] = {"time": figures.time_name(analysis), "about": about}
    return {
        "figures": {
            width: draw_figure(survival_panels, analysis.table.y, values, size=size, **options)
            for width, size in sizes.items()
        },
    }


def _common_exponent(values: Sequence[float]) -> int:
    """Return the power of ten in whose units the largest value has one or two digits before the point."""
    largest = float(np.nanmax(np.abs(values), initial=0.0))
    return 0 if largest == 0.0 or 0.1 <= largest < 1000 else int(np.floor(np.log10(largest)))


def _strip_labels(analysis: Analysis) -> tuple[str, ...]:
    """Return the class labels if they fit below strips of samples; otherwise nothing, and strips are numbered."""
    labels = tuple(text.make_visible(label) for label in analysis.effects.classes)
    fits = len(labels) <= FEW_STRIPS and all(len(label) <= SHORT_LABEL for label in labels)
    return labels if fits else ()


def _describe_stand_ins(analysis: Analysis) -> dict[str, Any]:
    described = [feature for feature in analysis.features if analysis.stand_ins.get(feature.column)]
    rows = [
        {
            "feature": text.make_visible(feature.name),
            "stand_in": text.make_visible(analysis.table.names[stand_in.column]),
            "correlation": _finite_or_none(stand_in.correlation),
            "loss": _finite_or_none(stand_in.loss),
        }
        for feature in described[:STAND_INS]
        for stand_in in analysis.stand_ins[feature.column]
    ]
    return {"total": len(described), "listed": min(len(described), STAND_INS), "rows": rows}


def _describe_pair(pair: Pair) -> dict[str, Any]:
    return {
        "first": text.make_visible(pair.first),
        "second": text.make_visible(pair.second),
        **{name: _finite_or_none(getattr(pair, name)) for name in ("statistic", "p", "corrected_p")},
    }


def _finite_or_none(value: float | None) -> float | None:
    return float(value) if value is not None and np.isfinite(value) else None


def _describe_pairs(analysis: Analysis) -> dict[str, Any]:
    """Return the pairs that hold after correction for the number of all pairs: others are not shown."""
    significant = figures.significant_pairs(analysis)
    return {
        "total": len(analysis.pairs),
        "significant": len(significant),
        "level": LEVEL,
        "rows": [_describe_pair(pair) for pair in significant[:PAIRS]],
        "drawn": [_draw_pair(analysis, pair) for pair in significant[: figures.DRAWN_PAIRS]],
    }


def _draw_pair(analysis: Analysis, pair: Pair) -> dict[str, Any]:
    row, X = _describe_pair(pair), analysis.table.X
    names = row["first"], row["second"]
    about = f"{names[0]} and {names[1]}, coloured by target"
    options: dict[str, Any] = {"labels": names, "categories": analysis.outcome.has_classes, "size": (3.0, 2.7)}
    # survival is shown by its martingale residuals: more or fewer events than expected
    values = X[:, pair.first_column], X[:, pair.second_column], analysis.outcome.to_numbers(analysis.table.y)[0]
    return {**row, "figure": draw_panel(pair_panel, *values, about=about, **options)}


def _describe_path(analysis: Analysis) -> dict[str, Any]:
    names = [text.make_visible(name) for name in analysis.table.names]
    options: dict[str, Any] = {
        "highlight": figures.columns_to_highlight(analysis),
        "about": "Contribution of every feature, and alignment and error of the features left, round by round",
        "title": None,
    }
    drawn = {}
    for width, height, longest in (("wide", 5.4, 28), ("narrow", 5.0, 14)):
        shortened = [text.shorten(name, longest) for name in names]
        size = (WIDTHS[width], height)
        drawn[width] = draw_figure(culling_path, analysis.path, names=shortened, size=size, **options)
    best = analysis.path.rounds[analysis.path.best]
    return {
        "rounds": len(analysis.path.rounds),
        "best": len(best.features),
        "alignment": float(best.alignment),
        "chance": float(best.chance),
        "has_errors": analysis.path.errors is not None,
        "made_selection": analysis.rule.name == "path",
        "figures": drawn,
    }


def _describe_accuracy(accuracy: Accuracy) -> dict[str, Any]:
    values = {"selected": accuracy.selected, "all features": accuracy.everything}
    options: dict[str, Any] = {"chance": accuracy.chance, "measure": accuracy.measure, "highlight": "selected"}
    options["about"] = f"{accuracy.measure} in every fold"
    sizes = {"wide": (6.4, 1.5), "narrow": (3.7, 1.6)}
    drawn = {width: draw_panel(accuracy_panel, values, size=size, **options) for width, size in sizes.items()}
    return {
        "measure": accuracy.measure,
        "selected": [float(value) for value in accuracy.selected],
        "everything": [float(value) for value in accuracy.everything],
        "chance": float(accuracy.chance),
        "sizes": [int(size) for size in accuracy.sizes],
        "words": {
            "selected": text.format_mean_and_sd(accuracy.selected),
            "everything": text.format_mean_and_sd(accuracy.everything),
            "chance": f"{accuracy.chance:.2f}",
            "sizes": text.format_range(accuracy.sizes),
        },
        "figures": drawn,
    }


def _describe_stability(stability: Stability) -> dict[str, Any]:
    return {
        "n_halves": int(stability.n_halves),
        "threshold": float(stability.threshold),
        "expected_false": _finite_or_none(stability.expected_false),
        "stable": stability.n_stable,
    }


def _flatten_settings(settings: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return names and values of nested settings as text, without the command, which the report shows elsewhere."""
    rows = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            rows += [row for row in _flatten_settings(value) if row not in rows]  # the seed is also a parameter
        elif name != "command":
            label = str(name).replace("_", " ")
            rows.append({"name": text.make_visible(label), "value": text.make_visible(str(value))})
    return rows


def _describe_run(settings: Mapping[str, Any]) -> dict[str, str | None]:
    return {
        name: text.make_visible(str(settings[name])) if settings.get(name) is not None else None
        for name in ("command", "version", "seed", "data", "data_hash")
    }


# ---------------------------------------------------------------- HTML


def render(content: Mapping[str, Any]) -> str:
    """Lay out the contents of a report as one HTML file.

    Parameters
    ----------
    content : dict
        As `contents` returns it.

    Returns
    -------
    str
        HTML that loads nothing from the network.

    Examples
    --------
    >>> from pathlib import Path
    >>> Path("report.html").write_text(report.render(report.contents(analysis)), "utf-8")  # doctest: +SKIP
    """
    columns = [column for column in (RANK, NAME, *value_columns(**content["effects"])) if column.in_table]
    # a column that is empty in all rows would only take space
    columns = [c for c in columns if any(row[c.field] is not None for row in content["features"]["rows"])]
    return lay_out("report.html.j2", content, columns=columns)


def lay_out(template: str, content: Mapping[str, Any], **more: Any) -> str:
    """Lay out the contents of a report by a template of `TEMPLATES`, with its numbers as JSON."""
    common = {"has_classes": KINDS[content["kind"]].has_classes, "meaning_of_q": MEANING_OF_Q}
    return render_page(TEMPLATES / template, {**content, **more, **common, "data": _without_figures(content)})


def _without_figures(content: Any) -> Any:
    if isinstance(content, Mapping):
        return {k: _without_figures(v) for k, v in content.items() if k not in ("figure", "figures", "drawn")}
    return [_without_figures(value) for value in content] if isinstance(content, list) else content
