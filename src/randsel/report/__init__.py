"""Presents an `Analysis`: summary sentences, the HTML report, the files of a results folder and terminal output.

Imports from `analysis`, from the folders that it imports, and from `plots`; computes no new results.
"""

from randsel.report._folder import (
    MUST_AGREE,
    PRINTED_ROWS,
    describe_run,
    format_ranking,
    load_analysis,
    write_report,
    write_results,
)
from randsel.report._html import contents, render
from randsel.report._sentences import MEANING_OF_Q, summarise

__all__ = [
    "MEANING_OF_Q",
    "MUST_AGREE",
    "PRINTED_ROWS",
    "contents",
    "describe_run",
    "format_ranking",
    "load_analysis",
    "render",
    "summarise",
    "write_report",
    "write_results",
]
