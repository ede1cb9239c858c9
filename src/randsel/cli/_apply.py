"""`randsel apply`: predicts new samples with the panel that `randsel select` saved."""

# ruff: noqa: PLC0415 (slow imports are inside the commands, so that help and usage errors appear at once)
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from randsel._utils.choices import TRANSFORMS
from randsel.cli._main import GIVEN, main, say, table_options, write_command

if TYPE_CHECKING:
    from randsel.panels import Panel
    from randsel.tables import Table

#: Options of reading that the panel decides, or that have no meaning for new samples.
_DECIDED = ("batch", "covariates", "features", "log2", "missing")
_OUTCOME = ("target", "event", "time")
#: Options that training decides unless they are given.
_AS_IN_TRAINING: dict[str, dict[str, Any]] = {
    "target": {"help": "Column of the outcome, if its name differs from that in training."},
    "below_detection": {
        "help": "Replace cells such as <LOD and <0.5 by the values that training used, or by missing values; by "
        "default as in training.",
    },
    "duplicates": {
        "show_default": False,
        "help": "Features of the same name: refuse them, number them, or use their mean or the first; by default as in "
        "training.",
    },
}


@main.command()
@click.argument("results", type=click.Path(path_type=Path))
@partial(table_options, without=_DECIDED, differing=_AS_IN_TRAINING)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Result folder.")
@click.option(
    "--allow-missing",
    is_flag=True,
    help="If FILE lacks features, replace them by correlated ones (stand-ins), or by their average.",
)
@click.option(
    "--rescale",
    is_flag=True,
    help="Rank values within FILE instead of by those of training, for data of another platform.",
)
@click.option(
    "--transform",
    default="as-training",
    type=click.Choice(["as-training", "none", *TRANSFORMS]),
    help="How to transform the values of FILE; as-training takes log2 if select did.",
)
def apply(results: Path, file: Path, reading: dict[str, Any], out: Path, **how: Any) -> None:
    """Predict new samples with the panel that randsel select saved.

    RESULTS is the result folder of randsel select, or its panel.json. FILE holds the new samples, in any format of
    docs/reference/formats.md; it needs only the features of the panel, in any order. The folder --out gets
    predictions.csv (classes with probabilities, numbers, or risks), features.csv (comparison of the new values with
    those of training) and report.html. If FILE has the outcome, evaluation.csv and calibration.csv compare the
    predictions with it. The outcome must have the same column name as in training, unless --target, or --event and
    --time, name another. The same holds for groups (--groups). Repeated names (--duplicates) and cells below
    detection (--below-detection) are handled as in training. Cells that training read as missing are missing here as
    well; --na adds others, and --na "" leaves only the usual ones.

    \b
    Exit status:
      0    the samples are predicted; read the warnings, if there are any
      1    an error in the panel, the table or the folder: see the message
      2    an error in the options: see the message

    \b
    Examples:
      randsel apply results new.csv --out predictions
      randsel apply results cohort2.tsv.gz --target-file cohort2-samples.csv --allow-missing --out predictions
      randsel apply results microarray.csv --rescale --out predictions
    """
    from randsel._utils.files import IDENTITY, check_folder
    from randsel.panels import FILE, Panel, apply_panel, summarise_application, write_application

    if (out / IDENTITY).exists() or (out / FILE).exists():
        raise click.ClickException(
            f"{out} holds a run of randsel, whose files would be lost; give another folder (--out)."
        )
    check_folder(out)
    panel = Panel.load(results)
    named = any(reading[name] for name in _OUTCOME)
    table = _read_new_samples(panel, file, reading, how, named)
    about = {"data": file.name, "command": write_command()}
    application = apply_panel(panel, table, **how, about=about, time_name=reading["time"])
    if named and not application.known.any():
        raise click.ClickException(
            f"{file} has no column of that name, or the outcome of all samples is unknown; see the notes above."
        )
    out.mkdir(parents=True, exist_ok=True)
    missing = write_application(application, out)
    say("Note", [note for note in application.notes if note not in table.notes])
    say("Warning", application.warnings)
    for sentence in summarise_application(application):
        click.echo(sentence)
    say("Note", missing)
    click.echo(f"\nAll results: {out}")


def _read_new_samples(panel: "Panel", file: Path, reading: dict[str, Any], how: dict[str, Any], named: bool) -> "Table":
    """Read the columns of the panel; the outcome is that of training, unless another one is named."""
    from randsel.tables import read

    transform = how["transform"]
    outcome = {} if named else panel.about.get("outcome", {})
    covariates = tuple(covariate.name for covariate in panel.preparation.covariates)
    reading["categorical"] = tuple(dict.fromkeys([*reading["categorical"], *panel.levels()]))
    log2 = transform == "log2" or (transform == "as-training" and bool(panel.about.get("log2")))
    is_other_scale = log2 != bool(panel.about.get("log2")) or transform not in ("as-training", "none", "log2")
    reading["below_detection"], remark = _inherit_detection_rule(panel, file, reading["below_detection"])
    named_columns = {*(reading[name] for name in (*_OUTCOME, "id_column")), *reading["drop_columns"]}
    if reading["groups"] is None and panel.about["groups"] not in named_columns:
        reading["groups"] = panel.about["groups"]
    if click.get_current_context().get_parameter_source("duplicates") is not GIVEN:
        reading["duplicates"] = panel.about["duplicates"]
    reading["na"] = _inherit_na(panel, file, reading["na"], is_other_scale)
    from_training = {"detection_values": panel.detection_values(transform), "levels": panel.levels()}
    likely_ids = None if panel.about["id_column"] in (*named_columns, reading["groups"]) else panel.about["id_column"]
    only = panel.columns(with_stand_ins=how["allow_missing"])
    table = read(
        file,
        **{**reading, **outcome, **from_training, "likely_ids": likely_ids},
        only=only,
        covariates=covariates,
        log2=log2,
    )
    if any("below the limit of detection" in note for note in table.notes):
        table = replace(table, notes=(*table.notes, *remark))
    say("Note", table.notes)
    if table.groups is None and reading["groups"] not in (None, panel.about["groups"]):
        raise click.ClickException(f"{file} has no column {reading['groups']!r} of groups; correct --groups.")
    return table


def _inherit_detection_rule(panel: "Panel", file: Path, rule: str | None) -> tuple[str | None, list[str]]:
    """Return the rule for cells below detection, that of training unless the user names one, and a note if they differ.

    A file that holds only numbers has no such cells, except in covariates.
    """
    from randsel.tables import has_cells

    of_training = panel.about["below_detection"]
    if rule is None:
        return (of_training if has_cells(file) or panel.preparation.covariates else None), []
    if rule == "half-minimum" and of_training == "missing":
        raise click.UsageError(
            "In training, cells below detection were read as missing (--below-detection missing), so the panel has no "
            "value for them; leave --below-detection out."
        )
    if rule == "missing" and of_training == "half-minimum":
        remark = (
            "Cells below detection count as missing here, but in training they were low values (--below-detection "
            "half-minimum); leave --below-detection out to use the values of training."
        )
        return rule, [remark]
    return rule, []


def _inherit_na(panel: "Panel", file: Path, named: tuple[str, ...], is_other_scale: bool) -> tuple[str, ...]:
    """Return the cells that mean missing: those of training and those that the user named.

    On another scale, numbers that meant missing in training, such as 0, may be values. A format that holds only
    numbers has no such cells.
    """
    from randsel.tables import has_cells, parse_number

    is_cleared = not named and click.get_current_context().get_parameter_source("na") is GIVEN
    if is_cleared or not has_cells(file):
        return named
    from_training = [cell for cell in panel.about["na"] if not (is_other_scale and parse_number(cell) is not None)]
    return tuple(dict.fromkeys([*named, *from_training]))
