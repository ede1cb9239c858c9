"""`randsel select`, which analyses a table and writes result files, and `randsel report`, which writes the report."""

# ruff: noqa: PLC0415 (slow imports are inside the commands, so that help and usage errors appear at once)
from pathlib import Path
from typing import Any

import click

from randsel._utils.choices import FIGURE_FORMATS
from randsel._utils.text import ProgressLine, split_names
from randsel.cli._main import NOTHING, RATE, job_options, main, read_table, say, table_options, task_option


@main.command()
@table_options
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Result folder.")
@click.option(
    "--top",
    type=click.IntRange(1),
    help="Select the first features of the ranking, at most this many, and print as many.",
)
@click.option(
    "--fdr", type=RATE, help="Select features with a q-value (false discovery rate) of at most this, such as 0.1."
)
@click.option("--keep", metavar="NAMES", help="Comma-separated features to select in any case, such as known markers.")
@task_option
@click.option(
    "--pairs",
    default="auto",
    type=click.Choice(["auto", "all", "none"]),
    help="Whether to test features in pairs; auto: if samples × features² is at most 3e10.",
)
@click.option(
    "--halves",
    default=50,
    type=click.IntRange(0),
    help="Random halves of the samples in which the selection is repeated, for its stability; 0: none.",
)
@click.option(
    "--folds",
    default=5,
    type=click.IntRange(0),
    help="Folds of the cross-validation that measures how well the selection predicts; 0: none.",
)
@click.option(
    "--no-accuracy", is_flag=True, help="Do not measure how well the selection predicts; the same as --folds 0."
)
@click.option("--seed", default=0, type=click.IntRange(0, 2**31), help="Seed of the random halves and folds.")
@job_options("halves and folds")
@click.option(
    "--figures", default="png", metavar="FORMATS", help="Formats of the figures: png, svg and pdf, separated by commas."
)
@click.option("--xlsx", is_flag=True, help="Also write ranking.xlsx, in which Excel turns no names into dates.")
@click.option("--memory", help="Memory to use in addition to the table, such as 2GB.")
@click.option("--device", help="Device to compute on, such as cuda for a graphics card.")
def select(
    file: Path,
    reading: dict[str, Any],
    out: Path,
    jobs: int | None,
    no_accuracy: bool,
    figures: str,
    xlsx: bool,
    **how: Any,
) -> None:
    """Rank and select features, and measure how reliable the selection is.

    FILE is a table in any format of docs/reference/formats.md. The folder gets summary.txt (the verdict), selected.txt
    (one name per line), ranking.csv (all features, best first, with direction and size of their effects),
    panel-size.csv, pairs.csv, figures, report.html to send to a colleague, panel.json for randsel apply, and run.json,
    from which the run can be repeated. Run the command again to resume after an interruption.

    Without --top and --fdr, the weakest features are removed step by step, and the fewest are selected that predict
    within one standard error of the best, if the features stand out from permutations of the target; otherwise
    features with a q-value of at most 0.05; otherwise nothing. --fdr 0.1 selects features with a q-value of at most 0.1
    instead, --top 20 selects the first 20 whether or not they stand out, and both together select at most 20 features
    with such a q-value. --keep TP53,age holds known markers in every subset of features and asks what the others add to
    them.

    \b
    Exit status:
      0    something stands out
      1    an error in the table, the folder or a package: see the message
      2    an error in the options: see the message
      3    nothing stands out, even if --top selects features; all files are written
      4    the cluster of --dask was lost; finished parts are kept
      130  interrupted (Ctrl-C); finished parts are kept
      143  terminated (SIGTERM); finished parts are kept

    \b
    Examples:
      randsel select expression.csv --target status --out results
      randsel select genes.tsv.gz --target-file samples.csv --groups donor --top 20 --fdr 0.1 --out results
      randsel select expression.csv --target status --out results --dask tcp://10.0.0.1:8786
      randsel select cells.h5ad --target cell_type --batch plate --no-accuracy --halves 20 --out quick
    """
    from randsel._utils.files import FinishedParts, check_folder, claim_folder, lock_folder

    formats = parse_figures(figures)
    check_folder(out)
    table = read_table(file, reading, how["task"])
    # Imported after the table is read, so that its notes appear sooner.
    from randsel import report
    from randsel.analysis import Settings, analyse

    how |= {"folds": 0 if no_accuracy else how["folds"], "keep": tuple(split_names(how["keep"]))}
    settings = Settings(**how)
    about = report.describe_run(file, table, reading, settings, out, {"figures": formats, "xlsx": xlsx})
    out.mkdir(parents=True, exist_ok=True)
    with lock_folder(out), claim_folder(out, about, report.MUST_AGREE):
        parts, line = FinishedParts(out / "parts"), ProgressLine()
        try:
            n_jobs = None if jobs == 1 else jobs
            analysis = analyse(table, settings, about=about, parts=parts, progress=line, n_jobs=n_jobs)
        finally:
            line.end()
        missing = [*report.write_results(analysis, out, parts, formats, xlsx), *_save_panel(analysis, out)]
    click.echo(report.format_verdict(analysis) + "\n")
    say("Note", [note for note in analysis.notes if note not in table.notes])
    say("Warning", analysis.warnings)
    for sentence in report.describe_details(analysis):
        click.echo(sentence)
    click.echo("\n" + report.format_ranking(analysis, settings.top or report.PRINTED_ROWS))
    say("Note", missing)
    click.echo(f"\nAll results: {out}")
    if not analysis.has_findings:
        click.get_current_context().exit(NOTHING)


def parse_figures(figures: str) -> tuple[str, ...]:
    """Return the formats of figures that a comma-separated text names, each once."""
    formats = tuple(dict.fromkeys(name.lower() for name in split_names(figures)))
    unknown = [name for name in formats if name not in FIGURE_FORMATS]
    if unknown or not formats:
        raise click.BadParameter(
            f"{', '.join(unknown) or 'nothing'} is not a format of figures; choose from {', '.join(FIGURE_FORMATS)}.",
            param_hint="'--figures'",
        )
    return formats


def _save_panel(analysis: Any, out: Path) -> list[str]:
    """Write panel.json, if something is selected; return a note on why there is none."""
    from randsel.panels import FILE, fit_panel, write_panel

    if not any(feature.selected for feature in analysis.features):
        return []
    try:
        write_panel(fit_panel(analysis), out / FILE)
    except ValueError as error:
        return [f"No {FILE} for randsel apply: {error}"]
    return []


@main.command("report")
@click.argument("folder", type=click.Path(path_type=Path))
def rebuild_report(folder: Path) -> None:
    """Write report.html again from a folder of randsel select, without repeating the analysis.

    \b
    Examples:
      randsel report results
    """
    from randsel._utils.files import check_folder
    from randsel.report import load_analysis, write_report

    analysis = load_analysis(folder)
    check_folder(folder)
    write_report(analysis, folder / "report.html")
    click.echo(f"Written: {folder / 'report.html'}")
