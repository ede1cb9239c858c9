"""The command line: one file per command.

Commands parse options and call the package. Slow imports are inside the commands, so that help and usage errors appear
at once.
"""

from randsel.cli import _compare, _demo, _interactions, _select
from randsel.cli._main import main

#: Importing these modules adds their commands to the group.
COMMANDS = (_demo, _select, _interactions, _compare)

__all__ = ["main"]
