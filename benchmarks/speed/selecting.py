"""Measure `randsel select` on a wide and a tall CSV file, on one core: time to the first output and the end, memory.

python benchmarks/speed/selecting.py [--out docs/results/select.md] [--samples 300] [--features 50000] [--whole]

Every run is a separate process; its memory is the peak resident set of that process.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import measure

measure.one_core()

import reading
from pages import PageRun

from randsel._utils.text import as_markdown

TALL = 10_000  # samples of the tall table
SHIFTED = 10  # columns that are higher in cases, by a standard deviation, in tables with a signal
#: Shape -> goals for the whole command with a signal: seconds, and megabytes.
GOALS = {(300, 50_000): (90.0, 1000.0), (TALL, 50): (60.0, None)}


def processor(pid):
    """Seconds of the processor that a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def timed(command, folder):
    """Run a command; seconds to its first line and to its end, the most memory that it had, and what it said."""
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines, first = [], []

    def listen():
        for line in process.stdout:
            if not first:
                first.extend([time.perf_counter() - start, processor(process.pid)])
            lines.append(line.rstrip())

    listener = threading.Thread(target=listen)
    listener.start()
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    listener.join()
    return {
        "status": os.waitstatus_to_exitcode(status),
        "first": first[0],
        "first_processor": first[1],
        "seconds": seconds,
        "processor": used.ru_utime + used.ru_stime,
        "megabytes": used.ru_maxrss * 1024 / 1e6,
        "lines": lines,
    }


def verdict(found, goals):
    """Whether the goals for seconds and megabytes were reached; a dash where there are none."""
    measured = (found["seconds"], "s"), (found["megabytes"], "MB")
    pairs = [(value, goal, unit) for (value, unit), goal in zip(measured, goals, strict=True) if goal]
    said = [f"{goal:g} {unit}: {'reached' if value <= goal else 'missed'}" for value, goal, unit in pairs]
    return ", ".join(said) or "–"


def row(what, found, goals=(None, None)):
    return {
        "what": what,
        "first words, s": f"{found['first']:.1f} ({found['first_processor']:.1f})",
        "end, s": f"{found['seconds']:.1f} ({found['processor']:.1f})",
        "memory of the process, MB": f"{found['megabytes']:.0f}",
        "exit status": str(found["status"]),
        "goal": verdict(found, goals),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="also write the table to this Markdown file")
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument("--features", type=int, default=50_000)
    parser.add_argument("--whole", action="store_true", help="the large table with all half-samples and folds, too")
    options = parser.parse_args()
    page, rows = PageRun("select"), []
    with tempfile.TemporaryDirectory() as folder:
        short, shortest = ["--halves", "2", "--folds", "2"], ["--halves", "0", "--no-accuracy"]
        wide, m = options.features, options.samples
        runs = [(m, 1000, 0, []), (m, 1000, SHIFTED, []), (m, 1000, SHIFTED, shortest), (m, wide, SHIFTED, short)]
        runs += [(m, wide, SHIFTED, shortest), (TALL, 50, 0, []), (TALL, 50, SHIFTED, [])]
        runs += [(m, wide, 0, []), (m, wide, SHIFTED, [])] if options.whole else []
        for at, (samples, features, shifted, words) in enumerate(runs):
            path = Path(folder) / f"{samples}x{features}-{shifted}.csv"
            if not path.exists():
                reading.write(path, samples, features, shifted)
            select = [sys.executable, "-m", "randsel", "select", path.name, "--target", "status"]
            found = timed([*select, *words, "--out", f"out{at}"], folder)
            print(*found.pop("lines"), sep="\n", flush=True)
            goals = GOALS.get((samples, features), (None, None)) if shifted and not words else (None, None)
            what = f"{samples}×{features}, {'signal' if shifted else 'noise'} {' '.join(words)}".strip()
            rows.append(row(what, found, goals))
            print(rows[-1], flush=True)
        # a process this small has the memory of the one that started it
        rows.append(
            row("`randsel --help`", timed([sys.executable, "-m", "randsel", "--help"], folder))
            | {"memory of the process, MB": ""}
        )
    text = (
        "One core, a process per run: `randsel select` on CSV files, with 50 half-samples and five folds unless the "
        f"row says otherwise. With a signal, {SHIFTED} columns are higher in cases by a standard deviation. On noise "
        "nothing stands out, which is exit status 3, and half-samples are omitted. Pairs are tested up to samples × "
        "features² of 3e10. Seconds of the clock, and of the processor in brackets, which are less where other "
        "programs share the core.\n\n" + as_markdown(rows) + "\n"
    )
    print(text)
    if options.out:
        page.write(options.out, text, "1 per row")


if __name__ == "__main__":
    main()
