"""Compare decision rules of the panel model: how well each predicts classes of unequal size, and how calibrated it is.

python benchmarks/quality/decision.py [--out docs/results/decision.md] [--repeats 2]

Every set is also thinned to three samples of its largest class per sample of the others. In every fold the features
are the best of an F test on the training samples. Needs the benchmark data in ../shared/data.
"""

import argparse
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import measure

measure.one_core()

import numpy as np
from pages import PageRun
from sklearn.feature_selection import f_classif

from randsel._utils.text import as_markdown
from randsel.prediction import Preparation, fit_calibration, score_columns
from randsel.prediction._model import RIDGES, _errors, _fit_ridge, _split, encode_outcome, weigh_samples
from randsel.prediction._ridge import RidgePath
from randsel.targets import CLASSES

DATA = Path(__file__).parents[3] / "shared" / "data"
NAMES = ("allaml", "colon", "lung_gordon", "micro_gravier", "micro_khan", "micro_shipp", "micro_subramanian", "pbmc68k")
NAMES += ("prostate_ge", "somascan_sex", "stabl_covid", "tb_gambia_ord", "tb_gse107991_london", "tb_gse107993_ltbi")
NAMES += ("tb_gse19491_ltbi", "tb_weiner2012", "tox_171")
SIZES, N_FOLDS, RATIO = (5, 20), 3, 3
#: Rule -> what it does.
RULES = {
    "SVM": "support vector machine with balanced class weights, the measure until now",
    "largest": "ridge regression without class weights, class of the largest output (0.5 of two classes)",
    "frequency": "the same, class of the largest ratio of output and class frequency",
    "Platt": "the same, calibrated by inner folds, class of the largest ratio of probability and class frequency",
    "balanced": "ridge regression with balanced class weights, class of the largest output",
}


def load(name):
    with np.load(DATA / f"{name}.npz", allow_pickle=False) as found:
        return found["X"].astype(np.float64), found["y"], found.get("groups")


def thin(y, rng):
    """Rows of all samples of the largest class, and of the others one for `RATIO` of it, as equal as they come."""
    classes, counts = np.unique(y, return_counts=True)
    largest, most = classes[counts.argmax()], counts.max() // (RATIO * (len(classes) - 1))
    rows = [rng.permutation(np.flatnonzero(y == label)) for label in classes]
    kept = [
        row if label == largest else row[: max(most, 2 * N_FOLDS)] for label, row in zip(classes, rows, strict=True)
    ]
    return np.sort(np.concatenate(kept))


def inner_outputs(Z, Y, weights, units, folds):
    """Held-out outputs of the linear kernel with its best penalty, to calibrate by."""
    path = RidgePath.fit(Z, Y, weights, "linear")
    best = min(RIDGES, key=lambda ridge: _errors(path, ridge, units, folds).mean())
    return path.held_out_outputs(best, folds)


def compare(X, y, groups, size, train, test):
    """Predicted classes of the test samples by every rule, and the log losses without and with class weights."""
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):  # constant features
        order = np.argsort(-np.nan_to_num(f_classif(X[train], y[train])[0]), kind="stable")
    columns = order[:size]
    preparation, Z = Preparation.fit(X[np.ix_(train, columns)], {}, train, None)
    new = score_columns(X[np.ix_(test, columns)], preparation.points)
    classes, codes = np.unique(y[train], return_inverse=True)
    Y, frequencies = encode_outcome(y[train], CLASSES), np.bincount(codes) / len(codes)
    units = train if groups is None else groups[train]
    folds = list(_split(y[train], CLASSES, None if groups is None else units))
    chosen = {"SVM": CLASSES.predict_held_out(X, y, train, test, columns, "median", class_weight="balanced")}
    losses = []
    for weights in (np.ones(len(train)), weigh_samples(y[train], CLASSES)):
        outputs = _fit_ridge(Z, Y, weights, np.arange(len(train)), units, folds).outputs(new)
        probabilities = fit_calibration(inner_outputs(Z, Y, weights, units, folds), codes, nested=False).probabilities(
            outputs
        )
        losses.append(-np.log(probabilities[np.arange(len(test)), np.searchsorted(classes, y[test])]).mean())
        if "largest" in chosen:
            chosen["balanced"] = classes[outputs.argmax(axis=1)]
            continue
        chosen["largest"] = classes[outputs.argmax(axis=1)]
        chosen["frequency"] = classes[(outputs / frequencies).argmax(axis=1)]
        chosen["Platt"] = classes[(probabilities / frequencies).argmax(axis=1)]
    return chosen, losses


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="also write the table to this Markdown file")
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    if not DATA.exists():
        print(f"Nothing to show: {DATA} is not there.")
        return
    page, lines = PageRun("decision"), []
    for name in NAMES:
        X, y, groups = load(name)
        for is_thinned in (False, True):
            scores, losses = {rule: [] for rule in RULES}, []
            for repeat in range(options.repeats):
                rows = thin(y, np.random.default_rng(repeat)) if is_thinned else np.arange(len(y))
                within = None if groups is None else groups[rows]
                for train, test in CLASSES.splits(y[rows], within, N_FOLDS, repeat):
                    if len(np.unique(y[rows][train])) < len(np.unique(y)) or not len(test):
                        continue
                    for size in SIZES:
                        chosen, loss = compare(X, y, groups, size, rows[train], rows[test])
                        losses.append(loss)
                        for rule, predicted in chosen.items():
                            scores[rule].append(CLASSES.score(y[rows][test], predicted))
            counts = np.unique(y[rows], return_counts=True)[1]
            line = {"set": name + (", thinned" if is_thinned else ""), "samples of classes": ":".join(map(str, counts))}
            line |= {rule: f"{np.mean(values):.3f}" for rule, values in scores.items()}
            line |= {"loss": f"{np.mean(losses, axis=0)[0]:.3f}", "loss, balanced": f"{np.mean(losses, axis=0)[1]:.3f}"}
            lines.append(line)
            print(line, flush=True)
    for label, part in (("mean, as given", lines[::2]), ("mean, thinned", lines[1::2]), ("mean", lines)):
        means = {
            key: f"{np.mean([float(line[key]) for line in part]):.3f}"
            for key in lines[0]
            if key not in list(lines[0])[:2]
        }
        lines = [*lines, {"set": label, "samples of classes": "", **means}]
    rules = "\n".join(f"- **{rule}**: {words}" for rule, words in RULES.items())
    text = (
        f"Balanced accuracy on held-out samples, mean of {options.repeats} × {N_FOLDS} folds and of the best "
        f"{' and '.join(map(str, SIZES))} features of an F test. Sets are taken as they are, and thinned to {RATIO} "
        "samples of the largest class per sample of the others. The last two columns are log losses of probabilities "
        "that inner folds calibrate, of ridge regression without and with balanced class weights.\n\n"
        f"{rules}\n\n" + as_markdown(lines) + "\n"
    )
    print(text)
    if options.out:
        page.write(options.out, text, f"{len(NAMES)} real tables")


if __name__ == "__main__":
    main()
