"""Files of `randsel apply`: predictions, agreement with the outcome, shifts of features, and a report."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from randsel._utils.files import write_atomically
from randsel._utils.text import (
    DASH,
    as_csv,
    format_exact,
    format_fixed,
    format_label,
    format_number,
    make_visible,
    optional,
    pluralise,
    shorten,
)
from randsel.panels._application import Application
from randsel.panels._cohort import FeatureShift
from randsel.panels._evaluation import Evaluation, Measure
from randsel.panels._panel import Panel
from randsel.plots import class_colours, survival_panels
from randsel.report import draw_figure, render_page
from randsel.targets import KINDS

#: Maximum number of classes whose legend fits beside the lines of the calibration; tables of more have small type.
FEW_CLASSES = 4
PROBABILITY = "probability of "  # start of the names of columns
LISTED = 200  # number of samples that the report lists
#: Entries about a panel that the report shows, and their labels: they describe training, not the new samples.
PANEL_ENTRIES = {"version": "version at training", "data_hash": "hash of the training data"}


def summarise_application(application: Application) -> list[str]:
    """Return the main results as sentences; the last one counts the warnings, which a reader may overlook."""
    n_warnings = len(application.warnings)
    pronoun = pluralise(n_warnings, "it", "them")
    beware = (
        f"{n_warnings} {pluralise(n_warnings, 'warning', 'warnings')}: read {pronoun} before you use these results."
    )
    return [*_describe_predictions(application), *([beware] if n_warnings else [])]


def _describe_predictions(application: Application) -> list[str]:
    panel, evaluation = application.panel, application.evaluation
    sentences = [panel.describe()]
    samples = f"{len(application.ids)} new {pluralise(len(application.ids), 'sample', 'samples')}"
    if panel.classes is not None:
        numbers = np.bincount(application.outputs.argmax(axis=1), minlength=len(panel.classes))
        colon = "" if panel.classes.dtype.kind == "U" else ":"
        counts = ", ".join(f"{name}{colon} {n}" for name, n in zip(panel.class_names, numbers, strict=True))
        sentences += [f"Predicted for {samples}: {counts}.", panel.describe_decision()]
    else:
        low, middle, high = np.quantile(application.outputs[:, 0], (0.0, 0.5, 1.0))
        predicted = "risk scores (log relative risks)" if panel.is_survival else "values"
        distribution = f"{format_number(low)} to {format_number(high)}, median {format_number(middle)}"
        sentences.append(f"Predicted {predicted} of {samples}: {distribution}.")
    if evaluation is None:
        sentences.append("The outcome of the new samples is unknown, so the predictions were not evaluated.")
        return sentences
    summarised: tuple[str, ...] = ("accuracy", "balanced accuracy", "AUC", "R²", "correlation", "concordance index")
    if len(_class_labels(panel)) > FEW_CLASSES:  # the table lists the AUC of many classes
        summarised = tuple(name for name in summarised if name != "AUC")
    measures = [
        write_measure(measure)
        for measure in evaluation.measures
        if measure.name.startswith(summarised) and not np.isnan(measure.value)
    ]
    compared = f"{evaluation.n_samples} {pluralise(evaluation.n_samples, 'sample', 'samples')}"
    agreement = "; ".join(measures) or "too few to measure agreement"
    sentences.append(f"Compared with the outcome of {compared}: {agreement}.")
    if application.of_training:
        return [*sentences, "These are the samples of training, so this agreement is too good, and proves nothing."]
    return [*sentences, *_compare_with_guessing(panel, evaluation)]


def _compare_with_guessing(panel: Panel, evaluation: Evaluation) -> Iterator[str]:
    """Say whether predictions are better than guessing; nothing if that is not known, or if all are of one class."""
    name = KINDS[panel.kind].score_name
    score = next(measure for measure in evaluation.measures if measure.name == name)
    guessing = f"guessing, whose {name} is {format_fixed(evaluation.chance, 2)}"
    if evaluation.chance == 1.0 or np.isnan(score.low):
        return
    if score.low > evaluation.chance:
        yield f"The predictions are better than {guessing}."
    elif score.high < evaluation.chance:
        asked = "measured in the unit of training" if panel.kind == "regression" else "coded as in training"
        yield f"The predictions are worse than {guessing}: is the outcome {asked}?"
    else:
        yield f"The predictions may be no better than {guessing}, because the confidence interval includes this value."


def _class_labels(panel: Panel) -> list[str]:
    return [] if panel.classes is None else [format_label(label) for label in panel.classes.tolist()]


def write_measure(measure: Measure) -> str:
    """Write a measure with its confidence interval."""
    low, high = format_fixed(measure.low, 2), format_fixed(measure.high, 2)
    interval = "" if np.isnan(measure.low) else f" (95 % confidence interval {low} to {high})"
    return f"{measure.name} {format_fixed(measure.value, 2)}{interval}"


def write_application(application: Application, out: Path) -> list[str]:
    """Write all files; return messages about files that need an optional package that is not installed."""
    write_atomically(out / "predictions.csv", as_csv(list_predictions(application)))
    shifts = [
        {
            "feature": name,
            "stand_in": stand_in,
            **{
                field: format_exact(getattr(shift, field))
                for field in ("training_median", "new_median", "shift", "outside")
            },
            "missing": str(shift.n_missing),
        }
        for name, stand_in, shift in _compared_features(application)
    ]
    write_atomically(out / "features.csv", as_csv(shifts))
    evaluation = application.evaluation
    if evaluation is not None:
        measures = [
            {"measure": m.name, **{name: format_exact(getattr(m, name)) for name in ("value", "low", "high")}}
            for m in evaluation.measures
        ]
        write_atomically(out / "evaluation.csv", as_csv(measures))
        bins = [
            {
                "class": b.label,
                "samples": str(b.n_samples),
                "predicted": format_exact(b.predicted),
                "observed": format_exact(b.observed),
            }
            for b in evaluation.calibration
        ]
        if bins:
            write_atomically(out / "calibration.csv", as_csv(bins))
    try:
        page = render_page(Path(__file__).with_name("apply.html.j2"), contents(application))
    except ImportError as error:
        return [f"No report.html: {error}"]
    write_atomically(out / "report.html", page)
    return []


def _compared_features(application: Application) -> list[tuple[str, str, FeatureShift]]:
    """Return the name, the stand-in (empty if the feature was measured) and the shift of each feature of the panel."""
    stand_ins = application.samples.stand_ins
    return [
        (feature.name, stand_ins[j][0].name if j in stand_ins else "", shift)
        for j, (feature, shift) in enumerate(zip(application.panel.features, application.shifts, strict=True))
    ]


def list_predictions(application: Application) -> list[dict[str, str]]:
    """Return a row per sample: prediction, probabilities or risk group, outcome if known, number of missing values."""
    panel, outputs = application.panel, application.outputs
    rows = []
    probabilities = panel.probabilities(outputs) if panel.classes is not None else None
    labels = _class_labels(panel)
    n_missing = np.isnan(application.samples.values).sum(axis=1)
    for i, name in enumerate(application.ids):
        row = {"sample": name}
        if probabilities is not None:
            row["predicted"] = labels[int(outputs[i].argmax())]
            row |= {f"{PROBABILITY}{label}": format_exact(p) for label, p in zip(labels, probabilities[i], strict=True)}
        elif panel.is_survival:
            row["risk"] = format_exact(outputs[i, 0])
            row["risk group"] = "high" if outputs[i, 0] > panel.about.get("median_risk", 0.0) else "low"
        else:
            row["predicted"] = format_exact(outputs[i, 0])
        row |= _write_outcome(application, i)
        row["missing features"] = str(n_missing[i])
        rows.append(row)
    return rows


def _write_outcome(application: Application, i: int) -> dict[str, str]:
    if not application.known.any():
        return {}
    y, known = application.y[i], bool(application.known[i])
    if application.panel.is_survival:
        return {
            "time": format_exact(float(y["time"])) if known else "",
            "event": str(int(y["event"])) if known else "",
        }
    return {"observed": format_label(y.item()) if known else ""}


# ---------------------------------------------------------------- report


def contents(application: Application) -> dict[str, Any]:
    """Return the contents of the report as a dictionary."""
    evaluation, panel = application.evaluation, application.panel
    predictions = list_predictions(application)
    labels = _class_labels(panel)
    names = {"sample", "predicted", "observed"} if labels else {"sample"}  # columns of text
    return {
        "title": f"Panel applied to {application.about['data']}",
        "sentences": summarise_application(application),
        "warnings": application.warnings,
        "notes": application.notes,
        "measures": [] if evaluation is None else [_measure_row(measure) for measure in evaluation.measures],
        "figure": _draw(application),
        "calibration": [] if evaluation is None else evaluation.calibration,
        "confusion": None
        if evaluation is None or evaluation.confusion is None
        else {"labels": labels, "rows": evaluation.confusion.tolist()},
        "shifts": _compared_features(application),
        "labels": labels,
        "probability": PROBABILITY,
        "few_classes": FEW_CLASSES,
        "predictions": [
            {column: value if column in names else _shorten(value) for column, value in row.items()}
            for row in predictions[:LISTED]
        ],
        "total": len(predictions),
        "kind": panel.kind,
        "about": {
            **application.about,
            **{label: str(panel.about[key]) for key, label in PANEL_ENTRIES.items() if key in panel.about},
        },
    }


def _measure_row(measure: Measure) -> dict[str, str]:
    interval = f"{format_fixed(measure.low, 2)} to {format_fixed(measure.high, 2)}"
    known = not np.isnan(measure.low)
    return {"name": measure.name, "value": format_fixed(measure.value, 3), "interval": interval if known else DASH}


def _shorten(value: str) -> str:
    try:
        return format_number(float(value)) if "." in value or "e" in value.lower() else value
    except ValueError:
        return value


def _draw(application: Application) -> str | None:
    """Draw the calibration, or Kaplan-Meier curves of low and high risk; return None if no outcome is known."""
    evaluation = application.evaluation
    if evaluation is None:
        return None
    if application.panel.is_survival:
        y, risks = application.y[application.known], application.outputs[application.known, 0]
        high = risks > application.panel.about.get("median_risk", 0.0)
        if len(np.unique(high)) < 2:
            return None
        about = "survival of new samples of low and of high predicted risk"
        time = make_visible(application.time_name)
        return draw_figure(survival_panels, y, {"": high}, time=time, size=(4.2, 2.9), about=about)
    return draw_figure(
        _draw_calibration, application, about="observed against predicted, with samples binned by prediction"
    )


def _draw_calibration(application: Application) -> Any:
    """Draw the mean outcome of every bin of the calibration table against the mean prediction."""
    assert application.evaluation is not None
    labels = list(dict.fromkeys(b.label for b in application.evaluation.calibration))
    height = 3.2 if len(labels) <= FEW_CLASSES else 3.2 + 0.22 * len(labels) / 2
    figure = optional("matplotlib.figure", extra="report", purpose="Drawing").Figure(
        (4.2, height), layout="constrained"
    )
    axes = figure.subplots()
    axes.locator_params(nbins=6)
    axes.spines[["top", "right"]].set_visible(False)
    bins = application.evaluation.calibration
    classes = _class_labels(application.panel) or labels
    for label in labels:
        points = np.array([(b.predicted, b.observed) for b in bins if b.label == label])
        colour = str(class_colours(classes.index(label)))  # as in the report of randsel select
        axes.plot(*points.T, color=colour, marker="o", label=shorten(label, 28) or None)
    limits = [0.0, 1.0]
    if application.panel.classes is None:
        values = [value for b in bins for value in (b.predicted, b.observed)]
        limits = [min(values), max(values)]
    axes.plot(limits, limits, color="0.6", linewidth=0.8, zorder=0)
    if application.panel.classes is None:
        name = make_visible(str(application.panel.about.get("outcome", {}).get("target", "value")))
        axes.set_xlabel(f"predicted {name}", parse_math=False)
        axes.set_ylabel(f"observed {name}", parse_math=False)
    else:
        axes.set(xlabel="predicted probability", ylabel="observed frequency")
    if len(labels) > FEW_CLASSES:
        figure.legend(frameon=False, loc="outside lower center", ncols=2, fontsize="small")
    elif application.panel.classes is not None:
        axes.legend(frameon=False)
    return figure
