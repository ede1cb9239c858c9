"""Compare feature rankings on real tables by the accuracy of models on the features; decides RandSel's default.

python benchmarks/quality/real.py [--data FOLDER] [--cells FOLDER] [--only open|aside|recovery]
                                  [--sets NAME,...] [--methods NAME,...] [--variant JSON] [--repetitions 5] [--jobs 2]
                                  [--seconds S] [--limit 60] [--again] [--no-recovery]
                                  [--any-source] [--page-only] [--out docs/results/real.md]

A cell is one fit of a method on one training fold. Finished cells are appended to a file in the folder of cells, and
not computed again unless the method's code or settings, or the evaluation, have changed.
"""

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

import argparse
import inspect
import json
import sys
import time
import warnings
from functools import cache, lru_cache, partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import measure
import numpy as np
from pages import PageRun
from pool import run_tasks, time_limit
from problems import make_weak_effects
from real_methods import CLASSES, NUMBERS, default_name, methods_by_name
from real_page import write_page
from records import Records
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from randsel import datasets

ROOT = Path(__file__).parents[2]

#: The two halves were fixed before any result of this benchmark was seen. "open" chooses the default; "aside" is looked
#: at when the default is fixed. The first eight sets were used when the criterion was designed, so they are open.
OPEN = (
    "colon",
    "tox_171",
    "tb_gse19491_ltbi",
    "prostate_ge",
    "allaml",
    "tb_gambia_ord",
    "tb_weiner2012",
    "lung_gordon",
    "micro_khan",
    "somascan_sex",
    "riboflavin",
)
ASIDE = (
    "tb_gse107993_ltbi",
    "tb_gse107991_london",
    "micro_gravier",
    "micro_shipp",
    "micro_subramanian",
    "stabl_covid",
    "pbmc68k",
    "wheat_yield",
)
HALVES = {"open": OPEN, "aside": ASIDE}
SELECTIONS = {**HALVES, "recovery": ()}
#: Sets whose values are concentrations or intensities, which are compared on a logarithmic scale.
LOG2 = {"tb_gambia_ord", "tb_weiner2012", "somascan_sex", "colon", "tox_171"}
#: Problems whose relevant features are known: simulated here, or a file of the data folder (None).
RECOVERY = {
    "XOR, 300×100": partial(datasets.make_xor, 300, 100),
    "XOR, 300×200": partial(datasets.make_xor, 300, 200),
    "XOR, 300×1000": partial(datasets.make_xor, 300, 1000),
    "XOR, 300×2000": partial(datasets.make_xor, 300, 2000),
    "linear Weston, 300×100": partial(datasets.make_weston_linear, 300, 100),
    "non-linear Weston, 300×100": partial(datasets.make_weston_nonlinear, 300, 100),
    "weak effects, 150×1000": partial(make_weak_effects, 150, effect=0.45),
    "weak effects, 300×1000": partial(make_weak_effects, 300, effect=0.3),
    "madelon": None,
    "gametes_2way_1000": None,
    "friedman_c0_250_50": None,
}
FOLDS = 5
#: Data sets of every simulated recovery problem.
RECOVERY_SETS = 10
SIZES = (10, 20, 50, 100)


# ---------------------------------------------------------------- data


@lru_cache(maxsize=2)
def load(path):
    """X, y, groups or None, and the kind of y of one set."""
    with np.load(path, allow_pickle=False) as arrays:
        X, y = arrays["X"].astype(np.float64), arrays["y"]
        groups = arrays.get("groups")
    if path.stem in LOG2:
        X = np.log2(X + 1.0) if (X == 0.0).any() else np.log2(X)
    kind = CLASSES if np.issubdtype(y.dtype, np.integer) else NUMBERS
    return X, y if kind == CLASSES else y.astype(np.float64), groups, kind


def split(y, groups, kind, repetition):
    """Training and test rows of the folds: shuffled by the repetition, stratified, groups kept together."""
    strata = y
    if kind == NUMBERS:
        # ten neighbouring values are a stratum
        strata = np.minimum(np.argsort(np.argsort(y, kind="stable")) // 10, max(0, len(y) // 10 - 1))
    rows = np.zeros(len(y))
    if groups is None:
        return list(StratifiedKFold(FOLDS, shuffle=True, random_state=repetition).split(rows, strata))
    # groups are dealt in the order of their labels, which are therefore drawn at random; shuffle=True would not keep
    # the strata in older versions of scikit-learn
    _, codes = np.unique(groups, return_inverse=True)
    labels = np.random.default_rng(repetition).permutation(codes.max() + 1)[codes]
    return list(StratifiedGroupKFold(FOLDS).split(rows, strata, labels))


def simulated_or_stored(name, seed, folder):
    """X, y, the relevant columns and the kind of a recovery problem, columns in random order."""
    if RECOVERY[name] is None:
        with np.load(folder / f"{name}.npz", allow_pickle=False) as arrays:
            X, y, relevant = arrays["X"].astype(np.float64), arrays["y"], arrays["relevant"]
    else:
        X, y, relevant = RECOVERY[name](random_state=1000 + seed)
    kind = NUMBERS if RECOVERY[name] is None and not np.issubdtype(y.dtype, np.integer) else CLASSES
    # a method that breaks ties by position must not profit from relevant columns that come first
    order = np.random.default_rng(seed).permutation(X.shape[1])
    return X[:, order], y, np.flatnonzero(np.isin(order, relevant)), kind


# ---------------------------------------------------------------- cells


def predictions(X_train, y_train, X_test, kind):
    """Predictions of the two models for the test rows, trained on standardised columns."""
    if not X_train.shape[1]:
        model = DummyClassifier() if kind == CLASSES else DummyRegressor()
        return dict.fromkeys(("rbf", "linear"), model.fit(X_train, y_train).predict(X_test))
    scaler = StandardScaler().fit(X_train)
    X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
    if kind == CLASSES:
        return {k: SVC(kernel=k, C=1.0, gamma="scale").fit(X_train, y_train).predict(X_test) for k in ("rbf", "linear")}
    centre, spread = y_train.mean(), y_train.std()
    scaled = (y_train - centre) / spread
    models = {k: SVR(kernel=k, C=1.0, gamma="scale").fit(X_train, scaled) for k in ("rbf", "linear")}
    return {k: centre + spread * model.predict(X_test) for k, model in models.items()}


def evaluate(order, auto_size, has_order, fold, kind):
    """What the page needs of the models on the first 10 to 100 features, and on the number that the method chose.

    For classes, the number of correct predictions of each class; for numbers, the predictions.
    """
    X_train, y_train, X_test, y_test = fold
    sizes = {str(size): size for size in SIZES if has_order and size <= len(order)}
    if auto_size is not None:
        sizes["auto"] = auto_size
    outcome = {}
    n_classes = int(max(y_train.max(), y_test.max())) + 1 if kind == CLASSES else 0
    for label, size in sizes.items():
        columns = order[:size]
        by_model = predictions(X_train[:, columns], y_train, X_test[:, columns], kind)
        if kind == CLASSES:
            outcome[label] = {
                k: np.bincount(y_test[predicted == y_test], minlength=n_classes).tolist()
                for k, predicted in by_model.items()
            }
        else:
            outcome[label] = {k: [float(f"{v:.5g}") for v in predicted] for k, predicted in by_model.items()}
    truth = (
        np.bincount(y_test, minlength=n_classes).tolist() if kind == CLASSES else [float(f"{v:.6g}") for v in y_test]
    )
    return {"kind": kind, "truth": truth, "outcome": outcome}


@cache
def protocol():
    """Short name of the code that prepares the data and evaluates the rankings."""
    parts = (load.__wrapped__, split, simulated_or_stored, predictions, evaluate)
    return measure.key_of([*map(inspect.getsource, parts), sorted(LOG2), FOLDS, SIZES])


def compute(task, methods, folder, limit):
    """One cell: fit the method on a training fold and evaluate its ranking, or count the relevant features found."""
    set_name, method_name, repetition, fold = task
    method, seed = methods[method_name], 100 * repetition + fold
    if set_name in RECOVERY:
        X, y, relevant, kind = simulated_or_stored(set_name, seed, folder)
        (order, _), seconds = timed(method, (X, y, None, kind, seed), limit)
        return {"seconds": seconds, "recall": float(np.isin(relevant, order[: len(relevant)]).mean())}
    X, y, groups, kind = load(folder / f"{set_name}.npz")
    train, test = split(y, groups, kind, repetition)[fold]
    data = X[train], y[train], None if groups is None else groups[train], kind, seed
    (order, auto_size), seconds = timed(method, data, limit)
    order = np.asarray(order)
    if len(np.unique(order)) != len(order) or len(order) < min(SIZES[-1], X.shape[1]):
        raise ValueError("the ranking repeats columns or is too short")
    models = evaluate(order, auto_size, method.has_order, (X[train], y[train], X[test], y[test]), kind)
    return {"seconds": seconds, "auto": auto_size, "features": X.shape[1], **models}


def timed(method, data, limit):
    """The ranking, and the processor seconds that it took; the process ends if it takes longer than the limit."""
    with time_limit(limit), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        result = method.rank(*data)
        return result, round(time.process_time() - start, 4)


class Cells:
    """Finished cells of the present methods and protocol."""

    def __init__(self, folder, methods, *, any_source=False):
        self.records, self.methods = Records(folder), methods
        self.sources = {name: method.source for name, method in methods.items()}
        self.by_task, self.runs = {}, []
        for record, run in self.records:
            task = tuple(record[name] for name in ("set", "method", "repetition", "fold"))
            stored = [record[name] for name in ("settings", "source", "protocol")]
            present = self._identity(task[1])
            if stored == present or (any_source and present and stored[::2] == present[::2]):
                self._add(task, {**record, "run": run})

    def _identity(self, method):
        known = self.methods.get(method)
        return known and [known.settings, self.sources[method], protocol()]

    def _add(self, task, record):
        self.by_task[task] = record
        if record["run"] not in self.runs:
            self.runs.append(record["run"])

    def append(self, task, result, run):
        """Store the result of a task at once."""
        settings, source, evaluated_by = self._identity(task[1])
        record = dict(zip(("set", "method", "repetition", "fold"), task, strict=True))
        record |= {"settings": settings, "source": source, "protocol": evaluated_by, **result}
        self.records.append(record, run)
        self._add(task, {**record, "run": run})

    def failed(self, limit, again):
        """Return sets and methods with a failed fit; failures that may run again are removed from `by_task`."""
        failed = set()
        for task, record in list(self.by_task.items()):
            if "error" in record:
                if again or (record["error"] == measure.TIMED_OUT and limit > record["limit"]):
                    del self.by_task[task]
                else:
                    failed.add(task[:2])
        return failed


# ---------------------------------------------------------------- run


def all_tasks(set_names, methods, options):
    """Cells in the order of their computation: one fold of everything, then the next.

    In this order, a method that is too slow for a set is detected by its first fold, and a run that is stopped has
    computed equally many folds of all methods.
    """
    repetitions = range(options.repetitions)
    tasks = [
        (s, name, r, fold)
        for r in repetitions
        for fold in range(FOLDS)
        for s in set_names
        for name, method in methods.items()
        if s in OPEN or not method.open_only
    ]
    ranked = [name for name, method in methods.items() if method.has_order and not method.open_only]
    if options.sets is None and not options.no_recovery:
        for problem, make in RECOVERY.items():
            tasks += [(problem, m, seed, 0) for seed in (range(RECOVERY_SETS) if make else (0,)) for m in ranked]
    return tasks


def run(tasks, cells, methods, options, about):
    """Compute the missing cells; stop handing them out after `--seconds`."""
    failed = cells.failed(options.limit, options.again)
    missing = [task for task in tasks if task not in cells.by_task]
    print(f"{len(tasks)} cells, {len(missing)} to be computed", file=sys.stderr, flush=True)
    start = reported = time.perf_counter()

    def waiting():
        for task in missing:
            if options.seconds and time.perf_counter() - start > options.seconds:
                return
            if task[:2] not in failed:
                yield task

    work = partial(compute, methods=methods, folder=options.data, limit=options.limit)
    for count, (task, result) in enumerate(run_tasks(waiting(), work, options.jobs), start=1):
        if "error" in result:
            result["limit"] = options.limit
            failed.add(task[:2])
            print(f"{', '.join(map(str, task))}: {result['error']}", file=sys.stderr, flush=True)
        cells.append(task, result, about)
        if time.perf_counter() - reported > 10.0:
            reported = time.perf_counter()
            print(f"{count} of {len(missing)} after {reported - start:.0f} s", file=sys.stderr, flush=True)


def chosen(text, known, what):
    wanted = text.split(",") if text else list(known)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        sys.exit(f"There is no {what} {', '.join(unknown)}; there are: {', '.join(known)}.")
    return wanted


def slug(name):
    """A method's name as it is typed."""
    return "-".join("".join(c if c.isalnum() else " " for c in name.lower()).split())


VARIANT_HELP = """add RandSel with these parameters, as JSON: '{"criterion": "total", "drop": 0.1}'; repeatable"""


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of the .npz files")
    parser.add_argument("--cells", type=Path, default=ROOT / "build" / "bench-real", help="folder of finished cells")
    parser.add_argument("--only", choices=SELECTIONS, help="one half of the sets, or the recovery problems")
    parser.add_argument("--sets", help="only these, separated by commas; without the recovery problems")
    parser.add_argument("--methods", help="only these, separated by commas, as 'linear-svm-rfe'")
    parser.add_argument("--variant", action="append", default=[], help=VARIANT_HELP)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--no-recovery", action="store_true", help="leave the recovery problems out")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes, one thread each")
    parser.add_argument("--seconds", type=float, help="start no new cell after this time")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds that a fit may take")
    parser.add_argument("--again", action="store_true", help="run again what failed or took too long")
    parser.add_argument("--any-source", action="store_true", help="also use cells of other versions of the code")
    parser.add_argument("--page-only", action="store_true", help="compute nothing")
    parser.add_argument("--out", type=Path, help="also write the page to this Markdown file")
    return parser.parse_args()


def main():
    options = parse_options()
    page = PageRun("real")
    set_names = chosen(options.sets, SELECTIONS.get(options.only, OPEN + ASIDE), "set")
    methods = methods_by_name([json.loads(text) for text in options.variant])
    by_slug = {slug(name): name for name in methods}
    methods = {by_slug[name]: methods[by_slug[name]] for name in chosen(options.methods, by_slug, "method")}
    cells = Cells(options.cells, methods, any_source=options.any_source)
    tasks = all_tasks(set_names, methods, options)
    if not options.page_only:
        stored = [name for name in dict.fromkeys(task[0] for task in tasks) if RECOVERY.get(name) is None]
        absent = [name for name in stored if not (options.data / f"{name}.npz").exists()]
        if absent:
            sys.exit(f"{options.data} does not hold {', '.join(absent)}; name the folder of the data with --data.")
        run(tasks, cells, methods, options, page.about)
    finished = [cells.by_task[task] for task in tasks if task in cells.by_task]
    text, tables, n_sets = write_page(finished, methods, HALVES, default_name())
    print(text)
    if options.out:
        incomplete = why_incomplete(tasks, finished, options)
        page.write(options.out, text, n_sets, runs=cells.runs, incomplete=incomplete, tables=tables)


def why_incomplete(tasks, finished, options):
    """Return why the page is not that of all sets and methods and of the present code; nothing if it is."""
    if options.any_source:
        return "some cells are of other versions of the code"
    if options.sets or options.only or options.methods or options.no_recovery:
        return "some sets or methods were left out"
    failed = {(cell["set"], cell["method"]) for cell in finished if "error" in cell}
    missing = {tuple(task) for task in tasks if tuple(task[:2]) not in failed} - {
        (cell["set"], cell["method"], cell["repetition"], cell["fold"]) for cell in finished
    }
    return f"{len(missing)} of {len(tasks)} cells are not finished" if missing else ""


if __name__ == "__main__":
    main()
