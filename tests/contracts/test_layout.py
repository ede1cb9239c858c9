"""The house rules: a file imports only from files above it, heavy packages only when used, public names are listed."""

import ast
import subprocess
import sys
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import randsel

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "randsel"

#: Subpackages and public files; each imports only from those before it.
ORDER = [
    "_utils",
    "_numerics",
    "datasets",
    "get",
    "guarantees",
    "targets",
    "contribution",
    "culling",
    "plots",
    "interactions",
    "_sklearn",
    "selectors",
    "baselines",
    "learning",
    "tables.formats",
    "tables",
    "distributed",
    "prediction",
    "analysis",
    "report",
    "panels",
    "experiments",
    "__init__",
    "cli",
    "__main__",
]
#: Largest number of files in a chain of imports.
MAX_LEVELS = 10
FILES = sorted(str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py"))


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def place_of(module):
    """Return the position in ORDER of a module of the package, named without the package's own name."""
    return max((ORDER.index(name) for name in ORDER if f"{module}.".startswith(f"{name}.")), default=None)


def test_every_file_has_its_place():
    modules = [name.removesuffix(".py").replace("/", ".") for name in FILES]
    assert not [name for name in modules if place_of(name) is None]


def test_baselines_load_neither_contribution_nor_culling():
    loaded = "[name for name in ('randsel.contribution', 'randsel.culling') if name in sys.modules]"
    command = [sys.executable, "-c", f"import sys, randsel.baselines; print({loaded})"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize("name", FILES)
def test_a_subpackage_imports_only_from_those_before_it(name):
    here = place_of(name.removesuffix(".py").replace("/", "."))
    used = {place_of(part.removeprefix("randsel.")) for part in imports(SOURCE / name) if part.startswith("randsel.")}
    later = [ORDER[place] for place in used if place is not None and place > here]
    assert not later


def longest_chain(imported):
    """Return the longest chain of modules of which each imports the next; raise CycleError if there is a cycle."""
    chains = {}
    for module in TopologicalSorter(imported).static_order():
        chains[module] = [module, *max((chains[name] for name in imported[module]), key=len, default=[])]
    return max(chains.values(), key=len)


def test_imports_have_at_most_ten_levels():
    # `__init__.py` does not count, because it only lists the names of its subpackage
    files = {f"randsel.{name.removesuffix('.py').replace('/', '.')}": name for name in FILES if "__init__" not in name}
    imported = {module: set(imports(SOURCE / name)) & files.keys() for module, name in files.items()}
    assert len(longest_chain(imported)) <= MAX_LEVELS


def test_the_longest_chain_is_found():
    assert longest_chain({"a": {"b", "d"}, "b": {"c"}, "c": {"d"}, "d": set()}) == ["a", "b", "c", "d"]
    with pytest.raises(CycleError):
        longest_chain({"a": {"b"}, "b": {"a"}})


@pytest.mark.parametrize("name", [name for name in FILES if name != "_sklearn/base.py"])
def test_private_names_of_scikit_learn_stay_in_one_file(name):
    assert not [part for part in imports(SOURCE / name) if part.startswith("sklearn") and "._" in part]


@pytest.mark.parametrize("name", [name for name in FILES if not name.startswith("distributed/")])
def test_only_one_subpackage_imports_dask(name):
    calls = [node for node in ast.walk(ast.parse((SOURCE / name).read_text())) if called(node) == "optional"]
    asked_for = {*imports(SOURCE / name), *(ast.unparse(node.args[0]).strip("'") for node in calls)}
    assert not {module.split(".")[0] for module in asked_for} & {"dask", "distributed"}


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


#: The file that starts processes. It unpickles what a process of its own sends through a pipe, and nothing else.
PROCESSES = "_utils/processes.py"


@pytest.mark.parametrize("name", [name for name in FILES if name != PROCESSES])
def test_nothing_is_unpickled_and_nothing_opens_a_connection(name):
    assert list(unsafe((SOURCE / name).read_text())) == []


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


@pytest.mark.parametrize("name", [name for name in FILES if name != PROCESSES])
def test_one_file_starts_processes(name):
    assert not {"subprocess", "multiprocessing", "os.fork"} & set(imports(SOURCE / name))


@pytest.mark.parametrize("name", FILES)
def test_no_exception_is_raised_from_outside(name):
    text = (SOURCE / name).read_text()
    assert "PyThreadState_SetAsyncExc" not in text
    assert "signal.SIGALRM," not in text


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
