"""`randsel apply`: predicts new samples with the panel that `randsel select` saved."""

# ruff: noqa: PLC0415 (slow imports are inside the commands, so that help and usage errors appear at once)
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from randsel._utils.choices import TRANSFORMS
from randsel.cli._main import main, say, table_options

if TYPE_CHECKING:
    from randsel.panels import Application, Panel
    from randsel.tables import Table

#: Options of reading that the panel decides, or that have no meaning for new samples.
_DECIDED = ("groups", "batch", "covariates", "features", "log2", "missing")
_OUTCOME = ("target", "target_file", "event", "time")


@main.command()
@click.argument("results", type=click.Path(path_type=Path))
@partial(table_options, without=_DECIDED)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Result folder.")
@click.option("--allow-missing", is_flag=True, help="Replace absent features by stand-ins, or by their average.")
@click.option("--rescale", is_flag=True, help="Scale features by ranks within FILE, for data of another platform.")
@click.option(
    "--transform",
    default="as-training",
    type=click.Choice(["as-training", "none", *TRANSFORMS]),
    help="Transform of new values; as-training takes log2 if select did.",
)
def apply(results: Path, file: Path, reading: dict[str, Any], out: Path, **how: Any) -> None:
    """Predict new samples with the panel that randsel select saved.

    RESULTS is the result folder of randsel select, or its panel.json. FILE holds the new samples, in any format of
    docs/files.md; it needs only the features of the panel, in any order. The folder --out gets predictions.csv (classes
    with probabilities, numbers, or risks), features.csv (comparison of the new values with those of training) and
    report.html. If FILE has the outcome, evaluation.csv and calibration.csv compare the predictions with it. The
    outcome must have the same column name as in training, unless --target, or --event and --time, name another.

    \b
    Exit status:
      0    the samples are predicted; read the warnings, if there are any
      1    the panel, the table or the folder: see the message
      2    the options: see the message

    \b
    Examples:
      randsel apply results new.csv --out predictions
      randsel apply results cohort2.tsv.gz --target-file cohort2-samples.csv --allow-missing --out predictions
      randsel apply results microarray.csv --rescale --out predictions
    """
    from randsel._utils.files import IDENTITY, check_folder
    from randsel.panels import FILE, Panel

    if (out / IDENTITY).exists() or (out / FILE).exists():
        raise click.ClickException(
            f"{out} holds a run of randsel, whose files would be lost; give another folder (--out)."
        )
    check_folder(out)
    panel = Panel.load(results)
    named = any(reading[name] for name in _OUTCOME)
    table = _read_new_samples(panel, file, reading, how["transform"], named)
    command = shlex.join(["randsel", "apply", str(results), str(file), "--out", str(out), *_write_options(how)])
    about = {"data": file.name, "command": command}
    application = _apply(panel, table, {**how, "below_detection": reading["below_detection"]}, about)
    if named and not application.known.any():
        raise click.ClickException(
            f"{file} has no column of that name, or the outcome of all samples is unknown; see the notes above."
        )
    from randsel.panels import summarise_application, write_application

    out.mkdir(parents=True, exist_ok=True)
    missing = write_application(application, out)
    say("Note", [note for note in application.notes if note not in table.notes])
    say("Warning", application.warnings)
    for sentence in summarise_application(application):
        click.echo(sentence)
    say("Note", missing)
    click.echo(f"\nAll of it: {out}")


def _write_options(how: dict[str, Any]) -> list[str]:
    flags = [f"--{name.replace('_', '-')}" for name in ("allow_missing", "rescale") if how[name]]
    return flags if how["transform"] == "as-training" else [*flags, "--transform", how["transform"]]


def _read_new_samples(panel: "Panel", file: Path, reading: dict[str, Any], transform: str, named: bool) -> "Table":
    """Read the columns of the panel; the outcome is that of training, unless another one is named."""
    from randsel.tables import read

    outcome = {} if named else panel.about.get("outcome", {})
    covariates = tuple(covariate.name for covariate in panel.preparation.covariates)
    reading["categorical"] = tuple(dict.fromkeys([*reading["categorical"], *panel.about["categorical"]]))
    log2 = transform == "log2" or (transform == "as-training" and bool(panel.about.get("log2")))
    table = read(file, **{**reading, **outcome}, only=panel.columns(), covariates=covariates, log2=log2)
    say("Note", table.notes)
    return table


def _apply(panel: "Panel", table: "Table", how: dict[str, Any], about: dict[str, str]) -> "Application":
    import numpy as np

    from randsel.panels import (
        Application,
        check_categories,
        compare_features,
        evaluate,
        known_outcome,
        transform_values,
        warn_of_shifts,
    )

    values = transform_values(table.X, how["transform"])
    columns = {name: values[:, j] for j, name in enumerate(table.names)} | table.covariates
    samples = panel.prepare(columns, allow_missing=how["allow_missing"], rescale=how["rescale"])
    check_categories(panel, samples.values)
    outputs = panel.model.outputs(samples.scores)
    known = known_outcome(panel, table.y)
    evaluation = evaluate(panel, outputs[known], table.y[known]) if known.any() else None
    log2_taken = how["transform"] == "as-training" and table.log2
    warnings = list(warn_of_shifts(panel, samples.values, rescaled=how["rescale"], log2_taken=log2_taken))
    if panel.about.get("batch") and not how["rescale"]:
        warnings.append(
            "The panel was fitted within batches, and the new samples form another batch, whose effect is unknown; "
            "--rescale removes shifts of features, if the samples resemble those of training."
        )
    if how["below_detection"]:
        warnings.append(
            "Values below detection were replaced by half the smallest value of the new file, not of the training "
            "file. Where the two differ, predictions are wrong; with --na instead, such values count as missing."
        )
    notes = [*table.notes, *samples.notes]
    if table.ids is None:
        notes.append("No column of sample ids was recognised: samples are numbered by row. Name it with --id-column.")
    ids = np.arange(1, len(values) + 1) if table.ids is None else table.ids
    return Application(
        panel=panel,
        samples=samples,
        outputs=outputs,
        ids=tuple(map(str, ids.tolist())),
        y=table.y,
        known=known,
        shifts=compare_features(panel, samples.values),
        evaluation=evaluation,
        notes=tuple(notes),
        warnings=tuple(warnings),
        about=about,
    )
