"""The estimators. They validate, call the mathematics, and set attributes."""

import sys
import warnings
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.feature_selection import SelectorMixin
from sklearn.metrics import check_scoring
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold, check_cv
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from randsel._parallel import generator, ordered_map, seed_of
from randsel._validation import (
    HasMethods,
    Interval,
    RealNotInt,
    StrOptions,
    check_data,
    check_number_to_select,
    fit_context,
    standardise,
)
from randsel.contribution import Draws, bootstrap, exact
from randsel.culling import CullingPath, Round, Rules, cull, median_factor, path_sizes
from randsel.kernels import Array, Sample, Target


class RandSel(SelectorMixin, BaseEstimator):
    """Select features by their contribution to kernel-target alignment, culling round by round.

    Features that act on the target alone or together, linearly or not, contribute to the agreement between a Gaussian
    kernel on a random subset of features and the kernel of the target. Each round estimates all contributions on the
    features left, and culls those that contribute least.

    Parameters
    ----------
    n_features_to_select : int, float in (0, 1] or "auto", default="auto"
        How many features, which share of them, or the round of the path whose features align best with the target.
    estimator : {"exact", "bootstrap"}, default="exact"
        The closed form of the contribution, or the paper's Algorithm 1 by random subsets.
    criterion : {"auto", "calibrated", "total"}, default="auto"
        What rounds cull by: the positive parts of the main and the interaction score ("calibrated", needs
        `estimator="exact"`), or the paper's contribution ("total"). "auto" is the first with "exact", else the second.
        The keyword `score` is accepted for it too; it cannot be the parameter's name, because scikit-learn takes an
        attribute called `score` for a method.
    gamma : float or str, default="median"
        Bandwidth, `exp(-gamma ‖x - x'‖²)`: "median" is one over the median squared distance over the features left,
        in each round; "0.5*median" a multiple of it; a number is used as it is.
    drop : float in (0, 1), default=0.25
        Fraction of the features culled per round, at least one.
    min_features : int, default=2
        The path ends at this many features.
    n_bootstraps, subsample : int, default=3000, and float in (0, 1], default=0.25
        Random subsets per round, and the share of the rows each is evaluated on. With `estimator="exact"` they matter
        only above 2000 samples: the closed form is then averaged over random row blocks of that share, of at most
        2000 rows, at most `n_bootstraps` of them.
    fix_top, fix_after : float in (0, 1) and int, default=None
        A feature among this top fraction for this many consecutive rounds is kept for good and enters every subset.
    target : {"auto", "classification", "regression"}, default="auto"
        Meaning of y. "auto" takes text, and whole numbers of at most 20 values, for classes.
    scale : bool, default=True
        Bring all columns to standard deviation one. Without it a column of large values dominates the distances.
    device : {"cpu"} or None, default=None
        Where to compute.
    n_jobs : int, default=None
        Jobs over bootstraps or row blocks (joblib). The answer does not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of the bootstraps and row blocks. The exact estimator on up to 2000 samples is not random.
    verbose : int, default=0
        1 writes a line per round to standard error.

    Attributes
    ----------
    support_ : ndarray of bool
        The selected features.
    ranking_ : ndarray of int
        1 for selected features, 2 for the one culled last, and so on. Constant columns share the last rank.
    contributions_ : ndarray of float
        The paper's contribution at the last round in which the feature lived.
    main_scores_, interaction_scores_ : ndarray of float
        Standard scores of what the feature does alone and together with others, at that round (NaN with "bootstrap").
    path_ : CullingPath
        The rounds: features, contributions, scores, dropped, fixed, gamma, alignment.
    fixed_ : ndarray of int
        Features that were fixed.
    n_features_ : int
        Number of selected features.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from randsel import RandSel, datasets
    >>> X, y, relevant = datasets.make_xor(300, 100, random_state=0)
    >>> RandSel().fit(X, y).get_support(indices=True)
    array([0, 1])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_features_to_select": [
            Interval(Integral, 1, None, closed="left"),
            Interval(RealNotInt, 0, 1, closed="right"),
            StrOptions({"auto"}),
        ],
        "estimator": [StrOptions({"exact", "bootstrap"})],
        "criterion": [StrOptions({"auto", "calibrated", "total"})],
        "gamma": [Interval(Real, 0, None, closed="neither"), str],
        "drop": [Interval(Real, 0, 1, closed="neither")],
        "min_features": [Interval(Integral, 1, None, closed="left")],
        "n_bootstraps": [Interval(Integral, 1, None, closed="left")],
        "subsample": [Interval(Real, 0, 1, closed="right")],
        "fix_top": [Interval(Real, 0, 1, closed="neither"), None],
        "fix_after": [Interval(Integral, 1, None, closed="left"), None],
        "target": [StrOptions({"auto", "classification", "regression"})],
        "scale": ["boolean"],
        "device": [StrOptions({"cpu"}), None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_features_to_select: int | float | str = "auto",
        *,
        estimator: str = "exact",
        criterion: str = "auto",
        gamma: float | str = "median",
        drop: float = 0.25,
        min_features: int = 2,
        n_bootstraps: int = 3000,
        subsample: float = 0.25,
        fix_top: float | None = None,
        fix_after: int | None = None,
        target: str = "auto",
        scale: bool = True,
        device: str | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        **score: str,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.estimator = estimator
        self.criterion = _criterion(criterion, score)
        self.gamma = gamma
        self.drop = drop
        self.min_features = min_features
        self.n_bootstraps = n_bootstraps
        self.subsample = subsample
        self.fix_top = fix_top
        self.fix_after = fix_after
        self.target = target
        self.scale = scale
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "RandSel":
        """Rank and select features.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Numbers, no missing values.
        y : array of shape (n_samples,) or (n_samples, n_outputs)
            Class labels, numbers, or several columns of numbers.
        sample_weight : array of shape (n_samples,), default=None
            How much each sample counts; samples of weight zero are left out.

        Returns
        -------
        RandSel
            This estimator, fitted.
        """
        rules = self._rules()
        X, y, kind, weights, _ = check_data(self, X, y, sample_weight, self.target)
        n_features = X.shape[1]
        wanted = check_number_to_select(self.n_features_to_select, n_features)
        Z, varies = standardise(X, weights, self.scale)
        if not varies.any():
            msg = "Every column of X is constant, so there is nothing to select; check how the table was read."
            raise ValueError(msg)
        order = _canonical_order(Z)
        sample = Sample.of(Z[:, order], Target.encode(y, kind, weights))
        columns = np.flatnonzero(varies)[order]
        draws = Draws(self.n_bootstraps, self.subsample, seed_of(self.random_state), self.n_jobs)
        on_round = _line_per_round if self.verbose else None
        path = cull(sample, exact if self.estimator == "exact" else bootstrap, rules, draws, on_round)
        self._set_attributes(path.relabel(columns), n_features, wanted)
        return self

    def _rules(self) -> Rules:
        if isinstance(self.gamma, str):
            median_factor(self.gamma)
        if (self.fix_top is None) != (self.fix_after is None):
            msg = f"fix_top={self.fix_top} and fix_after={self.fix_after}: fixing needs both, or neither."
            raise ValueError(msg)
        if self.criterion == "calibrated" and self.estimator == "bootstrap":
            msg = "criterion='calibrated' needs estimator='exact'; the bootstrap estimates the total only."
            raise ValueError(msg)
        automatic = "calibrated" if self.estimator == "exact" else "total"
        return Rules(
            drop=self.drop,
            min_features=self.min_features,
            fix_top=self.fix_top,
            fix_after=self.fix_after,
            score=automatic if self.criterion == "auto" else self.criterion,
            gamma=self.gamma,
        )

    def _set_attributes(self, path: CullingPath, n_features: int, wanted: int | None) -> None:
        self.path_ = path
        self.fixed_ = path.fixed
        self.contributions_ = path.last_values("contributions", n_features)
        self.main_scores_ = path.last_values("main", n_features)
        self.interaction_scores_ = path.last_values("interaction", n_features)
        if wanted is None:
            best = path.rounds[path.best]
            wanted = len(best.features)
            if not path.stands_out:
                warnings.warn(
                    f"Nothing stands out: the {wanted} features of the best round align with the target by "
                    f"{best.alignment:.3f}, and culling pure noise would reach about {best.chance:.3f}. Do not read "
                    "this selection as a finding; more samples may help.",
                    UserWarning,
                    stacklevel=3,
                )
        self.ranking_ = _ranking(path.order, n_features, wanted)
        self.support_ = self.ranking_ == 1
        self.n_features_ = int(self.support_.sum())

    def _get_support_mask(self) -> Array:
        check_is_fitted(self)
        return self.support_

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: y is required and may have several columns."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.two_d_labels = True
        return tags


def _criterion(criterion: str, others: dict[str, str]) -> str:
    """Take the keyword `score` for `criterion`, and no other unknown keyword."""
    unknown = set(others) - {"score"}
    if unknown:
        msg = f"RandSel.__init__() got an unexpected keyword argument {min(unknown)!r}"
        raise TypeError(msg)
    return others.get("score", criterion)


def _canonical_order(Z: Array) -> Array:
    """An order of the columns that depends on what they hold, not on where they stand.

    Draws and rounding then follow the columns wherever they are moved. Row by row, because a matrix product may
    round a column differently at another place.
    """
    keys = np.zeros(Z.shape[1])
    for factor, row in zip(generator(0).standard_normal(len(Z)), Z, strict=True):
        keys += factor * row
    return np.argsort(keys, kind="stable")


def _ranking(order: Array, n_features: int, wanted: int) -> Array:
    """1 for the first `wanted` of `order`, then 2, 3, …; columns not in `order` are constant and share the last rank."""
    constant = np.setdiff1d(np.arange(n_features), order)
    ranking = np.empty(n_features, dtype=int)
    ranking[order] = np.maximum(np.arange(len(order)) - wanted + 2, 1)
    ranking[constant] = max(len(order) - wanted + 2, 2)
    if wanted > len(order):
        warnings.warn(
            f"{wanted} features were asked for but only {len(order)} vary; the selection was filled up with constant "
            "columns, which carry no information.",
            UserWarning,
            stacklevel=4,
        )
        ranking[constant[: wanted - len(order)]] = 1
    return ranking


def _line_per_round(r: Round) -> None:
    sys.stderr.write(f"[RandSel] {len(r.features)} features, alignment {r.alignment:.4f}, gamma {r.gamma:.3g}\n")


class RandSelCV(SelectorMixin, BaseEstimator):
    """Choose the bandwidth and the number of features by cross-validation of a model, then select with `RandSel`.

    For every fold and bandwidth a path is culled on the training samples; the model is fitted on the features of every
    size of the path and scored on the held-out samples. The best mean score wins; on ties, the fewest features.

    Parameters
    ----------
    estimator : scikit-learn estimator, default=None
        The model whose score decides. None: a Gaussian support vector machine with C = 1 on standardised features.
    selector : RandSel, default=None
        The selector, whose `gamma` and `n_features_to_select` are chosen here. None: `RandSel()`.
    cv : int, splitter or iterable, default=10
        Folds. An integer means stratified folds for classes, group-wise folds if `fit` gets `groups`; it is reduced,
        with a warning, where a class has fewer members.
    gammas : sequence of float or str, default=("0.25*median", "median", "4*median")
        Bandwidths to try, as in `RandSel`.
    scoring : str or callable, default=None
        Score of the model; None is the model's own (accuracy, or R²).
    n_jobs : int, default=None
        Jobs over folds and bandwidths (joblib).
    verbose : int, default=0
        1 writes the chosen bandwidth and number of features to standard error.

    Attributes
    ----------
    n_features_ : int
        The chosen number of features.
    gamma_ : float or str
        The chosen bandwidth.
    best_score_ : float
        Mean score of the choice over the folds. It was chosen for being the best: nest the whole estimator in an
        outer cross-validation for an honest estimate.
    cv_results_ : dict of lists
        "gamma", "n_features", "mean_score", "std_score", one entry per candidate.
    selector_ : RandSel
        The selector fitted on all samples; its attributes (`support_`, `ranking_`, `path_`, …) are here too.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from randsel import RandSelCV, datasets
    >>> X, y, relevant = datasets.make_xor(200, 20, random_state=0)
    >>> RandSelCV(cv=5, gammas=["median"]).fit(X, y).get_support(indices=True)
    array([0, 1])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit"]), None],
        "selector": [RandSel, None],
        "cv": ["cv_object"],
        "gammas": ["array-like"],
        "scoring": [str, callable, None],
        "n_jobs": [Integral, None],
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
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.selector = selector
        self.cv = cv
        self.gammas = gammas
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> "RandSelCV":
        """Choose bandwidth and number of features, and select.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Numbers, no missing values.
        y : array of shape (n_samples,) or (n_samples, n_outputs)
            Class labels, numbers, or several columns of numbers.
        sample_weight : array of shape (n_samples,), default=None
            Passed to the selector, and to the model if it takes weights.
        groups : array of shape (n_samples,), default=None
            Samples of one group (a donor, say) stay in one fold.

        Returns
        -------
        RandSelCV
            This estimator, fitted.
        """
        selector = RandSel() if self.selector is None else self.selector
        X, y, kind, weights, rows = check_data(self, X, y, sample_weight, selector.target)
        groups = None if groups is None else np.asarray(groups)[rows]
        gammas = _check_gammas(self.gammas)
        selector = clone(selector).set_params(target=kind, random_state=seed_of(selector.random_state))
        model = _default_model(kind, y) if self.estimator is None else self.estimator
        scorer = check_scoring(model, scoring=self.scoring)
        folds = list(_folds(self.cv, y, kind, groups).split(X, y, groups))
        sizes = path_sizes(X.shape[1], selector.drop, selector.min_features)
        tasks = [
            (selector, model, scorer, gamma, sizes, X, y, weights, fold) for gamma in gammas for fold in folds
        ]
        scores = np.reshape(ordered_map(_score_fold, tasks, self.n_jobs), (len(gammas), len(folds), len(sizes)))
        self._choose(gammas, sizes, scores)
        self.selector_ = clone(selector).set_params(gamma=self.gamma_, n_features_to_select=self.n_features_)
        self.selector_.fit(X, y, sample_weight=weights)
        for name in ("support_", "ranking_", "contributions_", "main_scores_", "interaction_scores_", "path_", "fixed_"):
            setattr(self, name, getattr(self.selector_, name))
        if self.verbose:
            sys.stderr.write(f"[RandSelCV] gamma {self.gamma_}, {self.n_features_} features, score {self.best_score_:.4f}\n")
        return self

    def _choose(self, gammas: list[float | str], sizes: list[int], scores: Array) -> None:
        """Best mean score; on ties the fewest features, then the first bandwidth."""
        means, spreads = scores.mean(axis=1), scores.std(axis=1)
        at = [(g, k) for g in range(len(gammas)) for k in range(len(sizes))]
        self.cv_results_ = {
            "gamma": [gammas[g] for g, _ in at],
            "n_features": [sizes[k] for _, k in at],
            "mean_score": [float(means[g, k]) for g, k in at],
            "std_score": [float(spreads[g, k]) for g, k in at],
        }
        # means of the same scores in another order may differ in the last digit
        tied = [(g, k) for g, k in at if means[g, k] >= means.max() - 1e-12]
        g, k = min(tied, key=lambda t: (sizes[t[1]], t[0]))
        self.gamma_, self.n_features_, self.best_score_ = gammas[g], sizes[k], float(means[g, k])

    def _get_support_mask(self) -> Array:
        check_is_fitted(self)
        return self.support_

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: y is required and may have several columns."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.two_d_labels = True
        return tags


def _check_gammas(gammas: Any) -> list[float | str]:
    checked: list[float | str] = []
    for gamma in [gammas] if isinstance(gammas, str) else list(gammas):
        if isinstance(gamma, str):
            median_factor(gamma)
            checked.append(str(gamma))
        elif isinstance(gamma, Real) and 0 < float(gamma) < np.inf:
            checked.append(float(gamma))
        else:
            msg = f"gammas has the entry {gamma!r}; entries are positive numbers, 'median', or '0.5*median' and the like."
            raise ValueError(msg)
    if not checked:
        msg = "gammas is empty; give at least one bandwidth, for example ['median']."
        raise ValueError(msg)
    return checked


def _default_model(kind: str, y: Array) -> Any:
    if kind == "classification":
        return make_pipeline(StandardScaler(), SVC(C=1.0))
    model = SVR(C=1.0) if y.ndim == 1 else MultiOutputRegressor(SVR(C=1.0))
    return make_pipeline(StandardScaler(), model)


def _folds(cv: Any, y: Array, kind: str, groups: Array | None) -> Any:
    classes = kind == "classification"
    if not isinstance(cv, Integral):
        return check_cv(cv, y, classifier=classes)
    per_class = np.unique(y, return_counts=True)[1].min() if classes else len(y)
    possible = int(per_class if groups is None else min(per_class, len(np.unique(groups))))
    n_splits = max(2, min(int(cv), possible))
    if n_splits < cv:
        what = "samples" if not classes else "members of the smallest class"
        warnings.warn(
            f"cv={cv} was reduced to {n_splits} folds, because there are {possible} {what if groups is None else 'groups or ' + what}.",
            UserWarning,
            stacklevel=3,
        )
    if groups is not None:
        return StratifiedGroupKFold(n_splits) if classes else GroupKFold(n_splits)
    return StratifiedKFold(n_splits) if classes else KFold(n_splits)


def _score_fold(
    selector: RandSel,
    model: Any,
    scorer: Any,
    gamma: float | str,
    sizes: list[int],
    X: Array,
    y: Array,
    weights: Array | None,
    fold: tuple[Array, Array],
) -> list[float]:
    """Score the model on the held-out samples with the best features of every size."""
    train, test = fold
    held = None if weights is None else weights[train]
    chosen = clone(selector).set_params(gamma=gamma, n_features_to_select=1).fit(X[train], y[train], sample_weight=held)
    best_first = np.argsort(chosen.ranking_, kind="stable")
    scores = []
    for size in sizes:
        columns = best_first[:size]
        fitted = clone(model)
        extra = {"sample_weight": held} if held is not None and has_fit_parameter(fitted, "sample_weight") else {}
        fitted.fit(X[np.ix_(train, columns)], y[train], **extra)
        scores.append(float(scorer(fitted, X[np.ix_(test, columns)], y[test])))
    return scores
