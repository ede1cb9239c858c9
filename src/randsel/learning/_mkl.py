"""`LPBoostMKL`, a classifier that combines kernels, and `PathKernels`, which makes kernels of the rounds of a path."""

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

from randsel._numerics.columns import ALL_CONSTANT
from randsel._numerics.kernels import bandwidth, gaussian_kernel, squared_distances
from randsel._sklearn.progress import CallbackSupportMixin, Task, fit_task
from randsel._sklearn.validation import Interval, StrOptions, check_classes, check_table, fit_context
from randsel._utils.jobs import ordered_map
from randsel._utils.typing import Array
from randsel.learning._lpboost import Boosted, boost, check_kernels, solve_dual, stack_of
from randsel.selectors._randsel import RandSel

#: Multiples of the median bandwidth that kernels are made of if none are named.
GRID = ("0.25*median", "median", "4*median")
#: Folds whose held-out values probabilities are calibrated on.
CALIBRATION_FOLDS = 3


@dataclass(frozen=True)
class _Scaling:
    """Mean and spread of the training samples; constant columns are only centred, and make no distances."""

    offset: Array
    divisor: Array
    varies: Array

    @classmethod
    def of(cls, X: Array, *, scale: bool) -> "_Scaling":
        varies = X.max(axis=0) > X.min(axis=0)
        spread = X.std(axis=0)
        divisor = np.where(varies & (spread > 0.0), spread, 1.0) if scale else np.ones(X.shape[1])
        return cls(X.mean(axis=0), divisor, varies)

    def of_table(self, X: Array) -> Array:
        return np.asarray((X - self.offset) / self.divisor)


class LPBoostMKL(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Classify by a combination of kernels that LPBoost finds, with a soft margin.

    Every kernel stands for the unit ball of its functions. Few kernels get a weight: those that no others can replace.
    Of several classes each is set against the rest: kernels then may matter for one class and not for another, and a
    class is as much work as two are. (All pairs of classes would see fewer samples in each problem.)

    Parameters
    ----------
    kernels : None, "precomputed" or list of (columns, gamma), default=None
        None makes Gaussian kernels of all columns, at a quarter of the median bandwidth, at it, and at four times it.
        A list makes one of each pair: `columns` are indices or a mask (None for all), `gamma` as in `RandSel`.
        "precomputed" takes a stack of shape (kernels, samples, samples) for X, and of shape (kernels, new samples,
        training samples) to predict.
    nu : float in (0, 1], default=0.2
        Soft margin: at most this share of the samples lies within the margin or beyond it, and no sample has a weight
        above 1/(nu·n_samples). All of (0, 1] is feasible; but with several classes, of which each is set against the
        rest, a nu above the share of a class lets all of its samples lie beyond the margin. Take less.
    tol : float, default=1e-3
        Stop when no kernel could raise the edge by more, in units of the root of the largest diagonal entry.
    max_iter : int, default=200
        Linear programs per class at most.
    scale : bool, default=True
        Bring columns to standard deviation one first; not for precomputed kernels.
    probability : bool, default=False
        Allow `predict_proba`: calibrates on held-out values of three folds, which takes four times as long.
    n_jobs : int, default=None
        Jobs over classes (joblib).

    Attributes
    ----------
    classes_ : ndarray
        The classes.
    kernel_weights_ : ndarray of shape (n_problems, n_kernels)
        Weights of the kernels, summing to one in each row; one row for two classes, one per class for more.
    margin_, gap_, n_iter_ : ndarray of shape (n_problems,)
        Soft margin, how far it can be from the optimum, and linear programs solved.
    sample_weights_ : ndarray of shape (n_problems, n_samples)
        Weights of the samples at the optimum; positive for those within the margin.
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
        """Find the combination.

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
            kernels = check_kernels(stack_of(X), len(codes))
        else:
            X = check_table(self, X, reset=True)
            self.classes_, codes = check_classes(self, y, len(X))
            kernels = self._make_kernels(X)
        with fit_task(self, 1 + (CALIBRATION_FOLDS if self.probability else 0)) as task:
            found = self._boost(kernels, codes, task, "boosting")
            self.kernel_weights_ = np.array([each.kernel_weights for each in found])
            self.sample_weights_ = np.array([each.sample_weights for each in found])
            self.margin_ = np.array([each.margin for each in found])
            self.gap_ = np.array([each.gap for each in found])
            self.n_iter_ = np.array([each.n_iter for each in found])
            self._coefficients = np.array([each.coefficients for each in found])
            if self.probability:
                self._calibrate(kernels, codes, task)
        if not all(each.converged for each in found):
            worst = max(each.gap for each in found)
            warnings.warn(
                f"LPBoost did not converge in {self.max_iter} linear programs: a kernel could still raise the edge by "
                f"{worst:.3g}; raise max_iter, or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    def _make_kernels(self, X: Array) -> Array:
        """Gaussian kernels between the training samples; what new samples need for theirs is kept."""
        self._scaling = _Scaling.of(X, scale=self.scale)
        if not self._scaling.varies.any():
            raise ValueError(ALL_CONSTANT)
        X = self._scaling.of_table(X)
        wanted = [(None, gamma) for gamma in GRID] if self.kernels is None else list(self.kernels)
        if not wanted:
            msg = "kernels is an empty list; name at least one (columns, gamma)."
            raise ValueError(msg)
        self._train, self._specs = X, []
        for k, pair in enumerate(wanted):
            if not (isinstance(pair, Sequence) and len(pair) == 2):
                msg = f"kernels[{k}] is not a pair (columns, gamma)."
                raise ValueError(msg)
            columns = self._columns(pair[0], k)
            distances = squared_distances(X[:, columns])
            self._specs.append((columns, bandwidth(pair[1], distances)))
        return self._between(X)

    def _columns(self, columns: Any, k: int) -> Array:
        """Numbers of the columns of a kernel, of which one at least varies."""
        n = len(self._scaling.varies)
        named = np.arange(n) if columns is None else np.asarray(columns)
        if named.dtype.kind == "b" and named.shape == (n,):
            named = np.flatnonzero(named)
        if named.ndim != 1 or not named.size or named.dtype.kind not in "iu" or not np.all((named >= 0) & (named < n)):
            msg = f"kernels[{k}] names columns {columns!r}, but X has n_features={n}; give indices, a mask, or None."
            raise ValueError(msg)
        if not self._scaling.varies[named].any():
            msg = f"kernels[{k}] has only constant columns; leave it out."
            raise ValueError(msg)
        return named

    def _between(self, X: Array) -> Array:
        return np.array([gaussian_kernel(self._train, gamma, columns=at, Z=X).T for at, gamma in self._specs])

    def _boost(self, kernels: Array, codes: Array, task: Task, name: str) -> list[Boosted]:
        problems = [1] if len(self.classes_) == 2 else range(len(self.classes_))
        how = self.nu, self.tol, self.max_iter
        with task.subtask(name, len(problems), in_order=False) as part:
            parts = [
                (part.subtask("class", self.max_iter, number=k), kernels, np.where(codes == c, 1.0, -1.0), *how)
                for k, c in enumerate(problems)
            ]
            return ordered_map(_boost_class, parts, self.n_jobs)

    def _calibrate(self, kernels: Array, codes: Array, task: Task) -> None:
        values = np.zeros((len(codes), len(self.kernel_weights_)))
        folds = StratifiedKFold(min(CALIBRATION_FOLDS, int(np.bincount(codes).min())), shuffle=True, random_state=0)
        for train, test in folds.split(codes, codes):
            found = self._boost(kernels[:, train[:, None], train], codes[train], task, "calibration")
            between = kernels[:, test[:, None], train]
            values[test] = np.array([np.einsum("ki,kti->t", each.coefficients, between) for each in found]).T
        self._calibration = LogisticRegression(C=1e4, max_iter=1000).fit(values, codes)

    def decision_function(self, X: Any) -> Array:
        """Values of the combination: one per sample for two classes, one per class for more.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or (n_kernels, n_samples, n_training_samples) if precomputed
            Numbers, no missing values.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            The larger, the surer.
        """
        values = self._values(X)
        return np.asarray(values[:, 0] if len(self.classes_) == 2 else values)

    def _values(self, X: Any) -> Array:
        check_is_fitted(self, "_coefficients")
        if isinstance(self.kernels, str):
            kernels = stack_of(X)
            shape = self._coefficients.shape
            if kernels.ndim != 3 or kernels.shape[0] != shape[1] or kernels.shape[2] != shape[2]:
                msg = (
                    f"Precomputed kernels to predict need the shape ({shape[1]}, new samples, {shape[2]}), but X has "
                    f"shape {kernels.shape}."
                )
                raise ValueError(msg)
            bad = int((~np.isfinite(kernels)).sum())
            if bad:
                msg = f"Precomputed kernels to predict hold NaN or infinity in {bad} places."
                raise ValueError(msg)
        else:
            kernels = self._between(self._scaling.of_table(check_table(self, X, reset=False)))
        return np.asarray(np.einsum("pki,kti->tp", self._coefficients, kernels, optimize=True))

    def predict(self, X: Any) -> Array:
        """Return the class of the largest value.

        Parameters
        ----------
        X : array
            As in `decision_function`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Class labels.
        """
        values = self._values(X)
        best = (values[:, 0] > 0).astype(int) if len(self.classes_) == 2 else values.argmax(axis=1)
        return np.asarray(self.classes_[best])

    @available_if(lambda self: self.probability)
    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of the classes, calibrated on held-out values.

        Parameters
        ----------
        X : array
            As in `decision_function`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            They sum to one.
        """
        return np.asarray(self._calibration.predict_proba(self._values(X)))


def _boost_class(task: Task, kernels: Array, y: Array, nu: float, tol: float, max_iter: int) -> Boosted:
    with task:
        return boost(kernels, y, nu, tol, max_iter, task.every_call("linear program", solve_dual))


class PathKernels(CallbackSupportMixin, TransformerMixin, BaseEstimator):
    """Select features, and make a Gaussian kernel of the features of every round of the path.

    The selector is inside, because a step of a pipeline does not see the attributes of the step before it.

    Parameters
    ----------
    selector : RandSel, default=None
        Fitted on the training samples. None: `RandSel()`.
    max_kernels : int, default=30
        Rounds to use at most, spread evenly over the path; the first and the last are always there.

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
        """Select features and keep the training samples.

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
            with selection.passed_to(self.selector_), selection:
                self.selector_.fit(X, y)
            rounds = self.selector_.path_.rounds
            chosen = np.unique(np.linspace(0, len(rounds) - 1, min(self.max_kernels, len(rounds))).round().astype(int))
            self.kernels_ = [(rounds[r].features, rounds[r].gamma) for r in chosen]
            self._scaling = _Scaling.of(X, scale=self.selector_.scale)
            self._train = self._scaling.of_table(X)
        return self

    def transform(self, X: Any) -> Array:
        """Return the kernels between samples and the training samples.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Numbers, no missing values.

        Returns
        -------
        ndarray of shape (n_kernels, n_samples, n_training_samples)
            What `LPBoostMKL("precomputed")` takes.
        """
        check_is_fitted(self, "_train")
        Z = self._scaling.of_table(check_table(self, X, reset=False))
        return np.array([gaussian_kernel(Z, gamma, columns=at, Z=self._train) for at, gamma in self.kernels_])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
