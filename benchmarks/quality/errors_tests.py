"""P-values of the package and of the yardsticks that errors.py compares; one per column."""

from functools import lru_cache

import numpy as np
from scipy import stats
from scipy.special import stdtr

from randsel import InteractionScan, RandSel
from randsel._numerics.nuisance import Covariates
from randsel._numerics.rank_functions import column_scores
from randsel.analysis import Settings, analyse
from randsel.interactions import main_effects
from randsel.tables import Table
from randsel.targets import KINDS, Samples

N_PERMUTATIONS = 999
#: Candidate pairs of forward steps.
N_CANDIDATES = 500
#: Tests that the goal of power names; others are shown beside them.
GOAL_TESTS = (
    "Mann-Whitney",
    "Welch t",
    "Kruskal-Wallis",
    "F",
    "Spearman",
    "Pearson",
    "paired t",
    "signed rank",
    "within groups",
    "between means",
)


# ---------------------------------------------------------------- this package


def main_pvalues(sample):
    """Return the p-value of every column alone, as `InteractionScan.main_pvalues_` does, without its other tests."""
    nominal = np.zeros(sample.X.shape[1], dtype=bool)
    covariates = None
    if sample.covariates is not None:
        covariates = Covariates(sample.covariates[:, None], ("covariate",), np.array([True]))
    samples = Samples.from_groups(sample.X, sample.y, None, sample.groups, sample.batch, nominal, covariates)
    return main_effects(samples, KINDS[sample.target], nominal=nominal, n_jobs=1)


def scan_pairs(sample, n_pairs=None):
    """Return the table of pairs."""
    scan = InteractionScan(n_pairs=n_pairs, target=sample.target)
    return scan.fit(sample.X, sample.y, groups=sample.groups, batch=sample.batch).pairs_


def forward_steps(sample):
    """Return the columns that forward steps select."""
    return InteractionScan(n_pairs=N_CANDIDATES, target=sample.target).fit(sample.X, sample.y).taken_


def permutation_pvalue(sample, n_features=5):
    """Return the permutation p-value of a selection."""
    selector = RandSel(n_features, target=sample.target, random_state=0)
    return selector.fit(sample.X, sample.y, groups=sample.groups, batch=sample.batch).permutation_pvalue_


def finds_something(sample):
    """Return whether `randsel select` ends with status 0: features stand out, or some have q-values of at most .05."""
    names = tuple(f"x{j}" for j in range(sample.X.shape[1]))
    table = Table(sample.X, sample.y, names, groups=sample.groups, batch=sample.batch)
    return analyse(table, Settings(task=sample.target, halves=0, folds=0)).has_findings


# ---------------------------------------------------------------- yardsticks


def correlation_pvalues(X, y):
    """Return the two-sided p-values of Pearson's correlation, from the t distribution."""
    Xc, yc = X - X.mean(axis=0), y - y.mean()
    r = (yc @ Xc) / np.sqrt(np.square(Xc).sum(axis=0) * np.square(yc).sum())
    return t_pvalues(r * np.sqrt((len(y) - 2) / np.maximum(1.0 - r * r, 1e-300)), len(y) - 2)


def t_pvalues(t, freedom):
    return 2.0 * stdtr(freedom, -np.abs(t))


@lru_cache(maxsize=4)
def permutations_of(n):
    """Return permutations of n samples, the same for all data sets: the outcomes are drawn anew."""
    return np.random.default_rng(0).permuted(np.tile(np.arange(n), (N_PERMUTATIONS, 1)), axis=1)


def score_permutation_pvalues(sample):
    """Return the permutation p-values of the first statistic of the package: the covariance of the scores of ranks."""
    scores = column_scores(sample.X)
    y = sample.y.astype(float) if sample.target == "classification" else column_scores(sample.y[:, None])[:, 0]
    y = (y - y.mean()) / y.std()
    # single precision is enough to count, and twice as fast
    permuted = y.astype(np.float32)[permutations_of(len(y))] @ scores.astype(np.float32)
    statistic = np.abs(y @ scores)
    exceed = np.abs(permuted) >= statistic - 1e-5 * np.abs(scores).sum(axis=0)
    return (1.0 + exceed.sum(axis=0)) / (N_PERMUTATIONS + 1.0)


def two_classes(sample):
    """Yardsticks for two classes."""
    a, b = sample.X[sample.y == 0], sample.X[sample.y == 1]
    return {
        "Mann-Whitney": stats.mannwhitneyu(a, b, axis=0).pvalue,
        "Welch t": stats.ttest_ind(a, b, axis=0, equal_var=False).pvalue,
    }


def several_classes(sample):
    """Yardsticks for three or more classes."""
    rows = [sample.X[sample.y == k] for k in np.unique(sample.y)]
    return {
        "Kruskal-Wallis": stats.kruskal(*rows, axis=0).pvalue,
        "F": stats.f_oneway(*rows, axis=0).pvalue,
    }


def numbers(sample):
    """Yardsticks for a numeric outcome."""
    return {
        "Spearman": correlation_pvalues(stats.rankdata(sample.X, axis=0), stats.rankdata(sample.y)),
        "Pearson": correlation_pvalues(sample.X, sample.y),
    }


def pairs_of_samples(sample):
    """Yardsticks for donors before and after, in this order."""
    before, after = sample.X[0::2], sample.X[1::2]
    return {
        "paired t": stats.ttest_rel(after, before, axis=0).pvalue,
        "signed rank": stats.wilcoxon(after, before, axis=0).pvalue,
    }


def group_means(values, groups):
    """Return the mean of every group."""
    sums = np.zeros((groups.max() + 1, *values.shape[1:]))
    np.add.at(sums, groups, values)
    return sums / np.bincount(groups).reshape(-1, *[1] * (values.ndim - 1))


def means_of_groups(sample):
    """Yardsticks on the means of groups in which y is constant."""
    X, y = group_means(sample.X, sample.groups), group_means(sample.y, sample.groups)
    of_means = sample._replace(X=X, y=y)
    return two_classes(of_means) if sample.target == "classification" else numbers(of_means)


def mixed_groups(sample):
    """Yardsticks for y that is constant in some groups: within groups, between their means, and an oracle of both.

    Within groups, least squares with an indicator of every group; between groups, Pearson's correlation of the means
    of those in which y is constant. The z-values are weighted by the roots of the information on a slope when the
    variances of donors and noise are equal.
    """
    X, y, groups = sample.X, sample.y.astype(float), sample.groups
    x_mean, y_mean, sizes = group_means(X, groups), group_means(y, groups), np.bincount(groups)
    Xc, yc = X - x_mean[groups], y - y_mean[groups]
    varying = np.bincount(groups, np.square(yc)) > 0
    freedom = int((sizes[varying] - 1).sum()) - 1
    slope = (yc @ Xc) / (yc @ yc)
    residual = np.square(Xc[varying[groups]] - np.outer(yc, slope)[varying[groups]]).sum(axis=0) / freedom
    within = slope * np.sqrt(yc @ yc / residual)
    constant = ~varying
    u, v = x_mean[constant] - x_mean[constant].mean(axis=0), y_mean[constant] - y_mean[constant].mean()
    r = (v @ u) / np.sqrt(np.square(u).sum(axis=0) * (v @ v))
    between = r * np.sqrt((constant.sum() - 2) / (1.0 - r * r))
    p_within, p_between = t_pvalues(within, freedom), t_pvalues(between, constant.sum() - 2)
    z = [np.sign(t) * stats.norm.isf(p / 2.0) for t, p in ((within, p_within), (between, p_between))]
    information = np.array([yc @ yc, (v @ v) / (1.0 + (1.0 / sizes[constant]).mean())])
    combined = np.sqrt(information / information.sum()) @ np.array(z)
    return {"within groups": p_within, "between means": p_between, "oracle": 2.0 * stats.norm.sf(np.abs(combined))}


def product_pvalue(x1, x2, y):
    """Return the p-value of the product term in least squares on two columns and their product."""
    Z = np.column_stack([np.ones(len(y)), x1, x2, x1 * x2])
    inverse = np.linalg.inv(Z.T @ Z)
    slopes = inverse @ Z.T @ y
    variance = np.square(y - Z @ slopes).sum() / (len(y) - 4)
    return float(t_pvalues(slopes[3] / np.sqrt(variance * inverse[3, 3]), len(y) - 4))
