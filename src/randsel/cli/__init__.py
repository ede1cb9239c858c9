"""The command line: one file per command.

Commands parse options and call the package. Slow imports are inside the commands, so that help and usage errors appear
at once.
"""

from randsel.cli import _apply, _compare, _demo, _interactions, _select  # noqa: F401 (importing adds their commands)
from randsel.cli._main import main

__all__ = ["main"]
