"""Cells of outcomes.py with covariates and batches: y and 200 of 1000 features depend on age, or on the batch."""

from functools import partial
from itertools import product

import numpy as np
from cells import OURS, Cell, any_called, value_of
from scipy.stats import t as student

from randsel import InteractionScan, RandSel

N_SAMPLES, N_FEATURES, N_DRIVEN, N_RELEVANT = 150, 1000, 200, 5
#: The relevant features are the last ones; age and batch do not act on them.
RELEVANT = np.arange(N_FEATURES - N_RELEVANT, N_FEATURES)
#: Dependence of features and outcome on age, as functions of the standardised age, which is within ±√3. The functions
#: of a covariate that are projected out were chosen on the first three; nobody looked at the others before.
CURVES = {
    "linear": lambda z: z,
    "quadratic": lambda z: z**2 - 1.0,
    "exponential": lambda z: np.exp(z) / 2.0,
    "sigmoid": lambda z: np.tanh(2.0 * z),
    "step": lambda z: np.where(z > 0.5, 1.0, -1.0),
    "logarithm": lambda z: np.log(z + 1.75),
    "sine": lambda z: 1.4 * np.sin(np.sqrt(3.0) * np.pi / 2.0 * (z + np.sqrt(3.0))),
}
#: Outcome -> function of the latent numbers.
OUTCOMES = {
    "numbers": lambda latent: latent,
    "exp(numbers)": np.exp,
    "balanced classes": lambda latent: (latent > np.median(latent)).astype(int),
    "10 % cases": lambda latent: (latent > np.quantile(latent, 0.9)).astype(int),
}
UNADJUSTED, LEAST_SQUARES, PARTIAL = "not adjusted", "least squares", "partial correlation"
FIVE, FIVE_GIVEN, AUTO, AUTO_GIVEN = "RandSel(5)", "RandSel(5), adjusted", "RandSel()", "RandSel(), adjusted"
#: Effect of the planted product of age and one feature, the first one that does not depend on age.
PRODUCT, PARTNER = 0.6, N_DRIVEN
FILES = ("outcomes_covariates.py",)


def draw_age(rng):
    """Return ages of 20 to 80 years, and the same with mean 0 and standard deviation 1."""
    age = rng.uniform(20.0, 80.0, N_SAMPLES)
    return age, (age - 50.0) / np.sqrt(300.0)


def draw_features(rng, shift):
    """Return normal features; the shift of the samples is added to the first 200."""
    X = rng.normal(size=(N_SAMPLES, N_FEATURES))
    X[:, :N_DRIVEN] += shift[:, None]
    return X


def partial_pvalues(X, y, nuisance):
    """Return the p-values of the partial correlations of columns and y given the columns of `nuisance`."""
    Z = np.column_stack([np.ones(len(y)), nuisance])
    X, y = (values - Z @ np.linalg.lstsq(Z, values, rcond=None)[0] for values in (X, y.astype(float)))
    r = (y @ X) / np.sqrt((X * X).sum(axis=0) * (y @ y))
    freedom = len(y) - Z.shape[1] - 1
    return 2.0 * student.sf(np.abs(r) * np.sqrt(freedom / (1.0 - r**2)), freedom)


def product_pvalues(X, y, z):
    """Return the p-values of the products of z and each column, by least squares given z and the column."""
    return np.array([partial_pvalues((z * x)[:, None], y, np.column_stack([z, x]))[0] for x in X.T])


# ---------------------------------------------------------------- recall


def recall_of_selections(X, y, nuisance, **given):
    """Return recall of the relevant features by selections with and without adjustment."""
    first = np.argsort(partial_pvalues(X, y, nuisance))[:N_RELEVANT]
    tallies = [value_of("recall", PARTIAL, np.isin(RELEVANT, first).mean())]
    for name, number, arguments in (
        (FIVE, N_RELEVANT, {}),
        (FIVE_GIVEN, N_RELEVANT, given),
        (AUTO, "auto", {}),
        (AUTO_GIVEN, "auto", given),
    ):
        selector = RandSel(number).fit(X, y, **arguments)
        selected = np.flatnonzero(selector.support_)
        tallies += [
            value_of("recall", name, selector.support_[RELEVANT].mean()),
            value_of("features selected", name, len(selected)),
            value_of("of them nuisance-driven", name, (selected < N_DRIVEN).mean() if len(selected) else 0.0),
        ]
    return tallies


def recall_given_age(rng, effect):
    """Return recall of five features, each with the same effect, beside age."""
    age, z = draw_age(rng)
    X = draw_features(rng, z)
    y = z + effect * X[:, RELEVANT].sum(axis=1) + rng.normal(size=N_SAMPLES)
    return recall_of_selections(X, y, z, covariates=age)


def recall_in_batches(rng, effect):
    """Return recall of five features in three batches of unequal sizes, which shift features and outcome."""
    batch = rng.choice(3, size=N_SAMPLES, p=(0.2, 0.3, 0.5))
    shift = np.array([1.5, -1.5, 0.3])[batch]
    X = draw_features(rng, shift)
    y = shift + effect * X[:, RELEVANT].sum(axis=1) + rng.normal(size=N_SAMPLES)
    return recall_of_selections(X, y, np.eye(3)[batch][:, 1:], batch=batch)


# ---------------------------------------------------------------- errors


def errors_given_age(rng, curve, outcome):
    """Return whether any feature is called, where none has an effect given age."""
    age, z = draw_age(rng)
    by_age = CURVES[curve](z)
    X = draw_features(rng, by_age)
    y = OUTCOMES[outcome](by_age + rng.normal(size=N_SAMPLES))
    scan = InteractionScan(order=1, target="regression" if "numbers" in outcome else "classification")
    return [
        any_called(scan.fit(X, y, covariates=age).main_pvalues_),
        any_called(scan.fit(X, y).main_pvalues_, UNADJUSTED),
        any_called(partial_pvalues(X, y, z), LEAST_SQUARES),
    ]


def products_with_age(rng, main_effect, planted):
    """Return whether a planted product of age and a feature is called, and whether any other one is."""
    age, z = draw_age(rng)
    X = draw_features(rng, z)
    y = z + main_effect * X[:, RELEVANT].sum(axis=1) + PRODUCT * planted * z * X[:, PARTNER]
    y += rng.normal(size=N_SAMPLES)
    scan = InteractionScan(order=1, with_covariates=True, n_pairs=N_FEATURES)
    pairs = scan.fit(X, y, covariates=age).covariate_pairs_
    ours = np.ones(N_FEATURES)
    ours[pairs["j"]] = pairs["p"]
    tallies = []
    for name, pvalues in ((OURS, ours), (LEAST_SQUARES, product_pvalues(X, y, z))):
        tallies.append(any_called(np.delete(pvalues, PARTNER), name, "any other called"))
        if planted:
            tallies.append(value_of("planted called", name, pvalues[PARTNER] * N_FEATURES <= 0.05))
    return tallies


# ---------------------------------------------------------------- list


def covariate_cells():
    """Yield all cells of covariates and batches."""
    for effect in (0.5, 0.7, 1.0):
        yield cell(f"recall/effect {effect:g}", 100, recall_given_age, effect=effect)
    for effect in (0.5, 0.7, 1.0):
        yield cell(f"batches/effect {effect:g}", 100, recall_in_batches, effect=effect)
    for curve, outcome in product(CURVES, OUTCOMES):
        yield cell(f"error/{curve}/{outcome}", 200, errors_given_age, curve=curve, outcome=outcome)
    for main_effect, planted in product((0.0, 0.5), (0, 1)):
        name = f"products/{'beside main effects' if main_effect else 'no main effects'}/{'one' if planted else 'none'}"
        yield cell(f"{name} planted", 200, products_with_age, main_effect=main_effect, planted=planted)


def cell(name, n_sets, simulate, **arguments):
    return Cell(f"covariates/{name}", n_sets, partial(simulate, **arguments), files=FILES)
