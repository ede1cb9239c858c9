"""Tables and page of outcomes.py, from the tallies of its blocks."""

from collections.abc import Callable
from typing import NamedTuple

from cells import OURS
from estimates import (
    MISSED,
    UNCERTAIN,
    Results,
    as_markdown,
    goal_mark,
    goals_section,
    left_out,
    measure_rows,
    n_sets,
    sections_of,
    short_name,
    test_summary,
    with_error,
    without_marks,
)
from outcomes_covariates import AUTO_GIVEN, FIVE_GIVEN

ERROR, RECALL, DROP = 0.07, 0.9, 0.02


def error_mark(measure, test, value):
    """Mark a family-wise error of this package that is too large."""
    return goal_mark(value, ERROR) if test == OURS and measure.startswith("any ") else ""


def recall_mark(measure, test, value):
    """Mark a recall of an adjusted selection that is too small."""
    adjusted = measure == "recall" and test in (FIVE_GIVEN, AUTO_GIVEN)
    return goal_mark(value, RECALL, at_least=True) if adjusted else ""


def drop_mark(measure, test, value):
    """Mark a loss of recall that is too large."""
    return goal_mark(value, DROP) if measure == "drop" and test == "10 %" else ""


def test_rows(cells, results, mark):
    """Return a row per cell, with one column per test of the first measure and one per further measure."""
    rows = []
    for cell in cells:
        row = {"situation": short_name(cell), "data sets": n_sets(results, cell)}
        keys = [(measure, test) for name, measure, test in results.by_key if name == cell.name]
        for measure, test in keys:
            value = results.get(cell.name, measure, test)
            title = test if measure == keys[0][0] else measure
            row[title] = with_error(value, 3 if measure == keys[0][0] else 1) + mark(measure, test, value)
        rows.append(row)
    return rows


class Section(NamedTuple):
    """A table of the page."""

    title: str
    text: str
    rows: Callable
    mark: Callable


#: First two parts of the names of cells -> section.
SECTIONS = {
    "covariates/recall": Section(
        "Covariates: recall given age",
        "y and 200 of 1000 features depend on age. Five other features act on y, each with the effect named, in "
        "standard deviations of the noise. 150 samples. *Adjusted*: `fit(X, y, covariates=age)`. *partial correlation* "
        "ranks features by their correlation with y given age. Of a random selection, .2 would follow age.",
        measure_rows,
        recall_mark,
    ),
    "covariates/batches": Section(
        "Batches: recall",
        "The same with three batches, which shift y and 200 of 1000 features. *Adjusted*: `fit(X, y, batch=batch)`.",
        measure_rows,
        recall_mark,
    ),
    "covariates/error": Section(
        "Covariates: family-wise error given age",
        "Fraction of data sets in which any of 1000 features is called, where none has an effect given age. y and 200 "
        "features depend on age in a curve: z, z² - 1, exp(z) / 2, tanh(2z), a step at z = 0.5, log(z + 1.75), and one "
        "and a half periods of a sine, with the standardised age z. The functions of a covariate that are projected "
        "out were chosen on the first three of these curves. *randsel* is given age; *least squares* tests each "
        "feature in a linear model with age.",
        test_rows,
        error_mark,
    ),
    "covariates/products": Section(
        "Features together with covariates: errors and power",
        "`InteractionScan(order=1, with_covariates=True)`: the product of age and one feature acts on y, with 0.6 "
        "standard deviations of the noise, or none does. *Beside main effects*: five features have effects of 0.5. "
        "*least squares* tests the product given age and the feature.",
        measure_rows,
        error_mark,
    ),
    "survival/independent": Section(
        "Survival: family-wise error, independent censoring",
        "1000 features, none with an effect. *Cox score* is the score test of a Cox model of each feature alone.",
        test_rows,
        error_mark,
    ),
    "survival/dependent": Section(
        "Survival: family-wise error, censoring depends on a covariate",
        "A covariate acts on hazard, censoring and 200 of 1000 features; no feature has an effect given it. *randsel* "
        "is given the covariate, and so is *Cox score, adjusted*. The fraction of censored samples is that without the "
        "covariate. *higher risk earlier*: samples of higher risk are censored earlier.",
        test_rows,
        error_mark,
    ),
    "survival/power": Section(
        "Survival: power",
        "Five of 1000 features act on the log hazard, each with 0.8 (100 samples) or 0.6 (200 samples) per standard "
        "deviation. *called*: fraction of the five that are called. *recall of 5*: fraction of the five among the "
        "first five of the ranking.",
        measure_rows,
        error_mark,
    ),
    "missing/recall": Section(
        "Missing values: recall",
        "Problems of the recovery table; *test* is the fraction of the values that were deleted at random. *drop*: "
        "recall without missing values less that with them, on the same data sets. *drawn*: each missing value is "
        "replaced by a random value of its column instead of a neutral one. *fewer samples*: complete tables of 243 "
        "samples, as many as have both values of a pair if 10 % are deleted, and of 219, which is .9³ of 300.",
        measure_rows,
        drop_mark,
    ),
    "missing/error": Section(
        "Missing values: family-wise error",
        "`InteractionScan()` on 100 features without effect: fraction of data sets in which any feature, or any pair, "
        "is called.",
        measure_rows,
        error_mark,
    ),
    "fixed/marker": Section(
        "Features that are always kept: what ranks first beside a known marker",
        "y is the marker, plus the effect times a complementary feature, plus noise. The other columns of 200 are five "
        "copies of the marker (correlation .95) and noise. 150 samples.",
        measure_rows,
        lambda *_: "",
    ),
    "real/concordance": Section(
        "Real survival data: concordance of held-out samples",
        "Five folds, three repetitions; *data sets* are the 15 splits, which share samples, so that the standard error "
        "is too small. Features are selected within the training samples. A Cox model with a ridge penalty is "
        "fitted to every selection, and to all features. The penalties of ridge and lasso are chosen by inner "
        "cross-validation. Both models are those of scikit-survival. Chance is .5. The one time of zero of surv_aml "
        "counts as half a day.",
        measure_rows,
        lambda *_: "",
    ),
}


def write_tables(cells, blocks):
    """Return the tables of all sections as Markdown, and the cells that failed or are missing."""
    cells, results = list(cells), Results(blocks)
    tables = all_tables(cells, results)
    lines = [text for title, rows in tables.items() for text in (f"## {title}", as_markdown(rows))]
    return "\n\n".join([*lines, *left_out(cells, results)])


def all_tables(cells, results):
    """Return the rows of every section by its title."""
    present = sections_of(cells, results)
    return {
        section.title: section.rows(present[name], results, section.mark)
        for name, section in SECTIONS.items()
        if name in present
    }


def write_page(cells, blocks):
    """Return the body of the page as Markdown, and the tables of its CSV file."""
    cells, results = list(cells), Results(blocks)
    tables = all_tables(cells, results)
    return "\n\n".join([summarise(tables), *left_out(cells, results)]), without_marks(tables)


def summarise(tables):
    """Return the opening, the figures that miss a goal, and a short table for every section."""
    opening = OPENING.format(missed=MISSED, uncertain=UNCERTAIN, error=ERROR, recall=RECALL, drop=DROP)
    texts = {section.title: section.text for section in SECTIONS.values()}
    lines = [opening, *goals_section(tables)]
    for title, rows in tables.items():
        lines += [f"## {title}", texts[title], as_markdown(test_summary(rows))]
    return "\n\n".join(lines)


OPENING = """\
Every row is in [outcomes.csv](outcomes.csv); here, a cell is the mean over the situations of a section (lowest to
highest). Every figure is a mean over simulated data sets, in the file ± its standard error over them; *data sets* is
their number. A feature or pair is *called* if its p-value, corrected for the number of tests (Bonferroni), is at most
.05. Features are tested by `InteractionScan`.

**Goals.** Recall given a covariate or batch at least {recall:g}; family-wise error at most {error:g}; recall lost to
10 % missing values at most {drop:g}. {missed} marks a goal missed by more than two standard errors, {uncertain} one
missed by less. Other figures have no goal."""
