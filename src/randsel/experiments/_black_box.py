"""The paper's deep representations on a stand-in for the Black Box challenge: six classifiers, and why they differ.

A cell is one method with one seed. Features are learned from labelled and unlabelled rows; all settings are chosen by
cross-validation on the labelled rows; held-out rows are predicted once, at the end of a cell.
"""

import hashlib
import json
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from randsel._numerics.kernels import alignment, bandwidth, gaussian_kernel, squared_distances
from randsel._utils.files import check_folder, check_or_write_identity, lock_folder, write_atomically
from randsel._utils.typing import Array
from randsel.datasets import make_black_box
from randsel.experiments._run import is_number, read_cell
from randsel.learning import LPBoostMKL, PathKernels, SparseFiltering
from randsel.selectors import RandSel

#: Minimum fraction of the weight with which a kernel counts as used.
MIN_WEIGHT = 0.01


@dataclass(frozen=True)
class BlackBoxSettings:
    """Sizes of the data, and the values among which cross-validation chooses."""

    n_labelled: int = 180
    n_held_out: int = 600
    n_components: int = 256
    variance: float = 0.99
    whiten: tuple[bool, ...] = (False, True)
    iterations: tuple[int, ...] = (20, 200)
    bandwidths: tuple[float, ...] = (1.0, 0.25, 4.0)
    costs: tuple[float, ...] = (1.0, 10.0, 100.0)
    nus: tuple[float, ...] = (0.2, 0.05, 0.5)
    max_kernels: int = 30
    folds: int = 5
    seeds: int = 5


#: Settings of a trial run that takes a minute.
QUICK_BLACK_BOX = BlackBoxSettings(
    n_labelled=90, n_components=64, iterations=(20,), bandwidths=(1.0,), nus=(0.2,), folds=3, seeds=2
)


@dataclass(frozen=True)
class Split:
    """Stacks of kernels between training rows, and between test and training rows, with the classes of both."""

    train: Array
    test: Array
    y: Array
    y_test: Array
    #: Number of features of every kernel.
    sizes: tuple[int, ...] = ()

    def with_kernels(self, change: Callable[[Array], Array]) -> "Split":
        """Return the split with `change` applied to both stacks."""
        return replace(self, train=change(self.train), test=change(self.test))


@dataclass(frozen=True)
class Learned:
    """Labelled and held-out rows as learned features, as principal components, and as signed features."""

    features: Array
    components: Array
    signed: Array


class Trial:
    """One seed: its data, its folds, and intermediate results that methods share, computed when first used.

    A list of splits has one split per inner fold, and a last one that trains on all labelled rows and tests on the
    held-out rows.
    """

    def __init__(self, seed: int, settings: BlackBoxSettings) -> None:
        self.seed, self.settings = seed, settings
        self.data = make_black_box(settings.n_labelled, settings.n_held_out, random_state=seed)
        y = self.data.y
        folds = StratifiedKFold(settings.folds, shuffle=True, random_state=seed)
        rows = np.arange(len(y) + settings.n_held_out)
        self.train_and_test = [*folds.split(y, y), (rows[: len(y)], rows[len(y) :])]
        self.classes = np.concatenate([y, np.asarray(self.data.held_out_y)])

    def _split(self, features: Array, number: int) -> Split:
        """Return a split with one Gaussian kernel of all standardised columns, with the median bandwidth."""
        train, test = self.train_and_test[number]
        scaler = StandardScaler().fit(features[train])
        Z, Z_test = scaler.transform(features[train]), scaler.transform(features[test])
        gamma = bandwidth("median", squared_distances(Z))
        kernels = (gaussian_kernel(Z, gamma)[None], gaussian_kernel(Z_test, gamma, Z=Z)[None])
        return Split(*kernels, self.classes[train], self.classes[test], (features.shape[1],))

    @cached_property
    def raw(self) -> list[Split]:
        """Splits of the raw input."""
        return self._splits(np.vstack([self.data.X, self.data.held_out]))

    def _splits(self, features: Array) -> list[Split]:
        return [self._split(features, number) for number in range(len(self.train_and_test))]

    @cached_property
    def learned(self) -> tuple["Learned", dict[str, Any]]:
        """Sparse-filtered features and the settings of the filtering, chosen by the accuracy of an SVM."""
        options = list(product(self.settings.whiten, self.settings.iterations))
        tried = [self._learn(*option) for option in options]
        candidates = _svm_candidates(self.settings)
        scores = [inner_accuracies(self._splits(data.features), candidates, _predict_svm).max() for data in tried]
        best = int(np.argmax(scores))
        return tried[best], {"whiten": options[best][0], "iterations": options[best][1]}

    def _learn(self, whiten: bool, iterations: int) -> "Learned":
        """Reduce the rows to principal components, which removes redundant columns, then filter these."""
        data, settings = self.data, self.settings
        training = np.vstack([data.X, data.unlabelled])
        scaler = StandardScaler().fit(training)
        components = PCA(settings.variance, whiten=whiten, svd_solver="full").fit(scaler.transform(training))
        filtering = SparseFiltering(settings.n_components, max_iter=iterations, random_state=self.seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the number of iterations is one of the choices
            filtering.fit(components.transform(scaler.transform(training)))
        rows = components.transform(scaler.transform(np.vstack([data.X, data.held_out])))
        responses = (rows - filtering.mean_) @ filtering.components_.T / filtering.scales_
        signed = responses / np.linalg.norm(responses, axis=1, keepdims=True)
        return Learned(filtering.transform(rows), rows, signed)

    @cached_property
    def stacks(self) -> dict[float, list[Split]]:
        """Splits with one kernel per round of the path, for every bandwidth of the selector."""
        return {
            b: [self._stack(b, number) for number in range(len(self.train_and_test))] for b in self.settings.bandwidths
        }

    def _stack(self, multiple: float, number: int) -> Split:
        train, test = self.train_and_test[number]
        features = self.learned[0].features
        path = PathKernels(RandSel(2, gamma=f"{multiple}*median"), max_kernels=self.settings.max_kernels)
        path.fit(features[train], self.classes[train])
        kernels = path.transform(features[train]), path.transform(features[test])
        return Split(*kernels, self.classes[train], self.classes[test], tuple(len(c) for c, _ in path.kernels_))


# ---------------------------------------------------------------- methods


def inner_accuracies(splits: list[Split], candidates: list[Any], predict: Callable[..., Array]) -> Array:
    """Return the mean accuracy over the inner folds of every candidate, a tuple of arguments of `predict`."""

    def accuracy(split: Split, candidate: Any) -> float:
        return float(accuracy_score(split.y_test, predict(split, *candidate)))

    return np.array([np.mean([accuracy(split, candidate) for split in splits[:-1]]) for candidate in candidates])


def _predict_svm(split: Split, kernel: int, power: float, cost: float) -> Array:
    """Return the classes that a support vector machine predicts with one kernel; a power changes its bandwidth."""
    model = SVC(C=cost, kernel="precomputed").fit(split.train[kernel] ** power, split.y)
    return np.asarray(model.predict(split.test[kernel] ** power))


def _svm_candidates(settings: BlackBoxSettings, kernels: int = 1) -> list[tuple[int, float, float]]:
    return list(product(range(kernels), settings.bandwidths, settings.costs))


def _test_best(splits: list[Split], candidates: list[Any], predict: Callable[..., Array]) -> dict[str, Any]:
    """Choose the best candidate on the inner folds (the first on ties), and test it on the held-out rows."""
    scores = inner_accuracies(splits, candidates, predict)
    chosen = candidates[int(scores.argmax())]
    accuracy = accuracy_score(splits[-1].y_test, predict(splits[-1], *chosen))
    return {"accuracy": float(accuracy), "inner": float(scores.max()), "chosen": list(chosen)}


def _classify_raw(trial: Trial) -> dict[str, Any]:
    return _test_best(trial.raw, _svm_candidates(trial.settings), _predict_svm)


def _classify_filtered(trial: Trial) -> dict[str, Any]:
    """Classify by the learned features, and by components and signed features, to see where accuracy is lost."""
    learned, settings = trial.learned
    before, signed, result = (
        _test_best(trial._splits(features), _svm_candidates(trial.settings), _predict_svm)
        for features in (learned.components, learned.signed, learned.features)
    )
    return {**result, **settings, "before": before["accuracy"], "signed": signed["accuracy"]}


def _classify_selected(trial: Trial) -> dict[str, Any]:
    """Classify by the features of one round, with a bandwidth chosen for the classifier."""
    splits = trial.stacks[1.0]
    result = _test_best(splits, _svm_candidates(trial.settings, len(splits[0].sizes)), _predict_svm)
    return {**result, "n_features": splits[0].sizes[result["chosen"][0]]}


def _classify_single_kernel(trial: Trial) -> dict[str, Any]:
    """Classify by the best single kernel of all stacks, with the bandwidth of its stack."""
    stacks, settings = trial.stacks, trial.settings
    tried = {
        b: _test_best(splits, [(k, 1.0, c) for k in range(len(splits[0].sizes)) for c in settings.costs], _predict_svm)
        for b, splits in stacks.items()
    }
    best = _best_bandwidth(tried)
    sizes, cost = stacks[best][0].sizes, tried[best]["chosen"][2]
    alone = inner_accuracies(stacks[best], [(k, 1.0, cost) for k in range(len(sizes))], _predict_svm)
    chosen = sizes[tried[best]["chosen"][0]]
    return {**tried[best], "bandwidth": best, "n_features": chosen, "sizes": sizes, "alone": alone.tolist()}


def _best_bandwidth(tried: dict[float, dict[str, Any]]) -> float:
    return max(tried, key=lambda bandwidth: tried[bandwidth]["inner"])


def _mean_kernel(kernels: Array) -> Array:
    return np.asarray(kernels.mean(axis=0)[None])


def _classify_mean_kernel(trial: Trial) -> dict[str, Any]:
    candidates = [(0, 1.0, c) for c in trial.settings.costs]
    tried = {
        b: _test_best([s.with_kernels(_mean_kernel) for s in splits], candidates, _predict_svm)
        for b, splits in trial.stacks.items()
    }
    best = _best_bandwidth(tried)
    return {**tried[best], "bandwidth": best}


def _classify_boosted(trial: Trial) -> dict[str, Any]:
    """Classify by the whole pipeline; also count the kernels used, and test weights and classifier separately."""
    stacks, settings = trial.stacks, trial.settings
    models: dict[tuple[float, float, int], LPBoostMKL] = {}

    def predict(split: Split, multiple: float, nu: float) -> Array:
        key = multiple, nu, next(number for number, other in enumerate(stacks[multiple]) if other is split)
        if key not in models:
            models[key] = _fit_mkl(split, nu)
        return np.asarray(models[key].predict(split.test))

    tried = {b: _test_best(splits, [(b, nu) for nu in settings.nus], predict) for b, splits in stacks.items()}
    best = _best_bandwidth(tried)
    nu, splits = tried[best]["chosen"][1], stacks[best]
    fitted = [models[best, nu, number] for number in range(len(splits))]
    weights = fitted[-1].kernel_weights_

    def mixed(model: LPBoostMKL) -> Callable[[Array], Array]:
        return lambda K: np.tensordot(model.kernel_weights_.mean(axis=0), K, 1)[None]

    weighted = [split.with_kernels(mixed(model)) for split, model in zip(splits, fitted, strict=True)]
    averaged = [split.with_kernels(_mean_kernel) for split in splits]
    alike = np.array([[alignment(K, L) for K in splits[-1].train] for L in splits[-1].train])
    return {
        **tried[best],
        "bandwidth": best,
        "nu": nu,
        "sizes": splits[-1].sizes,
        "weights": weights.tolist(),
        "used": float((weights >= MIN_WEIGHT).sum(axis=1).mean()),
        "neighbours": float(np.diagonal(alike, 1).mean()),
        "ends": float(alike[0, -1]),
        "svm": _test_best(weighted, [(0, 1.0, c) for c in settings.costs], _predict_svm)["accuracy"],
        "boosted_mean": _test_best(averaged, [(n,) for n in settings.nus], lambda s, n: _fit_mkl(s, n).predict(s.test))[
            "accuracy"
        ],
    }


def _fit_mkl(split: Split, nu: float) -> LPBoostMKL:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LPBoostMKL("precomputed", nu=nu, tol=3e-3, max_iter=100)
        model.fit(split.train, split.y)
    return model


METHODS: dict[str, Callable[[Trial], dict[str, Any]]] = {
    "Gaussian SVM, raw input": _classify_raw,
    "SVM, sparse-filtered features": _classify_filtered,
    "SVM, features selected by randSel": _classify_selected,
    "LPBoostMKL, kernels of the path": _classify_boosted,
    "SVM, average of the same kernels": _classify_mean_kernel,
    "SVM, best single kernel": _classify_single_kernel,
}


#: Entries of results that are numbers: of every method, and of some methods in addition.
NUMBERS = ("accuracy", "inner")
_NUMBERS = {
    "SVM, sparse-filtered features": ("before", "signed"),
    "LPBoostMKL, kernels of the path": ("svm", "boosted_mean", "used", "neighbours", "ends"),
}


# ---------------------------------------------------------------- all cells


def run_black_box(
    settings: BlackBoxSettings, out: Path, *, progress: Callable[[str, float, float], None] | None = None
) -> dict[str, list[dict[str, Any]]]:
    """Run the cells that have no file in `out` yet, and return the results of all, by method, in the order of seeds.

    Parameters
    ----------
    settings : BlackBoxSettings
        What to run.
    out : Path
        Folder of the results; another run must not be working in it.
    progress : callable, default=None
        Called with "cells", the number of cells done, and the number of all cells.

    Returns
    -------
    dict of str to list of dict
        Accuracy on the held-out rows, and the settings that were chosen.
    """
    check_folder(out)
    out.mkdir(parents=True, exist_ok=True)
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in METHODS}
    total, show = settings.seeds * len(METHODS), progress or (lambda *_: None)
    with lock_folder(out):
        check_or_write_identity(out, {"comparison": "blackbox"}, ("comparison",))
        for seed in range(settings.seeds):
            trial: Trial | None = None
            for name, method in METHODS.items():
                path = out / f"{_cell_key(name, seed, settings)}.json"
                result = read_cell(path, [], (*NUMBERS, *_NUMBERS.get(name, ())), _is_complete)
                if result is None:
                    show("cells", sum(map(len, results.values())), total)
                    trial = Trial(seed, settings) if trial is None else trial
                    cell = {"method": name, "seed": seed, "settings": asdict(settings)}
                    # a JSON round trip turns tuples into lists, as in a result that is read
                    result = json.loads(json.dumps(method(trial)))
                    write_atomically(path, json.dumps({"cell": cell, "result": result}, indent=1))
                results[name].append(result)
    return results


def _is_complete(result: dict[str, Any]) -> bool:
    """Return whether all lists of a result hold numbers and have the same length."""
    sizes = result.get("sizes", [])
    rows = [result.get("alone", sizes), *(result.get("weights") or [])]
    return all(isinstance(row, list) and len(row) == len(sizes) and all(map(is_number, row)) for row in [sizes, *rows])


def _cell_key(method: str, seed: int, settings: BlackBoxSettings) -> str:
    """Return the name of a cell's file, which does not depend on the number of seeds."""
    text = json.dumps([version("randsel"), method, seed, asdict(replace(settings, seeds=0))], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def accuracies(results: dict[str, list[dict[str, Any]]]) -> list[dict[str, str]]:
    """Return one row per method: mean ± standard deviation over the seeds, every seed, and inner accuracy."""
    rows = []
    for name, cells in results.items():
        values = 100.0 * np.array([cell["accuracy"] for cell in cells])
        inner = 100.0 * np.array([cell["inner"] for cell in cells])
        rows.append(
            {
                "method": name,
                "held-out accuracy, %": _format_spread(values),
                "of each seed": ", ".join(f"{value:.1f}" for value in values),
                "of the inner folds, %": _format_spread(inner),
            }
        )
    return rows


def differences(results: dict[str, list[dict[str, Any]]]) -> list[dict[str, str]]:
    """Return rows that show where learned features lose, and whether LPBoostMKL gains by weights or classifier."""
    boosted, average = results["LPBoostMKL, kernels of the path"], results["SVM, average of the same kernels"]
    single = results["SVM, best single kernel"]
    # rounds with less than a quarter of the features
    late = np.array(boosted[0]["sizes"]) < boosted[0]["sizes"][0] / 4
    weights = [100 * np.array(r["weights"])[:, late].sum(axis=1).mean() for r in boosted]

    def row(quantity: str, values: Any, form: str = ".1f") -> dict[str, str]:
        return {"what": quantity, "mean ± sd over seeds": _format_spread(np.array(values), form)}

    filtered = results["SVM, sparse-filtered features"]
    return [
        row("SVM on principal components, what sparse filtering sees, %", [100 * r["before"] for r in filtered]),
        row("SVM on responses of the filters with their sign, %", [100 * r["signed"] for r in filtered]),
        row("SVM on sparse-filtered features, which have none, %", [100 * r["accuracy"] for r in filtered]),
        row("accuracy of LPBoostMKL: its weights, its classifier, %", [100 * r["accuracy"] for r in boosted]),
        row("its weights (mean over classes), SVM, %", [100 * r["svm"] for r in boosted]),
        row("equal weights, its classifier, %", [100 * r["boosted_mean"] for r in boosted]),
        row("equal weights, SVM, %", [100 * r["accuracy"] for r in average]),
        row("weight of rounds with less than a quarter of the features, %", weights),
        row("SVM on the first kernel alone, inner folds, %", [100 * r["alone"][0] for r in single]),
        row(
            "SVM on one of these late kernels, inner folds, mean, %",
            [100 * np.array(r["alone"])[late].mean() for r in single],
        ),
        row("kernels in the stack", [len(r["sizes"]) for r in boosted]),
        row(f"kernels of at least {MIN_WEIGHT:.0%} of the weight, mean over classes", [r["used"] for r in boosted]),
        row("centred alignment of neighbouring kernels", [r["neighbours"] for r in boosted], ".3f"),
        row("centred alignment of the first and the last", [r["ends"] for r in boosted], ".3f"),
    ]


def weights_along_path(results: dict[str, list[dict[str, Any]]]) -> tuple[Array, Array]:
    """Return the number of features of every kernel, and the weights, of shape (seeds, classes, kernels)."""
    boosted = results["LPBoostMKL, kernels of the path"]
    return np.array(boosted[0]["sizes"]), np.array([cell["weights"] for cell in boosted])


def _format_spread(values: Array, form: str = ".1f") -> str:
    return f"{values.mean():{form}} ± {values.std():{form}}"
