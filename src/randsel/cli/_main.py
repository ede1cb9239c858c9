"""The command line: parses and calls, nothing else.

What takes long to import is imported by the commands that need it, so that help and mistakes are answered at once.
"""

# ruff: noqa: PLC0415
import errno
import functools
import shutil
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import get_completion_class

from randsel import __version__
from randsel._utils.text import as_csv, as_markdown, make_printable

if TYPE_CHECKING:
    from randsel._utils.typing import Array
    from randsel.culling._path import Round
    from randsel.experiments._specification import Spec
    from randsel.tables import _read as tables

#: Choices of `tables.read` and names of methods of `experiments`, which would take seconds to import; a test compares
#: them.
ORIENTATIONS = ("auto", "samples-in-rows", "features-in-rows")
MISSING_RULES = ("error", "median", "drop-columns")
METHODS = (
    "randSel",
    "randSel (total)",
    "randSel (bootstrap)",
    "BaHSIC",
    "FoHSIC",
    "Corr. Coeff.",
    "Stab. Sel.",
    "RFE",
)
#: Options on how a table is read.
READING = (
    "target",
    "target_file",
    "groups",
    "batch",
    "categorical",
    "drop_columns",
    "id_column",
    "log2",
    "layer",
    "orientation",
    "missing",
    "max_bytes",
)
#: Exit status if nothing stands out, if a cluster was lost, after Ctrl-C and after SIGTERM (128 and the number of the
#: signal, as shells have it). 1 are mistakes in files, 2 in options, as click has it.
NOTHING, LOST, INTERRUPTED, TERMINATED = 3, 4, 130, 143
#: Bytes of a file that take a while to read.
LARGE_FILE = 10_000_000
#: Commands that go on where they were.
RESUMING = ("select", "interactions", "compare", "reproduce")


class Terminated(KeyboardInterrupt):
    """The signal to end, SIGTERM, which schedulers send, and systems that shut down; as if it were Ctrl-C."""


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM raise `Terminated`; the second one ends at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Commands(click.Group):
    """Commands whose errors are sentences: what is wrong with the input, or with a file, ends without a traceback."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take --debug from wherever it is."""
        return super().parse_args(ctx, sorted(args, key=lambda word: word != "--debug"))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            with _terminable():
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt as error:
            word, status = ("Terminated", TERMINATED) if isinstance(error, Terminated) else ("Interrupted", INTERRUPTED)
            kept = ctx.invoked_subcommand in RESUMING
            more = " What is finished is kept: run the same command again to go on." if kept else ""
            click.echo(f"\n{word}.{more}", err=True)
            ctx.exit(status)
        except Exception as error:
            if ctx.params["debug"]:
                raise
            raise click.ClickException(_sentence(error)) from error


def _sentence(error: Exception) -> str:
    """Say what is wrong, and what to do about a file that cannot be written, or a fault of ours."""
    if isinstance(error, OSError):
        where = error.filename or "the result folder"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return f"no room left to write {where}; make some and run again, what is finished is kept."
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return f"{where} may not be written or read; give another folder, or change its permissions."
        return str(error)
    if isinstance(error, MemoryError):
        return (
            "not enough memory; take fewer jobs (--jobs 1), leave out columns, or say how much select may use "
            "(--memory 2GB), and run again: what is finished is kept."
        )
    if type(error).__name__ == "TerminatedWorkerError":  # of joblib, which would take long to import
        return (
            "a process of --jobs was killed, which the system does when memory runs out; take fewer jobs (--jobs 1), "
            "and run again: what is finished is kept."
        )
    if isinstance(error, ValueError | ImportError):
        return make_printable(str(error))
    return f"{type(error).__name__}: {make_printable(str(error))}. This should not happen: --debug shows where it did."


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show where an error came from.")
@click.version_option(__version__, prog_name="randsel")
def main(debug: bool) -> None:
    """Select features that matter non-linearly, alone or together.

    \b
    Examples:
      randsel demo
      randsel select expression.csv --target status --out results
      randsel interactions expression.csv --target status --out results
      randsel COMMAND --help
    """


@main.command()
@click.option("--samples", default=300, show_default=True, type=click.IntRange(8), help="Number of samples.")
@click.option("--features", default=200, show_default=True, type=click.IntRange(3), help="Number of features.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0, 2**32 - 1), help="Seed of the data.")
@click.option(
    "--out",
    default="randsel-demo.png",
    show_default=True,
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Where to draw the culling path.",
)
def demo(samples: int, features: int, seed: int, out: Path) -> None:
    """Find the two features whose XOR is the label, among many that are noise.

    Neither of the two tells anything alone: a filter that looks at one feature at a time cannot see them.

    \b
    Examples:
      randsel demo
      randsel demo --features 1000 --seed 3 --out path.png
    """
    from randsel import RandSel, datasets, plots

    X, y, relevant = datasets.make_xor(samples, features, random_state=seed)
    names = [f"x{j}" for j in range(features)]
    click.echo(f"{samples} samples, {features} features; the label is the XOR of the signs of x0 and x1.\n")
    click.echo(f"{'left':>5} {'alignment':>10} {'score x0':>9} {'score x1':>9}   best noise feature")
    selector = RandSel(verbose=lambda r: click.echo(_line(r, relevant, names))).fit(X, y)
    chosen = selector.get_support(indices=True)
    click.echo(f"\nSelected: {', '.join(names[j] for j in chosen)}")
    try:
        figure = plots.culling_path(
            selector.path_,
            highlight=relevant,
            names=names,
            title=f"XOR of two features among {features}: contributions as noise is culled",
            label="the two relevant features",
        )
    except ImportError as error:
        click.echo(f"No picture: {error}", err=True)
        return
    figure.savefig(out, dpi=150)
    click.echo(f"The path, drawn: {out}")


def _line(r: "Round", relevant: "Array", names: list[str]) -> str:
    """Scores of the relevant features of a round against the best of the others."""
    score = dict(zip(r.features.tolist(), r.scores.tolist(), strict=True))
    true = " ".join(f"{score.pop(j):9.2f}" if j in score else f"{'culled':>9}" for j in relevant.tolist())
    best = max(score, key=lambda j: score[j], default=None)
    noise = "none left" if best is None else f"{score[best]:.2f} ({names[best]})"
    return f"{len(r.features):5d} {r.alignment:10.4f} {true}   {noise}"


def table_options(command: Any) -> Any:
    """Add the file and all that can be said about it; the command gets `file`, and `reading` for `tables.read`."""
    options = [
        click.argument("file", type=click.Path(path_type=Path)),
        click.option("--target", help="Column of the target: class labels, or numbers."),
        click.option("--target-file", type=click.Path(path_type=Path), help="File of sample ids and target."),
        click.option("--groups", help="Column of groups, such as donors, that belong together."),
        click.option("--batch", help="Column of batches, such as sub-studies."),
        click.option("--categorical", help="Comma-separated columns of names, without order."),
        click.option("--drop-columns", help="Comma-separated columns to leave out."),
        click.option("--id-column", help="Column of the names of samples."),
        click.option("--log2", is_flag=True, help="Take logarithms of the features."),
        click.option("--layer", help="Layer of an h5ad file, instead of X."),
        click.option(
            "--orientation",
            default="auto",
            show_default=True,
            type=click.Choice(ORIENTATIONS),
            help="Which way the table lies.",
        ),
        click.option(
            "--missing",
            default="error",
            show_default=True,
            type=click.Choice(MISSING_RULES),
            help="What to do about missing values.",
        ),
        click.option("--max-bytes", default="4GB", show_default=True, help="Refuse larger tables."),
    ]

    @functools.wraps(command)
    def reading(**given: Any) -> Any:
        found = {name: given.pop(name) for name in READING}
        found.update({name: tuple(_names(found[name])) for name in ("categorical", "drop_columns")})
        return command(reading=found, **given)

    for option in reversed(options):
        reading = option(reading)
    return reading


def _read(file: Path, reading: dict[str, Any]) -> "tables.Table":
    """Read a table, and say what was found in it; of a large file, that it is being read."""
    if file.is_file() and file.stat().st_size > LARGE_FILE:
        click.echo(f"Reading {make_printable(str(file))}, {file.stat().st_size / 1e6:.0f} MB.", err=True)
    from randsel.tables import _read as tables

    table = tables.read(file, **reading)
    _say("Note", table.notes)
    return table


def _say(what: str, sentences: Any) -> None:
    for sentence in sentences:
        click.echo(f"{what}: {make_printable(sentence)}", err=True)


class _Lost(click.ClickException):
    """A cluster was lost on the way."""

    exit_code = LOST


def job_options(what: str) -> Callable[[Any], Any]:
    """Add --jobs and --dask; the command gets `jobs`, which is None for all that joblib has."""

    def decorated(command: Any) -> Any:
        @click.option("--jobs", default=1, show_default=True, type=int, help=f"{what} at a time; -1: all cores.")
        @click.option("--dask", metavar="ADDRESS", help="Run them on a Dask cluster: address of its scheduler.")
        @functools.wraps(command)
        def with_jobs(*args: Any, jobs: int, dask: str | None, **given: Any) -> Any:
            with _workers(jobs, dask) as n_jobs:
                return command(*args, jobs=n_jobs, **given)

        return with_jobs

    return decorated


@contextmanager
def _workers(jobs: int, dask: str | None) -> Iterator[int | None]:
    """Check who is to work, and send jobs to a cluster within the block if one is named."""
    if jobs == 0:
        msg = "--jobs 0 leaves nobody to work; use 1 or more, or -1 for all cores."
        raise click.UsageError(msg)
    if dask is None:
        yield jobs
        return
    if jobs != 1:
        msg = "--jobs is for this machine, and --dask uses all threads of the cluster; leave one of them out."
        raise click.UsageError(msg)
    from randsel.distributed._jobs import ClusterLostError, on_cluster

    try:
        with on_cluster(dask) as client:
            _say("Note", [f"jobs run on the cluster at {dask}, which has {sum(client.nthreads().values())} threads."])
            yield None
    except ClusterLostError as error:
        if click.get_current_context().find_root().params["debug"]:
            raise
        msg = f"{make_printable(str(error))} What is finished is kept: run the same command again to go on."
        raise _Lost(msg) from error


def _run_options(command: Any) -> Any:
    """Options of every command that runs cells."""
    for option in reversed(
        [
            click.option(
                "--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="Result folder."
            ),
            job_options("Cells to run"),
            click.option("--timeout", type=click.FloatRange(0, min_open=True), help="Seconds to give a cell."),
            click.option("--methods", help=f"Comma-separated, of: {', '.join(METHODS)}."),
        ]
    ):
        command = option(command)
    return command


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
    from randsel._utils import result_folder as run_folder

    run_folder.check_folder(out)
    table = _read(file, reading)
    # after the notes, which are there the sooner
    from randsel.analysis import _decisions as choosing
    from randsel.analysis import _pipeline as selection
    from randsel.report import _folder as results
    from randsel.report._sentences import summarise

    settings = choosing.Settings(**{**how, "folds": 0 if no_accuracy else how["folds"]})
    about = results.identity(file, table, reading, settings, out)
    out.mkdir(parents=True, exist_ok=True)
    with run_folder.only_run(out):
        run_folder.claim(out, about, results.SAME)
        parts, line = run_folder.Parts(out / "parts"), run_folder.ProgressLine()
        try:
            analysis = selection.analyse(
                table, settings, about=about, parts=parts, progress=line, n_jobs=None if jobs == 1 else jobs
            )
        finally:
            line.end()
        missing = results.write(analysis, out, parts)
    _say("Note", [note for note in analysis.notes if note not in table.notes])
    _say("Warning", analysis.warnings)
    for sentence in summarise(analysis):
        click.echo(sentence)
    click.echo("\n" + results.as_text(analysis, settings.top or results.PRINTED))
    _say("Note", missing)
    click.echo(f"\nAll of it: {out}")
    if not results.found_something(analysis, settings.fdr):
        ctx.exit(NOTHING)


@main.command("report")
@click.argument("folder", type=click.Path(path_type=Path))
def rebuild_report(folder: Path) -> None:
    """Write report.html anew from a folder of randsel select, without computing anything again.

    \b
    Examples:
      randsel report results
    """
    from randsel._utils import result_folder as run_folder
    from randsel.report import _folder as results

    analysis = results.load(folder)
    run_folder.check_folder(folder)
    results.write_report(analysis, folder / "report.html")
    click.echo(f"Written: {folder / 'report.html'}")


@main.command()
@table_options
@click.option("--folds", default=10, show_default=True, type=click.IntRange(2), help="Folds of both loops.")
@click.option("--reshuffles", default=3, show_default=True, type=click.IntRange(1), help="Repetitions.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0, 2**31), help="Seed of the folds.")
@_run_options
def compare(
    file: Path,
    reading: dict[str, Any],
    folds: int,
    reshuffles: int,
    seed: int,
    out: Path,
    jobs: int | None,
    timeout: float | None,
    methods: str | None,
) -> None:
    """Compare selectors on your own table by nested cross-validation.

    FILE is a table of any format of docs/files.md, the target class labels. Groups are not split between folds, and
    --missing median takes medians of training samples. The folder gets table.md and table.csv (accuracies),
    features.csv (what was selected how often), comparison.png, times.csv, and a file per finished cell: run the command
    again to go on where it was interrupted. --reshuffles 1 takes a third of the time. Without --methods all are
    compared but the bootstrap, which takes as long as the others together.

    \b
    Examples:
      randsel compare expression.csv --target status --groups donor --out results --jobs 2
      randsel compare expression.csv --target status --out results --dask tcp://10.0.0.1:8786
      randsel compare counts.h5ad --target diagnosis --log2 --reshuffles 1 --methods "randSel, RFE" --out quick
    """
    from randsel._utils import result_folder as run_folder
    from randsel.experiments._specification import Spec

    run_folder.check_folder(out)
    names = _names(methods) or [m for m in METHODS if "bootstrap" not in m]
    spec = Spec(
        name=file.stem,
        data=({"name": file.stem},),
        methods=tuple({"name": name} for name in names),
        folds=folds,
        reshuffles=reshuffles,
        seed=seed,
    )
    _run(spec, {file.stem: _read(file, reading)}, out, jobs, timeout)


@main.command()
@table_options
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="Result folder.")
@click.option("--top", type=click.IntRange(1), help="Select this many features.")
@click.option("--fdr", type=click.FloatRange(0, 1, min_open=True, max_open=True), help="Largest q-value selected.")
@click.option("--pairs", type=click.IntRange(1), help="Pairs to write; 1000 if left out, or all if there are fewer.")
@click.option("--order", default=2, show_default=True, type=click.IntRange(1, 3), help="Largest set of features.")
@click.option("--jobs", type=int, help="Threads.")
def interactions(
    file: Path,
    reading: dict[str, Any],
    out: Path,
    top: int | None,
    fdr: float | None,
    pairs: int | None,
    order: int,
    jobs: int | None,
) -> None:
    """Test every feature alone and with every other one.

    FILE is a table of any format of docs/files.md; the target is compared within groups and batches only, and --missing
    median takes medians of all samples. The folder gets features.csv (best first: p- and q-values, partner),
    pairs.csv, heatmap.png and pairs.png. Without --top and --fdr, features of a q-value of at most 0.05 are selected.
    If a long scan is interrupted, run the command again to go on.

    \b
    Examples:
      randsel interactions expression.csv --target status --out results
      randsel interactions genes.tsv.gz --target-file samples.csv --target status --batch study --out results
      randsel interactions snps.bed --top 20 --out results
    """
    import numpy as np

    from randsel import InteractionScan, plots
    from randsel._utils import result_folder as run_folder
    from randsel.experiments import _summary as summary
    from randsel.tables import _read as tables

    if (out / run_folder.IDENTITY).exists():
        msg = f"{out} holds a run of randsel select or compare, whose files would be lost; give another folder (--out)."
        raise click.ClickException(msg)
    run_folder.check_folder(out)
    table = _read(file, reading)
    if np.isnan(table.X).any():
        click.echo("Note: there are no folds here, so medians are those of all samples.", err=True)
        table = replace(table, X=tables.imputer().fit_transform(table.X))
    scan = InteractionScan(
        top,
        alpha=fdr,
        n_pairs=pairs,
        order=order,
        categorical_features=list(table.nominal) or None,
        n_jobs=jobs,
        checkpoint=out / "so-far",
        verbose=int(sys.stderr.isatty()),
    )
    with warnings.catch_warnings(record=True) as remarks:
        warnings.simplefilter("always", UserWarning)
        scan.fit(table.X, table.y, groups=table.groups, batch=table.batch)
    for remark in remarks:
        click.echo(f"Note: {remark.message}", err=True)
    features, found = summary.features_tested(scan, table.names), summary.pairs_tested(scan, table.names)
    run_folder.write_atomically(out / "features.csv", as_csv(features))
    run_folder.write_atomically(out / "pairs.csv", as_csv(found))
    click.echo(f"{len(table.X)} samples, {len(table.names)} features; {scan.n_features_} selected.\n")
    click.echo(make_printable(as_markdown(features[: max(5, min(20, scan.n_features_))])))
    for rows in (found[: len(scan.pairs_)], found[len(scan.pairs_) :]):
        if rows:
            click.echo("\n" + make_printable(as_markdown(rows[:5])))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about glyphs that a font does not have
        try:
            for name, figure in (
                ("heatmap.png", plots.interaction_heatmap(scan, names=table.names)),
                ("pairs.png", plots.pair_panels(table.X, table.y, scan, names=table.names)),
            ):
                run_folder.write_figure(out / name, figure, 120)
        except (ImportError, ArithmeticError, ValueError) as error:  # values too extreme to draw lose the picture only
            click.echo(f"No pictures: {error}", err=True)
    shutil.rmtree(out / "so-far", ignore_errors=True)
    click.echo(f"\nAll of it: {out}")


@main.command()
@click.argument("what", type=click.Choice(["figure1", "table1", "table2", "blackbox"]))
@click.option(
    "--data", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Folder of the NPZ data sets."
)
@click.option("--geo", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Series matrix of GSE19491.")
@click.option("--quick", is_flag=True, help="blackbox only: few labels and settings, to see it work in a minute.")
@_run_options
def reproduce(
    what: str,
    data: Path | None,
    geo: Path | None,
    quick: bool,
    out: Path,
    jobs: int | None,
    timeout: float | None,
    methods: str | None,
) -> None:
    """Repeat an experiment of the paper.

    figure1 draws the culling path of a 200-dimensional XOR problem. table1 has synthetic data; table2 real data, from
    the folder --data, or with --geo the paper's own task (69 latent infections, 133 controls). blackbox compares deep
    representations, with and without LPBoostMKL, on a stand-in for the Black Box challenge.

    \b
    Examples:
      randsel reproduce figure1 --out figure1
      randsel reproduce table1 --out table1 --jobs 2
      randsel reproduce table2 --data FOLDER --out table2 --jobs 2
      randsel reproduce blackbox --out blackbox
    """
    if what != "table2" and (data or geo):
        msg = "--data and --geo are for table2."
        raise click.UsageError(msg)
    if quick and what != "blackbox":
        msg = "--quick is for blackbox."
        raise click.UsageError(msg)
    if what == "blackbox":
        if methods or timeout or jobs != 1:
            msg = (
                "--methods, --timeout, --jobs, --dask are for table1 and table2; blackbox runs all it has on one core."
            )
            raise click.UsageError(msg)
        _black_box(quick, out)
        return
    from randsel._utils import result_folder as run_folder
    from randsel.experiments._specification import Spec, load_table
    from randsel.tables import _read as tables

    if what == "figure1":
        run_folder.check_folder(out)
        out.mkdir(parents=True, exist_ok=True)
        click.get_current_context().invoke(demo, samples=300, features=200, seed=0, out=out / "figure1.png")
        return
    spec = Spec.load(Path(__file__).parents[1] / "experiments" / f"{what}.toml").only(_names(methods))
    if what == "table2" and geo is not None:
        wanted = {"latent": "LTBI", "control": "control"}
        # probes with a missing value are left out, as in the paper
        found = tables.read(geo, target="illness", classes=wanted, missing="drop-columns")
        spec = replace(spec, data=({"name": "LTBI, GSE19491"},))
        loaded = {"LTBI, GSE19491": found}
    elif what == "table2" and data is None:
        msg = "table2 needs the folder of the data sets (--data), or a GEO series matrix (--geo)."
        raise click.UsageError(msg)
    else:
        loaded = {entry["name"]: load_table(entry, data or Path()) for entry in spec.data}
    _run(spec, loaded, out, jobs, timeout)


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script that completes commands and options in a shell.

    Put the line of your shell into its start-up file (~/.bashrc, ~/.zshrc, ~/.config/fish/config.fish).

    \b
    Examples:
      eval "$(randsel completion bash)"
      eval "$(randsel completion zsh)"
      randsel completion fish | source
    """
    found = get_completion_class(shell)
    if found is None:
        msg = f"click knows no completion for {shell}; renew it: pip install --upgrade click."
        raise click.ClickException(msg)
    click.echo(found(main, {}, "randsel", "_RANDSEL_COMPLETE").source())


def _black_box(quick: bool, out: Path) -> None:
    from randsel import plots
    from randsel._utils import result_folder as run_folder
    from randsel.experiments import _black_box as black_box

    settings = black_box.QUICK if quick else black_box.Settings()
    line = run_folder.ProgressLine()
    try:
        results = black_box.run(settings, out, progress=line)
    finally:
        line.end()
    rows, why = black_box.accuracies(results), black_box.differences(results)
    heading = (
        f"{settings.n_labelled} labelled rows, {settings.n_held_out} held out, the others without label; "
        f"{settings.seeds} seeds, mean ± sd. All choices by {settings.folds}-fold cross-validation on labelled rows."
    )
    text = "\n".join(["# blackbox", "", heading, "", as_markdown(rows), "", "## Why", "", as_markdown(why), ""])
    run_folder.write_atomically(out / "table.md", text)
    run_folder.write_atomically(out / "table.csv", as_csv(rows))
    run_folder.write_atomically(out / "why.csv", as_csv(why))
    click.echo(text)
    sizes, weights = black_box.weights_along_path(results)
    try:
        figure = plots.kernel_weights(sizes, weights, classes=range(1, 10), title="LPBoostMKL on the stand-in")
    except ImportError as error:
        click.echo(f"No picture: {error}", err=True)
        return
    run_folder.write_figure(out / "weights.png", figure, 120)


def _names(methods: str | None) -> list[str]:
    return [name.strip() for name in methods.split(",")] if methods else []


def _run(spec: "Spec", loaded: dict[str, "tables.Table"], out: Path, jobs: int | None, timeout: float | None) -> None:
    from randsel import plots
    from randsel._utils import result_folder as run_folder
    from randsel.experiments import _summary as summary
    from randsel.experiments._run import run

    line = run_folder.ProgressLine()
    try:
        outcome = run(spec, loaded, out, n_jobs=jobs, timeout=timeout, progress=line)
    except KeyboardInterrupt:
        click.echo(f"\nFinished cells are kept in {out}; run the command again to go on.", err=True)
        raise
    finally:
        line.end()
    times = "once" if spec.reshuffles == 1 else f"{spec.reshuffles} times"
    heading = f"Nested {spec.folds}-fold cross-validation, {times}; mean ± sd over the cells."
    click.echo(make_printable(summary.write_tables(spec, outcome, out, heading)))
    if not outcome.results:
        msg = "every cell failed; see the reasons above."
        raise click.ClickException(msg)
    try:
        figure = plots.comparison(summary.curves(spec, outcome), title=spec.name)
    except ImportError as error:
        click.echo(f"No picture: {error}", err=True)
    else:
        run_folder.write_figure(out / "comparison.png", figure, 120)
    if outcome.errors:
        msg = f"{len(outcome.errors)} of {len(outcome.cells)} cells failed; run the command again to retry them."
        raise click.ClickException(msg)
