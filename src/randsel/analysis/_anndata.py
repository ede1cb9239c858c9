"""Selection from an AnnData object. Only its attributes are used, so that anndata need not be installed."""

from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import numpy as np

from randsel._utils.typing import Array
from randsel.analysis._model import Analysis, Settings
from randsel.analysis._pipeline import analyse
from randsel.analysis._ranking import MISSING, RANK, SELECTED
from randsel.analysis._selection import Progress
from randsel.tables import Table


def select_adata(
    adata: Any,
    label: str,
    *,
    layer: str | None = None,
    groups: str | None = None,
    batch: str | None = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Analysis:
    """Select the variables of an AnnData object that matter to a column of its observations.

    Parameters
    ----------
    adata : AnnData
        Observations in rows; results are written to it, as scanpy's functions do.
    label : str
        Column of `adata.obs`: classes or numbers. Observations without a label are left out.
    layer : str, default=None
        Layer to use; None: `adata.X`. A sparse matrix is made dense.
    groups, batch : str, default=None
        Columns of `adata.obs`: samples of a donor, which belong together; batches, within which tests compare.
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
        randsel_step, randsel_stability and randsel_stand_ins; `adata.uns["randsel"]` the settings, the warnings and
        whether anything stands out.

    Examples
    --------
    >>> import randsel
    >>> analysis = randsel.select_adata(adata, "cell_type", batch="plate", top=50)  # doctest: +SKIP
    >>> adata.var.query("randsel_selected").sort_values("randsel_rank")  # doctest: +SKIP
    """
    how = Settings(**settings)
    table = _build_table(adata, label, layer, groups, batch)
    about = {
        "version": version("randsel"),
        "seed": how.seed,
        "data_hash": table.fingerprint(),
        "parameters": {"label": label, "layer": layer, "groups": groups, "batch": batch, **asdict(how)},
    }
    analysis = analyse(table, how, about=about, progress=progress, n_jobs=n_jobs)
    _write_results(adata, analysis)
    return analysis


def _build_table(adata: Any, label: str, layer: str | None, groups: str | None, batch: str | None) -> Table:
    if layer is not None and layer not in adata.layers:
        raise ValueError(f"adata has no layer {layer!r}; there are {', '.join(map(repr, adata.layers)) or 'none'}.")
    y, missing = _read_column(adata, label)
    values = adata.X if layer is None else adata.layers[layer]
    X = values.toarray() if hasattr(values, "toarray") else np.asarray(values)
    X = X.astype(np.float32 if X.dtype == np.float32 else np.float64, copy=False)
    names = tuple(map(str, adata.var_names))
    if len(set(names)) < len(names):
        raise ValueError("two variables of adata have one name; call adata.var_names_make_unique() first.")
    if np.isinf(X).any():
        raise ValueError("adata has infinite values; replace them by numbers, or leave these variables out first.")
    return Table(
        X[~missing] if missing.any() else X,
        y[~missing],
        names,
        _read_complete_column(adata, groups, ~missing),
        _read_complete_column(adata, batch, ~missing),
        ids=np.array(list(map(str, adata.obs_names)))[~missing],
        notes=(f"{int(missing.sum())} observations have no {label!r} and are left out.",) if missing.any() else (),
    )


def _read_column(adata: Any, name: str) -> tuple[Array, Array]:
    """Return a column of the observations, and a mask of its missing entries."""
    if name not in adata.obs:
        known = ", ".join(map(repr, list(adata.obs)[:10]))
        raise ValueError(f"adata.obs has no column {name!r}; there are {known or 'none'}.")
    column = adata.obs[name]
    missing = np.asarray(column.isna(), dtype=bool)
    numeric = getattr(column.dtype, "kind", "O") in "fiu"
    return np.asarray(column) if numeric else np.array(list(map(str, column))), missing


def _read_complete_column(adata: Any, name: str | None, rows: Array) -> Array | None:
    if name is None:
        return None
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
