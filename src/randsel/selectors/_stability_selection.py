"""`StabilitySelection`: repeats a selection on many random halves of the samples, and selects what recurs."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, Protocol

import numpy as np
from sklearn.base import clone
from sklearn.utils import get_tags

from randsel._numerics.arrays import remote_table
from randsel._numerics.columns import canonical_order
from randsel._numerics.fingerprint import fingerprint
from randsel._numerics.missing import impute_means
from randsel._numerics.standardise import standardise
from randsel._sklearn.annotations import (
    accepted_metadata,
    check_covariates,
    check_labels,
    record_columns,
    refuse_repeated_names,
    take_rows,
)
from randsel._sklearn.base import (
    COUNT_OR_FRACTION,
    TARGET,
    HasMethods,
    Interval,
    Selector,
    StrOptions,
    Task,
    check_data,
    check_number_to_select,
    drop_unweighted_rows,
    fit_context,
    fit_task,
    ranking_attributes,
    warn_of_reordered_rows,
)
from randsel._utils.files import FinishedParts, check_arrays, open_checkpoint
from randsel._utils.jobs import as_finished, generator, seed_of
from randsel._utils.text import collect_warnings, warn
from randsel._utils.typing import Array
from randsel.selectors._randomised_lasso import RandomisedLasso
from randsel.targets import KINDS, bound_false_selections, check_outcome, find_kind, split_halves

#: Parameters on which the selections of the halves do not depend; a checkpoint may be resumed with others.
FREE_PARAMETERS = (
    "n_features_to_select",
    "n_subsamples",
    "threshold",
    "n_jobs",
    "random_state",
    "checkpoint",
    "selector",
)


class HalfMethod(Protocol):
    """A method that selects features on half of the samples."""

    def select(self, rows: Array, number: int, seed: int, task: Task) -> Array:
        """Return a mask (features, penalties) of the features selected on half `number`, and report it as the task.

        Methods without penalties have one column.
        """


@dataclass(frozen=True)
class FittedOnHalves:
    """A selector of the user, which is fitted on the rows of each half."""

    selector: Any
    X: Any
    y: Any
    metadata: dict[str, Any]  # further arguments of `fit`, one row per sample

    def select(self, rows: Array, number: int, seed: int, task: Task) -> Array:  # noqa: ARG002
        """Return a mask (features, 1) of the features selected on these rows."""
        rows = np.sort(rows)
        fitted = clone(self.selector)
        metadata = {name: take_rows(values, rows) for name, values in self.metadata.items()}
        reports = task.delegate_to(fitted) if hasattr(fitted, "set_callbacks") else nullcontext()
        with reports, task, collect_warnings():  # such as that nothing stands out in a half
            fitted.fit(take_rows(self.X, rows), take_rows(self.y, rows), **metadata)
        support = fitted.support_ if hasattr(fitted, "support_") else fitted.get_support()
        return np.asarray(support, dtype=bool)[:, None]


@dataclass(frozen=True)
class Problem:
    """The checked data of a fit, and the method that selects on each half."""

    method: HalfMethod
    columns: Array  # column of X of every feature of the method
    n_varying: int  # number of features that vary
    strata: Array  # this and the next two are as in `split_halves`
    groups: Array | None
    batch: Array | None
    hashed: tuple[Any, ...]  # arrays that identify the data


class StabilitySelection(Selector):
    """Select features that a method selects again and again on random halves of the samples.

    The method is a selector, or by default a randomised lasso (Meinshausen and Bühlmann 2010): on each half, every
    feature's penalty is divided by a random factor from [`weakness`, 1]. The selection probability of a feature is the
    fraction of halves where it is selected; with the lasso, where its coefficient is not zero, at the penalty where
    that is largest.

    Parameters
    ----------
    selector : estimator, default=None
        A selector of features that has `support_` or `get_support` once it is fitted, such as `RandSel(10)`: a copy of
        it is fitted on every half. None: the randomised lasso.
    n_features_to_select : int, float in (0, 1] or None, default=None
        Number or fraction of the features to select, by probability and then by its mean over the penalties. None:
        those of probability `threshold` or more; if there are none, the best one, with a warning.
    n_subsamples : int, default=100
        Number of random halves.
    complementary : bool or "auto", default="auto"
        Draw the halves in pairs that share no sample (Shah and Samworth 2013); `n_subsamples` is rounded up to even.
        "auto": with a selector.
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
        same on every half. Lower penalties select more features and weaken the bound. These four parameters and `scale`
        concern the lasso only.
    target, scale
        As in `BaHSIC`. With a selector, `target` only says whether halves hold half of every class; "auto" is that of
        the selector.
    n_jobs : int, default=None
        Number of jobs (joblib) over the halves. The result does not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of the halves and factors. The selector has its own seed.
    checkpoint : str, path or None, default=None
        Folder for finished halves, from which the same fit resumes after an interruption. A folder of other data or
        other parameters is refused; `threshold`, `n_features_to_select` and `n_subsamples` may change.

    Attributes
    ----------
    support_, ranking_, order_, n_features_
        As in `RandSel`; with the lasso, constant columns share the last rank.
    probabilities_ : ndarray of float
        Selection probability of each feature.
    expected_false_bound_ : float
        `q² / ((2 threshold - 1) n)`, where q is the mean number of features selected (at any penalty), of the n that
        vary. It bounds the expected number of irrelevant features of probability `threshold` or more, if the method is
        no worse than guessing and irrelevant features are exchangeable. For complementary pairs, it holds without that
        assumption for features of below-average probability instead of irrelevant ones.
    missing_counts_ : ndarray of int
        Number of missing values of every column; zeros if a selector gets a sparse matrix or a Dask array.

    Examples
    --------
    >>> from randsel import RandSel, StabilitySelection, datasets
    >>> X, y, relevant = datasets.make_weston_linear(200, 20, random_state=0)
    >>> StabilitySelection(random_state=0).fit(X, y).get_support(indices=True)
    array([1, 2, 4])

    The XOR of two features, which no linear model finds:

    >>> X, y, relevant = datasets.make_xor(200, 20, random_state=0)
    >>> stable = StabilitySelection(RandSel(2), n_subsamples=20, random_state=0).fit(X, y)
    >>> stable.get_support(indices=True)
    array([0, 1])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "selector": [HasMethods(["fit", "get_params"]), None],
        "n_features_to_select": [*COUNT_OR_FRACTION, None],
        "target": TARGET,
        "scale": ["boolean"],
        "n_subsamples": [Interval(Integral, 1, None, closed="left")],
        "complementary": ["boolean", StrOptions({"auto"})],
        "threshold": [Interval(Real, 0.5, 1, closed="right")],
        "weakness": [Interval(Real, 0, 1, closed="right")],
        "loss": [StrOptions({"lasso", "logistic"})],
        "n_lambdas": [Interval(Integral, 2, None, closed="left")],
        "lambda_min": [Interval(Real, 0, 1, closed="neither")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "checkpoint": [str, PathLike, None],
    }

    def __init__(
        self,
        selector: Any = None,
        *,
        n_features_to_select: int | float | None = None,
        n_subsamples: int = 100,
        complementary: bool | str = "auto",
        threshold: float = 0.6,
        weakness: float = 0.5,
        loss: str = "lasso",
        n_lambdas: int = 20,
        lambda_min: float = 0.25,
        target: str = "auto",
        scale: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
        checkpoint: str | PathLike[str] | None = None,
    ) -> None:
        self.selector = selector
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
        self.checkpoint = checkpoint

    @fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        batch: Any = None,
        covariates: Any = None,
    ) -> "StabilitySelection":
        """Select on many halves, and rank features by how often they are selected.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Anything that the selector takes and that has rows. The lasso needs numbers; missing values (NaN) are
            replaced by the mean of the column.
        y : array of shape (n_samples,) or (n_samples, n_outputs)
            Class labels, numbers, several columns of numbers, or events and times, as in `RandSel`.
        sample_weight : array of shape (n_samples,), default=None
            How much each sample counts. Passed on to the selector; refused if it takes none.
        groups : array of shape (n_samples,), default=None
            Samples of one group, such as a donor, are in one half. Passed on if the selector takes groups.
        batch : array of shape (n_samples,), default=None
            Halves hold half of every batch. Passed on if the selector takes batches.
        covariates : array or data frame of shape (n_samples, n_covariates), default=None
            Passed on to the selector; refused if it takes none. The lasso takes none.

        Returns
        -------
        StabilitySelection
            This estimator, fitted.
        """
        metadata = {"sample_weight": sample_weight, "groups": groups, "batch": batch, "covariates": covariates}
        prepare = self._lasso_problem if self.selector is None else self._selector_problem
        problem = prepare(X, y, metadata)
        n_to_select = None
        if self.n_features_to_select is not None:
            n_to_select = check_number_to_select(self.n_features_to_select, self.n_features_in_)
        with (
            self._open_checkpoint(problem) as (parts, seed),
            fit_task(self, self._count_halves(), in_order=False) as task,
        ):
            selected = self._select_on_halves(problem, seed, parts, task)
            self._set_results(problem, np.array(selected), n_to_select)
        return self

    def _lasso_problem(self, X: Any, y: Any, metadata: dict[str, Any]) -> Problem:
        if metadata["covariates"] is not None:
            raise ValueError(
                "covariates were passed, but the randomised lasso does not take them; leave them out, or use a "
                "selector that does, such as StabilitySelection(RandSel(10))."
            )
        X, y, kind, weights = check_data(self, X, y, metadata["sample_weight"], self.target)
        labels = _check_group_labels(metadata, weights, len(y))
        X, y, weights = drop_unweighted_rows(X, y, weights)
        y, kind = kind.to_numbers(y, weights)
        Z, varies = standardise(impute_means(X), weights, self.scale)
        order = canonical_order(Z)
        options = {name: getattr(self, name) for name in ("loss", "n_lambdas", "lambda_min", "weakness")}
        method = RandomisedLasso.from_data(Z[:, order].astype(np.float64), y, kind, weights, **options)
        columns = np.flatnonzero(varies)[order]
        # The lasso's halves are not stratified by class, as those of Meinshausen and Bühlmann.
        strata = np.zeros(len(y), dtype=int)
        return Problem(method, columns, len(columns), strata, *labels, (X, y, weights, *labels))

    def _selector_problem(self, X: Any, y: Any, metadata: dict[str, Any]) -> Problem:
        """Return the problem of fitting the selector, which checks the data itself."""
        if getattr(self.selector, "checkpoint", None) is not None:
            raise ValueError("the halves would share the checkpoint of the selector; set checkpoint here instead.")
        refuse_repeated_names(X)
        warn_of_reordered_rows(X, y)
        record_columns(self, X)
        if y is None:
            raise ValueError("StabilitySelection requires y to be passed, but the target y is None.")
        target = getattr(self.selector, "target", "auto") if self.target == "auto" else self.target
        target = target if target in KINDS else "auto"  # other selectors may have another parameter of this name
        outcome = check_outcome(y, target)
        strata = find_kind(outcome, target).strata(outcome)
        labels = _check_group_labels(metadata, None, len(outcome))
        accepted = accepted_metadata(self.selector, metadata, ("sample_weight", "covariates"))
        method = FittedOnHalves(self.selector, X, y, accepted)
        covariates = None
        if accepted.get("covariates") is not None:
            covariates = check_covariates(accepted["covariates"], len(outcome)).values
        weights = None if accepted.get("sample_weight") is None else np.asarray(accepted["sample_weight"])
        hashed = (*_arrays_of(X), outcome, weights, covariates, *labels)
        columns = np.arange(self.n_features_in_)
        self.missing_counts_, n_varying = _count_missing_and_varying(X, len(columns))
        return Problem(method, columns, n_varying, strata, *labels, hashed)

    @contextmanager
    def _open_checkpoint(self, problem: Problem) -> Iterator[tuple[FinishedParts, int]]:
        """Yield the finished halves, and the seed: of this fit or, when resuming, the stored one."""
        seed = seed_of(self.random_state)
        if self.checkpoint is None:
            yield FinishedParts(), seed
            return
        parameters = {name: value for name, value in self.get_params(deep=False).items() if name not in FREE_PARAMETERS}
        parameters["random_state"] = None if self.random_state is None else seed
        parameters["selector"] = None
        if self.selector is not None:
            settings = {name: repr(value) for name, value in self.selector.get_params().items()}
            settings.pop("n_jobs", None)
            parameters["selector"] = {"class": type(self.selector).__name__, **settings}
        data_hash = fingerprint(*problem.hashed)
        identity = {"estimator": "StabilitySelection", "data_hash": data_hash, "parameters": parameters}
        with open_checkpoint(self.checkpoint, identity, seed) as stored:
            yield stored.parts, stored.seed

    def _select_on_halves(self, problem: Problem, seed: int, parts: FinishedParts, task: Task) -> list[Array]:
        """Return a mask (features, penalties) of the selected features for every half."""
        halves = self._draw_halves(problem, seed)
        names = [f"half-{number:04d}" for number in range(len(halves))]

        def check(arrays: dict[str, Array]) -> None:
            check_arrays(arrays, {"selected": ("b", len(problem.columns), "penalties")})

        stored = {number: parts.load(name, check) for number, name in enumerate(names)}
        selected = {number: arrays["selected"] for number, arrays in stored.items() if arrays is not None}
        pending = [number for number in range(len(halves)) if number not in selected]
        calls = [(task.subtask("half", number=k), problem.method, halves[k], k, seed) for k in pending]
        for position, mask in as_finished(_select_on_half, calls, self.n_jobs):
            selected[pending[position]] = mask
            parts.save(names[pending[position]], {"selected": mask})
        return [selected[number] for number in range(len(halves))]

    def _draw_halves(self, problem: Problem, seed: int) -> list[Array]:
        """Return the rows of every half."""
        paired = self._is_complementary()
        halves = []
        for number in range(self._count_halves()):
            rng = generator(seed, 0, number // 2 if paired else number)
            pair = split_halves(problem.strata, problem.groups, problem.batch, rng)
            halves.append(pair[number % 2 if paired else 0])
        if min(map(len, halves)) == 0:
            raise ValueError(
                "half of the samples cannot be drawn: there are fewer than two samples, or two groups, of every class."
            )
        return halves

    def _is_complementary(self) -> bool:
        return self.selector is not None if self.complementary == "auto" else bool(self.complementary)

    def _count_halves(self) -> int:
        return self.n_subsamples + (self.n_subsamples % 2 if self._is_complementary() else 0)

    def _set_results(self, problem: Problem, selected: Array, n_to_select: int | None) -> None:
        """Set the attributes from masks (halves, features, penalties)."""
        frequencies = selected.mean(axis=0)
        probabilities = frequencies.max(axis=1)
        mean_size = float(selected.any(axis=2).sum(axis=1).mean())
        self.expected_false_bound_ = bound_false_selections(mean_size, self.threshold, problem.n_varying)
        if n_to_select is None:
            n_to_select = int((probabilities >= self.threshold).sum())
            if not n_to_select:
                warn(
                    f"No feature reaches the probability threshold={self.threshold:g}; the best one, which reaches "
                    f"{probabilities.max():.2f}, was selected. Do not read it as a finding.",
                    stacklevel=4,
                )
                n_to_select = 1
        order = np.lexsort((-frequencies.mean(axis=1), -probabilities))
        self.probabilities_ = np.zeros(self.n_features_in_)
        self.probabilities_[problem.columns] = probabilities
        self.__dict__.update(ranking_attributes(problem.columns[order], self.n_features_in_, n_to_select))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self.selector, "__sklearn_tags__"):
            tags.input_tags = get_tags(self.selector).input_tags
        return tags


def _select_on_half(task: Task, method: HalfMethod, rows: Array, number: int, seed: int) -> Array:
    return method.select(rows, number, seed, task)


def _check_group_labels(metadata: dict[str, Any], weights: Array | None, m: int) -> tuple[Array | None, Array | None]:
    """Return groups and batches as numbers from 0, without samples of weight zero."""
    groups, batch = (check_labels(metadata[name], name, weights, m) for name in ("groups", "batch"))
    return groups, batch


def _arrays_of(X: Any) -> tuple[Any, ...]:
    """Return arrays that hold all values of X and the names of its columns, if it has any."""
    if hasattr(X, "tocsr"):
        compressed = X.tocsr()
        return compressed.data, compressed.indices, compressed.indptr
    if remote_table(X) is not None:
        return (X,)
    values = np.asarray(X)
    return values, (np.array(list(map(str, X.columns))) if hasattr(X, "columns") else None)


def _count_missing_and_varying(X: Any, n_features: int) -> tuple[Array, int]:
    """Return the number of missing values of every column, and the number of columns that vary.

    If X is not an array or data frame in memory, nothing is counted as missing, and every column as varying.
    """
    no_missing = np.zeros(n_features, dtype=int)
    if hasattr(X, "tocsr") or remote_table(X) is not None:
        return no_missing, n_features
    if hasattr(X, "nunique"):  # missing values of pandas do not compare
        return np.asarray(X.isna().sum(axis=0), dtype=int), max(int((X.nunique().to_numpy() > 1).sum()), 1)
    values = np.asarray(X)
    missing = np.isnan(values).sum(axis=0) if values.dtype.kind == "f" else no_missing
    return missing, max(int((values != values[:1]).any(axis=0).sum()), 1)
