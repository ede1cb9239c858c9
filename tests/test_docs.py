"""Numbers in the documentation are those that commands printed."""

import re
import runpy
from pathlib import Path

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
