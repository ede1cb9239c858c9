"""Answers of the package on reference problems: what the figures of a page follow from, apart from times.

python benchmarks/answers.py [GROUP ...]

Prints a digest of every group. A change of the code that keeps the digest of a group, such as a renamed function, keeps
the figures of pages that measure this group. Answers are selections, rankings and rounded p-values, so that they do not
depend on the last digits, in which processors differ. Only public names of the package are used.
"""

import hashlib
import json
import sys
import warnings
from functools import cache

import numpy as np

from randsel import (
    BaHSIC,
    CorrelationFilter,
    FoHSIC,
    ForestImportance,
    FTest,
    InteractionScan,
    KernelRFE,
    RandSel,
    SmallestSet,
    StabilitySelection,
    datasets,
)

N_BEST = 10


def problems():
    """Yield (name, X, y, arguments of fit): kinds of columns, outcomes and designs."""
    for seed, (make, shape) in enumerate(
        [
            (datasets.make_xor, (300, 400)),
            (datasets.make_xor, (150, 60)),
            (datasets.make_weston_linear, (200, 100)),
            (datasets.make_weston_nonlinear, (200, 100)),
        ]
    ):
        X, y, _ = make(*shape, random_state=seed)
        yield f"{make.__name__} {shape}", X, y, {}
    rng = np.random.default_rng(0)
    m, n = 120, 300
    blocks = rng.normal(size=(m, n)) + rng.normal(size=(m, n // 10)).repeat(10, axis=1)
    age, donor, batch = rng.normal(size=m), np.arange(m) // 2, np.arange(m) % 3
    main = blocks[:, 5] + blocks[:, 55] * blocks[:, 105] + rng.normal(size=m)
    classes = (main > np.median(main)).astype(int)
    rare = (main > np.quantile(main, 0.9)).astype(int)
    gaps = np.where(rng.random((m, n)) < 0.1, np.nan, blocks)
    snps = (rng.random((2, m, n)) < rng.uniform(0.05, 0.5, n)).sum(axis=0)
    carriers = (snps[:, 0] > 0) ^ (snps[:, 1] > 0) ^ (rng.random(m) < 0.05)
    survival = np.zeros(m, dtype=[("event", bool), ("time", float)])
    survival["time"], survival["event"] = np.exp(-main / 2), rng.random(m) < 0.7
    yield "correlated columns, classes", blocks, classes, {}
    yield "skewed columns, four classes", np.exp(blocks), np.digitize(main, np.quantile(main, [0.25, 0.5, 0.75])), {}
    yield "rare class", blocks, rare, {}
    yield "skewed numbers", blocks, np.exp(main), {}
    yield "two outputs", blocks, np.column_stack([main, blocks[:, 205]]), {}
    yield "genotypes", snps, carriers.astype(int), {}
    yield "survival", blocks, survival, {}
    yield "survival, covariate", blocks, survival, {"covariates": age[:, None]}
    yield "covariate and batch", blocks + age[:, None], main + age, {"covariates": age[:, None], "batch": batch}
    yield "donors, outcome between", blocks, classes[donor * 2], {"groups": donor}
    yield "donors, outcome within", blocks, np.arange(m) % 2, {"groups": donor}
    yield "missing values", gaps, classes, {}
    yield "weights", blocks, classes, {"sample_weight": rng.uniform(0.5, 2, m)}
    yield "noise", rng.normal(size=(m, n)), classes, {}


def fit(estimator, X, y, arguments):
    """Return the fitted estimator, or the name of the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return estimator.fit(X, y, **arguments)
        except (ValueError, TypeError) as error:
            return type(error).__name__


def split_problems():
    """Return the problems without and with covariates or sample weights, which few pages have."""
    plain, adjusted = [], []
    for _, X, y, arguments in problems():
        (adjusted if {"covariates", "sample_weight"} & set(arguments) else plain).append((X, y, arguments))
    return plain, adjusted


def selection():
    """Selections and rankings of RandSel: the default on problems, and other settings on one."""
    settings = [
        {"criterion": "total"},
        {"criterion": "residual", "ridge": 1.0},
        {"criterion": "calibrated"},
        {"kernel": "rank"},
        {"scale": True},
        {"scale": "normal"},
        {"gamma": 0.01},
        {"drop": 0.5},
        {"estimator": "bootstrap", "n_bootstraps": 300, "random_state": 0},
    ]
    X, y, _ = datasets.make_weston_nonlinear(200, 100, random_state=5)
    yield from selections([({}, *problem) for problem in split_problems()[0]])
    yield from selections([(chosen, X, y, {}) for chosen in settings])


def selections(runs):
    """Selection, ranking and permutation test of every run: parameters, X, y and arguments of fit."""
    for chosen, X, y, arguments in runs:
        selector = fit(RandSel(**chosen), X, y, arguments)
        if isinstance(selector, str):
            yield selector
        else:
            best = selector.order_[: max(N_BEST, selector.n_features_)].tolist()
            yield [selector.n_features_, best, rounded(selector.permutation_pvalue_), bool(selector.stands_out_)]


def scan():
    """P-values of InteractionScan, and selections of SmallestSet, on problems."""
    yield from scans(split_problems()[0])


def adjusted():
    """Answers of RandSel, InteractionScan and SmallestSet with covariates and sample weights."""
    chosen = split_problems()[1]
    yield from selections([({}, *problem) for problem in chosen])
    yield from scans(chosen)


def scans(chosen):
    """P-values of InteractionScan for its best features and pairs, and selections of SmallestSet."""
    for X, y, arguments in chosen:
        fitted = fit(InteractionScan(), X, y, arguments)
        if isinstance(fitted, str):
            yield fitted
        else:
            best = fitted.order_[:N_BEST]
            pair = fitted.pairs_[0]
            yield [fitted.n_features_, best.tolist(), [rounded(p) for p in fitted.pvalues_[best]]]
            yield [int(pair["i"]), int(pair["j"]), rounded(pair["p"])]
        fitted = fit(SmallestSet(), X, y, arguments)
        yield fitted if isinstance(fitted, str) else [fitted.selected_.tolist(), rounded(min(fitted.pvalues_))]


def baselines():
    """Rankings of the methods that randsel is compared with."""
    methods = [BaHSIC(N_BEST), FoHSIC(N_BEST), KernelRFE(N_BEST), CorrelationFilter(N_BEST), FTest(N_BEST)]
    methods += [
        ForestImportance(N_BEST, random_state=0),
        StabilitySelection(n_features_to_select=N_BEST, random_state=0),
    ]
    for method in methods:
        for _, X, y, _ in list(problems())[:5]:
            fitted = fit(method, X, y, {})
            yield fitted if isinstance(fitted, str) else fitted.order_[:N_BEST].tolist()


#: Group of answers, as in `pages.toml` -> function that yields them.
GROUPS = {"selection": selection, "scan": scan, "baselines": baselines, "adjusted": adjusted}


def rounded(p):
    """Two digits of a p-value, and one below 1e-10, where it is a product of many factors."""
    return float(f"{p:.1e}") if p > 1e-10 else float(f"{p:.0e}")


@cache
def digest(group):
    """Short hash of the answers of a group."""
    return hashlib.sha256(json.dumps(list(GROUPS[group]())).encode()).hexdigest()[:12]


if __name__ == "__main__":
    for group in sys.argv[1:] or GROUPS:
        print(f"{group}: {digest(group)}", flush=True)
