"""`apply_panel`, which predicts new samples, compares them with training, and evaluates known outcomes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from randsel._utils.text import pluralise
from randsel._utils.typing import Array
from randsel.analysis import check_codes
from randsel.panels._cohort import (
    FeatureShift,
    are_training_samples,
    check_categories,
    compare_features,
    transform_values,
    warn_of_absent,
    warn_of_shifts,
)
from randsel.panels._evaluation import Evaluation, evaluate, known_outcome
from randsel.panels._intervals import LEAST_UNITS
from randsel.panels._panel import NewSamples, Panel
from randsel.tables import Table


@dataclass(frozen=True)
class Application:
    """A panel applied to new samples.

    Attributes
    ----------
    panel, samples, outputs
        The panel, the prepared samples, and the outputs of its model for them.
    ids
        Names of the samples.
    y, known
        Outcome, and a mask of the samples whose outcome is known.
    shifts, evaluation
        Comparison of features with training, and of predictions with the outcome (None if that is not known).
    notes, warnings
        Sentences for the user.
    about
        Name of the file, and the command.
    time_name
        Name of the column of survival times.
    of_training
        Whether the new samples are those of training, so that their outcome says nothing about the panel.
    """

    panel: Panel
    samples: NewSamples
    outputs: Array
    ids: tuple[str, ...]
    y: Array
    known: Array
    shifts: tuple[FeatureShift, ...]
    evaluation: Evaluation | None
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    about: Mapping[str, str]
    time_name: str = "time"
    of_training: bool = False


def apply_panel(
    panel: Panel,
    table: Table,
    *,
    transform: str = "as-training",
    allow_missing: bool = False,
    rescale: bool = False,
    about: Mapping[str, str] | None = None,
    time_name: str | None = None,
) -> Application:
    """Predict the samples of a table, whose outcome may be unknown.

    Parameters
    ----------
    panel, table
        The panel, and the new samples, read with the levels and detection values of the panel.
    transform
        Choice of `--transform`; the reader has already taken log2, if it is to be taken.
    allow_missing, rescale
        As in `Panel.predict`.
    about
        Name of the file, and the command.
    time_name
        Name of the column of survival times; None: that of training.

    Returns
    -------
    Application
        Predictions, comparisons, notes and warnings.
    """
    check_categories(panel, table)
    values = transform_values(table.X, transform)
    columns = {name: values[:, j] for j, name in enumerate(table.names)} | table.covariates
    samples = panel.prepare(columns, allow_missing=allow_missing, rescale=rescale, names_options=True)
    outputs = panel.model.outputs(samples.scores)
    known = known_outcome(panel, table.y)
    log2_taken = transform == "as-training" and table.log2
    ids = tuple(map(str, (np.arange(1, len(values) + 1) if table.ids is None else table.ids).tolist()))
    options: dict[str, Any] = {"log2_taken": log2_taken, "negative": table.negative, "ids": ids}
    compared = samples.compared(panel)
    warnings = [*warn_of_shifts(*compared, rescaled=rescale, **options)]
    warnings += [*samples.notes, *warn_of_absent(samples.values)]
    warnings += check_codes(table)
    warnings += _warn_of_training(panel, rescale)
    groups = None if table.groups is None else table.groups[known]
    return Application(
        panel=panel,
        samples=samples,
        outputs=outputs,
        ids=ids,
        y=table.y,
        known=known,
        shifts=compare_features(*compared),
        evaluation=evaluate(panel, outputs[known], table.y[known], groups) if known.any() else None,
        notes=(*table.notes, *_describe_samples(panel, table, samples), *_describe_groups(groups)),
        warnings=tuple(warnings),
        about=dict(about or {"data": "new samples"}),
        time_name=time_name or panel.about.get("outcome", {}).get("time", "time"),
        of_training=are_training_samples(*compared),
    )


def _warn_of_training(panel: Panel, rescale: bool) -> Iterator[str]:
    """Yield warnings about panels whose training was doubtful, and about batches."""
    if not panel.about.get("findings", True):
        yield (
            "In training, nothing stood out from chance: the features of this panel were requested, and are not a "
            "finding. Compare predictions with known outcomes of new samples before you rely on them."
        )
    if panel.about.get("guesses", False):
        is_flat = panel.calibration is not None and panel.calibration.slope == 0.0
        yield (
            "In training, held-out samples were not predicted better than chance"
            f"{', so all samples have the same probabilities' if is_flat else ''}. These predictions may be guesses."
        )
    if panel.about.get("batch") and not rescale:
        yield (
            "The panel was fitted within batches, and the new samples form another batch, whose effect is unknown; "
            "--rescale removes shifts of features, if the samples resemble those of training."
        )


def _describe_groups(groups: Array | None) -> Iterator[str]:
    """Yield what confidence intervals do about groups of the samples with an outcome, if these share groups."""
    n_samples, n_groups = (0, 0) if groups is None else (len(groups), len(np.unique(groups)))
    if n_groups == n_samples:
        return
    effect = "too few for confidence intervals" if n_groups < LEAST_UNITS else "and confidence intervals allow for that"
    counted = f"{n_groups} {pluralise(n_groups, 'group', 'groups')}"
    yield f"The {n_samples} samples with an outcome belong to {counted} (--groups), {effect}."


def _describe_samples(panel: Panel, table: Table, samples: NewSamples) -> Iterator[str]:
    is_missing = np.isnan(samples.values)
    if (is_missing & ~is_missing.all(axis=0)).any():
        treated = "the training medians" if panel.about.get("missing") == "median" else "average"
        yield f"Missing values of features of the panel are treated as {treated}."
    if table.ids is None:
        yield "No column of sample ids was recognised: samples are numbered by row. Name it with --id-column."
