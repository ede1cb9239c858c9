"""Groups, batches and covariates of the samples."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from randsel._utils.text import format_label, pluralise
from randsel._utils.typing import Array
from randsel.tables._features import half_minimum
from randsel.tables._roles import check_percent_signs, check_target, is_missing, to_target
from randsel.tables._survival_columns import check_outcome_names
from randsel.tables.formats import Sheet, detection_limit, parse_number

_COVARIATE = "covariate "  # start of the role of a covariate, before its name
#: In a covariate, text among more distinct numbers than this is an error; fewer numbers may be codes of categories.
_MAX_CODES = 4


def list_roles(
    path: Path, target: str | None, event: str | None, time: str | None, groups: Any, batch: Any, covariates: Any
) -> dict[str, str | None]:
    """Return role -> name of the column that has it; raise ValueError if the outcome is named in two ways."""
    check_outcome_names(path, target, event, time)
    roles = {"target": target, "event": event, "time": time, "groups": groups, "batch": batch}
    return roles | covariate_roles(covariates)


def covariate_roles(names: Any) -> dict[str, str]:
    """Return role -> column of covariates."""
    return {f"{_COVARIATE}{name}": name for name in names}


def read_annotations(
    files: Mapping[str, Path],
    roles: dict[str, str],
    cells: dict[str, Any],
    rows: Array,
    rule: str | None,
    replacements: dict[str, float],
    detection_values: Mapping[str, float] | None,
    notes: list[str],
) -> dict[str, Array]:
    """Return groups, batches and covariates of some rows, by role; covariates as numbers where all are numbers.

    Cells of covariates below detection are replaced by the value of `detection_values`, or else as those of features
    are; the values are added to `replacements`. `files` has the file of every role, for errors.
    """
    known = {}
    for role, name in roles.items():
        if role in ("target", "event", "time"):
            continue
        path = files[role]
        known[role] = _take_complete(path, cells[role], rows, name)
        if role.startswith(_COVARIATE):
            known[role] = _read_covariate(path, cells[role], rows, name, rule, replacements, detection_values, notes)
    return known


def choose_batches(
    path: Path, y: Array, rows: Array, known: dict[str, Array], batches: Sequence[Any] | None
) -> tuple[Array, Array, dict[str, Array]]:
    """Return target, row indices and annotations of the samples of some batches; of all, if `batches` is None."""
    if batches is None:
        return y, rows, known
    keep = _is_in_batches(path, known, batches)
    return y[keep], rows[keep], {role: values[keep] for role, values in known.items()}


def to_fields(known: Mapping[str, Array]) -> dict[str, Any]:
    """Return the fields `covariates`, `groups` and `batch` of a table from arrays by role."""
    covariates = {role.removeprefix(_COVARIATE): v for role, v in known.items() if role.startswith(_COVARIATE)}
    return {"covariates": covariates, **{role: known[role] for role in ("groups", "batch") if role in known}}


def describe_constants(known: Mapping[str, Array], roles: Mapping[str, str]) -> list[str]:
    """Return notes about groups, batches and covariates that have one value in all samples, and so no effect."""
    constant = [role for role, values in known.items() if len(values) > 1 and (values == values[0]).all()]
    words = {"groups": "group", "batch": "batch"}
    return [
        f"Column {roles[role]!r} has one value in all samples ({format_label(known[role][0])}), so it has no effect as "
        f"a {words.get(role, 'covariate')}."
        for role in constant
    ]


def _take_complete(path: Path, cells: Any, rows: Array, name: str) -> Array:
    """Return the cells of some rows; raise ValueError if one is missing."""
    gaps = np.flatnonzero(is_missing(cells)[rows])
    if len(gaps):
        raise ValueError(
            f"{path}: {pluralise(len(gaps), 'one entry', f'{len(gaps)} entries')} of column {name!r} "
            f"{pluralise(len(gaps), 'is', 'are')} missing, the first of sample {rows[gaps[0]] + 1}; fill in all "
            "entries, or leave the samples out."
        )
    return np.array([cells[i] for i in rows.tolist()], dtype=str) if isinstance(cells, list) else cells[rows]


def _read_covariate(
    path: Path,
    cells: Any,
    rows: Array,
    name: str,
    rule: str | None,
    replacements: dict[str, float],
    detection_values: Mapping[str, float] | None,
    notes: list[str],
) -> Array:
    where = f"{path}: the covariate {name!r}"
    if not isinstance(cells, list) and cells.dtype.kind != "U":
        return to_target(cells, rows, where)
    cells = list(map(str, cells))  # arrays of text are read as the text of a file is
    texts = [cells[i].strip() for i in rows.tolist()]
    limits = {i: limit for i, text in enumerate(texts) if (limit := detection_limit(text)) is not None}
    others = [text for i, text in enumerate(texts) if i not in limits]
    numbers = {text: number for text in others if (number := parse_number(text)) is not None}
    known_values = detection_values or {}
    if name not in known_values and not _is_number(others, numbers):
        return to_target(cells, rows, where)
    words = next((text for text in others if text not in numbers), None)
    if words is not None:
        raise ValueError(f"{where} holds {words!r} among numbers; correct it, or write all of its cells as categories.")
    check_percent_signs(others, where)
    if not limits:
        return to_target(cells, rows, where)
    if rule is None or (rule == "missing" and name not in known_values):
        raise ValueError(
            f"{where} holds {texts[next(iter(limits))]!r} among numbers, and covariates must be known for all samples; "
            "choose --below-detection half-minimum, or write a number there, such as half of the limit."
        )
    values = np.array([np.nan if i in limits else numbers[text] for i, text in enumerate(texts)])
    replacements[name] = known_values.get(name, half_minimum([*values, *limits.values()]))
    values[list(limits)] = replacements[name]
    origin = "the value from training" if name in known_values else "half of its smallest value"
    n_samples = pluralise(len(limits), "1 sample", f"{len(limits)} samples")
    notes.append(
        f"The covariate {name!r} is below the limit of detection in {n_samples}; {replacements[name]:g} replaces it, "
        f"{origin} (--below-detection)."
    )
    return values


def _is_number(texts: list[str], numbers: Mapping[str, float]) -> bool:
    """Return whether most cells are numbers, and too many different ones to be codes of categories."""
    n_numbers = sum(text in numbers for text in texts)
    return 2 * n_numbers > len(texts) and (n_numbers == len(texts) or len(set(numbers.values())) > _MAX_CODES)


def _is_in_batches(path: Path, known: dict[str, Array], batches: Sequence[Any]) -> Array:
    """Return a mask of the samples of some batches."""
    if "batch" not in known:
        raise ValueError(f"{path} has no array 'batch', so its batches cannot be chosen; name a column (batch=).")
    return np.isin(known["batch"], list(batches))


def check_roles(
    samples: Sheet,
    y: Array,
    outcome: str,
    annotations: dict[str, Any],
    roles: dict[str, str],
    files: Mapping[str, Path],
) -> list[str]:
    """Check the target, and return notes about constant groups, batches and covariates."""
    check_target(samples, y, outcome, annotations.get("groups"), files.get("target", samples.path))
    return describe_constants(annotations, roles)
