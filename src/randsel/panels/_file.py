"""The file of a panel: JSON with a schema version and a checksum. Nothing is unpickled, and every entry is checked."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from randsel._utils.choices import DETECTION_RULES, DUPLICATE_RULES
from randsel._utils.files import describe_link, read_json, write_atomically
from randsel._utils.text import make_visible
from randsel._utils.typing import Array
from randsel.panels._content import FILE, PanelContent, PanelFeature, StandInFeature
from randsel.prediction import KERNELS, MAX_POINTS, MAX_SAMPLES, Calibration, Covariate, Model, Preparation
from randsel.targets import KINDS

FORMAT, SCHEMA = "randsel panel", 2
MAX_FEATURES = 1000  # of a panel
MAX_CLASSES = 1000
MAX_LEVELS = 10_000  # of all covariates; a number counts as one level
MAX_STAND_INS = 20  # of a feature


# ---------------------------------------------------------------- write


def write_panel(panel: PanelContent, path: Path) -> None:
    """Write a panel; the same panel gives the same bytes.

    Examples
    --------
    >>> from pathlib import Path
    >>> from randsel.panels import write_panel
    >>> write_panel(panel, Path("panel.json"))  # doctest: +SKIP
    """
    content = _to_json(panel)
    document = {"format": FORMAT, "schema": SCHEMA, "checksum": checksum(content), "panel": content}
    write_atomically(path, json.dumps(document, allow_nan=False, indent=1) + "\n")


def checksum(content: Any) -> str:
    """Return the SHA-256 hash of the panel as JSON with sorted keys, without spaces, and with ASCII characters only."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _to_json(panel: PanelContent) -> dict[str, Any]:
    preparation, model, calibration = panel.preparation, panel.model, panel.calibration
    content: dict[str, Any] = {
        "kind": panel.kind,
        "about": dict(panel.about),
        "features": [
            {
                "name": feature.name,
                "indicator_of": feature.indicator_of,
                "points": points.tolist(),
                "below_detection": feature.below_detection,
                "levels": feature.levels,
                "stand_ins": [{**vars(s), "points": s.points.tolist()} for s in feature.stand_ins],
            }
            for feature, points in zip(panel.features, preparation.points, strict=True)
        ],
        "covariates": [vars(covariate) for covariate in preparation.covariates],
        "effects": None if preparation.effects is None else preparation.effects.tolist(),
        "model": {
            "kernel": model.kernel,
            "coefficients": model.coefficients.tolist(),
            "intercept": model.intercept.tolist(),
            "gamma": model.gamma,
            "samples": None if model.samples is None else model.samples.tolist(),
        },
        "classes": None if panel.classes is None else panel.classes.tolist(),
        "calibration": calibration
        and {
            "slope": calibration.slope,
            "offsets": calibration.offsets.tolist(),
            "thresholds": calibration.thresholds.tolist(),
            "nested": calibration.nested,
        },
    }
    return json.loads(json.dumps(content))  # type: ignore[no-any-return]  # what reading the file returns


# ---------------------------------------------------------------- read


def read_content(path: Path) -> PanelContent:
    """Read a panel from a folder or a file; raise ValueError if it is absent, damaged, or of a newer version."""
    folder = path if path.is_dir() else path.parent
    path = path / FILE if path.is_dir() else path
    if path.is_symlink():
        raise ValueError(describe_link(path))
    if not folder.is_dir() or (not path.exists() and path.name != FILE):
        raise ValueError(f"{path} does not exist; give a result folder of randsel select, or its {FILE}.")
    if not path.is_file():
        nothing = " because nothing was selected there" if (folder / "selected.txt").is_file() else ""
        raise ValueError(
            f"{folder} has no {FILE}{nothing}: give a result folder of randsel select with selected features, or a "
            "panel."
        )
    document = read_json(path)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"{path} is not a panel, or it is damaged; run randsel select again.")
    schema = document.get("schema")
    if schema != SCHEMA or isinstance(schema, bool):
        shown, is_older = make_visible(str(schema)[:20]), schema == 1 and not isinstance(schema, bool)
        remedy = "run randsel select again" if is_older else "update randsel"
        raise ValueError(f"{path} has the schema {shown}, but this version of randsel reads {SCHEMA}; {remedy}.")
    try:
        content = document["panel"]
        if checksum(content) != document.get("checksum"):
            raise ValueError("its checksum is wrong")
        return _from_json(content)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError, MemoryError) as error:
        reason = make_visible(str(error)[:200])
        raise ValueError(
            f"{path} is damaged ({reason}); run randsel select again, or get an intact copy of the file."
        ) from None


def _from_json(content: Any) -> PanelContent:
    kind = _check_choice(content["kind"], tuple(KINDS), "kind")
    entries = _check_list(content["features"], "features", 1, MAX_FEATURES)
    features = tuple(_read_feature(entry) for entry in entries)
    if len({feature.name for feature in features}) < len(features):
        raise ValueError("two features have the same name")
    points = tuple(_read_points(entry["points"]) for entry in entries)
    covariates = tuple(
        _read_covariate(entry) for entry in _check_list(content["covariates"], "covariates", 0, MAX_LEVELS)
    )
    n_columns = sum(max(len(covariate.levels), 1) for covariate in covariates)
    if n_columns > MAX_LEVELS or (content["effects"] is None) != (not covariates):
        raise ValueError("'effects' do not fit the covariates")
    effects = _to_array(content["effects"], (n_columns, len(features)), "effects") if covariates else None
    classes, calibration = _read_classes(content, kind)
    model = _read_model(content["model"], kind, len(features), 1 if classes is None else len(classes))
    about = content["about"]
    if not isinstance(about, dict) or len(json.dumps(about)) > 1 << 20:
        raise ValueError("'about' is not an object, or it is too large")
    preparation = Preparation(points, covariates, effects)
    return PanelContent(features, preparation, model, kind, classes, calibration, _check_about(about))


def _read_feature(entry: Any) -> PanelFeature:
    stand_ins = tuple(
        StandInFeature(
            _check_text(other["name"], "name"),
            _read_points(other["points"]),
            _check_number(other["correlation"], "correlation", -1.0, 1.0),
            _check_number(other["below_detection"], "below_detection"),
        )
        for other in _check_list(entry["stand_ins"], "stand_ins", 0, MAX_STAND_INS)
    )
    source, levels = entry["indicator_of"], entry["levels"]
    return PanelFeature(
        _check_text(entry["name"], "name"),
        _check_number(entry["below_detection"], "below_detection"),
        None if levels is None else _read_levels(levels),
        stand_ins,
        source and _check_text(source, "indicator_of"),
    )


def _read_levels(values: Any) -> tuple[str, ...]:
    levels = tuple(_check_text(level, "levels") for level in _check_list(values, "levels", 0, MAX_LEVELS))
    if len(set(levels)) < len(levels):
        raise ValueError("two levels are the same")
    return levels


def _read_points(values: Any) -> Array:
    points = _to_array(values, (len(_check_list(values, "points", 1, MAX_POINTS)),), "points")
    if (np.diff(points) < 0.0).any():
        raise ValueError("'points' are not in ascending order")
    return points


def _read_covariate(entry: Any) -> Covariate:
    spread = _check_number(entry["spread"], "spread", np.finfo(np.float64).tiny)
    value = entry["below_detection"]
    return Covariate(
        _check_text(entry["name"], "name"),
        _check_number(entry["mean"], "mean"),
        spread,
        _read_levels(entry["levels"]),
        None if value is None else _check_number(value, "below_detection"),
    )


def _read_classes(content: Any, kind: str) -> tuple[Array | None, Calibration | None]:
    if not KINDS[kind].has_classes:
        if content["classes"] is not None or content["calibration"] is not None:
            raise ValueError("'classes' do not fit the kind")
        return None, None
    labels = _check_list(content["classes"], "classes", 2, MAX_CLASSES)
    is_text = all(isinstance(label, str) for label in labels)
    classes = np.array(labels, dtype=str) if is_text else _to_array(labels, (len(labels),), "classes")
    if not is_text and all(isinstance(label, int) for label in labels):
        classes = classes.astype(np.int64)
    if len(np.unique(classes)) < len(labels):
        raise ValueError("two classes are the same")
    entry = content["calibration"]
    offsets = _to_array(entry["offsets"], (len(labels),), "offsets")
    if not isinstance(entry["nested"], bool):
        raise ValueError("'nested' is not true or false")
    calibration = Calibration(_check_number(entry["slope"], "slope", 0.0), offsets, entry["nested"])
    thresholds = _to_array(entry["thresholds"], (len(labels),), "thresholds")
    if not np.allclose(thresholds, calibration.thresholds, rtol=0.0, atol=1e-9):
        raise ValueError("'thresholds' do not fit the offsets")
    return classes, calibration


def _read_model(entry: Any, kind: str, n_features: int, n_outputs: int) -> Model:
    kernel = _check_choice(entry["kernel"], KERNELS, "kernel")
    if (kernel == "cox") != (kind == "survival"):
        raise ValueError("'kernel' does not fit the kind")
    samples, n_rows = None, n_features
    if kernel == "gaussian":
        n_rows = len(_check_list(entry["samples"], "samples", 1, MAX_SAMPLES))
        samples = _to_array(entry["samples"], (n_rows, n_features), "samples")
    coefficients = _to_array(entry["coefficients"], (n_rows, n_outputs), "coefficients")
    intercept = _to_array(entry["intercept"], (n_outputs,), "intercept")
    return Model(kernel, coefficients, intercept, _check_number(entry["gamma"], "gamma", 0.0), samples)


#: Entries of `about` that older files lack.
_DEFAULTS: dict[str, Any] = {
    "groups": None,
    "duplicates": DUPLICATE_RULES[0],
    "na": [],
    "below_detection": None,
    "findings": True,
    "guesses": False,
    "id_column": None,
}
#: Entries of `about` that code depends on, with the check of each.
_ABOUT_CHECKS: dict[str, Callable[[Any], bool]] = {
    "log2": lambda value: isinstance(value, bool),
    "missing": lambda value: value in ("neutral", "median"),
    "batch": lambda value: isinstance(value, bool),
    "groups": lambda value: value is None or isinstance(value, str),
    "id_column": lambda value: value is None or isinstance(value, str),
    "duplicates": lambda value: value in DUPLICATE_RULES,
    "findings": lambda value: isinstance(value, bool),
    "guesses": lambda value: isinstance(value, bool),
    "na": lambda value: isinstance(value, list) and all(isinstance(cell, str) for cell in value),
    "below_detection": lambda value: value is None or value in DETECTION_RULES,
    "outcome": lambda value: isinstance(value, dict) and all(isinstance(name, str) for name in value.values()),
    "median_risk": lambda value: isinstance(value, int | float) and bool(np.isfinite(value)),
}


def _check_about(entries: dict[str, Any]) -> dict[str, Any]:
    with_defaults = {"median_risk": 0.0, **_DEFAULTS, **entries}
    for name, is_valid in _ABOUT_CHECKS.items():
        if not is_valid(with_defaults[name]):
            raise ValueError(f"{name!r} is not valid")
    return entries | {**_DEFAULTS, **entries}  # in the order of the file


def _check_choice(value: Any, choices: tuple[str, ...], name: str) -> str:
    if value not in choices:
        raise ValueError(f"{name!r} is not known")
    return str(value)


def _check_text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name!r} is not text")
    return value


def _check_list(value: Any, name: str, least: int, most: int) -> list[Any]:
    if not isinstance(value, list) or not least <= len(value) <= most:
        raise ValueError(f"{name!r} is not a list of {least} to {most} entries")
    return value


def _check_number(value: Any, name: str, least: float = -np.inf, most: float = np.inf) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ValueError(f"{name!r} is not a number in its range")
    if not np.isfinite(float(value)):
        raise ValueError(f"{name!r} is not finite")
    return float(value)


def _to_array(value: Any, shape: tuple[int, ...], name: str) -> Array:
    """Return nested lists of numbers as an array of a known shape; nothing is converted before lengths are checked."""
    rows = _check_list(value, name, shape[0], shape[0])
    if len(shape) == 2:
        return np.array([_to_array(row, shape[1:], name) for row in rows]).reshape(shape)
    return np.array([_check_number(entry, name) for entry in rows], dtype=np.float64)
