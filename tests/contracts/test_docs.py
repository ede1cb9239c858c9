"""Numbers in the documentation are those that commands printed."""

import csv
import dataclasses
import importlib
import inspect
import re
import runpy
import shlex
import textwrap
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import randsel
from randsel import InteractionScan, RandSel, RandSelCV
from randsel._utils import files
from randsel._utils.text import LONGEST_MESSAGE
from randsel.analysis import _resampling, _selection
from randsel.analysis._ranking import NAME, RANK, SELECTED, VALUE_COLUMNS
from randsel.cli import _main as cli
from randsel.tables import _read as tables
from randsel.tables import _sandbox
from randsel.tables.formats._numbers import MISSING
from randsel.tables.formats._sheet import NAME_BYTES
from randsel.tables.formats._text import LONGEST_LINE, MOST_LINES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SOURCE = ROOT / "src" / "randsel"
PAGES = sorted(DOCS.rglob("*.md"))
TEXTS = [*(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG", "SECURITY")), *PAGES]
#: All tests, and all of the package, as text; an f-string over several lines as one.
TESTS = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
SOURCE = ROOT / "src" / "randsel"
#: Pages that are read by users, not by contributors.
USER_FOLDERS = ("docs", "tutorials", "howto", "reference", "api", "explanation", "gallery")
USER_PAGES = [ROOT / "README.md", *(page for page in PAGES if page.parent.name in USER_FOLDERS)]
LINK = re.compile(r"(?:\]\(|<img src=\")(?!https?:)([^)#\"]*)(?:#([^)]+))?[)\"]")


def join_strings(path):
    """Text of a file, a string over several lines as one."""
    return re.sub(r'"\s*\n\s*f?"', "", path.read_text())


CODE = "\n".join(map(join_strings, SOURCE.rglob("*.py")))


def links(page):
    """Pages and files that a page links to, with the anchor."""
    return [(page.parent / path if path else page, anchor) for path, anchor in LINK.findall(page.read_text())]


def anchors(page):
    """Anchors of the headings of a page, as code hosts and the site make them."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    words = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
    return {heading.strip().replace(" ", "-") for heading in words}


def blocks(page):
    """Python of a page, block by block."""
    found = re.findall(r"^( *)```python\n(.*?)^ *```", page.read_text(), re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(block) for _, block in found]


def test_the_table_in_the_readme_is_that_of_the_results():
    summary = runpy.run_path(str(ROOT / "tools" / "readme_summary.py"))
    table = summary["methods"]((ROOT / "docs" / "results" / "real.md").read_text())
    assert len(table.splitlines()) > 8
    assert table in (ROOT / "README.md").read_text()


def test_the_table_in_the_comparison_is_that_of_the_results():
    summary = runpy.run_path(str(ROOT / "tools" / "readme_summary.py"))
    table = summary["peers"]((DOCS / "results" / "peers.md").read_text())
    assert len(table.splitlines()) > 10
    assert table in (DOCS / "explanation" / "comparison.md").read_text()


@pytest.fixture
def small_files(tmp_path, monkeypatch):
    """Go where the files are that the pages speak of: some rows of a pair that acts together."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 12))
    status = np.where(X[:, 1] * X[:, 2] > 0, "case", "control")
    with (tmp_path / "expression.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [["status", *(f"g{j}" for j in range(12))], *([s, *x] for s, x in zip(status, X, strict=True))]
        )
    monkeypatch.chdir(tmp_path)


def said(block):
    """Expressions of a block whose comment is what they evaluate to."""
    return re.findall(r"^([^#\n]+?)  # (array\(.*\)|[\d.]+|True|False)$", block, re.MULTILINE)


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/tutorials/first_selection.md",
        "docs/howto/annotations.md",
        "docs/howto/choose_estimator.md",
        "docs/howto/files.md",
        "docs/howto/long_runs.md",
        "docs/howto/pipelines.md",
        "docs/howto/read_report.md",
        "docs/howto/survival.md",
        "docs/explanation/experiments.md",
    ],
)
def test_every_python_block_of_a_page_runs_and_says_what_it_evaluates_to(page, small_files):
    found = blocks(ROOT / page)
    assert found
    X, y, relevant = randsel.datasets.make_xor(120, 12, random_state=0)
    scope = {"X": X, "y": y, "relevant": relevant, **vars(randsel)}
    scope |= {"RandSel": RandSel, "RandSelCV": RandSelCV, "InteractionScan": InteractionScan}
    donors, ages = np.arange(120) // 2, np.random.default_rng(0).uniform(20, 80, (120, 1))
    scope |= {"donor": donors, "plate": donors % 2, "frame": ages}
    for block in found:
        exec(block, scope)
        for expression, value in said(block):
            assert repr(eval(expression, scope)) == value


def test_the_first_examples_say_what_they_find():
    assert said(blocks(ROOT / "README.md")[0])
    assert len([found for block in blocks(DOCS / "tutorials" / "first_selection.md") for found in said(block)]) > 5


def transcripts(page):
    """Commands of a page with the lines that they print."""
    for block in re.findall(r"```console\n\$ (.*?)```", page.read_text(), re.DOTALL):
        command, *printed = block.splitlines()
        yield command, printed


def test_the_commands_of_the_tutorial_print_what_it_shows(tmp_path, monkeypatch):
    page = DOCS / "tutorials" / "real_table.md"
    monkeypatch.chdir(tmp_path)
    for block in blocks(page):
        exec(block, {})
    found = list(transcripts(page))
    assert len(found) > 5
    for command, shown in found:
        program, *arguments = shlex.split(command)
        assert program in ("randsel", "cat")
        if program == "cat":
            printed = (tmp_path / arguments[0]).read_text()
        else:
            result = CliRunner().invoke(cli.main, arguments)
            printed = result.stderr + result.stdout
        lines = re.sub(r"[^\S\n]", " ", printed).splitlines()  # spaces that do not break are spaces
        for line in shown:
            # a line that is shortened ends with …
            assert any(other.startswith(line[:-1]) if line.endswith("…") else other == line for other in lines), line


def test_the_page_on_the_command_line_is_that_of_the_help():
    tool = runpy.run_path(str(ROOT / "tools" / "command_line.py"))
    assert tool["PAGE"].read_text() == tool["page"](), "make command-line"


def test_links_in_the_documentation_lead_somewhere():
    for page in TEXTS:
        for there, anchor in links(page):
            assert there.exists(), f"{page.name}: {there}"
            if anchor and there.suffix == ".md":
                assert anchor in anchors(there), f"{page.name}: {there.name}#{anchor}"


def test_every_page_is_reached_from_the_navigation():
    reached, todo = set(), [DOCS / "index.md"]
    while todo:
        page = todo.pop().resolve()
        if page not in reached and page.suffix == ".md" and page.is_relative_to(DOCS):
            reached.add(page)
            # what the site puts into the navigation: lists of the index, and of the index of a folder
            todo += [there for there, _ in links(page)] if page.name == "index.md" else []
    assert not {page.relative_to(DOCS) for page in PAGES} - {page.relative_to(DOCS) for page in reached}


def test_every_make_target_named_in_the_documentation_exists():
    targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        (page.name, name) for page in TEXTS for name in re.findall(r"(?:`|^ {4})make ([a-z-]+)", page.read_text(), re.M)
    }
    assert len(named) > 20
    assert not {(page, name) for page, name in named if name not in targets}


@pytest.mark.parametrize("page", sorted((DOCS / "results").glob("*.md")), ids=lambda page: page.stem)
def test_every_page_of_results_names_the_command_that_makes_it(page):
    if page.stem == "index":
        return
    opening = page.read_text().split("\n## ")[0]
    command = re.search(r"`(?:make (?P<target>[a-z-]+)|randsel (?P<command>\w+) [^`]+)`", opening)
    assert command, page.name
    if command["target"]:
        assert f"docs/results/{page.name}" in _recipe(command["target"]) or "docs/results" in _recipe(command["target"])
    else:
        assert command["command"] in cli.main.commands


def _recipe(target):
    """What a target runs: its lines of the Makefile, and the scripts named there."""
    lines = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
    scripts = [ROOT / name for name in re.findall(r"(?:benchmarks|tools)/[\w/]+\.py", lines)]
    return lines + "".join(script.read_text().replace('"docs" / "results"', "docs/results") for script in scripts)


@pytest.mark.parametrize("estimator", [RandSel, RandSelCV, InteractionScan])
def test_rows_of_settings_are_parameters_with_their_defaults(estimator):
    part = (DOCS / "reference" / "settings.md").read_text().split(f"\n## {estimator.__name__}\n")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| `(.+?)` \|", part, re.MULTILINE))
    expected = {name: repr(value).replace("'", '"') for name, value in estimator().get_params(deep=False).items()}
    assert rows
    assert rows.items() <= expected.items()


def test_last_rows_of_settings_are_parameters_with_their_defaults():
    page = (DOCS / "reference" / "settings.md").read_text()
    rows = re.findall(r"^\| `(\w+)\((\w+)\)` \| `(.+?)` \|", page, re.MULTILINE)
    assert rows
    for estimator, parameter, default in rows:
        assert repr(getattr(randsel, estimator)().get_params(deep=False)[parameter]) == default


def public_names():
    """Yield public classes and functions with their full names: all of these modules must be documented."""
    for module in (randsel, randsel.datasets, randsel.guarantees, randsel.plots):
        names = randsel.__all__ if module is randsel else list(vars(module))
        for name, value in ((name, getattr(module, name)) for name in names):
            home = getattr(value, "__module__", "")
            defined_here = home.startswith("randsel.") if module is randsel else home.startswith(module.__name__)
            if (inspect.isclass(value) or inspect.isfunction(value)) and defined_here and not name.startswith("_"):
                yield f"{module.__name__}.{name}"


def test_every_public_name_is_on_a_page_of_the_api_and_has_an_example():
    documented = {
        name
        for page in (DOCS / "reference" / "api").glob("*.md")
        for name in re.findall(r"^- `(randsel\.[\w.]+)`: ", page.read_text(), re.M)
    }
    assert not set(public_names()) - documented - {"randsel.plots.class_colours", "randsel.plots.split_at_median"}
    for name in documented:
        module, _, attribute = name.rpartition(".")
        value = getattr(importlib.import_module(module), attribute)
        text = inspect.getdoc(value) or ""
        # result dataclasses need no example, but one that is announced must be there
        plain = dataclasses.is_dataclass(value) and "Examples" not in text
        assert plain or ">>> " in text, name


def test_every_example_is_in_the_gallery():
    scripts = {path.stem for path in (ROOT / "examples").glob("*.py")}
    gallery = runpy.run_path(str(ROOT / "tools" / "gallery.py"))
    assert scripts == {name for names in gallery["ORDER"].values() for name in names}
    assert len(scripts) >= 8
    assert (DOCS / "gallery" / "index.md").read_text() == gallery["index"]()
    for name in scripts:
        text = (DOCS / "gallery" / f"{name}.md").read_text()
        question, about, lesson = gallery["said"](ROOT / "examples" / f"{name}.py")
        assert question.endswith("?")
        assert lesson
        assert about in text
        assert (ROOT / "examples" / f"{name}.py").read_text().split('"""', 2)[2].strip() in text, (
            f"make gallery: {name}"
        )
        assert (DOCS / "gallery" / f"{name}.png").exists()


def test_equations_that_comments_refer_to_have_their_numbers_on_the_page():
    page = (DOCS / "explanation" / "mathematics.md").read_text()
    numbers = re.findall(r"\\tag\{([^}]+)\}", page)
    assert len(numbers) == len(set(numbers))
    cited = {
        number for text in re.findall(r"\beqs?\. [\d'ab, and]+", CODE) for number in re.findall(r"\d+['ab]*", text)
    }
    assert len(cited) > 20
    assert not cited - set(numbers)


def test_tests_named_in_the_notes_for_contributors_exist():
    page = (DOCS / "contributing" / "traceability.md").read_text()
    named = set(re.findall(r"`(test_\w+)`", page))
    assert len(named) > 100
    assert not {name for name in named if f"def {name}(" not in TESTS}
    assert not [name for name in re.findall(r"tests/\w+/\w+\.py", page) if not (ROOT / name).exists()]
    for name in ("tests/robustness/test_hostile_files.py", "tests/robustness/test_hostile_folders.py"):
        hostile = set(re.findall(r"^def (test_\w+)", (ROOT / name).read_text(), re.MULTILINE))
        assert len(hostile & named) > 10


def test_the_page_on_files_names_options_that_exist():
    page = (DOCS / "reference" / "formats.md").read_text()
    known = set(inspect.signature(tables.read).parameters)
    named = {name.removeprefix("--").replace("-", "_") for name in re.findall(r"`(--[a-z-]*[a-z0-9])`", page)}
    assert named <= known
    assert len(named) > 8
    assert f"more than {inspect.signature(tables.read).parameters['max_bytes'].default[:-2]} GB" in page
    assert f"A line may have {LONGEST_LINE / 1e6:.0f} million characters" in page
    missing = re.search(r"## Missing values\n\n(Empty.*?) are missing", page, re.DOTALL).group(1)
    assert set(re.findall("`([^`]+)`", missing)) | {""} == set(MISSING)


def test_pages_name_options_that_exist():
    commands = [cli.main, *cli.main.commands.values()]
    known = {option for command in commands for parameter in command.params for option in parameter.opts}
    known |= {"--help", "--host", "--nthreads", "--nworkers"}  # the last three are Dask's
    for page in USER_PAGES:
        assert set(re.findall(r"(?<![\w-])(--[a-z][a-z0-9-]*)", page.read_text())) <= known, page.name


def test_the_page_on_outputs_and_exit_codes_is_that_of_the_code():
    page = (DOCS / "reference" / "outputs.md").read_text()
    codes = re.findall(r"^\| (\d+) \|", page, re.MULTILINE)
    assert codes == ["0", "1", "2", str(cli.NOTHING), str(cli.LOST), str(cli.INTERRUPTED), str(cli.TERMINATED)]
    assert _selection.PAIR_BUDGET == 3e10
    assert "3·10¹⁰" in page
    assert f"{_resampling.THRESHOLD:.0%}".replace("%", " %") in page
    assert f"(2·{_resampling.THRESHOLD} − 1)" in page
    columns = re.search(r"In this order: (.*)", page).group(1)
    assert re.findall("`([a-z_]+)`", columns) == [
        *(column.title for column in (NAME, RANK, SELECTED, *VALUE_COLUMNS)),
        "stand_ins",
    ]


@pytest.mark.parametrize("page", USER_PAGES, ids=lambda page: page.stem)
def test_pages_for_users_name_no_tests(page):
    assert not re.findall(r"\btest_\w+", page.read_text())


def test_bounds_are_those_of_the_page():
    text = (ROOT / "SECURITY.md").read_text()
    rows = [row for row in text.split("## Memory and time")[1].split("\n\n")[1].splitlines() if row.startswith("| ")][
        1:
    ]
    mebibytes = _sandbox.MORE_MEMORY >> 20
    values = {
        "max_bytes": inspect.signature(tables.read).parameters["max_bytes"].default.replace("GB", " GB"),
        "LONGEST_LINE": f"{LONGEST_LINE:,} characters".replace(",", " "),
        "MOST_LINES": f"{MOST_LINES:,}".replace(",", " "),
        "NAME_BYTES": f"{NAME_BYTES} bytes",
        "LONGEST_MESSAGE": f"{LONGEST_MESSAGE} characters",
        "MORE_MEMORY": f"{ {4: 'four'}[_sandbox.TIMES] } times `--max-bytes`, and {mebibytes} MiB",
        "SECONDS": f"{_sandbox.SECONDS} s, 1 s for every {_sandbox.BYTES_PER_SECOND // 1000} kB of the file, and "
        f"1 s for every {_sandbox.LIMIT_PER_SECOND // 10**6} MB of `--max-bytes`; twice that by the clock",
        "LARGEST_JSON": f"{files.LARGEST_JSON >> 20} MiB",
        "LARGEST_PART": f"{files.LARGEST_PART >> 30} GiB",
    }
    assert len(rows) == len(values)
    for row, (name, value) in zip(rows, values.items(), strict=True):
        assert name in row
        assert f"| {value} |" in row
