"""Simulated outcomes, columns and designs of errors.py; every function draws from the generator that it is given."""

from typing import NamedTuple

import numpy as np

#: Tables whose values are concentrations or intensities, which are compared on a logarithmic scale.
LOG2 = {"tb_gambia_ord", "somascan_sex", "colon", "tox_171"}
CLASSES, NUMBERS = "classification", "regression"

#: Outcome -> share of each class; a number of samples per class is the rounded share.
CLASS_SHARES = {
    "classes 3 %": (0.97, 0.03),
    "classes 5 %": (0.95, 0.05),
    "classes 10 %": (0.9, 0.1),
    "classes 25 %": (0.75, 0.25),
    "classes 50 %": (0.5, 0.5),
    "3 classes": (1 / 3, 1 / 3, 1 / 3),
    "3 classes 10-30-60 %": (0.6, 0.3, 0.1),
}
NUMBER_KINDS = ("normal", "lognormal", "counts", "normal, 5 outliers")
OUTCOMES = (*CLASS_SHARES, *NUMBER_KINDS)
COLUMNS = ("normal", "lognormal", "t, 2 df", "SNP", "counts with zeros", "correlated blocks")


class Sample(NamedTuple):
    """One simulated data set."""

    X: np.ndarray
    y: np.ndarray
    target: str
    groups: np.ndarray | None = None
    batch: np.ndarray | None = None
    covariates: np.ndarray | None = None


# ---------------------------------------------------------------- outcomes and columns


def target_of(outcome):
    """Return the kind of target, as `InteractionScan(target=)` names it."""
    return CLASSES if outcome in CLASS_SHARES else NUMBERS


def rarest_class(outcome, n):
    """Return the number of samples of the rarest class; n for numbers."""
    return round(n * min(CLASS_SHARES.get(outcome, (1.0,))))


def draw_outcome(rng, outcome, n):
    """Return n values of an outcome."""
    if outcome in CLASS_SHARES:
        return outcome_from_latent(outcome, rng.normal(size=n))
    if outcome == "counts":
        return rng.negative_binomial(1.0, 1.0 / 3.0, size=n).astype(float)
    if outcome == "normal, 5 outliers":
        return rng.normal(size=n) * np.where(rng.permutation(n) < 5, 20.0, 1.0)
    return outcome_from_latent(outcome, rng.normal(size=n))


def outcome_from_latent(outcome, latent):
    """Return a monotone transform of a latent variable of mean 0 and variance 1 that has the outcome's distribution."""
    n, ranks = len(latent), np.argsort(np.argsort(latent))
    if outcome in CLASS_SHARES:
        counts = np.round(n * np.cumsum(CLASS_SHARES[outcome]))
        # the rarest class is the last one: it has the largest latent values
        return np.searchsorted(counts, ranks, side="right").clip(max=len(counts) - 1)
    if outcome == "lognormal":
        return np.exp(1.5 * latent)
    if outcome == "ordinal 0 to 5":
        return np.digitize(latent, (-1.2, -0.5, 0.1, 0.8, 1.6)).astype(float)
    if outcome == "counts":
        # thresholds of a negative binomial of mean 2
        return np.searchsorted(1.0 - (2.0 / 3.0) ** np.arange(1, 60), (ranks + 0.5) / n).astype(float)
    return latent


def draw_columns(rng, kind, n, m):
    """Return m columns of n values, independent or in correlated blocks of ten; constant ones are left out."""
    if kind == "lognormal":
        X = np.exp(1.5 * rng.normal(size=(n, m)))
    elif kind in ("t, 2 df", "t, 3 df"):
        X = rng.standard_t(int(kind[3]), size=(n, m))
    elif kind == "Laplace":
        X = rng.laplace(size=(n, m)) / np.sqrt(2.0)
    elif kind == "SNP":
        X = rng.binomial(2, rng.uniform(0.05, 0.5, size=m), size=(n, m)).astype(float)
    elif kind == "rare SNP":
        X = rng.binomial(2, rng.uniform(0.01, 0.05, size=m), size=(n, m)).astype(float)
    elif kind == "counts with zeros":
        X = (rng.negative_binomial(1.0, 0.3, size=(n, m)) * (rng.random((n, m)) < 0.4)).astype(float)
    elif kind == "correlated blocks":
        X = np.sqrt(0.8) * np.repeat(rng.normal(size=(n, -(-m // 10))), 10, axis=1)[:, :m]
        X += np.sqrt(0.2) * rng.normal(size=(n, m))
    else:
        X = rng.normal(size=(n, m))
    return X[:, np.ptp(X, axis=0) > 0]


def columns_given_latent(rng, latent, hidden, draw, effect, m, pool=2000):
    """Return m columns that are independent given the latent variable `effect(x) + e`, e normal of variance one.

    `hidden` is the column from which the latent variable was made. Each value is drawn from the conditional
    distribution of x given the latent value, represented by `pool` draws and the hidden column. So each column has
    the distribution that it would have if the latent variable had been made from it.
    """
    candidates = np.concatenate([draw(rng, pool), hidden])
    log_weights = -0.5 * np.square(latent[:, None] - effect(candidates))
    cumulative = np.cumsum(np.exp(log_weights - log_weights.max(axis=1, keepdims=True)), axis=1)
    X = np.empty((len(latent), m))
    for row, sums in zip(X, cumulative, strict=True):
        row[:] = candidates[np.searchsorted(sums, rng.random(m) * sums[-1])]
    return X


def load_table(name, folder):
    """Return the columns of a real table that vary."""
    with np.load(folder / f"{name}.npz", allow_pickle=False) as arrays:
        X = arrays["X"].astype(np.float64)
    if name in LOG2:
        X = np.log2(X + 1.0) if (X == 0.0).any() else np.log2(X)
    return X[:, np.ptp(X, axis=0) > 0]


# ---------------------------------------------------------------- designs under the null hypothesis


def null_batches(rng, outcome, n, m):
    """Return three batches of unequal sizes, with shifts of the columns and other class shares or means of y."""
    batch = rng.choice(3, size=n, p=(0.2, 0.3, 0.5))
    latent = rng.normal(size=n) + np.array([0.0, 0.7, -0.7])[batch]
    X = rng.normal(size=(n, m)) + rng.normal(size=(3, m))[batch]
    return Sample(X, outcome_from_latent(outcome, latent / latent.std()), target_of(outcome), batch=batch)


def null_covariates(rng, outcome, n, m, n_rare, slope=1.0):
    """Return an outcome that depends on a covariate; in each column `n_rare` samples differ from all others.

    `n_rare` of None is for normal columns, which depend on the covariate as well.
    """
    covariate = rng.normal(size=n)
    latent = slope * covariate + rng.normal(size=n)
    if n_rare is None:
        X = covariate[:, None] + rng.normal(size=(n, m))
    else:
        X = (rng.random((n, m)).argsort(axis=0) < n_rare).astype(float)
    y = outcome_from_latent(outcome, latent / latent.std())
    return Sample(X, y, target_of(outcome), covariates=covariate)


def draw_groups(rng, n_groups):
    """Return the group of each sample: groups of two to five samples."""
    return np.repeat(np.arange(n_groups), rng.integers(2, 6, size=n_groups))


def grouped_outcome(rng, outcome, groups, design):
    """Return y for groups in which it is "constant", "varying", or constant in every second group ("mixed")."""
    n_groups = groups.max() + 1
    is_constant = {"constant": np.ones(n_groups, bool), "varying": np.zeros(n_groups, bool)}.get(
        design, np.arange(n_groups) % 2 == 0
    )
    by_group = draw_outcome(rng, outcome, n_groups)
    if outcome not in CLASS_SHARES:
        donor, noise = rng.normal(size=n_groups)[groups], rng.normal(size=len(groups))
        within = outcome_from_latent(outcome, (donor + noise) / np.sqrt(2.0))
        return np.where(is_constant[groups], by_group[groups], within)
    y = (rng.random(len(groups)) < CLASS_SHARES[outcome][-1]).astype(int)
    # the first two samples of a varying group are of different classes
    first = np.searchsorted(groups, np.arange(n_groups))
    y[first] = rng.integers(0, 2, size=n_groups)
    y[first + 1] = 1 - y[first]
    return np.where(is_constant[groups], by_group[groups], y)


def grouped_columns(rng, groups, m, y=0.0, shift=0.0):
    """Return columns with donor effects of the same variance as the noise, and a shift by y."""
    donors = rng.normal(size=(groups.max() + 1, m))[groups]
    return donors + rng.normal(size=(len(groups), m)) + shift * np.reshape(y, (-1, 1))


def null_groups(rng, outcome, n_groups, m, design):
    """Return grouped samples whose columns have nothing to do with y."""
    groups = draw_groups(rng, n_groups)
    y = grouped_outcome(rng, outcome, groups, design)
    return Sample(grouped_columns(rng, groups, m), y, target_of(outcome), groups=groups)


def null_groups_and_covariate(rng, outcome, n_groups, m, design):
    """Return grouped or paired samples whose covariate depends on y, and whose columns depend on the covariate only."""
    sample = paired_samples(rng, n_groups, m) if design == "paired" else null_groups(rng, outcome, n_groups, m, design)
    covariate = sample.y / sample.y.std() + rng.normal(size=len(sample.y))
    return sample._replace(X=sample.X + covariate[:, None], covariates=covariate)


def paired_samples(rng, n_donors, m, shift=0.0):
    """Return samples of donors before and after: y is 0 and 1 for each donor."""
    groups, y = np.repeat(np.arange(n_donors), 2), np.tile([0, 1], n_donors)
    return Sample(grouped_columns(rng, groups, m, y, shift), y, CLASSES, groups=groups)
