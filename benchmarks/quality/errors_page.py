"""Tables and page of errors.py, from the tallies of its blocks."""

from cells import LEVELS, OURS, level_name
from errors_tests import (
    FEW_SAMPLES,
    GOAL_TESTS,
    MAX_CHOICES,
    N_PERMUTATIONS,
    N_PERMUTATIONS_OF_MANY,
    PERMUTED,
    size_name,
)
from estimates import (
    DASH,
    MISSED,
    UNCERTAIN,
    Results,
    as_markdown,
    estimate,
    goal_mark,
    goals_section,
    left_out,
    measure_rows,
    n_sets,
    sections_of,
    short_name,
    summary_rows,
    test_summary,
    with_error,
    without_marks,
)

#: Largest size at each level, and smallest power relative to the better yardstick.
SIZE_GOALS = {0.05: 0.07, 0.001: 0.002}
RELATIVE_POWER, POWER_RANGE, PRODUCT_POWER = 0.9, (0.5, 0.95), 0.8


# ---------------------------------------------------------------- tables


def size_rows(cells, results):
    rows = []
    for cell in cells:
        row = {"situation": short_name(cell), "data sets": n_sets(results, cell)}
        for level in LEVELS:
            value = results.get(cell.name, level_name(level))
            if value is not None:
                digits = 4 if level < 0.01 else 3
                row[level_name(level)] = with_error(value, digits) + goal_mark(value, SIZE_GOALS[level])
        rows.append(row)
    return rows


def valid_tests(results, cell, level):
    """Return the yardsticks that hold their size at a level, and the permutation tests that replace the others."""
    tests = []
    for test in results.tests([cell], {level_name(level)}):
        size = results.get(cell.name, size_name(level), test)
        if test in GOAL_TESTS:
            too_large = size is not None and size.value - 2.0 * size.error > level
            tests.append(PERMUTED.get(test) if too_large else test)
    return [test for test in tests if results.get(cell.name, level_name(level), test) is not None]


def ratio_to_better(results, cell, level):
    """Return the better valid test, its power, and ours divided by it; None if no test has any power."""
    measure = level_name(level)
    powers = {test: results.get(cell.name, measure, test).value for test in valid_tests(results, cell, level)}
    better = max(powers, key=powers.get, default=None)
    if better is None or not powers[better]:
        return None
    totals = results.totals[cell.name, measure, better], results.totals[cell.name, measure, OURS]
    return better, powers[better], estimate(*totals)


def ratio_mark(power, ratio):
    """Return a mark if the ratio is below the goal: uncertain within two standard errors."""
    in_range = POWER_RANGE[0] <= power <= POWER_RANGE[1]
    return goal_mark(ratio, RELATIVE_POWER, at_least=True) if in_range else ""


def power_rows(cells, results, levels):
    """Return a row per cell and level: our power, that of the yardsticks, and the ratio to the better one."""
    rows = []
    for level in levels:
        measure = level_name(level)
        for cell in cells:
            ours = results.get(cell.name, measure)
            if ours is None:
                continue
            row = {"level": f"{level:g}".lstrip("0"), "situation": short_name(cell), "data sets": str(ours.n_sets)}
            effect = results.get(cell.name, f"effect at {level:g}")
            if effect is not None:
                row["effect"] = f"{effect.value:.3g}"
            for test in results.tests(cells, {measure}):
                row[test] = with_error(results.get(cell.name, measure, test))
            for test in results.tests([cell], {size_name(level)}):
                row[f"size of {test}"] = with_error(results.get(cell.name, size_name(level), test), 5)
            better = ratio_to_better(results, cell, level)
            if better is not None:
                test, power, ratio = better
                row["better valid test"] = test
                row["ratio"] = with_error(ratio, 2) + ratio_mark(power, ratio)
            rows.append(row)
    return rows


def blind_rows(cells, results):
    """Return rows of power without a ratio, for effects that the yardsticks do not look for."""
    rows = power_rows(cells, results, LEVELS)
    return [{title: text for title, text in row.items() if title != "ratio"} for row in rows]


def product_rows(cells, results):
    """Return rows of power without a ratio, and how often the pair is called after correction for all pairs."""
    rows = blind_rows(cells, results)
    for row, cell in zip(rows, cells, strict=False):
        ours = results.get(cell.name, level_name(LEVELS[0]))
        row[OURS] += f" {MISSED}" if ours.value < PRODUCT_POWER else ""
        row["called after correction"] = with_error(results.get(cell.name, "called"))
    return rows


# ---------------------------------------------------------------- sections


#: Section -> title.
TITLES = {
    "size/classes": "Size: classes, normal columns",
    "size/numbers": "Size: numbers, normal columns",
    "size/groups": "Size: groups (`groups=`)",
    "size/groups and a covariate": "Size: groups and a covariate (`groups=`, `covariates=`)",
    "size/batches": "Size: batches (`batch=`)",
    "size/covariates": "Size: a covariate (`covariates=`)",
    "size/columns": "Size: other columns",
    "size/tables": "Size: columns of real tables, simulated outcome",
    "size/pairs": "Size: pairs",
    "size/pairs of columns": "Size: pairs of other columns",
    "size/pairs of tables": "Size: pairs of columns of real tables, simulated outcome",
    "size/steps": "Errors of forward steps",
    "size/selection": "Size: permutation p-value of RandSel",
    "size/alarms": "False alarms of `randsel select` as a whole",
    "power/shift": "Power: shift between classes",
    "power/slope": "Power: numeric outcome",
    "power/groups": "Power: groups (`groups=`)",
    "power/u-shape": "Power: U-shaped effect",
    "power/product": "Power: product of two columns",
    "power/separation": "Perfect separation of two classes: median of log10 p",
    "power/snp pairs": "Pairs of SNPs called (corrected p at most .05)",
}
ROWS = {
    "power/u-shape": blind_rows,
    "power/product": product_rows,
    "power/separation": measure_rows,
    "power/snp pairs": measure_rows,
}


def section_rows(section, cells, results):
    if section in ROWS:
        return ROWS[section](cells, results)
    return size_rows(cells, results) if section.startswith("size") else power_rows(cells, results, LEVELS)


def all_tables(cells, results):
    """Return the rows of every section by its title."""
    sections = sections_of(cells, results)
    return {
        title: section_rows(section, sections[section], results)
        for section, title in TITLES.items()
        if section in sections
    }


def write_tables(cells, blocks):
    """Return the tables of all sections as Markdown, and the cells that failed or are missing."""
    results = Results(blocks)
    tables = all_tables(cells, results)
    lines = [text for title, rows in tables.items() for text in (f"## {title}", as_markdown(rows))]
    return "\n\n".join([*lines, *left_out(cells, results)])


def write_page(cells, blocks):
    """Return the body of the page as Markdown, and the tables of its CSV file."""
    cells, results = list(cells), Results(blocks)
    tables = all_tables(cells, results)
    return "\n\n".join([summarise(tables), *left_out(cells, results)]), without_marks(tables)


def summarise(tables):
    """Return the opening, a row per table, and the figures that miss a goal."""
    marks = {"missed": MISSED, "uncertain": UNCERTAIN, "permutations": N_PERMUTATIONS, "few": FEW_SAMPLES}
    marks |= {"fewer": N_PERMUTATIONS_OF_MANY, "choices": MAX_CHOICES}
    compared = {title: rows for title, rows in tables.items() if not rows or "test" not in rows[0]}
    columns = [*(level_name(level) for level in LEVELS), OURS, "ratio"]
    lines = [OPENING.format(**marks), "## Summary", as_markdown(summary_rows(compared, columns))]
    for title in [title for title in tables if title not in compared]:
        lines += [f"## {title}", as_markdown(test_summary(tables[title]))]
    return "\n\n".join([*lines, *goals_section(tables), *proof_section(tables)])


def proof_section(tables):
    """Return the rows of power that miss their goal beside the sizes of the classical tests and the permuted ones."""
    rows = []
    for title in ("Power: shift between classes", "Power: numeric outcome", "Power: groups (`groups=`)"):
        for row in tables.get(title, ()):
            if not row.get("ratio", "").endswith((f" {MISSED}", f" {UNCERTAIN}")):
                continue
            better = row["better valid test"]
            size, permuted = f"size of {better}", PERMUTED.get(better, "")
            columns = {"better valid test": better, "its size": row.get(size, DASH), "its power": row[better]}
            columns |= {"its permutation test": row.get(permuted, DASH), OURS: row[OURS]}
            rows.append({"situation": f"{row['level']}, {row['situation']}"} | columns)
    return ["## Tests with more power", PROOF, as_markdown(rows)] if rows else []


PROOF = """\
Each row above whose ratio misses the goal: whether the better test holds its size there, and the power of a permutation
test of the same statistic, which is valid for every distribution."""

OPENING = """\
Every row is in [errors.csv](errors.csv); here, a cell is the mean over the rows of a table (lowest to
highest). Every figure is a fraction over the p-values of simulated data sets, in the file ± its standard error over
data sets, because the columns of one data set share the outcome. *Data sets* is their number. Features are tested by
`InteractionScan(order=1).main_pvalues_`, pairs by `InteractionScan().pairs_`, selections by
`RandSel(5).permutation_pvalue_`. A false alarm of `randsel select` is exit status 0 on 50 columns of noise: the
features stand out, or some have q-values of at most .05; its goal is .07.

**Goals.** Size at most .07 at level .05, and .002 at level .001. Power at least .9 of that of the better of two
valid classical tests, where that has a power of .5 to .95; at least .8 for a product for which least squares has .98.
{missed} marks a goal missed by more than two standard errors, {uncertain} one missed by less.

**Size.** A data set has 100 columns that have nothing to do with the outcome. Classes have fixed shares: "classes 10
%" are two classes, the rarer of 10 % of the samples. "lognormal" is exp(1.5 z) of a normal z, "counts" are negative
binomial of mean 2, "5 outliers" are 20 times as large as the other values. SNPs have minor allele frequencies of .05
to .5, rare SNPs of .01 to .05; correlated blocks have ten columns of correlation .8. Groups have two to five samples
and donor effects in columns and outcome; the outcome is constant within each group, varies within each group, or is
constant in every second group. Three batches differ in the means of the columns and in the class shares or means of
the outcome. The covariate is normal and explains half of the variance of what the outcome is made from; normal
columns depend on it as strongly, and in columns of rare values a few samples have one value and all others another.
In designs of groups and a covariate, the covariate depends on the outcome, and columns depend on the covariate only.
Columns of real tables meet an outcome that is drawn at random. Pairs: all p-values of the pairs of 10 columns, and
whether any pair of 30 columns is called at .05 after correction; "beside main effects": two of the columns determine
two thirds of the outcome. Forward steps: the fraction of data sets in which a step selects a column outside the
blocks of the planted columns; 100 columns in blocks of five of correlation .7, of which none or five have an effect.

**Power.** A data set has 20 columns with the same effect, independent given the outcome. For each level, the effect
is set by simulation (`benchmarks/quality/errors_effects.py`) so that the better classical test has a power of about
.8. *ratio* is the power of randsel divided by that of the better classical test: of Mann-Whitney and Welch's t;
Kruskal-Wallis and F; Spearman and Pearson; the paired t test and the signed rank test; in mixed groups, least squares
with an indicator of every group ("within groups") and Pearson's correlation of the means of groups with a constant
outcome ("between means"). *Size of* a classical test is its size in the same situation without an effect. A test whose
size exceeds the level by more than two standard errors is not valid, and a permutation test of its statistic replaces
it in the comparison: "permuted ranks" for Mann-Whitney, Kruskal-Wallis and Spearman, "permuted values" for Welch's t
(the difference of means), F and Pearson. These use {permutations} permutations, or {fewer} with more than {few}
samples, or all choices of the cases if there are at most {choices}. Two tests are shown without a goal. "Permuted
scores" is the first statistic of randsel, the covariance of scores of ranks. "Oracle" combines the tests within and
between groups by the true ratio of the variances of donors and noise, which is not known of data. Slopes: the outcome
is a monotone transform of effect × column + normal noise; the effect of a lognormal column is on its logarithm.
SNP pairs: 1000 samples; the mean of y is 10 times a product
over one to eight pairs of SNPs, with the factor 2, 4, 8 or 16 where a pair is dominant, recessive or XOR, else 1;
noise of variance 1. *true*: fraction of these pairs that are called; other columns: number of other pairs called per
data set."""
