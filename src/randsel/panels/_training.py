"""Fits the panel of an analysis: a model on the selected features."""

import numpy as np

from randsel._utils.typing import Array
from randsel.analysis import Analysis, is_constant_within
from randsel.panels._content import PanelFeature, StandInFeature
from randsel.panels._file import MAX_FEATURES
from randsel.panels._model import Calibration, Model, fit_calibration, fit_model
from randsel.panels._panel import Panel
from randsel.panels._preparation import Preparation, score_columns, take_points
from randsel.tables import Table
from randsel.targets import SURVIVAL, OutcomeKind

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
    preparation, model, Z = _fit(table, kind, columns)
    calibration = classes = None
    if kind.has_classes:
        classes = np.unique(table.y)
        calibration = _calibrate(analysis, columns)
    about = _describe_origin(analysis)
    if kind is SURVIVAL:
        about["median_risk"] = float(np.median(model.outputs(Z)))
    features = tuple(_describe_feature(analysis, column) for column in columns.tolist())
    return Panel(features, preparation, model, kind.name, classes, calibration, about)


def _fit(table: Table, kind: OutcomeKind, columns: Array) -> tuple[Preparation, Model, Array]:
    preparation, Z = Preparation.fit(table.X[:, columns].astype(np.float64), table.covariates, _batch_to_remove(table))
    return preparation, fit_model(Z, table.y, kind, table.groups), Z


def _batch_to_remove(table: Table) -> Array | None:
    """Return the batches; None if the target is constant within each, because batch means would contain its effect."""
    return None if table.batch is None or is_constant_within(table.y, table.batch) else table.batch


def _calibrate(analysis: Analysis, columns: Array) -> Calibration:
    """Fit the calibration to outputs for held-out samples.

    If the analysis was cross-validated, each fold uses the features that were selected without its held-out samples.
    """
    table, kind = analysis.table, analysis.outcome
    classes, codes = np.unique(table.y, return_inverse=True)
    folds = () if analysis.accuracy is None else analysis.accuracy.selections
    nested = bool(folds)
    if not folds:
        n_folds = min(int(kind.units_per_stratum(table.y, table.groups).min()), MAX_FOLDS)
        splits = kind.splits(table.y, table.groups, n_folds, 0) if n_folds > 1 else []
        folds = tuple((train, test, columns) for train, test in splits)
    frequencies = np.bincount(codes) / len(codes)
    outputs, rows = [], []
    for train, test, selected in folds:
        training = table.rows(train)
        if len(np.unique(training.y)) < len(classes):
            continue
        predicted = np.tile(frequencies, (len(test), 1))  # prediction without features
        if len(selected):
            preparation, model, _ = _fit(training, kind, selected)
            predicted = model.outputs(_scores(preparation, table.rows(test), selected))
        outputs.append(predicted)
        rows.append(test)
    if not rows:
        return Calibration(1.0, np.log(frequencies) - np.log(frequencies).mean(), nested=False)
    return fit_calibration(np.concatenate(outputs), codes[np.concatenate(rows)], nested)


def _scores(preparation: Preparation, table: Table, columns: Array) -> Array:
    """Return the scores of held-out samples less the effects of covariates; batch means are not removed."""
    return preparation.adjust(score_columns(list(table.X[:, columns].T), preparation.points), table.covariates)


def _describe_feature(analysis: Analysis, column: int) -> PanelFeature:
    table = analysis.table
    name = table.names[column]
    stand_ins = tuple(
        StandInFeature(table.names[other], take_points(table.X[:, other].astype(np.float64)), float(correlation))
        for other, correlation, _ in list(analysis.stand_ins.get(column, ()))[:MAX_STAND_INS]
    )
    source = name.removesuffix(" missing")
    is_indicator = analysis.settings.get("parameters", {}).get("missing") == "indicator" and source != name
    return PanelFeature(name, stand_ins, source if is_indicator and source in table.names else None)


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
        "batch": _batch_to_remove(analysis.table) is not None,
        "categorical": [f.name for f in analysis.features if f.selected and f.column in analysis.table.nominal],
    }
