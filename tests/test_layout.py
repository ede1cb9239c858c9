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


def test_public_names():
    assert all(hasattr(randsel, name) for name in randsel.__all__)
    assert sorted(randsel.__all__) == list(randsel.__all__)
    classes = {name for name, thing in vars(randsel).items() if isinstance(thing, type)}
    assert classes <= set(randsel.__all__)


def test_version_is_that_of_the_package():
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == randsel.__version__


def test_importing_the_package_imports_nothing_optional():
    heavy = ("matplotlib", "polars", "torch", "click", "jinja2")
    code = f"import sys, randsel; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
