"""`randsel select` and `randsel report`: one table to a panel, its files and its report."""

# ruff: noqa: PLC0415 (heavy imports wait until a command needs them, so that help and mistakes are answered at once)
from pathlib import Path
from typing import Any

import click

from randsel._utils.text import ProgressLine
from randsel.cli._main import NOTHING, job_options, main, read_table, say, table_options


@main.command()
@table_options
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Result folder.")
@click.option("--top", type=click.IntRange(1), help="Select at most this many features, and print as many.")
@click.option(
    "--fdr",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Select features of at most this q-value, such as 0.1.",
)
@click.option(
    "--task",
    default="auto",
    show_default=True,
    type=click.Choice(["auto", "classification", "regression"]),
    help="What the target is; auto takes text, and up to 20 whole numbers, for classes.",
)
@click.option(
    "--pairs",
    default="auto",
    show_default=True,
    type=click.Choice(["auto", "all", "none"]),
    help="Test pairs of features; auto: if samples × features² is at most 3e10.",
)
@click.option("--halves", default=50, show_default=True, type=click.IntRange(0), help="Half-samples; 0 for none.")
@click.option("--folds", default=5, show_default=True, type=click.IntRange(0), help="Folds; 0 for none.")
@click.option("--no-accuracy", is_flag=True, help="Leave out the cross-validation; as --folds 0.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0, 2**31), help="Of halves and folds.")
@job_options("Halves and folds")
@click.option("--memory", help="Memory that culling may use beside the table, such as 2GB.")
@click.option("--device", help="Where to compute, such as cuda.")
@click.pass_context
def select(
    ctx: click.Context,
    /,
    file: Path,
    reading: dict[str, Any],
    out: Path,
    jobs: int | None,
    no_accuracy: bool,
    **how: Any,
) -> None:
    """Rank and select features, and find out how far to trust them.

    FILE is a table of any format of docs/files.md. The folder gets ranking.csv (all features, best first), pairs.csv,
    path.png, report.html to send to a colleague, and run.json, from which the run can be repeated. Run the command
    again to go on where it was interrupted.

    Without --top and --fdr, those features are selected that survive culling to its best round, if that stands out
    from noise, and those that tests take in one by one. --fdr 0.1 selects features of a q-value of at most 0.1
    instead, --top 20 the first 20, both together at most 20 of such a q-value.

    \b
    Exit status:
      0    something stands out
      1    the table, the folder or a package: see the message
      2    the options: see the message
      3    nothing stands out; all files are written
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
    from randsel._utils.result_folder import FinishedParts, check_folder, check_or_write_identity, lock_folder

    check_folder(out)
    table = read_table(file, reading)
    # Imported after the table was read, so that its notes appear sooner.
    from randsel.analysis import Settings, analyse
    from randsel.report import (
        MUST_AGREE,
        PRINTED_ROWS,
        describe_run,
        format_ranking,
        has_findings,
        summarise,
        write_results,
    )

    settings = Settings(**{**how, "folds": 0 if no_accuracy else how["folds"]})
    about = describe_run(file, table, reading, settings, out)
    out.mkdir(parents=True, exist_ok=True)
    with lock_folder(out):
        check_or_write_identity(out, about, MUST_AGREE)
        parts, line = FinishedParts(out / "parts"), ProgressLine()
        try:
            analysis = analyse(
                table, settings, about=about, parts=parts, progress=line, n_jobs=None if jobs == 1 else jobs
            )
        finally:
            line.end()
        missing = write_results(analysis, out, parts)
    say("Note", [note for note in analysis.notes if note not in table.notes])
    say("Warning", analysis.warnings)
    for sentence in summarise(analysis):
        click.echo(sentence)
    click.echo("\n" + format_ranking(analysis, settings.top or PRINTED_ROWS))
    say("Note", missing)
    click.echo(f"\nAll of it: {out}")
    if not has_findings(analysis, settings.fdr):
        ctx.exit(NOTHING)


@main.command("report")
@click.argument("folder", type=click.Path(path_type=Path))
def rebuild_report(folder: Path) -> None:
    """Write report.html anew from a folder of randsel select, without computing anything again.

    \b
    Examples:
      randsel report results
    """
    from randsel._utils.result_folder import check_folder
    from randsel.report import load_analysis, write_report

    analysis = load_analysis(folder)
    check_folder(folder)
    write_report(analysis, folder / "report.html")
    click.echo(f"Written: {folder / 'report.html'}")
