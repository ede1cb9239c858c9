"""The group of commands, its error messages and exit statuses, and options that several commands share."""

# ruff: noqa: PLC0415
import errno
import functools
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import click

from randsel import __version__
from randsel._utils.choices import DETECTION_RULES, DUPLICATE_RULES, MISSING_RULES, ORIENTATIONS
from randsel._utils.text import make_printable, split_names

if TYPE_CHECKING:
    from randsel.tables import Table

_ORIENTATION = click.Choice(ORIENTATIONS)
_MISSING_RULE = click.Choice(MISSING_RULES)
#: Options of reading a table, by the names of the keyword arguments of `randsel.tables.read`.
READING: dict[str, dict[str, Any]] = {
    "target": {"help": "Column to predict: class labels, or numbers."},
    "target_file": {
        "type": click.Path(path_type=Path),
        "help": "File with sample ids and the target, if FILE lacks it: text, Excel or Parquet.",
    },
    "event": {"help": "For survival, instead of --target: column of 0 and 1, or alive and dead."},
    "time": {"help": "For survival: column of times until the event, or until the last observation."},
    "groups": {"help": "Column of donors, or of other groups of samples that are not independent."},
    "batch": {"help": "Column of batches, such as plates or sub-studies."},
    "covariates": {
        "help": "Columns whose effects are removed, by commas, such as age,sex; quote commas: '\"age, years\",sex'."
    },
    "categorical": {"help": "Comma-separated columns whose values are categories without order, even if numbers."},
    "drop_columns": {"help": "Comma-separated columns to leave out."},
    "id_column": {"help": "Column of sample names, if it is not recognised."},
    "features": {"help": "Comma-separated columns to use as features, although they look like ids or times."},
    "log2": {"is_flag": True, "help": "Take logarithms (base 2) of the features."},
    "layer": {"help": "Layer of an h5ad file, instead of X."},
    "sheet": {"help": "Sheet of an Excel workbook, instead of the first."},
    "target_sheet": {"help": "Sheet of the file --target-file, instead of the first."},
    "skip_rows": {"type": click.IntRange(0), "help": "Number of lines above the header to skip; detected by default."},
    "na": {"metavar": "CELLS", "help": 'Comma-separated cells that also mean "missing", such as "ND,-,-999".'},
    "below_detection": {
        "type": click.Choice(DETECTION_RULES),
        "help": "Replace cells such as <LOD and <0.5 by half of the smallest value of their feature, or by missing "
        "values. By default, such cells are an error.",
    },
    "duplicates": {
        "default": DUPLICATE_RULES[0],
        "type": click.Choice(DUPLICATE_RULES),
        "help": "Features of the same name: refuse them, number them, or use their mean or the first.",
    },
    "orientation": {
        "default": "auto",
        "type": _ORIENTATION,
        "help": "Whether each row of the table is a sample or a feature.",
    },
    "missing": {
        "default": MISSING_RULES[0],
        "type": _MISSING_RULE,
        "help": "Missing values: count them as average (neutral), add columns that mark them (indicator), replace them "
        "by medians, leave out their columns, or refuse them.",
    },
    "max_bytes": {"default": "4GB", "help": "Refuse a table larger than this."},
}
#: Options that hold several names, separated by commas.
COMMA_SEPARATED = ("covariates", "categorical", "drop_columns", "features", "na")
#: Exit status if nothing stands out, if a cluster was lost, after Ctrl-C and after SIGTERM (128 plus the number of the
#: signal, as in shells). As usual with click, 1 is an error in a file and 2 an error in the options.
NOTHING, LOST, INTERRUPTED, TERMINATED = 3, 4, 130, 143
LARGE_FILE = 10_000_000  # size in bytes above which reading a file takes so long that it is announced
#: Commands that resume an interrupted run, and what they print then.
RESUMING = ("select", "interactions", "compare", "reproduce")
ADVICE_TO_RESUME = "What is finished is kept: run the same command again to go on."


@contextmanager
def _end_on_signals(ctx: click.Context) -> Iterator[None]:
    """End the process with its child processes on Ctrl-C (SIGINT) and on SIGTERM, which job schedulers send.

    No exception is raised: at an arbitrary moment it could leave a lock of any library held, and Python ignores those
    raised in a destructor. Ending at once loses nothing, because result files are written atomically. Signals stay as
    they are where a caller ignores or handles them, or has replaced standard error, and on Windows.
    """
    ends = {signal.SIGINT: ("Interrupted.", INTERRUPTED), signal.SIGTERM: ("Terminated.", TERMINATED)}
    usual = (signal.SIG_DFL, signal.default_int_handler)
    numbers = [number for number in ends if signal.getsignal(number) in usual]
    is_main_thread = threading.current_thread() is threading.main_thread()
    if not numbers or not is_main_thread or not hasattr(signal, "pthread_sigmask") or not _has_descriptor(sys.stderr):
        yield
        return
    from randsel._utils.processes import kill_children, silence_resource_tracker

    def end(number: int, _: Any = None) -> None:
        message, status = ends[signal.Signals(number)]
        try:
            with suppress(OSError):  # standard error may be closed
                os.write(sys.stderr.fileno(), f"\n{message}{_advice_to_resume(ctx)}\n".encode())
            kill_children()
        finally:
            os._exit(status)

    with ExitStack() as stack:
        for number in numbers:
            stack.callback(signal.signal, number, signal.signal(number, end))
        if signal.SIGINT in numbers:
            stack.enter_context(_wait_in_thread(signal.SIGINT, end))
        stack.enter_context(silence_resource_tracker())
        yield


def _has_descriptor(stream: Any) -> bool:
    """Return whether a stream writes to a file, a pipe or a terminal; those of a test runner or notebook may not."""
    try:
        return bool(stream.fileno() >= 0)
    except (AttributeError, OSError, ValueError):
        return False


@contextmanager
def _wait_in_thread(number: signal.Signals, end: Callable[[int], None]) -> Iterator[None]:
    """Let a thread of its own wait for a signal and call `end`, and block the signal in this thread.

    Worker processes inherit the blocked signal. Otherwise Ctrl-C, which a terminal sends to all of them, would print
    their tracebacks. The thread also notices the signal while this one runs a long matrix product.
    """
    is_over, is_over_lock = threading.Event(), threading.Lock()

    def wait() -> None:
        signal.sigwait({number})
        with is_over_lock:
            if not is_over.is_set():
                end(number)

    previous = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    try:
        yield
    finally:
        with is_over_lock:  # so that the thread, which Ctrl-C may wake just now, does not end before it is woken
            is_over.set()
            signal.pthread_kill(cast("int", thread.ident), number)
        thread.join()
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


def _advice_to_resume(ctx: click.Context) -> str:
    return f" {ADVICE_TO_RESUME}" if ctx.invoked_subcommand in RESUMING else ""


class Commands(click.Group):
    """Commands that report errors in a sentence or two; --debug shows the traceback."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Accept --debug anywhere on the line."""
        return super().parse_args(ctx, sorted(args, key=lambda word: word != "--debug"))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; turn exceptions into messages and exit statuses."""
        try:
            with _end_on_signals(ctx):
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            click.echo(f"\nInterrupted.{_advice_to_resume(ctx)}", err=True)
            ctx.exit(INTERRUPTED)
        except Exception as error:
            if ctx.params["debug"]:
                raise
            raise click.ClickException(_message(error)) from error


def _message(error: Exception) -> str:
    """Return an error message with cause and remedy."""
    if isinstance(error, OSError) and error.errno is not None:  # an error of the system
        where = error.filename or "the result folder"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return f"no room left to write {where}; make some and run again, what is finished is kept."
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return f"{where} may not be written or read; give another folder, or change its permissions."
        return f"{where} cannot be written or read ({error.strerror or error}); give another file or folder."
    if isinstance(error, MemoryError):
        return (
            "not enough memory; take fewer jobs (--jobs 1), leave out columns, or say how much select may use "
            "(--memory 2GB), and run again: what is finished is kept."
        )
    if type(error).__name__ == "TerminatedWorkerError":  # joblib's class, which is slow to import
        return (
            "a process of --jobs was killed, which the system does when memory runs out; take fewer jobs (--jobs 1), "
            "and run again: what is finished is kept."
        )
    if isinstance(error, ValueError | ImportError | OSError):
        return make_printable(str(error))
    return f"{type(error).__name__}: {make_printable(str(error))}. This should not happen: --debug shows where it did."


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--debug", is_flag=True, help="Show where an error came from.")
@click.version_option(__version__, prog_name="randsel")
def main(debug: bool) -> None:
    """Select features that matter non-linearly, alone or together.

    \b
    Examples:
      randsel demo
      randsel select expression.csv --target status --out results
      randsel apply results new.csv --out predictions
      randsel interactions expression.csv --target status --out results
      randsel COMMAND --help
    """


def table_options(
    command: Any, without: tuple[str, ...] = (), differing: Mapping[str, dict[str, Any]] = MappingProxyType({})
) -> Any:
    """Add FILE and the options of reading; the command gets `file` and `reading`, the keyword arguments of `read`.

    Options in `without` are left out. `differing`: name of an option -> what differs in this command.
    """
    options = {name: {**how, **differing.get(name, {})} for name, how in READING.items() if name not in without}

    @functools.wraps(command)
    def with_reading(**arguments: Any) -> Any:
        reading = {name: arguments.pop(name) for name in options}
        reading.update({name: tuple(split_names(reading[name])) for name in COMMA_SEPARATED if name in options})
        return command(reading=reading, **arguments)

    for name, how in reversed(options.items()):
        with_reading = click.option(f"--{name.replace('_', '-')}", **how)(with_reading)
    return click.argument("file", type=click.Path(path_type=Path))(with_reading)


def read_table(file: Path, reading: dict[str, Any], task: str) -> "Table":
    """Read a table and print its notes, with one on how a target of few whole numbers is treated.

    A large file is announced first.
    """
    if file.is_file() and file.stat().st_size > LARGE_FILE:
        click.echo(f"Reading {make_printable(str(file))}, {file.stat().st_size / 1e6:.0f} MB.", err=True)
    from randsel.tables import read

    if task == "survival" and not reading.get("event"):
        raise click.ClickException("--task survival needs events and times (--event and --time).")
    table = read(file, **reading)
    say("Note", table.notes)
    # Imported after the first notes, because it takes seconds.
    from randsel.targets import describe_guess

    guess = describe_guess(table.y, task)
    if guess is None:
        return table
    say("Note", [guess])
    return replace(table, notes=(*table.notes, guess))


def write_command() -> str:
    """Return the command line of the current command, with the options that the user gave."""
    context = click.get_current_context()
    parameters = [p for p in context.command.params if context.get_parameter_source(str(p.name)) is GIVEN]
    words = ["randsel", str(context.command.name)]
    for parameter in sorted(parameters, key=lambda p: isinstance(p, click.Option)):
        value = context.params[str(parameter.name)]
        words += [parameter.opts[0]] if isinstance(parameter, click.Option) else []
        words += [] if value is True else [str(value)]
    return shlex.join(words)


def say(label: str, sentences: Iterable[str]) -> None:
    """Print sentences to standard error, each preceded by a label such as "Note"."""
    for sentence in sentences:
        click.echo(f"{label}: {make_printable(sentence)}", err=True)


class _ClusterLost(click.ClickException):
    exit_code = LOST


GIVEN = click.core.ParameterSource.COMMANDLINE
RATE = click.FloatRange(0, 1, min_open=True, max_open=True)  # type of a false discovery rate
task_option = click.option(
    "--task",
    default="auto",
    type=click.Choice(["auto", "classification", "regression", "survival"]),
    help="Kind of target. auto: text, and up to 4 distinct whole numbers, are classes; other numbers are regression.",
)


def job_options(tasks: str) -> Callable[[Any], Any]:
    """Add --jobs and --dask; the command gets `jobs`, which is None on a cluster."""

    def _add_options(command: Any) -> Any:
        @click.option("--jobs", default=1, type=int, help=f"Number of {tasks} to run at a time; -1: as many as cores.")
        @click.option("--dask", metavar="ADDRESS", help="Run them on a Dask cluster: the address of its scheduler.")
        @functools.wraps(command)
        def with_jobs(*args: Any, jobs: int, dask: str | None, **arguments: Any) -> Any:
            with _connect_workers(jobs, dask) as n_jobs:
                return command(*args, jobs=n_jobs, **arguments)

        return with_jobs

    return _add_options


@contextmanager
def _connect_workers(jobs: int, dask: str | None) -> Iterator[int | None]:
    """Check --jobs and --dask, and run the jobs of the block on the cluster if one is named."""
    if jobs == 0:
        raise click.UsageError("--jobs 0 leaves nobody to work; use 1 or more, or -1 for all cores.")
    if dask is None:
        yield jobs
        return
    if jobs != 1:
        raise click.UsageError(
            "--jobs is for this machine, and --dask uses all threads of the cluster; leave one of them out."
        )
    from randsel.distributed import ClusterLostError, on_cluster

    try:
        with on_cluster(dask) as client:
            say("Note", [f"jobs run on the cluster at {dask}, which has {sum(client.nthreads().values())} threads."])
            yield None
    except ClusterLostError as error:
        if click.get_current_context().find_root().params["debug"]:
            raise
        raise _ClusterLost(f"{make_printable(str(error))} {ADVICE_TO_RESUME}") from error
