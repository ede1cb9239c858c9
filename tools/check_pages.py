"""List the pages of docs/results that are older than the code they measure, and write their index.

python tools/check_pages.py [--strict] [--index] [--figures]

--strict makes the exit status 1 if a page is not current; --index writes docs/results/index.md; --figures prints the
figures that other pages quote.
"""

import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
import pages


def stale_pages():
    """Return name -> age of the pages that are not current."""
    ages = {name: pages.age_of(page) for name, page in pages.load_pages().items()}
    return {name: age for name, age in ages.items() if not age.current}


def print_figures():
    figures = json.loads(pages.FIGURES.read_text()) if pages.FIGURES.exists() else {}
    for name, entry in figures.items():
        page = pages.load_pages()[entry["page"]]
        age = pages.age_of(page)
        print(f"{name}: {entry['value']} ({entry['what']}); `{page.command}`, {age.measured}, {age.reason}")
    if not figures:
        print("No figures yet; benchmarks write them to docs/results/figures.json.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--index", action="store_true")
    parser.add_argument("--figures", action="store_true")
    options = parser.parse_args()
    if options.figures:
        print_figures()
        return 0
    if options.index:
        (pages.RESULTS / "index.md").write_text(pages.write_index())
    stale = stale_pages()
    for name, age in stale.items():
        facts = [fact for fact in (age.measured, age.reason) if fact]
        print(f"docs/results/{name}.md: {'; '.join(facts)}. {pages.load_pages()[name].command}")
    n_pages = len(pages.load_pages())
    print(f"{n_pages - len(stale)} of {n_pages} pages are current; make bench-all makes the others.")
    return int(options.strict and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
