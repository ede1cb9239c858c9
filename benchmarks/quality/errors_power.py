"""Cells of errors.py that measure power, compared with tests that suit each situation."""

import json
from functools import lru_cache, partial
from itertools import product
from pathlib import Path

import numpy as np
from cells import LEVELS, OURS, Cell, Tally, count_below
from errors_data import (
    CLASS_SHARES,
    CLASSES,
    NUMBERS,
    Sample,
    columns_given_latent,
    draw_columns,
    draw_groups,
    draw_outcome,
    grouped_columns,
    grouped_outcome,
    outcome_from_latent,
    paired_samples,
    rarest_class,
    target_of,
)
from errors_tests import (
    FEW_SAMPLES,
    main_pvalues,
    means_of_groups,
    mixed_groups,
    numbers,
    pairs_of_samples,
    permutation_tests,
    product_pvalue,
    sample_of_means,
    scan_pairs,
    several_classes,
    size_name,
    two_classes,
)
from scipy.stats import mannwhitneyu, norm

N_COLUMNS = 20
N_SETS = 200
#: Data sets without an effect, per data set with one, that estimate the sizes of yardsticks; one if samples are many.
NULL_SAMPLES = 5
#: Effects for which the better yardstick has a power of about .8, by cell and level; errors_effects.py writes them.
EFFECTS = Path(__file__).with_name("errors_effects.json")
#: Cell of the product of two columns; least squares has power .98 at .05.
PRODUCT = "power/product/normal/n 100"


# ---------------------------------------------------------------- effects


@lru_cache(maxsize=1)
def calibrated_effects():
    """Return the effects that errors_effects.py has set, by cell and level."""
    return json.loads(EFFECTS.read_text())


def power_of(rng, name, make_sample, yardsticks):
    """Simulate a data set for each level, with the effect set for that level, and count the small p-values."""
    tallies = []
    for level in LEVELS:
        effect = calibrated_effects()[name].get(f"{level:g}")
        if effect is None:
            continue
        sample = make_sample(rng, effect)
        pvalues = {OURS: main_pvalues(sample), **yardsticks(sample)}
        if yardsticks in (two_classes, several_classes, numbers):
            pvalues |= permutation_tests(sample)
        elif yardsticks is means_of_groups:
            pvalues |= permutation_tests(sample_of_means(sample))
        for test, values in pvalues.items():
            tallies += count_below(values, test, levels=(level,))
        tallies += sizes_of_yardsticks(rng.spawn(1)[0], level, make_sample, yardsticks)
        tallies.append(Tally(f"effect at {level:g}", OURS, 1.0, effect))
    return tallies


def sizes_of_yardsticks(rng, level, make_sample, yardsticks):
    """Count the small p-values of the yardsticks in samples without an effect."""
    counts = {}
    sample = make_sample(rng, 0.0)
    others = NULL_SAMPLES - 1 if len(sample.y) <= FEW_SAMPLES else 0
    for null in (sample, *(make_sample(rng, 0.0) for _ in range(others))):
        for test, values in yardsticks(null).items():
            counts.setdefault(test, []).extend(count_below(values, test, levels=(level,)))
    return [
        Tally(size_name(level), test, sum(t.weight for t in of_test), sum(t.total for t in of_test))
        for test, of_test in counts.items()
    ]


# ---------------------------------------------------------------- samples with an effect in every column


TWO_CLASSES = tuple(outcome for outcome, shares in CLASS_SHARES.items() if len(shares) == 2)
#: Columns of the tests of shifts -> distribution before the shift.
SHIFTED = ("normal", "lognormal, raw shift", "lognormal, log shift", "t, 2 df", "t, 3 df", "Laplace")


def shifted(rng, effect, outcome, columns, n):
    """Return columns that are shifted in proportion to the class."""
    y = draw_outcome(rng, outcome, n)
    if columns == "lognormal, log shift":
        X = np.exp(rng.normal(size=(n, N_COLUMNS)) + effect * y[:, None])
    elif columns == "lognormal, raw shift":
        X = np.exp(rng.normal(size=(n, N_COLUMNS))) + effect * y[:, None]
    else:
        X = draw_columns(rng, columns, n, N_COLUMNS) + effect * y[:, None]
    return Sample(X, y, CLASSES)


def regressed(rng, effect, outcome, columns, n, u_shaped=False):
    """Return columns x and an outcome that is a monotone transform of `effect * x + e`, or of `effect * x² + e`."""

    def draw(generator, size):
        # the effect of a lognormal column is on its logarithm
        kind = "normal" if columns == "lognormal" else columns
        return draw_columns(generator, kind, size, 1)[:, 0]

    def mean(x):
        return effect * ((x * x - 1.0) / np.sqrt(2.0) if u_shaped else x)

    hidden = draw(rng, n)
    latent = mean(hidden) + rng.normal(size=n)
    X = columns_given_latent(rng, latent, hidden, draw, mean, N_COLUMNS)
    y = outcome_from_latent(outcome, (latent - latent.mean()) / latent.std())
    return Sample(np.exp(1.5 * X) if columns == "lognormal" else X, y, target_of(outcome))


def grouped(rng, effect, outcome, n_groups, design):
    """Return grouped samples with donor effects and a shift by y."""
    groups = draw_groups(rng, n_groups)
    y = grouped_outcome(rng, outcome, groups, design)
    return Sample(grouped_columns(rng, groups, N_COLUMNS, y, effect), y, target_of(outcome), groups=groups)


def paired(rng, effect, n_donors):
    return paired_samples(rng, n_donors, N_COLUMNS, effect)


# ---------------------------------------------------------------- special situations


def power_of_u_shape(rng, outcome, n, effect):
    """Count the small p-values for an effect of x², to which the yardsticks are blind."""
    sample = regressed(rng, effect, outcome, "normal", n, u_shaped=True)
    yardsticks = two_classes if sample.target == CLASSES else numbers
    pvalues = {OURS: main_pvalues(sample), **yardsticks(sample)}
    return [tally for test, values in pvalues.items() for tally in count_below(values, test)]


def product_sample(rng, effect, n=100, m=10):
    X = rng.normal(size=(n, m))
    return Sample(X, effect * X[:, 0] * X[:, 1] + rng.normal(size=n), NUMBERS)


def product_yardstick(sample):
    """Return the p-value of least squares with a product term."""
    return {"least squares": product_pvalue(sample.X[:, 0], sample.X[:, 1], sample.y)}


def power_of_product(rng):
    """Count the small p-values of a pair whose product is in the outcome, in a scan of ten columns."""
    sample = product_sample(rng, calibrated_effects()[PRODUCT]["0.05"])
    pairs = scan_pairs(sample, n_pairs=45)
    true = pairs[(pairs["i"] + pairs["j"] == 1)]
    tallies = count_below(true["p"], OURS)
    tallies += [Tally("called", OURS, 1.0, float((true["p_corrected"] <= 0.05).sum()))]
    return tallies + count_below(product_yardstick(sample)["least squares"], "least squares")


def separation(rng, n_cases, n):
    """Return the median of log10 p for columns that separate the classes perfectly."""
    y = (rng.permutation(n) < n_cases).astype(int)
    X = rng.normal(size=(n, 50)) + 20.0 * y[:, None]
    exact = mannwhitneyu(X[y == 0, 0], X[y == 1, 0], method="exact").pvalue
    ours = np.median(np.log10(main_pvalues(Sample(X, y, CLASSES))))
    return [Tally("log10 p", OURS, 1.0, float(ours)), Tally("log10 p", "Mann-Whitney", 1.0, float(np.log10(exact)))]


# ---------------------------------------------------------------- pairs of SNPs


def snp_sample(rng, n_snps, n=1000):
    """Return genotypes, a numeric outcome and the true pairs: the outcome's mean is 10 times a product of factors."""
    X = rng.binomial(2, rng.uniform(0.2, 0.5, size=n_snps), size=(n, n_snps))
    members = rng.permutation(n_snps)[: 2 * rng.integers(1, 9)].reshape(-1, 2)
    mean = np.full(n, 10.0)
    for i, j in members:
        a, b = X[:, i], X[:, j]
        patterns = ((a > 0) & (b > 0), (a == 2) & (b == 2), (a > 0) ^ (b > 0))
        mean *= np.where(patterns[rng.integers(3)], rng.choice([2.0, 4.0, 8.0, 16.0]), 1.0)
    return X.astype(float), mean + rng.normal(size=n), members


def power_of_snp_pairs(rng, n_snps):
    """Count called pairs: true ones, others of two SNPs with effects, and those with a SNP that has no effect."""
    X, y, members = snp_sample(rng, n_snps)
    positive = y if y.min() > 0.0 else y - y.min() + 1.0
    ranks = np.argsort(np.argsort(y)) + 0.5
    outcomes = {"y": y, "log y": np.log(positive), "normal scores": norm.ppf(ranks / len(y))}
    true = {tuple(sorted(pair)) for pair in members.tolist()}
    tallies = []
    for name, values in outcomes.items():
        pairs = scan_pairs(Sample(X, values, NUMBERS), n_pairs=100)
        called = pairs[pairs["p_corrected"] <= 0.05]
        is_true = np.array([(i, j) in true for i, j in zip(called["i"], called["j"], strict=True)], dtype=bool)
        is_related = np.isin(called["i"], members) & np.isin(called["j"], members) & ~is_true
        tallies += [
            Tally("true", name, len(members), float(is_true.sum())),
            Tally("other pairs of these SNPs", name, 1.0, float(is_related.sum())),
            Tally("false", name, 1.0, float((~is_true & ~is_related).sum())),
        ]
    return tallies


# ---------------------------------------------------------------- list


def power_cells():
    """Return all cells, the plain ones first."""
    sections = (shift_cells, slope_cells, group_cells, special_cells)
    return [cell for section in sections for cell in section()]


def shift_cells():
    """Yield cells of shifts between classes."""
    for outcome, n, columns in product(reversed(TWO_CLASSES), (30, 100, 300, 1000), SHIFTED):
        # all columns for two shares only
        wanted = outcome in ("classes 50 %", "classes 10 %") or columns in ("normal", "lognormal, log shift")
        if wanted and rarest_class(outcome, n) >= 3:
            name = f"shift/{outcome}/{columns}/n {n}"
            yield power_cell(name, two_classes, shifted, outcome=outcome, columns=columns, n=n)
    for n, columns in product((30, 100, 300), ("normal", "t, 3 df")):
        name = f"shift/3 classes/{columns}/n {n}"
        yield power_cell(name, several_classes, shifted, outcome="3 classes", columns=columns, n=n)


def slope_cells():
    """Yield cells of numeric outcomes."""
    outcomes = ("normal", "lognormal", "counts", "ordinal 0 to 5")
    for outcome, n, columns in product(outcomes, (30, 100, 300, 1000), ("normal", "lognormal", "t, 3 df", "Laplace")):
        if n < 1000 or columns in ("normal", "t, 3 df"):
            name = f"slope/{outcome}/{columns}/n {n}"
            yield power_cell(name, numbers, regressed, outcome=outcome, columns=columns, n=n)


def group_cells():
    """Yield cells of grouped samples."""
    for n in (20, 30):
        yield power_cell(f"groups/paired/{n} donors", pairs_of_samples, paired, n_donors=n)
    designs = {"constant": means_of_groups, "mixed": mixed_groups}
    for design, outcome, n in product(designs, ("classes 50 %", "normal"), (30, 60)):
        name = f"groups/{design}/{outcome}/{n} groups"
        yield power_cell(name, designs[design], grouped, outcome=outcome, n_groups=n, design=design)


def special_cells():
    """Yield cells of effects that need other tests."""
    for outcome, (n, effect) in product(("classes 50 %", "normal", "lognormal"), ((100, 0.5), (300, 0.3))):
        simulate = partial(power_of_u_shape, outcome=outcome, n=n, effect=effect)
        yield Cell(f"power/u-shape/{outcome}/n {n}", N_SETS, simulate)
    yield Cell(PRODUCT, 400, power_of_product)
    for n_cases, n in ((5, 100), (10, 200), (20, 1000)):
        yield Cell(f"power/separation/{n_cases} of {n}", N_SETS, partial(separation, n_cases=n_cases, n=n))
    for n_snps in (200, 500):
        yield Cell(f"power/snp pairs/{n_snps} SNPs", N_SETS, partial(power_of_snp_pairs, n_snps=n_snps))


def power_cell(name, yardsticks, make_sample, **arguments):
    """Return a cell that counts the small p-values of features that have an effect, and those of the yardsticks."""
    name, simulated = f"power/{name}", partial(make_sample, **arguments)
    return Cell(name, N_SETS, partial(power_of, name=name, make_sample=simulated, yardsticks=yardsticks))
