"""What an analysis of one table found, as frozen dataclasses that reports read; and what to be careful about."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata

from randsel._utils.jobs import generator
from randsel._utils.text import format_label, join_words, pluralise
from randsel._utils.typing import Array
from randsel.culling._path import CullingPath
from randsel.tables._read import Table
from randsel.targets._kinds import KINDS, OutcomeKind

#: Share of an equal share of the samples below which the smallest class is called small.
UNEQUAL = 0.5
#: Samples that a class should have.
FEW_SAMPLES = 10
#: Strength of association of batch and target, and its p-value, from which they are called confounded.
CONFOUNDED, CONFOUNDED_P = 0.3, 0.01
#: Rank correlation of two samples over all features from which one is called a copy of the other.
COPY = 0.99
#: If the typical sample has a neighbour as close as this (smooth spectra), correlation does not tell who is a copy.
ALL_ALIKE = 0.9
#: Below as many features that vary, samples are alike by chance.
ENOUGH_FEATURES = 50
#: Columns and rows at most that samples are compared on.
COMPARED_COLUMNS, COMPARED_ROWS = 2000, 5000
#: Features of at most this many values may well have most samples at one of them.
FEW_VALUES = 3
#: A name of a sample that ends in the number of a repetition: donor7_1, P12-rep2, A03.visit1.
REPETITION = re.compile(
    r"(?P<stem>.*\d.*?)[-_. ]+"
    r"(?:rep|replicate|r|run|tech|t|tp|time|timepoint|v|visit|d|day|w|week|m|month)?[-_. ]?\d{1,2}",
    re.IGNORECASE,
)
#: Repetitions of a donor at most; more are the numbers of a plate or a study.
MOST_REPETITIONS = 20


@dataclass(frozen=True)
class Feature:
    """One feature.

    Attributes
    ----------
    name, column
        Its name and its column in the table.
    rank
        1 is the best.
    contribution, main, interaction
        The contribution, and the standard scores of what it does alone and together with others, in the last round in
        which it lived.
    partner
        The feature it acts with most; None if there is none.
    p, q
        Of its main effect or its best pair.
    stability
        Share of half-samples in which it was selected.
    selected
        Whether it was, on all samples.
    """

    name: str
    column: int
    rank: int
    contribution: float
    main: float
    interaction: float
    partner: str | None
    p: float
    q: float
    stability: float
    selected: bool


@dataclass(frozen=True)
class Pair:
    """Two features tested together; `corrected_p` accounts for the number of all pairs."""

    first: str
    second: str
    first_column: int
    second_column: int
    statistic: float
    p: float
    corrected_p: float


@dataclass(frozen=True)
class Accuracy:
    """Nested cross-validation.

    Attributes
    ----------
    measure
        "balanced accuracy" or "R²".
    selected, everything
        One value per outer fold, of a model on the features selected in the fold, and on all features.
    chance
        What guessing reaches.
    sizes
        Number of features selected in each fold.
    """

    measure: str
    selected: Array
    everything: Array
    chance: float
    sizes: Array


@dataclass(frozen=True)
class Stability:
    """Selection repeated on halves of the samples.

    Attributes
    ----------
    n_halves, threshold
        Number of halves, and the share of them from which a feature counts as stable.
    expected_false
        Bound on the expected number of features above the threshold that carry nothing; None if there is none.
    frequencies
        Per column, the share of halves in which it was selected.
    """

    n_halves: int
    threshold: float
    expected_false: float | None
    frequencies: Array

    @property
    def n_stable(self) -> int:
        """Number of features selected in at least the share `threshold` of the half-samples."""
        return int((np.asarray(self.frequencies) >= self.threshold).sum())


@dataclass(frozen=True)
class Analysis:
    """Everything that is known about a table after a selection.

    Attributes
    ----------
    table, path
        The data, and the rounds of culling.
    kind
        "classification" or "regression".
    features, pairs
        All features and the pairs kept, best first.
    accuracy, stability
        None where they were not computed.
    nothing_stands_out
        Whether the features align with the target no better than culled noise.
    warnings
        What bears on how far to trust the result, from `cautions` and from the selection.
    settings
        What it takes to repeat the analysis: `command`, `version`, `seed`, `data` (name of the file), `data_hash`,
        `parameters` (a mapping), and whatever else is worth showing.
    notes
        What the reader of the file detected.
    """

    table: Table
    path: CullingPath
    kind: str
    features: tuple[Feature, ...]
    pairs: tuple[Pair, ...]
    accuracy: Accuracy | None
    stability: Stability | None
    nothing_stands_out: bool
    warnings: tuple[str, ...]
    settings: Mapping[str, Any]
    notes: tuple[str, ...]

    @property
    def outcome(self) -> OutcomeKind:
        """Kind of the target, by the name `kind`."""
        return KINDS[self.kind]


# ---------------------------------------------------------------- what to be careful about


def cautions(table: Table, kind: OutcomeKind, *, samples: Sequence[str] | None = None) -> tuple[str, ...]:
    """Look for what makes a selection from this table misleading, whatever the method.

    Parameters
    ----------
    table : Table
        The data.
    kind : OutcomeKind
        Kind of the target.
    samples : sequence of str, default=None
        Names of the samples, which may show that donors repeat.

    Returns
    -------
    tuple of str
        Sentences: what was found, and what to do about it. Empty if there is nothing to say.

    Examples
    --------
    >>> import numpy as np
    >>> from randsel.analysis._model import cautions
    >>> from randsel.tables._read import Table
    >>> from randsel.targets._kinds import CLASSES
    >>> X = np.random.default_rng(0).standard_normal((40, 5))
    >>> y = np.array(["case"] * 4 + ["control"] * 36)
    >>> for sentence in cautions(Table(X, y, tuple("abcde")), CLASSES):
    ...     print(sentence.partition(":")[0])
    The classes are unequal
    Fewer than 10 samples in class case (4)
    """
    found: list[str] = []
    if kind.has_classes:
        found += _small_classes(table.y)
    if table.batch is not None:
        found += _confounded(table.y, table.batch, kind)
    found += (copies := list(_copies_of_rows(table)))
    if table.groups is None:
        found += (named := list(_repeated_names(samples)))
        found += [] if copies or named else _alike(table.X)
    found += _columns(table.X)
    return tuple(found)


def _small_classes(y: Array) -> Iterator[str]:
    classes, counts = np.unique(y, return_counts=True)
    least, most = int(np.argmin(counts)), int(np.argmax(counts))
    if counts[least] < UNEQUAL * len(y) / len(classes):
        yield (
            f"The classes are unequal: {counts[least]} samples of class {format_label(classes[least])}, "
            f"{counts[most]} of class {format_label(classes[most])}. Judge models by balanced accuracy; the share of "
            "correct answers flatters one that always names the larger class."
        )
    few = [f"{format_label(c)} ({count})" for c, count in zip(classes, counts, strict=True) if count < FEW_SAMPLES]
    if few:
        yield (
            f"Fewer than {FEW_SAMPLES} samples in class {join_words(few)}: what is said about so few changes with "
            "every sample. Collect more, merge classes, or leave them out."
        )


def _confounded(y: Array, batch: Array, kind: OutcomeKind) -> Iterator[str]:
    """Warn of a target that the batch tells much about: Cramér's V or the correlation ratio, p by permutation."""
    _, batch = np.unique(batch, return_inverse=True)
    if batch.max() == 0:
        return
    if kind.has_classes:
        _, y = np.unique(y, return_inverse=True)
        measure, name = cramers_v, "Cramér's V"
    else:
        y = np.asarray(y, dtype=float)
        measure, name = correlation_ratio, "correlation ratio η"
    strength = measure(y, batch)
    rng, repeats = generator(0), int(np.clip(10**7 // len(y), 99, 999))
    p = (1 + sum(measure(rng.permutation(y), batch) >= strength - 1e-12 for _ in range(repeats))) / (repeats + 1)
    if strength < CONFOUNDED or p > CONFOUNDED_P:
        return
    alone = ""
    if kind.has_classes:
        table = np.zeros((int(y.max()) + 1, int(batch.max()) + 1), dtype=int)
        np.add.at(table, (y, batch), 1)
        one_class = table[:, (table > 0).sum(axis=0) == 1].sum()
        alone = f"; {one_class} of {len(y)} samples are in batches of a single class" if one_class else ""
    yield (
        f"The batch is confounded with the target ({name} {strength:.2f}, p {p:.2g} by permutation{alone}). What "
        "differs between batches then looks like an effect of the target. Believe what also holds within batches: "
        "compare there (--batch), and quote the accuracy within a batch."
    )


def cramers_v(y: Array, batch: Array) -> float:
    """Association of two codings of the samples by whole numbers: 0 for none, 1 if one tells the other."""
    table = np.zeros((int(y.max()) + 1, int(batch.max()) + 1))
    np.add.at(table, (y, batch), 1.0)
    expected = table.sum(axis=1)[:, None] * table.sum(axis=0) / len(y)
    return float(np.sqrt(((table - expected) ** 2 / expected).sum() / (len(y) * max(min(table.shape) - 1, 1))))


def correlation_ratio(y: Array, batch: Array) -> float:
    """Root of the share of the variance of `y` that lies between batches."""
    spread = float(((y - y.mean()) ** 2).sum())
    counts = np.bincount(batch)
    means = np.bincount(batch, weights=y) / counts
    return float(np.sqrt((counts * (means - y.mean()) ** 2).sum() / spread)) if spread > 0.0 else 0.0


# ---------------------------------------------------------------- samples that are not independent


def _copies_of_rows(table: Table) -> Iterator[str]:
    """Warn of equal rows, unless the features are so few and so coarse that chance makes them."""
    _, of, counts = np.unique(_hashes(table.X), return_inverse=True, return_counts=True)
    extra = len(table.X) - len(counts)
    if not extra or _chance_of_copies(table.X) > 0.01:
        return
    mixed = [k for k in np.flatnonzero(counts > 1) if len(np.unique(table.y[of == k])) > 1]
    if mixed:
        yield (
            f"{counts[mixed].sum()} samples have the values of another one but not its target. One of the two is "
            "wrong, or the table was put together wrongly: check them before believing anything else."
        )
    else:
        yield (
            f"{extra} {pluralise(extra, 'sample is an exact copy of another', 'samples are exact copies of others')}. "
            "Copies fall on both sides of a cross-validation and make it look too good: drop them, or name the donor "
            "(--groups) if they are repetitions."
        )


def _hashes(rows: Array) -> Array:
    """Return a number per row that equal rows share."""
    # zero and minus zero are equal, but not in bytes
    return np.array([hash((row + 0.0).tobytes()) for row in rows])


def _chance_of_copies(X: Array) -> float:
    """Return how many equal pairs of rows are expected if columns were independent, at most 1."""
    log = 2.0 * np.log(len(X)) - np.log(2.0)
    for column in X.T:
        shares = np.unique(column, return_counts=True)[1] / len(X)
        log += float(np.log(np.square(shares).sum()))
    return float(np.exp(min(log, 0.0)))


def _repeated_names(samples: Sequence[str] | None) -> Iterator[str]:
    """Warn of names that differ in the number of a repetition only, if that is not just how samples are numbered."""
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


def _alike(X: Array) -> Iterator[str]:
    """Warn of samples that are nearly copies of others: a repeated measurement, or the same array twice."""
    X = X[:, np.ptp(X, axis=0) > 0.0]
    if X.shape[1] < ENOUGH_FEATURES or len(X) > COMPARED_ROWS:
        return
    columns = np.unique(np.linspace(0, X.shape[1] - 1, COMPARED_COLUMNS).astype(int))
    ranks = rankdata(X[:, columns], axis=0)
    Z = (ranks - ranks.mean(axis=0)) / ranks.std(axis=0)
    Z -= Z.mean(axis=1, keepdims=True)
    Z /= np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-12)
    closeness = Z @ Z.T
    np.fill_diagonal(closeness, -1.0)
    nearest = closeness.max(axis=1)
    count = int((nearest > COPY).sum())
    if not count or np.median(nearest) > ALL_ALIKE:
        return
    yield (
        f"{count} samples are nearly copies of another one (rank correlation above {COPY:g} over the features, where "
        f"half of the samples have no other above {np.median(nearest):.2f}): donors measured twice, or one measurement "
        "that came in twice. Drop the copies, or name the donor (--groups)."
    )


# ---------------------------------------------------------------- columns


def _columns(X: Array) -> Iterator[str]:
    varies = np.ptp(X, axis=0) > 0.0
    constant = int((~varies).sum())
    if constant:
        yield f"{constant} {pluralise(constant, 'feature is', 'features are')} constant and cannot be selected."
    kept = X[:, varies].T
    copies = len(kept) - len(np.unique(_hashes(kept)))
    if copies:
        yield (
            f"{copies} "
            f"{pluralise(copies, 'feature is an exact copy of another', 'features are exact copies of others')}. "
            "Copies have the same scores, so that a selection holds all of them or none."
        )
    tied = _share_of_tied(kept)
    if tied > 0.5:
        yield (
            f"In {100 * tied:.0f} % of the features more than half of the samples have one and the same value "
            f"({100 * (X == 0.0).mean():.0f} % of all values are zero). Few samples then decide about a feature; leave "
            "out those that hardly vary."
        )


def _share_of_tied(columns: Array) -> float:
    """Share of the features, other than those of few values, of which more than half of the samples are equal."""
    if not len(columns):
        return 0.0
    counts = [np.unique(column, return_counts=True)[1] for column in columns]
    return float(np.mean([len(c) > FEW_VALUES and c.max() > 0.5 * columns.shape[1] for c in counts]))
