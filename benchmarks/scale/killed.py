"""Kill long jobs at random moments, restart them, and compare their final outputs with those of undisturbed runs.

python benchmarks/scale/killed.py [--out docs/results/killed.md] [--kills 20] [--seed 0] [--jobs select compare fit]

All processes of a job are killed at once. A quarter of the moments, chosen at random, lie in the start of the job,
while packages and the table are read. The others count from the moment at which the job locks its folder, and are drawn
so that together they reach about the end of the job, even if each kill loses the step in progress. Then the job runs to
its end, and all of its files are compared byte by byte.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
from pages import PageRun

from randsel import datasets
from randsel._utils.text import as_markdown

#: Files that hold times, or only serve the run: no two runs have the same.
ASIDE = {".lock", "seconds.csv", "times.csv", "runs.csv"}
FIT = """
import numpy as np
from randsel import RandSel, datasets
from randsel.culling._storage import path_to_arrays
X, y, _ = datasets.make_xor({samples}, {features}, random_state=0)
path = RandSel(2, drop={drop}, random_state=0, n_jobs=2, checkpoint="kept").fit(X, y).path_
np.savez("out/path.npz", **path_to_arrays(path))
"""
LONG = {
    "select": {"samples": 300, "features": 4000, "options": ["--halves", "50", "--folds", "5", "--pairs", "all"]},
    "compare": {
        "samples": 200,
        "features": 80,
        "options": ["--folds", "5", "--reshuffles", "2", "--methods", "randSel,RFE,Corr. Coeff."],
    },
    # many short rounds: a stage is saved after each round, so that kills find finished stages
    "fit": {"samples": 12000, "features": 300, "drop": 0.05},
}


def write_table(path, samples, features):
    """An XOR of two features among many, as CSV."""
    X, y, _ = datasets.make_xor(samples, features, random_state=0)
    rows = [
        ",".join([*map(repr, x), "case" if label > 0 else "control"]) for x, label in zip(X.tolist(), y, strict=True)
    ]
    path.write_text("\n".join([",".join([*(f"g{j}" for j in range(features)), "status"]), *rows]) + "\n")


def command_of(name, size, folder):
    """The command of a job, all of whose paths are relative: it is run in several folders."""
    if name == "fit":
        return [sys.executable, "-c", FIT.format(**size)]
    table = folder / f"{name}.csv"
    if not table.exists():
        write_table(table, size["samples"], size["features"])
    words = ["randsel", name, f"../{table.name}", "--target", "status", "--jobs", "2", "--out", "out"]
    return [sys.executable, "-m", *words, *size["options"]]


@contextmanager
def running(command, folder):
    """Start a job in a folder, as a process group of its own, all of which is killed at the end."""
    (folder / "out").mkdir(parents=True, exist_ok=True)
    with (folder / "said").open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, stdout=output, stderr=subprocess.DEVNULL, start_new_session=True
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def is_locked(folder):
    """Whether a process holds the lock of a job's folder now, according to the kernel's list of locks."""
    locked = {int(line.split()[-3].rsplit(":", 1)[1]) for line in Path("/proc/locks").read_text().splitlines()}
    return any(path.stat().st_ino in locked for path in folder.glob("*/.lock"))


def wait_until_locked(process, folder):
    """Wait until a process holds the lock of its job's folder, or has ended."""
    while process.poll() is None and not is_locked(folder):
        time.sleep(0.01)


def undisturbed(command, folder):
    """Run a job to its end; its exit status, and the seconds until it locks its folder and to its end."""
    begin = time.monotonic()
    with running(command, folder) as process:
        wait_until_locked(process, folder)
        first = time.monotonic() - begin
        return process.wait(), first, time.monotonic() - begin


def kill_once(command, folder, moment, at_work):
    """Start a job, kill all of its processes after some seconds, and tell whether it was still running."""
    with running(command, folder) as process:
        if at_work:
            wait_until_locked(process, folder)
        try:
            process.wait(moment)
        except subprocess.TimeoutExpired:
            return True
        return False


def finished_files(folder):
    """How many files are there that were written as a whole."""
    return sum(path.suffix in {".json", ".npz"} and path.name != "run.json" for path in folder.rglob("*"))


def outputs(folder):
    """All outputs of a job, and what it said, by name."""
    files = [path for path in (folder / "out").rglob("*") if path.is_file() and path.name not in ASIDE]
    return {str(path.relative_to(folder)): path.read_bytes() for path in [*files, folder / "said"]}


def trial(name, size, folder, kills, seed):
    """Run a job undisturbed, and once more with kills; return how that went."""
    command = command_of(name, size, folder)
    status, first, total = undisturbed(command, folder / f"{name}-whole")
    rng = np.random.default_rng(seed)
    at_work = rng.random(kills) < 0.75
    moments = rng.uniform(0.0, np.where(at_work, 4.0 * (total - first) / kills, first))
    broken = folder / f"{name}-broken"
    was_running, finished = [], []
    for moment, late in zip(moments.tolist(), at_work.tolist(), strict=True):
        was_running.append(kill_once(command, broken, moment, late))
        finished.append(finished_files(broken))
        what = f"{'killed' if was_running[-1] else 'ended'} after {moment:.2f} s of {'work' if late else 'starting'}"
        print(f"{name}: {what}, {finished[-1]} files", flush=True)
    with running(command, broken) as process:
        last = process.wait()
    whole, resumed = outputs(folder / f"{name}-whole"), outputs(broken)
    differing = sorted(set(whole) ^ set(resumed))
    differing += sorted(file for file in set(whole) & set(resumed) if whole[file] != resumed[file])
    left = [path.name for path in broken.rglob("*") if path.name.endswith((".partial", "-so-far"))]
    return {
        "status": (status, last),
        "seconds": total,
        "first": first,
        "moments": [
            f"{moment:.1f}" if late else f"({moment:.1f})" for moment, late in zip(moments, at_work, strict=True)
        ],
        "killed": sum(was_running),
        "finished": finished,
        "interrupted": sum(killed and count > 0 for killed, count in zip(was_running, finished, strict=True)),
        "compared": len(whole),
        "differing": differing,
        "left": left,
    }


def row(name, outcome):
    return {
        "job": {"fit": "`RandSel(checkpoint=…).fit`"}.get(name, f"`randsel {name}`"),
        "undisturbed, s": f"{outcome['seconds']:.0f} ({outcome['first']:.1f} to start)",
        "kills": f"{outcome['killed']} of {len(outcome['moments'])}",
        "exit status": " and ".join(map(str, outcome["status"])),
        "files compared": str(outcome["compared"]),
        "files that differ": ", ".join(outcome["differing"]) or "none",
        "kills with finished files": str(outcome["interrupted"]),
        "left over": ", ".join(outcome["left"]) or "nothing",
    }


def has_failed(outcome):
    """Return whether outputs differ, files are left over, or no kill found a finished file, so nothing was resumed."""
    unlike = outcome["differing"] or outcome["left"] or len(set(outcome["status"])) > 1
    return bool(unlike) or not outcome["interrupted"]


def about(name, size):
    options = (
        f", `{' '.join(size['options'])} --jobs 2`"
        if "options" in size
        else f", blocks of rows, two jobs, drop={size['drop']}"
    )
    return f"{name}: {size['samples']} samples, {size['features']} features{options}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="also write the tables to this Markdown file")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", nargs="*", default=list(LONG), choices=list(LONG))
    options = parser.parse_args()
    page = PageRun("killed")
    with tempfile.TemporaryDirectory() as folder:
        outcomes = {name: trial(name, LONG[name], Path(folder), options.kills, options.seed) for name in options.jobs}
    moments = [
        {
            "job": name,
            "seconds": ", ".join(one["moments"]),
            "files finished then": ", ".join(map(str, one["finished"])),
        }
        for name, one in outcomes.items()
    ]
    text = (
        f"Seed {options.seed}: every job runs undisturbed, and again with "
        f"`kill -9` to all of its processes at {options.kills} random moments, restarted each time and left alone at "
        "last. Then all files of its folder, finished parts too, and what it printed are compared byte by byte with "
        "those of the undisturbed run; but for the lock and for files of times (`seconds.csv`, `times.csv`, "
        "`runs.csv`), which no two runs share. A process that had ended before its moment was not killed.\n\n"
        + as_markdown([row(name, one) for name, one in outcomes.items()])
        + "\n\n"
        + "\n".join(f"- {about(name, LONG[name])}" for name in outcomes)
        + "\n\n## When\n\nSeconds after the job took its folder; in brackets, after its process was started. Finished "
        "files are parts, cells and stages.\n\n" + as_markdown(moments) + "\n"
    )
    print(text)
    if options.out:
        page.write(options.out, text, f"1 per job, {options.kills} kills each")
    return int(any(has_failed(one) for one in outcomes.values()))


if __name__ == "__main__":
    sys.exit(main())
