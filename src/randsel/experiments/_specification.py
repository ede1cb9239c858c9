"""Specification of a comparison: data sets, methods, bandwidths and folds, given in Python or in a TOML file."""

import difflib
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import randsel
from randsel import datasets
from randsel._utils import choices
from randsel._utils.files import LARGEST_JSON
from randsel._utils.text import shorten_errors
from randsel.tables import LOWEST, Table, read
from randsel.targets import KINDS

#: Name of a method -> (class, parameters). `gamma` is set later if the class has it.
METHODS: dict[str, tuple[Any, dict[str, Any]]] = {
    name: (getattr(randsel, class_name), parameters) for name, (class_name, parameters) in choices.METHODS.items()
}


@dataclass(frozen=True)
class Spec:
    """What to compare: data sets, methods, bandwidths, folds."""

    name: str
    data: tuple[dict[str, Any], ...]
    methods: tuple[dict[str, Any], ...]
    gammas: tuple[float | str, ...] = ("0.25*median", "median", "4*median")
    folds: int = 10
    reshuffles: int = 3
    seed: int = 0
    task: str = "auto"  # kind of all targets: "auto", "classification", "regression" or "survival"
    paper: dict[str, dict[str, str]] = field(default_factory=dict)  # data set -> method -> result of the paper

    @classmethod
    def load(cls, path: Path) -> "Spec":
        """Read a TOML file; raise ValueError for an unknown entry or method."""
        entries = _read_toml(path)
        if unknown := set(entries) - set(_IS_VALID):
            raise ValueError(f"{path}: unknown entry {min(unknown)!r}; known are {', '.join(_IS_VALID)}.")
        if missing := [name for name in ("name", "data", "methods") if name not in entries]:
            raise ValueError(f"{path} has no entry {missing[0]!r}; name, data and methods are needed.")
        with shorten_errors():
            for name, is_valid in _IS_VALID.items():
                if name in entries and not is_valid(entries[name]):
                    raise ValueError(
                        f"{path}: {name!r} is not as it must be: {str(entries[name])[:80]!r}; table1.toml of randsel "
                        "is an example."
                    )
            entries.update({name: tuple(entries[name]) for name in ("data", "methods", "gammas") if name in entries})
            return cls(**entries)

    def only(self, names: list[str]) -> "Spec":
        """Return the specification with some of its methods; with all if none are named."""
        known = [method["name"] for method in self.methods]
        for name in names:
            _check_method(name)
            if name not in known:
                raise ValueError(f"{self.name} does not run {name!r}, but {', '.join(known)}.")
        return replace(self, methods=tuple(m for m in self.methods if not names or m["name"] in names))

    def __post_init__(self) -> None:
        names = [method["name"] for method in self.methods]
        if len(set(names)) < len(names):
            raise ValueError(f"a method is named twice in {', '.join(names)}.")
        for name in names:
            _check_method(name)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > LARGEST_JSON:
            raise ValueError("it is too large")
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read as a specification in TOML: {error}.") from None


def _are_named_tables(entries: Any, *inner: str) -> bool:
    """Return whether an entry is a list of tables with a name and, optionally, tables under the `inner` names."""
    return isinstance(entries, list) and all(
        isinstance(entry, dict)
        and isinstance(entry.get("name"), str)
        and all(isinstance(entry.get(name, {}), dict) for name in inner)
        for entry in entries
    )


def _is_count(value: Any, least: int) -> bool:
    return type(value) is int and least <= value <= 10**6


#: Entry of a TOML file -> whether a value is valid.
_IS_VALID: dict[str, Callable[[Any], bool]] = {
    "name": lambda name: isinstance(name, str),
    "data": lambda entries: _are_named_tables(entries, "params", "reduced"),
    "methods": lambda entries: _are_named_tables(entries, "params"),
    "gammas": lambda gammas: isinstance(gammas, list) and all(type(gamma) in (int, float, str) for gamma in gammas),
    "folds": lambda number: _is_count(number, 2),
    "reshuffles": lambda number: _is_count(number, 1),
    "seed": lambda number: _is_count(number, 0),
    "task": lambda task: task in ("auto", *KINDS),
    "paper": lambda rows: isinstance(rows, dict) and all(isinstance(row, dict) for row in rows.values()),
}


def _check_method(name: str) -> None:
    if name not in METHODS:
        near = difflib.get_close_matches(name, METHODS, n=1, cutoff=0.0)
        raise ValueError(f"unknown method {name!r}, did you mean {near[0]!r}? Known are {', '.join(METHODS)}.")


# ---------------------------------------------------------------- data sets


def load_table(entry: dict[str, Any], folder: Path) -> Table:
    """Make or read a data set: `make` names a function of `datasets`, `file` names a file in the folder.

    `ignore_groups` lets folds split the groups of the file.
    """
    not_options = ("name", "log2", "ignore_groups", "params", "reduced", "note")
    options = {name: value for name, value in entry.items() if name not in not_options}
    maker, file = options.pop("make", None), options.pop("file", None)
    try:
        if maker is not None:
            known = [name for name in dir(datasets) if name.startswith("make_")]
            if maker not in known:
                raise ValueError(f"{entry['name']}: no data set is made by {maker!r}; known are {', '.join(known)}.")
            X, y, relevant = getattr(datasets, maker)(**options)
            table = Table(X, y, tuple(map(str, range(X.shape[1]))), relevant=relevant)
        else:
            table = read(_file_in_folder(folder, file, entry["name"]), **options)
    except TypeError as error:
        raise ValueError(f"{entry['name']}: the data set cannot be made or read so: {error}.") from error
    if entry.get("ignore_groups"):
        table = replace(table, groups=None)
    # The logarithm of a value depends on no other value, so nothing leaks between folds.
    return replace(table, X=np.log2(np.maximum(table.X, LOWEST))) if entry.get("log2") else table


def _file_in_folder(folder: Path, file: Any, name: str) -> Path:
    """Return a path inside the folder; raise ValueError for any other, which a specification must not read."""
    if not isinstance(file, str) or "\0" in file or not (folder / file).resolve().is_relative_to(folder.resolve()):
        raise ValueError(
            f"{name}: {file!r} is no file within the folder of the data; name one (file), or a function (make)."
        )
    return folder / file


# ---------------------------------------------------------------- one method on one data set


@dataclass(frozen=True)
class Plan:
    """Settings of one method on one data set, and a note on what was reduced compared with the specification."""

    params: dict[str, Any]
    gammas: tuple[float | str, ...]
    reshuffles: int
    reduced: str


def plan(spec: Spec, entry: dict[str, Any], method: dict[str, Any]) -> Plan:
    """Combine the settings of all methods, of this method and of this data set; then apply reductions.

    `params` of a data set is a table by method. `reduced` holds smaller values of `reshuffles`, `gammas` or a parameter
    for this data set: for every method, or, in a table with a method's name, for that method.
    """
    name = method["name"]
    defaults = {"n_features_to_select": 1, **METHODS[name][1]}
    full = {**defaults, **method.get("params", {}), **entry.get("params", {}).get(name, {})}
    if "target" in full:
        raise ValueError(f"{entry['name']}: set the kind of target by `task`, not by a parameter of {name}.")
    full.update(reshuffles=spec.reshuffles, gammas=tuple(spec.gammas))
    reductions = entry.get("reduced", {})
    reduced = {key: value for key, value in reductions.items() if key not in METHODS} | reductions.get(name, {})
    reduced = {key: tuple(value) if key == "gammas" else value for key, value in reduced.items()}
    if unknown := set(reduced) - set(full):
        known = ", ".join(full)
        raise ValueError(f"{entry['name']}: nothing called {min(unknown)!r} can be reduced; there are {known}.")

    def amount(value: Any) -> Any:
        return len(value) if isinstance(value, tuple) else value

    changes = ((key.removeprefix("n_"), amount(value), amount(full[key])) for key, value in reduced.items())
    note = "; ".join(f"{name} {few} instead of {many}" for name, few, many in changes)
    final = {**full, **reduced}
    return Plan(params=final, gammas=final.pop("gammas"), reshuffles=final.pop("reshuffles"), reduced=note)
