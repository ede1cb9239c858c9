"""The command line: one file per command.

Commands parse and call. What takes long to import is imported by the command that needs it, so that help and mistakes
are answered at once.
"""

from randsel.cli import _compare, _demo, _interactions, _select
from randsel.cli._main import main

#: Importing the files adds their commands to the group.
COMMANDS = (_demo, _select, _interactions, _compare)

__all__ = ["main"]
