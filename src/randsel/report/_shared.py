"""Rendering that all HTML pages share: templates, style sheet, and template filters that format numbers."""

import base64
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from randsel._utils import text
from randsel._utils.text import optional
from randsel.plots import FEW_AT_RISK, LOW_TO_HIGH

TEMPLATES = Path(__file__).parent / "templates"
LONGEST = 32  # number of characters of a class name in a heading of a table


def render_page(template: Path, content: Mapping[str, Any]) -> str:
    """Render a template of Jinja, which may include those of `TEMPLATES`; names are escaped."""
    jinja2 = optional("jinja2", extra="report", purpose="Writing a report")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([template.parent, TEMPLATES]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": text.format_number, "p": text.format_p_value, "percent": text.format_percent}
    environment.filters |= {"count": text.format_count, "power": text.format_power_of_ten, "digest": _hash_script}
    environment.filters |= {
        "fixed": text.format_fixed,
        "visible": text.make_visible,
        "cut": _cut_middle,
        "words": _split_words,
    }
    common = {"ramp": LOW_TO_HIGH, "few_at_risk": FEW_AT_RISK}
    page: str = environment.get_template(template.name).render(**common, **content)
    return page


def _hash_script(script: str) -> str:
    """Return the hash that lets the content security policy allow only the script of the page."""
    return "sha256-" + base64.b64encode(hashlib.sha256(str(script).encode()).digest()).decode()


def _cut_middle(name: str) -> str:
    """Replace the middle of a long name by an ellipsis: names that differ at their ends stay different."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST * 2 // 3]}…{name[-(LONGEST // 3) :]}"


def _split_words(name: str) -> list[str]:
    """Split a name after spaces and punctuation, where a line may break."""
    return re.findall(r"[^\s/_.,;:|-]*(?:[\s/_.,;:|-]+|$)", name)[:-1] or [name]
