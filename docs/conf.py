"""The documentation site: Markdown that also reads well where the code is hosted, and docstrings.

Two pages are more than they look like, so that no directive stands in them:

* a heading of index.md with a list of links below it becomes a group of the navigation;
* an entry `- ``randsel.name``: ...` of a page under reference/api/ is followed by the docstring of what it names.
"""

import inspect
import re
import sys
from importlib import import_module
from pathlib import Path

import randsel

project = "randsel"
author = "The randsel developers"
copyright = author
release = version = randsel.__version__

sys.path.insert(0, str(Path(__file__).parent))
extensions = ["mathml", "myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_math_renderer = "mathml"
root_doc = "index"
exclude_patterns = ["conf.py"]
myst_enable_extensions = ["dollarmath", "html_image"]  # the width of a picture is HTML where code is hosted
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]

default_role = "literal"  # docstrings quote code as Markdown does
autodoc_typehints = "none"  # their numpydoc sections say the same in words
autodoc_member_order = "bysource"
toc_object_entries = False  # headings are enough
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

html_theme = "furo"
html_title = f"randsel {release}"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_static_path = ["static"]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
pygments_style = "friendly"
highlight_language = "none"  # indented blocks are commands

HERE = Path(__file__).parent
#: What users read of a path; the rest of its methods are for the package.
MEMBERS = {
    "CullingPath": ["rounds", "order", "best", "stands_out", "fixed", "to_frame"],
    "Round": ["chance"],
}


def navigation(text):
    """Append a hidden table of contents for every list of pages below a heading."""
    groups = []
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        pages = re.findall(r"^- \[[^]]+\]\((?!http)([^)#]+)\.md\)", part, flags=re.MULTILINE)
        if pages:
            entries = "\n".join(pages)
            groups.append(f"```{{toctree}}\n:hidden:\n:caption: {part.splitlines()[0]}\n\n{entries}\n```")
    return "\n\n".join([text, *groups])


def contents(text, glob, folder):
    """Append a hidden table of contents of the other pages of a folder, in the order of its index."""
    linked = list(dict.fromkeys(re.findall(r"\]\(([a-z0-9_]+)\.md\)", text)))
    there = [path.stem for path in sorted((HERE / folder).glob(glob)) if path.stem != "index"]
    missing = [name for name in there if name not in linked]
    if missing:
        msg = f"docs/{folder}/index.md does not name {', '.join(missing)}; add a link to it."
        raise ValueError(msg)
    return f"{text}\n\n```{{toctree}}\n:hidden:\n\n" + "\n".join(linked) + "\n```\n"


def documented(match):
    """Return the heading and the docstring of one name."""
    name = match["name"]
    module, _, last = name.rpartition(".")
    thing = getattr(import_module(module), last)
    kind, members = "function", ""
    if inspect.isclass(thing):
        own = [key for key, value in vars(thing).items() if inspect.isfunction(value) and not key.startswith("_")]
        kind, members = "class", f"   :members: {', '.join(MEMBERS.get(last, own))}\n"
    text = match["text"][:1].upper() + match["text"][1:]
    return f"\n### {last}\n\n{text}\n\n```{{eval-rst}}\n.. auto{kind}:: {name}\n{members}```\n"


def expand(app, docname, source):
    """Add to a page what its Markdown leaves to the site."""
    if docname == "index":
        source[0] = navigation(source[0])
    elif docname.endswith("/index"):
        source[0] = contents(source[0], "*.md", docname.rpartition("/")[0])
    elif docname.startswith("reference/api/"):
        entry = r"^- `(?P<name>randsel\.[\w.]+)`: (?P<text>.+(?:\n  .+)*)$"
        source[0] = re.sub(entry, documented, source[0], flags=re.MULTILINE)


def setup(app):
    """Register what expands pages."""
    app.connect("source-read", expand)
