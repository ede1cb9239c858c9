"""Selection from an AnnData object. Only its attributes are used, so that anndata need not be installed."""

from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import numpy as np

from randsel._utils.typing import Array
from randsel.analysis._model import Analysis, Settings
from randsel.analysis._mudata import JointModalities
from randsel.analysis._pipeline import analyse
from randsel.analysis._ranking import MISSING, RANK, SELECTED
from randsel.analysis._selection import Progress
from randsel.tables import Table, is_missing_survival, read_survival_columns


def select_adata(
    adata: Any,
    label: str | None = None,
    *,
    event: str | None = None,
    time: str | None = None,
    layer: str | None = None,
    groups: str | None = None,
    batch: str | None = None,
    covariates: Sequence[str] = (),
    n_jobs: int | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Analysis:
    """Select the variables of an AnnData object that matter to a column of its observations.

    Parameters
    ----------
    adata : AnnData or MuData
        Observations in rows; results are written to it, as scanpy's functions do. The variables of all modalities of a
        MuData object are ranked together, with names such as "rna:CD3E". An observation without a modality has missing
        values there. Results are written to `.var` of every modality.
    label : str, default=None
        Column of `adata.obs`: classes or numbers. Observations without a label are left out.
    event, time : str, default=None
        Instead of a label, columns of `adata.obs` with survival: whether the event happened (true and false, 1 and 0,
        dead and alive), and the time of the event or of censoring. Observations without both are left out.
    layer : str, default=None
        Layer to use; None: `adata.X`. A sparse matrix is made dense.
    groups, batch : str, default=None
        Columns of `adata.obs`: samples of a donor, which belong together; batches, within which tests compare.
    covariates : sequence of str, default=()
        Columns of `adata.obs`, numbers or categories, whose effects are removed.
    n_jobs : int, default=None
        Number of half-samples and folds to compute at a time.
    progress : callable, default=None
        Called with the name of a step, how much of it is done, and how much there is.
    **settings
        `top`, `fdr`, `task`, `pairs`, `halves`, `folds`, `seed`, `memory`, `device`: as in `randsel select`; `keep`, a
        list of variables.

    Returns
    -------
    Analysis
        All results, for `randsel.report`. `adata.var` gets the columns randsel_rank, randsel_selected,
        randsel_contribution, randsel_main, randsel_interaction, randsel_partner, randsel_p, randsel_q,
        randsel_step, randsel_stability, randsel_direction, randsel_effect, randsel_effect_low, randsel_effect_high,
        randsel_difference (two classes) and randsel_stand_ins; `adata.uns["randsel"]` the settings, the warnings and
        whether anything stands out.

    Examples
    --------
    >>> import randsel
    >>> analysis = randsel.select_adata(adata, "cell_type", batch="plate", top=50)  # doctest: +SKIP
    >>> adata.var.query("randsel_selected").sort_values("randsel_rank")  # doctest: +SKIP
    """
    analysis_settings = Settings(**settings)
    covariates = [covariates] if isinstance(covariates, str) else list(covariates)
    columns = {"label": label, "event": event, "time": time, "groups": groups, "batch": batch}
    adata = JointModalities.from_mudata(adata) if hasattr(adata, "mod") else adata
    table = _build_table(adata, layer, columns, covariates)
    about = {
        "version": version("randsel"),
        "seed": analysis_settings.seed,
        "data_hash": table.fingerprint(),
        "parameters": {**columns, "layer": layer, "covariates": covariates or (), **asdict(analysis_settings)},
    }
    analysis = analyse(table, analysis_settings, about=about, progress=progress, n_jobs=n_jobs)
    _write_results(adata, analysis)
    return analysis


def _build_table(adata: Any, layer: str | None, columns: dict[str, str | None], covariates: list[str]) -> Table:
    """Return the table of a layer, whose annotations are columns of the observations."""
    if layer is not None and layer not in adata.layers:
        raise ValueError(f"adata has no layer {layer!r}; there are {', '.join(map(repr, adata.layers)) or 'none'}.")
    notes: list[str] = []
    y, rows = _read_outcome(adata, columns["label"], columns["event"], columns["time"], notes)
    values = adata.X if layer is None else adata.layers[layer]
    X = values.toarray() if hasattr(values, "toarray") else np.asarray(values)
    X = X.astype(np.float32 if X.dtype == np.float32 else np.float64, copy=False)
    names = tuple(map(str, adata.var_names))
    if len(set(names)) < len(names):
        raise ValueError("two variables of adata have one name; call adata.var_names_make_unique() first.")
    if np.isinf(X).any():
        raise ValueError("adata has infinite values; replace them by numbers, or leave these variables out first.")
    groups, batch = (
        None if name is None else _read_complete_column(adata, name, rows)
        for name in (columns["groups"], columns["batch"])
    )
    return Table(
        X if rows.all() else X[rows],
        y,
        names,
        groups,
        batch,
        covariates={name: _read_complete_column(adata, name, rows) for name in covariates},
        ids=np.array(list(map(str, adata.obs_names)))[rows],
        notes=tuple(notes),
    )


def _read_outcome(
    adata: Any, label: str | None, event: str | None, time: str | None, notes: list[str]
) -> tuple[Array, Array]:
    """Return the outcome of the observations that have one, and a mask of these."""
    if (event is None) != (time is None) or (label is None) == (event is None):
        raise ValueError("name one outcome in adata.obs: either a label, or an event and a time.")
    if label is not None:
        y, missing = _read_column(adata, label)
        outcome = repr(label)
    else:
        names, cells = {"event": str(event), "time": str(time)}, {}
        for role, name in names.items():
            columns = (values.tolist() for values in _read_column(adata, name))
            cells[role] = ["" if empty else str(value) for value, empty in zip(*columns, strict=True)]
        ids = list(map(str, adata.obs_names))
        missing, outcome = is_missing_survival("adata.obs", names, cells, ids), f"{event!r} and {time!r}"
        y = read_survival_columns(
            dict.fromkeys(("event", "time"), "adata.obs"), names, cells, ids, np.flatnonzero(~missing), notes
        )
    if missing.any():
        notes.append(f"{int(missing.sum())} observations have no {outcome} and are left out.")
    return (y[~missing] if label is not None else y), ~missing


def _read_column(adata: Any, name: str) -> tuple[Array, Array]:
    """Return a column of the observations, and a mask of its missing entries."""
    if name not in adata.obs:
        known = ", ".join(map(repr, list(adata.obs)[:10]))
        raise ValueError(f"adata.obs has no column {name!r}; there are {known or 'none'}.")
    column = adata.obs[name]
    missing = np.asarray(column.isna(), dtype=bool)
    numeric = getattr(column.dtype, "kind", "O") in "fiu"
    return np.asarray(column) if numeric else np.array(list(map(str, column))), missing


def _read_complete_column(adata: Any, name: str, rows: Array) -> Array:
    values, missing = _read_column(adata, name)
    if missing[rows].any():
        raise ValueError(
            f"{int(missing[rows].sum())} entries of adata.obs[{name!r}] are missing; fill them in, or drop the rows."
        )
    return values[rows]


def _write_results(adata: Any, analysis: Analysis) -> None:
    """Write the columns of the ranking to `adata.var`, columns of numbers last, and the settings to `adata.uns`."""
    features = sorted(analysis.features, key=lambda feature: feature.column)
    columns = (RANK, SELECTED, *analysis.columns, *((MISSING,) if any(f.missing for f in features) else ()))
    for column in sorted(columns, key=lambda column: column.type is float):
        values = [getattr(feature, column.field) for feature in features]
        texts = np.array([value or "" for value in values], dtype=object) if column.is_text else None
        adata.var[f"randsel_{column.field}"] = np.asarray(values) if texts is None else texts
    stand_ins = [analysis.describe_stand_ins(feature.column) for feature in features]
    adata.var["randsel_stand_ins"] = np.array(stand_ins, dtype=object)
    adata.uns["randsel"] = {
        "version": analysis.settings["version"],
        # None and empty tuples cannot be written to h5ad
        "settings": {name: value for name, value in analysis.settings["parameters"].items() if value not in (None, ())},
        "data_hash": analysis.settings["data_hash"],
        "nothing_stands_out": bool(analysis.nothing_stands_out),
        "warnings": list(analysis.warnings),
        "notes": list(analysis.notes),
    }
