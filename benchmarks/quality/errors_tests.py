"""P-values of the package and of the yardsticks that errors.py compares; one per column."""

from functools import lru_cache
from itertools import combinations
from math import comb

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

#: Number of permutations of up to `FEW_SAMPLES` samples, and of more: with many, classical tests are valid.
N_PERMUTATIONS, N_PERMUTATIONS_OF_MANY, FEW_SAMPLES = 9999, 999, 300
#: Maximum number of choices of the cases that are enumerated instead.
MAX_CHOICES = 10_000
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
#: Permutation test of the same statistic, which replaces a test that does not hold its size.
PERMUTED = {
    "Mann-Whitney": "permuted ranks",
    "Kruskal-Wallis": "permuted ranks",
    "Spearman": "permuted ranks",
    "Welch t": "permuted values",
    "F": "permuted values",
    "Pearson": "permuted values",
}


def size_name(level):
    """Return the name of the measure of size at a level, in cells of power."""
    return f"size at {level:g}"


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
    count = N_PERMUTATIONS if n <= FEW_SAMPLES else N_PERMUTATIONS_OF_MANY
    return np.random.default_rng(0).permuted(np.tile(np.arange(n), (count, 1)), axis=1)


@lru_cache(maxsize=4)
def choices_of(n, n_cases):
    """Return all choices of the cases among n samples, as rows of 0 and 1; None if they are too many."""
    if comb(n, n_cases) > MAX_CHOICES:
        return None
    rows = np.zeros((comb(n, n_cases), n))
    for row, chosen in zip(rows, combinations(range(n), n_cases), strict=True):
        row[list(chosen)] = 1.0
    return rows


def permutation_pvalues(columns, outcomes):
    """Return the permutation p-values of `Σ_k (Y_kᵀ x)²` for columns x and the columns Y_k of an outcome.

    All choices of few cases are enumerated, so that their p-values are exact.
    """
    n, total = len(columns), 0.0
    columns = columns - columns.mean(axis=0)
    is_case = outcomes[:, 0] > 0
    choices = choices_of(n, int(is_case.sum())) if outcomes.shape[1] == 1 and len(np.unique(outcomes)) == 2 else None
    for y in outcomes.T:
        low, high = y.min(), y.max()
        rows = low + (high - low) * choices if choices is not None else y[permutations_of(n)]
        # single precision is enough to count, and twice as fast
        total = total + np.square(rows.astype(np.float32) @ columns.astype(np.float32))
    observed = np.square(outcomes.T.astype(np.float32) @ columns.astype(np.float32)).sum(axis=0)
    exceed = (total >= observed * (1.0 - 1e-4)).sum(axis=0)
    return exceed / len(total) if choices is not None else (1.0 + exceed) / (len(total) + 1.0)


def permutation_tests(sample):
    """Return permutation tests of the statistics of ranks, of values, and of the scores of this package."""
    X, y = sample.X, sample.y
    forms = {"permuted ranks": stats.rankdata(X, axis=0), "permuted values": X, "permuted scores": column_scores(X)}
    if sample.target == "classification":
        labels, counts = np.unique(y, return_counts=True)
        indicators = (y[:, None] == labels) / np.sqrt(counts)
        outcomes = dict.fromkeys(forms, indicators[:, 1:] if len(labels) == 2 else indicators)
    else:
        numbers_of = {"permuted ranks": stats.rankdata(y), "permuted values": y}
        outcomes = {name: numbers_of.get(name, column_scores(y[:, None])[:, 0])[:, None] for name in forms}
        outcomes = {name: Y - Y.mean(axis=0) for name, Y in outcomes.items()}
    return {name: permutation_pvalues(columns, outcomes[name]) for name, columns in forms.items()}


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


def sample_of_means(sample):
    """Return the means of groups in which y is constant."""
    return sample._replace(X=group_means(sample.X, sample.groups), y=group_means(sample.y, sample.groups), groups=None)


def means_of_groups(sample):
    """Yardsticks on the means of groups in which y is constant."""
    of_means = sample_of_means(sample)
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
