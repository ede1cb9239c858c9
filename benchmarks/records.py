"""Records of finished tasks, so that a benchmark resumes where it was stopped, also on another machine.

A run appends its records to a file in a folder of `build`. At its end, they are merged into an archive; those in
`benchmarks/archive` are part of the repository.
"""

import json
import lzma
import os
import platform
import time


class Records:
    """Records in the files of a folder and in an archive: a line about the run, then a line per record."""

    def __init__(self, folder, archive=None):
        self.folder, self.archive, self._path = folder, archive, None

    def __iter__(self):
        """Yield every record, and what was stored about the run that wrote it; the archive comes first."""
        if self.archive is not None and self.archive.exists():
            yield from _parse(lzma.decompress(self.archive.read_bytes()).decode())
        for path in sorted(self.folder.glob("*.jsonl")):
            yield from _parse(path.read_text())

    def append(self, record, run):
        """Store a record at once."""
        if self._path is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            name = f"{time.strftime('%Y%m%d-%H%M%S')}-{platform.node()}-{os.getpid()}.jsonl"
            self._path = self.folder / name
            self._path.write_text(_line({"run": run}))
        with self._path.open("a") as file:
            file.write(_line(record))


def write_archive(path, records):
    """Write pairs (record, run) as an archive, the records of each run together."""
    lines_of_runs = {}
    for record, run in records:
        lines_of_runs.setdefault(_line({"run": run}), []).append(_line(record))
    text = "".join(run + "".join(lines) for run, lines in lines_of_runs.items())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lzma.compress(text.encode(), preset=9))


def _line(value):
    return json.dumps(value, separators=(",", ":")) + "\n"


def _parse(text):
    run = {}
    for line in text.splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue  # the run was killed while it wrote this line
        if "run" in record:
            run = record["run"]
        else:
            yield record, run
