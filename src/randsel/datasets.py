"""Synthetic data sets whose relevant features are known.

Each function returns `X, y, relevant`; `make_black_box` returns a `BlackBox`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from randsel._utils.jobs import generator, seed_of
from randsel._utils.typing import Array

Problem = tuple[Array, Array, Array]


@dataclass(frozen=True)
class BlackBox:
    """A semi-supervised data set: labelled, unlabelled and held-out rows.

    Attributes
    ----------
    X, y
        Labelled rows and their classes.
    unlabelled
        Rows without labels, from which features can be learned.
    held_out, held_out_y
        Rows to classify, and their classes if known.
    """

    X: Array
    y: Array
    unlabelled: Array
    held_out: Array
    held_out_y: Array | None = None


def make_xor(n_samples: int = 300, n_features: int = 100, *, noise: float = 0.0, random_state: Any = None) -> Problem:
    """Make the XOR of the signs of two features among uniform noise features (figure 1 of the paper).

    Neither feature is informative alone.

    Parameters
    ----------
    n_samples, n_features : int
        Shape of X, uniform on [-1, 1].
    noise : float
        Probability that a label is flipped.
    random_state : int, RandomState or None
        Seed.

    Returns
    -------
    X, y, relevant
        y is ±1; `relevant` holds the columns 0 and 1.

    Examples
    --------
    >>> from randsel import datasets
    >>> X, y, relevant = datasets.make_xor(300, 100, random_state=0)
    >>> X.shape, relevant, bool(((X[:, 0] * X[:, 1] > 0) == (y > 0)).all())
    ((300, 100), array([0, 1]), True)
    """
    if not 0.0 <= noise <= 1.0:
        raise ValueError(f"noise={noise!r} is a probability and must lie between 0 and 1.")
    rng = _generator(random_state, n_features, 2)
    X = rng.uniform(-1.0, 1.0, (n_samples, n_features))
    y = np.where(X[:, 0] * X[:, 1] > 0.0, 1, -1)
    y = np.where(rng.random(n_samples) < noise, -y, y)
    return X, y, np.arange(2)


def make_weston_linear(
    n_samples: int = 300,
    n_features: int = 100,
    *,
    n_relevant: int = 5,
    noise: float = 20.0,
    noise_is: str = "variance",
    random_state: Any = None,
) -> Problem:
    """Make the linear problem of Weston et al. (2000): two groups of redundant features, one informative per sample.

    With probability 0.7, `x_j ~ N(j y, 1)` for j = 1, 2, 3 and the other relevant features are N(0, 1). Otherwise
    `x_j ~ N((j-3) y, 1)` for j = 4, 5, … and the first three are N(0, 1).

    Parameters
    ----------
    n_samples, n_features : int
        Shape of X.
    n_relevant : int
        4, 5 or 6. Weston et al. use 6, the paper that introduced randSel mentions 5.
    noise, noise_is
        Spread of the irrelevant features, N(0, 20), and whether it is a "variance" or an "sd", which the sources do
        not specify.
    random_state : int, RandomState or None
        Seed.

    Returns
    -------
    X, y, relevant
        y is ±1; `relevant` holds the first `n_relevant` columns.

    Examples
    --------
    >>> from randsel import CorrelationFilter, datasets
    >>> X, y, relevant = datasets.make_weston_linear(300, 20, random_state=0)
    >>> CorrelationFilter(5).fit(X, y).get_support(indices=True)
    array([0, 1, 2, 3, 4])
    """
    if not 4 <= n_relevant <= 6:
        raise ValueError(f"n_relevant={n_relevant} must be 4, 5 or 6.")
    rng, y, X = _draw_weston(n_samples, n_features, n_relevant, noise, noise_is, random_state)
    first = rng.random(n_samples) < 0.7
    relevant = rng.normal(size=(n_samples, n_relevant))
    for j in range(n_relevant):
        relevant[:, j] += (j + 1) * y * first if j < 3 else (j - 2) * y * ~first
    X[:, :n_relevant] = relevant
    return X, y, np.arange(n_relevant)


def make_weston_nonlinear(
    n_samples: int = 300,
    n_features: int = 100,
    *,
    n_relevant: int = 2,
    noise: float = 20.0,
    noise_is: str = "variance",
    random_state: Any = None,
) -> Problem:
    """Make the non-linear problem of Weston et al. (2000), or a variant with five relevant features.

    Two features: `±(3, 3) + N(0, I)` for y = +1 and `±(3, -3/4) + N(0, I)` for y = -1, with a random sign, so that the
    means of the classes are equal. Five features, a number that the paper that introduced randSel mentions without
    details: `x_j ~ ±N(3, 1)` for y = +1 and `±N(3/4, 1)` for y = -1, with an independent sign for each feature, so that
    each is informative alone, by its spread only.

    Parameters
    ----------
    n_samples, n_features : int
        Shape of X.
    n_relevant : int
        2 (the original) or 5.
    noise, noise_is
        As in `make_weston_linear`.
    random_state : int, RandomState or None
        Seed.

    Returns
    -------
    X, y, relevant
        y is ±1; `relevant` holds the first `n_relevant` columns.

    Examples
    --------
    >>> from randsel import RandSel, datasets
    >>> X, y, relevant = datasets.make_weston_nonlinear(300, 20, n_relevant=2, random_state=0)
    >>> RandSel(2).fit(X, y).get_support(indices=True), relevant
    (array([0, 1]), array([0, 1]))
    """
    if n_relevant not in (2, 5):
        raise ValueError(f"n_relevant={n_relevant} must be 2 (the original problem) or 5.")
    rng, y, X = _draw_weston(n_samples, n_features, n_relevant, noise, noise_is, random_state)
    relevant = rng.normal(size=(n_samples, n_relevant))
    if n_relevant == 2:
        means = np.where(y[:, None] > 0, [3.0, 3.0], [3.0, -0.75])
        relevant += means * rng.choice([-1, 1], n_samples)[:, None]
    else:
        relevant += np.where(y > 0, 3.0, 0.75)[:, None] * rng.choice([-1, 1], (n_samples, n_relevant))
    X[:, :n_relevant] = relevant
    return X, y, np.arange(n_relevant)


#: Relevant features of each kind of `make_passemiers`.
PASSEMIERS = {"xor": 2, "ring": 2, "ring+xor": 4, "ring+xor+sum": 6}


def make_passemiers(
    kind: str, n_samples: int = 1000, n_features: int = 128, *, shuffle: bool = True, random_state: Any = None
) -> Problem:
    """Make a problem of the benchmark of Passemiers et al. (2024) for non-linear feature selection.

    Parameters
    ----------
    kind : {"xor", "ring", "ring+xor", "ring+xor+sum"}
        Rule that determines the label, with 2, 2, 4 and 6 relevant features.
    n_samples, n_features : int
        Shape of X, uniform on [-1, 1].
    shuffle : bool
        Shuffle the columns.
    random_state : int, RandomState or None
        Seed.

    Returns
    -------
    X, y, relevant
        y is 0 or 1.

    Examples
    --------
    >>> from randsel import InteractionScan, datasets
    >>> X, y, relevant = datasets.make_passemiers("ring", 300, 20, random_state=0)
    >>> sorted(InteractionScan(2).fit(X, y).get_support(indices=True)) == sorted(relevant)
    True
    """
    if kind not in PASSEMIERS:
        raise ValueError(f"kind={kind!r} must be one of {', '.join(map(repr, PASSEMIERS))}.")
    k = PASSEMIERS[kind]
    rng = _generator(random_state, n_features, k)
    U = rng.random((n_samples, n_features))
    y = _passemiers_label(kind, U, rng)
    columns = rng.permutation(n_features) if shuffle else np.arange(n_features)
    new_index = np.argsort(columns, kind="stable")
    return 2.0 * U[:, columns] - 1.0, y.astype(int), np.sort(new_index[:k])


def _passemiers_label(kind: str, U: Array, rng: np.random.Generator) -> Array:
    """Return the label; the thresholds make the classes balanced."""

    def ring(a: int, b: int) -> Array:
        return np.abs(np.hypot(U[:, a] - 0.5, U[:, b] - 0.5) - 0.35)

    def xor(a: int, b: int) -> Array:
        return (U[:, a] - 0.5) * (0.5 - U[:, b])

    if kind == "xor":
        return xor(0, 1) >= 0.0
    if kind == "ring":
        return ring(0, 1) <= 0.1151
    if kind == "ring+xor":
        return (ring(0, 1) <= 0.0704) | (xor(2, 3) >= 0.0337)
    total = U[:, 4] + U[:, 5] + rng.normal(0.0, 0.2, len(U))
    return (ring(0, 1) <= 0.0479) | (xor(2, 3) >= 0.0598) | (total >= 1.4074)


def make_black_box(
    n_labelled: int = 180, n_held_out: int = 600, n_features: int = 1875, *, left_out: int = 4, random_state: Any = None
) -> BlackBox:
    """Make a data set like that of the Black Box Learning Challenge of 2013, from images of digits.

    The challenge had 1875 features without a description, nine classes, 1000 labelled rows and many unlabelled ones.
    The rows were images of house numbers, one digit left out, after a linear map (Goodfellow et al. 2013, arXiv
    1307.0414). Its data are not public. This function maps the 8×8 images of scikit-learn's digits by a random matrix
    and multiplies each feature by a random factor.

    Parameters
    ----------
    n_labelled, n_held_out : int
        Labelled rows and rows to classify, both with classes as balanced as possible. The remainder of about 1617
        rows is `unlabelled`.
    n_features : int
        Columns.
    left_out : int
        Digit to leave out.
    random_state : int, RandomState or None
        Seed.

    Returns
    -------
    BlackBox
        Classes are 1 to 9, in the order of the digits.

    Examples
    --------
    >>> from randsel import datasets
    >>> box = datasets.make_black_box(random_state=0)
    >>> box.X.shape, sorted(set(box.y.tolist()))
    ((180, 1875), [1, 2, 3, 4, 5, 6, 7, 8, 9])
    """
    images, digits = load_digits(return_X_y=True)
    if left_out not in range(10):
        raise ValueError(f"left_out={left_out!r} must be a digit, 0 to 9.")
    images, digits = images[digits != left_out], digits[digits != left_out]
    max_rows = int(9 * np.bincount(np.unique(digits, return_inverse=True)[1]).min())
    if n_labelled < 9 or n_held_out < 1 or n_labelled + n_held_out > max_rows or n_features < 1:
        raise ValueError(
            f"n_labelled={n_labelled}, n_held_out={n_held_out}, n_features={n_features}: at least 9 labelled rows, "
            f"1 held-out row and 1 feature are needed, and at most {max_rows} labelled and held-out rows in total."
        )
    rng = generator(seed_of(random_state))
    classes = 1 + np.unique(digits, return_inverse=True)[1]
    order = _balanced_permutation(classes, rng)
    map_ = rng.normal(0.0, 1.0 / 8.0, (64, n_features))[:, rng.permutation(n_features)]
    X = images[order] @ (map_ * np.exp(rng.normal(0.0, 1.0, n_features)))
    y = classes[order]
    held_out = slice(n_labelled, n_labelled + n_held_out)
    return BlackBox(X[:n_labelled], y[:n_labelled], X[held_out.stop :], X[held_out], y[held_out])


def _balanced_permutation(classes: Array, rng: np.random.Generator) -> Array:
    """Return a random order of the rows in which classes alternate, so that any consecutive rows are balanced."""
    shuffled = rng.permutation(len(classes))
    turn = np.empty(len(classes), dtype=int)
    for c in np.unique(classes):
        members = shuffled[classes[shuffled] == c]
        turn[members] = np.arange(len(members))
    return np.asarray(shuffled[np.argsort(turn[shuffled], kind="stable")])


def _generator(random_state: Any, n_features: int, n_relevant: int) -> np.random.Generator:
    """Return the random generator; raise ValueError if there are too few features."""
    if n_features < n_relevant:
        raise ValueError(f"n_features={n_features} must be at least the number of relevant features, {n_relevant}.")
    return generator(seed_of(random_state))


def _draw_weston(
    n_samples: int, n_features: int, n_relevant: int, noise: float, noise_is: str, random_state: Any
) -> tuple[np.random.Generator, Array, Array]:
    """Return the random generator, labels of ±1, and irrelevant features."""
    rng = _generator(random_state, n_features, n_relevant)
    if noise_is not in ("variance", "sd") or not 0.0 < noise < np.inf:
        raise ValueError(f"noise={noise!r}, noise_is={noise_is!r}: a positive number that is a 'variance' or an 'sd'.")
    y = rng.choice([-1, 1], n_samples)
    return rng, y, rng.normal(0.0, np.sqrt(noise) if noise_is == "variance" else noise, (n_samples, n_features))
