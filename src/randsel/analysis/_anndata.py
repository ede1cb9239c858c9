"""Selection from an AnnData object, which is only looked at by its attributes: anndata is not needed for it."""

from dataclasses import asdict, replace
from importlib.metadata import version
from typing import Any

import numpy as np

from randsel._utils.typing import Array
from randsel.analysis._decisions import Progress, Settings
from randsel.analysis._model import Analysis
from randsel.analysis._pipeline import analyse
from randsel.tables._read import Table


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
    """Select the variables of an AnnData object that tell about a column of its observations.

    Parameters
    ----------
    adata : AnnData
        Observations in rows; it is changed, as scanpy's functions do.
    label : str
        Column of `adata.obs`: classes or numbers. Observations without a label are left out.
    layer : str, default=None
        Layer to take; None is `adata.X`. A sparse matrix is made dense.
    groups, batch : str, default=None
        Columns of `adata.obs`: donors that belong together; batches, within which tests compare.
    n_jobs : int, default=None
        Halves and folds at a time.
    progress : callable, default=None
        Called with what is being done, how much of it is done, and how much there is.
    **settings
        `top`, `fdr`, `task`, `pairs`, `halves`, `folds`, `seed`, `memory`, `device`: as in `randsel select`.

    Returns
    -------
    Analysis
        All that was found, for `randsel.report`. `adata.var` gets the columns randsel_rank, randsel_selected,
        randsel_contribution, randsel_main, randsel_interaction, randsel_partner, randsel_p, randsel_q and
        randsel_stability; `adata.uns["randsel"]` the settings, the warnings and whether anything stands out.

    Examples
    --------
    >>> import randsel
    >>> analysis = randsel.select_adata(adata, "cell_type", batch="plate", top=50)  # doctest: +SKIP
    >>> adata.var.query("randsel_selected").sort_values("randsel_rank")  # doctest: +SKIP
    """
    how = Settings(**settings)
    table = _table(adata, label, layer, groups, batch)
    about = {"version": version("randsel"), "seed": how.seed}
    analysis = analyse(table, how, about=about, progress=progress, n_jobs=n_jobs)
    _write(adata, analysis)
    given = {"label": label, "layer": layer, "groups": groups, "batch": batch, **asdict(how)}
    adata.uns["randsel"] = {
        "version": version("randsel"),
        # None cannot be written to h5ad
        "settings": {name: value for name, value in given.items() if value is not None},
        "data_hash": table.fingerprint(),
        "nothing_stands_out": bool(analysis.nothing_stands_out),
        "warnings": list(analysis.warnings),
        "notes": list(analysis.notes),
    }
    return replace(analysis, settings={**analysis.settings, "data_hash": table.fingerprint(), "parameters": given})


def _table(adata: Any, label: str, layer: str | None, groups: str | None, batch: str | None) -> Table:
    if layer is not None and layer not in adata.layers:
        msg = f"adata has no layer {layer!r}; there are {', '.join(map(repr, adata.layers)) or 'none'}."
        raise ValueError(msg)
    y, gone = _column(adata, label)
    keep, values = ~gone, adata.X if layer is None else adata.layers[layer]
    X = values.toarray() if hasattr(values, "toarray") else np.asarray(values)
    X = X.astype(np.float32 if X.dtype == np.float32 else np.float64, copy=False)
    names = tuple(map(str, adata.var_names))
    if len(set(names)) < len(names):
        msg = "two variables of adata have one name; call adata.var_names_make_unique() first."
        raise ValueError(msg)
    if not np.isfinite(X).all():
        msg = "adata has missing or infinite values; impute them, or leave these variables out first."
        raise ValueError(msg)
    return Table(
        X[keep] if gone.any() else X,
        y[keep],
        names,
        None if groups is None else _complete(adata, groups, keep),
        None if batch is None else _complete(adata, batch, keep),
        ids=np.array(list(map(str, adata.obs_names)))[keep],
        notes=(f"{int(gone.sum())} observations have no {label!r} and are left out.",) if gone.any() else (),
    )


def _column(adata: Any, name: str) -> tuple[Array, Array]:
    """Return a column of the observations, and where it is missing."""
    if name not in adata.obs:
        known = ", ".join(map(repr, list(adata.obs)[:10]))
        msg = f"adata.obs has no column {name!r}; there are {known or 'none'}."
        raise ValueError(msg)
    column = adata.obs[name]
    gone = np.asarray(column.isna(), dtype=bool)
    numeric = getattr(column.dtype, "kind", "O") in "fiu"
    return np.asarray(column) if numeric else np.array(list(map(str, column))), gone


def _complete(adata: Any, name: str, keep: Array) -> Array:
    values, gone = _column(adata, name)
    if gone[keep].any():
        msg = f"{int(gone[keep].sum())} entries of adata.obs[{name!r}] are missing; fill them in, or drop the rows."
        raise ValueError(msg)
    return values[keep]


def _write(adata: Any, analysis: Analysis) -> None:
    """Write what was found into the variables, in their order."""
    features = sorted(analysis.features, key=lambda feature: feature.column)
    columns = {
        "rank": np.array([f.rank for f in features]),
        "selected": np.array([f.selected for f in features]),
        "partner": np.array([f.partner or "" for f in features], dtype=object),
        **{
            name: np.array([getattr(f, name) for f in features])
            for name in ("contribution", "main", "interaction", "p", "q", "stability")
        },
    }
    for name, values in columns.items():
        adata.var[f"randsel_{name}"] = values
