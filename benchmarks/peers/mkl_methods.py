"""Run one of the methods that mkl.py compares on one file of kernels, in this process.

python benchmarks/peers/mkl_methods.py METHOD KERNELS.npz JOBS LIMIT

If a method has several settings, one is chosen by three folds of the training samples; only the fit that follows is
timed. Imports are inside the methods, as in peer_methods.py.
"""
# ruff: noqa: PLC0415

import contextlib
import json
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import measure
import numpy as np


def lpboost(nu, jobs):
    from randsel import LPBoostMKL

    return LPBoostMKL("precomputed", nu=nu, n_jobs=jobs)


def lpboost_default(_, jobs):
    from randsel import LPBoostMKL

    return LPBoostMKL("precomputed", n_jobs=jobs)


class OfList:
    """Kernels of MKLpy come as a list of tensors, and go so to predict."""

    def __init__(self, model):
        self.model = model

    def fit(self, kernels, y):
        """Fit on a stack."""
        import torch

        self.model.fit([torch.tensor(kernel) for kernel in kernels], torch.tensor(y))
        return self

    def predict(self, kernels):
        """Return the classes of new samples."""
        import torch

        return np.asarray(self.model.predict([torch.tensor(kernel) for kernel in kernels]))


def easy_mkl(setting, _):
    from MKLpy.algorithms import EasyMKL
    from sklearn.svm import SVC

    lam, cost = setting
    return OfList(EasyMKL(lam=lam, learner=SVC(C=cost, kernel="precomputed")))


def average_mkl(cost, _):
    from MKLpy.algorithms import AverageMKL
    from sklearn.svm import SVC

    return OfList(AverageMKL(learner=SVC(C=cost, kernel="precomputed")))


#: Function of a setting and a number of jobs, package whose version is reported, settings to choose from.
METHODS = {
    "LPBoostMKL": (lpboost, "randsel", [0.2, 0.05, 0.5]),
    "LPBoostMKL (default)": (lpboost_default, "randsel", [None]),
    "EasyMKL": (easy_mkl, "MKLpy", [(lam, cost) for lam in (0.1, 0.5) for cost in (1.0, 10.0, 100.0)]),
    "AverageMKL": (average_mkl, "MKLpy", [1.0, 10.0, 100.0]),
}


def chosen(make, settings, kernels, y, jobs):
    """The setting of the highest accuracy over three folds, the first on ties."""
    from sklearn.model_selection import StratifiedKFold

    if len(settings) == 1:
        return settings[0]
    scores = np.zeros(len(settings))
    for train, test in StratifiedKFold(3, shuffle=True, random_state=0).split(y, y):
        for at, setting in enumerate(settings):
            model = make(setting, jobs).fit(kernels[:, train[:, None], train], y[train])
            scores[at] += np.mean(model.predict(kernels[:, test[:, None], train]) == y[test])
    return settings[int(scores.argmax())]


def main():
    name, path, jobs, limit = sys.argv[1:]
    measure.end_with_parent()
    warnings.simplefilter("ignore")
    make, _, settings = METHODS[name]
    data = np.load(path)
    kernels, y = data["train"], data["y"]
    setting = chosen(make, settings, kernels, y, int(jobs))
    # a small problem first: imports and whatever else is done once
    small = np.concatenate([np.flatnonzero(y == c)[:3] for c in np.unique(y)])
    make(setting, int(jobs)).fit(kernels[:, small[:, None], small], y[small])
    fit = make(setting, int(jobs)).fit
    model, seconds, megabytes = measure.measured(lambda: fit(kernels, y), float(limit))
    accuracy = float(np.mean(model.predict(data["test"]) == data["y_test"]))
    size = kernels.nbytes / 1e6
    return {"accuracy": accuracy, "seconds": seconds, "megabytes": megabytes, "kernels_mb": size, "setting": setting}


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        result = main()
    print(json.dumps(result))
