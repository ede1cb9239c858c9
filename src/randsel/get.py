"""Results that `select_adata` wrote into AnnData and MuData objects, as data frames, like `scanpy.get`."""

from typing import Any

from randsel._utils.text import optional

PREFIX = "randsel_"


def ranking_df(adata: Any, *, selected: bool = False) -> Any:
    """Return the ranking that `select_adata` wrote, best first.

    Parameters
    ----------
    adata : AnnData or MuData
        An object that `select_adata` was called with.
    selected : bool, default=False
        Whether to return the selected variables only.

    Returns
    -------
    pandas.DataFrame
        Indexed by the names of variables; columns without the prefix "randsel_". That of a MuData object also has the
        column `modality`.

    Examples
    --------
    >>> import randsel
    >>> analysis = randsel.select_adata(adata, "cell_type", top=50)  # doctest: +SKIP
    >>> randsel.get.ranking_df(adata, selected=True)  # doctest: +SKIP
    """
    if hasattr(adata, "mod"):
        pandas = optional("pandas", extra="pandas", purpose="randsel.get")
        frames = [_columns(modality).assign(modality=name) for name, modality in adata.mod.items()]
        frame = pandas.concat(frames)
    else:
        frame = _columns(adata)
    frame = frame.sort_values("rank")
    return frame[frame["selected"]] if selected else frame


def _columns(adata: Any) -> Any:
    names = [name for name in adata.var.columns if name.startswith(PREFIX)]
    if f"{PREFIX}rank" not in names:
        raise ValueError("the object has no results of randsel; call randsel.select_adata first.")
    return adata.var[names].rename(columns={name: name.removeprefix(PREFIX) for name in names})
