"""Time and memory of LPBoostMKL on 30 kernels of 1000 samples, and its accuracy compared with the methods of MKLpy.

python benchmarks/peers/mkl.py [--seeds 5] [--jobs 2] [--limit 600] [--again] [--only size|peers]
                         [--python build/mkl/bin/python] [--out docs/results/mkl.md]

Every fit runs in a separate process. Results are kept in build/mkl-results, also of crashed fits, which --again
repeats.
"""

import argparse
import inspect
import os
import sys
import tempfile
import warnings
from pathlib import Path

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

sys.path.insert(0, str(Path(__file__).parents[1]))
import measure
import numpy as np
from mkl_methods import METHODS
from pages import PageRun
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from randsel import PathKernels, RandSel, SparseFiltering, datasets
from randsel._numerics.kernels import bandwidth, gaussian_kernel, squared_distances
from randsel._utils.text import as_markdown

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "mkl-results"
WORKER = Path(__file__).with_name("mkl_methods.py")
COMPARED = ("LPBoostMKL", "EasyMKL", "AverageMKL")


def features_of(box):
    """Sparse-filtered features of labelled and held-out rows, learned on labelled and unlabelled ones."""
    seen = np.vstack([box.X, box.unlabelled])
    scaler = StandardScaler().fit(seen)
    components = PCA(0.99).fit(scaler.transform(seen))
    filtering = SparseFiltering(256, max_iter=20, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # twenty iterations: more make the features no better to classify by
        filtering.fit(components.transform(scaler.transform(seen)))
    return [filtering.transform(components.transform(scaler.transform(rows))) for rows in (box.X, box.held_out)]


def path_kernels(box, drop=0.25):
    """One kernel of each round of a path over sparse-filtered features."""
    train, test = features_of(box)
    path = PathKernels(RandSel(2, drop=drop, target="classification"), max_kernels=30).fit(train, box.y)
    return path.transform(train), path.transform(test)


def bandwidth_kernels(box):
    """Ten bandwidths on the raw input, from a sixteenth of the median rule to 32 times it."""
    scaler = StandardScaler().fit(box.X)
    train, test = scaler.transform(box.X), scaler.transform(box.held_out)
    gammas = bandwidth("median", squared_distances(train)) * 2.0 ** np.arange(-4, 6)
    return tuple(np.array([gaussian_kernel(rows, gamma, Z=train) for gamma in gammas]) for rows in (train, test))


STACKS = {"rounds of a path, 19 kernels": path_kernels, "bandwidths, 10 kernels": bandwidth_kernels}


def cell(name, what, make, jobs, environments, options):
    """One method on one stack: accuracy, seconds, megabytes, or the error."""
    function, package, settings = METHODS[name]
    ours = package == "randsel"
    python, installed = environments["ours" if ours else "peers"]
    what = {
        "method": name,
        "code": inspect.getsource(function) + str(settings),
        "version": installed.get(package.lower(), "not installed"),
        "source": measure.source_digest() if ours else None,
        "jobs": jobs,
        **what,
    }

    def compute():
        (train, test), box = make()
        with tempfile.NamedTemporaryFile(suffix=".npz", dir=KEPT) as file:
            np.savez(file, train=train, test=test, y=box.y, y_test=box.held_out_y)
            file.flush()
            command = [python, WORKER, name, file.name, jobs, options.limit]
            return {**what, **measure.run(command, limit=options.limit, memory=options.memory)}

    KEPT.mkdir(parents=True, exist_ok=True)
    path = KEPT / f"{measure.key_of(what)}.json"
    found = measure.kept(path, compute, again=options.again, limit=options.limit, memory=options.memory)
    said = found.get("error") or f"accuracy {found['accuracy']:.3f}, {found['seconds']:.3g} s"
    print(f"{name}, {what['stack']}, seed {what['seed']}: {said}", file=sys.stderr, flush=True)
    return found


def size(environments, options):
    """Time and memory of one fit, 1000 samples, 30 kernels, 9 classes."""

    def make():
        box = datasets.make_black_box(1000, 500, random_state=0)
        return path_kernels(box, drop=0.15), box

    what = {"stack": "30 rounds, 1000 samples", "seed": 0}
    rows = []
    for jobs in dict.fromkeys((1, options.jobs)):
        found = cell("LPBoostMKL (default)", what, make, jobs, environments, options)
        row = {"jobs": str(jobs), "cores": str(len(os.sched_getaffinity(0)))}
        if "error" in found:
            rows.append(
                {**row, "seconds": found["error"], "kernels, MB": "–", "added by the fit, MB": "–", "accuracy, %": "–"}
            )
            continue
        rows.append(
            {
                **row,
                "seconds": f"{found['seconds']:.1f}",
                "kernels, MB": f"{found['kernels_mb']:.0f}",
                "added by the fit, MB": f"{found['megabytes']:.0f}",
                "accuracy, %": f"{100 * found['accuracy']:.1f}",
            }
        )
    return rows


def peers(environments, options):
    """Accuracy on held-out rows: mean ± sd over the seeds, and seconds of a fit."""
    rows, errors = [], []
    for stack, kernels in STACKS.items():
        for name in COMPARED:

            def make(seed, kernels=kernels):
                box = datasets.make_black_box(random_state=1000 + seed)
                return kernels(box), box

            found = [
                cell(name, {"stack": stack, "seed": seed}, lambda seed=seed: make(seed), 1, environments, options)
                for seed in range(options.seeds)
            ]
            row = {"kernels": stack, "method": name, "version": found[0]["version"]}
            failed = [record["error"] for record in found if "error" in record]
            errors += [f"- {name}, {stack}: `{error}`" for error in dict.fromkeys(failed)]
            accuracies = 100 * np.array([record["accuracy"] for record in found if "error" not in record])
            rows.append(
                {
                    **row,
                    "held-out accuracy, %": f"{accuracies.mean():.1f} ± {accuracies.std():.1f}"
                    if len(accuracies)
                    else "–",
                    "of each seed": ", ".join(f"{a:.1f}" for a in accuracies),
                    "failed": str(len(failed)),
                    "seconds of a fit": "–" if failed else f"{np.mean([record['seconds'] for record in found]):.2g}",
                }
            )
    return rows, errors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2, help="jobs of the large fit")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds that a fit may take")
    parser.add_argument("--memory", type=int, default=measure.most_memory(), help="bytes that a process may take")
    parser.add_argument("--again", action="store_true", help="run again what timed out or crashed")
    parser.add_argument("--only", choices=["size", "peers"], help="one of the two parts")
    parser.add_argument("--python", default=ROOT / "build" / "mkl" / "bin" / "python", help="that of MKLpy")
    parser.add_argument("--out", type=Path, help="also write the tables to this Markdown file")
    options = parser.parse_args()
    pythons = {"ours": sys.executable, "peers": options.python}
    environments = {whose: (python, measure.versions(python)) for whose, python in pythons.items()}
    installed = environments["peers"][1]
    page, lines = PageRun("mkl"), []
    if options.only != "peers":
        lines += [
            "## Time and memory",
            "",
            (
                '`LPBoostMKL("precomputed")` on 1000 samples, 9 classes, 30 kernels: the rounds of a path over sparse-'
                "filtered features of `make_black_box`. Memory is the highest resident set during the fit less the one "
                "before it, which holds the kernels. One BLAS thread; the fastest of up to five fits in two seconds."
            ),
            "",
            as_markdown(size(environments, options)),
            "",
        ]
    if options.only != "size":
        rows, errors = peers(environments, options)
        lines += [
            "## Compared with MKLpy",
            "",
            (
                f"The same kernels for all: {options.seeds} seeds of `make_black_box()`, 180 labelled rows, 600 held "
                f"out; mean ± sd. Settings (nu, or lambda and C) by three folds of the labelled rows. MKLpy "
                f"{installed.get('mklpy', 'is not installed')} with numpy {installed.get('numpy')}, torch "
                f"{installed.get('torch')}, cvxopt {installed.get('cvxopt')}, scikit-learn "
                f"{installed.get('scikit-learn')}; its learner is scikit-learn's SVC."
            ),
            "",
            as_markdown(rows),
            "",
            *errors,
        ]
    text = "\n".join(lines).rstrip() + "\n"
    print(text)
    if options.out:
        page.write(options.out, text, f"{options.seeds} per row of the comparison, 1 per row of time and memory")


if __name__ == "__main__":
    main()
