"""The paper's deep representations on a stand-in for the Black Box challenge: six classifiers, and why they differ.

A cell is one method with one seed. Features are learned from labelled and unlabelled rows; all settings are chosen by
cross-validation on the labelled rows; held-out rows are predicted once, at the end of a cell.
"""

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

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
from randsel.experiments._cells import hash_cell
from randsel.experiments._run import CELLS, Progress, is_number, read_cell
from randsel.experiments._summary import format_spread
from randsel.learning import LPBoostMKL, PathKernels, SparseFiltering
from randsel.selectors import RandSel

#: Results by method, in the order of seeds.
Results = dict[str, list[dict[str, Any]]]
#: Function of a split and the settings of a candidate that returns the classes of the test rows.
Predictor = Callable[..., Array]
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
    """Stacks of kernels between training rows, and between test and training rows, with the classes of both.

    `sizes` has the number of features of every kernel.
    """

    train: Array
    test: Array
    y: Array
    y_test: Array
    sizes: tuple[int, ...]

    def combined(self, weights: Array | None = None) -> "Split":
        """Return the split with one kernel, the weighted sum of all; without weights their mean."""
        if weights is None:
            return replace(self, train=self.train.mean(axis=0)[None], test=self.test.mean(axis=0)[None])
        train, test = (np.tensordot(weights, kernels, 1)[None] for kernels in (self.train, self.test))
        return replace(self, train=train, test=test)


class Learned(NamedTuple):
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
        self.svm_candidates = list(product([0], settings.bandwidths, settings.costs))

    def splits(self, features: Array) -> list[Split]:
        """Return splits with one Gaussian kernel of all standardised columns, with the median bandwidth."""
        splits = []
        for train, test in self.train_and_test:
            scaler = StandardScaler().fit(features[train])
            Z, Z_test = scaler.transform(features[train]), scaler.transform(features[test])
            gamma = bandwidth("median", squared_distances(Z))
            kernels = (gaussian_kernel(Z, gamma)[None], gaussian_kernel(Z_test, gamma, Z=Z)[None])
            splits.append(Split(*kernels, self.classes[train], self.classes[test], (features.shape[1],)))
        return splits

    @cached_property
    def learned(self) -> tuple[Learned, dict[str, Any]]:
        """Sparse-filtered features and the settings of the filtering, chosen by the accuracy of an SVM."""
        options = list(product(self.settings.whiten, self.settings.iterations))
        tried = [self._learn(*option) for option in options]
        scores = [_inner_accuracies(self.splits(data.features), self.svm_candidates).max() for data in tried]
        best = int(np.argmax(scores))
        return tried[best], dict(zip(("whiten", "iterations"), options[best], strict=True))

    def _learn(self, whiten: bool, iterations: int) -> Learned:
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
        stacks: dict[float, list[Split]] = {multiple: [] for multiple in self.settings.bandwidths}
        features = self.learned[0].features
        for multiple, (train, test) in product(stacks, self.train_and_test):
            # the settings of docs/results/blackbox.md; normal scores of sparse features lower the accuracies
            selector = RandSel(2, criterion="calibrated", scale=True, min_features=2, gamma=f"{multiple}*median")
            selector.set_params(target="classification")
            path = PathKernels(selector, max_kernels=self.settings.max_kernels)
            path.fit(features[train], self.classes[train])
            kernels = path.transform(features[train]), path.transform(features[test])
            sizes = tuple(len(columns) for columns, _ in path.kernels_)
            stacks[multiple].append(Split(*kernels, self.classes[train], self.classes[test], sizes))
        return stacks


# ---------------------------------------------------------------- methods


def _predict_svm(split: Split, kernel: int, power: float, cost: float) -> Array:
    """Return the classes that a support vector machine predicts with one kernel; a power changes its bandwidth."""
    model = SVC(C=cost, kernel="precomputed").fit(split.train[kernel] ** power, split.y)
    return np.asarray(model.predict(split.test[kernel] ** power))


def _inner_accuracies(splits: list[Split], candidates: list[Any], predict: Predictor = _predict_svm) -> Array:
    """Return the mean accuracy over the inner folds of every candidate, a tuple of arguments of `predict`."""
    return np.array(
        [np.mean([accuracy_score(s.y_test, predict(s, *candidate)) for s in splits[:-1]]) for candidate in candidates]
    )


def _test_best(splits: list[Split], candidates: list[Any], predict: Predictor = _predict_svm) -> dict[str, Any]:
    """Choose the best candidate on the inner folds (the first on ties), and test it on the held-out rows."""
    scores = _inner_accuracies(splits, candidates, predict)
    chosen = candidates[int(scores.argmax())]
    accuracy = accuracy_score(splits[-1].y_test, predict(splits[-1], *chosen))
    return {"accuracy": float(accuracy), "inner": float(scores.max()), "chosen": list(chosen)}


def _test_best_stack(trial: Trial, test: Callable[[float, list[Split]], dict[str, Any]]) -> dict[str, Any]:
    """Return the result of `test` on the stack that is best on the inner folds, and its bandwidth."""
    results = [{**test(multiple, splits), "bandwidth": multiple} for multiple, splits in trial.stacks.items()]
    return max(results, key=lambda result: result["inner"])


def _classify_raw(trial: Trial) -> dict[str, Any]:
    return _test_best(trial.splits(np.vstack([trial.data.X, trial.data.held_out])), trial.svm_candidates)


def _classify_filtered(trial: Trial) -> dict[str, Any]:
    """Classify by the learned features, and by components and signed features, to see where accuracy is lost."""
    learned, settings = trial.learned
    result, components, signed = (_test_best(trial.splits(features), trial.svm_candidates) for features in learned)
    return {**result, **settings, "before": components["accuracy"], "signed": signed["accuracy"]}


def _classify_selected(trial: Trial) -> dict[str, Any]:
    """Classify by the features of one round, with a bandwidth chosen for the classifier."""
    splits, settings = trial.stacks[1.0], trial.settings
    sizes = splits[0].sizes
    result = _test_best(splits, list(product(range(len(sizes)), settings.bandwidths, settings.costs)))
    return {**result, "n_features": sizes[result["chosen"][0]]}


def _classify_single_kernel(trial: Trial) -> dict[str, Any]:
    """Classify by the best single kernel of all stacks, with the bandwidth of its stack."""

    def candidates(splits: list[Split], costs: Sequence[float]) -> list[Any]:
        return list(product(range(len(splits[0].sizes)), [1.0], costs))

    result = _test_best_stack(trial, lambda _, splits: _test_best(splits, candidates(splits, trial.settings.costs)))
    splits = trial.stacks[result["bandwidth"]]
    kernel, _, cost = result["chosen"]
    alone = _inner_accuracies(splits, candidates(splits, [cost]))
    sizes = splits[0].sizes
    return {**result, "n_features": sizes[kernel], "sizes": sizes, "alone": alone.tolist()}


def _classify_mean_kernel(trial: Trial) -> dict[str, Any]:
    candidates = list(product([0], [1.0], trial.settings.costs))
    return _test_best_stack(trial, lambda _, splits: _test_best([split.combined() for split in splits], candidates))


def _classify_boosted(trial: Trial) -> dict[str, Any]:
    """Classify by the whole pipeline; also count the kernels used, and test weights and classifier separately."""
    settings = trial.settings
    models: dict[tuple[float, float, int], LPBoostMKL] = {}

    def predict(split: Split, multiple: float, nu: float) -> Array:
        key = multiple, nu, id(split)
        if key not in models:
            models[key] = _fit_mkl(split, nu)
        return np.asarray(models[key].predict(split.test))

    result = _test_best_stack(
        trial, lambda multiple, splits: _test_best(splits, [(multiple, nu) for nu in settings.nus], predict)
    )
    multiple, nu = result["chosen"]
    splits = trial.stacks[multiple]
    fitted = [models[multiple, nu, id(split)] for split in splits]
    weights = fitted[-1].kernel_weights_
    weighted = [s.combined(model.kernel_weights_.mean(axis=0)) for s, model in zip(splits, fitted, strict=True)]
    averaged = [split.combined() for split in splits]
    alignments = np.array([[alignment(K, L) for K in splits[-1].train] for L in splits[-1].train])
    boosted_mean = _test_best(averaged, [(nu,) for nu in settings.nus], lambda s, nu: _fit_mkl(s, nu).predict(s.test))
    return {
        **result,
        "nu": nu,
        "sizes": splits[-1].sizes,
        "weights": weights.tolist(),
        "used": float((weights >= MIN_WEIGHT).sum(axis=1).mean()),
        "neighbours": float(np.diagonal(alignments, 1).mean()),
        "ends": float(alignments[0, -1]),
        "svm": _test_best(weighted, list(product([0], [1.0], settings.costs)))["accuracy"],
        "boosted_mean": boosted_mean["accuracy"],
    }


def _fit_mkl(split: Split, nu: float) -> LPBoostMKL:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model: LPBoostMKL = LPBoostMKL("precomputed", nu=nu, tol=3e-3, max_iter=100).fit(split.train, split.y)
        return model


METHODS: dict[str, Callable[[Trial], dict[str, Any]]] = {
    "Gaussian SVM, raw input": _classify_raw,
    "SVM, sparse-filtered features": _classify_filtered,
    "SVM, features selected by randSel": _classify_selected,
    "LPBoostMKL, kernels of the path": _classify_boosted,
    "SVM, average of the same kernels": _classify_mean_kernel,
    "SVM, best single kernel": _classify_single_kernel,
}
#: Entries of results that are numbers, of some methods in addition to accuracies.
NUMBERS = {
    "SVM, sparse-filtered features": ("before", "signed"),
    "LPBoostMKL, kernels of the path": ("svm", "boosted_mean", "used", "neighbours", "ends"),
}


# ---------------------------------------------------------------- all cells


def run_black_box(settings: BlackBoxSettings, out: Path, *, progress: Progress | None = None) -> Results:
    """Run the cells that have no file yet, and return the results of all, by method, in the order of seeds.

    `progress` is called with "cells", the number of cells done, and the number of all cells.
    """
    check_folder(out)
    out.mkdir(parents=True, exist_ok=True)
    results: Results = {name: [] for name in METHODS}
    total, show = settings.seeds * len(METHODS), progress or (lambda *_: None)
    with lock_folder(out):
        check_or_write_identity(out, {"comparison": "blackbox"}, ("comparison",))
        folder = out / CELLS
        folder.mkdir(exist_ok=True)
        for seed in range(settings.seeds):
            trial: Trial | None = None
            for name, method in METHODS.items():
                # the same file for any number of seeds
                path = folder / f"{hash_cell(name, seed, asdict(replace(settings, seeds=0)))}.json"
                result = read_cell(path, [], ("accuracy", "inner", *NUMBERS.get(name, ())), _is_complete)
                if result is None:
                    show("cells", sum(map(len, results.values())), total)
                    trial = trial or Trial(seed, settings)
                    cell = {"method": name, "seed": seed, "settings": asdict(settings)}
                    # a JSON round trip turns tuples into lists, as in a result that is read
                    result = json.loads(json.dumps(method(trial)))
                    write_atomically(path, json.dumps({"cell": cell, "result": result}, indent=1))
                results[name].append(result)
    return results


def _is_complete(result: dict[str, Any]) -> bool:
    """Return whether all lists of a result hold numbers and have the same length."""
    sizes = result.get("sizes", [])
    rows = [sizes, result.get("alone", sizes), *(result.get("weights") or [])]
    return all(isinstance(row, list) and len(row) == len(sizes) and all(map(is_number, row)) for row in rows)


def accuracies(results: Results) -> list[dict[str, str]]:
    """Return one row per method: mean ± standard deviation over the seeds, every seed, and inner accuracy."""
    return [
        {
            "method": name,
            "held-out accuracy, %": format_spread([100 * cell["accuracy"] for cell in cells]),
            "of each seed": ", ".join(f"{100 * cell['accuracy']:.1f}" for cell in cells),
            "of the inner folds, %": format_spread([100 * cell["inner"] for cell in cells]),
        }
        for name, cells in results.items()
    ]


def differences(results: Results) -> list[dict[str, str]]:
    """Return rows that show where learned features lose, and whether LPBoostMKL gains by weights or classifier."""
    _, filtered, _, boosted, average, single = (results[name] for name in METHODS)
    # rounds with less than a quarter of the features
    late = np.array(boosted[0]["sizes"]) < boosted[0]["sizes"][0] / 4
    late_weights = [100 * np.array(r["weights"])[:, late].sum(axis=1).mean() for r in boosted]
    late_alone = [100 * np.array(r["alone"])[late].mean() for r in single]

    def percent(cells: list[dict[str, Any]], entry: str) -> list[float]:
        return [100 * cell[entry] for cell in cells]

    rows = {
        "SVM on principal components, what sparse filtering sees, %": percent(filtered, "before"),
        "SVM on responses of the filters with their sign, %": percent(filtered, "signed"),
        "SVM on sparse-filtered features, which have none, %": percent(filtered, "accuracy"),
        "accuracy of LPBoostMKL: its weights, its classifier, %": percent(boosted, "accuracy"),
        "its weights (mean over classes), SVM, %": percent(boosted, "svm"),
        "equal weights, its classifier, %": percent(boosted, "boosted_mean"),
        "equal weights, SVM, %": percent(average, "accuracy"),
        "weight of rounds with less than a quarter of the features, %": late_weights,
        "SVM on the first kernel alone, inner folds, %": [100 * r["alone"][0] for r in single],
        "SVM on one of these late kernels, inner folds, mean, %": late_alone,
        "kernels in the stack": [len(r["sizes"]) for r in boosted],
        f"kernels of at least {MIN_WEIGHT:.0%} of the weight, mean over classes": [r["used"] for r in boosted],
        "centred alignment of neighbouring kernels": [r["neighbours"] for r in boosted],
        "centred alignment of the first and the last": [r["ends"] for r in boosted],
    }
    return [
        {"what": what, "mean ± sd over seeds": format_spread(values, 3 if what.startswith("centred") else 1)}
        for what, values in rows.items()
    ]


def weights_along_path(results: Results) -> tuple[Array, Array]:
    """Return the number of features of every kernel, and the weights, of shape (seeds, classes, kernels)."""
    boosted = results["LPBoostMKL, kernels of the path"]
    return np.array(boosted[0]["sizes"]), np.array([cell["weights"] for cell in boosted])
