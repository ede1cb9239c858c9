"""Methods that real.py compares: each ranks the columns of a training table, and some choose a number of features."""

import inspect
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import measure
import numpy as np
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.feature_selection import f_classif, f_regression
from sklearn.linear_model import lars_path
from sklearn.svm import SVC, SVR

from randsel import KernelRFE, RandSel, StabilitySelection
from randsel.culling import CRITERIA

CLASSES, NUMBERS = "classification", "regression"
#: Length of the rankings that are evaluated; mRMR and HSIC Lasso rank the columns after these by relevance only.
LONGEST = 100
#: Subpackages that rankings by the package depend on: other edits leave finished cells valid.
SHARED = ("_utils", "_numerics", "_sklearn", "targets")
RANDSEL = (*SHARED, "contribution", "culling", "selectors")
BASELINES = (*SHARED, "baselines")
#: Entries of the kernel matrices of HSIC Lasso, eight bytes each, above which it is not run.
MOST_KERNEL_ENTRIES = 250_000_000


@dataclass(frozen=True)
class Method:
    """A feature ranking.

    Attributes
    ----------
    rank
        Function (X, y, groups, kind, seed) -> (columns, best first; number of features that it selects, or None).
    settings
        Text for the page: how it was run.
    subpackages
        Subpackages of randsel that compute the ranking: another source is another method. None for other methods.
    has_order
        Whether the first 10 or 100 of its columns mean anything.
    open_only
        Whether it is another setting of the default, tried on the open sets only.
    """

    rank: Callable
    settings: str
    subpackages: tuple = ()
    has_order: bool = True
    open_only: bool = False

    @property
    def source(self):
        """Short name of the code that the ranking depends on: the package's, or that of the function."""
        return package_digest(self.subpackages) if self.subpackages else measure.key_of(inspect.getsource(self.rank))


package_digest = cache(measure.source_digest)


def best_first(scores):
    """Columns by decreasing score, which may be infinite; undefined scores are last."""
    return np.argsort(-np.nan_to_num(scores, nan=-np.inf), kind="stable")


def standardised(X):
    """Columns of mean zero and variance one; constant columns become zero."""
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)


def with_others(first, scores):
    """The columns `first`, then all others by decreasing score."""
    others = best_first(scores)
    return np.concatenate([np.asarray(first, dtype=int), others[~np.isin(others, first)]])


# ---------------------------------------------------------------- randsel


def fitted(selector, X, y, groups):
    """Fit a selector; pass it the groups if its `fit` takes them."""
    known = {} if groups is None or "groups" not in inspect.signature(selector.fit).parameters else {"groups": groups}
    with warnings.catch_warnings():
        # that nothing stands out, or that a lasso did not converge
        warnings.simplefilter("ignore")
        return selector.fit(X, y, **known)


def by_randsel(X, y, groups, kind, seed, parameters):
    selector = fitted(RandSel(target=kind, random_state=seed, n_jobs=1, **parameters), X, y, groups)
    return selector.order_, int(selector.n_features_)


def by_kernel_rfe(X, y, groups, kind, seed):  # noqa: ARG001
    return fitted(KernelRFE(drop=0.25, target=kind), X, y, None).order_, None


def by_stability_selection(X, y, groups, kind, seed):  # noqa: ARG001
    selector = fitted(StabilitySelection(target=kind, random_state=seed, n_jobs=1), X, y, None)
    return selector.order_, int(selector.n_features_)


def by_subsamples(X, y, groups, kind, seed):
    """Rank by the mean logarithm of the rank in ten fits of the default, each on 70 % of every class or of the groups.

    The logarithm weighs the first places most. Constant columns rank last in every fit.
    """
    units = np.arange(len(y)) if groups is None else groups
    strata = np.zeros(len(y), dtype=int) if groups is not None or kind == NUMBERS else y
    rng, summed = np.random.default_rng(seed), np.zeros(X.shape[1])
    for _ in range(10):
        members = [np.unique(units[strata == stratum]) for stratum in np.unique(strata)]
        drawn = np.concatenate([rng.permutation(m)[: max(2, round(0.7 * len(m)))] for m in members])
        rows = np.isin(units, drawn)
        selector = RandSel(target=kind, random_state=seed, n_jobs=1)
        order = fitted(selector, X[rows], y[rows], None if groups is None else groups[rows]).order_
        summed[order] += np.log(np.arange(len(order)) + 3)
    return np.argsort(summed, kind="stable"), None


def accepts(parameters):
    """Whether this version of RandSel fits with these parameters."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 6)), np.arange(20) % 2
    try:
        fitted(RandSel(**parameters), X, y, None)
    except (TypeError, ValueError):
        return False
    return True


#: Values of `RandSel(scale=...)` that are compared.
SCALINGS = {True: "z-scores", "normal": "normal scores", "rank": "rank scores"}


#: Other settings of the default, tried on the open sets to see whether it can be improved.
TRIED = (
    {"drop": 0.1},
    {"drop": 0.5},
    {"ridge": 1.0},
    {"ridge": 10.0},
    {"gamma": "0.25*median"},
    {"gamma": "0.5*median"},
    {"gamma": "2*median"},
)


def tried_methods():
    """Other settings of the default, and the mean of its ranks over subsamples."""
    methods = {
        f"RandSel {as_code(parameters)}": Method(
            partial(by_randsel, parameters=parameters), f"`RandSel({as_code(parameters)})`", RANDSEL, open_only=True
        )
        for parameters in TRIED
    }
    settings = "mean logarithm of the rank in ten fits of `RandSel()`, each on 70 % of the samples"
    return {**methods, "RandSel, ten subsamples": Method(by_subsamples, settings, RANDSEL, open_only=True)}


def randsel_methods(variants):
    """Every criterion with every scaling that this version of RandSel accepts, the rank kernel, and the variants."""
    settings = {"RandSel rank kernel": {"kernel": "rank"}, "RandSel ridge=3.0": {"ridge": 3.0}}
    for criterion in CRITERIA:
        for scale, label in SCALINGS.items():
            parameters = {"criterion": criterion, "scale": scale}
            if accepts(parameters):
                settings[f"RandSel {criterion}, {label}"] = parameters
    settings |= {f"RandSel {as_code(parameters)}": parameters for parameters in variants}
    return {
        name: Method(partial(by_randsel, parameters=parameters), f"`RandSel({as_code(parameters)})`", RANDSEL)
        for name, parameters in settings.items()
    }


def as_code(parameters):
    """Parameters as they are typed in a call."""
    return ", ".join(f"{name}={value!r}" for name, value in parameters.items()).replace("'", '"')


def default_name():
    """Name of the method that `RandSel()` is, in this version."""
    selector = RandSel()
    criterion = selector._criterion() if selector.criterion == "auto" else selector.criterion
    return f"RandSel {criterion}, {SCALINGS[selector._scale()]}"


# ---------------------------------------------------------------- other methods


def f_statistic(X, y, kind):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # constant columns
        return (f_classif if kind == CLASSES else f_regression)(X, y)[0]


def by_f_test(X, y, groups, kind, seed):  # noqa: ARG001
    return best_first(f_statistic(X, y, kind)), None


def by_svm_rfe(X, y, groups, kind, seed):  # noqa: ARG001
    """Drop a quarter of the columns left in each round, those of least squared weight over all machines.

    scikit-learn's RFE(step=0.25) drops a quarter of *all* columns per round, and so ranks the last quarter at once.
    """
    Z, target = standardised(X), y if kind == CLASSES else standardised(y)
    machine = SVC(kernel="linear", C=1.0) if kind == CLASSES else SVR(kernel="linear", C=1.0)
    remaining, dropped = np.arange(Z.shape[1]), []
    while len(remaining):
        weights = machine.fit(Z[:, remaining], target).coef_
        worst_first = np.argsort((weights**2).sum(axis=0), kind="stable")
        count = max(1, len(remaining) // 4)
        dropped.append(remaining[worst_first[:count]])
        remaining = remaining[np.sort(worst_first[count:])]
    return np.concatenate(dropped)[::-1], None


def by_forest(X, y, groups, kind, seed):  # noqa: ARG001
    forest = (RandomForestClassifier if kind == CLASSES else RandomForestRegressor)(
        500, max_features="sqrt", n_jobs=1, random_state=seed
    )
    return best_first(forest.fit(X, y).feature_importances_), None


def by_mrmr(X, y, groups, kind, seed):  # noqa: ARG001
    """Choose, 100 times, the column of largest F statistic over mean absolute correlation with those chosen."""
    Z = standardised(X)
    relevance = np.nan_to_num(f_statistic(X, y, kind), nan=-1.0, posinf=np.finfo(float).max / 1e3)
    chosen = [int(relevance.argmax())]
    summed_correlation = np.zeros(Z.shape[1])
    while len(chosen) < min(LONGEST, Z.shape[1]):
        summed_correlation += np.abs(Z.T @ Z[:, chosen[-1]]) / len(Z)
        # a floor keeps a column that is not correlated with any from winning by that alone
        quotient = relevance / np.maximum(summed_correlation / len(chosen), 1e-3)
        quotient[chosen] = -np.inf
        chosen.append(int(quotient.argmax()))
    return with_others(chosen, relevance), None


def by_hsic_lasso(X, y, groups, kind, seed):  # noqa: ARG001
    """Enter columns as the non-negative lasso of the target's kernel on the columns' kernels does (Yamada et al. 2014).

    Kernels, centring and normalisation are those of pyHSICLasso with B=0; the path is scikit-learn's.
    """
    pairs = np.triu_indices(len(X))
    if len(pairs[0]) * X.shape[1] > MOST_KERNEL_ENTRIES:
        raise MemoryError("the kernel matrices of all features need more than 2 GB")
    features = np.empty((len(pairs[0]), X.shape[1]), order="F")
    for column, values in zip(features.T, standardised(X).T, strict=True):
        column[:] = kernel_vector(np.exp(-0.5 * (values[:, None] - values) ** 2), pairs)
    if kind == CLASSES:
        classes = (y[:, None] == np.unique(y)).astype(float)
        target = kernel_vector((classes / classes.sum(axis=0)) @ classes.T, pairs)
    else:
        target = kernel_vector(np.exp(-0.5 * (standardised(y)[:, None] - standardised(y)) ** 2), pairs)
    relevance = target @ features
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a path that ends early
        steps = min(LONGEST + 20, X.shape[1])
        _, entered, _ = lars_path(features, target, max_iter=steps, method="lasso", positive=True, copy_X=True)
    return with_others(entered, relevance), None


def kernel_vector(kernel, pairs):
    """Centred kernel of norm one as a vector, each pair of samples once; its products are those of the matrices."""
    centred = kernel - kernel.mean(axis=0) - kernel.mean(axis=1)[:, None] + kernel.mean()
    norm = np.linalg.norm(centred)
    weights = np.where(pairs[0] == pairs[1], 1.0, np.sqrt(2.0))
    return centred[pairs] * weights / (norm if norm > 0.0 else 1.0)


def all_features(X, y, groups, kind, seed):  # noqa: ARG001
    return np.arange(X.shape[1]), X.shape[1]


def random_features(X, y, groups, kind, seed):  # noqa: ARG001
    return np.random.default_rng(seed).permutation(X.shape[1]), None


def methods_by_name(variants=()):
    """All methods by the names of the page, cheap ones first."""
    return {
        "all features": Method(all_features, "no selection", has_order=False),
        "random features": Method(random_features, "a random order"),
        "F-test": Method(by_f_test, "`f_classif`, `f_regression`"),
        **randsel_methods(variants),
        **tried_methods(),
        "mRMR": Method(by_mrmr, "F statistic divided by the mean absolute correlation with those chosen"),
        "linear SVM-RFE": Method(
            by_svm_rfe, '`SVC(kernel="linear", C=1)` or SVR; a quarter of the features left dropped per round'
        ),
        "random forest": Method(by_forest, '500 trees, `max_features="sqrt"`, impurity importance'),
        "kernel RFE": Method(by_kernel_rfe, "`KernelRFE(drop=0.25)`", BASELINES),
        "HSIC Lasso": Method(
            by_hsic_lasso,
            "non-negative lasso path on all pairs of samples, kernels as in pyHSICLasso with `B=0`; "
            "if the path ends early, then by HSIC",
        ),
        "stability selection": Method(by_stability_selection, "`StabilitySelection()`, 100 halves", BASELINES),
    }
