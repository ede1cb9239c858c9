"""`RandSel`: validates the data, culls features, and sets the results as attributes."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from randsel._numerics.arrays import check_device
from randsel._numerics.fingerprint import fingerprint
from randsel._numerics.kernels import FACTORS, median_factor
from randsel._numerics.missing import MAX_MISSING
from randsel._numerics.standardise import SCALE
from randsel._sklearn.annotations import check_strata, warn_of_explained_columns, warn_of_incomplete_columns
from randsel._sklearn.base import (
    COUNT_OR_FRACTION,
    TARGET,
    Interval,
    Selector,
    Steps,
    StrOptions,
    check_annotations,
    check_data,
    check_number_to_select,
    drop_unweighted_rows,
    fit_context,
    fit_task,
    ranking_attributes,
)
from randsel._utils.files import Checkpoint, open_checkpoint
from randsel._utils.jobs import one_blas_thread, seed_of
from randsel._utils.text import warn
from randsel._utils.typing import Array
from randsel.contribution import Draws, Sample, bootstrap, exact, row_blocks
from randsel.culling import (
    CRITERIA,
    DROP,
    MIN_FEATURES,
    NOISE_LEVEL,
    CullingPath,
    CullingState,
    FinishedRound,
    Observer,
    Round,
    Rules,
    cull,
    merge_functions,
    path_sizes,
    permutation_test,
    restore_state,
    save_state,
)
from randsel.selectors._features import (
    array_on_device_of,
    columns_to_keep,
    missing_values_follow,
    positions_to_keep,
    prepare_features,
)
from randsel.selectors._stand_ins import StandInsMixin
from randsel.targets import Annotations, OutcomeKind, Target

#: Number of entries of X below which BLAS threads cost more time than they save.
SMALL = 1 << 21
#: Estimators of the contribution.
ESTIMATORS = {"exact": exact, "bootstrap": bootstrap}
#: Parameters that the culling path depends on; a checkpoint is resumed only if all are equal.
PATH_PARAMETERS = (
    "estimator",
    "ridge",
    "kernel",
    "gamma",
    "drop",
    "min_features",
    "n_bootstraps",
    "subsample",
    "fix_top",
    "fix_after",
    "max_memory",
    "max_missing",
)


class RandSel(StandInsMixin, Selector):
    """Select features by their contribution to kernel-target alignment, culling round by round.

    Features that act on the target alone or together, linearly or not, contribute to the agreement between a Gaussian
    kernel on a random subset of features and the kernel of the target. Each round estimates the contributions of all
    features left, and culls those that contribute least.

    Parameters
    ----------
    n_features_to_select : int, float in (0, 1] or "auto", default="auto"
        Number or fraction of the features. "auto": the fewest features whose prediction error is within one standard
        error of the smallest along the path (see `CullingPath.errors`). With `estimator="bootstrap"`: the round whose
        features align best with y.
    estimator : {"exact", "bootstrap"}, default="exact"
        The closed form of the contribution, or the paper's Algorithm 1 by random subsets.
    criterion : {"auto", "combined", "residual", "total", "calibrated"}, default="auto"
        Scores by which rounds cull. "total" is the paper's contribution to the alignment with the target. "residual" is
        the contribution to what a ridge regression on the features left does not explain: redundant features share
        their contribution. "combined" adds the interaction score to it, on the scale of its spread. "calibrated" is the
        sum of the positive parts of the main and the interaction score; "combined" is "calibrated" if there is no
        residual (see `ridge`). "auto" is "combined", and "total" with `estimator="bootstrap"`, which has no other.
    ridge : float or "auto", default="auto"
        Penalty of the ridge regression of "combined" and "residual", in units of the mean eigenvalue of its kernel.
        "residual" approaches "total" as it grows. "auto": 3 if that regression on all features predicts left-out
        samples clearly better than their mean does; otherwise contributions refer to y itself.
    kernel : {"gaussian", "rank"}, default="gaussian"
        Input of the Gaussian kernel: the columns themselves, or four cosines of the ranks of each. Ranks detect
        effects and interactions that are symmetric about the middle of a column (a ring, for example), and do not
        depend on outliers or monotone transforms; they take about four times as long.
    gamma : float or str, default="median"
        Bandwidth, `exp(-gamma ‖x - x'‖²)`: "median" is one over the median squared distance over the features left,
        in each round; "0.5*median" a multiple of it; a number is used as it is.
    drop : float in (0, 1), default=0.25
        Fraction of the features culled per round, at least one.
    min_features : int, default=1
        Number of features at which the path ends.
    n_bootstraps, subsample : int, default=3000, and float in (0, 1], default=0.25
        Random subsets per round, and the fraction of the rows that each gets, without replacement (for a count s of m
        rows, `s / m`; at least 4). With `estimator="exact"` only the first matters, and only above 2000 samples: the
        closed form is then averaged over disjoint random blocks of about 1000 rows, at most `n_bootstraps` of them.
    fix_top, fix_after : float in (0, 1) or None, and int or None, default=None
        A feature in this top fraction for this many consecutive rounds is never dropped, and enters every subset.
    always_keep : list of str or int, or mask of features, default=None
        Features, such as known markers, that enter every subset, are never dropped, are always selected and come first
        in `order_`, as listed. The others are ranked by what they add to them. Names need a data frame.
    target : {"auto", "classification", "regression", "survival"}, default="auto"
        Kind of y. "auto" treats text, and whole numbers of at most 4 distinct values, as classes, events and times as
        survival, and anything else as numbers. It warns about whole numbers that could be codes of 5 to 20 classes.
        Survival becomes martingale residuals of a model without features, with covariates and a hazard per batch.
    scale : bool, "rank", "normal" or "auto", default="auto"
        "normal": normal scores, the normal quantiles of the ranks (midranks for ties). "rank": the sum of ranks and
        normal scores, which shows joint effects better. With either, increasing transforms of columns, such as the
        logarithm, change nothing, and outliers change little. True: z-scores. False: columns are centred only, and
        those of large values dominate the distances. "auto" is "rank", and True with `estimator="bootstrap"`.
    max_missing : float in [0, 1], default=0.5
        Columns with a larger fraction of missing values are left out, with a warning, and rank last.
    max_memory : int or str, default=None
        Bytes ("2GB", "500MB") that the computation may use in addition to X. A larger table is read in blocks of
        columns, in every round until the features left fit: pass X as a memory map of float32 or float64 (other types,
        and rows of weight zero, need a copy first). None: no limit.
    device : str or None, default=None
        Device of the computation: "cpu", "cuda", "cuda:1". None: the device of X. Tensors on a device need
        scikit-learn's `set_config(array_api_dispatch=True)`.
    n_jobs : int, default=None
        Number of jobs (joblib) over bootstraps or row blocks; no effect on the result.
    random_state : int, RandomState or None, default=None
        Seed of bootstraps and row blocks. The exact estimator on up to 2000 samples is not random.
    checkpoint : str, path or None, default=None
        Folder for finished rounds. If the fit is interrupted, the same fit resumes from there and ends with the same
        result; only the current round and rounds of the last five seconds are lost. A folder of other data or other
        parameters is refused; `n_features_to_select`, `n_jobs` and `verbose` may change.
    verbose : int or callable, default=0
        1 writes a line per round to standard error; a function is called with each finished `Round` (with
        `kernel="rank"`, after the last round).

    Attributes
    ----------
    support_ : ndarray of bool
        The selected features.
    ranking_ : ndarray of int
        1 for selected features, 2 for the one culled last, and so on. Constant columns, and those with too many missing
        values, share the last rank.
    order_ : ndarray of int
        All columns, best first: survivors by score, then the culled, last culled first; constant columns at the end.
    contributions_ : ndarray of float
        The contribution of a selected feature in the round that was selected (the last one that all selected features
        entered), and of another feature in the last round that it entered.
    main_scores_, interaction_scores_ : ndarray of float
        Standard scores of what the feature does alone and together with others, in that round (NaN with "bootstrap").
        With a criterion of residuals, they refer to the residual of that round. They are not tests; for p-values
        of features and pairs, use `InteractionScan`.
    permutation_pvalue_ : float
        P-value of the hypothesis that no feature is related to y, by 99 permutations of y (within batches, of whole
        groups): of the best feature or of all features, whichever is smaller, corrected for this choice.
    stands_out_ : bool
        Whether the features stand out from noise: the p-value is at most 0.02, or some round aligns better with y than
        culled independent noise would. The second rule is not used with groups, batches or covariates, nor for rounds
        of features with rare levels or extreme values. If neither holds, the fit warns, and the selection should not
        be read as a finding.
    path_ : CullingPath
        The rounds: features, contributions, scores, dropped, fixed, gamma, alignment, ridge.
    fixed_, n_features_ : ndarray of int, int
        Features that were fixed, and number of selected features.
    missing_counts_ : ndarray of int
        Number of missing values of every column.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from randsel import RandSel, datasets
    >>> X, y, relevant = datasets.make_xor(300, 100, random_state=0)
    >>> RandSel().fit(X, y).get_support(indices=True)
    array([0, 1])
    """

    _reads_sparse_blocks = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_features_to_select": [*COUNT_OR_FRACTION, StrOptions({"auto"})],
        "estimator": [StrOptions(set(ESTIMATORS))],
        "criterion": [StrOptions({"auto", *CRITERIA})],
        "ridge": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "kernel": [StrOptions(set(FACTORS))],
        "gamma": [Interval(Real, 0, None, closed="neither"), str],
        "drop": [Interval(Real, 0, 1, closed="neither")],
        "min_features": [Interval(Integral, 1, None, closed="left")],
        "n_bootstraps": [Interval(Integral, 1, None, closed="left")],
        "subsample": [Interval(Real, 0, 1, closed="right")],
        "fix_top": [Interval(Real, 0, 1, closed="neither"), None],
        "fix_after": [Interval(Integral, 1, None, closed="left"), None],
        "always_keep": ["array-like", None],
        "target": TARGET,
        "scale": ["boolean", StrOptions({"auto", "rank", "normal"})],
        "max_missing": [Interval(Real, 0, 1, closed="both")],
        "max_memory": [Interval(Integral, 1, None, closed="left"), str, None],
        "device": [str, None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "checkpoint": [str, PathLike, None],
        "verbose": ["verbose", callable],
    }

    def __init__(
        self,
        n_features_to_select: int | float | str = "auto",
        *,
        estimator: str = "exact",
        criterion: str = "auto",
        ridge: float | str = "auto",
        kernel: str = "gaussian",
        gamma: float | str = "median",
        drop: float = DROP,
        min_features: int = MIN_FEATURES,
        n_bootstraps: int = 3000,
        subsample: float = 0.25,
        fix_top: float | None = None,
        fix_after: int | None = None,
        always_keep: Any = None,
        target: str = "auto",
        scale: bool | str = "auto",
        max_missing: float = MAX_MISSING,
        max_memory: int | str | None = None,
        device: str | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        checkpoint: str | PathLike[str] | None = None,
        verbose: int | Callable[[Round], None] = 0,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.estimator = estimator
        self.criterion = criterion
        self.ridge = ridge
        self.kernel = kernel
        self.gamma = gamma
        self.drop = drop
        self.min_features = min_features
        self.n_bootstraps = n_bootstraps
        self.subsample = subsample
        self.fix_top = fix_top
        self.fix_after = fix_after
        self.always_keep = always_keep
        self.target = target
        self.scale = scale
        self.max_missing = max_missing
        self.max_memory = max_memory
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        batch: Any = None,
        covariates: Any = None,
    ) -> "RandSel":
        """Rank and select features.

        Parameters
        ----------
        X : array, data frame, sparse matrix or Dask array of shape (n_samples, n_features)
            Numbers. A missing value (NaN) is neutral: it counts as the mean of its column on the scale of `scale`. A
            Dask array may be in blocks of columns or of rows; blocks of columns are best. A sparse matrix of scipy is
            made dense if that takes at most 256 MB or fits into `max_memory`, and is read in blocks otherwise.
        y : array of shape (n_samples,) or (n_samples, n_outputs)
            Class labels, numbers, several columns of numbers, or survival: a structured array of events (bool) and
            times, as in scikit-survival, or a data frame of these two columns.
        sample_weight : array of shape (n_samples,), default=None
            How much each sample counts; samples of weight zero are left out.
        groups : array of shape (n_samples,), default=None
            Samples of one group, such as a donor, are not independent: prediction errors leave out whole groups, and
            the permutation test exchanges the outcomes of whole groups, permutes within groups, or does both. A single
            group is ignored.
        batch : array of shape (n_samples,), default=None
            Differences between batches, such as plates, are removed from features and y; permutations of y stay within
            batches. Prediction errors leave out small batches, such as the samples of a donor, as a whole. A single
            batch is ignored.
        covariates : array or data frame of shape (n_samples,) or (n_samples, n_covariates), default=None
            Variables whose effects are removed from features and y, such as age: numbers, of which smooth functions are
            removed, or categories as text.

        Returns
        -------
        RandSel
            This estimator, fitted.
        """
        criterion, rules = CRITERIA[self._criterion()], self._rules()
        X, y, kind, weights = check_data(self, X, y, sample_weight, self.target)
        annotations = check_annotations(groups, batch, covariates, weights, len(y))
        X, y, weights = drop_unweighted_rows(X, y, weights)
        y, kind = kind.to_numbers(y, weights, annotations.batch, annotations.covariate_columns)
        if annotations.batch is not None:
            check_strata(y, annotations.batch, "batch")
        nuisance = annotations.nuisance(len(y), weights)
        n_to_select = check_number_to_select(self.n_features_to_select, X.shape[1])
        columns_to_keep(self, n_to_select)  # raises an error if `always_keep` is wrong, before anything is computed
        seed = seed_of(self.random_state)
        checkpoint = self._open_checkpoint(X, y, weights, annotations, kind, seed)
        Z, columns = prepare_features(self, X, self._scale(), weights, nuisance)
        if self.missing_counts_.any():
            warn_of_incomplete_columns(self, self.missing_counts_, len(y))
        if nuisance is not None:
            warn_of_explained_columns(X, getattr(self, "feature_names_in_", None), columns)
        always_kept, fixed = positions_to_keep(self, columns), np.zeros(len(columns), dtype=bool)
        fixed[always_kept] = True
        rules = replace(rules, explain_fixed=bool(fixed.any()))
        target = Target.encode(y, kind, weights, annotations.groups, nuisance, annotations.units)
        independent = annotations.are_none and not missing_values_follow(self, X, target.Y)
        del X  # validation may have made a copy
        target = target.on_device_of(array_on_device_of(Z))
        sample = Sample.from_columns(Z, target, fixed, FACTORS[self.kernel])
        del Z
        noise_pvalue = permutation_test(sample, annotations.batch, annotations.covariates, y)
        preparation = self._prepare_culling(sample, columns, always_kept, n_to_select, checkpoint, seed)
        with preparation as (state, draws, observers):
            path = cull(state, criterion, ESTIMATORS[self.estimator], rules, draws, observers)
            path = replace(
                self._name_features(path, columns),
                noise_pvalue=noise_pvalue,
                independent=independent,
            )
            self.__dict__.update(self._results(path, n_to_select))
        if not path.stands_out:
            _warn_that_nothing_stands_out(path)
        return self

    @property
    def contributions_(self) -> Array:
        """The contribution in the selected round, or in the last round that the feature entered."""
        return self._last_values("contributions")

    @property
    def main_scores_(self) -> Array:
        """Standard scores of what the feature does alone, in that round."""
        return self._last_values("main")

    @property
    def interaction_scores_(self) -> Array:
        """Standard scores of what the feature does together with others, in that round."""
        return self._last_values("interaction")

    def _last_values(self, name: str) -> Array:
        check_is_fitted(self)
        path: CullingPath = self.path_
        return path.last_values(name, self.n_features_in_, min(self.n_features_, len(path.order)))

    def _open_checkpoint(
        self, X: Any, y: Array, weights: Array | None, annotations: Annotations, kind: OutcomeKind, seed: int
    ) -> AbstractContextManager[Checkpoint | None]:
        """Return a context that opens the checkpoint of this fit, or yields None without a folder."""
        if self.checkpoint is None:
            return nullcontext()
        parameters = {name: getattr(self, name) for name in PATH_PARAMETERS}
        parameters |= {"criterion": self._criterion(), "scale": self._scale(), "target": kind.name}
        parameters["always_keep"] = columns_to_keep(self)
        parameters["device"] = check_device(self.device, X)
        parameters["random_state"] = None if self.random_state is None else seed
        data_hash = fingerprint(X, y, weights, *annotations.arrays())
        identity = {"estimator": "RandSel", "data_hash": data_hash, "parameters": parameters}
        return open_checkpoint(self.checkpoint, identity, seed)

    @contextmanager
    def _prepare_culling(
        self,
        sample: Sample,
        columns: Array,
        always_kept: list[int],
        n_to_select: int | None,
        checkpoint: AbstractContextManager[Checkpoint | None],
        seed: int,
    ) -> Iterator[tuple[CullingState, Draws, list[Observer]]]:
        """Yield the state to cull from, the draws, and the observers of rounds: `verbose`, callbacks, checkpoint."""
        rows, n = sample.X.shape
        n_rounds = len(path_sizes(n, self.drop, max(self.min_features, len(always_kept))))
        with checkpoint as stored, fit_task(self, n_rounds) as task, one_blas_thread(rows * n < SMALL):
            draws = Draws(self.n_bootstraps, self.subsample, seed if stored is None else stored.seed, self.n_jobs)
            steps = Steps(task)
            n_blocks = _blocks_per_round(self.estimator, sample.target, draws) if task.has_callbacks else 0
            if n_blocks:
                draws = replace(draws, on_block=steps.block_done)
            state, observers = CullingState.start(sample, draws, always_kept), list[Observer]()
            show = self.verbose if callable(self.verbose) else _write_round if self.verbose else None
            if show is not None and self.kernel != "rank":
                observers.append(lambda finished: show(finished.round.to_host().relabel(columns)))
            steps.begin("round", n_blocks)
            observers.append(partial(self._report_round, steps, n_blocks, columns, n_to_select))
            if stored is not None:
                stages = stored.stages("rounds")
                arrays = stages.load_latest()
                state = state if arrays is None else restore_state(arrays, state)
                observers.append(partial(save_state, stages))
            yield state, draws, observers
            # Rounds of rank functions become rounds of features only when the path is complete.
            if show is not None and self.kernel == "rank":
                for r in self.path_.rounds:
                    show(r)

    def _report_round(
        self, steps: Steps, n_blocks: int, columns: Array, n_to_select: int | None, finished: FinishedRound
    ) -> bool:
        """Report the end of a round, with the results so far; return whether a callback asks to stop."""
        stop = steps.end(lambda: self._results(self._name_features(finished.path(), columns), n_to_select))
        if finished.next_state is not None and not stop:
            steps.begin("round", n_blocks)
        return stop

    def _name_features(self, path: CullingPath, columns: Array) -> CullingPath:
        """Return the path with the columns of X as features."""
        return merge_functions(path, columns, self.min_features) if self.kernel == "rank" else path.relabel(columns)

    def _results(self, path: CullingPath, n_to_select: int | None) -> dict[str, Any]:
        """Return the attributes of the fitted estimator."""
        n_to_select = len(path.best_round.features) if n_to_select is None else n_to_select
        return {
            **ranking_attributes(path.order, self.n_features_in_, n_to_select),
            "path_": path,
            "fixed_": path.fixed,
            "stands_out_": path.stands_out,
            "permutation_pvalue_": path.noise_pvalue,
        }

    def _rules(self) -> Rules:
        """Return the rules of culling; raise ValueError if parameters contradict each other."""
        if isinstance(self.gamma, str):
            median_factor(self.gamma)
        if (self.fix_top is None) != (self.fix_after is None):
            raise ValueError(f"fix_top={self.fix_top} and fix_after={self.fix_after}: fixing needs both, or neither.")
        ridge = None if self.ridge == "auto" else float(self.ridge)
        return Rules(self.drop, self.min_features, self.fix_top, self.fix_after, self.gamma, ridge)

    def _scale(self) -> bool | str:
        """Return the scaling of columns; "auto" depends on the estimator."""
        return (self.estimator == "bootstrap" or SCALE) if self.scale == "auto" else self.scale

    def _criterion(self) -> str:
        """Return the name of the criterion; "auto" depends on the estimator."""
        if self.criterion == "auto":
            return "combined" if self.estimator == "exact" else "total"
        if CRITERIA[self.criterion].needs_exact and self.estimator != "exact":
            raise ValueError(
                f"criterion={self.criterion!r} needs estimator='exact'; the bootstrap estimates the total only."
            )
        return self.criterion


def _blocks_per_round(estimator: str, target: Target, draws: Draws) -> int:
    """Return how often `draws.on_block` is called in a round; 0 where a round is one block."""
    n_blocks = draws.n_batches if estimator == "bootstrap" else len(row_blocks(target, draws))
    return n_blocks if n_blocks > 1 else 0


def _warn_that_nothing_stands_out(path: CullingPath) -> None:
    rounds = ", and no round aligns with y better than noise would" if path.independent else ""
    warn(
        f"Nothing stands out: the permutation test of correlations with y has p = {path.noise_pvalue:.2g} (limit "
        f"{NOISE_LEVEL}){rounds}. Do not read this selection as a finding; InteractionScan tests pairs of features as "
        "well.",
        stacklevel=4,
    )


def _write_round(r: Round) -> None:
    sys.stderr.write(f"[RandSel] {len(r.features)} features, alignment {r.alignment:.4f}, gamma {r.gamma:.3g}\n")
