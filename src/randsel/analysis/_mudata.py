"""A MuData object as one table. Only its attributes are used, so that mudata need not be installed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from randsel._utils.typing import Array


@dataclass(frozen=True)
class _SplitColumns:
    """Columns of all variables, which are written to `.var` of each modality."""

    modalities: Mapping[str, Any]

    def __setitem__(self, name: str, values: Array) -> None:
        start = 0
        for modality in self.modalities.values():
            modality.var[name] = values[start : start + len(modality.var_names)]
            start += len(modality.var_names)


@dataclass(frozen=True)
class _SharedLayers:
    """Layers that all modalities have; a layer is joined when it is read."""

    names: tuple[str, ...]
    join: Callable[[str], Array]

    def __iter__(self) -> Any:
        return iter(self.names)

    def __getitem__(self, name: str) -> Array:
        return self.join(name)


@dataclass(frozen=True)
class JointModalities:
    """The variables of all modalities side by side, with the attributes of AnnData that `select_adata` uses."""

    obs: Any
    obs_names: Any
    uns: Any
    modalities: Mapping[str, Any]

    @classmethod
    def from_mudata(cls, mdata: Any) -> "JointModalities":
        """Take the observations of a MuData object, and all of its modalities."""
        return cls(mdata.obs, mdata.obs_names, mdata.uns, dict(mdata.mod.items()))

    @property
    def var_names(self) -> list[str]:
        """Names of all variables, each with its modality."""
        return [f"{name}:{variable}" for name, mod in self.modalities.items() for variable in mod.var_names]

    @property
    def var(self) -> _SplitColumns:
        """Where results are written."""
        return _SplitColumns(self.modalities)

    @property
    def X(self) -> Array:  # noqa: N802 (the name in AnnData)
        """Values of all variables; NaN where an observation lacks a modality."""
        return self._join(None)

    @property
    def layers(self) -> _SharedLayers:
        """Layers that all modalities have."""
        shared = [set(modality.layers) for modality in self.modalities.values()]
        return _SharedLayers(tuple(sorted(set.intersection(*shared))) if shared else (), self._join)

    def _join(self, layer: str | None) -> Array:
        rows = {name: row for row, name in enumerate(map(str, self.obs_names))}
        blocks = []
        for modality in self.modalities.values():
            values = modality.X if layer is None else modality.layers[layer]
            values = values.toarray() if hasattr(values, "toarray") else np.asarray(values)
            block = np.full((len(rows), values.shape[1]), np.nan)
            block[[rows[name] for name in map(str, modality.obs_names)]] = values
            blocks.append(block)
        return np.concatenate(blocks, axis=1)
