"""Kinds of outcome: class labels, numbers in one or several columns, or survival times.

Whatever depends on the kind of y (checks, encodings, folds, models and scores) is a method of its `OutcomeKind`.
"""

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Number
from typing import Any, ClassVar

import numpy as np
from scipy.stats import rankdata
from sklearn.metrics import r2_score
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.utils.validation import check_array

from randsel._numerics.arrays import is_structured
from randsel._numerics.kernels import bandwidth, squared_distances
from randsel._numerics.missing import impute_means
from randsel._numerics.nuisance import Nuisance
from randsel._utils.text import warn
from randsel._utils.typing import Array
from randsel.targets._event_times import check_times, read_survival
from randsel.targets._survival import concordance_index, martingale_residuals

#: Whole numbers of at most this many distinct values are class codes; more are grades or counts.
MAX_CLASS_CODES = 4
#: Whole numbers of more distinct values than this are measurements beyond doubt, and no message mentions them.
MAX_DOUBTFUL = 20
#: Largest number of quantile bins by which folds of numbers are stratified.
MAX_BINS = 10


@dataclass(frozen=True)
class OutcomeKind(ABC):
    """The kind of y; `KINDS` maps names to the instances."""

    name: ClassVar[str]  # value of the parameter `target` of the estimators; files store this name
    has_classes: ClassVar[bool]  # whether y holds class labels
    score_name: ClassVar[str]  # name of the measure that `score` returns
    #: What limits the number of folds, see `units_per_stratum`: without groups, and with groups.
    limits_of_folds: ClassVar[tuple[str, str]] = ("samples", "groups of samples")

    @abstractmethod
    def check(self, y: Array) -> None:
        """Raise ValueError if y does not vary."""

    @abstractmethod
    def kernel_factor(self, y: Array, weights: Array) -> Array:
        """Return the factor Y of the kernel `Y Yᵀ` of y, centred under weights that sum to one."""

    @abstractmethod
    def contrasts(self, y: Array, nuisance: Nuisance) -> Array:
        """Return columns to test features against: those that vary, without nuisance variables, of variance one."""

    @abstractmethod
    def strata(self, y: Array) -> Array:
        """Return the stratum number of each sample; half-samples hold half of every stratum."""

    @abstractmethod
    def splits(self, y: Array, groups: Array | None, n_splits: int, seed: int) -> list[tuple[Array, Array]]:
        """Return the training and test rows of folds: shuffled by the seed, stratified by y, groups kept together."""

    @abstractmethod
    def chance_score(self, y: Array) -> float:
        """Return the score of a model that ignores the features."""

    @abstractmethod
    def score(self, y: Array, predicted: Array) -> float:
        """Return how well predictions agree with y, by the measure `score_name`."""

    @abstractmethod
    def svm(self, **options: Any) -> Any:
        """Return a Gaussian support vector machine with C = 1, not fitted."""

    def to_numbers(
        self,
        y: Array,
        sample_weights: Array | None = None,  # noqa: ARG002 (survival uses the arguments)
        strata: Array | None = None,  # noqa: ARG002
        covariates: Array | None = None,  # noqa: ARG002
    ) -> tuple[Array, "OutcomeKind"]:
        """Return the outcome that contributions and tests refer to, and its kind: y itself unless it is survival.

        `covariates` is a numeric design matrix without a constant.
        """
        return y, self

    def units_per_stratum(self, y: Array, groups: Array | None) -> Array:
        """Return the number of groups, or samples, per stratum; the least is the largest possible number of folds."""
        strata, units = self.strata(y), np.arange(len(y)) if groups is None else groups
        return np.array([len(np.unique(units[strata == stratum])) for stratum in range(int(strata.max()) + 1)])

    def predict_held_out(
        self, X: Array, y: Array, train: Array, test: Array, columns: Array, gamma: float | str, **options: Any
    ) -> Array:
        """Return predictions of the test rows by `svm(**options)`, fitted to some columns of the training rows.

        Missing values are replaced by the mean of the training rows, 0 after scaling.
        """
        # Nothing of the test rows is used: neither for means and scaling nor for the bandwidth.
        X = impute_means(np.take(X, columns, axis=1), train)
        scaler = StandardScaler().fit(X[train])
        Z = scaler.transform(X[train])
        model = self.svm(gamma=bandwidth(gamma, squared_distances(Z)), **options)
        return self._fit_predict(model, Z, y[train], scaler.transform(X[test]))

    def _fit_predict(self, model: Any, Z: Array, y: Array, held_out: Array) -> Array:
        return np.asarray(model.fit(Z, y).predict(held_out))


class Classes(OutcomeKind):
    """One column of class labels."""

    name = "classification"
    has_classes = True
    score_name = "balanced accuracy"
    limits_of_folds = ("members of the smallest class", "groups of a class")

    def check(self, y: Array) -> None:
        """Raise ValueError if there is one class only or one per sample, or if y holds numbers as text."""
        levels = np.unique(y).tolist()
        if len(levels) < 2:
            problem = f"y has one class only ({levels[0]!r}), so no feature can separate classes"
            raise ValueError(f"{problem}; pass samples of at least two.")
        if len(levels) > max(MAX_DOUBTFUL, len(y) / 2) and all(_is_number_as_text(level) for level in levels):
            problem = f"y holds {len(levels)} distinct numbers as text, such as {levels[0]!r}"
            raise ValueError(f"{problem}; pass numbers: np.asarray(y, dtype=float).")
        if len(levels) == len(y) > MAX_CLASS_CODES:
            problem = f"each of the {len(y)} samples has a class of its own in y, such as {levels[0]!r}"
            raise ValueError(f"{problem}, so no class can be compared with another; pass classes of several samples.")

    def kernel_factor(self, y: Array, weights: Array) -> Array:
        """Return ±1 for two classes, one-hot columns for more; centred."""
        classes, codes = np.unique(y, return_inverse=True)
        Y = np.where(codes == 1, 1.0, -1.0)[:, None] if len(classes) == 2 else np.eye(len(classes))[codes]
        return np.asarray(Y - weights @ Y)

    def contrasts(self, y: Array, nuisance: Nuisance) -> Array:
        """Return orthonormal contrasts of the classes."""
        Y = (y[:, None] == np.unique(y)).astype(np.float64)
        Y, weights = nuisance.remove(Y.T).T, nuisance.weights
        values, vectors = np.linalg.eigh((Y * weights[:, None]).T @ Y / weights.sum())
        varies = values > 1e-10
        return np.asarray(Y @ vectors[:, varies] / np.sqrt(values[varies]))

    def strata(self, y: Array) -> Array:
        """Return the number of the class of every sample."""
        return np.unique(y, return_inverse=True)[1]

    def splits(self, y: Array, groups: Array | None, n_splits: int, seed: int) -> list[tuple[Array, Array]]:
        """Return shuffled folds with equal fractions of every class, as far as groups allow."""
        splitter = StratifiedKFold if groups is None else StratifiedGroupKFold
        return list(splitter(n_splits, shuffle=True, random_state=seed).split(np.zeros(len(y)), y, groups))

    def chance_score(self, y: Array) -> float:
        """Return one over the number of classes."""
        return 1.0 / len(np.unique(y))

    def score(self, y: Array, predicted: Array) -> float:
        """Return the balanced accuracy: the mean over classes of the fraction predicted right."""
        return float(np.mean([(predicted[y == label] == label).mean() for label in np.unique(y)]))

    def svm(self, **options: Any) -> SVC:
        """Return a classifier."""
        return SVC(C=1.0, **options)


class Numbers(OutcomeKind):
    """Numbers, in one or several columns."""

    name = "regression"
    has_classes = False
    score_name = "R²"

    def check(self, y: Array) -> None:
        """Raise ValueError if all samples are equal."""
        if np.all(y.astype(np.float64) == y[0].astype(np.float64)):
            raise ValueError(f"y is constant ({y[0]!r}), so there is nothing for a feature to explain.")

    def kernel_factor(self, y: Array, weights: Array) -> Array:
        """Return standardised columns; those that do not vary are zero."""
        Y = _columns(y)
        Y = Y - weights @ Y
        spread = np.sqrt(weights @ (Y * Y))
        return np.asarray(Y / np.where(spread > 0.0, spread, 1.0))

    def contrasts(self, y: Array, nuisance: Nuisance) -> Array:
        """Return standardised columns."""
        Y = _columns(y)
        # Less a value of the stratum, a constant is exactly zero, and a small spread around a large mean keeps digits.
        strata, weights = nuisance.strata, nuisance.weights
        first = 0 if strata is None else np.unique(strata, return_index=True)[1][strata]
        Y = Y - Y[first]
        before = np.abs(Y).max(axis=0)
        Y = nuisance.remove(Y.T).T
        spread = np.sqrt(weights @ (Y * Y) / weights.sum())
        # Covariates that explain a column leave its rounding errors.
        varies = spread > (1e-9 * before if len(nuisance.basis) else 0.0)
        return np.asarray(Y[:, varies] / spread[varies])

    def strata(self, y: Array) -> Array:
        """Return zeros: one stratum."""
        return np.zeros(len(y), dtype=int)

    def splits(self, y: Array, groups: Array | None, n_splits: int, seed: int) -> list[tuple[Array, Array]]:
        """Return shuffled folds with equal fractions of every quantile bin of y, or of the group means of its ranks.

        All folds have the same number of samples, or of groups, up to one. Several columns are shuffled only.
        """
        unit = np.arange(len(y)) if groups is None else np.unique(groups, return_inverse=True)[1]
        sizes = np.bincount(unit)
        values = np.zeros(len(sizes)) if y.ndim > 1 else np.bincount(unit, weights=rankdata(y)) / sizes
        # A bin of fewer members than folds could not be in every fold.
        n_bins = 1 if y.ndim > 1 else int(np.clip(len(sizes) // n_splits, 1, MAX_BINS))
        bins = (rankdata(values, method="ordinal") - 1) * n_bins // len(sizes)
        folds = StratifiedKFold(n_splits, shuffle=True, random_state=seed).split(values, bins)
        return [(np.flatnonzero(np.isin(unit, train)), np.flatnonzero(np.isin(unit, test))) for train, test in folds]

    def chance_score(self, y: Array) -> float:  # noqa: ARG002 (the same for every y)
        """Return 0, the R² of the mean."""
        return 0.0

    def score(self, y: Array, predicted: Array) -> float:
        """Return R², NaN for a single sample."""
        return float(r2_score(y, predicted)) if len(y) > 1 else float("nan")

    def svm(self, **options: Any) -> SVR:
        """Return a regressor."""
        return SVR(C=1.0, **options)

    def _fit_predict(self, model: Any, Z: Array, y: Array, held_out: Array) -> Array:
        # SVR ignores errors below 0.1, so y is standardised.
        mean, spread = y.mean(), y.std() or 1.0
        return np.asarray(model.fit(Z, (y - mean) / spread).predict(held_out) * spread + mean)


class Survival(OutcomeKind):
    """Events and times, in a structured array of `SURVIVAL_DTYPE`; contributions refer to martingale residuals."""

    name = "survival"
    has_classes = False
    score_name = "concordance index"
    limits_of_folds = ("pairs of events", "pairs of groups with an event")

    def check(self, y: Array) -> None:
        """Raise ValueError if there is no event, or no two times differ."""
        if not y["event"].any():
            raise ValueError(
                f"all {len(y)} samples of y are censored, so there is nothing to explain; is the event coded as False?"
            )
        if y["time"].min() == y["time"].max():
            raise ValueError(
                f"all times of y are equal ({y['time'][0]:g}), so nobody survived longer than another; use the events "
                "as classes instead."
            )

    def to_numbers(
        self,
        y: Array,
        sample_weights: Array | None = None,
        strata: Array | None = None,
        covariates: Array | None = None,
    ) -> tuple[Array, OutcomeKind]:
        """Return martingale residuals: of the null model within strata, or of a Cox model on the covariates."""
        residuals = martingale_residuals(y["time"], y["event"], sample_weights, strata, covariates)
        if np.ptp(residuals) == 0.0:
            where, remedy = "", "follow samples longer"
            if strata is not None:
                where, remedy = " within its batch", "leave batch out, or merge batches"
            raise ValueError(f"no event of y has another sample at risk{where}, so nothing can be compared; {remedy}.")
        return residuals, NUMBERS

    def kernel_factor(self, y: Array, weights: Array) -> Array:
        """Return the standardised martingale residuals."""
        return NUMBERS.kernel_factor(self.to_numbers(y, weights)[0], weights)

    def contrasts(self, y: Array, nuisance: Nuisance) -> Array:
        """Return the martingale residuals, standardised."""
        return NUMBERS.contrasts(self.to_numbers(y, nuisance.weights, nuisance.strata)[0], nuisance)

    def strata(self, y: Array) -> Array:
        """Return 1 for events and 0 for censored samples, or zeros if all are alike."""
        return np.unique(y["event"], return_inverse=True)[1]

    def units_per_stratum(self, y: Array, groups: Array | None) -> Array:
        """Return half the number of samples, or groups, with an event: one event may have nothing to compare with."""
        units = np.arange(len(y)) if groups is None else groups
        return np.array([len(np.unique(units[y["event"]])) // 2])

    def splits(self, y: Array, groups: Array | None, n_splits: int, seed: int) -> list[tuple[Array, Array]]:
        """Return shuffled folds with equal fractions of events, as far as groups allow."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The least populated class", UserWarning)  # few censored samples
            return CLASSES.splits(y["event"], groups, n_splits, seed)

    def chance_score(self, y: Array) -> float:  # noqa: ARG002 (the same for every y)
        """Return 0.5, the concordance index of predictions that are all equal."""
        return 0.5

    def score(self, y: Array, predicted: Array) -> float:
        """Return the concordance index of predicted risks; NaN if no two samples can be compared."""
        return concordance_index(y["time"], y["event"], predicted)

    def svm(self, **options: Any) -> "MartingaleSVR":
        """Return a regressor of martingale residuals, whose predictions are risks."""
        return MartingaleSVR(C=1.0, **options)


class MartingaleSVR(SVR):  # type: ignore[misc]
    """Support vector regression of the martingale residuals of the training samples; predicts risks."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "MartingaleSVR":
        """Fit the standardised residuals of a survival outcome."""
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        residuals, _ = SURVIVAL.to_numbers(check_outcome(y, SURVIVAL.name), weights)
        # SVR ignores errors below 0.1, so residuals are standardised.
        super().fit(X, (residuals - residuals.mean()) / (residuals.std() or 1.0), sample_weight)
        return self

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: ARG002 (the contract of scikit-learn)
        """Return the concordance index of the predictions."""
        return SURVIVAL.score(check_outcome(y, SURVIVAL.name), self.predict(X))


CLASSES, NUMBERS, SURVIVAL = Classes(), Numbers(), Survival()
KINDS: dict[str, OutcomeKind] = {kind.name: kind for kind in (CLASSES, NUMBERS, SURVIVAL)}


def _columns(y: Array) -> Array:
    """Return y as columns of magnitude at most one, scaled exactly by powers of two; constant columns become zero."""
    Y = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
    Y = np.where(Y.max(axis=0) > Y.min(axis=0), Y, 0.0)
    return np.asarray(np.ldexp(Y, -np.frexp(np.abs(Y).max(axis=0))[1]))


def _is_number_as_text(label: Any) -> bool:
    try:
        return isinstance(label, str) and np.isfinite(float(label))
    except ValueError:
        return False


def find_kind(y: Array, target: str) -> OutcomeKind:
    """Return the kind that `target` names, or for "auto" the one that y looks like.

    Events and times are survival. Text and truth values are classes. Several columns, and numbers with fractions, are
    numbers. Whole numbers can be codes of classes, grades or counts, and their values do not tell which. Those of at
    most `MAX_CLASS_CODES` distinct values are classes: codes of three or four classes are common. Those of more
    distinct values are numbers: classes would ignore the order of grades and counts, and tests would lose most of their
    power. A wrong guess costs power in both directions, so `describe_guess` and `warn_of_guess` tell the user what was
    assumed.
    """
    if is_structured(y):
        if target not in ("auto", SURVIVAL.name):
            raise ValueError(f"target={target!r} does not fit events and times; leave it out, or use 'survival'.")
        return SURVIVAL
    if target == SURVIVAL.name:
        raise ValueError("target='survival' needs events and times, and y does not hold both.")
    numeric = y.dtype.kind in "fiub"
    if target == NUMBERS.name and not numeric:
        raise ValueError("target='regression' needs numbers, but y holds text; use target='classification'.")
    if target == CLASSES.name and y.ndim > 1:
        raise ValueError(
            "target='classification' needs one column of labels, but y has several; use target='regression'."
        )
    if target in KINDS:
        return KINDS[target]
    if not numeric:
        return CLASSES
    values = _whole_numbers(y)
    return CLASSES if values is not None and len(values) <= MAX_CLASS_CODES else NUMBERS


def describe_guess(y: Array, target: str) -> str | None:
    """Return a note for the command line on how "auto" treats 3 to 20 distinct whole numbers; None for any other y."""
    values = _whole_numbers(y) if target == "auto" else None
    if values is None or not 2 < len(values) <= MAX_DOUBTFUL:
        return None
    if find_kind(y, target) is CLASSES:
        return (
            "The target is taken for classes without order. If its numbers are grades or counts, add --task regression."
        )
    return (
        "The target is taken for numbers whose order counts. If they are codes of classes, add --task classification."
    )


def warn_of_guess(y: Array, target: str, option: str) -> None:
    """Warn if "auto" treats y as numbers although it could hold codes of classes, numbered from 0 or from 1.

    `option` is the parameter that overrules the guess, with {} for its value.
    """
    values = _whole_numbers(y) if target == "auto" else None
    if values is None or not MAX_CLASS_CODES < len(values) <= MAX_DOUBTFUL:
        return
    if values[0] in (0.0, 1.0) and values[-1] - values[0] == len(values) - 1:
        warn(
            f"y holds the whole numbers {values[0]:.0f} to {values[-1]:.0f}, which are taken for numbers, such as "
            f"grades or counts. If they are codes of classes, pass {option.format(repr(CLASSES.name))}; if not, "
            f"{option.format(repr(NUMBERS.name))} turns this warning off.",
            stacklevel=5,
        )


def _whole_numbers(y: Array) -> Array | None:
    """Return the distinct values of one column of whole numbers, sorted; None for anything else."""
    if y.ndim > 1 or y.dtype.kind not in "fiub":
        return None
    values = np.unique(y).astype(np.float64)
    return values if np.array_equal(values, np.floor(values)) else None


def check_outcome(y: Any, target: str = "auto") -> Array:
    """Return y as an array of text or of finite numbers, with two dimensions only if it has several columns.

    A survival outcome (see `read_survival`, which `target` may help) becomes a structured array of events and times.
    """
    could_be_survival = is_structured(y) or target == SURVIVAL.name or (target == "auto" and hasattr(y, "columns"))
    survival = read_survival(y, target) if could_be_survival else None
    if survival is not None:
        check_times(survival)
        return survival
    row_names = y.index if hasattr(y, "iloc") else None  # of a pandas series or data frame
    y = check_array(y, ensure_2d=False, dtype=None, ensure_all_finite=False, input_name="y", ensure_min_samples=0)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y.ravel()
    if y.ndim not in (1, 2) or y.dtype.kind not in "OUSTfiub":
        raise ValueError(
            f"Unknown label type: y has {y.ndim} dimensions of type {y.dtype}; pass labels, or real numbers."
        )
    if y.dtype.kind == "f":
        missing = ~np.isfinite(y)
    elif y.dtype.kind == "O":
        missing = np.frompyfunc(_is_missing, 1, 1)(y).astype(bool)
    else:
        missing = np.zeros(y.shape, dtype=bool)
    if missing.any():
        rows = np.flatnonzero(missing.reshape(len(y), -1).any(axis=1))
        name = rows[0] if row_names is None else repr(row_names[rows[0]])
        raise ValueError(
            f"Input y contains NaN, inf or missing values in {len(rows)} of {len(y)} samples, the first in row "
            f"{name}; drop those samples first."
        )
    return np.asarray(y) if y.dtype.kind in "fiub" else _check_labels(y)


def _is_missing(value: Any) -> bool:
    return (
        value is None
        or type(value).__name__ in ("NAType", "NaTType")
        or (isinstance(value, float) and not np.isfinite(value))
    )


def _check_labels(y: Array) -> Array:
    """Return text as text, and Python numbers in an object array as numbers."""
    if y.dtype.kind in "ST":
        y = y.astype(str)
    values = y.ravel().tolist()
    if all(isinstance(value, Number) for value in values):
        return y.astype(np.float64)
    if not all(isinstance(value, str) for value in values):
        raise ValueError("Unknown label type: y mixes text with other types; convert it to all text or all numbers.")
    if y.ndim != 1:
        raise ValueError("y has several columns of text; pass one column of class labels, or numbers.")
    return y.astype(str)
