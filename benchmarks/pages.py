"""Pages of docs/results: the header that each one carries, and whether a page is older than the code it measures.

`pages.toml` declares the pages once: question, command, and the sources that a page measures. The header of a page has
the commit, date, processor, load, number of data sets and a hash of these sources. A page whose figures are not times
also has a hash of the answers of its subpackages on reference problems (`answers.py`): it stays current if the code
changes and the answers do not. Only a benchmark writes a header.
"""

import csv
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path

import measure

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
#: Figures that other pages quote: name -> value, what it is, and the page that it was measured for.
FIGURES = RESULTS / "figures.json"
_COMMIT = re.compile(r"commit ((?:`?[0-9a-f]{7,40}\+?`?(?:, )?)+)")
_SOURCES = re.compile(r"Sources: `([0-9a-f]{12})`")
_ANSWERS = re.compile(r"Answers: `([0-9a-f]{12})`")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True)
class Page:
    """A page: what it answers, the command that makes it, and the sources that it measures."""

    name: str
    group: str
    question: str
    command: str
    packages: tuple[str, ...]
    files: tuple[str, ...]
    minutes: int
    #: Groups of packages whose answers stand for their code.
    groups: tuple[str, ...] = ()
    #: Packages without such a group.
    other_packages: tuple[str, ...] = ()

    def sources(self, packages=None):
        """Paths of the sources, folders among them."""
        package = [ROOT / "src" / "randsel" / name for name in (self.packages if packages is None else packages)]
        return package + [ROOT / f[1:] if f.startswith("/") else ROOT / "benchmarks" / f for f in self.files]

    def source_hash(self, packages=None):
        """Hash of the sources, without comments and docstrings."""
        files = chain(*(path.rglob("*.py") if path.is_dir() else [path] for path in self.sources(packages)))
        return measure.digest_of(files, ROOT)

    def answers(self):
        """Digests of the answers of the groups."""
        # imported here, because numpy must not be imported before `measure.one_core` is called
        return [import_module("answers").digest(group) for group in self.groups]

    def answer_hash(self, others=None):
        """Hash of the answers of the groups, and of the sources that have none (their hash, if it is known)."""
        parts = [others or self.source_hash(self.other_packages), *self.answers()]
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:12]


@cache
def load_pages():
    """Return all pages by name, in the order in which they are made."""
    declared = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
    pages = {}
    for name, entry in declared["pages"].items():
        parts, groups = entry.pop("packages"), tuple(entry.pop("answers", []))
        covered = [name for group in groups for name in declared["sources"][group]]
        packages = tuple(dict.fromkeys(chain(*(declared["sources"].get(part, [part]) for part in parts))))
        other = tuple(name for name in packages if name not in covered)
        files = tuple(entry.pop("files"))
        pages[name] = Page(name=name, packages=packages, files=files, groups=groups, other_packages=other, **entry)
    return pages


# ---------------------------------------------------------------- writing


def load_average():
    """Load of the machine over the last minute."""
    return os.getloadavg()[0]


def describe_run():
    """What a stored record says about the run that made it: commit, date, processor, load and versions."""
    return {
        "commit": measure.commit(),
        "date": time.strftime("%Y-%m-%d"),
        "processor": measure.processor(),
        "load": round(load_average(), 1),
        "versions": {"Python": ".".join(map(str, sys.version_info[:3])), **_versions()},
    }


def _versions(names=("randsel", "numpy", "scipy", "scikit-learn")):
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


class PageRun:
    """A run of the benchmark of a page; made before anything is measured, because files may change meanwhile."""

    def __init__(self, name):
        self.page = load_pages()[name]
        self.about = describe_run()
        self.sources, self._others = self.page.source_hash(), self.page.source_hash(self.page.other_packages)

    def header(self, n_sets, runs=None, incomplete=""):
        """Return title and header. `n_sets` says how many data sets stand behind a figure.

        `runs` describe the runs that stored records come from, if not all are of this run. A page that is `incomplete`,
        for the reason given, gets no hash, so that it counts as older than its sources.
        """
        runs = runs or [self.about]
        dates = sorted({run["date"] for run in runs})
        loads = [run["load"] for run in runs if "load" in run]
        loads += [load_average()] if self.about in runs else []
        load = f"load {min(loads):.1f} to {max(loads):.1f}" if loads else "load not recorded"
        facts = [
            f"Made by `{self.page.command}`, commit {', '.join(dict.fromkeys(run['commit'] for run in runs))}",
            " to ".join(dict.fromkeys((dates[0], dates[-1]))),
            "; ".join(dict.fromkeys(run["processor"] for run in runs)),
            f"{load}",
            ", ".join(f"{name} {number}" for name, number in runs[-1]["versions"].items()),
        ]
        sources = f"not recorded, {incomplete}" if incomplete else f"`{self.sources}`"
        same = f" Answers: `{self.page.answer_hash(self._others)}`." if self.page.groups and not incomplete else ""
        return f"# {self.page.question}\n\n{'; '.join(facts)}. Data sets: {n_sets}. Sources: {sources}.{same}"

    def write(self, path, body, n_sets, *, runs=None, incomplete="", tables=None, figures=None):
        """Write header and body to a page, the rows of `tables` to a CSV file beside it, and figures to their file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{self.header(n_sets, runs, incomplete)}\n\n{body.strip()}\n")
        if tables:
            path.with_suffix(".csv").write_text(rows_as_csv(tables))
        if figures:
            save_figures(path.parent / FIGURES.name, self.page.name, figures)


def save_figures(path, page, figures):
    """Replace the figures of a page; a figure is a name with its value and what it is."""
    stored = json.loads(path.read_text()) if path.exists() else {}
    stored = {name: entry for name, entry in stored.items() if entry["page"] != page}
    stored |= {name: {"value": value, "what": what, "page": page} for name, (value, what) in figures.items()}
    path.write_text(json.dumps(dict(sorted(stored.items())), indent=1, ensure_ascii=False) + "\n")


def rows_as_csv(tables):
    """Return tables (title -> rows of text) as one CSV text; "value ± error" becomes two columns."""
    rows = []
    for title, table in tables.items():
        for row in table:
            rows.append({"table": title})
            for column, text in row.items():
                value, _, error = text.partition(" ± ")
                rows[-1][column] = value
                if error:
                    rows[-1][f"{column}, standard error"] = error
    columns = list(dict.fromkeys(column for row in rows for column in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


# ---------------------------------------------------------------- age


@dataclass(frozen=True)
class Age:
    """Whether a page is current, and when it was measured: by its header or, without one, by its last change."""

    current: bool
    measured: str
    reason: str


def age_of(page, results=RESULTS):
    """Compare the hashes in the header of a page with those of its sources and answers."""
    path = results / f"{page.name}.md"
    if not path.exists():
        return Age(False, "", "not made yet")
    opening = path.read_text().split("\n## ")[0]
    commits, date, sources, same = (pattern.search(opening) for pattern in (_COMMIT, _DATE, _SOURCES, _ANSWERS))
    if commits and date:
        commit = re.findall(r"[0-9a-f]{7,40}", commits[1])[0]
        measured = f"measured {date[0]} at {commit}"
    else:
        commit, _, day = _git("log", "-1", "--format=%h %as", "--", path).partition(" ")
        measured = f"last changed {day} at {commit}" if commit else "at an unknown time"
    if sources and sources[1] == page.source_hash():
        return Age(True, measured, "current")
    if same and page.groups and same[1] == page.answer_hash():
        return Age(True, measured, "current, the code has changed since and gives the same answers")
    count = len(_git("log", "--format=%h", f"{commit}..HEAD", "--", *page.sources()).splitlines()) if commit else 0
    reasons = [f"{count} commits to its sources since"] if count else []
    reasons += ["other sources"] if sources and not count else []
    reasons += [] if sources else ["hash of its sources not recorded"]
    return Age(False, measured, "not current: " + ", ".join(reasons))


def _git(*arguments):
    """Output of git in the repository; nothing if git or the commit is not there."""
    command = ["git", *map(str, arguments)]
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


# ---------------------------------------------------------------- index


INDEX = """\
# Benchmarks

Each page answers one question and is written by the command named here. *Current* means that the code that a page
measures has not changed since, apart from comments and docstrings, or that it gives the same answers on reference
problems (`benchmarks/answers.py`; seconds on such a page may have changed). `make docs` checks that again. `make
bench-all` makes all pages that are not current, and resumes where it was stopped.
"""


def write_index(results=RESULTS):
    """Return the text of the index: a line per page with its question, command and age, in groups."""
    groups = {}
    for page in load_pages().values():
        age = age_of(page, results)
        if age.measured:
            line = f"- [{page.question}]({page.name}.md): `{page.command}`; {age.measured}; {age.reason}."
            groups.setdefault(page.group, []).append(line)
    parts = [f"## {group}\n\n" + "\n".join(lines) + "\n" for group, lines in groups.items()]
    return "\n".join([INDEX, *parts])
