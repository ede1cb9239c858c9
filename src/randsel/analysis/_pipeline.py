"""One table analysed: culling, tests, half-samples and nested cross-validation, each kept when it is finished."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from randsel._numerics.arrays import complement
from randsel._utils.result_folder import Parts, check_arrays, check_places
from randsel._utils.typing import Array
from randsel.analysis._decisions import (
    Findings,
    Progress,
    Settings,
    chosen,
    culled,
    filled,
    findings,
    remarked,
    units,
)
from randsel.analysis._model import Analysis, Feature, Pair, Stability, cautions
from randsel.analysis._resampling import accuracy_of, stability_of
from randsel.culling._path import CullingPath, Round, path_sizes, restore_path
from randsel.interactions._forward_selection import LEVEL
from randsel.tables._read import Table
from randsel.targets._kinds import OutcomeKind, find_kind

#: What is kept of a pair.
PAIR_FIELDS = ("i", "j", "statistic", "p", "p_corrected", "step")
#: Arrays that are kept of tests.
TESTS_SHAPES = {
    "p": ("f", "features"),
    "q": ("f", "features"),
    "partner": ("iu", "features"),
    "taken": ("iu", "taken"),
    **{f"pairs_{name}?": ("iu" if name in ("i", "j", "step") else "f", "pairs") for name in PAIR_FIELDS},
    "remarks": ("U", "remarks"),
}


def analyse(
    table: Table,
    settings: Settings,
    *,
    about: Mapping[str, Any] | None = None,
    parts: Parts | None = None,
    progress: Progress | None = None,
    n_jobs: int | None = None,
) -> Analysis:
    """Select features from a table, and find out how far to trust the selection.

    Parameters
    ----------
    table : Table
        The data; missing values are allowed if its rule for them is "median".
    settings : Settings
        What to do.
    about : dict, default=None
        `settings` of the `Analysis`: what it takes to repeat it.
    parts : Parts, default=None
        Finished parts of an earlier run, and where to keep those of this one.
    progress : callable, default=None
        Called with what is being done, how much of it is done, and how much there is.
    n_jobs : int, default=None
        Halves and folds at a time. The answer does not depend on it.

    Returns
    -------
    Analysis
        All of it.
    """
    parts, show = parts or Parts(), progress or (lambda *_: None)
    kind = find_kind(table.y, settings.task)
    notes, remarks = list(table.notes), list[str]()
    if np.isnan(table.X).any():
        notes.append("Ranking and tests take the medians of all samples; half-samples and folds those of their own.")
    full = filled(table)
    unit = units(full)
    if len(unit.y) < len(table.y):
        notes.append(
            f"The target is the same within every group, so the {len(table.y)} samples are averaged to {len(unit.y)} "
            "groups for ranking, tests and half-samples; the accuracy is that of samples, their groups never split."
        )
    path = _kept_path(unit, kind, settings, parts, show)
    with remarked(remarks):
        tests = _kept_tests(unit, kind, settings, parts, show, n_jobs)
    notes += [*_about_pairs(unit, tests), *_about_strata(unit)]
    columns = chosen(path, tests, settings, table.X.shape[1])
    # where nothing is selected, as many as culling would: how far they change shows that they are noise
    wanted = len(columns) or len(path.rounds[path.best].features)
    stability = stability_of(table, kind, settings, wanted, parts, show, n_jobs, notes)
    accuracy = accuracy_of(table, kind, settings, parts, show, n_jobs, notes)
    found = cautions(full, kind, samples=None if table.ids is None else table.ids.tolist())
    features, pairs = _features(table, path, tests, columns, stability), _pairs(table, tests)
    return Analysis(
        table=replace(full, notes=()),
        path=path,
        kind=kind.name,
        features=features,
        pairs=pairs,
        accuracy=accuracy,
        stability=stability,
        nothing_stands_out=not path.stands_out,
        warnings=(
            *found,
            *remarks,
            *_between_strata(unit, path, tests),
            *_left_out(table, tests, columns),
            *_formulas(table.names),
        ),
        settings=dict(about or {}),
        notes=(*notes, *(f"{name} was damaged and was computed again." for name in parts.damaged)),
    )


def _kept_path(table: Table, kind: OutcomeKind, settings: Settings, parts: Parts, show: Progress) -> CullingPath:
    total = sum(path_sizes(len(table.names), 0.25, 2))

    def on_round(r: Round) -> None:
        left = sum(path_sizes(len(r.features), 0.25, 2)) - len(r.features)
        show("culling", total - left, total)

    def compute(so_far: Path | None) -> dict[str, Any]:
        return culled(table, kind, settings, on_round, so_far).to_arrays()

    return parts.made("path", compute, lambda kept: restore_path(kept, len(table.names)))


def _kept_tests(
    table: Table, kind: OutcomeKind, settings: Settings, parts: Parts, show: Progress, n_jobs: int | None
) -> Findings:
    said: list[str] = []

    def compute(so_far: Path | None) -> dict[str, Any]:
        with remarked(said):
            found = findings(table, kind, settings, show, n_jobs, so_far)
        arrays = {"p": found.p, "q": found.q, "partner": found.partner, "taken": found.taken}
        pairs = {} if found.pairs is None else {f"pairs_{name}": found.pairs[name] for name in PAIR_FIELDS}
        return {**arrays, **pairs, "remarks": np.array(said, dtype=str)}

    n = len(table.names)
    kept = parts.made("tests", compute, lambda kept: _checked(kept, n))
    for remark in kept["remarks"].tolist():
        warnings.warn(remark, UserWarning, stacklevel=2)
    pairs = None
    if "pairs_i" in kept:
        pairs = np.zeros(len(kept["pairs_i"]), dtype=[(name, kept[f"pairs_{name}"].dtype) for name in PAIR_FIELDS])
        for name in PAIR_FIELDS:
            pairs[name] = kept[f"pairs_{name}"]
    return Findings(kept["p"], kept["q"], kept["partner"], kept["taken"], pairs)


def _checked(kept: dict[str, Array], n: int) -> dict[str, Array]:
    """Return the arrays of the tests if they are those of so many features."""
    check_arrays(kept, TESTS_SHAPES)
    check_arrays({"p": kept["p"]}, {"p": ("f", n)})
    check_places(kept["partner"], n, least=-1)
    for name in ("taken", "pairs_i", "pairs_j"):
        check_places(kept.get(name, kept["taken"]), n)
    return kept


def _about_pairs(table: Table, tests: Findings) -> list[str]:
    if tests.pairs is not None:
        return []
    sentence = (
        f"Pairs of features were not tested: p and q are of the {len(table.names)} features alone. --pairs all tests "
        "them."
    )
    return [sentence]


def _about_strata(table: Table) -> list[str]:
    named = [name for name, values in (("groups", table.groups), ("batches", table.batch)) if values is not None]
    where = " and ".join(named)
    return [f"p, q and pairs compare within {where}; contributions and accuracy do not."] if named else []


def _features(
    table: Table, path: CullingPath, tests: Findings, columns: Array, stability: Stability | None
) -> tuple[Feature, ...]:
    """All features: selected ones first, each in the order of culling, those that do not vary last."""
    n = len(table.names)
    rest = path.order[~np.isin(path.order, columns)]
    order = np.concatenate([columns, rest, complement(path.order, n)]).astype(int)
    values = {name: path.last_values(name, n) for name in ("contributions", "main", "interaction")}
    frequencies = np.full(n, np.nan) if stability is None else stability.frequencies
    return tuple(
        Feature(
            name=table.names[j],
            column=j,
            rank=place,
            contribution=float(values["contributions"][j]),
            main=float(values["main"][j]),
            interaction=float(values["interaction"][j]),
            partner=table.names[tests.partner[j]] if tests.partner[j] >= 0 else None,
            p=float(tests.p[j]),
            q=float(tests.q[j]),
            stability=float(frequencies[j]),
            selected=place <= len(columns),
        )
        for place, j in enumerate(order.tolist(), 1)
    )


def _pairs(table: Table, tests: Findings) -> tuple[Pair, ...]:
    rows = [] if tests.pairs is None else tests.pairs.tolist()
    return tuple(
        Pair(table.names[i], table.names[j], i, j, statistic, p, corrected) for i, j, statistic, p, corrected, _ in rows
    )


def _between_strata(table: Table, path: CullingPath, tests: Findings) -> list[str]:
    """Warn if culling, which does not look at batches, finds what tests within them do not."""
    least = float(tests.q.min())
    if (table.batch is None and table.groups is None) or not path.stands_out or least <= LEVEL:
        return []
    sentence = (
        f"Culling stands out, but compared within batches or groups no feature does (smallest q {least:.2g}): what is "
        "ranked first may differ between batches only."
    )
    return [sentence]


def _left_out(table: Table, tests: Findings, columns: Array) -> list[str]:
    """Say so if a pair that stands out beside all others was not selected."""
    if tests.pairs is None:
        return []
    missed = [p for p in tests.pairs if p["step"] and p["p_corrected"] <= LEVEL and not {p["i"], p["j"]} & {*columns}]
    if not missed:
        return []
    names = " with ".join(table.names[missed[0][name]] for name in ("i", "j"))
    number = "A pair stands" if len(missed) == 1 else f"{len(missed)} pairs stand"
    sentence = (
        f"{number} out (corrected p at most {LEVEL:g}) of which neither feature is selected, the first being {names}: "
        "look at the pairs, raise --top, or select by tests alone (--fdr)."
    )
    return [sentence]


def _formulas(names: tuple[str, ...]) -> list[str]:
    """Warn of names that a spreadsheet would take for formulas; to change them would make them other names."""
    odd = [name for name in names if name.startswith(("=", "+", "-", "@"))]
    if not odd:
        return []
    sentence = (
        f"{len(odd)} names of features start with =, +, - or @ (the first is {odd[0]}), which a spreadsheet takes for "
        "formulas. The CSV files keep them as they are: import these columns as text."
    )
    return [sentence]
