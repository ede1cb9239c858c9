"""Interactions among very many features: pairs in 100 000 features, triples in 1000 SNPs.

python benchmarks/scale/wide.py [--device cuda] [--only pairs,noise,triples,filtered] [--out docs/results/wide.md]

Every fit is stored in the folder of records, with the device that it ran on; a stored fit is not repeated. The page
shows all records, so that a processor and a GPU can be measured on different machines.
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
from pages import PageRun
from records import Records

from randsel import InteractionScan, datasets
from randsel._utils.text import as_markdown

#: Seeds of the data sets.
FIRST_SEED = 30_000
N_SAMPLES, N_FEATURES, N_FUNCTIONS = 250, 100_000, 4
#: Data sets of each problem, on a GPU and on a processor.
N_SETS = {"cuda": 5, None: 1}
#: Situation -> goal in seconds, on a GPU and on two cores.
GOALS = {"parity of three SNPs": {"cuda": 60.0, None: 1800.0}}


#: Part -> what it measures.
ABOUT = {
    "pairs": f"Pairs: `InteractionScan(n_functions={N_FUNCTIONS})` tests all pairs of {N_FEATURES} features of "
    f"{N_SAMPLES} samples.",
    "triples": "Triples: `InteractionScan(n_functions=2, order=3)` tests all triples of 1000 SNPs of 1600 samples. "
    "Three SNPs whose pairs have no effect cannot be found by selecting features or pairs first.",
    "filtered": "Triples of 10 000 SNPs: the 1000 SNPs that a test of all pairs ranks first are tested in all triples. "
    "The test of a triple removes what its pairs explain, so its p-value is corrected for the triples tested. SNPs are "
    "called if their triple is significant. A triple whose pairs have no effect is missed: its SNPs are among the "
    "first 1000 only by chance.",
}
#: Features that are tested in triples after a test of all pairs.
N_FILTERED = 1000


def wide_pairs(kind, seed, n):
    X, y, relevant = datasets.make_passemiers(kind, N_SAMPLES, n, random_state=seed)
    return X.astype(np.float32), y, relevant


def noise(seed, n):
    rng = np.random.default_rng(seed)
    return rng.random((N_SAMPLES, n), dtype=np.float32), rng.permutation(np.arange(N_SAMPLES) % 2), np.zeros(0, int)


def parity(seed, n):
    """SNPs of 1600 samples; the label is the parity of three of them, a fifth of the labels drawn at random.

    Half of the samples carry each of the three, so that no SNP and no pair has an effect.
    """
    rng = np.random.default_rng(seed)
    relevant, frequencies = rng.permutation(n)[:3], rng.uniform(0.2, 0.5, n)
    frequencies[relevant] = 1.0 - 0.5**0.5
    X = rng.binomial(2, frequencies, (1600, n)).astype(np.float32)
    y = (X[:, relevant] > 0).sum(axis=1) % 2
    drawn = rng.random(len(y)) < 0.2
    y[drawn] = rng.integers(0, 2, drawn.sum())
    return X, y, relevant


def three_carriers(seed, n):
    """SNPs of 1600 samples; carriers of three of them have the label with probability 0.9, others with 0.1."""
    rng = np.random.default_rng(seed)
    X = rng.binomial(2, rng.uniform(0.2, 0.5, n), (1600, n)).astype(np.float32)
    relevant = rng.permutation(n)[:3]
    carries_all = (X[:, relevant] > 0).all(axis=1)
    return X, (rng.random(1600) < np.where(carries_all, 0.9, 0.1)).astype(int), relevant


PARTS = {
    "pairs": {
        "XOR": lambda seed, n: wide_pairs("xor", seed, n),
        "ring": lambda seed, n: wide_pairs("ring", seed, n),
        "ring and XOR": lambda seed, n: wide_pairs("ring+xor", seed, n),
    },
    "noise": {"noise": noise},
    "triples": {"parity of three SNPs": parity},
    "filtered": {"carriers of three SNPs": three_carriers, "parity of three SNPs, pairs first": parity},
}
#: Part -> number of features.
WIDTHS = {"triples": 1000, "filtered": 10_000}


def call_features(part, X, y, device, jobs):
    """Return the features that are called at a family-wise level of 0.05, and all features, best first."""
    options = {"n_functions": N_FUNCTIONS if part in ("pairs", "noise") else 2, "device": device, "n_jobs": jobs}
    scan = InteractionScan(order=3 if part == "triples" else 2, **options).fit(X, y)
    if part != "filtered":
        return np.flatnonzero(scan.pvalues_ * X.shape[1] <= 0.05), scan.order_
    first = scan.order_[:N_FILTERED]
    triples = InteractionScan(order=3, **options).fit(X[:, first], y).triples_
    significant = triples[triples["p_corrected"] <= 0.05]
    return np.unique(first[np.concatenate([significant[name] for name in "ijk"])]), scan.order_


def fit_one(part, situation, seed, device, n, jobs):
    """Fit one data set; return what was found at a family-wise level of 0.05."""
    X, y, relevant = PARTS[part][situation](seed, n)
    start = time.perf_counter()
    called, order = call_features(part, X, y, device, jobs)
    seconds = time.perf_counter() - start
    shape = f"{X.shape[0]}×{X.shape[1]}"
    record = {"part": part, "situation": situation, "table": shape, "seed": seed, "device": device or ""}
    record |= {"seconds": seconds, "relevant": len(relevant), "jobs": jobs or 1}
    return record | {
        "found": int(np.isin(relevant, called).sum()),
        "false": int((~np.isin(called, relevant)).sum()),
        "first": bool(len(relevant)) and bool(np.isin(order[: len(relevant)], relevant).all()),
    }


def page_rows(records):
    """One row per situation and device: recall, data sets with a false call, seconds."""
    groups = {}
    for record, run in records:
        groups.setdefault((record["situation"], record["table"], record["device"]), []).append((record, run))
    rows = []
    for (situation, table, device), members in groups.items():
        found = [record for record, _ in members]
        seconds = [record["seconds"] for record in found]
        where = members[-1][1]["device"] if device else f"{found[-1]['jobs']} cores"
        goal = GOALS.get(situation, {}).get(device or None)
        row = {"problem": situation, "table": table, "on": where, "data sets": f"{len(found)}"}
        n_relevant = sum(record["relevant"] for record in found)
        row["relevant features called"] = f"{sum(r['found'] for r in found)} of {n_relevant}" if n_relevant else "–"
        row["ranked first"] = f"{sum(r['first'] for r in found)} of {len(found)}" if n_relevant else "–"
        row["data sets with a false call"] = f"{sum(r['false'] > 0 for r in found)} of {len(found)}"
        row["seconds"] = f"{np.median(seconds):.1f}"
        row["goal"] = "–" if goal is None else f"{goal:.0f} s: {'reached' if np.median(seconds) < goal else 'missed'}"
        rows.append(row)
    return rows


def device_name(device):
    if not device:
        return ""
    import torch  # noqa: PLC0415 (optional)

    return f"{torch.cuda.get_device_name()}, torch {torch.__version__}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device")
    parser.add_argument("--records", type=Path, default=Path("build/wide"))
    parser.add_argument("--only", default=",".join(PARTS), help="parts, by commas")
    parser.add_argument("--sets", type=int, help="data sets of each problem")
    parser.add_argument("--features", type=int, help="features, for a quick trial")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, help="write the page of all records")
    options = parser.parse_args()
    page, records = PageRun("wide"), Records(options.records)
    about = page.about | {"device": device_name(options.device), "sources": page.sources}
    stored = {(r["situation"], r["seed"], r["device"]) for r, _ in records}
    for part in options.only.split(",") if options.only else ():
        n_sets = options.sets or N_SETS["cuda" if options.device else None]
        for situation in PARTS[part]:
            for seed in range(FIRST_SEED, FIRST_SEED + n_sets):
                if (situation, seed, options.device or "") in stored:
                    continue
                n = options.features or WIDTHS.get(part, N_FEATURES)
                jobs = None if options.device else options.jobs
                record = fit_one(part, situation, seed, options.device, n, jobs)
                records.append(record, about)
                print(record, flush=True)
    found = list(records)
    present = {record["part"] for record, _ in found}
    missing = [part for part in PARTS if part not in present]
    text = "".join(f"{words} " for part, words in ABOUT.items() if part in present)
    text += (
        "Seconds are those of the whole fit from a numpy array to p-values, the median of the data sets. A feature is "
        "called at a family-wise level of 0.05.\n\n"
    ) + as_markdown(page_rows(found))
    text += f"\n\nNot measured yet: {', '.join(missing)}." if missing else ""
    print(text)
    if options.out:
        runs = list({run["date"] + run["processor"] + run["commit"]: run for _, run in found}.values())
        current = all(run.get("sources") == page.sources for _, run in found)
        page.write(
            options.out, text, "in the table", runs=runs, incomplete="" if current else "older records are among them"
        )


if __name__ == "__main__":
    main()
