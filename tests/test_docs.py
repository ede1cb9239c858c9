"""Numbers in the documentation are those that commands printed."""

import inspect
import re
import runpy
from pathlib import Path

from randsel import cli, results, selection, tables
from randsel.analysis import Feature
from randsel.table_text import LONGEST_LINE, MISSING

ROOT = Path(__file__).parents[1]


def test_the_table_in_the_readme_is_that_of_the_results():
    summary = runpy.run_path(str(ROOT / "benchmarks" / "summary.py"))
    table = summary["table"]((ROOT / "docs" / "results" / "recovery.md").read_text())
    assert len(table.splitlines()) > 5
    assert table in (ROOT / "README.md").read_text()


def test_the_example_in_the_readme_does_what_it_says():
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL).group(1)
    *code, last = block.strip().splitlines()
    expression, _, said = last.partition("#")
    scope = {}
    exec("\n".join(code), scope)
    assert repr(eval(expression, scope)) == said.strip()


def test_links_in_the_documentation_lead_somewhere():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\(([^)#]+)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_tests_named_in_the_mathematics_exist():
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").glob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "mathematics.md").read_text()))
    assert len(named) > 8
    assert not {name for name in named if f"def {name}" not in tests}


def test_messages_of_the_page_on_files_are_those_of_the_code():
    page = (ROOT / "docs" / "files.md").read_text()
    sources = [
        "_optional",
        "table_text",
        "table_formats",
        "table_mat",
        "table_orientation",
        "table_target",
        "table_features",
        "tables",
    ]
    code = "\n".join((ROOT / "src" / "randsel" / f"{name}.py").read_text() for name in sources)
    cells = [line.split("|")[2] for line in page.split("## Messages")[1].splitlines() if line.startswith("| ")]
    quoted = [words for cell in cells for words in re.findall("`([^`]+)`", cell)]
    assert len(quoted) > 20
    assert not [words for words in quoted if words not in code]


def test_the_page_on_files_names_options_and_tests_that_exist():
    page = (ROOT / "docs" / "files.md").read_text()
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").glob("test_*.py"))
    assert not {name for name in re.findall(r"`(test_\w+)`", page) if f"def {name}(" not in tests}
    known = set(inspect.signature(tables.read).parameters)
    named = {name.removeprefix("--").replace("-", "_") for name in re.findall(r"`(--[a-z-]*[a-z0-9])`", page)}
    assert named <= known
    assert len(named) == len(known) - 3  # path, classes and batches are no options
    assert f"more than {inspect.signature(tables.read).parameters['max_bytes'].default[:-2]} GB" in page
    assert f"A line may have {LONGEST_LINE / 1e6:.0f} million characters" in page
    missing = re.search(r"## Missing values\n\n(Empty.*?) are missing", page, re.DOTALL).group(1)
    assert set(re.findall("`([^`]+)`", missing)) | {""} == set(MISSING)


def test_the_page_on_selecting_names_options_codes_and_tests_that_exist():
    page = (ROOT / "docs" / "select.md").read_text()
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").glob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", page))
    assert len(named) > 15
    assert not {name for name in named if f"def {name}(" not in tests}
    command = cli.main.commands["select"]
    known = {option for parameter in command.params for option in parameter.opts} | {"--debug"}
    assert set(re.findall(r"(--[a-z][a-z-]*)", page)) <= known
    codes = re.findall(r"^\| (\d+) \|", page.split("## Exit status")[1], re.MULTILINE)
    assert codes == ["0", "1", "2", str(cli.NOTHING), str(cli.INTERRUPTED)]
    assert selection.PAIR_BUDGET == 3e10
    assert "3·10¹⁰" in page
    assert f"{selection.THRESHOLD:.0%}".replace("%", " %") in page
    assert f"(2·{selection.THRESHOLD} − 1)" in page
    columns = re.search(r"`ranking.csv` \|(.*)", page).group(1)
    feature = Feature("a", 0, 1, 0.0, 0.0, 0.0, None, 1.0, 1.0, 0.0, False)
    assert re.findall("`([a-z_]+)`", columns) == list(results._row(feature))
