"""Cautions: properties of a table that make any selection misleading, and limits of one selection."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from shlex import quote

import numpy as np
from scipy.special import gammaln
from scipy.stats import rankdata, spearmanr

from randsel._numerics.columns import column_slices
from randsel._numerics.missing import columns_vary, missing_mask
from randsel._utils.jobs import generator
from randsel._utils.text import format_label, join_names, join_words, list_first, pluralise
from randsel._utils.typing import Array
from randsel.analysis._model import Accuracy, FeatureTests
from randsel.culling import CullingPath
from randsel.interactions import LEVEL
from randsel.tables import CODES_FOR_MISSING, LOWEST, MAX_NEGATIVE, Table, find_clinical
from randsel.targets import KINDS, SURVIVAL, OutcomeKind

UNEQUAL = 0.5  # classes are called unequal if the smallest has less than this fraction of the mean class size
FEW_SAMPLES = 10  # a class with fewer samples gets a caution
FEW_EVENTS = 20  # fewer events get a caution
#: Batch (or missing values) and target are confounded if associated at least this strongly, with at most this p-value.
CONFOUNDED, CONFOUNDED_P = 0.3, 0.01
COPY = 0.99  # rank correlation over all features above which one sample is called a copy of another
#: Absolute rank correlation of a feature with a numeric target above which one may be derived from the other.
DERIVED = 0.99
#: Features get no caution if more than this number of unrelated features would be expected to determine the target.
BY_CHANCE = 0.01
#: A target gets a caution if one sample holds more than this fraction of its variance.
DOMINATES = 0.5
#: Correlation does not identify copies if the median sample has a neighbour this close, as in smooth spectra.
ALL_ALIKE = 0.9
ENOUGH_FEATURES = 50  # with fewer varying features, samples may be similar by chance
#: Samples are compared on at most this many columns, and in tables of at most this many rows.
COMPARED_COLUMNS, COMPARED_ROWS = 2000, 5000
#: Features of at most this many distinct values are not checked for ties: genotypes have most samples at one value.
FEW_VALUES = 3
#: Names of samples that end in the number of a repetition: donor7_1, P12-rep2, A03.visit1.
REPETITION = re.compile(
    r"(?P<stem>.*\d.*?)[-_. ]+"
    r"(?:rep|replicate|r|run|tech|t|tp|time|timepoint|v|visit|d|day|w|week|m|month)?[-_. ]?\d{1,2}",
    re.IGNORECASE,
)
#: A significant pair gets a caution if the rank correlation of its features is at least this many standard errors,
#: 1/√m: echoes need a correlation that falls with m as well, and 0.3 % of pairs of independent features get it.
ECHO = 3.0
NAMED_CLASSES = 4  # maximum number of classes whose missing values are counted in a caution
NAMED_ECHOES = 3  # maximum number of such pairs that are named
#: All features predict clearly if their mean score exceeds chance by this many standard deviations of the folds.
CLEARLY = 2.0
MOST_REPETITIONS = 20  # maximum mean number of repetitions of a donor; more suggest the numbers of a plate or a study


def cautions(table: Table, kind: str | OutcomeKind, *, samples: Sequence[str] | None = None) -> tuple[str, ...]:
    """Look for properties of a table that make any selection from it misleading.

    Parameters
    ----------
    table : Table
        The data.
    kind : {"classification", "regression", "survival"}
        Meaning of the target.
    samples : sequence of str, default=None
        Names of the samples, which may show that donors repeat.

    Returns
    -------
    tuple of str
        Sentences: the problem, and what to do about it. Empty if there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from randsel.analysis import cautions
    >>> from randsel.tables import Table
    >>> X = np.random.default_rng(0).standard_normal((40, 5))
    >>> y = np.array(["case"] * 4 + ["control"] * 36)
    >>> for sentence in cautions(Table(X, y, tuple("abcde")), "classification"):
    ...     print(sentence.partition(":")[0])
    The classes are unequal
    Fewer than 10 samples in class case (4)
    """
    kind = KINDS[kind] if isinstance(kind, str) else kind
    sentences: list[str] = []
    if kind.has_classes:
        sentences += _check_class_sizes(table.y)
    if kind is SURVIVAL:
        sentences += _check_events(table.y)
    elif table.y.ndim == 1:
        sentences += _check_derived_features(table, kind)
        sentences += [] if kind.has_classes else _check_extreme_target(table.y, samples)
    if table.batch is not None:
        sentences += _check_confounding(table.y, table.batch, kind)
    sentences += _check_missing(table.X, table.y, kind)
    sentences += (copies := list(_check_equal_rows(table)))
    if table.groups is None:
        sentences += (repeated := list(_check_sample_names(samples)))
        sentences += [] if copies or repeated else _check_similar_rows(table.X)
    sentences += _check_columns(table.X)
    sentences += _check_logarithms(table)
    sentences += check_codes(table)
    return tuple(sentences)


def _check_class_sizes(y: Array) -> Iterator[str]:
    classes, counts = np.unique(y, return_counts=True)
    least, most = int(np.argmin(counts)), int(np.argmax(counts))
    if counts[least] < UNEQUAL * len(y) / len(classes):
        samples = pluralise(int(counts[least]), "sample", "samples")
        yield (
            f"The classes are unequal: {counts[least]} {samples} of class {format_label(classes[least])}, "
            f"{counts[most]} of class {format_label(classes[most])}. Judge models by balanced accuracy; the share of "
            "correct answers flatters one that always names the larger class."
        )
    few = [f"{format_label(c)} ({count})" for c, count in zip(classes, counts, strict=True) if count < FEW_SAMPLES]
    if few:
        yield (
            f"Fewer than {FEW_SAMPLES} samples in class {join_words(few)}: results for such small classes change with "
            "every sample. Collect more samples, merge classes, or leave them out."
        )


def _check_logarithms(table: Table) -> Iterator[str]:
    if table.negative > MAX_NEGATIVE:
        yield (
            f"{table.negative:.0%} of the values are negative, and have no logarithm: they were raised to {LOWEST} "
            "first (--log2). If the values are logarithms already, leave --log2 out."
        )


def check_codes(table: Table) -> Iterator[str]:
    """Yield a warning about each number such as -999 that occurs repeatedly, far below the other values of a column."""
    if table.log2 or not len(table.X):
        return
    smallest = np.fmin.reduce(table.X, axis=0)
    for code in (code for code in CODES_FOR_MISSING if code < 0):
        columns = np.flatnonzero(smallest == code)
        columns = columns[[_is_far_below(table.X[:, j], code) for j in columns.tolist()]]
        count = int((table.X[:, columns] == code).sum())
        if count > 1:
            cells = f"{count} times, in {len(columns)} {pluralise(len(columns), 'feature', 'features')}"
            yield (
                f"The value {code:g} occurs {cells}, far below the other values. If it means missing, say so: "
                f"--na={code:g}"
            )


def _is_far_below(values: Array, code: float) -> bool:
    """Return whether the gap between a code and all larger values exceeds the range of these, and 1."""
    others = values[values > code]
    return len(others) > 0 and float(others.min()) - code > max(float(np.ptp(others)), 1.0)


def _check_events(y: Array) -> Iterator[str]:
    n_events = int(y["event"].sum())
    if n_events < FEW_EVENTS:
        have = pluralise(n_events, "has", "have")
        yield (
            f"Only {n_events} of {len(y)} samples {have} the event: censored samples tell little, so the selection "
            "changes with every event. Follow samples longer, or collect more."
        )


def _check_derived_features(table: Table, kind: OutcomeKind) -> Iterator[str]:
    """Warn of features that determine the target, because they may be derived from it."""
    y = table.y
    if kind.has_classes:
        counts = np.unique(y, return_counts=True)[1]
        # a feature of noise separates the classes, in one of k! orders, with probability exp(-log_possible)
        log_possible = float(gammaln(len(y) + 1.0) - gammaln(counts + 1.0).sum() - gammaln(len(counts) + 1.0))
        singular, plural = "separates the classes without an error", "separate the classes without an error"
        determines = _separates_classes(table.X, y)
    else:
        y = y.astype(np.float64)
        log_possible = float(gammaln(len(y) / 3.0 + 1.0))  # a safe bound: noise correlates so strongly less often
        singular = f"has a rank correlation above {DERIVED:g} with the target"
        plural = f"have rank correlations above {DERIVED:g} with the target"
        determines = _orders_target(table.X, y)
    names = [table.names[j] for j in np.flatnonzero(determines)]
    if not names or np.log(len(table.names)) - log_possible > np.log(BY_CHANCE):
        return
    shown = list_first(names, NAMED_ECHOES)
    subject = f"Feature {shown} {singular}" if len(names) == 1 else f"{len(names)} features {plural} ({shown})"
    yield (
        f"{subject}. Measurements rarely do: make sure that none was derived from the target, defines it, or was made "
        "because of it, and leave out those that were (--drop-columns)."
    )


def _separates_classes(X: Array, y: Array) -> Array:
    """Return a mask of the features whose ranges in the classes do not overlap; missing values are ignored."""
    rows = [X[y == label] for label in np.unique(y)]
    lowest, highest = (
        np.stack([extreme.reduce(X_class, axis=0) for X_class in rows]) for extreme in (np.fmin, np.fmax)
    )
    order = np.argsort(lowest, axis=0)
    lowest, highest = (np.take_along_axis(ends, order, axis=0) for ends in (lowest, highest))
    return np.asarray((highest[:-1] < lowest[1:]).all(axis=0))


def _orders_target(X: Array, y: Array) -> Array:
    """Return a mask of the complete features whose absolute rank correlation with the target exceeds `DERIVED`."""
    middle = (len(y) + 1) / 2.0
    ranks, mask = rankdata(y) - middle, np.zeros(X.shape[1], dtype=bool)
    for columns in column_slices(X.shape[1], max(1, 10**7 // len(X))):
        centred = rankdata(X[:, columns], axis=0) - middle
        norms = np.linalg.norm(centred, axis=0) * np.linalg.norm(ranks)
        mask[columns] = np.abs(ranks @ centred) > DERIVED * np.where(norms > 0.0, norms, np.inf)
    return mask


def _check_extreme_target(y: Array, samples: Sequence[str] | None) -> Iterator[str]:
    """Warn if one sample holds most of the variance of a numeric target."""
    deviations = (y - y.mean()) / max(float(np.abs(y).max()), 1e-300)
    squares = np.square(deviations)
    largest = int(np.argmax(squares))
    fraction = float(squares[largest] / max(float(squares.sum()), 1e-300))
    if len(y) < FEW_SAMPLES or fraction <= DOMINATES:
        return
    where = f"in row {largest + 1} of the samples" if samples is None else f"of sample {samples[largest]}"
    yield (
        f"One sample holds {100 * fraction:.0f} % of the variance of the target: the value {y[largest]:g} {where}. "
        "Selection and accuracy depend on this sample. Correct the value if it is an error or a code for missing "
        "(--na); otherwise consider the logarithm or the ranks of the target."
    )


def _check_confounding(y: Array, batch: Array, kind: OutcomeKind) -> Iterator[str]:
    """Warn if target and batch are associated: Cramér's V or the correlation ratio, with a permutation p-value."""
    _, batch = np.unique(batch, return_inverse=True)
    if batch.max() == 0:
        return
    if kind.has_classes:
        _, y = np.unique(y, return_inverse=True)
        measure, name = cramers_v, "Cramér's V"
    else:
        y = np.asarray(kind.to_numbers(y)[0], dtype=float)
        measure, name = correlation_ratio, "correlation ratio η"
    strength, p = _permute(measure, y, batch)
    if strength < CONFOUNDED or p > CONFOUNDED_P:
        return
    single_class = ""
    if kind.has_classes:
        table = _cross_tabulate(y, batch)
        count = int(table[:, (table > 0).sum(axis=0) == 1].sum())
        single_class = f"; {count} of {len(y)} samples are in batches of a single class" if count else ""
    yield (
        f"The batch is confounded with the target ({name} {strength:.2f}, p {p:.2g} by permutation{single_class}). "
        "What differs between batches then looks like an effect of the target. Believe what also holds within batches: "
        "compare there (--batch), and quote the accuracy within a batch."
    )


def _permute(measure: Callable[[Array, Array], float], y: Array, other: Array) -> tuple[float, float]:
    """Return how strongly y is associated with something else, and the p-value by permutations of y."""
    strength = measure(y, other)
    rng, repeats = generator(0), int(np.clip(10**7 // len(y), 99, 999))
    p = (1 + sum(measure(rng.permutation(y), other) >= strength - 1e-12 for _ in range(repeats))) / (repeats + 1)
    return strength, p


def _check_missing(X: Array, y: Array, kind: OutcomeKind) -> Iterator[str]:
    """Warn if the number of missing values of a sample is associated with its target."""
    missing = missing_mask(X)
    counts = np.zeros(len(X)) if missing is None else rankdata(missing.sum(axis=1))
    if np.ptp(counts) == 0.0:
        return
    if kind.has_classes:
        classes, codes = np.unique(y, return_inverse=True)
        strength, p = _permute(correlation_ratio, counts, codes)
        shares = [f"{100 * missing[codes == k].mean():.0f} % in class {format_label(c)}" for k, c in enumerate(classes)]
        where = join_words(shares[:NAMED_CLASSES])
    else:
        numbers = np.asarray(kind.to_numbers(y)[0], dtype=float)
        if numbers.ndim > 1 and numbers.shape[1] > 1:
            return
        strength, p = _permute(lambda a, b: abs(np.corrcoef(a, b)[0, 1]), counts, rankdata(numbers.ravel()))
        where = f"rank correlation with the target {strength:.2f}"
    if strength >= CONFOUNDED and p <= CONFOUNDED_P:
        yield (
            f"Whether values are missing depends on the target ({where}; p {p:.2g} by permutation). Missing values are "
            "neutral, so the features do not show this. See where they are missing (--missing indicator), and why."
        )


def cramers_v(y: Array, batch: Array) -> float:
    """Return the association of two integer codings of the samples: 0 for none, 1 if one determines the other."""
    table = _cross_tabulate(y, batch)
    expected = table.sum(axis=1)[:, None] * table.sum(axis=0) / len(y)
    return float(np.sqrt(((table - expected) ** 2 / expected).sum() / (len(y) * max(min(table.shape) - 1, 1))))


def correlation_ratio(y: Array, batch: Array) -> float:
    """Return the root of the fraction of the variance of `y` that lies between batches."""
    total = float(((y - y.mean()) ** 2).sum())
    counts = np.bincount(batch)
    means = np.bincount(batch, weights=y) / counts
    return float(np.sqrt((counts * (means - y.mean()) ** 2).sum() / total)) if total > 0.0 else 0.0


def _cross_tabulate(y: Array, batch: Array) -> Array:
    table = np.zeros((int(y.max()) + 1, int(batch.max()) + 1))
    np.add.at(table, (y, batch), 1.0)
    return table


def _check_equal_rows(table: Table) -> Iterator[str]:
    """Warn of equal rows, unless they are likely by chance because features are few and coarse."""
    _, codes, counts = np.unique(_hash_rows(table.X), return_inverse=True, return_counts=True)
    n_copies = len(table.X) - len(counts)
    if not n_copies or _expected_copies(table.X) > 0.01:
        return
    contradicting = [k for k in np.flatnonzero(counts > 1) if len(np.unique(table.y[codes == k])) > 1]
    if contradicting:
        yield (
            f"{counts[contradicting].sum()} samples have the values of another one but not its target. One of the two "
            "is wrong, or the table was put together wrongly: check them before believing anything else."
        )
    else:
        copies = pluralise(n_copies, "sample is an exact copy of another", "samples are exact copies of others")
        yield (
            f"{n_copies} {copies}. Copies fall on both sides of a cross-validation and make it look too good, and "
            "p-values too small: drop them, or name the donor (--groups) if they are repetitions."
        )


def _hash_rows(rows: Array) -> Array:
    """Return a hash per row."""
    # adding 0.0 turns −0.0 into 0.0, which differ in bytes only
    return np.array([hash((row + 0.0).tobytes()) for row in rows])


def _expected_copies(X: Array) -> float:
    """Return the expected number of equal pairs of rows if columns were independent, at most 1."""
    log_number = 2.0 * np.log(len(X)) - np.log(2.0)
    for column in X.T:
        frequencies = np.unique(column, return_counts=True)[1] / len(X)
        log_number += float(np.log(np.square(frequencies).sum()))
    return float(np.exp(min(log_number, 0.0)))


def _check_sample_names(samples: Sequence[str] | None) -> Iterator[str]:
    """Warn of names that differ only in the number of a repetition, unless samples are merely numbered."""
    stems = Counter(match["stem"] for name in samples or () if (match := REPETITION.fullmatch(name.strip())))
    repeated = [stem for stem, count in stems.items() if count > 1]
    involved = sum(stems[stem] for stem in repeated)
    if len(repeated) < 3 or involved < 0.2 * len(samples or ()) or involved > MOST_REPETITIONS * len(repeated):
        return
    yield (
        f"Donors seem to repeat: the names of {involved} samples differ from another's in the last number only "
        f"({repeated[0]}, …). Name the column of the donor (--groups); without it a cross-validation tests on donors "
        "it has seen, and p-values count a donor several times."
    )


def _check_similar_rows(X: Array) -> Iterator[str]:
    """Warn of samples that are nearly copies of others, such as repeated measurements."""
    X = X[:, columns_vary(X)]
    if X.shape[1] < ENOUGH_FEATURES or len(X) > COMPARED_ROWS:
        return
    columns = np.unique(np.linspace(0, X.shape[1] - 1, COMPARED_COLUMNS).astype(int))
    missing = missing_mask(X[:, columns])
    if missing is None:
        ranks = rankdata(X[:, columns], axis=0)
        Z = (ranks - ranks.mean(axis=0)) / ranks.std(axis=0)
    else:
        ranks = rankdata(X[:, columns], axis=0, nan_policy="omit")
        Z = np.where(missing, 0.0, (ranks - np.nanmean(ranks, axis=0)) / np.nanstd(ranks, axis=0))
    Z -= Z.mean(axis=1, keepdims=True)
    Z /= np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-12)
    correlations = Z @ Z.T
    np.fill_diagonal(correlations, -1.0)
    nearest = correlations.max(axis=1)
    n_copies = int((nearest > COPY).sum())
    if not n_copies or np.median(nearest) > ALL_ALIKE:
        return
    yield (
        f"{n_copies} samples are nearly copies of another one (rank correlation above {COPY:g} over the features, "
        f"where half of the samples have no other above {np.median(nearest):.2f}): donors measured twice, or one "
        "measurement that came in twice. They make p-values too small: drop the copies, or name the donor (--groups)."
    )


def _check_columns(X: Array) -> Iterator[str]:
    varies = columns_vary(X)
    n_constant = int((~varies).sum())
    if n_constant:
        yield f"{n_constant} {pluralise(n_constant, 'feature is', 'features are')} constant and cannot be selected."
    columns = X[:, varies].T
    n_copies = len(columns) - len(np.unique(_hash_rows(columns)))
    if n_copies:
        copies = pluralise(n_copies, "feature is an exact copy of another", "features are exact copies of others")
        yield f"{n_copies} {copies}. Copies have the same scores, so it is arbitrary which are selected."
    counts = [np.unique(column[~np.isnan(column)], return_counts=True)[1] for column in columns]
    tied = float(np.mean([len(c) > FEW_VALUES and c.max() > 0.5 * c.sum() for c in counts] or [0.0]))
    if tied > 0.5:
        yield (
            f"In {100 * tied:.0f} % of the features more than half of the samples have one and the same value "
            f"({100 * (X == 0.0).mean():.0f} % of all values are zero). Few samples then decide about a feature; leave "
            "out those that hardly vary."
        )


def check_pairs(table: Table, pairs: Array | None) -> Iterator[str]:
    """Warn of significant pairs of correlated features: both may follow one hidden cause of non-monotone effect."""
    echoes = []
    for pair in () if pairs is None else pairs[pairs["p_corrected"] <= LEVEL]:
        if not {pair["i"], pair["j"]} & {*table.nominal}:
            values = table.X[:, pair["i"]], table.X[:, pair["j"]]
            correlation = spearmanr(*values, nan_policy="omit").statistic
            if abs(correlation) >= ECHO / len(table.X) ** 0.5:
                echoes.append(f"{table.names[pair['i']]} and {table.names[pair['j']]} ({correlation:.2f})")
    if len(echoes) > NAMED_ECHOES:
        echoes[NAMED_ECHOES:] = [f"{len(echoes) - NAMED_ECHOES} other pairs"]
    if echoes:
        yield (
            f"Features of significant pairs are correlated: {join_words(echoes)}. Such a pair may be the echo of one "
            "hidden cause."
        )


def check_selection(
    table: Table, path: CullingPath, tests: FeatureTests, selected: Array, confirmed: Collection[str] = ()
) -> Iterator[str]:
    """Warn where culling and tests disagree, of echoes, of clinical columns, and of names that look like formulas.

    `confirmed` are names of columns that the user has called features.
    """
    yield from check_pairs(table, tests.pairs)
    clinical = [table.names[j] for j in find_clinical(table.names) if j in selected]
    clinical = [name for name in clinical if name not in confirmed]
    if clinical:
        count = pluralise(len(clinical), "A selected feature looks", f"{len(clinical)} selected features look")
        names = quote(join_names(clinical))
        yield (
            f"{count} like a property of samples, not a measurement: {list_first(clinical, NAMED_ECHOES)}. Remove its "
            f"effect (--covariates {names}), leave it out (--drop-columns), or confirm it as a feature (--features)."
        )
    least_q = float(tests.q.min())
    if table.groups is not None and path.stands_out and least_q > LEVEL:
        # the permutation test respects groups; the order of culling does not
        yield (
            f"The culling path stands out, but no feature is significant when compared within or between groups "
            f"(smallest q {least_q:.2g}): features that are ranked first may differ only between groups."
        )
    missed = [
        pair
        for pair in ([] if tests.pairs is None else tests.pairs)
        if pair["step"] and pair["p_corrected"] <= LEVEL and not {pair["i"], pair["j"]} & {*selected}
    ]
    if missed:
        names = " with ".join(table.names[missed[0][end]] for end in ("i", "j"))
        subject = "A pair stands" if len(missed) == 1 else f"{len(missed)} pairs stand"
        yield (
            f"{subject} out (corrected p at most {LEVEL:g}) without a selected feature; the first is "
            f"{names}: look at the pairs, raise --top, or select by tests alone (--fdr)."
        )
    formulas = [name for name in table.names if name.startswith(("=", "+", "-", "@"))]
    if formulas:
        # names are not changed, because users look for them
        yield (
            f"{len(formulas)} names of features start with =, +, - or @ (the first is {formulas[0]}), which a "
            "spreadsheet takes for formulas. The CSV files keep them as they are: import these columns as text."
        )


def check_weak_effects(accuracy: Accuracy | None) -> Iterator[str]:
    """Warn if all features together predict the target, although they do not stand out from noise."""
    if accuracy is None or len(accuracy.everything) < 3:
        return
    mean, deviation = accuracy.everything.mean(), accuracy.everything.std(ddof=1)
    if mean - CLEARLY * deviation > accuracy.chance:
        yield (
            f"All features together predict the target ({accuracy.measure} {mean:.2f} ± {deviation:.2f}), although the "
            "test against shuffled targets finds nothing: many weak effects are likely, so do not report that there is "
            "no signal. --top selects the first features."
        )
