"""`InteractionScan`: validates, calls the mathematics of interactions, sets attributes."""

import sys
import warnings
from collections.abc import Callable
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar

import numpy as np
from scipy.stats import false_discovery_control

from randsel._numerics.arrays import check_device, remote_table, to_numpy
from randsel._numerics.fingerprint import fingerprint
from randsel._numerics.rank_functions import sorted_rank_functions
from randsel._sklearn.base import Selector, ranking
from randsel._sklearn.progress import Steps, fit_task
from randsel._sklearn.validation import (
    Interval,
    RealNotInt,
    StrOptions,
    categories_to_codes,
    check_data,
    check_number_to_select,
    check_strata,
    counted_rows,
    fit_context,
    nominal_columns,
)
from randsel._utils.checkpoint import opened
from randsel._utils.typing import Array
from randsel.interactions._evidence import (
    DEFAULT_DECAY,
    DEFAULT_FUNCTIONS,
    Design,
    degrees_of_freedom,
    functions_in_triples,
    log_number_of_sets,
    max_functions,
)
from randsel.interactions._forward_selection import ScanResult, scan_interactions
from randsel.targets._kinds import KINDS

#: Pairs reported if no number is given.
PAIRS = 1000
#: What the parts of a scan are made of.
BLOCKS = {"pairs": "tile", "triples": "first feature", "forward steps": "forward step"}
#: Multiplications that a scan of triples may take: some minutes on one core.
TRIPLE_BUDGET = 1e12


class InteractionScan(Selector):
    """Test every feature alone and with every other one: p-values, partners, and a selection with an error rate.

    Features are compared by their ranks, so that monotone transforms and outliers do not matter. The target's
    dependence on a few smooth functions of each feature, and on the products of those of two, is tested against the
    target being exchangeable between samples. Main effects are taken out before pairs are looked at.

    Parameters
    ----------
    n_features_to_select : int or float in (0, 1], default=None
        How many features, or which share of them, to select.
    alpha : float in (0, 1), default=None
        Select only features of at most this q-value. If neither is given, 0.05; if both are, the features must
        satisfy both.
    n_functions : int or "auto", default="auto"
        Functions of each feature: with more, finer structure is seen, with fewer, smooth effects are seen better.
        "auto" is six, or fewer below 145 samples.
    decay : float in (0, 1], default=0.9
        Weight of each function relative to the one before.
    order : {1, 2, 3}, default=2
        Largest set of features to test: 1 tests main effects only, 3 all triples too, if they are few enough.
    n_pairs : int, default=None
        How many pairs (and triples) to report: memory grows with it. 1000, or all if there are fewer.
    categorical_features : "from_dtype", array of names, indices or bool, or None, default="from_dtype"
        Columns whose values are names of levels, without order. "from_dtype" takes the categorical columns of a data
        frame. Columns of few distinct numbers need not be named: their order is used.
    target : {"auto", "classification", "regression"}, default="auto"
        Meaning of y. "auto" takes text, and whole numbers of at most 20 values, for classes.
    device : str or None, default=None
        Where the pairs are scanned: "cpu", "cuda", "cuda:1". None: where X is, as in `RandSel`. On a GPU the scan is
        done in half precision; what it finds is tested on the host, in double precision.
    n_jobs : int, default=None
        Threads. The answer does not depend on it.
    checkpoint : str, path or None, default=None
        Folder to keep the scan of pairs and triples in. If the fit is interrupted, however that may be, the same fit
        goes on from there and ends as if it had not been; what is lost is the row of tiles (512 features with all that
        come after them, more on a GPU) under way, and what was done in the last five seconds. A folder of other data
        or other parameters is refused; `n_features_to_select`, `alpha`, `n_jobs` and `verbose` may change.
    verbose : int or callable, default=0
        1 writes the progress of the scan to standard error; a function is called with the tiles done and in all.

    Attributes
    ----------
    pvalues_, qvalues_ : ndarray of float
        Per feature, of its main effect or its best pair, corrected for the number of pairs looked at; q-values by
        Benjamini and Hochberg.
    main_pvalues_ : ndarray of float
        Of the main effects, not corrected.
    left_pvalues_ : ndarray of float
        Product of main effect's and best pair's, in what the features taken in by forward steps leave unexplained; for
        ranking, not a test.
    partner_ : ndarray of int
        Column of the feature with which each one makes its best pair; -1 if there is none.
    partner_pvalues_ : ndarray of float
        Of that pair, not corrected.
    pairs_ : structured ndarray
        Best pairs: `i`, `j`, `statistic`, `p`, `p_corrected` (by the number of all pairs), and `step`, at which of the
        forward steps the pair was taken in (0: never, better features or pairs explain it).
    triples_ : structured ndarray
        Likewise with `k`, if `order=3`.
    taken_ : ndarray of int
        Columns that forward steps took in, in that order: each stood out, after correction for all that was looked at,
        from what those before it left unexplained.
    top_ : ndarray of int
        The first 20 columns of the ranking by evidence.
    top_pvalues_ : ndarray of float
        P-values of all pairs among those, and of their main effects on the diagonal; not corrected.
    support_, ranking_, order_ : ndarray
        Selected features; 1 for those and 2, 3, … for the others; all columns, best first. First come the features
        that forward steps took in, each for what those before it leave unexplained, then the others by the smaller
        of `pvalues_` and `left_pvalues_`.
    n_features_, n_functions_ : int
        Selected features; functions per feature.
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
        "n_features_to_select": [
            Interval(Integral, 1, None, closed="left"),
            Interval(RealNotInt, 0, 1, closed="right"),
            None,
        ],
        "alpha": [Interval(Real, 0, 1, closed="neither"), None],
        "n_functions": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "decay": [Interval(Real, 0, 1, closed="right")],
        "order": [Interval(Integral, 1, 3, closed="both")],
        "n_pairs": [Interval(Integral, 1, None, closed="left"), None],
        "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
        "target": [StrOptions({"auto", *KINDS})],
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
        self.target = target
        self.device = device
        self.n_jobs = n_jobs
        self.checkpoint = checkpoint
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, batch: Any = None
    ) -> "InteractionScan":
        """Test and select features.

        Parameters
        ----------
        X : array, data frame or Dask array of shape (n_samples, n_features)
            Numbers, or categories of a data frame; no missing values.
        y : array of shape (n_samples,) or (n_samples, n_outputs)
            Class labels, numbers, or several columns of numbers.
        sample_weight : array of shape (n_samples,), default=None
            How much each sample counts; samples of weight zero are left out.
        groups, batch : array of shape (n_samples,), default=None
            Strata, such as donors or sub-studies: the target is compared within them only, so that what differs
            between them is no evidence.

        Returns
        -------
        InteractionScan
            This estimator, fitted.
        """
        X, found = categories_to_codes(X)
        X, y, kind, weights = check_data(self, X, y, sample_weight, self.target)
        names = getattr(self, "feature_names_in_", None)
        nominal = nominal_columns(self.categorical_features, found, X.shape[1], names)
        strata = check_strata(y, weights, groups=groups, batch=batch)
        if weights is not None and strata is not None:
            strata = np.unique(strata[weights > 0.0], return_inverse=True)[1]
        X, y, weights = counted_rows(X, y, weights)
        X, device = self._placed(X)
        wanted = (
            None if self.n_features_to_select is None else check_number_to_select(self.n_features_to_select, X.shape[1])
        )
        share = np.ones(len(X)) if weights is None else weights / weights.mean()
        self.n_functions_ = self._number_of_functions(len(X), strata)
        functions, order = self._functions(X, share, nominal)
        Y = kind.contrasts(y, share, strata)
        if not Y.shape[1]:
            msg = "y hardly varies under sample_weight and within strata, so there is nothing to explain; check them."
            raise ValueError(msg)
        self._check_sizes(len(X), len(order))
        design = Design(
            float(self.decay) ** np.arange(self.n_functions_),
            Y,
            share,
            strata,
            self.n_jobs,
            device,
        )
        show = self.verbose if callable(self.verbose) else _write_progress if self.verbose else None
        identity = None
        if self.checkpoint is not None:
            parameters = {"functions": self.n_functions_, "decay": self.decay, "order": self.order, "device": device}
            parameters |= {"n_pairs": self.n_pairs or PAIRS, "target": kind.name}
            data = fingerprint(X, y, weights, strata, nominal)
            identity = {"estimator": "InteractionScan", "data_hash": data, "parameters": parameters}
        with opened(self.checkpoint, identity) as kept, fit_task(self, self.order + 1) as task:
            parts = Steps(task)

            def report(part: str, done: int, total: int) -> None:
                if part != parts.name:
                    parts.end()
                    parts.begin(part, total, BLOCKS.get(part, ""))
                for _ in range(done - parts.done):
                    parts.block_done()
                if show is not None and part == "pairs" and done:
                    show(done, total)

            analysis = scan_interactions(functions, design, self.n_pairs or PAIRS, self.order, report, kept)
            parts.end()
            self._set_attributes(analysis, order, X.shape[1])
            self._select(order[analysis.order], X.shape[1], wanted)
        return self

    def _placed(self, X: Any) -> tuple[Any, str | None]:
        """Return X where its functions are made, and the device that pairs are scanned on."""
        if remote_table(X) is None:
            return to_numpy(X), check_device(self.device, X)
        if self.order == 3 or self.device not in (None, "cpu"):
            msg = "A Dask array needs order=1 or 2 and no device; for other choices pass an array in memory."
            raise ValueError(msg)
        return X, None

    def _functions(self, X: Any, share: Array, nominal: Array) -> tuple[Any, Array]:
        """Return functions of the columns that have any, and which those are."""
        if (remote := remote_table(X)) is not None:
            return remote.rank_functions(self.n_functions_, share, nominal)
        return sorted_rank_functions(X, self.n_functions_, share, nominal)

    def _number_of_functions(self, m: int, strata: Array | None) -> int:
        freedom = degrees_of_freedom(m, strata)
        most = max_functions(freedom)
        if self.n_functions == "auto":
            return min(DEFAULT_FUNCTIONS, most)
        asked = int(self.n_functions)
        if asked > most:
            warnings.warn(
                f"n_functions={asked} makes {asked**2} products of two features, too many for {freedom} degrees of "
                f"freedom; {most} are used.",
                UserWarning,
                stacklevel=4,
            )
        return min(asked, most)

    def _check_sizes(self, m: int, n: int) -> None:
        if n == 0:
            msg = (
                "No column of X has two levels of enough samples, so there is nothing to test; check how the table was "
                "read."
            )
            raise ValueError(msg)
        if self.order > 1 and self.n_pairs is not None and self.n_pairs > n * (n - 1) // 2:
            warnings.warn(
                f"n_pairs={self.n_pairs} but {n} features that vary make {n * (n - 1) // 2} pairs; all are reported.",
                UserWarning,
                stacklevel=4,
            )
        if self.order == 3:
            triples = n * (n - 1) * (n - 2) // 6
            work = triples * m * functions_in_triples(m, self.n_functions_) ** 3
            if work > TRIPLE_BUDGET:
                fitting = int(n * (TRIPLE_BUDGET / work) ** (1 / 3))
                msg = (
                    f"order=3 on {n} features and {m} samples means {triples} triples and {work:.1e} multiplications, "
                    f"more than the budget of {TRIPLE_BUDGET:.0e}; select at most {fitting} features first, or use "
                    "order=2."
                )
                raise ValueError(msg)

    def _set_attributes(self, analysis: ScanResult, order: Array, n_features: int) -> None:
        def spread_out(values: Array, absent: float) -> Array:
            full = np.full(n_features, absent, dtype=values.dtype)
            full[order] = values
            return full

        self.pvalues_ = spread_out(np.exp(analysis.log_p), 1.0)
        self.left_pvalues_ = spread_out(np.exp(np.minimum(analysis.residual_log_p, 0.0)), 1.0)
        self.qvalues_ = np.asarray(false_discovery_control(self.pvalues_))
        self.main_pvalues_ = spread_out(np.exp(np.minimum(analysis.main.log_p, 0.0)), 1.0)
        partner, log_p = analysis.partners()
        self.partner_ = spread_out(np.where(partner >= 0, order[partner], -1), -1)
        self.partner_pvalues_ = spread_out(np.exp(log_p), 1.0)
        self.taken_ = order[analysis.taken]
        self.top_ = order[analysis.order[: len(analysis.top_log_p)]]
        self.top_pvalues_ = np.exp(np.minimum(analysis.top_log_p, 0.0))
        self.pairs_ = self._table(analysis, 2, order)
        self.__dict__.pop("triples_", None)
        if self.order == 3:
            self.triples_ = self._table(analysis, 3, order)

    def _table(self, analysis: ScanResult, size: int, order: Array) -> Array:
        names = ["i", "j", "k"][:size]
        fields: list[tuple[str, Any]] = [(name, np.intp) for name in names]
        fields += [("statistic", float), ("p", float), ("p_corrected", float), ("step", np.intp)]
        if size not in analysis.sets:
            return np.zeros(0, dtype=fields)
        count = min(self.n_pairs or PAIRS, len(analysis.sets[size]))
        found, log_p = analysis.evidence[size], np.minimum(analysis.evidence[size].log_p[:count], 0.0)
        table = np.zeros(count, dtype=fields)
        for name, column in zip(names, np.sort(order[analysis.sets[size][:count]], axis=1).T, strict=True):
            table[name] = column
        table["statistic"] = found.statistic[:count]
        table["p"] = np.exp(log_p)
        table["p_corrected"] = np.exp(np.minimum(log_p + log_number_of_sets(len(order), size), 0.0))
        table["step"] = analysis.steps[size][:count]
        return table

    def _select(self, order: Array, n_features: int, wanted: int | None) -> None:
        alpha = 0.05 if self.alpha is None and wanted is None else self.alpha
        first = order if wanted is None else order[:wanted]
        chosen = first if alpha is None else first[self.qvalues_[first] <= alpha]
        if wanted is not None and alpha is not None and len(chosen) < wanted:
            warnings.warn(
                f"{len(chosen)} features are selected, not {wanted}: only those of the first {wanted} with a q-value "
                f"of at most {alpha:g}; leave alpha out to get {wanted} whatever their q-values.",
                UserWarning,
                stacklevel=4,
            )
            wanted = len(chosen)
        order = np.concatenate([chosen, order[~np.isin(order, chosen)]])
        self.order_, self.ranking_ = ranking(order, n_features, len(chosen) if wanted is None else wanted)
        self.support_ = self.ranking_ == 1
        self.n_features_ = int(self.support_.sum())


def _write_progress(done: int, total: int) -> None:
    sys.stderr.write(f"\r[InteractionScan] {done}/{total} tiles" + ("\n" if done == total else ""))
    sys.stderr.flush()
