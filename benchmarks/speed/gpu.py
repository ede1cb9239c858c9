"""Measure culling path, scan of pairs and bootstrap on a GPU, compared with the time of its matrix products alone.

SCIPY_ARRAY_API=1 python benchmarks/speed/gpu.py [--out docs/results/gpu.md] [--only path,scan,...]

Times are medians of up to five warm runs between synchronisations; data are on the device unless stated.
"""

import argparse
import os
import statistics
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"
os.environ["SCIPY_ARRAY_API"] = "1"

import numpy as np
import sklearn
import torch

from randsel import InteractionScan, RandSel, datasets
from randsel._numerics.nuisance import Nuisance
from randsel._numerics.rank_functions import RankFunctions
from randsel._numerics.standardise import standardise
from randsel.contribution._bootstrap import Draws, bootstrap
from randsel.contribution._sample import Sample
from randsel.interactions import _forward_selection as interaction_steps
from randsel.interactions._design import Design, Response
from randsel.interactions._evidence import evidence
from randsel.interactions._pair_scan import scan_pairs
from randsel.selectors import _rank_tests as preparation
from randsel.targets._kinds import CLASSES
from randsel.targets._target import Target

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "tests" / "support")]
import measure
import reference
from pages import PageRun


def median_of(function, repeats=5):
    """Median seconds of warm runs, and what the last one returned."""
    result = function()
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        result = function()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times), result


def normal(m, n, seed=0):
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randn((m, n), generator=generator, device="cuda")


def rates():
    """Time matrix products alone, the reference for all other times."""
    a = normal(8192, 8192)
    half = a.half()
    flop = 2 * 8192**3
    torch.backends.cuda.matmul.allow_tf32 = False
    single, _ = median_of(lambda: a @ a)
    halved, _ = median_of(lambda: half @ half)
    RATES.update(single=flop / single, half=flop / halved)
    return (
        f"Bare products of 8192×8192: {flop / single / 1e12:.0f} TFLOP/s float32, {flop / halved / 1e12:.0f} float16."
    )


RATES: dict[str, float] = {}
#: Paragraphs on where the time of a fit goes.
PROFILES: list[str] = []


def path(m=1000, n=1_000_000, goal=0.6, goal_after_scaling=0.35):
    """The whole path of the default from a tensor on the device, and the part of it after standardising."""
    X = normal(m, n)
    y = (X[:, 17] + X[:, n - 5] > 0).int().cpu().numpy()
    W = normal(m, m, 1)

    def products():
        return X @ X.T, W @ X

    def fit():
        with sklearn.config_context(array_api_dispatch=True):
            return RandSel(2).fit(X, y)

    bare, _ = median_of(products)
    seconds, fitted = median_of(fit)
    scaled = seconds - median_of(lambda: standardise(X, None, "rank"), 3)[0]
    PROFILES.append(profile_of(fit, f"full path, {m}×{n}"))
    chosen = fitted.get_support(indices=True).tolist()
    used = torch.cuda.max_memory_allocated() / 1e9
    return (
        f"| full path, {m}×{n} float32, to 2 features | {seconds:.3f} s; {scaled:.3f} s after ranks | "
        f"{bare:.3f} s for one X Xᵀ and one W X in float32: {seconds / bare:.1f} and {scaled / bare:.1f} times | "
        f"chosen {chosen}, planted [17, {n - 5}]; {used:.0f} GB | {verdict(seconds, goal)}, "
        f"{verdict(scaled, goal_after_scaling)} |"
    )


def verdict(value, goal):
    return f"{goal:g} s: {'reached' if value < goal else 'missed'}"


def agreement(m=400, n=20_000):
    """CPU and GPU select the same features."""
    X, y, relevant = datasets.make_xor(m, n, random_state=5)
    X = X.astype(np.float32)
    host, device = RandSel(10).fit(X, y), RandSel(10, device="cuda").fit(X, y)
    scores = [np.abs(getattr(device, s) - getattr(host, s)).max() for s in ("main_scores_", "interaction_scores_")]
    same = len(set(host.order_[:100].tolist()) & set(device.order_[:100].tolist()))
    return (
        f"CPU and GPU on XOR, {m}×{n} float32: the same {int((host.support_ & device.support_).sum())} of 10 features, "
        f"the relevant pair {'among' if device.support_[relevant].all() else 'not among'} them; {same} of the first "
        f"100 in common; largest difference of a score {max(scores):.1e} standard deviations."
    )


def arguments_of_scan(values, y, decay=0.9, *, untied=True):
    n, functions, m = values.shape
    counts = np.full(n, functions)
    y = torch.as_tensor(y, dtype=torch.float64).cpu().numpy()
    y = (y - y.mean()) / y.std()
    responses, nuisance = (Response(y[:, None]),), Nuisance.from_samples(m, None, None)
    design = Design(decay ** np.arange(functions), responses, nuisance, device="cuda")
    masks = np.full(n, untied), np.zeros(n, dtype=bool)
    return RankFunctions(values, counts, *masks), design, y[:, None]


def continuous(m, n, functions):
    """Rank cosines of normal columns, and the XOR of two of them as target."""
    grid = (torch.arange(m, device="cuda") + 0.5) / m
    cosines = 2**0.5 * torch.cos(torch.pi * torch.arange(1, functions + 1, device="cuda")[:, None] * grid)
    values = torch.empty((n, functions, m), dtype=torch.float16, device="cuda")
    for start in range(0, n, 10_000):
        ranks = torch.rand((min(10_000, n - start), m), device="cuda").argsort(dim=1)
        values[start : start + 10_000] = cosines.half()[:, ranks].movedim(0, 1)
    return values, (values[11, 0] > 0) ^ (values[n - 7, 0] > 0)


def snps(m, n):
    """Two functions of every SNP: centred genotypes (additive), and the deviation of heterozygotes (dominance)."""
    values = torch.empty((n, 2, m), dtype=torch.float16, device="cuda")
    for start in range(0, n, 10_000):
        size = min(10_000, n - start)
        frequency = 0.05 + 0.45 * torch.rand((size, 1), device="cuda")
        g = (torch.rand((size, m), device="cuda") < frequency).float()
        g += torch.rand((size, m), device="cuda") < frequency
        one = g - g.mean(1, keepdim=True)
        one /= one.square().mean(1, keepdim=True).sqrt()
        two = (g == 1).float()
        two -= two.mean(1, keepdim=True)
        two -= one * (two * one).mean(1, keepdim=True)
        two /= two.square().mean(1, keepdim=True).sqrt()
        values[start : start + size] = torch.stack([one, two], 1).half()
    return values, (values[11, 0] > 0) ^ (values[n - 7, 0] > 0)


#: Pairs that a scan returns, and whose p-values are computed.
N_PAIRS = 1000


def test_pairs(functions, design, best):
    """Log p-values of the best pairs, with main effects projected out."""
    members, sets = np.unique(best, return_inverse=True)
    masks = functions.counts[members], functions.untied[members], functions.incomplete[members]
    tested = RankFunctions(functions.values[torch.as_tensor(members, device="cuda")].float(), *masks)
    return evidence(tested, design, design.responses, sets.reshape(best.shape)).log_p


def pairs(make, m, n, functions, what, repeats, goal):
    values, y = make(m, n) if make is snps else make(m, n, functions)
    arguments = arguments_of_scan(values, y, untied=make is not snps)

    def scan():
        best, _ = scan_pairs(*arguments, N_PAIRS)
        return best, test_pairs(*arguments[:2], best[:N_PAIRS])

    seconds, (found, log_p) = median_of(scan, repeats)
    products = functions**2  # of half precision; of 8-bit integers for SNPs
    work = n * (n - 1) / 2 * m
    share = 2 * work * products / seconds / RATES["half"]
    best = sorted(found[0].tolist())
    return (
        f"| all pairs, {m}×{n} {what}, {functions} functions each | {seconds:.2f} s | {work / seconds / 1e12:.1f}·10¹² "
        f"pairs × samples per second; {products} products a pair at {share:.0%} of the measured float16 rate | first "
        f"pair {best}, planted [11, {n - 7}], log p {log_p[0]:.0f} | {verdict(seconds, goal)} |"
    )


#: Steps of an interaction scan: name, module and function; a step within another counts as part of that.
SCAN_STEPS = (
    ("rank functions", preparation, "rank_function_source"),
    ("tests", interaction_steps, "evidence"),
    ("residual", interaction_steps, "residual"),
    ("scan of pairs", interaction_steps, "scan_pairs"),
    ("forward steps", interaction_steps, "_forward_selection"),
)


def seconds_of_steps(fit):
    """Seconds of every step of an interaction scan, and of all else; tests by the size of the sets."""
    seconds, running = {}, []

    def timed(name, step):
        def call(*arguments, **options):
            if running:
                return step(*arguments, **options)
            label = f"{name} of {'features' if arguments[3].shape[1] == 1 else 'pairs'}" if name == "tests" else name
            running.append(label)
            torch.cuda.synchronize()
            start = time.perf_counter()
            try:
                result = step(*arguments, **options)
                torch.cuda.synchronize()
            finally:
                running.pop()
            seconds[label] = seconds.get(label, 0.0) + time.perf_counter() - start
            return result

        return call

    with ExitStack() as stack:
        for name, module, function in SCAN_STEPS:
            stack.enter_context(patch.object(module, function, timed(name, getattr(module, function))))
        start = time.perf_counter()
        fit()
        total = time.perf_counter() - start
    return seconds | {"all else": total - sum(seconds.values())}


def whole_scan(m=1000, n=20_000):
    """InteractionScan from numpy to p-values on the GPU, and the seconds of its steps."""
    X, y, relevant = datasets.make_passemiers("xor", m, n, random_state=1)

    def fit():
        return InteractionScan(2, n_functions=4, device="cuda").fit(X, y)

    seconds, fitted = median_of(fit, 3)
    steps = ", ".join(f"{name} {value:.2f}" for name, value in seconds_of_steps(fit).items())
    return (
        f"| InteractionScan in all, {m}×{n}, 4 functions, numpy input | {seconds:.2f} s | {steps} s | XOR pair "
        f"{'found' if fitted.support_[relevant].all() else 'missed'} | {verdict(seconds, 1.5)} |"
    )


def bootstrap_round(m=202, n=6247, draws=2000, rows=67):
    """One round as the paper ran it, on the GPU and on one core; the literal reference over fewer draws, scaled."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m, n))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    target = Target.encode(rng.integers(0, 2, m), CLASSES)
    gamma, settings = 1 / (2 * n), Draws(draws, rows / m, seed=1)
    host = Sample.from_columns(X, target)
    tensor = torch.as_tensor(X, device="cuda")
    device = Sample.from_columns(tensor, target.on_device_of(tensor))
    on_device, found = median_of(lambda: bootstrap(device, gamma, settings), 1)
    start = time.perf_counter()
    expected = bootstrap(host, gamma, settings)
    on_host = time.perf_counter() - start
    few = 100
    picks = [(np.sort(rng.permutation(n)[: n // 2]), np.sort(rng.permutation(m)[:rows])) for _ in range(few)]
    start = time.perf_counter()
    for columns, at in picks:
        reference.draw_value(X, target.Y, gamma, columns, at)
    literal = (time.perf_counter() - start) / few * 2 * draws
    error = np.abs(found.total - expected.total).max() / expected.total.std()
    return (
        f"| one bootstrap round, {m}×{n}, 2×{draws} draws of {rows} rows, float64 | {on_device:.1f} s | {on_host:.1f} "
        f"s on one core of the host, {literal:.0f} s literally (from {few} draws) | largest difference {error:.0e} of "
        "their standard deviation | – |"
    )


#: Kind of work -> parts of the names of its kernels; the first kind that matches counts.
KERNELS = {
    "matrix products": ("gemm", "cutlass", "splitk", "gemv", "dot_kernel"),
    "sorts and searches": ("sort", "radix", "searchsorted"),
    "copies": ("copy", "memcpy", "memset", "catarray", "index"),
    "sums": ("reduce",),
    "elementwise operations": ("",),
}


def profile_of(function, what):
    """Say how long the kernels of one call take by kind of work, and how many the host starts."""
    function()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as on_device:
        function()
        torch.cuda.synchronize()
    seconds, count = dict.fromkeys(KERNELS, 0.0), 0
    for event in on_device.key_averages():
        if event.self_device_time_total:
            name = event.key.lower()
            kind = next(kind for kind, parts in KERNELS.items() if any(part in name for part in parts))
            seconds[kind] += event.self_device_time_total / 1e6
            count += event.count
    total = sum(seconds.values())
    shares = ", ".join(f"{kind} {value:.3f}" for kind, value in sorted(seconds.items(), key=lambda item: -item[1]))
    return (
        f"Profile, {what}: {count} kernels take {total:.3f} s of the device ({shares} s). In the rest of the time "
        "of a fit, the device is idle."
    )


def threshold(m=300):
    """Time fits of growing tables, given as numpy arrays, on one core of the host and on the device."""
    tasks = {
        "RandSel": (lambda device: RandSel(2, device=device), (1000, 3000, 10_000, 30_000, 100_000)),
        "pairs": (lambda device: InteractionScan(2, n_functions=4, device=device), (100, 300, 1000, 3000)),
    }
    rows = []
    for name, (make, sizes) in tasks.items():
        times = {}
        for n in sizes:
            X, y, _ = datasets.make_xor(m, n, random_state=0)
            X = X.astype(np.float32)
            times[n] = tuple(
                median_of(lambda X=X, y=y, make=make, device=device: make(device).fit(X, y), 1)[0]
                for device in (None, "cuda")
            )
            print(name, n, times[n], flush=True)
        first = measure.crossover(times)
        FIGURES[f"gpu_threshold_{name.lower()}"] = (
            "none" if first is None else f"{first}",
            f"features of {m} samples from which on a GPU is faster than one core, {name}",
        )
        spans = ", ".join(f"{n}: {host:.3g} and {device:.3g} s" for n, (host, device) in times.items())
        verdict = "is not faster up to the largest size" if first is None else f"is faster from {first} features on"
        rows.append(f"{name}, {m} samples, numpy input: the GPU {verdict}. Features, one core and GPU: {spans}.")
    return "\n\n".join(rows)


#: Figures that other pages quote.
FIGURES: dict[str, tuple[str, str]] = {}
PARTS = {
    "path": path,
    "tall": lambda: path(2350, 230_000, 2.0, 2.0),
    "scan": lambda: pairs(continuous, 1000, 100_000, 4, "continuous", 5, 0.6),
    "snps": lambda: pairs(snps, 5000, 360_000, 2, "SNPs", 2, 6.0),
    "whole": whole_scan,
    "bootstrap": bootstrap_round,
    "agreement": agreement,
    "threshold": threshold,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="also write the table to this Markdown file")
    parser.add_argument("--only", default=",".join(PARTS), help="parts to run, by commas")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("This benchmark needs a CUDA device and a torch built for it; torch sees none here.")
    page = PageRun("gpu")
    lines = [rates(), "", "| what | time | compared with | result | goal |", "|---|---|---|---|---|"]
    print(lines[0], flush=True)
    said = []
    for name in options.only.split(","):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        line = PARTS[name]()
        print(line, flush=True)
        (lines if line.startswith("|") else said).append(line)
    text = "\n".join(lines) + "\n\n" + "\n\n".join([*PROFILES, *said])
    if options.out:
        device = f"{torch.cuda.get_device_name()}, torch {torch.__version__}.\n\n"
        page.write(options.out, device + text, "1 per row", figures=FIGURES)


if __name__ == "__main__":
    main()
