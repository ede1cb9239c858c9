"""From an `Analysis` to people: sentences, the HTML report, the files of a results folder and the terminal.

Imports from `analysis`, from what it is made of, and from `plots`; computes nothing new.
"""

from randsel.report._html import contents, render

__all__ = ["contents", "render"]
