"""Presents an `Analysis`: summary sentences, the HTML report, the files of a results folder and terminal output.

Imports from `analysis`, from the folders that it imports, and from `plots`; computes no new results.
"""

from randsel.report._folder import (
    MUST_AGREE,
    PRINTED_ROWS,
    describe_run,
    format_ranking,
    format_verdict,
    write_report,
    write_results,
)
from randsel.report._html import contents, render
from randsel.report._interactions import (
    interaction_contents,
    render_interactions,
    say_whether_pairs_hold,
    significant_pairs,
)
from randsel.report._sentences import LEVELS, MEANING_OF_Q, VerdictLine, describe_details, summarise, verdict
from randsel.report._shared import render_page
from randsel.report._storage import load_analysis
from randsel.report._svg import draw_figure

__all__ = [
    "LEVELS",
    "MEANING_OF_Q",
    "MUST_AGREE",
    "PRINTED_ROWS",
    "VerdictLine",
    "contents",
    "describe_details",
    "describe_run",
    "draw_figure",
    "format_ranking",
    "format_verdict",
    "interaction_contents",
    "load_analysis",
    "render",
    "render_interactions",
    "render_page",
    "say_whether_pairs_hold",
    "significant_pairs",
    "summarise",
    "verdict",
    "write_report",
    "write_results",
]
