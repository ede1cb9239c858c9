"""How far a fit is, kept in a folder: after an interruption the same fit goes on from there."""

import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from randsel._utils.result_folder import IDENTITY, Parts, check_folder, claim, only_run, read_identity
from randsel._utils.typing import Array

#: Seconds between two files, at least; and how many times as long as writing the last one took.
EVERY, TIMES = 5.0, 20.0
#: Entries of run.json in which an earlier fit must agree.
SAME = ("version", "estimator", "data_hash", "parameters")


class Stages:
    """Stages of one computation, a file each, of which the last two are kept: if one is damaged, the other is there.

    Parameters
    ----------
    parts : Parts, default=None
        Where they are kept; None keeps nothing.
    name : str, default=""
        Name of the computation.
    """

    def __init__(self, parts: Parts | None = None, name: str = "") -> None:
        self.parts, self.name = parts or Parts(), name
        self.written, self.cost = time.monotonic(), 0.0

    def last(self) -> dict[str, Array] | None:
        """Return the last stage that is whole, None if there is none."""
        for path in reversed(self._files()):
            found = self.parts.kept(path.stem)
            if found is not None:
                return found
            warnings.warn(f"{path} is damaged; what came after the stage before is done again.", stacklevel=5)
            path.unlink()
        return None

    def reached(self, number: int, arrays: Callable[[], Mapping[str, Any]]) -> None:
        """Keep a stage, unless the last one was kept a moment ago: to write takes a twentieth of the time at most."""
        now = time.monotonic()
        if self.parts.folder is None or 0.0 <= now - self.written < max(EVERY, TIMES * self.cost):
            return
        # numbers do not compress
        self.parts.keep(f"{self.name}-{number:06d}", arrays(), compressed=False)
        self.written = time.monotonic()
        self.cost = self.written - now
        for path in self._files()[:-2]:
            path.unlink()

    def _files(self) -> list[Path]:
        return [] if self.parts.folder is None else sorted(self.parts.folder.glob(f"{self.name}-*.npz"))


class Checkpoint:
    """A folder in which a fit keeps how far it is; nothing is kept without one.

    Parameters
    ----------
    parts : Parts, default=None
        Where stages are kept.
    seed : int, default=0
        Of the fit, which is that of the fit that is gone on with.
    """

    def __init__(self, parts: Parts | None = None, seed: int = 0) -> None:
        self.parts, self.seed = parts, seed

    def stages(self, name: str) -> Stages:
        """Return the stages of one of the computations of the fit."""
        return Stages(self.parts, name)


@contextmanager
def opened(folder: Any, identity: Mapping[str, Any] | None, seed: int = 0) -> Iterator[Checkpoint]:
    """Open the folder of a fit, or refuse that of another one.

    Parameters
    ----------
    folder : str, path or None
        None keeps nothing.
    identity : dict or None
        What must be the same for a fit to go on: `estimator`, `data_hash`, `parameters`.
    seed : int, default=0
        Seed of the fit, if it is not gone on with.
    """
    if folder is None:
        yield Checkpoint(seed=seed)
        return
    folder = Path(folder)
    check_folder(folder, "checkpoint")
    folder.mkdir(parents=True, exist_ok=True)
    with only_run(folder):
        before = read_identity(folder) if (folder / IDENTITY).exists() else {}
        now = {"version": version("randsel"), **(identity or {}), "seed": before.get("seed", seed)}
        # numbers of numpy, and tuples, as they will be read
        claim(folder, json.loads(json.dumps(now, default=lambda value: value.item())), SAME, "checkpoint")
        yield Checkpoint(Parts(folder / "parts"), int(now["seed"]))
