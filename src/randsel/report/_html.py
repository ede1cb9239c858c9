"""A report of an analysis: one dictionary, and one HTML file made of it.

`contents` decides what is said and draws; it returns strings, numbers, lists and dictionaries only. `render` lays it
out and decides nothing. The file needs no network; names that came with the data are text wherever they appear.
"""

import base64
import hashlib
import io
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from randsel import plots
from randsel._utils.optional import optional
from randsel._utils.text import (
    format_count,
    format_fixed,
    format_label,
    format_mean_and_sd,
    format_number,
    format_p_value,
    format_percent,
    format_power_of_ten,
    format_range,
    make_visible,
    shorten,
)
from randsel._utils.typing import Array
from randsel.analysis._model import Accuracy, Analysis, Feature, Pair, Stability
from randsel.interactions._forward_selection import LEVEL
from randsel.report._sentences import summarise

#: Features in the table, and those drawn; pairs listed, and those drawn. The files beside the report have all.
TABLE, DRAWN, PAIRS, DRAWN_PAIRS = 500, 12, 10, 6
#: Features named in the culling path: more names would lie on each other.
NAMED = 6
#: Characters of a class that fit below a strip, and the most strips that have room for them.
SHORT_LABEL, FEW_STRIPS = 10, 3
#: What to cite; a test holds it to CITATION.cff.
PAPER = "Athanasakis, Dimitrios; Shawe-Taylor, John; Fernandez-Reyes, Delmiro (2013). Learning Non-Linear Feature Maps."
SOFTWARE = "The randsel developers. randsel: non-linear feature selection by kernel-target alignment."
#: Colours of figures that the style sheet knows by these names and changes in the dark. Those of samples stay: where
#: they are many, they are drawn as pixels.
THEME = {
    "#000000": "var(--ink)",
    "#ffffff": "var(--paper)",
    "#999999": "var(--faint)",
    plots.RED: "var(--accent)",
}


# ---------------------------------------------------------------- contents


def contents(analysis: Analysis) -> dict[str, Any]:
    """Everything that a report says, as one dictionary.

    Parameters
    ----------
    analysis : Analysis
        What was found.

    Returns
    -------
    dict
        Strings, numbers, None, lists and dictionaries; under the keys "figure" and "figures", pictures as SVG.

    Examples
    --------
    >>> from randsel import RandSel, datasets, report
    >>> from randsel.analysis._model import Analysis, cautions
    >>> from randsel.tables._read import Table
    >>> from randsel.targets._kinds import CLASSES
    >>> X, y, relevant = datasets.make_xor(200, 20, random_state=0)
    >>> table = Table(X, y, tuple(f"g{j}" for j in range(20)))
    >>> path = RandSel().fit(X, y).path_
    >>> analysis = Analysis(
    ...     table, path, "classification", (), (), None, None, False, cautions(table, CLASSES), {}, ()
    ... )
    >>> found = report.contents(analysis)
    >>> found["title"], found["kind"], found["pairs"]["total"]
    ('Feature selection', 'classification', 0)
    """
    data = str(analysis.settings.get("data", ""))
    y = analysis.table.y
    return {
        "title": f"Feature selection: {make_visible(data)}" if data else "Feature selection",
        "kind": analysis.kind,
        "nothing_stands_out": bool(analysis.nothing_stands_out),
        "summary": summarise(analysis),
        "facts": _facts(analysis),
        "warnings": [make_visible(text) for text in analysis.warnings],
        "notes": [make_visible(text) for text in analysis.notes],
        "target": _classes(y) if analysis.outcome.has_classes else _range(y),
        "path": _path(analysis),
        "features": {
            "total": len(analysis.features),
            "exponent": _exponent([feature.contribution for feature in analysis.features[:TABLE]]),
            "rows": [_feature(feature) for feature in analysis.features[:TABLE]],
            "numbered": not _labels(analysis),
            "drawn": _drawn_features(analysis),
        },
        "pairs": {
            "total": len(analysis.pairs),
            "significant": sum(pair.corrected_p <= LEVEL for pair in analysis.pairs),
            "level": LEVEL,
            "rows": [_pair(pair) for pair in analysis.pairs[:PAIRS]],
            "drawn": _drawn_pairs(analysis),
        },
        "accuracy": None if analysis.accuracy is None else _accuracy(analysis.accuracy),
        "stability": None if analysis.stability is None else _stability(analysis.stability),
        "settings": _settings(analysis.settings),
        "repeat": _repeat(analysis.settings),
        "cite": [PAPER, _software(analysis.settings)],
    }


def _facts(analysis: Analysis) -> list[dict[str, str]]:
    rows, columns = analysis.table.X.shape
    facts = [
        {"name": "samples", "value": format_count(rows)},
        {"name": "features", "value": format_count(columns)},
        {"name": "selected", "value": format_count(sum(feature.selected for feature in analysis.features))},
    ]
    if analysis.accuracy is not None:
        facts.append({"name": analysis.accuracy.measure, "value": format_mean_and_sd(analysis.accuracy.selected)})
    return facts


def _classes(y: Array) -> list[dict[str, Any]]:
    """Classes in ascending order, with the colour that figures give them."""
    names, counts = np.unique(y, return_counts=True)
    return [
        {
            "name": make_visible(format_label(name)),
            "count": int(number),
            "colour": str(plots.class_colours(at)),
            "place": at + 1,
        }
        for at, (name, number) in enumerate(zip(names, counts, strict=True))
    ]


def _range(y: Array) -> dict[str, float]:
    return {"low": float(np.min(y)), "middle": float(np.median(y)), "high": float(np.max(y))}


def _feature(feature: Feature) -> dict[str, Any]:
    return {
        "rank": int(feature.rank),
        "name": make_visible(feature.name),
        "selected": bool(feature.selected),
        "contribution": _finite_or_none(feature.contribution),
        "main": _finite_or_none(feature.main),
        "interaction": _finite_or_none(feature.interaction),
        "partner": None if feature.partner is None else make_visible(feature.partner),
        "p": _finite_or_none(feature.p),
        "q": _finite_or_none(feature.q),
        "stability": _finite_or_none(feature.stability),
    }


def _finite_or_none(value: float) -> float | None:
    """Return a number that JSON can hold."""
    return float(value) if np.isfinite(value) else None


def _exponent(values: Sequence[float]) -> int:
    """Return the power of ten to give numbers of very different sizes in, so that the largest has one digit or two."""
    largest = float(np.nanmax(np.abs(values), initial=0.0))
    return 0 if largest == 0.0 or 0.1 <= largest < 1000 else int(np.floor(np.log10(largest)))


def _pair(pair: Pair) -> dict[str, Any]:
    return {
        "first": make_visible(pair.first),
        "second": make_visible(pair.second),
        "statistic": _finite_or_none(pair.statistic),
        "p": _finite_or_none(pair.p),
        "corrected_p": _finite_or_none(pair.corrected_p),
    }


def _accuracy(accuracy: Accuracy) -> dict[str, Any]:
    rows = {"selected": accuracy.selected, "all features": accuracy.everything}
    figures = {
        name: _svg(
            plots.accuracy,
            rows,
            chance=accuracy.chance,
            measure=accuracy.measure,
            highlight="selected",
            size=size,
            about=f"{accuracy.measure} in every fold",
        )
        for name, size in {"wide": (6.4, 1.5), "narrow": (3.7, 1.6)}.items()
    }
    return {
        "measure": accuracy.measure,
        "selected": [float(value) for value in accuracy.selected],
        "everything": [float(value) for value in accuracy.everything],
        "chance": float(accuracy.chance),
        "sizes": [int(size) for size in accuracy.sizes],
        "words": {
            "selected": format_mean_and_sd(accuracy.selected),
            "everything": format_mean_and_sd(accuracy.everything),
            "chance": f"{accuracy.chance:.2f}",
            "sizes": format_range(accuracy.sizes),
        },
        "figures": figures,
    }


def _stability(stability: Stability) -> dict[str, Any]:
    bound = stability.expected_false
    return {
        "n_halves": int(stability.n_halves),
        "threshold": float(stability.threshold),
        "expected_false": None if bound is None else _finite_or_none(bound),
        "stable": stability.n_stable,
    }


def _settings(settings: Mapping[str, Any]) -> list[dict[str, str]]:
    """Flatten the settings to names and values as text; the command has a place of its own."""
    found = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found += _settings(value)
        elif name != "command":
            found.append({"name": make_visible(str(name).replace("_", " ")), "value": make_visible(str(value))})
    return found


def _repeat(settings: Mapping[str, Any]) -> dict[str, str | None]:
    def text(name: str) -> str | None:
        return make_visible(str(settings[name])) if settings.get(name) is not None else None

    return {name: text(name) for name in ("command", "version", "seed", "data", "data_hash")}


def _software(settings: Mapping[str, Any]) -> str:
    version = settings.get("version")
    return SOFTWARE if version is None else f"{SOFTWARE} Version {make_visible(str(version))}."


# ---------------------------------------------------------------- figures


def _path(analysis: Analysis) -> dict[str, Any]:
    names = [make_visible(name) for name in analysis.table.names]
    lived = set(analysis.path.rounds[0].features.tolist())
    chosen = [feature.column for feature in analysis.features if feature.selected and feature.column in lived]
    first = chosen[:NAMED]
    figures = {}
    for name, size, longest in (("wide", (6.4, 4.6), 20), ("narrow", (3.7, 4.2), 9)):
        short = [shorten(name, longest) for name in names]
        figures[name] = _svg(
            plots.culling_path,
            analysis.path,
            highlight=np.array(first, dtype=int),
            names=short,
            label="selected" if len(first) == len(chosen) else f"the first {NAMED} selected",
            size=size,
            about="Contribution of every feature, round by round, and alignment of the features left",
            title=None,
        )
    best = analysis.path.rounds[analysis.path.best]
    return {
        "rounds": len(analysis.path.rounds),
        "best": len(best.features),
        "alignment": float(best.alignment),
        "chance": float(best.chance),
        "figures": figures,
    }


def _drawn_features(analysis: Analysis) -> list[dict[str, Any]]:
    table, categories = analysis.table, analysis.outcome.has_classes
    labels = _labels(analysis)
    return [
        {
            "name": make_visible(feature.name),
            "selected": bool(feature.selected),
            "figure": _svg(
                plots.feature_panel,
                table.X[:, feature.column],
                table.y,
                categories=categories,
                labels=labels,
                size=(2.3, 1.8),
                about=f"{make_visible(feature.name)} by target",
            ),
        }
        for feature in analysis.features[:DRAWN]
    ]


def _labels(analysis: Analysis) -> tuple[str, ...]:
    """Return what to write below strips, or nothing if there is no room: they are numbered then."""
    classes = _classes(analysis.table.y) if analysis.outcome.has_classes else []
    room = len(classes) <= FEW_STRIPS and all(len(c["name"]) <= SHORT_LABEL for c in classes)
    return tuple(c["name"] for c in classes) if room else ()


def _drawn_pairs(analysis: Analysis) -> list[dict[str, Any]]:
    """Draw the pairs that count, or the two best if none does."""
    table = analysis.table
    strong = [pair for pair in analysis.pairs if pair.corrected_p <= LEVEL] or analysis.pairs[:2]
    return [
        {
            **_pair(pair),
            "figure": _svg(
                plots.pair_panel,
                table.X[:, pair.first_column],
                table.X[:, pair.second_column],
                table.y,
                labels=(make_visible(pair.first), make_visible(pair.second)),
                categories=analysis.outcome.has_classes,
                size=(3.0, 2.7),
                about=f"{make_visible(pair.first)} and {make_visible(pair.second)}, coloured by target",
            ),
        }
        for pair in strong[:DRAWN_PAIRS]
    ]


def _svg(draw: Any, *arguments: Any, about: str, **options: Any) -> str:
    """Draw as SVG to stand inside HTML: text stays text in the font of the page, colours are those of the theme."""
    matplotlib = optional("matplotlib", extra="report", purpose="Drawing a report")
    style = {"font.size": 8.0, "axes.linewidth": 0.6, "svg.fonttype": "none", "svg.hashsalt": "randsel"}
    text = io.StringIO()
    with matplotlib.rc_context(style), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about glyphs that a font does not have: the browser has others
        draw(*arguments, **options).savefig(text, format="svg", transparent=True, dpi=160, metadata={"Date": None})
    return _inline(text.getvalue(), about)


def _inline(text: str, about: str) -> str:
    """Make a drawing part of a page: nothing in it may clash with the page or with another drawing."""
    root = ElementTree.fromstring(text)
    prefix = "f" + hashlib.sha256((about + text).encode()).hexdigest()[:10]
    used = set(re.findall(r"#([\w-]+)", " ".join(_references(root))))
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.tail = None
        if element.tag != "text":
            element.text = None
        found = {name.rpartition("}")[2]: value for name, value in element.attrib.items()}
        element.attrib.clear()
        element.attrib |= {name: new for name, old in found.items() if (new := _attribute(name, old, prefix, used))}
    for parent in list(root.iter()):
        for child in [c for c in parent if c.tag in ("metadata", "style")]:
            parent.remove(child)
        _share_style(parent)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.attrib |= {"role": "img", "aria-label": about}
    return ElementTree.tostring(root, encoding="unicode")


def _attribute(name: str, value: str, prefix: str, used: set[str]) -> str:
    """Return an attribute as it is to stand in a page; nothing for names that nobody uses."""
    if name == "id":
        return f"{prefix}-{value}" if value in used else ""
    if name in ("href", "clip-path") and not value.startswith("data:"):
        return value.replace("#", f"#{prefix}-", 1)
    if name in ("x", "y", "d"):
        # hundredths of a point are finer than any screen
        return re.sub(r"\d+\.\d{3,}", lambda found: f"{float(found[0]):.2f}", " ".join(value.split()))
    if name == "style":
        value = re.sub(r"#[0-9a-f]{6}\b", lambda found: THEME.get(found[0], found[0]), value)
        value = re.sub(r"font: (?:\S+ )*?([\d.]+px) [^;]*", r"font-size: \1", value)
        return re.sub(r"font-family: [^;]*;?", "", value).strip()
    return value


def _share_style(parent: ElementTree.Element) -> None:
    """Give the style that all dots of a group have to the group, once."""
    styles = {child.attrib.get("style") for child in parent}
    if len(parent) > 2 and len(styles) == 1 and all(child.tag == "use" for child in parent) and None not in styles:
        parent.set("style", "; ".join(filter(None, [parent.attrib.get("style"), *map(str, styles)])))
        for child in parent:
            del child.attrib["style"]


def _references(root: ElementTree.Element) -> list[str]:
    """Return attributes in which an element names another one."""
    return [
        value
        for element in root.iter()
        for name, value in element.attrib.items()
        if name.endswith(("href", "clip-path")) and not value.startswith("data:")
    ]


# ---------------------------------------------------------------- HTML


def render(found: Mapping[str, Any]) -> str:
    """Lay out the contents of a report as one HTML file.

    Parameters
    ----------
    found : dict
        As `contents` returns it.

    Returns
    -------
    str
        HTML that loads nothing from elsewhere.

    Examples
    --------
    >>> from randsel import RandSel, datasets, report
    >>> from randsel.analysis._model import Analysis, cautions
    >>> from randsel.tables._read import Table
    >>> from randsel.targets._kinds import CLASSES
    >>> X, y, relevant = datasets.make_xor(200, 20, random_state=0)
    >>> table = Table(X, y, tuple(f"g{j}" for j in range(20)))
    >>> path = RandSel().fit(X, y).path_
    >>> analysis = Analysis(
    ...     table, path, "classification", (), (), None, None, False, cautions(table, CLASSES), {}, ()
    ... )
    >>> page = report.render(report.contents(analysis))
    >>> "<title>Feature selection</title>" in page
    True
    """
    jinja2 = optional("jinja2", extra="report", purpose="Writing a report")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "number": format_number,
        "p": format_p_value,
        "percent": format_percent,
        "count": format_count,
    }
    environment.filters |= {"fixed": format_fixed, "power": format_power_of_ten, "digest": _digest}
    template = environment.from_string(Path(__file__).with_name("report.html.j2").read_text(encoding="utf-8"))
    text: str = template.render(**found, data=_without_figures(found), ramp=plots.LOW_TO_HIGH)
    return text


def _digest(script: str) -> str:
    """Return the hash by which the page allows its own script and no other."""
    return "sha256-" + base64.b64encode(hashlib.sha256(str(script).encode()).digest()).decode()


def _without_figures(found: Any) -> Any:
    if isinstance(found, Mapping):
        return {k: _without_figures(v) for k, v in found.items() if k not in ("figure", "figures", "drawn")}
    return [_without_figures(value) for value in found] if isinstance(found, list) else found
