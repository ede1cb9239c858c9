"""Write the LaTeX of the pages as MathML, which browsers draw without a script, and ship the font that it needs.

An equation that ends with a LaTeX tag such as (3') gets that number on its right, and an anchor such as `equation-3p`.
"""

import html
import re
import shutil
from pathlib import Path

import ziamath.fonts
from docutils.nodes import SkipNode
from latex2mathml.converter import convert

#: STIX Two Math (Open Font License): brackets and roots grow only in a font for mathematics.
FONT = Path(ziamath.fonts.__file__).with_name("STIXTwoMath-Regular.ttf")
TAG = re.compile(r"\\tag\{([^}]+)\}")
#: Functions, which the converter writes without the space that separates them from their argument.
FUNCTION = re.compile(r"<mi>(log|exp|cosh?|sinh?|tanh|cot|arcsin|arctan)</mi>")

#: Bars of a norm or an absolute value, which a browser takes for operators between two terms.
BAR = re.compile(r"<mo(?: stretchy=\"false\")?>(&#x02016;|&#x0007C;)</mo>")


def to_mathml(latex, display):
    """Return the MathML of LaTeX that code hosts also understand; the converter knows align*, but not aligned."""
    mathml = convert(latex.replace("{aligned}", "{align*}"), display=display)
    mathml = FUNCTION.sub(r'<mspace width="0.15em"/>\g<0><mspace width="0.15em"/>', mathml)
    return BAR.sub(r'<mo stretchy="false" lspace="0" rspace="0">\1</mo>', mathml)


def visit_math(writer, node):
    """Write an expression within a line."""
    writer.body.append(to_mathml(node.astext(), "inline"))
    raise SkipNode


def visit_math_block(writer, node):
    """Write an equation on a line of its own, with its number."""
    latex = node.astext()
    tag = TAG.search(latex)
    anchor = number = ""
    if tag:
        name = tag[1].replace("'", "p")
        anchor, number = f' id="equation-{name}"', f'<span class="eqno">({html.escape(tag[1])})</span>'
    equation = to_mathml(TAG.sub("", latex), "block")
    writer.body.append(f'<div class="equation"{anchor}><div class="formula">{equation}</div>{number}</div>\n')
    raise SkipNode


def copy_font(app, exception):
    """Put the font beside the style sheet that names it."""
    if not exception and app.builder.format == "html":
        shutil.copy(FONT, Path(app.outdir) / "_static")


def setup(app):
    """Register the renderer."""
    app.connect("build-finished", copy_font)
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
