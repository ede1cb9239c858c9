"""Check a built documentation site: nothing is loaded from other sites, no page is missing, no link is broken.

python tools/site.py build/site-docs
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[1]
#: What a browser fetches by itself, as opposed to what it follows on a click.
FETCHED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src")}


class Page(HTMLParser):
    """Links, things fetched, and anchors of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.fetched, self.anchors = [], [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        """Collect what matters of a tag."""
        for name, value in attrs:
            if name == "id":
                self.anchors.add(value)
            elif (tag, name) in FETCHED:
                self.fetched.append(value)
            elif (tag, name) == ("a", "href"):
                self.links.append(value)


def elsewhere(address):
    """Return whether an address leaves the site."""
    return bool(urlsplit(address).netloc) or urlsplit(address).scheme not in ("", "data", "mailto")


def faults(site):
    """Yield sentences about what is wrong."""
    pages = {path.resolve(): Page(path) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        yield from (f"{name} fetches {address}" for address in page.fetched if elsewhere(address))
        for address in [*page.links, *page.fetched]:
            parts = urlsplit(address)
            if elsewhere(address) or parts.scheme:
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not there.exists():
                yield f"{name}: {address} leads nowhere"
            elif parts.fragment and there in pages and unquote(parts.fragment) not in pages[there].anchors:
                yield f"{name}: {address} has no such place"
    for source in sorted((ROOT / "docs").rglob("*.md")):
        there = site / source.relative_to(ROOT / "docs").with_suffix(".html")
        if not there.exists():
            yield f"{source.name} is not in the site"
    for style in site.rglob("*.css"):
        found = re.findall(r"url\(['\"]?(https?:[^)'\"]+)|@import\s+['\"](https?:[^'\"]+)", style.read_text())
        yield from (f"{style.name} fetches {''.join(address)}" for address in found)


def main():
    """Print what is wrong, and fail if anything is."""
    site = Path(sys.argv[1])
    wrong = list(faults(site))
    print("\n".join(wrong) or f"{len(list(site.rglob('*.html')))} pages; all links lead somewhere, nothing is fetched.")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
