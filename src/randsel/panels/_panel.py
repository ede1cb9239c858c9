"""`Panel`: selected features with a fitted model, which predicts new samples."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from randsel._utils.text import format_label, list_first, pluralise, warn
from randsel._utils.typing import Array
from randsel.panels._cohort import undo_transform, warn_of_scale
from randsel.panels._content import PanelContent, PanelFeature, StandInFeature
from randsel.panels._file import read_content
from randsel.prediction import predict_from_outputs, score_columns, take_points
from randsel.tables import LOWEST, parse_number
from randsel.targets import KINDS, SURVIVAL

MIN_COHORT = 10  # minimum number of samples whose own distribution can replace that of the training samples


@dataclass(frozen=True)
class NewSamples:
    """Prepared samples.

    Attributes
    ----------
    scores
        Scores for the model.
    values
        Values of the features of the panel; NaN if a column is absent.
    notes
        Sentences on absent features.
    stand_ins
        Index of an absent feature -> its stand-in, and the values of the stand-in.
    """

    scores: Array
    values: Array
    notes: tuple[str, ...]
    stand_ins: Mapping[int, tuple[StandInFeature, Array]]

    def compared(self, panel: PanelContent) -> tuple[PanelContent, Array]:
        """Return the panel and the values with stand-ins in place of the features that they replace.

        Used to compare new values with training values. A stand-in that replaces several features appears once.
        """
        features, points, values = list(panel.features), list(panel.preparation.points), self.values.copy()
        compared = set[str]()
        for j, (stand_in, column) in self.stand_ins.items():
            if stand_in.name not in compared:
                features[j] = PanelFeature(stand_in.name, stand_in.below_detection)
                points[j], values[:, j] = stand_in.points, column
                compared.add(stand_in.name)
        preparation = replace(panel.preparation, points=tuple(points))
        return replace(panel, features=tuple(features), preparation=preparation), values


@dataclass(frozen=True, repr=False)
class Panel(PanelContent):
    """Selected features with a model that predicts new samples; `randsel select` saves it as `panel.json`.

    Attributes
    ----------
    features : tuple of PanelFeature
        The features, best first, with their stand-ins.
    preparation : Preparation
        Distribution of each feature in the training samples, and effects of covariates.
    model : Model
        Linear or Gaussian ridge regression, or Cox model.
    kind : str
        "classification", "regression" or "survival".
    classes : array or None
        Labels of the classes.
    calibration : Calibration or None
        Converts outputs of the model to probabilities of classes, and has the threshold of each.
    about : dict
        Origin: version, name and hash of the training data, number of samples, names of outcome columns, `log2`,
        `missing`, `batch`, `id_column`, `na` (cells that mean missing), `below_detection` (the rule for cells such as
        <LOD), `findings` (False if nothing stood out), and for survival the median risk.

    Examples
    --------
    >>> import randsel
    >>> panel = randsel.Panel.load("results")  # doctest: +SKIP
    >>> panel.predict(frame)  # doctest: +SKIP
    """

    @classmethod
    def load(cls, path: str | Path) -> "Panel":
        """Read a panel from a folder of `randsel select`, or from its file.

        Parameters
        ----------
        path : str or Path
            The folder, or `panel.json` in it.

        Returns
        -------
        Panel
            The panel. Damaged files raise ValueError; nothing is unpickled.
        """
        return cls(**vars(read_content(Path(path))))

    @property
    def classes_(self) -> Array:
        """Labels of the classes, in the order of the columns of `predict_proba`."""
        if self.classes is None:
            raise AttributeError(f"A panel for {self.kind} has no classes.")
        return self.classes

    @property
    def class_names(self) -> list[str]:
        """Names of the classes in sentences; labels that are numbers need a word before them."""
        prefix = "" if self.classes_.dtype.kind == "U" else "class "
        return [f"{prefix}{format_label(label)}" for label in self.classes_.tolist()]

    def columns(self, *, with_stand_ins: bool = True) -> list[str]:
        """Return the columns that new samples may have: features, and stand-ins."""
        stand_ins = [stand_in.name for feature in self.features for stand_in in feature.stand_ins if with_stand_ins]
        return list(dict.fromkeys([feature.source for feature in self.features] + stand_ins))

    def detection_values(self, transform: str = "as-training") -> dict[str, float]:
        """Return column -> value that replaces cells below detection, in the scale of a file that needs `transform`.

        Covariates have the scale of the training file, because no transform applies to them.
        """
        values = {stand_in.name: stand_in.below_detection for f in self.features for stand_in in f.stand_ins}
        values |= {feature.source: feature.below_detection for feature in self.features}
        log2 = bool(self.about.get("log2"))
        values = {name: undo_transform(value, transform, log2=log2) for name, value in values.items()}
        covariates = {covariate.name: covariate.below_detection for covariate in self.preparation.covariates}
        return {**{name: value for name, value in covariates.items() if value is not None}, **values}

    def levels(self) -> dict[str, tuple[str, ...]]:
        """Return categorical feature -> its levels in the order of their codes, see `PanelFeature`."""
        return {feature.name: feature.levels for feature in self.features if feature.levels is not None}

    def _numbers(self) -> list[str]:
        """Return the columns that are not categorical."""
        return [name for name in self.columns() if name not in self.levels()]

    # ------------------------------------------------------------ predictions

    def predict(self, X: Any, *, allow_missing: bool = False, rescale: bool = False) -> Array:
        """Predict classes, numbers, or log relative risks.

        All classes count the same, however frequent they are: the predicted class has the largest ratio of probability
        to threshold (`calibration.thresholds`).

        Parameters
        ----------
        X : data frame, mapping of names to values, or array
            New samples. A data frame may have its columns in any order, and other columns as well. An array has the
            features of the panel, in their order. Values have the scale of the training file: if training took
            logarithms (`--log2`), they are taken here as well. Missing values are neutral, and so are values that
            meant missing in training (`--na`). Covariates, if the panel has any, must be columns of the data frame.
            Values on another scale than in training raise a warning, unless `rescale` is true.
        allow_missing : bool, default=False
            Whether features may be absent. Stand-ins replace them, or they are neutral; a warning says which.
        rescale : bool, default=False
            Take normal scores within X instead of those by the training distribution, for values of another platform.
            X must then have samples like those of training, in similar proportions.

        Returns
        -------
        array of shape (n_samples,)
            Labels, numbers, or risks.
        """
        return predict_from_outputs(self._outputs(X, allow_missing, rescale), self.classes)

    def predict_proba(self, X: Any, *, allow_missing: bool = False, rescale: bool = False) -> Array:
        """Predict the probability of each class; parameters as in `predict`."""
        if self.classes is None:
            raise AttributeError(f"A panel for {self.kind} predicts no probabilities.")
        return self.probabilities(self._outputs(X, allow_missing, rescale))

    def probabilities(self, outputs: Array) -> Array:
        """Return the probabilities of classes for outputs of the model."""
        assert self.calibration is not None
        return self.calibration.probabilities(outputs)

    def score(self, X: Any, y: Any, *, allow_missing: bool = False, rescale: bool = False) -> float:
        """Return the balanced accuracy, R², or concordance index of the predictions."""
        return KINDS[self.kind].score(np.asarray(y), self.predict(X, allow_missing=allow_missing, rescale=rescale))

    def _outputs(self, X: Any, allow_missing: bool, rescale: bool) -> Array:
        columns, log2, negative = _as_columns(X, self), bool(self.about.get("log2")), 0.0
        if log2:
            numbers = {name: _as_numbers(columns[name], name) for name in self._numbers() if name in columns}
            is_negative = [numbers[feature.source] < 0.0 for feature in self.features if feature.source in numbers]
            negative = float(np.mean(is_negative)) if is_negative else 0.0
            columns = {**columns, **{name: np.log2(np.maximum(values, LOWEST)) for name, values in numbers.items()}}
        samples = self.prepare(columns, allow_missing=allow_missing, rescale=rescale)
        scale: dict[str, Any] = {"log2_taken": log2, "negative": negative, "names_options": False}
        remarks = () if rescale else warn_of_scale(*samples.compared(self), **scale)
        for note in (*samples.notes, *remarks):
            warn(note, stacklevel=3)
        return self.model.outputs(samples.scores)

    def prepare(
        self,
        columns: Mapping[str, Any],
        *,
        allow_missing: bool = False,
        rescale: bool = False,
        names_options: bool = False,
    ) -> NewSamples:
        """Return the scores of new samples, given by columns, with notes on absent features.

        `names_options`: errors name options of `randsel apply` instead of parameters.
        """
        n_samples = len(next(iter(columns.values()), ()))
        if rescale and n_samples < MIN_COHORT:
            raise ValueError(
                f"{n_samples} samples are too few to scale features by their own distribution; at least {MIN_COHORT} "
                f"are needed; leave {'--rescale' if names_options else 'rescale=True'} out."
            )
        absent = [feature.name for feature in self.features if feature.source not in columns]
        if absent and not allow_missing:
            remedy = "--allow-missing" if names_options else "allow_missing=True"
            raise ValueError(
                f"{len(absent)} of {len(self.features)} features of the panel are absent: {list_first(absent, 5)}. "
                f"Check their names, or allow absent features ({remedy})."
            )
        if len(absent) == len(self.features) and not self._has_stand_in(columns):
            raise ValueError("all features of the panel and all stand-ins are absent; check the names.")
        values = np.full((n_samples, len(self.features)), np.nan)
        scores = np.zeros(values.shape)
        notes, neutral, stand_ins = [], [], dict[int, tuple[StandInFeature, Array]]()
        for j, (feature, points) in enumerate(zip(self.features, self.preparation.points, strict=True)):
            if feature.source in columns:
                values[:, j] = _as_numbers(columns[feature.source], feature.source)
                if feature.indicator_of is not None:
                    values[:, j] = np.isnan(values[:, j])
                scores[:, j] = _score(values[:, j], points, rescale)
                continue
            stand_in = self._find_stand_in(feature, columns)
            if stand_in is None:
                neutral.append(feature.name)
                continue
            stand_in_values = _as_numbers(columns[stand_in.name], stand_in.name)
            stand_in_scores = _score(stand_in_values, stand_in.points, rescale)
            scores[:, j] = stand_in.correlation * stand_in_scores
            stand_ins[j] = stand_in, stand_in_values
            notes.append(f"{feature.name} is absent; {stand_in.name} replaces it (r {stand_in.correlation:.2f}).")
        if neutral:
            notes.append(
                f"{len(neutral)} of {len(self.features)} features {pluralise(len(neutral), 'is', 'are')} absent "
                f"without a stand-in, and treated as average in every sample: {list_first(neutral, 5)}."
            )
        if self.about.get("missing") == "median":
            scores = self._impute_medians(scores, values)
        return NewSamples(self.preparation.adjust(scores, columns), values, tuple(notes), stand_ins)

    def _find_stand_in(self, feature: PanelFeature, columns: Mapping[str, Any]) -> StandInFeature | None:
        return next((stand_in for stand_in in feature.stand_ins if stand_in.name in columns), None)

    def _has_stand_in(self, columns: Mapping[str, Any]) -> bool:
        return any(self._find_stand_in(feature, columns) is not None for feature in self.features)

    def _impute_medians(self, scores: Array, values: Array) -> Array:
        """Replace the scores of missing values by those of the training medians; absent columns stay neutral."""
        medians = np.array([[np.median(points) for points in self.preparation.points]])
        median_scores = score_columns(medians, self.preparation.points)[0]
        incomplete = np.isnan(values) & ~np.isnan(values).all(axis=0)
        return np.where(incomplete, median_scores, scores)

    def describe(self) -> str:
        """Return a sentence on features, model and origin."""
        names = {
            "linear": "linear ridge regression",
            "gaussian": "Gaussian kernel ridge regression",
            "cox": "Cox model",
        }
        features = f"{len(self.features)} feature{'s' * (len(self.features) > 1)}"
        origin = f"{self.about.get('samples', '?')} samples of {self.about.get('data', 'a table')}"
        return f"Panel of {features} for {self.kind}: {names[self.model.kernel]}, fitted to {origin}."

    def describe_decision(self) -> str:
        """Return a sentence on the probability from which a class is predicted."""
        assert self.calibration is not None
        labels = self.class_names
        thresholds = self.calibration.thresholds.tolist()
        reason = "so that every class counts the same, however frequent it was in training"
        if len(labels) == 2:
            return f"{labels[1]} is predicted if its probability is above {thresholds[1]:.2f}, {reason}."
        listed = list_first([f"{label}: {value:.2f}" for label, value in zip(labels, thresholds, strict=True)], 8)
        return f"The predicted class has the largest probability relative to its threshold ({listed}), {reason}."

    def __repr__(self) -> str:
        return f"<{self.describe()} {list_first(self.features_, 5)}>"

    @property
    def is_survival(self) -> bool:
        """Whether predictions are risks."""
        return self.kind == SURVIVAL.name


def _score(values: Array, points: Array, rescale: bool) -> Array:
    if rescale:
        points = take_points(values[:, None])[0]
    return score_columns(values[:, None], [points if len(points) else np.zeros(1)])[:, 0]


def _as_columns(X: Any, panel: Panel) -> Mapping[str, Any]:
    """Return name -> values of a data frame, a mapping, or an array with the features of the panel in their order."""
    na = panel.about.get("na", [])
    if isinstance(X, Mapping) or hasattr(X, "columns"):
        columns = X if isinstance(X, Mapping) else {str(name): X[name] for name in X.columns}
        needed = panel.columns() if na else []
        columns = {**columns, **{name: _clear_missing(columns[name], na) for name in needed if name in columns}}
        levels = {name: of_feature for name, of_feature in panel.levels().items() if of_feature and name in columns}
        return {**columns, **{name: _encode(columns[name], of_feature, name) for name, of_feature in levels.items()}}
    values = np.asarray(X)
    if values.ndim != 2 or values.shape[1] != len(panel.features):
        raise ValueError(
            f"an array of new samples needs the {len(panel.features)} features of the panel as columns, in their order "
            f"(features_), but its shape is {values.shape}; or pass a data frame with names."
        )
    values = _clear_missing(values, na) if na else values
    return {feature.source: values[:, j] for j, feature in enumerate(panel.features)}


def _clear_missing(values: Any, na: list[str]) -> Array:
    """Replace the values that mean missing by NaN; `na` lists them as text, such as "ND" or "-999"."""
    numbers = [number for cell in na if (number := parse_number(cell)) is not None]
    cells = np.array(values)
    if cells.dtype.kind in "fiub":
        return np.where(np.isin(cells, numbers), np.nan, cells)
    stands_for_missing = [str(cell) in na or parse_number(str(cell)) in numbers for cell in cells.ravel().tolist()]
    return np.where(np.reshape(stands_for_missing, cells.shape), np.nan, cells.astype(object))


def _encode(values: Any, levels: tuple[str, ...], name: str) -> Array:
    """Return the codes of the levels that a column of a data frame holds; NaN where it is missing."""
    cells = np.asarray(values, dtype=object).tolist()
    missing = [cell is None or cell != cell for cell in cells]  # noqa: PLR0124 (NaN)
    texts = [format_label(cell) for cell in cells]
    unknown = sorted({text for text, gap in zip(texts, missing, strict=True) if not gap} - {*levels})
    if unknown:
        raise ValueError(
            f"column {name!r} holds {list_first([repr(u) for u in unknown], 3)}, which is not one of the categories of "
            f"training: {list_first([repr(level) for level in levels], 6)}. Write them in the same way."
        )
    return np.array([np.nan if gap else levels.index(text) for text, gap in zip(texts, missing, strict=True)])


def _as_numbers(values: Any, name: str) -> Array:
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (ValueError, TypeError):
        raise ValueError(f"column {name!r} holds text where the panel needs numbers; correct it.") from None
    if np.isinf(numbers).any():
        raise ValueError(f"column {name!r} holds infinite values; replace them by numbers, or leave them empty.")
    return numbers
