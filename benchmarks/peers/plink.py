"""Compare PLINK's BOOST with `InteractionScan` on all pairs of SNPs, on the same data and the same core.

python benchmarks/peers/plink.py [--samples 1600] [--snps 5000] [--program plink1.9] [--out docs/results/plink.md]
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import measure

measure.one_core()

import numpy as np
from pages import PageRun

from randsel import InteractionScan
from randsel._utils.text import as_markdown
from randsel.interactions import _forward_selection as discovery

#: Two bits of a .bed file for 0, 1 and 2 copies of the first allele; the remaining one, 01, is a missing genotype.
CODES = np.array([0b11, 0b10, 0b00], dtype=np.uint8)
MAGIC = b"\x6c\x1b\x01"

#: A small process that starts PLINK: the memory reported of a process begins with that of the one that started it.
LAUNCH = """
import json, resource, subprocess, sys, time
start = time.perf_counter()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
seconds = time.perf_counter() - start
megabytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6
print(json.dumps({"seconds": seconds, "megabytes": megabytes}))
"""

COMPARISON = """\
Both look at every pair. What `--fast-epistasis boost` computes: the 3×3 tables of genotypes of cases and of controls,
and from these the likelihood-ratio test of Wan et al. (2010) for an interaction of two factors of three levels in a
logistic model, four degrees of freedom, fewer where a genotype is absent; PLINK's documentation calls the scan
imprecise but fast, for finding candidates. It is written for this kind of data: genotypes of two bits, a case/control
target, no covariates, missing genotypes allowed. It reports pairs below a p-value (5e-6 unless told otherwise), not
corrected for their number, and per SNP its best partner and how many of its pairs pass another threshold.

What `InteractionScan` computes for genotypes: the sum of squares of the four products of two orthonormal functions of
each SNP with the target, weighted towards smooth effects, as matrix products of floating-point numbers. It takes any
columns, classes or numbers or several of them as the target, weights and strata, but no missing genotypes. Around the
scan, it takes strong main effects of all SNPs out of the target first, tests the best thousand pairs and every SNP's
best again with both main effects projected out and the larger of two p-values, corrects for the number of pairs, gives
q-values of features, and takes pairs into a forward selection, so that pairs that only echo a stronger one come after
it. The scan alone, statistics of all pairs and the best of them, is the part nearest to what PLINK does."""


def simulate(samples, snps, seed=0):
    """Genotypes 0, 1, 2 (samples × SNPs), a case/control target, and the pair whose heterozygosity acts jointly.

    The risk is 0.5 + 0.4 (h - E h)(h' - E h'), h being 1 for heterozygotes: no main effect, whatever the frequencies.
    """
    rng = np.random.default_rng(seed)
    frequencies = rng.uniform(0.05, 0.5, snps)
    pair = np.sort(rng.choice(snps, 2, replace=False))
    frequencies[pair] = 0.3, 0.4
    G = rng.binomial(2, frequencies, (samples, snps)).astype(np.uint8)
    p = frequencies[pair]
    first, second = ((G[:, pair] == 1) - 2 * p * (1 - p)).T
    return G, (rng.random(samples) < 0.5 + 0.4 * first * second).astype(int), pair


def write_bed(prefix, G, y):
    """PLINK's three files: genotypes SNP by SNP, four to a byte from the lowest bits on; SNPs; samples."""
    samples, snps = G.shape
    codes = np.zeros((snps, -(-samples // 4) * 4), dtype=np.uint8)
    codes[:, :samples] = CODES[G.T]
    packed = (codes.reshape(snps, -1, 4) << np.array([0, 2, 4, 6], dtype=np.uint8)).sum(axis=2, dtype=np.uint8)
    prefix.with_suffix(".bed").write_bytes(MAGIC + packed.tobytes())
    prefix.with_suffix(".bim").write_text("".join(f"1\ts{j}\t0\t{1000 * (j + 1)}\tA\tG\n" for j in range(snps)))
    prefix.with_suffix(".fam").write_text("".join(f"i{i}\ti{i}\t0\t0\t0\t{1 + label}\n" for i, label in enumerate(y)))


def read_bed(prefix):
    """Genotypes and target from PLINK's files."""
    y = np.array([int(line.split()[5]) - 1 for line in prefix.with_suffix(".fam").read_text().splitlines()])
    raw = prefix.with_suffix(".bed").read_bytes()
    if raw[:3] != MAGIC:
        msg = f"{prefix}.bed does not begin like a .bed file with one SNP after the other."
        raise ValueError(msg)
    packed = np.frombuffer(raw, dtype=np.uint8, offset=3).reshape(-1, -(-len(y) // 4))
    codes = (packed[:, :, None] >> np.array([0, 2, 4, 6], dtype=np.uint8)) & 3
    copies = np.zeros(4, dtype=np.float32)
    copies[CODES] = 0, 1, 2
    return np.ascontiguousarray(copies[codes.reshape(len(packed), -1)[:, : len(y)]].T), y


def ours(prefix):
    """Read, fit and time it; run in a process of its own."""
    measure.end_with_parent()
    scans = []
    scan = discovery.scan_pairs

    def timed(*arguments, **options):
        start = time.perf_counter()
        found = scan(*arguments, **options)
        scans.append(time.perf_counter() - start)
        return found

    discovery.scan_pairs = timed
    rng = np.random.default_rng(0)
    InteractionScan(n_functions=2).fit(rng.binomial(2, 0.4, (60, 8)), np.arange(60) % 2)
    scans.clear()
    start = time.perf_counter()
    X, y = read_bed(prefix)
    reading, highest = time.perf_counter() - start, measure.resident("VmHWM")
    fitted, seconds, added = measure.measured(lambda: InteractionScan(n_functions=2).fit(X, y), limit=3600)
    pairs = fitted.pairs_
    return {
        "reading": reading,
        "fit": seconds,
        "scan": min(scans),
        "megabytes": max(highest, measure.resident("VmHWM")),
        "added": added,
        "pairs": [[int(i), int(j)] for i, j in zip(pairs["i"], pairs["j"], strict=True)],
        "p": pairs["p"].tolist(),
    }


def plink(program, prefix):
    """Seconds and megabytes of the whole process, and the pairs that it reports, the least p first."""
    command = [program, "--bfile", prefix, "--fast-epistasis", "boost", "--allow-no-sex", "--threads", "1"]
    run = measure.run(
        [sys.executable, "-c", LAUNCH, *command, "--out", prefix], limit=3600, memory=measure.most_memory()
    )
    if "error" in run:
        sys.exit(f"{program} failed: {run['error']}")
    titles, *lines = (line.split() for line in Path(f"{prefix}.epi.cc").read_text().splitlines())
    rows = sorted((dict(zip(titles, line, strict=True)) for line in lines), key=lambda row: float(row["P"]))
    pairs = [sorted((int(row["SNP1"][1:]), int(row["SNP2"][1:]))) for row in rows]
    return {**run, "pairs": pairs, "p": [float(row["P"]) for row in rows]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=1600)
    parser.add_argument("--snps", type=int, default=5000)
    parser.add_argument("--program", default="plink1.9")
    parser.add_argument("--repeats", type=int, default=3, help="runs of PLINK, of which the fastest counts")
    parser.add_argument("--out", type=Path, help="also write the table to this Markdown file")
    parser.add_argument("--fit", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fit:
        print(json.dumps(ours(options.fit)))
        return
    if not shutil.which(options.program):
        sys.exit(f"{options.program} is not installed; on Debian and Ubuntu: apt-get install plink1.9")
    page = PageRun("plink")
    G, y, pair = simulate(options.samples, options.snps)
    with tempfile.TemporaryDirectory() as folder:
        prefix = Path(folder) / "snps"
        write_bed(prefix, G, y)
        theirs = min((plink(options.program, prefix) for _ in range(options.repeats)), key=lambda run: run["seconds"])
        found = measure.run([sys.executable, __file__, "--fit", prefix], limit=3600, memory=measure.most_memory())
    if "error" in found:
        sys.exit(f"InteractionScan failed: {found['error']}")
    version = subprocess.run([options.program, "--version"], capture_output=True, text=True, check=True).stdout
    text = report(options, theirs, found, pair.tolist(), " ".join(version.split()[:2]))
    print(text)
    if options.out:
        page.write(options.out, text, "1")


def report(options, theirs, found, pair, version):
    work = options.snps * (options.snps - 1) / 2 * options.samples

    def row(what, seconds, run, megabytes):
        rank = run["pairs"].index(pair) if pair in run["pairs"] else None
        return {
            "what": what,
            "seconds": f"{seconds:.2f}",
            "pairs × samples per second": f"{work / seconds:.2e}",
            "memory, MB": megabytes,
            "pair found": "no" if rank is None else "yes",
            "its rank": "–" if rank is None else f"{rank + 1} of {len(run['pairs'])}",
            "its p": "–" if rank is None else f"{run['p'][rank]:.1e}",
        }

    whole = f"{found['megabytes']:.0f}"
    rows = [
        row(f"{version}, reading and writing included", theirs["seconds"], theirs, f"{theirs['megabytes']:.0f}"),
        row("InteractionScan, .bed read", found["reading"] + found["fit"], found, whole),
        row("InteractionScan, fit", found["fit"], found, f"{whole}, {found['added']:.0f} of it added by the fit"),
        row("InteractionScan, its scan alone", found["scan"], found, "–"),
    ]
    return "\n".join(
        [
            (
                f"{options.samples} samples, {options.snps} simulated SNPs of minor allele frequencies from 0.05 "
                "to 0.5, cases and controls; two SNPs act together and have no "
                f"main effect. `{options.program} --fast-epistasis boost --threads 1` and "
                "`InteractionScan(n_functions=2)` on the same core. PLINK's time is that of its process, from start to "
                f"end, the fastest of {options.repeats}; ours leaves out starting Python and importing. Memory is the "
                "highest resident set of the process. Ranks are among the pairs that each reports, p-values not "
                "corrected."
            ),
            "",
            as_markdown(rows),
            "",
            COMPARISON,
            "",
        ]
    )


if __name__ == "__main__":
    main()
