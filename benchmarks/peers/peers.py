"""Compare randsel with other packages for feature selection on the same data: recall, time and memory, on one core.

python benchmarks/peers/peers.py [--only METHOD,...] [--problems PROBLEM,...] [--seeds 10] [--limit 600] [--again]
                           [--python build/peers/bin/python] [--out docs/results/peers.md]

Every fit runs in a separate process. Results are kept in build/peers-results and not computed again. A time-out or a
crash is a result too; it is repeated with --again, or with more time or memory.
"""

import argparse
import inspect
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import measure

measure.one_core()

import numpy as np
from pages import PageRun
from peer_methods import METHODS

from randsel import datasets
from randsel._utils.text import as_markdown

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "peers-results"
WORKER = Path(__file__).with_name("peer_methods.py")
LIBRARIES = ("numpy", "scikit-learn")

PROBLEMS = {
    "xor-500x1000": ("XOR, 500×1000", datasets.make_passemiers, ("xor", 500, 1000)),
    "xor-300x200": ("XOR, 300×200", datasets.make_passemiers, ("xor", 300, 200)),
    "weston-300x100": ("non-linear Weston, 300×100", datasets.make_weston_nonlinear, (300, 100)),
    "ring-xor-500x256": ("ring and XOR, 500×256", datasets.make_passemiers, ("ring+xor", 500, 256)),
}


def data_of(problem, seed):
    """X, y and the relevant columns, in random places: the first column must not win by being the first."""
    _, make, arguments = PROBLEMS[problem]
    X, y, relevant = make(*arguments, random_state=4000 + seed)
    order = np.random.default_rng(seed).permutation(X.shape[1])
    return X[:, order], (y > 0).astype(int), np.flatnonzero(np.isin(order, relevant))


def cell(name, problem, seed, environments, options, run):
    """One method on one data set: recall, number selected, seconds, megabytes, or the error; and the run it is from."""
    method = METHODS[name]
    ours = method.package == "randsel"
    python, installed = environments["ours" if ours else "peers"]
    X, y, relevant = data_of(problem, seed)
    version = installed.get(method.package.lower().replace("_", "-"), "not installed")
    what = {
        "method": name,
        "code": inspect.getsource(method.fit),
        "version": version,
        "libraries": [installed.get(library) for library in LIBRARIES],
        "source": measure.source_digest() if ours else None,
        "problem": problem,
        "data": str(PROBLEMS[problem][2]),
        "seed": seed,
    }

    def compute():
        with tempfile.NamedTemporaryFile(suffix=".npz", dir=KEPT) as file:
            np.savez(file, X=X, y=y)
            file.flush()
            command = [python, WORKER, name, file.name, len(relevant), seed, options.limit]
            found = measure.run(command, limit=options.limit, memory=options.memory)
        if "columns" in found:
            found["recall"] = float(np.isin(relevant, found["columns"]).mean())
        return {**what, "run": run, **found}

    path = KEPT / f"{problem}-{seed}-{slug(name)}-{measure.key_of(what)}.json"
    return measure.kept(path, compute, again=options.again, limit=options.limit, memory=options.memory)


def row(name, records, yardstick):
    """One line of the table: means over the data sets; a method that failed on any has no recall."""
    failed = [record for record in records if record.get("error")]
    line = {"method": name, "version": records[0]["version"]}
    if failed:
        timed_out = failed[0]["error"] == measure.TIMED_OUT
        limit = failed[0]["limit"]
        return {
            **line,
            "recall": "–",
            "selected": "–",
            "seconds": f"> {limit:g}" if timed_out else "failed",
            "times RandSel's": f"> {limit / yardstick:.0f}" if timed_out and yardstick else "–",
            "memory, MB": "–",
        }
    seconds = np.mean([record["seconds"] for record in records])
    return {
        **line,
        "recall": with_error([record["recall"] for record in records]),
        "selected": f"{np.mean([len(record['columns']) for record in records]):g}",
        "seconds": f"{seconds:.3g}",
        "times RandSel's": f"{float(f'{seconds / yardstick:.2g}'):g}" if yardstick else "–",
        "memory, MB": f"{max(record['megabytes'] for record in records):.0f}",
    }


def with_error(values):
    """Mean of the values and its standard error."""
    error = f" ± {np.std(values, ddof=1) / np.sqrt(len(values)):.2f}" if len(values) > 1 else ""
    return f"{np.mean(values):.2f}{error}"


def report(results, environments, options):
    ours, peers = (
        " and ".join(f"{library} {environments[whose][1].get(library)}" for library in LIBRARIES)
        for whose in ("ours", "peers")
    )
    lines = [
        (
            f"randsel with {ours}, the others with {peers}. The data sets of a problem are the same for all. Every fit "
            "runs in a process of its own, on one core with one thread, after a fit of 60×8 that is not counted. "
            "Seconds are those of the fit, imports and reading excluded; the fastest of up to five if it takes less "
            "than two seconds. Memory is the highest resident set during the fit less the resident set before it, "
            f"which holds libraries and data. Limits: {options.limit:g} seconds, {options.memory / 1e9:.0f} GB. Recall "
            "is that of the k relevant features among the k selected, or among all that Boruta selects, which chooses "
            "its number: mean ± standard error over data sets."
        ),
        "",
    ]
    broken = []
    for problem, by_method in results.items():
        lines += [f"## {PROBLEMS[problem][0]}", ""]
        first = by_method.get("RandSel", [{"error": "not run"}])
        yardstick = None if any(r.get("error") for r in first) else np.mean([r["seconds"] for r in first])
        lines += [as_markdown([row(name, records, yardstick) for name, records in by_method.items()]), ""]
        for name, records in by_method.items():
            for error in {record.get("error") for record in records} - {None, measure.TIMED_OUT}:
                title, version = PROBLEMS[problem][0], records[0]["version"]
                broken.append({"method": name, "version": version, "problem": title, "error": f"`{error}`"})
    if broken:
        lines += ["## What failed", "", as_markdown(broken), ""]
    used = {name: METHODS[name] for by_method in results.values() for name in by_method}
    settings = [{"method": name, "package": m.package, "as it was run": m.settings} for name, m in used.items()]
    return "\n".join([*lines, "## Settings", "", as_markdown(settings), ""])


def slug(name):
    """A method's name as it is typed and as files are named."""
    return "-".join("".join(c if c.isalnum() else " " for c in name.lower()).split())


def chosen(text, known):
    wanted = text.split(",") if text else list(known)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        sys.exit(f"There is no {', '.join(unknown)}; there are: {', '.join(known)}.")
    return [known[name] for name in wanted]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help=f"methods, separated by commas: {', '.join(map(slug, METHODS))}")
    parser.add_argument("--problems", help=f"separated by commas: {', '.join(PROBLEMS)}")
    parser.add_argument("--seeds", type=int, default=10, help="data sets per problem")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds that a fit may take")
    parser.add_argument("--memory", type=int, default=measure.most_memory(), help="bytes that a process may take")
    parser.add_argument("--again", action="store_true", help="run again what timed out or crashed")
    parser.add_argument("--python", default=ROOT / "build" / "peers" / "bin" / "python", help="that of the peers")
    parser.add_argument("--out", type=Path, help="also write the tables to this Markdown file")
    options = parser.parse_args()
    pythons = {"ours": sys.executable, "peers": options.python}
    environments = {whose: (python, measure.versions(python)) for whose, python in pythons.items()}
    methods = chosen(options.only, {slug(name): name for name in METHODS})
    problems = chosen(options.problems, {name: name for name in PROBLEMS})
    page = PageRun("peers")
    results = {problem: {name: [] for name in methods} for problem in problems}
    for seed in range(options.seeds):
        for problem in problems:
            for name in methods:
                earlier = results[problem][name]
                # a method that failed on one data set of a problem is not run on the others
                failed = [record for record in earlier if record.get("error")]
                record = failed[0] if failed else cell(name, problem, seed, environments, options, page.about)
                earlier.append(record)
                said = record.get("error") or f"recall {record['recall']:.2f}, {record['seconds']:.3g} s"
                print(f"{problem}, data set {seed}, {name}: {said}", file=sys.stderr, flush=True)
    text = report(results, environments, options)
    print(text)
    if options.out:
        incomplete = "some methods or problems were left out" if options.only or options.problems else ""
        records = [record for by_method in results.values() for records in by_method.values() for record in records]
        runs = list({measure.key_of(record["run"]): record["run"] for record in records}.values())
        page.write(options.out, text, f"{options.seeds} per problem", runs=runs, incomplete=incomplete)


if __name__ == "__main__":
    main()
