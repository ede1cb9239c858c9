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
from randsel._backend import Array
from randsel._optional import optional
from randsel.analysis import Accuracy, Analysis, Feature, Pair, Stability, label

#: Features in the table, and those drawn; pairs listed, and those drawn. The files beside the report have all.
TABLE, DRAWN, PAIRS, DRAWN_PAIRS = 500, 12, 10, 6
#: Features named in the culling path: more names would lie on each other.
NAMED = 6
#: Corrected p-value of pairs, and q-value of features, from which they count.
LEVEL = 0.05
#: Characters of a class that fit below a strip, and the most strips that have room for them.
SHORT_LABEL, FEW_STRIPS = 10, 3
#: Characters of a name within a sentence.
LONG_NAME = 50
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
#: Joiners that scripts and emoji need; all other characters that cannot be seen are written as numbers.
JOINERS = "\u200c\u200d"
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


# ---------------------------------------------------------------- numbers and names in words


def number(value: float | None, digits: int = 3) -> str:
    """Write a number with so many significant digits: 0.0312, 1 234, 3.1·10⁻⁷; a dash for none."""
    if value is None or np.isnan(value):
        return "–"
    if np.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0.0:
        return "0"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    if -4 < int(exponent) < 6:
        text = f"{value:,.{max(digits - 1 - int(exponent), 0)}f}"
    else:
        text = f"{mantissa}·{power(int(exponent))}"
    # a narrow space that does not break, but not in numbers of four digits; and a true minus sign
    text = text.replace(",", "\u202f" if abs(value) >= 9999.5 else "")
    return text.replace("-", "−")


def p_value(value: float | None) -> str:
    """Write a p-value: 0.034, 3·10⁻⁵, < 10⁻³⁰⁰."""
    if value is None or np.isnan(value):
        return "–"
    if value < 1e-300:
        return "< 10⁻³⁰⁰"
    if value < 0.001:
        return number(value, 1) if f"{value:.0e}" != "1e-03" else "0.001"
    return number(min(value, 1.0), 2) if value < 0.995 else "1"


def fixed(value: float | None, digits: int = 1) -> str:
    """Write a number with so many digits after the point, for columns of a table."""
    # adding zero takes the sign from what is rounded to it
    return "–" if value is None or np.isnan(value) else f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")


def power(exponent: int) -> str:
    """Write a power of ten."""
    return f"10{str(exponent).translate(_SUPERSCRIPTS)}"


def share(value: float | None) -> str:
    """Write a share in per cent."""
    return "–" if value is None or np.isnan(value) else f"{100 * value:.0f}\u202f%"


def count(value: int) -> str:
    """Write a whole number, in groups of three digits from 10 000."""
    return f"{value:,}".replace(",", "\u202f" if value >= 10_000 else "")


def visible(name: str) -> str:
    """Write a name such that nothing in it is hidden: control characters and changes of direction become numbers."""
    return "".join(c if c.isprintable() or c in JOINERS else f"\\u{ord(c):04x}" for c in name)


def _in_a_sentence(name: str) -> str:
    name = visible(name)
    return name if len(name) <= LONG_NAME else name[: LONG_NAME - 1] + "…"


def _number_of(value: int, one: str, many: str) -> str:
    return f"{count(value)} {one if value == 1 else many}"


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def _plain(value: float) -> float | None:
    """Return a number that JSON knows."""
    return float(value) if np.isfinite(value) else None


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
    >>> from randsel.analysis import Analysis, cautions
    >>> from randsel.tables import Table
    >>> X, y, relevant = datasets.make_xor(200, 20, random_state=0)
    >>> table = Table(X, y, tuple(f"g{j}" for j in range(20)))
    >>> path = RandSel().fit(X, y).path_
    >>> analysis = Analysis(
    ...     table, path, "classification", (), (), None, None, False, cautions(table, "classification"), {}, ()
    ... )
    >>> found = report.contents(analysis)
    >>> found["title"], found["kind"], found["pairs"]["total"]
    ('Feature selection', 'classification', 0)
    """
    data = str(analysis.settings.get("data", ""))
    y = analysis.table.y
    return {
        "title": f"Feature selection: {visible(data)}" if data else "Feature selection",
        "kind": analysis.kind,
        "nothing_stands_out": bool(analysis.nothing_stands_out),
        "summary": summary(analysis),
        "facts": _facts(analysis),
        "warnings": [visible(text) for text in analysis.warnings],
        "notes": [visible(text) for text in analysis.notes],
        "target": _classes(y) if analysis.kind == "classification" else _range(y),
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
        {"name": "samples", "value": count(rows)},
        {"name": "features", "value": count(columns)},
        {"name": "selected", "value": count(sum(feature.selected for feature in analysis.features))},
    ]
    if analysis.accuracy is not None:
        facts.append({"name": analysis.accuracy.measure, "value": _mean_and_spread(analysis.accuracy.selected)})
    return facts


def _classes(y: Array) -> list[dict[str, Any]]:
    """Classes in ascending order, with the colour that figures give them."""
    names, counts = np.unique(y, return_counts=True)
    return [
        {"name": visible(label(name)), "count": int(number), "colour": str(plots.class_colours(at)), "place": at + 1}
        for at, (name, number) in enumerate(zip(names, counts, strict=True))
    ]


def _range(y: Array) -> dict[str, float]:
    return {"low": float(np.min(y)), "middle": float(np.median(y)), "high": float(np.max(y))}


def _feature(feature: Feature) -> dict[str, Any]:
    return {
        "rank": int(feature.rank),
        "name": visible(feature.name),
        "selected": bool(feature.selected),
        "contribution": _plain(feature.contribution),
        "main": _plain(feature.main),
        "interaction": _plain(feature.interaction),
        "partner": None if feature.partner is None else visible(feature.partner),
        "p": _plain(feature.p),
        "q": _plain(feature.q),
        "stability": _plain(feature.stability),
    }


def _exponent(values: Sequence[float]) -> int:
    """Return the power of ten to give numbers of very different sizes in, so that the largest has one digit or two."""
    largest = float(np.nanmax(np.abs(values), initial=0.0))
    return 0 if largest == 0.0 or 0.1 <= largest < 1000 else int(np.floor(np.log10(largest)))


def _pair(pair: Pair) -> dict[str, Any]:
    return {
        "first": visible(pair.first),
        "second": visible(pair.second),
        "statistic": _plain(pair.statistic),
        "p": _plain(pair.p),
        "corrected_p": _plain(pair.corrected_p),
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
            "selected": _mean_and_spread(accuracy.selected),
            "everything": _mean_and_spread(accuracy.everything),
            "chance": f"{accuracy.chance:.2f}",
            "sizes": _range_of(accuracy.sizes),
        },
        "figures": figures,
    }


def _stability(stability: Stability) -> dict[str, Any]:
    bound = stability.expected_false
    return {
        "n_halves": int(stability.n_halves),
        "threshold": float(stability.threshold),
        "expected_false": None if bound is None else _plain(bound),
        "stable": int((np.asarray(stability.frequencies) >= stability.threshold).sum()),
    }


def _settings(settings: Mapping[str, Any]) -> list[dict[str, str]]:
    """Flatten the settings to names and values as text; the command has a place of its own."""
    found = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found += _settings(value)
        elif name != "command":
            found.append({"name": visible(str(name).replace("_", " ")), "value": visible(str(value))})
    return found


def _repeat(settings: Mapping[str, Any]) -> dict[str, str | None]:
    def text(name: str) -> str | None:
        return visible(str(settings[name])) if settings.get(name) is not None else None

    return {name: text(name) for name in ("command", "version", "seed", "data", "data_hash")}


def _software(settings: Mapping[str, Any]) -> str:
    version = settings.get("version")
    return SOFTWARE if version is None else f"{SOFTWARE} Version {visible(str(version))}."


def _mean_and_spread(values: Array) -> str:
    values = np.asarray(values, dtype=float)
    mean = f"{values.mean():.2f}".replace("-", "−")
    return mean if len(values) < 2 else f"{mean}\u00a0±\u00a0{values.std(ddof=1):.2f}"


def _range_of(sizes: Array) -> str:
    low, high = int(np.min(sizes)), int(np.max(sizes))
    return count(low) if low == high else f"{count(low)} to {count(high)}"


# ---------------------------------------------------------------- summary in words


def summary(analysis: Analysis) -> list[str]:
    """Sentences, the most important first."""
    return [
        _found(analysis),
        *_unsure(analysis),
        _samples(analysis),
        *_together(analysis),
        *([] if analysis.stability is None else [_stable(analysis, analysis.stability)]),
        *([] if analysis.accuracy is None else [_accurate(analysis.accuracy)]),
        *_careful(analysis),
    ]


def _found(analysis: Analysis) -> str:
    total = count(len(analysis.features))
    chosen = [feature for feature in analysis.features if feature.selected]
    names = [_in_a_sentence(feature.name) for feature in chosen[:3]]
    if analysis.nothing_stands_out and (tested := _tested(analysis)):
        return (
            "The selection by culling does not stand out from what noise would reach, but tests of the "
            f"{total} features and their pairs do find something: {_listed(tested)}."
        )
    if analysis.nothing_stands_out:
        return (
            f"Nothing stands out: the {total} features tell no more about the target than culled noise would. The "
            "ranking below is an order of what there is, not a finding."
        )
    if not chosen:
        return f"Of {total} features, none was selected."
    if len(chosen) <= 3:
        return f"Of {total} features, {_number_of(len(chosen), 'was', 'were')} selected: {_listed(names)}."
    return f"Of {total} features, {count(len(chosen))} were selected; the first are {_listed(names)}."


def _unsure(analysis: Analysis) -> list[str]:
    """Say so if all features together stand out, but those of the best round do not (see `CullingPath.stands_out`)."""
    best = analysis.path.rounds[analysis.path.best]
    if analysis.nothing_stands_out or best.alignment - best.chance > 3.0 * analysis.path.null_sd:
        return []
    sentence = (
        "That some features tell about the target is surer than which: the best round of culling agrees with it no "
        "better than culled noise would."
    )
    return [sentence]


def _tested(analysis: Analysis) -> list[str]:
    """Say what the tests find, which do not depend on culling."""
    features = sum(feature.q <= LEVEL for feature in analysis.features)
    pairs = sum(pair.corrected_p <= LEVEL for pair in analysis.pairs)
    return [
        *([f"{_number_of(features, 'feature', 'features')} of a q-value of at most {LEVEL:g}"] if features else []),
        *([f"{_number_of(pairs, 'pair', 'pairs')} of a corrected p of at most {LEVEL:g}"] if pairs else []),
    ]


def _samples(analysis: Analysis) -> str:
    y = analysis.table.y
    rows = _number_of(len(y), "sample", "samples")
    if analysis.kind == "regression":
        low, middle, high = (number(value) for value in _range(y).values())
        return f"The table has {rows}; the target runs from {low} to {high}, half of it below {middle}."
    classes = _classes(y)
    largest = sorted(classes, key=lambda c: -c["count"])[:5]
    parts = [f"{count(c['count'])} {_in_a_sentence(c['name'])}" for c in largest]
    if len(classes) > len(largest):
        parts.append(f"{len(classes) - len(largest)} smaller classes")
    return f"The table has {rows}: {_listed(parts)}."


def _together(analysis: Analysis) -> list[str]:
    """Say what is known about features that act together."""
    sentences = []
    chosen = [f for f in analysis.features if f.selected and np.isfinite(f.main) and np.isfinite(f.interaction)]
    more = sum(feature.interaction > feature.main for feature in chosen)
    if more and not analysis.nothing_stands_out:
        subject = f"{count(more)} of the {count(len(chosen))} selected" if more < len(chosen) else "The selected ones"
        verb = "acts" if more == 1 and more < len(chosen) else "act"
        sentences.append(f"{subject} {verb} more together with others than alone.")
    if analysis.pairs:
        best = analysis.pairs[0]
        strong = sum(pair.corrected_p <= LEVEL for pair in analysis.pairs)
        if not strong:
            p = p_value(best.corrected_p)
            sentences.append(f"No pair of features stands out after correction for their number (best p {p}).")
        else:
            sentences.append(
                f"The strongest pair is {_in_a_sentence(best.first)} with {_in_a_sentence(best.second)} (corrected p "
                f"{p_value(best.corrected_p)})"
                + (f", the first of {count(strong)} below {LEVEL:g}." if strong > 1 else ".")
            )
    return sentences


def _stable(analysis: Analysis, stability: Stability) -> str:
    chosen = [f.stability for f in analysis.features if f.selected and np.isfinite(f.stability)]
    halves = count(stability.n_halves)
    bound = ""
    if stability.expected_false is not None:
        bound = f"; of features that carry nothing, at most {stability.expected_false:.2g} are expected there"
    stable = _stability(stability)["stable"]
    reached = f"{_number_of(stable, 'feature', 'features')} in at least {share(stability.threshold)} of them{bound}."
    if not chosen:
        return f"Of {halves} half-samples, {reached}"
    subject = "The selected features were" if len(chosen) > 1 else "The selected feature was"
    average = " on average" if len(chosen) > 1 else ""
    return f"{subject} found again in {share(float(np.mean(chosen)))} of {halves} half-samples{average}, {reached}"


def _accurate(accuracy: Accuracy) -> str:
    mean = float(np.mean(accuracy.selected))
    spread = float(np.std(accuracy.selected, ddof=1)) if len(accuracy.selected) > 1 else 0.0
    verdict = " Chance is within a standard deviation of that." if mean - spread <= accuracy.chance else ""
    folds, article = len(accuracy.selected), "an" if accuracy.measure.startswith("R") else "a"
    return (
        f"A model on features selected inside each fold reaches {article} {accuracy.measure} of "
        f"{_mean_and_spread(accuracy.selected)} in nested cross-validation ({folds} folds), where chance is "
        f"{accuracy.chance:.2f} and a model on all features reaches {_mean_and_spread(accuracy.everything)}.{verdict}"
    )


def _careful(analysis: Analysis) -> list[str]:
    if not analysis.warnings:
        return []
    return [f"{_number_of(len(analysis.warnings), 'warning bears', 'warnings bear')} on how far to trust this."]


# ---------------------------------------------------------------- figures


def _path(analysis: Analysis) -> dict[str, Any]:
    names = [visible(name) for name in analysis.table.names]
    lived = set(analysis.path.rounds[0].features.tolist())
    chosen = [feature.column for feature in analysis.features if feature.selected and feature.column in lived]
    first = chosen[:NAMED]
    figures = {}
    for name, size, longest in (("wide", (6.4, 4.6), 20), ("narrow", (3.7, 4.2), 9)):
        short = [text if len(text) <= longest else text[: longest - 1] + "…" for text in names]
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
    table, categories = analysis.table, analysis.kind == "classification"
    labels = _labels(analysis)
    return [
        {
            "name": visible(feature.name),
            "selected": bool(feature.selected),
            "figure": _svg(
                plots.feature_panel,
                table.X[:, feature.column],
                table.y,
                categories=categories,
                labels=labels,
                size=(2.3, 1.8),
                about=f"{visible(feature.name)} by target",
            ),
        }
        for feature in analysis.features[:DRAWN]
    ]


def _labels(analysis: Analysis) -> tuple[str, ...]:
    """Return what to write below strips, or nothing if there is no room: they are numbered then."""
    classes = _classes(analysis.table.y) if analysis.kind == "classification" else []
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
                labels=(visible(pair.first), visible(pair.second)),
                categories=analysis.kind == "classification",
                size=(3.0, 2.7),
                about=f"{visible(pair.first)} and {visible(pair.second)}, coloured by target",
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
    >>> from randsel.analysis import Analysis, cautions
    >>> from randsel.tables import Table
    >>> X, y, relevant = datasets.make_xor(200, 20, random_state=0)
    >>> table = Table(X, y, tuple(f"g{j}" for j in range(20)))
    >>> path = RandSel().fit(X, y).path_
    >>> analysis = Analysis(
    ...     table, path, "classification", (), (), None, None, False, cautions(table, "classification"), {}, ()
    ... )
    >>> page = report.render(report.contents(analysis))
    >>> "<title>Feature selection</title>" in page
    True
    """
    jinja2 = optional("jinja2", extra="report", purpose="Writing a report")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"number": number, "p": p_value, "share": share, "count": count}
    environment.filters |= {"fixed": fixed, "power": power, "digest": _digest}
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
