"""Fits the panel of an analysis: a model on the selected features."""

from dataclasses import replace

import numpy as np

from randsel._utils.choices import DUPLICATE_RULES
from randsel._utils.typing import Array
from randsel.analysis import Analysis
from randsel.panels._content import PanelFeature, StandInFeature
from randsel.panels._file import MAX_FEATURES
from randsel.panels._panel import Panel
from randsel.prediction import Calibration, ColumnModel, Preparation, batch_to_remove, fit_calibration, take_points
from randsel.tables import Table, half_minimum
from randsel.targets import SURVIVAL

MAX_STAND_INS = 3  # number of stand-ins of a feature that are stored
MAX_FOLDS = 5  # of the calibration, if the selection was not cross-validated


def fit_panel(analysis: Analysis) -> Panel:
    """Fit a model to the selected features of an analysis; raise ValueError if there are none or too many.

    Examples
    --------
    >>> import numpy as np
    >>> from randsel.analysis import Settings, analyse
    >>> from randsel.panels import fit_panel
    >>> from randsel.tables import Table
    >>> X = np.random.default_rng(0).standard_normal((60, 3))
    >>> table = Table(X, np.where(X[:, 1] > 0, "case", "control"), ("a", "b", "c"))
    >>> panel = fit_panel(analyse(table, Settings(halves=0, folds=0, top=1)))
    >>> panel.features_, panel.predict({"b": [1.5, -1.5]}).tolist()
    (('b',), ['case', 'control'])
    """
    columns = np.array([feature.column for feature in analysis.features if feature.selected], dtype=int)
    if not 0 < len(columns) <= MAX_FEATURES:
        raise ValueError(f"a panel has 1 to {MAX_FEATURES} features, but {len(columns)} are selected.")
    table, kind = analysis.table, analysis.outcome
    rows = np.arange(len(table.y))
    fitted = ColumnModel.fit(table, kind, columns, rows)
    calibration = classes = None
    if kind.has_classes:
        classes = np.unique(table.y)
        calibration = _calibrate(analysis, columns)
    about = _describe_origin(analysis)
    if kind is SURVIVAL:
        about["median_risk"] = float(np.median(fitted.outputs(table, rows)))
    features = tuple(_describe_feature(analysis, column) for column in columns.tolist())
    preparation = _describe_covariates(fitted.preparation, table)
    return Panel(features, preparation, fitted.model, kind.name, classes, calibration, about)


def _calibrate(analysis: Analysis, columns: Array) -> Calibration:
    """Fit the calibration to outputs for held-out samples.

    They come from the nested cross-validation of the analysis, in which features were selected without the held-out
    samples. If the analysis has none, only the model is cross-validated.
    """
    table, kind = analysis.table, analysis.outcome
    classes, codes = np.unique(table.y, return_inverse=True)
    held_out = None if analysis.accuracy is None else analysis.accuracy.held_out
    outputs = None if held_out is None else held_out.outputs
    is_nested = outputs is not None
    if outputs is None:
        outputs = np.full((len(codes), len(classes)), np.nan)
        n_folds = min(int(kind.units_per_stratum(table.y, table.groups).min()), MAX_FOLDS)
        for train, test in kind.splits(table.y, table.groups, n_folds, 0) if n_folds > 1 else ():
            if len(np.unique(codes[train])) == len(classes):
                outputs[test] = ColumnModel.fit(table, kind, columns, train).outputs(table, test)
    known = np.isfinite(outputs).all(axis=1)
    if not known.any():
        log_frequencies = np.log(np.bincount(codes) / len(codes))
        return Calibration(1.0, log_frequencies - log_frequencies.mean(), nested=False)
    return fit_calibration(outputs[known], codes[known], is_nested)


# ---------------------------------------------------------------- description of columns


def _describe_feature(analysis: Analysis, column: int) -> PanelFeature:
    table = analysis.table
    name = table.names[column]
    stand_ins = tuple(
        StandInFeature(table.names[other], _points(table, other), float(correlation), _replace_undetected(table, other))
        for other, correlation, _ in list(analysis.stand_ins.get(column, ()))[:MAX_STAND_INS]
    )
    source = name.removesuffix(" missing")
    is_indicator = analysis.settings.get("parameters", {}).get("missing") == "indicator" and source != name
    indicator_of = source if is_indicator and source in table.names else None
    measured = column if indicator_of is None else table.names.index(indicator_of)
    levels = table.levels.get(name, ()) if column in table.nominal else None
    return PanelFeature(name, _replace_undetected(table, measured), levels, stand_ins, indicator_of)


def _points(table: Table, column: int) -> Array:
    return take_points(table.X[:, [column]].astype(np.float64))[0]


def _replace_undetected(table: Table, column: int) -> float:
    """Return the value that replaced cells below detection in training, or half of the smallest training value."""
    value = table.below_detection.get(table.names[column], np.nan)
    if np.isfinite(value):
        return float(value)
    smallest = _points(table, column)[0]
    return half_minimum([np.exp2(smallest) if table.log2 and column not in table.nominal else smallest])


def _describe_covariates(preparation: Preparation, table: Table) -> Preparation:
    """Return the preparation with the values that replace covariates below detection, None if these are text."""
    covariates = tuple(
        c if c.levels else replace(c, below_detection=_replace_undetected_covariate(table, c.name))
        for c in preparation.covariates
    )
    return replace(preparation, covariates=covariates)


def _replace_undetected_covariate(table: Table, name: str) -> float:
    """Return the value that replaced cells below detection in training, or half of the smallest training value."""
    return float(table.below_detection.get(name, half_minimum(table.covariates[name])))


def _describe_origin(analysis: Analysis) -> dict[str, object]:
    parameters = analysis.settings.get("parameters", {})
    outcome = {role: parameters[role] for role in ("target", "event", "time") if parameters.get(role)}
    known = {name: analysis.settings[name] for name in ("version", "data", "data_hash") if name in analysis.settings}
    return {
        **known,
        "samples": len(analysis.table.y),
        "outcome": outcome,
        "log2": bool(analysis.table.log2),
        "missing": analysis.table.missing,
        "batch": batch_to_remove(analysis.table) is not None,
        "groups": parameters.get("groups"),
        "duplicates": parameters.get("duplicates", DUPLICATE_RULES[0]),
        "na": list(parameters.get("na", ())),
        "below_detection": parameters.get("below_detection"),
        "id_column": analysis.table.id_column,
        "findings": analysis.has_findings or not analysis.nothing_stands_out,
        "guesses": analysis.accuracy is not None and analysis.accuracy.is_close_to_chance,
    }
