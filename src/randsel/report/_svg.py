"""Figures as SVG elements inside a page."""

import hashlib
import io
import re
import warnings
from typing import Any
from xml.etree import ElementTree

from randsel._utils.text import optional
from randsel.plots import ON_PALE, RED, figure_of, new_figure

#: Colours of figures -> variables of the style sheet, which differ in dark mode. Colours of samples stay the same,
#: because many samples are drawn as pixels.
THEME = {"#000000": "var(--ink)", "#ffffff": "var(--paper)", "#999999": "var(--faint)", RED: "var(--accent)"}
#: Font size, line width and format of text of all figures of a page.
STYLE = {"font.size": 8.0, "axes.linewidth": 0.6, "svg.fonttype": "none", "svg.hashsalt": "randsel"}


def draw_panel(draw: Any, *arguments: Any, about: str, size: tuple[float, float], **options: Any) -> str:
    """Return what a function with an argument `ax` draws on a panel of a size in inches, see `draw_figure`."""

    def draw_on_new_figure() -> Any:
        axes = new_figure(*size).subplots()
        draw(*arguments, ax=axes, **options)
        return axes

    return draw_figure(draw_on_new_figure, about=about)


def draw_figure(draw: Any, *arguments: Any, about: str, **options: Any) -> str:
    """Return the figure of the drawn axes as an SVG element with text in the font and colours of the page."""
    matplotlib = optional("matplotlib", extra="report", purpose="Drawing a report")
    file = io.StringIO()
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # missing glyphs of a font: browsers use another one
        figure = figure_of(draw(*arguments, **options))
        figure.savefig(file, format="svg", transparent=True, dpi=160, metadata={"Date": None})
    return _embed_svg(file.getvalue(), about)


def _embed_svg(svg: str, about: str) -> str:
    """Rewrite an SVG file as an element whose ids and styles do not clash with the page or with other figures."""
    root = ElementTree.fromstring(svg)
    prefix = "f" + hashlib.sha256((about + svg).encode()).hexdigest()[:10]
    used_ids = set(re.findall(r'(?:href|clip-path)="(?:url\()?#([\w-]+)', svg))
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.tail = None
        if element.tag != "text":
            element.text = None
        attributes = {name.rpartition("}")[2]: value for name, value in element.attrib.items()}
        rewritten = {name: _rewrite_attribute(name, value, prefix, used_ids) for name, value in attributes.items()}
        element.attrib.clear()
        element.attrib |= {name: value for name, value in rewritten.items() if value}
    for parent in list(root.iter()):
        for child in [c for c in parent if c.tag in ("metadata", "style")]:
            parent.remove(child)
        _move_style_to_parent(parent)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.attrib |= {"role": "img", "aria-label": about}
    return ElementTree.tostring(root, encoding="unicode")


def _rewrite_attribute(name: str, value: str, prefix: str, used_ids: set[str]) -> str:
    """Return the value of an attribute for the page; an empty string if it is not needed."""
    if name == "id":
        return f"{prefix}-{value}" if value in used_ids else ""
    if name in ("href", "clip-path") and not value.startswith("data:"):
        return value.replace("#", f"#{prefix}-", 1)
    if name in ("x", "y", "d"):
        # hundredths of a point are finer than any screen
        return re.sub(r"\d+\.\d{3,}", lambda match: f"{float(match[0]):.2f}", " ".join(value.split()))
    if name == "style":
        value = re.sub(r"#[0-9a-f]{6}\b", lambda match: THEME.get(match[0], match[0]), value)
        value = value.replace(f"fill: {ON_PALE}", f"fill: {ON_PALE}; stroke: none")  # a rim is dark in dark mode
        value = re.sub(r"font: (?:\S+ )*?([\d.]+px) [^;]*", r"font-size: \1", value)
        return re.sub(r"font-family: [^;]*;?", "", value).strip()
    return value


def _move_style_to_parent(parent: ElementTree.Element) -> None:
    """Move the common style of a group of dots to the group, which makes the file smaller."""
    styles = {child.attrib.get("style") for child in parent}
    if len(parent) > 2 and len(styles) == 1 and all(child.tag == "use" for child in parent) and None not in styles:
        parent.set("style", "; ".join(filter(None, [parent.attrib.get("style"), *map(str, styles)])))
        for child in parent:
            del child.attrib["style"]
