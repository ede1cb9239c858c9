"""`LPBoostMKL`, a classifier that combines kernels, and `PathKernels`, which computes a kernel per culling round."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from randsel._numerics.kernels import bandwidth, gaussian_kernel, squared_distances
from randsel._numerics.standardise import ALL_CONSTANT, RankScorer
from randsel._sklearn.base import (
    CallbackSupportMixin,
    Interval,
    StrOptions,
    Task,
    check_classes,
    check_table,
    fit_context,
    fit_task,
)
from randsel._utils.jobs import ordered_map
from randsel._utils.typing import Array
from randsel.learning._lpboost import Combination, boost, check_kernels, solve_dual, stack_kernels
from randsel.selectors import RandSel

#: Bandwidths of the default kernels.
DEFAULT_GAMMAS = ("0.25*median", "median", "4*median")
#: Folds whose held-out decision values calibrate the probabilities.
CALIBRATION_FOLDS = 3


@dataclass(frozen=True)
class _Standardiser:
    """Mean and standard deviation of the training samples; constant columns are only centred."""

    mean: Array
    divisor: Array
    varies: Array

    @classmethod
    def from_samples(cls, X: Array, *, scale: bool) -> "_Standardiser":
        varies = X.max(axis=0) > X.min(axis=0)
        spread = X.std(axis=0)
        divisor = np.where(varies & (spread > 0.0), spread, 1.0) if scale else np.ones(X.shape[1])
        return cls(X.mean(axis=0), divisor, varies)

    def apply(self, X: Array) -> Array:
        return np.asarray((X - self.mean) / self.divisor)


class LPBoostMKL(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Classify by a combination of kernels, learned by LPBoost with a soft margin.

    The weak learners of a kernel are the unit ball of its function space. Few kernels get a weight: those that no
    others can replace. With several classes, each is separated from the rest: a kernel may then matter for one class
    and not for another, and every problem uses all samples.

    Parameters
    ----------
    kernels : None, "precomputed" or list of (columns, gamma), default=None
        None: Gaussian kernels of all columns, with gamma a quarter of the median heuristic, equal to it, and four
        times it. A list: one Gaussian kernel per pair; `columns` are indices or a mask (None for all), `gamma` is as
        in `RandSel`.
        "precomputed": X is a stack of shape (kernels, samples, samples) to fit, and of shape (kernels, new samples,
        training samples) to predict.
    nu : float in (0, 1], default=0.2
        Soft margin: at most this fraction of the samples violates the margin, and no sample has a weight above
        1/(nu·n_samples). Every value is feasible. With several classes, choose nu below the fraction of the smallest
        class, or all of its samples may violate the margin.
    tol : float, default=1e-3
        Stop when no kernel has an edge that exceeds β by more, in units of the root of the largest diagonal entry.
    max_iter : int, default=200
        Maximum number of linear programs per class.
    scale : bool, default=True
        Scale columns to standard deviation one; ignored for precomputed kernels.
    probability : bool, default=False
        Enable `predict_proba`: it is calibrated on held-out values of three folds, and `fit` takes four times as long.
    n_jobs : int, default=None
        Jobs over classes (joblib).

    Attributes
    ----------
    classes_ : ndarray
        The classes.
    kernel_weights_ : ndarray of shape (n_problems, n_kernels)
        Weights of the kernels, summing to one in each row; one row for two classes, one per class for more.
    margin_, gap_, n_iter_ : ndarray of shape (n_problems,)
        Soft margin, bound on its distance from the optimum, and number of linear programs solved.
    sample_weights_ : ndarray of shape (n_problems, n_samples)
        Weights of the samples; positive only for samples on the margin or violating it.
    n_features_in_, feature_names_in_
        As in scikit-learn (not for precomputed kernels).

    Examples
    --------
    >>> from randsel import LPBoostMKL, datasets
    >>> X, y, relevant = datasets.make_xor(200, 6, random_state=0)
    >>> model = LPBoostMKL([([0, 1], "median"), ([2, 3], "median"), ([4, 5], "median")]).fit(X, y)
    >>> int(model.kernel_weights_.argmax())
    0
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernels": [None, StrOptions({"precomputed"}), list, tuple],
        "nu": [Interval(Real, 0, 1, closed="right")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "scale": ["boolean"],
        "probability": ["boolean"],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        kernels: Any = None,
        *,
        nu: float = 0.2,
        tol: float = 1e-3,
        max_iter: int = 200,
        scale: bool = True,
        probability: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.kernels = kernels
        self.nu = nu
        self.tol = tol
        self.max_iter = max_iter
        self.scale = scale
        self.probability = probability
        self.n_jobs = n_jobs

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> "LPBoostMKL":
        """Learn the combination of kernels.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or (n_kernels, n_samples, n_samples) if precomputed
            Numbers, no missing values.
        y : array of shape (n_samples,)
            Class labels.

        Returns
        -------
        LPBoostMKL
            This estimator, fitted.
        """
        if isinstance(self.kernels, str):
            self.classes_, codes = check_classes(self, y)
            kernels = stack_kernels(X)
            check_kernels(kernels, len(codes))
        else:
            X = check_table(self, X, reset=True)
            self.classes_, codes = check_classes(self, y, len(X))
            kernels = self._make_kernels(X)
        with fit_task(self, 1 + (CALIBRATION_FOLDS if self.probability else 0)) as task:
            combinations = self._boost(kernels, codes, task, "boosting")
            self.kernel_weights_ = np.array([c.kernel_weights for c in combinations])
            self.sample_weights_ = np.array([c.sample_weights for c in combinations])
            self.margin_ = np.array([c.margin for c in combinations])
            self.gap_ = np.array([c.gap for c in combinations])
            self.n_iter_ = np.array([c.n_iter for c in combinations])
            self._coefficients = np.array([c.coefficients for c in combinations])
            if self.probability:
                self._calibrate(kernels, codes, task)
        if not all(c.converged for c in combinations):
            warnings.warn(
                f"LPBoost did not converge in {self.max_iter} linear programs: a kernel could still raise the edge by "
                f"{self.gap_.max():.3g}; raise max_iter, or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    def _make_kernels(self, X: Array) -> Array:
        """Return the Gaussian kernels between the training samples, and store what the kernels of new samples need."""
        self._standardiser = _Standardiser.from_samples(X, scale=self.scale)
        if not self._standardiser.varies.any():
            raise ValueError(ALL_CONSTANT)
        self._training_rows = self._standardiser.apply(X)
        pairs = [(None, gamma) for gamma in DEFAULT_GAMMAS] if self.kernels is None else list(self.kernels)
        if not pairs:
            raise ValueError("kernels is an empty list; name at least one (columns, gamma).")
        self._columns_and_gammas = []
        for k, pair in enumerate(pairs):
            if not (isinstance(pair, Sequence) and len(pair) == 2):
                raise ValueError(f"kernels[{k}] is not a pair (columns, gamma).")
            columns = self._check_columns(pair[0], k)
            gamma = bandwidth(pair[1], squared_distances(self._training_rows[:, columns]))
            self._columns_and_gammas.append((columns, gamma))
        return self._kernels_with_training(X)

    def _check_columns(self, columns: Any, k: int) -> Array:
        """Return the indices of the columns of kernel k, at least one of which varies."""
        n = len(self._standardiser.varies)
        indices = np.arange(n) if columns is None else np.asarray(columns)
        if indices.dtype.kind == "b" and indices.shape == (n,):
            indices = np.flatnonzero(indices)
        valid = indices.ndim == 1 and indices.size > 0 and indices.dtype.kind in "iu"
        if not valid or indices.min() < 0 or indices.max() >= n:
            raise ValueError(
                f"kernels[{k}] names columns {columns!r}, but X has n_features={n}; give indices, a mask, or None."
            )
        if not self._standardiser.varies[indices].any():
            raise ValueError(f"kernels[{k}] has only constant columns; leave it out.")
        return indices

    def _kernels_with_training(self, X: Array) -> Array:
        """Return the kernels between samples and training samples: shape (kernels, samples, training samples)."""
        Z = self._standardiser.apply(X)
        return np.array(
            [gaussian_kernel(self._training_rows, gamma, columns=c, Z=Z).T for c, gamma in self._columns_and_gammas]
        )

    def _boost(self, kernels: Array, codes: Array, task: Task, name: str) -> list[Combination]:
        """Solve one binary problem for two classes, or one per class for more."""
        problems = [1] if len(self.classes_) == 2 else range(len(self.classes_))
        settings = self.nu, self.tol, self.max_iter
        with task.subtask(name, len(problems), in_order=False) as subtask:
            jobs = [
                (subtask.subtask("class", self.max_iter, number=k), kernels, np.where(codes == c, 1.0, -1.0), *settings)
                for k, c in enumerate(problems)
            ]
            return ordered_map(_boost_class, jobs, self.n_jobs)

    def _calibrate(self, kernels: Array, codes: Array, task: Task) -> None:
        """Fit a logistic regression of the classes on held-out decision values."""
        values = np.zeros((len(codes), len(self.kernel_weights_)))
        folds = StratifiedKFold(min(CALIBRATION_FOLDS, int(np.bincount(codes).min())), shuffle=True, random_state=0)
        for train, test in folds.split(codes, codes):
            combinations = self._boost(kernels[:, train[:, None], train], codes[train], task, "calibration")
            held_out = kernels[:, test[:, None], train]
            values[test] = np.array([np.einsum("ki,kti->t", c.coefficients, held_out) for c in combinations]).T
        self._calibration = LogisticRegression(C=1e4, max_iter=1000).fit(values, codes)

    def decision_function(self, X: Any) -> Array:
        """Return the decision values: one per sample for two classes, one per class for more.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or (n_kernels, n_samples, n_training_samples) if precomputed
            Numbers, no missing values.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Larger values mean higher confidence.
        """
        values = self._decision_values(X)
        return np.asarray(values[:, 0] if len(self.classes_) == 2 else values)

    def _decision_values(self, X: Any) -> Array:
        """Return the decision values, of shape (samples, problems)."""
        check_is_fitted(self, "_coefficients")
        if isinstance(self.kernels, str):
            kernels = stack_kernels(X)
            shape = self._coefficients.shape
            if kernels.ndim != 3 or kernels.shape[0] != shape[1] or kernels.shape[2] != shape[2]:
                raise ValueError(
                    f"Precomputed kernels to predict need the shape ({shape[1]}, new samples, {shape[2]}), but X has "
                    f"shape {kernels.shape}."
                )
            if n_nonfinite := int((~np.isfinite(kernels)).sum()):
                raise ValueError(f"Precomputed kernels to predict hold NaN or infinity in {n_nonfinite} places.")
        else:
            kernels = self._kernels_with_training(check_table(self, X, reset=False))
        return np.asarray(np.einsum("pki,kti->tp", self._coefficients, kernels, optimize=True))

    def predict(self, X: Any) -> Array:
        """Return the predicted classes.

        Parameters
        ----------
        X : array
            As in `decision_function`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Class labels.
        """
        values = self._decision_values(X)
        best = (values[:, 0] > 0).astype(int) if len(self.classes_) == 2 else values.argmax(axis=1)
        return np.asarray(self.classes_[best])

    @available_if(lambda self: self.probability)
    def predict_proba(self, X: Any) -> Array:
        """Return the class probabilities, calibrated on held-out values.

        Parameters
        ----------
        X : array
            As in `decision_function`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities, which sum to one for each sample.
        """
        return np.asarray(self._calibration.predict_proba(self._decision_values(X)))


def _boost_class(task: Task, kernels: Array, y: Array, nu: float, tol: float, max_iter: int) -> Combination:
    with task:
        return boost(kernels, y, nu, tol, max_iter, task.wrap("linear program", solve_dual))


class PathKernels(CallbackSupportMixin, TransformerMixin, BaseEstimator):
    """Select features, and compute a Gaussian kernel from the features of every culling round.

    The selector is part of this transformer, because a step of a pipeline cannot see the attributes of another step.
    Columns are scaled as the selector scales them, and new samples by the training samples.

    Parameters
    ----------
    selector : RandSel, default=None
        Fitted on the training samples. None: `RandSel()`.
    max_kernels : int, default=30
        Maximum number of rounds to use, spread evenly over the path, including the first and the last.

    Attributes
    ----------
    selector_ : RandSel
        The fitted selector.
    kernels_ : list of (columns, gamma)
        Features and bandwidth of every round used, first to last, as `LPBoostMKL` takes them.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from randsel import LPBoostMKL, PathKernels, RandSel, datasets
    >>> X, y, relevant = datasets.make_xor(200, 20, random_state=0)
    >>> model = make_pipeline(PathKernels(RandSel()), LPBoostMKL("precomputed")).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "selector": [RandSel, None],
        "max_kernels": [Interval(Integral, 2, None, closed="left")],
    }

    def __init__(self, selector: RandSel | None = None, *, max_kernels: int = 30) -> None:
        self.selector = selector
        self.max_kernels = max_kernels

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any) -> "PathKernels":
        """Select features, and store the training samples.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Numbers, no missing values.
        y : array of shape (n_samples,)
            The target.

        Returns
        -------
        PathKernels
            This transformer, fitted.
        """
        X = check_table(self, X, reset=True)
        with fit_task(self, 1) as task:
            self.selector_ = clone(RandSel() if self.selector is None else self.selector)
            selection = task.subtask("selection")
            with selection.delegate_to(self.selector_), selection:
                self.selector_.fit(X, y)
            rounds = self.selector_.path_.rounds
            n_kernels = min(self.max_kernels, len(rounds))
            numbers = np.unique(np.linspace(0, len(rounds) - 1, n_kernels).round().astype(int))
            self.kernels_ = [(rounds[number].features, rounds[number].gamma) for number in numbers]
            scale = self.selector_._scale()
            if isinstance(scale, str):
                self._standardiser: _Standardiser | RankScorer = RankScorer.from_samples(X, scale)
            else:
                self._standardiser = _Standardiser.from_samples(X, scale=scale)
            self._training_rows = self._standardiser.apply(X)
        return self

    def transform(self, X: Any) -> Array:
        """Return the kernels between the samples and the training samples.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Numbers, no missing values.

        Returns
        -------
        ndarray of shape (n_kernels, n_samples, n_training_samples)
            Input of `LPBoostMKL("precomputed")`.
        """
        check_is_fitted(self, "_training_rows")
        Z = self._standardiser.apply(check_table(self, X, reset=False))
        return np.array([gaussian_kernel(Z, gamma, columns=c, Z=self._training_rows) for c, gamma in self.kernels_])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
