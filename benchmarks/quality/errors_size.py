"""Cells of errors.py that measure size: the fraction of small p-values where there is nothing to find."""

from dataclasses import replace
from functools import lru_cache, partial
from itertools import product

import numpy as np
from cells import OURS, Cell, Tally, count_below, level_name
from errors_data import (
    CLASS_SHARES,
    COLUMNS,
    OUTCOMES,
    Sample,
    draw_columns,
    draw_outcome,
    load_table,
    null_batches,
    null_covariates,
    null_groups,
    null_groups_and_covariate,
    outcome_from_latent,
    paired_samples,
    rarest_class,
    target_of,
)
from errors_tests import finds_something, forward_steps, main_pvalues, permutation_pvalue, scan_pairs

#: Outcomes for which columns, tables and designs are crossed.
MAIN_OUTCOMES = ("classes 10 %", "classes 50 %", "normal", "lognormal")
TABLES = ("colon", "tb_gambia_ord", "lung_gordon", "riboflavin", "wheat_yield", "pbmc68k")
DESIGNS = ("constant", "varying", "mixed")
#: Columns of the cells with a covariate -> number of samples that differ from all others.
RARE = {"normal": None, "3 rare values": 3, "6 rare values": 6, "12 rare values": 12}
#: Columns of the cells of pairs, beside normal ones.
PAIR_COLUMNS = (*COLUMNS[1:], "rare SNP")
N_COLUMNS = 100
N_SETS = 200
#: Data sets of rows that have one decision per data set.
N_DECISIONS = 250


def size_of(make_sample, rng):
    """Simulate a data set and count its small p-values."""
    return count_below(main_pvalues(make_sample(rng)))


def null_columns(rng, outcome, columns, n, m=N_COLUMNS):
    """Return a sample whose columns have nothing to do with the outcome."""
    return Sample(draw_columns(rng, columns, n, m), draw_outcome(rng, outcome, n), target_of(outcome))


def null_table(rng, outcome, table, folder, m=N_COLUMNS):
    """Return random columns of a real table with a simulated outcome."""
    X = cached_table(table, folder)
    X = X[:, rng.permutation(X.shape[1])[:m]]
    return Sample(X, draw_outcome(rng, outcome, len(X)), target_of(outcome))


@lru_cache(maxsize=2)
def cached_table(name, folder):
    return load_table(name, folder)


# ---------------------------------------------------------------- pairs


def null_pairs(rng, outcome, n, m, with_main_effects):
    """Return columns of which no two interact; the first two have strong main effects if asked for."""
    X = rng.normal(size=(n, m))
    if not with_main_effects:
        return Sample(X, draw_outcome(rng, outcome, n), target_of(outcome))
    latent = (X[:, 0] + X[:, 1] + rng.normal(size=n)) / np.sqrt(3.0)
    return Sample(X, outcome_from_latent(outcome, latent), target_of(outcome))


def null_rows(pairs, with_main_effects):
    """Return the pairs of which nothing is true: a transform of a sum makes its two terms interact."""
    return pairs[~((pairs["i"] + pairs["j"] == 1) & with_main_effects)]


def size_of_pairs(make_sample, rng, *, with_main_effects=False, m=10):
    """Count the small p-values of all pairs of ten columns."""
    pairs = scan_pairs(make_sample(rng, m=m), n_pairs=m * (m - 1) // 2)
    return count_below(null_rows(pairs, with_main_effects)["p"])


def family_wise_error(make_sample, rng, *, with_main_effects=False, m=30):
    """Return 1 if any pair of 30 columns is called."""
    pairs = scan_pairs(make_sample(rng, m=m))
    smallest = null_rows(pairs, with_main_effects)["p_corrected"].min(initial=1.0)
    return count_below(smallest, levels=(0.05,))


# ---------------------------------------------------------------- forward steps


def errors_of_steps(rng, outcome, n, n_planted, m=100, block=5, correlation=0.7):
    """Count data sets in which a forward step selects a column outside the blocks of the planted columns."""
    X = np.sqrt(correlation) * np.repeat(rng.normal(size=(n, m // block)), block, axis=1)
    X += np.sqrt(1.0 - correlation) * rng.normal(size=(n, m))
    planted = 3 * block * np.arange(n_planted)
    latent = rng.normal(size=n) + 0.5 * X[:, planted].sum(axis=1)
    sample = Sample(X, outcome_from_latent(outcome, latent / latent.std()), target_of(outcome))
    outside = set(forward_steps(sample) // block) - set(planted // block)
    return count_below(np.array(0.0 if outside else 1.0), levels=(0.05,))


# ---------------------------------------------------------------- RandSel


def size_of_selection(make_sample, rng):
    """Return 1 if the permutation p-value of a selection is at most .05."""
    return count_below(permutation_pvalue(make_sample(rng)), levels=(0.05,))


def false_alarm(make_sample, rng):
    """Return 1 if `randsel select` finds something where there is nothing."""
    return [Tally(level_name(0.05), OURS, 1.0, float(finds_something(make_sample(rng))))]


# ---------------------------------------------------------------- list


def size_cells(folder):
    """Return all cells, the plain ones first; `folder` holds the real tables."""
    features = (outcome_cells, group_cells, batch_cells, covariate_cells, column_cells)
    sections = (*features, pair_cells, step_cells, selection_cells)
    of_tables = (table_cells, other_pair_cells, alarm_cells)
    return [
        *(cell for section in sections for cell in section()),
        *(cell for section in of_tables for cell in section(folder)),
    ]


def outcome_cells():
    """Yield cells of normal columns with all kinds of outcomes."""
    for outcome, n in product(OUTCOMES, (30, 100, 300, 1000)):
        kind = "classes" if outcome in CLASS_SHARES else "numbers"
        if rarest_class(outcome, n) >= 2:
            yield size_cell(f"{kind}/{outcome}/n {n}", null_columns, outcome=outcome, columns="normal", n=n)


def group_cells():
    """Yield cells of grouped samples."""
    for design, outcome, n in product(DESIGNS, MAIN_OUTCOMES, (30, 60)):
        name = f"groups/{design}/{outcome}/{n} groups"
        yield size_cell(name, null_groups, outcome=outcome, n_groups=n, m=N_COLUMNS, design=design)
    for n in (20, 30):
        yield size_cell(f"groups/paired/{n} donors", paired_samples, n_donors=n, m=N_COLUMNS)
    for design, outcome, n in product(("varying", "mixed"), MAIN_OUTCOMES, (30, 60)):
        name = f"groups and a covariate/{design}/{outcome}/{n} groups"
        yield size_cell(name, null_groups_and_covariate, outcome=outcome, n_groups=n, m=N_COLUMNS, design=design)
    for n in (20, 30):
        name = f"groups and a covariate/paired/{n} donors"
        yield size_cell(
            name, null_groups_and_covariate, outcome="classes 50 %", n_groups=n, m=N_COLUMNS, design="paired"
        )


def batch_cells():
    """Yield cells of batches."""
    for outcome, n in product(MAIN_OUTCOMES, (100, 300)):
        yield size_cell(f"batches/{outcome}/n {n}", null_batches, outcome=outcome, n=n, m=N_COLUMNS)


def covariate_cells():
    """Yield cells of a covariate on which the outcome depends; columns depend on it too, or have rare values."""
    for columns, outcome, n in product(RARE, (*MAIN_OUTCOMES, "3 classes"), (100, 300)):
        name = f"covariates/{columns}/{outcome}/n {n}"
        yield size_cell(name, null_covariates, outcome=outcome, n=n, m=N_COLUMNS, n_rare=RARE[columns])


def column_cells():
    """Yield cells of columns that are not normal."""
    for columns, outcome, n in product(COLUMNS[1:], (*MAIN_OUTCOMES, "3 classes"), (30, 100, 300)):
        if rarest_class(outcome, n) >= 3:
            yield size_cell(f"columns/{columns}/{outcome}/n {n}", null_columns, outcome=outcome, columns=columns, n=n)


def table_cells(folder):
    """Yield cells of real tables."""
    for table, outcome in product(TABLES, MAIN_OUTCOMES):
        cell = size_cell(f"tables/{table}/{outcome}", null_table, outcome=outcome, table=table, folder=folder)
        yield replace(cell, missing=why_missing(table, folder))


def why_missing(table, folder):
    """Return why a real table cannot be used; an empty string if it can."""
    return "" if (folder / f"{table}.npz").exists() else f"the folder of data does not hold {table}.npz"


def pair_cells():
    """Yield cells of pairs: all p-values, and the smallest corrected one."""
    for with_main_effects, outcome, n in product((False, True), MAIN_OUTCOMES, (100, 300)):
        name = f"{'beside main effects' if with_main_effects else 'null'}/{outcome}/n {n}"
        sample = partial(null_pairs, outcome=outcome, n=n, with_main_effects=with_main_effects)
        arguments = {"with_main_effects": with_main_effects}
        yield Cell(f"size/pairs/all of 10/{name}", N_SETS, partial(size_of_pairs, sample, **arguments))
        if n == 100 or not with_main_effects:
            yield Cell(f"size/pairs/best of 30/{name}", N_DECISIONS, partial(family_wise_error, sample, **arguments))


def other_pair_cells(folder):
    """Yield the same cells of pairs for columns that are not normal, and for columns of real tables."""
    for columns, outcome, n in product(PAIR_COLUMNS, (*MAIN_OUTCOMES, "counts"), (100, 300)):
        sample = partial(null_columns, outcome=outcome, columns=columns, n=n)
        name = f"{columns}/{outcome}/n {n}"
        yield Cell(f"size/pairs of columns/all of 10/{name}", N_SETS, partial(size_of_pairs, sample))
        yield Cell(f"size/pairs of columns/best of 30/{name}", N_DECISIONS, partial(family_wise_error, sample))
    for table, outcome in product(TABLES, MAIN_OUTCOMES):
        sample = partial(null_table, outcome=outcome, table=table, folder=folder)
        cells = (
            Cell(f"size/pairs of tables/all of 10/{table}/{outcome}", N_SETS, partial(size_of_pairs, sample)),
            Cell(f"size/pairs of tables/best of 30/{table}/{outcome}", N_DECISIONS, partial(family_wise_error, sample)),
        )
        yield from (replace(cell, missing=why_missing(table, folder)) for cell in cells)


def step_cells():
    """Yield cells of forward steps: no effect, and five planted columns in blocks of five correlated ones."""
    for n_planted, outcome in product((0, 5), MAIN_OUTCOMES):
        name = f"size/steps/{n_planted} planted/{outcome}/n 200"
        yield Cell(name, N_DECISIONS, partial(errors_of_steps, outcome=outcome, n=200, n_planted=n_planted))


def selection_cells():
    """Yield cells of the permutation p-value of RandSel."""
    for outcome, n in product(MAIN_OUTCOMES, (60, 100)):
        sample = partial(null_columns, outcome=outcome, columns="normal", n=n, m=50)
        yield Cell(f"size/selection/{outcome}/n {n}", N_DECISIONS, partial(size_of_selection, sample))
    for design, outcome in product(DESIGNS, ("classes 50 %", "normal")):
        sample = partial(null_groups, outcome=outcome, n_groups=30, m=50, design=design)
        yield Cell(
            f"size/selection/groups {design}/{outcome}/30 groups", N_DECISIONS, partial(size_of_selection, sample)
        )


def alarm_cells(folder):
    """Yield cells of whole runs of `randsel select`."""
    outcomes, m = ("classes 50 %", "classes 10 %", "normal"), 50

    def alarm_cell(name, sample):
        return Cell(f"size/alarms/{name}", N_DECISIONS, partial(false_alarm, sample), packages=("analysis",))

    for outcome in outcomes:
        sample = partial(null_columns, outcome=outcome, columns="correlated blocks", n=100, m=m)
        yield alarm_cell(f"{outcome}/n 100", sample)
        sample = partial(null_batches, outcome=outcome, n=100, m=m)
        yield alarm_cell(f"batches/{outcome}/n 100", sample)
    for design, outcome in product(DESIGNS, ("classes 50 %", "normal")):
        sample = partial(null_groups, outcome=outcome, n_groups=30, m=m, design=design)
        yield alarm_cell(f"groups {design}/{outcome}/30 groups", sample)
    for table, outcome in product(TABLES[:4], ("classes 50 %", "normal")):
        if (folder / f"{table}.npz").exists():
            sample = partial(null_table, outcome=outcome, table=table, folder=folder, m=m)
            yield alarm_cell(f"{table}/{outcome}", sample)


def size_cell(name, make_sample, **arguments):
    """Return a cell that counts the small p-values of the features of simulated samples."""
    return Cell(f"size/{name}", N_SETS, partial(size_of, partial(make_sample, **arguments)))
