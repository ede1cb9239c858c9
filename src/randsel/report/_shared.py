"""What other pages share with the report: its style sheet and its filters of numbers."""

import re
from pathlib import Path
from typing import Any

from randsel._utils import text
from randsel._utils.text import optional
from randsel.plots import LOW_TO_HIGH


def render_page(template: Path, content: dict[str, Any]) -> str:
    """Render a template of Jinja; `style` is the style element of the report, and names are escaped."""
    jinja2 = optional("jinja2", extra="report", purpose="Writing a report")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"number": text.format_number, "percent": text.format_percent, "count": text.format_count}
    environment.filters["visible"] = text.make_visible
    report = Path(__file__).with_name("report.html.j2").read_text(encoding="utf-8")
    style = re.search(r"<style>.*?</style>", report, re.DOTALL)
    assert style is not None
    styled = environment.from_string(style[0]).render(ramp=LOW_TO_HIGH)
    page: str = environment.from_string(template.read_text(encoding="utf-8")).render(style=styled, **content)
    return page
