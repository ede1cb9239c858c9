"""Records of finished tasks in the files of a folder, so that a benchmark goes on where it was stopped."""

import json
import os
import platform
import time


class Records:
    """Each run appends to a file of its own: a line about the run, then a line per record."""

    def __init__(self, folder):
        self.folder, self._file = folder, None

    def __iter__(self):
        """Yield every record, and what was stored about the run that wrote it."""
        for path in sorted(self.folder.glob("*.jsonl")):
            run = {}
            for line in path.read_text().splitlines():
                try:
                    record = json.loads(line)
                except json.JSONDecodeError:
                    continue  # the run was killed while it wrote this line
                if "run" in record:
                    run = record["run"]
                else:
                    yield record, run

    def append(self, record, run):
        """Store a record at once."""
        if self._file is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            name = f"{time.strftime('%Y%m%d-%H%M%S')}-{platform.node()}-{os.getpid()}.jsonl"
            self._file = (self.folder / name).open("a", buffering=1)
            self._file.write(json.dumps({"run": run}) + "\n")
        self._file.write(json.dumps(record, separators=(",", ":")) + "\n")
