"""`randsel compare` and `randsel reproduce`: selectors in nested cross-validation."""

# ruff: noqa: PLC0415 (slow imports are inside the commands, so that help and usage errors appear at once)
import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from randsel._utils.choices import DEFAULT_METHODS, METHODS
from randsel._utils.text import ProgressLine, as_csv, as_markdown, make_printable, split_names
from randsel.cli._main import job_options, main, read_table, table_options, task_option

if TYPE_CHECKING:
    from randsel.experiments import Spec
    from randsel.tables import Table


_RUN_OPTIONS = (
    click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="Result folder."),
    job_options("cells (one method on one fold)"),
    click.option(
        "--timeout",
        type=click.FloatRange(0, min_open=True),
        help="Seconds that a cell (one method on one fold) may take.",
    ),
    click.option("--methods", help=f"Comma-separated methods: {', '.join(METHODS)}."),
)


def _run_options(command: Any) -> Any:
    """Add the options of commands that run cells."""
    return functools.reduce(lambda decorated, option: option(decorated), reversed(_RUN_OPTIONS), command)


@main.command()
@functools.partial(table_options, differing={"covariates": {"help": "Refused, because most methods cannot use them."}})
@task_option
@click.option(
    "--folds", default=10, show_default=True, type=click.IntRange(2), help="Number of folds, outer and inner."
)
@click.option(
    "--reshuffles", default=3, show_default=True, type=click.IntRange(1), help="Number of repeats, each with new folds."
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0, 2**31), help="Seed of the folds.")
@_run_options
def compare(
    file: Path,
    reading: dict[str, Any],
    methods: str | None,
    out: Path,
    jobs: int | None,
    timeout: float | None,
    **protocol: Any,
) -> None:
    """Compare selectors on your own table by nested cross-validation.

    FILE is a table in any format of docs/reference/formats.md. A support vector machine is tested on the selected
    features: methods are ranked by its balanced accuracy for classes, by R² in every fold for numbers, by the
    concordance index for survival. All methods take all three. Groups are not split between folds. Missing values are
    neutral; --missing median takes medians of training samples. The folder gets ranking.csv (methods, best first,
    with standard errors), table.md and table.csv (all scores), features.csv (how often each feature was selected),
    comparison.png (the same score against the number of features, in the inner folds), times.csv, and the folder
    cells with a file per finished cell: run the command again to resume after an interruption. --reshuffles 1 takes a
    third of the time. Without --methods, all are compared except the bootstrap, which takes as long as the others
    together, and the F-test, which ranks like the correlation coefficient.

    \b
    Examples:
      randsel compare expression.csv --target status --groups donor --out results --jobs 2
      randsel compare expression.csv --target status --out results --dask tcp://10.0.0.1:8786
      randsel compare counts.h5ad --target diagnosis --log2 --reshuffles 1 --methods "randSel, RFE" --out quick
    """
    from randsel._utils.files import check_folder
    from randsel.experiments import Spec

    check_folder(out)
    if reading["covariates"]:
        raise click.UsageError(
            "Most methods of compare cannot remove covariates; leave --covariates out, and these columns with "
            "--drop-columns."
        )
    names = split_names(methods) or DEFAULT_METHODS
    spec = Spec(file.stem, ({"name": file.stem},), tuple({"name": name} for name in names), **protocol)
    _run(spec, {file.stem: read_table(file, reading, protocol["task"])}, out, jobs, timeout)


@main.command()
@click.argument("what", type=click.Choice(["figure1", "table1", "table2", "blackbox"]))
@click.option(
    "--data", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Folder of the NPZ data sets."
)
@click.option("--geo", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Series matrix of GSE19491.")
@click.option("--quick", is_flag=True, help="blackbox only: few labels and settings, for a trial run of a minute.")
@_run_options
def reproduce(
    what: str, data: Path | None, geo: Path | None, quick: bool, out: Path, methods: str | None, **how: Any
) -> None:
    """Repeat an experiment of the paper.

    figure1 draws the culling paths of a 200-dimensional XOR problem, by the paper's algorithm on 2000 samples and by
    the default of this package on 300; it takes some minutes. table1 uses synthetic data. table2 uses real data from
    the folder --data or, with --geo, the paper's own task (69 latent infections, 133 controls). blackbox compares deep
    representations, with and without LPBoostMKL, on a stand-in for the data of the Black Box challenge.

    \b
    Examples:
      randsel reproduce figure1 --out figure1
      randsel reproduce table1 --out table1 --jobs 2
      randsel reproduce table2 --data FOLDER --out table2 --jobs 2
      randsel reproduce blackbox --out blackbox
    """
    if what != "table2" and (data or geo):
        raise click.UsageError("--data and --geo are for table2.")
    if quick and what != "blackbox":
        raise click.UsageError("--quick is for blackbox.")
    if what == "blackbox":
        if methods or how["timeout"] or how["jobs"] != 1:
            raise click.UsageError(
                "--methods, --timeout, --jobs, --dask are for table1 and table2; blackbox runs all it has on one core."
            )
        _black_box(quick, out)
        return
    from randsel._utils.files import check_folder
    from randsel.experiments import Spec, load_table
    from randsel.tables import read

    if what == "figure1":
        check_folder(out)
        out.mkdir(parents=True, exist_ok=True)
        _figure1(out)
        return
    spec = Spec.load(Path(__file__).parents[1] / "experiments" / f"{what}.toml").only(split_names(methods))
    if what == "table2" and geo is not None:
        wanted = {"latent": "LTBI", "control": "control"}
        # probes with missing values are dropped, as in the paper
        series = read(geo, target="illness", classes=wanted, missing="drop-columns")
        spec = replace(spec, data=({"name": "LTBI, GSE19491"},))
        loaded = {"LTBI, GSE19491": series}
    elif what == "table2" and data is None:
        raise click.UsageError("table2 needs the folder of the data sets (--data), or a GEO series matrix (--geo).")
    else:
        loaded = {entry["name"]: load_table(entry, data or Path()) for entry in spec.data}
    _run(spec, loaded, out, **how)


def _figure1(out: Path) -> None:
    from randsel import experiments
    from randsel._utils import files

    fitted = experiments.fit_figure1(progress=lambda what: click.echo(f"{what} ...", err=True))
    rows = [one.describe() for one in fitted]
    text = f"# figure1\n\nThe label is the XOR of the signs of x0 and x1.\n\n{as_markdown(rows)}\n"
    files.write_atomically(out / "table.md", text)
    click.echo(text)
    _write_picture(out / "figure1.png", experiments.draw_figure1, fitted)


def _black_box(quick: bool, out: Path) -> None:
    from randsel import experiments, plots
    from randsel._utils import files

    settings = experiments.QUICK_BLACK_BOX if quick else experiments.BlackBoxSettings()
    line = ProgressLine()
    try:
        results = experiments.run_black_box(settings, out, progress=line)
    finally:
        line.end()
    rows, why = experiments.accuracies(results), experiments.differences(results)
    heading = (
        f"{settings.n_labelled} labelled rows, {settings.n_held_out} held out, the others without label; "
        f"{settings.seeds} seeds, mean ± sd. All choices by {settings.folds}-fold cross-validation on labelled rows."
    )
    text = f"# blackbox\n\n{heading}\n\n{as_markdown(rows)}\n\n## Why\n\n{as_markdown(why)}\n"
    files.write_atomically(out / "table.md", text)
    files.write_atomically(out / "table.csv", as_csv(rows))
    files.write_atomically(out / "why.csv", as_csv(why))
    click.echo(text)
    draw = functools.partial(plots.kernel_weights, classes=range(1, 10), title="LPBoostMKL on the stand-in")
    _write_picture(out / "weights.png", draw, *experiments.weights_along_path(results))


def _write_picture(path: Path, draw: Callable[..., Any], *values: Any) -> None:
    """Write a picture; without matplotlib, print that there is none."""
    from randsel._utils.files import write_figure
    from randsel.plots import figure_of

    try:
        write_figure(path, figure_of(draw(*values)), 120)
    except ImportError as error:
        click.echo(f"No picture: {error}", err=True)


def _run(spec: "Spec", loaded: dict[str, "Table"], out: Path, jobs: int | None, timeout: float | None) -> None:
    from randsel import plots
    from randsel.experiments import curves, run_comparison, write_tables

    line = ProgressLine()
    try:
        outcome = run_comparison(spec, loaded, out, n_jobs=jobs, timeout=timeout, progress=line)
    except KeyboardInterrupt:
        click.echo(f"\nFinished cells are kept in {out}; run the command again to go on.", err=True)
        raise
    finally:
        line.end()
    click.echo(make_printable(write_tables(spec, outcome, out)))
    if not outcome.results:
        raise click.ClickException("every cell failed; see the reasons above.")
    _write_picture(out / "comparison.png", functools.partial(plots.comparison, title=spec.name), curves(spec, outcome))
    if outcome.errors:
        raise click.ClickException(
            f"{len(outcome.errors)} of {len(outcome.cells)} cells failed; run the command again to retry them."
        )
    click.echo(f"All results: {out}")
