"""`RandSelCV`: chooses bandwidth and number of features by cross-validation of a model."""

import sys
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from randsel._numerics.arrays import is_sparse, is_structured
from randsel._numerics.columns import MAX_DENSE, dense_bytes
from randsel._numerics.kernels import median_factor
from randsel._numerics.missing import impute_means
from randsel._numerics.standardise import exponents_of_extremes, rescale
from randsel._sklearn.annotations import find_distinct_columns
from randsel._sklearn.base import (
    HasMethods,
    Selector,
    Task,
    check_annotations,
    check_data,
    drop_unweighted_rows,
    fit_context,
    fit_task,
    tensor_to_numpy,
)
from randsel._utils.jobs import ordered_map, seed_of
from randsel._utils.text import collect_warnings, warn
from randsel._utils.typing import Array
from randsel.culling import path_sizes
from randsel.selectors._prediction import PredictionMixin, takes_missing, weights_for
from randsel.selectors._randsel import RandSel
from randsel.targets import SURVIVAL, Annotations, OutcomeKind

#: Number of folds that `cv=None` means in scikit-learn.
DEFAULT_FOLDS = 5
#: Attributes of the fitted selector that this estimator has as well.
SELECTOR_ATTRIBUTES = (
    "support_",
    "ranking_",
    "order_",
    "contributions_",
    "main_scores_",
    "interaction_scores_",
    "path_",
    "fixed_",
    "stands_out_",
    "permutation_pvalue_",
    "missing_counts_",
)


class RandSelCV(PredictionMixin, Selector):
    """Choose the bandwidth and the number of features by cross-validation of a model, then select with `RandSel`.

    For every fold and bandwidth, a path is culled on the training samples. For every size on the path, the model is
    fitted on the best features and scored on the held-out samples. The best mean score wins; on ties, fewer features.

    Parameters
    ----------
    estimator : scikit-learn estimator, default=None
        The model that is scored. None: a Gaussian support vector machine with C = 1 on standardised features; for
        survival, a regression of the martingale residuals of the training samples. Models of scikit-survival work, too.
    selector : RandSel, default=None
        The selector, whose `gamma` and `n_features_to_select` are chosen here. None: `RandSel()`. With its
        `target="auto"`, one column y holds classes if `estimator` is a classifier, and numbers if it is a regressor.
    cv : int, splitter or iterable, default=10
        An integer is a number of folds. They are shuffled by `random_state`, and hold equal fractions of every class,
        of every quantile bin of a number, or of events; groups that `fit` gets are not split. The number is reduced,
        with a warning, if a class has fewer members. None is 5. A splitter of scikit-learn, or an iterable of training
        and test rows, is used as it is.
    gammas : sequence of float or str, default=("0.25*median", "median", "4*median")
        Bandwidths to try, as in `RandSel`.
    scoring : str or callable, default=None
        Score of the model. None: the model's own score (accuracy, R², or concordance index).
    n_jobs : int, default=None
        Number of jobs (joblib) over folds and bandwidths.
    random_state : int, RandomState or None, default=0
        Seed of the folds of an integer `cv`. None draws new folds in every fit. The selector has its own seed.
    verbose : int, default=0
        1 writes the chosen bandwidth and number of features to standard error.

    Attributes
    ----------
    n_features_ : int
        The chosen number of features.
    gamma_ : float or str
        The chosen bandwidth.
    best_score_ : float
        Mean score of the choice over the folds. It is the best of several and so too optimistic: for an honest
        estimate, cross-validate the whole estimator.
    cv_results_ : dict of lists
        "gamma", "n_features", "mean_score", "std_score", one entry per candidate.
    estimator_ : estimator
        The model fitted on the selected features of all samples, by which `predict` and `score` predict.
    classes_ : ndarray
        Labels of the classes, if the model is a classifier.
    selector_ : RandSel
        The selector fitted on all samples; this estimator has its attributes `support_`, `ranking_`, `path_`, ….
    missing_counts_ : ndarray of int
        Number of missing values of every column.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from randsel import RandSelCV, datasets
    >>> X, y, relevant = datasets.make_xor(200, 20, random_state=0)
    >>> RandSelCV(cv=5, gammas=["median"]).fit(X, y).get_support(indices=True)
    array([0, 1])
    """

    _reads_sparse_blocks = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit"]), None],
        "selector": [RandSel, None],
        "cv": ["cv_object"],
        "gammas": ["array-like", str],
        "scoring": [str, callable, None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        selector: RandSel | None = None,
        cv: Any = 10,
        gammas: Any = ("0.25*median", "median", "4*median"),
        scoring: str | Callable[..., float] | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.selector = selector
        self.cv = cv
        self.gammas = gammas
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        batch: Any = None,
        covariates: Any = None,
    ) -> "RandSelCV":
        """Choose bandwidth and number of features, and select.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_samples, n_features)
            Numbers. A missing value (NaN) is neutral in the selection, as in `RandSel`. Models that do not take NaN get
            the means of the training samples. If a sparse matrix is read in blocks, as in `RandSel`, only numbers of
            features whose columns take at most 256 MB as a dense array are tried.
        y : array of shape (n_samples,) or (n_samples, n_outputs)
            Class labels, numbers, several columns of numbers, or events and times, as in `RandSel`.
        sample_weight : array of shape (n_samples,), default=None
            Passed to the selector, and to the model if it takes weights.
        groups : array of shape (n_samples,), default=None
            Samples of one group, such as a donor, stay in one fold. Also passed to the selector.
        batch, covariates : array of shape (n_samples,), and array or data frame, default=None
            Passed to the selector, see `RandSel.fit`. The model does not use them.

        Returns
        -------
        RandSelCV
            This estimator, fitted.
        """
        selector = RandSel() if self.selector is None else self.selector
        selector._validate_params()
        X = tensor_to_numpy(X)
        X, y, kind, weights = check_data(self, X, y, sample_weight, self._find_target(selector, y))
        scaled = selector._scale() and not is_sparse(X)
        exponents = exponents_of_extremes(X) if scaled else np.zeros(X.shape[1], dtype=int)
        X = X.tocsr() if is_sparse(X) else rescale(X, exponents)
        annotations = check_annotations(groups, batch, covariates, None, len(y))
        if (self.cv is None or isinstance(self.cv, Integral)) and weights is not None:
            annotations = annotations.rows(weights > 0.0)
            X, y, weights = drop_unweighted_rows(X, y, weights)
        gammas = _check_gammas(self.gammas)
        names = getattr(self, "feature_names_in_", None)  # the selector gets an array without names
        always_keep = find_distinct_columns(selector.always_keep, "always_keep", self.n_features_in_, names)
        selector = clone(selector).set_params(target=kind.name, random_state=seed_of(selector.random_state))
        selector.set_params(always_keep=always_keep)
        model = _default_model(kind, y) if self.estimator is None else self.estimator
        scorer = _check_scorer(model, self.scoring, kind)
        folds = _check_folds(self._split(X, y, kind, annotations.groups), weights)
        sizes = path_sizes(X.shape[1], selector.drop, max(selector.min_features, len(always_keep)))
        if is_sparse(X):  # models get dense columns
            sizes = [size for size in sizes if dense_bytes(X) * size <= MAX_DENSE * X.shape[1]]
        candidates = [(gamma, fold) for gamma in gammas for fold in folds]
        with fit_task(self, len(candidates) + 1, in_order=False) as task:
            common = (selector, model, scorer), sizes, (X, y, weights, annotations)
            tasks = [(*common, *entry, task.subtask("fold", number=k)) for k, entry in enumerate(candidates)]
            scores = np.reshape(ordered_map(_score_fold, tasks, self.n_jobs), (len(gammas), len(folds), len(sizes)))
            if not np.isfinite(scores).all():
                raise ValueError(
                    "The model's score is not a finite number in some fold; look at `scoring` and at the model."
                )
            self._choose(gammas, sizes, scores)
            self.selector_ = clone(selector).set_params(gamma=self.gamma_, n_features_to_select=self.n_features_)
            refit = task.subtask("refit", number=len(candidates))
            with refit.delegate_to(self.selector_), refit:
                self.selector_.fit(X, y, sample_weight=weights, **annotations.as_arguments())
            for name in SELECTOR_ATTRIBUTES:
                setattr(self, name, getattr(self.selector_, name))
            self._fit_model(model, X, y, weights, exponents)
        if self.verbose:
            sys.stderr.write(
                f"[RandSelCV] gamma {self.gamma_}, {self.n_features_} features, score {self.best_score_:.4f}\n"
            )
        return self

    def _find_target(self, selector: RandSel, y: Any) -> str:
        """Return `target` of the selector; "auto" is resolved by the model where it can be."""
        if selector.target != "auto" or not hasattr(self.estimator, "__sklearn_tags__") or is_structured(y):
            return str(selector.target)
        shape = np.asarray(tensor_to_numpy(y)).shape
        if len(shape) == 2 and shape[1] > 1:
            return "auto"
        if is_classifier(self.estimator):
            return "classification"
        return "regression" if is_regressor(self.estimator) else "auto"

    def _split(self, X: Array, y: Array, kind: OutcomeKind, groups: Array | None) -> Any:
        """Return the training and test rows of the folds; warn if there are fewer folds than `cv`."""
        cv = DEFAULT_FOLDS if self.cv is None else self.cv
        if not isinstance(cv, Integral):
            return check_cv(cv, y, classifier=kind.has_classes).split(X, y, groups)
        possible = int(kind.units_per_stratum(y, groups).min())
        if possible < 2:
            cause = "a class of one member" if groups is None else "a class within one group, or one group only"
            remedy = "drop it"
            if kind is SURVIVAL:
                cause = "fewer than four events" if groups is None else "events in fewer than four groups"
                remedy = "follow samples longer"
            raise ValueError(
                f"y has {cause}, too few for both the training and the test samples of a fold; {remedy}, or pass "
                "splits of your own as cv."
            )
        if self.scoring is None and groups is None and not kind.has_classes and kind is not SURVIVAL:
            possible = max(possible // 2, 2)  # R² needs two samples in every fold
        n_splits = min(int(cv), possible)
        if n_splits < int(cv):
            unit = kind.limits_of_folds[groups is not None]
            count = int(kind.units_per_stratum(y, groups).min())
            warn(f"cv={cv} was reduced to {n_splits} folds, because there are only {count} {unit}.", stacklevel=4)
        return kind.splits(y, groups, n_splits, seed_of(self.random_state))

    def _choose(self, gammas: list[float | str], sizes: list[int], scores: Array) -> None:
        """Set the results; choose the best mean score, on ties the fewest features, then the first bandwidth."""
        means, spreads = scores.mean(axis=1), scores.std(axis=1)
        grid = [(g, k) for g in range(len(gammas)) for k in range(len(sizes))]
        self.cv_results_ = {
            "gamma": [gammas[g] for g, _ in grid],
            "n_features": [sizes[k] for _, k in grid],
            "mean_score": [float(means[g, k]) for g, k in grid],
            "std_score": [float(spreads[g, k]) for g, k in grid],
        }
        # Means of equal scores may differ in the last digit.
        tied = [(g, k) for g, k in grid if means[g, k] >= means.max() - 1e-12]
        g, k = min(tied, key=lambda t: (sizes[t[1]], t[0]))
        self.gamma_, self.n_features_, self.best_score_ = gammas[g], sizes[k], float(means[g, k])


def _check_gammas(gammas: Any) -> list[float | str]:
    checked: list[float | str] = []
    for gamma in [gammas] if isinstance(gammas, str) else list(gammas):
        if isinstance(gamma, str):
            median_factor(gamma)
            checked.append(str(gamma))
        elif isinstance(gamma, Real) and 0 < float(gamma) < np.inf:
            checked.append(float(gamma))
        else:
            raise ValueError(
                f"gammas has the entry {gamma!r}; entries are positive numbers, 'median', or '0.5*median' and the like."
            )
    if not checked:
        raise ValueError("gammas is empty; give at least one bandwidth, for example ['median'].")
    return checked


def _check_folds(splits: Any, weights: Array | None) -> list[tuple[Array, Array]]:
    """Return the training and test rows of every fold, without samples of weight zero."""
    folds = []
    for split in splits:
        train, test = (np.flatnonzero(rows) if np.asarray(rows).dtype == bool else np.asarray(rows) for rows in split)
        if weights is not None:
            train, test = train[weights[train] > 0.0], test[weights[test] > 0.0]
        folds.append((train, test))
    smallest = min((min(len(train) - 3, len(test)) for train, test in folds), default=0)
    if smallest < 1:
        raise ValueError(
            "cv leaves a fold with fewer than 4 samples to fit on or none to score, or gives no fold; use fewer folds."
        )
    return folds


def _check_scorer(model: Any, scoring: Any, kind: OutcomeKind) -> Any:
    """Return the scorer; with survival, refuse names of scores of scikit-learn, which do not handle censored times."""
    if kind is SURVIVAL and isinstance(scoring, str):
        raise ValueError(
            f"scoring={scoring!r} cannot score survival times, of which some are censored; leave it out for the "
            "model's own score, such as the concordance index, or pass a function of model, X and y."
        )
    return check_scoring(model, scoring=scoring)


def _default_model(kind: OutcomeKind, y: Array) -> Any:
    model = kind.svm() if y.ndim == 1 else MultiOutputRegressor(kind.svm())
    return make_pipeline(StandardScaler(), model)


def _score_fold(
    estimators: tuple[RandSel, Any, Any],
    sizes: list[int],
    data: tuple[Any, Array, Array | None, Annotations],
    gamma: float | str,
    fold: Any,
    task: Task,
) -> list[float]:
    """Return the score of the model on the held-out samples, for the best features of every size."""
    selector, model, scorer = estimators
    X: Any
    X, y, weights, annotations = data
    train, test = fold
    train_weights = None if weights is None else weights[train]
    train_annotations = annotations.rows(train).as_arguments()
    fitted_selector = clone(selector).set_params(gamma=gamma, n_features_to_select=max(1, len(selector.always_keep)))
    scores = []
    with task.delegate_to(fitted_selector), task:
        with collect_warnings():  # the fit on all samples tells
            fitted_selector.fit(X[train], y[train], sample_weight=train_weights, **train_annotations)
        fills_in = not takes_missing(model)
        if fills_in and not is_sparse(X):
            X = impute_means(X, train)
        for size in sizes:
            columns = fitted_selector.order_[:size]
            values, indices = X, columns
            if is_sparse(X):
                values, indices = X[:, columns].toarray(), np.arange(size)
                values = impute_means(values, train) if fills_in else values
            fitted_model = clone(model)
            fitted_model.fit(values[np.ix_(train, indices)], y[train], **weights_for(fitted_model, train_weights))
            scores.append(float(scorer(fitted_model, values[np.ix_(test, indices)], y[test])))
    return scores
