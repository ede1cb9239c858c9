"""`InteractionScan`: validates the data, tests features and pairs, and sets the results as attributes."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from math import comb
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar

import numpy as np
from scipy.stats import false_discovery_control
from sklearn.utils.validation import check_is_fitted

from randsel._numerics.arrays import check_device, remote_table, to_numpy
from randsel._numerics.fingerprint import fingerprint
from randsel._numerics.missing import MAX_MISSING
from randsel._numerics.nuisance import Covariates
from randsel._numerics.rank_functions import RankFunctions
from randsel._sklearn.base import (
    COUNT_OR_FRACTION,
    TARGET,
    Interval,
    Selector,
    Steps,
    StrOptions,
    categories_to_codes,
    check_data,
    check_number_to_select,
    fit_context,
    fit_task,
    ranking_attributes,
)
from randsel._utils.files import NO_CHECKPOINT, Checkpoint, open_checkpoint
from randsel._utils.text import optional, warn
from randsel._utils.typing import Array
from randsel.interactions import (
    DEFAULT_DECAY,
    LEVEL,
    Design,
    ScanResult,
    default_functions,
    functions_in_triples,
    max_functions,
    pairs_with_covariates,
    scan_interactions,
)
from randsel.selectors._rank_tests import check_tested_data, prepare_tests

#: Number of pairs that are reported by default.
DEFAULT_PAIRS = 1000
#: Step of the scan -> name of its subtasks.
SUBTASKS = {"pairs": "tile", "triples": "first feature", "forward steps": "forward step"}
#: Maximum number of multiplications in a scan of triples; `make bench-wide` measures 2e12.
TRIPLE_BUDGET = 1e13


class InteractionScan(Selector):
    """Test every feature alone and every pair of features, and select features at a false discovery rate.

    Features enter by their ranks, so monotone transforms and outliers do not matter. The null hypothesis is that the
    target is exchangeable between samples; the tests look for dependence on a few smooth functions of each feature,
    and on the products of the functions of two features. Main effects are removed before pairs are tested. Numbers in
    y are tested by their ranks, and also as they are if that differs much.

    Parameters
    ----------
    n_features_to_select : int or float in (0, 1], default=None
        Number or fraction of features to select.
    alpha : float in (0, 1), default=None
        Select only features whose q-value is at most this. Default: 0.05, if `n_features_to_select` is None; if both
        are given, both apply.
    n_functions : int or "auto", default="auto"
        Functions of each feature. More functions resolve finer structure; fewer have more power for smooth effects.
        "auto" is six, or fewer below 145 samples.
    decay : float in (0, 1], default=0.9
        Weight of each function relative to the previous one.
    order : {1, 2, 3}, default=2
        Size of the largest sets of features to test: 1 tests main effects only, 3 also tests all triples, if they are
        few enough.
    n_pairs : int, default=None
        Number of pairs (and triples) to report. Memory grows with it. Default: 1000, or all if there are fewer.
    categorical_features : "from_dtype", array of names, indices or bool, or None, default="from_dtype"
        Columns whose values are names of levels, without order. "from_dtype": the categorical columns of a data frame.
        Columns of few distinct numbers need not be listed: their order is used.
    with_covariates : bool, default=False
        Also test what every feature does together with every covariate of `fit`.
    max_missing : float in [0, 1], default=0.5
        Columns with a larger fraction of missing values are left out, with a warning, and rank last.
    target : {"auto", "classification", "regression", "survival"}, default="auto"
        Kind of y. "auto" treats text, and whole numbers of at most 4 distinct values, as classes, events and times as
        survival, and anything else as numbers. It warns about whole numbers that could be codes of 5 to 20 classes.
        Survival becomes martingale residuals of a model without features, with covariates and a hazard per batch.
    device : str or None, default=None
        Device of rank functions, scan and tests: "cpu", "cuda", "cuda:1". None: the device of X, as in `RandSel`. A GPU
        scans in half precision; the best pairs are then tested in single precision, as on the host.
    n_jobs : int, default=None
        Number of threads. The result does not depend on it.
    checkpoint : str, path or None, default=None
        Folder for the state of the scan of pairs and triples. After an interruption, the same fit resumes from it with
        the same result; lost are the current row of tiles (512 features with all later ones, more on a GPU) and the
        last five seconds of work. A folder of other data or parameters is refused; `n_features_to_select`, `alpha`,
        `n_jobs` and `verbose` may change.
    verbose : int or callable, default=0
        1 writes the progress of the scan to standard error; a function is called with the numbers of tiles done and in
        total.

    Attributes
    ----------
    pvalues_, qvalues_ : ndarray of float
        Per feature: p-value of its main effect or its best pair, corrected for the number of tests; q-values of
        Benjamini and Hochberg. They control false discoveries of association: a feature with a low q may only be a
        proxy of one that acts on y. `taken_` lists features that are significant given those before them.
    main_pvalues_ : ndarray of float
        P-values of the main effects, not corrected.
    residual_scores_ : ndarray of float
        How strong a feature and its best pair are in the residual of the forward selection. The scores rank features;
        they are not logarithms of valid p-values.
    partner_ : ndarray of int
        Partner of each feature in its best pair; -1 if it is in none.
    partner_pvalues_ : ndarray of float
        P-value of that pair, not corrected.
    pairs_ : structured ndarray
        Best pairs: `i`, `j`, `statistic`, `p`, `p_corrected` (for the number of all pairs), and `step`, the forward
        step that selected the pair (0: none, because other features or pairs explain it).
    triples_ : structured ndarray
        Best triples, with `k` in addition, if `order=3`.
    covariate_pairs_ : structured ndarray
        With `with_covariates`, the best pairs of a covariate and a feature: `covariate` (its name), `j`, `p`, and
        `p_corrected` for the number of these pairs.
    taken_ : ndarray of int
        Features in the order in which forward steps selected them: each was significant, after correction for all
        tests, in the residual of those before it.
    top_ : ndarray of int
        First 20 features of the ranking by evidence.
    top_pvalues_ : ndarray of float
        P-values of all pairs of these, with their main effects on the diagonal; not corrected.
    support_, ranking_, order_ : ndarray
        Mask of the selected features; rank 1 for those and 2, 3, … for the others; all columns, best first: the
        features of `taken_`, then the others by `pvalues_` and `residual_scores_`.
    n_features_, n_functions_ : int
        Number of selected features, and of functions per feature.
    missing_counts_ : ndarray of int
        Number of missing values of every column.
    comparison_ : str
        What the tests compare: "samples", "between groups", "within groups" or "mixed".
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from randsel import InteractionScan, datasets
    >>> X, y, relevant = datasets.make_xor(250, 500, random_state=1)
    >>> scan = InteractionScan().fit(X, y)
    >>> scan.get_support(indices=True), scan.partner_[0]
    (array([0, 1]), np.int64(1))
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_features_to_select": [*COUNT_OR_FRACTION, None],
        "alpha": [Interval(Real, 0, 1, closed="neither"), None],
        "n_functions": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "decay": [Interval(Real, 0, 1, closed="right")],
        "order": [Interval(Integral, 1, 3, closed="both")],
        "n_pairs": [Interval(Integral, 1, None, closed="left"), None],
        "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
        "with_covariates": ["boolean"],
        "max_missing": [Interval(Real, 0, 1, closed="both")],
        "target": TARGET,
        "device": [str, None],
        "n_jobs": [Integral, None],
        "checkpoint": [str, PathLike, None],
        "verbose": ["verbose", callable],
    }

    def __init__(
        self,
        n_features_to_select: int | float | None = None,
        *,
        alpha: float | None = None,
        n_functions: int | str = "auto",
        decay: float = DEFAULT_DECAY,
        order: int = 2,
        n_pairs: int | None = None,
        categorical_features: Any = "from_dtype",
        with_covariates: bool = False,
        max_missing: float = MAX_MISSING,
        target: str = "auto",
        device: str | None = None,
        n_jobs: int | None = None,
        checkpoint: str | PathLike[str] | None = None,
        verbose: int | Callable[[int, int], None] = 0,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.alpha = alpha
        self.n_functions = n_functions
        self.decay = decay
        self.order = order
        self.n_pairs = n_pairs
        self.categorical_features = categorical_features
        self.with_covariates = with_covariates
        self.max_missing = max_missing
        self.target = target
        self.device = device
        self.n_jobs = n_jobs
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
    ) -> "InteractionScan":
        """Test and select features.

        Parameters
        ----------
        X : array, data frame or Dask array of shape (n_samples, n_features)
            Numbers, or categories of a data frame. A missing value (NaN) is neutral: the functions of its column are
            zero there, the mean over the observed values.
        y : array of shape (n_samples,) or (n_samples, n_outputs)
            Class labels, numbers, several columns of numbers, or survival: a structured array of events (bool) and
            times, as in scikit-survival, or a data frame of these two columns.
        sample_weight : array of shape (n_samples,), default=None
            Weights of the samples; samples of weight zero are left out.
        groups : array of shape (n_samples,), default=None
            Samples of one group, such as a donor, are not independent. If y is constant in every group, the samples of
            each group are averaged and groups are compared. If y varies in every group, samples are compared within
            groups. If y varies in some groups only, sums over groups are tested. `comparison_` says which.
        batch : array of shape (n_samples,), default=None
            Strata, such as plates or sub-studies. The target is compared within batches only, so differences between
            them are not evidence.
        covariates : array or data frame of shape (n_samples,) or (n_samples, n_covariates), default=None
            Variables whose effects are removed from y and from the functions of all features, such as age: numbers, or
            categories as text. Numbers are removed as smooth functions.

        Returns
        -------
        InteractionScan
            This estimator, fitted.
        """
        X, categorical = categories_to_codes(X)
        checked = check_data(self, X, y, sample_weight, self.target)
        data = check_tested_data(self, checked, categorical, groups, batch, covariates)
        X, device = self._check_device(data.X)
        n_features, n_selected = X.shape[1], self.n_features_to_select
        n_selected = None if n_selected is None else check_number_to_select(n_selected, n_features)
        prepared = prepare_tests(self, replace(data, X=X), self._check_n_functions, float(self.decay), device)
        functions, columns, samples, kind = prepared.functions, prepared.columns, prepared.samples, data.kind
        design = prepared.design
        self.n_functions_ = len(design.function_weights)
        self._check_sizes(len(samples.X), len(columns))
        n_pairs = self.n_pairs or DEFAULT_PAIRS
        opening: AbstractContextManager[Checkpoint] = nullcontext(NO_CHECKPOINT)
        if self.checkpoint is not None:
            parameters = {"functions": self.n_functions_, "decay": self.decay, "order": self.order, "device": device}
            parameters |= {"n_pairs": n_pairs, "target": kind.name, "max_missing": self.max_missing}
            nuisance, clusters = samples.nuisance, samples.clusters
            outcome = samples.y, samples.weights, nuisance.strata, nuisance.basis, clusters, data.nominal
            data_hash = fingerprint(samples.X, *outcome)
            identity = {"estimator": "InteractionScan", "data_hash": data_hash, "parameters": parameters}
            opening = open_checkpoint(self.checkpoint, identity)
        with opening as checkpoint, fit_task(self, self.order + 1) as task:
            steps = Steps(task)
            progress = partial(self._report_progress, steps)
            result = scan_interactions(functions, design, n_pairs, self.order, progress, checkpoint)
            steps.end()
            self._set_attributes(result, columns, n_features)
            self._test_with_covariates(functions, samples.covariates, design, columns)
            self._select(columns[result.order], n_features, n_selected)
        return self

    def _check_device(self, X: Any) -> tuple[Any, str | None]:
        """Return X, in memory unless it is remote, and the device to compute on."""
        if remote_table(X) is None:
            return to_numpy(X), check_device(self.device, X)
        if self.order == 3 or self.device not in (None, "cpu"):
            raise ValueError(
                "A Dask array needs order=1 or 2 and no device; for other choices pass an array in memory."
            )
        return X, None

    def _check_n_functions(self, freedom: int) -> int:
        """Return the number of functions per feature; warn if the samples do not allow as many as requested."""
        if self.n_functions == "auto":
            return default_functions(freedom)
        requested, limit = int(self.n_functions), max_functions(freedom)
        if requested > limit:
            warn(
                f"n_functions={requested} makes {requested**2} products of two features, too many for {freedom} "
                f"degrees of freedom; {limit} are used.",
                stacklevel=4,
            )
        return min(requested, limit)

    def _check_sizes(self, m: int, n: int) -> None:
        """Refuse a scan of too many triples, and warn if there are fewer pairs than requested."""
        if self.order > 1 and self.n_pairs is not None and self.n_pairs > comb(n, 2):
            warn(
                f"n_pairs={self.n_pairs} but {n} features that vary make {comb(n, 2)} pairs; all are reported.",
                stacklevel=4,
            )
        work = comb(n, 3) * m * functions_in_triples(m, self.n_functions_) ** 3
        if self.order == 3 and work > TRIPLE_BUDGET:
            max_features = int(n * (TRIPLE_BUDGET / work) ** (1 / 3))
            raise ValueError(
                f"order=3 on {n} features and {m} samples means {comb(n, 3)} triples and {work:.1e} multiplications, "
                f"more than the budget of {TRIPLE_BUDGET:.0e}; select at most {max_features} features first, or use "
                "order=2."
            )

    def _report_progress(self, steps: Steps, step: str, done: int, total: int) -> None:
        """Tell callbacks and `verbose` how far the scan is."""
        if step != steps.name:
            steps.end()
            steps.begin(step, total, SUBTASKS.get(step, ""))
        for _ in range(done - steps.n_done):
            steps.block_done()
        show = self.verbose if callable(self.verbose) else _write_progress if self.verbose else None
        if show is not None and step == "pairs" and done:
            show(done, total)

    def _set_attributes(self, result: ScanResult, columns: Array, n_features: int) -> None:
        def for_all_columns(values: Array, missing: float) -> Array:
            full = np.full(n_features, missing, dtype=values.dtype)
            full[columns] = values
            return full

        self.pvalues_ = for_all_columns(np.exp(result.log_p), 1.0)
        self.residual_scores_ = for_all_columns(np.maximum(-result.residual_log_p, 0.0), 0.0)
        self.qvalues_ = np.asarray(false_discovery_control(self.pvalues_))
        self.main_pvalues_ = for_all_columns(np.exp(np.minimum(result.main.log_p, 0.0)), 1.0)
        partner, log_p = result.partners()
        self.partner_ = for_all_columns(np.where(partner >= 0, columns[partner], -1), -1)
        self.partner_pvalues_ = for_all_columns(np.exp(log_p), 1.0)
        self.taken_ = columns[result.taken]
        self.top_ = columns[result.order[: len(result.top_log_p)]]
        self.top_pvalues_ = np.exp(np.minimum(result.top_log_p, 0.0))
        self.pairs_ = result.table(2, self.n_pairs or DEFAULT_PAIRS, columns)
        self.__dict__.pop("triples_", None)
        if self.order == 3:
            self.triples_ = result.table(3, self.n_pairs or DEFAULT_PAIRS, columns)

    def _test_with_covariates(
        self, functions: Any, covariates: Covariates | None, design: Design, columns: Array
    ) -> None:
        """Set `covariate_pairs_` if `with_covariates` is set."""
        self.__dict__.pop("covariate_pairs_", None)
        if not self.with_covariates:
            return
        if covariates is None or not isinstance(functions, RankFunctions):
            raise ValueError("with_covariates=True needs covariates in fit, and a table in memory.")
        log_p = pairs_with_covariates(functions, covariates, design)
        best = np.argsort(log_p, axis=None, kind="stable")[: self.n_pairs or DEFAULT_PAIRS]
        covariate, feature = np.unravel_index(best, log_p.shape)
        names = np.array(covariates.names)[covariate]
        fields = [("covariate", names.dtype), ("j", np.intp), ("p", float), ("p_corrected", float)]
        pairs = np.zeros(len(best), dtype=fields)
        pairs["covariate"], pairs["j"], pairs["p"] = names, columns[feature], np.exp(log_p.ravel()[best])
        pairs["p_corrected"] = np.minimum(pairs["p"] * log_p.size, 1.0)
        self.covariate_pairs_ = pairs

    def _select(self, order: Array, n_features: int, n_selected: int | None) -> None:
        """Select the first `n_selected` features, those with q-values of at most alpha, or those that fulfil both."""
        alpha = LEVEL if self.alpha is None and n_selected is None else self.alpha
        first = order if n_selected is None else order[:n_selected]
        selected = first if alpha is None else first[self.qvalues_[first] <= alpha]
        if n_selected is not None and alpha is not None and len(selected) < n_selected:
            warn(
                f"{len(selected)} features are selected, not {n_selected}: only those of the first {n_selected} with a "
                f"q-value of at most {alpha:g}; leave alpha out to get {n_selected} whatever their q-values.",
                stacklevel=4,
            )
            n_selected = len(selected)
        order = np.concatenate([selected, order[~np.isin(order, selected)]])
        n_to_select = len(selected) if n_selected is None else n_selected
        self.__dict__.update(ranking_attributes(order, n_features, n_to_select))

    def _list_more_results(self) -> dict[str, Array]:
        """Return the partner of each feature, if their pair is significant after correction for all pairs."""
        n_pairs = comb(self.n_features_in_, 2)
        significant = (self.partner_ >= 0) & (self.partner_pvalues_ * n_pairs <= LEVEL)
        return {"partner": np.where(significant, self._names()[self.partner_], "").astype(object)}

    def pairs_to_frame(self) -> Any:
        """Return the best pairs, and triples if `order=3`, as a pandas data frame with the names of features.

        Returns
        -------
        pandas.DataFrame
            `feature`, `partner` (and `third`), `statistic`, `p`, `p_corrected`, `step`, as in `pairs_` and `triples_`.
        """
        check_is_fitted(self)
        pandas = optional("pandas", extra="pandas", purpose="pairs_to_frame")
        names, titles = self._names(), {"i": "feature", "j": "partner", "k": "third"}
        frames = []
        for rows in (self.pairs_, *([self.triples_] if hasattr(self, "triples_") else [])):
            fields = rows.dtype.names or ()
            columns = {titles.get(f, f): names[rows[f]] if f in titles else rows[f] for f in fields}
            frames.append(pandas.DataFrame(columns))
        return pandas.concat(frames, ignore_index=True)


def _write_progress(done: int, total: int) -> None:
    sys.stderr.write(f"\r[InteractionScan] {done}/{total} tiles" + ("\n" if done == total else ""))
    sys.stderr.flush()
