"""The HTML report: `contents` collects text, numbers and figures, and `render` lays them out in one file.

`contents` returns strings, numbers, lists and dictionaries only. The file loads nothing from the network, and names
from the data are escaped everywhere.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from randsel._utils import text
from randsel._utils.text import optional
from randsel.analysis import NAME, RANK, SELECTED, Accuracy, Analysis, Pair, Stability, value_columns
from randsel.interactions import LEVEL
from randsel.plots import (
    LOW_TO_HIGH,
    class_colours,
    culling_path,
    feature_panel,
    pair_panel,
    survival_panels,
)
from randsel.plots import accuracy as accuracy_panel
from randsel.report._sentences import MEANING_OF_Q, describe_rule, summarise, verdict
from randsel.report._svg import draw_figure, draw_panel
from randsel.targets import KINDS, SURVIVAL

#: Maximum number of features listed and drawn, and of pairs listed and drawn. The CSV files contain all.
TABLE, DRAWN, PAIRS, DRAWN_PAIRS = 500, 12, 10, 6
STAND_INS = 20  # maximum number of features whose stand-ins are listed
NAMED = 6  # features labelled in the culling path: more labels would overlap
#: Class labels are drawn below strips of samples if they are at most this long and this many.
SHORT_LABEL, FEW_STRIPS = 10, 3
#: What to cite; a test compares it with CITATION.cff.
PAPER = "Athanasakis, Dimitrios; Shawe-Taylor, John; Fernandez-Reyes, Delmiro (2013). Learning Non-Linear Feature Maps."
SOFTWARE = "The randsel developers. randsel: non-linear feature selection by kernel-target alignment."


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
        "summary": summarise(analysis),
        "facts": _list_facts(analysis),
        "warnings": [text.make_visible(sentence) for sentence in analysis.warnings],
        "notes": [text.make_visible(sentence) for sentence in analysis.notes],
        "target": _describe_target(analysis),
        "path": _describe_path(analysis),
        "features": _describe_features(analysis),
        "effects": {"measure": analysis.effects.measure, "difference": analysis.effects.difference_name},
        "pairs": {
            "total": len(analysis.pairs),
            "significant": sum(pair.corrected_p <= LEVEL for pair in analysis.pairs),
            "level": LEVEL,
            "rows": [_describe_pair(pair) for pair in analysis.pairs[:PAIRS]],
            "drawn": [_draw_pair(analysis, pair) for pair in pairs_to_draw(analysis)],
        },
        "stand_ins": _describe_stand_ins(analysis),
        "accuracy": None if analysis.accuracy is None else _describe_accuracy(analysis.accuracy),
        "survival": _describe_survival(analysis),
        "stability": None if analysis.stability is None else _describe_stability(analysis.stability),
        "settings": _flatten_settings(analysis.settings),
        "repeat": run,
        "cite": [PAPER, SOFTWARE if run["version"] is None else f"{SOFTWARE} Version {run['version']}."],
    }


def _list_facts(analysis: Analysis) -> list[dict[str, str]]:
    n_selected = sum(feature.selected for feature in analysis.features)
    counts = dict(zip(("samples", "features", "selected"), (*analysis.table.X.shape, n_selected), strict=True))
    facts = {name: text.format_count(count) for name, count in counts.items()}
    if analysis.accuracy is not None:
        facts[analysis.accuracy.measure] = text.format_mean_and_sd(analysis.accuracy.selected)
    return [{"name": name, "value": value} for name, value in facts.items()]


def _describe_target(analysis: Analysis) -> Any:
    """Return the range of numbers, or the classes in ascending order with the colours that figures give them."""
    y = analysis.table.y
    if analysis.outcome is SURVIVAL:
        return {"events": int(y["event"].sum()), "last": float(y["time"].max())}
    if not analysis.outcome.has_classes:
        return {"low": float(np.min(y)), "middle": float(np.median(y)), "high": float(np.max(y))}
    classes, counts = np.unique(y, return_counts=True)
    names = [text.make_visible(text.format_label(label)) for label in classes]
    return [
        {"name": name, "count": int(count), "colour": str(class_colours(code)), "place": code + 1}
        for code, (name, count) in enumerate(zip(names, counts, strict=True))
    ]


def _describe_features(analysis: Analysis) -> dict[str, Any]:
    listed, labels = analysis.features[:TABLE], _strip_labels(analysis)
    columns = (SELECTED, RANK, NAME, *analysis.columns)
    options: dict[str, Any] = {"categories": analysis.outcome.has_classes, "labels": labels, "size": (2.3, 1.8)}
    drawn = []
    for feature in analysis.features[:DRAWN]:
        name, values = text.make_visible(feature.name), analysis.table.X[:, feature.column]
        if analysis.outcome is SURVIVAL:
            about = f"survival of samples of low and of high {name}"
            figure = draw_figure(survival_panels, analysis.table.y, {"": values}, size=(2.3, 2.2), about=about)
        else:
            figure = draw_panel(feature_panel, values, analysis.table.y, about=f"{name} by target", **options)
        drawn.append({"name": name, "selected": bool(feature.selected), "figure": figure})
    return {
        "total": len(analysis.features),
        "exponent": _common_exponent([feature.contribution for feature in listed]),
        "rows": [{column.field: column.to_json(feature) for column in columns} for feature in listed],
        "numbered": not labels,
        "drawn": drawn,
    }


def first_features(analysis: Analysis, count: int) -> dict[str, Any]:
    """Return name -> values of the first selected features, or of the first features if none is selected."""
    features = ([feature for feature in analysis.features if feature.selected] or list(analysis.features))[:count]
    return {text.make_visible(feature.name): analysis.table.X[:, feature.column] for feature in features}


def predicted_risk_groups(analysis: Analysis) -> dict[str, Any]:
    """Return title -> whether the predicted risk of held-out samples is high; nothing if it is not known."""
    high_risk = None if analysis.accuracy is None else analysis.accuracy.high_risk
    if high_risk is None or not np.isfinite(high_risk).any():
        return {}
    # folds that select nothing predict nothing
    n_known = int(np.isfinite(high_risk).sum())
    samples = "" if n_known == len(high_risk) else f" ({n_known} of {len(high_risk)})"
    return {f"predicted risk, held out{samples}": high_risk}


def _describe_survival(analysis: Analysis) -> dict[str, Any] | None:
    """Return the curves of held-out samples of low and of high predicted risk; None if there are none."""
    risk_groups = predicted_risk_groups(analysis) if analysis.outcome is SURVIVAL else {}
    if not risk_groups:
        return None
    about = "survival of held-out samples of low and of high predicted risk"
    sizes = {"wide": (5.2, 3.0), "narrow": (3.7, 2.8)}
    values = {"": next(iter(risk_groups.values()))}  # the heading of the section is title enough
    return {
        "figures": {
            width: draw_figure(survival_panels, analysis.table.y, values, size=size, about=about)
            for width, size in sizes.items()
        }
    }


def _common_exponent(values: Sequence[float]) -> int:
    """Return the power of ten in whose units the largest value has one or two digits before the point."""
    largest = float(np.nanmax(np.abs(values), initial=0.0))
    return 0 if largest == 0.0 or 0.1 <= largest < 1000 else int(np.floor(np.log10(largest)))


def _strip_labels(analysis: Analysis) -> tuple[str, ...]:
    """Return the class labels if they fit below strips of samples; otherwise nothing, and strips are numbered."""
    labels = tuple(c["name"] for c in _describe_target(analysis)) if analysis.outcome.has_classes else ()
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


def pairs_to_draw(analysis: Analysis) -> Sequence[Pair]:
    """Return the significant pairs, or the best two if there are none."""
    significant = [pair for pair in analysis.pairs if pair.corrected_p <= LEVEL]
    return (significant or analysis.pairs[:2])[:DRAWN_PAIRS]


def _draw_pair(analysis: Analysis, pair: Pair) -> dict[str, Any]:
    row, X = _describe_pair(pair), analysis.table.X
    names = row["first"], row["second"]
    about = f"{names[0]} and {names[1]}, coloured by target"
    options: dict[str, Any] = {"labels": names, "categories": analysis.outcome.has_classes, "size": (3.0, 2.7)}
    # survival is shown by its martingale residuals: more or fewer events than expected
    values = X[:, pair.first_column], X[:, pair.second_column], analysis.outcome.to_numbers(analysis.table.y)[0]
    return {**row, "figure": draw_panel(pair_panel, *values, about=about, **options)}


def columns_to_draw(analysis: Analysis) -> Any:
    """Return the columns of the table whose values figures show, ascending; a stored analysis has only these."""
    features = [feature.column for feature in analysis.features[:DRAWN]]
    pairs = [(pair.first_column, pair.second_column) for pair in pairs_to_draw(analysis)]
    return np.unique([*features, *(column for pair in pairs for column in pair)]).astype(int)


def columns_to_highlight(analysis: Analysis) -> list[int]:
    """Return the columns of the selected features that take part in the culling path."""
    entered = set(analysis.path.rounds[0].features.tolist())
    return [feature.column for feature in analysis.features if feature.selected and feature.column in entered]


def _describe_path(analysis: Analysis) -> dict[str, Any]:
    names, highlighted = [text.make_visible(name) for name in analysis.table.names], columns_to_highlight(analysis)
    options: dict[str, Any] = {
        "highlight": np.array(highlighted[:NAMED], dtype=int),
        "label": "selected" if len(highlighted) <= NAMED else f"the first {NAMED} selected",
        "about": "Contribution of every feature, and alignment and error of the features left, round by round",
        "title": None,
    }
    figures = {}
    for width, size, longest in (("wide", (6.4, 5.4), 20), ("narrow", (3.7, 5.0), 9)):
        shortened = [text.shorten(name, longest) for name in names]
        figures[width] = draw_figure(culling_path, analysis.path, names=shortened, size=size, **options)
    best = analysis.path.rounds[analysis.path.best]
    return {
        "rounds": len(analysis.path.rounds),
        "best": len(best.features),
        "alignment": float(best.alignment),
        "chance": float(best.chance),
        "has_errors": analysis.path.errors is not None,
        "made_selection": analysis.rule.name == "path",
        "figures": figures,
    }


def _describe_accuracy(accuracy: Accuracy) -> dict[str, Any]:
    values = {"selected": accuracy.selected, "all features": accuracy.everything}
    options: dict[str, Any] = {"chance": accuracy.chance, "measure": accuracy.measure, "highlight": "selected"}
    options["about"] = f"{accuracy.measure} in every fold"
    sizes = {"wide": (6.4, 1.5), "narrow": (3.7, 1.6)}
    figures = {width: draw_panel(accuracy_panel, values, size=size, **options) for width, size in sizes.items()}
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
        "figures": figures,
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
            rows += _flatten_settings(value)
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
    jinja2 = optional("jinja2", extra="report", purpose="Writing a report")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"number": text.format_number, "p": text.format_p_value, "percent": text.format_percent}
    environment.filters |= {"count": text.format_count, "power": text.format_power_of_ten, "digest": _hash_script}
    environment.filters["fixed"] = text.format_fixed
    template = environment.from_string(Path(__file__).with_name("report.html.j2").read_text(encoding="utf-8"))
    page: str = template.render(
        **content,
        has_classes=KINDS[content["kind"]].has_classes,
        columns=[column for column in (RANK, NAME, *value_columns(**content["effects"])) if column.in_table],
        data=_without_figures(content),
        ramp=LOW_TO_HIGH,
        meaning_of_q=MEANING_OF_Q,
    )
    return page


def _hash_script(script: str) -> str:
    """Return the hash that lets the content security policy allow only the script of the page."""
    return "sha256-" + base64.b64encode(hashlib.sha256(str(script).encode()).digest()).decode()


def _without_figures(content: Any) -> Any:
    if isinstance(content, Mapping):
        return {k: _without_figures(v) for k, v in content.items() if k not in ("figure", "figures", "drawn")}
    return [_without_figures(value) for value in content] if isinstance(content, list) else content
