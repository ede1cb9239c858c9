"""Count the features that n_features_to_select="auto" selects, and how often features stand out from noise.

python benchmarks/quality/auto.py [--seeds 20] [--permutations 200] [--repetitions 2] [--data ../shared/data]
                                  [--out docs/results/auto.md]
"""

import argparse
import os
import sys
import warnings
from pathlib import Path

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

import numpy as np
from joblib import Parallel, delayed

sys.path.insert(0, str(Path(__file__).parents[1]))
import real
from pages import PageRun
from sklearn.metrics import balanced_accuracy_score

from randsel import RandSel, datasets

RULES = """The fewest features whose error along the path is within so many standard errors of the smallest, chosen
inside 5 folds, {} repetitions, open sets of [real.md](real.md); scores as there. “auto” is the rule of 1."""
#: Real tables whose outcome is permuted. With groups, whole groups exchange their outcomes.
TABLES = ("colon", "riboflavin", "tb_gse107991_london", "stabl_covid", "micro_gravier", "tb_gse107993_ltbi")


def make_noise(n_samples, n_features, random_state):
    rng = np.random.default_rng(random_state)
    return rng.normal(size=(n_samples, n_features)), rng.integers(0, 2, n_samples), np.arange(0)


def make_copies(random_state, n_samples=150, n_copies=50, n_noise=449):
    """Copies (r = 0.95) of one gene, one independent gene of equal effect, and noise."""
    rng = np.random.default_rng(random_state)
    first, second = rng.normal(size=(2, n_samples))
    copies = 0.95 * first[:, None] + np.sqrt(1 - 0.95**2) * rng.normal(size=(n_samples, n_copies))
    X = np.column_stack([copies, second, rng.normal(size=(n_samples, n_noise))])
    return X, (first + second + 0.5 * rng.normal(size=n_samples) > 0).astype(int), np.arange(n_copies + 1)


def make_one_strong(random_state, n_samples=150, n_features=300):
    """One feature of a strong effect among noise."""
    rng = np.random.default_rng(random_state)
    X = rng.normal(size=(n_samples, n_features))
    return X, (X[:, 0] + 0.3 * rng.normal(size=n_samples) > 0).astype(int), np.arange(1)


PROBLEMS = {
    "XOR, 300×100": (datasets.make_xor, {}),
    "XOR, 300×1000": (datasets.make_xor, {"n_features": 1000}),
    "linear Weston, 300×100": (datasets.make_weston_linear, {}),
    "non-linear Weston, 300×100": (datasets.make_weston_nonlinear, {}),
    "50 copies of a gene, another gene, noise, 150×500": (make_copies, {}),
    "one strong feature, 150×300": (make_one_strong, {}),
    "noise, 300×100": (make_noise, {"n_samples": 300, "n_features": 100}),
    "noise, 300×1000": (make_noise, {"n_samples": 300, "n_features": 1000}),
    "noise, 60×3000": (make_noise, {"n_samples": 60, "n_features": 3000}),
}


def fit(X, y, groups=None):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Nothing stands out")
        return RandSel().fit(X, y, groups=groups)


def select(make, problem, seed):
    X, y, relevant = make(random_state=2000 + seed, **problem)
    selector = fit(X, y)
    irrelevant = np.setdiff1d(selector.get_support(indices=True), relevant)
    return selector.n_features_, len(irrelevant), selector.stands_out_


def load(folder, name, *, log2=False):
    with np.load(folder / f"{name}.npz", allow_pickle=False) as arrays:
        X = np.log2(arrays["X"]) if log2 else arrays["X"]
        return X, arrays["y"], arrays.get("groups")


def permute(y, groups, seed):
    rng = np.random.default_rng(seed)
    if groups is None:
        return rng.permutation(y)
    _, first, unit = np.unique(groups, return_index=True, return_inverse=True)
    return y[rng.permutation(first)][unit]


def stands_out_permuted(X, y, groups, seed):
    return fit(X, permute(y, groups, seed), groups).stands_out_


def table_of_sizes(seeds):
    yield "| problem | features chosen, median (10 % to 90 %) | irrelevant ones selected, mean (maximum) | stands out |"
    yield "|---|---|---|---|"
    for name, (make, problem) in PROBLEMS.items():
        runs = Parallel(n_jobs=os.cpu_count())(delayed(select)(make, problem, seed) for seed in range(seeds))
        size, irrelevant, stands_out = map(np.array, zip(*runs, strict=True))
        low, high = np.quantile(size, [0.1, 0.9]).astype(int)
        counts = f"{irrelevant.mean():.1f} ({irrelevant.max()})"
        yield f"| {name} | {int(np.median(size))} ({low} to {high}) | {counts} | {stands_out.mean():.0%} |"


def table_of_alarms(folder, permutations):
    yield f"| table | stands out | p | features chosen | of {permutations} permuted outcomes, stand out |"
    yield "|---|---|---|---|---|"
    alarms = []
    for name, log2 in [(name, False) for name in TABLES] + [("colon", True)]:
        X, y, groups = load(folder, name, log2=log2)
        selector = fit(X, y, groups)
        label = f"{name}, log2" if log2 else f"{name}, by donor" if groups is not None else name
        count = "as above"  # ranks do not change
        if not log2:
            tasks = (delayed(stands_out_permuted)(X, y, groups, seed) for seed in range(permutations))
            alarms.append(np.mean(Parallel(n_jobs=os.cpu_count())(tasks)))
            count = f"{alarms[-1]:.1%}"
        verdict = "yes" if selector.stands_out_ else "no"
        yield f"| {label} | {verdict} | {selector.permutation_pvalue_:.2g} | {selector.n_features_} | {count} |"
    yield f"| mean of {len(alarms)} tables | | | | {np.mean(alarms):.1%} |"


def sizes_by_rule(path):
    """Number of features that each rule chooses from the errors of a path."""
    squares = np.stack([r.errors for r in path.rounds])
    sizes, errors = [len(r.features) for r in path.rounds], squares.mean(axis=1)
    smallest = squares[np.argmin(errors)]
    root = np.sqrt(len(smallest))
    limits = {f"{c:g} standard errors": smallest.mean() + c * smallest.std(ddof=1) / root for c in (0, 1, 1.5, 2)}
    limits["1 of the difference"] = smallest.mean() + (squares - smallest).std(axis=1, ddof=1) / root
    return {rule: sizes[np.flatnonzero(errors <= limit)[-1]] for rule, limit in limits.items()}


def predict_by_rule(folder, name, repetition, fold):
    X, y, groups, kind = real.load(folder / f"{name}.npz")
    train, test = real.split(y, groups, kind, repetition)[fold]
    selector = fit(X[train], y[train], None if groups is None else groups[train])
    sizes = sizes_by_rule(selector.path_) | {"all features": X.shape[1]}
    columns = {rule: selector.order_[:size] for rule, size in sizes.items()}
    predicted = {rule: real.predictions(X[train][:, c], y[train], X[test][:, c], kind) for rule, c in columns.items()}
    return test, sizes, predicted


def table_of_rules(folder, repetitions):
    """Scores, as in real.md, of the models on the number of features that each rule chooses; open sets only."""
    tasks = [(name, repetition, fold) for name in real.OPEN for repetition in range(repetitions) for fold in range(5)]
    results = Parallel(n_jobs=os.cpu_count())(delayed(predict_by_rule)(folder, *task) for task in tasks)
    yield "| rule | features, median of sets | score, mean of sets |"
    yield "|---|---|---|"
    for rule in results[0][1]:
        scores, medians = [], []
        for name in real.OPEN:
            _, y, _, kind = real.load(folder / f"{name}.npz")
            of_set = [(task[1], result) for task, result in zip(tasks, results, strict=True) if task[0] == name]
            medians.append(np.median([sizes[rule] for _, (_, sizes, _) in of_set]))
            for repetition in range(repetitions):
                for model in ("rbf", "linear"):
                    predicted = np.zeros(len(y))
                    for number, (test, _, by_rule) in of_set:
                        if number == repetition:
                            predicted[test] = by_rule[rule][model]
                    is_class = kind == real.CLASSES
                    scores.append(
                        balanced_accuracy_score(y, predicted) if is_class else np.corrcoef(y, predicted)[0, 1]
                    )
        yield f"| {rule} | {np.median(medians):g} | {np.mean(scores):.3f} |"


def show(lines):
    shown = []
    for line in lines:
        print(line, flush=True)
        shown.append(line)
    return shown


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--permutations", type=int, default=200)
    parser.add_argument("--repetitions", type=int, default=2, help="of the folds, for the table of rules")
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / ".." / "shared" / "data")
    parser.add_argument("--out", type=Path, help="also write the tables to this Markdown file")
    options = parser.parse_args()
    run = PageRun("auto")
    sizes = show(table_of_sizes(options.seeds))
    if options.data.is_dir():
        rules = show(table_of_rules(options.data, options.repetitions))
        alarms = show(table_of_alarms(options.data, options.permutations))
    else:
        rules = alarms = show(["The real tables were not at hand; name their folder with --data."])
    if options.out:
        page = [*sizes, ""]
        page += ["## Rules for the number of features", "", RULES.format(options.repetitions), "", *rules, ""]
        page += [
            "## Real tables and permuted outcomes",
            "",
            "With donors, whole donors exchange their outcomes.",
            "",
            *alarms,
            "",
        ]
        n_sets = f"{options.seeds} per problem, {options.permutations} permutations per real table"
        run.write(options.out, "\n".join(page), n_sets)


if __name__ == "__main__":
    main()
