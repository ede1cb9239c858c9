"""Pages of results: their header, the hash of their sources, and the check that they are current."""

import json
import re
import runpy
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def pages(modules):
    return modules("pages")


@pytest.fixture
def page(pages, tmp_path, monkeypatch):
    """A page that measures a subpackage, a benchmark and a data file, in a repository of its own."""
    for name, text in {
        "src/randsel/part/a.py": '"""Text."""\nx = 1\n',
        "src/randsel/other/b.py": "y = 1\n",
        "benchmarks/speed/bench.py": "z = 1\n",
        "src/randsel/part.toml": "k = 1\n",
        "docs/results/.keep": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.setattr(pages.measure, "SOURCE", tmp_path / "src" / "randsel")
    files = ("speed/bench.py", "/src/randsel/part.toml")
    one = pages.Page("demo", "Speed", "How fast?", "make bench-demo", ("part",), files, 1)
    monkeypatch.setattr(pages, "load_pages", lambda: {"demo": one})
    return one


def git(folder, *arguments):
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def commit_all(folder):
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "change", "--no-verify")
    return git(folder, "rev-parse", "--short=12", "HEAD")


def test_the_commit_is_that_of_git_unless_a_variable_names_another(pages, page, tmp_path, monkeypatch):
    monkeypatch.delenv("RANDSEL_COMMIT", raising=False)
    assert pages.describe_run()["commit"] == "unknown"
    git(tmp_path, "init", "-q")
    commit = commit_all(tmp_path)
    assert pages.describe_run()["commit"] == commit
    monkeypatch.setenv("RANDSEL_COMMIT", "0123456")  # a copy of the working tree, in which git has another commit
    assert pages.describe_run()["commit"] == "0123456"


def test_the_hash_changes_with_code_but_not_with_prose(pages, page, tmp_path):
    first = page.source_hash()
    code = tmp_path / "src" / "randsel" / "part" / "a.py"
    code.write_text('"""Other text."""\n\n# a comment\nx = 1\n')
    (tmp_path / "src" / "randsel" / "other" / "b.py").write_text("y = 2\n")
    assert page.source_hash() == first
    hashes = {first}
    for path, text in (
        (code, "x = 2\n"),
        (tmp_path / "benchmarks" / "speed" / "bench.py", "z = 2\n"),
        (tmp_path / "src" / "randsel" / "part.toml", "k = 2\n"),
        (code.with_name("new.py"), "w = 1\n"),
    ):
        path.write_text(text)
        hashes.add(page.source_hash())
    assert len(hashes) == 5


def test_a_page_carries_what_it_was_measured_on_and_is_current_until_its_sources_change(pages, page, tmp_path):
    git(tmp_path, "init", "-q")
    commit = commit_all(tmp_path)
    results = tmp_path / "docs" / "results"
    run = pages.PageRun("demo")
    run.write(results / "demo.md", "| a |\n|---|\n| 1 |", "7 per row")
    title, header, *_ = (results / "demo.md").read_text().split("\n\n")
    assert title == "# How fast?"
    expected = (
        rf"Made by `make bench-demo`, commit {commit}; \d{{4}}-\d\d-\d\d; .+, \d+ cores; load [\d.]+ to [\d.]+; "
        rf"Python 3\S+, randsel \S+, numpy .+\. Data sets: 7 per row\. Sources: `{page.source_hash()}`\."
    )
    assert re.fullmatch(expected, header), header
    age = pages.age_of(page, results)
    assert age.current
    assert re.fullmatch(rf"measured \d{{4}}-\d\d-\d\d at {commit}", age.measured)
    (tmp_path / "src" / "randsel" / "part" / "a.py").write_text("x = 2\n")
    commit_all(tmp_path)
    age = pages.age_of(page, results)
    assert not age.current
    assert age.reason == "not current: 1 commits to its sources since"


def test_sources_that_change_while_a_benchmark_runs_make_its_page_old(pages, page, tmp_path):
    run = pages.PageRun("demo")
    (tmp_path / "src" / "randsel" / "part" / "a.py").write_text("x = 2\n")
    run.write(tmp_path / "docs" / "results" / "demo.md", "text", "1")
    assert not pages.age_of(page, tmp_path / "docs" / "results").current


def test_a_page_stays_current_if_the_code_changes_and_its_answers_do_not(pages, page, tmp_path, monkeypatch, modules):
    results, code = tmp_path / "docs" / "results", tmp_path / "src" / "randsel" / "part" / "a.py"
    (tmp_path / "src" / "randsel" / "third").mkdir()
    third = tmp_path / "src" / "randsel" / "third" / "c.py"
    third.write_text("v = 1\n")
    given = {"part": ["x"]}
    monkeypatch.setattr(modules("answers"), "digest", lambda group: "".join(given[group]))
    both = replace(page, packages=("part", "third"), groups=("part",), other_packages=("third",))
    monkeypatch.setattr(pages, "load_pages", lambda: {"demo": both})
    pages.PageRun("demo").write(results / "demo.md", "text", "1")
    code.write_text("renamed = 1\n")
    age = pages.age_of(both, results)
    assert age.current
    assert age.reason == "current, the code has changed since and gives the same answers"
    for path, text in ((third, "v = 2\n"), (tmp_path / "benchmarks" / "speed" / "bench.py", "z = 2\n")):
        before = path.read_text()
        path.write_text(text)
        assert not pages.age_of(both, results).current
        path.write_text(before)
    assert pages.age_of(both, results).current
    given["part"] = ["y"]
    assert not pages.age_of(both, results).current


def test_answers_change_with_the_decisions_of_the_package_only(monkeypatch, modules):
    answers = modules("answers")
    few = list(answers.problems())[1:2]
    monkeypatch.setattr(answers, "problems", lambda: iter(few))
    first = {group: list(answer()) for group, answer in answers.GROUPS.items()}
    assert first == {group: list(answer()) for group, answer in answers.GROUPS.items()}
    fit = answers.RandSel.fit
    monkeypatch.setattr(answers.RandSel, "fit", lambda self, X, y, **rest: fit(self.set_params(drop=0.9), X, y, **rest))
    assert list(answers.selection()) != first["selection"]
    assert list(answers.scan()) == first["scan"]
    assert answers.rounded(0.012345) == 0.012
    assert answers.rounded(1.26e-30) == 1e-30


def test_pages_without_a_hash_are_not_current(pages, page, tmp_path):
    git(tmp_path, "init", "-q")
    results = tmp_path / "docs" / "results"
    assert pages.age_of(page, results) == pages.Age(False, "", "not made yet")
    pages.PageRun("demo").write(results / "demo.md", "text", "1", incomplete="a part was left out")
    assert "Sources: not recorded, a part was left out." in (results / "demo.md").read_text()
    assert not pages.age_of(page, results).current
    (results / "demo.md").write_text("# How fast?\n\n`make bench-demo`, as it was.\n")
    commit = commit_all(tmp_path)
    age = pages.age_of(page, results)
    assert not age.current
    assert re.fullmatch(rf"last changed \d{{4}}-\d\d-\d\d at {commit[:7]}", age.measured)
    assert age.reason == "not current: hash of its sources not recorded"


def test_stored_records_say_when_they_were_made(pages, page):
    run = pages.PageRun("demo")
    old = {
        "commit": "0123456",
        "date": "2020-01-02",
        "processor": "abacus, 2 cores",
        "load": 9.5,
        "versions": {"a": "1"},
    }
    header = run.header("5", [old, {**old, "commit": "89abcde", "date": "2020-03-04"}])
    assert "commit 0123456, 89abcde; 2020-01-02 to 2020-03-04; abacus, 2 cores; load 9.5 to 9.5; a 1." in header


def test_rows_go_to_a_csv_file_and_figures_to_their_file(pages, page, tmp_path):
    results = tmp_path / "docs" / "results"
    tables = {"first": [{"a": "x", "b": "1.5 ± 0.2"}], "second": [{"c": "y"}]}
    run = pages.PageRun("demo")
    run.write(results / "demo.md", "text", "1", tables=tables, figures={"old": ("1", "what")})
    assert (results / "demo.csv").read_text().splitlines() == [
        'table,a,b,"b, standard error",c',
        "first,x,1.5,0.2,",
        "second,,,,y",
    ]
    pages.save_figures(results / "figures.json", "elsewhere", {"kept": ("3", "other page")})
    run.write(results / "demo.md", "text", "1", figures={"new": ("2", "what")})
    figures = json.loads((results / "figures.json").read_text())
    assert {name: entry["value"] for name, entry in figures.items()} == {"kept": "3", "new": "2"}


def test_figures_are_put_between_their_marks():
    put_figures = runpy.run_path(str(ROOT / "tools" / "readme_summary.py"))["put_figures"]
    text = "Dask takes <!-- figure price -->old<!-- end --> times as long."
    assert put_figures(text, {"price": "1.10"}) == text.replace("old", "1.10")
    with pytest.raises(KeyError, match="price"):
        put_figures(text, {})


def test_the_check_fails_only_if_asked_and_if_a_page_is_old(pages, page, tmp_path, monkeypatch, capsys):
    results = tmp_path / "docs" / "results"
    monkeypatch.setattr(pages, "RESULTS", results)
    monkeypatch.setattr(pages.age_of, "__defaults__", (results,))
    monkeypatch.setattr(pages.write_index, "__defaults__", (results,))

    def check(*options):
        monkeypatch.setattr("sys.argv", ["check_pages.py", *options])
        return runpy.run_path(str(ROOT / "tools" / "check_pages.py"))["main"]()

    assert check() == 0
    assert check("--strict") == 1
    assert "docs/results/demo.md: not made yet. make bench-demo" in capsys.readouterr().out
    pages.PageRun("demo").write(results / "demo.md", "text", "1")
    assert check("--strict", "--index") == 0
    assert "1 of 1 pages are current" in capsys.readouterr().out
    assert re.search(
        r"^- \[How fast\?\]\(demo.md\): `make bench-demo`; .*; current\.$", (results / "index.md").read_text(), re.M
    )


def test_all_pages_are_made_in_order_and_current_ones_are_skipped(pages, page, tmp_path, monkeypatch, modules):
    run_all = modules("run_all")
    results = tmp_path / "docs" / "results"
    second = pages.Page("again", "Speed", "How fast?", "make bench-again", ("part",), (), 1)
    known = {"demo": page, "again": second}
    monkeypatch.setattr(pages, "load_pages", lambda: known)
    monkeypatch.setattr(run_all, "load_pages", lambda: known)
    monkeypatch.setattr(run_all, "age_of", lambda page: pages.age_of(page, results))
    made = []

    def make(command, **_):
        name = command[1].removeprefix("bench-")
        made.append(name)
        if name == "demo":
            pages.PageRun(name).write(results / f"{name}.md", "text", "1")
        return subprocess.CompletedProcess(command, int(name != "demo"))

    monkeypatch.setattr(run_all.subprocess, "run", make)
    monkeypatch.setattr(
        pages,
        "describe_run",
        lambda: {"commit": "0123456", "date": "2020-01-02", "processor": "p"} | {"load": 1.0, "versions": {}},
    )
    monkeypatch.setattr(pages, "_git", lambda *_: "")
    monkeypatch.setattr("sys.argv", ["run_all.py"])
    assert run_all.main() == 1
    assert made == ["demo", "again"]
    assert run_all.main() == 1
    assert made == ["demo", "again", "again"]


def test_every_page_is_declared_and_its_sources_and_command_exist(pages):
    declared = pages.load_pages()
    present = {path.stem for path in (ROOT / "docs" / "results").glob("*.md")} - {"index"}
    assert present <= set(declared)
    targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in declared.values():
        assert page.command.removeprefix("make ") in targets
        assert all(path.exists() for path in page.sources()), page.name
        assert len(page.source_hash()) == 12


def test_the_index_lists_every_page_with_its_question_and_command(pages):
    index = (ROOT / "docs" / "results" / "index.md").read_text()
    for name, page in pages.load_pages().items():
        if (ROOT / "docs" / "results" / f"{name}.md").exists():
            assert f"- [{page.question}]({name}.md): `{page.command}`" in index


def test_only_the_header_module_writes_pages():
    scripts = [path for path in (ROOT / "benchmarks").rglob("*.py") if path.name != "pages.py"]
    assert len(scripts) > 30
    assert not [path.name for path in scripts if re.search(r"(\.out|\bout)\b[^\n]*\.write_text", path.read_text())]


def test_the_gpu_threshold_is_the_size_from_which_on_the_device_is_always_faster(modules):
    crossover = modules("measure").crossover
    assert crossover({10: (1, 2), 20: (2, 2), 30: (3, 2), 40: (9, 2)}) == 30
    assert crossover({10: (3, 2), 20: (1, 2), 30: (3, 2)}) == 30
    assert crossover({10: (3, 2), 20: (4, 2)}) == 10
    assert crossover({10: (1, 2)}) is None


def test_summaries_of_long_tables_count_goals_and_give_the_spread(modules):
    estimates = modules("estimates")
    tables = {
        "size": [
            {"situation": "a", "data sets": "200", "p ≤ .05": ".040 ± .002", "test": "x"},
            {"situation": "b", "data sets": "200", "p ≤ .05": ".080 ± .003 ✗", "test": "x"},
        ]
    }
    assert estimates.summary_rows(tables, ["p ≤ .05", "ratio"]) == [
        {"table": "size", "rows": "2", "✗": "1", "?": "0", "p ≤ .05": ".060 (.040 to .080)", "ratio": "–"}
    ]
    assert estimates.test_summary(tables["size"]) == [
        {"test": "x", "situations": "2", "data sets": "200", "p ≤ .05": ".060 (.040 to .080)"}
    ]
    assert estimates.goal_rows(tables) == [
        {"table": "size", "situation": "b, x", "figure": "p ≤ .05", "value": ".080 ± .003 ✗"}
    ]
    plain = estimates.without_marks(tables)["size"]
    assert [row["p ≤ .05"] for row in plain] == [".040 ± .002", ".080 ± .003"]
    assert [row["goals"] for row in plain] == ["", "p ≤ .05 ✗"]


def test_a_trial_of_kills_fails_if_nothing_was_resumed(modules, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "scale"))
    has_failed = modules("killed").has_failed
    good = {"differing": [], "left": [], "status": (0, 0), "interrupted": 1}
    assert not has_failed(good)
    assert has_failed({**good, "interrupted": 0})
    assert has_failed({**good, "differing": ["out/path.npz"]})
    assert has_failed({**good, "status": (0, 1)})
