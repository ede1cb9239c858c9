"""The house rules: a file imports only from files above it, heavy packages only when used, public names are listed."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import randsel

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "randsel"

#: Top to bottom, as a maintainer would read.
ORDER = [
    "_optional",
    "cluster_jobs",
    "_parallel",
    "_progress",
    "_backend",
    "bounded_files",
    "run_folder",
    "columns",
    "cluster_columns",
    "kernels",
    "_validation",
    "alignment",
    "sample",
    "null_distribution",
    "series_bounds",
    "cubic_series",
    "pair_weights",
    "pair_elements",
    "closed_form",
    "contribution",
    "checkpoint",
    "sample_state",
    "culling",
    "guarantees",
    "rank_functions",
    "cluster_functions",
    "interaction",
    "pair_scan",
    "discovery",
    "selector",
    "selector_cv",
    "interaction_scan",
    "sparse_filtering",
    "lpboost",
    "mkl",
    "baselines",
    "stability",
    "datasets",
    "cluster_tables",
    "table_text",
    "table_formats",
    "table_mat",
    "table_apart",
    "table_orientation",
    "table_target",
    "table_features",
    "table_black_box",
    "tables",
    "experiment",
    "summary",
    "analysis",
    "black_box",
    "choosing",
    "resampling",
    "selection",
    "words",
    "plots",
    "report",
    "results",
    "adata",
    "__init__",
    "cli",
    "__main__",
]


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_every_file_has_its_place():
    assert {path.stem for path in SOURCE.glob("*.py")} == set(ORDER)


@pytest.mark.parametrize("name", ORDER)
def test_a_file_imports_only_from_files_above_it(name):
    used = {part.split(".")[1] for part in imports(SOURCE / f"{name}.py") if part.startswith("randsel.")}
    used = {other for other in used if other in ORDER}
    assert all(ORDER.index(other) < ORDER.index(name) for other in used), used


@pytest.mark.parametrize("name", [name for name in ORDER if name != "_validation"])
def test_private_names_of_scikit_learn_stay_in_one_file(name):
    private = [p for p in imports(SOURCE / f"{name}.py") if p.startswith("sklearn") and "._" in p]
    assert not private


#: What unpickles, and what opens connections.
UNPICKLING = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "yaml", "pandas.read_pickle"}
NETWORK = {
    "urllib",
    "urllib3",
    "http",
    "socket",
    "socketserver",
    "ssl",
    "ftplib",
    "requests",
    "httpx",
    "aiohttp",
    "fsspec",
}
#: Calls that unpickle, or run text as code, whatever they are given.
LOADING = {"joblib.load", "torch.load", "pd.read_pickle", "pandas.read_pickle", "eval", "exec", "compile", "os.system"}


def called(node):
    """Name of a function as it is called: `np.load`, `load`."""
    return ast.unparse(node.func) if isinstance(node, ast.Call) else ""


def unsafe(text):
    """What of a file unpickles, runs text as code, or opens connections."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            yield from (name for name in names if name.split(".")[0] in UNPICKLING | NETWORK)
            yield from (a.name for a in node.names if f"{getattr(node, 'module', '')}.{a.name}" in LOADING)
        name = called(node)
        if name in LOADING or name.split(".")[-1] in ("read_pickle", "urlopen", "fetch_openml", "urlretrieve"):
            yield name
        keywords = {word.arg: ast.unparse(word.value) for word in getattr(node, "keywords", ())}
        if name in ("np.load", "numpy.load", "np.lib.format.read_array") and keywords.get("allow_pickle") != "False":
            yield name
        if name == "optional" and ast.unparse(node.args[0]).strip("'").split(".")[0] in UNPICKLING | NETWORK:
            yield name


@pytest.mark.parametrize("name", ORDER)
def test_nothing_is_unpickled_and_nothing_opens_a_connection(name):
    assert list(unsafe((SOURCE / f"{name}.py").read_text())) == []


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from urllib.request import urlopen",
        "import http.client",
        "from joblib import load",
        "joblib.load(path)",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "np.lib.format.read_array(file, allow_pickle=flag)",
        "eval(text)",
        "optional('requests', extra='net', purpose='x')",
    ],
)
def test_what_unpickles_or_opens_a_connection_is_found(text):
    assert list(unsafe(text))
    assert not list(unsafe("np.load(path, allow_pickle=False)"))


@pytest.mark.parametrize("name", [name for name in ORDER if name != "table_apart"])
def test_one_file_starts_processes(name):
    assert not {"subprocess", "multiprocessing", "os.fork"} & set(imports(SOURCE / f"{name}.py"))


def test_public_names():
    assert all(hasattr(randsel, name) for name in randsel.__all__)
    assert sorted(randsel.__all__) == list(randsel.__all__)
    classes = {name for name, thing in vars(randsel).items() if isinstance(thing, type)}
    assert classes <= set(randsel.__all__)


def test_version_is_that_of_the_package():
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == randsel.__version__


def test_importing_the_package_imports_nothing_optional():
    heavy = ("matplotlib", "polars", "torch", "click", "jinja2", "dask", "distributed")
    code = f"import sys, randsel; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
