"""The contents of a panel, as frozen dataclasses."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from randsel._utils.typing import Array
from randsel.prediction import Calibration, Model, Preparation

FILE = "panel.json"  # name of the panel in a result folder of `randsel select`


@dataclass(frozen=True)
class StandInFeature:
    """A feature that can replace one of the panel: its training values, and the correlation of the normal scores.

    `below_detection` is as in `PanelFeature`.
    """

    name: str
    points: Array
    correlation: float
    below_detection: float


@dataclass(frozen=True)
class PanelFeature:
    """A feature of a panel.

    Attributes
    ----------
    name
        Name of the feature.
    below_detection
        Value that replaces cells below detection: the one that training used, or half of the smallest training value.
        It has the scale of the training file, before logarithms.
    levels
        Levels of a categorical feature in the order of their codes, empty if the format of the training file does not
        name them. None for other features.
    stand_ins
        Features that can replace it, the most correlated first.
    indicator_of
        For a feature that indicates missing values of another column, the name of that column; otherwise None.
    """

    name: str
    below_detection: float
    levels: tuple[str, ...] | None = None
    stand_ins: tuple[StandInFeature, ...] = ()
    indicator_of: str | None = None

    @property
    def source(self) -> str:
        """Column that the values are read from."""
        return self.indicator_of or self.name


@dataclass(frozen=True)
class PanelContent:
    """Everything that the file of a panel holds; see `Panel` for the attributes."""

    features: tuple[PanelFeature, ...]
    preparation: Preparation
    model: Model
    kind: str
    classes: Array | None
    calibration: Calibration | None
    about: Mapping[str, Any]

    @property
    def features_(self) -> tuple[str, ...]:
        """Names of the features."""
        return tuple(feature.name for feature in self.features)
