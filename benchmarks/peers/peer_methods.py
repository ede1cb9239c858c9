"""Run one fit of one of the methods that peers.py compares, in this process.

python benchmarks/peers/peer_methods.py METHOD DATA.npz K SEED LIMIT

Imports are inside the methods, because randsel and the other packages are installed in different environments, and
because importing does not count as time or memory of a fit.
"""
# ruff: noqa: PLC0415

import contextlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import measure
import numpy as np


def randsel_default(X, y, k, _):
    from randsel import RandSel

    return RandSel(k).fit(X, y).get_support(indices=True)


def randsel_rank(X, y, k, _):
    from randsel import RandSel

    return RandSel(k, kernel="rank").fit(X, y).get_support(indices=True)


def interaction_scan(X, y, k, _):
    from randsel import InteractionScan

    return InteractionScan(k).fit(X, y).get_support(indices=True)


def bahsic(X, y, k, _):
    from randsel.baselines import BaHSIC

    return BaHSIC(k).fit(X, y).get_support(indices=True)


def hsic_lasso(X, y, k, _):
    from pyHSICLasso import HSICLasso

    lasso = HSICLasso()
    lasso.input(X, y)
    lasso.classification(k, B=0, n_jobs=1)
    return lasso.get_index()


def hsic_lasso_block(X, y, k, _):
    from pyHSICLasso import HSICLasso

    lasso = HSICLasso()
    lasso.input(X, y)
    lasso.classification(k, B=20, M=3, n_jobs=1)
    return lasso.get_index()


def f_test(X, y, k, _):
    from sklearn.feature_selection import f_classif

    return np.argsort(-f_classif(X, y)[0], kind="stable")[:k]


def mutual_information(X, y, k, seed):
    from sklearn.feature_selection import mutual_info_classif

    return np.argsort(-mutual_info_classif(X, y, random_state=seed), kind="stable")[:k]


def rfe_svm(X, y, k, seed):
    from sklearn.feature_selection import RFE
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    elimination = RFE(LinearSVC(random_state=seed), n_features_to_select=k, step=0.25)
    return elimination.fit(StandardScaler().fit_transform(X), y).support_.nonzero()[0]


def random_forest(X, y, k, seed):
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(500, random_state=seed, n_jobs=1).fit(X, y)
    return np.argsort(-forest.feature_importances_, kind="stable")[:k]


def boruta(X, y, _, seed):
    from boruta import BorutaPy
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(class_weight="balanced", max_depth=5, n_jobs=1)
    return BorutaPy(forest, n_estimators="auto", random_state=seed).fit(X, y).support_.nonzero()[0]


def multisurf(X, y, k, _):
    from skrebate import MultiSURF

    return MultiSURF(n_features_to_select=k, n_jobs=1).fit(X, y).top_features_[:k]


def relieff(X, y, k, _):
    from skrebate import ReliefF

    return ReliefF(n_features_to_select=k, n_neighbors=100, n_jobs=1).fit(X, y).top_features_[:k]


def mrmr(X, y, k, _):
    from mrmr import mrmr_classif
    from pandas import DataFrame, Series

    return mrmr_classif(DataFrame(X), Series(y), K=k, n_jobs=1, show_progress=False)


@dataclass(frozen=True)
class Method:
    """A function `(X, y, k, seed) -> columns`, how it is set, and the package whose version is reported."""

    fit: Callable
    package: str
    settings: str


METHODS = {
    "RandSel": Method(randsel_default, "randsel", "`RandSel(k)`"),
    "RandSel (ranks)": Method(randsel_rank, "randsel", '`RandSel(k, kernel="rank")`'),
    "InteractionScan": Method(interaction_scan, "randsel", "`InteractionScan(k)`"),
    "BaHSIC": Method(bahsic, "randsel", "`randsel.baselines.BaHSIC(k)`: a tenth dropped per round"),
    "HSIC Lasso": Method(hsic_lasso, "pyHSICLasso", "`classification(k, B=0)`"),
    "block HSIC Lasso": Method(hsic_lasso_block, "pyHSICLasso", "`classification(k, B=20, M=3)`"),
    "F-test": Method(f_test, "scikit-learn", "`f_classif`, the first k"),
    "mutual information": Method(mutual_information, "scikit-learn", "`mutual_info_classif`, the first k"),
    "RFE (linear SVM)": Method(rfe_svm, "scikit-learn", "`RFE(LinearSVC(), step=0.25)` on columns of variance one"),
    "random forest": Method(random_forest, "scikit-learn", "importances of `RandomForestClassifier(500)`, the first k"),
    "Boruta": Method(
        boruta,
        "Boruta",
        '`BorutaPy(RandomForestClassifier(class_weight="balanced", max_depth=5), n_estimators="auto")`; chooses its '
        "number",
    ),
    "MultiSURF": Method(multisurf, "skrebate", "`MultiSURF()`, the first k"),
    "ReliefF": Method(relieff, "skrebate", "`ReliefF(n_neighbors=100)`, the first k"),
    "mRMR": Method(mrmr, "mrmr_selection", "`mrmr_classif(K=k)`: F statistic and correlation"),
}


def main():
    name, path, k, seed, limit = sys.argv[1:]
    measure.end_with_parent()
    fit, k, seed = METHODS[name].fit, int(k), int(seed)
    data = np.load(path)
    X, y = data["X"], data["y"]
    # a small data set first: imports, compilation and whatever else is done once
    rng = np.random.default_rng(0)
    fit(rng.normal(size=(60, 8)), np.arange(60) % 2, 2, seed)
    columns, seconds, megabytes = measure.measured(lambda: fit(X, y, k, seed), float(limit))
    return {"columns": [int(column) for column in columns], "seconds": seconds, "megabytes": megabytes}


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        result = main()
    print(json.dumps(result))
