"""Make all pages of docs/results that are not current, in the order of pages.toml; run it again to resume.

python benchmarks/run_all.py [--list] [--only NAME,...] [--minutes N]

A page that fails does not stop the others; the exit status is 1 if any page is not current at the end. --minutes starts
no page that is estimated to end later than that.
"""

import argparse
import subprocess
import sys
import time

from pages import ROOT, age_of, load_pages


def pending(names):
    """Return the pages that are not current."""
    return [page for name, page in load_pages().items() if name in names and not age_of(page).current]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print what would be run")
    parser.add_argument("--only", help="pages, separated by commas")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(load_pages())
    if unknown := [name for name in names if name not in load_pages()]:
        sys.exit(f"There is no page {', '.join(unknown)}; there are: {', '.join(load_pages())}.")
    start = time.monotonic()
    for page in pending(names):
        spent = (time.monotonic() - start) / 60
        if spent + page.minutes > options.minutes:
            print(f"{page.name}: not started, it takes about {page.minutes} minutes", flush=True)
            continue
        print(f"{page.name}: {page.command}, about {page.minutes} minutes, {spent:.0f} minutes so far", flush=True)
        if not options.list:
            status = subprocess.run(page.command.split(), cwd=ROOT, check=False).returncode
            print(f"{page.name}: {'failed' if status else 'finished'}", flush=True)
    left = pending(names)
    print(f"{len(names) - len(left)} of {len(names)} pages are current.")
    return int(bool(left) and not options.list)


if __name__ == "__main__":
    sys.exit(main())
