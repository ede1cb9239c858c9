"""StabilitySelection: selection of features by a randomised lasso on many random halves of the samples."""

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import sklearn
from sklearn.linear_model import LogisticRegression, lasso_path
from sklearn.utils.fixes import parse_version

from randsel._sklearn.base import Interval, StrOptions, Task
from randsel._utils.jobs import generator, seed_of
from randsel._utils.messages import warn
from randsel._utils.typing import Array
from randsel.baselines._base import COMMON, Baseline, Ranked
from randsel.targets import OutcomeKind, Target


class StabilitySelection(Baseline):
    """Select features that a randomised lasso selects on many random halves (Meinshausen and Bühlmann 2010).

    On each half, every feature's penalty is divided by a random factor from [`weakness`, 1]. The selection probability
    of a feature is the fraction of halves where its coefficient is not zero, at the penalty where that is largest.

    Parameters
    ----------
    n_features_to_select : int, float in (0, 1] or None, default=None
        Number or fraction of the features to select, by probability and then by its mean over the penalties. None:
        those of probability `threshold` or more; if there are none, the best one, with a warning.
    n_subsamples : int, default=100
        Number of random halves.
    complementary : bool, default=False
        Draw the halves in pairs that share no sample (Shah and Samworth 2013); `n_subsamples` is rounded up to even.
    threshold : float in (0.5, 1], default=0.6
        Least probability of a stable feature.
    weakness : float in (0, 1], default=0.5
        Smallest factor; 1 is the plain lasso.
    loss : {"lasso", "logistic"}, default="lasso"
        "lasso": squared loss, for classes on ±1, which is fast. "logistic": logistic loss with an l1 penalty, for
        classes only. With more than two classes (one against the rest) or several outputs, a feature counts as
        selected if it is for any of them.
    n_lambdas, lambda_min : int, default=20, and float in (0, 1), default=0.25
        Number of penalties, from the least that selects no feature on all samples down to this fraction of it; the
        same on every half. Lower penalties select more features and weaken the bound.
    n_jobs : int, default=None
        Number of jobs (joblib) over the halves. The result does not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of the halves and factors.
    target, scale
        As in `BaHSIC`.

    Attributes
    ----------
    support_, ranking_, order_, n_features_
        As in `RandSel`; constant columns share the last rank.
    probabilities_ : ndarray of float
        Selection probability of each feature.
    expected_false_bound_ : float
        `q² / ((2 threshold - 1) n)`, where q is the mean number of features selected at any penalty, of the n that
        vary. It bounds the expected number of irrelevant features of probability `threshold` or more, if the method is
        no worse than guessing and irrelevant features are exchangeable. For complementary pairs, it holds without that
        assumption for features of below-average probability instead of irrelevant ones.

    Examples
    --------
    >>> from randsel import StabilitySelection, datasets
    >>> X, y, relevant = datasets.make_weston_linear(200, 20, random_state=0)
    >>> StabilitySelection(random_state=0).fit(X, y).get_support(indices=True)
    array([1, 2, 4])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON,
        "n_subsamples": [Interval(Integral, 1, None, closed="left")],
        "complementary": ["boolean"],
        "threshold": [Interval(Real, 0.5, 1, closed="right")],
        "weakness": [Interval(Real, 0, 1, closed="right")],
        "loss": [StrOptions({"lasso", "logistic"})],
        "n_lambdas": [Interval(Integral, 2, None, closed="left")],
        "lambda_min": [Interval(Real, 0, 1, closed="neither")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    _in_order = False

    def __init__(
        self,
        n_features_to_select: int | float | None = None,
        *,
        n_subsamples: int = 100,
        complementary: bool = False,
        threshold: float = 0.6,
        weakness: float = 0.5,
        loss: str = "lasso",
        n_lambdas: int = 20,
        lambda_min: float = 0.25,
        target: str = "auto",
        scale: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.n_subsamples = n_subsamples
        self.complementary = complementary
        self.threshold = threshold
        self.weakness = weakness
        self.loss = loss
        self.n_lambdas = n_lambdas
        self.lambda_min = lambda_min
        self.target = target
        self.scale = scale
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _rank(self, Z: Array, y: Array, kind: OutcomeKind, n_to_select: int, task: Task) -> Ranked:
        selected = np.array(self._select_on_halves(Z, y, kind, task))
        frequencies = selected.mean(axis=0)
        probabilities = frequencies.max(axis=1)
        mean_selected = float(selected.any(axis=2).sum(axis=1).mean())
        self.expected_false_bound_ = mean_selected**2 / ((2 * self.threshold - 1) * Z.shape[1])
        if self.n_features_to_select is None:
            n_to_select = int((probabilities >= self.threshold).sum())
            if not n_to_select:
                warn(
                    f"No feature reaches the probability threshold={self.threshold:g}; the best one, which reaches "
                    f"{probabilities.max():.2f}, was selected. Do not read it as a finding.",
                    stacklevel=4,
                )
                n_to_select = 1
        order = np.lexsort((-frequencies.mean(axis=1), -probabilities))
        return Ranked(order, n_to_select, {"probabilities_": probabilities})

    def _select_on_halves(self, Z: Array, y: Array, kind: OutcomeKind, task: Task) -> list[Array]:
        """Return a mask (features, penalties) of the selected features for every half."""
        if self.loss == "logistic" and not kind.has_classes:
            raise ValueError("loss='logistic' needs classes, but y holds numbers; use loss='lasso'.")
        Y = Target.encode(y, kind).Y
        if self.loss == "logistic":
            Y = (Y > 0.0).astype(np.float64)
        # The least penalty at which the lasso selects no feature on all samples.
        largest = np.abs(Z.T @ (Y - Y.mean(axis=0))).max(axis=0) / len(Z)
        penalties = np.geomspace(1.0, self.lambda_min, self.n_lambdas)[:, None] * largest
        path = _lasso_path if self.loss == "lasso" else _logistic_path
        problem = (Z, Y, penalties, path, self.weakness, self.complementary)
        seed = seed_of(self.random_state)
        halves = [(*problem, seed, number) for number in range(self._count_tasks())]
        return task.map("half", _select_on_half, halves, self.n_jobs)

    def _count_tasks(self, n_columns: int = 0, n_to_select: int = 0) -> int:  # noqa: ARG002
        return self.n_subsamples + (self.n_subsamples % 2 if self.complementary else 0)


#: Function of X, one column of Y and the penalties that returns coefficients (features, penalties).
CoefficientPath = Callable[[Array, Array, Array], Array]


def _select_on_half(
    Z: Array, Y: Array, penalties: Array, path: CoefficientPath, weakness: float, paired: bool, seed: int, number: int
) -> Array:
    """Return a mask (features, penalties) of the features selected for any column of Y on one random half."""
    half = len(Z) // 2
    rows = generator(seed, 0, number // 2 if paired else number).permutation(len(Z))
    rows = rows[half : 2 * half] if paired and number % 2 else rows[:half]
    # Dividing the penalty of a column by a factor is the same as multiplying the column by it.
    X = Z[rows] * generator(seed, 1, number).uniform(weakness, 1.0, Z.shape[1])
    selected = np.zeros((Z.shape[1], len(penalties)), dtype=bool)
    for target, path_penalties in zip(Y[rows].T, penalties.T, strict=True):
        if target.min() < target.max() and path_penalties[-1] > 0.0:
            selected |= path(X - X.mean(axis=0), target, path_penalties) != 0.0
    return selected


def _lasso_path(X: Array, y: Array, penalties: Array) -> Array:
    return np.asarray(lasso_path(X, y - y.mean(), alphas=penalties, max_iter=10_000)[1])


def _logistic_path(X: Array, y: Array, penalties: Array) -> Array:
    # scikit-learn 1.8 renamed the parameter of the l1 penalty.
    l1 = {"l1_ratio": 1.0} if parse_version(sklearn.__version__) >= parse_version("1.8") else {"penalty": "l1"}
    # liblinear penalises the intercept; this scaling makes the effect small.
    model = LogisticRegression(solver="liblinear", intercept_scaling=10.0, random_state=0, **l1)
    fits = [model.set_params(C=1.0 / (penalty * len(y))).fit(X, y).coef_[0].copy() for penalty in penalties]
    return np.column_stack(fits)
