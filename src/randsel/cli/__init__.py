"""The command line: one file per command."""

from randsel.cli._main import main

__all__ = ["main"]
